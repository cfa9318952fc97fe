//! The fields stage: keeps or leaves out fields of the dnstap payload by their names in the schema.
//!
//! Both `type` fields always stay: without them a payload is no record.

use crate::dnstap::edit::{Edit, Field, Fields};
use crate::pipeline::batch::Origin;
use crate::pipeline::stage::{Record, Stage, StageFactory, Verdict};
use crate::stages::StageError;
use crate::stages::rewrite::{Replacement, parts};
use crate::stages::transform_options::FieldsOptions;

/// Makes fields stages.
#[derive(Debug)]
pub struct Factory(Fields);

impl Factory {
    /// Compiles the settings.
    ///
    /// # Errors
    /// A field that does not exist; both lists, or neither.
    pub fn new(options: &FieldsOptions) -> Result<Self, StageError> {
        let named = |names: &[String]| {
            names.iter().try_fold(Fields::default(), |fields, name| {
                let field = Field::from_name(name).ok_or_else(|| StageError::Unknown {
                    what: "dnstap field",
                    text: name.clone(),
                })?;
                Ok(fields.with(field))
            })
        };
        let (keep, drop) = (named(&options.keep)?, named(&options.drop)?);
        match (keep.is_empty(), drop.is_empty()) {
            (false, true) => Ok(Self(keep.complement())),
            (true, false) => Ok(Self(drop)),
            _ => Err(StageError::Settings(
                "one of `keep` and `drop` must name fields, and only one",
            )),
        }
    }
}

impl StageFactory for Factory {
    fn build(&self, _origin: &Origin) -> Box<dyn Stage> {
        Box::new(Drop {
            fields: self.0,
            out: Replacement::default(),
        })
    }

    fn replaces(&self) -> bool {
        true
    }
}

struct Drop {
    fields: Fields,
    out: Replacement,
}

impl Stage for Drop {
    fn on_record(&mut self, record: &mut Record<'_>) -> Verdict {
        if parts(record).is_none() {
            return Verdict::Keep;
        }
        let mut edit = Edit::default();
        edit.remove(self.fields);
        match self.out.make(record, &edit) {
            // Nothing was there to leave out.
            Verdict::Replace if self.out.as_bytes() == record.payload() => Verdict::Keep,
            verdict => verdict,
        }
    }

    fn replacement(&self) -> &[u8] {
        self.out.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::stages::rewrite::tests::{payload, through, view};

    fn words(list: &[&str]) -> Vec<String> {
        list.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn fields_are_kept_or_left_out_by_name() {
        let now = SystemTime::UNIX_EPOCH;
        let whole = payload(&view(b"q", b"r"));
        let mut less = view(b"q", b"r");
        less.identity = None;
        less.message.as_mut().unwrap().query_port = None;
        let drop = Factory::new(&FieldsOptions {
            drop: words(&["identity", "query_port", "policy"]),
            ..FieldsOptions::default()
        });
        let drop = drop.unwrap();
        assert_eq!(through(&drop, &whole, now), Some(payload(&less)));
        assert_eq!(through(&drop, &payload(&less), now), None);
        let keep = Factory::new(&FieldsOptions {
            keep: words(&["response_message"]),
            ..FieldsOptions::default()
        });
        let mut want = crate::dnstap::DnstapView {
            kind: Some(1),
            ..Default::default()
        };
        want.message = Some(crate::dnstap::Message {
            kind: Some(6),
            response_message: Some(b"r"),
            ..Default::default()
        });
        assert_eq!(through(&keep.unwrap(), &whole, now), Some(payload(&want)));
    }

    #[test]
    fn settings_that_name_nothing_or_both_are_refused() {
        for (keep, drop) in [
            (&[][..], &[][..]),
            (&["version"], &["identity"]),
            (&["message"], &[]),
            (&[], &["qname"]),
        ] {
            let options = FieldsOptions {
                keep: words(keep),
                drop: words(drop),
            };
            assert!(Factory::new(&options).is_err(), "{options:?}");
        }
    }
}
