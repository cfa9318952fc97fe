#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapflow::dnstap::fuzz_view(input));
