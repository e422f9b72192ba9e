//! When a lockstep tick closes, and which members it waits for.

use crate::room::*;

#[test]
fn a_lockstep_tick_closes_with_the_exact_sum_when_every_speaker_has_sent() {
    let mut world = World::new(lockstep(3));
    let members = [(); 3].map(|()| world.enter().member);
    assert_eq!(members, [0, 1, 2]);
    world.send(0, 0, 1000);
    world.quiet();
    world.send(2, 0, -30);
    world.quiet();
    world.send(1, 0, 7);
    let tick = world.closes(0, &[0, 1, 2], &[]);
    assert_eq!(world.hear(&tick, PointEncoding::Compressed), [977, -977, 3]);
    assert_eq!(world.hear(&tick, PointEncoding::Uncompressed), [977, -977, 3]);
    world.quiet();
}

#[test]
fn full_scale_of_all_speakers_at_once_is_summed_exactly() {
    let mut world = World::new(lockstep(3));
    for member in [(); 3].map(|()| world.enter().member) {
        world.send(member, 0, -32_768);
    }
    let tick = world.closes(0, &[0, 1, 2], &[]);
    assert_eq!(world.hear(&tick, PointEncoding::Compressed), [-98_304, 98_304, 3]);
}

#[test]
fn lockstep_drops_nothing_that_is_sent_ahead() {
    let mut world = World::new(lockstep(2));
    world.enter();
    world.enter();
    for tick in 0..WINDOW {
        world.send(0, tick, 10 * i32::try_from(tick).unwrap());
    }
    for tick in 0..WINDOW {
        world.quiet();
        world.send(1, tick, 1);
        let closed = world.closes(tick, &[0, 1], &[]);
        assert_eq!(world.hear(&closed, PointEncoding::Compressed)[0], 10 * i32::try_from(tick).unwrap() + 1);
    }
}

#[test]
fn tick_0_waits_until_the_announced_number_of_speakers_has_joined() {
    let mut world = World::new(lockstep(2));
    world.enter_mute();
    let first = world.enter();
    world.send(first.member, 0, 5);
    world.room.message(first.member, &END);
    world.quiet();
    let second = world.enter();
    assert_eq!(second.tick, 0);
    world.send(second.member, 0, 6);
    world.closes(0, &[1, 2], &[]);
}

#[test]
fn a_speaker_that_joins_later_starts_at_the_open_tick_and_is_waited_for() {
    let mut world = World::new(lockstep(1));
    world.enter();
    world.send(0, 0, 1);
    world.closes(0, &[0], &[]);
    world.send(0, 1, 1);
    world.closes(1, &[0], &[]);
    let late = world.enter();
    assert_eq!((late.member, late.tick), (1, 2));
    world.send(0, 2, 1);
    world.quiet();
    world.send(1, 2, 1);
    world.closes(2, &[0, 1], &[]);
}

#[test]
fn a_speaker_that_has_ended_is_not_waited_for_and_the_last_one_ends_the_room() {
    let mut world = World::new(lockstep(2));
    world.enter();
    world.enter();
    world.send(0, 0, 1);
    world.room.message(0, &END);
    world.send(1, 0, 1);
    world.closes(0, &[0, 1], &[]);
    world.send(1, 1, 1);
    world.closes(1, &[1], &[]);
    world.quiet();
    world.room.message(1, &END);
    world.ends(2);
    assert!(world.room.join(&lockstep(2), world.now).is_err());
}

#[test]
fn a_room_whose_speakers_have_nothing_to_say_ends_at_once() {
    let mut world = World::new(lockstep(1));
    world.enter();
    world.room.message(0, &END);
    world.ends(0);
}

