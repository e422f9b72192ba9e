//! Registered questions: their devices, their name and their order.
//!
//! A registered question can be checked again, because its file may be older than a rule or belong
//! to another fleet.

use super::{GroupBy, Question, QuestionError, Resolved, measures};
use crate::lists::at_most;
use crate::order::{MAX_GROUPS, Order, OrderError};
use crate::registry::{Registry, State};
use crate::schema::{Schema, is_name};
use crate::setting::Setting;
use hmac::{KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::collections::{BTreeMap, BTreeSet};
use tobari_octets::hex;
use zeroize::Zeroizing;

/// Largest size of a registered question in bytes.
pub const MAX_REGISTERED: u64 = 1 << 27;

/// A registered question: the question, the server's order, and the names of its groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registered {
    /// The question in people's words.
    pub question: Question,
    /// The server's order.
    pub order: Order,
    /// The names of the order's groups; if every device is a result, the names of devices by
    /// number.
    #[serde(deserialize_with = "at_most::<_, _, MAX_GROUPS>")]
    pub groups: Vec<String>,
    /// Its name between key holder and server ([`QuestionNames`]). Empty in files of versions whose
    /// name was a hash without a key.
    #[serde(default)]
    id: String,
    /// After devices got new keys: the HMAC of its name and the present content. The name stays
    /// that of the first content, so that no window is decrypted twice.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    proof: String,
}

/// The key that names questions between key holder and server. It has no `Debug`, and is wiped on
/// drop.
///
/// A name is the beginning of an HMAC-SHA256 of the whole registered question, including the names
/// of devices, tenants and channels, as 16 hexadecimal digits. One question has one name under one
/// key, so a window is decrypted once even if the question is registered again. **Without the key
/// nobody can check a guess at those names**; against a hash without a key, a server could try a
/// dictionary.
pub struct QuestionNames(Zeroizing<[u8; 32]>);

impl QuestionNames {
    /// Names under this key.
    pub fn from_bytes(key: Zeroizing<[u8; 32]>) -> Self {
        Self(key)
    }

    fn of(&self, question: &Question, order: &Order, groups: &[String]) -> String {
        // all of these serialise field by field, and each value has one text
        hex(&self.mac(&(question, order, groups))[..8])
    }

    /// The proof of a question whose devices have new keys.
    fn proof(&self, id: &str, question: &Question, order: &Order, groups: &[String]) -> String {
        hex(&self.mac(&("renewed", id, question, order, groups)))
    }

    fn mac(&self, value: &impl Serialize) -> [u8; 32] {
        let text = serde_json::to_vec(value).unwrap_or_default();
        let mac = hmac::Hmac::<Sha256>::new_from_slice(&self.0[..]);
        // HMAC accepts keys of every length
        mac.map(|mac| mac.chain_update(text).finalize().into_bytes().into()).unwrap_or_default()
    }
}

impl Registered {
    /// The statistics that its order's sheet has, in terms of this schema, if enough devices share
    /// each weight.
    ///
    /// # Errors
    /// [`QuestionError`]: the question may have been registered before a rule existed, or for
    /// another fleet.
    pub fn check(&self, schema: &Schema) -> Result<Vec<Resolved>, QuestionError> {
        let mut statistics = self.question.resolve(schema)?;
        self.check_weights()?;
        let sheets = schema.sheets();
        let sheet = sheets.get(usize::from(self.order.sheet)).filter(|_| self.order.profile == schema.profile);
        let sheet = sheet.ok_or(QuestionError::Order(OrderError::Order("the profile and a sheet of the fleet")))?;
        statistics.retain(|statistic| statistic.is_on(sheet));
        Ok(statistics)
    }

