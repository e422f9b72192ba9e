//! Honest rooms: every member hears every other member exactly, while members join and leave.

use crate::live::*;
use tobari_call::live::{OneByOne, Sending};

#[test]
fn three_people_hear_the_exact_sum_of_the_others_and_not_themselves() {
    let mut world = World::with(3);
    for (member, level) in [(0, 1000), (1, -300), (2, i16::MIN)] {
        world.says(member, level);
    }
    world.frames(10);
    world.no_alarms();
    for (member, sum) in [(0, -300 - 32_768), (1, 1000 - 32_768), (2, 700)] {
        assert_eq!(world.person_of(member).last(), (vec![0, 1, 2], sum), "member {member}");
    }
    let names: Vec<_> = world.person_of(0).member.roster().unwrap().values().map(|it| it.name.clone()).collect();
    assert_eq!(names, ["person 0", "person 1", "person 2"]);
}

#[test]
fn every_frame_is_heard_once_by_everybody_through_comings_and_goings() {
    let mut world = World::with(2);
    world.says(0, 7);
    world.says(1, 11);
    world.frames(5);
    world.forget();
    world.frames(25);
    let third = world.enter(true);
    world.says(third, 100);
    world.frames(100);
    let listener = world.enter(false);
    world.frames(100);
    world.people.remove(&third);
    world.0.room.leave(third, world.0.now);
    world.frames(150);
    world.no_alarms();
    let ear = world.person_of(listener);
    assert!(ear.packets.is_empty() && ear.levels().iter().all(|level| [118, 18].contains(level)));
    for (member, own) in [(0, 7), (1, 11)] {
        let person = world.person_of(member);
        assert_eq!(person.heard.len(), 375, "every tick was heard");
        assert!(person.heard.windows(2).all(|pair| pair[1].tick == pair[0].tick + 1));
        assert!(person.levels().iter().all(|level| [18, 118].contains(&(level + own))), "{:?}", person.levels());
        assert_eq!(person.last().0, [0, 1]);
    }
}

#[test]
fn members_see_who_talks_and_when_they_stop() {
    let mut world = World::with(3);
    world.says(1, 500);
    world.frames(10);
    assert!(world.person_of(0).news.contains(&News::Talking { member: 1, talking: true }));
    world.says(1, 0);
    world.frames(10);
    let talk: Vec<_> = world.person_of(2).news.iter().filter(|news| matches!(news, News::Talking { .. })).collect();
    let expected = [true, false].map(|talking| News::Talking { member: 1, talking });
    assert_eq!(talk, expected.iter().collect::<Vec<_>>());
}

#[test]
fn in_the_modes_of_points_it_is_the_same() {
    for mode in [LiveMode::ElgamalShared, LiveMode::Elgamal] {
        let mut world = World::in_mode(mode, 3);
        for (member, level) in [(0, 1000), (1, -300), (2, i16::MIN)] {
            world.says(member, level);
        }
        world.frames(5);
        world.no_alarms();
        for (member, sum) in [(0, -300 - 32_768), (1, 1000 - 32_768), (2, 700)] {
            assert_eq!(world.person_of(member).last(), (vec![0, 1, 2], sum), "{mode}: member {member}");
        }
        assert!(world.person_of(0).news.contains(&News::Talking { member: 2, talking: true }));
    }
}

#[test]
fn with_constant_sending_packets_are_as_long_and_as_many_whatever_is_said() {
    let mut world = World::with(3);
    world.says(0, None);
    world.says(1, 12_000);
    world.frames(100);
    let shape = |member: u16| world.person_of(member).packets.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(shape(0), vec![world.room.layout().packet_len(321); 100]);
    assert_eq!(shape(0), shape(1));
    assert_eq!(shape(1), shape(2));
}

#[test]
fn with_talk_spurts_only_who_talks_sends() {
    let mut world = World::new(link_with(Settings { sending: Sending::Spurts, speakers: 4, ..Settings::default() }, 4));
    (0..2).for_each(|member| assert_eq!(world.enter(true), member));
    world.settle();
    world.says(0, 40);
    world.frames(50);
    world.no_alarms();
    assert_eq!((world.person_of(0).packets.len(), world.person_of(1).packets.len()), (50, 0));
    assert_eq!(world.person_of(1).last(), (vec![0], 40));
}

