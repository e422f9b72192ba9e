//! Inference with an enclave: every combination gives the plain label, and a malicious host gains
//! nothing.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use tobari_enclave::{
    Challenge, Configuration, Connector, Digest, Enclave, EnclaveError, InProcess, Measurement, Nonce, Operation,
    OutputPolicy, Policy, Protections, Request, SessionId, Status,
};
use tobari_infer::compile::Compiled;
use tobari_infer::digits::{STYLES, draw};
use tobari_infer::guarded::{
    Asker, Combination, Counted, EnclaveAnswer, Foreign, Guarded, Host, HostError, NetworkSetup, PlainNetwork, Route,
    RouteError, Setup, fuzz_setup,
};
use tobari_infer::program::Input;
use tobari_infer::{Calibration, Map, Model, Stage, Volume, argmax};
use tobari_lattice::ckks::{Ciphertext, Decryptor, Encoder, Evaluator, Plaintext, Scale};
use tobari_lattice::params::{LatticeParameters, NamedSet, Plaintext as Kind};
use tobari_lattice::ring::Seed;
use tobari_lattice::rlwe::SecretKey;
use tobari_lattice::wire;
use zeroize::Zeroizing;

/// Numbers of the script's messages.
const RESULT: u8 = 3;
const FIRST_PART: u8 = 16;
const FIRST_RESET: u8 = 192;

fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

fn setup(combination: Combination) -> Setup {
    setup_over("infer-f", combination)
}

fn setup_over(set: &str, combination: Combination) -> Setup {
    let parameters = NamedSet::from_name(set).unwrap().parameters().unwrap();
    Setup { route: Route::new(combination, &parameters), parameters, model: Model::digits().unwrap() }
}

fn executable() -> Digest {
    Digest::of_bytes(b"an executable")
}

type Inside = InProcess<Guarded, ChaCha20Rng>;

fn start(setup: &Setup, configuration: &Configuration, seed: u64) -> Inside {
    let build = |configuration: &Configuration, setup: &[u8], _: &mut ChaCha20Rng| Guarded::build(configuration, setup);
    InProcess::start(configuration, &setup.encode(), &executable(), build, rng(seed)).unwrap()
}

fn open(enclave: &mut dyn Enclave, configuration: &Configuration) -> (SessionId, Asker) {
    let mut rng = rng(7);
    let policy = Policy::new(vec![executable()], configuration.clone()).accepting_simulated();
    let challenge = Challenge::new(&mut rng, 10);
    let evidence = enclave.report(challenge.nonce()).unwrap();
    let attested = challenge.verify(&policy, &evidence, 11).unwrap();
    let (channel, encapsulated) = Connector::connect(&attested, &mut rng).unwrap();
    let session = channel.session();
    enclave.open(session, &encapsulated).unwrap();
    (session, Asker::new(channel, configuration))
}

/// Sends one image from the client through the host, and returns the answer.
fn classify(
    enclave: &mut dyn Enclave,
    session: &mut tobari_infer::guarded::HostSession<'_>,
    asker: &mut Asker,
    pixels: &[u8],
) -> Result<EnclaveAnswer, HostError> {
    let frame = asker.image(pixels).unwrap();
    let (answer, _) = session.image(enclave, &frame, &mut rng(9), &mut || 0.0)?;
    if let Some(told) = asker.heard(answer).unwrap() {
        return Ok(told);
    }
    let answer = session.ask(enclave, &asker.ask().unwrap())?;
    Ok(asker.told(answer).unwrap())
}

/// The process of a host; it has weights only if they are not encrypted.
fn host(setup: &Setup) -> Host {
    match setup.route.combination.encrypts_weights() {
        true => Host::new(&setup.shape().unwrap(), 1 << 30).unwrap(),
        false => Host::new(setup, 1 << 30).unwrap(),
    }
}

/// Two dense layers, which do not fit any layout for images.
fn dense() -> Model {
    let stage = |name: &str, inputs: usize, outputs: usize| Stage {
        name: name.to_owned(),
        input: Volume::vector(inputs),
        output: Volume::vector(outputs),
        map: Map::Dense { weights: vec![0.0625; inputs * outputs] },
        bias: vec![0.0; outputs],
        weight_bits: 14,
        bias_bits: 14,
    };
    let model = Model::new(vec![stage("first", 16, 8), stage("last", 8, 4)], 0).unwrap();
    model.calibrated(Calibration { margin: 1.0, powers: Vec::new() }).unwrap()
}

