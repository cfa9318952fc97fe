//! The DNS messages found in captures equal those that tshark finds, file by file, or the difference is explained here.
//!
//! Compared as bags: message ids with the response bit, the first question's name (its octets) and type, and the response
//! code; and then, of the messages that we find well formed, what our decoder makes of them: the questions, the whole
//! response code, and the name and type of every record. Both tshark and the fetched captures are optional; what is missing
//! is printed and passed over. Our own captures in testdata are always compared when tshark is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tapflow::dns::{DnsView, Name};
use tapflow::pcap::{DnsPacket, ExtractOptions, Extractor, Reader};

/// Files in which the two differ, how, and why that is right. Each row names the exact figures, so that a change in
/// either direction is noticed.
const DIFFERENCES: &[Difference] = &[
    Difference {
        file: "entrada2/sidnlabs-test-tcp-stream-continued.pcap.gz",
        ours: 31,
        theirs: 19,
        only_ours: 12,
        only_theirs: 0,
        reason: "the responses' stream begins in the middle of a message; tshark takes those octets for a length and \
                 waits for an end that does not come, while we find the next message and read the 12 responses",
    },
    Difference {
        file: "pcap/mixed-dns.pcap",
        ours: 7446,
        theirs: 7430,
        only_ours: 16,
        only_theirs: 0,
        reason: "8 messages are over TCP on port 5300, where tshark does not guess; 7 over UDP on that port it takes for \
                 another protocol (Quake II, MANOLITO) or for none; and one datagram to port 53 has a single octet",
    },
    Difference {
        file: "pcap/unbound-snap120.pcap",
        ours: 827,
        theirs: 831,
        only_ours: 0,
        only_theirs: 4,
        reason: "of a long TXT answer over TCP each segment is cut to 120 octets; tshark takes the text at the beginning \
                 of four later segments for messages, with letters of the text as their ids (0x6963 is \"ic\")",
    },
];

/// Ports set beside 53 for single files, because tshark guesses that UDP on any port is DNS when it looks like it, and in
/// these files it is: a test server's port and the port of our resolver's upstream.
const PORTS: &[(&str, u16)] = &[
    ("pktvisor/dns_ipv4_udp.pcap", 53000),
    ("pcap/mixed-dns.pcap", 5300),
];

struct Difference {
    file: &'static str,
    ours: usize,
    theirs: usize,
    /// Messages that only one of the two has.
    only_ours: usize,
    only_theirs: usize,
    reason: &'static str,
}

type Bag = BTreeMap<String, isize>;

/// A message as both see it.
struct Seen {
    /// What finds it: id, response bit, response code, first question.
    key: String,
    /// What is decoded of it; `None` when we find it malformed.
    decoded: Option<String>,
}

fn ours(path: &Path, name: &str) -> (Vec<Seen>, String) {
    let mut found = Vec::new();
    let mut options = ExtractOptions::default();
    options.ports.extend(
        PORTS
            .iter()
            .filter(|(file, _)| *file == name)
            .map(|(_, port)| port),
    );
    let mut extractor = Extractor::new(options);
    let mut keep = |packet: DnsPacket<'_>| {
        found.push(Seen {
            key: describe(packet.payload),
            decoded: decoded(packet.payload),
        });
    };
    let file = fs::File::open(path).expect("the capture opens");
    let mut end = String::new();
    match Reader::new(file) {
        Ok(mut reader) => loop {
            match reader.next() {
                Ok(Some(packet)) => extractor.push(&packet, &mut keep),
                Ok(None) => break,
                Err(error) => {
                    end = error.to_string();
                    break;
                }
            }
        },
        Err(error) => end = error.to_string(),
    }
    extractor.finish(&mut keep);
    let counters: Vec<String> = extractor
        .counters()
        .rows()
        .filter(|(_, n)| *n > 0)
        .map(|(name, n)| format!("{name}={n}"))
        .collect();
    (found, format!("{} {end}", counters.join(" ")))
}

/// What our decoder makes of a message: response code, questions, records; `None` when it is malformed.
fn decoded(message: &[u8]) -> Option<String> {
    let dns = DnsView::parse(message).ok()?;
    if dns.walk().malformed.is_some() {
        return None;
    }
    let shown = |name: &Name<'_>| {
        // tshark shows a dot in a label as any other dot.
        let text = name.to_string().replace("\\.", ".");
        let text = text.strip_suffix('.').filter(|text| !text.is_empty());
        plain(text.unwrap_or("<Root>"))
    };
    let is_response = dns.header().flags & 0x8000 != 0;
    let mut rows = vec![if is_response {
        dns.rcode().to_string()
    } else {
        String::new()
    }];
    rows.extend(
        dns.questions()
            .map(|q| format!("{} {}", shown(&q.name), q.qtype)),
    );
    rows.extend(
        dns.records()
            .map(|r| format!("{} {}", shown(&r.owner), r.rtype)),
    );
    Some(rows.join(", "))
}

/// A name as it is, if it is of letters, digits, dots, hyphens and underscores: the two show other octets differently.
fn plain(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if name == "<Root>" || name.chars().all(is_plain) {
        name.to_owned()
    } else {
        "odd".to_owned()
    }
}

