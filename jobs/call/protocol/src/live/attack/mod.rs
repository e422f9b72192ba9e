//! Attacks on live rooms, as one table: what is tried, who notices and after what time, or why
//! nobody does.
//!
//! Each attack is played on a [`Stage`]. Its room and members are the code of the real server and
//! client, and the attacker has the position of a real attacker. A play measures and checks its
//! outcome. An attack counts as caught if a member or the server reports it and nobody heard a
//! false sum, or if it has no effect. It counts as successful only if its goal was observed.
//! [`Attack::limit`] says which of the two is expected, so the tests show each defence that is
//! lost, and each that is gained.
//!
//! `tobari demo --attack` prints this table, `book/src/explanation/threats/call.md` contains it,
//! and the tests of this crate play it.

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

/// The levels of the members on the stage, by number. The first is the host.
const LEVELS: [i16; 4] = [1000, -300, 8, 0];
/// Frames until the roster of all of them takes effect.
const SETTLING: usize = 80;
/// The same if they join a group one after another.
const AGREEING: usize = 160;

/// One attack.
pub struct Attack {
    /// A short description.
    pub name: &'static str,
    /// The attacker.
    pub by: &'static str,
    /// Is it played in the modes of points as well, because their arithmetic matters for it? All
    /// other attacks have the same outcome in all modes.
    pub in_points: bool,
    /// Its outcome in a room whose members agree on keys.
    pub agreed: Agreed,
    /// The reason why it succeeds; none if it is caught.
    pub limit: Option<&'static str>,
    play: fn(&mut Stage) -> Played,
}

/// The outcome of an attack if the members agree on keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreed {
    /// The attack has nothing to do with keys, and is not played again.
    NotPlayed,
    /// The same as with keys from the link.
    Same,
    /// It is caught, while it succeeds with keys from the link.
    Caught,
    /// It attacks the group itself, and is played there alone.
    Only,
}

/// The outcome of an attack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is reported, or has no effect.
    Caught {
        /// The side that notices.
        by: &'static str,
        /// Time from the first false message until the last of them knows; zero if they reject it
        /// at once.
        within: Duration,
        /// Their report.
        how: String,
    },
    /// The attacker reached its goal.
    Succeeded {
        /// The observation.
        how: String,
    },
}

/// A play that ended as neither.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the attack was not played to its end: {0}")]
pub struct Broken(String);

type Played = Result<Outcome, Broken>;

fn broken(what: impl fmt::Display) -> Broken {
    Broken(what.to_string())
}

/// An attack that was played.
pub struct Performance {
    /// The attack.
    pub attack: &'static Attack,
    /// The mode.
    pub mode: LiveMode,
    /// Where the keys of the room came from.
    pub keys: Keys,
    /// The outcome.
    pub outcome: Result<Outcome, Broken>,
}

impl Performance {
    /// The reason why it succeeds there; none if it is caught there.
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

/// All attacks, with those of the server first.
pub fn all() -> impl Iterator<Item = &'static Attack> {
    server::ATTACKS.iter().chain(group::ATTACKS).chain(member::ATTACKS)
}

/// Plays all attacks in mode `mask`; in the modes of points only those for which their arithmetic
/// matters.
pub fn play_all(mode: LiveMode, seed: [u8; 32]) -> Vec<Performance> {
    let is_played = |attack: &&Attack| attack.agreed != Agreed::Only && (attack.in_points || mode == LiveMode::Mask);
    play(all().filter(is_played), mode, Keys::Link, seed)
}

/// Plays in mode `mask` the attacks that matter for a group, in a room whose members agree on keys;
/// none in a build without groups.
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
                // an attack without lasting harm leaves the room to the next one
                stage = is_whole(&mut filled).then_some(filled);
                outcome
            }
            Err(error) => Err(error),
        };
        Performance { attack, mode, keys, outcome }
    });
    played.collect()
}

/// The join of a member with a link, as a server has checked it: for plays without a server.
pub fn proven(link: &RoomLink, speak: bool) -> Proven {
    Proven::unchecked(LiveMember::join(link, speak, Nonce([0; 16])))
}

/// A room of four members that speak, on a roster that is in effect.
fn filled(mode: LiveMode, keys: Keys, rng: &mut ChaCha20Rng) -> Result<Stage, Broken> {
    // the tables of decryption grow with the sum, so keep it small
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

/// Are all members there, and do they all hear one another without an alarm?
fn is_whole(stage: &mut Stage) -> bool {
    stage.cheat = None;
    stage.left_out.clear();
    stage.removed.clear();
    // a member that joined with the number of another gets the level of that one
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

/// The sums that decrypt with a link, these rosters and the group secrets of `group` in its current
/// state. This follows no rule of an honest program: the holder need not be on a roster, follow its
/// group, or have been there. Without `group` it has the link alone.
///
/// # Errors
/// [`Broken`] if the rosters do not decrypt with the link.
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
