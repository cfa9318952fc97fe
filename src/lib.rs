//! tapflow: a dnstap collector over Frame Streams that accounts for every frame.
#![warn(missing_docs)]

pub mod backoff;
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

pub mod format;
pub mod transport;

pub mod link;

pub mod pipeline;

pub mod http;
pub mod outputs;
pub mod stages;

pub mod config;

pub mod app;

pub mod cli;
