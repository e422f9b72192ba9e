//! Secrecy: labels, sites, and plans that would leak.

use tobari_plan::check::{Requirements, Unsound, labels};
use tobari_plan::cost::Costs;
use tobari_plan::plan::{Plan, plan};
use tobari_plan::program::{Input, Kind, Op, Program, Shape, Value};
use tobari_plan::site::{Guard, KeyDomain, Owner, Secrecy, Site};

fn encrypted(key: &str) -> Secrecy {
    Secrecy::Encrypted { key: KeyDomain(key.to_owned()) }
}

fn secret(owner: &str) -> Secrecy {
    Secrecy::Secret { owner: Owner(owner.to_owned()) }
}

fn shape(kind: Kind, level: u16) -> Shape {
    Shape { kind, level, resident: 100, packed: 100, raw: 100 }
}

/// A program of one step on inputs of these kinds and labels.
fn one(op: Op, inputs: &[(Kind, Secrecy)], made: Shape) -> Program {
    let mut program = Program::default();
    for (kind, secrecy) in inputs {
        let input = Input { name: "an input".to_owned(), shape: shape(*kind, 2), secrecy: secrecy.clone() };
        program.add_input(input).unwrap();
    }
    let args: Vec<Value> = program.values().collect();
    let result = program.add_step(op, &args, made).unwrap();
    program.set_outputs(&[result]).unwrap();
    program
}

fn at(program: Program, site: Site) -> Plan {
    plan(program, site, &Costs::unmeasured()).unwrap()
}

fn blind() -> Site {
    Site::blind("server", 1, 1_000)
}

fn protecting(owner: &str) -> Requirements {
    Requirements { protect: [Owner(owner.to_owned())].into() }
}

#[test]
fn what_comes_of_two_keys_is_refused() {
    let two = [(Kind::Encrypted, encrypted("a")), (Kind::Encrypted, encrypted("b"))];
    let program = one(Op::Add, &two, shape(Kind::Encrypted, 2));
    assert!(matches!(labels(&program), Err(Unsound::Mixed { step: 0, .. })));
    let keyed = [(Kind::Encrypted, encrypted("a")), (Kind::Key, encrypted("b"))];
    let program = one(Op::Rotate(1), &keyed, shape(Kind::Encrypted, 2));
    assert!(matches!(labels(&program), Err(Unsound::WrongKey { step: 0, .. })));
}

#[test]
fn two_owners_secrets_in_the_clear_are_refused_and_so_are_masked_products() {
    let program = one(Op::Add, &[(Kind::Plain, secret("a")), (Kind::Plain, secret("b"))], shape(Kind::Plain, 2));
    assert!(matches!(labels(&program), Err(Unsound::Mixed { .. })));
    let masked = Secrecy::Masked { by: Owner("a".to_owned()) };
    let program = one(Op::Mul, &[(Kind::Plain, masked.clone()), (Kind::Plain, Secrecy::Public)], shape(Kind::Plain, 2));
    assert!(matches!(labels(&program), Err(Unsound::Mixed { .. })));
    let program = one(Op::Add, &[(Kind::Plain, masked.clone()), (Kind::Plain, Secrecy::Public)], shape(Kind::Plain, 2));
    assert_eq!(labels(&program).unwrap()[2].secrecy, masked);
}

#[test]
fn a_ciphertext_never_meets_its_key_in_a_plain_process() {
    let program = || one(Op::Neg, &[(Kind::Encrypted, encrypted("client"))], shape(Kind::Encrypted, 2));
    at(program(), blind()).check(&Requirements::default()).unwrap();
    let mut knowing = blind();
    knowing.keys.push(KeyDomain("client".to_owned()));
    let refused = at(program(), knowing.clone()).check(&Requirements::default()).unwrap_err();
    assert!(matches!(refused, Unsound::MayNotHold { .. }), "{refused}");
    knowing.guard = Guard::SimulatedEnclave;
    at(program(), knowing).check(&Requirements::default()).unwrap();
}

#[test]
fn a_secret_stays_with_its_owner_and_out_of_others_tiers() {
    let program = || one(Op::Neg, &[(Kind::Plain, secret("bank"))], shape(Kind::Plain, 2));
    let refused = at(program(), blind()).check(&Requirements::default()).unwrap_err();
    assert!(matches!(refused, Unsound::MayNotHold { .. }), "{refused}");
    let mut trusted = blind();
    trusted.trusted_by.push(Owner("bank".to_owned()));
    let mut plan = at(program(), trusted);
    plan.clone().check(&Requirements::default()).unwrap();
    plan.inputs_stored = true;
    let refused = plan.clone().check(&Requirements::default()).unwrap_err();
    assert!(matches!(refused, Unsound::MayNotStore { .. }), "{refused}");
    // unless the disk is also its owner's
    plan.site.tier_of.push(Owner("bank".to_owned()));
    plan.check(&Requirements::default()).unwrap();
}

#[test]
fn noise_that_tells_of_a_secret_does_not_leave_unflooded() {
    let mut model = blind();
    model.trusted_by.push(Owner("hospital".to_owned()));
    let inputs = [(Kind::Encrypted, encrypted("client")), (Kind::Plain, secret("hospital"))];
    let mut program = one(Op::Mul, &inputs, shape(Kind::Encrypted, 2));
    let refused = at(program.clone(), model.clone()).check(&protecting("hospital")).unwrap_err();
    assert!(matches!(refused, Unsound::Unflooded { .. }), "{refused}");
    // without the requirement
    at(program.clone(), model.clone()).check(&protecting("client")).unwrap();
    let product = program.outputs()[0];
    let flooded = program.add_step(Op::Flood(40), &[product], shape(Kind::Encrypted, 2)).unwrap();
    program.set_outputs(&[flooded]).unwrap();
    at(program, model).check(&protecting("hospital")).unwrap();
}

#[test]
fn shapes_that_no_step_makes_are_refused_whoever_says_so() {
    let keyed = [(Kind::Encrypted, encrypted("a")), (Kind::Encrypted, encrypted("a")), (Kind::Key, encrypted("a"))];
    // a product is a level lower
    let program = one(Op::Mul, &keyed, shape(Kind::Encrypted, 2));
    assert!(matches!(labels(&program), Err(Unsound::Step { step: 0, .. })));
    assert!(labels(&one(Op::Mul, &keyed, shape(Kind::Encrypted, 1))).is_ok());
    // a plain argument made for a lower level than the result's
    let mixed = |plain: u16| {
        let mut program = Program::default();
        for (kind, level) in [(Kind::Encrypted, 2), (Kind::Plain, plain)] {
            let input = Input { name: String::new(), shape: shape(kind, level), secrecy: Secrecy::Public };
            program.add_input(input).unwrap();
        }
        let args: Vec<Value> = program.values().collect();
        program.add_step(Op::Mul, &args, shape(Kind::Encrypted, 2)).unwrap();
        labels(&program)
    };
    assert!(mixed(2).is_ok() && mixed(3).is_ok());
    assert!(matches!(mixed(1), Err(Unsound::Step { step: 0, .. })));
    // the step turns an encrypted value into plaintext
    let program = one(Op::Neg, &[(Kind::Encrypted, encrypted("a"))], shape(Kind::Plain, 2));
    assert!(matches!(labels(&program), Err(Unsound::Step { step: 0, .. })));
}
