//! The site of each layer of a network. `tobari plan infer` prints it, and `tobari serve
//! --infer-enclave auto` runs it.

use crate::command::ServeInferArguments;
use crate::command::arguments::ServeCosts;
#[cfg(linux_64)]
use crate::command::costs::costs as measured_now;
use crate::command::planned::{InferRequirements, InsideName, Protected, WhoseCosts};
use crate::network::AnyModel;
use serde_json::{Value, json};
use tobari_command::output::Failure;
use tobari_infer::Model;
use tobari_infer::guarded::Combination;
use tobari_infer::measured::{Costs, RECORDED, RECORDED_STEPS, forms};
use tobari_infer::model::Map;
use tobari_infer::placement::{Inside, Protect, Relaxation};
use tobari_infer::ready::SET;
use tobari_infer::served::{self, NotServed};
use tobari_lattice::params::{LatticeParameters, NamedSet};

/// The required protection for these options, with or without an enclave.
pub(crate) fn protect(requirements: &InferRequirements, enclave: bool) -> Protect {
    let usual = [Protected::Data];
    let named = if requirements.protect.is_empty() { usual.as_slice() } else { &requirements.protect };
    let protects = |what| named.contains(&what);
    Protect {
        user_data: protects(Protected::Data),
        model: protects(Protected::Model),
        integrity: protects(Protected::Integrity),
        side_channels: requirements.side_channels,
        active_host: requirements.active_host,
        plain_in_enclave: requirements.plain_in_enclave.map(|inside| match inside {
            InsideName::No => Inside::No,
            InsideName::Masked => Inside::Masked,
            InsideName::Yes => Inside::Yes,
        }),
        enclave,
        key_in_enclave: enclave,
    }
}

/// Costs of the built-in network, measured now or recorded; `None` for the paper's. An enclave's
/// work takes `factor` times as long as a process's.
pub(crate) fn costs(whose: WhoseCosts, factor: f64) -> Result<Option<Costs>, Failure> {
    match whose {
        WhoseCosts::Paper => Ok(None),
        WhoseCosts::Measured => measured_now(factor).map(Some),
        WhoseCosts::Recorded => recorded(factor).map(Some),
    }
}

fn recorded(factor: f64) -> Result<Costs, Failure> {
    let parameters = |name: &str| -> Result<LatticeParameters, Failure> {
        let set = NamedSet::from_name(name).ok_or_else(|| Failure::Work(format!("expected the set {name}")))?;
        set.parameters().map_err(failed)
    };
    let (ring, masked) = (parameters(SET)?, parameters(Combination::MixedMaskedReset.usual_set())?);
    let forms = forms(&Model::digits().map_err(failed)?, &ring, &masked).map_err(failed)?;
    Costs::new(&forms, &RECORDED, &RECORDED_STEPS, factor).map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Work(error.to_string())
}

/// This system has no process enclaves.
#[cfg(not(linux_64))]
fn measured_now(_: f64) -> Result<Costs, Failure> {
    Err(Failure::Work(
        "expected a system with enclaves in processes, found another: costs cannot be measured".to_owned(),
    ))
}

/// The requirements that cost time, and how much.
pub(crate) fn argument(seconds: f64, relaxations: &[Relaxation]) -> Vec<String> {
    let Some(first) = relaxations.first() else {
        return vec!["no requirement costs anything: giving one up brings no cheaper plan".to_owned()];
    };
    let saves = |way: &Relaxation| 100.0 * (1.0 - way.seconds / seconds);
    let mut lines =
        vec![format!("what binds most: if {}, {}, {:.1} % less", first.gives_up, time(first.seconds), saves(first))];
    let others = relaxations[1..].iter();
    lines.extend(others.map(|way| format!("if {}: {}, {:.1} % less", way.gives_up, time(way.seconds), saves(way))));
    lines
}

/// Seconds, or milliseconds below a tenth of a second.
pub(crate) fn time(seconds: f64) -> String {
    if seconds < 0.1 { format!("{:.3} ms", 1e3 * seconds) } else { format!("{seconds:.3} s") }
}

/// The server's plan for its requirements, with reasons.
pub(crate) struct Placed {
    /// The site and form of each step.
    pub(crate) combination: Combination,
    protect: Protect,
    whose: &'static str,
    seconds: f64,
    relaxations: Vec<Relaxation>,
}

impl Placed {
    /// The choice of `--infer-enclave auto`; `None` without that option.
    pub(crate) fn of(arguments: &ServeInferArguments) -> Result<Option<Self>, Failure> {
        if !arguments.is_placed()? {
            return Ok(None);
        }
        for source in &arguments.models {
            let digits = shape(&Model::digits().map_err(failed)?);
            if !matches!(source.read()?, AnyModel::Flat(model) if shape(&model) == digits) {
                let text = "expected a network of the built-in one's shape for --infer-enclave auto, as costs are known of no other, found another: name a combination";
                return Err(Failure::Call(format!("{}: {text}", source.name)));
            }
        }
        let (whose, told) = match arguments.enclave_costs {
            Some(ServeCosts::Recorded) => (WhoseCosts::Recorded, "recorded"),
            _ => (WhoseCosts::Measured, "measured"),
        };
        let protect = protect(&arguments.requirements, true);
        let found = costs(whose, 1.0)?.ok_or_else(|| Failure::Call("expected costs of ours".to_owned()))?;
        let inference = found.inference();
        let chosen = served::choose(&inference, &protect).map_err(|error| match &error {
            NotServed::Mixture { nearest: Some((nearest, _)), .. } => {
                Failure::Work(format!("{error}: --infer-enclave {} takes it", nearest.name()))
            }
            _ => Failure::Work(error.to_string()),
        })?;
        Ok(Some(Self {
            combination: chosen.combination,
            protect,
            whose: told,
            seconds: chosen.placement.seconds,
            relaxations: served::relaxations(&inference, &protect),
        }))
    }

    /// The plan as text.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = vec![
            format!("{}", self.protect),
            format!(
                "placed by {} costs: {}, {:.3} ms an image",
                self.whose,
                self.combination.name(),
                1e3 * self.seconds
            ),
        ];
        lines.extend(argument(self.seconds, &self.relaxations).into_iter().take(1));
        lines
    }

    /// The plan as JSON.
    pub(crate) fn json(&self) -> Value {
        let binds = self.relaxations.first();
        json!({
            "combination": self.combination.name(), "protect": self.protect.to_string(), "costs": self.whose, "seconds": self.seconds,
            "binds": binds.map(|way| json!({ "gives_up": way.gives_up, "seconds": way.seconds })),
        })
    }
}

/// The properties of a network that determine its costs: kinds and sizes of its stages.
fn shape(model: &Model) -> Vec<[usize; 3]> {
    let weights = |map: &Map| match map {
        Map::Dense { weights } => 2 * weights.len(),
        Map::Convolution { weights, .. } => 2 * weights.len() + 1,
    };
    model.stages().iter().map(|stage| [stage.input.len(), stage.output.len(), weights(&stage.map)]).collect()
}
