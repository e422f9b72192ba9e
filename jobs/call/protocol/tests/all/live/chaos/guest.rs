//! Guests in a chaotic room: messages in transit to and from a member, and the check that each sum
//! equals the spoken samples.

use std::{
    collections::{BTreeMap, VecDeque},
    rc::Rc,
};

use tobari_call::live::messages::ServerMessage;

use super::figures::Counts;
use crate::live::*;

/// The spoken samples, by tick and member number.
pub(super) type SpokenSamples = BTreeMap<u32, BTreeMap<u16, i16>>;

/// A message in transit to a member.
#[derive(Clone)]
pub(super) enum Down {
    Sum { bytes: Rc<Vec<u8>>, forged: bool },
    Binary(Rc<Vec<u8>>),
    Message(Rc<ServerMessage>),
}

/// A member and its connection.
pub(super) struct Guest {
    pub(super) member: LiveMember,
    pub(super) number: u16,
    /// Did the guest join as a listener?
    pub(super) listens: bool,
    /// Does the guest speak, or has it asked to speak?
    pub(super) speaks: bool,
    /// The tick at which the guest goes.
    pub(super) until: u64,
    /// Does the guest hear every tick?
    pub(super) attentive: bool,
    /// Ticks that messages other than packets take, each way. None of them is lost or overtakes
    /// another.
    pub(super) delay: u64,
    pub(super) down: VecDeque<(u64, Down)>,
    pub(super) up: VecDeque<(u64, Outgoing)>,
    /// When the guest last heard a tick; at first, when it joined.
    pub(super) heard: u64,
    /// Has the guest heard anything? Then it has keys and can decrypt later sums.
    pub(super) has_heard: bool,
}

impl Guest {
    pub(super) fn send(&mut self, now: u64, what: Down) {
        self.down.push_back((now + self.delay, what));
    }

    /// The first alarm that an honest server would not cause.
    ///
    /// Alarms about omitted packets and unconfirmed members are right: a packet lost on its way up
    /// is not in the sum, and a member that misses sums cannot compare.
    pub(super) fn alarm(&mut self) -> Option<Alarm> {
        let news: Vec<News> = std::iter::from_fn(|| self.member.poll_news()).collect();
        news.into_iter().find_map(|news| match news {
            News::Alarm(Alarm::Omitted { .. } | Alarm::Unconfirmed { .. }) => None,
            News::Alarm(alarm) => Some(alarm),
            _ => None,
        })
    }

    /// The fault of a sum's outcome, if there is one.
    pub(super) fn judge(
        &mut self,
        forged: bool,
        heard: Option<&OpenedTick>,
        said: &SpokenSamples,
        now: u64,
        counts: &mut Counts,
    ) -> Option<String> {
        let alarm = self.alarm();
        match (forged, heard, alarm) {
            (true, Some(heard), _) => {
                counts.undetected += 1;
                return Some(format!("a changed sum of tick {} was heard", heard.tick));
            }
            (true, None, Some(Alarm::Sum(_))) => {
                // a sum that a dishonest server withholds does not make the room stuck
                self.heard = now;
                counts.forged += 1;
            }
            (false, Some(heard), None) => {
                counts.opened += 1;
                (self.heard, self.has_heard) = (now, true);
                if !is_true(said, self.number, heard) {
                    counts.wrong += 1;
                    return Some(format!("tick {} is not what was said", heard.tick));
                }
            }
            // the guest has no keys yet
            (_, None, None) if !self.has_heard => {}
            (_, _, alarm) => return Some(format!("a sum, changed: {forged}, and the alarm is {alarm:?}")),
        }
        None
    }
}

/// A speaker's samples in a tick: no two samples are alike.
pub(super) fn voice(level: i16) -> [i16; 320] {
    std::array::from_fn(|place| level + place as i16)
}

/// Is `heard` the sum of the samples that its other listed speakers sent in its tick?
fn is_true(said: &SpokenSamples, own: u16, heard: &OpenedTick) -> bool {
    let of = |member: u16| said.get(&heard.tick)?.get(&member).map(|level| i32::from(*level));
    let others: Option<Vec<i32>> = heard.speakers.iter().filter(|member| *member != own).map(of).collect();
    others.is_some_and(|others| {
        let (sum, count) = (others.iter().sum::<i32>(), others.len() as i32);
        heard.samples.iter().zip(0..).all(|(sample, place)| *sample == sum + count * place)
    })
}
