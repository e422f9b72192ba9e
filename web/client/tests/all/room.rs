//! Clients as a page drives them, with the server's half of a room between them and no network.

use std::time::Duration;

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use serde_json::Value;
use tobari_call::live::messages::{ClientMessage, Nonce, ServerMessage};
use tobari_call::live::{Challenge, LiveEvent, LiveLimits, LiveMode, LiveRoom, LiveUplink, RoomLink, Settings};
use tobari_curve::wire::RoomId;
use tobari_wasm::{Client, LinkOrder, Links, Start, StartError, Thing, describe, guests_link, make_links};

const RATE: u32 = 48_000;
/// Samples of the sound card in 20 ms.
const CARD_FRAME: usize = 960;

fn order() -> LinkOrder {
    LinkOrder {
        server: "http://h:1".to_owned(),
        room: "room".to_owned(),
        shared: false,
        spurts: false,
        lobby: false,
        host: false,
        mls: false,
        speakers: 8,
    }
}

fn links(order: &LinkOrder) -> Links {
    make_links(order, &mut ChaCha20Rng::from_seed([1; 32])).unwrap()
}

fn client(link: &str, name: &str, seed: u8) -> Client {
    let start = Start { link: link.to_owned(), name: name.to_owned(), speak: true, rate: RATE };
    Client::new(start, ChaCha20Rng::from_seed([seed; 32])).unwrap()
}

/// The server's challenge for a client.
fn challenge(index: usize) -> Challenge {
    Challenge { nonce: Nonce([index as u8; 16]), room: "room".parse().unwrap(), hosts: vec!["h".to_owned()] }
}

/// One person at a page.
struct Person {
    client: Client,
    /// Whether the server has sent its challenge.
    asked: bool,
    uplink: Option<LiveUplink>,
    member: u16,
    heard: Vec<f32>,
    /// Sums that arrived, and the decrypted ones of these.
    sums: [usize; 2],
    news: Vec<Value>,
    /// Bytes of packets.
    sent: usize,
    /// The microphone's loudest sample.
    loudest: i16,
}

struct World {
    room: Option<LiveRoom>,
    people: Vec<Person>,
    /// A client that gets all messages to any client, whether it is a member or not.
    taps: Option<usize>,
    /// A client whose connection is stalled.
    stalled: Option<usize>,
    now: Duration,
}

impl World {
    fn new(clients: Vec<Client>) -> Self {
        let person = |client| {
            let (heard, news) = (Vec::new(), Vec::new());
            Person { client, asked: false, uplink: None, member: 0, heard, sums: [0; 2], news, sent: 0, loudest: 0 }
        };
        let people = clients.into_iter().map(person).collect();
        Self { room: None, people, taps: None, stalled: None, now: Duration::ZERO }
    }

    /// Sends the pending messages of a person's page to the room.
    fn send(&mut self, index: usize) {
        if !std::mem::replace(&mut self.people[index].asked, true) {
            let nonce = challenge(index).nonce;
            self.people[index].client.text(&ServerMessage::Challenge { nonce }.to_text());
        }
        while let Some(thing) = self.people[index].client.poll(self.stalled == Some(index)) {
            let person = &mut self.people[index];
            match (thing, person.uplink) {
                (Thing::Text(text), None) => {
                    let ClientMessage::Join(join) = ClientMessage::parse(&text).unwrap() else { panic!("{text}") };
                    let join = join.checked(&challenge(index)).unwrap();
                    let open = || LiveRoom::open(RoomId([7; 8]), &join, LiveLimits::default(), Duration::ZERO).unwrap();
                    let room = self.room.get_or_insert_with(open);
                    let welcome = room.join(&join, self.now).unwrap();
                    (person.uplink, person.member) = (Some(room.uplink(&welcome)), welcome.member);
                    person.client.text(&ServerMessage::Welcome(welcome).to_text());
                }
                (Thing::Text(text), Some(_)) => {
                    let message = ClientMessage::parse(&text).unwrap();
                    self.room.as_mut().unwrap().message(person.member, &message, self.now);
                }
                (Thing::Packet(bytes), Some(uplink)) => {
                    person.sent += bytes.len();
                    self.room.as_mut().unwrap().packet(&uplink.decode(&bytes).unwrap());
                }
                (Thing::Binary(bytes), Some(_)) => {
                    self.room.as_mut().unwrap().note(person.member, &bytes, self.now);
                }
                (Thing::Packet(_) | Thing::Binary(_), None) => panic!("something before the join"),
            }
        }
    }

