//! The primitives of the ciphersuite, as the traits of `mls-rs` describe them.

use aes_gcm::{
    Aes128Gcm, Nonce, Tag,
    aead::{AeadInOut, KeyInit, consts::U12, inout::InOutBuf},
};
use curve25519_dalek::{MontgomeryPoint, traits::IsIdentity};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use hkdf::Hkdf;
use hmac::{Hmac, Mac};
use mls_rs_core::{
    crypto::{HpkePublicKey, HpkeSecretKey, SignaturePublicKey, SignatureSecretKey},
    error::IntoAnyError,
};
use mls_rs_crypto_hpke::hpke::HpkeError;
use mls_rs_crypto_traits::{AES_TAG_LEN, AeadId, AeadType, DhType, KdfId, KdfType, SamplingMethod};
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

use super::Random;

/// Why a primitive gave no result. No variant holds bytes of a key or of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CryptoError {
    #[error("{what} of {found} bytes: expected {expected}")]
    Length { what: &'static str, found: usize, expected: &'static str },
    #[error("the X25519 public key has a small order, so the shared secret would be zero")]
    SmallOrder,
    #[error("decryption failed: the key, the nonce, the associated data or the ciphertext is wrong")]
    Decryption,
    #[error("expected an Ed25519 key, found other bytes")]
    SignatureKey,
    #[error("the signature does not match the key and the message")]
    Signature,
    #[error("HPKE failed: {0}")]
    Hpke(&'static str),
}

impl IntoAnyError for CryptoError {}

impl From<HpkeError> for CryptoError {
    /// Without its feature `std`, the library keeps the step that failed and drops the cause.
    fn from(error: HpkeError) -> Self {
        Self::Hpke(match error {
            HpkeError::KemError(_) => "the key agreement rejected a key",
            HpkeError::KdfError(_) => "no key could be derived",
            HpkeError::AeadError(_) => "the message could not be encrypted or decrypted",
            HpkeError::InsufficientPskLength => "the pre-shared key has fewer than 32 bytes",
            HpkeError::SequenceNumberOverflow => "the context has encrypted as many messages as it may",
            _ => "a context has a key or a nonce of a wrong length",
        })
    }
}

fn array<'a, const N: usize>(
    what: &'static str,
    expected: &'static str,
    bytes: &'a [u8],
) -> Result<&'a [u8; N], CryptoError> {
    bytes.try_into().map_err(|_| CryptoError::Length { what, found: bytes.len(), expected })
}

/// X25519 (RFC 7748), with key pairs from [`Random`].
#[derive(Clone)]
pub(crate) struct Dh {
    pub(super) random: Random,
}

fn secret_key(key: &HpkeSecretKey) -> Result<&[u8; 32], CryptoError> {
    array("X25519 secret key", "32", key)
}

fn public_key(key: &[u8]) -> Result<MontgomeryPoint, CryptoError> {
    array("X25519 public key", "32", key).map(|bytes| MontgomeryPoint(*bytes))
}

/// Fails for a public key that nobody can encrypt to.
pub(crate) fn check_public_key(key: &[u8]) -> Result<(), CryptoError> {
    // Clamped secret keys are multiples of 8. If 8 (in bits: 1000) times this point is zero, then
    // so is every shared secret.
    let multiple = public_key(key)?.mul_bits_be([true, false, false, false].into_iter());
    if multiple.is_identity() { Err(CryptoError::SmallOrder) } else { Ok(()) }
}

impl DhType for Dh {
    type Error = CryptoError;

    fn dh(&self, secret: &HpkeSecretKey, public: &HpkePublicKey) -> Result<Vec<u8>, CryptoError> {
        let shared = Zeroizing::new(public_key(public)?.mul_clamped(*secret_key(secret)?));
        // RFC 9180, 7.1.4, and RFC 7748, 6.1: everybody would know a shared secret of zero
        if shared.is_identity() { Err(CryptoError::SmallOrder) } else { Ok(shared.as_bytes().to_vec()) }
    }

