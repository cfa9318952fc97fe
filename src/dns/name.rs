//! Domain names: in a message ([`Name`]), owned ([`NameBuf`]), and as text.

use std::fmt;

use crate::dns::error::{DnsError, Malformed};
use crate::dns::header::Header;

/// Longest name on the wire, in octets, root label included (RFC 1035, 2.3.4).
pub const WIRE_MAX: usize = 255;

/// Most pointers followed for one name. A name has at most 127 labels before the root, so a message in which
/// each pointer leads to a label needs no more.
pub const POINTERS_MAX: usize = 127;

/// A valid name inside a message, borrowed. It was walked once, to its root label, when it was made.
#[derive(Clone, Copy)]
pub struct Name<'a> {
    message: &'a [u8],
    start: u32,
    /// 1..=255.
    wire_len: u8,
    /// Without pointers: the `wire_len` octets from `start` are the name.
    flat: bool,
}

impl<'a> Name<'a> {
    /// Reads the name at `offset` of `message`, and says at which offset it ends there.
    ///
    /// # Errors
    ///
    /// `NameCut`, `NameTooLong`, `LabelType`, `PointerTarget`, `PointerChain`, with the offset of the label or
    /// pointer that shows it.
    #[inline]
    pub fn parse(message: &'a [u8], offset: usize) -> Result<(Self, usize), DnsError> {
        let mut at = offset;
        loop {
            let Some(&len) = message.get(at) else {
                return Err(DnsError::new(Malformed::NameCut, message.len()));
            };
            if len == 0 {
                let wire_len = at + 1 - offset;
                if wire_len > WIRE_MAX {
                    return Err(DnsError::new(Malformed::NameTooLong, at));
                }
                let name = Self {
                    message,
                    start: offset as u32,
                    wire_len: wire_len as u8,
                    flat: true,
                };
                return Ok((name, at + 1));
            }
            if len >= 0x40 || at - offset > WIRE_MAX {
                return Self::parse_compressed(message, offset, at);
            }
            at += 1 + usize::from(len);
        }
    }

    /// [`parse`](Self::parse) from the first octet that is no ordinary label on; `at` is its offset.
    #[inline(never)]
    fn parse_compressed(
        message: &'a [u8],
        offset: usize,
        at: usize,
    ) -> Result<(Self, usize), DnsError> {
        let error = |reason, at| Err(DnsError::new(reason, at));
        let (mut at, mut wire_len, mut run_start) = (at, at - offset, offset);
        let (mut end, mut pointers) = (None, 0);
        loop {
            let Some(&len) = message.get(at) else {
                return error(Malformed::NameCut, message.len());
            };
            match len {
                0..0x40 => {
                    wire_len += 1 + usize::from(len);
                    if wire_len > WIRE_MAX {
                        return error(Malformed::NameTooLong, at);
                    }
                    at += 1 + usize::from(len);
                    if len == 0 {
                        let name = Self {
                            message,
                            start: offset as u32,
                            wire_len: wire_len as u8,
                            flat: end.is_none(),
                        };
                        return Ok((name, end.unwrap_or(at)));
                    }
                }
                0x40..0xc0 => return error(Malformed::LabelType, at),
                0xc0.. => {
                    let Some(&low) = message.get(at + 1) else {
                        return error(Malformed::NameCut, message.len());
                    };
                    let target = usize::from(len & 0x3f) << 8 | usize::from(low);
                    if target >= run_start || target < Header::LEN {
                        return error(Malformed::PointerTarget, at);
                    }
                    pointers += 1;
                    if pointers > POINTERS_MAX {
                        return error(Malformed::PointerChain, at);
                    }
                    end = end.or(Some(at + 2));
                    (at, run_start) = (target, target);
                }
            }
        }
    }

    /// A name that is the whole of `wire`, as in dnstap's `query_zone`: no compression, nothing after it.
    pub fn from_wire(wire: &'a [u8]) -> Option<Self> {
        let (name, end) = Self::parse(wire, 0).ok()?;
        (name.flat && end == wire.len()).then_some(name)
    }

