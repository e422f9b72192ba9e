//! Random programs, planned, checked and run; and plans that are wrong.

use proptest::prelude::*;
use std::collections::BTreeMap;
use tobari_plan::check::{Requirements, Unsound};
use tobari_plan::cost::Costs;
use tobari_plan::page::Instruction;
use tobari_plan::plan::{Forecast, Plan, plan};
use tobari_plan::program::{Encoding, Input, Kind, Op, Program, Shape, Value};
use tobari_plan::site::{Secrecy, Site};
use tobari_plan::testing::{Draw, change, directly, judge, program, run, simulate, squeezed};

fn site(memory: u64) -> Site {
    Site::blind("test", 1, memory)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn limited_runs_in_any_order_give_what_unlimited_ones_give(
        seed: u64, inputs in 1usize..20, steps in 1usize..120, memory in 100u64..4000, units in 1usize..5,
    ) {
        let (program, values) = program(seed, inputs, steps);
        let expected = directly(&program, &values).unwrap();
        let plan = squeezed(&program, site(memory));
        let (limit, forecast) = (plan.site.memory, plan.forecast);
        let checked = plan.check(&Requirements::default()).unwrap();
        let (found, peak) = run(&checked, &values, units, &mut Draw::Seed(seed ^ 77));
        prop_assert_eq!(found, expected);
        prop_assert!(peak <= limit && forecast.peak <= limit);
    }

    #[test]
    fn whatever_is_done_to_a_plan_the_check_agrees_with_a_simulator(
        seed: u64, inputs in 1usize..10, steps in 1usize..40, memory in 100u64..2000, changes in 1usize..4,
    ) {
        let (program, values) = program(seed, inputs, steps);
        let expected = directly(&program, &values).unwrap();
        let (mut draw, mut plan) = (Draw::Seed(seed ^ 99), squeezed(&program, site(memory)));
        for _ in 0..changes {
            change(&mut plan, &mut draw);
        }
        let sound = simulate(&plan, &values, |_| {}).is_some_and(|outputs| outputs == expected);
        let checked = plan.check(&Requirements::default());
        prop_assert_eq!(checked.is_ok(), sound, "{:?}", checked.err());
        if let Ok(checked) = checked {
            prop_assert_eq!(run(&checked, &values, 2, &mut draw).0, expected);
        }
    }
}

/// Runs the fuzz target without a fuzzer, and checks its coverage.
#[test]
fn noise_meets_every_refusal_of_the_check_and_no_disagreement_with_the_simulator() {
    let mut met: BTreeMap<String, usize> = BTreeMap::new();
    for seed in 0..4_000 {
        let mut draw = Draw::Seed(seed);
        let noise: Vec<u8> = (0..draw.below(600)).map(|_| draw.below(256) as u8).collect();
        judge(&noise, &mut |seen| {
            let name = match seen {
                Ok(()) => "sound".to_owned(),
                Err(refused) => name(refused),
            };
            *met.entry(name).or_default() += 1;
        });
    }
    let all = [
        "Encodings",
        "Lost",
        "MayNotHold",
        "MayNotStore",
        "Memory",
        "Mixed",
        "NoInput",
        "NotResident",
        "NotStored",
        "Resident",
        "Step",
        "Stored",
        "Unflooded",
        "Unknown",
        "WrongKey",
        "sound",
    ];
    assert_eq!(met.keys().collect::<Vec<_>>(), all, "{met:?}");
    assert!(met["sound"] > 4_000, "{met:?}");
}

fn name(refused: &Unsound) -> String {
    format!("{refused:?}").split(' ').next().unwrap_or_default().to_owned()
}

#[test]
fn what_fits_does_not_move() {
    let (program, _) = program(5, 10, 50);
    let all = program.bytes()[0];
    let plan = plan(program, site(all), &Costs::unmeasured()).unwrap();
    assert_eq!((plan.forecast.read, plan.forecast.written, plan.forecast.again), (0, 0, 0));
    assert!(!plan.inputs_stored && plan.forecast.seconds == plan.forecast.unlimited);
}

#[test]
fn what_cannot_fit_is_refused_by_its_step() {
    let (program, _) = program(6, 10, 50);
    let error = plan(program.clone(), site(1), &Costs::unmeasured()).unwrap_err();
    assert!(error.to_string().contains("bytes for its arguments and its result, and there are 1"), "{error}");
    let mut nowhere = site(4_000);
    nowhere.tier = false;
    let error = plan(program, nowhere, &Costs::unmeasured()).unwrap_err();
    assert!(error.to_string().contains("tier"), "{error}");
}

/// Sums beyond 2^64 bytes were once counted as 2^64, and more was subtracted than had been added.
#[test]
fn sizes_that_no_number_holds_are_too_much_for_any_memory() {
    let mut program = Program::default();
    let most = Shape { kind: Kind::Plain, level: 0, resident: u64::MAX, packed: 8, raw: 8 };
    for name in ["a", "b"] {
        program.add_input(Input { name: name.to_owned(), shape: most, secrecy: Secrecy::Public }).unwrap();
    }
    let inputs: Vec<Value> = program.values().collect();
    let result = program.add_step(Op::Neg, &inputs[..1], Shape { resident: 1, ..most }).unwrap();
    program.set_outputs(&[result]).unwrap();
    let (resident, drops) = (inputs.clone(), inputs.iter().map(|input| Instruction::Drop(*input)).collect());
    let encodings = vec![Encoding::Raw; 3];
    let (site, forecast) = (site(u64::MAX), Forecast::default());
    let plan = Plan { program, site, instructions: drops, resident, inputs_stored: false, encodings, forecast };
    assert!(matches!(plan.check(&Requirements::default()), Err(Unsound::Memory { at: 0, .. })));
}

#[test]
fn steps_with_one_key_are_done_one_after_another() {
    // 8 keys, each 10 times as large as the values it is used for, used in turn by 32 chains
    let shape = |kind, resident| Shape { kind, level: 0, resident, packed: resident, raw: resident };
    let mut program = Program::default();
    let input = |program: &mut Program, kind, resident| {
        let input = Input { name: String::new(), shape: shape(kind, resident), secrecy: Secrecy::Public };
        program.add_input(input).unwrap()
    };
    let keys: Vec<Value> = (0..8).map(|_| input(&mut program, Kind::Plain, 1000)).collect();
    let vectors: Vec<Value> = (0..32).map(|_| input(&mut program, Kind::Plain, 100)).collect();
    let mut outputs = Vec::new();
    for vector in vectors {
        for key in &keys {
            outputs.push(program.add_step(Op::Mul, &[vector, *key], shape(Kind::Plain, 1)).unwrap());
        }
    }
    program.set_outputs(&outputs).unwrap();
    let plan = plan(program, site(6_000), &Costs::unmeasured()).unwrap();
    // 11,200 bytes of inputs, each read once, and little more
    assert!(plan.forecast.read < 12_000, "{:?}", plan.forecast);
    plan.check(&Requirements::default()).unwrap();
}
