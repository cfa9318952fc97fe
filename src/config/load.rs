//! Reads a configuration, and says everything that is wrong with it at once.
//!
//! Serde stops at the first fault and, inside an enum chosen by `type`, forgets where it was. So each table is taken
//! apart first: a key that the table's own default does not have is unknown, and each value is tried alone, in a table
//! with nothing else in it. What passes is put together again and read by serde in one piece. A new option needs
//! nothing here: its key, its type and its list of values are found in its struct.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::ops::Range;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::problem::{Problem, Source};
use crate::config::{Config, check, suggest};
use crate::outputs::options::{DnstapOptions, OutputKind, OutputOptions};
use crate::stages::options::{SampleOptions, StageOptions};
use crate::transport::options::ListenerOptions;

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
/// As [`file`].
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
    let broken: Vec<Problem> = faults.iter().map(syntax_problem).collect();
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
    let problems = if broken.is_empty() {
        loader.finish(&config)
    } else {
        beside(broken, loader.problems, &source)
    };
    Loaded {
        config,
        problems,
        source,
    }
}

/// Reads a text without checking what its settings mean: the configuration and what cannot be read.
pub(crate) fn syntax(text: &str) -> (Config, Vec<Problem>) {
    let mut loader = Loader::default();
    let (root, faults) = DeTable::parse_recoverable(text);
    let mut problems: Vec<Problem> = faults.iter().map(syntax_problem).collect();
    let config = loader.config(root.into_inner());
    problems.append(&mut loader.problems);
    (config, problems)
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
    sorted(all)
}

fn sorted(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by_key(|problem| problem.span.as_ref().map_or(usize::MAX, |span| span.start));
    problems
}

fn syntax_problem(fault: &toml::de::Error) -> Problem {
    let message = fault.message().trim().replace('\n', ", ");
    let problem = Problem::error("", format!("this is not TOML: {message}"));
    let problem = match fault.span() {
        Some(span) => problem.at(span),
        None => problem,
    };
    if message.contains("duplicate key") {
        return Problem {
            what: "this key is set twice".to_owned(),
            ..problem
        }
        .fix("keep one of the two");
    }
    problem
}

/// Keys that a table must have, by its `type` (or its list, where it has no type).
fn required(kind: &str) -> &'static [&'static str] {
    match kind {
        "listener" => ListenerOptions::REQUIRED,
        "sample" => SampleOptions::REQUIRED,
        "dnstap" => DnstapOptions::REQUIRED,
        _ => &[],
    }
}

/// A TOML table that is put together here, or the part of the file that one is read from.
type Table<'i> = DeTable<'i>;

/// Tries to read a table as what it is to be.
type Probe<'p, 'i> = &'p dyn Fn(Table<'i>) -> Result<(), toml::de::Error>;

/// Collects problems, and where each setting stands.
#[derive(Default)]
struct Loader {
    problems: Vec<Problem>,
    /// Bytes of the value of each setting in the text, and of the head of each table.
    places: BTreeMap<String, Range<usize>>,
}

impl Loader {
    /// Adds what checking finds, puts everything in its place, and sorts it by place.
    fn finish(mut self, config: &Config) -> Vec<Problem> {
        let failed: Vec<String> = self
            .problems
            .iter()
            .map(|problem| problem.place.clone())
            .collect();
        let checked = check::config(config, &|place| failed.iter().any(|f| f == place));
        let mut all = std::mem::take(&mut self.problems);
        for problem in checked {
            let span = self.span_of(&problem.place);
            all.push(Problem { span, ..problem });
        }
        sorted(all)
    }

    /// Where a setting stands, or the table it would stand in.
    fn span_of(&self, place: &str) -> Option<Range<usize>> {
        let mut place = place;
        loop {
            if let Some(span) = self.places.get(place) {
                return Some(span.clone());
            }
            let cut = place.rfind(['.', '['])?;
            place = place.get(..cut)?;
        }
    }

