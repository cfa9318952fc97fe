//! What changes payloads and DNS messages, over every capture and over octets of any kind.

#[path = "dnstap_support/mod.rs"]
mod support;

use proptest::prelude::*;
use tapflow::dns::DnsView;
use tapflow::dns::edit::{Sections, client_subnets, lower_case, without};
use tapflow::dnstap::DnstapView;
use tapflow::dnstap::edit::{Edit, Field, Fields, Settable};

/// Every combination of sections.
fn sections() -> impl Iterator<Item = Sections> {
    (0u8..8).map(|bits| Sections {
        answer: bits & 1 != 0,
        authority: bits & 2 != 0,
        additional: bits & 4 != 0,
    })
}

fn messages() -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    for payload in support::captured() {
        let view = DnstapView::parse(&payload).expect("dnstap");
        let Some(message) = view.message else {
            continue;
        };
        let both = [message.query_message, message.response_message];
        messages.extend(both.into_iter().flatten().map(<[u8]>::to_vec));
    }
    assert!(messages.len() > 500, "{}", messages.len());
    messages
}

#[test]
fn captured_payloads_come_out_as_they_went_in_but_for_what_was_changed() {
    for payload in support::captured() {
        let mut out = Vec::new();
        Edit::default().write(&payload, &mut out).expect("dnstap");
        assert_eq!(out, payload);
        let before = DnstapView::parse(&payload).expect("dnstap");
        let mut edit = Edit::default();
        edit.remove(Fields::default().with(Field::QueryPort));
        edit.set(Settable::Extra, b"tag=1");
        out.clear();
        edit.write(&payload, &mut out).expect("dnstap");
        let mut want = before;
        want.extra = Some(b"tag=1");
        if let Some(message) = &mut want.message {
            message.query_port = None;
        }
        assert_eq!(DnstapView::parse(&out), Ok(want));
    }
}

#[test]
fn captured_messages_stay_well_formed_and_say_the_same_of_what_stays() {
    for message in messages() {
        let Ok(view) = DnsView::parse(&message) else {
            continue;
        };
        let before = view.walk();
        let mut small = message.clone();
        lower_case(&mut small);
        assert!(small.eq_ignore_ascii_case(&message));
        let small_view = DnsView::parse(&small).expect("a header");
        assert_eq!(small_view.walk().malformed, before.malformed);
        for question in small_view.questions() {
            assert!(
                !question
                    .name
                    .to_string()
                    .bytes()
                    .any(|o| o.is_ascii_uppercase())
            );
        }
        if before.malformed.is_some() {
            continue;
        }
        for sections in sections() {
            let mut out = Vec::new();
            if !without(&message, sections, &mut out) {
                continue;
            }
            let after = DnsView::parse(&out).expect("a header");
            let walk = after.walk();
            assert_eq!(walk.malformed, None, "{sections:?} {message:02x?}");
            assert_eq!(walk.edns, before.edns);
            let stays = |record: &tapflow::dns::Record<'_>| match record.section {
                tapflow::dns::Section::Answer => !sections.answer,
                tapflow::dns::Section::Authority => !sections.authority,
                tapflow::dns::Section::Additional => !sections.additional || record.rtype == 41,
            };
            let shown = |view: &DnsView<'_>, stays: &dyn Fn(&tapflow::dns::Record<'_>) -> bool| {
                view.records()
                    .filter(|record| stays(record))
                    .map(|r| (r.owner.to_string(), r.rtype, r.class, r.ttl, r.section))
                    .collect::<Vec<_>>()
            };
            assert_eq!(shown(&after, &|_| true), shown(&view, &stays));
        }
    }
}

proptest! {
    #[test]
    fn octets_of_any_kind_are_edited_as_far_as_they_are_dnstap(
        octets in proptest::collection::vec(any::<u8>(), 0..80),
        value in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut out = Vec::new();
        let copied = Edit::default().write(&octets, &mut out).is_ok();
        if copied {
            prop_assert_eq!(&out, &octets);
        }
        if let Ok(before) = DnstapView::parse(&octets) {
            prop_assert!(copied);
            let mut edit = Edit::default();
            edit.set(Settable::QueryMessage, &value);
            out.clear();
            edit.write(&octets, &mut out).expect("dnstap");
            let mut want = before;
            if let Some(message) = &mut want.message {
                message.query_message = Some(&value);
            }
            prop_assert_eq!(DnstapView::parse(&out), Ok(want));
        }
    }

    #[test]
    fn messages_of_any_octets_are_changed_without_a_panic_and_in_bounded_space(
        tail in proptest::collection::vec(prop_oneof![any::<u8>(), 0u8..4, Just(0xc0), Just(12)], 0..200),
        counts in any::<[u8; 4]>(),
    ) {
        let [q, a, n, r] = counts.map(|count| count % 4);
        let head = [1, 2, 0x81, 0x80, 0, q, 0, a, 0, n, 0, r];
        let message = [&head[..], &tail].concat();
        for sections in sections() {
            let mut out = Vec::new();
            if without(&message, sections, &mut out) {
                // Each record may hold three names that were pointers.
                prop_assert!(out.len() <= message.len() + 9 * 3 * 255);
                prop_assert!(DnsView::parse(&out).is_ok());
            }
        }
        let mut changed = message.clone();
        lower_case(&mut changed);
        prop_assert!(changed.eq_ignore_ascii_case(&message));
        client_subnets(&mut changed, |_, _, address| address.fill(0));
        prop_assert_eq!(changed.len(), message.len());
    }
}
