//! Every field of every DNS message in the corpora, read by us and by dnspython.

#[path = "dnstap_support/mod.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tapflow::dns::present::{Plain, write_data};
use tapflow::dns::{DnsView, Edns, EdnsOption, Name, Record, Section};
use tapflow::dnstap::DnstapView;
use tapflow::pcap::{DnsPacket, ExtractOptions, Extractor, Reader};

/// Differences that are meant, by the start of what is said of them, with why.
const MEANT: &[(&str, &str)] = &[
    (
        "n06-pointer-into-header.msg: only we refuse: pointer_target",
        "one rule for pointers: back, and not into the header",
    ),
    (
        "r17-ttl-top-bit.msg: ttl",
        "a time to live is shown as it was sent, RFC 2181 notwithstanding",
    ),
    (
        "e11-ecs-family-0.msg: refused",
        "family 0 is what privacy stubs send, and accepted (B109)",
    ),
    (
        "dns-tkey.pcap: data does not read back: expecting an integer",
        "TKEY as dnstap-read writes it: the error by its name, lengths before the octets",
    ),
    (
        "e25-ede-not-utf8.msg: refused",
        "the text of an extended error may be any octets",
    ),
    (
        "pcap-zeek.fstrm: refused: FormError",
        "values of service parameters: we check shapes, and show such a value as octets",
    ),
    (
        "msg-bind9.fstrm: refused: FormError",
        "fuzz corpus: an empty URI, a GPOS without numbers, an odd deletion in an UPDATE: well formed by shape",
    ),
    (
        "msg-bind9.fstrm: ttl",
        "fuzz corpus: dnspython drops the time to live of deletions in an UPDATE",
    ),
    (
        "msg-bind9.fstrm: data does not read back: generic rdata",
        "fuzz corpus: types of RFC 1035 in a class that does not exist; we show their names all the same",
    ),
    (
        "r08-txt-odd.msg: only we refuse: rdata",
        "a TXT without any string; dnspython 2.3 takes it for an empty one, later versions refuse it",
    ),
    (
        "e18-cookie-bad-length.msg: only we refuse: edns_option",
        "a cookie of a length that there is not; dnspython 2.3 does not decode cookies, later versions refuse it",
    ),
];

/// Files of the rows above that are there only with the fetched corpus.
const FETCHED: &[&str] = &["pcap-zeek.fstrm", "msg-bind9.fstrm", "dns-tkey.pcap"];

/// Files of the rows above that only some versions of dnspython show.
const SOME_VERSIONS: &[&str] = &["r08-txt-odd.msg", "e18-cookie-bad-length.msg"];

fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut text, octet| {
        let _ = write!(text, "{octet:02x}");
        text
    })
}

fn wire(name: &Name<'_>) -> String {
    let mut wire = Vec::new();
    name.write_wire(&mut wire);
    hex(&wire)
}

/// What we read from a message.
fn ours(message: &[u8]) -> Value {
    let view = match DnsView::parse(message) {
        Ok(view) => view,
        Err(error) => return json!({"malformed": error.reason.as_str()}),
    };
    let walk = view.walk();
    let header = view.header();
    let questions: Vec<_> = view
        .questions()
        .map(|q| json!([wire(&q.name), q.qtype, q.qclass]))
        .collect();
    let mut sections = BTreeMap::<_, Vec<Value>>::new();
    let mut signature = None;
    for record in view.records() {
        // dnspython keeps these two apart from the records.
        match record.rtype {
            Edns::RTYPE => {}
            TSIG => signature = Some(signed(&record)),
            _ => {
                let mut data = Vec::new();
                write_data(&Plain, &mut data, &record);
                sections.entry(record.section).or_default().push(json!({
                    "owner": wire(&record.owner),
                    "type": record.rtype,
                    "class": record.class,
                    "ttl": record.ttl,
                    "data": String::from_utf8(data).expect("text is ASCII"),
                }));
            }
        }
    }
    let edns = walk.edns.map(|edns| {
        let options: Vec<_> = edns
            .options()
            .map(|(code, data)| json!([code, hex(data), meaning(code, data)]))
            .collect();
        json!({
            "version": edns.version,
            "flags": edns.flags,
            "size": edns.udp_size,
            "options": options,
        })
    });
    let mut section = |section| sections.remove(&section).unwrap_or_default();
    json!({
        "malformed": walk.malformed.map(|error| error.reason.as_str()),
        "mid": header.id,
        "flags": header.flags,
        "rcode": view.rcode(),
        "questions": questions,
        "edns": edns,
        "signature": signature,
        "answer": section(Section::Answer),
        "authority": section(Section::Authority),
        "additional": section(Section::Additional),
    })
}

/// Type of a transaction signature.
const TSIG: u16 = 250;

/// A signature's name and data, in which no name may be compressed. dnspython does not keep its class and time to live.
fn signed(record: &Record<'_>) -> Value {
    json!([wire(&record.owner), hex(record.data())])
}

/// What an option means, where both decode it: a client subnet's address and prefixes, an extended error's code and
/// text, a cookie's two parts.
fn meaning(code: u16, data: &[u8]) -> Value {
    match EdnsOption::parse(code, data) {
        EdnsOption::ClientSubnet(subnet) => {
            let address = subnet.ip().map(|address| address.to_string());
            json!([address, subnet.source_prefix, subnet.scope_prefix])
        }
        EdnsOption::ExtendedError { code, text } => json!([code, hex(text)]),
        EdnsOption::Cookie { client, server } => json!([hex(client), hex(server)]),
        _ => Value::Null,
    }
}