/// An independent little decoder of the header and the first question. Names are compared as the octets in the message,
/// so that it does not matter how tshark shows odd ones.
fn describe(message: &[u8]) -> String {
    let octet = |at: usize| message.get(at).copied();
    let be16 = |at: usize| Some(u16::from_be_bytes([octet(at)?, octet(at + 1)?]));
    let (Some(id), Some(high), Some(low)) = (be16(0), octet(2), octet(3)) else {
        return "short".into();
    };
    let rcode = if high & 0x80 != 0 {
        (low & 15).to_string()
    } else {
        String::new()
    };
    let question = (|| {
        if be16(4)? == 0 {
            return None;
        }
        let mut at = 12;
        let end = loop {
            match octet(at)? {
                0 => break at + 1,
                // Neither a reserved kind of label nor a pointer to beyond the message makes a name.
                64..192 => return None,
                high @ 192.. => {
                    octet(usize::from(high & 63) << 8 | usize::from(octet(at + 1)?))?;
                    break at + 2;
                }
                len => at += 1 + usize::from(len),
            }
        };
        let qtype = be16(end)?;
        be16(end + 2)?; // tshark shows no question without its class.
        let name: String = message
            .get(12..end)?
            .iter()
            .map(|octet| format!("{octet:02x}"))
            .collect();
        Some(format!("{name} {qtype}"))
    })();
    format!(
        "{id:04x} {} {rcode} {}",
        high >> 7,
        question.unwrap_or_default()
    )
}

/// One row a message out of tshark's fields. PDML keeps messages of one packet apart, which `-T fields` does not.
fn theirs(path: &Path) -> Option<Vec<Seen>> {
    let output = Command::new("tshark")
        .args(["-n", "-2", "-T", "pdml", "-Y", "dns", "-J", "dns", "-r"])
        .arg(path)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut found = Vec::new();
    for message in text.split("<proto name=\"dns\"").skip(1) {
        let message = message.split("\n  </proto>").next().unwrap_or_default();
        // The value of a field in octets, as hexadecimal, and what tshark shows for it.
        let field = |name: &str, attribute: &str| {
            let at = message.find(&format!("name=\"{name}\""))?;
            let line = message[at..].lines().next()?;
            let value = line.split(&format!(" {attribute}=\"")).nth(1)?;
            value.split('"').next().map(str::to_owned)
        };
        let number = |name: &str| {
            let show = field(name, "show")?;
            show.strip_prefix("0x").map_or_else(
                || show.parse().ok(),
                |hex| u32::from_str_radix(hex, 16).ok(),
            )
        };
        let Some(id) = number("dns.id") else {
            found.push(Seen {
                key: "short".into(),
                decoded: None,
            });
            continue;
        };
        let response = number("dns.flags.response").unwrap_or(0);
        let rcode = number("dns.flags.rcode").map_or_else(String::new, |n| n.to_string());
        let counted = number("dns.count.queries").or_else(|| number("dns.count.zones"));
        let question = match (
            counted,
            field("dns.qry.name", "value"),
            number("dns.qry.type"),
        ) {
            (Some(1..), Some(name), Some(qtype)) => format!("{name} {qtype}"),
            _ => String::new(),
        };
        found.push(Seen {
            key: format!("{id:04x} {response} {rcode} {question}"),
            decoded: Some(decoded_by_tshark(message, response == 1)),
        });
    }
    Some(found)
}

/// What [`decoded`] says, out of the fields of one message.
fn decoded_by_tshark(message: &str, is_response: bool) -> String {
    let (mut rows, mut name) = (vec![String::new()], None);
    let (mut low, mut high) = (0, 0);
    for line in message.lines() {
        let attribute = |name: &str| {
            let value = line.split(&format!(" {name}=\"")).nth(1)?;
            value.split('"').next().map(str::to_owned)
        };
        let show = || attribute("show").unwrap_or_default();
        match line.trim_start().split(' ').nth(1) {
            Some("name=\"dns.qry.name\"" | "name=\"dns.resp.name\"") => {
                let text = show().replace("&lt;", "<").replace("&gt;", ">");
                name = Some(plain(&text));
            }
            // The owner of an SRV record comes in pieces.
            Some("name=\"dns.srv.service\"") => name = Some(plain(&show())),
            Some("name=\"dns.srv.proto\"" | "name=\"dns.srv.name\"") => {
                name = name.map(|start| format!("{start}.{}", plain(&show())));
            }
            // The types in a bitmap have the same field name, and one octet.
            Some("name=\"dns.qry.type\"" | "name=\"dns.resp.type\"")
                if attribute("size").as_deref() == Some("2") =>
            {
                rows.extend(name.take().map(|name| format!("{name} {}", show())));
            }
            Some("name=\"dns.flags.rcode\"") => low = show().parse().unwrap_or(0),
            Some("name=\"dns.resp.ext_rcode\"") => {
                let hex = show();
                high = u16::from_str_radix(hex.trim_start_matches("0x"), 16).unwrap_or(0);
            }
            _ => {}
        }
    }
    if is_response {
        rows[0] = (high << 4 | low).to_string();
    }
    rows.join(", ")
}

