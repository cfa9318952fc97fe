//! What TOML cannot know: settings that contradict each other, cannot work, or probably do not do what was meant.
//!
//! [`config`] looks at the settings alone, so its answer is the same on every machine. [`machine`] looks at the machine
//! it runs on (users, folders) and only ever warns, since a file may be checked on one machine for another.

mod listeners;
mod machine;
mod outputs;
mod stages;
mod tls;
mod transforms;

use std::path::{Component, Path};

use crate::config::Config;
use crate::config::problem::Problem;
use crate::units::{Endpoint, Net};

pub use machine::machine;

/// The settings that could not be read: their values are not what was written and are not to be compared.
#[derive(Debug, Clone, Copy)]
pub struct Unread<'p>(&'p [Problem]);

impl<'p> Unread<'p> {
    /// Those that these problems are about.
    pub fn new(problems: &'p [Problem]) -> Self {
        Self(problems)
    }

    /// Whether this setting could not be read.
    fn is(self, place: &str) -> bool {
        self.0.iter().any(|problem| problem.place == place)
    }

    /// Whether some entry of this list does not say what it is.
    fn types_of(self, list: &str) -> bool {
        let rest = |place: &'p str| {
            place
                .strip_prefix(list)
                .and_then(|rest| rest.strip_prefix('['))
        };
        let whole = |rest: &str| rest.ends_with(']') || rest.ends_with("].type");
        self.0
            .iter()
            .filter_map(|problem| rest(&problem.place))
            .any(whole)
    }
}

impl Config {
    /// Everything that is wrong with the settings as such, for a configuration that was not read from one file.
    pub fn check(&self) -> Vec<Problem> {
        config(self, &Unread::new(&[]))
    }
}

/// Everything that is wrong with the settings as such, but for those that could not be read.
pub fn config(config: &Config, unread: &Unread<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    general(config, &mut problems);
    listeners::check(config, *unread, &mut problems);
    stages::check(config, *unread, &mut problems);
    outputs::check(config, *unread, &mut problems);
    tls::check(config, &mut problems);
    problems
}

/// Most threads that make sense; more only take memory from each other.
const WORKER_THREADS_SENSIBLE: u32 = 512;

fn general(config: &Config, problems: &mut Vec<Problem>) {
    if config.data_dir.to_string_lossy().contains(['{', '}']) {
        let what =
            "`data_dir` is the folder that {data_dir} stands for, and cannot hold a {..} itself";
        problems.push(Problem::error("data_dir", what));
    }
    if config.shutdown_timeout.is_off() {
        let what = "without `shutdown_timeout` a stop drops whatever outputs have not taken yet";
        problems.push(
            Problem::warning("shutdown_timeout", what).fix("give it some time, such as \"10s\""),
        );
    }
    if config.worker_threads > WORKER_THREADS_SENSIBLE {
        let what = format!(
            "{} threads are more than any machine has use for",
            config.worker_threads
        );
        problems.push(Problem::error("worker_threads", what).fix("0 takes one a core"));
    }
}

/// Most characters of a name.
const NAME_LEN_MAX: usize = 64;

/// Names become labels of metrics, keys of the ledger (`AT/REASON`) and words of log lines. `entries` are the list's
/// names, as written and as completed.
fn names(list: &str, entries: &[(&str, &str)], problems: &mut Vec<Problem>) {
    for (i, (written, name)) in entries.iter().enumerate() {
        let place = format!("{list}[{i}].name");
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if !written.is_empty() && (written.len() > NAME_LEN_MAX || !written.chars().all(plain)) {
            let what = format!(
                "\"{written}\" cannot be a name: it becomes a metric's label and a word in the log"
            );
            let fix = format!("use letters, digits, `.`, `_` and `-`, at most {NAME_LEN_MAX}");
            problems.push(Problem::error(place, what).fix(fix));
            continue;
        }
        let earlier = entries.iter().take(i).position(|(_, other)| other == name);
        if let Some(earlier) = earlier {
            let what = format!("{list} {} has the name \"{name}\" already", earlier + 1);
            problems.push(
                Problem::error(place, what)
                    .fix("give each a name of its own, or leave the names away"),
            );
        }
    }
}

