//! Tags: `name=value` words, with a space between two, in dnstap's `extra` field.
//!
//! The schema leaves `extra` to the sender, and it is the one field that every tool shows or hands on. What a sender has
//! put there stays in front. Octets of a value that are not printable ASCII, spaces and `%` are written as `%` and two
//! hexadecimal digits; in a name, `=` as well.

/// Writes a new value for `extra`.
#[derive(Debug, Default)]
pub struct TagWriter {
    out: Vec<u8>,
}

impl TagWriter {
    /// Begins with what `extra` holds now, but for the tags whose names (as they stand there) are `outdated`: those that are
    /// about to be written.
    pub fn begin(&mut self, extra: Option<&[u8]>, outdated: impl Fn(&[u8]) -> bool) {
        self.out.clear();
        let extra = extra.unwrap_or_default();
        let is_old = |word: &[u8]| {
            let name = word.split(|octet| *octet == b'=').next();
            word.contains(&b'=') && name.is_some_and(&outdated)
        };
        if !extra.split(|octet| *octet == b' ').any(is_old) {
            self.out.extend_from_slice(extra);
            return;
        }
        for word in extra.split(|octet| *octet == b' ') {
            if !is_old(word) {
                self.space();
                self.out.extend_from_slice(word);
            }
        }
    }

    /// Appends a tag.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.space();
        encode(&mut self.out, name, true);
        self.out.push(b'=');
        encode(&mut self.out, value, false);
    }

    /// The octets for `extra`.
    pub fn as_bytes(&self) -> &[u8] {
        &self.out
    }

    fn space(&mut self) {
        if !self.out.is_empty() {
            self.out.push(b' ');
        }
    }
}

fn encode(out: &mut Vec<u8>, octets: &[u8], is_name: bool) {
    for &octet in octets {
        if octet.is_ascii_graphic() && octet != b'%' && !(is_name && octet == b'=') {
            out.push(octet);
        } else {
            let digit = |value: u8| match value {
                0..10 => b'0' + value,
                _ => b'A' + value - 10,
            };
            out.extend_from_slice(&[b'%', digit(octet >> 4), digit(octet & 15)]);
        }
    }
}

/// The tags in `extra`: names and values as they were before they were encoded. Words without `=` are none.
pub fn tags(extra: &[u8]) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> + '_ {
    extra.split(|octet| *octet == b' ').filter_map(|word| {
        let at = word.iter().position(|octet| *octet == b'=')?;
        let (name, value) = word.split_at_checked(at)?;
        Some((decode(name), decode(value.get(1..)?)))
    })
}

fn decode(mut word: &[u8]) -> Vec<u8> {
    let hex = |digit: u8| char::from(digit).to_digit(16);
    let mut out = Vec::with_capacity(word.len());
    while let Some((&first, tail)) = word.split_first() {
        if let (b'%', [high, low, after @ ..]) = (first, tail)
            && let (Some(high), Some(low)) = (hex(*high), hex(*low))
        {
            out.push((high << 4 | low) as u8);
            word = after;
        } else {
            out.push(first);
            word = tail;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_follow_what_is_there_and_take_the_place_of_their_like() {
        let rows: &[(Option<&[u8]>, &[u8])] = &[
            (None, b"asn=64500 org=A%20B%25"),
            (Some(b""), b"asn=64500 org=A%20B%25"),
            (
                Some(b"free  text\xff"),
                b"free  text\xff asn=64500 org=A%20B%25",
            ),
            (Some(b"asn=1 x=y asn=2"), b"x=y asn=64500 org=A%20B%25"),
            (Some(b"asn"), b"asn asn=64500 org=A%20B%25"),
        ];
        let mut writer = TagWriter::default();
        for (extra, want) in rows {
            writer.begin(*extra, |name| name == b"asn" || name == b"org");
            writer.push(b"asn", b"64500");
            writer.push(b"org", b"A B%");
            assert_eq!(writer.as_bytes(), *want, "{extra:?}");
        }
    }

    #[test]
    fn every_octet_comes_back_from_a_tag() {
        let all: Vec<u8> = (0..=255).collect();
        let mut writer = TagWriter::default();
        writer.begin(None, |_| false);
        writer.push(&all, &all);
        writer.push(b"b", b"");
        assert!(writer.as_bytes().iter().all(|o| (b' '..127).contains(o)));
        let read: Vec<_> = tags(writer.as_bytes()).collect();
        assert_eq!(read, [(all.clone(), all), (b"b".to_vec(), Vec::new())]);
        assert_eq!(
            tags(b"%=%4 x a=%zz").collect::<Vec<_>>(),
            [
                (b"%".to_vec(), b"%4".to_vec()),
                (b"a".to_vec(), b"%zz".to_vec())
            ]
        );
    }
}
