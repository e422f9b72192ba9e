//! How a device and the key holder agree on the device's secret.
//!
//! The key holder publishes a **card** of its fleet: the meaning of readings, and a key of
//! ML-KEM-768. A device encapsulates to that key and sends the ciphertext in a **request** of about
//! 1,100 bytes, by any channel. Then both know 32 bytes:
//!
//! ```text
//! root = SHA-256("tobari-sense 1 root" ‖ shared secret ‖ fleet ‖ number).
//! ```
//!
//! **A request does not prove its origin**: anybody with the card can make one. Before you accept a
//! request, compare its fingerprint with the device's display, or bring the request from the device
//! over a trusted channel. The opposite direction needs no agreement: the key holder draws a
//! secret, and a token carries it to the device ([`super::registry::Token`]).
//!
//! ML-KEM is a library's, unchanged.

use super::holder::Holder;
use super::registry::{FLEET, Secret, Token};
use super::schema::{Schema, SchemaError};
use ml_kem::kem::{Decapsulate, DecapsulationKey, EncapsulationKey};
use ml_kem::{EncapsulateDeterministic, EncodedSizeUser, KemCore, MlKem768, MlKem768Params};
use rand_core::CryptoRng;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tobari_device::DeviceNumber;
pub use tobari_octets::hex;
use tobari_octets::unhex_lower;
use zeroize::Zeroizing;

const LABEL: &[u8] = b"tobari-sense 1 root";
/// Bytes of an ML-KEM-768 encapsulation key.
pub const KEM_KEY: usize = 1_184;
/// Bytes of the ML-KEM-768 ciphertext that a device sends.
pub const KEM_CIPHERTEXT: usize = 1_088;
/// Largest size of a card or a request in bytes.
pub const MAX_CARD: u64 = 1 << 18;

/// The public data of a fleet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// The beginning of the SHA-256 of the key, in hexadecimal digits.
    pub fleet: String,
    /// The meaning of readings.
    pub schema: Schema,
    /// The key of ML-KEM-768, in hexadecimal digits.
    pub key: String,
}

/// The message that a device sends once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The device's fleet.
    pub fleet: String,
    /// The number of the device in its frames.
    pub number: u32,
    /// The encapsulation ciphertext, in hexadecimal digits.
    pub ciphertext: String,
}

/// Why there is no agreement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnrolError {
    /// The card is malformed.
    #[error(
        "malformed card of a fleet: expected a key of ML-KEM-768 and the fleet's name that follows from it, found others"
    )]
    Card,
    /// The request is malformed.
    #[error(
        "malformed request of a device: expected a number below 2^24 and {KEM_CIPHERTEXT} bytes of ML-KEM-768, found others"
    )]
    Request,
    /// The request is for another fleet.
    #[error("expected a request to the fleet {expected}, found one to another")]
    Fleet {
        /// The key holder's fleet.
        expected: String,
    },
    /// An invalid schema.
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

fn fleet_of(key: &[u8]) -> [u8; FLEET] {
    let mut fleet = [0; FLEET];
    fleet.copy_from_slice(&Sha256::digest(key)[..FLEET]);
    fleet
}

impl Card {
    /// The card of a key holder.
    pub fn new(holder: &Holder, schema: Schema) -> Self {
        let key = pair(holder).1.as_bytes();
        Self { fleet: hex(&fleet_of(&key)), schema, key: hex(&key) }
    }

    /// Checks the card, and gives the fleet's name.
    ///
    /// # Errors
    /// [`EnrolError`].
    pub fn check(&self) -> Result<[u8; FLEET], EnrolError> {
        self.schema.check()?;
        let key: [u8; KEM_KEY] = unhex_lower(&self.key).ok_or(EnrolError::Card)?;
        let fleet = fleet_of(&key);
        encapsulation_key(&key)?;
        if unhex_lower(&self.fleet) == Some(fleet) { Ok(fleet) } else { Err(EnrolError::Card) }
    }

    /// The device's half: a token for the device to keep, and the request to send.
    ///
    /// # Errors
    /// [`EnrolError::Card`].
    pub fn request(&self, number: DeviceNumber, rng: &mut impl CryptoRng) -> Result<(Token, Request), EnrolError> {
        let fleet = self.check()?;
        let key: [u8; KEM_KEY] = unhex_lower(&self.key).ok_or(EnrolError::Card)?;
        let mut m = Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *m);
        let sealed = encapsulation_key(&key)?.encapsulate_deterministic((&*m).into());
        let (ciphertext, shared) = sealed.map_err(|()| EnrolError::Card)?;
        let shared = Zeroizing::new(<[u8; 32]>::from(shared));
        let token = Token::new(self.schema.profile, number, fleet, root(&shared, &fleet, number));
        Ok((token, Request { fleet: self.fleet.clone(), number: number.value(), ciphertext: hex(&ciphertext) }))
    }
}

impl Request {
    /// The first eight bytes of the request's SHA-256, for people to compare.
    pub fn fingerprint(&self) -> String {
        let hash = Sha256::new()
            .chain_update(&self.fleet)
            .chain_update(self.number.to_be_bytes())
            .chain_update(&self.ciphertext)
            .finalize();
        let digits = hex(&hash[..8]);
        [0, 4, 8, 12].map(|at| &digits[at..at + 4]).join("-")
    }

