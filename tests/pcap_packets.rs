//! From packets built octet by octet to DNS messages: link types, IP in all its forms, fragments, TCP streams.

use tapflow::pcap::{
    DnsPacket, DnsTransport, ExtractOptions, Extractor, FragmentLimits, Packet, TcpLimits,
};

const QUERY: &[u8] =
    b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x00\x00\x01\x00\x01";
const SECOND: u64 = 1_000_000_000;

fn n16(n: usize) -> [u8; 2] {
    u16::try_from(n).unwrap().to_be_bytes()
}

fn udp(ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    [
        &ports.0.to_be_bytes()[..],
        &ports.1.to_be_bytes(),
        &n16(8 + payload.len()),
        &[0, 0],
        payload,
    ]
    .concat()
}

/// A datagram from a client's port to port 53.
fn query() -> Vec<u8> {
    udp((1000, 53), QUERY)
}

struct V4<'a> {
    protocol: u8,
    options: &'a [u8],
    id: u16,
    /// Flags and offset in units of 8 octets.
    fragment: u16,
}

const UDP4: V4<'_> = V4 {
    protocol: 17,
    options: &[],
    id: 7,
    fragment: 0,
};

fn ip4(header: &V4<'_>, payload: &[u8]) -> Vec<u8> {
    let header_len = 20 + header.options.len();
    [
        &[0x40 + (header_len / 4) as u8, 0][..],
        &n16(header_len + payload.len()),
        &header.id.to_be_bytes(),
        &header.fragment.to_be_bytes(),
        &[64, header.protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2],
        header.options,
        payload,
    ]
    .concat()
}

fn ip6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut address = [0; 16];
    address[..4].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
    [
        &[0x60, 0, 0, 0][..],
        &n16(payload.len()),
        &[next, 64],
        &address,
        &address,
        payload,
    ]
    .concat()
}

fn ip6_fragment(next: u8, id: u32, offset: u16, more: bool, payload: &[u8]) -> Vec<u8> {
    let field = offset | u16::from(more);
    ip6(
        44,
        &[
            &[next, 0][..],
            &field.to_be_bytes(),
            &id.to_be_bytes(),
            payload,
        ]
        .concat(),
    )
}

fn ether(kind: [u8; 2], payload: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &kind, payload].concat()
}

type Message = (String, String, DnsTransport, Vec<u8>, bool);

struct Chain {
    extractor: Extractor,
    found: Vec<Message>,
}

impl Chain {
    fn new(options: ExtractOptions) -> Self {
        Self {
            extractor: Extractor::new(options),
            found: Vec::new(),
        }
    }

    fn push(&mut self, time_ns: u64, link: u32, data: &[u8]) {
        self.push_cut(time_ns, link, data, data.len());
    }

    fn push_cut(&mut self, time_ns: u64, link: u32, data: &[u8], captured: usize) {
        let packet = Packet {
            time_ns,
            link,
            data: &data[..captured],
            wire_len: data.len() as u32,
        };
        let found = &mut self.found;
        self.extractor.push(&packet, &mut |packet: DnsPacket<'_>| {
            found.push(keep(&packet))
        });
    }

    fn finish(&mut self) {
        let found = &mut self.found;
        self.extractor
            .finish(&mut |packet: DnsPacket<'_>| found.push(keep(&packet)));
        let counters = self.extractor.counters();
        assert_eq!(
            counters.outcomes().map(|(_, n)| n).sum::<u64>(),
            counters.packets
        );
    }

    fn count(&self, name: &str) -> u64 {
        let counter = self
            .extractor
            .counters()
            .rows()
            .find(|(counter, _)| *counter == name);
        counter.unwrap_or_else(|| panic!("no counter {name}")).1
    }

    fn payloads(&self) -> Vec<&[u8]> {
        self.found
            .iter()
            .map(|message| message.3.as_slice())
            .collect()
    }
}

fn keep(packet: &DnsPacket<'_>) -> Message {
    (
        packet.src.to_string(),
        packet.dst.to_string(),
        packet.transport,
        packet.payload.to_vec(),
        packet.truncated,
    )
}

