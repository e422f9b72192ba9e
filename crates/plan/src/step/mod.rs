//! Operations of steps, and the shapes of the values that they make.
//!
//! A [`Shape`] holds all that a planner knows of a value before the value exists: its kind, its
//! level, and its bytes in memory and in the tier. The shapes of the arguments determine the shape
//! of the result, so a plan depends on no data.

mod results;

use results::{after_polynomial, bilinear, key_fits, rotate_sum, transform};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The operation of a step, slot by slot unless stated otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Op {
    /// `a + b + …` of two values or more.
    Add,
    /// `a - b`.
    Sub,
    /// `-a`.
    Neg,
    /// `a b`. For two encrypted values a relinearisation key is the third argument, and the result
    /// is a level lower, rescaled.
    Mul,
    /// `a_0 b_0 + a_1 b_1 + …` of `a_0, b_0, a_1, b_1, …`. This is one step, because streaming a
    /// sum through memory costs more than its products. The level stays. Every `b` is plain; or all
    /// are encrypted, and a relinearisation key comes last, used once, for the sum.
    Dot,
    /// `c a` for an integer.
    Scale(i64),
    /// `a + c` for an integer.
    Offset(i64),
    /// Slot `i` of the result is slot `i + steps`. If the first argument is encrypted, the second
    /// is the key for these steps.
    Rotate(i64),
    /// Swaps the two rows. If the first argument is encrypted, the second is the key for the swap.
    /// Exact integers are in two rows.
    Swap,
    /// The common part of all rotations of one encrypted value.
    Hoist,
    /// [`Op::Rotate`] of a hoisted value.
    RotateHoisted(i64),
    /// `Σ_g ρ_(g giant)( Σ_(i,b) w_(g,i,b) ρ_(b baby)(a_i) )`, `b < babies` and `g < giants`: a
    /// linear map by its diagonals. It is one step, because rotations and sums share most of their
    /// cost. Arguments: the encrypted `a_i`; the plain `w`, by giant step, then `i`, then baby
    /// step; the keys of the baby steps except 0, and the key of one giant step if there are
    /// several. The level stays.
    Transform {
        /// Slots of a baby step.
        baby: i64,
        /// Number of baby steps.
        babies: u16,
        /// Slots of a giant step.
        giant: i64,
        /// Number of giant steps.
        giants: u16,
    },
    /// `Σ_(i<n) c_i a^i`; the second argument has the `c_i` in its first slots. It is one step,
    /// because powers and sums share most of the work. A relinearisation key comes third; the
    /// result is `⌈log2 n⌉` levels lower.
    Polynomial(u16),
    /// `1/divisor Σ_(i,j) w_(i,j) a_i b_j` with `a_0 = b_0 = 1`, for several lists `w`. Arguments:
    /// the encrypted `a_1, …`; the encrypted `b_1, …`; for each form a plain vector with the `w`,
    /// row by row, in its first slots; and a relinearisation key, used once for each form. Results
    /// are a level lower, rescaled; several results are [`Kind::Several`].
    Bilinear {
        /// Number of `a`.
        left: u8,
        /// Number of `b`.
        right: u8,
        /// Number of forms.
        forms: u8,
        /// The divisor of the sums: an integer that has an inverse.
        divisor: i64,
    },
    /// One value of [`Kind::Several`].
    Part(u8),
    /// `Σ a + Σ_g ρ_(steps_g)(Σ h_g)`. Arguments: the encrypted `a`, any number; then hoisted
    /// values for each of three rotations, `counts` for each; and a key for each rotation with a
    /// count above 0. It is one step, because the sum is switched to its level once.
    RotateSum {
        /// Steps of the three rotations.
        steps: [i64; 3],
        /// Number of values for each rotation; zeros are last.
        counts: [u8; 3],
    },
    /// The same value a level lower: divided by its last prime together with its scale, or
    /// switched.
    Rescale,
    /// The same value at a lower level, without a division.
    LowerTo(u16),
    /// The same value with additional noise of this many bits, drawn for this step, so that an
    /// output does not reveal how it was computed.
    Flood(u16),
}

