//! Entry points for fuzzing: what must hold for any bytes at all. The cargo-fuzz targets in `testdata/fuzz` call these,
//! and a test replays what they found through the same functions.
//!
//! The first octets of an input choose the settings, the rest is the peer's. A finding is a panic.

use super::buffer::BufOptions;
use super::buffer::FrameBuf;
use super::compress::Codec;
use super::compress::Decompressor;
use super::control::ContentType;
use super::control::Control;
use super::decode::Decoder;
use super::decode::Frames;
use super::decode::Item;
use super::decode::Limits;
use super::decode::Oversize;
use super::decode::View;
use super::error::DecodeReason;
use super::handshake::Action;
use super::handshake::Dialect;
use super::handshake::Mode;
use super::handshake::Receiver;
use super::handshake::Sender;
use super::pool::BufPool;

/// What a decoder made of a stream, in a form in which two ways of reading can be compared.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    Frame(Vec<u8>),
    Control(Control),
    Skipped(u32),
    /// Without the first octets, of which more may have arrived in one way than in another.
    Error(DecodeReason, u64, u32),
    End {
        mid_frame: bool,
    },
}

struct Settings {
    limits: Limits,
    oversize: Oversize,
    chunk: usize,
    run_max: usize,
}

/// The decoder gives the same frames, control frames and error however the bytes arrive and whichever way the frames
/// leave, keeps its limits, and its buffer keeps its own.
pub fn decoder(input: &[u8]) {
    let Some((&[a, b, c, d], bytes)) = input.split_first_chunk::<4>() else {
        return;
    };
    let limits = Limits {
        control_len_max: 4 + usize::from(a),
        data_len_max: 1 + usize::from(b),
        skip_len_max: 1 << (c % 32),
    };
    let oversize = if d & 1 == 0 {
        Oversize::Skip
    } else {
        Oversize::Close
    };
    let one = Settings {
        limits,
        oversize,
        chunk: usize::MAX,
        run_max: usize::MAX,
    };
    let two = Settings {
        limits,
        oversize,
        chunk: 1 + usize::from(d >> 1),
        run_max: usize::from(c),
    };
    let whole = runs(bytes, &one, false);
    assert_eq!(whole, runs(bytes, &two, false), "in chunks");
    assert_eq!(whole, runs(bytes, &two, true), "split off");
    assert_eq!(whole, views(bytes, &two), "one at a time");
    for event in &whole {
        match event {
            Event::Frame(payload) => assert!((1..=limits.data_len_max).contains(&payload.len())),
            Event::Skipped(len) => assert!(crate::wire::index(*len) > limits.data_len_max),
            Event::Control(_) | Event::Error(..) | Event::End { .. } => {}
        }
    }
}

fn buffer(limits: &Limits) -> FrameBuf {
    // Room for one frame of any kind, so that the buffer's own limit is never the narrower one.
    let growth_limit = limits
        .control_len_max
        .max(limits.data_len_max)
        .saturating_add(8);
    FrameBuf::new(
        BufOptions {
            initial_capacity: 8,
            growth_limit,
        },
        BufPool::new(64, 2),
    )
}

fn runs(bytes: &[u8], settings: &Settings, owned: bool) -> Vec<Event> {
    let mut buf = buffer(&settings.limits);
    let mut decoder = Decoder::new(settings.limits, settings.oversize).max_run(settings.run_max);
    let mut events = Vec::new();
    let mut rest = bytes;
    loop {
        match decoder.next(&mut buf) {
            Ok(Some(Item::Run { len, frames })) => {
                let run = buf.unread().get(..len).unwrap_or_default().to_vec();
                if owned {
                    assert_eq!(buf.split_owned(len), run);
                } else {
                    buf.consume(len);
                }
                assert_eq!(Frames::count_of(&run), Ok(frames));
                events.extend(Frames::new(&run).map(|payload| Event::Frame(payload.to_vec())));
            }
            Ok(Some(Item::Control(control))) => events.push(Event::Control(control)),
            Ok(Some(Item::Skipped { len })) => events.push(Event::Skipped(len)),
            Ok(None) if rest.is_empty() => break,
            Ok(None) => rest = feed(&decoder, &mut buf, rest, settings.chunk),
            Err(error) => {
                events.push(Event::Error(error.reason, error.offset, error.len));
                return events;
            }
        }
    }
    events.push(Event::End {
        mid_frame: decoder.mid_frame(&buf),
    });
    events
}