#[test]
fn a_model_that_the_usual_layout_does_not_take_gets_another_that_does() {
    for combination in [Combination::ProcessUserData, Combination::ProcessBoth, Combination::EnclaveUserData] {
        let own = setup(combination).route;
        assert_eq!(setup(combination).suited().route, own, "{}", combination.name());
        let setup = Setup { model: dense(), ..setup(combination) };
        assert!(setup.compile().is_err());
        let suited = setup.suited();
        assert_eq!(suited.route.layout, "dense", "{}", combination.name());
        assert!(suited.configuration(OutputPolicy::Label, 1, 1).is_ok());
    }
}

/// A mixture of two digits where the label changes. Errors of encryption may exchange its labels:
/// an enclave that computes with ciphertexts says so, and one in integers is right.
#[test]
fn labels_that_errors_may_exchange_are_told_as_doubtful() {
    let fixed = Model::digits().unwrap().fixed().unwrap();
    let [one, other] = [3, 8].map(|digit| draw(digit, &STYLES[0]));
    let mix = |part: f64| -> Vec<u8> {
        one.iter()
            .zip(&other)
            .map(|(a, b)| ((1.0 - part) * f64::from(*a) + part * f64::from(*b)).round() as u8)
            .collect()
    };
    let first = fixed.classify(&one).unwrap();
    let (mut from, mut to) = (0.0, 1.0);
    for _ in 0..20 {
        let middle = (from + to) / 2.0;
        match fixed.classify(&mix(middle)).unwrap() == first {
            true => from = middle,
            false => to = middle,
        }
    }
    let mut doubtful = 0;
    for combination in Combination::ALL {
        let setup = setup_over(combination.usual_set(), combination);
        let pictures = [mix(from), mix(to), one.clone()];
        let configuration = setup.configuration(OutputPolicy::Label, 1, pictures.len() as u32).unwrap();
        let mut enclave = start(&setup, &configuration, 1);
        let host = host(&setup);
        let (id, mut asker) = open(&mut enclave, &configuration);
        let mut session = host.begin(&mut enclave, id).unwrap();
        for (number, pixels) in pictures.iter().enumerate() {
            let told = classify(&mut enclave, &mut session, &mut asker, pixels).unwrap();
            let right = vec![fixed.classify(pixels).unwrap()];
            match told {
                EnclaveAnswer::Doubtful(_) => {
                    assert!(combination.is_encrypted() && number < 2, "{}, picture {number}", combination.name());
                    doubtful += 1;
                }
                told => assert_eq!(told, EnclaveAnswer::Labels(right), "{}", combination.name()),
            }
        }
    }
    assert!(doubtful >= 6, "{doubtful} of 12");
}

#[test]
fn every_combination_and_both_resets_give_the_plain_label() {
    let fixed = Model::digits().unwrap().fixed().unwrap();
    for combination in Combination::ALL {
        // the parameter set that is the default for this combination
        let setup = setup_over(combination.usual_set(), combination);
        let images = 4;
        let configuration = setup.configuration(OutputPolicy::Label, 2, images).unwrap();
        let mut enclave = Counted::new(start(&setup, &configuration, 1));
        let host = host(&setup);
        let (id, mut asker) = open(&mut enclave, &configuration);
        let mut session = host.begin(&mut enclave, id).unwrap();
        for digit in 0..images as u8 {
            let before = enclave.traffic;
            let pixels = draw(2 * digit + 1, &STYLES[usize::from(digit)]);
            let told = classify(&mut enclave, &mut session, &mut asker, &pixels).unwrap();
            assert_eq!(told, EnclaveAnswer::Labels(vec![fixed.classify(&pixels).unwrap()]), "{}", combination.name());
            let now = enclave.traffic;
            let moved = [now.in_bytes - before.in_bytes, now.out_bytes - before.out_bytes];
            assert_eq!(moved, traffic(combination), "{}: every byte of an image", combination.name());
        }
        let over = enclave.client(id, 1, &[0; 804], &mut Vec::new());
        assert_eq!(
            over,
            Err(EnclaveError::Refused(Status::UnknownSession)),
            "{}: as many images as the script has",
            combination.name()
        );
    }
}

