//! Placement: how each stage runs, and at which site.
//!
//! States are (stage, variant, site). Between two states there is a transfer, if the sites differ,
//! and a conversion, if the forms differ. A state is left out if its site must not hold the data;
//! an edge is left out if no site can convert. The cheapest path through the rest is the placement
//! (a shortest path in a layered graph, `O(stages · (variants · sites)^2)`). [`Placement::check`]
//! derives once more, from the job and the path alone, what each site sees.

use crate::segment::{Form, Job, Segment, Variant};
use crate::site::{Guard, Secrecy, Site};
use std::fmt;

/// A change of form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Conversion {
    /// Plain to encrypted, with the public key.
    Encrypt,
    /// Encrypted to plain, with the key.
    Decrypt,
    /// Encrypted to encrypted at another level or in another layout, by decrypting and encrypting.
    Reset,
    /// Encrypted to encrypted at another level, by a sum with a mask that the decrypting site does
    /// not know.
    MaskedReset,
    /// Encrypted to the form that only the owner of the data can read: the end of a job.
    Release,
}

impl fmt::Display for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Conversion::Encrypt => "encrypted",
            Conversion::Decrypt => "decrypted",
            Conversion::Reset => "reset",
            Conversion::MaskedReset => "reset under a mask",
            Conversion::Release => "released",
        })
    }
}

impl Conversion {
    /// Conversions from one form to another: an empty list if there are none, and `None` in the
    /// list if no conversion is needed.
    fn between(job: &Job, from: &Form, to: &Form) -> Vec<Option<Self>> {
        if from.serves(to) {
            return vec![None];
        }
        match (from, to) {
            (Form::Plain, Form::Encrypted { .. }) => vec![Some(Conversion::Encrypt)],
            (Form::Encrypted { .. }, Form::Plain) => vec![Some(Conversion::Decrypt)],
            (Form::Encrypted { level, layout }, Form::Encrypted { layout: wanted, .. }) => {
                // a mask keeps its slots, so the layout must stay the same
                let masked = layout == wanted && job.masked_level.is_some_and(|least| *level >= least);
                let reset = [Some(Conversion::Reset), masked.then_some(Conversion::MaskedReset)];
                reset.into_iter().flatten().map(Some).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether a site can do it. A decrypted value is in plaintext there, unless it is masked or on
    /// its way to its owner.
    fn is_possible(self, job: &Job, site: &Site) -> bool {
        let plain = site.may_hold(&job.secrecy(&Form::Plain));
        let guarded = site.guard != Guard::Process && site.keys.contains(&job.key);
        match self {
            Conversion::Encrypt => plain && (site.guard != Guard::Process || !job.integrity),
            Conversion::Decrypt | Conversion::Reset => plain && guarded,
            Conversion::MaskedReset | Conversion::Release => guarded,
        }
    }
}

/// Costs of a placement, in seconds.
pub trait PlaceCosts {
    /// Until the job's data exists in one of its forms, for a first stage at this site. The
    /// transfer from the site where the data arrives is not included.
    fn enter(&self, _: Data<'_>, _: &Site) -> f64 {
        0.0
    }
    /// To run a stage.
    fn run(&self, segment: &Segment, variant: &Variant, site: &Site) -> f64;
    /// To transfer data.
    fn transfer(&self, data: Data<'_>, from: &Site, to: &Site) -> f64;
    /// To convert data; released data has no form afterwards.
    fn convert(&self, conversion: Conversion, from: Data<'_>, to: Option<Data<'_>>, site: &Site) -> f64;
}

/// Data between two stages.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a> {
    /// Its form.
    pub form: &'a Form,
    /// Its bytes.
    pub bytes: u64,
}

/// The decision for one stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The index of the variant.
    pub variant: usize,
    /// The index of the site.
    pub site: usize,
    /// The conversion of its input before it runs, and the site of the conversion.
    pub conversion: Option<(Conversion, usize)>,
    /// Seconds of transfer and conversion, for the first stage including [`PlaceCosts::enter`];
    /// then seconds of the stage itself.
    pub seconds: [f64; 2],
}

/// A path through a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The index of the input form.
    pub input: usize,
    /// One choice for each stage.
    pub choices: Vec<Choice>,
    /// The conversion of the result after the last stage, its site, and the seconds of both the
    /// conversion and the transfer there.
    pub release: Option<(Conversion, usize, f64)>,
    /// Seconds in all.
    pub seconds: f64,
}

/// Why there is no placement, or why one is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// A stage has no possible variant at any site.
    #[error("stage {segment} can be done nowhere: {reasons}")]
    Nowhere {
        /// The stage.
        segment: String,
        /// Why not, for each variant and site.
        reasons: String,
    },
    /// No wanted form of the result can be reached.
    #[error("expected a result that is {wanted}, found no way to one")]
    Output {
        /// The wanted forms.
        wanted: String,
    },
    /// A site would see data that it must not hold.
    #[error("stage {segment}: site {site} may not hold {what}, {secrecy}")]
    MayNotHold {
        /// The stage.
        segment: String,
        /// The site.
        site: String,
        /// The data that it would hold.
        what: String,
        /// Who may know it.
        secrecy: Secrecy,
    },
    /// A result that cannot be trusted, or a secret that an active site could obtain.
    #[error("stage {segment}: {variant} at {site}: {reason}")]
    Untrusted {
        /// The stage.
        segment: String,
        /// The variant.
        variant: String,
        /// The site.
        site: String,
        /// What could go wrong there.
        reason: &'static str,
    },
    /// Forms that do not match, or a site that cannot convert.
    #[error("stage {segment}: {reason}")]
    Form {
        /// The stage.
        segment: String,
        /// The mismatch.
        reason: String,
    },
}

