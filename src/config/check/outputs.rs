//! Outputs: their queues, their files, and forwards that would feed themselves.

use super::{Unread, is_any, is_loopback, names, path, same_place};
use crate::config::Config;
use crate::config::problem::Problem;
use crate::fields::Field;
use crate::format::{Format, Settings};
use crate::outputs::options::{
    DnstapOptions, FileOptions, HashBy, MuxOptions, OutputKind, OutputOptions, Strategy,
};
use crate::transport::options::{ListenerOptions, ReceiveCompression};
use crate::units::{ByteSize, Endpoint, Span};

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
            OutputKind::Mux(mux) => workers(mux, config, unread, &place, problems),
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
    if !settings.fields.is_empty() && !format.has_fields() {
        let what = match format {
            Format::Template(_) => "a template names its fields itself".to_owned(),
            _ => format!("{format} takes no choice of fields"),
        };
        let fix = format!("these formats do: {}", Format::names_with_fields());
        problems.push(Problem::error(format!("{place}.fields"), what).fix(fix));
        return;
    }
    let mut fine = true;
    for (i, name) in settings.fields.iter().enumerate() {
        if let Err(error) = Field::find(name) {
            let fix = match error.near {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => "`tapflow fields` lists what there is".to_owned(),
            };
            let what = format!("there is no field \"{name}\"");
            problems.push(Problem::error(format!("{place}.fields[{i}]"), what).fix(fix));
            fine = false;
        }
    }
    if let Err(error) = format.line(settings)
        && fine
    {
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
    if dnstap.to.is_mux() {
        let what = "this output speaks over one connection, not over sessions";
        problems.push(Problem::error(&to, what).fix("use an output of type \"mux\""));
    }
    target(&to, &dnstap.to, config, problems);
    reconnect(dnstap.reconnect_min, dnstap.reconnect_max, place, problems);
}

/// Most streams of a session that make sense; each takes 256 KiB at either end.
const STREAMS_SENSIBLE: u32 = 64;

fn workers(
    mux: &MuxOptions,
    config: &Config,
    unread: Unread<'_>,
    place: &str,
    problems: &mut Vec<Problem>,
) {
    let key = |key: &str| format!("{place}.{key}");
    let list = key("workers");
    if mux.workers.is_empty() && !unread.is(&list) {
        let what = "there is no worker, so nothing is delivered";
        problems.push(Problem::error(&list, what).fix("name one, such as \"tcp:192.0.2.1:6001\""));
    }
    for (i, worker) in mux.workers.iter().enumerate() {
        let at = format!("{list}[{i}]");
        if unread.is(&at) || unread.is(&list) {
            continue;
        }
        if worker.is_mux() {
            let what = format!("{worker}: that there are sessions is known here");
            problems.push(Problem::error(&at, what).fix("leave mux+ away"));
        }
        if let Some(j) = mux.workers.iter().take(i).position(|w| w == worker) {
            let what = format!("{worker} is worker {} already", j + 1);
            problems.push(Problem::error(&at, what).fix("name each worker once"));
        }
        target(&at, worker, config, problems);
    }
    let plain = MuxOptions::default();
    let hashes = mux.strategy == Strategy::Hash;
    let networks = hashes && mux.by == HashBy::ClientNetwork;
    for (name, set, means) in [
        ("by", mux.by != plain.by, hashes),
        (
            "ipv4_prefix",
            mux.ipv4_prefix != plain.ipv4_prefix,
            networks,
        ),
        (
            "ipv6_prefix",
            mux.ipv6_prefix != plain.ipv6_prefix,
            networks,
        ),
    ] {
        if set && !means {
            let what = format!("`{name}` means nothing with this strategy and key");
            let fix = "set `strategy` to \"hash\", and `by` for the prefixes to \"client_network\"";
            problems.push(Problem::warning(key(name), what).fix(fix));
        }
    }
    for (name, bits, most) in [
        ("ipv4_prefix", mux.ipv4_prefix, 32),
        ("ipv6_prefix", mux.ipv6_prefix, 128),
    ] {
        if bits > most {
            let what = format!("an address has {most} bits");
            problems.push(Problem::error(key(name), what).fix("the defaults are 24 and 56"));
        }
    }
    if mux.streams == 0 || mux.streams > STREAMS_SENSIBLE {
        let what = format!("a session with {} streams is of no use", mux.streams);
        let fix = format!("use 1 to {STREAMS_SENSIBLE}; the default is 2");
        problems.push(Problem::error(key("streams"), what).fix(fix));
    }
    if mux.unacked_bytes.is_zero() {
        let what = "with 0 bytes on their way only one batch at a time would be sent";
        problems.push(Problem::error(key("unacked_bytes"), what).fix("the default is \"64MiB\""));
    }
    reconnect(mux.reconnect_min, mux.reconnect_max, place, problems);
}

fn reconnect(min: Span, max: Span, place: &str, problems: &mut Vec<Problem>) {
    if min.is_off() {
        let what = "without a wait a collector that is down would be tried without a pause";
        problems.push(
            Problem::error(format!("{place}.reconnect_min"), what).fix("the default is \"100ms\""),
        );
    }
    if max < min {
        // The one that was changed is the one to look at.
        let max_left_alone = max == DnstapOptions::default().reconnect_max;
        let set = if max_left_alone {
            "reconnect_min"
        } else {
            "reconnect_max"
        };
        let what = format!(
            "the longest wait, {}, is shorter than the first, {}",
            max, min
        );
        problems.push(
            Problem::error(format!("{place}.{set}"), what)
                .fix("the defaults are \"100ms\" and \"10s\""),
        );
    }
}

/// What may be wrong with a place to connect to.
fn target(place: &str, to: &Endpoint, config: &Config, problems: &mut Vec<Problem>) {
    match to.carrier() {
        Endpoint::Unix(socket) => path(place, socket, problems),
        Endpoint::Tcp { port: 0, .. } | Endpoint::Tls { port: 0, .. } => {
            problems.push(
                Problem::error(place, "port 0 cannot be connected to")
                    .fix("dnstap collectors often use 6000"),
            );
        }
        Endpoint::Tcp { host, .. } | Endpoint::Tls { host, .. } if is_any(host) => {
            let what = format!("{host} is an address to listen at, not one to connect to");
            problems.push(Problem::error(place, what).fix("name the collector's address"));
        }
        Endpoint::Tcp { .. } | Endpoint::Tls { .. } | Endpoint::Mux(_) => {}
    }
    if let Some(i) = config
        .listener
        .iter()
        .position(|listener| feeds(to, &listener.uri))
    {
        let what = format!(
            "listener {} is at {}, so every frame would come back and go round for ever",
            i + 1,
            to
        );
        problems.push(Problem::error(place, what).fix("forward to another collector"));
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
