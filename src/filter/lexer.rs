//! From text to tokens. What a token means depends on where it stands, so the parser asks for one after the other.

use std::ops::Range;

use super::error::FilterError;

/// A piece of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'t> {
    /// A field, a keyword or a value. Escapes are as written.
    Word(&'t str),
    /// What is between quotation marks. Escapes are as written.
    Quoted(&'t str),
    /// `(`, `)`, `{`, `}`, `,` or an operator.
    Sign(&'static str),
    /// There is no more.
    End,
}

/// Signs, those first that begin with another one.
const SIGNS: &[&str] = &[
    "==", "!=", "!~", "<=", ">=", "&&", "||", "<", ">", "=", "~", "!", "(", ")", "{", "}", ",",
    "&", "|",
];

/// Whether a word ends before this character.
fn ends_word(c: char) -> bool {
    c.is_ascii_whitespace()
        || matches!(
            c,
            '(' | ')' | '{' | '}' | ',' | '"' | '\'' | '=' | '!' | '<' | '>' | '~' | '&' | '|'
        )
}

/// Reads tokens.
#[derive(Clone, Debug)]
pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

/// A regular expression as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slashed<'t> {
    /// What is between the slashes.
    pub(super) pattern: &'t str,
    /// What follows the second one.
    pub(super) flags: &'t str,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn text(&self) -> &'t str {
        self.text
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        let trimmed = rest.trim_start_matches(|c: char| c.is_ascii_whitespace());
        self.at += rest.len() - trimmed.len();
    }

    /// The next `len` octets, which are stepped over.
    fn take(&mut self, len: usize) -> (&'t str, Range<usize>) {
        let span = self.at..self.at + len;
        self.at = span.end;
        (self.text.get(span.clone()).unwrap_or_default(), span)
    }

    /// The next token and its place.
    pub(super) fn next(&mut self) -> Result<(Token<'t>, Range<usize>), FilterError> {
        self.skip_space();
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return Ok((Token::End, self.at..self.at));
        };
        if first == '"' {
            let Some(len) = closing(rest, '"') else {
                let span = self.at..self.text.len();
                return Err(self.error(span, "a quotation mark opens here and none closes"));
            };
            let (quoted, span) = self.take(len);
            return Ok((Token::Quoted(inside(quoted)), span));
        }
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            let (_, span) = self.take(sign.len());
            return Ok((Token::Sign(sign), span));
        }
        if first == '\'' {
            let span = self.at..self.at + 1;
            return Err(self.error(span, "texts stand between quotation marks: \"…\""));
        }
        let (word, span) = self.take(word_len(rest));
        Ok((Token::Word(word), span))
    }

    /// The next token, which stays the next.
    pub(super) fn peek(&self) -> Result<(Token<'t>, Range<usize>), FilterError> {
        self.clone().next()
    }

    /// A regular expression between slashes, if one is next.
    pub(super) fn slashed(&mut self) -> Result<Option<(Slashed<'t>, Range<usize>)>, FilterError> {
        self.skip_space();
        let rest = self.rest();
        if !rest.starts_with('/') {
            return Ok(None);
        }
        let Some(len) = closing(rest, '/') else {
            let span = self.at..self.text.len();
            return Err(self.error(
                span,
                "a regular expression begins here and no slash ends it",
            ));
        };
        let (whole, span) = self.take(len);
        let flags = self.rest();
        let (flags, after) = self.take(word_len(flags));
        let slashed = Slashed {
            pattern: inside(whole),
            flags,
        };
        Ok(Some((slashed, span.start..after.end)))
    }

    pub(super) fn error(&self, span: Range<usize>, what: impl Into<String>) -> FilterError {
        FilterError::new(self.text, span, what)
    }
}

/// Octets up to and with the mark that ends what begins with the same one; a backslash takes the next character along.
fn closing(text: &str, mark: char) -> Option<usize> {
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            chars.next();
        } else if c == mark {
            return Some(at + 1);
        }
    }
    None
}

/// The text without its first and its last octet.
fn inside(text: &str) -> &str {
    text.get(1..text.len().saturating_sub(1))
        .unwrap_or_default()
}

/// Octets of the word that `text` begins with; a backslash takes the next character along.
fn word_len(text: &str) -> usize {
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            chars.next();
        } else if ends_word(c) {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_texts_and_signs_are_told_apart() {
        use Token::{Quoted, Sign, Word};
        let rows: &[(&str, &[Token<'_>])] = &[
            ("", &[]),
            ("qtype==AAAA", &[Word("qtype"), Sign("=="), Word("AAAA")]),
            (
                " a in{x,192.0.2.0/24 , 2001:db8::/32}",
                &[
                    Word("a"),
                    Word("in"),
                    Sign("{"),
                    Word("x"),
                    Sign(","),
                    Word("192.0.2.0/24"),
                    Sign(","),
                    Word("2001:db8::/32"),
                    Sign("}"),
                ],
            ),
            (
                r#"!(a<=2026-01-01T00:00:00Z)||"b\"c""#,
                &[
                    Sign("!"),
                    Sign("("),
                    Word("a"),
                    Sign("<="),
                    Word("2026-01-01T00:00:00Z"),
                    Sign(")"),
                    Sign("||"),
                    Quoted(r#"b\"c"#),
                ],
            ),
            (r"a\(b\)\\ é\.x", &[Word(r"a\(b\)\\"), Word(r"é\.x")]),
        ];
        for (text, want) in rows {
            let mut lexer = Lexer::new(text);
            for token in *want {
                let (got, span) = lexer.next().unwrap();
                assert_eq!(got, *token, "{text}");
                assert!(text.get(span).is_some(), "{text}");
            }
            assert_eq!(lexer.next().unwrap().0, Token::End, "{text}");
        }
    }

    #[test]
    fn a_regular_expression_ends_at_the_first_slash_without_a_backslash() {
        let mut lexer = Lexer::new(r" /a\/[^ b]\\/i) ");
        let (slashed, span) = lexer.slashed().unwrap().unwrap();
        assert_eq!((slashed.pattern, slashed.flags), (r"a\/[^ b]\\", "i"));
        assert_eq!(span, 1..14);
        assert_eq!(lexer.next().unwrap().0, Token::Sign(")"));
        assert_eq!(Lexer::new("abc").slashed(), Ok(None));
        assert!(Lexer::new("/abc").slashed().is_err());
        assert!(Lexer::new("\"abc").next().is_err());
    }
}
