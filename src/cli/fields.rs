//! `tapflow fields`: the fields that columns and templates can name, from the table they are read with.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;

use crate::cli::print_out;
use crate::fields::{Kind, specs};
use crate::format::table;

/// What `fields` is told: nothing.
#[derive(Debug, Clone, Args)]
#[command(
    about = "List the fields of a record that columns and templates can name",
    long_about = "List the fields of a record that columns and templates can name: each with the kind of its values and \
        a line about it, and what the kinds look like. csv and tsv have those with a * as columns when none are chosen.\n\n\
        What a record does not say is absent: empty in csv and tsv, - in a template.",
    after_long_help = "Examples:\n  \
        $ tapflow fields\n  \
        $ tapflow read --format csv --fields timestamp,qname,tag.registered_domain frames\n  \
        $ tapflow read --format '{timestamp} {qname} {rcode:-no response}' frames\n\n\
        Exit codes:\n  \
        0  done\n  \
        1  standard output cannot be written to\n  \
        2  the command line is wrong"
)]
pub struct FieldsArgs {}

/// Prints the list.
///
/// # Errors
/// When standard output cannot be written to.
pub fn run(_args: &FieldsArgs) -> anyhow::Result<ExitCode> {
    print_out(list().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// What each kind's values look like. A word is any number that has a name.
const KINDS: [(&str, &str); 12] = [
    ("address", "192.0.2.1 or 2001:db8::1"),
    ("base 16", "00ab: octets, two small hexadecimal digits each"),
    ("flag", "1 or 0"),
    (
        "name",
        "www.example. with its final dot and BIND's escapes: a space is \\032",
    ),
    ("network", "192.0.2.0/24"),
    ("number", "without a sign"),
    ("numbers", "one or several, a comma between two"),
    (
        "octets",
        "ASCII from space to ~ as it is, \\ as \\\\, any other octet as \\ and three decimal digits",
    ),
    ("seconds", "0.001500000, nine digits after the point"),
    ("text", "ASCII, as the field says"),
    (
        "time",
        "2026-01-02T03:04:05.000000001Z; 253402300800s+0ns, seconds since 1970 and nanoseconds as sent, where no calendar shows it",
    ),
    (
        "word",
        "a name such as NXDOMAIN; where the number has none TYPE65280, CLASS4242, or the number alone",
    ),
];

fn list() -> String {
    let mut out = String::new();
    let mut row = |mark: char, name: &str, kind: Kind, about: &str| {
        let _ = writeln!(out, "{mark} {name:<17} {:<8} {about}", kind.about());
    };
    for spec in specs() {
        let is_default = table::DEFAULT.contains(&spec.name);
        row(
            if is_default { '*' } else { ' ' },
            spec.name,
            spec.kind,
            spec.about,
        );
    }
    let about =
        "value of the word NAME=value in extra, where stages put it, such as tag.registered_domain";
    row(' ', "tag.NAME", Kind::Octets, about);
    out.push_str("\nKinds:\n");
    for (kind, about) in KINDS {
        let _ = writeln!(out, "  {kind:<8} {about}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_line_and_every_kind_is_explained() {
        let list = list();
        for spec in specs() {
            let line = list.lines().find(|line| {
                line.get(2..)
                    .is_some_and(|line| line.starts_with(&format!("{} ", spec.name)))
            });
            let line = line.unwrap_or_else(|| panic!("{}", spec.name));
            assert!(
                line.ends_with(spec.about) && line.contains(spec.kind.about()),
                "{line}"
            );
            assert!(
                KINDS.iter().any(|(kind, _)| *kind == spec.kind.about()),
                "{line}"
            );
            assert!(line.len() < 130, "{line}");
        }
        assert_eq!(
            list.lines().filter(|line| line.starts_with('*')).count(),
            table::DEFAULT.len()
        );
    }
}
