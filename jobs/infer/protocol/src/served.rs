//! A placement as a combination that an enclave can run.
//!
//! A placement makes a choice for each layer, but an enclave runs one [`Combination`] from the
//! first layer to the last: the route determines its script of messages, keys and parameters. So a
//! placement is served if one combination runs every layer in the chosen way ([`belongs`]). Any
//! other mixture is rejected; the error lists each layer, and the fastest combination that the same
//! requirements allow. Plain numbers for all layers in the process are never chosen: a job without
//! protection needs no enclave, and no route supports them.
//!
//! In every combination the enclave encrypts the image and decrypts the output: it holds both as
//! plaintext. [`Protect::plain_in_enclave`] is about the data between them.

use super::guarded::Combination;
use super::measured::belongs;
use super::placement::{self, Inference, Mode, PROCESS, Protect, Relaxation};
use tobari_plan::place::{PlaceError, Placement};

/// The chosen combination for a set of requirements.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The site and form of each step.
    pub combination: Combination,
    /// The plan that the combination runs.
    pub placement: Placement,
}

/// Why no combination is served.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NotServed {
    /// No plan satisfies the requirements.
    #[error("no plan: {0}")]
    Nowhere(#[from] PlaceError),
    /// The fastest plan is not a plan of any combination.
    #[error("expected a plan that one combination serves, found {plan} ({:.3} ms); {}", 1e3 * .seconds, told(.nearest.as_ref()))]
    Mixture {
        /// The way and site of each layer.
        plan: String,
        /// Seconds of an image.
        seconds: f64,
        /// The fastest combination that the requirements allow, and its seconds.
        nearest: Option<(Combination, f64)>,
    },
}

fn told(nearest: Option<&(Combination, f64)>) -> String {
    match nearest {
        Some((combination, seconds)) => {
            format!("the nearest that is served: {} ({:.3} ms)", combination.name(), 1e3 * seconds)
        }
        None => "no combination serves these requirements".to_owned(),
    }
}

/// The combination that runs the fastest plan.
///
/// # Errors
/// [`NotServed`].
pub fn choose(inference: &Inference<'_>, protect: &Protect) -> Result<Chosen, NotServed> {
    // no route computes on a plaintext image in the process
    let placement = inference.place_among(protect, &|_, way, site| way.mode != Mode::Plain || site != PROCESS)?;
    let done_by = |combination: &Combination| {
        let mut layers = inference.layers.iter().zip(&placement.choices);
        layers.all(|(layer, choice)| belongs(Some(*combination), layer, &layer.ways[choice.variant], choice.site))
    };
    if let Some(combination) = Combination::ALL.into_iter().find(done_by) {
        return Ok(Chosen { combination, placement });
    }
    // plans of equal cost differ by the rounding of their sums
    match fastest(inference, protect) {
        Some(served) if served.placement.seconds <= placement.seconds * (1.0 + 1e-9) => Ok(served),
        served => Err(NotServed::Mixture {
            plan: layer_by_layer(inference, &placement),
            seconds: placement.seconds,
            nearest: served.map(|served| (served.combination, served.placement.seconds)),
        }),
    }
}

/// The fastest combination that the requirements allow, with its seconds.
pub fn nearest(inference: &Inference<'_>, protect: &Protect) -> Option<(Combination, f64)> {
    fastest(inference, protect).map(|served| (served.combination, served.placement.seconds))
}

fn fastest(inference: &Inference<'_>, protect: &Protect) -> Option<Chosen> {
    let priced = Combination::ALL.into_iter().filter_map(|combination| {
        let allowed = |layer: usize, way: &_, site| belongs(Some(combination), &inference.layers[layer], way, site);
        Some(Chosen { combination, placement: inference.place_among(protect, &allowed).ok()? })
    });
    priced.min_by(|a, b| a.placement.seconds.total_cmp(&b.placement.seconds))
}

/// Requirements whose removal speeds up the served combination, largest gain first.
pub fn relaxations(inference: &Inference<'_>, protect: &Protect) -> Vec<Relaxation> {
    let now = nearest(inference, protect).map_or(f64::INFINITY, |(_, seconds)| seconds);
    let served = placement::relaxations(inference, protect).into_iter().filter_map(|way| {
        let (_, seconds) = nearest(inference, &way.protect)?;
        (seconds < now * (1.0 - 1e-9)).then_some(Relaxation { seconds, ..way })
    });
    let mut served: Vec<Relaxation> = served.collect();
    served.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    served
}