    fn deliver(&mut self) {
        while let Some(event) = self.room.as_mut().unwrap().poll(self.now) {
            for (index, person) in self.people.iter_mut().enumerate().filter(|(_, person)| person.uplink.is_some()) {
                let is_sent = |members: &[u16]| members.contains(&person.member) || self.taps == Some(index);
                match &event {
                    LiveEvent::Closed { sum: Some(sum), members, .. } if is_sent(members) => {
                        person.sums[0] += 1;
                        person.sums[1] += usize::from(person.client.binary(sum));
                    }
                    LiveEvent::Send { members, bytes } if is_sent(members) => {
                        person.client.binary(bytes);
                    }
                    LiveEvent::Tell { member, message } if *member == person.member => {
                        person.client.text(&message.to_text());
                    }
                    _ => {}
                }
            }
        }
    }

    /// 20 ms, in which each person's microphone hears `sound(person, sample)`.
    fn tick(&mut self, sound: impl Fn(usize, usize) -> f32) {
        for index in 0..self.people.len() {
            let start = self.now.as_millis() as usize * CARD_FRAME / 20;
            let samples: Vec<f32> = (start..start + CARD_FRAME).map(|at| sound(index, at)).collect();
            let person = &mut self.people[index];
            samples.chunks(128).for_each(|chunk| person.client.capture(chunk));
            person.loudest = person.loudest.max(person.client.peak());
            self.send(index);
            self.deliver();
            let person = &mut self.people[index];
            person.client.play(&mut person.heard);
            while let Some(news) = person.client.poll_news() {
                person.news.push(news);
            }
        }
        self.now += Duration::from_millis(20);
        self.deliver();
    }
}

fn wave(at: usize, hertz: f32) -> f32 {
    (at as f32 * hertz * std::f32::consts::TAU / RATE as f32).sin() * 0.2
}

/// The strength of a tone, relative to a full-scale one.
fn strength(samples: &[f32], hertz: f32) -> f32 {
    let (sin, cos) = samples.iter().enumerate().fold((0.0, 0.0), |(sin, cos): (f32, f32), (at, sample)| {
        let angle = at as f32 * hertz * std::f32::consts::TAU / RATE as f32;
        (sin + sample * angle.sin(), cos + sample * angle.cos())
    });
    2.0 * sin.hypot(cos) / samples.len() as f32
}

/// Each of three pages hears the other two within `ticks`, and sends packets of this size in bytes.
fn three_pages(link: &str, ticks: usize, packet: std::ops::Range<usize>) {
    let names = ["Ada", "Bo", "Cy"];
    let clients = names.iter().zip(1..).map(|(name, seed)| client(link, name, seed)).collect();
    let mut world = World::new(clients);
    let tones = [500.0, 800.0, 1_300.0];
    // a voice has pauses: by them the gate tells it from noise
    let on = |at: usize| if (at / (10 * CARD_FRAME)).is_multiple_of(2) { 1.0 } else { 0.0 };
    (0..ticks).for_each(|_| world.tick(|person, at| on(at) * wave(at, tones[person])));
    for (index, person) in world.people.iter().enumerate() {
        let last = &person.heard[person.heard.len() - 100 * CARD_FRAME..];
        for (other, tone) in tones.iter().enumerate() {
            let found = strength(last, *tone);
            assert_eq!(found > 0.02, other != index, "{index} hears {other}: {found}");
        }
        assert!(person.news.iter().all(|news| news["news"] != "alarm"), "{:?}", person.news);
        let roster = person.news.iter().rfind(|news| news["news"] == "roster").unwrap();
        let members = roster["members"].as_array().unwrap();
        assert_eq!(members.iter().map(|member| member["name"].as_str().unwrap()).collect::<Vec<_>>(), names);
        assert_eq!(members.iter().filter(|member| member["you"] == true).count(), 1);
        let talked =
            |member: usize| person.news.iter().any(|news| news["news"] == "talking" && news["member"] == member);
        assert!((0..3).all(talked), "{:?}", person.news);
        assert!(person.sent > (ticks - 100) * packet.start && person.sent < ticks * packet.end, "{}", person.sent);
    }
}

/// 1,084 bytes or less every 20 ms: 0.43 megabits a second.
#[test]
fn three_pages_hear_the_others_and_not_themselves() {
    three_pages(&links(&LinkOrder { speakers: 1024, ..order() }).link, 400, 900..1_100);
}

/// A point of 32 bytes for each of 320 samples: 4.2 megabits a second.
#[test]
fn three_pages_hear_the_others_in_a_room_of_points() {
    three_pages(&links(&LinkOrder { speakers: 1024, shared: true, ..order() }).link, 400, 10_240..10_750);
}

