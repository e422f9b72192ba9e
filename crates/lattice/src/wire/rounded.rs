//! A ciphertext of BGV over one prime, rounded for its last journey: to the holder of the key, who
//! decrypts it and computes nothing with it.
//!
//! Such a ciphertext carries bits that decryption does not need. Let `d_i = c_i / t` modulo the
//! prime `q`. The phase of the `d_i` is `(q/t) m' + e`: the message is in the **highest** bits, as
//! in BFV, and the lowest bits hold noise. So both parts are scaled from `q` to `2^b` and rounded,
//! and `c_0` loses its `k` lowest bits. The reader scales back and multiplies by `t`.
//!
//! **Error.** Rounding `c_1` is an error of at most `1/2` in each coefficient, times the secret of
//! -1, 0 and 1: the deviation is `σ = √((1 + 2N/3)/12)`. Dropping `k` bits of `c_0` is an error of
//! at most `2^(k-1)`. In units of the modulus that is `t 2^-b` times as much. [`Sizes`] takes the
//! fewest bits with which `8 σ` and the dropped bits stay within 10 % and 4 % of the modulus. With
//! a chance of `2^-49` for each coefficient the error is larger; decryption then refuses the
//! ciphertext if its noise exceeds a quarter. The maker of a flood leaves room for both
//! ([`Sizes::share`]).
//!
//! **Privacy.** The bytes are a function of the ciphertext, and tell nothing more than it does.
//!
//! A ciphertext of the search has 55 bits instead of 100 for each pair of coefficients.

use super::element::{pack_bits, unpack_bits};
use super::{LatticeKind, LatticeWireError, head_of, opaque, open, read_unit};
use crate::bgv;
use crate::params::{LatticeParameters, Plaintext};
use crate::ring::{Coeff, Modulus, Poly};
use crate::rlwe;

/// Standard deviations of the rounding for which there is room.
const DEVIATIONS: f64 = 8.0;

/// The shares of the modulus that rounding and dropping may take. A flood loses one bit of its
/// width by them, or none.
const SHARES: [f64; 2] = [0.1, 0.04];

/// The number of bits of a rounded ciphertext's coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    bits: u32,
    dropped: u32,
    t: Modulus,
    q: Modulus,
    degree: usize,
}

impl Sizes {
    /// The sizes for these parameters; none for another scheme, and where rounding would save
    /// little: it needs a first prime of two bits more than `b`.
    pub fn new(parameters: &LatticeParameters) -> Option<Self> {
        let Plaintext::Integers(t) = parameters.plaintext() else { return None };
        let q = *parameters.ring().data_primes().first()?.modulus();
        let (degree, log2_t) = (parameters.degree(), (t.value() as f64).log2());
        let [rounded, lost] = SHARES;
        let bits = (log2_t + (DEVIATIONS * deviation(degree) / rounded).log2()).ceil() as u32;
        let dropped = (f64::from(bits) - log2_t + lost.log2() + 1.0).floor().max(0.0) as u32;
        (bits + 2 <= q.bits()).then_some(Self { bits, dropped, t, q, degree })
    }

    /// The share of the modulus that the errors may take: below a quarter.
    pub fn share(&self) -> f64 {
        let unit = self.t.value() as f64 * (-f64::from(self.bits)).exp2();
        unit * (DEVIATIONS * deviation(self.degree) + (f64::from(self.dropped) - 1.0).exp2())
    }

    fn bytes(&self) -> usize {
        [self.bits - self.dropped, self.bits].map(|bits| (self.degree * bits as usize).div_ceil(8)).iter().sum()
    }
}

/// The deviation of the rounding of `c_1`, in units of the last place.
fn deviation(degree: usize) -> f64 {
    ((1.0 + degree as f64 * 2.0 / 3.0) / 12.0).sqrt()
}

