//! Every format of records over the capture mix, and beside them the programs whose formats they are, in the same run.
//!
//! `cargo bench --bench formats` prints two tables. The first is of the writers alone: one thread takes frames that lie in
//! memory, decodes and writes them; records a second of CPU time, and allocations a record. The second is of whole
//! processes that read a file and print to `/dev/null`: `tapflow read` and the peer that prints the same, one after the
//! other in each round, and the ratio of the two. The frames are those of `testdata/captures`, one file after another, over
//! and over. What a process takes for a file of one frame is taken off. A check before the first round counts what each
//! process prints, since a program that stops at a frame it does not like is fast.
//!
//! Arguments after `--`: `--frames N` (1000000), `--rounds N` (3), `--test` (one small round, for CI).

#[path = "../tests/dnstap_support/mod.rs"]
mod dnstap_support;

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use prost::Message as _;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tapflow::dnstap::{DnstapView, pb};
use tapflow::format::{Entry, Format, Kind, Line, Settings, Source};

use dnstap_support::captured;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const TAPFLOW: &str = env!("CARGO_BIN_EXE_tapflow");
/// `START` with dnstap's content type.
const START: &[u8] = b"\0\0\0\0\0\0\0\x22\0\0\0\x02\0\0\0\x01\0\0\0\x16protobuf:dnstap.Dnstap";
const STOP: &[u8] = b"\0\0\0\0\0\0\0\x04\0\0\0\x03";
/// Octets of text after which the buffer is emptied, about what a file gets at once.
const ROOM: usize = 1 << 18;

/// A program of others and the format of ours that it is compared with.
struct Peer {
    format: &'static str,
    program: &'static str,
    options: &'static [&'static str],
    package: &'static str,
    /// What each record has once, for counting records in the output.
    mark: &'static str,
    /// It ends at types and transports that are newer than it is: both get frames without them.
    is_old: bool,
}

#[rustfmt::skip]
const PEERS: &[Peer] = &[
    Peer { format: "text", program: "dnstap", options: &["-q", "-r"], package: GOLANG, mark: "\n", is_old: false },
    Peer { format: "golang-json", program: "dnstap", options: &["-j", "-r"], package: GOLANG, mark: "\n", is_old: false },
    Peer { format: "golang-yaml", program: "dnstap", options: &["-y", "-r"], package: GOLANG, mark: "\n---\n", is_old: false },
    // Our JSON has no program of its own; golang-dnstap's is what people have.
    Peer { format: "json", program: "dnstap", options: &["-j", "-r"], package: GOLANG, mark: "\n", is_old: false },
    Peer { format: "dnstap-read", program: "dnstap-read", options: &[], package: "bind9-dnsutils", mark: "\n", is_old: false },
    Peer { format: "dnstap-read-yaml", program: "dnstap-read", options: &["-y"], package: "bind9-dnsutils", mark: "type: MESSAGE\n", is_old: false },
    Peer { format: "ldns-quiet", program: "dnstap-ldns", options: &["-q", "-r"], package: "dnstap-ldns", mark: "\n", is_old: true },
    Peer { format: "ldns", program: "dnstap-ldns", options: &["-y", "-r"], package: "dnstap-ldns", mark: "---\n", is_old: true },
];
const GOLANG: &str = "golang-github-dnstap-golang-dnstap-cli";

/// One measurement: records, CPU seconds, seconds on the clock.
#[derive(Clone, Copy)]
struct Sample {
    records: usize,
    cpu: f64,
    wall: f64,
}

impl Sample {
    /// Thousands of records a second of one core.
    fn rate(self) -> f64 {
        self.records as f64 / self.cpu / 1e3
    }
}

/// The frames as files: all captures over and over, once, and the first frame of them.
struct Input {
    frames: usize,
    once: usize,
    long: PathBuf,
    short: PathBuf,
    one: PathBuf,
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let smoke = args.iter().any(|arg| arg == "--test");
    let number = |name: &str, default: usize| -> usize {
        let at = args.iter().position(|arg| arg == name);
        at.and_then(|i| args.get(i + 1))
            .and_then(|value| value.parse().ok())
            .unwrap_or(default)
    };
    let (rounds, frames) = if smoke {
        (1, 1)
    } else {
        (number("--rounds", 3), number("--frames", 1_000_000))
    };
    let payloads = captured();
    let loops = frames.div_ceil(payloads.len());
    println!(
        "{} frames of {} octets on average, {} a round, {rounds} rounds",
        payloads.len(),
        payloads.iter().map(Vec::len).sum::<usize>() / payloads.len(),
        payloads.len() * loops
    );
    writers(&payloads, loops, rounds)?;
    let folder = tempfile::tempdir()?;
    processes(&payloads, loops, rounds, folder.path())
}

