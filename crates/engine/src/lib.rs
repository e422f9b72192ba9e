//! Engines for the planner: they run the steps of programs under encryption.
//!
//! [`BgvEngine`] computes with exact integers, [`CkksEngine`] with approximate numbers. Both are
//! [`Engine`](tobari_plan::engine::Engine)s, so they run any program that runs on plain values,
//! whole in memory or paged. An engine sees ciphertexts, the plain arguments of steps, and public
//! keys. **A secret key cannot be a value**, so none is ever in a tier.
//!
//! **Levels.** A [`Shape`] counts the multiplications that are left; the lattice crate counts data
//! primes. A ciphertext over `l` data primes has level `l - 1` here, and so have the keys and
//! plaintexts for it. Every level of this crate's functions is of the first kind.
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
//! | plaintext of CKKS | `l N + N/2` words | its scale, `N/2` doubles: encoded again | the same |
//! | key | `2 d r(l) N` words | the wire's: one half a seed, one packed | both halves as words |
//!
//! A CKKS plaintext is encoded again to the same bits on every machine. In memory, a rotation's key
//! takes `N/2 + 512` bytes more.
//!
//! Besides values, a ring keeps up to 64 MiB of memory for later values, and a running step takes
//! some rows.
//!
//! **Randomised steps.** [`Op::Flood`](tobari_plan::program::Op::Flood) draws from ChaCha20 under a
//! seed derived from the run's secret and the step's number. So a result that is dropped and
//! computed again has the same bytes. **A secret serves one run of one program**: if one step of
//! one secret flooded two different ciphertexts, their difference would show the noise that the
//! flood must hide. An engine draws that secret itself and cannot be copied, and a plan's run
//! consumes it; [`BgvEngine::next_run`] makes the next engine.
//!
//! # Leakage
//! The sequence of steps and their times depend on shapes alone. Data of plaintexts is wiped where
//! the lattice crate wipes it: the elements of BGV plaintexts are not wiped. Storing a plaintext
//! stores it unencrypted.

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

