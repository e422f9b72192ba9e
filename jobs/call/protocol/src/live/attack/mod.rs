//! Attacks on live rooms, as one table: what is tried, who notices and after what time, or why
//! nobody does.
//!
//! Each is played on a [`Stage`]: the room and the members are the code that serves and calls, and
//! the attacker stands where it would stand. A play measures what comes of it and checks it: an
//! attack counts as caught if somebody is told of it and nobody heard anything that was not said,
//! or if nothing comes of it; it counts as successful only if what it is after was seen to happen.
//! [`Attack::limit`] says which of the two is expected, so that a defence that is lost shows, and
//! one that is gained too.
//!
//! `tobari demo --attack` prints this table, `book/src/explanation/threats/call.md` holds it, and
//! the tests of this crate play it.

mod group;
mod member;
mod server;
mod stage;

use std::{fmt, time::Duration};

use chacha20::{
    ChaCha20Rng,
    rand_core::{Rng, SeedableRng},
};

use super::{
    LiveMember, LiveMode, OpenedTick, Proven, RoomLink, Settings,
    hearing::{Hearing, Opened},
    keys::SessionId,
    link::Keys,
    messages::Nonce,
};
use crate::messages::RoomName;

pub use stage::{Cheat, Person, ROOM, Stage, add, alone, sum_of};

/// What those who are on the stage say, by number: the first is the host.
const LEVELS: [i16; 4] = [1000, -300, 8, 0];
/// Frames until the roster of all of them holds.
const SETTLING: usize = 80;
/// The same where they come into a group one after another.
const AGREEING: usize = 160;

/// One attack.
pub struct Attack {
    /// What is tried.
    pub name: &'static str,
    /// By whom.
    pub by: &'static str,
    /// Is it played in the modes of points as well, where it meets other arithmetic? What the
    /// others do is the same in all modes.
    pub in_points: bool,
    /// What comes of it in a room whose members agree on keys.
    pub agreed: Agreed,
    /// Why it is not caught; none for those that are.
    pub limit: Option<&'static str>,
    play: fn(&mut Stage) -> Played,
}

/// What comes of an attack where the members agree on keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreed {
    /// What it meets is the same there, and it is not played again.
    NotPlayed,
    /// The same as where the link is the key.
    Same,
    /// It is caught, while it is not where the link is the key.
    Caught,
    /// It meets the group itself, and is played there alone.
    Only,
}

/// What came of an attack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Somebody is told of it, or nothing comes of it.
    Caught {
        /// By whom.
        by: &'static str,
        /// Time from the first thing that should not have been to when the last of them knows; zero
        /// if they refuse it as it comes.
        within: Duration,
        /// As they are told.
        how: String,
    },
    /// The attacker got what it was after.
    Succeeded {
        /// What was seen.
        how: String,
    },
}

/// A play in which something happened that is neither.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the attack was not played to its end: {0}")]
pub struct Broken(String);

type Played = Result<Outcome, Broken>;

fn broken(what: impl fmt::Display) -> Broken {
    Broken(what.to_string())
}

/// An attack that was played.
pub struct Performance {
    /// Which.
    pub attack: &'static Attack,
    /// In which mode.
    pub mode: LiveMode,
    /// Where the keys of the room came from.
    pub keys: Keys,
    /// What came of it.
    pub outcome: Result<Outcome, Broken>,
}

impl Performance {
    /// Why it is not caught there; none where it is.
    pub fn limit(&self) -> Option<&'static str> {
        self.attack.limit.filter(|_| self.keys == Keys::Link || self.attack.agreed != Agreed::Caught)
    }

    /// Did it end as the table says?
    pub fn is_as_documented(&self) -> bool {
        match &self.outcome {
            Ok(Outcome::Caught { .. }) => self.limit().is_none(),
            Ok(Outcome::Succeeded { .. }) => self.limit().is_some(),
            Err(_) => false,
        }
    }
}

/// All attacks: those of the server first.
pub fn all() -> impl Iterator<Item = &'static Attack> {
    server::ATTACKS.iter().chain(group::ATTACKS).chain(member::ATTACKS)
}

/// Plays all of them in mode `mask`, and those that meet other arithmetic there in the modes of
/// points.
pub fn play_all(mode: LiveMode, seed: [u8; 32]) -> Vec<Performance> {
    let is_played = |attack: &&Attack| attack.agreed != Agreed::Only && (attack.in_points || mode == LiveMode::Mask);
    play(all().filter(is_played), mode, Keys::Link, seed)
}

