//! DNS-collector's formats against what the program printed, and against the program itself where it is installed
//! (`go-dnscollector`, version 1). Where the two differ, a row of [`Rule`]s says why; anything else is a fault.

mod dnstap_support;
mod format_support;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dnstap_support::{files, payloads, testdata};
use format_support::ours;
use serde_json::{Map, Value, json};

type Object = Map<String, Value>;
type Rows = BTreeMap<&'static str, usize>;

/// Why a value may differ: what is said of it, and whether that is so of this key, our value, theirs, and our object.
type Rule = (&'static str, fn(&str, &str, &str, &Object) -> bool);

/// The rows of the list in the documentation of the `flat` module.
const RULES: &[Rule] = &[
    (
        "its name for whoever is behind a Unix socket",
        |key, ours, theirs, _| key == "dnstap.peer-name" && ours == "-" && theirs == "@",
    ),
    ("a policy that is not there", |key, ours, theirs, _| {
        let made_up = [
            ("dnstap.policy-action", "NXDOMAIN"),
            ("dnstap.policy-match", "QNAME"),
        ];
        ours == "-" && made_up.contains(&(key, theirs))
    }),
    ("a transport that is not there", |key, ours, theirs, _| {
        key == "network.protocol" && ours == "-" && theirs == "UDP"
    }),
    ("port 0 as if it were not there", |key, ours, theirs, _| {
        key.ends_with("-port") && ours == "0" && theirs == "-"
    }),
    ("latency out of both times", |key, _, theirs, _| {
        key == "dnstap.latency" && theirs == "0"
    }),
    ("the type of an UPDATE's event", |key, _, theirs, object| {
        key == "dnstap.operation" && theirs.starts_with("UPDATE_") && object["dns.opcode"] == 5
    }),
    ("a type without a name", |key, ours, theirs, _| {
        key.ends_with("type") && ours.starts_with("TYPE") && theirs == "UNKNOWN"
    }),
    (
        "the last of several questions, and not the first",
        |key, _, _, object| key.starts_with("dns.q") && object["dns.qdcount"].as_u64() > Some(1),
    ),
    (
        "data of types that it leaves out",
        |key, _, theirs, object| {
            let decoded = [
                "A", "AAAA", "CNAME", "MX", "SRV", "NS", "TXT", "PTR", "SOA", "HTTPS", "SVCB",
            ];
            let rtype = key
                .strip_suffix("rdata")
                .map(|start| &object[&format!("{start}rdatatype")]);
            theirs == "-" && rtype.is_some_and(|rtype| !decoded.iter().any(|name| rtype == name))
        },
    ),
    (
        "strings of a TXT after the first",
        |key, ours, theirs, _| {
            key.ends_with("rdata") && ours.starts_with('"') && {
                // Up to the first quote that is not escaped.
                let inner = &ours[1..];
                let ends = inner.match_indices('"').map(|(at, _)| at);
                let end = ends.into_iter().find(|at| {
                    inner[..*at]
                        .bytes()
                        .rev()
                        .take_while(|octet| *octet == b'\\')
                        .count()
                        % 2
                        == 0
                });
                end.is_some_and(|end| raw(&inner[..end]) == theirs)
            }
        },
    ),
    ("the root, and octets as they are", |_, ours, theirs, _| {
        raw(ours) == theirs || ours == "." && theirs.is_empty()
    }),
    ("the root within data", |key, ours, theirs, _| {
        key.ends_with("rdata")
            && raw(&format!("{ours} ").replace(" . ", "  ")).trim_end() == theirs.trim_end()
    }),
];

/// Text with its escapes undone; of what is no UTF-8, a replacement for each octet, as Go writes it.
fn raw(text: &str) -> String {
    let (mut octets, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, tail @ ..] = rest {
        let digit = |octet: &u8| octet.is_ascii_digit();
        (rest, _) = match (first, tail) {
            (b'\\', [a, b, c, after @ ..]) if [a, b, c].into_iter().all(digit) => {
                let number = [a, b, c]
                    .iter()
                    .fold(0, |sum, octet| sum * 10 + u32::from(**octet - b'0'));
                (after, octets.push(number as u8))
            }
            (b'\\', [escaped, after @ ..]) => (after, octets.push(*escaped)),
            _ => (tail, octets.push(*first)),
        };
    }
    let (mut text, mut rest) = (String::new(), &octets[..]);
    loop {
        match std::str::from_utf8(rest) {
            Ok(good) => return text + good,
            Err(error) => {
                let (good, bad) = rest.split_at(error.valid_up_to());
                text += std::str::from_utf8(good).unwrap();
                text.push('\u{fffd}');
                rest = &bad[1..];
            }
        }
    }
}

fn plain(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "(no key)".to_owned(),
    }
}

