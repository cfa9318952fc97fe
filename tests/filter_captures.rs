//! Filter expressions over the real servers' captures: each test against what our JSON says of the record, judged by code of
//! its own, and combinations of them against the truth of their parts; and how often judging allocates.

mod dnstap_support;

use std::net::IpAddr;

use allocation_counter::measure;
use dnstap_support::captured;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::Value;
use tapflow::dnstap::DnstapView;
use tapflow::fields::Subject;
use tapflow::filter::{Expression, Filter};
use tapflow::format::{Source, json};

/// What a test of an expression should say of a record, by its JSON; `None` where the JSON lacks the field.
type Naive = fn(&Value) -> Option<bool>;

fn text<'v>(record: &'v Value, pointer: &str) -> Option<&'v str> {
    record.pointer(pointer)?.as_str()
}

fn is(record: &Value, pointer: &str, wanted: &str) -> Option<bool> {
    Some(text(record, pointer)? == wanted)
}

fn number(record: &Value, pointer: &str) -> Option<f64> {
    record.pointer(pointer)?.as_f64()
}

fn flag(record: &Value, name: &str) -> Option<bool> {
    let flags = record.pointer("/dns/flags")?.as_array()?;
    Some(flags.iter().any(|flag| flag == name))
}

fn is_response(record: &Value) -> Option<bool> {
    Some(text(record, "/type")?.ends_with("_RESPONSE"))
}

/// The name in small letters with a dot in front, which every name below another one ends in.
fn dotted(record: &Value) -> Option<String> {
    Some(format!(".{}", text(record, "/dns/qname")?.to_lowercase()))
}

fn client(record: &Value) -> Option<IpAddr> {
    text(record, "/query_address")?.parse().ok()
}

fn rcode(record: &Value) -> Option<&str> {
    is_response(record)?.then_some(())?;
    text(record, "/dns/rcode")
}

