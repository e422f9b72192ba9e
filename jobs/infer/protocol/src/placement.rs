//! Which layer runs where, and in which form: the cheapest that what is to be protected allows.
//!
//! A layer can be done in plain numbers, on the user's data under encryption, or with the model
//! encrypted as well; and each of these in a plain process (the paper's REE) or in an enclave (its
//! TEE): the paper's six combinations (section 4.2, table 3). What each one protects follows from
//! who holds what:
//!
//! | | user data | model | results right |
//! |---|---|---|---|
//! | process, plain | no | no | no |
//! | process, user data encrypted | yes | no | no |
//! | process, both encrypted | yes | from a passive host | no |
//! | enclave, plain | unless its memory is watched, or plain data is refused it | unless its memory is watched | yes |
//! | enclave, user data encrypted | yes | unless its memory is watched | yes |
//! | enclave, both encrypted | yes | yes | yes |
//!
//! [`Protect`] becomes labels of data and rights of sites, and [`tobari_plan::place`] looks for the
//! cheapest path among ways, levels, resets and transfers. Requirements are relaxed one by one
//! ([`relaxations`]), so that one sees what binds and what it costs.

use std::fmt;
use tobari_plan::place::{Conversion, Data, PlaceCosts, PlaceError, Placement, place};
use tobari_plan::program::Program;
use tobari_plan::segment::{Form, Job, Segment, Trust, Variant};
use tobari_plan::site::{Guard, KeyDomain, Owner, Secrecy, Site};

/// What of the user's data the enclave may have in the clear from the first layer to the last: in
/// plain layers, and where levels are reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Inside {
    /// Nothing.
    No,
    /// Numbers under a mask that the enclave does not know.
    Masked,
    /// Anything: whoever watches the enclave's memory sees activations.
    Yes,
}

/// What has to be protected, and from whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Protect {
    /// The user's data.
    pub user_data: bool,
    /// The model's weights.
    pub model: bool,
    /// That results are right.
    pub integrity: bool,
    /// Somebody may watch the enclave's memory accesses and its contents by side channels.
    pub side_channels: bool,
    /// The host may do other than it was told, together with a user, and results tell more than a
    /// label.
    pub active_host: bool,
    /// What the enclave may have in the clear of the user's data; where nothing is said, anything
    /// if nobody watches it, and else nothing.
    pub plain_in_enclave: Option<Inside>,
    /// There is an enclave.
    pub enclave: bool,
    /// The enclave holds the key of the user's data, one of each session; or else the user does.
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
            Inside::No => "; no activations in the clear in the enclave",
            Inside::Masked => "; activations in the enclave under a mask alone",
            Inside::Yes => "; activations may be in the clear in the enclave",
        })
    }
}

impl Protect {
    /// What the enclave may have in the clear of the user's data, where it is protected.
    pub fn inside(&self) -> Inside {
        self.plain_in_enclave.unwrap_or(if self.side_channels { Inside::No } else { Inside::Yes })
    }
}

/// In which form a layer is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// In plain numbers.
    Plain,
    /// The user's data encrypted, the weights not.
    UserData,
    /// Both encrypted.
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

/// One way to do a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// Its form.
    pub mode: Mode,
    /// What it takes.
    pub takes: Form,
    /// What it gives.
    pub gives: Form,
    /// Bytes of both.
    pub bytes: [u64; 2],
    /// Seconds in a plain process, and in the enclave.
    pub seconds: [f64; 2],
    /// Whether the enclave checks what a plain process makes.
    pub checked: bool,
}

/// A layer, or an activation.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// What people call it.
    pub name: String,
    /// Whether it has weights; activations have none (the paper's table 12).
    pub weights: bool,
    /// The ways to do it.
    pub ways: Vec<Way>,
}

/// What moves and conversions cost, in seconds.
pub trait Moves {
    /// Until an image is there in a form, where the enclave encrypts it; for a first layer in the
    /// enclave, beside what [`Self::transfer`] costs into it.
    fn enter(&self, _: Data<'_>, _into_enclave: bool) -> f64 {
        0.0
    }
    /// Into the enclave, or out of it.
    fn transfer(&self, data: Data<'_>, into_enclave: bool) -> f64;
    /// Plain numbers encoded and encrypted.
    fn encrypt(&self, to: Data<'_>, in_enclave: bool) -> f64;
    /// Ciphertexts decrypted and decoded.
    fn decrypt(&self, from: Data<'_>, in_enclave: bool) -> f64;
    /// A mask put on and taken off.
    fn mask(&self, from: Data<'_>, to: Data<'_>) -> f64;
}

/// A network to be placed.
pub struct Inference<'a> {
    /// Its layers and activations, in order.
    pub layers: &'a [Layer],
    /// Forms and bytes of the input, of which the user sends one.
    pub inputs: Vec<(Form, u64)>,
    /// Levels that a ciphertext needs for a reset under a mask.
    pub masked_level: Option<u16>,
    /// What moves cost.
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

/// The plain process, and the enclave if there is one: who trusts them with what follows from what
/// has to be protected.
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
    /// The job under requirements; the variant `v` of stage `k` is way `v` of layer `k`.
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
        // where the user has the key, a result goes home as it is; where the enclave has it, it is
        // released there
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
    /// [`PlaceError`] that names the first layer that can be done nowhere, and why.
    pub fn place(&self, protect: &Protect) -> Result<Placement, PlaceError> {
        let (job, sites) = (self.job(protect), sites(protect));
        let placement =
            place(&job, &sites, PROCESS, &Priced { of: self, allowed: None, key_inside: protect.key_in_enclave })?;
        placement.check(&job, &sites)?;
        finite(placement)
    }

    /// The cheapest placement among some ways at some sites: those for which a function of layer,
    /// way and site says yes.
    ///
    /// # Errors
    /// As [`Self::place`]; [`PlaceError::Output`] if there is none among them.
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

/// A placement that takes no way without an end.
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
    /// Or else the user encrypts, whose time is not the job's.
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

/// A requirement less, and what it would bring.
#[derive(Clone, Debug, PartialEq)]
pub struct Relaxation {
    /// What is given up, in words.
    pub gives_up: &'static str,
    /// What is left.
    pub protect: Protect,
    /// Seconds with it.
    pub seconds: f64,
}

/// All requirements that cost something, the one that brings most first: each given up alone.
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
