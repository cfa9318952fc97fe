//! The decoders without sockets, each over the same bytes in memory, round by round in turn.
//!
//! `--frame-reader NAME=PROGRAM` lets another reader of frames take part: `PROGRAM frames FILE ROUNDS` must print how many
//! frames it read, nanoseconds and allocations a frame, as the program in `go/` does.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use prost::Message as _;
use tapflow::dns::DnsView;
use tapflow::dnstap::{DnstapView, pb};
use tapflow::fstrm::{BufOptions, BufPool, Decoder, FrameBuf, Frames, Item, Limits, Oversize};

use crate::support::figures::Spread;
use crate::support::input::{Input, START};
use crate::support::proc::finish;
use crate::support::{Result, Settings};

/// The frame sizes of go-framestream's benchmark with data from a capture.
const FOURTEEN: [usize; 14] = [
    129, 233, 129, 238, 129, 238, 129, 238, 129, 238, 129, 238, 129, 238,
];
/// Fifty frames of 512 bytes, its other benchmark.
const FIFTY: [usize; 50] = [512; 50];

/// A comparison: what we do and what a peer does, in nanoseconds a frame, round by round.
struct Pair {
    what: String,
    peer: String,
    ours: Vec<f64>,
    theirs: Vec<f64>,
    allocations: Option<f64>,
}

/// A row for each comparison.
pub(crate) fn run(
    settings: &Settings,
    folder: &Path,
    go: Option<&Path>,
) -> Result<Vec<Vec<String>>> {
    let frames = if settings.smoke { 50_000 } else { 3_000_000 };
    let mut readers: Vec<(String, PathBuf)> = Vec::new();
    if let Some(go) = go {
        readers.push(("golang-framestream's reader".to_owned(), go.to_owned()));
    }
    if let Some((name, program)) = settings
        .option("--frame-reader")
        .and_then(|o| o.split_once('='))
    {
        readers.push((name.to_owned(), program.into()));
    }
    let inputs = [
        ("14 frames of 129 to 238 bytes", &FOURTEEN[..]),
        ("50 frames of 512 bytes", &FIFTY[..]),
    ];
    let mut pairs: Vec<Pair> = Vec::new();
    for (what, sizes) in inputs {
        let input = Input::sizes(folder.join("sizes.fstrm"), sizes, sizes.len())?;
        let bytes = std::fs::read(&input.file)?;
        let rounds = frames / sizes.len();
        for (name, program) in &readers {
            let mut pair = Pair::new(what, name);
            for _ in 0..settings.rounds {
                pair.ours.push(ours_frames(&bytes, rounds, sizes.len())?);
                pair.their_round(program, "frames", &input.file, rounds)?;
            }
            pairs.push(pair);
        }
    }
    let captures = Input::captures(folder)?;
    let bytes = std::fs::read(&captures.file)?;
    let payloads: Vec<&[u8]> = Frames::new(&bytes[START.len()..bytes.len() - 12]).collect();
    let rounds = frames.div_ceil(payloads.len()).max(2);
    let mut prost = Pair::new(
        "dnstap, DNS header and question",
        "prost, without the DNS message",
    );
    let mut golang = Pair::new(
        "dnstap, DNS header and question",
        "golang-dnstap's messages with miekg/dns's Unpack",
    );
    for _ in 0..settings.rounds {
        let ours = ours_views(&payloads, rounds);
        prost.ours.push(ours);
        prost.theirs.push(with_prost(&payloads, rounds));
        golang.ours.push(ours);
        if let Some(go) = go {
            golang.their_round(go, "views", &captures.file, (rounds / 4).max(1))?;
        }
    }
    pairs.push(prost);
    if go.is_some() {
        pairs.push(golang);
    }
    let mut rows: Vec<Vec<String>> = pairs.iter().map(Pair::row).collect();
    if settings.option("--frame-reader").is_none() {
        let dash = || "–".to_owned();
        let why = "not to be had from the Go proxy here; `--frame-reader NAME=PROGRAM`";
        rows.push(vec![
            "the same frames".to_owned(),
            dash(),
            "go-framestream 1.8's zero-copy reader".to_owned(),
            why.to_owned(),
            dash(),
            dash(),
        ]);
    }
    Ok(rows)
}