#[test]
fn what_a_vanished_member_had_sent_counts_and_the_others_go_on() {
    let mut world = World::new(lockstep(2));
    world.enter();
    world.enter();
    world.send(0, 0, 100);
    world.send(0, 1, 100);
    world.room.leave(0);
    world.quiet();
    world.send(1, 0, 1);
    let tick = world.closes(0, &[0, 1], &[]);
    assert_eq!(tick.listeners, [(1, PointEncoding::Compressed)]);
    world.send(1, 1, 1);
    let tick = world.closes(1, &[0, 1], &[]);
    assert_eq!(world.hear(&tick, PointEncoding::Compressed)[0], 101);
    world.send(1, 2, 1);
    world.closes(2, &[1], &[]);
    world.send(0, 2, 100);
    world.room.message(0, &END);
    world.quiet();
    world.room.message(1, &END);
    world.ends(3);
}

#[test]
fn a_tick_that_waits_for_a_vanished_member_only_closes_when_it_vanishes() {
    let mut world = World::new(lockstep(2));
    world.enter();
    world.enter();
    world.send(1, 0, 1);
    world.quiet();
    world.room.leave(0);
    world.closes(0, &[1], &[]);
}

#[test]
fn a_packet_beyond_the_window_is_a_flood_and_the_others_finish() {
    let mut world = World::new(lockstep(2));
    world.enter();
    world.enter();
    for tick in 0..WINDOW {
        world.send(0, tick, 50);
        world.quiet();
    }
    world.send(0, WINDOW, 50);
    assert_eq!(world.removes(0, Code::Flood), Fault::Flood { tick: WINDOW, open: 0, window: WINDOW });
    for tick in 0..WINDOW {
        world.send(1, tick, 1);
        let closed = world.closes(tick, &[0, 1], &[]);
        assert_eq!(world.hear(&closed, PointEncoding::Compressed)[0], 51);
    }
    world.room.message(1, &END);
    world.ends(WINDOW);
}

#[test]
fn a_lockstep_tick_waits_for_acknowledgements_within_the_window() {
    let mut world = World::new(lockstep(1));
    world.enter_deaf();
    world.enter_mute();
    for tick in 0..WINDOW {
        world.send(0, tick, 1);
        world.closes(tick, &[0], &[]);
    }
    world.send(0, WINDOW, 1);
    world.quiet();
    world.room.message(1, &received(1));
    world.closes(WINDOW, &[0], &[]);
    world.send(0, WINDOW + 1, 1);
    world.closes(WINDOW + 1, &[0], &[]);
    world.send(0, WINDOW + 2, 1);
    world.quiet();
    world.room.leave(1);
    world.closes(WINDOW + 2, &[0], &[]);
}

#[test]
fn a_member_that_the_room_waits_for_too_long_is_removed_and_the_others_go_on() {
    let mut world = World::new(lockstep(2));
    world.enter();
    world.now = ms(500);
    world.enter();
    world.now = ms(700);
    world.send(0, 0, 1);
    world.quiet();
    assert_eq!(world.room.deadline(), Some(ms(500) + IDLE));
    world.now = ms(500) + IDLE;
    assert_eq!(world.removes(1, Code::Timeout), Fault::Idle { waited: IDLE });
    world.closes(0, &[0], &[]);
    world.quiet();
    assert_eq!(world.room.deadline(), Some(ms(500) + IDLE + IDLE), "patience starts anew with each tick");
}

#[test]
fn a_listener_that_does_not_acknowledge_for_too_long_is_removed() {
    let mut world = World::new(lockstep(1));
    world.enter_deaf();
    world.enter_mute();
    for tick in 0..WINDOW {
        world.send(0, tick, 1);
        world.closes(tick, &[0], &[]);
    }
    world.send(0, WINDOW, 1);
    world.quiet();
    world.now = IDLE;
    world.removes(1, Code::Timeout);
    world.closes(WINDOW, &[0], &[]);
}

#[test]
fn nobody_is_idle_while_the_room_waits_for_somebody_else() {
    let mut world = World::new(lockstep(2));
    world.enter();
    world.enter();
    world.enter_mute();
    world.send(0, 0, 1);
    world.now = IDLE;
    world.removes(1, Code::Timeout);
    world.closes(0, &[0], &[]);
    world.quiet();
}