#[test]
fn finds_a_query_behind_every_link_layer() {
    let (v4, v6) = (ip4(&UDP4, &query()), ip6(17, &query()));
    let tag = |kind: [u8; 2], inner: &[u8]| [&[0, 5][..], &kind, inner].concat();
    let sll = |kind: [u8; 2], inner: &[u8]| [&[0; 14][..], &kind, inner].concat();
    let sll2 = |kind: [u8; 2], inner: &[u8]| [&kind[..], &[0; 18], inner].concat();
    let ip = [0x08, 0x00];
    let ipv6 = [0x86, 0xdd];
    let vlan = [0x81, 0x00];
    let qinq = [0x88, 0xa8];
    let snap = |kind: [u8; 2], inner: &[u8]| [&[0xaa, 0xaa, 3, 0, 0, 0][..], &kind, inner].concat();
    let pppoe =
        |protocol: [u8; 2], inner: &[u8]| [&[0x11, 0, 0, 1, 0, 9][..], &protocol, inner].concat();
    let family = |octets: [u8; 4], inner: &[u8]| [&octets[..], inner].concat();
    let rows: Vec<(&str, u32, Vec<u8>)> = vec![
        ("ethernet", 1, ether(ip, &v4)),
        ("ethernet v6", 1, ether(ipv6, &v6)),
        (
            "ethernet with a trailer",
            1,
            [ether(ip, &v4), vec![0xee; 9]].concat(),
        ),
        ("802.1Q", 1, ether(vlan, &tag(ip, &v4))),
        ("802.1Q v6", 1, ether(vlan, &tag(ipv6, &v6))),
        ("QinQ", 1, ether(qinq, &tag(vlan, &tag(ip, &v4)))),
        (
            "QinQ of old",
            1,
            ether([0x91, 0], &tag(vlan, &tag(ip, &v4))),
        ),
        (
            "three tags",
            1,
            ether(vlan, &tag(vlan, &tag(vlan, &tag(ip, &v4)))),
        ),
        (
            "802.3 with SNAP",
            1,
            ether(n16(8 + v4.len()), &snap(ip, &v4)),
        ),
        ("PPPoE", 1, ether([0x88, 0x64], &pppoe([0, 0x21], &v4))),
        (
            "PPPoE v6 in a VLAN",
            1,
            ether(vlan, &tag([0x88, 0x64], &pppoe([0, 0x57], &v6))),
        ),
        ("FDDI", 10, [vec![0x50; 13], snap(ip, &v4)].concat()),
        ("raw 12", 12, v4.clone()),
        ("raw 14", 14, v4.clone()),
        ("raw 101", 101, v4.clone()),
        ("raw 101 v6", 101, v6.clone()),
        ("raw IPv4", 228, v4.clone()),
        ("raw IPv6", 229, v6.clone()),
        ("null, little endian", 0, family([2, 0, 0, 0], &v4)),
        ("null, big endian", 0, family([0, 0, 0, 2], &v4)),
        ("null v6 of NetBSD", 0, family([24, 0, 0, 0], &v6)),
        ("null v6 of FreeBSD", 0, family([28, 0, 0, 0], &v6)),
        ("null v6 of macOS", 0, family([0, 0, 0, 30], &v6)),
        ("null v6 of Linux", 0, family([10, 0, 0, 0], &v6)),
        ("loop", 108, family([0, 0, 0, 2], &v4)),
        ("loop v6", 108, family([0, 0, 0, 24], &v6)),
        ("cooked v1", 113, sll(ip, &v4)),
        ("cooked v1 v6", 113, sll(ipv6, &v6)),
        ("cooked v1 with a tag", 113, sll(vlan, &tag(ip, &v4))),
        ("cooked v2", 276, sll2(ip, &v4)),
        ("cooked v2 v6", 276, sll2(ipv6, &v6)),
    ];
    for (what, link, data) in rows {
        let mut chain = Chain::new(ExtractOptions::default());
        chain.push(1, link, &data);
        chain.finish();
        assert_eq!(chain.payloads(), [QUERY], "{what}");
        let (src, dst, transport, ..) = &chain.found[0];
        let want = match src.starts_with('[') {
            true => ("[2001:db8::]:1000", "[2001:db8::]:53"),
            false => ("192.0.2.1:1000", "192.0.2.2:53"),
        };
        assert_eq!(
            (src.as_str(), dst.as_str(), *transport),
            (want.0, want.1, DnsTransport::Udp),
            "{what}"
        );
        // Cut at every octet: never a panic, always one outcome, and no message that is not marked as cut.
        for captured in 0..data.len() {
            let mut chain = Chain::new(ExtractOptions::default());
            chain.push_cut(1, link, &data, captured);
            chain.finish();
            for (.., payload, truncated) in &chain.found {
                assert!(
                    *truncated == (payload.len() < QUERY.len()),
                    "{what} cut to {captured}"
                );
            }
        }
    }
}