impl Pair {
    fn new(what: &str, peer: &str) -> Self {
        Self {
            what: what.to_owned(),
            peer: peer.to_owned(),
            ours: Vec::new(),
            theirs: Vec::new(),
            allocations: None,
        }
    }

    fn their_round(
        &mut self,
        program: &Path,
        work: &str,
        file: &Path,
        rounds: usize,
    ) -> Result<()> {
        let mut command = Command::new(program);
        command.arg(work).arg(file).arg(rounds.to_string());
        let (said, _, _) = finish(&mut command)?;
        let words: Vec<f64> = said.split_whitespace().flat_map(str::parse).collect();
        let [_, nanos, allocations] = words[..] else {
            return Err(format!("{} said {said:?}", self.peer).into());
        };
        self.theirs.push(nanos);
        self.allocations = Some(allocations);
        Ok(())
    }

    fn row(&self) -> Vec<String> {
        let ratio = Spread::of(self.ours.iter().zip(&self.theirs).map(|(a, b)| b / a));
        vec![
            self.what.clone(),
            format!("{:.1} ns", Spread::of(self.ours.iter().copied())),
            self.peer.clone(),
            format!("{:.0} ns", Spread::of(self.theirs.iter().copied())),
            self.allocations
                .map_or_else(|| "–".to_owned(), |a| format!("{a:.1}")),
            format!("{ratio:.1}"),
        ]
    }
}

/// Nanoseconds a frame from the bytes of a read to the payloads. Each round takes the bytes in anew, as a read would, and
/// the buffer is used again; nothing is allocated a frame.
fn ours_frames(file: &[u8], rounds: usize, frames: usize) -> Result<f64> {
    let wire = &file[START.len()..file.len() - 12];
    let options = BufOptions {
        initial_capacity: 64 * 1024,
        growth_limit: 128 * 1024,
    };
    let mut buf = FrameBuf::new(options, BufPool::new(64 * 1024, 2));
    let mut decoder = Decoder::new(Limits::default(), Oversize::Skip);
    let (started, mut seen) = (Instant::now(), 0);
    for _ in 0..rounds {
        buf.extend(black_box(wire));
        while let Ok(Some(Item::Run { len, .. })) = decoder.next(&mut buf) {
            let run = buf.unread().get(..len).unwrap_or_default();
            seen += Frames::new(run)
                .map(|p| usize::from(!black_box(p).is_empty()))
                .sum::<usize>();
            buf.consume(len);
        }
    }
    let nanos = started.elapsed().as_nanos() as f64;
    if seen != rounds * frames {
        return Err(format!("{seen} frames were found of {}", rounds * frames).into());
    }
    Ok(nanos / seen as f64)
}

fn ours_views(payloads: &[&[u8]], rounds: usize) -> f64 {
    let look = |payload: &[u8]| {
        let view = DnstapView::parse(payload).ok()?;
        // The whole view has to exist, as it does for a stage that is handed one.
        let (dns, _) = black_box(&view).classify().ok()?.dns()?;
        let dns = DnsView::parse(dns).ok()?;
        let question = dns.question().ok()??;
        Some(usize::from(question.qtype) + question.name.wire_len())
    };
    each(payloads, rounds, |payload| {
        black_box(look(payload));
    })
}

fn with_prost(payloads: &[&[u8]], rounds: usize) -> f64 {
    each(payloads, rounds, |payload| {
        black_box(pb::Dnstap::decode(payload).is_ok());
    })
}

/// Nanoseconds that `work` takes for each payload.
fn each(payloads: &[&[u8]], rounds: usize, mut work: impl FnMut(&[u8])) -> f64 {
    let started = Instant::now();
    for _ in 0..rounds {
        for payload in payloads {
            work(payload);
        }
    }
    started.elapsed().as_nanos() as f64 / (rounds * payloads.len()) as f64
}
