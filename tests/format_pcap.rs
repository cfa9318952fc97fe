//! The format pcap: read back by our own reader, and by tshark where it is installed, it gives the DNS messages of the
//! frames that it was made of.

mod cli_support;
mod dnstap_support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use cli_support::{run, start, stop};
use dnstap_support::{captured, files, payloads};
use prost::Message as _;
use tapflow::dnstap::{DnstapView, pb};
use tapflow::format::{Entry, Format, Settings, Source};
use tapflow::pcap::{DnsPacket, DnsTransport, ExtractOptions, Extractor, Reader};

/// A capture of the payloads that are records.
fn written<'a>(payloads: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    let format: Format = "pcap".parse().unwrap();
    let make = || format.line(&Settings::default()).unwrap().unwrap();
    let mut out = Vec::new();
    // As a file output does: the head comes from another writer than the packets.
    make().begin(&mut out);
    let mut line = make();
    for payload in payloads {
        let view = DnstapView::parse(payload).unwrap();
        let entry = Entry {
            payload,
            view: Ok(&view),
            source: Source::default(),
        };
        line.write(&mut out, entry).unwrap();
    }
    out
}

/// What a capture should hold of a payload: the messages, and which of them are responses by their field.
fn messages(payload: &[u8]) -> Vec<(bool, Vec<u8>)> {
    let dnstap = pb::Dnstap::decode(payload).unwrap();
    let message = dnstap.message.unwrap();
    let is_response = message.r#type.unwrap() % 2 == 0;
    let (mut query, mut response) = (message.query_message, message.response_message);
    if query == response {
        if is_response {
            query = None;
        } else {
            response = None;
        }
    }
    let mut messages = Vec::new();
    messages.extend(query.map(|octets| (false, octets)));
    messages.extend(response.map(|octets| (true, octets)));
    messages
}

type Found = (
    DnsTransport,
    std::net::SocketAddr,
    std::net::SocketAddr,
    u64,
    Vec<u8>,
);

fn read_back(file: &[u8], ports: &BTreeSet<u16>) -> Vec<Found> {
    let mut reader = Reader::new(file).unwrap();
    let mut extractor = Extractor::new(ExtractOptions {
        ports: ports.iter().copied().collect(),
        ..ExtractOptions::default()
    });
    let mut found = Vec::new();
    let mut keep = |packet: DnsPacket<'_>| {
        let octets = packet.payload.to_vec();
        found.push((
            packet.transport,
            packet.src,
            packet.dst,
            packet.time_ns,
            octets,
        ));
    };
    while let Some(packet) = reader.next().unwrap() {
        extractor.push(&packet, &mut keep);
    }
    extractor.finish(&mut keep);
    found
}

/// Ports of servers in these payloads, and 53.
fn ports(payloads: &[Vec<u8>]) -> BTreeSet<u16> {
    let port = |payload: &Vec<u8>| {
        let message = pb::Dnstap::decode(&payload[..]).unwrap().message?;
        u16::try_from(message.response_port?)
            .ok()
            .filter(|port| *port > 0)
    };
    payloads.iter().filter_map(port).chain([53]).collect()
}

/// Captures in the repository, and those of the shared corpus where it is (`TAPFLOW_CORPUS`).
fn captures() -> Vec<PathBuf> {
    let mut paths = files("captures", "fstrm");
    let corpus = std::env::var_os("TAPFLOW_CORPUS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/corpus"),
        PathBuf::from,
    );
    let shared = corpus.join("captured");
    match std::fs::read_dir(&shared) {
        Ok(entries) => paths.extend(
            entries
                .flatten()
                .map(|entry| entry.path())
                .filter(|path| path.extension().is_some_and(|end| end == "fstrm")),
        ),
        Err(_) => println!("skipped: no captures at {}", shared.display()),
    }
    paths
}

#[test]
fn every_message_of_every_capture_comes_back_octet_for_octet() {
    for path in captures() {
        let payloads = payloads(&path);
        let file = written(&payloads);
        let found = read_back(&file, &ports(&payloads));
        let wanted: Vec<_> = payloads
            .iter()
            .flat_map(|payload| messages(payload))
            .collect();
        assert_eq!(found.len(), wanted.len(), "{}", path.display());
        for (found, (_, octets)) in found.iter().zip(&wanted) {
            assert_eq!(found.4, *octets, "{}", path.display());
        }
    }
}

