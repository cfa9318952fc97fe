#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapflow::dns::fuzz_message(input));
