//! Checked big-endian reads at an offset.

/// Two octets at `offset`.
#[inline(always)]
pub(crate) fn u16_at(octets: &[u8], offset: usize) -> Option<u16> {
    let (_, rest) = octets.split_at_checked(offset)?;
    rest.first_chunk::<2>()
        .map(|pair| u16::from_be_bytes(*pair))
}
