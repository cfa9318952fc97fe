//! What is this stream? Told from its first octets, so that a listener can take any dialect, and name the mix-up when it
//! is another protocol altogether, without waiting for a timeout.

use super::compress::Codec;
use crate::wire::Reader;
use crate::wire::index;

/// What the first octets look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sniff {
    /// Too few octets to tell.
    NeedMore,
    /// Frame Streams that begin with a control frame.
    Control,
    /// Frame Streams that begin with a data frame: the raw dialect.
    RawData {
        /// Length of the first payload.
        len: u32,
    },
    /// A TLS handshake record.
    Tls,
    /// An HTTP request or response.
    Http,
    /// Messages after two octets of length, with a protobuf tag first: the protobuf logger of dnsdist or PowerDNS
    /// Recursor, which is not dnstap.
    PowerDnsProtobuf,
    /// A compressed file or stream, not one whose frames are compressed.
    Compressed(Codec),
    /// A capture file, pcap or pcapng.
    Pcap,
    /// Text, perhaps syslog.
    Text,
    /// Nothing we know.
    Unknown,
}

impl Sniff {
    /// A short name in snake case, fit for a metric label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NeedMore => "need_more",
            Self::Control => "frame_streams",
            Self::RawData { .. } => "raw_data",
            Self::Tls => "tls",
            Self::Http => "http",
            Self::PowerDnsProtobuf => "powerdns_protobuf",
            Self::Compressed(codec) => codec.as_str(),
            Self::Pcap => "pcap",
            Self::Text => "text",
            Self::Unknown => "unknown",
        }
    }

    /// What it looks like, in words for an operator.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::NeedMore => "too few octets to tell what it is",
            Self::Control => "it is Frame Streams",
            Self::RawData { .. } => {
                "it looks like data frames without a handshake, and raw is not allowed here"
            }
            Self::Tls => "it looks like TLS; this port takes plain connections",
            Self::Http => "it looks like HTTP",
            Self::PowerDnsProtobuf => {
                "it looks like the PowerDNS protobuf logger (two octets of length); use the dnstap logger, \
                 newFrameStreamTcpLogger in dnsdist or dnstapFrameStreamServer in the Recursor"
            }
            Self::Compressed(Codec::Gzip) => "it is compressed as a whole with gzip",
            Self::Compressed(Codec::Lz4) => "it is compressed as a whole with lz4",
            Self::Compressed(Codec::Snappy) => "it is compressed as a whole with snappy",
            Self::Compressed(Codec::Zstd) => "it is compressed as a whole with zstd",
            Self::Pcap => "it is a packet capture, not dnstap",
            Self::Text => "it looks like text, perhaps syslog",
            Self::Unknown => "the first octets are of no protocol we know",
        }
    }
}

/// How many octets settle every case: a length word and the longest magic.
const ENOUGH: usize = 12;

/// Tells what a stream is from its first octets; at most 12 are looked at. `data_len_max` is the limit for data frames.
///
/// The rules, in order; none takes more octets than it needs:
/// 1. Four zero octets are the escape of a control frame: Frame Streams.
/// 2. Octets that begin another protocol are that: a TLS handshake record, an HTTP method, a compression magic, a capture
///    file, four octets of printable text. All of them, read as a length, are over 64 MiB, so no data frame is misread.
/// 3. Two octets of length (at least 8), then a protobuf tag of field 1 with a value that fits: the PowerDNS protobuf
///    logger. Read as one length the four octets are at least 512 KiB, so that only a raw stream whose very first frame
///    is that long, and of one of the few lengths that end so, is mistaken.
/// 4. A length of 1 to `data_len_max`, and a fifth octet with which a dnstap payload begins (identity 0x0a, version 0x12,
///    extra 0x1a, message 0x72, type 0x78) or a whole compression magic in its place: raw data.
/// 5. Anything else is unknown.
#[must_use]
pub fn sniff(bytes: &[u8], data_len_max: usize) -> Sniff {
    let mut reader = Reader::new(bytes);
    let Some(word) = reader.array::<4>() else {
        return Sniff::NeedMore;
    };
    let len = u32::from_be_bytes(word);
    if len == 0 {
        return Sniff::Control;
    }
    if let Some(found) = foreign(bytes, word) {
        return found;
    }
    let Some(&tag) = reader.rest().first() else {
        return Sniff::NeedMore;
    };
    if powerdns_protobuf(word, tag) {
        return Sniff::PowerDnsProtobuf;
    }
    if index(len) > data_len_max {
        return Sniff::Unknown;
    }
    if matches!(tag, 0x0a | 0x12 | 0x1a | 0x72 | 0x78) || Codec::recognise(reader.rest()).is_some()
    {
        return Sniff::RawData { len };
    }
    let undecided = matches!(tag, 0x1f | 0x04 | 0x82 | 0x28)
        && bytes.len() < ENOUGH
        && reader.len() < index(len);
    if undecided {
        Sniff::NeedMore
    } else {
        Sniff::Unknown
    }
}

/// Protocols that four octets give away.
fn foreign(bytes: &[u8], word: [u8; 4]) -> Option<Sniff> {
    const HTTP: [&[u8; 4]; 11] = [
        b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PATC", b"CONN", b"TRAC", b"PRI ",
        b"HTTP",
    ];
    const PCAP: [u32; 5] = [
        0xa1b2_c3d4,
        0xd4c3_b2a1,
        0xa1b2_3c4d,
        0x4d3c_b2a1,
        0x0a0d_0d0a,
    ];
    if let [0x16, 0x03, 0x00..=0x04, _] = word {
        return Some(Sniff::Tls);
    }
    if HTTP.contains(&&word) {
        return Some(Sniff::Http);
    }
    if PCAP.contains(&u32::from_be_bytes(word)) {
        return Some(Sniff::Pcap);
    }
    // The magic of a framed snappy stream, as command line tools write it, is not that of a compressed frame.
    if word == [0xff, 0x06, 0x00, 0x00] || word == [0x82, b'S', b'N', b'A'] {
        return Some(Sniff::Compressed(Codec::Snappy));
    }
    if let Some(codec) = Codec::recognise(bytes) {
        return Some(Sniff::Compressed(codec));
    }
    word.iter()
        .all(|c| matches!(c, b' '..=b'~' | b'\t' | b'\r' | b'\n'))
        .then_some(Sniff::Text)
}

/// Two octets of length, then PBDNSMessage, whose first field has the tag 0x08 (type) or, from other writers, 0x0a.
fn powerdns_protobuf(word: [u8; 4], fifth: u8) -> bool {
    let [high, low, tag, value] = word;
    let len = u16::from_be_bytes([high, low]);
    // Type is 1 to 4 and the message id, a field of 16 octets, follows it.
    let typed = tag == 0x08 && (1..=4).contains(&value) && fifth == 0x12;
    len >= 8 && (typed || (tag == 0x0a && u16::from(value) < len && high < 0x10))
}
