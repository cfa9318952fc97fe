//! Stages: what looks at frames between the listener and the outputs, in the order of the configuration.
//!
//! Every connection has stages of its own, built by a [`StageFactory`], so a stage keeps its counters in plain fields and
//! publishes them once a batch, in [`Stage::end_batch`]. A stage sees each frame in place as a [`Record`], whose dnstap view
//! is decoded once, when the first stage asks for it, and shared by those after it.
//!
//! A stage that changes frames writes the new payload into a buffer of its own and says [`Verdict::Replace`]. The stages
//! after it see a new record over that buffer, and the outputs get it like any other frame: a relay, a file and a line of
//! text all show what the stage made of it.
//!
//! A new stage is one file that implements both traits, and one line in `stages::build`.

use std::time::SystemTime;

use bytes::{Bytes, BytesMut};

use crate::dns::{DnsError, DnsView, Question};
use crate::dnstap::{DecodeReason, DnstapView, Message, ViewError};
use crate::fields::Subject;
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
        // Read in place: a view is large, and this is once a frame.
        match &mut self.view {
            Some(view) => view,
            none => {
                let slot = none.insert(Ok(DnstapView::default()));
                if let Ok(view) = slot
                    && let Err(error) = view.read(self.payload)
                {
                    *slot = Err(error);
                }
                slot
            }
        }
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

    /// The record, to be asked for fields by name. What was decoded before is not decoded again.
    ///
    /// # Errors
    /// Why this frame is no record.
    pub fn subject(&mut self) -> Result<Subject<'_>, DecodeReason> {
        let dns = self.dns.map(|dns| dns.and_then(|dns| dns.view.ok()));
        let (received, origin) = (self.received, self.origin);
        let view = match self.dnstap() {
            Ok(view) => view,
            Err(error) => return Err((*error).into()),
        };
        view.classify()?;
        let subject =
            Subject::new(view).with_source(Some(received), &origin.listener, &origin.peer);
        Ok(match dns {
            Some(dns) => subject.with_dns(dns),
            None => subject,
        })
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
    /// It goes on with another payload, [`Stage::replacement`]. It still counts as one frame kept.
    Replace,
}

/// A stage of one connection.
pub trait Stage: Send {
    /// Looks at one frame. Must not allocate, lock or log.
    fn on_record(&mut self, record: &mut Record<'_>) -> Verdict;

    /// The payload that takes the frame's place, asked for directly after [`Verdict::Replace`]. Reuse the buffer: it may
    /// grow, but must not be made anew for each frame.
    fn replacement(&self) -> &[u8] {
        &[]
    }

    /// The batch is over: publish what was counted in plain fields.
    fn end_batch(&mut self, received: SystemTime) {
        let _ = received;
    }
}

/// Makes the stages of each new connection. Built once from the configuration.
pub trait StageFactory: Send + Sync {
    /// The stage for a connection.
    fn build(&self, origin: &Origin) -> Box<dyn Stage>;

    /// Whether its stages may say [`Verdict::Replace`].
    fn replaces(&self) -> bool {
        false
    }
}

/// What a payload made by a stage must keep to, and where one that does not is counted.
#[derive(Clone, Copy, Debug)]
pub struct ReplacedLimit {
    max: usize,
    slots: Option<ReplacedSlots>,
}

#[derive(Clone, Copy, Debug)]
struct ReplacedSlots {
    too_large: DropSlot,
    empty: DropSlot,
}

impl ReplacedLimit {
    /// The place of these drops in the ledger.
    pub const AT: &'static str = "stage:replaced";

    /// For chains whose stages replace nothing. Should one do so nevertheless, only what the frame format cannot hold is
    /// held back, as filtered.
    pub const NONE: Self = Self {
        max: u32::MAX as usize,
        slots: None,
    };

