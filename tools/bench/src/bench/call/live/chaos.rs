//! A room with constant change: members join and leave, lose packets and sums, and vanish and
//! return, for a given time.
//!
//! **Checked.** A member's samples follow from its number and the tick. So each decrypted sum must
//! equal the sum over the members in its list in that tick; any other sum is wrong, also one of an
//! earlier tick. These are failures: a wrong sum, an alarm, a removed member, more than a few
//! refused members, a minute in which members hear less than half of the possible sums, a room that
//! remains after all members have left, and growing memory of the server.
//!
//! **Restarts.** With `--restart-every` the server is killed without notice. A new server takes its
//! place, and members join again by themselves. For a few seconds a lost or refused connection is
//! no failure; the minute's sums count as always.
//!
//! **Losses.** A WebSocket loses nothing, so the loss is simulated here: 5 % of packets are not
//! sent, and 2 % of sums are ignored.

use super::figures::Reading;
use crate::bench::call::CallBench;
use crate::program::Tobari;
use chacha20::ChaCha20Rng;
use chacha20::rand_core::Rng;
use serde_json::json;
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tobari_call::live::{Alarm, Keys, LiveMember, LiveMode, News, OpenedTick, RoomLink};
use tobari_call::{PACKET_SAMPLES, TICK_MS};
use tobari_call_edge::connect::{LiveIncoming, connect_live};
use tobari_client::ClientTls;
use tobari_command::blind_server::BlindProcess;
use tobari_command::output::{self, Failure};
use tobari_command::randomness;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// The number of lost packets and sums in a thousand.
const LOST_PACKETS: u32 = 50;
const LOST_SUMS: u32 = 20;
/// Seconds that a member stays, and seconds until it returns: the least, and the most in addition.
const STAYS: (u64, u64) = (4, 16);
const RESTS: (u64, u64) = (0, 3);
/// The time after a kill in which joins may fail and connections may be lost.
const RECOVERY: Duration = Duration::from_secs(5);
/// The most refused visits in a hundred: a place becomes free only when the roster without its old
/// member takes effect.
const MOST_REFUSED: u64 = 10;
/// The least part of all ticks of all members that must be heard in each minute, in percent.
/// Members that join and leave at these rates hear four of five.
const LEAST_HEARD: u64 = 50;
/// Time between two readings of memory.
const LOOK: Duration = Duration::from_secs(5);
/// Memory that does not count as growth: the changing number of members, and memory that an
/// allocator keeps.
const SLACK_BYTES: f64 = 6.0 * 1024.0 * 1024.0;

/// Counts of events so far.
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
    /// Refused visits while the server was running.
    refused: AtomicU64,
    /// The number of kills, and the visits that a kill ended or prevented.
    restarts: AtomicU64,
    lost_server: AtomicU64,
    /// The time of the last kill.
    killed: Mutex<Option<Instant>>,
    /// Decrypted sums of all members, by minute.
    minutes: Mutex<Vec<u64>>,
}

impl Counts {
    /// Whether the server is down, or has just started again.
    fn is_recovering(&self) -> bool {
        let killed = *self.killed.lock().unwrap_or_else(PoisonError::into_inner);
        killed.is_some_and(|at| at.elapsed() < RECOVERY)
    }

    /// Counts a lost or refused connection in the right counter.
    fn failed(&self, otherwise: &AtomicU64, why: &dyn Display) {
        if self.is_recovering() {
            self.lost_server.fetch_add(1, Relaxed);
        } else {
            otherwise.fetch_add(1, Relaxed);
            output::say(format!("a member lost its connection, or got none: {why}"));
        }
    }

    /// Counts a decrypted sum, at a time since the beginning.
    fn heard(&self, since: Duration) {
        self.sums.fetch_add(1, Relaxed);
        let minute = (since.as_secs() / 60) as usize;
        let mut minutes = self.minutes.lock().unwrap_or_else(PoisonError::into_inner);
        if minutes.len() <= minute {
            minutes.resize(minute + 1, 0);
        }
        minutes[minute] += 1;
    }

