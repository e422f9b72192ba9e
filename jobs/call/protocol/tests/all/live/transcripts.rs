//! Transcripts in `vectors/call`: a client of this protocol against this server, and recordings of
//! this protocol and the one before. No release may fail them. The server asks a client of protocol
//! 2 to update; the rosters and sums that its server sent are recordings, and must stay readable
//! for ever.
//!
//! A transcript is a call of three members: a host, a guest from the lobby who speaks, and a
//! listener who raises its hand, speaks, is muted and is removed. Each line is one message or event
//! between an earlier version's client and server:
//!
//! | line | meaning |
//! |---|---|
//! | `link LINK` | the members' link |
//! | `at MS` | the time of the room from here on |
//! | `join JSON`, `say MEMBER JSON`, `note MEMBER HEX`, `packet MEMBER HEX`, `leave MEMBER` | from members |
//! | `welcome JSON`, `send MEMBERS HEX`, `sum MEMBERS HEX`, `silent TICK MEMBERS` | to members |
//! | `told MEMBER JSON`, `removed MEMBER` | to members |
//! | `hears TICK LEVEL` | what the guest hears in all samples of a tick, without its own voice |
//!
//! This version's server gets the members' messages unchanged. Its own messages must equal the
//! recorded ones, to the byte, because earlier clients read them.

use crate::live::*;
use std::{collections::BTreeMap, fmt::Write};
use tobari_call::live::recording::Playback;
use tobari_call::live::{Challenge, Keys, LiveEvent, LiveLimits, LiveRoom, Proven, Sending};
use tobari_curve::wire::RoomId;

/// The challenge that the members of the transcripts answer.
fn challenge() -> Challenge {
    let room = "recorded".parse().unwrap();
    Challenge { nonce: messages::Nonce([0; 16]), room, hosts: vec!["earlier".to_owned()] }
}

const NUMBER: RoomId = RoomId(*b"recorded");
/// The names of the transcripts, with their modes and keys.
const BY_LINK: [(&str, LiveMode, Keys); 3] = [
    ("mask", LiveMode::Mask, Keys::Link),
    ("elgamal-shared", LiveMode::ElgamalShared, Keys::Link),
    ("elgamal", LiveMode::Elgamal, Keys::Link),
];
/// Members that agree on keys: nobody can decrypt this transcript's sums again.
const AGREED: (&str, LiveMode, Keys) = ("mask-agreed", LiveMode::Mask, Keys::Group);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect()
}

fn list(members: &[u16]) -> String {
    members.iter().map(u16::to_string).collect::<Vec<_>>().join(",")
}

/// A room, and the lines of its messages.
struct Recorder {
    room: LiveRoom,
    now: Duration,
    lines: Vec<String>,
}

impl Recorder {
    fn new(join: &Proven) -> Self {
        let room = LiveRoom::open(NUMBER, join, LiveLimits::default(), Duration::ZERO).unwrap();
        Self { room, now: Duration::ZERO, lines: Vec::new() }
    }

    /// Records the room's events, one line each, with their receivers.
    fn follow(&mut self, mut told: impl FnMut(&[u16], Result<&[u8], messages::ServerMessage>)) {
        while let Some(event) = self.room.poll(self.now) {
            let line = match event {
                LiveEvent::Closed { sum: Some(sum), members, .. } => {
                    told(&members, Ok(&sum));
                    format!("sum {} {}", list(&members), hex(&sum))
                }
                LiveEvent::Closed { tick, sum: None, members, .. } => {
                    told(&members, Err(messages::ServerMessage::Silent { tick }));
                    format!("silent {tick} {}", list(&members))
                }
                LiveEvent::Send { members, bytes } => {
                    told(&members, Ok(&bytes));
                    format!("send {} {}", list(&members), hex(&bytes))
                }
                LiveEvent::Tell { member, message } => {
                    let line = format!("told {member} {}", message.to_text());
                    told(&[member], Err(message));
                    line
                }
                LiveEvent::Removed { member, .. } => format!("removed {member}"),
            };
            self.lines.push(line);
        }
    }