    /// At most `max` octets, like the frames that a listener takes. Registers the drops `too_large`, and `empty`: a
    /// length of 0 begins a control frame (Frame Streams), so there is no empty data frame.
    pub fn register(ledger: &Ledger, max: usize) -> Self {
        Self {
            max: max.min(u32::MAX as usize),
            slots: Some(ReplacedSlots {
                too_large: ledger.register_drop(Self::AT, "too_large"),
                empty: ledger.register_drop(Self::AT, "empty"),
            }),
        }
    }

    /// What becomes of a payload that does not keep to it.
    fn refuses(&self, payload: &[u8]) -> Option<Verdict> {
        if !payload.is_empty() && payload.len() <= self.max {
            return None;
        }
        Some(self.slots.map_or(Verdict::Filter, |slots| {
            Verdict::Drop(if payload.is_empty() {
                slots.empty
            } else {
                slots.too_large
            })
        }))
    }
}

/// The stages of one connection, in order.
pub struct Chain {
    stages: Vec<Box<dyn Stage>>,
    limit: ReplacedLimit,
}

/// What is left of a run of frames.
#[derive(Debug)]
pub enum Kept {
    /// Every frame, unchanged: the run as it was.
    All,
    /// Some frames, or frames of which some were replaced, in a buffer of their own, in the same layout.
    Some(Bytes),
    /// No frame.
    None,
}

impl Chain {
    /// A chain of `stages`, none of which replaces frames.
    pub fn new(stages: Vec<Box<dyn Stage>>) -> Self {
        Self::with_limit(stages, ReplacedLimit::NONE)
    }

    /// A chain of `stages`; payloads that they make keep to `limit`.
    pub fn with_limit(stages: Vec<Box<dyn Stage>>, limit: ReplacedLimit) -> Self {
        Self { stages, limit }
    }

    /// Whether frames go through unseen.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// Runs the stages over `run`, which holds `frames` whole data frames, and counts what became of them in `arrival`
    /// (`received`, `filtered`, `dropped`, `kept`). Allocates only when some frames are kept and others are not, or when
    /// some are replaced: one buffer a run, which grows when replacements are longer than what they replace.
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
        let (mut kept, mut changed) = (0u64, false);
        let mut survivors: Option<BytesMut> = None;
        // Frames [keep_from, at) of the run are kept unchanged and not copied yet.
        let (mut keep_from, mut at) = (0usize, 0usize);
        for payload in Frames::new(run) {
            let next = at + 4 + payload.len();
            let record = Record::new(payload, origin, received);
            let (verdict, replacement) = judge(&mut self.stages, &self.limit, record);
            if verdict == Verdict::Keep {
                kept += 1;
            } else {
                changed = true;
                if at > keep_from {
                    let out = survivors.get_or_insert_with(|| BytesMut::with_capacity(run.len()));
                    out.extend_from_slice(run.get(keep_from..at).unwrap_or_default());
                }
                keep_from = next;
            }
            match verdict {
                Verdict::Keep => {}
                Verdict::Filter => arrival.filtered += 1,
                Verdict::Drop(slot) => count_drop(arrival, slot),
                Verdict::Replace => {
                    kept += 1;
                    let out = survivors.get_or_insert_with(|| BytesMut::with_capacity(run.len()));
                    // The limit holds it to 32 bits.
                    out.extend_from_slice(&(replacement.len() as u32).to_be_bytes());
                    out.extend_from_slice(replacement);
                }
            }
            at = next;
        }
        arrival.kept += kept;
        for stage in &mut self.stages {
            stage.end_batch(received);
        }
        if !changed {
            return Kept::All;
        }
        if kept == 0 {
            return Kept::None;
        }
        let mut out = survivors.unwrap_or_default();
        out.extend_from_slice(run.get(keep_from..at).unwrap_or_default());
        Kept::Some(out.freeze())
    }
}

