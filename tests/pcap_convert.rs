//! Messages to events: pairing, perspective, times; the writer read back; the recorded captures in figures.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use tapflow::pcap::{
    ConvertOptions, Converter, DnsPacket, DnsTransport, Event, ExtractOptions, Extractor,
    PairLimits, Pairer, Perspective, Reader, Role, WriteError, WriteLink, Writer, split_time,
};

const SECOND: u64 = 1_000_000_000;

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// A message with one question; `flags` is the third octet, 0x80 for a response.
fn message(id: u16, flags: u8, name: &[u8], qtype: u16) -> Vec<u8> {
    let header = [
        &id.to_be_bytes()[..],
        &[flags, 0, 0, 1, 0, 0, 0, 0, 0, 0],
        &[name.len() as u8],
        name,
    ]
    .concat();
    [&header[..], &[0], &qtype.to_be_bytes(), &[0, 1]].concat()
}

fn without_question(id: u16, flags: u8) -> Vec<u8> {
    [&id.to_be_bytes()[..], &[flags, 1, 0, 0, 0, 0, 0, 0, 0, 0]].concat()
}

struct Wire {
    pairer: Pairer,
    transport: DnsTransport,
}

impl Wire {
    fn new(limits: PairLimits) -> Self {
        Self {
            pairer: Pairer::new(limits),
            transport: DnsTransport::Udp,
        }
    }

    /// A message of the client (to the server) or of the server, by its QR bit.
    fn say(&mut self, time_ns: u64, client: &str, payload: &[u8]) -> Option<Role> {
        let (client, server) = (address(client), address("192.0.2.2:53"));
        let is_response = payload.get(2).is_some_and(|flags| flags & 0x80 != 0);
        let (src, dst) = if is_response {
            (server, client)
        } else {
            (client, server)
        };
        self.pairer.push(&DnsPacket {
            time_ns,
            src,
            dst,
            transport: self.transport,
            payload,
            truncated: false,
        })
    }
}

const CLIENT: &str = "192.0.2.1:1000";

fn answers(time: Option<u64>) -> Option<Role> {
    Some(Role::Response {
        query_time_ns: time,
    })
}

#[test]
fn a_response_finds_its_query_by_addresses_id_and_question() {
    // What is asked, what is answered and from where, and whether the two belong together.
    let query = message(7, 1, b"www", 1);
    let rows: &[(&str, Vec<u8>, &str, bool)] = &[
        ("the same", message(7, 0x81, b"www", 1), CLIENT, true),
        (
            "the same in capitals",
            message(7, 0x81, b"WWW", 1),
            CLIENT,
            true,
        ),
        (
            "no question, as for a format error",
            without_question(7, 0x81),
            CLIENT,
            true,
        ),
        ("another id", message(8, 0x81, b"www", 1), CLIENT, false),
        ("another name", message(7, 0x81, b"wwx", 1), CLIENT, false),
        ("another type", message(7, 0x81, b"www", 28), CLIENT, false),
        (
            "another port",
            message(7, 0x81, b"www", 1),
            "192.0.2.1:1001",
            false,
        ),
        (
            "another address",
            message(7, 0x81, b"www", 1),
            "192.0.2.9:1000",
            false,
        ),
    ];
    for (what, response, client, belongs) in rows {
        let mut wire = Wire::new(PairLimits::default());
        assert_eq!(wire.say(5, CLIENT, &query), Some(Role::Query));
        assert_eq!(
            wire.say(9, client, response),
            answers(belongs.then_some(5)),
            "{what}"
        );
        wire.pairer.finish();
        let counters = wire.pairer.counters();
        let want = (
            1,
            1,
            u64::from(*belongs),
            u64::from(!belongs),
            u64::from(!belongs),
        );
        let seen = (
            counters.queries,
            counters.responses,
            counters.paired,
            counters.unasked,
            counters.unanswered,
        );
        assert_eq!(seen, want, "{what}");
    }
}

#[test]
fn types_that_differ_only_in_the_bit_of_case_are_not_confused() {
    let mut wire = Wire::new(PairLimits::default());
    wire.say(5, CLIENT, &message(7, 1, b"www", 65));
    assert_eq!(
        wire.say(9, CLIENT, &message(7, 0x81, b"www", 97)),
        answers(None)
    );
    assert_eq!(
        wire.say(9, CLIENT, &message(7, 0x81, b"www", 65)),
        answers(Some(5))
    );
}

