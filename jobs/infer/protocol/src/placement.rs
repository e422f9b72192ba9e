//! The site and form of each layer: the cheapest placement that the required protection allows.
//!
//! A layer can run on plain numbers, on encrypted user data, or with encrypted user data and an
//! encrypted model. Each of these can run in a plain process (the paper's REE) or in an enclave
//! (its TEE): the paper's six combinations (section 4.2, table 3). Their protection follows from
//! the data and keys at each site:
//!
//! | | user data | model | results right |
//! |---|---|---|---|
//! | process, plain | no | no | no |
//! | process, user data encrypted | yes | no | no |
//! | process, both encrypted | yes | from a passive host | no |
//! | enclave, plain | unless observed, or plaintext is forbidden | unless observed | yes |
//! | enclave, user data encrypted | yes | unless its memory is observed | yes |
//! | enclave, both encrypted | yes | yes | yes |
//!
//! [`Protect`] becomes labels of data and rights of sites, and [`tobari_plan::place`] finds the
//! cheapest path among ways, levels, resets and transfers. [`relaxations`] drops the requirements
//! one by one, to show the ones that matter and their cost.

use std::fmt;
use tobari_plan::place::{Conversion, Data, PlaceCosts, PlaceError, Placement, place};
use tobari_plan::program::Program;
use tobari_plan::segment::{Form, Job, Segment, Trust, Variant};
use tobari_plan::site::{Guard, KeyDomain, Owner, Secrecy, Site};

/// The user's data that the enclave may hold as plaintext between the first layer and the last: in
/// plain layers, and where levels are reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Inside {
    /// Nothing.
    No,
    /// Numbers under a mask that the enclave does not know.
    Masked,
    /// All data: an attacker who observes the enclave's memory sees activations.
    Yes,
}

/// The data to protect, and the attackers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Protect {
    /// The user's data.
    pub user_data: bool,
    /// The model's weights.
    pub model: bool,
    /// The correctness of results.
    pub integrity: bool,
    /// An attacker may observe the enclave's memory accesses and contents by side channels.
    pub side_channels: bool,
    /// The host may deviate from the protocol, together with a user, and results reveal more than a
    /// label.
    pub active_host: bool,
    /// The user's data that the enclave may hold as plaintext. By default all data, or none with
    /// `side_channels`.
    pub plain_in_enclave: Option<Inside>,
    /// There is an enclave.
    pub enclave: bool,
    /// The enclave holds the key of the user's data, a new key for each session; otherwise the user
    /// holds it.
    pub key_in_enclave: bool,
}

impl fmt::Display for Protect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names =
            [(self.user_data, "user data"), (self.model, "the model"), (self.integrity, "that results are right")];
        let protected: Vec<&str> = names.into_iter().filter_map(|(set, name)| set.then_some(name)).collect();
        let protected = if protected.is_empty() { "nothing".to_owned() } else { protected.join(", ") };
        write!(f, "protected: {protected}; side channels of the enclave: ")?;
        f.write_str(if self.side_channels { "in scope" } else { "out of scope" })?;
        f.write_str(if self.active_host { "; the host: active" } else { "; the host: passive" })?;
        f.write_str(match self.inside() {
            Inside::No => "; no plaintext activations in the enclave",
            Inside::Masked => "; activations in the enclave under a mask alone",
            Inside::Yes => "; activations may be plaintext in the enclave",
        })
    }
}

impl Protect {
    /// The user's data that the enclave may hold as plaintext, if the data is protected.
    pub fn inside(&self) -> Inside {
        self.plain_in_enclave.unwrap_or(if self.side_channels { Inside::No } else { Inside::Yes })
    }
}

/// The form of a layer's computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// In plain numbers.
    Plain,
    /// The user's data is encrypted, the weights are not.
    UserData,
    /// Both are encrypted.
    Both,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Plain => "plain",
            Mode::UserData => "user data encrypted",
            Mode::Both => "user data and model encrypted",
        })
    }
}

/// One way to run a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// The form of the computation.
    pub mode: Mode,
    /// The form of the input.
    pub takes: Form,
    /// The form of the output.
    pub gives: Form,
    /// Bytes of the input and of the output.
    pub bytes: [u64; 2],
    /// Seconds in a plain process, and in the enclave.
    pub seconds: [f64; 2],
    /// Whether the enclave checks the results of a plain process.
    pub checked: bool,
}

/// A layer, or an activation.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// A name for people.
    pub name: String,
    /// Whether it has weights; activations have none (the paper's table 12).
    pub weights: bool,
    /// The ways to run it.
    pub ways: Vec<Way>,
}

