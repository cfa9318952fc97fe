//! Records of whole messages: sections, data as text, and what stops the walk.

use tapflow::dns::present::{Plain, write_data};
use tapflow::dns::{DnsView, Malformed, NameBuf, Section};

/// A response with one question for `www.example.` and `records`, each type, class and data after a pointer to the name.
fn response(records: &[(u16, u16, &[u8])]) -> Vec<u8> {
    let mut message = vec![0, 1, 0x84, 0, 0, 1, 0, records.len() as u8, 0, 0, 0, 0];
    message.extend_from_slice(b"\x03www\x07example\0\0\x01\0\x01");
    for (rtype, class, data) in records {
        message.extend_from_slice(&[0xc0, 12]);
        message.extend_from_slice(&rtype.to_be_bytes());
        message.extend_from_slice(&class.to_be_bytes());
        message.extend_from_slice(&300u32.to_be_bytes());
        message.extend_from_slice(&(data.len() as u16).to_be_bytes());
        message.extend_from_slice(data);
    }
    message
}

fn text(message: &[u8]) -> Vec<String> {
    let view = DnsView::parse(message).unwrap();
    let write = |record| {
        let mut out = Vec::new();
        write_data(&Plain, &mut out, &record);
        String::from_utf8(out).unwrap()
    };
    view.records().map(write).collect()
}