#[test]
fn repeated_queries_are_answered_oldest_first_and_each_once() {
    let mut wire = Wire::new(PairLimits::default());
    let (query, response) = (message(7, 1, b"www", 1), message(7, 0x81, b"www", 1));
    wire.say(1, CLIENT, &query);
    wire.say(2, CLIENT, &message(7, 1, b"other", 1));
    wire.say(3, CLIENT, &query);
    assert_eq!(wire.say(4, CLIENT, &response), answers(Some(1)));
    assert_eq!(wire.say(5, CLIENT, &response), answers(Some(3)));
    assert_eq!(wire.say(6, CLIENT, &response), answers(None));
    assert_eq!(
        wire.say(7, CLIENT, &message(7, 0x81, b"other", 1)),
        answers(Some(2))
    );
}

#[test]
fn every_message_of_a_zone_transfer_belongs_to_its_query() {
    let mut wire = Wire::new(PairLimits::default());
    wire.transport = DnsTransport::Tcp;
    wire.say(1, CLIENT, &message(7, 0, b"zone", 252));
    assert_eq!(
        wire.say(2, CLIENT, &message(7, 0x80, b"zone", 252)),
        answers(Some(1))
    );
    assert_eq!(
        wire.say(3, CLIENT, &without_question(7, 0x80)),
        answers(Some(1))
    );
    wire.pairer.finish();
    assert_eq!(wire.pairer.counters().unanswered, 0);
}

#[test]
fn queries_are_forgotten_for_age_and_for_room() {
    let response = message(7, 0x81, b"www", 1);
    let mut wire = Wire::new(PairLimits {
        queries_max: 2,
        age_max_ns: 10 * SECOND,
    });
    wire.say(0, CLIENT, &message(7, 1, b"www", 1));
    assert_eq!(wire.say(10 * SECOND + 1, CLIENT, &response), answers(None));
    assert_eq!(wire.pairer.counters().unanswered, 1);
    for id in 1..=3 {
        wire.say(20 * SECOND, CLIENT, &message(id, 1, b"www", 1));
    }
    assert_eq!(
        wire.say(20 * SECOND, CLIENT, &message(1, 0x81, b"www", 1)),
        answers(None)
    );
    assert_eq!(
        wire.say(20 * SECOND, CLIENT, &message(3, 0x81, b"www", 1)),
        answers(Some(20 * SECOND))
    );
    assert_eq!(wire.pairer.counters().evicted, 1);
    assert_eq!(wire.say(20 * SECOND, CLIENT, &[0; 11]), None);
    assert_eq!(wire.pairer.counters().too_short, 1);
}

fn written(
    link: WriteLink,
    messages: &[(u64, SocketAddr, SocketAddr, DnsTransport, Vec<u8>)],
) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(link);
    writer.header(&mut file);
    for (time, src, dst, transport, message) in messages {
        writer
            .message(*time, *src, *dst, *transport, message, &mut file)
            .unwrap();
    }
    file
}

fn mixed_messages() -> Vec<(u64, SocketAddr, SocketAddr, DnsTransport, Vec<u8>)> {
    let mut messages = Vec::new();
    for (n, (client, server)) in [
        ("192.0.2.1:1000", "192.0.2.2:53"),
        ("[2001:db8::1]:1000", "[2001:db8::2]:53"),
    ]
    .into_iter()
    .enumerate()
    {
        for transport in [DnsTransport::Udp, DnsTransport::Tcp] {
            for id in 1..4 {
                let time = 1_700_000_000 * SECOND + u64::from(id) * 1001 + n as u64;
                let (client, server) = (address(client), address(server));
                messages.push((time, client, server, transport, message(id, 1, b"www", 1)));
                // An odd number of octets, and for TCP more than one segment.
                let mut response = message(id, 0x81, b"www", 1);
                let len = if transport == DnsTransport::Tcp {
                    65_535
                } else {
                    65_507
                };
                response.resize(if id == 2 { len } else { 101 }, 0x5a);
                messages.push((time + 500, server, client, transport, response));
            }
        }
    }
    messages
}

#[test]
fn what_is_written_is_read_back_the_same() {
    for link in [WriteLink::Raw, WriteLink::Ethernet] {
        let messages = mixed_messages();
        let file = written(link, &messages);
        let (mut reader, mut extractor, mut found) = (
            Reader::new(&file[..]).unwrap(),
            Extractor::default(),
            Vec::new(),
        );
        let mut keep = |p: DnsPacket<'_>| {
            found.push((p.time_ns, p.src, p.dst, p.transport, p.payload.to_vec()))
        };
        while let Some(packet) = reader.next().unwrap() {
            extractor.push(&packet, &mut keep);
        }
        extractor.finish(&mut keep);
        assert!(
            found == messages,
            "{link:?}: {} of {}",
            found.len(),
            messages.len()
        );
    }
}

