//! The steps of `cargo xtask test`, in their order.

use crate::book;
use crate::child::{cargo, pass, pass_reading, target_folder};
use crate::companions;
use crate::device;
use crate::layout;
use crate::layout::rooms::{Browser, ROOMS};
use crate::package;
use crate::python::Environment;
use crate::summary::{Outcome, Report, outcome};
use crate::tally::{Tally, not_run};
use crate::tools::{TOOLS, Tool, bring, on_path, provide};
use crate::web;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

const WASM: &str = "wasm32-unknown-unknown";

/// The environment variable with the file to which a test without its data appends its line.
const NOT_RUN_LOG: &str = "TOBARI_NOT_RUN_LOG";

struct Step {
    name: &'static str,
    /// The tool that it needs beyond Rust and a C compiler; `--without` leaves the step out.
    tool: Option<&'static Tool>,
    run: fn(&mut Run) -> Outcome,
}

/// The state that the steps share.
struct Run {
    root: PathBuf,
    tally: Tally,
    log: PathBuf,
}

static STEPS: &[Step] = &[
    Step { name: "fmt", tool: None, run: |run| fmt(&run.root) },
    Step { name: "layout", tool: None, run: |run| outcome(layout::run(&run.root)) },
    Step { name: "clippy", tool: None, run: clippy },
    Step { name: "tests", tool: None, run: |run| run.tests("--all-targets") },
    Step { name: "doctests", tool: None, run: |run| run.tests("--doc") },
    Step { name: "features", tool: None, run: plain_features },
    Step { name: "examples", tool: None, run: examples },
    Step { name: "docs", tool: None, run: docs },
    Step { name: "book", tool: None, run: |run| book::step(&run.root) },
    Step { name: "device", tool: None, run: |run| device::step(&run.root) },
    Step { name: "wasm", tool: None, run: wasm },
    Step { name: "wasm-bits", tool: None, run: wasm_bits },
    Step { name: "web", tool: None, run: |run| web::step(&run.root) },
    Step { name: "browser", tool: Some(&TOOLS[0]), run: browser },
    Step { name: "ct", tool: None, run: ct },
    Step { name: "package", tool: None, run: |run| package::step(&run.root) },
    Step { name: "fuzz", tool: None, run: fuzz },
    Step { name: "python", tool: Some(&TOOLS[1]), run: python },
    Step { name: "deny", tool: None, run: deny },
    Step { name: "advisories", tool: None, run: advisories },
];

/// Parts of the tests with names of their own. They run only with `--only`, because the other steps
/// together run their tests anyway.
static PARTS: &[Step] = &[Step { name: "faults", tool: None, run: faults }];

/// The feature arguments for a build of the whole workspace, which is built once with all of them.
fn with_features() -> [&'static str; 2] {
    ["--features", features()]
}

/// The optional features that can be tested on any machine. OpenSSL's module is in the list if its
/// headers are installed.
pub(crate) fn features() -> &'static str {
    const ANYWHERE: &str = "tobari-cli/full,tobari-cli/paper,tobari-enclave/snp,tobari-enclave/tdx";
    const WITH_OPENSSL: &str = "tobari-cli/full,tobari-cli/openssl,tobari-cli/paper,tobari-enclave/snp,tobari-enclave/tdx,tobari-bench/openssl";
    if has_openssl() { WITH_OPENSSL } else { ANYWHERE }
}

/// The default features of the packages that have some, but without `paper`.
const PLAIN: &str = "tobari-cli/mls,tobari-bench/mls,tobari-wasm/mls,tobari-wasm/ask,tobari-wasm/sense";

/// Whether programs can be built with OpenSSL here.
fn has_openssl() -> bool {
    static FOUND: LazyLock<bool> = LazyLock::new(|| {
        let asked = Command::new("pkg-config").args(["--exists", "openssl"]).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    });
    *FOUND
}

/// The names `--only` takes.
pub(crate) fn names() -> Vec<&'static str> {
    STEPS.iter().chain(PARTS).map(|step| step.name).collect()
}

/// Runs the steps (those in `only`, or all if it is empty), stops at the first failure, and prints
/// the summary.
///
/// Returns whether all passed.
pub(crate) fn run(root: &Path, without: &[String], only: &[String]) -> bool {
    let mut run = Run { root: root.to_owned(), tally: Tally::default(), log: start_log(root) };
    let data = if std::env::var_os("TOBARI_DATA").is_some() { "set" } else { "not set: what needs it says NOT RUN" };
    println!("TOBARI_DATA is {data}");
    println!("a test that cannot run appends `name: reason` to the file named by {NOT_RUN_LOG}");
    let mut report = Report::default();
    let parts = PARTS.iter().filter(|_| !only.is_empty());
    for step in STEPS.iter().chain(parts).filter(|step| only.is_empty() || only.iter().any(|name| name == step.name)) {
        report.step(step.name, || attempt(step, &mut run, without));
    }
    summarise(&report, &run, without);
    !report.failed()
}

