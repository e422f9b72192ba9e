//! `tobari-bench call --mls`: the costs of joining a call whose members agree on keys, and of
//! removing a member.
//!
//! **Measured.** Room and members are in this process, without a network. Five times a member joins
//! and is removed. The time of a join is the sum of consecutive steps: the new member's offer, the
//! commit by the member that the room asks, the room's work, and the new roster's keys at the new
//! member or at another member, whichever is later. The bytes are those on the wire.
//!
//! **Not included.** The round trip, and two waits that `join_bound` and `removal_bound` add. Joins
//! wait up to a second to be committed together; a removal does not wait, and a leave waits at most
//! a quarter of a second, which is in neither bound. A roster takes effect fifteen ticks after its
//! announcement.
//!
//! **Simplified.** All but three members exist only as key packages: they are in the tree, but
//! process no messages.
//!
//! With `--live` the same happens over sockets, with all waits ([`super::live`]).

use super::super::line::{self, summary};
use super::super::table::Table;
use super::show;
use crate::bench::call::CallBench;
use chacha20::ChaCha20Rng;
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tobari_call::TICK_MS;
use tobari_call::live::attack::proven;
use tobari_call::live::{
    Keys, LiveEvent, LiveLimits, LiveMember, LiveRoom, News, Outgoing, Proven, RoomLink, Settings, group,
};
use tobari_call::server::Fault;
use tobari_command::output::{self, Failure};
use tobari_command::randomness;
use tobari_curve::wire::RoomId;
use tobari_host::files;
use tobari_lattice::RingKernels;

const RUNS: usize = 5;
/// The member that commits, and another member that processes the commits.
const COMMITTER: u16 = 0;
const OTHER: u16 = 1;
/// The longest wait until joins are committed together, and the time from the announcement of a
/// roster until it takes effect.
const WAIT_MS: f64 = 1_000.0;
const LEAD_MS: f64 = 15.0 * TICK_MS as f64;

pub(super) type Line = line::Line<Params>;

/// The parameters of a figure.
#[derive(Clone, Serialize)]
pub(super) struct Params {
    mode: String,
    members: u16,
}

/// Checks that this build supports an option.
pub(super) fn check(option: &str) -> Result<(), Failure> {
    if group::HAS_GROUPS {
        return Ok(());
    }
    Err(Failure::Call(format!("{option}: expected a build with the feature `mls`, found one without")))
}

/// Measures and prints.
pub(super) fn run(arguments: &CallBench) -> Result<ExitCode, Failure> {
    check("--mls")?;
    let mut figures: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    let mut call = Call::of(arguments.group)?;
    for run in 0..RUNS {
        output::status(&format!("run {} of {RUNS}", run + 1));
        for (what, unit, value) in call.come_and_go()? {
            figures.entry((what, unit)).or_default().push(value);
        }
    }
    output::status("");
    let lines: Vec<Line> =
        figures.into_iter().map(|((what, unit), values)| line(arguments.group, what, unit, values)).collect();
    give(arguments, &lines, "mls.csv")
}

