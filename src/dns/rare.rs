//! Data of rare record types as text: those whose parts depend on each other, so that no row of the table of
//! [`rdata`](crate::dns::rdata) says what they are made of. The forms are those of each type's document, as BIND writes
//! them.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::digits;
use crate::dns::iana;
use crate::dns::name::Name;
use crate::dns::octets::u16_at;
use crate::dns::present::{Style, bitmap_octets, display, write_text_escaped};
use crate::dns::records::Record;

/// Appends the data of `record` in its type's form. `false`, and nothing appended, for types without one here and for data
/// that are not what their type says, or not in the one way that the text can give back. `gaps`: an address of A6 and a
/// key of TKEY that are not there keep their space, and zeros at the end of WKS go, as BIND has it.
pub(crate) fn write<S: Style + ?Sized>(
    style: &S,
    out: &mut Vec<u8>,
    record: &Record<'_>,
    gaps: bool,
) -> bool {
    let (message, at) = record.in_message();
    let mut data = Data { message, at };
    let start = out.len();
    let is_in = record.class == 1;
    let done = match record.rtype {
        11 if is_in => wks(style, out, &mut data, gaps),
        22 if is_in => nsap(out, &mut data),
        // NSAP-PTR
        23 if is_in => name(style, out, &mut data),
        30 => nxt(style, out, &mut data),
        // EID, NIMLOC
        31 | 32 => octets(style, out, &mut data),
        34 if is_in => atma(out, &mut data),
        38 if is_in => a6(style, out, &mut data, gaps),
        40 => sink(style, out, &mut data),
        42 if is_in => apl(style, out, &mut data),
        45 => ipseckey(style, out, &mut data),
        55 => hip(style, out, &mut data),
        249 => tkey(style, out, &mut data, gaps),
        259 => doa(style, out, &mut data),
        260 => amtrelay(style, out, &mut data),
        _ => None,
    };
    if done.is_some() && data.is_at_end() {
        return true;
    }
    out.truncate(start);
    false
}

/// What is left of a record's data, within its message cut at its end.
struct Data<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> Data<'a> {
    fn is_at_end(&self) -> bool {
        self.at >= self.message.len()
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(len)?;
        let octets = self.message.get(self.at..end)?;
        self.at = end;
        Some(octets)
    }

    fn rest(&mut self) -> &'a [u8] {
        let octets = self.message.get(self.at..).unwrap_or_default();
        self.at = self.message.len();
        octets
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn u16(&mut self) -> Option<u16> {
        u16_at(self.take(2)?, 0)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn name(&mut self) -> Option<Name<'a>> {
        let (name, end) = Name::parse(self.message, self.at).ok()?;
        self.at = end;
        Some(name)
    }

    fn v4(&mut self) -> Option<Ipv4Addr> {
        Some(<[u8; 4]>::try_from(self.take(4)?).ok()?.into())
    }

    fn v6(&mut self) -> Option<Ipv6Addr> {
        Some(<[u8; 16]>::try_from(self.take(16)?).ok()?.into())
    }
}

/// A number and a space.
fn number(out: &mut Vec<u8>, number: u64) {
    digits::number(out, number);
    out.push(b' ');
}

fn lower_hex(out: &mut Vec<u8>, octets: &[u8]) {
    for octet in octets {
        display(out, format_args!("{octet:02x}"));
    }
}

fn name<S: Style + ?Sized>(style: &S, out: &mut Vec<u8>, data: &mut Data<'_>) -> Option<()> {
    style.name(out, &data.name()?);
    Some(())
}

fn octets<S: Style + ?Sized>(style: &S, out: &mut Vec<u8>, data: &mut Data<'_>) -> Option<()> {
    let octets = data.rest();
    style.hex(out, octets);
    (!octets.is_empty()).then_some(())
}

