//! `/metrics`: everything is there from zero, nothing grows with what senders say, and Prometheus likes it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use tapflow::app::Service;
use tapflow::config::Config;
use tapflow::config::resolve::Surroundings;
use tapflow::stages::options::{DecodeOptions, MetricsOptions, StageOptions};
use tapflow::telemetry::{self, Kind};
use tapflow::units::Endpoint;

use crate::support::frames::{dns, frame, query, query_frame, response};
use crate::support::peer::Peer;
use crate::support::rig::{Rig, Running, Socket};
use crate::support::scrape::Scrape;
use crate::support::{eventually, http, raise_open_files};

/// The page of a service that runs the main job, on other sockets, with a forward beside the files.
async fn main_job_page() -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut config = Config {
        data_dir: folder.path().to_owned(),
        ..Config::default()
    };
    config.http.address.set_port(0);
    config.listener[1].uri = Endpoint::tcp("127.0.0.1", 0);
    let forward = tapflow::outputs::options::DnstapOptions {
        to: Endpoint::unix(folder.path().join("nobody")),
        ..Default::default()
    };
    config
        .output
        .push(tapflow::outputs::options::OutputOptions::new(
            tapflow::outputs::options::OutputKind::Dnstap(forward),
        ));
    let mut sessions = config.listener[1].clone();
    sessions.uri = Endpoint::mux(Endpoint::unix(folder.path().join("sessions")));
    config.listener.push(sessions);
    let workers = tapflow::outputs::options::MuxOptions {
        workers: vec![Endpoint::unix(folder.path().join("no worker"))],
        ..Default::default()
    };
    config
        .output
        .push(tapflow::outputs::options::OutputOptions::new(
            tapflow::outputs::options::OutputKind::Mux(workers),
        ));
    let service = Service::start(&config.resolve(&Surroundings::default()))
        .await
        .expect("the service starts");
    let address = service.http().expect("HTTP is on");
    let page = tokio::task::spawn_blocking(move || http::get(address, "/metrics"))
        .await
        .expect("the client runs");
    service.stop().await;
    let (status, page) = page.expect("the page is served");
    assert_eq!(status, 200);
    page
}

/// B048: every metric has a series right after the start, at zero.
#[tokio::test(flavor = "multi_thread")]
async fn every_metric_exists_from_zero() {
    let page = main_job_page().await;
    let scrape = Scrape::of(&page);
    // Those of TLS are there where there is TLS, and a certificate's time is known.
    let everywhere = |m: &&telemetry::Metric| !m.name.starts_with("tapflow_tls_");
    for metric in telemetry::ALL.iter().filter(everywhere) {
        let name = match metric.kind {
            Kind::Histogram => format!("{}_count", metric.name),
            Kind::Counter | Kind::Gauge => metric.name.to_owned(),
        };
        let series: Vec<_> = scrape
            .0
            .iter()
            .filter(|(s, _)| s.split('{').next() == Some(&name))
            .collect();
        assert!(!series.is_empty(), "{name} has no series at the start");
        for (series, _) in &series {
            assert!(
                metric
                    .labels
                    .iter()
                    .all(|l| series.contains(&format!("{l}=\""))),
                "{series} lacks a label of {:?}",
                metric.labels
            );
        }
        let moving = [
            "tapflow_build_info",
            "tapflow_output_connected",
            "tapflow_output_reconnects_total",
            "tapflow_output_errors_total",
            "tapflow_output_bytes_total",
        ];
        if !moving.contains(&metric.name) {
            assert!(
                series.iter().all(|(_, v)| **v == 0.0),
                "{name} does not begin at zero: {series:?}"
            );
        }
        assert!(
            page.contains(&format!("# HELP {} ", metric.name)),
            "{} has no HELP",
            metric.name
        );
    }
    for series in [
        "tapflow_frames_dropped_total{at=\"stage:decode\",reason=\"protobuf_truncated\"}",
        "tapflow_frames_dropped_total{at=\"listener:unix-dnstap\",reason=\"oversized\"}",
        "tapflow_frames_dropped_total{at=\"output:file\",reason=\"queue_full\"}",
        "tapflow_connections_closed_total{listener=\"unix-dnstap\",reason=\"clean\"}",
        "tapflow_dns_latency_seconds_count{type=\"CLIENT_RESPONSE\"}",
    ] {
        assert_eq!(scrape.value(series), 0.0);
    }
    assert!(scrape.value("process_resident_memory_bytes") > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn promtool_finds_nothing_to_say_about_the_page() {
    let page = main_job_page().await;
    let child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        println!("skipped: promtool (Debian's prometheus package) is not installed");
        return;
    };
    child
        .stdin
        .take()
        .expect("standard input is piped")
        .write_all(page.as_bytes())
        .expect("promtool reads");
    let output = child.wait_with_output().expect("promtool ends");
    let said = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success() && said.is_empty(),
        "{}",
        String::from_utf8_lossy(&said)
    );
}

