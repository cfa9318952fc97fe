//! EDNS: the OPT record of a message (RFC 6891).

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
    /// The options, as on the wire.
    pub options: &'a [u8],
}

impl<'a> Edns<'a> {
    /// Type of the OPT record.
    pub const RTYPE: u16 = 41;

    /// From the fields of an OPT record: its class, TTL and data.
    pub(crate) fn from_record(class: u16, ttl: u32, options: &'a [u8]) -> Self {
        let [ext_rcode, version, flags, _] = ttl.to_be_bytes();
        Self {
            udp_size: class,
            ext_rcode,
            version,
            do_bit: flags & 0x80 != 0,
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
