//! A room of a thousand people, seen by one page. The room and all other members run in this
//! process, and only the page uses a connection. So the measured share of a core is the page's own,
//! without a thousand other clients beside it.

use std::{
    net::SocketAddr,
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tobari_call::live::attack::proven;
use tobari_call::live::messages::{ClientMessage, Nonce, ServerMessage, Welcome};
use tobari_call::live::{Challenge, LiveEvent, LiveLimits, LiveMember, LiveRoom, Outgoing, RoomLink, host_of};
use tobari_call::{PACKET_SAMPLES, TICK_MS};
use tobari_curve::wire::RoomId;
use tokio::{net::TcpListener, sync::mpsc::UnboundedSender, time::sleep};
use tokio_tungstenite::{accept_async, tungstenite::Message};

use super::{PHONE, alarms, busy, enter, link, picture, relay, run_in_real_time, sees, support::Server};

/// All members except the page.
const OTHERS: u64 = 1023;
const TICK: Duration = Duration::from_millis(TICK_MS);

/// A member other than the page.
struct Other {
    member: LiveMember,
    welcome: Welcome,
    rng: ChaCha20Rng,
}

struct Crowd {
    room: LiveRoom,
    page: Welcome,
    others: Vec<Other>,
    /// The room's time. The time stands still while a thousand members process a list of a
    /// thousand.
    now: Duration,
    to_page: UnboundedSender<Message>,
}

impl Crowd {
    /// The page joins first, and then a thousand others, so that one list names them all. None if
    /// the page disconnects.
    fn gather(link: &RoomLink, from_page: &Receiver<Message>, to_page: UnboundedSender<Message>) -> Option<Self> {
        let host = link.server.split("://").nth(1).and_then(host_of).unwrap();
        let challenge = Challenge { nonce: Nonce([1; 16]), room: link.room.clone(), hosts: vec![host] };
        let question = ServerMessage::Challenge { nonce: challenge.nonce };
        to_page.send(Message::text(question.to_text())).ok()?;
        let text = from_page.recv().ok()?.into_text().unwrap();
        let Ok(ClientMessage::Join(join)) = ClientMessage::parse(&text) else { panic!("a page joins first: {text}") };
        let join = join.checked(&challenge).unwrap();
        let now = Duration::ZERO;
        let mut room = LiveRoom::open(RoomId([9; 8]), &join, LiveLimits::default(), now).unwrap();
        let page = room.join(&join, now).unwrap();
        to_page.send(Message::text(ServerMessage::Welcome(page).to_text())).unwrap();
        let come = |room: &mut LiveRoom, number: u64| {
            let (welcome, mut rng) = (room.join(&proven(link, true), now).unwrap(), ChaCha20Rng::seed_from_u64(number));
            let member = LiveMember::new(link, &format!("person {number}"), true, &welcome, &mut rng).unwrap();
            Other { member, welcome, rng }
        };
        let others = (0..OTHERS).map(|number| come(&mut room, number)).collect();
        let mut crowd = Self { room, page, others, now, to_page };
        // the page says hello
        crowd.take(from_page.recv().ok()?);
        for other in &mut crowd.others {
            while let Some(Outgoing::Binary(hello)) = other.member.poll_outgoing() {
                crowd.room.note(other.welcome.member, &hello, now);
            }
        }
        Some(crowd)
    }

    /// Handles a message of the page.
    fn take(&mut self, message: Message) {
        let number = self.page.member;
        match message {
            Message::Text(text) => {
                let message = ClientMessage::parse(&text).unwrap();
                self.room.message(number, &message, self.now);
            }
            Message::Binary(bytes) => match self.room.uplink(&self.page).decode(&bytes) {
                Ok(packet) => self.room.packet(&packet),
                Err(_) => self.room.note(number, &bytes, self.now),
            },
            _ => {}
        }
    }

    /// Handles the room's events. The other members skip the sums and learn only that a tick is
    /// over.
    fn follow(&mut self) {
        let page = self.page.member;
        while let Some(event) = self.room.poll(self.now) {
            let (to_page, to_others) = match event {
                LiveEvent::Closed { tick, sum, .. } => {
                    let silent = ServerMessage::Silent { tick };
                    let told = sum.map_or_else(|| Message::text(silent.to_text()), Message::binary);
                    self.others.iter_mut().for_each(|other| other.member.pass_over(tick));
                    (Some(told), None)
                }
                LiveEvent::Send { members, bytes } => {
                    (members.contains(&page).then(|| Message::binary(bytes.clone())), Some((members, bytes)))
                }
                LiveEvent::Tell { member, message } => {
                    ((member == page).then(|| Message::text(message.to_text())), None)
                }
                LiveEvent::Removed { member, fault } => panic!("{member} is put out: {fault}"),
            };
            if let Some((members, bytes)) = to_others {
                let half = self.others.len() / 2;
                let (one, two) = self.others.split_at_mut(half);
                let learn = |others: &mut [Other]| {
                    let others = others.iter_mut().filter(|other| members.binary_search(&other.welcome.member).is_ok());
                    others.for_each(|other| drop(other.member.binary(&bytes)));
                };
                thread::scope(|scope| {
                    scope.spawn(|| learn(one));
                    learn(two);
                });
            }
            // a page that is gone is noticed when it sends nothing any more
            to_page.and_then(|message| self.to_page.send(message).err());
        }
    }

    /// 20 ms of all other members.
    fn frame(&mut self, count: i16) {
        for other in &mut self.others {
            // a few members talk, and all send
            let level = if other.welcome.member % 128 == 5 { 100 * (count % 40 - 20) } else { 0 };
            if let Some(packet) = other.member.frame(&[level; PACKET_SAMPLES], level != 0, &mut other.rng) {
                self.room.packet(&self.room.uplink(&other.welcome).decode(&packet).unwrap());
            }
        }
    }

    /// Runs the room until the page is gone.
    fn go_on(mut self, from_page: &Receiver<Message>) {
        let mut due = Instant::now();
        for count in (0..1000).cycle() {
            self.now += TICK;
            self.follow();
            self.frame(count);
            due += TICK;
            loop {
                match from_page.recv_timeout(due.saturating_duration_since(Instant::now())) {
                    Ok(message) => self.take(message),
                    Err(mpsc::RecvTimeoutError::Timeout) => break,
                    Err(mpsc::RecvTimeoutError::Disconnected) => return,
                }
            }
            // a delay is not made up for: the room's time goes on from here
            due = due.max(Instant::now());
        }
    }
}

/// Starts such a room behind an address that otherwise leads to the server.
async fn start(server: SocketAddr, link: RoomLink) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let link = link.clone();
            tokio::spawn(async move {
                let Some((client, _)) = relay::web_socket(client, server).await else { return };
                let Ok(socket) = accept_async(client).await else { return };
                let (mut to_page, mut from_page) = socket.split();
                let (said, heard) = mpsc::channel();
                let (told, mut tells) = tokio::sync::mpsc::unbounded_channel();
                thread::spawn(move || {
                    if let Some(crowd) = Crowd::gather(&link, &heard, told) {
                        crowd.go_on(&heard);
                    }
                });
                let up = async {
                    while let Some(Ok(message)) = from_page.next().await {
                        if said.send(message).is_err() {
                            return;
                        }
                    }
                };
                let down = async {
                    while let Some(message) = tells.recv().await {
                        if to_page.send(message).await.is_err() {
                            return;
                        }
                    }
                };
                tokio::select! {
                    () = up => {}
                    () = down => {}
                }
            });
        }
    });
    address
}

