//! Attacks of members, of former members, of strangers, and of a member together with the server.

use std::time::Duration;

use crate::{
    mask::{Form, MaskSender, Masked, Tag, TagSender},
    wire::{self, LiveHeader, LiveLayout, LivePacket, LivePayload},
};
use chacha20::{ChaCha20Rng, rand_core::SeedableRng};

use super::{
    super::{
        Alarm, Challenge, LiveMember, News, OpenedTick, Outgoing, PACKET_WORDS, RoomLink, RoomSecret, hello,
        keys::{EpochKeys, RoomKeys, SessionId},
        link::Keys,
        messages::{ClientMessage, Nonce, Welcome},
        notes::Hello,
        roster::{Change, Roster},
    },
    Agreed, Attack, Broken, Outcome, Person, Played, ROOM, Stage, alone, broken, opened,
    server::listed_besides,
    sum_of,
};
use crate::{PACKET_SAMPLES, TICK_MS, server::Refusal};

const SERVER: &str = "the server";
const MEMBER: &str = "a member";
const GONE: &str = "a removed member";
const LEFT: &str = "a former member";
const THE_LINK: &str = "the link is the secret, and rosters go through the server: a new link is the remedy";
const ONE_SUM: &str = "the server cannot check encrypted samples, and members see one sum: the culprit stays unknown";

pub(super) static ATTACKS: &[Attack] = &[
    caught("send packets for ticks far ahead", MEMBER, flood),
    caught("flood the room with messages", MEMBER, chatter),
    caught("send in another member's name", MEMBER, in_anothers_name),
    caught("send a hello of noise", MEMBER, noise),
    caught("send a hello under another member's number", MEMBER, number),
    caught("send a hello with another member's session", MEMBER, session),
    caught("send a hello with an earlier session", MEMBER, earlier_session),
    limit("send a packet that does not match its tag", MEMBER, spoil, ONE_SUM),
    Attack { in_points: true, ..limit("send another member's packet as its own", MEMBER, copy, ONE_SUM) },
    limit(
        "send samples louder than 16 bits",
        MEMBER,
        shout,
        "samples are added unseen, and listeners have only a limiter; a host can mute members one by one",
    ),
    limit("overflow the sum", MEMBER, overflow, ONE_SUM),
    limit("mark other members as talking", MEMBER, flags, "the bits of who talks are added like samples"),
    Attack {
        agreed: Agreed::Caught,
        ..limit("keep listening after a removal, by a tap or the server", GONE, listen_on, THE_LINK)
    },
    Attack {
        agreed: Agreed::Caught,
        ..limit("keep listening after leaving, by a tap or the server", LEFT, leave_and_listen_on, THE_LINK)
    },
    Attack {
        agreed: Agreed::Same,
        ..limit(
            "rejoin by the link after a removal",
            GONE,
            come_again,
            "every list shows a new member; a lobby asks the host",
        )
    },
    Attack {
        agreed: Agreed::Same,
        ..limit(
            "decrypt a tapped packet",
            "a member with a tap or the server",
            tap,
            "all members can derive all keys; TLS keeps taps out, nothing keeps the server's help out",
        )
    },
    Attack {
        agreed: Agreed::Same,
        ..limit(
            "forge a packet of another member",
            "a member and the server",
            forge,
            "all members have the keys of all tags; no signature would be as small",
        )
    },
    caught("listen on the wire without the link", "a stranger", listen_without),
    caught("join without the link's secret", "a stranger who knows the room's name and settings", come_without),
    caught("replay a recorded join", "a stranger who saw a join", join_again),
    caught("admit a client without the secret", SERVER, let_in_without),
];

const fn caught(name: &'static str, by: &'static str, play: fn(&mut Stage) -> Played) -> Attack {
    Attack { name, by, in_points: false, agreed: Agreed::NotPlayed, limit: None, play }
}

const fn limit(name: &'static str, by: &'static str, play: fn(&mut Stage) -> Played, why: &'static str) -> Attack {
    Attack { name, by, in_points: false, agreed: Agreed::NotPlayed, limit: Some(why), play }
}

/// The server removed member 1 and said so, and the others go on.
fn put_out(stage: &mut Stage, begun: Duration) -> Played {
    let [(1, how)] = &stage.removed[..] else { return Err(broken(format!("put out: {:?}", stage.removed))) };
    let (how, within) = (how.clone(), stage.now.saturating_sub(begun));
    stage.forget();
    stage.frames(60);
    match stage.people.get(&2).and_then(|person| person.heard.last()) {
        Some(heard) if heard.speakers.iter().eq([0, 2, 3]) && stage.is_true(2, heard) => {
            Ok(Outcome::Caught { by: SERVER, within, how })
        }
        _ => Err(broken("the others do not go on")),
    }
}

