//! From tokens to an [`Expression`], by operator precedence with a stack of its own: nothing here recurses.

use std::ops::Range;

use super::error::FilterError;
use super::expression::{Check, Expression, Item, Order, Test};
use super::lexer::{Lexer, Token};
use super::literal::Literal;
use super::pattern::{self, Pattern};
use crate::fields::{Field, Kind};

/// Longest expression in octets.
pub const TEXT_MAX: usize = 1024 * 1024;
/// Most parentheses and `not` that stand open at one place.
pub const NESTING_MAX: usize = 100;
/// Most tests of fields.
pub const TESTS_MAX: usize = 1000;

/// What waits for its right side, or for its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Open,
    Or,
    And,
    Not,
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    items: Vec<Item>,
    waiting: Vec<(Waiting, Range<usize>)>,
    nested: usize,
    tests: usize,
}

/// Reads an expression.
///
/// # Errors
/// What is wrong with it, and where.
pub(super) fn parse(text: &str) -> Result<Expression, FilterError> {
    if text.len() > TEXT_MAX {
        let what = format!("an expression has at most {TEXT_MAX} octets");
        return Err(FilterError::new(text, TEXT_MAX..TEXT_MAX, what));
    }
    let mut parser = Parser {
        lexer: Lexer::new(text),
        items: Vec::new(),
        waiting: Vec::new(),
        nested: 0,
        tests: 0,
    };
    parser.run()?;
    Ok(Expression {
        items: parser.items,
    })
}

impl<'t> Parser<'t> {
    fn run(&mut self) -> Result<(), FilterError> {
        loop {
            self.operand()?;
            if !self.operator()? {
                return Ok(());
            }
        }
    }

    /// Reads up to the end of a test.
    fn operand(&mut self) -> Result<(), FilterError> {
        loop {
            let (token, span) = self.lexer.next()?;
            match token {
                Token::Sign("(") => self.wait(Waiting::Open, span)?,
                Token::Sign("!") => self.wait(Waiting::Not, span)?,
                Token::Word(word) if is(word, "not") => self.wait(Waiting::Not, span)?,
                Token::Word(word) if is(word, "has") => {
                    let (token, span) = self.lexer.next()?;
                    let Token::Word(word) = token else {
                        let what = "after has comes the name of a field";
                        return Err(self.lexer.error(span, what));
                    };
                    let field = self.field(word, &span)?;
                    return self.test(field, Check::Present, span);
                }
                Token::Word(word) if is_joint(word) => {
                    let what = format!("before {word} a test is missing");
                    return Err(self.lexer.error(span, what));
                }
                Token::Word(word) => {
                    let field = self.field(word, &span)?;
                    let check = self.check(&field, &span)?;
                    return self.test(field, check, span);
                }
                Token::End => {
                    let what = match (self.items.is_empty(), self.waiting.is_empty()) {
                        (true, true) => "the expression is empty",
                        _ => "here it ends, and a test is missing",
                    };
                    return Err(self.lexer.error(span, what));
                }
                Token::Quoted(_) | Token::Sign(_) => {
                    let found = self.written(&span);
                    let what = format!(
                        "a test begins with the name of a field, with not, has or a parenthesis, and here is {found}"
                    );
                    return Err(self.lexer.error(span, what));
                }
            }
        }
    }

    /// Reads what follows a test, up to the place of the next one; `false` at the end.
    fn operator(&mut self) -> Result<bool, FilterError> {
        loop {
            let (token, span) = self.lexer.next()?;
            let joint = match token {
                Token::Sign("&&") => Waiting::And,
                Token::Sign("||") => Waiting::Or,
                Token::Word(word) if is(word, "and") => Waiting::And,
                Token::Word(word) if is(word, "or") => Waiting::Or,
                Token::Sign(")") => {
                    self.settle(Waiting::Or);
                    if self.waiting.pop().is_none() {
                        let what = "this parenthesis closes none";
                        return Err(self.lexer.error(span, what));
                    }
                    self.nested -= 1;
                    continue;
                }
                Token::End => {
                    self.settle(Waiting::Or);
                    if let Some((_, span)) = self.waiting.pop() {
                        let what = "this parenthesis is not closed";
                        return Err(self.lexer.error(span, what));
                    }
                    return Ok(false);
                }
                Token::Sign(sign @ ("&" | "|")) => {
                    let what = format!("write {sign}{sign}");
                    return Err(self.lexer.error(span, what));
                }
                _ => {
                    let found = self.written(&span);
                    let what =
                        format!("after a test comes and, or, or the end, and here is {found}");
                    return Err(self.lexer.error(span, what));
                }
            };
            self.settle(joint);
            self.waiting.push((joint, span));
            return Ok(true);
        }
    }

