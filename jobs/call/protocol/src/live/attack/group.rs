//! Attacks of a server on the group, if the members agree on keys: the server carries their commits
//! and makes the rosters.

use super::{
    super::{
        Alarm,
        epoch::SumError,
        group::{STEP, messages::Step},
        roster::{Change, RosterError},
    },
    Agreed, Attack, Played, Stage, broken,
    server::{EVERYBODY, SERVER, noticed},
};
use tobari_curve::wire::MemberSet;

/// Frames until a roster arrives that a group makes after a member joined or left.
const ROSTER: usize = 100;

pub(super) static ATTACKS: &[Attack] = &[
    in_a_group("serve a roster without its commit", without_commit),
    in_a_group("serve a roster with an earlier commit", earlier_commit),
    in_a_group("change a commit", changed),
    in_a_group("list a member that the commit removes", lists_who_left),
    in_a_group("list a member of the group as gone", lists_as_gone),
    in_a_group("give a commit to one half of the room", to_one_half),
];

const fn in_a_group(name: &'static str, play: fn(&mut Stage) -> Played) -> Attack {
    Attack { name, by: SERVER, in_points: false, agreed: Agreed::Only, limit: None, play }
}

/// The server replaces the bytes of each step.
fn on_steps(stage: &mut Stage, mut change: impl FnMut(Step<'_>) -> Option<Vec<u8>> + 'static) {
    stage.cheat = Some(Box::new(move |_, _, bytes| {
        let changed = Step::decode(&bytes).and_then(&mut change);
        vec![changed.unwrap_or(bytes)]
    }));
}

/// A new member joins, so that there is a commit.
fn somebody_comes(stage: &mut Stage) -> Played {
    let link = stage.link.for_members();
    stage.enter(&link, true).map_err(broken)?;
    stage.frames(ROSTER);
    noticed(stage, EVERYBODY, |_| true, |alarm| *alarm == Alarm::Roster(RosterError::Keys))
}

fn without_commit(stage: &mut Stage) -> Played {
    on_steps(stage, |step| Some(step.roster.to_vec()));
    somebody_comes(stage)
}

fn changed(stage: &mut Stage) -> Played {
    on_steps(stage, |step| {
        let mut words = step.words.to_vec();
        let middle = words.len() / 2;
        *words.get_mut(middle)? ^= 1;
        Some(Step { words: &words, ..step }.encode())
    });
    somebody_comes(stage)
}

fn earlier_commit(stage: &mut Stage) -> Played {
    // an honest one first, accepted by all
    let (mut first, link) = (None::<Vec<u8>>, stage.link.for_members());
    stage.cheat = Some(Box::new(move |_, member, bytes| match (Step::decode(&bytes), member) {
        (Some(step), 0) => match &first {
            Some(words) => vec![Step { words, ..step }.encode()],
            None => {
                first = Some(step.words.to_vec());
                vec![bytes]
            }
        },
        _ => vec![bytes],
    }));
    let late = stage.enter(&link, true).map_err(broken)?;
    stage.frames(ROSTER);
    if stage.cheated.is_some() || stage.people.values().any(|person| !person.noticed.is_empty()) {
        return Err(broken("an honest roster was refused"));
    }
    leaves(stage, late);
    noticed(
        stage,
        "each member that receives it",
        |member| member == 0,
        |alarm| *alarm == Alarm::Roster(RosterError::Keys),
    )
}

fn leaves(stage: &mut Stage, member: u16) {
    stage.people.remove(&member);
    stage.room.leave(member, stage.now);
    stage.frames(ROSTER);
}

/// The members that the server lists as gone differ from the members that the commit removes.
fn with_gone(stage: &mut Stage, gone: &'static [u16]) {
    on_steps(stage, move |step| {
        let mut change = Change::decode(step.roster)?;
        change.gone = MemberSet::default();
        for member in gone {
            change.gone.insert(*member);
        }
        Some(Step { roster: &change.encode(), ..step }.encode())
    });
}

fn lists_who_left(stage: &mut Stage) -> Played {
    with_gone(stage, &[]);
    leaves(stage, 3);
    noticed(stage, EVERYBODY, |_| true, |alarm| *alarm == Alarm::Roster(RosterError::Members))
}

fn lists_as_gone(stage: &mut Stage) -> Played {
    with_gone(stage, &[2]);
    let link = stage.link.for_members();
    let late = stage.enter(&link, true).map_err(broken)?;
    stage.frames(ROSTER);
    // the member that is listed as gone sees that it is on no roster; the new member gets all
    // current members, and no former ones
    noticed(stage, EVERYBODY, |member| member == 2, |alarm| *alarm == Alarm::Roster(RosterError::NotListed))?;
    let others = |member: u16| ![late, 2].contains(&member);
    noticed(stage, "every earlier member", others, |alarm| *alarm == Alarm::Roster(RosterError::Members))
}

/// Half of the room stays behind, under keys that the other half no longer has.
fn to_one_half(stage: &mut Stage) -> Played {
    stage.cheat =
        Some(Box::new(
            |_, member, bytes| {
                if bytes.get(1) == Some(&STEP) && [2, 3].contains(&member) { Vec::new() } else { vec![bytes] }
            },
        ));
    let link = stage.link.for_members();
    stage.enter(&link, true).map_err(broken)?;
    stage.frames(ROSTER + 20);
    let words = |member: u16| stage.people.get(&member).and_then(|person| person.member.words());
    if words(0) != words(1) || words(2) != words(3) || words(0) == words(2) {
        return Err(broken("the halves have the same words"));
    }
    let is_left = |alarm: &Alarm| matches!(alarm, Alarm::Sum(SumError::Epoch { .. }));
    noticed(stage, "the members left behind", |member| [2, 3].contains(&member), is_left)
}
