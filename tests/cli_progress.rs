//! Progress of `tapflow convert` on a terminal (a pseudo-terminal here), and captures that are compressed.

mod cli_support;

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Child, Stdio};

use cli_support::{Ran, files, tapflow, testdata};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Both ends of a terminal: what is written on the second is read from the first.
fn terminal() -> (File, File) {
    let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&user).unwrap();
    unlockpt(&user).unwrap();
    let name = ptsname(&user, Vec::new()).unwrap();
    let name = Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
    let program = OpenOptions::new()
        .read(true)
        .write(true)
        .open(name)
        .unwrap();
    (File::from(user), program)
}

/// Reads what the terminal shows until it shows `wanted`, or to the end of the program's.
fn shown(terminal: &mut File, wanted: &str) -> String {
    let (mut text, mut piece) = (String::new(), [0; 4096]);
    while !text.contains(wanted) {
        match terminal.read(&mut piece) {
            Ok(0) => break,
            Ok(len) => text.push_str(&String::from_utf8_lossy(&piece[..len])),
            // The program's end is closed.
            Err(error) if error.raw_os_error() == Some(5) => break,
            Err(error) => panic!("{error}"),
        }
    }
    text
}

/// Runs `convert` with a terminal for standard error, which no process but that holds open.
fn on_a_terminal(args: &[&str], from: &str, to: &Path) -> (Child, File) {
    let (user, program) = terminal();
    let size = Winsize {
        ws_row: 24,
        ws_col: 120,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&program, size).unwrap();
    let child = tapflow(["convert"])
        .args(args)
        .args([Path::new(from), to])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stderr(program)
        .spawn()
        .unwrap();
    (child, user)
}

#[test]
fn a_capture_that_still_comes_in_shows_how_much_came() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.fstrm.zst");
    let capture = fs::read(testdata("pcap/mixed-dns.pcap")).unwrap();
    let (mut child, mut user) = on_a_terminal(&[], "-", &out);
    let mut stdin = child.stdin.take().unwrap();
    // Half of it, and no end: the line has to be there while the program waits for more.
    let (half, rest) = capture.split_at(capture.len() / 2);
    stdin.write_all(half).unwrap();
    let line = shown(&mut user, "KiB");
    assert!(
        line.contains("converting") && line.contains("KiB"),
        "{line:?}"
    );
    stdin.write_all(rest).unwrap();
    drop(stdin);
    let end = shown(&mut user, "\0");
    // 3: some of its datagrams lack a fragment, or are no messages.
    assert!(matches!(child.wait().unwrap().code(), Some(0 | 3)), "{end}");
    // The line is taken away, and the report stands in its place.
    assert!(
        end.contains("\u{1b}[2K") && end.contains("queries"),
        "{end:?}"
    );
    assert!(out.metadata().unwrap().len() > 1000);
}

#[test]
fn a_file_shows_how_much_of_it_is_done_and_how_long_it_will_take() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.fstrm.zst");
    // So much that it is not done before the line is drawn.
    let capture = fs::read(testdata("pcap/mixed-dns.pcap")).unwrap();
    let long = folder.path().join("live.pcap");
    let mut file = File::create(&long).unwrap();
    file.write_all(&capture).unwrap();
    for _ in 0..20 {
        // Without the header that a classic capture begins with.
        file.write_all(&capture[24..]).unwrap();
    }
    drop(file);
    let (mut child, mut user) = on_a_terminal(&[], long.to_str().unwrap(), &out);
    let text = shown(&mut user, "\0");
    assert!(
        matches!(child.wait().unwrap().code(), Some(0 | 3)),
        "{text}"
    );
    for wanted in ["converting", " of 39.", "left", "=>"] {
        assert!(text.contains(wanted), "{wanted} in {text:?}");
    }
}

#[test]
fn there_is_no_progress_with_quiet_nor_where_no_terminal_is() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.fstrm.zst");
    let capture = testdata("pcap/knot.pcap");
    let (mut child, mut user) = on_a_terminal(&["--quiet"], capture.to_str().unwrap(), &out);
    let text = shown(&mut user, "\0");
    assert!(child.wait().unwrap().success());
    assert_eq!(text, "");
    let ran = Ran::of(
        &tapflow(["convert"])
            .args([&capture, &out])
            .output()
            .unwrap(),
    );
    assert!(!ran.err.contains("converting"), "{ran:?}");
}

#[test]
fn compressed_captures_are_read_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let converted = |capture: &Path| {
        let out = folder.path().join("out.fstrm");
        let ran = Ran::of(
            &tapflow(["convert", "--report", "json"])
                .args([capture, &out])
                .output()
                .unwrap(),
        );
        assert!(matches!(ran.code, Some(0 | 3)), "{ran:?}");
        fs::read(out).unwrap()
    };
    for capture in files("pcap") {
        let octets = fs::read(&capture).unwrap();
        let gzip = folder.path().join("capture.pcap.gz");
        let level = flate2::Compression::fast();
        let mut encoder = flate2::write::GzEncoder::new(File::create(&gzip).unwrap(), level);
        encoder.write_all(&octets).unwrap();
        encoder.finish().unwrap();
        // The octets say what it is, whatever the name.
        let zstd = folder.path().join("capture");
        fs::write(&zstd, zstd::encode_all(&octets[..], 1).unwrap()).unwrap();
        let plain = converted(&capture);
        assert!(plain.len() > 1000);
        assert!(converted(&gzip) == plain, "{}", capture.display());
        assert!(converted(&zstd) == plain, "{}", capture.display());
    }
}