fn flood(stage: &mut Stage) -> Played {
    let (begun, layout) = (stage.now, stage.room.layout());
    let packet = stage.packet(1).ok_or_else(|| broken("no packet"))?;
    let mut ahead = wire::decode_live_packet(layout, &packet).map_err(broken)?;
    ahead.header.tick += 40;
    stage.send(1, &wire::encode_live_packet(layout, &ahead));
    put_out(stage, begun)
}

fn chatter(stage: &mut Stage) -> Played {
    let begun = stage.now;
    for _ in 0..30 {
        stage.room.message(1, &ClientMessage::Hand { raised: true }, stage.now);
    }
    stage.follow();
    put_out(stage, begun)
}

fn in_anothers_name(stage: &mut Stage) -> Played {
    let begun = stage.now;
    let packet = stage.packet(0).ok_or_else(|| broken("no packet"))?;
    stage.send(1, &packet);
    put_out(stage, begun)
}

/// The hello of another session of member 1, as its program would send it.
fn hello(stage: &Stage, session: SessionId, member: u16) -> Result<Vec<u8>, Broken> {
    let said = Hello { member, speaks: true, name: "one".to_owned() };
    hello::write(&RoomKeys::new(&stage.link), ROOM, session, &said).ok_or_else(|| broken("no hello"))
}

/// Member 1 presents itself with this hello.
fn presents(stage: &mut Stage, hello: &[u8]) -> Played {
    let begun = stage.now;
    stage.room.note(1, hello, stage.now);
    stage.follow();
    put_out(stage, begun)
}

fn noise(stage: &mut Stage) -> Played {
    let mut noise = hello(stage, SessionId([77; 16]), 1)?;
    noise.iter_mut().skip(29).for_each(|byte| *byte = byte.wrapping_mul(37).wrapping_add(11));
    presents(stage, &noise)
}

fn number(stage: &mut Stage) -> Played {
    let hello = hello(stage, SessionId([77; 16]), 2)?;
    presents(stage, &hello)
}

fn session_of(stage: &Stage, member: u16) -> Result<SessionId, Broken> {
    let roster = stage.people.get(&0).and_then(|person| person.member.roster());
    let listed = roster.and_then(|roster| roster.get(&member));
    listed.map(|listed| listed.session).ok_or_else(|| broken("nobody of that number"))
}

fn session(stage: &mut Stage) -> Played {
    let hello = hello(stage, session_of(stage, 2)?, 1)?;
    presents(stage, &hello)
}

fn earlier_session(stage: &mut Stage) -> Played {
    let link = stage.link.for_members();
    let late = stage.enter(&link, true).map_err(broken)?;
    stage.frames(80);
    let session = session_of(stage, late)?;
    stage.people.remove(&late);
    stage.room.leave(late, stage.now);
    stage.frames(80);
    let hello = hello(stage, session, 1)?;
    presents(stage, &hello)
}

/// One frame in which member 1 sends a changed packet, after the packets of all others.
fn frame_with(
    stage: &mut Stage,
    make: impl FnOnce(&Stage, LivePacket) -> Result<LivePacket, Broken>,
) -> Result<(), Broken> {
    let layout = stage.room.layout();
    for number in [0, 2, 3] {
        stage.packet(number).into_iter().for_each(|packet| stage.send(number, &packet));
    }
    let own = stage.packet(1).ok_or_else(|| broken("no packet"))?;
    let made = make(stage, wire::decode_live_packet(layout, &own).map_err(broken)?)?;
    stage.send(1, &wire::encode_live_packet(layout, &made));
    stage.pass();
    // packets are sent some ticks ahead
    stage.frames(5);
    Ok(())
}

/// All members lost one tick and were told, and everything else that they heard was true.
fn lost(stage: &Stage) -> Played {
    for (number, person) in &stage.people {
        let untrue = person.heard.iter().filter(|heard| !stage.is_true(*number, heard)).count();
        if !matches!(person.noticed[..], [(_, Alarm::Sum(_))]) || person.heard.is_empty() || untrue > 0 {
            return Err(broken(format!("member {number} is told {:?}", person.noticed)));
        }
    }
    Ok(Outcome::Succeeded {
        how: "every member rejects the tick, gets an alarm, and hears nothing in the tick".to_owned(),
    })
}

