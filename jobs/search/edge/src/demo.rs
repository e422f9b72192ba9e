//! The demonstration of the search: questions to a server process with a simulated panel and no
//! key. Each answer is compared with a count over the haplotypes.

use crate::command::{Remote, Wanted};
use crate::simulated as panel;
use std::sync::Arc;
use std::time::Instant;
use tobari_client::ClientTls;
use tobari_command::blind_server::BlindProcess;
use tobari_command::demo::Line;
use tobari_command::output::Failure;
use tobari_command::randomness;
use tobari_host::files;
use tobari_search::client::MatchResult;
use tobari_search::identity::Identity;
use tobari_search::question::Wish;
use tobari_search::server::Granularity;
use tobari_search::simulated;
use tobari_search::table::{Question, encode_table};

/// The number of haplotypes is that of the prior work that the paper builds on.
const HAPLOTYPES: usize = 2_184;
const SITES: usize = 300;
/// Alleles of a question: the paper's longest question.
const LENGTH: usize = 6;
const QUESTIONS: usize = 60;
/// The paper's seconds for one question of six alleles: table 6, memory without a limit.
const PAPER_SECONDS: f64 = 2_416.0;

/// The rows of the demonstration. The place of a question is public in the first row, and hidden
/// among all places of its cell in the second. In the third row it is public to a server that does
/// not trust clients to follow the protocol.
///
/// # Errors
/// [`Failure`] if a server cannot be started, or does not answer.
pub fn demo() -> Result<Vec<Line>, Failure> {
    Ok(vec![
        search("public place", false, false)?,
        search("hidden place", true, false)?,
        search("public, labels", false, true)?,
    ])
}

fn search(mode: &'static str, hidden: bool, labels: bool) -> Result<Line, Failure> {
    let columns = simulated::columns(HAPLOTYPES, SITES, 20);
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("panel.tsi");
    files::write_atomically(&path, &encode_table(&panel::table(&columns)?))?;
    let path = path.display().to_string();
    let server = BlindProcess::start_with(["--search", &path].into_iter().chain(labels.then_some("--malicious")))?;
    let questions = panel::questions(&columns, LENGTH, QUESTIONS);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (answers, mut seconds, sent) = runtime.block_on(ask(server.url(), &questions, hidden))?;
    let equal =
        questions.iter().zip(&answers).filter(|(question, found)| plain(&columns, **question) == **found).count();
    seconds.sort_by(f64::total_cmp);
    let (exact, present) = (equal == QUESTIONS, answers.iter().filter(|count| **count > 0).count());
    let place = if hidden { format!(", each hidden among {} places", SITES - LENGTH + 1) } else { String::new() };
    Ok(Line {
        job: "search",
        mode,
        right: exact,
        exact,
        seconds: seconds[seconds.len() / 2],
        server_saw_bytes: sent,
        paper_seconds: PAPER_SECONDS,
        what: format!(
            "{QUESTIONS} questions of {LENGTH} alleles{place}, {present} of which occur, in {HAPLOTYPES} simulated haplotypes, by process {}; {equal} counts equal the plain ones",
            server.pid()
        ),
    })
}

/// The number of haplotypes with these alleles, counted one by one.
fn plain(columns: &[Vec<bool>], (start, pattern): (usize, u128)) -> u64 {
    let has = |haplotype: &usize| (0..LENGTH).all(|i| columns[start + i][*haplotype] == (pattern >> i & 1 == 1));
    (0..HAPLOTYPES).filter(has).count() as u64
}

/// Counts, seconds of each question, and bytes that the server received.
async fn ask(url: &str, questions: &[(usize, u128)], hidden: bool) -> Result<(Vec<u64>, Vec<f64>, u64), Failure> {
    let identity = Arc::new(Identity::generate(&mut randomness::generator()?));
    let wanted = Wanted { table: None, labels: false, keep: false };
    let remote = Remote::reach(url, &ClientTls::System, None, &identity, &wanted).await?;
    let mut connection = remote.connection();
    let (mut counts, mut seconds) = (Vec::new(), Vec::new());
    for (start, pattern) in questions {
        let started = Instant::now();
        let question = Question::Window { start: *start, length: LENGTH, pattern: *pattern };
        let found = match hidden {
            true => remote.ask_in_cell(&mut connection, &question, Granularity::Count).await?,
            false => {
                remote.ask(&mut connection, &question, Wish { granularity: Granularity::Count, longest: false }).await?
            }
        };
        seconds.push(started.elapsed().as_secs_f64());
        counts.push(if let MatchResult::Present(Some(count)) = found { count } else { 0 });
    }
    Ok((counts, seconds, connection.sent_bytes()))
}
