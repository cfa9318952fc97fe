//! Stages in a running service: what they take out is counted exactly, and what they let through is untouched.

use tapflow::format::Format;
use tapflow::outputs::options::{FileOptions, OutputKind, SendCompression};
use tapflow::stages::options::{
    DecodeOptions, FilterOptions, SampleBy, SampleOptions, StageOptions,
};

use crate::support::files_in;
use crate::support::frames::{self, data, dns, frame, part_all, query, response};
use crate::support::peer::Peer;
use crate::support::rig::{Rig, Socket, drops};

fn filter(options: FilterOptions) -> StageOptions {
    StageOptions::Filter(options)
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

/// 10 queries for a.example (A), 5 for b.test (AAAA), 3 responses NXDOMAIN for c.example, 1 frame that is no dnstap.
fn mixture() -> Vec<u8> {
    let a = frame(&query(&dns("www.A.example", 1, None)));
    let b = frame(&query(&dns("b.test", 28, None)));
    let c = frame(&response(&dns("c.example", 1, Some(3))));
    [a.repeat(10), b.repeat(5), c.repeat(3), data(b"no dnstap")].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_keeps_exactly_what_matches_and_counts_the_rest() {
    let rows = [
        (
            "types",
            FilterOptions {
                message_types: words(&["CLIENT_QUERY"]),
                ..FilterOptions::default()
            },
            15,
        ),
        (
            "names",
            FilterOptions {
                qname_suffixes: words(&["example"]),
                ..FilterOptions::default()
            },
            13,
        ),
        (
            "name and type",
            FilterOptions {
                qname_suffixes: words(&["a.example"]),
                qtypes: words(&["A"]),
                ..FilterOptions::default()
            },
            10,
        ),
        (
            "qtype",
            FilterOptions {
                qtypes: words(&["AAAA", "TYPE65280"]),
                ..FilterOptions::default()
            },
            5,
        ),
        (
            "rcode",
            FilterOptions {
                rcodes: words(&["NXDOMAIN"]),
                ..FilterOptions::default()
            },
            3,
        ),
        (
            "network",
            FilterOptions {
                networks: vec!["192.0.2.0/24".parse().unwrap()],
                ..FilterOptions::default()
            },
            18,
        ),
        (
            "other network",
            FilterOptions {
                networks: vec!["198.51.100.0/24".parse().unwrap()],
                ..FilterOptions::default()
            },
            0,
        ),
        (
            "expression",
            FilterOptions {
                expression: "qname == WWW.a.EXAMPLE or rcode == NXDOMAIN and length > 0".to_owned(),
                ..FilterOptions::default()
            },
            13,
        ),
        (
            "expression and list",
            FilterOptions {
                expression: "qtype in {A} and received > 2020-01-01 and has listener".to_owned(),
                message_types: words(&["CLIENT_RESPONSE"]),
                ..FilterOptions::default()
            },
            3,
        ),
        (
            "expression and list inverted",
            FilterOptions {
                expression: "qtype == A".to_owned(),
                message_types: words(&["CLIENT_QUERY"]),
                invert: true,
                ..FilterOptions::default()
            },
            8,
        ),
        (
            "inverted",
            FilterOptions {
                rcodes: words(&["NXDOMAIN"]),
                invert: true,
                ..FilterOptions::default()
            },
            15,
        ),
    ];
    for (name, options, kept) in rows {
        let running = Rig::new()
            .stage(StageOptions::Decode(DecodeOptions::default()))
            .stage(filter(options))
            .null()
            .start()
            .await;
        for socket in Socket::BOTH {
            let mut peer = Peer::bidirectional(&running.at(socket)).await;
            peer.send(&mixture()).await;
            peer.stop().await;
        }
        let ledger = running.wait_settled(2 * 19).await;
        assert_eq!(
            (ledger.outputs[0].delivered, ledger.filtered, ledger.lost()),
            (2 * kept, 2 * (18 - kept), 2),
            "{name}"
        );
        assert_eq!(
            running.scrape().value("tapflow_frames_filtered_total"),
            (2 * (18 - kept)) as f64,
            "{name}"
        );
        running.stop().await;
    }
}

/// Payloads that a service with this sample stage lets through, out of frames for 500 names, each sent over three
/// connections in different letter case.
async fn sampled(options: SampleOptions) -> Vec<Vec<u8>> {
    let rig = Rig::new()
        .stage(StageOptions::Decode(DecodeOptions::default()))
        .stage(StageOptions::Sample(options));
    let (folder, _kept) = (rig.path("frames"), rig.folder.clone());
    let file = FileOptions {
        path: folder.clone(),
        compress: SendCompression::Off,
        format: Format::Fstrm,
        ..FileOptions::default()
    };
    let running = rig
        .output("file", OutputKind::File(file), |_| {})
        .start()
        .await;
    for case in [str::to_lowercase, str::to_uppercase, str::to_owned] {
        let mut peer = Peer::bidirectional(&running.at(Socket::Unix)).await;
        for n in 0..500 {
            let name = case(&format!("Name{n}.Example"));
            let message = dns(&name, 1, None);
            let client = [10, 0, (n / 256) as u8, (n % 256) as u8];
            let mut view = query(&message);
            if let Some(m) = &mut view.message {
                m.query_address = Some(&client);
            }
            peer.send(&frame(&view)).await;
        }
        peer.stop().await;
    }
    running.wait_received(1500).await;
    let ledger = running.stop().await;
    assert_eq!(ledger.outputs[0].delivered + ledger.filtered, 1500);
    let mut bytes = Vec::new();
    for path in files_in(&folder, ".fstrm") {
        bytes.extend(std::fs::read(path).expect("a file"));
    }
    let payloads = part_all(&bytes).payloads;
    assert_eq!(payloads.len() as u64, ledger.outputs[0].delivered);
    payloads
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_by_key_keeps_all_or_nothing_of_a_key_and_the_same_keys_each_time() {
    for by in [SampleBy::Qname, SampleBy::Client] {
        let options = SampleOptions {
            one_in: 5,
            by,
            seed: 7,
        };
        let (first, again) = (
            sampled(options.clone()).await,
            sampled(options.clone()).await,
        );
        assert_eq!(
            first, again,
            "{by:?}: two collectors with one seed keep the same"
        );
        assert_eq!(
            first.len() % 3,
            0,
            "{by:?}: a key's three frames stay together"
        );
        assert!(
            (150..450).contains(&first.len()),
            "{by:?}: one in five of 1500, more or less: {}",
            first.len()
        );
        let other = sampled(SampleOptions { seed: 8, ..options }).await;
        assert_ne!(first, other, "{by:?}: another seed keeps other keys");
    }
    let all = sampled(SampleOptions {
        one_in: 1,
        by: SampleBy::Random,
        seed: 0,
    })
    .await;
    assert_eq!(all.len(), 1500);
    let some = sampled(SampleOptions {
        one_in: 10,
        by: SampleBy::Random,
        seed: 0,
    })
    .await;
    assert!(
        (75..300).contains(&some.len()),
        "one in ten of 1500, more or less: {}",
        some.len()
    );
    let whole = sampled(SampleOptions {
        one_in: 5,
        by: SampleBy::Identity,
        seed: 0,
    })
    .await;
    assert!(
        whole.is_empty() || whole.len() == 1500,
        "one identity, all or nothing"
    );
}

/// B083: without a decode stage frames are relayed octet for octet, also those that nobody can decode.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_decode_stage_frames_are_relayed_octet_for_octet() {
    let rig = Rig::new();
    let (folder, _kept) = (rig.path("frames"), rig.folder.clone());
    let file = FileOptions {
        path: folder.clone(),
        compress: SendCompression::Off,
        ..FileOptions::default()
    };
    let running = rig
        .output("file", OutputKind::File(file), |_| {})
        .start()
        .await;
    let mut extra = query(b"");
    extra.extra = Some(b"\0extra\xff\r\n");
    let run = [
        data(b"\xffno dnstap"),
        data(&[0; 1]),
        frame(&extra),
        mixture(),
        data(&vec![0xab; 200_000]),
    ]
    .concat();
    let mut peer = Peer::bidirectional(&running.at(Socket::Unix)).await;
    peer.send(&run).await;
    peer.stop().await;
    running.wait_received(4 + 19).await;
    let ledger = running.stop().await;
    assert_eq!((ledger.outputs[0].delivered, ledger.lost()), (4 + 19, 0));
    let files = files_in(&folder, ".fstrm");
    assert_eq!(files.len(), 1, "{files:?}");
    let want = [frames::start(), run, frames::stop()].concat();
    assert!(
        std::fs::read(&files[0]).expect("a file") == want,
        "the file is not what was sent"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_decode_stage_the_undecodable_ones_are_dropped_and_the_rest_is_untouched() {
    let rig = Rig::new().decoding();
    let (folder, _kept) = (rig.path("frames"), rig.folder.clone());
    let file = FileOptions {
        path: folder.clone(),
        compress: SendCompression::Off,
        ..FileOptions::default()
    };
    let running = rig
        .output("file", OutputKind::File(file), |_| {})
        .start()
        .await;
    let mut peer = Peer::bidirectional(&running.at(Socket::Tcp)).await;
    peer.send(&[mixture(), mixture()].concat()).await;
    peer.stop().await;
    running.wait_received(38).await;
    let ledger = running.stop().await;
    assert_eq!(drops(&ledger).iter().map(|d| d.1).sum::<u64>(), 2);
    let bad = data(b"no dnstap").len();
    let good = mixture()[..mixture().len() - bad].to_vec();
    let want = [frames::start(), good.repeat(2), frames::stop()].concat();
    let files = files_in(&folder, ".fstrm");
    assert_eq!(files.len(), 1, "{files:?}");
    assert!(
        std::fs::read(&files[0]).expect("a file") == want,
        "the file is not what was sent"
    );
}
