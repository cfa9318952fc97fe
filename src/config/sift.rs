//! Takes a TOML document apart into options, so that every fault in it is found, and found at its place.
//!
//! Serde stops at the first fault and, inside an enum chosen by `type`, forgets where it was. So each table is sifted
//! first: a key that the table's own default does not have is unknown, and each value is tried alone, in a table with
//! nothing else in it. What passes is put together again and read by serde in one piece. A new option needs nothing
//! here: its key, its type and its list of values are found in its struct.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::config::problem::Problem;
use crate::config::{Config, suggest};
use crate::outputs::options::{DnstapOptions, MuxOptions, NullOptions, OutputKind, OutputOptions};
use crate::stages::options::{SampleOptions, StageOptions};
use crate::transport::options::ListenerOptions;

/// Bytes of the text where the value of each setting stands, and the head of each table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Places(BTreeMap<String, Range<usize>>);

impl Places {
    /// Remembers where a setting stands.
    pub(crate) fn insert(&mut self, place: String, span: Range<usize>) {
        self.0.insert(place, span);
    }

    /// The problem at its setting, or at the table the setting would stand in.
    pub(crate) fn locate(&self, mut problem: Problem) -> Problem {
        let mut place = problem.place.as_str();
        while problem.span.is_none() {
            problem.span = self.0.get(place).cloned();
            match place.rfind(['.', '[']).and_then(|cut| place.get(..cut)) {
                Some(outer) => place = outer,
                None => break,
            }
        }
        problem
    }
}

/// Keys that a table must have, by its `type` (or its list, where it has no type).
fn required(kind: &str) -> &'static [&'static str] {
    match kind {
        "listener" => ListenerOptions::REQUIRED,
        "sample" => SampleOptions::REQUIRED,
        "dnstap" => DnstapOptions::REQUIRED,
        "mux" => MuxOptions::REQUIRED,
        _ => &[],
    }
}

/// How serde begins what it says of a word that is not in an enum.
const VARIANT: &str = "unknown variant ";

/// What the part of a file is called that is in no table.
const TOP: &str = "the top level, above the first [table]";

/// A TOML table that is put together here, or the part of the file that one is read from.
type Table<'i> = DeTable<'i>;

/// Tries to read a table as what it is to be.
type Probe<'p, 'i> = &'p dyn Fn(Table<'i>) -> Result<(), toml::de::Error>;

/// Collects problems, and where each setting stands.
#[derive(Default)]
pub(crate) struct Loader {
    /// What could not be read.
    pub(crate) problems: Vec<Problem>,
    /// Where what could be read stands.
    pub(crate) places: Places,
}

