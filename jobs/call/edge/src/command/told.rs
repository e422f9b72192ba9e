//! Events of a live room, printed for people or for the calling program.

use crate::connect::ConnectError;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Instant;
use tobari_call::live::{Alarms, LiveMember, Merged, News};
use tobari_command::output::{self, Failure};

/// Prints events as sentences or as lines of JSON.
pub(super) struct EventPrinter {
    as_json: bool,
    began: Instant,
    alarms: Alarms,
    standing: Standing,
}

impl EventPrinter {
    pub(super) fn new(as_json: bool) -> Self {
        Self { as_json, began: Instant::now(), alarms: Alarms::default(), standing: Standing::default() }
    }

    /// The member is in the lobby.
    pub(super) fn waiting(&self) -> Result<(), Failure> {
        self.tell(|| json!({ "news": "lobby" }), || "in the lobby: waiting for the host".to_owned())
    }

    /// The connection is lost, and every standing state ends.
    pub(super) fn lost(&mut self, why: &ConnectError) -> Result<(), Failure> {
        let stood = self.clear()?;
        let unknown = if stood { "; who was muted, missing or raised a hand is not known any more" } else { "" };
        let line = || json!({ "news": "lost", "reason": why.to_string() });
        self.tell(line, || format!("the connection is lost ({why}): trying again{unknown}"))
    }

    /// There is a new connection.
    pub(super) fn again(&self) -> Result<(), Failure> {
        self.tell(|| json!({ "news": "again" }), || "connected again".to_owned())
    }

    /// The recorded room has ended.
    pub(super) fn recorded(&self) -> Result<(), Failure> {
        let sentence = || "the recording ends here: the server has opened the room anew".to_owned();
        self.tell(|| json!({ "news": "recorded" }), sentence)
    }

    /// Prints an event.
    pub(super) fn news(&mut self, member: &LiveMember, news: &News) -> Result<(), Failure> {
        if let News::Alarm(alarm) = news {
            let merged = self.alarms.take(alarm.clone(), self.began.elapsed());
            return merged.map_or(Ok(()), |merged| self.alarm(&merged));
        }
        if matches!(news, News::Over { .. }) {
            self.clear()?;
        }
        self.standing.take(news);
        self.tell(|| news.to_json(member), || sentence(member, news))
    }

    fn alarm(&self, merged: &Merged) -> Result<(), Failure> {
        self.tell(|| alarm_line(merged), || alarm_sentence(merged))
    }

    /// Number of alarms.
    pub(super) fn alarms(&self) -> u64 {
        self.alarms.count()
    }

    /// Ends every standing state, so that a program that reads the lines learns of the end. Returns
    /// whether there was any.
    fn clear(&mut self) -> Result<bool, Failure> {
        let lines = std::mem::take(&mut self.standing).ends();
        if self.as_json {
            lines.iter().try_for_each(output::json)?;
        }
        Ok(!lines.is_empty())
    }

    /// The call is over.
    pub(super) fn end(&mut self, sent: u32, late: u32, heard: u32) -> Result<(), Failure> {
        self.clear()?;
        let rest: Vec<Merged> = self.alarms.rest().collect();
        rest.iter().try_for_each(|merged| self.alarm(merged))?;
        let alarms = self.alarms();
        self.tell(
            || json!({ "news": "end", "packets_sent": sent, "packets_late": late, "ticks_heard": heard, "alarms": alarms }),
            || {
                let late = if late > 0 { format!(", {late} of them too late") } else { String::new() };
                format!("{sent} packets sent{late}, {heard} ticks heard")
            },
        )
    }

    fn tell(&self, line: impl FnOnce() -> Value, sentence: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.as_json {
            return output::json(&line());
        }
        let sentence = sentence();
        if !sentence.is_empty() {
            output::say(sentence);
        }
        Ok(())
    }
}

fn alarm_line(merged: &Merged) -> Value {
    let mut line = merged.last.to_json();
    line["count"] = merged.count.into();
    line
}

fn alarm_sentence(Merged { last, count }: &Merged) -> String {
    if *count == 1 { format!("ALARM: {last}") } else { format!("ALARM: {last} ({count} alarms of this kind so far)") }
}

/// States that hold until another event, or until the connection ends.
#[derive(Default)]
struct Standing {
    talking: BTreeSet<u16>,
    missing: BTreeSet<u16>,
    hands: BTreeSet<u16>,
    waiting: BTreeSet<u16>,
    muted: bool,
    far: bool,
}

impl Standing {
    fn take(&mut self, news: &News) {
        let mut set = |which: fn(&mut Self) -> &mut BTreeSet<u16>, member: u16, holds: bool| {
            let set = which(self);
            if holds { set.insert(member) } else { set.remove(&member) }
        };
        match *news {
            News::Talking { member, talking } => drop(set(|it| &mut it.talking, member, talking)),
            News::Missing { member, missing } => drop(set(|it| &mut it.missing, member, missing)),
            News::Hand { member, raised } => drop(set(|it| &mut it.hands, member, raised)),
            News::Waiting { member, .. } => drop(set(|it| &mut it.waiting, member, true)),
            News::Left { member } => {
                set(|it| &mut it.waiting, member, false);
                set(|it| &mut it.hands, member, false);
            }
            News::Muted { muted } => self.muted = muted,
            News::Far { .. } => self.far = true,
            News::Near => self.far = false,
            _ => {}
        }
    }

