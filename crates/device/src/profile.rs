//! The profiles: their numbers, and how uniform values are drawn.

use crate::field::Field;
use crate::frame::{HEAD, MAC, NONCE, READINGS, STAMPED_HEAD, Stamp};
use crate::pack;
use chacha20::ChaCha20Rng;
use chacha20::rand_core::Rng;
use zeroize::Zeroize;

static FIELD_17: Field = Field::new(65_537);
static FIELD_25: Field = Field::new(33_292_289);
static FIELD_28: Field = Field::new(268_042_241);

/// The arithmetic of a profile.
#[inline(always)]
pub(crate) fn field<P: Profile>() -> &'static Field {
    match P::MODULUS {
        65_537 => &FIELD_17,
        33_292_289 => &FIELD_25,
        _ => &FIELD_28,
    }
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
    /// The version of its frames.
    const VERSION: u8;
    /// Bytes of a head.
    const HEAD: usize = if Self::VERSION == 1 { HEAD } else { STAMPED_HEAD };
    /// Bytes of a frame.
    const FRAME: usize = Self::HEAD + NONCE + Self::BODY + MAC;
    /// What a device says about a frame's readings: [`Stamp`], or nothing in version 1.
    type Stamp: sealed::Stamped;
    /// The array type of a frame.
    type Frame: AsRef<[u8]> + AsMut<[u8]> + Clone + Send + Sync;
    /// An empty frame.
    const EMPTY: Self::Frame;
}

/// 16 bits, for conversion to exact values modulo 65,537. It has the smallest frames, and no time.
pub enum P1 {}

/// As [`P1`], with a time and a sheet: version 2.
pub enum P17 {}

/// 25 bits, for sums over up to 254 devices straight from frames, without a time.
pub enum U25 {}

/// 28 bits, for sums over up to 1,026 devices straight from frames, with a time and a sheet:
/// version 2.
pub enum U28 {}

impl Profile for P1 {
    const NAME: &'static str = "P1";
    const CODE: u8 = 1;
    const MODULUS: u32 = 65_537;
    const RANK: usize = 3;
    const DELTA: u32 = 256;
    const BODY: usize = 513;
    const VERSION: u8 = 1;
    type Stamp = ();
    type Frame = [u8; 553];
    const EMPTY: [u8; 553] = [0; 553];
}

impl Profile for P17 {
    const NAME: &'static str = "P17";
    const CODE: u8 = 5;
    const MODULUS: u32 = P1::MODULUS;
    const RANK: usize = P1::RANK;
    const DELTA: u32 = P1::DELTA;
    const BODY: usize = P1::BODY;
    const VERSION: u8 = 2;
    type Stamp = Stamp;
    type Frame = [u8; 560];
    const EMPTY: [u8; 560] = [0; 560];
}

impl Profile for U25 {
    const NAME: &'static str = "U25";
    const CODE: u8 = 2;
    const MODULUS: u32 = 33_292_289;
    const RANK: usize = 4;
    const DELTA: u32 = 512;
    const BODY: usize = 800;
    const VERSION: u8 = 1;
    type Stamp = ();
    type Frame = [u8; 840];
    const EMPTY: [u8; 840] = [0; 840];
}

impl Profile for U28 {
    const NAME: &'static str = "U28";
    const CODE: u8 = 4;
    const MODULUS: u32 = 268_042_241;
    const RANK: usize = 5;
    const DELTA: u32 = 1024;
    const BODY: usize = 896;
    const VERSION: u8 = 2;
    type Stamp = Stamp;
    type Frame = [u8; 943];
    const EMPTY: [u8; 943] = [0; 943];
}

pub(crate) mod sealed {
    use super::*;

    /// A frame's [`Stamp`], or nothing. Code for all profiles makes either from a stamp.
    pub trait Stamped: Copy + From<Stamp> {
        /// The stamp.
        #[doc(hidden)]
        fn stamp(self) -> Option<Stamp>;
    }

    impl Stamped for Stamp {
        fn stamp(self) -> Option<Stamp> {
            Some(self)
        }
    }

    impl Stamped for () {
        fn stamp(self) -> Option<Stamp> {
            None
        }
    }

    impl From<Stamp> for () {
        fn from(_: Stamp) {}
    }

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

/// Words of 16 bits, for rank 3. `q - 1 = 2^16` is never drawn. This conditions on an event of
/// probability above 0.98 for a whole frame.
#[inline(always)]
fn draw_17(mut stream: ChaCha20Rng, mut take: impl FnMut(usize, usize, u32)) {
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

/// The lower bits of words of 32 bits; values that are not residues are skipped.
#[inline(always)]
fn draw_words<P: Profile>(bits: u32, mut stream: ChaCha20Rng, mut take: impl FnMut(usize, usize, u32)) {
    let (mut bytes, mut place, mut i) = ([0; 256], 0, 0);
    while place < READINGS {
        stream.fill_bytes(&mut bytes);
        for word in bytes.as_chunks::<4>().0 {
            let value = u32::from_le_bytes(*word) & ((1 << bits) - 1);
            if value < P::MODULUS && place < READINGS {
                take(place, i, value);
                i += 1;
                if i == P::RANK {
                    (place, i) = (place + 1, 0);
                }
            }
        }
    }
}

macro_rules! drawn_17 {
    ($($profile:ty),*) => {$(
        impl sealed::Drawn for $profile {
            type Secret = [[u32; READINGS]; 3];
            const ZERO: Self::Secret = [[0; READINGS]; 3];

            #[inline(always)]
            fn draw(stream: ChaCha20Rng, take: impl FnMut(usize, usize, u32)) {
                draw_17(stream, take);
            }

            fn pack(residues: &[u32; READINGS], body: &mut [u8]) -> bool {
                pack::pack_17(residues, body)
            }

            fn unpack(body: &[u8]) -> Option<[u32; READINGS]> {
                pack::unpack_17(body)
            }
        }
    )*};
}

drawn_17!(P1, P17);

macro_rules! drawn_whole {
    ($profile:ty, $rank:literal, $bits:literal, $bytes:literal) => {
        impl sealed::Drawn for $profile {
            type Secret = [[u32; READINGS]; $rank];
            const ZERO: Self::Secret = [[0; READINGS]; $rank];

            #[inline(always)]
            fn draw(stream: ChaCha20Rng, take: impl FnMut(usize, usize, u32)) {
                draw_words::<Self>($bits, stream, take);
            }

            fn pack(residues: &[u32; READINGS], body: &mut [u8]) -> bool {
                pack::pack_bits::<$bits, $bytes>(residues, body);
                true
            }

            fn unpack(body: &[u8]) -> Option<[u32; READINGS]> {
                pack::unpack_bits::<$bits, $bytes>(body, Self::MODULUS)
            }
        }
    };
}

// eight residues take as many bytes as a residue has bits
drawn_whole!(U25, 4, 25, 25);
drawn_whole!(U28, 5, 28, 28);
