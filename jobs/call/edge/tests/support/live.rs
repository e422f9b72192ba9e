//! Members of live rooms that speak and listen over real sockets.

use std::{net::SocketAddr, time::Duration};

use tobari_call::live::{LiveMember, News, OpenedTick, RoomLink};
use tobari_call::messages::Code;
use tobari_call_edge::connect::{ConnectError, LiveInbound, LiveIncoming, LiveOutbound, connect_live};
use tobari_client::ClientTls;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{MissedTickBehavior, interval},
};

/// A member with its connection, which sends one constant level.
pub(crate) struct Caller {
    pub(crate) member: LiveMember,
    pub(crate) outbound: LiveOutbound,
    pub(crate) inbound: LiveInbound,
    pub(crate) rng: chacha20::ChaCha20Rng,
    pub(crate) heard: Vec<OpenedTick>,
    pub(crate) news: Vec<News>,
    pub(crate) level: i16,
}

impl Caller {
    pub(crate) async fn enter(link: &RoomLink, seed: u8, level: i16) -> Result<Self, ConnectError> {
        Self::enter_trusting(link, seed, level, &ClientTls::System).await
    }

    pub(crate) async fn enter_trusting(
        link: &RoomLink,
        seed: u8,
        level: i16,
        tls: &ClientTls,
    ) -> Result<Self, ConnectError> {
        let join = |nonce| LiveMember::join(link, true, nonce);
        let (welcome, outbound, inbound) = connect_live(&link.server, &link.room, join, tls).await?;
        let mut rng = super::rng(seed);
        let member = LiveMember::new(link, &format!("canary-name-{seed}"), true, &welcome, &mut rng).unwrap();
        Ok(Self { member, outbound, inbound, rng, heard: Vec::new(), news: Vec::new(), level })
    }

    /// Speaks and listens for this many frames.
    pub(crate) async fn call(&mut self, frames: usize) {
        self.call_every(Duration::from_millis(20), frames).await;
    }

    /// The same with a frame every `pace`, which skips ticks.
    pub(crate) async fn call_every(&mut self, pace: Duration, frames: usize) {
        let mut clock = interval(pace);
        clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut done = 0;
        while done < frames {
            tokio::select! {
                _ = clock.tick() => {
                    done += 1;
                    let talking = self.level != 0;
                    if let Some(packet) = self.member.frame(&[self.level; 320], talking, &mut self.rng) {
                        self.outbound.send_packet(packet).await.unwrap();
                    }
                }
                came = self.inbound.receive() => match came {
                    Ok(LiveIncoming::Binary(bytes)) => self.heard.extend(self.member.binary(&bytes)),
                    Ok(LiveIncoming::Message(message)) => self.member.message(&message, &mut self.rng),
                    Err(error) => return self.news.push(News::Over { code: None, reason: error.to_string() }),
                },
            }
            while let Some(out) = self.member.poll_outgoing() {
                self.outbound.say(out).await.unwrap();
            }
            self.news.extend(std::iter::from_fn(|| self.member.poll_news()));
        }
    }

    pub(crate) fn is_over(&self) -> Option<Option<Code>> {
        self.news.iter().find_map(|news| if let News::Over { code, .. } = news { Some(*code) } else { None })
    }

    pub(crate) fn alarms(&self) -> usize {
        self.news.iter().filter(|news| matches!(news, News::Alarm(_))).count()
    }
}

/// The whole answer to a request.
pub(crate) async fn asked(addr: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}
