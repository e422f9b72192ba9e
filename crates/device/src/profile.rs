//! The profiles: their numbers, and how uniform values are drawn.

use crate::field::Field;
use crate::frame::{HEAD, MAC, NONCE, READINGS};
use crate::pack;
use chacha20::ChaCha20Rng;
use chacha20::rand_core::Rng;
use zeroize::Zeroize;

static P1_FIELD: Field = Field::new(65_537);
static U25_FIELD: Field = Field::new(33_292_289);

/// The arithmetic of a profile.
#[inline(always)]
pub(crate) fn field<P: Profile>() -> &'static Field {
    if P::CODE == P1::CODE { &P1_FIELD } else { &U25_FIELD }
}

/// `ψ`, of order 512 modulo `q`: the transform of a frame has the values at its odd powers.
///
/// ```
/// use tobari_device::{P1, transform_root};
/// let root = u64::from(transform_root::<P1>());
/// assert_eq!((0..8).fold(root, |power, _| power * power % 65_537), 65_536); // the 256th power is -1
/// ```
pub fn transform_root<P: Profile>() -> u32 {
    field::<P>().root()
}

/// The numbers of a scheme. Other crates cannot add a profile: each is a claim about security.
pub trait Profile: sealed::Drawn + Send + Sync + 'static {
    /// The name of the profile.
    const NAME: &'static str;
    /// The profile's code in frames, below 16.
    const CODE: u8;
    /// `q`, the plaintext modulus of the server that converts frames.
    const MODULUS: u32;
    /// The number of polynomials of a secret.
    const RANK: usize;
    /// `Δ`, the factor of readings.
    const DELTA: u32;
    /// Bytes of a body.
    const BODY: usize;
    /// Bytes of a frame.
    const FRAME: usize = HEAD + NONCE + Self::BODY + MAC;
    /// The array type of a frame.
    type Frame: AsRef<[u8]> + AsMut<[u8]> + Clone + Send + Sync;
    /// An empty frame.
    const EMPTY: Self::Frame;
}

/// 16 bits, for conversion to exact values modulo 65,537. It has the smallest frames.
pub enum P1 {}

/// 25 bits, for sums over up to 254 devices straight from frames, and for conversion.
pub enum U25 {}

impl Profile for P1 {
    const NAME: &'static str = "P1";
    const CODE: u8 = 1;
    const MODULUS: u32 = 65_537;
    const RANK: usize = 3;
    const DELTA: u32 = 256;
    const BODY: usize = 513;
    type Frame = [u8; 553];
    const EMPTY: [u8; 553] = [0; 553];
}

impl Profile for U25 {
    const NAME: &'static str = "U25";
    const CODE: u8 = 2;
    const MODULUS: u32 = 33_292_289;
    const RANK: usize = 4;
    const DELTA: u32 = 512;
    const BODY: usize = 800;
    type Frame = [u8; 840];
    const EMPTY: [u8; 840] = [0; 840];
}

pub(crate) mod sealed {
    use super::*;

    /// The parts of a profile that only this crate can define.
    pub trait Drawn {
        /// The transforms of a secret.
        type Secret: AsRef<[[u32; READINGS]]> + AsMut<[[u32; READINGS]]> + Zeroize + Send + Sync;
        /// A secret of zeros.
        const ZERO: Self::Secret;
        /// Draws all `a_i`, in the domain of the transform, and passes the place, then `i`, then
        /// the value to `take`, place by place.
        #[doc(hidden)]
        fn draw(stream: ChaCha20Rng, take: impl FnMut(usize, usize, u32));
        /// Encodes residues as bytes; false if the residues have no encoding.
        #[doc(hidden)]
        fn pack(residues: &[u32; READINGS], body: &mut [u8]) -> bool;
        /// Decodes residues; `None` unless [`Self::pack`] can make the bytes.
        #[doc(hidden)]
        fn unpack(body: &[u8]) -> Option<[u32; READINGS]>;
    }
}

impl sealed::Drawn for P1 {
    type Secret = [[u32; READINGS]; 3];
    const ZERO: Self::Secret = [[0; READINGS]; 3];

    /// Words of 16 bits. `q - 1 = 2^16` is never drawn. This conditions on an event of probability
    /// above 0.98 for a whole frame.
    #[inline(always)]
    fn draw(mut stream: ChaCha20Rng, mut take: impl FnMut(usize, usize, u32)) {
        let mut bytes = [0; 384]; // for 64 places
        for first in (0..READINGS).step_by(64) {
            stream.fill_bytes(&mut bytes);
            for (place, words) in bytes.as_chunks::<6>().0.iter().enumerate() {
                for (i, word) in words.as_chunks::<2>().0.iter().enumerate() {
                    take(first + place, i, u32::from(u16::from_le_bytes(*word)));
                }
            }
        }
    }

    fn pack(residues: &[u32; READINGS], body: &mut [u8]) -> bool {
        pack::pack_17(residues, body)
    }

    fn unpack(body: &[u8]) -> Option<[u32; READINGS]> {
        pack::unpack_17(body)
    }
}

impl sealed::Drawn for U25 {
    type Secret = [[u32; READINGS]; 4];
    const ZERO: Self::Secret = [[0; READINGS]; 4];

    /// The lower 25 bits of words of 32 bits; values that are not residues are skipped.
    #[inline(always)]
    fn draw(mut stream: ChaCha20Rng, mut take: impl FnMut(usize, usize, u32)) {
        let (mut bytes, mut next) = ([0; 256], 0);
        while next < READINGS * Self::RANK {
            stream.fill_bytes(&mut bytes);
            for word in bytes.as_chunks::<4>().0 {
                let value = u32::from_le_bytes(*word) & ((1 << 25) - 1);
                if value < Self::MODULUS && next < READINGS * Self::RANK {
                    take(next / Self::RANK, next % Self::RANK, value);
                    next += 1;
                }
            }
        }
    }

    fn pack(residues: &[u32; READINGS], body: &mut [u8]) -> bool {
        pack::pack_25(residues, body);
        true
    }

    fn unpack(body: &[u8]) -> Option<[u32; READINGS]> {
        pack::unpack_25(body, Self::MODULUS)
    }
}
