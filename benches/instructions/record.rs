//! The recorded figures: `testdata/instructions.tsv`.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::Result;

/// Instructions a frame of every step, and what they were counted with.
pub(crate) struct Record {
    pub(crate) compiler: String,
    valgrind: String,
    pub(crate) steps: Vec<(String, f64)>,
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/instructions.tsv")
}

impl Record {
    pub(crate) fn new(compiler: &str, valgrind: &str) -> Self {
        Self {
            compiler: compiler.to_owned(),
            valgrind: valgrind.to_owned(),
            steps: Vec::new(),
        }
    }

    /// The figure of a step.
    pub(crate) fn of(&self, name: &str) -> Option<f64> {
        let found = self.steps.iter().find(|(step, _)| step == name);
        found.map(|(_, count)| *count)
    }

    /// As it stands in the file: a line of words and a number for each, tabs between them.
    pub(crate) fn text(&self) -> String {
        let mut text = "# Instructions a frame on the hot path; `cargo bench --bench instructions -- --record` writes this.\n"
            .to_owned();
        let _ = writeln!(text, "compiler\t{}", self.compiler);
        let _ = writeln!(text, "valgrind\t{}", self.valgrind);
        for (name, count) in &self.steps {
            let _ = writeln!(text, "{name}\t{count:.1}");
        }
        text
    }

    pub(crate) fn save(&self) -> Result<()> {
        Ok(std::fs::write(path(), self.text())?)
    }

    pub(crate) fn load() -> Result<Self> {
        let text = std::fs::read_to_string(path())?;
        let mut record = Self::new("", "");
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let (name, value) = line.split_once('\t').ok_or("a line without a tab")?;
            match name {
                "compiler" => value.clone_into(&mut record.compiler),
                "valgrind" => value.clone_into(&mut record.valgrind),
                _ => record.steps.push((name.to_owned(), value.parse()?)),
            }
        }
        Ok(record)
    }
}
