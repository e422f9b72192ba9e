//! The tests, their list, and a runner with the output of libtest.

use super::known::{
    every_engine_of_gcm_gives_nists_answers_and_refuses_what_it_must, modules_give_nists_answers_of_cbc,
    modules_give_nists_answers_of_gcm, the_loops_of_cbc_give_nists_answers,
};
use bytes::Bytes;
use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tobari_host::testing::not_run;
use tobari_plan::dispatch::{Cost, Limits, Model, Policy};
use tobari_seal::{
    Chunk, Gcm, Head, Kind, Layout, Meta, Opening, PortableGcm, Rooms, Sealing, SetKey, Stanza, Stanzas, Suite, process,
};
use tobari_seal_files::dispatch::{
    Answers, Emulated, EmulatedEngine, EmulatedOptions, Finished, MODULE_VERB, Module, ModuleError, Options, Pipelined,
    Pool, RingGcm, run_module,
};

/// Chunks of these lengths, and their expected results. Both come from two states with the same
/// seed, so they agree.
fn chunks(suite: Suite, lengths: &[usize]) -> (Vec<Chunk>, Vec<Bytes>) {
    let chunk = |at: usize, bytes: usize| {
        let mut rng = ChaCha20Rng::from_seed([at as u8; 32]);
        let set = SetKey::from_bytes(&[3; 32]).unwrap();
        let stanzas = Stanzas::new(vec![Stanza::for_age(vec![1]).unwrap()]).unwrap();
        let meta = Meta::new(Kind::Stream, b"", 0);
        let mut sealing = Sealing::begin(&set, &stanzas, Layout::new(suite), &meta, &mut rng).unwrap().0;
        let text = (0..bytes).map(|i| (i * 7 + at) as u8).collect();
        sealing.chunk(text, true, &mut rng).unwrap()
    };
    let all = |_| lengths.iter().enumerate().map(|(at, bytes)| chunk(at, *bytes)).collect::<Vec<_>>();
    let expected = all(()).iter().map(|chunk| process(&[chunk], &PortableGcm).remove(0).unwrap()).collect();
    (all(()), expected)
}

/// Runs all chunks through a pool, and returns the results. Calls `at` before each is submitted.
fn run(pool: &Pool, chunks: Vec<Chunk>, mut at: impl FnMut(usize)) -> Vec<Bytes> {
    let mut results: Vec<Option<Bytes>> = chunks.iter().map(|_| None).collect();
    let mut keep = |(number, result): Finished| {
        let place = &mut results[number as usize];
        assert!(place.is_none(), "{number} came twice");
        *place = Some(result.unwrap());
    };
    for (number, mut chunk) in chunks.into_iter().enumerate() {
        at(number);
        while let Err(again) = pool.submit(number as u64, chunk) {
            keep(pool.wait().unwrap());
            chunk = again;
        }
    }
    pool.close();
    while let Some(finished) = pool.wait() {
        keep(finished);
    }
    results.into_iter().map(Option::unwrap).collect()
}

fn options(policy: Policy, modules: Vec<Box<dyn Module>>) -> Options {
    Options { policy, cpu_workers: 1, modules, ..Options::new() }
}

fn lengths() -> Vec<usize> {
    (0..400).map(|at| [16_384, 1000, 0, 33, 65_536, 4096, 8][at % 7]).collect()
}

fn every_policy_gives_the_bytes_of_the_portable_engine_with_a_module_and_without() {
    for suite in [Suite::Gcm, Suite::CbcHmac] {
        let expected = chunks(suite, &lengths()).1;
        for policy in Policy::ALL {
            for modules in 0..3 {
                let modules: Vec<Box<dyn Module>> = (0..modules)
                    .map(|_| Box::new(Emulated::start(&EmulatedOptions::default()).unwrap()) as Box<dyn Module>)
                    .collect();
                let pool = Pool::start(options(policy, modules)).unwrap();
                assert!(run(&pool, chunks(suite, &lengths()).0, |_| ()) == expected, "{}", policy.name());
                let done: u64 = pool.report().iter().map(|engine| engine.done.items).sum();
                assert_eq!(done, 400);
                assert!(pool.report()[1..].iter().all(|engine| engine.label == "emulated-module"));
            }
        }
    }
}

