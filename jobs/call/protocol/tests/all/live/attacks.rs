//! Attacks by a server, alone or with a member, and how each attack ends. The book's page on
//! threats to live rooms has a row for each attack.

use crate::live::*;
use std::collections::HashSet;
use tobari_call::live::{
    Keys, RosterError, SumError,
    attack::{self, Agreed, Outcome, Performance},
};
use tobari_call::mask::OpenError;

/// A row of the page's attack tables.
struct Row {
    name: &'static str,
    result: &'static str,
    how: &'static str,
    test: &'static str,
    /// Is the table about rooms whose members agree on keys?
    agreed: bool,
}

/// The rows of the page on threats to live rooms.
fn documented() -> Vec<Row> {
    const HEAD: &str = "| attack | result | how | test |";
    let page = include_str!("../../../../../../book/src/explanation/threats/call.md");
    let (mut rows, mut agreed, mut inside) = (Vec::new(), false, false);
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            agreed = title == "Where the members agree on keys";
        }
        inside = line == HEAD || inside && line.starts_with('|');
        if inside && line != HEAD && !line.starts_with("|---") {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let &[name, result, how, test] = &cells[..] else { panic!("expected four cells, found {line}") };
            rows.push(Row { name, result, how, test, agreed });
        }
    }
    rows
}

/// The row of an attack for this kind of room.
fn row_of<'a>(rows: &'a [Row], attack: &attack::Attack, agreed: bool) -> Option<&'a Row> {
    let name = if attack.in_points && !agreed { format!("{} *", attack.name) } else { attack.name.to_owned() };
    rows.iter().find(|row| row.name == name && row.agreed == agreed)
}

/// The time limit in seconds that a row states for the attack; none if the row states no limit.
fn within(row: &Row) -> Option<Duration> {
    let seconds = |after: &str| after.split_once(" s").and_then(|(seconds, _)| seconds.parse().ok());
    row.how.split("within ").skip(1).find_map(seconds).map(Duration::from_secs_f64)
}

/// Runs all attacks of a mode: at least `at_least` of them.
fn table(mode: LiveMode, at_least: usize) {
    all_end_as_documented(&attack::play_all(mode, [mode.name().len() as u8; 32]), at_least);
}

