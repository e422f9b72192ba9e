//! Real files: `tobari seal` of a folder against `cp -r` of the same folder and one sync, in turn,
//! with a warm cache.

use super::super::line::{Line, summary};
use super::super::show;
use super::super::table::{Table, number};
use super::SealBench;
use crate::program::Tobari;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;
use tobari_command::output::{self, Failure};
use tobari_host::files;

/// The most time of sealing, relative to a copy.
const TARGET: f64 = 1.2;

#[derive(Clone, Serialize, Deserialize)]
struct Params {
    entries: u64,
    bytes: u64,
}

fn count(root: &Path) -> Result<Params, Failure> {
    let (mut params, mut left) = (Params { entries: 0, bytes: 0 }, vec![root.to_owned()]);
    while let Some(path) = left.pop() {
        let metadata = fs::symlink_metadata(&path)?;
        params.entries += 1;
        if metadata.is_dir() {
            for entry in fs::read_dir(&path)? {
                left.push(entry?.path());
            }
        } else if metadata.is_file() {
            params.bytes += metadata.len();
        }
    }
    Ok(params)
}

fn seconds(commands: &mut [Command]) -> Result<f64, Failure> {
    let began = Instant::now();
    for command in commands {
        let done = command.stdin(Stdio::null()).stdout(Stdio::null()).output()?;
        if !done.status.success() {
            return Err(Failure::Work(format!("{command:?}: {}", String::from_utf8_lossy(&done.stderr))));
        }
    }
    Ok(began.elapsed().as_secs_f64())
}

fn command(program: impl AsRef<std::ffi::OsStr>, words: &[&std::ffi::OsStr]) -> Command {
    let mut command = Command::new(program);
    command.args(words);
    command
}

pub(super) fn run(arguments: &SealBench, tobari: &Tobari, tree: &Path) -> Result<ExitCode, Failure> {
    let params = count(tree)?;
    let all = match &arguments.output {
        Some(folder) => {
            fs::create_dir_all(folder)?;
            tempfile::tempdir_in(folder)?
        }
        None => tempfile::tempdir()?,
    };
    let (copy, set, key) = (all.path().join("copy"), all.path().join("set"), all.path().join("key"));
    fs::write(&key, [7; 32])?;
    let program = tobari.path()?;
    let (mut copied, mut sealed) = (Vec::new(), Vec::new());
    for round in 0..=arguments.runs {
        let mut cp = [
            command("cp", &["-r".as_ref(), tree.as_os_str(), copy.as_os_str()]),
            command("sync", &["-f".as_ref(), all.path().as_os_str()]),
        ];
        let (cp, words) = (
            seconds(&mut cp)?,
            ["seal".as_ref(), tree.as_os_str(), "-o".as_ref(), set.as_os_str(), "--key-file".as_ref(), key.as_os_str()],
        );
        let seal = seconds(&mut [command(&program, &words)])?;
        if round > 0 {
            copied.push(cp);
            sealed.push(seal); // the first round brings everything into the cache
        }
        fs::remove_dir_all(&copy)?;
        fs::remove_dir_all(&set)?;
        seconds(&mut [command("sync", &["-f".as_ref(), all.path().as_os_str()])])?;
    }
    let title = format!(
        "{} files, folders and links, {:.1} MB: seconds, {} rounds",
        params.entries,
        params.bytes as f64 / 1e6,
        arguments.runs
    );
    let mut table = Table::new(title, &["what", "median", "least", "most", "times the copy", "target"]);
    let base = summary(copied.clone()).0;
    for (what, times) in [("cp -r and sync", copied), ("tobari seal", sealed)] {
        let (median, min, max) = summary(times);
        let (ratio, target) = if what == "tobari seal" { (Some(median / base), Some(TARGET)) } else { (None, None) };
        table.push(vec![
            what.to_owned(),
            number(Some(median), 3),
            number(Some(min), 3),
            number(Some(max), 3),
            number(ratio, 2),
            number(target, 1),
        ]);
        if arguments.json {
            output::json(&line(what, params.clone(), (median, min, max), arguments.runs.into()))?;
        }
    }
    show(&table, arguments.json);
    if let Some(folder) = &arguments.output {
        files::write_atomically(&folder.join("tree.csv"), table.csv().as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn line(what: &str, params: Params, (median, min, max): (f64, f64, f64), runs: usize) -> Line<Params> {
    let ours = what == "tobari seal";
    Line {
        job: "seal".to_owned(),
        what: "tree".to_owned(),
        engine: if ours { "tobari" } else { "cp -r, sync" }.to_owned(),
        params,
        backend: if ours { tobari_aes::AesKernels::best().name } else { "" }.to_owned(),
        threads: if ours { tobari_host::threads::available() as u32 } else { 1 },
        unit: "s".to_owned(),
        median,
        min,
        max,
        runs,
        labels: Vec::new(),
    }
}
