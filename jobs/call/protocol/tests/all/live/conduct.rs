//! Lobby, host, hands and limits: the rules that a server enforces.

use crate::live::*;
use tobari_call::live::HostToken;
use tobari_call::live::messages::ServerMessage;
use tobari_call::messages::Code;

fn hosted(lobby: bool) -> World {
    let settings = Settings { lobby, speakers: 4, host: Some([0; 16]), ..Settings::default() };
    let mut world = World::new(link_with(settings, 6));
    let link = world.link.clone();
    assert_eq!(world.enter_by(&link, true), 0);
    world
}

fn host_says(world: &mut World, message: &ClientMessage) {
    world.people.get_mut(&0).unwrap().member.say(message);
    world.carry();
}

#[test]
fn who_waits_in_the_lobby_gets_nothing_until_the_host_lets_it_in() {
    let mut world = hosted(true);
    world.says(0, 50);
    let guest = world.enter(true);
    world.frames(100);
    let person = world.person_of(guest);
    assert!(person.came.is_empty() && person.news.is_empty() && person.packets.is_empty());
    let waiting = News::Waiting { member: guest, name: format!("person {guest}") };
    assert!(world.person_of(0).news.contains(&waiting), "the host knows who waits");
    host_says(&mut world, &ClientMessage::Admit { member: guest });
    world.frames(100);
    world.no_alarms();
    assert!(world.person_of(guest).news.contains(&News::Admitted));
    assert_eq!(world.person_of(guest).last(), (vec![0, guest], 50));
}

#[test]
fn who_is_put_out_is_gone_at_once_and_the_others_have_new_keys() {
    let mut world = hosted(false);
    let guest = world.enter(true);
    let other = world.enter(true);
    world.frames(100);
    let before = epoch_of(&world, other);
    host_says(&mut world, &ClientMessage::Eject { member: guest });
    assert_eq!(world.removed, [(guest, "the host has ended this member's part in the call".to_owned())]);
    world.frames(20);
    assert!(epoch_of(&world, other) > before);
    assert_eq!(world.person_of(other).last().0, [0, other]);
    assert!(!world.person_of(other).member.roster().unwrap().contains_key(&guest));
}

fn epoch_of(world: &World, member: u16) -> u32 {
    let sum = world.person_of(member).came.iter().rev().find_map(|bytes| world.sum(bytes));
    sum.map_or(0, |sum| sum.epoch)
}

#[test]
fn the_muted_are_left_out_are_told_so_and_take_it_for_no_omission() {
    let mut world = hosted(false);
    let guest = world.enter(true);
    world.frames(100);
    world.forget();
    world.says(guest, 500);
    host_says(&mut world, &ClientMessage::Mute { member: guest, muted: true });
    world.frames(150);
    world.no_alarms();
    assert_eq!(world.person_of(0).last(), (vec![0], 0));
    assert!(world.person_of(guest).news.contains(&News::Muted { muted: true }));
    // every member sees that the guest is in no sum, but not the reason
    let missed = |world: &World, missing: bool| {
        let news = News::Missing { member: guest, missing };
        [0, guest].map(|member| world.person_of(member).news.iter().filter(|told| **told == news).count())
    };
    assert_eq!((missed(&world, true), missed(&world, false)), ([1, 1], [0, 0]));
    host_says(&mut world, &ClientMessage::Mute { member: guest, muted: false });
    world.frames(10);
    assert_eq!(world.person_of(0).last(), (vec![0, guest], 500));
    world.frames(100);
    assert_eq!((missed(&world, true), missed(&world, false)), ([1, 1], [1, 1]));
}

