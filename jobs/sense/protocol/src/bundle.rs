//! The bundle that a key holder gives a server for a fleet: the devices' MAC keys, and the names of
//! the objects for the server's computations.
//!
//! The name of an object is the SHA-256 of its bytes, and each object is sent once; the bundle
//! lists them. For each device the server has a number, a key that detects forged frames, whether
//! the server accepts new frames and whether stored frames count. It has **no names of devices**.

use super::lists::at_most;
use super::order::{MAX_DEVICES, Seat};
use super::registry::{FLEET, Registry};
use super::schema::ProfileName;
use crate::with_profile;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use tobari_device::DeviceNumber;
use tobari_octets::{hex, unhex_lower};
use zeroize::Zeroizing;

/// Bytes of a bundle at most.
pub const MAX_BUNDLE: usize = 1 << 28;
/// Bytes of an object at most.
pub const MAX_OBJECT: usize = 1 << 27;
/// Cohorts at most: a ciphertext has places for 32 devices at least.
pub const MAX_COHORTS: usize = MAX_DEVICES / 32;
/// Polynomials of a cohort at most.
const MAX_PARTS: usize = 8;
/// Keys at most.
const MAX_KEYS: usize = 256;

/// A device, as a server knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceLine {
    /// The number, whether new frames are accepted, and whether stored frames count.
    #[serde(rename = "seat")]
    pub seat: Seat,
    /// The MAC key, in hexadecimal digits.
    pub mac: String,
}

impl DeviceLine {
    /// The devices of a registry, by place.
    pub fn of_registry(registry: &Registry, profile: ProfileName) -> Vec<Self> {
        let line = |(entry, seat): (&super::registry::Entry, Seat)| {
            let mac = Zeroizing::new(with_profile!(profile, P => entry.root().mac_key::<P>()));
            Self { seat, mac: hex(&*mac) }
        };
        registry.entries().iter().zip(registry.seats()).map(line).collect()
    }
}

/// The SHA-256 of an object in hexadecimal digits; any other text is rejected.
struct ObjectName;

impl<'de> DeserializeSeed<'de> for ObjectName {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for ObjectName {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a SHA-256 of 64 lower-case hexadecimal digits")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        let known = unhex_lower::<32>(text).is_some();
        if known { Ok(text.to_owned()) } else { Err(E::invalid_value(Unexpected::Other("another text"), &self)) }
    }
}

/// Names of a cohort's objects. Reading stops at the first name too many.
struct Parts;

impl<'de> DeserializeSeed<'de> for Parts {
    type Value = Vec<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<String>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Parts {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1 to {MAX_PARTS} objects of a cohort")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<String>, A::Error> {
        let mut parts = Vec::new();
        while let Some(name) = list.next_element_seed(ObjectName)? {
            if parts.len() == MAX_PARTS {
                return Err(A::Error::invalid_length(MAX_PARTS + 1, &self));
            }
            parts.push(name);
        }
        if parts.is_empty() { Err(A::Error::invalid_length(0, &self)) } else { Ok(parts) }
    }
}

/// Cohorts. Reading stops at the first cohort too many.
struct Cohorts;

impl<'de> Visitor<'de> for Cohorts {
    type Value = Vec<Vec<String>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {MAX_COHORTS} cohorts")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut cohorts = Vec::new();
        while let Some(parts) = list.next_element_seed(Parts)? {
            if cohorts.len() == MAX_COHORTS {
                return Err(A::Error::invalid_length(MAX_COHORTS + 1, &self));
            }
            cohorts.push(parts);
        }
        Ok(cohorts)
    }
}

fn cohorts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Vec<String>>, D::Error> {
    deserializer.deserialize_seq(Cohorts)
}

/// Keys by name. Reading stops at the first key too many.
struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {MAX_KEYS} keys")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut keys, mut read) = (BTreeMap::new(), 0);
        while let Some((name, hash)) = map.next_entry_seed(PhantomData::<String>, ObjectName)? {
            if read == MAX_KEYS {
                return Err(A::Error::invalid_length(MAX_KEYS + 1, &self));
            }
            read += 1;
            keys.insert(name, hash);
        }
        Ok(keys)
    }
}

fn keys<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    deserializer.deserialize_map(Keys)
}

/// The data of a fleet that a server needs.
///
/// Reading stops at the limit of each list: longer lists are rejected, and take no memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    /// The fleet's name.
    pub fleet: String,
    /// The profile of its frames.
    pub profile: ProfileName,
    /// The devices by place.
    #[serde(deserialize_with = "at_most::<_, _, MAX_DEVICES>")]
    pub devices: Vec<DeviceLine>,
    /// Secrets under encryption, by cohort and polynomial: SHA-256 in hexadecimal digits.
    #[serde(deserialize_with = "cohorts")]
    pub cohorts: Vec<Vec<String>>,
    /// Keys by name.
    #[serde(deserialize_with = "keys")]
    pub keys: BTreeMap<String, String>,
}

