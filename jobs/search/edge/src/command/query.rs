//! `tobari search query`: encrypted questions to one or several servers.

use super::answers::{self, Answer, AnswerView};
use super::arguments::QueryArguments;
use super::question::{self, OwnedQuestion};
use super::remote::{self, Mode, Remote, Unread};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tobari_command::output::{self, Failure};
use tobari_search::client::MatchResult;
use tobari_search::question::Wish;
use tobari_search::server::Granularity;
use tokio::sync::{Semaphore, mpsc};

/// The most questions with answers that are not yet read and shown, and the most KiB of those
/// answers. At the limit the next question waits, and the server may see the client's speed.
const UNREAD: usize = 256;
const UNREAD_KIB: usize = 512 << 10;

/// The questions to one server.
struct Job {
    remote: Remote,
    questions: Vec<OwnedQuestion>,
}

/// The answer of all servers together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Merged {
    /// The sum of the servers' counts of the whole pattern.
    count: u64,
    found: bool,
    /// The number of alleles that match, counted from the first, at the server with the longest
    /// match.
    longest: usize,
    errors: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(arguments: &QueryArguments) -> Result<ExitCode, Failure> {
    if arguments.hidden && arguments.longest {
        let text = "--hidden does not work with --longest, where every number of sites would be a question: leave one of them out";
        return Err(Failure::Call(text.to_owned()));
    }
    if arguments.hidden && arguments.remote.decoys > 1 {
        let text = "--hidden hides the place among all places: leave out --decoys";
        return Err(Failure::Call(text.to_owned()));
    }
    remote::check_decoys(&arguments.remote)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(ask(arguments))
}

async fn ask(arguments: &QueryArguments) -> Result<ExitCode, Failure> {
    let mut jobs = Vec::new();
    let mut names: Option<Vec<String>> = None;
    let mut errors = Vec::new();
    for remote in remote::all(&arguments.remote).await? {
        let of = |remote: Remote| {
            let asked = question::questions(&arguments.question, remote.told().catalogue.sites());
            let asked = asked.map_err(|failure| match failure {
                Failure::Call(text) => Failure::Call(format!("{}: {text}", remote.url)),
                Failure::Work(text) => Failure::Work(format!("{}: {text}", remote.url)),
            })?;
            let (names, questions): (Vec<_>, Vec<_>) =
                asked.into_iter().map(|asked| (asked.name, asked.question)).unzip();
            Ok((names, Job { remote, questions }))
        };
        match remote.and_then(of) {
            // with one server, the exit status says that the call was wrong
            Err(failure) if arguments.remote.servers.len() == 1 => return Err(failure),
            Err(failure) => errors.push(failure.to_string()),
            Ok((these, job)) => {
                names.get_or_insert(these);
                jobs.push(job);
            }
        }
    }
    let Some(names) = names else { return Err(Failure::Work(errors.join("; "))) };
    if arguments.remote.decoys > 1 {
        check_places(arguments, &jobs)?;
    }
    warn(arguments, &jobs);
    let failed = ask_all(arguments, jobs, &names, &errors).await?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Rejects questions that would show the server two lists of places, before sending anything.
fn check_places(arguments: &QueryArguments, jobs: &[Job]) -> Result<(), Failure> {
    let wish = wish(arguments);
    for (job, question) in jobs.iter().flat_map(|job| job.questions.iter().map(move |question| (job, question))) {
        job.remote.prepare(&question.borrow(), wish)?;
    }
    Ok(())
}

/// The options of all questions.
fn wish(arguments: &QueryArguments) -> Wish {
    let granularity = if arguments.boolean { Granularity::Boolean } else { Granularity::Count };
    Wish { granularity, longest: arguments.longest, places: arguments.remote.decoys }
}

/// Prints what is public, and what is not exact.
fn warn(arguments: &QueryArguments, jobs: &[Job]) {
    for job in jobs.iter().filter(|_| !arguments.format.is_json()) {
        let mode = match job.remote.told().mode {
            Mode::Plain => "plain, for clients that follow the protocol",
            Mode::Labels(_) => "labels: each pattern or key is evaluated before it is asked for",
        };
        output::say(format!("{}: mode {mode}", job.remote.url));
    }
    let sites = jobs.iter().any(|job| job.remote.told().catalogue.sites().is_some());
    if !arguments.hidden && sites && !arguments.format.is_json() {
        let labels = jobs.iter().any(|job| matches!(job.remote.told().mode, Mode::Labels(_)));
        output::say(match arguments.remote.decoys {
            1 if labels => "the place is public to the server, the alleles are not",
            1 => "the place is public to the server, the alleles are not (--hidden hides the place)",
            _ => {
                "decoys hide this place for one question: another place nearby, another table, or the same \
                 table after it has changed shows the server which place is meant (--hidden does not)"
            }
        });
    }
}

/// Asks every question at every server, several at once, and shows the answers in the order of the
/// questions. Returns whether anything failed.
async fn ask_all(
    arguments: &QueryArguments,
    jobs: Vec<Job>,
    names: &[String],
    errors: &[String],
) -> Result<bool, Failure> {
    let (wish, hidden) = (wish(arguments), arguments.hidden);
    let (jobs, next) = (Arc::new(jobs), Arc::new(AtomicUsize::new(0)));
    let workers = usize::from(arguments.parallel).min(names.len());
    let (sender, mut answers) = mpsc::channel(4 * workers.max(1));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let limits = [UNREAD, UNREAD_KIB, cores].map(|most| Arc::new(Semaphore::new(most)));
    for _ in 0..workers {
        let (jobs, next, sender, total) = (Arc::clone(&jobs), Arc::clone(&next), sender.clone(), names.len());
        let [unread, room, turns] = limits.each_ref().map(Arc::clone);
        tokio::spawn(async move {
            let mut connections: Vec<_> = jobs.iter().map(|job| job.remote.connection()).collect();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= total || sender.is_closed() {
                    return;
                }
                let Ok(place) = Arc::clone(&unread).acquire_owned().await else { return };
                let mut fetched = Vec::with_capacity(jobs.len());
                for (job, connection) in jobs.iter().zip(&mut connections) {
                    fetched.push(match job.questions.get(index) {
                        Some(question) if hidden => {
                            job.remote.fetch_hidden(connection, &question.borrow(), wish.granularity).await
                        }
                        Some(question) => job.remote.fetch(connection, &question.borrow(), wish).await,
                        None => Err(Failure::Work("has no such question".to_owned())),
                    });
                }
                let kib: usize = fetched.iter().flatten().map(|unread| unread.bytes() >> 10).sum();
                let Ok(held) = Arc::clone(&room).acquire_many_owned(kib.min(UNREAD_KIB) as u32).await else { return };
                // read beside the next question, which does not wait: no server sees the outcome of
                // its answer
                let (jobs, sender, turns) = (Arc::clone(&jobs), sender.clone(), Arc::clone(&turns));
                tokio::spawn(async move {
                    let _places = (place, held, turns.acquire_owned().await);
                    let read = tokio::task::spawn_blocking(move || merged(&jobs, fetched)).await;
                    let merged = read.unwrap_or_else(|_| Merged {
                        errors: vec!["reading the answer failed: please report it".to_owned()],
                        ..Merged::default()
                    });
                    // the receiver is gone if the command ends with an error
                    _ = sender.send((index, merged)).await;
                });
            }
        });
    }
    drop(sender);
    let format = arguments.format.format();
    // the sites of the first table number the questions in the output
    let told = jobs.first().map(|job| job.remote.told());
    let sites = told.as_ref().and_then(|told| told.catalogue.sites());
    answers::begin(format, sites)?;
    let (mut waiting, mut shown, mut failed) = (BTreeMap::new(), 0, !errors.is_empty());
    errors.iter().for_each(|error| output::say(format!("tobari: {error}")));
    while let Some((index, merged)) = answers.recv().await {
        waiting.insert(index, merged);
        while let Some(merged) = waiting.remove(&shown) {
            failed |= !merged.errors.is_empty();
            let (name, answered) = (&names[shown], jobs.len() - merged.errors.len());
            merged.errors.iter().for_each(|error| output::say(format!("tobari: {name}: {error}")));
            let several = arguments.remote.servers.len() > 1;
            let unreached = if several { errors } else { &[] };
            let answer = Answer {
                name,
                // all servers got the same question, each with its own numbers of sites
                question: jobs.first().and_then(|job| job.questions.get(shown)),
                told: merged.told(arguments, answered),
                errors: &unreached.iter().chain(&merged.errors).cloned().collect::<Vec<_>>(),
                servers: several.then_some(answered),
            };
            answers::show(format, sites, &answer)?;
            shown += 1;
        }
    }
    if shown < names.len() {
        return Err(Failure::Work(format!("expected {} answers, found {shown}", names.len())));
    }
    Ok(failed)
}

