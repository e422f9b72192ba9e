//! Parameters of lifted ElGamal, checked once: a value of [`Parameters`] exists only if its curve is
//! strong enough.
//!
//! **Security of a curve.** The best known attack on the discrete logarithm in a prime-order group of `n` elements
//! that has no special structure is Pollard's rho, about `sqrt(pi n / 4)` group operations, so a curve of `2k` bits has
//! `k` bits of security (NIST SP 800-57 part 1 rev. 5, table 2). NIST SP 800-131A rev. 2 disallows less than 112 bits; 112
//! bits are to be retired after 2030. Tobari therefore refuses curves below 112 bits unless the caller asks for the
//! paper's own measurements by name ([`SecurityFloor::InsecurePaper`]), and warns from 112 to 127.

use crate::curve::Curve;

/// The security, in bits, below which a curve is refused.
pub const FLOOR_BITS: u32 = 112;
/// The security, in bits, below which a curve is accepted with a warning.
pub const RECOMMENDED_BITS: u32 = 128;

/// Which curves a caller accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecurityFloor {
    /// At least [`FLOOR_BITS`] bits of security.
    Standard,
    /// Every curve of the paper's table 4, the breakable ones included: for repeating its measurements only.
    InsecurePaper,
}

/// The parameters of lifted ElGamal: a curve that the caller's security floor admits.
///
/// ```
/// use tobari_curve::{Curve, params::{Parameters, SecurityFloor}};
/// assert!(Parameters::new(Curve::Secp256k1, SecurityFloor::Standard).is_ok());
/// assert!(Parameters::new(Curve::Secp160k1, SecurityFloor::Standard).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parameters {
    curve: Curve,
}

impl Parameters {
    /// Admits `curve`, or says why not.
    ///
    /// # Errors
    /// [`BelowFloor`] if the curve is weaker than `floor` allows.
    pub fn new(curve: Curve, floor: SecurityFloor) -> Result<Self, BelowFloor> {
        match floor {
            SecurityFloor::Standard if curve.security_bits() < FLOOR_BITS => Err(BelowFloor { curve }),
            SecurityFloor::Standard | SecurityFloor::InsecurePaper => Ok(Self { curve }),
        }
    }

    /// The curve.
    pub fn curve(self) -> Curve {
        self.curve
    }

    /// A sentence to show to the user where the curve is weaker than [`RECOMMENDED_BITS`].
    pub fn warning(self) -> Option<String> {
        let bits = self.curve.security_bits();
        (bits < RECOMMENDED_BITS).then(|| {
            let verdict =
                if bits < FLOOR_BITS { "breakable, for measurements only" } else { "below the 128 bits advised today" };
            format!("curve {} has {bits} bits of security: {verdict}", self.curve)
        })
    }
}

/// A curve weaker than the caller's floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("curve {curve} has {} bits of security, below the floor of {FLOOR_BITS}", curve.security_bits())]
pub struct BelowFloor {
    /// The curve that was refused.
    pub curve: Curve,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weak_curves_are_refused_unless_the_paper_is_named() {
        for curve in Curve::ALL {
            let strong = curve.security_bits() >= 112;
            assert_eq!(Parameters::new(curve, SecurityFloor::Standard).is_ok(), strong, "{curve}");
            assert!(Parameters::new(curve, SecurityFloor::InsecurePaper).is_ok());
        }
    }

    #[test]
    fn every_curve_below_128_bits_warns() {
        for curve in Curve::ALL {
            let parameters = Parameters::new(curve, SecurityFloor::InsecurePaper).unwrap();
            assert_eq!(parameters.warning().is_some(), curve.security_bits() < 128, "{curve}");
        }
    }
}
