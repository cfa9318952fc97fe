//! Expressions on records made for it: what matches, what is refused and where.

use proptest::prelude::*;

use super::*;
use crate::dns::NameBuf;
use crate::dnstap::{DnstapView, Message};
use crate::fields::{Subject, specs};

/// A response NXDOMAIN from ns1 over TCP to 192.0.2.7 after 50 ms, for `WWW.Example.com` AAAA, with TC, RD and RA, EDNS and
/// a client subnet 198.51.100.0/24.
fn message() -> Vec<u8> {
    let mut dns = vec![0x12, 0x34, 0x83, 0x83, 0, 1, 0, 0, 0, 0, 0, 1];
    dns.extend_from_slice(NameBuf::parse("WWW.Example.com").unwrap().as_wire());
    dns.extend_from_slice(&[0, 28, 0, 1]);
    dns.extend_from_slice(&[0, 0, 41, 4, 0xd0, 0, 0, 0x80, 0, 0, 11]);
    dns.extend_from_slice(&[0, 8, 0, 7, 0, 1, 24, 0, 198, 51, 100]);
    dns
}

fn response(dns: &[u8]) -> DnstapView<'_> {
    DnstapView {
        identity: Some(b"ns1.example"),
        version: Some(b"a\"b\\\x00\xff"),
        extra: Some(b"free site=a%20b"),
        kind: Some(DnstapView::KIND_MESSAGE),
        message: Some(Message {
            kind: Some(6),
            socket_protocol: Some(2),
            query_address: Some(&[192, 0, 2, 7]),
            query_port: Some(5353),
            query_time_sec: Some(1_767_225_600),
            query_time_nsec: Some(0),
            response_time_sec: Some(1_767_225_600),
            response_time_nsec: Some(50_000_000),
            response_message: Some(dns),
            ..Message::default()
        }),
    }
}

fn matches(expression: &str, view: &DnstapView<'_>) -> bool {
    let mut filter: Filter = expression
        .parse()
        .unwrap_or_else(|error: FilterError| panic!("{expression}: {error}"));
    filter.matches(&mut Subject::new(view))
}

