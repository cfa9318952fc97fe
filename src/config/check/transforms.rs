//! Stages that change frames.

use super::path;
use crate::config::problem::Problem;
use crate::config::suggest;
use crate::dnstap::edit::Field;
use crate::stages::options::{SampleBy, StageOptions};
use crate::stages::tags as tag;
use crate::stages::transform_options::{
    AnonymiseMode, AnonymiseOptions, DropAnswersOptions, FieldsOptions, GeoipOptions, TagsOptions,
};
use crate::units::Span;

/// Stages that ask about an address after it was made anonymous.
pub(super) fn order(stages: &[StageOptions], problems: &mut Vec<Problem>) {
    let anonymise = |stage: &StageOptions| matches!(stage, StageOptions::Anonymise(_));
    let Some(first) = stages.iter().position(anonymise) else {
        return;
    };
    for (i, stage) in stages.iter().enumerate().skip(first + 1) {
        let asks = match stage {
            StageOptions::Filter(filter) => !filter.networks.is_empty(),
            StageOptions::Sample(sample) => sample.by == SampleBy::Client,
            StageOptions::Geoip(_) => true,
            _ => false,
        };
        if asks {
            let what =
                "it asks for the client's address, which a stage before it has made anonymous";
            problems.push(
                Problem::warning(format!("stage[{i}]"), what)
                    .fix("put it above the anonymise stage"),
            );
        }
    }
}

pub(super) fn anonymise(options: &AnonymiseOptions, place: &str, problems: &mut Vec<Problem>) {
    let key = |key: &str| format!("{place}.{key}");
    if options.addresses.is_empty() && !options.client_subnet {
        let what = "there is no address to make anonymous, so this stage does nothing";
        problems
            .push(Problem::error(key("addresses"), what).fix("the default is [\"query_address\"]"));
    }
    for (name, prefix, most) in [
        ("ipv4_prefix", options.ipv4_prefix, 32),
        ("ipv6_prefix", options.ipv6_prefix, 128),
    ] {
        if prefix > most {
            let what = format!("an address has {most} bits, and this leaves {prefix}");
            problems.push(Problem::error(key(name), what).fix(format!("use 0 to {most}")));
        } else if prefix == most && options.mode == AnonymiseMode::Truncate {
            let what = "this leaves addresses as they are";
            problems.push(Problem::warning(key(name), what).fix("use fewer bits"));
        }
    }
    let crypto_pan = options.mode == AnonymiseMode::CryptoPan;
    if crypto_pan && options.key_file.as_os_str().is_empty() {
        let what = "mode \"crypto_pan\" needs a key";
        problems.push(
            Problem::error(key("key_file"), what)
                .fix("`openssl rand -hex 32` makes one; let nobody else read its file"),
        );
    } else if crypto_pan {
        path(&key("key_file"), &options.key_file, problems);
        if !options.rotate.is_off() && options.rotate < Span::secs(1) {
            let what = format!(
                "a key is used for whole seconds, and {} is less",
                options.rotate
            );
            problems
                .push(Problem::error(key("rotate"), what).fix("\"1d\" takes a new key each day"));
        }
    } else if !options.key_file.as_os_str().is_empty() {
        let what = "mode \"truncate\" has no use for a key";
        problems.push(Problem::warning(key("key_file"), what).fix("mode = \"crypto_pan\" uses it"));
    }
}

pub(super) fn drop_answers(options: &DropAnswersOptions, place: &str, problems: &mut Vec<Problem>) {
    if options.sections.is_empty() {
        let what = "no section is named, so this stage does nothing";
        let fix = "the default is [\"answer\", \"authority\", \"additional\"]";
        problems.push(Problem::error(format!("{place}.sections"), what).fix(fix));
    }
}

pub(super) fn fields(options: &FieldsOptions, place: &str, problems: &mut Vec<Problem>) {
    let names = || Field::ALL.iter().map(|field| field.name());
    match (options.keep.is_empty(), options.drop.is_empty()) {
        (true, true) => {
            problems.push(Problem::error(place, "no field is named").fix("set `keep` or `drop`"))
        }
        (false, false) => problems.push(
            Problem::error(
                format!("{place}.drop"),
                "what is not in `keep` is dropped already",
            )
            .fix("set one of the two"),
        ),
        _ => {}
    }
    for (key, list) in [("keep", &options.keep), ("drop", &options.drop)] {
        let unknown = |name: &&String| Field::from_name(name).is_none();
        for (i, name) in list.iter().enumerate().filter(|(_, name)| unknown(name)) {
            let fix = match suggest::closest(name, names()) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => format!("they are {}", names().collect::<Vec<_>>().join(", ")),
            };
            let what = match name.as_str() {
                "type" => "\"type\" always stays, since without it a frame is no record".to_owned(),
                _ => format!("\"{name}\" is no dnstap field"),
            };
            problems.push(Problem::error(format!("{place}.{key}[{i}]"), what).fix(fix));
        }
    }
}

