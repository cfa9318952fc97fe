//! How the process stops: a trigger that everybody can watch, in two steps.
//!
//! *Draining* asks: take nothing new, finish what you have. *Aborting* orders: give up what you have, and count it.
//! The first comes with the first signal, the second when the deadline has passed or with the second signal.

use tokio::sync::watch;

/// The steps of a stop, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// Everything works.
    Running,
    /// Nothing new is taken; what is here is finished.
    Draining,
    /// What is still here is given up and counted.
    Aborting,
}

/// Moves the phase forward. Cloneable; the phase never goes back.
#[derive(Clone, Debug)]
pub struct Trigger(watch::Sender<Phase>);

/// Watches the phase.
#[derive(Clone, Debug)]
pub struct Signal(watch::Receiver<Phase>);

/// A trigger and its first watcher.
pub fn channel() -> (Trigger, Signal) {
    let (tx, rx) = watch::channel(Phase::Running);
    (Trigger(tx), Signal(rx))
}

impl Trigger {
    /// Moves to `phase` unless it is there or further already.
    pub fn advance(&self, phase: Phase) {
        self.0.send_if_modified(|now| {
            let forward = phase > *now;
            if forward {
                *now = phase;
            }
            forward
        });
    }

    /// One more watcher.
    pub fn signal(&self) -> Signal {
        Signal(self.0.subscribe())
    }
}

impl Signal {
    /// The phase now.
    pub fn phase(&self) -> Phase {
        *self.0.borrow()
    }

    /// Waits until the phase is at least `phase`. Cancel-safe. Also returns when every trigger is gone.
    pub async fn reached(&mut self, phase: Phase) {
        let _ = self.0.wait_for(|now| *now >= phase).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_phase_moves_forward_only_and_wakes_every_watcher() {
        let (trigger, mut a) = channel();
        let mut b = trigger.signal();
        assert_eq!(a.phase(), Phase::Running);
        trigger.advance(Phase::Aborting);
        trigger.advance(Phase::Draining);
        a.reached(Phase::Draining).await;
        b.reached(Phase::Aborting).await;
        assert_eq!(b.phase(), Phase::Aborting);
    }
}