    /// Checks that enough devices share each weight other than 0, if all of them send frames.
    ///
    /// # Errors
    /// [`QuestionError::Weight`] and [`QuestionError::Weightless`].
    pub fn check_weights(&self) -> Result<(), QuestionError> {
        let Some((place, weight, found)) = self.order.lone_weight() else { return Ok(()) };
        let (group, least) = (self.groups.get(place).cloned().unwrap_or_default(), self.order.least_devices);
        Err(if found == 0 {
            QuestionError::Weightless { group, least }
        } else {
            QuestionError::Weight { group, weight, found, least }
        })
    }

    /// Its name between key holder and server: 16 hexadecimal digits.
    pub fn id(&self) -> String {
        self.id.clone()
    }

    /// Whether the name is the one under this key. If so, the question was not changed, and no
    /// server can guess it from the name.
    pub fn is_named_by(&self, names: &QuestionNames) -> bool {
        let Self { question, order, groups, id, proof } = self;
        match order.renewed.is_empty() {
            true => *id == names.of(question, order, groups),
            false => !id.is_empty() && *proof == names.proof(id, question, order, groups),
        }
    }

    /// The same question, under the same name, about the new keys of its devices, too. `None` if
    /// the question knows all of them.
    pub fn renewed(&self, registry: &Registry, names: &QuestionNames) -> Option<Self> {
        let (heirs, owners, mut order) = (registry.heirs(), self.order.owners(), self.order.clone());
        let weights: BTreeMap<u32, i64> = order.weights.iter().copied().collect();
        let mut added = false;
        for group in &mut order.groups {
            let known: BTreeSet<u32> = group.iter().copied().collect();
            for number in &known {
                let (first, mut at) = (owners.of(*number), *number);
                while let Some(next) = heirs.get(&at).filter(|next| !known.contains(next)) {
                    group.push(*next);
                    order.renewed.push((*next, first));
                    order.weights.extend(weights.get(&first).map(|weight| (*next, *weight)));
                    (at, added) = (*next, true);
                }
            }
            group.sort_unstable();
        }
        order.renewed.sort_unstable();
        order.weights.sort_unstable();
        let proof = names.proof(&self.id, &self.question, &order, &self.groups);
        added.then(|| Self { order, proof, ..self.clone() })
    }
}

impl Question {
    /// Registers the question with the devices that are active now: once for each sheet that it is
    /// about, and so once in version 1. A question that could overflow with all of them at full
    /// scale is rejected.
    ///
    /// # Errors
    /// [`QuestionError`]; [`QuestionError::Calendar`] for windows that the calendar makes.
    pub fn register(
        &self,
        schema: &Schema,
        setting: &Setting,
        registry: &Registry,
        question_names: &QuestionNames,
    ) -> Result<Vec<Registered>, QuestionError> {
        self.register_between(schema, setting, registry, question_names, &[])
    }

    /// As [`Self::register`], with the bounds of windows that the calendar makes
    /// ([`Window::is_by_calendar`](super::Window::is_by_calendar)), in milliseconds since 1970;
    /// none for others.
    ///
    /// # Errors
    /// [`QuestionError`].
    pub fn register_between(
        &self,
        schema: &Schema,
        setting: &Setting,
        registry: &Registry,
        question_names: &QuestionNames,
        bounds: &[u64],
    ) -> Result<Vec<Registered>, QuestionError> {
        if !is_name(&self.name) {
            let found = self.name.chars().take(64).collect();
            return Err(QuestionError::Name { what: "a name of letters, digits, '-', '_' and '.'", found });
        }
        let statistics = self.resolve(schema)?;
        if self.window.is_by_calendar() == bounds.is_empty() {
            return Err(QuestionError::Calendar);
        }
        let [length_ms, every_ms, offset_ms, lateness_ms] = self.window.times(bounds)?;
        let slice_ms = 1000 * schema.slice_seconds().map_err(|_| QuestionError::Slice(0))?;
        if slice_ms > 0 && [length_ms, every_ms, offset_ms].iter().chain(bounds).any(|ms| !ms.is_multiple_of(slice_ms))
        {
            return Err(QuestionError::Slice(slice_ms / 1000));
        }
        let (groups, names) = self.groups(registry)?;
        let weights = self.weighted(registry)?;
        let sheets = schema.sheets();
        let of = |sheet: u16| {
            let there = statistics.iter().filter(|one| one.is_on(&sheets[usize::from(sheet)]));
            let order = Order {
                profile: schema.profile,
                length_ms,
                every_ms,
                offset_ms,
                bounds: bounds.to_vec(),
                lateness_ms,
                sheet,
                groups: groups.clone(),
                by_device: self.group_by == GroupBy::Device,
                weights: weights.clone(),
                renewed: Vec::new(),
                frames: self.frames,
                part: self.part,
                measures: measures(schema, there),
                least_devices: self.least_devices,
            };
            let id = question_names.of(self, &order, &names);
            let (question, groups) = (self.clone(), names.clone());
            let registered = Registered { question, order, groups, id, proof: String::new() };
            registered.check_weights()?;
            let (order, seats) = (&registered.order, registry.seats());
            order.job(setting, &seats, &order.fullest(&seats))?;
            Ok(registered)
        };
        super::sheets(schema, &statistics).into_iter().map(of).collect()
    }