fn attempt(step: &Step, run: &mut Run, without: &[String]) -> Outcome {
    match step.tool {
        Some(tool) if without.iter().any(|part| part == tool.part) => Outcome::NotRun("--without".to_owned()),
        Some(tool) => provide(tool).map_or_else(Outcome::Failed, |_| (step.run)(run)),
        None => (step.run)(run),
    }
}

fn summarise(report: &Report, run: &Run, without: &[String]) {
    let not_run = not_run(&std::fs::read_to_string(&run.log).unwrap_or_default());
    print!("\n{}", report.table());
    for tool in TOOLS.iter().filter(|tool| !STEPS.iter().any(|step| step.tool.is_some_and(|t| t.part == tool.part))) {
        let asked = without.iter().any(|part| part == tool.part);
        println!("{}: NOT RUN ({}nothing needs it yet)", tool.part, if asked { "--without; " } else { "" });
    }
    if !has_openssl() {
        println!("feature openssl: NOT RUN (pkg-config finds no openssl)");
    }
    not_run.iter().for_each(|line| println!("NOT RUN: {line}"));
    println!("{}", run.tally.line(&not_run));
}

/// An empty log for this run, so that lines of earlier runs do not count. If the log cannot be
/// made, no lines are counted.
fn start_log(root: &Path) -> PathBuf {
    let folder = target_folder(root);
    let log = folder.join("tobari-not-run.log");
    let made = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&log, ""));
    if let Err(error) = made {
        eprintln!("cannot start the log of tests not run: {error}");
    }
    log
}

/// Whether all code of the repository is formatted.
pub(crate) fn fmt(root: &Path) -> Outcome {
    let workspace = pass(cargo(root).args(["fmt", "--all", "--check"]));
    let others = [FUZZ, device::GLUE, device::BOARD].map(|manifest| ["fmt", "--manifest-path", manifest, "--check"]);
    outcome(others.iter().fold(workspace, |before, words| before.and_then(|()| pass(cargo(root).args(words)))))
}

fn clippy(run: &mut Run) -> Outcome {
    outcome(pass(
        cargo(&run.root)
            .arg("clippy")
            .args(["--workspace", "--all-targets"])
            .args(with_features())
            .args(["--", "-D", "warnings"]),
    ))
}

impl Run {
    /// `--no-fail-fast`, so that the last line counts every test.
    fn tests(&mut self, which: &str) -> Outcome {
        let mut command = cargo(&self.root);
        // the Python module has no tests for cargo, and without an interpreter no test program
        let workspace = ["test", "--workspace", "--exclude", "tobari-py", "--no-fail-fast", which];
        command.env("PATH", companions::path(&target_folder(&self.root)));
        outcome(self.count(command.args(workspace).args(with_features())))
    }

    /// Runs the tests with `part` in their names, of all test programs.
    fn tests_named(&mut self, part: &str) -> Outcome {
        let mut command = cargo(&self.root);
        let workspace = ["test", "--workspace", "--exclude", "tobari-py", "--no-fail-fast", "--all-targets"];
        command.env("PATH", companions::path(&target_folder(&self.root)));
        outcome(self.count(command.args(workspace).args(with_features()).args(["--", part])))
    }

    /// Runs a command that runs tests, and counts them.
    fn count(&mut self, command: &mut Command) -> Result<(), String> {
        let result = pass_reading(command.env(NOT_RUN_LOG, &self.log), |line| self.tally.read(line));
        if result.is_err() {
            self.tally.broke_off();
        }
        result
    }
}

/// Tests of closed faults that an attacker could have used, or that broke a promise. Their names
/// contain `fault` and a number. Tests that need a browser are in the step `browser`.
fn faults(run: &mut Run) -> Outcome {
    run.tests_named("fault_")
}

/// Checks the features that a user's build has; the other steps build with all features that can be
/// tested on any machine.
///
/// The features are named, because the benchmark's default features include `paper`, which would
/// apply to all packages. `tobari-corpora` is left out, because it needs `paper`.
///
/// The tests of the wire format run too: only without that feature can they check that its curves
/// are refused. Without optimisation they compile in half a minute; the crate's unit tests take
/// minutes.
fn plain_features(run: &mut Run) -> Outcome {
    let mut clippy = cargo(&run.root);
    clippy.args(["clippy", "--workspace", "--exclude", "tobari-corpora", "--lib", "--bins", "--no-default-features"]);
    let checked = pass(clippy.args(["--features", PLAIN, "--", "-D", "warnings"]));
    let mut wire = cargo(&run.root);
    wire.args(["test", "--package", "tobari-curve", "--test", "wire", "--config", "profile.dev.opt-level=0"]);
    outcome(checked.and_then(|()| run.count(&mut wire)))
}