    fn config(&mut self, mut root: Table<'_>) -> Config {
        let listeners = self.list(&mut root, "listener");
        let stages = self.list(&mut root, "stage");
        let outputs = self.list(&mut root, "output");
        let mut config: Config = self.fill(root, "", "the top of the file", Table::new());
        if let Some(entries) = listeners {
            config.listener = entries
                .into_iter()
                .enumerate()
                .map(|(i, entry)| self.listener(i, entry))
                .collect();
        }
        if let Some(entries) = stages {
            let typed = entries.into_iter().enumerate();
            config.stage = typed
                .filter_map(|(i, entry)| self.typed(i, entry, "stage", StageOptions::TYPES))
                .collect();
        }
        if let Some(entries) = outputs {
            let typed = entries.into_iter().enumerate();
            config.output = typed
                .filter_map(|(i, entry)| {
                    self.typed::<OutputOptions>(i, entry, "output", OutputKind::TYPES)
                })
                .collect();
        }
        config
    }

    /// The entries of a list of tables, taken out of the file; `None` when the file has no such list.
    fn list<'i>(
        &mut self,
        root: &mut Table<'i>,
        name: &str,
    ) -> Option<Vec<(Range<usize>, Table<'i>)>> {
        let (key, value) = root.remove_entry(name)?;
        let head = format!("each {name} begins with a line [[{name}]] and its keys follow");
        let span = key.span();
        self.places.insert(name.to_owned(), span.clone());
        let entries = match value.into_inner() {
            DeValue::Array(entries) => entries,
            DeValue::Table(_) => {
                let what = format!(
                    "there can be several of `{name}`, and this is written as if there were one"
                );
                self.problems
                    .push(Problem::error(name, what).at(span).fix(head));
                return None;
            }
            other => {
                let what = format!(
                    "`{name}` is a list of tables, and this is {}",
                    article(other.type_str())
                );
                self.problems
                    .push(Problem::error(name, what).at(span).fix(head));
                return None;
            }
        };
        let mut tables = Vec::new();
        for (i, entry) in entries.into_iter().enumerate() {
            let span = entry.span();
            match entry.into_inner() {
                DeValue::Table(table) => tables.push((span, table)),
                other => {
                    let what = format!(
                        "a {name} is a table, and this is {}",
                        article(other.type_str())
                    );
                    self.problems.push(
                        Problem::error(format!("{name}[{i}]"), what)
                            .at(span)
                            .fix(head.clone()),
                    );
                }
            }
        }
        Some(tables)
    }

    fn listener(&mut self, i: usize, (span, table): (Range<usize>, Table<'_>)) -> ListenerOptions {
        let path = format!("listener[{i}]");
        self.places.insert(path.clone(), span.clone());
        self.demand("listener", "a listener", &table, &path, span);
        self.fill(table, &path, "[[listener]]", Table::new())
    }

    /// One entry of a list whose tables say by `type` what they are; `None` when it does not say so.
    fn typed<T: Serialize + DeserializeOwned>(
        &mut self,
        i: usize,
        (span, mut table): (Range<usize>, Table<'_>),
        list: &str,
        types: &[&'static str],
    ) -> Option<T> {
        let path = format!("{list}[{i}]");
        self.places.insert(path.clone(), span.clone());
        let types_listed = types.join(", ");
        let Some((key, value)) = table.remove_entry("type") else {
            let what = format!("this {list} has no `type`");
            let fix = format!("say which it is with type = \"...\": {types_listed}");
            self.problems
                .push(Problem::error(path, what).at(span).fix(fix));
            return None;
        };
        let place = format!("{path}.type");
        let kind = match value.get_ref() {
            DeValue::String(kind) => types.iter().find(|known| *known == kind),
            _ => None,
        };
        let Some(kind) = kind else {
            let written = value.get_ref().as_str().unwrap_or_default();
            let what = format!("there is no {list} of type \"{written}\"");
            let fix = match suggest::closest(written, types.iter().copied()) {
                Some(near) => format!("did you mean \"{near}\"? The types are {types_listed}"),
                None => format!("the types are {types_listed}"),
            };
            self.problems
                .push(Problem::error(place, what).at(value.span()).fix(fix));
            return None;
        };
        self.places.insert(place, value.span());
        let article = if list.starts_with('o') { "an" } else { "a" };
        self.demand(
            kind,
            &format!("{article} {list} of type \"{kind}\""),
            &table,
            &path,
            span,
        );
        let mut base = Table::new();
        base.insert(
            key.clone(),
            Spanned::new(value.span(), DeValue::String((*kind).into())),
        );
        Some(self.fill(
            table,
            &path,
            &format!("{article} {list} of type \"{kind}\""),
            base,
        ))
    }

    /// Reports the keys that a table must have and has not.
    fn demand(
        &mut self,
        kind: &str,
        label: &str,
        table: &Table<'_>,
        path: &str,
        span: Range<usize>,
    ) {
        for key in required(kind) {
            if table.contains_key(*key) {
                continue;
            }
            let example = match *key {
                "uri" => "uri = \"unix:/run/tapflow/dnstap.sock\" or uri = \"tcp:127.0.0.1:6000\"",
                "to" => "to = \"tcp:collector.example:6000\"",
                _ => "one_in = 100",
            };
            let problem = Problem::error(
                format!("{path}.{key}"),
                format!("{label} needs the key `{key}`"),
            );
            self.problems
                .push(problem.at(span.clone()).fix(format!("add {example}")));
        }
    }

    /// Reads `table` as a `T`, reporting what is wrong and using defaults in its place. `base` holds the keys without
    /// which there is no `T` (its type); `label` is what a `T` is called.
    fn fill<'i, T: Serialize + DeserializeOwned>(
        &mut self,
        table: Table<'i>,
        path: &str,
        label: &str,
        base: Table<'i>,
    ) -> T {
        let read = |part: Table<'i>| {
            let mut whole = base.clone();
            whole.extend(part);
            T::deserialize(toml::Deserializer::from(Spanned::new(0..0, whole)))
        };
        let default = read(Table::new())
            .expect("every option has a default, which a test of each type holds");
        let mut schema =
            toml::Table::try_from(&default).expect("options are plain tables, which a test holds");
        schema.retain(|key, _| !base.contains_key::<str>(key));
        let probe = |part: Table<'i>| read(part).map(drop);
        let good = self.sift(table, &schema, path, label, &probe);
        read(good).unwrap_or_else(|error| {
            // Each value is fine alone, so they contradict each other; no options do so today.
            self.problems
                .push(Problem::error(path, error.message().to_owned()));
            default
        })
    }

    /// The entries of `table` that are known in `schema` and that `probe` takes; the others are reported.
    fn sift<'i>(
        &mut self,
        table: Table<'i>,
        schema: &toml::Table,
        path: &str,
        label: &str,
        probe: Probe<'_, 'i>,
    ) -> Table<'i> {
        let mut good = Table::new();
        for (key, value) in table {
            let place = if path.is_empty() {
                key.get_ref().to_string()
            } else {
                format!("{path}.{}", key.get_ref())
            };
            let Some(expected) = schema.get(key.get_ref().as_ref()) else {
                self.unknown_key(&key, schema, &place, label);
                continue;
            };
            self.places.insert(place.clone(), value.span());
            let whole = |part: Spanned<DeValue<'i>>| {
                let mut table = Table::new();
                table.insert(key.clone(), part);
                table
            };
            let span = value.span();
            let value = match (value.into_inner(), expected) {
                (DeValue::Table(inner), toml::Value::Table(schema)) => {
                    let deeper =
                        |part| probe(whole(Spanned::new(span.clone(), DeValue::Table(part))));
                    DeValue::Table(self.sift(inner, schema, &place, &format!("[{place}]"), &deeper))
                }
                (DeValue::Array(list), toml::Value::Array(_)) => {
                    let mut kept = toml::de::DeArray::new();
                    for (i, element) in list.into_iter().enumerate() {
                        let mut alone = toml::de::DeArray::new();
                        alone.push(element.clone());
                        match probe(whole(Spanned::new(span.clone(), DeValue::Array(alone)))) {
                            Ok(()) => kept.push(element),
                            Err(error) => {
                                self.bad_value(&error, &format!("{place}[{i}]"), &element, None)
                            }
                        }
                    }
                    DeValue::Array(kept)
                }
                (value, expected) => {
                    match probe(whole(Spanned::new(span.clone(), value.clone()))) {
                        Ok(()) => value,
                        Err(error) => {
                            self.bad_value(
                                &error,
                                &place,
                                &Spanned::new(span, value),
                                Some(expected),
                            );
                            continue;
                        }
                    }
                }
            };
            good.insert(key.clone(), Spanned::new(span, value));
        }
        good
    }

    fn unknown_key(
        &mut self,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        schema: &toml::Table,
        place: &str,
        label: &str,
    ) {
        let word = key.get_ref().as_ref();
        let known: Vec<&str> = schema.keys().map(String::as_str).collect();
        let what = format!("unknown key `{word}` in {label}");
        let fix = if let Some(near) = suggest::key(word, &known) {
            format!("did you mean `{near}`?")
        } else if let Some(home) = home_of(word, label) {
            format!("`{word}` is a key of {home}")
        } else if known.is_empty() {
            format!("{label} has no keys of its own")
        } else {
            format!("the keys of {label} are {}", known.join(", "))
        };
        self.problems
            .push(Problem::error(place, what).at(key.span()).fix(fix));
    }

    fn bad_value(
        &mut self,
        error: &toml::de::Error,
        place: &str,
        value: &Spanned<DeValue<'_>>,
        expected: Option<&toml::Value>,
    ) {
        let key = place.rsplit('.').next().unwrap_or(place);
        let (what, fix) = explain(key, error.message(), value.get_ref(), expected);
        let problem = Problem::error(place, what).at(value.span());
        self.problems.push(Problem { fix, ..problem });
    }
}

