//! Entry for fuzzing and property tests: the view against prost on the same bytes.

use prost::Message as _;

use crate::dnstap::pb;
use crate::dnstap::view::{DnstapView, Message, Policy};

/// Decodes `payload` with [`DnstapView`] and with prost and panics when they disagree; then calls every
/// accessor. For fuzz targets and tests.
#[doc(hidden)]
pub fn fuzz_view(payload: &[u8]) {
    let view = DnstapView::parse(payload);
    let typed = pb::Dnstap::decode(payload);
    match (&view, &typed) {
        (Ok(view), Ok(typed)) => assert_eq!(to_typed(view), *typed, "fields differ"),
        (Err(_), Err(_)) => return,
        _ => panic!("the view says {view:?}, prost says {typed:?}"),
    }
    let Ok(view) = view else { return };
    let _ = view.classify().map_err(|reason| reason.as_str());
    let Some(message) = view.message else { return };
    let _ = (
        message.query_ip(),
        message.response_ip(),
        message.client_ip(),
        message.zone(),
    );
    let _ = (
        message.query_time(),
        message.response_time(),
        message.time(),
        message.latency(),
    );
    let _ = (
        message.dns(),
        message.protocol(),
        message.family(),
        message.http(),
    );
    message
        .oddities()
        .iter()
        .for_each(|oddity| assert!(!oddity.as_str().is_empty()));
    let mut again = Vec::new();
    crate::dnstap::build::write(&mut again, &view);
    assert_eq!(
        DnstapView::parse(&again),
        Ok(view),
        "what is written reads back the same"
    );
}

/// The view as the typed model.
pub(crate) fn to_typed(view: &DnstapView<'_>) -> pb::Dnstap {
    let own = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
    let policy = |policy: Policy<'_>| pb::Policy {
        r#type: own(policy.kind),
        rule: own(policy.rule),
        action: policy.action,
        r#match: policy.matched,
        value: own(policy.value),
    };
    let message = |message: Message<'_>| pb::Message {
        r#type: message.kind,
        socket_family: message.socket_family,
        socket_protocol: message.socket_protocol,
        query_address: own(message.query_address),
        response_address: own(message.response_address),
        query_port: message.query_port,
        response_port: message.response_port,
        query_time_sec: message.query_time_sec,
        query_time_nsec: message.query_time_nsec,
        query_message: own(message.query_message),
        query_zone: own(message.query_zone),
        response_time_sec: message.response_time_sec,
        response_time_nsec: message.response_time_nsec,
        response_message: own(message.response_message),
        policy: message.policy.map(policy),
        http_protocol: message.http_protocol,
    };
    pb::Dnstap {
        identity: own(view.identity),
        version: own(view.version),
        extra: own(view.extra),
        message: view.message.map(message),
        r#type: view.kind,
    }
}
