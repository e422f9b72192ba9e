//! The ciphersuite of MLS. `mls-rs` asks for cryptography through traits, implemented here.
//!
//! MLS leaves its cryptography to a *ciphersuite* (RFC 9420, 5.1). A group here has number 1,
//! `MLS_128_DHKEMX25519_AES128GCM_SHA256_Ed25519`. The name lists its parts:
//!
//! - **X25519** (RFC 7748) is the key agreement in HPKE. The keys in a group's tree are its keys.
//! - **HPKE** (RFC 9180) encrypts a committer's new secrets to the other members, and the group's
//!   secrets to newcomers. It consists of X25519, HKDF and AES-GCM: `primitives` has these three,
//!   and `mls-rs-crypto-hpke` composes them.
//! - **HKDF-SHA-256** (RFC 5869) is the key schedule. It derives each epoch's secrets from those of
//!   the epoch before and from the commit.
//! - **AES-128-GCM** (NIST SP 800-38D) encrypts commits, and messages of HPKE.
//! - **SHA-256 and HMAC** (FIPS 180-4, RFC 2104) hash trees and transcripts, and authenticate
//!   commits.
//! - **Ed25519** (RFC 8032) signs leaves, key packages and commits.
//!
//! The module never asks the system for randomness: [`Random`] draws from the caller's generator.
//! Secrets that it holds are wiped when they are dropped. Its errors contain no secrets.

use std::sync::{Arc, Mutex, PoisonError};

use chacha20::{
    ChaCha20Rng,
    rand_core::{Rng, SeedableRng},
};
use mls_rs_core::crypto::{
    CipherSuite, CipherSuiteProvider, CryptoProvider, HpkeCiphertext, HpkePsk, HpkePublicKey, HpkeSecretKey,
    SignaturePublicKey, SignatureSecretKey,
};
use mls_rs_crypto_hpke::{
    context::{ContextR, ContextS},
    dhkem::DhKem,
    hpke::Hpke,
};
use mls_rs_crypto_traits::{AeadType, KdfType, KemId};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

pub(crate) use primitives::check_public_key;
use primitives::{Aead, CryptoError, Dh, Kdf};

mod primitives;

/// The only supported suite.
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
        // the random stream stays sound after a panic elsewhere
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(out);
    }
}

/// Gives the library the suite.
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
        let (id, random) = (KemId::DhKemX25519Sha256, self.random.clone());
        let kem = DhKem::new(Dh { random: random.clone() }, Kdf, id as u16, id.n_secret());
        Some(Suite { hpke: Hpke::new(kem, Kdf, Some(Aead)), random })
    }
}

/// The suite.
#[derive(Clone)]
pub(crate) struct Suite {
    hpke: Hpke<DhKem<Dh, Kdf>, Kdf, Aead>,
    random: Random,
}

impl CipherSuiteProvider for Suite {
    type Error = CryptoError;
    type HpkeContextS = ContextS<Kdf, Aead>;
    type HpkeContextR = ContextR<Kdf, Aead>;

    fn random_bytes(&self, out: &mut [u8]) -> Result<(), CryptoError> {
        self.random.fill(out);
        Ok(())
    }

    fn signature_key_generate(&self) -> Result<(SignatureSecretKey, SignaturePublicKey), CryptoError> {
        let mut seed = Zeroizing::new([0; 32]);
        self.random.fill(seed.as_mut());
        Ok(primitives::signature_key(&seed))
    }

    fn cipher_suite(&self) -> CipherSuite {
        SUITE
    }

    fn hash(&self, data: &[u8]) -> Result<Vec<u8>, CryptoError> {
        Ok(primitives::hash(data))
    }

    fn mac(&self, key: &[u8], data: &[u8]) -> Result<Vec<u8>, CryptoError> {
        primitives::mac(key, data)
    }

    fn aead_seal(&self, key: &[u8], data: &[u8], aad: Option<&[u8]>, nonce: &[u8]) -> Result<Vec<u8>, CryptoError> {
        Aead.seal(key, data, aad, nonce)
    }

