//! Outputs: their queues, their files, and forwards that would feed themselves.

use super::{Unread, is_any, is_loopback, names, path, same_place};
use crate::config::Config;
use crate::config::problem::Problem;
use crate::format::{Format, Settings};
use crate::outputs::options::{DnstapOptions, FileOptions, OutputKind, OutputOptions};
use crate::transport::options::{ListenerOptions, ReceiveCompression};
use crate::units::{ByteSize, Endpoint};

pub(super) fn check(config: &Config, unread: Unread<'_>, problems: &mut Vec<Problem>) {
    if config.output.is_empty() && !unread.is("output") {
        let what = "there is no output, so nothing is kept";
        problems.push(
            Problem::error("output", what)
                .fix("add an [[output]]; type = \"null\" says that only metrics are wanted"),
        );
    }
    let completed = config.output_names();
    let entries: Vec<(&str, &str)> = config
        .output
        .iter()
        .zip(&completed)
        .map(|(o, full)| (o.name.as_str(), full.as_str()))
        .collect();
    names("output", &entries, problems);
    let largest_batch = config
        .listener
        .iter()
        .map(batch_bytes_max)
        .max()
        .unwrap_or(0);
    for (i, output) in config.output.iter().enumerate() {
        let place = format!("output[{i}]");
        queue(output, largest_batch, &place, problems);
        match &output.kind {
            OutputKind::Null(_) => {}
            OutputKind::Stdout(stdout) => {
                format(&stdout.format, &stdout.settings(), &place, problems)
            }
            OutputKind::File(file) => self::file(file, &place, problems),
            OutputKind::Dnstap(dnstap) if !unread.is(&format!("{place}.to")) => {
                forward(dnstap, config, &place, problems)
            }
            OutputKind::Dnstap(_) => {}
        }
        let mut earlier = config.output.iter().enumerate().take(i);
        if let Some((j, _)) = earlier.find(|(_, other)| same_target(&other.kind, &output.kind)) {
            let what = format!(
                "output {} writes to the same place, and the two would overwrite or mix their lines",
                j + 1
            );
            problems
                .push(Problem::error(place, what).fix("give it another place, or leave it away"));
        }
    }
}

/// Largest batch that a listener can make: a full buffer, or a full decompressed payload.
fn batch_bytes_max(listener: &ListenerOptions) -> u64 {
    match listener.compression {
        ReceiveCompression::Off => listener.buffer_limit(),
        _ => listener
            .buffer_limit()
            .max(listener.decompressed_max.bytes()),
    }
}

fn queue(output: &OutputOptions, largest_batch: u64, place: &str, problems: &mut Vec<Problem>) {
    if output.queue_batches == 0 {
        problems.push(
            Problem::error(
                format!("{place}.queue_batches"),
                "nothing fits a queue of 0 batches",
            )
            .fix("the default is 1024"),
        );
    }
    if output.queue_bytes.is_zero() {
        problems.push(
            Problem::error(
                format!("{place}.queue_bytes"),
                "nothing fits a queue of 0 bytes",
            )
            .fix("the default is \"64MiB\""),
        );
    } else if output.queue_bytes.bytes() < largest_batch {
        let what = format!(
            "a batch can have {}, which is more than the queue may hold",
            ByteSize(largest_batch).rounded()
        );
        let fix =
            "make the queue larger, or the listeners' `buffer_max` and `decompressed_max` smaller";
        problems.push(Problem::warning(format!("{place}.queue_bytes"), what).fix(fix));
    }
}

fn format(format: &Format, settings: &Settings, place: &str, problems: &mut Vec<Problem>) {
    if settings.utc && !format.has_local_times() {
        let what = "`utc` is about formats that show local time, and means nothing to this one";
        problems.push(Problem::warning(format!("{place}.utc"), what).fix("leave it away"));
    }
    if let Err(error) = format.line(settings) {
        problems.push(Problem::error(format!("{place}.format"), error.to_string()));
    }
}