/// Options for one chain on the CPU, so that its work takes longer than its submission. No batch is
/// ever late, however busy the machine is.
fn patient(policy: Policy, module: Emulated) -> Options {
    let limits = Limits { patience_ns: u64::MAX / 4, ..Limits::default() };
    Options { lanes: Some(1), limits, suite: Suite::CbcHmac, ..options(policy, vec![Box::new(module)]) }
}

/// Runs 4,000 chunks through a pool, and disturbs its module after some. Returns whether the
/// results are right, and whether the module was disturbed.
fn disturbed(pool: &Pool, disturb: impl Fn()) -> [bool; 2] {
    let (chunks, expected) = chunks(Suite::CbcHmac, &vec![16_384; 4000]);
    let mut was = false;
    let results = run(pool, chunks, |at| {
        if !was && at >= 50 && pool.report()[1].done.batches > 0 {
            disturb();
            was = true;
        }
    });
    [results == expected, was]
}

/// A model by which `best` uses a module, whatever the real costs of this machine.
fn worthwhile() -> Model {
    let (cpu, device) = (Cost::linear(0.0, 1000.0, 100.0), Cost::linear(0.0, 1000.0, 1.0));
    Model { device, handing: Cost::linear(100.0, 10.0, 0.0), cores: 2.0, ..Model::cpu_only(cpu) }
}

fn a_module_that_is_killed_loses_nothing() {
    for policy in [Policy::Module, Policy::Queue, Policy::RoundRobin, Policy::Best] {
        let slow = EmulatedOptions { bytes_per_second: 40_000_000, ..EmulatedOptions::default() };
        let module = Emulated::start(&slow).unwrap();
        let killer = module.killer().unwrap();
        let model = (policy == Policy::Best).then(worthwhile);
        let pool = Pool::start(Options { model, ..patient(policy, module) }).unwrap();
        assert_eq!(disturbed(&pool, || killer.kill()), [true, true], "{}", policy.name());
        let report = pool.report();
        let lost = report[1].lost.as_deref().unwrap_or_default();
        assert!((1..4000).contains(&report[1].done.items), "{}: {report:?}", policy.name());
        // `best` may give no more chunks to a module that it has found slow.
        assert!(lost.contains("killed by signal 9") || policy == Policy::Best, "{}: {lost}", policy.name());
    }
}

fn a_module_that_stalls_loses_nothing_and_holds_nobody_up() {
    let slow = EmulatedOptions { timeout: Duration::from_secs(1), bytes_per_second: 40_000_000, ..Default::default() };
    let module = Emulated::start(&slow).unwrap();
    let process = module.process().to_string();
    let pool = Pool::start(Options { limits: Limits::default(), ..patient(Policy::Queue, module) }).unwrap();
    let began = Instant::now();
    let stop = || assert!(Command::new("kill").args(["-STOP", &process]).status().unwrap().success());
    assert_eq!(disturbed(&pool, stop), [true, true]);
    assert!(began.elapsed() < Duration::from_secs(20));
    let module = pool.report().remove(1);
    assert!(module.done.batches > 0 && module.done.stalls > 0, "{module:?}");
    drop(pool); // returns only after the driver has given up the module
}

/// Flips one bit in one answer of many.
struct Liar {
    answers: usize,
}

impl Module for Liar {
    fn name(&self) -> &'static str {
        "liar"
    }

    fn label(&self) -> &'static str {
        "test"
    }

    fn takes(&self, _: &Chunk) -> bool {
        true
    }

    fn seal(&mut self, chunks: &[&Chunk]) -> Result<Rooms, ModuleError> {
        let mut rooms = Rooms::new(chunks).unwrap();
        for (chunk, answer) in chunks.iter().zip(rooms.answers()) {
            let parts = chunk.for_module().unwrap();
            let (text, end) = answer.split_at_mut(parts.text.len());
            text.copy_from_slice(parts.text);
            let (key, nonce) = (parts.key.try_into().unwrap(), parts.nonce().try_into().unwrap());
            end.copy_from_slice(&RingGcm.seal(key, nonce, parts.data, text));
            self.answers += 1;
            if self.answers % 1000 == 777 {
                text[0] ^= 1;
            }
        }
        Ok(rooms)
    }
}

