//! The command reference of the book, generated from the program's clap definitions.
//!
//! `TOBARI_RENEW_REFERENCE=1 cargo test -p tobari-cli --features full --lib reference` rewrites the
//! pages. They show a build with the feature `full`.

#![allow(clippy::unwrap_used, reason = "a test")]

use super::Arguments;
use crate::config;
use clap::{Arg, Command, CommandFactory};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const FOLDER: &str = "book/src/reference";
/// Pages, and the commands on each.
const PAGES: [(&str, &[&str]); 8] = [
    ("call", &["call"]),
    ("search", &["search"]),
    ("infer", &["infer"]),
    ("sense", &["sense"]),
    ("seal", &["seal", "unseal"]),
    ("serve", &["serve", "config", "healthcheck", "backup", "restore"]),
    ("plan", &["plan"]),
    ("others", &["demo", "info", "completions", "man"]),
];
/// A value of an option that only some machines can build.
const LEFT_OUT: &str = "openssl";
const MADE: &str = "<!-- Made from the program's own definitions: see cli/src/args/reference.rs. -->\n\n";

fn about(command: &Command) -> String {
    command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default()
}

/// Adds the full stop that clap removes from a text.
fn ended(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() || text.ends_with(['.', ':', ']']) { text.to_owned() } else { format!("{text}.") }
}

/// `-o, --output <FILE>`, or `<FILE>…`.
fn name(argument: &Arg) -> String {
    let values = argument.get_value_names().unwrap_or_default().iter().map(|name| format!("<{name}>"));
    let values = values.collect::<Vec<_>>().join(" ");
    let takes = argument.get_action().takes_values();
    let values =
        if takes && values.is_empty() { format!("<{}>", argument.get_id().as_str().to_uppercase()) } else { values };
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let words: Vec<String> = short.into_iter().chain(long).collect();
    if words.is_empty() {
        return values;
    }
    let names = words.join(", ");
    if takes { format!("{names} {values}") } else { names }
}

fn line(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let (help, shown) = match help.split_once("[default:") {
        Some((help, default)) => (help.to_owned(), Some(default.trim().trim_end_matches(']').to_owned())),
        None => (help, None),
    };
    let mut line = format!("- `{}`: {}", name(argument), ended(&help.replace('\n', " ")));
    let values: Vec<_> =
        argument.get_possible_values().into_iter().filter(|value| value.get_name() != LEFT_OUT).collect();
    if argument.get_action().takes_values() && !values.is_empty() {
        line += " Values:";
        for value in &values {
            let help = value.get_help().map(|help| format!(": {}", ended(&help.to_string()))).unwrap_or_default();
            write!(line, "\n  - `{}`{help}", value.get_name()).unwrap();
        }
        line += "\n\n ";
    }
    let given = argument.get_default_values().iter().map(|value| value.to_string_lossy().into_owned());
    let given: Vec<String> = given.filter(|value| !value.is_empty() && !argument.is_hide_default_value_set()).collect();
    if !given.is_empty() && argument.get_action().takes_values() {
        write!(line, " Default: `{}`.", given.join(" ")).unwrap();
    }
    if let Some(default) = shown {
        write!(line, " Default: {}.", default.trim_end_matches('.')).unwrap();
    }
    if let Some(variable) = argument.get_env().filter(|_| !argument.is_hide_env_set()) {
        write!(line, " Environment: `{}`.", variable.to_string_lossy()).unwrap();
    }
    wrapped(line.trim_end())
}

/// Wraps to at most 100 columns; continuation lines of a list item are indented.
fn wrapped(text: &str) -> String {
    let mut lines = Vec::new();
    for paragraph in text.split('\n') {
        let indent = paragraph.len() - paragraph.trim_start().len();
        let hanging = " ".repeat(indent + if paragraph.trim_start().starts_with("- ") { 2 } else { 0 });
        let mut current = " ".repeat(indent);
        for word in paragraph.split_whitespace() {
            let is_new = current.trim().is_empty();
            if !is_new && current.chars().count() + 1 + word.chars().count() > 100 {
                lines.push(std::mem::replace(&mut current, hanging.clone()));
            }
            if !current.trim().is_empty() {
                current.push(' ');
            }
            current += word;
        }
        lines.push(current.trim_end().to_owned());
    }
    lines.join("\n")
}

