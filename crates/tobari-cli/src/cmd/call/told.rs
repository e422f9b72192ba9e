//! What a member of a live room tells its person, or the program that started it.

use crate::output::{self, Failure};
use serde_json::{Value, json};
use tobari_apps::call::live::{LiveMember, News};
use tobari_server::connect::ConnectError;

/// The member is in the lobby.
pub(super) fn waiting(as_json: bool) -> Result<(), Failure> {
    tell(as_json, || json!({ "news": "lobby" }), || "in the lobby: waiting for the host".to_owned())
}

/// The connection is lost.
pub(super) fn lost(why: &ConnectError, as_json: bool) -> Result<(), Failure> {
    let line = || json!({ "news": "lost", "reason": why.to_string() });
    tell(as_json, line, || format!("the connection is lost ({why}): trying again"))
}

/// Another one is there.
pub(super) fn again(as_json: bool) -> Result<(), Failure> {
    tell(as_json, || json!({ "news": "again" }), || "connected again".to_owned())
}

/// The room that was recorded is no more.
pub(super) fn recorded(as_json: bool) -> Result<(), Failure> {
    let sentence = || "the recording ends here: the server has opened the room anew".to_owned();
    tell(as_json, || json!({ "news": "recorded" }), sentence)
}

/// Something happened.
pub(super) fn news(member: &LiveMember, news: &News, as_json: bool) -> Result<(), Failure> {
    tell(as_json, || news.to_json(member), || sentence(member, news))
}

/// The call is over.
pub(super) fn end(sent: u32, late: u32, heard: u32, alarms: u32, as_json: bool) -> Result<(), Failure> {
    tell(
        as_json,
        || json!({ "news": "end", "packets_sent": sent, "packets_late": late, "ticks_heard": heard, "alarms": alarms }),
        || {
            let late = if late > 0 { format!(", {late} of them too late") } else { String::new() };
            format!("{sent} packets sent{late}, {heard} ticks heard")
        },
    )
}

fn tell(as_json: bool, line: impl FnOnce() -> Value, sentence: impl FnOnce() -> String) -> Result<(), Failure> {
    if as_json {
        return output::json(&line());
    }
    let sentence = sentence();
    if !sentence.is_empty() {
        output::say(sentence);
    }
    Ok(())
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
            format!("{} is missing from the sums: nobody hears who is not in them", named(*member))
        }
        News::Missing { member, missing: false } => format!("{} is no longer missing from the sums", named(*member)),
        News::Late { .. } => {
            "packets of yours come too late for the others: a slow line, or a server that says so".to_owned()
        }
        News::Closing { seconds } => format!("the server ends the call in {seconds} s"),
        News::Alarm(alarm) => format!("ALARM: {alarm}"),
        _ => String::new(),
    }
}
