//! The half of a call that holds keys: a speaker encrypts, a listener decrypts.
//!
//! Both are pure: bytes in, bytes out. In mode `elgamal` a [`Speaker`] needs only the public key
//! and a [`Listener`] the secret key; in mode `elgamal-shared` both need the secret that all
//! members hold. The traits [`Encrypt`] and [`Decrypt`] are the interface to a mode.
//!
//! **Rules that hold against any server.** A speaker never writes two packets for one tick, and
//! never goes back: each tick is encrypted once, with fresh randomness. A listener rejects a sum of
//! another room, a sum of the wrong length, and a sum whose tick is not later than the last (from a
//! server that rewinds).
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
//! use tobari_call::client::{Listener, Speaker};
//! use tobari_call::messages::{Join, Pace};
//! use tobari_call::server::{Event, Limits, Room};
//! use tobari_curve::{Curve, PointEncoding};
//! use tobari_curve::elgamal::{Decryptor, Encryptor, SecretKey};
//! use tobari_curve::params::{Parameters, SecurityFloor};
//! use tobari_curve::wire::RoomId;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The members share a key; the room has none.
//! let mut rng = ChaCha20Rng::from_seed([0; 32]); // a program takes its randomness from the system
//! let key = SecretKey::generate(Parameters::new(Curve::Secp256k1, SecurityFloor::Standard)?, &mut rng);
//! let (now, join) = (Duration::ZERO, Join::new(Pace::Lockstep { members: 1 }, Curve::Secp256k1));
//! let mut room = Room::open(RoomId([7; 8]), &join, SecurityFloor::Standard, Limits::default(), now)?;
//! let welcome = room.join(&join, now)?;
//!
//! // One packet goes up ...
//! let mut speaker = Speaker::new(Arc::new(Encryptor::new(&key.public_key())), &welcome, PointEncoding::Compressed);
//! let packet = speaker.packet(welcome.tick, &[-1000; 320], &mut rng)?;
//! let (tick, points) = room.uplink(&welcome).decode(&packet)?;
//! room.packet(welcome.member, tick, points);
//!
//! // ... and one sum comes down.
//! let Some(Event::Closed(tick)) = room.poll(now) else { return Err("the tick did not close".into()) };
//! let mut listener = Listener::new(Arc::new(Decryptor::new(&key, 32_768)), &welcome);
//! let mixed = listener.open(&tick.encode(PointEncoding::Compressed))?;
//! assert_eq!(*mixed.samples, [-1000; 320]);
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;

use rand_core::CryptoRng;
use tobari_curve::{
    PointEncoding,
    elgamal::{
        Ciphertexts, DecryptError, Decryptor, EncryptError, Encryptor, SharedCiphertexts, SharedDecryptor,
        SharedEncryptor,
    },
    params::Parameters,
    wire::{self, Payload, RoomId, SumHeader, WireError},
};
use zeroize::Zeroizing;

use super::{PACKET_SAMPLES, messages::Welcome};

/// Encryption in a mode, for a speaker: a key with the tables that encrypt.
pub trait Encrypt: Send + Sync + 'static {
    /// The mode's ciphertexts.
    type Payload: Payload;

    /// Encrypts the samples of one packet, with fresh randomness.
    ///
    /// # Errors
    /// [`EncryptError`] for the first sample beyond [`tobari_curve::elgamal::SAMPLE_BOUND`].
    fn encrypt(&self, samples: &[i32], rng: &mut (impl CryptoRng + ?Sized)) -> Result<Self::Payload, EncryptError>;
}

impl Encrypt for Encryptor {
    type Payload = Ciphertexts;

    fn encrypt(&self, samples: &[i32], rng: &mut (impl CryptoRng + ?Sized)) -> Result<Ciphertexts, EncryptError> {
        self.encrypt(samples, rng)
    }
}

impl Encrypt for SharedEncryptor {
    type Payload = SharedCiphertexts;

    fn encrypt(&self, samples: &[i32], rng: &mut (impl CryptoRng + ?Sized)) -> Result<SharedCiphertexts, EncryptError> {
        self.encrypt(samples, rng)
    }
}

/// Decryption in a mode, for a listener: a key with the table that decrypts.
pub trait Decrypt: Send + Sync + 'static {
    /// The mode's ciphertexts.
    type Payload: Payload;

    /// The parameters.
    fn parameters(&self) -> Parameters;

    /// Decrypts a sum.
    ///
    /// # Errors
    /// [`DecryptError`] if any sample has no value within the bound.
    fn vartime_decrypt(&self, sum: &Self::Payload) -> Result<Zeroizing<Vec<i32>>, DecryptError>;
}

impl Decrypt for Decryptor {
    type Payload = Ciphertexts;

    fn parameters(&self) -> Parameters {
        self.parameters()
    }

    fn vartime_decrypt(&self, sum: &Ciphertexts) -> Result<Zeroizing<Vec<i32>>, DecryptError> {
        self.vartime_decrypt(sum)
    }
}

impl Decrypt for SharedDecryptor {
    type Payload = SharedCiphertexts;

    fn parameters(&self) -> Parameters {
        self.parameters()
    }

    fn vartime_decrypt(&self, sum: &SharedCiphertexts) -> Result<Zeroizing<Vec<i32>>, DecryptError> {
        self.vartime_decrypt(sum)
    }
}

/// A member that sends: turns samples into the bytes of packets.
pub struct Speaker<E> {
    encryptor: Arc<E>,
    room: RoomId,
    member: u16,
    encoding: PointEncoding,
    /// The first tick that may still be sent; none when there is no later one.
    next: Option<u32>,
}

