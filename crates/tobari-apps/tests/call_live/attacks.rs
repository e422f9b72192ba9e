//! What a server can do, alone or with somebody, and what comes of it. `docs/threats.md` names each.

use crate::*;
use std::collections::HashSet;
use tobari_apps::call::live::{LiveMode, RosterError, SumError, history::WINDOW_TICKS};
use tobari_core::{
    curve::Adder,
    mask::{OpenError, Tag},
    wire::{LivePacket, LivePayload, MemberSet},
};

fn set(members: &[u16]) -> MemberSet {
    let mut set = MemberSet::default();
    members.iter().for_each(|member| assert!(set.insert(*member)));
    set
}

/// A server that changes every sum, and people who hear nothing but alarms of this kind.
fn is_refused(what: &str, change: impl Fn(&mut LiveSum, &[LivePacket]) + 'static, expected: fn(&SumError) -> bool) {
    let mut world = World::with(4);
    for (member, level) in [(0, 1000), (1, -300), (2, 8)] {
        world.says(member, level);
    }
    world.frames(20);
    let layout = world.room.layout();
    let packets: Vec<LivePacket> = (0..4)
        .map(|member| {
            wire::decode_live_packet(layout, world.person_of(member).packets.iter().nth_back(10).unwrap()).unwrap()
        })
        .collect();
    world.forget();
    world.cheat = Some(Box::new(move |_, bytes| {
        let Ok(mut sum) = wire::decode_live_sum(layout, &bytes) else { return vec![bytes] };
        change(&mut sum, &packets);
        vec![wire::encode_live_sum(layout, &sum)]
    }));
    world.frames(6);
    for (number, person) in &world.people {
        assert!(person.heard.is_empty(), "{what}: member {number} heard it");
        let sums: Vec<_> = person.alarms();
        assert!(!sums.is_empty(), "{what}: member {number} is told nothing");
        for alarm in sums {
            assert!(matches!(&alarm, Alarm::Sum(error) if expected(error)), "{what}: {alarm:?}");
        }
    }
    // what was refused has done no harm
    world.cheat = None;
    world.frames(5);
    assert_eq!(world.person_of(3).last(), (vec![0, 1, 2, 3], 708), "{what}");
}

fn forged(error: &SumError) -> bool {
    matches!(error, SumError::Forged { error: OpenError::Forged, .. })
}

fn add(sum: &mut LiveSum, packet: &LivePacket) {
    assert!(sum.payload.add_assign_with(&packet.payload, &mut Adder::default()));
    sum.tag.add_assign(&packet.tag);
}

/// Bytes of the words with a change, read again.
fn with_words(sum: &LiveSum, change: impl Fn(&mut Vec<u8>)) -> LivePayload {
    let LivePayload::Mask(masked) = &sum.payload else { panic!("another mode") };
    let mut bytes = Vec::new();
    masked.encode(tobari_core::mask::Form::Aligned, &mut bytes);
    change(&mut bytes);
    let form = tobari_core::mask::Form::Aligned;
    LivePayload::Mask(tobari_core::mask::Masked::decode(form, masked.width(), masked.len(), &bytes).unwrap())
}

#[test]
fn an_altered_sum_is_refused_by_everybody() {
    is_refused("one bit", |sum, _| sum.payload = with_words(sum, |bytes| bytes[40] ^= 1), forged);
    is_refused(
        "samples that change places",
        |sum, _| sum.payload = with_words(sum, |bytes| bytes.rotate_left(4)),
        forged,
    );
    is_refused("a tag of nothing", |sum, _| sum.tag = Tag::default(), forged);
    is_refused("silence under the list", |sum, _| sum.payload = with_words(sum, |bytes| bytes.fill(0)), forged);
}

#[test]
fn sound_of_the_servers_own_is_refused() {
    is_refused(
        "a constant",
        |sum, _| {
            let tone = with_words(sum, |bytes| bytes.copy_from_slice(&[100, 0, 0, 0].repeat(321)));
            assert!(sum.payload.add_assign_with(&tone, &mut Adder::default()));
        },
        forged,
    );
}

