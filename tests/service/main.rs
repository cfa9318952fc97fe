//! The service from outside: real sockets, the HTTP pages, signals and exit codes. Every test that moves frames checks the
//! ledger, with exact numbers.
//!
//! Most tests run [`Service`](tapflow::app::Service) in this process ([`support::rig`]); what only a process has (signals,
//! exit codes, standard error, memory) is tested on the real program ([`support::program`]). Ids such as B026 are rows of the
//! field reports that the project collects.

#[path = "../mmdb_support/mod.rs"]
mod mmdb_support;
mod support;

mod acks;
mod admission;
mod compression;
mod connections;
mod corpus;
mod fan_out;
mod finish;
mod foreign_workers;
mod handshake;
mod isolation;
mod limits;
mod metrics;
mod million;
mod payloads;
mod sessions;
mod shutdown;
mod sockets;
mod stages;
mod throughput;
mod transforms;
