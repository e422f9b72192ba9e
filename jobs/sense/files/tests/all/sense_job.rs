//! A fleet's question as a plan within a memory limit, compared with the same question with
//! everything in memory.

#[allow(dead_code, reason = "every test of a fleet uses its own part")]
#[path = "../../../protocol/tests/all/fleet/mod.rs"]
mod sense_fleet;

use sense_fleet::{Fleet, Memory, WINDOW, rng, rows, toy};
use std::sync::Arc;
use tobari_device::{P1, Profile, U25};
use tobari_host::job::{JobError, Limits, within};
use tobari_lattice::bgv::{EvaluationKeys, SeededCiphertext};
use tobari_sense::cloud::{CloudError, Frames, Material, Wanted, tally};
use tobari_sense::desk::Opened;
use tobari_sense::program::Input;
use tobari_sense::release::Release;
use tobari_sense::schema::ProfileName;
use tobari_sense::server::Batch;

const SCHEMA: &str = r#"{"profile":"p1","samples":2,"channel":[{"name":"t","least":-40,"step":0.5}]}"#;
const QUESTION: &str = r#"{"name":"q","window":{"length":"1m"},"least-devices":1,"group-by":"tenant",
    "statistic":[{"kind":"mean","channel":"t"},{"kind":"variance","channel":"t"},{"kind":"above","channel":"t","threshold":30}]}"#;

fn fleet<P: Profile>(profile: ProfileName, schema: &str) -> Fleet<P> {
    let mut fleet = Fleet::<P>::new(toy(profile), schema, 12);
    fleet.send(&rows(schema, 12, |device| vec![2 - device % 2], None, 3));
    fleet
}

/// The release of an answer.
fn released<P: Profile>(fleet: &Fleet<P>, answer: &[u8]) -> Release {
    let registered = fleet.register(QUESTION).unwrap();
    let mut desk = fleet.desk(&registered);
    let released = desk.open(&registered.id(), WINDOW, answer, &fleet.registry).unwrap();
    assert_eq!(desk.counts(), Opened { released: 1, ..Opened::default() });
    released
}

/// The answer by a plan with a part of the memory of all values, and the number of bytes from the
/// tier.
fn planned<P: Profile>(fleet: &mut Fleet<P>, part: Option<u64>) -> (Vec<u8>, u64) {
    let (registered, seats) = (fleet.register(QUESTION).unwrap(), fleet.registry.seats());
    let prepared = fleet.cloud.prepare(&registered.order, &seats, &fleet.frames).unwrap();
    let program = prepared.program();
    let largest = program.values().map(|value| program.shape(value).raw).max().unwrap();
    let memory = part.map(|part| 2 * (largest + 4096) + (32 << 20) + program.bytes()[0] / part);
    let tier = tempfile::tempdir().unwrap();
    let limits = Limits { memory, threads: 2, tier: tier.path().to_owned() };
    let (cloud, material) = (&fleet.cloud, &mut fleet.material);
    let input = |value| cloud.input(&prepared, material, value).map_err(|error| error.to_string());
    let finished = within(cloud.engine_for_a_run(&mut rng(77)), program.clone(), input, &limits).unwrap();
    assert_eq!(std::fs::read_dir(tier.path()).unwrap().count(), 0, "nothing is left in the tier");
    (prepared.message(&finished.outputs).unwrap(), finished.status.progress.read)
}

#[test]
fn a_question_within_a_limit_of_memory_is_answered_with_the_same_bytes() {
    let mut fleet = fleet::<P1>(ProfileName::P1, SCHEMA);
    let registered = fleet.register(QUESTION).unwrap();
    let expected = fleet.answer(&registered).unwrap();
    let (whole, nothing) = planned(&mut fleet, None);
    let (limited, read) = planned(&mut fleet, Some(4));
    assert!(whole == expected && limited == expected);
    assert!(nothing == 0 && read > 0, "{nothing} and {read} bytes came from the tier");
    assert_eq!(released(&fleet, &limited).groups.len(), 3);
}

