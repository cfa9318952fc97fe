//! What ends the reading of a capture file, with the place in it.

use std::io;

use thiserror::Error;

/// Why a capture file cannot be read on. Everything before `offset` has been given out and stays good.
///
/// Offsets count octets of the capture itself, that is, after decompression.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PcapError {
    /// The input could not be read, or did not decompress.
    #[error("cannot read the capture on from offset {offset}: {source}")]
    Io {
        /// Octets read before the failure.
        offset: u64,
        /// What the input said.
        source: io::Error,
    },
    /// The input is no pcap and no pcapng.
    #[error("not a pcap or pcapng capture: it begins with the octets {magic:02x?}")]
    NotACapture {
        /// The first octets, at most four.
        magic: Vec<u8>,
    },
    /// The input ends in the middle of something.
    #[error(
        "the capture ends in the middle of {what} that begins at offset {offset}: {want} octets announced, {have} there"
    )]
    Truncated {
        /// Where the unfinished thing begins.
        offset: u64,
        /// What it is.
        what: &'static str,
        /// Its length.
        want: u64,
        /// How much of it is there.
        have: u64,
    },
    /// A packet is longer than the limit, which in practice means that the file is damaged.
    #[error("the packet at offset {offset} claims {len} octets, more than the {max} allowed")]
    PacketTooLong {
        /// Where the packet's header begins.
        offset: u64,
        /// The claimed length.
        len: u64,
        /// [`ReadLimits::packet_len_max`](super::ReadLimits::packet_len_max).
        max: u64,
    },
    /// A pcapng block that has to be held in memory is longer than the limit.
    #[error("the block at offset {offset} claims {len} octets, more than the {max} allowed")]
    BlockTooLong {
        /// Where the block begins.
        offset: u64,
        /// The claimed length.
        len: u64,
        /// [`ReadLimits::block_len_max`](super::ReadLimits::block_len_max).
        max: u64,
    },
    /// A pcapng block breaks the rules of its format.
    #[error("the block at offset {offset} is damaged: {what}")]
    BadBlock {
        /// Where the block begins.
        offset: u64,
        /// The broken rule.
        what: &'static str,
    },
    /// The file's major version is one that this reader does not know.
    #[error(
        "the capture at offset {offset} is of version {major}.{minor}, which is not known here"
    )]
    Version {
        /// Where the header begins.
        offset: u64,
        /// Major version.
        major: u16,
        /// Minor version.
        minor: u16,
    },
    /// A packet names an interface that the section has not described.
    #[error(
        "the packet at offset {offset} names interface {id}, but only {known} are described before it"
    )]
    NoInterface {
        /// Where the block begins.
        offset: u64,
        /// The interface named.
        id: u32,
        /// How many there are.
        known: usize,
    },
    /// A section describes more interfaces than the limit.
    #[error("more than {max} interfaces are described in one section, at offset {offset}")]
    TooManyInterfaces {
        /// Where the interface block begins.
        offset: u64,
        /// [`ReadLimits::interfaces_max`](super::ReadLimits::interfaces_max).
        max: usize,
    },
}

impl PcapError {
    /// Where in the (decompressed) capture the trouble begins, in octets.
    pub fn offset(&self) -> u64 {
        match self {
            Self::NotACapture { .. } => 0,
            Self::Io { offset, .. }
            | Self::Truncated { offset, .. }
            | Self::PacketTooLong { offset, .. }
            | Self::BlockTooLong { offset, .. }
            | Self::BadBlock { offset, .. }
            | Self::Version { offset, .. }
            | Self::NoInterface { offset, .. }
            | Self::TooManyInterfaces { offset, .. } => *offset,
        }
    }
}