#[test]
fn tshark_finds_no_fault_with_the_checksums_written() {
    let folder = tempfile::tempdir().unwrap();
    for link in [WriteLink::Raw, WriteLink::Ethernet] {
        let path = folder.path().join("written.pcap");
        std::fs::write(&path, written(link, &mixed_messages())).unwrap();
        let checks = ["ip", "tcp", "udp"].map(|layer| format!("{layer}.check_checksum:TRUE"));
        let mut tshark = Command::new("tshark");
        for check in &checks {
            tshark.args(["-o", check]);
        }
        let fields = [
            "ip.checksum.status",
            "tcp.checksum.status",
            "udp.checksum.status",
        ];
        tshark.args(["-n", "-T", "fields", "-r"]).arg(&path);
        for field in fields {
            tshark.args(["-e", field]);
        }
        let Ok(output) = tshark.output() else {
            println!("skipped: tshark is not installed");
            return;
        };
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.lines().count() >= 24, "{text}");
        // 1 is "good"; 0 would be "bad" and 2 "unverified".
        for line in text.lines() {
            let seen: Vec<_> = line
                .split('\t')
                .filter(|status| !status.is_empty())
                .collect();
            assert!(
                !seen.is_empty() && seen.iter().all(|status| *status == "1"),
                "{link:?}: {line:?}"
            );
        }
    }
}

#[test]
fn messages_that_fit_no_packet_are_refused_without_a_trace() {
    let (v4, v6) = (address("192.0.2.1:1"), address("[2001:db8::1]:1"));
    let rows = [
        (v4, v6, DnsTransport::Udp, 12, WriteError::MixedFamilies),
        (
            v4,
            v4,
            DnsTransport::Udp,
            65_508,
            WriteError::TooLong {
                len: 65_508,
                max: 65_507,
            },
        ),
        (
            v6,
            v6,
            DnsTransport::Udp,
            65_528,
            WriteError::TooLong {
                len: 65_528,
                max: 65_527,
            },
        ),
        (
            v4,
            v4,
            DnsTransport::Tcp,
            65_536,
            WriteError::TooLong {
                len: 65_536,
                max: 65_535,
            },
        ),
    ];
    for (src, dst, transport, len, want) in rows {
        let mut file = Vec::new();
        let mut writer = Writer::new(WriteLink::Raw);
        writer.header(&mut file);
        assert_eq!(
            writer.message(0, src, dst, transport, &vec![0; len], &mut file),
            Err(want)
        );
        assert_eq!(file.len(), 24);
        assert_eq!(
            writer.message(0, src, src, transport, &vec![0; len.min(65_507)], &mut file),
            Ok(())
        );
    }
}

#[test]
fn events_have_every_field_of_the_dnstap_message() {
    let file = written(WriteLink::Raw, &mixed_messages());
    let rows = [
        (Perspective::Auth, 1),
        (Perspective::Resolver, 3),
        (Perspective::Client, 5),
        (Perspective::Forwarder, 7),
        (Perspective::Stub, 9),
        (Perspective::Tool, 11),
        (Perspective::Update, 13),
    ];
    for (perspective, query_type) in rows {
        let options = ConvertOptions {
            perspective,
            identity: b"here".to_vec(),
            version: b"1".to_vec(),
            ..ConvertOptions::default()
        };
        let (mut reader, mut converter) =
            (Reader::new(&file[..]).unwrap(), Converter::new(options));
        let mut expected = mixed_messages().into_iter();
        let mut query_time = 0;
        let mut check = |event: &Event<'_>| {
            let (time, src, dst, transport, message) =
                expected.next().expect("no more events than messages");
            let (client, server) = if event.is_response {
                (dst, src)
            } else {
                (src, dst)
            };
            query_time = if event.is_response { query_time } else { time };
            let want = Event {
                identity: b"here",
                version: b"1",
                message_type: query_type + u32::from(message[2] >> 7),
                is_response: message[2] & 0x80 != 0,
                transport,
                query_address: client.ip(),
                query_port: 1000,
                response_address: server.ip(),
                response_port: 53,
                query_time_ns: Some(query_time),
                response_time_ns: event.is_response.then_some(time),
                message: &message,
                truncated: false,
            };
            assert!(*event == want, "{event:.200?}\n{want:.200?}");
            assert_eq!(event.socket_family(), if client.is_ipv4() { 1 } else { 2 });
            assert_eq!(
                event.socket_protocol(),
                if transport == DnsTransport::Udp { 1 } else { 2 }
            );
        };
        while let Some(packet) = reader.next().unwrap() {
            converter.push(&packet, &mut check);
        }
        converter.finish(&mut check);
        assert!(expected.next().is_none(), "an event for each message");
    }
    assert_eq!(
        split_time(1_700_000_000_123_456_789),
        (1_700_000_000, 123_456_789)
    );
}

