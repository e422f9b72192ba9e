//! The share of a scarce resource that one client may hold.
//!
//! A server has a limited number of places, bytes and turns. With a fixed limit for each client, a
//! few clients at their limits would leave nothing to others. Here the limit depends on the free
//! part: with a share of `p` percent a client may take more while `held * (100 - p) < free * p`.
//! One client alone gets `p` percent at most. At 50 percent, `n` clients that take all they can
//! leave `1 / (n + 1)` of the whole free, so that another client still finds room. The rule is that
//! of dynamic thresholds for shared buffers (Choudhury and Hahne, IEEE/ACM Transactions on
//! Networking 6, 1998).

/// The rule, for one percentage.
#[derive(Clone, Copy)]
pub struct Share {
    percent: u64,
}

impl Share {
    /// A rule of `percent` percent; 100 or more means no limit.
    pub fn new(percent: u8) -> Self {
        Self { percent: u64::from(percent).clamp(1, 100) }
    }

    /// Whether a client that holds `held` may take more while `free` is left. Every client may take
    /// a first one.
    pub fn admits(self, held: u64, free: u64) -> bool {
        let (held, free, percent) = (u128::from(held), u128::from(free), u128::from(self.percent));
        held == 0 || percent == 100 || held * (100 - percent) < free * percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients that each take all they can.
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
        // a further address always finds a place, for up to as many addresses as places
        for clients in [1, 2, 10, 100, 900] {
            assert!(greedy(50, 1_000, clients).1 > 0, "{clients}");
        }
        assert_eq!(greedy(50, 1, 1), (vec![1], 0), "one place is anybody's");
    }
}
