//! Attacks of a server alone, with nothing but the messages it gets.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet, VecDeque},
    time::Duration,
};

use crate::{
    mask::{Form, Masked, Tag},
    wire::{self, LiveHeader, LiveLayout, LivePacket, LivePayload, LiveSum},
};
use tobari_curve::{PointEncoding, Points, Scalar};

use super::{
    super::{
        Alarm, LiveMember, News, Outgoing, PACKET_WORDS,
        group::{STEP, TASK},
        hello,
        history::{PATIENCE, WINDOW_TICKS},
        keys::RoomKeys,
        messages::{ClientMessage, ServerMessage, Welcome},
        notes::{self, Hello},
        roster::{self, Change, RosterError},
    },
    Agreed, Attack, Broken, Outcome, Played, ROOM, Stage, add, alone, broken, sum_of,
};
use crate::PACKET_SAMPLES;

pub(super) const SERVER: &str = "the server";
pub(super) const EVERYBODY: &str = "every member";
/// Ticks between an old packet and the sum that it is added to.
const AGE: u32 = 3;

pub(super) static ATTACKS: &[Attack] = &[
    tampers("alter one bit of a sum", alter),
    Attack { in_points: false, ..tampers("swap samples of a sum", exchange) },
    tampers("add sound to a sum", sound),
    tampers("add a speaker twice", double),
    Attack { in_points: false, ..tampers("negate a speaker and its tag", negate) },
    tampers("add a packet of an earlier tick", replay),
    tampers("replay an earlier sum as this tick's", earlier),
    tampers("replace a sum by silence, and keep its list of speakers", silence),
    tampers("omit a speaker, and list the speaker all the same", omit),
    tampers("list a speaker whose packet is not in the sum", stranger),
    tampers("move a sum to the next tick", shift),
    tampers("serve a sum under the previous epoch", epoch),
    tampers("serve a sum of another room", other_room),
    in_all_modes("send a sum again", again),
    in_all_modes("send sums out of order", reorder),
    in_all_modes("send an old roster again", old_roster),
    in_all_modes("name an earlier tick, so that a mask is used twice", rewind),
    in_all_modes("give two clients the same number", twins),
    in_all_modes("send one member a different roster", rosters),
    in_all_modes("list a session without its hello", lists_noise),
    Attack { by: "a member and the server", ..in_all_modes("list one session twice", lists_twice) },
    Attack { agreed: Agreed::Same, ..in_all_modes("replay an earlier call to a new member", earlier_call) },
    in_all_modes("omit a speaker, and take the speaker off the list", omit_openly),
    Attack {
        limit: Some(
            "a server that says so and a slow line look alike. Where sending is constant every client shows within 3 s that it is missing",
        ),
        ..in_all_modes("omit a speaker, and call the packet late", omit_as_late)
    },
    in_all_modes("send one listener a single voice, for one tick", single),
    Attack { agreed: Agreed::Same, ..in_all_modes("split the room in two", split) },
    in_all_modes("split the room, and keep the halves' digests apart", split_and_silence),
    Attack {
        agreed: Agreed::Same,
        limit: Some("the server decides on membership; the list shows the members"),
        ..in_all_modes("keep a member that the host removes", keep)
    },
];

/// An attack on every sum of a frame or two. All members must reject the sum.
const fn tampers(name: &'static str, play: fn(&mut Stage) -> Played) -> Attack {
    Attack { name, by: SERVER, in_points: true, agreed: Agreed::NotPlayed, limit: None, play }
}

/// An attack for which the arithmetic does not matter: it has the same outcome in all modes.
const fn in_all_modes(name: &'static str, play: fn(&mut Stage) -> Played) -> Attack {
    Attack { name, by: SERVER, in_points: false, agreed: Agreed::NotPlayed, limit: None, play }
}

fn is_sum(bytes: &[u8]) -> bool {
    !matches!(bytes.get(1), None | Some(&(roster::KIND | hello::KIND | notes::KIND | TASK | STEP)))
}

/// The server replaces the bytes of each sum.
fn on_sums(stage: &mut Stage, mut change: impl FnMut(&VecDeque<LivePacket>, u16, Vec<u8>) -> Vec<Vec<u8>> + 'static) {
    stage.cheat = Some(Box::new(
        move |taken, member, bytes| if is_sum(&bytes) { change(taken, member, bytes) } else { vec![bytes] },
    ));
}