fn recorded(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata/pcap")
        .join(name)
}

#[test]
fn the_recorded_captures_convert_to_known_figures() {
    // File, packets, messages over UDP and TCP, datagrams put together, queries, responses, of which paired.
    type Row = (&'static str, u64, u64, u64, u64, u64, u64, u64);
    let rows: &[Row] = &[
        ("knot.pcap", 1297, 715, 126, 0, 420, 421, 421),
        ("unbound.pcapng", 1274, 709, 122, 0, 419, 412, 412),
        ("unbound-snap120.pcap", 1274, 712, 115, 0, 412, 415, 408),
        ("nsd-fragments.pcapng", 190, 30, 20, 10, 25, 25, 25),
        ("nsd-axfr.pcap", 29, 0, 9, 0, 1, 8, 8),
        ("mixed-dns.pcap", 10198, 4791, 753, 0, 2775, 2768, 2767),
    ];
    let mut wrong = Vec::new();
    for row in rows {
        let mut reader = Reader::new(File::open(recorded(row.0)).unwrap()).unwrap();
        let mut converter = Converter::new(ConvertOptions::default());
        let mut count = 0;
        let mut last_ns = 0;
        let mut deliver = |event: &Event<'_>| {
            count += 1;
            let time = event
                .response_time_ns
                .or(event.query_time_ns)
                .expect("a time");
            assert!(
                time >= last_ns,
                "{}: events come in the order of packets",
                row.0
            );
            last_ns = time;
            assert!(event.query_time_ns <= Some(time));
        };
        while let Some(packet) = reader.next().unwrap() {
            converter.push(&packet, &mut deliver);
        }
        converter.finish(&mut deliver);
        let (c, p) = (converter.counters(), converter.pair_counters());
        assert_eq!(c.outcomes().map(|(_, n)| n).sum::<u64>(), c.packets);
        assert_eq!(count + p.too_short, c.udp_messages + c.tcp_messages);
        assert_eq!(
            (p.queries + p.responses, p.paired + p.unasked),
            (count, p.responses)
        );
        let seen: Row = (
            row.0,
            c.packets,
            c.udp_messages,
            c.tcp_messages,
            c.datagrams_reassembled,
            p.queries,
            p.responses,
            p.paired,
        );
        if seen != *row {
            wrong.push(format!("{seen:?}"));
        }
    }
    assert!(wrong.is_empty(), "other figures:\n{}", wrong.join("\n"));
}

/// `cargo test --release --test pcap_convert -- --ignored --nocapture`
#[test]
#[ignore = "measures speed, which only means something in a release build on a quiet machine"]
fn reads_and_reassembles_at_500_megabytes_a_second() {
    let mut file = Vec::new();
    File::open(recorded("mixed-dns.pcap"))
        .unwrap()
        .read_to_end(&mut file)
        .unwrap();
    const TIMES: u64 = 100;
    let options = || ExtractOptions {
        ports: vec![53, 5300],
        ..ExtractOptions::default()
    };
    let rate = |work: &mut dyn FnMut() -> u64| {
        let start = Instant::now();
        // Each time anew, since to one extractor the second time would be retransmissions.
        let messages: u64 = (0..TIMES).map(|_| work()).sum();
        let seconds = start.elapsed().as_secs_f64();
        (
            TIMES as f64 * file.len() as f64 / 1e6 / seconds,
            messages as f64 / seconds,
            messages,
        )
    };
    let mut best = 0.0_f64;
    for _ in 0..5 {
        let read = rate(&mut || {
            let (mut reader, mut count) = (Reader::new(&file[..]).unwrap(), 0);
            while reader.next().unwrap().is_some() {
                count += 1;
            }
            count
        });
        let extract = rate(&mut || {
            let (mut reader, mut count) = (Reader::new(&file[..]).unwrap(), 0);
            let mut extractor = Extractor::new(options());
            while let Some(packet) = reader.next().unwrap() {
                extractor.push(&packet, &mut |_| count += 1);
            }
            extractor.finish(&mut |_| count += 1);
            count
        });
        let convert = rate(&mut || {
            let (mut reader, mut count) = (Reader::new(&file[..]).unwrap(), 0);
            let mut converter = Converter::new(ConvertOptions {
                extract: options(),
                ..ConvertOptions::default()
            });
            while let Some(packet) = reader.next().unwrap() {
                converter.push(&packet, &mut |_| count += 1);
            }
            converter.finish(&mut |_| count += 1);
            count
        });
        println!(
            "(MB/s, items/s, items) read {read:.0?}, extract {extract:.0?}, convert {convert:.0?}"
        );
        best = best.max(extract.0);
    }
    assert!(best >= 500.0, "{best:.0} MB/s");
}
