//! Capture files of every kind, built octet by octet: what is read from them, and what is said of damaged ones.

use std::io::{Read, Write};

use tapflow::pcap::{ByteOrder, Format, Packing, PcapError, ReadLimits, Reader};

type Packets = Vec<(u64, u32, Vec<u8>, u32)>;

fn read_with(file: &[u8], limits: ReadLimits) -> (Packets, Result<(), PcapError>) {
    let mut packets = Vec::new();
    let mut reader = match Reader::with_limits(file, limits) {
        Ok(reader) => reader,
        Err(error) => return (packets, Err(error)),
    };
    loop {
        match reader.next() {
            Ok(Some(packet)) => {
                assert_eq!(
                    packet.is_truncated(),
                    (packet.wire_len as usize) > packet.data.len()
                );
                packets.push((
                    packet.time_ns,
                    packet.link,
                    packet.data.to_vec(),
                    packet.wire_len,
                ));
            }
            Ok(None) => return (packets, Ok(())),
            Err(error) => {
                assert!(reader.next().expect("fused after an error").is_none());
                return (packets, Err(error));
            }
        }
    }
}

fn read(file: &[u8]) -> (Packets, Result<(), PcapError>) {
    read_with(file, ReadLimits::default())
}

/// Numbers in either order.
#[derive(Clone, Copy)]
struct Order(bool);

impl Order {
    fn n16(self, n: u16) -> [u8; 2] {
        if self.0 {
            n.to_be_bytes()
        } else {
            n.to_le_bytes()
        }
    }

    fn n32(self, n: u32) -> [u8; 4] {
        if self.0 {
            n.to_be_bytes()
        } else {
            n.to_le_bytes()
        }
    }

    fn pcap(self, magic: u32, minor: u16, link: u32) -> Vec<u8> {
        let fields = [
            &self.n32(magic)[..],
            &self.n16(2),
            &self.n16(minor),
            &[0; 8],
            &self.n32(65535),
            &self.n32(link),
        ];
        fields.concat()
    }

