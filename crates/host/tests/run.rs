//! Plans on threads and a tier, compared with the same programs in memory; and all kinds of
//! failures.

#![allow(clippy::unwrap_used, reason = "a test")]

use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tobari_host::run::{Finished, Options, RunError, Status, run};
use tobari_host::store::testing::{Faults, FaultyStore, flip_bit, swap, truncate};
use tobari_host::store::{self, Block, Blocks, Completion, DiskStore, Refused, Statistics, Store, StoreError};
use tobari_plan::check::{CheckedPlan, Requirements};
use tobari_plan::clear::{ClearError, ClearValue};
use tobari_plan::cost::Costs;
use tobari_plan::engine::{Engine, Machine, Shapes};
use tobari_plan::page::Instruction;
use tobari_plan::plan::plan;
use tobari_plan::program::{Encoding, Input, Kind, Op, Program, Recorder, Shape, Value};
use tobari_plan::site::{Owner, Secrecy, Site};
use tobari_plan::testing::{ENGINE, directly, program};

type Ran = Result<Finished<ClearValue>, RunError<ClearError>>;

fn disk(folder: &tempfile::TempDir) -> DiskStore {
    let options = store::Options { request_bytes: 4096, ..store::Options::in_folder(folder.path()) };
    DiskStore::open(&options).unwrap()
}

/// A plan for so little memory that it must move values, if such a plan exists.
fn limited(program: &Program) -> CheckedPlan {
    let mut memory = 400;
    loop {
        match plan(program.clone(), Site::blind("test", 2, memory), &Costs::unmeasured()) {
            Ok(plan) => return plan.check(&Requirements::default()).unwrap(),
            Err(_) => memory += 100,
        }
    }
}

fn go<E: Engine<Value = ClearValue, Error = ClearError>>(
    engine: E,
    checked: &CheckedPlan,
    inputs: &[ClearValue],
    store: &mut dyn Store,
    threads: usize,
    observer: &(dyn Fn(&Status) + Sync),
) -> Ran {
    let (blocks, cancel) = (Blocks::new(64 << 10), AtomicBool::new(false));
    let options = Options { threads, blocks, observer, cancel: &cancel };
    run(engine, checked, |value| Ok(inputs[value.index()].clone()), Some(store), &options)
}