#[test]
fn counts_what_is_no_dns_by_reason() {
    let good = query();
    let v4 = |payload: &[u8]| ip4(&UDP4, payload);
    let of = |protocol: u8, payload: &[u8]| ip4(&V4 { protocol, ..UDP4 }, payload);
    let mut short_total = v4(&good);
    short_total[3] = 19;
    let mut short_header = v4(&good);
    short_header[0] = 0x44;
    let mut long_udp = good.clone();
    long_udp[5] += 1;
    let mut short_udp = good.clone();
    short_udp[5] = 7;
    let tags = (0..9).fold(Vec::new(), |inner, _| {
        [&[0, 1, 0x81, 0][..], &inner].concat()
    });
    let hops = (0..20).fold(good.clone(), |inner, n| {
        [
            &[if n == 0 { 17 } else { 60 }, 0, 0, 0, 0, 0, 0, 0][..],
            &inner,
        ]
        .concat()
    });
    let rows: Vec<(&str, u32, Vec<u8>, &str)> = vec![
        ("unknown link type", 147, v4(&good), "link_unknown"),
        (
            "an Ethernet header cut short",
            1,
            vec![2; 13],
            "link_malformed",
        ),
        ("nine tags", 1, ether([0x81, 0], &tags), "link_malformed"),
        ("ARP", 1, ether([8, 6], &[0; 28]), "not_ip"),
        (
            "spanning tree",
            1,
            ether([0, 38], &[0x42, 0x42, 3]),
            "not_ip",
        ),
        ("AppleTalk on a loopback", 0, vec![16, 0, 0, 0, 1], "not_ip"),
        (
            "PPPoE link control",
            1,
            ether([0x88, 0x64], &[0x11, 0, 0, 1, 0, 4, 0xc0, 0x21]),
            "not_ip",
        ),
        (
            "nothing behind Ethernet",
            1,
            ether([8, 0], &[]),
            "ip_malformed",
        ),
        ("version 5", 101, vec![0x55; 40], "ip_malformed"),
        (
            "a total length below the header's",
            101,
            short_total,
            "ip_malformed",
        ),
        ("a header length of 16", 101, short_header, "ip_malformed"),
        (
            "twenty extension headers",
            101,
            ip6(60, &hops),
            "ip_malformed",
        ),
        ("ICMP", 101, of(1, &good), "not_udp_or_tcp"),
        ("no next header", 101, ip6(59, &good), "not_udp_or_tcp"),
        (
            "a UDP length beyond the packet",
            101,
            v4(&long_udp),
            "transport_malformed",
        ),
        (
            "a UDP length below the header's",
            101,
            v4(&short_udp),
            "transport_malformed",
        ),
        (
            "seven octets of UDP",
            101,
            v4(&good[..7]),
            "transport_malformed",
        ),
        (
            "a TCP header of 16 octets",
            101,
            of(6, &tcp(1000, 53, 0, SYN, b"")[..16]),
            "transport_malformed",
        ),
        (
            "multicast DNS",
            101,
            v4(&udp((5353, 5353), QUERY)),
            "other_port",
        ),
        (
            "an empty datagram",
            101,
            v4(&udp((1000, 53), b"")),
            "udp_empty",
        ),
        (
            "a response",
            101,
            v4(&udp((53, 1000), QUERY)),
            "udp_messages",
        ),
        ("one octet", 101, v4(&udp((53, 1000), b"x")), "udp_messages"),
        (
            "a TCP segment",
            101,
            of(6, &tcp(1000, 53, 0, SYN, b"")),
            "tcp_segments",
        ),
        (
            "a fragment that is held",
            101,
            ip4(
                &V4 {
                    fragment: 0x2000,
                    ..UDP4
                },
                &good[..16],
            ),
            "fragments_held",
        ),
        (
            "a fragment of 15 octets",
            101,
            ip4(
                &V4 {
                    fragment: 0x2000,
                    ..UDP4
                },
                &good[..15],
            ),
            "fragments_refused",
        ),
    ];
    for (what, link, data, counter) in rows {
        let mut chain = Chain::new(ExtractOptions::default());
        chain.push(1, link, &data);
        chain.finish();
        assert_eq!(
            chain.count(counter),
            1,
            "{what}: {:?}",
            chain.extractor.counters()
        );
    }
}

