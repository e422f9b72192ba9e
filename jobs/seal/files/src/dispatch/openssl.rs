//! OpenSSL's EVP as an engine, as most programs use it: one message after another. It serves for
//! comparisons and as an oracle in tests. It links the system's library, so the feature `openssl`
//! is off by default.

use super::module::{Module, ModuleError};
use openssl::cipher::{Cipher, CipherRef};
use openssl::cipher_ctx::CipherCtx;
use tobari_seal::{Chunk, Gcm, Operation, Rooms};

const TAG_BYTES: usize = 16;

/// A module on the driver's own core. It sets key and IV anew for each message.
pub struct Openssl {
    context: Option<CipherCtx>,
    name: String,
}

impl Openssl {
    /// A module with its own context.
    pub fn new() -> Self {
        Self { context: CipherCtx::new().ok(), name: openssl::version::version().to_lowercase() }
    }
}

impl Default for Openssl {
    fn default() -> Self {
        Self::new()
    }
}

impl Module for Openssl {
    /// For example `openssl 3.0.19 27 jan 2026`.
    fn name(&self) -> &str {
        &self.name
    }

    fn label(&self) -> &'static str {
        "openssl-module"
    }

    fn takes(&self, _: &Chunk) -> bool {
        true
    }

    fn seal(&mut self, chunks: &[&Chunk]) -> Result<Rooms, ModuleError> {
        let context = self.context.as_mut().ok_or(ModuleError::Malformed)?;
        let mut rooms = Rooms::new(chunks).ok_or(ModuleError::Malformed)?;
        let mut fill = |chunk: &&Chunk, answer: &mut [u8]| {
            let parts = chunk.for_module()?;
            match parts.operation {
                Operation::Gcm => {
                    let (text, tag) = answer.split_at_mut_checked(parts.text.len())?;
                    text.copy_from_slice(parts.text);
                    let (key, nonce) = (parts.key.try_into().ok()?, parts.nonce().try_into().ok()?);
                    tag.copy_from_slice(&seal(context, key, nonce, parts.data, text)?);
                }
                Operation::CbcEncrypt => cbc(context, parts.key, parts.nonce(), true, parts.text, answer)?,
                Operation::CbcDecrypt => cbc(context, parts.key, parts.nonce(), false, parts.text, answer)?,
            }
            Some(())
        };
        let done = chunks.iter().zip(rooms.answers()).try_for_each(|(chunk, answer)| fill(chunk, answer));
        done.map(|()| rooms).ok_or(ModuleError::Malformed)
    }
}

fn cipher(key: &[u8]) -> Option<&'static CipherRef> {
    match key.len() {
        16 => Some(Cipher::aes_128_cbc()),
        24 => Some(Cipher::aes_192_cbc()),
        32 => Some(Cipher::aes_256_cbc()),
        _ => None,
    }
}

/// One whole message of CBC. Encryption adds the padding; decryption keeps it.
pub(super) fn cbc(
    context: &mut CipherCtx,
    key: &[u8],
    iv: &[u8],
    encrypts: bool,
    text: &[u8],
    answer: &mut [u8],
) -> Option<()> {
    let cipher = cipher(key)?;
    if encrypts {
        context.encrypt_init(Some(cipher), Some(key), Some(iv)).ok()?;
    } else {
        context.decrypt_init(Some(cipher), Some(key), Some(iv)).ok()?;
    }
    context.set_padding(encrypts);
    if answer.len() != (if encrypts { text.len() / 16 * 16 + 16 } else { text.len() }) {
        return None;
    }
    // SAFETY: a fresh context has nothing held back, so that it writes the whole blocks of the text
    // and no more, for which there is room
    let written = unsafe { context.cipher_update_unchecked(text, Some(answer)) }.ok()?;
    if encrypts {
        context.cipher_final(answer.get_mut(written..)?).ok()?;
    }
    Some(())
}

fn seal(
    context: &mut CipherCtx,
    key: &[u8; 32],
    nonce: &[u8; 12],
    data: &[u8],
    text: &mut [u8],
) -> Option<[u8; TAG_BYTES]> {
    context.encrypt_init(Some(Cipher::aes_256_gcm()), Some(key), Some(nonce)).ok()?;
    context.cipher_update(data, None).ok()?;
    context.cipher_update_inplace(text, text.len()).ok()?;
    context.cipher_final(&mut []).ok()?;
    let mut tag = [0; TAG_BYTES];
    context.tag(&mut tag).ok()?;
    Some(tag)
}

