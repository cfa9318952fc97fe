//! Writes a dnstap payload again with some fields replaced or left out.
//!
//! Everything else stays byte for byte where it was: the order of the fields, fields that the schema does not know,
//! numbers written with more octets than they need. Only the length of the embedded message is written anew, when it
//! changes. So what a sender put into a frame outlives an edit even where nobody here understands it.

use crate::dnstap::protobuf::{BYTES, bytes, key, skip};
use crate::dnstap::reason::ViewError;

/// A field of a dnstap payload, by its name in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are those of the schema")]
pub enum Field {
    Identity,
    Version,
    Extra,
    SocketFamily,
    SocketProtocol,
    QueryAddress,
    ResponseAddress,
    QueryPort,
    ResponsePort,
    QueryTimeSec,
    QueryTimeNsec,
    QueryMessage,
    QueryZone,
    ResponseTimeSec,
    ResponseTimeNsec,
    ResponseMessage,
    Policy,
    HttpProtocol,
    /// Every field that the schema does not have.
    Unknown,
}

impl Field {
    /// Every field but the two that say `type`, without which a payload is no record.
    pub const ALL: [Self; 19] = [
        Self::Identity,
        Self::Version,
        Self::Extra,
        Self::SocketFamily,
        Self::SocketProtocol,
        Self::QueryAddress,
        Self::ResponseAddress,
        Self::QueryPort,
        Self::ResponsePort,
        Self::QueryTimeSec,
        Self::QueryTimeNsec,
        Self::QueryMessage,
        Self::QueryZone,
        Self::ResponseTimeSec,
        Self::ResponseTimeNsec,
        Self::ResponseMessage,
        Self::Policy,
        Self::HttpProtocol,
        Self::Unknown,
    ];

    /// The name in the schema; `unknown` for those it does not have.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Version => "version",
            Self::Extra => "extra",
            Self::SocketFamily => "socket_family",
            Self::SocketProtocol => "socket_protocol",
            Self::QueryAddress => "query_address",
            Self::ResponseAddress => "response_address",
            Self::QueryPort => "query_port",
            Self::ResponsePort => "response_port",
            Self::QueryTimeSec => "query_time_sec",
            Self::QueryTimeNsec => "query_time_nsec",
            Self::QueryMessage => "query_message",
            Self::QueryZone => "query_zone",
            Self::ResponseTimeSec => "response_time_sec",
            Self::ResponseTimeNsec => "response_time_nsec",
            Self::ResponseMessage => "response_message",
            Self::Policy => "policy",
            Self::HttpProtocol => "http_protocol",
            Self::Unknown => "unknown",
        }
    }

    /// The field of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name() == name)
    }

    /// The field with this number in the outer message; `None` for `type` and `message`.
    const fn outer(number: u32) -> Option<Self> {
        Some(match number {
            1 => Self::Identity,
            2 => Self::Version,
            3 => Self::Extra,
            14 | 15 => return None,
            _ => Self::Unknown,
        })
    }

    /// The field with this number in the embedded message; `None` for `type`.
    const fn inner(number: u32) -> Option<Self> {
        Some(match number {
            1 => return None,
            2 => Self::SocketFamily,
            3 => Self::SocketProtocol,
            4 => Self::QueryAddress,
            5 => Self::ResponseAddress,
            6 => Self::QueryPort,
            7 => Self::ResponsePort,
            8 => Self::QueryTimeSec,
            9 => Self::QueryTimeNsec,
            10 => Self::QueryMessage,
            11 => Self::QueryZone,
            12 => Self::ResponseTimeSec,
            13 => Self::ResponseTimeNsec,
            14 => Self::ResponseMessage,
            15 => Self::Policy,
            16 => Self::HttpProtocol,
            _ => Self::Unknown,
        })
    }
}

/// A set of fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields(u32);

impl Fields {
    /// With this field as well.
    #[must_use]
    pub const fn with(self, field: Field) -> Self {
        Self(self.0 | 1 << field as u8)
    }

    /// Whether the field is in it.
    pub const fn has(self, field: Field) -> bool {
        self.0 & 1 << field as u8 != 0
    }

