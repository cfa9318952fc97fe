//! EDNS: the OPT record and its options.

use crate::digits;
use crate::dns::{ClientSubnet, DnsError, Edns, EdnsOption, Malformed, iana};
use crate::format::json::message::malformed_key;
use crate::format::json::text::{bool_key, hex_key, number_key, octets_key, push_octets, quoted};

/// Flags of the OPT record other than DO, which must be zero (RFC 6891, 6.1.4).
const Z: u16 = 0x7fff;

/// The OPT record of `message`.
pub(super) fn write_edns(out: &mut Vec<u8>, edns: &Edns<'_>, message: &[u8]) {
    number_key(out, b",\"edns\":{\"version\":", edns.version.into());
    number_key(out, b",\"udp_size\":", edns.udp_size.into());
    bool_key(out, b",\"do\":", edns.do_bit);
    if edns.flags & Z != 0 {
        number_key(out, b",\"z\":", (edns.flags & Z).into());
    }
    out.extend_from_slice(b",\"options\":[");
    let mut before: &[u8] = b"";
    for (code, _) in edns.options() {
        number_key(out, before, code.into());
        before = b",";
    }
    out.push(b']');
    let mut at = 0;
    before = b",\"option_values\":[";
    for (code, data) in edns.options() {
        out.extend_from_slice(before);
        write_option(out, code, data, || offset_in(message, edns.options) + at);
        before = b",";
        at += 4 + data.len();
    }
    if before == b"," {
        out.push(b']');
    }
    if let Some(rest) = edns.options.get(at..).filter(|rest| !rest.is_empty()) {
        hex_key(out, b",\"rest\":", rest);
    }
    out.push(b'}');
}

/// Where `part`, which is a part of `message`, begins in it.
fn offset_in(message: &[u8], part: &[u8]) -> usize {
    part.as_ptr().addr().wrapping_sub(message.as_ptr().addr())
}

fn write_option(out: &mut Vec<u8>, code: u16, data: &[u8], offset: impl Fn() -> usize) {
    number_key(out, b"{\"code\":", code.into());
    if let Some(name) = iana::option_name(code) {
        out.extend_from_slice(b",\"name\":");
        quoted(out, name.as_bytes());
    }
    match EdnsOption::parse(code, data) {
        EdnsOption::Nsid(id) => octets_key(out, b",\"id\":", Some(id)),
        EdnsOption::ClientSubnet(subnet) => write_subnet(out, &subnet),
        EdnsOption::Expire(Some(seconds)) => number_key(out, b",\"seconds\":", seconds.into()),
        EdnsOption::Keepalive(Some(timeout)) => {
            number_key(out, b",\"timeout_ms\":", u64::from(timeout) * 100);
        }
        EdnsOption::Expire(None) | EdnsOption::Keepalive(None) => {}
        EdnsOption::Cookie { client, server } => {
            hex_key(out, b",\"client\":", client);
            if !server.is_empty() {
                hex_key(out, b",\"server\":", server);
            }
        }
        EdnsOption::Padding(len) => {
            number_key(out, b",\"length\":", len as u64);
            // Zeros are what it should be (RFC 7830, 3).
            if data.iter().any(|octet| *octet != 0) {
                hex_key(out, b",\"octets\":", data);
            }
        }
        EdnsOption::ExtendedError { code, text } => {
            number_key(out, b",\"info_code\":", code.into());
            if let Some(purpose) = iana::extended_error_name(code) {
                out.extend_from_slice(b",\"purpose\":");
                quoted(out, purpose.as_bytes());
            }
            if !text.is_empty() {
                out.extend_from_slice(b",\"text\":");
                push_octets(out, text);
            }
        }
        EdnsOption::Other(octets) => hex_key(out, b",\"octets\":", octets),
        EdnsOption::Malformed(octets) => {
            hex_key(out, b",\"octets\":", octets);
            let error = DnsError {
                reason: Malformed::EdnsOption,
                offset: offset(),
            };
            malformed_key(out, b",\"malformed\":", error);
        }
    }
    out.push(b'}');
}

fn write_subnet(out: &mut Vec<u8>, subnet: &ClientSubnet<'_>) {
    number_key(out, b",\"family\":", subnet.family.into());
    number_key(out, b",\"source_prefix\":", subnet.source_prefix.into());
    number_key(out, b",\"scope_prefix\":", subnet.scope_prefix.into());
    match subnet.ip() {
        Some(address) => {
            out.extend_from_slice(b",\"address\":\"");
            digits::ip(out, address);
            out.push(b'"');
        }
        None if subnet.address.is_empty() => {}
        None => hex_key(out, b",\"octets\":", subnet.address),
    }
}
