//! Sums of a whole room on several threads, as in the paper's second experiment.

use super::super::line::summary;
use super::super::peer;
use super::super::rounds::time;
use super::figures::{Line, Params};
use std::hint::black_box;
use tobari_call::PACKET_SAMPLES;
use tobari_call_edge::sum::sum_parallel;
use tobari_command::output::Failure;
use tobari_command::randomness;
use tobari_curve::elgamal::{Ciphertexts, Encryptor, SecretKey};
use tobari_curve::params::{Parameters, SecurityFloor};
use tobari_curve::{Adder, BuiltCurve, Curve};

/// The number of distinct packets, which are repeated. It is a prime, so that no two threads add
/// the same packets: equal sums would need a doubling, which is slower than an addition.
const DISTINCT: usize = 61;
/// The most speakers; all powers of two up to this are measured.
const MOST: usize = 4096;

/// A measured sum, in nanoseconds a sample from its beginning to its end.
pub(super) struct Sum {
    pub(super) engine: String,
    pub(super) inputs: usize,
    pub(super) threads: usize,
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) runs: usize,
}

impl Sum {
    /// The sum as a figure.
    pub(super) fn line(&self) -> Line {
        let [curve, mode, timing] = [Curve::Secp256k1.name(), "elgamal", "variable"].map(str::to_owned);
        Line {
            job: "call".to_owned(),
            what: "sum".to_owned(),
            engine: self.engine.clone(),
            params: Params { curve, mode, timing, bits: None, inputs: Some(self.inputs) },
            backend: BuiltCurve::Secp256k1.backend().to_owned(),
            threads: u32::try_from(self.threads).unwrap_or(u32::MAX),
            unit: "ns/sample".to_owned(),
            median: self.median,
            min: self.min,
            max: self.max,
            runs: self.runs,
            labels: Vec::new(),
        }
    }
}

/// Sums on secp256k1 in mode `elgamal`, of 2, 4 … 4,096 packets, on 1, 2, 4 … threads up to
/// `cores`, and the sums of peers that support them; in rounds.
pub(super) fn measure(cores: usize, runs: usize, peers: &[String]) -> Result<Vec<Sum>, Failure> {
    let curve = Curve::Secp256k1;
    let packets = packets(curve)?;
    let room: Vec<&Ciphertexts> = packets.iter().cycle().take(MOST).collect();
    let mut sizes: Vec<(usize, usize)> = Vec::new();
    for threads in doublings(1, cores) {
        sizes.extend(doublings(2, MOST).into_iter().map(|inputs| (threads, inputs)));
    }
    let mut adders: Vec<Adder> = (0..cores).map(|_| Adder::default()).collect();
    let mut rounds = vec![Vec::with_capacity(runs); sizes.len()];
    let mut peer_rounds = vec![Vec::new(); peers.len()];
    for round in 0..=runs {
        for ((threads, inputs), ns) in sizes.iter().zip(&mut rounds) {
            let took = time(&mut || _ = black_box(sum_parallel(&room[..*inputs], &mut adders[..*threads])));
            if round > 0 {
                ns.push(took / PACKET_SAMPLES as f64); // round 0 warms up
            }
        }
        if peer::has_its_turn(round, runs) {
            for (peer, rounds) in peers.iter().zip(&mut peer_rounds) {
                rounds.push(peer::ask(peer, curve.name(), &["sum"])?);
            }
        }
    }
    let sums = sizes.into_iter().zip(rounds).map(|((threads, inputs), ns)| {
        let (median, min, max) = summary(ns);
        Sum { engine: "tobari".to_owned(), inputs, threads, median, min, max, runs }
    });
    let of_peers = peer_rounds.iter().flat_map(|rounds| peer::join(rounds)).filter_map(of_peer);
    Ok(sums.chain(of_peers).collect())
}

/// The sum in a peer's line; a peer that does not know the word for sums prints other lines.
fn of_peer(line: Line) -> Option<Sum> {
    let inputs = line.params.inputs.filter(|_| line.what == "sum")?;
    let Line { engine, threads, median, min, max, runs, .. } = line;
    Some(Sum { engine, inputs, threads: threads as usize, median, min, max, runs })
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
    fn a_peers_sums_are_taken_and_its_other_figures_left() {
        let add = super::super::figures::example(["mcl 3", "secp256k1", "elgamal", "variable"], "add", None, 3.0);
        let mut sum = Line { what: "sum".to_owned(), ..add.clone() };
        assert!([&add, &sum].into_iter().all(|line| of_peer(line.clone()).is_none()), "of how many?");
        sum.params.inputs = Some(64);
        let sum = of_peer(sum).unwrap();
        assert_eq!((sum.engine.as_str(), sum.inputs, sum.threads, sum.median), ("mcl 3", 64, 1, 3.0));
    }

    #[test]
    fn sizes_double_up_to_the_last() {
        assert_eq!(doublings(1, 1), [1]);
        assert_eq!(doublings(1, 6), [1, 2, 4, 6]);
        assert_eq!(doublings(2, 16), [2, 4, 8, 16]);
    }
}