impl Op {
    /// The name in tables of costs.
    pub fn name(self) -> &'static str {
        match self {
            Op::Add => "add",
            Op::Sub => "sub",
            Op::Neg => "neg",
            Op::Mul => "mul",
            Op::Dot => "dot",
            Op::Scale(_) => "scale",
            Op::Offset(_) => "offset",
            Op::Rotate(_) => "rotate",
            Op::Swap => "swap",
            Op::Hoist => "hoist",
            Op::RotateHoisted(_) => "rotate_hoisted",
            Op::Transform { .. } => "transform",
            Op::Polynomial(_) => "polynomial",
            Op::Bilinear { .. } => "bilinear",
            Op::Part(_) => "part",
            Op::RotateSum { .. } => "rotate_sum",
            Op::Rescale => "rescale",
            Op::LowerTo(_) => "lower_to",
            Op::Flood(_) => "flood",
        }
    }

    /// The same operation with one form instead of several.
    pub(crate) fn once(self) -> Self {
        match self {
            Op::Bilinear { left, right, divisor, .. } => Op::Bilinear { left, right, forms: 1, divisor },
            other => other,
        }
    }

    /// Whether it draws randomness: a repetition within a run must draw the same.
    pub fn is_randomised(self) -> bool {
        matches!(self, Op::Flood(_))
    }

    /// The kind and the level of the result, equal under every engine. Plain arguments must serve
    /// the level of the result. Scales of approximate numbers are no part of shapes: engines
    /// compare them.
    ///
    /// # Errors
    /// The reason why there is no result.
    pub fn result(self, args: &[Shape]) -> Result<(Kind, u16), String> {
        use Kind::{Encrypted, Hoisted, Key, Plain, Several};
        let kinds: Vec<Kind> = args.iter().map(|arg| arg.kind).collect();
        let vectors = |args: &[Shape]| {
            let encrypted = || args.iter().filter(|arg| arg.kind == Encrypted);
            let all = args.iter().all(|arg| matches!(arg.kind, Plain | Encrypted));
            let level = encrypted().map(|arg| arg.level).min();
            let plain = args.iter().map(|arg| arg.level).min().unwrap_or(0);
            all.then_some(level.map_or((Plain, plain), |level| (Encrypted, level)))
        };
        let made = match (self, &kinds[..]) {
            (Op::Add | Op::Sub, _)
            | (Op::Neg | Op::Scale(_) | Op::Offset(_), [_])
            | (Op::Mul, [Encrypted | Plain, Plain]) => vectors(args),
            (Op::Mul, [Encrypted, Encrypted, Key]) => {
                let level = args[0].level.min(args[1].level);
                if level == 0 {
                    return Err("expected a level for a product, found none left".to_owned());
                }
                key_fits(&args[2], level)?;
                Some((Encrypted, level - 1))
            }
            (Op::Dot, [pairs @ .., Key])
                if pairs.len() >= 2 && pairs.len() % 2 == 0 && pairs.iter().all(|kind| *kind == Encrypted) =>
            {
                let (key, pairs) = args.split_last().ok_or("expected a key")?;
                let level = pairs.iter().map(|arg| arg.level).min().unwrap_or(0);
                key_fits(key, level)?;
                Some((Encrypted, level))
            }
            (Op::Dot, _) if kinds.chunks(2).all(|pair| pair[0] != Hoisted && pair[1..] == [Plain]) => vectors(args),
            (Op::Transform { babies, giants, .. }, _) => transform(args, babies.into(), giants.into())?,
            (Op::Rotate(_) | Op::Swap, [Plain]) => Some((Plain, args[0].level)),
            (Op::Rotate(_) | Op::Swap, [Encrypted, Key]) | (Op::RotateHoisted(_), [Hoisted, Key]) => {
                key_fits(&args[1], args[0].level)?;
                Some((Encrypted, args[0].level))
            }
            (Op::Polynomial(length), [Encrypted, Plain, Key]) => Some((Encrypted, after_polynomial(args, length)?)),
            (Op::Bilinear { left, right, forms, .. }, _) => bilinear(args, [left, right, forms].map(usize::from))?,
            (Op::RotateSum { counts, .. }, _) => rotate_sum(args, counts)?,
            (Op::Hoist, [Encrypted]) => Some((Hoisted, args[0].level)),
            (Op::Rescale, [Encrypted]) if args[0].level > 0 => Some((Encrypted, args[0].level - 1)),
            (Op::LowerTo(level), [Encrypted]) if level <= args[0].level => Some((Encrypted, level)),
            (Op::Flood(_), [Encrypted]) | (Op::Part(_), [Several]) => Some((Encrypted, args[0].level)),
            _ => None,
        };
        if let Some((_, level)) = made
            && let Some(low) = args.iter().find(|arg| arg.kind == Plain && arg.level < level)
        {
            return Err(format!("expected plain arguments of {self} for level {level}, found one up to {}", low.level));
        }
        made.ok_or_else(|| {
            let args: Vec<String> = args.iter().map(|arg| format!("{:?} at level {}", arg.kind, arg.level)).collect();
            format!("expected arguments that {self} takes, found {}", args.join(", "))
        })
    }

    /// The least and the largest number of arguments.
    pub(crate) fn arity(self) -> (usize, usize) {
        match self {
            Op::Add | Op::Dot | Op::Transform { .. } | Op::RotateSum { .. } => (2, usize::MAX),
            Op::Sub | Op::RotateHoisted(_) => (2, 2),
            Op::Mul => (2, 3),
            Op::Polynomial(_) => (3, 3),
            Op::Bilinear { .. } => (3, usize::MAX),
            Op::Rotate(_) | Op::Swap => (1, 2),
            Op::Part(_)
            | Op::Neg
            | Op::Scale(_)
            | Op::Offset(_)
            | Op::Hoist
            | Op::Rescale
            | Op::LowerTo(_)
            | Op::Flood(_) => (1, 1),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Scale(c) | Op::Offset(c) => write!(f, "{} {c}", self.name()),
            Op::Rotate(steps) | Op::RotateHoisted(steps) => write!(f, "{} {steps}", self.name()),
            Op::Transform { baby, babies, giant, giants } => {
                write!(f, "{} {babies} by {baby}, {giants} by {giant}", self.name())
            }
            Op::Part(which) => write!(f, "{} {which}", self.name()),
            Op::Bilinear { left, right, forms, divisor } => {
                write!(f, "{} {left} by {right}, {forms} times, over {divisor}", self.name())
            }
            Op::RotateSum { steps, counts } => write!(f, "{} {counts:?} by {steps:?}", self.name()),
            Op::LowerTo(level) => write!(f, "{} {level}", self.name()),
            Op::Polynomial(length) => write!(f, "{} of {length}", self.name()),
            Op::Flood(bits) => write!(f, "{} {bits}", self.name()),
            _ => f.write_str(self.name()),
        }
    }
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Kind {
    /// A plaintext vector.
    Plain,
    /// An encrypted vector.
    Encrypted,
    /// The result of [`Op::Hoist`].
    Hoisted,
    /// Encrypted vectors that one step made together.
    Several,
    /// A public key that a server computes with.
    Key,
}

/// The properties of a value that are known before it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Its kind.
    pub kind: Kind,
    /// The multiplications left in an encrypted value; for a key or a plain value, the level that
    /// it serves.
    pub level: u16,
    /// Bytes in memory.
    pub resident: u64,
    /// Bytes in the tier, [`Encoding::Packed`].
    pub packed: u64,
    /// Bytes in the tier, [`Encoding::Raw`].
    pub raw: u64,
}

impl Shape {
    /// Bytes in the tier.
    pub fn stored(&self, encoding: Encoding) -> u64 {
        match encoding {
            Encoding::Packed => self.packed,
            Encoding::Raw => self.raw,
        }
    }
}

/// The encoding of a value's bytes in the tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// As small as possible: packed bits, seeds for random parts, small integers before their
    /// expansion. Encoding and decoding cost time of the cores.
    Packed,
    /// As in memory: the cores only copy.
    Raw,
}
