//! The steps that are counted, each over the same frames: the first of every server's capture.

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tapflow::dns::DnsView;
use tapflow::dnstap::DnstapView;
use tapflow::format::{Source, json, quiet};
use tapflow::fstrm::{BufOptions, BufPool, Decoder, FrameBuf, Frames, Item, Limits, Oversize};
use tapflow::ids::ConnId;
use tapflow::pipeline::batch::Origin;
use tapflow::pipeline::ledger::{Arrival, Ledger};
use tapflow::pipeline::stage::{Chain, StageContext};
use tapflow::stages::options::StageOptions;
use tapflow::telemetry::Telemetry;

use crate::Result;

/// Frames taken from each capture.
const OF_EACH: usize = 300;

/// A step: its name and what runs it so many times over the sample. What it gives keeps the work from being left out.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Sample, usize) -> usize,
}

pub(crate) const STEPS: &[Step] = &[
    Step {
        name: "frames",
        run: frames,
    },
    Step {
        name: "view_header_question",
        run: views,
    },
    Step {
        name: "decode_and_metrics",
        run: metrics,
    },
    Step {
        name: "quiet_text",
        run: text,
    },
    Step {
        name: "json",
        run: lines,
    },
];

/// Frames as they stand on the wire.
pub(crate) struct Sample {
    pub(crate) frames: usize,
    wire: Vec<u8>,
}

impl Sample {
    pub(crate) fn load() -> Result<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/captures");
        let mut paths: Vec<PathBuf> = fs::read_dir(folder)?
            .filter_map(|e| Some(e.ok()?.path()))
            .collect();
        paths.retain(|p| p.extension().is_some_and(|e| e == "fstrm"));
        paths.sort();
        let (mut wire, mut frames) = (Vec::new(), 0);
        for path in paths {
            let file = fs::read(path)?;
            // Behind START, which has dnstap's content type.
            let run = file.get(42..).unwrap_or_default();
            for payload in Frames::new(run).take(OF_EACH) {
                wire.extend((payload.len() as u32).to_be_bytes());
                wire.extend(payload);
                frames += 1;
            }
        }
        Ok(Self { frames, wire })
    }
}

/// What callgrind counts: it is told to collect in this function alone, so that neither loading nor a first round, in
/// which buffers grow and tables fill, is in the figures.
#[inline(never)]
fn measured(round: &mut dyn FnMut(), rounds: usize) {
    for _ in 0..rounds {
        round();
    }
}

/// A round that is not counted, and then so many that are.
fn count(rounds: usize, mut round: impl FnMut()) {
    round();
    measured(&mut round, rounds);
}

/// From the bytes of a read to the payloads. The run is not consumed, so that each round finds the same one, and no copy
/// is counted, which callgrind would count by its bytes.
fn frames(sample: &Sample, rounds: usize) -> usize {
    let capacity = sample.wire.len();
    let options = BufOptions {
        initial_capacity: capacity,
        growth_limit: 2 * capacity,
    };
    let mut buf = FrameBuf::new(options, BufPool::new(capacity, 8));
    buf.extend(&sample.wire);
    let mut decoder = Decoder::new(Limits::default(), Oversize::Skip);
    let mut sum = 0;
    count(rounds, || {
        if let Ok(Some(Item::Run { len, .. })) = decoder.next(&mut buf) {
            let run = buf.unread().get(..len).unwrap_or_default();
            sum += Frames::new(run).map(|p| black_box(p).len()).sum::<usize>();
        }
    });
    sum
}

/// dnstap, DNS header and question.
fn views(sample: &Sample, rounds: usize) -> usize {
    let question = |payload: &[u8]| {
        let view = DnstapView::parse(payload).ok()?;
        let (dns, _) = black_box(&view).classify().ok()?.dns()?;
        let dns = DnsView::parse(dns).ok()?;
        let question = dns.question().ok()??;
        Some(usize::from(question.qtype) + question.name.wire_len())
    };
    let mut sum = 0;
    count(rounds, || {
        sum += Frames::new(&sample.wire)
            .filter_map(question)
            .sum::<usize>();
    });
    sum
}

/// The stages of a collector with its defaults, a read at a time.
fn metrics(sample: &Sample, rounds: usize) -> usize {
    let (telemetry, ledger) = (Telemetry::new(), Ledger::new());
    let context = StageContext {
        ledger: &ledger,
        telemetry: &telemetry,
    };
    let origin = Origin {
        conn: ConnId::next(),
        listener: "unix".into(),
        peer: "uid 53".into(),
    };
    let stage = |options: StageOptions| {
        let factory = tapflow::stages::build(&options, &context).expect("a stage");
        factory.build(&origin)
    };
    let mut chain = Chain::new(vec![
        stage(StageOptions::Decode(Default::default())),
        stage(StageOptions::Metrics(Default::default())),
    ]);
    let received = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let mut arrival = Arrival::default();
    count(rounds, || {
        black_box(chain.process(&sample.wire, sample.frames, &origin, received, &mut arrival));
    });
    arrival.kept as usize
}

/// Writes every frame with `write`, in a buffer that is used again.
fn written(
    sample: &Sample,
    rounds: usize,
    mut write: impl FnMut(&mut Vec<u8>, &DnstapView<'_>) -> bool,
) -> usize {
    let mut out = Vec::with_capacity(1 << 20);
    let mut records = 0;
    count(rounds, || {
        for payload in Frames::new(&sample.wire) {
            if out.len() > 1 << 19 {
                out.clear();
            }
            if let Ok(view) = DnstapView::parse(payload) {
                records += usize::from(write(&mut out, &view));
            }
        }
    });
    records
}

fn text(sample: &Sample, rounds: usize) -> usize {
    written(sample, rounds, |out, view| {
        quiet::write(out, view, true).is_ok()
    })
}

fn lines(sample: &Sample, rounds: usize) -> usize {
    let source = Source {
        received: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)),
        listener: "unix",
        peer: "uid 53",
    };
    written(sample, rounds, |out, view| {
        json::write(out, view, &source).is_ok()
    })
}