#[test]
fn a_record_matches_what_is_true_of_it() {
    let dns = message();
    let view = response(&dns);
    for (expression, want) in [
        ("type == CLIENT_RESPONSE", true),
        ("type == client_response", true),
        ("type == 6", true),
        ("type != CLIENT_RESPONSE", false),
        ("type in {CLIENT_QUERY, CLIENT_RESPONSE,}", true),
        ("type ~ /response$/", true),
        ("type !~ /response$/", false),
        ("protocol == TCP", true),
        ("qtype == AAAA", true),
        ("qtype==TYPE28", true),
        ("qtype in {A, MX}", false),
        ("rcode == NXDOMAIN", true),
        ("rcode in {SERVFAIL, NXDOMAIN}", true),
        ("qname == www.example.com", true),
        ("qname == WWW.EXAMPLE.COM.", true),
        (r"qname == \087ww.example.com", true),
        ("qname == \"www.example.com\"", true),
        ("qname == example.com", false),
        ("qname != example.com", true),
        ("qname in {a, b, c, d, e, www.example.com}", true),
        ("qname in {a, b, c, d, e, example.com}", false),
        ("qname within example.com", true),
        ("qname within www.example.com", true),
        ("qname within xample.com", false),
        ("qname within .", true),
        ("qname within {test, invalid, COM}", true),
        ("qname within {test, invalid, a, b, c, d, COM}", true),
        ("qname within {test, invalid, a, b, c, d, om}", false),
        (r"qname ~ /^www\.example\.com\.$/", true),
        (r"qname ~ /^www\.example\.com$/", false),
        ("qname ~ \"^WWW\"", true),
        ("client == 192.0.2.7", true),
        ("client == ::ffff:192.0.2.7", true),
        ("client in 192.0.2.0/24", true),
        ("client in {10.0.0.0/8, 2001:db8::/32}", false),
        ("client in {10.0.0.0/8, 192.0.0.0/16, 2001:db8::/32}", true),
        ("client != 192.0.2.8", true),
        ("query_port >= 5353 and query_port <= 5353", true),
        ("query_port > 5353 or query_port < 5353", false),
        ("query_port in {53, 5353}", true),
        ("latency == 50ms", true),
        ("latency > 49.999999ms", true),
        ("latency > 50ms", false),
        ("latency < 1s", true),
        ("length >= 12", true),
        ("timestamp >= 2026-01-01T00:00:00Z", true),
        ("timestamp == 2026-01-01T01:00:00.05+01:00", true),
        ("timestamp < 2026-01-01", false),
        ("query_time == 2026-01-01", true),
        ("identity == ns1.example", true),
        ("identity == NS1.example", false),
        ("identity ~ /^NS1/", false),
        ("identity ~ /^NS1/i", true),
        ("identity !~ /^ns2/", true),
        (r#"version == "a\"b\\\000\255""#, true),
        (r"version ~ /\x00\xff$/", true),
        ("identity in {a, b, c, d, e, f, ns1.example}", true),
        ("tag.site == \"a b\"", true),
        ("tag.site ~ /^a b$/", true),
        ("has tag.site", true),
        ("has tag.sit", false),
        ("tc", true),
        ("not tc", false),
        ("!tc or tc", true),
        ("aa", false),
        ("not aa", true),
        ("aa == false", true),
        ("aa != true", true),
        ("do and qr", true),
        ("has ecs", true),
        ("ecs == 198.51.100.0/24", true),
        ("ecs == 198.51.0.0/16", false),
        ("ecs in 198.51.0.0/16", true),
        ("ecs in 198.51.100.0/25", false),
        ("edns_options == 8", true),
        ("edns_options in {10, 15}", false),
        ("has cookie", false),
        ("flags ~ /tc/", true),
        ("flags == \"qr tc rd ra\"", true),
        ("has malformed", false),
        ("udp_size == 1232", true),
    ] {
        assert_eq!(matches(expression, &view), want, "{expression}");
        assert_eq!(matches(&format!("not ({expression})"), &view), !want);
    }
}

#[test]
fn no_test_of_an_absent_field_holds_and_not_turns_it_round() {
    let query = DnstapView {
        kind: Some(DnstapView::KIND_MESSAGE),
        message: Some(Message {
            kind: Some(5),
            ..Message::default()
        }),
        ..DnstapView::default()
    };
    let values = |name: &str| match name {
        "rcode" => "NXDOMAIN",
        "client" => "192.0.2.1",
        "latency" => "1s",
        "length" => "0",
        _ => "a.example",
    };
    for field in [
        "rcode", "qname", "client", "latency", "length", "identity", "tag.x",
    ] {
        for sign in ["==", "!="] {
            let test = format!("{field} {sign} {}", values(field));
            assert!(!matches(&test, &query), "{test}");
            assert!(matches(&format!("not {test}"), &query), "{test}");
        }
        assert!(matches(&format!("not has {field}"), &query));
    }
    for test in ["tc", "aa == false", "identity !~ /a/", "length >= 0"] {
        assert!(!matches(test, &query), "{test}");
    }
    assert!(matches("type == CLIENT_QUERY", &query));
}

#[test]
#[allow(
    clippy::nonminimal_bool,
    clippy::overly_complex_bool_expr,
    reason = "the same as the expression beside it"
)]
fn and_or_and_not_bind_and_nest_as_documented() {
    // Every combination of three flags against the truth computed beside.
    type Truth = fn(bool, bool, bool) -> bool;
    let rows: &[(&str, Truth)] = &[
        ("aa", |a, _, _| a),
        ("aa and tc or rd", |a, t, r| a && t || r),
        ("aa or tc and rd", |a, t, r| a || t && r),
        ("(aa or tc) and rd", |a, t, r| (a || t) && r),
        ("not aa and tc", |a, t, _| !a && t),
        ("not (aa and tc)", |a, t, _| !(a && t)),
        ("not (aa or not tc) or rd", |a, t, r| !(a || !t) || r),
        ("not not aa", |a, _, _| a),
        ("!!aa&&!tc||rd", |a, t, r| a && !t || r),
        ("aa and (tc or (rd and not aa))", |a, t, r| {
            a && (t || (r && !a))
        }),
        ("not (aa and (tc or rd)) and (rd or not tc)", |a, t, r| {
            !(a && (t || r)) && (r || !t)
        }),
        ("aa AND tc Or NOT rd", |a, t, r| a && t || !r),
        ("aa\n  and tc\n  and rd", |a, t, r| a && t && r),
    ];
    for (expression, truth) in rows {
        let parsed: Expression = expression.parse().unwrap();
        let shown = parsed.to_string();
        for bits in 0..8u8 {
            let (a, t, r) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
            let flags = u8::from(a) << 2 | u8::from(t) << 1 | u8::from(r);
            let dns = [0, 0, flags, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            let view = response(&dns);
            for text in [*expression, shown.as_str()] {
                assert_eq!(matches(text, &view), truth(a, t, r), "{text} {bits:03b}");
            }
        }
    }
}

#[test]
fn an_error_says_what_is_wrong_and_marks_the_place() {
    let deep = format!("{}tc", "(".repeat(NESTING_MAX + 1));
    let nots = format!("{}tc", "not ".repeat(NESTING_MAX + 1));
    let many = vec!["tc"; TESTS_MAX + 1].join(" or ");
    let long = " ".repeat(TEXT_MAX + 1);
    let nested = format!("identity ~ /{}a{}/", "(".repeat(60), ")".repeat(60));
    let pattern = format!("identity ~ /{}/", "a".repeat(PATTERN_MAX + 1));
    for (expression, marked, want) in [
        ("", "", "the expression is empty"),
        ("  ", "", "the expression is empty"),
        ("qnam == x", "qnam", "did you mean qname?"),
        ("qname = x", "=", "write =="),
        (
            "qname == ",
            "",
            "a value is missing (name), and here is the end",
        ),
        ("qname == a..b", "a..b", "empty label"),
        ("qname", "qname", "qname alone says nothing"),
        ("qname and tc", "qname", "or write has qname"),
        ("qname is x", "is", "\"is\" is no operator"),
        ("qname in example.com", "example.com", "qname within …"),
        ("qname in {}", "}", "a value is missing"),
        ("qname in {a b}", "b", "comes , or } after a value"),
        ("qname in {a", "", "comes , or }"),
        ("qname < a", "<", "< does not go with qname (name)"),
        ("qname not in {a}", "not", "not qname in"),
        ("qname == {a}", "{", "qname in {…}"),
        ("qtype == AAAAA", "AAAAA", "did you mean AAAA?"),
        ("qtype == 65536", "65536", "up to 65535"),
        ("qtype within A", "within", "does not go with qtype (word)"),
        (
            "rcode in {NXDOMAIN, NXDOMIAN}",
            "NXDOMIAN",
            "did you mean NXDOMAIN?",
        ),
        ("latency > 50", "50", "has no unit"),
        ("latency ~ /a/", "~", "does not go with latency"),
        ("latency in {1s}", "in", "does not go with latency"),
        (
            "client == 192.0.2.0/24",
            "192.0.2.0/24",
            "write client in 192.0.2.0/24",
        ),
        (
            "client in 192.0.2.1/24",
            "192.0.2.1/24",
            "192.0.2.0/24 for the network",
        ),
        (
            "client within 192.0.2.0/24",
            "within",
            "it takes ==, != or in",
        ),
        ("timestamp > yesterday", "yesterday", "2026-01-31T12:00:00Z"),
        ("identity == 'ns1'", "'", "between quotation marks"),
        ("identity == \"ns1", "\"ns1", "none closes"),
        ("identity ~ /a(b/", "(", "unclosed group"),
        (
            r"identity ~ /é(?:\p{Greek})/",
            r"\p{Greek}",
            "no regular expression",
        ),
        ("identity ~ /a/x", "x", "i (letter case aside)"),
        ("identity ~ /a", "/a", "no slash ends it"),
        ("identity ~ a", "a", "between slashes"),
        (
            "identity ~ /(a{1000}){1000}/",
            "(a{1000}){1000}",
            "octets of memory",
        ),
        ("(tc", "(", "is not closed"),
        ("tc)", ")", "closes none"),
        ("tc and", "", "a test is missing"),
        ("and tc", "and", "before and a test is missing"),
        ("tc & rd", "&", "write &&"),
        ("tc rd", "rd", "\"rd\" is no operator"),
        ("(tc) rd", "rd", "comes and, or, or the end"),
        ("tc == maybe", "maybe", "neither true"),
        ("has", "", "the name of a field"),
        ("== x", "==", "a test begins with"),
        ("edns_options != 8", "!=", "== or in"),
        (&deep, "(", "more than 100"),
        (&nots, "not", "more than 100"),
        (&many, "tc", "at most 1000 tests"),
        (&long, "", "at most 1048576 octets"),
        (
            &pattern,
            &pattern[12..12 + PATTERN_MAX + 1],
            "at most 4096 octets",
        ),
        (&nested, &nested[12 + 40..12 + 81], "nest"),
    ] {
        let short: String = expression.chars().take(60).collect();
        let error = expression
            .parse::<Expression>()
            .err()
            .unwrap_or_else(|| panic!("{short}: is taken"));
        assert!(error.what.contains(want), "{short}: {error}");
        let got = expression.get(error.span.clone()).unwrap();
        assert_eq!(got, marked, "{short}: {error}");
    }
}

#[test]
fn what_is_shown_reads_back_as_the_same_and_is_in_one_form() {
    for (written, shown) in [
        ("((tc))", "tc"),
        ("!tc&&rd", "not tc and rd"),
        ("(tc and rd) or aa", "tc and rd or aa"),
        ("tc and (rd or aa)", "tc and (rd or aa)"),
        ("tc and (rd and aa)", "tc and (rd and aa)"),
        ("not (tc and rd)", "not (tc and rd)"),
        ("not (not tc)", "not not tc"),
        ("qname==A.b", "qname == A.b."),
        (r"qname == a\.b", r#"qname == "a\.b.""#),
        ("qname within x", "qname within {x.}"),
        ("qtype in {type28,a,}", "qtype in {AAAA, A}"),
        ("latency>=1500us", "latency >= 1500us"),
        ("latency>0s", "latency > 0s"),
        (
            "timestamp<2026-01-31",
            "timestamp < 2026-01-31T00:00:00.000000000Z",
        ),
        ("identity in {a, \"b c\"}", r#"identity in {"a", "b c"}"#),
        (r"identity ~ /a\/b/i", r"identity ~ /a\/b/i"),
        (r#"identity !~ "a/b""#, r#"identity !~ "a/b""#),
        ("client in 10.0.0.0/8", "client in {10.0.0.0/8}"),
        ("tc == true", "tc == 1"),
        ("cookie == \"\"", "cookie == \"\""),
        ("has tag.x", "has tag.x"),
    ] {
        let expression: Expression = written.parse().unwrap();
        assert_eq!(expression.to_string(), shown, "{written}");
        let again: Expression = shown.parse().unwrap();
        assert_eq!(again.to_string(), shown, "{written}");
    }
}

#[test]
fn every_field_can_be_asked_for() {
    let dns = message();
    let view = response(&dns);
    for spec in specs() {
        let has = format!("has {}", spec.name);
        let mut subject = Subject::new(&view);
        let field = crate::fields::Field::find(spec.name).unwrap();
        assert_eq!(matches(&has, &view), field.of(&mut subject).is_some());
    }
}

#[test]
fn only_what_is_reached_is_decoded() {
    let dns = message();
    let view = response(&dns);
    for (expression, dns_read, edns_read) in [
        ("type == CLIENT_RESPONSE", false, false),
        ("type == CLIENT_QUERY and qname == a", false, false),
        ("type == CLIENT_RESPONSE or do", false, false),
        ("qname == a and do", true, false),
        ("do", true, true),
    ] {
        let mut filter: Filter = expression.parse().unwrap();
        let mut subject = Subject::new(&view);
        filter.matches(&mut subject);
        let state = format!("{subject:?}");
        assert_eq!(!state.contains(" dns: None"), dns_read, "{expression}");
        assert_eq!(!state.contains(" edns: None"), edns_read, "{expression}");
    }
}

#[test]
fn ten_thousand_names_and_networks_cost_as_few_steps_as_one() {
    let names: Vec<String> = (0..10_000).map(|n| format!("n{n}.example")).collect();
    let nets: Vec<String> = (0..10_000)
        .map(|n| format!("10.{}.{}.0/25", n / 256, n % 256))
        .collect();
    let dns = message();
    let mut view = response(&dns);
    let started = std::time::Instant::now();
    let text = format!(
        "qname within {{{}}} or client in {{{}}}",
        names.join(", "),
        nets.join(", ")
    );
    let mut filter: Filter = text.parse().unwrap();
    for _ in 0..10_000 {
        assert!(!filter.matches(&mut Subject::new(&view)));
    }
    view.message.as_mut().unwrap().query_address = Some(&[10, 39, 15, 127]);
    assert!(filter.matches(&mut Subject::new(&view)));
    view.message.as_mut().unwrap().query_address = Some(&[10, 39, 15, 128]);
    assert!(!filter.matches(&mut Subject::new(&view)));
    // One by one these would be 200 million comparisons, minutes in a build without optimisation.
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

#[test]
fn the_deepest_that_is_allowed_fits_on_a_stack_of_256_kib() {
    let run = || {
        let dns = message();
        let view = response(&dns);
        let half = NESTING_MAX / 2;
        let deep = format!("{}tc{}", "not (".repeat(half), ")".repeat(half));
        assert!(matches(&deep, &view));
        let right = format!(
            "{}tc{}",
            "aa or (".repeat(NESTING_MAX),
            ")".repeat(NESTING_MAX)
        );
        assert!(matches(&right, &view));
        let expression: Expression = right.parse().unwrap();
        assert!(matches(&expression.to_string(), &view));
        let chain = vec!["aa"; TESTS_MAX - 1].join(" or ") + " or tc";
        assert!(matches(&chain, &view));
        // A group and its star are a level each.
        let nest = PATTERN_NESTING_MAX as usize / 2 - 1;
        let pattern = format!(
            "identity ~ /{}n|s{}/",
            "(?:".repeat(nest),
            ")*".repeat(nest)
        );
        assert!(matches(&pattern, &view));
    };
    let thread = std::thread::Builder::new().stack_size(256 * 1024);
    thread.spawn(run).unwrap().join().unwrap();
}

/// Text that is likely to be an expression, or nearly.
fn nearly() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "and",
            "or",
            "not",
            "!",
            "(",
            ")",
            "&&",
            "||",
            "has",
            "tc",
            "in",
            "within",
            "==",
            "!=",
            "<",
            ">=",
            "~",
            "!~",
            "{",
            "}",
            ",",
            "/a/",
            "/(a/i",
            "\"a b\\\"\"",
            "=",
            "&",
            "\n",
        ])
        .prop_map(str::to_owned),
        prop::sample::select(specs().iter().map(|spec| spec.name).collect::<Vec<_>>())
            .prop_map(str::to_owned),
        prop::sample::select(vec![
            "qname within {a.b, c}",
            "qtype == A",
            "client in 10.0.0.0/8",
            "latency > 1ms",
            "identity ~ /a|b/i",
            "tag.x == y",
            "rcode in {NOERROR, 3}",
            "timestamp < 2026-01-01",
            "length >= 512",
        ])
        .prop_map(str::to_owned),
        "[ -~]{0,6}",
        "\\PC{0,3}",
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.join(" "))
}

proptest! {
    #[test]
    fn no_octets_make_reading_an_expression_panic(octets in prop::collection::vec(any::<u8>(), 0..64)) {
        fuzz_expression(&octets);
    }

    #[test]
    fn what_is_nearly_an_expression_reads_back_from_its_own_text(text in nearly()) {
        fuzz_expression(text.as_bytes());
    }
}
