//! The grid: every policy in turn on the same messages, and what each row has to say of how it was measured.

use super::super::line::{Line, summary};
use super::SealBench;
use super::engines::{Bed, Setup};
use super::figures;
use crate::output::{self, Failure};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use tobari_plan::dispatch::Policy;

/// The paper's sizes.
const SIZES: [usize; 8] = [8, 16, 64, 256, 1024, 4096, 8192, 16_384];
/// Those of its figure 11.
const NEAR_THE_CROSSING: [usize; 5] = [1500, 2000, 2500, 3000, 3500];
/// Rounds go on until they have taken so long for each policy, but are never more than so many: a millisecond's median of five says little.
const ENOUGH_MS: f64 = 150.0;
const MOST_RUNS: u16 = 41;
/// The same where others want the core: what a run takes are then some of the scheduler's rounds, each of as many slices as there are threads, and the
/// median of five runs is chance.
const ENOUGH_BESIDE_OTHERS_MS: f64 = 1500.0;
/// What stands for a mixture of sizes, where a size would.
pub(super) const MIXED: usize = 0;

/// What a figure is of.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub(super) struct Params {
    pub(super) policy: String,
    /// 0: mixed sizes.
    pub(super) bytes: usize,
    pub(super) files: usize,
    pub(super) key_bits: usize,
    /// The module's speed in that of one chain of encryption on the CPU, as asked for.
    pub(super) engine_speed: f64,
    pub(super) cpu: String,
    /// Part of the CPU's core that somebody else wants.
    pub(super) load: f64,
    pub(super) batch: u32,
    pub(super) copy: bool,
    /// Bytes in a second of one chain.
    pub(super) one_chain_mb_s: f64,
    pub(super) doorbell_ns: f64,
    pub(super) added_delay_ns: f64,
    /// None where somebody else computes in this process, too.
    pub(super) cpu_ms: Option<f64>,
    pub(super) by_module: u64,
}

/// A figure: its line, and the setup.
pub(super) struct Row {
    pub(super) setup: Setup,
    pub(super) line: Line<Params>,
    /// Of `best`: the time of the policy that the other half of the rounds chose, over its own. Of several policies that are equal the least of all times is the
    /// luckiest one's; this is not.
    pub(super) to_chosen: Option<f64>,
}

impl Row {
    pub(super) fn policy(&self) -> &str {
        &self.line.params.policy
    }

    pub(super) fn bytes(&self) -> usize {
        self.line.params.bytes
    }
}

/// Which group of rows: a setup, and its sizes.
struct Part {
    setup: Setup,
    sizes: Vec<usize>,
    policies: Vec<Policy>,
}

/// Everything that is measured.
fn parts(quick: bool) -> Vec<Part> {
    let paper = Setup::PAPER;
    let all = |setup: Setup, sizes: &[usize]| Part { setup, sizes: sizes.to_vec(), policies: Policy::ALL.to_vec() };
    if quick {
        let sizes = [64, 1024, 16_384];
        let few = |setup: Setup| Part {
            setup,
            sizes: vec![16_384],
            policies: vec![Policy::Cpu, Policy::Queue, Policy::Best],
        };
        return vec![
            all(paper, &sizes),
            few(Setup { encrypts: false, ..paper }),
            few(Setup { others: 1, ..paper }),
            few(Setup { batch: 1, direct: false, ..paper }),
            Part { sizes: vec![MIXED], ..few(paper) },
        ];
    }
    let mut parts = Vec::new();
    for key_bytes in [16, 24, 32] {
        for encrypts in [true, false] {
            for speed in [1.6, 0.5, 4.0] {
                parts.push(all(Setup { key_bytes, encrypts, speed, ..paper }, &SIZES));
            }
        }
    }
    parts.push(all(paper, &NEAR_THE_CROSSING));
    parts.push(all(paper, &[MIXED]));
    // The CPU at its best, and a module of half of that: what one core does side by side is about eight chains.
    parts.push(all(Setup { speed: 2.0, lanes: None, ..paper }, &SIZES));
    for others in [1, 9] {
        parts.push(all(Setup { others, ..paper }, &[256, 1024, 4096, 16_384]));
    }
    for batch in [1, 2, 4, 8, 16, 32] {
        parts.push(all(Setup { batch, ..paper }, &SIZES));
    }
    parts.push(all(Setup { direct: false, ..paper }, &SIZES));
    parts
}

pub(super) fn run(arguments: &SealBench) -> Result<ExitCode, Failure> {
    let mut parts = if arguments.paper { parts(arguments.quick) } else { short(arguments.quick) };
    let chosen = &arguments.policies;
    if !chosen.is_empty() {
        parts.iter_mut().for_each(|part| part.policies.retain(|policy| chosen.contains(policy)));
    }
    let (mut rows, all) = (Vec::new(), parts.len());
    for (at, part) in parts.into_iter().enumerate() {
        let (bits, way) = (8 * part.setup.key_bytes, if part.setup.encrypts { "encryption" } else { "decryption" });
        output::status(&format!("{} of {all}: AES-{bits}, {way}, engine {}", at + 1, part.setup.speed));
        rows.extend(measure(&part, arguments)?);
    }
    output::status("");
    if arguments.json {
        for row in &rows {
            output::json(&row.line)?;
        }
    }
    figures::report(arguments, &rows)?;
    Ok(ExitCode::SUCCESS)
}

/// Without the paper: the policies at its setup.
fn short(quick: bool) -> Vec<Part> {
    let sizes: &[usize] = if quick { &[64, 16_384] } else { &SIZES };
    vec![Part { setup: Setup::PAPER, sizes: sizes.to_vec(), policies: Policy::ALL.to_vec() }]
}