fn a_module_that_lies_is_found_out_and_the_results_are_right() {
    let pool = Pool::start(options(Policy::Module, vec![Box::new(Liar { answers: 0 })])).unwrap();
    let (chunks, expected) = chunks(Suite::Gcm, &vec![300; 3000]);
    assert!(run(&pool, chunks, |_| ()) == expected);
    let report = pool.report();
    assert!(
        report[1].lost.as_deref().unwrap().contains("does not decrypt to the data that it was given"),
        "{report:?}"
    );
    assert!(report[1].done.dead && report[1].done.items < 1000 && report[0].done.items > 2000);
}

fn four_thousand_files_of_16_kib_need_8_mib_in_flight() {
    let module = Box::new(Emulated::start(&EmulatedOptions::default()).unwrap());
    // No late batch is processed twice: the slow engine would hold its chunks beside the results.
    let limits = Limits { patience_ns: u64::MAX / 4, ..Limits::default() };
    let pool = Pool::start(Options { limits, ..options(Policy::Best, vec![module]) }).unwrap();
    let (chunks, expected) = chunks(Suite::CbcHmac, &vec![16_384; 4000]);
    let mut most = 0;
    let results = run(&pool, chunks, |_| most = most.max(pool.in_flight_bytes()));
    // Counts unfinished chunks and results not taken. Results that a worker is writing now, at most
    // a batch of 256 KiB, do not count.
    assert!(results == expected && most <= 8 << 20 && most > 7 << 20, "{most}");
}

fn no_key_of_a_batch_is_left_in_the_memory_that_is_shared_with_a_module() {
    let (chunks, _) = chunks(Suite::Gcm, &[1000; 20]);
    let mut module = Emulated::start(&EmulatedOptions::default()).unwrap();
    let all: Vec<&Chunk> = chunks.iter().collect();
    let done = module.seal(&all).unwrap().complete(&all).unwrap();
    let (maps, memory) = (fs::read_to_string("/proc/self/maps").unwrap(), File::open("/proc/self/mem").unwrap());
    let mut searched = 0;
    for line in maps.lines().filter(|line| line.contains("memfd:tobari-enclave")) {
        let ends = line.split(' ').next().unwrap().split('-').map(|end| u64::from_str_radix(end, 16).unwrap());
        let [from, to] = ends.collect::<Vec<_>>()[..] else { panic!("{line}") };
        let mut bytes = vec![0; (to - from) as usize];
        memory.read_exact_at(&mut bytes, from).unwrap();
        let has = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
        assert!(has(&done[0][..64]), "the answers are here");
        assert!(!chunks.iter().any(|chunk| has(chunk.for_module().unwrap().key)), "so was a key");
        searched += 1;
    }
    assert_eq!(searched, 1);
}

fn a_module_that_reaches_the_hosts_memory_gives_the_same_bytes() {
    let direct = EmulatedOptions { direct: true, driver_looks: false, ..EmulatedOptions::default() };
    let (one, expected) = chunks(Suite::Gcm, &[100]);
    let started = Emulated::start(&direct);
    match started {
        Ok(mut module) => assert_eq!(module.seal(&[&one[0]]).unwrap().complete(&[&one[0]]).unwrap(), expected),
        Err(error) => {
            let name = "a_module_that_reaches_the_hosts_memory_gives_the_same_bytes";
            return not_run(name, &format!("this system lets no process reach another's memory: {error}"));
        }
    }
    for suite in [Suite::Gcm, Suite::CbcHmac] {
        for policy in [Policy::Module, Policy::Queue, Policy::Best] {
            let (chunks, expected) = chunks(suite, &lengths());
            let module = Box::new(Emulated::start(&direct).unwrap());
            let pool = Pool::start(Options { core: Some(0), ..options(policy, vec![module]) }).unwrap();
            assert!(run(&pool, chunks, |_| ()) == expected, "{}", policy.name());
            assert_eq!(pool.report()[1].lost, None);
        }
    }
}