/// A record of a query with these fields.
fn made(edit: impl FnOnce(&mut pb::Message)) -> Vec<u8> {
    let mut message = pb::Message {
        r#type: Some(5),
        socket_family: Some(1),
        socket_protocol: Some(1),
        query_address: Some(vec![192, 0, 2, 1]),
        response_address: Some(vec![192, 0, 2, 53]),
        query_port: Some(5353),
        response_port: Some(53),
        query_time_sec: Some(1_700_000_000),
        query_time_nsec: Some(7),
        query_message: Some(QUERY.to_vec()),
        ..pb::Message::default()
    };
    edit(&mut message);
    pb::Dnstap {
        r#type: Some(1),
        message: Some(message),
        ..pb::Dnstap::default()
    }
    .encode_to_vec()
}

const QUERY: &[u8] =
    b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x00\x00\x01\x00\x01";

#[test]
fn what_a_frame_does_not_say_is_made_up_as_documented() {
    let response = {
        let mut octets = QUERY.to_vec();
        octets[2] |= 0x80;
        octets
    };
    type Edit = fn(&mut pb::Message);
    let rows: &[(&str, Edit, &[&str])] = &[
        ("all there", |_| {}, &["Udp 192.0.2.1:5353 192.0.2.53:53"]),
        (
            "TCP",
            |m| m.socket_protocol = Some(2),
            &["Tcp 192.0.2.1:5353 192.0.2.53:53"],
        ),
        (
            "DoT",
            |m| (m.socket_protocol, m.response_port) = (Some(3), Some(853)),
            &["Tcp 192.0.2.1:5353 192.0.2.53:53"],
        ),
        (
            "DoH",
            |m| (m.socket_protocol, m.response_port) = (Some(4), Some(443)),
            &["Tcp 192.0.2.1:5353 192.0.2.53:53"],
        ),
        (
            "DoQ",
            |m| (m.socket_protocol, m.response_port) = (Some(7), Some(853)),
            &["Udp 192.0.2.1:5353 192.0.2.53:53"],
        ),
        (
            "no protocol",
            |m| m.socket_protocol = None,
            &["Udp 192.0.2.1:5353 192.0.2.53:53"],
        ),
        (
            "another port",
            |m| m.response_port = Some(5300),
            &["Udp 192.0.2.1:5353 192.0.2.53:5300"],
        ),
        (
            "no ports",
            |m| (m.query_port, m.response_port) = (None, None),
            &["Udp 192.0.2.1:0 192.0.2.53:53"],
        ),
        (
            "no client",
            |m| m.query_address = None,
            &["Udp 0.0.0.0:5353 192.0.2.53:53"],
        ),
        (
            "no addresses, IPv6",
            |m| (m.query_address, m.response_address, m.socket_family) = (None, None, Some(2)),
            &["Udp [::]:5353 [::]:53"],
        ),
        (
            "mixed families",
            |m| m.response_address = Some(vec![0; 16]),
            &["Udp [::ffff:192.0.2.1]:5353 [::]:53"],
        ),
        ("no message", |m| m.query_message = None, &[]),
        (
            "too long for a datagram",
            |m| m.query_message.as_mut().unwrap().resize(65_508, 0),
            &["Tcp 192.0.2.1:5353 192.0.2.53:53"],
        ),
        (
            "too long for anything",
            |m| m.query_message.as_mut().unwrap().resize(65_536, 0),
            &[],
        ),
    ];
    for (what, edit, wanted) in rows {
        let file = written(&[made(edit)]);
        let found: Vec<_> = read_back(&file, &BTreeSet::from([53, 5300]))
            .iter()
            .map(|(transport, src, dst, ..)| format!("{transport:?} {src} {dst}"))
            .collect();
        assert_eq!(found, *wanted, "{what}");
    }
    // A frame with both messages: two packets, each at its own time; with one of the two times, both at that.
    let both = |time: Option<u64>| {
        let payload = made(|message| {
            message.r#type = Some(6);
            message.response_message = Some(response.clone());
            message.response_time_sec = time;
        });
        read_back(&written(&[payload]), &BTreeSet::from([53]))
    };
    const QUERY_TIME: u64 = 1_700_000_000_000_000_007;
    for (time, wanted) in [
        (Some(1_700_000_001), 1_700_000_001_000_000_000),
        (None, QUERY_TIME),
    ] {
        let found = both(time);
        let (client, server) = ("192.0.2.1:5353", "192.0.2.53:53");
        let [query, answer] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!(
            (query.1.to_string(), query.2.to_string()),
            (client.into(), server.into())
        );
        assert_eq!(
            (answer.1.to_string(), answer.2.to_string()),
            (server.into(), client.into())
        );
        assert_eq!((query.3, answer.3), (QUERY_TIME, wanted));
        assert_eq!((&query.4[..], &answer.4), (QUERY, &response));
    }
    // The same message in both fields, as old BIND has it, is one packet.
    let twice = made(|message| {
        message.r#type = Some(6);
        message.query_message = Some(response.clone());
        message.response_message = Some(response.clone());
    });
    let found = read_back(&written(&[twice]), &BTreeSet::from([53]));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].1.port(), 53, "from the server");
}

