//! `tobari-bench call --live --capacity`: the largest room for a number of cores.
//!
//! **Measured.** For each mode, rooms of growing size in which all but two members send: late
//! ticks, the server's computing time in a second, and Mbit/s of a member. The server is pinned to
//! the first cores of this process, and the members to the other cores, so that neither slows the
//! other. The kernel's network code runs on the side of its caller.
//!
//! **The end.** A room that is not filled in time, or loses members, is reported as too large, and
//! larger rooms of its mode are not tried. If the members' own cores are full (`live_members_cpu`),
//! the figures measure the members and not the server.

use super::figures::{self, Cores};
use super::{Room, Trouble, measure, runtime, server, show};
use crate::bench::call::CallBench;
use crate::program::Tobari;
use std::process::ExitCode;
use tobari_command::output::{self, Failure};
use tobari_host::{files, threads};

/// The cores of the server, and the cores of the members.
struct Split {
    server: Vec<usize>,
    members: Vec<usize>,
}

impl Split {
    fn new(server: usize) -> Result<Self, Failure> {
        let all = threads::allowed();
        if all.len() <= server {
            let found = all.len();
            return Err(Failure::Call(format!(
                "expected more cores than the {server} of --server-cores, found {found}"
            )));
        }
        let (server, members) = all.split_at(server);
        Ok(Self { server: server.to_vec(), members: members.to_vec() })
    }

    /// Measures one room, with a server of its own.
    fn measure(&self, tobari: &Tobari, room: &Room) -> Result<Vec<figures::Line>, Trouble> {
        keep_on(&self.server)?;
        let server = server(tobari);
        keep_on(&self.members)?;
        // its threads start here, and stay on this thread's cores
        runtime()?.block_on(measure(room, &server?, &Cores::pinned(self.server.len())))
    }
}

fn keep_on(cores: &[usize]) -> Result<(), Failure> {
    if threads::stay_on_all(cores) {
        Ok(())
    } else {
        Err(Failure::Work(format!("the system does not keep this process on cores {cores:?}")))
    }
}

/// Measures, and prints the table.
pub(super) fn run(arguments: &CallBench, tobari: &Tobari) -> Result<ExitCode, Failure> {
    let load = &arguments.load;
    let split = Split::new(load.server_cores.into())?;
    let mut rooms = Vec::new();
    for mode in arguments.live_modes() {
        for members in load.sizes(mode) {
            let room = Room { mode, keys: load.keys.into(), members, speakers: members - 2, seconds: load.seconds };
            match split.measure(tobari, &room) {
                Ok(lines) => rooms.push(lines),
                Err(Trouble::Wrong(failure)) => return Err(failure),
                Err(Trouble::DoesNotFit(why)) => {
                    output::status("");
                    output::say(format!("mode {mode}, {members} members: does not fit: {why}"));
                    break;
                }
            }
            for line in rooms.last().into_iter().flatten().filter(|_| arguments.common.json) {
                output::json(line)?;
            }
        }
    }
    if rooms.is_empty() {
        return Err(Failure::Work("expected a room that fits, found none".to_owned()));
    }
    let table = figures::capacity(&rooms);
    show(&table, arguments.common.json);
    if let Some(folder) = &arguments.common.output {
        std::fs::create_dir_all(folder)?;
        files::write_atomically(&folder.join("capacity.csv"), table.csv().as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}
