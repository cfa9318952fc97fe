//! How often formats with whole DNS messages allocate, counted by a global allocator that counts (in a binary of its own).
//! The promise: never, once the buffers have grown.

mod dnstap_support;

use allocation_counter::measure;
use dnstap_support::captured;
use tapflow::dnstap::DnstapView;
use tapflow::fields::specs;
use tapflow::format::{Entry, Format, Settings, Source};

#[test]
fn no_record_allocates_once_the_buffers_have_grown() {
    let payloads = captured();
    let every: Vec<String> = specs().iter().map(|spec| spec.name.to_owned()).collect();
    let template = every
        .iter()
        .map(|name| format!("{{{name}}} "))
        .collect::<String>();
    let names = Format::kinds().map(|kind| kind.name);
    for name in names.chain([&*template]) {
        let format: Format = name.parse().unwrap();
        let settings = Settings {
            fields: if format.has_fields() {
                every.clone()
            } else {
                Vec::new()
            },
            ..Settings::default()
        };
        let mut line = format.line(&settings).unwrap().unwrap();
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
