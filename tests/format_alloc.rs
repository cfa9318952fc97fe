//! How often formats with whole DNS messages allocate, counted by a global allocator that counts (in a binary of its own).
//! The promise: never, once the buffers have grown.

mod dnstap_support;

use allocation_counter::measure;
use dnstap_support::captured;
use tapflow::dnstap::DnstapView;
use tapflow::format::{Entry, Format, Settings, Source};

#[test]
fn no_record_allocates_once_the_buffers_have_grown() {
    let payloads = captured();
    for name in [
        "text",
        "json",
        "golang-json",
        "golang-yaml",
        "dnstap-read",
        "dnstap-read-yaml",
        "ldns",
        "ldns-quiet",
        "flat-json",
        "flat-json-joined",
        "collector-text",
        "hex",
        "base64",
    ] {
        let format: Format = name.parse().unwrap();
        let mut line = format.line(&Settings::default()).unwrap().unwrap();
        let mut out = Vec::new();
        let mut pass = || {
            for payload in &payloads {
                out.clear();
                let view = DnstapView::parse(payload).unwrap();
                let entry = Entry {
                    payload,
                    view: Ok(&view),
                    source: Source::default(),
                };
                line.write(&mut out, entry).unwrap();
            }
        };
        pass();
        let second = measure(pass);
        assert_eq!(second.count_total, 0, "{name}");
    }
}
