//! The scheme against plain integers modulo large `t`, up to the largest: sums of residues and
//! products of constants are near the size of a word there.

use super::*;
use crate::params::{LatticeParameters, Plaintext as Scheme};
use crate::ring::Modulus;
use crate::rlwe::tests::{cases, rng};
use crate::rlwe::{PublicKey, SecretKey};
use proptest::prelude::*;

const DEGREE: usize = 64;
/// Data primes.
const TOP: usize = 12;

/// Primes that are 1 modulo 128, from small to the largest modulus of a ring.
const MODULI: [u64; 6] = [257, 65_537, 1_073_741_953, 4_398_046_511_233, 281_474_976_709_249, 1_125_899_906_840_833];

struct Setup {
    secret: SecretKey,
    public: PublicKey,
    keys: EvaluationKeys,
    encoder: Encoder,
    evaluator: Evaluator,
    t: i128,
}

impl Setup {
    fn new(t: u64) -> Self {
        let scheme = Scheme::Integers(Modulus::new(t).unwrap());
        let parameters = LatticeParameters::insecure_of_sizes(DEGREE, &[48; TOP], &[49; 4], 4, scheme).unwrap();
        let secret = SecretKey::generate(&parameters, &mut rng(31));
        let mut keys = EvaluationKeys::new(&parameters);
        keys.add_relinearization(&secret, TOP, &mut rng(32)).unwrap();
        keys.add_swap(&secret, TOP, &mut rng(33)).unwrap();
        keys.add_rotation(&secret, 1, TOP, &mut rng(34)).unwrap();
        let (encoder, evaluator) = (Encoder::new(&parameters).unwrap(), Evaluator::new(&parameters).unwrap());
        Self { public: PublicKey::generate(&secret, &mut rng(35)), secret, keys, encoder, evaluator, t: t.into() }
    }

    /// Values over the whole range, the ends among them.
    fn values(&self, seed: u64) -> Vec<i64> {
        let t = self.t as u64;
        let of = |i: u64| match i % 8 {
            0 => 0,
            1 => t - 1,
            2 => t / 2,
            3 => t / 2 + 1,
            _ => (i + 1).wrapping_mul(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1) % t,
        };
        (0..DEGREE as u64).map(|i| of(i.wrapping_add(seed)) as i64).collect()
    }

    fn encrypt(&self, values: &[i64], seed: u8) -> Ciphertext {
        let plaintext = self.encoder.encode(values).unwrap();
        plaintext.encrypt(&self.public, TOP, &mut rng(seed)).unwrap()
    }

    /// The slots, from 0 to `t - 1`; the measured noise must be within the bound.
    fn decrypt(&self, ciphertext: &Ciphertext) -> Vec<i64> {
        let measured = self.secret.noise(&ciphertext.inner).log2();
        assert!(measured <= ciphertext.noise_bound(), "2^{measured:.1} above 2^{:.1}", ciphertext.noise_bound());
        let plaintext = Decryptor::new(&self.secret).unwrap().decrypt(ciphertext).unwrap();
        self.encoder.decode(&plaintext).unwrap().into_iter().map(|x| i128::from(x).rem_euclid(self.t) as i64).collect()
    }

    /// Slot by slot, modulo `t`.
    fn slotwise(&self, a: &[i64], b: &[i64], of: impl Fn(i128, i128) -> i128) -> Vec<i64> {
        a.iter().zip(b).map(|(a, b)| of((*a).into(), (*b).into()).rem_euclid(self.t) as i64).collect()
    }
}

proptest! {
    #![proptest_config(cases(24))]
    /// Whatever is computed, decryption is right, and the measured noise within the bound.
    #[test]
    fn random_circuits_are_exact_for_every_size_of_the_plaintext_modulus(
        which in 0..MODULI.len(),
        steps in prop::collection::vec((0usize..9, 0usize..4, 0usize..4, any::<i64>()), 1..16),
    ) {
        let s = Setup::new(MODULI[which]);
        let e = &s.evaluator;
        let mut all: Vec<(Ciphertext, Vec<i64>)> =
            (0..4).map(|i| (s.encrypt(&s.values(i), i as u8), s.values(i))).collect();
        for (operation, i, j, scalar) in steps {
            let ((x, a), (y, b)) = (all[i].clone(), all[j].clone());
            let (found, expected) = match operation {
                0 => (e.add(&x, &y), s.slotwise(&a, &b, |a, b| a + b)),
                1 => (e.sub(&x, &y), s.slotwise(&a, &b, |a, b| a - b)),
                2 | 3 => (e.mul_reduced(&x, &y, &s.keys), s.slotwise(&a, &b, |a, b| a * b)),
                4 => (e.mul_integer(&x, scalar), s.slotwise(&a, &b, |a, _| a * i128::from(scalar).rem_euclid(s.t))),
                5 => (e.mul_plain(&x, &s.encoder.encode(&b).unwrap()), s.slotwise(&a, &b, |a, b| a * b)),
                6 => (e.add_plain(&x, &s.encoder.encode(&b).unwrap()), s.slotwise(&a, &b, |a, b| a + b)),
                7 => (e.rotate(&x, 1, &s.keys), {
                    let mut rows = a.clone();
                    rows.chunks_mut(DEGREE / 2).for_each(|row| row.rotate_left(1));
                    rows
                }),
                _ => (e.swap_rows(&x, &s.keys), [&a[DEGREE / 2..], &a[..DEGREE / 2]].concat()),
            };
            let found = found.unwrap();
            if found.noise_budget() > 0.0 {
                prop_assert_eq!(s.decrypt(&found), expected.clone(), "modulo {}, operation {}", s.t, operation);
                all[j] = (found, expected);
            }
        }
    }
}

/// Each modulus has room for a product of two products.
#[test]
fn products_of_products_fit_for_every_size_of_the_plaintext_modulus() {
    for t in MODULI {
        let s = Setup::new(t);
        let [a, b] = [1, 2].map(|seed| s.values(seed));
        let [x, y] = [(&a, 1), (&b, 2)].map(|(values, seed)| s.encrypt(values, seed));
        let product = s.evaluator.mul_reduced(&x, &y, &s.keys).unwrap();
        let fourth = s.evaluator.mul_reduced(&product, &product, &s.keys).unwrap();
        let expected = s.slotwise(&a, &b, |a, b| {
            let product = a * b % s.t;
            product * product
        });
        assert_eq!(s.decrypt(&fourth), expected, "modulo {t}");
    }
}
