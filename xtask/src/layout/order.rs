//! The order of rooms: crates at the bottom, jobs side by side on them, programs on top.
//!
//! The folder of a room determines its level:
//!
//! - a room below `crates/` uses crates only;
//! - a room below `jobs/A/` uses crates and rooms of the job `A` only;
//! - every other room (the command, the Python package, the web client, tools) is on top.
//!
//! The table of rooms lists the rooms that each room may use. Without these rules, one line that
//! allows too much would make a job a part of another job, and no check would notice. Manifests are
//! compared with the rules too. A line names only rooms of the lines above it, so the table has no
//! circle.

use super::manifest::{Dependency, dependencies};
use super::rooms::{ROOMS, Room, TABLE, find, members};
use super::{Finding, SourceFile};

/// Finds everything in the table and in the manifests that breaks the order of rooms.
pub(crate) fn from_the_bottom_up(files: &[SourceFile]) -> Vec<Finding> {
    ordered(ROOMS, files)
}

fn ordered(rooms: &[Room], files: &[SourceFile]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = faults(rooms).into_iter().map(|message| Finding::new(TABLE, 0, message)).collect();
    let mut seen = 0;
    for (room, file) in members(rooms, files) {
        seen += 1;
        for Dependency { name, line, .. } in dependencies(&file.text) {
            if let Some(rule) = find(rooms, &name).and_then(|other| broken(room, other)) {
                findings.push(Finding::new(&file.path, line, format!("{} depends on {name}: {rule}", room.package)));
            }
        }
    }
    if seen == 0 {
        findings.push(Finding::new("Cargo.toml", 0, "no crate found: nothing was checked"));
    }
    findings
}

/// The faults of the table alone.
fn faults(rooms: &[Room]) -> Vec<String> {
    let mut faults = Vec::new();
    for (at, room) in rooms.iter().enumerate() {
        for name in room.may_use {
            let package = room.package;
            if find(&rooms[..at], name).is_none() {
                faults.push(format!("the line of {package} names {name}, which has no line above it"));
            }
            if let Some(rule) = find(rooms, name).and_then(|other| broken(room, other)) {
                faults.push(format!("the line of {package} names {name}: {rule}"));
            }
        }
    }
    faults
}

/// The rule that one room breaks by using the other, if there is one.
fn broken(user: &Room, used: &Room) -> Option<&'static str> {
    match (Level::of(user.path), Level::of(used.path)) {
        (Level::Top, _) | (_, Level::Crates) => None,
        (Level::Job(one), Level::Job(other)) if one == other => None,
        (Level::Crates, _) => Some("crates use crates only"),
        (Level::Job(_), Level::Job(_)) => Some("a job uses no other job"),
        (Level::Job(_), Level::Top) => Some("a job uses crates and rooms of its own only"),
    }
}

/// The level of a room.
enum Level<'p> {
    Crates,
    /// The level of a job, with its name.
    Job(&'p str),
    Top,
}

impl<'p> Level<'p> {
    fn of(path: &'p str) -> Self {
        match path.split_once('/') {
            Some(("crates", _)) => Self::Crates,
            Some(("jobs", below)) => Self::Job(below.split('/').next().unwrap_or(below)),
            _ => Self::Top,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::super::rooms::PLAIN;
    use super::*;

    const CORE: Room = Room { package: "core", path: "crates/core", ..PLAIN };
    const NET: Room = Room { package: "net", path: "crates/net", ..PLAIN };
    const SING: Room = Room { package: "sing", path: "jobs/sing/protocol", ..PLAIN };
    const SING_EDGE: Room = Room { package: "sing-edge", path: "jobs/sing/edge", ..PLAIN };
    const COUNT: Room = Room { package: "count", path: "jobs/count", ..PLAIN };
    const TOP: [Room; 5] = [
        Room { package: "house", path: "cli", ..PLAIN },
        Room { package: "house-py", path: "python", ..PLAIN },
        Room { package: "house-web", path: "web/client", ..PLAIN },
        Room { package: "house-bench", path: "tools/bench", ..PLAIN },
        Room { package: "chores", path: "xtask", ..PLAIN },
    ];

    /// The findings if the table lets `user` use `used`, and the findings if only the manifest
    /// does.
    fn found(user: Room, used: Room) -> [Vec<String>; 2] {
        let manifest = |room: &Room, text: &str| file(&format!("{}/Cargo.toml", room.path), text);
        let plain = manifest(&user, "[package]\n");
        let depends = manifest(&user, &format!("[dev-dependencies]\n{}.workspace = true\n", used.package));
        let by_table = ordered(&[used, Room { may_use: vec![used.package].leak(), ..user }], &[plain]);
        let by_manifest = ordered(&[used, user], &[depends]);
        [by_table, by_manifest].map(|found| found.iter().map(ToString::to_string).collect())
    }

    fn pairs<const N: usize>(users: [Room; N], used: &[Room]) -> Vec<(Room, Room)> {
        users.iter().flat_map(|user| used.iter().map(move |used| (*user, *used))).collect()
    }

    #[test]
    fn rooms_may_use_what_stands_below_them_and_their_own_job() {
        let mut allowed = pairs(TOP, &[CORE, SING, COUNT]);
        allowed.extend([(NET, CORE), (SING, CORE), (COUNT, NET), (SING_EDGE, SING), (TOP[3], TOP[0])]);
        for (user, used) in allowed {
            assert_eq!(found(user, used), [const { Vec::<String>::new() }; 2], "{} → {}", user.package, used.package);
        }
    }

    #[test]
    fn crates_use_neither_jobs_nor_programs() {
        for (user, used) in pairs([CORE, NET], &[&[SING, COUNT], &TOP[..]].concat()) {
            let [table, manifest] = found(user, used);
            let (from, to, rule) = (user.package, used.package, "crates use crates only");
            assert_eq!(table, [format!("{TABLE}:0: the line of {from} names {to}: {rule}")]);
            assert_eq!(manifest, [format!("{}/Cargo.toml:2: {from} depends on {to}: {rule}", user.path)]);
        }
    }

    #[test]
    fn jobs_use_neither_other_jobs_nor_programs() {
        let mut forbidden = pairs([SING, COUNT], &TOP);
        forbidden.extend([(SING, COUNT), (SING_EDGE, COUNT), (COUNT, SING)]);
        for (user, used) in forbidden {
            let counts = found(user, used).map(|found| found.len());
            assert_eq!(counts, [1, 1], "{} → {}", user.package, used.package);
        }
    }

    #[test]
    fn a_line_names_rooms_of_the_lines_above_it_only() {
        let uses_core = Room { may_use: &["core"], ..NET };
        assert_eq!(faults(&[CORE, uses_core]), Vec::<String>::new());
        for table in [&[uses_core, CORE][..], &[uses_core], &[Room { may_use: &["core"], ..CORE }]] {
            assert_eq!(faults(table).len(), 1);
        }
    }

    #[test]
    fn the_table_of_the_house_has_no_fault() {
        assert_eq!(faults(ROOMS), Vec::<String>::new());
    }
}
