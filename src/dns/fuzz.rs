//! Entry for fuzzing and property tests: everything this module does, on one message.

use crate::dns::name::NameBuf;
use crate::dns::question::DnsView;

/// Reads `message` in every way there is, and panics when two ways disagree. For fuzz targets and tests.
#[doc(hidden)]
pub fn fuzz_message(message: &[u8]) {
    let Ok(view) = DnsView::parse(message) else {
        return assert!(message.len() < 12);
    };
    let (walk, edns) = (view.walk(), view.edns());
    if walk.edns.is_some() {
        assert_eq!(walk.edns, edns, "both ways to the OPT record find the same");
    }
    assert!(view.rcode() < 1 << 12);
    assert!(
        walk.malformed
            .is_none_or(|error| error.offset <= message.len())
    );
    match view.question() {
        Ok(Some(question)) => {
            assert!(walk.questions > 0);
            let name = question.name;
            let (mut text, mut wire) = (Vec::new(), Vec::new());
            name.write_text(&mut text);
            name.write_wire(&mut wire);
            assert_eq!(wire.len(), name.wire_len());
            assert!(text.is_ascii() && text.iter().all(|octet| (33..127).contains(octet)));
            let again = NameBuf::parse_octets(&text).expect("text parses back");
            assert_eq!(again.as_wire(), wire, "text parses back to the same octets");
            assert!(
                name.is_within(&again) && name.eq_fold(&again.as_name()) && name == again.as_name()
            );
        }
        Ok(None) => assert_eq!(view.header().questions, 0),
        Err(error) => assert_eq!(walk.malformed, Some(error)),
    }
    if let Some(edns) = edns {
        let octets: usize = edns.options().map(|(_, data)| 4 + data.len()).sum();
        assert!(octets <= edns.options.len());
        assert!(
            edns.malformed_option()
                .is_none_or(|at| at <= edns.options.len())
        );
    }
}
