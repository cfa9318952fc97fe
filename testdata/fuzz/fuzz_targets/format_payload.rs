#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapflow::format::fuzz_payload(input));