/// Reads the answers of all servers to a question.
fn merged(jobs: &[Job], fetched: Vec<Result<Unread, Failure>>) -> Merged {
    let mut merged = Merged::default();
    for (job, fetched) in jobs.iter().zip(fetched) {
        let found = fetched.and_then(|unread| unread.read());
        merged.add(found.map_err(|failure| format!("{}: {failure}", job.remote.url)));
    }
    merged
}

impl Merged {
    fn add(&mut self, answer: Result<MatchResult, String>) {
        match answer {
            Ok(MatchResult::Absent) => {}
            Ok(MatchResult::Present(count)) => {
                self.found = true;
                self.count += count.unwrap_or(0);
            }
            Ok(MatchResult::Longest(sites, _)) => self.longest = self.longest.max(sites),
            Err(error) => self.errors.push(error),
        }
    }

    /// The answer of all servers together; none if no server answered.
    fn told(&self, arguments: &QueryArguments, answered: usize) -> Option<AnswerView> {
        (answered > 0).then_some(match (arguments.longest, arguments.boolean) {
            (true, _) => AnswerView::Longest(self.longest),
            (_, true) => AnswerView::Whether(self.found),
            (_, false) => AnswerView::Count(self.count),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_servers_are_added_up_and_the_longest_is_the_longest_of_any() {
        let mut merged = Merged::default();
        let answers = [
            MatchResult::Present(Some(3)),
            MatchResult::Absent,
            MatchResult::Present(Some(14)),
            MatchResult::Longest(4, None),
        ];
        answers.into_iter().for_each(|found| merged.add(Ok(found)));
        merged.add(Err("down".to_owned()));
        assert_eq!(merged, Merged { count: 17, found: true, longest: 4, errors: vec!["down".to_owned()] });
    }
}
