//! The commands of sealed folders: `tobari seal`, `tobari seal verify`, `tobari seal ls`,
//! `tobari unseal`, `tobari backup` and `tobari restore`. They are for Linux.
//!
//! The emulated module is a second process of the same program. So such a program calls [`begin`]
//! before anything else.

#![cfg(linux_64)]
#![forbid(unsafe_code)]

mod arguments;
mod backup;
mod demo;
mod keys;
mod list;

pub use arguments::policy;
pub use arguments::{SealArguments, UnsealArguments};
pub use backup::{backup, restore};
pub use demo::folder_with_a_module_that_dies as demo;

use arguments::{EngineArguments, LookArguments, ModuleName, SealVerb};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{IsTerminal, Read};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use tobari_command::output::{self, Failure};
use tobari_command::randomness;
use tobari_host::memory;
use tobari_seal::{Kind, Layout, Meta, Suite};
use tobari_seal_files::dispatch::{Emulated, EmulatedOptions, Options, Pool};
use tobari_seal_files::{Destination, FileProblem, Missing, Opened, Reader, Sealed, Target, Writer};

/// Runs the module and returns its exit status, if another process of the same executable started
/// this process as a module. Otherwise returns `None`. Call this before you start a thread.
pub fn begin() -> Option<ExitCode> {
    let is_module = tobari_host::enclave::is_inside(tobari_seal_files::dispatch::MODULE_VERB);
    is_module.then(tobari_seal_files::dispatch::run_module)
}

/// The most problems that are printed one by one.
const SHOWN: usize = 20;

fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

fn is_folder(path: &Path) -> Result<bool, Failure> {
    if is_standard(path) {
        return Ok(false);
    }
    let metadata = fs::metadata(path).map_err(|error| Failure::Work(format!("{}: {error}", path.display())))?;
    Ok(metadata.is_dir())
}

fn pool(arguments: &EngineArguments, suite: Suite) -> Result<Pool, Failure> {
    // Thousands of chunks are allocated and freed.
    memory::keep_small(memory::KEPT_SMALL);
    let mut options = Options { policy: arguments.policy, suite, ..Options::new() };
    if let Some(threads) = arguments.threads {
        options.cpu_workers = threads.into();
    }
    match arguments.module {
        Some(ModuleName::Emulated) => {
            let core = tobari_host::threads::available().checked_sub(1).filter(|core| *core > 0);
            options.modules.push(Box::new(Emulated::start(&EmulatedOptions { core, ..EmulatedOptions::default() })?));
        }
        #[cfg(feature = "openssl")]
        Some(ModuleName::Openssl) => options.modules.push(Box::new(tobari_seal_files::dispatch::Openssl::new())),
        None => {}
    }
    Ok(Pool::start(options)?)
}

/// The work of each kind of engine.
fn engines(pool: &Pool) -> Vec<Value> {
    let engine = |engine: &tobari_seal_files::dispatch::EngineReport| {
        let labels: Vec<&String> = Some(&engine.label).into_iter().filter(|label| !label.is_empty()).collect();
        json!({
            "engine": engine.name, "labels": labels,
            "chunks": engine.done.items, "bytes": engine.done.bytes, "batches": engine.done.batches, "lost": engine.lost,
        })
    };
    pool.report().iter().map(engine).collect()
}

fn say_problems(problems: &[FileProblem]) {
    say_some(problems);
}

fn say_some(all: &[impl std::fmt::Display]) {
    for one in all.iter().take(SHOWN) {
        output::say(format!("tobari: {one}"));
    }
    if all.len() > SHOWN {
        output::say(format!("tobari: and {} more", all.len() - SHOWN));
    }
}

