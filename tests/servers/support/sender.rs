//! A scripted Frame Streams sender, written by hand so that it can break off anywhere.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::walker::{ACCEPT, FINISH, READY, START, STOP, Walker};

const CONTENT_TYPE: &[u8] = b"protobuf:dnstap.Dnstap";

/// One bidirectional stream past its handshake.
pub(crate) struct Sender {
    stream: UnixStream,
    answers: Walker,
}

impl Sender {
    /// Connects and exchanges READY, ACCEPT and START.
    pub(crate) fn connect(path: &Path) -> Self {
        let stream = UnixStream::connect(path).expect("the collector's socket");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("timeout");
        let mut sender = Self {
            stream,
            answers: Walker::default(),
        };
        sender.write(&control(READY, true));
        sender.expect(ACCEPT);
        sender.write(&control(START, true));
        sender
    }

    /// Any bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the collector reads");
    }

    /// One data frame.
    pub(crate) fn frame(&mut self, payload: &[u8]) {
        self.write(&frame(payload));
    }

    fn expect(&mut self, kind: u32) {
        while self.answers.controls.last() != Some(&kind) {
            let mut buf = [0; 256];
            let n = self.stream.read(&mut buf).expect("an answer");
            assert!(
                n > 0,
                "the collector has closed before control frame {kind}"
            );
            self.answers.feed(&buf[..n]);
        }
    }

    /// Sends STOP, and waits for FINISH.
    pub(crate) fn stop(mut self) {
        self.write(&control(STOP, false));
        self.expect(FINISH);
    }
}

/// A data frame on the wire.
pub(crate) fn frame(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_be_bytes(), payload].concat()
}

/// A control frame on the wire.
pub(crate) fn control(kind: u32, with_type: bool) -> Vec<u8> {
    let mut body = kind.to_be_bytes().to_vec();
    if with_type {
        body.extend_from_slice(&1u32.to_be_bytes());
        body.extend_from_slice(&frame(CONTENT_TYPE));
    }
    [&[0; 4][..], &frame(&body)].concat()
}
