//! The oblivious pseudo-random function: RFC 9497, mode OPRF, suite ristretto255-SHA512.
//!
//! `P` hashes an input to the group, which has prime order. A client draws `r` and sends `r P(x)`.
//! The server returns `k r P(x)`. The client divides by `r`, and hashes `x` and `k P(x)` to the
//! output (2HashDH: Jarecki, Kiayias, Krawczyk, 2014). `r P(x)` is uniform among all elements
//! except the identity, for every `x`.
//!
//! **Encoding.** An element has 32 bytes, and one byte string. The identity is rejected, because it
//! is the same for all keys and inputs. All elements with bytes are in the group of prime order, so
//! no small subgroup leaks `k`.
//!
//! **Cost.** A client computes a hash to the group, two products with scalars and an inversion. The
//! server computes one product for an element. For an input that the server knows, it computes a
//! hash, a product and a part of an inversion. The server makes many outputs at a time, with `k /
//! 2` in place of `k`, because the encoding of a doubled point needs no square root.

use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::IsIdentity;
use rand_core::CryptoRng;
use sha2::{Digest, Sha512};
use zeroize::{Zeroize, Zeroizing};

/// Bytes of an element.
pub const ELEMENT_BYTES: usize = 32;
/// Bytes of a key.
pub const SECRET_BYTES: usize = 32;
/// Bytes of an output.
pub const OUTPUT_BYTES: usize = 64;
/// The most bytes of an input.
pub const MAX_INPUT: usize = u16::MAX as usize;

/// The suite's name: version, mode 0, group and hash.
const CONTEXT: &[u8] = b"OPRFV1-\x00-ristretto255-SHA512";

/// An output. It is uniform to clients for which the server did not evaluate the input.
pub type Output = Zeroizing<[u8; OUTPUT_BYTES]>;

/// Why an evaluation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OprfError {
    /// The bytes are not a scalar, or they are zero.
    #[error("expected a key that is a scalar below the group's order and not zero, found another")]
    Secret,
    /// The input is too long, or it hashes to the identity. Nobody can find such an input.
    #[error("expected an input of at most {MAX_INPUT} bytes, found another")]
    Input,
    /// The server returned more or fewer elements than the client sent.
    #[error("expected {expected} elements, found {found}")]
    Count {
        /// The number of elements sent.
        expected: usize,
        /// The number of elements returned.
        found: usize,
    },
}

/// An element of the group that is not the identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element(RistrettoPoint);

impl Element {
    /// The element of these bytes; none for bytes that no element has, and for the identity.
    pub fn from_bytes(bytes: [u8; ELEMENT_BYTES]) -> Option<Self> {
        CompressedRistretto(bytes).decompress().filter(|point| !point.is_identity()).map(Self)
    }

    /// The element's bytes.
    pub fn to_bytes(&self) -> [u8; ELEMENT_BYTES] {
        self.0.compress().to_bytes()
    }
}

/// The key. It evaluates any input. It is wiped on drop, and cannot be printed or compared:
///
/// ```compile_fail
/// fn shown(secret: &tobari_search::oprf::function::Secret) -> String {
///     format!("{secret:?}")
/// }
/// ```
/// ```compile_fail
/// fn compared(a: &tobari_search::oprf::function::Secret, b: &tobari_search::oprf::function::Secret) -> bool {
///     a == b
/// }
/// ```
pub struct Secret(Zeroizing<Scalar>);

impl Secret {
    /// A new key: uniform, not zero.
    pub fn random(rng: &mut impl CryptoRng) -> Self {
        Self(random_scalar(rng))
    }

    /// The key of a seed and a public text, as RFC 9497 derives it. Texts of more than 65,535 bytes
    /// are truncated.
    ///
    /// # Errors
    /// [`OprfError::Secret`] if 256 tries give zero. Nobody can cause this.
    pub fn derive(seed: &[u8; 32], info: &[u8]) -> Result<Self, OprfError> {
        let info = &info[..info.len().min(MAX_INPUT)];
        let length = (info.len() as u16).to_be_bytes();
        for counter in 0..=u8::MAX {
            let wide = expand(&[seed, &length, info, &[counter]], &[b"DeriveKeyPair", CONTEXT]);
            let scalar = Zeroizing::new(Scalar::from_bytes_mod_order_wide(&wide));
            if *scalar != Scalar::ZERO {
                return Ok(Self(scalar));
            }
        }
        Err(OprfError::Secret)
    }

    /// The key of these bytes.
    ///
    /// # Errors
    /// [`OprfError::Secret`] for bytes that no key has.
    pub fn from_bytes(bytes: &[u8; SECRET_BYTES]) -> Result<Self, OprfError> {
        let scalar = Option::from(Scalar::from_canonical_bytes(*bytes)).map(Zeroizing::new);
        scalar.filter(|scalar| **scalar != Scalar::ZERO).map(Self).ok_or(OprfError::Secret)
    }

