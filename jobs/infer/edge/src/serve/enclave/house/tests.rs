//! Sessions and the enclave's life, with an enclave without a process.

#![allow(clippy::unwrap_used, reason = "a test")]

use super::*;
use std::ffi::OsString;
use std::sync::atomic::{AtomicU32, Ordering};
use tobari_enclave::{Challenge, Connector, InProcess, Policy, evidence::MAX_EVIDENCE_BYTES};
use tobari_infer::digits::{STYLES, draw};
use tobari_infer::guarded::{Asker, Combination, EnclaveAnswer, Guarded};

fn executable() -> Digest {
    Digest::of_bytes(b"an executable")
}

/// Different seeds, so that no two enclaves draw the same randomness.
static SEEDS: AtomicU32 = AtomicU32::new(0);

/// Starts an enclave in this process.
fn start(configuration: &Configuration, setup: &[u8], _: &[OsString]) -> Result<Started, EnclaveError> {
    let build = |configuration: &Configuration, setup: &[u8], _: &mut ChaCha20Rng| Guarded::build(configuration, setup);
    let rng = ChaCha20Rng::seed_from_u64(SEEDS.fetch_add(1, Ordering::Relaxed).into());
    let enclave = InProcess::start(configuration, setup, &executable(), build, rng)?;
    Ok(Started { enclave: Box::new(enclave), executable: executable(), process: 0 })
}

fn options(combination: Combination) -> EnclaveOptions {
    EnclaveOptions { sessions: 2, images: 2, ..EnclaveOptions::new(combination) }
}

fn house(start: Start, options: &EnclaveOptions) -> EnclaveHost {
    EnclaveHost::with(start, ("digits", &Model::digits().unwrap()), (options, Share::new(100)), None, 1 << 30).unwrap()
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
    let house =
        EnclaveHost::with(start, ("digits", &Model::digits().unwrap()), (&options, Share::new(50)), None, 1 << 30)
            .unwrap();
    let nonce = Nonce([1; 32]);
    let [greedy, other] = ["greedy", "other"].map(|name| Origin::Token(name.into()));
    let taken = (0..9).filter(|_| house.report(&nonce, &greedy).is_ok()).count();
    assert_eq!(taken, 2);
    let refused = house.report(&nonce, &greedy).err().unwrap();
    assert!(refused.word == "sessions" && refused.text.contains("--client-share"), "{}", refused.text);
    assert!(house.report(&nonce, &other).is_ok());
}
