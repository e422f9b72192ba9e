//! Raising the modulus of a ciphertext, under a sparse secret for a moment.
//!
//! A ciphertext modulo `q_0` has the phase `c_0 + c_1 s = m + q_0 I` over the integers, if its
//! parts are taken as integers in `[-q_0/2, q_0/2)`. These same integers, read modulo a large `Q`,
//! are a ciphertext of `m + q_0 I`. Nothing is computed. The rest of a refresh removes `q_0 I`, and
//! that is the cheaper the smaller `I` is: it grows with the weight of `s`.
//!
//! So the ciphertext is first switched to another secret `s~` with 32 coefficients of ±1 and no
//! others (Bossuat, Troncoso-Pastoriza, Hubaux, ACNS 2022). Then
//!
//! ```text
//! |I| ≤ (1 + 32)/2 + 2^-40      in every coefficient, always:      the parts are at most q_0/2,
//! ```
//!
//! and no bound on `I` can fail. Under the large modulus the ciphertext is switched back to `s`.
//!
//! # Security
//! A sparse secret is weaker than a dense one. The only object under `s~` as a secret is the key
//! that switches **to** it, with the modulus `q_0 p`, `p` one special prime
//! ([`narrow`]). [`sparse_limit`] has the largest such modulus. The key that
//! switches back is under `s`, at the security of the parameters. No other function sees `s~`: it
//! lives in [`RaiseKeys::generate`], and is wiped there.
//!
//! # Error
//! Of the switch to `s~`: `Q_d σ_e √(N/12) / p`, about `2^8` at `N = 2^16`. Of the switch back:
//! that of a key switch, modulo the large `Q`.

use super::identity::KeyId;
use super::keys::SecretKey;
use super::switch::{EvaluationKey, KeySwitcher};
use crate::params::{LatticeError, LatticeParameters, sparse_limit};
use crate::ring::{Domain, Eval, Poly, Seed};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

/// The coefficients of the sparse secret that are not 0.
pub(crate) const WEIGHT: usize = 32;

/// The keys to a sparse secret and back.
#[derive(Clone)]
pub(crate) struct RaiseKeys {
    /// The dense secret's.
    id: Option<KeyId>,
    to_sparse: EvaluationKey,
    to_dense: EvaluationKey,
}

/// The parameters of the key to the sparse secret: the first data prime and the first special one.
pub(crate) fn narrow(parameters: &LatticeParameters) -> Result<LatticeParameters, LatticeError> {
    let (ring, least) = (parameters.ring(), 2 * WEIGHT);
    if parameters.degree() < least {
        return Err(LatticeError::Sparse { least, found: parameters.degree() });
    }
    let [Some(data), Some(special)] = [ring.data_primes().first(), ring.special_primes().first()] else {
        return Err(LatticeError::NoSpecialPrime);
    };
    let [data, special] = [data, special].map(|table| table.modulus().value());
    let narrow =
        LatticeParameters::insecure_for_tests(parameters.degree(), &[data], &[special], 1, parameters.plaintext())?;
    // toys are insecure in any case
    if parameters.security().is_some() {
        let most = sparse_limit(parameters.degree()).unwrap_or(0);
        if narrow.log_qp() > most {
            return Err(LatticeError::Insecure { degree: parameters.degree(), most, found: narrow.log_qp() });
        }
    }
    Ok(narrow)
}

impl RaiseKeys {
    /// Keys for ciphertexts that are raised to `level`.
    pub(crate) fn generate(
        secret: &SecretKey,
        narrow: &LatticeParameters,
        level: usize,
        rng: &mut impl CryptoRng,
    ) -> Self {
        let parameters = secret.parameters();
        let mut coefficients = Zeroizing::new(vec![0; parameters.degree()]);
        Seed::random(rng).stream(Domain::Secret, 1).sparse_ternary(WEIGHT, &mut coefficients);
        let over = |parameters: &LatticeParameters| {
            let ring = parameters.ring();
            let basis = ring.key_basis(parameters.data_primes());
            Zeroizing::new(Poly::from_signed(ring, basis, &coefficients).forward())
        };
        let dense = SecretKey::from_seed(narrow, secret.to_seed().clone());
        Self {
            id: secret.id(),
            to_sparse: EvaluationKey::generate(narrow, [dense.values(), &over(narrow)], 1, rng),
            to_dense: EvaluationKey::generate(parameters, [&over(parameters), secret.values()], level, rng),
        }
    }

    /// Keys of which both parts are known: to the sparse secret and back.
    pub(crate) fn of(id: Option<KeyId>, [to_sparse, to_dense]: [EvaluationKey; 2]) -> Self {
        Self { id, to_sparse, to_dense }
    }

    /// The key to the sparse secret, and back.
    pub(crate) fn parts(&self) -> [&EvaluationKey; 2] {
        [&self.to_sparse, &self.to_dense]
    }

    /// The identity of the dense secret.
    pub(crate) fn id(&self) -> Option<KeyId> {
        self.id
    }

