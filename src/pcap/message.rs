//! A DNS message found in a capture, and the little of DNS that finding and pairing messages needs: header fields, the extent of the question, and a guess
//! whether octets are the beginning of a message. Decoding is not its business.

use std::net::SocketAddr;

use super::octets::{be16, u8_at};

/// What carried a DNS message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DnsTransport {
    /// UDP.
    Udp,
    /// TCP, without its two octets of length.
    Tcp,
}

/// A DNS message as it was sent, lent from the packet or from the reassembly.
#[derive(Clone, Copy, Debug)]
pub struct DnsPacket<'a> {
    /// Capture time in nanoseconds since the start of 1970, of the packet that completed the message.
    pub time_ns: u64,
    /// Sender.
    pub src: SocketAddr,
    /// Receiver.
    pub dst: SocketAddr,
    /// What carried it.
    pub transport: DnsTransport,
    /// The message. UDP payloads are given out as they are, also those too short for a DNS header.
    pub payload: &'a [u8],
    /// Whether the capture holds only the beginning of the message.
    pub truncated: bool,
}

/// Octets of a DNS header (RFC 1035 section 4.1.1).
pub(super) const HEADER_LEN: usize = 12;
const NAME_LEN_MAX: usize = 255;

/// Message id.
pub(super) fn id(message: &[u8]) -> Option<u16> {
    be16(message, 0)
}

/// Whether the QR bit says that this is a response. `None` when the header is not there.
pub(super) fn is_response(message: &[u8]) -> Option<bool> {
    message.get(..HEADER_LEN)?;
    u8_at(message, 2).map(|flags| flags & 0x80 != 0)
}

/// The octets of the first question: name, type and class. `None` when there is none, or none that can be delimited.
pub(super) fn question(message: &[u8]) -> Option<&[u8]> {
    if be16(message, 4)? == 0 {
        return None;
    }
    let body = message.get(HEADER_LEN..)?;
    let mut at = 0;
    while at < NAME_LEN_MAX {
        match u8_at(body, at)? {
            0 => return body.get(..at + 5),
            // There is nothing before the question for a pointer to point at.
            len if len & 0xc0 != 0 => return None,
            len => at += 1 + usize::from(len),
        }
    }
    None
}

/// The type asked for, out of what [`question`] gave.
pub(super) fn question_type(question: &[u8]) -> Option<u16> {
    be16(question, question.len().checked_sub(4)?)
}

/// Whether `stream` looks like the beginning of a length-prefixed message (RFC 1035 section 4.2.2), for streams whose
/// beginning is not in the capture.
///
/// The rule: the length is at least 12; opcode is one of those assigned (0, 1, 2, 4, 5, 6); the reserved bit is 0; there
/// is at most one question; and the counted questions and records fit into the length at their least size (5 and 11
/// octets; RFC 1035 section 4.1). Two octets alone pass when the length is from 12 to 16,384: some senders write the
/// length by itself.
pub(super) fn begins(stream: &[u8]) -> bool {
    let Some(len) = be16(stream, 0).map(usize::from) else {
        return false;
    };
    if len < HEADER_LEN {
        return false;
    }
    if stream.len() == 2 {
        return len <= 16 * 1024;
    }
    let message = stream.get(2..).unwrap_or_default();
    let (Some(high), Some(low)) = (u8_at(message, 2), u8_at(message, 3)) else {
        return false;
    };
    let count = |at| be16(message, at).map(usize::from);
    let (Some(questions), Some(answers), Some(authority), Some(additional)) =
        (count(4), count(6), count(8), count(10))
    else {
        return false;
    };
    matches!((high >> 3) & 0x0f, 0 | 1 | 2 | 4..=6)
        && low & 0x40 == 0
        && questions <= 1
        && HEADER_LEN + 5 * questions + 11 * (answers + authority + additional) <= len
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &[u8] =
        b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03wWw\x07example\x00\x00\x01\x00\x01";

    fn framed(message: &[u8]) -> Vec<u8> {
        let mut stream = u16::try_from(message.len()).unwrap().to_be_bytes().to_vec();
        stream.extend_from_slice(message);
        stream
    }

    fn with(at: usize, value: u8) -> Vec<u8> {
        let mut message = QUERY.to_vec();
        message[at] = value;
        message
    }

    #[test]
    fn delimits_the_question() {
        assert_eq!(question(QUERY), Some(&QUERY[12..]));
        assert_eq!(question(QUERY).and_then(question_type), Some(1));
        for cut in 0..QUERY.len() {
            assert_eq!(question(&QUERY[..cut]), None, "cut at {cut}");
        }
        assert_eq!(question(&with(5, 0)), None, "no question counted");
        assert_eq!(question(&with(12, 0xc0)), None, "pointer");
    }

    #[test]
    fn tells_a_beginning_from_the_middle() {
        let rows: &[(&str, Vec<u8>, bool)] = &[
            ("a query", framed(QUERY), true),
            ("its first 14 octets", framed(QUERY)[..14].to_vec(), true),
            ("its first 13 octets", framed(QUERY)[..13].to_vec(), false),
            ("a length alone", vec![0, 40], true),
            ("a length alone, less than a header", vec![0, 11], false),
            ("nothing", vec![], false),
            ("one octet", vec![0], false),
            ("a query without its length", QUERY.to_vec(), false),
            ("opcode 3", framed(&with(2, 3 << 3)), false),
            ("opcode 5", framed(&with(2, 5 << 3)), true),
            ("reserved bit", framed(&with(3, 0x40)), false),
            ("two questions", framed(&with(5, 2)), false),
            ("more records than can be there", framed(&with(7, 2)), false),
            ("text", b"GET / HTTP/1.1\r\n\r\n".to_vec(), false),
        ];
        for (what, stream, want) in rows {
            assert_eq!(begins(stream), *want, "{what}");
        }
    }
}
