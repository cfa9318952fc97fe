//! What the tests of the outputs share: a process without listeners, numbered frames, a receiver that can be killed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use tapflow::fstrm::compress::{Codec, Decompressor};
use tapflow::fstrm::{
    Action, BufOptions, BufPool, ContentType, Control, ControlKind, Decoder, FrameBuf, Frames,
    Item, Limits, Mode, Oversize, Receiver,
};
use tapflow::ids::{ConnId, ListenerId};
use tapflow::outputs::Runner;
use tapflow::outputs::options::{FileOptions, OutputKind, OutputOptions, SendCompression};
use tapflow::outputs::{OutputContext, build};
use tapflow::pipeline::batch::{Batch, Origin};
use tapflow::pipeline::fan::Fan;
use tapflow::pipeline::lane::Lane;
use tapflow::pipeline::ledger::{Arrival, Ledger, OutputDrop, OutputSnapshot};
use tapflow::shutdown::{self, Phase, Trigger};
use tapflow::telemetry::Telemetry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{oneshot, watch};

/// Nothing here takes longer unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for `condition`, and says which one it was when it does not come true.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(
            start.elapsed() < PATIENCE,
            "not within {PATIENCE:?}: {what}"
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A dnstap payload that carries `number` as its identity, padded in `extra` to at least `size` bytes.
pub(crate) fn payload(number: u64, size: usize) -> Vec<u8> {
    let mut out = vec![0x0a, 8];
    out.extend(number.to_be_bytes());
    let pad = size.saturating_sub(20).clamp(1, 16_000);
    out.extend([0x1a, (pad as u8 & 0x7f) | 0x80, (pad >> 7) as u8]);
    out.extend(std::iter::repeat_n(b'.', pad));
    // message { type: AUTH_QUERY }, type: MESSAGE
    out.extend([0x72, 2, 0x08, 1, 0x78, 1]);
    out
}

/// The number of a payload.
pub(crate) fn number(payload: &[u8]) -> u64 {
    u64::from_be_bytes(payload[2..10].try_into().unwrap())
}

/// The frames of these numbers as a run.
pub(crate) fn run(numbers: std::ops::Range<u64>, size: usize) -> Vec<u8> {
    numbers
        .flat_map(|n| {
            let p = payload(n, size);
            (p.len() as u32).to_be_bytes().into_iter().chain(p)
        })
        .collect()
}

/// A process with outputs and no listener.
pub(crate) struct Rig {
    pub(crate) ctx: OutputContext,
    pub(crate) trigger: Trigger,
    pub(crate) rotate: watch::Sender<u64>,
    listener: ListenerId,
    origin: Arc<Origin>,
    next: u64,
    pub(crate) dir: tempfile::TempDir,
}