fn layer_by_layer(inference: &Inference<'_>, placement: &Placement) -> String {
    let layers = inference.layers.iter().zip(&placement.choices).map(|(layer, choice)| {
        let site = if choice.site == PROCESS { "process" } else { "enclave" };
        format!("{} {} in the {site}", layer.name, layer.ways[choice.variant].mode)
    });
    layers.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use crate::Model;
    use crate::measured::{Costs, Forms, RECORDED, RECORDED_STEPS, StageSeconds, forms};
    use crate::placement::Inside;
    use std::sync::LazyLock;
    use tobari_lattice::params::NamedSet;

    static FORMS: LazyLock<Forms> = LazyLock::new(|| {
        let [ring, masked] = ["infer-f", "infer-r"].map(|set| NamedSet::from_name(set).unwrap().parameters().unwrap());
        forms(&Model::digits().unwrap(), &ring, &masked).unwrap()
    });

    fn requirements() -> impl Iterator<Item = Protect> {
        let inside = [None, Some(Inside::No), Some(Inside::Masked), Some(Inside::Yes)];
        inside.into_iter().flat_map(|plain_in_enclave| {
            (0..32).map(move |bits: u32| Protect {
                user_data: bits & 1 != 0,
                model: bits & 2 != 0,
                integrity: bits & 4 != 0,
                side_channels: bits & 8 != 0,
                active_host: bits & 16 != 0,
                plain_in_enclave,
                enclave: true,
                key_in_enclave: true,
            })
        })
    }

    #[test]
    fn what_is_served_is_the_fastest_combination_that_the_requirements_allow() {
        let costs = Costs::new(&FORMS, &RECORDED, &RECORDED_STEPS, 1.0).unwrap();
        let inference = costs.inference();
        let mut found = std::collections::BTreeSet::new();
        for protect in requirements() {
            let (combination, seconds) = nearest(&inference, &protect).unwrap();
            let chosen = choose(&inference, &protect).unwrap();
            assert_eq!(chosen.combination, combination, "{protect}");
            assert!((chosen.placement.seconds - seconds).abs() < 1e-9, "{protect}");
            found.insert(combination.name());
        }
        assert!(found.len() >= 3, "{found:?}");
    }

    #[test]
    fn plain_data_in_the_enclave_is_a_requirement_of_its_own() {
        let costs = Costs::new(&FORMS, &RECORDED, &RECORDED_STEPS, 1.0).unwrap();
        let inference = costs.inference();
        let served = |protect: Protect| choose(&inference, &protect).unwrap().combination;
        let data = Protect { user_data: true, enclave: true, key_in_enclave: true, ..Protect::default() };
        assert_eq!(served(data), Combination::EnclavePlain, "nobody watches, and nothing else is said");
        let encrypted = [Combination::ProcessUserData, Combination::EnclaveUserData];
        let no = Protect { plain_in_enclave: Some(Inside::No), ..data };
        assert!(encrypted.contains(&served(no)), "not watched, and still not in the clear");
        let masked = Protect { plain_in_enclave: Some(Inside::Masked), ..data };
        let allowed = |combination| {
            let belongs = |layer: usize, way: &_, site| belongs(Some(combination), &inference.layers[layer], way, site);
            [no, masked, data].map(|protect| inference.place_among(&protect, &belongs).is_ok())
        };
        assert_eq!(allowed(Combination::MixedMaskedReset), [false, true, true]);
        assert_eq!(allowed(Combination::MixedPlainReset), [false, false, true]);
        let watched = Protect { side_channels: true, ..data };
        assert!(encrypted.contains(&served(watched)));
        let accepted = Protect { plain_in_enclave: Some(Inside::Yes), ..watched };
        assert_eq!(served(accepted), Combination::EnclavePlain, "watched, and accepted");
        // the model's owner did not accept the combination
        let model = Protect { model: true, ..accepted };
        assert!([Combination::ProcessBoth, Combination::EnclaveBoth].contains(&served(model)));
    }

    #[test]
    fn a_mixture_of_layers_is_refused_by_name_with_the_nearest_that_is_served() {
        // one layer that is expensive in plain numbers, before two cheap ones
        let mut seconds = RECORDED;
        seconds[0] = StageSeconds { plain: 1.0, ..seconds[0].clone() };
        seconds[1].reset = 0.5;
        seconds[2].reset = 0.5;
        let costs = Costs::new(&FORMS, &seconds, &RECORDED_STEPS, 1.0).unwrap();
        let data = Protect { user_data: true, enclave: true, key_in_enclave: true, ..Protect::default() };
        let NotServed::Mixture { plan, nearest, .. } = choose(&costs.inference(), &data).unwrap_err() else {
            panic!("a plan that is served")
        };
        assert!(plan.starts_with("conv1 user data encrypted in the process"), "{plan}");
        assert!(plan.ends_with("fc plain in the enclave"), "{plan}");
        let (combination, seconds) = nearest.unwrap();
        assert_eq!(combination, Combination::EnclaveUserData);
        assert!((0.02..0.05).contains(&seconds), "{seconds}");
        let text = choose(&costs.inference(), &data).unwrap_err().to_string();
        assert!(text.contains("the nearest that is served: enclave-user-data ("), "{text}");
    }
}