fn all_end_as_documented(played: &[Performance], at_least: usize) {
    assert!(played.len() >= at_least, "{}", played.len());
    let rows = documented();
    let wrong: Vec<String> = played
        .iter()
        .filter(|performance| {
            let agreed = performance.keys == Keys::Group;
            let row = row_of(&rows, performance.attack, agreed);
            let row = row.unwrap_or_else(|| panic!("the page of threats has no row: {}", performance.attack.name));
            let most = within(row).unwrap_or(Duration::from_secs(32));
            let late = matches!(&performance.outcome, Ok(Outcome::Caught { within, .. }) if *within > most);
            late || !performance.is_as_documented()
        })
        .map(|performance| format!("{}: {}: {:?}", performance.mode, performance.attack.name, performance.outcome))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_attack_on_a_live_room_ends_as_the_table_says() {
    table(LiveMode::Mask, 36);
}

#[test]
fn in_the_modes_of_points_what_meets_their_arithmetic_ends_so_too() {
    table(LiveMode::ElgamalShared, 11);
    table(LiveMode::Elgamal, 11);
}

#[test]
#[cfg(feature = "mls")]
fn where_the_members_agree_on_keys_what_meets_their_group_ends_as_the_table_says() {
    let played = attack::play_agreed([6; 32]);
    all_end_as_documented(&played, 14);
    // removal takes effect within a second, for removed members and for members that leave
    let within = played.iter().filter_map(|performance| match (performance.attack.agreed, &performance.outcome) {
        (Agreed::Caught, Ok(Outcome::Caught { within, .. })) => Some(*within),
        _ => None,
    });
    let within: Vec<Duration> = within.collect();
    let is_soon = |within: &Duration| *within > Duration::ZERO && *within <= Duration::from_secs(1);
    assert!(within.len() == 2 && within.iter().all(is_soon), "{within:?}");
}

#[test]
fn the_page_of_threats_has_every_attack_and_why_it_is_not_caught() {
    let (rows, mut names) = (documented(), HashSet::new());
    for attack in attack::all() {
        assert!(names.insert(attack.name), "{} twice", attack.name);
        let here = |agreed| {
            let row = row_of(&rows, attack, agreed);
            let row = row.unwrap_or_else(|| panic!("the page of threats has no row: {}", attack.name));
            assert!(row.test.contains("`demo --attack`"), "{}: the demonstration plays it", row.name);
            assert!(!row.how.is_empty(), "{}: the row does not say how or for whom", row.name);
            row.result == "possible"
        };
        let succeeds = attack.limit.is_some();
        if attack.agreed != Agreed::Only {
            assert_eq!(here(false), succeeds, "{}", attack.name);
        }
        match attack.agreed {
            Agreed::NotPlayed => assert!(row_of(&rows, attack, true).is_none(), "{}", attack.name),
            Agreed::Same => assert_eq!(here(true), succeeds, "{}", attack.name),
            Agreed::Caught | Agreed::Only => assert!(!here(true), "{}", attack.name),
        }
    }
    // the page has no other row, except rows with another test (the demonstration also attacks its
    // own server) and rows that refer to a row above
    let others = rows.iter().filter(|row| row.test == "`demo --attack`" && !row.how.contains("as above"));
    let others = others.filter(|row| !names.contains(row.name.trim_end_matches(" *")));
    assert_eq!(others.map(|row| row.name).collect::<Vec<_>>(), [""; 0]);
}

fn forged(error: &SumError) -> bool {
    matches!(error, SumError::Forged { error: OpenError::Forged, .. })
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
    // and the room adds the packet once
    let last = person.packets.last().unwrap().clone();
    world.forget();
    for _ in 0..3 {
        world.send(0, &last);
    }
    world.frames(5);
    world.no_alarms();
    assert!(world.person_of(1).levels().iter().all(|level| *level == -77));
}

/// Two clients under one number lose only their seat, because equal number, tick and samples are
/// encrypted under different keys.
#[test]
fn two_clients_under_one_number_share_no_key() {
    let packet = |seed: u8| {
        let mut world = World::of(link(), seed);
        assert_eq!(world.enter(true), 0);
        world.settle();
        world.says(0, 5);
        world.frames(3);
        let layout = world.room.layout();
        wire::decode_live_packet(layout, world.person_of(0).packets.last().unwrap()).unwrap()
    };
    let (one, two, again) = (packet(1), packet(2), packet(1));
    assert_eq!((one.header, one.header), (two.header, again.header));
    assert!(one.payload != two.payload && one.tag != two.tag);
    assert!(one.payload == again.payload && one.tag == again.tag, "nothing but the session differs");
}

#[test]
fn rosters_of_another_room_are_refused_and_changed_hellos_are_left_out() {
    for (what, place) in [("a hello that was changed", 60), ("another room", 3)] {
        let mut world = World::new(link());
        world.cheat = Some(Box::new(move |_, _, mut bytes| {
            if bytes[1] == 0x25 {
                bytes[place] ^= 1;
            }
            vec![bytes]
        }));
        world.enter(true);
        world.frames(60);
        let expected = match what {
            "another room" => RosterError::Malformed,
            // the changed hello is its own, so it knows no member under its own number
            _ => RosterError::NumberTaken(0),
        };
        assert!(
            world.person_of(0).alarms().contains(&Alarm::Roster(expected)),
            "{what}: {:?}",
            world.person_of(0).alarms()
        );
        assert!(!world.person_of(0).member.can_speak() && world.person_of(0).packets.is_empty(), "{what}");
    }
}

#[test]
fn a_server_that_lets_somebody_in_under_other_settings_lets_it_hear_nothing() {
    let mut world = World::with(2);
    world.says(0, 9);
    let mut other = world.link.for_members();
    other.settings.sending = tobari_call::live::Sending::Spurts;
    let welcome = world.0.room.join(&proven(&world.0.link.for_members(), true), world.0.now).unwrap();
    // its key differs, so an honest server rejects its hello
    let third = world.seat(&other, true, &welcome);
    world.frames(100);
    assert!(world.removed.iter().map(|(member, _)| *member).eq([third]), "{:?}", world.removed);
    assert!(world.people.values().all(|person| person.alarms().is_empty() && person.heard.len() >= 98));
    assert_eq!(world.person_of(1).last(), (vec![0, 1], 9));
}

/// Points chosen to spoil a batched addition: another member's negated points, another member's
/// points, and a point off the curve.
#[test]
fn points_that_cancel_repeat_or_are_none_cost_their_tick_or_their_sender_and_nothing_else() {
    for (mode, points) in [(LiveMode::ElgamalShared, 322usize), (LiveMode::Elgamal, 642)] {
        let mut world = World::in_mode(mode, 3);
        let layout = world.room.layout();
        for negated in [true, false] {
            // member 1 sends member 0's points in its own name, for the tick of both
            let mut copied = Vec::new();
            for number in [0, 2, 1] {
                let person = world.people.get_mut(&number).unwrap();
                let packet = person.member.frame(&level(50), true, &mut person.rng).unwrap();
                if number == 0 {
                    copied.clone_from(&packet);
                }
                let packet = if number == 1 { in_the_name_of(1, &copied, points, negated) } else { packet };
                assert!(wire::decode_live_packet(layout, &packet).is_ok(), "{mode}");
                world.send(number, &packet);
            }
            world.now += Duration::from_millis(20);
            world.follow();
            world.carry();
            world.frames(8);
            for member in [0, 2] {
                let alarms = world.person_of(member).alarms();
                assert!(matches!(&alarms[..], [Alarm::Sum(error)] if forged(error)), "{mode}: {alarms:?}");
            }
            assert_eq!(world.person_of(2).last().0, [0, 1, 2], "{mode}: the room goes on");
            world.forget();
        }
        let mut packet =
            world.people.get_mut(&1).map(|person| person.member.frame(&level(1), true, &mut person.rng).unwrap());
        // this abscissa is beyond the prime, so no point of secp256k1 has it
        packet.iter_mut().for_each(|packet| packet[40..72].copy_from_slice(&[[0xff; 31].as_slice(), &[0xfe]].concat()));
        world.send(1, &packet.unwrap());
        assert_eq!((world.removed.len(), world.removed[0].0), (1, 1), "{mode}");
        world.frames(60);
        assert_eq!(world.person_of(2).last().0, [0, 2], "{mode}: the others go on");
    }
}

/// A packet of `member` with the points of `packet`, or with their opposites.
fn in_the_name_of(member: u16, packet: &[u8], points: usize, negated: bool) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[12..14].copy_from_slice(&member.to_be_bytes());
    if negated {
        // the parities of the ordinates are the last bits of a compressed batch
        let start = packet.len() - points.div_ceil(8);
        for point in 0..points {
            packet[start + point / 8] ^= 1 << (point % 8);
        }
    }
    packet
}
