//! Where the planner and the cryptography meet: steps of programs, done under encryption.
//!
//! [`BgvEngine`] computes with exact integers, [`CkksEngine`] with approximate numbers; both are
//! [`Engine`](tobari_plan::engine::Engine)s, so a program that runs in the clear runs on them,
//! whole in memory or paged. An engine sees ciphertexts, the plain arguments that it is given, and
//! public keys. **A secret key is no value**: there is no way to make it one, so that none is ever
//! in a tier.
//!
//! **Levels.** A [`Shape`] counts multiplications that are left, the core data primes: a ciphertext
//! over `l` data primes has level `l - 1` here, and so has whatever serves it: keys and plaintexts
//! of level `l - 1` are those over `l` data primes. Every level of this room's functions is of the
//! first kind.
//!
//! **Shapes are exact.** For `r(l) = l + k` rows of a key over `l` data primes and `k` special
//! ones, in `d` digits:
//!
//! | value | in memory | in the tier, packed | in the tier, raw |
//! |---|---|---|---|
//! | ciphertext | `2 l N` words | the wire's: packed bit by bit | its words ([`words`]) |
//! | hoisted ciphertext | `2 l N + d r(l) N` words | the ciphertext: its digits are made again | the same of its words |
//! | plaintext of BGV | `l N` words | `N` coefficients modulo `t`, packed: an element is made again | the same |
//! | compact plaintext of BGV | `N` coefficients of 4 bytes, or 8: each use prepares it anew | packed | as in memory |
//! | plaintext of CKKS | `l N + N/2` words | its scale and `N/2` doubles: encoded again, to the same bits on every machine | the same |
//! | key | `2 d r(l) N` words, a rotation's `N/2 + 512` bytes more | the wire's: half of it is a seed, the other half packed | both halves as words |
//!
//! Beside values, a ring keeps up to 64 MiB of memory for values to come, and a step takes some
//! rows for its time.
//!
//! **Randomised steps.** [`Op::Flood`](tobari_plan::program::Op::Flood) draws from ChaCha20 under a
//! seed that is derived from the secret of the run and the number of the step: whoever drops a
//! result and makes it again gets the same bytes. **A secret serves one run of one program**: two
//! different ciphertexts flooded by one step of one secret differ by what the flood was to hide. An
//! engine draws that secret itself and cannot be copied, and a plan's run consumes it;
//! [`BgvEngine::next_run`] makes the next.
//!
//! # Leakage
//! Which steps run, and how long they take, depends on shapes alone. What a plaintext is made of is
//! wiped where the core wipes it: the elements of plaintexts of BGV are not, and whoever stores
//! plaintexts stores them in the clear.

#![forbid(unsafe_code)]

mod bgv;
mod ckks;
mod compact;
pub mod matrix;

pub use bgv::{BgvEngine, BgvValue};
pub use ckks::{CkksEngine, CkksValue};

use tobari_lattice::params::LatticeParameters;
use tobari_lattice::wire::{self, LatticeWireError, words};
use tobari_lattice::{bgv as exact, ckks as approximate};
use tobari_plan::clear::ClearError;
use tobari_plan::program::{Encoding, Kind, Shape};

