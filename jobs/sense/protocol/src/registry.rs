//! The key holder's registry of devices, and the token that gives a device its secret.
//!
//! **A place is permanent.** The device of place `p` is in block `p mod B` of cohort `⌊p/B⌋`. A
//! device that gets a new key gets a new number and a new place; its frames under the old number
//! stay readable at the old place. Devices are active, **retired** (replaced by a new key: no new
//! frames, old ones count) or **revoked** (no new frames, and old ones no longer count).
//!
//! | bytes | the registry: all of it secret |
//! |---|---|
//! | 4 | `TSR`, version |
//! | 4 | number of devices |
//! | each | number (4); state (1); root (32); name and tenant, each a length (1) and bytes |
//!
//! **A token** is one line of capital letters, digits and `-`, so that it fits the alphanumeric
//! mode of a QR code. It is `TOBARI-DEVICE-1-` and, in base 32, profile (1), number (3), fleet (8),
//! root (32) and the first four bytes of the SHA-256 of those. Anybody who reads a token can act as
//! the device.

use super::order::{MAX_DEVICES, Seat};
use super::schema::{ProfileName, is_name};
use rand_core::CryptoRng;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use tobari_device::{DeviceNumber, Root};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

const MAGIC: [u8; 4] = *b"TSR\x01";
const PREFIX: &str = "TOBARI-DEVICE-1-";
const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const TOKEN: usize = 1 + 3 + FLEET + 32 + 4;
/// Bytes of a fleet's name.
pub const FLEET: usize = 8;
/// Largest size of a registry in bytes.
pub const MAX_REGISTRY: u64 = 1 << 29;

/// The state of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// In use.
    Active,
    /// Replaced by a new key.
    Retired,
    /// No longer trusted.
    Revoked,
}

impl State {
    /// The name of the state.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Retired => "retired",
            Self::Revoked => "revoked",
        }
    }
}

/// The bytes of a root, from which all keys of a device follow. Wiped on drop, without `Debug`.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Secret([u8; 32]);

impl Secret {
    /// A secret from uniform secret bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A secret from this generator.
    pub fn random(rng: &mut impl CryptoRng) -> Self {
        let mut secret = Self([0; 32]);
        rng.fill_bytes(&mut secret.0);
        secret
    }

    /// The root with which a device computes.
    pub fn root(&self) -> Root {
        Root::from_bytes(self.0)
    }
}

/// A device.
pub struct Entry {
    /// The number of its key.
    pub number: DeviceNumber,
    /// The state of the device.
    pub state: State,
    /// The device's name. At most one active device has this name.
    pub name: String,
    /// The device's tenant; may be empty.
    pub tenant: String,
    secret: Secret,
}

impl Entry {
    /// The root of all its keys.
    pub fn root(&self) -> Root {
        self.secret.root()
    }

    /// The token for the device.
    pub fn token(&self, profile: ProfileName, fleet: [u8; FLEET]) -> Token {
        Token { profile, number: self.number, fleet, secret: self.secret.clone() }
    }
}

/// All devices, by place.
#[derive(Default)]
pub struct Registry {
    entries: Vec<Entry>,
    /// The places of active devices by name, and of all devices by number.
    active: BTreeMap<String, usize>,
    numbers: BTreeMap<u32, usize>,
}

/// Why a device is rejected, or bytes cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Bytes that are no registry.
    #[error("malformed registry of devices: expected \"TSR\", version 1 and its devices, found others")]
    Malformed,
    /// An invalid name.
    #[error("expected names of 1 to 64 letters, digits, '-', '_' and '.', found another")]
    Name,
    /// The name or number is in use.
    #[error("expected a device of a new name and number, found one that is active or was used: {0}")]
    Taken(String),
    /// The device does not exist.
    #[error("expected the name of an active device, found {0:?}")]
    Unknown(String),
    /// No number is left.
    #[error("expected room for another device, found none")]
    Full,
    /// The token is malformed.
    #[error("expected a device's token, TOBARI-DEVICE-1- and 77 letters and digits, found something else")]
    Token,
}

impl Registry {
    /// The devices, by place.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The active device with this name.
    pub fn active(&self, name: &str) -> Option<&Entry> {
        self.entries.get(*self.active.get(name)?)
    }