    /// Ends what waits and binds at least as tightly as `joint`.
    fn settle(&mut self, joint: Waiting) {
        while let Some((waiting, _)) = self.waiting.last() {
            let item = match (waiting, joint) {
                (Waiting::Open, _) | (Waiting::Or, Waiting::And) => return,
                (Waiting::Or, _) => Item::Or,
                (Waiting::And, _) => Item::And,
                (Waiting::Not, _) => {
                    self.nested -= 1;
                    Item::Not
                }
            };
            self.items.push(item);
            self.waiting.pop();
        }
    }

    fn wait(&mut self, waiting: Waiting, span: Range<usize>) -> Result<(), FilterError> {
        self.nested += 1;
        if self.nested > NESTING_MAX {
            let what = format!("more than {NESTING_MAX} parentheses and nots stand open here");
            return Err(self.lexer.error(span, what));
        }
        self.waiting.push((waiting, span));
        Ok(())
    }

    fn test(&mut self, field: Field, check: Check, span: Range<usize>) -> Result<(), FilterError> {
        self.tests += 1;
        if self.tests > TESTS_MAX {
            let what = format!(
                "an expression has at most {TESTS_MAX} tests; many values of one field are one test with in or within"
            );
            return Err(self.lexer.error(span, what));
        }
        self.items.push(Item::Test(Test { field, check }));
        Ok(())
    }

    fn field(&self, word: &str, span: &Range<usize>) -> Result<Field, FilterError> {
        let field = Field::find(word);
        field.map_err(|error| self.lexer.error(span.clone(), error.to_string()))
    }

    /// What is written at `span`, for a message.
    fn written(&self, span: &Range<usize>) -> &'t str {
        match self.lexer.text().get(span.clone()) {
            None | Some("") => "the end",
            Some(text) => text,
        }
    }

    /// Reads what a field is compared with.
    fn check(&mut self, field: &Field, place: &Range<usize>) -> Result<Check, FilterError> {
        let (name, kind) = (field.name().into_owned(), field.kind());
        let (token, span) = self.lexer.peek()?;
        let error = |what: String| Err(self.lexer.error(span.clone(), what));
        let (operator, takes) = match token {
            Token::Sign("=") => {
                return error("to compare write ==".to_owned());
            }
            Token::Sign(sign @ ("~" | "!~")) => (sign, takes_patterns(kind)),
            Token::Sign(sign) if Order::of_sign(sign).is_some() => {
                let relative = Order::of_sign(sign).is_some_and(Order::is_relative);
                let takes = match kind {
                    Kind::Numbers => sign == "==",
                    _ => !relative || takes_order(kind),
                };
                (sign, takes)
            }
            Token::Word(word) if is(word, "in") => ("in", takes_sets(kind)),
            Token::Word(word) if is(word, "within") => ("within", kind == Kind::Name),
            Token::Word(word) if is(word, "not") => {
                return error(format!("not stands before the test: not {name} in …"));
            }
            Token::Word(word) if !is_joint(word) => {
                let takes = operators(kind);
                return error(format!(
                    "\"{word}\" is no operator: after {name} comes {takes}"
                ));
            }
            Token::Quoted(_) | Token::Sign("(" | "{" | "!" | ",") => {
                let takes = operators(kind);
                return error(format!("after {name} comes {takes}"));
            }
            _ if kind == Kind::Flag => return Ok(Check::Set),
            _ => {
                let takes = operators(kind);
                let what = format!(
                    "{name} alone says nothing, since it is no flag: after it comes {takes}; or write has {name}"
                );
                return Err(self.lexer.error(place.clone(), what));
            }
        };
        if !takes {
            let (about, takes) = (kind.about(), operators(kind));
            return error(format!(
                "{operator} does not go with {name} ({about}): it takes {takes}"
            ));
        }
        self.lexer.next()?;
        match operator {
            "in" => self.one_of(&name, kind),
            "within" => self.within(&name),
            "~" | "!~" => self.pattern(&name, kind, operator == "!~"),
            _ => {
                let order = Order::of_sign(operator).unwrap_or(Order::Equal);
                let (literal, span) = self.literal(&name, kind, operator)?;
                if let (Kind::Address, Literal::Net(net)) = (kind, &literal)
                    && net.0.prefix_len() < net.0.max_prefix_len()
                {
                    let what =
                        format!("{net} is a network and {name} one address: write {name} in {net}");
                    return Err(self.lexer.error(span, what));
                }
                Ok(Check::Compare(order, literal))
            }
        }
    }

    /// A value.
    fn literal(
        &mut self,
        name: &str,
        kind: Kind,
        after: &str,
    ) -> Result<(Literal, Range<usize>), FilterError> {
        let (token, span) = self.lexer.next()?;
        let (text, quoted) = match token {
            Token::Word(text) => (text, false),
            Token::Quoted(text) => (text, true),
            Token::Sign("{") if after == "==" => {
                let what = format!("a set goes with in: {name} in {{…}}");
                return Err(self.lexer.error(span, what));
            }
            _ => {
                let (found, about) = (self.written(&span), kind.about());
                let what =
                    format!("after {after} a value is missing ({about}), and here is {found}");
                return Err(self.lexer.error(span, what));
            }
        };
        match Literal::parse(kind, text, quoted) {
            Ok(literal) => Ok((literal, span)),
            Err(what) => Err(self.lexer.error(span, what)),
        }
    }

    /// The values of a set. One may stand without braces where `single` says so.
    fn set(
        &mut self,
        name: &str,
        kind: Kind,
        operator: &str,
        single: bool,
    ) -> Result<Vec<Literal>, FilterError> {
        let (token, span) = self.lexer.peek()?;
        if token != Token::Sign("{") {
            if single && matches!(token, Token::Word(_) | Token::Quoted(_)) {
                return Ok(vec![self.literal(name, kind, operator)?.0]);
            }
            let below = if kind == Kind::Name {
                format!("; for a name and what is below it: {name} within …")
            } else {
                String::new()
            };
            let what = format!("after {operator} comes a set: {{…, …}}{below}");
            return Err(self.lexer.error(span, what));
        }
        self.lexer.next()?;
        let mut literals = Vec::new();
        let mut after = "{";
        loop {
            if self.lexer.peek()?.0 == Token::Sign("}") && !literals.is_empty() {
                self.lexer.next()?;
                return Ok(literals);
            }
            literals.push(self.literal(name, kind, after)?.0);
            let (token, span) = self.lexer.next()?;
            match token {
                Token::Sign(",") => after = ",",
                Token::Sign("}") => return Ok(literals),
                _ => {
                    let found = self.written(&span);
                    let what = format!("in a set comes , or }} after a value, and here is {found}");
                    return Err(self.lexer.error(span, what));
                }
            }
        }
    }

    fn one_of(&mut self, name: &str, kind: Kind) -> Result<Check, FilterError> {
        let single = matches!(kind, Kind::Address | Kind::Net);
        self.set(name, kind, "in", single).map(Check::OneOf)
    }

    fn within(&mut self, name: &str) -> Result<Check, FilterError> {
        let literals = self.set(name, Kind::Name, "within", true)?;
        let names = literals.into_iter().filter_map(|literal| match literal {
            Literal::Name(name) => Some(name),
            _ => None,
        });
        Ok(Check::Within(names.collect()))
    }

    fn pattern(&mut self, name: &str, kind: Kind, negated: bool) -> Result<Check, FilterError> {
        let (text, quoted, fold, at) = match self.lexer.slashed()? {
            Some((slashed, span)) => {
                let fold = match slashed.flags {
                    "" => false,
                    "i" => true,
                    flags => {
                        let span = span.end - flags.len()..span.end;
                        let what = "after the regular expression may stand i (letter case aside) and nothing else";
                        return Err(self.lexer.error(span, what));
                    }
                };
                (slashed.pattern, false, fold, span.start + 1)
            }
            None => {
                let (token, span) = self.lexer.next()?;
                let Token::Quoted(text) = token else {
                    let what =
                        format!("after ~ comes a regular expression between slashes: {name} ~ /…/");
                    return Err(self.lexer.error(span, what));
                };
                (text, true, false, span.start + 1)
            }
        };
        match pattern::compile(text, kind, fold) {
            Ok(regex) => Ok(Check::Matches(Pattern {
                text: text.to_owned(),
                quoted,
                fold,
                negated,
                regex,
            })),
            Err((span, what)) => {
                let span = at + span.start..at + span.end;
                Err(self.lexer.error(span, what))
            }
        }
    }
}

