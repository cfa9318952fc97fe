//! The blocks of a pcapng file.
//!
//! ```text
//!   type (4) | total length (4) | body, padded to 4 | total length again (4)
//! ```
//! A Section Header Block sets the byte order and forgets all interfaces; an Interface Description Block adds one;
//! Enhanced, Simple and (obsolete) Packet Blocks carry packets. All other blocks are passed over.

use std::io::Read;

use super::error::PcapError;
use super::octets::{ByteOrder, chunk};
use super::reader::{Found, ReadLimits, need, need_all};
use super::window::Window;

/// Block type of a section header: the same in both byte orders, so that it also is the file's magic.
pub(super) const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const SECTION_HEADER_TYPE: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
const OPTION_TSRESOL: u16 = 9;
const OPTION_TSOFFSET: u16 = 14;
/// Type and length before a block's body.
const BEFORE: usize = 8;
/// The length after it.
const AFTER: usize = 4;

/// How a 64-bit time of an interface becomes nanoseconds (`if_tsresol`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resolution {
    /// Nanoseconds a tick.
    Multiply(u64),
    /// Ticks a nanosecond.
    Divide(u64),
    /// Two to the power of this many ticks a second.
    Shift(u8),
    /// So fine that every 64-bit time is less than a nanosecond.
    BelowNanosecond,
}

impl Resolution {
    const MICROSECONDS: Self = Self::Multiply(1000);

    fn of_option(value: u8) -> Self {
        if value & 0x80 != 0 {
            return Self::Shift(value & 0x7f);
        }
        match value {
            0..=9 => Self::Multiply(10u64.pow(9 - u32::from(value))),
            10..=28 => Self::Divide(10u64.pow(u32::from(value) - 9)),
            _ => Self::BelowNanosecond,
        }
    }

