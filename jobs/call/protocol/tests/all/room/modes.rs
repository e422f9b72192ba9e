//! A room of mode `elgamal-shared` keeps the rules of every room, and no room accepts packets of
//! another mode.

use crate::room::*;

fn in_mode(mode: Mode, mut join: Join) -> Join {
    join.mode = mode;
    join
}

#[test]
fn the_sums_of_a_room_are_exact_in_lockstep_and_live_whatever_the_mode() {
    for mode in Mode::ALL {
        let mut world = World::new(in_mode(mode, lockstep(2)));
        assert_eq!(world.room.mode(), mode);
        world.enter();
        world.enter();
        for tick in 0..3 {
            world.send(0, tick, 32_767);
            world.send(1, tick, -32_768);
            let closed = world.closes(tick, &[0, 1], &[]);
            for encoding in [PointEncoding::Compressed, PointEncoding::Uncompressed] {
                assert_eq!(world.hear(&closed, encoding), [-1, 1, 2], "{mode}");
            }
            world.room.message(0, &received(tick));
            world.room.message(1, &received(tick));
        }
        let mut world = World::new(in_mode(mode, live()));
        world.enter();
        world.now = ms(20);
        world.closes(0, &[], &[]);
        world.send(0, 0, 7);
        world.now = ms(40);
        let nothing = world.closes(1, &[], &[0]);
        assert_eq!(world.hear(&nothing, PointEncoding::Compressed), [0, 0, 0], "{mode}");
    }
}

#[test]
fn who_asks_for_another_mode_than_the_rooms_is_refused_by_name() {
    for (mode, found) in [(Mode::Elgamal, Mode::ElgamalShared), (Mode::ElgamalShared, Mode::Elgamal)] {
        let mut world = World::new(in_mode(mode, lockstep(2)));
        world.enter();
        let refused = world.room.join(&in_mode(found, lockstep(2)), world.now).unwrap_err();
        assert_eq!(refused, Refusal::Mode { found, expected: mode });
        assert_eq!(refused.code(), Code::Mode);
        assert_eq!(refused.to_string(), format!("mode {found}: expected {mode}, as the room has"));
        assert_eq!(world.room.members(), 1);
    }
}

#[test]
fn a_packet_in_another_mode_or_of_another_length_removes_the_sender_and_adds_nothing() {
    for mode in Mode::ALL {
        let other = Mode::ALL.into_iter().find(|other| *other != mode).unwrap();
        for (packet_mode, samples, code) in
            [(other, SAMPLES, Code::Mode), (mode, SAMPLES - 1, Code::Packet), (mode, SAMPLES + 1, Code::Packet)]
        {
            let mut world = World::new(in_mode(mode, lockstep(2)));
            world.enter();
            world.enter();
            world.send(1, 0, 9);
            world.room.packet(0, 0, AnyPayload::zero(packet_mode, world.room.parameters(), samples));
            world.removes(0, code);
            let closed = world.closes(0, &[1], &[]);
            assert_eq!(world.hear(&closed, PointEncoding::Compressed), [9, -9, 1], "{mode}");
        }
    }
}