    fn record(
        self,
        sec: u32,
        fraction: u32,
        lens: (u32, u32),
        extra: usize,
        data: &[u8],
    ) -> Vec<u8> {
        let mut record: Vec<u8> = [sec, fraction, lens.0, lens.1]
            .into_iter()
            .flat_map(|field| self.n32(field))
            .collect();
        record.resize(16 + extra, 0);
        record.extend_from_slice(data);
        record
    }

    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let padded = body.len().next_multiple_of(4);
        let len = self.n32(u32::try_from(12 + padded).unwrap());
        let mut block = [&self.n32(kind)[..], &len, body].concat();
        block.resize(8 + padded, 0);
        block.extend_from_slice(&len);
        block
    }

    fn section(self) -> Vec<u8> {
        let body = [
            &self.n32(0x1a2b_3c4d)[..],
            &self.n16(1),
            &self.n16(0),
            &[0xff; 8],
        ]
        .concat();
        self.block(0x0a0d_0d0a, &body)
    }

    fn interface(self, link: u16, snap_len: u32, options: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = [&self.n16(link)[..], &[0, 0], &self.n32(snap_len)].concat();
        for (code, value) in options {
            body.extend_from_slice(&self.n16(*code));
            body.extend_from_slice(&self.n16(u16::try_from(value.len()).unwrap()));
            body.extend_from_slice(value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        self.block(1, &body)
    }

    fn enhanced(self, interface: u32, time: u64, data: &[u8], wire_len: u32) -> Vec<u8> {
        let (high, low) = ((time >> 32) as u32, time as u32);
        let len = u32::try_from(data.len()).unwrap();
        let fields: Vec<u8> = [interface, high, low, len, wire_len]
            .into_iter()
            .flat_map(|field| self.n32(field))
            .collect();
        self.block(6, &[&fields[..], data].concat())
    }

    fn old_packet(self, interface: u16, time: u64, data: &[u8]) -> Vec<u8> {
        let (high, low) = ((time >> 32) as u32, time as u32);
        let len = u32::try_from(data.len()).unwrap();
        let fields: Vec<u8> = [high, low, len, len]
            .into_iter()
            .flat_map(|field| self.n32(field))
            .collect();
        self.block(
            2,
            &[&self.n16(interface)[..], &[0, 0], &fields, data].concat(),
        )
    }
}

const BOTH: [Order; 2] = [Order(true), Order(false)];

#[test]
fn reads_classic_pcap_of_every_variant() {
    // Magic, minor version, octets of header beyond 16, the two lengths as written, nanoseconds of the time.
    type Row = (u32, u16, usize, (u32, u32), u64);
    let rows: &[Row] = &[
        (0xa1b2_c3d4, 4, 0, (3, 9), 7000),
        (0xa1b2_3c4d, 4, 0, (3, 9), 7),
        (0xa1b2_cd34, 4, 8, (3, 9), 7000),
        (0xa1b2_c3d4, 2, 0, (9, 3), 7000),
        (0xa1b2_c3d4, 3, 0, (9, 3), 7000),
        (0xa1b2_c3d4, 3, 0, (3, 9), 7000),
    ];
    for order in BOTH {
        for &(magic, minor, extra, lens, ns) in rows {
            // The upper half of the link field is about the frame check sequence.
            let mut file = order.pcap(magic, minor, 0x2400_0065);
            file.extend(order.record(5, 7, lens, extra, b"abc"));
            file.extend(order.record(6, 0, (0, 0), extra, b""));
            let (packets, end) = read(&file);
            end.unwrap();
            let want = [
                (5_000_000_000 + ns, 101, b"abc".to_vec(), 9),
                (6_000_000_000, 101, vec![], 0),
            ];
            assert_eq!(packets, want, "magic {magic:#x} minor {minor}");
        }
    }
}

#[test]
fn reads_pcapng_with_sections_of_both_orders() {
    for (first, second) in [(BOTH[0], BOTH[1]), (BOTH[1], BOTH[0])] {
        let offset = |order: Order, seconds: i64| {
            if order.0 {
                seconds.to_be_bytes()
            } else {
                seconds.to_le_bytes()
            }
        };
        let file = [
            first.section(),
            first.block(0x0bad, b"a block of a kind nobody knows"),
            first.interface(
                1,
                0,
                &[(2, b"eth0"), (9, &[9]), (14, &offset(first, 100)), (0, b"")],
            ),
            first.interface(113, 4, &[]),
            first.enhanced(0, 1_000_000_005, b"abcde", 5),
            first.enhanced(1, 1_000_007, b"wxyz", 60),
            first.old_packet(1, 2_000_000, b"old"),
            first.block(4, &[0; 64]),
            second.section(),
            second.interface(101, 4, &[(9, &[0x8a])]),
            second.enhanced(0, 1024 * 3 + 512, b"", 0),
            second.block(3, &[&second.n32(9)[..], b"simp"].concat()),
            second.block(3, &[&second.n32(2)[..], b"si"].concat()),
        ]
        .concat();
        let (packets, end) = read(&file);
        end.unwrap();
        let want = [
            (101_000_000_005, 1, b"abcde".to_vec(), 5),
            (1_000_007_000, 113, b"wxyz".to_vec(), 60),
            (2_000_000_000, 113, b"old".to_vec(), 3),
            (3_500_000_000, 101, vec![], 0),
            (3_500_000_000, 101, b"simp".to_vec(), 9),
            (3_500_000_000, 101, b"si".to_vec(), 2),
        ];
        assert_eq!(packets, want);
    }
}

#[test]
fn takes_a_time_before_1970_as_its_start() {
    let order = BOTH[1];
    let file = [
        order.section(),
        order.interface(1, 0, &[(14, &(-100i64).to_le_bytes())]),
        order.enhanced(0, 99_000_000, b"a", 1),
        order.enhanced(0, 101_000_000, b"b", 1),
    ]
    .concat();
    let (packets, end) = read(&file);
    end.unwrap();
    assert_eq!(
        packets.iter().map(|p| p.0).collect::<Vec<_>>(),
        [0, 1_000_000_000]
    );
}

fn small_files() -> [(&'static str, Vec<u8>); 2] {
    let order = BOTH[1];
    let pcap = [
        order.pcap(0xa1b2_c3d4, 4, 1),
        order.record(1, 2, (4, 4), 0, b"abcd"),
        order.record(1, 3, (2, 2), 0, b"ef"),
    ];
    let pcapng = [
        order.section(),
        order.interface(1, 0, &[(9, &[9])]),
        order.block(5, &[1; 24]),
        order.enhanced(0, 1, b"abcd", 4),
        order.enhanced(0, 2, b"ef", 2),
    ];
    [("pcap", pcap.concat()), ("pcapng", pcapng.concat())]
}

#[test]
fn a_file_cut_anywhere_gives_its_whole_packets_and_one_named_error() {
    for (what, file) in small_files() {
        let (whole, end) = read(&file);
        end.unwrap();
        let mut clean_cuts = 0;
        for cut in 0..file.len() {
            let (packets, end) = read(&file[..cut]);
            assert!(whole.starts_with(&packets), "{what} cut at {cut}");
            match end {
                Ok(()) => clean_cuts += 1,
                Err(PcapError::Truncated {
                    offset, want, have, ..
                }) => {
                    assert!(
                        have < want && offset + have == cut as u64,
                        "{what} cut at {cut}: {offset}+{have}<{want}"
                    );
                }
                Err(PcapError::NotACapture { .. }) => assert!(cut < 4, "{what} cut at {cut}"),
                Err(error) => panic!("{what} cut at {cut}: {error}"),
            }
        }
        // After the file header and each packet; in pcapng after each block but the last.
        assert_eq!(clean_cuts, if what == "pcap" { 2 } else { 4 }, "{what}");
    }
}

#[test]
fn names_what_is_damaged_and_where() {
    let order = BOTH[1];
    let pcap = order.pcap(0xa1b2_c3d4, 4, 1);
    let ng = [order.section(), order.interface(1, 0, &[])].concat();
    let with = |file: &[u8], more: &[u8]| [file, more].concat();
    let mut bad_trailer = order.enhanced(0, 1, b"abcd", 4);
    *bad_trailer.last_mut().unwrap() = 1;
    let mut bad_trailer_unknown = order.block(99, b"abcd");
    *bad_trailer_unknown.last_mut().unwrap() = 1;
    let long_inner = order.block(
        6,
        &[&[0; 12][..], &order.n32(5), &order.n32(5), b"abcd"].concat(),
    );
    let mut other_order = order.section();
    other_order[8] = 0;
    let version = |major: u8| {
        let mut section = order.section();
        section[12] = major;
        section
    };
    let rows: Vec<(&str, Vec<u8>, u64, &str)> = vec![
        ("nothing", vec![], 0, "not a pcap"),
        ("text", b"GET / HTTP/1.1".to_vec(), 0, "not a pcap"),
        (
            "pcap version 3",
            {
                let mut f = pcap.clone();
                f[4] = 3;
                f
            },
            0,
            "version 3.4",
        ),
        (
            "a huge packet",
            with(&pcap, &order.record(0, 0, (262_145, 262_145), 0, b"")),
            24,
            "claims 262145 octets",
        ),
        ("pcapng version 2", version(2), 0, "version 2.0"),
        ("byte-order magic", other_order, 0, "byte-order magic"),
        (
            "length 8",
            with(&ng, &[1, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0, 0]),
            48,
            "less than 12",
        ),
        (
            "length 13",
            with(&ng, &[1, 0, 0, 0, 13, 0, 0, 0, 13, 0, 0, 0, 0]),
            48,
            "multiple of 4",
        ),
        (
            "trailing length",
            with(&ng, &bad_trailer),
            48,
            "not the length before",
        ),
        (
            "trailing length of an unknown block",
            with(&ng, &bad_trailer_unknown),
            48,
            "not the length before",
        ),
        (
            "packet longer than its block",
            with(&ng, &long_inner),
            48,
            "longer than the block",
        ),
        (
            "packet block too short",
            with(&ng, &order.block(6, &[0; 16])),
            48,
            "too short",
        ),
        (
            "unknown interface",
            with(&ng, &order.enhanced(1, 0, b"", 0)),
            48,
            "names interface 1, but only 1",
        ),
        (
            "short interface",
            with(&ng, &order.block(1, &[0; 4])),
            48,
            "needs 8 octets",
        ),
        (
            "a block of 2 MiB",
            with(&ng, &[6, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0]),
            48,
            "claims 2097152 octets",
        ),
    ];
    for (what, file, offset, text) in rows {
        let error = read(&file).1.expect_err(what);
        assert!(error.to_string().contains(text), "{what}: {error}");
        assert_eq!(error.offset(), offset, "{what}: {error}");
    }
}

#[test]
fn limits_are_inclusive_and_interfaces_counted_per_section() {
    let order = BOTH[0];
    let limits = ReadLimits {
        packet_len_max: 8,
        block_len_max: 40,
        interfaces_max: 2,
    };
    let two = [
        order.section(),
        order.interface(1, 0, &[]),
        order.interface(1, 0, &[]),
    ]
    .concat();
    let fits = [&two[..], &two, &order.enhanced(1, 0, &[7; 8], 8)].concat();
    let (packets, end) = read_with(&fits, limits);
    end.unwrap();
    assert_eq!(packets.len(), 1);
    let third = [&two[..], &order.interface(1, 0, &[])].concat();
    assert!(matches!(
        read_with(&third, limits).1,
        Err(PcapError::TooManyInterfaces { offset: 68, max: 2 })
    ));
    let long = [&two[..], &order.enhanced(1, 0, &[7; 9], 9)].concat();
    assert!(matches!(
        read_with(&long, limits).1,
        Err(PcapError::BlockTooLong {
            len: 44,
            max: 40,
            ..
        })
    ));
    let pcap = [
        order.pcap(0xa1b2_c3d4, 4, 1),
        order.record(0, 0, (9, 9), 0, &[7; 9]),
    ]
    .concat();
    assert!(matches!(
        read_with(&pcap, limits).1,
        Err(PcapError::PacketTooLong { len: 9, max: 8, .. })
    ));
}

#[test]
fn unknown_blocks_of_any_length_are_passed_over_without_being_held() {
    let order = BOTH[1];
    let huge = vec![0xaa; 3 * 1024 * 1024];
    let file = [
        order.section(),
        order.interface(1, 0, &[]),
        order.block(0x8000_0001, &huge),
        order.enhanced(0, 1, b"after", 5),
    ]
    .concat();
    let (packets, end) = read(&file);
    end.unwrap();
    assert_eq!(packets[0].2, b"after");
}

/// Gives one octet a call, as a slow pipe might.
struct Dribble<'a>(&'a [u8]);

impl Read for Dribble<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let n = into.len().min(1);
        self.0.read(&mut into[..n])
    }
}

