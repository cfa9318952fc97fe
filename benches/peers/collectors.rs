//! Collectors that take the same frames over a Unix socket from the same sender.
//!
//! tapflow, `fstrm_capture`, farsight's and golang-dnstap's readers (in our Go program). DNS-collector takes part with
//! `--dns-collector PATH`, judged by what its own metrics say. There was no build of Vector at hand to write its part with.

use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::figures::Spread;
use crate::support::input::Input;
use crate::support::proc::{Killed, Usage, finish, installed, line, usage};
use crate::support::serve::{Serve, Setup, Stages, replay, send};
use crate::support::{Result, Settings};

/// What a round gave.
struct Round {
    sent: usize,
    delivered: usize,
    seconds: f64,
    used: Usage,
}

impl Round {
    fn rate(&self) -> f64 {
        self.delivered as f64 / self.seconds
    }
}

/// Which round of ours a peer's is set against.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Work {
    /// Frames alone.
    Frames,
    /// Decoded and counted.
    Counted,
}

enum Who {
    Tapflow,
    Capture,
    /// Both ends are the reference implementation's.
    CaptureFromReplay,
    Go(&'static str),
    DnsCollector(PathBuf),
    Missing(&'static str),
}

struct Collector {
    name: &'static str,
    work: Work,
    who: Who,
    rounds: Vec<Round>,
}

struct Bench<'a> {
    folder: &'a Path,
    input: Input,
    go: Option<&'a Path>,
    frames: usize,
}

/// A row for each collector.
pub(crate) fn run(
    settings: &Settings,
    folder: &Path,
    go: Option<&Path>,
) -> Result<Vec<Vec<String>>> {
    let bench = Bench {
        folder,
        input: Input::captures(folder)?,
        go,
        frames: settings.frames,
    };
    let capture = installed("fstrm_capture");
    let fstrm = |who| match capture {
        true => who,
        false => Who::Missing("not installed: apt-get install fstrm-bin"),
    };
    let in_go = |name| match go {
        Some(_) => Who::Go(name),
        None => Who::Missing("Go or its modules are not to be had here"),
    };
    let dns_collector = settings.option("--dns-collector").map_or(
        Who::Missing("no build at hand: its module is not to be had from the Go proxy here; `--dns-collector PATH`"),
        |path| Who::DnsCollector(path.into()),
    );
    let mut all: Vec<Collector> = [
        ("tapflow, decode and metrics", Work::Counted, Who::Tapflow),
        (
            "golang-dnstap with miekg/dns, counted",
            Work::Counted,
            in_go("golang-dnstap"),
        ),
        (
            "DNS-collector, dnstap to prometheus",
            Work::Counted,
            dns_collector,
        ),
        (
            "Vector, dnstap source",
            Work::Counted,
            Who::Missing("no build at hand"),
        ),
        ("tapflow, undecoded", Work::Frames, Who::Tapflow),
        ("fstrm_capture", Work::Frames, fstrm(Who::Capture)),
        (
            "fstrm_capture from fstrm_replay",
            Work::Frames,
            fstrm(Who::CaptureFromReplay),
        ),
        (
            "golang-framestream's reader",
            Work::Frames,
            in_go("farsight"),
        ),
        (
            "golang-dnstap's input, undecoded",
            Work::Frames,
            in_go("golang-dnstap-frames"),
        ),
        (
            "go-framestream 1.8's reader",
            Work::Frames,
            Who::Missing("its module is not to be had from the Go proxy here"),
        ),
    ]
    .into_iter()
    .map(|(name, work, who)| Collector {
        name,
        work,
        who,
        rounds: Vec::new(),
    })
    .collect();
    for _ in 0..settings.rounds {
        for collector in &mut all {
            let round = bench
                .round(collector)
                .map_err(|e| format!("{}: {e}", collector.name))?;
            collector.rounds.extend(round);
        }
    }
    Ok(all.iter().map(|c| row(c, &all)).collect())
}

fn row(collector: &Collector, all: &[Collector]) -> Vec<String> {
    if let Who::Missing(why) = collector.who {
        let dash = || "–".to_owned();
        return vec![
            collector.name.to_owned(),
            why.to_owned(),
            dash(),
            dash(),
            dash(),
            dash(),
            dash(),
        ];
    }
    let of = |f: &dyn Fn(&Round) -> f64| Spread::of(collector.rounds.iter().map(f));
    // Ours doing the same work, and ours decoding and counting beside a peer that does not.
    let times = |work: Work| {
        let ours = all
            .iter()
            .find(|c| c.work == work && matches!(c.who, Who::Tapflow));
        let comparable = !matches!(collector.who, Who::Tapflow) && collector.work <= work;
        match ours.filter(|_| comparable) {
            Some(ours) => {
                let pairs = ours.rounds.iter().zip(&collector.rounds);
                let ratio = Spread::of(pairs.map(|(a, b)| a.rate() / b.rate()));
                format!("{ratio:.1} times")
            }
            None => String::new(),
        }
    };
    let delivered = of(&|r| r.delivered as f64 / r.sent as f64 * 100.0);
    let peak = collector.rounds.iter().map(|r| r.used.peak).max();
    vec![
        collector.name.to_owned(),
        format!("{:.2}", of(&|r| r.rate() / 1e6)),
        format!("{:.1} %", delivered.low()),
        format!(
            "{:.0} ns",
            of(&|r| r.used.cpu * 1e9 / r.delivered as f64).median()
        ),
        format!("{} MiB", peak.unwrap_or(0).div_ceil(1 << 20)),
        times(Work::Frames),
        times(Work::Counted),
    ]
}

impl Bench<'_> {
    fn round(&self, collector: &Collector) -> Result<Option<Round>> {
        match &collector.who {
            Who::Missing(_) => Ok(None),
            Who::Tapflow => self.tapflow(collector.work).map(Some),
            Who::Capture => self.capture(false).map(Some),
            Who::CaptureFromReplay => self.capture(true).map(Some),
            Who::Go(name) => self.go(name).map(Some),
            Who::DnsCollector(path) => self.dns_collector(path).map(Some),
        }
    }