#[test]
fn doubling_a_speaker_and_adding_an_old_packet_are_refused() {
    is_refused(
        "the sum twice",
        |sum, _| {
            let (payload, tag) = (sum.payload.clone(), sum.tag);
            assert!(sum.payload.add_assign_with(&payload, &mut Adder::default()));
            sum.tag.add_assign(&tag);
        },
        forged,
    );
    is_refused("a packet of an earlier tick", |sum, packets| add(sum, &packets[1]), forged);
    is_refused(
        "a packet of an earlier tick instead of all",
        |sum, packets| {
            (sum.payload, sum.tag, sum.speakers) = (packets[1].payload.clone(), packets[1].tag, set(&[1]));
        },
        forged,
    );
}

#[test]
fn lies_about_who_is_in_the_sum_are_refused() {
    is_refused(
        "one named who is not in it, one not named who is",
        |sum, _| {
            let mut speakers: Vec<u16> = sum.speakers.iter().collect();
            speakers.pop();
            sum.speakers = set(&speakers);
        },
        forged,
    );
    is_refused("nobody named", |sum, _| sum.speakers = MemberSet::default(), forged);
    is_refused(
        "a stranger named",
        |sum, _| {
            sum.speakers.insert(77);
        },
        |error| matches!(error, SumError::Forged { error: OpenError::Unknown(77), .. }),
    );
}

#[test]
fn sums_of_another_tick_epoch_room_or_shape_are_refused() {
    is_refused("moved to the tick after", |sum, _| sum.tick += 1, forged);
    is_refused("another epoch", |sum, _| sum.epoch += 1, |error| matches!(error, SumError::Epoch { .. }));
    is_refused("an epoch before", |sum, _| sum.epoch -= 1, |error| matches!(error, SumError::Epoch { .. }));
    is_refused("another room", |sum, _| sum.room = RoomId([8; 8]), |error| *error == SumError::Malformed);
}

#[test]
fn a_sum_that_comes_again_and_an_earlier_one_are_refused() {
    let mut world = World::with(2);
    let mut last: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
    world.cheat = Some(Box::new(move |member, bytes| {
        let before = last.insert(member, bytes.clone());
        [Some(bytes.clone()), Some(bytes), before].into_iter().flatten().collect()
    }));
    world.frames(10);
    let person = world.person_of(0);
    assert_eq!(person.heard.len(), 10);
    let rewound = |alarm: &&Alarm| matches!(alarm, Alarm::Sum(SumError::Rewound { .. }));
    assert!(person.alarms().iter().filter(rewound).count() >= 19);
    world.tell(0, &ServerMessage::Silent { tick: 3 });
    assert!(world.person_of(0).alarms().last().iter().any(rewound));
}

/// A server that goes back, and a capture of all packets: never two of one session, epoch and tick that differ.
#[test]
fn whatever_ticks_the_server_names_no_tick_is_sent_twice() {
    let mut world = World::with(2);
    for round in 0..20u32 {
        for member in [0, 1] {
            world.tell(member, &ServerMessage::Admitted { tick: round % 3 });
            world.tell(member, &ServerMessage::Silent { tick: 5 });
            world.tell(member, &ServerMessage::Silent { tick: 90 + 7 * (round % 5) });
        }
        for (number, person) in &mut world.people {
            let packet = person.member.frame(&level(*number as i16 + round as i16), true, &mut person.rng);
            person.packets.extend(packet);
        }
        world.frames(2);
    }
    let layout = world.room.layout();
    for person in world.people.values() {
        let mut seen = HashSet::new();
        let ticks: Vec<u32> =
            person.packets.iter().map(|packet| wire::decode_live_packet(layout, packet).unwrap().header.tick).collect();
        assert!(ticks.iter().all(|tick| seen.insert(*tick)) && ticks.is_sorted(), "{ticks:?}");
        assert!(ticks.len() > 10);
    }
}

