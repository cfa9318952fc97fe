//! Record data as Vector writes them.

use crate::digits;
use crate::dns::present::{self, Style, display, write_base64};
use crate::dns::{Name, Record, iana, rare};

/// Vector's style, and that of its DNS library.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hickory;

/// Whether Vector writes data of this type as text; of all others it writes the octets.
pub(super) const fn is_text(rtype: u16) -> bool {
    matches!(
        rtype,
        // A, NS, CNAME to MR, WKS to ISDN, RT, NSAP
        1 | 2 | 5..=9 | 11..=22
        // SIG, KEY, PX, AAAA, LOC, SRV, NAPTR to A6, SINK, APL
        | 24..=26 | 28 | 29 | 33 | 35..=38 | 40 | 42
        // DS, SSHFP, RRSIG to TLSA, CDS to CSYNC, SVCB, HTTPS, SPF, CAA
        | 43 | 44 | 46..=52 | 59..=62 | 64 | 65 | 99 | 257
    )
}

impl Style for Hickory {
    /// All values stand in quotation marks, also those that are numbers and addresses, and where there is none.
    fn param(&self, out: &mut Vec<u8>, key: u16, value: &[u8]) {
        let start = out.len();
        present::write_param(out, key, value);
        let text = out.get(start..).unwrap_or_default();
        match memchr::memchr(b'=', text) {
            None => out.extend_from_slice(b"=\"\""),
            Some(at) if text.get(at + 1) != Some(&b'"') => {
                out.insert(start + at + 1, b'"');
                out.push(b'"');
            }
            Some(_) => {}
        }
    }

    fn rare(&self, out: &mut Vec<u8>, record: &Record<'_>) -> bool {
        let start = out.len();
        let is_written = rare::write(self, out, record, false);
        // NSAP in capitals.
        if record.rtype == 22
            && let Some(digits) = out.get_mut(start + 2..)
        {
            digits.make_ascii_uppercase();
        }
        is_written
    }

    /// Sizes without zeros at the end: `10000m`, `0.05m`.
    fn loc(&self, out: &mut Vec<u8>, octets: &[u8]) {
        let mut sizes = [0; 3];
        let Some([version, a, b, c]) = octets.first_chunk() else {
            return self.generic(out, octets);
        };
        let start = out.len();
        present::write_loc(out, octets);
        if *version != 0 || out.get(start) == Some(&b'\\') {
            return;
        }
        for (size, octet) in sizes.iter_mut().zip([a, b, c]) {
            *size = u64::from(octet >> 4) * 10u64.pow(u32::from(octet & 15));
        }
        // The last three words are the sizes in full.
        for _ in sizes {
            let text = out.get(start..).unwrap_or_default();
            let Some(space) = memchr::memrchr(b' ', text) else {
                return;
            };
            out.truncate(start + space);
        }
        for size in sizes {
            let (metres, centimetres) = (size / 100, size % 100);
            display(out, format_args!(" {metres}"));
            if centimetres > 0 {
                display(out, format_args!(".{centimetres:02}"));
                if centimetres % 10 == 0 {
                    out.pop();
                }
            }
            out.push(b'm');
        }
    }

    fn special(&self, out: &mut Vec<u8>, record: &Record<'_>) -> bool {
        match (record.rtype, record.data()) {
            // SIG, RRSIG: times are seconds since 1970.
            (24 | 46, &[a, b, algorithm, labels, ref rest @ ..]) => {
                let (message, start) = record.in_message();
                let Some((signer, end)) = Name::parse(message, start + 18).ok() else {
                    return false;
                };
                let (Some(&[ttl, until, from]), Some([tag_high, tag_low])) =
                    (rest.as_chunks::<4>().0.first_chunk::<3>(), rest.get(12..14))
                else {
                    return false;
                };
                iana::write_type(out, u16::from_be_bytes([a, b]));
                for number in [
                    algorithm.into(),
                    labels.into(),
                    u32::from_be_bytes(ttl),
                    u32::from_be_bytes(until),
                    u32::from_be_bytes(from),
                    u16::from_be_bytes([*tag_high, *tag_low]).into(),
                ] {
                    out.push(b' ');
                    digits::number(out, number.into());
                }
                out.push(b' ');
                signer.write_text(out);
                out.push(b' ');
                write_base64(out, message.get(end..).unwrap_or_default());
                true
            }
            _ => false,
        }
    }
}