const TESTS: &[(&str, Naive)] = &[
    ("type == CLIENT_QUERY", |r| is(r, "/type", "CLIENT_QUERY")),
    ("type ~ /_response$/", is_response),
    ("type in {RESOLVER_QUERY, 4, client_response}", |r| {
        Some(
            ["RESOLVER_QUERY", "RESOLVER_RESPONSE", "CLIENT_RESPONSE"].contains(&text(r, "/type")?),
        )
    }),
    ("identity ~ /^rig-(unbound|bind9)$/", |r| {
        Some(["rig-unbound", "rig-bind9"].contains(&text(r, "/identity")?))
    }),
    ("identity != rig-unbound", |r| {
        Some(text(r, "/identity")? != "rig-unbound")
    }),
    ("has latency", |r| Some(r.get("latency").is_some())),
    ("protocol == UDP", |r| is(r, "/protocol", "UDP")),
    ("protocol in {TCP, DOT, DOH, DOQ}", |r| {
        Some(["TCP", "DOT", "DOH", "DOQ"].contains(&text(r, "/protocol")?))
    }),
    ("family != INET", |r| Some(text(r, "/family")? != "INET")),
    ("client in 127.0.0.0/8", |r| match client(r)? {
        IpAddr::V4(address) => Some(address.octets()[0] == 127),
        IpAddr::V6(_) => Some(false),
    }),
    ("client in {::1, 127.0.3.0/29}", |r| match client(r)? {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            Some([a, b, c] == [127, 0, 3] && d < 8)
        }
        IpAddr::V6(address) => Some(address.is_loopback()),
    }),
    ("client != 127.0.0.1", |r| {
        Some(client(r)? != IpAddr::from([127, 0, 0, 1]))
    }),
    ("query_port >= 30000", |r| {
        Some(number(r, "/query_port")? >= 30_000.0)
    }),
    ("response_port in {53, 5300, 5312}", |r| {
        Some([53.0, 5300.0, 5312.0].contains(&number(r, "/response_port")?))
    }),
    ("latency > 500us", |r| Some(number(r, "/latency")? > 0.0005)),
    ("query_time >= 2026-11-30T22:29:03Z", |r| {
        Some(text(r, "/query_time")? >= "2026-11-30T22:29:03.000000000Z")
    }),
    ("has query_zone", |r| Some(r.get("query_zone").is_some())),
    ("qname within rig.example", |r| {
        Some(dotted(r)?.ends_with(".rig.example."))
    }),
    (
        "qname within {g.example, com, www.RIG.example, net, arpa, org}",
        |r| {
            let name = dotted(r)?;
            let ends = [
                ".g.example.",
                ".com.",
                ".www.rig.example.",
                ".net.",
                ".arpa.",
                ".org.",
            ];
            Some(ends.iter().any(|end| name.ends_with(end)))
        },
    ),
    ("qname == www.rig.example", |r| {
        Some(dotted(r)? == ".www.rig.example.")
    }),
    (
        "qname in {rig.example, www.rig.example, p.test, q.test, r.test}",
        |r| Some([".rig.example.", ".www.rig.example."].contains(&dotted(r)?.as_str())),
    ),
    ("qname ~ /^nx-[a-z0-9]+\\./", |r| {
        let name = text(r, "/dns/qname")?.to_lowercase();
        let Some(rest) = name.strip_prefix("nx-") else {
            return Some(false);
        };
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let end = rest.find(|c| !plain(c));
        Some(end.is_some_and(|end| end > 0 && rest[end..].starts_with('.')))
    }),
    ("qtype == AAAA", |r| is(r, "/dns/qtype", "AAAA")),
    ("qtype in {A, NS, TYPE6, DNSKEY}", |r| {
        Some(["A", "NS", "SOA", "DNSKEY"].contains(&text(r, "/dns/qtype")?))
    }),
    ("qclass == IN", |r| is(r, "/dns/qclass", "IN")),
    ("rcode == NXDOMAIN", |r| Some(rcode(r)? == "NXDOMAIN")),
    ("rcode in {SERVFAIL, REFUSED, FORMERR}", |r| {
        Some(["SERVFAIL", "REFUSED", "FORMERR"].contains(&rcode(r)?))
    }),
    ("opcode == QUERY", |r| is(r, "/dns/opcode", "QUERY")),
    ("tc", |r| flag(r, "tc")),
    ("aa", |r| flag(r, "aa")),
    ("rd", |r| flag(r, "rd")),
    ("do", |r| r.pointer("/dns/edns/do")?.as_bool()),
    ("edns_options == 10", |r| {
        let options = r.pointer("/dns/edns/options")?.as_array()?;
        Some(options.iter().any(|code| code == 10))
    }),
    ("udp_size < 1400", |r| {
        Some(number(r, "/dns/edns/udp_size")? < 1400.0)
    }),
    ("answers > 1", |r| Some(number(r, "/dns/counts/an")? > 1.0)),
    ("length >= 512", |r| {
        let size = match is_response(r)? {
            true => "/response_size",
            false => "/query_size",
        };
        Some(number(r, size)? >= 512.0)
    }),
];

/// Every record with the verdicts of the tests, a bit each.
fn judged(payloads: &[Vec<u8>]) -> Vec<(DnstapView<'_>, u64)> {
    let mut line = Vec::new();
    let mut judged = Vec::with_capacity(payloads.len());
    for payload in payloads {
        let view = DnstapView::parse(payload).unwrap();
        line.clear();
        if json::write(&mut line, &view, &Source::default()).is_err() {
            continue;
        }
        let record: Value = serde_json::from_slice(&line).unwrap();
        let verdicts = TESTS.iter().enumerate().map(|(i, (_, naive))| {
            // What the record does not say matches no test.
            u64::from(naive(&record).unwrap_or(false)) << i
        });
        judged.push((view, verdicts.sum()));
    }
    judged
}

/// A combination of tests: its text and what it should say, given the verdicts of the tests.
#[derive(Clone, Debug)]
enum Combined {
    Test(usize),
    Not(Box<Self>),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
}

