//! What keeps an output from its work, for `/readyz` and for whoever looks there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An output's notes: a line for each thing that is not as it should be. Cheap to clone.
#[derive(Clone, Default, Debug)]
pub struct Health(Arc<Mutex<BTreeMap<String, String>>>);

impl Health {
    fn notes(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something is wrong with `what`.
    pub fn note(&self, what: &str, why: impl Into<String>) {
        self.notes().insert(what.to_owned(), why.into());
    }

    /// Nothing is wrong with `what` any more.
    pub fn clear(&self, what: &str) {
        self.notes().remove(what);
    }

    /// The notes, `what: why`.
    pub fn lines(&self) -> Vec<String> {
        let notes = self.notes();
        notes
            .iter()
            .map(|(what, why)| format!("{what}: {why}"))
            .collect()
    }
}
