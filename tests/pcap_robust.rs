//! No octets make the capture chain panic or hold more memory than its limits: damaged real captures and made-up ones.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use tapflow::pcap::{DnsTransport, WriteLink, Writer, fuzz_pcap};

const QUERY: &[u8] =
    b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x00\x00\x01\x00\x01";

fn small_capture() -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(WriteLink::Ethernet);
    writer.header(&mut file);
    for (src, dst) in [
        ("192.0.2.1:1000", "192.0.2.2:53"),
        ("[2001:db8::1]:1000", "[2001:db8::2]:53"),
    ] {
        for transport in [DnsTransport::Udp, DnsTransport::Tcp] {
            let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
            writer
                .message(
                    1_700_000_000_000_000_000,
                    src,
                    dst,
                    transport,
                    QUERY,
                    &mut file,
                )
                .unwrap();
        }
    }
    file
}

/// The beginnings of our recorded captures: real traffic to damage.
fn recorded() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/pcap");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|path| {
            let mut octets = fs::read(path).unwrap();
            octets.truncate(24 * 1024);
            octets
        })
        .collect()
}

#[test]
fn a_capture_cut_at_each_octet_does_not_panic() {
    let file = small_capture();
    for cut in 0..=file.len() {
        fuzz_pcap(&file[..cut]);
    }
}

#[test]
fn a_capture_with_each_octet_changed_does_not_panic() {
    let file = small_capture();
    for at in 0..file.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut damaged = file.clone();
            damaged[at] ^= change;
            fuzz_pcap(&damaged);
        }
    }
}

#[test]
fn recorded_captures_are_among_the_seeds() {
    assert!(recorded().len() >= 5);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_octets_do_not_panic(octets in proptest::collection::vec(any::<u8>(), 0..512)) {
        fuzz_pcap(&octets);
    }

    #[test]
    fn arbitrary_packets_of_every_link_type_do_not_panic(
        link in prop_oneof![Just(0u32), Just(1), Just(10), Just(101), Just(108), Just(113), Just(276)],
        packets in proptest::collection::vec((any::<u32>(), proptest::collection::vec(any::<u8>(), 0..128)), 0..24),
    ) {
        let mut file = Vec::new();
        Writer::new(WriteLink::Raw).header(&mut file);
        file[20..24].copy_from_slice(&link.to_le_bytes());
        for (time, data) in packets {
            for field in [time, 0, data.len() as u32, data.len() as u32] {
                file.extend_from_slice(&field.to_le_bytes());
            }
            file.extend_from_slice(&data);
        }
        fuzz_pcap(&file);
    }

    #[test]
    fn damaged_recordings_do_not_panic(
        which in any::<prop::sample::Index>(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
    ) {
        let files = recorded();
        let mut file = files[which.index(files.len())].clone();
        for (at, value) in damage {
            let at = at.index(file.len());
            file[at] = value;
        }
        fuzz_pcap(&file);
    }

    /// TCP segments on one flow in any order, overlapping in any way, with resets and repeated beginnings.
    #[test]
    fn segments_in_any_order_do_not_panic(
        segments in proptest::collection::vec((0u32..200, 0usize..60, any::<u8>(), any::<bool>(), 0u32..20), 0..80),
    ) {
        let mut file = Vec::new();
        Writer::new(WriteLink::Raw).header(&mut file);
        let stream: Vec<u8> = (0..16).flat_map(|_| [&[0, QUERY.len() as u8], QUERY].concat()).collect();
        for (seq, len, flags, reverse, time) in segments {
            let payload = &stream[seq as usize..seq as usize + len];
            let total = (40 + len) as u16;
            let mut packet = vec![0x45, 0];
            packet.extend_from_slice(&total.to_be_bytes());
            packet.extend_from_slice(&[0, 0, 0, 0, 64, 6, 0, 0, 192, 0, 2, 1 + u8::from(reverse), 192, 0, 2, 2 - u8::from(reverse)]);
            let ports: [u16; 2] = if reverse { [53, 1000] } else { [1000, 53] };
            packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
            packet.extend_from_slice(&seq.wrapping_sub(100).to_be_bytes());
            packet.extend_from_slice(&seq.to_be_bytes());
            // Mostly plain segments: SYN and RST only in one of sixteen.
            let flags = if flags < 16 { flags } else { flags & 0x18 };
            packet.extend_from_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
            packet.extend_from_slice(payload);
            for field in [time, 0, packet.len() as u32, packet.len() as u32] {
                file.extend_from_slice(&field.to_le_bytes());
            }
            file.extend_from_slice(&packet);
        }
        fuzz_pcap(&file);
    }
}