/// What may be wrong with any path in a setting.
fn path(place: &str, path: &Path, problems: &mut Vec<Problem>) {
    let text = path.to_string_lossy();
    let rest = text.replace("{data_dir}", "");
    if rest.contains(['{', '}']) {
        let what = format!("\"{text}\" holds a {{..}} that is not known");
        problems.push(
            Problem::error(place, what).fix("{data_dir}, the data folder, is the one there is"),
        );
    } else if text.starts_with("~/") {
        let what = format!("\"{text}\" is not the home folder: only a shell reads ~ so");
        problems
            .push(Problem::error(place, what).fix("write the whole path, or one below {data_dir}"));
    } else if path.is_relative() && !text.starts_with("{data_dir}") && !text.is_empty() {
        let what = format!("\"{text}\" depends on the folder that tapflow is started in");
        problems.push(
            Problem::warning(place, what).fix("write the whole path, or one below {data_dir}"),
        );
    }
}

/// Networks with bits beyond their prefix, as in `10.1.2.3/8`: one address or the whole network may be meant.
fn host_bits(place: &str, networks: &[Net], problems: &mut Vec<Problem>) {
    for (i, net) in networks
        .iter()
        .enumerate()
        .filter(|(_, net)| net.has_host_bits())
    {
        let (network, address) = (net.0.trunc(), net.0.addr());
        let what = format!("{net} is the network {network}, whatever follows its prefix");
        let fix = format!("write {network} for the network or {address} for one address");
        problems.push(Problem::warning(format!("{place}[{i}]"), what).fix(fix));
    }
}

/// Whether two places are the same socket, or would take each other's connections.
fn same_place(a: &Endpoint, b: &Endpoint) -> bool {
    match (a.carrier(), b.carrier()) {
        (Endpoint::Unix(a), Endpoint::Unix(b)) => plain_path(a) == plain_path(b),
        _ => match (a.host_port(), b.host_port()) {
            // Port 0 is a port of its own each time.
            (Some((a, p)), Some((b, q))) => {
                p == q && p != 0 && (a.eq_ignore_ascii_case(b) || is_any(a) || is_any(b))
            }
            _ => false,
        },
    }
}

/// The path without `.` components, so that spelling does not hide a clash.
fn plain_path(path: &Path) -> Vec<Component<'_>> {
    path.components()
        .filter(|part| !matches!(part, Component::CurDir))
        .collect()
}

/// Whether a host stands for every address of the machine.
fn is_any(host: &str) -> bool {
    host.parse::<std::net::IpAddr>()
        .is_ok_and(|address| address.is_unspecified())
}

