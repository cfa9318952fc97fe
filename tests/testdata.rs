//! The dnstap in `testdata/derived` is what `convert` makes of the captures in `testdata/pcap`.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn the_derived_dnstap_is_made_of_its_capture_by_convert() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let out = tempfile::tempdir().expect("a folder");
    for (capture, made) in [
        ("knot.pcap", "knot.fstrm"),
        ("unbound.pcapng", "unbound.fstrm"),
        ("nsd-fragments.pcapng", "nsd-fragments.fstrm"),
    ] {
        let again = out.path().join(made);
        let status = Command::new(env!("CARGO_BIN_EXE_tapflow"))
            .args(["convert", "--quiet"])
            .arg(folder.join("pcap").join(capture))
            .arg(&again)
            .status()
            .expect("tapflow convert");
        // 3: three datagrams of the Unbound capture lack a fragment.
        assert!(matches!(status.code(), Some(0 | 3)), "{capture}: {status}");
        let (want, got) = (
            fs::read(folder.join("derived").join(made)),
            fs::read(&again),
        );
        assert!(
            want.expect("the file in testdata") == got.expect("the file just made"),
            "{made}: make it again with tapflow convert testdata/pcap/{capture} testdata/derived/{made}"
        );
    }
}
