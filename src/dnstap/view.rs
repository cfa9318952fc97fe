//! [`DnstapView`]: a dnstap payload read in one pass, every field borrowed.
//!
//! The view decodes what prost decodes, from the same bytes and with the same verdict: the last of a repeated
//! scalar wins, repeated embedded messages are merged, unknown fields (groups too) are skipped, enum numbers
//! and 32-bit integers are truncated from the 64 bits of their varint, and a known field with a foreign wire
//! type is an error. It validates nothing else: whether a frame counts as a record is [`DnstapView::classify`],
//! and what looks wrong in a record without costing it is [`Message::oddities`].
//!
//! Cost, from `benches/dnstap.rs` over `testdata/captures`: about 55 ns a frame with the DNS header and
//! question included, where prost takes about 240 ns without them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::dnstap::kinds::{HttpProtocol, MessageType, SocketFamily, SocketProtocol};
use crate::dnstap::protobuf::{
    BYTES, FIXED32, VARINT, bytes, bytes_wide, fixed32, key, skip, varint, varint_wide,
};
use crate::dnstap::reason::{DecodeReason, Oddities, Oddity, ViewError};

/// One dnstap payload, borrowed from its frame. Every field is as sent; absent is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DnstapView<'a> {
    /// Name of the sending server (field 1). Any octets, of any length.
    pub identity: Option<&'a [u8]>,
    /// Version of the sending server (field 2). Any octets.
    pub version: Option<&'a [u8]>,
    /// For the sender's own use (field 3). Any octets.
    pub extra: Option<&'a [u8]>,
    /// What the payload holds (field 15): 1 is MESSAGE, the only value the schema names.
    pub kind: Option<i32>,
    /// The DNS event (field 14).
    pub message: Option<Message<'a>>,
}

impl<'a> DnstapView<'a> {
    /// Value of [`kind`](Self::kind) that says the payload holds a message.
    pub const KIND_MESSAGE: i32 = 1;

    /// Reads a payload. Allocates nothing.
    ///
    /// # Errors
    ///
    /// Exactly when prost refuses the bytes: they are not protobuf, or a known field has the wrong wire type.
    /// Missing fields are not errors here; see [`classify`](Self::classify).
    #[inline]
    pub fn parse(payload: &'a [u8]) -> Result<Self, ViewError> {
        let mut view = Self::default();
        view.read(payload)?;
        Ok(view)
    }

    /// The same in place, over a view that is still the default one: a view has some 350 bytes, and copying them once costs
    /// a tenth of reading them.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse); the view holds what was read until then.
    #[inline]
    pub(crate) fn read(&mut self, payload: &'a [u8]) -> Result<(), ViewError> {
        let mut rest = payload;
        while let Some(&first) = rest.first() {
            match first {
                K_IDENTITY => self.identity = Some(bytes(after_key(&mut rest))?),
                K_VERSION => self.version = Some(bytes(after_key(&mut rest))?),
                K_EXTRA => self.extra = Some(bytes(after_key(&mut rest))?),
                K_MESSAGE => {
                    let body = bytes_wide(after_key(&mut rest))?;
                    self.message.get_or_insert_default().merge(body)?;
                }
                K_DNSTAP_TYPE => self.kind = Some(varint(after_key(&mut rest))? as i32),
                _ => self.merge_odd(&mut rest)?,
            }
        }
        Ok(())
    }

    /// Reads one field whose key is not the single octet it usually is: an unknown one, one with a foreign wire
    /// type, or a key written with more octets than it needs.
    #[cold]
    #[inline(never)]
    fn merge_odd(&mut self, rest: &mut &'a [u8]) -> Result<(), ViewError> {
        let (number, wire_type) = key(rest)?;
        match (number, wire_type) {
            (1, BYTES) => self.identity = Some(bytes(rest)?),
            (2, BYTES) => self.version = Some(bytes(rest)?),
            (3, BYTES) => self.extra = Some(bytes(rest)?),
            (14, BYTES) => self.message.get_or_insert_default().merge(bytes(rest)?)?,
            (15, VARINT) => self.kind = Some(varint(rest)? as i32),
            (1..=3 | 14 | 15, _) => return Err(ViewError::WireType),
            _ => skip(rest, number, wire_type, 0)?,
        }
        Ok(())
    }

