//! The filter stage: keeps the frames that match its expression and every list that is given, and counts the others as
//! filtered.
//!
//! Lists are a short way to write expressions, and become one: `qtypes = ["A", "AAAA"]` is `qtype in {A, AAAA}`. It is
//! compiled once; a frame is compared in place, and only what is asked about is decoded.

use crate::dns::{NameBuf, iana};
use crate::dnstap::MessageType;
use crate::fields::Vocabulary;
use crate::filter::{Expression, Filter, Literal};
use crate::pipeline::batch::Origin;
use crate::pipeline::stage::{Record, Stage, StageFactory, Verdict};
use crate::stages::StageError;
use crate::stages::options::FilterOptions;

/// Makes filter stages.
#[derive(Clone, Debug)]
pub struct Factory {
    filter: Filter,
    invert: bool,
}

impl Factory {
    /// Compiles the settings.
    ///
    /// # Errors
    /// A message type, name, record type or response code that does not exist, or an expression that is none.
    pub fn new(options: &FilterOptions) -> Result<Self, StageError> {
        Ok(Self {
            filter: Filter::new(&expression(options)?),
            invert: options.invert,
        })
    }
}

impl StageFactory for Factory {
    fn build(&self, _origin: &Origin) -> Box<dyn Stage> {
        Box::new(Stop(self.clone()))
    }
}

/// The lists and the expression as one expression; `invert` is left to the caller.
///
/// # Errors
/// A message type, name, record type or response code that does not exist, or an expression that is none.
pub fn expression(options: &FilterOptions) -> Result<Expression, StageError> {
    let words = |field, vocabulary, what, texts: &[String], number: fn(&str) -> Option<i32>| {
        let literal = |text: &String| match number(text) {
            Some(number) => Ok(Literal::Word(vocabulary, number)),
            None => Err(StageError::Unknown {
                what,
                text: text.clone(),
            }),
        };
        let literals = texts.iter().map(literal).collect::<Result<Vec<_>, _>>()?;
        list(literals, |literals| Expression::one_of(field, literals))
    };
    let types = words(
        "type",
        Vocabulary::MessageType,
        "dnstap message type",
        &options.message_types,
        |text| MessageType::from_name(text).map(MessageType::number),
    )?;
    let nets = options.networks.iter().copied().map(Literal::Net);
    let nets = list(nets.collect(), |nets| Expression::one_of("client", nets))?;
    let name = |text: &String| {
        NameBuf::parse(text).map_err(|source| StageError::Name {
            text: text.clone(),
            source,
        })
    };
    let suffixes = options.qname_suffixes.iter().map(name);
    let suffixes = list(
        suffixes.collect::<Result<_, _>>()?,
        |names: Vec<NameBuf>| Expression::within("qname", names),
    )?;
    let qtypes = words(
        "qtype",
        Vocabulary::Rtype,
        "record type",
        &options.qtypes,
        |text| iana::type_number(text).map(i32::from),
    )?;
    let rcodes = words(
        "rcode",
        Vocabulary::Rcode,
        "response code",
        &options.rcodes,
        |text| iana::rcode_number(text).map(i32::from),
    )?;
    let written = match options.expression.trim() {
        "" => Expression::all(),
        text => text.parse().map_err(StageError::Expression)?,
    };
    // What costs least stands first.
    Ok([types, nets, qtypes, suffixes, rcodes, written]
        .into_iter()
        .fold(Expression::all(), Expression::and))
}

/// The expression of a list: nothing is asked where it is empty.
fn list<T>(
    values: Vec<T>,
    make: impl FnOnce(Vec<T>) -> Result<Expression, crate::fields::UnknownField>,
) -> Result<Expression, StageError> {
    if values.is_empty() {
        return Ok(Expression::all());
    }
    make(values).map_err(|error| StageError::Unknown {
        what: "field",
        text: error.name,
    })
}

/// Whether a record matches; what is no record does not.
fn matches(filter: &mut Filter, record: &mut Record<'_>) -> bool {
    if filter.begins_with_dns() {
        // Kept for the stages that follow.
        let _ = record.dns();
    }
    record
        .subject()
        .is_ok_and(|mut subject| filter.matches(&mut subject))
}

/// What stops frames.
struct Stop(Factory);

impl Stage for Stop {
    fn on_record(&mut self, record: &mut Record<'_>) -> Verdict {
        if matches(&mut self.0.filter, record) != self.0.invert {
            Verdict::Keep
        } else {
            Verdict::Filter
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_become_an_expression_that_the_written_one_is_added_to() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let options = FilterOptions {
            message_types: words(&["CLIENT_QUERY", "client_response"]),
            qname_suffixes: words(&["Example.com"]),
            qtypes: words(&["AAAA", "TYPE65280"]),
            rcodes: words(&["RCODE3"]),
            networks: vec!["192.0.2.0/24".parse().unwrap()],
            expression: " tc or do\n".to_owned(),
            invert: true,
        };
        assert_eq!(
            expression(&options).unwrap().to_string(),
            "type in {CLIENT_QUERY, CLIENT_RESPONSE} and client in {192.0.2.0/24} and qtype in {AAAA, TYPE65280} \
             and qname within {Example.com.} and rcode in {NXDOMAIN} and (tc or do)"
        );
        assert!(expression(&FilterOptions::default()).unwrap().is_all());
        for (options, want) in [
            (
                FilterOptions {
                    expression: "qnam == a".to_owned(),
                    ..FilterOptions::default()
                },
                "column 1: there is no field \"qnam\"; did you mean qname?",
            ),
            (
                FilterOptions {
                    rcodes: words(&["NOPE"]),
                    ..FilterOptions::default()
                },
                "\"NOPE\" is no response code",
            ),
        ] {
            let error = Factory::new(&options).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
    }
}
