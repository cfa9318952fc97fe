//! What the end-to-end harness and the comparison with peers share: input, processes, figures.

use std::error::Error;
use std::path::{Path, PathBuf};

pub(crate) mod figures;
pub(crate) mod input;
pub(crate) mod proc;
pub(crate) mod serve;
pub(crate) mod stream;

/// The result of anything that can go wrong in a harness.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What the command line says: `--rounds N`, `--million-frames N`, `--test`, words that choose cases.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Rounds of every case, interleaved.
    pub(crate) rounds: usize,
    /// Frames of a round, for a case that is at its full rate.
    pub(crate) frames: usize,
    /// One small round, to see that everything runs.
    pub(crate) smoke: bool,
    /// Cases whose name holds one of these; empty: all.
    pub(crate) only: Vec<String>,
    /// Other options with a value, as `--dns-collector PATH`.
    pub(crate) extra: Vec<(String, String)>,
}

impl Settings {
    /// Reads the arguments after `--`.
    ///
    /// # Errors
    /// A number that is none, an option without its value.
    pub(crate) fn from_args() -> Result<Self> {
        let mut settings = Self {
            rounds: 5,
            frames: 20_000_000,
            smoke: false,
            only: Vec::new(),
            extra: Vec::new(),
        };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--rounds" => settings.rounds = value()?.parse::<usize>()?.max(1),
                "--million-frames" => {
                    settings.frames = (value()?.parse::<f64>()? * 1e6).max(1.0) as usize;
                }
                "--test" => settings.smoke = true,
                // What cargo itself passes.
                "--bench" => {}
                option if option.starts_with("--") => {
                    let value = value()?;
                    settings.extra.push((option.to_owned(), value));
                }
                word => settings.only.push(word.to_owned()),
            }
        }
        if settings.smoke {
            settings.rounds = 1;
            settings.frames = settings.frames.min(200_000);
        }
        Ok(settings)
    }

    /// Whether a case was asked for.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|word| name.contains(word.as_str()))
    }

    /// The value of another option.
    pub(crate) fn option(&self, name: &str) -> Option<&str> {
        let found = self.extra.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// A folder that is removed at the end.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes it, in `TMPDIR`.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("tapflow-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The first lines of every report: what machine, which versions, the command, the day.
pub(crate) fn headline(settings: &Settings, bench: &str) -> String {
    let first = |text: String| text.lines().next().unwrap_or_default().trim().to_owned();
    let said = |program: &str, args: &[&str]| {
        let output = std::process::Command::new(program).args(args).output();
        output.map_or_else(
            |_| format!("no {program}"),
            |o| first(String::from_utf8_lossy(&o.stdout).into_owned()),
        )
    };
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1))
        .unwrap_or("a processor without a name");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .map(|a| match a.strip_prefix('/') {
            // Paths are of this machine alone.
            Some(path) => path.rsplit('/').next().unwrap_or_default().to_owned(),
            None => a,
        })
        .collect();
    let args = if args.is_empty() {
        String::new()
    } else {
        format!(" -- {}", args.join(" "))
    };
    let state = said("git", &["describe", "--always", "--dirty"]);
    format!(
        "`cargo bench --bench {bench}{args}` on {}: tapflow {} ({state}), {}, Linux {}, {cores} cores of {cpu}; {} rounds{}",
        said("date", &["-u", "+%Y-%m-%d"]),
        env!("CARGO_PKG_VERSION"),
        said("rustc", &["--version"]),
        said("uname", &["-r"]),
        settings.rounds,
        if settings.smoke { ", a smoke run" } else { "" },
    )
}
