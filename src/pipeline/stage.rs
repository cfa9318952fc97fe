//! Stages: what looks at frames between the listener and the outputs, in the order of the configuration.
//!
//! Every connection has stages of its own, built by a [`StageFactory`], so a stage keeps its counters in plain fields and
//! publishes them once a batch, in [`Stage::end_batch`]. A stage sees each frame in place as a [`Record`], whose dnstap view
//! is decoded once, when the first stage asks for it, and shared by those after it.
//!
//! A new stage is one file that implements both traits, and one line in `stages::build`.

use std::time::SystemTime;

use bytes::{Bytes, BytesMut};

use crate::dns::{DnsError, DnsView, Question};
use crate::dnstap::{DecodeReason, DnstapView, Message, ViewError};
use crate::fstrm::Frames;
use crate::ids::DropSlot;
use crate::pipeline::batch::Origin;
use crate::pipeline::ledger::{Arrival, Ledger};
use crate::telemetry::Telemetry;

/// One frame on its way through the stages, borrowed from the read buffer.
#[derive(Debug)]
pub struct Record<'a> {
    payload: &'a [u8],
    origin: &'a Origin,
    received: SystemTime,
    view: Option<Result<DnstapView<'a>, ViewError>>,
    dns: Option<Option<Dns<'a>>>,
}

/// The DNS message inside a frame, as far as its header and first question.
#[derive(Clone, Copy, Debug)]
pub struct Dns<'a> {
    /// Its octets.
    pub message: &'a [u8],
    /// Whether the dnstap message calls it a response.
    pub is_response: bool,
    /// Header and question, or why even these cannot be read.
    pub view: Result<DnsView<'a>, DnsError>,
}

impl<'a> Dns<'a> {
    /// The first question, where there is one that can be read.
    pub fn question(&self) -> Option<Question<'a>> {
        self.view
            .as_ref()
            .ok()
            .and_then(|v| v.question().ok().flatten())
    }
}

impl<'a> Record<'a> {
    /// A frame that nobody has decoded yet.
    pub fn new(payload: &'a [u8], origin: &'a Origin, received: SystemTime) -> Self {
        Self {
            payload,
            origin,
            received,
            view: None,
            dns: None,
        }
    }

    /// The frame's payload.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The connection it came over.
    pub fn origin(&self) -> &'a Origin {
        self.origin
    }

    /// When the read that completed it returned.
    pub fn received(&self) -> SystemTime {
        self.received
    }

    /// The dnstap view, decoded at the first call and kept.
    pub fn dnstap(&mut self) -> &Result<DnstapView<'a>, ViewError> {
        self.view
            .get_or_insert_with(|| DnstapView::parse(self.payload))
    }

    /// The dnstap message, or why this frame is no record.
    ///
    /// # Errors
    /// See [`DnstapView::classify`].
    pub fn message(&mut self) -> Result<&Message<'a>, DecodeReason> {
        match self.dnstap() {
            Ok(view) => view.classify(),
            Err(error) => Err((*error).into()),
        }
    }

    /// The DNS message, where there is one; its header and question are read at the first call and kept.
    pub fn dns(&mut self) -> Option<Dns<'a>> {
        if let Some(dns) = self.dns {
            return dns;
        }
        let bytes = self.message().ok().and_then(Message::dns);
        let dns = bytes.map(|(message, is_response)| Dns {
            message,
            is_response,
            view: DnsView::parse(message),
        });
        self.dns = Some(dns);
        dns
    }
}

/// What a stage decides about a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It goes on.
    Keep,
    /// It is taken out on purpose, and counted as filtered.
    Filter,
    /// It is lost, and counted under the place and reason that the stage registered.
    Drop(DropSlot),
}

/// A stage of one connection.
pub trait Stage: Send {
    /// Looks at one frame. Must not allocate, lock or log.
    fn on_record(&mut self, record: &mut Record<'_>) -> Verdict;

    /// The batch is over: publish what was counted in plain fields.
    fn end_batch(&mut self, received: SystemTime) {
        let _ = received;
    }
}

/// Makes the stages of each new connection. Built once from the configuration.
pub trait StageFactory: Send + Sync {
    /// The stage for a connection.
    fn build(&self, origin: &Origin) -> Box<dyn Stage>;
}

/// The stages of one connection, in order.
pub struct Chain {
    stages: Vec<Box<dyn Stage>>,
}

/// What is left of a run of frames.
#[derive(Debug)]
pub enum Kept {
    /// Every frame: the run as it was.
    All,
    /// Some frames, in a buffer of their own, in the same layout.
    Some(Bytes),
    /// No frame.
    None,
}

impl Chain {
    /// A chain of `stages`.
    pub fn new(stages: Vec<Box<dyn Stage>>) -> Self {
        Self { stages }
    }