#[test]
fn what_is_sent_again_is_what_was_sent_whatever_the_microphone_hears_now() {
    let mut world = World::with(2);
    world.says(0, 123);
    world.frames(5);
    world.says(0, -77);
    world.frames(5);
    let layout = world.room.layout();
    let person = world.person_of(0);
    for packet in &person.packets {
        let tick = wire::decode_live_packet(layout, packet).unwrap().header.tick;
        assert_eq!(person.member.again(tick), Some(packet.as_slice()));
    }
    assert_eq!(person.member.again(0), None);
    // and the room adds it once
    let last = person.packets.last().unwrap().clone();
    world.forget();
    for _ in 0..3 {
        world.send(0, &last);
    }
    world.frames(5);
    world.no_alarms();
    assert!(world.person_of(1).levels().iter().all(|level| *level == -77));
}

/// The server gives two clients one number.
#[test]
fn two_clients_under_one_number_share_no_key_and_one_is_alarmed() {
    let mut world = World::with(2);
    let welcome = Welcome { room: RoomId([7; 8]), member: 1, tick: world.room.open_tick(), window: 32, waiting: false };
    let mut rng = ChaCha20Rng::from_seed([99; 32]);
    let mut twin = LiveMember::new(&world.link, "twin", true, &welcome, &mut rng).unwrap();
    let Some(Outgoing::Binary(hello)) = twin.poll_outgoing() else { panic!("no hello") };
    // its hello goes in as that of member 1, who is told of it as everybody is
    world.room.note(1, &hello, world.now);
    let mut came = Vec::new();
    for _ in 0..60 {
        world.frame();
    }
    came.extend(world.person_of(0).came.iter().filter(|bytes| bytes[1] == 0x0c).cloned());
    assert!(world.person_of(1).alarms().contains(&Alarm::Roster(RosterError::NumberTaken(1))));
    assert!(world.person_of(0).alarms().is_empty() || !world.person_of(0).heard.is_empty());
    // told everything from the beginning, the twin is the one on the roster: its packets have other keys
    let mut fresh = World::with(1);
    let one = fresh.enter(true);
    fresh.settle();
    fresh.says(one, 5);
    fresh.frames(3);
    let layout = fresh.room.layout();
    let packet = |bytes: &[u8]| wire::decode_live_packet(layout, bytes).unwrap();
    let mine = packet(fresh.person_of(one).packets.last().unwrap());
    let mut other = World::with(1);
    other.seed = 50;
    let two = other.enter(true);
    other.settle();
    other.says(two, 5);
    other.frames(3);
    let theirs = packet(other.person_of(two).packets.last().unwrap());
    assert_eq!((mine.header, one), (theirs.header, two));
    assert!(mine.payload != theirs.payload && mine.tag != theirs.tag, "equal number, tick and samples: other bytes");
}

/// Two lists: members of one hear nothing of those of the other, because the list is in the keys.
#[test]
fn members_who_are_told_different_rosters_do_not_hear_one_another_and_say_so() {
    let mut world = World::new(link());
    world.cheat = Some(Box::new(|member, bytes| {
        // member 2 is told that the epoch begins one tick later
        if member == 2 && bytes[1] == 0x0c {
            let mut other = bytes;
            other[21] += 1;
            return vec![other];
        }
        vec![bytes]
    }));
    (0..3).for_each(|member| assert_eq!(world.enter(true), member));
    world.frames(90);
    let person = world.person_of(2);
    assert!(person.heard.is_empty());
    assert!(person.alarms().iter().any(|alarm| matches!(alarm, Alarm::Sum(_))));
}

#[test]
fn rosters_that_no_member_has_made_possible_are_refused() {
    for (what, place, expected) in
        [("a hello that was changed", 60, RosterError::Stranger(0)), ("another room", 3, RosterError::Malformed)]
    {
        let mut world = World::new(link());
        world.cheat = Some(Box::new(move |_, mut bytes| {
            if bytes[1] == 0x0c {
                bytes[place] ^= 1;
            }
            vec![bytes]
        }));
        world.enter(true);
        world.frames(60);
        assert!(
            world.person_of(0).alarms().contains(&Alarm::Roster(expected)),
            "{what}: {:?}",
            world.person_of(0).alarms()
        );
        assert!(!world.person_of(0).member.can_speak() && world.person_of(0).packets.is_empty(), "{what}");
    }
}

