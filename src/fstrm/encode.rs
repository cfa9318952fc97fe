//! Data frames into bytes. Control frames encode themselves, see [`Control::encode`](super::Control::encode).

/// A payload that cannot be a data frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A length of 0 is the escape of a control frame, so there are no empty data frames.
    #[error("an empty payload cannot be a data frame")]
    Empty,
    /// The length does not fit into 32 bits.
    #[error("a payload of {len} bytes is over the 32 bits of a length word")]
    TooLong {
        /// Bytes of the payload.
        len: usize,
    },
}

/// Appends `payload` to `out` as one data frame.
///
/// # Errors
/// [`EncodeError`] when it is empty or longer than a length word can say; `out` is then unchanged.
pub fn data(payload: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let word = length_word(payload.len())?;
    out.reserve(payload.len().saturating_add(4));
    out.extend_from_slice(&word);
    out.extend_from_slice(payload);
    Ok(())
}

/// The length word of a data frame of `len` bytes.
///
/// # Errors
/// As [`data`].
pub fn length_word(len: usize) -> Result<[u8; 4], EncodeError> {
    match u32::try_from(len) {
        Ok(0) => Err(EncodeError::Empty),
        Ok(word) => Ok(word.to_be_bytes()),
        Err(_) => Err(EncodeError::TooLong { len }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_frame_is_its_length_and_its_payload() {
        let mut out = vec![7];
        data(b"abc", &mut out).unwrap();
        assert_eq!(out, b"\x07\0\0\0\x03abc");
        assert_eq!(data(b"", &mut out), Err(EncodeError::Empty));
        assert_eq!(out.len(), 8, "a refused payload leaves nothing behind");
    }

    #[test]
    fn a_length_beyond_32_bits_is_refused() {
        assert_eq!(length_word(0xffff_ffff), Ok([0xff; 4]));
        assert_eq!(
            length_word(0x1_0000_0000),
            Err(EncodeError::TooLong { len: 0x1_0000_0000 })
        );
    }
}