/// Runs each example to its end; the tests have already built the examples.
fn examples(run: &mut Run) -> Outcome {
    let found = examples_in(ROOMS.iter().map(|room| run.root.join(room.path)));
    if found.is_empty() {
        return Outcome::NotRun("there is no example yet".to_owned());
    }
    let build = pass(
        cargo(&run.root).args(["build", "--workspace", "--exclude", "tobari-py", "--examples"]).args(with_features()),
    );
    let built = target_folder(&run.root).join("debug/examples");
    let mut all = found.iter().map(|example| pass(Command::new(built.join(example)).current_dir(&run.root)));
    outcome(build.and_then(|()| all.find(Result::is_err).unwrap_or(Ok(()))))
}

/// The name of every `examples/name.rs` and `examples/name/main.rs` in these folders of packages.
fn examples_in(packages: impl Iterator<Item = PathBuf>) -> Vec<String> {
    let entries = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<String> = packages
        .flat_map(|package| entries(&package.join("examples")).collect::<Vec<_>>())
        .filter(|path| path.extension().is_some_and(|end| end == "rs") || path.join("main.rs").is_file())
        .filter_map(|path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()))
        .collect();
    found.sort();
    found
}

fn docs(run: &mut Run) -> Outcome {
    let mut command = cargo(&run.root);
    outcome(pass(
        command.args(["doc", "--workspace", "--no-deps"]).args(with_features()).env("RUSTDOCFLAGS", "-D warnings"),
    ))
}

fn wasm(run: &mut Run) -> Outcome {
    if let Err(why) = ensure_target(&run.root, WASM) {
        return Outcome::Failed(why);
    }
    // the step `web` compiles the parts that a page uses, including code generation
    let check = |packages: &[&str]| {
        let mut command = cargo(&run.root);
        command.args(["check", "--lib", "--target", WASM]);
        for name in packages {
            command.args(["--package", name]);
        }
        pass(&mut command)
    };
    let rooms = |browser| ROOMS.iter().filter(move |room| room.browser == browser).map(|room| room.package);
    let together: Vec<&str> = rooms(Browser::Together).collect();
    outcome(check(&together).and_then(|()| rooms(Browser::Alone).try_for_each(|name| check(&[name]))))
}

pub(crate) fn ensure_target(root: &Path, target: &str) -> Result<(), String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let query = ["--print", "target-libdir", "--target", target];
    let folder = Command::new(rustc).args(query).current_dir(root).output();
    let installed = folder.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir());
    match (installed, on_path("rustup")) {
        (true, _) => Ok(()),
        (false, Some(rustup)) => pass(Command::new(rustup).args(["target", "add", target]).current_dir(root)),
        (false, None) => Err(format!("the target {target} is missing, and so is rustup to add it")),
    }
}

/// Checks that approximate numbers have the same bits in a JavaScript engine as here: the bits are
/// pinned in `tests/ckks_bits`. The build uses cargo's settings in `bench/wasm`.
fn wasm_bits(run: &mut Run) -> Outcome {
    let Some(node) = on_path("node") else {
        return Outcome::NotRun("node is not on PATH".to_owned());
    };
    if let Err(why) = ensure_target(&run.root, WASM) {
        return Outcome::NotRun(why);
    }
    let (folder, target) = (run.root.join("bench/wasm"), target_folder(&run.root).join("bench-wasm"));
    let mut build = cargo(&folder);
    build.args(["build", "--locked", "--release", "--no-default-features", "--target", WASM]);
    build.env("CARGO_TARGET_DIR", &target);
    let module = target.join(WASM).join("release/tobari_bench_wasm.wasm");
    let mut check = Command::new(node);
    check.current_dir(&folder).arg("bits.mjs").arg(module).arg("../../vectors/lattice/ckks-bits.txt");
    outcome(pass(&mut build).and_then(|()| pass(&mut check)))
}

/// Looks for branches, addresses and divisions that depend on secrets, in code as it is released.
fn ct(run: &mut Run) -> Outcome {
    /// The program's exit status where nothing can be traced.
    const NOT_RUN: i32 = 77;
    if on_path("valgrind").is_none() {
        _ = bring("valgrind");
    }
    let mut program = cargo(&run.root);
    program.args(["run", "--quiet", "--locked", "--release", "--package", "tobari-ct"]);
    match pass(&mut program) {
        Ok(()) if on_path("valgrind").is_none() => Outcome::NotRun("curves: valgrind is not on PATH".to_owned()),
        Err(why) if why.ends_with(&format!("exit status: {NOT_RUN}")) => {
            Outcome::NotRun("this system lets no process trace another".to_owned())
        }
        done => outcome(done),
    }
}