impl<E: Encrypt> Speaker<E> {
    /// A speaker in the room of `welcome`, whose packets are written in `encoding`.
    pub fn new(encryptor: Arc<E>, welcome: &Welcome, encoding: PointEncoding) -> Self {
        Self { encryptor, room: welcome.room, member: welcome.member, encoding, next: Some(welcome.tick) }
    }

    /// The packet for `tick`: [`PACKET_SAMPLES`] samples, each of absolute value at most
    /// [`tobari_curve::elgamal::SAMPLE_BOUND`].
    ///
    /// # Errors
    /// [`SpeakError`] if the tick is not later than the last one, or the samples are too many, too
    /// few or too large. The tick can still be sent after an error.
    ///
    /// # Panics
    /// If the key is of mode `elgamal-shared` and has fewer places than [`PACKET_SAMPLES`].
    ///
    /// # Leakage
    /// As [`Encryptor::encrypt`] and [`SharedEncryptor::encrypt`]. The error tells which sample was
    /// out of range.
    pub fn packet(
        &mut self,
        tick: u32,
        samples: &[i32],
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<Vec<u8>, SpeakError> {
        if self.next.is_none_or(|next| tick < next) {
            return Err(SpeakError::Tick { tick, next: self.next });
        }
        if samples.len() != PACKET_SAMPLES {
            return Err(SpeakError::Samples { found: samples.len() });
        }
        let ciphertexts = self.encryptor.encrypt(samples, rng)?;
        self.next = tick.checked_add(1);
        Ok(wire::encode_packet(self.room, self.member, tick, self.encoding, &ciphertexts))
    }
}

/// Samples that a speaker cannot send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpeakError {
    /// A tick that was sent before, or an earlier one.
    #[error("packet for tick {tick}: expected {} or later", next.map_or("none".to_owned(), |next| next.to_string()))]
    Tick {
        /// The tick asked for.
        tick: u32,
        /// The first tick that may be sent.
        next: Option<u32>,
    },
    /// Not one packet's worth of samples.
    #[error("packet of {found} samples: expected {PACKET_SAMPLES}")]
    Samples {
        /// How many there were.
        found: usize,
    },
    /// A sample out of range.
    #[error(transparent)]
    Encrypt(#[from] EncryptError),
}

/// One tick of the mix, decrypted.
pub struct Mixed {
    /// Whose packets are in the sum, and whose came too late.
    pub header: SumHeader,
    /// The exact sum: [`PACKET_SAMPLES`] samples, all zero if it contains no packet.
    pub samples: Zeroizing<Vec<i32>>,
}

/// A member that listens: turns the bytes of sums into samples.
pub struct Listener<D> {
    decryptor: Arc<D>,
    room: RoomId,
    /// The first tick that is still accepted; none after the last possible tick.
    next: Option<u32>,
}

impl<D: Decrypt> Listener<D> {
    /// A listener in the room of `welcome`.
    pub fn new(decryptor: Arc<D>, welcome: &Welcome) -> Self {
        Self { decryptor, room: welcome.room, next: Some(welcome.tick) }
    }

    /// Checks and decrypts one sum: [`Listener::admit`] and [`Listener::decrypt`] together.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn open(&mut self, sum: &[u8]) -> Result<Mixed, ListenError> {
        let (header, ciphertexts) = self.admit(sum)?;
        let samples = self.decrypt(&ciphertexts)?;
        Ok(Mixed { header, samples })
    }

    /// Checks one sum and records its tick, without decrypting it.
    ///
    /// # Errors
    /// [`ListenError`] if the bytes are not a sum in the key's mode on its curve, or a sum of
    /// another room, tick or length. The tick is not recorded then.
    pub fn admit(&mut self, sum: &[u8]) -> Result<(SumHeader, D::Payload), ListenError> {
        let (header, ciphertexts) = wire::decode_sum::<D::Payload>(sum, self.decryptor.parameters())?;
        if header.room != self.room {
            return Err(ListenError::Room);
        }
        if self.next.is_none_or(|next| header.tick < next) {
            return Err(ListenError::Tick { tick: header.tick, next: self.next });
        }
        if ciphertexts.messages() != PACKET_SAMPLES {
            return Err(ListenError::Samples { found: ciphertexts.messages() });
        }
        self.next = header.tick.checked_add(1);
        Ok((header, ciphertexts))
    }

    /// Decrypts a sum from [`Listener::admit`]. Ticks are independent, so several threads may
    /// decrypt at once.
    ///
    /// # Errors
    /// [`DecryptError`] if the key is wrong, the sum was tampered with, or the sum is beyond the
    /// decryptor's bound.
    ///
    /// # Leakage
    /// As [`Decryptor::vartime_decrypt`] and [`SharedDecryptor::vartime_decrypt`].
    pub fn decrypt(&self, ciphertexts: &D::Payload) -> Result<Zeroizing<Vec<i32>>, DecryptError> {
        self.decryptor.vartime_decrypt(ciphertexts)
    }
}

/// A sum that a listener does not accept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Bytes that are not a sum on this curve.
    #[error("sum from the server: {0}")]
    Wire(#[from] WireError),
    /// The sum of another room.
    #[error("sum from the server: for another room")]
    Room,
    /// A tick that was already accepted, or an earlier one.
    #[error("sum for tick {tick}: expected {} or later", next.map_or("none".to_owned(), |next| next.to_string()))]
    Tick {
        /// The tick found.
        tick: u32,
        /// The first tick that is accepted.
        next: Option<u32>,
    },
    /// Not one packet's worth of samples.
    #[error("sum of {found} samples: expected {PACKET_SAMPLES}")]
    Samples {
        /// How many there were.
        found: usize,
    },
    /// The sum does not decrypt.
    #[error(transparent)]
    Decrypt(#[from] DecryptError),
}
