//! State that an enclave leaves with its host, encrypted for the same code under the same
//! configuration.
//!
//! The key is derived (HKDF-SHA256) from a root secret of the platform and the measurement, so
//! another measurement has another key. The cipher is XChaCha20-Poly1305 with a random nonce of 24
//! bytes; version and label are authenticated. Bytes: version (1), nonce (24), ciphertext, tag
//! (16).
//!
//! - **No protection against rollback.** An enclave does not notice a host that keeps an older
//!   sealed state and returns it. No counter outlives the enclave, neither here nor on the planned
//!   platforms. Do not seal state that must not repeat (budgets, nonces).
//! - **The simulated platform has no root secret.** The party that starts the process supplies the
//!   secret, and can decrypt the state with it.

use crate::evidence::Measurement;
use chacha20poly1305::aead::{AeadInOut, KeyInit, inout::InOutBuf};
use chacha20poly1305::{Tag, XChaCha20Poly1305, XNonce};
use hkdf::Hkdf;
use rand_core::CryptoRng;
use sha2::Sha256;
use zeroize::{Zeroize, Zeroizing};

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 1 + 24;
const TAG_BYTES: usize = 16;

/// This enclave did not seal these bytes under this label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected state that this enclave sealed under this label, found something else")]
pub struct NotOurs;

/// Seals and opens state for one measurement. Its key is wiped on drop.
pub struct Sealer(XChaCha20Poly1305);

impl Sealer {
    /// The sealer for this measurement, from the platform's root secret.
    pub fn new(root: &[u8; 32], measurement: &Measurement) -> Self {
        let mut key = Zeroizing::new([0; 32]);
        let info = [b"tobari enclave seal 1".as_slice(), measurement.digest().as_bytes()].concat();
        // 32 bytes are fewer than HKDF's limit of 255 blocks.
        let _ = Hkdf::<Sha256>::new(None, root).expand(&info, key.as_mut());
        Self(XChaCha20Poly1305::new((&*key).into()))
    }

    /// Encrypts `state` under `label`, which identifies the state and is not secret.
    ///
    /// # Errors
    ///
    /// [`NotOurs`] for a state beyond the cipher's limit of 256 GiB.
    pub fn seal(&self, label: &[u8], state: &[u8], rng: &mut (impl CryptoRng + ?Sized)) -> Result<Vec<u8>, NotOurs> {
        let mut nonce = [0; 24];
        rng.fill_bytes(&mut nonce);
        let mut sealed = Vec::with_capacity(HEAD_BYTES + state.len() + TAG_BYTES);
        sealed.push(VERSION);
        sealed.extend(nonce);
        sealed.extend(state);
        let data = additional_data(label);
        let body = InOutBuf::from(&mut sealed[HEAD_BYTES..]);
        let Ok(tag) = self.0.encrypt_inout_detached(&XNonce::from(nonce), &data, body) else {
            sealed.zeroize();
            return Err(NotOurs);
        };
        sealed.extend(tag.as_slice());
        Ok(sealed)
    }

    /// Decrypts state that this code and configuration sealed under `label`.
    ///
    /// # Errors
    ///
    /// [`NotOurs`] for any other bytes.
    pub fn open(&self, label: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, NotOurs> {
        let (&version, rest) = sealed.split_first().ok_or(NotOurs)?;
        let (nonce, rest) = rest.split_first_chunk::<24>().ok_or(NotOurs)?;
        let (body, tag) = rest.split_last_chunk::<TAG_BYTES>().ok_or(NotOurs)?;
        if version != VERSION {
            return Err(NotOurs);
        }
        let mut state = Zeroizing::new(body.to_vec());
        let data = additional_data(label);
        let buffer = InOutBuf::from(state.as_mut_slice());
        self.0.decrypt_inout_detached(&XNonce::from(*nonce), &data, buffer, &Tag::from(*tag)).map_err(|_| NotOurs)?;
        Ok(state)
    }
}

fn additional_data(label: &[u8]) -> Vec<u8> {
    [[VERSION].as_slice(), label].concat()
}
