//! [`Vocabulary`]: the numbers of a field that have names, both ways.

use super::nearest;
use crate::digits;
use crate::dns::iana;
use crate::dnstap::{
    HttpProtocol, MessageType, PolicyAction, PolicyMatch, SocketFamily, SocketProtocol,
};

/// Where the numbers of a field have their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vocabulary {
    /// dnstap message types.
    MessageType,
    /// Address families.
    Family,
    /// Transports.
    Protocol,
    /// HTTP versions.
    Http,
    /// What a policy did.
    PolicyAction,
    /// What a policy matched.
    PolicyMatch,
    /// Record types.
    Rtype,
    /// Classes.
    Class,
    /// Response codes.
    Rcode,
    /// Opcodes.
    Opcode,
}

/// A word that is none of a vocabulary.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct UnknownWord {
    /// What was written.
    pub word: String,
    /// What it should have been one of.
    pub vocabulary: Vocabulary,
    /// The nearest name, where one is near.
    pub near: Option<&'static str>,
}

impl std::fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (word, what) = (&self.word, self.vocabulary.what());
        write!(f, "\"{word}\" is no {what}")?;
        match (self.near, self.vocabulary.max()) {
            (Some(near), _) => write!(f, "; did you mean {near}?"),
            (None, Some(max)) => write!(f, ": it takes a name, or a number up to {max}"),
            (None, None) => {
                let names: Vec<_> = self.vocabulary.names().collect();
                write!(f, ": it takes a number or one of {}", names.join(", "))
            }
        }
    }
}

impl Vocabulary {
    /// The number of a name, in any letter case, or of its decimal digits. Also of `TYPE65280`, `CLASS4242`, `RCODE16` and
    /// `OPCODE7`. What dnstap numbers may be any number that its messages can carry, 32 bits with a sign.
    ///
    /// # Errors
    /// There is no such name, or the number is more than the field of DNS can hold.
    pub fn number(self, text: &str) -> Result<i32, UnknownWord> {
        let any = |named: Option<i32>| named.or_else(|| signed(text));
        match self {
            Self::MessageType => any(MessageType::from_name(text).map(MessageType::number)),
            Self::Family => any(SocketFamily::from_name(text).map(SocketFamily::number)),
            Self::Protocol => any(SocketProtocol::from_name(text).map(SocketProtocol::number)),
            Self::Http => any(HttpProtocol::from_name(text).map(HttpProtocol::number)),
            Self::PolicyAction => any(PolicyAction::from_name(text).map(PolicyAction::number)),
            Self::PolicyMatch => any(PolicyMatch::from_name(text).map(PolicyMatch::number)),
            Self::Rtype => iana::type_number(text).map(i32::from),
            Self::Class => iana::class_number(text).map(i32::from),
            Self::Rcode => iana::rcode_number(text).map(i32::from),
            Self::Opcode => iana::opcode_number(text).map(i32::from),
        }
        .ok_or_else(|| UnknownWord {
            word: text.to_owned(),
            vocabulary: self,
            near: nearest(text, self.names()),
        })
    }

