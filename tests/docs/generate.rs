//! The pages that are made from the code.

use std::fmt::Write as _;
use std::process::Command;

use tapflow::dns::Malformed;
use tapflow::dnstap::DecodeReason;
use tapflow::format::{Format, Shape};
use tapflow::fstrm::End;
use tapflow::fstrm::compress::CompressReason;
use tapflow::link::fstrm::LinkError;
use tapflow::link::sender::Failure;
use tapflow::pipeline::guard;
use tapflow::pipeline::ledger::OutputDrop;
use tapflow::telemetry::{self, Kind};
use tapflow::transport::admission::Refusal;
use tapflow::transport::tls::Fault;

use crate::source;

const NOTE: &str = "<!-- Made from the code: TAPFLOW_DOCS=write cargo test --test docs -->\n\n";

fn assert_current(page: &str, text: &str) {
    let path = source().join(page);
    if std::env::var("TAPFLOW_DOCS").is_ok_and(|v| v == "write") {
        std::fs::write(&path, text).expect("the page is written");
        return;
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = there.lines().zip(text.lines()).position(|(a, b)| a != b);
    let line = differs.unwrap_or_else(|| there.lines().count().min(text.lines().count())) + 1;
    assert!(
        there == text,
        "docs/src/{page} is not current from line {line} on: TAPFLOW_DOCS=write cargo test --test docs"
    );
}

/// A comment of the default file as Markdown: prose flows, indented lines keep their columns.
fn prose(comment: &[&str]) -> String {
    let mut out = String::new();
    let mut fixed = false;
    for line in comment {
        let indented = line.starts_with("  ");
        if indented != fixed {
            out.push_str(if indented { "\n```text\n" } else { "```\n\n" });
            fixed = indented;
        }
        // A line of prose with angle brackets or such occurs nowhere; the rest is Markdown as it is.
        let _ = writeln!(
            out,
            "{}",
            if indented {
                line.trim_end()
            } else {
                line.trim()
            }
        );
    }
    if fixed {
        out.push_str("```\n");
    }
    out
}

#[test]
fn the_configuration_reference_is_made_from_the_default_file() {
    let path = source().join("../../config/default.toml");
    let text = std::fs::read_to_string(path).expect("config/default.toml");
    let mut page = format!("# Configuration reference\n\n{NOTE}");
    let (mut comment, mut keys) = (Vec::<&str>::new(), Vec::<(&str, &str)>::new());
    let mut heading = "";
    let settle = |page: &mut String, comment: &mut Vec<&str>, keys: &mut Vec<(&str, &str)>| {
        for (key, value) in keys.iter() {
            let _ = writeln!(page, "**`{key}`** = `{value}`  ");
        }
        if !comment.is_empty() {
            let _ = writeln!(page, "{}", prose(comment));
        } else if !keys.is_empty() {
            page.push('\n');
        }
        comment.clear();
        keys.clear();
    };
    for line in text.lines().chain([""]) {
        let body = match line.strip_prefix('#') {
            Some(example) if !example.is_empty() && !example.starts_with([' ', '-']) => example,
            _ => line,
        };
        if let Some(told) = line.strip_prefix("# ").filter(|t| !t.starts_with("---")) {
            if !keys.is_empty() {
                settle(&mut page, &mut comment, &mut keys);
            }
            comment.push(told);
        } else if body.starts_with('[') {
            settle(&mut page, &mut comment, &mut keys);
            heading = body;
            if !body.starts_with("[[stage") && !body.starts_with("[[output") {
                let _ = writeln!(page, "## `{body}`\n");
            }
        } else if let Some((key, value)) = body.split_once(" = ") {
            if key == "type" && heading.starts_with("[[") {
                let _ = writeln!(page, "## `{heading}` with `type = {value}`\n");
            } else {
                keys.push((key, value));
            }
        } else if line.is_empty() || line == "#" {
            settle(&mut page, &mut comment, &mut keys);
        }
    }
    let mut page = page.trim_end().to_owned();
    page.push('\n');
    while page.contains("\n\n\n") {
        page = page.replace("\n\n\n", "\n\n");
    }
    assert_current("reference/configuration.md", &page);
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    }
}

fn names<T: Copy>(all: &[T], name: impl Fn(T) -> &'static str) -> Vec<String> {
    all.iter().map(|value| name(*value).to_owned()).collect()
}

