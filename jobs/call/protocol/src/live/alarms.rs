//! Alarms of one kind, merged: a server that misbehaves does so fifty times a second.

use std::{collections::BTreeMap, time::Duration};

use super::Alarm;

/// Time between two reports of one kind of alarm.
const PAUSE: Duration = Duration::from_secs(10);

/// Alarms of one kind, in one report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The last alarm.
    pub last: Alarm,
    /// How many alarms there were since the beginning.
    pub count: u64,
}

struct Kind {
    merged: Merged,
    told: Duration,
    /// Did more arrive since the last report?
    open: bool,
}

/// Merges alarms by their kind ([`Alarm::kind`]). The first alarm of a kind is reported at once,
/// later alarms together every ten seconds. There are few kinds, so memory stays small.
///
/// ```
/// use std::time::Duration;
/// use tobari_call::live::{Alarm, Alarms};
/// let mut alarms = Alarms::default();
/// let told = (0..500).filter_map(|tick| alarms.take(Alarm::Omitted { tick }, Duration::from_millis(20 * u64::from(tick)))).count();
/// assert_eq!(told, 1);
/// assert_eq!(alarms.rest().next().unwrap().count, 500);
/// ```
#[derive(Default)]
pub struct Alarms {
    kinds: BTreeMap<&'static str, Kind>,
}

impl Alarms {
    /// Takes an alarm. Returns a report if one is due now.
    pub fn take(&mut self, alarm: Alarm, now: Duration) -> Option<Merged> {
        let new = |alarm| Kind { merged: Merged { last: alarm, count: 0 }, told: now, open: false };
        let kind = self.kinds.entry(alarm.kind()).or_insert_with(|| new(alarm.clone()));
        kind.merged.last = alarm;
        kind.merged.count = kind.merged.count.saturating_add(1);
        let is_due = kind.merged.count == 1 || now.saturating_sub(kind.told) >= PAUSE;
        kind.open = !is_due;
        is_due.then(|| {
            kind.told = now;
            kind.merged.clone()
        })
    }

    /// Reports of alarms that were not reported yet.
    pub fn rest(&mut self) -> impl Iterator<Item = Merged> + '_ {
        self.kinds.values_mut().filter_map(|kind| std::mem::take(&mut kind.open).then(|| kind.merged.clone()))
    }

    /// How many alarms there were.
    pub fn count(&self) -> u64 {
        self.kinds.values().fold(0, |sum, kind| sum.saturating_add(kind.merged.count))
    }
}

#[cfg(test)]
mod tests {
    use crate::mask::OpenError;

    use super::super::{RosterError, SumError};
    use super::*;

    /// One alarm of each kind, of some tick.
    fn one_of_each(tick: u32) -> Vec<Alarm> {
        let member = (tick % 1000) as u16;
        let sums = [
            SumError::Malformed,
            SumError::Rewound { tick, next: tick + 1 },
            SumError::Epoch { tick, found: 1, expected: 2 },
            SumError::Forged { tick, error: OpenError::Order },
        ];
        let rosters = [
            RosterError::Malformed,
            RosterError::Rewound { expected: tick, found: 1 },
            RosterError::Base { expected: tick, found: 1 },
            RosterError::Stranger(member),
            RosterError::Twice(member),
            RosterError::NotListed,
            RosterError::Keys,
            RosterError::Members,
            RosterError::NumberTaken(member),
        ];
        let rest = [
            Alarm::LeftOut { members: vec![member] },
            Alarm::Omitted { tick },
            Alarm::Histories { member, window: tick },
            Alarm::Unconfirmed { members: vec![member] },
            Alarm::Unexpected,
        ];
        sums.map(Alarm::Sum).into_iter().chain(rosters.map(Alarm::Roster)).chain(rest).collect()
    }

    #[test]
    fn fault_24_ten_thousand_alarms_of_each_kind_are_told_every_ten_seconds_with_their_count() {
        let (mut alarms, kinds) = (Alarms::default(), one_of_each(0).len());
        let mut told: BTreeMap<&str, Vec<(Duration, u64)>> = BTreeMap::new();
        for tick in 0..10_000 {
            let now = Duration::from_millis(20 * u64::from(tick));
            for alarm in one_of_each(tick) {
                let merged = alarms.take(alarm.clone(), now);
                told.entry(alarm.kind()).or_default().extend(merged.map(|merged| (now, merged.count)));
            }
        }
        assert_eq!((told.len(), alarms.kinds.len()), (kinds, kinds), "every kind is one");
        for (kind, told) in told {
            let expected: Vec<_> = (0..20).map(|time| (Duration::from_secs(10 * time), 500 * time + 1)).collect();
            assert_eq!(told, expected, "{kind}");
        }
        let rest: Vec<Merged> = alarms.rest().collect();
        assert!(rest.len() == kinds && rest.iter().all(|merged| merged.count == 10_000));
        assert!(rest.iter().any(|merged| merged.last == Alarm::Omitted { tick: 9_999 }), "the last one is told");
        assert_eq!((alarms.rest().count(), alarms.count()), (0, 10_000 * kinds as u64));
    }

    #[test]
    fn fault_24_kinds_do_not_hide_one_another() {
        let mut alarms = Alarms::default();
        let now = Duration::from_secs(1);
        assert!((0..500).filter_map(|tick| alarms.take(Alarm::Omitted { tick }, now)).count() == 1);
        assert!(alarms.take(Alarm::Unexpected, now).is_some(), "another kind is told at once");
    }
}
