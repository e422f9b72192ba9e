//! The cryptography of MLS: `mls-rs-crypto-rustcrypto` with the randomness of the caller.
//!
//! That crate draws from the system in three places: nonces and secrets (`random_bytes`), key pairs of the KEM, and signature keys. The
//! first and the second are replaced here; signature keys are made in `group`. All else is passed on.

use std::sync::{Arc, Mutex, PoisonError};

use chacha20::{
    ChaCha20Rng,
    rand_core::{Rng, SeedableRng},
};
use mls_rs_core::crypto::{
    CipherSuite, CipherSuiteProvider, CryptoProvider, HpkeCiphertext, HpkePsk, HpkePublicKey, HpkeSecretKey,
    SignaturePublicKey, SignatureSecretKey,
};
use mls_rs_crypto_hpke::dhkem::DhKem;
use mls_rs_crypto_rustcrypto::{RustCryptoCipherSuite, RustCryptoError, aead::Aead, ecdh::Ecdh, kdf::Kdf};
use mls_rs_crypto_traits::{DhType, KemId, SamplingMethod};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

/// The one suite.
pub(crate) const SUITE: CipherSuite = CipherSuite::CURVE25519_AES128;

/// Randomness that was seeded by the caller. Clones draw from one stream.
#[derive(Clone)]
pub(crate) struct Random(Arc<Mutex<ChaCha20Rng>>);

impl Random {
    pub(crate) fn new(rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        let mut seed = Zeroizing::new([0; 32]);
        rng.fill_bytes(seed.as_mut());
        Self(Arc::new(Mutex::new(ChaCha20Rng::from_seed(*seed))))
    }

    pub(crate) fn fill(&self, out: &mut [u8]) {
        // a stream of random numbers is as good after a panic elsewhere
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(out);
    }
}

/// Diffie and Hellman on Curve25519, with keys from [`Random`].
#[derive(Clone)]
pub(crate) struct Dh {
    inner: Ecdh,
    random: Random,
}

impl DhType for Dh {
    type Error = <Ecdh as DhType>::Error;

    fn dh(&self, secret: &HpkeSecretKey, public: &HpkePublicKey) -> Result<Vec<u8>, Self::Error> {
        self.inner.dh(secret, public)
    }

    fn generate(&self) -> Result<(HpkeSecretKey, HpkePublicKey), Self::Error> {
        // every 32 bytes are a key of X25519 (RFC 7748)
        let mut secret = vec![0; self.secret_key_size()];
        self.random.fill(&mut secret);
        let secret = HpkeSecretKey::from(secret);
        let public = self.to_public(&secret)?;
        Ok((secret, public))
    }

    fn to_public(&self, secret: &HpkeSecretKey) -> Result<HpkePublicKey, Self::Error> {
        self.inner.to_public(secret)
    }

    fn bitmask_for_rejection_sampling(&self) -> SamplingMethod {
        self.inner.bitmask_for_rejection_sampling()
    }

    fn secret_key_size(&self) -> usize {
        self.inner.secret_key_size()
    }

    fn public_key_size(&self) -> usize {
        self.inner.public_key_size()
    }

    fn public_key_validate(&self, key: &HpkePublicKey) -> Result<(), Self::Error> {
        self.inner.public_key_validate(key)
    }
}

type Inner = RustCryptoCipherSuite<DhKem<Dh, Kdf>, Kdf, Aead>;

/// Where the library finds the suite.
#[derive(Clone)]
pub(crate) struct Provider {
    pub(crate) random: Random,
}

impl CryptoProvider for Provider {
    type CipherSuiteProvider = Suite;

    fn supported_cipher_suites(&self) -> Vec<CipherSuite> {
        vec![SUITE]
    }

    fn cipher_suite_provider(&self, suite: CipherSuite) -> Option<Suite> {
        if suite != SUITE {
            return None;
        }
        let (kdf, id) = (Kdf::new(suite)?, KemId::new(suite)?);
        let dh = Dh { inner: Ecdh::new(suite)?, random: self.random.clone() };
        let kem = DhKem::new(dh, kdf, id as u16, id.n_secret());
        let inner = Inner::new(suite, kem, kdf, Aead::new(suite)?)?;
        Some(Suite { inner, random: self.random.clone() })
    }
}

/// The suite.
#[derive(Clone)]
pub(crate) struct Suite {
    inner: Inner,
    random: Random,
}

