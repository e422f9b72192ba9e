//! `cargo xtask check`: a quick check after each change, in a minute or two.
//!
//! Format and layout are checked for the whole tree, which takes seconds. clippy and unit tests run
//! only for packages with changed files. Packages that use a changed package, and files outside
//! packages, are left to `test`.

use crate::changes::Changes;
use crate::child::{cargo, pass};
use crate::layout;
use crate::layout::rooms::{ROOMS, Room, containing};
use crate::python;
use crate::steps;
use crate::summary::{Outcome, Report, outcome};
use std::path::Path;
use std::process::Command;

/// Files in the root that affect the build, the lints or the format of every package.
const OF_ALL: [&str; 9] = [
    "Cargo.toml",
    "Cargo.lock",
    "rust-toolchain.toml",
    "rust-toolchain",
    "clippy.toml",
    ".clippy.toml",
    "rustfmt.toml",
    ".rustfmt.toml",
    ".cargo/config.toml",
];

/// The most files outside rooms that the last line names.
const NAMED: usize = 3;

/// Runs the steps, stops at the first failure, and prints the summary. Returns whether all passed.
///
/// # Errors
/// git's failure to list the changes.
pub(crate) fn run(root: &Path, since: Option<&str>) -> Result<bool, String> {
    let changes = Changes::read(root, since)?;
    let selection = Selection::of(ROOMS, &changes.paths);
    println!("{}", selection.heading(&changes.base));
    let mut report = Report::default();
    report.step("fmt", || steps::fmt(root));
    report.step("layout", || outcome(layout::run(root)));
    if !selection.rooms.is_empty() {
        report.step("clippy", || outcome(pass(quick(root).args(selection.clippy(steps::features())))));
        report.step("unit-tests", || unit_tests(root, &selection));
    }
    print!("\n{}", report.table());
    selection.left_out().iter().for_each(|line| println!("{line}"));
    Ok(!report.failed())
}

/// cargo with incremental builds. The profile turns these off for `test`, which builds every
/// package once and would only pay for many small units. Here the same package is built after each
/// edit, and most of its units have not changed.
fn quick(root: &Path) -> Command {
    let mut command = cargo(root);
    command.env("CARGO_INCREMENTAL", "1");
    command
}

fn unit_tests(root: &Path, selection: &Selection) -> Outcome {
    let has = |room: &Room, source: &str| root.join(room.path).join(source).is_file();
    match selection.unit_tests(steps::features(), has) {
        Some(arguments) => outcome(pass(quick(root).args(arguments))),
        None => Outcome::NotRun("no changed package has unit tests".to_owned()),
    }
}

/// The rooms and files to check.
#[derive(Debug)]
struct Selection<'r> {
    /// The rooms with changed files, in the order of the table.
    rooms: Vec<&'r Room>,
    /// The changed files that are in no room.
    outside: Vec<String>,
}

impl<'r> Selection<'r> {
    fn of(rooms: &'r [Room], paths: &[String]) -> Self {
        let (of_all, single): (Vec<&String>, Vec<&String>) =
            paths.iter().partition(|path| OF_ALL.contains(&path.as_str()));
        let room = |path: &str| containing(rooms, path).map(|(room, _)| room.package);
        let changed: Vec<&str> = single.iter().filter_map(|path| room(path)).collect();
        let selected = |room: &&Room| !of_all.is_empty() || changed.contains(&room.package);
        let outside = single.into_iter().filter(|path| room(path).is_none()).cloned().collect();
        Self { rooms: rooms.iter().filter(selected).collect(), outside }
    }

    fn heading(&self, base: &str) -> String {
        let names: Vec<&str> = self.rooms.iter().map(|room| room.package).collect();
        match (names.is_empty(), self.outside.is_empty()) {
            (true, true) => format!("nothing changed since {base}: fmt and layout only"),
            (true, false) => format!("no package changed since {base}: fmt and layout only"),
            (false, _) => format!("changed since {base}: {}", names.join(", ")),
        }
    }