    /// The minute with the fewest decrypted sums: its number from 1, and the part in percent.
    fn worst_minute(&self, minutes: u32, members: u16) -> (u32, u64) {
        let heard = self.minutes.lock().unwrap_or_else(PoisonError::into_inner);
        let all = u64::from(members) * 60_000 / TICK_MS;
        let part = |minute: u32| 100 * heard.get(minute as usize).copied().unwrap_or(0) / all;
        let worst = (0..minutes).map(|minute| (minute + 1, part(minute))).min_by_key(|(_, part)| *part);
        worst.unwrap_or_default()
    }
}

/// Runs one room of one mode, and prints the result.
pub(super) async fn run(arguments: &CallBench, tobari: &Tobari, mode: LiveMode, minutes: u32) -> Result<(), Failure> {
    let server = super::server(tobari)?;
    let load = &arguments.load;
    let speakers = load.speakers.unwrap_or(load.members - 2).min(load.members - 1);
    let link = Arc::new(super::link(&server, mode, Keys::Link, speakers)?);
    let (counts, mut running) = (Arc::new(Counts::default()), JoinSet::new());
    let begun = Instant::now();
    let until = begun + Duration::from_secs(60 * u64::from(minutes));
    for number in 0..load.members {
        let place = Place {
            link: Arc::clone(&link),
            speaks: number < speakers,
            counts: Arc::clone(&counts),
            begun,
            rng: randomness::generator()?,
        };
        running.spawn(place.come_and_go(until));
    }
    let every = load.restart_every.map(|seconds| Duration::from_secs(seconds.into()));
    let (server, memory) = watch(tobari, server, until, every, &counts).await?;
    while let Some(ended) = running.join_next().await {
        ended.map_err(|error| Failure::Work(error.to_string()))??;
    }
    sleep(Duration::from_secs(1)).await;
    let reading = Reading::take(&server).await?;
    let stuck = reading.counter("rooms") + reading.counter("members");
    report(mode, minutes, load.members, &counts, &memory, stuck)
}

/// Reads the server's memory until `until`, and kills the server from time to time. Returns the
/// last server, and pairs of minutes since the server's start and bytes, in the order of the
/// minutes.
async fn watch(
    tobari: &Tobari,
    mut server: BlindProcess,
    until: Instant,
    every: Option<Duration>,
    counts: &Counts,
) -> Result<(BlindProcess, Vec<(f64, f64)>), Failure> {
    let (first, mut begun, mut memory) = (Instant::now(), Instant::now(), Vec::new());
    while Instant::now() < until {
        sleep(LOOK.min(until.saturating_duration_since(Instant::now()))).await;
        // not so late that members could not join again
        if every.is_some_and(|every| begun.elapsed() >= every) && Instant::now() + 4 * RECOVERY < until {
            *counts.killed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            counts.restarts.fetch_add(1, Relaxed);
            let url = server.url().to_owned();
            drop(server);
            server = super::server_at(tobari, &url)?;
            // the time of the start is not the members' fault
            *counts.killed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            begun = Instant::now();
        }
        if let Some(bytes) = server.resident_bytes() {
            memory.push((begun.elapsed().as_secs_f64() / 60.0, bytes as f64));
        }
        let (sums, wrong) = (counts.sums.load(Relaxed), counts.wrong.load(Relaxed) + counts.alarms.load(Relaxed));
        output::status(&format!("{} s: {sums} sums, {wrong} wrong", first.elapsed().as_secs()));
    }
    output::status("");
    memory.sort_by(|a: &(f64, f64), b| a.0.total_cmp(&b.0));
    Ok((server, memory))
}

/// The trend of memory, by a line through the later three quarters of the points: its rise in a
/// minute, its rise from the first to the last point, and the average. After restarts the points of
/// all servers are sorted by the server's age; a leak shows in each server.
struct Trend {
    a_minute: f64,
    growth: f64,
    mean: f64,
}