/// Why a variant must not run at a site.
fn forbidden(job: &Job, segment: &str, variant: &Variant, site: &Site) -> Option<PlaceError> {
    let segment = segment.to_owned();
    let data = [&variant.takes, &variant.gives].map(|form| (format!("data that is {form}"), job.secrecy(form)));
    let held = data.into_iter().chain(variant.holds.iter().cloned()).find(|(_, secrecy)| !site.may_hold(secrecy));
    if let Some((what, secrecy)) = held {
        return Some(PlaceError::MayNotHold { segment, site: site.name.clone(), what, secrecy });
    }
    let reason = match site.guard {
        Guard::Process if job.integrity && !variant.trust.checked => "nothing tells whether its result is right",
        Guard::Process if job.active && variant.trust.passive_only => {
            "a site that does other than it was told could have what it holds decrypted"
        }
        _ => return None,
    };
    Some(PlaceError::Untrusted { segment, variant: variant.name.clone(), site: site.name.clone(), reason })
}

/// A path to a state.
#[derive(Clone)]
struct Path {
    seconds: f64,
    before: usize,
    choice: Choice,
}

/// The cheapest placement, if the data arrives at site `from`.
///
/// # Errors
/// [`PlaceError`] with the first stage that can run nowhere, and the reasons.
pub fn place(job: &Job, sites: &[Site], from: usize, costs: &dyn PlaceCosts) -> Result<Placement, PlaceError> {
    // for the last stage: variant and site, and the cheapest path to it
    let mut layers: Vec<Vec<Path>> = Vec::new();
    for segment in &job.segments {
        let mut layer = Vec::new();
        let mut reasons = Vec::new();
        for (v, variant) in segment.variants.iter().enumerate() {
            for (s, site) in sites.iter().enumerate() {
                if let Some(refused) = forbidden(job, &segment.name, variant, site) {
                    reasons.push(reason(&refused, variant, site));
                    continue;
                }
                let run = costs.run(segment, variant, site);
                let arrivals = arrivals(job, &layers, from).into_iter().filter_map(|arrival| {
                    let (moved, conversion) = arrive(job, sites, &arrival, variant, s, costs)?;
                    let comes = Data { form: &arrival.form, bytes: arrival.bytes };
                    let moved = if layers.is_empty() { moved + costs.enter(comes, site) } else { moved };
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
    end(job, sites, &layers, costs)
}

fn reason(refused: &PlaceError, variant: &Variant, site: &Site) -> String {
    match refused {
        PlaceError::MayNotHold { what, secrecy, .. } => {
            format!("{} at {}: it may not hold {what}, {secrecy}", variant.name, site.name)
        }
        PlaceError::Untrusted { reason, .. } => format!("{} at {}: {reason}", variant.name, site.name),
        other => other.to_string(),
    }
}

/// Data from which a stage can start.
struct Arrival {
    path: usize,
    seconds: f64,
    site: usize,
    form: Form,
    bytes: u64,
}

fn arrivals(job: &Job, layers: &[Vec<Path>], from: usize) -> Vec<Arrival> {
    let Some(last) = layers.last() else {
        let arrival = |(path, (form, bytes)): (usize, &(Form, u64))| Arrival {
            path,
            seconds: 0.0,
            site: from,
            form: form.clone(),
            bytes: *bytes,
        };
        return job.inputs.iter().enumerate().map(arrival).collect();
    };
    let variants = &job.segments[layers.len() - 1].variants;
    let arrival = |(path, way): (usize, &Path)| {
        let Variant { gives, bytes, .. } = &variants[way.choice.variant];
        Arrival { path, seconds: way.seconds, site: way.choice.site, form: gives.clone(), bytes: bytes[1] }
    };
    last.iter().enumerate().map(arrival).collect()
}

type Arrived = (f64, Option<(Conversion, usize)>);

/// Seconds until the data is at the site of a variant and in its form; `None` if that is
/// impossible.
fn arrive(
    job: &Job,
    sites: &[Site],
    arrival: &Arrival,
    variant: &Variant,
    site: usize,
    costs: &dyn PlaceCosts,
) -> Option<Arrived> {
    let Arrival { site: at, form, bytes, .. } = arrival;
    let transfer = |data: Data<'_>, from: usize, to: usize| match from == to {
        true => 0.0,
        false => costs.transfer(data, &sites[from], &sites[to]),
    };
    let (comes, taken) = (Data { form, bytes: *bytes }, Data { form: &variant.takes, bytes: variant.bytes[0] });
    let ways = Conversion::between(job, form, &variant.takes).into_iter().flat_map(|conversion| match conversion {
        None if sites[site].may_hold(&job.secrecy(form)) => vec![(transfer(comes, *at, site), None)],
        None => Vec::new(),
        // the conversion may be at any site that is able to do it
        Some(conversion) => {
            let able = (0..sites.len()).filter(|by| conversion.is_possible(job, &sites[*by]));
            let way = |by: usize| {
                let moved = transfer(comes, *at, by) + transfer(taken, by, site);
                (moved + costs.convert(conversion, comes, Some(taken), &sites[by]), Some((conversion, by)))
            };
            able.map(way).collect()
        }
    });
    ways.min_by(|a, b| a.0.total_cmp(&b.0))
}

/// Seconds until the result has a wanted form, and the conversion for it.
fn release(
    job: &Job,
    sites: &[Site],
    data: Data<'_>,
    at: usize,
    costs: &dyn PlaceCosts,
) -> Option<Option<(Conversion, usize, f64)>> {
    let form = data.form;
    if job.outputs.iter().any(|output| form.serves(output)) {
        return Some(None);
    }
    let wanted = matches!(form, Form::Encrypted { .. }) && job.outputs.contains(&Form::Plain);
    let able = (0..sites.len()).filter(|by| wanted && Conversion::Release.is_possible(job, &sites[*by]));
    let way = |by: usize| {
        let moved = if by == at { 0.0 } else { costs.transfer(data, &sites[at], &sites[by]) };
        (Conversion::Release, by, moved + costs.convert(Conversion::Release, data, None, &sites[by]))
    };
    able.map(way).min_by(|a, b| a.2.total_cmp(&b.2)).map(Some)
}

fn end(job: &Job, sites: &[Site], layers: &[Vec<Path>], costs: &dyn PlaceCosts) -> Result<Placement, PlaceError> {
    let wanted =
        || PlaceError::Output { wanted: job.outputs.iter().map(Form::to_string).collect::<Vec<_>>().join(" or ") };
    let (last, segment) = layers.last().zip(job.segments.last()).ok_or_else(wanted)?;
    let whole = |path: &&Path| {
        let Path { choice, seconds, .. } = *path;
        let Variant { gives, bytes, .. } = &segment.variants[choice.variant];
        let release = release(job, sites, Data { form: gives, bytes: bytes[1] }, choice.site, costs)?;
        Some((release, seconds + release.map_or(0.0, |(_, _, seconds)| seconds)))
    };
    let ways = last.iter().filter_map(|path| Some((path, whole(&path)?)));
    let (best, (release, seconds)) = ways.min_by(|a, b| a.1.1.total_cmp(&b.1.1)).ok_or_else(wanted)?;
    let (mut path, mut choices) = (best, vec![best.choice.clone()]);
    for layer in layers[..layers.len() - 1].iter().rev() {
        path = &layer[path.before];
        choices.push(path.choice.clone());
    }
    choices.reverse();
    Ok(Placement { input: path.before, choices, release, seconds })
}

impl Placement {
    /// Checks a placement from any source.
    ///
    /// # Errors
    /// The first [`PlaceError`] that is found.
    pub fn check(&self, job: &Job, sites: &[Site]) -> Result<(), PlaceError> {
        let wrong = |segment: &str, reason: String| PlaceError::Form { segment: segment.to_owned(), reason };
        if self.choices.len() != job.segments.len() {
            let reason = format!("expected {} choices, found {}", job.segments.len(), self.choices.len());
            return Err(wrong("all", reason));
        }
        let Some((mut form, _)) = job.inputs.get(self.input).cloned() else {
            return Err(wrong("all", format!("expected one of {} inputs, found {}", job.inputs.len(), self.input)));
        };
        for (segment, choice) in job.segments.iter().zip(&self.choices) {
            let variant = segment.variants.get(choice.variant);
            let (Some(variant), Some(site)) = (variant, sites.get(choice.site)) else {
                return Err(wrong(&segment.name, "there is no such variant or site".to_owned()));
            };
            if let Some(refused) = forbidden(job, &segment.name, variant, site) {
                return Err(refused);
            }
            let done = choice.conversion.map(|(conversion, _)| conversion);
            if !Conversion::between(job, &form, &variant.takes).contains(&done) {
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
        let released = matches!(form, Form::Encrypted { .. }) && job.outputs.contains(&Form::Plain);
        match self.release {
            None if job.outputs.iter().any(|output| form.serves(output)) => Ok(()),
            Some((Conversion::Release, by, _)) if released => {
                let able = sites.get(by).is_some_and(|site| Conversion::Release.is_possible(job, site));
                able.then_some(()).ok_or_else(|| wrong("all", format!("site {by} cannot release the result")))
            }
            _ => Err(wrong("all", format!("the result is {form}"))),
        }
    }

    /// The placement as readable text.
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
        if let Some((conversion, by, seconds)) = self.release {
            text += &format!("the result is {conversion} at {}: {:.3} ms\n", sites[by].name, 1e3 * seconds);
        }
        text + &format!("together {:.3} ms\n", 1e3 * self.seconds)
    }
}
