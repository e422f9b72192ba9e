//! Keys, and encryptions of zero.

use super::ciphertext::{Ciphertext, SeededCiphertext};
use super::identity::KeyId;
use crate::params::LatticeParameters;
use crate::ring::{Automorphism, Basis, Coeff, Domain, Eval, Poly, Ring, Seed, Stream};
use rand_core::CryptoRng;
use std::sync::Arc;
use zeroize::{Zeroize, Zeroizing};

/// A ternary secret `s`; wiped on drop.
///
/// ```
/// use rand_core::SeedableRng;
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// use tobari_lattice::rlwe::{PublicKey, SecretKey};
/// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]); // a program takes its randomness from the system
/// let parameters = LatticeParameters::of_sizes(1 << 12, &[36, 35], &[35], 2, Plaintext::Approximate)?;
/// let secret = SecretKey::generate(&parameters, &mut rng);
/// let public = PublicKey::generate(&secret, &mut rng);
/// // both have the eight bytes by which objects of two keys are told apart
/// assert_eq!(secret.id(), public.id());
/// # Ok::<(), tobari_lattice::params::LatticeError>(())
/// ```
///
/// Secrets are not printed or compared:
/// ```compile_fail
/// fn print(key: tobari_lattice::rlwe::SecretKey) { println!("{key:?}") }
/// ```
pub struct SecretKey {
    parameters: LatticeParameters,
    id: Option<KeyId>,
    seed: Seed,
    /// `s` over all primes.
    values: Poly<Eval>,
}

impl SecretKey {
    /// Generates a key, and its identity.
    pub fn generate(parameters: &LatticeParameters, rng: &mut impl CryptoRng) -> Self {
        let key = Self::from_seed(parameters, Seed::random(rng));
        key.with_id(KeyId::random(rng))
    }

    /// The key of a seed: coefficient after coefficient from its stream of domain
    /// [`Domain::Secret`]. It has no identity: see [`Self::with_id`].
    pub fn from_seed(parameters: &LatticeParameters, seed: Seed) -> Self {
        let ring = parameters.ring();
        let mut coefficients = Zeroizing::new(vec![0; ring.degree()]);
        seed.stream(Domain::Secret, 0).ternary(&mut coefficients);
        let values = Poly::from_signed(ring, ring.key_basis(parameters.data_primes()), &coefficients).forward();
        Self { parameters: parameters.clone(), id: None, seed, values }
    }

    /// The same key with this identity, which a program stores beside the seed. Never give two keys
    /// one identity: mixtures of them would be garbage without an error.
    #[must_use]
    pub fn with_id(mut self, id: KeyId) -> Self {
        self.id = Some(id);
        self
    }

    /// The identity, which is public; none for a key from a seed alone.
    pub fn id(&self) -> Option<KeyId> {
        self.id
    }

    /// The seed, for storage of the key. It is the whole secret.
    pub fn to_seed(&self) -> &Seed {
        &self.seed
    }

    /// The parameters.
    pub fn parameters(&self) -> &LatticeParameters {
        &self.parameters
    }

    /// Another party's secret; it has no seed.
    #[cfg(test)]
    pub(crate) fn from_ternary(parameters: &LatticeParameters, coefficients: &[i64]) -> Self {
        let ring = parameters.ring();
        let values = Poly::from_signed(ring, ring.key_basis(parameters.data_primes()), coefficients).forward();
        Self { parameters: parameters.clone(), id: None, seed: Seed::from_bytes([0; 32]), values }
    }

    /// `s` over all primes.
    pub(crate) fn values(&self) -> &Poly<Eval> {
        &self.values
    }

    /// `s²`, from which products of two ciphertexts are switched.
    pub(crate) fn square(&self) -> Zeroizing<Poly<Eval>> {
        let mut square = Zeroizing::new(self.values.clone());
        square.mul_assign(&self.values);
        square
    }

    /// `s(X^g)`.
    pub(crate) fn rotated(&self, automorphism: &Automorphism) -> Zeroizing<Poly<Eval>> {
        Zeroizing::new(self.values.automorphism(automorphism))
    }

    /// An encryption of zero over the first `data` data primes; its second half is a seed.
    ///
    /// # Panics
    /// If there are fewer.
    pub(crate) fn encrypt_zero(&self, data: usize, rng: &mut impl CryptoRng) -> SeededCiphertext {
        let (seed, secret) = (Seed::random(rng), Seed::random(rng));
        let ring = self.parameters.ring();
        let a = uniform(ring, ring.basis(data), &seed, 0);
        SeededCiphertext::new(&self.parameters, self.id, mask(&self.parameters, &self.values, &a, &secret, 0), seed)
    }

