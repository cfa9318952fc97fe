//! `tapflow read`: records of files as text or JSON on standard output.
//!
//! One thread, one buffer in and one out: large reads, records formatted in place from borrowed views, large writes.

mod follow;
mod print;
mod stats;

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::json;

use self::print::{Flow, Printer};
use self::stats::Stats;
use crate::cli::exit;
use crate::cli::input::{Ending, Fault, Input, Options, Place, Step, Tally};
use crate::cli::interrupt::Interrupt;
use crate::cli::terms::{Sieve, Term};
use crate::cli::tree;
use crate::fields::Field;
use crate::format::{Format, FormatError, Line, NoFormat, Settings};

/// What `read` is told.
#[derive(Debug, Args)]
#[command(
    about = "Show the records of dnstap files as text or JSON",
    long_about = "Show the records of dnstap files as text or JSON.\n\n\
        FILE is Frame Streams as fstrm_capture, a DNS server or an output of type `file` writes them, or a packet \
        capture (pcap, pcapng), which is read as the dnstap that `convert` makes of it. gzip, zstd, lz4 and snappy, of \
        the whole file or of single payloads, are recognised by content and unpacked. FILE may be a folder: its files \
        are read in the order of their names.\n\n\
        A frame that is no record is counted and passed over. When there was any, or a file is cut, the counts come on \
        standard error at the end: records plus errors are all frames.\n\n\
        text is the quiet form of golang-dnstap's dnstap -q, one line a record:\n  \
        HH:MM:SS.uuuuuu XY address protocol octets \"name\" class type\n\
        X is who speaks (A authoritative, R resolver, C client, F forwarder, S stub, T tool, U update), Y is Q or R; \
        an X instead of name, class and type: there is no question that could be read.",
    after_long_help = "Filters: a record has to match every --filter that is given. EXPR joins tests with and, or, not \
        and parentheses:\n  \
        qname within example.com           the name, or one below it; also within {a, b}\n  \
        qtype == AAAA, rcode != NOERROR    one value; numbers, times and spans also <, <=, >, >=\n  \
        rcode in {NXDOMAIN, SERVFAIL}      one of these\n  \
        client in 192.0.2.0/24             in this network; also in {192.0.2.0/24, 2001:db8::/32}\n  \
        latency > 50ms, length >= 512      spans of time have a unit\n  \
        timestamp >= 2026-01-31T12:00:00Z  RFC 3339, or a date alone\n  \
        identity ~ /^ns[0-9]/              a regular expression matches; /…/i: letter case aside\n  \
        tag.site == \"x y\"                  a tag in extra\n  \
        tc, not rd                         a flag alone\n  \
        has ecs                            the record says\n\
        A test of a field that the record lacks does not hold, so a query matches neither rcode == NXDOMAIN nor rcode \
        != NXDOMAIN. A wrong field, value or operator is told with its place and what there is. The whole grammar is \
        in the documentation of the module tapflow::filter.\n\n\
        Short terms are filters as well, KEY=VALUE[,VALUE...], and !TERM is what has none of the values:\n  \
        type=CLIENT_QUERY  qname=example.com (and below)  qtype=A,AAAA  rcode=NXDOMAIN  net=192.0.2.0/24\n\n\
        Examples:\n  \
        $ tapflow read --utc unbound.fstrm | head -1\n  \
        16:45:28.364170 CQ 127.0.0.1 UDP 42b \"www.example.\" IN AAAA\n  \
        $ tapflow read --format json --filter rcode=SERVFAIL frames/*.fstrm.zst\n  \
        $ tapflow read --format csv --fields timestamp,qname,qtype,rcode frames > frames.csv\n  \
        $ tapflow read --format '{query_address} {qname}' frames | sort | uniq -c\n  \
        $ tapflow read --stats /var/lib/tapflow/frames\n  \
        $ tapflow read --filter 'qname within example.com and latency > 50ms' frames.fstrm\n  \
        $ tapflow read --follow --filter '!net=127.0.0.0/8' /var/lib/tapflow/frames\n\n\
        Exit codes:\n  \
        0  every frame was read (also when the reader of the output left, as head does)\n  \
        1  something could not be read, the message says what\n  \
        2  the command line is wrong\n  \
        3  read, but some frames are no records, or a file is cut: the report says how many"
)]
pub struct ReadArgs {
    /// Files or folders; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// What a record becomes
    #[arg(long, default_value_t = Format::TEXT, value_name = "FORMAT", value_parser = format, long_help = formats())]
    pub format: Format,
    /// Fields that csv and tsv have as columns, separated by commas; `tapflow fields` lists them
    #[arg(long, value_name = "FIELD", value_delimiter = ',', value_parser = field)]
    pub fields: Vec<String>,
    /// Show no records but a summary of them: frames, span and rate over time, top names, clients, types and codes,
    /// latency percentiles, what is malformed by reason. With --format json as one object
    #[arg(long, conflicts_with = "follow")]
    pub stats: bool,
    /// Stop after so many records were shown
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Show only what matches, see below; each that is given has to match
    #[arg(long = "filter", value_name = "EXPR")]
    pub filters: Vec<Term>,
    /// Go on as the file grows, and with its successor when it is replaced; in a folder, with the newest file. Takes one
    /// FILE; ends with SIGINT
    #[arg(long, short)]
    pub follow: bool,
    /// Times of text in UTC, not local (JSON is always UTC)
    #[arg(long)]
    pub utc: bool,
    /// Report the counts on standard error in any case, and in which form
    #[arg(long, value_enum, value_name = "FORM")]
    pub report: Option<Report>,
    /// No counts at all, only errors
    #[arg(long, short, conflicts_with = "report")]
    pub quiet: bool,
}