fn spoil(stage: &mut Stage) -> Played {
    frame_with(stage, |_, packet| Ok(LivePacket { tag: Tag::default(), ..packet }))?;
    lost(stage)
}

fn copy(stage: &mut Stage) -> Played {
    frame_with(stage, |stage, own| {
        let same = |packet: &&LivePacket| (packet.header.member, packet.header.tick) == (0, own.header.tick);
        let other = stage.taken().iter().find(same).ok_or_else(|| broken("nothing to copy"))?;
        Ok(LivePacket { header: own.header, ..other.clone() })
    })?;
    lost(stage)
}

/// A holder of the link with another program than the others, in mode `mask`.
struct Insider {
    layout: LiveLayout,
    roster: Roster,
    epoch: EpochKeys,
}

impl Insider {
    /// The keys that a member can derive from the link, its rosters and its group.
    fn new(stage: &Stage, member: u16) -> Result<Self, Broken> {
        let keys = RoomKeys::new(&stage.link);
        let person = stage.people.get(&member).ok_or_else(|| broken("nobody is there"))?;
        let mut roster = Roster::default();
        for bytes in &person.rosters {
            let change = Change::decode(bytes).ok_or_else(|| broken("no roster"))?;
            roster = roster.changed(&change, &keys, ROOM).map_err(broken)?;
        }
        let group = person.member.exported(&roster);
        let epoch = keys.epoch(roster.epoch, &roster.digest(ROOM), group.as_deref());
        Ok(Self { layout: stage.room.layout(), roster, epoch })
    }

    /// A forged packet of any member, with a valid tag.
    fn packet(&self, header: LiveHeader, words: &[i32; PACKET_WORDS]) -> Result<LivePacket, Broken> {
        let LiveLayout::Mask { width, .. } = self.layout else { return Err(broken("a mode of points")) };
        let listed = self.roster.members.get(&header.member).ok_or_else(|| broken("nobody of that number"))?;
        let session = || self.epoch.session(header.member, listed.session);
        let (from, tick) = (self.roster.from, header.tick);
        let tag = TagSender::new(self.epoch.coefficients(), session(), from).tag(tick, words).map_err(broken)?;
        // masks alone, and then the words under them
        let mut sender = MaskSender::new(self.epoch.coefficients(), session(), width, from);
        let (mut masked, _) = sender.encrypt(tick, &[0; PACKET_WORDS]).map_err(broken)?;
        let bytes: Vec<u8> = words.iter().flat_map(|word| (*word as u32 & width.largest()).to_le_bytes()).collect();
        let said = Masked::decode(Form::Aligned, width, PACKET_WORDS, &bytes).map_err(broken)?;
        masked.add_assign(&said).map_err(broken)?;
        Ok(LivePacket { header, tag, payload: LivePayload::Mask(masked) })
    }
}

/// One frame in which member 1 sends any level, and sets any talk bits.
fn says(stage: &mut Stage, level: i32, flags: i32) -> Result<(), Broken> {
    let insider = Insider::new(stage, 1)?;
    frame_with(stage, |_, own| {
        let mut words = [level; PACKET_WORDS];
        words[PACKET_SAMPLES] = flags;
        insider.packet(own.header, &words)
    })
}

/// A member heard this level in one of its sums, and there was no alarm.
fn is_heard(stage: &Stage, member: u16, level: i32, how: &str) -> Played {
    let heard: Vec<i32> = stage
        .people
        .get(&member)
        .into_iter()
        .flat_map(|person| person.heard.iter().map(|heard| heard.samples[0]))
        .collect();
    if heard.contains(&level) && stage.people.values().all(|person| person.noticed.is_empty()) {
        Ok(Outcome::Succeeded { how: how.to_owned() })
    } else {
        Err(broken(format!("heard {heard:?}")))
    }
}

fn shout(stage: &mut Stage) -> Played {
    const LOUD: i32 = 100_000;
    says(stage, LOUD, 0)?;
    is_heard(stage, 2, 1000 + LOUD, &format!("others hear {LOUD} in every sample, before their limiter"))
}

fn overflow(stage: &mut Stage) -> Played {
    // the sum of eight speakers has 19 bits
    says(stage, 300_000, 0)?;
    lost(stage)
}

