//! What each DNS server has to be told to send dnstap here: the lines that `serve` prints and the documentation shows.
//!
//! Every block is valid as it is printed: `tests/servers` starts the real servers with exactly these lines. They leave out
//! what is a server's default, and log queries and answers both.

use std::fmt::Write as _;
use std::path::Path;

/// One server's lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// The server's name.
    pub server: &'static str,
    /// Into which file they go, and where in it.
    pub place: &'static str,
    /// The lines, without a line end after the last.
    pub lines: String,
}

/// The lines for every server that can reach one of these places. `tcp` is a host, in brackets where it is an IPv6 address,
/// and a port. A server that can reach both gets the Unix socket, except those of PowerDNS, which not every package builds
/// for it.
pub fn advice(unix: Option<&Path>, tcp: Option<(&str, u16)>) -> Vec<Advice> {
    let mut all = Vec::new();
    let mut add = |server, place, lines: String| {
        all.push(Advice {
            server,
            place,
            lines,
        })
    };
    // A listener on every address is reached from this machine over loopback.
    let tcp = tcp.map(|(host, port)| match host {
        "0.0.0.0" => ("127.0.0.1", port),
        "[::]" => ("[::1]", port),
        _ => (host, port),
    });
    let unix = unix.map(|path| path.display().to_string());
    let unbound = match (&unix, tcp) {
        (Some(path), _) => Some(format!("  dnstap-socket-path: \"{path}\"")),
        (None, Some((host, port))) => {
            let host = host.trim_matches(['[', ']']);
            Some(format!("  dnstap-ip: \"{host}@{port}\"\n  dnstap-tls: no"))
        }
        (None, None) => None,
    };
    if let Some(place) = unbound {
        let lines = format!(
            "dnstap:\n  dnstap-enable: yes\n{place}\n  dnstap-send-identity: yes\n  \
             dnstap-send-version: yes\n  dnstap-log-client-query-messages: yes\n  \
             dnstap-log-client-response-messages: yes"
        );
        add("Unbound", "unbound.conf", lines);
    }
    if let Some(path) = &unix {
        let lines = format!("dnstap {{ all; }};\ndnstap-output unix \"{path}\";");
        add("BIND", "named.conf, inside options { }", lines);
        let lines = format!(
            "mod-dnstap:\n  - id: tap\n    sink: \"unix:{path}\"\ntemplate:\n  - id: default\n    global-module: mod-dnstap/tap"
        );
        add(
            "Knot DNS",
            "knot.conf, before the zones; a default template of yours takes the last line",
            lines,
        );
        let lua = lua(path);
        let lines = format!(
            "modules.load('dnstap')\ndnstap.config({{ socket_path = {lua}, \
             client = {{ log_queries = true, log_responses = true }} }})"
        );
        add("Knot Resolver", "kresd.conf", lines);
        let lines = format!(
            "dnstap:\n  dnstap-enable: yes\n  dnstap-socket-path: \"{path}\"\n  dnstap-send-identity: yes\n  \
             dnstap-send-version: yes\n  dnstap-log-auth-query-messages: yes\n  \
             dnstap-log-auth-response-messages: yes"
        );
        add("NSD", "nsd.conf", lines);
    }
    let powerdns = match (&unix, tcp) {
        // TCP serves the packages that are built without Unix sockets too.
        (_, Some((host, port))) => Some((
            format!("newFrameStreamTcpLogger('{host}:{port}')"),
            format!("'{host}:{port}'"),
        )),
        (Some(path), None) => {
            let lua = lua(path);
            Some((format!("newFrameStreamUnixLogger({lua})"), lua))
        }
        (None, None) => None,
    };
    if let Some((logger, server)) = powerdns {
        // Without the loop, answers from the packet cache and dnsdist's own would not be seen.
        let lines = format!(
            "tap = {logger}\naddAction(AllRule(), DnstapLogAction('dnsdist', tap))\n\
             for _, add in ipairs({{addResponseAction, addCacheHitResponseAction, addSelfAnsweredResponseAction}}) do\n  \
             add(AllRule(), DnstapLogResponseAction('dnsdist', tap))\nend"
        );
        add("dnsdist", "dnsdist.conf, before other rules", lines);
        let lines = format!(
            "dnstapFrameStreamServer({{{server}}}, {{logQueries=true, logResponses=true}})"
        );
        add(
            "PowerDNS Recursor",
            "the lua-config-file; it sends what it asks other servers",
            lines,
        );
    }
    let coredns = match (&unix, tcp) {
        (Some(path), _) => Some(format!("dnstap unix://{path} full")),
        (None, Some((host, port))) => Some(format!("dnstap tcp://{host}:{port} full")),
        (None, None) => None,
    };
    if let Some(lines) = coredns {
        add("CoreDNS", "Corefile, inside a server block", lines);
    }
    all
}