/// Bytes of an image into the enclave and out of it: a frame has 20 bytes besides its message,
/// which is 784 pixels, empty, or a label of 2.
fn traffic(combination: Combination) -> [u64; 2] {
    let frames = [784 + 20 + 20, 20 + 23];
    // lists of ciphertexts: results in, inputs out
    let [results, inputs] = match combination {
        Combination::EnclavePlain | Combination::EnclaveUserData | Combination::EnclaveBoth => return [804, 23],
        Combination::ProcessUserData | Combination::ProcessBoth => [102_514, 2_051_885],
        Combination::MixedPlainReset => [307_542, 770_127],
        Combination::MixedMaskedReset => [307_398, 2_180_844],
    };
    [frames[0] + results, frames[1] + inputs]
}

/// A host that replaces one message, and keeps the original.
struct Tampering<E> {
    enclave: E,
    kind: u8,
    instead: Option<Vec<u8>>,
    kept: Vec<u8>,
}

impl<E: Enclave> Enclave for Tampering<E> {
    fn request(&mut self, request: Request, body: &[u8], reply: &mut Vec<u8>) -> Result<(), EnclaveError> {
        if request.operation == Operation::Host && request.kind == self.kind {
            self.kept = body.to_vec();
            let instead = self.instead.as_deref().unwrap_or(body);
            return self.enclave.request(request, instead, reply);
        }
        self.enclave.request(request, body, reply)
    }

    fn measurement(&self) -> &Measurement {
        self.enclave.measurement()
    }

    fn protections(&self) -> &Protections {
        self.enclave.protections()
    }

    fn stop(&mut self) {
        self.enclave.stop();
    }
}

/// Classifies one image in a fresh enclave; the host passes in `instead` as the result. Returns the
/// answer, and the correct result.
fn with_result(
    setup: &Setup,
    seed: u64,
    pixels: &[u8],
    instead: Option<Vec<u8>>,
) -> (Result<EnclaveAnswer, HostError>, Vec<u8>) {
    let configuration = setup.configuration(OutputPolicy::Label, 1, 1).unwrap();
    let enclave = start(setup, &configuration, seed);
    let mut enclave = Tampering { enclave, kind: RESULT, instead, kept: Vec::new() };
    let host = host(setup);
    let (id, mut asker) = open(&mut enclave, &configuration);
    let mut session = host.begin(&mut enclave, id).unwrap();
    let told = classify(&mut enclave, &mut session, &mut asker, pixels);
    (told, enclave.kept)
}

#[test]
fn another_sessions_result_is_noise_under_a_sessions_own_key_and_leaks_under_a_shared_one() {
    let setup = setup(Combination::MixedPlainReset);
    let (victims, colluders) = (draw(3, &STYLES[0]), draw(1, &STYLES[0]));
    let (told, victim) = with_result(&setup, 1, &victims, None);
    assert_eq!(told.unwrap(), EnclaveAnswer::Labels(vec![3]));
    let (told, _) = with_result(&setup, 2, &colluders, Some(victim.clone()));
    let Err(HostError::Enclave(EnclaveError::Refused(Status::Refused))) = told else { panic!("{told:?}") };
    // the same randomness, hence the same key, in both sessions
    let (told, _) = with_result(&setup, 1, &colluders, Some(victim));
    assert_eq!(told.unwrap(), EnclaveAnswer::Labels(vec![3]), "the colluder is told the victim's label");
}

/// A list of one object.
fn list(object: &[u8]) -> Vec<u8> {
    [&1u32.to_be_bytes()[..], &(object.len() as u32).to_be_bytes(), object].concat()
}

/// A host that keeps the keys and weights it receives, and passes in one of those weights as the
/// result, moved to the answer's level and scale, for which it needs no key.
struct HandingIn<'a, E> {
    enclave: E,
    compiled: &'a Compiled,
    objects: Vec<Vec<u8>>,
    handed: Option<Input>,
}

