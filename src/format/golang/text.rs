//! Text from the wire that goes into a line, made fit for one.

use crate::dns::name::decimal_digits;

/// Appends text as it is where it is UTF-8 that moves no cursor and ends no line; every other octet as `\ddd`.
pub(super) fn write_safe(out: &mut Vec<u8>, octets: &[u8]) {
    for chunk in octets.utf8_chunks() {
        for c in chunk.valid().chars() {
            let mut room = [0; 4];
            let octets = c.encode_utf8(&mut room).as_bytes();
            if is_safe(c) {
                out.extend_from_slice(octets);
            } else {
                write_decimal(out, octets);
            }
        }
        write_decimal(out, chunk.invalid());
    }
}

/// Appends an octet as the character of Latin-1 that it would be, as `\ddd` where that is a control character.
pub(super) fn write_latin(out: &mut Vec<u8>, octet: u8) {
    let c = char::from(octet);
    if is_safe(c) {
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    } else {
        write_decimal(out, &[octet]);
    }
}

/// Appends each octet as `\ddd`.
fn write_decimal(out: &mut Vec<u8>, octets: &[u8]) {
    for octet in octets {
        out.push(b'\\');
        out.extend_from_slice(&decimal_digits(*octet));
    }
}

/// Whether a character may stand in a line of text, and in YAML (YAML 1.2, 5.1).
fn is_safe(c: char) -> bool {
    !c.is_control()
        && !matches!(
            c,
            '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
        )
}
