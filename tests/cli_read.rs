//! `tapflow read` as a program.

mod cli_support;

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use cli_support::{Ran, capture, files, first, run, start, stop, tapflow, testdata};
use rustix::process::{Pid, Signal, kill_process};
use tapflow::fstrm::{Codec, Compressor};

/// golang-dnstap makes up a class and a type for a question that ends after its name (corpus t06); the one difference that
/// tests/format_quiet.rs finds on captures.
fn is_known(ours: &str, theirs: &str) -> bool {
    let head = theirs
        .strip_suffix("CLASS0 None")
        .and_then(|theirs| theirs.split_once(" \""))
        .map(|(head, _)| head);
    head.is_some() && head == ours.strip_suffix(" X ")
}

#[test]
fn text_of_every_capture_is_that_of_golang_dnstap() {
    for file in files("captures") {
        let golang = Command::new("dnstap")
            .args(["-q", "-r"])
            .arg(&file)
            .env("TZ", "UTC")
            .output();
        let Ok(golang) = golang else {
            println!("skipped: there is no dnstap program (golang-dnstap) here");
            return;
        };
        let theirs = String::from_utf8(golang.stdout).unwrap();
        let ours = run([Path::new("read"), Path::new("--utc"), &file]);
        assert_eq!(
            (ours.code, ours.err.as_str()),
            (Some(0), ""),
            "{}",
            file.display()
        );
        let (ours, theirs): (Vec<_>, Vec<_>) =
            (ours.out.lines().collect(), theirs.lines().collect());
        assert_eq!(ours.len(), theirs.len(), "{}", file.display());
        for (ours, theirs) in ours.iter().zip(theirs) {
            assert!(
                *ours == theirs || is_known(ours, theirs),
                "{ours}\n{theirs}"
            );
        }
    }
}

#[test]
fn records_and_errors_are_all_frames_of_every_corpus_file_and_nothing_panics() {
    let mut seen = 0;
    for folder in [
        "corpus/framing",
        "corpus/payload-fstrm",
        "corpus/dns-fstrm",
        "captures",
        "pcap",
    ] {
        for file in files(folder) {
            for format in ["text", "json"] {
                let args = ["read", "--report", "json", "--format", format];
                let ran = Ran::of(&tapflow(args).arg(&file).output().unwrap());
                let what = format!("{} {format}: {ran:?}", file.display());
                let report = ran.report();
                let n = |key: &str| report[key].as_u64().unwrap();
                let errors = report["errors"].as_object().unwrap();
                let errors: u64 = errors.values().map(|n| n.as_u64().unwrap()).sum();
                assert_eq!(n("records") + errors, n("frames"), "{what}");
                assert_eq!(ran.out.lines().count() as u64, n("records"), "{what}");
                let lossy =
                    errors > 0 || report["damage"].as_array().is_some_and(|d| !d.is_empty());
                match ran.code {
                    Some(0) => assert!(!lossy, "{what}"),
                    Some(1) => assert!(n("frames") == 0 && ran.err.lines().count() > 1, "{what}"),
                    // A capture may have lost packets.
                    Some(3) => assert!(lossy || folder == "pcap", "{what}"),
                    other => panic!("{other:?}: {what}"),
                }
                seen += 1;
            }
        }
    }
    assert!(seen > 300, "{seen}");
}

