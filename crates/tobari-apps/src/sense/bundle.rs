//! What a key holder gives a server for a fleet: its devices' MAC keys, and the names of what it computes with.
//!
//! Objects are called by the SHA-256 of their bytes and sent once; the bundle says which there are. Of a device the server has a number, a key that tells frames from forgeries, whether new frames are taken and whether stored ones count; **no name**.

use super::enrol::{hex, unhex};
use super::order::{MAX_DEVICES, Seat};
use super::registry::{FLEET, Registry};
use super::schema::ProfileName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tobari_device::{DeviceNumber, P1, U25};
use zeroize::Zeroizing;

/// Bytes of a bundle at most.
pub const MAX_BUNDLE: usize = 1 << 28;
/// Bytes of an object at most.
pub const MAX_OBJECT: usize = 1 << 27;

/// A device, as a server knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceLine {
    /// Its number, whether new frames are taken, and whether stored ones count.
    #[serde(rename = "seat")]
    pub seat: Seat,
    /// The MAC key, in hexadecimal digits.
    pub mac: String,
}

impl DeviceLine {
    /// Those of a registry, by place.
    pub fn of_registry(registry: &Registry, profile: ProfileName) -> Vec<Self> {
        let line = |(entry, seat): (&super::registry::Entry, Seat)| {
            let mac = Zeroizing::new(match profile {
                ProfileName::P1 => entry.root().mac_key::<P1>(),
                ProfileName::U25 => entry.root().mac_key::<U25>(),
            });
            Self { seat, mac: hex(&*mac) }
        };
        registry.entries().iter().zip(registry.seats()).map(line).collect()
    }
}

/// What a server is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    /// The fleet's name.
    pub fleet: String,
    /// How its frames are made.
    pub profile: ProfileName,
    /// By place.
    pub devices: Vec<DeviceLine>,
    /// Secrets under encryption, by cohort and polynomial: SHA-256 in hexadecimal digits.
    pub cohorts: Vec<Vec<String>>,
    /// Keys by name.
    pub keys: BTreeMap<String, String>,
}

/// Text that is no bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed bundle of a fleet: expected {0}, found another")]
pub struct MalformedBundle(&'static str);

impl Bundle {
    /// From JSON.
    ///
    /// # Errors
    /// [`MalformedBundle`].
    pub fn decode(bytes: &[u8]) -> Result<Self, MalformedBundle> {
        let bundle: Self = serde_json::from_slice(bytes).map_err(|_| MalformedBundle("its fields"))?;
        bundle.check()?;
        Ok(bundle)
    }

    fn check(&self) -> Result<(), MalformedBundle> {
        let mut numbers: Vec<u32> = self.devices.iter().map(|device| device.seat.number).collect();
        numbers.sort_unstable();
        let devices = numbers.is_sorted_by(|a, b| a < b)
            && numbers.last().is_none_or(|number| DeviceNumber::new(*number).is_some())
            && self.devices.len() <= MAX_DEVICES
            && self.devices.iter().all(|device| unhex::<32>(&device.mac).is_some());
        let hash = |text: &String| unhex::<32>(text).is_some();
        let rules = [
            (unhex::<FLEET>(&self.fleet).is_some(), "a fleet's name of 16 hexadecimal digits"),
            (devices, "devices with numbers of their own and MAC keys"),
            (self.cohorts.iter().flatten().all(hash) && self.keys.values().all(hash), "names that are SHA-256"),
            (
                self.cohorts.iter().all(|parts| parts.len() <= 8) && self.keys.len() <= 256,
                "as many objects as there may be",
            ),
        ];
        rules.iter().find(|rule| !rule.0).map_or(Ok(()), |rule| Err(MalformedBundle(rule.1)))
    }

    /// What is planned with.
    pub fn seats(&self) -> Vec<Seat> {
        self.devices.iter().map(|device| device.seat).collect()
    }

    /// Number, MAC key, and whether frames are taken, of each device.
    pub fn keys_of_devices(&self) -> Vec<(DeviceNumber, [u8; 32], bool)> {
        let of = |device: &DeviceLine| {
            Some((DeviceNumber::new(device.seat.number)?, unhex::<32>(&device.mac)?, device.seat.takes))
        };
        self.devices.iter().filter_map(of).collect()
    }

    /// All objects, each once.
    pub fn objects(&self) -> Vec<&str> {
        let all = self.cohorts.iter().flatten().chain(self.keys.values());
        let mut names: Vec<&str> = all.map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Whatever reads as a bundle is checked without a panic, and is read back as itself.
#[doc(hidden)]
pub fn fuzz_bundle(data: &[u8]) {
    if let Ok(bundle) = Bundle::decode(data) {
        let text = serde_json::to_vec(&bundle).unwrap_or_default();
        assert!(Bundle::decode(&text).as_ref() == Ok(&bundle));
        assert_eq!(bundle.keys_of_devices().len(), bundle.devices.len());
    }
}
