//! Encryption in mode `elgamal` with wide tables, read at addresses that depend on the randomness
//! and the messages.
//!
//! Use it to compare with libraries that do the same, and for public messages. An attacker on the
//! same processor can learn the addresses from the caches, so do not use it for secrets.

use super::{Ciphertexts, EncryptError, PublicKey, SAMPLE_BOUND, check_messages};
use crate::curve::fixed_base::multiply_bases;
use crate::curve::{Points, Scalar, VartimeFixedBase, multiples};
use crate::kernels::Scratch;
use crate::params::Parameters;
use rand_core::CryptoRng;
use tobari_simd::Line;

/// The tables with which one public key encrypts.
pub struct VartimeEncryptor {
    parameters: Parameters,
    generator: VartimeFixedBase,
    key: VartimeFixedBase,
    /// `mG` for `m ≤` [`SAMPLE_BOUND`], as table entries.
    messages: Vec<Line>,
}

impl VartimeEncryptor {
    /// Builds the tables of windows of `width` bits, 2 to 16: some 8 MB on a curve of 256 bits with
    /// 12, in some 20 ms.
    pub fn new(key: &PublicKey, width: u32) -> Self {
        let parameters = key.parameters();
        let generator = Points::generator(parameters.built_curve());
        Self {
            parameters,
            generator: VartimeFixedBase::new(&generator, 0, width),
            key: VartimeFixedBase::new(key.point(), 0, width),
            messages: multiples(&generator, SAMPLE_BOUND as usize + 1, &mut Scratch::public()).pack(),
        }
    }

    /// Encrypts each message with separate randomness.
    ///
    /// # Errors
    /// [`EncryptError`] for the first message beyond [`SAMPLE_BOUND`].
    pub fn vartime_encrypt(
        &self,
        messages: &[i32],
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<Ciphertexts, EncryptError> {
        check_messages(messages)?;
        let curve = self.parameters.built_curve();
        let randomness: Vec<Scalar> = messages.iter().map(|_| Scalar::random(curve, rng)).collect();
        let [mut s, r] = multiply_bases([self.key.table(), self.generator.table()], &randomness);
        let index: Vec<u64> = messages.iter().map(|m| u64::from(m.unsigned_abs())).collect();
        let negate: Vec<u64> = messages.iter().map(|m| (i64::from(*m) >> 63) as u64).collect();
        let select = curve.kernels().vartime_select;
        s.add(&Points::selected(curve, select, &self.messages, &index, &negate), &mut Scratch::public());
        Ok(Ciphertexts::from_halves(self.parameters, &s, &r))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Decryptor, SecretKey};
    use super::*;
    use crate::curve::BuiltCurve;
    use crate::params::SecurityFloor;
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};

    #[test]
    fn every_message_decrypts_on_every_curve() {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        for curve in BuiltCurve::ALL {
            let parameters = Parameters::new(curve, SecurityFloor::InsecurePaper).unwrap();
            let key = SecretKey::generate(parameters, &mut rng);
            let encryptor = VartimeEncryptor::new(&key.public_key(), 10);
            let messages = [0, 1, -1, 32_768, -32_768, 32_767, -999, 12_345, 0, 4_096, -4_097];
            let ciphertexts = encryptor.vartime_encrypt(&messages, &mut rng).unwrap();
            let decryptor = Decryptor::new(&key, SAMPLE_BOUND as u32);
            assert_eq!(*decryptor.vartime_decrypt(&ciphertexts).unwrap(), messages, "{curve}");
            assert_eq!(encryptor.vartime_encrypt(&[32_769], &mut rng).err(), Some(EncryptError::Range { index: 0 }));
        }
    }
}