#[test]
fn reads_compressed_captures_as_they_are() {
    let [(_, pcap), (_, pcapng)] = small_files();
    let gzip = |octets: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(octets).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = |octets: &[u8]| zstd::encode_all(octets, 3).unwrap();
    for plain in [&pcap, &pcapng] {
        let (head, tail) = plain.split_at(30);
        let rows = [
            (Packing::Plain, plain.clone()),
            (Packing::Gzip, gzip(plain)),
            (Packing::Gzip, [gzip(head), gzip(tail)].concat()),
            (Packing::Zstd, zstd(plain)),
            (Packing::Zstd, [zstd(head), zstd(tail)].concat()),
        ];
        for (packing, file) in rows {
            let (packets, end) = read(&file);
            end.unwrap();
            assert_eq!(packets, read(plain).0, "{packing:?}");
            let mut reader = Reader::new(Dribble(&file)).unwrap();
            assert_eq!(reader.packing(), packing);
            let mut count = 0;
            while reader.next().unwrap().is_some() {
                count += 1;
            }
            assert_eq!((count, reader.offset()), (2, plain.len() as u64));
        }
        let cut = gzip(plain);
        let error = read(&cut[..cut.len() / 2]).1.expect_err("cut gzip");
        assert!(matches!(error, PcapError::Io { .. }), "{error}");
    }
}

#[test]
fn says_what_kind_of_file_it_is() {
    let [(_, pcap), (_, pcapng)] = small_files();
    let format = |file: &[u8]| Reader::new(file).unwrap().format();
    assert_eq!(
        format(&pcap),
        Format::Pcap {
            order: ByteOrder::Little,
            nanoseconds: false
        }
    );
    assert_eq!(format(&pcapng), Format::PcapNg);
}
