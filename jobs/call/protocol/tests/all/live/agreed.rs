//! Rooms whose members agree on keys: honest rooms, and attacks by a server, by a stranger with the
//! link and by a removed member.

use crate::live::*;
use tobari_call::live::{Keys, LinkError, RosterError, SumError, attack};

fn settings() -> Settings {
    Settings { keys: Keys::Group, speakers: 8, ..Settings::default() }
}

/// A room of `count` speakers in one group.
pub(super) fn agreed(count: u16) -> World {
    let mut world = World::new(link_with(settings(), 21));
    for member in 0..count {
        assert_eq!(world.enter(true), member);
    }
    world.frames(160);
    world.no_alarms();
    world.forget();
    world
}

/// The security words that each of these members sees.
fn words(world: &World, members: &[u16]) -> Vec<String> {
    members.iter().map(|member| world.person_of(*member).member.words().expect("no group")).collect()
}

pub(super) fn one_group(world: &World) -> String {
    let members: Vec<u16> = world.people.keys().copied().collect();
    let words = words(world, &members);
    assert!(words.iter().all(|other| *other == words[0]), "{words:?}");
    for member in &members {
        let of = |who: &u16| world.person_of(*who).member.words_of(*member).unwrap();
        assert!(members.iter().all(|who| of(who) == of(member)), "all see one key of member {member}");
    }
    words[0].clone()
}

fn everybody_hears(world: &mut World, sum: i32) {
    world.frames(20);
    world.no_alarms();
    for (number, person) in &world.people {
        let own = i32::from(person.says.unwrap_or(0));
        assert_eq!(person.last().1 + own, sum, "member {number}");
    }
}

#[test]
fn two_and_then_three_and_then_two_people_talk_under_keys_of_their_own() {
    let mut world = agreed(2);
    world.says(0, 100);
    world.says(1, -7);
    everybody_hears(&mut world, 93);
    let first = one_group(&world);
    let third = world.enter(true);
    world.says(third, 1000);
    world.frames(100);
    everybody_hears(&mut world, 1093);
    assert_eq!(world.person_of(0).last().0, [0, 1, 2]);
    let second = one_group(&world);
    world.people.remove(&1);
    world.0.room.leave(1, world.0.now);
    world.frames(100);
    everybody_hears(&mut world, 1100);
    assert!(first != second && one_group(&world) != second, "each roster has keys of its own");
}

#[test]
fn comings_and_goings_cost_nobody_a_tick() {
    let mut world = agreed(3);
    world.says(0, 5);
    world.frames(5);
    world.forget();
    world.frames(20);
    let fourth = world.enter(true);
    world.frames(100);
    let listener = world.enter(false);
    world.frames(100);
    for gone in [0, fourth] {
        world.people.remove(&gone);
        world.0.room.leave(gone, world.0.now);
    }
    world.frames(160);
    world.no_alarms();
    for member in [1, 2] {
        let heard = &world.person_of(member).heard;
        assert_eq!(heard.len(), 380, "every tick was heard by member {member}");
        assert!(heard.windows(2).all(|pair| pair[1].tick == pair[0].tick + 1));
    }
    assert_eq!(world.person_of(listener).member.roster().unwrap().len(), 3);
    one_group(&world);
}

#[test]
fn many_who_come_at_once_come_in_by_one_commit() {
    let mut world = World::new(link_with(Settings { speakers: 64, ..settings() }, 22));
    for _ in 0..40 {
        world.enter(true);
    }
    world.frames(160);
    world.no_alarms();
    assert_eq!(world.person_of(0).member.roster().unwrap().len(), 40);
    let steps = world.person_of(0).came.iter().filter(|bytes| bytes[1] == 0x23).count();
    assert!(steps <= 3, "{steps} steps for forty members");
    one_group(&world);
}

#[test]
fn a_listener_whose_hand_is_granted_speaks_as_another_leaf() {
    let mut world = agreed(2);
    let listener = world.enter(false);
    world.says(listener, 50);
    world.frames(100);
    let before = world.person_of(0).member.words_of(listener).unwrap();
    world.people.get_mut(&listener).unwrap().member.raise_hand(true);
    world.frames(120);
    everybody_hears(&mut world, 50);
    assert!(world.person_of(0).member.words_of(listener).unwrap() != before, "another session, another key");
    one_group(&world);
}

