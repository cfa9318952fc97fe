//! The command line as a whole: help, completions, manual pages, misspelt words.

mod cli_support;

use std::fs;

use cli_support::run;

const COMMANDS: [&str; 10] = [
    "serve",
    "worker",
    "replay",
    "read",
    "convert",
    "fields",
    "check-config",
    "health",
    "completions",
    "man",
];

#[test]
fn help_of_each_command_is_a_short_manual_with_an_example_and_its_exit_codes() {
    let all = run(["--help"]);
    for command in COMMANDS {
        assert!(
            all.out.contains(&format!("\n  {command} ")),
            "{command}: {}",
            all.out
        );
        let help = run([command, "--help"]);
        assert_eq!(help.code, Some(0), "{help:?}");
        assert!(help.out.contains("Exit codes:"), "{}", help.out);
        assert!(
            help.out.contains("$ tapflow "),
            "{command} has an example: {}",
            help.out
        );
        let manual = help.out.split("Usage:").next().unwrap();
        assert!(
            manual.lines().count() > 2,
            "{command} says what it does: {manual}"
        );
    }
}

#[test]
fn misspelt_words_are_suggested() {
    for (args, want) in [
        (&["raed", "x"][..], "read"),
        (&["completion", "bash"], "completions"),
        (&["read", "--formt", "json", "x"], "--format"),
        (&["read", "--format", "jsno", "x"], "json"),
        (
            &[
                "replay",
                "x",
                "--to",
                "tcp:127.0.0.1:1",
                "--mode",
                "bidirektional",
            ],
            "bidirectional",
        ),
    ] {
        let ran = run(args);
        assert_eq!(ran.code, Some(2), "{args:?}: {ran:?}");
        assert!(
            (ran.err.contains("similar") || ran.err.contains("did you mean"))
                && ran.err.contains(want),
            "{args:?}: {ran:?}"
        );
        assert!(
            !ran.err.contains('\u{1b}'),
            "no colours off a terminal: {ran:?}"
        );
    }
}

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ran = run(["completions", shell]);
        assert_eq!(ran.code, Some(0), "{shell}: {ran:?}");
        for command in COMMANDS {
            assert!(ran.out.contains(command), "{shell}: {command}");
        }
    }
}

#[test]
fn every_command_has_its_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    let ran = run(["man", "--out", pages.to_str().unwrap()]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""), "{ran:?}");
    for command in COMMANDS {
        let page = fs::read_to_string(pages.join(format!("tapflow-{command}.1"))).unwrap();
        assert!(
            page.contains(".SH NAME") && page.contains("Exit codes:"),
            "{command}"
        );
        assert_eq!(run(["man", command]).out, page, "{command}");
    }
    assert_eq!(
        run(["man"]).out,
        fs::read_to_string(pages.join("tapflow.1")).unwrap()
    );
    assert_eq!(fs::read_dir(&pages).unwrap().count(), COMMANDS.len() + 1);
    let ran = run(["man", "raed"]);
    assert!(
        ran.code == Some(1) && ran.err.contains("there are serve, worker"),
        "{ran:?}"
    );
}

#[test]
fn what_only_the_command_sees_to_be_wrong_exits_like_any_wrong_command_line() {
    let capture = "testdata/captures/unbound.fstrm";
    for (args, want) in [
        (
            &["read", "--follow", capture, capture][..],
            "takes one FILE",
        ),
        (
            &[
                "replay",
                capture,
                "--to",
                "tcp:127.0.0.1:1",
                "--verify",
                "foo",
            ],
            "HOST:PORT",
        ),
    ] {
        let ran = run(args);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains(want), "{ran:?}");
    }
}
