//! A room in which nobody stays: members come and go, lose packets and sums, and vanish and come back, for as long as is wanted.
//!
//! **What is checked.** Each member says one level, which is known of its number, so that each sum that opens must be the levels of those in its
//! list. Any other sum, any alarm, a member that is put out or cannot come in, a room that is still there when all have left, and memory of the
//! server that grows, is a failure.
//!
//! **What is lost.** Over a WebSocket nothing is, so loss is made here: of a hundred packets five are not sent, and of a hundred sums two are
//! not looked at.

use super::figures::Reading;
use crate::args::CallBench;
use crate::blind_server::BlindProcess;
use crate::output::{self, Failure};
use crate::randomness;
use chacha20::ChaCha20Rng;
use chacha20::rand_core::Rng;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tobari_apps::call::live::{Alarm, Heard, LiveMember, LiveMode, News, RoomLink};
use tobari_apps::call::{PACKET_SAMPLES, TICK_MS};
use tobari_server::connect::{ClientTls, LiveIncoming, connect_live};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// Of a thousand packets and sums, how many are lost.
const LOST_PACKETS: u32 = 50;
const LOST_SUMS: u32 = 20;
/// Seconds that a member stays, and those until it comes back: at least, and so many more.
const STAYS: (u64, u64) = (4, 16);
const RESTS: (u64, u64) = (0, 3);
/// How often memory is looked at.
const LOOK: Duration = Duration::from_secs(5);
/// Memory that is not counted as growth: what comes and goes with members, and what an allocator keeps.
const SLACK_BYTES: f64 = 6.0 * 1024.0 * 1024.0;

/// What happened so far.
#[derive(Default)]
struct Counts {
    joins: AtomicU64,
    leaves: AtomicU64,
    vanished: AtomicU64,
    sent: AtomicU64,
    lost: AtomicU64,
    sums: AtomicU64,
    wrong: AtomicU64,
    alarms: AtomicU64,
    put_out: AtomicU64,
}

/// Runs one room of one mode, and says what came of it.
pub(super) async fn run(arguments: &CallBench, mode: LiveMode, minutes: u32) -> Result<(), Failure> {
    let server = super::server()?;
    let load = &arguments.load;
    let speakers = load.speakers.unwrap_or(load.members - 2).min(load.members - 1);
    let link = Arc::new(super::link(&server, mode, speakers)?);
    let (counts, mut running) = (Arc::new(Counts::default()), JoinSet::new());
    let until = Instant::now() + Duration::from_secs(60 * u64::from(minutes));
    for number in 0..load.members {
        let place = Place {
            link: Arc::clone(&link),
            speaks: number < speakers,
            counts: Arc::clone(&counts),
            rng: randomness::generator()?,
        };
        running.spawn(place.come_and_go(until));
    }
    let memory = watch(&server, until, &counts).await;
    while let Some(ended) = running.join_next().await {
        ended.map_err(|error| Failure::Work(error.to_string()))??;
    }
    sleep(Duration::from_secs(1)).await;
    let reading = Reading::take(&server).await?;
    let stuck = reading.counter("rooms") + reading.counter("members");
    report(mode, minutes, load.members, &counts, &memory, stuck)
}

/// Looks at the server's memory until then: minutes, and bytes.
async fn watch(server: &BlindProcess, until: Instant, counts: &Counts) -> Vec<(f64, f64)> {
    let (begun, mut memory) = (Instant::now(), Vec::new());
    while Instant::now() < until {
        sleep(LOOK.min(until - Instant::now())).await;
        if let Some(bytes) = server.resident_bytes() {
            memory.push((begun.elapsed().as_secs_f64() / 60.0, bytes as f64));
        }
        let (sums, wrong) = (counts.sums.load(Relaxed), counts.wrong.load(Relaxed) + counts.alarms.load(Relaxed));
        output::status(&format!("{} s: {sums} sums, {wrong} wrong", begun.elapsed().as_secs()));
    }
    output::status("");
    memory
}

/// By how much a line through the later three quarters of the points rises a minute, from its first to its last, and on average.
struct Trend {
    a_minute: f64,
    growth: f64,
    mean: f64,
}

