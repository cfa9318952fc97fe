//! Finds the query to each response.
//!
//! A response belongs to a query of the same addresses, ports, transport and id whose question is the same octets, letters
//! compared without case (RFC 1035 section 2.3.3; some servers fold it). A response without a question, as for a format
//! error, belongs to a query by the rest. Of several equal queries (a client repeats itself) the oldest unanswered one is
//! taken. A zone transfer over TCP is answered by any number of messages, so that its query stays.
//!
//! Nothing is held back: a query is passed on at once, and a response with the time of its query where that is known.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

use super::aged::Aged;
use super::counters::PairCounters;
use super::message::{self, DnsPacket, DnsTransport};

/// Limits of pairing.
#[derive(Clone, Copy, Debug)]
pub struct PairLimits {
    /// Unanswered queries remembered, by distinct addresses, ports and id; 100,000 by default (about 20 MB).
    pub queries_max: usize,
    /// How long, by packet time, a query waits for its response, in nanoseconds; 30 s by default.
    pub age_max_ns: u64,
}

impl Default for PairLimits {
    fn default() -> Self {
        Self {
            queries_max: 100_000,
            age_max_ns: 30_000_000_000,
        }
    }
}

/// Queries of equal addresses, ports and id that are remembered beside each other.
const EQUALS_MAX: usize = 16;
const AXFR: u16 = 252;
const IXFR: u16 = 251;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    client: SocketAddr,
    server: SocketAddr,
    transport: DnsTransport,
    id: u16,
}

#[derive(Clone, Copy)]
struct Query {
    time_ns: u64,
    /// Hash of the question, letters folded.
    question: Option<u64>,
    is_transfer: bool,
    /// Only a transfer that has been answered stays.
    answered: bool,
}

/// Queries waiting under one key, in order of arrival. Nearly always there is one, and it costs no allocation.
struct Waiting {
    first: Query,
    more: Vec<Query>,
}

/// What a message is, once paired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A query.
    Query,
    /// A response, with the time of its query in nanoseconds since the start of 1970 where that was found.
    Response {
        /// Time of the query.
        query_time_ns: Option<u64>,
    },
}

/// Remembers queries until their responses come.
pub struct Pairer {
    waiting: Aged<Key, Waiting>,
    limits: PairLimits,
    hasher: RandomState,
    counters: PairCounters,
}

impl Default for Pairer {
    fn default() -> Self {
        Self::new(PairLimits::default())
    }
}

impl Pairer {
    /// With the given limits.
    pub fn new(limits: PairLimits) -> Self {
        Self {
            waiting: Aged::new(limits.queries_max),
            limits,
            hasher: RandomState::new(),
            counters: PairCounters::default(),
        }
    }

    /// What has been seen so far.
    pub fn counters(&self) -> &PairCounters {
        &self.counters
    }

    /// Takes a message in and says what it is; `None` when it is too short to say.
    pub fn push(&mut self, packet: &DnsPacket<'_>) -> Option<Role> {
        while let Some((_, old)) = self
            .waiting
            .pop_expired(packet.time_ns, self.limits.age_max_ns)
        {
            self.counters.unanswered += old.count();
        }
        let (Some(is_response), Some(id)) = (
            message::is_response(packet.payload),
            message::id(packet.payload),
        ) else {
            self.counters.too_short += 1;
            return None;
        };
        let (client, server) = if is_response {
            (packet.dst, packet.src)
        } else {
            (packet.src, packet.dst)
        };
        let key = Key {
            client,
            server,
            transport: packet.transport,
            id,
        };
        let question = message::question(packet.payload);
        if is_response {
            self.counters.responses += 1;
            let query_time_ns = self.answer(&key, question.map(|octets| self.hash(octets)));
            *(if query_time_ns.is_some() {
                &mut self.counters.paired
            } else {
                &mut self.counters.unasked
            }) += 1;
            return Some(Role::Response { query_time_ns });
        }
        self.counters.queries += 1;
        let qtype = question.and_then(message::question_type);
        let is_transfer =
            packet.transport == DnsTransport::Tcp && matches!(qtype, Some(AXFR | IXFR));
        let question = question.map(|octets| self.hash(octets));
        self.remember(
            key,
            Query {
                time_ns: packet.time_ns,
                question,
                is_transfer,
                answered: false,
            },
        );
        Some(Role::Query)
    }

    fn remember(&mut self, key: Key, query: Query) {
        match self.waiting.find(&key) {
            Some(waiting) => {
                if waiting.more.len() + 1 < EQUALS_MAX {
                    waiting.more.push(query);
                } else {
                    self.counters.evicted += 1;
                }
                self.waiting.touch(&key, query.time_ns);
            }
            None => {
                if self.waiting.is_full()
                    && let Some((_, old)) = self.waiting.pop_oldest()
                {
                    self.counters.evicted += old.count();
                }
                self.waiting.insert(
                    key,
                    Waiting {
                        first: query,
                        more: Vec::new(),
                    },
                    query.time_ns,
                );
            }
        }
    }

    /// Time of the query that a response answers.
    fn answer(&mut self, key: &Key, question: Option<u64>) -> Option<u64> {
        let waiting = self.waiting.find(key)?;
        let answers = |query: &Query| question.is_none() || query.question == question;
        let found = if answers(&waiting.first) {
            let found = waiting.first;
            if found.is_transfer {
                waiting.first.answered = true;
                return Some(found.time_ns);
            }
            if waiting.more.is_empty() {
                self.waiting.remove(key);
            } else {
                waiting.first = waiting.more.remove(0);
            }
            found
        } else {
            let place = waiting.more.iter().position(answers)?;
            waiting.more.remove(place)
        };
        Some(found.time_ns)
    }

    fn hash(&self, question: &[u8]) -> u64 {
        // Folded in place on the stack: a question is at most a name of 255 octets, a type and a class.
        let mut folded = [0; 260];
        let len = question.len().min(folded.len());
        let name_len = len.saturating_sub(4);
        for (at, (to, from)) in folded.iter_mut().zip(question).enumerate() {
            *to = if at < name_len {
                from.to_ascii_lowercase()
            } else {
                *from
            };
        }
        self.hasher.hash_one(folded.get(..len).unwrap_or_default())
    }

    /// The capture is over: queries still waiting are unanswered.
    pub fn finish(&mut self) {
        while let Some((_, old)) = self.waiting.pop_oldest() {
            self.counters.unanswered += old.count();
        }
    }
}

impl Waiting {
    /// Queries without an answer.
    fn count(&self) -> u64 {
        let unanswered = |query: &Query| u64::from(!query.answered);
        unanswered(&self.first) + self.more.iter().map(unanswered).sum::<u64>()
    }
}