/// Calls between browsers, over a server of their own: tests that other steps ignore.
fn browser(run: &mut Run) -> Outcome {
    let program = match provide(&TOOLS[0]) {
        Ok(program) => program,
        Err(why) => return Outcome::Failed(why),
    };
    let mut command = cargo(&run.root);
    // the same arguments as for the tests: a package alone would be compiled again, with other
    // features of its dependencies
    command.args(["test", "--workspace", "--exclude", "tobari-py", "--test", "browser"]).args(with_features());
    command.args(["--", "--ignored", "--nocapture", "--test-threads=1"]);
    outcome(run.count(command.env("TOBARI_BROWSER", program)))
}

const FUZZ: &str = "fuzz/Cargo.toml";

/// Checks that the lock file of the fuzz targets fits their manifest. The tests of `tobari-corpora`
/// check the targets, and run their bodies over their corpora.
fn fuzz(run: &mut Run) -> Outcome {
    outcome(pass(cargo(&run.root).args(["tree", "--locked", "--depth", "0", "--manifest-path", FUZZ])))
}

/// The Python package in an environment of its own: its tests, and the examples of its guide.
fn python(run: &mut Run) -> Outcome {
    let made = Environment::provide(&run.root, "python", &["requirements.txt"]).and_then(|environment| {
        environment.install()?;
        environment.tests().iter_mut().try_for_each(|tests| run.count(tests))
    });
    outcome(made)
}

const DENY_MISSING: &str = "cargo-deny is not on PATH: cargo install --locked cargo-deny";

/// Checks bans, licences and sources, which depend on the tree alone.
fn deny(run: &mut Run) -> Outcome {
    if on_path("cargo-deny").is_none() {
        return Outcome::NotRun(DENY_MISSING.to_owned());
    }
    let arguments = ["deny", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"];
    outcome(pass(cargo(&run.root).args(arguments)))
}

/// Checks advisories, which also depend on the day and need the network. Without a network the step
/// does not run, because the change is not at fault.
fn advisories(run: &mut Run) -> Outcome {
    if on_path("cargo-deny").is_none() {
        return Outcome::NotRun(DENY_MISSING.to_owned());
    }
    if pass(cargo(&run.root).args(["deny", "fetch", "db"])).is_err() {
        return Outcome::NotRun("the advisory database could not be fetched".to_owned());
    }
    outcome(pass(cargo(&run.root).args(["deny", "check", "--disable-fetch", "--hide-inclusion-graph", "advisories"])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_of(name: &str) -> Run {
        let log = std::env::temp_dir().join(format!("xtask-{name}-{}.log", std::process::id()));
        Run { root: PathBuf::from("."), tally: Tally::default(), log }
    }

    #[test]
    fn a_step_whose_tool_is_left_out_is_not_run() {
        let step = Step { name: "page", tool: Some(&TOOLS[0]), run: |_| panic!("it ran") };
        let outcome = attempt(&step, &mut run_of("without"), &["browser".to_owned()]);
        assert_eq!(outcome, Outcome::NotRun("--without".to_owned()));
    }

    #[test]
    fn the_step_features_has_every_default_feature_but_paper() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut expected = Vec::new();
        for room in ROOMS {
            let manifest = std::fs::read_to_string(root.join(room.path).join("Cargo.toml")).unwrap();
            let Some(defaults) = manifest.lines().find_map(|line| line.strip_prefix("default = [")) else { continue };
            let names = defaults.trim_end_matches(']').split(", ").map(|name| name.trim_matches('"'));
            expected.extend(names.filter(|name| *name != "paper").map(|name| format!("{}/{name}", room.package)));
        }
        assert_eq!(expected, PLAIN.split(',').collect::<Vec<_>>());
    }

    #[test]
    fn every_step_has_its_own_name() {
        let mut sorted = names();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), STEPS.len() + PARTS.len());
    }

    #[test]
    fn examples_are_found_in_both_forms() {
        let root = std::env::temp_dir().join(format!("xtask-examples-{}", std::process::id()));
        std::fs::create_dir_all(root.join("b/deep/examples/whole")).unwrap();
        std::fs::create_dir_all(root.join("a/examples/data")).unwrap();
        for file in ["b/deep/examples/whole/main.rs", "a/examples/single.rs", "a/examples/notes.md"] {
            std::fs::write(root.join(file), "").unwrap();
        }
        let found = examples_in(["a", "b/deep", "none"].into_iter().map(|package| root.join(package)));
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, ["single", "whole"]);
    }
}
