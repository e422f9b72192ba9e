//! Files of models, and the served models.

use super::{InferError, InferOptions, Name, Share, enclave::EnclaveHost};
use crate::network::{AnyModel, Engine};
use axum::{body::Bytes, http::StatusCode};
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::PathBuf, str::FromStr, sync::Arc, time::Instant};
use tobari_infer::compile::Card;
use tobari_infer::ready::ready;
use tobari_infer::server::Service;
use tobari_infer::{Model, Volume, messages};
use tobari_infer_deep::settings::Engine as Way;
use tobari_lattice::params::NamedSet;
use tobari_node::reply::Reply;
use tobari_octets::hex;

/// The name of the built-in model.
const DIGITS: &str = "digits";
/// The most bytes of a name.
const MAX_NAME_BYTES: usize = 64;

/// Why a model with refreshes is not served without a data folder.
const NO_FOLDER: &str = "a client's keys of a model with refreshes are gigabytes, and a server keeps them on the disk: \
                         add --data FOLDER";
/// Why a model for an enclave is not served without one.
const NO_ENCLAVE: &str = "an enclave computes a part of this network: serve it with --infer-enclave mixed-plain-reset";

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
    /// For clients with keys; without it, an enclave alone answers.
    direct: Option<Direct>,
    /// The facts for people and for the list.
    pub(super) line: Value,
    /// The enclave for clients without keys.
    pub(super) enclave: Option<Arc<EnclaveHost>>,
}

impl Served {
    #[cfg(test)]
    pub(super) fn of_tests(direct: Direct, line: Value) -> Self {
        Self { direct: Some(direct), line, enclave: None }
    }

    /// What clients with keys use.
    ///
    /// # Errors
    /// A reply for a model that an enclave alone answers.
    pub(super) fn direct(&self) -> Result<&Direct, Reply> {
        let text = "an enclave alone answers questions about this model, and clients have no keys: tobari infer ask";
        self.direct.as_ref().ok_or_else(|| Reply::new(StatusCode::CONFLICT, "enclave", text))
    }
}

/// A model for clients with keys.
pub(super) struct Direct {
    pub(super) engine: Engine,
    /// The public facts of the model.
    pub(super) known: Card,
    /// Whether its keys are on the disk and are sent one by one: the module `large`.
    pub(super) is_large: bool,
    /// The length of a message of keys, and the bytes of the keys in memory.
    pub(super) keys: (usize, u64),
    /// The length of a question.
    pub(super) question: usize,
    /// The public facts of the model, as bytes.
    pub(super) card: Bytes,
}

impl Direct {
    /// A model for clients with keys, whose facts come into the line.
    pub(super) fn new(engine: Engine, options: &InferOptions, line: &mut Value) -> Result<Self, String> {
        let memory = engine.keyring_memory().map_err(|error| error.to_string())?;
        let known = engine.card();
        let (card, question) = (known.encode(), messages::question_bytes(&known));
        let keys = messages::keys_bytes(&known);
        let is_large = known.is_refreshed();
        if is_large && memory > options.key_bytes {
            let (needed, limit) = (in_mebibytes(memory), in_mebibytes(options.key_bytes));
            return Err(format!(
                "a client's keys take {needed} of memory while a question is answered, and --infer-keys allows {limit}: raise it"
            ));
        }
        line["large_keys"] = is_large.into();
        line["key_bytes"] = keys.into();
        line["key_memory"] = memory.into();
        line["question_bytes"] = question.into();
        line["answer_bytes"] = messages::answer_bytes(&known).into();
        Ok(Self { engine, known, is_large, keys: (keys, memory), question, card: card.into() })
    }
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
    if let (AnyModel::Deep(model), Some(enclave)) = (model, &options.enclave) {
        // before the weights are encoded, which may take minutes
        EnclaveHost::takes_deep(enclave.combination, model)?;
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
            (Some(Engine::Flat(Box::new(service))), layout, set.name.to_owned())
        }
        AnyModel::Deep(model) => {
            line["logit_error"] = model.forecast().error.into();
            let engine = match (model.settings().engine, &options.enclave) {
                (Way::Refresh(_), None) if options.data.is_none() => return Err(NO_FOLDER.to_owned()),
                (Way::Levels, _) | (Way::Refresh(_), None) => {
                    let network = model.network().map_err(|error| text(&error))?;
                    line["stages"] = network.circuit().steps.steps.iter().map(|(name, ..)| name.as_str()).collect();
                    Some(Engine::Deep(Box::new(network)))
                }
                (Way::Enclave | Way::Refresh(_), Some(_)) => None,
                (Way::Enclave, None) => return Err(NO_ENCLAVE.to_owned()),
            };
            (engine, "searched".to_owned(), model.settings().sizes.to_string())
        }
    };
    line["layout"] = layout.as_str().into();
    line["set"] = set_name.as_str().into();
    let direct = engine.map(|engine| Direct::new(engine, options, &mut line)).transpose()?;
    direct.iter().try_for_each(|direct| direct.known.check()).map_err(|error| text(&error))?;
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
    Ok(Served { direct, line, enclave })
}

/// Bytes as an option takes them, rounded up.
fn in_mebibytes(bytes: u64) -> String {
    format!("{}MiB", bytes.div_ceil(1 << 20))
}

fn shape(volume: Volume) -> [usize; 3] {
    [volume.channels, volume.height, volume.width]
}