#[test]
fn passes_ip_options_and_extension_headers() {
    let good = query();
    let ext = |next: u8, units: u8, len: usize| {
        let mut header = vec![next, units];
        header.resize(len, 0);
        header
    };
    let rows: Vec<(&str, Vec<u8>)> = vec![
        (
            "options",
            ip4(
                &V4 {
                    options: &[1; 40],
                    ..UDP4
                },
                &good,
            ),
        ),
        (
            "do not fragment",
            ip4(
                &V4 {
                    fragment: 0x4000,
                    ..UDP4
                },
                &good,
            ),
        ),
        (
            "hop by hop",
            ip6(0, &[ext(17, 0, 8), good.clone()].concat()),
        ),
        (
            "hop by hop, routing, destination",
            ip6(
                0,
                &[ext(43, 1, 16), ext(60, 0, 8), ext(17, 2, 24), good.clone()].concat(),
            ),
        ),
        (
            "authentication header",
            ip6(51, &[ext(17, 4, 24), good.clone()].concat()),
        ),
        ("atomic fragment", ip6_fragment(17, 9, 0, false, &good)),
        (
            "atomic fragment and destination options",
            ip6_fragment(60, 9, 0, false, &[ext(17, 0, 8), good.clone()].concat()),
        ),
        ("no total length, as of a large send", {
            let mut p = ip4(&UDP4, &good);
            p[2..4].fill(0);
            p
        }),
        ("no payload length, likewise", {
            let mut p = ip6(17, &good);
            p[4..6].fill(0);
            p
        }),
    ];
    for (what, data) in rows {
        let mut chain = Chain::new(ExtractOptions::default());
        chain.push(1, 101, &data);
        chain.finish();
        assert_eq!(chain.payloads(), [QUERY], "{what}");
    }
}

/// A datagram of 48 octets in pieces: (offset, end, first octet changed to).
type Piece = (usize, usize, Option<u8>);

#[test]
fn puts_fragments_together_in_any_order_and_by_the_stated_rule_for_overlap() {
    let payload = [QUERY, &[0xaa; 11]].concat();
    let datagram = udp((1000, 53), &payload);
    assert_eq!(datagram.len(), 48);
    let mut patched = payload.clone();
    patched[8] = 0xbb;
    // Name, pieces, what IPv4 gives, what IPv6 gives.
    let whole = Some(&payload);
    type Row<'a> = (
        &'a str,
        &'a [Piece],
        Option<&'a Vec<u8>>,
        Option<&'a Vec<u8>>,
    );
    let rows: &[Row<'_>] = &[
        ("in order", &[(0, 24, None), (24, 48, None)], whole, whole),
        (
            "backwards",
            &[(40, 48, None), (16, 40, None), (0, 16, None)],
            whole,
            whole,
        ),
        (
            "a copy",
            &[(0, 24, None), (0, 24, None), (24, 48, None)],
            whole,
            whole,
        ),
        (
            "a copy of a part",
            &[(0, 24, None), (8, 16, None), (24, 48, None)],
            whole,
            whole,
        ),
        (
            "overlap, the same octets",
            &[(0, 24, None), (16, 40, None), (40, 48, None)],
            whole,
            None,
        ),
        (
            "overlap, others later",
            &[(0, 24, None), (16, 32, Some(0xbb)), (32, 48, None)],
            whole,
            None,
        ),
        (
            "overlap, others first",
            &[(16, 32, Some(0xbb)), (0, 24, None), (32, 48, None)],
            Some(&patched),
            None,
        ),
        (
            "one over others",
            &[
                (16, 24, None),
                (32, 40, None),
                (0, 40, None),
                (40, 48, None),
            ],
            whole,
            None,
        ),
        ("one missing", &[(0, 16, None), (24, 48, None)], None, None),
        (
            "an end before what is there",
            &[(0, 32, None), (16, 24, None)],
            None,
            None,
        ),
    ];
    for (what, pieces, want4, want6) in rows {
        for (version, want) in [(4, want4), (6, want6)] {
            let mut chain = Chain::new(ExtractOptions::default());
            for &(from, to, first) in *pieces {
                let mut octets = datagram[from..to].to_vec();
                octets[0] = first.unwrap_or(octets[0]);
                // The row about an early end has a last fragment that ends before 48.
                let more = to != 48 && !(what.starts_with("an end") && from == 16);
                let packet = if version == 4 {
                    let fragment = (from / 8) as u16 | if more { 0x2000 } else { 0 };
                    ip4(&V4 { fragment, ..UDP4 }, &octets)
                } else {
                    ip6_fragment(17, 99, from as u16, more, &octets)
                };
                chain.push(1, 101, &packet);
            }
            chain.finish();
            let want: Vec<&[u8]> = want.iter().map(|payload| payload.as_slice()).collect();
            assert_eq!(chain.payloads(), want, "{what}, IPv{version}");
            assert_eq!(chain.extractor.octets_held(), 0, "{what}, IPv{version}");
        }
    }
}

