//! `tobari-bench report`: every job's paper benchmark on this machine, and one page that shows the
//! paper, the peers on record and this machine side by side.
//!
//! This module measures nothing: each part is `tobari-bench …` in a process of its own, and the
//! page shows its lines, tables and plots unchanged. The page is written even if a part fails, and
//! names that part at its head, so that a long run is not lost. The page is one file that loads
//! nothing, and is written whole or not at all.

mod jobs;
mod page;
mod record;

use crate::bench::{line::Line, table::Table};
use crate::program::Tobari;
use crate::weak_curves;
use clap::{Args, ValueEnum};
use jobs::Part;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tobari_command::day::date;
use tobari_command::output::{self, Failure};
use tobari_host::files;

/// The name of the page.
const NAME: &str = "report.html";
/// The most bytes of a benchmark's output.
const MOST_BYTES: u64 = 64 << 20;

/// `tobari-bench report`
#[derive(Args)]
pub(crate) struct ReportArguments {
    /// Where report.html goes.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// How much is measured: small ends in a few minutes on two cores, paper repeats what the
    /// papers print, without swap and AES under encryption, and takes an hour or more.
    #[arg(long, value_enum, default_value_t = Size::Small)]
    pub(crate) size: Size,
    /// Only these parts, separated by commas; all without it.
    #[arg(long = "job", value_enum, value_delimiter = ',', value_name = "JOB")]
    pub(crate) jobs: Vec<Job>,
    /// A checkout's folder bench/record, whose figures of peers stand beside; without it those that
    /// are built in.
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
    /// Every figure, one JSON object a line, on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Size {
    /// So little that its figures say nothing: to see that it works.
    Least,
    /// A few minutes on two cores.
    Small,
    /// What the papers print, but the search by the kernel's swap and AES under encryption on the
    /// server.
    Paper,
}

/// A part of the report.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Job {
    /// Voices added up.
    Call,
    /// Devices' readings.
    Sense,
    /// Images classified.
    Infer,
    /// Questions to a table.
    Search,
    /// Files sealed.
    Seal,
    /// What the other jobs compute with.
    Lattice,
}

/// A figure of any job.
type Figure = Line<Value>;

/// The result of a part.
struct Ran {
    part: &'static Part,
    /// The command lines.
    calls: Vec<String>,
    seconds: f64,
    lines: Vec<Figure>,
    /// Tables by the names of their files.
    tables: Vec<(String, Table)>,
    plots: Vec<(String, String)>,
    /// The reason why the result is incomplete.
    failed: Option<String>,
}

/// The machine and the day.
struct Setting {
    day: String,
    machine: String,
    size: Size,
    version: &'static str,
}