/// The server changes each sum in this way.
fn tampered(
    stage: &mut Stage,
    change: impl Fn(&VecDeque<LivePacket>, LiveLayout, &mut LiveSum) -> Option<()> + 'static,
) -> Played {
    let layout = stage.room.layout();
    on_sums(stage, move |taken, _, bytes| {
        let Ok(mut sum) = wire::decode_live_sum(layout, &bytes) else { return vec![bytes] };
        match change(taken, layout, &mut sum) {
            Some(()) => vec![wire::encode_live_sum(layout, &sum)],
            None => vec![bytes],
        }
    });
    stage.frames(2);
    if let Some(number) = stage.people.iter().find_map(|(number, it)| (!it.heard.is_empty()).then_some(number)) {
        return Err(broken(format!("member {number} heard it")));
    }
    noticed(stage, EVERYBODY, |_| true, |alarm| matches!(alarm, Alarm::Sum(_)))
}

/// All of these members reported it, and nobody heard a false sum.
pub(super) fn noticed(
    stage: &Stage,
    by: &'static str,
    who: impl Fn(u16) -> bool,
    expected: impl Fn(&Alarm) -> bool,
) -> Played {
    let begun = stage.cheated.ok_or_else(|| broken("the server did nothing"))?;
    let (mut within, mut how) = (Duration::ZERO, String::new());
    for (number, person) in stage.people.iter().filter(|(number, _)| who(**number)) {
        if person.heard.iter().any(|heard| !stage.is_true(*number, heard)) {
            return Err(broken(format!("member {number} heard what was not said")));
        }
        let found = person.noticed.iter().find(|(_, alarm)| expected(alarm));
        let (at, alarm) = found.ok_or_else(|| broken(format!("member {number} is not told: {:?}", person.noticed)))?;
        within = within.max(at.saturating_sub(begun));
        how = alarm.to_string();
    }
    Ok(Outcome::Caught { by, within, how })
}

/// The packet of a member for a tick.
fn packet_of(taken: &VecDeque<LivePacket>, member: u16, tick: u32) -> Option<&LivePacket> {
    taken.iter().find(|packet| (packet.header.member, packet.header.tick) == (member, tick))
}

fn of_tick(taken: &VecDeque<LivePacket>, tick: u32) -> impl Iterator<Item = &LivePacket> {
    taken.iter().filter(move |packet| packet.header.tick == tick)
}

fn alter(stage: &mut Stage) -> Played {
    on_sums(stage, |_, _, mut bytes| {
        // the last byte has unused bits
        let place = bytes.len().saturating_sub(2);
        bytes.iter_mut().skip(place).take(1).for_each(|byte| *byte ^= 1);
        vec![bytes]
    });
    stage.frames(2);
    noticed(stage, EVERYBODY, |_| true, |alarm| matches!(alarm, Alarm::Sum(_)))
}

fn exchange(stage: &mut Stage) -> Played {
    tampered(stage, |_, _, sum| {
        let LivePayload::Mask(masked) = &sum.payload else { return None };
        let mut bytes = Vec::new();
        masked.encode(Form::Aligned, &mut bytes);
        bytes.rotate_left(4);
        let other = Masked::decode(Form::Aligned, masked.width(), masked.len(), &bytes).ok()?;
        sum.payload = LivePayload::Mask(other);
        Some(())
    })
}

fn sound(stage: &mut Stage) -> Played {
    tampered(stage, |_, layout, sum| {
        add(&mut sum.payload, &tone(layout, 100)?);
        Some(())
    })
}

/// An encryption of one level in every sample, made without a key: the level itself, or `(mG, O)`.
fn tone(layout: LiveLayout, level: u16) -> Option<LivePayload> {
    let (parameters, points) = match layout {
        LiveLayout::Mask { width, .. } => {
            let words = u32::from(level).to_le_bytes().repeat(PACKET_WORDS);
            return Masked::decode(Form::Aligned, width, PACKET_WORDS, &words).ok().map(LivePayload::Mask);
        }
        LiveLayout::ElgamalShared { parameters, .. } => (parameters, PACKET_WORDS + 1),
        LiveLayout::Elgamal { parameters, .. } => (parameters, 2 * PACKET_WORDS),
    };
    let (curve, mut point) = (parameters.built_curve(), Vec::new());
    Points::generator(curve)
        .multiply(0, &Scalar::from_u64(curve, level.into()))
        .encode(PointEncoding::Compressed, &mut point);
    let (x, parity) = point.split_at(parameters.curve().coordinate_bytes());
    let header = LiveHeader { room: ROOM, member: 0, epoch: 0, tick: 0 };
    let (tag, payload) = (Tag::default(), LivePayload::zero(layout, PACKET_WORDS));
    let mut bytes = wire::encode_live_packet(layout, &LivePacket { header, tag, payload });
    let start = bytes.len().checked_sub(PointEncoding::Compressed.encoded_len(curve, points))?;
    let (xs, parities) = bytes.get_mut(start..)?.split_at_mut(points * x.len());
    for (place, slot) in xs.chunks_exact_mut(x.len()).take(PACKET_SAMPLES).enumerate() {
        slot.copy_from_slice(x);
        *parities.get_mut(place / 8)? |= parity.first()? << (place % 8);
    }
    wire::decode_live_packet(layout, &bytes).ok().map(|packet| packet.payload)
}