    /// The labels, first to last, without the root label.
    #[inline]
    pub fn labels(&self) -> Labels<'a> {
        Labels {
            message: self.message,
            at: self.start as usize,
            left: usize::from(self.wire_len),
        }
    }

    /// Length in wire format without compression: 1..=255 octets.
    #[inline]
    pub const fn wire_len(&self) -> usize {
        self.wire_len as usize
    }

    /// Whether this is the root.
    pub const fn is_root(&self) -> bool {
        self.wire_len == 1
    }

    /// The octets in wire format, when the message holds them in one piece (a first question always does).
    #[inline]
    pub fn as_wire(&self) -> Option<&'a [u8]> {
        let start = self.start as usize;
        if !self.flat {
            return None;
        }
        self.message.get(start..start + usize::from(self.wire_len))
    }

    /// Appends the octets in wire format, without compression.
    pub fn write_wire(&self, out: &mut Vec<u8>) {
        if let Some(wire) = self.as_wire() {
            out.extend_from_slice(wire);
            return;
        }
        for label in self.labels() {
            out.push(label.len() as u8);
            out.extend_from_slice(label);
        }
        out.push(0);
    }

    /// Appends the name as text, in BIND's form with the final dot: `\` before any of `" $ ( ) . ; @ \`,
    /// `\ddd` (decimal) for octets below 33 and above 126, everything else bare. The text is ASCII and parses
    /// back to the same octets with [`NameBuf::parse`].
    #[inline]
    pub fn write_text(&self, out: &mut Vec<u8>) {
        if self.is_root() {
            out.push(b'.');
            return;
        }
        for label in self.labels() {
            if label.iter().all(|&octet| is_bare(octet)) {
                out.extend_from_slice(label);
            } else {
                write_escaped(out, label);
            }
            out.push(b'.');
        }
    }

    /// Whether both are the same name, ASCII letter case aside (RFC 4343).
    pub fn eq_fold(&self, other: &Name<'_>) -> bool {
        self.wire_len == other.wire_len
            && match (self.as_wire(), other.as_wire()) {
                (Some(a), Some(b)) => a.eq_ignore_ascii_case(b),
                _ => self
                    .labels()
                    .zip(other.labels())
                    .all(|(a, b)| a.eq_ignore_ascii_case(b)),
            }
    }

    /// Whether the name is `suffix` or below it: octet for octet, ASCII letter case aside, at a label boundary.
    #[inline]
    pub fn is_within(&self, suffix: &NameBuf) -> bool {
        let suffix_len = suffix.wire.len();
        let mut left = usize::from(self.wire_len);
        let mut labels = self.labels();
        while left > suffix_len {
            let Some(label) = labels.next() else {
                return false;
            };
            left -= 1 + label.len();
        }
        if left != suffix_len {
            return false;
        }
        if self.flat {
            let end = self.start as usize + usize::from(self.wire_len);
            // Length octets are below 64 and letters above, so folding cannot take one for the other.
            return self
                .message
                .get(end - suffix_len..end)
                .is_some_and(|tail| tail.eq_ignore_ascii_case(&suffix.wire));
        }
        labels
            .zip(suffix.as_name().labels())
            .all(|(a, b)| a.eq_ignore_ascii_case(b))
    }

    /// An owned copy.
    pub fn to_buf(&self) -> NameBuf {
        let mut wire = Vec::with_capacity(self.wire_len());
        self.write_wire(&mut wire);
        NameBuf { wire }
    }
}

impl PartialEq for Name<'_> {
    /// Octet for octet, letter case included.
    fn eq(&self, other: &Self) -> bool {
        self.wire_len == other.wire_len && self.labels().eq(other.labels())
    }
}

impl Eq for Name<'_> {}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::with_capacity(4 * WIRE_MAX);
        self.write_text(&mut text);
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({self})")
    }
}

/// The labels of a [`Name`], first to last, without the root label.
#[derive(Clone, Debug)]
pub struct Labels<'a> {
    message: &'a [u8],
    at: usize,
    /// Octets of the name still to come, in wire format. Bounds the walk whatever the octets are.
    left: usize,
}

impl<'a> Iterator for Labels<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let mut len = *self.message.get(self.at)?;
        while len >= 0xc0 {
            // Checked when the name was made: the target is behind this pointer, so this ends.
            let low = *self.message.get(self.at + 1)?;
            self.at = usize::from(len & 0x3f) << 8 | usize::from(low);
            len = *self.message.get(self.at)?;
        }
        if len == 0 || self.left <= 1 {
            return None;
        }
        let (from, to) = (self.at + 1, self.at + 1 + usize::from(len));
        let label = self.message.get(from..to)?;
        self.left = self.left.checked_sub(1 + label.len())?;
        self.at = to;
        Some(label)
    }
}

/// A name of its own, in wire format without compression.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameBuf {
    /// Labels of 1 to 63 octets, then the root label; 255 octets at most.
    wire: Vec<u8>,
}

impl NameBuf {
    /// Reads a name from text: labels between dots, `\ddd` for an octet in decimal, `\` and any other octet for
    /// that octet. The final dot may be left out; `.` is the root. Octets above 126 are taken as they are, so
    /// UTF-8 text gives a label of its octets.
    ///
    /// # Errors
    ///
    /// An empty name or label, a label over 63 octets, a name over 255 octets, or a broken escape.
    pub fn parse(text: &str) -> Result<Self, NameTextError> {
        Self::parse_octets(text.as_bytes())
    }

