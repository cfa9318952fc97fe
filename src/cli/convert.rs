//! `tapflow convert`: Frame Streams files plain and compressed, and packet captures, into Frame Streams files.

use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use serde_json::json;

use crate::cli::exit;
use crate::cli::input::{Ending, Fault, Input, Options, Place, Step, Tally};
use crate::cli::interrupt::{EXIT_INTERRUPTED, Interrupt};
use crate::cli::packing::{self, Packer};
use crate::cli::progress::Progress;
use crate::cli::read::Report;
use crate::cli::terms::{Sieve, Term};
use crate::fstrm::{Codec, ContentType, Control, ControlKind};
use crate::pcap::{ConvertOptions, DNS_PORT, ExtractOptions, Perspective};

/// What `convert` is told.
#[derive(Debug, Clone, Args)]
#[command(
    about = "Convert between Frame Streams files, plain or compressed, and from packet captures",
    long_about = "Convert between Frame Streams files, plain or compressed, and from packet captures.\n\n\
        IN is told by its content: Frame Streams (with or without control frames, whole or payloads compressed) or a \
        pcap or pcapng capture, each also compressed with gzip, zstd, lz4 or snappy. OUT is Frame Streams; the ending of \
        its name says how it is compressed: .gz, .zst, .lz4, .sz (snappy), anything else is plain.\n\n\
        From Frame Streams the frames are taken over as they are, octet for octet. From a capture each DNS message over \
        UDP or TCP becomes a dnstap message, and a response also carries the time of its query. Fragments and TCP \
        segments are put together. A capture does not say whose view it is: --kind does.\n\n\
        OUT appears under its name when it is complete, and only then.",
    after_long_help = "Examples:\n  \
        $ tapflow convert capture.pcapng.gz capture.fstrm.zst\n  \
        frames 2681, errors 0, packets 2714: not_ip 2, other_port 31\n  \
        $ tapflow convert --kind resolver --identity ns1 --port 53 --port 5300 upstream.pcap upstream.fstrm\n  \
        $ tapflow convert --filter 'qname within example.com' day.fstrm.zst example.fstrm\n  \
        $ tapflow convert old.fstrm.gz - | tapflow read -\n\n\
        Exit codes:\n  \
        0  everything was converted\n  \
        1  IN cannot be read or OUT cannot be written; no OUT then\n  \
        2  the command line is wrong\n  \
        3  converted, but IN is cut or damaged, or frames or packets of DNS were lost: the report says which"
)]
pub struct ConvertArgs {
    /// The file to read; `-` is standard input
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// The file to write; `-` is standard output
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// How OUT is compressed, whatever its name says
    #[arg(long, value_enum, value_name = "CODEC")]
    pub compress: Option<Compress>,
    /// Write only what matches, as `tapflow read --help` says; each that is given has to match. Frames that are no records
    /// cannot match: they are counted as errors then
    #[arg(long = "filter", value_name = "EXPR")]
    pub filters: Vec<Term>,
    /// Whose view a capture shows: the kind of dnstap messages to make
    #[arg(long, value_enum, default_value_t = Kind::Client)]
    pub kind: Kind,
    /// Identity to put into messages made of a capture
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "TEXT"
    )]
    pub identity: String,
    /// Version to put into messages made of a capture
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "TEXT"
    )]
    pub version: String,
    /// Ports that mean DNS in a capture
    #[arg(long = "port", value_name = "PORT", default_values_t = [DNS_PORT])]
    pub ports: Vec<u16>,
    /// The form of the report on standard error
    #[arg(long, value_enum, value_name = "FORM", default_value = "text")]
    pub report: Report,
    /// No progress and no report in text, only errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// A compression, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Compress {
    /// None
    Off,
    /// gzip
    Gzip,
    /// LZ4
    Lz4,
    /// Snappy
    Snappy,
    /// Zstandard
    Zstd,
}

impl Compress {
    /// The codec, where there is one.
    pub const fn codec(self) -> Option<Codec> {
        match self {
            Self::Off => None,
            Self::Gzip => Some(Codec::Gzip),
            Self::Lz4 => Some(Codec::Lz4),
            Self::Snappy => Some(Codec::Snappy),
            Self::Zstd => Some(Codec::Zstd),
        }
    }
}

/// Whose view a capture shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A server of clients: CLIENT_QUERY, CLIENT_RESPONSE
    Client,
    /// An authoritative server: AUTH_*
    Auth,
    /// A resolver that asks authoritative servers: RESOLVER_*
    Resolver,
    /// A forwarder that asks the next resolver: FORWARDER_*
    Forwarder,
    /// A stub resolver: STUB_*
    Stub,
    /// A tool such as dig: TOOL_*
    Tool,
    /// A server that takes updates: UPDATE_*
    Update,
}