/// Says what is wrong with a value, from serde's message about it.
fn explain(
    key: &str,
    message: &str,
    value: &DeValue<'_>,
    expected: Option<&toml::Value>,
) -> (String, Option<String>) {
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        let mut words = rest.split('`').skip(1).step_by(2);
        let written = words.next().unwrap_or_default();
        let values: Vec<&str> = words.collect();
        let listed = values.join(", ");
        let fix = match suggest::closest(written, values.iter().copied()) {
            Some(near) => format!("did you mean \"{near}\"? The values are {listed}"),
            None => format!("the values are {listed}"),
        };
        return (format!("`{key}` cannot be \"{written}\""), Some(fix));
    }
    if !message.starts_with("invalid type") && !message.starts_with("invalid value") {
        return (message.to_owned(), None);
    }
    let wanted = message.rsplit("expected ").next().unwrap_or_default();
    let wanted = match wanted {
        "u32" => "a whole number from 0 to 4294967295",
        "u64" => "a whole number from 0 to 9223372036854775807",
        "a boolean" => "true or false, without quotes",
        "a string" | "path string" => "a text in quotes",
        "a sequence" => "a list in square brackets, such as [\"...\", \"...\"]",
        other if other.starts_with("struct") || other.starts_with("map") => "a table",
        other if other.contains("enum") => "one of its names, in quotes",
        other => other,
    };
    let shown = expected
        .filter(|value| !value.is_table() && !value.is_array())
        .map(|value| format!("the default is {value}"));
    (
        format!(
            "`{key}` is {wanted}, and this is {}",
            article(value.type_str())
        ),
        shown,
    )
}

