//! `--filter`: an [expression](crate::filter), or a short term `KEY=VALUE[,VALUE…]`, which becomes one.

use std::str::FromStr;

use crate::cli::input::Tally;
use crate::dnstap::DnstapView;
use crate::fields::Subject;
use crate::filter::{Expression, Filter};
use crate::fstrm::Frames;
use crate::stages::filter::expression;
use crate::stages::options::FilterOptions;
use crate::units::Net;

/// What a term may ask about.
const KEYS: [&str; 5] = ["type", "qname", "qtype", "rcode", "net"];

/// One `--filter`.
#[derive(Clone, Debug)]
pub struct Term(Expression);

impl FromStr for Term {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(short) = Short::of(text) {
            return short.expression().map(Self);
        }
        text.parse().map(Self).map_err(|error: crate::filter::FilterError| {
            let mut why = format!("{error}\n{}", error.shown());
            if !text.trim().contains(char::is_whitespace) {
                why.push_str(&format!(
                    "\nwrite an expression, such as \"qname within example.com and tc\", or a term KEY=VALUE[,VALUE…] with KEY \
                     one of {}",
                    KEYS.join(", ")
                ));
            }
            why
        })
    }
}

/// A term: it matches a record that has one of its values, or, with `!` before it, one that has none of them.
struct Short<'t> {
    key: &'t str,
    values: Vec<String>,
    invert: bool,
}

impl<'t> Short<'t> {
    /// The text as a term; `None` when it is an expression, or nothing of the kind. In an expression there is no single
    /// `=`, and in a term there is no space but around the values.
    fn of(text: &'t str) -> Option<Self> {
        let (text, invert) = match text.trim().strip_prefix('!') {
            Some(rest) => (rest, true),
            None => (text.trim(), false),
        };
        let (key, values) = text.split_once('=')?;
        let key = key.trim();
        let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        if !key.chars().all(is_key) || values.starts_with(['=', '~']) {
            return None;
        }
        let values = values.split(',').map(str::trim);
        let values: Vec<String> = values
            .filter(|value| !value.is_empty())
            .map(str::to_owned)
            .collect();
        let spaced = |value: &String| value.contains(char::is_whitespace);
        (!values.iter().any(spaced)).then_some(Self {
            key,
            values,
            invert,
        })
    }

    fn expression(self) -> Result<Expression, String> {
        let Self {
            key,
            values,
            invert,
        } = self;
        if values.is_empty() {
            return Err(format!("{key}= names no value"));
        }
        let upper = || values.iter().map(|v| v.to_ascii_uppercase()).collect();
        let mut options = FilterOptions::default();
        match key {
            "type" => options.message_types = upper(),
            "qname" => options.qname_suffixes = values,
            "qtype" => options.qtypes = upper(),
            "rcode" => options.rcodes = upper(),
            "net" => options.networks = nets(&values)?,
            other => return Err(unknown(other)),
        }
        let expression = expression(&options).map_err(|error| error.to_string())?;
        Ok(match invert {
            true => expression.negated(),
            false => expression,
        })
    }
}

fn nets(values: &[String]) -> Result<Vec<Net>, String> {
    let parse = |value: &String| value.parse::<Net>().map_err(|e| e.to_string());
    values.iter().map(parse).collect()
}

fn unknown(key: &str) -> String {
    let close = KEYS
        .into_iter()
        .max_by(|a, b| strsim::jaro(key, a).total_cmp(&strsim::jaro(key, b)))
        .filter(|best| strsim::jaro(key, best) > 0.6);
    let meant = close.map_or_else(String::new, |best| format!("; did you mean {best}?"));
    format!(
        "\"{key}\" is nothing a term KEY=VALUE can ask about{meant} There are {}; in an expression {key} is compared with ==",
        KEYS.join(", ")
    )
}

/// Every `--filter` of a command together: a record has to match all.
#[derive(Clone, Debug)]
pub struct Sieve {
    filter: Filter,
    open: bool,
}

impl Sieve {
    /// Compiles the filters.
    pub fn new(terms: &[Term]) -> Self {
        let all = terms.iter().map(|term| term.0.clone());
        let expression = all.fold(Expression::all(), Expression::and);
        Self {
            filter: Filter::new(&expression),
            open: expression.is_all(),
        }
    }