fn file(file: &FileOptions, place: &str, problems: &mut Vec<Problem>) {
    let folder = format!("{place}.path");
    if file.path.as_os_str().is_empty() {
        problems.push(
            Problem::error(&folder, "`path` is empty")
                .fix("name a folder; the default is \"{data_dir}/frames\""),
        );
    }
    path(&folder, &file.path, problems);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if file.prefix.is_empty()
        || file.prefix.starts_with('.')
        || file.prefix.len() > 64
        || !file.prefix.chars().all(plain)
    {
        let what = format!("\"{}\" cannot begin a file name", file.prefix);
        let fix = "use 1 to 64 letters, digits, `.`, `_` and `-`, no dot first; the folder goes into `path`";
        problems.push(Problem::error(format!("{place}.prefix"), what).fix(fix));
    }
    if file.rotate_size.is_zero() && file.rotate_time.is_off() {
        let what = "the file is never closed: it grows without end and gets its final name when tapflow stops";
        problems.push(Problem::warning(place, what).fix("set `rotate_size` or `rotate_time`"));
    }
    if !file.rotate_size.is_zero() && file.rotate_size < ByteSize::kib(64) {
        let what = format!(
            "a new file every {} makes very many files",
            file.rotate_size
        );
        problems.push(
            Problem::warning(format!("{place}.rotate_size"), what).fix("the default is \"256MiB\""),
        );
    }
    if file
        .rotate_time
        .get()
        .is_some_and(|time| time.as_millis() < 1000)
    {
        let what = format!(
            "a new file every {} makes very many files",
            file.rotate_time
        );
        problems.push(
            Problem::warning(format!("{place}.rotate_time"), what).fix("the default is \"1h\""),
        );
    }
    format(&file.format, &file.settings(), place, problems);
}

fn forward(dnstap: &DnstapOptions, config: &Config, place: &str, problems: &mut Vec<Problem>) {
    let to = format!("{place}.to");
    match &dnstap.to {
        Endpoint::Unix(socket) => path(&to, socket, problems),
        Endpoint::Tcp { port: 0, .. } | Endpoint::Tls { port: 0, .. } => {
            problems.push(
                Problem::error(&to, "port 0 cannot be connected to")
                    .fix("dnstap collectors often use 6000"),
            );
        }
        Endpoint::Tcp { host, .. } | Endpoint::Tls { host, .. } if is_any(host) => {
            let what = format!("{host} is an address to listen at, not one to connect to");
            problems.push(Problem::error(&to, what).fix("name the collector's address"));
        }
        Endpoint::Tcp { .. } | Endpoint::Tls { .. } => {}
    }
    if let Some(i) = config
        .listener
        .iter()
        .position(|listener| feeds(&dnstap.to, &listener.uri))
    {
        let what = format!(
            "listener {} is at {}, so every frame would come back and go round for ever",
            i + 1,
            dnstap.to
        );
        problems.push(Problem::error(&to, what).fix("forward to another collector"));
    }
    if dnstap.reconnect_min.is_off() {
        let what = "without a wait a collector that is down would be tried without a pause";
        problems.push(
            Problem::error(format!("{place}.reconnect_min"), what).fix("the default is \"100ms\""),
        );
    }
    if dnstap.reconnect_max < dnstap.reconnect_min {
        // The one that was changed is the one to look at.
        let max_left_alone = dnstap.reconnect_max == DnstapOptions::default().reconnect_max;
        let set = if max_left_alone {
            "reconnect_min"
        } else {
            "reconnect_max"
        };
        let what = format!(
            "the longest wait, {}, is shorter than the first, {}",
            dnstap.reconnect_max, dnstap.reconnect_min
        );
        problems.push(
            Problem::error(format!("{place}.{set}"), what)
                .fix("the defaults are \"100ms\" and \"10s\""),
        );
    }
}

/// Whether connecting to `to` reaches a listener at `uri` on this machine.
fn feeds(to: &Endpoint, uri: &Endpoint) -> bool {
    if same_place(to, uri) {
        // A wildcard listener has the port on this machine's addresses alone.
        return match (to.host_port(), uri.host_port()) {
            (Some((host, _)), Some((at, _))) => at.eq_ignore_ascii_case(host) || is_loopback(host),
            _ => true,
        };
    }
    match (to.host_port(), uri.host_port()) {
        (Some((host, port)), Some((at, q))) => port == q && is_loopback(host) && is_loopback(at),
        _ => false,
    }
}

/// Whether two outputs write to one place.
fn same_target(a: &OutputKind, b: &OutputKind) -> bool {
    match (a, b) {
        (OutputKind::Stdout(_), OutputKind::Stdout(_)) => true,
        (OutputKind::File(a), OutputKind::File(b)) => {
            // Whatever their formats: `keep` and `max_total` of each would count and remove the other's files.
            super::plain_path(&a.path) == super::plain_path(&b.path) && a.prefix == b.prefix
        }
        _ => false,
    }
}
