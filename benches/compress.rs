//! Compressed data frames: a real server's stream in bulk frames of about 64 KiB, and one frame at a time. Bytes are those
//! of the plain frames.

use std::hint::black_box;

use criterion::BenchmarkId;
use criterion::Criterion;
use criterion::Throughput;
use criterion::criterion_group;
use criterion::criterion_main;

use tapflow::fstrm::BufOptions;
use tapflow::fstrm::BufPool;
use tapflow::fstrm::Codec;
use tapflow::fstrm::Compressor;
use tapflow::fstrm::Decoder;
use tapflow::fstrm::Decompressor;
use tapflow::fstrm::FrameBuf;
use tapflow::fstrm::Frames;
use tapflow::fstrm::Limits;
use tapflow::fstrm::Oversize;
use tapflow::fstrm::View;
use tapflow::fstrm::encode;

/// The data frames of a real server's stream as one run.
fn run() -> Vec<u8> {
    let mut buf = FrameBuf::new(BufOptions::default(), BufPool::new(256 * 1024, 1));
    buf.extend(include_bytes!("../testdata/fstrm/wire/unbound.bin"));
    let mut decoder = Decoder::new(Limits::default(), Oversize::Skip);
    let mut run = Vec::new();
    while let Ok(Some(view)) = decoder.next_view(&mut buf) {
        if let View::Frame(payload) = view {
            encode::data(payload, &mut run).expect("it was a frame");
        }
    }
    run
}

fn bench(c: &mut Criterion) {
    let run = run();
    let frames = Frames::count_of(&run).expect("it is a run");
    for codec in Codec::ALL {
        let mut compressor = Compressor::new(codec);
        let (mut bulk, mut each) = (Vec::new(), Vec::new());
        compressor.bulk(&run, &mut bulk).expect("it fits");
        compressor.each(&run, &mut each).expect("it fits");
        println!(
            "{codec}: {frames} frames, {} bytes: bulk {}, each {}",
            run.len(),
            bulk.len(),
            each.len()
        );
        let mut group = c.benchmark_group("compress");
        group.throughput(Throughput::Bytes(run.len() as u64));
        let mut out = Vec::new();
        group.bench_function(BenchmarkId::new("compress_bulk", codec), |b| {
            b.iter(|| {
                out.clear();
                black_box(compressor.bulk(&run, &mut out))
            });
        });
        for (layout, container) in [("decompress_bulk", &bulk), ("decompress_each", &each)] {
            let mut decompressor = Decompressor::new(1 << 20);
            group.bench_function(BenchmarkId::new(layout, codec), |b| {
                b.iter(|| {
                    out.clear();
                    for payload in Frames::new(container) {
                        let _ = black_box(decompressor.inner(codec, payload, &mut out));
                    }
                    assert_eq!(out.len(), run.len());
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