/// The shared corpus: other projects' data, and not in the repository.
fn corpus() -> PathBuf {
    std::env::var_os("TAPFLOW_CORPUS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/corpus"),
        PathBuf::from,
    )
}

fn fetched() -> bool {
    corpus().join("fetched/derived").is_dir()
}

/// Every file below a folder, by name.
fn below(folder: &Path) -> Vec<PathBuf> {
    let (mut folders, mut files) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path())
            } else {
                files.push(entry.path())
            }
        }
    }
    files.sort();
    files
}

/// The messages in a packet capture, over UDP and TCP.
fn packets(path: &Path, mut see: impl FnMut(&[u8])) {
    let Ok(mut reader) = Reader::new(std::fs::File::open(path).unwrap()) else {
        return;
    };
    let mut extractor = Extractor::new(ExtractOptions::default());
    let mut deliver = |packet: DnsPacket<'_>| see(packet.payload);
    while let Ok(Some(packet)) = reader.next() {
        extractor.push(&packet, &mut deliver);
    }
    extractor.finish(&mut deliver);
}

/// Every DNS message there is, each once, with a file it is from.
fn messages() -> BTreeMap<Vec<u8>, String> {
    let mut messages = BTreeMap::new();
    let mut add = |name: &Path, message: &[u8]| {
        let name = name.file_name().unwrap_or_default().to_string_lossy();
        messages
            .entry(message.to_vec())
            .or_insert_with(|| name.into_owned());
    };
    for path in support::files("corpus/dns", "msg") {
        add(&path, &std::fs::read(&path).unwrap());
    }
    let mut files = support::files("captures", "fstrm");
    files.extend(support::files("derived", "fstrm"));
    let fetched = corpus().join("fetched");
    files.extend(below(&fetched.join("derived")));
    files.extend(below(&fetched.join("fstrm")));
    files.extend(below(&corpus().join("captured")));
    if !fetched.is_dir() {
        println!("skipped: messages of the fetched corpus, which is not here");
    }
    let mut payloads: Vec<_> = below(&fetched.join("payload"))
        .into_iter()
        .map(|path| (std::fs::read(&path).unwrap(), path))
        .collect();
    for path in files.iter().filter(|path| {
        path.extension()
            .is_some_and(|end| end == "fstrm" || end == "dnstap" || end == "wire")
    }) {
        let inside = support::payloads_until_it_breaks(path);
        payloads.extend(inside.into_iter().map(|payload| (payload, path.clone())));
    }
    for (payload, path) in payloads {
        let message = DnstapView::parse(&payload)
            .ok()
            .and_then(|view| view.message);
        for octets in message
            .into_iter()
            .flat_map(|message| [message.query_message, message.response_message])
        {
            octets.into_iter().for_each(|octets| add(&path, octets));
        }
    }
    for path in below(&fetched.join("msg")) {
        add(&path, &std::fs::read(&path).unwrap());
    }
    let mut captures = below(&fetched.join("pcap"));
    captures.extend(below(&support::testdata("pcap")));
    for path in captures {
        packets(&path, |message| add(&path, message));
    }
    messages
}

/// A Python that has dnspython.
fn python() -> Option<PathBuf> {
    ["python3", "/usr/bin/python3"]
        .into_iter()
        .find_map(|python| {
            let found = Command::new(python)
                .args(["-c", "import dns.message"])
                .stderr(Stdio::null())
                .status();
            found
                .is_ok_and(|status| status.success())
                .then(|| python.into())
        })
}

#[test]
fn dnspython_reads_the_same_from_every_message() {
    let Some(python) = python() else {
        println!("skipped: no dnspython; apt-get install python3-dnspython");
        return;
    };
    let messages: Vec<_> = messages().into_iter().collect();
    let mut child = Command::new(python)
        .arg(support::testdata("peers/dnspython.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            for (id, (message, _)) in messages.iter().enumerate() {
                let case = json!({"id": id, "wire": hex(message), "ours": ours(message)});
                writeln!(stdin, "{case}").unwrap();
            }
            drop(stdin);
        });
        child.wait_with_output().unwrap()
    });
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let (mut differences, mut compared) = (Vec::new(), 0);
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        if let Ok(count) = line.parse::<u64>() {
            compared = count;
            continue;
        }
        let difference: Value = serde_json::from_str(line).unwrap();
        let what = difference["what"].as_str().unwrap().to_owned();
        let file = &messages[difference["id"].as_u64().unwrap() as usize].1;
        match MEANT
            .iter()
            .find(|(start, _)| format!("{file}: {what}").contains(start))
        {
            Some((start, _)) => {
                seen.insert(*start);
            }
            None => differences.push(format!("{file}: {line}")),
        }
    }
    println!("{compared} messages compared, of {}", messages.len());
    assert!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        differences.join("\n")
    );
    assert!(compared > 10_000, "{compared}");
    let is_of = |files: &[&str], row: &str| files.iter().any(|file| row.starts_with(file));
    for (start, why) in MEANT
        .iter()
        .filter(|(start, _)| (fetched() || !is_of(FETCHED, start)) && !is_of(SOME_VERSIONS, start))
    {
        assert!(
            seen.contains(start),
            "no longer seen, take it out: {start} ({why})"
        );
    }
}