/// The payloads as if all had come over TCP.
fn over_tcp(payloads: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let edit = |payload: &Vec<u8>| {
        let mut dnstap = pb::Dnstap::decode(&payload[..]).unwrap();
        dnstap.message.as_mut().unwrap().socket_protocol = Some(2);
        dnstap.encode_to_vec()
    };
    payloads.iter().map(edit).collect()
}

/// What tshark finds in a capture: a row a message, of direction, code, name and type. `None`: it is not installed.
fn theirs(path: &Path, ports: &BTreeSet<u16>) -> Option<Vec<String>> {
    let mut tshark = Command::new("tshark");
    tshark.args([
        "-n",
        "-2",
        "-Y",
        "dns",
        "-T",
        "fields",
        "-E",
        "occurrence=f",
    ]);
    for port in ports.iter().filter(|port| **port != 53) {
        for transport in ["udp", "tcp"] {
            tshark.args(["-d", &format!("{transport}.port=={port},dns")]);
        }
    }
    for field in [
        "dns.flags.response",
        "dns.flags.rcode",
        "dns.qry.name",
        "dns.qry.type",
    ] {
        tshark.args(["-e", field]);
    }
    let output = tshark.arg("-r").arg(path).output().ok()?;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.lines().map(str::to_owned).collect())
}

/// The same out of our JSON of the messages.
fn ours(payloads: &[Vec<u8>]) -> Vec<String> {
    let json: Format = "json".parse().unwrap();
    let mut line = json.line(&Settings::default()).unwrap().unwrap();
    let mut rows = Vec::new();
    for payload in payloads {
        let view = DnstapView::parse(payload).unwrap();
        let mut out = Vec::new();
        let entry = Entry {
            payload,
            view: Ok(&view),
            source: Source::default(),
        };
        line.write(&mut out, entry).unwrap();
        let object: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let of_message = messages(payload);
        let keys = match (
            &of_message[..],
            object["type"].as_str().unwrap().ends_with("QUERY"),
        ) {
            ([], _) => vec![],
            ([_], _) => vec!["dns"],
            (_, true) => vec!["dns", "response_dns"],
            (_, false) => vec!["query_dns", "dns"],
        };
        for key in keys {
            let dns = &object[key];
            let Some(flags) = dns["flags"].as_array() else {
                continue; // Too short for a header: no DNS to tshark.
            };
            let is_response = flags.contains(&"qr".into());
            // The four bits of the header, which is what tshark's field shows.
            let code = tapflow::dns::iana::rcode_number(dns["rcode"].as_str().unwrap()).unwrap();
            let name = match dns["qname"].as_str() {
                None => "",
                Some(".") => "<Root>",
                Some(name) => name.strip_suffix('.').unwrap(),
            };
            let qtype = dns["qtype"]
                .as_str()
                .map(|name| tapflow::dns::iana::type_number(name).unwrap());
            rows.push(format!(
                "{}\t{}\t{name}\t{}",
                u8::from(is_response),
                if is_response {
                    (code & 15).to_string()
                } else {
                    String::new()
                },
                qtype.map(|number| number.to_string()).unwrap_or_default(),
            ));
        }
    }
    rows
}

fn without_name(row: &str) -> String {
    let fields: Vec<_> = row.split('\t').collect();
    [&fields[..2], &fields[3..]].concat().join("\t")
}

