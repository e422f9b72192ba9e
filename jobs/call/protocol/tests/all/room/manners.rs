//! Rejected joins, reasons for removal, and the messages that members get.

use crate::room::*;
use tobari_curve::params::RefusedCurve;

#[test]
fn a_lockstep_room_that_does_not_fill_removes_those_who_wait() {
    let mut world = World::at(lockstep(2), ms(1_000));
    world.enter();
    world.enter_mute();
    assert_eq!(world.room.deadline(), Some(ms(1_000) + GATHER));
    world.now = ms(999) + GATHER;
    world.quiet();
    world.now = ms(1_000) + GATHER;
    world.removes(0, Code::Timeout);
    world.removes(1, Code::Timeout);
    assert!(world.room.is_over());
    for join in [lockstep(2), live(), Join { mode: Mode::ElgamalShared, ..lockstep(2) }] {
        assert_eq!(world.room.join(&join, world.now), Err(Refusal::Over), "whoever comes may open the next one");
    }
}

#[test]
fn a_room_that_everybody_has_left_is_over() {
    let mut world = World::new(lockstep(2));
    assert!(!world.room.is_over());
    world.enter();
    world.room.leave(0);
    assert!(world.room.is_over());
    assert_eq!(world.room.deadline(), None);
}

#[test]
fn a_tick_sent_twice_or_backwards_or_left_out_removes_the_sender_and_adds_nothing() {
    for (tick, code) in [(0, Code::Backwards), (1, Code::Backwards), (3, Code::Gap), (u32::MAX, Code::Gap)] {
        let mut world = World::new(lockstep(2));
        world.enter();
        world.enter();
        world.send(0, 0, 10);
        world.send(0, 1, 20);
        world.send(0, tick, 4000);
        world.removes(0, code);
        for (tick, sum) in [(0, 11), (1, 21)] {
            world.send(1, tick, 1);
            let closed = world.closes(tick, &[0, 1], &[]);
            assert_eq!(world.hear(&closed, PointEncoding::Compressed)[0], sum);
        }
    }
}

#[test]
fn a_packet_of_the_wrong_length_or_curve_removes_the_sender_and_adds_nothing() {
    let other = Parameters::new(Curve::NistP256, SecurityFloor::Standard).unwrap();
    for (curve, length, code) in [(None, 2, Code::Packet), (None, 4, Code::Packet), (Some(other), SAMPLES, Code::Curve)]
    {
        let mut world = World::new(lockstep(2));
        world.enter();
        world.enter();
        let bad = Ciphertexts::zero(curve.unwrap_or(world.room.parameters()), length);
        world.room.packet(0, 0, bad.into());
        world.removes(0, code);
        world.send(1, 0, 9);
        let closed = world.closes(0, &[1], &[]);
        assert_eq!(world.hear(&closed, PointEncoding::Compressed), [9, -9, 1]);
    }
}

#[test]
fn what_a_member_may_not_say_removes_it() {
    let again = ClientMessage::Join(lockstep(2));
    for (said, code) in [
        (vec![again], Code::Malformed),
        (vec![END, END], Code::Ended),
        (vec![received(0)], Code::Acknowledgement),
        (vec![received(u32::MAX)], Code::Acknowledgement),
    ] {
        let mut world = World::new(lockstep(2));
        world.enter();
        world.enter();
        said.iter().for_each(|message| world.room.message(0, message));
        world.removes(0, code);
        world.send(1, 0, 1);
        world.closes(0, &[1], &[]);
    }
}

#[test]
fn a_packet_after_the_end_removes_its_sender() {
    let mut world = World::new(lockstep(2));
    world.enter();
    world.enter();
    world.room.message(0, &END);
    world.send(0, 0, 1);
    world.removes(0, Code::Ended);
}

