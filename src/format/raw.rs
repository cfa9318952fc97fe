//! Payloads as text, octet for octet: base 16 (`hex`) and base 64 (`base64`), one payload a line.
//!
//! ```text
//! 0a036e7331120642494e4420397801
//! CgNuczESBkJJTkQgOXgB
//! ```
//!
//! Nothing is decoded, so these take every frame, those that are no dnstap as well, and give each back whole: what
//! `xxd -r -p` or `base64 -d` makes of a line is the frame's payload. Base 16 is in small letters; base 64 is RFC
//! 4648, 4, with padding, in one piece.

use data_encoding::{BASE64, Encoding, HEXLOWER};

use crate::dnstap::DecodeReason;
use crate::format::{Entry, Kind, Line, Shape};

/// Base 16.
pub static HEX: Kind = Kind {
    name: "hex",
    aliases: &[],
    about: "the payload in base 16, one a line, also of frames that are no dnstap",
    extension: "hex",
    shape: Shape::Lines,
    has_local_times: false,
    has_fields: false,
    make: |_| Ok(Box::new(Raw(HEXLOWER))),
};

/// Base 64.
pub static BASE_64: Kind = Kind {
    name: "base64",
    aliases: &[],
    about: "the payload in base 64, one a line, also of frames that are no dnstap",
    extension: "b64",
    shape: Shape::Lines,
    has_local_times: false,
    has_fields: false,
    make: |_| Ok(Box::new(Raw(BASE64))),
};

struct Raw(Encoding);

impl Line for Raw {
    fn write(&mut self, out: &mut Vec<u8>, entry: Entry<'_>) -> Result<(), DecodeReason> {
        let start = out.len();
        out.resize(start + self.0.encode_len(entry.payload.len()), 0);
        if let Some(room) = out.get_mut(start..) {
            self.0.encode_mut(entry.payload, room);
        }
        out.push(b'\n');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dnstap::ViewError;
    use crate::format::{Settings, Source};

    #[test]
    fn frames_that_are_no_dnstap_are_written_whole_as_well() {
        for (kind, wanted) in [(&HEX, "00ff0a\n\n6869\n"), (&BASE_64, "AP8K\n\naGk=\n")] {
            let mut line = (kind.make)(&Settings::default()).unwrap();
            let mut out = Vec::new();
            line.begin(&mut out);
            for payload in [&b"\x00\xff\n"[..], b"", b"hi"] {
                let entry = Entry {
                    payload,
                    view: Err(DecodeReason::Protobuf(ViewError::BadKey)),
                    source: Source::default(),
                };
                line.write(&mut out, entry).unwrap();
            }
            assert_eq!(String::from_utf8(out).unwrap(), wanted, "{}", kind.name);
        }
    }
}