    /// An encryption of this element: [`Self::encrypt_zero`] plus the element, with one transform
    /// instead of two.
    pub(crate) fn encrypt_seeded(&self, mut element: Poly<Coeff>, rng: &mut impl CryptoRng) -> SeededCiphertext {
        let (seed, secret) = (Seed::random(rng), Seed::random(rng));
        let (ring, basis) = (self.parameters.ring(), element.basis());
        element.add_assign(&Zeroizing::new(error_coefficients(&self.parameters, basis, &secret, 0)));
        // -(-m - e + a s), in place, so that no copy of m or e is left
        let mut body = element.forward();
        body.neg_assign();
        body.mul_add_assign(&uniform(ring, basis, &seed, 0), &self.values);
        body.neg_assign();
        SeededCiphertext::new(&self.parameters, self.id, body, seed)
    }

    /// `c_0 + c_1 s (+ c_2 s²)`.
    ///
    /// # Panics
    /// If the ciphertext is of other parameters.
    pub(crate) fn phase(&self, ciphertext: &Ciphertext) -> Zeroizing<Poly<Coeff>> {
        // moved, so that no copy is left
        let mut values = self.phase_values(ciphertext);
        let empty = Poly::zero(values.ring(), values.ring().basis(1));
        Zeroizing::new(std::mem::replace(&mut *values, empty).inverse())
    }

    /// The same as values.
    ///
    /// # Panics
    /// If the ciphertext is of other parameters.
    pub(crate) fn phase_values(&self, ciphertext: &Ciphertext) -> Zeroizing<Poly<Eval>> {
        assert!(*ciphertext.parameters() == self.parameters, "a ciphertext of other parameters");
        let [first, second, third @ ..] = ciphertext.parts() else { unreachable!("at least two parts") };
        let mut phase = Zeroizing::new(first.clone());
        match third {
            [] => phase.mul_add_assign(second, &self.values),
            [third, ..] => {
                let mut inner = Zeroizing::new(second.clone());
                inner.mul_add_assign(third, &self.values);
                phase.mul_add_assign(&inner, &self.values);
            }
        }
        phase
    }
}

impl Drop for SecretKey {
    fn drop(&mut self) {
        self.values.zeroize(); // the seed wipes itself
    }
}

/// `(b, a)` with `b = -a s + f e` over all data primes: anybody can encrypt with it.
#[derive(Clone)]
pub struct PublicKey {
    parameters: LatticeParameters,
    id: Option<KeyId>,
    seed: Seed,
    b: Poly<Eval>,
    a: Poly<Eval>,
}

impl PublicKey {
    /// The public key of a secret.
    pub fn generate(secret: &SecretKey, rng: &mut impl CryptoRng) -> Self {
        let parameters = secret.parameters();
        let SeededCiphertext { body, seed, .. } = secret.encrypt_zero(parameters.data_primes(), rng);
        Self::from_parts(parameters, secret.id, body, seed)
    }

    /// From `b` and the seed of `a`.
    pub(crate) fn from_parts(parameters: &LatticeParameters, id: Option<KeyId>, b: Poly<Eval>, seed: Seed) -> Self {
        let a = uniform(parameters.ring(), b.basis(), &seed, 0);
        Self { parameters: parameters.clone(), id, seed, b, a }
    }

    /// The identity of the secret key, if it is known.
    pub fn id(&self) -> Option<KeyId> {
        self.id
    }

    /// The parameters.
    pub fn parameters(&self) -> &LatticeParameters {
        &self.parameters
    }

    /// `b`.
    pub(crate) fn body(&self) -> &Poly<Eval> {
        &self.b
    }

    /// The seed of `a`, which is public.
    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    /// An encryption of zero over the first `data` data primes: `(b u + f e_0, a u + f e_1)` with a
    /// ternary `u`.
    ///
    /// # Panics
    /// If there are fewer.
    pub(crate) fn encrypt_zero(&self, data: usize, rng: &mut impl CryptoRng) -> Ciphertext {
        let secret = Seed::random(rng);
        let ring = self.parameters.ring();
        let basis = ring.basis(data);
        let mut coefficients = Zeroizing::new(vec![0; ring.degree()]);
        secret.stream(Domain::Ephemeral, 0).ternary(&mut coefficients);
        let ephemeral = Zeroizing::new(Poly::from_signed(ring, basis, &coefficients).forward());
        let part = |key: &Poly<Eval>, index| {
            let mut part = error(&self.parameters, basis, &secret, index);
            part.mul_add_assign(&ephemeral, key);
            part
        };
        Ciphertext::new(&self.parameters, self.id, vec![part(&self.b, 0), part(&self.a, 1)])
    }
}

/// A uniform element, row after row from streams of `seed`; `index` is that of the element.
pub(crate) fn uniform(ring: &Arc<Ring>, basis: Basis, seed: &Seed, index: u64) -> Poly<Eval> {
    Poly::uniform(ring, basis, |place| row_stream(seed, index, place))
}

fn row_stream(seed: &Seed, index: u64, place: usize) -> Stream {
    seed.stream(Domain::Uniform, index << 8 | place as u64)
}

/// One row of that element.
pub(super) fn uniform_row(ring: &Ring, basis: Basis, seed: &Seed, index: u64, row: usize, out: &mut [u64]) {
    row_stream(seed, index, ring.place(basis, row)).uniform(ring.table(basis, row).modulus(), out);
}