fn what_a_module_takes_nothing_of_is_not_waited_for() {
    let (mut rng, set) = (ChaCha20Rng::from_seed([5; 32]), SetKey::from_bytes(&[3; 32]).unwrap());
    let stanzas = Stanzas::new(vec![Stanza::for_age(vec![1]).unwrap()]).unwrap();
    let (layout, meta) = (Layout::with_chunks(Suite::Gcm, 12).unwrap(), Meta::new(Kind::Stream, b"", 0));
    let (mut sealing, head) = Sealing::begin(&set, &stanzas, layout, &meta, &mut rng).unwrap();
    let texts: Vec<Vec<u8>> = (0..200).map(|at| vec![at as u8; 4096]).collect();
    let mut seal = |(at, text): (usize, &Vec<u8>)| {
        let chunk = sealing.chunk(text.clone(), at == 199, &mut rng).unwrap();
        process(&[&chunk], &PortableGcm).remove(0).unwrap().to_vec()
    };
    let (sealed, head): (Vec<Vec<u8>>, _) =
        (texts.iter().enumerate().map(&mut seal).collect(), Head::decode(&head).unwrap());
    for policy in [Policy::Module, Policy::Queue, Policy::Best] {
        let mut opening = Opening::with_key(&head, &set).unwrap();
        let to_open = sealed.iter().enumerate().map(|(at, chunk)| opening.chunk(chunk.clone(), at == 199).unwrap());
        let limits = Limits { patience_ns: 10_000_000_000, ..Limits::default() };
        let module: Vec<Box<dyn Module>> = vec![Box::new(Emulated::start(&EmulatedOptions::default()).unwrap())];
        let model = Some(worthwhile());
        let pool = Pool::start(Options { core: Some(0), limits, model, ..options(policy, module) }).unwrap();
        let began = Instant::now();
        assert!(run(&pool, to_open.collect(), |_| ()) == texts, "{}", policy.name());
        assert!(began.elapsed() < Duration::from_secs(8), "{}: waited for what was never handed over", policy.name());
        assert_eq!(pool.report().iter().map(|engine| engine.done.items).sum::<u64>(), 200);
    }
}

/// A module that counts its batches at one time.
struct Counted {
    module: Emulated,
    has: usize,
    most: Arc<AtomicUsize>,
    /// How often it got more than its room.
    too_much: Arc<AtomicUsize>,
}

impl Module for Counted {
    fn name(&self) -> &'static str {
        "counted"
    }

    fn label(&self) -> &'static str {
        "emulated-module"
    }

    fn takes(&self, chunk: &Chunk) -> bool {
        self.module.takes(chunk)
    }

    fn seal(&mut self, chunks: &[&Chunk]) -> Result<Rooms, ModuleError> {
        self.module.seal(chunks)
    }

    fn pipelined(&mut self) -> Option<&mut dyn Pipelined> {
        Some(self)
    }
}

impl Pipelined for Counted {
    fn fits(&self, chunks: &[&Chunk]) -> bool {
        self.module.fits(chunks)
    }

    fn begin(&mut self, chunks: &[&Chunk]) -> Result<u64, ModuleError> {
        self.too_much.fetch_add(usize::from(!self.module.fits(chunks)), Relaxed);
        self.has += 1;
        self.most.fetch_max(self.has, Relaxed);
        self.module.begin(chunks)
    }

    fn is_done(&self, within: Duration) -> bool {
        self.module.is_done(within)
    }

    fn end(&mut self) -> Result<Answers, ModuleError> {
        self.has -= 1;
        self.module.end()
    }
}

