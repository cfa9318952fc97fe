//! Standard output, or any other descriptor that somebody else opened.
//!
//! Its reader may be slow or stuck, and the write must still be given up when the process aborts. The descriptor may be
//! shared with other processes, so it is not made non-blocking; instead nothing is written before `poll` says that it can
//! be, and then no more than `PIPE_BUF` bytes, which a pipe that polls writable takes without waiting (pipe(7)). Regular
//! files never make a writer wait, so they get everything at once.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing::{info, warn};

use crate::link::outbox::{Outbox, SLICES_MAX};
use crate::outputs::container::Container;
use crate::outputs::sink::{Ending, Gather, Meter, Sink, Step, Wrote};
use crate::shutdown::{Phase, Signal};

/// `PIPE_BUF` on Linux.
const PIPE_BYTES: usize = 4096;

/// How often a write that waits looks whether the process aborts.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// Lines on a terminal should appear when they happen; a pipe is spared the smallest writes.
const GATHER: Gather = Gather {
    bytes: 16 * 1024,
    wait: Duration::from_millis(50),
};

/// The sink. Blocks.
pub struct Stdout {
    name: String,
    file: File,
    waits: bool,
    container: Container,
    started: bool,
    signal: Signal,
    meter: Meter,
}

impl std::fmt::Debug for Stdout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stdout({})", self.name)
    }
}

impl Stdout {
    /// Writes into `fd` what `container` wraps.
    pub fn new(
        name: &str,
        fd: OwnedFd,
        container: Container,
        signal: Signal,
        meter: Meter,
    ) -> Self {
        let file = File::from(fd);
        let waits = !file.metadata().is_ok_and(|m| m.is_file());
        meter.connected(true);
        Self {
            name: name.to_owned(),
            file,
            waits,
            container,
            started: false,
            signal,
            meter,
        }
    }

    /// Whether the descriptor takes bytes now; waits a little for it.
    fn ready(&self) -> io::Result<bool> {
        if !self.waits {
            return Ok(true);
        }
        let mut fds = [PollFd::new(&self.file, PollFlags::OUT)];
        match poll(&mut fds, Some(&LOOK)) {
            Ok(n) => Ok(n > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// One write as soon as it can be done; 0 bytes when the process aborts first.
    fn write_some(&mut self, outbox: &Outbox) -> io::Result<usize> {
        while self.signal.phase() != Phase::Aborting {
            if !self.ready()? {
                continue;
            }
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let result = if self.waits {
                outbox.slices(&mut slices, 1);
                let first: &[u8] = &slices[0];
                self.file.write(first.get(..PIPE_BYTES).unwrap_or(first))
            } else {
                let n = outbox.slices(&mut slices, usize::MAX);
                self.file
                    .write_vectored(slices.get(..n).unwrap_or_default())
            };
            match result {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Err(e)
                    if matches!(
                        e.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
                    ) => {}
                other => return other,
            }
        }
        Ok(0)
    }

    /// The container's first or last bytes.
    fn write_mark(&mut self, mark: &[u8]) -> io::Result<()> {
        let mut left = mark;
        while !left.is_empty() && self.signal.phase() != Phase::Aborting {
            if self.ready()? {
                let n = self.file.write(left)?;
                left = left.get(n..).unwrap_or_default();
            }
        }
        Ok(())
    }

    fn write_now(&mut self, outbox: &mut Outbox) -> io::Result<()> {
        if !std::mem::replace(&mut self.started, true) {
            self.write_mark(&self.container.head().clone())?;
        }
        while !outbox.is_empty() {
            let n = self.write_some(outbox)?;
            if n == 0 {
                break;
            }
            outbox.advance(n);
            self.meter.wrote(n);
        }
        Ok(())
    }
}

impl Sink for Stdout {
    fn gather(&self) -> Gather {
        GATHER
    }

    fn write<'a>(&'a mut self, outbox: &'a mut Outbox) -> Step<'a, Wrote> {
        let wrote = match self.write_now(outbox) {
            Ok(()) => Wrote::Progress,
            Err(e) => {
                // What follows half a frame or half a line cannot be read, and what was written cannot be taken back.
                self.meter.error();
                self.meter.connected(false);
                if e.kind() == io::ErrorKind::BrokenPipe {
                    info!(
                        output = self.name,
                        "the reader of standard output is gone; this output ends, its further frames count as dropped"
                    );
                } else {
                    warn!(
                        output = self.name,
                        "cannot write to standard output ({e}); this output ends, its further frames count as dropped"
                    );
                }
                Wrote::Ended
            }
        };
        Box::pin(std::future::ready(wrote))
    }

    fn close(&mut self, ending: Ending) -> Step<'_, ()> {
        if ending == Ending::Drained && self.started {
            // The output is over whether or not its reader is still there.
            let _ = self.write_mark(self.container.tail());
        }
        self.meter.connected(false);
        Box::pin(std::future::ready(()))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Read, pipe};
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;
    use crate::format::{Format, Settings};
    use crate::outputs::driver::tests::Rig;
    use crate::outputs::encode::frames::Passthrough;
    use crate::pipeline::ledger::OutputDrop;
    use crate::telemetry::Telemetry;

    /// An output into a descriptor, on its thread; the receiver tells when it has ended.
    fn start(fd: OwnedFd, container: Container) -> (Rig, mpsc::Receiver<()>) {
        let telemetry = Telemetry::new();
        let meter = Meter::new(&telemetry, "out");
        let (rig, driver) = Rig::new(Box::new(Passthrough), |signal| {
            Box::new(Stdout::new("out", fd, container, signal, meter))
        });
        let (done, ended) = mpsc::sync_channel(1);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap();
            runtime.block_on(driver.run());
            let _ = done.send(());
        });
        (rig, ended)
    }

