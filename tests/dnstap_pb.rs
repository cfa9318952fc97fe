//! Keeps `src/dnstap/pb.rs` equal to what prost makes of `proto/dnstap.proto`.
//!
//! After a change of the proto file: `TAPFLOW_REGENERATE=1 cargo test --test dnstap_pb`.

use std::path::Path;

#[test]
fn the_checked_in_code_is_what_the_proto_file_gives() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = protox::compile([root.join("proto/dnstap.proto")], [root.join("proto")])
        .expect("proto/dnstap.proto compiles");
    let out = tempfile::tempdir().expect("a temporary folder");
    prost_build::Config::new()
        .out_dir(out.path())
        .compile_fds(files)
        .expect("prost generates code");
    let wanted = std::fs::read_to_string(out.path().join("dnstap.rs")).expect("generated file");
    let checked_in = root.join("src/dnstap/pb.rs");
    if std::env::var_os("TAPFLOW_REGENERATE").is_some() {
        std::fs::write(&checked_in, &wanted).expect("src/dnstap/pb.rs is writable");
    }
    let found = std::fs::read_to_string(&checked_in).expect("src/dnstap/pb.rs");
    assert!(
        found == wanted,
        "src/dnstap/pb.rs differs from proto/dnstap.proto: run TAPFLOW_REGENERATE=1 cargo test --test dnstap_pb"
    );
}
