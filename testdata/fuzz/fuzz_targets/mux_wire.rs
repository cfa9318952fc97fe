#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapflow::mux::fuzz_wire(input));