    /// Device numbers by group, and the groups' names.
    fn groups(&self, registry: &Registry) -> Result<(Vec<Vec<u32>>, Vec<String>), QuestionError> {
        let unknown = |what, found: &String| Err(QuestionError::Name { what, found: found.clone() });
        if let Some(name) = self.devices.iter().find(|name| registry.active(name).is_none()) {
            return unknown("an active device", name);
        }
        let active = || registry.entries().iter().filter(|entry| entry.state == State::Active);
        if let Some(tenant) = self.tenants.iter().find(|tenant| !active().any(|entry| entry.tenant == **tenant)) {
            return unknown("a tenant with an active device", tenant);
        }
        let mut groups: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for entry in active() {
            let named = self.devices.is_empty() || self.devices.contains(&entry.name);
            if named && (self.tenants.is_empty() || self.tenants.contains(&entry.tenant)) {
                let group = if self.group_by == GroupBy::Tenant { entry.tenant.as_str() } else { "all" };
                groups.entry(group).or_default().push(entry.number.value());
            }
        }
        groups.values_mut().for_each(|group| group.sort_unstable());
        let found = groups.values().map(Vec::len).max().unwrap_or(0);
        if found == 0 || found < self.least_devices as usize {
            return Err(QuestionError::Devices { least: self.least_devices, found });
        }
        let names = groups.keys().map(|name| if name.is_empty() { "none" } else { name }.to_owned()).collect();
        Ok((groups.into_values().collect(), names))
    }