    /// Those that are not in it.
    #[must_use]
    pub fn complement(self) -> Self {
        Field::ALL
            .into_iter()
            .filter(|field| !self.has(*field))
            .fold(Self::default(), Self::with)
    }

    /// Whether no field is in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The fields whose octets can be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are those of the schema")]
pub enum Settable {
    Extra,
    QueryAddress,
    ResponseAddress,
    QueryMessage,
    QueryZone,
    ResponseMessage,
}

const OUTER: [(Settable, u8); 1] = [(Settable::Extra, 3)];
const INNER: [(Settable, u8); 5] = [
    (Settable::QueryAddress, 4),
    (Settable::ResponseAddress, 5),
    (Settable::QueryMessage, 10),
    (Settable::QueryZone, 11),
    (Settable::ResponseMessage, 14),
];

/// What is to be changed in a payload.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edit<'e> {
    remove: Fields,
    set: [Option<&'e [u8]>; 6],
}

impl<'e> Edit<'e> {
    /// Leaves the fields out, however often they are there.
    pub const fn remove(&mut self, fields: Fields) {
        self.remove = fields;
    }

    /// Gives the field this value: where it first stands, else after the other fields of its message. Further values of
    /// the field are left out, so that nothing of what was replaced remains.
    pub fn set(&mut self, field: Settable, octets: &'e [u8]) {
        if let Some(slot) = self.set.get_mut(field as usize) {
            *slot = Some(octets);
        }
    }

    /// Whether nothing is to be changed.
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.iter().all(Option::is_none)
    }

