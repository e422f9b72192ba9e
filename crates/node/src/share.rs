//! How much of something scarce one client may hold.
//!
//! A server has so many places, bytes and turns. A fixed limit for each client leaves nothing to
//! others when a few clients are at theirs. Here the limit follows what is free: with a share of
//! `p` percent a client may take more while `held * (100 - p) < free * p`. One client alone gets
//! `p` percent at most. `n` clients that take all they can leave `1 / (n + 1)` of the whole at 50
//! percent, so that another client still finds room. The rule is that of dynamic thresholds for
//! shared buffers (Choudhury and Hahne, IEEE/ACM Transactions on Networking 6, 1998).

/// The rule, for one percentage.
#[derive(Clone, Copy)]
pub struct Share {
    percent: u64,
}

impl Share {
    /// Of so many percent; 100 or more is no limit.
    pub fn new(percent: u8) -> Self {
        Self { percent: u64::from(percent).clamp(1, 100) }
    }

    /// Whether a client that holds this much may take more of what is free. The first of anything
    /// is everybody's.
    pub fn admits(self, held: u64, free: u64) -> bool {
        let (held, free, percent) = (u128::from(held), u128::from(free), u128::from(self.percent));
        held == 0 || percent == 100 || held * (100 - percent) < free * percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients that each take all they may.
    fn greedy(percent: u8, total: u64, clients: usize) -> (Vec<u64>, u64) {
        let (share, mut held, mut free) = (Share::new(percent), vec![0; clients], total);
        loop {
            let before = free;
            for one in &mut held {
                if free > 0 && share.admits(*one, free) {
                    *one += 1;
                    free -= 1;
                }
            }
            if free == before {
                return (held, free);
            }
        }
    }

    #[test]
    fn the_greediest_clients_leave_room_for_another() {
        assert_eq!(greedy(50, 1_000, 1), (vec![500], 500));
        assert_eq!(greedy(25, 1_000, 1), (vec![250], 750));
        assert_eq!(greedy(100, 1_000, 1), (vec![1_000], 0));
        let (held, free) = greedy(50, 1_000, 9);
        assert!(held.iter().all(|one| *one == 100) && free == 100, "{held:?} {free}");
        // one address more always finds a place, up to as many addresses as there are places
        for clients in [1, 2, 10, 100, 900] {
            assert!(greedy(50, 1_000, clients).1 > 0, "{clients}");
        }
        assert_eq!(greedy(50, 1, 1), (vec![1], 0), "one place is anybody's");
    }
}
