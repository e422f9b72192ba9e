//! AES in CBC mode over many messages at once.
//!
//! CBC encrypts block `i` as `C_i = E_k(P_i ⊕ C_{i-1})`, where `C_{-1}` is the initialisation
//! vector (NIST SP 800-38A, 6.2). This is a chain: one message keeps an AES unit busy for one block
//! in the time of ten to fourteen rounds' *latency*. Independent messages have independent chains.
//! With as many of them side by side as the unit's latency times its width, the unit never waits
//! (Intel's multi-buffer library of 2010 was the first of many with this design). Decryption,
//! `P_i = D_k(C_i) ⊕ C_{i-1}`, has no chain, and takes one message at a time.
//!
//! Each message has its own key and initialisation vector, and is padded by PKCS#7 (RFC 5652, 6.3):
//! 1 to 16 bytes, each of which is their number. Messages of unequal length may run together: a
//! lane that has finished one message takes the next.
//!
//! | backend | method |
//! |---|---|
//! | `vaes512` | four blocks in one instruction (VAES and AVX-512), up to 32 chains |
//! | `vaes256` | two blocks in one instruction (VAES and AVX2), up to 16 chains, in `registers` |
//! | `aesni` | one block in one instruction, up to 8 chains: the same loops |
//! | `library` | the `aes` crate, up to 32 chains of one key |
//!
//! In `vaes512`, `even512` takes sixteen messages of one key and one length. The `aes` crate uses
//! ARMv8 instructions if the processor has them, and constant-time bitsliced code otherwise.
//! `library` shares only the padding with the others, and all backends give the same bytes.
//!
//! CBC gives confidentiality only: a change of ciphertext changes plaintext undetected. The project
//! uses this crate only under a MAC that is checked first, or for comparisons.
//!
//! # Leakage
//! Time and addresses depend on lengths alone, except in [`strip_padding`]. Its error says only
//! that padding is wrong, but its time says more. Check a MAC over the ciphertext before calling
//! it.

#![deny(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod kernels;
mod library;
#[cfg(test)]
mod tests;

#[cfg(target_arch = "x86_64")]
use kernels::{registers, schedule, vaes512};
use tobari_simd::{Backend, chosen};

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 16;

type Block = [u8; BLOCK_BYTES];

/// A key that is not an AES key, or lengths that do not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AesError {
    /// The key does not have 16, 24 or 32 bytes.
    #[error("expected a key of 16, 24 or 32 bytes, found {0}")]
    KeyLength(usize),
    /// The room for the ciphertext has the wrong length.
    #[error("expected room for {expected} bytes, found {found}")]
    Room {
        /// Bytes that the message needs.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// The ciphertext is empty, or not whole blocks.
    #[error("expected one or more blocks of 16 bytes, found {0} bytes")]
    Blocks(usize),
    /// The decrypted bytes do not end in padding.
    #[error("expected padding, found something else")]
    Padding,
}

/// Bytes of the ciphertext of a message of `bytes` bytes: the next multiple of 16 above `bytes`.
pub const fn padded_bytes(bytes: usize) -> usize {
    (bytes / BLOCK_BYTES + 1) * BLOCK_BYTES
}

/// The bytes before the padding.
///
/// # Errors
/// [`AesError::Padding`].
pub fn strip_padding(plaintext: &[u8]) -> Result<&[u8], AesError> {
    let count = usize::from(*plaintext.last().ok_or(AesError::Padding)?);
    if !(1..=BLOCK_BYTES).contains(&count) || count > plaintext.len() {
        return Err(AesError::Padding);
    }
    let (rest, padding) = plaintext.split_at(plaintext.len() - count);
    if padding.iter().all(|byte| usize::from(*byte) == count) { Ok(rest) } else { Err(AesError::Padding) }
}

/// The last block of a message: the bytes after its whole blocks, and the padding.
fn last_block(message: &[u8]) -> [u8; BLOCK_BYTES] {
    let rest = message.as_chunks::<BLOCK_BYTES>().1;
    let mut block = [(BLOCK_BYTES - rest.len()) as u8; BLOCK_BYTES];
    if !rest.is_empty() {
        block[..rest.len()].copy_from_slice(rest);
    }
    block
}

/// The addresses where a chain reads and writes.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct Path {
    input: *const u8,
    output: *mut u8,
}

/// One message to be encrypted.
pub struct CbcMessage<'a> {
    key: &'a AesKey,
    iv: &'a [u8; BLOCK_BYTES],
    plaintext: &'a [u8],
    ciphertext: &'a mut [u8],
}

impl<'a> CbcMessage<'a> {
    /// A message under `key` and `iv`. The vector must be fresh, and random or at least
    /// unpredictable.
    ///
    /// # Errors
    /// [`AesError::Room`] unless `ciphertext` has [`padded_bytes`] of the plaintext's length.
    pub fn new(
        key: &'a AesKey,
        iv: &'a [u8; BLOCK_BYTES],
        plaintext: &'a [u8],
        ciphertext: &'a mut [u8],
    ) -> Result<Self, AesError> {
        let (expected, found) = (padded_bytes(plaintext.len()), ciphertext.len());
        if expected != found {
            return Err(AesError::Room { expected, found });
        }
        Ok(Self { key, iv, plaintext, ciphertext })
    }
}

/// An expanded AES key, for the loops that expanded it. It is wiped when it is dropped.
pub struct AesKey {
    kernels: &'static AesKernels,
    schedule: Schedule,
}