    /// The complete key as bytes, for storage.
    pub fn to_bytes(&self) -> Zeroizing<[u8; SECRET_BYTES]> {
        Zeroizing::new(self.0.to_bytes())
    }

    /// `k G`. It tells no more about `k` than an evaluation.
    pub(super) fn public(&self) -> [u8; ELEMENT_BYTES] {
        RistrettoPoint::mul_base(&self.0).compress().to_bytes()
    }

    /// Evaluates a blinded input.
    pub fn evaluate(&self, blinded: &Element) -> Element {
        Element(*self.0 * blinded.0)
    }

    /// Evaluates unblinded inputs. The running time depends on their lengths.
    pub fn outputs(&self, inputs: &[Vec<u8>]) -> Vec<Output> {
        let half = Zeroizing::new(self.0.div_by_2());
        let mut points: Vec<RistrettoPoint> = inputs.iter().map(|input| *half * hash_to_group(input)).collect();
        let elements = RistrettoPoint::double_and_compress_batch(&points);
        points.iter_mut().for_each(Zeroize::zeroize);
        let outputs = inputs.iter().zip(elements);
        outputs.map(|(input, element)| finalize(input, &Zeroizing::new(element.to_bytes()))).collect()
    }
}

/// Inputs and their blinds. A client keeps them between its request and the answer. They are wiped
/// on drop.
pub struct Blinding {
    inputs: Zeroizing<Vec<Vec<u8>>>,
    blinds: Zeroizing<Vec<Scalar>>,
    elements: Vec<Element>,
}

impl Blinding {
    /// Blinds each input by a fresh scalar.
    ///
    /// # Errors
    /// [`OprfError::Input`].
    pub fn new(inputs: Vec<Vec<u8>>, rng: &mut impl CryptoRng) -> Result<Self, OprfError> {
        let blinds = inputs.iter().map(|_| *random_scalar(rng)).collect();
        Self::with(Zeroizing::new(inputs), Zeroizing::new(blinds))
    }

    fn with(inputs: Zeroizing<Vec<Vec<u8>>>, blinds: Zeroizing<Vec<Scalar>>) -> Result<Self, OprfError> {
        let blind = |(input, blind): (&Vec<u8>, &Scalar)| {
            let blinded = *blind * hash_to_group(input);
            let good = input.len() <= MAX_INPUT && !blinded.is_identity();
            if good { Ok(Element(blinded)) } else { Err(OprfError::Input) }
        };
        let elements = inputs.iter().zip(&*blinds).map(blind).collect::<Result<_, _>>()?;
        Ok(Self { inputs, blinds, elements })
    }

    /// The elements for the server to evaluate.
    pub fn elements(&self) -> &[Element] {
        &self.elements
    }

    /// The outputs, from the server's elements, in the order of the inputs. The client cannot check
    /// that the server used the right key.
    ///
    /// # Errors
    /// [`OprfError::Count`].
    pub fn finish(self, evaluated: &[Element]) -> Result<Vec<Output>, OprfError> {
        let (expected, found) = (self.inputs.len(), evaluated.len());
        if expected != found {
            return Err(OprfError::Count { expected, found });
        }
        let all = self.inputs.iter().zip(&*self.blinds).zip(evaluated);
        let finish = |((input, blind), element): ((&Vec<u8>, &Scalar), &Element)| {
            let point = Zeroizing::new(*Zeroizing::new(blind.invert()) * element.0);
            finalize(input, &Zeroizing::new(point.compress().to_bytes()))
        };
        Ok(all.map(finish).collect())
    }
}

/// A uniform scalar that is not zero.
fn random_scalar(rng: &mut impl CryptoRng) -> Zeroizing<Scalar> {
    let mut wide = Zeroizing::new([0; 64]);
    loop {
        rng.fill_bytes(&mut *wide);
        let scalar = Zeroizing::new(Scalar::from_bytes_mod_order_wide(&wide));
        if *scalar != Scalar::ZERO {
            return scalar;
        }
    }
}

/// `P`: two maps of Elligator's kind on 64 uniform bytes, as in RFC 9496.
fn hash_to_group(input: &[u8]) -> RistrettoPoint {
    RistrettoPoint::from_uniform_bytes(&expand(&[input], &[b"HashToGroup-", CONTEXT]))
}

/// Hashes a message, in parts, to 64 bytes for one purpose: `expand_message_xmd` of RFC 9380 with
/// SHA-512, for one block of output.
fn expand(message: &[&[u8]], purpose: &[&[u8]]) -> Zeroizing<[u8; 64]> {
    let length: usize = purpose.iter().map(|part| part.len()).sum();
    let end = |mut hash: Sha512| {
        purpose.iter().for_each(|part| hash.update(part));
        hash.update([length as u8]);
        Zeroizing::new(<[u8; 64]>::from(hash.finalize()))
    };
    let mut first = Sha512::new();
    first.update([0; 128]); // a block of the hash
    message.iter().for_each(|part| first.update(part));
    first.update([0, 64, 0]);
    let first = end(first);
    let mut second = Sha512::new();
    second.update(*first);
    second.update([1]);
    end(second)
}