fn double(stage: &mut Stage) -> Played {
    tampered(stage, |taken, _, sum| {
        let packet = packet_of(taken, 0, sum.tick)?;
        add(&mut sum.payload, &packet.payload);
        sum.tag.add_assign(&packet.tag);
        Some(())
    })
}

fn replay(stage: &mut Stage) -> Played {
    tampered(stage, |taken, _, sum| {
        let packet = packet_of(taken, 0, sum.tick.checked_sub(AGE)?)?;
        add(&mut sum.payload, &packet.payload);
        sum.tag.add_assign(&packet.tag);
        Some(())
    })
}

/// Adds minus twice the words of member 0, and minus twice its tag.
fn negate(stage: &mut Stage) -> Played {
    tampered(stage, |taken, _, sum| {
        let packet = packet_of(taken, 0, sum.tick)?;
        let LivePayload::Mask(said) = &packet.payload else { return None };
        let mut bytes = Vec::new();
        said.encode(Form::Aligned, &mut bytes);
        let twice_less = |word: &[u8; 4]| {
            (u32::from_le_bytes(*word).wrapping_mul(2).wrapping_neg() & said.width().largest()).to_le_bytes()
        };
        let bytes: Vec<u8> = bytes.as_chunks().0.iter().flat_map(twice_less).collect();
        let less = Masked::decode(Form::Aligned, said.width(), said.len(), &bytes).ok()?;
        add(&mut sum.payload, &LivePayload::Mask(less));
        // tags are pairs of numbers modulo 2^61 - 1
        let mut tag = packet.tag.to_bytes();
        for number in tag.as_chunks_mut::<8>().0 {
            *number = (((1 << 61) - 1 - u64::from_be_bytes(*number)) % ((1 << 61) - 1)).to_be_bytes();
        }
        let tag = Tag::from_bytes(tag)?;
        (0..2).for_each(|_| sum.tag.add_assign(&tag));
        Some(())
    })
}

fn earlier(stage: &mut Stage) -> Played {
    tampered(stage, |taken, _, sum| {
        let earlier = sum_of(of_tick(taken, sum.tick.checked_sub(AGE)?))?;
        *sum = LiveSum { tick: sum.tick, ..earlier };
        Some(())
    })
}

fn silence(stage: &mut Stage) -> Played {
    tampered(stage, |_, layout, sum| {
        (sum.payload, sum.tag) = (LivePayload::zero(layout, PACKET_WORDS), Tag::default());
        Some(())
    })
}

fn omit(stage: &mut Stage) -> Played {
    tampered(stage, |taken, _, sum| {
        let rest = sum_of(of_tick(taken, sum.tick).filter(|packet| packet.header.member != 0))?;
        (sum.payload, sum.tag) = (rest.payload, rest.tag);
        Some(())
    })
}

fn stranger(stage: &mut Stage) -> Played {
    tampered(stage, |_, _, sum| {
        sum.speakers.insert(77);
        Some(())
    })
}

fn shift(stage: &mut Stage) -> Played {
    tampered(stage, |_, _, sum| {
        sum.tick += 1;
        Some(())
    })
}

fn epoch(stage: &mut Stage) -> Played {
    tampered(stage, |_, _, sum| {
        sum.epoch -= 1;
        Some(())
    })
}

fn other_room(stage: &mut Stage) -> Played {
    tampered(stage, |_, _, sum| {
        sum.room.0[0] ^= 1;
        Some(())
    })
}

fn again(stage: &mut Stage) -> Played {
    on_sums(stage, |_, _, bytes| vec![bytes.clone(), bytes]);
    stage.frames(2);
    noticed(stage, EVERYBODY, |_| true, |alarm| matches!(alarm, Alarm::Sum(_)))
}