    /// The key holder's half: the number and the secret of the device.
    ///
    /// # Errors
    /// [`EnrolError`]. A request that was changed on its way gives a secret that the device does
    /// not have.
    pub fn accept(&self, holder: &Holder, card: &Card) -> Result<(DeviceNumber, Secret), EnrolError> {
        let fleet = card.check()?;
        if self.fleet != card.fleet {
            return Err(EnrolError::Fleet { expected: card.fleet.clone() });
        }
        let number = DeviceNumber::new(self.number).ok_or(EnrolError::Request)?;
        let ciphertext: [u8; KEM_CIPHERTEXT] = unhex_lower(&self.ciphertext).ok_or(EnrolError::Request)?;
        let shared = pair(holder).0.decapsulate(&ciphertext.into()).map_err(|()| EnrolError::Request)?;
        let shared = Zeroizing::new(<[u8; 32]>::from(shared));
        Ok((number, root(&shared, &fleet, number)))
    }
}

/// Reads a key whose numbers are all below the modulus, as FIPS 203 requires. Such a key has one
/// byte string.
fn encapsulation_key(key: &[u8; KEM_KEY]) -> Result<EncapsulationKey<MlKem768Params>, EnrolError> {
    let read = EncapsulationKey::from_bytes(&(*key).into());
    if read.as_bytes().as_slice() == key { Ok(read) } else { Err(EnrolError::Card) }
}

fn pair(holder: &Holder) -> (DecapsulationKey<MlKem768Params>, EncapsulationKey<MlKem768Params>) {
    let seed = holder.kem_seed();
    let (halves, _) = seed.as_chunks::<32>();
    MlKem768::generate_deterministic((&halves[0]).into(), (&halves[1]).into())
}

fn root(shared: &[u8; 32], fleet: &[u8; FLEET], number: DeviceNumber) -> Secret {
    let hash = Sha256::new()
        .chain_update(LABEL)
        .chain_update(shared)
        .chain_update(fleet)
        .chain_update(number.value().to_be_bytes())
        .finalize();
    Secret::from_bytes(hash.into())
}

/// Any bytes that parse as a card or a request are accepted or rejected without a panic.
#[doc(hidden)]
pub fn fuzz_enrolment(data: &[u8]) {
    if let Ok(card) = serde_json::from_slice::<Card>(data) {
        let _ = card.check();
    }
    if let Ok(request) = serde_json::from_slice::<Request>(data) {
        let _ = (request.fingerprint(), unhex_lower::<KEM_CIPHERTEXT>(&request.ciphertext));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use crate::schema::ProfileName;
    use chacha20::ChaCha20Rng;
    use chacha20::rand_core::SeedableRng;
    use tobari_device::U25;

    fn fleet(seed: u64) -> (Holder, Card) {
        let holder = Holder::generate(ProfileName::U25, &mut ChaCha20Rng::seed_from_u64(seed));
        let schema: Schema = serde_json::from_str(r#"{"profile":"u25","channel":[{"name":"x"}]}"#).unwrap();
        let card = Card::new(&holder, schema);
        (holder, card)
    }

    #[test]
    fn device_and_key_holder_agree_on_a_secret_that_nobody_else_has() {
        let ((holder, card), (stranger, other)) = (fleet(1), fleet(2));
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        let number = DeviceNumber::new(77).unwrap();
        let (token, request) = card.request(number, &mut rng).unwrap();
        assert_eq!(request.ciphertext.len(), 2 * KEM_CIPHERTEXT);
        let key = |secret: &Secret| secret.root().mac_key::<U25>();
        let (found, secret) = request.accept(&holder, &card).unwrap();
        assert!(found == number && key(&secret) == token.root().mac_key::<U25>());
        let (again, renewed) = card.request(number, &mut rng).unwrap();
        assert!(again.root().mac_key::<U25>() != key(&secret) && renewed.fingerprint() != request.fingerprint());
        // sent to another fleet, or changed
        assert!(matches!(request.accept(&stranger, &other), Err(EnrolError::Fleet { .. })));
        let moved = Request { fleet: other.fleet.clone(), ..request.clone() };
        assert!(key(&moved.accept(&stranger, &other).unwrap().1) != key(&secret));
        let renumbered = Request { number: 78, ..request.clone() };
        assert!(key(&renumbered.accept(&holder, &card).unwrap().1) != key(&secret));
        assert!(Request { number: 1 << 24, ..request.clone() }.accept(&holder, &card).is_err());
        assert!(Request { ciphertext: request.ciphertext[2..].to_owned(), ..request }.accept(&holder, &card).is_err());
    }

    #[test]
    fn a_card_whose_key_was_changed_is_refused() {
        let (_, card) = fleet(4);
        assert!(card.check().is_ok());
        let changed = Card { key: card.key.replacen(&card.key[..2], "00", 1), ..card.clone() };
        assert!(changed.key == card.key || changed.check().is_err());
        assert!(Card { fleet: "0".repeat(16), ..card.clone() }.check().is_err());
        assert!(Card { key: card.key[2..].to_owned(), ..card }.check().is_err());
        fuzz_enrolment(b"{}");
    }
}