fn views(bytes: &[u8], settings: &Settings) -> Vec<Event> {
    let mut buf = buffer(&settings.limits);
    let mut decoder = Decoder::new(settings.limits, settings.oversize);
    let mut events = Vec::new();
    let mut rest = bytes;
    loop {
        match decoder.next_view(&mut buf) {
            Ok(Some(View::Frame(payload))) => events.push(Event::Frame(payload.to_vec())),
            Ok(Some(View::Control(control))) => events.push(Event::Control(control)),
            Ok(Some(View::Skipped { len })) => events.push(Event::Skipped(len)),
            Ok(None) if rest.is_empty() => break,
            Ok(None) => rest = feed(&decoder, &mut buf, rest, settings.chunk),
            Err(error) => {
                events.push(Event::Error(error.reason, error.offset, error.len));
                return events;
            }
        }
    }
    events.push(Event::End {
        mid_frame: decoder.mid_frame(&buf),
    });
    events
}

fn feed<'a>(decoder: &Decoder, buf: &mut FrameBuf, bytes: &'a [u8], chunk: usize) -> &'a [u8] {
    assert!(decoder.want(buf) > 0);
    let n = buf.extend(bytes.get(..chunk).unwrap_or(bytes));
    assert!(n > 0, "a drained buffer has room");
    assert!(buf.capacity() <= buf.growth_limit());
    bytes.get(n..).unwrap_or_default()
}

/// Neither machine panics, a receiver never answers anything but READY and STOP, and never a stream that did not begin
/// with READY; what it answers is well formed and is what a sender can go on with.
pub fn handshake(input: &[u8]) {
    let Some((&[a, b], bytes)) = input.split_first_chunk::<2>() else {
        return;
    };
    let mode = match a % 4 {
        0 => Mode::Auto,
        1 => Mode::Bidirectional,
        2 => Mode::Unidirectional,
        _ => Mode::Raw,
    };
    let ours = if b & 1 == 0 {
        vec![ContentType::DNSTAP]
    } else {
        Vec::new()
    };
    let mut receiver = Receiver::new(mode, ours.clone());
    let mut sender = Sender::new(Dialect::Bidirectional, ours);
    sender.start();
    let limits = Limits::default();
    if receiver.check_first(bytes, limits.data_len_max).is_err() {
        return;
    }
    let mut buf = FrameBuf::new(BufOptions::default(), BufPool::new(4096, 2));
    let mut decoder = Decoder::new(limits, Oversize::Skip);
    buf.extend(bytes);
    while let Ok(Some(item)) = decoder.next(&mut buf) {
        match item {
            Item::Run { len, .. } => {
                buf.consume(len);
                if receiver.on_data().is_err() {
                    break;
                }
            }
            Item::Skipped { .. } if receiver.on_data().is_err() => break,
            Item::Skipped { .. } => {}
            Item::Control(control) => {
                // The peer's control frames are as untrusted for a sender.
                let _ = sender.on_control(&control);
                match receiver.on_control(&control) {
                    Ok(Action::Reply(reply) | Action::Stopped { reply: Some(reply) }) => {
                        assert_eq!(receiver.dialect(), Some(Dialect::Bidirectional));
                        let bytes = reply.to_bytes();
                        assert_eq!(
                            Control::parse(bytes.get(8..).unwrap_or_default()),
                            Ok(reply)
                        );
                    }
                    Ok(Action::Started) => assert!(receiver.streaming()),
                    Ok(Action::Ignored(_) | Action::Mark(_) | Action::Stopped { reply: None }) => {}
                    Err(_) => break,
                }
            }
        }
    }
    let _ = (
        receiver.on_eof(decoder.mid_frame(&buf)),
        sender.stop(),
        sender.on_eof(false),
    );
}

/// Whatever the payload, what comes out is a run within the limit or an error that leaves the output alone, and the
/// buffer keeps the limit.
pub fn decompress(input: &[u8]) {
    const LIMIT: usize = 64 * 1024;
    let Some((&choice, payload)) = input.split_first() else {
        return;
    };
    let mut decompressor = Decompressor::new(LIMIT);
    let configured = match choice % 4 {
        0 => Codec::Gzip,
        1 => Codec::Lz4,
        2 => Codec::Snappy,
        _ => Codec::Zstd,
    };
    for codec in [Some(configured), Codec::recognise(payload)]
        .into_iter()
        .flatten()
    {
        let mut out = vec![1, 2, 3];
        match decompressor.inner(codec, payload, &mut out) {
            Ok(inner) => {
                assert_eq!((inner.start, inner.start + inner.len), (3, out.len()));
                assert!(inner.len <= LIMIT);
                assert_eq!(
                    Frames::count_of(out.get(3..).unwrap_or_default()),
                    Ok(inner.frames)
                );
            }
            Err(_) => assert_eq!(out, [1, 2, 3]),
        }
        assert!(decompressor.capacity() <= LIMIT + 1);
    }
}