fn reorder(stage: &mut Stage) -> Played {
    let mut held: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
    on_sums(stage, move |_, member, bytes| match held.remove(&member) {
        Some(before) => vec![bytes, before],
        None => {
            held.insert(member, bytes);
            Vec::new()
        }
    });
    stage.frames(2);
    noticed(stage, EVERYBODY, |_| true, |alarm| matches!(alarm, Alarm::Sum(_)))
}

fn old_roster(stage: &mut Stage) -> Played {
    let first = |(number, person): (&u16, &super::Person)| Some((*number, person.rosters.first()?.clone()));
    let first: BTreeMap<u16, Vec<u8>> = stage.people.iter().filter_map(first).collect();
    on_sums(stage, move |_, member, bytes| [first.get(&member).cloned(), Some(bytes)].into_iter().flatten().collect());
    stage.frames(2);
    noticed(stage, EVERYBODY, |_| true, |alarm| matches!(alarm, Alarm::Roster(RosterError::Rewound { .. })))
}

/// No matter which ticks the server names, a member never makes two packets of one tick.
fn rewind(stage: &mut Stage) -> Played {
    let first = stage.taken().back().map_or(0, |packet| packet.header.tick + 1);
    stage.cheated = Some(stage.now);
    for round in 0..20u32 {
        let numbers: Vec<u16> = stage.people.keys().copied().collect();
        for member in numbers {
            stage.tell(member, &ServerMessage::Admitted { tick: round % 3 });
            stage.tell(member, &ServerMessage::Silent { tick: 5 });
            stage.packet(member).into_iter().for_each(|packet| stage.send(member, &packet));
        }
        stage.frames(1);
    }
    let layout = stage.room.layout();
    for (number, person) in &stage.people {
        let mut seen = HashSet::new();
        let ticks =
            person.packets.iter().map(|packet| wire::decode_live_header(layout, packet).map(|head| head.0.tick));
        let ticks: Result<Vec<u32>, _> = ticks.collect();
        let ticks = ticks.map_err(broken)?;
        if ticks.len() < 20 || ticks.iter().any(|tick| *tick < first || !seen.insert(*tick)) {
            return Err(broken(format!("member {number} sent ticks {ticks:?} after {first}")));
        }
    }
    noticed(stage, EVERYBODY, |_| true, |alarm| matches!(alarm, Alarm::Sum(_)))
}

fn twins(stage: &mut Stage) -> Played {
    let welcome = Welcome { room: ROOM, member: 1, tick: stage.room.open_tick(), window: 32, waiting: false };
    let mut hello = None;
    if let Some(person) = stage.people.get_mut(&2) {
        let twin = LiveMember::new(&stage.link.for_members(), "twin", true, &welcome, &mut person.rng);
        hello = twin.and_then(|mut twin| twin.poll_outgoing());
    }
    let Some(Outgoing::Binary(hello)) = hello else { return Err(broken("no hello")) };
    stage.cheated = Some(stage.now);
    stage.room.note(1, &hello, stage.now);
    stage.frames(80);
    noticed(
        stage,
        "the one whose number it is",
        |member| member == 1,
        |alarm| *alarm == Alarm::Roster(RosterError::NumberTaken(1)),
    )
}

fn rosters(stage: &mut Stage) -> Played {
    stage.cheat = Some(Box::new(|_, member, mut bytes| {
        // for member 2 the epoch begins one tick later
        if member == 2 && bytes.get(1) == Some(&roster::KIND) {
            bytes.iter_mut().skip(21).take(1).for_each(|byte| *byte = byte.wrapping_add(1));
        }
        vec![bytes]
    }));
    let link = stage.link.for_members();
    stage.enter(&link, true).map_err(broken)?;
    stage.frames(120);
    noticed(stage, EVERYBODY, |_| true, |alarm| matches!(alarm, Alarm::Sum(_)))
}