    /// How often the captures are sent: peers take longer, so they get a tenth.
    fn loops(&self, peer: bool) -> usize {
        self.input.loops(self.frames / if peer { 10 } else { 1 })
    }

    fn tapflow(&self, work: Work) -> Result<Round> {
        let setup = Setup {
            stages: match work {
                Work::Counted => Stages::Metrics,
                Work::Frames => Stages::None,
            },
            ..Setup::counting()
        };
        let serve = Serve::start(self.folder, &setup)?;
        let loops = self.loops(false);
        let sent = self.input.frames * loops;
        let started = Instant::now();
        send(&serve.to, &self.input, loops, 1)?;
        serve.settled(sent)?;
        let seconds = started.elapsed().as_secs_f64();
        Ok(Round {
            sent,
            delivered: sent,
            seconds,
            used: serve.usage()?,
        })
    }

    fn socket(&self, name: &str) -> PathBuf {
        let path = self.folder.join(name);
        let _ = fs::remove_file(&path);
        path
    }

    /// It writes to a file in memory where there is one, so that what it wrote can be compared with what was sent.
    fn capture(&self, from_fstrm_replay: bool) -> Result<Round> {
        let socket = self.socket("capture.sock");
        let shm = Path::new("/dev/shm");
        let place = if shm.is_dir() { shm } else { self.folder };
        let out = place.join(format!("tapflow-bench-{}.fstrm", std::process::id()));
        let content = ["-t", "protobuf:dnstap.Dnstap"];
        let mut capture = Killed(
            Command::new("fstrm_capture")
                .args(content)
                .arg("-u")
                .arg(&socket)
                .arg("-w")
                .arg(&out)
                .stderr(Stdio::null())
                .spawn()?,
        );
        wait_for(&socket)?;
        let loops = self.loops(true);
        let mut sender = if from_fstrm_replay {
            let mut fstrm = Command::new("fstrm_replay");
            fstrm.args(content).arg("-u").arg(&socket);
            for _ in 0..loops {
                fstrm.arg("-r").arg(&self.input.file);
            }
            fstrm
        } else {
            replay(&uri(&socket), &self.input, loops, 1)
        };
        let (_, seconds, _) = finish(&mut sender)?;
        let used = usage(capture.0.id())?;
        let pid = rustix::process::Pid::from_child(&capture.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        capture.0.wait()?;
        let written = fs::metadata(&out).map_or(0, |m| m.len() as usize);
        let _ = fs::remove_file(&out);
        let sent = self.input.frames * loops;
        // Control frames aside; what is short is taken to be frames of the average size.
        let short = (self.input.bytes * loops).saturating_sub(written);
        let delivered = sent.saturating_sub(short * self.input.frames / self.input.bytes);
        Ok(Round {
            sent,
            delivered,
            seconds,
            used,
        })
    }

    fn go(&self, name: &str) -> Result<Round> {
        let socket = self.socket("go.sock");
        let mut peer = Killed(
            Command::new(self.go.ok_or("no Go program")?)
                .args(["serve", name])
                .arg(&socket)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?,
        );
        let mut said = BufReader::new(peer.0.stdout.take().ok_or("no standard output")?);
        wait_for(&socket)?;
        let loops = self.loops(true);
        let started = Instant::now();
        send(&uri(&socket), &self.input, loops, 1)?;
        let tally = line(&mut said)?;
        let seconds = started.elapsed().as_secs_f64();
        let delivered = tally.split(' ').next().unwrap_or_default().parse()?;
        Ok(Round {
            sent: self.input.frames * loops,
            delivered,
            seconds,
            used: usage(peer.0.id())?,
        })
    }

    /// DNS-collector with its dnstap worker and its Prometheus logger, which says how much has arrived.
    fn dns_collector(&self, program: &Path) -> Result<Round> {
        let socket = self.socket("collector.sock");
        let config = self.folder.join("collector.yml");
        let port = std::net::TcpListener::bind("127.0.0.1:0")?
            .local_addr()?
            .port();
        let text = format!(
            "global:\n  telemetry:\n    enabled: false\npipelines:\n  - name: tap\n    dnstap:\n      sock-path: {}\n    \
             routing-policy:\n      forward: [prom]\n  - name: prom\n    prometheus:\n      listen-ip: 127.0.0.1\n      \
             listen-port: {port}\n      basic-auth-enable: false\n",
            socket.display()
        );
        fs::write(&config, text)?;
        let peer = Killed(
            Command::new(program)
                .arg("-config")
                .arg(&config)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?,
        );
        wait_for(&socket)?;
        let loops = self.loops(true);
        let sent = self.input.frames * loops;
        let started = Instant::now();
        send(&uri(&socket), &self.input, loops, 1)?;
        let mut seconds = started.elapsed().as_secs_f64();
        // What is in its channels still arrives: the count is final when it has stood still for a second.
        let (mut delivered, mut still) = (0, 0);
        while still < 10 && delivered < sent {
            std::thread::sleep(Duration::from_millis(100));
            let now = self.metrics_total(port)?;
            if now > delivered {
                (delivered, still, seconds) = (now, 0, started.elapsed().as_secs_f64());
            } else {
                still += 1;
            }
        }
        Ok(Round {
            sent,
            delivered,
            seconds,
            used: usage(peer.0.id())?,
        })
    }

    /// Queries and replies in the metrics at this port.
    fn metrics_total(&self, port: u16) -> Result<usize> {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port))?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let counts = text.lines().filter(|l| {
            l.starts_with("dnscollector_queries_total")
                || l.starts_with("dnscollector_replies_total")
        });
        let total: f64 = counts
            .filter_map(|l| l.rsplit(' ').next()?.parse::<f64>().ok())
            .sum();
        Ok(total as usize)
    }
}

fn uri(socket: &Path) -> String {
    format!("unix:{}", socket.display())
}

fn wait_for(socket: &Path) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !socket.exists() {
        if Instant::now() > deadline {
            return Err("it does not listen".into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
