//! `tobari infer`: image classification by a server that cannot see the image.

mod arguments;
mod ask;
mod compile;
#[cfg(linux_64)]
pub mod costs;
mod engines;
mod files;
mod image;
mod local;
mod placement;
mod plan;
mod planned;
pub(crate) mod remote;
mod serve;
mod simulate;
#[cfg(linux_64)]
pub mod timed;

pub use arguments::InferVerb;
pub use plan::run as plan;
pub use planned::InferPlan;
pub use remote::Remote;
pub use serve::ServeInferArguments;

use arguments::{DecryptArguments, EncryptArguments, KeygenArguments, RunArguments};
use image::ModelImages;
use serde_json::json;
use std::process::ExitCode;
use tobari_command::job::Verbs;
use tobari_command::output::{self, Failure};
use tobari_command::randomness;
use tobari_host::files::{check_bounded, read_bounded, write_secret};
use tobari_infer::Model;
use tobari_infer::holder::{Holder, MAX_HOLDER_BYTES, MAX_SEALED_BYTES, Sealed, SealedKind, short};
use zeroize::Zeroizing;

impl Verbs for InferVerb {
    fn run(&self) -> Result<ExitCode, Failure> {
        match self {
            Self::Keygen(arguments) => keygen(arguments)?,
            Self::Draw(arguments) => image::draw(arguments)?,
            Self::Encrypt(arguments) => encrypt(arguments)?,
            Self::Run(arguments) => answer(arguments)?,
            Self::Decrypt(arguments) => decrypt(arguments)?,
            Self::Ask(arguments) => ask::run(arguments)?,
            Self::Enclave(arguments) => ask::tell(arguments)?,
            Self::Compile(arguments) => compile::run(arguments)?,
            Self::Simulate(arguments) => simulate::run(arguments)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn keygen(arguments: &KeygenArguments) -> Result<(), Failure> {
    let mut rng = randomness::generator()?;
    let holder = match &arguments.reach.server {
        None => local::holder(&arguments.local, arguments.model.as_deref(), &mut rng)?,
        Some(url) => remote::block_on(async {
            let mut remote = Remote::reach(url, &arguments.reach.reach()?)?;
            let (digest, card) = remote.model(arguments.model.as_deref()).await?;
            Ok(Holder::generate(card, digest, &mut rng)?)
        })?,
    };
    let encoded = holder.encode();
    check_bounded(&arguments.output, &encoded, MAX_HOLDER_BYTES as u64)?;
    write_secret(&arguments.output, &encoded)?;
    let path = arguments.output.display().to_string();
    if arguments.json {
        return output::json(
            &json!({ "secret_key": path, "model": hex(holder.model()), "keys": hex(holder.keys_name()) }),
        );
    }
    output::result(format!(
        "secret key: {path}, for the model {} (keep it: it opens images and answers)",
        short(holder.model())
    ));
    Ok(())
}

/// Reads a key.
fn holder(path: &std::path::Path) -> Result<Holder, Failure> {
    let bytes = Zeroizing::new(read_bounded(path, MAX_HOLDER_BYTES as u64)?);
    Holder::decode(&bytes).map_err(|error| Failure::Work(format!("{}: {error}", path.display())))
}

fn encrypt(arguments: &EncryptArguments) -> Result<(), Failure> {
    let holder = holder(&arguments.key)?;
    let pixels = image::read(&arguments.image, &ModelImages::of(holder.model(), holder.card().shape)?)?;
    let numbers = Zeroizing::new(Model::numbers(&pixels));
    let bytes = holder.encrypt(&numbers, &mut randomness::generator()?)?;
    files::write(&arguments.output, &bytes)?;
    output::say(format!("an image of {} pixels, encrypted: {} bytes", pixels.len(), bytes.len()));
    Ok(())
}

fn answer(arguments: &RunArguments) -> Result<(), Failure> {
    let question = files::read(&arguments.question, MAX_SEALED_BYTES as u64)?;
    let sealed = Sealed::decode(SealedKind::Question, &question)?;
    let holder = arguments.key.as_deref().map(holder).transpose()?;
    if let Some(holder) = &holder
        && (holder.model() != &sealed.model || holder.keys_name() != &sealed.keys)
    {
        let (expected, found) = (short(&sealed.keys), short(holder.keys_name()));
        return Err(Failure::Work(format!(
            "the image was encrypted under the key {expected}, and this is {found}: use that key"
        )));
    }
    let answer = match &arguments.reach.server {
        None => local::answer(&arguments.local, arguments.model.as_deref(), &sealed, holder.as_ref())?,
        Some(url) => remote::block_on(async {
            let mut remote = Remote::reach(url, &arguments.reach.reach()?)?;
            let answered = remote.answer(&sealed, holder.as_ref()).await?;
            output::say(format!("{} bytes sent, {} received", remote.sent_bytes(), remote.received_bytes()));
            Ok(answered)
        })?,
    };
    let sealed = Sealed { kind: SealedKind::Answer, body: &answer, ..sealed };
    let encoded = sealed.encode();
    check_bounded(&arguments.output, &encoded, MAX_SEALED_BYTES as u64)?;
    files::write(&arguments.output, &encoded)
}

fn decrypt(arguments: &DecryptArguments) -> Result<(), Failure> {
    let holder = holder(&arguments.key)?;
    let bytes = files::read(&arguments.answer, MAX_SEALED_BYTES as u64)?;
    let told = holder.decrypt(&bytes, arguments.output.0)?;
    let label = told.labels.first().copied();
    if let Some([first, second]) = told.close {
        output::say(format!(
            "warning: the labels {first} and {second} are closer than the errors of encryption: either may be right"
        ));
    }
    if arguments.json {
        let mut line = json!({ "label": label });
        if let Some(close) = told.close {
            line["close"] = close.into();
        }
        if told.labels.len() > 1 {
            line["labels"] = told.labels.clone().into();
        }
        if !told.logits.is_empty() {
            line["logits"] = told.logits.clone().into();
        }
        return output::json(&line);
    }
    let words = |numbers: &[usize]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    output::result(words(&told.labels));
    told.logits.iter().enumerate().for_each(|(class, logit)| output::result(format!("{class}: {logit:.6}")));
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
