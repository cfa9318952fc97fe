//! `read --follow`: a file that grows, and what comes after it.
//!
//! The file is asked again every tenth of a second. That costs next to nothing, works on every file system, and needs no
//! second way for those that cannot tell of changes.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use super::print::{Flow, Printer};
use super::{Drained, Outcome, drain};
use crate::cli::input::{Fault, Input, Options};
use crate::cli::interrupt::Interrupt;
use crate::cli::tree;

/// Time between two looks.
const POLL: Duration = Duration::from_millis(100);
/// Bytes a file must have before it can be told what it is: the start of a stream has more.
const FIRST_BYTES: u64 = 12;

/// Reads `path` and goes on until a signal comes, the limit is reached or nobody reads the output.
pub(super) fn follow(
    printer: &mut Printer<'_>,
    outcome: &mut Outcome,
    path: &Path,
    options: &Options,
    interrupt: &Interrupt,
) -> io::Result<Flow> {
    let mut follower = Follower {
        printer,
        outcome,
        options,
        interrupt,
    };
    if path.is_dir() {
        follower.folder(path)
    } else {
        // A name that is wrong should not be waited for; one that vanishes later may come back.
        match crate::cli::input::open_file(path) {
            Ok(_) => follower.file(path),
            Err(fault) => {
                follower.outcome.fault(&fault);
                Ok(Flow::Go)
            }
        }
    }
}

struct Follower<'a, 'b> {
    printer: &'a mut Printer<'b>,
    outcome: &'a mut Outcome,
    options: &'a Options,
    interrupt: &'a Interrupt,
}

/// Which file a path leads to, and how long it is.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Look {
    id: (u64, u64),
    len: u64,
}

impl Look {
    fn at(path: &Path) -> Option<Self> {
        let meta = fs::metadata(path).ok()?;
        Some(Self {
            id: (meta.dev(), meta.ino()),
            len: meta.len(),
        })
    }

    fn of(file: &File) -> io::Result<Self> {
        let meta = file.metadata()?;
        Ok(Self {
            id: (meta.dev(), meta.ino()),
            len: meta.len(),
        })
    }
}

/// How the reading of one file ended.
enum End {
    /// There is a successor.
    Over,
    /// Everything is to end.
    Stop(Flow),
}

impl Follower<'_, '_> {
    /// Waits a moment; `false` when a signal came.
    fn wait(&self) -> bool {
        if self.interrupt.raised() {
            return false;
        }
        sleep(POLL);
        !self.interrupt.raised()
    }

    /// A single file: its successor is another file under the same name, or the same one cut short.
    fn file(&mut self, path: &Path) -> io::Result<Flow> {
        loop {
            let opened = File::open(path).and_then(|file| Ok((Look::of(&file)?, file)));
            let Some((look, file)) = opened.ok().filter(|(look, _)| look.len >= FIRST_BYTES) else {
                if self.wait() {
                    continue;
                }
                return Ok(Flow::Go);
            };
            let over =
                |read: u64| Look::at(path).is_some_and(|now| now.id != look.id || now.len < read);
            match self.one(&path.display().to_string(), file, over, false)? {
                End::Over => {}
                End::Stop(flow) => return Ok(flow),
            }
        }
    }

    /// A folder: the successor of a file that has its STOP, or that is not the last any more, is the next by name.
    fn folder(&mut self, path: &Path) -> io::Result<Flow> {
        let mut done = BTreeSet::new();
        loop {
            let entries = tree::list(path)?;
            done.retain(|stem| entries.iter().any(|entry| entry.stem == *stem));
            let Some(entry) = entries.iter().find(|entry| !done.contains(&entry.stem)) else {
                if self.wait() {
                    continue;
                }
                return Ok(Flow::Go);
            };
            let newer = |_| {
                tree::list(path).is_ok_and(|now| now.iter().any(|other| other.stem > entry.stem))
            };
            // It may have got its next name since it was listed.
            let opened = File::open(&entry.path).and_then(|file| Ok((Look::of(&file)?, file)));
            let Some((_, file)) = opened
                .ok()
                .filter(|(look, _)| look.len >= FIRST_BYTES || newer(0))
            else {
                if self.wait() {
                    continue;
                }
                return Ok(Flow::Go);
            };
            self.printer.from(&entry.path.display().to_string());
            match self.one(&entry.path.display().to_string(), file, newer, true)? {
                End::Over => done.insert(entry.stem.clone()),
                End::Stop(flow) => return Ok(flow),
            };
        }
    }

    /// Reads one file until `over` says that it has a successor (it is told how many bytes were read), or, where
    /// `ends_with_stop`, until it is complete.
    fn one(
        &mut self,
        name: &str,
        file: File,
        over: impl Fn(u64) -> bool,
        ends_with_stop: bool,
    ) -> io::Result<End> {
        let mut input = match Input::of_file(name, file, self.options) {
            Ok(input) => input,
            Err(fault) => return Ok(self.broken(&fault, || over(0) || ends_with_stop)),
        };
        let mut last_look = false;
        loop {
            match drain(self.printer, &mut input)? {
                Drained::Eof => {}
                Drained::Broken(fault) => {
                    let read = input.bytes_read();
                    return Ok(self.broken(&fault, || over(read) || ends_with_stop));
                }
                Drained::Stop(flow) => return Ok(End::Stop(flow)),
            }
            if last_look || ends_with_stop && !input.may_grow() {
                self.outcome.end(name, &input, false);
                return Ok(End::Over);
            }
            // What was written between the last read and the look is still there to be read.
            last_look = over(input.bytes_read());
            if !last_look && !self.wait() {
                return Ok(End::Stop(Flow::Go));
            }
        }
    }

    /// Says what is wrong with a file, and waits for its successor.
    fn broken(&mut self, fault: &Fault, over: impl Fn() -> bool) -> End {
        self.outcome.fault(fault);
        while !over() {
            if !self.wait() {
                return End::Stop(Flow::Go);
            }
        }
        End::Over
    }
}
