//! What docs/performance.md tells people to run exists, and CI runs the like of it.

use std::fs;
use std::path::Path;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).expect(path)
}

/// The lines of the document's `sh` blocks.
fn commands() -> Vec<String> {
    let text = read("docs/performance.md");
    let blocks = text.split("```sh\n").skip(1);
    blocks
        .filter_map(|rest| Some(rest.split_once("```")?.0))
        .flat_map(str::lines)
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_command_runs_a_bench_that_exists_with_options_that_it_knows() {
    let manifest = read("Cargo.toml");
    let commands = commands();
    assert!(commands.len() >= 4, "{commands:?}");
    for command in commands {
        let rest = command
            .strip_prefix("cargo bench --bench ")
            .expect("a bench");
        let mut words = rest.split(' ');
        let bench = words.next().expect("a name");
        assert!(
            manifest.contains(&format!("[[bench]]\nname = \"{bench}\"\n")),
            "{command}"
        );
        let folder = Path::new(ROOT).join("benches");
        let sources = [
            folder.join(format!("{bench}.rs")),
            folder.join(bench).join("main.rs"),
            folder.join("support/mod.rs"),
        ];
        let sources: String = sources
            .iter()
            .filter_map(|path| fs::read_to_string(path).ok())
            .collect();
        for option in words.filter(|w| w.len() > 2 && w.starts_with("--")) {
            assert!(
                sources.contains(&format!("\"{option}\"")),
                "{option} of {command}"
            );
        }
    }
}

#[test]
fn ci_runs_every_bench_once_and_holds_the_instructions_to_the_record() {
    let ci = read(".ci/run");
    for line in [
        "cargo bench --locked --benches -- --test\n",
        "cargo bench --locked --bench instructions\n",
    ] {
        assert!(ci.contains(line), "{line}");
    }
    assert!(
        ci.contains(" valgrind "),
        "the instructions are counted by valgrind"
    );
}

#[test]
fn every_step_that_is_counted_is_recorded() {
    let recorded = read("testdata/instructions.tsv");
    let steps = read("benches/instructions/steps.rs");
    let names: Vec<&str> = steps
        .split("name: \"")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once('"')?.0))
        .collect();
    assert!(names.len() >= 5, "{names:?}");
    for name in names {
        let line = recorded
            .lines()
            .find_map(|l| l.strip_prefix(&format!("{name}\t")));
        let count: f64 = line.unwrap_or_default().parse().expect(name);
        assert!(count > 0.0, "{name}");
    }
}