/// A limit: who is left out, and said to be, is not in the sum. The one who is left out finds out.
#[test]
fn an_announced_omission_is_possible_and_its_victim_is_alarmed() {
    let mut world = World::with(3);
    world.says(0, 100);
    world.says(1, 20);
    // a server that does not add member 0, and says so
    for _ in 0..130 {
        for number in [0, 1, 2] {
            let person = world.people.get_mut(&number).unwrap();
            let packet = person.member.frame(&level(person.says.unwrap()), true, &mut person.rng);
            if number != 0 {
                packet.into_iter().for_each(|packet| world.send(number, &packet));
            }
        }
        world.now += Duration::from_millis(20);
        world.follow();
        world.carry();
    }
    assert_eq!(world.person_of(2).last(), (vec![1, 2], 20), "it verifies: the list says who is in it");
    assert!(world.person_of(2).alarms().is_empty());
    assert!(world.person_of(0).alarms().iter().any(|alarm| matches!(alarm, Alarm::Omitted { .. })));
}

/// A limit: one packet alone under a list of one is a sum that verifies; the histories of the members differ.
#[test]
fn a_list_of_one_verifies_and_shows_in_the_histories() {
    let mut world = World::with(3);
    world.says(0, 1000);
    world.says(1, 77);
    let layout = world.room.layout();
    let start = world.room.open_tick();
    let odd = (start / WINDOW_TICKS + 1) * WINDOW_TICKS + 30;
    let mut single = None;
    while world.room.open_tick() < odd + 2 * WINDOW_TICKS {
        // the server keeps member 0's packet of one tick, and gives it to member 2 as that tick's sum
        if world.room.open_tick() == odd && single.is_none() {
            let kept =
                world.person_of(0).packets.iter().rev().map(|packet| wire::decode_live_packet(layout, packet).unwrap());
            let kept = kept.into_iter().find(|packet| packet.header.tick == odd);
            single = kept.clone();
            world.cheat = Some(Box::new(move |member, bytes| {
                let Ok(mut sum) = wire::decode_live_sum(layout, &bytes) else { return vec![bytes] };
                if let (2, Some(kept)) = (member, kept.as_ref().filter(|kept| kept.header.tick == sum.tick)) {
                    (sum.payload, sum.tag, sum.speakers) = (kept.payload.clone(), kept.tag, set(&[0]));
                }
                vec![wire::encode_live_sum(layout, &sum)]
            }));
        }
        world.frame();
    }
    assert!(single.is_some());
    let person = world.person_of(2);
    let heard = person.heard.iter().find(|heard| heard.tick == odd).unwrap();
    assert_eq!((heard.speakers.len(), heard.samples[0]), (1, 1000), "one voice alone was heard");
    let window = odd / WINDOW_TICKS;
    for (teller, member) in [(0, 2), (1, 2), (2, 0), (2, 1)] {
        let alarm = Alarm::Histories { member: teller, window };
        assert!(
            world.person_of(member).alarms().contains(&alarm),
            "{member} of {teller}: {:?}",
            world.person_of(member).alarms()
        );
    }
    let between = Alarm::Histories { member: 1, window };
    assert!(!world.person_of(0).alarms().contains(&between));
}