/// Text that is not a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed bundle of a fleet: expected {0}, found another")]
pub struct MalformedBundle(&'static str);

const FIELDS: &str = "its fields, with lists as long as they may be and names that are SHA-256";

impl Bundle {
    /// Reads a bundle from JSON.
    ///
    /// # Errors
    /// [`MalformedBundle`].
    pub fn decode(bytes: &[u8]) -> Result<Self, MalformedBundle> {
        let bundle: Self = serde_json::from_slice(bytes).map_err(|_| MalformedBundle(FIELDS))?;
        bundle.check()?;
        Ok(bundle)
    }

    fn check(&self) -> Result<(), MalformedBundle> {
        let mut numbers: Vec<u32> = self.devices.iter().map(|device| device.seat.number).collect();
        numbers.sort_unstable();
        let devices = numbers.is_sorted_by(|a, b| a < b)
            && numbers.last().is_none_or(|number| DeviceNumber::new(*number).is_some())
            && self.devices.len() <= MAX_DEVICES
            && self.devices.iter().all(|device| unhex_lower::<32>(&device.mac).is_some());
        let rules = [
            (unhex_lower::<FLEET>(&self.fleet).is_some(), "a fleet's name of 16 hexadecimal digits"),
            (devices, "devices with numbers of their own and MAC keys"),
        ];
        rules.iter().find(|rule| !rule.0).map_or(Ok(()), |rule| Err(MalformedBundle(rule.1)))
    }

    /// The devices' places for a plan.
    pub fn seats(&self) -> Vec<Seat> {
        self.devices.iter().map(|device| device.seat).collect()
    }

    /// The number and MAC key of each device, and whether its new frames are accepted.
    pub fn keys_of_devices(&self) -> Vec<(DeviceNumber, [u8; 32], bool)> {
        let of = |device: &DeviceLine| {
            Some((DeviceNumber::new(device.seat.number)?, unhex_lower::<32>(&device.mac)?, device.seat.takes))
        };
        self.devices.iter().filter_map(of).collect()
    }

    /// The names of all objects, each once.
    pub fn objects(&self) -> Vec<&str> {
        let all = self.cohorts.iter().flatten().chain(self.keys.values());
        let mut names: Vec<&str> = all.map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Checks that any bytes that parse as a bundle are checked without a panic, and survive a round
/// trip.
#[doc(hidden)]
pub fn fuzz_bundle(data: &[u8]) {
    if let Ok(bundle) = Bundle::decode(data) {
        let text = serde_json::to_vec(&bundle).unwrap_or_default();
        assert!(Bundle::decode(&text).as_ref() == Ok(&bundle));
        assert_eq!(bundle.keys_of_devices().len(), bundle.devices.len());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use crate::setting::Setting;

    const HASH: &str = "abababababababababababababababababababababababababababababababab";

    fn bundle(cohorts: Vec<Vec<String>>, keys: BTreeMap<String, String>) -> Bundle {
        let seat = Seat { number: 1, takes: true, counts: true };
        let devices = vec![DeviceLine { seat, mac: HASH.to_owned() }];
        Bundle { fleet: "00112233aabbccdd".to_owned(), profile: ProfileName::U25, devices, cohorts, keys }
    }

    /// Every text ends inside a list that is already too long. A reader that checks limits only at
    /// the end would first find the end of the text.
    #[test]
    fn fault_32_a_bundle_is_read_no_further_than_its_limits() {
        let whole = serde_json::to_string(&bundle(vec![], BTreeMap::new())).unwrap();
        let before = |field: &str| whole.split_once(&format!("\"{field}\":")).unwrap().0;
        let (long, name) = (format!("{HASH}a"), format!("\"{HASH}\","));
        let key = |key: usize| format!("\"k{key}\":{name}");
        for (field, list) in [
            ("cohorts", "[[],".to_owned()),
            ("cohorts", "[[\"\",".to_owned()),
            ("cohorts", format!("[[\"{long}\",")),
            ("cohorts", format!("[[\"{}\",", HASH.to_uppercase())),
            ("cohorts", format!("[[{}", name.repeat(MAX_PARTS + 1))),
            ("cohorts", format!("[{}", format!("[\"{HASH}\"],").repeat(MAX_COHORTS + 1))),
            ("keys", "{\"k\":\"\",".to_owned()),
            ("keys", format!("{{{}", (0..=MAX_KEYS).map(key).collect::<String>())),
            ("keys", format!("{{{}", key(1).repeat(MAX_KEYS + 1))),
        ] {
            let error = serde_json::from_str::<Bundle>(&format!("{}\"{field}\":{list}", before(field))).unwrap_err();
            assert!(error.is_data(), "{field}: {error}");
        }
    }

    #[test]
    fn fault_32_the_largest_lists_of_objects_there_may_be_are_read() {
        for profile in [ProfileName::P1, ProfileName::U25] {
            let blocks = Setting::of(profile).unwrap().layout.blocks();
            assert!(MAX_DEVICES.div_ceil(blocks) <= MAX_COHORTS, "{profile} has {blocks} devices in a cohort");
        }
        let keys: BTreeMap<String, String> = (0..MAX_KEYS).map(|key| (format!("k{key}"), HASH.to_owned())).collect();
        let mut cohorts = vec![vec![HASH.to_owned()]; MAX_COHORTS];
        cohorts[7] = vec![HASH.to_owned(); MAX_PARTS];
        let largest = bundle(cohorts, keys);
        let text = serde_json::to_vec(&largest).unwrap();
        assert!(Bundle::decode(&text).unwrap() == largest);
    }
}