impl CipherSuiteProvider for Suite {
    type Error = RustCryptoError;
    type HpkeContextS = <Inner as CipherSuiteProvider>::HpkeContextS;
    type HpkeContextR = <Inner as CipherSuiteProvider>::HpkeContextR;

    fn random_bytes(&self, out: &mut [u8]) -> Result<(), RustCryptoError> {
        self.random.fill(out);
        Ok(())
    }

    fn signature_key_generate(&self) -> Result<(SignatureSecretKey, SignaturePublicKey), RustCryptoError> {
        let mut seed = Zeroizing::new([0; 32]);
        self.random.fill(seed.as_mut());
        Ok(signature_key(&seed))
    }

    fn cipher_suite(&self) -> CipherSuite {
        self.inner.cipher_suite()
    }

    fn hash(&self, data: &[u8]) -> Result<Vec<u8>, RustCryptoError> {
        self.inner.hash(data)
    }

    fn mac(&self, key: &[u8], data: &[u8]) -> Result<Vec<u8>, RustCryptoError> {
        self.inner.mac(key, data)
    }

    fn aead_seal(&self, key: &[u8], data: &[u8], aad: Option<&[u8]>, nonce: &[u8]) -> Result<Vec<u8>, RustCryptoError> {
        self.inner.aead_seal(key, data, aad, nonce)
    }

