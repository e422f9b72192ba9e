//! Key pairs.

use crate::curve::{Points, Scalar};
use crate::params::Parameters;
use rand_core::CryptoRng;

/// The secret `s`. Zeroed on drop; neither printed nor compared; exported by
/// [`crate::wire::encode_secret_key`] only.
///
/// ```
/// use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
/// use tobari_curve::{Curve, elgamal::{Decryptor, Encryptor, SecretKey}, params::{Parameters, SecurityFloor}};
///
/// let mut rng = ChaCha20Rng::from_seed([0; 32]); // a program takes its randomness from the system
/// let parameters = Parameters::new(Curve::Secp256k1, SecurityFloor::Standard)?;
/// let key = SecretKey::generate(parameters, &mut rng);
/// let encryptor = Encryptor::new(&key.public_key());
/// let mut sum = encryptor.encrypt(&[1000, -5], &mut rng)?;
/// sum.add_assign(&encryptor.encrypt(&[234, -7], &mut rng)?)?; // anybody can add
/// assert_eq!(*Decryptor::new(&key, 65_536).vartime_decrypt(&sum)?, vec![1234, -12]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Neither of these compiles:
///
/// ```compile_fail,E0277
/// fn shown(key: &tobari_curve::elgamal::SecretKey) -> String { format!("{key:?}") }
/// ```
/// ```compile_fail,E0369
/// fn same(a: &tobari_curve::elgamal::SecretKey, b: &tobari_curve::elgamal::SecretKey) -> bool { a == b }
/// ```
#[derive(Clone)]
pub struct SecretKey {
    parameters: Parameters,
    scalar: Scalar,
}

/// The public `sG`.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    parameters: Parameters,
    point: Points,
}

impl SecretKey {
    /// Generates a key.
    pub fn generate(parameters: Parameters, rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        Self { parameters, scalar: Scalar::random(parameters.built_curve(), rng) }
    }

    /// A key from a scalar of the parameters' curve; `None` for zero, which would hide nothing, or
    /// for another curve.
    pub(crate) fn from_scalar(parameters: Parameters, scalar: Scalar) -> Option<Self> {
        let key = (scalar.curve() == parameters.built_curve()).then_some(Self { parameters, scalar })?;
        (!key.public_key().point.is_identity(0)).then_some(key)
    }

    pub(crate) fn scalar(&self) -> &Scalar {
        &self.scalar
    }

    /// The parameters.
    pub fn parameters(&self) -> Parameters {
        self.parameters
    }

    /// `sG`; constant time in `s`.
    pub fn public_key(&self) -> PublicKey {
        let generator = Points::generator(self.parameters.built_curve());
        PublicKey { parameters: self.parameters, point: generator.multiply(0, &self.scalar) }
    }
}

impl PublicKey {
    /// A key from one point; `None` for the identity, another curve, or another number of points.
    pub(crate) fn from_point(parameters: Parameters, point: Points) -> Option<Self> {
        let valid = point.curve() == parameters.built_curve() && point.len() == 1 && !point.is_identity(0);
        valid.then_some(Self { parameters, point })
    }

    pub(crate) fn point(&self) -> &Points {
        &self.point
    }

    /// The parameters.
    pub fn parameters(&self) -> Parameters {
        self.parameters
    }
}
