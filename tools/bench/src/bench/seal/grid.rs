//! The grid: every policy in turn on the same messages, and the labels of each row.

use super::super::line::{Line, summary};
use super::SealBench;
use super::engines::{Bed, Measured, Setup};
use super::figures;
use chacha20::{
    ChaCha20Rng,
    rand_core::{Rng, SeedableRng},
};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use tobari_command::output::{self, Failure};
use tobari_plan::dispatch::Policy;

/// The paper's sizes.
const SIZES: [usize; 8] = [8, 16, 64, 256, 1024, 4096, 8192, 16_384];
/// The sizes of the paper's figure 11.
const NEAR_THE_CROSSING: [usize; 5] = [1500, 2000, 2500, 3000, 3500];
/// Rounds continue until they have taken this time for each policy, up to a maximum: the median of
/// five runs of a millisecond says little.
const ENOUGH_MS: f64 = 150.0;
const MOST_RUNS: u16 = 41;
/// The same with competing threads. A run then takes some rounds of the scheduler, each with as
/// many slices as threads, so the median of five runs is random.
const ENOUGH_BESIDE_OTHERS_MS: f64 = 1500.0;
/// If a row then does not decide whether `best` is behind, it continues with the policies that may
/// be the fastest: up to this many times, each twice as long.
const DOUBLED: u32 = 3;
/// The number of policies that continue, `best` included.
const CONTENDERS: usize = 3;
/// The target of `best`, relative to the speed of the fastest other policy.
pub(super) const WANTED: f64 = 0.98;
/// Samples of the rounds, drawn with replacement, for the interval of a ratio.
const RESAMPLES: usize = 200;
/// The value that stands for a mixture of sizes.
pub(super) const MIXED: usize = 0;

/// The parameters of a figure.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub(super) struct Params {
    pub(super) policy: String,
    /// The size; 0 for mixed sizes.
    pub(super) bytes: usize,
    pub(super) files: usize,
    pub(super) key_bits: usize,
    /// The configured speed of the module, relative to one chain of encryption on the CPU.
    pub(super) engine_speed: f64,
    pub(super) cpu: String,
    /// The part of the CPU's core that competing threads want.
    pub(super) load: f64,
    pub(super) batch: u32,
    pub(super) copy: bool,
    /// The speed of one chain, in megabytes a second.
    pub(super) one_chain_mb_s: f64,
    pub(super) doorbell_ns: f64,
    pub(super) added_delay_ns: f64,
    /// None with competing threads, because they are in this process, too.
    pub(super) cpu_ms: Option<f64>,
    pub(super) by_module: u64,
}

/// A figure: its line and its setup.
pub(super) struct Row {
    pub(super) setup: Setup,
    pub(super) line: Line<Params>,
    /// Mean of all runs in ms.
    pub(super) mean: f64,
    /// The comparison, for `best`.
    pub(super) to_chosen: Option<Compared>,
}

/// The time of the policy that the other half of the rounds chose, over the time of `best`. Among
/// equal policies the least time would be a matter of luck; this ratio is not. Times are medians,
/// or means with competing threads: a run then takes one more slice of the scheduler or not, and
/// the median of two humps is random.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Compared {
    pub(super) ratio: f64,
    /// The interval of the ratio with 90 % confidence, by the bootstrap.
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Compared {
    /// Whether the interval contains [`WANTED`], so that the row is undecided.
    pub(super) fn is_open(&self) -> bool {
        self.low < WANTED && self.high >= WANTED
    }
}

impl Row {
    pub(super) fn policy(&self) -> &str {
        &self.line.params.policy
    }

    pub(super) fn bytes(&self) -> usize {
        self.line.params.bytes
    }
}

/// A group of rows: a setup and its sizes.
struct Part {
    setup: Setup,
    sizes: Vec<usize>,
    policies: Vec<Policy>,
}

/// All groups of rows.
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
    // The CPU with its fastest number of chains side by side (about eight), and a module with twice
    // the speed of one chain.
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
    if let Some(text) = &arguments.setup {
        parts.retain(|part| part.setup.to_string().contains(text));
    }
    let chosen = &arguments.policies;
    if !chosen.is_empty() {
        parts.iter_mut().for_each(|part| part.policies.retain(|policy| chosen.contains(policy)));
    }
    let (mut rows, all) = (Vec::new(), parts.len());
    for (at, part) in parts.into_iter().enumerate() {
        output::status(&format!("{} of {all}: {:.40}", at + 1, part.setup.to_string()));
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

/// The default without `--paper`: the policies at the paper's setup.
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
        // Equally many of each power of two from 8 to 16,384, in random order.
        8 << ((state >> 16) % 12)
    };
    (0..files).map(next).collect()
}

