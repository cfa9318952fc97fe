//! `tapflow health`: whether a collector takes frames, for health checks in places that have no other program.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;

use crate::cli::print_out;
use crate::units::Span;

/// What `health` is told.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(
    about = "Ask a running collector whether it takes frames",
    long_about = "Ask a running collector whether it takes frames: its /readyz over HTTP. For the health checks of \
        containers, whose images hold no other program. With TLS on the HTTP server use a probe that speaks it.",
    after_long_help = "Exit codes:\n  \
        0  it takes frames\n  \
        1  it does not, or nobody answers\n  \
        2  the command line is wrong\n\n\
        Example:\n  \
        $ tapflow health 127.0.0.1:9954\n  \
        ready"
)]
pub struct HealthArgs {
    /// Address of its HTTP server
    #[arg(value_name = "HTTP_ADDR", default_value = "127.0.0.1:9954")]
    pub address: String,
    /// Longest wait for the answer
    #[arg(long, value_name = "SPAN", default_value = "3s")]
    pub timeout: Span,
}

/// Most bytes of an answer that are read.
const ANSWER_MAX: u64 = 64 * 1024;

/// Asks.
///
/// # Errors
/// When nobody answers in time.
pub fn run(args: &HealthArgs) -> anyhow::Result<ExitCode> {
    let address = args
        .address
        .strip_prefix("http://")
        .unwrap_or(&args.address);
    let answer = ask(
        address,
        args.timeout.get().unwrap_or(Duration::from_secs(60)),
    )
    .with_context(|| format!("http://{address}/readyz"))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    print_out(body.as_bytes())?;
    let ready = head
        .lines()
        .next()
        .is_some_and(|line| line.split(' ').nth(1) == Some("200"));
    Ok(if ready {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn ask(address: &str, limit: Duration) -> anyhow::Result<String> {
    let to = address
        .to_socket_addrs()?
        .next()
        .context("the name has no address")?;
    let mut stream = TcpStream::connect_timeout(&to, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    write!(
        stream,
        "GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
