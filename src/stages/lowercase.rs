//! The lowercase stage: the letters of every name in the DNS messages and of the query zone become small.
//!
//! Resolvers mix the case of the names that they ask for (DNS 0x20), so that what counts or compares names further on
//! would see one name as many.

use crate::dns::edit;
use crate::dnstap::edit::{Edit, Settable};
use crate::pipeline::batch::Origin;
use crate::pipeline::stage::{Record, Stage, StageFactory, Verdict};
use crate::stages::rewrite::{DnsCopies, Replacement, parts};

/// Makes lowercase stages.
#[derive(Debug)]
pub struct Factory;

impl StageFactory for Factory {
    fn build(&self, _origin: &Origin) -> Box<dyn Stage> {
        Box::new(Lowercase::default())
    }

    fn replaces(&self) -> bool {
        true
    }
}

#[derive(Default)]
struct Lowercase {
    dns: DnsCopies,
    zone: Vec<u8>,
    out: Replacement,
}

impl Stage for Lowercase {
    fn on_record(&mut self, record: &mut Record<'_>) -> Verdict {
        let Some((_, message)) = parts(record) else {
            return Verdict::Keep;
        };
        let Self { dns, zone, out } = self;
        let mut edit = Edit::default();
        dns.edit(&message, &mut edit, |octets, copy| {
            copy.extend_from_slice(octets);
            edit::lower_case(copy)
        });
        // Length octets of a name are below 64, so they are no letters.
        if let Some(octets) = message.zone()
            && octets.iter().any(u8::is_ascii_uppercase)
        {
            zone.clear();
            zone.extend(octets.iter().map(u8::to_ascii_lowercase));
            edit.set(Settable::QueryZone, zone);
        }
        out.make(record, &edit)
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
    fn names_of_both_messages_and_the_zone_become_small() {
        let dns = |name: &[u8]| {
            let head = [0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
            [&head[..], b"\x03", name, b"\0\0\x01\0\x01"].concat()
        };
        let (large, small) = (dns(b"WwW"), dns(b"www"));
        let make = |octets, zone| {
            let mut view = view(octets, octets);
            view.message.as_mut().unwrap().query_zone = Some(zone);
            payload(&view)
        };
        let want = make(&small, b"\x03com\0");
        let now = SystemTime::UNIX_EPOCH;
        let got = through(&Factory, &make(&large, b"\x03Com\0"), now);
        assert_eq!(got.as_ref(), Some(&want));
        assert_eq!(through(&Factory, &want, now), None);
        assert_eq!(through(&Factory, b"\xff", now), None);
        assert_eq!(through(&Factory, &payload(&view(b"", b"\xff")), now), None);
    }
}
