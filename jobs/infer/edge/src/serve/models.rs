//! Files of models, and the served models.

use super::{InferError, InferOptions, Name, Share, enclave::EnclaveHost};
use crate::network::{AnyModel, Engine};
use axum::body::Bytes;
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::PathBuf, str::FromStr, sync::Arc, time::Instant};
use tobari_infer::compile::Card;
use tobari_infer::ready::ready;
use tobari_infer::server::Service;
use tobari_infer::{Model, Volume, messages};
use tobari_lattice::params::NamedSet;
use tobari_octets::hex;

/// The name of the built-in model.
const DIGITS: &str = "digits";
/// The most bytes of a name.
const MAX_NAME_BYTES: usize = 64;

/// A model to serve: `digits` for the built-in one, a `.tim` file, or a name and `=` before either.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSource {
    /// The name for clients.
    pub name: String,
    /// The file; `None` for the built-in model.
    pub path: Option<PathBuf>,
}

impl FromStr for ModelSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, source) = match text.split_once('=') {
            Some((name, source)) => (Some(name), source),
            None => (None, text),
        };
        let path = (source != DIGITS).then(|| PathBuf::from(source));
        let stem = |path: &PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = match (name, &path) {
            (Some(name), _) => name.to_owned(),
            (None, Some(path)) => stem(path).unwrap_or_default(),
            (None, None) => DIGITS.to_owned(),
        };
        if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) || source.is_empty() {
            return Err("expected digits, a file, or a name of at most 64 bytes, = and one of them".to_owned());
        }
        Ok(Self { name, path })
    }
}

impl ModelSource {
    /// Reads the model, of either kind.
    ///
    /// # Errors
    /// [`InferError`] for a file that is not a model.
    pub(crate) fn read(&self) -> Result<AnyModel, InferError> {
        match &self.path {
            None => Ok(AnyModel::Flat(Model::digits().map_err(|error| InferError::file(DIGITS, error))?)),
            Some(path) => AnyModel::read(path).map_err(|fault| InferError::file(path, fault)),
        }
    }
}

/// A served model.
pub(super) struct Served {
    pub(super) engine: Engine,
    /// The public facts of the model.
    pub(super) known: Card,
    /// The length of a message of keys, and the bytes of the keys in memory.
    pub(super) keys: (usize, u64),
    /// The length of a question.
    pub(super) question: usize,
    /// The public facts of the model, as bytes.
    pub(super) card: Bytes,
    /// The facts for people and for the list.
    pub(super) line: Value,
    /// The enclave for clients without keys.
    pub(super) enclave: Option<Arc<EnclaveHost>>,
}

/// Opens all models, by their digests.
pub(super) fn open(options: &InferOptions, share: Share) -> Result<BTreeMap<Name, Arc<Served>>, InferError> {
    let set = NamedSet::from_name(&options.set).ok_or_else(|| InferError::Set(options.set.clone()))?;
    let mut models = BTreeMap::new();
    for source in &options.models {
        let model = source.read()?;
        let fault = |what: String| InferError::Model { name: source.name.clone(), what };
        let served = serve(source, &model, &set, (options, share)).map_err(fault)?;
        if models.insert(model.digest(), Arc::new(served)).is_some() {
            return Err(fault("this model is served already: name each model once".to_owned()));
        }
    }
    Ok(models)
}

fn serve(
    source: &ModelSource,
    model: &AnyModel,
    set: &NamedSet,
    (options, share): (&InferOptions, Share),
) -> Result<Served, String> {
    let start = Instant::now();
    if let (AnyModel::Deep(_), Some(enclave)) = (model, &options.enclave) {
        // before the weights are encoded, which may take minutes
        EnclaveHost::takes_deep(enclave.combination)?;
    }
    let text = |error: &dyn std::error::Error| error.to_string();
    let mut line = json!({
        "name": source.name, "digest": hex(&model.digest()), "image": shape(model.input()), "classes": model.classes(),
    });
    let (engine, layout, set_name) = match model {
        AnyModel::Flat(model) => {
            let parameters = set.parameters().map_err(|error| text(&error))?;
            let (compiled, _) = ready(model, options.layout.as_deref(), &parameters).map_err(|error| text(&error))?;
            line["stages"] = model.stages().iter().map(|stage| stage.name.as_str()).collect();
            line["logit_error"] = compiled.error().into();
            let layout = compiled.layout().name().to_owned();
            let service = Service::new(compiled, options.weight_bytes).map_err(|error| text(&error))?;
            (Engine::Flat(Box::new(service)), layout, set.name.to_owned())
        }
        AnyModel::Deep(model) if model.settings().refreshing.is_some() => {
            return Err(
                "a server takes no model with refreshes, because a client's keys are gigabytes and a run takes \
                        minutes: run it on one machine (tobari infer run)"
                    .to_owned(),
            );
        }
        AnyModel::Deep(model) => {
            let network = model.network().map_err(|error| text(&error))?;
            line["stages"] = network.circuit().steps.steps.iter().map(|(name, ..)| name.as_str()).collect();
            line["logit_error"] = model.forecast().error.into();
            (Engine::Deep(Box::new(network)), "searched".to_owned(), model.settings().sizes.to_string())
        }
    };
    let memory = engine.keyring_memory().map_err(|error| text(&error))?;
    let known = engine.card();
    let (card, question) = (known.encode(), messages::question_bytes(&known));
    let keys = messages::keys_bytes(&known);
    known.check().map_err(|error| text(&error))?;
    line["layout"] = layout.as_str().into();
    line["set"] = set_name.as_str().into();
    line["key_bytes"] = keys.into();
    line["key_memory"] = memory.into();
    line["question_bytes"] = question.into();
    line["answer_bytes"] = messages::answer_bytes(&known).into();
    tracing::info!(
        model = &hex(&model.digest())[..8],
        layout,
        set = set_name,
        milliseconds = start.elapsed().as_millis() as u64,
        "a model is ready"
    );
    let enclave = options.enclave.as_ref().map(|enclave| {
        let limits = (options.layout.as_deref(), options.weight_bytes);
        EnclaveHost::open((&source.name, model), (enclave, share), limits.0, limits.1).map(Arc::new)
    });
    let enclave = enclave.transpose()?;
    if let Some(told) = enclave.as_ref().map(|house| house.told()) {
        line["enclave"] = json!({
            "evidence": told.evidence, "combination": told.combination, "set": told.set, "layout": told.layout,
            "tells": told.tells, "sessions": told.sessions, "images": told.images,
        });
    }
    Ok(Served { engine, known, keys: (keys, memory), question, card: card.into(), line, enclave })
}

fn shape(volume: Volume) -> [usize; 3] {
    [volume.channels, volume.height, volume.width]
}
