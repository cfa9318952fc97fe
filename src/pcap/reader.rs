//! Reads classic pcap and pcapng files, one packet at a time, in bounded memory.
//!
//! Sources: the pcap and pcapng drafts of the IETF opsawg working group (draft-ietf-opsawg-pcap,
//! draft-ietf-opsawg-pcapng). Section and field names below are theirs.

use std::io::Read;

use super::error::PcapError;
use super::octets::{ByteOrder, chunk};
use super::pcapng::Sections;
use super::window::{Packing, Window};

/// Limits on what a capture file may claim before it counts as damaged.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    /// Longest packet, in captured octets. The default, 262,144, is the largest snapshot length that capture tools use.
    pub packet_len_max: usize,
    /// Longest pcapng block of a kind that has to be held whole (section, interface, packet), in octets; 1 MiB by
    /// default. Blocks of other kinds are passed over in pieces, whatever their length.
    pub block_len_max: usize,
    /// Most interfaces in one pcapng section; 4,096 by default.
    pub interfaces_max: usize,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self {
            packet_len_max: 256 * 1024,
            block_len_max: 1024 * 1024,
            interfaces_max: 4096,
        }
    }
}

/// The kind of capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Classic pcap.
    Pcap {
        /// Order of the file's numbers.
        order: ByteOrder,
        /// Times in nanoseconds instead of microseconds.
        nanoseconds: bool,
    },
    /// pcapng; each of its sections has its own byte order and each interface its own time resolution.
    PcapNg,
}

/// One captured packet, lent until the next one is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Capture time in nanoseconds since the start of 1970. A packet without a time of its own (pcapng's Simple
    /// Packet Block) has that of the packet before it.
    pub time_ns: u64,
    /// LINKTYPE number of the interface, which says how `data` begins (see [`LinkType`](super::LinkType)).
    pub link: u32,
    /// The captured octets.
    pub data: &'a [u8],
    /// Length on the wire, in octets; more than `data` holds when the snapshot length cut the packet.
    pub wire_len: u32,
}

impl Packet<'_> {
    /// Whether the capture holds less of the packet than was on the wire.
    pub fn is_truncated(&self) -> bool {
        (self.wire_len as usize) > self.data.len()
    }
}

/// Where the next packet's octets are in the window, and what its header said.
pub(super) struct Found {
    pub(super) time_ns: u64,
    pub(super) link: u32,
    pub(super) wire_len: u32,
    /// Octets of header before the packet in the window.
    pub(super) skip: usize,
    /// Captured length.
    pub(super) len: usize,
    /// Octets of the window that this packet takes in all.
    pub(super) whole: usize,
}

enum State {
    Pcap(Classic),
    PcapNg(Sections),
}

/// A streaming reader of packets. gzip and zstd input is recognised and read as it is.
///
/// Memory: the window (256 KiB, at most the larger of the two length limits) and, for pcapng, 32 octets an interface.
pub struct Reader<R: Read> {
    window: Window<R>,
    state: State,
    limits: ReadLimits,
    /// Octets of the window that the packet last given out occupies.
    lent: usize,
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Opens a capture with the default limits.
    ///
    /// # Errors
    /// When the input cannot be read or is no capture.
    pub fn new(input: R) -> Result<Self, PcapError> {
        Self::with_limits(input, ReadLimits::default())
    }

    /// Opens a capture.
    ///
    /// # Errors
    /// When the input cannot be read or is no capture.
    pub fn with_limits(input: R, limits: ReadLimits) -> Result<Self, PcapError> {
        let mut window =
            Window::new(input).map_err(|source| PcapError::Io { offset: 0, source })?;
        need(&mut window, 4)?;
        let magic: Vec<u8> = window.unread().iter().copied().take(4).collect();
        let state = match magic.first_chunk::<4>().copied() {
            Some(super::pcapng::SECTION_HEADER) => State::PcapNg(Sections::default()),
            Some(magic4) => match Classic::of_magic(magic4) {
                Some(classic) => State::Pcap(classic.read_header(&mut window)?),
                None => return Err(PcapError::NotACapture { magic }),
            },
            None => return Err(PcapError::NotACapture { magic }),
        };
        Ok(Self {
            window,
            state,
            limits,
            lent: 0,
            ended: false,
        })
    }

    /// The kind of file.
    pub fn format(&self) -> Format {
        match &self.state {
            State::Pcap(classic) => Format::Pcap {
                order: classic.order,
                nanoseconds: classic.nanoseconds,
            },
            State::PcapNg(_) => Format::PcapNg,
        }
    }

    /// How the input is packed.
    pub fn packing(&self) -> Packing {
        self.window.packing()
    }

    /// Octets of the (decompressed) capture that have been read, up to and including the packet last given out.
    pub fn offset(&self) -> u64 {
        self.window.offset() + self.lent as u64
    }