fn series(running: &Running) -> Vec<String> {
    running.scrape().0.into_keys().collect()
}

/// B055, B059: names, types and codes that nobody has seen before leave the series as they were.
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_thousand_names_leave_the_series_unchanged() {
    const NAMES: u64 = 200_000;
    let running = Rig::new().decoding().null().start().await;
    // The two series of those who are connected here exist once they have been seen.
    running.serves_well(Socket::Unix, 1).await;
    let before = series(&running);
    let mut peer = Peer::bidirectional(&running.at(Socket::Unix)).await;
    let mut run = Vec::new();
    for n in 0..NAMES {
        let message = dns(
            &format!("n{n}.{}.example", n % 977),
            (n % 65_536) as u16,
            (n % 2 == 1).then_some((n % 16) as u8),
        );
        let mut view = if n % 2 == 1 {
            response(&message)
        } else {
            query(&message)
        };
        if let Some(m) = &mut view.message {
            m.socket_protocol = Some(n as i32 % 300);
            m.socket_family = Some(n as i32 % 5);
            m.kind = m.kind.map(|k| if n % 100 < 98 { k } else { n as i32 });
        }
        run.extend(frame(&view));
        if run.len() > 1 << 18 {
            peer.send(&std::mem::take(&mut run)).await;
        }
    }
    peer.send(&run).await;
    peer.stop().await;
    let ledger = running.wait_settled(NAMES + 1).await;
    assert_eq!(ledger.lost(), 0);
    let after = series(&running);
    assert_eq!(before, after);
    assert_eq!(
        running.scrape().sum("tapflow_dnstap_messages_total", &[]),
        (NAMES + 1) as f64
    );
    running.stop().await;
}

/// B055, B056: identities have a bounded number of series, whatever is in them (p30, p31), and however they come.
#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_identities_make_no_more_series_than_are_set() {
    let stage = StageOptions::Metrics(MetricsOptions {
        identities_max: 100,
    });
    let running = Rig::new()
        .stage(StageOptions::Decode(DecodeOptions::default()))
        .stage(stage)
        .null()
        .start()
        .await;
    let message = dns("example", 1, None);
    for connection in 0..5 {
        let mut peer = Peer::bidirectional(&running.at(Socket::Unix)).await;
        let mut run = Vec::new();
        for n in 0..1000u32 {
            let text = [
                format!("server{n}-{connection}\n\0\"").into_bytes(),
                vec![0xff; 300 * (n as usize % 2)],
            ]
            .concat();
            let mut view = query(&message);
            view.identity = Some(&text);
            run.extend(frame(&view));
        }
        peer.send(&run).await;
        peer.stop().await;
    }
    running.wait_settled(5000).await;
    let scrape = running.scrape();
    let seen = scrape
        .0
        .keys()
        .filter(|s| s.starts_with("tapflow_identity_last_seen"))
        .count();
    assert!((100..=101).contains(&seen), "{seen} series");
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("a clock")
        .as_secs_f64();
    let other = scrape.value("tapflow_identity_last_seen_timestamp_seconds{identity=\"other\"}");
    assert!((now - other).abs() < 120.0, "{other} is not now, {now}");
    running.stop().await;
}

/// B086: a sender without an identity is shown under its address, never under an empty label.
#[tokio::test(flavor = "multi_thread")]
async fn without_an_identity_the_peer_stands_in() {
    let running = Rig::new().decoding().null().start().await;
    let message = dns("example", 1, None);
    for identity in [None, Some(&b""[..])] {
        let mut view = query(&message);
        view.identity = identity;
        let mut peer = Peer::bidirectional(&running.at(Socket::Tcp)).await;
        peer.send(&frame(&view)).await;
        peer.stop().await;
    }
    running.wait_settled(2).await;
    let scrape = running.scrape();
    let seen = scrape.nonzero("tapflow_identity_last_seen_timestamp_seconds");
    assert_eq!(
        seen.keys().collect::<Vec<_>>(),
        ["{identity=\"peer 127.0.0.1\"}"]
    );
    running.stop().await;
}

