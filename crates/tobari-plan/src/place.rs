//! Which way each stage is done, and where.
//!
//! States are (stage, variant, site); between two states lie a transfer, if the sites differ, and a conversion, if the forms do. What a site may not hold is
//! no state, and what a site cannot convert is no edge; the cheapest path through what is left is the placement (a shortest path in a layered graph,
//! `O(stages · (variants · sites)^2)`). [`Placement::check`] derives again what each site gets to see, from the job and the path alone.

use crate::segment::{Form, Job, Variant};
use crate::site::{Guard, Secrecy, Site};
use std::fmt;

/// How data changes its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Conversion {
    /// Plain to encrypted, with the public key.
    Encrypt,
    /// Encrypted to plain, with the key.
    Decrypt,
    /// Encrypted to encrypted at another level or in another layout, by way of plain.
    Reset,
}

impl fmt::Display for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Conversion::Encrypt => "encrypted",
            Conversion::Decrypt => "decrypted",
            Conversion::Reset => "reset",
        })
    }
}

impl Conversion {
    /// What leads from one form to another; none if it serves as it is, or if nothing leads there.
    fn between(from: &Form, to: &Form) -> Option<Option<Self>> {
        if from.serves(to) {
            return Some(None);
        }
        match (from, to) {
            (Form::Plain, Form::Encrypted { .. }) => Some(Some(Conversion::Encrypt)),
            (Form::Encrypted { .. }, Form::Plain) => Some(Some(Conversion::Decrypt)),
            (Form::Encrypted { .. }, Form::Encrypted { .. }) => Some(Some(Conversion::Reset)),
            _ => None,
        }
    }

    /// Whether a site can do it: what is decrypted is in the clear there.
    fn is_possible(self, job: &Job, site: &Site) -> bool {
        let plain = site.may_hold(&job.secrecy(&Form::Plain));
        match self {
            Conversion::Encrypt => plain,
            Conversion::Decrypt | Conversion::Reset => {
                plain && site.guard != Guard::Process && site.keys.contains(&job.key)
            }
        }
    }
}

/// Seconds.
pub trait PlaceCosts {
    /// Of a stage.
    fn run(&self, variant: &Variant, site: &Site) -> f64;
    /// Of a transfer.
    fn transfer(&self, bytes: u64, from: &Site, to: &Site) -> f64;
    /// Of a conversion.
    fn convert(&self, conversion: Conversion, bytes: u64, site: &Site) -> f64;
}

/// One stage as it was decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Which variant.
    pub variant: usize,
    /// Which site.
    pub site: usize,
    /// What its input is converted by, and at which site, before it runs.
    pub conversion: Option<(Conversion, usize)>,
    /// Seconds of transfer and conversion, and of the stage.
    pub seconds: [f64; 2],
}

/// A path through a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// For each stage.
    pub choices: Vec<Choice>,
    /// All of it.
    pub seconds: f64,
}

/// Why there is no placement, or why one is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// No way to do a stage anywhere.
    #[error("stage {segment} can be done nowhere: {reasons}")]
    Nowhere {
        /// The stage.
        segment: String,
        /// Why not, for each variant and site.
        reasons: String,
    },
    /// The result comes in no form that is wanted.
    #[error("expected a result that is {wanted}, found no way to one")]
    Output {
        /// What is wanted.
        wanted: String,
    },
    /// A site would get to see what it may not.
    #[error("stage {segment}: site {site} may not hold {what}, {secrecy}")]
    MayNotHold {
        /// The stage.
        segment: String,
        /// The site.
        site: String,
        /// What it would hold.
        what: String,
        /// Who may know it.
        secrecy: Secrecy,
    },
    /// Forms that do not fit one another, or a site that cannot convert.
    #[error("stage {segment}: {reason}")]
    Form {
        /// The stage.
        segment: String,
        /// What does not fit.
        reason: String,
    },
}

