//! Runs a model on this machine, without a server.

use super::arguments::LocalArguments;
use crate::network::{AnyModel, Engine};
use crate::serve::ModelSource;
use chacha20::ChaCha20Rng;
use tobari_command::output::{self, Failure};
use tobari_infer::Model;
use tobari_infer::compile::Compiled;
use tobari_infer::holder::{Holder, Sealed, short};
use tobari_infer::precision::StageReport;
use tobari_infer::ready::ready;
use tobari_infer::server::Service;
use tobari_infer_deep::settings::Engine as Way;
use tobari_lattice::params::{LatticeParameters, NamedSet};

/// The most bytes of encoded weights: a model runs once.
const WEIGHTS: u64 = 1 << 30;

/// Why a network does not run here.
const ENCLAVE: &str = "an enclave computes a part of this network, and makes the keys: serve it with `tobari serve \
                       --infer-enclave mixed-plain-reset`, and ask with `tobari infer ask`";

/// Reads a model; without a name, the built-in one.
pub(super) fn read(name: Option<&str>) -> Result<AnyModel, Failure> {
    let source: ModelSource = name.unwrap_or("digits").parse().map_err(Failure::Call)?;
    Ok(source.read()?)
}

/// The set of parameters of this name.
pub(super) fn set(name: &str) -> Result<LatticeParameters, Failure> {
    let wrong = || Failure::Call(format!("{name} is no parameter set: `tobari info` lists the sets"));
    Ok(NamedSet::from_name(name).ok_or_else(wrong)?.parameters()?)
}

/// Compiles a model of maps with squares, and checks it.
pub(super) fn compiled(model: &Model, arguments: &LocalArguments) -> Result<(Compiled, Vec<StageReport>), Failure> {
    Ok(ready(model, arguments.layout.as_deref(), &set(arguments.set())?)?)
}

/// Prepares a model.
fn engine(model: &AnyModel, arguments: &LocalArguments) -> Result<Engine, Failure> {
    Ok(match model {
        AnyModel::Flat(model) => Engine::Flat(Box::new(Service::new(compiled(model, arguments)?.0, WEIGHTS)?)),
        AnyModel::Deep(model) if model.settings().engine == Way::Enclave => {
            return Err(Failure::Work(ENCLAVE.to_owned()));
        }
        AnyModel::Deep(model) => {
            arguments.refuse()?;
            Engine::Deep(Box::new(model.network()?))
        }
    })
}

/// Makes a key for a model.
pub(super) fn holder(arguments: &LocalArguments, name: Option<&str>, rng: &mut ChaCha20Rng) -> Result<Holder, Failure> {
    let model = read(name)?;
    let card = match &model {
        AnyModel::Flat(model) => compiled(model, arguments)?.0.card(),
        AnyModel::Deep(_) => engine(&model, arguments)?.card(),
    };
    Ok(Holder::generate(card, model.digest(), rng)?)
}

/// Computes the answer to a question.
pub(super) fn answer(
    arguments: &LocalArguments,
    name: Option<&str>,
    sealed: &Sealed<'_>,
    holder: Option<&Holder>,
) -> Result<Vec<u8>, Failure> {
    let holder = holder.ok_or_else(|| {
        Failure::Call("a run on this machine needs --key; a run on a server needs --server".to_owned())
    })?;
    let model = read(name)?;
    let (expected, found) = (short(&sealed.model), short(&model.digest()));
    if sealed.model != model.digest() {
        return Err(Failure::Work(format!(
            "the image was encrypted for the model {expected}, and this is {found}: use that model, or encrypt the image again"
        )));
    }
    let engine = engine(&model, arguments)?;
    let card = engine.card();
    if card.encode() != holder.card().encode() {
        let text = "the key was made for another layout or set: give the same --layout and --set, or make a new key";
        return Err(Failure::Work(text.to_owned()));
    }
    let ring = engine.keyring(holder.loose_keys()?)?;
    let answered = engine.answer(&card, &ring, sealed.body, |step, steps, _| {
        output::status(&format!("step {} of {steps}", step + 1));
        true
    });
    output::status("");
    Ok(answered?.0)
}
