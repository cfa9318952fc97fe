//! `--verify`: what was sent against the collector's ledger, before and after.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

/// Time between two looks at the ledger.
const POLL: Duration = Duration::from_millis(50);
/// Time for one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// A ledger is a few KiB; more than this is none.
const ANSWER_MAX: u64 = 4 * 1024 * 1024;

/// The ledger as `GET /ledger` shows it, in frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Books {
    pub(super) received: u64,
    pub(super) dropped: BTreeMap<String, u64>,
    pub(super) filtered: u64,
    pub(super) outputs: Vec<OutputBooks>,
    pub(super) closes: bool,
}

/// One output in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OutputBooks {
    pub(super) name: String,
    pub(super) delivered: u64,
    pub(super) dropped: BTreeMap<String, u64>,
    pub(super) filtered: u64,
    pub(super) in_flight: u64,
}

/// What came of a comparison.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Verdict {
    /// Each number that differs, in words. Empty: all agree.
    pub(super) differences: Vec<String>,
    /// What was booked meanwhile; in flight is what is so at the end.
    pub(super) booked: Books,
}

/// Asks a collector for its ledger.
///
/// # Errors
/// No connection, no answer in time, or an answer that is no ledger.
pub(super) async fn ledger(address: &str) -> anyhow::Result<Books> {
    // People paste the address that `serve` prints.
    let address = address.strip_prefix("http://").unwrap_or(address);
    let address = address.split('/').next().unwrap_or(address);
    let answer = timeout(ANSWER_TIMEOUT, get(address, "/ledger"))
        .await
        .with_context(|| format!("no answer within {ANSWER_TIMEOUT:?}"))
        .and_then(|answer| answer)
        .with_context(|| format!("http://{address}/ledger"))?;
    serde_json::from_slice(&answer)
        .with_context(|| format!("http://{address}/ledger: the answer is no ledger"))
}

/// The ledger once nothing of earlier senders is in flight any more, or as it is after `limit`.
///
/// # Errors
/// As [`ledger`].
pub(super) async fn at_rest(address: &str, limit: Duration) -> anyhow::Result<Books> {
    let give_up = Instant::now() + limit;
    loop {
        let now = ledger(address).await?;
        if now.outputs.iter().all(|output| output.in_flight == 0) || Instant::now() >= give_up {
            return Ok(now);
        }
        sleep(POLL).await;
    }
}

/// The body of a page. HTTP/1.0, so that the answer ends with the connection and comes in one piece.
async fn get(address: &str, path: &str) -> anyhow::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address).await?;
    let request =
        format!("GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: application/json\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut answer).await?;
    let split = memchr::memmem::find(&answer, b"\r\n\r\n").context("the answer is not HTTP")?;
    let (head, body) = answer.split_at(split);
    let head = String::from_utf8_lossy(head);
    let status = head.lines().next().unwrap_or_default();
    let Some(code) = status
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.split(' ').nth(1))
    else {
        bail!("the answer is not HTTP");
    };
    ensure!(code == "200", "the answer is {status}");
    Ok(body.get(4..).unwrap_or_default().to_vec())
}

/// Waits until the collector has booked what was sent and has nothing in flight, at most for `limit`, and compares.
///
/// # Errors
/// When the ledger cannot be had.
pub(super) async fn compare(
    address: &str,
    before: &Books,
    sent: u64,
    limit: Duration,
) -> anyhow::Result<Verdict> {
    let give_up = Instant::now() + limit;
    let after = loop {
        let now = ledger(address).await?;
        let settled = now.received.wrapping_sub(before.received) >= sent
            && now.outputs.iter().all(|output| output.in_flight == 0);
        if settled || Instant::now() >= give_up {
            break now;
        }
        sleep(POLL).await;
    };
    Ok(verdict(before, &after, sent))
}

