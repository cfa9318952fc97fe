//! The way down, of the real program: in time, complete, and honest.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::frames::{self, ACCEPT, DNSTAP, FINISH, Numbered, control, part_all};
use crate::support::program::{Program, Started};
use crate::support::{PATIENCE, eventually_blocking, files_in};

/// A bidirectional sender, on a thread.
fn connect(program: &Started) -> UnixStream {
    let mut stream = UnixStream::connect(program.path("in.sock")).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(&frames::ready()).expect("READY");
    let mut accept = vec![0; control(ACCEPT, &[DNSTAP]).len()];
    stream.read_exact(&mut accept).expect("ACCEPT");
    stream.write_all(&frames::start()).expect("START");
    stream
}

/// What comes until the close.
fn rest(mut stream: UnixStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

/// Listens on the Unix socket in.sock, writes plain files.
const TO_FILES: &str = r#"
[[listener]]
uri = "unix:{folder}/in.sock"
[[output]]
type = "file"
path = "{folder}/frames"
compress = "off"
"#;

/// Forwards to a socket that nobody reads, and waits for it.
const TO_NOWHERE: &str = r#"
shutdown_timeout = "TIMEOUT"
[[listener]]
uri = "unix:{folder}/in.sock"
[[output]]
type = "dnstap"
to = "unix:{folder}/next.sock"
queue_bytes = "1MiB"
"#;

/// The frames in the complete files of this folder; there are no other files.
fn frames_in_files(program_folder: &std::path::Path) -> Vec<Vec<Vec<u8>>> {
    let folder = program_folder.join("frames");
    let files = files_in(&folder, ".fstrm");
    assert_eq!(files, files_in(&folder, ""), "only complete files are left");
    let part = |path: &std::path::PathBuf| {
        let parted = part_all(&std::fs::read(path).expect("a file"));
        assert_eq!(
            parted.controls,
            [frames::START, frames::STOP],
            "{}",
            path.display()
        );
        parted.payloads
    };
    files.iter().map(part).collect()
}

/// B029: SIGTERM under full load: every sender gets FINISH, every frame that was received is in a complete file, exit 0.
#[test]
fn a_stop_under_full_load_is_in_time_and_loses_nothing() {
    let mut program = Program::new().config(TO_FILES).start();
    let (loaded, began) = (AtomicBool::new(false), std::cell::Cell::new(Instant::now()));
    let run = Numbered::new().run(0..500);
    std::thread::scope(|scope| {
        let senders: Vec<_> = (0..4)
            .map(|_| {
                let mut stream = connect(&program);
                scope.spawn(|| {
                    let mut stream_rest = stream.try_clone().expect("a handle");
                    while stream.write_all(&run).is_ok() {
                        loaded.store(true, Ordering::Relaxed);
                    }
                    let mut answer = Vec::new();
                    let _ = stream_rest.read_to_end(&mut answer);
                    drop(stream);
                    answer
                })
            })
            .collect();
        program.wait_ledger("load", |l| {
            l["received"].as_u64() > Some(20_000) && loaded.load(Ordering::Relaxed)
        });
        began.set(Instant::now());
        program.signal(Signal::TERM);
        for sender in senders {
            assert_eq!(
                sender.join().expect("a sender"),
                control(FINISH, &[]),
                "each open sender gets FINISH"
            );
        }
        eventually_blocking(|| "the end".to_owned(), || program.ended());
    });
    let took = began.get().elapsed();
    println!("stopped after {took:?} under full load");
    assert!(
        took < Duration::from_secs(10),
        "shutdown_timeout is 10 s: {took:?}"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let frames_folder = folder.path().join("frames");
    std::fs::rename(program.path("frames"), &frames_folder).expect("the files are there");
    let (code, ledger, _) = program.end();
    assert_eq!(
        (code, ledger["closes"].as_bool()),
        (Some(0), Some(true)),
        "{ledger}"
    );
    let written: usize = frames_in_files(folder.path()).iter().map(Vec::len).sum();
    assert_eq!(
        (
            ledger["received"].as_u64(),
            ledger["outputs"][0]["delivered"].as_u64()
        ),
        (Some(written as u64), Some(written as u64)),
        "{ledger}"
    );
}

/// The deadline of a stop is kept, what is left is counted, and the exit code tells.
#[test]
fn what_cannot_be_delivered_in_time_is_counted_and_the_exit_code_says_so() {
    let program = Program::new()
        .config(&TO_NOWHERE.replace("TIMEOUT", "1s"))
        .start();
    let mut stream = connect(&program);
    stream
        .write_all(&Numbered::new().run(0..1000))
        .expect("frames");
    program.wait_ledger("1000 in flight", |l| {
        l["outputs"][0]["in_flight"].as_u64() == Some(1000)
    });
    let began = Instant::now();
    program.signal(Signal::TERM);
    assert_eq!(
        rest(stream),
        control(FINISH, &[]),
        "an open sender gets FINISH"
    );
    let (code, ledger, lines) = program.end();
    let took = began.elapsed();
    assert!(
        (Duration::from_millis(900)..Duration::from_secs(8)).contains(&took),
        "shutdown_timeout is 1 s: {took:?}"
    );
    assert_eq!(code, Some(3), "{lines:#?}");
    assert_eq!(
        (
            ledger["closes"].as_bool(),
            ledger["outputs"][0]["dropped"]["shutdown"].as_u64()
        ),
        (Some(true), Some(1000)),
        "{ledger}"
    );
    assert_eq!(
        ledger["outputs"][0]["in_flight"].as_u64(),
        Some(0),
        "{ledger}"
    );
}

/// Ready while it serves, not ready while it drains, alive all the time; a second signal ends at once and says the cost.
#[test]
fn while_draining_it_is_alive_but_not_ready_and_a_second_signal_ends_it_at_once() {
    let program = Program::new();
    // Listens and never reads.
    let next = UnixListener::bind(program.path("next.sock")).expect("a socket");
    let program = program
        .config(&TO_NOWHERE.replace("TIMEOUT", "10m"))
        .start();
    assert_eq!(program.get("/readyz").expect("a page").0, 200);
    assert_eq!(
        program.get("/healthz").expect("a page"),
        (200, "ok\n".to_owned())
    );
    let mut stream = connect(&program);
    stream
        .write_all(&Numbered::new().run(0..1000))
        .expect("frames");
    program.wait_ledger("1000 in flight", |l| {
        l["outputs"][0]["in_flight"].as_u64() == Some(1000)
    });
    program.signal(Signal::TERM);
    eventually_blocking(
        || "not ready".to_owned(),
        || (program.get("/readyz").ok()?.0 == 503).then_some(()),
    );
    assert_eq!(program.get("/healthz").expect("a page").0, 200);
    assert_eq!(rest(stream), control(FINISH, &[]));
    let refused = || UnixStream::connect(program.path("in.sock")).is_err();
    eventually_blocking(
        || "no new connections".to_owned(),
        || refused().then_some(()),
    );
    assert_eq!(program.ledger()["closes"].as_bool(), Some(true));
    let began = Instant::now();
    program.signal(Signal::INT);
    let (code, ledger, lines) = program.end();
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "at once: {:?}",
        began.elapsed()
    );
    assert_eq!(code, Some(3));
    assert_eq!(
        (
            ledger["closes"].as_bool(),
            ledger["outputs"][0]["dropped"]["shutdown"].as_u64()
        ),
        (Some(true), Some(1000)),
        "{ledger}"
    );
    assert!(
        lines
            .iter()
            .any(|l| l.contains("1000") && l.contains("on their way")),
        "it says what that cost: {lines:#?}"
    );
    drop(next);
}

/// B128: SIGUSR1 begins new files; every frame is in exactly one complete file.
#[test]
fn sigusr1_begins_a_new_file_and_every_frame_is_in_exactly_one() {
    let program = Program::new().config(TO_FILES).start();
    let numbered = Numbered::new();
    let mut stream = connect(&program);
    for n in 1..=3u64 {
        stream
            .write_all(&numbered.run((n - 1) * 100..n * 100))
            .expect("frames");
        program.wait_ledger("written", |l| {
            l["outputs"][0]["delivered"].as_u64() == Some(n * 100)
        });
        if n < 3 {
            program.signal(Signal::USR1);
            let complete = || files_in(&program.path("frames"), ".fstrm").len() as u64;
            eventually_blocking(
                || format!("{n} complete files, {} now", complete()),
                || (complete() == n).then_some(()),
            );
        }
    }
    stream.write_all(&frames::stop()).expect("STOP");
    assert_eq!(rest(stream), control(FINISH, &[]));
    let folder = tempfile::tempdir().expect("a folder");
    program.signal(Signal::TERM);
    program.wait_line("stopped");
    std::fs::rename(program.path("frames"), folder.path().join("frames"))
        .expect("the files are there");
    let (code, ledger, _) = program.end();
    assert_eq!(
        (
            code,
            ledger["received"].as_u64(),
            ledger["closes"].as_bool()
        ),
        (Some(0), Some(300), Some(true))
    );
    let files = frames_in_files(folder.path());
    assert_eq!(
        files.iter().map(Vec::len).collect::<Vec<_>>(),
        [100, 100, 100]
    );
    let numbers = files.iter().flatten().map(|p| numbered.number(p));
    assert!(numbers.eq(0..300));
}

/// B030, B037: after a restart the socket is there again, with its mode, and senders that retry are taken.
#[test]
fn after_a_restart_senders_are_taken_back_and_the_socket_is_made_again() {
    let program = Program::new();
    let socket = program.path("in.sock");
    let toml = TO_FILES.replace("uri =", "socket_mode = \"0622\"\nuri =");
    let first = program.config(&toml).start();
    let stream = connect(&first);
    first.signal(Signal::KILL);
    assert!(rest(stream).is_empty());
    let folder = first.folder.path().to_owned();
    assert!(socket.exists(), "a killed process leaves its socket");
    // The same place once more; the first one's folder lives as long as `first`.
    let again = Program::new()
        .arg("--listen")
        .arg(format!("unix:{}", socket.display()))
        .arg("--output")
        .arg("null:")
        .start();
    let mut stream = UnixStream::connect(&socket).expect("the sender comes back");
    stream
        .write_all(&[frames::start(), Numbered::new().run(0..5), frames::stop()].concat())
        .expect("frames");
    again.wait_ledger("5 received", |l| l["received"].as_u64() == Some(5));
    assert_eq!(again.terminate().0, Some(0));
    assert!(!socket.exists(), "a stop takes its socket away");
    drop(folder);
}
