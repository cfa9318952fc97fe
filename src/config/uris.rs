//! Listeners and outputs from the command line: `--listen URI`, `--http ADDR`, `--output URI`.
//!
//! A URI may carry settings of its listener or output, as `?key=value&key=value`, with the keys of the configuration
//! file: `tcp:0.0.0.0:6000?mode=raw&allow=10.0.0.0/8,192.0.2.1`. Values of a list are separated by commas.

use std::fmt::Write as _;

use serde::Serialize;

use crate::config::problem::Problem;
use crate::config::{Config, load, suggest};
use crate::outputs::options::{
    DnstapOptions, FileOptions, MuxOptions, NullOptions, OutputKind, OutputOptions, StdoutOptions,
};
use crate::transport::options::ListenerOptions;
use crate::units::Endpoint;

/// Why a command-line option cannot be used: a sentence that names the option, what is wrong and what to write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{option} {uri}: {why}")]
pub struct UriError {
    /// The option it was given to, such as `--output`.
    pub option: &'static str,
    /// What was given.
    pub uri: String,
    /// What is wrong with it.
    pub why: String,
}

/// What the command line says in place of the configuration's lists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overrides {
    /// `--listen`, in place of all listeners when there is one.
    pub listen: Vec<String>,
    /// `--http`: an address and port, or `off`.
    pub http: Option<String>,
    /// `--output`, in place of all outputs when there is one.
    pub output: Vec<String>,
}