/// The first table.
fn writers(payloads: &[Vec<u8>], loops: usize, rounds: usize) -> Result<()> {
    let kinds: Vec<&Kind> = Format::kinds().collect();
    let mut samples = vec![Vec::new(); kinds.len()];
    let mut counts = Vec::new();
    for kind in &kinds {
        // Once for the buffers to grow, and once more counted.
        let mut line = (kind.make)(&Settings::default())?;
        let mut out = Vec::new();
        pass(payloads, &mut *line, &mut out);
        let mut octets = 0;
        let counted = allocation_counter::measure(|| octets = pass(payloads, &mut *line, &mut out));
        counts.push((counted.count_total, octets));
    }
    for _ in 0..rounds {
        for (kind, samples) in kinds.iter().zip(&mut samples) {
            let mut line = (kind.make)(&Settings::default())?;
            let mut out = Vec::with_capacity(2 * ROOM);
            let (started, cpu) = (Instant::now(), cpu_of("self")?);
            for _ in 0..loops {
                black_box(pass(payloads, &mut *line, &mut out));
            }
            samples.push(Sample {
                records: payloads.len() * loops,
                cpu: (cpu_of("self")? - cpu).max(0.01),
                wall: started.elapsed().as_secs_f64(),
            });
        }
    }
    println!(
        "\n{:<18} {:>34} {:>13} {:>13} {:>11}",
        "writer alone",
        "thousand records/s/core (min..max)",
        "ns a record",
        "allocations",
        "octets"
    );
    for ((kind, samples), (allocations, octets)) in kinds.iter().zip(&samples).zip(counts) {
        let (middle, spread) = spread(samples.iter().map(|sample| sample.rate()));
        println!(
            "{:<18} {spread:>34} {:>13.0} {:>13.3} {:>11.0}",
            kind.name,
            1e6 / middle,
            allocations as f64 / payloads.len() as f64,
            octets as f64 / payloads.len() as f64
        );
    }
    Ok(())
}

/// Decodes and writes each frame, and says how many octets that gave.
fn pass(payloads: &[Vec<u8>], line: &mut dyn Line, out: &mut Vec<u8>) -> usize {
    let mut octets = 0;
    out.clear();
    line.begin(out);
    for payload in payloads {
        if out.len() > ROOM {
            octets += out.len();
            out.clear();
        }
        let view = DnstapView::parse(payload);
        let entry = Entry {
            payload,
            view: view.as_ref().map_err(|error| (*error).into()),
            source: Source::default(),
        };
        black_box(line.write(out, entry).is_ok());
    }
    octets + out.len()
}

/// The second table.
fn processes(payloads: &[Vec<u8>], loops: usize, rounds: usize, folder: &Path) -> Result<()> {
    let input = prepare(folder, "all", payloads, loops)?;
    let old: Vec<_> = payloads.iter().map(|payload| as_of_2014(payload)).collect();
    let old_input = prepare(folder, "old", &old, loops)?;
    let mut absent: Vec<(&str, &str)> = Vec::new();
    let peers = PEERS.iter().filter(|peer| {
        let is_here = is_installed(peer.program);
        if !is_here && !absent.contains(&(peer.program, peer.package)) {
            absent.push((peer.program, peer.package));
        }
        is_here
    });
    let peers: Vec<&Peer> = peers.collect();
    for (program, package) in absent {
        println!("skipped: {program} is not installed; apt-get install {package}");
    }
    let input = |peer: &Peer| if peer.is_old { &old_input } else { &input };
    for peer in &peers {
        let [ours, theirs] = commands(peer);
        let mut lost = Vec::new();
        for mut command in [ours, theirs] {
            let output = command.arg(&input(peer).short).output()?;
            let text = String::from_utf8_lossy(&output.stdout);
            lost.push((input(peer).once as isize) - text.matches(peer.mark).count() as isize);
        }
        // dnstap-read prints nothing of a message without question, and nobody of what it cannot read.
        if lost[0] != 0 || !(0..=100).contains(&lost[1]) {
            return Err(format!(
                "{} and {}: {lost:?} records are missing",
                peer.format, peer.program
            )
            .into());
        }
    }
    let mut samples = vec![[Vec::new(), Vec::new()]; peers.len()];
    for _ in 0..rounds {
        for (peer, samples) in peers.iter().zip(&mut samples) {
            for (make, samples) in [0, 1].into_iter().zip(samples) {
                let run = |file: &Path| timed(commands(peer).into_iter().nth(make), file);
                let (start, whole) = (run(&input(peer).one)?, run(&input(peer).long)?);
                samples.push(Sample {
                    records: input(peer).frames,
                    cpu: (whole.0 - start.0).max(0.01),
                    wall: (whole.1 - start.1).max(0.001),
                });
            }
        }
    }
    println!(
        "\n{:<18} {:>34} {:<16} {:>34} {:>22} {:>12}",
        "whole process",
        "thousand records/s/core (min..max)",
        " peer",
        "thousand records/s/core (min..max)",
        "ratio",
        "by the clock"
    );
    for (peer, [ours, theirs]) in peers.iter().zip(&samples) {
        let pairs = || ours.iter().zip(theirs);
        println!(
            "{:<18} {:>34}  {:<15} {:>34} {:>22} {:>12.1}",
            peer.format,
            spread(ours.iter().map(|sample| sample.rate())).1,
            format!("{} {}", peer.program, peer.options.first().unwrap_or(&"")),
            spread(theirs.iter().map(|sample| sample.rate())).1,
            spread(pairs().map(|(a, b)| a.rate() / b.rate())).1,
            spread(pairs().map(|(a, b)| b.wall / a.wall)).0,
        );
    }
    Ok(())
}