    /// The arguments for clippy.
    fn clippy(&self, features: &str) -> Vec<String> {
        let mut arguments = vec!["clippy".to_owned()];
        arguments.extend(packages(&self.rooms, features));
        arguments.extend(["--all-targets", "--", "-D", "warnings"].map(str::to_owned));
        arguments
    }

    /// The arguments for the unit tests; none if there are no tests. `has` says whether a room has
    /// a source file.
    fn unit_tests(&self, features: &str, has: impl Fn(&Room, &str) -> bool) -> Option<Vec<String>> {
        let rooms: Vec<&Room> = self.rooms.iter().copied().filter(|room| room.package != python::PACKAGE).collect();
        // cargo refuses `--lib` where no package has a library
        let targets = [("--lib", "src/lib.rs"), ("--bins", "src/main.rs")];
        let found = targets.into_iter().filter(|(_, source)| rooms.iter().any(|room| has(room, source)));
        let found: Vec<String> = found.map(|(target, _)| target.to_owned()).collect();
        if found.is_empty() {
            return None;
        }
        let mut arguments = vec!["test".to_owned()];
        arguments.extend(packages(&rooms, features));
        arguments.extend(found);
        Some(arguments)
    }

    /// One line for each kind of change that neither clippy nor the unit tests cover.
    fn left_out(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.rooms.iter().any(|room| room.package == python::PACKAGE) {
            lines.push(format!("{}: no unit tests; `cargo xtask test --only python` tests it", python::PACKAGE));
        }
        if let Some(files) = shortened(&self.outside) {
            let them = if self.outside.len() == 1 { "it" } else { "them" };
            lines.push(format!("{files}: no room, so no clippy or unit tests; `cargo xtask test` checks {them}"));
        }
        lines
    }
}

/// `-p` for each room, and the features of these rooms: cargo refuses a feature of a package that
/// is not selected.
fn packages(rooms: &[&Room], features: &str) -> Vec<String> {
    let mut arguments: Vec<String> = rooms.iter().flat_map(|room| ["-p", room.package]).map(str::to_owned).collect();
    let selected = |feature: &&str| {
        feature.split_once('/').is_some_and(|(package, _)| rooms.iter().any(|room| room.package == package))
    };
    let own: Vec<&str> = features.split(',').filter(selected).collect();
    if !own.is_empty() {
        arguments.extend(["--features".to_owned(), own.join(",")]);
    }
    arguments
}

