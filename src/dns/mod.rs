//! The DNS message inside a dnstap event: header, first question, EDNS and the message's structure, borrowed.
//!
//! Not a resolver's library: nothing here asks or answers. What it does, it does on octets from anyone, without
//! allocation and with bounded work.
//!
//! | ask | cost | type |
//! |---|---|---|
//! | id, flags, opcode, counts | 12 octets read | [`Header`] |
//! | the first question | one walk over its name | [`DnsView`], [`Question`], [`Name`] |
//! | EDNS, extended rcode | one walk over the records' headers | [`DnsView::edns`], [`DnsView::rcode`] |
//! | every question, every record | one walk over them | [`Questions`], [`Records`], [`Record`] |
//! | a record's data as text | one walk over them | [`present`] |
//! | is the whole message well formed | one walk over everything | [`DnsView::walk`], [`Malformed`] |
//! | letter case, sections, client subnets changed | one walk and a copy | [`edit`] |
//!
//! A message that cannot be read costs only its own fields: a [`DnsError`] names a [`Malformed`] reason from a
//! closed set and the offset of the octet where it shows.
//!
//! One rule for compression pointers (RFC 1035, 4.1.4, says "prior occurrence"): a pointer must go back, to
//! before the part of the name that holds it, and not into the header; and one name follows at most
//! [`name::POINTERS_MAX`] of them. So every walk ends, and a message made of pointers costs time linear in its
//! length. Other readers accept forward pointers or take the header's octets for labels; here both are
//! malformed.
//!
//! Text is BIND's form of names with the final dot; see [`Name::write_text`]. Names, types, classes, rcodes and
//! opcodes have their tables in [`iana`].
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]

pub mod edit;
pub mod edns;
mod error;
mod fuzz;
pub mod header;
pub mod iana;
pub mod name;
mod octets;
pub mod present;
pub mod question;
pub(crate) mod rare;
mod rdata;
pub mod records;
pub mod walk;

pub use edns::{ClientSubnet, Edns, EdnsOption};
pub use error::{DnsError, Malformed};
pub use fuzz::fuzz_message;
pub use header::Header;
pub use name::{Name, NameBuf, NameTextError};
pub use question::{DnsView, Question};
pub use records::{Questions, Record, Records, Section};
pub use walk::Walk;
