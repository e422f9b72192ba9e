//! A small job, and a client and a host for it.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{CryptoRng, SeedableRng};
use std::cell::Cell;
use std::rc::Rc;
use tobari_enclave::{
    Challenge, ClientChannel, Configuration, Connector, Digest, Enclave, Handler, InProcess, Message, OutputPolicy,
    Party, Policy, Refused, Script, SessionId, Size, Step,
};

pub(crate) const ASK: u8 = 1;
pub(crate) const WORK: u8 = 2;
pub(crate) const END: u8 = 3;
pub(crate) const EXECUTABLE: &[u8] = b"the executable";

/// Adds up the numbers of client and host. Live sessions are counted.
pub(crate) struct Sum {
    pub(crate) alive: Rc<Cell<u32>>,
}

pub(crate) struct Own {
    total: u64,
    secret: u64,
    alive: Rc<Cell<u32>>,
}

impl Drop for Own {
    fn drop(&mut self) {
        self.alive.set(self.alive.get() - 1);
    }
}

impl Handler for Sum {
    type Session = Own;

    fn open(&mut self, rng: &mut dyn CryptoRng) -> Result<Own, Refused> {
        self.alive.set(self.alive.get() + 1);
        Ok(Own { total: 0, secret: rng.next_u64(), alive: self.alive.clone() })
    }

    fn handle(
        &mut self,
        own: &mut Own,
        message: Message<'_>,
        reply: &mut Vec<u8>,
        _: &mut dyn CryptoRng,
    ) -> Result<(), Refused> {
        if message.body == b"refuse" {
            return Err(Refused);
        }
        own.total += message.body.iter().map(|byte| u64::from(*byte)).sum::<u64>();
        if message.kind != WORK {
            reply.extend((own.total ^ own.secret).to_be_bytes());
        }
        Ok(())
    }
}

/// The client asks (padded), the host works, the client asks again: twice.
pub(crate) fn configuration() -> Configuration {
    let none = Digest::of_bytes(b"");
    let steps = vec![
        Step { from: Party::Client, kind: ASK, request: Size::Fixed(32), reply: Size::Fixed(16) },
        Step { from: Party::Host, kind: WORK, request: Size::UpTo(10), reply: Size::Fixed(0) },
        Step { from: Party::Client, kind: END, request: Size::UpTo(20), reply: Size::UpTo(8) },
    ];
    Configuration {
        model: Digest::of_bytes(b"model"),
        plan: Digest::of_bytes(b"plan"),
        parameters: none,
        setup: Digest::of_bytes(b"setup"),
        output: OutputPolicy::Top(3),
        max_sessions: 2,
        rounds: 2,
        script: Script::new(steps).unwrap(),
    }
}

pub(crate) type Enclosed = InProcess<Sum, ChaCha20Rng>;

pub(crate) fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}

pub(crate) fn start_with(configuration: &Configuration, executable: &[u8], seed: u8) -> (Enclosed, Rc<Cell<u32>>) {
    let alive = Rc::new(Cell::new(0));
    let job = Sum { alive: alive.clone() };
    let executable = Digest::of_bytes(executable);
    let enclave = InProcess::start(configuration, b"setup", &executable, |_, _, _| Ok(job), rng(seed)).unwrap();
    (enclave, alive)
}

pub(crate) fn start() -> (Enclosed, Rc<Cell<u32>>) {
    start_with(&configuration(), EXECUTABLE, 1)
}

pub(crate) fn policy() -> Policy {
    Policy::new(vec![Digest::of_bytes(EXECUTABLE)], configuration()).accepting_simulated()
}

/// A session that a client opened, with random numbers of this seed.
pub(crate) fn open(enclave: &mut Enclosed, seed: u8) -> (SessionId, ClientChannel) {
    let challenge = Challenge::new(&mut rng(seed), 1000);
    let evidence = enclave.report(challenge.nonce()).unwrap();
    let attested = challenge.verify(&policy(), &evidence, 1001).unwrap();
    let (channel, key) = Connector::connect(&attested, &mut rng(seed.wrapping_add(100))).unwrap();
    enclave.open(channel.session(), &key).unwrap();
    (channel.session(), channel)
}
