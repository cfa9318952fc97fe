//! Imports point down: a module imports only from strictly lower layers, and modules of one layer never import each other.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Layer of each top-level module; the crate documentation draws the same picture.
const LAYERS: &[(u8, &[&str])] = &[
    (
        0,
        &[
            "backoff",
            "digits",
            "ids",
            "log_limit",
            "shutdown",
            "telemetry",
            "units",
            "wire",
        ],
    ),
    (1, &["dns", "dnstap", "fstrm", "pcap"]),
    (2, &["fields", "mux", "transport"]),
    (3, &["filter", "format", "link"]),
    (4, &["pipeline"]),
    (5, &["http", "loadgen", "outputs", "stages"]),
    (6, &["config"]),
    (7, &["app"]),
    (8, &["cli"]),
];

/// Layer 1 is sans-IO: it neither awaits, logs, counts nor reads the time.
const BARRED_FROM_PROTOCOLS: &[&str] = &[
    "tokio::",
    "tracing::",
    "metrics::",
    "crate::telemetry",
    "SystemTime::now",
    "Instant::now",
];

fn layer(module: &str) -> u8 {
    let found = LAYERS.iter().find(|(_, modules)| modules.contains(&module));
    found
        .unwrap_or_else(|| panic!("src/{module} has no layer: put it into LAYERS"))
        .0
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(name)
}

fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

/// The code before the tests of the file, without comments and the text of string literals.
fn code(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\n").next().unwrap_or(text);
    let mut code = String::with_capacity(text.len());
    for line in text.lines() {
        let (mut in_string, mut last) = (false, ' ');
        for (at, c) in line.char_indices() {
            if !in_string && line[at..].starts_with("//") {
                break;
            }
            if c == '"' && last != '\\' && last != '\'' {
                in_string = !in_string;
            }
            if !in_string {
                code.push(c);
            }
            last = c;
        }
        code.push('\n');
    }
    code
}

/// The top-level module that a file belongs to.
fn module_of(path: &Path) -> String {
    let inside = path.strip_prefix(source("")).expect("a file in src");
    let first = inside
        .iter()
        .next()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    first.trim_end_matches(".rs").to_owned()
}

/// Every top-level module that `code` names as `crate::x`, also within braces.
fn imports(code: &str) -> BTreeSet<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            None => {
                found.insert(rest.chars().take_while(|c| is_word(*c)).collect());
            }
            Some(list) => {
                let (mut depth, mut in_name, mut word) = (0, true, String::new());
                for c in list.chars() {
                    match c {
                        '}' if depth == 0 => break,
                        '{' => depth += 1,
                        '}' => depth -= 1,
                        // After the first `::` of an entry only its comma begins the next module's name.
                        ':' if depth == 0 => in_name = false,
                        ',' if depth == 0 => {
                            found.insert(std::mem::take(&mut word));
                            in_name = true;
                        }
                        c if in_name && is_word(c) => word.push(c),
                        _ => {}
                    }
                }
                found.insert(word);
            }
        }
    }
    found.remove("");
    found
}

/// Importing module, imported module, file.
fn arrows() -> Vec<(String, String, PathBuf)> {
    let mut files = Vec::new();
    rust_files(&source(""), &mut files);
    files.sort();
    let mut arrows = Vec::new();
    for path in files {
        let module = module_of(&path);
        if module == "main" || module == "lib" {
            continue;
        }
        for imported in imports(&code(&fs::read_to_string(&path).expect("a source file"))) {
            // `crate::Name` is an item of the crate root; there are only modules there.
            if imported != module {
                arrows.push((module.clone(), imported, path.clone()));
            }
        }
    }
    arrows
}

#[test]
fn layers_point_down() {
    let arrows = arrows();
    assert!(
        arrows.len() > 50,
        "{} imports found: the search is broken",
        arrows.len()
    );
    let wrong: Vec<String> = arrows
        .iter()
        .filter(|(from, to, _)| layer(to) >= layer(from))
        .map(|(from, to, path)| {
            format!(
                "{}: {from} (L{}) imports {to} (L{})",
                path.display(),
                layer(from),
                layer(to)
            )
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_has_a_layer() {
    let lib = fs::read_to_string(source("lib.rs")).expect("lib.rs");
    let modules = lib
        .lines()
        .filter_map(|l| l.trim().strip_prefix("pub mod "))
        .map(|m| m.trim_end_matches(';'));
    let layers: Vec<u8> = modules.map(layer).collect();
    assert!(layers.len() > 15);
    assert!(
        layers.is_sorted(),
        "lib.rs names the modules in the order of their layers: {layers:?}"
    );
}

#[test]
fn protocols_know_no_runtime_clock_log_or_counter() {
    let mut files = Vec::new();
    for module in LAYERS[1].1 {
        rust_files(&source(module), &mut files);
    }
    for path in files {
        let code = code(&fs::read_to_string(&path).expect("a source file"));
        for barred in BARRED_FROM_PROTOCOLS {
            assert!(!code.contains(barred), "{}: {barred}", path.display());
        }
    }
}

#[test]
fn components_own_their_options_and_never_import_the_configuration() {
    for module in ["transport", "stages", "outputs", "http"] {
        assert!(
            source(module).join("options.rs").is_file(),
            "src/{module}/options.rs"
        );
    }
    let config = |(from, to, _): &(String, String, PathBuf)| {
        to == "config" && !["app", "cli"].contains(&from.as_str())
    };
    assert!(!arrows().iter().any(config));
}

#[test]
fn imports_are_found_however_they_are_written() {
    let code = code(
        "use crate::a::B;\nuse crate::{b, c::{D, E}, d::F};\n// crate::no\nlet x = crate::e::f();\nlet s = \"crate::no\";\n\n#[cfg(test)]\nmod tests { use crate::no; }\n",
    );
    let found: Vec<String> = imports(&code).into_iter().collect();
    assert_eq!(found, ["a", "b", "c", "d", "e"]);
}
