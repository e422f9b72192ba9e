//! `tobari sense keygen`, `provision` and `enrol`: keys and their owners.

use super::arguments::{EnrolArguments, ForgetArguments, KeygenArguments, ProvisionArguments};
use super::device_list::{self, ListedDevice};
use super::folder::{self, KeyFolder, write_device, wrong};
use super::remote::CloudConnection;
use serde_json::json;
use std::path::Path;
use tobari_command::output::{self, Failure};
use tobari_command::randomness;
use tobari_device::DeviceNumber;
use tobari_host::files::{read_bounded, write_atomically};
use tobari_sense::enrol::{Card, MAX_CARD, Request, hex};
use tobari_sense::holder::Holder;
use tobari_sense::registry::{FLEET, Registry, Secret, Token};
use tobari_sense::schema::Schema;

/// Makes a key holder's folder.
pub(super) fn keygen(arguments: &KeygenArguments) -> Result<(), Failure> {
    let schema: Schema = folder::toml(&arguments.schema)?;
    schema.check().map_err(|error| wrong(&arguments.schema, error))?;
    if schema.full_sheets() > 0 {
        output::say(format!(
            "{}: readings fill all 256 bytes of a frame, so nothing tells a device's key from a sum, if a dishonest \
             server passes off the one as the other. One sample less in a frame leaves a byte free",
            arguments.schema.display()
        ));
    }
    let holder = Holder::generate(schema.profile, &mut randomness::generator()?);
    let folder = KeyFolder::create(&arguments.output, holder, schema)?;
    let (path, fleet) = (arguments.output.display().to_string(), &folder.card.fleet);
    if arguments.json {
        return output::json(&json!({ "folder": path, "fleet": fleet }));
    }
    output::result(format!(
        "fleet {fleet}: {path} (keep it: it opens every reading); its card, for devices: {path}/fleet.json"
    ));
    Ok(())
}

/// Adds devices, or changes them.
pub(super) fn provision(arguments: &ProvisionArguments) -> Result<(), Failure> {
    let folder = KeyFolder::open(&arguments.folder)?;
    if arguments.list {
        return list(&folder, arguments.json);
    }
    let devices = chosen(arguments)?;
    if arguments.revoke {
        let numbers = folder.change(|registry| {
            let revoked = devices.iter().map(|device| Ok(registry.revoke(&device.name)?));
            revoked.collect::<Result<Vec<DeviceNumber>, Failure>>()
        })?;
        for (device, number) in devices.iter().zip(numbers) {
            told(arguments.json, "revoked", &device.name, number.value(), None)?;
        }
        return Ok(());
    }
    let secrets = match &arguments.request {
        Some(request) => vec![agreed(&folder, arguments, (devices.len(), request))?],
        None if arguments.output.is_none() && !arguments.token => {
            return Err(Failure::Call(
                "add -o DIR for device files, --token for a code, or --request FILE of a device".to_owned(),
            ));
        }
        None => {
            let mut rng = randomness::generator()?;
            devices.iter().map(|_| (None, Secret::random(&mut rng))).collect()
        }
    };
    let fleet: [u8; FLEET] = folder.card.check()?;
    let tokens = folder.change(|registry| {
        let numbers = taken_in(registry, arguments.rotate, &devices, secrets)?;
        let unknown = || wrong(&arguments.folder, "expected the new device, found none");
        let entries = numbers.iter().map(|number| registry.numbered(number.value()).ok_or_else(unknown));
        let tokens = entries.map(|entry| Ok(entry?.token(folder.card.schema.profile, fleet)));
        let tokens = tokens.collect::<Result<Vec<Token>, Failure>>()?;
        if let Some(output) = &arguments.output {
            write_devices(output, &devices, &tokens)?;
        }
        Ok(tokens)
    })?;
    for (ListedDevice { name, .. }, token) in devices.iter().zip(tokens) {
        told(
            arguments.json,
            "active",
            name,
            token.number.value(),
            arguments.token.then(|| token.encode()).as_ref().map(|line| line.as_str()),
        )?;
    }
    Ok(())
}

/// Writes the files of devices: all of them, or none. The registry is written behind them, so no
/// device is known without its file.
fn write_devices(output: &Path, devices: &[ListedDevice], tokens: &[Token]) -> Result<(), Failure> {
    folder::private(output)?;
    let paths: Vec<_> = devices.iter().map(|device| output.join(format!("{}.device", device.name))).collect();
    for (at, (path, token)) in paths.iter().zip(tokens).enumerate() {
        if let Err(failure) = write_device(path, token) {
            for written in &paths[..at] {
                let _ = std::fs::remove_file(written);
                let _ = std::fs::remove_file(folder::counter_of(written));
            }
            return Err(failure);
        }
    }
    Ok(())
}

/// The devices that the arguments name, or that their list has.
fn chosen(arguments: &ProvisionArguments) -> Result<Vec<ListedDevice>, Failure> {
    let tenant = |own: String| if own.is_empty() { arguments.tenant.clone() } else { own };
    let device = |name: &String| ListedDevice { name: name.clone(), tenant: arguments.tenant.clone() };
    match &arguments.devices {
        Some(path) => Ok(device_list::read(path)?
            .into_iter()
            .map(|device| ListedDevice { tenant: tenant(device.tenant), ..device })
            .collect()),
        None if arguments.names.is_empty() => {
            Err(Failure::Call("name the devices, or add --devices FILE or --list".to_owned()))
        }
        None => Ok(arguments.names.iter().map(device).collect()),
    }
}