#[test]
fn whose_hand_goes_up_and_down_before_a_roster_says_so_hears_everything() {
    let mut world = agreed(2);
    let listener = world.enter(false);
    world.says(listener, 50);
    world.frames(100);
    for raised in [true, false, true] {
        world.people.get_mut(&listener).unwrap().member.raise_hand(raised);
        world.frames(1);
    }
    world.frames(200);
    everybody_hears(&mut world, 50);
    one_group(&world);
}

#[test]
fn a_listener_alone_may_speak_too_and_a_call_that_was_left_begins_anew() {
    let mut world = World::new(link_with(settings(), 23));
    world.enter(false);
    world.frames(60);
    world.people.get_mut(&0).unwrap().member.raise_hand(true);
    world.says(0, 9);
    world.frames(120);
    assert_eq!(world.person_of(0).last(), (vec![0], 0));
    let next = world.enter(true);
    // the member that would add the newcomer leaves in the same moment
    world.people.remove(&0);
    world.0.room.leave(0, world.0.now);
    world.says(next, 4);
    world.frames(160);
    world.no_alarms();
    assert_eq!(world.person_of(next).last(), (vec![next], 0));
    let last = world.enter(true);
    world.frames(160);
    everybody_hears(&mut world, 4);
    assert!(world.people.contains_key(&last));
    one_group(&world);
}

#[test]
fn who_is_asked_and_does_not_answer_is_put_out_and_the_next_is_asked() {
    let mut world = agreed(3);
    // the server would ask member 0, but member 0 receives nothing from now on
    world.cheat = Some(Box::new(|_, member, bytes| if member == 0 { Vec::new() } else { vec![bytes] }));
    let late = world.enter(true);
    world.frames(300);
    assert_eq!(world.removed.len(), 1, "{:?}", world.removed);
    assert!(world.removed[0].0 == 0 && world.removed[0].1.contains("within 3s"), "{:?}", world.removed);
    let roster: Vec<u16> = world.person_of(late).member.roster().unwrap().keys().copied().collect();
    assert_eq!(roster, [1, 2, late]);
    one_group(&world);
}

#[test]
fn a_host_is_asked_before_who_came_earlier() {
    let link = link_with(Settings { host: Some([0; 16]), ..settings() }, 24);
    let mut world = World::new(link.clone());
    world.enter(true);
    world.frames(60);
    let host = world.enter_by(&link, true);
    world.frames(100);
    world.forget();
    world.enter(true);
    world.frames(100);
    let tasks = |member: u16| world.person_of(member).came.iter().filter(|bytes| bytes[1] == 0x21).count();
    assert_eq!((tasks(0), tasks(host)), (0, 1));
    world.no_alarms();
}

/// The ticks that an attacker can decrypt with the link, the tapped messages of this member's line,
/// and the secrets of another member's group.
fn opened(world: &World, line: &Person, group: Option<&LiveMember>) -> Vec<u32> {
    let heard = attack::opened(&world.link.for_members(), &line.rosters, &line.came, group).unwrap();
    heard.iter().map(|heard| heard.tick).collect()
}

#[test]
fn who_was_put_out_cannot_hear_what_follows_whatever_it_still_holds_and_taps() {
    let link = link_with(Settings { host: Some([0; 16]), ..settings() }, 25);
    let mut world = World::new(link.clone());
    let host = world.enter_by(&link, true);
    let (ann, mallory) = (world.enter(true), world.enter(true));
    world.frames(160);
    world.says(host, 3);
    world.says(ann, 40);
    world.frames(10);
    let tapper = world.people.remove(&mallory).unwrap();
    assert_eq!(tapper.last(), (vec![host, ann, mallory], 43));
    world.forget();
    world.people.get_mut(&host).unwrap().member.say(&ClientMessage::Eject { member: mallory });
    let from = world.room.open_tick();
    world.frames(120);
    assert_eq!(world.removed.drain(..).map(|(member, _)| member).collect::<Vec<_>>(), [mallory]);
    everybody_hears(&mut world, 43);
    // the attacker has all messages that were sent since, the link, and its earlier group state,
    // and ignores every rule of its program
    let line = world.person_of(ann);
    let steps = line.came.iter().filter(|bytes| bytes[1] == 0x23).count();
    assert_eq!(steps, 1, "one commit took it out");
    let all: Vec<u32> = line.heard.iter().map(|heard| heard.tick).collect();
    let by_who_is_there = opened(&world, line, Some(&line.member));
    let by_who_is_out = opened(&world, line, Some(&tapper.member));
    // the decrypted ticks precede the roster without mallory: sums under way, and the time until
    // members agree on the roster and it takes effect
    let (before, after) = all.split_at(by_who_is_out.len());
    assert_eq!((by_who_is_out.as_slice(), by_who_is_there.as_slice()), (before, after));
    assert!(after.len() > 70 && after[0] < from + 60, "it is out at tick {} after {from}", after[0]);
    assert!(opened(&world, line, None).is_empty());
}