/// Encodes a ciphertext of two parts over the first prime.
///
/// # Errors
/// [`LatticeWireError::Transparent`] for a ciphertext that everybody can read, and
/// [`LatticeWireError::Malformed`] for another level, three parts, or parameters without sizes.
pub fn encode_rounded(ciphertext: &bgv::Ciphertext) -> Result<Vec<u8>, LatticeWireError> {
    opaque(ciphertext.inner())?;
    let parameters = ciphertext.parameters();
    let sizes = Sizes::new(parameters).ok_or(LatticeWireError::Malformed("parameters"))?;
    let ([first, second], 1) = (ciphertext.inner().parts(), ciphertext.level()) else {
        return Err(LatticeWireError::Malformed("level"));
    };
    let Sizes { bits, dropped, t, q, .. } = sizes;
    let inverse = t.value() % q.value();
    let inverse = q.inverse(inverse).ok_or(LatticeWireError::Malformed("parameters"))?;
    // the product with 2^(64 + b) / q, rounded down, is right to 2^-14
    let scale = ((1u128 << (64 + bits)) / u128::from(q.value())) as u64;
    let scaled = |part: &Poly<_>, dropped: u32| -> Vec<u64> {
        let part = part.clone().inverse();
        let value = |value: &u64| {
            let product = u128::from(q.mul(*value, inverse)) * u128::from(scale);
            ((product + (1 << 63)) >> 64) as u64 & ((1 << bits) - 1)
        };
        part.row(0).iter().map(value).map(|value| value >> dropped).collect()
    };
    let mut out = head_of(LatticeKind::RoundedCiphertext, parameters, ciphertext.key());
    out.extend_from_slice(&ciphertext.factor().to_be_bytes());
    pack_bits(&scaled(first, dropped), bits - dropped, &mut out);
    pack_bits(&scaled(second, 0), bits, &mut out);
    Ok(out)
}

