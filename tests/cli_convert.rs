//! `tapflow convert` as a program.

mod cli_support;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use cli_support::{Ran, capture, files, run, run_of, start, stop, tapflow, testdata};
use rustix::process::{Pid, Signal, kill_process};
use tapflow::dnstap::DnstapView;
use tapflow::fstrm::{Codec, Compressor, Frames};

fn convert(args: &[&str], from: &Path, to: &Path) -> Ran {
    let mut command = tapflow(["convert", "--report", "json"]);
    Ran::of(&command.args(args).arg(from).arg(to).output().unwrap())
}

#[test]
fn frames_survive_every_codec_there_and_back_octet_for_octet() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("back.fstrm");
    for name in ["bind9.fstrm", "dnsdist.fstrm", "kdig.fstrm"] {
        let (frames, n) = capture(name);
        for (ending, magic) in [
            ("fstrm", &[0, 0, 0, 0][..]),
            ("fstrm.gz", &[0x1f, 0x8b]),
            ("fstrm.zst", &[0x28, 0xb5, 0x2f, 0xfd]),
            ("fstrm.lz4", &[0x04, 0x22, 0x4d, 0x18]),
            ("fstrm.sz", b"\xff\x06\0\0sNaPpY"),
        ] {
            let packed = folder.path().join("packed").with_extension(ending);
            let ran = convert(&[], &testdata("captures").join(name), &packed);
            assert_eq!(
                (ran.code, &ran.report()["frames"]),
                (Some(0), &n.into()),
                "{ran:?}"
            );
            assert!(fs::read(&packed).unwrap().starts_with(magic), "{ending}");
            let ran = convert(&[], &packed, &plain);
            assert_eq!(ran.code, Some(0), "{ran:?}");
            assert!(
                run_of(&fs::read(&plain).unwrap()) == frames,
                "{name} through {ending}"
            );
        }
    }
    let names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(names.len(), 6, "nothing temporary is left: {names:?}");
}

#[test]
fn the_tools_of_the_formats_read_what_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let source = testdata("captures/knot.fstrm");
    let (frames, _) = capture("knot.fstrm");
    for (ending, tool) in [("gz", "gzip"), ("zst", "zstd"), ("lz4", "lz4")] {
        let packed = folder.path().join(format!("x.fstrm.{ending}"));
        assert_eq!(convert(&[], &source, &packed).code, Some(0));
        let Ok(output) = Command::new(tool).arg("-dc").arg(&packed).output() else {
            println!("skipped: there is no {tool} here");
            continue;
        };
        assert!(
            output.status.success() && run_of(&output.stdout) == frames,
            "{tool}"
        );
    }
}

#[test]
fn the_option_wins_over_the_name_and_standard_output_works() {
    let folder = tempfile::tempdir().unwrap();
    let (frames, _) = capture("kdig.fstrm");
    let source = testdata("captures/kdig.fstrm");
    let out = folder.path().join("x.gz");
    assert_eq!(convert(&["--compress", "off"], &source, &out).code, Some(0));
    assert!(run_of(&fs::read(&out).unwrap()) == frames);
    let output = tapflow(["convert"]).arg(&source).arg("-").output().unwrap();
    assert!(output.status.success() && run_of(&output.stdout) == frames);
    let mut piped = tapflow(["convert", "--compress", "zstd", "-", "-"]);
    let file = fs::File::open(&source).unwrap();
    let output = piped.stdin(Stdio::from(file)).output().unwrap();
    assert!(output.status.success() && output.stdout.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]));
}

