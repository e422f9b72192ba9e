//! What happened in a call, as JSON for the page.

use serde_json::{Value, json};
use tobari_apps::call::live::{Alarm, LiveMember, News};

/// The news as one object with a name in `news`. A roster is said with all its members.
pub(crate) fn to_value(member: &LiveMember, news: &News) -> Value {
    match news {
        News::Admitted => json!({ "news": "admitted" }),
        News::Roster { epoch } => roster(member, *epoch),
        News::Granted { speak } => json!({ "news": "granted", "speak": speak }),
        News::Muted { muted } => json!({ "news": "muted", "muted": muted }),
        News::Waiting { member, name } => json!({ "news": "waiting", "member": member, "name": name }),
        News::Hand { member, raised } => json!({ "news": "hand", "member": member, "raised": raised }),
        News::Left { member } => json!({ "news": "left", "member": member }),
        News::Talking { member, talking } => json!({ "news": "talking", "member": member, "talking": talking }),
        News::Late { tick } => json!({ "news": "late", "tick": tick }),
        News::Closing { seconds } => json!({ "news": "closing", "seconds": seconds }),
        News::Over { code, reason } => {
            json!({ "news": "over", "code": code.map(|code| code.to_string()), "reason": reason })
        }
        News::Alarm(alarm) => json!({ "news": "alarm", "alarm": alarm.to_string() }),
        _ => json!({ "news": "other" }),
    }
}

fn roster(member: &LiveMember, epoch: u32) -> Value {
    let own = member.number();
    let members: Vec<Value> = member
        .roster()
        .into_iter()
        .flatten()
        .map(|(number, listed)| {
            json!({ "member": number, "name": listed.name, "speaks": listed.speaks, "you": *number == own })
        })
        .collect();
    json!({ "news": "roster", "epoch": epoch, "members": members })
}

/// Something came that is not of this protocol.
pub(crate) fn unexpected() -> Value {
    json!({ "news": "alarm", "alarm": Alarm::Unexpected.to_string() })
}
