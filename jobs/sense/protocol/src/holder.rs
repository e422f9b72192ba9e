//! The key holder's secret: one seed from which all its keys follow.
//!
//! | bytes | the file: all of it secret |
//! |---|---|
//! | 4 | `TSH`, version |
//! | 1 | the profile's code |
//! | 32 | the seed |
//!
//! From the seed follow the secret key of the homomorphic scheme, **the server's evaluation keys,
//! always the same bytes**, the ML-KEM-768 key with which devices agree on their secret, and the
//! key that names questions. Secrets of devices are encrypted afresh whenever a cohort changes,
//! with the caller's randomness.

use super::client::{self, Cohort};
use super::program::Input;
use super::question::QuestionNames;
use super::registry::{Registry, Token};
use super::schema::ProfileName;
use super::setting::{Setting, SettingError, key_name};
use crate::with_profile;
use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use rand_core::CryptoRng;
use sha2::{Digest, Sha256};
use tobari_device::{Opener, Profile};
use tobari_lattice::bgv::{EncodeError, EvaluationKeys, SeededCiphertext};
use tobari_lattice::ring::Seed;
use tobari_lattice::rlwe::SecretKey;
use zeroize::Zeroizing;

const MAGIC: [u8; 4] = *b"TSH\x01";
/// Bytes of an encoded holder.
pub const HOLDER: usize = 37;
/// The branches of the seed by purpose. The first two also contain the profile's code.
const SECRET: u64 = 0x100;
const KEYS: u64 = 0x200;
const KEM: [u64; 2] = [0x300, 0x301];
const NAMES: u64 = 0x400;

/// Bytes that are not a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed key holder's key: expected \"TSH\", version 1, a profile and 32 bytes, found others")]
pub struct Malformed;

/// The key holder's secret. It has no `Debug`, and is wiped on drop.
pub struct Holder {
    profile: ProfileName,
    seed: Seed,
}

impl Holder {
    /// A new holder, for a fleet of this profile.
    pub fn generate(profile: ProfileName, rng: &mut impl CryptoRng) -> Self {
        Self { profile, seed: Seed::random(rng) }
    }

    /// The profile of the fleet's frames.
    pub fn profile(&self) -> ProfileName {
        self.profile
    }

    /// The secret key that decrypts results.
    pub fn secret(&self, setting: &Setting) -> SecretKey {
        SecretKey::from_seed(&setting.parameters, self.seed.derive(SECRET | u64::from(self.profile.code())))
    }

    /// An evaluation key for the server, the same on every call; `None` for inputs that are not
    /// keys.
    pub fn key(&self, secret: &SecretKey, input: Input) -> Option<EvaluationKeys> {
        let name = key_name(input)?;
        let branch = Zeroizing::new(self.seed.derive(KEYS | u64::from(self.profile.code())).to_bytes());
        let seed: Zeroizing<[u8; 32]> =
            Zeroizing::new(Sha256::new().chain_update(&branch[..]).chain_update(name).finalize().into());
        client::key(secret, input, &mut ChaCha20Rng::from_seed(*seed))
    }

    /// The secrets of a cohort's devices, encrypted.
    ///
    /// # Errors
    /// [`EncodeError`] for a setting of other parameters.
    pub fn cohort(
        &self,
        setting: &Setting,
        secret: &SecretKey,
        registry: &Registry,
        cohort: usize,
        rng: &mut impl CryptoRng,
    ) -> Result<Vec<SeededCiphertext>, EncodeError> {
        with_profile!(self.profile, P => filled::<P>(setting, registry, cohort).encrypt(secret, rng))
    }

    /// The key for questions' names between key holder and server, the same after every start.
    pub fn question_names(&self) -> QuestionNames {
        QuestionNames::from_bytes(Zeroizing::new(self.seed.derive(NAMES).to_bytes()))
    }

    /// The 64 bytes from which the ML-KEM key follows.
    pub(super) fn kem_seed(&self) -> Zeroizing<[u8; 64]> {
        let mut seed = Zeroizing::new([0; 64]);
        for (half, branch) in seed.chunks_exact_mut(32).zip(KEM) {
            half.copy_from_slice(&*Zeroizing::new(self.seed.derive(branch).to_bytes()));
        }
        seed
    }

    /// The encoded holder, all of it secret.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut out = Zeroizing::new(Vec::with_capacity(HOLDER));
        out.extend_from_slice(&MAGIC);
        out.push(self.profile.code());
        out.extend_from_slice(&*Zeroizing::new(self.seed.to_bytes()));
        out
    }

    /// Reads an encoded holder.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let rest = bytes.strip_prefix(&MAGIC).ok_or(Malformed)?;
        let [code, seed @ ..] = rest else { return Err(Malformed) };
        let profile = ProfileName::from_code(*code).ok_or(Malformed)?;
        Ok(Self { profile, seed: Seed::from_bytes(seed.try_into().map_err(|_| Malformed)?) })
    }

    /// The setting of the fleet's computations.
    ///
    /// # Errors
    /// As [`Setting::of`].
    pub fn setting(&self) -> Result<Setting, SettingError> {
        Setting::of(self.profile)
    }
}

fn filled<P: Profile>(setting: &Setting, registry: &Registry, cohort: usize) -> Cohort {
    let (blocks, mut all) = (setting.layout.blocks(), Cohort::new(&setting.scheme, setting.layout));
    for (block, entry) in registry.entries().iter().skip(cohort * blocks).take(blocks).enumerate() {
        all.put(block, &Opener::<P>::new(&entry.root()));
    }
    all
}

/// Whatever decodes as a registry, a token or a key holder encodes to the same bytes.
#[doc(hidden)]
pub fn fuzz_registry(data: &[u8]) {
    if let Ok(holder) = Holder::decode(data) {
        assert_eq!(holder.encode()[..], *data);
    }
    if let Ok(registry) = Registry::decode(data) {
        assert_eq!(registry.encode()[..], *data);
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(token) = Token::decode(text)
    {
        assert_eq!(*token.encode(), text);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use tobari_lattice::wire;

    #[test]
    fn a_holder_that_is_read_has_the_same_keys_and_they_are_always_the_same_bytes() {
        let holder = Holder::generate(ProfileName::U25, &mut ChaCha20Rng::seed_from_u64(1));
        let read = Holder::decode(&holder.encode()).unwrap();
        let setting = read.setting().unwrap();
        let secrets = [holder.secret(&setting), read.secret(&setting)];
        let input = Input::Rotation { steps: 256, level: 1 };
        let bytes = |holder: &Holder, secret, input| wire::encode_evaluation_keys(&holder.key(secret, input).unwrap());
        let [first, second] = [bytes(&holder, &secrets[0], input), bytes(&read, &secrets[1], input)];
        assert!(first == second);
        assert!(first != bytes(&holder, &secrets[0], Input::Rotation { steps: 512, level: 1 }));
        assert!(holder.key(&secrets[0], Input::Body(0)).is_none());
        assert!(holder.kem_seed()[..] == read.kem_seed()[..] && holder.kem_seed()[..32] != holder.kem_seed()[32..]);
        let good = holder.encode();
        for length in 0..good.len() {
            assert!(Holder::decode(&good[..length]).is_err());
        }
        for place in 0..good.len() {
            for change in [1, 2, 128] {
                let mut changed = good.to_vec();
                changed[place] ^= change;
                fuzz_registry(&changed);
            }
        }
        let mut other = good.clone();
        other[4] = 9;
        assert!(Holder::decode(&other).is_err() && Holder::decode(&[&good[..], &[0]].concat()).is_err());
    }
}
