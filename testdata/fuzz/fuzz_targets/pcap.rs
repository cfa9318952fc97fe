#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapflow::pcap::fuzz_pcap(input));