/// Plays in mode `mask` those that meet the members' group in a room where they agree on keys; none
/// in a build without groups.
pub fn play_agreed(seed: [u8; 32]) -> Vec<Performance> {
    let is_played = |attack: &&Attack| super::group::HAS_GROUPS && attack.agreed != Agreed::NotPlayed;
    play(all().filter(is_played), LiveMode::Mask, Keys::Group, seed)
}

fn play(
    attacks: impl Iterator<Item = &'static Attack>,
    mode: LiveMode,
    keys: Keys,
    seed: [u8; 32],
) -> Vec<Performance> {
    let mut rng = ChaCha20Rng::from_seed(seed);
    let mut stage: Option<Stage> = None;
    let played = attacks.map(|attack| {
        let outcome = match stage.take().map_or_else(|| filled(mode, keys, &mut rng), Ok) {
            Ok(mut filled) => {
                filled.forget();
                let outcome = (attack.play)(&mut filled);
                // what did no lasting harm leaves the room to the next
                stage = is_whole(&mut filled).then_some(filled);
                outcome
            }
            Err(error) => Err(error),
        };
        Performance { attack, mode, keys, outcome }
    });
    played.collect()
}

/// The join of somebody with a link, as a server has checked it: for plays without a server.
pub fn proven(link: &RoomLink, speak: bool) -> Proven {
    Proven::unchecked(LiveMember::join(link, speak, Nonce([0; 16])))
}

/// A room of four that speak, on a roster that holds.
fn filled(mode: LiveMode, keys: Keys, rng: &mut ChaCha20Rng) -> Result<Stage, Broken> {
    // the tables of decryption grow with the sum
    let speakers = if mode == LiveMode::Mask { 8 } else { 4 };
    let settings = Settings { mode, keys, speakers, host: Some([0; 16]), ..Settings::default() };
    let name: RoomName = "stage".parse().map_err(broken)?;
    let link = RoomLink::new("http://stage", name, settings, rng);
    let mut seed = [0; 32];
    rng.fill_bytes(&mut seed);
    let mut stage = Stage::open(link, seed).map_err(broken)?;
    for (number, level) in LEVELS.into_iter().enumerate() {
        let link = if number == 0 { stage.link.clone() } else { stage.link.for_members() };
        let member = stage.enter(&link, true).map_err(broken)?;
        stage.says(member, level);
    }
    stage.frames(if keys == Keys::Group { AGREEING } else { SETTLING });
    if is_whole(&mut stage) { Ok(stage) } else { Err(broken("the room is not whole before the attack")) }
}

/// Is everybody there, and does everybody hear everybody, without an alarm?
fn is_whole(stage: &mut Stage) -> bool {
    stage.cheat = None;
    stage.left_out.clear();
    stage.removed.clear();
    // whoever came in somebody's place says what that one said
    LEVELS.into_iter().enumerate().for_each(|(number, level)| stage.says(number as u16, level));
    stage.frames(4);
    stage.forget();
    stage.frames(2);
    let members = 0..LEVELS.len() as u16;
    members.clone().eq(stage.people.keys().copied())
        && stage.people.iter().all(|(number, person)| {
            let last = person.heard.last();
            person.noticed.is_empty()
                && last.is_some_and(|heard| members.clone().eq(heard.speakers.iter()) && stage.is_true(*number, heard))
        })
}

/// The sums that open for somebody with a link, these rosters and the group's secrets of `group`,
/// in whatever state its group is, with no rule that an honest program keeps: neither need it be on
/// a roster, nor follow its group, nor have been there. Without `group` it has the link alone.
///
/// # Errors
/// [`Broken`] if the rosters do not open with the link.
pub fn opened(
    link: &RoomLink,
    rosters: &[Vec<u8>],
    sums: &[Vec<u8>],
    group: Option<&LiveMember>,
) -> Result<Vec<OpenedTick>, Broken> {
    let mut hearing = Hearing::new(link, ROOM).ok_or_else(|| broken("a link whose settings are impossible"))?;
    for bytes in rosters {
        let secret = |roster: &_| Ok(group.and_then(|member| member.exported(roster)));
        hearing.take_roster(bytes, (u16::MAX, SessionId([0; 16])), secret).map_err(broken)?;
    }
    let heard = |Opened { tick, speakers, samples, .. }| OpenedTick { tick, speakers, samples };
    Ok(sums.iter().filter_map(|bytes| hearing.open(bytes).ok().flatten().map(heard)).collect())
}