/// Measures all policies in turn, round after round, in changing orders.
fn measure(part: &Part, arguments: &SealBench) -> Result<Vec<Row>, Failure> {
    let (bed, mut rows) = (Bed::new(part.setup)?, Vec::new());
    for bytes in &part.sizes {
        let sizes = lengths(*bytes, arguments.files);
        let mut runs: Vec<Vec<Measured>> = part.policies.iter().map(|_| Vec::new()).collect();
        for policy in &part.policies {
            bed.run(*policy, &sizes[..sizes.len().min(400)], true)?;
        }
        let beside_others = part.setup.others > 0;
        let mut enough_ms = if beside_others { ENOUGH_BESIDE_OTHERS_MS } else { ENOUGH_MS };
        let (mut most, mut doubled, mut spent_ms, mut round) = (MOST_RUNS.max(arguments.runs), 0, 0.0, 0);
        let mut taking_part: Vec<usize> = (0..part.policies.len()).collect();
        let chosen = loop {
            if round >= most || round >= arguments.runs && spent_ms > enough_ms * taking_part.len() as f64 {
                let chosen = to_chosen(&part.policies, &runs, beside_others);
                if doubled == DOUBLED || arguments.quick || !chosen.is_some_and(|chosen| chosen.is_open()) {
                    break chosen;
                }
                taking_part = contenders(&part.policies, &runs, beside_others);
                (most, enough_ms, spent_ms, doubled) = (most + round, enough_ms * 2.0, 0.0, doubled + 1);
            }
            // Another policy is first each time, in both directions: the after-effects of a run
            // must not always affect the same policy.
            let all = taking_part.len();
            for turn in 0..all {
                let turn = if round % 2 == 0 { turn } else { all - 1 - turn };
                let at = taking_part[(usize::from(round / 2) + turn) % all];
                let run = bed.run(part.policies[at], &sizes, false)?;
                spent_ms += run.ms;
                runs[at].push(run);
            }
            round += 1;
        };
        for (policy, runs) in part.policies.iter().zip(runs) {
            let to_chosen = chosen.filter(|_| *policy == Policy::Best);
            let mean = mean(runs.iter().map(|run| run.ms));
            rows.push(Row { setup: part.setup, line: line(&bed, *policy, *bytes, &sizes, &runs), mean, to_chosen });
        }
    }
    Ok(rows)
}

fn mean(times: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = times.fold((0.0, 0.0), |(count, sum), ms| (count + 1.0, sum + ms));
    sum / f64::max(count, 1.0)
}

/// The mean or the median of these times.
fn middle(times: Vec<f64>, beside_others: bool) -> Option<f64> {
    (!times.is_empty()).then(|| if beside_others { mean(times.into_iter()) } else { summary(times).0 })
}

/// The indices of `best` and of the fastest other policies.
fn contenders(policies: &[Policy], runs: &[Vec<Measured>], beside_others: bool) -> Vec<usize> {
    let time = |at: usize| {
        let times = runs[at].iter().map(|run| run.ms).collect();
        if policies[at] == Policy::Best { 0.0 } else { middle(times, beside_others).unwrap_or(f64::INFINITY) }
    };
    let mut order: Vec<usize> = (0..policies.len()).collect();
    order.sort_by(|a, b| time(*a).total_cmp(&time(*b)));
    order.truncate(CONTENDERS);
    order.sort_unstable();
    order
}

/// Each half of the rounds chooses the fastest other policy, which the other half compares with
/// `best`. The result is the geometric mean of both ratios.
fn to_chosen(policies: &[Policy], runs: &[Vec<Measured>], beside_others: bool) -> Option<Compared> {
    let times =
        |at: usize, half: usize| -> Vec<f64> { runs[at].iter().skip(half).step_by(2).map(|run| run.ms).collect() };
    let best = policies.iter().position(|policy| *policy == Policy::Best)?;
    let chosen = |half: usize| {
        let others = (0..policies.len()).filter(|at| *at != best);
        let times = others.filter_map(|at| Some((middle(times(at, half), beside_others)?, at)));
        times.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, at)| at)
    };
    let halves = [(times(chosen(1)?, 0), times(best, 0)), (times(chosen(0)?, 1), times(best, 1))];
    let ratio = |of: &mut dyn FnMut(&[f64]) -> Vec<f64>| {
        let mut one = |(chosen, best): &(Vec<f64>, Vec<f64>)| {
            Some(middle(of(chosen), beside_others)? / middle(of(best), beside_others)?)
        };
        Some((one(&halves[0])? * one(&halves[1])?).sqrt())
    };
    // The same draws each time.
    let mut random = ChaCha20Rng::from_seed([1; 32]);
    let mut redrawn =
        |times: &[f64]| times.iter().map(|_| times[(random.next_u64() % times.len() as u64) as usize]).collect();
    let mut ratios: Vec<f64> = (0..RESAMPLES).filter_map(|_| ratio(&mut redrawn)).collect();
    ratios.sort_by(f64::total_cmp);
    let at = |part: usize| ratios.get(RESAMPLES * part / 100).copied();
    Some(Compared { ratio: ratio(&mut |times| times.to_vec())?, low: at(5)?, high: at(95)? })
}