/// Closed sets of label values, with what they are the reasons of.
fn sets() -> Vec<(&'static str, Vec<String>)> {
    let mut closed = names(&End::ALL, |e| e.as_str());
    closed.extend(LinkError::OWN_REASONS.map(str::to_owned));
    closed.extend(["shutdown", "accept_error"].map(str::to_owned));
    let mut lost = names(&Failure::ALL, |f| f.as_str());
    lost.extend(names(&Fault::ALL, |f| f.as_str()));
    let mut listener = ["oversized", guard::OVER_RATE, guard::FOREIGN_IDENTITY]
        .map(str::to_owned)
        .to_vec();
    listener.extend(names(&CompressReason::ALL, |r| r.as_str()));
    vec![
        (
            "`tapflow_connections_closed_total`: streams that ended",
            closed,
        ),
        (
            "`tapflow_connections_closed_total`: connections that were refused",
            names(&Refusal::ALL, |r| r.as_str()),
        ),
        (
            "`tapflow_connections_closed_total`: TLS handshakes that failed",
            names(&Fault::ALL, |f| f.as_str()),
        ),
        (
            "`tapflow_output_reconnects_total` (those of TLS for `tls:` alone)",
            lost,
        ),
        (
            "`tapflow_frames_dropped_total` at `listener:NAME`",
            listener,
        ),
        (
            "`tapflow_frames_dropped_total` at `output:NAME`",
            names(&OutputDrop::ALL, |r| r.as_str()),
        ),
        (
            "`tapflow_frames_dropped_total` at `stage:decode`, and `tapflow_decode_errors_total`",
            names(&DecodeReason::ALL, |r| r.as_str()),
        ),
        (
            "`tapflow_decode_errors_total` of the DNS message (such frames are kept)",
            names(&Malformed::ALL, |r| r.as_str())
                .iter()
                .map(|r| format!("dns_{r}"))
                .collect(),
        ),
    ]
}

/// Every reason there is.
pub(crate) fn reasons() -> Vec<String> {
    sets().into_iter().flat_map(|(_, values)| values).collect()
}

#[test]
fn the_metrics_reference_is_made_from_the_table_of_metrics() {
    let mut page = format!("# Metrics reference\n\n{NOTE}");
    page.push_str("`/metrics` in the Prometheus text format, version 0.0.4. Every series exists from the start, at zero; those of TLS\nwhere there is TLS. Beside these there are the usual `process_` metrics.\n\n| metric | kind | labels | meaning |\n|---|---|---|---|\n");
    for metric in telemetry::ALL {
        let labels: Vec<String> = metric.labels.iter().map(|l| format!("`{l}`")).collect();
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} |",
            metric.name,
            kind(metric.kind),
            labels.join(", "),
            metric.help
        );
    }
    page.push_str("\n## Values of `reason`\n\nThey are closed sets, whatever senders do.\n");
    for (what, values) in sets() {
        let values: Vec<String> = values.iter().map(|v| format!("`{v}`")).collect();
        let _ = writeln!(page, "\n**{what}**: {}.", values.join(", "));
    }
    assert_current("reference/metrics.md", &page);
}

#[test]
fn the_page_on_formats_is_made_from_their_declarations() {
    let mut page = format!("# Formats\n\n{NOTE}");
    page.push_str("What `tapflow read --format NAME` shows and outputs of type `file` and `stdout` write with `format = \"NAME\"`. Beside these there is\n`fstrm`: the frames as they came, in a file that every dnstap tool reads.\n\n| name | also called | ending | what |\n|---|---|---|---|\n");
    for kind in Format::kinds() {
        let aliases: Vec<String> = kind.aliases.iter().map(|a| format!("`{a}`")).collect();
        let _ = writeln!(
            page,
            "| [`{0}`](#{0}) | {1} | `.{2}` | {3} |",
            kind.name,
            aliases.join(", "),
            kind.extension,
            kind.about
        );
    }
    page.push_str("\nOne frame of `testdata/captures/kdig.fstrm` in each:\n");
    for kind in Format::kinds() {
        let _ = writeln!(page, "\n## {}\n", kind.name);
        let what = match kind.shape {
            Shape::Lines => "Text.",
            Shape::Pcap => "Packets.",
            Shape::Fstrm => "Frame Streams.",
        };
        let zone = if kind.has_local_times {
            " Times are the machine's, or UTC with `utc`."
        } else {
            ""
        };
        let _ = writeln!(page, "{}. {what}{zone}\n", kind.about.trim_end_matches('.'));
        let output = Command::new(env!("CARGO_BIN_EXE_tapflow"))
            .args([
                "read",
                "--utc",
                "--limit",
                "1",
                "--format",
                kind.name,
                "testdata/captures/kdig.fstrm",
            ])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("TZ", "UTC")
            .output()
            .expect("tapflow runs");
        assert!(output.status.success(), "{}: {output:?}", kind.name);
        let shown = String::from_utf8(output.stdout)
            .ok()
            .filter(|s| !s.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t')));
        match shown {
            // A long line is cut: its beginning says what it looks like.
            Some(text) => {
                page.push_str("```text\n");
                for line in text.lines() {
                    let cut: String = line.chars().take(200).collect();
                    let _ = writeln!(
                        page,
                        "{cut}{}",
                        if cut.len() < line.len() { " ..." } else { "" }
                    );
                }
                page.push_str("```\n");
            }
            None => page.push_str("It is not text, so it is not shown here.\n"),
        }
    }
    assert_current("formats.md", &page);
}
