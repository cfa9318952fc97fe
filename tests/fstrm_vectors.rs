//! Frame Streams through the public interface: the vectors, the odd byte streams of the corpus, what real servers wrote,
//! and each behaviour that the test suites of other implementations hold theirs to.
//!
//! The behaviours, by suite, and where each is tested (`unit` = beside the code in `src/fstrm`):
//!
//! libfstrm
//! - control frames with no, one and several content types decode, match and encode to the same bytes; a NUL within a
//!   content type is an octet like any other: [`control_frames_encode_to_the_bytes_they_were_decoded_from`]
//! - a content type matches when it is listed and when the list is empty: unit `handshake`
//! - control frames that are short, cut, overrun or trailing are refused: [`broken_control_frames_are_refused`]
//! - a unidirectional writer makes START, the frames in order and STOP, and reading gives the frames back and then the
//!   end, which is no error: [`what_a_unidirectional_sender_writes_reads_back_in_order`]
//! - opening a writer twice starts it once: [`a_sender_starts_once`]
//! - over a socket READY is answered with ACCEPT and STOP with FINISH, and as many frames and bytes arrive as were sent,
//!   from one to a hundred thousand: [`a_bidirectional_conversation_delivers_every_frame`]
//! - a file copied, or sent through a socket and captured again, is the same file:
//!   [`a_stream_relayed_run_by_run_is_byte_identical`]
//!
//! golang-framestream
//! - unidirectional and bidirectional round trips of frames of every length from 1: the tests above
//! - a foreign content type is an error for the reader: vectors `u-ct-mismatch` and `b-ready-other`
//! - a data frame over the reader's limit is not delivered:
//!   [`a_frame_over_the_limit_is_skipped_or_closes_as_configured`]
//! - both ends can be made in any order without a deadlock: no machine waits, unit `handshake`
//! - negotiation of no types, one, disjoint lists, and several in common (the reader's order decides):
//!   [`negotiation_prefers_the_receivers_order`]
//!
//! go-framestream
//! - handshake of sender and receiver: [`a_bidirectional_conversation_delivers_every_frame`]
//! - a control frame of four octets of unknown type is a control frame: [`an_unknown_control_type_is_ignored`]
//! - control frames without data, with a cut field header and with a cut field value are errors, not crashes; a minimal
//!   control frame and a content type of no octets are well formed: [`broken_control_frames_are_refused`]
//! - fourteen raw data frames without any control frame are read: [`raw_data_is_recognised_and_read`]
//! - a data length one over the limit and a control length of 227,195 are refused, and limits can be raised:
//!   [`lengths_over_the_limits_are_refused_before_their_bytes`]
//! - STOP is a STOP whatever it carries, within the limit: vector `u-stop-with-ct`
//! - frames given out are independent of those after them: [`owned_frames_outlive_the_frames_after_them`]
//! - compressed frames read back, one frame and bulk: unit `compress`
//! - any bytes give frames or an error, never a crash: [`the_fuzz_targets_hold_for_the_corpus`]
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test stops where it is wrong"
)]

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use bytes::Bytes;
use proptest::prelude::*;

use tapflow::fstrm::Action;
use tapflow::fstrm::BufOptions;
use tapflow::fstrm::BufPool;
use tapflow::fstrm::CONTENT_TYPE_DNSTAP;
use tapflow::fstrm::ContentType;
use tapflow::fstrm::Control;
use tapflow::fstrm::ControlKind;
use tapflow::fstrm::Data;
use tapflow::fstrm::DecodeReason;
use tapflow::fstrm::Decoder;
use tapflow::fstrm::Dialect;
use tapflow::fstrm::End;
use tapflow::fstrm::FrameBuf;
use tapflow::fstrm::Frames;
use tapflow::fstrm::Item;
use tapflow::fstrm::Limits;
use tapflow::fstrm::Mode;
use tapflow::fstrm::Oversize;
use tapflow::fstrm::Receiver;
use tapflow::fstrm::Sender;
use tapflow::fstrm::SenderAction;
use tapflow::fstrm::View;
use tapflow::fstrm::encode;

/// How the frames leave the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Runs, borrowed and consumed.
    Runs,
    /// Runs, split off.
    Owned,
    /// Frame by frame, borrowed.
    Views,
}

const WAYS: [Way; 3] = [Way::Runs, Way::Owned, Way::Views];