impl<E> HandingIn<'_, E> {
    fn weight(&mut self) -> Vec<u8> {
        let (compiled, last) = (self.compiled, self.compiled.len() - 1);
        let (level, scale) = (compiled.stage(last).manner.results(), &compiled.scales(last).results);
        let inputs = compiled.keys().into_iter().chain(compiled.constants());
        // the first weight with different numbers in the slots of the logits: a label reveals
        // something about it
        let found = inputs.zip(&self.objects).find(|(input, _)| {
            matches!(input, Input::Weight { .. })
                && compiled.place(*input).is_some_and(|(_, primes)| primes > level)
                && {
                    let [least, most] = extremes(&numbers(compiled, *input));
                    most - least > 1e-3
                }
        });
        let (input, bytes) = found.unwrap();
        let weight = wire::decode_ckks_seeded_ciphertext(bytes, compiled.parameters()).unwrap().expand();
        let evaluator = Evaluator::new(compiled.parameters()).unwrap().unbounded();
        let low = evaluator.to_level(&weight, level + 1).unwrap();
        self.handed = Some(input);
        list(&wire::encode_ckks_ciphertext(&evaluator.set_scale(&low, scale).unwrap()).unwrap())
    }
}

impl<E: Enclave> Enclave for HandingIn<'_, E> {
    fn request(&mut self, request: Request, body: &[u8], reply: &mut Vec<u8>) -> Result<(), EnclaveError> {
        if request.operation == Operation::Host && request.kind == RESULT {
            let weight = self.weight();
            return self.enclave.request(request, &weight, reply);
        }
        self.enclave.request(request, body, reply)?;
        if request.operation == Operation::Host && (FIRST_PART..FIRST_RESET).contains(&request.kind) {
            self.objects.extend(objects(reply));
        }
        Ok(())
    }

    fn measurement(&self) -> &Measurement {
        self.enclave.measurement()
    }

    fn protections(&self) -> &Protections {
        self.enclave.protections()
    }

    fn stop(&mut self) {
        self.enclave.stop();
    }
}

/// The numbers of a weight in the slots of the logits.
fn numbers(compiled: &Compiled, input: Input) -> Vec<f64> {
    let last = compiled.len() - 1;
    let weights = compiled.slots(input).unwrap().into_owned();
    compiled.stage(last).linear.read(&[weights], compiled.outputs(last))
}

/// The smallest and the largest number.
fn extremes(numbers: &[f64]) -> [f64; 2] {
    [f64::min, f64::max].map(|of| numbers.iter().copied().fold(numbers[0], of))
}

/// The objects of a list.
fn objects(list: &[u8]) -> Vec<Vec<u8>> {
    let (mut rest, mut objects) = (&list[4..], Vec::new());
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (object, after) = after.split_at(u32::from_be_bytes(*length) as usize);
        objects.push(object.to_vec());
        rest = after;
    }
    objects
}

#[test]
fn a_weight_handed_in_as_the_result_gives_an_index_and_no_more() {
    // In `wide` each weight has one number in all slots of the logits, so a host would have to
    // rotate it first. In this layout the numbers differ.
    let mut setup = setup(Combination::ProcessBoth);
    "balanced".clone_into(&mut setup.route.layout);
    for output in [OutputPolicy::Rounded(8), OutputPolicy::Scores] {
        assert!(matches!(setup.configuration(output, 1, 1), Err(RouteError::Output { .. })), "{output:?}");
    }
    let compiled = setup.compile().unwrap().unwrap();
    let configuration = setup.configuration(OutputPolicy::Label, 1, 1).unwrap();
    let enclave = start(&setup, &configuration, 5);
    let mut enclave = HandingIn { enclave, compiled: &compiled, objects: Vec::new(), handed: None };
    let host = host(&setup);
    let (id, mut asker) = open(&mut enclave, &configuration);
    let mut session = host.begin(&mut enclave, id).unwrap();
    let told = classify(&mut enclave, &mut session, &mut asker, &draw(1, &STYLES[0])).unwrap();
    // a weight of the model, decrypted under the session's own key: the label reveals the position
    // of its largest number among the slots of the logits
    let numbers = numbers(&compiled, enclave.handed.unwrap());
    let (EnclaveAnswer::Labels(labels) | EnclaveAnswer::Doubtful(labels)) = &told else { panic!("scores") };
    let [least, most] = extremes(&numbers);
    assert!(
        labels.len() == 1 && most - numbers[labels[0]] < 1e-4 && least < most - 1e-3,
        "{labels:?} of {numbers:?}, and nothing else"
    );
    // under another session's key the weight is noise
    let last = compiled.len() - 1;
    let secret = SecretKey::from_seed(compiled.parameters(), Seed::random(&mut rng(3)));
    let encoder = Encoder::new(compiled.parameters()).unwrap();
    let slots: Vec<f64> = (0..4096).map(|slot| if slot % 16 == 5 { 0.75 } else { 0.0 }).collect();
    let plain = encoder.encode(&slots, &compiled.scales(last).results, 1).unwrap();
    let foreign = plain.encrypt_seeded(&secret, &mut rng(4)).unwrap().expand();
    let (told, _) =
        with_result(&setup, 5, &draw(1, &STYLES[0]), Some(list(&wire::encode_ckks_ciphertext(&foreign).unwrap())));
    let Err(HostError::Enclave(EnclaveError::Refused(Status::Refused))) = told else { panic!("{told:?}") };
}

