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

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    #[test]
    fn first_octets_are_told_apart() {
        let rows: &[(&str, &[u8], Sniff)] = &[
            ("READY", b"\0\0\0\0\0\0\0\x22", Sniff::Control),
            ("the escape alone", b"\0\0\0\0", Sniff::Control),
            (
                "identity first",
                b"\0\0\0\x81\x0a\x0adndist",
                Sniff::RawData { len: 0x81 },
            ),
            (
                "version first",
                b"\0\0\0\x81\x12",
                Sniff::RawData { len: 0x81 },
            ),
            (
                "extra first",
                b"\0\0\0\x81\x1a",
                Sniff::RawData { len: 0x81 },
            ),
            (
                "message first",
                b"\0\0\0\x81\x72",
                Sniff::RawData { len: 0x81 },
            ),
            (
                "type first",
                b"\0\0\0\x02\x78\x01",
                Sniff::RawData { len: 2 },
            ),
            (
                "the longest frame",
                b"\0\x10\0\0\x0a",
                Sniff::RawData { len: 0x10_0000 },
            ),
            ("one octet longer", b"\0\x10\0\x01\x0a", Sniff::Unknown),
            (
                "no dnstap tag",
                b"\0\0\0\x81\x0b\x0adnsdist",
                Sniff::Unknown,
            ),
            (
                "gzip frame",
                b"\0\0\0\x30\x1f\x8b\x08\0",
                Sniff::RawData { len: 0x30 },
            ),
            (
                "zstd frame",
                b"\0\0\0\x24\x28\xb5\x2f\xfd",
                Sniff::RawData { len: 0x24 },
            ),
            (
                "lz4 frame",
                b"\0\0\0\x2a\x04\x22\x4d\x18",
                Sniff::RawData { len: 0x2a },
            ),
            (
                "snappy frame",
                b"\0\0\0\x2d\x82SNAPPY\0",
                Sniff::RawData { len: 0x2d },
            ),
            (
                "not quite gzip",
                b"\0\0\0\x30\x1f\x8b\x09\0\0\0\0\0",
                Sniff::Unknown,
            ),
            (
                "a short frame like gzip",
                b"\0\0\0\x02\x1f\x8b",
                Sniff::Unknown,
            ),
            (
                "TLS 1.0 to 1.3 hello",
                b"\x16\x03\x01\0\xc8\x01",
                Sniff::Tls,
            ),
            ("HTTP GET", b"GET /metrics HTTP/1.1", Sniff::Http),
            ("HTTP/2 preface", b"PRI * HTTP/2.0", Sniff::Http),
            ("HTTP POST", b"POST / HTTP/1.1", Sniff::Http),
            (
                "PowerDNS protobuf",
                b"\0\x64\x08\x01\x12\x10",
                Sniff::PowerDnsProtobuf,
            ),
            (
                "two octets of length, dnstap inside",
                b"\0\x5e\x0a\x0cmade",
                Sniff::PowerDnsProtobuf,
            ),
            (
                "gzip file",
                b"\x1f\x8b\x08\0",
                Sniff::Compressed(Codec::Gzip),
            ),
            (
                "zstd file",
                b"\x28\xb5\x2f\xfd",
                Sniff::Compressed(Codec::Zstd),
            ),
            (
                "lz4 file",
                b"\x04\x22\x4d\x18",
                Sniff::Compressed(Codec::Lz4),
            ),
            (
                "xerial snappy file",
                b"\x82SNAPPY\0",
                Sniff::Compressed(Codec::Snappy),
            ),
            (
                "framed snappy file",
                b"\xff\x06\0\0sNaPpY",
                Sniff::Compressed(Codec::Snappy),
            ),
            ("pcap", b"\xd4\xc3\xb2\xa1", Sniff::Pcap),
            ("pcapng", b"\x0a\x0d\x0d\x0a", Sniff::Pcap),
            ("syslog", b"<134>Nov 14", Sniff::Text),
            ("noise", b"\xde\xad\xbe\xef\xff", Sniff::Unknown),
            (
                "the largest length",
                b"\xff\xff\xff\xff\x0a",
                Sniff::Unknown,
            ),
        ];
        for (name, bytes, want) in rows {
            assert_eq!(sniff(bytes, MIB), *want, "{name}");
        }
    }

    #[test]
    fn octets_one_at_a_time_lead_to_the_same_and_twelve_are_enough() {
        let rows: &[&[u8]] = &[
            b"\0\0\0\0\0\0\0\x22\0\0\0\x04",
            b"\0\0\0\x2d\x82SNAPPY\0",
            b"\0\0\0\x2d\x82SNAPPX\0",
            b"\x16\x03\x01\0\xc8\x01\0\0\0\0\0\0",
            b"\0\x64\x08\x01\x12\x10\0\0\0\0\0\0",
            b"\0\0\0\x81\x0a\x0adnsdis",
        ];
        for row in rows {
            assert_eq!(row.len(), ENOUGH);
            let whole = sniff(row, MIB);
            assert_ne!(whole, Sniff::NeedMore);
            let first = (0..=ENOUGH)
                .map(|n| sniff(&row[..n], MIB))
                .find(|s| *s != Sniff::NeedMore);
            assert_eq!(first, Some(whole), "{row:02x?}");
        }
    }

    #[test]
    fn fewer_than_four_octets_never_decide() {
        for first in 0..=255 {
            for n in 0..4 {
                assert_eq!(sniff(&[first; 3][..n.min(3)], MIB), Sniff::NeedMore);
            }
        }
    }

    #[test]
    fn no_other_protocol_is_a_length_within_64_mebibytes() {
        for first in 0..4u8 {
            for rest in [
                [0x00, 0x00, 0x01],
                [0x03, 0x01, 0x00],
                [0x22, 0x4d, 0x18],
                [0x20, 0x20, 0x20],
            ] {
                let word = [first, rest[0], rest[1], rest[2]];
                assert_eq!(foreign(&word, word), None, "{word:02x?}");
            }
        }
    }
}