fn section(command: &Command, words: &str, depth: usize, page: &mut String) {
    let below: Vec<&Command> = command.get_subcommands().filter(|verb| is_shown(verb)).collect();
    let text = about(command).split("\n\n").map(|part| wrapped(&ended(&part.replace('\n', " ")))).collect::<Vec<_>>();
    write!(page, "{} {words}\n\n{}\n\n", "#".repeat(depth), text.join("\n\n")).unwrap();
    let does_something = below.is_empty() || command.get_positionals().next().is_some();
    if does_something {
        let usage = command.clone().bin_name(words).render_usage().to_string();
        write!(page, "```text\n{}\n```\n\n", usage.trim_start_matches("Usage: ")).unwrap();
        if let Some(examples) = command.get_after_help() {
            let examples = examples.to_string().replace("Examples:\n", "");
            write!(page, "Examples:\n\n{}\n\n", examples.trim_end()).unwrap();
        }
        let shown =
            |argument: &&Arg| !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str());
        let mut headings: Vec<String> = Vec::new();
        let heading = |argument: &Arg| match argument.get_help_heading() {
            Some(heading) => heading.to_owned(),
            None if argument.is_positional() => "Arguments".to_owned(),
            None => "Options".to_owned(),
        };
        let arguments: Vec<&Arg> = command.get_arguments().filter(shown).collect();
        for found in arguments.iter().map(|argument| heading(argument)) {
            if !headings.contains(&found) {
                headings.push(found);
            }
        }
        headings.sort_by_key(|name| (name != "Arguments", name != "Options"));
        for name in headings {
            write!(page, "**{name}**\n\n").unwrap();
            for argument in arguments.iter().filter(|argument| heading(argument) == name) {
                writeln!(page, "{}", line(argument)).unwrap();
            }
            page.push('\n');
        }
    }
    for verb in below {
        section(verb, &format!("{words} {}", verb.get_name()), depth + 1, page);
    }
}

fn is_shown(command: &Command) -> bool {
    command.get_name() != "help" && !command.is_hide_set()
}

/// Every page with its text.
fn pages() -> Vec<(PathBuf, String)> {
    let mut command = Arguments::command();
    command.build();
    let mut all = Vec::new();
    let mut index = format!(
        "# Commands\n\n{MADE}`tobari COMMAND --help` prints the same text. With `--json`, a command prints one JSON\n\
         object a line on standard output, and an error as `{{\"error\":\"…\",\"status\":1}}`. Text for people goes to\n\
         standard error. The exit status is 0 after success, 1 after a failure, and 2 after a wrong call.\n\n\
         Two options work with every command: `--log LEVEL` (`off`, `error`, `warn`, `info`, `debug`) writes\n\
         a log to standard error, and `--log-format json` writes the log as JSON lines. Their environment\n\
         variables are `TOBARI_LOG` and `TOBARI_LOG_FORMAT`.\n\n| command | purpose |\n|---|---|\n"
    );
    for (name, verbs) in PAGES {
        let mut page = String::new();
        for verb in verbs {
            let verb = command.find_subcommand(verb).unwrap();
            let words = format!("tobari {}", verb.get_name());
            let purpose = verb.get_about().map(ToString::to_string).unwrap_or_default();
            writeln!(index, "| [`{words}`]({name}.md) | {} |", purpose.trim_end_matches('.')).unwrap();
            section(verb, &words, 1, &mut page);
        }
        // a page has one title
        let text = match verbs {
            [_] => page.replacen("\n\n", &format!("\n\n{MADE}"), 1),
            _ => format!("# {}\n\n{MADE}{}", title(verbs), page.replace("\n# ", "\n## ").replacen("# ", "## ", 1)),
        };
        all.push((PathBuf::from(format!("commands/{name}.md")), format!("{}\n", text.trim_end())));
    }
    all.push((PathBuf::from("commands/index.md"), index));
    all.push((PathBuf::from("configuration.md"), configuration(&command)));
    all
}

fn title(verbs: &[&str]) -> String {
    let names: Vec<String> = verbs.iter().map(|verb| format!("tobari {verb}")).collect();
    names.join(", ")
}

fn configuration(command: &Command) -> String {
    let mut page = format!(
        "# Configuration of the server\n\n{MADE}`tobari serve --config tobari.toml` reads settings from a file. \
         The table `[serve]` has the options\nof `tobari serve` by their long names. `log` and `log-format` stand \
         outside of the table. Every\noption has an environment variable, too.\n\nThe command line takes precedence over the \
         environment, the environment over the file. `tobari config\ncheck` prints every setting with its source.\n\n\
         ```toml\nlog = \"warn\"\n\n[serve]\naddr = \"0.0.0.0:7610\"\ntls-self-signed = true\nmax-rooms = 100\n\
         search = [\"panel.tsi\", \"codes.tsi\"]\n```\n\nA misspelt name in the file or in the environment is an error. \
         [`tobari serve`](commands/serve.md)\nexplains each option.\n\n| setting | environment variable |\n|---|---|\n"
    );
    for (option, _) in config::serve_options(command) {
        writeln!(page, "| `{option}` | `{}` |", config::variable_of(&option)).unwrap();
    }
    page
}

#[test]
fn the_reference_of_the_book_is_made_of_the_commands() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let renew = std::env::var_os("TOBARI_RENEW_REFERENCE").is_some();
    for (path, text) in pages() {
        let path = root.join(FOLDER).join(path);
        if renew {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
        } else {
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            let how = "run TOBARI_RENEW_REFERENCE=1 cargo test -p tobari-cli --features full --lib reference";
            assert!(found == text, "{}: not what the commands say: {how}", path.display());
        }
    }
}

#[test]
fn every_command_is_on_a_page() {
    let command = Arguments::command();
    let listed: Vec<&str> = PAGES.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
    for verb in command.get_subcommands().filter(|verb| is_shown(verb)) {
        assert!(listed.contains(&verb.get_name()), "{}", verb.get_name());
    }
}
