//! `--filter KEY=VALUE,…`: simple terms, each compiled to a [`Matcher`] of the filter stage.

use std::str::FromStr;

use crate::pipeline::stage::Record;
use crate::stages::filter::Matcher;
use crate::stages::options::FilterOptions;
use crate::units::Net;

/// What a term may ask about.
const KEYS: [&str; 5] = ["type", "qname", "qtype", "rcode", "net"];

/// One term: it matches a record that has one of its values, or, with `!` before it, one that has none of them.
#[derive(Clone, Debug)]
pub struct Term {
    matcher: Matcher,
}

impl Term {
    /// Whether the record is to be kept.
    pub fn matches(&self, record: &mut Record<'_>) -> bool {
        self.matcher.matches(record)
    }
}

impl FromStr for Term {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (text, invert) = match text.strip_prefix('!') {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let Some((key, values)) = text.split_once('=') else {
            return Err(format!(
                "a term is KEY=VALUE[,VALUE…], and KEY one of {}",
                KEYS.join(", ")
            ));
        };
        let values: Vec<String> = values
            .split(',')
            .map(|value| value.trim().to_owned())
            .filter(|value| !value.is_empty())
            .collect();
        if values.is_empty() {
            return Err(format!("{key}= names no value"));
        }
        let upper = || values.iter().map(|v| v.to_ascii_uppercase()).collect();
        let mut options = FilterOptions {
            invert,
            ..FilterOptions::default()
        };
        match key.trim() {
            "type" => options.message_types = upper(),
            "qname" => options.qname_suffixes = values,
            "qtype" => options.qtypes = upper(),
            "rcode" => options.rcodes = upper(),
            "net" => options.networks = nets(&values)?,
            other => return Err(unknown(other)),
        }
        let matcher = Matcher::new(&options).map_err(|e| e.to_string())?;
        Ok(Self { matcher })
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
        "\"{key}\" is nothing a term can ask about{meant} There are {}",
        KEYS.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_read_or_refused_with_a_reason() {
        for (text, want) in [
            ("type=CLIENT_QUERY,client_response", Ok(())),
            ("!rcode=NXDOMAIN", Ok(())),
            ("qname=example.com.", Ok(())),
            ("qtype=A, AAAA,TYPE65280", Ok(())),
            ("net=192.0.2.0/24,2001:db8::/32", Ok(())),
            ("net=192.0.2.1", Ok(())),
            ("net=192.0.2.0/33", Err("192.0.2.0/33")),
            ("qtype=AAAAA", Err("AAAAA")),
            ("type=CLIENT", Err("CLIENT")),
            ("qname", Err("KEY=VALUE")),
            ("qtype=,", Err("names no value")),
            ("qnam=example", Err("did you mean qname?")),
            ("zzz=1", Err("There are type, qname, qtype, rcode, net")),
        ] {
            match (text.parse::<Term>(), want) {
                (Ok(_), Ok(())) => {}
                (Err(error), Err(part)) => assert!(error.contains(part), "{text}: {error}"),
                (got, _) => panic!("{text}: {got:?}"),
            }
        }
    }
}