#[test]
fn tshark_finds_each_message_with_its_name_type_and_code() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("written.pcap");
    let mut compared = 0;
    for capture in captures() {
        let payloads = payloads(&capture);
        for (how, payloads) in [
            ("as it came", payloads.clone()),
            ("over TCP", over_tcp(&payloads)),
        ] {
            std::fs::write(&path, written(&payloads)).unwrap();
            let Some(theirs) = theirs(&path, &ports(&payloads)) else {
                println!("skipped: the comparison with tshark (Debian package tshark)");
                return;
            };
            let ours = ours(&payloads);
            let name = capture.file_name().unwrap().to_string_lossy();
            assert_eq!(ours.len(), theirs.len(), "{name} {how}");
            // How odd octets are shown differs, and tshark's way does not give them back.
            let (ours, theirs): (Vec<_>, Vec<_>) = ours
                .into_iter()
                .zip(theirs)
                .map(|(ours, theirs)| match ours.contains('\\') {
                    true => (without_name(&ours), without_name(&theirs)),
                    false => (ours, theirs),
                })
                .unzip();
            let at = ours
                .iter()
                .zip(&theirs)
                .position(|(ours, theirs)| ours != theirs);
            let pair = at.map(|at| (&ours[at], &theirs[at]));
            assert_eq!(
                (ours.len(), pair),
                (theirs.len(), None),
                "{name} {how}, at {at:?}"
            );
            compared += ours.len();
        }
    }
    println!("{compared} messages compared");
    assert!(compared > 1000);
}

/// What was captured, without the few messages that are too short for a header: a converter takes none of those.
fn with_headers() -> Vec<Vec<u8>> {
    let mut payloads = captured();
    payloads.retain(|payload| {
        messages(payload)
            .iter()
            .all(|(_, octets)| octets.len() >= 12)
    });
    payloads
}

#[test]
fn a_file_that_begins_in_the_middle_of_a_conversation_is_read_whole() {
    let payloads = over_tcp(&with_headers());
    let (first, second) = payloads.split_at(payloads.len() / 2);
    let ports = ports(&payloads);
    for part in [first, second] {
        let wanted: usize = part.iter().map(|payload| messages(payload).len()).sum();
        assert_eq!(read_back(&written(part), &ports).len(), wanted);
    }
    // And files put together, whose sequence numbers begin anew.
    let mut joined = written(first);
    joined.extend_from_slice(&written(second)[24..]);
    let wanted: usize = payloads.iter().map(|payload| messages(payload).len()).sum();
    assert_eq!(read_back(&joined, &ports).len(), wanted);
}

#[test]
fn read_writes_a_capture_that_convert_makes_dnstap_of_again() {
    let folder = tempfile::tempdir().unwrap();
    let payloads = with_headers();
    let path = |name: &str| folder.path().join(name);
    let frames = payloads.iter().flat_map(|payload| {
        let len = (payload.len() as u32).to_be_bytes();
        [&len[..], payload].concat()
    });
    let file: Vec<u8> = start().into_iter().chain(frames).chain(stop()).collect();
    std::fs::write(path("in.fstrm"), file).unwrap();
    let output = cli_support::tapflow([
        "read".as_ref(),
        "--format=pcap".as_ref(),
        path("in.fstrm").as_os_str(),
    ])
    .output()
    .unwrap();
    assert!(output.status.success(), "{output:?}");
    std::fs::write(path("out.pcap"), &output.stdout).unwrap();
    let mut args = vec!["convert".to_owned(), "--quiet".to_owned()];
    args.extend(ports(&payloads).iter().map(|port| format!("--port={port}")));
    args.extend(["out.pcap", "back.fstrm"].map(|name| path(name).display().to_string()));
    let ran = run(args);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let back: Vec<_> = dnstap_support::payloads(&path("back.fstrm"))
        .iter()
        .flat_map(|payload| messages(payload))
        .map(|(_, octets)| octets)
        .collect();
    let wanted: Vec<_> = payloads
        .iter()
        .flat_map(|payload| messages(payload))
        .map(|(_, octets)| octets)
        .collect();
    assert_eq!(back.len(), wanted.len());
    assert!(back == wanted, "the same messages in the same order");
}
