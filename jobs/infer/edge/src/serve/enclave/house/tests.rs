//! Sessions and the enclave's life, with an enclave without a process.

#![allow(clippy::unwrap_used, reason = "a test")]

use super::*;
use std::ffi::OsString;
use std::sync::atomic::{AtomicU32, Ordering};
use tobari_enclave::{
    Challenge, Connector, InProcess, OutputPolicy, Policy, VerifyError, evidence::MAX_EVIDENCE_BYTES,
};
use tobari_infer::digits::{STYLES, draw};
use tobari_infer::guarded::{Asker, Combination, EnclaveAnswer, Expected, Guarded, Unexpected};
use tobari_infer::{Normalisation, Volume};
use tobari_infer_deep::model::CompileOptions;
use tobari_infer_deep::settings::EngineKind;
use tobari_infer_deep::{Activation, Graph, Op};

fn executable() -> Digest {
    Digest::of_bytes(b"an executable")
}

/// Different seeds, so that no two enclaves draw the same randomness.
static SEEDS: AtomicU32 = AtomicU32::new(0);

/// Starts an enclave in this process.
fn start(configuration: &Configuration, setup: &[u8], _: &[OsString]) -> Result<Started, EnclaveError> {
    let build = |configuration: &Configuration, setup: &[u8], _: &mut ChaCha20Rng| {
        Guarded::build_any(configuration, setup, clear::read)
    };
    let rng = ChaCha20Rng::seed_from_u64(SEEDS.fetch_add(1, Ordering::Relaxed).into());
    let enclave = InProcess::start(configuration, setup, &executable(), build, rng)?;
    Ok(Started { enclave: Box::new(enclave), executable: executable(), process: 0 })
}

fn options(combination: Combination) -> EnclaveOptions {
    EnclaveOptions { sessions: 2, images: 2, ..EnclaveOptions::new(combination) }
}

fn house(start: Start, options: &EnclaveOptions) -> EnclaveHost {
    house_of(&digits(), start, options).unwrap()
}

fn house_of(model: &AnyModel, start: Start, options: &EnclaveOptions) -> Result<EnclaveHost, String> {
    EnclaveHost::with(start, ("model", model), (options, Share::new(100)), None, 1 << 30)
}

fn digits() -> AnyModel {
    AnyModel::Flat(Model::digits().unwrap())
}

struct Client {
    id: SessionId,
    asker: Asker,
}

impl Client {
    /// Opens a session of a verified enclave.
    fn open(house: &EnclaveHost) -> Result<Self, Reply> {
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        let offer = Offer::decode(&house.offer()).unwrap();
        let policy = Policy::new(vec![executable()], offer.configuration.clone()).accepting_simulated();
        let challenge = Challenge::new(&mut rng, 0);
        let evidence = house.report(challenge.nonce(), &Origin::Unknown)?;
        assert!(evidence.len() <= MAX_EVIDENCE_BYTES);
        let attested = challenge.verify(&policy, &evidence, 0).unwrap();
        let (channel, key) = Connector::connect(&attested, &mut rng).unwrap();
        let id = channel.session();
        house.open_session(id, &key)?;
        Ok(Self { id, asker: Asker::new(channel, &offer.configuration) })
    }

    fn classify(&mut self, house: &EnclaveHost, pixels: &[u8]) -> Result<EnclaveAnswer, Reply> {
        let answer = house.message(self.id, Kind::Image, &self.asker.image(pixels).unwrap())?;
        if let Some(told) = self.asker.heard(answer).unwrap() {
            return Ok(told);
        }
        let answer = house.message(self.id, Kind::Ask, &self.asker.ask().unwrap())?;
        Ok(self.asker.told(answer).unwrap())
    }
}

/// Status and word of a rejection.
fn said<T>(done: Result<T, Reply>) -> (u16, &'static str) {
    let reply = done.err().unwrap();
    (reply.status.as_u16(), reply.word)
}