/// The form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Report {
    /// Lines for people
    Text,
    /// One object
    Json,
}

/// The help of `--format`.
fn formats() -> String {
    let mut text = String::from("What a record becomes:");
    for kind in Format::kinds() {
        text.push_str(&format!("\n- {}: {}", kind.name, kind.about));
    }
    text.push_str(
        "\n- a template such as '{timestamp} {qname} {qtype}': each field in braces is its value, or - where the record does \
        not say; {field:-text} is text then. {{ and }} are braces, \\t is a tab, \\\\ a backslash. `tapflow fields` lists the \
        fields",
    );
    text
}

/// The format of that name, or the template; the error has a mark under what is wrong.
fn format(text: &str) -> Result<Format, String> {
    text.parse().map_err(|error| match error {
        NoFormat::Template(error) => error.shown(),
        unknown => unknown.to_string(),
    })
}

/// The name of a field.
fn field(name: &str) -> Result<String, String> {
    match Field::find(name) {
        Ok(_) => Ok(name.to_owned()),
        Err(error) => {
            let end = if error.near.is_some() { "" } else { ";" };
            Err(format!("{error}{end} `tapflow fields` lists them"))
        }
    }
}

/// How the reading went, beside what was counted.
#[derive(Debug, Default)]
struct Outcome {
    /// Something could not be read at all.
    unreadable: bool,
    /// What is cut or damaged, and where.
    damage: Vec<String>,
    /// What is worth a line and no more.
    notes: Vec<String>,
    /// Packets of captures that should have given a record.
    lost_packets: u64,
}

/// Reads the files.
///
/// # Errors
/// When standard output cannot be written to, or the command line asks for what does not go together.
pub fn run(args: &ReadArgs) -> anyhow::Result<ExitCode> {
    let options = Options::default();
    let eager = args.follow
        || args.files.iter().any(|file| file == Path::new("-"))
        || io::stdout().is_terminal();
    let mut stats = args.stats.then(Stats::new);
    let mut chosen;
    let line: &mut dyn Line = match (&mut stats, line(args)) {
        (Some(stats), Ok(_)) => stats,
        (None, Ok(line)) => {
            chosen = line;
            &mut *chosen
        }
        (_, Err(error)) => {
            crate::cli::say!("tapflow: {error}");
            return Ok(ExitCode::from(exit::USAGE));
        }
    };
    let mut printer = Printer::new(
        line,
        Sieve::new(&args.filters),
        args.limit,
        eager && !args.stats,
    );
    let mut outcome = Outcome::default();
    let flow = if args.follow {
        let [file] = args.files.as_slice() else {
            return Err(crate::cli::Usage(
                "--follow takes one FILE (a folder, to follow the files of an output)".to_owned(),
            )
            .into());
        };
        if file == Path::new("-") {
            read_all(&mut printer, &mut outcome, &args.files, &options)
        } else {
            let interrupt = Interrupt::watch(|| {})?;
            follow::follow(&mut printer, &mut outcome, file, &options, &interrupt)
        }
    } else {
        read_all(&mut printer, &mut outcome, &args.files, &options)
    };
    let flow = flow.and_then(|flow| match flow {
        Flow::Go | Flow::Enough => printer.flush(),
        Flow::Gone => Ok(Flow::Gone),
    });
    match flow {
        // Whoever read the output has seen enough: no report either.
        Ok(Flow::Gone) => return Ok(ExitCode::SUCCESS),
        Ok(_) => {}
        Err(e) => anyhow::bail!("cannot write to standard output: {e}"),
    }
    let tally = printer.tally().clone();
    if let Some(stats) = stats {
        let text = match args.format == Format::JSON {
            true => format!("{}\n", stats.json(&tally)),
            false => stats.text(&tally),
        };
        crate::cli::print_out(text.as_bytes())?;
    }
    report(args, &tally, &outcome);
    Ok(outcome.code(&tally))
}

/// What the records are written with.
fn line(args: &ReadArgs) -> Result<Box<dyn Line>, FormatError> {
    if args.stats && !args.fields.is_empty() {
        return Err(FormatError("--stats has no choice of fields".to_owned()));
    }
    if args.stats && args.format != Format::TEXT && args.format != Format::JSON {
        let why = format!("--stats comes as text or json, not as {}", args.format);
        return Err(FormatError(why));
    }
    let settings = Settings {
        utc: args.utc,
        fields: args.fields.clone(),
    };
    args.format.line(&settings)?.ok_or_else(|| {
        FormatError("fstrm is no format to read: tapflow convert writes Frame Streams".into())
    })
}