    fn nanoseconds(self, ticks: u64) -> u64 {
        match self {
            Self::Multiply(by) => ticks.saturating_mul(by),
            Self::Divide(by) => ticks.checked_div(by).unwrap_or(0),
            Self::Shift(by) => {
                let ns = (u128::from(ticks) * 1_000_000_000)
                    .checked_shr(by.into())
                    .unwrap_or(0);
                u64::try_from(ns).unwrap_or(u64::MAX)
            }
            Self::BelowNanosecond => 0,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: u32,
    snap_len: u32,
    resolution: Resolution,
    offset_seconds: i64,
}

impl Interface {
    fn time_ns(&self, ticks: u64) -> u64 {
        let ns = self.resolution.nanoseconds(ticks);
        if self.offset_seconds == 0 {
            return ns;
        }
        let ns = i128::from(ns) + i128::from(self.offset_seconds) * 1_000_000_000;
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}

/// State over the sections of one file.
#[derive(Default)]
pub(super) struct Sections {
    order: Option<ByteOrder>,
    interfaces: Vec<Interface>,
    last_time_ns: u64,
}

/// A block's frame: where it begins, its type and its whole length.
struct Block {
    offset: u64,
    kind: u32,
    len: usize,
}

impl Block {
    fn bad(&self, what: &'static str) -> PcapError {
        PcapError::BadBlock {
            offset: self.offset,
            what,
        }
    }
}

impl Sections {
    /// Moves the window to the next packet's block.
    pub(super) fn find<R: Read>(
        &mut self,
        window: &mut Window<R>,
        limits: &ReadLimits,
    ) -> Result<Option<Found>, PcapError> {
        while let Some((block, order)) = self.next_block(window)? {
            let is_packet = matches!(block.kind, ENHANCED_PACKET | SIMPLE_PACKET | PACKET);
            if !is_packet && block.kind != INTERFACE && block.kind != SECTION_HEADER_TYPE {
                skip_block(window, &block, order)?;
                continue;
            }
            if block.len > limits.block_len_max {
                let (len, max) = (block.len as u64, limits.block_len_max as u64);
                return Err(PcapError::BlockTooLong {
                    offset: block.offset,
                    len,
                    max,
                });
            }
            need_all(window, block.len, "a block")?;
            let body_end = block.len - AFTER;
            if order.u32(window.unread(), body_end) != u32::try_from(block.len).ok() {
                return Err(block.bad("the length after it is not the length before it"));
            }
            let body = window.unread().get(BEFORE..body_end).unwrap_or_default();
            match block.kind {
                SECTION_HEADER_TYPE => self.on_section(&block, order, body)?,
                INTERFACE => self.on_interface(&block, order, body, limits)?,
                kind => {
                    let found = self.on_packet(kind, &block, order, body)?;
                    if found.len > limits.packet_len_max {
                        let (len, max) = (found.len as u64, limits.packet_len_max as u64);
                        return Err(PcapError::PacketTooLong {
                            offset: block.offset,
                            len,
                            max,
                        });
                    }
                    return Ok(Some(found));
                }
            }
            window.consume(block.len);
        }
        Ok(None)
    }

    /// Reads type and length of the block at the window, or `None` at the end of the file.
    fn next_block<R: Read>(
        &mut self,
        window: &mut Window<R>,
    ) -> Result<Option<(Block, ByteOrder)>, PcapError> {
        if need(window, 1)? == 0 {
            return Ok(None);
        }
        need_all(window, BEFORE + AFTER, "a block header")?;
        let offset = window.offset();
        let head: [u8; BEFORE + AFTER] = chunk(window.unread(), 0).unwrap_or_default();
        let order = if head.starts_with(&SECTION_HEADER) {
            match chunk(&head, BEFORE).map(u32::from_be_bytes) {
                Some(0x1a2b_3c4d) => ByteOrder::Big,
                Some(0x4d3c_2b1a) => ByteOrder::Little,
                _ => {
                    return Err(PcapError::BadBlock {
                        offset,
                        what: "the byte-order magic of the section is unknown",
                    });
                }
            }
        } else {
            let what = "the file does not begin with a section header";
            self.order.ok_or(PcapError::BadBlock { offset, what })?
        };
        let block = Block {
            offset,
            kind: order.u32(&head, 0).unwrap_or(0),
            len: order.u32(&head, 4).unwrap_or(0) as usize,
        };
        if block.len < BEFORE + AFTER {
            return Err(block.bad("its length is less than 12"));
        }
        if !block.len.is_multiple_of(4) {
            return Err(block.bad("its length is not a multiple of 4"));
        }
        Ok(Some((block, order)))
    }

    fn on_section(
        &mut self,
        block: &Block,
        order: ByteOrder,
        body: &[u8],
    ) -> Result<(), PcapError> {
        let short = || block.bad("a section header needs 16 octets");
        let major = order.u16(body, 4).ok_or_else(short)?;
        let minor = order.u16(body, 6).ok_or_else(short)?;
        // Minor versions 0 and 2 have been written; readers treat them alike.
        if major != 1 {
            return Err(PcapError::Version {
                offset: block.offset,
                major,
                minor,
            });
        }
        self.order = Some(order);
        self.interfaces.clear();
        Ok(())
    }

    fn on_interface(
        &mut self,
        block: &Block,
        order: ByteOrder,
        body: &[u8],
        limits: &ReadLimits,
    ) -> Result<(), PcapError> {
        let short = || block.bad("an interface description needs 8 octets");
        let mut interface = Interface {
            link: order.u16(body, 0).ok_or_else(short)?.into(),
            snap_len: order.u32(body, 4).ok_or_else(short)?,
            resolution: Resolution::MICROSECONDS,
            offset_seconds: 0,
        };
        if self.interfaces.len() >= limits.interfaces_max {
            return Err(PcapError::TooManyInterfaces {
                offset: block.offset,
                max: limits.interfaces_max,
            });
        }
        let mut options = body.get(8..).unwrap_or_default();
        while let (Some(code), Some(len)) = (order.u16(options, 0), order.u16(options, 2)) {
            let len = usize::from(len);
            // Code 0 ends the list; so does an option that runs past the block, since nothing after it can be found.
            let Some(value) = options.get(4..4 + len).filter(|_| code != 0) else {
                break;
            };
            match code {
                OPTION_TSRESOL if len == 1 => {
                    interface.resolution = value
                        .first()
                        .map_or(Resolution::MICROSECONDS, |&v| Resolution::of_option(v));
                }
                OPTION_TSOFFSET if len == 8 => {
                    interface.offset_seconds = order.i64(value, 0).unwrap_or(0)
                }
                _ => {}
            }
            options = options
                .get(4 + len.next_multiple_of(4)..)
                .unwrap_or_default();
        }
        self.interfaces.push(interface);
        Ok(())
    }

    fn on_packet(
        &mut self,
        kind: u32,
        block: &Block,
        order: ByteOrder,
        body: &[u8],
    ) -> Result<Found, PcapError> {
        let short = || block.bad("it is too short for its kind");
        let field = |at| order.u32(body, at).ok_or_else(short);
        // The interface, the octets of fields before the packet, and whether there is a time among them.
        let (id, fields) = match kind {
            SIMPLE_PACKET => (0, 4),
            PACKET => (order.u16(body, 0).ok_or_else(short)?.into(), 20),
            _ => (field(0)?, 20),
        };
        let known = self.interfaces.len();
        let Some(interface) = self.interfaces.get(id as usize) else {
            return Err(PcapError::NoInterface {
                offset: block.offset,
                id,
                known,
            });
        };
        let room = body.len().checked_sub(fields).ok_or_else(short)?;
        let (len, wire_len) = if kind == SIMPLE_PACKET {
            let wire_len = field(0)?;
            let snap_len = if interface.snap_len == 0 {
                u32::MAX
            } else {
                interface.snap_len
            };
            ((wire_len.min(snap_len) as usize).min(room), wire_len)
        } else {
            self.last_time_ns =
                interface.time_ns(u64::from(field(4)?) << 32 | u64::from(field(8)?));
            (field(12)? as usize, field(16)?)
        };
        if len > room {
            return Err(block.bad("the packet in it is longer than the block"));
        }
        Ok(Found {
            time_ns: self.last_time_ns,
            link: interface.link,
            wire_len,
            skip: BEFORE + fields,
            len,
            whole: block.len,
        })
    }
}

/// Passes over a block without holding it.
fn skip_block<R: Read>(
    window: &mut Window<R>,
    block: &Block,
    order: ByteOrder,
) -> Result<(), PcapError> {
    let before_trailer = (block.len - AFTER) as u64;
    let io = |source| PcapError::Io {
        offset: block.offset,
        source,
    };
    let skipped = window.skip(before_trailer).map_err(io)?;
    let have = window.fill(AFTER).map_err(io)?;
    if skipped < before_trailer || have < AFTER {
        let have = skipped + have as u64;
        return Err(PcapError::Truncated {
            offset: block.offset,
            what: "a block",
            want: block.len as u64,
            have,
        });
    }
    if order.u32(window.unread(), 0) != u32::try_from(block.len).ok() {
        return Err(block.bad("the length after it is not the length before it"));
    }
    window.consume(AFTER);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_resolution_becomes_nanoseconds() {
        let rows: &[(u8, u64, u64)] = &[
            (6, 1_700_000_000_123_456, 1_700_000_000_123_456_000),
            (9, 1_700_000_000_123_456_789, 1_700_000_000_123_456_789),
            (3, 1_700_000_000_123, 1_700_000_000_123_000_000),
            (0, 1_700_000_000, 1_700_000_000_000_000_000),
            (12, 1_700_000_000_123_456, 1_700_000_000_123),
            (28, u64::MAX, 1),
            (29, u64::MAX, 0),
            (127, u64::MAX, 0),
            (0x80, 1_700_000_000, 1_700_000_000_000_000_000),
            (0x8a, 1024 + 512, 1_500_000_000),
            (0xff, u64::MAX, 0),
            (0, u64::MAX, u64::MAX),
        ];
        for &(option, ticks, want) in rows {
            assert_eq!(
                Resolution::of_option(option).nanoseconds(ticks),
                want,
                "if_tsresol {option:#x}"
            );
        }
    }
}
