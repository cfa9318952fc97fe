//! The tags stage: adds fixed `name=value` words to dnstap's `extra` field.

use crate::dnstap::edit::{Edit, Settable};
use crate::dnstap::tags::TagWriter;
use crate::pipeline::batch::Origin;
use crate::pipeline::stage::{Record, Stage, StageFactory, Verdict};
use crate::stages::StageError;
use crate::stages::rewrite::{Replacement, parts};
use crate::stages::transform_options::TagsOptions;

/// Makes tags stages.
#[derive(Debug)]
pub struct Factory(Vec<(String, String)>);

/// Name and value of a tag as it is written in a setting. The value may be any text; the name is printable ASCII without
/// `%`, so that it stands in `extra` as it is here.
pub fn parse(text: &str) -> Option<(&str, &str)> {
    let plain = |octet: u8| octet.is_ascii_graphic() && octet != b'%';
    text.split_once('=')
        .filter(|(name, _)| !name.is_empty() && name.bytes().all(plain))
}

impl Factory {
    /// Compiles the settings.
    ///
    /// # Errors
    /// A tag without a name or without `=`; no tag.
    pub fn new(options: &TagsOptions) -> Result<Self, StageError> {
        if options.add.is_empty() {
            return Err(StageError::Settings("`add` names no tag"));
        }
        let owned = |text: &String| match parse(text) {
            Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
            None => Err(StageError::Unknown {
                what: "tag, which is name=value",
                text: text.clone(),
            }),
        };
        Ok(Self(
            options.add.iter().map(owned).collect::<Result<_, _>>()?,
        ))
    }
}

impl StageFactory for Factory {
    fn build(&self, _origin: &Origin) -> Box<dyn Stage> {
        Box::new(Tags {
            tags: self.0.clone(),
            writer: TagWriter::default(),
            out: Replacement::default(),
        })
    }

    fn replaces(&self) -> bool {
        true
    }
}

struct Tags {
    tags: Vec<(String, String)>,
    writer: TagWriter,
    out: Replacement,
}

impl Stage for Tags {
    fn on_record(&mut self, record: &mut Record<'_>) -> Verdict {
        let Some((view, _)) = parts(record) else {
            return Verdict::Keep;
        };
        let tags = &self.tags;
        self.writer.begin(view.extra, |old| {
            tags.iter().any(|(name, _)| name.as_bytes() == old)
        });
        for (name, value) in tags {
            self.writer.push(name.as_bytes(), value.as_bytes());
        }
        let mut edit = Edit::default();
        edit.set(Settable::Extra, self.writer.as_bytes());
        self.out.make(record, &edit)
    }

    fn replacement(&self) -> &[u8] {
        self.out.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::dnstap::DnstapView;
    use crate::stages::rewrite::tests::{payload, through, view};

    #[test]
    fn tags_are_added_once_behind_what_the_sender_wrote() {
        let options = |add: &[&str]| TagsOptions {
            add: add.iter().map(ToString::to_string).collect(),
        };
        let factory = Factory::new(&options(&["site=ams 1", "eq=a=b", "none="])).unwrap();
        let tags = "site=ams%201 eq=a=b none=";
        for (before, after) in [
            (None, tags.to_owned()),
            (Some("sender's own"), format!("sender's own {tags}")),
            (Some("site=x a=1"), format!("a=1 {tags}")),
            (Some(tags), tags.to_owned()),
        ] {
            let mut view = view(b"q", b"r");
            view.extra = before.map(str::as_bytes);
            let got = through(&factory, &payload(&view), SystemTime::UNIX_EPOCH);
            let got = got.unwrap();
            view.extra = Some(after.as_bytes());
            // Where there was no such field, it stands behind the others.
            assert_eq!(DnstapView::parse(&got), Ok(view), "{before:?}");
        }
        for bad in [&[][..], &["a"], &["=a"], &["a b=c"], &["a%=b"]] {
            assert!(Factory::new(&options(bad)).is_err(), "{bad:?}");
        }
    }
}
