//! Stages: their order, and what filters ask for.

use super::{Unread, host_bits, transforms};
use crate::config::Config;
use crate::config::problem::Problem;
use crate::config::suggest;
use crate::dns::iana;
use crate::dnstap::MessageType;
use crate::filter::Expression;
use crate::stages::options::{FilterOptions, SampleBy, SampleOptions, StageOptions};

/// Identities above this make a scrape of `/metrics` larger than a megabyte.
const IDENTITIES_SENSIBLE: u32 = 10_000;

pub(super) fn check(config: &Config, unread: Unread<'_>, problems: &mut Vec<Problem>) {
    // A stage whose type is not known may be the one that decodes.
    let unsure = unread.types_of("stage");
    let mut decoded = false;
    let mut counted = false;
    transforms::order(&config.stage, problems);
    for (i, stage) in config.stage.iter().enumerate() {
        let place = format!("stage[{i}]");
        if stage.needs_decode() && !decoded && !unsure {
            let what = format!(
                "{} looks into decoded records, and nothing decodes them before it",
                described(stage)
            );
            problems.push(
                Problem::error(&place, what).fix("put a [[stage]] with type = \"decode\" above it"),
            );
            decoded = true; // Said once.
        }
        match stage {
            StageOptions::Decode(_) if decoded => {
                let what = "records are decoded already, so this stage does nothing";
                problems.push(Problem::warning(&place, what).fix("leave it away"));
            }
            StageOptions::Decode(_) => decoded = true,
            StageOptions::Filter(filter) => self::filter(filter, &place, problems),
            StageOptions::Sample(sample) => self::sample(sample, &place, problems),
            StageOptions::Lowercase(_) => {}
            StageOptions::Anonymise(anonymise) => {
                transforms::anonymise(anonymise, &place, problems);
            }
            StageOptions::DropAnswers(answers) => {
                transforms::drop_answers(answers, &place, problems);
            }
            StageOptions::Fields(fields) => transforms::fields(fields, &place, problems),
            StageOptions::RegisteredDomain(options) => {
                super::path(&format!("{place}.list"), &options.list, problems);
            }
            StageOptions::Geoip(geoip) => transforms::geoip(geoip, &place, problems),
            StageOptions::Tags(tags) => transforms::tags(tags, &place, problems),
            StageOptions::Metrics(metrics) => {
                if counted {
                    let what = "a second metrics stage counts every record twice";
                    problems.push(Problem::error(&place, what).fix("keep one"));
                }
                counted = true;
                if metrics.identities_max > IDENTITIES_SENSIBLE {
                    let what = format!(
                        "{} identities make every scrape of /metrics over a megabyte",
                        metrics.identities_max
                    );
                    problems.push(
                        Problem::warning(format!("{place}.identities_max"), what)
                            .fix("the default is 1000"),
                    );
                }
            }
        }
    }
}

fn described(stage: &StageOptions) -> String {
    match stage {
        StageOptions::Sample(sample) => {
            let by = match sample.by {
                SampleBy::Random => "random",
                SampleBy::Qname => "qname",
                SampleBy::Client => "client",
                SampleBy::Identity => "identity",
            };
            format!("a sample by \"{by}\"")
        }
        other => format!("a stage of type \"{}\"", other.type_name()),
    }
}

fn filter(filter: &FilterOptions, place: &str, problems: &mut Vec<Problem>) {
    let FilterOptions {
        message_types,
        qname_suffixes,
        qtypes,
        rcodes,
        networks,
        expression,
        invert,
    } = filter;
    let lists_empty = message_types.is_empty()
        && qname_suffixes.is_empty()
        && qtypes.is_empty()
        && rcodes.is_empty()
        && networks.is_empty();
    if lists_empty && expression.trim().is_empty() {
        let what = if *invert {
            "this filter asks for nothing and is inverted, so it drops everything"
        } else {
            "this filter asks for nothing, so it keeps everything"
        };
        let problem = if *invert {
            Problem::error(place, what)
        } else {
            Problem::warning(place, what)
        };
        problems.push(
            problem.fix(
                "set one of expression, message_types, qname_suffixes, qtypes, rcodes, networks",
            ),
        );
    }
    words(filter, place, problems);
    for (i, suffix) in qname_suffixes.iter().enumerate() {
        if let Err((why, fix)) = suffix_fault(suffix) {
            problems.push(
                Problem::error(
                    format!("{place}.qname_suffixes[{i}]"),
                    format!("\"{suffix}\" {why}"),
                )
                .fix(fix),
            );
        }
    }
    self::expression(expression, &format!("{place}.expression"), problems);
    host_bits(&format!("{place}.networks"), networks, problems);
    if !rcodes.is_empty()
        && !message_types.is_empty()
        && message_types
            .iter()
            .all(|kind| kind.to_ascii_uppercase().ends_with("_QUERY"))
    {
        let what = "queries have no response code, and `message_types` has only queries: nothing matches both";
        problems.push(
            Problem::warning(format!("{place}.rcodes"), what).fix("ask for the _RESPONSE types"),
        );
    }
}

/// What is wrong with a filter expression, and where in it.
fn expression(text: &str, place: &str, problems: &mut Vec<Problem>) {
    if text.trim().is_empty() {
        return;
    }
    if let Err(error) = text.parse::<Expression>() {
        // The place, as it is seen where the text is not.
        let marked = error.marked();
        let at = match marked.is_empty() {
            true => "at its end".to_owned(),
            false => format!("at \"{marked}\""),
        };
        let (line, column) = (error.line, error.column);
        let place_in = match line {
            1 => format!("column {column}"),
            _ => format!("line {line}, column {column}"),
        };
        let (why, fix) = match error.what.split_once("; did you mean ") {
            Some((why, near)) => (why, format!("did you mean {near}")),
            None => (
                error.what.as_str(),
                "`tapflow read --help` shows what an expression is made of".to_owned(),
            ),
        };
        let what = format!("in the expression, {place_in}, {at}: {why}");
        problems.push(Problem::error(place, what).fix(fix));
    }
}