/// Prints lines, and writes their table if a folder is given.
pub(super) fn give(arguments: &CallBench, lines: &[Line], file: &str) -> Result<ExitCode, Failure> {
    for line in lines.iter().filter(|_| arguments.common.json) {
        output::json(line)?;
    }
    let table = table(lines);
    show(&table, arguments.common.json);
    if let Some(folder) = &arguments.common.output {
        std::fs::create_dir_all(folder)?;
        files::write_atomically(&folder.join(file), table.csv().as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The values of a room with `members` members, all in one thread.
pub(super) fn line(members: u16, what: &str, unit: &str, values: Vec<f64>) -> Line {
    let runs = values.len();
    let (median, min, max) = summary(values);
    Line {
        job: "call".to_owned(),
        what: what.to_owned(),
        engine: "tobari".to_owned(),
        params: Params { mode: "mask".to_owned(), members },
        backend: RingKernels::best().name.to_owned(),
        threads: 1,
        unit: unit.to_owned(),
        median,
        min,
        max,
        runs,
        labels: vec!["no-network".to_owned()],
    }
}

fn table(lines: &[Line]) -> Table {
    let mut table =
        Table::new("Keys that members agree on", &["members", "what", "median", "min", "max", "unit", "runs"]);
    for line in lines {
        let value = |value: f64| format!("{value:.3}");
        table.push(vec![
            line.params.members.to_string(),
            line.what.clone(),
            value(line.median),
            value(line.min),
            value(line.max),
            line.unit.clone(),
            line.runs.to_string(),
        ]);
    }
    table
}

/// A room, and its active members.
struct Call {
    link: RoomLink,
    join: Proven,
    room: LiveRoom,
    now: Duration,
    rng: ChaCha20Rng,
    members: BTreeMap<u16, LiveMember>,
    costs: Costs,
}

/// The costs of one change so far.
#[derive(Default)]
struct Costs {
    /// Milliseconds and bytes by member and by kind of the processed message.
    taken: BTreeMap<(u16, u8), (f64, usize)>,
    room_ms: f64,
    answer_bytes: usize,
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let begun = Instant::now();
    let result = work();
    (result, begun.elapsed().as_secs_f64() * 1e3)
}

impl Call {
    /// A call of `members` members, one of which has not joined yet.
    fn of(members: u16) -> Result<Self, Failure> {
        let mut rng = randomness::generator()?;
        let settings = Settings { keys: Keys::Group, speakers: members, ..Settings::default() };
        let link = RoomLink::new("http://bench", "bench".parse()?, settings, &mut rng);
        let join = proven(&link, true);
        let limits = LiveLimits { hello: Duration::from_secs(3600), ..LiveLimits::default() };
        let refused = |refusal: tobari_call::server::Refusal| Failure::Work(refusal.to_string());
        let room = LiveRoom::open(RoomId([1; 8]), &join, limits, Duration::ZERO).map_err(refused)?;
        let (now, costs) = (Duration::ZERO, Costs::default());
        let mut call = Self { link, join, room, now, rng, members: BTreeMap::new(), costs };
        for number in 0..members - 1 {
            let (found, member) = call.enter()?;
            if [COMMITTER, OTHER].contains(&number) {
                call.members.insert(found, member);
            }
        }
        call.settle()?;
        Ok(call)
    }

    /// A new member joins, and offers its key package.
    fn enter(&mut self) -> Result<(u16, LiveMember), Failure> {
        let refused = |refusal: tobari_call::server::Refusal| Failure::Work(refusal.to_string());
        let welcome = self.room.join(&self.join, self.now).map_err(refused)?;
        let member = LiveMember::new(&self.link, "somebody", true, &welcome, &mut self.rng);
        let mut member = member.ok_or_else(|| Failure::Work("a member that cannot be".to_owned()))?;
        while let Some(Outgoing::Binary(bytes)) = member.poll_outgoing() {
            self.room.note(welcome.member, &bytes, self.now);
        }
        Ok((welcome.member, member))
    }

    /// Lets time pass until nothing more happens.
    fn settle(&mut self) -> Result<(), Failure> {
        for _ in 0..4 {
            self.now += Duration::from_millis(600);
            while let Some(event) = self.poll() {
                self.follow(event)?;
            }
        }
        Ok(())
    }

    fn poll(&mut self) -> Option<LiveEvent> {
        let (room, now) = (&mut self.room, self.now);
        let (event, milliseconds) = timed(|| room.poll(now));
        // ticks have their own cost, with or without a group
        if !matches!(event, Some(LiveEvent::Closed { .. })) {
            self.costs.room_ms += milliseconds;
        }
        event
    }

    fn follow(&mut self, event: LiveEvent) -> Result<(), Failure> {
        match event {
            LiveEvent::Send { members, bytes } => {
                for number in members {
                    self.give(number, &bytes)?;
                }
                Ok(())
            }
            LiveEvent::Removed { fault, .. } if fault != Fault::Ejected => Err(Failure::Work(fault.to_string())),
            _ => Ok(()),
        }
    }

    fn give(&mut self, number: u16, bytes: &[u8]) -> Result<(), Failure> {
        let Some(member) = self.members.get_mut(&number) else { return Ok(()) };
        let (_, milliseconds) = timed(|| member.binary(bytes));
        self.costs.taken.insert((number, bytes[1]), (milliseconds, bytes.len()));
        while let Some(news) = member.poll_news() {
            if let News::Alarm(alarm) = news {
                return Err(Failure::Work(format!("member {number}: {alarm:?}")));
            }
        }
        while let Some(Outgoing::Binary(bytes)) = member.poll_outgoing() {
            self.costs.answer_bytes += bytes.len();
            let (room, now) = (&mut self.room, self.now);
            let ((), milliseconds) = timed(|| room.note(number, &bytes, now));
            self.costs.room_ms += milliseconds;
        }
        Ok(())
    }

    fn come_and_go(&mut self) -> Result<Vec<(&'static str, &'static str, f64)>, Failure> {
        let mut figures = Vec::new();
        let (entered, offer_ms) = timed(|| self.enter());
        let (number, member) = entered?;
        self.members.insert(number, member);
        self.costs = Costs::default();
        self.settle()?;
        let costs = std::mem::take(&mut self.costs);
        let of = |member: u16, kind: u8| costs.taken.get(&(member, kind)).copied();
        let missing = || Failure::Work("expected a commit and a welcome, found none".to_owned());
        let (commit_ms, task_bytes) = of(COMMITTER, group::TASK).ok_or_else(missing)?;
        let (welcome_ms, welcome_bytes) = of(number, group::STEP).ok_or_else(missing)?;
        let (follow_ms, step_bytes) = of(OTHER, group::STEP).ok_or_else(missing)?;
        let (own_ms, _) = of(COMMITTER, group::STEP).ok_or_else(missing)?;
        let join_ms = offer_ms + commit_ms + costs.room_ms + welcome_ms.max(follow_ms).max(own_ms);
        figures.extend([
            ("join_offer", "ms", offer_ms),
            ("join_commit", "ms", commit_ms),
            ("join_room", "ms", costs.room_ms),
            ("join_welcome", "ms", welcome_ms),
            ("join_follow", "ms", follow_ms.max(own_ms)),
            ("join", "ms", join_ms),
            ("join_bound", "ms", join_ms + WAIT_MS + LEAD_MS),
            ("join_task_bytes", "B", task_bytes as f64),
            ("join_answer_bytes", "B", costs.answer_bytes as f64),
            ("join_step_bytes", "B", step_bytes as f64),
            ("join_welcome_bytes", "B", welcome_bytes as f64),
        ]);

        self.members.remove(&number);
        self.room.remove(number, Fault::Ejected);
        // within the tick: nothing is waited for
        while let Some(event) = self.poll() {
            self.follow(event)?;
        }
        let costs = std::mem::take(&mut self.costs);
        let of = |member: u16, kind: u8| costs.taken.get(&(member, kind)).copied();
        let (commit_ms, _) = of(COMMITTER, group::TASK).ok_or_else(missing)?;
        let (follow_ms, step_bytes) = of(OTHER, group::STEP).ok_or_else(missing)?;
        let (own_ms, _) = of(COMMITTER, group::STEP).ok_or_else(missing)?;
        let removal_ms = commit_ms + costs.room_ms + follow_ms.max(own_ms);
        figures.extend([
            ("removal_commit", "ms", commit_ms),
            ("removal_follow", "ms", follow_ms.max(own_ms)),
            ("removal", "ms", removal_ms),
            ("removal_bound", "ms", removal_ms + LEAD_MS),
            ("removal_answer_bytes", "B", costs.answer_bytes as f64),
            ("removal_step_bytes", "B", step_bytes as f64),
        ]);
        self.settle()?;
        Ok(figures)
    }
}

#[cfg(all(test, feature = "mls"))]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_measured_happens_and_takes_time() {
        let mut call = Call::of(6).unwrap();
        for _ in 0..2 {
            let figures = call.come_and_go().unwrap();
            assert_eq!(figures.len(), 17);
            assert!(figures.iter().all(|(_, _, value)| *value > 0.0), "{figures:?}");
            assert_eq!(call.members[&OTHER].roster().unwrap().len(), 5);
        }
    }
}
