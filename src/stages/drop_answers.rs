//! The drop_answers stage: the records of DNS messages are left out, what was asked and how it was answered stays.
//!
//! OPT records stay, since they hold part of the response code and the client's options. From the first octet that cannot
//! be read on a message is cut: it may be an answer.

use crate::dns::edit::{self, Sections};
use crate::dnstap::edit::Edit;
use crate::pipeline::batch::Origin;
use crate::pipeline::stage::{Record, Stage, StageFactory, Verdict};
use crate::stages::rewrite::{DnsCopies, Replacement, parts};
use crate::stages::transform_options::{DnsSection, DropAnswersOptions};

/// Makes drop_answers stages.
#[derive(Debug)]
pub struct Factory(Sections);

impl Factory {
    /// A factory for these settings.
    pub fn new(options: &DropAnswersOptions) -> Self {
        let has = |section| options.sections.contains(&section);
        Self(Sections {
            answer: has(DnsSection::Answer),
            authority: has(DnsSection::Authority),
            additional: has(DnsSection::Additional),
        })
    }
}

impl StageFactory for Factory {
    fn build(&self, _origin: &Origin) -> Box<dyn Stage> {
        Box::new(DropAnswers {
            sections: self.0,
            dns: DnsCopies::default(),
            out: Replacement::default(),
        })
    }

    fn replaces(&self) -> bool {
        true
    }
}

struct DropAnswers {
    sections: Sections,
    dns: DnsCopies,
    out: Replacement,
}

impl Stage for DropAnswers {
    fn on_record(&mut self, record: &mut Record<'_>) -> Verdict {
        let Some((_, message)) = parts(record) else {
            return Verdict::Keep;
        };
        let sections = self.sections;
        let mut edit = Edit::default();
        self.dns.edit(&message, &mut edit, |octets, copy| {
            edit::without(octets, sections, copy)
        });
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
    use crate::stages::rewrite::tests::{payload, through, view};

    #[test]
    fn answers_go_from_the_message_and_a_query_stays_as_it_is() {
        let question = b"\x03www\0\0\x01\0\x01";
        let query = [&[0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], question].concat();
        let bare = [&[0, 1, 129, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], question].concat();
        let mut full = bare.clone();
        full[7] = 1;
        full.extend(b"\xc0\x0c\0\x01\0\x01\0\0\0\x09\0\x04\x01\x02\x03\x04");
        let now = SystemTime::UNIX_EPOCH;
        let all = Factory::new(&DropAnswersOptions::default());
        let got = through(&all, &payload(&view(&query, &full)), now);
        assert_eq!(got, Some(payload(&view(&query, &bare))));
        assert_eq!(through(&all, &payload(&view(&query, &bare)), now), None);
        let other = Factory::new(&DropAnswersOptions {
            sections: vec![DnsSection::Authority],
        });
        assert_eq!(through(&other, &payload(&view(&query, &full)), now), None);
    }
}