    fn through_pipe() -> (PipeReader, Rig, mpsc::Receiver<()>) {
        let (reader, writer) = pipe().unwrap();
        let (rig, ended) = start(writer.into(), Container::fstrm());
        (reader, rig, ended)
    }

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn a_reader_gets_a_whole_stream_however_slow_it_is() {
        let (mut reader, rig, ended) = through_pipe();
        let frames: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
        frames.chunks(1000).for_each(|c| rig.offer(c));
        rig.close();
        let mut got = Vec::new();
        reader.read_to_end(&mut got).unwrap();
        ended.recv_timeout(PATIENCE).unwrap();
        let body: Vec<u8> = frames.iter().flat_map(|p| [0, 0, 0, 1, *p]).collect();
        let want = [
            &Container::fstrm().head()[..],
            &body[..],
            Container::fstrm().tail(),
        ]
        .concat();
        assert!(got == want, "{} bytes for {}", got.len(), want.len());
        assert_eq!(rig.account().delivered, 100_000);
    }

    #[test]
    fn a_regular_file_gets_the_same() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (rig, ended) = start(
            file.reopen().unwrap().into(),
            Container::new(&Format::TEXT, &Settings::default()).unwrap(),
        );
        rig.offer(b"ab");
        rig.close();
        ended.recv_timeout(PATIENCE).unwrap();
        assert_eq!(
            std::fs::read(file.path()).unwrap(),
            b"\0\0\0\x01a\0\0\0\x01b"
        );
    }

    #[test]
    fn a_reader_that_goes_away_ends_the_output_and_the_rest_is_counted() {
        let (reader, rig, ended) = through_pipe();
        drop(reader);
        rig.offer(&[1; 10_000]);
        let start = Instant::now();
        while rig.account().in_flight > 0 {
            assert!(start.elapsed() < PATIENCE);
            std::thread::yield_now();
        }
        // The lane goes on taking, so that connections are not made to wait for a place that is gone.
        rig.offer(&[2; 500]);
        rig.close();
        ended.recv_timeout(PATIENCE).unwrap();
        assert_eq!(
            (rig.account().delivered, rig.dropped(OutputDrop::WriteError)),
            (0, 10_500)
        );
    }

    #[test]
    fn aborting_while_the_reader_is_stuck_ends_in_time_and_counts_exactly() {
        let (mut reader, rig, ended) = through_pipe();
        rig.offer(&[7; 100_000]);
        // The pipe is full once it holds all it can (64 KiB): what has been delivered no longer grows.
        let start = Instant::now();
        while rustix::io::ioctl_fionread(&reader).unwrap() < 60_000 {
            assert!(start.elapsed() < PATIENCE);
            std::thread::yield_now();
        }
        let start = Instant::now();
        rig.trigger.advance(Phase::Aborting);
        ended.recv_timeout(PATIENCE).unwrap();
        assert!(
            start.elapsed() < Duration::from_millis(500),
            "{:?}",
            start.elapsed()
        );
        let mut got = Vec::new();
        reader.read_to_end(&mut got).unwrap();
        let whole = (got.len() - Container::fstrm().head().len()) / 5;
        let account = rig.account();
        assert_eq!(account.delivered, whole as u64);
        assert_eq!(rig.dropped(OutputDrop::Shutdown), 100_000 - whole as u64);
    }
}