impl Trend {
    /// None for too few points.
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
    let worst = counts.worst_minute(minutes, members);
    let fault = fault(counts, stuck, worst, trend.as_ref());
    output::json(&json!({
        "job": "call", "what": "live_chaos", "mode": mode.to_string(), "minutes": minutes, "members": members,
        "joins": count(&counts.joins), "leaves": count(&counts.leaves), "vanished": count(&counts.vanished),
        "packets": count(&counts.sent), "packets_lost": count(&counts.lost), "sums": count(&counts.sums),
        "wrong": count(&counts.wrong), "alarms": count(&counts.alarms), "put_out": count(&counts.put_out),
        "refused": count(&counts.refused), "restarts": count(&counts.restarts),
        "lost_by_restarts": count(&counts.lost_server), "least_heard_percent": worst.1,
        "rooms_left": stuck,
        "server_mib": trend.as_ref().map(|trend| mebibytes(trend.mean)),
        "server_mib_a_minute": trend.as_ref().map(|trend| mebibytes(trend.a_minute)),
        "server_is_flat": trend.as_ref().map(Trend::is_flat),
        // without a comma or a brace, for programs that read the line field by field
        "ended": fault.as_deref().unwrap_or("well"),
    }))?;
    fault.map_or(Ok(()), |fault| Err(Failure::Work(fault)))
}

/// The failure, if there is one.
fn fault(counts: &Counts, stuck: f64, worst: (u32, u64), trend: Option<&Trend>) -> Option<String> {
    let count = |of: &AtomicU64| of.load(Relaxed);
    let bad = count(&counts.wrong) + count(&counts.alarms) + count(&counts.put_out);
    if bad > 0 {
        return Some(format!("expected every sum to be right and no member removed; found {bad} faults"));
    }
    let (refused, visits) = (count(&counts.refused), count(&counts.refused) + count(&counts.joins));
    if 100 * refused > MOST_REFUSED * visits {
        return Some(format!("expected at most {MOST_REFUSED} of 100 visits refused; found {refused} of {visits}"));
    }
    let (minute, part) = worst;
    if part < LEAST_HEARD {
        let expected = format!("expected {LEAST_HEARD} of 100 ticks heard in every minute");
        return Some(format!("{expected}; found {part} in minute {minute}"));
    }
    if stuck != 0.0 {
        return Some("expected no room after everybody left; found one".to_owned());
    }
    let grown = trend.filter(|trend| !trend.is_flat())?.growth / 1024.0 / 1024.0;
    Some(format!("expected the server's memory to stay flat; found that it grew by {grown:.2} MiB"))
}

/// A member that joins, stays for a while, leaves or vanishes, and joins again.
struct Place {
    link: Arc<RoomLink>,
    speaks: bool,
    counts: Arc<Counts>,
    begun: Instant,
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

    /// A random decision with probability `in_a_thousand` / 1000.
    fn is_one_of(&mut self, in_a_thousand: u32) -> bool {
        self.rng.next_u32() % 1000 < in_a_thousand
    }

