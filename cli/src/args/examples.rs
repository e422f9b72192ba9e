//! Checks every command in the documents against the command line as defined.

#![cfg(linux_64)]
#![allow(clippy::unwrap_used, reason = "a test")]

use super::Arguments;
use super::documents::{commands, documents, own, shell_lines};
use clap::{Command, CommandFactory};

/// Options and commands that need a feature, and whether this build has the feature.
const OPTIONAL: [(&str, bool); 5] = [
    ("--tls-acme", cfg!(feature = "acme")),
    ("--call-bus", cfg!(feature = "cascade")),
    ("--recipient", cfg!(feature = "age")),
    ("--identity", cfg!(feature = "age")),
    ("export", cfg!(feature = "parquet")),
];

#[test]
fn every_command_in_the_documents_is_one() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for (name, text) in documents() {
        let lines = shell_lines(&text);
        for words in lines.iter().flat_map(|line| commands(line)).filter_map(|words| own("tobari", &words)) {
            if OPTIONAL.iter().any(|(option, there)| !there && words.iter().any(|word| word.starts_with(option))) {
                continue;
            }
            seen += 1;
            if let Err(error) = Arguments::command().try_get_matches_from(&words) {
                wrong.push(format!("{name}: {}\n{error}", words.join(" ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 60, "{seen} commands were found");
}

#[test]
fn lines_are_parted_as_a_shell_does() {
    let text = "    x=1 tobari a 'b c' \\\n        d && /bin/tobari e # f\n\n```\ntobari 0.1.0\n$ echo 1 |\n  tobari --g \"\"; cat | tobari h\n```\n";
    let found: Vec<_> =
        shell_lines(text).iter().flat_map(|line| commands(line)).filter_map(|words| own("tobari", &words)).collect();
    let expected: [&[&str]; 4] =
        [&["tobari", "a", "b c", "d"], &["tobari", "e"], &["tobari", "--g", ""], &["tobari", "h"]];
    assert_eq!(found, expected);
    let redirected = commands("tobari i \"$(cat a)\" > b 2>&1 & tobari j >c <d e");
    let given: Vec<_> = redirected.iter().filter_map(|words| own("tobari", words)).collect();
    assert_eq!(given, [&["tobari", "i", "$(cat a)"][..], &["tobari", "j", "e"][..]]);
    assert_eq!(
        own("tobari", &["cargo", "run", "--release", "--", "demo"].map(str::to_owned)).unwrap(),
        ["tobari", "demo"]
    );
}

#[test]
fn a_command_is_the_program_that_cargo_or_its_name_says() {
    let words = |line: &str| commands(line).into_iter().next().unwrap();
    for line in ["cargo run --release -p tobari-bench -- call", "target/release/tobari-bench call"] {
        assert_eq!(own("tobari-bench", &words(line)).unwrap(), ["tobari-bench", "call"]);
        assert_eq!(own("tobari", &words(line)), None);
    }
    assert_eq!(own("tobari-bench", &words("cargo run --release -- demo")), None);
}

/// The commands that do something, by their words, and whether each has `--json`.
fn leaves(command: &Command, words: &str) -> Vec<(String, bool)> {
    let below: Vec<&Command> = command.get_subcommands().filter(is_shown).collect();
    let own = (words.to_owned(), command.get_arguments().any(|argument| argument.get_long() == Some("json")));
    let is_verb = below.is_empty() || command.get_positionals().next().is_some();
    let further = below.iter().flat_map(|below| leaves(below, format!("{words} {}", below.get_name()).trim()));
    Some(own).filter(|_| is_verb).into_iter().chain(further).collect()
}

/// Not clap's own `help`, and not a hidden command that only names its successor.
fn is_shown(command: &&Command) -> bool {
    command.get_name() != "help" && !command.is_hide_set()
}

#[test]
fn every_verb_prints_json_but_those_that_write_files_alone() {
    let leaves = leaves(&Arguments::command(), "");
    assert!(leaves.len() > 40, "{leaves:?}");
    let without: Vec<&str> = leaves.iter().filter(|leaf| !leaf.1).map(|leaf| leaf.0.as_str()).collect();
    assert_eq!(without, ["infer draw", "infer encrypt", "infer run", "completions", "man"]);
}
