//! Regular expressions over octets, with limits.

use std::ops::Range;

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;

use crate::fields::Kind;

/// Longest regular expression in octets.
pub const PATTERN_MAX: usize = 4096;
/// Deepest nesting within one: groups, repetitions, alternatives and sequences are a level each.
pub const PATTERN_NESTING_MAX: u32 = 40;
/// Most octets that one may take compiled, and once more for what is found out while it is used.
const SIZE_MAX: usize = 512 * 1024;
/// The stack of the thread that compiles. The compiler recurses as deep as the expression nests, and without optimisation
/// one level takes 16 KiB and more: that shall not hang on whose stack it is.
const STACK: usize = 4 * 1024 * 1024;

/// A regular expression.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    /// As written, escapes too.
    pub(super) text: String,
    /// It stood between quotation marks and not between slashes.
    pub(super) quoted: bool,
    /// Letter case was said not to matter.
    pub(super) fold: bool,
    /// It must not match.
    pub(super) negated: bool,
    /// The compiled form.
    pub(super) regex: Regex,
}

/// What is wrong with a regular expression, and which octets of it.
pub(super) type Fault = (Range<usize>, String);

/// Compiles a regular expression for a field of that kind. Names and words are compared letter case aside, as everywhere,
/// and others if `fold` says so.
pub(super) fn compile(text: &str, kind: Kind, fold: bool) -> Result<Regex, Fault> {
    if text.len() > PATTERN_MAX {
        let what = format!("a regular expression has at most {PATTERN_MAX} octets");
        return Err((0..text.len(), what));
    }
    let fold = fold || matches!(kind, Kind::Name | Kind::Word(_));
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        let compiling = thread.spawn_scoped(scope, || compile_here(text, fold));
        match compiling.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(compiled)) => compiled,
            _ => Err((0..text.len(), "there is no thread to compile it".to_owned())),
        }
    })
}

fn compile_here(text: &str, fold: bool) -> Result<Regex, Fault> {
    // Only this parser says where something is wrong.
    let parsed = ParserBuilder::new()
        .utf8(false)
        .unicode(false)
        .case_insensitive(fold)
        .nest_limit(PATTERN_NESTING_MAX)
        .build()
        .parse(text);
    if let Err(error) = parsed {
        let (what, span) = match &error {
            regex_syntax::Error::Parse(error) => (error.kind().to_string(), error.span()),
            regex_syntax::Error::Translate(error) => (error.kind().to_string(), error.span()),
            other => return Err((0..text.len(), other.to_string())),
        };
        let span = span.start.offset..span.end.offset;
        return Err((span, format!("no regular expression: {what}")));
    }
    RegexBuilder::new(text)
        .unicode(false)
        .case_insensitive(fold)
        .nest_limit(PATTERN_NESTING_MAX)
        .size_limit(SIZE_MAX)
        .dfa_size_limit(SIZE_MAX)
        .build()
        .map_err(|error| {
            let what = match error {
                regex::Error::CompiledTooBig(_) => {
                    format!("the regular expression takes more than {SIZE_MAX} octets of memory")
                }
                other => other.to_string(),
            };
            (0..text.len(), what)
        })
}