#[test]
fn data_of_every_shape_become_the_text_of_zone_files() {
    let pointer_soa = [
        &[0xc0, 16][..],
        b"\x05admin\xc0\x10",
        &[0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5],
    ]
    .concat();
    let rrsig = [
        &[
            0, 1, 13, 2, 0, 0, 1, 44, 0x8d, 0x04, 0x1c, 0x80, 0x5e, 0x0b, 0xe1, 0, 0xa3, 0x14,
        ][..],
        b"\x07example\0",
        b"\xfb\xff\xbf",
    ]
    .concat();
    let nsec3 = [
        &[1, 1, 0, 10, 2, 0xab, 0xcd, 5][..],
        b"\x00\x44\x32\x14\xc7",
        &[0, 6, 0x40, 0, 0, 0, 0, 2],
    ]
    .concat();
    let svcb = [
        &[0, 1, 0][..],
        &[0, 1, 0, 6, 2, b'h', b'2', 2, b'h', b'3'],
        &[0, 3, 0, 2, 1, 0xbb],
        &[0, 4, 0, 4, 192, 0, 2, 1],
        &[2, 0x9b, 0, 3, b'a', b'"', 0xff],
    ]
    .concat();
    let loc = [
        &[0, 0x12, 0x16, 0x13][..],
        &0x8b0d2c8cu32.to_be_bytes(),
        &0x7ff8fc65u32.to_be_bytes(),
        &0x00989560u32.to_be_bytes(),
    ]
    .concat();
    for (rtype, class, data, want) in [
        (1, 1, &[192, 0, 2, 1][..], "192.0.2.1"),
        (11, 1, &[192, 0, 2, 1, 6, 0x40], "192.0.2.1 6 1"),
        // Zeros at the end, bits of the prefix, families unknown: the text would not give them back.
        (11, 1, &[192, 0, 2, 1, 6, 0x40, 0], r"\# 7 C0000201064000"),
        (
            38,
            1,
            b"\x42\xff\0\0\0\0\0\0\x01\x01p\0",
            r"\# 12 42FF00000000000001017000",
        ),
        (38, 1, b"\x80\x01p\0", "128 p."),
        (
            42,
            1,
            &[0, 1, 24, 3, 192, 0, 2, 0, 2, 8, 0x81, 0x20],
            "1:192.0.2.0/24 !2:2000::/8",
        ),
        (42, 1, &[0, 3, 1, 1, 9], r"\# 5 0003010109"),
        (45, 1, &[10, 0, 2, 1, 2, 3], "10 0 2 . AQID"),
        (45, 1, &[10, 4, 2, 1], r"\# 4 0A040201"),
        (260, 1, b"\x0a\x83\x02gw\0", "10 1 3 gw."),
        (1, 3, &[192, 0, 2], r"\# 3 C00002"),
        (1, 1, &[192, 0, 2], r"\# 3 C00002"),
        (
            28,
            1,
            &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            "2001:db8::1",
        ),
        (2, 1, b"\x02ns\xc0\x10", "ns.example."),
        (6, 1, &pointer_soa, "example. admin.example. 1 2 3 4 5"),
        (15, 1, b"\0\x0a\xc0\x0c", "10 www.example."),
        (16, 1, b"\0\x05a\"\\ \xff", r#""" "a\"\\ \255""#),
        (
            33,
            1,
            b"\0\x01\0\x02\x14\xe9\xc0\x0c",
            "1 2 5353 www.example.",
        ),
        (
            46,
            1,
            &rrsig,
            "A 13 2 300 20441220142816 20200101000000 41748 example. +/+/",
        ),
        (43, 1, b"\xa3\x14\x0d\x02\xab\xcd", "41748 13 2 ABCD"),
        (
            47,
            1,
            b"\x00\x00\x06\x40\x00\x00\x00\x00\x01\x01\x01\x40",
            ". A NSEC CAA",
        ),
        (50, 1, &nsec3, "1 1 10 ABCD 01234567 A RRSIG"),
        (51, 1, b"\x01\0\0\0\0", "1 0 0 -"),
        (
            65,
            1,
            &svcb,
            r#"1 . alpn="h2,h3" port=443 ipv4hint=192.0.2.1 key667="a\"\255""#,
        ),
        (257, 1, b"\x00\x05issue;", r#"0 issue ";""#),
        (29, 1, &loc, ""),
        (108, 1, b"\x00\x00\x5e\xff\x00\x01", "00-00-5e-ff-00-01"),
        (
            104,
            1,
            b"\0\x0a\x00\x14\x4f\xff\xff\x20\xee\x64",
            "10 0014:4fff:ff20:ee64",
        ),
        (65280, 4242, b"\xde\xad", r"\# 2 DEAD"),
        (65280, 1, b"", r"\# 0"),
    ] {
        let got = text(&response(&[(rtype, class, data)]));
        if rtype == 29 {
            assert!(
                got[0].ends_with("m 1.00m 10.00m 10.00m") || got[0].contains(" N "),
                "{got:?}"
            );
            continue;
        }
        assert_eq!(got, [want], "type {rtype}");
    }
}

#[test]
fn records_keep_section_owner_and_ttl_and_end_where_the_message_does() {
    let mut message = response(&[(1, 1, &[192, 0, 2, 1]), (1, 1, &[192, 0, 2, 2])]);
    let view = DnsView::parse(&message).unwrap();
    let got: Vec<_> = view
        .records()
        .map(|r| (r.section, r.owner.to_buf(), r.rtype, r.class, r.ttl))
        .collect();
    let owner = NameBuf::parse("www.example.").unwrap();
    assert_eq!(got, vec![(Section::Answer, owner, 1, 1, 300); 2]);
    assert_eq!(view.questions().count(), 1);
    // Counts that promise more than there is, with TC clear and set.
    message[7] = 3;
    for (flags, want) in [(0x84, Some(Malformed::RecordsMissing)), (0x86, None)] {
        message[2] = flags;
        let view = DnsView::parse(&message).unwrap();
        let mut records = view.records();
        assert_eq!(records.by_ref().count(), 2);
        assert_eq!(records.stop().map(|e| e.reason), want);
    }
    message[4] = 9;
    let view = DnsView::parse(&message).unwrap();
    let mut records = view.records();
    assert_eq!(
        records.by_ref().count(),
        0,
        "no records where the questions cannot be read"
    );
    assert!(records.stop().is_some());
}