#[test]
fn exact_scores_leave_only_where_the_host_holds_no_ciphertexts() {
    for combination in Combination::ALL {
        let allowed = setup(combination).configuration(OutputPolicy::Scores, 1, 1).is_ok();
        assert_eq!(allowed, combination == Combination::EnclavePlain, "{}", combination.name());
    }
    let setup = setup(Combination::EnclavePlain);
    let pixels = draw(6, &STYLES[2]);
    let logits = setup.model.fixed().unwrap().logits(&pixels).unwrap();
    let mut order: Vec<usize> = (0..10).collect();
    order.sort_by_key(|class| std::cmp::Reverse(logits[*class]));
    let bits = setup.model.logit_bits();
    let rounded = logits.iter().map(|u| (u * 2i64.pow(bits as u32 + 4) + (1 << 23)) >> 24).collect();
    for (output, expected) in [
        (OutputPolicy::Scores, EnclaveAnswer::Scores(logits.clone())),
        (OutputPolicy::Rounded(4), EnclaveAnswer::Scores(rounded)),
        (OutputPolicy::Top(3), EnclaveAnswer::Labels(order[..3].to_vec())),
    ] {
        let configuration = setup.configuration(output, 1, 1).unwrap();
        let mut enclave = start(&setup, &configuration, 1);
        let host = Host::new(&setup, 0).unwrap();
        let (id, mut asker) = open(&mut enclave, &configuration);
        let mut session = host.begin(&mut enclave, id).unwrap();
        let told = classify(&mut enclave, &mut session, &mut asker, &pixels).unwrap();
        assert_eq!((told.label(), told), (argmax(&logits), expected));
    }
}

#[test]
fn a_reset_beyond_the_script_ends_the_session() {
    for combination in [Combination::MixedPlainReset, Combination::MixedMaskedReset, Combination::ProcessUserData] {
        let setup = setup(combination);
        let configuration = setup.configuration(OutputPolicy::Label, 1, 1).unwrap();
        let enclave = start(&setup, &configuration, 1);
        let mut enclave = Tampering { enclave, kind: FIRST_RESET, instead: None, kept: Vec::new() };
        let host = host(&setup);
        let (id, mut asker) = open(&mut enclave, &configuration);
        let mut session = host.begin(&mut enclave, id).unwrap();
        let frame = asker.image(&draw(1, &STYLES[0])).unwrap();
        // a reset before the image
        let ended = enclave.host(id, FIRST_RESET, &[], &mut Vec::new());
        assert_eq!(ended, Err(EnclaveError::Refused(Status::OutOfOrder)));
        let gone = session.image(&mut enclave, &frame, &mut rng(1), &mut || 0.0);
        assert!(matches!(gone, Err(HostError::Enclave(EnclaveError::Refused(Status::UnknownSession)))));
        // the first reset again, in place of the second or of the result
        let (id, mut asker) = open(&mut enclave, &configuration);
        let mut session = host.begin(&mut enclave, id).unwrap();
        let frame = asker.image(&draw(1, &STYLES[0])).unwrap();
        session.image(&mut enclave, &frame, &mut rng(1), &mut || 0.0).unwrap();
        let kept = std::mem::take(&mut enclave.kept);
        let again = enclave.host(id, FIRST_RESET, &kept, &mut Vec::new());
        assert_eq!(again, Err(EnclaveError::Refused(Status::OutOfOrder)));
        let frame = asker.heard(vec![0; 20]).map(|_| ());
        assert!(frame.is_err());
    }
}