/// All 1,024 members speak in mode `mask`: the page decrypts each sum with the masks of a thousand
/// members. The test prints the share of a core that this takes; the aim is a tenth.
#[test]
#[ignore = "needs a browser: cargo xtask test --only browser"]
fn a_page_opens_the_sums_of_a_thousand_people_with_a_part_of_a_core() {
    run_in_real_time("a_page_opens_the_sums_of_a_thousand_people_with_a_part_of_a_core", || async {
        let server = Server::start(&[]);
        let (text, _) = link(&server, &["--speakers", "1024"]);
        let address = start(server.address().parse().unwrap(), text.parse().unwrap()).await;
        let mut ada = enter("alice.wav", &text.replace(&server.address(), &address.to_string()), "Ada").await;
        sees(&mut ada, 1024).await;
        sleep(Duration::from_secs(4)).await; // until the buffers have their length
        let [least, ..] = busy(&mut ada, &json!({ "mode": "mask", "speakers": 1024 })).await;
        let sums = ada.value("parseInt(document.getElementById('fig-sums').textContent)").await;
        let count = ada.value("document.getElementById('count').textContent").await;
        picture(&mut ada, "call-thousand-phone", PHONE, false).await;
        ada.until("/Speaking: .*person \\d+/.test(document.getElementById('now').textContent)").await;
        assert!(sums.as_u64().is_some_and(|sums| sums > 40), "{sums} sums a second are opened");
        assert_eq!(count, Value::from("1024 in the call, 1024 with a microphone"));
        // twice the aim, because other processes may use the core
        assert!(least > 0.5 && least < 20.0, "{least}");
        assert_eq!((alarms(&mut ada).await, &ada.complaints), (vec![], &vec![]));
    });
}