    fn join(&mut self, join: &Proven) -> messages::Welcome {
        let welcome = self.room.join(join, self.now).unwrap();
        self.lines.push(format!("welcome {}", messages::ServerMessage::Welcome(welcome).to_text()));
        welcome
    }
}

/// A recorded call between this version's clients and server.
struct Call {
    recorder: Recorder,
    people: BTreeMap<u16, (LiveMember, ChaCha20Rng)>,
    heard: Vec<(u32, i32)>,
}

impl Call {
    fn enter(&mut self, link: &RoomLink, speak: bool) -> u16 {
        let join = LiveMember::join(link, speak, challenge().nonce);
        self.recorder.lines.push(format!("join {}", ClientMessage::Join(join.clone()).to_text()));
        let welcome = self.recorder.join(&join.checked(&challenge()).unwrap());
        let mut rng = ChaCha20Rng::from_seed([welcome.member as u8 + 1; 32]);
        let name = ["Ada", "Bo", "Zoë"][usize::from(welcome.member)];
        let member = LiveMember::new(link, name, speak, &welcome, &mut rng).unwrap();
        self.people.insert(welcome.member, (member, rng));
        self.carry();
        welcome.member
    }

    fn say(&mut self, member: u16, message: &ClientMessage) {
        self.people.get_mut(&member).unwrap().0.say(message);
        self.carry();
    }

    fn carry(&mut self) {
        for number in self.people.keys().copied().collect::<Vec<_>>() {
            while let Some(out) = self.people.get_mut(&number).and_then(|(member, _)| member.poll_outgoing()) {
                let recorder = &mut self.recorder;
                match out {
                    Outgoing::Text(text) => {
                        recorder.lines.push(format!("say {number} {text}"));
                        recorder.room.message(number, &ClientMessage::parse(&text).unwrap(), recorder.now);
                    }
                    Outgoing::Binary(note) => {
                        recorder.lines.push(format!("note {number} {}", hex(&note)));
                        recorder.room.note(number, &note, recorder.now);
                    }
                }
                self.follow();
            }
        }
        self.follow();
    }

    fn follow(&mut self) {
        let (people, heard) = (&mut self.people, &mut self.heard);
        self.recorder.follow(|members, what| {
            for number in members {
                let Some((member, rng)) = people.get_mut(number) else { continue };
                match &what {
                    Ok(bytes) => {
                        if let Some(tick) = member.binary(bytes).filter(|_| *number == 1) {
                            heard.push((tick.tick, tick.samples[0]));
                        }
                    }
                    Err(message) => member.message(message, rng),
                }
            }
        });
        let here = |line: &String| line.strip_prefix("removed ").map(|number| number.parse::<u16>().unwrap());
        self.recorder.lines.iter().filter_map(here).for_each(|gone| drop(people.remove(&gone)));
    }

    /// Advances by 20 ms, in which the members of `said` speak at their levels and the others are
    /// silent.
    fn frame(&mut self, said: &[(u16, i16)]) {
        for number in self.people.keys().copied().collect::<Vec<_>>() {
            let (member, rng) = self.people.get_mut(&number).unwrap();
            let talks = said.iter().find(|(talks, _)| *talks == number);
            let packet = member.frame(&level(talks.map_or(0, |said| said.1)), talks.is_some(), rng);
            if let Some(packet) = packet {
                let recorder = &mut self.recorder;
                recorder.lines.push(format!("packet {number} {}", hex(&packet)));
                let welcome = messages::Welcome { room: NUMBER, member: number, tick: 0, window: 32, waiting: false };
                recorder.room.packet(&recorder.room.uplink(&welcome).decode(&packet).unwrap());
                self.follow();
            }
        }
        self.recorder.now += Duration::from_millis(20);
        self.recorder.lines.push(format!("at {}", self.recorder.now.as_millis()));
        self.follow();
        self.carry();
    }
}

