//! Messages between a client and the inside of an enclave. The host carries them, but cannot read,
//! change, repeat or reorder them.
//!
//! The handshake is HPKE (RFC 9180; X25519 with HKDF-SHA256, ChaCha20-Poly1305), base mode, to the
//! channel key in the evidence. `info` is the digest of the whole evidence. So session, nonce,
//! measurement, configuration and the platform's proof are bound to every key that follows. The
//! enclave draws a new channel key for each session. An attacker that takes over the enclave after
//! a session's end cannot decrypt the session's messages.
//!
//! The HPKE context encrypts requests. Replies are encrypted under a key that the context exports
//! (RFC 9180, section 9.8), with counters as nonces. A frame is a ciphertext and its tag of 16
//! bytes. Its additional data are the session, the direction, the number of the step over all
//! rounds and the message's kind, so a frame decrypts in one place only. The plaintext is the
//! message, zeros up to the step's size for [`Size::Fixed`], and the message's length (4,
//! big-endian).
//!
//! **One failure ends a channel**, and all failures look the same: a wrong tag, a wrong length,
//! padding that is not zero. The client is not authenticated. An enclave serves any client that
//! opens a session, and the session's secrets belong to that client.
//!
//! Not hidden: that messages are sent, when, and for [`Size::UpTo`] their lengths. A quantum
//! computer can decrypt recorded traffic.

use crate::configuration::{Party, Size};
use crate::digest::Digest;
use crate::evidence::SessionId;
use crate::session::{Due, Progress};
use crate::verify::Attested;
use chacha20poly1305::aead::{AeadInOut, KeyInit, inout::InOutBuf};
use chacha20poly1305::{ChaCha20Poly1305, Nonce, Tag};
use hpke::aead::{AeadCtxR, AeadCtxS, AeadTag};
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable, Kem as _, OpModeR, OpModeS, Serializable};
use rand_core::CryptoRng;
use zeroize::{Zeroize, Zeroizing};

type Aead = hpke::aead::ChaCha20Poly1305;
type Kem = X25519HkdfSha256;

/// Length of an authentication tag, in bytes.
pub const TAG_BYTES: usize = 16;
/// Length of a frame beyond its message, in bytes, without padding.
pub const FRAME_BYTES: usize = 4 + TAG_BYTES;

const REQUEST: u8 = 1;
const REPLY: u8 = 2;

/// The channel has ended. The error gives no reason, because the reason could tell about the
/// plaintext.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected the next message of this session, found something else: the session has ended")]
pub struct ChannelEnded;

/// The secret half of a channel key, inside the enclave. It serves one session, and is wiped on
/// drop.
pub(crate) struct ChannelSecret(<Kem as hpke::Kem>::PrivateKey);

impl ChannelSecret {
    /// A fresh key and its public half.
    pub(crate) fn draw(mut rng: &mut dyn CryptoRng) -> (Self, [u8; 32]) {
        let (secret, public) = Kem::gen_keypair_with_rng(&mut rng);
        (Self(secret), public.to_bytes().into())
    }

    /// The inside half of a channel. The client made `encapsulated` after it checked this evidence.
    pub(crate) fn accept(
        self,
        encapsulated: &[u8],
        evidence: &Digest,
        session: SessionId,
    ) -> Result<InsideChannel, ChannelEnded> {
        let key = <Kem as hpke::Kem>::EncappedKey::from_bytes(encapsulated).map_err(|_| ChannelEnded)?;
        let requests = hpke::setup_receiver::<Aead, HkdfSha256, Kem>(&OpModeR::Base, &self.0, &key, &info(evidence))
            .map_err(|_| ChannelEnded)?;
        let replies = Replies::new(|key| requests.export(EXPORT, key))?;
        Ok(InsideChannel { requests, replies, session })
    }
}

const EXPORT: &[u8] = b"tobari enclave channel 1: replies";

fn info(evidence: &Digest) -> Vec<u8> {
    [b"tobari enclave channel 1".as_slice(), evidence.as_bytes()].concat()
}

fn additional_data(session: SessionId, direction: u8, due: &Due) -> [u8; 26] {
    let mut data = [0; 26];
    data[..16].copy_from_slice(&session.0);
    data[16] = direction;
    data[17..25].copy_from_slice(&due.number.to_be_bytes());
    data[25] = due.step.kind;
    data
}