/// The server lists an extra entry. Every member leaves it out and reports it, new members too. All
/// members still hear all others.
pub(super) fn listed_besides(stage: &mut Stage, number: u16, hello: Vec<u8>) -> Played {
    let mut told: BTreeSet<u16> = BTreeSet::new();
    stage.cheat = Some(Box::new(move |_, member, bytes| {
        let Some(mut change) = Change::decode(&bytes) else { return vec![bytes] };
        if told.insert(member) || change.base == 0 {
            change.new.retain(|(other, _)| *other != number);
            change.new.push((number, hello.clone()));
            change.new.sort_unstable();
        }
        vec![change.encode()]
    }));
    let link = stage.link.for_members();
    let late = stage.enter(&link, true).map_err(broken)?;
    stage.frames(200);
    let last = stage.room.open_tick();
    for (member, person) in &stage.people {
        let heard = person.heard.last().filter(|heard| heard.tick + 20 > last);
        let everybody = heard.is_some_and(|heard| heard.speakers.iter().eq(stage.people.keys().copied()));
        if !everybody || person.noticed.len() != 1 {
            return Err(broken(format!(
                "member {member} hears {:?}, told {:?}",
                heard.map(|it| it.tick),
                person.noticed
            )));
        }
    }
    stage.people.get(&late).ok_or_else(|| broken("nobody came"))?;
    noticed(
        stage,
        EVERYBODY,
        |_| true,
        |alarm| matches!(alarm, Alarm::LeftOut { members } if members.contains(&number)),
    )
}

fn lists_noise(stage: &mut Stage) -> Played {
    listed_besides(stage, 9, vec![7; hello::HELLO_BYTES])
}

/// The member with that session begins another one, and all others hear it.
fn lists_twice(stage: &mut Stage) -> Played {
    let session = stage.people.get(&0).and_then(|person| Some(person.member.roster()?.get(&2)?.session));
    let session = session.ok_or_else(|| broken("nobody is there"))?;
    let said = Hello { member: 9, speaks: true, name: "two".to_owned() };
    let twin = hello::write(&RoomKeys::new(&stage.link), ROOM, session, &said).ok_or_else(|| broken("no hello"))?;
    listed_besides(stage, 9, twin)
}

fn earlier_call(stage: &mut Stage) -> Played {
    stage.frames(5);
    let Some(person) = stage.people.get_mut(&1) else { return Err(broken("nobody is there")) };
    let welcome = Welcome { room: ROOM, member: 1, tick: 0, window: 32, waiting: false };
    let later = LiveMember::new(&stage.link.for_members(), "later", true, &welcome, &mut person.rng);
    let mut later = later.ok_or_else(|| broken("no newcomer"))?;
    let came = person.rosters.iter().chain(&person.came);
    let heard = came.filter_map(|bytes| later.binary(bytes)).count();
    let alarm = std::iter::from_fn(|| later.poll_news()).find_map(|news| match news {
        News::Alarm(alarm @ Alarm::Roster(_)) => Some(alarm),
        _ => None,
    });
    match alarm {
        Some(alarm) if heard == 0 => {
            Ok(Outcome::Caught { by: "the newcomer", within: Duration::ZERO, how: alarm.to_string() })
        }
        _ => Err(broken(format!("{heard} sums of an earlier call were heard"))),
    }
}

fn omit_openly(stage: &mut Stage) -> Played {
    stage.left_out = BTreeSet::from([0]);
    stage.cheated = Some(stage.now);
    stage.frames(150);
    missed_by_all(stage)?;
    let others = stage.people.iter().filter(|(number, _)| **number != 0);
    if others.flat_map(|(_, person)| &person.noticed).count() > 0 {
        return Err(broken("somebody else has an alarm"));
    }
    noticed(stage, "the one left out", |member| member == 0, |alarm| matches!(alarm, Alarm::Omitted { .. }))
}

/// All members know by now that the first member is in no sum.
fn missed_by_all(stage: &Stage) -> Result<(), Broken> {
    let missing = News::Missing { member: 0, missing: true };
    match stage.people.iter().find(|(_, person)| !person.news.contains(&missing)) {
        Some((member, _)) => Err(broken(format!("member {member} is not told who is missing"))),
        None => Ok(()),
    }
}

fn omit_as_late(stage: &mut Stage) -> Played {
    let layout = stage.room.layout();
    stage.left_out = BTreeSet::from([0]);
    on_sums(stage, move |_, _, bytes| match wire::decode_live_sum(layout, &bytes) {
        Ok(mut sum) => {
            sum.late.insert(0);
            vec![wire::encode_live_sum(layout, &sum)]
        }
        Err(_) => vec![bytes],
    });
    stage.frames(150);
    // packets for the next ticks had arrived before
    let is_in = |person: &super::Person| person.heard.iter().skip(5).any(|heard| heard.speakers.contains(0));
    let told = stage.people.values().any(|person| !person.noticed.is_empty());
    let late = stage
        .people
        .get(&0)
        .map_or(0, |person| person.news.iter().filter(|news| matches!(news, News::Late { .. })).count());
    if stage.people.len() < 4 || told || late < 100 || stage.people.values().any(is_in) {
        return Err(broken(format!("{} members, alarms: {told}, {late} times late", stage.people.len())));
    }
    missed_by_all(stage)?;
    let how = format!("the speaker is in no sum, as every member sees, and was called late {late} times");
    Ok(Outcome::Succeeded { how })
}

