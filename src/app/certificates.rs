//! Looks after the certificates of listeners and the HTTP server: reads them again when their files change and when a signal
//! asks for it, and tells until when they are valid. Connections that are open go on with what they began with.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::shutdown::{Phase, Signal};
use crate::telemetry::{self, Telemetry};
use crate::transport::tls::server::{Reload, ServerTls};

/// Where a look can be asked for; each change of the number asks for one.
pub(super) type Requests = watch::Receiver<u64>;

/// Begins to look after the certificate of `place` (`listener:NAME` or `http`), every `every` and on request.
pub(super) fn look_after(
    place: String,
    tls: Arc<ServerTls>,
    every: Option<Duration>,
    telemetry: &Telemetry,
    mut requests: Requests,
    mut signal: Signal,
) {
    // The series is there when its value is known: a time of 0 would be one that has passed.
    let (gauges, gauge_place) = (telemetry.clone(), place.clone());
    let [done, failed] = ["done", "failed"]
        .map(|result| telemetry.counter(telemetry::TLS_RELOADS, &[&place, result]));
    let tell = move |tls: &ServerTls| {
        if let Some(at) = tls.expires() {
            gauges
                .gauge(telemetry::TLS_CERTIFICATE_EXPIRY, &[&gauge_place])
                .set(at as f64);
        }
    };
    tell(&tls);
    let looks = async move {
        loop {
            let pause = async {
                match every {
                    Some(every) => tokio::time::sleep(every).await,
                    None => std::future::pending().await,
                }
            };
            let forced = tokio::select! {
                () = signal.reached(Phase::Draining) => break,
                asked = requests.changed() => match asked {
                    Ok(()) => true,
                    Err(_) => break,
                },
                () = pause => false,
            };
            let looked_at = tls.clone();
            // Files may be on a disk that takes its time.
            let look = tokio::task::spawn_blocking(move || looked_at.reload(forced));
            match look.await {
                Ok(Reload::Same) | Err(_) => {}
                Ok(Reload::Done) => {
                    done.increment(1);
                    tell(&tls);
                    tracing::info!(place, "certificate, key and authorities were read again");
                }
                Ok(Reload::Failed(error)) => {
                    failed.increment(1);
                    tracing::error!(place, %error, "the new certificate, key or authorities cannot be used; those from before stay in use");
                }
            }
        }
    };
    tokio::spawn(looks);
}