/// One connection as a link drives it, with what came of it.
struct Connection {
    buf: FrameBuf,
    decoder: Decoder,
    receiver: Receiver,
    way: Way,
    checked: bool,
    frames: Vec<Bytes>,
    skipped: Vec<u32>,
    ignored: usize,
    replies: Vec<Control>,
    end: Option<End>,
    /// What the log would say.
    error: String,
}

/// The stream has ended, or more bytes are needed.
struct Pause;

impl Connection {
    fn new(mode: Mode, way: Way) -> Self {
        Self::with(mode, way, Limits::default(), Oversize::Skip)
    }

    fn with(mode: Mode, way: Way, limits: Limits, oversize: Oversize) -> Self {
        let growth_limit = limits.data_len_max + 1024;
        Self {
            buf: FrameBuf::new(
                BufOptions {
                    initial_capacity: 64,
                    growth_limit,
                },
                BufPool::new(512, 8),
            ),
            decoder: Decoder::new(limits, oversize),
            receiver: Receiver::new(mode, vec![ContentType::DNSTAP]),
            way,
            checked: false,
            frames: Vec::new(),
            skipped: Vec::new(),
            ignored: 0,
            replies: Vec::new(),
            end: None,
            error: String::new(),
        }
    }

    fn read(&mut self, mut bytes: &[u8]) {
        while self.end.is_none() && !bytes.is_empty() {
            let n = self.buf.extend(bytes);
            assert!(n > 0, "a drained buffer has room");
            bytes = &bytes[n..];
            while self.step().is_ok() {}
        }
    }

    fn step(&mut self) -> Result<(), Pause> {
        if !self.checked {
            let first = self
                .receiver
                .check_first(self.buf.unread(), self.decoder.limits().data_len_max);
            self.checked = first.map_err(|e| self.fail(End::from(&e), &e.to_string()))?;
            if !self.checked {
                return Err(Pause);
            }
        }
        match self.way {
            Way::Views => self.view(),
            Way::Runs | Way::Owned => self.run(),
        }
    }

    fn run(&mut self) -> Result<(), Pause> {
        let item = self
            .decoder
            .next(&mut self.buf)
            .map_err(|e| self.fail(End::from(&e), &e.to_string()))?;
        match item.ok_or(Pause)? {
            Item::Run { len, frames } => {
                let deliver = self.data()?;
                let payloads: Vec<_> = if self.way == Way::Owned {
                    let run = self.buf.split_owned(len);
                    Frames::new(&run)
                        .map(|payload| run.slice_ref(payload))
                        .collect()
                } else {
                    let copied = Frames::new(&self.buf.unread()[..len])
                        .map(Bytes::copy_from_slice)
                        .collect();
                    self.buf.consume(len);
                    copied
                };
                assert_eq!(payloads.len(), frames, "the run says its frames");
                self.frames.extend(payloads.into_iter().filter(|_| deliver));
                Ok(())
            }
            Item::Skipped { len } => {
                self.data()?;
                self.skipped.push(len);
                Ok(())
            }
            Item::Control(control) => self.control(&control),
        }
    }

    fn view(&mut self) -> Result<(), Pause> {
        let view = match self.decoder.next_view(&mut self.buf) {
            Ok(view) => view.ok_or(Pause)?,
            Err(e) => return Err(self.fail(End::from(&e), &e.to_string())),
        };
        match view {
            View::Frame(payload) => {
                let payload = Bytes::copy_from_slice(payload);
                if self.data()? {
                    self.frames.push(payload);
                }
                Ok(())
            }
            View::Skipped { len } => {
                self.data()?;
                self.skipped.push(len);
                Ok(())
            }
            View::Control(control) => self.control(&control),
        }
    }

    fn data(&mut self) -> Result<bool, Pause> {
        let data = self
            .receiver
            .on_data()
            .map_err(|e| self.fail(End::from(&e), &e.to_string()))?;
        Ok(data == Data::Deliver)
    }

    fn control(&mut self, control: &Control) -> Result<(), Pause> {
        let action = self.receiver.on_control(control);
        match action.map_err(|e| self.fail(End::from(&e), &e.to_string()))? {
            Action::Reply(reply) => self.replies.push(reply),
            Action::Started => {}
            Action::Mark(_) | Action::Ignored(_) => self.ignored += 1,
            Action::Stopped { reply } => {
                self.replies.extend(reply);
                self.end = Some(self.receiver.on_eof(false));
                return Err(Pause);
            }
        }
        Ok(())
    }

    fn fail(&mut self, end: End, error: &str) -> Pause {
        self.end = Some(end);
        error.clone_into(&mut self.error);
        Pause
    }

