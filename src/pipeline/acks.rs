//! Acknowledgement from the outputs back to a connection, once a batch.
//!
//! ```text
//!   BATCH ─▶ Account::begin        run ─▶ Account::come ─▶ Receipt ─▶ on the batch, one clone a lane
//!                                                             │ the last clone is dropped
//!   TAKEN ◀─ Account::taken ◀── entries, in order ◀───────────┘
//! ```
//! A [`Receipt`] goes along with a batch. Whoever is done with the batch drops it, and when nobody has it any more, its frames
//! are taken: written, filtered out, or dropped by a rule such as a full queue's. Who *loses* frames instead (the place failed,
//! the process ends) says so with [`Receipt::lose`]; then they are never acknowledged, and the connection ends so that the
//! sender gives them to somebody else. An output must hold the receipt until what it wrote is where it belongs.
//!
//! [`Seen`] remembers the batches that came, over all connections, so that one that comes again is not taken twice; its
//! acknowledgement waits for that of the first copy. It is bounded: the last [`BATCHES_MAX`] of each of [`INSTANCES_MAX`]
//! senders. A sender keeps fewer batches unacknowledged, so what it can send again is in the window.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use crate::fstrm::BatchId;

/// Batches of one sender that are remembered.
pub const BATCHES_MAX: usize = 4096;
/// Senders whose batches are remembered.
pub const INSTANCES_MAX: usize = 64;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is kept here is counts and lists; a panic leaves none of them half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something that holds up the acknowledgement of a part of a batch. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Receipt(Arc<Slot>);

#[derive(Debug)]
struct Slot {
    entries: Arc<Entries>,
    number: u64,
    batch: BatchId,
    seen: Seen,
    lost: AtomicBool,
    /// Receipts of later copies, which wait for this one.
    followers: Mutex<Vec<Receipt>>,
}

impl Receipt {
    /// The frames are lost: they will not be acknowledged.
    pub fn lose(&self) {
        self.0.lost.store(true, Ordering::Relaxed);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // Frames in the hands of a task that panics are not written.
        let lost = *self.lost.get_mut() || std::thread::panicking();
        if lost {
            self.seen.forget(self.batch);
            let followers = self.followers.get_mut();
            let followers = followers.unwrap_or_else(PoisonError::into_inner);
            followers.iter().for_each(Receipt::lose);
        }
        self.entries.settle(self.number, lost);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Pending,
    Taken,
    Lost,
}

/// The parts of a connection's stream that are not acknowledged, in its order.
#[derive(Default, Debug)]
struct Entries {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default, Debug)]
struct State {
    /// Number of the first entry.
    first: u64,
    parts: VecDeque<(u64, Outcome)>,
    taken: u64,
}

impl Entries {
    fn open(&self, frames: u64) -> u64 {
        let mut state = lock(&self.state);
        state.parts.push_back((frames, Outcome::Pending));
        state.first + (state.parts.len() as u64 - 1)
    }

    fn settle(&self, number: u64, lost: bool) {
        {
            let mut state = lock(&self.state);
            let index = usize::try_from(number.wrapping_sub(state.first)).unwrap_or(usize::MAX);
            if let Some(part) = state.parts.get_mut(index) {
                part.1 = if lost { Outcome::Lost } else { Outcome::Taken };
            }
            while let Some((frames, Outcome::Taken)) = state.parts.front().copied() {
                state.parts.pop_front();
                state.first += 1;
                state.taken += frames;
            }
        }
        self.changed.notify_one();
    }
}

/// The batches that have come, shared by all connections. Cheap to clone.
#[derive(Clone, Default, Debug)]
pub struct Seen(Arc<Mutex<Windows>>);

#[derive(Default, Debug)]
struct Windows {
    instances: HashMap<u128, Window>,
    /// Oldest first.
    order: VecDeque<u128>,
}

#[derive(Default, Debug)]
struct Window {
    batches: HashMap<u64, Known>,
    /// Oldest first.
    order: VecDeque<u64>,
}

#[derive(Default, Debug)]
struct Known {
    /// Frames of it that have come, from its first on.
    come: u32,
    /// The connection it came over last; what comes over another is late, and a duplicate.
    owner: u64,
    /// Its parts that may still be on their way.
    parts: Vec<Weak<Slot>>,
}