#[test]
fn who_does_not_speak_may_not_send_and_who_does_not_listen_may_not_acknowledge() {
    let mut world = World::new(lockstep(1));
    world.enter_mute();
    world.enter_mute();
    world.enter_deaf();
    world.enter_deaf();
    world.send(0, 0, 1);
    world.removes(0, Code::Member);
    world.room.message(1, &END);
    world.removes(1, Code::Member);
    world.room.message(2, &received(0));
    world.removes(2, Code::Malformed);
    world.send(3, 0, 1);
    world.closes(0, &[3], &[]);
}

#[test]
fn acknowledgements_must_go_forward_and_not_beyond_what_was_heard() {
    for (first, second) in [(1, 1), (1, 0), (0, 2)] {
        let mut world = World::new(lockstep(1));
        world.enter_deaf();
        world.enter_mute();
        for tick in 0..2 {
            world.send(0, tick, 1);
            world.closes(tick, &[0], &[]);
        }
        world.room.message(1, &received(first));
        world.quiet();
        world.room.message(1, &received(second));
        world.removes(1, Code::Acknowledgement);
    }
}

#[test]
fn listeners_get_sums_in_their_encoding_and_the_others_the_end_of_the_tick() {
    let mut world = World::new(lockstep(1));
    world.enter_deaf();
    let plain = Join { speak: false, downlink: PointEncoding::Uncompressed, ..lockstep(1) };
    world.room.join(&plain, world.now).unwrap();
    world.enter_mute();
    world.send(0, 0, 1);
    let tick = world.closes(0, &[0], &[]);
    assert_eq!(tick.listeners, [(1, PointEncoding::Uncompressed), (2, PointEncoding::Compressed)]);
    assert_eq!(tick.others, [0]);
}

#[test]
fn who_asks_for_another_room_than_this_is_refused() {
    let mut world = World::new(lockstep(2));
    world.enter();
    for (join, code) in [
        (Join { curve: Curve::NistP256, ..lockstep(2) }, Code::Curve),
        (Join { mode: Mode::ElgamalShared, ..lockstep(2) }, Code::Mode),
        (lockstep(3), Code::Pace),
        (live(), Code::Pace),
        (Join { speak: false, listen: false, ..lockstep(2) }, Code::Idler),
    ] {
        assert_eq!(world.room.join(&join, world.now).unwrap_err().code(), code);
    }
    assert_eq!(world.room.members(), 1);
}

#[test]
fn a_room_is_not_opened_for_too_few_or_too_many_or_on_a_weak_curve() {
    let open = |join: Join, floor| Room::open(ROOM, &join, floor, limits(), Duration::ZERO).map(|_| ());
    for members in [0, 9, u16::MAX] {
        assert_eq!(open(lockstep(members), SecurityFloor::Standard), Err(Refusal::Members { found: members, most: 8 }));
    }
    let weak = Join { curve: Curve::Secp160k1, ..lockstep(2) };
    assert_eq!(open(weak.clone(), SecurityFloor::Standard).unwrap_err().code(), Code::Curve);
    let curve = weak.curve;
    let expected = if cfg!(feature = "paper") { Ok(()) } else { Err(RefusedCurve::NotBuilt { curve }.into()) };
    assert_eq!(open(weak, SecurityFloor::InsecurePaper), expected);
}

#[test]
fn numbers_are_never_used_again_and_run_out() {
    let mut world = World::new(live());
    world.enter();
    for expected in 1..8 {
        let welcome = world.enter();
        assert_eq!(welcome.member, expected);
        world.room.leave(expected);
    }
    assert_eq!(world.room.join(&live(), world.now), Err(Refusal::Full { members: 8 }));
}

#[test]
fn a_closing_server_removes_everybody_with_that_reason() {
    let mut world = World::new(lockstep(2));
    world.enter();
    world.enter();
    world.room.remove_all(&Fault::Shutdown);
    world.removes(0, Code::Shutdown);
    world.removes(1, Code::Shutdown);
    assert!(world.room.is_over());
}
