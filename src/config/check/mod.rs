//! What TOML cannot know: settings that contradict each other, cannot work, or probably do not do what was meant.
//!
//! [`config`] looks at the settings alone, so its answer is the same on every machine. [`machine`] looks at the machine
//! it runs on (users, folders) and only ever warns, since a file may be checked on one machine for another.

mod listeners;
mod machine;
mod outputs;
mod stages;

use std::path::{Component, Path};

use crate::config::Config;
use crate::config::problem::Problem;
use crate::units::Endpoint;

pub use machine::machine;

/// The settings that could not be read: their values are not what was written and are not to be compared.
#[derive(Debug, Clone, Copy)]
pub struct Unread<'p>(&'p [Problem]);

impl<'p> Unread<'p> {
    /// Those that these problems are about.
    pub fn new(problems: &'p [Problem]) -> Self {
        Self(problems)
    }

    /// Whether this setting could not be read.
    fn is(self, place: &str) -> bool {
        self.0.iter().any(|problem| problem.place == place)
    }

    /// Whether some entry of this list does not say what it is.
    fn types_of(self, list: &str) -> bool {
        let rest = |place: &'p str| {
            place
                .strip_prefix(list)
                .and_then(|rest| rest.strip_prefix('['))
        };
        let whole = |rest: &str| rest.ends_with(']') || rest.ends_with("].type");
        self.0
            .iter()
            .filter_map(|problem| rest(&problem.place))
            .any(whole)
    }
}

impl Config {
    /// Everything that is wrong with the settings as such, for a configuration that was not read from one file.
    pub fn check(&self) -> Vec<Problem> {
        config(self, &Unread::new(&[]))
    }
}

/// Everything that is wrong with the settings as such, but for those that could not be read.
pub fn config(config: &Config, unread: &Unread<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    general(config, &mut problems);
    listeners::check(config, *unread, &mut problems);
    stages::check(config, *unread, &mut problems);
    outputs::check(config, *unread, &mut problems);
    problems
}

/// Most threads that make sense; more only take memory from each other.
const WORKER_THREADS_SENSIBLE: u32 = 512;

fn general(config: &Config, problems: &mut Vec<Problem>) {
    if config.data_dir.to_string_lossy().contains(['{', '}']) {
        let what =
            "`data_dir` is the folder that {data_dir} stands for, and cannot hold a {..} itself";
        problems.push(Problem::error("data_dir", what));
    }
    if config.shutdown_timeout.is_off() {
        let what = "without `shutdown_timeout` a stop drops whatever outputs have not taken yet";
        problems.push(
            Problem::warning("shutdown_timeout", what).fix("give it some time, such as \"10s\""),
        );
    }
    if config.worker_threads > WORKER_THREADS_SENSIBLE {
        let what = format!(
            "{} threads are more than any machine has use for",
            config.worker_threads
        );
        problems.push(Problem::error("worker_threads", what).fix("0 takes one a core"));
    }
}

/// Most characters of a name.
const NAME_LEN_MAX: usize = 64;

/// Names become labels of metrics, keys of the ledger (`AT/REASON`) and words of log lines. `entries` are the list's
/// names, as written and as completed.
fn names(list: &str, entries: &[(&str, &str)], problems: &mut Vec<Problem>) {
    for (i, (written, name)) in entries.iter().enumerate() {
        let place = format!("{list}[{i}].name");
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if !written.is_empty() && (written.len() > NAME_LEN_MAX || !written.chars().all(plain)) {
            let what = format!(
                "\"{written}\" cannot be a name: it becomes a metric's label and a word in the log"
            );
            let fix = format!("use letters, digits, `.`, `_` and `-`, at most {NAME_LEN_MAX}");
            problems.push(Problem::error(place, what).fix(fix));
            continue;
        }
        let earlier = entries.iter().take(i).position(|(_, other)| other == name);
        if let Some(earlier) = earlier {
            let what = format!("{list} {} has the name \"{name}\" already", earlier + 1);
            problems.push(
                Problem::error(place, what)
                    .fix("give each a name of its own, or leave the names away"),
            );
        }
    }
}

/// What may be wrong with any path in a setting.
fn path(place: &str, path: &Path, problems: &mut Vec<Problem>) {
    let text = path.to_string_lossy();
    let rest = text.replace("{data_dir}", "");
    if rest.contains(['{', '}']) {
        let what = format!("\"{text}\" holds a {{..}} that is not known");
        problems.push(
            Problem::error(place, what).fix("{data_dir}, the data folder, is the one there is"),
        );
    } else if text.starts_with("~/") {
        let what = format!("\"{text}\" is not the home folder: only a shell reads ~ so");
        problems
            .push(Problem::error(place, what).fix("write the whole path, or one below {data_dir}"));
    } else if path.is_relative() && !text.starts_with("{data_dir}") && !text.is_empty() {
        let what = format!("\"{text}\" depends on the folder that tapflow is started in");
        problems.push(
            Problem::warning(place, what).fix("write the whole path, or one below {data_dir}"),
        );
    }
}

/// Whether two places are the same socket, or would take each other's connections.
fn same_place(a: &Endpoint, b: &Endpoint) -> bool {
    match (a, b) {
        (Endpoint::Unix(a), Endpoint::Unix(b)) => plain_path(a) == plain_path(b),
        (Endpoint::Tcp { host: a, port: p }, Endpoint::Tcp { host: b, port: q }) => {
            // Port 0 is a port of its own each time.
            p == q && *p != 0 && (a.eq_ignore_ascii_case(b) || is_any(a) || is_any(b))
        }
        _ => false,
    }
}

/// The path without `.` components, so that spelling does not hide a clash.
fn plain_path(path: &Path) -> Vec<Component<'_>> {
    path.components()
        .filter(|part| !matches!(part, Component::CurDir))
        .collect()
}

/// Whether a host stands for every address of the machine.
fn is_any(host: &str) -> bool {
    host.parse::<std::net::IpAddr>()
        .is_ok_and(|address| address.is_unspecified())
}

/// Whether a host can be reached from this machine alone.
fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.to_canonical().is_loopback())
}
