//! `tobari-bench search`: questions of each kind to a server process on this machine, end to end,
//! and the server's rate of answers to several clients at once.

use super::line::{Line, summary};
use super::table::{Table, number};
use super::{show, tell};
use crate::bench::arguments::LimitedBench;
use crate::program::Tobari;
use serde::Serialize;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tobari_client::ClientTls;
use tobari_command::blind_server::BlindProcess;
use tobari_command::output::{self, Failure};
use tobari_command::randomness;
use tobari_host::files;
use tobari_lattice::RingKernels;
use tobari_search::identity::Identity;
use tobari_search::question::Wish;
use tobari_search::server::Granularity;
use tobari_search::simulated;
use tobari_search::table::{Question, encode_table};
use tobari_search_edge::command::{Remote, Wanted};
use tobari_search_edge::simulated as panel;

/// The number of haplotypes in the panel of the 1000 Genomes Project, phase 3.
const HAPLOTYPES: usize = 5_008;
const SITES: usize = 2_000;
/// Questions of a round.
const QUESTIONS: usize = 21;
/// Questions that clients ask together.
const TOGETHER: usize = 512;
/// Numbers of clients that ask at once.
const CLIENTS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Options against the budgets, which are not measured.
const BUDGETS: [&str; 6] = ["--budget", "1000000000", "--region-budget", "1000000000", "--key-uses", "4294967295"];

/// A kind of question: sites, whether its place hides in a cell, whether it asks for the longest
/// match, the granularity of the answer, and the target in milliseconds and bytes, if there is one.
type Kind = (usize, bool, bool, Granularity, Option<(f64, u64)>);

const KINDS: [Kind; 10] = [
    (6, false, false, Granularity::Count, Some((20.0, 100_000))),
    (16, false, false, Granularity::Count, Some((20.0, 100_000))),
    (16, false, false, Granularity::Boolean, Some((20.0, 100_000))),
    (6, true, false, Granularity::Count, Some((30.0, 250_000))),
    (16, true, false, Granularity::Count, None),
    (40, false, false, Granularity::Count, None),
    (100, false, false, Granularity::Count, Some((30.0, u64::MAX))),
    (100, false, false, Granularity::Boolean, Some((30.0, u64::MAX))),
    (16, false, true, Granularity::Boolean, None),
    (100, false, true, Granularity::Boolean, None),
];

#[derive(Clone, Serialize)]
struct Params {
    method: &'static str,
    haplotypes: usize,
    length: usize,
    places: usize,
    longest: bool,
    counts: bool,
    clients: usize,
    /// Bytes of a question and its answer.
    bytes: u64,
}

/// Measures and prints.
pub(super) fn run(arguments: &LimitedBench, tobari: &Tobari) -> Result<ExitCode, Failure> {
    let columns = simulated::columns(HAPLOTYPES, SITES, 7);
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("panel.tsi");
    files::write_atomically(&path, &encode_table(&panel::table(&columns)?))?;
    let path = path.display().to_string();
    let server = tobari.serve(["--search", &path].into_iter().chain(BUDGETS))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(arguments, &columns, &server))
}

