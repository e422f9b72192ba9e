//! The command line of `cargo xtask`.

use crate::dist;
use crate::soak;
use crate::steps;
use crate::tools;

/// The text of `cargo xtask help`.
pub(crate) const USAGE: &str = "\
usage: cargo xtask test [--without PART,…] [--only STEP,…]
       cargo xtask check [--since REVISION]
       cargo xtask soak [NAME [--minutes M]]
       cargo xtask ct
       cargo xtask web
       cargo xtask book
       cargo xtask dist [--target NAME,…] [--only ARTEFACT,…]
       cargo xtask graph [--json]
       cargo xtask buildcost [--json]

test       runs every step that a change must pass and stops at the first that fails
check      runs format, layout, clippy and unit tests of what changed, for use while you work;
           compares the working tree with REVISION, else with where the branch left its upstream,
           else with HEAD
soak       runs one long run and writes its record; without a name, lists them
ct         looks for branches and addresses that depend on secrets: test --only ct
web        builds the browser's client into web/dist, where the server embeds it from
book       builds the book; mdBook is installed into the target folder first
dist       builds the artefacts into the build folder's dist, and tests each in an empty root;
           needs Linux on x86-64, python3 and the network
graph      prints the crates, their sizes, which of them each one uses, and circles of modules
buildcost  builds the program anew, in a folder of its own, and prints the processor seconds of
           each crate; needs Linux";

const VERBS: &str = "test, check, ct, soak, web, book, dist, graph or buildcost";

/// A well-formed call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// `test`, with the parts to leave out and the steps to run (empty: all).
    Test { without: Vec<String>, only: Vec<String> },
    /// `check`, with the revision to compare with.
    Check { since: Option<String> },
    /// `soak NAME`.
    Soak { name: String, minutes: u64 },
    /// `soak` without a name.
    ListSoaks,
    /// `web`.
    Web,
    /// `book`.
    Book,
    /// `dist`, with the targets and the artefacts (empty: all).
    Dist { targets: Vec<String>, only: Vec<String> },
    /// `graph`.
    Graph { json: bool },
    /// `buildcost`; with a package instead of the program, to try the measurement.
    BuildCost { json: bool, package: Option<String> },
    /// `help`.
    Help,
}

/// Reads the words after `cargo xtask`.
///
/// # Errors
/// The expected and the found words; the caller exits with 2.
pub(crate) fn parse(words: &[String]) -> Result<Call, String> {
    let mut words = words.iter().map(String::as_str);
    match words.next() {
        Some("test") => test(words),
        Some("check") => check(words),
        Some("ct") => match words.next() {
            None => Ok(Call::Test { without: Vec::new(), only: vec!["ct".to_owned()] }),
            Some(word) => Err(format!("expected nothing after ct, found `{word}`")),
        },
        Some("soak") => soak(words),
        Some(verb @ ("web" | "book")) => {
            let call = if verb == "web" { Call::Web } else { Call::Book };
            words.next().map_or(Ok(call), |word| Err(format!("expected nothing after {verb}, found `{word}`")))
        }
        Some("dist") => dist(words),
        Some("graph") => graph(words),
        Some("buildcost") => build_cost(words),
        Some("help" | "--help" | "-h") => Ok(Call::Help),
        Some(other) => Err(format!("expected {VERBS}, found `{other}`")),
        None => Err(format!("expected {VERBS}, found nothing")),
    }
}

fn test<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Call, String> {
    let (mut without, mut only) = (Vec::new(), Vec::new());
    while let Some(word) = words.next() {
        let (option, value) = option(word, &mut words)?;
        match option {
            "--without" => without.extend(names("part", &value, &tools::parts())?),
            "--only" => only.extend(names("step", &value, &steps::names())?),
            _ => return Err(format!("expected --without or --only, found `{option}`")),
        }
    }
    Ok(Call::Test { without, only })
}

fn check<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Call, String> {
    let mut since = None;
    while let Some(word) = words.next() {
        match option(word, &mut words)? {
            ("--since", revision) if revision.is_empty() => {
                return Err("expected a revision after --since, found ``".to_owned());
            }
            ("--since", revision) => since = Some(revision),
            (other, _) => return Err(format!("expected --since, found `{other}`")),
        }
    }
    Ok(Call::Check { since })
}

fn soak<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Call, String> {
    let Some(name) = words.next() else { return Ok(Call::ListSoaks) };
    let name = names("soak", name, &soak::names())?.remove(0);
    let mut minutes = soak::DEFAULT_MINUTES;
    while let Some(word) = words.next() {
        // its last line is JSON in any case
        if word == "--json" && name == "fleet" {
            continue;
        }
        let (option, value) = option(word, &mut words)?;
        if option != "--minutes" {
            return Err(format!("expected --minutes, found `{option}`"));
        }
        minutes = match value.parse() {
            Ok(number @ 1..=10_080) => number,
            _ => return Err(format!("expected --minutes from 1 to 10080 (a week), found `{value}`")),
        };
    }
    Ok(Call::Soak { name, minutes })
}

fn dist<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Call, String> {
    let (mut targets, mut only) = (Vec::new(), Vec::new());
    while let Some(word) = words.next() {
        let (option, value) = option(word, &mut words)?;
        match option {
            "--target" => targets.extend(names("target", &value, &dist::targets())?),
            "--only" => only.extend(names("artefact", &value, &dist::artefacts())?),
            _ => return Err(format!("expected --target or --only, found `{option}`")),
        }
    }
    Ok(Call::Dist { targets, only })
}

