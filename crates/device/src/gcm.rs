//! Frames of AES-128-GCM, for a server that evaluates AES under encryption (the paper's design 2).
//! The nonce of 12 bytes is the eight bytes of the head and four zeros, so a frame has 28 bytes
//! more than its plaintext.
//!
//! **The nonce is the counter**: it does not repeat as long as the [`CounterStore`]'s contract
//! holds. A repeated counter reveals the exclusive or of two readings, and the key of the MAC. If
//! storage may be restored from a copy, use [`P1`](crate::P1) or [`U25`](crate::U25).

use crate::counter::{CounterStore, Counters};
use crate::device::SealError;
use crate::frame::{DeviceNumber, HEAD, Head, MAC, READINGS, Refused};
use crate::schedule::{Purpose, Root};
use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{Aes128Gcm, Nonce, Tag};
use zeroize::Zeroizing;

const CODE: u8 = 3;
const GCM_NONCE: usize = 12;
/// Bytes of such a frame.
pub const GCM_FRAME: usize = GCM_NONCE + READINGS + MAC;

fn cipher(root: &Root) -> Aes128Gcm {
    Aes128Gcm::new(&(*gcm_key(root)).into())
}

/// The AES key of a device's frames, for the key holder, who encrypts it for a server that
/// evaluates AES. Use it for nothing else.
pub fn gcm_key(root: &Root) -> Zeroizing<[u8; 16]> {
    let mut key = Zeroizing::new([0; 16]);
    key.copy_from_slice(&root.key(CODE, Purpose::Cipher)[..16]);
    key
}

/// Makes frames of AES-128-GCM.
pub struct GcmDevice<S> {
    cipher: Aes128Gcm,
    number: DeviceNumber,
    counters: Counters<S>,
}

impl<S: CounterStore> GcmDevice<S> {
    /// A device with its key, the number of the key, and the storage of its counter.
    ///
    /// # Errors
    /// [`CounterError::Store`](crate::CounterError::Store).
    pub fn open(root: &Root, number: DeviceNumber, store: S) -> Result<Self, SealError<S::Error>> {
        Ok(Self { cipher: cipher(root), number, counters: Counters::open(store)? })
    }

    /// Encrypts readings into a frame.
    ///
    /// # Errors
    /// [`CounterError`](crate::CounterError); the frame is then unchanged.
    pub fn seal(&mut self, readings: &[u8; READINGS], frame: &mut [u8; GCM_FRAME]) -> Result<(), SealError<S::Error>> {
        let head = Head { device: self.number, counter: self.counters.take()?, stamp: None }.to_bytes(CODE);
        let (nonce, rest) = frame.split_at_mut(GCM_NONCE);
        nonce.fill(0);
        nonce[..HEAD].copy_from_slice(&head[..HEAD]);
        let (body, mac) = rest.split_at_mut(READINGS);
        body.copy_from_slice(readings);
        let sealed = self.cipher.encrypt_inout_detached(&gcm_nonce(nonce), &[], body.into());
        // 256 bytes are below the limit of the mode
        mac.copy_from_slice(&sealed.unwrap_or_else(|_| unreachable!("a short message")));
        Ok(())
    }
}

fn gcm_nonce(bytes: &[u8]) -> Nonce<aes_gcm::aead::consts::U12> {
    let mut nonce = [0; GCM_NONCE];
    nonce.copy_from_slice(bytes);
    nonce.into()
}

/// Decrypts frames of AES-128-GCM, for the key holder: with this key, anybody who can detect
/// forgeries can also decrypt.
pub struct GcmOpener(Aes128Gcm);

impl GcmOpener {
    /// An opener with a device's root.
    pub fn new(root: &Root) -> Self {
        Self(cipher(root))
    }

    /// Decrypts a frame into its head and readings.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn open(&self, frame: &[u8]) -> Result<(Head, Zeroizing<[u8; READINGS]>), Refused> {
        let head = Head::read(frame, 1, CODE, GCM_FRAME)?;
        let (nonce, rest) = frame.split_at(GCM_NONCE);
        if nonce[HEAD..] != [0; GCM_NONCE - HEAD] {
            return Err(Refused::Malformed);
        }
        let (body, mac) = rest.split_at(READINGS);
        let (mut readings, mut tag) = (Zeroizing::new([0; READINGS]), [0; MAC]);
        readings.copy_from_slice(body);
        tag.copy_from_slice(mac);
        let opened = self.0.decrypt_inout_detached(&gcm_nonce(nonce), &[], (&mut readings[..]).into(), &Tag::from(tag));
        opened.map_err(|_| Refused::Mac)?;
        Ok((head, readings))
    }
}