#[test]
fn fragments_of_other_datagrams_do_not_mix() {
    let datagram = query();
    let (a, b) = datagram.split_at(16);
    let mut chain = Chain::new(ExtractOptions::default());
    chain.push(
        1,
        101,
        &ip4(
            &V4 {
                fragment: 0x2000,
                ..UDP4
            },
            a,
        ),
    );
    chain.push(
        1,
        101,
        &ip4(
            &V4 {
                fragment: 2,
                id: 8,
                ..UDP4
            },
            b,
        ),
    );
    chain.push(
        1,
        101,
        &ip4(
            &V4 {
                fragment: 2,
                protocol: 6,
                ..UDP4
            },
            b,
        ),
    );
    assert!(chain.found.is_empty());
    chain.push(
        1,
        101,
        &ip4(
            &V4 {
                fragment: 2,
                ..UDP4
            },
            b,
        ),
    );
    assert_eq!(chain.payloads(), [QUERY]);
    chain.finish();
    assert_eq!(
        (
            chain.count("datagrams_reassembled"),
            chain.count("datagrams_timed_out")
        ),
        (1, 2)
    );
}

#[test]
fn fragments_are_given_up_for_age_and_for_room() {
    let datagram = query();
    let (a, b) = datagram.split_at(16);
    let first = |id| {
        ip4(
            &V4 {
                fragment: 0x2000,
                id,
                ..UDP4
            },
            a,
        )
    };
    let last = |id| {
        ip4(
            &V4 {
                fragment: 2,
                id,
                ..UDP4
            },
            b,
        )
    };
    let limits = FragmentLimits {
        datagrams_max: 2,
        ..FragmentLimits::default()
    };
    let mut chain = Chain::new(ExtractOptions {
        fragments: limits,
        ..ExtractOptions::default()
    });
    chain.push(0, 101, &first(1));
    chain.push(30 * SECOND, 101, &last(1));
    assert_eq!(chain.found.len(), 1, "30 s is not too old");
    chain.push(100 * SECOND, 101, &first(2));
    chain.push(131 * SECOND, 101, &last(2));
    assert_eq!(
        (chain.found.len(), chain.count("datagrams_timed_out")),
        (1, 1)
    );
    chain.push(132 * SECOND, 101, &first(3));
    chain.push(132 * SECOND, 101, &first(4));
    assert_eq!(chain.count("datagrams_evicted"), 1);
    chain.push(132 * SECOND, 101, &last(3));
    assert_eq!(chain.found.len(), 2);
    // Beyond what an IP packet can hold.
    chain.push(
        132 * SECOND,
        101,
        &ip4(
            &V4 {
                fragment: 0x1fff,
                id: 5,
                ..UDP4
            },
            b,
        ),
    );
    assert_eq!(chain.count("fragments_refused"), 1);
    chain.finish();
}

#[test]
fn a_flood_of_fragments_stays_within_its_memory() {
    let limits = FragmentLimits {
        datagrams_max: 1000,
        octets_max: 200_000,
        ..FragmentLimits::default()
    };
    let mut chain = Chain::new(ExtractOptions {
        fragments: limits,
        ..ExtractOptions::default()
    });
    for id in 0..5000 {
        chain.push(
            1,
            101,
            &ip4(
                &V4 {
                    fragment: 0x2000 + 4000,
                    id,
                    ..UDP4
                },
                &[0; 1400],
            ),
        );
        assert!(chain.extractor.octets_held() <= 200_000);
    }
    assert!(chain.count("datagrams_evicted") > 4900);
    chain.finish();
}

const SYN: u8 = 2;
const ACK: u8 = 16;
const FIN_ACK: u8 = 17;
const RST: u8 = 4;

fn tcp(src: u16, dst: u16, seq: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    tcp_ack(src, dst, seq, 0, flags, payload)
}

fn tcp_ack(src: u16, dst: u16, seq: u32, ack: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let ports = [src.to_be_bytes(), dst.to_be_bytes()].concat();
    // A header of 8 words: options of 12 octets, as most segments have.
    let rest = [
        &seq.to_be_bytes()[..],
        &ack.to_be_bytes(),
        &[0x80, flags, 0xff, 0xff, 0, 0, 0, 0],
        &[1; 12],
    ]
    .concat();
    [ports, rest, payload.to_vec()].concat()
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&n16(message.len())[..], message].concat()
}

/// Query number `n`, by its id.
fn numbered(n: u8) -> Vec<u8> {
    [&[0, n], &QUERY[2..]].concat()
}

/// What a client sends: messages 1 to `count`, each preceded by its length.
fn stream_of(count: u8) -> Vec<u8> {
    (1..=count).flat_map(|n| framed(&numbered(n))).collect()
}

