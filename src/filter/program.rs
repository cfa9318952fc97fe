//! [`Filter`]: an expression compiled to steps, each a test that says where to go on.
//!
//! A step that holds leads to one place and one that does not to another, so `and`, `or` and `not` cost nothing when a
//! record is judged, and what cannot change the answer is not decoded. Steps lead to lower indices only: every record is
//! judged after as many steps as there are tests at most, without a stack.

use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;
use regex::bytes::Regex;

use super::error::FilterError;
use super::expression::{Check, Expression, Item, Order, Test};
use super::literal::Literal;
use super::sets::{NameSet, NetSet, OctetSet};
use crate::dnstap::{DnstapView, Message, MessageType, Timestamp};
use crate::fields::value::decoded;
use crate::fields::{Field, Kind, Subject, Value};

/// The record matches.
const YES: u32 = u32::MAX;
/// It does not.
const NO: u32 = u32::MAX - 1;

/// A compiled expression. A clone shares the sets and has scratch space of its own: make one for each thread.
#[derive(Clone, Debug)]
pub struct Filter {
    steps: Box<[Step]>,
    /// The step to begin with.
    first: u32,
    /// The first step looks into the DNS message, so every record's will be looked into.
    begins_with_dns: bool,
    /// For what has to be written before it can be looked at: names and words for regular expressions.
    scratch: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Step {
    field: Field,
    probe: Probe,
    /// The probe must not hold. What the record does not say holds neither way.
    negated: bool,
    yes: u32,
    no: u32,
}

/// What is asked of a value.
#[derive(Clone, Debug)]
enum Probe {
    Present,
    Flag(bool),
    Number(Order, u64),
    Time(Order, Timestamp),
    Span(Order, std::time::Duration),
    /// In order.
    Numbers(Arc<[u64]>),
    /// In order.
    Words(Arc<[i32]>),
    Octets(Arc<OctetSet>),
    Names(Arc<NameSet>),
    Within(Arc<NameSet>),
    Nets(Arc<NetSet>),
    Net(IpNet),
    /// Each clone has caches of its own.
    Regex(Regex),
}

impl Filter {
    /// Compiles an expression.
    pub fn new(expression: &Expression) -> Self {
        let mut steps: Vec<Step> = Vec::new();
        // From the end of the postfix form the right side of an operator comes first, so that its first step is known
        // when the left side begins: it is the step that was made last.
        let mut goals = vec![Goal {
            yes: To::Step(YES),
            no: To::Step(NO),
        }];
        for item in expression.items.iter().rev() {
            let Some(goal) = goals.pop() else { break };
            let last = steps.len().checked_sub(1).map_or(YES, |at| at as u32);
            let goal = Goal {
                yes: goal.yes.known(last),
                no: goal.no.known(last),
            };
            match item {
                Item::Not => goals.push(Goal {
                    yes: goal.no,
                    no: goal.yes,
                }),
                // The side that is pushed last is compiled first.
                Item::And => goals.extend([
                    Goal {
                        yes: To::Last,
                        ..goal
                    },
                    goal,
                ]),
                Item::Or => goals.extend([
                    Goal {
                        no: To::Last,
                        ..goal
                    },
                    goal,
                ]),
                Item::Test(test) => {
                    let (probe, negated) = probe(test);
                    steps.push(Step {
                        field: test.field.clone(),
                        probe,
                        negated,
                        yes: goal.yes.step(),
                        no: goal.no.step(),
                    });
                }
            }
        }
        Self {
            first: steps.len().checked_sub(1).map_or(YES, |at| at as u32),
            begins_with_dns: steps.last().is_some_and(|step| reads_dns(&step.field)),
            steps: steps.into(),
            scratch: Vec::new(),
        }
    }

    /// Whether no record can be judged without its DNS message: whoever keeps what is decoded may decode it beforehand.
    pub fn begins_with_dns(&self) -> bool {
        self.begins_with_dns
    }

    /// Whether the record matches. Allocates nothing once the scratch space has grown.
    #[inline]
    pub fn matches(&mut self, subject: &mut Subject<'_>) -> bool {
        let mut at = self.first;
        while let Some(step) = self.steps.get(at as usize) {
            let holds = match step.field.of(subject) {
                None => false,
                Some(value) => step.probe.holds(&value, &mut self.scratch) != step.negated,
            };
            at = if holds { step.yes } else { step.no };
        }
        at == YES
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        text.parse()
            .map(|expression: Expression| Self::new(&expression))
    }
}

/// Whether a field is one of the DNS message, found out by asking a record for it.
fn reads_dns(field: &Field) -> bool {
    let view = DnstapView {
        kind: Some(DnstapView::KIND_MESSAGE),
        message: Some(Message {
            kind: Some(MessageType::ToolResponse.number()),
            response_message: Some(&[0; 12]),
            ..Message::default()
        }),
        ..DnstapView::default()
    };
    let mut subject = Subject::new(&view);
    let _ = field.of(&mut subject);
    subject.has_read_dns()
}

/// Where to go on from a part of an expression.
#[derive(Clone, Copy)]
struct Goal {
    yes: To,
    no: To,
}

#[derive(Clone, Copy)]
enum To {
    /// The step made last when this part begins.
    Last,
    Step(u32),
}

impl To {
    const fn known(self, last: u32) -> Self {
        match self {
            Self::Last => Self::Step(last),
            known => known,
        }
    }

