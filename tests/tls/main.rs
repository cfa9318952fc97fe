//! TLS on listeners, forwards and HTTP: good and bad certificates of every kind, each with the reason that is counted for it,
//! identities that belong to certificates, files that change; and peers that we did not write: Unbound, `openssl s_client`
//! and `curl`.
//!
//! Certificates are made for each test; a program that is not installed is skipped with a line that says so.

mod forward;
mod http;
mod listener;
mod pki;
#[path = "../port_support/mod.rs"]
mod ports;
mod programs;
mod support;