#[derive(Clone, Copy)]
enum Step {
    Syn,
    /// Octets of the stream from and to.
    Data(usize, usize),
    /// The server acknowledges this much.
    Acked(usize),
    Fin(usize),
    Rst(usize),
    /// Octets from, to and how many of them are captured.
    Cut(usize, usize, usize),
    /// Seconds pass.
    Wait(u64),
}

#[test]
fn reads_messages_out_of_tcp_streams_however_they_come() {
    use Step::*;
    const LEN: usize = 2 + QUERY.len();
    assert_eq!(LEN, 31);
    // Name, sequence number of the SYN, steps, messages found before the end, after it, counters.
    type Row<'a> = (
        &'a str,
        u32,
        &'a [Step],
        &'a [u8],
        &'a [u8],
        &'a [(&'a str, u64)],
    );
    let rows: &[Row<'_>] = &[
        (
            "one each",
            0,
            &[Syn, Data(0, 31), Data(31, 62)],
            &[1, 2],
            &[],
            &[("tcp_messages", 2)],
        ),
        (
            "several in one",
            0,
            &[Syn, Data(0, 93)],
            &[1, 2, 3],
            &[],
            &[],
        ),
        (
            "one in many",
            0,
            &[Syn, Data(0, 1), Data(1, 2), Data(2, 9), Data(9, 31)],
            &[1],
            &[],
            &[],
        ),
        (
            "length by itself",
            0,
            &[Syn, Data(0, 2), Data(2, 31), Data(31, 33), Data(33, 62)],
            &[1, 2],
            &[],
            &[],
        ),
        (
            "boundaries anywhere",
            0,
            &[Syn, Data(0, 40), Data(40, 63), Data(63, 93)],
            &[1, 2, 3],
            &[],
            &[],
        ),
        (
            "over the end of the numbers",
            u32::MAX - 10,
            &[Syn, Data(0, 31), Data(31, 62)],
            &[1, 2],
            &[],
            &[],
        ),
        (
            "early ones over the end of the numbers",
            u32::MAX - 40,
            &[Syn, Data(62, 93), Data(31, 62), Data(0, 31)],
            &[1, 2, 3],
            &[],
            &[("tcp_out_of_order", 2)],
        ),
        (
            "swapped",
            0,
            &[Syn, Data(31, 62), Data(0, 31)],
            &[1, 2],
            &[],
            &[("tcp_out_of_order", 1)],
        ),
        (
            "sent twice",
            0,
            &[Syn, Data(0, 31), Data(0, 31), Data(31, 62)],
            &[1, 2],
            &[],
            &[("tcp_retransmissions", 1)],
        ),
        (
            "an early one sent twice",
            0,
            &[Syn, Data(31, 62), Data(31, 62), Data(0, 31)],
            &[1, 2],
            &[],
            &[("tcp_retransmissions", 1)],
        ),
        (
            "sent again with more",
            0,
            &[Syn, Data(0, 20), Data(0, 62)],
            &[1, 2],
            &[],
            &[],
        ),
        (
            "overlap of early ones",
            0,
            &[Syn, Data(40, 62), Data(31, 50), Data(0, 35)],
            &[1, 2],
            &[],
            &[],
        ),
        (
            "keepalive",
            0,
            &[Syn, Data(0, 31), Data(30, 31), Data(31, 62)],
            &[1, 2],
            &[],
            &[],
        ),
        (
            "SYN sent twice",
            0,
            &[Syn, Data(0, 31), Syn, Data(31, 62)],
            &[1, 2],
            &[],
            &[],
        ),
        (
            "FIN and a late copy",
            0,
            &[Syn, Data(0, 31), Fin(31), Data(0, 31)],
            &[1],
            &[],
            &[("tcp_retransmissions", 1)],
        ),
        (
            "no SYN",
            0,
            &[Data(0, 31), Data(31, 62)],
            &[1, 2],
            &[],
            &[("tcp_streams_midway", 1)],
        ),
        (
            "no SYN, length by itself",
            0,
            &[Data(0, 2), Data(2, 31)],
            &[1],
            &[],
            &[],
        ),
        (
            "no SYN, from the middle of a message",
            0,
            &[Data(10, 31), Data(31, 62)],
            &[2],
            &[],
            &[("tcp_octets_unsynced", 21)],
        ),
        (
            "a gap of one message, acknowledged",
            0,
            &[Syn, Data(0, 31), Data(62, 93), Acked(93)],
            &[1, 3],
            &[],
            &[("tcp_gaps", 1)],
        ),
        (
            "a gap, not acknowledged that far",
            0,
            &[Syn, Data(0, 31), Data(62, 93), Acked(62)],
            &[1],
            &[3],
            &[],
        ),
        (
            "a gap until the end",
            0,
            &[Syn, Data(0, 31), Data(62, 93)],
            &[1],
            &[3],
            &[("tcp_gaps", 1)],
        ),
        (
            "a gap until a reset",
            0,
            &[Syn, Data(0, 31), Data(62, 93), Rst(93)],
            &[1, 3],
            &[],
            &[("tcp_gaps", 1)],
        ),
        (
            "a gap until it is too old",
            0,
            &[Syn, Data(62, 93), Wait(6), Data(93, 124)],
            &[3, 4],
            &[],
            &[("tcp_gaps", 1)],
        ),
        (
            "a gap within a message",
            0,
            &[Syn, Data(0, 10), Data(20, 62), Acked(62)],
            &[2],
            &[],
            &[("tcp_messages_lost", 1), ("tcp_octets_unsynced", 0)],
        ),
        (
            "a gap to the end of a message",
            0,
            &[Syn, Data(0, 10), Data(31, 62), Acked(62)],
            &[2],
            &[],
            &[("tcp_messages_lost", 1)],
        ),
        (
            "a gap over the end of a message",
            0,
            &[Syn, Data(0, 10), Data(41, 62), Acked(62), Data(62, 93)],
            &[3],
            &[],
            &[("tcp_messages_lost", 1), ("tcp_octets_unsynced", 21)],
        ),
        (
            "a gap in the length",
            0,
            &[Syn, Data(0, 1), Data(2, 31), Acked(31), Data(31, 62)],
            &[2],
            &[],
            &[("tcp_messages_lost", 1)],
        ),
        (
            "a message that does not end",
            0,
            &[Syn, Data(0, 30)],
            &[],
            &[],
            &[("tcp_messages_lost", 1)],
        ),
        (
            "a segment that is cut",
            0,
            &[Syn, Cut(0, 31, 20), Data(31, 62)],
            &[1, 2],
            &[],
            &[("messages_truncated", 1)],
        ),
        (
            "a segment that is cut in its second message",
            0,
            &[Syn, Cut(0, 62, 50), Data(62, 93)],
            &[1, 2, 3],
            &[],
            &[("messages_truncated", 1)],
        ),
        (
            "a segment cut before the header",
            0,
            &[Syn, Cut(0, 31, 5), Data(31, 62)],
            &[2],
            &[],
            &[("tcp_messages_lost", 1)],
        ),
        (
            "a copy that is whole, after one that is cut",
            0,
            &[Syn, Cut(0, 31, 5), Data(0, 31), Data(31, 62)],
            &[2],
            &[],
            &[],
        ),
    ];
    let stream = stream_of(4);
    for &(what, isn, steps, before, after, counters) in rows {
        let mut chain = Chain::new(ExtractOptions::default());
        let mut now = 1;
        let at = |offset: usize| isn.wrapping_add(1).wrapping_add(offset as u32);
        let up = |seq, flags, payload: &[u8]| {
            ip4(
                &V4 {
                    protocol: 6,
                    ..UDP4
                },
                &tcp(1000, 53, seq, flags, payload),
            )
        };
        for step in steps {
            match *step {
                Syn => chain.push(now, 101, &up(isn, SYN, b"")),
                Data(from, to) => chain.push(now, 101, &up(at(from), ACK, &stream[from..to])),
                Fin(from) => chain.push(now, 101, &up(at(from), FIN_ACK, b"")),
                Rst(from) => chain.push(now, 101, &up(at(from), RST, b"why")),
                Wait(seconds) => now += seconds * SECOND,
                Cut(from, to, captured) => {
                    let packet = up(at(from), ACK, &stream[from..to]);
                    chain.push_cut(now, 101, &packet, packet.len() - (to - from) + captured);
                }
                Acked(offset) => {
                    let mut packet = ip4(
                        &V4 {
                            protocol: 6,
                            ..UDP4
                        },
                        &tcp_ack(53, 1000, 5, at(offset), ACK, b""),
                    );
                    packet[12..20].rotate_left(4);
                    chain.push(now, 101, &packet);
                }
            }
        }
        let ids = |found: &[Message]| found.iter().map(|message| message.3[1]).collect::<Vec<_>>();
        assert_eq!(ids(&chain.found), before, "{what}");
        let there = chain.found.len();
        chain.finish();
        assert_eq!(ids(&chain.found[there..]), after, "{what}, at the end");
        for (.., payload, truncated) in &chain.found {
            assert_eq!(*truncated, *payload != numbered(payload[1]), "{what}");
        }
        for (counter, want) in counters {
            assert_eq!(chain.count(counter), *want, "{what}: {counter}");
        }
        assert_eq!(chain.extractor.octets_held(), 0, "{what}");
    }
}

