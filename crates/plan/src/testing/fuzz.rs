//! The fuzz target of the check: a random program, its plan, and errors in both.

use super::{Draw, change, directly, disguise, labelled, readers, run, simulate, squeezed};
use crate::check::{Requirements, Unsound};
use crate::clear::ClearValue;
use crate::plan::Plan;
use crate::program::{Input, Kind, Program, Value};
use crate::site::{Owner, Site};

/// The most errors that one input makes.
const MOST: usize = 24;

/// The verdict on a plan.
pub type CheckResult = Result<(), Unsound>;

/// The bytes encode a program, a site, and errors. **A simulator with the values themselves finds
/// every accepted plan sound**: the plan reads nothing that is missing, never has more in memory
/// than the site, shows no site a forbidden value, and gives the right outputs, in the plan's order
/// and in any other that the run may choose. Rejected plans are unsound, except for programs that
/// the check does not understand. Nothing panics.
pub fn fuzz_check(data: &[u8]) {
    judge(data, &mut |_| {});
}

/// [`fuzz_check`], with the verdict on each plan.
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
        // mostly continue from a sound plan: of two errors one may hide the other
        if draw.below(4) > 0 && plan.clone().check(&requirements).is_err() {
            seen(&compare(&plan, &values, &requirements, &mut draw));
            plan = before;
        }
    }
}

/// The verdict of the check, after a comparison with the simulation.
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
            // impossible steps do not concern plans, and the check has its own rules for
            // combinations
            let of_the_program = matches!(refused, Unsound::Step { .. } | Unsound::Mixed { .. });
            assert!(of_the_program || !sound, "refused as {refused}: {plan:?}");
            Err(refused)
        }
    }
}

/// Values as the program describes its inputs: a key may have become a vector, and a vector a key.
fn as_described(program: &Program, values: &[ClearValue]) -> Vec<ClearValue> {
    let described = |(input, value): (&Input, &ClearValue)| match (input.shape.kind, value) {
        (Kind::Key, _) => ClearValue::Key,
        (_, ClearValue::Key) => ClearValue::Integers(vec![1, 2, 3, 4]),
        (_, vector) => vector.clone(),
    };
    program.inputs().iter().zip(values).map(described).collect()
}

/// The outputs, if all goes well and no site sees a forbidden value.
fn happens(plan: &Plan, values: &[ClearValue], requirements: &Requirements) -> Option<Vec<ClearValue>> {
    let (readers, mut seen) = (readers(&plan.program).ok()?, false);
    let outputs = simulate(plan, values, |bench| {
        seen |= bench.memory.keys().any(|value| readers[value.index()].not_at(&plan.site).is_some());
        seen |= bench.tier.keys().any(|value| readers[value.index()].not_in_tier_of(&plan.site).is_some());
    })?;
    let told = |output: &Value| readers[output.index()].noise.is_disjoint(&requirements.protect);
    (!seen && plan.program.outputs().iter().all(told)).then_some(outputs)
}
