//! Checked big-endian reads: the one place where a peer's bytes become integers.
//!
//! A [`Reader`] is a slice that shrinks from the front. Every read returns `None` when the bytes are not there and
//! then leaves the reader as it was, so that a parser is a straight line of `?` and can neither panic nor read past
//! the end. It is not a decoder of anything: which integers follow which is the protocol modules' business.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]

/// A cursor over bytes that somebody else wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the front of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes not read yet.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// How many bytes are left.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.rest.len()
    }

    /// Whether everything has been read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `N` octets as an array, or `None` when fewer are left.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    /// The next octet.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(u8::from_be_bytes)
    }

    /// The next two octets as a big-endian integer.
    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        self.array::<2>().map(u16::from_be_bytes)
    }

    /// The next four octets as a big-endian integer.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.array::<4>().map(u32::from_be_bytes)
    }

    /// The next eight octets as a big-endian integer.
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        self.array::<8>().map(u64::from_be_bytes)
    }

    /// The next `n` octets, borrowed, or `None` when fewer are left. `n` may be any number a peer sent.
    #[inline]
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(head)
    }
}

/// A peer's 32-bit length as an index. On the targets we support (32 and 64 bit) nothing is lost; on a narrower one it
/// saturates, and the bounds check that follows refuses it.
#[inline]
#[must_use]
pub fn index(len: u32) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_integers_of_each_width_in_network_order() {
        let bytes = [
            1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18,
        ];
        let mut r = Reader::new(&bytes);
        assert_eq!(r.u8(), Some(0x01));
        assert_eq!(r.u16(), Some(0x0203));
        assert_eq!(r.u32(), Some(0x0405_0607));
        assert_eq!(r.u64(), Some(0x0809_0a0b_0c0d_0e0f));
        assert_eq!(r.take(2), Some(&[16, 17][..]));
        assert_eq!(r.rest(), &[18]);
        assert_eq!((r.len(), r.is_empty()), (1, false));
    }

    #[test]
    fn a_read_past_the_end_gives_nothing_and_moves_nothing() {
        let bytes = [0xaa; 3];
        let mut r = Reader::new(&bytes);
        assert_eq!(r.u32(), None);
        assert_eq!(r.u64(), None);
        assert_eq!(r.take(4), None);
        assert_eq!(
            r.take(usize::MAX),
            None,
            "a length near the address limit must not wrap"
        );
        assert_eq!(r.len(), 3);
        assert_eq!(r.u16(), Some(0xaaaa));
        assert_eq!(r.u16(), None);
        assert_eq!(r.u8(), Some(0xaa));
        assert_eq!(r.u8(), None);
        assert_eq!(r.take(0), Some(&[][..]));
    }
}