#[test]
fn what_is_on_its_way_when_somebody_is_muted_or_made_a_listener_costs_no_place_and_is_no_omission() {
    let mut world = hosted(false);
    let guest = world.enter(true);
    world.frames(100);
    world.forget();
    world.says(guest, 500);
    let mute = |muted| ClientMessage::Mute { member: guest, muted };
    let grant = |speak| ClientMessage::Grant { member: guest, speak };
    for (done, undone) in [(mute(true), mute(false)), (grant(false), grant(true))] {
        let before = world.packet(guest).unwrap();
        host_says(&mut world, &done);
        world.send(guest, &before);
        let meanwhile = world.packet(guest);
        host_says(&mut world, &undone);
        if let Some(packet) = meanwhile {
            world.send(guest, &packet);
        }
        world.frames(150);
        world.no_alarms();
        assert_eq!(world.person_of(0).last(), (vec![0, guest], 500), "{done:?}");
    }
}

#[test]
fn who_is_left_out_notices_though_the_server_says_over_and_over_that_nobody_is_muted() {
    let mut world = hosted(false);
    let guest = world.enter(true);
    world.frames(100);
    world.forget();
    world.left_out.insert(guest);
    for _ in 0..200 {
        world.tell(guest, &ServerMessage::Muted { muted: false });
        world.frame();
    }
    let noticed = |alarm: &Alarm| matches!(alarm, Alarm::Omitted { .. });
    assert!(world.person_of(guest).alarms().iter().any(noticed), "{:?}", world.person_of(guest).alarms());
}

#[test]
fn a_listener_raises_its_hand_and_speaks_under_a_session_of_its_own() {
    let mut world = hosted(false);
    let ear = world.enter(false);
    world.frames(100);
    world.says(ear, 33);
    let session = |world: &World| world.person_of(0).member.roster().unwrap()[&ear].session;
    let before = session(&world);
    world.people.get_mut(&ear).unwrap().member.raise_hand(true);
    world.carry();
    assert!(world.person_of(0).news.contains(&News::Hand { member: ear, raised: true }));
    assert!(!world.person_of(ear).news.contains(&News::Granted { speak: true }), "the host decides");
    host_says(&mut world, &ClientMessage::Grant { member: ear, speak: true });
    world.frames(100);
    world.no_alarms();
    assert!(session(&world) != before, "a session that has never sent");
    assert_eq!(world.person_of(0).last(), (vec![0, ear], 33));
    host_says(&mut world, &ClientMessage::Grant { member: ear, speak: false });
    world.frames(100);
    world.no_alarms();
    assert_eq!(world.person_of(ear).last().0, [0]);
}

#[test]
fn without_a_host_hands_are_granted_while_there_is_a_place() {
    let mut world = World::new(link_with(Settings { speakers: 2, ..Settings::default() }, 8));
    let [one, two, three] = [true, false, false].map(|speak| world.enter(speak));
    world.settle();
    for ear in [two, three] {
        world.people.get_mut(&ear).unwrap().member.raise_hand(true);
        world.carry();
    }
    world.frames(100);
    assert_eq!(world.person_of(one).last().0, [one, two], "there are two places");
    let join = proven(&world.link, true);
    let refused = world.0.room.join(&join, world.0.now).unwrap_err();
    assert_eq!((refused.code(), refused.to_string().contains("listeners may come")), (Code::Full, true));
}

#[test]
fn only_the_host_hosts_and_a_wrong_token_is_refused() {
    let mut world = hosted(false);
    let guest = world.enter(true);
    world.frames(60);
    world.people.get_mut(&guest).unwrap().member.say(&ClientMessage::Eject { member: 0 });
    world.carry();
    assert_eq!(world.removed, [(guest, "only the host may do that".to_owned())]);
    let token = HostToken::random(&mut ChaCha20Rng::from_seed([91; 32]));
    let join = proven(&RoomLink { host: Some(token), ..world.link.clone() }, true);
    assert_eq!(world.0.room.join(&join, world.0.now).unwrap_err().code(), Code::Host);
    let mut link = world.link.clone();
    link.settings.speakers += 1;
    let join = proven(&link, true);
    assert_eq!(world.0.room.join(&join, world.0.now).unwrap_err().code(), Code::Settings);
}