#[test]
fn who_leaves_just_after_a_roster_opens_nothing_a_second_later_whatever_it_still_holds_and_taps() {
    let mut world = agreed(4);
    world.enter(true);
    world.frame();
    let line = world.person_of(3);
    assert!(line.came.iter().any(|bytes| bytes[1] == 0x23), "no roster was made");
    world.forget();
    let (gone, from) = (world.people.remove(&3).unwrap(), world.room.open_tick());
    world.0.room.leave(3, world.0.now);
    world.frames(100);
    world.no_alarms();
    let line = world.person_of(1);
    let by_who_is_there = opened(&world, line, Some(&line.member));
    let by_who_is_gone = opened(&world, line, Some(&gone.member));
    let (last, first) = (*by_who_is_gone.last().unwrap(), by_who_is_there[0]);
    assert!(last < first && first < from + 50, "gone at tick {from}, out at {first}, and heard {last}");
    assert!(by_who_is_there.len() > 50 && opened(&world, line, None).is_empty());
}

#[test]
fn a_crowd_that_leaves_within_a_quarter_of_a_second_is_taken_out_by_two_commits() {
    let mut world = agreed(8);
    for gone in (3..8).rev() {
        world.people.remove(&gone);
        world.0.room.leave(gone, world.0.now);
        world.frame();
    }
    world.frames(40);
    world.no_alarms();
    let me = world.person_of(0);
    assert_eq!(me.came.iter().filter(|bytes| bytes[1] == 0x23).count(), 2);
    assert_eq!(me.member.roster().unwrap().len(), 3);
    one_group(&world);
}

#[test]
fn with_the_link_alone_nothing_opens_that_was_said_before_one_came() {
    for keys in [Keys::Group, Keys::Link] {
        let mut world = World::new(link_with(Settings { keys, ..settings() }, 21));
        (0..2).for_each(|member| assert_eq!(world.enter(true), member));
        world.frames(160);
        world.forget();
        world.says(0, 77);
        world.frames(50);
        let line = world.person_of(1);
        let (rosters, came) = (line.rosters.clone(), line.came.clone());
        assert_eq!(opened(&world, line, Some(&line.member)).len(), 50, "{keys:?}: who was there hears it again");
        let late = world.enter(true);
        world.frames(100);
        let late = &world.person_of(late).member;
        assert!(late.can_speak() && late.roster().unwrap().len() == 3, "{keys:?}");
        // with any program: with the link, with the secrets of its group, and with the keys of a
        // room by link
        let link = world.link.for_members();
        for group in [Some(late), None] {
            let heard = attack::opened(&link, &rosters, &came, group).unwrap();
            assert_eq!(heard.len(), if keys == Keys::Link { 50 } else { 0 }, "{keys:?}");
        }
    }
}

/// The words and the roster of a step.
fn parts(step: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let length = u32::from_be_bytes([step[10], step[11], step[12], step[13]]) as usize;
    let (words, roster) = step[14..].split_at(length);
    (words.to_vec(), roster.to_vec())
}

fn step(head: &[u8], words: &[u8], roster: &[u8]) -> Vec<u8> {
    [&head[..10], &(words.len() as u32).to_be_bytes(), words, roster].concat()
}

/// A roster change with another set of removed members.
fn with_gone(roster: &[u8], bits: &[u8]) -> Vec<u8> {
    let length = usize::from(u16::from_be_bytes([roster[22], roster[23]]));
    [&roster[..22], &(bits.len() as u16).to_be_bytes(), bits, &roster[24 + length..]].concat()
}