/// Plays frames until so many windows are over that began after now.
fn windows(stage: &mut Stage, count: u32) {
    let until = (stage.room.open_tick() / WINDOW_TICKS + 1 + count) * WINDOW_TICKS + 5;
    while stage.room.open_tick() < until {
        stage.frame();
    }
}

fn single(stage: &mut Stage) -> Played {
    let layout = stage.room.layout();
    let odd = (stage.room.open_tick() / WINDOW_TICKS + 1) * WINDOW_TICKS + 30;
    on_sums(stage, move |taken, member, bytes| {
        let kept = packet_of(taken, 0, odd).filter(|_| member == 2);
        match (wire::decode_live_sum(layout, &bytes), kept) {
            (Ok(sum), Some(kept)) if sum.tick == odd => vec![wire::encode_live_sum(layout, &alone(kept))],
            _ => vec![bytes],
        }
    });
    windows(stage, 1);
    let shown = stage.people.get(&2).and_then(|person| person.heard.iter().find(|heard| heard.tick == odd));
    if shown.is_none_or(|heard| heard.speakers.len() != 1) {
        return Err(broken("one voice alone was not heard"));
    }
    noticed(stage, EVERYBODY, |_| true, |alarm| matches!(alarm, Alarm::Histories { .. }))
}

/// The sum of the member's own half.
fn halves(taken: &VecDeque<LivePacket>, layout: LiveLayout, member: u16, bytes: Vec<u8>) -> Vec<Vec<u8>> {
    let Ok(sum) = wire::decode_live_sum(layout, &bytes) else { return vec![bytes] };
    let half = of_tick(taken, sum.tick).filter(|packet| packet.header.member / 2 == member / 2);
    match sum_of(half) {
        Some(half) => vec![wire::encode_live_sum(layout, &half)],
        None => vec![bytes],
    }
}

fn split(stage: &mut Stage) -> Played {
    let layout = stage.room.layout();
    on_sums(stage, move |taken, member, bytes| halves(taken, layout, member, bytes));
    windows(stage, 1);
    noticed(stage, EVERYBODY, |_| true, |alarm| matches!(alarm, Alarm::Histories { .. }))
}

fn split_and_silence(stage: &mut Stage) -> Played {
    let layout = stage.room.layout();
    let roster = stage.people.get(&0).and_then(|person| person.member.roster());
    let sessions: Vec<(u16, [u8; 16])> =
        roster.into_iter().flatten().map(|(member, listed)| (*member, listed.session.0)).collect();
    let from = move |note: &[u8]| {
        let session = notes::head_of(note)?.session.0;
        sessions.iter().find(|(_, known)| *known == session).map(|(member, _)| *member)
    };
    stage.cheat = Some(Box::new(move |taken, member, bytes| match bytes.get(1) {
        Some(&notes::KIND) if from(&bytes).is_some_and(|from| from / 2 != member / 2) => Vec::new(),
        Some(&(roster::KIND | notes::KIND)) => vec![bytes],
        _ => halves(taken, layout, member, bytes),
    }));
    windows(stage, PATIENCE + 3);
    let found = noticed(stage, EVERYBODY, |_| true, |alarm| matches!(alarm, Alarm::Unconfirmed { .. }));
    let other = |alarm: &Alarm| !matches!(alarm, Alarm::Unconfirmed { .. } | Alarm::Omitted { .. });
    if stage.people.values().flat_map(|person| &person.noticed).any(|(_, alarm)| other(alarm)) {
        return Err(broken("words came through"));
    }
    found
}

fn keep(stage: &mut Stage) -> Played {
    if let Some(host) = stage.people.get_mut(&0) {
        host.member.say(&ClientMessage::Eject { member: 1 });
        // the server gets the message, and does nothing
        while host.member.poll_outgoing().is_some() {}
    }
    stage.frames(50);
    let hears = stage.people.get(&1).is_some_and(|person| person.heard.len() >= 49);
    let listed = stage.people.get(&0).and_then(|host| host.member.roster()).is_some_and(|all| all.contains_key(&1));
    if hears && listed {
        Ok(Outcome::Succeeded { how: "it hears on, and stands on everybody's list".to_owned() })
    } else {
        Err(broken("it does not hear"))
    }
}