/// A text as Lua reads it.
fn lua(text: &str) -> String {
    let mut out = String::from("'");
    for c in text.chars() {
        if matches!(c, '\'' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('\'');
    out
}

/// [`advice`] as `serve` prints it: a line with the server's name and place, then its lines indented by six columns.
pub fn snippets(unix: Option<&Path>, tcp: Option<(&str, u16)>) -> String {
    let mut out = String::new();
    for Advice {
        server,
        place,
        lines,
    } in advice(unix, tcp)
    {
        let _ = writeln!(out, "  {server} ({place})");
        for line in lines.lines() {
            let _ = writeln!(out, "      {line}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_is_told_a_place_that_it_can_reach() {
        let servers = [
            "Unbound",
            "BIND",
            "Knot DNS",
            "Knot Resolver",
            "NSD",
            "dnsdist",
            "PowerDNS Recursor",
            "CoreDNS",
        ];
        let names = |unix: Option<&str>, tcp| {
            let told = advice(unix.map(Path::new), tcp);
            let place =
                |a: &Advice| unix.is_some_and(|u| a.lines.contains(u)) || a.lines.contains("6000");
            assert!(told.iter().all(place), "{told:?}");
            told.iter().map(|a| a.server).collect::<Vec<_>>()
        };
        assert_eq!(names(Some("/run/t/s"), Some(("127.0.0.1", 6000))), servers);
        assert_eq!(names(Some("/run/t/s"), None), servers);
        assert_eq!(
            names(None, Some(("[::1]", 6000))),
            ["Unbound", "dnsdist", "PowerDNS Recursor", "CoreDNS"]
        );
        assert_eq!(names(None, None), [""; 0]);
    }

    #[test]
    fn an_address_is_written_as_each_server_reads_it() {
        let text = snippets(None, Some(("[::1]", 6000)));
        for form in [
            "\"::1@6000\"",
            "'[::1]:6000'",
            "{'[::1]:6000'}",
            "tcp://[::1]:6000 full",
        ] {
            assert!(text.contains(form), "{form} in {text}");
        }
        assert!(snippets(None, Some(("0.0.0.0", 6000))).contains("'127.0.0.1:6000'"));
        assert!(snippets(None, Some(("[::]", 6000))).contains("'[::1]:6000'"));
    }

    #[test]
    fn a_quote_in_a_path_does_not_end_a_text_of_lua() {
        let text = snippets(Some(Path::new("/run/it's/s")), None);
        assert!(
            text.contains("newFrameStreamUnixLogger('/run/it\\'s/s')"),
            "{text}"
        );
        assert!(text.contains("socket_path = '/run/it\\'s/s'"), "{text}");
    }

    #[test]
    fn lines_can_be_copied_out_of_the_print_by_their_indent() {
        let path = Path::new("/run/tapflow/dnstap.sock");
        let text = snippets(Some(path), None);
        for Advice { lines, .. } in advice(Some(path), None) {
            let indented: String = lines.lines().map(|l| format!("      {l}\n")).collect();
            assert!(text.contains(&indented), "{indented}");
        }
    }
}