fn flags(stage: &mut Stage) -> Played {
    says(stage, 0, 0b1000)?;
    let talks = News::Talking { member: 3, talking: true };
    if stage.people.get(&0).is_some_and(|person| person.news.contains(&talks)) {
        Ok(Outcome::Succeeded { how: "member 3 is shown as talking, and says nothing".to_owned() })
    } else {
        Err(broken("member 3 is not shown as talking"))
    }
}

/// Removes member 1, and gives the others time to agree on it. Returns all that member 1 still has.
fn eject(stage: &mut Stage) -> Result<Person, Broken> {
    let person = stage.people.remove(&1).ok_or_else(|| broken("member 1 is not there"))?;
    if let Some(host) = stage.people.get_mut(&0) {
        host.member.say(&ClientMessage::Eject { member: 1 });
    }
    stage.carry();
    stage.frames(40);
    match stage.removed[..] {
        [(1, _)] => Ok(person),
        _ => Err(broken("member 1 is still there")),
    }
}

/// Member 1 leaves, and the others have time to agree on it. Returns all that member 1 still has:
/// its program need not forget anything.
fn leave(stage: &mut Stage) -> Result<Person, Broken> {
    let person = stage.people.remove(&1).ok_or_else(|| broken("member 1 is not there"))?;
    stage.room.leave(1, stage.now);
    stage.frames(40);
    Ok(person)
}

fn listen_on(stage: &mut Stage) -> Played {
    opens_after(stage, eject)
}

fn leave_and_listen_on(stage: &mut Stage) -> Played {
    opens_after(stage, leave)
}

/// Can a former member decrypt later messages to the others?
fn opens_after(stage: &mut Stage, go: fn(&mut Stage) -> Result<Person, Broken>) -> Played {
    let link = stage.link.for_members();
    stage.forget();
    let gone = go(stage)?;
    stage.frames(40);
    let others = stage.people.get(&2).ok_or_else(|| broken("nobody is there"))?;
    // count sums of the epoch that began without the member: the last ten are of that epoch
    let sums = |with: Option<&LiveMember>| opened(&link, &others.rosters, &others.came, with);
    let with_its_keys = sums(Some(&gone.member))?;
    let first = stage.room.open_tick().saturating_sub(12);
    let after = |heard: &[OpenedTick]| {
        heard
            .iter()
            .filter(|heard| heard.tick >= first && heard.samples[0] == 1008 && heard.speakers.len() == 3)
            .count()
    };
    match (stage.link.settings.keys, after(&with_its_keys), after(&sums(None)?)) {
        (Keys::Link, 9.., _) => {
            Ok(Outcome::Succeeded { how: "it opens the sums of the epoch that began without it".to_owned() })
        }
        (Keys::Group, 0, 0) if after(&sums(Some(&others.member))?) >= 9 => {
            let last = with_its_keys.last().map_or(first, |heard| heard.tick);
            let begun = others.heard.first().map_or(last, |heard| heard.tick);
            let within = Duration::from_millis(TICK_MS) * last.saturating_sub(begun);
            let how = "link and old keys decrypt no sum of the later epoch; the members decrypt all sums";
            Ok(Outcome::Caught { by: "the keys", within, how: how.to_owned() })
        }
        (_, old, none) => Err(broken(format!("{old} sums opened with its keys, {none} with the link"))),
    }
}

fn come_again(stage: &mut Stage) -> Played {
    let link = stage.link.for_members();
    eject(stage)?;
    let begun = stage.now;
    let number = stage.enter(&link, true).map_err(broken)?;
    while stage.people.get(&number).is_some_and(|person| person.heard.is_empty()) {
        stage.frame();
        if stage.now > begun + Duration::from_secs(5) {
            return Err(broken("it hears nothing"));
        }
    }
    let seen = stage.people.get(&0).and_then(|host| host.member.roster()).is_some_and(|all| all.contains_key(&number));
    if seen {
        let waited = (stage.now - begun).as_millis();
        Ok(Outcome::Succeeded { how: format!("it hears again after {waited} ms, and stands on everybody's list") })
    } else {
        Err(broken("it is on no list"))
    }
}

