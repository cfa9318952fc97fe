//! How many handshakes may be under way. A handshake takes memory and time before its peer has said who it is, and a peer
//! that says nothing keeps its place until the time is up. So the one that gives way when there is no room is the oldest:
//! a good sender is through in milliseconds and is never the oldest for long, whoever else stands at the door.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// The handshakes of one listener.
#[derive(Clone, Debug)]
pub struct Crowd(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    max: usize,
    under_way: Mutex<VecDeque<Arc<Notify>>>,
}

/// A place in the crowd, given back when it is dropped.
#[derive(Debug)]
pub struct Place {
    crowd: Crowd,
    out: Arc<Notify>,
}

impl Crowd {
    /// At most `max` at once; at least one.
    pub fn new(max: usize) -> Self {
        Self(Arc::new(Inner {
            max: max.max(1),
            under_way: Mutex::default(),
        }))
    }

    /// A place, for which the oldest has to go when there is none.
    pub fn enter(&self) -> Place {
        let out = Arc::new(Notify::new());
        let mut under_way = self
            .0
            .under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if under_way.len() >= self.0.max
            && let Some(oldest) = under_way.pop_front()
        {
            oldest.notify_one();
        }
        under_way.push_back(out.clone());
        Place {
            crowd: self.clone(),
            out,
        }
    }
}

impl Place {
    /// Waits until this place is needed for another. Cancel-safe.
    pub async fn crowded_out(&self) {
        self.out.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut under_way = self
            .crowd
            .0
            .under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        under_way.retain(|other| !Arc::ptr_eq(other, &self.out));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_out(place: &Place) -> bool {
        let mut out = pin!(place.crowded_out());
        out.as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
    }

    #[test]
    fn the_oldest_gives_way_and_whoever_is_done_makes_room() {
        let crowd = Crowd::new(2);
        let (first, second) = (crowd.enter(), crowd.enter());
        assert!(!is_out(&first) && !is_out(&second));
        let third = crowd.enter();
        assert!(is_out(&first) && !is_out(&second) && !is_out(&third));
        drop(second);
        let fourth = crowd.enter();
        assert!(!is_out(&third) && !is_out(&fourth));
        drop((third, fourth, first));
        assert!(crowd.0.under_way.lock().unwrap().is_empty());
    }
}