/// `b = -a s + f e` for an `a` and a secret, with an error from `seed`.
pub(super) fn mask(
    parameters: &LatticeParameters,
    secret: &Poly<Eval>,
    a: &Poly<Eval>,
    seed: &Seed,
    index: u64,
) -> Poly<Eval> {
    let mut b = Poly::zero(a.ring(), a.basis());
    b.mul_add_assign(a, secret);
    b.neg_assign();
    b.add_assign(&Zeroizing::new(error(parameters, a.basis(), seed, index)));
    b
}

/// `f e`.
fn error(parameters: &LatticeParameters, basis: Basis, secret: &Seed, index: u64) -> Poly<Eval> {
    error_coefficients(parameters, basis, secret, index).forward()
}

fn error_coefficients(parameters: &LatticeParameters, basis: Basis, secret: &Seed, index: u64) -> Poly<Coeff> {
    let ring = parameters.ring();
    let mut coefficients = Zeroizing::new(vec![0; ring.degree()]);
    secret.stream(Domain::Error, index).gaussian(&mut coefficients);
    let mut error = Poly::from_signed(ring, basis, &coefficients);
    if parameters.error_factor() > 1 {
        error.scale_assign(parameters.error_factor() as i64);
    }
    error
}

#[cfg(test)]
mod tests {
    use super::super::EvaluationKey;
    use super::super::tests::{rng, toy};
    use super::*;

    #[test]
    fn encryptions_of_zero_have_a_small_phase_under_their_key_only() {
        for parameters in [toy(None), toy(Some(257))] {
            let mut rng = rng(1);
            let [secret, other] = [(); 2].map(|()| SecretKey::generate(&parameters, &mut rng));
            let public = PublicKey::generate(&secret, &mut rng);
            for data in 1..=parameters.data_primes() {
                for ciphertext in [public.encrypt_zero(data, &mut rng), secret.encrypt_zero(data, &mut rng).expand()] {
                    assert_eq!(ciphertext.level(), data);
                    assert!(secret.noise(&ciphertext).log2() < 11.0 + (parameters.error_factor() as f64).log2());
                    assert!(other.noise(&ciphertext).log2() > 20.0);
                }
            }
        }
    }

    #[test]
    fn a_key_is_its_seed() {
        let parameters = toy(None);
        let mut rng = rng(2);
        let secret = SecretKey::generate(&parameters, &mut rng);
        let again = SecretKey::from_seed(&parameters, secret.to_seed().clone());
        assert!(again.values() == secret.values());
    }

    #[test]
    fn memory_that_is_given_back_holds_no_secret() {
        for parameters in [toy(None), toy(Some(257))] {
            let ring = parameters.ring();
            let mut rng = rng(4);
            let secret = SecretKey::generate(&parameters, &mut rng);
            let public = PublicKey::generate(&secret, &mut rng);
            let ciphertext = public.encrypt_zero(4, &mut rng);
            let seeded = secret.encrypt_zero(4, &mut rng).expand();
            let phases = [&ciphertext, &seeded].map(|ciphertext| secret.phase(ciphertext));
            let automorphism = Automorphism::new(64, 5);
            EvaluationKey::generate(&parameters, [&secret.square(), &secret.rotated(&automorphism)], 4, &mut rng);
            // the secret, products with it, errors: as values, and as coefficients
            let values = |element: &Poly<Coeff>| (0..4).map(|row| element.row(row).to_vec()).collect::<Vec<_>>();
            let mut forbidden: Vec<Vec<u64>> = phases.iter().flat_map(|phase| values(phase)).collect();
            for phase in &phases {
                let phase = Zeroizing::new(Poly::clone(phase).forward());
                forbidden.extend((0..4).map(|row| phase.row(row).to_vec()));
            }
            for element in [&secret.values, &*secret.square(), &*secret.rotated(&automorphism)] {
                forbidden.extend((0..4).map(|row| element.row(row).to_vec()));
                forbidden.extend(values(&Zeroizing::new(element.clone().inverse())));
            }
            drop((secret, phases));
            let kept = ring.kept_words();
            assert!(kept.len() >= 64 * 4, "memory is given back");
            for secret in forbidden.iter().filter(|row| row.iter().any(|word| *word != 0)) {
                // eight adjacent words would be enough
                let found = kept.windows(8).any(|words| words == &secret[..8]);
                assert!(!found, "a row of a secret is still there");
            }
        }
    }

    #[test]
    fn no_two_encryptions_share_their_randomness() {
        let mut rng = rng(3);
        let secret = SecretKey::generate(&toy(None), &mut rng);
        let public = PublicKey::generate(&secret, &mut rng);
        let [a, b] = [(); 2].map(|()| public.encrypt_zero(2, &mut rng));
        assert!(a.parts()[0] != b.parts()[0] && a.parts()[1] != b.parts()[1]);
        let [a, b] = [(); 2].map(|()| secret.encrypt_zero(2, &mut rng).expand());
        assert!(a.parts()[0] != b.parts()[0] && a.parts()[1] != b.parts()[1]);
    }
}