#[test]
fn sums_straight_from_frames_are_plans_too() {
    let schema = SCHEMA.replace("p1", "u25").replace(r#""step":0.5"#, r#""step":0.5,"square":true,"above":[30]"#);
    let mut fleet = fleet::<U25>(ProfileName::U25, &schema);
    let registered = fleet.register(QUESTION).unwrap();
    let expected = fleet.answer(&registered).unwrap();
    assert!(planned(&mut fleet, None).0 == expected);
}

#[test]
fn a_limit_that_leaves_nothing_for_values_is_refused_before_an_input_is_made() {
    let fleet = fleet::<P1>(ProfileName::P1, SCHEMA);
    let (registered, seats) = (fleet.register(QUESTION).unwrap(), fleet.registry.seats());
    let prepared = fleet.cloud.prepare(&registered.order, &seats, &fleet.frames).unwrap();
    for (memory, planned) in [(1 << 20, false), (40 << 20, true)] {
        let limits = Limits { memory: Some(memory), threads: 1, tier: std::env::temp_dir() };
        let input = |_| panic!("an input was asked for");
        let refused = within(fleet.cloud.engine_for_a_run(&mut rng(1)), prepared.program().clone(), input, &limits);
        match refused.err().unwrap() {
            JobError::Limit { least, found } => assert!(!planned && least > found),
            JobError::Plan(_) => assert!(planned),
            other => panic!("{other}"),
        }
    }
}

/// The key holder's objects, and frames on demand.
struct Lending<'a, P: Profile> {
    memory: &'a mut Memory,
    frames: &'a Frames<P>,
    filled: usize,
}

impl<P: Profile> Material for Lending<'_, P> {
    fn secret(&mut self, cohort: usize, i: usize) -> Option<SeededCiphertext> {
        self.memory.secret(cohort, i)
    }

    fn key(&mut self, input: Input) -> Option<Arc<EvaluationKeys>> {
        self.memory.key(input)
    }

    fn fill(&mut self, batch: &mut Batch, wanted: &[Wanted]) -> Option<()> {
        self.filled += 1;
        wanted.iter().try_for_each(|Wanted { block, number, time }| {
            let frame = self.frames.get(number)?.get(*time as usize)?;
            batch.put(*block, frame).then_some(())
        })
    }
}

/// Batches within this memory give the same bytes. Returns how many times a batch was filled.
fn counted<P: Profile>(mut fleet: Fleet<P>, bytes: u64) -> usize {
    let (registered, seats) = (fleet.register(QUESTION).unwrap(), fleet.registry.seats());
    let expected = fleet.answer(&registered).unwrap();
    let tally = tally(&registered.order, &seats, &fleet.frames);
    let prepare = || fleet.cloud.prepare_counted(&registered.order, &seats, tally.clone(), bytes).unwrap();
    let (cloud, limits) = (&fleet.cloud, Limits { memory: None, threads: 1, tier: std::env::temp_dir() });
    let prepared = prepare();
    let mut lending = Lending { memory: &mut fleet.material, frames: &fleet.frames, filled: 0 };
    let input = |value| cloud.input(&prepared, &mut lending, value).map_err(|error| error.to_string());
    let engine = cloud.engine_for_a_run(&mut rng(77));
    let finished = within(engine, prepared.program().clone(), input, &limits).unwrap();
    assert!(prepared.message(&finished.outputs).unwrap() == expected);
    let filled = lending.filled;
    // a frame that was removed meanwhile is an error
    let (prepared, none, mut told) = (prepare(), Frames::<P>::new(), None);
    let mut lending = Lending { memory: &mut fleet.material, frames: &none, filled: 0 };
    let input = |value| cloud.input(&prepared, &mut lending, value).map_err(|error| told.insert(error).to_string());
    assert!(within(cloud.engine_for_a_run(&mut rng(77)), prepared.program().clone(), input, &limits).is_err());
    assert!(matches!(told, Some(CloudError::Material("a frame"))));
    filled
}

#[test]
fn fault_15_batches_in_little_memory_give_the_same_bytes() {
    let few = counted(fleet::<P1>(ProfileName::P1, SCHEMA), 0);
    assert!(counted(fleet::<P1>(ProfileName::P1, SCHEMA), u64::MAX) <= few);
    let schema = SCHEMA.replace("p1", "u25").replace(r#""step":0.5"#, r#""step":0.5,"square":true,"above":[30]"#);
    let few = counted(fleet::<U25>(ProfileName::U25, &schema), 0);
    let many = counted(fleet::<U25>(ProfileName::U25, &schema), u64::MAX);
    assert!(many < few, "three tenants take the same batches: {many} and {few}");
}
