//! The server's objects: made once, kept, and sent if the server lacks them.
//!
//! Keys follow from the key holder's seed, and are always the same bytes. Secrets of a cohort are
//! encrypted afresh when its devices change, and otherwise reused: `server/state.json` records the
//! devices.

use super::folder::{KeyFolder, wrong};
use super::remote::CloudConnection;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use tobari_command::output::{self, Failure};
use tobari_command::randomness;
use tobari_host::files::{read_bounded, write_atomically, write_secret};
use tobari_lattice::rlwe::SecretKey;
use tobari_lattice::wire;
use tobari_octets::sha256;
use tobari_sense::bundle::{Bundle, DeviceLine, MAX_BUNDLE, MAX_OBJECT};
use tobari_sense::enrol::hex;
use tobari_sense::program::Input;
use tobari_sense::registry::Registry;
use tobari_sense::setting::{Setting, key_name};
use zeroize::Zeroizing;

/// The objects made so far.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    /// The SHA-256 of each key, by name.
    keys: BTreeMap<String, String>,
    /// The state of each cohort.
    cohorts: Vec<CohortState>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CohortState {
    /// The numbers of the devices.
    members: Vec<u32>,
    /// The SHA-256 of each polynomial's ciphertext.
    parts: Vec<String>,
}

/// Sends the server the missing objects of a fleet. Usually none is missing.
pub async fn publish(
    folder: &KeyFolder,
    setting: &Setting,
    secret: &SecretKey,
    registry: &Registry,
    server: &mut CloudConnection,
    tell: bool,
) -> Result<(), Failure> {
    let bundle = tokio::task::block_in_place(|| bundle(folder, setting, secret, registry))?;
    let bytes = Zeroizing::new(serde_json::to_vec(&bundle)?);
    if server.bundle().await?.as_deref() == Some(&hex(&sha256(&bytes))) {
        return Ok(());
    }
    let (mut sent, before) = (0, server.sent_bytes());
    for input in setting.keys()? {
        let hash = key_name(input).and_then(|name| bundle.keys.get(&name));
        let Some(hash) = hash else { continue };
        if !server.has_object(hash).await? {
            let kept = folder.join("server").join(hash);
            let object = match kept.exists() {
                true => read_bounded(&kept, MAX_OBJECT as u64)?,
                false => tokio::task::block_in_place(|| key(folder, secret, input))?,
            };
            server.give_object(hash, object).await?;
            sent += 1;
        }
    }
    for hash in bundle.cohorts.iter().flatten() {
        if !server.has_object(hash).await? {
            let object = read_bounded(&folder.join("server").join(hash), MAX_OBJECT as u64)?;
            server.give_object(hash, object).await?;
            sent += 1;
        }
    }
    server.give_bundle(bytes.to_vec()).await?;
    for hash in bundle.keys.values() {
        // keys can be made again
        let _ = fs::remove_file(folder.join("server").join(hash));
    }
    if tell {
        output::say(format!(
            "the server was given {sent} objects for {} devices, {} bytes",
            bundle.devices.len(),
            server.sent_bytes() - before
        ));
    }
    Ok(())
}

/// The bundle for the server. Objects that do not follow from the seed alone are in the folder.
fn bundle(folder: &KeyFolder, setting: &Setting, secret: &SecretKey, registry: &Registry) -> Result<Bundle, Failure> {
    let path = folder.join("server").join("state.json");
    let mut state = State::default();
    if path.exists() {
        state =
            serde_json::from_slice(&read_bounded(&path, MAX_BUNDLE as u64)?).map_err(|error| wrong(&path, error))?;
    }
    let (mut changed, mut stale, inputs) = (false, Vec::new(), setting.keys()?);
    let known = |name: Option<String>| name.is_some_and(|name| state.keys.contains_key(&name));
    if !inputs.iter().all(|input| known(key_name(*input))) {
        for input in &inputs {
            let Some(name) = key_name(*input) else { continue };
            let bytes = key(folder, secret, *input)?;
            let hash = hex(&sha256(&bytes));
            // kept until a server has it
            write_atomically(&folder.join("server").join(&hash), &bytes)?;
            state.keys.insert(name, hash);
        }
        changed = true;
    }
    let blocks = setting.layout.blocks();
    for (cohort, entries) in registry.entries().chunks(blocks).enumerate() {
        let members: Vec<u32> = entries.iter().map(|entry| entry.number.value()).collect();
        if state.cohorts.get(cohort).is_some_and(|known| known.members == members) {
            continue;
        }
        let parts = encrypted(folder, setting, secret, registry, cohort)?;
        let renewed = CohortState { members, parts };
        match state.cohorts.get_mut(cohort) {
            Some(known) => {
                stale.append(&mut known.parts);
                *known = renewed;
            }
            None => state.cohorts.push(renewed),
        }
        changed = true;
    }
    if changed {
        write_atomically(&path, &serde_json::to_vec(&state)?)?;
    }
    for part in stale {
        // a leftover file is harmless
        let _ = fs::remove_file(folder.join("server").join(part));
    }
    let cohorts = state.cohorts.into_iter().map(|cohort| cohort.parts).collect();
    let (fleet, profile) = (folder.card.fleet.clone(), setting.profile);
    let devices = DeviceLine::of_registry(registry, profile);
    Ok(Bundle { fleet, profile, devices, cohorts, keys: state.keys })
}

/// The bytes of a key, which are always the same.
fn key(folder: &KeyFolder, secret: &SecretKey, input: Input) -> Result<Vec<u8>, Failure> {
    let key = folder.holder.key(secret, input);
    let key = key.ok_or_else(|| Failure::Work("expected a key that can be made, found none".to_owned()))?;
    Ok(wire::encode_evaluation_keys(&key))
}

/// Encrypts the secrets of a cohort, keeps them, and returns their names.
fn encrypted(
    folder: &KeyFolder,
    setting: &Setting,
    secret: &SecretKey,
    registry: &Registry,
    cohort: usize,
) -> Result<Vec<String>, Failure> {
    let all = folder.holder.cohort(setting, secret, registry, cohort, &mut randomness::generator()?)?;
    let mut names = Vec::with_capacity(all.len());
    for part in &all {
        let bytes = wire::encode_seeded_ciphertext(part);
        let name = hex(&sha256(&bytes));
        write_secret(&folder.join("server").join(&name), &bytes)?;
        names.push(name);
    }
    Ok(names)
}
