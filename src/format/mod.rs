//! Records as text: golang-dnstap's one-line form ([`quiet`]), our JSON ([`json`]), what other programs print, chosen fields
//! as columns ([`table`]) or in a line of the user's own making ([`template`]).
//!
//! A writer appends one whole line to a buffer that its caller reuses, so that a record costs no allocation once
//! the buffer has grown. It reads from the borrowed views only, and it takes any octets: what comes out is
//! printable ASCII, one line a record, whatever the names and identities hold.
//!
//! A writer refuses what is no record (see [`DnstapView::classify`]) and appends nothing then; a record whose
//! DNS message is malformed is written, with what could be read.
//!
//! [`DnstapView::classify`]: crate::dnstap::DnstapView::classify
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]

mod choice;
pub mod collector;
pub mod dnstap_read;
mod fuzz;
pub mod golang;
pub mod json;
pub mod ldns;
pub mod pcap;
pub mod quiet;
pub mod raw;
pub mod table;
pub mod template;
pub mod vector;

use std::time::SystemTime;

use crate::dnstap::{DecodeReason, DnstapView};

pub use choice::{Format, FormatError, Kind, Line, NoFormat, Settings, Shape};
pub use fuzz::fuzz_payload;
pub use template::{Template, TemplateError};

/// How a record came to us, as far as that is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Source<'a> {
    /// When the frame was received. `None` when it was read from a file.
    pub received: Option<SystemTime>,
    /// Name of the listener. Empty is absent.
    pub listener: &'a str,
    /// The sender's address on the socket, or a file's name. Empty is absent.
    pub peer: &'a str,
}

/// A frame on its way to a format.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Its octets.
    pub payload: &'a [u8],
    /// What was read from them, or why they are no dnstap. A format of raw octets takes both.
    pub view: Result<&'a DnstapView<'a>, DecodeReason>,
    /// How it came.
    pub source: Source<'a>,
}
