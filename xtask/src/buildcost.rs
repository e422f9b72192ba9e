//! `cargo xtask buildcost`: how many processor seconds a cold build of the program takes, crate by
//! crate.
//!
//! cargo calls the compiler through the program in `RUSTC_WRAPPER`, which is this program. If `LOG`
//! names a file, this program runs the compiler, reads the processor time of its ended children
//! from `/proc/self/stat`, and appends one line to the file. The time includes every thread of the
//! compiler, and the linker. The kernel gives the time in hundredths of a second, rounded down, so
//! a crate of many short runs looks a little cheaper.
//!
//! The total is measured in the same way around cargo. It is more than the sum over the crates,
//! because it includes cargo itself, the runs of build scripts (a C compiler, for example) and the
//! wrappers. The compilation of a build script counts for its crate.

use crate::child::{cargo, echo, status, target_folder};
use crate::json::{array, string};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

/// The environment variable with the file of finished compilations. If it is set, this program is a
/// wrapper of the compiler.
const LOG: &str = "TOBARI_BUILDCOST_LOG";
/// The program that `cargo run --release -- demo` builds.
const PROGRAM: &str = "tobari";
/// Linux counts processor time for `/proc` in hundredths of a second, whatever its own clock is.
const TICKS_PER_SECOND: f64 = 100.0;
/// The number of crates with a line of their own.
const SHOWN: usize = 25;

/// One run of the compiler.
#[derive(Debug, PartialEq)]
struct Unit {
    /// The package. Its library, its build script and its programs are separate units.
    name: String,
    seconds: f64,
    wall: f64,
}

impl Unit {
    fn line(&self) -> String {
        format!("{}\t{:.2}\t{:.2}\n", self.name, self.seconds, self.wall)
    }

    fn read(line: &str) -> Option<Self> {
        let mut parts = line.split('\t');
        let (name, seconds, wall) = (parts.next()?.to_owned(), parts.next()?, parts.next()?);
        let unit = Self { name, seconds: seconds.parse().ok()?, wall: wall.parse().ok()? };
        parts.next().is_none().then_some(unit)
    }
}

/// The whole build.
#[derive(Debug)]
struct Cost {
    /// Seconds by package, the most expensive first.
    crates: Vec<(String, f64)>,
    total: f64,
    wall: f64,
}

/// Runs the compiler if this process is its wrapper; returns the compiler's exit code.
pub(crate) fn wrapped() -> Option<ExitCode> {
    let log = std::env::var_os(LOG)?;
    let mut words = std::env::args_os().skip(1);
    let compiler = words.next()?;
    Some(match wrap(Path::new(&log), &compiler, &words.collect::<Vec<_>>()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    })
}