#[test]
fn a_server_that_leaves_somebody_in_the_group_or_lists_somebody_who_is_not_in_it_is_found() {
    // the roster keeps a member that left the group, or drops a member that is in it
    for (leaves, bits) in [(true, &[][..]), (false, &[4][..])] {
        let mut world = agreed(4);
        let bits = bits.to_vec();
        world.cheat = Some(Box::new(move |_, _, bytes| {
            if bytes[1] != 0x23 {
                return vec![bytes];
            }
            let (words, roster) = parts(&bytes);
            vec![step(&bytes, &words, &with_gone(&roster, &bits))]
        }));
        if leaves {
            world.people.remove(&3);
            world.0.room.leave(3, world.0.now);
        } else {
            world.enter(true);
        }
        world.frames(100);
        let alarms = world.person_of(1).alarms();
        assert!(alarms.contains(&Alarm::Roster(RosterError::Members)), "{leaves}: {alarms:?}");
        // an honest server would remove the member that made the commit
    }
}

#[test]
fn a_roster_with_another_rosters_commit_is_refused() {
    let mut world = agreed(3);
    let mut stale: Option<Vec<u8>> = None;
    world.cheat = Some(Box::new(move |_, _, bytes| {
        if bytes[1] != 0x23 {
            return vec![bytes];
        }
        let (words, roster) = parts(&bytes);
        vec![step(&bytes, stale.get_or_insert(words), &roster)]
    }));
    world.enter(true);
    let mut alarms = Vec::new();
    for frame in 0..180 {
        if frame == 80 {
            world.people.remove(&2);
            world.0.room.leave(2, world.0.now);
        }
        world.frame();
        // an honest server removes the member whose commits the others cannot follow
        alarms.extend(world.people.get(&1).into_iter().flat_map(Person::alarms));
    }
    assert!(alarms.contains(&Alarm::Roster(RosterError::Keys)), "{alarms:?}");
}

#[test]
fn rosters_without_a_step_and_steps_of_another_room_are_refused() {
    let mut world = agreed(2);
    world.cheat = Some(Box::new(|_, member, bytes| match (bytes[1], member) {
        (0x23, 0) => vec![parts(&bytes).1],
        (0x23, 1) => vec![[&bytes[..2], &[9; 8], &bytes[10..]].concat()],
        _ => vec![bytes],
    }));
    world.enter(true);
    world.frames(100);
    assert_eq!(world.person_of(0).alarms()[0], Alarm::Roster(RosterError::Keys));
    assert_eq!(world.person_of(1).alarms()[0], Alarm::Roster(RosterError::Malformed));
}

#[test]
fn changed_commits_and_welcomes_are_refused_and_nobody_hears_garbage() {
    for place in [20usize, 90, 300] {
        let mut world = agreed(2);
        world.says(0, 11);
        world.cheat = Some(Box::new(move |_, _, mut bytes| {
            if bytes[1] == 0x23 && bytes.len() > 14 + place {
                bytes[14 + place] ^= 1;
            }
            vec![bytes]
        }));
        world.enter(true);
        world.frames(100);
        for (number, person) in &world.people {
            assert!(person.heard.iter().all(|heard| [0, 11].contains(&heard.samples[0])), "member {number}");
        }
        assert!(world.people.values().any(|person| !person.alarms().is_empty()), "{place}");
        let late = world.person_of(2).alarms();
        let is_told = |alarm: &Alarm| matches!(alarm, Alarm::Roster(_) | Alarm::LeftOut { .. });
        assert!(late.iter().any(is_told), "{place}: {late:?}");
    }
}

#[test]
fn a_server_that_asks_two_members_for_a_commit_splits_the_room_into_two_that_have_other_words() {
    let mut world = agreed(4);
    (0..4).for_each(|member| world.says(member, 1 << member));
    // members 0 and 1 receive member 0's commit; members 2 and 3 continue without it
    world.cheat = Some(Box::new(
        |_, member, bytes| if bytes[1] == 0x23 && [2, 3].contains(&member) { Vec::new() } else { vec![bytes] },
    ));
    let late = world.enter(true);
    world.says(late, 16);
    world.frames(120);
    let seen = words(&world, &[0, 1, 2, 3]);
    assert!(seen[0] == seen[1] && seen[2] == seen[3] && seen[0] != seen[2]);
    // members without the epoch cannot decrypt its sums, and report this
    for member in [2, 3] {
        let person = world.person_of(member);
        assert!(person.alarms().iter().any(|it| matches!(it, Alarm::Sum(SumError::Epoch { .. }))), "member {member}");
    }
    assert!(world.person_of(0).levels().iter().all(|level| *level < 31));
}