/// Reads a rounded ciphertext, over one prime. Nothing is known about its noise.
///
/// # Errors
/// [`LatticeWireError`], with the expected and the found value.
pub fn decode_rounded(bytes: &[u8], parameters: &LatticeParameters) -> Result<bgv::Ciphertext, LatticeWireError> {
    let (key, mut reader) = open(LatticeKind::RoundedCiphertext, bytes, parameters)?;
    let factor = read_unit(&mut reader, parameters)?;
    let sizes = Sizes::new(parameters).ok_or(LatticeWireError::Malformed("parameters"))?;
    reader.expect_rest(sizes.bytes())?;
    let Sizes { bits, dropped, t, q, degree, .. } = sizes;
    let ring = parameters.ring();
    let mut part = |dropped: u32| -> Result<Poly<_>, LatticeWireError> {
        let kept = bits - dropped;
        let mut element = Poly::<Coeff>::zero(ring, ring.basis(1));
        let row = reader.take((degree * kept as usize).div_ceil(8))?;
        if !unpack_bits(row, kept, 1 << kept, element.row_mut(0)) {
            return Err(LatticeWireError::Malformed("coefficient"));
        }
        for value in element.row_mut(0) {
            let middle = (*value << dropped) + ((1 << dropped) >> 1);
            let scaled = (u128::from(middle) * u128::from(q.value()) + (1 << (bits - 1))) >> bits;
            *value = q.mul(scaled as u64, t.value());
        }
        Ok(element.forward())
    };
    let parts = vec![part(dropped)?, part(0)?];
    Ok(bgv::Ciphertext::claimed(rlwe::Ciphertext::new(parameters, key, parts), factor, u32::MAX))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;
    use crate::bgv::{DecryptError, Decryptor, Encoder, Evaluator};
    use crate::params::NamedSet;
    use crate::ring::Seed;
    use crate::rlwe::{PublicKey, SecretKey};
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};

    fn rng(seed: u8) -> ChaCha20Rng {
        ChaCha20Rng::from_seed([seed; 32])
    }

    /// Results of honest servers, with all the noise that the modulus has room for beside rounding.
    #[test]
    fn rounded_ciphertexts_decrypt_to_the_same_numbers_and_are_shorter() {
        for (name, bits, dropped) in
            [("search", 27, 7), ("search-17", 28, 7), ("search-23", 34, 7), ("search-hidden", 31, 7)]
        {
            let parameters = NamedSet::from_name(name).unwrap().parameters().unwrap();
            let sizes = Sizes::new(&parameters).unwrap();
            assert_eq!((sizes.bits, sizes.dropped), (bits, dropped), "{name}");
            assert!(sizes.share() < SHARES.iter().sum(), "{name}");
            let secret = SecretKey::from_seed(&parameters, Seed::random(&mut rng(1)));
            let public = PublicKey::generate(&secret, &mut rng(2));
            let (encoder, evaluator) = (Encoder::new(&parameters).unwrap(), Evaluator::new(&parameters).unwrap());
            let holder = Decryptor::new(&secret).unwrap();
            let values: Vec<i64> = (0..encoder.slots() as i64).map(|i| i * 37 % 4_001 - 2_000).collect();
            let message = encoder.encode(&values).unwrap();
            let fresh = message.encrypt_seeded(holder.key(), parameters.data_primes(), &mut rng(3)).unwrap().expand();
            let modulus: f64 =
                parameters.ring().data_primes().iter().map(|prime| (prime.modulus().value() as f64).log2()).sum();
            let flood = modulus + (0.25 - sizes.share()).log2() - (sizes.t.value() as f64).log2();
            let flooded = evaluator.flood(&fresh, &public, flood as u32, &mut rng(4)).unwrap();
            let sent = evaluator.to_level(&flooded, 1).unwrap();
            let bytes = encode_rounded(&sent).unwrap();
            let read = decode_rounded(&bytes, &parameters).unwrap();
            assert_eq!(encode_rounded(&read).unwrap(), bytes, "one byte string");
            assert_eq!(encoder.decode(&holder.decrypt_measured(&read).unwrap()).unwrap(), values, "{name}");
            let whole = super::super::encode_ciphertext(&sent).unwrap().len();
            assert!(10 * bytes.len() < 8 * whole, "{name}: {} of {whole}", bytes.len());
            // damage in the highest bits is noise, and fewer or more bytes are refused
            let mut damaged = bytes.clone();
            let last = damaged.len() - 1;
            damaged[last - 40..].iter_mut().for_each(|byte| *byte ^= 0xff);
            let damaged = decode_rounded(&damaged, &parameters).unwrap();
            assert!(matches!(holder.decrypt_measured(&damaged), Err(DecryptError::Noise)), "{name}");
            assert!(decode_rounded(&bytes[..last], &parameters).is_err());
            assert!(decode_rounded(&[&bytes[..], &[0]].concat(), &parameters).is_err());
            // three parts, two primes, and what everybody can read
            assert_eq!(encode_rounded(&flooded), Err(LatticeWireError::Malformed("level")));
            let nothing = evaluator.sub(&sent, &sent).unwrap();
            assert_eq!(encode_rounded(&nothing), Err(LatticeWireError::Transparent));
        }
        let wide = NamedSet::from_name("search-40").unwrap().parameters().unwrap();
        assert_eq!(Sizes::new(&wide), None, "rounding would save nothing");
    }

    /// The measured error of rounding is that of the module's head.
    #[test]
    fn the_error_of_rounding_stays_within_its_share() {
        let parameters = NamedSet::from_name("search").unwrap().parameters().unwrap();
        let sizes = Sizes::new(&parameters).unwrap();
        let secret = SecretKey::from_seed(&parameters, Seed::random(&mut rng(5)));
        let (holder, evaluator) = (Decryptor::new(&secret).unwrap(), Evaluator::new(&parameters).unwrap());
        let message = Encoder::new(&parameters).unwrap().encode(&[5; 9]).unwrap();
        let mut worst: f64 = 0.0;
        for seed in 0..20 {
            let fresh =
                message.encrypt_seeded(holder.key(), parameters.data_primes(), &mut rng(seed)).unwrap().expand();
            let sent = evaluator.to_level(&fresh, 1).unwrap();
            let bytes = encode_rounded(&sent).unwrap();
            let read = decode_rounded(&bytes, &parameters).unwrap();
            let share =
                |one: &bgv::Ciphertext| (secret.noise(one.inner()).log2() - (sizes.q.value() as f64).log2()).exp2();
            assert!(share(&sent) < 1e-3);
            worst = worst.max(share(&read));
        }
        assert!((0.4..1.0).contains(&(worst / sizes.share())), "{worst} of {}", sizes.share());
    }
}
