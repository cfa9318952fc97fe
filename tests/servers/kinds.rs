//! The servers: how each is configured and started, what it sends, and where it keeps count of it.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use crate::server::Site;
use crate::support::http_get;
use crate::support::load::Pace;

/// What is known of a server.
pub(crate) struct Kind {
    /// As `serve` calls it.
    pub(crate) name: &'static str,
    pub(crate) program: &'static str,
    pub(crate) package: &'static str,
    /// Whether the printed lines make it send over TCP.
    pub(crate) over_tcp: bool,
    /// Whether it asks an upstream for what it answers.
    pub(crate) recursive: bool,
    /// The message types of which a query that it gets makes one; none where it sends only what it asks others.
    pub(crate) queries: &'static [&'static str],
    /// The same for its answers.
    pub(crate) answers: &'static [&'static str],
    /// Queries after which the client waits for their frames: libfstrm's queue holds 512 frames, and a sender drops what
    /// does not fit when its own thread for dnstap does not get to run in time.
    pub(crate) round: u64,
    /// Whether neither the queries nor its statistics tell exactly how many frames it sends. NSD drops some itself however
    /// gently it is asked: it hands each to a process of its own in a datagram, and Linux queues ten of those
    /// (`net.unix.max_dgram_qlen`). PowerDNS Recursor does not log the few queries of its housekeeping. The number is the
    /// percentage of its own count that may be missing.
    pub(crate) unsure: Option<u64>,
    /// How fast it is asked.
    pub(crate) pace: Pace,
    /// Writes its configuration.
    pub(crate) configure: fn(&Site),
    /// Its arguments.
    pub(crate) args: fn(&Site) -> Vec<String>,
    /// Its own statistics: the message types (none: all) whose frames it has counted, and their number.
    pub(crate) own_count: fn(&Site) -> (&'static [&'static str], u64),
    /// Whether it ends its stream with STOP.
    pub(crate) stops: bool,
}

pub(crate) const BRISK: Pace = Pace {
    clients: 4,
    window: 16,
};
const GENTLE: Pace = Pace {
    clients: 1,
    window: 2,
};

fn file(site: &Site, name: &str) -> String {
    site.dir.join(name).display().to_string()
}

/// The number behind `key`, in a text of keys and values with `=` or spaces between them.
fn value(text: &str, key: &str) -> u64 {
    let line = text
        .lines()
        .find_map(|l| l.trim().strip_prefix(key))
        .unwrap_or_else(|| panic!("{key} in {text}"));
    let number = line.trim_matches(|c: char| !c.is_ascii_digit());
    number
        .parse()
        .unwrap_or_else(|e| panic!("{key}{line}: {e}"))
}

pub(crate) const UNBOUND: Kind = Kind {
    name: "Unbound",
    program: "unbound",
    package: "unbound",
    over_tcp: false,
    recursive: true,
    queries: &["CLIENT_QUERY"],
    answers: &["CLIENT_RESPONSE"],
    round: 1000,
    unsure: None,
    pace: BRISK,
    configure: |site| drop(site.configure("unbound.conf")),
    args: |site| {
        ["-d", "-p", "-c"]
            .map(str::to_owned)
            .into_iter()
            .chain([file(site, "unbound.conf")])
            .collect()
    },
    own_count: |site| {
        let text = site.ask_program(
            "unbound-control",
            &["-c", &file(site, "unbound.conf"), "stats_noreset"],
        );
        (&["CLIENT_QUERY"], value(&text, "total.num.queries="))
    },
    stops: true,
};

pub(crate) const BIND: Kind = Kind {
    name: "BIND",
    program: "named",
    package: "bind9",
    over_tcp: false,
    recursive: true,
    queries: &["CLIENT_QUERY", "AUTH_QUERY"],
    answers: &["CLIENT_RESPONSE", "AUTH_RESPONSE"],
    round: 100,
    unsure: None,
    pace: BRISK,
    configure: |site| {
        site.configure("bind.conf");
        site.configure("hints");
    },
    args: |site| {
        vec![
            "-g".into(),
            "-n".into(),
            "1".into(),
            "-c".into(),
            file(site, "bind.conf"),
        ]
    },
    own_count: |site| {
        let page = http_get(([127, 0, 0, 1], site.control), "/json/v1/server");
        let stats: serde_json::Value =
            serde_json::from_str(&page).unwrap_or_else(|e| panic!("{e}: {page}"));
        let count = |name: &str| stats["dnstapstats"][name].as_u64().unwrap_or(0);
        assert_eq!(count("DNSTAPdropped"), 0, "BIND has dropped frames itself");
        (&[], count("DNSTAPsuccess"))
    },
    stops: true,
};