/// The direction from the inside to the client, with its own key and counters as nonces.
struct Replies {
    cipher: ChaCha20Poly1305,
    count: u64,
}

impl Replies {
    fn new(export: impl FnOnce(&mut [u8]) -> Result<(), hpke::HpkeError>) -> Result<Self, ChannelEnded> {
        let mut key = Zeroizing::new([0; 32]);
        export(key.as_mut()).map_err(|_| ChannelEnded)?;
        Ok(Self { cipher: ChaCha20Poly1305::new((&*key).into()), count: 0 })
    }

    fn nonce(&mut self) -> Nonce {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.count.to_be_bytes());
        self.count += 1;
        nonce.into()
    }
}

/// Turns a message into a plaintext, in its place: message, padding, length.
///
/// The buffer must have [`room`] for the size: then the message does not move, and leaves no copy
/// behind.
fn pad(message: &mut Vec<u8>, size: Size) -> Result<(), ChannelEnded> {
    let length = u32::try_from(message.len()).map_err(|_| ChannelEnded)?;
    if message.len() > size.limit() {
        return Err(ChannelEnded);
    }
    if let Size::Fixed(bytes) = size {
        message.resize(bytes as usize, 0);
    }
    message.extend(length.to_be_bytes());
    Ok(())
}

/// The capacity with which a message of this size becomes a frame without moving.
pub(crate) fn room(size: Size) -> usize {
    size.limit() + FRAME_BYTES
}

/// The message inside a plaintext.
fn unpad(plain: &[u8], size: Size) -> Result<&[u8], ChannelEnded> {
    let (rest, length) = plain.split_last_chunk::<4>().ok_or(ChannelEnded)?;
    let length = u32::from_be_bytes(*length) as usize;
    let (message, padding) = rest.split_at_checked(length).ok_or(ChannelEnded)?;
    let whole = match size {
        Size::Fixed(bytes) => rest.len() == bytes as usize,
        Size::UpTo(bytes) => padding.is_empty() && length <= bytes as usize,
    };
    // Read all of the padding, whatever it contains.
    let zero = padding.iter().fold(0, |all, byte| all | byte) == 0;
    if whole && zero { Ok(message) } else { Err(ChannelEnded) }
}

/// Whether this size allows a frame of this length. This is known before decryption.
fn fits(frame: &[u8], size: Size) -> bool {
    let limit = room(size);
    match size {
        Size::Fixed(_) => frame.len() == limit,
        Size::UpTo(_) => (FRAME_BYTES..=limit).contains(&frame.len()),
    }
}

/// The half inside the enclave. Its keys are wiped on drop.
pub(crate) struct InsideChannel {
    requests: AeadCtxR<Aead, HkdfSha256, Kem>,
    replies: Replies,
    session: SessionId,
}

impl InsideChannel {
    /// Decrypts the frame of step `due`, in its place, and returns its message.
    pub(crate) fn open<'a>(&mut self, due: &Due, frame: &'a mut [u8]) -> Result<&'a [u8], ChannelEnded> {
        if !fits(frame, due.step.request) {
            return Err(ChannelEnded);
        }
        let (body, tag) = frame.split_last_chunk_mut::<TAG_BYTES>().ok_or(ChannelEnded)?;
        let tag = AeadTag::<Aead>::from_bytes(tag).map_err(|_| ChannelEnded)?;
        let data = additional_data(self.session, REQUEST, due);
        self.requests.open_inout_detached(InOutBuf::from(&mut *body), &data, &tag).map_err(|_| ChannelEnded)?;
        unpad(body, due.step.request)
    }

    /// Encrypts the reply of step `due`, in its place. If that fails, the caller wipes the buffer.
    pub(crate) fn seal(&mut self, due: &Due, reply: &mut Vec<u8>) -> Result<(), ChannelEnded> {
        pad(reply, due.step.reply)?;
        let data = additional_data(self.session, REPLY, due);
        let nonce = self.replies.nonce();
        let sealed = self.replies.cipher.encrypt_inout_detached(&nonce, &data, InOutBuf::from(reply.as_mut_slice()));
        let tag = sealed.map_err(|_| ChannelEnded)?;
        reply.extend(tag.as_slice());
        Ok(())
    }
}

