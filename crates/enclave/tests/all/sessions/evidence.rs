//! Evidence that is rejected, each for its own reason.

use crate::sessions::job::{EXECUTABLE, configuration, policy, rng, start, start_with};
use std::time::Duration;
use tobari_enclave::evidence::EvidenceError;
use tobari_enclave::{
    Attester, Challenge, Configuration, Digest, Enclave, Evidence, Measurement, OutputPolicy, Policy, Protection,
    SimulatedPlatform, State, VerifyError,
};

/// This policy's verdict on this enclave, `seconds` after the challenge.
fn judged(enclave: &mut impl Enclave, policy: &Policy, seconds: u64) -> Result<(), VerifyError> {
    let challenge = Challenge::new(&mut rng(9), 500);
    let evidence = enclave.report(challenge.nonce()).unwrap();
    enclave.close(Evidence::decode(&evidence).unwrap().statement.session).unwrap();
    challenge.verify(policy, &evidence, 500 + seconds).map(|attested| assert!(attested.is_simulated()))
}

#[test]
fn simulated_evidence_is_refused_unless_it_is_asked_for() {
    let (mut enclave, _) = start();
    let closed = Policy::new(vec![Digest::of_bytes(EXECUTABLE)], configuration());
    assert_eq!(judged(&mut enclave, &closed, 0), Err(VerifyError::Simulated));
    assert_eq!(judged(&mut enclave, &closed.accepting_simulated(), 0), Ok(()));
}

#[test]
fn another_executable_is_refused() {
    let (mut enclave, _) = start_with(&configuration(), b"another executable", 1);
    let found = *enclave.measurement();
    assert_eq!(judged(&mut enclave, &policy(), 0), Err(VerifyError::Measurement { found }));
    let mut both = policy();
    both.executables.push(Digest::of_bytes(b"another executable"));
    assert_eq!(judged(&mut enclave, &both, 0), Ok(()));
    let mut none = policy();
    none.executables.clear();
    assert!(judged(&mut enclave, &none, 0).is_err(), "an empty list allows nothing");
}

#[test]
fn any_other_configuration_is_refused() {
    let change: [fn(&mut Configuration); 7] = [
        |c| c.model = Digest::of_bytes(b"another model"),
        |c| c.plan = Digest::of_bytes(b"a plan that leaks more"),
        |c| c.parameters = Digest::of_bytes(b"weaker"),
        |c| c.output = OutputPolicy::Scores,
        |c| c.max_sessions = 1,
        |c| c.rounds = 3,
        |c| c.script = tobari_enclave::Script::new(c.script.steps()[..2].to_vec()).unwrap(),
    ];
    for (number, change) in change.iter().enumerate() {
        let mut other = configuration();
        change(&mut other);
        let (mut enclave, _) = start_with(&other, EXECUTABLE, 1);
        let refused = VerifyError::Configuration { expected: configuration().digest(), found: other.digest() };
        assert_eq!(judged(&mut enclave, &policy(), 0), Err(refused), "change {number}");
    }
}

#[test]
fn evidence_for_another_challenge_is_refused() {
    let (mut enclave, _) = start();
    let first = Challenge::new(&mut rng(1), 0);
    let evidence = enclave.report(first.nonce()).unwrap();
    let second = Challenge::new(&mut rng(2), 0);
    assert_eq!(second.verify(&policy(), &evidence, 0).err(), Some(VerifyError::Nonce), "replayed");
    assert!(first.verify(&policy(), &evidence, 0).is_ok());
}

#[test]
fn evidence_expires_and_time_does_not_go_back() {
    let (mut enclave, _) = start();
    let mut short = policy();
    short.max_age = Duration::from_secs(30);
    assert_eq!(judged(&mut enclave, &short, 31), Err(VerifyError::Expired { age: 31, limit: 30 }));
    let (mut enclave, _) = start();
    assert_eq!(judged(&mut enclave, &short, 30), Ok(()));
    let challenge = Challenge::new(&mut rng(3), 10);
    let evidence = enclave.report(challenge.nonce()).unwrap();
    assert_eq!(challenge.verify(&short, &evidence, 9).err(), Some(VerifyError::Clock));
}

#[test]
fn a_required_measure_that_is_not_in_force_is_refused() {
    let (mut enclave, _) = start();
    let mut strict = policy();
    strict.required = vec![Protection::SystemCallFilter];
    let refused = VerifyError::Protection { protection: Protection::SystemCallFilter, state: State::NotAsked };
    assert_eq!(judged(&mut enclave, &strict, 0), Err(refused));
}

#[test]
fn every_changed_bit_of_evidence_is_refused() {
    let (mut enclave, _) = start();
    let challenge = || Challenge::new(&mut rng(4), 0);
    let evidence = enclave.report(challenge().nonce()).unwrap();
    assert!(challenge().verify(&policy(), &evidence, 0).is_ok());
    for bit in 0..8 * evidence.len() {
        let mut changed = evidence.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(challenge().verify(&policy(), &changed, 0).is_err(), "bit {bit}");
    }
}

#[test]
fn a_platform_key_vouches_for_its_own_words_only() {
    let (mut enclave, _) = start();
    let challenge = Challenge::new(&mut rng(5), 0);
    let mut evidence = Evidence::decode(&enclave.report(challenge.nonce()).unwrap()).unwrap();
    // Anybody can sign another measurement with another key, so simulated evidence is rejected by
    // default.
    let forger = SimulatedPlatform::new(&mut rng(77));
    evidence.measurement = Measurement::new(&Digest::of_bytes(EXECUTABLE), &configuration().digest());
    evidence.statement.channel_key = [9; 32];
    let unsigned = Challenge::new(&mut rng(5), 0).verify(&policy(), &evidence.encode(), 0).err();
    assert_eq!(unsigned, Some(VerifyError::Evidence(EvidenceError::Signature)));
    evidence.proof = forger.prove(&evidence.measurement, &evidence.statement.report_data());
    assert!(challenge.verify(&policy(), &evidence.encode(), 0).is_ok(), "nothing but the flag stands against this");
    let challenge = Challenge::new(&mut rng(5), 0);
    let closed = Policy { accept_simulated: false, ..policy() };
    assert_eq!(challenge.verify(&closed, &evidence.encode(), 0).err(), Some(VerifyError::Simulated));
}