fn taken_in(
    registry: &mut Registry,
    rotate: bool,
    devices: &[ListedDevice],
    secrets: Vec<(Option<DeviceNumber>, Secret)>,
) -> Result<Vec<DeviceNumber>, Failure> {
    let mut numbers = Vec::with_capacity(secrets.len());
    for (ListedDevice { name, tenant }, (number, secret)) in devices.iter().zip(secrets) {
        let entry = match rotate {
            true => registry.rotate(name, number, secret)?,
            false => registry.add(name, tenant, number, secret)?,
        };
        numbers.push(entry.number);
    }
    Ok(numbers)
}

/// The number and secret that a device agreed on.
fn agreed(
    folder: &KeyFolder,
    arguments: &ProvisionArguments,
    (devices, path): (usize, &Path),
) -> Result<(Option<DeviceNumber>, Secret), Failure> {
    if devices != 1 {
        return Err(Failure::Call(format!("--request takes one device name, and these are {devices}")));
    }
    let request: Request =
        serde_json::from_slice(&read_bounded(path, MAX_CARD)?).map_err(|error| wrong(path, error))?;
    let found = request.fingerprint();
    match &arguments.fingerprint {
        Some(expected) if *expected != found => {
            return Err(wrong(
                path,
                format!(
                    "the request has the fingerprint {found}, and not {expected}: compare it with the device's display"
                ),
            ));
        }
        Some(_) => {}
        None => output::say(format!("the request's fingerprint is {found}: it must be what the device shows")),
    }
    let (number, secret) = request.accept(&folder.holder, &folder.card).map_err(|error| wrong(path, error))?;
    Ok((Some(number), secret))
}

fn told(as_json: bool, state: &str, name: &str, number: u32, token: Option<&str>) -> Result<(), Failure> {
    if as_json {
        let mut line = json!({ "device": name, "number": number, "state": state });
        if let Some(token) = token {
            line["token"] = token.into();
        }
        return output::json(&line);
    }
    match token {
        Some(token) => output::result(token),
        None => output::result(format!("{name}: number {number}, {state}")),
    }
    Ok(())
}

fn list(folder: &KeyFolder, as_json: bool) -> Result<(), Failure> {
    for entry in folder.registry()?.entries() {
        if as_json {
            output::json(&json!({
                "device": entry.name, "number": entry.number.value(), "state": entry.state.name(), "tenant": entry.tenant,
            }))?;
        } else {
            let tenant = if entry.tenant.is_empty() { "" } else { ", of " };
            output::result(format!(
                "{}: number {}, {}{tenant}{}",
                entry.name,
                entry.number.value(),
                entry.state.name(),
                entry.tenant
            ));
        }
    }
    Ok(())
}

/// Deletes frames of devices on the server.
pub(super) fn forget(arguments: &ForgetArguments) -> Result<(), Failure> {
    let folder = KeyFolder::open(&arguments.folder)?;
    let registry = folder.registry()?;
    let url = arguments.reach.server.as_deref();
    let url = url.ok_or_else(|| Failure::Call("add --server URL".to_owned()))?;
    let of = |name: &str| {
        registry.entries().iter().filter(|entry| entry.name == name).map(|entry| entry.number.value()).collect()
    };
    let devices: Vec<(&String, Vec<u32>)> = arguments.names.iter().map(|name| (name, of(name))).collect();
    if let Some((name, _)) = devices.iter().find(|(_, numbers)| numbers.is_empty()) {
        return Err(Failure::Work(format!(
            "the fleet has no device {name:?}: `tobari sense provision HOLDER --list` prints its devices"
        )));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let mut server = CloudConnection::reach(url, &arguments.reach.reach()?, &folder.card.fleet)?;
        for (name, numbers) in devices {
            let mut removed = 0;
            for number in numbers {
                removed += server.remove_frames(number).await?;
            }
            if arguments.json {
                output::json(&json!({ "device": name, "removed": removed }))?;
            } else {
                output::result(format!("{name}: {removed} frames removed"));
            }
        }
        Ok(())
    })
}

/// A device's half of an agreement.
pub(super) fn enrol(arguments: &EnrolArguments) -> Result<(), Failure> {
    let card = folder::card(&arguments.fleet)?;
    if let Some(path) = &arguments.token {
        return take_up(arguments, &card, path);
    }
    let (Some(number), Some(request_path)) = (arguments.number, &arguments.request) else {
        return Err(Failure::Call("add --number and --request, or --token".to_owned()));
    };
    let number = DeviceNumber::new(number);
    let number = number.ok_or_else(|| Failure::Call("--number is below 2^24: choose a smaller number".to_owned()))?;
    let (token, request) = card.request(number, &mut randomness::generator()?)?;
    write_device(&arguments.output, &token)?;
    write_atomically(request_path, &serde_json::to_vec(&request)?)?;
    if arguments.json {
        return output::json(&json!({ "number": number.value(), "fingerprint": request.fingerprint() }));
    }
    output::result(format!(
        "device {}: {} (keep it); request: {}, fingerprint {}",
        number.value(),
        arguments.output.display(),
        request_path.display(),
        request.fingerprint()
    ));
    Ok(())
}

/// Uses a token from the key holder.
fn take_up(arguments: &EnrolArguments, card: &Card, path: &Path) -> Result<(), Failure> {
    let token = folder::read_token(path)?;
    if hex(&token.fleet) != card.fleet || token.profile != card.schema.profile {
        return Err(wrong(
            path,
            "the token belongs to another fleet than the card (--fleet): use the card of its own fleet",
        ));
    }
    write_device(&arguments.output, &token)?;
    if arguments.json {
        return output::json(&json!({ "number": token.number.value() }));
    }
    output::result(format!("device {}: {} (keep it)", token.number.value(), arguments.output.display()));
    Ok(())
}