#[test]
fn masks_hide_which_of_two_extremes_is_behind_them_and_narrow_ones_do_not() {
    let parameters = LatticeParameters::insecure_of_sizes(16, &[50, 26], &[50], 2, Kind::Approximate).unwrap();
    let (encoder, evaluator) = (Encoder::new(&parameters).unwrap().within(16.0), Evaluator::new(&parameters).unwrap());
    let (scale, mut rng) = (Scale::power_of_two(26), rng(1));
    let secret = SecretKey::from_seed(&parameters, Seed::random(&mut rng));
    let decryptor = Decryptor::new(&secret, &encoder).unwrap();
    // of 4000 masked values, the count with a positive first coefficient: 2000 with a deviation of
    // 32
    let mut positive = |value: f64, bits: u32| {
        let encrypted = encoder.encode(&[value; 8], &scale, 1).unwrap().encrypt_seeded(&secret, &mut rng).unwrap();
        let encrypted: Ciphertext = encrypted.expand();
        let one = |_: &i32| {
            let mask = Plaintext::mask(&parameters, &Seed::random(&mut rng), bits, &scale, 1).unwrap();
            let masked = evaluator.add_plain(&encrypted, &mask).unwrap();
            let seen = decryptor.plaintext(&masked).unwrap().element().clone().inverse();
            parameters.ring().data_primes()[0].modulus().centred(seen.row(0)[0]) > 0
        };
        (0..4000).filter(one).count() as f64
    };
    let wide = Plaintext::mask_bits(&parameters, 1);
    assert_eq!(wide, 47);
    let [high, low] = [16.0, -16.0].map(|value| positive(value, wide));
    assert!((high - low).abs() < 6.0 * 45.0 && (high - 2000.0).abs() < 200.0, "{high} {low}");
    let [high, low] = [16.0, -16.0].map(|value| positive(value, 32));
    assert!(high - low > 600.0, "a mask that is four times as wide as its message shows it: {high} {low}");
}

#[test]
fn resets_beyond_the_budget_of_their_masks_are_refused() {
    let mut setup = setup(Combination::MixedMaskedReset);
    let compiled = setup.compile().unwrap().unwrap();
    let bits = setup.route.distance_bits(&compiled, &setup.model, 1);
    assert!(bits > 30.0, "{bits}");
    assert!((setup.route.distance_bits(&compiled, &setup.model, 1024) - (bits - 10.0)).abs() < 1e-6);
    // masks of one prime less, and so many images that one more would be too many
    setup.route.spare -= 1;
    let bits = setup.route.distance_bits(&setup.compile().unwrap().unwrap(), &setup.model, 1);
    assert!((20.0..50.0).contains(&bits), "{bits}");
    let most = 2f64.powf(bits - 20.0).floor() as u32;
    assert!(setup.configuration(OutputPolicy::Label, 1, most).is_ok());
    let more = setup.configuration(OutputPolicy::Label, 1, most + 1);
    assert!(matches!(more, Err(RouteError::MaskBudget { found }) if found < 20.0));
    setup.route.spare = 0;
    let refused = setup.configuration(OutputPolicy::Label, 1, 1 << 20);
    assert!(matches!(refused, Err(RouteError::MaskBudget { .. })), "masks over one prime hide little");
    setup.route = Route { spare: 1, ..Route::new(Combination::ProcessUserData, &setup.parameters) };
    assert!(matches!(setup.configuration(OutputPolicy::Label, 1, 1), Err(RouteError::Spare)));
}

#[test]
fn sessions_are_capped() {
    let setup = setup(Combination::ProcessUserData);
    let configuration = setup.configuration(OutputPolicy::Label, 3, 1).unwrap();
    let mut enclave = start(&setup, &configuration, 1);
    let host = host(&setup);
    let (first, mut asker) = open(&mut enclave, &configuration);
    let _others: Vec<_> = (0..2).map(|_| open(&mut enclave, &configuration)).collect();
    assert_eq!(enclave.report(&Nonce([0; 32])), Err(EnclaveError::Refused(Status::TooManySessions)));
    let mut session = host.begin(&mut enclave, first).unwrap();
    let told = classify(&mut enclave, &mut session, &mut asker, &draw(7, &STYLES[0])).unwrap();
    assert_eq!(told, EnclaveAnswer::Labels(vec![7]), "the others go on");
    assert!(enclave.report(&Nonce([0; 32])).is_ok(), "one has come free");
}

