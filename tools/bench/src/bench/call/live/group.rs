//! `tobari-bench call --live --mls`: somebody comes into a large call whose members agree on keys,
//! and is put out, over sockets.
//!
//! **What is measured.** Two come, five times or more, the second right behind the first, so that
//! it misses the first's commit and waits for the next one (the room asks for one a second at
//! most); then the host puts out one after the other. In milliseconds: `live_join` of the first and
//! `live_join_behind` of the second, from when it begins to connect until it has opened a sum with
//! another's voice in it **and** another has opened one with its own; `live_removal`, from when the
//! host is told to put somebody out until another member opens the first sum under keys that who
//! was put out has not; and `live_removal_told`, until who is put out is told. Offer, commit,
//! welcome, the way over the sockets and all waits by rule are in it.
//!
//! **What is not real.** The host, one listener and who comes follow the group. The others are on
//! the roster and in the tree by their key packages, have connections and read what comes, and
//! follow nothing and send nothing: a device follows a commit in some milliseconds, and a thousand
//! of them would do it one after another on the cores of this machine, which the server has a part
//! of. The network is loopback.

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

/// How often two come of whom the second misses the first's commit, and how often that is tried.
const RUNS: usize = 5;
const MOST_RUNS: usize = 15;
/// So long after a commit who comes no longer waits for the next.
const QUIET: Duration = Duration::from_millis(1500);
/// How long one of them may take.
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

/// Who is in the room, and what they tell.
struct Stage {
    guests: Arc<RoomLink>,
    mouths: Arc<Mouths>,
    running: JoinSet<Result<(), Failure>>,
    stop: watch::Sender<bool>,
    host: UnboundedSender<ClientMessage>,
    /// Who tells what is heard in the room.
    listener: u16,
    watcher: UnboundedSender<MemberEvent>,
    told: UnboundedReceiver<MemberEvent>,
    /// The epoch of the last sum that the listener opened.
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
        // where a commit before them had both wait for one, the second waited for less than another
        // second
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

/// Who has come last.
struct Guest {
    number: u16,
    begun: Instant,
}

fn ms(since: Instant, until: Instant) -> f64 {
    until.saturating_duration_since(since).as_secs_f64() * 1e3
}

impl Stage {
    /// A room with all of so many members but two.
    async fn fill(members: u16, server: &BlindProcess) -> Result<Self, Failure> {
        let settings =
            Settings { keys: Keys::Group, speakers: members, host: Some(Default::default()), ..Settings::default() };
        let link = RoomLink::new(server.url(), "bench".parse()?, settings, &mut randomness::generator()?);
        let guests = Arc::new(link.for_members());
        let (mouths, mut running) = (Arc::new(Mouths::default()), JoinSet::new());
        let ((stop, stopped), (host, orders), (watcher, told)) =
            (watch::channel(false), mpsc::unbounded_channel(), mpsc::unbounded_channel());
        // who is the host is asked for commits, whoever else is there
        let speaker = Caller::enter(Arc::new(link), Role::Mouth, Arc::clone(&mouths)).await?;
        running.spawn(speaker.obey(stopped.clone(), orders));
        let ear = Caller::enter(Arc::clone(&guests), Role::Ear, Arc::clone(&mouths)).await?.watched(watcher.clone());
        let listener = ear.number();
        running.spawn(ear.run(stopped));
        let mut stage = Self { guests, mouths, running, stop, host, listener, watcher, told, epoch: 0 };
        // who comes later apart
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

    /// So many more, who are there and follow nothing.
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

    /// What somebody tells next; an error if a member failed instead.
    async fn next(&mut self) -> Result<MemberEvent, Failure> {
        loop {
            let told = tokio::select! {
                told = self.told.recv() => told.ok_or_else(|| Failure::Work("nobody tells anything".to_owned()))?,
                // who was put out has ended well
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

    /// Until each of them hears and is heard, how long that took, and in which epoch it was heard
    /// first.
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

    /// Until there are keys without it, and until it is told.
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
