//! Reads a configuration, and says everything that is wrong with it at once.

use std::io::Read as _;
use std::path::Path;

use toml::de::DeTable;

use crate::config::problem::{Problem, Source};
use crate::config::sift::{Loader, Places};
use crate::config::{Config, check};

/// Most bytes of a configuration file that are read; the largest sensible one is a thousandth of it.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Why there is no text to read a configuration from. The message names the file and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no such file.
    #[error("{0}: there is no such file")]
    Missing(String),
    /// It is a folder.
    #[error("{0} is a folder: name the file in it, such as {0}/tapflow.toml")]
    Folder(String),
    /// It is not text.
    #[error(
        "{name}:{line}: byte 0x{byte:02x} is not UTF-8: a configuration is text in UTF-8, so save it as that"
    )]
    NotUtf8 {
        /// File name.
        name: String,
        /// Line of the first byte that is not, from 1.
        line: usize,
        /// That byte.
        byte: u8,
    },
    /// It is too large.
    #[error("{0} is over 16 MiB: that is not a configuration")]
    TooLarge(String),
    /// The system says no.
    #[error("{name}: cannot be read: {error}")]
    Io {
        /// File name.
        name: String,
        /// The system's reason.
        error: std::io::Error,
    },
}

/// A configuration as it was read, with everything that is wrong with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The configuration; settings with an error have their defaults, so it is to be used only without errors.
    pub config: Config,
    /// What is wrong, errors and warnings, in the order of the text.
    pub problems: Vec<Problem>,
    /// What it was read from.
    pub source: Source,
    /// Where each setting stands in the text.
    places: Places,
}

/// A configuration that cannot run: the whole report, ready to be shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidConfig(pub String);

impl Loaded {
    /// The problems that keep it from running.
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| problem.is_error())
    }

    /// The problems that do not.
    pub fn warnings(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| !problem.is_error())
    }

    /// Adds problems found elsewhere (by [`check::machine`]), each at its setting in the text.
    pub fn locate(&mut self, found: Vec<Problem>) {
        let found = found.into_iter().map(|problem| self.places.locate(problem));
        self.problems.extend(found);
        sort(&mut self.problems);
    }

    /// Every problem with its line, for a person to read; empty when there is none.
    pub fn report(&self, colour: bool) -> String {
        let shown: Vec<String> = self
            .problems
            .iter()
            .map(|problem| self.source.show(problem, colour))
            .collect();
        shown.join("\n")
    }

    /// The configuration, when it can run.
    ///
    /// # Errors
    /// The report of every problem, when one of them is an error.
    pub fn into_valid(self) -> Result<Config, InvalidConfig> {
        if self.errors().next().is_some() {
            Err(InvalidConfig(self.report(false)))
        } else {
            Ok(self.config)
        }
    }
}

/// Reads and checks the file at `path`.
///
/// # Errors
/// [`ReadError`] when there is no text; whatever is wrong with the text is in [`Loaded::problems`].
pub fn file(path: &Path) -> Result<Loaded, ReadError> {
    let name = path.display().to_string();
    let io = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => ReadError::Missing(name.clone()),
        std::io::ErrorKind::IsADirectory => {
            ReadError::Folder(name.trim_end_matches('/').to_owned())
        }
        _ => ReadError::Io {
            name: name.clone(),
            error,
        },
    };
    let file = std::fs::File::open(path).map_err(io)?;
    reader(&name, file)
}

/// Reads and checks what `input` holds, under a name for messages.
///
/// # Errors
/// As [`file()`].
pub fn reader(name: &str, input: impl std::io::Read) -> Result<Loaded, ReadError> {
    let mut bytes = Vec::new();
    input
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::IsADirectory => {
                ReadError::Folder(name.trim_end_matches('/').to_owned())
            }
            _ => ReadError::Io {
                name: name.to_owned(),
                error,
            },
        })?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(ReadError::TooLarge(name.to_owned()));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(self::text(name, &text)),
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let before = error.as_bytes().get(..valid).unwrap_or_default();
            let line = before.iter().filter(|b| **b == b'\n').count() + 1;
            let byte = error.as_bytes().get(valid).copied().unwrap_or_default();
            Err(ReadError::NotUtf8 {
                name: name.to_owned(),
                line,
                byte,
            })
        }
    }
}

