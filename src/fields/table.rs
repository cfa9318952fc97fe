//! The table of fields, and finding one by its name.

use std::borrow::Cow;

use super::list::SPECS;
use super::value::decoded;
use super::{Kind, Subject, Value, nearest};

/// A field of records, as the table has it.
#[derive(Debug)]
pub struct Spec {
    /// The name users write.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// What its values are like.
    pub kind: Kind,
    pub(super) get: for<'a> fn(&mut Subject<'a>) -> Option<Value<'a>>,
}

/// Every field, in the order of the documentation. Beside these there is `tag.NAME`, such as `tag.registered_domain`.
pub fn specs() -> &'static [Spec] {
    SPECS
}

/// A chosen field.
#[derive(Clone, Debug)]
pub enum Field {
    /// One of the table.
    Known(&'static Spec),
    /// The first word `NAME=value` in `extra`, where both may be percent-encoded (see [`tags`](crate::dnstap::tags)).
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
        Err(UnknownField {
            name: name.to_owned(),
            near: nearest(name, SPECS.iter().map(|spec| spec.name)),
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
                .find_map(|word| value_of(word, tag))
                .map(Value::Encoded),
        }
    }
}

/// The value of a word of `extra`, if it is this tag's.
fn value_of<'a>(word: &'a [u8], tag: &str) -> Option<&'a [u8]> {
    let at = memchr::memchr(b'=', word)?;
    let (name, value) = word.split_at_checked(at)?;
    let is_it = decoded(name).eq(tag.bytes());
    value.get(1..).filter(|_| is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_found_by_its_name_and_a_wrong_one_gets_the_nearest() {
        for spec in specs() {
            assert_eq!(Field::find(spec.name).unwrap().name(), spec.name);
        }
        assert_eq!(Field::find("qnam").unwrap_err().near, Some("qname"));
        assert_eq!(Field::find("QNAME").unwrap_err().near, Some("qname"));
        assert!(Field::find("tag.").is_err() && Field::find("").is_err());
        assert_eq!(Field::find("tag.a").unwrap().name(), "tag.a");
    }

    #[test]
    fn tags_are_words_of_extra_and_what_is_absent_stays_absent() {
        let view = crate::dnstap::DnstapView {
            extra: Some(b"site=a%20b x=1 sit%65s=2=3 x=4 empty="),
            ..Default::default()
        };
        let mut subject = Subject::new(&view);
        for (name, wanted) in [
            ("tag.site", "a b"),
            ("tag.x", "1"),
            ("tag.sites", "2=3"),
            ("tag.empty", ""),
        ] {
            let mut out = Vec::new();
            let value = Field::find(name).unwrap().of(&mut subject);
            value.unwrap().write(&mut out);
            assert_eq!(out, wanted.as_bytes(), "{name}");
        }
        assert!(Field::find("tag.sit").unwrap().of(&mut subject).is_none());
        assert!(Field::find("qname").unwrap().of(&mut subject).is_none());
    }
}