    fn eof(mut self) -> Self {
        let end = self.receiver.on_eof(self.decoder.mid_frame(&self.buf));
        self.end.get_or_insert(end);
        self
    }

    fn summary(&self) -> String {
        let replies: Vec<_> = self.replies.iter().map(|c| c.kind.as_str()).collect();
        let replies = if replies.is_empty() {
            "-".to_owned()
        } else {
            replies.join(",")
        };
        format!(
            "frames={} reply={replies} end={}",
            self.frames.len(),
            self.end.unwrap().as_str()
        )
    }
}

fn run(mode: Mode, way: Way, chunks: &[&[u8]]) -> Connection {
    let mut connection = Connection::new(mode, way);
    chunks.iter().for_each(|chunk| connection.read(chunk));
    connection.eof()
}

fn whole(mode: Mode, bytes: &[u8]) -> Connection {
    run(mode, Way::Runs, &[bytes])
}

fn testdata(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(path)
}

/// The files of a folder by name without extension, in order.
fn files(dir: &str) -> Vec<(String, Vec<u8>)> {
    let paths = fs::read_dir(testdata(dir))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let named = |path: PathBuf| {
        (
            path.file_stem().unwrap().to_str().unwrap().to_owned(),
            fs::read(&path).unwrap(),
        )
    };
    let mut files: Vec<_> = paths.map(named).collect();
    files.sort();
    files
}

fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap())
        .collect()
}

/// (name, direction, bytes, expected) of each vector.
fn vectors() -> Vec<(String, String, Vec<u8>, String)> {
    let text = fs::read_to_string(testdata("vectors/framestreams.tsv")).unwrap();
    let parse = |line: &str| {
        let columns: Vec<_> = line.split('\t').map(str::to_owned).collect();
        let [name, direction, hex, want] = columns.try_into().expect("four columns");
        (name, direction, unhex(&hex), want)
    };
    let vectors: Vec<_> = text.lines().map(parse).collect();
    assert!(vectors.len() >= 35, "{} vectors", vectors.len());
    vectors
}

fn control(kind: ControlKind, types: &[&[u8]]) -> Vec<u8> {
    let content_types = types
        .iter()
        .map(|t| ContentType::new(t.to_vec()).unwrap())
        .collect();
    Control {
        kind,
        content_types,
    }
    .to_bytes()
    .to_vec()
}

fn start() -> Vec<u8> {
    control(ControlKind::Start, &[CONTENT_TYPE_DNSTAP])
}

fn stop() -> Vec<u8> {
    control(ControlKind::Stop, &[])
}

fn data(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode::data(payload, &mut out).unwrap();
    out
}

// ---- vectors

#[test]
fn every_vector_gives_what_it_should_whole_byte_by_byte_and_split_anywhere() {
    for (name, direction, bytes, want) in vectors() {
        let strict = if direction == "U" {
            Mode::Unidirectional
        } else {
            Mode::Bidirectional
        };
        // The unidirectional sender among the B vectors is there to show what auto mode is for.
        let modes = if name == "b-uni-sender" {
            vec![Mode::Auto]
        } else {
            vec![Mode::Auto, strict]
        };
        for mode in modes {
            for way in WAYS {
                assert_eq!(
                    run(mode, way, &[&bytes]).summary(),
                    want,
                    "{name} {mode:?} {way:?}"
                );
                let octets: Vec<_> = bytes.chunks(1).collect();
                assert_eq!(
                    run(mode, way, &octets).summary(),
                    want,
                    "{name} {mode:?} {way:?} by octets"
                );
                for at in 0..=bytes.len() {
                    let (a, b) = bytes.split_at(at);
                    assert_eq!(
                        run(mode, way, &[a, b]).summary(),
                        want,
                        "{name} {mode:?} {way:?} at {at}"
                    );
                }
            }
        }
    }
}

#[test]
fn every_vector_cut_at_any_byte_invents_no_frame_and_is_not_a_clean_stream() {
    for (name, _, bytes, want) in vectors() {
        let full = whole(Mode::Auto, &bytes);
        let stopped_by =
            (0..=bytes.len()).find(|at| whole(Mode::Auto, &bytes[..*at]).end == Some(End::Clean));
        assert_eq!(stopped_by.is_some(), want.ends_with("end=clean"), "{name}");
        for at in 0..bytes.len() {
            let cut = whole(Mode::Auto, &bytes[..at]);
            assert!(full.frames.starts_with(&cut.frames), "{name} cut at {at}");
            let clean = cut.end == Some(End::Clean);
            assert_eq!(
                clean,
                stopped_by.is_some_and(|stop| at >= stop),
                "{name} cut at {at}: {:?}",
                cut.end
            );
        }
    }
}

