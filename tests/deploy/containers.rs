//! Images, compose file and manifests: they parse, and what they run is what the program takes.

use std::fs;
use std::path::Path;

use clap::Parser as _;
use tapflow::cli::Cli;
use tapflow::config::load;
use yaml_rust2::{Yaml, YamlLoader};

use crate::{files, path, text};

fn assert_taken<'a>(args: impl IntoIterator<Item = &'a str>) {
    let args: Vec<&str> = args.into_iter().collect();
    if let Err(error) = Cli::try_parse_from(std::iter::once("tapflow").chain(args.iter().copied()))
    {
        panic!("{args:?}: {error}");
    }
}

#[test]
fn every_yaml_file_parses_and_holds_something() {
    let mut seen = 0;
    for file in files("deploy", &[".yml", ".yaml"]) {
        let text = fs::read_to_string(&file).expect("a file");
        let documents =
            YamlLoader::load_from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        assert!(
            !documents.is_empty() && documents.iter().all(|d| d.as_hash().is_some()),
            "{}",
            file.display()
        );
        seen += 1;
    }
    assert!(seen >= 8, "{seen} files");
}

#[test]
fn configurations_for_containers_load_and_check_clean() {
    let mut checked = 0;
    let clean = |name: &str, text: &str| {
        let loaded = load::text(name, text);
        assert!(loaded.problems.is_empty(), "{}", loaded.report(false));
    };
    clean("docker/tapflow.toml", &text("deploy/docker/tapflow.toml"));
    for file in files("deploy/kubernetes", &[".yaml"]) {
        for document in
            YamlLoader::load_from_str(&fs::read_to_string(&file).expect("a file")).expect("YAML")
        {
            if let Some(config) = document["data"]["tapflow.toml"].as_str() {
                clean(&file.display().to_string(), config);
                checked += 1;
            }
        }
    }
    assert_eq!(checked, 2);
}

#[test]
fn the_image_runs_the_program_as_nobody_special_and_asks_after_its_health() {
    let file = text("deploy/docker/Dockerfile");
    let line = |start: &str| {
        file.lines()
            .rfind(|l| l.starts_with(start))
            .unwrap_or_else(|| panic!("no {start}"))
    };
    assert!(line("FROM").contains("distroless/static"));
    let user = line("USER").trim_start_matches("USER ");
    assert!(
        user.split(':')
            .all(|id| id.parse::<u32>().is_ok_and(|id| id > 0)),
        "{user}"
    );
    let list = |line: &str| -> Vec<String> {
        let at = line.find('[').expect("a list");
        serde_json::from_str(&line[at..]).expect("a list of words")
    };
    let health = list(line("HEALTHCHECK"));
    assert_eq!(health[0], list(line("ENTRYPOINT"))[0]);
    assert_taken(health[1..].iter().map(String::as_str));
    let command = list(line("CMD"));
    assert_taken(command.iter().map(String::as_str));
    let copied = line("COPY deploy").split(' ').nth(1).expect("a file");
    assert!(path(copied).is_file());
    assert!(
        command.contains(
            &line("COPY deploy")
                .split(' ')
                .nth(2)
                .expect("a place")
                .to_owned()
        )
    );
}

#[test]
fn the_compose_file_mounts_files_that_are_there_and_waits_for_the_collectors_health() {
    let folder = path("deploy/docker");
    let documents = YamlLoader::load_from_str(&text("deploy/docker/compose.yml")).expect("YAML");
    let services = &documents[0]["services"];
    let mut mounted = 0;
    for (name, service) in services.as_hash().expect("services") {
        for volume in service["volumes"].as_vec().into_iter().flatten() {
            let from = volume
                .as_str()
                .expect("a volume")
                .split(':')
                .next()
                .expect("a part");
            if from.starts_with('.') {
                assert!(folder.join(from).exists(), "{name:?}: {from}");
                mounted += 1;
            }
        }
    }
    assert!(mounted >= 6, "{mounted}");
    assert_eq!(
        services["unbound"]["depends_on"]["tapflow"]["condition"].as_str(),
        Some("service_healthy")
    );
    let build = &services["tapflow"]["build"];
    let context = folder.join(build["context"].as_str().expect("a context"));
    assert!(
        context
            .join(build["dockerfile"].as_str().expect("a file"))
            .is_file()
    );
    // Both sides name one socket.
    let socket = "/run/tapflow/dnstap.sock";
    assert!(
        text("deploy/docker/unbound.conf").contains(socket)
            && text("deploy/docker/tapflow.toml").contains(socket)
    );
}

#[test]
fn the_manifests_pods_may_do_little_and_run_what_the_program_takes() {
    let mut seen = 0;
    for file in files("deploy/kubernetes", &[".yaml"]) {
        for document in
            YamlLoader::load_from_str(&fs::read_to_string(&file).expect("a file")).expect("YAML")
        {
            let spec = &document["spec"]["template"]["spec"];
            for container in spec["containers"].as_vec().into_iter().flatten() {
                if container["name"].as_str() != Some("tapflow") {
                    continue;
                }
                let args = container["args"].as_vec().expect("arguments");
                assert_taken(args.iter().map(|a| a.as_str().expect("a word")));
                let context = &container["securityContext"];
                assert_eq!(context["allowPrivilegeEscalation"], Yaml::Boolean(false));
                assert_eq!(context["readOnlyRootFilesystem"], Yaml::Boolean(true));
                assert_eq!(context["capabilities"]["drop"][0].as_str(), Some("ALL"));
                let root = [
                    &context["runAsNonRoot"],
                    &spec["securityContext"]["runAsNonRoot"],
                ];
                assert!(root.contains(&&Yaml::Boolean(true)), "{}", file.display());
                assert_eq!(
                    container["readinessProbe"]["httpGet"]["path"].as_str(),
                    Some("/readyz")
                );
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 2);
    assert!(Path::new(&path("SECURITY.md")).is_file());
}
