//! Attacks by one member on the list of members, over the life of a room. The other members hear
//! everything.

use crate::live::*;
use chacha20::rand_core::Rng;
use tobari_call::live::{HELLO_BYTES, NOTE_BYTES, RosterError, is_hello};

/// A room with a history: members joined, left and joined again.
fn lived_in() -> World {
    let mut world = World::filled(link_with(Settings { speakers: 64, ..Settings::default() }, 1), 4);
    for member in [1, 3] {
        world.people.remove(&member);
        world.0.room.leave(member, world.0.now);
        world.frames(70);
        world.enter(true);
        world.frames(70);
    }
    for (number, person) in &mut world.0.people {
        person.says = Some(1 << number);
    }
    world.settle();
    world.no_alarms();
    world
}

/// A client under manual control, on its own seat.
fn insider(world: &mut World, link: &RoomLink, seed: u8) -> (u16, LiveMember) {
    let welcome = world.0.room.join(&proven(&world.0.link.for_members(), true), world.0.now).unwrap();
    let member = LiveMember::new(link, "mallory", true, &welcome, &mut ChaCha20Rng::from_seed([seed; 32])).unwrap();
    (welcome.member, member)
}

/// The member's hello.
fn hello(member: &mut LiveMember) -> Vec<u8> {
    let Some(Outgoing::Binary(hello)) = member.poll_outgoing() else { panic!("no hello") };
    assert!(is_hello(&hello) && hello.len() == HELLO_BYTES);
    hello
}

/// Checks that every member hears every member in every tick, without any alarm.
fn all_hear_all(world: &World, frames: usize) {
    let members: Vec<u16> = world.people.keys().copied().collect();
    for (number, person) in &world.people {
        assert_eq!(person.alarms(), [], "member {number}");
        let ticks: Vec<u32> = person.heard.iter().map(|heard| heard.tick).collect();
        assert!(ticks.windows(2).all(|pair| pair[0] + 1 == pair[1]), "member {number} misses ticks: {ticks:?}");
        assert!(ticks.len() + 3 > frames, "member {number} hears {} of {frames}", ticks.len());
        assert_eq!(person.last().0, members, "member {number}");
    }
    let all: Vec<_> = world.people.values().map(|person| person.member.roster().unwrap()).collect();
    assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "all have one list");
}

/// The number of bad messages of [`bad_hello`].
const BAD: usize = 7;

/// A bad message in place of a hello: its name, its sender, its bytes, and the server's answer.
fn bad_hello(world: &mut World, which: usize) -> (&'static str, u16, Vec<u8>, &'static str) {
    let link = world.link.for_members();
    let mut rng = ChaCha20Rng::from_seed([77; 32]);
    let mut bytes = |length: usize, kind: u8| {
        let mut bytes = vec![0; length];
        rng.fill_bytes(&mut bytes);
        bytes[..2].copy_from_slice(&[1, kind]);
        bytes[2..10].copy_from_slice(&ROOM.0);
        bytes
    };
    let (note, noise) = (bytes(NOTE_BYTES, 0x0d), bytes(HELLO_BYTES, 0x24));
    let no_hello = "has signed this hello";
    match which {
        0 => ("a note of noise", insider(world, &link, 20).0, note, "not a note of this member"),
        1 => ("a hello of noise", insider(world, &link, 20).0, noise, no_hello),
        2 => ("half a hello", insider(world, &link, 20).0, noise[..100].to_vec(), no_hello),
        3 => {
            let (number, mut member) = insider(world, &link, 21);
            let mut cut = hello(&mut member);
            *cut.last_mut().unwrap() ^= 1;
            ("a signature that was changed", number, cut, no_hello)
        }
        4 => {
            let other = link_with(link.settings, 9);
            let (number, mut stranger) = insider(world, &other, 22);
            ("a hello by another link", number, hello(&mut stranger), no_hello)
        }
        5 => {
            let (number, _) = insider(world, &link, 23);
            let (_, mut next) = insider(world, &link, 24);
            ("a hello of another number", number, hello(&mut next), no_hello)
        }
        _ => {
            let whole = world.person_of(0).rosters.last().unwrap();
            let others = whole[whole.len() - HELLO_BYTES..].to_vec();
            ("another member's hello", insider(world, &link, 25).0, others, no_hello)
        }
    }
}

