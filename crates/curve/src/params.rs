//! Parameters of lifted ElGamal, checked once: a value of [`Parameters`] exists only if its curve
//! is strong enough.
//!
//! **Security of a curve.** The best known attack on the discrete logarithm in a prime-order group
//! of `n` elements that has no special structure is Pollard's rho, about `sqrt(pi n / 4)` group
//! operations, so a curve of `2k` bits has `k` bits of security (NIST SP 800-57 part 1 rev. 5,
//! table 2). NIST SP 800-131A rev. 2 disallows less than 112 bits; 112 bits are to be retired after
//! 2030. So Tobari rejects curves below 112 bits unless the caller explicitly asks for the paper's
//! measurements ([`SecurityFloor::InsecurePaper`]), and warns from 112 to 127. The arithmetic of
//! the curves below 112 bits is only in builds with the feature `paper`.

use crate::curve::{BuiltCurve, Curve};

/// The security, in bits, below which a curve is rejected.
pub const FLOOR_BITS: u32 = 112;
/// The security, in bits, below which a curve is accepted with a warning.
pub const RECOMMENDED_BITS: u32 = 128;

/// The curves that a caller accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecurityFloor {
    /// At least [`FLOOR_BITS`] bits of security.
    Standard,
    /// Every curve of the paper's table 4, including breakable ones: only to repeat its
    /// measurements.
    InsecurePaper,
}

/// The parameters of lifted ElGamal: a curve that the caller's security floor admits and that this
/// build computes on.
///
/// ```
/// use tobari_curve::{Curve, params::{Parameters, SecurityFloor}};
/// assert!(Parameters::new(Curve::Secp256k1, SecurityFloor::Standard).is_ok());
/// assert!(Parameters::new(Curve::Secp160k1, SecurityFloor::Standard).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parameters {
    curve: BuiltCurve,
}

impl Parameters {
    /// Accepts `curve`, or returns the reason for its rejection.
    ///
    /// # Errors
    /// [`RefusedCurve`] if the curve is weaker than `floor` allows, or has no arithmetic in this
    /// build.
    pub fn new(curve: impl Into<Curve>, floor: SecurityFloor) -> Result<Self, RefusedCurve> {
        let curve = curve.into();
        Self::admit(curve, floor, curve.built())
    }

    /// The same with the build as an argument, so that the tests of one build cover both answers.
    fn admit(curve: Curve, floor: SecurityFloor, built: Option<BuiltCurve>) -> Result<Self, RefusedCurve> {
        if floor == SecurityFloor::Standard && curve.security_bits() < FLOOR_BITS {
            return Err(RefusedCurve::BelowFloor { curve });
        }
        built.map(|curve| Self { curve }).ok_or(RefusedCurve::NotBuilt { curve })
    }

    /// The curve.
    pub fn curve(self) -> Curve {
        self.curve.into()
    }

    /// The curve, to compute on.
    pub fn built_curve(self) -> BuiltCurve {
        self.curve
    }

    /// A warning for the user if the curve is weaker than [`RECOMMENDED_BITS`].
    pub fn warning(self) -> Option<String> {
        let bits = self.curve().security_bits();
        (bits < RECOMMENDED_BITS).then(|| {
            let verdict =
                if bits < FLOOR_BITS { "breakable, for measurements only" } else { "below the 128 bits advised today" };
            format!("curve {} has {bits} bits of security: {verdict}", self.curve)
        })
    }
}

/// Why a curve has no [`Parameters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RefusedCurve {
    /// The curve is weaker than the caller's floor.
    #[error("curve {curve} has {} bits of security, below the floor of {FLOOR_BITS}", curve.security_bits())]
    BelowFloor {
        /// The rejected curve.
        curve: Curve,
    },
    /// The feature `paper` was off when this program was built.
    #[error("this build has no arithmetic for the curve {curve}: build it with the feature `paper`")]
    NotBuilt {
        /// The rejected curve.
        curve: Curve,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weak_curves_are_refused_unless_the_paper_is_named() {
        for curve in Curve::ALL {
            let strong = curve.security_bits() >= 112;
            let standard = Parameters::new(curve, SecurityFloor::Standard);
            assert_eq!(standard.err(), (!strong).then_some(RefusedCurve::BelowFloor { curve }));
            let built = strong || cfg!(feature = "paper");
            assert_eq!(Parameters::new(curve, SecurityFloor::InsecurePaper).is_ok(), built, "{curve}");
        }
    }

    #[test]
    fn a_curve_without_arithmetic_is_refused_with_a_way_out() {
        for curve in Curve::ALL {
            let refused = Parameters::admit(curve, SecurityFloor::InsecurePaper, None).err();
            assert_eq!(refused, Some(RefusedCurve::NotBuilt { curve }));
            let message = refused.unwrap().to_string();
            assert!(message.contains(curve.name()) && message.contains("feature `paper`"), "{message}");
        }
    }

    #[test]
    fn every_curve_below_128_bits_warns() {
        for curve in BuiltCurve::ALL {
            let parameters = Parameters::new(curve, SecurityFloor::InsecurePaper).unwrap();
            assert_eq!(parameters.warning().is_some(), parameters.curve().security_bits() < 128, "{curve}");
        }
    }
}