/// Reads and checks a text, under a name for messages.
pub fn text(name: &str, text: &str) -> Loaded {
    let mut loader = Loader::default();
    let (root, faults) = DeTable::parse_recoverable(text);
    let empty = root.get_ref().is_empty() && faults.is_empty();
    let broken: Vec<Problem> = faults
        .iter()
        .map(|fault| syntax_problem(fault, text))
        .collect();
    let config = loader.config(root.into_inner());
    if empty {
        let fix = "config/default.toml shows what can be set";
        loader
            .problems
            .push(Problem::warning("", "nothing is set, so everything has its default").fix(fix));
    }
    let source = Source {
        name: name.to_owned(),
        text: text.to_owned(),
    };
    let Loader { problems, places } = loader;
    let problems = if broken.is_empty() {
        checked(problems, &places, &config)
    } else {
        beside(broken, problems, &source)
    };
    Loaded {
        config,
        problems,
        source,
        places,
    }
}

/// Reads a text without checking what its settings mean: the configuration and what cannot be read.
pub(crate) fn syntax(text: &str) -> (Config, Vec<Problem>) {
    let mut loader = Loader::default();
    let (root, faults) = DeTable::parse_recoverable(text);
    let config = loader.config(root.into_inner());
    let faults = faults.iter().map(|fault| syntax_problem(fault, text));
    (config, faults.chain(loader.problems).collect())
}

/// What could not be read, and what checking finds in the rest, each in its place and in the order of the text.
fn checked(unread: Vec<Problem>, places: &Places, config: &Config) -> Vec<Problem> {
    let found = check::config(config, &check::Unread::new(&unread));
    let mut all = unread;
    all.extend(found.into_iter().map(|problem| places.locate(problem)));
    sort(&mut all);
    all
}

/// The syntax faults, and of the problems found in what could be read, those that no fault can have caused: unknown
/// keys and bad values on lines without a fault.
fn beside(broken: Vec<Problem>, found: Vec<Problem>, source: &Source) -> Vec<Problem> {
    let line = |problem: &Problem| {
        problem
            .span
            .as_ref()
            .map(|span| source.line_column(span.start).0)
    };
    let lines: Vec<Option<usize>> = broken.iter().map(line).collect();
    let mut all = broken;
    // A fault is often noticed at the start of the line after it.
    let near = |at: usize| {
        lines
            .iter()
            .flatten()
            .any(|fault| at == *fault || at + 1 == *fault)
    };
    all.extend(
        found.into_iter().filter(|problem| {
            line(problem).is_some_and(|at| !near(at)) && !problem.place.is_empty()
        }),
    );
    sort(&mut all);
    all
}

/// Into the order of the text; what has no place in it comes last.
fn sort(problems: &mut [Problem]) {
    problems.sort_by_key(|problem| problem.span.as_ref().map_or(usize::MAX, |span| span.start));
}