pub(crate) const KNOT_DNS: Kind = Kind {
    name: "Knot DNS",
    program: "knotd",
    package: "knot knot-module-dnstap",
    over_tcp: false,
    recursive: false,
    queries: &["AUTH_QUERY"],
    answers: &["AUTH_RESPONSE"],
    round: 200,
    unsure: None,
    pace: BRISK,
    configure: |site| drop(site.configure("knot.conf")),
    args: |site| vec!["-c".into(), file(site, "knot.conf")],
    own_count: |site| {
        let text = site.ask_program(
            "knotc",
            &[
                "-s",
                &file(site, "knot.sock"),
                "zone-stats",
                "--",
                "mod-stats.request-protocol",
            ],
        );
        let counts = text
            .lines()
            .filter_map(|l| l.rsplit_once(" = ")?.1.trim().parse::<u64>().ok());
        (&["AUTH_QUERY"], counts.sum())
    },
    stops: true,
};

pub(crate) const KNOT_RESOLVER: Kind = Kind {
    name: "Knot Resolver",
    program: "kresd",
    package: "knot-resolver",
    over_tcp: false,
    recursive: true,
    queries: &["CLIENT_QUERY"],
    answers: &["CLIENT_RESPONSE"],
    round: 200,
    unsure: None,
    pace: BRISK,
    configure: |site| drop(site.configure("kresd.conf")),
    args: |site| {
        vec![
            "-n".into(),
            "-c".into(),
            file(site, "kresd.conf"),
            site.dir.display().to_string(),
        ]
    },
    own_count: |site| {
        let mut socket = UnixStream::connect(site.dir.join("control")).expect("control socket");
        socket
            .write_all(b"stats.get('request.total') - stats.get('request.internal')\n")
            .expect("control socket");
        let mut text = Vec::new();
        let mut byte = [0];
        // The prompt comes first, then the number and a line end.
        while text.last() != Some(&b'\n') && socket.read(&mut byte).is_ok_and(|n| n > 0) {
            text.push(byte[0]);
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        (&["CLIENT_QUERY"], value(&text, ""))
    },
    stops: true,
};

pub(crate) const NSD: Kind = Kind {
    name: "NSD",
    program: "nsd",
    package: "nsd",
    over_tcp: false,
    recursive: false,
    queries: &["AUTH_QUERY"],
    answers: &["AUTH_RESPONSE"],
    round: 100,
    unsure: Some(50),
    pace: GENTLE,
    configure: |site| drop(site.configure("nsd.conf")),
    args: |site| vec!["-d".into(), "-c".into(), file(site, "nsd.conf")],
    own_count: |site| {
        let text = site.ask_program(
            "nsd-control",
            &["-c", &file(site, "nsd.conf"), "stats_noreset"],
        );
        (&["AUTH_QUERY"], value(&text, "num.queries="))
    },
    stops: true,
};

pub(crate) const DNSDIST: Kind = Kind {
    name: "dnsdist",
    program: "dnsdist",
    package: "dnsdist",
    over_tcp: true,
    recursive: true,
    queries: &["CLIENT_QUERY"],
    answers: &["CLIENT_RESPONSE"],
    round: 200,
    unsure: None,
    pace: BRISK,
    configure: |site| drop(site.configure("dnsdist.conf")),
    args: |site| {
        vec![
            "--supervised".into(),
            "--disable-syslog".into(),
            "-C".into(),
            file(site, "dnsdist.conf"),
        ]
    },
    own_count: |site| {
        let body = &http_get(([127, 0, 0, 1], site.control), "/jsonstat?command=stats");
        let stats: serde_json::Value =
            serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {body}"));
        let count = |name: &str| {
            stats[name]
                .as_u64()
                .unwrap_or_else(|| panic!("{name} in {body}"))
        };
        let answers = count("responses") + count("cache-hits") + count("self-answered");
        let complete = count("cache-hits") > 0 && count("self-answered") > 0;
        assert!(
            count("queries") < 1000 || complete,
            "every kind of answer occurs: {body}"
        );
        (
            &["CLIENT_QUERY", "CLIENT_RESPONSE"],
            count("queries") + answers,
        )
    },
    stops: false,
};

pub(crate) const RECURSOR: Kind = Kind {
    name: "PowerDNS Recursor",
    program: "pdns_recursor",
    package: "pdns-recursor",
    over_tcp: true,
    recursive: true,
    queries: &[],
    answers: &[],
    round: 200,
    unsure: Some(1),
    pace: GENTLE,
    configure: |site| {
        site.configure("recursor.conf");
        site.configure("recursor.lua");
    },
    args: |site| vec![format!("--config-dir={}", site.dir.display())],
    own_count: |site| {
        // The upstream's count of what it was asked: its own is summed up over its threads only now and then.
        let upstream = file(site, "../upstream/nsd.conf");
        let asked = value(
            &site.ask_program("nsd-control", &["-c", &upstream, "stats_noreset"]),
            "num.queries=",
        );
        (&["RESOLVER_QUERY"], asked)
    },
    stops: false,
};
