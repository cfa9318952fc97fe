//! Writes dnstap payloads, for conversion from packet captures and for load generation.
//!
//! What to write is a [`DnstapView`]: the same borrowed fields, filled in by the caller. Fields go out in the
//! order of their numbers, as libprotobuf-c based senders write them, and only where they are present.

use crate::dnstap::protobuf::{BYTES, FIXED32, VARINT};
use crate::dnstap::view::{DnstapView, Message, Policy};

/// Appends `view` to `out` as one dnstap payload, without a Frame Streams length. Allocates only to grow `out`.
pub fn write(out: &mut Vec<u8>, view: &DnstapView<'_>) {
    put_bytes(out, 1, view.identity);
    put_bytes(out, 2, view.version);
    put_bytes(out, 3, view.extra);
    if let Some(message) = &view.message {
        put_varint(out, key(14, BYTES));
        put_varint(out, message_len(message) as u64);
        write_message(out, message);
    }
    put_enum(out, 15, view.kind);
}

/// The octets [`write()`] appends for `view`, so that a frame's length can be written before it.
pub fn encoded_len(view: &DnstapView<'_>) -> usize {
    let message = view.message.as_ref().map_or(0, |message| {
        let len = message_len(message);
        1 + varint_len(len as u64) + len
    });
    bytes_len(1, view.identity)
        + bytes_len(2, view.version)
        + bytes_len(3, view.extra)
        + message
        + enum_len(15, view.kind)
}

fn write_message(out: &mut Vec<u8>, message: &Message<'_>) {
    put_enum(out, 1, message.kind);
    put_enum(out, 2, message.socket_family);
    put_enum(out, 3, message.socket_protocol);
    put_bytes(out, 4, message.query_address);
    put_bytes(out, 5, message.response_address);
    put_number(out, 6, message.query_port.map(u64::from));
    put_number(out, 7, message.response_port.map(u64::from));
    put_number(out, 8, message.query_time_sec);
    put_fixed32(out, 9, message.query_time_nsec);
    put_bytes(out, 10, message.query_message);
    put_bytes(out, 11, message.query_zone);
    put_number(out, 12, message.response_time_sec);
    put_fixed32(out, 13, message.response_time_nsec);
    put_bytes(out, 14, message.response_message);
    if let Some(policy) = &message.policy {
        put_varint(out, key(15, BYTES));
        put_varint(out, policy_len(policy) as u64);
        put_bytes(out, 1, policy.kind);
        put_bytes(out, 2, policy.rule);
        put_enum(out, 3, policy.action);
        put_enum(out, 4, policy.matched);
        put_bytes(out, 5, policy.value);
    }
    put_enum(out, 16, message.http_protocol);
}

fn message_len(message: &Message<'_>) -> usize {
    let policy = message.policy.as_ref().map_or(0, |policy| {
        let len = policy_len(policy);
        1 + varint_len(len as u64) + len
    });
    enum_len(1, message.kind)
        + enum_len(2, message.socket_family)
        + enum_len(3, message.socket_protocol)
        + bytes_len(4, message.query_address)
        + bytes_len(5, message.response_address)
        + number_len(6, message.query_port.map(u64::from))
        + number_len(7, message.response_port.map(u64::from))
        + number_len(8, message.query_time_sec)
        + message.query_time_nsec.map_or(0, |_| 5)
        + bytes_len(10, message.query_message)
        + bytes_len(11, message.query_zone)
        + number_len(12, message.response_time_sec)
        + message.response_time_nsec.map_or(0, |_| 5)
        + bytes_len(14, message.response_message)
        + policy
        + enum_len(16, message.http_protocol)
}

fn policy_len(policy: &Policy<'_>) -> usize {
    bytes_len(1, policy.kind)
        + bytes_len(2, policy.rule)
        + enum_len(3, policy.action)
        + enum_len(4, policy.matched)
        + bytes_len(5, policy.value)
}

const fn key(number: u32, wire_type: u8) -> u64 {
    (number << 3) as u64 | wire_type as u64
}

fn key_len(number: u32) -> usize {
    varint_len(key(number, 0))
}

fn varint_len(value: u64) -> usize {
    (value | 1).ilog2() as usize / 7 + 1
}

fn bytes_len(number: u32, octets: Option<&[u8]>) -> usize {
    octets.map_or(0, |octets| {
        key_len(number) + varint_len(octets.len() as u64) + octets.len()
    })
}

fn number_len(number: u32, value: Option<u64>) -> usize {
    value.map_or(0, |value| key_len(number) + varint_len(value))
}

fn enum_len(number: u32, value: Option<i32>) -> usize {
    number_len(number, value.map(sign_extended))
}

/// A negative enum number is written as its 64-bit two's complement, in ten octets.
fn sign_extended(value: i32) -> u64 {
    i64::from(value).cast_unsigned()
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_number(out: &mut Vec<u8>, number: u32, value: Option<u64>) {
    if let Some(value) = value {
        put_varint(out, key(number, VARINT));
        put_varint(out, value);
    }
}

fn put_enum(out: &mut Vec<u8>, number: u32, value: Option<i32>) {
    put_number(out, number, value.map(sign_extended));
}

fn put_fixed32(out: &mut Vec<u8>, number: u32, value: Option<u32>) {
    if let Some(value) = value {
        put_varint(out, key(number, FIXED32));
        out.extend_from_slice(&value.to_le_bytes());
    }
}

fn put_bytes(out: &mut Vec<u8>, number: u32, octets: Option<&[u8]>) {
    if let Some(octets) = octets {
        put_varint(out, key(number, BYTES));
        put_varint(out, octets.len() as u64);
        out.extend_from_slice(octets);
    }
}
