//! How often the Frame Streams hot path allocates, counted by a global allocator that counts (in a binary of its own, so
//! that nothing else is counted). The promise: none a frame in view mode; none a frame and at most one a batch in owned
//! mode, once the pool has the storages it keeps.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test stops where it is wrong"
)]

use allocation_counter::measure;

use tapflow::fstrm::BufOptions;
use tapflow::fstrm::BufPool;
use tapflow::fstrm::Codec;
use tapflow::fstrm::Compressor;
use tapflow::fstrm::Decoder;
use tapflow::fstrm::Decompressor;
use tapflow::fstrm::FrameBuf;
use tapflow::fstrm::Frames;
use tapflow::fstrm::Item;
use tapflow::fstrm::Limits;
use tapflow::fstrm::Oversize;
use tapflow::fstrm::View;
use tapflow::fstrm::encode;

const STORAGE: usize = 64 * 1024;
const READ: usize = STORAGE;

/// Frames of 1 to 400 bytes, so that reads end within frames.
fn stream(frames: usize) -> Vec<u8> {
    let mut stream = Vec::new();
    (0..frames).for_each(|i| encode::data(&[0x0a; 400][..i % 400 + 1], &mut stream).unwrap());
    stream
}

fn connection() -> (FrameBuf, Decoder) {
    let opts = BufOptions {
        initial_capacity: 4096,
        growth_limit: 2 << 20,
    };
    (
        FrameBuf::new(opts, BufPool::new(STORAGE, 4)),
        Decoder::new(Limits::default(), Oversize::Skip),
    )
}

/// One read as a socket would do it.
fn read<'a>(buf: &mut FrameBuf, stream: &'a [u8]) -> &'a [u8] {
    let spare = buf.spare(READ);
    let n = spare.len().min(stream.len());
    spare[..n].copy_from_slice(&stream[..n]);
    buf.filled(n);
    &stream[n..]
}

/// Feeds the stream and hands each run to `batch`. Returns (batches, frames).
fn drive(
    buf: &mut FrameBuf,
    decoder: &mut Decoder,
    mut stream: &[u8],
    mut batch: impl FnMut(&mut FrameBuf, usize) -> usize,
) -> (u64, usize) {
    let (mut batches, mut frames) = (0, 0);
    while !stream.is_empty() {
        stream = read(buf, stream);
        while let Some(item) = decoder.next(buf).unwrap() {
            let Item::Run { len, frames: n } = item else {
                panic!("{item:?}")
            };
            assert_eq!(batch(buf, len), n);
            batches += 1;
            frames += n;
        }
    }
    (batches, frames)
}

fn borrow(buf: &mut FrameBuf, len: usize) -> usize {
    let frames = Frames::new(&buf.unread()[..len])
        .filter(|payload| payload[0] == 0x0a)
        .count();
    buf.consume(len);
    frames
}

fn own(buf: &mut FrameBuf, len: usize) -> usize {
    Frames::new(&buf.split_owned(len))
        .filter(|payload| payload[0] == 0x0a)
        .count()
}

#[test]
fn the_counter_counts() {
    assert_eq!(
        measure(|| drop(std::hint::black_box(vec![0u8; 100]))).count_total,
        1
    );
}

#[test]
fn view_mode_allocates_nothing_at_all() {
    let stream = stream(20_000);
    let (mut buf, mut decoder) = connection();
    drive(&mut buf, &mut decoder, &stream, borrow);
    let mut frames = 0;
    let info = measure(|| frames = drive(&mut buf, &mut decoder, &stream, borrow).1);
    assert_eq!((frames, info.count_total), (20_000, 0));
}

#[test]
fn frame_by_frame_views_allocate_nothing_at_all() {
    let stream = stream(20_000);
    let (mut buf, mut decoder) = connection();
    buf.spare(READ);
    let mut frames = 0;
    let info = measure(|| {
        let mut rest = &stream[..];
        while !rest.is_empty() {
            rest = read(&mut buf, rest);
            while let Some(view) = decoder.next_view(&mut buf).unwrap() {
                assert!(matches!(view, View::Frame([0x0a, ..])));
                frames += 1;
            }
        }
    });
    assert_eq!((frames, info.count_total), (20_000, 0));
}

#[test]
fn idle_connections_take_turns_with_the_pool_without_allocating() {
    let stream = stream(100);
    let (mut buf, mut decoder) = connection();
    let turn = |buf: &mut FrameBuf, decoder: &mut Decoder| {
        drive(buf, decoder, &stream, borrow);
        buf.release_if_empty();
        assert_eq!(buf.capacity(), 0);
    };
    turn(&mut buf, &mut decoder);
    let info = measure(|| (0..100).for_each(|_| turn(&mut buf, &mut decoder)));
    assert_eq!(info.count_total, 0);
}

#[test]
fn owned_mode_allocates_once_a_batch_and_never_a_frame() {
    let stream = stream(20_000);
    let (mut buf, mut decoder) = connection();
    drive(&mut buf, &mut decoder, &stream, own);
    let mut done = (0, 0);
    let info = measure(|| done = drive(&mut buf, &mut decoder, &stream, own));
    let (batches, frames) = done;
    assert_eq!(frames, 20_000);
    assert!(
        info.count_total <= batches,
        "{} allocations for {batches} batches",
        info.count_total
    );
    assert!(
        batches * 100 < frames as u64,
        "a batch is many frames: {batches}"
    );
}

#[test]
fn owned_mode_allocates_once_a_batch_while_a_queue_holds_more_batches_than_the_pool_keeps() {
    let stream = stream(20_000);
    let (mut buf, mut decoder) = connection();
    let mut queue = Vec::with_capacity(1000);
    let mut held = |buf: &mut FrameBuf, len: usize| {
        let run = buf.split_owned(len);
        let frames = Frames::new(&run).count();
        queue.push(run);
        frames
    };
    drive(&mut buf, &mut decoder, &stream, &mut held);
    let mut done = (0, 0);
    let info = measure(|| done = drive(&mut buf, &mut decoder, &stream, &mut held));
    let (batches, _) = done;
    assert!(
        info.count_total <= batches,
        "{} allocations for {batches} batches",
        info.count_total
    );
}

#[test]
fn a_skipped_frame_allocates_nothing() {
    let mut stream = 5_000_000u32.to_be_bytes().to_vec();
    stream.resize(5_000_004, 1);
    let (mut buf, mut decoder) = connection();
    buf.spare(READ);
    let mut skipped = 0;
    let info = measure(|| {
        let mut rest = &stream[..];
        while !rest.is_empty() {
            rest = read(&mut buf, rest);
            while let Some(item) = decoder.next(&mut buf).unwrap() {
                assert_eq!(item, Item::Skipped { len: 5_000_000 });
                skipped += 1;
            }
        }
    });
    assert_eq!(
        (skipped, info.count_total, decoder.mid_frame(&buf)),
        (1, 0, false)
    );
}

#[test]
fn a_decompressor_allocates_nothing_once_warm() {
    let run = stream(200);
    for codec in Codec::ALL {
        let mut frame = Vec::new();
        Compressor::new(codec).bulk(&run, &mut frame).unwrap();
        let mut decompressor = Decompressor::new(1 << 20);
        let mut out = Vec::with_capacity(2 * run.len());
        decompressor.inner(codec, &frame[4..], &mut out).unwrap();
        out.clear();
        let info = measure(|| {
            let inner = decompressor.inner(codec, &frame[4..], &mut out).unwrap();
            assert_eq!(inner.frames, 200);
        });
        assert_eq!(info.count_total, 0, "{codec}");
        assert_eq!(out, run);
    }
}
