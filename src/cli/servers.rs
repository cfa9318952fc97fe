//! What each DNS server has to be told to send dnstap here: the lines that `serve` prints and the documentation shows.

use std::fmt::Write as _;
use std::path::Path;

/// The lines for every server that can reach one of these places.
pub fn snippets(unix: Option<&Path>, tcp: Option<(&str, u16)>) -> String {
    let mut out = String::new();
    if let Some(path) = unix {
        let path = path.display();
        let _ = write!(
            out,
            "  Unbound           dnstap:\n\
             \x20                     dnstap-enable: yes\n\
             \x20                     dnstap-socket-path: \"{path}\"\n\
             \x20                     dnstap-log-client-query-messages: yes\n\
             \x20                     dnstap-log-client-response-messages: yes\n\
             \x20 BIND              options {{ dnstap {{ all; }}; dnstap-output unix \"{path}\"; }};\n\
             \x20 Knot DNS          mod-dnstap: [{{ id: tap, sink: \"unix:{path}\", log-queries: on, log-responses: on }}]\n\
             \x20                   template: [{{ id: default, global-module: mod-dnstap/tap }}]\n\
             \x20 Knot Resolver     modules.load('dnstap')\n\
             \x20                   dnstap.config({{ socket_path = '{path}', client = {{ log_queries = true, log_responses = true }} }})\n\
             \x20 NSD               dnstap: {{ dnstap-enable: yes, dnstap-socket-path: \"{path}\", one key a line }}\n\
             \x20                   dnstap-log-auth-query-messages: yes, dnstap-log-auth-response-messages: yes\n\
             \x20 CoreDNS           dnstap unix://{path} full\n"
        );
    }
    match (unix, tcp) {
        (_, Some((host, port))) => {
            let _ = write!(
                out,
                "  dnsdist           tap = newFrameStreamTcpLogger('{host}:{port}')\n\
                 \x20                   addAction(AllRule(), DnstapLogAction('dnsdist', tap))\n\
                 \x20                   addResponseAction(AllRule(), DnstapLogResponseAction('dnsdist', tap))\n\
                 \x20 PowerDNS Recursor dnstapFrameStreamServer({{\"{host}:{port}\"}}, {{logQueries=true, logResponses=true}})\n"
            );
            if unix.is_none() {
                let _ = write!(
                    out,
                    "  Unbound           dnstap-ip: \"{}@{port}\" and dnstap-tls: no\n  CoreDNS           dnstap tcp://{host}:{port} full\n",
                    host.trim_matches(['[', ']'])
                );
            }
        }
        (Some(path), None) => {
            let path = path.display();
            let _ = write!(
                out,
                "  dnsdist           tap = newFrameStreamUnixLogger('{path}')\n\
                 \x20                   addAction(AllRule(), DnstapLogAction('dnsdist', tap))\n\
                 \x20                   addResponseAction(AllRule(), DnstapLogResponseAction('dnsdist', tap))\n\
                 \x20 PowerDNS Recursor dnstapFrameStreamServer({{\"{path}\"}}, {{logQueries=true, logResponses=true}})\n"
            );
        }
        (None, None) => {}
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
            "CoreDNS",
            "dnsdist",
            "PowerDNS Recursor",
        ];
        let both = snippets(Some(Path::new("/run/t/s")), Some(("127.0.0.1", 6000)));
        let unix = snippets(Some(Path::new("/run/t/s")), None);
        for server in servers {
            assert!(both.contains(server) && unix.contains(server), "{server}");
        }
        let tcp = snippets(None, Some(("[::1]", 6000)));
        for server in ["Unbound", "CoreDNS", "dnsdist", "PowerDNS Recursor"] {
            assert!(tcp.contains(server), "{server}");
        }
        assert!(tcp.contains("\"::1@6000\"") && tcp.contains("'[::1]:6000'"));
    }
}