/// What a site would hold for a variant and may not.
fn forbidden(job: &Job, variant: &Variant, site: &Site) -> Option<(String, Secrecy)> {
    let data = [&variant.takes, &variant.gives].map(|form| (format!("data that is {form}"), job.secrecy(form)));
    data.into_iter().chain(variant.holds.iter().cloned()).find(|(_, secrecy)| !site.may_hold(secrecy))
}

/// A way to a state.
#[derive(Clone)]
struct Path {
    seconds: f64,
    before: usize,
    choice: Choice,
}

/// The cheapest placement; data comes in at site `from`.
///
/// # Errors
/// [`PlaceError`] that names the first stage that can be done nowhere, and why.
pub fn place(job: &Job, sites: &[Site], from: usize, costs: &dyn PlaceCosts) -> Result<Placement, PlaceError> {
    // of the last stage: variant and site, and the cheapest way there
    let mut layers: Vec<Vec<Path>> = Vec::new();
    for segment in &job.segments {
        let mut layer = Vec::new();
        let mut reasons = Vec::new();
        for (v, variant) in segment.variants.iter().enumerate() {
            for (s, site) in sites.iter().enumerate() {
                if let Some((what, secrecy)) = forbidden(job, variant, site) {
                    reasons.push(format!("{} at {}: it may not hold {what}, {secrecy}", variant.name, site.name));
                    continue;
                }
                let run = costs.run(variant, site);
                let arrivals = arrivals(job, &layers, from).into_iter().filter_map(|arrival| {
                    let (moved, conversion) = arrive(job, sites, &arrival, variant, s, costs)?;
                    let choice = Choice { variant: v, site: s, conversion, seconds: [moved, run] };
                    Some(Path { seconds: arrival.seconds + moved + run, before: arrival.path, choice })
                });
                match arrivals.min_by(|a, b| a.seconds.total_cmp(&b.seconds)) {
                    Some(path) => layer.push(path),
                    None => reasons.push(format!("{} at {}: nothing leads there", variant.name, site.name)),
                }
            }
        }
        if layer.is_empty() {
            return Err(PlaceError::Nowhere { segment: segment.name.clone(), reasons: reasons.join("; ") });
        }
        layers.push(layer);
    }
    end(job, &layers)
}

/// Data that a stage can start from.
struct Arrival {
    path: usize,
    seconds: f64,
    site: usize,
    form: Form,
    bytes: u64,
}

fn arrivals(job: &Job, layers: &[Vec<Path>], from: usize) -> Vec<Arrival> {
    let Some(last) = layers.last() else {
        let (form, bytes) = job.input.clone();
        return vec![Arrival { path: 0, seconds: 0.0, site: from, form, bytes }];
    };
    let variants = &job.segments[layers.len() - 1].variants;
    let arrival = |(path, way): (usize, &Path)| {
        let Variant { gives, bytes, .. } = &variants[way.choice.variant];
        Arrival { path, seconds: way.seconds, site: way.choice.site, form: gives.clone(), bytes: bytes[1] }
    };
    last.iter().enumerate().map(arrival).collect()
}

type Arrived = (f64, Option<(Conversion, usize)>);

/// Seconds until data is where a variant runs, in its form; none if it cannot get there.
fn arrive(
    job: &Job,
    sites: &[Site],
    arrival: &Arrival,
    variant: &Variant,
    site: usize,
    costs: &dyn PlaceCosts,
) -> Option<Arrived> {
    let Arrival { site: at, form, bytes, .. } = arrival;
    let Some(conversion) = Conversion::between(form, &variant.takes)? else {
        let moved = if *at == site { 0.0 } else { costs.transfer(*bytes, &sites[*at], &sites[site]) };
        return sites[site].may_hold(&job.secrecy(form)).then_some((moved, None));
    };
    // where it is converted: anywhere that can
    let ways = (0..sites.len()).filter(|at| conversion.is_possible(job, &sites[*at])).map(|by| {
        let there = if *at == by { 0.0 } else { costs.transfer(*bytes, &sites[*at], &sites[by]) };
        let back = if by == site { 0.0 } else { costs.transfer(variant.bytes[0], &sites[by], &sites[site]) };
        (there + costs.convert(conversion, *bytes, &sites[by]) + back, Some((conversion, by)))
    });
    ways.min_by(|a, b| a.0.total_cmp(&b.0))
}

