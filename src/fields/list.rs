//! Every field: its name, its kind, a line about it, and how it is had.

use super::table::Spec;
use super::value::{Numbers, Text};
use super::{Kind, Subject, Value, Vocabulary};
use crate::dns::{EdnsOption, Malformed, Name, Question, Section};
use crate::dnstap::Policy;

/// Opcode of a dynamic update, whose sections hold no answers (RFC 2136, 2).
const UPDATE: u8 = 5;

const fn field(
    name: &'static str,
    kind: Kind,
    about: &'static str,
    get: for<'a> fn(&mut Subject<'a>) -> Option<Value<'a>>,
) -> Spec {
    Spec {
        name,
        about,
        kind,
        get,
    }
}

fn question<'a>(subject: &mut Subject<'a>) -> Option<Question<'a>> {
    subject.dns()?.question().ok().flatten()
}

fn policy<'a>(subject: &Subject<'a>) -> Option<Policy<'a>> {
    subject.message()?.policy
}

fn flag<'a>(subject: &mut Subject<'a>, bit: u16) -> Option<Value<'a>> {
    Some(Value::Flag(subject.dns()?.header().flags & bit != 0))
}

fn number<'a>(number: impl Into<u64>) -> Option<Value<'a>> {
    Some(Value::Number(number.into()))
}

fn word<'a>(words: Vocabulary, number: impl Into<i32>) -> Option<Value<'a>> {
    Some(Value::Word(words, number.into()))
}

fn text(text: &str) -> Option<Value<'_>> {
    (!text.is_empty()).then_some(Value::Octets(text.as_bytes()))
}

/// The first EDNS option that is what is looked for.
fn option<'a, T>(
    subject: &mut Subject<'a>,
    mut wanted: impl FnMut(EdnsOption<'a>, &'a [u8]) -> Option<T>,
) -> Option<T> {
    let mut options = subject.edns()?.options();
    options.find_map(|(code, data)| wanted(EdnsOption::parse(code, data), data))
}

/// The DNS message first: what is wrong there costs more of the record than what is odd around it.
fn malformed<'a>(subject: &mut Subject<'a>) -> Option<Value<'a>> {
    let message = subject.message()?;
    let wrong = match (message.dns(), subject.dns()) {
        (None, _) => None,
        (Some(_), None) => Some(Malformed::HeaderCut),
        (Some(_), Some(dns)) => dns.walk().malformed.map(|error| error.reason),
    };
    let label = match wrong {
        Some(reason) => reason.as_str(),
        None => message.oddities().iter().next()?.as_str(),
    };
    text(label)
}

fn extended_errors<'a>(subject: &mut Subject<'a>) -> Option<Value<'a>> {
    let errors = Numbers::ExtendedErrors(subject.edns()?);
    errors.iter().next()?;
    Some(Value::Numbers(errors))
}

fn options<'a>(subject: &mut Subject<'a>) -> Option<Value<'a>> {
    let options = Numbers::Options(subject.edns()?);
    options.iter().next()?;
    Some(Value::Numbers(options))
}

fn answers<'a>(subject: &mut Subject<'a>) -> Option<Value<'a>> {
    let dns = subject.dns()?;
    let first = dns.records().next()?;
    let is_answer = first.section == Section::Answer && dns.header().opcode() != UPDATE;
    is_answer.then_some(Value::Text(Text::Answers(dns)))
}

use Vocabulary as V;