impl Trend {
    /// None of too few points to say.
    fn of(points: &[(f64, f64)]) -> Option<Self> {
        let points = &points[points.len() / 4..];
        let (first, last) = (points.first()?, points.last()?);
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(|point| point.0), mean(|point| point.1));
        let above: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
        let below: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
        let a_minute = (below > 0.0).then_some(above / below)?;
        Some(Self { a_minute, growth: a_minute * (last.0 - first.0), mean: y })
    }

    fn is_flat(&self) -> bool {
        self.growth <= SLACK_BYTES.max(0.05 * self.mean)
    }
}

fn report(
    mode: LiveMode,
    minutes: u32,
    members: u16,
    counts: &Counts,
    memory: &[(f64, f64)],
    stuck: f64,
) -> Result<(), Failure> {
    let count = |of: &AtomicU64| of.load(Relaxed);
    let trend = Trend::of(memory);
    let mebibytes = |bytes: f64| (bytes / 1024.0 / 1024.0 * 100.0).round() / 100.0;
    output::json(&json!({
        "job": "call", "what": "live_chaos", "mode": mode.to_string(), "minutes": minutes, "members": members,
        "joins": count(&counts.joins), "leaves": count(&counts.leaves), "vanished": count(&counts.vanished),
        "packets": count(&counts.sent), "packets_lost": count(&counts.lost), "sums": count(&counts.sums),
        "wrong": count(&counts.wrong), "alarms": count(&counts.alarms), "put_out": count(&counts.put_out),
        "rooms_left": stuck,
        "server_mib": trend.as_ref().map(|trend| mebibytes(trend.mean)),
        "server_mib_a_minute": trend.as_ref().map(|trend| mebibytes(trend.a_minute)),
        "server_is_flat": trend.as_ref().map(Trend::is_flat),
    }))?;
    let bad = count(&counts.wrong) + count(&counts.alarms) + count(&counts.put_out);
    if bad > 0 || count(&counts.sums) == 0 {
        return Err(Failure::Work(format!("expected every sum right and nobody put out, found {bad} faults")));
    }
    if stuck != 0.0 {
        return Err(Failure::Work("expected no room after everybody left, found one".to_owned()));
    }
    match trend {
        Some(trend) if !trend.is_flat() => {
            let grown = mebibytes(trend.growth);
            Err(Failure::Work(format!("expected the server's memory to stay flat, found that it grew by {grown} MiB")))
        }
        _ => Ok(()),
    }
}

/// One who comes, stays for a while, goes or vanishes, and comes again.
struct Place {
    link: Arc<RoomLink>,
    speaks: bool,
    counts: Arc<Counts>,
    rng: ChaCha20Rng,
}

impl Place {
    async fn come_and_go(mut self, until: Instant) -> Result<(), Failure> {
        while Instant::now() < until {
            let stays = self.some_seconds(STAYS);
            self.stay(until.min(Instant::now() + stays)).await?;
            let rests = self.some_seconds(RESTS);
            sleep(rests.min(until.saturating_duration_since(Instant::now()))).await;
        }
        Ok(())
    }

    fn some_seconds(&mut self, (least, more): (u64, u64)) -> Duration {
        Duration::from_millis(least * 1000 + u64::from(self.rng.next_u32()) % (more * 1000))
    }

    /// Is this one of so many in a thousand?
    fn is_one_of(&mut self, in_a_thousand: u32) -> bool {
        self.rng.next_u32() % 1000 < in_a_thousand
    }