/// Runs `stages` over one record. With [`Verdict::Replace`] comes the payload, which the last stage to replace it holds.
fn judge<'a>(
    mut stages: &'a mut [Box<dyn Stage>],
    limit: &ReplacedLimit,
    mut record: Record<'a>,
) -> (Verdict, &'a [u8]) {
    let mut replacement: Option<&'a [u8]> = None;
    while let Some((stage, after)) = stages.split_first_mut() {
        match stage.on_record(&mut record) {
            Verdict::Keep => {}
            Verdict::Replace => {
                let payload = Box::as_ref(stage).replacement();
                if let Some(refused) = limit.refuses(payload) {
                    return (refused, &[]);
                }
                replacement = Some(payload);
                record = Record::new(payload, record.origin, record.received);
            }
            out => return (out, &[]),
        }
        stages = after;
    }
    match replacement {
        None => (Verdict::Keep, &[]),
        Some(payload) => (Verdict::Replace, payload),
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

    /// Writes every payload that begins with `from` anew: octet `to`, then the octets of `tail` so often.
    struct Rewrite {
        from: u8,
        to: u8,
        tail: usize,
        out: Vec<u8>,
    }
    impl Stage for Rewrite {
        fn on_record(&mut self, record: &mut Record<'_>) -> Verdict {
            if record.payload()[0] != self.from {
                return Verdict::Keep;
            }
            self.out.clear();
            if self.to > 0 {
                self.out.push(self.to);
            }
            self.out.extend(std::iter::repeat_n(7, self.tail));
            Verdict::Replace
        }
        fn replacement(&self) -> &[u8] {
            &self.out
        }
    }

    fn rewrite(from: u8, to: u8, tail: usize) -> Box<dyn Stage> {
        Box::new(Rewrite {
            from,
            to,
            tail,
            out: Vec::new(),
        })
    }

    fn run(values: &[u8]) -> Vec<u8> {
        values.iter().flat_map(|v| [0, 0, 0, 1, *v]).collect()
    }

    fn origin() -> Origin {
        Origin {
            conn: ConnId::next(),
            listener: Arc::from("t"),
            peer: String::new(),
        }
    }

    /// What a chain makes of a run: the bytes kept, and what was counted. `None` for [`Kept::All`].
    fn processed(chain: &mut Chain, bytes: &[u8], frames: usize) -> (Option<Vec<u8>>, Arrival) {
        let mut arrival = Arrival::default();
        let kept = chain.process(
            bytes,
            frames,
            &origin(),
            SystemTime::UNIX_EPOCH,
            &mut arrival,
        );
        let dropped: u64 = arrival.dropped.iter().map(|d| d.1).sum();
        assert_eq!(
            arrival.received,
            arrival.kept + arrival.filtered + dropped,
            "the ledger would not close"
        );
        let kept = match kept {
            Kept::All => None,
            Kept::Some(b) => Some(b.to_vec()),
            Kept::None => Some(Vec::new()),
        };
        (kept, arrival)
    }

    #[test]
    fn replaced_frames_stand_in_their_place_with_their_own_length() {
        // 4 becomes 14 7 7; the rest as EvenOnly has it.
        let new = |tail: &[u8]| [&[0, 0, 0, tail.len() as u8][..], tail].concat();
        let four = new(&[14, 7, 7]);
        let rows: &[(&[u8], Vec<u8>, u64, u64)] = &[
            (&[4], four.clone(), 0, 0),
            (&[4, 4], [four.clone(), four.clone()].concat(), 0, 0),
            (
                &[2, 4, 6],
                [run(&[2]), four.clone(), run(&[6])].concat(),
                0,
                0,
            ),
            (&[4, 2, 6], [four.clone(), run(&[2, 6])].concat(), 0, 0),
            (&[2, 6, 4], [run(&[2, 6]), four.clone()].concat(), 0, 0),
            (&[4, 1], four.clone(), 1, 0),
            (&[1, 4], four.clone(), 1, 0),
            (&[9, 4, 1], four.clone(), 1, 1),
            (
                &[2, 1, 4, 9, 6, 8, 4, 2],
                [run(&[2]), four.clone(), run(&[6, 8]), four, run(&[2])].concat(),
                1,
                1,
            ),
        ];
        for (input, want, filtered, dropped) in rows {
            // A replacement is kept by the stage before it and judged by the one after it.
            let stages: Vec<Box<dyn Stage>> =
                vec![rewrite(4, 14, 2), Box::new(EvenOnly(DropSlot(3)))];
            let (got, arrival) = processed(&mut Chain::new(stages), &run(input), input.len());
            assert_eq!(got.as_ref(), Some(want), "{input:?}");
            let drops: u64 = arrival.dropped.iter().map(|d| d.1).sum();
            assert_eq!(
                (arrival.filtered, drops),
                (*filtered, *dropped),
                "{input:?}"
            );
        }
    }

    #[test]
    fn a_second_replacement_is_made_from_the_first_and_later_stages_may_still_take_it_out() {
        let two = || vec![rewrite(4, 14, 2), rewrite(14, 16, 0)];
        let (got, _) = processed(&mut Chain::new(two()), &run(&[2, 4, 14, 6]), 4);
        assert_eq!(got, Some(run(&[2, 16, 16, 6])));
        let (got, _) = processed(&mut Chain::new(two()), &run(&[2, 6]), 2);
        assert_eq!(got, None, "a run that nothing changes is not copied");
        for (to, filtered, dropped) in [(1, 1, 0), (9, 0, 1)] {
            let stages = vec![rewrite(4, to, 0), Box::new(EvenOnly(DropSlot(3))) as _];
            let (got, arrival) = processed(&mut Chain::new(stages), &run(&[4]), 1);
            let drops: u64 = arrival.dropped.iter().map(|d| d.1).sum();
            assert_eq!((arrival.filtered, drops), (filtered, dropped));
            assert_eq!(got, Some(Vec::new()));
        }
    }

    #[test]
    fn a_replacement_over_the_limit_or_without_octets_is_dropped_and_counted() {
        let ledger = Ledger::new();
        let limit = ReplacedLimit::register(&ledger, 3);
        for (to, tail, reason) in [
            (14, 2, None),
            (14, 3, Some("too_large")),
            (0, 0, Some("empty")),
        ] {
            let mut chain = Chain::with_limit(vec![rewrite(4, to, tail)], limit);
            let (got, arrival) = processed(&mut chain, &run(&[2, 4, 6]), 3);
            let dropped: Vec<_> = arrival.dropped.clone();
            match reason {
                None => assert_eq!((arrival.kept, dropped.len()), (3, 0)),
                Some(reason) => {
                    let slot = ledger.register_drop(ReplacedLimit::AT, reason);
                    assert_eq!((arrival.kept, dropped), (2, vec![(slot, 1)]));
                    assert_eq!(got, Some(run(&[2, 6])));
                }
            }
        }
        let mut chain = Chain::new(vec![rewrite(4, 0, 0)]);
        let (got, arrival) = processed(&mut chain, &run(&[2, 4]), 2);
        assert_eq!((got, arrival.filtered), (Some(run(&[2])), 1));
    }

    #[test]
    fn what_is_kept_keeps_its_order_and_layout_and_the_rest_is_counted() {
        let slot = DropSlot(3);
        for (input, want, filtered, dropped) in [
            (&[2u8, 4, 6][..], &[2u8, 4, 6][..], 0, 0),
            (&[1, 2, 4, 3, 6, 9][..], &[2, 4, 6][..], 2, 1),
            (&[1, 3, 9, 9][..], &[][..], 2, 2),
            (&[2, 1][..], &[2][..], 1, 0),
            (&[1, 2][..], &[2][..], 1, 0),
        ] {
            let bytes = run(input);
            let mut chain = Chain::new(vec![Box::new(EvenOnly(slot))]);
            let (got, arrival) = processed(&mut chain, &bytes, input.len());
            let got = got.unwrap_or(bytes);
            assert_eq!(got, run(want), "{input:?}");
            assert_eq!(
                (
                    arrival.filtered,
                    arrival.dropped.iter().map(|d| d.1).sum::<u64>()
                ),
                (filtered, dropped)
            );
        }
    }
}