impl Windows {
    fn known(&mut self, id: BatchId) -> &mut Known {
        if !self.instances.contains_key(&id.instance) {
            if self.order.len() >= INSTANCES_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.instances.remove(&oldest);
            }
            self.order.push_back(id.instance);
        }
        let window = self.instances.entry(id.instance).or_default();
        if !window.batches.contains_key(&id.sequence) {
            if window.order.len() >= BATCHES_MAX
                && let Some(oldest) = window.order.pop_front()
            {
                window.batches.remove(&oldest);
            }
            window.order.push_back(id.sequence);
        }
        window.batches.entry(id.sequence).or_default()
    }
}

impl Seen {
    /// The batch begins (again) over `owner`.
    fn begin(&self, id: BatchId, owner: u64) {
        lock(&self.0).known(id).owner = owner;
    }

    /// `frames` of the batch come, the first of which is its frame `at`: how many of them had come before. `receipt` is that
    /// of the part, and waits for the earlier copies.
    fn come(&self, id: BatchId, owner: u64, at: u32, frames: u32, receipt: &Receipt) -> u32 {
        // Dropped after the lock: the last one of a slot takes it.
        let mut earlier: Vec<Arc<Slot>> = Vec::new();
        let had;
        {
            let mut windows = lock(&self.0);
            let known = windows.known(id);
            had = if known.owner == owner {
                known.come.saturating_sub(at).min(frames)
            } else {
                frames
            };
            if had > 0 {
                earlier.extend(known.parts.iter().filter_map(Weak::upgrade));
            }
            if had < frames {
                known.come = known.come.max(at.saturating_add(frames));
                known.parts.retain(|part| part.strong_count() > 0);
                known.parts.push(Arc::downgrade(&receipt.0));
            }
        }
        for slot in &earlier {
            lock(&slot.followers).push(receipt.clone());
        }
        had
    }

    /// A part of the batch is lost: when it comes again it is taken as new.
    fn forget(&self, id: BatchId) {
        let mut windows = lock(&self.0);
        if let Some(window) = windows.instances.get_mut(&id.instance)
            && let Some(known) = window.batches.get_mut(&id.sequence)
        {
            known.come = 0;
        }
    }
}

/// The sender's marks and frames do not agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the frames that came are not those of the batch that was announced")]
pub struct Mismatch;

/// One acknowledged stream's account.
#[derive(Debug)]
pub struct Account {
    seen: Seen,
    owner: u64,
    entries: Arc<Entries>,
    current: Option<BatchId>,
    /// Frames of the current batch that have come over this stream, and that are to come.
    come: u32,
    left: u32,
    /// What the sender was told last.
    told: u64,
}

/// What is to be done with frames that came.
#[derive(Debug)]
pub struct Coming {
    /// So many of the first of them are duplicates.
    pub duplicates: u32,
    /// Goes with the others.
    pub receipt: Receipt,
}

impl Account {
    /// The account of the connection with this number.
    pub fn new(seen: Seen, connection: u64) -> Self {
        Self {
            seen,
            owner: connection,
            entries: Arc::default(),
            current: None,
            come: 0,
            left: 0,
            told: 0,
        }
    }

    /// BATCH came.
    ///
    /// # Errors
    /// The batch before it is not complete.
    pub fn begin(&mut self, id: BatchId, frames: u32) -> Result<(), Mismatch> {
        if self.left > 0 {
            return Err(Mismatch);
        }
        self.seen.begin(id, self.owner);
        (self.current, self.come, self.left) = (Some(id), 0, frames);
        Ok(())
    }

    /// Data frames came.
    ///
    /// # Errors
    /// More than the batch has.
    pub fn come(&mut self, frames: usize) -> Result<Coming, Mismatch> {
        let frames = u32::try_from(frames).map_err(|_| Mismatch)?;
        let (Some(batch), true) = (self.current, frames <= self.left) else {
            return Err(Mismatch);
        };
        let receipt = Receipt(Arc::new(Slot {
            entries: self.entries.clone(),
            number: self.entries.open(u64::from(frames)),
            batch,
            seen: self.seen.clone(),
            lost: AtomicBool::new(false),
            followers: Mutex::default(),
        }));
        let duplicates = self
            .seen
            .come(batch, self.owner, self.come, frames, &receipt);
        self.come += frames;
        self.left -= frames;
        Ok(Coming {
            duplicates,
            receipt,
        })
    }

    /// Frames taken, where the sender has not been told of so many yet.
    pub fn news(&mut self) -> Option<u64> {
        let taken = lock(&self.entries.state).taken;
        (taken > self.told).then(|| {
            self.told = taken;
            taken
        })
    }