#[test]
fn packed_payloads_come_out_plain_and_what_is_lost_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (frames, n) = capture("kdig.fstrm");
    let (source, out) = (
        folder.path().join("in.fstrm"),
        folder.path().join("out.fstrm"),
    );
    let mut packed = start();
    Compressor::new(Codec::Gzip)
        .bulk(&frames, &mut packed)
        .unwrap();
    packed.extend_from_slice(&[0, 0, 0, 5, 0x1f, 0x8b, 8, 0, 0]);
    packed.extend_from_slice(&stop());
    fs::write(&source, &packed).unwrap();
    let ran = convert(&[], &source, &out);
    assert_eq!(
        (ran.code, &ran.report()["frames"]),
        (Some(3), &(n + 1).into()),
        "{ran:?}"
    );
    assert!(run_of(&fs::read(&out).unwrap()) == frames);
    // Cut: what was whole is kept, and the result is whole.
    let whole = fs::read(testdata("captures/kdig.fstrm")).unwrap();
    fs::write(&source, &whole[..whole.len() - 20]).unwrap();
    let ran = convert(&[], &source, &out);
    assert!(
        ran.code == Some(3) && ran.err.contains("cut within the frame"),
        "{ran:?}"
    );
    assert_eq!(
        Frames::count_of(run_of(&fs::read(&out).unwrap())),
        Ok(n - 1)
    );
}

#[test]
fn a_failure_leaves_the_old_file_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.fstrm");
    fs::write(&out, b"as it was").unwrap();
    for file in [
        "f04-start-wrong-type",
        "f08-control-length-0",
        "f24-empty-file",
        "f33-http-get",
    ] {
        let ran = convert(
            &[],
            &testdata(&format!("corpus/framing/{file}.fstrm")),
            &out,
        );
        assert_eq!(ran.code, Some(1), "{file}: {ran:?}");
        assert_eq!(fs::read(&out).unwrap(), b"as it was", "{file}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let ran = convert(&[], &testdata("captures/kdig.fstrm"), folder.path());
    assert!(
        ran.code == Some(1) && ran.err.contains("is a folder"),
        "{ran:?}"
    );
    // A file may be converted onto itself.
    fs::copy(testdata("captures/kdig.fstrm"), &out).unwrap();
    assert_eq!(convert(&["--compress", "gzip"], &out, &out).code, Some(0));
    assert_eq!(convert(&["--compress", "off"], &out, &out).code, Some(0));
    assert!(run_of(&fs::read(&out).unwrap()) == capture("kdig.fstrm").0);
    // A device is written to, not replaced.
    let null = Path::new("/dev/null");
    assert_eq!(convert(&[], &out, null).code, Some(0));
    assert!(fs::metadata(null).unwrap().file_type().is_char_device());
}

#[test]
fn captures_become_records_that_read_shows_the_same_way() {
    let folder = tempfile::tempdir().unwrap();
    for file in files("pcap") {
        let name = file.file_name().unwrap().to_str().unwrap();
        let out = folder.path().join("out.fstrm.zst");
        let ran = convert(&[], &file, &out);
        let report = ran.report();
        let n = |key: &str| report[key].as_u64().unwrap();
        assert!(matches!(ran.code, Some(0 | 3)), "{ran:?}");
        assert_eq!(
            n("queries") + n("responses"),
            n("frames"),
            "{name}: {report}"
        );
        assert!(n("frames") > 8 && n("paired") > 0, "{name}: {report}");
        let (direct, through) = (
            run([Path::new("read"), &file]),
            run([Path::new("read"), &out]),
        );
        assert_eq!(direct.out, through.out, "{name}");
        assert_eq!(direct.out.lines().count() as u64, n("frames"), "{name}");
    }
}

#[test]
fn what_a_capture_does_not_say_is_said_by_options() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.fstrm");
    let pcap = testdata("pcap/mixed-dns.pcap");
    let kinds = [
        ("client", "CLIENT"),
        ("auth", "AUTH"),
        ("resolver", "RESOLVER"),
        ("forwarder", "FORWARDER"),
        ("stub", "STUB"),
        ("tool", "TOOL"),
        ("update", "UPDATE"),
    ];
    let mut counts = Vec::new();
    for (kind, want) in kinds {
        let port: &[&str] = if kind == "auth" {
            &["--port", "5300"]
        } else {
            &[]
        };
        let args = [
            &["--kind", kind, "--identity", "ns1", "--version", "v 2"],
            port,
        ]
        .concat();
        let ran = convert(&args, &pcap, &out);
        counts.push(ran.report()["frames"].as_u64().unwrap());
        let file = fs::read(&out).unwrap();
        let mut latencies = 0;
        for payload in Frames::new(run_of(&file)) {
            let view = DnstapView::parse(payload).unwrap();
            let message = view.classify().unwrap();
            assert!(
                message.message_type().name().unwrap().starts_with(want),
                "{kind}"
            );
            assert_eq!(
                (view.identity, view.version),
                (Some(&b"ns1"[..]), Some(&b"v 2"[..]))
            );
            assert!(message.query_ip().is_some() && message.response_port.is_some());
            latencies += usize::from(message.latency().is_some());
        }
        assert!(latencies > 100, "{kind}: responses carry both times");
    }
    assert_ne!(counts[0], counts[1], "another port, other messages");
    assert_eq!(counts[0], counts[2]);
}

