//! A room's packets, added by several cores.
//!
//! Each thread adds a share of the packets that wait for one tick, and the partial sums are added
//! at the end: `n` packets on `t` threads take the time of `n/t + t` additions. Threads start and
//! end with a batch, so an extra thread pays off only in the modes of points, and only for several
//! packets. The thread of a room that is not busy adds alone.

use std::{panic::resume_unwind, thread};

use tobari_call::live::{Mixer, OneByOne};
use tobari_call::wire::LivePayload;

/// Packets of points that are worth a thread: at least 50 microseconds of additions, several times
/// the start of a thread.
const SHARE: usize = 12;

/// Adds on as many threads as there are cores.
pub(super) struct Shards {
    own: OneByOne,
    others: Vec<OneByOne>,
}

impl Shards {
    /// Shards for at most this many threads, including the caller's.
    pub(super) fn new(threads: usize) -> Self {
        Self { own: OneByOne::default(), others: (1..threads).map(|_| OneByOne::default()).collect() }
    }

    /// The number of threads for this many packets.
    fn threads(&self, sum: &LivePayload, packets: usize) -> usize {
        // adding a masked packet takes less time than a hand-over to another thread
        let most = if matches!(sum, LivePayload::Mask(_)) { 1 } else { packets / SHARE };
        most.clamp(1, self.others.len() + 1)
    }
}

impl Mixer for Shards {
    fn mix(&mut self, sum: &mut LivePayload, parts: &[&LivePayload]) {
        let share = parts.len().div_ceil(self.threads(sum, parts.len())).max(1);
        let (own, rest) = parts.split_at(share.min(parts.len()));
        let partial = thread::scope(|scope| {
            let shares = rest.chunks(share).zip(&mut self.others);
            let running: Vec<_> = shares.map(|(share, mixer)| scope.spawn(move || sum_of(share, mixer))).collect();
            self.own.mix(sum, own);
            let ended: Vec<_> = running.into_iter().map(thread::ScopedJoinHandle::join).collect();
            ended.into_iter().filter_map(|sum| sum.unwrap_or_else(|panic| resume_unwind(panic))).collect::<Vec<_>>()
        });
        self.own.mix(sum, &partial.iter().collect::<Vec<_>>());
    }
}

fn sum_of(parts: &[&LivePayload], mixer: &mut OneByOne) -> Option<LivePayload> {
    let (first, rest) = parts.split_first()?;
    let mut sum = (*first).clone();
    mixer.mix(&mut sum, rest);
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
    use tobari_call::{
        mask::{Form, Masked, Width},
        wire::LiveLayout,
    };
    use tobari_curve::{
        Curve, PointEncoding,
        elgamal::{Encryptor, SecretKey, SharedEncryptor, SharedKey},
        params::{Parameters, SecurityFloor},
    };

    const SAMPLES: usize = 5;

    /// Packets of each mode, and how they are written.
    fn packets(count: usize) -> Vec<(LiveLayout, Vec<LivePayload>)> {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let parameters = Parameters::new(Curve::Secp256k1, SecurityFloor::Standard).unwrap();
        let (encoding, width) = (PointEncoding::Compressed, Width::for_senders(64).unwrap());
        let shared = SharedEncryptor::new(&SharedKey::generate(parameters, SAMPLES, &mut rng));
        let each = Encryptor::new(&SecretKey::generate(parameters, &mut rng).public_key());
        let said = |number: usize| [number as i32, -7, 0, 1000, 5];
        let masked = |number: usize| {
            let bytes = [number as u8, 1, 2, 0].repeat(SAMPLES);
            LivePayload::Mask(Masked::decode(Form::Aligned, width, SAMPLES, &bytes).unwrap())
        };
        let mut encrypted = |number| {
            let shared = shared.encrypt(&said(number), &mut rng).unwrap();
            (LivePayload::ElgamalShared(shared), LivePayload::Elgamal(each.encrypt(&said(number), &mut rng).unwrap()))
        };
        let (shared, each) = (0..count).map(&mut encrypted).unzip();
        vec![
            (LiveLayout::Mask { width, form: Form::Packed }, (0..count).map(masked).collect()),
            (LiveLayout::ElgamalShared { parameters, encoding }, shared),
            (LiveLayout::Elgamal { parameters, encoding }, each),
        ]
    }

    #[test]
    fn any_number_of_threads_and_packets_gives_the_same_sum() {
        const MOST: usize = 60;
        let all = packets(MOST);
        for (layout, packets) in &all {
            for count in [0, 1, SHARE - 1, 2 * SHARE, 2 * SHARE + 1, 3 * SHARE + 7, MOST] {
                let parts: Vec<&LivePayload> = packets[..count].iter().collect();
                let mut expected = LivePayload::zero(*layout, SAMPLES);
                OneByOne::default().mix(&mut expected, &parts);
                for threads in [1, 2, 3, 8] {
                    let mut sum = LivePayload::zero(*layout, SAMPLES);
                    Shards::new(threads).mix(&mut sum, &parts);
                    assert!(sum == expected, "{layout:?}: {count} packets on {threads} threads");
                }
            }
        }
    }

    #[test]
    fn threads_are_begun_for_points_only_and_for_many_of_them() {
        let all = packets(1);
        let shards = Shards::new(4);
        let threads = |mode: usize, count| shards.threads(&all[mode].1[0], count);
        assert_eq!([threads(0, 4096), threads(1, SHARE), threads(1, 2 * SHARE), threads(2, 4096)], [1, 1, 2, 4]);
    }
}
