//! `tobari search query`: encrypted questions to one or several servers.

use super::answers::{self, Answer, AnswerView};
use super::arguments::QueryArguments;
use super::assembly::{self, Assemblies};
use super::place::{self, Shown, Shows, Sizes, Turn};
use super::question::{self, Asked, OwnedQuestion};
use super::remote::{self, HiddenQuestion, Mode, Remote, TableInfo, Unread};
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tobari_client::HttpConnection;
use tobari_command::output::{self, Failure};
use tobari_search::client::MatchResult;
use tobari_search::hidden::numbers::Kind;
use tobari_search::question::Wish;
use tobari_search::server::Granularity;
use tobari_search::table::is_mitochondrial;
use tokio::sync::{Semaphore, mpsc};

/// The most questions with answers that are not yet read and shown, and the most KiB of those
/// answers. At the limit the next question waits, and the server may see the client's speed.
const UNREAD: usize = 256;
const UNREAD_KIB: usize = 512 << 10;

/// The questions to one server.
struct Job {
    remote: Remote,
    asked: Vec<Asked>,
    /// What the server sees of the place of each kind of question.
    shown: BTreeMap<Kind, Shown>,
}

/// A list of questions to all servers, in the order of sending.
struct Plan {
    jobs: Vec<Job>,
    turns: Vec<Turn>,
    /// The number of common places of each cell.
    sizes: Sizes,
    wish: Wish,
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
    if arguments.longest && !arguments.place.public {
        let text = "--longest needs --public: with the place hidden, every number of sites would be a question";
        return Err(Failure::Call(text.to_owned()));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(ask(arguments))
}

async fn ask(arguments: &QueryArguments) -> Result<ExitCode, Failure> {
    let (mut jobs, mut errors) = (Vec::<Job>::new(), Vec::new());
    for remote in remote::all(&arguments.remote).await? {
        match remote.and_then(|remote| Job::new(remote, arguments)) {
            // with one server, the exit status says that the call was wrong
            Err(failure) if arguments.remote.servers.len() == 1 => return Err(failure),
            Err(failure) => errors.push(failure.to_string()),
            Ok(job) => jobs.push(job),
        }
    }
    let Some(first) = jobs.first() else { return Err(Failure::Work(errors.join("; "))) };
    check_assemblies(&jobs)?;
    // where places hide, a site that no table lists is asked too
    let hides = |job: &Job| job.shown.values().any(|shown| *shown != Shown::Place);
    let wrong = |job: &Job| !hides(job) && job.asked.iter().all(|asked| asked.question.is_err());
    if arguments.question.queries.is_none() && jobs.iter().all(wrong) {
        let text = first.asked.iter().find_map(|asked| asked.question.as_ref().err()).cloned().unwrap_or_default();
        return Err(Failure::Call(format!("{}: {text}", first.remote.url)));
    }
    let told: Vec<_> = jobs.iter().map(|job| job.remote.told()).collect();
    let list: Vec<Shows> = (0..first.asked.len()).map(|index| in_cell(&jobs, index)).collect();
    let sizes = place::sizes(&told, &list);
    let (list, sizes) = match arguments.question.queries {
        Some(_) => refuse_small(&mut jobs, sizes, arguments.place.least_places),
        None => place::check(&sizes, arguments.place.least_places).map(|()| (list, sizes))?,
    };
    let turns = place::turns(&list);
    let granularity = if arguments.boolean { Granularity::Boolean } else { Granularity::Count };
    let plan = Plan { jobs, turns, sizes, wish: Wish { granularity, longest: arguments.longest } };
    if !arguments.format.is_json() {
        plan.warn();
    }
    let failed = ask_all(arguments, Arc::new(plan), &errors).await?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Checks that the tables are of one assembly, and names the tables that record none.
fn check_assemblies(jobs: &[Job]) -> Result<(), Failure> {
    let tables: Vec<_> = jobs.iter().map(|job| (&*job.remote.url, job.remote.told())).collect();
    let sites: Vec<_> = tables.into_iter().filter(|(_, told)| told.catalogue.sites().is_some()).collect();
    // GRCh37 and hg19 differ in the mitochondrial sequence alone
    let lists_it = |told: &TableInfo| {
        told.catalogue.sites().is_some_and(|sites| sites.chromosomes().any(|(name, _)| is_mitochondrial(name)))
    };
    let chromosome = if sites.iter().filter(|(_, told)| lists_it(told)).count() > 1 { "M" } else { "1" };
    let remedy = |what| Failure::Work(format!("{what}: ask about each assembly by itself, with its own positions"));
    let Assemblies { unknown, .. } = assembly::of(&sites, None, chromosome).map_err(remedy)?;
    if sites.len() > 1 {
        for url in unknown {
            output::say(format!(
                "{url}: the table does not record its assembly: the sum is right only if it is that of the others"
            ));
        }
    }
    Ok(())
}

/// The cell and number of sites of a question, if a server that gets it sees its cell.
fn in_cell(jobs: &[Job], index: usize) -> Shows {
    let of = |job: &Job| {
        let asked = job.asked.get(index).filter(|asked| !asked.refused)?;
        let at = asked.at.clone()?;
        (job.shown(kind(asked)?) == Shown::Cell).then_some(at)
    };
    jobs.iter().find_map(of)
}

/// Refuses every line of a list whose cell has too few places, at the servers that would see the
/// cell. Returns the cells and sizes of the others. What is refused follows from the tables' public
/// lists of sites, so it tells the servers nothing.
fn refuse_small(jobs: &mut [Job], sizes: Sizes, least: usize) -> (Vec<Shows>, Sizes) {
    for job in jobs.iter_mut() {
        for index in 0..job.asked.len() {
            let asked = &job.asked[index];
            let seen = kind(asked).is_some_and(|kind| job.shown(kind) == Shown::Cell);
            let few = asked.at.as_ref().filter(|_| seen).and_then(|at| Some((at, *sizes.get(at)?)));
            if let Some(Err(few)) = few.map(|(at, places)| place::check_cell(at, places, least)) {
                job.asked[index].refuse(&few);
            }
        }
    }
    let count = jobs.first().map_or(0, |job| job.asked.len());
    let list = (0..count).map(|index| in_cell(jobs, index)).collect();
    (list, sizes.into_iter().filter(|(_, places)| *places >= least).collect())
}

impl Job {
    /// The questions to a server, and what it will see of their places.
    fn new(remote: Remote, arguments: &QueryArguments) -> Result<Self, Failure> {
        let (url, told) = (&remote.url, remote.told());
        let at = |failure: Failure| match failure {
            Failure::Call(text) => Failure::Call(format!("{url}: {text}")),
            Failure::Work(text) => Failure::Work(format!("{url}: {text}")),
        };
        let mut asked = question::questions(&arguments.question, told.catalogue.sites()).map_err(at)?;
        let mut all = BTreeMap::new();
        // in a list, only the lines are refused that this server cannot hide
        let lines = arguments.question.queries.is_some() && !told.hidden.is_empty();
        for of in asked.iter().filter_map(kind).collect::<BTreeSet<Kind>>() {
            let hidden = |shown| match shown {
                Shown::Nothing => place::check_whole(&told, of, arguments.place.least_places).map(|()| shown),
                _ => Ok(shown),
            };
            match place::shown(&arguments.place, &told, of).and_then(hidden) {
                Ok(shown) => drop(all.insert(of, shown)),
                Err(failure) if lines => {
                    let refused = asked.iter_mut().filter(|asked| kind(asked) == Some(of));
                    refused.for_each(|asked| asked.refuse(&failure.to_string()));
                }
                Err(failure) => return Err(at(failure)),
            }
        }
        Ok(Self { remote, asked, shown: all })
    }

    /// What the server sees of the place of a question.
    fn shown(&self, kind: Kind) -> Shown {
        self.shown.get(&kind).copied().unwrap_or(Shown::Place)
    }

    /// Asks the server one turn of the list. A question that its table does not answer is asked
    /// without meaning, so that the server does not learn that. None for a turn that needs no
    /// answer.
    async fn fetch(&self, connection: &mut HttpConnection, turn: &Turn, wish: Wish) -> Option<Result<Unread, Failure>> {
        let asked = turn.index.and_then(|index| self.asked.get(index));
        let question = asked.and_then(|asked| asked.question.as_ref().ok());
        let at = asked.map_or(turn.at.as_ref(), |asked| asked.at.as_ref());
        let kind = question.map(|question| Kind::of(&question.borrow()));
        let kind = kind.or_else(|| at.map(|(_, length)| Kind::Windows(*length)));
        let shown = kind.map_or(Shown::Place, |kind| self.shown(kind));
        let missing = asked.map(|asked| Err(Failure::Work(asked.question.clone().err().unwrap_or_default())));
        if asked.is_some_and(|asked| asked.refused) {
            return missing;
        }
        let fetched = match (shown, kind) {
            (Shown::Place, _) | (_, None) => {
                let Some(question) = question else { return missing };
                self.remote.fetch(connection, &question.borrow(), wish).await
            }
            // questions that fill a cell up are for servers that see cells
            (Shown::Nothing, _) if turn.index.is_none() => return None,
            (_, Some(kind)) => {
                let cell = at.map(|(cell, _)| cell).filter(|_| shown == Shown::Cell);
                let question = question.map(OwnedQuestion::borrow);
                self.remote.fetch_hidden(connection, &HiddenQuestion { kind, cell, question }, wish.granularity).await
            }
        };
        if question.is_some() || fetched.is_err() { Some(fetched) } else { missing }
    }
}

/// The kind of a question, also of one that the table does not answer.
fn kind(asked: &Asked) -> Option<Kind> {
    match &asked.question {
        Ok(question) => Some(Kind::of(&question.borrow())),
        Err(_) => asked.at.as_ref().map(|(_, length)| Kind::Windows(*length)),
    }
}

impl Plan {
    /// The number of places among which a question hides from the servers that are asked; none for
    /// a public place, and for a key.
    fn among(&self, index: usize) -> Option<usize> {
        let of = |job: &Job| {
            let asked = job.asked.get(index)?;
            let kind = kind(asked)?;
            match job.shown(kind) {
                Shown::Place => None,
                Shown::Cell => self.sizes.get(asked.at.as_ref()?).copied(),
                Shown::Nothing => place::whole(&job.remote.told(), kind),
            }
        };
        self.jobs.iter().map(of).min().flatten()
    }

    /// Prints what is public, and what is not exact.
    fn warn(&self) {
        for job in &self.jobs {
            let mode = match job.remote.told().mode {
                Mode::Plain => "plain, for clients that follow the protocol",
                Mode::Labels(_) => "labels: each pattern or key is evaluated before it is asked for",
            };
            output::say(format!("{}: mode {mode}", job.remote.url));
        }
        let all: BTreeSet<Shown> = self.jobs.iter().flat_map(|job| job.shown.values().copied()).collect();
        let sites = self.jobs.iter().any(|job| job.remote.told().catalogue.sites().is_some());
        if sites && all.contains(&Shown::Place) {
            output::say("the place is public to the server, the alleles are not");
        }
        if all.contains(&Shown::Cell) {
            let places = self.sizes.values().min().copied().unwrap_or(0);
            output::say(match self.sizes.first_key_value() {
                Some(((cell, _), _)) if self.sizes.len() == 1 => format!(
                    "the place hides among {places} places: the server sees the cell {cell} and the number of sites"
                ),
                _ => format!(
                    "each place hides among {places} places or more: the server sees {} cells and numbers of sites, and \
                     as many questions in each",
                    self.sizes.len()
                ),
            });
        }
        if sites && all.contains(&Shown::Nothing) {
            let places = (0..self.jobs[0].asked.len()).filter_map(|index| self.among(index)).min().unwrap_or(0);
            output::say(format!(
                "the place hides among all {places} places of a table: the server sees the number of sites"
            ));
        }
    }
}

/// Sends every turn to every server, several at once, and shows the answers in the order of the
/// questions. Returns whether anything failed.
async fn ask_all(arguments: &QueryArguments, plan: Arc<Plan>, errors: &[String]) -> Result<bool, Failure> {
    let next = Arc::new(AtomicUsize::new(0));
    let names: Vec<&str> = plan.jobs.first().into_iter().flat_map(|job| &job.asked).map(|asked| &*asked.name).collect();
    let workers = usize::from(arguments.parallel).min(plan.turns.len());
    let (sender, mut answers) = mpsc::channel(4 * workers.max(1));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let limits = [UNREAD, UNREAD_KIB, cores].map(|most| Arc::new(Semaphore::new(most)));
    for _ in 0..workers {
        let (plan, next, sender) = (Arc::clone(&plan), Arc::clone(&next), sender.clone());
        let [unread, room, turns] = limits.each_ref().map(Arc::clone);
        tokio::spawn(async move {
            let mut connections: Vec<_> = plan.jobs.iter().map(|job| job.remote.connection()).collect();
            while let Some(turn) = plan.turns.get(next.fetch_add(1, Ordering::Relaxed)) {
                if sender.is_closed() {
                    return;
                }
                let Ok(place) = Arc::clone(&unread).acquire_owned().await else { return };
                let mut fetched = Vec::with_capacity(plan.jobs.len());
                for (job, connection) in plan.jobs.iter().zip(&mut connections) {
                    fetched.push(job.fetch(connection, turn, plan.wish).await);
                }
                let kib: usize = fetched.iter().flatten().flatten().map(|unread| unread.bytes() >> 10).sum();
                let Ok(held) = Arc::clone(&room).acquire_many_owned(kib.min(UNREAD_KIB) as u32).await else { return };
                let Some(index) = turn.index else { continue };
                // read beside the next question, which does not wait: no server sees the outcome of
                // its answer
                let (plan, sender, turns) = (Arc::clone(&plan), sender.clone(), Arc::clone(&turns));
                tokio::spawn(async move {
                    let _places = (place, held, turns.acquire_owned().await);
                    let read = tokio::task::spawn_blocking(move || merged(&plan.jobs, fetched)).await;
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
    let told = plan.jobs.first().map(|job| job.remote.told());
    let sites = told.as_ref().and_then(|told| told.catalogue.sites());
    answers::begin(format, sites)?;
    let (mut waiting, mut shown, mut failed) = (BTreeMap::new(), 0, !errors.is_empty());
    errors.iter().for_each(|error| output::say(format!("tobari: {error}")));
    while let Some((index, merged)) = answers.recv().await {
        waiting.insert(index, merged);
        while let Some(merged) = waiting.remove(&shown) {
            failed |= !merged.errors.is_empty();
            let (name, answered) = (names[shown], plan.jobs.len() - merged.errors.len());
            merged.errors.iter().for_each(|error| output::say(format!("tobari: {name}: {error}")));
            let several = arguments.remote.servers.len() > 1;
            let unreached = if several { errors } else { &[] };
            let asked = plan.jobs.first().and_then(|job| job.asked.get(shown));
            let answer = Answer {
                name,
                // all servers got the same question, each with its own numbers of sites
                question: asked.and_then(|asked| asked.question.as_ref().ok()),
                told: merged.told(arguments, answered),
                errors: &unreached.iter().chain(&merged.errors).cloned().collect::<Vec<_>>(),
                servers: several.then_some(answered),
                among: plan.among(shown).filter(|_| answered > 0),
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
fn merged(jobs: &[Job], fetched: Vec<Option<Result<Unread, Failure>>>) -> Merged {
    let mut merged = Merged::default();
    for (job, fetched) in jobs.iter().zip(fetched) {
        let none = || Err(Failure::Work("has no such question".to_owned()));
        let found = fetched.unwrap_or_else(none).and_then(|unread| unread.read());
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