fn verdict(before: &Books, after: &Books, sent: u64) -> Verdict {
    let booked = Books {
        received: after.received.wrapping_sub(before.received),
        dropped: grown(&before.dropped, &after.dropped),
        filtered: after.filtered.wrapping_sub(before.filtered),
        outputs: after
            .outputs
            .iter()
            .map(|o| output_since(before, o))
            .collect(),
        closes: after.closes,
    };
    let mut differences = Vec::new();
    if !after.closes {
        differences.push("the ledger does not close".to_owned());
    }
    if booked.received != sent {
        differences.push(format!("received {} of {sent} sent", booked.received));
    }
    for (place, frames) in &booked.dropped {
        differences.push(format!("dropped {frames} at {place}"));
    }
    let before_outputs = booked.dropped.values().sum::<u64>() + booked.filtered;
    for output in &booked.outputs {
        let name = &output.name;
        for (reason, frames) in &output.dropped {
            differences.push(format!("output {name}: dropped {frames}, {reason}"));
        }
        if output.in_flight > 0 {
            differences.push(format!(
                "output {name}: {} still in flight",
                output.in_flight
            ));
        }
        let accounted = before_outputs
            .wrapping_add(output.delivered)
            .wrapping_add(output.dropped.values().sum::<u64>())
            .wrapping_add(output.filtered)
            .wrapping_add(output.in_flight);
        if accounted != booked.received {
            differences.push(format!(
                "output {name}: {accounted} accounted for of {} received",
                booked.received
            ));
        }
    }
    Verdict {
        differences,
        booked,
    }
}

fn output_since(before: &Books, after: &OutputBooks) -> OutputBooks {
    let none = OutputBooks::default();
    let old = before.outputs.iter().find(|o| o.name == after.name);
    let old = old.unwrap_or(&none);
    OutputBooks {
        name: after.name.clone(),
        delivered: after.delivered.wrapping_sub(old.delivered),
        dropped: grown(&old.dropped, &after.dropped),
        filtered: after.filtered.wrapping_sub(old.filtered),
        // What was in flight before is booked now or still is: both show in the sums.
        in_flight: after.in_flight,
    }
}

/// Counts that grew, and by how much.
fn grown(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    after
        .iter()
        .map(|(key, n)| {
            (
                key.clone(),
                n.wrapping_sub(before.get(key).copied().unwrap_or(0)),
            )
        })
        .filter(|(_, n)| *n > 0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn books(json: &str) -> Books {
        serde_json::from_str(json).unwrap()
    }

    const BEFORE: &str = r#"{"received":100,"dropped":{"a/b":1},"filtered":2,"outputs":[
        {"name":"f","delivered":90,"dropped":{"queue_full":7},"filtered":0,"in_flight":0}],"closes":true}"#;

    #[test]
    fn every_number_that_differs_is_named() {
        let before = books(BEFORE);
        for (after, want) in [
            (
                r#"{"received":110,"dropped":{"a/b":1},"filtered":5,"outputs":[
                {"name":"f","delivered":97,"dropped":{"queue_full":7},"filtered":0,"in_flight":0}],"closes":true}"#,
                &[][..],
            ),
            (
                r#"{"received":109,"dropped":{"a/b":1},"filtered":2,"outputs":[
                {"name":"f","delivered":99,"dropped":{"queue_full":7},"filtered":0,"in_flight":0}],"closes":true}"#,
                &["received 9 of 10 sent"],
            ),
            (
                r#"{"received":110,"dropped":{"a/b":2,"l/oversized":1},"filtered":2,"outputs":[
                {"name":"f","delivered":95,"dropped":{"queue_full":9},"filtered":0,"in_flight":1}],"closes":true}"#,
                &[
                    "dropped 1 at a/b",
                    "dropped 1 at l/oversized",
                    "output f: dropped 2, queue_full",
                    "output f: 1 still in flight",
                ],
            ),
            (
                r#"{"received":110,"dropped":{"a/b":1},"filtered":2,"outputs":[
                {"name":"f","delivered":99,"dropped":{"queue_full":7},"filtered":0,"in_flight":0}],"closes":false}"#,
                &[
                    "the ledger does not close",
                    "output f: 9 accounted for of 10 received",
                ],
            ),
        ] {
            assert_eq!(
                verdict(&before, &books(after), 10).differences,
                want,
                "{after}"
            );
        }
    }

    #[test]
    fn the_ledger_of_the_collector_is_read() {
        let ledger = crate::pipeline::ledger::Ledger::new();
        ledger.register_output("file");
        let shown: Books = serde_json::from_value(ledger.snapshot().to_json()).unwrap();
        assert!(shown.closes && shown.outputs.len() == 1, "{shown:?}");
    }
}