/// Costs of moves and conversions, in seconds.
pub trait Moves {
    /// Until an image exists in a form, if the enclave encrypts it. For a first layer in the
    /// enclave, [`Self::transfer`] into it is not included.
    fn enter(&self, _: Data<'_>, _into_enclave: bool) -> f64 {
        0.0
    }
    /// To transfer data into the enclave, or out of it.
    fn transfer(&self, data: Data<'_>, into_enclave: bool) -> f64;
    /// To encode and encrypt plain numbers.
    fn encrypt(&self, to: Data<'_>, in_enclave: bool) -> f64;
    /// To decrypt and decode ciphertexts.
    fn decrypt(&self, from: Data<'_>, in_enclave: bool) -> f64;
    /// To add and remove a mask.
    fn mask(&self, from: Data<'_>, to: Data<'_>) -> f64;
}

/// A network to place.
pub struct Inference<'a> {
    /// The layers and activations, in order.
    pub layers: &'a [Layer],
    /// Forms and bytes of the input; the user sends one of them.
    pub inputs: Vec<(Form, u64)>,
    /// Levels that a ciphertext needs for a masked reset.
    pub masked_level: Option<u16>,
    /// The costs of moves.
    pub moves: &'a dyn Moves,
}

/// The plain process.
pub const PROCESS: usize = 0;
/// The enclave.
pub const ENCLAVE: usize = 1;

fn user() -> Owner {
    Owner("the user".to_owned())
}

fn model_owner() -> Owner {
    Owner("the owner of the model".to_owned())
}

fn session_key() -> KeyDomain {
    KeyDomain("the user's session".to_owned())
}

/// The plain process, and the enclave if there is one. The required protection determines the
/// parties that trust each site.
pub fn sites(protect: &Protect) -> Vec<Site> {
    let mut process = Site::blind("process", 1, 1 << 34);
    process.trusted_by.extend((!protect.user_data).then(user));
    process.trusted_by.extend((!protect.model).then(model_owner));
    if !protect.enclave {
        return vec![process];
    }
    let mut enclave = Site::blind("enclave", 1, 1 << 34);
    enclave.guard = Guard::SimulatedEnclave;
    let user_trusts = !protect.user_data || protect.inside() == Inside::Yes;
    enclave.trusted_by.extend(user_trusts.then(user));
    enclave.trusted_by.extend((!protect.model || !protect.side_channels).then(model_owner));
    enclave.keys.extend(protect.key_in_enclave.then(session_key));
    vec![process, enclave]
}

impl Inference<'_> {
    /// The job for a required protection; variant `v` of stage `k` is way `v` of layer `k`.
    pub fn job(&self, protect: &Protect) -> Job {
        let variant = |layer: &Layer, way: &Way| {
            let weights = match way.mode {
                Mode::Plain | Mode::UserData => Secrecy::Secret { owner: model_owner() },
                Mode::Both => Secrecy::Encrypted { key: session_key() },
            };
            Variant {
                name: match &way.takes {
                    Form::Encrypted { level, layout } => format!("{} ({layout}, level {level})", way.mode),
                    _ => way.mode.to_string(),
                },
                takes: way.takes.clone(),
                gives: way.gives.clone(),
                bytes: way.bytes,
                program: Program::default(),
                holds: layer.weights.then(|| ("weights".to_owned(), weights)).into_iter().collect(),
                trust: Trust {
                    checked: way.checked,
                    passive_only: layer.weights && way.mode == Mode::Both && protect.model,
                },
            }
        };
        let segments = self.layers.iter().map(|layer| Segment {
            name: layer.name.clone(),
            variants: layer.ways.iter().map(|way| variant(layer, way)).collect(),
        });
        let last = self.layers.last().into_iter().flat_map(|layer| &layer.ways).map(|way| way.gives.clone());
        // a user with the key gets the encrypted result; an enclave with the key releases the
        // result
        let mut outputs: Vec<Form> = vec![Form::Plain];
        if !protect.key_in_enclave {
            outputs.extend(last.filter(|form| matches!(form, Form::Encrypted { .. })));
        }
        Job {
            segments: segments.collect(),
            owner: user(),
            key: session_key(),
            inputs: self.inputs.clone(),
            outputs,
            integrity: protect.integrity,
            active: protect.active_host,
            masked_level: self.masked_level.filter(|_| protect.inside() != Inside::No),
        }
    }

    /// The cheapest placement.
    ///
    /// # Errors
    /// [`PlaceError`] with the first layer that can run nowhere, and the reasons.
    pub fn place(&self, protect: &Protect) -> Result<Placement, PlaceError> {
        let (job, sites) = (self.job(protect), sites(protect));
        let placement =
            place(&job, &sites, PROCESS, &Priced { of: self, allowed: None, key_inside: protect.key_in_enclave })?;
        placement.check(&job, &sites)?;
        finite(placement)
    }

    /// The cheapest placement among the ways and sites that a function of layer, way and site
    /// allows.
    ///
    /// # Errors
    /// As in [`Self::place`]; [`PlaceError::Output`] if none is allowed.
    pub fn place_among(
        &self,
        protect: &Protect,
        allowed: &dyn Fn(usize, &Way, usize) -> bool,
    ) -> Result<Placement, PlaceError> {
        let (job, sites) = (self.job(protect), sites(protect));
        let placement = place(
            &job,
            &sites,
            PROCESS,
            &Priced { of: self, allowed: Some(allowed), key_inside: protect.key_in_enclave },
        )?;
        placement.check(&job, &sites)?;
        finite(placement)
    }
}

/// Rejects a placement of infinite cost.
fn finite(placement: Placement) -> Result<Placement, PlaceError> {
    match placement.seconds.is_finite() {
        true => Ok(placement),
        false => Err(PlaceError::Output { wanted: "in one of the ways that there are".to_owned() }),
    }
}

type Allowed<'a> = &'a dyn Fn(usize, &Way, usize) -> bool;

/// Costs of the layers' own ways.
struct Priced<'a> {
    of: &'a Inference<'a>,
    allowed: Option<Allowed<'a>>,
    /// If false, the user encrypts, whose time is not part of the job.
    key_inside: bool,
}

