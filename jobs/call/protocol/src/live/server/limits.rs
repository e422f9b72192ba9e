//! Limits of a live room, and the credit of a member for messages.

use std::time::Duration;

use tobari_curve::wire::MAX_MEMBERS;

use crate::server::Fault;

/// Limits of a live room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveLimits {
    /// How many ticks accept packets at once.
    pub window: u32,
    /// Members at once, including those in the lobby; at most [`MAX_MEMBERS`].
    pub members: usize,
    /// How many of them may wait in the lobby.
    pub lobby: usize,
    /// The largest `Settings::speakers`.
    pub speakers: u16,
    /// How many messages and notes a member may send at once.
    pub burst: u32,
    /// How many of them it may send each second in the long run.
    pub a_second: u32,
    /// Time from the welcome to the hello.
    pub hello: Duration,
}

impl Default for LiveLimits {
    fn default() -> Self {
        Self {
            window: 32,
            members: MAX_MEMBERS,
            lobby: 64,
            speakers: MAX_MEMBERS as u16,
            burst: 12,
            a_second: 3,
            hello: Duration::from_secs(10),
        }
    }
}

/// How many messages a member may still send.
pub(super) struct Credit {
    left: u32,
    at: Duration,
}

impl Credit {
    pub(super) fn new(limits: &LiveLimits, now: Duration) -> Self {
        Self { left: limits.burst, at: now }
    }

    pub(super) fn spend(&mut self, limits: &LiveLimits, now: Duration) -> Result<(), Fault> {
        let (burst, a_second) = (limits.burst, limits.a_second);
        let each = Duration::from_secs(1) / a_second.max(1);
        let earned = (now.saturating_sub(self.at).as_nanos() / each.as_nanos().max(1)).min(burst.into()) as u32;
        if self.left + earned >= burst {
            (self.left, self.at) = (burst, now);
        } else {
            self.left += earned;
            self.at += each * earned;
        }
        self.left = self.left.checked_sub(1).ok_or(Fault::Chatter { burst, a_second })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_may_say_so_much_at_once_and_so_much_in_a_second() {
        let limits = LiveLimits { burst: 4, a_second: 2, ..LiveLimits::default() };
        let mut credit = Credit::new(&limits, Duration::ZERO);
        let mut said = |millis: u64| credit.spend(&limits, Duration::from_millis(millis)).is_ok();
        assert!((0..4).all(|_| said(0)) && !said(0) && !said(499));
        assert!(said(500) && !said(999) && said(1000) && !said(1000));
        assert!((0..4).all(|_| said(60_000)) && !said(60_000), "silence is saved up to the burst only");
    }
}