/// Lengths of all messages of a row.
fn lengths(bytes: usize, files: u32) -> Vec<usize> {
    if bytes != MIXED {
        return vec![bytes; files as usize];
    }
    let mut state = 1_u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // As many of each power of two from 8 to 16,384, in no order.
        8 << ((state >> 16) % 12)
    };
    (0..files).map(next).collect()
}

/// All policies in turn, round after round, in orders that change.
fn measure(part: &Part, arguments: &SealBench) -> Result<Vec<Row>, Failure> {
    let (bed, mut rows) = (Bed::new(part.setup)?, Vec::new());
    for bytes in &part.sizes {
        let sizes = lengths(*bytes, arguments.files);
        let mut runs: Vec<Vec<super::engines::Measured>> = part.policies.iter().map(|_| Vec::new()).collect();
        for policy in &part.policies {
            bed.run(*policy, &sizes[..sizes.len().min(400)], true)?;
        }
        let enough_ms = if part.setup.others == 0 { ENOUGH_MS } else { ENOUGH_BESIDE_OTHERS_MS };
        let mut spent_ms = 0.0;
        for round in 0..MOST_RUNS.max(arguments.runs) {
            if round >= arguments.runs && spent_ms > enough_ms * part.policies.len() as f64 {
                break;
            }
            // Another one first each time, there and back: what a run leaves behind for the next must not always meet the same policy.
            let all = part.policies.len();
            for turn in 0..all {
                let turn = if round % 2 == 0 { turn } else { all - 1 - turn };
                let at = (usize::from(round / 2) + turn) % all;
                let run = bed.run(part.policies[at], &sizes, false)?;
                spent_ms += run.ms;
                runs[at].push(run);
            }
        }
        let chosen = to_chosen(&part.policies, &runs);
        for (policy, runs) in part.policies.iter().zip(runs) {
            let to_chosen = chosen.filter(|_| *policy == Policy::Best);
            rows.push(Row { setup: part.setup, line: line(&bed, *policy, *bytes, &sizes, &runs), to_chosen });
        }
    }
    Ok(rows)
}

/// Each half of the rounds chooses the fastest other policy, by its median, for the other half to compare `best` with; the mean of both.
fn to_chosen(policies: &[Policy], runs: &[Vec<super::engines::Measured>]) -> Option<f64> {
    let median = |at: usize, half: usize| {
        let times: Vec<f64> = runs[at].iter().skip(half).step_by(2).map(|run| run.ms).collect();
        (!times.is_empty()).then(|| summary(times).0)
    };
    let best = policies.iter().position(|policy| *policy == Policy::Best)?;
    let ratio = |half: usize| {
        let others = (0..policies.len()).filter(|at| *at != best);
        let chosen = others.filter_map(|at| Some((median(at, 1 - half)?, at))).min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(median(chosen.1, half)? / median(best, half)?)
    };
    Some((ratio(0)? * ratio(1)?).sqrt())
}

fn line(bed: &Bed, policy: Policy, bytes: usize, sizes: &[usize], runs: &[super::engines::Measured]) -> Line<Params> {
    let (setup, (median, min, max)) = (bed.setup, summary(runs.iter().map(|run| run.ms).collect()));
    let middle = |of: fn(&super::engines::Measured) -> f64| summary(runs.iter().map(of).collect()).0;
    let params = Params {
        policy: policy.name().to_owned(),
        bytes,
        files: sizes.len(),
        key_bits: 8 * setup.key_bytes,
        engine_speed: setup.speed,
        cpu: if setup.lanes == Some(1) { "one chain" } else { "side by side" }.to_owned(),
        load: setup.others as f64 / (1.0 + setup.others as f64),
        batch: setup.batch,
        copy: !setup.direct,
        one_chain_mb_s: (bed.one_chain * 1e3).round(),
        doorbell_ns: bed.doorbell_ns.round(),
        added_delay_ns: 0.0,
        // Whoever else wanted the core is a thread of this process.
        cpu_ms: (setup.others == 0).then(|| middle(|run| run.cpu_ms)),
        by_module: middle(|run| run.by_module as f64) as u64,
    };
    let label = |text: &str| text.to_owned();
    let copy = if setup.direct { "no copies by the CPU" } else { "copied twice by the CPU" };
    Line {
        job: label("seal"),
        what: label(if setup.encrypts { "encrypt" } else { "decrypt" }),
        engine: label("tobari"),
        params,
        backend: tobari_core::simd::aes::AesKernels::best().name.to_owned(),
        threads: 1,
        unit: label("ms"),
        median,
        min,
        max,
        runs: runs.len(),
        labels: vec![label("emulated-module"), label("cpu on core 0, module on core 1"), label(copy)],
    }
}

#[cfg(test)]
mod tests {
    use super::super::engines::Measured;
    use super::*;

    #[test]
    fn the_policy_to_compare_with_is_chosen_by_the_other_half_of_the_rounds() {
        let times =
            |ms: [f64; 4]| ms.map(|ms| Measured { ms, cpu_ms: 0.0, by_module: 0 }).into_iter().collect::<Vec<_>>();
        let policies = [Policy::Cpu, Policy::Queue, Policy::Best];
        // each of the others is lucky in one half, by which the other half must not judge
        let runs = [times([2.0, 4.0, 2.0, 4.0]), times([4.0, 2.0, 4.0, 2.0]), times([4.0, 4.0, 4.0, 4.0])];
        assert_eq!(to_chosen(&policies, &runs), Some(1.0));
        let runs = [times([2.0; 4]), times([3.0; 4]), times([4.0; 4])];
        assert_eq!(to_chosen(&policies, &runs), Some(0.5));
        assert_eq!(to_chosen(&policies[..2], &runs[..2]), None, "without the one that is compared");
    }
}
