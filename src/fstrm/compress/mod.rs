//! Compression of data frames: the codecs, and how their containers are recognised.
/// A codec for the payloads of data frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// RFC 1952.
    Gzip,
    /// The LZ4 frame format.
    Lz4,
    /// Xerial.
    Snappy,
    /// RFC 8878.
    Zstd,
}
impl Codec {
    /// A short name in lower case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Lz4 => "lz4",
            Self::Snappy => "snappy",
            Self::Zstd => "zstd",
        }
    }

    /// The codec whose container begins with these octets, by its magic.
    #[must_use]
    pub fn recognise(payload: &[u8]) -> Option<Self> {
        match payload {
            [0x1f, 0x8b, 0x08, ..] => Some(Self::Gzip),
            [0x04, 0x22, 0x4d, 0x18, ..] => Some(Self::Lz4),
            [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0x00, ..] => Some(Self::Snappy),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            _ => None,
        }
    }
}