#[test]
fn odd_files_are_named_and_have_their_exit_code() {
    for (file, code, frames, want) in [
        ("f04-start-wrong-type", 1, 0, "protobuf:other.Thing"),
        ("f12-unknown-control", 0, 2, ""),
        ("f17-data-after-stop", 0, 1, "after_stop\":1"),
        (
            "f20-cut-in-length",
            3,
            1,
            "cut within the frame that begins at byte 140",
        ),
        ("f21-cut-in-payload", 3, 1, "cut within the frame"),
        ("f24-empty-file", 1, 0, "is empty"),
        ("f25-length-max", 3, 1, "impossible length"),
        ("f32-tls-hello", 1, 0, "TLS"),
        ("f33-http-get", 1, 0, "HTTP"),
        ("f34-two-octet-length", 1, 0, "PowerDNS"),
        ("f35-syslog", 1, 0, "syslog"),
        ("f40-handshake-client", 0, 2, ""),
        ("f46-gzip", 1, 0, "gzip"),
    ] {
        let path = testdata(&format!("corpus/framing/{file}.fstrm"));
        let args = ["read", "--report", "json", path.to_str().unwrap()];
        let ran = run(args);
        assert_eq!(ran.code, Some(code), "{file}: {ran:?}");
        assert_eq!(ran.report()["frames"], frames, "{file}: {ran:?}");
        assert!(ran.err.contains(want), "{file}: {ran:?}");
    }
    for (name, bytes, want) in [
        (
            "a.xz",
            &b"\xfd7zXZ\0\0\0\0\0\0\0\0"[..],
            "compressed with xz",
        ),
        (
            "a.gz",
            &[
                0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            ][..],
            "a.gz",
        ),
        ("none", b"", "is empty"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        let ran = run([Path::new("read"), &path]);
        assert_eq!(
            (ran.code, ran.err.contains(want)),
            (Some(1), true),
            "{name}: {ran:?}"
        );
    }
    let ran = run(["read", "/nowhere/at.all"]);
    assert!(
        ran.code == Some(1) && ran.err.contains("/nowhere/at.all: there is no such file"),
        "{ran:?}"
    );
}

#[test]
fn several_files_standard_input_and_joined_streams_are_read_in_order() {
    let (run_a, a) = capture("kdig.fstrm");
    let (run_b, _) = capture("knot.fstrm");
    let joined = [
        start(),
        run_a,
        stop(),
        start(),
        first(&run_b, 5).to_vec(),
        stop(),
    ]
    .concat();
    let mut child = tapflow(["read", "--report", "json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || stdin.write_all(&joined).unwrap());
    let ran = Ran::of(&child.wait_with_output().unwrap());
    feeder.join().unwrap();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.out.lines().count(), a + 5);

    let folder = tempfile::tempdir().unwrap();
    for (name, n) in [("x-2.fstrm.part", 2), ("x-1.fstrm", 3), ("x-3.txt", 1)] {
        let bytes = [
            start(),
            first(&run_b, n).to_vec(),
            if n == 2 { vec![0; 3] } else { stop() },
        ];
        fs::write(folder.path().join(name), bytes.concat()).unwrap();
    }
    let json = run([
        Path::new("read"),
        Path::new("--format"),
        Path::new("json"),
        folder.path(),
    ]);
    assert_eq!(
        (json.code, json.err.as_str()),
        (Some(0), ""),
        "what is being written may end anywhere"
    );
    let names: Vec<_> = json
        .out
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|record| {
            record["source"]["peer"]
                .as_str()
                .unwrap()
                .rsplit('/')
                .next()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(
        names,
        [vec!["x-1.fstrm"; 3], vec!["x-2.fstrm.part"; 2]].concat()
    );
}

#[test]
fn limit_and_filter_choose_records() {
    let file = testdata("captures/unbound.fstrm");
    let all = run([Path::new("read"), &file]).out;
    let count = |part: &str| all.lines().filter(|line| line.contains(part)).count();
    let line = |args: &[&str]| {
        let mut command = tapflow(["read", "--report", "json"]);
        Ran::of(&command.args(args).arg(&file).output().unwrap())
    };
    for (args, want) in [
        (&["--limit", "7"][..], 7),
        (&["--limit", "0"], 0),
        (&["--filter", "type=CLIENT_QUERY"], count(" CQ ")),
        (
            &["--filter", "!type=CLIENT_QUERY,client_response"],
            all.lines().count() - count(" CQ ") - count(" CR "),
        ),
        (&["--filter", "qtype=AAAA"], count(" IN AAAA")),
        (
            &["--filter", "qname=rig.example"],
            all.lines()
                .filter(|l| l.to_lowercase().contains("rig.example.\""))
                .count(),
        ),
        (
            &[
                "--filter",
                "type=CLIENT_QUERY",
                "--filter",
                "net=127.0.0.0/8",
                "--limit",
                "3",
            ],
            3,
        ),
        (&["--filter", "net=203.0.113.0/24"], 0),
        (
            &[
                "--filter",
                "type == CLIENT_QUERY or qtype == AAAA and not type ~ /^client/",
            ],
            all.lines()
                .filter(|l| l.contains(" CQ ") || l.contains(" IN AAAA") && !l.contains(" CR "))
                .count(),
        ),
        (
            &[
                "--filter",
                "!type=CLIENT_QUERY",
                "--filter",
                "qname within rig.example && qtype==AAAA",
            ],
            all.lines()
                .filter(|l| {
                    !l.contains(" CQ ") && l.to_lowercase().contains("rig.example.\" in aaaa")
                })
                .count(),
        ),
    ] {
        let ran = line(args);
        assert_eq!(
            (ran.code, ran.out.lines().count()),
            (Some(0), want),
            "{args:?} {}",
            ran.err
        );
        let report = ran.report();
        assert_eq!(report["frames"], report["records"], "{args:?}");
        let shown = report["records"].as_u64().unwrap() - report["filtered"].as_u64().unwrap();
        assert_eq!(shown, want as u64, "{args:?}");
    }
    assert_eq!(
        line(&["--limit", "7"]).out,
        all.split_inclusive('\n').take(7).collect::<String>()
    );
    // A frame that is no record is an error, whatever the filter says.
    let bad = testdata("corpus/payload-fstrm/p43-random.fstrm");
    let ran = run([
        "read",
        "--report",
        "json",
        "--filter",
        "!type=TOOL_QUERY",
        bad.to_str().unwrap(),
    ]);
    assert_eq!(
        (ran.code, &ran.report()["records"]),
        (Some(3), &2.into()),
        "{ran:?}"
    );
    for (term, want) in [
        ("qnam=x", "did you mean qname?"),
        ("qtype=NOPE", "NOPE"),
        ("x", "KEY=VALUE"),
        (
            "qtype == A and (tc or rcod == NXDOMAIN)",
            "column 23: there is no field \"rcod\"; did you mean rcode?\n  \
             qtype == A and (tc or rcod == NXDOMAIN)\n                        ^^^^\n",
        ),
        ("qtype == ", "a value is missing"),
    ] {
        let ran = line(&["--filter", term]);
        assert!(ran.code == Some(2) && ran.err.contains(want), "{ran:?}");
    }
}

#[test]
fn compressed_payloads_are_unpacked_and_a_broken_one_costs_one_frame() {
    let (frames, n) = capture("kdig.fstrm");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packed.fstrm");
    for codec in Codec::ALL {
        let mut compressor = Compressor::new(codec);
        let mut packed = start();
        compressor.bulk(&frames, &mut packed).unwrap();
        compressor.each(first(&frames, 3), &mut packed).unwrap();
        packed.extend_from_slice(first(&frames, 2));
        packed.extend_from_slice(&[0, 0, 0, 7, 0x28, 0xb5, 0x2f, 0xfd, 1, 2, 3]);
        packed.extend_from_slice(&stop());
        fs::write(&path, packed).unwrap();
        let ran = run(["read", "--report", "json", path.to_str().unwrap()]);
        assert_eq!(ran.code, Some(3), "{codec}: {ran:?}");
        assert_eq!(ran.report()["records"], n + 5, "{codec}");
        assert_eq!(ran.report()["frames"], n + 6, "{codec}");
    }
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let file = testdata("captures/bind9.fstrm");
    let mut child = tapflow([Path::new("read"), &file, &file, &file])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let mut err = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut err)
        .unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""));
}

