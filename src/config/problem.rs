//! What is wrong with a configuration, and how it is shown: the place, the line itself, and what was meant.

use std::fmt;
use std::fmt::Write as _;
use std::ops::Range;

/// Whether a configuration with this problem can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// It cannot.
    Error,
    /// It can, and will probably not do what was wanted.
    Warning,
}

impl Severity {
    /// The word at the head of a report.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Whether it keeps the configuration from running.
    pub severity: Severity,
    /// The setting it is about, such as `listener[0].uri`, counted from 0; empty for the file as a whole.
    pub place: String,
    /// The bytes of the text it is about, where there is a text.
    pub span: Option<Range<usize>>,
    /// What is wrong, in a sentence without its full stop.
    pub what: String,
    /// What to do about it, where that is known.
    pub fix: Option<String>,
}

impl Problem {
    /// A problem that keeps the configuration from running.
    pub fn error(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::new(Severity::Error, place.into(), what.into())
    }

    /// A problem that does not.
    pub fn warning(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::new(Severity::Warning, place.into(), what.into())
    }

    fn new(severity: Severity, place: String, what: String) -> Self {
        Self {
            severity,
            place,
            span: None,
            what,
            fix: None,
        }
    }

    /// The same problem with what to do about it.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// The same problem at these bytes of the text.
    #[must_use]
    pub fn at(mut self, span: Range<usize>) -> Self {
        self.span = Some(span);
        self
    }

    /// Whether it keeps the configuration from running.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Problem {
    /// One line, for where there is no text to show: a configuration made by command-line options.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.severity.as_str())?;
        if !self.place.is_empty() {
            write!(f, " in {}", self.place)?;
        }
        write!(f, ": {}", self.what)?;
        self.fix
            .as_ref()
            .map_or(Ok(()), |fix| write!(f, " ({fix})"))
    }
}

/// The text a configuration was read from, and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// File name as the user gave it.
    pub name: String,
    /// The whole text.
    pub text: String,
}

/// Most characters of a line that are shown.
const LINE_SHOWN: usize = 120;

impl Source {
    /// Line and column, both from 1, of a byte of the text; the column counts characters.
    pub fn line_column(&self, offset: usize) -> (usize, usize) {
        let before = self.text.get(..self.floor(offset)).unwrap_or_default();
        let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
        let column = before
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .chars()
            .count()
            + 1;
        (line, column)
    }

    /// The nearest character boundary at or before `offset`.
    fn floor(&self, offset: usize) -> usize {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        offset
    }

    /// The problem with the line it is about, a mark under the part that is wrong, and what to do.
    pub fn show(&self, problem: &Problem, colour: bool) -> String {
        let (on, bold, off) = marks(colour, problem.severity);
        let mut out = format!(
            "{on}{}{off}{bold}: {}{off}\n",
            problem.severity.as_str(),
            printable(&problem.what)
        );
        let Some(span) = &problem.span else {
            let place = if problem.place.is_empty() {
                String::new()
            } else {
                format!(", {}", problem.place)
            };
            let _ = writeln!(out, "  --> {}{place}", self.name);
            return self.with_fix(out, "  ", problem);
        };
        let start = self.floor(span.start);
        let (line, column) = self.line_column(start);
        let begin = self
            .text
            .get(..start)
            .and_then(|before| before.rfind('\n'))
            .map_or(0, |at| at + 1);
        let whole = self
            .text
            .get(begin..)
            .unwrap_or_default()
            .lines()
            .next()
            .unwrap_or_default();
        let marked = self
            .text
            .get(start..self.floor(span.end).max(start))
            .unwrap_or_default();
        let marked = marked
            .lines()
            .next()
            .unwrap_or_default()
            .chars()
            .count()
            .max(1);

        // A long line is shown from a little before the mark.
        let skipped = if column > LINE_SHOWN { column - 20 } else { 0 };
        let shown: String = whole.chars().skip(skipped).take(LINE_SHOWN).collect();
        let lead = column - 1 - skipped;
        let carets = marked.min(LINE_SHOWN.saturating_sub(lead)).max(1);
        let number = line.to_string();
        let margin = " ".repeat(number.len());
        let _ = writeln!(out, "{margin} --> {}:{line}:{column}", self.name);
        let _ = writeln!(out, "{margin} |\n{number} | {}", printable(&shown));
        let _ = writeln!(
            out,
            "{margin} | {}{on}{}{off}",
            " ".repeat(lead),
            "^".repeat(carets)
        );
        self.with_fix(out, &margin, problem)
    }

    fn with_fix(&self, mut out: String, margin: &str, problem: &Problem) -> String {
        if let Some(fix) = &problem.fix {
            let _ = writeln!(out, "{margin} = {}", printable(fix));
        }
        out
    }
}

/// What turns the severity's colour and bold on, and both off again.
fn marks(colour: bool, severity: Severity) -> (&'static str, &'static str, &'static str) {
    match (colour, severity) {
        (false, _) => ("", "", ""),
        (true, Severity::Error) => ("\x1b[1;31m", "\x1b[1m", "\x1b[0m"),
        (true, Severity::Warning) => ("\x1b[1;33m", "\x1b[1m", "\x1b[0m"),
    }
}

/// The text with every control character replaced, so that a file cannot drive the terminal it is shown on; a tab
/// becomes one space, which keeps the mark under its place.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' => ' ',
            '\n' => '\n',
            c if c.is_control() => '\u{FFFD}',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_the_line_and_marks_the_part_that_is_wrong() {
        let source = Source {
            name: "x.toml".to_owned(),
            text: "a = 1\n\tbé = \x1b[31m2\n".to_owned(),
        };
        let start = source.text.find('b').unwrap();
        let problem = Problem::error("b", "no")
            .at(start..start + 3)
            .fix("write c");
        assert_eq!(
            source.show(&problem, false),
            "error: no\n  --> x.toml:2:2\n  |\n2 |  bé = \u{FFFD}[31m2\n  |  ^^\n  = write c\n"
        );
    }

    #[test]
    fn marks_one_column_at_the_end_of_the_text_and_inside_a_character() {
        let source = Source {
            name: "x".to_owned(),
            text: "é".to_owned(),
        };
        for span in [2..2, 1..1, 1..9, 7..9] {
            let shown = source.show(&Problem::warning("", "w").at(span.clone()), false);
            assert!(
                shown.contains("1 | é\n") && shown.matches('^').count() == 1,
                "{span:?}: {shown}"
            );
        }
    }

    #[test]
    fn shows_a_long_line_around_its_mark() {
        let text = format!("x = \"{}\"", "y".repeat(5000));
        let source = Source {
            name: "x".to_owned(),
            text,
        };
        let shown = source.show(&Problem::error("", "w").at(4000..4010), false);
        assert!(shown.lines().all(|line| line.len() < 160), "{shown}");
        assert!(shown.contains("x:1:4001"), "{shown}");
        assert_eq!(shown.matches('^').count(), 10);
    }
}