/// Opens channels to enclaves whose evidence was accepted.
#[derive(Debug)]
pub struct Connector;

impl Connector {
    /// Opens a channel to the inside. Returns it with the 32 bytes for
    /// [`Enclave::open`](crate::Enclave::open).
    ///
    /// # Errors
    ///
    /// [`ChannelEnded`] if the channel key is invalid: a point of small order.
    pub fn connect(
        attested: &Attested,
        mut rng: &mut dyn CryptoRng,
    ) -> Result<(ClientChannel, [u8; 32]), ChannelEnded> {
        let statement = &attested.statement;
        let key = <Kem as hpke::Kem>::PublicKey::from_bytes(&statement.channel_key).map_err(|_| ChannelEnded)?;
        let (encapsulated, requests) = hpke::setup_sender_with_rng::<Aead, HkdfSha256, Kem>(
            &OpModeS::Base,
            &key,
            &info(&attested.digest),
            &mut rng,
        )
        .map_err(|_| ChannelEnded)?;
        let replies = Replies::new(|key| requests.export(EXPORT, key))?;
        let progress = Progress::new(&attested.configuration);
        let channel = ClientChannel { requests, replies, session: statement.session, progress, awaited: None };
        Ok((channel, encapsulated.to_bytes().into()))
    }
}

/// The client's half: encrypts the next step's message, and decrypts its reply. Its keys are wiped
/// on drop.
pub struct ClientChannel {
    requests: AeadCtxS<Aead, HkdfSha256, Kem>,
    replies: Replies,
    session: SessionId,
    progress: Progress,
    awaited: Option<Due>,
}

impl ClientChannel {
    /// The channel's session.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The frame of the client's next step, with this message.
    ///
    /// # Errors
    ///
    /// [`ChannelEnded`] if another step is next, if a reply is missing, or if the message is longer
    /// than the script allows.
    pub fn seal(&mut self, kind: u8, message: &[u8]) -> Result<Vec<u8>, ChannelEnded> {
        if self.awaited.is_some() {
            return Err(self.end());
        }
        self.progress.skip_host();
        let due = self.progress.take(Party::Client, kind).map_err(|_| self.end())?;
        let padded = if let Size::Fixed(bytes) = due.step.request { bytes as usize } else { message.len() };
        let mut frame = Vec::with_capacity(padded.max(message.len()) + FRAME_BYTES);
        frame.extend_from_slice(message);
        pad(&mut frame, due.step.request).map_err(|_| self.end())?;
        let data = additional_data(self.session, REQUEST, &due);
        let tag = self.requests.seal_inout_detached(InOutBuf::from(frame.as_mut_slice()), &data);
        let Ok(tag) = tag else {
            frame.zeroize();
            return Err(self.end());
        };
        frame.extend(tag.to_bytes());
        self.awaited = Some(due);
        Ok(frame)
    }

    /// Decrypts the reply to the last frame, and returns its message.
    ///
    /// # Errors
    ///
    /// [`ChannelEnded`] for any other bytes, and from then on always.
    pub fn open(&mut self, mut frame: Vec<u8>) -> Result<Zeroizing<Vec<u8>>, ChannelEnded> {
        let due = self.awaited.take().ok_or_else(|| self.end())?;
        if !fits(&frame, due.step.reply) {
            return Err(self.end());
        }
        let (body, tag) = frame.split_last_chunk_mut::<TAG_BYTES>().ok_or(ChannelEnded)?;
        let data = additional_data(self.session, REPLY, &due);
        let nonce = self.replies.nonce();
        let opened =
            self.replies.cipher.decrypt_inout_detached(&nonce, &data, InOutBuf::from(&mut *body), &Tag::from(*tag));
        let message = opened.map_err(|_| ChannelEnded).and_then(|()| unpad(body, due.step.reply).map(<[u8]>::to_vec));
        frame.zeroize();
        message.map(Zeroizing::new).map_err(|_| self.end())
    }

    fn end(&mut self) -> ChannelEnded {
        self.progress.end();
        self.awaited = None;
        ChannelEnded
    }
}
