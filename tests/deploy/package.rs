//! What `cargo deb` packs is there.

use crate::{path, text};

#[test]
fn every_file_of_the_debian_package_is_there_and_goes_where_the_unit_looks() {
    let manifest: toml::Table = text("Cargo.toml").parse().expect("TOML");
    let deb = &manifest["package"]["metadata"]["deb"];
    let mut to = Vec::new();
    for asset in deb["assets"].as_array().expect("assets") {
        let asset: Vec<&str> = asset
            .as_array()
            .expect("an asset")
            .iter()
            .map(|a| a.as_str().expect("text"))
            .collect();
        let (from, folder) = (asset[0], asset[1]);
        if from.starts_with("target/") {
            to.push(format!("/{folder}tapflow"));
            continue;
        }
        match from.rsplit_once('/') {
            Some((dir, pattern)) if pattern.starts_with('*') => {
                let ending = pattern.trim_start_matches('*');
                assert!(!crate::files(dir, &[ending]).is_empty(), "{from}");
            }
            _ => {
                assert!(path(from).is_file(), "{from}");
                let name = from.rsplit('/').next().expect("a name");
                to.push(if folder.ends_with('/') {
                    format!("/{folder}{name}")
                } else {
                    format!("/{folder}")
                });
            }
        }
    }
    let unit = text("deploy/tapflow.service");
    let command = unit
        .lines()
        .find_map(|l| l.strip_prefix("ExecStart="))
        .expect("a command");
    for place in command.split(' ').filter(|word| word.starts_with('/')) {
        assert!(
            to.iter().any(|t| t == place),
            "the package has no {place}: {to:?}"
        );
    }
    for file in deb["conf-files"].as_array().expect("conf-files") {
        assert!(
            to.iter().any(|t| Some(t.as_str()) == file.as_str()),
            "{file}"
        );
    }
    let scripts = deb["maintainer-scripts"].as_str().expect("a folder");
    let script = text(&format!("{scripts}postinst"));
    assert!(script.contains("systemd-sysusers tapflow.conf") && script.contains("#DEBHELPER#"));
    let ok = std::process::Command::new("sh")
        .arg("-n")
        .arg(path(&format!("{scripts}postinst")))
        .status()
        .expect("sh");
    assert!(ok.success());
}

#[test]
fn the_kernel_settings_are_ones_that_this_kernel_has() {
    for line in text("deploy/tapflow.sysctl.conf")
        .lines()
        .filter(|l| !l.starts_with('#') && !l.is_empty())
    {
        let (name, value) = line.split_once(" = ").expect("name = value");
        assert!(value.split(' ').all(|v| v.parse::<u64>().is_ok()), "{line}");
        let file = format!("/proc/sys/{}", name.replace('.', "/"));
        if std::path::Path::new("/proc/sys/net/core/somaxconn").exists() {
            // In a network namespace of its own some are not to be seen.
            let seen = std::path::Path::new(&file).exists() || name.starts_with("net.core.rmem");
            assert!(seen, "{file}");
        }
    }
}