enum Schedule {
    Library(library::LibraryKey),
    #[cfg(target_arch = "x86_64")]
    Instructions(Box<schedule::RoundKeys>),
}

impl AesKey {
    /// AES-128, 192 or 256 by the length of `key`, on the fastest loops of this machine.
    ///
    /// # Errors
    /// [`AesError::KeyLength`].
    pub fn new(key: &[u8]) -> Result<Self, AesError> {
        AesKernels::best().key(key)
    }

    /// The loops that expanded this key.
    pub fn kernels(&self) -> &'static AesKernels {
        self.kernels
    }

    /// Decrypts whole blocks, and leaves the padding in place.
    ///
    /// # Errors
    /// [`AesError::Blocks`], or [`AesError::Room`] unless both slices have one length.
    pub fn decrypt_cbc(&self, iv: &[u8; BLOCK_BYTES], ciphertext: &[u8], plaintext: &mut [u8]) -> Result<(), AesError> {
        let (blocks, rest) = ciphertext.as_chunks::<BLOCK_BYTES>();
        if blocks.is_empty() || !rest.is_empty() {
            return Err(AesError::Blocks(ciphertext.len()));
        }
        if plaintext.len() != ciphertext.len() {
            return Err(AesError::Room { expected: ciphertext.len(), found: plaintext.len() });
        }
        (self.kernels.decrypt)(&self.schedule, iv, blocks, plaintext.as_chunks_mut().0);
        Ok(())
    }
}

/// The loops of one backend.
pub struct AesKernels {
    /// The backend's name.
    pub name: &'static str,
    /// Bytes up to which 32 chains are faster than 16. For longer messages, 32 streams of memory
    /// compete for the cache.
    wide_up_to: usize,
    expand: fn(&[u8]) -> Result<Schedule, AesError>,
    encrypt: fn(&mut [CbcMessage<'_>], usize),
    decrypt: fn(&Schedule, &Block, &[Block], &mut [Block]),
}

static LIBRARY: AesKernels = AesKernels {
    name: "library",
    wide_up_to: 2048,
    expand: |key| Ok(Schedule::Library(library::LibraryKey::new(key)?)),
    encrypt: library::encrypt,
    decrypt: library::decrypt_cbc,
};

#[cfg(target_arch = "x86_64")]
static AESNI: AesKernels = AesKernels {
    name: "aesni",
    wide_up_to: 0,
    expand: with_instructions,
    encrypt: registers::encrypt_singles,
    decrypt: registers::decrypt_singles,
};

#[cfg(target_arch = "x86_64")]
static VAES256: AesKernels = AesKernels {
    name: "vaes256",
    wide_up_to: 0,
    expand: with_instructions,
    encrypt: registers::encrypt_pairs,
    decrypt: registers::decrypt_pairs,
};

#[cfg(target_arch = "x86_64")]
static VAES512: AesKernels = AesKernels {
    name: "vaes512",
    wide_up_to: 0,
    expand: with_instructions,
    encrypt: vaes512::encrypt,
    decrypt: vaes512::decrypt_cbc,
};

#[cfg(target_arch = "x86_64")]
fn with_instructions(key: &[u8]) -> Result<Schedule, AesError> {
    Ok(Schedule::Instructions(Box::new(schedule::RoundKeys::new(key)?)))
}

impl AesKernels {
    /// The fastest on this machine, unless this process chose the portable backend.
    pub fn best() -> &'static Self {
        if chosen() == Backend::Portable {
            return &LIBRARY;
        }
        Self::available().last().unwrap_or(&LIBRARY)
    }

    /// All backends that this machine can run, the fastest last.
    pub fn available() -> impl Iterator<Item = &'static Self> {
        #[cfg(target_arch = "x86_64")]
        let vectors = [
            schedule::detected().then_some(&AESNI),
            registers::has_pairs().then_some(&VAES256),
            vaes512::detected().then_some(&VAES512),
        ];
        #[cfg(not(target_arch = "x86_64"))]
        let vectors = [None];
        std::iter::once(&LIBRARY).chain(vectors.into_iter().flatten())
    }

    /// Expands a key of 16, 24 or 32 bytes for these loops.
    ///
    /// # Errors
    /// [`AesError::KeyLength`].
    pub fn key(&'static self, key: &[u8]) -> Result<AesKey, AesError> {
        Ok(AesKey { kernels: self, schedule: (self.expand)(key)? })
    }

    /// How many chains run side by side for messages of this length.
    pub fn lanes(&self, bytes: usize) -> usize {
        if bytes <= self.wide_up_to { 32 } else { 16 }
    }
}

/// Encrypts every message.
///
/// This is fastest for at least [`AesKernels::lanes`] messages of similar lengths. The function may
/// reorder the messages.
pub fn encrypt_cbc(messages: &mut [CbcMessage<'_>]) {
    let longest = messages.iter().map(|message| message.plaintext.len()).max().unwrap_or(0);
    encrypt_cbc_in_lanes(messages, |kernels| kernels.lanes(longest));
}

/// Encrypts every message, up to `lanes` chains side by side, 1 to 32: for measurements.
pub fn encrypt_cbc_in_lanes(mut messages: &mut [CbcMessage<'_>], lanes: impl Fn(&AesKernels) -> usize) {
    while let Some(first) = messages.first() {
        let kernels = first.key.kernels;
        let count = messages.iter().take_while(|message| std::ptr::eq(message.key.kernels, kernels)).count();
        let (run, rest) = messages.split_at_mut(count);
        (kernels.encrypt)(run, lanes(kernels).clamp(1, 32));
        messages = rest;
    }
}
