//! The pipeline: how batches get from a connection to every output, and who may make whom wait.
//!
//! ```text
//! connection task                                            output task
//! ┌────────────────────────────────────────────────┐         ┌─────────────────────────┐
//! │ link ─▶ run of frames ─▶ Chain of stages ─▶ Fan │─ Lane ─▶│ Queue ─▶ driver ─▶ sink │
//! └────────────────────────────────────────────────┘         └─────────────────────────┘
//!                 │ arrive()                                        │ delivered()/dropped()
//!                 ▼                                                 ▼
//!                         Ledger (one posting a batch)
//! ```
//!
//! * A connection waits for nobody but the lanes whose policy is [`queue::Policy::Block`]. While it waits it reads ahead a
//!   little, so that a sender's STOP is answered although an output is stuck.
//! * An output waits for its own place only. It never makes another output wait.
//! * Every wait and every loss happens at a queue, in units of batches, so it can be counted exactly.
//!
//! Read [`batch`] first, then [`ledger`], [`queue`], [`stage`] and [`fan`]; [`acks`] for how a sender hears what is taken.

pub mod acks;
pub mod batch;
pub mod fan;
pub mod guard;
pub mod health;
pub mod intake;
pub mod lane;
pub mod ledger;
pub mod queue;
pub mod stage;