fn line(bed: &Bed, policy: Policy, bytes: usize, sizes: &[usize], runs: &[Measured]) -> Line<Params> {
    let (setup, (median, min, max)) = (bed.setup, summary(runs.iter().map(|run| run.ms).collect()));
    let middle = |of: fn(&Measured) -> f64| summary(runs.iter().map(of).collect()).0;
    let params = Params {
        policy: policy.name().to_owned(),
        bytes,
        files: sizes.len(),
        key_bits: 8 * setup.key_bytes,
        engine_speed: setup.speed,
        cpu: setup.cpu().to_owned(),
        load: setup.load(),
        batch: setup.batch,
        copy: !setup.direct,
        one_chain_mb_s: (bed.one_chain * 1e3).round(),
        doorbell_ns: bed.doorbell_ns.round(),
        added_delay_ns: 0.0,
        // The competing threads are in this process.
        cpu_ms: (setup.others == 0).then(|| middle(|run| run.cpu_ms)),
        by_module: middle(|run| run.by_module as f64) as u64,
    };
    let label = |text: &str| text.to_owned();
    Line {
        job: label("seal"),
        what: label(if setup.encrypts { "encrypt" } else { "decrypt" }),
        engine: label("tobari"),
        params,
        backend: tobari_aes::AesKernels::best().name.to_owned(),
        threads: 1,
        unit: label("ms"),
        median,
        min,
        max,
        runs: runs.len(),
        labels: vec![label("emulated-module"), label("cpu on core 0, module on core 1"), label(setup.copies())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(ms: impl IntoIterator<Item = f64>) -> Vec<Measured> {
        ms.into_iter().map(|ms| Measured { ms, cpu_ms: 0.0, by_module: 0 }).collect()
    }

    const POLICIES: [Policy; 3] = [Policy::Cpu, Policy::Queue, Policy::Best];

    #[test]
    fn the_policy_to_compare_with_is_chosen_by_the_other_half_of_the_rounds() {
        let ratio = |runs: &[Vec<Measured>]| to_chosen(&POLICIES, runs, false).map(|compared| compared.ratio);
        // each of the other policies is lucky in one half, which must not affect the other half
        let runs = [times([2.0, 4.0, 2.0, 4.0]), times([4.0, 2.0, 4.0, 2.0]), times([4.0, 4.0, 4.0, 4.0])];
        assert_eq!(ratio(&runs), Some(1.0));
        let runs = [times([2.0; 4]), times([3.0; 4]), times([4.0; 4])];
        assert_eq!(ratio(&runs), Some(0.5));
        assert_eq!(to_chosen(&POLICIES[..2], &runs[..2], false), None, "without the one that is compared");
    }

    #[test]
    fn few_rounds_that_scatter_leave_open_what_many_settle() {
        let scattered =
            |middle: f64, count: usize| times((0..count).map(|at| middle * (0.9 + 0.05 * (at * 7 % 5) as f64)));
        let compared = |best: f64, count| {
            let runs = [scattered(9.0, count), scattered(5.0, count), scattered(best, count)];
            to_chosen(&POLICIES, &runs, true).expect("all three have run")
        };
        assert!(compared(5.0, 6).is_open(), "{:?}", compared(5.0, 6));
        assert!(compared(5.0, 4000).low > WANTED, "{:?}", compared(5.0, 4000));
        assert!(compared(5.5, 4000).high < WANTED, "{:?}", compared(5.5, 4000));
    }

    #[test]
    fn the_fastest_and_best_go_on() {
        let runs = [[3.0; 2], [1.0; 2], [2.0; 2], [9.0; 2]].map(times);
        let policies = [Policy::Cpu, Policy::Queue, Policy::Polling, Policy::Best];
        assert_eq!(contenders(&policies, &runs, false), [1, 2, 3]);
    }
}
