//! A bounded window over a streaming input, plain or compressed.

use std::io::{self, BufReader, Chain, Cursor, Read};

use flate2::read::MultiGzDecoder;
use zstd::stream::read::Decoder as ZstdDecoder;

/// What the window holds to begin with: one large read serves many packets.
const WINDOW_LEN: usize = 256 * 1024;
/// Largest zstd window accepted, as a power of two: 128 MiB, the most that `zstd -d` itself takes unasked.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// How the input is packed, recognised by its first octets (RFC 1952 section 2.3.1, RFC 8878 section 3.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// As it is.
    Plain,
    /// gzip, also several members one after the other.
    Gzip,
    /// zstd, also several frames one after the other.
    Zstd,
}

type Prefixed<R> = Chain<Cursor<Vec<u8>>, R>;

enum Input<R: Read> {
    Plain(Prefixed<R>),
    Gzip(Box<MultiGzDecoder<Prefixed<R>>>),
    Zstd(Box<ZstdDecoder<'static, BufReader<Prefixed<R>>>>),
}

impl<R: Read> Input<R> {
    fn open(mut input: R) -> io::Result<(Self, Packing)> {
        let mut magic = Vec::with_capacity(4);
        input.by_ref().take(4).read_to_end(&mut magic)?;
        let packing = if magic.starts_with(&GZIP_MAGIC) {
            Packing::Gzip
        } else if magic == ZSTD_MAGIC {
            Packing::Zstd
        } else {
            Packing::Plain
        };
        let whole = Cursor::new(magic).chain(input);
        let input = match packing {
            Packing::Plain => Self::Plain(whole),
            Packing::Gzip => Self::Gzip(Box::new(MultiGzDecoder::new(whole))),
            Packing::Zstd => {
                let mut decoder = ZstdDecoder::new(whole)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Self::Zstd(Box::new(decoder))
            }
        };
        Ok((input, packing))
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(input) => input.read(into),
            Self::Gzip(input) => input.read(into),
            Self::Zstd(input) => input.read(into),
        }
    }
}

/// The part of the input that is in memory. It grows only to what [`Window::fill`] is asked for.
pub(super) struct Window<R: Read> {
    input: Input<R>,
    packing: Packing,
    storage: Vec<u8>,
    /// Invariant: `read <= filled <= storage.len()`.
    read: usize,
    filled: usize,
    /// Octets of the decompressed input before `read`.
    offset: u64,
}

impl<R: Read> Window<R> {
    pub(super) fn new(input: R) -> io::Result<Self> {
        let (input, packing) = Input::open(input)?;
        Ok(Self {
            input,
            packing,
            storage: vec![0; WINDOW_LEN],
            read: 0,
            filled: 0,
            offset: 0,
        })
    }

    pub(super) fn packing(&self) -> Packing {
        self.packing
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The octets in memory and not yet consumed.
    pub(super) fn unread(&self) -> &[u8] {
        self.storage.get(self.read..self.filled).unwrap_or_default()
    }

    /// Reads until `want` octets are in memory or the input ends; returns how many there are, at most `want`.
    pub(super) fn fill(&mut self, want: usize) -> io::Result<usize> {
        if self.filled - self.read >= want {
            return Ok(want);
        }
        self.storage.copy_within(self.read..self.filled, 0);
        self.filled -= self.read;
        self.read = 0;
        if self.storage.len() < want {
            self.storage.resize(want.next_power_of_two(), 0);
        }
        while self.filled < want {
            let spare = self.storage.get_mut(self.filled..).unwrap_or_default();
            match self.input.read(spare) {
                Ok(0) => break,
                Ok(n) => self.filled = (self.filled + n).min(self.storage.len()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.filled.min(want))
    }

    /// The first `n` unread octets are done with. Fewer are consumed when fewer are in memory.
    pub(super) fn consume(&mut self, n: usize) {
        let n = n.min(self.filled - self.read);
        self.read += n;
        self.offset += n as u64;
    }

    /// Passes over `n` octets without keeping them; returns how many there were.
    pub(super) fn skip(&mut self, n: u64) -> io::Result<u64> {
        let mut left = n;
        while left > 0 {
            let step = usize::try_from(left).unwrap_or(WINDOW_LEN).min(WINDOW_LEN);
            let have = self.fill(step)?;
            if have == 0 {
                break;
            }
            self.consume(have);
            left -= have as u64;
        }
        Ok(n - left)
    }
}