#[test]
fn an_interrupted_conversion_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.fstrm.zst");
    let mut child = tapflow(["convert", "-"])
        .arg(&out)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&start()).unwrap();
    // The input stays open, so that it cannot end by itself. Signals are taken care of before the file is made.
    while fs::read_dir(folder.path()).unwrap().next().is_none() {
        assert_eq!(child.try_wait().unwrap(), None);
        std::thread::yield_now();
    }
    kill_process(
        Pid::from_raw(child.id().cast_signed()).unwrap(),
        Signal::INT,
    )
    .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn filters_choose_the_frames_that_are_written_and_all_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let file = testdata("captures/unbound.fstrm");
    let (frames, n) = capture("unbound.fstrm");
    let kept = folder.path().join("kept.fstrm");
    let rest = folder.path().join("rest.fstrm");
    let expression = "type == CLIENT_QUERY and qname within rig.example";
    let ran = convert(&["--filter", expression], &file, &kept);
    let report = ran.report();
    assert_eq!(
        (ran.code, &report["frames"]),
        (Some(0), &n.into()),
        "{ran:?}"
    );
    let not = format!("not ({expression})");
    let other = convert(&["--filter", &not], &file, &rest).report();
    let filtered = |report: &serde_json::Value| report["filtered"].as_u64().unwrap() as usize;
    assert_eq!(
        filtered(&report) + filtered(&other),
        n,
        "each frame is on one side"
    );
    let (kept, rest) = (fs::read(&kept).unwrap(), fs::read(&rest).unwrap());
    let (mut kept, mut rest) = (Frames::new(run_of(&kept)), Frames::new(run_of(&rest)));
    let (mut next_kept, mut next_rest) = (kept.next(), rest.next());
    let mut seen = 0;
    // Both files are the capture's frames, octet for octet and in order.
    for payload in Frames::new(&frames) {
        if next_kept == Some(payload) {
            next_kept = kept.next();
            seen += 1;
        } else {
            assert_eq!(next_rest, Some(payload));
            next_rest = rest.next();
        }
    }
    assert_eq!((next_kept, next_rest), (None, None));
    assert!(seen > 0 && seen == n - filtered(&report));
    // What is no record cannot be judged; two filters are both asked.
    let bad = testdata("corpus/payload-fstrm/p43-random.fstrm");
    let out = folder.path().join("none.fstrm");
    let args = [
        "--filter",
        "has type",
        "--filter",
        "!type=TOOL_QUERY,CLIENT_QUERY",
    ];
    let ran = convert(&args, &bad, &out);
    let report = ran.report();
    let errors = report["errors"].as_object().unwrap().values();
    let errors: u64 = errors.map(|n| n.as_u64().unwrap()).sum();
    assert_eq!((ran.code, errors > 0), (Some(3), true), "{ran:?}");
    assert_eq!(
        report["records"].as_u64().unwrap() + errors,
        report["frames"].as_u64().unwrap()
    );
    let args = ["convert", "--filter", "qnam == a", "a", "b"];
    let ran = run(args);
    assert!(
        ran.code == Some(2) && ran.err.contains("did you mean qname?"),
        "{ran:?}"
    );
    let ran = Ran::of(
        &tapflow(["convert", "--filter", expression])
            .args([&file, &out])
            .output()
            .unwrap(),
    );
    assert!(
        ran.err
            .contains(&format!("frames {n} ({} filtered out), errors 0", n - seen)),
        "{ran:?}"
    );
}