#[test]
fn who_says_too_much_or_nothing_at_all_is_removed_and_the_others_go_on() {
    let mut world = World::with(2);
    for _ in 0..30 {
        world.0.room.message(1, &ClientMessage::Hand { raised: true }, world.0.now);
    }
    world.follow();
    assert_eq!((world.removed[0].0, world.removed.len()), (1, 1));
    let welcome = world.0.room.join(&proven(&world.0.link, true), world.0.now).unwrap();
    world.frames(600);
    assert_eq!(world.removed[1].0, welcome.member, "it never presented itself");
    assert_eq!(world.person_of(0).last().0, [0]);
}

#[test]
fn a_packet_from_a_listener_or_in_anothers_name_or_too_far_ahead_removes_its_sender_only() {
    let mut world = World::with(2);
    let ear = world.enter(false);
    world.frames(100);
    let layout = world.room.layout();
    let packet = world.person_of(0).packets.last().unwrap().clone();
    let mut far = wire::decode_live_packet(layout, &packet).unwrap();
    far.header.tick += 1000;
    world.send(0, &wire::encode_live_packet(layout, &far));
    assert_eq!(world.removed.last().unwrap().0, 0);
    world.send(ear, &packet);
    assert_eq!(world.removed.last().unwrap().0, ear);
    world.frames(100);
    assert_eq!(world.person_of(1).last().0, [1]);
}

#[test]
fn a_closing_server_says_so_and_ends_the_room_in_time() {
    let mut world = World::with(2);
    world.0.room.close(world.0.now, world.0.now + Duration::from_secs(2));
    world.carry();
    assert!(world.person_of(0).news.contains(&News::Closing { seconds: 2 }));
    let join = proven(&world.link, true);
    assert_eq!(world.0.room.join(&join, world.0.now).unwrap_err().code(), Code::Shutdown);
    world.frames(99);
    assert!(world.removed.is_empty() && world.person_of(0).heard.len() >= 99, "it goes on until then");
    world.frames(3);
    assert_eq!(world.removed.len(), 2);
    assert!(world.room.is_over());
}

#[test]
fn numbers_come_free_again_but_no_session_does() {
    let mut world = World::with(3);
    let mut sessions = std::collections::HashSet::new();
    for _ in 0..4 {
        let session = world.person_of(0).member.roster().unwrap()[&2].session;
        assert!(sessions.insert(session));
        world.people.remove(&2);
        world.0.room.leave(2, world.0.now);
        world.frames(100);
        assert_eq!(world.enter(true), 2);
        world.frames(100);
    }
    world.no_alarms();
    assert_eq!(world.person_of(0).last().0, [0, 1, 2]);
}

/// A member that stalled and catches up sends many ticks at once, further ahead than a roster is
/// announced.
#[test]
fn a_roster_holds_from_after_the_last_tick_that_somebody_has_sent() {
    let mut world = World::with(2);
    world.says(0, 40);
    for _ in 0..28 {
        let person = world.people.get_mut(&0).unwrap();
        if let Some(packet) = person.member.frame(&level(40), true, &mut person.rng) {
            world.send(0, &packet);
        }
    }
    let third = world.enter(true);
    world.frames(90);
    world.no_alarms();
    assert_eq!(world.person_of(1).last(), (vec![0, 1, third], 40));
}

#[test]
fn of_who_leaves_nobody_is_told_that_it_is_missing_nor_of_who_has_its_number_next() {
    let mut world = hosted(false);
    let guest = world.enter(true);
    world.frames(100);
    world.forget();
    world.people.remove(&guest);
    let now = world.now;
    world.room.leave(guest, now);
    world.frames(200);
    assert_eq!(world.enter(true), guest, "the number is free again");
    world.frames(200);
    let missing = |news: &News| matches!(news, News::Missing { .. });
    for member in [0, guest] {
        assert!(!world.person_of(member).news.iter().any(missing), "{:?}", world.person_of(member).news);
    }
    world.no_alarms();
}
