//! The enumerations of the dnstap schema, with an `Unknown` member each: a value this program has no name for
//! is kept as its number and never refuses a record.

/// Defines one schema enumeration: names, numbers and the dense index used for counters.
macro_rules! wire_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$member_doc:meta])* $member:ident = $number:literal => $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$member_doc])* $member,)+
            /// A number the schema of 2025-02-01 does not name.
            Unknown(i32),
        }

        impl $name {
            /// The schema's names, in the order of [`index`](Self::index).
            pub const NAMES: &'static [&'static str] = &[$($text),+];

            /// The named members, in the order of [`index`](Self::index).
            pub const ALL: &'static [Self] = &[$(Self::$member),+];

            /// From the number on the wire.
            #[inline]
            pub const fn from_number(number: i32) -> Self {
                match number {
                    $($number => Self::$member,)+
                    other => Self::Unknown(other),
                }
            }

            /// The number on the wire.
            pub const fn number(self) -> i32 {
                match self {
                    $(Self::$member => $number,)+
                    Self::Unknown(number) => number,
                }
            }

            /// The schema's name, or `None` for an unknown number.
            #[inline]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$member => Some($text),)+
                    Self::Unknown(_) => None,
                }
            }

            /// The schema's name, or `other` for an unknown number: a closed set, fit for a metric label.
            pub const fn as_str(self) -> &'static str {
                match self.name() {
                    Some(name) => name,
                    None => "other",
                }
            }

            /// From the schema's name, in any letter case.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::NAMES.iter().zip(Self::ALL).find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, kind)| *kind)
            }

            /// A dense index for counters: `0..NAMES.len()` for the named members, `NAMES.len()` for all others.
            #[inline]
            pub const fn index(self) -> usize {
                // All six enumerations number their members from 1 without gaps (a test holds this).
                match self {
                    Self::Unknown(_) => Self::NAMES.len(),
                    known => (known.number() - 1) as usize,
                }
            }
        }
    };
}

wire_enum! {
    /// Role of the sender and direction of the DNS message: `Message.type`.
    MessageType {
        /// An authoritative server received a query.
        AuthQuery = 1 => "AUTH_QUERY",
        /// An authoritative server sent a response.
        AuthResponse = 2 => "AUTH_RESPONSE",
        /// A resolver sent a query to an authoritative server.
        ResolverQuery = 3 => "RESOLVER_QUERY",
        /// A resolver received a response from an authoritative server.
        ResolverResponse = 4 => "RESOLVER_RESPONSE",
        /// A resolver received a query from a client.
        ClientQuery = 5 => "CLIENT_QUERY",
        /// A resolver sent a response to a client.
        ClientResponse = 6 => "CLIENT_RESPONSE",
        /// A forwarder sent a query upstream.
        ForwarderQuery = 7 => "FORWARDER_QUERY",
        /// A forwarder received a response from upstream.
        ForwarderResponse = 8 => "FORWARDER_RESPONSE",
        /// A stub resolver sent a query.
        StubQuery = 9 => "STUB_QUERY",
        /// A stub resolver received a response.
        StubResponse = 10 => "STUB_RESPONSE",
        /// A DNS tool sent a query.
        ToolQuery = 11 => "TOOL_QUERY",
        /// A DNS tool received a response.
        ToolResponse = 12 => "TOOL_RESPONSE",
        /// A server received a dynamic update.
        UpdateQuery = 13 => "UPDATE_QUERY",
        /// A server answered a dynamic update.
        UpdateResponse = 14 => "UPDATE_RESPONSE",
    }
}

impl MessageType {
    /// Whether the event is a response. `None` for an unknown type, whose direction nothing tells.
    #[inline]
    pub const fn is_response(self) -> Option<bool> {
        match self {
            Self::Unknown(_) => None,
            known => Some(known.number() % 2 == 0),
        }
    }
}

wire_enum! {
    /// Address family the sender states: `Message.socket_family`. The addresses' lengths decide, not this.
    SocketFamily {
        /// IPv4.
        Inet = 1 => "INET",
        /// IPv6.
        Inet6 = 2 => "INET6",
    }
}

wire_enum! {
    /// Transport of the DNS message: `Message.socket_protocol`.
    SocketProtocol {
        /// DNS over UDP (RFC 1035).
        Udp = 1 => "UDP",
        /// DNS over TCP (RFC 1035).
        Tcp = 2 => "TCP",
        /// DNS over TLS (RFC 7858).
        Dot = 3 => "DOT",
        /// DNS over HTTPS (RFC 8484).
        Doh = 4 => "DOH",
        /// DNSCrypt over UDP.
        DnsCryptUdp = 5 => "DNSCryptUDP",
        /// DNSCrypt over TCP.
        DnsCryptTcp = 6 => "DNSCryptTCP",
        /// DNS over QUIC (RFC 9250).
        Doq = 7 => "DOQ",
    }
}

wire_enum! {
    /// HTTP version under DNS over HTTPS: `Message.http_protocol`.
    HttpProtocol {
        /// HTTP/1.
        Http1 = 1 => "HTTP1",
        /// HTTP/2.
        Http2 = 2 => "HTTP2",
        /// HTTP/3.
        Http3 = 3 => "HTTP3",
    }
}

wire_enum! {
    /// What a response policy rule matched: `Policy.match`.
    PolicyMatch {
        /// The query name.
        QName = 1 => "QNAME",
        /// The client's address.
        ClientIp = 2 => "CLIENT_IP",
        /// An address in the response.
        ResponseIp = 3 => "RESPONSE_IP",
        /// A name server's name.
        NsName = 4 => "NS_NAME",
        /// A name server's address.
        NsIp = 5 => "NS_IP",
    }
}

wire_enum! {
    /// What a response policy rule did: `Policy.action`.
    PolicyAction {
        /// Answered that the name does not exist.
        NxDomain = 1 => "NXDOMAIN",
        /// Answered without data.
        NoData = 2 => "NODATA",
        /// Let the answer through.
        Pass = 3 => "PASS",
        /// Did not answer.
        Drop = 4 => "DROP",
        /// Answered with TC set.
        Truncate = 5 => "TRUNCATE",
        /// Answered with local data.
        LocalData = 6 => "LOCAL_DATA",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! check {
        ($($name:ident),+) => {$(
            for (index, (kind, name)) in $name::ALL.iter().zip($name::NAMES).enumerate() {
                assert_eq!(kind.index(), index);
                assert_eq!($name::from_number(kind.number()), *kind);
                assert_eq!(kind.name(), Some(*name));
                assert_eq!($name::from_name(&name.to_lowercase()), Some(*kind));
            }
            for number in [0, -1, i32::MIN, i32::MAX, $name::NAMES.len() as i32 + 1] {
                let kind = $name::from_number(number);
                assert_eq!((kind.number(), kind.name(), kind.as_str()), (number, None, "other"));
                assert_eq!(kind.index(), $name::NAMES.len());
            }
            assert_eq!($name::from_name("nothing"), None);
        )+};
    }

    #[test]
    fn every_name_number_and_index_leads_back_to_its_member() {
        check!(
            MessageType,
            SocketFamily,
            SocketProtocol,
            HttpProtocol,
            PolicyMatch,
            PolicyAction
        );
    }

    #[test]
    fn even_message_types_are_responses() {
        assert_eq!(MessageType::ClientQuery.is_response(), Some(false));
        assert_eq!(MessageType::UpdateResponse.is_response(), Some(true));
        assert_eq!(MessageType::Unknown(16).is_response(), None);
    }
}