    fn generate(&self) -> Result<(HpkeSecretKey, HpkePublicKey), CryptoError> {
        // any 32 bytes are a secret key: the multiplication clamps them
        let mut secret = vec![0; self.secret_key_size()];
        self.random.fill(&mut secret);
        let secret = HpkeSecretKey::from(secret);
        let public = self.to_public(&secret)?;
        Ok((secret, public))
    }

    fn to_public(&self, secret: &HpkeSecretKey) -> Result<HpkePublicKey, CryptoError> {
        let public = MontgomeryPoint::mul_base_clamped(*secret_key(secret)?);
        Ok(public.to_bytes().to_vec().into())
    }

    fn bitmask_for_rejection_sampling(&self) -> SamplingMethod {
        SamplingMethod::HpkeWithoutBitmask
    }

    fn secret_key_size(&self) -> usize {
        32
    }

    fn public_key_size(&self) -> usize {
        32
    }

    fn public_key_validate(&self, key: &HpkePublicKey) -> Result<(), CryptoError> {
        check_public_key(key)
    }
}

/// HKDF-SHA-256 (RFC 5869).
#[derive(Clone, Copy)]
pub(crate) struct Kdf;

impl KdfType for Kdf {
    type Error = CryptoError;

    fn kdf_id(&self) -> u16 {
        KdfId::HkdfSha256 as u16
    }

    fn expand(&self, prk: &[u8], info: &[u8], len: usize) -> Result<Vec<u8>, CryptoError> {
        let length = |what, found, expected| CryptoError::Length { what, found, expected };
        let hkdf = Hkdf::<Sha256>::from_prk(prk);
        let hkdf = hkdf.map_err(|_| length("pseudorandom key of HKDF", prk.len(), "at least 32"))?;
        let mut out = vec![0; len];
        hkdf.expand(info, &mut out).map_err(|_| length("output of HKDF", len, "at most 8160"))?;
        Ok(out)
    }

    fn extract(&self, salt: &[u8], ikm: &[u8]) -> Result<Vec<u8>, CryptoError> {
        // the output would depend on the salt alone: the caller lost its secret
        if ikm.is_empty() {
            return Err(CryptoError::Length { what: "input of HKDF", found: 0, expected: "at least 1" });
        }
        let mut prk = Hkdf::<Sha256>::extract(Some(salt), ikm).0;
        let out = prk.to_vec();
        prk.as_mut_slice().zeroize();
        Ok(out)
    }

    fn extract_size(&self) -> usize {
        32
    }
}

/// AES-128-GCM (NIST SP 800-38D), with the tag after the ciphertext. MLS never encrypts an empty
/// message, so an empty message is an error.
#[derive(Clone, Copy)]
pub(crate) struct Aead;

fn cipher(key: &[u8]) -> Result<Aes128Gcm, CryptoError> {
    array::<16>("AES key", "16", key).map(|key| Aes128Gcm::new(key.into()))
}

fn nonce(bytes: &[u8]) -> Result<&Nonce<U12>, CryptoError> {
    array::<12>("nonce of AES-GCM", "12", bytes).map(Into::into)
}

impl AeadType for Aead {
    type Error = CryptoError;

    fn aead_id(&self) -> u16 {
        AeadId::Aes128Gcm as u16
    }

    fn seal(&self, key: &[u8], data: &[u8], aad: Option<&[u8]>, number: &[u8]) -> Result<Vec<u8>, CryptoError> {
        let (cipher, number) = (cipher(key)?, nonce(number)?);
        let length = |expected| CryptoError::Length { what: "plaintext of AES-GCM", found: data.len(), expected };
        if data.is_empty() {
            return Err(length("at least 1"));
        }
        // with room for the tag: growing would leave a copy of the plaintext in memory
        let mut out = Vec::with_capacity(data.len() + AES_TAG_LEN);
        out.extend_from_slice(data);
        let text = InOutBuf::from(&mut out[..]);
        let tag = cipher.encrypt_inout_detached(number, aad.unwrap_or_default(), text);
        out.extend_from_slice(&tag.map_err(|_| length("at most 64 GiB"))?);
        Ok(out)
    }