/// Compares two objects: byte for byte, or else key by key, every difference by a rule. Says what no rule explains.
fn compare_flat(ours: &str, theirs: &str, rows: &mut Rows) -> Result<(), String> {
    if ours == theirs {
        *rows.entry("equal").or_default() += 1;
        return Ok(());
    }
    let mine: Object = serde_json::from_str(ours).expect("our JSON");
    let other: Object = serde_json::from_str(theirs).expect("their JSON");
    let keys = |object: &Object| object.keys().cloned().collect::<Vec<_>>();
    let (mut mine_keys, mut other_keys) = (keys(&mine), keys(&other));
    // Records from the eleventh on stand elsewhere.
    if mine_keys.iter().any(|key| key.contains(".10.")) {
        mine_keys.sort();
        other_keys.sort();
    }
    if mine_keys != other_keys {
        return Err(format!("keys {mine_keys:?}\n  theirs {other_keys:?}"));
    }
    for (key, value) in &mine {
        let (value, their_value) = (plain(Some(value)), plain(other.get(key)));
        if value == their_value {
            continue;
        }
        let rule = RULES
            .iter()
            .find(|rule| (rule.1)(key, &value, &their_value, &mine));
        let Some((why, _)) = rule else {
            return Err(format!("{key}: {value:?}\n  theirs {their_value:?}"));
        };
        *rows.entry(why).or_default() += 1;
    }
    // What no rule concerns is also written in the same way, but for escapes that Go's JSON has and serde's has not.
    let mut patched = mine;
    for (key, value) in &mut patched {
        *value = other[key].clone();
    }
    let again = serde_json::to_string(&patched).unwrap() + "\n";
    if keys(&patched) == keys(&other) && again != *theirs && !theirs.contains("\\u") {
        return Err(format!("written otherwise\n  {again}  {theirs}"));
    }
    Ok(())
}

/// Compares two lines of text, in the same way.
fn compare_text(ours: &str, theirs: &str, rows: &mut Rows) -> Result<(), String> {
    let words: Vec<&str> = ours.trim_end().split(' ').collect();
    let [
        time,
        identity,
        operation,
        rcode,
        ip,
        port,
        family,
        protocol,
        octets,
        name,
        rtype,
        latency,
    ] = words[..]
    else {
        return Err(format!("not twelve words: {ours}"));
    };
    let quoted = |text: String| {
        if text.contains([' ', '"']) {
            format!("\"{}\"", text.replace('"', "\\\""))
        } else {
            text
        }
    };
    let name = if name == "." || name == "-" {
        name.to_owned()
    } else {
        quoted(raw(name))
    };
    let their_words = format!("{theirs} ");
    let has = |word: &str| their_words.contains(&format!(" {word} "));
    let operation = match operation.split_once('_') {
        Some((_, kind)) if has(&format!("UPDATE_{kind}")) => format!("UPDATE_{kind}"),
        _ => operation.to_owned(),
    };
    let rtype = if rtype.starts_with("TYPE") {
        "UNKNOWN"
    } else {
        rtype
    };
    let protocol = if protocol == "-" { "UDP" } else { protocol };
    let port = if port == "0" { "-" } else { port };
    let no_latency = "0.000000000";
    let expected = format!(
        "{time} {identity} {operation} {rcode} {ip} {port} {family} {protocol} {octets} {name} {rtype} {no_latency}\n"
    );
    if expected != *theirs {
        return Err(format!("{ours}  {expected}  {theirs}"));
    }
    let rounded = ours.replace(latency, no_latency);
    let row = if ours == theirs {
        "equal"
    } else if rounded == *theirs {
        "latency out of both times"
    } else {
        "names, types, transports and events as above"
    };
    *rows.entry(row).or_default() += 1;
    Ok(())
}

/// Lines of text: the program writes a line feed in a name as it is.
fn text_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.split_inclusive('\n') {
        let is_new = line
            .as_bytes()
            .first_chunk::<11>()
            .is_some_and(|start| start[4] == b'-' && start[10] == b'T');
        match lines.last_mut() {
            Some(before) if !is_new => before.push_str(line),
            _ => lines.push(line.to_owned()),
        }
    }
    lines
}

