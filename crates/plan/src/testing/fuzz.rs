//! The fuzz target of the check: a random program, its plan, and mistakes in both.

use super::{Draw, change, directly, disguise, labelled, readers, run, simulate, squeezed};
use crate::check::{Requirements, Unsound};
use crate::clear::ClearValue;
use crate::plan::Plan;
use crate::program::{Input, Kind, Program, Value};
use crate::site::{Owner, Site};

/// Mistakes that one input makes at most.
const MOST: usize = 24;

/// What became of a plan.
pub type CheckResult = Result<(), Unsound>;

/// Bytes are a program, a site, and mistakes. **Whatever the check accepts a simulator that has the
/// values themselves finds sound**: it reads nothing that is not there, has never more in memory
/// than the site, shows no site what it may not see, and gives the right outputs, in the plan's
/// order and in any other that the run may choose. What it refuses, but for a program that it does
/// not understand, is unsound. Nothing panics.
pub fn fuzz_check(data: &[u8]) {
    judge(data, &mut |_| {});
}

/// [`fuzz_check`], telling what became of each plan.
pub fn judge(data: &[u8], seen: &mut dyn FnMut(&CheckResult)) {
    let mut draw = Draw::Bytes(data);
    let (program, values) = labelled(&mut draw);
    let mut site = Site::blind("fuzzed", 1, 100 + 8 * draw.below(256) as u64);
    let parties = ["ann", "bob"].map(|name| Owner(name.to_owned()));
    site.trusted_by.extend(parties[draw.below(3).min(1)..].iter().cloned());
    site.tier_of = site.trusted_by[draw.below(2).min(site.trusted_by.len())..].to_vec();
    let protect = parties[2 - draw.below(3)..].iter().cloned().collect();
    let requirements = Requirements { protect };
    let mut plan = squeezed(&program, site);
    let outputs = simulate(&plan, &values, |_| {});
    assert_eq!(outputs, directly(&plan.program, &values), "the planner's own plan");
    for _ in 0..MOST {
        let verdict = compare(&plan, &values, &requirements, &mut draw);
        seen(&verdict);
        if draw.is_empty() {
            return;
        }
        let before = plan.clone();
        if draw.below(3) == 0 {
            disguise(&mut plan, &mut draw);
        } else {
            change(&mut plan, &mut draw);
        }
        // mostly on from what is sound: of two mistakes one may hide the other
        if draw.below(4) > 0 && plan.clone().check(&requirements).is_err() {
            seen(&compare(&plan, &values, &requirements, &mut draw));
            plan = before;
        }
    }
}

/// What the check says of a plan, after comparing it with what happens.
fn compare(plan: &Plan, values: &[ClearValue], requirements: &Requirements, draw: &mut Draw<'_>) -> CheckResult {
    let values = &as_described(&plan.program, values);
    let expected = directly(&plan.program, values);
    let sound = expected.is_some() && happens(plan, values, requirements) == expected;
    match plan.clone().check(requirements) {
        Ok(checked) => {
            assert!(sound, "accepted: {plan:?}");
            let (found, peak) = run(&checked, values, 1 + draw.below(3), draw);
            assert!(Some(found) == expected && peak <= plan.site.memory, "run: {plan:?}");
            Ok(())
        }
        Err(refused) => {
            // steps that nobody could do are no matter of plans, and the check has rules of its own
            // for what may come together
            let of_the_program = matches!(refused, Unsound::Step { .. } | Unsound::Mixed { .. });
            assert!(of_the_program || !sound, "refused as {refused}: {plan:?}");
            Err(refused)
        }
    }
}

/// Values that are what the program says of its inputs: a key may be none any more, and a vector
/// one.
fn as_described(program: &Program, values: &[ClearValue]) -> Vec<ClearValue> {
    let described = |(input, value): (&Input, &ClearValue)| match (input.shape.kind, value) {
        (Kind::Key, _) => ClearValue::Key,
        (_, ClearValue::Key) => ClearValue::Integers(vec![1, 2, 3, 4]),
        (_, vector) => vector.clone(),
    };
    program.inputs().iter().zip(values).map(described).collect()
}

/// The outputs, if all goes well and nobody sees what is not for them.
fn happens(plan: &Plan, values: &[ClearValue], requirements: &Requirements) -> Option<Vec<ClearValue>> {
    let (readers, mut seen) = (readers(&plan.program).ok()?, false);
    let outputs = simulate(plan, values, |bench| {
        seen |= bench.memory.keys().any(|value| readers[value.index()].not_at(&plan.site).is_some());
        seen |= bench.tier.keys().any(|value| readers[value.index()].not_in_tier_of(&plan.site).is_some());
    })?;
    let told = |output: &Value| readers[output.index()].noise.is_disjoint(&requirements.protect);
    (!seen && plan.program.outputs().iter().all(told)).then_some(outputs)
}
