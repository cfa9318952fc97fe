//! The project's targets beside what was measured.

use crate::cases::{
    BESIDE_IDLE, COPY, Case, DECODED, DECODED_TCP, FSTRM, JSON, MANY_BUSY, RELAY, Round, UNDECODED,
    UNDECODED_TCP,
};
use crate::growth::Growth;
use crate::quiet::Quiet;
use crate::support::figures::Spread;

/// Rows of case, target, measured, whether it was reached. What was not measured has no row.
pub(crate) fn rows(cases: &[Case], growth: &[Growth], quiet: &Quiet) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut row = |case: &str, target: String, measured: String, reached: Option<bool>| {
        let reached = match reached {
            Some(true) => "yes",
            Some(false) => "no",
            None => "",
        };
        rows.push(vec![case.to_owned(), target, measured, reached.to_owned()]);
    };
    let rounds = |name: &str| {
        let case = cases.iter().find(|c| c.name == name)?;
        (!case.rounds.is_empty()).then_some(case.rounds.as_slice())
    };
    let rate = |name: &str| Some(Spread::of(rounds(name)?.iter().map(|r| r.rate() / 1e6)));
    let ratio = |a: &str, b: &str| {
        let pairs = rounds(a)?.iter().zip(rounds(b)?);
        Some(Spread::of(pairs.map(|(a, b)| a.rate() / b.rate() * 100.0)))
    };
    for (name, least) in [(DECODED, 5.0), (UNDECODED, 12.0), (FSTRM, 3.0)] {
        if let Some(rate) = rate(name) {
            row(
                name,
                format!("{least} million frames/s"),
                format!("{rate:.1} million frames/s"),
                Some(rate.median() >= least),
            );
        }
    }
    for (name, beside, least) in [
        (DECODED_TCP, DECODED, 75.0),
        (UNDECODED_TCP, UNDECODED, 75.0),
        (RELAY, COPY, 50.0),
        (BESIDE_IDLE, DECODED, 90.0),
        (MANY_BUSY, DECODED, 80.0),
    ] {
        if let Some(ratio) = ratio(name, beside) {
            row(
                name,
                format!("{least} % of “{beside}”"),
                format!("{ratio:.0} %"),
                Some(ratio.median() >= least),
            );
        }
    }
    if let Some(json) = rounds(JSON) {
        let core = |r: &Round| r.frames as f64 / r.collector.cpu / 1e3;
        let cores = Spread::of(json.iter().map(core));
        row(
            JSON,
            "500 thousand frames/s a core".to_owned(),
            format!("{cores:.0} thousand a core"),
            Some(cores.median() >= 500.0),
        );
    }
    for (name, most) in [(DECODED, 64), (MANY_BUSY, 256)] {
        if let Some(rounds) = rounds(name) {
            let peak = rounds.iter().map(|r| r.collector.peak).max().unwrap_or(0);
            let peak = peak.div_ceil(1 << 20);
            row(
                &format!("peak memory: {name}"),
                format!("{most} MiB"),
                format!("{peak} MiB"),
                Some(peak <= most),
            );
        }
    }
    if let Some([median, p99]) = &quiet.latency {
        let ms = |s: &Spread| s.map(|v| v * 1e3);
        row(
            "write to counted, at 100,000 frames/s",
            "p99 under 5 ms".to_owned(),
            format!("p99 {:.1} ms, median {:.1} ms", ms(p99), ms(median)),
            Some(p99.median() < 0.005),
        );
    }
    if let Some(idle) = &quiet.idle {
        row(
            "1,000 open connections, idle",
            "0.5 % of a core".to_owned(),
            format!("{:.2} %", idle.map(|v| v * 100.0)),
            Some(idle.median() < 0.005),
        );
    }
    for growth in growth {
        let (first, last) = (
            growth.sizes.first().map_or(0, |s| s.0),
            growth.sizes.last().map_or(0, |s| s.0),
        );
        let ratio = growth.ratio();
        row(
            &format!("CPU a frame, {}: {first} to {last}", growth.what),
            "flat".to_owned(),
            format!("{ratio:.2} times"),
            Some(ratio.median() <= 1.1),
        );
    }
    rows
}