#[test]
fn a_new_connection_on_the_same_ports_begins_anew() {
    let up = |seq, flags, payload: &[u8]| {
        ip4(
            &V4 {
                protocol: 6,
                ..UDP4
            },
            &tcp(1000, 53, seq, flags, payload),
        )
    };
    let message = framed(QUERY);
    let mut chain = Chain::new(ExtractOptions::default());
    chain.push(1, 101, &up(100, SYN, b""));
    chain.push(1, 101, &up(101, ACK, &message[..20]));
    chain.push(2, 101, &up(5000, SYN, b""));
    chain.push(2, 101, &up(5001, ACK, &message));
    // Without a SYN, but far from the last: also another one.
    chain.push(3, 101, &up(0x7000_0000, ACK, &message));
    // Octets that come with the SYN (TCP Fast Open).
    chain.push(4, 101, &up(77, SYN, &message));
    chain.finish();
    assert_eq!(chain.payloads(), [QUERY, QUERY, QUERY]);
    assert_eq!(
        (
            chain.count("tcp_messages_lost"),
            chain.count("tcp_streams_midway")
        ),
        (1, 1)
    );
}

#[test]
fn a_length_below_a_header_is_passed_over_until_the_next_message() {
    let up = |seq, payload: &[u8]| {
        ip4(
            &V4 {
                protocol: 6,
                ..UDP4
            },
            &tcp(1000, 53, seq, ACK, payload),
        )
    };
    let mut chain = Chain::new(ExtractOptions::default());
    chain.push(
        1,
        101,
        &ip4(
            &V4 {
                protocol: 6,
                ..UDP4
            },
            &tcp(1000, 53, 0, SYN, b""),
        ),
    );
    chain.push(1, 101, &up(1, &[0, 11, 1, 2, 3]));
    chain.push(1, 101, &up(6, b"nonsense"));
    chain.push(1, 101, &up(14, &framed(QUERY)));
    chain.push(1, 101, &up(45, &[0]));
    chain.push(1, 101, &up(46, &[3, 9]));
    chain.push(1, 101, &up(48, &framed(QUERY)));
    chain.finish();
    assert_eq!(chain.payloads(), [QUERY, QUERY]);
    assert_eq!(chain.count("tcp_bad_lengths"), 2);
}

