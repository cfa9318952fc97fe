//! Chosen fields as columns: CSV ([`csv`]) and TSV ([`tsv`]), one record a line, the names of the columns in the first.
//!
//! ```text
//! timestamp,qname,qtype,extra
//! 2026-01-02T03:04:05.000000001Z,www.example.,A,"a,b"
//! ```
//!
//! The columns are [`Settings::fields`], in that order, or [`DEFAULT`]; `tapflow fields` lists what there is. Values are as
//! [`Value::write`](crate::fields::Value::write) has them: printable ASCII whatever the octets, names in BIND's form, other
//! octets that are not printable as `\ddd` in decimal, and `\` as `\\`. What a record does not say is empty.
//!
//! **CSV** is RFC 4180's, with a line feed alone at the end of a line: a value that has a comma or a quotation mark is in
//! quotation marks, and a quotation mark in it is two. An empty value that the record does say (an identity without octets) is
//! `""`, and so is what is absent when there is one column, since readers skip empty lines. Values may begin with `=`: spreadsheet
//! programs that take such a thing for a formula must be told that columns are text.
//!
//! **TSV** has no quoting, and needs none: a tab in a value is `\009`, like every octet that is not printable.

pub mod csv;
pub mod tsv;

use crate::fields::{Field, Subject, Value};
use crate::format::{Entry, FormatError, Settings};

/// The columns when none are chosen.
pub const DEFAULT: [&str; 15] = [
    "timestamp",
    "identity",
    "type",
    "protocol",
    "query_address",
    "query_port",
    "response_address",
    "response_port",
    "qname",
    "qclass",
    "qtype",
    "rcode",
    "flags",
    "length",
    "latency",
];

/// The fields that the settings choose.
fn columns(settings: &Settings) -> Result<Vec<Field>, FormatError> {
    let find = |name: &str| Field::find(name).map_err(|error| FormatError(error.to_string()));
    if settings.fields.is_empty() {
        return DEFAULT.into_iter().map(find).collect();
    }
    settings.fields.iter().map(|name| find(name)).collect()
}

/// Appends the name of a column: a tag's may have any octets.
fn write_name(out: &mut Vec<u8>, field: &Field) {
    Value::Octets(field.name().as_bytes()).write(out);
}

/// The record of an entry that is asked for its columns.
pub(super) fn subject<'a>(entry: &Entry<'a>) -> Result<Subject<'a>, crate::dnstap::DecodeReason> {
    let view = entry.view?;
    view.classify()?;
    let source = entry.source;
    Ok(Subject::new(view).with_source(source.received, source.listener, source.peer))
}