fn status_of(problems: &[FileProblem]) -> ExitCode {
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Rewrites a line on a terminal, ten times a second.
struct Meter {
    began: Instant,
    shown: f64,
}

impl Meter {
    fn new() -> Self {
        Self { began: Instant::now(), shown: 0.0 }
    }

    fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    fn show(&mut self, what: &str, entries: u64, bytes: u64) {
        let now = self.seconds();
        if now - self.shown > 0.1 {
            self.shown = now;
            let rate = bytes as f64 / now / 1e6;
            // A single file needs no count.
            let files = if entries > 1 { format!("{entries} files, ") } else { String::new() };
            output::status(&format!("{what} {files}{:.1} MB, {rate:.0} MB/s", bytes as f64 / 1e6));
        }
    }

    fn end(&self) -> f64 {
        output::status("");
        self.seconds()
    }
}

/// `tobari seal`
pub fn run(arguments: &SealArguments) -> Result<ExitCode, Failure> {
    match (&arguments.verb, &arguments.source, &arguments.output) {
        (Some(SealVerb::Verify(look)), ..) => verify(look),
        (Some(SealVerb::Ls(look)), ..) => list::run(look),
        (None, Some(source), Some(target)) => seal(arguments, source, target),
        _ => Err(Failure::Call("expected SOURCE and -o OUT".to_owned())),
    }
}

fn seal(arguments: &SealArguments, source: &Path, target: &Path) -> Result<ExitCode, Failure> {
    if is_standard(target) {
        can_be_streamed(source)?;
    }
    let mut rng = randomness::generator()?;
    let (keys, pool, mut meter) =
        (keys::to_seal(arguments, &mut rng)?, pool(&arguments.engines, arguments.mode.suite())?, Meter::new());
    let mut writer = Writer::new(&pool, &keys, Layout::new(arguments.mode.suite()), &mut rng)?;
    let mut show = |sealed: &Sealed| meter.show("sealed", sealed.entries, sealed.read);
    let mut out = std::io::stdout().lock();
    let to = match is_standard(target) {
        true => Destination::Stream(&mut out),
        false => Destination::File(target, arguments.force),
    };
    let sealed = if is_standard(source) {
        writer.stream(&mut input(source)?, &Meta::new(Kind::Stream, b"", 0), to, &mut show)?
    } else if is_folder(source)? {
        writer.folder(source, target, &keys, arguments.force, &mut show)?
    } else {
        writer.file(source, to, &mut show)?
    };
    drop(out);
    let seconds = meter.end();
    #[cfg(feature = "age")]
    if sealed.continued && arguments.recipients.any() {
        output::say(
            "tobari: the set was there: it stays sealed for those it was begun for, whatever recipients are named now",
        );
    }
    say_problems(&sealed.problems);
    say_aged(&sealed);
    let Sealed { entries, bytes, kept, removed, problems, stale, grown, .. } = &sealed;
    if arguments.json && !is_standard(target) {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let grown: Vec<Value> =
            grown.iter().map(|(file, bytes)| json!({ "file": file.display().to_string(), "bytes": bytes })).collect();
        output::json(&json!({
            "sealed": target.display().to_string(), "entries": entries, "bytes": bytes, "kept": kept, "removed": removed, "problems": problems,
            "stale": paths(stale), "grown": grown,
            "seconds": seconds, "policy": arguments.engines.policy.name(), "engines": engines(&pool),
        }))?;
    } else if !is_standard(target) {
        let already = if *kept > 0 { format!(", {kept} of them there already") } else { String::new() };
        output::result(format!("sealed {entries} files, folders and links, {bytes} bytes, in {seconds:.2} s{already}"));
    }
    Ok(status_of(problems))
}

/// Rejects a folder, as a set needs a folder, and a terminal, as sealed bytes are not text.
fn can_be_streamed(source: &Path) -> Result<(), Failure> {
    if is_folder(source)? {
        let name = source.display();
        let expected = "a folder is sealed into a folder. Name one after -o; standard output takes a file or a stream";
        return Err(Failure::Call(format!("{name}: {expected}")));
    }
    if std::io::stdout().is_terminal() {
        let expected = "standard output is a terminal. Name a file after -o, or send the output to a file or a pipe";
        return Err(Failure::Call(expected.to_owned()));
    }
    Ok(())
}

/// Prints the entries that are older than this run, or grew during it.
fn say_aged(sealed: &Sealed) {
    let mut notes: Vec<String> = Vec::new();
    for path in &sealed.stale {
        notes.push(format!("{}: could not be read, and stays as it was sealed earlier (stale)", list::printed(path)));
    }
    for (file, bytes) in &sealed.grown {
        let name = file.display();
        notes.push(format!(
            "{name}: grew while it was read. Its first {bytes} bytes were sealed, its length when it was opened"
        ));
    }
    say_some(&notes);
}

fn paths(all: &[Vec<u8>]) -> Vec<String> {
    all.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect()
}

fn input(path: &Path) -> Result<Box<dyn Read>, Failure> {
    if is_standard(path) {
        return Ok(Box::new(std::io::stdin().lock()));
    }
    let opened = File::open(path).map_err(|error| Failure::Work(format!("{}: {error}", path.display())))?;
    Ok(Box::new(opened))
}

/// `tobari unseal`
pub fn unseal(arguments: &UnsealArguments) -> Result<ExitCode, Failure> {
    let keys = keys::to_open(
        &arguments.keys,
        #[cfg(feature = "age")]
        &arguments.identities,
    )?;
    let (pool, mut rng) = (pool(&arguments.engines, Suite::Gcm)?, randomness::generator()?);
    let (reader, mut meter) = (Reader::new(&pool, &keys), Meter::new());
    let (sealed, target, force) = (&arguments.sealed, &arguments.output, arguments.force);
    let mut show = |opened: &Opened| meter.show("opened", opened.entries, opened.read);
    let opened = match (&arguments.only, is_folder(sealed)?) {
        (Some(_), false) => {
            return Err(Failure::Call("--only takes a file out of a set: name the folder of a set".to_owned()));
        }
        (Some(path), true) => {
            let found = list::find(&reader, sealed, path)?;
            to_target(target, force, |target| reader.listed(sealed, &found, target, &mut rng, &mut show))?
        }
        (None, true) if arguments.salvage => reader.salvage(sealed, target, force, &mut rng, &mut show)?,
        (None, true) => reader.set(sealed, Some(target), force, &mut rng, &mut show)?,
        (None, false) => {
            let from = input(sealed)?;
            match to_target(target, force, |target| reader.one(from, sealed, target, &mut rng, &mut show)) {
                Err(failure) if arguments.salvage && !is_standard(sealed) && !is_standard(target) => {
                    let damaged = reader.pieces(sealed, target, force, &mut show)?;
                    Opened { problems: vec![damaged.ok_or(failure)?], ..Opened::default() }
                }
                opened => opened?,
            }
        }
    };
    report("opened", &opened, meter.end(), &pool, arguments.json && !is_standard(target), is_standard(target))
}

/// Opens one file into its destination.
fn to_target(
    path: &Path,
    force: bool,
    open: impl FnOnce(Target<'_>) -> Result<Opened, FileProblem>,
) -> Result<Opened, Failure> {
    if !is_standard(path) {
        return Ok(open(Target::File(path, force))?);
    }
    open(Target::Stream(&mut std::io::stdout().lock())).map_err(|error| match error {
        // A stream that was cut looks like a stream altered at its end.
        FileProblem::Seal { .. } => {
            let prefix = "standard output has a verified part from the start at most, and not the whole";
            Failure::Work(format!("{error}; {prefix}"))
        }
        error => error.into(),
    })
}

fn verify(arguments: &LookArguments) -> Result<ExitCode, Failure> {
    let (keys, pool, mut rng) =
        (keys::to_look(arguments)?, pool(&arguments.engines, Suite::Gcm)?, randomness::generator()?);
    let (reader, mut meter) = (Reader::new(&pool, &keys), Meter::new());
    let mut show = |opened: &Opened| meter.show("verified", opened.entries, opened.read);
    let opened = if is_folder(&arguments.set)? {
        reader.set(&arguments.set, None, false, &mut rng, &mut show)?
    } else {
        reader.one(input(&arguments.set)?, &arguments.set, Target::Nowhere, &mut rng, &mut show)?
    };
    report("verified", &opened, meter.end(), &pool, arguments.json, false)
}

fn report(
    what: &str,
    opened: &Opened,
    seconds: f64,
    pool: &Pool,
    json: bool,
    quiet: bool,
) -> Result<ExitCode, Failure> {
    say_problems(&opened.problems);
    let Opened { entries, bytes, problems, stale, .. } = opened;
    let old = |path: &Vec<u8>| {
        let path = list::printed(path);
        format!(
            "{path}: stale. Its source could not be read when the set was brought up to date; this is an earlier state"
        )
    };
    say_some(&stale.iter().map(old).collect::<Vec<_>>());
    if json {
        let (missing, engines) = (missing(problems), engines(pool));
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        output::json(&json!({
            "entries": entries, "bytes": bytes, "problems": problems, "missing": missing, "stale": paths(stale), "seconds": seconds, "engines": engines,
        }))?;
    } else if !quiet {
        output::result(format!("{what} {entries} files, folders and links, {bytes} bytes, in {seconds:.2} s"));
    }
    Ok(status_of(problems))
}

/// The missing ranges of each damaged file: first byte, and the byte after the last one, or the
/// unknown end of the file.
fn missing(problems: &[FileProblem]) -> Vec<Value> {
    let ranges = |Missing(ranges): &Missing| -> Vec<Value> {
        ranges.iter().map(|[from, to]| json!([from, Some(to).filter(|to| **to < u64::MAX)])).collect()
    };
    let damaged = |problem: &FileProblem| match problem {
        FileProblem::Damaged { name, missing } => Some(json!({ "file": name, "ranges": ranges(missing) })),
        _ => None,
    };
    problems.iter().filter_map(damaged).collect()
}