// ---- odd byte streams and real ones

#[test]
fn every_odd_byte_stream_of_the_corpus_behaves_as_its_row_says() {
    const UNEXPECTED: &str = "frames=0 reply=- end=unexpected_frame";
    const MALFORMED: &str = "frames=0 reply=- end=malformed";
    const MISMATCH: &str = "frames=0 reply=- end=content_type_mismatch";
    let wanted = [
        (
            "f02-start-no-content-type",
            "frames=1 reply=- end=clean",
            "",
        ),
        ("f03-start-two-types", MALFORMED, "too many content types"),
        ("f04-start-wrong-type", MISMATCH, "protobuf:other.Thing"),
        (
            "f06-start-type-nul",
            MISMATCH,
            r"protobuf:dnstap.Dnstap\x00",
        ),
        (
            "f07-start-type-257",
            MALFORMED,
            "content type over 256 octets",
        ),
        ("f08-control-length-0", MALFORMED, "shorter than its type"),
        ("f09-control-length-3", MALFORMED, "length 3"),
        ("f12-unknown-control", "frames=2 reply=- end=clean", ""),
        ("f15-field-cut", MALFORMED, "within a field header"),
        ("f17-data-after-stop", "frames=1 reply=- end=clean", ""),
        ("f20-cut-in-length", "frames=1 reply=- end=truncated", ""),
        ("f21-cut-in-payload", "frames=1 reply=- end=truncated", ""),
        ("f24-empty-file", "frames=0 reply=- end=handshake_eof", ""),
        (
            "f25-length-max",
            "frames=1 reply=- end=lost_framing",
            "at byte 140: length 4294967295",
        ),
        (
            "f27-ready-in-file",
            "frames=1 reply=ACCEPT,FINISH end=clean",
            "",
        ),
        ("f29-accept-first", UNEXPECTED, "unexpected ACCEPT"),
        ("f31-stop-only", UNEXPECTED, "unexpected STOP"),
        (
            "f32-tls-hello",
            "frames=0 reply=- end=tls",
            "looks like TLS",
        ),
        (
            "f33-http-get",
            "frames=0 reply=- end=http",
            "looks like HTTP",
        ),
        (
            "f34-two-octet-length",
            "frames=0 reply=- end=powerdns_protobuf",
            "use the dnstap logger",
        ),
        (
            "f35-syslog",
            "frames=0 reply=- end=wrong_protocol",
            "syslog",
        ),
        (
            "f36-little-endian",
            "frames=0 reply=- end=control_too_long",
            "length 570425344",
        ),
        ("f38-frame-70000", "frames=3 reply=- end=clean", ""),
        ("f39-frame-300000", "frames=3 reply=- end=clean", ""),
        (
            "f40-handshake-client",
            "frames=2 reply=ACCEPT,FINISH end=clean",
            "",
        ),
        (
            "f43-ready-no-type",
            "frames=1 reply=ACCEPT,FINISH end=clean",
            "",
        ),
        ("f44-ready-40-types", MISMATCH, "t:35"),
        (
            "f46-gzip",
            "frames=0 reply=- end=wrong_protocol",
            "compressed as a whole with gzip",
        ),
    ];
    let files = files("corpus/framing");
    assert_eq!(files.len(), wanted.len());
    for ((name, bytes), (want_name, want, error)) in files.iter().zip(wanted) {
        assert_eq!(name, want_name);
        for way in WAYS {
            for chunk in [bytes.len().max(1), 1, 4093] {
                let chunks: Vec<_> = bytes.chunks(chunk).collect();
                let got = run(Mode::Auto, way, &chunks);
                assert_eq!(got.summary(), want, "{name} {way:?} in chunks of {chunk}");
                assert!(got.error.contains(error), "{name}: {}", got.error);
                assert_eq!(
                    got.error.is_empty(),
                    error.is_empty(),
                    "{name}: {}",
                    got.error
                );
            }
        }
    }
}

