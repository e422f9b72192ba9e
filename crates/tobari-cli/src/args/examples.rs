//! What the documents tell people to type, held to the command line as it is.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
#![allow(clippy::unwrap_used, reason = "a test")]

use super::Arguments;
use clap::{Command, CommandFactory};
use std::path::Path;

/// Options that a program built without a feature does not have.
const OPTIONAL: [(&str, bool); 4] = [
    ("--tls-acme", cfg!(feature = "acme")),
    ("--call-bus", cfg!(feature = "cascade")),
    ("--recipient", cfg!(feature = "age")),
    ("--identity", cfg!(feature = "age")),
];

/// Every document with its text.
fn documents() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = docs.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    paths.push(root.join("README.md"));
    paths.sort();
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    paths.iter().map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), read(path))).collect()
}

/// Lines of a shell, whole: indented ones, and in fences those after `$ `, with what continues them.
fn shell_lines(text: &str) -> Vec<String> {
    let (mut found, mut fence, mut open) = (Vec::<String>::new(), false, false);
    for line in text.lines() {
        if line.starts_with("```") {
            (fence, open) = (!fence, false);
            continue;
        }
        let begins = if fence { line.strip_prefix("$ ") } else { line.strip_prefix("    ") };
        let Some(line) = begins.or_else(|| open.then_some(line)) else { continue };
        let (line, more) = match line.strip_suffix('\\') {
            Some(line) => (line, true),
            None => (line, line.ends_with('|') || line.ends_with("&&")),
        };
        match found.last_mut().filter(|_| open) {
            Some(last) => *last += line,
            None => found.push(line.to_owned()),
        }
        open = more;
    }
    found
}

/// The words of each command of a line, as a shell parts them; no expansion, and what is redirected is left out.
fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut all, mut words, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let mut quote = None;
    for letter in line.chars() {
        match (quote, letter) {
            (Some(mark), _) if letter == mark => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, ' ' | '|' | '&' | ';') => {
                words.extend(word.take());
                if letter != ' ' {
                    all.push(std::mem::take(&mut words));
                }
            }
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    all.push(words);
    all
}

/// What a command gives this program, if it is one of its own.
fn own(words: &[String]) -> Option<Vec<String>> {
    let before = |word: &&str| matches!(*word, "sudo" | "do") || (word.contains('=') && !word.starts_with('-'));
    let words: Vec<&str> = words.iter().map(String::as_str).skip_while(before).collect();
    let given = match *words.first()? {
        "cargo" if words.get(1) == Some(&"run") => &words[words.iter().position(|word| *word == "--")? + 1..],
        program if program.rsplit('/').next() == Some("tobari") => &words[1..],
        _ => return None,
    };
    // the one placeholder whose form is checked before it is used
    let fill = |word: &&str| if *word == "HEX" { "0".repeat(64) } else { (*word).to_owned() };
    Some(["tobari".to_owned()].into_iter().chain(given.iter().map(fill)).collect())
}

#[test]
fn every_command_in_the_documents_is_one() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for (name, text) in documents() {
        let lines = shell_lines(&text);
        for words in lines.iter().flat_map(|line| commands(line)).filter_map(|words| own(&words)) {
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
        shell_lines(text).iter().flat_map(|line| commands(line)).filter_map(|words| own(&words)).collect();
    let expected: [&[&str]; 4] =
        [&["tobari", "a", "b c", "d"], &["tobari", "e"], &["tobari", "--g", ""], &["tobari", "h"]];
    assert_eq!(found, expected);
    assert_eq!(own(&["cargo", "run", "--release", "--", "demo"].map(str::to_owned)).unwrap(), ["tobari", "demo"]);
}

/// Verbs without verbs below them, by their words, and whether they have `--json`.
fn leaves(command: &Command, words: &str) -> Vec<(String, bool)> {
    let below: Vec<&Command> = command.get_subcommands().filter(|command| command.get_name() != "help").collect();
    let own = (words.to_owned(), command.get_arguments().any(|argument| argument.get_long() == Some("json")));
    let is_verb = below.is_empty() || command.get_positionals().next().is_some();
    let further = below.iter().flat_map(|below| leaves(below, format!("{words} {}", below.get_name()).trim()));
    Some(own).filter(|_| is_verb).into_iter().chain(further).collect()
}

#[test]
fn every_verb_prints_json_but_those_that_the_list_of_commands_names() {
    let leaves = leaves(&Arguments::command(), "");
    assert!(leaves.len() > 40, "{leaves:?}");
    let without: Vec<String> = leaves.iter().filter(|leaf| !leaf.1).map(|leaf| format!("`{}`", leaf.0)).collect();
    let (_, list) = documents().into_iter().find(|document| document.0 == "commands.md").unwrap();
    let said = list.lines().find(|line| line.starts_with("Each takes `--json` and `--help`")).unwrap();
    let named: Vec<&str> = said.split('`').skip(1).step_by(2).filter(|name| !name.starts_with('-')).collect();
    assert_eq!(without, named.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>(), "{said}");
}