#[test]
fn late_packets_are_dropped_and_reported_and_the_sender_sends_earlier() {
    let mut world = World::with(2);
    world.says(0, 5);
    let mut held = std::collections::VecDeque::new();
    let mut late = Vec::new();
    for _ in 0..400 {
        // one member's packets take six ticks to arrive
        let person = world.people.get_mut(&0).unwrap();
        held.push_back(person.member.frame(&level(5), true, &mut person.rng));
        if held.len() > 6
            && let Some(packet) = held.pop_front().flatten()
        {
            world.send(0, &packet);
        }
        let person = world.people.get_mut(&1).unwrap();
        let packet = person.member.frame(&level(0), false, &mut person.rng);
        packet.into_iter().for_each(|packet| world.send(1, &packet));
        world.now += Duration::from_millis(20);
        world.follow();
        late.push(world.person_of(0).news.iter().filter(|news| matches!(news, News::Late { .. })).count());
    }
    world.no_alarms();
    assert!(late[399] > 0 && late[399] == late[200], "it found its lead: {} late, {} after", late[200], late[399]);
    assert_eq!(world.person_of(1).last(), (vec![0, 1], 5));
}

#[test]
fn a_thousand_people_at_full_scale_in_one_room_are_heard_exactly() {
    let mut world = World::new(link_with(Settings { speakers: 1024, ..Settings::default() }, 5));
    // the first member listens; the others only add loud packets
    for _ in 0..1024 {
        world.enter(true);
    }
    for member in 0..1024 {
        world.says(member, if member == 0 { 0 } else { i16::MIN });
    }
    while world.person_of(0).heard.last().is_none_or(|heard| heard.speakers.len() < 1024) {
        world.frame();
        assert!(world.now < Duration::from_secs(3), "not everybody is in the sum");
    }
    assert_eq!(world.person_of(0).last().1, -1023 * 32_768);
    world.no_alarms();
}

/// Packets that wait for the room's task are added together, possibly on several cores.
#[test]
fn packets_taken_at_once_make_the_same_sums_as_one_after_another() {
    for mode in LiveMode::ALL {
        let came = [false, true].map(|at_once| {
            let mut world = World::in_mode(mode, 4);
            let layout = world.room.layout();
            for frame in 0..4 {
                let made: Vec<Vec<u8>> = (0..4).filter_map(|member| world.packet(member)).collect();
                let mut packets: Vec<_> =
                    made.iter().map(|packet| wire::decode_live_packet(layout, packet).unwrap()).collect();
                // one packet arrives twice, one too late, and one gets its sender removed
                packets.push(packets[0].clone());
                packets[1].header.tick -= if frame == 2 { 50 } else { 0 };
                packets[3].header.tick += if frame == 3 { 1000 } else { 0 };
                if at_once {
                    world.room.packets(&packets.iter().collect::<Vec<_>>(), &mut OneByOne::default());
                } else {
                    packets.iter().for_each(|packet| world.room.packet(packet));
                }
                world.pass();
                assert_eq!(world.people.len(), if frame == 3 { 3 } else { 4 }, "{mode}");
            }
            world.frames(8);
            assert!(world.person_of(0).heard.len() >= 10, "{mode}");
            world.person_of(0).came.clone()
        });
        assert!(came[0] == came[1], "{mode}");
    }
}

#[test]
fn members_who_come_at_different_times_agree_about_what_they_were_told() {
    let mut world = World::new(link());
    // one listener alone: ticks without a packet
    world.enter(false);
    world.frames(40);
    world.enter(true);
    world.frames(300);
    world.enter(false);
    world.frames(700);
    world.no_alarms();
    let told = |member: u16| world.person_of(member).came.iter().filter(|bytes| bytes[1] == 0x0d).count();
    assert!(told(0) >= 4 && told(2) >= 2, "they have compared: {} and {} notes", told(0), told(2));
}
