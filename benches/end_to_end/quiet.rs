//! What is asked at less than the full rate: how long a frame is under way, and what connections cost that say nothing.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::cases::{Bench, MANY, connect_all};
use crate::support::figures::Spread;
use crate::support::input::{self, STOP};
use crate::support::serve::{Http, Serve, Setup};
use crate::support::{Result, stream};

/// Frames a second while the latency is measured.
pub(crate) const RATE: f64 = 100_000.0;
/// How often the sender writes what is due.
const STEP: Duration = Duration::from_micros(500);
/// How often the ledger is asked.
const ASK: Duration = Duration::from_micros(250);

/// What was measured; `None` where it was not asked for.
#[derive(Default)]
pub(crate) struct Quiet {
    /// Seconds from the write to the answer in which the ledger counts the frame: median and 99th percentile, a value a
    /// round. It holds the ledger's HTTP request as well, so it is an upper bound.
    pub(crate) latency: Option<[Spread; 2]>,
    /// Share of a core with a thousand open connections and nothing sent.
    pub(crate) idle: Option<Spread>,
}

/// Measures both.
pub(crate) fn run(bench: &Bench<'_>) -> Result<Quiet> {
    let mut quiet = Quiet::default();
    let seconds = if bench.settings.smoke { 0.5 } else { 5.0 };
    if bench.settings.wants("latency") {
        let mut rounds = Vec::new();
        for _ in 0..bench.settings.rounds {
            rounds.push(latency(bench, seconds).map_err(|e| format!("latency: {e}"))?);
        }
        let of = |i: usize| Spread::of(rounds.iter().map(|r| r[i]));
        quiet.latency = Some([of(0), of(1)]);
    }
    if bench.settings.wants("idle") {
        let mut rounds = Vec::new();
        for _ in 0..bench.settings.rounds {
            rounds.push(idle(bench, 2.0 * seconds).map_err(|e| format!("idle: {e}"))?);
        }
        quiet.idle = Some(Spread::of(rounds));
    }
    Ok(quiet)
}

/// Writes frames at the rate and asks for the ledger all the while.
fn latency(bench: &Bench<'_>, seconds: f64) -> Result<[f64; 2]> {
    let serve = Serve::start(bench.folder, &Setup::counting())?;
    let path = serve.to.strip_prefix("unix:").unwrap_or_default();
    let mut sender = stream::connect(path)?;
    let mut http = Http::connect(&serve.http)?;
    let payload = input::query(1, 1);
    let mut frame = (payload.len() as u32).to_be_bytes().to_vec();
    frame.extend(payload);
    let done = AtomicBool::new(false);
    let (writes, answers) = std::thread::scope(|scope| {
        let asker = scope.spawn(|| -> std::result::Result<Vec<(Instant, usize)>, String> {
            let mut answers = Vec::new();
            while !done.load(Ordering::Relaxed) {
                let ledger = http.ledger().map_err(|e| e.to_string())?;
                let counted = ledger["outputs"][0]["delivered"].as_u64().unwrap_or(0) as usize;
                answers.push((Instant::now(), counted));
                std::thread::sleep(ASK);
            }
            Ok(answers)
        });
        let writes = write_at_rate(&mut sender, &frame, seconds);
        std::thread::sleep(Duration::from_millis(50));
        done.store(true, Ordering::Relaxed);
        (writes, asker.join())
    });
    let (writes, answers) = (writes?, answers.map_err(|_| "the asker panicked")??);
    sender.write_all(STOP)?;
    let sent = writes.last().map_or(0, |(_, sent)| *sent);
    serve.settled(sent)?;
    // Each write's frames are counted in the first answer that has them all.
    let mut waits = Vec::with_capacity(sent);
    let (mut answers, mut before) = (answers.iter().peekable(), 0);
    for (at, sent) in writes {
        while answers.next_if(|(_, counted)| *counted < sent).is_some() {}
        let (seen, _) = answers.peek().ok_or("frames that no answer counted")?;
        let wait = seen.saturating_duration_since(at).as_secs_f64();
        waits.extend(std::iter::repeat_n(wait, sent - before));
        before = sent;
    }
    waits.sort_by(f64::total_cmp);
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize];
    Ok([at(0.5), at(0.99)])
}

/// When each write began, and the frames sent with it and before.
fn write_at_rate(
    sender: &mut std::os::unix::net::UnixStream,
    frame: &[u8],
    seconds: f64,
) -> std::io::Result<Vec<(Instant, usize)>> {
    let started = Instant::now();
    let (mut writes, mut sent) = (Vec::new(), 0);
    while started.elapsed().as_secs_f64() < seconds {
        std::thread::sleep(STEP);
        let due = (started.elapsed().as_secs_f64() * RATE) as usize;
        let run = frame.repeat(due - sent);
        sent = due;
        writes.push((Instant::now(), sent));
        sender.write_all(&run)?;
    }
    Ok(writes)
}

/// What the collector uses of a core while a thousand connections say nothing.
fn idle(bench: &Bench<'_>, seconds: f64) -> Result<f64> {
    let serve = Serve::start(bench.folder, &Setup::counting())?;
    let connections = connect_all(&serve, MANY)?;
    std::thread::sleep(Duration::from_millis(300));
    let (before, started) = (
        crate::support::proc::cpu_exact(serve.pid())?,
        Instant::now(),
    );
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let used = crate::support::proc::cpu_exact(serve.pid())? - before;
    drop(connections);
    Ok(used / started.elapsed().as_secs_f64())
}