#[test]
fn memory_of_streams_stays_within_its_limits() {
    let limits = TcpLimits {
        streams_max: 20,
        octets_max: 40_000,
        early_octets_max: 4_000,
        early_segments_max: 5,
        ..TcpLimits::default()
    };
    let mut chain = Chain::new(ExtractOptions {
        tcp: limits,
        ..ExtractOptions::default()
    });
    for port in 1000..1100 {
        chain.push(
            1,
            101,
            &ip4(
                &V4 {
                    protocol: 6,
                    ..UDP4
                },
                &tcp(port, 53, 0, SYN, b""),
            ),
        );
        let mut long = vec![0xff, 0xff];
        long.resize(1400, 0);
        chain.push(
            1,
            101,
            &ip4(
                &V4 {
                    protocol: 6,
                    ..UDP4
                },
                &tcp(port, 53, 1, ACK, &long),
            ),
        );
        for n in 0..20 {
            let seq = 10_000 + n * 1000;
            chain.push(
                1,
                101,
                &ip4(
                    &V4 {
                        protocol: 6,
                        ..UDP4
                    },
                    &tcp(port, 53, seq, ACK, &[7; 500]),
                ),
            );
            assert!(
                chain.extractor.octets_held() <= 40_000,
                "{}",
                chain.extractor.octets_held()
            );
        }
    }
    assert!(chain.count("tcp_streams_evicted") >= 80);
    chain.finish();
    assert_eq!(chain.extractor.octets_held(), 0);
}

#[test]
fn other_ports_can_be_set() {
    let options = ExtractOptions {
        ports: vec![5300, 8053],
        ..ExtractOptions::default()
    };
    let mut chain = Chain::new(options);
    for ports in [(1000, 53), (1000, 8053), (5300, 1000)] {
        chain.push(1, 101, &ip4(&UDP4, &udp(ports, QUERY)));
    }
    chain.finish();
    assert_eq!((chain.found.len(), chain.count("other_port")), (2, 1));
}
