//! A line of the user's own making: text with fields in braces.
//!
//! ```text
//! {timestamp} {qname} {qtype} {rcode:-none}
//! ```
//!
//! | in the template | in the line |
//! |---|---|
//! | `{field}` | the field's value, as [`Value::write`](crate::fields::Value::write) has it: printable ASCII whatever the octets; `-` where the record does not say |
//! | `{field:-text}` | the same, but `text`, which may be empty, where the record does not say |
//! | `{{`, `}}` | `{`, `}` |
//! | `\t`, `\\` | a tab, `\` |
//! | a tab, any other character but control characters | itself |
//!
//! `tapflow fields` lists the fields. A record is one line, so a template has no line feed and no escape for one. A template
//! names one field at least; a text without braces is the name of a format, not a template.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::dnstap::DecodeReason;
use crate::fields::Field;
use crate::format::{Entry, Line, table};

/// A template that was read. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Template {
    text: Arc<str>,
    parts: Arc<[Part]>,
}

#[derive(Clone, Debug)]
enum Part {
    Text(Box<str>),
    /// A field, and what stands for it where the record does not say.
    Field(Field, Box<str>),
}

/// Why a text is no template, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct TemplateError {
    /// What is wrong.
    pub what: String,
    /// The bytes of the text it is about.
    pub at: Range<usize>,
    /// The text.
    pub text: String,
}

impl fmt::Display for TemplateError {
    /// One line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = self.columns(0..self.at.start) + 1;
        write!(f, "{}, at column {column} of the template", self.what)
    }
}

impl TemplateError {
    /// What is wrong, then the template and below it a mark under the place.
    pub fn shown(&self) -> String {
        let text: String = self.text.chars().map(shown).collect();
        let before = self.columns(0..self.at.start);
        let marked = self.columns(self.at.clone()).max(1);
        format!(
            "{}\n  {text}\n  {}{}",
            self.what,
            " ".repeat(before),
            "^".repeat(marked)
        )
    }

    fn columns(&self, bytes: Range<usize>) -> usize {
        self.text.get(bytes).unwrap_or_default().chars().count()
    }
}

/// So that a template cannot drive the terminal it is shown on, and takes one column for each character.
fn shown(character: char) -> char {
    match character {
        '\t' => ' ',
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

impl Template {
    /// Whether a text is meant as a template: it has a brace.
    pub fn is_meant(text: &str) -> bool {
        text.contains(['{', '}'])
    }

    /// Reads a template.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut reader = Reader {
            text,
            at: 0,
            literal: String::new(),
            parts: Vec::new(),
        };
        match reader.read() {
            Ok(()) => Ok(Self {
                text: text.into(),
                parts: reader.parts.into(),
            }),
            Err((what, at)) => Err(TemplateError {
                what,
                at,
                text: text.to_owned(),
            }),
        }
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The writer of records.
    pub fn line(&self) -> Box<dyn Line> {
        Box::new(Writer(self.parts.clone()))
    }
}

/// What is wrong, and the bytes it is about.
type Fault = (String, Range<usize>);

struct Reader<'t> {
    text: &'t str,
    /// Bytes read.
    at: usize,
    /// Text since the last field.
    literal: String,
    parts: Vec<Part>,
}

impl<'t> Reader<'t> {
    fn read(&mut self) -> Result<(), Fault> {
        while let Some(character) = self.take() {
            let start = self.at - character.len_utf8();
            match character {
                '{' if self.take_if('{') => self.literal.push('{'),
                '}' if self.take_if('}') => self.literal.push('}'),
                '{' => self.field(start)?,
                '}' => {
                    let what = "this } ends no field; a brace of the text is }}";
                    return Err((what.to_owned(), start..self.at));
                }
                '\\' => self.escape(start)?,
                '\n' | '\r' => {
                    let what = "a record is one line, so a template has no line break";
                    return Err((what.to_owned(), start..self.at));
                }
                c if c.is_control() && c != '\t' => {
                    let what = "a control character cannot stand in a template";
                    return Err((what.to_owned(), start..self.at));
                }
                c => self.literal.push(c),
            }
        }
        self.end_literal();
        if self
            .parts
            .iter()
            .any(|part| matches!(part, Part::Field(..)))
        {
            return Ok(());
        }
        let what = "this template names no field, as {qname} would";
        Err((what.to_owned(), 0..self.text.len()))
    }

    fn take(&mut self) -> Option<char> {
        let character = self.rest().chars().next()?;
        self.at += character.len_utf8();
        Some(character)
    }