/// B061: a scrape stays small with a hundred streams, each with an identity of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_scrape_with_a_hundred_streams_is_under_a_megabyte() {
    raise_open_files();
    let running = Rig::new().decoding().null().start().await;
    let message = dns("example", 1, None);
    let mut peers = Vec::new();
    for n in 0..100 {
        let identity = format!("resolver-{n}.of.a.large.operator.example");
        let mut view = query(&message);
        view.identity = Some(identity.as_bytes());
        let mut peer = Peer::bidirectional(&running.at(Socket::BOTH[n % 2])).await;
        peer.send(&frame(&view)).await;
        peers.push(peer);
    }
    running.wait_settled(100).await;
    let page = running.service.pages().metrics();
    println!("{} bytes, {} series", page.len(), Scrape::of(&page).0.len());
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    assert_eq!(
        Scrape::of(&page).sum("tapflow_connections_active", &[]),
        100.0
    );
    for peer in peers {
        peer.stop().await;
    }
    running.stop().await;
}

/// Seconds and nanoseconds of the query, and of the response.
type Times = (Option<u64>, Option<u32>, Option<u64>, Option<u32>);

/// B060, B072: latency only where both times are there and make sense; sizes in their buckets; counters by type.
#[tokio::test(flavor = "multi_thread")]
async fn histograms_count_what_is_sane_and_nothing_else() {
    let running = Rig::new().decoding().null().start().await;
    let message = dns("example.com", 1, Some(3));
    let times: [Times; 7] = [
        (Some(1000), Some(0), Some(1000), Some(2_000_000)),
        (Some(1000), Some(999_000_000), Some(1001), Some(0)),
        // No query time, no response time, the answer before the question, no time of day, a difference of years.
        (None, None, Some(1000), Some(0)),
        (Some(1000), Some(0), None, None),
        (Some(1001), Some(0), Some(1000), Some(0)),
        (Some(1000), Some(0), Some(1000), Some(1_000_000_000)),
        (Some(0), Some(0), Some(u64::MAX), Some(0)),
    ];
    let mut run = query_frame("www.example.com").repeat(4);
    for (qs, qn, rs, rn) in times {
        let mut view = response(&message);
        if let Some(m) = &mut view.message {
            (
                m.query_time_sec,
                m.query_time_nsec,
                m.response_time_sec,
                m.response_time_nsec,
            ) = (qs, qn, rs, rn);
        }
        run.extend(frame(&view));
    }
    let mut peer = Peer::bidirectional(&running.at(Socket::Unix)).await;
    peer.send(&run).await;
    peer.stop().await;
    assert_eq!(running.wait_settled(11).await.lost(), 0);
    eventually("the last batch is published", || {
        (running.scrape().value("tapflow_dns_response_bytes_count") == 7.0).then_some(())
    })
    .await;
    let scrape = running.scrape();
    let latency = |series: &str| scrape.value(&format!("tapflow_dns_latency_seconds_{series}"));
    assert_eq!(latency("count{type=\"CLIENT_RESPONSE\"}"), 2.0);
    assert!((latency("sum{type=\"CLIENT_RESPONSE\"}") - 0.003).abs() < 1e-9);
    assert_eq!(
        latency("bucket{type=\"CLIENT_RESPONSE\",le=\"0.0005\"}"),
        0.0
    );
    assert_eq!(
        latency("bucket{type=\"CLIENT_RESPONSE\",le=\"0.001\"}"),
        1.0
    );
    assert_eq!(
        latency("bucket{type=\"CLIENT_RESPONSE\",le=\"0.0025\"}"),
        2.0
    );
    assert_eq!(scrape.sum("tapflow_dns_latency_seconds_count", &[]), 2.0);
    let len = dns("www.example.com", 1, None).len() as f64;
    assert_eq!(
        (
            scrape.value("tapflow_dns_query_bytes_count"),
            scrape.value("tapflow_dns_query_bytes_sum")
        ),
        (4.0, 4.0 * len)
    );
    assert_eq!(
        (
            scrape.value("tapflow_dns_query_bytes_bucket{le=\"32\"}"),
            scrape.value("tapflow_dns_query_bytes_bucket{le=\"64\"}")
        ),
        (0.0, 4.0)
    );
    assert_eq!(
        scrape
            .nonzero("tapflow_dns_queries_total")
            .into_iter()
            .collect::<Vec<_>>(),
        [("{qtype=\"A\"}".to_owned(), 4.0)]
    );
    assert_eq!(
        scrape
            .nonzero("tapflow_dns_responses_total")
            .into_iter()
            .collect::<Vec<_>>(),
        [("{rcode=\"NXDOMAIN\"}".to_owned(), 7.0)]
    );
    running.stop().await;
}
