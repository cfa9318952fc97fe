//! tapflow: a dnstap collector over Frame Streams that accounts for every frame.
#![warn(missing_docs)]
pub mod pcap;
