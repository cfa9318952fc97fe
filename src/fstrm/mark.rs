//! Acknowledged delivery: what is said beside Frame Streams when the receiver answers for the frames it takes.
//!
//! # The wire form
//! A bidirectional stream whose content type is [`ContentType::DNSTAP_ACK`](super::ContentType::DNSTAP_ACK), `protobuf:dnstap.Dnstap+ack`. A sender offers
//! it in READY beside `protobuf:dnstap.Dnstap`, and the receiver chooses: one that knows only the plain type takes that,
//! and the stream is then an ordinary one. The data frames are the same in both. On an acknowledged stream three control
//! frames are added, of types that are free in Frame Streams; their fields are fixed, big-endian, without field headers:
//! ```text
//!   BATCH  →   00000000 | 00000020 | 74617001 | instance (16 octets) | sequence (u64) | frames (u32)
//!   TAKEN  ←   00000000 | 0000000c | 74617002 | frames (u64)
//!   LEAVE  ←   00000000 | 00000004 | 74617003
//!
//!   READY(+ack, plain) →  ← ACCEPT(+ack)  START(+ack) →  (BATCH data* →)*  ← TAKEN*  [← LEAVE]  STOP →  ← TAKEN  ← FINISH
//! ```
//! * **BATCH** goes before the data frames of a batch and says how many they are, one at least. `instance` is a random
//!   number of the sender's output, made when it starts; `sequence` numbers its batches. The two name the batch: whenever it
//!   is sent again, on this stream or another, to this receiver or another, it has the same name and the same frames in the
//!   same order.
//! * **TAKEN** says how many data frames of this stream, from its first on, the receiver's outputs have taken; it never goes
//!   down, and counts in the order of the stream. A receiver may put many batches into one TAKEN.
//! * **LEAVE** says that the receiver is about to end and wants no more: the sender ends the batch it is writing and says
//!   STOP. Whatever has been sent is still taken and acknowledged.
//! * **STOP** is answered with FINISH only when all frames of the stream have been taken, and after the TAKEN that says so.
//!
//! *Taken* means: written by every output of the receiver as that output understands it (a file output has handed it to the
//! operating system, and with `sync` to the disk; a forward has handed it to the next collector's connection), or filtered
//! out by a stage, or dropped by a rule of the receiver that sending again would not change (a queue whose policy drops, a
//! frame that a format cannot hold). The receiver's own ledger says which. Frames that the receiver lost to a failing output
//! or to its own end are not taken: it ends the stream without acknowledging them.
//!
//! The sender keeps each batch until TAKEN has passed its last frame. When a stream ends before that, it sends the batch
//! again elsewhere. So each frame is delivered at least once. A receiver remembers the names of the last batches it has seen
//! ([`pipeline::acks`](crate::pipeline::acks)) with the number of frames of each, and takes of one that comes again only
//! what it has not had; it counts the rest as duplicates, and acknowledges them when their first copies are taken.

use crate::wire::Reader;

const BATCH: u32 = 0x7461_7001;
const TAKEN: u32 = 0x7461_7002;
const LEAVE: u32 = 0x7461_7003;

/// Octets of the longest mark on the wire, BATCH with escape and length.
pub const MARK_LEN_MAX: usize = 40;

/// The name of a batch: unique, since each sending output has a random instance number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchId {
    /// Who made it.
    pub instance: u128,
    /// Its number there.
    pub sequence: u64,
}

/// A control frame of acknowledged delivery; see the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    /// So many data frames follow, which are this batch.
    Batch {
        /// Its name.
        id: BatchId,
        /// Its data frames.
        frames: u32,
    },
    /// So many data frames of the stream are taken.
    Taken(u64),
    /// The receiver wants no more.
    Leave,
}

impl Mark {
    /// The control type on the wire.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::Batch { .. } => BATCH,
            Self::Taken(_) => TAKEN,
            Self::Leave => LEAVE,
        }
    }

    /// The name, upper case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Batch { .. } => "BATCH",
            Self::Taken(_) => "TAKEN",
            Self::Leave => "LEAVE",
        }
    }

    /// The mark of a control frame of type `code` with these octets after it; `None` when it is none, or not well formed.
    #[must_use]
    pub fn parse(code: u32, fields: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(fields);
        let mark = match code {
            BATCH => {
                let instance = u128::from_be_bytes(reader.array()?);
                let sequence = reader.u64()?;
                let frames = reader.u32()?;
                let id = BatchId { instance, sequence };
                (frames > 0).then_some(Self::Batch { id, frames })?
            }
            TAKEN => Self::Taken(reader.u64()?),
            LEAVE => Self::Leave,
            _ => return None,
        };
        reader.is_empty().then_some(mark)
    }

    /// Appends what follows the control type on the wire.
    pub(super) fn encode_fields(self, out: &mut Vec<u8>) {
        match self {
            Self::Batch { id, frames } => {
                out.extend_from_slice(&id.instance.to_be_bytes());
                out.extend_from_slice(&id.sequence.to_be_bytes());
                out.extend_from_slice(&frames.to_be_bytes());
            }
            Self::Taken(frames) => out.extend_from_slice(&frames.to_be_bytes()),
            Self::Leave => {}
        }
    }

    /// Octets of its fields.
    pub(super) const fn fields_len(self) -> usize {
        match self {
            Self::Batch { .. } => 28,
            Self::Taken(_) => 8,
            Self::Leave => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fstrm::{Control, ControlKind};

    #[test]
    fn marks_read_back_and_cut_or_longer_ones_are_controls_without_a_meaning() {
        let id = BatchId {
            instance: u128::MAX - 5,
            sequence: 7 << 40,
        };
        for mark in [
            Mark::Batch { id, frames: 3 },
            Mark::Taken(1 << 33),
            Mark::Leave,
        ] {
            let bytes = Control::plain(ControlKind::Mark(mark)).to_bytes();
            assert!(bytes.len() <= MARK_LEN_MAX);
            let body = &bytes[8..];
            assert_eq!(Control::parse(body).unwrap().kind, ControlKind::Mark(mark));
            for cut in 4..body.len() {
                let cut = Control::parse(&body[..cut]).unwrap();
                assert_eq!(cut.kind, ControlKind::Unknown(mark.code()));
            }
            let longer = [body, &[0]].concat();
            assert_eq!(
                Control::parse(&longer).unwrap().kind,
                ControlKind::Unknown(mark.code())
            );
        }
        let empty = Control::plain(ControlKind::Mark(Mark::Batch { id, frames: 0 })).to_bytes();
        assert!(matches!(
            Control::parse(&empty[8..]).unwrap().kind,
            ControlKind::Unknown(_)
        ));
    }
}