pub(super) static SPECS: &[Spec] = &[
    field(
        "timestamp",
        Kind::Time,
        "when the event took place: the response time of a response, the query time of a query",
        |s| s.message()?.time().map(Value::Time),
    ),
    field(
        "query_time",
        Kind::Time,
        "when the query was sent or received",
        |s| s.message()?.query_time().map(Value::Time),
    ),
    field(
        "response_time",
        Kind::Time,
        "when the response was sent or received",
        |s| s.message()?.response_time().map(Value::Time),
    ),
    field(
        "latency",
        Kind::Span,
        "seconds from query to response, where both times are there and sane",
        |s| s.message()?.latency().map(Value::Span),
    ),
    field(
        "identity",
        Kind::Octets,
        "name of the sending server",
        |s| s.view().identity.map(Value::Octets),
    ),
    field(
        "version",
        Kind::Octets,
        "version of the sending server",
        |s| s.view().version.map(Value::Octets),
    ),
    field(
        "extra",
        Kind::Octets,
        "what the sender added for its own use",
        |s| s.view().extra.map(Value::Octets),
    ),
    field(
        "type",
        Kind::Word(V::MessageType),
        "dnstap message type",
        |s| word(V::MessageType, s.message()?.kind?),
    ),
    field(
        "family",
        Kind::Word(V::Family),
        "address family as stated",
        |s| word(V::Family, s.message()?.socket_family?),
    ),
    field(
        "protocol",
        Kind::Word(V::Protocol),
        "transport of the DNS message",
        |s| word(V::Protocol, s.message()?.socket_protocol?),
    ),
    field(
        "http_protocol",
        Kind::Word(V::Http),
        "HTTP version under DNS over HTTPS",
        |s| word(V::Http, s.message()?.http_protocol?),
    ),
    field(
        "query_address",
        Kind::Address,
        "address of whoever asked",
        |s| s.message()?.query_ip().map(Value::Address),
    ),
    field("client", Kind::Address, "the same as query_address", |s| {
        s.message()?.client_ip().map(Value::Address)
    }),
    field("query_port", Kind::Number, "port of whoever asked", |s| {
        number(s.message()?.query_port?)
    }),
    field(
        "response_address",
        Kind::Address,
        "address of whoever answered",
        |s| s.message()?.response_ip().map(Value::Address),
    ),
    field(
        "response_port",
        Kind::Number,
        "port of whoever answered",
        |s| number(s.message()?.response_port?),
    ),
    field("query_zone", Kind::Name, "zone of the query", |s| {
        s.message()?
            .zone()
            .and_then(Name::from_wire)
            .map(Value::Name)
    }),
    field(
        "policy.type",
        Kind::Octets,
        "kind of the policy that took effect, such as RPZ",
        |s| policy(s)?.kind.map(Value::Octets),
    ),
    field("policy.rule", Kind::Octets, "its rule", |s| {
        policy(s)?.rule.map(Value::Octets)
    }),
    field(
        "policy.action",
        Kind::Word(V::PolicyAction),
        "what it did",
        |s| word(V::PolicyAction, policy(s)?.action?),
    ),
    field(
        "policy.match",
        Kind::Word(V::PolicyMatch),
        "what it matched",
        |s| word(V::PolicyMatch, policy(s)?.matched?),
    ),
    field(
        "policy.value",
        Kind::Octets,
        "the value that matched",
        |s| policy(s)?.value.map(Value::Octets),
    ),
    field("qname", Kind::Name, "name asked about", |s| {
        question(s).map(|q| Value::Name(q.name))
    }),
    field(
        "qname_labels",
        Kind::Number,
        "labels of that name, the root's not counted",
        |s| number(question(s)?.name.labels().count() as u64),
    ),
    field("qtype", Kind::Word(V::Rtype), "type asked for", |s| {
        word(V::Rtype, question(s)?.qtype)
    }),
    field("qclass", Kind::Word(V::Class), "class asked for", |s| {
        word(V::Class, question(s)?.qclass)
    }),
    field(
        "rcode",
        Kind::Word(V::Rcode),
        "response code of a response, its EDNS part included",
        |s| {
            let (_, is_response) = s.message()?.dns()?;
            let header = s.dns().filter(|_| is_response)?.header();
            let high = s.edns().map_or(0, |edns| edns.ext_rcode);
            word(V::Rcode, u16::from(high) << 4 | u16::from(header.rcode()))
        },
    ),
    field("opcode", Kind::Word(V::Opcode), "kind of query", |s| {
        word(V::Opcode, s.dns()?.header().opcode())
    }),
    field(
        "flags",
        Kind::Text,
        "the flags that are set, such as \"qr rd ra\"",
        |s| {
            let flags = s.dns()?.header().flags;
            Some(Value::Text(Text::Flags(flags)))
        },
    ),
    field("id", Kind::Number, "id of the DNS message", |s| {
        number(s.dns()?.header().id)
    }),
    field("qr", Kind::Flag, "the DNS message is a response", |s| {
        flag(s, 0x8000)
    }),
    field("aa", Kind::Flag, "the answer is authoritative", |s| {
        flag(s, 0x0400)
    }),
    field("tc", Kind::Flag, "the message was cut to fit", |s| {
        flag(s, 0x0200)
    }),
    field("rd", Kind::Flag, "recursion is asked for", |s| {
        flag(s, 0x0100)
    }),
    field("ra", Kind::Flag, "recursion is offered", |s| {
        flag(s, 0x0080)
    }),
    field("z", Kind::Flag, "the bit that is not assigned", |s| {
        flag(s, 0x0040)
    }),
    field("ad", Kind::Flag, "the data are authentic", |s| {
        flag(s, 0x0020)
    }),
    field("cd", Kind::Flag, "checking is disabled", |s| {
        flag(s, 0x0010)
    }),
    field("do", Kind::Flag, "DNSSEC records are wanted", |s| {
        Some(Value::Flag(s.edns()?.do_bit))
    }),
    field("questions", Kind::Number, "questions by the header", |s| {
        number(s.dns()?.header().questions)
    }),
    field("answers", Kind::Number, "answers by the header", |s| {
        number(s.dns()?.header().answers)
    }),
    field(
        "authorities",
        Kind::Number,
        "authority records by the header",
        |s| number(s.dns()?.header().authorities),
    ),
    field(
        "additionals",
        Kind::Number,
        "additional records by the header",
        |s| number(s.dns()?.header().additionals),
    ),
    field("length", Kind::Number, "octets of the DNS message", |s| {
        number(s.message()?.dns()?.0.len() as u64)
    }),
    field("edns", Kind::Number, "EDNS version", |s| {
        number(s.edns()?.version)
    }),
    field(
        "udp_size",
        Kind::Number,
        "UDP payload size that EDNS states",
        |s| number(s.edns()?.udp_size),
    ),
    field(
        "edns_options",
        Kind::Numbers,
        "codes of the EDNS options",
        options,
    ),
    field("ecs", Kind::Net, "client subnet of EDNS", |s| {
        option(s, |option, _| match option {
            EdnsOption::ClientSubnet(subnet) => {
                Some(Value::Net(subnet.ip()?, subnet.source_prefix))
            }
            _ => None,
        })
    }),
    field(
        "nsid",
        Kind::Octets,
        "name server identifier of EDNS",
        |s| {
            option(s, |option, _| match option {
                EdnsOption::Nsid(id) => Some(Value::Octets(id)),
                _ => None,
            })
        },
    ),
    field(
        "cookie",
        Kind::Hex,
        "cookie of EDNS: eight octets of the client's, then the server's",
        |s| {
            option(s, |option, data| match option {
                EdnsOption::Cookie { .. } => Some(Value::Hex(data)),
                _ => None,
            })
        },
    ),
    field(
        "ede",
        Kind::Numbers,
        "info codes of the extended DNS errors",
        extended_errors,
    ),
    field(
        "ede_text",
        Kind::Octets,
        "text of the first extended DNS error that has one",
        |s| {
            option(s, |option, _| match option {
                EdnsOption::ExtendedError { text, .. } if !text.is_empty() => {
                    Some(Value::Octets(text))
                }
                _ => None,
            })
        },
    ),
    field(
        "rdata",
        Kind::Text,
        "data of the answers as in zone files, a comma between two",
        answers,
    ),
    field("received", Kind::Time, "when the frame was received", |s| {
        s.received().map(Value::Time)
    }),
    field("listener", Kind::Octets, "listener it came over", |s| {
        text(s.listener)
    }),
    field(
        "peer",
        Kind::Octets,
        "the sender's address on the socket, or the file",
        |s| text(s.peer),
    ),
    field(
        "malformed",
        Kind::Octets,
        "the first thing that is wrong with the DNS message, or else what is odd in the dnstap message",
        malformed,
    ),
];