/// Names that the filter stage would not know, and what was meant.
fn words(filter: &FilterOptions, place: &str, problems: &mut Vec<Problem>) {
    type Known = fn(&str) -> bool;
    let kinds: (Known, Vec<&str>) = (
        |w| MessageType::from_name(w).is_some(),
        MessageType::NAMES.to_vec(),
    );
    let types: (Known, Vec<&str>) = (
        |w| iana::type_number(w).is_some(),
        iana::types().map(|t| t.1).collect(),
    );
    let rcodes: (Known, Vec<&str>) = (
        |w| iana::rcode_number(w).is_some(),
        iana::rcodes().map(|r| r.1).collect(),
    );
    for (key, written, (known, names), generic) in [
        ("message_types", &filter.message_types, kinds, ""),
        (
            "qtypes",
            &filter.qtypes,
            types,
            "\"TYPE\" and its number, up to 65535",
        ),
        (
            "rcodes",
            &filter.rcodes,
            rcodes,
            "\"RCODE\" and its number, up to 4095",
        ),
    ] {
        for (i, word) in written.iter().enumerate().filter(|(_, word)| !known(word)) {
            let what = format!("\"{word}\" is not one of the {key}");
            let fix = match suggest::closest(word, names.iter().copied()) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None if generic.is_empty() => format!("they are {}", names.join(", ")),
                None => format!("write one that has no name as {generic}"),
            };
            problems.push(Problem::error(format!("{place}.{key}[{i}]"), what).fix(fix));
        }
    }
}

/// Why a text is no end of a query name, and what to write.
fn suffix_fault(suffix: &str) -> Result<(), (String, String)> {
    if let Some(rest) = suffix
        .strip_prefix("*.")
        .or_else(|| suffix.strip_prefix('.'))
        && !rest.is_empty()
    {
        return Err((
            "needs no wildcard: a suffix matches itself and every name below it".to_owned(),
            format!("write \"{rest}\""),
        ));
    }
    let name = suffix.strip_suffix('.').unwrap_or(suffix);
    if suffix == "." {
        return Err((
            "is the root, which every name ends in".to_owned(),
            "leave it away".to_owned(),
        ));
    }
    let mut wire = 1usize;
    for label in labels(name) {
        let length = label.ok_or_else(|| {
            (
                "has an escape that is not \\ and a character or three digits up to 255".to_owned(),
                "a dot in a label is written \\.".to_owned(),
            )
        })?;
        if length == 0 {
            return Err((
                "has an empty label".to_owned(),
                "write a name such as \"example.com\"".to_owned(),
            ));
        }
        if length > 63 {
            return Err((
                format!("has a label of {length} octets"),
                "a label has at most 63".to_owned(),
            ));
        }
        wire += length + 1;
    }
    if wire > 255 {
        return Err((
            format!("has {wire} octets on the wire"),
            "a name has at most 255".to_owned(),
        ));
    }
    Ok(())
}

/// Octets of each label of a name in presentation form (RFC 1035, section 5.1); `None` for a bad escape.
fn labels(name: &str) -> Vec<Option<usize>> {
    let mut lengths = Vec::new();
    let mut length = 0usize;
    let mut bytes = name.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'.' => {
                lengths.push(Some(length));
                length = 0;
                continue;
            }
            b'\\' => match bytes.next() {
                Some(first) if first.is_ascii_digit() => {
                    let digits = [Some(first), bytes.next(), bytes.next()];
                    let value = digits.iter().try_fold(0u32, |sum, digit| {
                        digit
                            .filter(u8::is_ascii_digit)
                            .map(|digit| sum * 10 + u32::from(digit - b'0'))
                    });
                    if value.is_none_or(|value| value > 255) {
                        return vec![None];
                    }
                }
                Some(_) => {}
                None => return vec![None],
            },
            _ => {}
        }
        length += 1;
    }
    lengths.push(Some(length));
    lengths
}

fn sample(sample: &SampleOptions, place: &str, problems: &mut Vec<Problem>) {
    let place = format!("{place}.one_in");
    match sample.one_in {
        0 => problems.push(
            Problem::error(place, "one in 0 is no share of anything")
                .fix("1 keeps everything, 100 keeps a hundredth"),
        ),
        1 => problems
            .push(Problem::warning(place, "one in 1 keeps everything").fix("leave the stage away")),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_the_ends_of_names_and_refuses_what_no_name_ends_in() {
        let long = "a".repeat(64);
        let deep = ["a"; 128].join(".");
        for (suffix, want) in [
            ("example.com", None),
            ("example.com.", None),
            ("com", None),
            ("_dmarc.example", None),
            (r"a\.b.example", None),
            (r"a\255b.example", None),
            ("*.example.com", Some("no wildcard")),
            (".example.com", Some("no wildcard")),
            ("", Some("empty label")),
            ("a..b", Some("empty label")),
            (".", Some("root")),
            (r"a\256", Some("escape")),
            (r"a\2", Some("escape")),
            (r"a\", Some("escape")),
            (long.as_str(), Some("label of 64")),
            (deep.as_str(), Some("257 octets")),
        ] {
            let got = suffix_fault(suffix).err().map(|(why, _)| why);
            match want {
                None => assert_eq!(got, None, "{suffix}"),
                Some(want) => assert!(
                    got.as_ref().is_some_and(|got| got.contains(want)),
                    "{suffix}: {got:?}"
                ),
            }
        }
    }
}