#[test]
fn a_large_frame_over_a_lower_limit_is_skipped_exactly() {
    for (file, len) in [("f38-frame-70000", 70_000), ("f39-frame-300000", 300_000)] {
        let bytes = fs::read(testdata(&format!("corpus/framing/{file}.fstrm"))).unwrap();
        let limits = Limits {
            data_len_max: 65_535,
            ..Limits::default()
        };
        for way in WAYS {
            let mut connection = Connection::with(Mode::Auto, way, limits, Oversize::Skip);
            connection.read(&bytes);
            assert_eq!(connection.summary(), "frames=2 reply=- end=clean", "{file}");
            assert!(
                matches!(connection.skipped[..], [n] if (len..len + 500).contains(&n)),
                "{file}"
            );
            let mut connection = Connection::with(Mode::Auto, way, limits, Oversize::Close);
            connection.read(&bytes);
            assert_eq!(
                connection.summary(),
                "frames=1 reply=- end=data_too_long",
                "{file}"
            );
        }
    }
}

#[test]
fn what_real_servers_wrote_is_read_to_the_last_frame() {
    // Frames and end as the timeline recorded with each capture has them.
    let wanted = [
        ("bind9", 172, "ACCEPT,FINISH", "clean"),
        ("dnsdist", 60, "ACCEPT", "no_stop"),
        ("knot", 60, "ACCEPT,FINISH", "clean"),
        ("knot-resolver", 60, "ACCEPT,FINISH", "clean"),
        ("nsd", 60, "ACCEPT,FINISH", "clean"),
        ("pdns-recursor", 82, "ACCEPT", "no_stop"),
        ("unbound", 194, "ACCEPT,FINISH", "clean"),
        ("unbound-unidirectional", 194, "-", "clean"),
    ];
    let files = files("fstrm/wire");
    assert_eq!(files.len(), wanted.len());
    for ((name, bytes), (want_name, frames, reply, end)) in files.iter().zip(wanted) {
        assert_eq!(name, want_name);
        let want = format!("frames={frames} reply={reply} end={end}");
        let first = whole(Mode::Auto, bytes).frames;
        for way in WAYS {
            for chunk in [bytes.len(), 1, 1000] {
                let chunks: Vec<_> = bytes.chunks(chunk).collect();
                let got = run(Mode::Auto, way, &chunks);
                assert_eq!(got.summary(), want, "{name} {way:?} in chunks of {chunk}");
                assert!(got.frames == first, "{name} {way:?} in chunks of {chunk}");
            }
        }
    }
}

// ---- libfstrm

#[test]
fn control_frames_encode_to_the_bytes_they_were_decoded_from() {
    let (a, b): (&[u8], &[u8]) = (b"with\0nul", b"second type");
    for (kind, types) in [
        (ControlKind::Accept, &[][..]),
        (ControlKind::Accept, &[a]),
        (ControlKind::Accept, &[a, b]),
        (ControlKind::Ready, &[a, b]),
        (ControlKind::Start, &[]),
        (ControlKind::Start, &[a]),
        (ControlKind::Stop, &[]),
        (ControlKind::Finish, &[]),
    ] {
        let bytes = control(kind, types);
        let parsed = Control::parse(&bytes[8..]).unwrap();
        assert_eq!(parsed.kind, kind);
        assert_eq!(
            parsed
                .content_types
                .iter()
                .map(ContentType::as_bytes)
                .collect::<Vec<_>>(),
            types
        );
        assert_eq!(parsed.to_bytes(), bytes, "{kind} {types:?}");
    }
    let by_hand = b"\0\0\0\0\0\0\0\x0e\0\0\0\x02\0\0\0\x01\0\0\0\x02ab";
    assert_eq!(control(ControlKind::Start, &[b"ab"]), by_hand);
}

#[test]
fn broken_control_frames_are_refused() {
    let rows: &[(&[u8], Option<DecodeReason>)] = &[
        (b"", Some(DecodeReason::ControlTooShort)),
        (b"\xff", Some(DecodeReason::ControlTooShort)),
        (b"\xff\xff\xff", Some(DecodeReason::ControlTooShort)),
        (
            b"\0\0\0\x02\0\0\0\x01\0\0\0\x0b0123456789",
            Some(DecodeReason::FieldOverrun),
        ),
        (
            b"\0\0\0\x02\0\0\0\x01\0\0\0\x0b0123456789ab",
            Some(DecodeReason::FieldCut),
        ),
        (b"\0\0\0\x02\0", Some(DecodeReason::FieldCut)),
        (b"\0\0\0\x02\0\0\0", Some(DecodeReason::FieldCut)),
        (b"\0\0\0\x02\0\0\0\x01", Some(DecodeReason::FieldCut)),
        (
            b"\0\0\0\x01\0\0\0\x01\0\0\0\x0a01",
            Some(DecodeReason::FieldOverrun),
        ),
        (b"\0\0\0\x01", None),
        (b"\0\0\0\x01\0\0\0\x01\0\0\0\0", None),
    ];
    for (body, want) in rows {
        assert_eq!(Control::parse(body).err(), *want, "{body:02x?}");
        let len = u32::try_from(body.len()).unwrap().to_be_bytes();
        let stream = [&[0; 4][..], &len, body].concat();
        let refused = if want.is_some() {
            End::Malformed
        } else {
            End::UnexpectedFrame
        };
        assert_eq!(whole(Mode::Auto, &stream).end, Some(refused), "{body:02x?}");
    }
}