/// A call of this version with every kind of message, as lines.
fn recorded(mode: LiveMode, keys: Keys) -> Vec<String> {
    // with talk spurts: few packets, and complete
    let (sending, host) = (Sending::Spurts, Some([0; 16]));
    let settings = Settings { mode, keys, sending, lobby: true, speakers: 3, host };
    // until a roster is in effect
    let settling = if keys == Keys::Group { 160 } else { 80 };
    let link =
        RoomLink::new("http://earlier", "recorded".parse().unwrap(), settings, &mut ChaCha20Rng::from_seed([7; 32]));
    let members = link.for_members();
    let mut call = Call { recorder: Recorder::new(&proven(&link, true)), people: BTreeMap::new(), heard: Vec::new() };
    call.recorder.lines.push(format!("link {}", *members.to_text()));
    let wait = |call: &mut Call, frames: usize| (0..frames).for_each(|_| call.frame(&[]));
    let host = call.enter(&link, true);
    let (guest, ear) = (call.enter(&members, true), call.enter(&members, false));
    wait(&mut call, 3);
    [guest, ear].into_iter().for_each(|member| call.say(host, &ClientMessage::Admit { member }));
    wait(&mut call, settling);
    call.frame(&[(host, 1000), (guest, -300)]);
    wait(&mut call, 6);
    call.people.get_mut(&ear).unwrap().0.raise_hand(true);
    call.carry();
    call.say(host, &ClientMessage::Grant { member: ear, speak: true });
    wait(&mut call, settling);
    call.frame(&[(guest, -300), (ear, 7)]);
    call.say(host, &ClientMessage::Mute { member: guest, muted: true });
    call.frame(&[(guest, -300), (ear, 7)]);
    wait(&mut call, 6);
    call.say(host, &ClientMessage::Eject { member: ear });
    call.say(host, &ClientMessage::Mute { member: guest, muted: false });
    wait(&mut call, settling - 50);
    call.frame(&[(host, i16::MIN)]);
    // until members have exchanged a window of history
    while call.recorder.room.open_tick() < 510 {
        call.frame(&[]);
    }
    call.recorder.lines.push(format!("leave {guest}"));
    call.recorder.room.leave(guest, call.recorder.now);
    call.people.remove(&guest);
    call.follow();
    wait(&mut call, 4);
    let heard = std::mem::take(&mut call.heard);
    let mut lines = call.recorder.lines;
    lines.extend(heard.into_iter().map(|(tick, level)| format!("hears {tick} {level}")));
    lines
}