    /// Whether everything that came is taken.
    pub fn is_settled(&self) -> bool {
        lock(&self.entries.state).parts.is_empty()
    }

    /// Whether frames were lost, so that no more can be acknowledged.
    pub fn is_lost(&self) -> bool {
        let state = lock(&self.entries.state);
        state.parts.front().is_some_and(|p| p.1 == Outcome::Lost)
    }

    /// Waits until one of these may have changed. Cancel-safe.
    pub async fn changed(&self) {
        self.entries.changed.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: BatchId = BatchId {
        instance: 1,
        sequence: 9,
    };

    fn account(seen: &Seen, connection: u64) -> Account {
        Account::new(seen.clone(), connection)
    }

    #[test]
    fn frames_are_acknowledged_in_order_when_nobody_holds_their_receipt() {
        let mut account = account(&Seen::default(), 1);
        account.begin(ID, 5).unwrap();
        let first = account.come(2).unwrap().receipt;
        let second = account.come(3).unwrap().receipt;
        let lane = first.clone();
        drop((first, second));
        assert_eq!((account.news(), account.is_settled()), (None, false));
        drop(lane);
        assert_eq!((account.news(), account.news()), (Some(5), None));
        assert!(account.is_settled());
    }

    #[test]
    fn what_is_lost_is_never_acknowledged_and_may_come_again() {
        let seen = Seen::default();
        let mut first = account(&seen, 1);
        first.begin(ID, 3).unwrap();
        let receipt = first.come(3).unwrap().receipt;
        receipt.lose();
        drop(receipt);
        assert_eq!((first.news(), first.is_lost()), (None, true));
        let mut again = account(&seen, 2);
        again.begin(ID, 3).unwrap();
        assert_eq!(again.come(3).unwrap().duplicates, 0);
        assert_eq!(again.news(), Some(3));
    }

    #[test]
    fn a_batch_that_comes_again_gives_what_it_had_not_and_waits_for_its_first_copy() {
        let seen = Seen::default();
        let mut first = account(&seen, 1);
        first.begin(ID, 10).unwrap();
        let held = first.come(4).unwrap().receipt;
        let mut again = account(&seen, 2);
        again.begin(ID, 10).unwrap();
        let coming = again.come(10).unwrap();
        assert_eq!(coming.duplicates, 4);
        drop(coming);
        assert_eq!(again.news(), None, "the first four are still on their way");
        // The first stream is late: what it brings is a duplicate now.
        assert_eq!(first.come(6).unwrap().duplicates, 6);
        drop(held);
        assert_eq!((again.news(), first.news()), (Some(10), Some(10)));
        let mut third = account(&seen, 3);
        third.begin(ID, 10).unwrap();
        assert_eq!(third.come(10).unwrap().duplicates, 10);
        assert_eq!(third.news(), Some(10), "it is taken already");
    }

    #[test]
    fn the_loss_of_the_first_copy_is_that_of_the_second() {
        let seen = Seen::default();
        let (mut first, mut again) = (account(&seen, 1), account(&seen, 2));
        first.begin(ID, 2).unwrap();
        let held = first.come(2).unwrap().receipt;
        again.begin(ID, 2).unwrap();
        assert_eq!(again.come(2).unwrap().duplicates, 2);
        held.lose();
        drop(held);
        assert!(first.is_lost() && again.is_lost());
    }

    #[test]
    fn frames_outside_of_a_batch_and_batches_cut_short_are_mismatches() {
        let mut account = account(&Seen::default(), 1);
        assert!(account.come(1).is_err());
        account.begin(ID, 2).unwrap();
        assert!(account.come(3).is_err());
        account.come(1).unwrap();
        assert_eq!(account.begin(ID, 2), Err(Mismatch));
    }

    #[test]
    fn the_window_keeps_to_its_bounds() {
        let seen = Seen::default();
        let mut account = account(&seen, 1);
        for instance in 0..2 * INSTANCES_MAX as u128 {
            let sequences = if instance == 0 {
                2 * BATCHES_MAX as u64
            } else {
                1
            };
            for sequence in 0..sequences {
                account.begin(BatchId { instance, sequence }, 1).unwrap();
                drop(account.come(1).unwrap());
                let windows = lock(&seen.0);
                assert!(windows.instances.len() <= INSTANCES_MAX);
                assert!(windows.instances[&instance].batches.len() <= BATCHES_MAX);
            }
        }
    }
}