    /// The lines that end all standing states.
    fn ends(self) -> Vec<Value> {
        let talking =
            self.talking.iter().map(|member| json!({ "news": "talking", "member": member, "talking": false }));
        let missing =
            self.missing.iter().map(|member| json!({ "news": "missing", "member": member, "missing": false }));
        let hands = self.hands.iter().map(|member| json!({ "news": "hand", "member": member, "raised": false }));
        let waiting = self.waiting.iter().map(|member| json!({ "news": "left", "member": member }));
        let muted = self.muted.then(|| json!({ "news": "muted", "muted": false }));
        let far = self.far.then(|| json!({ "news": "near" }));
        talking.chain(missing).chain(hands).chain(waiting).chain(muted).chain(far).collect()
    }
}

fn sentence(member: &LiveMember, news: &News) -> String {
    let named = |number: u16| match member.roster().and_then(|members| members.get(&number)) {
        Some(listed) if !listed.name.is_empty() => format!("{} ({number})", listed.name),
        _ => format!("member {number}"),
    };
    match news {
        News::Admitted => "the host has let you in".to_owned(),
        News::Roster { .. } => {
            let count = member.roster().map_or(0, std::collections::BTreeMap::len);
            match (member.words(), member.words_of(member.number())) {
                (Some(all), Some(own)) => format!("{count} in the call; words of all: {all}; your own: {own}"),
                _ => format!("{count} in the call"),
            }
        }
        News::Granted { speak: true } => "you may speak".to_owned(),
        News::Granted { speak: false } => "you are listening only".to_owned(),
        News::Muted { muted: true } => "the host has muted you".to_owned(),
        News::Muted { muted: false } => "you are no longer muted".to_owned(),
        News::Waiting { member, name } => format!("{name} (member {member}) waits in the lobby"),
        News::Hand { member, raised: true } => format!("{} wants to speak", named(*member)),
        News::Hand { member, raised: false } => format!("{} has put the hand down", named(*member)),
        News::Left { member } => format!("{} is gone", named(*member)),
        News::Missing { member: own, missing } if *own == member.number() => {
            let which =
                if *missing { "missing from the sums: nobody hears you" } else { "no longer missing from the sums" };
            format!("you are {which}")
        }
        News::Missing { member, missing: true } => {
            format!("{} is missing from the sums: nobody hears this member", named(*member))
        }
        News::Missing { member, missing: false } => format!("{} is no longer missing from the sums", named(*member)),
        News::Late { .. } => {
            "packets of yours come too late for the others: a slow line, or a server that says so".to_owned()
        }
        News::Far { round_trip_ms, most_ms } => format!(
            "nobody hears you: a packet and its answer take about {round_trip_ms} ms on your line, and this server waits {most_ms} ms at most. \
            You hear the others. Use a server that is nearer to you, or another line (a cable, no VPN). You are heard as soon as it takes less"
        ),
        News::Near => "the line is fast enough again: you can be heard".to_owned(),
        News::Closing { seconds } => format!("the server ends the call in {seconds} s"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use tobari_call::live::Alarm;

    use super::*;

    #[test]
    fn fault_24_whatever_holds_is_ended_with_the_connection() {
        let mut standing = Standing::default();
        let began = [
            News::Talking { member: 3, talking: true },
            News::Talking { member: 4, talking: true },
            News::Talking { member: 4, talking: false },
            News::Missing { member: 5, missing: true },
            News::Hand { member: 6, raised: true },
            News::Waiting { member: 7, name: "Bo".to_owned() },
            News::Waiting { member: 8, name: "Cy".to_owned() },
            News::Left { member: 8 },
            News::Muted { muted: true },
            News::Far { round_trip_ms: 700, most_ms: 620 },
        ];
        began.iter().for_each(|news| standing.take(news));
        let expected = [
            json!({ "news": "talking", "member": 3, "talking": false }),
            json!({ "news": "missing", "member": 5, "missing": false }),
            json!({ "news": "hand", "member": 6, "raised": false }),
            json!({ "news": "left", "member": 7 }),
            json!({ "news": "muted", "muted": false }),
            json!({ "news": "near" }),
        ];
        assert_eq!(standing.ends(), expected);
        assert!(Standing::default().ends().is_empty());
    }

    #[test]
    fn fault_24_an_alarm_is_told_with_its_count_and_the_last_tick() {
        let mut alarms = Alarms::default();
        let mut take = |tick: u32| alarms.take(Alarm::Omitted { tick }, Duration::from_millis(20 * u64::from(tick)));
        assert_eq!(alarm_sentence(&take(0).unwrap()), "ALARM: the server left your packet of tick 0 out");
        assert!((1..500).all(|tick| take(tick).is_none()));
        let merged = take(500).unwrap();
        let expected = "ALARM: the server left your packet of tick 500 out (501 alarms of this kind so far)";
        assert_eq!(alarm_sentence(&merged), expected);
        let line = alarm_line(&merged);
        assert_eq!((&line["kind"], &line["count"]), (&json!("omitted"), &json!(501)));
    }
}
