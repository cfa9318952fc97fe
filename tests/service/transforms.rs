//! Stages that change frames: files and relays get what the stages made, and the ledger closes over it.

use tapflow::dnstap::DnstapView;
use tapflow::outputs::options::{FileOptions, OutputKind, SendCompression};
use tapflow::stages::options::{DecodeOptions, StageOptions};
use tapflow::stages::transform_options::{
    AddressField, AnonymiseMode, AnonymiseOptions, DropAnswersOptions, FieldsOptions, GeoipOptions,
    LowercaseOptions, RegisteredDomainOptions, TagsOptions,
};
use tapflow::units::Span;

use crate::mmdb_support::{Value, mmdb};
use crate::support::files_in;
use crate::support::frames::{data, dns, frame, part_all, query, response};
use crate::support::peer::Peer;
use crate::support::rig::{Rig, Socket, drops, output};

/// What a service with these stages writes for these frames: the payloads in its own file, and in that of a second service
/// that it forwards to.
async fn written(stages: Vec<StageOptions>, run: &[u8], frames: u64) -> [Vec<Vec<u8>>; 2] {
    let file = |folder| FileOptions {
        path: folder,
        compress: SendCompression::Off,
        ..FileOptions::default()
    };
    let second = Rig::new();
    let (far, _far_kept) = (second.path("frames"), second.folder.clone());
    let second = second
        .output("file", OutputKind::File(file(far.clone())), |_| {})
        .start()
        .await;
    let mut first = Rig::new().stage(StageOptions::Decode(DecodeOptions::default()));
    for stage in stages {
        first = first.stage(stage);
    }
    let (near, _near_kept) = (first.path("frames"), first.folder.clone());
    let to = second.at(Socket::Unix);
    let first = first
        .output("file", OutputKind::File(file(near.clone())), |_| {})
        .forward("relay", |options| {
            if let OutputKind::Dnstap(dnstap) = &mut options.kind {
                dnstap.to = to;
            }
        })
        .start()
        .await;
    let mut peer = Peer::bidirectional(&first.at(Socket::Unix)).await;
    peer.send(run).await;
    peer.stop().await;
    let settled = first.wait_settled(frames).await;
    let delivered = output(&settled, "relay").delivered;
    second.wait_received(delivered).await;
    let ledger = first.stop().await;
    assert_eq!(
        ledger.received,
        delivered + ledger.filtered + ledger.lost(),
        "{:?}",
        drops(&ledger)
    );
    second.stop().await;
    [near, far].map(|folder| {
        let mut bytes = Vec::new();
        for path in files_in(&folder, ".fstrm") {
            bytes.extend(std::fs::read(path).expect("a file"));
        }
        part_all(&bytes).payloads
    })
}

