//! EDNS: the OPT record of a message (RFC 6891) and its options.

use std::net::IpAddr;

/// An OPT record, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns<'a> {
    /// UDP payload size the sender can take, in octets, as sent (0 occurs).
    pub udp_size: u16,
    /// Upper eight bits of the response code.
    pub ext_rcode: u8,
    /// EDNS version, 0 so far.
    pub version: u8,
    /// DO: DNSSEC records are wanted.
    pub do_bit: bool,
    /// All sixteen flags as sent, DO the highest of them (RFC 6891, 6.1.4).
    pub flags: u16,
    /// The options, as on the wire.
    pub options: &'a [u8],
}

impl<'a> Edns<'a> {
    /// Type of the OPT record.
    pub const RTYPE: u16 = 41;

    /// From the fields of an OPT record: its class, TTL and data.
    pub(crate) fn from_record(class: u16, ttl: u32, options: &'a [u8]) -> Self {
        let [ext_rcode, version, high, low] = ttl.to_be_bytes();
        Self {
            udp_size: class,
            ext_rcode,
            version,
            do_bit: high & 0x80 != 0,
            flags: u16::from_be_bytes([high, low]),
            options,
        }
    }

    /// The options: code and data. Ends before the first that runs past the record.
    pub fn options(&self) -> Options<'a> {
        Options { rest: self.options }
    }

    /// Offset within [`options`](Self::options) of the first option that runs past the record or whose length
    /// its code does not allow; `None` when all is well.
    pub fn malformed_option(&self) -> Option<usize> {
        let mut options = self.options();
        loop {
            let at = self.options.len() - options.rest.len();
            match options.next() {
                Some((code, data)) if !fits(code, data) => return Some(at),
                Some(_) => {}
                None if options.rest.is_empty() => return None,
                None => return Some(at),
            }
        }
    }
}

/// The options of an OPT record.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let ([code_high, code_low, len_high, len_low], tail) =
            self.rest.split_first_chunk::<4>()?;
        let len = usize::from(u16::from_be_bytes([*len_high, *len_low]));
        let (data, tail) = tail.split_at_checked(len)?;
        self.rest = tail;
        Some((u16::from_be_bytes([*code_high, *code_low]), data))
    }
}

/// Whether `data` has a length (and for client subnet a shape) that the option's RFC allows. Codes without a
/// rule may hold anything.
fn fits(code: u16, data: &[u8]) -> bool {
    match code {
        // Client subnet (RFC 7871). Family 0 with prefix 0 comes from stubs that ask for privacy.
        8 => match data {
            [0, family, prefix, _, address @ ..] => {
                let prefix = usize::from(*prefix);
                let bits = match family {
                    0 => 0,
                    1 => 32,
                    2 => 128,
                    _ => return true,
                };
                prefix <= bits && address.len() >= prefix.div_ceil(8) && address.len() <= bits / 8
            }
            [_, _, _, _, ..] => true,
            _ => false,
        },
        // Expire (RFC 7314): empty in a query.
        9 => matches!(data.len(), 0 | 4),
        // Cookie (RFC 7873).
        10 => matches!(data.len(), 8 | 16..=40),
        // TCP keepalive (RFC 7828): empty in a query.
        11 => matches!(data.len(), 0 | 2),
        // Extended DNS error (RFC 8914): a code, then text.
        15 => data.len() >= 2,
        _ => true,
    }
}

/// An option of an OPT record, as what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdnsOption<'a> {
    /// Name server identifier (3, RFC 5001): any octets; empty asks for it.
    Nsid(&'a [u8]),
    /// Client subnet (8, RFC 7871).
    ClientSubnet(ClientSubnet<'a>),
    /// Expire (9, RFC 7314) in seconds; empty asks for it.
    Expire(Option<u32>),
    /// Cookie (10, RFC 7873): the client's eight octets, and the server's 8 to 32 or none.
    Cookie {
        /// The client's part.
        client: &'a [u8],
        /// The server's part; empty when the client knows none yet.
        server: &'a [u8],
    },
    /// TCP keepalive (11, RFC 7828) in units of 100 ms; empty in a query.
    Keepalive(Option<u16>),
    /// Padding (12, RFC 7830), so many octets.
    Padding(usize),
    /// Extended DNS error (15, RFC 8914).
    ExtendedError {
        /// The code; see [`iana::extended_error_name`](crate::dns::iana::extended_error_name).
        code: u16,
        /// Text for people. UTF-8 is what it should be, any octets is what it is.
        text: &'a [u8],
    },
    /// An option of a code that is not decoded here.
    Other(&'a [u8]),
    /// The length or shape is not one that the code allows.
    Malformed(&'a [u8]),
}

/// A client subnet option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientSubnet<'a> {
    /// Address family (IANA): 1 is IPv4, 2 is IPv6; 0 comes from stubs that ask for privacy.
    pub family: u16,
    /// Bits of the address that the question gives.
    pub source_prefix: u8,
    /// Bits that the answer depends on.
    pub scope_prefix: u8,
    /// As many octets as the prefix needs, and no more from senders that keep to RFC 7871.
    pub address: &'a [u8],
}

impl ClientSubnet<'_> {
    /// The address, the octets that were left out zero. `None` for families without one.
    pub fn ip(&self) -> Option<IpAddr> {
        match self.family {
            1 => Some(IpAddr::from(filled::<4>(self.address)?)),
            2 => Some(IpAddr::from(filled::<16>(self.address)?)),
            _ => None,
        }
    }
}

fn filled<const LEN: usize>(octets: &[u8]) -> Option<[u8; LEN]> {
    let mut address = [0; LEN];
    address.get_mut(..octets.len())?.copy_from_slice(octets);
    Some(address)
}

impl<'a> EdnsOption<'a> {
    /// Reads an option's data by its code.
    pub fn parse(code: u16, data: &'a [u8]) -> Self {
        if !fits(code, data) {
            return Self::Malformed(data);
        }
        match (code, data) {
            (3, id) => Self::Nsid(id),
            (8, [high, low, source, scope, address @ ..]) => Self::ClientSubnet(ClientSubnet {
                family: u16::from_be_bytes([*high, *low]),
                source_prefix: *source,
                scope_prefix: *scope,
                address,
            }),
            (9, _) => Self::Expire(data.first_chunk().map(|octets| u32::from_be_bytes(*octets))),
            (10, _) => {
                let (client, server) = data.split_at_checked(8).unwrap_or((data, &[]));
                Self::Cookie { client, server }
            }
            (11, _) => {
                Self::Keepalive(data.first_chunk().map(|octets| u16::from_be_bytes(*octets)))
            }
            (12, _) => Self::Padding(data.len()),
            (15, [high, low, text @ ..]) => Self::ExtendedError {
                code: u16::from_be_bytes([*high, *low]),
                text,
            },
            (_, data) => Self::Other(data),
        }
    }
}