impl Outcome {
    fn unreadable(&mut self, why: &str) {
        self.unreadable = true;
        crate::cli::say!("tapflow: {why}");
    }

    fn fault(&mut self, fault: &Fault) {
        match fault {
            Fault::Unreadable(why) => self.unreadable(why),
            Fault::Damaged(why) => self.damage.push(why.clone()),
        }
    }

    /// Notes how an input ended. `growing`: it may have been caught in the middle of a write.
    fn end(&mut self, name: &str, input: &Input, growing: bool) {
        match input.ending() {
            Ok(Ending::Clean) => {}
            Ok(Ending::NoStop | Ending::Cut(_)) if growing => {}
            Ok(Ending::NoStop) => self.notes.push(format!("{name}: ends without STOP")),
            Ok(Ending::Cut(how)) => self.damage.push(format!("{name}: {how}")),
            Err(_) if growing => {}
            Err(fault) => self.fault(&fault),
        }
        if let Some(capture) = input.capture() {
            for (reason, n) in capture.losses() {
                self.lost_packets += n;
                self.notes.push(format!("{name}: {reason} {n}"));
            }
        }
    }

    fn lossy(&self, tally: &Tally) -> bool {
        tally.errors() > 0 || !self.damage.is_empty() || self.lost_packets > 0
    }

    fn code(&self, tally: &Tally) -> ExitCode {
        match (self.unreadable, self.lossy(tally)) {
            (true, _) => ExitCode::FAILURE,
            (false, true) => ExitCode::from(exit::LOST),
            (false, false) => ExitCode::SUCCESS,
        }
    }
}

fn report(args: &ReadArgs, tally: &Tally, outcome: &Outcome) {
    if args.report == Some(Report::Json) {
        let mut report = tally.json();
        if let Some(map) = report.as_object_mut() {
            map.insert("damage".to_owned(), json!(outcome.damage));
            map.insert("notes".to_owned(), json!(outcome.notes));
        }
        crate::cli::say!("{report}");
        return;
    }
    let wanted = args.report.is_some();
    if args.quiet {
        return;
    }
    outcome
        .damage
        .iter()
        .for_each(|line| crate::cli::say!("tapflow: {line}"));
    if wanted || outcome.lossy(tally) {
        outcome
            .notes
            .iter()
            .for_each(|line| crate::cli::say!("tapflow: {line}"));
        crate::cli::say!("tapflow: {}", tally.text());
    }
}

/// Reads each file to its end.
fn read_all(
    printer: &mut Printer<'_>,
    outcome: &mut Outcome,
    files: &[PathBuf],
    options: &Options,
) -> io::Result<Flow> {
    let places = places(files, outcome);
    let many = places.len() > 1;
    for (place, part) in places {
        let name = place.name();
        printer.from(if many { &name } else { "" });
        match Input::open(&place, options) {
            Err(fault) => outcome.fault(&fault),
            Ok(mut input) => match drain(printer, &mut input)? {
                Drained::Eof => outcome.end(&name, &input, part),
                Drained::Broken(fault) => outcome.fault(&fault),
                Drained::Stop(flow) => return Ok(flow),
            },
        }
    }
    Ok(Flow::Go)
}

/// What to read, folders replaced by their files; and of each whether it is still being written.
fn places(files: &[PathBuf], outcome: &mut Outcome) -> Vec<(Place, bool)> {
    let mut places = Vec::new();
    for file in files {
        match Place::of(file) {
            Place::Path(path) if path.is_dir() => match tree::list(&path) {
                Ok(entries) if entries.is_empty() => {
                    outcome.unreadable(&format!("{}: holds no dnstap file", path.display()));
                }
                Ok(entries) => places.extend(
                    entries
                        .into_iter()
                        .map(|entry| (Place::Path(entry.path), entry.part)),
                ),
                Err(e) => {
                    outcome.unreadable(&format!("{}: cannot be listed: {e}", path.display()));
                }
            },
            place => places.push((place, false)),
        }
    }
    places
}

/// Why [`drain`] came back.
enum Drained {
    /// The input has no more, for now.
    Eof,
    /// It cannot be read on.
    Broken(Fault),
    /// Nobody wants more.
    Stop(Flow),
}

/// Prints what the input has.
fn drain(printer: &mut Printer<'_>, input: &mut Input) -> io::Result<Drained> {
    loop {
        match input.next(printer.tally_mut()) {
            Ok(Step::Run { .. }) => match printer.print(input.run())? {
                Flow::Go => {}
                stop => return Ok(Drained::Stop(stop)),
            },
            Ok(Step::Eof) => return Ok(Drained::Eof),
            Err(fault) => return Ok(Drained::Broken(fault)),
        }
    }
}