    /// One visit.
    async fn stay(&mut self, until: Instant) -> Result<(), Failure> {
        let join = LiveMember::join(&self.link, self.speaks);
        let connected = connect_live(&self.link.server, &self.link.room, &join, &ClientTls::System).await;
        // a place comes free when the roster without who had it holds
        let Ok((welcome, mut outbound, mut inbound)) = connected else { return Ok(()) };
        let Some(mut member) = LiveMember::new(&self.link, "guest", self.speaks, &welcome, &mut self.rng) else {
            return Err(Failure::Work("a link whose settings are impossible".to_owned()));
        };
        self.counts.joins.fetch_add(1, Relaxed);
        let samples = [level(welcome.member); PACKET_SAMPLES];
        let mut clock = interval(Duration::from_millis(TICK_MS));
        clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
        while Instant::now() < until {
            tokio::select! {
                _ = clock.tick() => if let Some(packet) = member.frame(&samples, true, &mut self.rng) {
                    if self.is_one_of(LOST_PACKETS) {
                        self.counts.lost.fetch_add(1, Relaxed);
                    } else if outbound.send_packet(packet).await.is_ok() {
                        self.counts.sent.fetch_add(1, Relaxed);
                    }
                },
                came = inbound.receive() => match came {
                    Ok(LiveIncoming::Message(message)) => member.message(&message, &mut self.rng),
                    Ok(LiveIncoming::Binary(bytes)) => {
                        let is_sum = !matches!(bytes.get(1), Some(0x0c | 0x0d));
                        if !is_sum || !self.is_one_of(LOST_SUMS) {
                            let heard = member.binary(&bytes);
                            self.check(welcome.member, heard.as_ref());
                        }
                    }
                    Err(error) => {
                        self.counts.put_out.fetch_add(1, Relaxed);
                        output::say(format!("a member lost its connection: {error}"));
                        return Ok(());
                    }
                },
            }
            while let Some(out) = member.poll_outgoing() {
                let _ = outbound.say(out).await;
            }
            self.look(&mut member);
        }
        if self.is_one_of(500) {
            let _ = outbound.close().await;
            self.counts.leaves.fetch_add(1, Relaxed);
        } else {
            // the connection is dropped without a word
            self.counts.vanished.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// Is it the sum of what the others in its list say?
    fn check(&self, own: u16, heard: Option<&Heard>) {
        let Some(heard) = heard else { return };
        let others = heard.speakers.iter().filter(|member| *member != own);
        let expected: i32 = others.map(|member| i32::from(level(member))).sum();
        self.counts.sums.fetch_add(1, Relaxed);
        if heard.samples.iter().any(|sample| *sample != expected) {
            self.counts.wrong.fetch_add(1, Relaxed);
        }
    }

    fn look(&self, member: &mut LiveMember) {
        while let Some(news) = member.poll_news() {
            let counter = match &news {
                // what was lost on its way up is not in the sum, and who misses sums cannot compare: of that the alarms are right
                News::Alarm(Alarm::Omitted { .. } | Alarm::Unconfirmed { .. }) => continue,
                News::Alarm(_) => &self.counts.alarms,
                News::Over { .. } => &self.counts.put_out,
                _ => continue,
            };
            counter.fetch_add(1, Relaxed);
            output::say(format!("{news:?}"));
        }
    }
}

/// What the member of that number says, in every sample.
fn level(member: u16) -> i16 {
    (member.wrapping_mul(7919) % 2003) as i16 - 1001
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(at: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (0..240).map(|look| f64::from(look) / 4.0).map(|minutes| (minutes, at(minutes))).collect()
    }

    const MIB: f64 = 1024.0 * 1024.0;

    #[test]
    fn memory_that_grows_slowly_for_an_hour_is_not_flat_and_noise_and_a_beginning_are() {
        let noise = |minutes: f64| (minutes * 37.0).sin() * MIB;
        let flat = Trend::of(&points(|minutes| 30.0 * MIB + noise(minutes))).unwrap();
        assert!(flat.is_flat() && flat.a_minute.abs() < 0.1 * MIB, "{}", flat.a_minute);
        let begins = |minutes: f64| if minutes < 10.0 { 2.0 * minutes * MIB } else { 20.0 * MIB };
        assert!(Trend::of(&points(|minutes| begins(minutes) + noise(minutes))).unwrap().is_flat());
        let leak = Trend::of(&points(|minutes| (30.0 + 0.2 * minutes) * MIB + noise(minutes))).unwrap();
        assert!(!leak.is_flat() && (leak.a_minute / MIB - 0.2).abs() < 0.02, "{}", leak.a_minute);
        assert!(Trend::of(&[]).is_none() && Trend::of(&[(1.0, 1.0)]).is_none());
    }

    #[test]
    fn members_of_a_room_say_different_levels_that_no_microphone_clips() {
        let levels: std::collections::HashSet<i16> = (0..128).map(level).collect();
        assert_eq!(levels.len(), 128);
        assert!(levels.iter().all(|level| level.unsigned_abs() <= 1001));
    }
}