    /// The message, or why this frame does not count as a record.
    ///
    /// A record needs both type fields and a message (field-reports.md B067, B071); an unknown *message* type
    /// is still a record, an unknown payload type is not.
    ///
    /// # Errors
    ///
    /// The first of: payload type missing, payload type unknown, message missing, message type missing.
    #[inline]
    pub fn classify(&self) -> Result<&Message<'a>, DecodeReason> {
        match self.kind {
            Some(Self::KIND_MESSAGE) => {}
            Some(_) => return Err(DecodeReason::UnknownDnstapType),
            None => return Err(DecodeReason::MissingDnstapType),
        }
        let message = self.message.as_ref().ok_or(DecodeReason::MissingMessage)?;
        if message.kind.is_none() {
            return Err(DecodeReason::MissingMessageType);
        }
        Ok(message)
    }
}

/// One DNS event, borrowed from its frame. Every field is as sent; absent is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message<'a> {
    /// Role and direction (field 1); see [`message_type`](Self::message_type).
    pub kind: Option<i32>,
    /// Address family as stated (field 2); see [`family`](Self::family).
    pub socket_family: Option<i32>,
    /// Transport (field 3); see [`protocol`](Self::protocol).
    pub socket_protocol: Option<i32>,
    /// Address of whoever asked (field 4); see [`query_ip`](Self::query_ip).
    pub query_address: Option<&'a [u8]>,
    /// Address of whoever answered (field 5); see [`response_ip`](Self::response_ip).
    pub response_address: Option<&'a [u8]>,
    /// Port of whoever asked (field 6). 32 bits on the wire, so it may be no port at all.
    pub query_port: Option<u32>,
    /// Port of whoever answered (field 7). 32 bits on the wire, so it may be no port at all.
    pub response_port: Option<u32>,
    /// Query time in seconds since 1970 UTC (field 8), all 64 bits of it.
    pub query_time_sec: Option<u64>,
    /// Fraction of the query time in nanoseconds (field 9), as sent: 1,000,000,000 and more occur.
    pub query_time_nsec: Option<u32>,
    /// The query in DNS wire format (field 10). May be empty.
    pub query_message: Option<&'a [u8]>,
    /// Zone of the query, a name in wire format (field 11); see [`zone`](Self::zone).
    pub query_zone: Option<&'a [u8]>,
    /// Response time in seconds since 1970 UTC (field 12), all 64 bits of it.
    pub response_time_sec: Option<u64>,
    /// Fraction of the response time in nanoseconds (field 13), as sent.
    pub response_time_nsec: Option<u32>,
    /// The response in DNS wire format (field 14). May be empty.
    pub response_message: Option<&'a [u8]>,
    /// Policy rule that took effect (field 15).
    pub policy: Option<Policy<'a>>,
    /// HTTP version (field 16); see [`http`](Self::http).
    pub http_protocol: Option<i32>,
}

/// Longest latency taken for real: 10 minutes. No resolver waits that long; more means that clocks differ.
pub const LATENCY_MAX: Duration = Duration::from_secs(600);

impl<'a> Message<'a> {
    /// Reads the fields of `body` on top of what is already here, as protobuf merges repeated messages.
    #[inline]
    fn merge(&mut self, body: &'a [u8]) -> Result<(), ViewError> {
        let mut rest = body;
        while let Some(&first) = rest.first() {
            match first {
                K_TYPE => self.kind = Some(varint(after_key(&mut rest))? as i32),
                K_FAMILY => self.socket_family = Some(varint(after_key(&mut rest))? as i32),
                K_PROTOCOL => self.socket_protocol = Some(varint(after_key(&mut rest))? as i32),
                K_QUERY_ADDRESS => self.query_address = Some(bytes(after_key(&mut rest))?),
                K_RESPONSE_ADDRESS => self.response_address = Some(bytes(after_key(&mut rest))?),
                K_QUERY_PORT => self.query_port = Some(varint_wide(after_key(&mut rest))? as u32),
                K_RESPONSE_PORT => {
                    self.response_port = Some(varint_wide(after_key(&mut rest))? as u32)
                }
                K_QUERY_SEC => self.query_time_sec = Some(varint_wide(after_key(&mut rest))?),
                K_QUERY_NSEC => self.query_time_nsec = Some(fixed32(after_key(&mut rest))?),
                K_QUERY_MESSAGE => self.query_message = Some(bytes_wide(after_key(&mut rest))?),
                K_QUERY_ZONE => self.query_zone = Some(bytes(after_key(&mut rest))?),
                K_RESPONSE_SEC => self.response_time_sec = Some(varint_wide(after_key(&mut rest))?),
                K_RESPONSE_NSEC => self.response_time_nsec = Some(fixed32(after_key(&mut rest))?),
                K_RESPONSE_MESSAGE => {
                    self.response_message = Some(bytes_wide(after_key(&mut rest))?)
                }
                _ => self.merge_odd(&mut rest)?,
            }
        }
        Ok(())
    }

