//! Identifiers that log lines and ledgers carry, as newtypes, so that no protocol has to import a connection to name one.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// One accepted connection, unique within the life of the process. Starts at 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ConnId(u64);

impl ConnId {
    /// The next unused number.
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl ConnId {
    /// The number itself.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A listener's place in the ledger; given out by the ledger when the listener registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ListenerId(pub usize);

/// An output's place in the ledger; given out by the ledger when the output registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OutputId(pub usize);

/// A named place where frames can be dropped before the outputs, with its reason; given out by the ledger.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DropSlot(pub usize);