/// Compares what the program wrote of a capture's first records, or of all.
fn compare(path: &Path, flat: &str, text: &str, rows: &mut [Rows; 2]) -> usize {
    let [flat_rows, text_rows] = rows;
    let theirs: Vec<String> = flat.split_inclusive('\n').map(str::to_owned).collect();
    let mut problems = Vec::new();
    for (ours, theirs) in ours(path, "flat-json").iter().zip(&theirs) {
        problems.extend(compare_flat(ours, theirs, flat_rows).err());
    }
    let their_lines = text_lines(text);
    let ours_flat = ours(path, "flat-json");
    for (index, (ours, theirs)) in ours(path, "collector-text")
        .iter()
        .zip(&their_lines)
        .enumerate()
    {
        let one = ["\"dns.qdcount\":0,", "\"dns.qdcount\":1,"];
        if one
            .into_iter()
            .any(|count| ours_flat[index].contains(count))
        {
            problems.extend(compare_text(ours, theirs, text_rows).err());
        }
    }
    let count = problems.len();
    problems.truncate(12);
    assert!(
        count == 0,
        "{}: {count} differ\n{}",
        path.display(),
        problems.join("\n")
    );
    assert_eq!(theirs.len(), their_lines.len());
    theirs.len()
}

#[test]
fn the_first_records_of_every_capture_are_what_dns_collector_printed() {
    let mut rows = [Rows::new(), Rows::new()];
    for path in files("captures", "fstrm") {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let read = |ending: &str| {
            std::fs::read_to_string(testdata(&format!("dns-collector/{name}.expected.{ending}")))
                .unwrap()
        };
        assert_eq!(compare(&path, &read("jsonl"), &read("txt"), &mut rows), 20);
    }
    println!("flat-json: {:?}\ncollector-text: {:?}", rows[0], rows[1]);
}

/// Ends the program whatever becomes of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where a program is in `PATH`.
fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Waits until `what` gives something, for half a minute at most.
fn wait<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < end, "no {what}");
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

/// What the program writes of a capture: flat JSON and text. It loses what is in its queues when a sender leaves, so that the
/// sender stays until all is written, and sends no more at once than the queues hold.
fn written_by_the_program(program: &str, capture: &Path) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (socket, config) = (at("socket"), at("config.yml"));
    let logger = |name: &str, mode: &str| {
        format!(
            "  - name: {name}\n    logfile:\n      file-path: {}\n      mode: {mode}\n      flush-interval: 1\n",
            at(name).display()
        )
    };
    let text = format!(
        "global:\n  server-identity: collector\npipelines:\n  - name: tap\n    dnstap:\n      sock-path: {}\n      \
         disable-dnsparser: false\n    routing-policy:\n      forward: [ flat, text ]\n{}{}",
        socket.display(),
        logger("flat", "flat-json"),
        logger("text", "text")
    );
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new(program);
    command.arg("-config").arg(&config).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let running = Running(command.spawn().unwrap());
    let mut stream = wait("socket", || UnixStream::connect(&socket).ok());
    let content = b"\0\0\0\x01\0\0\0\x16protobuf:dnstap.Dnstap";
    let control = |kind: u8| [&[0, 0, 0, 0, 0, 0, 0, 34, 0, 0, 0, kind], &content[..]].concat();
    stream.write_all(&control(4)).unwrap();
    stream.read_exact(&mut [0; 42]).unwrap();
    stream.write_all(&control(2)).unwrap();
    let payloads = payloads(capture);
    let read = |name: &str| {
        String::from_utf8_lossy(&std::fs::read(at(name)).unwrap_or_default()).into_owned()
    };
    let mut sent = 0;
    for piece in payloads.chunks(2000) {
        for payload in piece {
            stream
                .write_all(&(payload.len() as u32).to_be_bytes())
                .unwrap();
            stream.write_all(payload).unwrap();
        }
        sent += piece.len();
        wait("records", || {
            let flat = std::fs::read(at("flat")).unwrap_or_default();
            let lines = memchr::memchr_iter(b'\n', &flat).count();
            (lines == sent && text_lines(&read("text")).len() == sent).then_some(())
        });
    }
    let written = (read("flat"), read("text"));
    drop(running);
    written
}

#[test]
fn whole_captures_are_what_dns_collector_writes() {
    let programs = ["go-dnscollector", "dnscollector"];
    let Some(program) = programs.into_iter().find(|program| installed(program)) else {
        println!(
            "skipped: DNS-collector 1 is not installed; put its release's go-dnscollector into a folder of PATH"
        );
        return;
    };
    let mut rows = [Rows::new(), Rows::new()];
    let mut records = 0;
    for path in files("captures", "fstrm") {
        let (flat, text) = written_by_the_program(program, &path);
        let count = compare(&path, &flat, &text, &mut rows);
        assert_eq!(count, payloads(&path).len(), "{}", path.display());
        records += count;
    }
    println!(
        "{records} records\nflat-json: {:?}\ncollector-text: {:?}",
        rows[0], rows[1]
    );
}

