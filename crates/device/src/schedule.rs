//! The keys that follow from a device's root, for each profile and purpose:
//! `HMAC-SHA-256(root, label ‖ profile ‖ purpose)`.

use crate::frame::{Head, HeadBytes, NONCE, READINGS};
use crate::profile::{Profile, field};
use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use core::marker::PhantomData;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

const LABEL: &[u8] = b"tobari-device 1 key";
const UNIFORM: &[u8] = b"tobari-device 1 a";
/// Bytes needed for 256 coefficients of CBD(3).
const NOISE: usize = READINGS * 6 / 8;

/// 32 bytes that a device shares with the key holder. All its keys follow from them. Wiped on drop.
///
/// ```
/// use tobari_device::{P1, Root};
/// let root = Root::from_bytes([7; 32]); // 32 bytes of the system's randomness, agreed with the key holder
/// assert_ne!(root.mac_key::<P1>(), root.mac_key::<tobari_device::U25>());
/// ```
///
/// It has no `Debug`:
///
/// ```compile_fail
/// println!("{:?}", tobari_device::Root::from_bytes([7; 32]));
/// ```
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Root([u8; 32]);

impl Root {
    /// A root from uniform secret bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The MAC key for ingest: it detects forged frames and decrypts nothing.
    pub fn mac_key<P: Profile>(&self) -> [u8; 32] {
        *self.key(P::CODE, Purpose::Mac)
    }

    pub(crate) fn key(&self, code: u8, purpose: Purpose) -> Zeroizing<[u8; 32]> {
        let mac = keyed(&self.0).chain_update(LABEL).chain_update([code, purpose as u8]);
        Zeroizing::new(mac.finalize().into_bytes().into())
    }

    /// The transforms of the secret, times `2^32/256`.
    pub(crate) fn secret<P: Profile>(&self) -> Zeroizing<P::Secret> {
        let mut secret = Zeroizing::new(P::ZERO);
        self.secret_into::<P>(&mut secret);
        secret
    }

    /// Writes the same transforms in place. They take kilobytes, and a sensor's stack should not
    /// hold two copies.
    fn secret_into<P: Profile>(&self, secret: &mut P::Secret) {
        let mut stream = ChaCha20Rng::from_seed(*self.key(P::CODE, Purpose::Secret));
        for polynomial in secret.as_mut() {
            small::<P>(&mut stream, polynomial);
            field::<P>().forward(polynomial);
            field::<P>().store(polynomial);
        }
    }
}

/// The purpose of a key.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    Secret = 0,
    Nonce = 1,
    Noise = 2,
    Mac = 3,
    Cipher = 4,
}

/// HMAC-SHA-256 under this key.
pub(crate) fn keyed(key: &[u8; 32]) -> Hmac<Sha256> {
    let mut block = Zeroizing::new([0; 64]);
    block[..32].copy_from_slice(key);
    Hmac::new(&(*block).into())
}

/// Overwrites `out` with residues of CBD(3) coefficients: the number of ones of three bits minus
/// that of three others.
pub(crate) fn small<P: Profile>(stream: &mut ChaCha20Rng, out: &mut [u32; READINGS]) {
    let mut bytes = Zeroizing::new([0; NOISE]);
    stream.fill_bytes(&mut *bytes);
    for (out, bytes) in out.as_chunks_mut::<4>().0.iter_mut().zip(bytes.as_chunks::<3>().0) {
        let bits = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
        let thirds = 0o11_111_111; // the lowest bit of each three
        let ones = (bits & thirds) + ((bits >> 1) & thirds) + ((bits >> 2) & thirds);
        for (place, out) in (0..).zip(out) {
            let both = ones >> (6 * place);
            *out = field::<P>().of_small((both & 7) as i32 - (both >> 3 & 7) as i32);
        }
    }
}

/// The stream of the public, uniform half of a frame.
pub(crate) fn uniform(head: &[u8], nonce: &[u8; NONCE]) -> ChaCha20Rng {
    let seed = Sha256::new().chain_update(UNIFORM).chain_update(head).chain_update(nonce).finalize();
    ChaCha20Rng::from_seed(seed.into())
}

/// `Σ a_i s_i` in coefficients.
#[inline(always)]
pub(crate) fn product<P: Profile>(secret: &P::Secret, head: &[u8], nonce: &[u8; NONCE]) -> [u32; READINGS] {
    let (field, secret) = (field::<P>(), secret.as_ref());
    let (mut out, mut sum) = ([0; READINGS], 0);
    P::draw(uniform(head, nonce), |place, i, a| {
        // below 5 q², and so below 2^32 q
        sum = u64::from(a) * u64::from(secret[i][place]) + if i == 0 { 0 } else { sum };
        if i == P::RANK - 1 {
            out[place] = field.reduce_sum(sum);
        }
    });
    field.back_256(&mut out);
    out
}

/// The keys with which a device makes frames.
pub(crate) struct Keys<P: Profile> {
    pub(crate) secret: Zeroizing<P::Secret>,
    nonce: Hmac<Sha256>,
    noise: Hmac<Sha256>,
    mac: Hmac<Sha256>,
    profile: PhantomData<P>,
}

impl<P: Profile> Keys<P> {
    pub(crate) fn new(root: &Root) -> Self {
        let keyed = |purpose| keyed(&root.key(P::CODE, purpose));
        let mut keys = Self {
            secret: Zeroizing::new(P::ZERO),
            nonce: keyed(Purpose::Nonce),
            noise: keyed(Purpose::Noise),
            mac: keyed(Purpose::Mac),
            profile: PhantomData,
        };
        root.secret_into::<P>(&mut keys.secret);
        keys
    }

    /// A nonce, and the stream of its noise.
    pub(crate) fn synthetic(&self, attempt: u8, head: &[u8], readings: &[u8; READINGS]) -> ([u8; NONCE], ChaCha20Rng) {
        let tag = self.nonce.clone().chain_update([attempt]).chain_update(head).chain_update(readings).finalize();
        let tag: Zeroizing<[u8; 32]> = Zeroizing::new(tag.into_bytes().into());
        let noise = self.noise.clone().chain_update(&tag[..]).finalize();
        let noise: Zeroizing<[u8; 32]> = Zeroizing::new(noise.into_bytes().into());
        let mut nonce = [0; NONCE];
        nonce.copy_from_slice(&tag[..NONCE]);
        (nonce, ChaCha20Rng::from_seed(*noise))
    }

    pub(crate) fn mac(&self) -> &Hmac<Sha256> {
        &self.mac
    }
}

/// The encoded head of a frame; the first `P::HEAD` bytes of it.
pub(crate) fn head_of<P: Profile>(head: Head) -> HeadBytes {
    head.to_bytes(P::CODE)
}
