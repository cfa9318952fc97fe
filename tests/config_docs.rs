//! `config/default.toml` is the built-in default and names every setting; the recipes beside it are fit to be used.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tapflow::config::Config;
use tapflow::config::load::{self, Loaded};
use tapflow::outputs::options::{OutputKind, OutputOptions};
use tapflow::stages::options::StageOptions;
use tapflow::transport::options::ListenerOptions;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config")
}

fn default_text() -> String {
    std::fs::read_to_string(folder().join("default.toml")).unwrap()
}

/// The text with its examples in use: lines that begin with `#` and no space after it lose it.
fn with_examples(text: &str) -> String {
    let use_example = |line: &str| match line.strip_prefix('#') {
        Some(rest) if !rest.is_empty() && !rest.starts_with([' ', '#', '-']) => rest.to_owned(),
        _ => line.to_owned(),
    };
    text.lines().map(|line| use_example(line) + "\n").collect()
}

fn clean(name: &str, text: &str) -> Loaded {
    let loaded = load::text(name, text);
    assert!(loaded.problems.is_empty(), "{}", loaded.report(false));
    loaded
}

fn keys(options: impl serde::Serialize) -> BTreeSet<String> {
    toml::Table::try_from(options)
        .unwrap()
        .keys()
        .cloned()
        .collect()
}

fn entries(document: &toml::Table, list: &str) -> Vec<toml::Table> {
    let entries = document[list].as_array().unwrap();
    entries
        .iter()
        .map(|entry| entry.as_table().unwrap().clone())
        .collect()
}

#[test]
fn the_default_file_is_the_built_in_default() {
    assert_eq!(
        clean("default.toml", &default_text()).config,
        Config::default()
    );
}

#[test]
fn the_default_file_names_every_key_that_it_sets_by_leaving_it_away() {
    let document: toml::Table = default_text().parse().unwrap();
    assert_eq!(
        document.keys().cloned().collect::<BTreeSet<_>>(),
        keys(Config::default())
    );
    for (table, options) in [
        ("log", keys(Config::default().log)),
        ("http", keys(Config::default().http)),
    ] {
        assert_eq!(
            keys(document[table].as_table().unwrap()),
            options,
            "[{table}]"
        );
    }
    let listeners = entries(&document, "listener");
    let shown: BTreeSet<String> = listeners
        .iter()
        .flat_map(|listener| listener.keys().cloned())
        .collect();
    assert_eq!(shown, keys(ListenerOptions::default()));
}

#[test]
fn the_default_file_shows_every_type_of_stage_and_output_with_all_its_keys_and_their_defaults() {
    let text = with_examples(&default_text());
    let document: toml::Table = text.parse().unwrap();
    let types = |list: &str| -> BTreeSet<String> {
        entries(&document, list)
            .iter()
            .map(|entry| entry["type"].as_str().unwrap().to_owned())
            .collect()
    };
    let all = |types: &[&str]| {
        types
            .iter()
            .map(|kind| (*kind).to_owned())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(types("stage"), all(StageOptions::TYPES));
    assert_eq!(types("output"), all(OutputKind::TYPES));
    for entry in entries(&document, "stage") {
        let bare = format!("type = {}", entry["type"]);
        let default: StageOptions = toml::from_str(&bare).unwrap();
        assert_eq!(keys(&entry), keys(&default), "{bare}");
        assert_eq!(entry.try_into::<StageOptions>().unwrap(), default);
    }
    for entry in entries(&document, "output") {
        let bare = format!("type = {}", entry["type"]);
        let default: OutputOptions = toml::from_str(&bare).unwrap();
        assert_eq!(keys(&entry), keys(&default), "{bare}");
        assert_eq!(entry.try_into::<OutputOptions>().unwrap(), default);
    }
}

#[test]
fn the_default_file_explains_every_key_above_it() {
    // A comment may stand above a few keys that it explains together, and examples that repeat the queue's keys are
    // explained where those are first.
    let text = default_text();
    let mut explained: BTreeSet<String> = BTreeSet::new();
    let mut prose = false;
    for line in text.lines() {
        let body = line
            .strip_prefix('#')
            .filter(|rest| !rest.starts_with(' '))
            .unwrap_or(line);
        if line.starts_with("# ") {
            prose = true;
        } else if body.is_empty() || body.starts_with('[') {
            prose = false;
        } else if let Some((key, _)) = body.split_once(" = ")
            && key != "type"
        {
            assert!(
                prose || explained.contains(key),
                "`{key}` has no comment above it"
            );
            explained.insert(key.to_owned());
        }
    }
    assert!(explained.len() > 50, "{explained:?}");
}

#[test]
fn the_default_configuration_reads_back_from_its_own_text() {
    let text = toml::to_string(&Config::default()).unwrap();
    assert_eq!(clean("printed", &text).config, Config::default());
}

#[test]
fn every_recipe_loads_checks_clean_and_says_when_it_is_wanted() {
    let mut seen = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.ends_with(".toml") || name == "default.toml" {
            continue;
        }
        let loaded = load::file(&path).unwrap();
        assert!(loaded.problems.is_empty(), "{}", loaded.report(false));
        assert_ne!(loaded.config, Config::default(), "{name} changes nothing");
        assert!(
            loaded.source.text.starts_with("# When "),
            "{name} does not say when it is wanted"
        );
        assert!(loaded.source.text.lines().count() < 40, "{name} is long");
        seen += 1;
    }
    assert!(seen >= 11, "{seen} recipes");
}
