//! Pages, links, and the lines for DNS servers.

use std::path::Path;

use tapflow::cli::servers::advice;
use tapflow::config::load;

use crate::{blocks, pages, source};

/// What a heading is called in a link.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn every_page_is_in_the_summary_and_every_link_leads_somewhere() {
    let pages = pages();
    let text = |name: &str| pages.iter().find(|(n, _)| n == name).map(|(_, text)| text);
    let summary = text("SUMMARY.md").expect("a summary");
    for (name, _) in pages.iter().filter(|(n, _)| n != "SUMMARY.md") {
        assert!(
            summary.contains(&format!("({name})")),
            "{name} is not in the summary"
        );
    }
    let mut links = 0;
    for (name, page) in &pages {
        let folder = Path::new(name).parent().expect("a folder");
        for target in page
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            if target.starts_with("http") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let to = if file.is_empty() {
                name.clone()
            } else {
                folder.join(file).display().to_string()
            };
            let found = text(&to).unwrap_or_else(|| panic!("{name}: there is no page {to}"));
            if !heading.is_empty() {
                let there = found
                    .lines()
                    .filter(|l| l.starts_with('#'))
                    .any(|l| anchor(l.trim_start_matches('#').trim()) == heading);
                assert!(there, "{name}: {to} has no heading {heading}");
            }
            links += 1;
        }
    }
    assert!(links > 30, "{links} links");
    assert!(source().join("../book.toml").is_file());
}

#[test]
fn each_servers_page_has_the_lines_that_serve_prints_for_it() {
    let socket = Path::new("/run/tapflow/dnstap.sock");
    let pages = pages();
    let mut seen = 0;
    for advice in advice(Some(socket), Some(("127.0.0.1", 6000))) {
        let heading = format!("# {}\n", advice.server);
        let (name, page) = pages
            .iter()
            .find(|(name, page)| name.starts_with("servers/") && page.starts_with(&heading))
            .unwrap_or_else(|| panic!("no page on {}", advice.server));
        // Line breaks within a line of the advice are the page's own.
        let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let there = blocks(page)
            .iter()
            .any(|(_, block)| squeeze(block) == squeeze(&advice.lines));
        assert!(there, "{name} lacks\n{}", advice.lines);
        seen += 1;
    }
    assert_eq!(seen, 8);
}

#[test]
fn every_configuration_in_the_book_loads_and_checks_clean() {
    let mut seen = 0;
    for (name, page) in pages() {
        for (_, block) in blocks(&page).iter().filter(|(info, _)| info == "toml") {
            let loaded = load::text(&name, block);
            assert!(
                loaded.problems.is_empty(),
                "{}\n{block}",
                loaded.report(false)
            );
            seen += 1;
        }
    }
    assert!(seen >= 6, "{seen} configurations");
}

#[test]
fn reasons_that_the_book_explains_are_ones_that_are_counted() {
    let known = crate::generate::reasons();
    let (_, page) = pages()
        .into_iter()
        .find(|(n, _)| n == "troubleshooting.md")
        .expect("the page");
    let mut seen = 0;
    for word in page.split('`').skip(1).step_by(2) {
        let plain = word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        if plain
            && ["tls_", "refused_"]
                .iter()
                .any(|start| word.starts_with(start))
        {
            let setting = tapflow::transport::options::ListenerOptions::default();
            let settings = toml::Table::try_from(setting).expect("a table");
            let is_setting =
                settings.contains_key(word) || ["tls_ca", "tls_server_name"].contains(&word);
            assert!(is_setting || known.contains(&word.to_owned()), "{word}");
            seen += 1;
        }
    }
    assert!(seen > 15, "{seen}");
    let explained = tapflow::transport::tls::Fault::ALL
        .iter()
        .filter(|f| page.contains(f.as_str()));
    assert!(explained.count() >= 12);
}