/// The output for an input and its element.
fn finalize(input: &[u8], element: &[u8; ELEMENT_BYTES]) -> Output {
    let mut hash = Sha512::new();
    hash.update((input.len() as u16).to_be_bytes());
    hash.update(input);
    hash.update((ELEMENT_BYTES as u16).to_be_bytes());
    hash.update(element);
    hash.update(b"Finalize");
    Zeroizing::new(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};

    fn bytes<const N: usize>(hex: &str) -> [u8; N] {
        std::array::from_fn(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
    }

    /// RFC 9497, appendix A.1.1: the key, and for each input the blinded element, the evaluated
    /// element and the output. All use one blind.
    #[test]
    fn the_vectors_of_the_rfc_come_out() {
        let secret = Secret::derive(&[0xa3; 32], b"test key").unwrap();
        let key = bytes("5ebcea5ee37023ccb9fc2d2019f9d7737be85591ae8652ffa9ef0f4d37063b0e");
        assert_eq!(*secret.to_bytes(), key);
        let secret = Secret::from_bytes(&key).unwrap();
        let blind = bytes("64d37aed22a27f5191de1c1d69fadb899d8862b58eb4220029e036ec4c1f6706");
        let blind = Scalar::from_canonical_bytes(blind).unwrap();
        for (input, blinded, evaluated, output) in [
            (
                vec![0],
                "609a0ae68c15a3cf6903766461307e5c8bb2f95e7e6550e1ffa2dc99e412803c",
                "7ec6578ae5120958eb2db1745758ff379e77cb64fe77b0b2d8cc917ea0869c7e",
                "527759c3d9366f277d8c6020418d96bb393ba2afb20ff90df23fb7708264e2f3\
                 ab9135e3bd69955851de4b1f9fe8a0973396719b7912ba9ee8aa7d0b5e24bcf6",
            ),
            (
                vec![0x5a; 17],
                "da27ef466870f5f15296299850aa088629945a17d1f5b7f5ff043f76b3c06418",
                "b4cbf5a4f1eeda5a63ce7b77c7d23f461db3fcab0dd28e4e17cecb5c90d02c25",
                "f4a74c9c592497375e796aa837e907b1a045d34306a749db9f34221f7e750cb4\
                 f2a6413a6bf6fa5e19ba6348eb673934a722a7ede2e7621306d18951e7cf2c73",
            ),
        ] {
            let inputs = Zeroizing::new(vec![input.clone()]);
            let blinding = Blinding::with(inputs, Zeroizing::new(vec![blind])).unwrap();
            assert_eq!(blinding.elements()[0].to_bytes(), bytes(blinded));
            let answer = secret.evaluate(&blinding.elements()[0]);
            assert_eq!(answer.to_bytes(), bytes(evaluated));
            assert_eq!(*blinding.finish(&[answer]).unwrap()[0], bytes(output));
            assert_eq!(*secret.outputs(&[input])[0], bytes(output));
        }
    }

    #[test]
    fn what_a_client_computes_blinded_is_what_the_server_computes_and_every_blind_is_another() {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let secret = Secret::random(&mut rng);
        let inputs: Vec<Vec<u8>> = (0..20u8).map(|i| vec![i; usize::from(i)]).collect();
        let [first, second] = [0; 2].map(|_| Blinding::new(inputs.clone(), &mut rng).unwrap());
        assert!(first.elements().iter().zip(second.elements()).all(|(a, b)| a != b));
        let evaluated: Vec<Element> = first.elements().iter().map(|element| secret.evaluate(element)).collect();
        assert_eq!(second.finish(&evaluated[1..]).err(), Some(OprfError::Count { expected: 20, found: 19 }));
        let expected = secret.outputs(&inputs);
        assert!(first.finish(&evaluated).unwrap() == expected);
        assert!(Secret::random(&mut rng).outputs(&inputs) != expected);
    }

    #[test]
    fn other_bytes_than_those_of_an_element_or_a_key_are_refused() {
        // the identity; a square root that is odd; more than the field; a value with no point; all
        // ones
        assert!(Element::from_bytes([0; 32]).is_none());
        let mut element = Element(RistrettoPoint::mul_base(&Scalar::from(5u64))).to_bytes();
        assert!(Element::from_bytes(element).is_some());
        element[0] ^= 1;
        assert!(Element::from_bytes(element).is_none());
        let mut one_more = [255; 32];
        (one_more[0], one_more[31]) = (0xee, 0x7f);
        assert!(Element::from_bytes(one_more).is_none());
        assert!(Element::from_bytes([255; 32]).is_none());
        assert_eq!(Secret::from_bytes(&[0; 32]).err(), Some(OprfError::Secret));
        assert_eq!(Secret::from_bytes(&[255; 32]).err(), Some(OprfError::Secret));
        let long = vec![vec![0; MAX_INPUT + 1]];
        assert_eq!(Blinding::new(long, &mut ChaCha20Rng::from_seed([1; 32])).err(), Some(OprfError::Input));
    }
}