/// `read --follow` being watched.
struct Following {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Following {
    fn of(path: &Path) -> Self {
        let mut child = tapflow(["read", "--follow", "--report", "json"])
            .arg(path)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// Waits for as many lines.
    fn lines(&mut self, n: usize) {
        let mut line = String::new();
        for i in 0..n {
            assert!(
                self.out.read_line(&mut line).unwrap() > 0,
                "line {i} of {n}"
            );
        }
    }

    /// Interrupts it, and gives its report and what it had printed beyond.
    fn stop(mut self) -> (Ran, String) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        (Ran::of(&self.child.wait_with_output().unwrap()), rest)
    }
}

#[test]
fn a_growing_file_is_followed_to_its_successor() {
    let (frames, _) = capture("knot.fstrm");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("live.fstrm");
    let mut file = File::create(&path).unwrap();
    let mut following = {
        file.write_all(&start()).unwrap();
        file.write_all(first(&frames, 4)).unwrap();
        Following::of(&path)
    };
    following.lines(4);
    // Half a frame first, then the rest of it.
    let next = &frames[first(&frames, 4).len()..];
    let (half, rest) = first(next, 2).split_at(30);
    file.write_all(half).unwrap();
    file.write_all(rest).unwrap();
    following.lines(2);
    // Renamed as logrotate does, a last frame to the old file, then the new one.
    fs::rename(&path, folder.path().join("live.fstrm.1")).unwrap();
    file.write_all(first(&frames, 1)).unwrap();
    file.write_all(&stop()).unwrap();
    let mut file = File::create(&path).unwrap();
    file.write_all(&start()).unwrap();
    file.write_all(first(&frames, 3)).unwrap();
    following.lines(4);
    // Cut short and written anew, in place.
    drop(file);
    let mut file = OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(&path)
        .unwrap();
    file.write_all(&start()).unwrap();
    file.write_all(first(&frames, 1)).unwrap();
    following.lines(1);
    let (ran, rest) = following.stop();
    assert_eq!((ran.code, rest.as_str()), (Some(0), ""), "{ran:?}");
    assert_eq!(ran.report()["records"], 11);
}

#[test]
fn the_files_of_an_output_are_followed_through_rotation() {
    let (frames, _) = capture("knot.fstrm");
    let folder = tempfile::tempdir().unwrap();
    let name = |n: u32| {
        folder
            .path()
            .join(format!("tapflow-20260102T030405Z-{n:04}.fstrm"))
    };
    let part = |n: u32| name(n).with_extension("fstrm.part");
    let begin = |n: u32, count: usize| {
        let mut file = File::create(part(n)).unwrap();
        file.write_all(&[start(), first(&frames, count).to_vec()].concat())
            .unwrap();
        file
    };
    let end = |n: u32, mut file: File| {
        file.write_all(&stop()).unwrap();
        fs::rename(part(n), name(n)).unwrap();
    };
    end(1, begin(1, 3));
    let file = begin(2, 2);
    let mut following = Following::of(folder.path());
    following.lines(5);
    end(2, file);
    // The closed file is compressed, and the next one begun.
    let packed = Ran::of(
        &tapflow(["convert", "--quiet"])
            .arg(name(2))
            .arg(name(2).with_extension("fstrm.zst"))
            .output()
            .unwrap(),
    );
    assert_eq!(packed.code, Some(0), "{packed:?}");
    fs::remove_file(name(2)).unwrap();
    let mut file = begin(3, 4);
    following.lines(4);
    file.write_all(first(&frames, 1)).unwrap();
    following.lines(1);
    // A file that never got its STOP, because its writer was killed, does not stand in the way of the next.
    drop(file);
    let file = begin(4, 2);
    following.lines(2);
    end(4, file);
    let (ran, rest) = following.stop();
    assert_eq!((ran.code, rest.as_str()), (Some(0), ""), "{ran:?}");
    assert_eq!(ran.report()["records"], 12);
}

#[test]
fn fields_are_columns_and_a_template_is_a_line() {
    let file = testdata("captures/kdig.fstrm");
    let file = file.to_str().unwrap();
    let args = ["read", "--limit", "1", "--format"];
    let ran = run(args
        .into_iter()
        .chain(["csv", "--fields", "type,qname,qtype", file]));
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines[0], "type,qname,qtype");
    let values: Vec<&str> = lines[1].split(',').collect();
    assert!(
        lines.len() == 2 && values[0].starts_with("TOOL_"),
        "{ran:?}"
    );
    let ran = run(args
        .into_iter()
        .chain(["{type} {qname} {qtype} {policy.type}", file]));
    assert_eq!(ran.out, format!("{} -\n", values.join(" ")));
}

#[test]
fn a_wrong_field_or_template_is_shown_at_its_place() {
    let file = testdata("captures/kdig.fstrm");
    let file = file.to_str().unwrap();
    for (args, wants) in [
        (
            &["--format", "{timestamp} {qnam}"][..],
            &[
                "there is no field \"qnam\"; did you mean qname?",
                "\n  {timestamp} {qnam}\n               ^^^^\n",
            ][..],
        ),
        (&["--format", "{qname}\n"], &["no line break"]),
        (
            &["--format", "csv", "--fields", "qname,qtipe"],
            &["\"qtipe\"", "did you mean qtype?", "tapflow fields"],
        ),
        (
            &["--fields", "qname"],
            &["text takes no choice of fields", "csv, tsv"],
        ),
        (&["--stats", "--fields", "qname"], &["--stats"]),
    ] {
        let ran = run(["read"].iter().chain(args).chain([&file]));
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:?}");
        for want in wants {
            assert!(ran.err.contains(want), "{want:?} is not in\n{}", ran.err);
        }
    }
}
