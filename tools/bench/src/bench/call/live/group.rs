//! `tobari-bench call --live --mls`: over sockets, members join a large call whose members agree on
//! keys, and are removed.
//!
//! **Measured.** Five times or more, two members join. The second one joins right behind the first,
//! so that it misses the first one's commit and waits for the next (the room asks for at most one
//! commit a second). Then the host removes them one after the other. The figures, in milliseconds:
//!
//! - `live_join` of the first and `live_join_behind` of the second member: from the start of its
//!   connection until it has decrypted a sum with another member's voice **and** another member has
//!   decrypted a sum with its voice;
//! - `live_removal`: from the order to the host until another member decrypts the first sum under
//!   keys that the removed member does not have;
//! - `live_removal_told`: from the same order until the removed member learns of its removal.
//!
//! They include offer, commit, welcome, the sockets and all waits of the protocol.
//!
//! **Simplified.** Only the host, one listener and the joining members process commits. The others
//! are on the roster and in the tree with their key packages; they have connections and read
//! messages, but process and send nothing. A device processes a commit in some milliseconds; a
//! thousand devices would do so one after another on this machine's cores, which the server shares.
//! The network is loopback.

use super::super::agreed::{self, Line};
use super::caller::{Caller, Flock, Happened, MemberEvent, Mouths, Role};
use super::{AT_ONCE, COMING, runtime, server};
use crate::bench::call::CallBench;
use crate::program::Tobari;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tobari_call::live::messages::ClientMessage;
use tobari_call::live::{Keys, RoomLink, Settings};
use tobari_command::blind_server::BlindProcess;
use tobari_command::output::{self, Failure};
use tobari_command::randomness;
use tobari_host::threads;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::task::{JoinSet, coop::unconstrained};
use tokio::time::{sleep, timeout};

/// The number of pairs in which the second member misses the first one's commit, and the most
/// attempts.
const RUNS: usize = 5;
const MOST_RUNS: usize = 15;
/// After this time without a commit, a joining member does not wait for the next one.
const QUIET: Duration = Duration::from_millis(1500);
/// The timeout for one member.
const PATIENCE: Duration = Duration::from_secs(20);

/// Measures and prints.
pub(super) fn run(arguments: &CallBench, tobari: &Tobari) -> Result<ExitCode, Failure> {
    agreed::check("--mls")?;
    let members = arguments.group;
    let server = server(tobari)?;
    let figures = runtime()?.block_on(measure(members, &server))?;
    let lines = figures.into_iter().map(|(what, values)| Line {
        threads: threads::available() as u32,
        labels: ["loopback", "shared-machine"].map(str::to_owned).to_vec(),
        ..agreed::line(members, what, "ms", values)
    });
    let lines: Vec<Line> = lines.collect();
    agreed::give(arguments, &lines, "mls-live.csv")
}

/// The members in the room, and their events.
struct Stage {
    guests: Arc<RoomLink>,
    mouths: Arc<Mouths>,
    running: JoinSet<Result<(), Failure>>,
    stop: watch::Sender<bool>,
    host: UnboundedSender<ClientMessage>,
    /// The number of the listener.
    listener: u16,
    watcher: UnboundedSender<MemberEvent>,
    told: UnboundedReceiver<MemberEvent>,
    /// The epoch of the last sum that the listener decrypted.
    epoch: u32,
}

async fn measure(members: u16, server: &BlindProcess) -> Result<BTreeMap<&'static str, Vec<f64>>, Failure> {
    let mut stage = Stage::fill(members, server).await?;
    let mut figures: BTreeMap<_, Vec<f64>> = BTreeMap::new();
    let (mut runs, mut behind) = (0, 0);
    while behind < RUNS {
        if runs == MOST_RUNS {
            return Err(Failure::Work(format!(
                "expected {RUNS} who come behind another's commit, found {behind} of {runs}"
            )));
        }
        runs += 1;
        output::status(&format!("run {runs}"));
        sleep(QUIET).await;
        let (first, second) = (stage.enter().await?, stage.enter().await?);
        let [(of_first, epoch), (of_second, next)] = stage.until_heard([&first, &second]).await?;
        figures.entry("live_join").or_default().push(of_first);
        // after an earlier commit, one commit served both members: then the second waited for less
        // than another second
        if epoch != next {
            behind += 1;
            figures.entry("live_join_behind").or_default().push(of_second);
        }
        for guest in [&first, &second] {
            let (keys, said) = stage.put_out(guest.number).await?;
            figures.entry("live_removal").or_default().push(keys);
            figures.entry("live_removal_told").or_default().push(said);
        }
    }
    output::status("");
    stage.end().await?;
    Ok(figures)
}

/// A member that has just joined.
struct Guest {
    number: u16,
    begun: Instant,
}

fn ms(since: Instant, until: Instant) -> f64 {
    until.saturating_duration_since(since).as_secs_f64() * 1e3
}

