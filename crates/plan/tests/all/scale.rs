//! Planning a million steps.

use std::time::Instant;
use tobari_plan::check::Requirements;
use tobari_plan::cost::Costs;
use tobari_plan::plan::plan;
use tobari_plan::program::{Input, Kind, Op, Program, Shape, Value};
use tobari_plan::run::Runner;
use tobari_plan::site::{Secrecy, Site};

#[test]
fn a_million_steps_are_planned_checked_and_asked_for_in_seconds() {
    let shape = |resident| Shape { kind: Kind::Plain, level: 0, resident, packed: resident, raw: resident };
    let mut program = Program::default();
    let input = |i: usize| Input { name: i.to_string(), shape: shape(1 << 20), secrecy: Secrecy::Public };
    let mut recent: Vec<Value> = (0..1_000).map(|i| program.add_input(input(i)).unwrap()).collect();
    let mut state = 1u64;
    for _ in 0..1_000_000 {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let place = (state >> 52) as usize % recent.len();
        let args = [recent[place], recent[(state >> 20) as usize % recent.len()]];
        let made = program.add_step(Op::Add, &args, shape(1 << (16 + state % 5))).unwrap();
        recent[place] = made;
    }
    program.set_outputs(&recent).unwrap();
    let start = Instant::now();
    let plan = plan(program, Site::blind("server", 2, 300 << 20), &Costs::unmeasured()).unwrap();
    let checked = plan.check(&Requirements::default()).unwrap();
    let planned = start.elapsed().as_secs_f64();
    // several times the time on this machine with every check on: only faster growth than expected
    // fails
    assert!(planned < 60.0, "{planned} s");
    let start = Instant::now();
    let (mut runner, _) = Runner::new(&checked);
    let mut asked = 0u64;
    while !runner.is_done() {
        let work = runner.next_step().or_else(|| runner.next_load()).or_else(|| runner.next_store()).unwrap();
        asked += 1;
        runner.finished(work);
    }
    let run = start.elapsed().as_secs_f64();
    println!("planned and checked in {planned:.2} s, {asked} instructions asked for in {run:.2} s");
    assert!(asked > 1_000_000 && run < 60.0, "{run} s");
}
