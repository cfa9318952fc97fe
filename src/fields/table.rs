//! The table of fields, and finding one by its name.

use std::borrow::Cow;

use super::{Kind, Subject, Value, Vocabulary};
use crate::dns::{DnsView, EdnsOption, Name, Question};
use crate::dnstap::Policy;

/// A field of records, as the table has it.
#[derive(Debug)]
pub struct Spec {
    /// The name users write.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// What its values are like.
    pub kind: Kind,
    get: for<'a> fn(&mut Subject<'a>) -> Option<Value<'a>>,
}

/// Every field, in the order of the documentation. Beside these there is `tag.NAME`.
pub fn specs() -> &'static [Spec] {
    SPECS
}

/// A chosen field.
#[derive(Clone, Debug)]
pub enum Field {
    /// One of the table.
    Known(&'static Spec),
    /// The word `NAME=value` in `extra`, whose value may be percent-encoded.
    Tag(Box<str>),
}

/// A name that is no field's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct UnknownField {
    /// What was written.
    pub name: String,
    /// The nearest name, where one is near.
    pub near: Option<&'static str>,
}

impl std::fmt::Display for UnknownField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "there is no field \"{}\"", self.name)?;
        match self.near {
            Some(near) => write!(f, "; did you mean {near}?"),
            None => Ok(()),
        }
    }
}

impl Field {
    /// The field of that name.
    ///
    /// # Errors
    /// There is none; the error has the nearest.
    pub fn find(name: &str) -> Result<Self, UnknownField> {
        if let Some(tag) = name.strip_prefix("tag.").filter(|tag| !tag.is_empty()) {
            return Ok(Self::Tag(tag.into()));
        }
        if let Some(spec) = SPECS.iter().find(|spec| spec.name == name) {
            return Ok(Self::Known(spec));
        }
        let near = SPECS
            .iter()
            .map(|spec| spec.name)
            .max_by(|a, b| strsim::jaro(name, a).total_cmp(&strsim::jaro(name, b)))
            .filter(|near| strsim::jaro(name, near) > 0.6);
        Err(UnknownField {
            name: name.to_owned(),
            near,
        })
    }

    /// Its name.
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Self::Known(spec) => Cow::Borrowed(spec.name),
            Self::Tag(tag) => Cow::Owned(format!("tag.{tag}")),
        }
    }

    /// What its values are like.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Known(spec) => spec.kind,
            Self::Tag(_) => Kind::Octets,
        }
    }

    /// Its value in a record; `None` where the record does not say.
    #[inline]
    pub fn of<'a>(&self, subject: &mut Subject<'a>) -> Option<Value<'a>> {
        match self {
            Self::Known(spec) => (spec.get)(subject),
            Self::Tag(tag) => subject
                .view()
                .extra?
                .split(|octet| *octet == b' ')
                .find_map(|word| word.strip_prefix(tag.as_bytes())?.strip_prefix(b"="))
                .map(Value::Encoded),
        }
    }
}

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

fn ecs<'a>(subject: &mut Subject<'a>) -> Option<Value<'a>> {
    subject
        .edns()?
        .options()
        .find_map(|(code, data)| match EdnsOption::parse(code, data) {
            EdnsOption::ClientSubnet(subnet) => {
                Some(Value::Net(subnet.ip()?, subnet.source_prefix))
            }
            _ => None,
        })
}

fn malformed<'a>(subject: &mut Subject<'a>) -> Option<Value<'a>> {
    let (octets, _) = subject.message()?.dns()?;
    let error = match DnsView::parse(octets) {
        Ok(dns) => dns.walk().malformed?,
        Err(error) => error,
    };
    text(error.reason.as_str())
}

use Vocabulary as V;

static SPECS: &[Spec] = &[
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
    field("ecs", Kind::Address, "client subnet of EDNS", ecs),
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
        "the first thing that is wrong with the DNS message",
        malformed,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_found_by_its_name_and_a_wrong_one_gets_the_nearest() {
        for spec in specs() {
            assert_eq!(Field::find(spec.name).unwrap().name(), spec.name);
        }
        assert_eq!(Field::find("qnam").unwrap_err().near, Some("qname"));
        assert_eq!(Field::find("tag.a").unwrap().name(), "tag.a");
    }

    #[test]
    fn tags_are_words_of_extra_and_what_is_absent_stays_absent() {
        let view = crate::dnstap::DnstapView {
            extra: Some(b"site=a%20b x=1"),
            ..Default::default()
        };
        let mut subject = Subject::new(&view);
        let mut out = Vec::new();
        let value = Field::find("tag.site").unwrap().of(&mut subject);
        value.unwrap().write(&mut out);
        assert_eq!(out, b"a b");
        assert!(Field::find("tag.sit").unwrap().of(&mut subject).is_none());
        assert!(Field::find("qname").unwrap().of(&mut subject).is_none());
    }
}