fn end(job: &Job, layers: &[Vec<Path>]) -> Result<Placement, PlaceError> {
    let wanted =
        || PlaceError::Output { wanted: job.outputs.iter().map(Form::to_string).collect::<Vec<_>>().join(" or ") };
    let (last, segment) = layers.last().zip(job.segments.last()).ok_or_else(wanted)?;
    let fits = |path: &&Path| {
        let gives = &segment.variants[path.choice.variant].gives;
        job.outputs.iter().any(|output| gives.serves(output))
    };
    let best = last.iter().filter(fits).min_by(|a, b| a.seconds.total_cmp(&b.seconds)).ok_or_else(wanted)?;
    let (mut path, mut choices) = (best, vec![best.choice.clone()]);
    for layer in layers[..layers.len() - 1].iter().rev() {
        path = &layer[path.before];
        choices.push(path.choice.clone());
    }
    choices.reverse();
    Ok(Placement { choices, seconds: best.seconds })
}

impl Placement {
    /// Follows a placement, whoever made it.
    ///
    /// # Errors
    /// [`PlaceError`], the first that is found.
    pub fn check(&self, job: &Job, sites: &[Site]) -> Result<(), PlaceError> {
        let wrong = |segment: &str, reason: String| PlaceError::Form { segment: segment.to_owned(), reason };
        if self.choices.len() != job.segments.len() {
            let reason = format!("expected {} choices, found {}", job.segments.len(), self.choices.len());
            return Err(wrong("all", reason));
        }
        let mut form = job.input.0.clone();
        for (segment, choice) in job.segments.iter().zip(&self.choices) {
            let variant = segment.variants.get(choice.variant);
            let (Some(variant), Some(site)) = (variant, sites.get(choice.site)) else {
                return Err(wrong(&segment.name, "there is no such variant or site".to_owned()));
            };
            if let Some((what, secrecy)) = forbidden(job, variant, site) {
                let (segment, site) = (segment.name.clone(), site.name.clone());
                return Err(PlaceError::MayNotHold { segment, site, what, secrecy });
            }
            let done = choice.conversion.map(|(conversion, _)| conversion);
            if Conversion::between(&form, &variant.takes) != Some(done) {
                let reason = format!("expected data that is {}, found {form}, {done:?}", variant.takes);
                return Err(wrong(&segment.name, reason));
            }
            if let Some((conversion, by)) = choice.conversion
                && !sites.get(by).is_some_and(|site| conversion.is_possible(job, site))
            {
                return Err(wrong(&segment.name, format!("site {by} cannot have it {conversion}")));
            }
            form = variant.gives.clone();
        }
        if job.outputs.iter().any(|output| form.serves(output)) {
            return Ok(());
        }
        Err(wrong("all", format!("the result is {form}")))
    }

    /// The placement as text for people.
    pub fn explain(&self, job: &Job, sites: &[Site]) -> String {
        let mut text = String::new();
        for (segment, choice) in job.segments.iter().zip(&self.choices) {
            if let Some((conversion, by)) = choice.conversion {
                text += &format!("  data is {conversion} at {}\n", sites[by].name);
            }
            let (variant, [moved, run]) = (&segment.variants[choice.variant], choice.seconds);
            let times = format!("{:.3} ms, {:.3} ms to get there", 1e3 * run, 1e3 * moved);
            text += &format!("{}: {} at {}: {times}\n", segment.name, variant.name, sites[choice.site].name);
        }
        text + &format!("together {:.3} ms\n", 1e3 * self.seconds)
    }
}
