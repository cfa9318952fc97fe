//! How long a write has waited without progress.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// A clock that runs while somebody waits. A write that is given up leaves no trace of itself that this type could see but
/// this: nobody asks any more. So it is asked four times in a timeout, and whoever comes after half a timeout without
/// questions waits anew. A write that is given up and taken up again sooner, as in a loop with a ticker, goes on waiting.
#[derive(Default)]
pub(super) struct Stall(Option<Waiting>);

struct Waiting {
    since: Instant,
    asked: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Stall {
    /// There was progress, or a new write begins.
    pub(super) fn clear(&mut self) {
        self.0 = None;
    }

    /// Ready when it has been waited for as long as `timeout`.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, timeout: Duration) -> Poll<()> {
        let step = (timeout / 4).max(Duration::from_millis(1));
        let now = Instant::now();
        let waiting = self.0.get_or_insert_with(|| Waiting {
            since: now,
            asked: now,
            timer: Box::pin(tokio::time::sleep_until(now + step)),
        });
        if now - waiting.asked > timeout / 2 {
            waiting.since = now;
        }
        loop {
            let now = Instant::now();
            waiting.asked = now;
            let end = waiting.since + timeout;
            if end <= now {
                self.0 = None;
                return Poll::Ready(());
            }
            let next = end.min(now + step);
            waiting.timer.as_mut().reset(next);
            ready!(waiting.timer.as_mut().poll(cx));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(8);

    async fn given_up_after(stall: &mut Stall, time: Duration) {
        let waits = poll_fn(|cx| stall.poll(cx, TIMEOUT));
        assert!(tokio::time::timeout(time, waits).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_was_given_up_does_not_shorten_a_later_one() {
        let mut stall = Stall::default();
        for _ in 0..3 {
            given_up_after(&mut stall, TIMEOUT * 9 / 10).await;
            tokio::time::advance(TIMEOUT * 10).await;
        }
        let began = Instant::now();
        poll_fn(|cx| stall.poll(cx, TIMEOUT)).await;
        assert!(began.elapsed() >= TIMEOUT, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_is_taken_up_again_and_again_times_out_all_the_same() {
        let mut stall = Stall::default();
        let began = Instant::now();
        for _ in 0..7 {
            given_up_after(&mut stall, TIMEOUT / 8).await;
        }
        poll_fn(|cx| stall.poll(cx, TIMEOUT)).await;
        assert!(began.elapsed() <= TIMEOUT + Duration::from_millis(10));
    }
}
