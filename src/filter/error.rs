//! [`FilterError`]: what is wrong with an expression, and where.

use std::fmt;
use std::ops::Range;

/// Most characters of a line that are shown; a longer one is shown around the place.
const SHOWN_MAX: usize = 76;

/// What is wrong with an expression, and where. `Display` gives the place and the reason in one line;
/// [`shown`](Self::shown) has the line itself with the place marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// What is wrong, in a sentence without its full stop.
    pub what: String,
    /// The octets of the expression it is about. Empty at its end.
    pub span: Range<usize>,
    /// The line, counted from 1.
    pub line: usize,
    /// The character of the line, counted from 1.
    pub column: usize,
    lines: usize,
    excerpt: String,
    before: usize,
    marked: usize,
}

impl FilterError {
    /// Something that is wrong with `span` of `text`.
    pub(super) fn new(text: &str, span: Range<usize>, what: impl Into<String>) -> Self {
        let start = floor(text, span.start);
        let head = text.get(..start).unwrap_or_default();
        let line_start = head.rfind('\n').map_or(0, |at| at + 1);
        let rest = text.get(line_start..).unwrap_or_default();
        let line = rest.split('\n').next().unwrap_or_default();
        let column = head.get(line_start..).unwrap_or_default().chars().count();
        let marked = text
            .get(start..floor(text, span.end.max(start)))
            .unwrap_or_default()
            .split('\n')
            .next()
            .unwrap_or_default()
            .chars()
            .count();
        let skipped = match line.chars().count() > SHOWN_MAX {
            true => column.saturating_sub(SHOWN_MAX / 2),
            false => 0,
        };
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let excerpt: String = line
            .chars()
            .skip(skipped)
            .take(SHOWN_MAX)
            .map(plain)
            .collect();
        let before = column - skipped;
        Self {
            what: what.into(),
            line: head.matches('\n').count() + 1,
            column: column + 1,
            lines: text.matches('\n').count() + 1,
            marked: marked.clamp(1, SHOWN_MAX.saturating_sub(before).max(1)),
            excerpt,
            before,
            span,
        }
    }

    /// What is marked, as far as the line goes; empty at the end.
    pub fn marked(&self) -> String {
        let marked = self.excerpt.chars().skip(self.before).take(self.marked);
        marked.collect()
    }

    /// Two lines, each indented: the expression, or what is around the place in a long one, and `^` under the place.
    pub fn shown(&self) -> String {
        let (indent, mark) = (" ".repeat(self.before), "^".repeat(self.marked));
        format!("  {}\n  {indent}{mark}", self.excerpt)
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lines > 1 {
            write!(f, "line {}, ", self.line)?;
        }
        write!(f, "column {}: {}", self.column, self.what)
    }
}

impl std::error::Error for FilterError {}

/// The last boundary of characters up to `at`.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_marked_under_the_line_it_is_in() {
        let long = format!("{} here {}", "a".repeat(100), "b".repeat(100));
        for (text, span, said, shown) in [
            ("abc def", 4..7, "column 5: x", "  abc def\n      ^^^"),
            ("abc", 3..3, "column 4: x", "  abc\n     ^"),
            ("é\tb", 3..4, "column 3: x", "  é b\n    ^"),
            ("a\nbc\nd", 3..4, "line 2, column 2: x", "  bc\n   ^"),
            ("a\nb", 0..3, "line 1, column 1: x", "  a\n  ^"),
            ("", 0..0, "column 1: x", "  \n  ^"),
            ("é", 1..9, "column 1: x", "  é\n  ^"),
        ] {
            let error = FilterError::new(text, span, "x");
            assert_eq!(
                (error.to_string().as_str(), error.shown().as_str()),
                (said, shown),
                "{text:?}"
            );
        }
        let error = FilterError::new(&long, 101..105, "x");
        let shown = error.shown();
        let (line, mark) = shown.split_once('\n').unwrap();
        let at = line.find("here").unwrap();
        assert_eq!(mark.find("^^^^"), Some(at));
        assert!(line.len() <= SHOWN_MAX + 2, "{line}");
    }
}
