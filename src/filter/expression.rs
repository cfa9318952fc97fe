//! [`Expression`]: what was written, its values read and its kinds checked.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use super::error::FilterError;
use super::literal::{Literal, write_name};
use super::parser;
use super::pattern::Pattern;
use crate::dns::NameBuf;
use crate::fields::{Field, UnknownField};

/// An expression. `Display` gives it in one form whatever it was written like, which reads back as the same.
#[derive(Clone, Debug, Default)]
pub struct Expression {
    /// In postfix order: what an operator combines stands before it. Flat, so that however deep it is written, nothing
    /// that is done with it recurses. Empty: every record matches.
    pub(super) items: Vec<Item>,
}

/// A piece of an expression.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Test(Test),
    Not,
    And,
    Or,
}

/// What is asked of one field.
#[derive(Clone, Debug)]
pub(super) struct Test {
    pub(super) field: Field,
    pub(super) check: Check,
}

/// What a field is compared with.
#[derive(Clone, Debug)]
pub(super) enum Check {
    /// The record says.
    Present,
    /// A flag alone: it is set.
    Set,
    /// One value.
    Compare(Order, Literal),
    /// Any of these.
    OneOf(Vec<Literal>),
    /// These names, or names below them.
    Within(Vec<NameBuf>),
    /// A regular expression.
    Matches(Pattern),
}

/// How a value stands to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Order {
    const ALL: [(&'static str, Self); 6] = [
        ("==", Self::Equal),
        ("!=", Self::NotEqual),
        ("<", Self::Less),
        ("<=", Self::LessOrEqual),
        (">", Self::Greater),
        (">=", Self::GreaterOrEqual),
    ];

    pub(super) fn of_sign(sign: &str) -> Option<Self> {
        let row = Self::ALL.into_iter().find(|row| row.0 == sign)?;
        Some(row.1)
    }

    const fn sign(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }

    /// Whether it is about more and less, and not only about the same.
    pub(super) const fn is_relative(self) -> bool {
        !matches!(self, Self::Equal | Self::NotEqual)
    }

    /// Whether values that stand so to each other satisfy it.
    #[inline]
    pub(super) const fn holds(self, found: Ordering) -> bool {
        match self {
            Self::Equal => found.is_eq(),
            Self::NotEqual => found.is_ne(),
            Self::Less => found.is_lt(),
            Self::LessOrEqual => found.is_le(),
            Self::Greater => found.is_gt(),
            Self::GreaterOrEqual => found.is_ge(),
        }
    }
}

impl Expression {
    /// The expression that every record matches.
    pub const fn all() -> Self {
        Self { items: Vec::new() }
    }

    /// Whether every record matches since nothing is asked.
    pub fn is_all(&self) -> bool {
        self.items.is_empty()
    }

    /// `field in {literals}`, whose kind is the field's.
    ///
    /// # Errors
    /// There is no such field.
    pub fn one_of(field: &str, literals: Vec<Literal>) -> Result<Self, UnknownField> {
        Self::test(field, Check::OneOf(literals))
    }

    /// `field within {names}`.
    ///
    /// # Errors
    /// There is no such field.
    pub fn within(field: &str, names: Vec<NameBuf>) -> Result<Self, UnknownField> {
        Self::test(field, Check::Within(names))
    }

    fn test(field: &str, check: Check) -> Result<Self, UnknownField> {
        let field = Field::find(field)?;
        Ok(Self {
            items: vec![Item::Test(Test { field, check })],
        })
    }

    /// What matches both.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        if self.is_all() {
            return other;
        }
        if !other.is_all() {
            self.items.extend(other.items);
            self.items.push(Item::And);
        }
        self
    }

    /// What does not match. Where nothing is asked there is nothing to turn round: the same.
    #[must_use]
    pub fn negated(mut self) -> Self {
        if !self.is_all() {
            self.items.push(Item::Not);
        }
        self
    }

    /// The fields that are asked for, in the order of the expression.
    pub fn fields(&self) -> impl Iterator<Item = &Field> {
        self.items.iter().filter_map(|item| match item {
            Item::Test(test) => Some(&test.field),
            _ => None,
        })
    }
}

impl FromStr for Expression {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        parser::parse(text)
    }
}

/// How tightly what was printed last binds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binds {
    Or,
    And,
    Not,
    Test,
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<(String, Binds)> = Vec::new();
        let wrap = |(text, binds): (String, Binds), least: Binds| match binds < least {
            true => format!("({text})"),
            false => text,
        };
        for item in &self.items {
            let part = match item {
                Item::Test(test) => (test.to_string(), Binds::Test),
                Item::Not => {
                    let inner = parts.pop().ok_or(fmt::Error)?;
                    (format!("not {}", wrap(inner, Binds::Not)), Binds::Not)
                }
                Item::And | Item::Or => {
                    let (word, binds) = match item {
                        Item::And => (" and ", Binds::And),
                        _ => (" or ", Binds::Or),
                    };
                    let right = parts.pop().ok_or(fmt::Error)?;
                    let left = parts.pop().ok_or(fmt::Error)?;
                    let mut text = wrap(left, binds);
                    text.push_str(word);
                    // Chains lean to the left, as they are read.
                    let right = match right.1 == binds {
                        true => format!("({})", right.0),
                        false => wrap(right, binds),
                    };
                    text.push_str(&right);
                    (text, binds)
                }
            };
            parts.push(part);
        }
        match parts.pop() {
            Some((text, _)) => f.write_str(&text),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.field.name();
        match &self.check {
            Check::Present => write!(f, "has {name}"),
            Check::Set => f.write_str(&name),
            Check::Compare(order, literal) => write!(f, "{name} {} {literal}", order.sign()),
            Check::OneOf(literals) => {
                write!(f, "{name} in {{")?;
                for (i, literal) in literals.iter().enumerate() {
                    write!(f, "{}{literal}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("}")
            }
            Check::Within(names) => {
                write!(f, "{name} within {{")?;
                for (i, name) in names.iter().enumerate() {
                    f.write_str(if i > 0 { ", " } else { "" })?;
                    write_name(f, name)?;
                }
                f.write_str("}")
            }
            Check::Matches(pattern) => write!(f, "{name} {pattern}"),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.negated { "!~" } else { "~" };
        let mark = if self.quoted { '"' } else { '/' };
        let flags = if self.fold { "i" } else { "" };
        write!(f, "{sign} {mark}{}{mark}{flags}", self.text)
    }
}
