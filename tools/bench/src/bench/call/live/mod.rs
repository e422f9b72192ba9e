//! `tobari-bench call --live`: members of a live room in this process, over real sockets, and a
//! blind server in another.
//!
//! **Measured.** The server's processor seconds in a second; late packets, as a part of all; the
//! lateness of ticks; bytes up and down of one member; and the delay of a word from mouth to ear:
//! from the start of its first frame (a microphone has the whole frame 20 ms later) until the
//! listener's buffer plays it.
//!
//! **Simplified.** Members and server share this machine: the network is loopback, and the members
//! use a part of the cores. Only listeners decrypt sums; speakers skip them, because all members of
//! a large room do not fit on one machine. With `--capacity` server and members have separate cores
//! ([`capacity`]); with `--mls` members join and are removed instead ([`group`]).

mod caller;
mod capacity;
mod chaos;
mod figures;
mod group;

use super::show;
use crate::bench::call::CallBench;
use crate::program::Tobari;
use caller::{Caller, Flock, Mouths, Role};
use figures::{Cores, Reading};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tobari_call::live::{Keys, LiveMode, RoomLink, Settings};
use tobari_call_edge::command::KeysName;
use tobari_command::blind_server::BlindProcess;
use tobari_command::output::{self, Failure};
use tobari_command::randomness;
use tobari_host::files;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::{JoinSet, coop::unconstrained};
use tokio::time::sleep;

/// The server's limit of connections.
const PLACES: [&str; 2] = ["--max-connections", "8192"];
/// Members that join at once.
const AT_ONCE: usize = 64;
/// The time for rosters to settle after all members speak, before the measurement.
const SETTLING: Duration = Duration::from_secs(3);
/// The timeout for all joins.
const COMING: Duration = Duration::from_secs(120);

/// Measures, or runs the soak test, and prints.
pub(super) fn run(arguments: &CallBench, tobari: &Tobari) -> Result<ExitCode, Failure> {
    if arguments.load.keys == KeysName::Mls {
        super::agreed::check("--keys mls")?;
    }
    if arguments.mls {
        return group::run(arguments, tobari);
    }
    if arguments.load.capacity {
        return capacity::run(arguments, tobari);
    }
    let runtime = runtime()?;
    let mut lines = Vec::new();
    for mode in arguments.live_modes() {
        if let Some(minutes) = arguments.load.chaos {
            runtime.block_on(chaos::run(arguments, tobari, mode, minutes))?;
            continue;
        }
        let load = &arguments.load;
        let speakers = load.speakers.unwrap_or(load.members - 2).min(load.members - 1);
        let room = Room { mode, keys: load.keys.into(), members: load.members, speakers, seconds: load.seconds };
        let measured = runtime.block_on(measure(&room, &server(tobari)?, &Cores::shared()))?;
        for line in measured.iter().filter(|_| arguments.common.json) {
            output::json(line)?;
        }
        lines.extend(measured);
    }
    if lines.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let table = figures::table(&lines);
    show(&table, arguments.common.json);
    if let Some(folder) = &arguments.common.output {
        std::fs::create_dir_all(folder)?;
        files::write_atomically(&folder.join("live.csv"), table.csv().as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn runtime() -> Result<Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// A server in a process of its own, with room for all members.
fn server(tobari: &Tobari) -> Result<BlindProcess, Failure> {
    tobari.serve(PLACES)
}

/// A new server at the address of a killed one, so that the links stay valid.
fn server_at(tobari: &Tobari, url: &str) -> Result<BlindProcess, Failure> {
    tobari.serve_at(url.trim_start_matches("http://"), PLACES)
}

fn link(server: &BlindProcess, mode: LiveMode, keys: Keys, speakers: u16) -> Result<RoomLink, Failure> {
    let settings = Settings { mode, keys, speakers, ..Settings::default() };
    Ok(RoomLink::new(server.url(), "bench".parse()?, settings, &mut randomness::generator()?))
}

/// One room of one mode.
struct Room {
    mode: LiveMode,
    keys: Keys,
    members: u16,
    speakers: u16,
    seconds: u32,
}

/// The reason why a room has no figures.
enum Trouble {
    /// The room cannot be filled, or loses members.
    DoesNotFit(Failure),
    /// Members got a wrong sum.
    Wrong(Failure),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::DoesNotFit(failure)
    }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::DoesNotFit(failure) | Trouble::Wrong(failure) => failure,
        }
    }
}

/// Fills a room of a server, and measures it.
async fn measure(room: &Room, server: &BlindProcess, cores: &Cores) -> Result<Vec<figures::Line>, Trouble> {
    let &Room { mode, keys, members, speakers, seconds } = room;
    let link = Arc::new(link(server, mode, keys, speakers)?);
    let (stop, stopped) = watch::channel(false);
    let (mouths, mut running, mut flock) = (Arc::new(Mouths::default()), JoinSet::new(), Vec::new());
    let begun = Instant::now();
    for number in 0..members {
        // the first member sends words, the other speakers silence; the rest listen, and two of
        // them decrypt
        let role = match number {
            0 => Role::Mouth,
            _ if number < speakers => Role::Silent,
            _ if number < speakers + 2 => Role::Ear,
            _ => Role::Deaf,
        };
        let caller = Caller::enter(Arc::clone(&link), role, Arc::clone(&mouths)).await?;
        if matches!(role, Role::Mouth | Role::Ear) {
            running.spawn(caller.run(stopped.clone()));
        } else {
            flock.push(caller);
        }
        if flock.len() == Flock::MOST || number + 1 == members {
            // a flock polls more sockets at once than tokio's budget for a task allows
            running.spawn(unconstrained(Flock::new(std::mem::take(&mut flock)).run(stopped.clone())));
        }
        if usize::from(number) % AT_ONCE == AT_ONCE - 1 {
            output::status(&format!("{} members of {}", number + 1, members));
        }
    }
    while mouths.speaking() < u64::from(speakers) {
        if begun.elapsed() > COMING {
            return Err(Failure::Work(format!("expected {speakers} to speak, found {}", mouths.speaking())).into());
        }
        sleep(Duration::from_millis(100)).await;
    }
    sleep(SETTLING).await;
    output::status(&format!("measuring for {seconds} s"));
    mouths.forget();
    let before = Reading::take(server).await?;
    sleep(Duration::from_secs(seconds.into())).await;
    let after = Reading::take(server).await?;
    let words = mouths.words();
    stop.send_replace(true);
    while let Some(ended) = running.join_next().await {
        ended.map_err(|error| Failure::Work(error.to_string()))??;
    }
    output::status("");
    if mouths.alarms() > 0 {
        let alarms = mouths.alarms();
        return Err(Trouble::Wrong(Failure::Work(format!("{alarms} alarms: sums that do not match the packets"))));
    }
    Ok(figures::lines(room, cores, &before, &after, words))
}