fn wrap(log: &Path, compiler: &OsString, words: &[OsString]) -> Result<ExitCode, String> {
    let started = Instant::now();
    let mut command = Command::new(compiler);
    let status = command.args(words).status().map_err(|error| format!("the compiler could not be run: {error}"))?;
    if let Some(crate_name) = crate_name(words) {
        let name = std::env::var("CARGO_PKG_NAME").unwrap_or(crate_name);
        let unit = Unit { name, seconds: children_seconds()?, wall: started.elapsed().as_secs_f64() };
        append(log, &unit.line()).map_err(|error| format!("cannot write the log of compilations: {error}"))?;
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// The crate to compile; none if cargo only asks the compiler about its properties.
fn crate_name(words: &[OsString]) -> Option<String> {
    let mut words = words.iter().filter_map(|word| word.to_str());
    words.find(|word| *word == "--crate-name")?;
    words.next().filter(|name| *name != "___").map(str::to_owned)
}

/// Appends a line with a single write, so that the lines of compilers that end together stay whole.
fn append(log: &Path, line: &str) -> std::io::Result<()> {
    OpenOptions::new().create(true).append(true).open(log)?.write_all(line.as_bytes())
}

/// The processor seconds of all ended children of this process, with their threads and their
/// children.
fn children_seconds() -> Result<f64, String> {
    let stat = std::fs::read_to_string("/proc/self/stat")
        .map_err(|error| format!("buildcost needs Linux: cannot read processor times from /proc/self/stat: {error}"))?;
    children_ticks(&stat)
        .map(|ticks| ticks / TICKS_PER_SECOND)
        .ok_or_else(|| format!("expected the fields of a process in /proc/self/stat, found `{}`", stat.trim()))
}

/// The sum of the fields 16 and 17 (`cutime` and `cstime`) of a line of `/proc/PID/stat`. The
/// second field is the program's name in brackets. The name may contain spaces and brackets, so
/// fields are counted from the last bracket on.
fn children_ticks(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(16 - 3);
    let (user, system): (u32, u32) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(f64::from(user) + f64::from(system))
}

/// Builds the program (or one package, to try this) into an empty folder, and prints the cost of
/// each crate.
///
/// # Errors
/// The reason why the measurement failed.
pub(crate) fn run(root: &Path, json: bool, package: Option<&str>) -> Result<(), String> {
    let cost = measure(root, json, package)?;
    println!("{}", if json { cost.json() } else { cost.text() });
    Ok(())
}

fn measure(root: &Path, quiet: bool, package: Option<&str>) -> Result<Cost, String> {
    let before = children_seconds()?;
    let folder = target_folder(root).join("buildcost");
    let log = folder.join("compilations.tsv");
    empty(&folder).map_err(|error| format!("cannot empty {}: {error}", folder.display()))?;
    let wrapper = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut command = cargo(root);
    command.args(["build", "--release"]).args(package.map_or(["--bin", PROGRAM], |name| ["--package", name]));
    command.env("CARGO_TARGET_DIR", &folder).env("RUSTC_WRAPPER", wrapper).env(LOG, &log);
    if !quiet {
        echo(&command);
    }
    let started = Instant::now();
    status(&mut command)?;
    let wall = started.elapsed().as_secs_f64();
    let total = children_seconds()? - before;
    let text = std::fs::read_to_string(&log).map_err(|error| format!("the compilations left no log: {error}"))?;
    Ok(Cost { crates: by_crate(&units(&text)?), total, wall })
}

fn empty(folder: &Path) -> std::io::Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)
}

fn units(log: &str) -> Result<Vec<Unit>, String> {
    let unit = |line: &str| Unit::read(line).ok_or_else(|| format!("expected a compilation, found `{line}`"));
    log.lines().map(unit).collect()
}

/// The sum for each package, the largest first, equal sums by name.
fn by_crate(units: &[Unit]) -> Vec<(String, f64)> {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for unit in units {
        *sums.entry(&unit.name).or_default() += unit.seconds;
    }
    let mut crates: Vec<(String, f64)> = sums.into_iter().map(|(name, seconds)| (name.to_owned(), seconds)).collect();
    crates.sort_by(|a, b| b.1.total_cmp(&a.1));
    crates
}

impl Cost {
    fn text(&self) -> String {
        let sum = |crates: &[(String, f64)]| crates.iter().map(|(_, seconds)| seconds).sum::<f64>();
        let (shown, rest) = self.crates.split_at(self.crates.len().min(SHOWN));
        let mut rows = shown.to_vec();
        if !rest.is_empty() {
            rows.push((format!("({} more crates)", rest.len()), sum(rest)));
        }
        rows.push(("(cargo and build scripts)".to_owned(), self.total - sum(&self.crates)));
        rows.push(("total".to_owned(), self.total));
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let mut text = format!("{:width$}  processor seconds\n", "crate");
        for (name, seconds) in rows {
            text.push_str(&format!("{name:width$}  {seconds:>17.2}\n"));
        }
        text.push_str(&format!("{:.1} seconds passed", self.wall));
        text
    }

