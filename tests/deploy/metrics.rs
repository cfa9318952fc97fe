//! Rules, alerts and the dashboard ask for metrics that there are.

use std::collections::BTreeSet;

use serde_json::Value;
use tapflow::telemetry::{self, Kind};

use crate::{program, text};

/// Names of every series that a scrape may have, and of every label.
fn known() -> (BTreeSet<String>, BTreeSet<&'static str>) {
    let mut names = BTreeSet::new();
    let mut labels: BTreeSet<_> = ["instance", "job", "le"].into();
    for metric in telemetry::ALL {
        labels.extend(metric.labels);
        if metric.kind == Kind::Histogram {
            names.extend(["bucket", "sum", "count"].map(|part| format!("{}_{part}", metric.name)));
        } else {
            names.insert(metric.name.to_owned());
        }
    }
    // Those of the process come from the exporter.
    for line in telemetry::Telemetry::new().render().lines() {
        if let Some(name) = line
            .strip_prefix("# TYPE process_")
            .and_then(|l| l.split(' ').next())
        {
            names.insert(format!("process_{name}"));
        }
    }
    (names, labels)
}

/// The metric names that an expression asks for, and the labels that it names.
fn asked(expression: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut names, mut labels) = (BTreeSet::new(), BTreeSet::new());
    let (mut word, mut quoted, mut in_braces) = (String::new(), false, false);
    let mut by = false;
    let mut in_by = false;
    for c in expression.chars().chain([' ']) {
        if c == '"' {
            quoted = !quoted;
        }
        if quoted {
            continue;
        }
        if c.is_ascii_alphanumeric() || matches!(c, '_' | ':') {
            word.push(c);
            continue;
        }
        let done = std::mem::take(&mut word);
        if in_by || (in_braces && matches!(c, '=' | '!')) {
            if !done.is_empty() {
                labels.insert(done.clone());
            }
        } else if done.starts_with("tapflow") || done.starts_with("process_") || done == "up" {
            names.insert(done.clone());
        }
        by = done == "by"
            || (by && c == '(' && done.is_empty())
            || (by && done.is_empty() && c == ' ');
        match c {
            '{' => in_braces = true,
            '}' => in_braces = false,
            '(' if by => (in_by, by) = (true, false),
            ')' => in_by = false,
            _ => {}
        }
    }
    (names, labels)
}

fn assert_known(expression: &str, recorded: &BTreeSet<String>) -> usize {
    let (known, known_labels) = known();
    let (names, labels) = asked(expression);
    assert!(!names.is_empty(), "asks for nothing: {expression}");
    for name in &names {
        let there = known.contains(name) || recorded.contains(name) || name == "up";
        assert!(there, "there is no metric {name}: {expression}");
    }
    for label in &labels {
        assert!(
            known_labels.contains(label.as_str()),
            "there is no label {label}: {expression}"
        );
    }
    names.len()
}

#[test]
fn what_an_expression_asks_for_is_found() {
    let (names, labels) =
        asked("sum by (a, b) (rate(tapflow_x_total{c=~\"tapflow_no\"}[5m])) / on(z) up == 0");
    assert_eq!(
        names.into_iter().collect::<Vec<_>>(),
        ["tapflow_x_total", "up"]
    );
    assert_eq!(labels.into_iter().collect::<Vec<_>>(), ["a", "b", "c"]);
}

#[test]
fn every_query_of_the_dashboard_names_metrics_and_labels_that_exist() {
    let dashboard: Value =
        serde_json::from_str(&text("deploy/grafana/tapflow.json")).expect("JSON");
    let mut seen = BTreeSet::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().expect("a query");
            assert_known(expression, &BTreeSet::new());
            seen.extend(asked(expression).0);
        }
        let told =
            panel["type"] == "row" || panel["description"].as_str().is_some_and(|d| !d.is_empty());
        assert!(told, "{} does not say what it shows", panel["title"]);
    }
    let unseen: Vec<_> = telemetry::ALL
        .iter()
        .filter(|m| !seen.iter().any(|s| s.starts_with(m.name)))
        .map(|m| m.name)
        .collect();
    assert!(
        unseen.is_empty(),
        "the dashboard shows nothing of {unseen:?}"
    );
}

#[test]
fn every_rule_names_metrics_that_exist_and_every_alert_has_a_test() {
    let mut recorded = BTreeSet::new();
    let tests = text("deploy/prometheus/tests.yml");
    for file in ["records", "alerts"] {
        let documents =
            yaml_rust2::YamlLoader::load_from_str(&text(&format!("deploy/prometheus/{file}.yml")))
                .expect("YAML");
        for rule in documents[0]["groups"]
            .as_vec()
            .expect("groups")
            .iter()
            .flat_map(|g| g["rules"].as_vec().expect("rules"))
        {
            assert_known(rule["expr"].as_str().expect("a query"), &recorded);
            if let Some(name) = rule["record"].as_str() {
                recorded.insert(name.to_owned());
            }
            if let Some(name) = rule["alert"].as_str() {
                let fires = format!("alertname: {name}\n        exp_alerts:");
                assert!(tests.contains(&fires), "no test makes {name} fire");
            }
        }
    }
}

#[test]
fn prometheus_finds_the_rules_good_and_their_tests_pass() {
    for args in [
        &[
            "check",
            "rules",
            "deploy/prometheus/records.yml",
            "deploy/prometheus/alerts.yml",
        ][..],
        &["test", "rules", "deploy/prometheus/tests.yml"],
    ] {
        let Some(mut command) = program("promtool", args, "prometheus") else {
            return;
        };
        let output = command.output().expect("it runs");
        assert!(
            output.status.success(),
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
