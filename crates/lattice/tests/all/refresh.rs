//! Long runs of refreshes, which other runs ignore: `cargo xtask soak refresh`.

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use tobari_lattice::ckks::{Ciphertext, Decryptor, Encoder, Evaluator, Scale};
use tobari_lattice::params::{LatticeParameters, NamedSet, Plaintext};
use tobari_lattice::refresh::{Refresh, RefreshKeys, RefreshSettings};
use tobari_lattice::rlwe::SecretKey;

/// A key with its refresh.
struct Party {
    secret: SecretKey,
    encoder: Encoder,
    evaluator: Evaluator,
    refresh: Refresh,
    keys: RefreshKeys,
    scale: Scale,
}

/// The fewest bits that were right, and those of the bound.
#[derive(Debug)]
struct Bits([f64; 2]);

impl Party {
    fn new(parameters: &LatticeParameters, precise: bool, rng: &mut ChaCha20Rng) -> Self {
        let settings = RefreshSettings::real(parameters.degree() / 2);
        let settings = if precise { settings.precise() } else { settings };
        let secret = SecretKey::generate(parameters, rng);
        let refresh = Refresh::new(parameters, settings).unwrap();
        let keys = refresh.keys(&secret, rng).unwrap();
        let encoder = Encoder::new(parameters).unwrap();
        let evaluator = Evaluator::new(parameters).unwrap();
        Self { secret, encoder, evaluator, refresh, keys, scale: Scale::power_of_two(if precise { 42 } else { 40 }) }
    }

    /// Refreshes so many times, with a map of the unit interval between two refreshes: `p - x²/4`
    /// for other numbers `p` each time. It halves errors at least, so that bounds do not grow from
    /// refresh to refresh, and the numbers do not converge.
    fn in_a_row(&self, count: usize, seed: usize, worst: &mut Bits, rng: &mut ChaCha20Rng) {
        let number = |j: usize| ((j * 7919 + seed * 104_729) % 2001) as f64 / 1000.0 - 1.0;
        let mut plain: Vec<f64> = (0..self.encoder.slots()).map(number).collect();
        let level = self.refresh.settings().least_level();
        let fresh = self.encoder.encode(&plain, &self.scale, level).unwrap().encrypt_seeded(&self.secret, rng);
        let mut x = fresh.unwrap().expand();
        for turn in 0..count {
            x = self.refresh.refresh(&x, &self.keys).unwrap();
            self.compare(&x, &plain, worst, turn);
            let square = self.evaluator.mul_rescale(&x, &x, self.keys.evaluation()).unwrap();
            let quarter = self.evaluator.rescale(&self.evaluator.mul_constant(&square, -0.25).unwrap()).unwrap();
            let quarter = self.evaluator.set_scale(&quarter, &self.scale).unwrap();
            let next: Vec<f64> = (0..plain.len()).map(|j| 0.7 * number(j + 31 * (turn + 1))).collect();
            let encoded = self.encoder.encode(&next, &self.scale, quarter.level()).unwrap();
            x = self.evaluator.add_plain(&quarter, &encoded).unwrap();
            x.declare_magnitude(1.0).unwrap();
            plain.iter_mut().zip(next).for_each(|(x, p)| *x = p - *x * *x / 4.0);
        }
    }

    fn compare(&self, x: &Ciphertext, plain: &[f64], worst: &mut Bits, turn: usize) {
        let found = Decryptor::new(&self.secret, &self.encoder).unwrap().decrypt(x).unwrap();
        let error = found.iter().zip(plain).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        let bound = x.estimate().unwrap().error();
        assert!(error <= bound, "refresh {turn}: 2^{:.2} > 2^{:.2}", error.log2(), bound.log2());
        for (least, bits) in worst.0.iter_mut().zip([-error.log2(), -bound.log2()]) {
            *least = least.min(bits);
        }
    }
}

#[test]
#[ignore = "minutes, and 10 GiB: cargo xtask soak refresh"]
#[allow(clippy::print_stdout, reason = "figures of a long run")]
fn a_thousand_refreshes_in_a_row_a_hundred_keys_and_full_security_keep_their_bounds() {
    let mut rng = ChaCha20Rng::from_seed([42; 32]);
    for (name, precise, least) in [("refresh", false, 15.0), ("refresh-precise", true, 19.0)] {
        let set = NamedSet::from_name(name).unwrap();
        let toy =
            LatticeParameters::insecure_of_sizes(1 << 12, set.data, set.special, set.digits, Plaintext::Approximate);
        let toy = toy.unwrap();
        for (keys, count) in [(100, 3), (1, 1000)] {
            let mut worst = Bits([f64::INFINITY; 2]);
            for key in 0..keys {
                Party::new(&toy, precise, &mut rng).in_a_row(count, key, &mut worst, &mut rng);
            }
            println!(
                "refresh: {name} at N = 2^12, {keys} keys, {count} in a row: {:.1} bits, {:.1} by the bounds",
                worst.0[0], worst.0[1]
            );
            assert!(worst.0[0] > least, "{worst:?}");
        }
    }
    // the book states these bits
    for (name, precise, least) in [("refresh", false, 16.0), ("refresh-precise", true, 20.0)] {
        let secure = NamedSet::from_name(name).unwrap().parameters().unwrap();
        for (key, count) in [20, 3, 3].into_iter().enumerate() {
            let mut worst = Bits([f64::INFINITY; 2]);
            Party::new(&secure, precise, &mut rng).in_a_row(count, key, &mut worst, &mut rng);
            println!(
                "refresh: {name} at N = 2^16, key {key}, {count} in a row: {:.1} bits, {:.1} by the bounds",
                worst.0[0], worst.0[1]
            );
            assert!(worst.0[0] > least, "{worst:?}");
        }
    }
}