    fn weighted(&self, registry: &Registry) -> Result<Vec<(u32, i64)>, QuestionError> {
        let of = |(name, weight): (&String, &i64)| {
            let entry = registry.active(name);
            let entry = entry.ok_or_else(|| QuestionError::Name { what: "an active device", found: name.clone() })?;
            Ok((entry.number.value(), *weight))
        };
        let mut weights: Vec<(u32, i64)> = self.weights.iter().map(of).collect::<Result<_, QuestionError>>()?;
        weights.sort_unstable();
        Ok(weights)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::super::tests::{PLAIN, question};
    use super::super::{FUZZ_SCHEMA, Statistic};
    use super::*;
    use crate::order::is_overflow;
    use crate::registry::Secret;
    use crate::schema::ProfileName;
    use sha2::Digest;

    fn registry(devices: usize) -> Registry {
        let mut registry = Registry::default();
        for device in 0..devices {
            let tenant = ["north", "south"][device % 2];
            registry.add(&format!("d{device}"), tenant, None, Secret::from_bytes([device as u8; 32])).unwrap();
        }
        registry
    }

    fn names(key: u8) -> QuestionNames {
        QuestionNames::from_bytes([key; 32].into())
    }

    /// A server that guesses: it knows the schema, the order, the form of the hashed text and every
    /// name but one. Its dictionary contains that name.
    #[test]
    fn fault_16_a_server_with_a_dictionary_cannot_tell_from_a_questions_name_what_it_is_called() {
        let (setting, registry) = (Setting::of(ProfileName::U25).unwrap(), registry(6));
        let schema: Schema = serde_json::from_str(FUZZ_SCHEMA).unwrap();
        let named = |name: &str, key: u8| {
            let asked = Question { name: name.to_owned(), ..question(PLAIN) };
            asked.register(&schema, &setting, &registry, &names(key)).unwrap().remove(0)
        };
        let told = named("hiv-ward", 1);
        let dictionary = ["climate", "cardiology", "hiv-ward", "oncology"];
        for guess in dictionary {
            // the order is the same for every name of the question
            let guessed = named(guess, 2);
            assert_eq!(guessed.order, told.order);
            // the server can compute hashes without a key, and names under keys of its own
            let (question, order, groups) = (&guessed.question, &guessed.order, &guessed.groups);
            let unnamed = Registered { id: String::new(), ..guessed.clone() };
            let before = serde_json::json!({ "question": question, "order": order, "groups": groups });
            for text in [
                serde_json::to_vec(&guessed).unwrap(),
                serde_json::to_vec(&unnamed).unwrap(),
                serde_json::to_vec(&(question, order, groups)).unwrap(),
                format!(
                    r#"{{"question":{},"order":{},"groups":{}}}"#,
                    serde_json::to_string(question).unwrap(),
                    serde_json::to_string(order).unwrap(),
                    serde_json::to_string(groups).unwrap()
                )
                .into_bytes(),
                before.to_string().into_bytes(),
            ] {
                assert_ne!(hex(&Sha256::digest(text)[..8]), told.id(), "{guess}");
            }
            (2..=u8::MAX).for_each(|key| assert_ne!(named(guess, key).id(), told.id(), "{guess}"));
        }
        // its own key holder has the same name for it after every start, and different names for
        // different questions
        assert_eq!(named("hiv-ward", 1), told);
        assert!(told.is_named_by(&names(1)) && !told.is_named_by(&names(2)));
        let ids: BTreeSet<String> = dictionary.iter().map(|name| named(name, 1).id()).collect();
        assert_eq!(ids.len(), dictionary.len());
        // a file that was changed, or has a name of a version without a key, does not match
        let mut changed = told.clone();
        changed.question.least_devices = 1;
        assert!(!changed.is_named_by(&names(1)));
        let mut old = serde_json::to_value(&told).unwrap();
        old.as_object_mut().unwrap().remove("id").unwrap();
        let old: Registered = serde_json::from_value(old).unwrap();
        assert!(old.id().is_empty() && !old.is_named_by(&names(1)));
    }

    #[test]
    fn a_question_with_a_device_too_many_is_refused_when_it_is_registered() {
        let setting = Setting::of(ProfileName::U25).unwrap();
        let schema: Schema = serde_json::from_str(FUZZ_SCHEMA).unwrap();
        let register = |question: &Question, devices| {
            question.register(&schema, &setting, &registry(devices), &names(1)).map(|mut all| all.remove(0))
        };
        let plain = question(PLAIN);
        let registered = register(&plain, 254).unwrap();
        assert_eq!((registered.order.groups[0].len(), registered.order.length_ms), (254, 60_000));
        let refused = register(&plain, 255).unwrap_err();
        assert!(matches!(&refused, QuestionError::Order(order) if is_overflow(order).is_some()), "{refused}");
        assert!(register(&Question { part: Some(254), ..plain.clone() }, 255).is_ok());
        assert!(register(&Question { group_by: GroupBy::Tenant, ..plain.clone() }, 255).is_ok(), "128 and 127");
        assert!(matches!(register(&plain, 4), Err(QuestionError::Devices { least: 5, found: 4 })));
        let apart = Question { group_by: GroupBy::Device, ..plain.clone() };
        assert!(register(&apart, 9).is_err(), "a device alone is no group of five");
        assert!(register(&Question { least_devices: 1, ..apart }, 9).unwrap().order.by_device);
    }

    #[test]
    fn a_question_follows_its_devices_to_new_keys_under_the_same_name() {
        let setting = Setting::of(ProfileName::U25).unwrap();
        let schema: Schema = serde_json::from_str(FUZZ_SCHEMA).unwrap();
        let (mut registry, key) = (registry(6), names(1));
        let weighted = Question {
            weights: [("d0", 3), ("d2", 3), ("d4", 3)].map(|(name, weight)| (name.to_owned(), weight)).into(),
            statistics: vec![Statistic::WeightedSum { channel: "x".to_owned() }],
            group_by: GroupBy::Tenant,
            least_devices: 3,
            ..question(PLAIN)
        };
        let first = weighted.register(&schema, &setting, &registry, &key).unwrap().remove(0);
        assert!(first.renewed(&registry, &key).is_none());
        // d0 has two new keys in a row, d3 one; d1 is revoked, and another device gets its name
        for (name, byte) in [("d0", 50), ("d0", 51), ("d3", 52)] {
            registry.rotate(name, None, Secret::from_bytes([byte; 32])).unwrap();
        }
        registry.revoke("d1").unwrap();
        registry.add("d1", "south", None, Secret::from_bytes([53; 32])).unwrap();
        let second = first.renewed(&registry, &key).unwrap();
        assert_eq!(second.order.groups, [vec![1, 3, 5, 7, 8], vec![2, 4, 6, 9]]);
        assert_eq!(second.order.renewed, [(7, 1), (8, 1), (9, 4)]);
        assert_eq!(second.order.weights, [(1, 3), (3, 3), (5, 3), (7, 3), (8, 3)]);
        assert!(second.order.check().is_ok() && second.check(&schema).is_ok());
        assert_eq!((second.id(), second.is_named_by(&key)), (first.id(), true));
        assert!(second.renewed(&registry, &key).is_none(), "once");
        // and from a renewed question on, as from a later key holder
        registry.rotate("d0", None, Secret::from_bytes([54; 32])).unwrap();
        let third: Registered = serde_json::from_slice(&serde_json::to_vec(&second).unwrap()).unwrap();
        let third = third.renewed(&registry, &key).unwrap();
        assert_eq!(third.order.renewed.last(), Some(&(11, 1)));
        assert!(third.is_named_by(&key) && !third.is_named_by(&names(2)));
        let mut changed = third.clone();
        changed.order.least_devices = 1;
        assert!(!changed.is_named_by(&key));
        changed = third;
        changed.id = "0".repeat(16);
        assert!(!changed.is_named_by(&key));
    }

    #[test]
    fn the_server_is_told_no_name() {
        let setting = Setting::of(ProfileName::U25).unwrap();
        let schema: Schema = serde_json::from_str(FUZZ_SCHEMA).unwrap();
        let asked = Question {
            name: "secret-study".to_owned(),
            group_by: GroupBy::Tenant,
            least_devices: 1,
            tenants: vec!["south".to_owned()],
            weights: [("d1".to_owned(), -3), ("d3".to_owned(), 2)].into(),
            statistics: vec![Statistic::WeightedSum { channel: "x".to_owned() }],
            ..question(PLAIN)
        };
        let registered = asked.register(&schema, &setting, &registry(6), &names(1)).unwrap().remove(0);
        let text = serde_json::to_string(&registered.order).unwrap();
        for name in ["secret", "south", "d1", "\"x\""] {
            assert!(!text.contains(name), "{name} in {text}");
        }
        assert_eq!((registered.order.groups, registered.groups), (vec![vec![2, 4, 6]], vec!["south".to_owned()]));
        assert_eq!(registered.order.weights, [(2, -3), (4, 2)]);
    }
}