#[test]
fn the_joined_form_says_what_the_other_says_in_the_order_of_version_3() {
    let order = [
        "dns.flags.aa",
        "dns.flags.ad",
        "dns.flags.cd",
        "dns.flags.qr",
        "dns.flags.ra",
        "dns.flags.rd",
        "dns.flags.tc",
        "dns.ancount",
        "dns.arcount",
        "dns.id",
        "dns.length",
        "dns.malformed-packet",
        "dns.nscount",
        "dns.opcode",
        "dns.qclass",
        "dns.qdcount",
        "dns.qname",
        "dns.qtype",
        "dns.rcode",
        "dns.resource-records.an.classes",
        "dns.resource-records.an.names",
        "dns.resource-records.an.rdatas",
        "dns.resource-records.an.rdatatypes",
        "dns.resource-records.an.ttls",
        "dns.resource-records.ar.classes",
        "dns.resource-records.ar.names",
        "dns.resource-records.ar.rdatas",
        "dns.resource-records.ar.rdatatypes",
        "dns.resource-records.ar.ttls",
        "dns.resource-records.ns.classes",
        "dns.resource-records.ns.names",
        "dns.resource-records.ns.rdatas",
        "dns.resource-records.ns.rdatatypes",
        "dns.resource-records.ns.ttls",
        "dnstap.extra",
        "dnstap.identity",
        "dnstap.latency",
        "dnstap.latency_ms",
        "dnstap.operation",
        "dnstap.peer-name",
        "dnstap.policy-action",
        "dnstap.policy-match",
        "dnstap.policy-rule",
        "dnstap.policy-type",
        "dnstap.policy-value",
        "dnstap.query-zone",
        "dnstap.timestamp-rfc3339ns",
        "dnstap.version",
        "edns.dnssec-ok",
        "edns.options.codes",
        "edns.options.datas",
        "edns.options.names",
        "edns.optionscount",
        "edns.rcode",
        "edns.udp-size",
        "edns.version",
        "network.family",
        "network.ip-defragmented",
        "network.protocol",
        "network.query-ip",
        "network.query-port",
        "network.response-ip",
        "network.response-port",
        "network.tcp-reassembled",
    ];
    let mut paths = files("captures", "fstrm");
    paths.extend(files("corpus/dns-fstrm", "fstrm"));
    for path in paths {
        let (flat, joined) = (ours(&path, "flat-json"), ours(&path, "flat-json-joined"));
        for (flat, joined) in flat.iter().zip(&joined).step_by(7) {
            let flat: Object = serde_json::from_str(flat).unwrap();
            let joined: Object = serde_json::from_str(joined).unwrap();
            assert_eq!(joined.keys().collect::<Vec<_>>(), order);
            for (key, value) in &joined {
                let column = key
                    .strip_prefix("dns.resource-records.")
                    .or_else(|| key.strip_prefix("edns.options."));
                let Some(column) = column else {
                    let latency = flat["dnstap.latency"].as_f64().unwrap();
                    let count = flat
                        .keys()
                        .filter(|key| key.starts_with("edns.options.") && key.ends_with(".code"))
                        .count();
                    let wanted = match &**key {
                        "dnstap.latency_ms" => &json!((latency * 1000.0 + 1e-7) as u64),
                        "edns.optionscount" => &json!(count),
                        _ => &flat[key],
                    };
                    assert_eq!(value, wanted, "{key}");
                    continue;
                };
                let (start, column) = match column.split_once('.') {
                    Some((section, column)) => (format!("dns.resource-records.{section}"), column),
                    None => ("edns.options".to_owned(), column),
                };
                let column = column
                    .strip_suffix("es")
                    .filter(|c| *c == "class")
                    .unwrap_or(&column[..column.len() - 1]);
                let values: Vec<String> = (0..)
                    .map_while(|index| flat.get(&format!("{start}.{index}.{column}")))
                    .map(|value| plain(Some(value)))
                    .collect();
                let wanted = if values.is_empty() {
                    "-".to_owned()
                } else {
                    values.join("|")
                };
                assert_eq!(value, &wanted, "{key}");
                assert_eq!(values.is_empty(), flat.get(&start) == Some(&json!("-")));
            }
        }
    }
}
