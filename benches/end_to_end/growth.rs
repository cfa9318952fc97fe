//! What a frame costs as connections, identities and distinct names become many.

use std::fs;

use crate::cases::{Bench, Round, through, through_with};
use crate::support::Result;
use crate::support::figures::{Spread, table};
use crate::support::input::Input;
use crate::support::serve::Setup;

/// One thing that grows, and what each round gave at each size.
pub(crate) struct Growth {
    pub(crate) what: &'static str,
    pub(crate) sizes: Vec<(usize, Vec<Round>)>,
}

impl Growth {
    /// What a frame costs the collector at the largest size, as a multiple of the smallest, round by round.
    pub(crate) fn ratio(&self) -> Spread {
        let (Some((_, first)), Some((_, last))) = (self.sizes.first(), self.sizes.last()) else {
            return Spread::of([]);
        };
        let cost = |r: &Round| r.collector.cpu / r.frames as f64;
        Spread::of(first.iter().zip(last).map(|(a, b)| cost(b) / cost(a)))
    }
}

/// Runs every size of everything that grows, interleaved.
pub(crate) fn run(bench: &Bench<'_>) -> Result<Vec<Growth>> {
    if !bench.settings.wants("growth") {
        return Ok(Vec::new());
    }
    let distinct = if bench.settings.smoke {
        10_000
    } else {
        1_000_000
    };
    // Each connection takes a file descriptor on both sides.
    let open = if bench.settings.smoke { 100 } else { 9_000 };
    let frames = bench.settings.frames / 2;
    let sizes = |of: &[usize]| of.iter().map(|n| (*n, Vec::new())).collect();
    let mut all = vec![
        Growth {
            what: "identities",
            sizes: sizes(&[1, 1_000, distinct]),
        },
        Growth {
            what: "distinct names",
            sizes: sizes(&[1, 1_000, distinct]),
        },
        Growth {
            what: "open connections, one of them busy",
            sizes: sizes(&[1, 1_000, open]),
        },
        Growth {
            what: "busy connections",
            sizes: sizes(&[1, 100, 1_000]),
        },
    ];
    for _ in 0..bench.settings.rounds {
        for growth in &mut all {
            for (size, rounds) in &mut growth.sizes {
                let round = one(bench, growth.what, *size, distinct, frames)
                    .map_err(|e| format!("{} {size}: {e}", growth.what))?;
                rounds.push(round);
            }
        }
    }
    Ok(all)
}

fn one(
    bench: &Bench<'_>,
    what: &str,
    size: usize,
    distinct: usize,
    frames: usize,
) -> Result<Round> {
    let setup = Setup::counting();
    match what {
        "identities" | "distinct names" => {
            let file = bench.folder.join("distinct.fstrm");
            let (identities, names) = if what == "identities" {
                (size, 1)
            } else {
                (1, size)
            };
            let input = Input::distinct(file, distinct, identities, names)?;
            let round = through_with(bench.folder, &input, &setup, frames, 1, 0);
            fs::remove_file(&input.file)?;
            round
        }
        "busy connections" => through(bench, &setup, frames, size, 0),
        _ => through(bench, &setup, frames, 1, size - 1),
    }
}

/// The table.
pub(crate) fn report(all: &[Growth]) -> String {
    let rows: Vec<Vec<String>> = all
        .iter()
        .flat_map(|growth| {
            growth.sizes.iter().map(|(size, rounds)| {
                let cpu = Spread::of(
                    rounds
                        .iter()
                        .map(|r| r.collector.cpu * 1e9 / r.frames as f64),
                );
                let rate = Spread::of(rounds.iter().map(|r| r.rate() / 1e6));
                let peak = rounds.iter().map(|r| r.collector.peak).max().unwrap_or(0);
                vec![
                    growth.what.to_owned(),
                    size.to_string(),
                    format!("{cpu:.0} ns"),
                    format!("{rate:.2}"),
                    format!("{} MiB", peak.div_ceil(1 << 20)),
                ]
            })
        })
        .collect();
    table(
        &[
            "what grows",
            "to",
            "collector's CPU a frame",
            "million frames/s",
            "collector's peak memory",
        ],
        &rows,
    )
}
