//! The decode path and the text writers over the servers' captures of `testdata/captures`, frame by frame.
//!
//! `cargo bench --bench dnstap`: times are for the whole mix; the `elem/s` beside them are frames, so
//! 1 / (elem/s) is the time a frame.

use std::fs;
use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use prost::Message as _;
use tapflow::dns::DnsView;
use tapflow::dnstap::{DnstapView, pb};
use tapflow::fields::Subject;
use tapflow::filter::{Expression, Filter};
use tapflow::format::{Source, json, quiet};

/// Every data frame's payload of every capture, in one run of octets as it would lie in a read buffer.
fn capture_mix() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/captures");
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("testdata/captures")
        .map(|entry| entry.expect("entry").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "fstrm")
        })
        .collect();
    files.sort();
    files
        .iter()
        .map(|path| fs::read(path).expect("capture"))
        .collect()
}

/// The payloads of a Frame Streams file.
fn payloads(file: &[u8]) -> Vec<&[u8]> {
    let word = |at: usize| Some(u32::from_be_bytes(*file.get(at..)?.first_chunk::<4>()?) as usize);
    let (mut payloads, mut at) = (Vec::new(), 0);
    while let Some(len) = word(at) {
        at += 4;
        if len == 0 {
            at += 4 + word(at).expect("control length");
            continue;
        }
        payloads.push(&file[at..at + len]);
        at += len;
    }
    payloads
}

fn view_and_question(payload: &[u8]) -> usize {
    let Ok(view) = DnstapView::parse(payload) else {
        return 0;
    };
    // The whole view has to exist, as it does for a stage that is handed one.
    let view = black_box(&view);
    let Ok(message) = view.classify() else {
        return 0;
    };
    let Some((dns, _)) = message.dns() else {
        return 1;
    };
    let Ok(dns) = DnsView::parse(dns) else {
        return 2;
    };
    match dns.question() {
        Ok(Some(question)) => {
            usize::from(question.qtype)
                + question.name.wire_len()
                + usize::from(dns.header().rcode())
        }
        _ => 3,
    }
}

fn decode(c: &mut Criterion) {
    let files = capture_mix();
    let frames: Vec<&[u8]> = files.iter().flat_map(|file| payloads(file)).collect();
    let mut group = c.benchmark_group("dnstap");
    group.throughput(Throughput::Elements(frames.len() as u64));
    group.bench_function("view", |b| {
        b.iter(|| {
            for payload in &frames {
                black_box(
                    &DnstapView::parse(payload).is_ok_and(|view| black_box(&view).kind == Some(1)),
                );
            }
        });
    });
    group.bench_function("view_header_question", |b| {
        b.iter(|| {
            frames
                .iter()
                .map(|payload| view_and_question(payload))
                .sum::<usize>()
        });
    });
    group.bench_function("view_header_question_rcode", |b| {
        b.iter(|| {
            let rcode = |payload: &[u8]| {
                let view = DnstapView::parse(payload).ok()?;
                let (dns, _) = view.classify().ok()?.dns()?;
                Some(DnsView::parse(dns).ok()?.rcode())
            };
            frames
                .iter()
                .filter_map(|payload| rcode(payload))
                .map(u64::from)
                .sum::<u64>()
        });
    });
    group.bench_function("dns_walk", |b| {
        b.iter(|| {
            let walk = |payload: &[u8]| {
                let view = DnstapView::parse(payload).ok()?;
                let (dns, _) = view.classify().ok()?.dns()?;
                Some(DnsView::parse(dns).ok()?.walk().malformed.is_some())
            };
            frames
                .iter()
                .filter_map(|payload| walk(payload))
                .filter(|odd| *odd)
                .count()
        });
    });
    group.bench_function("prost", |b| {
        b.iter(|| {
            for payload in &frames {
                black_box(&pb::Dnstap::decode(*payload).is_ok());
            }
        });
    });
    group.finish();
}

fn text(c: &mut Criterion) {
    let files = capture_mix();
    let frames: Vec<&[u8]> = files.iter().flat_map(|file| payloads(file)).collect();
    let mut group = c.benchmark_group("format");
    group.throughput(Throughput::Elements(frames.len() as u64));
    let mut out = Vec::with_capacity(1 << 20);
    for (name, utc) in [("quiet_utc", true), ("quiet_local", false)] {
        group.bench_function(name, |b| {
            b.iter(|| {
                for payload in &frames {
                    if out.len() > 1 << 19 {
                        out.clear();
                    }
                    if let Ok(view) = DnstapView::parse(payload) {
                        black_box(quiet::write(&mut out, &view, utc).is_ok());
                    }
                }
            });
        });
    }
    let source = Source {
        received: Some(std::time::SystemTime::now()),
        listener: "unix",
        peer: "uid 53",
    };
    group.bench_function("json", |b| {
        b.iter(|| {
            for payload in &frames {
                if out.len() > 1 << 19 {
                    out.clear();
                }
                if let Ok(view) = DnstapView::parse(payload) {
                    black_box(json::write(&mut out, &view, &source).is_ok());
                }
            }
        });
    });
    group.finish();
}

/// What it costs to judge a frame, its view included: `nothing` is the view alone.
fn filter(c: &mut Criterion) {
    let files = capture_mix();
    let frames: Vec<&[u8]> = files.iter().flat_map(|file| payloads(file)).collect();
    let names = |n: usize| {
        let names: Vec<_> = (0..n).map(|n| format!("n{n}.example")).collect();
        format!("qname within {{{}}}", names.join(", "))
    };
    let (ten_thousand, four) = (names(10_000), names(4));
    let mut group = c.benchmark_group("filter");
    group.throughput(Throughput::Elements(frames.len() as u64));
    for (name, expression) in [
        ("nothing", None),
        ("type", Some("type == CLIENT_QUERY")),
        ("qtype", Some("qtype in {AAAA, HTTPS}")),
        ("within_4", Some(four.as_str())),
        ("within_10000", Some(ten_thousand.as_str())),
        ("client", Some("client in {127.0.3.0/24, 2001:db8::/32}")),
        ("rcode", Some("rcode in {NXDOMAIN, SERVFAIL}")),
        ("regex_name", Some("qname ~ /^nx-[a-z0-9]+\\./")),
        (
            "mixed",
            Some(
                "type ~ /^CLIENT/ and (qname within rig.example or rcode == SERVFAIL) and not client in 127.0.3.8 \
                 and length >= 50",
            ),
        ),
    ] {
        let expression = match expression {
            Some(text) => text.parse().expect("an expression"),
            None => Expression::all(),
        };
        let mut filter = Filter::new(&expression);
        group.bench_function(name, |b| {
            b.iter(|| {
                let mut keeps = |payload: &[u8]| {
                    DnstapView::parse(payload)
                        .is_ok_and(|view| filter.matches(&mut Subject::new(black_box(&view))))
                };
                frames.iter().filter(|payload| keeps(payload)).count()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, decode, text, filter);
criterion_main!(benches);