/// Measures all parts and writes the page.
pub(crate) fn run(arguments: &ReportArguments, tobari: &Tobari) -> Result<ExitCode, Failure> {
    let wanted = |part: &&Part| arguments.jobs.is_empty() || arguments.jobs.contains(&part.job);
    if arguments.size == Size::Paper && jobs::PARTS.iter().filter(wanted).any(|part| part.job == Job::Call) {
        weak_curves::need("--size paper")?; // fail now, and not on the page an hour later
    }
    let records = record::all(arguments.record.as_deref())?;
    std::fs::create_dir_all(&arguments.output)?;
    let setting = setting(arguments.size);
    let mut all = Vec::new();
    for part in jobs::PARTS.iter().filter(wanted) {
        let ran = measure(part, arguments, tobari)?;
        output::say(format!("{}: {} figures in {:.0} s", part.name, ran.lines.len(), ran.seconds));
        all.push(ran);
    }
    let text = page::page(&setting, &all, &records);
    let path = arguments.output.join(NAME);
    files::write_atomically(&path, text.as_bytes())?;
    output::say(format!("the report: {}", path.display()));
    let failed: Vec<&Ran> = all.iter().filter(|ran| ran.failed.is_some()).collect();
    failed.iter().for_each(|ran| {
        output::say(format!("{} failed: {}", ran.part.name, ran.failed.as_deref().unwrap_or_default()));
    });
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A part's benchmarks, one after the other.
fn measure(part: &'static Part, arguments: &ReportArguments, tobari: &Tobari) -> Result<Ran, Failure> {
    let began = Instant::now();
    let mut ran = Ran {
        part,
        calls: Vec::new(),
        seconds: 0.0,
        lines: Vec::new(),
        tables: Vec::new(),
        plots: Vec::new(),
        failed: None,
    };
    if !part.runs_here() {
        ran.failed = Some("not run: this part needs Linux on x86-64, AArch64 or RISC-V".to_owned());
        return Ok(ran);
    }
    for call in (part.calls)(arguments.size) {
        let folder = tempfile::tempdir()?;
        let words: Vec<&str> = call.split_whitespace().chain(["--json"]).collect();
        ran.calls.push(format!("tobari-bench {} -o DIR", words.join(" ")));
        output::say(format!("tobari-bench {}", words.join(" ")));
        let found = bench(&words, tobari, folder.path(), arguments.json)?;
        ran.lines.extend(found.lines);
        read(folder.path(), &mut ran)?;
        if let Some(why) = found.failed {
            ran.failed = Some(why);
            break;
        }
    }
    ran.seconds = began.elapsed().as_secs_f64();
    if ran.lines.is_empty() && ran.failed.is_none() {
        ran.failed = Some("not run: nothing was measured on this machine".to_owned());
    }
    Ok(ran)
}

/// The output of one process.
struct ProcessOutput {
    lines: Vec<Figure>,
    failed: Option<String>,
}

/// Runs this executable as a benchmark. Its lines are passed on unchanged; the end of its text for
/// people is kept.
fn bench(words: &[&str], tobari: &Tobari, folder: &Path, json: bool) -> Result<ProcessOutput, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(tobari.given().map(|program| [Path::new("--tobari"), program]).into_iter().flatten());
    command.args(words).arg("-o").arg(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let errors = child.stderr.take();
    let listening = std::thread::spawn(move || {
        let mut text = Vec::new();
        // unreadable text is left out
        let _ = errors.map(|mut errors| errors.read_to_end(&mut text));
        String::from_utf8_lossy(&text).into_owned()
    });
    let (mut lines, mut strange) = (Vec::new(), None);
    for text in child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines()) {
        let text = text?;
        match serde_json::from_str::<Figure>(&text) {
            Ok(figure) => {
                if json {
                    output::json(&figure)?;
                }
                lines.push(figure);
            }
            Err(error) => strange = Some(format!("expected a figure, found another line ({error})")),
        }
    }
    let (status, told) = (child.wait()?, listening.join().unwrap_or_default());
    let last = || told.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no reason").trim().to_owned();
    let failed = strange.or_else(|| (!status.success()).then(|| format!("{} ({status})", last())));
    Ok(ProcessOutput { lines, failed })
}

/// The tables and plots that a benchmark wrote.
fn read(folder: &Path, ran: &mut Ran) -> Result<(), Failure> {
    let entries = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let mut names: Vec<String> = entries.iter().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_by_cached_key(|name| by_number(name));
    for name in names {
        let shown = ran.part.tables.iter().find(|(file, _)| *file == name);
        let drawn = name.ends_with(".svg");
        if shown.is_none() && !drawn {
            continue; // the same figures again, or the points of plots
        }
        let bytes = files::read_bounded(&folder.join(&name), MOST_BYTES)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match shown {
            Some((_, title)) => ran.tables.push((name, Table::parse(*title, &text))),
            None => ran.plots.push((name, text)),
        }
    }
    // as the part lists them
    ran.tables.sort_by_key(|(name, _)| ran.part.tables.iter().position(|(file, _)| file == name));
    Ok(())
}

/// A sort key that orders names by their numbers: figure 9 before figure 10.
fn by_number(name: &str) -> Vec<(Option<u64>, String)> {
    name.split_inclusive(|character: char| !character.is_ascii_digit())
        .map(|piece| {
            let digits = piece.trim_end_matches(|character: char| !character.is_ascii_digit());
            (digits.parse().ok(), piece[digits.len()..].to_owned())
        })
        .collect()
}

fn setting(size: Size) -> Setting {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    // if the system does not name the processor, its architecture is used
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim().to_owned()));
    let model = model.unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let machine = format!("{model}, {} threads, {}", tobari_host::threads::available(), std::env::consts::OS);
    Setting { day: date(seconds), machine, size, version: env!("CARGO_PKG_VERSION") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_in_the_order_of_their_numbers() {
        let mut names = ["figure-10.svg", "figure-9b.svg", "figure-11.svg", "a.svg", "figure-9.svg", "figure.svg"];
        names.sort_by_cached_key(|name| by_number(name));
        let expected = ["a.svg", "figure-9.svg", "figure-9b.svg", "figure-10.svg", "figure-11.svg", "figure.svg"];
        assert_eq!(names, expected);
    }
}
