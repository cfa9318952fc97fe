//! The dnstap in `testdata/pcap` is what `convert` makes of the captures beside it.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn the_dnstap_beside_a_capture_is_made_of_it_by_convert() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/pcap");
    let out = tempfile::tempdir().expect("a folder");
    for (capture, made) in [
        ("knot.pcap", "knot.fstrm"),
        ("unbound.pcapng", "unbound.fstrm"),
        ("nsd-fragments.pcapng", "nsd-fragments.fstrm"),
    ] {
        let again = out.path().join(made);
        let status = Command::new(env!("CARGO_BIN_EXE_tapflow"))
            .args(["convert", "--quiet"])
            .arg(folder.join(capture))
            .arg(&again)
            .status()
            .expect("tapflow convert");
        // 3: three datagrams of the Unbound capture lack a fragment.
        assert!(matches!(status.code(), Some(0 | 3)), "{capture}: {status}");
        let (want, got) = (fs::read(folder.join(made)), fs::read(&again));
        assert!(
            want.expect("the file in testdata") == got.expect("the file just made"),
            "{made}: make it again with tapflow convert testdata/pcap/{capture} testdata/pcap/{made}"
        );
    }
}