/// Whether a word is this keyword.
fn is(word: &str, keyword: &str) -> bool {
    word.eq_ignore_ascii_case(keyword)
}

fn is_joint(word: &str) -> bool {
    is(word, "and") || is(word, "or")
}

/// Whether values of that kind have more and less.
const fn takes_order(kind: Kind) -> bool {
    matches!(kind, Kind::Number | Kind::Time | Kind::Span)
}

/// Whether regular expressions go with values of that kind.
const fn takes_patterns(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Octets | Kind::Hex | Kind::Text | Kind::Name | Kind::Word(_)
    )
}

/// Whether sets of values of that kind make sense.
const fn takes_sets(kind: Kind) -> bool {
    !matches!(kind, Kind::Time | Kind::Span | Kind::Flag)
}

/// The operators that go with values of that kind.
const fn operators(kind: Kind) -> &'static str {
    match kind {
        Kind::Number => "==, !=, <, <=, >, >= or in {…}",
        Kind::Numbers => "== or in {…} (one of them is)",
        Kind::Time | Kind::Span => "==, !=, <, <=, > or >=",
        Kind::Octets | Kind::Hex | Kind::Text | Kind::Word(_) => "==, !=, in {…}, ~ or !~",
        Kind::Name => "==, !=, within, in {…}, ~ or !~",
        Kind::Address => "==, != or in",
        Kind::Net => "==, != or in",
        Kind::Flag => "and, or, the end, == or !=",
    }
}
