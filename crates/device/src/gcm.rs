//! Frames of AES-128-GCM, for a server that evaluates AES under encryption (the paper's design 2).
//! Eight bytes of head and four zeros are the nonce of 12 bytes, so that a frame is its plaintext
//! and 28 bytes.
//!
//! **The nonce is the counter**: it comes once as long as the [`CounterStore`]'s contract holds. A
//! counter that comes twice gives away the exclusive or of two readings, and the key of the MAC;
//! where storage may be restored from a copy, use [`P1`](crate::P1) or [`U25`](crate::U25).

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
/// evaluates AES. It goes nowhere else.
pub fn gcm_key(root: &Root) -> Zeroizing<[u8; 16]> {
    let mut key = Zeroizing::new([0; 16]);
    key.copy_from_slice(&root.key(CODE, Purpose::Cipher)[..16]);
    key
}

/// Makes such frames.
pub struct GcmDevice<S> {
    cipher: Aes128Gcm,
    number: DeviceNumber,
    counters: Counters<S>,
}

impl<S: CounterStore> GcmDevice<S> {
    /// With its key, the number that names the key, and where it counts.
    ///
    /// # Errors
    /// [`CounterError::Store`](crate::CounterError::Store).
    pub fn open(root: &Root, number: DeviceNumber, store: S) -> Result<Self, SealError<S::Error>> {
        Ok(Self { cipher: cipher(root), number, counters: Counters::open(store)? })
    }

    /// Writes a frame of these readings.
    ///
    /// # Errors
    /// [`CounterError`](crate::CounterError), with the frame as it was.
    pub fn seal(&mut self, readings: &[u8; READINGS], frame: &mut [u8; GCM_FRAME]) -> Result<(), SealError<S::Error>> {
        let head = Head { device: self.number, counter: self.counters.take()? }.to_bytes(CODE);
        let (nonce, rest) = frame.split_at_mut(GCM_NONCE);
        nonce.fill(0);
        nonce[..HEAD].copy_from_slice(&head);
        let (body, mac) = rest.split_at_mut(READINGS);
        body.copy_from_slice(readings);
        let sealed = self.cipher.encrypt_inout_detached(&gcm_nonce(nonce), &[], body.into());
        // 256 bytes are no more than the mode can bear
        mac.copy_from_slice(&sealed.unwrap_or_else(|_| unreachable!("a short message")));
        Ok(())
    }
}

fn gcm_nonce(bytes: &[u8]) -> Nonce<aes_gcm::aead::consts::U12> {
    let mut nonce = [0; GCM_NONCE];
    nonce.copy_from_slice(bytes);
    nonce.into()
}

/// Opens such frames: the key holder's, since who can tell forgeries here can read.
pub struct GcmOpener(Aes128Gcm);

impl GcmOpener {
    /// With a device's root.
    pub fn new(root: &Root) -> Self {
        Self(cipher(root))
    }

    /// The head and the readings.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn open(&self, frame: &[u8]) -> Result<(Head, Zeroizing<[u8; READINGS]>), Refused> {
        let head = Head::read(frame, CODE, GCM_FRAME)?;
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
