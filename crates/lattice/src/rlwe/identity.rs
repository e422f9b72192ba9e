//! Identities of keys.

use rand_core::CryptoRng;
use std::fmt;
use std::num::NonZeroU64;

/// Eight random bytes that a secret key is generated with. They stand in its public key, its
/// evaluation keys and its ciphertexts, and in all results with those, so that a mixture of two
/// keys is an error and not a wrong number.
///
/// They are no function of the secret. **They prove nothing**: anybody can write any identity into
/// bytes. **They link** all objects of a key to each other. A key from a seed has none
/// ([`SecretKey::from_seed`](super::SecretKey::from_seed)): its objects are of an unknown key, and
/// fit every key.
///
/// ```
/// use rand_core::SeedableRng;
/// use tobari_lattice::bgv::{Decryptor, Encoder, EvaluateError, Evaluator};
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// use tobari_lattice::ring::Modulus;
/// use tobari_lattice::rlwe::SecretKey;
/// // a program takes its randomness from the system
/// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]);
/// let t = Plaintext::Integers(Modulus::new(65_537).unwrap());
/// let parameters = LatticeParameters::of_sizes(1 << 13, &[45, 45], &[50], 2, t)?;
/// let (encoder, evaluator) = (Encoder::new(&parameters)?, Evaluator::new(&parameters)?);
/// let mut encrypt = |number| {
///     let secret = SecretKey::generate(&parameters, &mut rng);
///     let ciphertext = encoder.encode(&[number])?.encrypt_seeded(&secret, 1, &mut rng)?;
///     Ok::<_, Box<dyn std::error::Error>>(ciphertext.expand())
/// };
/// let sum = evaluator.add(&encrypt(3)?, &encrypt(4)?);
/// assert!(matches!(sum, Err(EvaluateError::OtherKey(_))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyId(NonZeroU64);

impl KeyId {
    /// A new identity.
    pub fn random(rng: &mut impl CryptoRng) -> Self {
        loop {
            if let Some(id) = NonZeroU64::new(rng.next_u64()) {
                return Self(id);
            }
        }
    }

    /// The identity of these bytes; none for zeros.
    pub fn from_bytes(bytes: [u8; 8]) -> Option<Self> {
        NonZeroU64::new(u64::from_be_bytes(bytes)).map(Self)
    }

    /// Its bytes.
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.get().to_be_bytes()
    }

    /// The key of a result with objects of these keys. An unknown key fits every key.
    ///
    /// # Errors
    /// [`OtherKey`] if two are known and differ.
    pub(crate) fn joined(keys: impl IntoIterator<Item = Option<Self>>) -> Result<Option<Self>, OtherKey> {
        keys.into_iter().flatten().try_fold(None, |first: Option<Self>, found| match first {
            Some(expected) if expected != found => Err(OtherKey { expected, found }),
            _ => Ok(Some(found)),
        })
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

/// Objects of two keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected an object of key {expected}, found one of key {found}: use ciphertexts, evaluation keys and a public \
     key of one secret key"
)]
pub struct OtherKey {
    /// The first key.
    pub expected: KeyId,
    /// The other.
    pub found: KeyId,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rlwe::tests::rng;

    #[test]
    fn known_keys_must_be_one_and_unknown_ones_fit() {
        let [a, b] = [1, 2].map(|seed| KeyId::random(&mut rng(seed)));
        assert_eq!(KeyId::joined([None, None]), Ok(None));
        assert_eq!(KeyId::joined([]), Ok(None));
        assert_eq!(KeyId::joined([None, Some(a), None, Some(a)]), Ok(Some(a)));
        let expected = Err(OtherKey { expected: a, found: b });
        assert_eq!(KeyId::joined([None, Some(a), None, Some(b)]), expected);
        assert_eq!(KeyId::from_bytes(a.to_bytes()), Some(a));
        assert_eq!(KeyId::from_bytes([0; 8]), None);
        assert_eq!(KeyId::from_bytes([0, 0, 0, 0, 0, 0, 1, 2]).unwrap().to_string(), "0000000000000102");
    }
}