pub(super) fn tags(options: &TagsOptions, place: &str, problems: &mut Vec<Problem>) {
    if options.add.is_empty() {
        let what = "no tag is named, so this stage does nothing";
        problems
            .push(Problem::error(format!("{place}.add"), what).fix("write add = [\"site=ams1\"]"));
    }
    for (i, text) in options.add.iter().enumerate() {
        if tag::parse(text).is_none() {
            let what = format!("\"{text}\" is no tag");
            problems.push(
                Problem::error(format!("{place}.add[{i}]"), what)
                    .fix("write name=value, the name without spaces and `%`"),
            );
        }
    }
}

pub(super) fn geoip(options: &GeoipOptions, place: &str, problems: &mut Vec<Problem>) {
    if options.files.is_empty() {
        let what = "no MaxMind DB file is named";
        problems.push(
            Problem::error(format!("{place}.files"), what).fix(
                "write files = [\"/var/lib/GeoIP/GeoLite2-Country.mmdb\"], wherever yours are",
            ),
        );
    }
    if options.tags.is_empty() {
        let what = "no tag is named, so this stage does nothing";
        let fix = "the default is [\"country\", \"asn\", \"as_org\"]";
        problems.push(Problem::error(format!("{place}.tags"), what).fix(fix));
    }
    for (i, file) in options.files.iter().enumerate() {
        path(&format!("{place}.files[{i}]"), file, problems);
    }
}

#[cfg(test)]
mod tests {
    use crate::config::load;

    /// What is said of a configuration with these stages after a decode stage.
    fn said(stages: &str) -> String {
        let text = format!("[[stage]]\ntype = \"decode\"\n{stages}");
        load::text("t", &text).report(false)
    }

    #[test]
    fn each_setting_that_cannot_work_is_named_with_what_to_do() {
        for (stage, want) in [
            ("type = \"anonymise\"", ""),
            (
                "type = \"anonymise\"\naddresses = []\nclient_subnet = false",
                "does nothing",
            ),
            ("type = \"anonymise\"\nipv4_prefix = 33", "use 0 to 32"),
            ("type = \"anonymise\"\nipv6_prefix = 128", "as they are"),
            (
                "type = \"anonymise\"\nmode = \"crypto_pan\"",
                "openssl rand",
            ),
            (
                "type = \"anonymise\"\nmode = \"crypto_pan\"\nkey_file = \"/k\"\nrotate = \"5ms\"",
                "whole seconds",
            ),
            (
                "type = \"anonymise\"\nkey_file = \"/k\"",
                "no use for a key",
            ),
            ("type = \"drop_answers\"", ""),
            ("type = \"drop_answers\"\nsections = []", "does nothing"),
            (
                "type = \"fields\"\nkeep = [\"query_adress\"]",
                "did you mean \"query_address\"",
            ),
            (
                "type = \"fields\"\nkeep = [\"version\"]\ndrop = [\"extra\"]",
                "one of the two",
            ),
            ("type = \"fields\"\ndrop = [\"type\"]", "always stays"),
            ("type = \"fields\"", "set `keep` or `drop`"),
            ("type = \"tags\"\nadd = [\"site=ams1\"]", ""),
            ("type = \"tags\"\nadd = [\"site\"]", "name=value"),
            ("type = \"tags\"", "add = ["),
            ("type = \"lowercase\"", ""),
            ("type = \"registered_domain\"", ""),
            (
                "type = \"registered_domain\"\nlist = \"~/list\"",
                "home folder",
            ),
            ("type = \"geoip\"\nfiles = [\"/a.mmdb\"]", ""),
            ("type = \"geoip\"", "no MaxMind DB file"),
            (
                "type = \"geoip\"\nfiles = [\"/a.mmdb\"]\ntags = []",
                "does nothing",
            ),
            (
                "type = \"anonymise\"\n[[stage]]\ntype = \"geoip\"\nfiles = [\"/a.mmdb\"]",
                "above the anonymise stage",
            ),
            (
                "type = \"anonymise\"\n[[stage]]\ntype = \"sample\"\none_in = 2\nby = \"client\"",
                "above the anonymise stage",
            ),
        ] {
            let report = said(&format!("[[stage]]\n{stage}\n"));
            assert!(report.contains(want), "{stage}: {report}");
            assert_eq!(
                report.trim().is_empty(),
                want.is_empty(),
                "{stage}: {report}"
            );
        }
    }
}