fn sessions(house: &EnclaveHost) -> usize {
    lock(&house.state).sessions.len()
}

#[test]
fn sessions_are_capped_take_turns_and_end_with_their_images() {
    for combination in [Combination::EnclavePlain, Combination::MixedPlainReset] {
        let house = house(start, &options(combination));
        let (mut one, mut two) = (Client::open(&house).ok().unwrap(), Client::open(&house).ok().unwrap());
        assert_eq!(said(Client::open(&house)), (503, "sessions"));
        for digit in [3, 8] {
            let pixels = draw(digit, &STYLES[0]);
            let label = Model::digits().unwrap().fixed().unwrap().classify(&pixels).unwrap();
            for client in [&mut one, &mut two] {
                assert_eq!(
                    client.classify(&house, &pixels).ok(),
                    Some(EnclaveAnswer::Labels(vec![label])),
                    "{combination:?}"
                );
            }
        }
        assert_eq!(sessions(&house), 0, "{combination:?}: their images are used up");
        assert_eq!(said(house.message(one.id, Kind::Image, &[0; 804])), (404, "session"));
        assert!(Client::open(&house).is_ok());
    }
}

#[test]
fn a_session_that_nobody_opens_or_uses_ends_and_one_in_use_does_not() {
    let later = Duration::from_secs(3600);
    let opening = EnclaveOptions { opening: Duration::ZERO, idle: later, ..options(Combination::EnclavePlain) };
    let waits = house(start, &opening);
    let opened = Client::open(&waits).ok().unwrap();
    let nonce = Nonce([7; 32]);
    for _ in 0..4 {
        assert!(waits.report(&nonce, &Origin::Unknown).is_ok()); // each takes the place of the one before
    }
    waits.sweep();
    assert_eq!(sessions(&waits), 1, "the one that was opened");
    assert!(waits.close(opened.id).is_ok() && sessions(&waits) == 0);
    assert_eq!(said(waits.close(opened.id)), (404, "session"));

    let idle = EnclaveOptions { idle: Duration::ZERO, opening: later, ..options(Combination::EnclavePlain) };
    let idle = house(start, &idle);
    let mut client = Client::open(&idle).ok().unwrap();
    let entry = idle.find(client.id).ok().unwrap();
    {
        let _at_work = entry.stage().unwrap();
        idle.sweep();
        assert_eq!(sessions(&idle), 1, "somebody is at work in it");
        assert_eq!(said(idle.message(client.id, Kind::Image, &[0; 804])), (409, "order"));
    }
    idle.sweep();
    assert_eq!(sessions(&idle), 0);
    assert_eq!(said(client.classify(&idle, &draw(1, &STYLES[0]))), (404, "session"));
}

#[test]
fn whatever_is_out_of_order_or_does_not_open_ends_the_session_and_no_other() {
    let house = house(start, &EnclaveOptions { sessions: 9, ..options(Combination::MixedPlainReset) });
    let mut good = Client::open(&house).ok().unwrap();
    let early = Client::open(&house).ok().unwrap();
    assert_eq!(said(house.message(early.id, Kind::Ask, &[0; 20])), (409, "session"));
    let changed = Client::open(&house).ok().unwrap();
    assert_eq!(said(house.message(changed.id, Kind::Image, &[0; 804])), (409, "session"));
    let short = Client::open(&house).ok().unwrap();
    assert_eq!(said(house.message(short.id, Kind::Image, b"")), (409, "session"));
    let twice = Client::open(&house).ok().unwrap();
    assert_eq!(said(house.open_session(twice.id, &[9; 32])), (409, "session"));
    let evidence = Evidence::decode(&house.report(&Nonce([1; 32]), &Origin::Unknown).ok().unwrap()).unwrap();
    let waiting = evidence.statement.session;
    assert_eq!(said(house.message(waiting, Kind::Image, &[0; 804])), (409, "session"));
    for id in [early.id, changed.id, short.id, twice.id, waiting] {
        assert_eq!(said(house.message(id, Kind::Image, &[0; 804])), (404, "session"), "it has ended");
    }
    let Ok(told) = good.classify(&house, &draw(7, &STYLES[0])) else { panic!("the others go on") };
    assert_eq!(told, EnclaveAnswer::Labels(vec![7]));
    assert_eq!(sessions(&house), 1);
}