    /// The device with this number.
    pub fn numbered(&self, number: u32) -> Option<&Entry> {
        self.entries.get(*self.numbers.get(&number)?)
    }

    /// Adds a device, with the next number or the number that it agreed on.
    ///
    /// # Errors
    /// [`RegistryError`] for a name or number that is in use or invalid.
    pub fn add(
        &mut self,
        name: &str,
        tenant: &str,
        number: Option<DeviceNumber>,
        secret: Secret,
    ) -> Result<&Entry, RegistryError> {
        if !is_name(name) || !(tenant.is_empty() || is_name(tenant)) {
            return Err(RegistryError::Name);
        }
        let taken = |number: u32| self.numbered(number).is_some();
        if self.active(name).is_some() || number.is_some_and(|number| taken(number.value())) {
            return Err(RegistryError::Taken(name.to_owned()));
        }
        if self.entries.len() >= MAX_DEVICES {
            return Err(RegistryError::Full);
        }
        let next = || {
            let most = self.numbers.last_key_value().map_or(1, |(most, _)| most + 1);
            DeviceNumber::new(most).or_else(|| (1..1 << 24).find(|number| !taken(*number)).and_then(DeviceNumber::new))
        };
        let number = number.or_else(next).ok_or(RegistryError::Full)?;
        let (name, tenant) = (name.to_owned(), tenant.to_owned());
        Ok(self.push(Entry { number, state: State::Active, name, tenant, secret }))
    }

    /// Adds an entry whose number, and name if it is active, no other entry has.
    fn push(&mut self, entry: Entry) -> &Entry {
        let place = self.entries.len();
        self.numbers.insert(entry.number.value(), place);
        if entry.state == State::Active {
            self.active.insert(entry.name.clone(), place);
        }
        self.entries.push(entry);
        &self.entries[place]
    }

    /// Gives a device a new key, and retires the old number.
    ///
    /// # Errors
    /// [`RegistryError::Unknown`].
    pub fn rotate(
        &mut self,
        name: &str,
        number: Option<DeviceNumber>,
        secret: Secret,
    ) -> Result<&Entry, RegistryError> {
        let tenant = self.active(name).ok_or_else(|| RegistryError::Unknown(name.to_owned()))?.tenant.clone();
        if let Some(number) = number.filter(|number| self.numbered(number.value()).is_some()) {
            return Err(RegistryError::Taken(number.value().to_string()));
        }
        self.leave(name, State::Retired)?;
        self.add(name, &tenant, number, secret)
    }

    /// Revokes a device.
    ///
    /// # Errors
    /// [`RegistryError::Unknown`].
    pub fn revoke(&mut self, name: &str) -> Result<DeviceNumber, RegistryError> {
        self.leave(name, State::Revoked)
    }

    fn leave(&mut self, name: &str, state: State) -> Result<DeviceNumber, RegistryError> {
        let unknown = || RegistryError::Unknown(name.to_owned());
        let place = self.active.remove(name).ok_or_else(unknown)?;
        let entry = self.entries.get_mut(place).ok_or_else(unknown)?;
        entry.state = state;
        Ok(entry.number)
    }

    /// The next number of each device that got a new key. A revoked device has none, even if
    /// another device has its name.
    pub fn heirs(&self) -> BTreeMap<u32, u32> {
        let (mut heirs, mut retired): (_, BTreeMap<&str, u32>) = (BTreeMap::new(), BTreeMap::new());
        for entry in &self.entries {
            // a device is retired only for a new key of the same name, which stands behind it
            if let Some(before) = retired.remove(entry.name.as_str()) {
                heirs.insert(before, entry.number.value());
            }
            if entry.state == State::Retired {
                retired.insert(&entry.name, entry.number.value());
            }
        }
        heirs
    }

    /// The places that server and key holder plan with.
    pub fn seats(&self) -> Vec<Seat> {
        let seat = |entry: &Entry| Seat {
            number: entry.number.value(),
            takes: entry.state == State::Active,
            counts: entry.state != State::Revoked,
        };
        self.entries.iter().map(seat).collect()
    }

