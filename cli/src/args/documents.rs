//! The commands that the documents tell readers to type, split into words. The tests of
//! `tobari-bench` include this file, too.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};

/// Every document with its text: the front page, the book, and the other documents.
pub(super) fn documents() -> Vec<(String, String)> {
    // the packages that run this test lie at different depths
    let up = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let root = up.skip(1).find(|folder| folder.join("ARCHITECTURE.md").exists()).unwrap();
    let mut paths = vec![root.join("README.md")];
    below(&root.join("docs"), &mut paths);
    below(&root.join("book/src"), &mut paths);
    // a decision record (ADR) shows the commands of its time
    paths.retain(|path| !path.starts_with(root.join("docs/adr")));
    paths.sort();
    let name = |path: &Path| path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), std::fs::read_to_string(path).unwrap())).collect()
}

/// The documents below a folder.
fn below(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// The complete shell lines of a document: indented lines, and lines after `$ ` in fences, each
/// with its continuation lines.
pub(super) fn shell_lines(text: &str) -> Vec<String> {
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

/// The words of each command of a line, split as a shell does, but without expansion. Redirections
/// are left out.
pub(super) fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut all, mut words, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let (mut quote, mut to_file, mut before) = (None, false, ' ');
    for letter in line.chars() {
        match (quote, letter) {
            (Some(mark), _) if letter == mark => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            // a number before the sign names a stream
            (None, '>' | '<') => {
                words.extend(word.take().filter(|word| word.parse::<u8>().is_err()));
                to_file = true;
            }
            (None, '&') if before == '>' => word = Some("&".to_owned()),
            (None, ' ') if to_file && word.is_none() => {}
            (None, ' ' | '|' | '&' | ';') => {
                words.extend(word.take().filter(|_| !std::mem::take(&mut to_file)));
                if letter != ' ' {
                    all.push(std::mem::take(&mut words));
                }
            }
            _ => word.get_or_insert_default().push(letter),
        }
        before = letter;
    }
    words.extend(word.filter(|_| !to_file));
    all.push(words);
    all
}

/// The command line of the program with this name, if this command runs the program.
pub(super) fn own(program: &str, words: &[String]) -> Option<Vec<String>> {
    let before = |word: &&str| matches!(*word, "sudo" | "do") || (word.contains('=') && !word.starts_with('-'));
    let words: Vec<&str> = words.iter().map(String::as_str).skip_while(before).collect();
    let (named, given) = match *words.first()? {
        "cargo" if words.get(1) == Some(&"run") => {
            let (cargo, given) = words.split_at(words.iter().position(|word| *word == "--")? + 1);
            let package = cargo.iter().skip_while(|word| !matches!(**word, "-p" | "--package")).nth(1);
            (package.map_or("tobari", |package| package), given)
        }
        path => (path.rsplit('/').next()?, &words[1..]),
    };
    // the one placeholder whose form is checked before it is used
    let fill = |word: &&str| if *word == "HEX" { "0".repeat(64) } else { (*word).to_owned() };
    (named == program).then(|| [program.to_owned()].into_iter().chain(given.iter().map(fill)).collect())
}
