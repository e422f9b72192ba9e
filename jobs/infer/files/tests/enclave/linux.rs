//! Inference with a process enclave: the labels are right, and a killed enclave is noticed.

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use std::process::ExitCode;
use tobari_enclave::{
    Challenge, Configuration, Connector, Enclave, EnclaveError, OutputPolicy, Policy, SessionId, Status,
};
use tobari_host::enclave::{Options, ProcessEnclave, is_inside, run_inside};
use tobari_infer::Model;
use tobari_infer::digits::{STYLES, draw};
use tobari_infer::guarded::{
    Asker, Combination, Counted, EnclaveAnswer, Guarded, Host, HostError, HostSession, Route, Setup,
};
use tobari_lattice::params::NamedSet;

const VERB: &str = "enclave-of-inference";

const TESTS: &[tobari_host::testing::Test] = &[
    (
        "every_combination_and_both_resets_give_the_plain_label_through_a_process",
        every_combination_and_both_resets_give_the_plain_label_through_a_process,
    ),
    (
        "an_enclave_killed_between_two_images_ends_the_session_with_a_clear_error",
        an_enclave_killed_between_two_images_ends_the_session_with_a_clear_error,
    ),
];

pub(crate) fn main() -> ExitCode {
    if is_inside(VERB) {
        return run_inside(|configuration, setup, _| Guarded::build(configuration, setup));
    }
    tobari_host::testing::run_tests(TESTS, &std::env::args().skip(1).collect::<Vec<_>>())
}

fn rng() -> ChaCha20Rng {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).unwrap();
    ChaCha20Rng::from_seed(seed)
}

fn setup(combination: Combination) -> Setup {
    let parameters = NamedSet::from_name("infer-f").unwrap().parameters().unwrap();
    Setup { route: Route::new(combination, &parameters), parameters, model: Model::digits().unwrap() }
}

fn start(setup: &Setup, configuration: &Configuration) -> Counted<ProcessEnclave> {
    Counted::new(ProcessEnclave::start(configuration, &setup.encode(), &Options::new(VERB)).unwrap())
}

fn open(enclave: &mut Counted<ProcessEnclave>, configuration: &Configuration) -> (SessionId, Asker) {
    let policy = Policy::new(vec![*enclave.enclave.executable()], configuration.clone()).accepting_simulated();
    let challenge = Challenge::new(&mut rng(), 1);
    let evidence = enclave.report(challenge.nonce()).unwrap();
    let attested = challenge.verify(&policy, &evidence, 2).unwrap();
    let (channel, key) = Connector::connect(&attested, &mut rng()).unwrap();
    let session = channel.session();
    enclave.open(session, &key).unwrap();
    (session, Asker::new(channel, configuration))
}

fn classify(
    enclave: &mut dyn Enclave,
    session: &mut HostSession<'_>,
    asker: &mut Asker,
    pixels: &[u8],
) -> Result<EnclaveAnswer, HostError> {
    let (answer, _) = session.image(enclave, &asker.image(pixels).unwrap(), &mut rng(), &mut || 0.0)?;
    match asker.heard(answer).unwrap() {
        Some(told) => Ok(told),
        None => {
            let answer = session.ask(enclave, &asker.ask().unwrap())?;
            Ok(asker.told(answer).unwrap())
        }
    }
}

fn every_combination_and_both_resets_give_the_plain_label_through_a_process() {
    let fixed = Model::digits().unwrap().fixed().unwrap();
    for combination in Combination::ALL {
        let setup = setup(combination);
        let configuration = setup.configuration(OutputPolicy::Label, 1, 2).unwrap();
        let mut enclave = start(&setup, &configuration);
        let known = if combination.encrypts_weights() { setup.shape().unwrap() } else { setup.clone() };
        let host = Host::new(&known, 1 << 30).unwrap();
        let (id, mut asker) = open(&mut enclave, &configuration);
        let mut session = host.begin(&mut enclave, id).unwrap();
        for digit in [4, 9] {
            let pixels = draw(digit, &STYLES[1]);
            let told = classify(&mut enclave, &mut session, &mut asker, &pixels).unwrap();
            assert_eq!(told, EnclaveAnswer::Labels(vec![fixed.classify(&pixels).unwrap()]), "{}", combination.name());
        }
        assert!(enclave.traffic.in_bytes > 2 * 784);
        let ended = enclave.close(id);
        assert_eq!(ended, Err(EnclaveError::Refused(Status::UnknownSession)), "the script is at its end");
    }
}

fn an_enclave_killed_between_two_images_ends_the_session_with_a_clear_error() {
    let setup = setup(Combination::MixedPlainReset);
    let configuration = setup.configuration(OutputPolicy::Label, 1, 2).unwrap();
    let mut enclave = start(&setup, &configuration);
    let host = Host::new(&setup, 1 << 30).unwrap();
    let (id, mut asker) = open(&mut enclave, &configuration);
    let mut session = host.begin(&mut enclave, id).unwrap();
    let pixels = draw(4, &STYLES[1]);
    assert_eq!(classify(&mut enclave, &mut session, &mut asker, &pixels).unwrap(), EnclaveAnswer::Labels(vec![4]));
    let killed = std::process::Command::new("kill").args(["-9", &enclave.enclave.process().to_string()]).status();
    assert!(killed.unwrap().success());
    let Err(error) = classify(&mut enclave, &mut session, &mut asker, &pixels) else { panic!("it goes on") };
    assert!(matches!(&error, HostError::Enclave(EnclaveError::Gone(how)) if how.contains("signal 9")), "{error}");
    assert!(error.to_string().ends_with("its sessions are lost"), "{error}");
}
