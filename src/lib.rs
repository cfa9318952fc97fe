//! tapflow: a dnstap collector over Frame Streams that accounts for every frame.
//!
//! # The idea
//!
//! A *batch* is one read from a socket: one reference-counted buffer that holds whole data frames exactly as they stood on the
//! wire. To relay, store or fan out frames is to write a slice of that buffer again. What others do per frame (a channel
//! send, an allocation, a lock, a counter, a system call) happens here per batch; per frame there is only the decode, once,
//! in place, when somebody asks. Backpressure and loss are properties of queues of batches, so they are counted exactly.
//!
//! ```text
//!  DNS servers ─▶ listener ─▶ link ─▶ run of frames ─▶ stages ─▶ fan ─▶ lanes ─▶ outputs
//!                 transport   fstrm                    decode            queue   encoder × sink
//!                 unix, tcp,  handshake, limits,       filter            with a  file, stdout,
//!                 mux         decompression            sample, metrics   policy  dnstap, mux, null
//!                                     └──────── ledger: one posting a batch ────────┘
//! ```
//!
//! # Where to read on
//!
//! Modules import only from layers below their own; `tests/layers.rs` holds them to it. From the bottom:
//!
//! | layer | modules | what |
//! |---|---|---|
//! | 0 | [`wire`] [`ids`] [`units`] [`backoff`] [`shutdown`] [`log_limit`] [`telemetry`] | leaves |
//! | 1 | [`fstrm`] [`dnstap`] [`dns`] [`pcap`] | protocols: bytes in, values out; no I/O, clock or log |
//! | 2 | [`transport`] [`fields`] [`mux`] | sockets; the named fields of a record; many streams over one connection |
//! | 3 | [`link`] [`mod@format`] [`filter`] | one async driver a protocol; records in every format; which records are wanted |
//! | 4 | [`pipeline`] | batch, ledger, queue, stage, fan, intake |
//! | 5 | [`stages`] [`outputs`] [`http`] | the components |
//! | 6 | [`config`] | their options put together, read and checked |
//! | 7 | [`app`] | the service: build, run, stop |
//! | 8 | [`cli`] | the commands |
//!
//! Start with [`pipeline`], then [`fstrm`] and [`link::fstrm`], then [`app`].
//!
//! # Adding a stage
//!
//! One file in [`stages`] that implements [`pipeline::stage::StageFactory`] and [`pipeline::stage::Stage`], a variant of
//! [`stages::options::StageOptions`], and its line in [`stages::build`]:
//!
//! ```
//! use tapflow::pipeline::batch::Origin;
//! use tapflow::pipeline::stage::{Record, Stage, StageFactory, Verdict};
//!
//! /// Takes out what does not come from the identity it was made with.
//! struct OnlyFrom(Vec<u8>);
//!
//! impl Stage for OnlyFrom {
//!     fn on_record(&mut self, record: &mut Record<'_>) -> Verdict {
//!         match record.dnstap() {
//!             Ok(view) if view.identity == Some(&self.0) => Verdict::Keep,
//!             _ => Verdict::Filter,
//!         }
//!     }
//! }
//!
//! struct Factory(Vec<u8>);
//!
//! impl StageFactory for Factory {
//!     fn build(&self, _origin: &Origin) -> Box<dyn Stage> {
//!         Box::new(OnlyFrom(self.0.clone()))
//!     }
//! }
//! ```
//!
//! A stage that changes frames says [`Verdict::Replace`](pipeline::stage::Verdict::Replace) and holds the new payload;
//! [`dnstap::edit`] and [`dns::edit`] write payloads and messages anew with what is not changed left as it was.
//!
//! # Adding an output
//!
//! A place to write to is a [`outputs::sink::Sink`], a format is an [`outputs::encode::Encoder`]; queueing, batching, flush
//! timers, draining and the ledger are the driver's and not theirs. One file, a variant of
//! [`outputs::options::OutputKind`], and its line in [`outputs::build`].
#![warn(missing_docs)]

pub mod backoff;
mod digits;
pub mod ids;
pub mod log_limit;
pub mod shutdown;
pub mod telemetry;
pub mod units;
pub mod wire;

pub mod dns;
pub mod dnstap;
pub mod fstrm;
pub mod pcap;

pub mod fields;
pub mod mux;
pub mod transport;

pub mod filter;
pub mod format;
pub mod link;

pub mod pipeline;

pub mod http;
pub mod outputs;
pub mod stages;

pub mod config;

pub mod app;

pub mod cli;