/// Ours and the peer's, to which the file's name is added.
fn commands(peer: &Peer) -> [Command; 2] {
    let mut ours = Command::new(TAPFLOW);
    ours.args(["read", "--format", peer.format]);
    let mut theirs = Command::new(peer.program);
    theirs.args(peer.options);
    for command in [&mut ours, &mut theirs] {
        command.stdin(Stdio::null()).stderr(Stdio::null());
    }
    [ours, theirs]
}

/// CPU seconds and seconds on the clock from start to end, with the output thrown away.
fn timed(command: Option<Command>, file: &Path) -> Result<(f64, f64)> {
    let mut command = command.ok_or("a command")?;
    let started = Instant::now();
    let mut child = command.arg(file).stdout(Stdio::null()).spawn()?;
    let id = child.id();
    let pid = Pid::from_raw(id.try_into()?).ok_or("a process")?;
    // It has ended and is still there to be asked.
    waitid(
        WaitId::Pid(pid),
        WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
    )?;
    let wall = started.elapsed().as_secs_f64();
    let cpu = cpu_of(&id.to_string())?;
    child.wait()?;
    Ok((cpu, wall))
}

/// CPU seconds of a process and all its threads: fields 14 and 15 of proc(5), in ticks of 10 ms.
fn cpu_of(process: &str) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = |field| -> Result<f64> {
        let field = after_name.split_whitespace().nth(field).ok_or("stat")?;
        Ok(field.parse()?)
    };
    Ok((ticks(11)? + ticks(12)?) / 100.0)
}

fn is_installed(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("-h").stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok()
}

/// Writes the files of [`Input`].
fn prepare(folder: &Path, name: &str, payloads: &[Vec<u8>], loops: usize) -> Result<Input> {
    let run = |payloads: &[Vec<u8>]| {
        let mut run = Vec::new();
        for payload in payloads {
            run.extend((payload.len() as u32).to_be_bytes());
            run.extend_from_slice(payload);
        }
        run
    };
    let write = |kind: &str, run: &[u8], loops: usize| -> Result<PathBuf> {
        let path = folder.join(format!("{name}-{kind}.fstrm"));
        let mut file = std::io::BufWriter::new(fs::File::create(&path)?);
        let mut write = |octets| std::io::Write::write_all(&mut file, octets);
        write(START)?;
        for _ in 0..loops {
            write(run)?;
        }
        write(STOP)?;
        Ok(path)
    };
    let all = run(payloads);
    Ok(Input {
        frames: payloads.len() * loops,
        once: payloads.len(),
        long: write("long", &all, loops)?,
        short: write("short", &all, 1)?,
        one: write("one", &run(&payloads[..1]), 1)?,
    })
}

/// The frame with types and transports that dnstap-ldns 0.2.1 has names for: it ends at any other.
fn as_of_2014(payload: &[u8]) -> Vec<u8> {
    let mut dnstap = pb::Dnstap::decode(payload).expect("a frame of the captures");
    if let Some(message) = &mut dnstap.message {
        message.r#type = message.r#type.map(|kind| kind - i32::from(kind > 12) * 8);
        message.socket_protocol = message.socket_protocol.map(|protocol| protocol.min(2));
    }
    dnstap.encode_to_vec()
}

/// The median, and it with the extremes, for people.
fn spread(values: impl Iterator<Item = f64>) -> (f64, String) {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values[values.len() / 2];
    let digits = if middle < 100.0 { 1 } else { 0 };
    let text = format!(
        "{middle:.digits$} ({:.digits$}..{:.digits$})",
        values[0],
        values[values.len() - 1]
    );
    (middle, text)
}
