//! What is around the DNS message: the fields of dnstap, and how the frame came to us.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::digits;
use crate::dns::Name;
use crate::dnstap::{DnstapView, Message, Oddities, Policy, PolicyAction, PolicyMatch, Timestamp};
use crate::format::Source;
use crate::format::json::text::{
    close_without_first_comma, hex_key, name_or_number, number_key, octets_key, push_name,
    push_time, quoted,
};

/// Everything up to the policy, the opening brace included.
pub(super) fn write_head(out: &mut Vec<u8>, view: &DnstapView<'_>, message: &Message<'_>) {
    out.extend_from_slice(b"{\"type\":");
    let kind = message.message_type();
    name_or_number(out, kind.name(), kind.number());
    octets_key(out, b",\"identity\":", view.identity);
    octets_key(out, b",\"version\":", view.version);
    octets_key(out, b",\"extra\":", view.extra);
    write_transport(out, message);
    write_times(out, message);
    write_zone(out, message);
    if let Some(octets) = message.query_message {
        number_key(out, b",\"query_size\":", octets.len() as u64);
    }
    if let Some(octets) = message.response_message {
        number_key(out, b",\"response_size\":", octets.len() as u64);
    }
    if let Some(policy) = &message.policy {
        write_policy(out, policy);
    }
}

fn write_transport(out: &mut Vec<u8>, message: &Message<'_>) {
    if let Some(family) = message.family() {
        out.extend_from_slice(b",\"family\":");
        name_or_number(out, family.name(), family.number());
    }
    if let Some(protocol) = message.protocol() {
        out.extend_from_slice(b",\"protocol\":");
        name_or_number(out, protocol.name(), protocol.number());
    }
    if let Some(http) = message.http() {
        out.extend_from_slice(b",\"http_protocol\":");
        name_or_number(out, http.name(), http.number());
    }
    if let Some(octets) = message.query_address {
        match message.query_ip() {
            Some(address) => {
                out.extend_from_slice(b",\"query_address\":\"");
                digits::ip(out, address);
                out.push(b'"');
            }
            None => odd_octets(out, b",\"query_address_octets\":", octets),
        }
    }
    if let Some(port) = message.query_port {
        number_key(out, b",\"query_port\":", port.into());
    }
    if let Some(octets) = message.response_address {
        match message.response_ip() {
            Some(address) => {
                out.extend_from_slice(b",\"response_address\":\"");
                digits::ip(out, address);
                out.push(b'"');
            }
            None => odd_octets(out, b",\"response_address_octets\":", octets),
        }
    }
    if let Some(port) = message.response_port {
        number_key(out, b",\"response_port\":", port.into());
    }
}

/// What is not the value its field should hold, unless it is empty.
fn odd_octets(out: &mut Vec<u8>, key: &[u8], octets: &[u8]) {
    if !octets.is_empty() {
        hex_key(out, key, octets);
    }
}

fn write_times(out: &mut Vec<u8>, message: &Message<'_>) {
    time_key(
        out,
        b",\"query_time\":",
        message.query_time_sec,
        message.query_time_nsec,
    );
    time_key(
        out,
        b",\"response_time\":",
        message.response_time_sec,
        message.response_time_nsec,
    );
    if let Some(latency) = message.latency() {
        number_key(out, b",\"latency\":", latency.as_secs());
        out.push(b'.');
        digits::nanos(out, latency.subsec_nanos());
    }
}

fn time_key(out: &mut Vec<u8>, key: &[u8], seconds: Option<u64>, nanos: Option<u32>) {
    let Some(seconds) = seconds else {
        if let Some(nanos) = nanos {
            out.extend_from_slice(key);
            number_key(out, b"{\"nanos\":", nanos.into());
            out.push(b'}');
        }
        return;
    };
    let nanos = nanos.unwrap_or(0);
    let time = Timestamp { seconds, nanos };
    out.extend_from_slice(key);
    if time.is_sane() {
        out.push(b'"');
        push_time(out, time);
        out.push(b'"');
    } else {
        number_key(out, b"{\"seconds\":", seconds);
        number_key(out, b",\"nanos\":", nanos.into());
        out.push(b'}');
    }
}

fn write_zone(out: &mut Vec<u8>, message: &Message<'_>) {
    let Some(octets) = message.query_zone else {
        return;
    };
    match message.zone().and_then(Name::from_wire) {
        Some(zone) => {
            out.extend_from_slice(b",\"query_zone\":");
            push_name(out, &zone);
        }
        None => odd_octets(out, b",\"query_zone_octets\":", octets),
    }
}

fn write_policy(out: &mut Vec<u8>, policy: &Policy<'_>) {
    out.extend_from_slice(b",\"policy\":{");
    let start = out.len();
    octets_key(out, b",\"type\":", policy.kind);
    octets_key(out, b",\"rule\":", policy.rule);
    if let Some(action) = policy.action.map(PolicyAction::from_number) {
        out.extend_from_slice(b",\"action\":");
        name_or_number(out, action.name(), action.number());
    }
    if let Some(matched) = policy.matched.map(PolicyMatch::from_number) {
        out.extend_from_slice(b",\"match\":");
        name_or_number(out, matched.name(), matched.number());
    }
    octets_key(out, b",\"value\":", policy.value);
    close_without_first_comma(out, start, b'}');
}

pub(super) fn write_odd(out: &mut Vec<u8>, odd: Oddities) {
    if odd.is_empty() {
        return;
    }
    out.extend_from_slice(b",\"odd\":[");
    let start = out.len();
    for oddity in odd.iter() {
        out.push(b',');
        quoted(out, oddity.as_str().as_bytes());
    }
    close_without_first_comma(out, start, b']');
}

pub(super) fn write_source(out: &mut Vec<u8>, source: &Source<'_>) {
    let received = source.received.and_then(since_epoch);
    if received.is_none() && source.listener.is_empty() && source.peer.is_empty() {
        return;
    }
    out.extend_from_slice(b",\"source\":{");
    let start = out.len();
    if let Some(time) = received {
        time_key(out, b",\"received\":", Some(time.seconds), Some(time.nanos));
    }
    for (key, text) in [
        (&b",\"listener\":"[..], source.listener),
        (b",\"peer\":", source.peer),
    ] {
        octets_key(
            out,
            key,
            Some(text.as_bytes()).filter(|text| !text.is_empty()),
        );
    }
    close_without_first_comma(out, start, b'}');
}

fn since_epoch(time: SystemTime) -> Option<Timestamp> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp {
        seconds: since.as_secs(),
        nanos: since.subsec_nanos(),
    })
}
