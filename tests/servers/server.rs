//! A DNS server of some kind, with the DNS tree behind it.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use crate::kinds::{Kind, NSD};
use crate::ports::{free_port, has_v6};
use crate::support::collector::Collector;
use crate::support::load::Target;
use crate::support::process::{Process, find, find_or_skip, testdata};
use crate::support::wait_for;

/// Where a server lives.
pub(crate) struct Site {
    /// Its own folder: configuration, control socket, log.
    pub(crate) dir: PathBuf,
    /// Its DNS port.
    pub(crate) port: u16,
    /// A TCP port for its control channel or web server.
    pub(crate) control: u16,
    /// The port of the NSD that serves the DNS tree, or its own.
    pub(crate) upstream: u16,
    /// What `serve` has printed for it.
    pub(crate) advice: String,
}

impl Site {
    fn new(dir: &Path, upstream: Option<u16>, advice: String) -> Self {
        std::fs::create_dir_all(dir).expect("server folder");
        let port = free_port();
        Self {
            dir: dir.to_owned(),
            port,
            control: free_port(),
            upstream: upstream.unwrap_or(port),
            advice,
        }
    }

    /// Fills in `testdata/servers/NAME` and puts it into the server's folder. A line `@ADVICE@` becomes the printed lines,
    /// a line that begins with `?v6` or `?no-v6` is there only with or without IPv6.
    pub(crate) fn configure(&self, name: &str) -> PathBuf {
        let template = std::fs::read_to_string(testdata(name)).expect("template");
        let (yes, no) = if has_v6() {
            ("?v6", "?no-v6")
        } else {
            ("?no-v6", "?v6")
        };
        let mut text = String::new();
        for line in template.lines().filter(|l| !l.starts_with(no)) {
            let line = line.strip_prefix(yes).unwrap_or(line);
            let lines = if line.trim() == "@ADVICE@" {
                &self.advice
            } else {
                line
            };
            text.push_str(lines);
            text.push('\n');
        }
        let zones = testdata("zones");
        for (placeholder, value) in [
            ("@DIR@", self.dir.display().to_string()),
            ("@ZONES@", zones.display().to_string()),
            ("@PORT@", self.port.to_string()),
            ("@UP@", self.upstream.to_string()),
            ("@CONTROL@", self.control.to_string()),
        ] {
            text = text.replace(placeholder, &value);
        }
        let path = self.dir.join(name);
        std::fs::write(&path, text).expect("configuration");
        path
    }

    /// What a program of the server's package prints.
    pub(crate) fn ask_program(&self, program: &str, args: &[&str]) -> String {
        let path = find(program).unwrap_or_else(|| panic!("{program} comes with the server"));
        let output = Command::new(path)
            .args(args)
            .output()
            .expect("a program of the server");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{program} {args:?}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        text
    }
}

/// A server that can be started again and again.
pub(crate) struct Server {
    kind: &'static Kind,
    pub(crate) site: Site,
    process: Option<Process>,
    /// The NSD that serves the DNS tree to a recursive server.
    _upstream: Option<Process>,
}

impl Server {
    /// Starts a server in `dir` with the lines that the collector has printed for it, its upstream first. `place` is put
    /// instead of the collector's own address where a relay stands before it. Nothing when the server is not installed.
    pub(crate) fn start(
        kind: &'static Kind,
        dir: &Path,
        collector: &Collector,
        place: Option<&str>,
    ) -> Option<Self> {
        let program = find_or_skip(kind.program, kind.package)?;
        let own = if kind.over_tcp {
            collector.tcp.to_string()
        } else {
            collector.unix.display().to_string()
        };
        let mut advice = collector.advice(kind.name);
        assert!(advice.contains(&own), "{own} in {advice}");
        if let Some(place) = place {
            advice = advice.replace(&own, place);
        }
        let upstream = match kind.recursive {
            true => Some(start_upstream(&dir.join("upstream"))?),
            false => None,
        };
        let site = Site::new(&dir.join("server"), upstream.as_ref().map(|u| u.1), advice);
        (kind.configure)(&site);
        let mut server = Self {
            kind,
            site,
            process: None,
            _upstream: upstream.map(|u| u.0),
        };
        server.run(&program);
        Some(server)
    }

    fn run(&mut self, program: &Path) {
        let mut command = Command::new(program);
        command
            .args((self.kind.args)(&self.site))
            .current_dir(&self.site.dir);
        let mut process = Process::start(self.kind.name, &mut command, self.site.dir.join("log"));
        let target = self.target();
        wait_for(self.kind.name, || {
            process.assert_running();
            target.listens()
        });
        self.process = Some(process);
    }

    /// Starts it again after its end.
    pub(crate) fn start_again(&mut self) {
        assert!(self.process.is_none(), "{} runs", self.kind.name);
        self.run(&find(self.kind.program).expect("it was there before"));
    }

    /// SIGTERM, and waits for the end.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        self.process.take().expect("a running server").terminate()
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.process.take().expect("a running server").kill();
    }

    /// Where to ask it.
    pub(crate) fn target(&self) -> Target {
        Target {
            port: self.site.port,
            v6: has_v6(),
        }
    }
}

/// NSD with the DNS tree and without dnstap, and its port.
fn start_upstream(dir: &Path) -> Option<(Process, u16)> {
    let program = find_or_skip(NSD.program, NSD.package)?;
    let site = Site::new(dir, None, String::new());
    (NSD.configure)(&site);
    let mut command = Command::new(program);
    command.args((NSD.args)(&site));
    let mut process = Process::start("upstream NSD", &mut command, dir.join("log"));
    let target = Target {
        port: site.port,
        v6: has_v6(),
    };
    wait_for("the upstream NSD", || {
        process.assert_running();
        target.listens()
    });
    Some((process, site.port))
}
