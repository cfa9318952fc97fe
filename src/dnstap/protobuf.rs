//! The few rules of the protobuf wire format that a dnstap payload needs, exactly as prost applies them.
//!
//! A message is a sequence of `key ‖ value`. The key is a varint, `number << 3 | wire type`; a varint has seven
//! bits an octet, least significant first. Every function takes octets off the front of `rest`.

use crate::dnstap::reason::ViewError;

/// Nesting that prost allows below the outermost message, counted down to 0, which is refused.
pub(crate) const DEPTH_MAX: usize = 100;

/// Wire type of varints.
pub(crate) const VARINT: u8 = 0;
/// Wire type of 8 octets.
pub(crate) const FIXED64: u8 = 1;
/// Wire type of `length ‖ octets`.
pub(crate) const BYTES: u8 = 2;
/// Wire type that opens a group.
pub(crate) const GROUP_START: u8 = 3;
/// Wire type that closes a group.
pub(crate) const GROUP_END: u8 = 4;
/// Wire type of 4 octets, little-endian.
pub(crate) const FIXED32: u8 = 5;

/// Takes a varint of up to 64 bits in at most 10 octets; the tenth may only be 0 or 1.
#[inline(always)]
pub(crate) fn varint(rest: &mut &[u8]) -> Result<u64, ViewError> {
    match rest.split_first() {
        Some((&first, tail)) if first < 0x80 => {
            *rest = tail;
            Ok(u64::from(first))
        }
        _ => varint_long(rest),
    }
}

/// [`varint`] for values that usually take more than one octet (times, ports, lengths of DNS messages): no
/// branch depends on how many, as long as eight octets are there to look at.
#[inline(always)]
pub(crate) fn varint_wide(rest: &mut &[u8]) -> Result<u64, ViewError> {
    let Some((window, _)) = rest.split_first_chunk::<8>() else {
        return varint_long(rest);
    };
    let word = u64::from_le_bytes(*window);
    let stops = !word & 0x8080_8080_8080_8080;
    if stops == 0 {
        return varint_long(rest);
    }
    let octets = (stops.trailing_zeros() / 8 + 1) as usize;
    // Keep the octets up to and including the first without a continuation bit, then close the gaps that
    // those bits leave: pairs of 7 bits to 14, of 14 to 28, of 28 to 56.
    let mut value = word & (stops ^ stops.wrapping_sub(1)) & 0x7f7f_7f7f_7f7f_7f7f;
    value = ((value & 0x7f00_7f00_7f00_7f00) >> 1) | (value & 0x007f_007f_007f_007f);
    value = ((value & 0x3fff_0000_3fff_0000) >> 2) | (value & 0x0000_3fff_0000_3fff);
    value = ((value & 0x0fff_ffff_0000_0000) >> 4) | (value & 0x0000_0000_0fff_ffff);
    *rest = rest.get(octets..).unwrap_or_default();
    Ok(value)
}

/// Takes a varint of any length, one octet at a time.
#[cold]
#[inline(never)]
fn varint_long(rest: &mut &[u8]) -> Result<u64, ViewError> {
    let mut value = 0u64;
    for (index, &octet) in rest.iter().take(10).enumerate() {
        value |= u64::from(octet & 0x7f) << (index * 7);
        if octet < 0x80 {
            if index == 9 && octet > 1 {
                return Err(ViewError::BadVarint);
            }
            *rest = rest.get(index + 1..).unwrap_or_default();
            return Ok(value);
        }
    }
    Err(if rest.len() >= 10 {
        ViewError::BadVarint
    } else {
        ViewError::Truncated
    })
}

/// Takes a field key: number (1 and up) and wire type (0..=5).
#[inline]
pub(crate) fn key(rest: &mut &[u8]) -> Result<(u32, u8), ViewError> {
    let key = u32::try_from(varint(rest)?).map_err(|_| ViewError::BadKey)?;
    let (number, wire_type) = (key >> 3, (key & 7) as u8);
    if number == 0 || wire_type > FIXED32 {
        return Err(ViewError::BadKey);
    }
    Ok((number, wire_type))
}

/// Takes `count` octets.
#[inline(always)]
pub(crate) fn take<'a>(rest: &mut &'a [u8], count: u64) -> Result<&'a [u8], ViewError> {
    let count = usize::try_from(count).map_err(|_| ViewError::Overrun)?;
    let (octets, tail) = rest.split_at_checked(count).ok_or(ViewError::Overrun)?;
    *rest = tail;
    Ok(octets)
}

/// Takes a length and as many octets, where the length is usually below 128.
#[inline(always)]
pub(crate) fn bytes<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], ViewError> {
    let count = varint(rest)?;
    take(rest, count)
}

/// [`bytes`] where the length is as often above 127 as below.
#[inline(always)]
pub(crate) fn bytes_wide<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], ViewError> {
    let count = varint_wide(rest)?;
    take(rest, count)
}

/// Takes four octets, little-endian.
#[inline(always)]
pub(crate) fn fixed32(rest: &mut &[u8]) -> Result<u32, ViewError> {
    let (octets, tail) = rest.split_first_chunk::<4>().ok_or(ViewError::Overrun)?;
    *rest = tail;
    Ok(u32::from_le_bytes(*octets))
}

/// Skips the value of an unknown field. `depth` is how many embedded messages the field is in (0 outermost).
///
/// Groups nest, so the open ones are kept on a bounded stack rather than by recursion; their number together
/// with `depth` is limited as prost limits its recursion.
#[cold]
#[inline(never)]
pub(crate) fn skip(
    rest: &mut &[u8],
    number: u32,
    wire_type: u8,
    depth: usize,
) -> Result<(), ViewError> {
    let mut open = [0u32; DEPTH_MAX];
    let mut groups = 0usize;
    let (mut number, mut wire_type) = (number, wire_type);
    loop {
        // A closing key ends a level; prost only checks the depth when it is about to skip a value.
        if wire_type == GROUP_END {
            groups = groups.checked_sub(1).ok_or(ViewError::BadGroup)?;
            if open.get(groups) != Some(&number) {
                return Err(ViewError::BadGroup);
            }
        } else {
            if depth + groups >= DEPTH_MAX {
                return Err(ViewError::TooDeep);
            }
            match wire_type {
                VARINT => drop(varint(rest)?),
                FIXED64 => drop(take(rest, 8)?),
                BYTES => drop(bytes(rest)?),
                FIXED32 => drop(take(rest, 4)?),
                GROUP_START => {
                    *open.get_mut(groups).ok_or(ViewError::TooDeep)? = number;
                    groups += 1;
                }
                _ => return Err(ViewError::BadKey),
            }
        }
        if groups == 0 {
            return Ok(());
        }
        (number, wire_type) = key(rest)?;
    }
}
