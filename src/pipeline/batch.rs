//! `Batch`: the unit that moves between tasks.
//!
//! A batch is one run of whole data frames exactly as they stand on the wire, `(u32be len ‖ payload)*`, in one
//! reference-counted buffer. To relay it, to store it or to fan it out is to write this slice again; nothing is copied and
//! nothing is encoded anew. A clone costs one reference count.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;

use crate::fstrm::Frames;
use crate::ids::ConnId;
use crate::pipeline::acks::Receipt;

/// Where a batch came from. One per connection, shared by all its batches.
#[derive(Debug)]
pub struct Origin {
    /// The connection's number, as in the log.
    pub conn: ConnId,
    /// The listener's name from the configuration.
    pub listener: Arc<str>,
    /// The peer's address, or for a Unix socket what is known of it (`uid=… pid=…`).
    pub peer: String,
}

/// A run of whole data frames with where and when it came.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The connection it came over.
    pub origin: Arc<Origin>,
    /// When the read that completed it returned.
    pub received: SystemTime,
    bytes: Bytes,
    frames: usize,
    receipt: Option<Receipt>,
}

impl Batch {
    /// Wraps `bytes`, which hold exactly `frames` whole data frames (the decoder has counted them).
    pub fn new(origin: Arc<Origin>, received: SystemTime, bytes: Bytes, frames: usize) -> Self {
        Self {
            origin,
            received,
            bytes,
            frames,
            receipt: None,
        }
    }

    /// The same, whose sender is told when it is taken.
    #[must_use]
    pub fn with_receipt(mut self, receipt: Option<Receipt>) -> Self {
        self.receipt = receipt;
        self
    }

    /// What must be held until the frames are where they belong, if anybody wants to know.
    pub fn receipt(&self) -> Option<&Receipt> {
        self.receipt.as_ref()
    }

    /// The frames are lost; see [`Receipt::lose`].
    pub fn lose(&self) {
        if let Some(receipt) = &self.receipt {
            receipt.lose();
        }
    }

    /// Other frames of this batch, such as a part of it.
    #[must_use]
    pub fn part(&self, bytes: Bytes, frames: usize) -> Self {
        Self {
            origin: self.origin.clone(),
            received: self.received,
            bytes,
            frames,
            receipt: self.receipt.clone(),
        }
    }

    /// The wire bytes: length prefixes and payloads.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Size on the wire in bytes, length prefixes included.
    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Number of data frames.
    pub fn frame_count(&self) -> usize {
        self.frames
    }

    /// The payloads, in order.
    pub fn payloads(&self) -> Frames<'_> {
        Frames::new(&self.bytes)
    }
}