#[test]
fn what_a_unidirectional_sender_writes_reads_back_in_order() {
    let mut sender = Sender::new(Dialect::Unidirectional, vec![ContentType::DNSTAP]);
    let payloads: Vec<Vec<u8>> = (1..=1000).map(|i| vec![0x0a; i]).collect();
    let mut stream = sender.start().unwrap().to_bytes().to_vec();
    payloads
        .iter()
        .for_each(|p| encode::data(p, &mut stream).unwrap());
    sender.stop().unwrap().encode(&mut stream);
    assert_eq!(sender.stop(), None, "STOP is written once");
    assert!(stream.starts_with(&start()) && stream.ends_with(&stop()));
    for mode in [Mode::Auto, Mode::Unidirectional] {
        let got = whole(mode, &stream);
        assert_eq!(got.summary(), "frames=1000 reply=- end=clean");
        assert_eq!(got.frames, payloads);
    }
}

#[test]
fn a_sender_starts_once() {
    for dialect in [
        Dialect::Bidirectional,
        Dialect::Unidirectional,
        Dialect::Raw,
    ] {
        let mut sender = Sender::new(dialect, vec![ContentType::DNSTAP]);
        assert_eq!(sender.start().is_some(), dialect != Dialect::Raw);
        assert_eq!(sender.start(), None);
    }
}

#[test]
fn a_bidirectional_conversation_delivers_every_frame() {
    for count in [1, 1000, 100_000] {
        let mut sender = Sender::new(Dialect::Bidirectional, vec![ContentType::DNSTAP]);
        let mut connection = Connection::new(Mode::Auto, Way::Runs);
        connection.read(&sender.start().unwrap().to_bytes());
        let accept = connection.replies.pop().unwrap();
        assert_eq!(accept.content_types, [ContentType::DNSTAP]);
        let Ok(SenderAction::Start(start)) = sender.on_control(&accept) else {
            panic!("START follows")
        };
        let mut stream = start.to_bytes().to_vec();
        (0..count)
            .for_each(|i| encode::data(&[0x0a; 208][..52 * (i % 4 + 1)], &mut stream).unwrap());
        sender.stop().unwrap().encode(&mut stream);
        connection.read(&stream);
        let finish = connection.replies.pop().unwrap();
        assert_eq!(sender.on_control(&finish), Ok(SenderAction::Finished));
        assert_eq!(
            (connection.end, connection.frames.len()),
            (Some(End::Clean), count)
        );
        let bytes: usize = connection.frames.iter().map(Bytes::len).sum();
        assert_eq!(bytes, (0..count).map(|i| 52 * (i % 4 + 1)).sum::<usize>());
    }
}

#[test]
fn a_stream_relayed_run_by_run_is_byte_identical() {
    for (name, bytes) in files("fstrm/wire") {
        let mut connection = Connection::new(Mode::Auto, Way::Runs);
        let (mut relayed, mut frames) = (Vec::new(), 0);
        connection.buf.extend(&bytes);
        while let Some(item) = connection.decoder.next(&mut connection.buf).unwrap() {
            match item {
                Item::Run { len, frames: n } => {
                    relayed.extend_from_slice(&connection.buf.split_owned(len));
                    frames += n;
                }
                Item::Control(control) => control.encode(&mut relayed),
                Item::Skipped { len } => panic!("{name}: {len}"),
            }
        }
        assert!(relayed == bytes, "{name}");
        assert!(frames >= 60, "{name}: {frames}");
    }
}

// ---- golang-framestream