/// Neither we nor tshark read xz: such a capture is unpacked by the tool of that name. `None` when it is not installed.
fn unpacked(path: &Path, folder: &Path) -> Option<PathBuf> {
    if path.extension().is_none_or(|extension| extension != "xz") {
        return Some(path.to_path_buf());
    }
    let output = Command::new("xz").arg("-dc").arg(path).output().ok()?;
    let plain = folder.join("unpacked.pcap");
    fs::write(&plain, output.stdout).ok()?;
    Some(plain)
}

fn captures() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in [
        root.join("testdata/pcap"),
        root.join("../shared/corpus/fetched/pcap"),
        root.join("../../shared/corpus/fetched/pcap"),
    ] {
        let mut folders = vec![folder];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                if entry.path().is_dir() {
                    folders.push(entry.path())
                } else {
                    found.push(entry.path())
                }
            }
        }
    }
    found.retain(|path| path.to_string_lossy().contains(".pcap"));
    // The folder may be reached in both ways.
    let mut known = BTreeSet::new();
    found.retain(|path| known.insert(path.canonicalize().unwrap_or_else(|_| path.clone())));
    found.sort();
    found
}

/// Compares what is decoded of the messages that both have and we find well formed.
fn compare_decoded(
    ours: &[Seen],
    theirs: &[Seen],
    found: &Bag,
    name: &str,
    wrong: &mut Vec<String>,
    same: &mut usize,
) {
    let malformed: BTreeSet<&str> = ours
        .iter()
        .filter(|seen| seen.decoded.is_none())
        .map(|seen| &*seen.key)
        .collect();
    let is_of_both = |seen: &&Seen| found[&seen.key] == 0 && !malformed.contains(&*seen.key);
    let mut bag = Bag::new();
    for (list, sign) in [(ours, 1), (theirs, -1)] {
        for seen in list.iter().filter(is_of_both) {
            let row = format!(
                "{}: {}",
                seen.key,
                seen.decoded.as_deref().unwrap_or_default()
            );
            *bag.entry(row).or_default() += sign;
        }
    }
    *same += ours.iter().filter(is_of_both).count();
    bag.retain(|_, n| *n != 0);
    let rows: Vec<_> = bag
        .iter()
        .take(14)
        .map(|(row, n)| format!("{n:+} {row:.400}"))
        .collect();
    if !rows.is_empty() {
        wrong.push(format!(
            "{name}: decoded otherwise:\n    {}",
            rows.join("\n    ")
        ));
    }
}

#[test]
fn finds_the_messages_that_tshark_finds() {
    if Command::new("tshark").arg("--version").output().is_err() {
        println!("skipped: tshark is not installed");
        return;
    }
    let files = captures();
    let (mut wrong, mut decoded) = (Vec::new(), 0);
    let folder = tempfile::tempdir().expect("a folder for unpacked captures");
    for path in &files {
        let name = path
            .components()
            .rev()
            .take(2)
            .map(|c| c.as_os_str().to_string_lossy())
            .collect::<Vec<_>>();
        let name = format!("{}/{}", name[1], name[0]);
        let Some(path) = unpacked(path, folder.path()) else {
            println!("skipped: {name} cannot be unpacked without xz");
            continue;
        };
        let (ours, counters) = ours(&path, &name);
        let theirs = theirs(&path).expect("tshark reads the capture");
        let mut bag = Bag::new();
        for row in &ours {
            *bag.entry(row.key.clone()).or_default() += 1;
        }
        for row in &theirs {
            *bag.entry(row.key.clone()).or_default() -= 1;
        }
        compare_decoded(&ours, &theirs, &bag, &name, &mut wrong, &mut decoded);
        let only_ours: usize = bag
            .values()
            .filter(|n| **n > 0)
            .map(|n| n.unsigned_abs())
            .sum();
        let only_theirs: usize = bag
            .values()
            .filter(|n| **n < 0)
            .map(|n| n.unsigned_abs())
            .sum();
        let seen = (ours.len(), theirs.len(), only_ours, only_theirs);
        let known = DIFFERENCES.iter().find(|row| row.file == name);
        assert!(
            known.is_none_or(|row| !row.reason.is_empty()),
            "{name}: a difference without a reason"
        );
        let want = known.map_or((theirs.len(), theirs.len(), 0, 0), |r| {
            (r.ours, r.theirs, r.only_ours, r.only_theirs)
        });
        if seen != want {
            bag.retain(|_, n| *n != 0);
            let rows: Vec<_> = bag
                .iter()
                .take(14)
                .map(|(row, n)| format!("{n:+} {row:.90}"))
                .collect();
            wrong.push(format!("{name}: (ours, tshark's, only ours, only tshark's) {seen:?}, expected {want:?}\n    {rows:?}\n    {counters}"));
        }
    }
    println!(
        "{} captures compared, {} with a difference explained; {decoded} messages decoded the same",
        files.len(),
        DIFFERENCES.len()
    );
    assert!(
        wrong.is_empty(),
        "{} captures differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