#[test]
fn fault_20_a_hello_of_noise_is_left_out_and_the_room_goes_on() {
    let mut world = lived_in();
    for which in 0..BAD {
        let (what, number, bytes, why) = bad_hello(&mut world, which);
        world.forget();
        world.removed.clear();
        world.frames(5);
        world.0.room.note(number, &bytes, world.0.now);
        world.0.follow();
        let [(removed, told)] = &world.removed[..] else { panic!("{what}: removed {:?}", world.removed) };
        assert!(*removed == number && told.contains(why), "{what}: {told}");
        world.frames(95);
        all_hear_all(&world, 100);
    }
    // newcomers get the whole list, and old members get changes: all have the same keys
    for _ in 0..3 {
        let late = world.enter(true);
        world.settle();
        world.forget();
        world.removed.clear();
        world.frames(20);
        all_hear_all(&world, 20);
        assert!(world.person_of(late).member.can_speak());
    }
}

#[test]
fn fault_20_a_session_that_somebody_has_or_had_is_presented_by_nobody_else() {
    let mut world = lived_in();
    let link = world.link.for_members();
    let (victim, mut member) = insider(&mut world, &link, 50);
    let its_hello = hello(&mut member);
    world.0.room.note(victim, &its_hello, world.0.now);
    world.frames(80);
    let is_listed = |world: &World| world.person_of(0).member.roster().unwrap().contains_key(&victim);
    assert!(is_listed(&world));
    world.forget();
    for victim_is_there in [true, false] {
        if !victim_is_there {
            world.0.room.leave(victim, world.0.now);
            world.frames(80);
            world.forget();
        }
        // the same randomness draws the same session, but the twin signs it under its own number
        let (number, mut twin) = insider(&mut world, &link, 50);
        let twins_hello = hello(&mut twin);
        assert!(
            its_hello[12..28] == twins_hello[12..28] && its_hello[10..12] != twins_hello[10..12] || !victim_is_there
        );
        world.removed.clear();
        world.0.room.note(number, &twins_hello, world.0.now);
        world.0.follow();
        let [(removed, told)] = &world.removed[..] else { panic!("removed {:?}", world.removed) };
        assert!(*removed == number && told.contains("presented in this room before"), "{told}");
        world.frames(100);
        assert_eq!(is_listed(&world), victim_is_there);
        world.people.values().for_each(|person| assert!(person.alarms().is_empty() && person.heard.len() > 97));
    }
    // nor its own session again: a session may present itself once
    let (number, mut member) = insider(&mut world, &link, 51);
    let hello = hello(&mut member);
    world.removed.clear();
    (0..2).for_each(|_| world.0.room.note(number, &hello, world.0.now));
    world.0.follow();
    assert_eq!(world.removed.len(), 1);
}

#[test]
fn fault_20_whoever_misses_a_change_asks_for_all_of_it_and_hears_again() {
    let mut world = lived_in();
    let mut missed = 0;
    world.cheat = Some(Box::new(move |_, member, bytes| {
        // one change is lost in transit to member 2
        if bytes[1] == 0x25 && member == 2 && missed < 1 {
            missed += 1;
            return Vec::new();
        }
        vec![bytes]
    }));
    world.enter(true);
    world.frames(60);
    let last = world.person_of(2).heard.last().unwrap().tick;
    assert!(last + 20 < world.room.open_tick(), "it does not hear the epoch that it knows nothing of");
    world.enter(true);
    world.frames(80);
    let person = world.person_of(2);
    let rosters: Vec<Alarm> = person.alarms().into_iter().filter(|alarm| matches!(alarm, Alarm::Roster(_))).collect();
    assert!(matches!(rosters[..], [Alarm::Roster(RosterError::Base { .. })]), "{rosters:?}");
    world.settle();
    world.frames(20);
    all_hear_all(&world, 20);
}

#[test]
fn fault_20_a_whole_list_is_said_once_a_second_to_whoever_asks() {
    let mut world = lived_in();
    let whole = |world: &World| world.person_of(2).came.iter().filter(|bytes| bytes[1] == 0x25).count();
    for expected in 1..4 {
        for _ in 0..3 {
            world.0.room.message(2, &ClientMessage::Behind { epoch: 9 }, world.0.now);
        }
        world.follow();
        assert_eq!(whole(&world), expected);
        world.frames(75);
    }
    assert!(world.removed.is_empty());
    // the server removes only the member that sends more requests than allowed
    for _ in 0..30 {
        world.0.room.message(2, &ClientMessage::Behind { epoch: 9 }, world.0.now);
    }
    world.follow();
    assert_eq!(world.removed.iter().map(|(member, _)| *member).collect::<Vec<_>>(), [2]);
}