    /// The highest level that ciphertexts are raised to.
    pub(crate) fn level(&self) -> usize {
        self.to_dense.level()
    }

    /// Bytes in memory.
    pub(crate) fn memory(&self) -> usize {
        self.to_sparse.memory() + self.to_dense.memory()
    }
}

/// A ciphertext over the first prime, raised to the level of the keys. `narrow` is a switcher of
/// the keys' narrow parameters.
///
/// # Panics
/// If parameters differ, or there are more primes.
pub(crate) fn raise(
    [c0, c1]: [&Poly<Eval>; 2],
    keys: &RaiseKeys,
    narrow: &KeySwitcher,
    wide: &KeySwitcher,
) -> [Poly<Eval>; 2] {
    let (small, large) = (narrow.parameters().ring(), wide.parameters().ring());
    let [c0, c1] = [c0, c1].map(|part| {
        assert_eq!(part.basis(), large.basis(1), "one prime");
        let mut same = Poly::<Eval>::any(small, small.basis(1));
        same.row_mut(0).copy_from_slice(part.row(0));
        same
    });
    let [mut u0, u1] = narrow.switch(&c1, &keys.to_sparse);
    u0.add_assign(&c0);
    let [mut c0, c1] = [u0, u1].map(|part| {
        let (q, part) = (small.data_primes()[0].modulus(), part.inverse());
        let integers: Vec<i64> = part.row(0).iter().map(|residue| q.centred(*residue)).collect();
        Poly::from_integers(large, large.basis(keys.level()), &integers).forward()
    });
    let [v0, v1] = wide.switch(&c1, &keys.to_dense);
    c0.add_assign(&v0);
    [c0, v1]
}

#[cfg(test)]
mod tests {
    use super::super::tests::{rng, toy};
    use super::*;
    use crate::rlwe::Ciphertext;

    /// The exact integers: the phase over the large modulus is that over `q_0`, plus a multiple of
    /// `q_0` within the bound, plus a small error.
    #[test]
    fn a_raised_phase_is_the_old_one_and_few_multiples_of_the_prime() {
        let (parameters, mut rng) = (toy(None), rng(21));
        let narrow = narrow(&parameters).unwrap();
        assert_eq!((narrow.data_primes(), narrow.degree()), (1, 64));
        let switchers = [&narrow, &parameters].map(KeySwitcher::new);
        let q = *parameters.ring().data_primes()[0].modulus();
        let mut largest = 0;
        for _ in 0..100 {
            let secret = SecretKey::generate(&parameters, &mut rng);
            let keys = RaiseKeys::generate(&secret, &narrow, 4, &mut rng);
            let ring = parameters.ring();
            let parts = [0, 1].map(|i| super::super::keys::uniform(ring, ring.basis(1), &Seed::random(&mut rng), i));
            let low = secret.phase(&Ciphertext::new(&parameters, None, parts.to_vec()));
            let raised = raise(parts.each_ref(), &keys, &switchers[0], &switchers[1]);
            assert_eq!(raised[0].basis(), ring.basis(4));
            let mut high = secret.phase(&Ciphertext::new(&parameters, None, raised.to_vec()));
            // multiples of q are gone in the first row
            for (low, high) in low.row(0).iter().zip(high.row(0)) {
                assert!(q.centred(q.sub(*high, *low)).unsigned_abs() < 1 << 9);
            }
            // in the second row they are counted
            let p = ring.data_primes()[1].modulus();
            let centred: Vec<i64> = low.row(0).iter().map(|x| q.centred(*x)).collect();
            high.sub_assign(&Poly::from_integers(ring, ring.basis(4), &centred));
            let inverse = p.inverse(p.reduce(q.value())).unwrap();
            for rest in high.row(1) {
                let found = (-20i64..=20).find(|multiple| {
                    let multiple = p.mul(p.reduce(q.value()), p.of_signed(*multiple));
                    p.centred(p.sub(*rest, multiple)).unsigned_abs() < 1 << 9
                });
                let found = found.unwrap_or_else(|| panic!("{} is no small multiple", p.mul(*rest, inverse)));
                assert!(found.unsigned_abs() <= WEIGHT as u64 / 2, "{found}");
                largest = largest.max(found.abs());
            }
        }
        assert!(largest >= 4, "{largest}: the multiples spread like a sum of 33 uniform numbers");
    }

    #[test]
    fn a_sparse_secret_has_its_weight_and_every_place() {
        let mut seen = vec![0; 64];
        for i in 0..200 {
            let mut values = vec![7; 64];
            Seed::from_bytes([i; 32]).stream(Domain::Secret, 1).sparse_ternary(WEIGHT, &mut values);
            assert_eq!(values.iter().filter(|x| x.abs() == 1).count(), WEIGHT);
            assert!(values.iter().all(|x| x.abs() <= 1));
            values.iter().zip(&mut seen).for_each(|(x, seen)| *seen += x);
        }
        // signs cancel out: deviation √(200/2)
        assert!(seen.iter().all(|sum: &i64| sum.abs() < 50), "{seen:?}");
    }
}
