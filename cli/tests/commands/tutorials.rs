//! The tutorials of the book, typed as they are written: each command succeeds, and prints what the
//! page shows.

use crate::support::shell::Shell;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tobari_host::testing::not_run;

/// A command, and the lines of its output that the page shows.
struct Step {
    line: String,
    shown: Vec<String>,
}

/// The commands of a page. An indented block is a command; the next fence before a heading shows
/// its output. In a fence, text after `$ ` is a command. A section with the title `Extra` needs a
/// browser and is skipped.
fn steps(page: &str) -> Vec<Step> {
    let (mut steps, mut fence, mut typed, mut extra) = (Vec::<Step>::new(), None::<Vec<String>>, false, false);
    let mut ends_at = None::<String>;
    for line in page.lines() {
        if line.starts_with("```") {
            match fence.take() {
                None => fence = Some(Vec::new()),
                Some(shown) if typed && !shown.is_empty() => {
                    steps.last_mut().unwrap().shown = shown;
                    typed = false;
                }
                Some(_) => {}
            }
            continue;
        }
        let command = match &mut fence {
            Some(shown) => match line.strip_prefix("$ ") {
                Some(command) => Some(command),
                // a line that continues the command before it
                None if shown.is_empty() && is_open(&steps) => Some(line),
                None => {
                    shown.push(line.to_owned());
                    None
                }
            },
            None => {
                extra = if line.starts_with("## ") { line.starts_with("## Extra") } else { extra };
                typed &= !line.starts_with('#');
                line.strip_prefix("    ").filter(|_| !extra)
            }
        };
        let Some(command) = command else { continue };
        let continues = ends_at.is_some() || is_open(&steps);
        if ends_at.as_deref() == Some(command.trim()) {
            ends_at = None;
        } else if let Some((_, end)) = command.split_once("<<") {
            ends_at = Some(end.trim_matches(['\'', '"']).to_owned());
        }
        match steps.last_mut().filter(|_| continues) {
            Some(step) => step.line += &format!("\n{command}"),
            None => steps.push(Step { line: command.to_owned(), shown: Vec::new() }),
        }
        typed = true;
    }
    steps
}

/// Whether the last command continues in the next line.
fn is_open(steps: &[Step]) -> bool {
    steps.last().is_some_and(|step| step.line.ends_with('\\'))
}

/// Words after a number that differs between runs.
const UNITS: [&str; 6] = ["s", "ms", "packets", "ticks", "bytes", "received"];

/// A line without parts that differ between runs: digests, keys, words of keys, times and amounts.
fn masked(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let unit = |at: usize| {
        words.get(at + 1).is_some_and(|next| UNITS.contains(&next.trim_end_matches([',', '.', ';', ':', ')'])))
    };
    let mask = |(at, word): (usize, &&str)| {
        if word.parse::<f64>().is_ok() && unit(at) {
            return "N".to_owned();
        }
        // the words that members compare
        let bare = word.trim_end_matches([';', ',', '.']);
        let syllables: Vec<&str> = bare.split('-').collect();
        if syllables.len() == 4 && syllables.iter().all(|part| part.len() == 5) {
            return word.replace(bare, "W");
        }
        // a link, without its secret
        let word = word.split_once('#').map_or(*word, |(before, _)| before);
        let mut shown = String::new();
        for part in word.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric()) {
            let group = part.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric());
            let hex = group.len() >= 6 && group.bytes().all(|byte| byte.is_ascii_hexdigit());
            shown += &if hex { part.replacen(group, "H", 1) } else { part.to_owned() };
        }
        // sealed files are named by 2 and 30 digits
        match shown.find("/H.seal") {
            Some(at) if at >= 2 => format!("{}H{}", &shown[..at - 2], &shown[at..]),
            _ => shown,
        }
    };
    words.iter().enumerate().map(mask).collect::<Vec<_>>().join(" ")
}

/// A line of a page is longer than this if the page had to wrap it.
const BROKEN: usize = 40;