impl Loader {
    /// The configuration that a document holds; what cannot be read has its default.
    pub(crate) fn config(&mut self, mut root: Table<'_>) -> Config {
        let listeners = self.list(&mut root, "listener");
        let stages = self.list(&mut root, "stage");
        let outputs = self.list(&mut root, "output");
        let mut config: Config = self.fill(root, "", TOP, Table::new());
        if let Some(entries) = listeners {
            config.listener = entries
                .into_iter()
                .enumerate()
                .map(|(i, entry)| self.listener(i, entry))
                .collect();
        }
        // What has no type that is known keeps its number, so that the others keep theirs.
        if let Some(entries) = stages {
            let typed = entries.into_iter().enumerate();
            config.stage = typed
                .map(|(i, entry)| {
                    let read = self.typed(i, entry, "stage", StageOptions::TYPES);
                    read.unwrap_or_else(|| StageOptions::Sample(SampleOptions::default()))
                })
                .collect();
        }
        if let Some(entries) = outputs {
            let typed = entries.into_iter().enumerate();
            config.output = typed
                .map(|(i, entry)| {
                    let read = self.typed(i, entry, "output", OutputKind::TYPES);
                    read.unwrap_or_else(|| {
                        OutputOptions::new(OutputKind::Null(NullOptions::default()))
                    })
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
        let count = entries.len();
        for (i, entry) in entries.into_iter().enumerate() {
            let span = entry.span();
            match entry.into_inner() {
                DeValue::Table(table) => tables.push((span, table)),
                other => {
                    let what = format!(
                        "{} is a table, and this is {}",
                        article(name),
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
        // With one missing the others' numbers would be wrong.
        (tables.len() == count).then_some(tables)
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
        let label = format!("{} of type \"{kind}\"", article(list));
        self.demand(kind, &label, &table, &path, span);
        let mut base = Table::new();
        base.insert(
            key.clone(),
            Spanned::new(value.span(), DeValue::String((*kind).into())),
        );
        Some(self.fill(table, &path, &label, base))
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
                    let alone =
                        |part| probe(whole(Spanned::new(span.clone(), DeValue::Array(part))));
                    DeValue::Array(self.elements(list, &place, &alone))
                }
                (value, expected) => {
                    match probe(whole(Spanned::new(span.clone(), value.clone()))) {
                        Ok(()) => value,
                        Err(error) => {
                            let no_text = expected.is_str() && !value.is_str();
                            let listed = no_text.then(|| {
                                words(&|word| probe(whole(Spanned::new(span.clone(), word))))
                            });
                            self.bad_value(
                                listed.flatten().as_ref().unwrap_or(&error),
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

    /// The elements of a list that `probe` takes one by one; the others are reported.
    fn elements<'i>(
        &mut self,
        list: DeArray<'i>,
        place: &str,
        probe: &dyn Fn(DeArray<'i>) -> Result<(), toml::de::Error>,
    ) -> DeArray<'i> {
        let mut kept = DeArray::new();
        for (i, element) in list.into_iter().enumerate() {
            let place = format!("{place}[{i}]");
            self.places.insert(place.clone(), element.span());
            let mut alone = DeArray::new();
            alone.push(element.clone());
            match probe(alone) {
                Ok(()) => kept.push(element),
                Err(error) => self.bad_value(&error, &place, &element, None),
            }
        }
        kept
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
        let within = if label == TOP { "at" } else { "in" };
        let what = format!("unknown key `{word}` {within} {label}");
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

/// Serde's message that lists the words of an enum, which it gives for a word that none of them is; `None` where
/// `probe` does not ask for one of a list of words.
fn words(
    probe: &dyn Fn(DeValue<'static>) -> Result<(), toml::de::Error>,
) -> Option<toml::de::Error> {
    let refused = probe(DeValue::String("".into())).err();
    refused.filter(|refused| refused.message().starts_with(VARIANT))
}

/// Says what is wrong with a value, from serde's message about it.
fn explain(
    key: &str,
    message: &str,
    value: &DeValue<'_>,
    expected: Option<&toml::Value>,
) -> (String, Option<String>) {
    if let Some(rest) = message.strip_prefix(VARIANT) {
        let mut words = rest.split('`').skip(1).step_by(2);
        let written = words.next().unwrap_or_default();
        let values: Vec<&str> = words.collect();
        let listed = values.join(", ");
        let fix = match suggest::closest(written, values.iter().copied()) {
            Some(near) => format!("did you mean \"{near}\"? The values are {listed}"),
            None => format!("the values are {listed}"),
        };
        let what = match value {
            DeValue::String(_) => format!("`{key}` cannot be \"{written}\""),
            other => format!(
                "`{key}` is one of its words in quotes, and this is {}",
                shown(other)
            ),
        };
        return (what, Some(fix));
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
        other => other,
    };
    let default = expected
        .filter(|value| !value.is_table() && !value.is_array())
        .map(|value| format!("the default is {value}"));
    (
        format!("`{key}` is {wanted}, and this is {}", shown(value)),
        default,
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
    homes.push((TOP.to_owned(), config));
    let here = |home: &str| home == label;
    homes
        .into_iter()
        .find(|(home, keys)| !here(home) && keys.contains_key(word))
        .map(|(home, _)| home)
}

fn article(noun: &str) -> String {
    let vowel = noun.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {noun}", if vowel { "an" } else { "a" })
}

/// A value as a person would name it: a number by itself, another by its kind.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(value) => value.to_string(),
        other => article(other.type_str()),
    }
}