/// RFC 1035, 3.4.2: address, protocol, and a bit for each port.
fn wks<S: Style + ?Sized>(
    style: &S,
    out: &mut Vec<u8>,
    data: &mut Data<'_>,
    gaps: bool,
) -> Option<()> {
    style.v4(out, data.v4()?);
    out.push(b' ');
    digits::number(out, data.u8()?.into());
    let bits = data.rest();
    for port in bitmap_octets(bits) {
        out.push(b' ');
        digits::number(out, port as u64);
    }
    // Ports end at 65,535, and zeros at the end would be lost.
    (bits.len() <= 8192 && (gaps || bits.last() != Some(&0))).then_some(())
}

/// RFC 1706.
fn nsap(out: &mut Vec<u8>, data: &mut Data<'_>) -> Option<()> {
    let octets = data.rest();
    out.extend_from_slice(b"0x");
    lower_hex(out, octets);
    (!octets.is_empty()).then_some(())
}

/// RFC 2535, 5.2: the next name, and a bit for each type below 128.
fn nxt<S: Style + ?Sized>(style: &S, out: &mut Vec<u8>, data: &mut Data<'_>) -> Option<()> {
    style.name(out, &data.name()?);
    let bits = data.rest();
    let [first, .., last] = bits else {
        return None;
    };
    style.bitmap(out, &mut bitmap_octets(bits).map(|rtype| rtype as u16));
    // The first bit would say that another form follows.
    (bits.len() <= 16 && first & 0x80 == 0 && *last != 0).then_some(())
}

/// ATM Forum, af-saa-0069: E.164 digits or octets.
fn atma(out: &mut Vec<u8>, data: &mut Data<'_>) -> Option<()> {
    let format = data.u8()?;
    let address = data.rest();
    if format == 1 {
        let is_number = address.iter().all(u8::is_ascii_digit);
        out.push(b'+');
        out.extend_from_slice(address);
        return (is_number && !address.is_empty()).then_some(());
    }
    lower_hex(out, address);
    (format == 0 && !address.is_empty()).then_some(())
}

/// RFC 2874, 3.1: bits of prefix, the rest of the address, and whose prefix it is.
fn a6<S: Style + ?Sized>(
    style: &S,
    out: &mut Vec<u8>,
    data: &mut Data<'_>,
    gaps: bool,
) -> Option<()> {
    let prefix = data.u8()?;
    if prefix > 128 {
        return None;
    }
    digits::number(out, prefix.into());
    if prefix < 128 {
        let len = 16 - usize::from(prefix / 8);
        let mut address = [0; 16];
        address
            .get_mut(16 - len..)?
            .copy_from_slice(data.take(len)?);
        // Bits of the prefix within the first octet are zero, or the text would lose them.
        if address.get(16 - len)? & !(0xff >> (prefix % 8)) != 0 {
            return None;
        }
        out.push(b' ');
        style.v6(out, address.into());
    }
    if prefix == 128 && gaps {
        out.push(b' ');
    }
    if prefix > 0 {
        out.push(b' ');
        style.name(out, &data.name()?);
    }
    Some(())
}

/// draft-eastlake-kitchen-sink.
fn sink<S: Style + ?Sized>(style: &S, out: &mut Vec<u8>, data: &mut Data<'_>) -> Option<()> {
    for octet in data.take(3)? {
        number(out, u64::from(*octet));
    }
    let octets = data.rest();
    if octets.is_empty() {
        out.pop();
    }
    style.base64(out, octets);
    Some(())
}

/// RFC 3123: networks, each without the zeros at its end.
fn apl<S: Style + ?Sized>(style: &S, out: &mut Vec<u8>, data: &mut Data<'_>) -> Option<()> {
    let mut is_first = true;
    while !data.is_at_end() {
        let (family, prefix, len) = (data.u16()?, data.u8()?, data.u8()?);
        let network = data.take(usize::from(len & 0x7f))?;
        // The RFC wants the zeros gone.
        if network.last() == Some(&0) {
            return None;
        }
        if !std::mem::take(&mut is_first) {
            out.push(b' ');
        }
        if len & 0x80 != 0 {
            out.push(b'!');
        }
        digits::number(out, family.into());
        out.push(b':');
        match family {
            1 if prefix <= 32 => {
                let mut address = [0; 4];
                address.get_mut(..network.len())?.copy_from_slice(network);
                digits::ip(out, Ipv4Addr::from(address).into());
            }
            2 if prefix <= 128 => {
                let mut address = [0; 16];
                address.get_mut(..network.len())?.copy_from_slice(network);
                style.v6(out, address.into());
            }
            _ => return None,
        }
        out.push(b'/');
        digits::number(out, prefix.into());
    }
    Some(())
}