fn graph<'a>(words: impl Iterator<Item = &'a str>) -> Result<Call, String> {
    let mut json = false;
    for word in words {
        match word {
            "--json" => json = true,
            other => return Err(format!("expected --json, found `{other}`")),
        }
    }
    Ok(Call::Graph { json })
}

fn build_cost<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Call, String> {
    let (mut json, mut package) = (false, None);
    while let Some(word) = words.next() {
        if word == "--json" {
            json = true;
            continue;
        }
        match option(word, &mut words)? {
            ("--package", name) => package = Some(name),
            (other, _) => return Err(format!("expected --json, found `{other}`")),
        }
    }
    Ok(Call::BuildCost { json, package })
}

/// Splits `--option=value`, or takes the value from the next word.
fn option<'a>(word: &'a str, rest: &mut impl Iterator<Item = &'a str>) -> Result<(&'a str, String), String> {
    if !word.starts_with("--") {
        return Err(format!("expected an option, found `{word}`"));
    }
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, rest.next()),
    };
    value.map(|value| (name, value.to_owned())).ok_or_else(|| format!("expected a value after {name}, found nothing"))
}

/// Splits a comma list and checks each name.
fn names(what: &str, list: &str, known: &[&str]) -> Result<Vec<String>, String> {
    let check = |name: &str| {
        let found = known.contains(&name).then(|| name.to_owned());
        found.ok_or_else(|| format!("expected a {what} of {}, found `{name}`", known.join(", ")))
    };
    list.split(',').map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(line: &str) -> Result<Call, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    fn words(list: &[&str]) -> Vec<String> {
        list.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn well_formed_calls_are_understood() {
        assert_eq!(call("test"), Ok(Call::Test { without: vec![], only: vec![] }));
        let both = Call::Test { without: words(&["browser", "python"]), only: words(&["fmt", "layout"]) };
        assert_eq!(call("test --without browser,python --only=fmt,layout"), Ok(both));
        assert_eq!(call("check"), Ok(Call::Check { since: None }));
        for line in ["check --since main~2", "check --since=main~2"] {
            assert_eq!(call(line), Ok(Call::Check { since: Some("main~2".to_owned()) }));
        }
        assert_eq!(call("soak"), Ok(Call::ListSoaks));
        assert_eq!(call("soak fuzz"), Ok(Call::Soak { name: "fuzz".to_owned(), minutes: soak::DEFAULT_MINUTES }));
        assert_eq!(call("soak fleet --json").unwrap(), call("soak fleet").unwrap());
        assert!(call("soak fuzz --json").is_err());
        assert_eq!(call("soak fuzz --minutes 3"), Ok(Call::Soak { name: "fuzz".to_owned(), minutes: 3 }));
        assert_eq!((call("web"), call("book")), (Ok(Call::Web), Ok(Call::Book)));
        assert_eq!(call("ct"), Ok(Call::Test { without: Vec::new(), only: vec!["ct".to_owned()] }));
        assert!(call("ct now").is_err());
        assert!(call("book now").is_err());
        assert_eq!(call("dist"), Ok(Call::Dist { targets: vec![], only: vec![] }));
        let some = Call::Dist { targets: words(&["aarch64"]), only: words(&["archive", "deb"]) };
        assert_eq!(call("dist --target aarch64 --only archive,deb"), Ok(some));
        assert_eq!(call("graph"), Ok(Call::Graph { json: false }));
        assert_eq!(call("graph --json"), Ok(Call::Graph { json: true }));
        assert_eq!(call("buildcost --json"), Ok(Call::BuildCost { json: true, package: None }));
        let one = Call::BuildCost { json: false, package: Some("a".to_owned()) };
        assert_eq!(call("buildcost --package a"), Ok(one));
        assert_eq!(call("--help"), Ok(Call::Help));
    }

    #[test]
    fn malformed_calls_say_what_was_expected_and_found() {
        for (line, found) in [
            ("", "nothing"),
            ("tset", "`tset`"),
            ("test --with browser", "`--with`"),
            ("test --without", "nothing"),
            ("test --without brwser", "`brwser`"),
            ("test --without browser,", "``"),
            ("test --only nothing-such", "`nothing-such`"),
            ("test fmt", "`fmt`"),
            ("check main", "`main`"),
            ("check --since", "nothing"),
            ("check --since=", "``"),
            ("check --until main", "`--until`"),
            ("soak marathon", "`marathon`"),
            ("soak fuzz --minutes 0", "`0`"),
            ("soak fuzz --minutes many", "`many`"),
            ("soak fuzz --hours 1", "`--hours`"),
            ("web dist", "`dist`"),
            ("dist --target riscv64", "`riscv64`"),
            ("dist --only rpm", "`rpm`"),
            ("dist --fast 1", "`--fast`"),
            ("graph --xml", "`--xml`"),
            ("graph json", "`json`"),
            ("buildcost --debug=1", "`--debug`"),
            ("buildcost --package", "nothing"),
        ] {
            let error = call(line).unwrap_err();
            assert!(error.starts_with("expected ") && error.ends_with(found), "{line}: {error}");
        }
    }
}