impl Stage {
    /// A room with `members` members, except two.
    async fn fill(members: u16, server: &BlindProcess) -> Result<Self, Failure> {
        let settings =
            Settings { keys: Keys::Group, speakers: members, host: Some(Default::default()), ..Settings::default() };
        let link = RoomLink::new(server.url(), "bench".parse()?, settings, &mut randomness::generator()?);
        let guests = Arc::new(link.for_members());
        let (mouths, mut running) = (Arc::new(Mouths::default()), JoinSet::new());
        let ((stop, stopped), (host, orders), (watcher, told)) =
            (watch::channel(false), mpsc::unbounded_channel(), mpsc::unbounded_channel());
        // the room asks the host for commits
        let speaker = Caller::enter(Arc::new(link), Role::Mouth, Arc::clone(&mouths)).await?;
        running.spawn(speaker.obey(stopped.clone(), orders));
        let ear = Caller::enter(Arc::clone(&guests), Role::Ear, Arc::clone(&mouths)).await?.watched(watcher.clone());
        let listener = ear.number();
        running.spawn(ear.run(stopped));
        let mut stage = Self { guests, mouths, running, stop, host, listener, watcher, told, epoch: 0 };
        // without the two members that join later
        let present = members - 2;
        stage.seat(present - 2).await?;
        let begun = Instant::now();
        let mut listed = 0;
        while listed < usize::from(present) {
            let told = timeout(COMING.saturating_sub(begun.elapsed()), stage.next()).await;
            let told =
                told.map_err(|_| Failure::Work(format!("expected {present} on the roster, found {listed}")))??;
            if let Happened::Roster(members) = told.what {
                listed = members;
            }
        }
        Ok(stage)
    }

    /// Adds `count` passive members.
    async fn seat(&mut self, count: u16) -> Result<(), Failure> {
        let mut flock = Vec::new();
        for number in 1..=count {
            flock.push(Caller::enter(Arc::clone(&self.guests), Role::Leaf, Arc::clone(&self.mouths)).await?);
            if flock.len() == Flock::MOST || number == count {
                let flock = Flock::new(std::mem::take(&mut flock));
                self.running.spawn(unconstrained(flock.run(self.stop.subscribe())));
            }
            if usize::from(number) % AT_ONCE == 0 {
                output::status(&format!("{number} members of {count}"));
            }
        }
        Ok(())
    }

    /// The next event of a member; an error if a member failed instead.
    async fn next(&mut self) -> Result<MemberEvent, Failure> {
        loop {
            let told = tokio::select! {
                told = self.told.recv() => told.ok_or_else(|| Failure::Work("nobody tells anything".to_owned()))?,
                // a removed member ends without an error
                Some(ended) = self.running.join_next() => {
                    ended.map_err(|error| Failure::Work(error.to_string()))??;
                    continue;
                }
            };
            if let Happened::Opened(epoch, _) = &told.what
                && told.who == self.listener
            {
                self.epoch = *epoch;
            }
            return Ok(told);
        }
    }

    async fn next_within(&mut self, begun: Instant, what: &str) -> Result<MemberEvent, Failure> {
        let left = PATIENCE.saturating_sub(begun.elapsed());
        let late = |_| Failure::Work(format!("expected within {} s {what}, found nothing", PATIENCE.as_secs()));
        timeout(left, self.next()).await.map_err(late)?
    }

    async fn enter(&mut self) -> Result<Guest, Failure> {
        let begun = Instant::now();
        let guest = Caller::enter(Arc::clone(&self.guests), Role::Guest, Arc::clone(&self.mouths)).await?;
        let number = guest.number();
        self.running.spawn(guest.watched(self.watcher.clone()).run(self.stop.subscribe()));
        Ok(Guest { number, begun })
    }

    /// Waits until each guest hears and is heard; returns the times, and the epochs in which the
    /// guests were first heard.
    async fn until_heard(&mut self, guests: [&Guest; 2]) -> Result<[(f64, u32); 2], Failure> {
        let begun = Instant::now();
        let (mut hears, mut heard) = ([None; 2], [None; 2]);
        while hears.iter().any(Option::is_none) || heard.iter().any(Option::is_none) {
            let told = self.next_within(begun, "who comes to hear and to be heard").await?;
            let Happened::Opened(epoch, speakers) = told.what else { continue };
            for (number, guest) in guests.iter().enumerate() {
                if told.who == guest.number && speakers.iter().any(|speaker| speaker != guest.number) {
                    hears[number].get_or_insert(told.at);
                }
                if told.who == self.listener && speakers.contains(guest.number) {
                    heard[number].get_or_insert((told.at, epoch));
                }
            }
        }
        let of = |number: usize| {
            let (hears, (heard, epoch)) = hears[number].zip(heard[number])?;
            Some((ms(guests[number].begun, hears.max(heard)), epoch))
        };
        Ok(std::array::from_fn(|number| of(number).unwrap_or((f64::NAN, 0))))
    }

    /// Removes a member; returns the times until there are keys without it, and until it learns of
    /// its removal.
    async fn put_out(&mut self, member: u16) -> Result<(f64, f64), Failure> {
        let (begun, epoch) = (Instant::now(), self.epoch);
        let gone = |_| Failure::Work("the host is gone".to_owned());
        self.host.send(ClientMessage::Eject { member }).map_err(gone)?;
        let (mut keys, mut said) = (None, None);
        loop {
            if let Some(both) = keys.zip(said) {
                return Ok(both);
            }
            let told = self.next_within(begun, "keys without who was put out").await?;
            match told.what {
                Happened::Opened(opened, _) if told.who == self.listener && opened > epoch => {
                    keys.get_or_insert(ms(begun, told.at));
                }
                Happened::PutOut if told.who == member => {
                    said.get_or_insert(ms(begun, told.at));
                }
                _ => {}
            }
        }
    }

    async fn end(mut self) -> Result<(), Failure> {
        self.stop.send_replace(true);
        while let Some(ended) = self.running.join_next().await {
            ended.map_err(|error| Failure::Work(error.to_string()))??;
        }
        match self.mouths.alarms() {
            0 => Ok(()),
            alarms => Err(Failure::Work(format!("{alarms} alarms: something that was not so"))),
        }
    }
}