fn transcript(version: u32, (name, mode, keys): (&str, LiveMode, Keys)) -> Vec<String> {
    let path = format!("{}/../../../vectors/call/v{version}/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if version == messages::VERSION
        && std::env::var_os("TOBARI_WRITE_VECTORS").is_some()
        && !std::fs::exists(&path).unwrap()
    {
        let lines = recorded(mode, keys).join("\n");
        std::fs::create_dir_all(std::path::Path::new(&path).parent().unwrap()).unwrap();
        std::fs::write(
            &path,
            format!("# protocol {version} of live rooms, wire format 1: a call in mode {name}\n{lines}\n"),
        )
        .unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

/// Sends the members' recorded messages again, and compares the server's messages.
fn replay(call: (&str, LiveMode, Keys)) -> usize {
    let (mode, mut recorder, mut compared): (_, Option<Recorder>, usize) = (call.0, None, 0);
    for (number, line) in transcript(messages::VERSION, call).iter().enumerate() {
        let (what, rest) = line.split_once(' ').unwrap();
        let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
        if what == "join" {
            let Ok(ClientMessage::Join(join)) = ClientMessage::parse(rest) else { panic!("line {number}: {line}") };
            let join = join.checked(&challenge()).unwrap();
            recorder.get_or_insert_with(|| Recorder::new(&join)).join(&join);
            continue;
        }
        let Some(recorder) = &mut recorder else { continue };
        let member = || first.parse::<u16>().unwrap();
        let now = recorder.now;
        match what {
            "at" => recorder.now = Duration::from_millis(first.parse().unwrap()),
            "say" => recorder.room.message(member(), &ClientMessage::parse(second).unwrap(), now),
            "note" => recorder.room.note(member(), &bytes(second), now),
            "leave" => recorder.room.leave(member(), now),
            "packet" => {
                let welcome = messages::Welcome { room: NUMBER, member: member(), tick: 0, window: 32, waiting: false };
                let packet = recorder.room.uplink(&welcome).decode(&bytes(second)).unwrap();
                recorder.room.packet(&packet);
            }
            "hears" => continue,
            _ => {
                assert!(
                    !recorder.lines.is_empty(),
                    "{mode}, line {number}: the server says nothing, and said {line:.60}"
                );
                assert_eq!(recorder.lines.remove(0), *line, "{mode}, line {number}");
                compared += 1;
                continue;
            }
        }
        assert_eq!(recorder.lines, [] as [String; 0], "{mode}, line {number}: the server said less");
        recorder.follow(|_, _| {});
    }
    compared
}

#[test]
fn a_client_of_this_protocol_is_served_as_it_always_was() {
    for call in BY_LINK.into_iter().chain([AGREED]) {
        let mode = call.0;
        assert!(replay(call) > 500, "{mode}: too little was compared");
        let lines = transcript(messages::VERSION, call);
        for what in ["hand", "granted", "muted", "eject", "admitted", "\"left\""] {
            assert!(lines.iter().any(|line| line.contains(what)), "{mode}: nobody says {what}");
        }
    }
}

#[test]
fn fault_21_a_client_of_the_protocol_before_is_told_to_update() {
    for call in BY_LINK.into_iter().chain([AGREED]) {
        let lines = transcript(2, call);
        let joins = lines.iter().filter_map(|line| line.strip_prefix("join "));
        let told: Vec<String> = joins.map(|join| ClientMessage::parse(join).unwrap_err().to_string()).collect();
        assert_eq!(told.len(), 3);
        assert!(told.iter().all(|told| told.contains("version 2: expected 3") && told.contains("Update")), "{told:?}");
    }
}

#[test]
fn what_a_server_of_any_version_has_sent_opens_for_this_versions_client() {
    for (version, call) in [2, messages::VERSION].into_iter().flat_map(|version| BY_LINK.map(|call| (version, call))) {
        let (mode, lines) = (call.0, transcript(version, call));
        let link: RoomLink = lines.iter().find_map(|line| line.strip_prefix("link ")).unwrap().parse().unwrap();
        let (mut playback, mut heard) = (Playback::new(&link, NUMBER).unwrap(), Vec::new());
        for line in &lines {
            let mut words = line.split(' ');
            let (what, members, hex) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap_or(""));
            let for_the_guest = members.split(',').any(|member| member == "1");
            match what {
                "send" if for_the_guest && (hex.starts_with("010c") || hex.starts_with("0125")) => {
                    playback.roster(&bytes(hex)).unwrap();
                }
                "sum" if for_the_guest => heard.extend(playback.sum(&bytes(hex)).unwrap()),
                _ => {}
            }
        }
        let heard: Vec<String> = heard
            .iter()
            .map(|heard| {
                let own = if heard.speakers.contains(1) { -300 } else { 0 };
                format!("hears {} {}", heard.tick, heard.samples[0] - own)
            })
            .collect();
        let expected: Vec<&String> = lines.iter().filter(|line| line.starts_with("hears")).collect();
        assert!(heard.len() >= 4 && heard.iter().eq(expected), "{mode}: {heard:?}");
    }
}
