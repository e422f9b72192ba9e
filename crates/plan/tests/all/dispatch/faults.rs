//! Modules that slow down, stall and die, and CPUs that other programs use: no item is lost or
//! published twice.

#![allow(clippy::unwrap_used, reason = "a test")]

use super::simulator::{Fault, World, run};
use proptest::prelude::*;
use tobari_plan::dispatch::{Cost, Limits, Model, Policy};

fn model() -> impl Strategy<Value = Model> {
    let part = || (0.0..5_000.0_f64, 1.0..500.0_f64, 0.01..2.0_f64);
    (part(), part(), part(), 1..5_u8, 0.0..1.0_f64).prop_map(|(cpu, device, handing, cores, device_takes)| Model {
        cpu: Cost::linear(cpu.0, cpu.1, cpu.2),
        device: Cost::linear(device.0, device.1, device.2),
        handing: Cost::linear(handing.0, handing.1, handing.2),
        cores: f64::from(cores),
        device_takes,
        available: 1.0,
    })
}

fn fault() -> impl Strategy<Value = Fault> {
    let at = || 0.0..3e6_f64;
    prop_oneof![
        (at(), 1.5..50.0_f64).prop_map(|(at, times)| Fault::Slows(at, times)),
        at().prop_map(Fault::Stalls),
        (at(), 0.0..60e6_f64).prop_map(|(at, long)| Fault::Sleeps(at, long)),
        at().prop_map(Fault::Dies),
        (at(), 0.0..0.95_f64).prop_map(|(at, part)| Fault::Load(at, part)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_item_is_published_exactly_once_whatever_happens(
        (truth, told) in (model(), model()),
        (cpus, modules) in (1..4_usize, 0..3_usize),
        load in 0.0..0.9_f64,
        faults in prop::collection::vec(fault(), 0..3),
        sizes in prop::collection::vec(prop_oneof![0..64_u32, 0..20_000_u32, Just(65_536)], 1..300),
        (cpu_items, module_items, module_batches) in (1..70_u32, 1..70_u32, 1..9_u32),
        in_flight_bytes in 1..2_000_000_u64,
    ) {
        let limits = Limits { in_flight_bytes, cpu_items, module_items, module_batches, ..Limits::default() };
        let world = World { cpus, modules, truth, told, load, faults, limits };
        for policy in Policy::ALL {
            let outcome = run(&world, policy, &sizes);
            prop_assert!(outcome.published.iter().all(|count| *count == 1), "{}", policy.name());
            let largest = u64::from(*sizes.iter().max().unwrap());
            prop_assert!(outcome.most_in_flight <= in_flight_bytes.max(largest));
        }
    }
}

fn world(faults: Vec<Fault>) -> World {
    let truth = Model {
        cpu: Cost::linear(300.0, 40.0, 0.6),
        device: Cost::linear(2_000.0, 40.0, 0.3),
        handing: Cost::linear(3_000.0, 100.0, 0.05),
        cores: 1.0,
        device_takes: 0.0,
        available: 1.0,
    };
    World { cpus: 1, modules: 1, told: truth.clone(), truth, load: 0.0, faults, limits: Limits::default() }
}

#[test]
fn after_a_module_died_or_stalled_best_is_about_as_fast_as_the_cpu_alone() {
    let sizes = vec![16_384; 4000];
    let alone = run(&world(Vec::new()), Policy::Cpu, &sizes).ns;
    for fault in [Fault::Dies(2e6), Fault::Stalls(2e6), Fault::Slows(2e6, 40.0)] {
        for module_batches in [2, 8] {
            let limits = Limits { module_batches, ..Limits::default() };
            let outcome = run(&World { limits, ..world(vec![fault]) }, Policy::Best, &sizes);
            assert!(outcome.published.iter().all(|count| *count == 1));
            assert!(outcome.by_module > 0, "{fault:?}");
            assert!(outcome.ns < 1.03 * alone, "{fault:?}, {module_batches} batches: {} of {alone}", outcome.ns);
        }
    }
}

#[test]
fn a_module_that_sleeps_is_used_again_when_it_wakes() {
    let sizes = vec![16_384; 20_000];
    let asleep = run(&world(vec![Fault::Stalls(5e6)]), Policy::Best, &sizes);
    let woken = run(&world(vec![Fault::Sleeps(5e6, 40e6)]), Policy::Best, &sizes);
    assert!(woken.stalls > 0 && woken.ns < 0.8 * asleep.ns, "{} {}", woken.ns, asleep.ns);
}

#[test]
fn a_module_that_stalls_at_the_end_is_not_waited_for() {
    // Long before the module is late, the CPU takes the waiting items, and then all of the
    // module's, batch by batch.
    let sizes = vec![16_384; 400];
    let alone = run(&world(Vec::new()), Policy::Cpu, &sizes).ns;
    for (module_batches, module_items, at) in [(1, 8, 1e6), (2, 8, 1e6), (2, 64, 1e6), (8, 8, 5e5), (8, 64, 1e6)] {
        let limits = Limits { module_batches, module_items, patience_ns: 1_000_000_000, ..Limits::default() };
        let outcome = run(&World { limits, ..world(vec![Fault::Stalls(at)]) }, Policy::Best, &sizes);
        assert!(outcome.published.iter().all(|count| *count == 1) && outcome.stalls == 0);
        let what = format!("{module_batches} batches of {module_items}");
        assert!(outcome.by_module > 0 && outcome.ns < alone, "{what}: {} of {alone}", outcome.ns);
    }
}

#[test]
fn when_the_cpu_is_busy_the_module_gets_more() {
    let sizes = vec![16_384; 4000];
    let part = |faults| run(&world(faults), Policy::Best, &sizes).by_module;
    assert!(part(vec![Fault::Load(0.0, 0.9)]) > part(Vec::new()) + 200);
}