/// Whether a line of the page is among the printed lines; `…` stands for any text. A long line may
/// be a part of the output.
fn is_printed(shown: &str, printed: &[String]) -> bool {
    let parts: Vec<String> = shown.split('…').map(masked).collect();
    let fits = |line: &String| {
        let mut rest = line.as_str();
        let first = parts.first().is_none_or(|part| rest.starts_with(part.as_str()));
        first && parts.iter().all(|part| rest.split_once(part.as_str()).map(|(_, after)| rest = after).is_some())
    };
    let is_part = shown.len() > BROKEN && printed.join(" ").contains(&masked(shown));
    masked(shown).is_empty() || is_part || printed.iter().any(fits)
}

/// Windows of sensors last half a minute: frames of one window are sent at its beginning.
fn wait_for_a_window() {
    let seconds = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() % 30;
    while seconds() > 20 {
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn type_page(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../book/src/tutorials").join(name);
    let steps = steps(&std::fs::read_to_string(path).unwrap());
    assert!(steps.len() >= 5, "{} commands", steps.len());
    let mut shell = Shell::new();
    // a page shows the output of several commands at once
    let mut text = String::new();
    for Step { line, shown } in steps {
        if line.starts_with("for ") && line.contains("tobari sense encrypt") {
            wait_for_a_window();
        }
        let typed = shell.type_line(&line);
        assert!(typed.ok, "{name}: $ {line}\n{}", typed.text);
        text += &typed.text;
        let printed: Vec<String> = text.lines().map(masked).collect();
        for expected in &shown {
            let found = is_printed(expected, &printed);
            assert!(found, "{name}: $ {line}\nthe page shows: {expected}\nprinted:\n{text}");
        }
        if !shown.is_empty() {
            text.clear();
        }
    }
}

#[test]
fn the_tutorial_of_calls_works_as_it_is_written() {
    if std::process::Command::new("perl").arg("-v").output().is_err() {
        return not_run("the_tutorial_of_calls_works_as_it_is_written", "no perl on PATH, which makes the voices");
    }
    type_page("call.md");
}

#[test]
fn the_tutorial_of_the_search_works_as_it_is_written() {
    type_page("search.md");
}

#[test]
fn the_tutorial_of_inference_works_as_it_is_written() {
    type_page("infer.md");
}

#[test]
fn the_tutorial_of_sensors_works_as_it_is_written() {
    type_page("sense.md");
}

#[test]
fn the_tutorial_of_sealing_works_as_it_is_written() {
    type_page("seal.md");
}

#[test]
fn a_page_is_taken_apart_into_commands_and_what_they_print() {
    let page = "# T\n\nText:\n\n    a 1\n    b \\\n      2\n\n```\nseen\n```\n\n## H\n\n```\nlog\n```\n\n    c <<END\n    x\n    END\n\n\
                ```\n$ d \\\n  e\nout\n```\n\n## Extra: f\n\n    g\n";
    let found: Vec<(String, Vec<String>)> = steps(page).into_iter().map(|step| (step.line, step.shown)).collect();
    let step = |line: &str, shown: &[&str]| (line.to_owned(), shown.iter().map(|&line| line.to_owned()).collect());
    let expected =
        [step("a 1", &[]), step("b \\\n  2", &["seen"]), step("c <<END\nx\nEND", &[]), step("d \\\n  e", &["out"])];
    assert_eq!(found, expected);
}

#[test]
fn what_differs_from_run_to_run_is_masked_and_nothing_else() {
    let printed = |line: &str| vec![masked(line)];
    for (shown, line) in [
        ("sealed 6 files, 29 bytes, in 0.06 s", "sealed 6 files, 29 bytes, in 1.00 s"),
        ("file 7 3c/5e55c2b405b33f9cf5519ba7d0099b.seal a", "file 7 aa/00112233445566778899aabbccddee.seal a"),
        ("words of all: mugur-likuz-zabid-gazin; own", "words of all: zijoh-hibur-juduz-fozap; own"),
        ("http://h/call/room-dd5435d8470c1292#AQA", "http://h/call/room-0011223344556677#zz"),
        ("(SHA-256 of the page's files: 3f526780c51c…)", "(SHA-256 of the page's files: aabbccddeeff00)"),
    ] {
        assert!(is_printed(shown, &printed(line)), "{shown}\n{line}\n{}\n{}", masked(shown), masked(line));
    }
    for (shown, line) in
        [("match, count 421", "match, count 420"), ("no match", "match"), ("mean: 21.2 (in…)", "mean: 21.3 (in 2)")]
    {
        assert!(!is_printed(shown, &printed(line)), "{shown}\n{line}");
    }
}