    /// Reads one field that is rare, unknown, of a foreign wire type, or whose key is longer than it needs be.
    #[cold]
    #[inline(never)]
    fn merge_odd(&mut self, rest: &mut &'a [u8]) -> Result<(), ViewError> {
        let (number, wire_type) = key(rest)?;
        match (number, wire_type) {
            (1, VARINT) => self.kind = Some(varint(rest)? as i32),
            (2, VARINT) => self.socket_family = Some(varint(rest)? as i32),
            (3, VARINT) => self.socket_protocol = Some(varint(rest)? as i32),
            (4, BYTES) => self.query_address = Some(bytes(rest)?),
            (5, BYTES) => self.response_address = Some(bytes(rest)?),
            (6, VARINT) => self.query_port = Some(varint(rest)? as u32),
            (7, VARINT) => self.response_port = Some(varint(rest)? as u32),
            (8, VARINT) => self.query_time_sec = Some(varint(rest)?),
            (9, FIXED32) => self.query_time_nsec = Some(fixed32(rest)?),
            (10, BYTES) => self.query_message = Some(bytes(rest)?),
            (11, BYTES) => self.query_zone = Some(bytes(rest)?),
            (12, VARINT) => self.response_time_sec = Some(varint(rest)?),
            (13, FIXED32) => self.response_time_nsec = Some(fixed32(rest)?),
            (14, BYTES) => self.response_message = Some(bytes(rest)?),
            (15, BYTES) => self.policy.get_or_insert_default().merge(bytes(rest)?)?,
            (16, VARINT) => self.http_protocol = Some(varint(rest)? as i32),
            (1..=16, _) => return Err(ViewError::WireType),
            _ => skip(rest, number, wire_type, 1)?,
        }
        Ok(())
    }

    /// Role and direction. A message without the field counts as `Unknown(0)`, which no sender means.
    #[inline]
    pub fn message_type(&self) -> MessageType {
        MessageType::from_number(self.kind.unwrap_or(0))
    }

    /// Address family as stated. The addresses themselves say it by their length, so this is for show.
    pub fn family(&self) -> Option<SocketFamily> {
        self.socket_family.map(SocketFamily::from_number)
    }

    /// Transport of the DNS message.
    #[inline]
    pub fn protocol(&self) -> Option<SocketProtocol> {
        self.socket_protocol.map(SocketProtocol::from_number)
    }

    /// HTTP version under DNS over HTTPS.
    pub fn http(&self) -> Option<HttpProtocol> {
        self.http_protocol.map(HttpProtocol::from_number)
    }

    /// Address of whoever asked: by length, 4 octets IPv4, 16 octets IPv6. An IPv4-mapped address in a message
    /// that states INET is the IPv4 address (CoreDNS sends those, field-reports.md B065). Empty or of another
    /// length is absent; the latter is an [`Oddity::AddressLength`].
    #[inline]
    pub fn query_ip(&self) -> Option<IpAddr> {
        self.ip(self.query_address)
    }

    /// Address of whoever answered, by the same rules as [`query_ip`](Self::query_ip).
    #[inline]
    pub fn response_ip(&self) -> Option<IpAddr> {
        self.ip(self.response_address)
    }

    /// The client: whoever sent the query, whichever role the dnstap sender plays. The same as
    /// [`query_ip`](Self::query_ip), under the name that filters and samplers use.
    #[inline]
    pub fn client_ip(&self) -> Option<IpAddr> {
        self.query_ip()
    }

