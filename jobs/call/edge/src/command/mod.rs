//! `tobari call`.

pub(crate) mod arguments;
pub(crate) mod call_key;
mod join;
mod link;
pub(crate) mod mixing;
mod open;
pub(crate) mod options;
mod serve;
mod sound;
mod told;

use crate::command::call_key::CallKey;
use crate::command::mixing::{Outcome, Request};
pub use arguments::{CallVerb, KeysName};
use arguments::{KeygenArguments, MixArguments, PointsForm};
use serde_json::json;
pub use serve::ServeCallArguments;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use tobari_call::program;
use tobari_call_files::wav;
use tobari_client::ClientTls;
use tobari_command::blind_server::BlindProcess;
use tobari_command::job::Verbs;
use tobari_command::output::{self, Failure};
use tobari_curve::elgamal::{Mode, PublicKey};
use tobari_curve::params::Parameters;
use tobari_curve::wire;
use tobari_host::{files, threads};

impl Verbs for CallVerb {
    fn run(&self) -> Result<ExitCode, Failure> {
        match self {
            Self::Keygen(arguments) => keygen(arguments),
            Self::Mix(arguments) => mix(arguments),
            Self::Link(arguments) => link::link(arguments),
            Self::Join(arguments) => join::join(arguments),
            Self::Open(arguments) => open::open(arguments),
        }
    }
}

/// Makes a key.
fn keygen(arguments: &KeygenArguments) -> Result<ExitCode, Failure> {
    let parameters = arguments.curve.parameters()?;
    warn(parameters);
    let key = CallKey::generate(arguments.mode.into(), parameters)?;
    let secret = arguments.output.display().to_string();
    let mut line = json!({ "curve": parameters.curve().name(), "mode": key.mode().name(), "secret_key": secret });
    let text = match &key {
        CallKey::Elgamal(pair) => {
            let public = write_pair(&arguments.output, &key, &pair.public_key())?.display().to_string();
            let text = format!("secret key: {secret} (keep it), public key: {public}");
            line["public_key"] = public.into();
            text
        }
        CallKey::ElgamalShared(_) => {
            files::write_secret(&arguments.output, &key.encode())?;
            format!("secret key: {secret} (for the members, to encrypt and to decrypt; there is no public key)")
        }
    };
    if arguments.json {
        output::json(&line)?;
    } else {
        output::result(text);
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes both halves without overwriting a file. Returns the path of the public half.
fn write_pair(path: &Path, key: &CallKey, public: &PublicKey) -> Result<PathBuf, Failure> {
    let public_path = public_path(path);
    if public_path.exists() {
        return Err(Failure::Work(format!("{}: exists already; keys are not overwritten", public_path.display())));
    }
    files::write_secret(path, &key.encode())?;
    files::write_atomically(&public_path, &wire::encode_public_key(public))?;
    Ok(public_path)
}

/// `NAME.pub` beside `NAME`.
fn public_path(secret: &Path) -> PathBuf {
    let mut name = secret.as_os_str().to_owned();
    name.push(".pub");
    name.into()
}

fn warn(parameters: Parameters) {
    if let Some(warning) = parameters.warning() {
        output::say(format!("warning: {warning}"));
    }
}

/// Mixes recordings.
fn mix(arguments: &MixArguments) -> Result<ExitCode, Failure> {
    let key = key(arguments)?;
    let mode = key.mode();
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
    let (outcome, server) = on_a_server(arguments, key, speakers)?;
    let seconds = started.elapsed().as_secs_f64();
    let limited = outcome.samples.iter().filter(|sample| i16::try_from(**sample).is_err()).count();
    write(arguments, &outcome)?;
    if arguments.json {
        output::json(&json!({
            "output": arguments.output.display().to_string(), "mode": mode.name(), "speakers": count, "samples": outcome.samples.len(),
            "ticks": outcome.ticks, "seconds": seconds, "limited_samples": if arguments.exact { 0 } else { limited },
            "server_saw_bytes": outcome.sent_bytes, "server_sent_bytes": outcome.received_bytes, "server": server,
        }))?;
    } else {
        let duration = outcome.samples.len() as f64 / f64::from(wav::SAMPLE_RATE_HZ);
        output::say(format!(
            "{count} speakers, {duration:.2} s mixed in mode {mode} by {server} in {seconds:.2} s; it saw {} bytes, all \
             encrypted",
            outcome.sent_bytes
        ));
        if limited > 0 && !arguments.exact {
            output::say(format!("{limited} samples were beyond 16 bits and are limited (--exact keeps them)"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The key of the call: from its file, or fresh.
fn key(arguments: &MixArguments) -> Result<CallKey, Failure> {
    let mode = arguments.mode.map(Mode::from);
    let Some(path) = &arguments.key else {
        let parameters = arguments.curve.parameters()?;
        return CallKey::generate(mode.unwrap_or_default(), parameters);
    };
    let key = CallKey::read(path, arguments.curve.floor.floor()?)?;
    match mode {
        Some(mode) if mode != key.mode() => {
            let (path, found) = (path.display(), key.mode());
            Err(Failure::Call(format!("{path}: key of mode {found}: expected {mode}, as --mode says")))
        }
        _ => Ok(key),
    }
}

/// Rejects before the work an output that is one of the inputs (a recording would be lost), or that
/// has no folder.
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

/// Mixes on the named server, or on one started for the purpose. Returns its description.
fn on_a_server(
    arguments: &MixArguments,
    key: CallKey,
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
