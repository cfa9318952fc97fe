//! What waits to be written: control frames in a list of their own, and data in the order it was queued.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::frame::{Flags, Header, Kind};

/// Payloads up to this many octets are copied behind their header; longer ones are slices of their own.
const COPIED: usize = 1024;

/// Octets that are written in one piece.
#[derive(Debug, Clone)]
pub struct Segment {
    /// The octets.
    pub octets: Bytes,
    /// Whether a frame ends where they end, so that a control frame may follow.
    pub ends_frame: bool,
}

/// What was queued up to some moment; control frames come first.
#[derive(Debug, Default)]
pub struct Batch {
    /// In the order of writing.
    pub segments: VecDeque<Segment>,
    /// Streams whose end stands among them.
    pub(super) ends: Vec<u32>,
}

impl Batch {
    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Puts control frames in at the next end of a frame, which is here where `at_boundary`.
    pub(super) fn insert_control(&mut self, octets: Bytes, at_boundary: bool) {
        let at = match self.segments.iter().position(|s| s.ends_frame) {
            _ if at_boundary => 0,
            Some(end) => end + 1,
            None => self.segments.len(),
        };
        let segment = Segment {
            octets,
            ends_frame: true,
        };
        self.segments.insert(at, segment);
    }
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    control: BytesMut,
    open: BytesMut,
    data: VecDeque<Segment>,
    queued: usize,
    ends: Vec<u32>,
}

impl Outgoing {
    pub(super) fn control(&mut self, header: Header) {
        self.control.extend_from_slice(&header.encode());
    }

    pub(super) fn control_len(&self) -> usize {
        self.control.len()
    }

    /// Octets of data that wait, headers not counted.
    pub(super) const fn queued(&self) -> usize {
        self.queued
    }

    pub(super) fn is_empty(&self) -> bool {
        self.control.is_empty() && self.open.is_empty() && self.data.is_empty()
    }

    /// A frame that keeps its place among data.
    pub(super) fn in_order(&mut self, header: Header) {
        self.open.extend_from_slice(&header.encode());
    }

    pub(super) fn end(&mut self, stream: u32, header: Header) {
        self.in_order(header);
        self.ends.push(stream);
    }

    pub(super) fn data(&mut self, stream: u32, flags: Flags, payload: Bytes) {
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        self.in_order(Header::new(Kind::Data, flags, stream, length));
        self.queued += payload.len();
        if payload.len() <= COPIED {
            self.open.extend_from_slice(&payload);
        } else {
            self.seal(false);
            self.data.push_back(Segment {
                octets: payload,
                ends_frame: true,
            });
        }
    }

    fn seal(&mut self, ends_frame: bool) {
        if !self.open.is_empty() {
            self.data.push_back(Segment {
                octets: self.open.split().freeze(),
                ends_frame,
            });
        }
    }

    pub(super) fn take_control(&mut self) -> Option<Bytes> {
        // Taken whole, so that an idle session keeps no buffer.
        (!self.control.is_empty()).then(|| std::mem::take(&mut self.control).freeze())
    }

    pub(super) fn take(&mut self) -> Batch {
        self.seal(true);
        self.open = BytesMut::new();
        let mut segments = std::mem::take(&mut self.data);
        if let Some(octets) = self.take_control() {
            segments.push_front(Segment {
                octets,
                ends_frame: true,
            });
        }
        self.queued = 0;
        Batch {
            segments,
            ends: std::mem::take(&mut self.ends),
        }
    }
}
