//! Filter expressions: which records are wanted, in one line. `read`, `convert`, `replay` and the filter stage take them.
//!
//! ```text
//! qname within example.com and qtype in {A, AAAA} and not client in 192.0.2.0/24
//! type == CLIENT_RESPONSE and (rcode == SERVFAIL or latency > 50ms)
//! ```
//!
//! # Grammar
//!
//! ```text
//! expression = both { ("or" | "||") both }
//! both       = part { ("and" | "&&") part }
//! part       = ("not" | "!") part | "(" expression ")" | test
//! test       = FLAG                                            the flag is set
//!            | "has" FIELD                                     the record says
//!            | FIELD ("==" | "!=" | "<" | "<=" | ">" | ">=") VALUE
//!            | FIELD "in" (SET | NETWORK)                      it is one of these, or in one of these networks
//!            | FIELD "within" (SET | NAME)                     the name, or one below it
//!            | FIELD ("~" | "!~") REGEX
//! SET        = "{" VALUE { "," VALUE } [","] "}"
//! REGEX      = "/" … "/" ["i"] | TEXT
//! VALUE      = a word without spaces, ( ) { } , " ' = ! < > ~ & | | TEXT
//! TEXT       = '"' … '"'
//! ```
//!
//! `not` binds tighter than `and`, and `and` tighter than `or`. Keywords are taken in any letter case. Space and line
//! breaks are free.
//!
//! # Fields and values
//!
//! The fields are those of [`fields`](crate::fields::specs), and `tag.NAME`. What a value may be and which operators go
//! with it is the field's [`Kind`](crate::fields::Kind):
//!
//! | kind | operators | a value |
//! |---|---|---|
//! | number | `==` `!=` `<` `<=` `>` `>=` `in` | `512` |
//! | numbers | `==` `in`: one of them is | `8` |
//! | time | `==` `!=` `<` `<=` `>` `>=` | `2026-01-31T12:00:00Z`, also with an offset, or `2026-01-31` (its first moment in UTC) |
//! | seconds | `==` `!=` `<` `<=` `>` `>=` | `50ms`, `1.5s`: always with a unit |
//! | octets, text | `==` `!=` `in` `~` `!~` | `ns1` or `"ns 1"` |
//! | base 16 | `==` `!=` `in` `~` `!~` | `00ff` |
//! | name | `==` `!=` `in` `within` `~` `!~` | `www.example.com`, the final dot as you like |
//! | word | `==` `!=` `in` `~` `!~` | `AAAA`, `TYPE65280`, `28` |
//! | address | `==` `!=`, `in` with networks | `192.0.2.7`, `2001:db8::/32` |
//! | network | `==` `!=` (the same network), `in` (all of it) | `192.0.2.0/24` |
//! | flag | alone, `==` `!=` | `true`, `1`, `false`, `0` |
//!
//! - **Names** are compared octet by octet, ASCII letter case aside (RFC 4343), `within` at the dots: `notexample.com` is
//!   not within `example.com`. A name is written with BIND's escapes, as it is shown everywhere: `\.` for a dot in a
//!   label, `\032` for an octet in decimal.
//! - **Octets** are compared as they are, letter case too. In a text `\"`, `\\` and `\ddd` (decimal) are escapes.
//! - **Addresses**: an IPv4 address in IPv6 (`::ffff:192.0.2.1`) is the IPv4 address.
//! - **Regular expressions** are those of the `regex` crate over octets, without Unicode classes; they match anywhere unless
//!   `^` and `$` say otherwise. `/` is written `\/`. A name is matched as it is shown, with escapes and the final dot, and a
//!   word by its name; both letter case aside. Everything else is matched letter for letter unless an `i` follows.
//!
//! # What a record does not say
//!
//! A test of a field that the record lacks does not hold, whichever test: a query has no `rcode`, so neither `rcode ==
//! NXDOMAIN` nor `rcode != NXDOMAIN` matches it. `not rcode == NXDOMAIN` does. `has rcode` asks for just that.
//!
//! # How it works
//!
//! Text becomes an [`Expression`], whose values are read and whose kinds are checked, with [`FilterError`]s that mark the
//! place; that becomes a [`Filter`], steps without recursion over the borrowed record. Only the fields that are reached are
//! decoded. Length, nesting, the number of tests and the size of regular expressions are limited; sets are not slower for
//! being large.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]

mod error;
mod expression;
mod fuzz;
mod lexer;
mod literal;
mod parser;
mod pattern;
mod program;
mod sets;

pub use error::FilterError;
pub use expression::Expression;
#[doc(hidden)]
pub use fuzz::fuzz_expression;
pub use literal::Literal;
pub use parser::{NESTING_MAX, TESTS_MAX, TEXT_MAX};
pub use pattern::{PATTERN_MAX, PATTERN_NESTING_MAX};
pub use program::Filter;

#[cfg(test)]
mod tests;