    #[inline]
    fn ip(&self, address: Option<&[u8]>) -> Option<IpAddr> {
        let address = address?;
        if let Ok(octets) = <[u8; 4]>::try_from(address) {
            return Some(IpAddr::V4(Ipv4Addr::from(octets)));
        }
        let v6 = Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?);
        if self.socket_family == Some(SocketFamily::Inet.number())
            && let Some(v4) = v6.to_ipv4_mapped()
        {
            return Some(IpAddr::V4(v4));
        }
        Some(IpAddr::V6(v6))
    }

    /// When the query was sent or received. Needs the seconds; a missing fraction is 0.
    #[inline]
    pub fn query_time(&self) -> Option<Timestamp> {
        Timestamp::new(self.query_time_sec, self.query_time_nsec)
    }

    /// When the response was sent or received. Needs the seconds; a missing fraction is 0.
    #[inline]
    pub fn response_time(&self) -> Option<Timestamp> {
        Timestamp::new(self.response_time_sec, self.response_time_nsec)
    }

    /// When the event took place: the response time of a response, the query time of a query. For an unknown
    /// type, whichever there is, the response time first.
    #[inline]
    pub fn time(&self) -> Option<Timestamp> {
        match self.message_type().is_response() {
            Some(true) => self.response_time(),
            Some(false) => self.query_time(),
            None => self.response_time().or_else(|| self.query_time()),
        }
    }

    /// Time from query to response, where the message carries both times and the difference is sane: from 0 up
    /// to but not including [`LATENCY_MAX`], both fractions below a second. Never guessed, never zero for want
    /// of a time.
    #[inline]
    pub fn latency(&self) -> Option<Duration> {
        let (asked, answered) = (self.query_time()?, self.response_time()?);
        if !asked.is_sane() || !answered.is_sane() {
            return None;
        }
        let asked = Duration::new(asked.seconds, asked.nanos);
        let latency = Duration::new(answered.seconds, answered.nanos).checked_sub(asked)?;
        (latency < LATENCY_MAX).then_some(latency)
    }

    /// The DNS message this event is about and whether it is the response: `response_message` of a response
    /// type, `query_message` of a query type, nothing from the other field (field-reports.md: old BIND fills in
    /// both with the response). For an unknown type, whichever there is, the response first.
    ///
    /// `None` when the sender left it out (Knot Resolver with queries off, CoreDNS without `full`, Knot's
    /// UPDATE events): that is a record without a name, not a malformed one. `Some` may be empty, which is.
    #[inline]
    pub fn dns(&self) -> Option<(&'a [u8], bool)> {
        let query = || self.query_message.map(|octets| (octets, false));
        let response = || self.response_message.map(|octets| (octets, true));
        match self.message_type().is_response() {
            Some(true) => response(),
            Some(false) => query(),
            None => response().or_else(query),
        }
    }

    /// The query zone's octets, if they are a name in wire format: labels of 1 to 63 octets, then the root
    /// label at the very end, 255 octets at most, no compression. Otherwise absent, and an
    /// [`Oddity::QueryZone`] unless the field is empty (corpus p45).
    pub fn zone(&self) -> Option<&'a [u8]> {
        self.query_zone.filter(|zone| is_wire_name(zone))
    }

    /// What in this message looks wrong without costing the record. Not part of the hot path's single pass.
    pub fn oddities(&self) -> Oddities {
        let mut odd = Oddities::default();
        for address in [self.query_address, self.response_address]
            .into_iter()
            .flatten()
        {
            match (address.len(), self.family()) {
                (0, _) | (4 | 16, None) => {}
                (4, Some(SocketFamily::Inet6)) | (16, Some(SocketFamily::Inet)) => {
                    odd.set(Oddity::AddressFamily)
                }
                (4 | 16, _) => {}
                _ => odd.set(Oddity::AddressLength),
            }
        }
        if self
            .query_zone
            .is_some_and(|zone| !zone.is_empty() && !is_wire_name(zone))
        {
            odd.set(Oddity::QueryZone);
        }
        if [self.query_time(), self.response_time()]
            .into_iter()
            .flatten()
            .any(|time| !time.is_sane())
        {
            odd.set(Oddity::Time);
        }
        if [self.query_port, self.response_port]
            .into_iter()
            .flatten()
            .any(|port| port > 0xffff)
        {
            odd.set(Oddity::Port);
        }
        odd
    }
}

/// A response policy rule that took effect, borrowed. Every field is as sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy<'a> {
    /// Kind of policy, for example `RPZ` (field 1). Text by the schema, any octets in practice.
    pub kind: Option<&'a [u8]>,
    /// The rule in the sender's notation (field 2).
    pub rule: Option<&'a [u8]>,
    /// What was done (field 3); see [`PolicyAction`](crate::dnstap::PolicyAction).
    pub action: Option<i32>,
    /// What was matched (field 4); see [`PolicyMatch`](crate::dnstap::PolicyMatch).
    pub matched: Option<i32>,
    /// The value that matched (field 5).
    pub value: Option<&'a [u8]>,
}