/// Two points for each sample: 8.3 megabits a second. The page makes no such link, but accepts
/// those of the command line.
#[test]
fn three_pages_hear_the_others_in_a_room_of_pairs_of_points() {
    let settings = Settings { mode: LiveMode::Elgamal, speakers: 1024, ..Settings::default() };
    let link = RoomLink::new("http://h:1", "room".parse().unwrap(), settings, &mut ChaCha20Rng::from_seed([1; 32]));
    three_pages(&link.to_text(), 220, 20_480..21_200);
}

/// Packets that a page holds back because they would be late are in no sum. The server is not the
/// cause, and no client accuses it.
#[test]
fn a_line_that_takes_nothing_for_a_while_is_told_as_late_and_accuses_nobody() {
    let link = links(&order()).link;
    let mut world = World::new(vec![client(&link, "a", 1), client(&link, "b", 2)]);
    (0..100).for_each(|_| world.tick(|_, at| wave(at, 700.0)));
    let sent = world.people[0].sent;
    world.stalled = Some(0);
    (0..20).for_each(|_| world.tick(|_, at| wave(at, 700.0)));
    assert_eq!(world.people[0].sent, sent, "nothing is sent");
    world.stalled = None;
    (0..200).for_each(|_| world.tick(|_, at| wave(at, 700.0)));
    assert!(world.people[0].sent > sent + 150 * 900, "and everything again afterwards");
    let late = |person: &Person| person.news.iter().filter(|news| news["news"] == "late").count();
    assert_eq!((late(&world.people[0]), late(&world.people[1])), (20, 0));
    for person in &world.people {
        assert!(person.news.iter().all(|news| news["news"] != "alarm"), "{:?}", person.news);
    }
}

#[test]
fn whoever_is_muted_sends_as_much_and_says_nothing() {
    let link = links(&order()).link;
    let mut world = World::new(vec![client(&link, "a", 1), client(&link, "b", 2)]);
    world.people[0].client.mute(true);
    let on = |at: usize| if (at / (10 * CARD_FRAME)).is_multiple_of(2) { 0.3 } else { 0.0 };
    (0..100).for_each(|_| world.tick(|_, at| on(at) * wave(at, 700.0)));
    world.people.iter_mut().for_each(|person| person.sent = 0);
    (0..100).for_each(|_| world.tick(|_, at| on(at) * wave(at, 700.0)));
    assert!(strength(&world.people[1].heard[100 * CARD_FRAME..], 700.0) < 1e-4);
    assert!(strength(&world.people[0].heard[100 * CARD_FRAME..], 700.0) > 5e-3);
    assert!(world.people[0].sent.abs_diff(world.people[1].sent) < 3_000);
    assert!(world.people[0].loudest > 1000, "the page still shows that the microphone works");
}

