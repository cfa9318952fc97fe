//! What the stages that change frames have in common: the buffer for the new payload, and one for each DNS message.

use crate::dnstap::edit::{Edit, Settable};
use crate::dnstap::{DnstapView, Message};
use crate::pipeline::stage::{Record, Verdict};

/// Holds the payload that a stage made last.
#[derive(Debug, Default)]
pub(super) struct Replacement(Vec<u8>);

impl Replacement {
    /// Writes the record's payload anew with this edit; nothing to do if the edit is empty.
    pub(super) fn make(&mut self, record: &Record<'_>, edit: &Edit<'_>) -> Verdict {
        if edit.is_empty() {
            return Verdict::Keep;
        }
        self.0.clear();
        match edit.write(record.payload(), &mut self.0) {
            Ok(()) => Verdict::Replace,
            // Not reached: only what has been read as dnstap is edited.
            Err(_) => Verdict::Keep,
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The record's view and message, when it is a record.
pub(super) fn parts<'a>(record: &mut Record<'a>) -> Option<(DnstapView<'a>, Message<'a>)> {
    let message = *record.message().ok()?;
    let view = *record.dnstap().as_ref().ok()?;
    Some((view, message))
}

/// Copies of both DNS messages of a record, of which a stage changes what it wants. Both, whatever the type of the record
/// says: some senders put the response into each of them.
#[derive(Debug, Default)]
pub(super) struct DnsCopies {
    query: Vec<u8>,
    response: Vec<u8>,
}

impl DnsCopies {
    /// Calls `change` with each message and an empty buffer; where it says that it has changed something, the buffer takes
    /// the message's place.
    pub(super) fn edit<'e>(
        &'e mut self,
        message: &Message<'_>,
        edit: &mut Edit<'e>,
        mut change: impl FnMut(&[u8], &mut Vec<u8>) -> bool,
    ) {
        let Self { query, response } = self;
        for (field, octets, copy) in [
            (Settable::QueryMessage, message.query_message, query),
            (
                Settable::ResponseMessage,
                message.response_message,
                response,
            ),
        ] {
            let Some(octets) = octets else { continue };
            copy.clear();
            if change(octets, copy) {
                edit.set(field, copy);
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;
    use std::time::SystemTime;

    use super::*;
    use crate::dnstap::build;
    use crate::ids::ConnId;
    use crate::pipeline::batch::Origin;
    use crate::pipeline::stage::StageFactory;

    /// A CLIENT_RESPONSE with these DNS messages.
    pub(in crate::stages) fn view<'a>(query: &'a [u8], response: &'a [u8]) -> DnstapView<'a> {
        DnstapView {
            identity: Some(b"ns1"),
            kind: Some(1),
            message: Some(Message {
                kind: Some(6),
                socket_family: Some(1),
                socket_protocol: Some(1),
                query_address: Some(&[192, 0, 2, 77]),
                response_address: Some(&[198, 51, 100, 53]),
                query_port: Some(4242),
                query_message: Some(query),
                response_message: Some(response),
                ..Message::default()
            }),
            ..DnstapView::default()
        }
    }

    pub(in crate::stages) fn payload(view: &DnstapView<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        build::write(&mut out, view);
        out
    }

    pub(in crate::stages) fn origin() -> Origin {
        Origin {
            conn: ConnId::next(),
            listener: Arc::from("t"),
            peer: String::new(),
        }
    }

    /// What a stage of the factory makes of a payload; `None` if it keeps it as it is. Checked for allocations: the second
    /// time that a stage sees a payload it makes none.
    pub(in crate::stages) fn through(
        factory: &dyn StageFactory,
        payload: &[u8],
        at: SystemTime,
    ) -> Option<Vec<u8>> {
        assert!(factory.replaces());
        let origin = origin();
        let mut stage = factory.build(&origin);
        let mut verdict = stage.on_record(&mut Record::new(payload, &origin, at));
        let info = allocation_counter::measure(|| {
            verdict = stage.on_record(&mut Record::new(payload, &origin, at));
        });
        assert_eq!(info.count_total, 0, "a stage allocates for each frame");
        match verdict {
            Verdict::Keep => None,
            Verdict::Replace => Some(stage.replacement().to_vec()),
            other => panic!("{other:?}"),
        }
    }
}