    const fn step(self) -> u32 {
        match self {
            Self::Step(at) => at,
            // Made known before any use.
            Self::Last => NO,
        }
    }
}

/// The probe of a test, and whether it must not hold.
fn probe(test: &Test) -> (Probe, bool) {
    let kind = test.field.kind();
    match &test.check {
        Check::Present => (Probe::Present, false),
        Check::Set => (Probe::Flag(true), false),
        Check::Within(names) => (Probe::Within(Arc::new(NameSet::new(names))), false),
        Check::OneOf(literals) => (one_of(literals), false),
        Check::Matches(pattern) => (Probe::Regex(pattern.regex.clone()), pattern.negated),
        Check::Compare(order, literal) => {
            let probe = match literal {
                Literal::Number(number) if kind == Kind::Number => {
                    return (Probe::Number(*order, *number), false);
                }
                Literal::Time(time) => return (Probe::Time(*order, *time), false),
                Literal::Span(span) => return (Probe::Span(*order, *span), false),
                Literal::Flag(flag) => Probe::Flag(*flag),
                Literal::Net(net) if kind == Kind::Net => Probe::Net(net.0),
                other => one_of(std::slice::from_ref(other)),
            };
            (probe, *order == Order::NotEqual)
        }
    }
}

/// Values of one kind.
fn one_of(literals: &[Literal]) -> Probe {
    /// Those that are of the kind of the first, which are all.
    fn only<'a, T>(literals: &'a [Literal], pick: impl Fn(&'a Literal) -> Option<T>) -> Vec<T> {
        literals.iter().filter_map(pick).collect()
    }
    match literals.first() {
        Some(Literal::Word(..)) => {
            let mut words = only(literals, |literal| match literal {
                Literal::Word(_, word) => Some(*word),
                _ => None,
            });
            words.sort_unstable();
            Probe::Words(words.into())
        }
        Some(Literal::Name(_)) => {
            let names = only(literals, |literal| match literal {
                Literal::Name(name) => Some(name.clone()),
                _ => None,
            });
            Probe::Names(Arc::new(NameSet::new(&names)))
        }
        Some(Literal::Net(_)) => {
            let nets = only(literals, |literal| match literal {
                Literal::Net(net) => Some(&net.0),
                _ => None,
            });
            Probe::Nets(Arc::new(NetSet::new(nets.into_iter())))
        }
        Some(Literal::Octets(_) | Literal::Hex(_)) => {
            let octets = only(literals, |literal| match literal {
                Literal::Octets(octets) | Literal::Hex(octets) => Some(octets.as_slice()),
                _ => None,
            });
            Probe::Octets(Arc::new(OctetSet::new(octets.into_iter())))
        }
        _ => {
            let mut numbers = only(literals, |literal| match literal {
                Literal::Number(number) => Some(*number),
                _ => None,
            });
            numbers.sort_unstable();
            Probe::Numbers(numbers.into())
        }
    }
}

impl Probe {
    /// Whether a value is what is asked for. A value of another kind is not.
    #[inline]
    fn holds(&self, value: &Value<'_>, scratch: &mut Vec<u8>) -> bool {
        match (self, value) {
            (Self::Present, _) => true,
            (Self::Flag(wanted), Value::Flag(flag)) => flag == wanted,
            (Self::Number(order, than), Value::Number(number)) => order.holds(number.cmp(than)),
            (Self::Time(order, than), Value::Time(time)) => order.holds(time.cmp(than)),
            (Self::Span(order, than), Value::Span(span)) => order.holds(span.cmp(than)),
            (Self::Words(words), Value::Word(_, word)) => words.binary_search(word).is_ok(),
            (Self::Numbers(all), Value::Number(number)) => all.binary_search(number).is_ok(),
            (Self::Numbers(all), Value::Numbers(numbers)) => numbers
                .iter()
                .any(|number| all.binary_search(&number).is_ok()),
            (Self::Within(names), Value::Name(name)) => names.covers(name),
            (Self::Names(names), Value::Name(name)) => names.holds(name),
            (Self::Nets(nets), Value::Address(address)) => nets.holds(*address),
            (Self::Nets(nets), Value::Net(address, prefix)) => {
                IpNet::new(*address, *prefix).is_ok_and(|net| nets.covers(&net))
            }
            (Self::Net(wanted), Value::Net(address, prefix)) => {
                IpNet::new(*address, *prefix).is_ok_and(|net| net.trunc() == wanted.trunc())
            }
            (Self::Octets(all), value) => all.holds(octets(value, scratch, false)),
            (Self::Regex(regex), value) => regex.is_match(octets(value, scratch, true)),
            _ => false,
        }
    }
}

/// The octets of a value, or those of its text, written to `scratch`.
#[inline]
fn octets<'a>(value: &Value<'a>, scratch: &'a mut Vec<u8>, shown: bool) -> &'a [u8] {
    match value {
        Value::Octets(octets) => return octets,
        Value::Hex(octets) if !shown => return octets,
        _ => scratch.clear(),
    }
    match value {
        Value::Encoded(octets) => scratch.extend(decoded(octets)),
        other => other.write(scratch),
    }
    scratch
}