/// The first files, and the number of further ones; none if there is no file.
fn shortened(files: &[String]) -> Option<String> {
    let (named, more) = files.split_at(files.len().min(NAMED));
    let text = named.join(", ");
    match (named.len(), more.len()) {
        (0, _) => None,
        (_, 0) => Some(text),
        (_, more) => Some(format!("{text} and {more} more")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::rooms::{PLAIN, TOY};

    const FEATURES: &str = "house/sound,house/light,house-core/wide,other/house";

    fn select<'r>(rooms: &'r [Room], paths: &[&str]) -> Selection<'r> {
        Selection::of(rooms, &paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>())
    }

    fn names<'r>(selection: &Selection<'r>) -> Vec<&'r str> {
        selection.rooms.iter().map(|room| room.package).collect()
    }

    fn library(room: &Room, source: &str) -> bool {
        source == if ["house", "chores"].contains(&room.package) { "src/main.rs" } else { "src/lib.rs" }
    }

    #[test]
    fn a_file_marks_the_innermost_room_around_it() {
        let nested =
            [Room { package: "outer", path: "web", ..PLAIN }, Room { package: "inner", path: "web/client", ..PLAIN }];
        assert_eq!(names(&select(&nested, &["web/client/src/lib.rs"])), ["inner"]);
        assert_eq!(names(&select(&nested, &["web/src/lib.rs"])), ["outer"]);
        assert_eq!(names(&select(&nested, &["web/client/a.rs", "web/client/b.rs", "web/a.rs"])), ["outer", "inner"]);
    }

    #[test]
    fn a_file_of_no_room_marks_none_and_is_named() {
        let selection = select(TOY, &["cli/src/main.rs", "docs/a.md", "crates/core.rs", "fuzz/Cargo.toml"]);
        assert_eq!(names(&selection), ["house"]);
        assert_eq!(selection.outside, ["docs/a.md", "crates/core.rs", "fuzz/Cargo.toml"]);
        let line = |paths: &[&str]| select(TOY, paths).left_out().concat();
        assert_eq!(
            line(&["docs/a.md"]),
            "docs/a.md: no room, so no clippy or unit tests; `cargo xtask test` checks it"
        );
        assert!(line(&["a", "b", "c", "d", "e"]).starts_with("a, b, c and 2 more: no room"));
        assert!(line(&["a", "b", "c"]).starts_with("a, b, c: no room"));
        assert_eq!(line(&["cli/src/main.rs"]), "");
    }

    #[test]
    fn a_setting_in_the_root_marks_every_room() {
        for path in OF_ALL {
            let selection = select(TOY, &[path]);
            assert_eq!((selection.rooms.len(), selection.outside.len()), (TOY.len(), 0), "{path}");
        }
        assert_eq!(names(&select(TOY, &["crates/core/Cargo.toml"])), ["house-core"]);
    }

    #[test]
    fn the_heading_says_what_changed_or_that_nothing_did() {
        let heading = |paths: &[&str]| select(TOY, paths).heading("HEAD (1234567)");
        assert_eq!(heading(&[]), "nothing changed since HEAD (1234567): fmt and layout only");
        assert_eq!(heading(&["a.md"]), "no package changed since HEAD (1234567): fmt and layout only");
        assert_eq!(heading(&["xtask/a", "cli/a"]), "changed since HEAD (1234567): house, chores");
    }

    #[test]
    fn clippy_has_the_changed_packages_and_their_features_only() {
        let clippy = |paths: &[&str]| select(TOY, paths).clippy(FEATURES).join(" ");
        assert_eq!(clippy(&["xtask/a"]), "clippy -p chores --all-targets -- -D warnings");
        assert_eq!(
            clippy(&["cli/a", "xtask/a"]),
            "clippy -p house -p chores --features house/sound,house/light --all-targets -- -D warnings"
        );
        assert!(clippy(&["cli/a", "crates/core/a"]).contains("--features house/sound,house/light,house-core/wide "));
    }

    #[test]
    fn unit_tests_are_those_of_the_targets_that_there_are() {
        let tests = |paths: &[&str]| select(TOY, paths).unit_tests(FEATURES, library).map(|words| words.join(" "));
        assert_eq!(tests(&["xtask/a"]).unwrap(), "test -p chores --bins");
        assert_eq!(tests(&["crates/core/a"]).unwrap(), "test -p house-core --features house-core/wide --lib");
        assert_eq!(tests(&["crates/machine/a", "xtask/a"]).unwrap(), "test -p house-machine -p chores --lib --bins");
        assert_eq!(tests(&[]), None);
    }

    #[test]
    fn the_python_module_has_clippy_and_no_unit_tests() {
        let rooms = [Room { package: python::PACKAGE, path: "py", ..PLAIN }, Room { path: "a", package: "a", ..PLAIN }];
        let alone = select(&rooms, &["py/src/lib.rs"]);
        assert!(alone.clippy("").contains(&python::PACKAGE.to_owned()));
        assert_eq!(alone.unit_tests("", |_, _| true), None);
        assert!(alone.left_out().concat().contains("--only python"));
        let both = select(&rooms, &["py/src/lib.rs", "a/src/lib.rs"]);
        assert_eq!(both.unit_tests("", library).unwrap().join(" "), "test -p a --lib");
    }
}