    /// What one of its members is called.
    pub const fn what(self) -> &'static str {
        match self {
            Self::MessageType => "dnstap message type",
            Self::Family => "address family",
            Self::Protocol => "transport",
            Self::Http => "HTTP version",
            Self::PolicyAction => "policy action",
            Self::PolicyMatch => "policy match",
            Self::Rtype => "record type",
            Self::Class => "class",
            Self::Rcode => "response code",
            Self::Opcode => "opcode",
        }
    }

    /// The greatest number that the field of a DNS message can hold; `None` for the numbers of dnstap, which are any.
    pub const fn max(self) -> Option<u16> {
        match self {
            Self::Rtype | Self::Class => Some(u16::MAX),
            Self::Rcode => Some(4095),
            Self::Opcode => Some(15),
            _ => None,
        }
    }

    /// Every name, in the order of the numbers.
    pub fn names(self) -> Box<dyn Iterator<Item = &'static str>> {
        let all = |names: &'static [&'static str]| Box::new(names.iter().copied());
        match self {
            Self::MessageType => all(MessageType::NAMES),
            Self::Family => all(SocketFamily::NAMES),
            Self::Protocol => all(SocketProtocol::NAMES),
            Self::Http => all(HttpProtocol::NAMES),
            Self::PolicyAction => all(PolicyAction::NAMES),
            Self::PolicyMatch => all(PolicyMatch::NAMES),
            Self::Rtype => Box::new(iana::types().map(|row| row.1)),
            Self::Class => Box::new(iana::classes().map(|row| row.1)),
            Self::Rcode => Box::new(iana::rcodes().map(|row| row.1)),
            Self::Opcode => Box::new(iana::opcodes().map(|row| row.1)),
        }
    }

    /// Appends the name of a number, or what stands for it where it has none; [`number`](Self::number) reads both.
    pub fn write(self, out: &mut Vec<u8>, number: i32) {
        let name = match self {
            Self::MessageType => MessageType::from_number(number).name(),
            Self::Family => SocketFamily::from_number(number).name(),
            Self::Protocol => SocketProtocol::from_number(number).name(),
            Self::Http => HttpProtocol::from_number(number).name(),
            Self::PolicyAction => PolicyAction::from_number(number).name(),
            Self::PolicyMatch => PolicyMatch::from_number(number).name(),
            Self::Rtype => return iana::write_type(out, number as u16),
            Self::Class => return iana::write_class(out, number as u16),
            Self::Rcode => return iana::write_rcode(out, number as u16),
            Self::Opcode => return iana::write_opcode(out, number as u8),
        };
        match name {
            Some(name) => out.extend_from_slice(name.as_bytes()),
            None => digits::signed(out, number),
        }
    }
}

/// Decimal digits, with `-` in front of a number below 0. `parse` alone would take `+` as well.
fn signed(text: &str) -> Option<i32> {
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Vocabulary; 10] = [
        Vocabulary::MessageType,
        Vocabulary::Family,
        Vocabulary::Protocol,
        Vocabulary::Http,
        Vocabulary::PolicyAction,
        Vocabulary::PolicyMatch,
        Vocabulary::Rtype,
        Vocabulary::Class,
        Vocabulary::Rcode,
        Vocabulary::Opcode,
    ];

    #[test]
    fn every_number_reads_back_from_what_is_written_for_it() {
        for vocabulary in ALL {
            let last = vocabulary.max().map_or(40, i32::from);
            let first = if vocabulary.max().is_some() { 0 } else { -2 };
            for number in first..=last {
                let mut text = Vec::new();
                vocabulary.write(&mut text, number);
                let text = String::from_utf8(text).unwrap().to_lowercase();
                assert_eq!(vocabulary.number(&text), Ok(number), "{text}");
            }
            for name in vocabulary.names() {
                assert!(vocabulary.number(name).is_ok(), "{name}");
            }
        }
    }

    #[test]
    fn numbers_that_no_message_can_hold_are_errors() {
        use Vocabulary as V;
        for (vocabulary, texts) in [
            (V::Rcode, &["4096", "-1", "RCODE4096", "+1", ""][..]),
            (V::Rtype, &["65536", "TYPE65536", "-1", "TYPE", "TYPE-1"]),
            (V::Class, &["65536", "CLASS65536", "-1"]),
            (V::Opcode, &["16", "OPCODE16", "256", "-1"]),
            (V::MessageType, &["2147483648", "+5", "", "5.0", "CLIENT"]),
        ] {
            for text in texts {
                assert!(vocabulary.number(text).is_err(), "{vocabulary:?} {text:?}");
            }
        }
        assert_eq!(V::Rtype.number("type65280"), Ok(65280));
        assert_eq!(V::Class.number("CLASS4242"), Ok(4242));
    }

    #[test]
    fn an_unknown_word_gets_the_nearest_or_what_is_taken() {
        use Vocabulary as V;
        for (vocabulary, word, wanted) in [
            (
                V::Rcode,
                "nxdomian",
                "\"nxdomian\" is no response code; did you mean NXDOMAIN?",
            ),
            (
                V::Opcode,
                "16",
                "\"16\" is no opcode: it takes a name, or a number up to 15",
            ),
            (
                V::Http,
                "9999999999",
                "\"9999999999\" is no HTTP version: it takes a number or one of HTTP1, HTTP2, HTTP3",
            ),
        ] {
            assert_eq!(vocabulary.number(word).unwrap_err().to_string(), wanted);
        }
    }
}
