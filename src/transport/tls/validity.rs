//! Until when a certificate is valid: the one thing that is read out of it here (RFC 5280, section 4.1.2.5). Who signed it
//! and for whom is the TLS library's business.

use crate::wire::Reader;

/// `notBefore` and `notAfter` in seconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Validity {
    /// Not valid before this.
    pub not_before: i64,
    /// Not valid after this.
    pub not_after: i64,
}

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Reads it out of a certificate in DER; `None` when it is no certificate.
pub fn of(der: &[u8]) -> Option<Validity> {
    let (_, certificate) = element(&mut Reader::new(der), SEQUENCE)?;
    let (_, body) = element(&mut Reader::new(certificate), SEQUENCE)?;
    let mut body = Reader::new(body);
    // version, which may be absent, then serialNumber, signature, issuer, validity.
    let (tag, _) = any(&mut body)?;
    if tag == VERSION {
        element(&mut body, INTEGER)?;
    } else if tag != INTEGER {
        return None;
    }
    element(&mut body, SEQUENCE)?;
    element(&mut body, SEQUENCE)?;
    let (_, validity) = element(&mut body, SEQUENCE)?;
    let mut validity = Reader::new(validity);
    Some(Validity {
        not_before: time(any(&mut validity)?)?,
        not_after: time(any(&mut validity)?)?,
    })
}

/// The next element, which must have this tag.
fn element<'a>(reader: &mut Reader<'a>, tag: u8) -> Option<(u8, &'a [u8])> {
    any(reader).filter(|(found, _)| *found == tag)
}

/// The next element: its tag and content (X.690, section 8.1.3: definite lengths, of at most four octets here).
fn any<'a>(reader: &mut Reader<'a>) -> Option<(u8, &'a [u8])> {
    let tag = reader.u8()?;
    let first = reader.u8()?;
    let len = if first < 0x80 {
        usize::from(first)
    } else {
        let octets = reader
            .take(usize::from(first & 0x7f))
            .filter(|o| o.len() <= 4)?;
        octets.iter().fold(0, |len, o| len << 8 | usize::from(*o))
    };
    Some((tag, reader.take(len)?))
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`; two digits from 50 on are of the last century.
fn time((tag, text): (u8, &[u8])) -> Option<i64> {
    let digits = text.strip_suffix(b"Z")?;
    let number = |from: usize, to: usize| -> Option<i64> {
        let part = std::str::from_utf8(digits.get(from..to)?).ok()?;
        part.bytes().all(|b| b.is_ascii_digit()).then_some(())?;
        part.parse().ok()
    };
    let (year, at) = match tag {
        UTC_TIME => {
            let year = number(0, 2)?;
            (if year < 50 { 2000 + year } else { 1900 + year }, 2)
        }
        GENERALIZED_TIME => (number(0, 4)?, 4),
        _ => return None,
    };
    let field = |i: usize| number(at + 2 * i, at + 2 * i + 2);
    let date = jiff::civil::Date::new(
        i16::try_from(year).ok()?,
        i8::try_from(field(0)?).ok()?,
        i8::try_from(field(1)?).ok()?,
    )
    .ok()?;
    let days = i64::from(date.since(jiff::civil::date(1970, 1, 1)).ok()?.get_days());
    Some(days * 86_400 + field(2)? * 3600 + field(3)? * 60 + field(4)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dates_of_a_certificate_are_read_and_no_cut_of_it_does_harm() {
        let mut params = rcgen::CertificateParams::new(vec!["x.example".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(1999, 12, 31);
        params.not_after = rcgen::date_time_ymd(2051, 2, 3);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let der: &[u8] = certificate.der();
        let want = Validity {
            not_before: 946_598_400,
            not_after: 2_558_995_200,
        };
        assert_eq!(of(der), Some(want));
        for len in 0..der.len() {
            assert_eq!(of(&der[..len]), None, "cut at {len}");
        }
    }
}