/// The number of starts in the test below.
static STARTS: AtomicU32 = AtomicU32::new(0);

/// The second start fails.
fn fails_once(configuration: &Configuration, setup: &[u8], _: &[OsString]) -> Result<Started, EnclaveError> {
    match STARTS.fetch_add(1, Ordering::Relaxed) {
        1 => Err(EnclaveError::Start("no room for another process".to_owned())),
        _ => start(configuration, setup, &[]),
    }
}

#[test]
fn an_enclave_that_ends_takes_its_sessions_with_it_and_is_started_anew_after_a_pause() {
    let house = house(fails_once, &options(Combination::EnclavePlain));
    let (mut finds, mut other) = (Client::open(&house).ok().unwrap(), Client::open(&house).ok().unwrap());
    let running = lock(&house.state).running.clone().unwrap();
    lock(&running.enclave).stop();
    let pixels = draw(5, &STYLES[0]);
    let reply = finds.classify(&house, &pixels).err().unwrap();
    assert_eq!((reply.status.as_u16(), reply.word), (503, "enclave"));
    assert!(reply.text.contains("its sessions are lost: open another session"), "{}", reply.text);
    for client in [&mut finds, &mut other] {
        assert_eq!(said(house.message(client.id, Kind::Image, &[0; 804])), (410, "enclave"));
    }
    for _ in 0..2 {
        let reply = Client::open(&house).err().unwrap();
        assert_eq!((reply.status.as_u16(), reply.word), (503, "enclave"));
        assert!(reply.text.contains("no room for another process"), "{}", reply.text);
    }
    assert_eq!(STARTS.load(Ordering::Relaxed), 2, "it is not tried again at once");
    if let Some((at, _)) = &mut lock(&house.state).failed {
        *at = at.checked_sub(PAUSE).unwrap();
    }
    let Ok(told) = Client::open(&house).and_then(|mut client| client.classify(&house, &pixels)) else {
        panic!("the next one is served")
    };
    assert_eq!(told, EnclaveAnswer::Labels(vec![5]));
    // an enclave that ended unnoticed is found by the next request for evidence, and its client
    // notices nothing
    let running = lock(&house.state).running.clone().unwrap();
    lock(&running.enclave).stop();
    assert!(Client::open(&house).is_ok());
}

#[test]
fn fault_26_one_address_takes_half_of_the_sessions_and_another_has_one() {
    let options = EnclaveOptions { sessions: 4, ..options(Combination::EnclavePlain) };
    let house = EnclaveHost::with(start, ("digits", &digits()), (&options, Share::new(50)), None, 1 << 30).unwrap();
    let nonce = Nonce([1; 32]);
    let [greedy, other] = ["greedy", "other"].map(|name| Origin::Token(name.into()));
    let taken = (0..9).filter(|_| house.report(&nonce, &greedy).is_ok()).count();
    assert_eq!(taken, 2);
    let refused = house.report(&nonce, &greedy).err().unwrap();
    assert!(refused.word == "sessions" && refused.text.contains("--client-share"), "{}", refused.text);
    assert!(house.report(&nonce, &other).is_ok());
}