    fn json(&self) -> String {
        let one = |(name, seconds): &(String, f64)| format!("{{\"name\":{},\"seconds\":{seconds:.2}}}", string(name));
        let crates = array(self.crates.iter().map(one));
        format!("{{\"total_seconds\":{:.2},\"wall_seconds\":{:.2},\"crates\":{crates}}}", self.total, self.wall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_childrens_times_are_read_behind_any_program_name() {
        let fields = "S 1 2 3 4 5 6 7 8 9 10 11 12 250 17 20 0 9 0 8 7";
        for name in ["cargo", "a b", ") 1 2 (", "x) S 1 2 3 4 5 6 7 8 9 10 11 12 999 999"] {
            assert_eq!(children_ticks(&format!("7 ({name}) {fields}\n")), Some(267.0), "{name}");
        }
        for broken in ["", "7 cargo S 1", "7 (cargo) S 1 2", "7 (cargo) S 1 2 3 4 5 6 7 8 9 10 11 12 x 17"] {
            assert_eq!(children_ticks(broken), None, "{broken}");
        }
    }

    #[test]
    fn this_process_has_a_time_of_its_children() {
        if Path::new("/proc/self/stat").exists() {
            let before = children_seconds().unwrap();
            Command::new("true").status().unwrap();
            assert!(before >= 0.0 && children_seconds().unwrap() >= before);
        }
    }

    #[test]
    fn lines_of_the_log_are_read_as_they_are_written_and_no_others() {
        let unit = Unit { name: "a-b".to_owned(), seconds: 12.25, wall: 3.5 };
        assert_eq!(unit.line(), "a-b\t12.25\t3.50\n");
        assert_eq!(units(&unit.line().repeat(2)).unwrap(), [Unit::read("a-b\t12.25\t3.50").unwrap(), unit]);
        for line in ["a-b", "a-b\t1.0", "a-b\tx\t1.0", "a\t1\t2\t3", ""] {
            assert!(units(&format!("{line}\n")).is_err(), "{line}");
        }
    }

    #[test]
    fn a_wrapped_compiler_leaves_its_line_and_its_exit_code() {
        if !Path::new("/proc/self/stat").exists() {
            return;
        }
        let log = std::env::temp_dir().join(format!("xtask-wrapped-{}", std::process::id()));
        for (program, code) in [("true", ExitCode::SUCCESS), ("false", ExitCode::from(1))] {
            let found = wrap(&log, &program.into(), &words("--crate-name a")).unwrap();
            assert_eq!(format!("{found:?}"), format!("{code:?}"), "{program}");
        }
        wrap(&log, &"true".into(), &words("-vV")).unwrap();
        let text = std::fs::read_to_string(&log).unwrap();
        std::fs::remove_file(&log).unwrap();
        assert_eq!(units(&text).unwrap().len(), 2);
        assert!(wrap(&log, &"no-such-compiler-of-tobari".into(), &[]).is_err());
    }

    #[test]
    fn lines_are_appended_to_what_is_there() {
        let log = std::env::temp_dir().join(format!("xtask-buildcost-{}", std::process::id()));
        for line in ["one\n", "two\n"] {
            append(&log, line).unwrap();
        }
        let text = std::fs::read_to_string(&log).unwrap();
        std::fs::remove_file(&log).unwrap();
        assert_eq!(text, "one\ntwo\n");
    }

    #[test]
    fn questions_to_the_compiler_are_no_compilations() {
        assert_eq!(crate_name(&words("--crate-name build_script_build --edition=2024")).unwrap(), "build_script_build");
        for line in ["-vV", "- --crate-name ___ --print=file-names", "--crate-name"] {
            assert_eq!(crate_name(&words(line)), None, "{line}");
        }
    }

    fn cost(crates: usize) -> Cost {
        let unit = |number: usize| {
            let seconds = f64::from(u32::try_from(number).unwrap());
            Unit { name: format!("c{number}"), seconds, wall: 1.0 }
        };
        let mut units: Vec<Unit> = (1..=crates).map(unit).collect();
        units.push(Unit { name: "c1".to_owned(), seconds: 0.5, wall: 0.1 });
        Cost { crates: by_crate(&units), total: 400.0, wall: 250.0 }
    }

    #[test]
    fn the_table_has_the_dearest_crates_the_rest_and_the_total() {
        let text = cost(27).text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "crate                      processor seconds");
        assert_eq!(lines[1], "c27                                    27.00");
        assert_eq!(
            lines[25..],
            [
                "c3                                      3.00",
                "(2 more crates)                         3.50",
                "(cargo and build scripts)              21.50",
                "total                                 400.00",
                "250.0 seconds passed",
            ]
        );
        assert!(!cost(25).text().contains("more crates"));
    }

    #[test]
    fn the_cost_as_json_has_every_crate() {
        let expected = r#"{"total_seconds":400.00,"wall_seconds":250.00,"crates":[{"name":"c2","seconds":2.00},{"name":"c1","seconds":1.50}]}"#;
        assert_eq!(cost(2).json(), expected);
    }
}