/// Why a step failed, or a value could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The step does not take these arguments.
    #[error("{0}")]
    Step(String),
    /// The parameters do not have this level.
    #[error("expected a level up to {most}, found {found}")]
    Level {
        /// The highest level.
        most: u16,
        /// The level given.
        found: u16,
    },
    /// The engine cannot use these parameters, or a value has other parameters.
    #[error("expected {expected}, found others")]
    Parameters {
        /// The requirement.
        expected: &'static str,
    },
    /// The value is not of the shape given.
    #[error("expected {expected}, found something else")]
    Value {
        /// The requirement.
        expected: String,
    },
    /// The number of bytes is not that of the shape.
    #[error("expected {expected} bytes, found {found}")]
    Bytes {
        /// The shape's number of bytes.
        expected: u64,
        /// The number of bytes given.
        found: u64,
    },
    /// The bytes are no value.
    #[error("malformed {0}")]
    Malformed(&'static str),
    /// The bytes are no ciphertext, or no key.
    #[error(transparent)]
    Wire(#[from] LatticeWireError),
    /// An error of the BGV evaluator.
    #[error(transparent)]
    Bgv(#[from] exact::EvaluateError),
    /// An error of the BGV encoder.
    #[error(transparent)]
    BgvEncode(#[from] exact::EncodeError),
    /// An error of the CKKS evaluator.
    #[error(transparent)]
    Ckks(#[from] approximate::OperationError),
    /// An error of the CKKS encoder.
    #[error(transparent)]
    CkksEncode(#[from] approximate::EncodeError),
    /// An error of a step on plaintexts alone.
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

    /// Bytes of an element over the first data primes and optionally the special ones, packed.
    fn packed(&self, data: usize, special: bool) -> u64 {
        let ring = self.0.ring();
        let special = if special { ring.special_primes() } else { &[] };
        let bits = ring.data_primes()[..data].iter().chain(special).map(|prime| u64::from(prime.modulus().bits()));
        bits.map(|bits| (self.0.degree() as u64 * bits).div_ceil(8)).sum()
    }

    /// The number of digits of a key, and the number of its rows.
    fn digits(&self, data: usize) -> (usize, usize) {
        (data.div_ceil(self.0.digit_size()), data + self.0.ring().special_primes().len())
    }

    /// Bytes of an object in the wire format that are not its own: version, kind, parameters, and
    /// the identity of the key or as many zeros ([`put_object`]).
    fn head(&self) -> u64 {
        wire::encode_parameters(self.0).len() as u64 + ID_BYTES as u64
    }

    /// The shape of a ciphertext. The scheme adds `own` bytes.
    fn ciphertext(&self, level: u16, own: u64) -> Result<Shape, EngineError> {
        let data = self.primes(level)?;
        let packed = self.head() + 2 + own + 2 * self.packed(data, false);
        let raw = words::ciphertext_bytes(self.0, data, 2) as u64;
        Ok(Shape { kind: Kind::Encrypted, level, resident: 2 * self.rows(data), packed, raw })
    }

    /// The shape of such a ciphertext with its digits.
    fn hoisted(&self, level: u16, own: u64) -> Result<Shape, EngineError> {
        let ciphertext = self.ciphertext(level, own)?;
        let (digits, rows) = self.digits(self.primes(level)?);
        let resident = ciphertext.resident + digits as u64 * self.rows(rows);
        Ok(Shape { kind: Kind::Hoisted, resident, ..ciphertext })
    }

    /// The shape of a key for products.
    fn relinearization_key(&self, level: u16) -> Result<Shape, EngineError> {
        let data = self.primes(level)?;
        if self.0.ring().special_primes().is_empty() {
            return Err(EngineError::Parameters { expected: "parameters with a special prime" });
        }
        let (digits, rows) = self.digits(data);
        let digits = digits as u64;
        // the number of keys, then g, level and seed of this key
        let packed = self.head() + 3 + 4 + 1 + 32 + digits * self.packed(data, true);
        let raw = words::key_bytes(self.0, data) as u64;
        Ok(Shape { kind: Kind::Key, level, resident: 2 * digits * self.rows(rows), packed, raw })
    }

    /// The shape of a key for rotations, which also holds the permutation of values.
    fn rotation_key(&self, level: u16) -> Result<Shape, EngineError> {
        let key = self.relinearization_key(level)?;
        Ok(Shape { resident: key.resident + self.0.degree() as u64 / 2 + 512, ..key })
    }
}

/// Rejects bytes of another length than the shape's.
fn check_length(shape: &Shape, encoding: Encoding, found: usize) -> Result<(), EngineError> {
    let (expected, found) = (shape.stored(encoding), found as u64);
    if expected == found { Ok(()) } else { Err(EngineError::Bytes { expected, found }) }
}

/// Copies bytes into a buffer of exactly their length.
fn put(bytes: &[u8], room: &mut [u8]) -> Result<(), EngineError> {
    let (expected, found) = (room.len() as u64, bytes.len() as u64);
    if expected != found {
        return Err(EngineError::Bytes { expected, found });
    }
    room.copy_from_slice(bytes);
    Ok(())
}

/// Bytes of the identity of a key.
const ID_BYTES: usize = 8;

/// Copies an object of the wire format. One of an unknown key is shorter, so zeros follow it: all
/// objects of a shape have one length.
fn put_object(bytes: &[u8], room: &mut [u8]) -> Result<(), EngineError> {
    let (object, zeros) = room.split_at_mut(bytes.len().min(room.len()));
    if zeros.len() != ID_BYTES {
        return put(bytes, room);
    }
    zeros.fill(0);
    put(bytes, object)
}

/// The object that [`put_object`] wrote.
fn object(bytes: &[u8]) -> Result<&[u8], EngineError> {
    match bytes.split_last_chunk() {
        Some((object, zeros)) if bytes.first() == Some(&wire::VERSION) => {
            if *zeros == [0; ID_BYTES] {
                Ok(object)
            } else {
                Err(EngineError::Malformed("padding"))
            }
        }
        _ => Ok(bytes),
    }
}

/// Rejects a value of another shape.
fn check_shape(expected: &Shape, found: &Shape) -> Result<(), EngineError> {
    let words = || format!("{:?} at level {}, {} bytes of memory", expected.kind, expected.level, expected.resident);
    if expected == found { Ok(()) } else { Err(EngineError::Value { expected: words() }) }
}
