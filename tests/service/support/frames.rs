//! Frames to send, and what is in them.

use tapflow::dnstap::{DnstapView, Message, build};

/// The content type of dnstap.
pub(crate) const DNSTAP: &[u8] = b"protobuf:dnstap.Dnstap";

pub(crate) const ACCEPT: u32 = 1;
pub(crate) const START: u32 = 2;
pub(crate) const STOP: u32 = 3;
pub(crate) const READY: u32 = 4;
pub(crate) const FINISH: u32 = 5;

pub(crate) const CLIENT_QUERY: i32 = 5;
pub(crate) const CLIENT_RESPONSE: i32 = 6;

/// A control frame, written out by hand so that the tests do not lean on the code under test.
pub(crate) fn control(kind: u32, types: &[&[u8]]) -> Vec<u8> {
    let mut body = kind.to_be_bytes().to_vec();
    for t in types {
        body.extend([1u32.to_be_bytes(), (t.len() as u32).to_be_bytes()].concat());
        body.extend(*t);
    }
    [&[0; 4][..], &(body.len() as u32).to_be_bytes(), &body].concat()
}

/// READY with our content type.
pub(crate) fn ready() -> Vec<u8> {
    control(READY, &[DNSTAP])
}

/// START with our content type.
pub(crate) fn start() -> Vec<u8> {
    control(START, &[DNSTAP])
}

/// STOP.
pub(crate) fn stop() -> Vec<u8> {
    control(STOP, &[])
}

/// A data frame.
pub(crate) fn data(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_be_bytes()[..], payload].concat()
}

/// What is on the wire, parted.
#[derive(Default, Debug)]
pub(crate) struct Parted {
    /// Types of the control frames, in order.
    pub(crate) controls: Vec<u32>,
    /// Payloads of the data frames, in order.
    pub(crate) payloads: Vec<Vec<u8>>,
}

/// Parts whole frames at the front of `bytes` and takes them out.
pub(crate) fn part(bytes: &mut Vec<u8>, into: &mut Parted) {
    let word = |at: usize| {
        bytes
            .get(at..at + 4)
            .map(|w| u32::from_be_bytes(w.try_into().unwrap()) as usize)
    };
    let mut at = 0;
    while let Some(len) = word(at) {
        if len > 0 {
            let Some(payload) = bytes.get(at + 4..at + 4 + len) else {
                break;
            };
            into.payloads.push(payload.to_vec());
            at += 4 + len;
        } else {
            let Some(len) = word(at + 4) else { break };
            let Some(kind) = word(at + 8).filter(|_| bytes.len() >= at + 8 + len) else {
                break;
            };
            into.controls.push(kind as u32);
            at += 8 + len;
        }
    }
    bytes.drain(..at);
}

/// All of a complete stream, parted; nothing may be left over.
pub(crate) fn part_all(bytes: &[u8]) -> Parted {
    let (mut rest, mut parted) = (bytes.to_vec(), Parted::default());
    part(&mut rest, &mut parted);
    assert!(rest.is_empty(), "{} bytes are no whole frame", rest.len());
    parted
}

/// A DNS message with one question.
pub(crate) fn dns(name: &str, qtype: u16, rcode: Option<u8>) -> Vec<u8> {
    let flags: [u8; 2] = rcode.map_or([1, 0], |r| [0x81, 0x80 | r]);
    let mut out = vec![0x12, 0x34, flags[0], flags[1], 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.').filter(|l| !l.is_empty()) {
        out.push(label.len() as u8);
        out.extend(label.as_bytes());
    }
    out.push(0);
    out.extend(qtype.to_be_bytes());
    out.extend([0, 1]);
    out
}

/// A CLIENT_QUERY as a resolver sends it, over UDP from 192.0.2.1.
pub(crate) fn query<'a>(message: &'a [u8]) -> DnstapView<'a> {
    DnstapView {
        identity: Some(b"ns1.example"),
        version: Some(b"test 1.0"),
        kind: Some(1),
        message: Some(Message {
            kind: Some(CLIENT_QUERY),
            socket_family: Some(1),
            socket_protocol: Some(1),
            query_address: Some(&[192, 0, 2, 1]),
            query_port: Some(4242),
            query_time_sec: Some(1_700_000_000),
            query_time_nsec: Some(0),
            query_message: Some(message),
            ..Message::default()
        }),
        ..DnstapView::default()
    }
}

/// A CLIENT_RESPONSE with both times, 2 ms apart.
pub(crate) fn response<'a>(message: &'a [u8]) -> DnstapView<'a> {
    let mut view = query(message);
    if let Some(m) = &mut view.message {
        m.kind = Some(CLIENT_RESPONSE);
        (m.query_message, m.response_message) = (None, Some(message));
        (m.response_time_sec, m.response_time_nsec) = (Some(1_700_000_000), Some(2_000_000));
    }
    view
}

/// A data frame of this view.
pub(crate) fn frame(view: &DnstapView<'_>) -> Vec<u8> {
    let mut payload = Vec::new();
    build::write(&mut payload, view);
    data(&payload)
}

/// A data frame with a query for this name.
pub(crate) fn query_frame(name: &str) -> Vec<u8> {
    frame(&query(&dns(name, 1, None)))
}

/// Frames of some 100 bytes that carry a number each, in dnstap's `extra` field.
#[derive(Clone, Debug)]
pub(crate) struct Numbered {
    template: Vec<u8>,
    /// Where the number is in the payload.
    at: usize,
}

impl Numbered {
    pub(crate) fn new() -> Self {
        const MARK: [u8; 8] = *b"\xffnumber\xff";
        let message = dns("www.example.com", 1, None);
        let template = frame(&DnstapView {
            extra: Some(&MARK),
            ..query(&message)
        });
        let at = template
            .windows(8)
            .position(|w| w == MARK)
            .expect("the mark is in the frame")
            - 4;
        assert!((90..130).contains(&template.len()), "{}", template.len());
        Self { template, at }
    }

    /// The frames with these numbers, in wire layout.
    pub(crate) fn run(&self, numbers: std::ops::Range<u64>) -> Vec<u8> {
        let mut out =
            Vec::with_capacity(self.template.len() * (numbers.end - numbers.start) as usize);
        for n in numbers {
            let begin = out.len() + 4 + self.at;
            out.extend_from_slice(&self.template);
            out[begin..begin + 8].copy_from_slice(&n.to_be_bytes());
        }
        out
    }

    /// The number in a payload.
    pub(crate) fn number(&self, payload: &[u8]) -> u64 {
        assert_eq!(
            payload.len() + 4,
            self.template.len(),
            "not a numbered frame"
        );
        u64::from_be_bytes(payload[self.at..self.at + 8].try_into().unwrap())
    }
}
