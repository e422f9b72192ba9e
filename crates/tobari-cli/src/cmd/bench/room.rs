//! Sums of a whole room on several threads, as in the paper's second experiment.

use super::figures::summary;
use super::measure::time;
use crate::output::Failure;
use crate::randomness;
use std::hint::black_box;
use tobari_apps::call::PACKET_SAMPLES;
use tobari_core::curve::{Adder, Curve};
use tobari_core::elgamal::{Ciphertexts, Encryptor, SecretKey};
use tobari_core::params::{Parameters, SecurityFloor};
use tobari_server::sum::sum_parallel;

/// Distinct packets, which are repeated. A prime, so that no two threads add up the same ones: their equal sums would be
/// doubled, which is slower than adding.
const DISTINCT: usize = 61;
/// Speakers: powers of two up to this.
const MOST: usize = 4096;

/// Nanoseconds a sample of a sum, from its beginning to its end.
pub(super) struct Sum {
    pub(super) inputs: usize,
    pub(super) threads: usize,
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) runs: usize,
}

/// Sums on secp256k1 in mode `elgamal`, of 2, 4 … 4,096 packets, on 1, 2, 4 … threads up to `cores`; in rounds.
pub(super) fn measure(cores: usize, runs: usize) -> Result<Vec<Sum>, Failure> {
    let packets = packets(Curve::Secp256k1)?;
    let room: Vec<&Ciphertexts> = packets.iter().cycle().take(MOST).collect();
    let mut sizes: Vec<(usize, usize)> = Vec::new();
    for threads in doublings(1, cores) {
        sizes.extend(doublings(2, MOST).into_iter().map(|inputs| (threads, inputs)));
    }
    let mut adders: Vec<Adder> = (0..cores).map(|_| Adder::default()).collect();
    let mut rounds = vec![Vec::with_capacity(runs); sizes.len()];
    for round in 0..=runs {
        for ((threads, inputs), ns) in sizes.iter().zip(&mut rounds) {
            let took = time(&mut || _ = black_box(sum_parallel(&room[..*inputs], &mut adders[..*threads])));
            if round > 0 {
                ns.push(took / PACKET_SAMPLES as f64); // round 0 warms up
            }
        }
    }
    let sums = sizes.into_iter().zip(rounds).map(|((threads, inputs), ns)| {
        let (median, min, max) = summary(ns);
        Sum { inputs, threads, median, min, max, runs }
    });
    Ok(sums.collect())
}

/// `from`, twice that, and so on, and `to`.
fn doublings(from: usize, to: usize) -> Vec<usize> {
    let mut all: Vec<usize> = std::iter::successors(Some(from), |n| Some(2 * n)).take_while(|n| *n < to).collect();
    all.push(to);
    all
}

fn packets(curve: Curve) -> Result<Vec<Ciphertexts>, Failure> {
    let mut rng = randomness::generator()?;
    let key = SecretKey::generate(Parameters::new(curve, SecurityFloor::InsecurePaper)?, &mut rng);
    let encryptor = Encryptor::new(&key.public_key());
    let spoken: Vec<i32> = (0..PACKET_SAMPLES as i32).map(|sample| 7 * sample).collect();
    let packets = (0..DISTINCT).map(|_| encryptor.encrypt(&spoken, &mut rng));
    Ok(packets.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_double_up_to_the_last() {
        assert_eq!(doublings(1, 1), [1]);
        assert_eq!(doublings(1, 6), [1, 2, 4, 6]);
        assert_eq!(doublings(2, 16), [2, 4, 8, 16]);
    }
}
