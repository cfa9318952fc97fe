//! The whole way, as processes: `tapflow replay` into `tapflow serve`, beside `fstrm_replay` into `fstrm_capture`.
//!
//! `cargo bench --bench end_to_end` runs every case in turn, round after round, so that all of them see the same machine, and
//! prints the median with the spread. Each round checks that the collector's ledger closes and that every frame was
//! delivered. The data is the servers' captures in `testdata/captures`, one after another, over and over.
//!
//! Arguments after `--`: `--rounds N` (5), `--million-frames N` (20), `--test` (one small round, for CI).

use std::error::Error;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const TAPFLOW: &str = env!("CARGO_BIN_EXE_tapflow");
/// `START` with dnstap's content type.
const START: &[u8] = b"\0\0\0\0\0\0\0\x22\0\0\0\x02\0\0\0\x01\0\0\0\x16protobuf:dnstap.Dnstap";
const STOP: &[u8] = b"\0\0\0\0\0\0\0\x04\0\0\0\x03";

struct Settings {
    rounds: usize,
    frames: usize,
}

/// A case and what each round of it gave.
struct Case {
    name: &'static str,
    run: fn(&Input) -> Result<Round>,
    rounds: Vec<Round>,
}

#[derive(Clone, Copy)]
struct Round {
    frames: usize,
    bytes: usize,
    seconds: f64,
    /// CPU seconds of the collector, user and system.
    cpu: f64,
    /// Its peak resident memory.
    peak_bytes: u64,
}

