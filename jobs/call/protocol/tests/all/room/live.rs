//! When a live tick closes, and which packets are late.

use crate::room::*;

#[test]
fn a_live_tick_closes_20_ms_after_it_opens_whoever_has_sent() {
    let mut world = World::at(live(), ms(5_000));
    world.enter_mute();
    world.now = ms(7_000);
    world.quiet();
    assert_eq!(world.room.deadline(), None, "the clock starts with the first speaker");
    let speaker = world.enter();
    world.enter();
    world.send(speaker.member, 0, 40);
    world.now = ms(7_019);
    world.quiet();
    assert_eq!(world.room.deadline(), Some(ms(7_000 + TICK_MS)));
    world.now = ms(7_020);
    let tick = world.closes(0, &[1], &[]);
    assert_eq!(world.hear(&tick, PointEncoding::Compressed), [40, -40, 1]);
    world.quiet();
}

#[test]
fn a_late_packet_is_dropped_and_listed_once() {
    let mut world = World::new(live());
    world.enter();
    world.enter();
    world.now = ms(20);
    world.closes(0, &[], &[]);
    world.send(0, 0, 4000);
    world.send(1, 1, 3);
    world.now = ms(40);
    let tick = world.closes(1, &[1], &[0]);
    assert_eq!(world.hear(&tick, PointEncoding::Compressed), [3, -3, 1]);
    world.send(1, 2, 3);
    world.now = ms(60);
    world.closes(2, &[1], &[]);
}

#[test]
fn a_sum_of_nothing_tells_who_was_late_and_silence_is_one_word() {
    let mut world = World::new(live());
    world.enter();
    world.enter_mute();
    world.now = ms(20);
    let silent = world.closes(0, &[], &[]);
    assert_eq!((silent.listeners.len(), silent.others), (0, vec![0, 1]));
    world.send(0, 0, 4000);
    world.now = ms(40);
    let late = world.closes(1, &[], &[0]);
    assert_eq!((late.listeners.len(), late.others.len()), (2, 0));
    assert_eq!(world.hear(&late, PointEncoding::Compressed), [0, 0, 0]);
}

#[test]
fn live_packets_ahead_are_held_within_the_window_and_ticks_may_be_left_out() {
    let mut world = World::new(live());
    world.enter();
    world.enter();
    world.send(0, WINDOW - 1, 5);
    world.send(1, WINDOW, 5);
    world.removes(1, Code::Flood);
    for tick in 0..WINDOW - 1 {
        world.now += ms(20);
        world.closes(tick, &[], &[]);
        world.quiet();
    }
    world.now += ms(20);
    world.closes(WINDOW - 1, &[0], &[]);
}

#[test]
fn live_ticks_that_go_backwards_remove_the_sender_even_if_they_are_late() {
    let mut world = World::new(live());
    world.enter();
    world.enter();
    world.now = ms(60);
    (0..3).for_each(|tick| drop(world.closes(tick, &[], &[])));
    world.send(0, 1, 1);
    world.send(0, 1, 1);
    world.removes(0, Code::Backwards);
    world.send(1, 3, 1);
    world.send(1, 2, 1);
    world.removes(1, Code::Backwards);
}

#[test]
fn a_live_room_ends_when_every_speaker_has_and_what_is_held_has_been_heard() {
    let mut world = World::new(live());
    world.enter();
    world.enter();
    world.enter_mute();
    world.send(0, 1, 5);
    world.room.message(0, &END);
    world.room.leave(1);
    world.now = ms(20);
    world.closes(0, &[], &[]);
    world.quiet();
    world.now = ms(40);
    world.closes(1, &[0], &[]);
    world.ends(2);
}

#[test]
fn a_clock_that_jumps_closes_the_ticks_in_order_one_at_a_time() {
    let mut world = World::new(live());
    world.enter();
    world.send(0, 2, 5);
    world.now = ms(20 * 50 + 19);
    for tick in 0..50 {
        world.closes(tick, if tick == 2 { &[0] } else { &[] }, &[]);
    }
    world.quiet();
    assert_eq!((world.room.open_tick(), world.room.deadline()), (50, Some(ms(20 * 51))));
}

#[test]
fn live_waits_for_no_acknowledgement_but_checks_them_all_the_same() {
    let mut world = World::new(live());
    world.enter();
    world.enter_mute();
    world.now = ms(20 * 100);
    (0..100).for_each(|tick| drop(world.closes(tick, &[], &[])));
    world.room.message(1, &received(99));
    world.quiet();
    world.room.message(1, &received(100));
    world.removes(1, Code::Acknowledgement);
}
