//! The task that keeps time.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::mux::CloseReason;
use crate::mux::shared::Shared;

/// Silence after which memory that is not used is given up.
const QUIET_AFTER: Duration = Duration::from_secs(1);

/// Keepalive, idle timeout, sweeps.
pub(super) async fn keep_time(shared: Arc<Shared>) {
    const SWEEP: Duration = Duration::from_secs(30);
    let config = &shared.config;
    let mut pinged: Option<Instant> = None;
    let mut quiet = false;
    let mut sweep = Instant::now() + SWEEP;
    loop {
        let now = Instant::now();
        let (heard, idle_since) = shared.with(|inner| {
            let idle = (!inner.core.in_use()).then_some(inner.idle_since).flatten();
            (inner.heard, idle)
        });
        let mut next = sweep;
        if now >= sweep {
            shared.with(|inner| inner.core.sweep());
            sweep = now + SWEEP;
            next = sweep;
        }
        if heard + QUIET_AFTER > now {
            quiet = false;
            next = next.min(heard + QUIET_AFTER);
        } else if !quiet {
            quiet = true;
            shared.quiet.notify_one();
        }
        if let Some(interval) = config.keepalive_interval {
            if pinged.is_some_and(|at| heard >= at) {
                pinged = None;
            }
            match pinged {
                Some(at) if at + config.keepalive_timeout <= now => {
                    return shared.close(CloseReason::KeepaliveTimeout);
                }
                Some(at) => next = next.min(at + config.keepalive_timeout),
                None if heard + interval <= now => {
                    shared.with(|inner| inner.core.ping());
                    pinged = Some(now);
                    next = next.min(now + config.keepalive_timeout);
                }
                None => next = next.min(heard + interval),
            }
        }
        if let Some(timeout) = config.idle_timeout {
            match idle_since {
                Some(since) if since + timeout <= now => {
                    return shared.close(CloseReason::IdleTimeout);
                }
                Some(since) => next = next.min(since + timeout),
                None => next = next.min(now + timeout),
            }
        }
        tokio::time::sleep_until(next).await;
    }
}