impl<'a> Policy<'a> {
    fn merge(&mut self, body: &'a [u8]) -> Result<(), ViewError> {
        let rest = &mut &*body;
        while !rest.is_empty() {
            let (number, wire_type) = key(rest)?;
            match (number, wire_type) {
                (1, BYTES) => self.kind = Some(bytes(rest)?),
                (2, BYTES) => self.rule = Some(bytes(rest)?),
                (3, VARINT) => self.action = Some(varint(rest)? as i32),
                (4, VARINT) => self.matched = Some(varint(rest)? as i32),
                (5, BYTES) => self.value = Some(bytes(rest)?),
                (1..=5, _) => return Err(ViewError::WireType),
                _ => skip(rest, number, wire_type, 2)?,
            }
        }
        Ok(())
    }
}

/// A sender's time, exactly as sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since 1970 UTC, never wrapped or cut.
    pub seconds: u64,
    /// Nanoseconds within the second; 1,000,000,000 and more when the sender wrote so.
    pub nanos: u32,
}

impl Timestamp {
    /// First second that RFC 3339 cannot write: the start of the year 10000.
    pub const SECONDS_END: u64 = 253_402_300_800;

    #[inline]
    fn new(seconds: Option<u64>, nanos: Option<u32>) -> Option<Self> {
        seconds.map(|seconds| Self {
            seconds,
            nanos: nanos.unwrap_or(0),
        })
    }

    /// Whether this is a time that a calendar can show: before the year 10000, fraction below a second.
    #[inline]
    pub fn is_sane(self) -> bool {
        self.seconds < Self::SECONDS_END && self.nanos < 1_000_000_000
    }
}

/// Whether `octets` are one whole uncompressed name in wire format (RFC 1035, 3.1).
fn is_wire_name(octets: &[u8]) -> bool {
    if octets.len() > 255 {
        return false;
    }
    let mut rest = octets;
    while let Some((&len, tail)) = rest.split_first() {
        if len == 0 {
            return tail.is_empty();
        }
        let Some((_, after)) = tail.split_at_checked(usize::from(len)).filter(|_| len < 64) else {
            return false;
        };
        rest = after;
    }
    false
}

/// Steps over a key of one octet that the caller has looked at.
#[inline(always)]
fn after_key<'r, 'a>(rest: &'r mut &'a [u8]) -> &'r mut &'a [u8] {
    *rest = rest.split_first().map_or(&[][..], |(_, tail)| tail);
    rest
}

/// The octet that a field's key takes, for numbers up to 15.
const fn one_octet_key(number: u8, wire_type: u8) -> u8 {
    number << 3 | wire_type
}

const K_IDENTITY: u8 = one_octet_key(1, BYTES);
const K_VERSION: u8 = one_octet_key(2, BYTES);
const K_EXTRA: u8 = one_octet_key(3, BYTES);
const K_MESSAGE: u8 = one_octet_key(14, BYTES);
const K_DNSTAP_TYPE: u8 = one_octet_key(15, VARINT);

const K_TYPE: u8 = one_octet_key(1, VARINT);
const K_FAMILY: u8 = one_octet_key(2, VARINT);
const K_PROTOCOL: u8 = one_octet_key(3, VARINT);
const K_QUERY_ADDRESS: u8 = one_octet_key(4, BYTES);
const K_RESPONSE_ADDRESS: u8 = one_octet_key(5, BYTES);
const K_QUERY_PORT: u8 = one_octet_key(6, VARINT);
const K_RESPONSE_PORT: u8 = one_octet_key(7, VARINT);
const K_QUERY_SEC: u8 = one_octet_key(8, VARINT);
const K_QUERY_NSEC: u8 = one_octet_key(9, FIXED32);
const K_QUERY_MESSAGE: u8 = one_octet_key(10, BYTES);
const K_QUERY_ZONE: u8 = one_octet_key(11, BYTES);
const K_RESPONSE_SEC: u8 = one_octet_key(12, VARINT);
const K_RESPONSE_NSEC: u8 = one_octet_key(13, FIXED32);
const K_RESPONSE_MESSAGE: u8 = one_octet_key(14, BYTES);