    /// The encoded registry, all of it secret.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let length: usize = self.entries.iter().map(|entry| 39 + entry.name.len() + entry.tenant.len()).sum();
        let mut out = Zeroizing::new(Vec::with_capacity(8 + length));
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&(self.entries.len() as u32).to_be_bytes());
        for Entry { number, state, name, tenant, secret } in &self.entries {
            out.extend_from_slice(&number.value().to_be_bytes());
            out.push(*state as u8);
            out.extend_from_slice(&secret.0);
            for text in [name, tenant] {
                out.push(text.len() as u8);
                out.extend_from_slice(text.as_bytes());
            }
        }
        out
    }

    /// Reads an encoded registry.
    ///
    /// # Errors
    /// [`RegistryError::Malformed`].
    pub fn decode(bytes: &[u8]) -> Result<Self, RegistryError> {
        let mut rest = bytes.strip_prefix(&MAGIC).ok_or(RegistryError::Malformed)?;
        let count = u32::from_be_bytes(array(&mut rest)?) as usize;
        if count > MAX_DEVICES || count > rest.len() / 39 {
            return Err(RegistryError::Malformed);
        }
        let mut registry = Self::default();
        for _ in 0..count {
            let number = DeviceNumber::new(u32::from_be_bytes(array(&mut rest)?)).ok_or(RegistryError::Malformed)?;
            let [state] = array(&mut rest)?;
            let states = [State::Active, State::Retired, State::Revoked];
            let state = states.into_iter().find(|known| *known as u8 == state).ok_or(RegistryError::Malformed)?;
            let secret = Secret(array(&mut rest)?);
            let (name, tenant) = (text(&mut rest)?, text(&mut rest)?);
            let is_taken = state == State::Active && registry.active(&name).is_some();
            let fresh = registry.numbered(number.value()).is_none() && !is_taken;
            if !fresh || !is_name(&name) || !(tenant.is_empty() || is_name(&tenant)) {
                return Err(RegistryError::Malformed);
            }
            registry.push(Entry { number, state, name, tenant, secret });
        }
        if rest.is_empty() { Ok(registry) } else { Err(RegistryError::Malformed) }
    }
}

fn array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], RegistryError> {
    let (first, after) = rest.split_first_chunk().ok_or(RegistryError::Malformed)?;
    *rest = after;
    Ok(*first)
}

fn text(rest: &mut &[u8]) -> Result<String, RegistryError> {
    let [length] = array(rest)?;
    let (first, after) = rest.split_at_checked(length.into()).ok_or(RegistryError::Malformed)?;
    *rest = after;
    String::from_utf8(first.to_vec()).map_err(|_| RegistryError::Malformed)
}

/// A device's identity and secret.
pub struct Token {
    /// The profile of its frames.
    pub profile: ProfileName,
    /// The number of its key.
    pub number: DeviceNumber,
    /// The name of its fleet.
    pub fleet: [u8; FLEET],
    secret: Secret,
}

impl Token {
    /// The token of a device that agreed on its secret itself.
    pub fn new(profile: ProfileName, number: DeviceNumber, fleet: [u8; FLEET], secret: Secret) -> Self {
        Self { profile, number, fleet, secret }
    }

    /// The root of all its keys.
    pub fn root(&self) -> Root {
        self.secret.root()
    }

