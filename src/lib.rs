//! tapflow: a dnstap collector over Frame Streams that accounts for every frame.
#![warn(missing_docs)]

pub mod units;
pub mod wire;

pub mod fstrm;

pub mod transport;

pub mod http;
pub mod outputs;
pub mod stages;

pub mod config;

pub mod cli;