/// A gateway or relay: none (0), an address (1, 2), or a name (3).
fn gateway<S: Style + ?Sized>(
    style: &S,
    out: &mut Vec<u8>,
    kind: u8,
    data: &mut Data<'_>,
) -> Option<()> {
    match kind {
        0 => out.push(b'.'),
        1 => style.v4(out, data.v4()?),
        2 => style.v6(out, data.v6()?),
        3 => style.name(out, &data.name()?),
        _ => return None,
    }
    Some(())
}

/// RFC 4025, 2.
fn ipseckey<S: Style + ?Sized>(style: &S, out: &mut Vec<u8>, data: &mut Data<'_>) -> Option<()> {
    let (precedence, kind, algorithm) = (data.u8()?, data.u8()?, data.u8()?);
    for octet in [precedence, kind, algorithm] {
        number(out, octet.into());
    }
    gateway(style, out, kind, data)?;
    let key = data.rest();
    if !key.is_empty() {
        out.push(b' ');
        style.base64(out, key);
    }
    Some(())
}

/// RFC 8005, 5: algorithm, host identity tag, public key, rendezvous servers.
fn hip<S: Style + ?Sized>(style: &S, out: &mut Vec<u8>, data: &mut Data<'_>) -> Option<()> {
    let (tag_len, algorithm, key_len) = (data.u8()?, data.u8()?, data.u16()?);
    let (tag, key) = (data.take(tag_len.into())?, data.take(key_len.into())?);
    if tag.is_empty() || key.is_empty() {
        return None;
    }
    number(out, algorithm.into());
    // Both in one piece, so that each is one field.
    crate::dns::present::write_hex(out, tag);
    out.push(b' ');
    crate::dns::present::write_base64(out, key);
    while !data.is_at_end() {
        out.push(b' ');
        style.name(out, &data.name()?);
    }
    Some(())
}

/// RFC 2930, 2.
fn tkey<S: Style + ?Sized>(
    style: &S,
    out: &mut Vec<u8>,
    data: &mut Data<'_>,
    gaps: bool,
) -> Option<()> {
    style.name(out, &data.name()?);
    out.push(b' ');
    number(out, data.u32()?.into());
    number(out, data.u32()?.into());
    number(out, data.u16()?.into());
    match data.u16()? {
        // Not that of EDNS.
        16 => out.extend_from_slice(b"BADSIG"),
        code => iana::write_rcode(out, code),
    }
    for is_key in [true, false] {
        out.push(b' ');
        let len = data.u16()?;
        digits::number(out, len.into());
        if len > 0 || (is_key && gaps) {
            out.push(b' ');
            style.base64(out, data.take(len.into())?);
        }
    }
    Some(())
}

/// draft-durand-doa-over-dns.
fn doa<S: Style + ?Sized>(style: &S, out: &mut Vec<u8>, data: &mut Data<'_>) -> Option<()> {
    number(out, data.u32()?.into());
    number(out, data.u32()?.into());
    number(out, data.u8()?.into());
    let len = data.u8()?;
    out.push(b'"');
    write_text_escaped(out, data.take(len.into())?);
    out.extend_from_slice(b"\" ");
    match data.rest() {
        [] => out.push(b'-'),
        octets => style.base64(out, octets),
    }
    Some(())
}

/// RFC 8777, 4: precedence, discovery bit, kind of relay, relay.
fn amtrelay<S: Style + ?Sized>(style: &S, out: &mut Vec<u8>, data: &mut Data<'_>) -> Option<()> {
    let (precedence, kind) = (data.u8()?, data.u8()?);
    number(out, precedence.into());
    number(out, (kind >> 7).into());
    number(out, (kind & 0x7f).into());
    gateway(style, out, kind & 0x7f, data)
}
