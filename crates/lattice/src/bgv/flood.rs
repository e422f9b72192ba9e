//! Noise that hides how a result was computed.

use super::ciphertext::Ciphertext;
use super::evaluate::{EvaluateError, Evaluator};
use crate::ring::{Coeff, Domain, Poly, Seed};
use crate::rlwe::{KeyId, PublicKey, norms};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

impl Evaluator {
    /// The same message with fresh randomness, and an error that hides the old one. It adds an
    /// encryption of zero, and `t` times a polynomial with coefficients in `[-2^bits, 2^bits)`,
    /// each a sum of three uniform numbers.
    ///
    /// The result is within [`flood_distance`](crate::rlwe::flood_distance) of `log2 B - log2 t` of
    /// being independent of the old error, in statistical distance over all coefficients together.
    /// `B` bounds the Euclidean norm of the old phase; [`Ciphertext::noise_bound`] does, because it
    /// bounds the canonical norm, which is never smaller. **The bound holds for honestly made
    /// ciphertexts**: an attacker without a key can make one with any phase.
    ///
    /// # Errors
    /// [`EvaluateError::Flooding`] if the noise would not fit the modulus,
    /// [`EvaluateError::NoBound`] for a ciphertext from bytes without a declared bound, or
    /// [`EvaluateError::Parameters`], or [`EvaluateError::OtherKey`] for another's public key.
    pub fn flood(
        &self,
        a: &Ciphertext,
        public: &PublicKey,
        bits: u32,
        rng: &mut impl CryptoRng,
    ) -> Result<Ciphertext, EvaluateError> {
        self.check(a)?;
        if a.norm == f64::INFINITY {
            return Err(EvaluateError::NoBound);
        }
        if public.parameters() != self.parameters() {
            return Err(EvaluateError::Parameters);
        }
        KeyId::joined([a.key(), public.id()])?;
        let t = (self.modulus().value() as f64).log2();
        let (quarter, error) = (a.noise_budget() + a.norm, norms::public_error(self.parameters()));
        let mut out = a.clone();
        out.inner.add_assign(&public.encrypt_zero(a.level(), rng));
        // from here on the bound is one of coefficients: no operation follows on the result
        out.set_norm(norms::sum([a.norm, error, f64::from(bits) + t]));
        let fits = out.noise_budget() > 0.0;
        if !fits {
            // what a quarter of the modulus leaves beside the other noise; nothing if that is more
            let share = 1.0 - (norms::sum([a.norm, error]) - quarter).exp2();
            let most = if share > 0.0 { quarter + share.log2() - t } else { 0.0 };
            return Err(EvaluateError::Flooding { most: most.max(0.0) as u32, found: bits });
        }
        let mut stream = Seed::random(rng).stream(Domain::Flood, 0);
        let ring = self.parameters().ring();
        let mut flood = Poly::<Coeff>::spline_integers(ring, ring.basis(a.level()), bits, &mut stream);
        flood.scale_assign(self.modulus().value() as i64);
        out.inner.add_phase(&Zeroizing::new(flood.forward()));
        Ok(out)
    }
}