/// Why a step was not done, or a value not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Arguments that the step does not take.
    #[error("{0}")]
    Step(String),
    /// A level that the parameters do not have.
    #[error("expected a level up to {most}, found {found}")]
    Level {
        /// The highest.
        most: u16,
        /// The one asked for.
        found: u16,
    },
    /// Parameters that are no engine's, or a value of others.
    #[error("expected {expected}, found others")]
    Parameters {
        /// What there should be.
        expected: &'static str,
    },
    /// Another value than the shape says.
    #[error("expected {expected}, found something else")]
    Value {
        /// What there should be.
        expected: String,
    },
    /// So many bytes are not a value of that shape.
    #[error("expected {expected} bytes, found {found}")]
    Bytes {
        /// How many there should be.
        expected: u64,
        /// How many there are.
        found: u64,
    },
    /// Bytes that are no value.
    #[error("malformed {0}")]
    Malformed(&'static str),
    /// Bytes that are no ciphertext, or no key.
    #[error(transparent)]
    Wire(#[from] LatticeWireError),
    /// What the evaluator of BGV says.
    #[error(transparent)]
    Bgv(#[from] exact::EvaluateError),
    /// What the encoder of BGV says.
    #[error(transparent)]
    BgvEncode(#[from] exact::EncodeError),
    /// What the evaluator of CKKS says.
    #[error(transparent)]
    Ckks(#[from] approximate::OperationError),
    /// What the encoder of CKKS says.
    #[error(transparent)]
    CkksEncode(#[from] approximate::EncodeError),
    /// A step on plaintexts alone.
    #[error(transparent)]
    Clear(#[from] ClearError),
}

/// Bytes of values, in memory and in the tier.
struct Sizes<'a>(&'a LatticeParameters);

impl Sizes<'_> {
    /// The level of all data primes.
    fn top_level(&self) -> u16 {
        (self.0.data_primes() - 1) as u16
    }

    /// Data primes of a level.
    fn primes(&self, level: u16) -> Result<usize, EngineError> {
        let most = self.0.data_primes() - 1;
        let exists = usize::from(level) <= most;
        exists.then_some(usize::from(level) + 1).ok_or(EngineError::Level { most: most as u16, found: level })
    }

    /// Bytes of an element over so many rows, in memory.
    fn rows(&self, rows: usize) -> u64 {
        8 * (rows * self.0.degree()) as u64
    }

    /// Bytes of an element over the first data primes and perhaps the special ones, packed.
    fn packed(&self, data: usize, special: bool) -> u64 {
        let ring = self.0.ring();
        let special = if special { ring.special_primes() } else { &[] };
        let bits = ring.data_primes()[..data].iter().chain(special).map(|prime| u64::from(prime.modulus().bits()));
        bits.map(|bits| (self.0.degree() as u64 * bits).div_ceil(8)).sum()
    }

    /// Digits of a key, and its rows.
    fn digits(&self, data: usize) -> (usize, usize) {
        (data.div_ceil(self.0.digit_size()), data + self.0.ring().special_primes().len())
    }

    /// Bytes before an object on the wire: version, kind, parameters.
    fn head(&self) -> u64 {
        wire::encode_parameters(self.0).len() as u64
    }

    /// A ciphertext with so many bytes of its scheme's own.
    fn ciphertext(&self, level: u16, own: u64) -> Result<Shape, EngineError> {
        let data = self.primes(level)?;
        let packed = self.head() + 2 + own + 2 * self.packed(data, false);
        let raw = words::ciphertext_bytes(self.0, data, 2) as u64;
        Ok(Shape { kind: Kind::Encrypted, level, resident: 2 * self.rows(data), packed, raw })
    }

    /// Such a ciphertext with its digits.
    fn hoisted(&self, level: u16, own: u64) -> Result<Shape, EngineError> {
        let ciphertext = self.ciphertext(level, own)?;
        let (digits, rows) = self.digits(self.primes(level)?);
        let resident = ciphertext.resident + digits as u64 * self.rows(rows);
        Ok(Shape { kind: Kind::Hoisted, resident, ..ciphertext })
    }

    /// A key for products.
    fn relinearization_key(&self, level: u16) -> Result<Shape, EngineError> {
        let data = self.primes(level)?;
        if self.0.ring().special_primes().is_empty() {
            return Err(EngineError::Parameters { expected: "parameters with a special prime" });
        }
        let (digits, rows) = self.digits(data);
        let digits = digits as u64;
        // how many keys there are, then g, level and seed of this one
        let packed = self.head() + 3 + 4 + 1 + 32 + digits * self.packed(data, true);
        let raw = words::key_bytes(self.0, data) as u64;
        Ok(Shape { kind: Kind::Key, level, resident: 2 * digits * self.rows(rows), packed, raw })
    }

    /// A key for rotations: it holds how they move values, too.
    fn rotation_key(&self, level: u16) -> Result<Shape, EngineError> {
        let key = self.relinearization_key(level)?;
        Ok(Shape { resident: key.resident + self.0.degree() as u64 / 2 + 512, ..key })
    }
}

/// Refuses bytes unless they are as many as a shape says.
fn check_length(shape: &Shape, encoding: Encoding, found: usize) -> Result<(), EngineError> {
    let (expected, found) = (shape.stored(encoding), found as u64);
    if expected == found { Ok(()) } else { Err(EngineError::Bytes { expected, found }) }
}

/// Puts bytes where there is to be room for just as many.
fn put(bytes: &[u8], room: &mut [u8]) -> Result<(), EngineError> {
    let (expected, found) = (room.len() as u64, bytes.len() as u64);
    if expected != found {
        return Err(EngineError::Bytes { expected, found });
    }
    room.copy_from_slice(bytes);
    Ok(())
}

/// Refuses a value of another shape.
fn check_shape(expected: &Shape, found: &Shape) -> Result<(), EngineError> {
    let words = || format!("{:?} at level {}, {} bytes of memory", expected.kind, expected.level, expected.resident);
    if expected == found { Ok(()) } else { Err(EngineError::Value { expected: words() }) }
}
