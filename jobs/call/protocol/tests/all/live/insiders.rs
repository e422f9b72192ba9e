//! Attacks by one member on the group of a room whose members agree on keys. The others continue.

use crate::live::{
    agreed::{agreed, one_group},
    *,
};

/// A member under manual control: the messages that the server sends it, and its client.
struct Insider {
    person: Person,
    came: std::rc::Rc<std::cell::RefCell<Vec<Vec<u8>>>>,
}

impl Insider {
    fn take(world: &mut World, member: u16) -> Self {
        let came: std::rc::Rc<std::cell::RefCell<Vec<Vec<u8>>>> = std::rc::Rc::default();
        let kept = std::rc::Rc::clone(&came);
        world.cheat = Some(Box::new(move |_, to, bytes| {
            if to == member {
                kept.borrow_mut().push(bytes.clone());
            }
            vec![bytes]
        }));
        Self { person: world.people.remove(&member).unwrap(), came }
    }

    /// Behaves like the member's program with two changes: a task is altered before the program
    /// sees it, and the pieces of its answer afterwards.
    fn answers(&mut self, world: &mut World, member: u16, task: impl Fn(&mut Vec<u8>), piece: impl Fn(&mut Vec<u8>)) {
        let came = std::mem::take(&mut *self.came.borrow_mut());
        for mut bytes in came {
            if bytes[1] == 0x21 {
                task(&mut bytes);
            }
            self.person.member.binary(&bytes);
        }
        while let Some(out) = self.person.member.poll_outgoing() {
            let Outgoing::Binary(mut bytes) = out else { continue };
            if bytes[1] == 0x22 {
                piece(&mut bytes);
                world.0.room.note(member, &bytes, world.0.now);
            }
        }
    }
}

/// The longest time in which a member heard nothing, in ticks.
fn longest_gap(world: &World, members: &[u16]) -> u32 {
    let gaps = members.iter().flat_map(|member| {
        let heard = &world.person_of(*member).heard;
        heard.windows(2).map(|pair| pair[1].tick - pair[0].tick).collect::<Vec<_>>()
    });
    gaps.max().unwrap_or(u32::MAX)
}

#[test]
fn fault_20_a_commit_that_nobody_can_follow_costs_its_maker_the_room_and_the_others_a_second() {
    let mut world = agreed(5);
    (1..5).for_each(|member| world.says(member, 1 << member));
    world.frames(10);
    // member 0 has been in the room longest, so the server asks it
    let mut evil = Insider::take(&mut world, 0);
    let late = world.enter(true);
    world.says(late, 64);
    for _ in 0..400 {
        evil.answers(
            &mut world,
            0,
            |_| {},
            |piece| {
                let place = piece.len() - 40;
                piece[place] ^= 1;
                piece[60] ^= 1;
            },
        );
        world.frame();
    }
    assert!(world.removed.len() == 1 && world.removed[0].0 == 0, "{:?}", world.removed);
    assert!(world.removed[0].1.contains("cannot follow the commit"), "{:?}", world.removed);
    one_group(&world);
    let members = [1, 2, 3, 4, late];
    for member in members {
        let (speakers, level) = world.person_of(member).last();
        let own = if member == late { 64 } else { 1 << member };
        assert_eq!((speakers, level), (members.to_vec(), 2 + 4 + 8 + 16 + 64 - own), "member {member}");
    }
    let gap = longest_gap(&world, &members[..4]);
    assert!(gap <= 75, "nothing was heard for {gap} ticks");
    // and the room works like any other
    world.cheat = None;
    world.settle();
    let another = world.enter(true);
    world.frames(160);
    world.no_alarms_of(&[1, 2, 3, 4, late, another]);
    one_group(&world);
}

#[test]
fn fault_20_a_commit_that_one_member_cannot_follow_costs_that_one_a_second_session_and_its_maker_the_task() {
    let mut world = agreed(4);
    (0..4).for_each(|member| world.says(member, 1 << member));
    world.frames(10);
    // as if the committer had made something invalid for member 2
    let mut once = true;
    world.cheat = Some(Box::new(move |_, member, mut bytes| {
        if bytes[1] == 0x23 && member == 2 && std::mem::take(&mut once) {
            bytes[60] ^= 1;
        }
        vec![bytes]
    }));
    let late = world.enter(true);
    world.frames(400);
    assert!(world.removed.is_empty(), "{:?}", world.removed);
    one_group(&world);
    let members = [0, 1, 2, 3, late];
    members.iter().for_each(|member| assert_eq!(world.person_of(*member).last().0, members, "member {member}"));
    // one alarm, however many rosters it could not follow
    let alarms = world.person_of(2).alarms();
    assert_eq!(alarms.iter().filter(|alarm| matches!(alarm, Alarm::Roster(_))).count(), 1, "{alarms:?}");
    assert!([0, 1, 3, late].iter().all(|member| world.person_of(*member).alarms().is_empty()));
}

#[test]
fn fault_20_whoever_is_refused_by_one_committer_is_taken_in_by_another() {
    let mut world = agreed(3);
    let mut evil = Insider::take(&mut world, 0);
    let late = world.enter(true);
    for _ in 0..200 {
        // the insider reports every offer as invalid
        evil.answers(
            &mut world,
            0,
            |task| {
                let last = task.len() - 1;
                task[last] ^= 1;
            },
            |_| {},
        );
        world.frame();
    }
    assert!(world.removed.is_empty(), "{:?}", world.removed);
    let roster = world.person_of(1).member.roster().unwrap();
    assert!(roster.keys().eq([0, 1, 2, late].iter()), "{:?}", roster.keys().collect::<Vec<_>>());
    assert!(world.person_of(late).heard.len() > 20 && world.person_of(late).alarms().is_empty());
}

#[test]
fn fault_20_a_committer_that_dribbles_keeps_nobody_out_for_long() {
    let mut world = agreed(3);
    let evil = Insider::take(&mut world, 0);
    let late = world.enter(true);
    let mut sent = 0u32;
    for frame in 0..900 {
        let task = evil.came.borrow().iter().find(|bytes| bytes[1] == 0x21).cloned();
        if let Some(task) = task.filter(|_| frame % 100 == 99 && world.removed.is_empty()) {
            // the task's epoch, and one byte of a hundred thousand
            let numbers = [&task[24..28], &100_000u32.to_be_bytes(), &sent.to_be_bytes()].concat();
            let piece = [&[1, 0x22][..], &task[2..10], &numbers, &[0]].concat();
            world.0.room.note(0, &piece, world.0.now);
            sent += 1;
        }
        world.frame();
    }
    assert!(sent >= 3 && world.removed.len() == 1 && world.removed[0].0 == 0, "{sent}, {:?}", world.removed);
    assert!(world.person_of(1).member.roster().unwrap().keys().eq([1, 2, late].iter()));
    assert!(world.person_of(late).heard.len() > 100);
}