/// The table that a key belongs to, for one that stands in another; `label` is where it stands.
fn home_of(word: &str, label: &str) -> Option<String> {
    let table = |value: Result<toml::Table, toml::ser::Error>| value.unwrap_or_default();
    let config = table(toml::Table::try_from(Config::default()));
    let mut homes: Vec<(String, toml::Table)> = Vec::new();
    homes.push((
        "[[listener]]".to_owned(),
        table(toml::Table::try_from(ListenerOptions::default())),
    ));
    for kind in OutputKind::TYPES {
        let typed = toml::from_str::<OutputOptions>(&format!("type = \"{kind}\""));
        homes.extend(typed.map(|typed| {
            (
                format!("an output of type \"{kind}\""),
                table(toml::Table::try_from(typed)),
            )
        }));
    }
    for kind in StageOptions::TYPES {
        let typed = toml::from_str::<StageOptions>(&format!("type = \"{kind}\""));
        homes.extend(typed.map(|typed| {
            (
                format!("a stage of type \"{kind}\""),
                table(toml::Table::try_from(typed)),
            )
        }));
    }
    for (name, value) in &config {
        if let Some(inner) = value.as_table() {
            homes.push((format!("[{name}]"), inner.clone()));
        }
    }
    homes.push((
        "the top of the file, above the first [table]".to_owned(),
        config,
    ));
    let here = |home: &str| home.starts_with(label);
    homes
        .into_iter()
        .find(|(home, keys)| !here(home) && keys.contains_key(word))
        .map(|(home, _)| home)
}

fn article(noun: &str) -> String {
    match noun {
        "integer" | "array" | "offset datetime" => format!("an {noun}"),
        _ => format!("a {noun}"),
    }
}