/// What is sent.
struct Input {
    folder: PathBuf,
    /// All captures, once.
    file: PathBuf,
    frames: usize,
    bytes: usize,
    loops: usize,
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str, default: usize| -> usize {
        let at = args.iter().position(|a| a == name);
        at.and_then(|i| args.get(i + 1))
            .and_then(|v| v.parse().ok())
            .unwrap_or(default)
    };
    let smoke = args.iter().any(|a| a == "--test");
    let settings = if smoke {
        Settings {
            rounds: 1,
            frames: 200_000,
        }
    } else {
        Settings {
            rounds: number("--rounds", 5),
            frames: number("--million-frames", 20) * 1_000_000,
        }
    };
    let folder = std::env::temp_dir().join(format!("tapflow-bench-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let result = bench(&settings, &folder);
    fs::remove_dir_all(&folder)?;
    result
}

fn bench(settings: &Settings, folder: &Path) -> Result<()> {
    let input = prepare(folder, settings.frames)?;
    println!(
        "{} frames of {} bytes on average, {} a round, {} rounds, {} cores",
        input.frames,
        input.bytes / input.frames,
        input.frames * input.loops,
        settings.rounds,
        std::thread::available_parallelism()?
    );
    let mut cases: Vec<Case> = [
        (
            "tapflow, decode and metrics, unix",
            (|i| tapflow(i, false, "decode", "null:")) as fn(&Input) -> Result<Round>,
        ),
        ("tapflow, decode and metrics, tcp", |i| {
            tapflow(i, true, "decode", "null:")
        }),
        ("tapflow, undecoded, unix", |i| {
            tapflow(i, false, "none", "null:")
        }),
        ("tapflow, decode, metrics, .fstrm files, unix", |i| {
            tapflow(i, false, "decode", "file")
        }),
        ("fstrm_replay to fstrm_capture, unix", fstrm),
    ]
    .into_iter()
    .map(|(name, run)| Case {
        name,
        run,
        rounds: Vec::new(),
    })
    .collect();
    if !installed("fstrm_capture") || !installed("fstrm_replay") {
        println!(
            "skipped: fstrm_replay and fstrm_capture are not installed; apt-get install fstrm-bin"
        );
        cases.pop();
    }
    for _ in 0..settings.rounds {
        for case in &mut cases {
            case.rounds
                .push((case.run)(&input).map_err(|e| format!("{}: {e}", case.name))?);
        }
    }
    report(&cases);
    Ok(())
}

fn report(cases: &[Case]) {
    println!(
        "{:<46} {:>28} {:>9} {:>14} {:>9}",
        "case", "million frames/s (min..max)", "MB/s", "CPU ns a frame", "peak MiB"
    );
    let rate = |r: &Round| r.frames as f64 / r.seconds / 1e6;
    for case in cases {
        let rates = sorted(case.rounds.iter().map(rate));
        let bytes = sorted(case.rounds.iter().map(|r| r.bytes as f64 / r.seconds / 1e6));
        let cpu = sorted(case.rounds.iter().map(|r| r.cpu * 1e9 / r.frames as f64));
        let peak = case.rounds.iter().map(|r| r.peak_bytes).max().unwrap_or(0) >> 20;
        let spread = format!(
            "{:.2} ({:.2}..{:.2})",
            median(&rates),
            rates[0],
            rates[rates.len() - 1]
        );
        println!(
            "{:<46} {:>28} {:>9.0} {:>14.0} {:>9}",
            case.name,
            spread,
            median(&bytes),
            median(&cpu),
            peak
        );
    }
    let Some((peer, ours)) = cases
        .split_last()
        .filter(|(c, _)| c.name.starts_with("fstrm"))
    else {
        return;
    };
    for case in ours {
        let ratios = sorted(
            case.rounds
                .iter()
                .zip(&peer.rounds)
                .map(|(a, b)| rate(a) / rate(b)),
        );
        let (low, high) = (ratios[0], ratios[ratios.len() - 1]);
        println!(
            "{}: {:.1} times fstrm ({low:.1}..{high:.1}, round by round)",
            case.name,
            median(&ratios)
        );
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}

fn installed(program: &str) -> bool {
    Command::new(program)
        .arg("--help")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

/// Puts the data frames of all captures into one file.
fn prepare(folder: &Path, frames_wanted: usize) -> Result<Input> {
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/captures");
    let mut paths: Vec<PathBuf> = fs::read_dir(captures)?
        .filter_map(|e| Some(e.ok()?.path()))
        .collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "fstrm"));
    paths.sort();
    let (mut run, mut frames) = (Vec::new(), 0);
    for path in paths {
        let bytes = fs::read(path)?;
        let mut rest = &bytes[..];
        while let Some((word, after)) = rest.split_first_chunk::<4>() {
            let len = u32::from_be_bytes(*word) as usize;
            if len == 0 {
                let control = u32::from_be_bytes(after[..4].try_into()?) as usize;
                rest = &after[4 + control..];
            } else {
                run.extend_from_slice(&rest[..4 + len]);
                frames += 1;
                rest = &after[len..];
            }
        }
    }
    let file = folder.join("input.fstrm");
    fs::write(&file, [START, &run, STOP].concat())?;
    Ok(Input {
        folder: folder.to_owned(),
        file,
        frames,
        bytes: run.len(),
        loops: frames_wanted.div_ceil(frames),
    })
}

/// Ends a child however the round ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn tapflow(input: &Input, tcp: bool, stages: &str, output: &str) -> Result<Round> {
    let data = input.folder.join("data");
    let socket = input.folder.join("bench.sock");
    let config = input.folder.join("bench.toml");
    let stages = match stages {
        "decode" => "[[stage]]\ntype = \"decode\"\n[[stage]]\ntype = \"metrics\"\n",
        _ => "",
    };
    let output = match output {
        "file" => "type = \"file\"\ncompress = \"off\"\nkeep_files = 2",
        _ => "type = \"null\"",
    };
    let listen = if tcp {
        "tcp:127.0.0.1:0".to_owned()
    } else {
        format!("unix:{}", socket.display())
    };
    let text = format!(
        "data_dir = {data:?}\nstage = []\n[http]\naddress = \"127.0.0.1:0\"\n[[listener]]\nuri = {listen:?}\n[[output]]\n{output}\n"
    );
    let text = if stages.is_empty() {
        text
    } else {
        text.replace("stage = []\n", "") + stages
    };
    fs::write(&config, text)?;
    let mut serve = Killed(
        Command::new(TAPFLOW)
            .args(["serve", "--config"])
            .arg(&config)
            .stderr(Stdio::piped())
            .spawn()?,
    );
    let stderr = serve.0.stderr.take().ok_or("no standard error")?;
    let (to, http) = addresses(stderr)?;
    let started = Instant::now();
    let replay = Command::new(TAPFLOW)
        .args([
            "replay",
            "--quiet",
            "--report",
            "json",
            "--to",
            &to,
            "--loop",
            &input.loops.to_string(),
        ])
        .arg(&input.file)
        .output()?;
    let seconds = started.elapsed().as_secs_f64();
    if !replay.status.success() {
        return Err(format!("replay failed: {}", String::from_utf8_lossy(&replay.stderr)).into());
    }
    let frames = input.frames * input.loops;
    wait_for_ledger(&http, frames)?;
    let (cpu, peak_bytes) = usage(serve.0.id())?;
    let _ = fs::remove_dir_all(&data);
    Ok(Round {
        frames,
        bytes: input.bytes * input.loops,
        seconds,
        cpu,
        peak_bytes,
    })
}

/// Reads where the collector listens from what it prints, and leaves the rest of its output to a thread.
fn addresses(stderr: impl std::io::Read + Send + 'static) -> Result<(String, String)> {
    let mut lines = BufReader::new(stderr).lines();
    let (mut to, mut http) = (None, None);
    while to.is_none() || http.is_none() {
        let line = lines.next().ok_or("the collector ended at its start")??;
        let word = line.trim();
        if word.starts_with("tcp:") || word.starts_with("unix:") {
            to = Some(word.to_owned());
        }
        if let Some(rest) = word.strip_prefix("metrics: http://") {
            http = rest.split('/').next().map(str::to_owned);
        }
    }
    std::thread::spawn(move || lines.for_each(drop));
    Ok((to.unwrap_or_default(), http.unwrap_or_default()))
}

fn wait_for_ledger(http: &str, frames: usize) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let mut stream = TcpStream::connect(http)?;
        stream.write_all(b"GET /ledger HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let body = answer
            .split("\r\n\r\n")
            .nth(1)
            .ok_or("no answer from /ledger")?;
        let ledger: serde_json::Value = serde_json::from_str(body.trim())?;
        if ledger["closes"] != true {
            return Err(format!("the ledger does not close: {ledger}").into());
        }
        if ledger["received"] == frames && ledger["outputs"][0]["delivered"] == frames {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("sent {frames} frames, but: {ledger}").into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// CPU seconds and peak resident bytes of a process.
fn usage(pid: u32) -> Result<(f64, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    // Fields 14 and 15 of proc(5), in ticks of 10 ms.
    let ticks: f64 = fields.get(11).ok_or("stat")?.parse::<f64>()?
        + fields.get(12).ok_or("stat")?.parse::<f64>()?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let peak = status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:"))
        .ok_or("VmHWM")?;
    let kib: u64 = peak.trim().trim_end_matches(" kB").trim().parse()?;
    Ok((ticks / 100.0, kib * 1024))
}

/// The reference implementation. It takes some fifteen times as long, so it gets a fifteenth of the frames.
fn fstrm(input: &Input) -> Result<Round> {
    let socket = input.folder.join("capture.sock");
    let _ = fs::remove_file(&socket);
    let content = ["-t", "protobuf:dnstap.Dnstap"];
    let capture = Killed(
        Command::new("fstrm_capture")
            .args(content)
            .arg("-u")
            .arg(&socket)
            .args(["-w", "/dev/null"])
            .stderr(Stdio::null())
            .spawn()?,
    );
    let deadline = Instant::now() + Duration::from_secs(10);
    while !socket.exists() {
        if Instant::now() > deadline {
            return Err("fstrm_capture does not listen".into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let loops = input.loops.div_ceil(15);
    let mut replay = Command::new("fstrm_replay");
    replay.args(content).arg("-u").arg(&socket);
    for _ in 0..loops {
        replay.arg("-r").arg(&input.file);
    }
    let started = Instant::now();
    if !replay.stderr(Stdio::null()).status()?.success() {
        return Err("fstrm_replay failed".into());
    }
    let seconds = started.elapsed().as_secs_f64();
    let (cpu, peak_bytes) = usage(capture.0.id())?;
    Ok(Round {
        frames: input.frames * loops,
        bytes: input.bytes * loops,
        seconds,
        cpu,
        peak_bytes,
    })
}