    /// The next packet, or `None` at the end of the capture and after an error.
    ///
    /// # Errors
    /// When the capture is damaged or cannot be read on; all packets before that point have been given out.
    #[allow(
        clippy::should_implement_trait,
        reason = "lends from the reader, which an Iterator cannot"
    )]
    pub fn next(&mut self) -> Result<Option<Packet<'_>>, PcapError> {
        self.window.consume(std::mem::take(&mut self.lent));
        if self.ended {
            return Ok(None);
        }
        let found = match &mut self.state {
            State::Pcap(classic) => classic.find(&mut self.window, &self.limits),
            State::PcapNg(sections) => sections.find(&mut self.window, &self.limits),
        };
        let Ok(Some(found)) = found else {
            self.ended = true;
            return found.map(|_| None);
        };
        self.lent = found.whole;
        let end = found.skip.saturating_add(found.len);
        let data = self
            .window
            .unread()
            .get(found.skip..end)
            .unwrap_or_default();
        Ok(Some(Packet {
            time_ns: found.time_ns,
            link: found.link,
            data,
            wire_len: found.wire_len,
        }))
    }
}

/// Fills the window and names the failure; returns how many octets are there, at most `want`.
pub(super) fn need<R: Read>(window: &mut Window<R>, want: usize) -> Result<usize, PcapError> {
    window.fill(want).map_err(|source| PcapError::Io {
        offset: window.offset(),
        source,
    })
}

/// Fills the window with all of `want`, where an end of the input before that is an error.
pub(super) fn need_all<R: Read>(
    window: &mut Window<R>,
    want: usize,
    what: &'static str,
) -> Result<(), PcapError> {
    let have = need(window, want)?;
    if have < want {
        return Err(PcapError::Truncated {
            offset: window.offset(),
            what,
            want: want as u64,
            have: have as u64,
        });
    }
    Ok(())
}

/// The classic format: a header of 24 octets, then a header of 16 (or 24) octets before each packet.
struct Classic {
    order: ByteOrder,
    nanoseconds: bool,
    /// Octets of a packet header: 16, or 24 in the variant of old patched kernels (magic `a1b2cd34`).
    packet_header_len: usize,
    /// How the two lengths of a packet header are to be read, by the file's version.
    lengths: Lengths,
    link: u32,
}

/// Before version 2.3 the two lengths of a packet header stood the other way round; files of 2.3 exist in both ways,
/// and there the captured length is the smaller one (libpcap's `sf-pcap.c` reads them so).
#[derive(Clone, Copy)]
enum Lengths {
    CapturedFirst,
    WireFirst,
    SmallerIsCaptured,
}

impl Classic {
    const HEADER_LEN: usize = 24;

    fn of_magic(magic: [u8; 4]) -> Option<Self> {
        let new = |order, nanoseconds, packet_header_len| {
            Some(Self {
                order,
                nanoseconds,
                packet_header_len,
                lengths: Lengths::CapturedFirst,
                link: 0,
            })
        };
        let of = |number: u32, order| match number {
            0xa1b2_c3d4 => new(order, false, 16),
            0xa1b2_3c4d => new(order, true, 16),
            0xa1b2_cd34 => new(order, false, 24),
            _ => None,
        };
        of(u32::from_be_bytes(magic), ByteOrder::Big)
            .or_else(|| of(u32::from_le_bytes(magic), ByteOrder::Little))
    }

    fn read_header<R: Read>(mut self, window: &mut Window<R>) -> Result<Self, PcapError> {
        need_all(window, Self::HEADER_LEN, "the file header")?;
        let header: [u8; Self::HEADER_LEN] =
            chunk(window.unread(), 0).unwrap_or([0; Self::HEADER_LEN]);
        let major = self.order.u16(&header, 4).unwrap_or(0);
        let minor = self.order.u16(&header, 6).unwrap_or(0);
        if major != 2 {
            return Err(PcapError::Version {
                offset: 0,
                major,
                minor,
            });
        }
        self.lengths = match minor {
            0..=2 => Lengths::WireFirst,
            3 => Lengths::SmallerIsCaptured,
            _ => Lengths::CapturedFirst,
        };
        // The upper half of the field holds the length of the frame check sequence; the link type is the lower half.
        self.link = self.order.u32(&header, 20).unwrap_or(0) & 0xffff;
        window.consume(Self::HEADER_LEN);
        Ok(self)
    }

    fn find<R: Read>(
        &self,
        window: &mut Window<R>,
        limits: &ReadLimits,
    ) -> Result<Option<Found>, PcapError> {
        if need(window, 1)? == 0 {
            return Ok(None);
        }
        need_all(window, self.packet_header_len, "a packet header")?;
        let header: [u8; 16] = chunk(window.unread(), 0).unwrap_or([0; 16]);
        let field = |at| self.order.u32(&header, at).unwrap_or(0);
        let (len, wire_len) = match (self.lengths, field(8), field(12)) {
            (Lengths::CapturedFirst, captured, wire) => (captured, wire),
            (Lengths::WireFirst, wire, captured) => (captured, wire),
            (Lengths::SmallerIsCaptured, a, b) => (a.min(b), a.max(b)),
        };
        if len as usize > limits.packet_len_max {
            return Err(PcapError::PacketTooLong {
                offset: window.offset(),
                len: len.into(),
                max: limits.packet_len_max as u64,
            });
        }
        let whole = self.packet_header_len + len as usize;
        need_all(window, whole, "a packet")?;
        let fraction = u64::from(field(4)) * if self.nanoseconds { 1 } else { 1000 };
        Ok(Some(Found {
            time_ns: u64::from(field(0)) * 1_000_000_000 + fraction,
            link: self.link,
            wire_len,
            skip: self.packet_header_len,
            len: len as usize,
            whole,
        }))
    }
}
