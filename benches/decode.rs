//! Frame Streams from memory: what a frame costs between the socket and the dnstap decoder.
//!
//! Buffers of 256 KiB, one read, full of frames of one size, or of the mixed sizes of a real server's stream. `run` finds
//! the frames and hands them on undecoded, as a relay does; `run_and_views` also looks at each payload, as a decode stage
//! does; `views` goes frame by frame; `owned` splits each batch off; `encode` is the other direction.

use std::hint::black_box;

use criterion::BatchSize;
use criterion::BenchmarkId;
use criterion::Criterion;
use criterion::Throughput;
use criterion::criterion_group;
use criterion::criterion_main;

use tapflow::fstrm::BufOptions;
use tapflow::fstrm::BufPool;
use tapflow::fstrm::Decoder;
use tapflow::fstrm::FrameBuf;
use tapflow::fstrm::Frames;
use tapflow::fstrm::Item;
use tapflow::fstrm::Limits;
use tapflow::fstrm::Oversize;
use tapflow::fstrm::View;
use tapflow::fstrm::encode;

const READ: usize = 256 * 1024;

/// One read full of frames, with the number of them.
fn frames(name: &str, sizes: &[usize]) -> (String, Vec<u8>, u64) {
    let mut bytes = Vec::with_capacity(READ);
    let mut count = 0;
    for size in sizes.iter().cycle() {
        if bytes.len() + 4 + size > READ {
            break;
        }
        encode::data(&vec![0x0a; *size], &mut bytes).expect("it is a frame");
        count += 1;
    }
    (name.to_owned(), bytes, count)
}

fn inputs() -> Vec<(String, Vec<u8>, u64)> {
    let wire = include_bytes!("../testdata/fstrm/wire/unbound.bin");
    let mut buf = filled(wire);
    let mut decoder = Decoder::new(Limits::default(), Oversize::Skip);
    let mut sizes = Vec::new();
    while let Ok(Some(view)) = decoder.next_view(&mut buf) {
        if let View::Frame(payload) = view {
            sizes.push(payload.len());
        }
    }
    vec![
        frames("64", &[64]),
        frames("163", &[163]),
        frames("1400", &[1400]),
        frames("unbound", &sizes),
    ]
}

fn filled(bytes: &[u8]) -> FrameBuf {
    let opts = BufOptions {
        initial_capacity: READ,
        growth_limit: 2 * READ,
    };
    let mut buf = FrameBuf::new(opts, BufPool::new(READ, 8));
    buf.extend(bytes);
    buf
}

fn bench(c: &mut Criterion) {
    for (name, bytes, count) in inputs() {
        let mut group = c.benchmark_group("decode");
        group.throughput(Throughput::Elements(count));
        group.bench_function(BenchmarkId::new("run", &name), |b| {
            let mut buf = filled(&bytes);
            let mut decoder = Decoder::new(Limits::default(), Oversize::Skip);
            // Not consumed, so that each round finds the same run.
            b.iter(|| black_box(decoder.next(&mut buf)));
        });
        group.bench_function(BenchmarkId::new("run_and_views", &name), |b| {
            let mut buf = filled(&bytes);
            let mut decoder = Decoder::new(Limits::default(), Oversize::Skip);
            b.iter(|| {
                let Ok(Some(Item::Run { len, .. })) = decoder.next(&mut buf) else {
                    return;
                };
                let run = buf.unread().get(..len).unwrap_or_default();
                Frames::new(run).for_each(|payload| {
                    black_box(payload);
                });
            });
        });
        group.bench_function(BenchmarkId::new("views", &name), |b| {
            let mut decoder = Decoder::new(Limits::default(), Oversize::Skip);
            let round = |mut buf: FrameBuf| {
                while let Ok(Some(view)) = decoder.next_view(&mut buf) {
                    black_box(view);
                }
                buf
            };
            b.iter_batched(|| filled(&bytes), round, BatchSize::SmallInput);
        });
        group.bench_function(BenchmarkId::new("owned", &name), |b| {
            let mut decoder = Decoder::new(Limits::default(), Oversize::Skip);
            let round = |mut buf: FrameBuf| {
                let Ok(Some(Item::Run { len, .. })) = decoder.next(&mut buf) else {
                    return None;
                };
                let run = buf.split_owned(len);
                Frames::new(&run).for_each(|payload| {
                    black_box(payload);
                });
                Some((buf, run))
            };
            b.iter_batched(|| filled(&bytes), round, BatchSize::SmallInput);
        });
        group.bench_function(BenchmarkId::new("encode", &name), |b| {
            let mut out = Vec::with_capacity(READ);
            b.iter(|| {
                out.clear();
                for payload in Frames::new(&bytes) {
                    encode::data(payload, &mut out).expect("it is a frame");
                }
                black_box(out.len())
            });
        });
        group.finish();
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
