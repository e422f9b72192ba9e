//! News as JSON, for the program that started a member.

use serde_json::{Value, json};

use super::{member::LiveMember, news::News, roster::Listed};

impl News {
    /// The news as one JSON object whose field `news` has its name. `member` is the member that
    /// tells it; a roster is written with all its members.
    pub fn to_json(&self, member: &LiveMember) -> Value {
        match self {
            News::Admitted => json!({ "news": "admitted" }),
            News::Roster { epoch } => roster(member, *epoch),
            News::Granted { speak } => json!({ "news": "granted", "speak": speak }),
            News::Muted { muted } => json!({ "news": "muted", "muted": muted }),
            News::Waiting { member, name } => json!({ "news": "waiting", "member": member, "name": name }),
            News::Hand { member, raised } => json!({ "news": "hand", "member": member, "raised": raised }),
            News::Left { member } => json!({ "news": "left", "member": member }),
            News::Talking { member, talking } => json!({ "news": "talking", "member": member, "talking": talking }),
            News::Missing { member, missing } => json!({ "news": "missing", "member": member, "missing": missing }),
            News::Late { tick } => json!({ "news": "late", "tick": tick }),
            News::Far { round_trip_ms, most_ms } => {
                json!({ "news": "far", "round_trip_ms": round_trip_ms, "most_ms": most_ms })
            }
            News::Near => json!({ "news": "near" }),
            News::Closing { seconds } => json!({ "news": "closing", "seconds": seconds }),
            News::Over { code, reason } => {
                json!({ "news": "over", "code": code.map(|code| code.to_string()), "reason": reason })
            }
            News::Alarm(alarm) => alarm.to_json(),
        }
    }
}

fn roster(member: &LiveMember, epoch: u32) -> Value {
    let with_words = |mut line: Value, words: Option<String>| {
        if let Some(words) = words {
            line["words"] = words.into();
        }
        line
    };
    let listed = |(number, listed): (&u16, &Listed)| {
        let (name, speaks, you) = (&listed.name, listed.speaks, *number == member.number());
        let line = json!({ "member": number, "name": name, "speaks": speaks, "you": you });
        with_words(line, member.words_of(*number))
    };
    let members: Vec<Value> = member.roster().into_iter().flatten().map(listed).collect();
    with_words(json!({ "news": "roster", "epoch": epoch, "members": members }), member.words())
}
