//! `tapflow serve` and the DNS servers that send to it, as packaged by Debian: Unbound, BIND, Knot DNS, Knot Resolver, NSD,
//! dnsdist and PowerDNS Recursor; and fstrm's own tools as peers in both directions.
//!
//! Every server runs on loopback with a DNS tree of its own, with the lines that `serve` prints for it merged into a minimal
//! configuration, so that no query leaves the machine and the printed advice is proven. How many frames a server has sent is
//! found in ways that do not depend on the code under test: from the queries and answers that the client counts, from the
//! server's own statistics, and from a relay in between that walks the frames' length words ([`support::walker`]).
//!
//! A server that is not installed is skipped with a line that says so. Nothing waits for a fixed time: each step waits for a
//! condition, and every process is killed when its test ends, however it ends.

mod counts;
mod finish;
mod fstrm_tools;
mod killed;
mod kinds;
#[path = "../port_support/mod.rs"]
mod ports;
mod restarts;
mod server;
mod support;

/// One test for each server, so that they run side by side and fail apart.
macro_rules! for_each_server {
    ($test:path) => {
        mod each {
            #[test]
            fn unbound() {
                $test(&crate::kinds::UNBOUND);
            }
            #[test]
            fn bind() {
                $test(&crate::kinds::BIND);
            }
            #[test]
            fn knot_dns() {
                $test(&crate::kinds::KNOT_DNS);
            }
            #[test]
            fn knot_resolver() {
                $test(&crate::kinds::KNOT_RESOLVER);
            }
            #[test]
            fn nsd() {
                $test(&crate::kinds::NSD);
            }
            #[test]
            fn dnsdist() {
                $test(&crate::kinds::DNSDIST);
            }
            #[test]
            fn powerdns_recursor() {
                $test(&crate::kinds::RECURSOR);
            }
        }
    };
}
pub(crate) use for_each_server;
