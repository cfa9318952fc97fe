//! What each output takes in a second, from the lane to the place, with the ledger settled. The frames are the same few
//! batches again and again, so the sender costs next to nothing. `cargo bench --bench outputs [-- FILTER]`.
//!
//! A plain program rather than a statistics harness: a run moves gigabytes, and what matters is the order of magnitude and
//! a comparison on the same machine.
#![allow(
    clippy::print_stdout,
    reason = "a benchmark reports on standard output"
)]

use std::io::Read;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use tapflow::format::Format;
use tapflow::ids::ConnId;
use tapflow::outputs::options::{
    DnstapOptions, FileOptions, ForwardMode, OutputKind, OutputOptions, SendCompression,
};
use tapflow::outputs::{OutputContext, build};
use tapflow::pipeline::batch::{Batch, Origin};
use tapflow::pipeline::fan::Fan;
use tapflow::pipeline::ledger::{Arrival, Ledger};
use tapflow::shutdown;
use tapflow::telemetry::Telemetry;
use tapflow::units::Endpoint;
use tokio::sync::watch;

/// Bytes of a payload: a usual client query or small response.
const PAYLOAD_BYTES: usize = 150;
/// Bytes of a batch: one read of the default size.
const BATCH_BYTES: usize = 256 * 1024;

/// A dnstap CLIENT_QUERY for `www.example.com. A`, padded in `extra` to `PAYLOAD_BYTES`.
fn payload(number: u32) -> Vec<u8> {
    let dns = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\x03com\0\0\x01\0\x01";
    let mut message = vec![0x08, 5, 0x10, 1, 0x18, 1, 0x22, 4, 192, 0, 2, 7, 0x30, 53];
    message.extend([0x40, 0x80, 0xcd, 0xb5, 0xc5, 0x06, 0x4d]);
    message.extend(number.to_le_bytes());
    message.extend([0x52, dns.len() as u8]);
    message.extend(dns);
    let mut out = vec![0x0a, 3, b'n', b's', b'1', 0x72, message.len() as u8];
    out.extend(&message);
    out.extend([0x78, 1]);
    let pad = PAYLOAD_BYTES - out.len() - 2;
    out.extend([0x1a, pad as u8]);
    out.extend(std::iter::repeat_n(b'x', pad));
    out
}

fn batch(origin: &Arc<Origin>) -> Batch {
    let frames = BATCH_BYTES / (PAYLOAD_BYTES + 4);
    let bytes: Vec<u8> = (0..frames as u32)
        .flat_map(|n| {
            let p = payload(n);
            (p.len() as u32).to_be_bytes().into_iter().chain(p)
        })
        .collect();
    Batch::new(
        origin.clone(),
        SystemTime::now(),
        Bytes::from(bytes),
        frames,
    )
}

/// Sends `frames` frames and prints the rate until everything is delivered and the place is closed.
async fn measure(name: &str, frames: u64, kind: OutputKind) {
    if std::env::args()
        .skip(1)
        .any(|a| !a.starts_with('-') && !name.contains(&a))
    {
        return;
    }
    let ledger = Ledger::new();
    let listener = ledger.register_listener("bench");
    let (_trigger, signal) = shutdown::channel();
    let (_rotate, requests) = watch::channel(0);
    let ctx = OutputContext {
        ledger: ledger.clone(),
        telemetry: Telemetry::new(),
        data_dir: std::env::temp_dir(),
        signal,
        rotate: requests,
    };
    let parts = build(&OutputOptions::new(kind), &ctx).expect("the output");
    let driver = parts.driver.expect("an output with a queue");
    let handle = tokio::runtime::Handle::current();
    let run = if driver.blocking() {
        tokio::task::spawn_blocking(move || handle.block_on(driver.run()))
    } else {
        tokio::spawn(driver.run())
    };
    let origin = Arc::new(Origin {
        conn: ConnId::next(),
        listener: "bench".into(),
        peer: "uid=0".into(),
    });
    let batches: Vec<Batch> = (0..16).map(|_| batch(&origin)).collect();
    let mut fan = Fan::new(std::slice::from_ref(&parts.lane));
    let (mut sent, mut bytes) = (0, 0);
    let start = Instant::now();
    for batch in batches.iter().cycle() {
        if sent >= frames {
            break;
        }
        let n = batch.frame_count() as u64;
        ledger.arrive(
            listener,
            &Arrival {
                received: n,
                bytes: batch.len_bytes() as u64,
                kept: n,
                ..Arrival::default()
            },
        );
        fan.push(batch);
        sent += n;
        bytes += batch.len_bytes();
        while !fan.retry() {
            fan.room().await;
        }
    }
    while ledger.snapshot().outputs[0].in_flight > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let delivered_in = start.elapsed().as_secs_f64();
    if let Some(queue) = parts.lane.queue() {
        queue.close();
    }
    run.await.expect("the driver");
    let snapshot = ledger.snapshot();
    assert!(
        snapshot.closes() && snapshot.outputs[0].delivered == sent,
        "{snapshot:?}"
    );
    println!(
        "{name:32} {:8.2} M frames/s {:8.0} MB/s  ({sent} frames, {delivered_in:.2} s, closed after {:.2} s)",
        sent as f64 / delivered_in / 1e6,
        bytes as f64 / delivered_in / 1e6,
        start.elapsed().as_secs_f64(),
    );
}

/// Reads everything from one connection, and answers nothing.
fn discard(mut from: impl Read + Send + 'static) {
    let mut buf = vec![0; 1 << 20];
    while from.read(&mut buf).is_ok_and(|n| n > 0) {}
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let dir = tempfile::tempdir().expect("a folder");
        let file = |sub: &str, format, compress| {
            OutputKind::File(FileOptions {
                path: dir.path().join(sub),
                format,
                compress,
                keep_files: 4,
                utc: true,
                ..FileOptions::default()
            })
        };
        let million = 1_000_000;
        measure(
            "file fstrm",
            20 * million,
            file("plain", Format::Fstrm, SendCompression::Off),
        )
        .await;
        measure(
            "file fstrm, zstd on close",
            20 * million,
            file("zstd", Format::Fstrm, SendCompression::Zstd),
        )
        .await;
        measure(
            "file text",
            4 * million,
            file("text", Format::TEXT, SendCompression::Off),
        )
        .await;
        measure(
            "file json",
            4 * million,
            file("json", Format::JSON, SendCompression::Off),
        )
        .await;
        for (name, compress, bulk) in [
            ("forward unix raw", SendCompression::Off, false),
            ("forward unix raw, lz4 bulk", SendCompression::Lz4, true),
            ("forward unix raw, zstd bulk", SendCompression::Zstd, true),
        ] {
            let path = dir.path().join("sock");
            let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
            std::thread::spawn(move || discard(listener.accept().expect("a connection").0));
            let options = DnstapOptions {
                to: Endpoint::unix(&path),
                mode: ForwardMode::Raw,
                compress,
                bulk,
                ..DnstapOptions::default()
            };
            measure(name, 10 * million, OutputKind::Dnstap(options)).await;
            std::fs::remove_file(&path).expect("the socket");
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        std::thread::spawn(move || discard(listener.accept().expect("a connection").0));
        let options = DnstapOptions {
            to: Endpoint::tcp("127.0.0.1", port),
            mode: ForwardMode::Raw,
            ..DnstapOptions::default()
        };
        measure("forward tcp raw", 20 * million, OutputKind::Dnstap(options)).await;
    });
}
