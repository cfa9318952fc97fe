//! The output buffer of the decompressors: grows as bytes come out, up to the limit, and is kept.

use super::CompressReason;

/// Bytes the buffer has when it is first used, if the limit allows.
const FIRST: usize = 64 * 1024;

/// A growing output buffer. It may become one byte longer than the limit, so that an output of exactly the limit can be
/// told from a longer one without asking a codec to go on with no room.
#[derive(Debug)]
pub(super) struct Scratch {
    /// All of it initialised. Invariant: `len <= bytes.len() <= limit + 1`.
    bytes: Vec<u8>,
    len: usize,
    limit: usize,
}

impl Scratch {
    pub(super) const fn new(limit: usize) -> Self {
        Self {
            bytes: Vec::new(),
            len: 0,
            limit,
        }
    }

    pub(super) const fn limit(&self) -> usize {
        self.limit
    }

    pub(super) const fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn over(&self) -> bool {
        self.len > self.limit
    }

    /// Bytes that may still come out.
    pub(super) const fn left(&self) -> usize {
        self.limit.saturating_sub(self.len)
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    pub(super) fn release(&mut self) {
        *self = Self::new(self.limit);
    }

    pub(super) fn written(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Bytes written since the output had `start` bytes.
    pub(super) fn since(&self, start: usize) -> &[u8] {
        self.written().get(start..).unwrap_or_default()
    }

    /// Free space of at least `want` bytes, or fewer if that would be more than one over the limit; never empty.
    pub(super) fn room(&mut self, want: usize) -> Result<&mut [u8], CompressReason> {
        self.split(want, self.len).map(|(_, room)| room)
    }

    /// As `room`, together with the bytes written since `start`.
    pub(super) fn split(
        &mut self,
        want: usize,
        start: usize,
    ) -> Result<(&[u8], &mut [u8]), CompressReason> {
        if self.over() {
            return Err(CompressReason::TooLarge);
        }
        let most = self.limit.saturating_add(1);
        let need = self.len.saturating_add(want.max(1)).min(most);
        if need > self.bytes.len() {
            let len = need
                .max(self.bytes.len().saturating_mul(2))
                .max(FIRST)
                .min(most);
            // Exactly, because a vector left to itself would round up beyond the limit.
            self.bytes
                .reserve_exact(len.saturating_sub(self.bytes.len()));
            self.bytes.resize(len, 0);
        }
        let (written, room) = self
            .bytes
            .split_at_mut_checked(self.len)
            .ok_or(CompressReason::TooLarge)?;
        Ok((written.get(start..).unwrap_or_default(), room))
    }

    /// The first `n` bytes of the room were written.
    pub(super) fn advance(&mut self, n: usize) {
        self.len = self.len.saturating_add(n).min(self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_grows_beyond_one_byte_over_the_limit() {
        let mut scratch = Scratch::new(100_000);
        assert_eq!(scratch.capacity(), 0);
        assert_eq!(scratch.room(10).unwrap().len(), FIRST);
        assert_eq!(scratch.room(usize::MAX).unwrap().len(), 100_001);
        assert_eq!(scratch.capacity(), 100_001);
        scratch.advance(100_000);
        assert!(!scratch.over());
        assert_eq!((scratch.left(), scratch.room(50).unwrap().len()), (0, 1));
        scratch.advance(1);
        assert!(scratch.over());
        assert_eq!(scratch.room(1), Err(CompressReason::TooLarge));
        scratch.release();
        assert_eq!(scratch.capacity(), 0);
    }
}