/// Whether a host can be reached from this machine alone.
fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load;
    use crate::config::problem::Severity;
    use crate::config::problem::Severity::{Error, Warning};

    /// Settings, and what they are told: severity, line and column, part of the message. No more and no less.
    type Row = (
        &'static str,
        &'static [(Severity, &'static str, &'static str)],
    );

    fn assert_told(before: &str, rows: &[Row]) {
        for (settings, wants) in rows {
            let text = format!("{before}{settings}\n");
            let loaded = load::text("x", &text);
            let report = loaded.report(false);
            assert_eq!(loaded.problems.len(), wants.len(), "{text}----\n{report}");
            for (problem, (severity, at, part)) in loaded.problems.iter().zip(*wants) {
                let shown = loaded.source.show(problem, false);
                assert_eq!(problem.severity, *severity, "{shown}");
                let at = if at.starts_with(',') {
                    format!("x{at}")
                } else {
                    format!("x:{at}")
                };
                assert!(shown.contains(&format!("--> {at}\n")), "{at}\n{shown}");
                assert!(shown.contains(part), "{part:?} is not in\n{shown}");
                assert!(
                    problem.fix.is_some() || shown.contains("data_dir"),
                    "no advice in\n{shown}"
                );
            }
        }
    }

    const UNIX: &str = "[[listener]]\nuri = 'unix:/run/x.sock'\n";
    const TCP: &str = "[[listener]]\nuri = 'tcp:127.0.0.1:6000'\n";

    #[test]
    fn settings_of_tapflow_as_a_whole() {
        assert_told(
            "",
            &[
                ("worker_threads = 512", &[]),
                ("worker_threads = 513", &[(Error, "1:18", "one a core")]),
                (
                    "shutdown_timeout = 'off'",
                    &[(Warning, "1:20", "drops whatever")],
                ),
                (
                    "data_dir = '{data_dir}/x'",
                    &[(Error, "1:12", "cannot hold")],
                ),
            ],
        );
    }

    #[test]
    fn limits_of_frames_that_lose_frames() {
        assert_told(
            TCP,
            &[
                (
                    "data_frame_max = 0",
                    &[(Error, "3:18", "nothing would be taken")],
                ),
                (
                    "data_frame_max = '64KiB'",
                    &[(Warning, "3:18", "65535 bytes")],
                ),
                (
                    "data_frame_max = 65535",
                    &[(Warning, "3:18", "at least \"68KiB\"")],
                ),
                ("data_frame_max = '68KiB'", &[]),
                ("data_frame_max = '16MiB'", &[]),
                (
                    "data_frame_max = '5GiB'",
                    &[
                        (Error, "3:18", "32 bits"),
                        (Warning, ", output[0].queue_bytes", "5.00 GiB"),
                    ],
                ),
                ("control_frame_max = 33", &[(Error, "3:21", "34 bytes")]),
                ("control_frame_max = 34", &[(Warning, "3:21", "512")]),
                ("control_frame_max = 512", &[]),
                ("control_frame_max = '1MiB'", &[]),
                (
                    "decompressed_max = '64KiB'",
                    &[(Warning, "3:20", "after decompression")],
                ),
                ("compression = 'off'\ndecompressed_max = '64KiB'", &[]),
            ],
        );
    }

    #[test]
    fn buffers_that_a_frame_does_not_fit() {
        assert_told(
            TCP,
            &[
                ("buffer_max = '1MiB'", &[(Error, "3:14", "does not fit")]),
                ("buffer_max = '2MiB'", &[]),
                ("read_size = 100", &[(Error, "3:13", "of no use")]),
                ("read_size = 1000", &[(Warning, "3:13", "system call")]),
                (
                    "read_size = '65MiB'",
                    &[
                        (Error, "3:13", "at once"),
                        (Warning, ", output[0].queue_bytes", "more than the queue"),
                    ],
                ),
                (
                    "initial_buffer = '2MiB'",
                    &[(Error, "3:18", "larger than the largest, 1280KiB")],
                ),
                (
                    "receive_buffer = '2GiB'",
                    &[(Error, "3:18", "at most 2147483647")],
                ),
            ],
        );
    }

    #[test]
    fn connections_and_their_times() {
        assert_told(
            TCP,
            &[
                (
                    "connections_max = 0",
                    &[(Error, "3:19", "nobody can connect")],
                ),
                (
                    "connections_max = 5\nconnections_per_peer_max = 6",
                    &[(Warning, "4:28", "never applies")],
                ),
                (
                    "handshake_timeout = 'off'",
                    &[(Warning, "3:21", "for ever")],
                ),
                (
                    "idle_timeout = '5s'",
                    &[(Warning, "3:16", "again and again")],
                ),
                ("idle_timeout = '1h'", &[]),
                (
                    "keepalive = '500ms'",
                    &[(Error, "3:13", "1 second to 32767")],
                ),
                ("keepalive = 'off'", &[]),
            ],
        );
    }

    #[test]
    fn what_means_nothing_to_the_kind_of_listener() {
        assert_told(
            UNIX,
            &[
                (
                    "allow = ['10.0.0.0/8']",
                    &[(Warning, "3:9", "means nothing to a Unix socket")],
                ),
                (
                    "socket_mode = '0444'",
                    &[(Error, "3:15", "nobody can connect")],
                ),
                ("socket_mode = '0600'\nowner = 'x'\ngroup = 'y'", &[]),
            ],
        );
        assert_told(
            TCP,
            &[
                (
                    "socket_mode = '0666'",
                    &[(Warning, "3:15", "means nothing to TCP")],
                ),
                (
                    "owner = 'x'\ngroup = 'y'",
                    &[(Warning, "3:9", "`owner`"), (Warning, "4:9", "`group`")],
                ),
                (
                    "allow = ['10.1.2.3/8']",
                    &[(Warning, "3:10", "10.0.0.0/8 for the network")],
                ),
            ],
        );
    }

    #[test]
    fn places_that_everyone_reaches_or_that_depend_on_where_tapflow_starts() {
        let long = format!("uri = 'unix:/{}'", "x".repeat(107));
        let long: &'static str = Box::leak(long.into_boxed_str());
        assert_told(
            "[[listener]]\n",
            &[
                (
                    "uri = 'tcp:0.0.0.0:6000'",
                    &[(Warning, "2:7", "everyone who can reach")],
                ),
                ("uri = 'tcp:0.0.0.0:6000'\nallow = ['0.0.0.0/0']", &[]),
                ("uri = 'tcp:[::1]:6000'", &[]),
                ("uri = 'tcp:localhost:6000'", &[]),
                (
                    "uri = 'unix:x.sock'",
                    &[(Warning, "2:7", "depends on the folder")],
                ),
                ("uri = 'unix:{data_dir}/x.sock'", &[]),
                ("uri = 'unix:{run}/x.sock'", &[(Error, "2:7", "not known")]),
                ("uri = 'unix:~/x.sock'", &[(Error, "2:7", "only a shell")]),
                (long, &[(Error, "2:7", "has 108 bytes")]),
            ],
        );
    }

    #[test]
    fn two_at_one_place_or_of_one_name() {
        assert_told(
            "[[listener]]\nname = 'a'\nuri = 'tcp:127.0.0.1:6000'\n[[listener]]\n",
            &[
                (
                    "uri = 'tcp:127.0.0.1:6000'",
                    &[(
                        Error,
                        "5:7",
                        "listener 1 listens at tcp:127.0.0.1:6000 already",
                    )],
                ),
                (
                    "uri = 'tcp:0.0.0.0:6000'\nallow = ['::/0']",
                    &[(Error, "5:7", "already")],
                ),
                ("uri = 'tcp:[::1]:6000'", &[]),
                (
                    "uri = 'tcp:127.0.0.1:9954'",
                    &[(Error, "5:7", "the HTTP server is at 127.0.0.1:9954")],
                ),
                (
                    "uri = 'unix:/a'\nname = 'a'",
                    &[(Error, "6:8", "has the name \"a\" already")],
                ),
                (
                    "uri = 'unix:/a'\nname = 'a/b'",
                    &[(Error, "6:8", "cannot be a name")],
                ),
                (
                    "uri = 'unix:/a'\n[[listener]]\nuri = 'unix:/./a'",
                    &[(Error, "7:7", "already")],
                ),
                (
                    "uri = 'tcp:[::1]:0'\n[[listener]]\nuri = 'tcp:[::1]:0'",
                    &[],
                ),
            ],
        );
        assert_told(
            "[[output]]\ntype = 'file'\nname = 'x'\n[[output]]\n",
            &[
                (
                    "type = 'file'",
                    &[(Error, "4:1", "output 1 writes to the same place")],
                ),
                ("type = 'file'\nprefix = 'other'", &[]),
                (
                    "type = 'file'\nformat = 'json'",
                    &[(Error, "4:1", "output 1 writes to the same place")],
                ),
                (
                    "type = 'null'\nname = 'x'",
                    &[(Error, "6:8", "has the name \"x\" already")],
                ),
                (
                    "type = 'stdout'\n[[output]]\ntype = 'stdout'",
                    &[(Error, "6:1", "writes to the same place")],
                ),
            ],
        );
    }

    #[test]
    fn nothing_to_listen_at_or_to_write_to() {
        assert_told(
            "",
            &[
                ("listener = []", &[(Error, "1:1", "nothing can arrive")]),
                ("output = []", &[(Error, "1:1", "nothing is kept")]),
                ("stage = []", &[]),
            ],
        );
    }

    #[test]
    fn stages_in_an_order_that_cannot_work() {
        assert_told(
            "[[stage]]\n",
            &[
                (
                    "type = 'metrics'",
                    &[(Error, "1:1", "nothing decodes them")],
                ),
                (
                    "type = 'sample'\none_in = 2\nby = 'qname'",
                    &[(Error, "1:1", "a sample by \"qname\" looks into decoded")],
                ),
                ("type = 'sample'\none_in = 2", &[]),
                (
                    "type = 'sample'\none_in = 1",
                    &[(Warning, "3:10", "keeps everything")],
                ),
                (
                    "type = 'sample'\none_in = 0",
                    &[(Error, "3:10", "no share")],
                ),
                (
                    "type = 'decode'\n[[stage]]\ntype = 'decode'",
                    &[(Warning, "3:1", "decoded already")],
                ),
                (
                    "type = 'decdoe'\n[[stage]]\ntype = 'metrics'",
                    &[(Error, "2:8", "did you mean \"decode\"?")],
                ),
            ],
        );
        assert_told(
            "[[stage]]\ntype = 'decode'\n[[stage]]\ntype = 'metrics'\n",
            &[
                (
                    "identities_max = 100000",
                    &[(Warning, "5:18", "over a megabyte")],
                ),
                ("identities_max = 0", &[]),
                (
                    "[[stage]]\ntype = 'metrics'",
                    &[(Error, "5:1", "counts every record twice")],
                ),
            ],
        );
    }

    #[test]
    fn filters_that_ask_for_what_there_is_not() {
        assert_told(
            "[[stage]]\ntype = 'decode'\n[[stage]]\ntype = 'filter'\n",
            &[
                ("", &[(Warning, "3:1", "keeps everything")]),
                ("invert = true", &[(Error, "3:1", "drops everything")]),
                ("message_types = ['CLIENT_QUERY', 'client_response']", &[]),
                (
                    "message_types = ['CLIENT_QUERY', 'CLIENT_RESPONS']",
                    &[(Error, "5:34", "did you mean \"CLIENT_RESPONSE\"?")],
                ),
                (
                    "message_types = ['TYPE1']",
                    &[(Error, "5:18", "they are AUTH_QUERY")],
                ),
                ("qtypes = ['a', 'TYPE65535', 'HTTPS']", &[]),
                ("qtypes = ['TYPE65536']", &[(Error, "5:11", "up to 65535")]),
                (
                    "qtypes = ['HTPS']",
                    &[(Error, "5:11", "did you mean \"HTTPS\"?")],
                ),
                ("rcodes = ['NXDOMAIN', 'RCODE4095']", &[]),
                ("rcodes = ['RCODE4096']", &[(Error, "5:11", "up to 4095")]),
                (
                    "qname_suffixes = ['example.com', '*.example.com']",
                    &[(Error, "5:34", "write \"example.com\"")],
                ),
                ("expression = 'qname within example.com and not tc'", &[]),
                ("expression = '  '", &[(Warning, "3:1", "keeps everything")]),
                (
                    "expression = 'tc and qnam == a'",
                    &[(
                        Error,
                        "5:14",
                        "column 8, at \"qnam\": there is no field \"qnam\"",
                    )],
                ),
                (
                    "expression = '''\ntc and\n  (rd\n'''",
                    &[(
                        Error,
                        "5:14",
                        "line 2, column 3, at \"(\": this parenthesis is not closed",
                    )],
                ),
                (
                    "networks = ['192.0.2.1/24']",
                    &[(Warning, "5:13", "192.0.2.0/24 for the network")],
                ),
                (
                    "rcodes = ['NXDOMAIN']\nmessage_types = ['CLIENT_QUERY']",
                    &[(Warning, "5:10", "queries have no response code")],
                ),
            ],
        );
    }

    #[test]
    fn queues_and_files_that_lose_or_never_end() {
        assert_told(
            "[[output]]\ntype = 'file'\n",
            &[
                ("queue_batches = 0", &[(Error, "3:17", "0 batches")]),
                ("queue_bytes = 0", &[(Error, "3:15", "0 bytes")]),
                (
                    "queue_bytes = '4MiB'",
                    &[(Warning, "3:15", "8.00 MiB, which is more")],
                ),
                ("path = ''", &[(Error, "3:8", "is empty")]),
                (
                    "path = 'frames'",
                    &[(Warning, "3:8", "depends on the folder")],
                ),
                (
                    "prefix = 'a/b'",
                    &[(Error, "3:10", "the folder goes into `path`")],
                ),
                (
                    "prefix = ''",
                    &[(Error, "3:10", "cannot begin a file name")],
                ),
                (
                    "rotate_size = 0\nrotate_time = 'off'",
                    &[(Warning, "1:1", "never closed")],
                ),
                ("rotate_size = 0", &[]),
                (
                    "rotate_size = 1024",
                    &[(Warning, "3:15", "very many files")],
                ),
                (
                    "rotate_time = '10ms'",
                    &[(Warning, "3:15", "very many files")],
                ),
                (
                    "utc = true",
                    &[(Warning, "3:7", "means nothing to this one")],
                ),
                ("utc = true\nformat = 'text'", &[]),
            ],
        );
    }

    #[test]
    fn workers_that_cannot_be_and_settings_that_mean_nothing() {
        assert_told(
            "[[output]]\ntype = 'mux'\n",
            &[
                ("workers = ['tcp:a:1', 'unix:/run/x']", &[]),
                ("workers = []", &[(Error, "3:11", "there is no worker")]),
                (
                    "workers = ['mux+tcp:a:1']",
                    &[(Error, "3:12", "known here")],
                ),
                (
                    "workers = ['tcp:a:1', 'tcp:a:1']",
                    &[(Error, "3:23", "worker 1 already")],
                ),
                ("workers = ['tcp:a:0']", &[(Error, "3:12", "port 0")]),
                (
                    "workers = ['tcp:127.0.0.1:6000']",
                    &[(Error, "3:12", "go round")],
                ),
                (
                    "workers = ['tcp:a:1']\nby = 'client'",
                    &[(Warning, "4:6", "means nothing")],
                ),
                (
                    "workers = ['tcp:a:1']\nstrategy = 'hash'\nby = 'qname'",
                    &[],
                ),
                (
                    "workers = ['tcp:a:1']\nstreams = 0",
                    &[(Error, "4:11", "of no use")],
                ),
                (
                    "workers = ['tcp:a:1']\nunacked_bytes = 0",
                    &[(Error, "4:17", "0 bytes")],
                ),
            ],
        );
        assert_told(
            "[[listener]]\n",
            &[
                ("uri = 'mux+tcp:127.0.0.1:6001'\nsessions_max = 9", &[]),
                (
                    "uri = 'mux+tcp:127.0.0.1:6001'\nsession_buffer = '1KiB'",
                    &[(Error, "3:18", "256 KiB")],
                ),
                (
                    "uri = 'tcp:127.0.0.1:6001'\nsessions_max = 9",
                    &[(Warning, "3:16", "about sessions")],
                ),
                (
                    "uri = 'mux+tcp:0.0.0.0:6001'",
                    &[(Warning, "2:7", "everyone who can reach")],
                ),
            ],
        );
    }

    #[test]
    fn forwards_that_cannot_connect_or_feed_themselves() {
        assert_told(
            "[[output]]\ntype = 'dnstap'\n",
            &[
                (
                    "to = 'tcp:127.0.0.1:6000'",
                    &[(Error, "3:6", "come back and go round for ever")],
                ),
                ("to = 'tcp:localhost:6000'", &[(Error, "3:6", "go round")]),
                (
                    "to = 'unix:{data_dir}/dnstap.sock'",
                    &[(Error, "3:6", "go round")],
                ),
                ("to = 'tcp:192.0.2.1:6000'", &[]),
                ("to = 'tcp:192.0.2.1:0'", &[(Error, "3:6", "port 0")]),
                ("to = 'tcp:0.0.0.0:6001'", &[(Error, "3:6", "to listen at")]),
                (
                    "to = 'tcp:a:1'\nreconnect_min = 'off'",
                    &[(Error, "4:17", "without a pause")],
                ),
                (
                    "to = 'tcp:a:1'\nreconnect_min = '1m'",
                    &[(Error, "4:17", "shorter than the first")],
                ),
            ],
        );
        let elsewhere = "[[listener]]\nuri = 'tcp:0.0.0.0:6000'\nallow = ['::/0']\n[[output]]\ntype = 'dnstap'\n";
        assert_told(
            elsewhere,
            &[
                ("to = 'tcp:127.0.0.1:6000'", &[(Error, "6:6", "go round")]),
                ("to = 'tcp:192.0.2.1:6000'", &[]),
            ],
        );
    }

    #[test]
    fn a_configuration_without_a_text_is_told_by_place() {
        let mut config = Config::default();
        assert_eq!(config.check(), []);
        config.listener[1].connections_max = 0;
        let told: Vec<String> = config.check().iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "error in listener[1].connections_max: with 0 connections nobody can connect (the default is 10000)"
            ]
        );
    }

    #[test]
    fn a_machine_that_lacks_a_user_or_a_folder_is_told_so() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), b"").unwrap();
        let mut config = Config {
            data_dir: folder.path().to_path_buf(),
            ..Config::default()
        };
        let resolve =
            |config: &Config| config.resolve(&crate::config::resolve::Surroundings::default());
        assert_eq!(machine(&resolve(&config)), []);
        config.listener[0].uri = Endpoint::unix("{data_dir}/file");
        config.listener[0].owner = "no-such-user-anywhere".to_owned();
        config.listener[0].group = "0".to_owned();
        config.output[0] = crate::config::uris::output("file:{data_dir}/file/x").unwrap();
        let told: Vec<String> = machine(&resolve(&config))
            .into_iter()
            .map(|problem| problem.what)
            .collect();
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(
            told[0].ends_with("exists and is not a socket, so it will not be replaced"),
            "{told:?}"
        );
        assert!(
            told[1].contains("no user \"no-such-user-anywhere\""),
            "{told:?}"
        );
        assert!(told[2].ends_with("file is not a folder"), "{told:?}");
    }
}
