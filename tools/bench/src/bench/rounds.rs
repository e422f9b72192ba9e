//! All measurements are in rounds. Each round runs every task once, so that a slower minute of a
//! shared machine affects all tasks alike. A fixed loop of integer work, timed in each round too,
//! shows how quiet the machine was. In a round each task runs once before it is timed, because
//! peers warm up before they measure, too.

use super::line::{DISTURBED, Line, summary};
use super::peer;
use std::hint::black_box;
use std::time::Instant;
use tobari_command::output::Failure;

/// A run counts as disturbed if the probe is slower than its fastest time by this factor.
const MOST_DISTURBED: f64 = 1.15;

/// A task to measure.
pub(super) struct Task<P> {
    pub(super) what: &'static str,
    pub(super) params: P,
    pub(super) labels: Vec<&'static str>,
    pub(super) work: Box<dyn FnMut()>,
    /// The divisor of nanoseconds.
    pub(super) parts: f64,
}

/// The parameters that all tasks share.
#[derive(Clone, Copy)]
pub(super) struct Job {
    pub(super) name: &'static str,
    pub(super) backend: &'static str,
    pub(super) unit: &'static str,
    /// A shorter task is repeated for about this time. Each repetition is timed alone, and the
    /// median is the round's figure, as for peers.
    pub(super) batch_ns: f64,
}

/// All tasks in rounds, and the peers' about five times in between: our lines, then theirs, and the
/// disturbance of the machine.
pub(super) fn measure<P: Clone + PartialEq>(
    job: Job,
    mut tasks: Vec<Task<P>>,
    runs: usize,
    peers: &[String],
    ask: impl Fn(&str) -> Result<Vec<Line<P>>, Failure>,
) -> Result<(Vec<Line<P>>, f64), Failure> {
    let (mut probes, mut peer_rounds) = (Vec::new(), vec![Vec::new(); peers.len()]);
    let mut times = vec![Vec::with_capacity(runs); tasks.len()];
    for round in 0..=runs {
        let probe = probe();
        for (task, times) in tasks.iter_mut().zip(&mut times) {
            let first = time(&mut task.work);
            let repeated = (job.batch_ns / first.max(1.0)).clamp(1.0, 256.0) as u32;
            let (ns, ..) = summary((0..repeated).map(|_| time(&mut task.work)).collect());
            let ns = ns / task.parts;
            if round > 0 {
                times.push(ns); // round 0 warms up
            }
        }
        if round > 0 {
            probes.push(probe);
        }
        if peer::has_its_turn(round, runs) {
            for (peer, rounds) in peers.iter().zip(&mut peer_rounds) {
                rounds.push(ask(peer)?);
            }
        }
    }
    let (median, fastest, _) = summary(probes);
    let ours = tasks.into_iter().zip(times).map(|(task, times)| job.line(task, times));
    let mut lines: Vec<Line<P>> = ours.collect();
    lines.extend(peer_rounds.iter().flat_map(|rounds| peer::join(rounds)));
    if median / fastest > MOST_DISTURBED {
        lines.iter_mut().for_each(|line| line.labels.push(DISTURBED.to_owned()));
    }
    Ok((lines, median / fastest))
}

/// The nanoseconds of some work.
pub(super) fn time(work: &mut impl FnMut()) -> f64 {
    let started = Instant::now();
    work();
    started.elapsed().as_nanos() as f64
}

/// A fixed amount of integer work, in nanoseconds.
fn probe() -> f64 {
    time(&mut || {
        let mut state = black_box(1u64);
        for _ in 0..200_000 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        }
        black_box(state);
    })
}

impl Job {
    fn line<P>(self, task: Task<P>, times: Vec<f64>) -> Line<P> {
        let runs = times.len();
        let (median, min, max) = summary(times);
        Line {
            job: self.name.to_owned(),
            what: task.what.to_owned(),
            engine: "tobari".to_owned(),
            params: task.params,
            backend: self.backend.to_owned(),
            threads: 1,
            unit: self.unit.to_owned(),
            median,
            min,
            max,
            runs,
            labels: task.labels.into_iter().map(str::to_owned).collect(),
        }
    }
}