    fn aead_open(
        &self,
        key: &[u8],
        sealed: &[u8],
        aad: Option<&[u8]>,
        nonce: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, CryptoError> {
        Aead.open(key, sealed, aad, nonce).map(Zeroizing::new)
    }

    fn aead_key_size(&self) -> usize {
        Aead.key_size()
    }

    fn aead_nonce_size(&self) -> usize {
        Aead.nonce_size()
    }

    fn kdf_extract(&self, salt: &[u8], ikm: &[u8]) -> Result<Zeroizing<Vec<u8>>, CryptoError> {
        Kdf.extract(salt, ikm).map(Zeroizing::new)
    }

    fn kdf_expand(&self, prk: &[u8], info: &[u8], len: usize) -> Result<Zeroizing<Vec<u8>>, CryptoError> {
        Kdf.expand(prk, info, len).map(Zeroizing::new)
    }

    fn kdf_extract_size(&self) -> usize {
        Kdf.extract_size()
    }

    fn hpke_seal(
        &self,
        key: &HpkePublicKey,
        info: &[u8],
        aad: Option<&[u8]>,
        data: &[u8],
    ) -> Result<HpkeCiphertext, CryptoError> {
        Ok(self.hpke.seal(key, info, None, aad, data)?)
    }

    fn hpke_seal_psk(
        &self,
        key: &HpkePublicKey,
        info: &[u8],
        aad: Option<&[u8]>,
        data: &[u8],
        psk: HpkePsk<'_>,
    ) -> Result<HpkeCiphertext, CryptoError> {
        Ok(self.hpke.seal(key, info, Some(psk), aad, data)?)
    }

    fn hpke_open(
        &self,
        sealed: &HpkeCiphertext,
        secret: &HpkeSecretKey,
        public: &HpkePublicKey,
        info: &[u8],
        aad: Option<&[u8]>,
    ) -> Result<Zeroizing<Vec<u8>>, CryptoError> {
        Ok(self.hpke.open(sealed, secret, public, info, None, aad)?)
    }

    fn hpke_open_psk(
        &self,
        sealed: &HpkeCiphertext,
        secret: &HpkeSecretKey,
        public: &HpkePublicKey,
        info: &[u8],
        aad: Option<&[u8]>,
        psk: HpkePsk<'_>,
    ) -> Result<Zeroizing<Vec<u8>>, CryptoError> {
        Ok(self.hpke.open(sealed, secret, public, info, Some(psk), aad)?)
    }

    fn hpke_setup_s(&self, key: &HpkePublicKey, info: &[u8]) -> Result<(Vec<u8>, Self::HpkeContextS), CryptoError> {
        Ok(self.hpke.setup_sender(key, info, None)?)
    }

    fn hpke_setup_r(
        &self,
        kem_output: &[u8],
        secret: &HpkeSecretKey,
        public: &HpkePublicKey,
        info: &[u8],
    ) -> Result<Self::HpkeContextR, CryptoError> {
        Ok(self.hpke.setup_receiver(kem_output, secret, public, info, None)?)
    }

    fn kem_derive(&self, ikm: &[u8]) -> Result<(HpkeSecretKey, HpkePublicKey), CryptoError> {
        Ok(self.hpke.derive(ikm)?)
    }

    fn kem_generate(&self) -> Result<(HpkeSecretKey, HpkePublicKey), CryptoError> {
        Ok(self.hpke.generate()?)
    }

    fn kem_public_key_validate(&self, key: &HpkePublicKey) -> Result<(), CryptoError> {
        Ok(self.hpke.public_key_validate(key)?)
    }

    fn signature_key_derive_public(&self, secret: &SignatureSecretKey) -> Result<SignaturePublicKey, CryptoError> {
        primitives::public_of(secret)
    }

    fn sign(&self, secret: &SignatureSecretKey, data: &[u8]) -> Result<Vec<u8>, CryptoError> {
        primitives::sign(secret, data)
    }

    fn verify(&self, public: &SignaturePublicKey, signature: &[u8], data: &[u8]) -> Result<(), CryptoError> {
        primitives::verify(public, signature, data)
    }
}

#[cfg(test)]
mod tests;