/// Numbers from -1 to 1 that look random (xorshift).
fn numbers(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

const SIDE: usize = 6;

/// A residual network with ReLU and a maximum pool, and pictures.
fn residual(seed: u64) -> (DeepModel, Vec<Vec<u8>>) {
    residual_by(None, seed)
}

fn residual_by(engine: Option<EngineKind>, seed: u64) -> (DeepModel, Vec<Vec<u8>>) {
    let mut next = numbers(seed);
    let mut weights = |count: usize, size: f64| (0..count).map(|_| size * next()).collect::<Vec<f64>>();
    let input = Volume { channels: 1, height: SIDE, width: SIDE };
    let mut graph = Graph::new(input, Normalisation::standard(1, 0.5, 0.25)).unwrap();
    let mut convolution = |graph: &mut Graph, x: usize, inputs: usize| {
        let op = Op::Convolution {
            channels: 2,
            kernel: [3; 2],
            stride: [1; 2],
            dilation: [1; 2],
            padding: [1; 4],
            groups: 1,
            weights: weights(18 * inputs, 0.7),
            bias: weights(2, 0.2),
        };
        graph.add("convolution", op, &[x]).unwrap()
    };
    let x = convolution(&mut graph, 0, 1);
    let x = graph.add("relu", Op::Activation(Activation::Relu), &[x]).unwrap();
    let pool = Op::MaximumPool { kernel: [2; 2], stride: [2; 2], dilation: [1; 2], padding: [0; 4] };
    let x = graph.add("pool", pool, &[x]).unwrap();
    let y = convolution(&mut graph, x, 2);
    let y = graph.add("sum", Op::Sum { factors: vec![1.0; 2] }, &[x, y]).unwrap();
    let dense = Op::Dense { outputs: 4, weights: weights(72, 0.5), bias: weights(4, 0.5) };
    graph.add("dense", dense, &[y]).unwrap();
    let mut next = numbers(seed + 1);
    let pictures: Vec<Vec<u8>> =
        (0..16).map(|_| (0..SIDE * SIDE).map(|_| (next() * 127.0 + 128.0) as u8).collect()).collect();
    let seen: Vec<&[u8]> = pictures.iter().map(Vec::as_slice).collect();
    let options = CompileOptions { margin: Some(8.0), engine, ..CompileOptions::default() };
    (DeepModel::compile(graph, &seen, options).unwrap(), pictures)
}

/// The classes of a picture, the likeliest first.
fn order(model: &DeepModel, pixels: &[u8]) -> Vec<usize> {
    let logits = model.graph().forward(pixels).unwrap();
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
    order
}

#[test]
fn a_residual_network_runs_in_the_enclave_and_its_labels_are_those_of_the_plain_network() {
    let (model, pictures) = residual(1);
    let served = AnyModel::Deep(Box::new(model.clone()));
    for (tells, count) in [(OutputPolicy::Label, 1), (OutputPolicy::Top(3), 3)] {
        let options = EnclaveOptions { images: 16, tells, ..options(Combination::EnclavePlain) };
        let house = house_of(&served, start, &options).unwrap();
        assert_eq!((house.told().session_bytes, house.told().layout.as_str()), (0, ""));
        let mut client = Client::open(&house).ok().unwrap();
        let mut labels = HashSet::new();
        for pixels in &pictures {
            let order = order(&model, pixels)[..count].to_vec();
            labels.insert(order[0]);
            assert_eq!(client.classify(&house, pixels).ok(), Some(EnclaveAnswer::Labels(order)), "{tells}");
        }
        assert!(labels.len() > 2, "{labels:?}");
        assert_eq!(sessions(&house), 0, "the pictures are used up");
    }
    let options = EnclaveOptions { tells: OutputPolicy::Scores, ..options(Combination::EnclavePlain) };
    let house = house_of(&served, start, &options).unwrap();
    let told = Client::open(&house).and_then(|mut client| client.classify(&house, &pictures[0])).ok().unwrap();
    let EnclaveAnswer::Scores(scores) = told else { panic!("{told:?}") };
    for (score, logit) in scores.iter().zip(model.graph().forward(&pictures[0]).unwrap()) {
        assert!((*score as f64 / f64::from(1 << 24) - logit).abs() <= 2f64.powi(-25), "{score} {logit}");
    }
}

#[test]
fn the_process_computes_the_maps_of_a_residual_network_and_its_labels_are_those_of_the_plain_network() {
    let (model, pictures) = residual_by(Some(EngineKind::Enclave), 1);
    let served = AnyModel::Deep(Box::new(model.clone()));
    for (tells, count) in [(OutputPolicy::Label, 1), (OutputPolicy::Top(3), 3)] {
        let options = EnclaveOptions { images: 16, tells, ..options(Combination::MixedPlainReset) };
        let house = house_of(&served, start, &options).unwrap();
        let told = house.told();
        assert!(told.session_bytes > 0 && told.set == model.settings().sizes.to_string(), "{told:?}");
        let mut client = Client::open(&house).ok().unwrap();
        for pixels in &pictures {
            let order = order(&model, pixels)[..count].to_vec();
            assert_eq!(client.classify(&house, pixels).ok(), Some(EnclaveAnswer::Labels(order)), "{tells}");
        }
        assert_eq!(sessions(&house), 0, "the pictures are used up");
    }
    let wanted = |tells| EnclaveOptions { tells, ..options(Combination::MixedPlainReset) };
    let house = house_of(&served, start, &wanted(OutputPolicy::Rounded(4))).unwrap();
    let told = Client::open(&house).and_then(|mut client| client.classify(&house, &pictures[0])).ok().unwrap();
    let EnclaveAnswer::Scores(scores) = told else { panic!("{told:?}") };
    for (score, logit) in scores.iter().zip(model.graph().forward(&pictures[0]).unwrap()) {
        assert!((*score as f64 / 16.0 - logit).abs() <= 0.04, "{score} {logit}");
    }
    let refused = house_of(&served, start, &wanted(OutputPolicy::Scores)).err().unwrap();
    assert!(refused.contains("exact ones of ciphertexts"), "{refused}");
    // a picture of another size ends its session alone
    let house = house_of(&served, start, &options(Combination::MixedPlainReset)).unwrap();
    let (mut wrong, mut good) = (Client::open(&house).ok().unwrap(), Client::open(&house).ok().unwrap());
    let frame = wrong.asker.image(&pictures[0][1..]).unwrap();
    assert_eq!(said(house.message(wrong.id, Kind::Image, &frame)), (409, "session"));
    let order = order(&model, &pictures[1])[..1].to_vec();
    assert_eq!(good.classify(&house, &pictures[1]).ok(), Some(EnclaveAnswer::Labels(order)));
}

/// The process passes in another session's ciphertexts, the same ones twice, or a wrong number of
/// them: each ends its session, and the others go on.
#[test]
fn a_process_that_changes_a_visit_ends_its_session() {
    use tobari_enclave::Party;
    let (model, pictures) = residual_by(Some(EngineKind::Enclave), 1);
    let house = house_of(&AnyModel::Deep(Box::new(model)), start, &options(Combination::MixedPlainReset)).unwrap();
    let script = house.configuration.script.steps();
    let visits: Vec<u8> = script.iter().filter(|step| step.from == Party::Host).map(|step| step.kind).collect();
    // keys, input, resets, result
    let input = visits.iter().position(|kind| *kind == 2).unwrap();
    assert!(visits.len() > input + 2, "{visits:?}");
    let begin = || {
        let mut client = Client::open(&house).ok().unwrap();
        let frame = client.asker.image(&pictures[0]).unwrap();
        let entry = house.find(client.id).ok().unwrap();
        (client, frame, entry)
    };
    let (one, frame, entry) = begin();
    let (other, other_frame, other_entry) = begin();
    let (mut enclave, mut reply) = (Shared(&entry.running), Vec::new());
    enclave.client(one.id, 1, &frame, &mut reply).unwrap();
    enclave.client(other.id, 1, &other_frame, &mut reply).unwrap();
    let mut of_other = Vec::new();
    Shared(&other_entry.running).host(other.id, 2, &[], &mut of_other).unwrap();
    enclave.host(one.id, 2, &[], &mut reply).unwrap();
    // fresh ciphertexts are no results: another session's, or its own
    let refused = enclave.host(one.id, visits[input + 1], &of_other, &mut reply).unwrap_err();
    assert!(matches!(refused, EnclaveError::Refused(_)), "{refused}");
    // it has ended
    assert!(enclave.host(one.id, visits[input + 1], &of_other, &mut reply).is_err());
    // the other session is at its next visit, and refuses to go back
    assert!(enclave.host(other.id, 2, &[], &mut reply).is_err());
    house.close(one.id).ok();
    house.close(other.id).ok();
    let mut client = Client::open(&house).ok().unwrap();
    assert!(client.classify(&house, &pictures[1]).is_ok());
}

#[test]
fn a_picture_of_another_size_ends_its_session_and_the_other_goes_on() {
    let (model, pictures) = residual(2);
    let house = house_of(&AnyModel::Deep(Box::new(model.clone())), start, &options(Combination::EnclavePlain)).unwrap();
    let (mut wrong, mut good) = (Client::open(&house).ok().unwrap(), Client::open(&house).ok().unwrap());
    let frame = wrong.asker.image(&pictures[0][1..]).unwrap();
    let reply = house.message(wrong.id, Kind::Image, &frame).unwrap_err();
    assert_eq!((reply.status.as_u16(), reply.word), (409, "session"));
    assert!(!reply.text.contains("35") && !reply.text.contains("picture"), "{}", reply.text);
    assert_eq!(said(house.message(wrong.id, Kind::Image, &frame)), (404, "session"));
    let told = good.classify(&house, &pictures[1]).ok();
    assert_eq!(told, Some(EnclaveAnswer::Labels(order(&model, &pictures[1])[..1].to_vec())));
    let mut long = Client::open(&house).ok().unwrap();
    assert!(long.asker.image(&[0; SIDE * SIDE + 1]).is_err(), "it does not leave the client");
}

#[test]
fn evidence_of_another_network_and_other_combinations_are_refused_for_a_residual_network() {
    let (one, other) = (residual(1).0, residual(3).0);
    let open = |model: &DeepModel| {
        house_of(&AnyModel::Deep(Box::new(model.clone())), start, &options(Combination::EnclavePlain)).unwrap()
    };
    let (house, another) = (open(&one), open(&other));
    let [offer, foreign] = [&house, &another].map(|house| Offer::decode(&house.offer()).unwrap());
    let expected = |model: &DeepModel| Expected {
        model: Digest::new(model.digest()),
        combination: Some(Combination::EnclavePlain),
        tells: OutputPolicy::Label,
    };
    assert!(offer.check(&expected(&one)).is_ok());
    assert!(matches!(offer.check(&expected(&other)), Err(Unexpected::Model { .. })));
    // the enclave of the other network cannot show the evidence that the offer of this one needs
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    let policy = Policy::new(vec![executable()], offer.configuration).accepting_simulated();
    let challenge = Challenge::new(&mut rng, 0);
    let evidence = another.report(challenge.nonce(), &Origin::Unknown).ok().unwrap();
    let refused = challenge.verify(&policy, &evidence, 0).unwrap_err();
    assert!(matches!(refused, VerifyError::Configuration { .. }), "{refused}");
    assert_eq!(foreign.configuration.model, Digest::new(other.digest()));

    let model = AnyModel::Deep(Box::new(one));
    for combination in Combination::ALL {
        let opened = house_of(&model, start, &options(combination));
        let Err(why) = opened else {
            assert_eq!(combination, Combination::EnclavePlain);
            continue;
        };
        assert!(why.contains(combination.name()) && why.contains("--infer-enclave enclave-plain"), "{why}");
        let remedy = match combination {
            Combination::MixedPlainReset => "compile the network again with --engine enclave",
            _ => "or without --infer-enclave",
        };
        assert!(why.contains(remedy), "{why}");
    }
}