    /// [`parse`](Self::parse) for text that need not be UTF-8.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse).
    pub fn parse_octets(text: &[u8]) -> Result<Self, NameTextError> {
        if text == b"." {
            return Ok(Self { wire: vec![0] });
        }
        let mut wire = Vec::with_capacity(text.len() + 2);
        let mut label = Vec::with_capacity(63);
        let mut rest = text;
        loop {
            let (octet, ends) = match rest {
                [] => (None, true),
                [b'.', tail @ ..] => {
                    rest = tail;
                    (None, true)
                }
                [
                    b'\\',
                    a @ b'0'..=b'9',
                    b @ b'0'..=b'9',
                    c @ b'0'..=b'9',
                    tail @ ..,
                ] => {
                    rest = tail;
                    let value = [a, b, c]
                        .iter()
                        .fold(0u16, |sum, digit| sum * 10 + u16::from(**digit - b'0'));
                    (
                        Some(u8::try_from(value).map_err(|_| NameTextError::Escape)?),
                        false,
                    )
                }
                [b'\\', b'0'..=b'9', ..] | [b'\\'] => return Err(NameTextError::Escape),
                [b'\\', octet, tail @ ..] | [octet, tail @ ..] => {
                    rest = tail;
                    (Some(*octet), false)
                }
            };
            label.extend(octet);
            if !ends {
                continue;
            }
            match label.len() {
                0 => return Err(NameTextError::EmptyLabel),
                1..=63 => wire.push(label.len() as u8),
                _ => return Err(NameTextError::LabelTooLong),
            }
            wire.append(&mut label);
            if rest.is_empty() {
                break;
            }
        }
        wire.push(0);
        if wire.len() > WIRE_MAX {
            Err(NameTextError::NameTooLong)
        } else {
            Ok(Self { wire })
        }
    }

    /// The octets in wire format.
    pub fn as_wire(&self) -> &[u8] {
        &self.wire
    }

    /// The name, borrowed.
    pub fn as_name(&self) -> Name<'_> {
        Name {
            message: &self.wire,
            start: 0,
            wire_len: self.wire.len() as u8,
            flat: true,
        }
    }
}

impl fmt::Display for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_name().fmt(f)
    }
}

/// Why text is not a domain name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameTextError {
    /// No label, or two dots in a row.
    #[error("a domain name with an empty label")]
    EmptyLabel,
    /// More than 63 octets between two dots.
    #[error("a domain name with a label of more than 63 octets")]
    LabelTooLong,
    /// More than 255 octets in all.
    #[error("a domain name of more than 255 octets")]
    NameTooLong,
    /// A backslash at the end, or before digits that are not three or above 255.
    #[error(
        "a domain name with a broken \\ escape: write \\ddd with three decimal digits up to 255"
    )]
    Escape,
}

/// How an octet of a label is written in text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escape {
    /// As it is.
    Bare,
    /// After a backslash.
    Backslash,
    /// As `\ddd`.
    Decimal,
}

/// [`Escape`] of every octet: BIND's table.
#[allow(
    clippy::indexing_slicing,
    reason = "runs at compile time, where a panic is a build error"
)]
static ESCAPES: [Escape; 256] = {
    let mut table = [Escape::Decimal; 256];
    let mut octet = 33;
    while octet <= 126 {
        table[octet] = match octet as u8 {
            b'"' | b'$' | b'(' | b')' | b'.' | b';' | b'@' | b'\\' => Escape::Backslash,
            _ => Escape::Bare,
        };
        octet += 1;
    }
    table
};

/// How BIND writes `octet` inside a label.
#[inline(always)]
pub(crate) fn escape_of(octet: u8) -> Escape {
    // In range for every octet; `get` keeps the promise that nothing here can panic.
    *ESCAPES.get(usize::from(octet)).unwrap_or(&Escape::Decimal)
}

/// Whether `octet` needs no escape inside a label.
#[inline(always)]
pub fn is_bare(octet: u8) -> bool {
    escape_of(octet) == Escape::Bare
}

/// The three decimal digits of `octet`.
#[inline]
pub fn decimal_digits(octet: u8) -> [u8; 3] {
    [
        b'0' + octet / 100,
        b'0' + octet / 10 % 10,
        b'0' + octet % 10,
    ]
}

/// Appends a label with its escapes.
fn write_escaped(out: &mut Vec<u8>, label: &[u8]) {
    for &octet in label {
        match escape_of(octet) {
            Escape::Bare => out.push(octet),
            Escape::Backslash => out.extend_from_slice(&[b'\\', octet]),
            Escape::Decimal => {
                out.push(b'\\');
                out.extend_from_slice(&decimal_digits(octet));
            }
        }
    }
}