fn syntax_problem(fault: &toml::de::Error, text: &str) -> Problem {
    let message = fault.message().trim().replace('\n', ", ");
    let problem = Problem::error("", format!("this is not TOML: {message}"));
    let Some(span) = fault.span() else {
        return problem;
    };
    let rest = text.get(span.start..).and_then(|rest| rest.lines().next());
    let rest = rest.unwrap_or_default().trim_start();
    let (what, fix) = if message.contains("duplicate key") {
        ("this key is set twice", "keep one of the two")
    } else if message.contains("leading zero") {
        (
            "a number does not begin with 0",
            "a file mode is written in quotes, such as \"0660\"",
        )
    } else if message.starts_with("string values must be quoted")
        && (rest.is_empty() || rest.starts_with('#'))
    {
        (
            "this key has no value",
            "write one after the =, or leave the key away for its default",
        )
    } else if message.starts_with("string values must be quoted") {
        ("a text must be in quotes", "write \"...\" around it")
    } else {
        return problem.at(span);
    };
    Problem {
        what: what.to_owned(),
        ..problem
    }
    .at(span)
    .fix(fix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::problem::Severity;

    /// What a text must be told: severity, line and column, and parts of the message.
    struct Row(
        &'static str,
        &'static [(Severity, &'static str, &'static [&'static str])],
    );

    use Severity::Error;

    fn assert_told(rows: &[Row]) {
        for Row(text, wants) in rows {
            let loaded = super::text("x.toml", text);
            let report = loaded.report(false);
            assert_eq!(loaded.problems.len(), wants.len(), "{text}\n----\n{report}");
            for (problem, (severity, at, parts)) in loaded.problems.iter().zip(*wants) {
                let shown = loaded.source.show(problem, false);
                assert_eq!(problem.severity, *severity, "{text}\n----\n{shown}");
                assert!(
                    shown.contains(&format!("--> x.toml:{at}\n")),
                    "{at}\n{shown}"
                );
                for part in *parts {
                    assert!(shown.contains(part), "{part:?} is not in\n{shown}");
                }
            }
            assert_eq!(
                loaded.clone().into_valid().is_err(),
                wants.iter().any(|want| want.0 == Error)
            );
        }
    }

    #[test]
    fn unknown_keys_are_told_with_their_line_and_what_was_meant() {
        assert_told(&[
            Row(
                "worker_thread = 2\n",
                &[(
                    Error,
                    "1:1",
                    &[
                        "unknown key `worker_thread`",
                        "did you mean `worker_threads`?",
                    ],
                )],
            ),
            Row(
                "threads = 2",
                &[(Error, "1:1", &["did you mean `worker_threads`?"])],
            ),
            Row(
                "\n[lgo]\nlevel = 'info'",
                &[(Error, "2:2", &["`lgo`", "did you mean `log`?"])],
            ),
            Row(
                "[[listeners]]\nuri = 'tcp:[::1]:1'",
                &[(Error, "1:3", &["^^^^^^^^^", "did you mean `listener`?"])],
            ),
            Row(
                "[http]\nlevel = 'info'",
                &[(Error, "2:1", &["`level`", "is a key of [log]"])],
            ),
            Row(
                "[log]\ndata_dir = '/x'",
                &[(Error, "2:1", &["`data_dir` is a key of the top level"])],
            ),
            Row(
                "[[output]]\ntype = 'stdout'\npath = '/x'",
                &[(Error, "3:1", &["an output of type \"file\""])],
            ),
            Row(
                "[[output]]\ntype = 'null'\nzzzz = 1",
                &[(Error, "3:1", &["name, policy, queue_batches, queue_bytes"])],
            ),
            Row(
                "[[stage]]\ntype = 'decode'\nzzzz = 1",
                &[(Error, "3:1", &["has no keys of its own"])],
            ),
        ]);
    }

    #[test]
    fn words_that_are_not_known_are_told_with_those_that_are() {
        assert_told(&[
            Row(
                "[[output]]\ntype = \"null\"\npolicy = \"droop_newest\"",
                &[(
                    Error,
                    "3:10",
                    &[
                        "policy = \"droop_newest\"\n",
                        "         ^^^^^^^^^^^^^^\n",
                        "did you mean \"drop_newest\"?",
                        "block, drop_newest, drop_oldest",
                    ],
                )],
            ),
            Row(
                "[[output]]\ntype = 'flie'",
                &[(
                    Error,
                    "2:8",
                    &[
                        "no output of type \"flie\"",
                        "did you mean \"file\"?",
                        "null, stdout, file, dnstap",
                    ],
                )],
            ),
            Row(
                "[[stage]]\ntype = 7",
                &[(Error, "2:8", &["the types are decode, filter"])],
            ),
            Row(
                "[[output]]\ntype = 'stdout'\nformat = 'jsno'",
                &[(Error, "3:10", &["did you mean \"json\"?", "csv, tsv"])],
            ),
            Row(
                "[[output]]\ntype = 'stdout'\nformat = '{qname} {qtipe}'",
                &[(
                    Error,
                    "3:10",
                    &[
                        "error: there is no field \"qtipe\"; did you mean qtype?, at column 10 of the template\n",
                    ],
                )],
            ),
            Row(
                "[[output]]\ntype = 'file'\nformat = 'csv'\nfields = ['qname', 'qtipe', '000']",
                &[
                    (
                        Error,
                        "4:20",
                        &[
                            "^^^^^^^\n",
                            "there is no field \"qtipe\"",
                            "did you mean \"qtype\"?",
                        ],
                    ),
                    (Error, "4:29", &["`tapflow fields` lists what there is"]),
                ],
            ),
            Row(
                "[[output]]\ntype = 'stdout'\nformat = 'json'\nfields = ['qname']",
                &[(
                    Error,
                    "4:10",
                    &[
                        "json takes no choice of fields",
                        "these formats do: csv, tsv",
                    ],
                )],
            ),
            Row(
                "[log]\nlevel = 3",
                &[(
                    Error,
                    "2:9",
                    &["this is 3", "error, warn, info, debug, trace"],
                )],
            ),
            Row(
                "[[output]]\ntype = 'dnstap'\nto = 'tcp:a:1'\ncompress = true",
                &[(
                    Error,
                    "4:12",
                    &["this is true", "off, gzip, lz4, snappy, zstd"],
                )],
            ),
        ]);
    }

    #[test]
    fn values_of_the_wrong_kind_are_told_with_the_right_one() {
        assert_told(&[
            Row(
                "worker_threads = 'two'",
                &[(
                    Error,
                    "1:18",
                    &["a whole number", "this is a string", "the default is 0"],
                )],
            ),
            Row("worker_threads = -1", &[(Error, "1:18", &["this is -1"])]),
            Row(
                "worker_threads = 1.5",
                &[(Error, "1:18", &["a whole number", "this is 1.5"])],
            ),
            Row(
                "worker_threads = 4294967296",
                &[(Error, "1:18", &["a whole number from 0 to 4294967295"])],
            ),
            Row(
                "data_dir = 7",
                &[(Error, "1:12", &["a text in quotes", "this is 7"])],
            ),
            Row(
                "shutdown_timeout = 5",
                &[(Error, "1:20", &["has no unit", "\"5s\""])],
            ),
            Row(
                "shutdown_timeout = [1]",
                &[(Error, "1:20", &["a span of time", "this is an array"])],
            ),
            Row(
                "log = 'info'",
                &[(Error, "1:7", &["`log` is a table", "this is a string"])],
            ),
            Row(
                "[http]\naddress = 'localhost:9954'",
                &[(Error, "2:11", &["127.0.0.1:9954"])],
            ),
            Row(
                "[http]\nenabled = 'yes'",
                &[(Error, "2:11", &["true or false"])],
            ),
            Row(
                "[listener]\nuri = 'tcp:[::1]:1'",
                &[(Error, "1:2", &["as if there were one", "[[listener]]"])],
            ),
            Row(
                "output = 'stdout:'",
                &[(Error, "1:1", &["a list of tables", "[[output]]"])],
            ),
            Row(
                "output = ['stdout:']",
                &[(Error, "1:11", &["an output is a table"])],
            ),
            Row(
                "[[listener]]\nuri = 'tcp:[::1]:1'\nallow = ['10.0.0.0/8', 'x',\n  5]",
                &[
                    (Error, "3:24", &["\"x\" is not a network"]),
                    (Error, "4:3", &["\"5\" is not a network"]),
                ],
            ),
            Row(
                "[[listener]]\nuri = 'unix:/x'\nsocket_mode = 660",
                &[(Error, "3:15", &["in quotes, in octal", "660"])],
            ),
        ]);
    }

    #[test]
    fn what_must_be_given_is_asked_for() {
        assert_told(&[
            Row(
                "[[listener]]\nmode = 'raw'",
                &[(Error, "1:1", &["needs the key `uri`", "unix:/run"])],
            ),
            Row(
                "[[stage]]\nby = 'qname'",
                &[(
                    Error,
                    "1:1",
                    &["has no `type`", "decode, filter, sample, metrics"],
                )],
            ),
            Row(
                "[[output]]\ntype = 'dnstap'",
                &[(Error, "1:1", &["needs the key `to`", "tcp:"])],
            ),
            Row(
                "[[stage]]\ntype = 'sample'",
                &[(Error, "1:1", &["needs the key `one_in`", "one_in = 100"])],
            ),
        ]);
    }

    #[test]
    fn what_is_not_toml_is_told_and_the_rest_is_read_all_the_same() {
        assert_told(&[
            Row("worker_threads =\n", &[(Error, "1:17", &["has no value"])]),
            Row(
                "data_dir = /var/x\n",
                &[(Error, "1:12", &["must be in quotes"])],
            ),
            Row(
                "worker_threads = 1\nworker_threads = 2\n",
                &[(Error, "2:1", &["set twice"])],
            ),
            Row(
                "[[listener]]\nuri = 'unix:/x'\nsocket_mode = 0660\n",
                &[(Error, "3:15", &["does not begin with 0", "\"0660\""])],
            ),
            Row(
                "data_dir = \"/x\n",
                &[(Error, "1:15", &["this is not TOML"])],
            ),
            Row(
                "worker_threads =\n\n[log]\nlevle = 'info'\n",
                &[
                    (Error, "1:17", &["has no value"]),
                    (Error, "4:1", &["did you mean `level`?"]),
                ],
            ),
        ]);
    }

    #[test]
    fn every_problem_is_told_in_one_go_in_the_order_of_the_text() {
        let text = "worker_threads = 9999\nx = 1\n[log]\nlevel = 'loud'\n[[output]]\ntype = 'filee'\n\
            [[output]]\ntype = 'file'\nprefix = '../x'\nrotate_size = '64K'\n[[listener]]\nuri = 'tcp:1'\n";
        assert_told(&[Row(
            text,
            &[
                (Error, "1:18", &["more than any machine"]),
                (Error, "2:1", &["unknown key `x`"]),
                (Error, "4:9", &["\"loud\""]),
                (Error, "6:8", &["did you mean \"file\"?"]),
                (Error, "9:10", &["cannot begin a file name"]),
                (Error, "10:15", &["64KiB"]),
                (Error, "12:7", &["has no port"]),
            ],
        )]);
    }

    #[test]
    fn an_empty_file_has_the_defaults_and_a_warning() {
        for text in ["", "\n# nothing\n", "\u{FEFF}"] {
            let loaded = super::text("x.toml", text);
            assert_eq!(loaded.config, Config::default());
            assert_eq!(loaded.problems.len(), 1);
            assert!(
                loaded.report(false).contains("warning: nothing is set"),
                "{}",
                loaded.report(false)
            );
        }
    }

    #[test]
    fn what_is_no_text_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let missing = file(&folder.path().join("none.toml")).unwrap_err();
        assert!(matches!(missing, ReadError::Missing(_)), "{missing}");
        let directory = file(folder.path()).unwrap_err();
        assert!(matches!(directory, ReadError::Folder(_)), "{directory}");
        let latin1 = reader("x.toml", &b"# fine\n# caf\xe9\n"[..])
            .unwrap_err()
            .to_string();
        assert!(
            latin1.starts_with("x.toml:2: byte 0xe9 is not UTF-8"),
            "{latin1}"
        );
        let endless = reader("x.toml", std::io::repeat(b'#')).unwrap_err();
        assert!(matches!(endless, ReadError::TooLarge(_)), "{endless}");
    }

    #[test]
    fn no_text_makes_loading_panic() {
        let base = include_str!("../../config/default.toml");
        let marks: Vec<usize> = (0..base.len())
            .filter(|at| base.is_char_boundary(*at))
            .step_by(7)
            .collect();
        for at in marks {
            for cut in [&base[..at], &base[at..]] {
                text("x.toml", cut).report(true);
            }
        }
    }
}