#[test]
fn a_setup_has_one_byte_string_and_a_configuration_that_is_not_its_own_is_refused() {
    let setup = setup(Combination::MixedMaskedReset);
    let bytes = setup.encode();
    fuzz_setup(&bytes);
    assert_eq!(Setup::decode(&bytes).unwrap().encode(), bytes);
    for at in 0..64 {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        fuzz_setup(&changed);
        fuzz_setup(&bytes[..at]);
        assert!(Setup::decode(&bytes[..at]).is_err());
    }
    let good = setup.configuration(OutputPolicy::Label, 1, 5).unwrap();
    assert!(Guarded::build(&good, &bytes).is_ok());
    let other = Configuration { rounds: 6, ..good.clone() };
    assert!(Guarded::build(&other, &bytes).is_ok(), "another number of images, within the budget");
    let steps = good.script.steps();
    let more = [steps, &steps[steps.len() - 3..]].concat();
    let longer = Configuration { script: tobari_enclave::Script::new(more).unwrap(), ..good.clone() };
    assert!(Guarded::build(&longer, &bytes).is_err(), "another decryption in the script");
    let scores = Configuration { output: OutputPolicy::Scores, ..good.clone() };
    assert!(Guarded::build(&scores, &bytes).is_err());
    let plan = Configuration { plan: Digest::of_bytes(b"another"), ..good };
    assert!(Guarded::build(&plan, &bytes).is_err());
}

/// A network of another kind: logit `c` is the sum of pixels times row `c` of signed bytes.
struct Rows(Vec<u8>);

/// Pixels of such a network.
const PIXELS: usize = 5;

impl Rows {
    /// "rows", and rows.
    fn read(combination: Combination, bytes: &[u8]) -> Option<Foreign> {
        let network = Self::of(bytes).filter(|_| combination == Combination::EnclavePlain)?;
        Some(Foreign::Plain(Box::new(network)))
    }

    fn of(bytes: &[u8]) -> Option<Self> {
        let rows = bytes.strip_prefix(b"rows").filter(|rows| rows.len() % PIXELS == 0)?;
        Some(Self(rows.to_vec()))
    }

    fn setup(rows: &[[i8; PIXELS]]) -> NetworkSetup {
        let bytes: Vec<u8> = b"rows".iter().copied().chain(rows.iter().flatten().map(|w| *w as u8)).collect();
        let network = Box::new(Self::of(&bytes).unwrap());
        NetworkSetup::plain(NamedSet::from_name("infer-f").unwrap().parameters().unwrap(), bytes, network)
    }
}

impl PlainNetwork for Rows {
    fn digest(&self) -> [u8; 32] {
        *Digest::of_bytes(&self.0).as_bytes()
    }

    fn pixels(&self) -> usize {
        PIXELS
    }

    fn classes(&self) -> usize {
        self.0.len() / PIXELS
    }

    fn logits(&self, pixels: &[u8]) -> Option<Zeroizing<Vec<f64>>> {
        let dot = |row: &[u8]| row.iter().zip(pixels).map(|(w, p)| f64::from(*w as i8) * f64::from(*p) / 64.0).sum();
        let logits = self.0.chunks_exact(PIXELS).map(dot).collect();
        (pixels.len() == PIXELS).then_some(Zeroizing::new(logits))
    }
}