    /// The token as a line of text, which is secret.
    pub fn encode(&self) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(TOKEN));
        bytes.push(self.profile.code());
        bytes.extend_from_slice(&self.number.value().to_be_bytes()[1..]);
        bytes.extend_from_slice(&self.fleet);
        bytes.extend_from_slice(&self.secret.0);
        let check = Sha256::digest(&*bytes);
        bytes.extend_from_slice(&check[..4]);
        let mut out = Zeroizing::new(String::with_capacity(PREFIX.len() + TOKEN.div_ceil(5) * 8));
        out.push_str(PREFIX);
        for five in bytes.chunks(5) {
            let bits = five.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte)) << (40 - 8 * five.len());
            let letters = (8 * five.len()).div_ceil(5);
            (0..letters).for_each(|place| out.push(char::from(ALPHABET[(bits >> (35 - 5 * place) & 31) as usize])));
        }
        out
    }

    /// Reads a token from a line of text.
    ///
    /// # Errors
    /// [`RegistryError::Token`] for any other line, and for a token with a changed letter.
    pub fn decode(line: &str) -> Result<Self, RegistryError> {
        let text = line.strip_prefix(PREFIX).ok_or(RegistryError::Token)?;
        if text.len() != (8 * TOKEN).div_ceil(5) {
            return Err(RegistryError::Token);
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(TOKEN));
        let (mut bits, mut count) = (0u32, 0);
        for letter in text.bytes() {
            let place = ALPHABET.iter().position(|known| *known == letter).ok_or(RegistryError::Token)?;
            (bits, count) = ((bits << 5 | place as u32) & 0xfff, count + 5);
            if count >= 8 {
                count -= 8;
                bytes.push((bits >> count) as u8);
            }
        }
        // the unused bits of the last letter must be zero, and the checksum must match
        let left = bits & ((1 << count) - 1);
        let (told, check) = bytes.split_at_checked(TOKEN - 4).ok_or(RegistryError::Token)?;
        if left != 0 || Sha256::digest(told)[..4] != *check {
            return Err(RegistryError::Token);
        }
        let profile = ProfileName::from_code(told[0]).ok_or(RegistryError::Token)?;
        let number = u32::from_be_bytes([0, told[1], told[2], told[3]]);
        let number = DeviceNumber::new(number).ok_or(RegistryError::Token)?;
        let (mut fleet, mut secret) = ([0; FLEET], Secret([0; 32]));
        fleet.copy_from_slice(&told[4..4 + FLEET]);
        secret.0.copy_from_slice(&told[4 + FLEET..]);
        Ok(Self { profile, number, fleet, secret })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use tobari_device::U25;

    fn secret(byte: u8) -> Secret {
        Secret::from_bytes([byte; 32])
    }

    #[test]
    fn a_new_key_is_a_new_number_and_a_new_place_and_the_old_one_still_counts() {
        let mut registry = Registry::default();
        for (name, byte) in [("a", 1), ("b", 2), ("c", 3)] {
            registry.add(name, "north", None, secret(byte)).unwrap();
        }
        assert!(matches!(registry.add("b", "", None, secret(4)), Err(RegistryError::Taken(_))));
        assert!(matches!(registry.add("d", "", DeviceNumber::new(2), secret(4)), Err(RegistryError::Taken(_))));
        assert!(matches!(registry.add("a b", "", None, secret(4)), Err(RegistryError::Name)));
        let renewed = registry.rotate("b", None, secret(5)).unwrap();
        assert_eq!((renewed.number.value(), renewed.tenant.as_str()), (4, "north"));
        registry.revoke("c").unwrap();
        assert!(registry.revoke("c").is_err() && registry.rotate("x", None, secret(6)).is_err());
        let seats: Vec<_> = registry.seats().iter().map(|seat| (seat.number, seat.takes, seat.counts)).collect();
        assert_eq!(seats, [(1, true, true), (2, false, true), (3, false, false), (4, true, true)]);
        let bytes = registry.encode();
        crate::fuzz_registry(&bytes);
        let read = Registry::decode(&bytes).unwrap();
        assert_eq!((read.seats(), read.active("b").unwrap().number.value()), (registry.seats(), 4));
        assert!(read.entries()[1].root().mac_key::<U25>() == secret(2).root().mac_key::<U25>());
        for length in 0..bytes.len() {
            assert!(Registry::decode(&bytes[..length]).is_err(), "{length} bytes");
        }
        assert!(Registry::decode(&[&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn a_token_with_any_letter_changed_is_none() {
        let number = DeviceNumber::new(0xab_cdef).unwrap();
        let token = Token::new(ProfileName::U25, number, [9; FLEET], secret(200));
        let line = token.encode();
        assert!(line.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'-'));
        crate::fuzz_registry(line.as_bytes());
        let read = Token::decode(&line).unwrap();
        assert_eq!((read.profile, read.number, read.fleet), (ProfileName::U25, number, [9; FLEET]));
        assert!(read.root().mac_key::<U25>() == token.root().mac_key::<U25>());
        for place in 0..line.len() {
            let mut other = line.as_bytes().to_vec();
            other[place] = if other[place] == b'A' { b'B' } else { b'A' };
            assert!(Token::decode(std::str::from_utf8(&other).unwrap()).is_err(), "letter {place}");
        }
        assert!(Token::decode(&line[1..]).is_err() && Token::decode(&format!("{}A", *line)).is_err());
    }
}