/// An output that runs.
pub(crate) struct Running {
    pub(crate) lane: Lane,
    done: Option<oneshot::Receiver<()>>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let ledger = Ledger::new();
        let (trigger, signal) = shutdown::channel();
        let (rotate, requests) = watch::channel(0);
        let dir = tempfile::tempdir().unwrap();
        let listener = ledger.register_listener("test");
        let ctx = OutputContext {
            ledger,
            telemetry: Telemetry::new(),
            data_dir: dir.path().to_owned(),
            signal,
            rotate: requests,
        };
        let origin = Arc::new(Origin {
            conn: ConnId::next(),
            listener: "test".into(),
            peer: "uid=0".into(),
        });
        Self {
            ctx,
            trigger,
            rotate,
            listener,
            origin,
            next: 0,
            dir,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn start(&self, name: &str, options: OutputOptions) -> Running {
        let parts = build(
            &OutputOptions {
                name: name.into(),
                ..options
            },
            &self.ctx,
        )
        .unwrap();
        let done = parts.driver.map(spawn);
        Running {
            lane: parts.lane,
            done,
        }
    }

    /// Sends `count` frames of `size` bytes in batches of `per_batch`, as a connection would.
    pub(crate) async fn send(
        &mut self,
        lanes: &[&Running],
        count: u64,
        per_batch: u64,
        size: usize,
    ) {
        let lanes: Vec<Lane> = lanes.iter().map(|r| r.lane.clone()).collect();
        let mut fan = Fan::new(&lanes);
        let end = self.next + count;
        while self.next < end {
            let upto = (self.next + per_batch).min(end);
            let bytes = run(self.next..upto, size);
            let frames = upto - self.next;
            self.next = upto;
            let arrival = Arrival {
                received: frames,
                bytes: bytes.len() as u64,
                kept: frames,
                ..Arrival::default()
            };
            self.ctx.ledger.arrive(self.listener, &arrival);
            if fan.keeps_bytes() {
                fan.push(&Batch::new(
                    self.origin.clone(),
                    SystemTime::now(),
                    Bytes::from(bytes),
                    frames as usize,
                ));
            } else {
                fan.deliver_inline(frames);
            }
            while !fan.retry() {
                fan.room().await;
            }
        }
        assert!(self.ctx.ledger.snapshot().closes());
    }

    /// Sends bytes that are one frame.
    pub(crate) async fn send_raw(&mut self, lanes: &[&Running], payload: &[u8]) {
        let lanes: Vec<Lane> = lanes.iter().map(|r| r.lane.clone()).collect();
        let mut bytes = (payload.len() as u32).to_be_bytes().to_vec();
        bytes.extend(payload);
        self.ctx.ledger.arrive(
            self.listener,
            &Arrival {
                received: 1,
                bytes: bytes.len() as u64,
                kept: 1,
                ..Arrival::default()
            },
        );
        Fan::new(&lanes).push(&Batch::new(
            self.origin.clone(),
            SystemTime::now(),
            bytes.into(),
            1,
        ));
    }

    pub(crate) fn sent(&self) -> u64 {
        self.next
    }

    pub(crate) fn account(&self, output: &Running) -> OutputSnapshot {
        let snapshot = self.ctx.ledger.snapshot();
        assert!(snapshot.closes(), "{snapshot:?}");
        snapshot.outputs[output.lane.id.0].clone()
    }

    pub(crate) async fn settled(&self, output: &Running) {
        until("nothing in flight", || self.account(output).in_flight == 0).await;
    }

    pub(crate) fn rotate(&self) {
        self.rotate.send_modify(|n| *n += 1);
    }

    /// The value of a series.
    pub(crate) fn metric(&self, series: &str) -> f64 {
        let text = self.ctx.telemetry.render();
        let line = text.lines().find(|l| {
            l.strip_prefix(series)
                .is_some_and(|rest| rest.starts_with(' '))
        });
        line.unwrap_or_else(|| panic!("no series {series} in\n{text}"))
            .rsplit(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap()
    }

    /// Ends an output as the process does: no more batches, what is queued is written.
    pub(crate) async fn drain(&self, output: &mut Running) -> OutputSnapshot {
        if let Some(queue) = output.lane.queue() {
            queue.close();
        }
        if let Some(done) = output.done.take() {
            tokio::time::timeout(PATIENCE, done)
                .await
                .expect("the output drains")
                .unwrap();
        }
        let account = self.account(output);
        assert_eq!(account.in_flight, 0);
        account
    }

    /// Ends everything now; returns how long that took.
    pub(crate) async fn abort(&self, output: &mut Running) -> Duration {
        let start = Instant::now();
        self.trigger.advance(Phase::Aborting);
        let done = output.done.take().unwrap();
        tokio::time::timeout(PATIENCE, done)
            .await
            .expect("the output ends")
            .unwrap();
        assert_eq!(self.account(output).in_flight, 0);
        start.elapsed()
    }
}

/// Runs a driver where the process would.
fn spawn(driver: Runner) -> oneshot::Receiver<()> {
    let (tx, rx) = oneshot::channel();
    if driver.blocking() {
        let handle = tokio::runtime::Handle::current();
        std::thread::spawn(move || {
            handle.block_on(driver.run());
            let _ = tx.send(());
        });
    } else {
        tokio::spawn(async move {
            driver.run().await;
            let _ = tx.send(());
        });
    }
    rx
}

pub(crate) fn dropped(account: &OutputSnapshot, reason: OutputDrop) -> u64 {
    account.dropped.iter().find(|d| d.0 == reason).unwrap().1
}

/// A file output without rotation and compression in the folder `dir`.
pub(crate) fn file_options(dir: &Path) -> FileOptions {
    FileOptions {
        path: dir.to_owned(),
        prefix: "tap".into(),
        compress: SendCompression::Off,
        rotate_size: tapflow::units::ByteSize(0),
        rotate_time: tapflow::units::Span::OFF,
        keep_files: 0,
        ..FileOptions::default()
    }
}

pub(crate) fn file_output(options: FileOptions) -> OutputOptions {
    OutputOptions::new(OutputKind::File(options))
}

/// The files in a folder, sorted by name. One that is renamed at this moment may be missing.
pub(crate) fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap());
    let read = |e: std::fs::DirEntry| {
        Some((
            e.file_name().into_string().unwrap(),
            std::fs::read(e.path()).ok()?,
        ))
    };
    entries.filter_map(read).collect()
}

