//! Short Weierstrass curves `y² = x³ + ax + b` over prime fields: the ten curves of the paper's
//! table 4.
//!
//! Paper: Ueno et al., section 6.1 (`book/src/explanation/mathematics.md` gives it in full).
//! NIST_P384 is secp384r1 under another name, so the ten rows of the table are nine distinct
//! curves. All have prime order (cofactor 1): a point that satisfies the equation is in the group,
//! and no subgroup check is needed.
//!
//! Points are handled in batches ([`Points`]), in affine form, so that one field inversion serves a
//! whole packet (Montgomery's trick). Secret scalars multiply points only through [`FixedBase`] and
//! [`Points::multiply_all`], whose memory accesses and branches do not depend on the scalar. The
//! arithmetic itself is in [`crate::kernels`].

pub(crate) mod built;
pub(crate) mod catalogue;
mod chain;
mod discrete_log;
mod encoding;
mod endomorphism;
pub(crate) mod fixed_base;
mod order;
pub(crate) mod points;
pub(crate) mod projective;
mod scalar;

#[cfg(test)]
pub(crate) mod known_answers;

pub use built::BuiltCurve;
pub use catalogue::{Curve, UnknownCurve};
pub(crate) use chain::vartime_powers_of_two;
pub(crate) use discrete_log::multiples;
pub use discrete_log::{DiscreteLog, NotInRange};
pub use encoding::{PointEncoding, PointError};
pub use fixed_base::{FixedBase, VartimeFixedBase};
pub(crate) use order::multiply_add;
pub use points::{Adder, Mismatch, Points};
pub use scalar::{Scalar, ScalarError};