    fn take_if(&mut self, wanted: char) -> bool {
        let is_next = self.rest().starts_with(wanted);
        if is_next {
            self.at += wanted.len_utf8();
        }
        is_next
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// A field whose brace, at `start`, was read.
    fn field(&mut self, start: usize) -> Result<(), Fault> {
        let rest = self.rest();
        let Some((inner, _)) = rest.split_once('}') else {
            let what = "this { is not closed; a brace of the text is {{";
            return Err((what.to_owned(), start..self.text.len()));
        };
        let from = self.at;
        if let Some(at) = inner.find(|c: char| c == '{' || (c.is_control() && c != '\t')) {
            let what = match inner.get(at..).unwrap_or_default().starts_with('{') {
                true => "a field ends with } before the next { begins",
                false => "a control character cannot stand in a template",
            };
            return Err((what.to_owned(), from + at..from + at + 1));
        }
        self.at += inner.len() + 1;
        let (name, absent) = match inner.split_once(":-") {
            Some((name, absent)) => (name, absent),
            None => (inner, "-"),
        };
        let place = from..from + name.len();
        if name.is_empty() {
            let what = "there is no name of a field; braces of the text are {{ and }}";
            return Err((what.to_owned(), start..self.at));
        }
        if name != name.trim() {
            let what = "a name of a field has no spaces around it";
            return Err((what.to_owned(), place));
        }
        let field = Field::find(name).map_err(|error| (error.to_string(), place))?;
        self.end_literal();
        self.parts.push(Part::Field(field, absent.into()));
        Ok(())
    }

    /// What follows a backslash at `start`.
    fn escape(&mut self, start: usize) -> Result<(), Fault> {
        let what = match self.take() {
            Some('t') => {
                self.literal.push('\t');
                return Ok(());
            }
            Some('\\') => {
                self.literal.push('\\');
                return Ok(());
            }
            Some('n' | 'r') => "a record is one line, so a template has no line break",
            _ => "the escapes are \\t and \\\\",
        };
        Err((what.to_owned(), start..self.at))
    }

    fn end_literal(&mut self) {
        if !self.literal.is_empty() {
            let text = std::mem::take(&mut self.literal);
            self.parts.push(Part::Text(text.into()));
        }
    }
}

struct Writer(Arc<[Part]>);

impl Line for Writer {
    fn write(&mut self, out: &mut Vec<u8>, entry: Entry<'_>) -> Result<(), DecodeReason> {
        let mut subject = table::subject(&entry)?;
        for part in self.0.iter() {
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Field(field, absent) => match field.of(&mut subject) {
                    Some(value) => value.write(out),
                    None => out.extend_from_slice(absent.as_bytes()),
                },
            }
        }
        out.push(b'\n');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dnstap::{DnstapView, Message};
    use crate::format::Source;

    fn line(template: &str) -> String {
        let view = DnstapView {
            kind: Some(DnstapView::KIND_MESSAGE),
            identity: Some(b"a\n\xff"),
            version: Some(b""),
            message: Some(Message {
                kind: Some(5),
                query_port: Some(53),
                ..Message::default()
            }),
            ..DnstapView::default()
        };
        let entry = Entry {
            payload: b"",
            view: Ok(&view),
            source: Source::default(),
        };
        let mut out = Vec::new();
        let template = Template::parse(template).unwrap_or_else(|error| panic!("{error}"));
        template.line().write(&mut out, entry).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_stands_in_a_template_stands_in_the_line() {
        for (template, wanted) in [
            ("{type}", "CLIENT_QUERY\n"),
            ("{query_port}{query_port}", "5353\n"),
            ("a {identity} b", "a a\\010\\255 b\n"),
            ("{{{query_port}}}", "{53}\n"),
            ("}}{{ {query_port}", "}{ 53\n"),
            ("{query_port}\\t\\\\x\t", "53\t\\x\t\n"),
            ("é{query_port}→", "é53→\n"),
            ("{qname} {qname:-} {qname:-n/a} {qname:-:-}", "-  n/a :-\n"),
            ("{version}|{version:-x}", "|\n"),
            ("{tag.a b:-none}", "none\n"),
        ] {
            assert_eq!(line(template), wanted, "{template}");
        }
    }

    #[test]
    fn errors_point_at_the_place() {
        for (template, marked, what) in [
            ("{timestamp} {qnam}", "qnam", "did you mean qname?"),
            ("é {qnam:-x}", "qnam", "there is no field \"qnam\""),
            ("{qname", "{qname", "is not closed"),
            ("{qname {qtype}", "{", "before the next { begins"),
            ("qname}", "}", "ends no field"),
            ("{qname}}", "}", "ends no field"),
            ("a {} b", "{}", "no name of a field"),
            ("a {:-x} b", "{:-x}", "no name of a field"),
            ("{ qname }", " qname ", "no spaces around it"),
            ("{qname}\n", "\n", "no line break"),
            ("{qname}\\n", "\\n", "no line break"),
            ("{qname}\\", "\\", "the escapes are"),
            ("{qname}\\x41", "\\x", "the escapes are"),
            ("{qname:-\n}", "\n", "control character"),
            ("{qname}\u{1b}[0m", "\u{1b}", "control character"),
            ("{{qname}}", "{{qname}}", "names no field"),
        ] {
            let error = Template::parse(template).unwrap_err();
            assert_eq!(&template[error.at.clone()], marked, "{template}: {error}");
            assert!(error.what.contains(what), "{template}: {error}");
            assert_eq!(error.shown().lines().count(), 3, "{}", error.shown());
        }
        let error = Template::parse("é {qnam}").unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no field \"qnam\"; did you mean qname?, at column 4 of the template"
        );
        assert_eq!(
            error.shown(),
            "there is no field \"qnam\"; did you mean qname?\n  é {qnam}\n     ^^^^"
        );
    }
}