impl Combined {
    fn text(&self) -> String {
        match self {
            Self::Test(i) => TESTS[*i].0.to_owned(),
            Self::Not(a) => format!("not ({})", a.text()),
            Self::And(a, b) => format!("({}) and ({})", a.text(), b.text()),
            Self::Or(a, b) => format!("({}) or ({})", a.text(), b.text()),
        }
    }

    fn truth(&self, verdicts: u64) -> bool {
        match self {
            Self::Test(i) => verdicts >> i & 1 == 1,
            Self::Not(a) => !a.truth(verdicts),
            Self::And(a, b) => a.truth(verdicts) && b.truth(verdicts),
            Self::Or(a, b) => a.truth(verdicts) || b.truth(verdicts),
        }
    }
}

fn combined() -> impl Strategy<Value = Combined> {
    (0..TESTS.len())
        .prop_map(Combined::Test)
        .prop_recursive(5, 24, 2, |inner| {
            let pair = (inner.clone(), inner.clone());
            prop_oneof![
                inner.prop_map(|a| Combined::Not(Box::new(a))),
                pair.clone()
                    .prop_map(|(a, b)| Combined::And(Box::new(a), Box::new(b))),
                pair.prop_map(|(a, b)| Combined::Or(Box::new(a), Box::new(b))),
            ]
        })
}

#[test]
fn expressions_say_of_every_captured_record_what_its_json_says() {
    let payloads = captured();
    let judged = judged(&payloads);
    assert!(judged.len() > 5000, "{}", judged.len());
    for (i, (expression, _)) in TESTS.iter().enumerate() {
        let mut filter: Filter = expression.parse().unwrap();
        let mut matched = 0;
        for (view, verdicts) in &judged {
            let got = filter.matches(&mut Subject::new(view));
            assert_eq!(got, verdicts >> i & 1 == 1, "{expression}: {view:?}");
            matched += usize::from(got);
        }
        assert!(
            matched > 0 && matched < judged.len(),
            "{expression} tells {matched} of {} records from the others",
            judged.len()
        );
    }
    // Always the same combinations: a failure is one tomorrow too.
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let config = Config {
        cases: 150,
        failure_persistence: None,
        ..Config::default()
    };
    let result = TestRunner::new_with_rng(config, rng).run(&combined(), |combined| {
        let expression: Expression = combined.text().parse().unwrap();
        let again: Expression = expression.to_string().parse().unwrap();
        let mut filters = [Filter::new(&expression), Filter::new(&again)];
        for (view, verdicts) in judged.iter().step_by(23) {
            for filter in &mut filters {
                let got = filter.matches(&mut Subject::new(view));
                prop_assert_eq!(got, combined.truth(*verdicts), "{}", combined.text());
            }
        }
        Ok(())
    });
    result.unwrap();
}

#[test]
fn no_record_allocates_once_the_scratch_space_has_grown() {
    let payloads = captured();
    let all: Vec<_> = TESTS.iter().map(|(test, _)| format!("({test})")).collect();
    let names: Vec<_> = (0..1000).map(|n| format!("n{n}.rig.example")).collect();
    for expression in [
        all.join(" or "),
        all.join(" and "),
        format!("not ({})", all.join(" and not ")),
        format!("qname within {{{}}}", names.join(", ")),
        "qname ~ /\\.rig\\./ and rdata ~ /127/ or flags == \"qr aa\"".to_owned(),
        "tag.site == x or extra ~ /x/ or cookie ~ /^00/ or malformed == x".to_owned(),
    ] {
        let mut filter: Filter = expression.parse().unwrap();
        let mut pass = || {
            payloads
                .iter()
                .filter(|payload| {
                    let view = DnstapView::parse(payload).unwrap();
                    filter.matches(&mut Subject::new(&view))
                })
                .count()
        };
        // The lazy automata of regular expressions grow as octets come that they have not seen.
        let first = pass();
        let mut second = 0;
        let measured = measure(|| second = pass());
        assert_eq!((measured.count_total, first), (0, second), "{expression}");
    }
}