    fn aead_open(
        &self,
        key: &[u8],
        sealed: &[u8],
        aad: Option<&[u8]>,
        nonce: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, RustCryptoError> {
        self.inner.aead_open(key, sealed, aad, nonce)
    }

    fn aead_key_size(&self) -> usize {
        self.inner.aead_key_size()
    }

    fn aead_nonce_size(&self) -> usize {
        self.inner.aead_nonce_size()
    }

    fn kdf_extract(&self, salt: &[u8], ikm: &[u8]) -> Result<Zeroizing<Vec<u8>>, RustCryptoError> {
        self.inner.kdf_extract(salt, ikm)
    }

    fn kdf_expand(&self, prk: &[u8], info: &[u8], len: usize) -> Result<Zeroizing<Vec<u8>>, RustCryptoError> {
        self.inner.kdf_expand(prk, info, len)
    }

    fn kdf_extract_size(&self) -> usize {
        self.inner.kdf_extract_size()
    }

    fn hpke_seal(
        &self,
        key: &HpkePublicKey,
        info: &[u8],
        aad: Option<&[u8]>,
        data: &[u8],
    ) -> Result<HpkeCiphertext, RustCryptoError> {
        self.inner.hpke_seal(key, info, aad, data)
    }

    fn hpke_seal_psk(
        &self,
        key: &HpkePublicKey,
        info: &[u8],
        aad: Option<&[u8]>,
        data: &[u8],
        psk: HpkePsk<'_>,
    ) -> Result<HpkeCiphertext, RustCryptoError> {
        self.inner.hpke_seal_psk(key, info, aad, data, psk)
    }

    fn hpke_open(
        &self,
        sealed: &HpkeCiphertext,
        secret: &HpkeSecretKey,
        public: &HpkePublicKey,
        info: &[u8],
        aad: Option<&[u8]>,
    ) -> Result<Zeroizing<Vec<u8>>, RustCryptoError> {
        self.inner.hpke_open(sealed, secret, public, info, aad)
    }

    fn hpke_open_psk(
        &self,
        sealed: &HpkeCiphertext,
        secret: &HpkeSecretKey,
        public: &HpkePublicKey,
        info: &[u8],
        aad: Option<&[u8]>,
        psk: HpkePsk<'_>,
    ) -> Result<Zeroizing<Vec<u8>>, RustCryptoError> {
        self.inner.hpke_open_psk(sealed, secret, public, info, aad, psk)
    }

    fn hpke_setup_s(&self, key: &HpkePublicKey, info: &[u8]) -> Result<(Vec<u8>, Self::HpkeContextS), RustCryptoError> {
        self.inner.hpke_setup_s(key, info)
    }

    fn hpke_setup_r(
        &self,
        kem_output: &[u8],
        secret: &HpkeSecretKey,
        public: &HpkePublicKey,
        info: &[u8],
    ) -> Result<Self::HpkeContextR, RustCryptoError> {
        self.inner.hpke_setup_r(kem_output, secret, public, info)
    }

    fn kem_derive(&self, ikm: &[u8]) -> Result<(HpkeSecretKey, HpkePublicKey), RustCryptoError> {
        self.inner.kem_derive(ikm)
    }

    fn kem_generate(&self) -> Result<(HpkeSecretKey, HpkePublicKey), RustCryptoError> {
        self.inner.kem_generate()
    }

    fn kem_public_key_validate(&self, key: &HpkePublicKey) -> Result<(), RustCryptoError> {
        self.inner.kem_public_key_validate(key)
    }

    fn signature_key_derive_public(&self, secret: &SignatureSecretKey) -> Result<SignaturePublicKey, RustCryptoError> {
        self.inner.signature_key_derive_public(secret)
    }

    fn sign(&self, secret: &SignatureSecretKey, data: &[u8]) -> Result<Vec<u8>, RustCryptoError> {
        self.inner.sign(secret, data)
    }

    fn verify(&self, public: &SignaturePublicKey, signature: &[u8], data: &[u8]) -> Result<(), RustCryptoError> {
        self.inner.verify(public, signature, data)
    }
}

/// A signature key from its seed, as RFC 8032 has it.
fn signature_key(seed: &[u8; 32]) -> (SignatureSecretKey, SignaturePublicKey) {
    let key = ed25519_dalek::SigningKey::from_bytes(seed);
    let pair = Zeroizing::new(key.to_keypair_bytes());
    (SignatureSecretKey::new_slice(&*pair), SignaturePublicKey::new_slice(&pair[32..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_makes_one_stream_of_keys_and_no_other_does() {
        let suite = |seed: u8| {
            let random = Random::new(&mut ChaCha20Rng::from_seed([seed; 32]));
            Provider { random }.cipher_suite_provider(SUITE).unwrap()
        };
        let drawn = |seed: u8| {
            let suite = suite(seed);
            let keys: Vec<_> = (0..2).map(|_| suite.kem_generate().unwrap().1.to_vec()).collect();
            let sealed = suite.hpke_seal(&keys[0].clone().into(), b"", None, b"words").unwrap();
            [keys, vec![sealed.kem_output, suite.signature_key_generate().unwrap().1.to_vec()]].concat()
        };
        assert_eq!(drawn(1), drawn(1));
        let all: std::collections::HashSet<_> = [drawn(1), drawn(2)].concat().into_iter().collect();
        assert_eq!(all.len(), 8, "nothing is drawn twice");
    }

    #[test]
    fn keys_from_here_are_keys_to_the_library() {
        let random = Random::new(&mut ChaCha20Rng::from_seed([3; 32]));
        let suite = Provider { random }.cipher_suite_provider(SUITE).unwrap();
        let (secret, public) = suite.signature_key_generate().unwrap();
        assert_eq!(suite.signature_key_derive_public(&secret).unwrap(), public);
        let signature = suite.sign(&secret, b"words").unwrap();
        assert!(suite.verify(&public, &signature, b"words").is_ok() && suite.verify(&public, &signature, b"").is_err());
        assert!(Provider { random: suite.random }.cipher_suite_provider(CipherSuite::P256_AES128).is_none());
    }

    #[test]
    fn what_is_sealed_here_opens_with_the_provider_of_the_system_and_the_other_way() {
        let random = Random::new(&mut ChaCha20Rng::from_seed([4; 32]));
        let ours = Provider { random }.cipher_suite_provider(SUITE).unwrap();
        let theirs = mls_rs_crypto_rustcrypto::RustCryptoProvider::new().cipher_suite_provider(SUITE).unwrap();
        let (secret, public) = theirs.kem_generate().unwrap();
        let sealed = ours.hpke_seal(&public, b"info", Some(b"aad"), b"words").unwrap();
        assert_eq!(*theirs.hpke_open(&sealed, &secret, &public, b"info", Some(b"aad")).unwrap(), b"words");
        let (secret, public) = ours.kem_generate().unwrap();
        let sealed = theirs.hpke_seal(&public, b"info", Some(b"aad"), b"words").unwrap();
        assert_eq!(*ours.hpke_open(&sealed, &secret, &public, b"info", Some(b"aad")).unwrap(), b"words");
        assert!(ours.hpke_open(&sealed, &secret, &public, b"other", Some(b"aad")).is_err());
    }
}
