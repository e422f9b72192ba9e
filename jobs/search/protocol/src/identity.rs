//! A client's one secret, and the keys that follow from it.
//!
//! The secret is 32 random bytes. From it follow the client's name on servers where clients name
//! themselves, and a secret key with its public half for each set of
//! parameters and each generation. A generation is a number, drawn anew when a key was used often
//! enough. Because the public half follows too, programs with the same file and generation have the
//! same public half.
//!
//! Bytes of an identity: `TSK`, version (4), the secret (32). All of them are secret.

use super::hidden::server::Registration;
use super::hidden::{self, arrangement};
use super::messages::{self, CLIENT_BYTES};
use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use rand_core::CryptoRng;
use tobari_lattice::bgv::EvaluationKeys;
use tobari_lattice::params::{LatticeError, NamedSet};
use tobari_lattice::ring::Seed;
use tobari_lattice::rlwe::{PublicKey, SecretKey};
use zeroize::Zeroizing;

const MAGIC: [u8; 4] = *b"TSK\x01";
/// Bytes of an identity.
pub const IDENTITY_BYTES: usize = 36;
/// Purposes of the branches of the seed. Branch 0 made decoys, and stays unused.
const NAME: u64 = 1;
const KEYS: u64 = 2;
const PUBLIC: u64 = 3;
const HIDDEN: u64 = 4;

/// A client's secret. It is never printed, and wiped on drop.
pub struct Identity {
    seed: Seed,
}

/// The bytes are not an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "malformed key for searches: expected {IDENTITY_BYTES} bytes that begin with \"TSK\" and version 1, found others"
)]
pub struct IdentityError;

impl Identity {
    /// Draws a new identity.
    pub fn generate(rng: &mut impl CryptoRng) -> Self {
        Self { seed: Seed::random(rng) }
    }

    /// Encodes the identity.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut out = Zeroizing::new(Vec::with_capacity(IDENTITY_BYTES));
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&*Zeroizing::new(self.seed.to_bytes()));
        out
    }

    /// Decodes an identity.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, IdentityError> {
        let secret = bytes.strip_prefix(&MAGIC).and_then(|rest| <[u8; 32]>::try_from(rest).ok());
        secret.map(|secret| Self { seed: Seed::from_bytes(secret) }).ok_or(IdentityError)
    }

    /// The client's name, for servers where clients name themselves.
    pub fn name(&self) -> [u8; CLIENT_BYTES] {
        let (mut name, seed) = ([0; CLIENT_BYTES], self.seed.derive(NAME).to_bytes());
        name.copy_from_slice(&seed[..CLIENT_BYTES]);
        name
    }

    /// The secret key of a set and generation, and its registration.
    ///
    /// # Errors
    /// [`LatticeError`] for a set that does not exist.
    pub fn key(&self, set: &NamedSet, generation: u64) -> Result<(SecretKey, Vec<u8>), LatticeError> {
        let seed = self.seed(set, generation);
        let secret = SecretKey::from_seed(&set.parameters()?, seed.clone());
        let drawn = Zeroizing::new(seed.derive(PUBLIC).to_bytes());
        let public = PublicKey::generate(&secret, &mut ChaCha20Rng::from_seed(*drawn));
        Ok((secret, messages::encode_registration(&public)))
    }

    /// The secret key of a generation for questions with the place hidden, and its registration of
    /// some 6 MB.
    ///
    /// # Errors
    /// [`LatticeError`] for a set that is not for such questions.
    pub fn hidden_key(&self, set: &NamedSet, generation: u64) -> Result<(SecretKey, Vec<u8>), LatticeError> {
        let seed = self.seed(set, generation);
        let secret = SecretKey::from_seed(&set.parameters()?, seed.clone());
        let drawn = Zeroizing::new(seed.derive(HIDDEN).to_bytes());
        let mut drawn = ChaCha20Rng::from_seed(*drawn);
        let public = PublicKey::generate(&secret, &mut drawn);
        let keys = EvaluationKeys::new(secret.parameters()).with_expansion(&secret, arrangement::DEPTH, &mut drawn);
        let keys = keys.map_err(|_| LatticeError::NoSpecialPrime)?;
        Ok((secret, hidden::messages::encode_registration(&Registration { public, keys })))
    }

    fn seed(&self, set: &NamedSet, generation: u64) -> Seed {
        let branch = |seed: Seed, part: &[u8]| {
            seed.derive(part.iter().fold(0, |branch: u64, byte| branch << 8 | u64::from(*byte)))
        };
        let seed = set.name.as_bytes().chunks(7).fold(self.seed.derive(KEYS), branch);
        generation.to_be_bytes().chunks(4).fold(seed, branch)
    }
}

/// Objects that clients and servers store or send, apart from messages: every decoded object
/// encodes to the same bytes.
#[doc(hidden)]
pub fn fuzz_kept(data: &[u8]) {
    if let Ok(identity) = Identity::decode(data) {
        assert_eq!(identity.encode()[..], *data);
    }
    super::desk::ledger::fuzz_account(data);
    super::fullness::fuzz_fullness(data);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;
    use crate::program;

    #[test]
    fn keys_follow_from_the_secret_and_differ_by_set_and_generation() {
        let identity = Identity::generate(&mut ChaCha20Rng::from_seed([1; 32]));
        let same = Identity::decode(&identity.encode()).unwrap();
        let set = program::sets().next().unwrap();
        let of = |identity: &Identity, set: &NamedSet, generation| {
            let (secret, registration) = identity.key(set, generation).unwrap();
            (secret.to_seed().to_bytes(), registration)
        };
        assert!(of(&identity, &set, 5) == of(&same, &set, 5));
        assert_eq!(identity.name(), same.name());
        let other = program::sets().nth(1).unwrap();
        for (set, generation) in [(&set, 6), (&set, 5 << 32), (&other, 5)] {
            let (a, b) = (of(&identity, &set.clone(), generation), of(&identity, &program::sets().next().unwrap(), 5));
            assert!(a.0 != b.0 && a.1 != b.1, "{generation}");
        }
        for wrong in [&identity.encode()[..35], &[&identity.encode()[..], &[0]].concat(), b"TSK\x02", &[0; 36]] {
            assert!(Identity::decode(wrong).is_err());
        }
    }
}