fn tap(stage: &mut Stage) -> Played {
    stage.frames(2);
    let (layout, link) = (stage.room.layout(), stage.link.for_members());
    let packet = stage.taken().iter().rev().find(|packet| packet.header.member == 0);
    let sum = wire::encode_live_sum(layout, &alone(packet.ok_or_else(|| broken("no packet"))?));
    let person = stage.people.get(&3).ok_or_else(|| broken("nobody is there"))?;
    match opened(&link, &person.rosters, &[sum], Some(&person.member))?.first() {
        Some(heard) if heard.samples.iter().all(|sample| *sample == 1000) => {
            Ok(Outcome::Succeeded { how: "it hears that member alone".to_owned() })
        }
        _ => Err(broken("it does not open")),
    }
}

fn forge(stage: &mut Stage) -> Played {
    const LEVEL: i32 = 77;
    let (insider, layout) = (Insider::new(stage, 1)?, stage.room.layout());
    stage.cheat = Some(Box::new(move |taken, _, bytes| {
        let forged = |packet: &LivePacket| match packet.header.member {
            0 => insider.packet(packet.header, &[LEVEL; PACKET_WORDS]).ok(),
            _ => Some(packet.clone()),
        };
        let Ok(sum) = wire::decode_live_sum(layout, &bytes) else { return vec![bytes] };
        let packets: Option<Vec<LivePacket>> =
            taken.iter().filter(|packet| packet.header.tick == sum.tick).map(forged).collect();
        match packets.and_then(|packets| sum_of(&packets)) {
            Some(sum) => vec![wire::encode_live_sum(layout, &sum)],
            None => vec![bytes],
        }
    }));
    stage.frames(2);
    is_heard(stage, 2, LEVEL - 300, "others hear what member 0 never said, under its number")
}

/// The same place and settings, and another secret.
fn without_secret(link: &RoomLink) -> RoomLink {
    let secret = RoomSecret::random(&mut ChaCha20Rng::from_seed([99; 32]));
    RoomLink { secret, ..link.for_members() }
}

fn listen_without(stage: &mut Stage) -> Played {
    stage.frames(5);
    let person = stage.people.get(&0).ok_or_else(|| broken("nobody is there"))?;
    match opened(&without_secret(&stage.link), &person.rosters, &person.came, None) {
        Ok(heard) if heard.is_empty() => {
            let how = "nobody on the roster counts, and no sum opens".to_owned();
            Ok(Outcome::Caught { by: "the keys", within: Duration::ZERO, how })
        }
        Ok(heard) => Err(broken(format!("{} sums opened", heard.len()))),
        Err(error) => Err(error),
    }
}

fn come_without(stage: &mut Stage) -> Played {
    match stage.enter(&without_secret(&stage.link), true) {
        Err(refusal @ Refusal::Secret) => {
            Ok(Outcome::Caught { by: SERVER, within: Duration::ZERO, how: refusal.to_string() })
        }
        other => Err(broken(format!("{other:?}"))),
    }
}

/// A join that a stranger saw on a connection without TLS is not valid on another connection.
fn join_again(stage: &mut Stage) -> Played {
    let link = stage.link.for_members();
    let of =
        |nonce: u8| Challenge { nonce: Nonce([nonce; 16]), room: link.room.clone(), hosts: vec![link.host_name()] };
    let (seen, now) = (of(1), of(2));
    let join = LiveMember::join(&link, true, seen.nonce);
    join.clone().checked(&seen).map_err(broken)?;
    match join.checked(&now) {
        Err(refusal @ Refusal::Proof) => {
            Ok(Outcome::Caught { by: SERVER, within: Duration::ZERO, how: refusal.to_string() })
        }
        other => Err(broken(format!("{other:?}"))),
    }
}

/// The server lists a stranger with another secret, and sends it everything that it sends to
/// others.
fn let_in_without(stage: &mut Stage) -> Played {
    let welcome = Welcome { room: ROOM, member: 9, tick: stage.room.open_tick(), window: 32, waiting: false };
    let mut rng = ChaCha20Rng::from_seed([98; 32]);
    let stranger = LiveMember::new(&without_secret(&stage.link), "stranger", true, &welcome, &mut rng);
    let mut stranger = stranger.ok_or_else(|| broken("no stranger"))?;
    let Some(Outgoing::Binary(hello)) = stranger.poll_outgoing() else { return Err(broken("no hello")) };
    let found = listed_besides(stage, 9, hello)?;
    let came = stage.people.get(&0).map(|person| person.came.clone()).unwrap_or_default();
    let heard = came.iter().filter_map(|bytes| stranger.binary(bytes)).count();
    if heard == 0 { Ok(found) } else { Err(broken(format!("it hears {heard} sums"))) }
}