    fn open(&self, key: &[u8], sealed: &[u8], aad: Option<&[u8]>, number: &[u8]) -> Result<Vec<u8>, CryptoError> {
        let (cipher, number) = (cipher(key)?, nonce(number)?);
        let short = CryptoError::Length { what: "ciphertext of AES-GCM", found: sealed.len(), expected: "at least 17" };
        let (body, tag) = sealed.split_last_chunk::<AES_TAG_LEN>().filter(|(body, _)| !body.is_empty()).ok_or(short)?;
        // the tag is checked before any byte is decrypted, so an error leaves no plaintext here
        let mut out = body.to_vec();
        let text = InOutBuf::from(&mut out[..]);
        let opened = cipher.decrypt_inout_detached(number, aad.unwrap_or_default(), text, &Tag::from(*tag));
        opened.map(|()| out).map_err(|_| CryptoError::Decryption)
    }

    fn key_size(&self) -> usize {
        16
    }

    fn nonce_size(&self) -> usize {
        12
    }
}

/// SHA-256 (FIPS 180-4).
pub(super) fn hash(data: &[u8]) -> Vec<u8> {
    Sha256::digest(data).to_vec()
}

/// HMAC-SHA-256 (RFC 2104). A key may have any length.
pub(super) fn mac(key: &[u8], data: &[u8]) -> Result<Vec<u8>, CryptoError> {
    let mac = Hmac::<Sha256>::new_from_slice(key);
    let mac = mac.map_err(|_| CryptoError::Length { what: "HMAC key", found: key.len(), expected: "any length" })?;
    Ok(mac.chain_update(data).finalize().into_bytes().to_vec())
}

/// A signature key from its seed (RFC 8032). The secret key is the pair: the seed, then the public
/// key.
pub(super) fn signature_key(seed: &[u8; 32]) -> (SignatureSecretKey, SignaturePublicKey) {
    let pair = Zeroizing::new(SigningKey::from_bytes(seed).to_keypair_bytes());
    (SignatureSecretKey::new_slice(&*pair), SignaturePublicKey::new_slice(&pair[32..]))
}

/// The Ed25519 key of a pair, if the two halves belong together.
fn signing_key(pair: &SignatureSecretKey) -> Result<SigningKey, CryptoError> {
    let pair = array("Ed25519 key pair", "64", pair.as_bytes())?;
    // signing one message under two public keys would reveal the secret key
    SigningKey::from_keypair_bytes(pair).map_err(|_| CryptoError::SignatureKey)
}

pub(super) fn public_of(pair: &SignatureSecretKey) -> Result<SignaturePublicKey, CryptoError> {
    signing_key(pair).map(|key| SignaturePublicKey::new_slice(key.verifying_key().as_bytes()))
}

pub(super) fn sign(pair: &SignatureSecretKey, data: &[u8]) -> Result<Vec<u8>, CryptoError> {
    Ok(signing_key(pair)?.sign(data).to_bytes().to_vec())
}

/// Checks an Ed25519 signature strictly, as hellos are checked: keys and nonces of small order are
/// rejected. Under a key of small order, one signature can be valid for many messages.
pub(super) fn verify(public: &SignaturePublicKey, signature: &[u8], data: &[u8]) -> Result<(), CryptoError> {
    let key = array("Ed25519 public key", "32", public.as_bytes())?;
    let key = VerifyingKey::from_bytes(key).map_err(|_| CryptoError::SignatureKey)?;
    let signature = Signature::from_bytes(array("Ed25519 signature", "64", signature)?);
    key.verify_strict(data, &signature).map_err(|_| CryptoError::Signature)
}