/// An answer to `name` with one A record.
fn answered(name: &str) -> Vec<u8> {
    let mut message = dns(name, 1, Some(0));
    message[7] = 1;
    message.extend(b"\xc0\x0c\0\x01\0\x01\0\0\0\x09\0\x04\x01\x02\x03\x04");
    message
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_and_relays_get_what_each_stage_made_of_a_frame() {
    let folder = tempfile::tempdir().expect("a folder");
    let (key, country) = (folder.path().join("key"), folder.path().join("c.mmdb"));
    std::fs::write(&key, [7; 32]).expect("a key");
    let nl = Value::map([
        ("country", Value::map([("iso_code", Value::text("NL"))])),
        ("autonomous_system_number", Value::Number(64_500)),
    ]);
    std::fs::write(&country, mmdb(&[([192, 0, 2, 0], 24, nl)])).expect("a database");
    let (mixed, small) = (answered("WwW.Example.COM"), answered("www.example.com"));
    let bare = dns("WwW.Example.COM", 1, Some(0));
    type Change<'a> = Box<dyn Fn(&mut DnstapView<'a>) + 'a>;
    let message = |change: fn(&mut tapflow::dnstap::Message<'_>)| -> Change<'_> {
        Box::new(move |view| change(view.message.as_mut().expect("a message")))
    };
    let extra = |text: &'static str| -> Change<'_> {
        Box::new(move |view| view.extra = Some(text.as_bytes()))
    };
    let small = &small;
    let bare = &bare;
    let rows: Vec<(StageOptions, Change<'_>)> = vec![
        (
            StageOptions::Lowercase(LowercaseOptions::default()),
            Box::new(move |view| {
                view.message.as_mut().expect("a message").response_message = Some(small)
            }),
        ),
        (
            StageOptions::DropAnswers(DropAnswersOptions::default()),
            Box::new(move |view| {
                view.message.as_mut().expect("a message").response_message = Some(bare)
            }),
        ),
        (
            StageOptions::Anonymise(AnonymiseOptions::default()),
            message(|m| m.query_address = Some(&[192, 0, 2, 0])),
        ),
        (
            StageOptions::Anonymise(AnonymiseOptions {
                ipv4_prefix: 0,
                addresses: vec![AddressField::ResponseAddress],
                ..AnonymiseOptions::default()
            }),
            message(|_| {}),
        ),
        (
            StageOptions::Fields(FieldsOptions {
                drop: words(&["query_port", "query_address"]),
                ..FieldsOptions::default()
            }),
            message(|m| (m.query_port, m.query_address) = (None, None)),
        ),
        (
            StageOptions::Tags(TagsOptions {
                add: words(&["site=ams 1"]),
            }),
            extra("site=ams%201"),
        ),
        (
            StageOptions::RegisteredDomain(RegisteredDomainOptions::default()),
            extra("registered_domain=example.com"),
        ),
        (
            StageOptions::Geoip(GeoipOptions {
                files: vec![country],
                ..GeoipOptions::default()
            }),
            extra("country=NL asn=64500"),
        ),
    ];
    // Frames that the stage changes, one that no stage does, and one that is no dnstap.
    let from = response(&mixed);
    let untouched = frame(&DnstapView {
        message: None,
        ..query(b"")
    });
    let run = [frame(&from).repeat(40), untouched, data(b"no dnstap")].concat();
    for (stage, change) in rows {
        let name = stage.type_name();
        let mut want = from;
        change(&mut want);
        for payloads in written(vec![stage], &run, 42).await {
            assert_eq!(payloads.len(), 40, "{name}");
            for payload in payloads {
                assert_eq!(DnstapView::parse(&payload), Ok(want), "{name}");
            }
        }
    }
    // Crypto-PAn, whose result only a key tells: the same for the same client, and another than the client.
    let crypto_pan = StageOptions::Anonymise(AnonymiseOptions {
        mode: AnonymiseMode::CryptoPan,
        key_file: key,
        rotate: Span::secs(86_400 * 365 * 100),
        ..AnonymiseOptions::default()
    });
    let [near, far] = written(vec![crypto_pan], &run, 42).await;
    assert_eq!(near, far);
    let address = |payload: &[u8]| {
        let view = DnstapView::parse(payload).expect("dnstap");
        view.message.expect("a message").query_ip()
    };
    assert!(near.iter().all(|payload| *payload == near[0]));
    assert_ne!(address(&near[0]), Some([192, 0, 2, 1].into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn stages_in_a_row_see_each_others_work_among_frames_that_stay_as_they_are() {
    let stages = || {
        vec![
            StageOptions::Lowercase(LowercaseOptions::default()),
            StageOptions::RegisteredDomain(RegisteredDomainOptions::default()),
            StageOptions::Anonymise(AnonymiseOptions::default()),
            StageOptions::Tags(TagsOptions {
                add: words(&["site=x"]),
            }),
        ]
    };
    let message = dns("A.Example.ORG", 28, None);
    let other = dns("org", 28, None);
    let run = [frame(&query(&message)), frame(&query(&other))].concat();
    let [near, far] = written(stages(), &run.repeat(500), 1000).await;
    assert_eq!(near, far);
    assert_eq!(near.len(), 1000);
    for pair in near.chunks_exact(2) {
        let [first, second] = [&pair[0], &pair[1]].map(|p| DnstapView::parse(p).expect("dnstap"));
        let extra: &[u8] = b"registered_domain=example.org site=x";
        assert_eq!(first.extra, Some(extra));
        assert_eq!(second.extra, Some(&b"site=x"[..]));
        let m = first.message.expect("a message");
        assert_eq!(m.query_message, Some(&*dns("a.example.org", 28, None)));
        assert_eq!(m.query_address, Some(&[192, 0, 2, 0][..]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_a_stage_makes_too_large_is_dropped_and_counted() {
    let (short, long) = (dns("a", 1, None), dns("a.long.name.example.com", 1, None));
    // Both fit as they come; with some 47 octets more only the short one does.
    let limit = frame(&query(&short)).len() - 4 + 50;
    let running = Rig::new()
        .listeners(|listener| listener.data_frame_max = tapflow::units::ByteSize(limit as u64))
        .stage(StageOptions::Decode(DecodeOptions::default()))
        .stage(StageOptions::Tags(TagsOptions {
            add: vec![format!("site={}", "x".repeat(40))],
        }))
        .null()
        .start()
        .await;
    let run = [frame(&query(&short)), frame(&query(&long))].concat();
    let mut peer = Peer::bidirectional(&running.at(Socket::Tcp)).await;
    peer.send(&run.repeat(10)).await;
    peer.stop().await;
    running.wait_settled(20).await;
    let ledger = running.stop().await;
    let want = [("stage:replaced/too_large".to_owned(), 10)];
    assert_eq!(drops(&ledger), want);
    assert_eq!(output(&ledger, "null").delivered, 10);
}