    /// One visit.
    async fn stay(&mut self, until: Instant) -> Result<(), Failure> {
        let join = |nonce| LiveMember::join(&self.link, self.speaks, nonce);
        let connected = connect_live(&self.link.server, &self.link.room, join, &ClientTls::System).await;
        let (welcome, mut outbound, mut inbound) = match connected {
            Ok(connected) => connected,
            Err(error) => {
                self.counts.failed(&self.counts.refused, &error);
                // wait, instead of trying again and again while the room is full
                sleep(Duration::from_millis(500).min(until.saturating_duration_since(Instant::now()))).await;
                return Ok(());
            }
        };
        let Some(mut member) = LiveMember::new(&self.link, "guest", self.speaks, &welcome, &mut self.rng) else {
            return Err(Failure::Work("a link whose settings are impossible".to_owned()));
        };
        self.counts.joins.fetch_add(1, Relaxed);
        let own = welcome.member;
        let mut clock = interval(Duration::from_millis(TICK_MS));
        clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
        while Instant::now() < until {
            tokio::select! {
                _ = clock.tick() => {
                    let said = |tick| [level(own, tick); PACKET_SAMPLES];
                    if let Some(packet) = member.frame_of(said, true, &mut self.rng) {
                        if self.is_one_of(LOST_PACKETS) {
                            self.counts.lost.fetch_add(1, Relaxed);
                        } else if outbound.send_packet(packet).await.is_ok() {
                            self.counts.sent.fetch_add(1, Relaxed);
                        }
                    }
                }
                came = inbound.receive() => match came {
                    Ok(LiveIncoming::Message(message)) => member.message(&message, &mut self.rng),
                    Ok(LiveIncoming::Binary(bytes)) => {
                        let is_sum = !matches!(bytes.get(1), Some(0x0d | 0x24 | 0x25));
                        if !is_sum || !self.is_one_of(LOST_SUMS) {
                            let heard = member.binary(&bytes);
                            self.check(own, heard.as_ref());
                        }
                    }
                    Err(error) => {
                        self.counts.failed(&self.counts.put_out, &error);
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
            // the connection is dropped without notice
            self.counts.vanished.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// Checks that a sum equals the sum over the other members in its list.
    fn check(&self, own: u16, heard: Option<&OpenedTick>) {
        let Some(heard) = heard else { return };
        let others = heard.speakers.iter().filter(|member| *member != own);
        let expected: i32 = others.map(|member| i32::from(level(member, heard.tick))).sum();
        self.counts.heard(self.begun.elapsed());
        if heard.samples.iter().any(|sample| *sample != expected) {
            self.counts.wrong.fetch_add(1, Relaxed);
        }
    }

    fn look(&self, member: &mut LiveMember) {
        while let Some(news) = member.poll_news() {
            let counter = match &news {
                // lost packets are not in the sum, and a member that misses sums cannot compare:
                // these alarms are right
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

/// The value of every sample of a member in a tick.
fn level(member: u16, tick: u32) -> i16 {
    // the last steps of MurmurHash3: every bit depends on all of number and tick
    let mut mixed = u32::from(member) << 20 ^ tick;
    mixed = (mixed ^ mixed >> 16).wrapping_mul(0x85eb_ca6b);
    mixed = (mixed ^ mixed >> 13).wrapping_mul(0xc2b2_ae35);
    ((mixed ^ mixed >> 16) % 2003) as i16 - 1001
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
    fn what_is_said_depends_on_member_and_tick_so_that_an_earlier_sum_of_the_same_list_is_another() {
        let levels = |tick: u32| (0..64).map(|member| level(member, tick)).collect::<Vec<i16>>();
        assert!(levels(9).iter().collect::<std::collections::HashSet<_>>().len() > 55);
        let sum = |tick: u32| levels(tick).into_iter().map(i32::from).sum::<i32>();
        let same = (0..10_000).filter(|tick| (1..50).any(|age| sum(*tick) == sum(tick + age))).count();
        assert!(same < 500, "{same} of 10,000 ticks are like one of the next fifty");
        assert!((0..1000).all(|tick| levels(tick).iter().all(|level| level.unsigned_abs() <= 1001)));
    }

    #[test]
    fn a_room_that_is_stuck_for_a_minute_shows_in_that_minute_however_long_the_others_are_not() {
        let counts = Counts::default();
        // two members, each in five of six seconds, except in the third minute
        for second in (0..600).filter(|second| second % 6 > 0 && second / 60 != 2) {
            (0..100).for_each(|_| counts.heard(Duration::from_secs(second)));
        }
        assert_eq!(counts.worst_minute(2, 2), (1, 83));
        assert_eq!(counts.worst_minute(10, 2), (3, 0));
        assert_eq!(Counts::default().worst_minute(1, 64), (1, 0));
    }

    /// Counts of a run without failures.
    fn counts() -> Counts {
        let counts = Counts::default();
        counts.joins.store(100, Relaxed);
        counts
    }

    #[test]
    fn a_run_ends_well_only_if_nothing_is_wrong_refused_stuck_or_growing() {
        let well = (1, 90);
        assert_eq!(fault(&counts(), 0.0, well, None), None);
        type Of = fn(&Counts) -> &AtomicU64;
        let spoilt: [(Of, u64); 4] =
            [(|it| &it.wrong, 1), (|it| &it.alarms, 1), (|it| &it.put_out, 1), (|it| &it.refused, 12)];
        for (of, number) in spoilt {
            let counts = counts();
            of(&counts).store(number, Relaxed);
            let fault = fault(&counts, 0.0, well, None).unwrap();
            assert!(fault.starts_with("expected") && !fault.contains([',', '}', '"']), "{fault}");
        }
        let grows = Trend { a_minute: 0.0, growth: 100.0 * MIB, mean: 20.0 * MIB };
        assert!(fault(&counts(), 0.0, (3, 20), None).is_some_and(|fault| fault.contains("minute 3")));
        assert!(fault(&counts(), 1.0, well, None).is_some() && fault(&counts(), 0.0, well, Some(&grows)).is_some());
    }
}
