//! Checked reads of big- and little-endian numbers out of octets that a stranger wrote.
//!
//! Every function answers `None` where the octets end too early, so that a parser is a chain of `?` and holds no index.

/// The `N` octets at `at`.
pub(super) fn chunk<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..)?.first_chunk::<N>().copied()
}

/// The octet at `at`.
pub(super) fn u8_at(data: &[u8], at: usize) -> Option<u8> {
    data.get(at).copied()
}

/// The 16-bit number at `at`, in network order.
pub(super) fn be16(data: &[u8], at: usize) -> Option<u16> {
    chunk(data, at).map(u16::from_be_bytes)
}

/// The 32-bit number at `at`, in network order.
pub(super) fn be32(data: &[u8], at: usize) -> Option<u32> {
    chunk(data, at).map(u32::from_be_bytes)
}

/// The order in which a capture file writes its numbers: that of the machine which wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// Most significant octet first.
    Big,
    /// Least significant octet first.
    Little,
}

impl ByteOrder {
    /// The 16-bit number at `at`.
    pub(super) fn u16(self, data: &[u8], at: usize) -> Option<u16> {
        let octets = chunk(data, at)?;
        Some(match self {
            Self::Big => u16::from_be_bytes(octets),
            Self::Little => u16::from_le_bytes(octets),
        })
    }

    /// The 32-bit number at `at`.
    pub(super) fn u32(self, data: &[u8], at: usize) -> Option<u32> {
        let octets = chunk(data, at)?;
        Some(match self {
            Self::Big => u32::from_be_bytes(octets),
            Self::Little => u32::from_le_bytes(octets),
        })
    }

    /// The signed 64-bit number at `at`.
    pub(super) fn i64(self, data: &[u8], at: usize) -> Option<i64> {
        let octets = chunk(data, at)?;
        Some(match self {
            Self::Big => i64::from_be_bytes(octets),
            Self::Little => i64::from_le_bytes(octets),
        })
    }
}