#[test]
fn a_frame_over_the_limit_is_skipped_or_closes_as_configured() {
    let limits = Limits {
        data_len_max: 10,
        ..Limits::default()
    };
    let stream = [start(), data(&[0x0a; 15]), data(&[0x0a; 10]), stop()].concat();
    for (oversize, want, skipped) in [
        (Oversize::Skip, "frames=1 reply=- end=clean", &[15][..]),
        (Oversize::Close, "frames=0 reply=- end=data_too_long", &[]),
    ] {
        let mut connection = Connection::with(Mode::Auto, Way::Runs, limits, oversize);
        connection.read(&stream);
        assert_eq!(
            (connection.summary().as_str(), &connection.skipped[..]),
            (want, skipped)
        );
    }
}

#[test]
fn negotiation_prefers_the_receivers_order() {
    let types = |names: &[&str]| -> Vec<ContentType> {
        names
            .iter()
            .map(|n| ContentType::new(n.as_bytes().to_vec()).unwrap())
            .collect()
    };
    type Row = (
        &'static [&'static str],
        &'static [&'static str],
        Option<&'static [&'static str]>,
    );
    let rows: &[Row] = &[
        (&[], &[], Some(&[])),
        (&["type1"], &["type1"], Some(&["type1"])),
        (&["type1"], &["type2"], None),
        (
            &["type1", "type2", "type3"],
            &["type4", "type3", "type2"],
            Some(&["type2"]),
        ),
    ];
    for (reader, writer, want) in rows {
        let mut receiver = Receiver::new(Mode::Bidirectional, types(reader));
        let mut sender = Sender::new(Dialect::Bidirectional, types(writer));
        let answer = receiver.on_control(&sender.start().unwrap());
        let Some(want) = want else {
            assert!(answer.is_err(), "{reader:?} {writer:?}");
            continue;
        };
        let Ok(Action::Reply(accept)) = answer else {
            panic!("{reader:?} {writer:?}: {answer:?}")
        };
        let Ok(SenderAction::Start(start)) = sender.on_control(&accept) else {
            panic!("START follows")
        };
        assert_eq!(start.content_types, types(want));
        assert_eq!(receiver.on_control(&start), Ok(Action::Started));
        assert_eq!(receiver.content_type(), start.content_types.first());
    }
}

// ---- go-framestream

#[test]
fn an_unknown_control_type_is_ignored() {
    let unknown = [0, 0, 0, 0, 0, 0, 0, 4, 9, 9, 9, 9];
    let stream = [
        &unknown[..],
        &start(),
        &unknown,
        &data(b"\x0aabc"),
        &unknown,
        &stop(),
    ]
    .concat();
    let got = whole(Mode::Auto, &stream);
    assert_eq!(
        (got.summary().as_str(), got.ignored),
        ("frames=1 reply=- end=clean", 3)
    );
}

#[test]
fn raw_data_is_recognised_and_read() {
    // The frames of a real sender without its control frames.
    let bytes = fs::read(testdata("fstrm/wire/dnsdist.bin")).unwrap();
    let frames = whole(Mode::Auto, &bytes).frames;
    let raw: Vec<u8> = frames
        .iter()
        .take(14)
        .flat_map(|frame| data(frame))
        .collect();
    for mode in [Mode::Auto, Mode::Raw] {
        for way in WAYS {
            let octets: Vec<_> = raw.chunks(1).collect();
            for chunks in [vec![&raw[..]], octets] {
                let got = run(mode, way, &chunks);
                assert_eq!(
                    got.summary(),
                    "frames=14 reply=- end=clean",
                    "{mode:?} {way:?}"
                );
                assert_eq!(got.receiver.dialect(), Some(Dialect::Raw));
                assert_eq!(got.frames, frames[..14]);
            }
        }
        let cut = whole(mode, &raw[..raw.len() - 1]);
        assert_eq!(cut.summary(), "frames=13 reply=- end=truncated", "{mode:?}");
    }
    for mode in [Mode::Bidirectional, Mode::Unidirectional] {
        assert_eq!(
            whole(mode, &raw).end,
            Some(End::WrongProtocol),
            "{mode:?} does not take it"
        );
    }
}