#[test]
fn offers_that_are_not_of_their_hello_are_refused_by_who_is_asked_and_the_others_come_in() {
    let mut world = agreed(2);
    // a stranger with the link sends another member's offer, a damaged offer, and none
    let good = world.enter(true);
    let link = world.link.for_members();
    for change in 0..2 {
        let welcome = world.0.room.join(&proven(&link, true), world.0.now).unwrap();
        let mut rng = ChaCha20Rng::from_seed([60 + change; 32]);
        let mut member = LiveMember::new(&link, "mallory", true, &welcome, &mut rng).unwrap();
        while let Some(out) = member.poll_outgoing() {
            let Outgoing::Binary(mut bytes) = out else { continue };
            if bytes[1] == 0x20 {
                let last = bytes.len() - 1;
                let place = if change == 0 { last } else { 40 };
                bytes[place] ^= 1;
            }
            world.0.room.note(welcome.member, &bytes, world.0.now);
        }
    }
    world.frames(160);
    assert_eq!(world.removed.len(), 2, "{:?}", world.removed);
    assert!(world.removed.iter().all(|(_, why)| why.contains("no key package")), "{:?}", world.removed);
    assert!(world.person_of(0).member.roster().unwrap().keys().eq([0, 1, good].iter()));
    one_group(&world);
}

#[test]
fn who_offers_nothing_or_answers_without_being_asked_is_put_out() {
    let mut world = agreed(2);
    let link = world.link.for_members();
    let welcome = world.0.room.join(&proven(&link, true), world.0.now).unwrap();
    let mut rng = ChaCha20Rng::from_seed([70; 32]);
    let mut silent = LiveMember::new(&link, "silent", true, &welcome, &mut rng).unwrap();
    let Some(Outgoing::Binary(hello)) = silent.poll_outgoing() else { panic!("no hello") };
    world.0.room.note(welcome.member, &hello, world.0.now);
    let piece =
        [&[1, 0x22][..], &[7; 8], &2u32.to_be_bytes(), &4u32.to_be_bytes(), &0u32.to_be_bytes(), &[0; 4]].concat();
    world.0.room.note(1, &piece, world.0.now);
    world.frames(600);
    let out: Vec<u16> = world.removed.iter().map(|(member, _)| *member).collect();
    assert_eq!(out, [1, welcome.member], "{:?}", world.removed);
    assert!(world.removed[0].1.contains("not asked for") && world.removed[1].1.contains("within 10s"));
    assert_eq!(world.person_of(0).member.roster().unwrap().len(), 1);
}

#[test]
fn equal_names_are_two_members_with_two_keys() {
    let mut world = agreed(1);
    let link = world.link.for_members();
    let mut numbers = Vec::new();
    for _ in 0..2 {
        let welcome = world.0.room.join(&proven(&link, true), world.0.now).unwrap();
        numbers.push(world.named(&link, "Ann", &welcome));
    }
    world.frames(160);
    world.no_alarms();
    let me = world.person_of(0);
    let names: Vec<&str> = numbers.iter().map(|number| me.member.roster().unwrap()[number].name.as_str()).collect();
    assert_eq!(names, ["Ann", "Ann"]);
    assert!(me.member.words_of(numbers[0]) != me.member.words_of(numbers[1]));
}

#[test]
fn the_server_sees_no_name_and_a_link_says_which_keys_it_means() {
    let mut world = agreed(1);
    let link = world.link.for_members();
    let welcome = world.0.room.join(&proven(&link, true), world.0.now).unwrap();
    let late = world.named(&link, "canary of a name", &welcome);
    world.frames(120);
    let holds = |bytes: &[u8]| bytes.windows(6).any(|part| part == b"canary");
    for member in [0, late] {
        assert!(world.person_of(member).came.iter().all(|bytes| !holds(bytes)));
    }
    let again: Result<RoomLink, LinkError> = link.to_text().parse();
    assert_eq!(again.map(|link| link.settings.keys).ok(), Some(Keys::Group));
    // a member that takes the link's secret for the key cannot join
    let plain = RoomLink { settings: Settings { keys: Keys::Link, ..link.settings }, ..link };
    assert!(world.0.room.join(&proven(&plain, true), world.0.now).is_err());
}
