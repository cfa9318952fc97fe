//! Files: never torn, every frame in exactly one of them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use tapflow::format::Format;
use tapflow::outputs::options::{FileOptions, OutputKind, OutputOptions, SendCompression};
use tapflow::outputs::sink::file::name::Name;
use tapflow::pipeline::ledger::OutputDrop;
use tapflow::units::{ByteSize, Span};

use crate::support::{
    Rig, dropped, file_options, file_output, files, numbers_of_file, payload, run, until,
};

const START: &[u8] = b"\0\0\0\0\0\0\0\x22\0\0\0\x02\0\0\0\x01\0\0\0\x16protobuf:dnstap.Dnstap";
const STOP: &[u8] = b"\0\0\0\0\0\0\0\x04\0\0\0\x03";

/// The numbers in all files, in order of the files' names; every file must be whole and bear a final name.
fn all_numbers(dir: &Path) -> Vec<Vec<u64>> {
    files(dir)
        .iter()
        .map(|(name, bytes)| {
            assert!(Name::parse("tap", name).is_some_and(|n| !n.part), "{name}");
            numbers_of_file(name, bytes)
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_format_writes_every_frame_and_delivered_equals_sent() {
    for format in [Format::Fstrm, Format::TEXT, Format::JSON] {
        let mut rig = Rig::new();
        let dir = rig.path("out");
        let mut out = rig.start(
            "files",
            file_output(FileOptions {
                format: format.clone(),
                ..file_options(&dir)
            }),
        );
        rig.send(&[&out], 10_000, 37, 150).await;
        let account = rig.drain(&mut out).await;
        assert_eq!(
            (account.delivered, account.dropped_total()),
            (10_000, 0),
            "{format:?}"
        );
        let files = files(&dir);
        assert_eq!(files.len(), 1, "{:?}", files.keys());
        let (name, bytes) = files.first_key_value().unwrap();
        if format == Format::Fstrm {
            assert_eq!(
                numbers_of_file(name, bytes),
                (0..10_000).collect::<Vec<_>>()
            );
            let written = rig.metric("tapflow_output_bytes_total{output=\"files\"}");
            assert_eq!(written as usize, bytes.len() - START.len() - STOP.len());
        } else {
            assert_eq!(bytes.iter().filter(|b| **b == b'\n').count(), 10_000);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_is_not_dnstap_costs_one_frame_of_a_text_output() {
    let mut rig = Rig::new();
    let dir = rig.path("out");
    let mut out = rig.start(
        "lines",
        file_output(FileOptions {
            format: Format::JSON,
            ..file_options(&dir)
        }),
    );
    rig.send(&[&out], 3, 1, 100).await;
    rig.send_raw(&[&out], &[0xff; 3]).await;
    rig.send(&[&out], 2, 2, 100).await;
    let account = rig.drain(&mut out).await;
    assert_eq!(
        (
            account.delivered,
            dropped(&account, OutputDrop::Unencodable)
        ),
        (5, 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rotation_by_size_puts_every_frame_into_exactly_one_whole_file() {
    let mut rig = Rig::new();
    let dir = rig.path("out");
    let options = FileOptions {
        rotate_size: ByteSize::kib(64),
        ..file_options(&dir)
    };
    let mut out = rig.start("files", file_output(options));
    rig.send(&[&out], 20_000, 61, 150).await;
    assert_eq!(rig.drain(&mut out).await.delivered, 20_000);
    let found = all_numbers(&dir);
    assert_eq!(found.concat(), (0..20_000).collect::<Vec<_>>());
    let bytes = files(&dir);
    assert!(bytes.len() > 40, "{}", bytes.len());
    // One batch more than the limit at most.
    assert!(
        bytes.values().all(|b| b.len() < 64 * 1024 + 61 * 160),
        "a file is larger than the limit and a batch"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rotation_by_age_needs_no_traffic_and_makes_no_empty_file() {
    let mut rig = Rig::new();
    let dir = rig.path("out");
    let options = FileOptions {
        rotate_time: Span::millis(300),
        ..file_options(&dir)
    };
    let mut out = rig.start("files", file_output(options));
    let finished = || files(&dir).keys().filter(|n| n.ends_with(".fstrm")).count();
    rig.send(&[&out], 10, 10, 150).await;
    until("the first file is closed by its age", || finished() == 1).await;
    let quiet = Instant::now();
    until("three more ages pass", || {
        quiet.elapsed() > Duration::from_millis(900)
    })
    .await;
    assert_eq!(
        files(&dir).len(),
        1,
        "no empty file while there is no traffic"
    );
    rig.send(&[&out], 5, 5, 150).await;
    until("the second file is closed by its age", || finished() == 2).await;
    rig.drain(&mut out).await;
    assert_eq!(
        all_numbers(&dir),
        [(0..10).collect::<Vec<_>>(), (10..15).collect()]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rotation_on_request_splits_there_and_an_empty_one_does_nothing() {
    let mut rig = Rig::new();
    let dir = rig.path("out");
    let mut out = rig.start("files", file_output(file_options(&dir)));
    rig.rotate();
    let finished = || files(&dir).keys().filter(|n| n.ends_with(".fstrm")).count();
    for round in 1..=3 {
        rig.send(&[&out], 100, 7, 150).await;
        until("the frames are on their way to the file", || {
            out.lane.queue().unwrap().depth().0 == 0
        })
        .await;
        rig.settled(&out).await;
        rig.rotate();
        until("the file is closed", || finished() == round).await;
        // Nothing has come since, so nothing happens.
        rig.rotate();
    }
    rig.drain(&mut out).await;
    let found = all_numbers(&dir);
    assert_eq!(
        found,
        [
            (0..100).collect::<Vec<_>>(),
            (100..200).collect(),
            (200..300).collect()
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_logrotate_moved_away_is_completed_where_it_is() {
    let mut rig = Rig::new();
    let dir = rig.path("out");
    let mut out = rig.start("files", file_output(file_options(&dir)));
    rig.send(&[&out], 50, 10, 150).await;
    rig.settled(&out).await;
    let part = files(&dir).into_keys().next().unwrap();
    assert!(part.ends_with(".part"), "{part}");
    let moved = rig.path("moved.1");
    fs::rename(dir.join(&part), &moved).unwrap();
    rig.rotate();
    until("the moved file has its STOP", || {
        fs::read(&moved).unwrap().ends_with(STOP)
    })
    .await;
    rig.send(&[&out], 25, 10, 150).await;
    assert_eq!(rig.drain(&mut out).await.delivered, 75);
    assert_eq!(
        numbers_of_file("moved", &fs::read(&moved).unwrap()),
        (0..50).collect::<Vec<_>>()
    );
    assert_eq!(all_numbers(&dir), [(50..75).collect::<Vec<_>>()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_few_small_frames_appear_in_the_file_within_a_second() {
    let mut rig = Rig::new();
    let dir = rig.path("out");
    let out = rig.start("files", file_output(file_options(&dir)));
    rig.send(&[&out], 1, 1, 150).await;
    let start = Instant::now();
    rig.settled(&out).await;
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(
        files(&dir).into_values().next().unwrap(),
        [START, &run(0..1, 150)].concat()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_crash_left_is_finished_and_what_is_not_ours_is_left_alone() {
    let mut rig = Rig::new();
    let dir = rig.path("out");
    fs::create_dir(&dir).unwrap();
    let whole = run(0..3, 150);
    let torn = &run(3..4, 150)[..77];
    let put = |name: &str, parts: &[&[u8]]| fs::write(dir.join(name), parts.concat()).unwrap();
    let ours = |n: u32, ending: &str| format!("tap-20260101T000000Z-{n:04}.{ending}");
    put(&ours(1, "fstrm.part"), &[START, &whole, torn]);
    put(&ours(2, "fstrm.part"), &[START, &whole]);
    put(&ours(3, "fstrm.part"), &[START, &whole, STOP]);
    put(&ours(4, "fstrm.part"), &[START]);
    put(&ours(5, "fstrm.part"), &[&START[..20]]);
    put(&ours(6, "fstrm.part"), &[]);
    put(&ours(7, "fstrm.part"), &[START, torn]);
    put(&ours(8, "jsonl.part"), &[b"{}\n{\"a\":"]);
    put(&ours(9, "fstrm"), &[START, &whole, STOP]);
    put(&ours(9, "fstrm.zst.part"), &[b"half of a compressed file"]);
    let foreign = [
        ours(10, "fstrm.part"),
        "other-20260101T000000Z-0001.fstrm.part".into(),
        "tap-notes.part".into(),
        ours(11, "fstrm.part"),
    ];
    for name in &foreign {
        put(
            name,
            &[b"not Frame Streams, and long enough to tell", START],
        );
    }
    // The last of them is one that another process is writing.
    put(&foreign[3], &[START, &whole, torn]);
    let locked = File::open(dir.join(&foreign[3])).unwrap();
    rustix::fs::flock(locked.as_fd(), rustix::fs::FlockOperation::LockExclusive).unwrap();

    let mut out = rig.start("files", file_output(file_options(&dir)));
    rig.send(&[&out], 5, 5, 150).await;
    assert_eq!(rig.drain(&mut out).await.delivered, 5);

    let mut found = files(&dir);
    for name in &foreign {
        assert!(found.remove(name).is_some(), "{name} is still there");
    }
    let full = [START, &whole, STOP].concat();
    for n in [1, 2, 3, 9] {
        assert!(
            found.remove(&ours(n, "fstrm")).is_some_and(|b| b == full),
            "file {n}"
        );
    }
    assert_eq!(
        found.remove(&ours(8, "jsonl")).as_deref(),
        Some(&b"{}\n"[..])
    );
    assert_eq!(
        found.len(),
        1,
        "only the new file is left: {:?}",
        found.keys()
    );
    let (name, bytes) = found.first_key_value().unwrap();
    assert_eq!(numbers_of_file(name, bytes), (0..5).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_closed_files_of_this_prefix_are_removed_and_no_others() {
    let mut rig = Rig::new();
    let dir = rig.path("out");
    fs::create_dir(&dir).unwrap();
    let keep = [
        "other-20200101T000000Z-0001.fstrm",
        "tap-x-20200101T000000Z-0001.fstrm",
        "notes.txt",
        "tap-20200101T000000Z-0001.log",
    ];
    for name in keep {
        fs::write(dir.join(name), b"keep").unwrap();
    }
    // One file in two forms, as after a crash between compressing and removing.
    fs::write(
        dir.join("tap-20200101T000000Z-0001.fstrm"),
        [START, STOP].concat(),
    )
    .unwrap();
    fs::write(dir.join("tap-20200101T000000Z-0001.fstrm.gz"), b"old").unwrap();
    let options = FileOptions {
        rotate_size: ByteSize(1),
        keep_files: 3,
        ..file_options(&dir)
    };
    let mut out = rig.start("files", file_output(options));
    rig.send(&[&out], 100, 10, 150).await;
    rig.drain(&mut out).await;
    let mut found = files(&dir);
    for name in keep {
        assert!(found.remove(name).is_some(), "{name}");
    }
    let last: Vec<_> = found
        .iter()
        .map(|(name, bytes)| numbers_of_file(name, bytes))
        .collect();
    assert_eq!(
        last,
        [
            (70..80).collect::<Vec<_>>(),
            (80..90).collect(),
            (90..100).collect()
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn files_compressed_on_close_read_back_equal() {
    for (compress, ending) in [
        (SendCompression::Gzip, "gz"),
        (SendCompression::Lz4, "lz4"),
        (SendCompression::Snappy, "sz"),
        (SendCompression::Zstd, "zst"),
    ] {
        let mut rig = Rig::new();
        let dir = rig.path("out");
        let options = FileOptions {
            compress,
            rotate_size: ByteSize::kib(200),
            sync: true,
            ..file_options(&dir)
        };
        let mut out = rig.start("files", file_output(options));
        rig.send(&[&out], 5_000, 100, 150).await;
        assert_eq!(rig.drain(&mut out).await.delivered, 5_000);
        let mut numbers = Vec::new();
        for (name, bytes) in files(&dir) {
            assert!(name.ends_with(&format!(".fstrm.{ending}")), "{name}");
            let mut plain = Vec::new();
            match compress {
                SendCompression::Gzip => {
                    flate2::read::MultiGzDecoder::new(&*bytes).read_to_end(&mut plain)
                }
                SendCompression::Lz4 => {
                    lz4_flex::frame::FrameDecoder::new(&*bytes).read_to_end(&mut plain)
                }
                SendCompression::Snappy => {
                    snap::read::FrameDecoder::new(&*bytes).read_to_end(&mut plain)
                }
                _ => zstd::stream::read::Decoder::new(&*bytes)
                    .unwrap()
                    .read_to_end(&mut plain),
            }
            .unwrap();
            assert!(bytes.len() < plain.len() / 2);
            numbers.extend(numbers_of_file(&name, &plain));
        }
        assert_eq!(numbers, (0..5_000).collect::<Vec<_>>(), "{compress:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn aborting_counts_what_is_queued_and_leaves_a_whole_file() {
    let mut rig = Rig::new();
    let dir = rig.path("out");
    let mut out = rig.start(
        "files",
        OutputOptions {
            queue_batches: 100_000,
            ..file_output(file_options(&dir))
        },
    );
    rig.send(&[&out], 1, 1, 150).await;
    rig.settled(&out).await;
    // Gathering keeps the last ones in flight, so there is something to lose.
    rig.send(&[&out], 20, 1, 150).await;
    let took = rig.abort(&mut out).await;
    assert!(took < Duration::from_millis(500), "{took:?}");
    let account = rig.account(&out);
    assert_eq!(
        account.delivered + dropped(&account, OutputDrop::Shutdown),
        21
    );
    assert_eq!(
        all_numbers(&dir).concat(),
        (0..account.delivered).collect::<Vec<_>>()
    );
    rig.send(&[&out], 3, 1, 150).await;
    assert_eq!(
        rig.account(&out).in_flight,
        0,
        "what comes later is refused and counted"
    );
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_that_names_it() {
    let rig = Rig::new();
    let file = rig.path("file");
    fs::write(&file, b"").unwrap();
    let options = file_output(file_options(&file.join("sub")));
    let error = tapflow::outputs::build(&options, &rig.ctx)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("file/sub") && error.contains("output file"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_folder_is_in_the_data_folder() {
    let mut rig = Rig::new();
    let mut out = rig.start(
        "files",
        OutputOptions::new(OutputKind::File(FileOptions::default())),
    );
    rig.send(&[&out], 3, 3, 150).await;
    rig.drain(&mut out).await;
    let names: Vec<_> = files(&rig.path("frames")).into_keys().collect();
    assert!(
        names.len() == 1
            && names[0].starts_with("tapflow-")
            && names[0].ends_with("-0001.fstrm.zst"),
        "{names:?}"
    );
}

/// A file system of one megabyte, unmounted when dropped.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(at: &'a Path) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let mut mount = std::process::Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
            .arg(at);
        mount
            .output()
            .is_ok_and(|o| o.status.success())
            .then_some(Self(at))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .arg("-l")
            .arg(self.0)
            .status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_costs_the_frames_that_do_not_fit_and_nothing_else() {
    let mut rig = Rig::new();
    let dir = rig.path("disk");
    let Some(disk) = SmallDisk::mount(&dir) else {
        println!("skipped: a small file system cannot be mounted here (needs root)");
        return;
    };
    let mut out = rig.start("files", file_output(file_options(&dir)));
    let mut other = rig.start("other", file_output(file_options(&rig.path("other"))));
    // Twice what fits.
    rig.send(&[&out, &other], 14_000, 100, 150).await;
    rig.settled(&out).await;
    let full = rig.account(&out);
    assert!(dropped(&full, OutputDrop::WriteError) > 1_000, "{full:?}");
    assert_eq!(
        full.delivered + dropped(&full, OutputDrop::WriteError),
        14_000
    );
    assert!(rig.metric("tapflow_output_errors_total{output=\"files\"}") > 0.0);
    assert_eq!(
        rig.metric("tapflow_output_connected{output=\"files\"}"),
        0.0
    );
    let part = files(&dir)
        .into_keys()
        .find(|n| n.ends_with(".part"))
        .unwrap();
    let half = fs::read(dir.join(&part)).unwrap();
    assert_eq!(&half[..START.len()], START);
    let kept: Vec<u64> = tapflow::fstrm::Frames::new(&half[START.len()..])
        .map(crate::support::number)
        .collect();
    assert_eq!(
        kept.len() as u64,
        full.delivered,
        "the file holds the delivered frames and no torn one"
    );
    // Whether or not there is room for STOP now: it is written when there is, and nothing is lost by asking.
    rig.rotate();
    // Somebody makes room.
    let status = std::process::Command::new("mount")
        .args(["-o", "remount,size=8m"])
        .arg(&dir)
        .status()
        .unwrap();
    assert!(status.success());
    rig.send(&[&out, &other], 1_000, 100, 150).await;
    let account = rig.drain(&mut out).await;
    assert_eq!(
        account.delivered,
        full.delivered + 1_000,
        "it recovers by itself"
    );
    let numbers: BTreeSet<u64> = all_numbers(&dir).concat().into_iter().collect();
    assert_eq!(numbers.len() as u64, account.delivered);
    assert!((14_000..15_000).all(|n| numbers.contains(&n)));
    assert_eq!(
        rig.drain(&mut other).await.delivered,
        15_000,
        "the other output loses nothing"
    );
    drop(disk);
}

#[test]
fn recovery_at_every_cut_keeps_exactly_the_whole_frames() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let rig = Rig::new();
        let dir = rig.path("out");
        fs::create_dir(&dir).unwrap();
        let frames = run(0..3, 40);
        let bytes = [START, &frames, STOP].concat();
        for cut in 0..=bytes.len() {
            let name = format!("tap-20260101T000000Z-{:04}.fstrm.part", cut + 1);
            File::create(dir.join(name))
                .unwrap()
                .write_all(&bytes[..cut])
                .unwrap();
        }
        let mut out = rig.start("files", file_output(file_options(&dir)));
        rig.drain(&mut out).await;
        let frame = frames.len() / 3;
        let found = files(&dir);
        for cut in 0..=bytes.len() {
            let name = format!("tap-20260101T000000Z-{:04}.fstrm", cut + 1);
            let whole = cut.saturating_sub(START.len()).min(frames.len()) / frame;
            let got = found
                .get(&name)
                .map(|bytes| numbers_of_file(&name, bytes).len());
            assert_eq!(got, (whole > 0).then_some(whole), "cut at {cut}");
        }
        assert!(found.keys().all(|n| n.ends_with(".fstrm")));
    });
}

/// A payload with a DNS message of its own, over UDP or TCP.
fn with_message(id: u16) -> Vec<u8> {
    let mut dns = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x01\0\x01".to_vec();
    dns[..2].copy_from_slice(&id.to_be_bytes());
    // type: AUTH_QUERY, socket_protocol: UDP or TCP, query_message
    let mut message = vec![0x08, 1, 0x18, 1 + (id % 2) as u8, 0x52, dns.len() as u8];
    message.extend(dns);
    let mut payload = vec![0x72, message.len() as u8];
    payload.extend(message);
    payload.extend([0x78, 1]);
    payload
}

/// The ids of the messages in a capture, which must be whole.
fn ids(bytes: &[u8]) -> Vec<u16> {
    let mut reader = tapflow::pcap::Reader::new(bytes).unwrap();
    let mut extractor = tapflow::pcap::Extractor::default();
    let mut ids = Vec::new();
    let mut keep = |packet: tapflow::pcap::DnsPacket<'_>| {
        ids.push(u16::from_be_bytes([packet.payload[0], packet.payload[1]]));
    };
    while let Some(packet) = reader.next().unwrap() {
        extractor.push(&packet, &mut keep);
    }
    extractor.finish(&mut keep);
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn captures_are_rotated_and_recovered_at_every_cut_like_frames() {
    let mut rig = Rig::new();
    let dir = rig.path("out");
    let options = || FileOptions {
        format: "pcap".parse().unwrap(),
        rotate_size: ByteSize(600),
        ..file_options(&dir)
    };
    let mut out = rig.start("files", file_output(options()));
    for id in 0..40 {
        rig.send_raw(&[&out], &with_message(id)).await;
        rig.settled(&out).await;
    }
    // No message, no packet: a frame that this format cannot write.
    rig.send_raw(&[&out], &payload(1, 40)).await;
    let account = rig.drain(&mut out).await;
    assert_eq!(account.delivered, 40);
    assert_eq!(dropped(&account, OutputDrop::Unencodable), 1);
    let written = files(&dir);
    assert!(written.len() > 4, "{}", written.len());
    let found: Vec<_> = written.values().flat_map(|bytes| ids(bytes)).collect();
    assert_eq!(found, (0..40).collect::<Vec<_>>());
    // Any of them, as a crash would have left it.
    let (_, whole) = written.first_key_value().unwrap();
    let all = ids(whole);
    let rig = Rig::new();
    let dir = rig.path("out");
    fs::create_dir(&dir).unwrap();
    for cut in 0..=whole.len() {
        let name = format!("tap-20260101T000000Z-{:04}.pcap.part", cut + 1);
        fs::write(dir.join(name), &whole[..cut]).unwrap();
    }
    let mut out = rig.start(
        "files",
        file_output(FileOptions {
            format: "pcap".parse().unwrap(),
            ..file_options(&dir)
        }),
    );
    rig.drain(&mut out).await;
    let found = files(&dir);
    assert!(found.keys().all(|name| name.ends_with(".pcap")));
    assert!(found.len() > whole.len() / 2);
    let mut most = 0;
    for bytes in found.values() {
        let ids = ids(bytes);
        assert!(all.starts_with(&ids), "{ids:?}");
        assert!(ids.len() >= most, "a longer file has no fewer");
        most = ids.len();
    }
    assert_eq!(most, all.len());
}
