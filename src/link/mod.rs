//! Links: one async driver a protocol, a socket joined to a sans-IO machine and nothing else.
//!
//! [`fstrm`] receives; [`sender`] sends what an [`outbox`] holds. They decide nothing: what to do with frames, when to
//! reconnect and whom to make wait is the pipeline's and the outputs' business.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]

pub mod fstrm;
pub mod outbox;
pub mod sender;
