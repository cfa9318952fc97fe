//! Regular expressions over octets, with limits.

use std::ops::Range;

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;

use super::expression::Pattern;
use crate::fields::Kind;

/// Longest regular expression in octets.
pub const PATTERN_MAX: usize = 4096;
/// Deepest nesting within one. What compiles it recurses so deep.
pub const PATTERN_NESTING_MAX: u32 = 40;
/// Most octets that one may take compiled, and once more for what is found out while it is used.
const SIZE_MAX: usize = 512 * 1024;

/// Compiles a regular expression for a field of that kind. Names and words are compared letter case aside, as everywhere.
///
/// # Errors
/// What is wrong with it, and which octets of it.
pub(super) fn compile(pattern: &Pattern, kind: Kind) -> Result<Regex, (Range<usize>, String)> {
    let text = pattern.text.as_str();
    if text.len() > PATTERN_MAX {
        let what = format!("a regular expression has at most {PATTERN_MAX} octets");
        return Err((0..text.len(), what));
    }
    let fold = pattern.fold || matches!(kind, Kind::Name | Kind::Word(_));
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