fn where_others_want_the_cores_a_module_has_more_batches_and_all_is_right() {
    for (available, bytes, least, most) in
        [(1.0, 1000, 1, 2), (0.5, 1000, 3, 8), (1.0, 16_384, 1, 2), (0.5, 16_384, 3, 8)]
    {
        let (chunks, expected) = chunks(Suite::CbcHmac, &vec![bytes; 2000]);
        let slow = EmulatedOptions { bytes_per_second: 100_000_000, ..EmulatedOptions::default() };
        let (found, too_much) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let emulated = Emulated::start(&slow).unwrap();
        let module = Counted { module: emulated, has: 0, most: found.clone(), too_much: too_much.clone() };
        let limits = Limits { patience_ns: 10_000_000_000, ..Limits::default() };
        let model = Some(Model { available, ..worthwhile() });
        let modules: Vec<Box<dyn Module>> = vec![Box::new(module)];
        let pool = Pool::start(Options { core: Some(0), limits, model, ..options(Policy::Best, modules) }).unwrap();
        assert!(run(&pool, chunks, |_| ()) == expected, "{available} {bytes}");
        let found = found.load(Relaxed);
        assert_eq!(too_much.load(Relaxed), 0, "more than there is room for");
        assert!(pool.report().iter().all(|engine| engine.lost.is_none() && engine.done.stalls == 0));
        assert!((least..=most).contains(&found), "{found} batches of {bytes} B at once, {available} of the core");
        assert_eq!(pool.report().iter().map(|engine| engine.done.items).sum::<u64>(), 2000);
    }
}

fn a_module_may_be_slower_than_its_core_and_is_when_told_so() {
    let (chunks, _) = chunks(Suite::CbcHmac, &vec![65_536; 64]);
    let chunks: Vec<&Chunk> = chunks.iter().collect();
    let took = |options: &EmulatedOptions| {
        let mut module = Emulated::start(options).unwrap();
        let began = Instant::now();
        for batch in chunks.chunks(8) {
            module.seal(batch).unwrap();
        }
        began.elapsed()
    };
    let slow = EmulatedOptions { bytes_per_second: 20_000_000, engine: EmulatedEngine::OneChain, ..Default::default() };
    assert!(took(&slow) >= Duration::from_millis(200), "4 MiB at 20 MB in a second");
    let delayed = EmulatedOptions { delay: Duration::from_millis(5), ..Default::default() };
    assert!(took(&delayed) >= Duration::from_millis(40));
}

fn both_engines_of_gcm_give_the_same_bytes_and_refuse_the_same() {
    for bytes in [0, 1, 15, 16, 17, 1000, 65_536] {
        let (key, nonce, data) = ([bytes as u8; 32], [9; 12], vec![4; bytes % 50]);
        let mut texts = [vec![7; bytes], vec![7; bytes]];
        let one = RingGcm.seal(&key, &nonce, &data, &mut texts[0]);
        let other = PortableGcm.seal(&key, &nonce, &data, &mut texts[1]);
        assert!(one == other && texts[0] == texts[1], "{bytes}");
        assert!(RingGcm.open(&key, &nonce, &data, &mut texts[0], &one) && texts[0] == vec![7; bytes]);
        let mut wrong = one;
        wrong[3] ^= 4;
        assert!(!RingGcm.open(&key, &nonce, &data, &mut texts[1].clone(), &wrong));
        assert!(!PortableGcm.open(&key, &nonce, &data, &mut texts[1], &wrong));
    }
}

macro_rules! tests {
    ($($name:ident),* $(,)?) => { const TESTS: &[tobari_host::testing::Test] = &[$((stringify!($name), $name)),*]; };
}

tests![
    every_policy_gives_the_bytes_of_the_portable_engine_with_a_module_and_without,
    a_module_that_is_killed_loses_nothing,
    a_module_that_stalls_loses_nothing_and_holds_nobody_up,
    a_module_that_lies_is_found_out_and_the_results_are_right,
    four_thousand_files_of_16_kib_need_8_mib_in_flight,
    no_key_of_a_batch_is_left_in_the_memory_that_is_shared_with_a_module,
    a_module_may_be_slower_than_its_core_and_is_when_told_so,
    both_engines_of_gcm_give_the_same_bytes_and_refuse_the_same,
    the_loops_of_cbc_give_nists_answers,
    modules_give_nists_answers_of_cbc,
    modules_give_nists_answers_of_gcm,
    every_engine_of_gcm_gives_nists_answers_and_refuses_what_it_must,
    a_module_that_reaches_the_hosts_memory_gives_the_same_bytes,
    what_a_module_takes_nothing_of_is_not_waited_for,
    where_others_want_the_cores_a_module_has_more_batches_and_all_is_right,
];

pub(crate) fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().map(String::as_str) == Some(MODULE_VERB) {
        return run_module();
    }
    tobari_host::testing::run_tests(TESTS, &arguments)
}
