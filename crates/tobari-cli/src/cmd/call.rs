//! `tobari call`.

use crate::args::{KeygenArguments, MixArguments, Mode, PointsForm};
use crate::blind_server::BlindProcess;
use crate::mixing::{self, Outcome, Request};
use crate::output::{self, Failure};
use crate::randomness;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use tobari_apps::call::program;
use tobari_core::elgamal::SecretKey;
use tobari_core::params::Parameters;
use tobari_core::wire;
use tobari_host::{files, threads, wav};
use tobari_server::connect::ClientTls;

/// The largest key file.
const MAX_KEY_FILE_BYTES: u64 = 1024;

/// Makes a key pair.
pub(crate) fn keygen(arguments: &KeygenArguments) -> Result<ExitCode, Failure> {
    let parameters = arguments.curve.parameters().map_err(insecure)?;
    warn(parameters);
    let public_path = public_path(&arguments.output);
    if public_path.exists() {
        return Err(Failure::Work(format!("{}: exists already; keys are not overwritten", public_path.display())));
    }
    let key = SecretKey::generate(parameters, &mut randomness::generator()?);
    files::write_secret(&arguments.output, &wire::encode_secret_key(&key))?;
    files::write_atomically(&public_path, &wire::encode_public_key(&key.public_key()))?;
    let (secret, public) = (arguments.output.display().to_string(), public_path.display().to_string());
    if arguments.json {
        output::json(&json!({ "curve": parameters.curve().name(), "secret_key": secret, "public_key": public }))?;
    } else {
        output::result(format!("secret key: {secret} (keep it), public key: {public}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// `NAME.pub` beside `NAME`.
fn public_path(secret: &Path) -> PathBuf {
    let mut name = secret.as_os_str().to_owned();
    name.push(".pub");
    name.into()
}

/// A curve below the floor is a wrong call, with a way out.
fn insecure(error: impl std::fmt::Display) -> Failure {
    Failure::Call(format!("{error}; --insecure-paper admits it for measurements"))
}

fn warn(parameters: Parameters) {
    if let Some(warning) = parameters.warning() {
        output::say(format!("warning: {warning}"));
    }
}

/// Mixes recordings.
pub(crate) fn mix(arguments: &MixArguments) -> Result<ExitCode, Failure> {
    let Mode::Elgamal = arguments.mode;
    let key = key(arguments)?;
    warn(key.parameters());
    check_output(arguments)?;
    if arguments.inputs.len() > mixing::MAX_SPEAKERS {
        let (found, most) = (arguments.inputs.len(), mixing::MAX_SPEAKERS);
        return Err(Failure::Call(format!("{found} recordings: expected at most {most}")));
    }
    let read = |input: &PathBuf| wav::read_speech(input).map(Into::into);
    let read = threads::map_parallel(&arguments.inputs, threads::available(), read);
    let speakers = read.into_iter().collect::<Result<Vec<_>, _>>()?;
    let started = Instant::now();
    let count = speakers.len();
    let (outcome, server) = run(arguments, key, speakers)?;
    let seconds = started.elapsed().as_secs_f64();
    let limited = outcome.samples.iter().filter(|sample| i16::try_from(**sample).is_err()).count();
    write(arguments, &outcome)?;
    if arguments.json {
        output::json(&json!({
            "output": arguments.output.display().to_string(), "speakers": count, "samples": outcome.samples.len(),
            "ticks": outcome.ticks, "seconds": seconds, "limited_samples": if arguments.exact { 0 } else { limited },
            "server_saw_bytes": outcome.sent_bytes, "server_sent_bytes": outcome.received_bytes, "server": server,
        }))?;
    } else {
        let duration = outcome.samples.len() as f64 / f64::from(wav::SAMPLE_RATE_HZ);
        output::say(format!(
            "{count} speakers, {duration:.2} s mixed by {server} in {seconds:.2} s; it saw {} bytes, all encrypted",
            outcome.sent_bytes
        ));
        if limited > 0 && !arguments.exact {
            output::say(format!("{limited} samples were beyond 16 bits and are limited (--exact keeps them)"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The key of the call: from its file, or fresh.
fn key(arguments: &MixArguments) -> Result<SecretKey, Failure> {
    let Some(path) = &arguments.key else {
        let parameters = arguments.curve.parameters().map_err(insecure)?;
        return Ok(SecretKey::generate(parameters, &mut randomness::generator()?));
    };
    let bytes = zeroize::Zeroizing::new(files::read_bounded(path, MAX_KEY_FILE_BYTES)?);
    let key = wire::decode_secret_key(&bytes, arguments.curve.floor.floor());
    key.map_err(|error| match error {
        wire::WireError::BelowFloor(error) => insecure(error),
        error => Failure::Work(format!("{}: {error}", path.display())),
    })
}

/// Finds out before the work what would fail after it: an output that is one of the inputs, which would destroy a
/// recording, or one without a folder.
fn check_output(arguments: &MixArguments) -> Result<(), Failure> {
    let output = &arguments.output;
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(Failure::Work(format!("{}: there is no folder {}", output.display(), folder.display())));
    }
    let Ok(existing) = output.canonicalize() else { return Ok(()) };
    let is_input = |input: &PathBuf| input.canonicalize().is_ok_and(|input| input == existing);
    if arguments.inputs.iter().any(is_input) {
        return Err(Failure::Call(format!("{}: is an input too", output.display())));
    }
    Ok(())
}

/// Mixes on the server named, or on one started for the purpose; says which.
fn run(
    arguments: &MixArguments,
    key: SecretKey,
    speakers: Vec<std::sync::Arc<[i16]>>,
) -> Result<(Outcome, String), Failure> {
    let (server, name, own) = match &arguments.server {
        Some(url) => (url.clone(), url.clone(), None),
        None => {
            let process = BlindProcess::start(arguments.curve.floor.insecure_paper)?;
            let name = format!("a server process of its own (pid {})", process.pid());
            (process.url().to_owned(), name, Some(process))
        }
    };
    let usual = if own.is_some() { PointsForm::Uncompressed } else { PointsForm::Compressed };
    let points = arguments.points.unwrap_or(usual).into();
    let tls = match (arguments.trust.tls_fingerprint, &arguments.trust.tls_ca) {
        (Some(fingerprint), _) => ClientTls::Pinned(fingerprint),
        (None, Some(file)) => ClientTls::CaFile(file.clone()),
        (None, None) => ClientTls::System,
    };
    let request = Request { speakers, key, server, tls, uplink: points, downlink: points };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(mixing::mix(request, None))?;
    drop(own);
    Ok((outcome, name))
}

fn write(arguments: &MixArguments, outcome: &Outcome) -> Result<(), Failure> {
    if arguments.exact {
        return Ok(wav::write_pcm32(&arguments.output, &outcome.samples)?);
    }
    let limited: Vec<i16> = outcome.samples.iter().map(|sample| program::limit(*sample)).collect();
    Ok(wav::write_pcm16(&arguments.output, &limited)?)
}
