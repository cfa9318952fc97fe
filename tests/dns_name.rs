//! Domain names: text and back, and suffixes.

use proptest::prelude::*;
use tapflow::dns::{Name, NameBuf, NameTextError};

fn text_of(wire: &[u8]) -> String {
    Name::from_wire(wire).expect("a name").to_string()
}

fn name(text: &str) -> NameBuf {
    NameBuf::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn every_octet_has_binds_form_and_reads_back() {
    for octet in 0..=255u8 {
        let wire = [1, octet, 0];
        let wanted = match octet {
            b'"' | b'$' | b'(' | b')' | b'.' | b';' | b'@' | b'\\' => {
                format!("\\{}.", char::from(octet))
            }
            33..=126 => format!("{}.", char::from(octet)),
            _ => format!("\\{octet:03}."),
        };
        assert_eq!(text_of(&wire), wanted);
        assert_eq!(name(&wanted).as_wire(), wire);
    }
}

#[test]
fn the_final_dot_may_be_left_out_and_the_root_is_a_dot() {
    assert_eq!(name("www.example"), name("www.example."));
    assert_eq!(name(".").as_wire(), [0]);
    assert_eq!(name(".").to_string(), ".");
    assert_eq!(name("b\u{fc}cher.").to_string(), "b\\195\\188cher.");
}

#[test]
fn text_that_is_no_name_is_refused_with_its_reason() {
    let (label, long) = ("a".repeat(64), "a.".repeat(128));
    let rows = [
        ("", NameTextError::EmptyLabel),
        ("..", NameTextError::EmptyLabel),
        (".a", NameTextError::EmptyLabel),
        ("a..b", NameTextError::EmptyLabel),
        ("a\\", NameTextError::Escape),
        ("a\\1", NameTextError::Escape),
        ("a\\12x", NameTextError::Escape),
        ("a\\256", NameTextError::Escape),
        (&label, NameTextError::LabelTooLong),
        (&long, NameTextError::NameTooLong),
    ];
    for (text, error) in rows {
        assert_eq!(NameBuf::parse(text), Err(error), "{text:?}");
    }
    assert_eq!(name(&"a.".repeat(127)).as_wire().len(), 255);
}

#[test]
fn suffixes_match_whole_labels_in_any_letter_case() {
    let rows = [
        ("www.example.com.", "example.com", true),
        ("www.example.com.", "EXAMPLE.com.", true),
        ("example.com.", "example.com.", true),
        ("anexample.com.", "example.com.", false),
        ("example.com.evil.", "example.com.", false),
        ("com.", "example.com.", false),
        ("www.example.com.", ".", true),
        (".", ".", true),
        (".", "com.", false),
        // Octets that look like a label boundary inside a label are none.
        ("www\\.example.com.", "example.com.", false),
        ("a\\007example\\003com.", "example.com.", false),
        ("\\200.com.", "\\200.com.", true),
        // Folding is for letters only: `@` and `` ` `` are 32 apart as well.
        ("\\@.com.", "`.com.", false),
    ];
    for (text, suffix, wanted) in rows {
        assert_eq!(
            name(text).as_name().is_within(&name(suffix)),
            wanted,
            "{text} within {suffix}"
        );
    }
}

#[test]
fn a_compressed_name_reads_as_the_name_it_stands_for() {
    // At 12 `example.com.`, at 25 `www` and a pointer to 12, at 31 a pointer to 25.
    let mut message = vec![0; 12];
    message.extend(name("example.com.").as_wire());
    message.extend(b"\x03www\xc0\x0c\xc0\x19");
    let whole = name("www.example.com.");
    for (offset, end) in [(25, 31), (31, 33)] {
        let (found, after) = Name::parse(&message, offset).unwrap();
        assert_eq!((after, found.wire_len()), (end, 17));
        assert_eq!((found.as_wire(), found.to_buf()), (None, whole.clone()));
        assert_eq!(found.to_string(), "www.example.com.");
        assert!(found == whole.as_name() && found.eq_fold(&name("WWW.Example.COM").as_name()));
        assert!(found.is_within(&name("EXAMPLE.com")) && !found.is_within(&name("ample.com")));
        assert!(!found.is_within(&name("a.www.example.com")));
    }
}

fn labels() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let label = prop_oneof![
        proptest::collection::vec(any::<u8>(), 1..16),
        proptest::collection::vec(
            prop_oneof![Just(b'.'), Just(b'\\'), Just(b'0'), any::<u8>()],
            1..64
        ),
    ];
    proptest::collection::vec(label, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_name_reads_back_from_its_text(labels in labels()) {
        let mut wire: Vec<u8> = labels.iter().flat_map(|label| [&[label.len() as u8], &label[..]].concat()).collect();
        wire.push(0);
        match Name::from_wire(&wire) {
            Some(found) => {
                prop_assert!(wire.len() <= 255);
                let text = found.to_string();
                prop_assert!(text.bytes().all(|octet| (33..127).contains(&octet)));
                let again = name(&text);
                prop_assert_eq!(again.as_wire(), &wire[..]);
                prop_assert!(found.labels().eq(labels.iter().map(|label| &label[..])));
                // Every tail of the labels is a suffix.
                let mut at = 0;
                for label in &labels {
                    let tail = Name::from_wire(&wire[at..]).unwrap().to_buf();
                    prop_assert!(found.is_within(&tail));
                    at += 1 + label.len();
                }
            }
            None => prop_assert!(wire.len() > 255),
        }
    }

    #[test]
    fn any_text_is_a_name_or_an_error(text: String) {
        if let Ok(found) = NameBuf::parse(&text) {
            prop_assert_eq!(name(&found.to_string()), found);
        }
    }
}