impl Config {
    /// Puts what the command line says in place of what is configured.
    ///
    /// # Errors
    /// Every option that cannot be used; the configuration is then half changed and of no use.
    pub fn apply(&mut self, overrides: &Overrides) -> Result<(), Vec<UriError>> {
        let mut errors = Vec::new();
        let mut keep = |error: UriError| errors.push(error);
        if !overrides.listen.is_empty() {
            let read = overrides.listen.iter().map(|uri| listener(uri));
            self.listener = read
                .filter_map(|read| read.map_err(&mut keep).ok())
                .collect();
        }
        if !overrides.output.is_empty() {
            let read = overrides.output.iter().map(|uri| output(uri));
            self.output = read
                .filter_map(|read| read.map_err(&mut keep).ok())
                .collect();
        }
        match overrides.http.as_deref() {
            None => {}
            Some("off") => self.http.enabled = false,
            Some(text) => match text.parse() {
                Ok(address) => (self.http.enabled, self.http.address) = (true, address),
                Err(_) => keep(UriError {
                    option: "--http",
                    uri: text.to_owned(),
                    why: "write an IP address and a port, such as 127.0.0.1:9954 or [::]:9954, or off".to_owned(),
                }),
            },
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }
}

/// The listener of `--listen URI`: `unix:/path` or `tcp:host:port`, for sessions `mux+` and one of them, with settings
/// after a `?`. Its socket is open to every
/// local user unless `?socket_mode=0660` says otherwise.
///
/// # Errors
/// What is wrong with the URI or a setting.
pub fn listener(uri: &str) -> Result<ListenerOptions, UriError> {
    let fail = |why: String| UriError {
        option: "--listen",
        uri: uri.to_owned(),
        why,
    };
    let (place, settings) = split(uri);
    let endpoint: Endpoint = place.parse().map_err(|error| fail(format!("{error}")))?;
    let mut base = ListenerOptions {
        uri: endpoint,
        ..ListenerOptions::default()
    };
    // As with the built-in defaults: DNS servers run as users of their own, and must reach a socket made in one line.
    base.socket_mode = crate::units::FileMode(0o666);
    let text = document("listener", &base, settings).map_err(fail)?;
    read(&text, |config| config.listener.pop()).map_err(fail)
}

/// The output of `--output URI`: `null:`, `stdout:`, `stdout:json`, `file:/folder`, `unix:/path` and `tcp:host:port` to
/// forward to, or `mux+tcp:host:port,host:port` and `mux+unix:/path,/path` for workers, with settings after a `?`.
///
/// # Errors
/// What is wrong with the URI or a setting.
pub fn output(uri: &str) -> Result<OutputOptions, UriError> {
    let fail = |why: String| UriError {
        option: "--output",
        uri: uri.to_owned(),
        why,
    };
    let (place, settings) = split(uri);
    let kind = output_kind(place).map_err(fail)?;
    let mut settings = settings.to_owned();
    if let ("stdout", Some(format)) = (
        kind.type_name(),
        place
            .split_once(':')
            .map(|(_, rest)| rest)
            .filter(|rest| !rest.is_empty()),
    ) {
        let _ = write!(
            settings,
            "{}format={format}",
            if settings.is_empty() { "" } else { "&" }
        );
    }
    let text = document("output", &OutputOptions::new(kind), &settings).map_err(fail)?;
    read(&text, |config| config.output.pop()).map_err(fail)
}

const OUTPUT_EXAMPLES: &str = "write null:, stdout:, stdout:json, file:/folder, unix:/path, tcp:host:port or tls:host:port to forward to, or mux+tcp:host:port,host:port for workers";

fn output_kind(place: &str) -> Result<OutputKind, String> {
    let (scheme, rest) = place.split_once(':').unwrap_or((place, ""));
    let bare = !place.contains(':');
    match scheme {
        "null" if rest.is_empty() => Ok(OutputKind::Null(NullOptions::default())),
        "null" => Err(format!("null: takes nothing after it; {OUTPUT_EXAMPLES}")),
        "stdout" => Ok(OutputKind::Stdout(StdoutOptions::default())),
        "file" if rest.is_empty() => {
            Err("name the folder, such as file:/var/lib/tapflow/frames".to_owned())
        }
        "file" => {
            let path = rest
                .strip_prefix("//")
                .filter(|path| path.starts_with('/'))
                .unwrap_or(rest);
            Ok(OutputKind::File(FileOptions {
                path: path.into(),
                ..FileOptions::default()
            }))
        }
        "unix" | "tcp" | "tls" => {
            let to = place.parse().map_err(|error| format!("{error}"))?;
            Ok(OutputKind::Dnstap(DnstapOptions {
                to,
                ..DnstapOptions::default()
            }))
        }
        "mux+tcp" | "mux+unix" => {
            let carrier = scheme.trim_start_matches("mux+");
            let worker = |place: &str| format!("{carrier}:{place}").parse();
            let workers = rest.split(',').map(worker).collect::<Result<_, _>>();
            Ok(OutputKind::Mux(MuxOptions {
                workers: workers.map_err(|error| format!("{error}"))?,
                ..MuxOptions::default()
            }))
        }
        "-" => Err("write stdout: for standard output".to_owned()),
        "dnstap" => Err(format!(
            "a forward is named by its place alone; {OUTPUT_EXAMPLES}"
        )),
        _ if bare && (place.starts_with('/') || place.starts_with('.')) => Err(format!(
            "write file:{place} to keep files there, or unix:{place} to forward to a socket there"
        )),
        _ => {
            let near = suggest::closest(scheme, ["null", "stdout", "file", "unix", "tcp", "tls"]);
            let near = near
                .map(|near| format!("did you mean {near}:? "))
                .unwrap_or_default();
            Err(format!(
                "there is no output \"{scheme}:\"; {near}{OUTPUT_EXAMPLES}"
            ))
        }
    }
}

fn split(uri: &str) -> (&str, &str) {
    uri.split_once('?').unwrap_or((uri, ""))
}

/// The configuration file that says the same as a URI: its table with `base`'s own settings, then the ones given.
fn document<T: Serialize>(list: &str, base: &T, settings: &str) -> Result<String, String> {
    let mut table = toml::Table::try_from(base).map_err(|error| format!("{error}"))?;
    for setting in settings.split('&').filter(|setting| !setting.is_empty()) {
        let (key, value) = setting
            .split_once('=')
            .ok_or_else(|| format!("\"{setting}\" is not a setting: write key=value"))?;
        if matches!(key, "type" | "uri" | "to" | "workers") {
            return Err(format!("`{key}` is what stands before the ?"));
        }
        let text = || toml::Value::String(value.to_owned());
        let value = match table.get(key) {
            Some(toml::Value::Array(_)) => {
                let items = value.split(',').filter(|item| !item.is_empty());
                toml::Value::Array(
                    items
                        .map(|item| toml::Value::String(item.to_owned()))
                        .collect(),
                )
            }
            Some(toml::Value::Boolean(_)) => {
                value.parse().map_or_else(|_| text(), toml::Value::Boolean)
            }
            Some(toml::Value::Integer(_)) => {
                value.parse().map_or_else(|_| text(), toml::Value::Integer)
            }
            _ => text(),
        };
        table.insert(key.to_owned(), value);
    }
    let mut document = toml::Table::new();
    document.insert(
        list.to_owned(),
        toml::Value::Array(vec![toml::Value::Table(table)]),
    );
    toml::to_string(&document).map_err(|error| format!("{error}"))
}

/// Reads the one entry of a document made by [`document`]. Settings that contradict others are found when the whole
/// configuration is checked; here only what cannot be read counts.
fn read<T>(text: &str, entry: impl Fn(&mut Config) -> Option<T>) -> Result<T, String> {
    let (mut config, problems) = load::syntax(text);
    if problems.is_empty() {
        return entry(&mut config).ok_or_else(|| "it says nothing".to_owned());
    }
    let told = |problem: &Problem| match &problem.fix {
        Some(fix) => format!("{}: {fix}", problem.what),
        None => problem.what.clone(),
    };
    Err(problems.iter().map(told).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;
    use crate::outputs::options::{QueuePolicy, SendCompression};
    use crate::transport::options::ListenerMode;
    use crate::units::ByteSize;

    #[test]
    fn reads_every_kind_of_output() {
        let kind = |uri: &str| {
            output(uri)
                .map(|output| output.kind)
                .unwrap_or_else(|error| panic!("{error}"))
        };
        assert_eq!(kind("null:"), OutputKind::Null(NullOptions {}));
        assert_eq!(kind("null"), OutputKind::Null(NullOptions {}));
        assert_eq!(
            kind("stdout:"),
            OutputKind::Stdout(StdoutOptions::default())
        );
        assert_eq!(
            kind("stdout:json"),
            OutputKind::Stdout(StdoutOptions {
                format: Format::JSON,
                ..StdoutOptions::default()
            })
        );
        assert_eq!(
            kind("stdout:text?utc=true"),
            OutputKind::Stdout(StdoutOptions {
                format: Format::TEXT,
                utc: true,
                ..StdoutOptions::default()
            })
        );
        assert_eq!(
            kind("stdout:csv?fields=qname,qtype"),
            OutputKind::Stdout(StdoutOptions {
                format: "csv".parse().unwrap(),
                fields: vec!["qname".to_owned(), "qtype".to_owned()],
                ..StdoutOptions::default()
            })
        );
        assert_eq!(
            kind("stdout:{qname} {qtype}"),
            OutputKind::Stdout(StdoutOptions {
                format: "{qname} {qtype}".parse().unwrap(),
                ..StdoutOptions::default()
            })
        );
        let file = FileOptions {
            path: "/x y".into(),
            format: Format::JSON,
            rotate_size: ByteSize::mib(1),
            sync: true,
            ..FileOptions::default()
        };
        assert_eq!(
            kind("file:/x y?format=json&rotate_size=1MiB&sync=true"),
            OutputKind::File(file)
        );
        let mux = MuxOptions {
            workers: vec![Endpoint::tcp("a", 1), Endpoint::tcp("::1", 2)],
            strategy: crate::outputs::options::Strategy::LeastLoaded,
            ..MuxOptions::default()
        };
        assert_eq!(
            kind("mux+tcp:a:1,[::1]:2?strategy=least_loaded"),
            OutputKind::Mux(mux)
        );
        let to = |to: Endpoint| DnstapOptions {
            to,
            ..DnstapOptions::default()
        };
        assert_eq!(
            kind("unix:/run/x.sock"),
            OutputKind::Dnstap(to(Endpoint::unix("/run/x.sock")))
        );
        let zstd = DnstapOptions {
            compress: SendCompression::Zstd,
            bulk: false,
            ..to(Endpoint::tcp("::1", 6000))
        };
        assert_eq!(
            kind("tcp:[::1]:6000?compress=zstd&bulk=false"),
            OutputKind::Dnstap(zstd)
        );
    }

    #[test]
    fn an_output_takes_the_queue_settings_and_a_name() {
        let output =
            output("null:?policy=drop_oldest&queue_batches=7&queue_bytes=1KiB&name=n").unwrap();
        assert_eq!(
            (output.policy, output.queue_batches, output.queue_bytes),
            (QueuePolicy::DropOldest, 7, ByteSize::kib(1))
        );
        assert_eq!(output.name, "n");
    }

    #[test]
    fn a_listener_takes_every_setting_of_the_file() {
        let read = listener("tcp:0.0.0.0:6000?mode=raw&allow=10.0.0.0/8,192.0.2.1&connections_max=5&idle_timeout=1m").unwrap();
        assert_eq!(read.uri, Endpoint::tcp("0.0.0.0", 6000));
        assert_eq!(read.mode, ListenerMode::Raw);
        assert_eq!(
            read.allow,
            ["10.0.0.0/8".parse().unwrap(), "192.0.2.1".parse().unwrap()]
        );
        assert_eq!(
            (read.connections_max, read.idle_timeout.0.as_secs()),
            (5, 60)
        );
    }

    #[test]
    fn says_what_is_wrong_with_a_uri() {
        for (option, uri, wants) in [
            (
                "--output",
                "stduot:",
                &["no output \"stduot:\"", "did you mean stdout:?"][..],
            ),
            (
                "--output",
                "stdout:jsom",
                &["`format` cannot be \"jsom\"", "did you mean \"json\"?"],
            ),
            ("--output", "file:", &["name the folder"]),
            ("--output", "/tmp/x", &["file:/tmp/x", "unix:/tmp/x"]),
            ("--output", "-", &["stdout:"]),
            ("--output", "null:x", &["nothing after it"]),
            (
                "--output",
                "null:?path=/x",
                &["unknown key `path`", "an output of type \"file\""],
            ),
            (
                "--output",
                "file:/x?fromat=json",
                &["unknown key `fromat`", "did you mean `format`?"],
            ),
            ("--output", "file:/x?format", &["write key=value"]),
            ("--output", "file:/x?utc=yes", &["`utc` is true or false"]),
            ("--output", "tcp:x", &["has no port"]),
            ("--output", "tcp:x:1?to=tcp:y:2", &["before the ?"]),
            ("--listen", "tcp:::1:6000", &["goes in brackets"]),
            (
                "--listen",
                "udp:127.0.0.1:6000",
                &["\"udp:\"", "unix:, tcp: and tls:"],
            ),
            (
                "--listen",
                "127.0.0.1:6000",
                &["write \"tcp:127.0.0.1:6000\""],
            ),
            (
                "--listen",
                "tcp:127.0.0.1:6000?mdoe=raw",
                &["did you mean `mode`?"],
            ),
            (
                "--listen",
                "tcp:127.0.0.1:6000?connections_max=many",
                &["whole number"],
            ),
            (
                "--listen",
                "tcp:127.0.0.1:6000?allow=10.0.0.0/99",
                &["not a network"],
            ),
        ] {
            let error = if option == "--output" {
                output(uri).unwrap_err()
            } else {
                listener(uri).unwrap_err()
            };
            let shown = error.to_string();
            assert!(shown.starts_with(&format!("{option} {uri}: ")), "{shown}");
            for want in wants {
                assert!(shown.contains(want), "{uri}: {want:?} is not in {shown:?}");
            }
        }
    }

    #[test]
    fn the_command_line_takes_the_place_of_lists_and_leaves_the_rest() {
        let mut config = Config::default();
        config.apply(&Overrides::default()).unwrap();
        assert_eq!(config, Config::default());
        let overrides = Overrides {
            listen: vec!["tcp:127.0.0.1:0".to_owned()],
            http: Some("127.0.0.1:0".to_owned()),
            output: vec!["null:".to_owned(), "stdout:".to_owned()],
        };
        config.apply(&overrides).unwrap();
        assert_eq!(
            (
                config.listener.len(),
                config.output.len(),
                config.http.address.port()
            ),
            (1, 2, 0)
        );
        assert_eq!(config.stage, Config::default().stage);
        config
            .apply(&Overrides {
                http: Some("off".to_owned()),
                ..Overrides::default()
            })
            .unwrap();
        assert!(!config.http.enabled);
        let bad = Overrides {
            listen: vec!["x".to_owned()],
            http: Some("9954".to_owned()),
            output: vec!["y".to_owned()],
        };
        assert_eq!(config.apply(&bad).unwrap_err().len(), 3);
    }
}
