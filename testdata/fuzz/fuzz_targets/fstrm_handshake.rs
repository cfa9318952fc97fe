#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapflow::fstrm::fuzz::handshake(input));