    /// Whether frames go through unseen.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// Runs the stages over `run`, which holds `frames` whole data frames, and counts what became of them in `arrival`
    /// (`received`, `filtered`, `dropped`, `kept`). Allocates only when some frames are kept and others are not.
    pub fn process(
        &mut self,
        run: &[u8],
        frames: usize,
        origin: &Origin,
        received: SystemTime,
        arrival: &mut Arrival,
    ) -> Kept {
        arrival.received += frames as u64;
        if self.stages.is_empty() {
            arrival.kept += frames as u64;
            return Kept::All;
        }
        let mut kept = 0u64;
        let mut lost = 0u64;
        let mut survivors: Option<BytesMut> = None;
        // Frames [keep_from, at) of the run are kept and not copied yet.
        let (mut keep_from, mut at) = (0usize, 0usize);
        for payload in Frames::new(run) {
            let next = at + 4 + payload.len();
            let mut record = Record::new(payload, origin, received);
            match self.judge(&mut record) {
                Verdict::Keep => kept += 1,
                verdict => {
                    lost += 1;
                    match verdict {
                        Verdict::Drop(slot) => count_drop(arrival, slot),
                        _ => arrival.filtered += 1,
                    }
                    if at > keep_from {
                        let out =
                            survivors.get_or_insert_with(|| BytesMut::with_capacity(run.len()));
                        out.extend_from_slice(run.get(keep_from..at).unwrap_or_default());
                    }
                    keep_from = next;
                }
            }
            at = next;
        }
        arrival.kept += kept;
        for stage in &mut self.stages {
            stage.end_batch(received);
        }
        if lost == 0 {
            return Kept::All;
        }
        if kept == 0 {
            return Kept::None;
        }
        let mut out = survivors.unwrap_or_default();
        out.extend_from_slice(run.get(keep_from..at).unwrap_or_default());
        Kept::Some(out.freeze())
    }

    fn judge(&mut self, record: &mut Record<'_>) -> Verdict {
        for stage in &mut self.stages {
            match stage.on_record(record) {
                Verdict::Keep => {}
                other => return other,
            }
        }
        Verdict::Keep
    }
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Chain({} stages)", self.stages.len())
    }
}

/// Adds one drop to the (few) slots of this batch.
pub fn count_drop(arrival: &mut Arrival, slot: DropSlot) {
    match arrival.dropped.iter_mut().find(|d| d.0 == slot) {
        Some(d) => d.1 += 1,
        None => arrival.dropped.push((slot, 1)),
    }
}

/// What a factory may register with while it is built: places in the ledger.
#[derive(Debug)]
pub struct StageContext<'a> {
    /// The ledger, for [`Ledger::register_drop`].
    pub ledger: &'a Ledger,
    /// The metrics registry.
    pub telemetry: &'a Telemetry,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ids::ConnId;

    /// Keeps the payloads whose first octet is even, drops 9, filters the other odd ones.
    struct EvenOnly(DropSlot);
    impl Stage for EvenOnly {
        fn on_record(&mut self, record: &mut Record<'_>) -> Verdict {
            match record.payload()[0] {
                9 => Verdict::Drop(self.0),
                n if n % 2 == 0 => Verdict::Keep,
                _ => Verdict::Filter,
            }
        }
    }

    fn run(values: &[u8]) -> Vec<u8> {
        values.iter().flat_map(|v| [0, 0, 0, 1, *v]).collect()
    }

    #[test]
    fn what_is_kept_keeps_its_order_and_layout_and_the_rest_is_counted() {
        let origin = Origin {
            conn: ConnId::next(),
            listener: Arc::from("t"),
            peer: String::new(),
        };
        let slot = DropSlot(3);
        for (input, want, filtered, dropped) in [
            (&[2u8, 4, 6][..], &[2u8, 4, 6][..], 0, 0),
            (&[1, 2, 4, 3, 6, 9][..], &[2, 4, 6][..], 2, 1),
            (&[1, 3, 9, 9][..], &[][..], 2, 2),
            (&[2, 1][..], &[2][..], 1, 0),
            (&[1, 2][..], &[2][..], 1, 0),
        ] {
            let bytes = run(input);
            let mut arrival = Arrival::default();
            let mut chain = Chain::new(vec![Box::new(EvenOnly(slot))]);
            let kept = chain.process(
                &bytes,
                input.len(),
                &origin,
                SystemTime::UNIX_EPOCH,
                &mut arrival,
            );
            let got = match kept {
                Kept::All => bytes,
                Kept::Some(b) => b.to_vec(),
                Kept::None => Vec::new(),
            };
            assert_eq!(got, run(want), "{input:?}");
            assert_eq!(
                (
                    arrival.filtered,
                    arrival.dropped.iter().map(|d| d.1).sum::<u64>()
                ),
                (filtered, dropped)
            );
            assert_eq!(arrival.received, arrival.kept + filtered + dropped);
        }
    }
}