    /// Whether everything is kept since nothing is asked.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether a record is to be kept. `peer`: the file that it is from, where that is shown.
    pub fn keeps(&mut self, view: &DnstapView<'_>, peer: &str) -> bool {
        self.open
            || self
                .filter
                .matches(&mut Subject::new(view).with_source(None, "", peer))
    }

    /// Appends the frames of a run that are kept to `out`, octet for octet, and says how many. Counts all of them in
    /// `tally`: what is no record cannot be judged and is an error.
    pub fn sift(&mut self, run: &[u8], out: &mut Vec<u8>, tally: &mut Tally) -> u64 {
        let mut kept = 0;
        let mut rest = run;
        for payload in Frames::new(run) {
            let (frame, after) = rest
                .split_at_checked(4 + payload.len())
                .unwrap_or((rest, &[]));
            rest = after;
            tally.frames += 1;
            let view = DnstapView::parse(payload);
            let verdict = match &view {
                Ok(view) => view.classify().map(|_| self.keeps(view, "")),
                Err(error) => Err((*error).into()),
            };
            match verdict {
                Ok(keep) => {
                    tally.records += 1;
                    tally.filtered += u64::from(!keep);
                    if keep {
                        kept += 1;
                        out.extend_from_slice(frame);
                    }
                }
                Err(reason) => tally.error(reason.as_str(), 1),
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_and_expressions_are_read_or_refused_with_a_reason() {
        for (text, want) in [
            (
                "type=CLIENT_QUERY,client_response",
                Ok("type in {CLIENT_QUERY, CLIENT_RESPONSE}"),
            ),
            ("!rcode=NXDOMAIN", Ok("not rcode in {NXDOMAIN}")),
            ("qname=example.com.", Ok("qname within {example.com.}")),
            (
                "qtype=A, AAAA,TYPE65280",
                Ok("qtype in {A, AAAA, TYPE65280}"),
            ),
            (
                "net=192.0.2.0/24,2001:db8::/32",
                Ok("client in {192.0.2.0/24, 2001:db8::/32}"),
            ),
            ("net=192.0.2.1", Ok("client in {192.0.2.1}")),
            ("qtype==A", Ok("qtype == A")),
            ("!tc", Ok("not tc")),
            ("length>=512", Ok("length >= 512")),
            ("identity!=a", Ok("identity != \"a\"")),
            ("qname ~ /=/", Ok("qname ~ /=/")),
            ("net=192.0.2.0/33", Err("192.0.2.0/33")),
            ("qtype=AAAAA", Err("AAAAA")),
            ("type=CLIENT", Err("CLIENT")),
            ("qname", Err("KEY=VALUE")),
            ("x", Err("KEY=VALUE")),
            ("qtype=,", Err("names no value")),
            ("qnam=example", Err("did you mean qname?")),
            ("zzz=1", Err("There are type, qname, qtype, rcode, net")),
            (
                "qtype=A and tc",
                Err("column 6: to compare write ==\n  qtype=A and tc\n       ^"),
            ),
            ("qnam == a", Err("did you mean qname?\n  qnam == a\n  ^^^^")),
        ] {
            match (text.parse::<Term>(), want) {
                (Ok(term), Ok(want)) => assert_eq!(term.0.to_string(), want, "{text}"),
                (Err(error), Err(part)) => assert!(error.contains(part), "{text}: {error}"),
                (got, _) => panic!("{text}: {got:?}"),
            }
        }
    }

    #[test]
    fn frames_are_kept_octet_for_octet_and_all_are_counted() {
        let frame = |payload: &[u8]| [&(payload.len() as u32).to_be_bytes()[..], payload].concat();
        // Type MESSAGE, and a message of type CLIENT_QUERY or CLIENT_RESPONSE.
        let query = frame(&[0x78, 1, 0x72, 2, 8, 5]);
        let response = frame(&[0x78, 1, 0x72, 2, 8, 6]);
        let run = [&query[..], &response, &frame(b"no dnstap"), &query].concat();
        let term = "type == CLIENT_QUERY".parse().unwrap();
        let mut sieve = Sieve::new(&[term]);
        let (mut out, mut tally) = (Vec::new(), Tally::default());
        assert_eq!(sieve.sift(&run, &mut out, &mut tally), 2);
        assert_eq!(out, [&query[..], &query].concat());
        assert_eq!((tally.frames, tally.records, tally.filtered), (4, 3, 1));
        assert!(tally.adds_up() && tally.errors() == 1);
        assert!(!sieve.is_open() && Sieve::new(&[]).is_open());
    }
}
