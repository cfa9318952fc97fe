//! Counts the frames in a Frame Streams byte stream, by the length words alone and with none of the library's code, so that
//! the library's count can be held against it.

/// The control frame types that the tests ask for.
pub(crate) const ACCEPT: u32 = 1;
pub(crate) const START: u32 = 2;
pub(crate) const STOP: u32 = 3;
pub(crate) const READY: u32 = 4;
pub(crate) const FINISH: u32 = 5;

/// Fed with a stream's bytes as they come, knows how many whole frames have passed.
#[derive(Default, Clone, Debug)]
pub(crate) struct Walker {
    pending: Vec<u8>,
    /// Payloads of whole data frames are kept here when `keep` is set.
    pub(crate) payloads: Vec<Vec<u8>>,
    keep: bool,
    /// Whole data frames.
    pub(crate) data: u64,
    /// The types of the control frames, in order.
    pub(crate) controls: Vec<u32>,
}

impl Walker {
    /// A walker that keeps the payloads.
    pub(crate) fn keeping() -> Self {
        Self {
            keep: true,
            ..Self::default()
        }
    }

    /// The next bytes of the stream.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        let word = |at: &[u8]| at.first_chunk::<4>().map(|b| u32::from_be_bytes(*b));
        let mut used = 0;
        while let Some(len) = word(&self.pending[used..]) {
            let rest = &self.pending[used + 4..];
            if len > 0 {
                let Some(payload) = rest.get(..len as usize) else {
                    break;
                };
                self.data += 1;
                if self.keep {
                    self.payloads.push(payload.to_vec());
                }
                used += 4 + payload.len();
            } else {
                let Some(body) = word(rest).and_then(|len| rest.get(4..4 + len as usize)) else {
                    break;
                };
                self.controls
                    .push(word(body).expect("a control frame of 4 bytes or more"));
                used += 8 + body.len();
            }
        }
        self.pending.drain(..used);
    }

    /// Bytes of a frame that is not whole.
    pub(crate) fn tail(&self) -> usize {
        self.pending.len()
    }
}

#[test]
fn the_walker_counts_the_same_however_the_bytes_are_cut() {
    let ready = [0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, READY as u8];
    let stream = [
        &ready[..],
        &[0, 0, 0, 1, b'x'],
        &[0, 0, 0, 2, b'y', b'z'],
        &[0, 0, 0, 3, b'c', b'u'],
    ]
    .concat();
    for cut in 1..stream.len() {
        let mut walker = Walker::keeping();
        stream.chunks(cut).for_each(|part| walker.feed(part));
        assert_eq!(
            (walker.data, &walker.controls[..], walker.tail()),
            (2, &[READY][..], 6),
            "cut at {cut}"
        );
        assert_eq!(walker.payloads, [&b"x"[..], b"yz"]);
    }
}