async fn measure(arguments: &LimitedBench, columns: &[Vec<bool>], server: &BlindProcess) -> Result<ExitCode, Failure> {
    let wanted = Wanted { table: None, labels: false, keep: false };
    let identity = Arc::new(Identity::generate(&mut randomness::generator()?));
    let remote = Arc::new(Remote::reach(server.url(), &ClientTls::System, None, &identity, &wanted).await?);
    let json = arguments.common.json;
    let title =
        format!("Questions to {HAPLOTYPES} simulated haplotypes, one at a time, by a server process of this machine");
    let head = ["sites", "places", "told", "ms", "min", "max", "bytes", "target ms", "target bytes", "verdict"];
    let mut table = Table::new(title, &head);
    let mut met = true;
    for (length, hidden, longest, granularity, target) in KINDS {
        let wish = Wish { granularity, longest };
        // all sites are in one cell
        let places = if hidden { SITES - length + 1 } else { 1 };
        let mut connection = remote.connection();
        let (mut times, mut bytes) = (Vec::new(), 0);
        for (index, (start, pattern)) in
            panel::questions(columns, length, arguments.runs * QUESTIONS + 1).into_iter().enumerate()
        {
            let before = connection.sent_bytes() + connection.received_bytes();
            let started = Instant::now();
            let question = Question::Window { start, length, pattern };
            match hidden {
                true => remote.ask_in_cell(&mut connection, &question, granularity).await?,
                false => remote.ask(&mut connection, &question, wish).await?,
            };
            // the first question registers a key, and the server prepares its tables
            if index > 0 {
                times.push(started.elapsed().as_secs_f64() * 1e3);
                bytes = connection.sent_bytes() + connection.received_bytes() - before;
            }
        }
        let counts = granularity == Granularity::Count;
        let params =
            Params { method: "labeleq", haplotypes: HAPLOTYPES, length, places, longest, counts, clients: 1, bytes };
        let line = line("query", "ms", params, 2, times);
        let good = target.is_none_or(|(ms, most)| line.median <= ms && bytes <= most);
        met &= good;
        let told = match (longest, counts) {
            (true, _) => "longest match",
            (_, true) => "count",
            _ => "whether",
        };
        let most = target.map(|(_, most)| most).filter(|most| *most < u64::MAX);
        table.push(vec![
            length.to_string(),
            places.to_string(),
            told.to_owned(),
            number(Some(line.median), 2),
            number(Some(line.min), 2),
            number(Some(line.max), 2),
            bytes.to_string(),
            number(target.map(|(ms, _)| ms), 0),
            most.map_or(String::new(), |most| most.to_string()),
            (if target.is_none() {
                ""
            } else if good {
                "pass"
            } else {
                "FAIL"
            })
            .to_owned(),
        ]);
        if json {
            output::json(&line)?;
        }
    }
    show(&table, json);
    let together = together(&remote, columns, server, json).await?;
    show(&together, json);
    tell(
        "a second of the server's processor is one core for a second; clients and the server share this machine",
        json,
    );
    if let Some(folder) = &arguments.output {
        std::fs::create_dir_all(folder)?;
        files::write_atomically(&folder.join("queries.csv"), table.csv().as_bytes())?;
        files::write_atomically(&folder.join("clients.csv"), together.csv().as_bytes())?;
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Questions of 16 sites with counts, from several clients at once.
async fn together(
    remote: &Arc<Remote>,
    columns: &[Vec<bool>],
    server: &BlindProcess,
    json: bool,
) -> Result<Table, Failure> {
    let (length, granularity) = (16, Granularity::Count);
    let head = ["clients", "questions a second", "a second of the server's processor"];
    let mut table = Table::new("Questions of 16 sites with counts, from clients at once".to_owned(), &head);
    let questions = Arc::new(panel::questions(columns, length, TOGETHER));
    for clients in CLIENTS {
        let next = Arc::new(AtomicUsize::new(0));
        let (started, busy) = (Instant::now(), server.cpu_seconds());
        let all = (0..clients).map(|_| {
            let (remote, questions, next) = (Arc::clone(remote), Arc::clone(&questions), Arc::clone(&next));
            tokio::spawn(async move {
                let mut connection = remote.connection();
                while let Some((start, pattern)) = questions.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let question = Question::Window { start: *start, length, pattern: *pattern };
                    remote.ask(&mut connection, &question, Wish { granularity, longest: false }).await?;
                }
                Ok::<(), Failure>(())
            })
        });
        for client in all.collect::<Vec<_>>() {
            client.await.map_err(|error| Failure::Work(error.to_string()))??;
        }
        let rate = TOGETHER as f64 / started.elapsed().as_secs_f64();
        let of_server = server.cpu_seconds().zip(busy).map(|(after, before)| TOGETHER as f64 / (after - before));
        table.push(vec![clients.to_string(), number(Some(rate), 0), number(of_server, 0)]);
        if json {
            let params = Params {
                method: "labeleq",
                haplotypes: HAPLOTYPES,
                length,
                places: 1,
                longest: false,
                counts: true,
                clients,
                bytes: 0,
            };
            output::json(&line("queries", "1/s", params.clone(), 2, vec![rate]))?;
            if let Some(rate) = of_server {
                output::json(&line("queries_of_a_core", "1/s", params, 1, vec![rate]))?;
            }
        }
    }
    Ok(table)
}

fn line(what: &str, unit: &str, params: Params, threads: u32, values: Vec<f64>) -> Line<Params> {
    let runs = values.len();
    let (median, min, max) = summary(values);
    Line {
        job: "search".to_owned(),
        what: what.to_owned(),
        engine: "tobari".to_owned(),
        params,
        backend: RingKernels::best().name.to_owned(),
        threads,
        unit: unit.to_owned(),
        median,
        min,
        max,
        runs,
        labels: vec!["simulated-panel".to_owned()],
    }
}