/// The numbers in a .fstrm file, which must be START, whole frames, STOP and nothing else.
pub(crate) fn numbers_of_file(name: &str, bytes: &[u8]) -> Vec<u64> {
    let start = Control::with_type(ControlKind::Start, Some(ContentType::DNSTAP)).to_bytes();
    let stop = Control::plain(ControlKind::Stop).to_bytes();
    let body = bytes
        .strip_prefix(&start[..])
        .unwrap_or_else(|| panic!("{name}: no START"));
    let body = body
        .strip_suffix(&stop[..])
        .unwrap_or_else(|| panic!("{name}: no STOP"));
    Frames::count_of(body).unwrap_or_else(|e| panic!("{name}: {e}"));
    Frames::new(body).map(number).collect()
}

/// What a receiver got.
#[derive(Default)]
pub(crate) struct Got {
    /// Numbers of whole frames, in order, for each connection that got past its handshake.
    pub(crate) connections: Vec<Vec<u64>>,
    /// Connections that ended with STOP.
    pub(crate) stopped: usize,
}

impl Got {
    pub(crate) fn all(&self) -> Vec<u64> {
        self.connections.concat()
    }
}

/// How a receiver behaves.
#[derive(Clone, Copy)]
pub(crate) struct Habits {
    pub(crate) mode: Mode,
    /// Reads nothing after the handshake until told to.
    pub(crate) stalls: bool,
    /// Closes a connection as soon as it has got so many frames over it.
    pub(crate) dies_after: usize,
}

impl Habits {
    pub(crate) const GOOD: Self = Self {
        mode: Mode::Auto,
        stalls: false,
        dies_after: usize::MAX,
    };
}

/// A collector for tests, on a Unix socket. Dropping it closes everything at once, as a killed process would.
pub(crate) struct Peer {
    pub(crate) got: Arc<Mutex<Got>>,
    pub(crate) go: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
    path: PathBuf,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Peer {
    pub(crate) fn listen(path: &Path, habits: Habits) -> Self {
        Self::listen_with(path, habits, Arc::default())
    }

    /// Goes on counting in `got`.
    pub(crate) fn listen_with(path: &Path, habits: Habits, got: Arc<Mutex<Got>>) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let (go, gate) = watch::channel(!habits.stalls);
        let shared = got.clone();
        let task = tokio::spawn(async move {
            // One connection at a time is what one output makes.
            while let Ok((stream, _)) = listener.accept().await {
                let _ = serve(stream, habits, &shared, gate.clone()).await;
            }
        });
        Self {
            got,
            go,
            task,
            path: path.to_owned(),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.got
            .lock()
            .unwrap()
            .connections
            .iter()
            .map(Vec::len)
            .sum()
    }
}

async fn serve(
    mut stream: UnixStream,
    habits: Habits,
    got: &Mutex<Got>,
    mut gate: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let mut receiver = Receiver::new(habits.mode, vec![ContentType::DNSTAP]);
    let mut decoder = Decoder::new(Limits::default(), Oversize::Skip);
    let mut buf = FrameBuf::new(BufOptions::default(), BufPool::new(256 * 1024, 2));
    let mut inflated = Decompressor::new(8 << 20);
    let place = {
        let mut got = got.lock().unwrap();
        got.connections.push(Vec::new());
        got.connections.len() - 1
    };
    loop {
        while let Some(item) = decoder.next(&mut buf).unwrap() {
            match item {
                Item::Run { len, .. } => {
                    let _ = receiver.on_data().unwrap();
                    let mut numbers = Vec::new();
                    for payload in Frames::new(&buf.unread()[..len]) {
                        match Codec::recognise(payload) {
                            None => numbers.push(number(payload)),
                            Some(codec) => {
                                let mut out = Vec::new();
                                inflated.inner(codec, payload, &mut out).unwrap();
                                numbers.extend(Frames::new(&out).map(number));
                            }
                        }
                    }
                    buf.consume(len);
                    let mut got = got.lock().unwrap();
                    got.connections[place].extend(numbers);
                    if got.connections[place].len() >= habits.dies_after {
                        return Ok(());
                    }
                }
                Item::Control(control) => match receiver.on_control(&control).unwrap() {
                    Action::Reply(reply) => stream.write_all(&reply.to_bytes()).await?,
                    Action::Started | Action::Mark(_) | Action::Ignored(_) => {}
                    Action::Stopped { reply } => {
                        got.lock().unwrap().stopped += 1;
                        if let Some(reply) = reply {
                            stream.write_all(&reply.to_bytes()).await?;
                        }
                        return Ok(());
                    }
                },
                Item::Skipped { .. } => panic!("nothing here is oversized"),
            }
        }
        if receiver.streaming() {
            let _ = gate.wait_for(|go| *go).await;
        }
        let n = stream.read(buf.spare(64 * 1024)).await?;
        if n == 0 {
            return Ok(());
        }
        buf.filled(n);
    }
}