#[test]
fn a_network_of_another_kind_runs_inside_and_tells_what_the_policy_allows() {
    let setup = || Rows::setup(&[[1, 0, 0, 0, 0], [0, 2, 0, 0, -1], [-3, 0, 1, 0, 0], [0, 0, 0, 1, 1]]);
    let pixels = [64, 200, 3, 9, 160];
    // 64/64, (400 - 160)/64, (-192 + 3)/64, 169/64
    let logits = [1.0, 3.75, -2.953_125, 2.640_625];
    let scaled = |bits: i32| logits.iter().map(|logit| (logit * 2f64.powi(bits)).round() as i64).collect();
    for (output, expected) in [
        (OutputPolicy::Label, EnclaveAnswer::Labels(vec![1])),
        (OutputPolicy::Top(3), EnclaveAnswer::Labels(vec![1, 3, 0])),
        (OutputPolicy::Rounded(1), EnclaveAnswer::Scores(scaled(1))),
        (OutputPolicy::Rounded(24), EnclaveAnswer::Scores(scaled(24))),
        (OutputPolicy::Scores, EnclaveAnswer::Scores(scaled(24))),
    ] {
        let configuration = setup().configuration(output, 2, 2).unwrap();
        let build = |configuration: &Configuration, setup: &[u8], _: &mut ChaCha20Rng| {
            Guarded::build_any(configuration, setup, Rows::read)
        };
        let mut enclave = InProcess::start(&configuration, &setup().encode(), &executable(), build, rng(1)).unwrap();
        let host = Host::passing_on();
        assert_eq!(host.session_memory().unwrap(), 0);
        let (id, mut asker) = open(&mut enclave, &configuration);
        let (other, mut short) = open(&mut enclave, &configuration);
        let mut session = host.begin(&mut enclave, id).unwrap();
        let mut ends = host.begin(&mut enclave, other).unwrap();
        assert_eq!(classify(&mut enclave, &mut session, &mut asker, &pixels).unwrap(), expected, "{output}");
        // a picture that is too short ends its session, and no other; one that is too long does not
        // leave the client
        let refused = ends.image(&mut enclave, &short.image(&pixels[..4]).unwrap(), &mut rng(9), &mut || 0.0);
        assert!(matches!(refused, Err(HostError::Enclave(EnclaveError::Refused(Status::Refused)))), "{output}");
        assert!(open(&mut enclave, &configuration).1.image(&[0; PIXELS + 1]).is_err());
        assert_eq!(classify(&mut enclave, &mut session, &mut asker, &pixels).unwrap(), expected, "{output}");
    }
    for (output, why) in
        [(OutputPolicy::Top(5), "as there are classes"), (OutputPolicy::Rounded(25), "at most 24 bits")]
    {
        let refused = setup().configuration(output, 1, 1).unwrap_err().to_string();
        assert!(refused.contains("enclave-plain") && refused.contains(why), "{refused}");
    }
    assert!(matches!(Rows::setup(&[]).configuration(OutputPolicy::Label, 1, 1), Err(RouteError::TooLarge)));
    let wide = Rows::setup(&vec![[0; PIXELS]; (1 << 16) + 1]);
    assert!(matches!(wide.configuration(OutputPolicy::Label, 1, 1), Err(RouteError::TooLarge)));
}

#[test]
fn an_enclave_takes_another_kind_of_network_under_its_own_configuration_alone() {
    let (setup, other) = (Rows::setup(&[[1; PIXELS]; 3]), Rows::setup(&[[2; PIXELS]; 3]));
    let bytes = setup.encode();
    let good = setup.configuration(OutputPolicy::Label, 1, 1).unwrap();
    let builds = |configuration: &Configuration, bytes: &[u8]| Guarded::build_any(configuration, bytes, Rows::read);
    assert!(builds(&good, &bytes).is_ok());
    assert_eq!(NetworkSetup::decode(&bytes, Rows::read).unwrap().unwrap().encode(), bytes);
    // another network, and a network that the caller cannot read
    assert!(builds(&good, &other.encode()).is_err() && Guarded::build(&good, &bytes).is_err());
    assert!(Guarded::build_any(&good, &bytes, |_, _| None).is_err());
    let model = Configuration { model: Digest::of_bytes(b"another"), ..good.clone() };
    let output = Configuration { output: OutputPolicy::Scores, ..good.clone() };
    let script = other.configuration(OutputPolicy::Scores, 1, 1).unwrap().script;
    let script = Configuration { script, ..good.clone() };
    assert!([model, output, script].iter().all(|configuration| builds(configuration, &bytes).is_err()));
    // another combination, another layout, and cut bytes
    for at in [1, 2, 5] {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(builds(&good, &changed).is_err(), "byte {at}");
    }
    assert!((0..bytes.len()).all(|length| builds(&good, &bytes[..length]).is_err()));
    // models of this crate are taken as before
    let digits = super::guarded::setup(Combination::EnclavePlain);
    let own = digits.configuration(OutputPolicy::Label, 1, 1).unwrap();
    assert!(builds(&own, &digits.encode()).is_ok());
}