impl Kind {
    const fn perspective(self) -> Perspective {
        match self {
            Self::Client => Perspective::Client,
            Self::Auth => Perspective::Auth,
            Self::Resolver => Perspective::Resolver,
            Self::Forwarder => Perspective::Forwarder,
            Self::Stub => Perspective::Stub,
            Self::Tool => Perspective::Tool,
            Self::Update => Perspective::Update,
        }
    }
}

/// Converts.
///
/// # Errors
/// When IN cannot be read or OUT cannot be written; OUT is as it was then.
pub fn run(args: &ConvertArgs) -> anyhow::Result<ExitCode> {
    let options = Options {
        capture: ConvertOptions {
            perspective: args.kind.perspective(),
            identity: args.identity.clone().into_bytes(),
            version: args.version.clone().into_bytes(),
            extract: ExtractOptions {
                ports: args.ports.clone(),
                ..ExtractOptions::default()
            },
            ..ConvertOptions::default()
        },
        ..Options::default()
    };
    let place = Place::of(&args.input);
    let mut input = Input::open(&place, &options)?;
    let codec = match args.compress {
        Some(compress) => compress.codec(),
        None => packing::of_name(&args.output),
    };
    let target = Target::open(&args.output)?;
    let progress = Progress::bytes(input.size(), args.quiet);
    progress.name("converting");
    let mut tally = Tally::default();
    let done = target.write(codec, |out| {
        let sieve = Sieve::new(&args.filters);
        copy(&mut input, sieve, &mut tally, out, &progress)
    });
    progress.finish();
    let damage = match done {
        Ok(damage) => damage,
        // Whoever reads standard output has enough.
        Err(e) if is_broken_pipe(&e) => return Ok(ExitCode::SUCCESS),
        Err(e) => return Err(e),
    };
    report(args, &tally, &input, damage.as_deref());
    let lost = input.capture().is_some_and(|c| c.losses().next().is_some());
    Ok(if tally.errors() > 0 || damage.is_some() || lost {
        ExitCode::from(exit::LOST)
    } else {
        ExitCode::SUCCESS
    })
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

/// Copies the frames that the filters keep, with what belongs around them; returns what is wrong with the input from some place on.
fn copy(
    input: &mut Input,
    mut sieve: Sieve,
    tally: &mut Tally,
    out: &mut dyn Write,
    progress: &Progress,
) -> anyhow::Result<Option<String>> {
    let start = Control::with_type(ControlKind::Start, Some(ContentType::DNSTAP));
    out.write_all(&start.to_bytes())?;
    let mut kept = Vec::new();
    let damage = loop {
        match input.next(tally) {
            Ok(Step::Run { .. }) if !sieve.is_open() => {
                kept.clear();
                sieve.sift(input.run(), &mut kept, tally);
                out.write_all(&kept)?;
                progress.set(input.bytes_read());
            }
            Ok(Step::Run { frames }) => {
                tally.frames += frames as u64;
                tally.records += frames as u64;
                out.write_all(input.run())?;
                progress.set(input.bytes_read());
            }
            Ok(Step::Eof) => match input.ending()? {
                Ending::Clean | Ending::NoStop => break None,
                Ending::Cut(how) => break Some(how),
            },
            Err(Fault::Damaged(why)) => break Some(why),
            Err(fault) => return Err(fault.into()),
        }
    };
    out.write_all(&Control::plain(ControlKind::Stop).to_bytes())?;
    Ok(damage)
}

fn report(args: &ConvertArgs, tally: &Tally, input: &Input, damage: Option<&str>) {
    let packets = input.capture().map(|capture| {
        let counters = capture.counters();
        // What a packet became when it did not become a message, and what befell messages.
        let told = ["udp_messages", "tcp_segments", "fragments_held"];
        let mut rows: Vec<_> = counters
            .outcomes()
            .filter(|(name, n)| *n > 0 && !told.contains(name))
            .collect();
        rows.extend(
            capture
                .losses()
                .filter(|loss| !rows.contains(loss))
                .collect::<Vec<_>>(),
        );
        if counters.messages_truncated > 0 {
            rows.push(("messages_truncated", counters.messages_truncated));
        }
        (counters.packets, rows, *capture.pair_counters())
    });
    if args.report == Report::Json {
        let mut report = tally.json();
        if let Some(map) = report.as_object_mut() {
            map.insert("damage".to_owned(), json!(damage));
            if let Some((packets, rows, pairs)) = &packets {
                let rows: serde_json::Map<_, _> = rows
                    .iter()
                    .map(|(k, n)| ((*k).to_owned(), json!(n)))
                    .collect();
                map.insert("packets".to_owned(), json!(packets));
                map.insert("skipped".to_owned(), rows.into());
                map.insert("queries".to_owned(), json!(pairs.queries));
                map.insert("responses".to_owned(), json!(pairs.responses));
                map.insert("paired".to_owned(), json!(pairs.paired));
            }
        }
        crate::cli::say!("{report}");
        return;
    }
    if let Some(damage) = damage {
        crate::cli::say!("tapflow: {}: {damage}", Place::of(&args.input).name());
    }
    if args.quiet {
        return;
    }
    let mut line = format!("frames {}", tally.frames);
    if !args.filters.is_empty() {
        line.push_str(&format!(" ({} filtered out)", tally.filtered));
    }
    line.push_str(&format!(", errors {}", tally.errors()));
    if tally.errors() > 0 {
        line.push_str(&format!(" ({})", tally.errors_text()));
    }
    if tally.after_stop > 0 {
        line.push_str(&format!(", after STOP {}", tally.after_stop));
    }
    if let Some((packets, rows, pairs)) = packets {
        let rows: Vec<_> = rows.iter().map(|(name, n)| format!("{name} {n}")).collect();
        line.push_str(&format!(
            "; packets {packets}: queries {}, responses {} ({} with their query)",
            pairs.queries, pairs.responses, pairs.paired
        ));
        if !rows.is_empty() {
            line.push_str(&format!("; {}", rows.join(", ")));
        }
    }
    crate::cli::say!("{line}");
}

/// Where the result goes.
enum Target {
    Stdout,
    /// A pipe or a device: nothing that could be replaced.
    Direct(File),
    /// A file that appears when it is complete.
    Whole(Whole),
}

/// A file under a temporary name, removed unless it is finished.
struct Whole {
    path: PathBuf,
    temporary: PathBuf,
    file: File,
}

impl Target {
    fn open(path: &Path) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            anyhow::ensure!(
                !io::stdout().is_terminal(),
                "standard output is a terminal, and OUT is binary; give a file, or use `tapflow read`"
            );
            return Ok(Self::Stdout);
        }
        let context = || format!("{}: cannot be written", path.display());
        match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => {
                anyhow::bail!("{}: is a folder; OUT is a file", path.display())
            }
            Ok(meta) if !meta.is_file() => Ok(Self::Direct(
                File::options()
                    .write(true)
                    .open(path)
                    .with_context(context)?,
            )),
            _ => {
                // Through a link, so that the file it leads to is replaced and not the link.
                let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
                let mut name = path.file_name().with_context(context)?.to_owned();
                name.push(format!(".{}.part", std::process::id()));
                let temporary = path.with_file_name(name);
                Ok(Self::Whole(
                    Whole::create(path, temporary).with_context(context)?,
                ))
            }
        }
    }

    /// Hands a writer to `fill`, and when that went well finishes the file.
    fn write<T>(
        self,
        codec: Option<Codec>,
        fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        match self {
            Self::Stdout => write_to(io::stdout().lock(), codec, fill),
            Self::Direct(file) => write_to(file, codec, fill),
            Self::Whole(whole) => whole.write(codec, fill),
        }
    }
}

fn write_to<T, W: Write>(
    target: W,
    codec: Option<Codec>,
    fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut packer = Packer::new(codec, target)?;
    let value = fill(&mut packer)?;
    packer.finish()?;
    Ok(value)
}

impl Whole {
    fn create(path: PathBuf, temporary: PathBuf) -> io::Result<Self> {
        let leftover = temporary.clone();
        Interrupt::watch(move || {
            let _ = fs::remove_file(&leftover);
            std::process::exit(EXIT_INTERRUPTED);
        })?;
        let file = File::create(&temporary)?;
        Ok(Self {
            path,
            temporary,
            file,
        })
    }

    fn write<T>(
        &self,
        codec: Option<Codec>,
        fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let value = write_to(&self.file, codec, fill)?;
        if let Ok(meta) = fs::metadata(&self.path) {
            // Who may read the old file may read the new one.
            let _ = self.file.set_permissions(meta.permissions());
        }
        fs::rename(&self.temporary, &self.path)
            .with_context(|| format!("{}: cannot be put in place", self.path.display()))?;
        Ok(value)
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        // Gone already, where it was put in place.
        let _ = fs::remove_file(&self.temporary);
    }
}