fn outputs(ran: Ran) -> Vec<ClearValue> {
    ran.unwrap().outputs.iter().map(|output| (**output).clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn on_any_number_of_threads_and_however_slow_the_tier_results_are_the_same(
        seed: u64, inputs in 1usize..20, steps in 1usize..150, threads in 1usize..5,
    ) {
        let (program, values) = program(seed, inputs, steps);
        let (checked, folder) = (limited(&program), tempfile::tempdir().unwrap());
        let mut store = FaultyStore::new(disk(&folder), Faults { reorder: Some(seed), ..Faults::default() });
        let found = outputs(go(ENGINE, &checked, &values, &mut store, threads, &|_| {}));
        prop_assert_eq!(found, directly(&program, &values).unwrap());
        prop_assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_tier_that_fails_ends_the_run_with_one_error_and_leaves_nothing(
        seed: u64, steps in 50usize..150, threads in 1usize..4, at in 1u64..60, kind in 0usize..2,
    ) {
        let (program, values) = program(seed, 12, steps);
        let (checked, folder) = (limited(&program), tempfile::tempdir().unwrap());
        let faults = match kind {
            0 => Faults { fail_read: Some(at), ..Faults::default() },
            _ => Faults { fail_write: Some(at), ..Faults::default() },
        };
        let mut store = FaultyStore::new(disk(&folder), faults);
        match go(ENGINE, &checked, &values, &mut store, threads, &|_| {}) {
            // The injected fault came after the last operation.
            Ok(finished) => {
                let found: Vec<ClearValue> = finished.outputs.iter().map(|output| (**output).clone()).collect();
                prop_assert_eq!(found, directly(&program, &values).unwrap());
            }
            Err(error) => prop_assert!(matches!(error, RunError::Store(_)), "{}", error),
        }
        drop(store);
        prop_assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

/// A tier of three folders with small quotas.
fn folders(of: &[tempfile::TempDir; 3], quotas: [u64; 3]) -> DiskStore {
    let folder = |(folder, quota): (&tempfile::TempDir, u64)| store::Folder {
        path: folder.path().into(),
        quota_bytes: Some(quota),
    };
    let folders = of.iter().zip(quotas).map(folder).collect();
    DiskStore::open(&store::Options { folders, request_bytes: 4096, ..store::Options::in_folder("") }).unwrap()
}

#[test]
fn a_full_folder_hands_on_to_the_next_and_all_of_them_full_end_the_run() {
    let (program, values, checked) = moving();
    // Each object takes a page.
    let plan = checked.plan();
    let stores = plan.instructions.iter().filter(|i| matches!(i, Instruction::Store(_))).count();
    let pages = (program.inputs().len() + stores) as u64;
    let all = [(); 3].map(|()| tempfile::tempdir().unwrap());
    for seed in 0..5 {
        let quotas = [7 << 12, 0, (pages - 7) << 12];
        let faults = Faults { reorder: Some(seed), ..Faults::default() };
        let mut store = FaultyStore::new(folders(&all, quotas), faults);
        let found = outputs(go(ENGINE, &checked, &values, &mut store, 2, &|_| {}));
        assert_eq!(found, directly(&program, &values).unwrap());
        let used: Vec<u64> = store.inner_mut().used().map(|(_, bytes)| bytes).collect();
        assert_eq!(used, quotas, "in their order, each to its brim");
        let mut store = FaultyStore::new(folders(&all, [7 << 12, 0, (pages - 8) << 12]), faults);
        let error = go(ENGINE, &checked, &values, &mut store, 2, &|_| {}).unwrap_err();
        let RunError::Store(StoreError::Full { needed: 4096, free: 0 }) = error else { panic!("{error}") };
    }
    assert!(all.iter().all(|folder| std::fs::read_dir(folder.path()).unwrap().count() == 0));
}

/// The plan's check covers only values that come into memory. An unused input may be a secret that
/// the site must not see.
#[test]
fn an_input_that_the_plan_has_no_use_for_is_not_asked_for() {
    let mut program = Program::default();
    let shape = Shape { kind: Kind::Plain, level: 0, resident: 32, packed: 32, raw: 32 };
    let secret = Secrecy::Secret { owner: Owner("somebody".to_owned()) };
    let of = |name: &str, secrecy| Input { name: name.to_owned(), shape, secrecy };
    let used = program.add_input(of("used", Secrecy::Public)).unwrap();
    let secret = program.add_input(of("not used", secret)).unwrap();
    let result = program.add_step(Op::Neg, &[used], shape).unwrap();
    program.set_outputs(&[result]).unwrap();
    let plan = plan(program, Site::blind("test", 1, 1000), &Costs::unmeasured()).unwrap();
    let checked = plan.check(&Requirements::default()).unwrap();
    let cancel = AtomicBool::new(false);
    let options = Options { threads: 1, blocks: Blocks::new(1 << 10), observer: &|_| {}, cancel: &cancel };
    let input = |value| {
        assert!(value != secret, "asked for a secret that is not for this site");
        Ok(ENGINE.integers(&[1, 2]).unwrap())
    };
    let finished = run(ENGINE, &checked, input, None, &options).unwrap();
    assert_eq!(*finished.outputs[0], ENGINE.integers(&[-1, -2]).unwrap());
}

/// A program that moves many values, and its plan.
fn moving() -> (Program, Vec<ClearValue>, CheckedPlan) {
    let (program, values) = program(3, 30, 200);
    let checked = limited(&program);
    let loads = checked.plan().instructions.iter().filter(|i| matches!(i, Instruction::Load(_))).count();
    assert!(loads > 20, "{loads}");
    (program, values, checked)
}

/// An engine that damages the tier before its tenth step, or fails, or is slow. It counts all
/// steps, and the steps that own their first argument.
struct Meddling<F>(F, AtomicU64);

impl<F: Fn(u64) -> Result<(), ClearError>> Shapes for Meddling<F> {
    fn shape(&self, op: Op, args: &[Shape]) -> Result<Shape, String> {
        ENGINE.shape(op, args)
    }
}

impl<F: Fn(u64) -> Result<(), ClearError> + Sync> Engine for Meddling<F> {
    type Value = ClearValue;
    type Error = ClearError;

    fn step(&self, step: usize, op: Op, args: &[&ClearValue]) -> Result<ClearValue, ClearError> {
        (self.0)(self.1.fetch_add(1, Ordering::Relaxed))?;
        ENGINE.step(step, op, args)
    }

    fn step_owned(
        &self,
        step: usize,
        op: Op,
        first: ClearValue,
        rest: &[&ClearValue],
    ) -> Result<ClearValue, ClearError> {
        (self.0)(OWNED)?;
        self.step(step, op, &[&[&first], rest].concat())
    }

    fn export(
        &self,
        value: &ClearValue,
        shape: &Shape,
        encoding: Encoding,
        bytes: &mut [u8],
    ) -> Result<(), ClearError> {
        ENGINE.export(value, shape, encoding, bytes)
    }

    fn import(&self, shape: &Shape, encoding: Encoding, bytes: &[u8]) -> Result<ClearValue, ClearError> {
        ENGINE.import(shape, encoding, bytes)
    }
}

/// The number that [`Meddling`] gets for a step that owns its first argument.
const OWNED: u64 = u64::MAX;

#[test]
fn a_sum_that_is_only_added_to_is_given_up_by_whoever_held_it() {
    let mut recorder = Recorder::new(&ENGINE);
    let value = ENGINE.integers(&[1; 4]).unwrap();
    let shape = Shape { kind: Kind::Plain, level: 3, resident: 32, packed: 32, raw: 32 };
    let inputs: Vec<Value> = (0..10).map(|i| recorder.input(i.to_string(), shape, Secrecy::Public).unwrap()).collect();
    let mut sum = recorder.add(&inputs[0], &inputs[1]).unwrap();
    for term in &inputs[2..] {
        sum = recorder.add(&sum, term).unwrap();
    }
    // Inputs stay in memory as long as the last step needs them.
    let sum = recorder.add(&sum, &inputs[0]).unwrap();
    let program = recorder.finish(&[sum]).unwrap();
    let checked = limited(&program);
    let owned = AtomicU64::new(0);
    let count = |step| {
        owned.fetch_add(u64::from(step == OWNED), Ordering::Relaxed);
        Ok(())
    };
    let folder = tempfile::tempdir().unwrap();
    let values = vec![value; 10];
    let found = outputs(go(Meddling(count, AtomicU64::new(0)), &checked, &values, &mut disk(&folder), 2, &|_| {}));
    assert_eq!(found, [ENGINE.integers(&[11; 4]).unwrap()]);
    assert!(owned.load(Ordering::Relaxed) >= 9, "{owned:?}");
}

#[test]
fn a_step_that_fails_ends_the_run_by_its_number() {
    let (_, values, checked) = moving();
    let folder = tempfile::tempdir().unwrap();
    let fails = |count| if count == 50 { Err(ClearError::Step("no".to_owned())) } else { Ok(()) };
    for threads in [1, 3] {
        let engine = Meddling(fails, AtomicU64::new(0));
        let error = go(engine, &checked, &values, &mut disk(&folder), threads, &|_| {}).unwrap_err();
        assert!(matches!(error, RunError::Step { .. }), "{error}");
    }
}

#[test]
fn a_cancelled_run_ends_soon_and_says_so() {
    let (_, values, checked) = moving();
    let (folder, cancel, begun) = (tempfile::tempdir().unwrap(), AtomicBool::new(false), AtomicU64::new(0));
    let engine = Meddling(
        |count| {
            begun.store(count, Ordering::Relaxed);
            cancel.store(count > 20, Ordering::Relaxed);
            std::thread::sleep(std::time::Duration::from_millis(5));
            Ok(())
        },
        AtomicU64::new(0),
    );
    let options = Options { threads: 2, blocks: Blocks::new(64 << 10), observer: &|_| {}, cancel: &cancel };
    let mut store = disk(&folder);
    let ran = run(engine, &checked, |value| Ok(values[value.index()].clone()), Some(&mut store), &options);
    assert!(matches!(ran.unwrap_err(), RunError::Cancelled));
    assert!(begun.load(Ordering::Relaxed) < 150);
}

/// A disk with a foreign write just before the `at`-th read.
struct Tampered {
    inner: DiskStore,
    at: usize,
    reads: usize,
    how: fn(&DiskStore, u64),
}

impl Store for Tampered {
    fn write(&mut self, object: u64, data: Block) -> Result<(), Refused> {
        self.inner.write(object, data)
    }

    fn read(&mut self, object: u64, into: Block) -> Result<(), Refused> {
        self.reads += 1;
        if self.reads == self.at {
            (self.how)(&self.inner, object);
        }
        self.inner.read(object, into)
    }

    fn completed(&mut self, wait: bool) -> Result<Vec<Completion>, StoreError> {
        self.inner.completed(wait)
    }

    fn discard(&mut self, object: u64) {
        self.inner.discard(object);
    }

    fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }

    fn name(&self) -> &'static str {
        "tampered"
    }
}

#[test]
fn whoever_changes_the_tier_while_a_job_runs_is_found_out_by_the_value() {
    let (_, values, checked) = moving();
    let ways: [fn(&DiskStore, u64); 3] = [
        |store, object| flip_bit(store, object, 9).unwrap(),
        |store, object| swap(store, object, u64::from(object == 0)).unwrap(),
        |store, _| truncate(store, 0).unwrap(),
    ];
    for how in ways {
        for at in [1, 7, 20] {
            let folder = tempfile::tempdir().unwrap();
            let mut store = Tampered { inner: disk(&folder), at, reads: 0, how };
            let error = go(ENGINE, &checked, &values, &mut store, 2, &|_| {}).unwrap_err();
            let RunError::Store(error) = error else { panic!("{error}") };
            assert!(error.object().is_some(), "{error}");
        }
    }
}

#[test]
fn an_input_that_cannot_be_had_and_a_missing_tier_are_told() {
    let (_, values, checked) = moving();
    let cancel = AtomicBool::new(false);
    let options = Options { threads: 1, blocks: Blocks::new(64 << 10), observer: &|_| {}, cancel: &cancel };
    let ran = run(ENGINE, &checked, |_| Err("gone".to_owned()), None, &options);
    assert_eq!(ran.unwrap_err().to_string(), "input input 0: gone");
    let ran = run(ENGINE, &checked, |value| Ok(values[value.index()].clone()), None, &options);
    assert!(matches!(ran.unwrap_err(), RunError::NoTier));
    let (folder, tiny) = (tempfile::tempdir().unwrap(), Options { blocks: Blocks::new(0), ..options });
    let mut store = disk(&folder);
    let ran = run(ENGINE, &checked, |value| Ok(values[value.index()].clone()), Some(&mut store), &tiny);
    assert!(matches!(ran.unwrap_err(), RunError::TooLarge { .. }));
}

#[test]
fn progress_never_goes_back_and_ends_at_all_steps() {
    let (_, values, checked) = moving();
    let (folder, last) = (tempfile::tempdir().unwrap(), std::sync::Mutex::new(Vec::new()));
    let slow = |_| {
        std::thread::sleep(std::time::Duration::from_millis(3));
        Ok(())
    };
    let engine = Meddling(slow, AtomicU64::new(0));
    let observer = |status: &Status| last.lock().unwrap().push(*status);
    let finished = go(engine, &checked, &values, &mut disk(&folder), 2, &observer).unwrap();
    let seen = last.into_inner().unwrap();
    assert!(!seen.is_empty());
    for pair in seen.windows(2) {
        assert!(pair[0].progress.steps <= pair[1].progress.steps && pair[0].seconds < pair[1].seconds);
    }
    let progress = finished.status.progress;
    assert!(progress.steps == progress.of && progress.part == 1.0 && progress.read > 0);
    assert_eq!((progress.read, progress.written), {
        let forecast = checked.plan().forecast;
        (forecast.read, forecast.written)
    });
}

#[test]
fn a_thread_that_panics_does_not_leave_the_others_waiting() {
    let (_, values, checked) = moving();
    let folder = tempfile::tempdir().unwrap();
    let engine = Meddling(|count| if count == 40 { panic!("on purpose") } else { Ok(()) }, AtomicU64::new(0));
    let mut store = disk(&folder);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = go(engine, &checked, &values, &mut store, 3, &|_| {});
    }));
    assert!(panicked.is_err());
}