/// A limit: a member that gets hold of one packet hears its sender alone.
#[test]
fn a_tapped_packet_is_open_to_a_member_and_to_nobody_else() {
    let mut world = World::with(2);
    world.says(0, 4242);
    world.frames(3);
    let layout = world.room.layout();
    let packet = wire::decode_live_packet(layout, world.person_of(0).packets.last().unwrap()).unwrap();
    let alone = LiveSum {
        room: RoomId([7; 8]),
        epoch: packet.header.epoch,
        tick: packet.header.tick,
        speakers: set(&[0]),
        late: MemberSet::default(),
        tag: packet.tag,
        payload: packet.payload,
    };
    let bytes = wire::encode_live_sum(layout, &alone);
    let heard = world.people.get_mut(&1).unwrap().member.binary(&bytes).unwrap();
    assert!(heard.samples.iter().all(|sample| *sample == 4242));
    // somebody with a link of another secret, told the same rosters
    let mut other = World::new(link_with(world.link.settings, 9));
    other.enter(true);
    other.enter(true);
    other.settle();
    assert!(other.people.get_mut(&1).unwrap().member.binary(&bytes).is_none());
}

/// Everything that was ever sent in one call, played to somebody who comes back under the same link.
#[test]
fn nothing_of_an_earlier_call_can_be_played_to_a_member_that_comes_later() {
    let mut first = World::new(link());
    (0..2).for_each(|member| assert_eq!(first.enter(true), member));
    first.says(0, 1000);
    first.frames(100);
    assert_eq!(first.person_of(1).last(), (vec![0, 1], 1000));
    let welcome = Welcome { room: RoomId([7; 8]), member: 1, tick: 0, window: 32, waiting: false };
    let mut rng = ChaCha20Rng::from_seed([77; 32]);
    let mut later = LiveMember::new(&link(), "later", true, &welcome, &mut rng).unwrap();
    let heard: Vec<Heard> = first.person_of(1).came.iter().filter_map(|bytes| later.binary(bytes)).collect();
    // with the keys of those rosters it would open: but no roster counts for a member that is not on it
    let alarmed = std::iter::from_fn(|| later.poll_news())
        .any(|news| news == News::Alarm(Alarm::Roster(RosterError::NumberTaken(1))));
    assert!(alarmed && heard.is_empty(), "{} sums of an earlier call were heard", heard.len());
}

#[test]
fn a_server_that_lets_somebody_in_under_other_settings_lets_it_hear_nothing() {
    let mut world = World::with(2);
    world.says(0, 9);
    let mut other = world.link.for_members();
    other.settings.sending = tobari_apps::call::live::Sending::Spurts;
    let welcome = world.room.join(&LiveMember::join(&world.link.for_members(), true), world.now).unwrap();
    let third = world.person(&other, true, &welcome);
    world.frames(100);
    assert!(world.person_of(third).heard.is_empty());
    assert!(
        world.person_of(third).alarms().iter().any(|alarm| matches!(alarm, Alarm::Roster(RosterError::Stranger(_))))
    );
}

#[test]
fn in_mode_elgamal_shared_alterations_and_lies_are_refused_too() {
    let settings = Settings { mode: LiveMode::ElgamalShared, speakers: 4, ..Settings::default() };
    let mut world = World::new(link_with(settings, 3));
    (0..2).for_each(|member| assert_eq!(world.enter(true), member));
    world.settle();
    world.says(0, 100);
    world.frames(3);
    world.no_alarms();
    world.forget();
    let layout = world.room.layout();
    let mut round = 0;
    world.cheat = Some(Box::new(move |_, bytes| {
        let Ok(mut sum) = wire::decode_live_sum(layout, &bytes) else { return vec![bytes] };
        round += 1;
        match round % 4 {
            0 => sum.tag = Tag::default(),
            1 => {
                let twice = sum.payload.clone();
                assert!(sum.payload.add_assign_with(&twice, &mut Adder::default()));
                let tag = sum.tag;
                sum.tag.add_assign(&tag);
            }
            2 => sum.speakers = set(&[0]),
            _ => sum.tick += 1,
        }
        vec![wire::encode_live_sum(layout, &sum)]
    }));
    world.frames(4);
    for person in world.people.values() {
        assert!(person.heard.is_empty());
        assert!(
            person.alarms().iter().all(|alarm| matches!(alarm, Alarm::Sum(error) if forged(error))),
            "{:?}",
            person.alarms()
        );
        assert!(person.alarms().len() >= 4);
    }
}
