//! A forward over TLS: what it trusts, what it shows, and what is counted when it gets nowhere.

use tapflow::outputs::options::{DnstapOptions, OutputKind, OutputOptions};
use tapflow::units::{Endpoint, Span};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::pki::Authority;
use crate::support::{Place, Running, eventually, frames};

#[tokio::test(flavor = "multi_thread")]
async fn a_forward_reaches_a_collector_that_it_may_trust_and_counts_why_it_reaches_no_other() {
    let place = Place::new();
    let shown = place.ca.sign("shown", &["edge.example.net"]);
    let rogue = Authority::new(place.path(), "rogue");
    let unknown = rogue.sign("unknown", &["edge.example.net"]);
    let centre = place.strict(&["edge.example.net"]).await;
    let Endpoint::Tls { port, .. } = centre.at() else {
        panic!("a TLS place");
    };
    let forward = |name: &str, change: &dyn Fn(&mut DnstapOptions)| {
        let mut options = DnstapOptions {
            to: Endpoint::tls("localhost", port),
            tls_ca: place.ca.file.clone(),
            tls_cert: shown.cert.clone(),
            tls_key: shown.key.clone(),
            reconnect_max: Span::millis(200),
            ..DnstapOptions::default()
        };
        change(&mut options);
        OutputOptions {
            name: name.to_owned(),
            policy: tapflow::outputs::options::QueuePolicy::DropNewest,
            ..OutputOptions::new(OutputKind::Dnstap(options))
        }
    };
    let mut config = place.config(|o| {
        o.uri = Endpoint::tcp("127.0.0.1", 0);
        (o.tls_cert, o.tls_key) = Default::default();
    });
    config.shutdown_timeout = Span::secs(5);
    config.output = vec![
        forward("good", &|_| {}),
        forward("authority", &|o| o.tls_ca = rogue.file.clone()),
        forward("name", &|o| {
            o.tls_server_name = "collector.example.net".to_owned()
        }),
        forward("unknown", &|o| {
            (o.tls_cert, o.tls_key) = (unknown.cert.clone(), unknown.key.clone());
        }),
        forward("none", &|o| (o.tls_cert, o.tls_key) = Default::default()),
    ];
    let edge = Running::start(&config).await;
    for (output, reason) in [
        ("authority", "tls_unknown_authority"),
        ("name", "tls_wrong_name"),
        ("unknown", "tls_refused"),
        ("none", "tls_refused"),
    ] {
        let series =
            format!("tapflow_output_reconnects_total{{output=\"{output}\",reason=\"{reason}\"}}");
        eventually(&series, || (edge.value(&series) >= 1.0).then_some(())).await;
    }
    let mut sender = TcpStream::connect(("127.0.0.1", edge.port()))
        .await
        .unwrap();
    let mut outbox = frames(Some("edge"), 1000);
    let start = [
        &[0, 0, 0, 0, 0, 0, 0, 34, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 22][..],
        b"protobuf:dnstap.Dnstap",
    ]
    .concat();
    sender.write_all(&start).await.unwrap();
    let mut slices = [std::io::IoSlice::new(&[])];
    outbox.slices(&mut slices, usize::MAX);
    sender.write_all(&slices[0]).await.unwrap();
    outbox.give_up();
    centre.wait_received(1000).await;
    drop(sender);
    let ledger = edge.service.stop().await;
    assert!(ledger.closes());
    let good = ledger.outputs.iter().find(|o| &*o.name == "good").unwrap();
    assert_eq!(good.delivered, 1000);
    assert_eq!(centre.service.stop().await.lost(), 0);
}
