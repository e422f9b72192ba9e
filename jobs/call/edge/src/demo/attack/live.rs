//! Attacks on live rooms: the table of [`tobari_call::live::attack`], and measurements that need a
//! real server.

use crate::connect::{LiveIncoming, connect_live};
use std::time::{Duration, Instant};
use tobari_call::PACKET_SAMPLES;
use tobari_call::live::attack::{Outcome, Performance, play_agreed, play_all};
use tobari_call::live::messages::ServerMessage;
use tobari_call::live::{Keys, LiveMember, LiveMode, RoomLink, Settings};
use tobari_client::ClientTls;
use tobari_command::blind_server::BlindProcess;
use tobari_command::demo::Attack;
use tobari_command::output::Failure;
use tobari_command::randomness;
use tokio::time::timeout;

/// How long a play against a real server may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Packets sent at once: more than a member has to send in a minute.
const FLOOD: usize = 4000;

/// Plays all of them.
pub(super) fn attacks() -> Result<Vec<Attack>, Failure> {
    let mut attacks = Vec::new();
    for mode in LiveMode::ALL {
        let mut seed = [0; 32];
        chacha20::rand_core::Rng::fill_bytes(&mut randomness::generator()?, &mut seed);
        for performance in play_all(mode, seed) {
            attacks.push(line(performance)?);
        }
        if mode == LiveMode::Mask {
            for performance in play_agreed(seed) {
                attacks.push(line(performance)?);
            }
        }
    }
    let server = BlindProcess::start(false)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let flooded = runtime.block_on(async { timeout(PATIENCE, flood(server.url())).await });
    attacks.push(flooded.map_err(|_| Failure::Work("a flooded server says nothing".to_owned()))??);
    Ok(attacks)
}

fn line(performance: Performance) -> Result<Attack, Failure> {
    let limit = performance.limit();
    let Performance { attack, mode, keys, outcome } = performance;
    let room = if keys == Keys::Group { "live room with keys of its members" } else { "live room" };
    let (caught, caught_by, within, how) = match outcome {
        Ok(Outcome::Caught { by, within, how }) => (true, Some(by), Some(within), how),
        Ok(Outcome::Succeeded { how }) => {
            let why = limit.map_or(String::new(), |why| format!("; {why}"));
            (false, None, None, format!("{how}{why}"))
        }
        Err(error) => return Err(Failure::Work(format!("{}, in mode {mode}: {error}", attack.name))),
    };
    Ok(Attack {
        attack: format!("{room}: {}", attack.name),
        by: attack.by,
        caught,
        known_limit: limit.is_some(),
        how,
        mode: Some(mode.name()),
        caught_by,
        within_ms: within.map(|within| within.as_millis() as u64),
    })
}

/// A member that sends as fast as it can.
async fn flood(server: &str) -> Result<Attack, Failure> {
    let mut rng = randomness::generator()?;
    let link = RoomLink::new(server, "flooded".parse()?, Settings::default(), &mut rng);
    let join = |nonce| LiveMember::join(&link, true, nonce);
    let (welcome, mut outbound, mut inbound) = connect_live(&link.server, &link.room, join, &ClientTls::System).await?;
    let mut member = LiveMember::new(&link, "flood", true, &welcome, &mut rng)
        .ok_or_else(|| Failure::Work("a link whose settings are impossible".to_owned()))?;
    let packet = loop {
        while let Some(out) = member.poll_outgoing() {
            outbound.say(out).await?;
        }
        match inbound.receive().await? {
            LiveIncoming::Binary(bytes) => drop(member.binary(&bytes)),
            LiveIncoming::Message(message) => member.message(&message, &mut rng),
        }
        if let Some(packet) = member.frame(&[1; PACKET_SAMPLES], true, &mut rng) {
            break packet;
        }
    };
    let begun = Instant::now();
    for _ in 0..FLOOD {
        // if the server has closed the connection, its reason is read below
        if outbound.send_packet(packet.clone()).await.is_err() {
            break;
        }
    }
    loop {
        match inbound.receive().await? {
            LiveIncoming::Message(ServerMessage::Removed { code, reason }) => {
                return Ok(Attack {
                    attack: "live room: flood the server with packets".to_owned(),
                    by: "a member",
                    caught: true,
                    known_limit: false,
                    how: format!("{code}: {reason}"),
                    mode: Some(link.settings.mode.name()),
                    caught_by: Some("the server"),
                    within_ms: Some(begun.elapsed().as_millis() as u64),
                });
            }
            LiveIncoming::Message(_) | LiveIncoming::Binary(_) => {}
        }
    }
}