#[test]
fn a_host_admits_who_waits_and_may_say_nothing_else_than_the_protocol() {
    let links = links(&LinkOrder { lobby: true, ..order() });
    assert_eq!(guests_link(links.host_link.as_ref().unwrap()).unwrap().as_str(), links.link);
    let host = client(&links.host_link.unwrap(), "host", 1);
    let mut world = World::new(vec![host, client(&links.link, "guest", 2)]);
    (0..30).for_each(|_| world.tick(|_, _| 0.0));
    let waiting = world.people[0].news.iter().find(|news| news["news"] == "waiting").unwrap();
    assert_eq!((&waiting["name"], &waiting["member"]), (&"guest".into(), &1.into()));
    assert!(world.people[1].news.iter().all(|news| news["news"] != "roster"));
    assert!(!world.people[0].client.say(r#"{"type":"admit"}"#) && !world.people[0].client.say("let me in"));
    assert!(world.people[0].client.say(r#"{"type":"admit","member":1}"#));
    (0..150).for_each(|_| world.tick(|_, _| 0.0));
    for wanted in ["admitted", "roster"] {
        assert!(world.people[1].news.iter().any(|news| news["news"] == wanted), "{:?}", world.people[1].news);
    }
}

/// The words to compare in the last roster, of the room and of each member. They must be the same
/// for all people.
#[cfg(feature = "mls")]
fn words(people: &[Person]) -> (String, Vec<String>) {
    let told = |person: &Person| {
        let roster = person.news.iter().rfind(|news| news["news"] == "roster").unwrap();
        let of_members = roster["members"].as_array().unwrap().iter();
        let of_members = of_members.map(|member| member["words"].as_str().unwrap().to_owned()).collect();
        (roster["words"].as_str().unwrap().to_owned(), of_members)
    };
    let all: Vec<(String, Vec<String>)> = people.iter().map(told).collect();
    assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
    assert_eq!(all[0].1.len(), people.len());
    all[0].clone()
}

#[cfg(feature = "mls")]
#[test]
fn pages_that_agree_on_keys_have_one_set_of_words_and_who_is_put_out_opens_nothing_more() {
    let links = links(&LinkOrder { mls: true, host: true, ..order() });
    assert_eq!(describe(&links.link).unwrap()["keys"], "mls");
    let host = client(&links.host_link.unwrap(), "Ada", 1);
    let mut world = World::new(vec![host, client(&links.link, "Bo", 2), client(&links.link, "Cy", 3)]);
    let tones = [500.0, 800.0, 1_300.0];
    let on = |at: usize| if (at / (10 * CARD_FRAME)).is_multiple_of(2) { 1.0 } else { 0.0 };
    let sound = |person: usize, at: usize| on(at) * wave(at, tones[person]);
    (0..300).for_each(|_| world.tick(sound));
    let hears = |world: &World, index: usize, other: usize| {
        let heard = &world.people[index].heard;
        strength(&heard[heard.len() - 60 * CARD_FRAME..], tones[other]) > 0.02
    };
    for (index, other) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
        assert!(hears(&world, index, other), "{index} hears {other}");
    }
    let (of_three, members) = words(&world.people);
    assert!(of_three.len() == 23 && members[0] != members[1] && !members.contains(&of_three));
    // a malicious server still sends everything to the removed member
    world.taps = Some(2);
    assert!(world.people[0].client.say(r#"{"type":"eject","member":2}"#));
    (0..100).for_each(|_| world.tick(sound));
    world.people.iter_mut().for_each(|person| person.sums = [0; 2]);
    (0..100).for_each(|_| world.tick(sound));
    assert_eq!(world.people.iter().map(|person| person.sums).collect::<Vec<_>>(), [[100, 100], [100, 100], [100, 0]]);
    assert!(hears(&world, 0, 1) && hears(&world, 1, 0) && !hears(&world, 2, 0) && !hears(&world, 2, 1));
    let (of_two, left) = words(&world.people[..2]);
    assert!(of_two != of_three && left == members[..2], "the room's words change, a member's do not");
    for person in &world.people[..2] {
        assert!(person.news.iter().all(|news| news["news"] != "alarm"), "{:?}", person.news);
    }
}

#[test]
fn links_are_made_and_read_and_others_are_refused() {
    let made = links(&order());
    assert!(made.host_link.is_none());
    let client = client(&made.link, "a", 1);
    assert_eq!(client.address(), "ws://h:1/call/v3/room");
    let described = client.describe();
    assert_eq!(described, describe(&made.link).unwrap());
    assert_eq!((&described["mode"], &described["host"]), (&"mask".into(), &false.into()));
    assert_eq!(described["keys"], "link");
    assert!(!described.to_string().contains(made.link.split_once('#').unwrap().1), "no secret in what is shown");
    let start = |link: &str, rate: u32| {
        let start = Start { link: link.to_owned(), name: String::new(), speak: true, rate };
        Client::new(start, ChaCha20Rng::from_seed([1; 32])).err().unwrap()
    };
    assert!(matches!(start("https://h/call/r", RATE), StartError::Link(_)));
    assert!(matches!(start(&made.link, 3), StartError::Rate(_)));
    assert_eq!(start(&made.link.replace("http:", "ftp:"), RATE), StartError::Scheme);
    assert_eq!(describe(&made.link.replace("http:", "ftp:")), Err(StartError::Scheme));
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    for wrong in [
        LinkOrder { server: "h".to_owned(), ..order() },
        LinkOrder { speakers: 0, ..order() },
        LinkOrder { room: "a/b".to_owned(), ..order() },
    ] {
        assert!(make_links(&wrong, &mut rng).is_none());
    }
}

#[test]
fn what_is_no_message_is_an_alarm_and_ends_nothing() {
    let link = links(&order()).link;
    let mut world = World::new(vec![client(&link, "a", 1)]);
    world.people[0].client.text("{}");
    assert!(!world.people[0].client.binary(&[1, 8, 0]));
    (0..20).for_each(|_| world.tick(|_, _| 0.0));
    assert!(!world.people[0].client.binary(&[]));
    world.people[0].client.text("no");
    (0..100).for_each(|_| world.tick(|_, _| 0.0));
    let named = |name: &str| world.people[0].news.iter().filter(|news| news["news"] == name).count();
    assert_eq!((named("alarm"), named("roster")), (4, 1));
}