#[test]
fn lengths_over_the_limits_are_refused_before_their_bytes() {
    let word = |len: u32| len.to_be_bytes().to_vec();
    let start_then = |bytes: Vec<u8>| [start(), bytes].concat();
    let ready = control(ControlKind::Ready, &[&[b'a'; 256][..]; 19]);
    let clen = ready.len() - 8;
    let low = Limits::default();
    let high = Limits {
        control_len_max: clen,
        data_len_max: 2 << 20,
        ..low
    };
    let rows = [
        (
            "data one over",
            start_then(word((1 << 20) + 1)),
            low,
            "end=data_too_long",
        ),
        (
            "data at the limit",
            start_then(word(1 << 20)),
            low,
            "end=truncated",
        ),
        (
            "one over, limit raised",
            start_then(word((1 << 20) + 1)),
            high,
            "end=truncated",
        ),
        (
            "control of 227,195",
            [word(0), word(227_195)].concat(),
            low,
            "end=control_too_long",
        ),
        (
            "READY of 5,020",
            ready[..8].to_vec(),
            low,
            "end=control_too_long",
        ),
        (
            "READY of 5,020, limit raised",
            ready.clone(),
            high,
            "end=content_type_mismatch",
        ),
    ];
    assert_eq!(clen, 5020);
    for (name, bytes, limits, want) in rows {
        let mut connection = Connection::with(Mode::Auto, Way::Runs, limits, Oversize::Close);
        connection.read(&bytes);
        let summary = connection.eof().summary();
        assert!(summary.ends_with(want), "{name}: {summary}");
    }
}

#[test]
fn owned_frames_outlive_the_frames_after_them() {
    let mut connection = Connection::new(Mode::Auto, Way::Owned);
    connection.read(&start());
    (0..=255u8).for_each(|i| connection.read(&data(&[i; 100])));
    let frames = connection.eof().frames;
    assert_eq!(frames.len(), 256);
    assert!(
        (0..=255u8)
            .zip(&frames)
            .all(|(i, frame)| frame[..] == [i; 100])
    );
}

#[test]
fn the_fuzz_targets_hold_for_the_corpus() {
    let compressed = fs::read_to_string(testdata("fstrm/compressed.tsv")).unwrap();
    let mut inputs: Vec<Vec<u8>> = files("corpus/framing")
        .into_iter()
        .map(|(_, bytes)| bytes)
        .collect();
    inputs.extend(vectors().into_iter().map(|(_, _, bytes, _)| bytes));
    inputs.extend(
        compressed
            .lines()
            .map(|line| unhex(line.split('\t').nth(2).unwrap())),
    );
    assert!(inputs.len() > 130);
    for input in &inputs {
        // The first octets choose the settings, so every input is tried under several.
        for settings in [[0, 0, 0, 0], [1, 1, 1, 1], [2, 7, 40, 2], [3, 255, 255, 3]] {
            tapflow::fstrm::fuzz::decoder(&[&settings[..], input].concat());
            tapflow::fstrm::fuzz::handshake(&[&settings[..2], input].concat());
            tapflow::fstrm::fuzz::decompress(&[&settings[..1], input].concat());
        }
    }
}

// ---- properties

proptest! {
    #[test]
    fn what_is_encoded_decodes_to_the_same_however_it_is_cut(
        lens in proptest::collection::vec(1usize..600, 0..80),
        chunk_lens in proptest::collection::vec(1usize..900, 1..20),
        stopped in any::<bool>(),
    ) {
        let payloads: Vec<Vec<u8>> = (0u8..).zip(&lens).map(|(i, n)| vec![i; *n]).collect();
        let mut stream = start();
        payloads.iter().for_each(|p| encode::data(p, &mut stream).unwrap());
        if stopped {
            stream.extend(stop());
        }
        let mut chunks = Vec::new();
        let mut rest = &stream[..];
        for n in chunk_lens.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (chunk, after) = rest.split_at((*n).min(rest.len()));
            chunks.push(chunk);
            rest = after;
        }
        for way in WAYS {
            let got = run(Mode::Auto, way, &chunks);
            prop_assert_eq!(&got.frames, &payloads);
            prop_assert_eq!(got.end, Some(if stopped { End::Clean } else { End::NoStop }));
        }
    }

    #[test]
    fn any_bytes_give_the_same_in_every_way_and_never_a_panic(
        bytes in proptest::collection::vec(prop_oneof![Just(0u8), 0u8..12, any::<u8>()], 0..400),
        chunk in 1usize..50,
    ) {
        let first = whole(Mode::Raw, &bytes);
        for way in WAYS {
            let chunks: Vec<_> = bytes.chunks(chunk).collect();
            let got = run(Mode::Raw, way, &chunks);
            prop_assert_eq!(got.summary(), first.summary());
            prop_assert_eq!(&got.frames, &first.frames);
            prop_assert_eq!(&got.skipped, &first.skipped);
        }
    }
}