    fn value(&self, field: Settable) -> Option<&'e [u8]> {
        self.set.get(field as usize).copied().flatten()
    }

    /// Appends `payload` with the changes to `out`. Allocates only to grow `out`. A payload without a message gets none.
    ///
    /// # Errors
    ///
    /// When the payload is no protobuf; what was appended till then is taken off again.
    pub fn write(&self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), ViewError> {
        let start = out.len();
        self.write_outer(payload, out)
            .inspect_err(|_| out.truncate(start))
    }

    fn write_outer(&self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), ViewError> {
        let mut rest = payload;
        let mut pending = self.set;
        let mut message_seen = false;
        while !rest.is_empty() {
            let whole = rest;
            let (number, wire_type) = key(&mut rest)?;
            if (number, wire_type) != (14, BYTES) {
                skip(&mut rest, number, wire_type, 0)?;
                let whole = whole.get(..whole.len() - rest.len()).unwrap_or_default();
                self.put(
                    Field::outer(number),
                    number,
                    whole,
                    &OUTER,
                    &mut pending,
                    out,
                );
                continue;
            }
            let key_len = whole.len() - rest.len();
            let body = bytes(&mut rest)?;
            let head = whole
                .get(..whole.len() - rest.len() - body.len())
                .unwrap_or_default();
            out.extend_from_slice(head);
            let at = out.len();
            self.write_message(body, message_seen, &mut pending, out)?;
            message_seen = true;
            if out.len() - at != body.len() {
                relength(out, at - (head.len() - key_len), at);
            }
        }
        self.put_pending(&OUTER, &mut pending, out);
        Ok(())
    }

    fn write_message(
        &self,
        body: &[u8],
        seen: bool,
        pending: &mut [Option<&'e [u8]>; 6],
        out: &mut Vec<u8>,
    ) -> Result<(), ViewError> {
        let mut rest = body;
        while !rest.is_empty() {
            let whole = rest;
            let (number, wire_type) = key(&mut rest)?;
            skip(&mut rest, number, wire_type, 1)?;
            let whole = whole.get(..whole.len() - rest.len()).unwrap_or_default();
            self.put(Field::inner(number), number, whole, &INNER, pending, out);
        }
        if !seen {
            self.put_pending(&INNER, pending, out);
        }
        Ok(())
    }

    /// One field: as it is, replaced, or not at all.
    #[inline]
    fn put(
        &self,
        field: Option<Field>,
        number: u32,
        whole: &[u8],
        settable: &[(Settable, u8)],
        pending: &mut [Option<&'e [u8]>; 6],
        out: &mut Vec<u8>,
    ) {
        let set = settable.iter().find(|entry| u32::from(entry.1) == number);
        if let Some((settable, number)) = set
            && self.value(*settable).is_some()
        {
            if let Some(octets) = pending.get_mut(*settable as usize).and_then(Option::take) {
                put_bytes(out, *number, octets);
            }
        } else if !field.is_some_and(|field| self.remove.has(field)) {
            out.extend_from_slice(whole);
        }
    }

    fn put_pending(
        &self,
        settable: &[(Settable, u8)],
        pending: &mut [Option<&'e [u8]>; 6],
        out: &mut Vec<u8>,
    ) {
        for (settable, number) in settable {
            if let Some(octets) = pending.get_mut(*settable as usize).and_then(Option::take) {
                put_bytes(out, *number, octets);
            }
        }
    }
}

/// A field of octets whose number is below 16.
fn put_bytes(out: &mut Vec<u8>, number: u8, octets: &[u8]) {
    out.push(number << 3 | BYTES);
    let (digits, len) = varint(octets.len());
    out.extend_from_slice(digits.get(..len).unwrap_or_default());
    out.extend_from_slice(octets);
}

/// Writes the length of what follows `body` into the octets before it, from `from` on, moving the body when the length
/// takes more or fewer of them.
fn relength(out: &mut Vec<u8>, from: usize, body: usize) {
    let (digits, len) = varint(out.len() - body);
    out.splice(from..body, digits.into_iter().take(len));
}

/// A number as varint: its octets and how many there are.
fn varint(value: usize) -> ([u8; 10], usize) {
    let (mut digits, mut len, mut left) = ([0; 10], 0, value);
    for digit in &mut digits {
        len += 1;
        *digit = left as u8 & 0x7f;
        left >>= 7;
        if left == 0 {
            break;
        }
        *digit |= 0x80;
    }
    (digits, len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dnstap::build;
    use crate::dnstap::view::{DnstapView, Message, Policy};

    fn sample() -> DnstapView<'static> {
        DnstapView {
            identity: Some(b"ns1"),
            version: Some(b"v"),
            extra: Some(b"extra"),
            kind: Some(1),
            message: Some(Message {
                kind: Some(6),
                socket_family: Some(1),
                socket_protocol: Some(2),
                query_address: Some(&[192, 0, 2, 1]),
                response_address: Some(&[192, 0, 2, 2]),
                query_port: Some(5300),
                response_port: Some(53),
                query_time_sec: Some(1_700_000_000),
                query_time_nsec: Some(5),
                query_message: Some(b"query"),
                query_zone: Some(b"\0"),
                response_time_sec: Some(1_700_000_001),
                response_time_nsec: Some(6),
                response_message: Some(b"response"),
                policy: Some(Policy {
                    rule: Some(b"rule"),
                    ..Policy::default()
                }),
                http_protocol: Some(2),
            }),
        }
    }

    fn built(view: &DnstapView<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        build::write(&mut out, view);
        out
    }

    fn edited(payload: &[u8], edit: &Edit<'_>) -> Vec<u8> {
        let mut out = b"before".to_vec();
        edit.write(payload, &mut out).unwrap();
        out.split_off(6)
    }

    #[test]
    fn an_edit_of_nothing_copies_the_payload_octet_for_octet() {
        let plain = built(&sample());
        assert_eq!(edited(&plain, &Edit::default()), plain);
        // An unknown field, a group, a long key and a long length.
        let odd = [
            &[0xa8, 0x01, 0x05][..],
            &[0x8a, 0x00, 0x81, 0x00, b'x'],
            &[0xab, 0x06, 0x08, 0x01, 0xac, 0x06],
            &[0x72, 0x85, 0x80, 0x00, 0x08, 0x05, 0xa8, 0x7f, 0x01],
        ];
        let odd = odd.concat();
        assert_eq!(edited(&odd, &Edit::default()), odd);
    }

    #[test]
    fn each_field_is_removed_alone_and_the_rest_reads_as_before() {
        for field in Field::ALL {
            let mut edit = Edit::default();
            edit.remove(Fields::default().with(field));
            let got = edited(&built(&sample()), &edit);
            let mut want = sample();
            let m = want.message.as_mut().unwrap();
            match field {
                Field::Identity => want.identity = None,
                Field::Version => want.version = None,
                Field::Extra => want.extra = None,
                Field::SocketFamily => m.socket_family = None,
                Field::SocketProtocol => m.socket_protocol = None,
                Field::QueryAddress => m.query_address = None,
                Field::ResponseAddress => m.response_address = None,
                Field::QueryPort => m.query_port = None,
                Field::ResponsePort => m.response_port = None,
                Field::QueryTimeSec => m.query_time_sec = None,
                Field::QueryTimeNsec => m.query_time_nsec = None,
                Field::QueryMessage => m.query_message = None,
                Field::QueryZone => m.query_zone = None,
                Field::ResponseTimeSec => m.response_time_sec = None,
                Field::ResponseTimeNsec => m.response_time_nsec = None,
                Field::ResponseMessage => m.response_message = None,
                Field::Policy => m.policy = None,
                Field::HttpProtocol => m.http_protocol = None,
                Field::Unknown => {}
            }
            assert_eq!(got, built(&want), "{field:?}");
            assert_eq!(Field::from_name(field.name()), Some(field));
        }
    }

    #[test]
    fn values_are_replaced_where_they_stand_with_lengths_of_one_to_three_octets() {
        for len in [0, 1, 8, 100, 127, 128, 300, 16_383, 16_384, 70_000] {
            let value = vec![b'z'; len];
            let mut edit = Edit::default();
            edit.set(Settable::ResponseMessage, &value);
            edit.set(Settable::Extra, &value);
            edit.set(Settable::QueryAddress, &[1, 2, 3, 4]);
            let got = edited(&built(&sample()), &edit);
            let mut want = sample();
            want.extra = Some(&value);
            let m = want.message.as_mut().unwrap();
            m.response_message = Some(&value);
            m.query_address = Some(&[1, 2, 3, 4]);
            assert_eq!(got, built(&want), "{len}");
        }
    }

    #[test]
    fn a_missing_field_is_added_once_and_nothing_remains_of_a_repeated_one() {
        let mut view = sample();
        view.extra = None;
        view.message.as_mut().unwrap().query_zone = None;
        let mut edit = Edit::default();
        edit.set(Settable::Extra, b"tag=1");
        edit.set(Settable::QueryZone, b"\x01a\0");
        edit.set(Settable::QueryAddress, &[0; 4]);
        // The address twice in one message, and once more in a second one that is merged with it.
        let again = [0x22, 4, 9, 9, 9, 9];
        let mut payload = built(&view);
        payload.extend([0x72, 12]);
        payload.extend([again, again].concat());
        let got = edited(&payload, &edit);
        let read = DnstapView::parse(&got).unwrap();
        let m = read.message.unwrap();
        assert_eq!(read.extra, Some(&b"tag=1"[..]));
        assert_eq!(m.query_zone, Some(&b"\x01a\0"[..]));
        assert_eq!(m.query_address, Some(&[0; 4][..]));
        assert!(!got.windows(4).any(|w| w == [9; 4]), "{got:?}");
        assert_eq!(m.response_message, Some(&b"response"[..]));
    }

    #[test]
    fn what_is_no_protobuf_is_an_error_that_leaves_the_buffer_as_it_was() {
        let whole = built(&sample());
        let mut edit = Edit::default();
        edit.set(Settable::Extra, b"x");
        for cut in 1..whole.len() {
            let mut out = b"before".to_vec();
            let ok = edit.write(&whole[..cut], &mut out).is_ok();
            assert_eq!(ok, DnstapView::parse(&whole[..cut]).is_ok(), "{cut}");
            assert!(ok || out == b"before");
        }
    }

    #[test]
    fn unknown_fields_go_with_the_complement_of_a_list() {
        let mut payload = built(&sample());
        payload.extend([0xa8, 0x01, 0x05]);
        let keep = Field::ALL
            .into_iter()
            .filter(|f| *f != Field::Unknown)
            .fold(Fields::default(), Fields::with);
        let mut edit = Edit::default();
        edit.remove(keep.complement());
        assert_eq!(edited(&payload, &edit), built(&sample()));
    }
}