fn open(
    context: &mut CipherCtx,
    key: &[u8; 32],
    nonce: &[u8; 12],
    data: &[u8],
    text: &mut [u8],
    tag: &[u8; TAG_BYTES],
) -> Option<()> {
    context.decrypt_init(Some(Cipher::aes_256_gcm()), Some(key), Some(nonce)).ok()?;
    context.set_tag(tag).ok()?;
    context.cipher_update(data, None).ok()?;
    context.cipher_update_inplace(text, text.len()).ok()?;
    context.cipher_final(&mut []).ok().map(|_| ())
}

/// OpenSSL's AES-256-GCM. The caller provides each nonce.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpensslGcm;

impl Gcm for OpensslGcm {
    fn seal(&self, key: &[u8; 32], nonce: &[u8; 12], data: &[u8], text: &mut [u8]) -> [u8; 16] {
        let before = text.to_vec();
        let tag = CipherCtx::new().ok().and_then(|mut context| seal(&mut context, key, nonce, data, text));
        tag.unwrap_or_else(|| {
            // Without memory for OpenSSL, the portable implementation encrypts from the start.
            text.copy_from_slice(&before);
            tobari_seal::PortableGcm.seal(key, nonce, data, text)
        })
    }

    fn open(&self, key: &[u8; 32], nonce: &[u8; 12], data: &[u8], text: &mut [u8], tag: &[u8; 16]) -> bool {
        CipherCtx::new().is_ok_and(|mut context| open(&mut context, key, nonce, data, text, tag).is_some())
    }
}

/// OpenSSL's AES-256-GCM, one message after another in one context, each with its own key and
/// nonce: the baseline for [`RingGcm`](super::RingGcm), which works the same way.
pub struct OpensslGcmContext(CipherCtx);

impl OpensslGcmContext {
    /// A context; `None` if OpenSSL has no memory.
    pub fn new() -> Option<Self> {
        CipherCtx::new().ok().map(Self)
    }

    /// As [`Gcm::seal`].
    pub fn seal(&mut self, key: &[u8; 32], nonce: &[u8; 12], data: &[u8], text: &mut [u8]) -> Option<[u8; TAG_BYTES]> {
        seal(&mut self.0, key, nonce, data, text)
    }
}

/// OpenSSL's AES-CBC, one message after another under one key: the baseline for many chains side by
/// side.
pub struct OpensslCbc(CipherCtx);

impl OpensslCbc {
    /// AES-128, 192 or 256, by the key's length. `None` for another length, or if OpenSSL has no
    /// memory.
    pub fn new(key: &[u8]) -> Option<Self> {
        let mut context = CipherCtx::new().ok()?;
        context.encrypt_init(Some(cipher(key)?), Some(key), Some(&[0; 16])).ok()?;
        Some(Self(context))
    }

    /// Encrypts a whole message with its IV and padding. `answer` has the message's length and two
    /// more blocks.
    pub fn encrypt(&mut self, iv: &[u8; 16], text: &[u8], answer: &mut [u8]) -> Option<usize> {
        self.0.encrypt_init(None, None, Some(iv)).ok()?;
        let written = self.0.cipher_update(text, Some(answer)).ok()?;
        Some(written + self.0.cipher_final(answer.get_mut(written..)?).ok()?)
    }

    /// The same for decryption.
    pub fn for_decryption(key: &[u8]) -> Option<Self> {
        let mut context = CipherCtx::new().ok()?;
        context.decrypt_init(Some(cipher(key)?), Some(key), Some(&[0; 16])).ok()?;
        Some(Self(context))
    }

    /// Decrypts a whole message with its IV; the padding stays. `answer` has the ciphertext's
    /// length and one more block.
    pub fn decrypt(&mut self, iv: &[u8; 16], ciphertext: &[u8], answer: &mut [u8]) -> Option<usize> {
        self.0.decrypt_init(None, None, Some(iv)).ok()?;
        self.0.set_padding(false);
        self.0.cipher_update(ciphertext, Some(answer)).ok()
    }

    /// Continues the message with more whole blocks, without a new key or IV, as `openssl speed`
    /// does.
    pub fn go_on(&mut self, text: &[u8], answer: &mut [u8]) -> Option<usize> {
        self.0.cipher_update(text, Some(answer)).ok()
    }
}