impl PlaceCosts for Priced<'_> {
    fn run(&self, segment: &Segment, variant: &Variant, site: &Site) -> f64 {
        let layer = self.of.layers.iter().position(|layer| layer.name == segment.name);
        let way = segment.variants.iter().position(|other| std::ptr::eq(other, variant));
        let at = if site.guard == Guard::Process { PROCESS } else { ENCLAVE };
        let way = layer.zip(way).and_then(|(layer, way)| Some((layer, self.of.layers[layer].ways.get(way)?)));
        match way {
            Some((layer, way)) if self.allowed.is_none_or(|allowed| allowed(layer, way, at)) => way.seconds[at],
            _ => f64::INFINITY,
        }
    }

    fn enter(&self, data: Data<'_>, to: &Site) -> f64 {
        if self.key_inside { self.of.moves.enter(data, to.guard != Guard::Process) } else { 0.0 }
    }

    fn transfer(&self, data: Data<'_>, _: &Site, to: &Site) -> f64 {
        self.of.moves.transfer(data, to.guard != Guard::Process)
    }

    fn convert(&self, conversion: Conversion, from: Data<'_>, to: Option<Data<'_>>, site: &Site) -> f64 {
        let (moves, guarded) = (self.of.moves, site.guard != Guard::Process);
        let encrypted = to.map_or(0.0, |to| moves.encrypt(to, guarded));
        match conversion {
            Conversion::Encrypt => encrypted,
            Conversion::Decrypt | Conversion::Release => moves.decrypt(from, guarded),
            Conversion::MaskedReset => {
                moves.decrypt(from, guarded) + encrypted + to.map_or(0.0, |to| moves.mask(from, to))
            }
            _ => moves.decrypt(from, guarded) + encrypted,
        }
    }
}

/// A dropped requirement, and the gain.
#[derive(Clone, Debug, PartialEq)]
pub struct Relaxation {
    /// The requirement to drop, in words.
    pub gives_up: &'static str,
    /// The remaining protection.
    pub protect: Protect,
    /// Seconds with the remaining protection.
    pub seconds: f64,
}

/// All requirements whose removal saves time, each dropped alone, largest gain first.
pub fn relaxations(inference: &Inference<'_>, protect: &Protect) -> Vec<Relaxation> {
    let now = inference.place(protect).map_or(f64::INFINITY, |placement| placement.seconds);
    let mut ways: Vec<(&'static str, Protect)> = Vec::new();
    let mut without = |set: bool, gives_up, protect| {
        if set {
            ways.push((gives_up, protect));
        }
    };
    without(protect.user_data, "user data need not be protected", Protect { user_data: false, ..*protect });
    without(protect.model, "the model need not be protected", Protect { model: false, ..*protect });
    without(protect.integrity, "results may be wrong unnoticed", Protect { integrity: false, ..*protect });
    without(
        protect.side_channels,
        "side channels of the enclave are out of scope",
        Protect { side_channels: false, ..*protect },
    );
    without(protect.active_host, "the host does what it was told", Protect { active_host: false, ..*protect });
    let resets = protect.enclave && protect.key_in_enclave;
    without(
        resets && protect.inside() < Inside::Masked,
        "masked activations pass through the enclave",
        Protect { plain_in_enclave: Some(Inside::Masked), ..*protect },
    );
    without(
        resets && protect.inside() < Inside::Yes,
        "activations may be in the clear in the enclave",
        Protect { plain_in_enclave: Some(Inside::Yes), ..*protect },
    );
    let priced = ways.into_iter().filter_map(|(gives_up, protect)| {
        let seconds = inference.place(&protect).ok()?.seconds;
        (seconds < now * (1.0 - 1e-9)).then_some(Relaxation { gives_up, protect, seconds })
    });
    let mut priced: Vec<Relaxation> = priced.collect();
    priced.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    priced
}
