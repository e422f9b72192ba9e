//! The curves with arithmetic in this build: all nine with the feature `paper`, otherwise those of
//! at least 112 bits of security.
//!
//! Points, scalars and parameters hold a [`BuiltCurve`], so no code can call missing loops.

use super::catalogue::{Curve, Shape};
use crate::kernels::CurveKernels;
use std::fmt;
use tobari_simd::{Backend, chosen};

/// Runs an expression with `$name` bound to the marker type of a [`BuiltCurve`].
macro_rules! with_curve {
    ($curve:expr, $name:ident => $body:expr) => {
        match $curve {
            #[cfg(feature = "paper")]
            $crate::curve::BuiltCurve::Secp160k1 => {
                type $name = $crate::curve::catalogue::Secp160k1;
                $body
            }
            #[cfg(feature = "paper")]
            $crate::curve::BuiltCurve::P160_1 => {
                type $name = $crate::curve::catalogue::P160_1;
                $body
            }
            #[cfg(feature = "paper")]
            $crate::curve::BuiltCurve::Secp192k1 => {
                type $name = $crate::curve::catalogue::Secp192k1;
                $body
            }
            $crate::curve::BuiltCurve::Secp224k1 => {
                type $name = $crate::curve::catalogue::Secp224k1;
                $body
            }
            $crate::curve::BuiltCurve::Secp256k1 => {
                type $name = $crate::curve::catalogue::Secp256k1;
                $body
            }
            $crate::curve::BuiltCurve::Secp384r1 => {
                type $name = $crate::curve::catalogue::Secp384r1;
                $body
            }
            #[cfg(feature = "paper")]
            $crate::curve::BuiltCurve::NistP192 => {
                type $name = $crate::curve::catalogue::NistP192;
                $body
            }
            $crate::curve::BuiltCurve::NistP224 => {
                type $name = $crate::curve::catalogue::NistP224;
                $body
            }
            $crate::curve::BuiltCurve::NistP256 => {
                type $name = $crate::curve::catalogue::NistP256;
                $body
            }
        }
    };
}
pub(crate) use with_curve;

/// A curve with arithmetic in this build. Points, scalars and parameters can have no other curve.
///
/// ```
/// use tobari_curve::{BuiltCurve, Curve};
/// assert_eq!(Curve::NistP256.built(), Some(BuiltCurve::NistP256));
/// assert_eq!(Curve::Secp160k1.built().is_some(), cfg!(feature = "paper"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BuiltCurve {
    /// [`Curve::Secp160k1`].
    #[cfg(feature = "paper")]
    Secp160k1,
    /// [`Curve::P160_1`].
    #[cfg(feature = "paper")]
    P160_1,
    /// [`Curve::Secp192k1`].
    #[cfg(feature = "paper")]
    Secp192k1,
    /// [`Curve::Secp224k1`].
    Secp224k1,
    /// [`Curve::Secp256k1`].
    Secp256k1,
    /// [`Curve::Secp384r1`].
    Secp384r1,
    /// [`Curve::NistP192`].
    #[cfg(feature = "paper")]
    NistP192,
    /// [`Curve::NistP224`].
    NistP224,
    /// [`Curve::NistP256`].
    NistP256,
}

impl BuiltCurve {
    /// Every curve that this build computes on, in the paper's order.
    pub const ALL: [BuiltCurve; if cfg!(feature = "paper") { 9 } else { 5 }] = [
        #[cfg(feature = "paper")]
        BuiltCurve::Secp160k1,
        #[cfg(feature = "paper")]
        BuiltCurve::P160_1,
        #[cfg(feature = "paper")]
        BuiltCurve::Secp192k1,
        BuiltCurve::Secp224k1,
        BuiltCurve::Secp256k1,
        BuiltCurve::Secp384r1,
        #[cfg(feature = "paper")]
        BuiltCurve::NistP192,
        BuiltCurve::NistP224,
        BuiltCurve::NistP256,
    ];

    /// The name of the arithmetic in use: the fastest on this machine, unless
    /// [`tobari_simd::choose_backend`] selected another.
    pub fn backend(self) -> &'static str {
        self.kernels().backend
    }

    /// The fastest loops on this machine, unless others were selected.
    pub(crate) fn kernels(self) -> &'static CurveKernels {
        let fastest = chosen() == Backend::Fastest;
        with_curve!(self, C => C::vector_kernels().filter(|_| fastest).unwrap_or(C::SCALAR))
    }

    pub(crate) fn shape(self) -> Shape {
        with_curve!(self, C => C::SHAPE)
    }

    /// As [`Curve::coordinate_bytes`].
    pub(crate) fn coordinate_bytes(self) -> usize {
        Curve::from(self).coordinate_bytes()
    }

    /// As [`Curve::scalar_bytes`].
    pub(crate) fn scalar_bytes(self) -> usize {
        Curve::from(self).scalar_bytes()
    }
}

impl From<BuiltCurve> for Curve {
    fn from(built: BuiltCurve) -> Self {
        with_curve!(built, C => C::CURVE)
    }
}

impl fmt::Display for BuiltCurve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Curve::from(*self).fmt(f)
    }
}
