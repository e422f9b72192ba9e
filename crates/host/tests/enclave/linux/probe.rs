//! A job that follows every command of the tests, including forbidden ones.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use std::time::Duration;
use tobari_enclave::{
    Attested, Challenge, ClientChannel, Configuration, Connector, Digest, Enclave, EnclaveError, Handler, Message,
    OutputPolicy, Party, Policy, Refused, Script, SessionId, Size, Step,
};
use tobari_host::enclave::{CryptoRng, Options, ProcessEnclave};
use zeroize::Zeroizing;

pub(crate) const VERB: &str = "enclave-inside-of-tests";

/// Kinds of messages.
pub(crate) const ECHO: u8 = 1;
pub(crate) const ATTEMPT: u8 = 2;

/// The commands of a message of kind [`ATTEMPT`], by its first byte.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    OpenFile,
    Socket,
    Execute,
    Trace,
    ReadHost,
    Fork,
    Thread,
    KillHost,
    CodeMemory,
    WriteFile,
    Unshare,
    Panic,
    Hang,
    Abort,
    Memory,
    Refuse,
}

pub(crate) const ALL: [Attempt; 16] = [
    Attempt::OpenFile,
    Attempt::Socket,
    Attempt::Execute,
    Attempt::Trace,
    Attempt::ReadHost,
    Attempt::Fork,
    Attempt::Thread,
    Attempt::KillHost,
    Attempt::CodeMemory,
    Attempt::WriteFile,
    Attempt::Unshare,
    Attempt::Panic,
    Attempt::Hang,
    Attempt::Abort,
    Attempt::Memory,
    Attempt::Refuse,
];

/// Keeps the setup bytes from which it is built: a canary, say.
pub(crate) struct Probe {
    setup: Vec<u8>,
}

/// One session's secret, drawn when it opens.
pub(crate) struct Own {
    secret: Zeroizing<Vec<u8>>,
}

impl Probe {
    pub(crate) fn build(_: &Configuration, setup: &[u8], _: &mut dyn CryptoRng) -> Result<Self, Refused> {
        if setup == b"refuse" { Err(Refused) } else { Ok(Self { setup: setup.to_vec() }) }
    }
}

impl Handler for Probe {
    type Session = Own;

    fn open(&mut self, rng: &mut dyn CryptoRng) -> Result<Own, Refused> {
        let mut secret = Zeroizing::new(vec![0; 32]);
        rng.fill_bytes(&mut secret);
        Ok(Own { secret })
    }

    fn handle(
        &mut self,
        own: &mut Own,
        message: Message<'_>,
        reply: &mut Vec<u8>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Refused> {
        match (message.from, message.kind) {
            (Party::Host, ECHO) => reply.extend_from_slice(message.body),
            (Party::Client, ECHO) => {
                // Sends the secret and the setup to the client, and to no other party.
                reply.extend_from_slice(&own.secret);
                reply.extend(&self.setup);
                reply.extend_from_slice(message.body);
            }
            (Party::Host, ATTEMPT) => {
                let (&number, rest) = message.body.split_first().ok_or(Refused)?;
                let attempt = *ALL.get(usize::from(number)).ok_or(Refused)?;
                attempt_it(attempt, rest, &self.setup, rng)?;
                reply.extend(b"it went on");
            }
            _ => return Err(Refused),
        }
        Ok(())
    }
}

fn attempt_it(attempt: Attempt, rest: &[u8], canary: &[u8], rng: &mut dyn CryptoRng) -> Result<(), Refused> {
    let number = || rest.try_into().map(u32::from_be_bytes).unwrap_or(1);
    match attempt {
        Attempt::OpenFile => drop(std::fs::File::open("/etc/hostname")),
        Attempt::Socket => drop(std::net::UdpSocket::bind("127.0.0.1:0")),
        Attempt::Execute => {
            drop(std::os::unix::process::CommandExt::exec(&mut std::process::Command::new("/bin/true")));
        }
        Attempt::WriteFile => drop(std::fs::write("/tmp/tobari-enclave-attempt", canary)),
        Attempt::Thread => drop(std::thread::Builder::new().spawn(|| ()).map(std::thread::JoinHandle::join)),
        Attempt::Trace => system_call(libc::SYS_ptrace, [16, number().into(), 0, 0]),
        Attempt::ReadHost => system_call(libc::SYS_process_vm_readv, [number().into(), 0, 0, 0]),
        Attempt::Fork => system_call(libc::SYS_clone, [17, 0, 0, 0]),
        Attempt::KillHost => system_call(libc::SYS_kill, [number().into(), 9, 0, 0]),
        Attempt::Unshare => system_call(libc::SYS_unshare, [0x1000_0000, 0, 0, 0]),
        Attempt::CodeMemory => {
            let (access, flags) = (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            system_call(libc::SYS_mmap, [0, 4096, access.into(), flags.into()]);
        }
        Attempt::Panic => panic!("the canary is {canary:?}"),
        Attempt::Abort => std::process::abort(),
        Attempt::Hang => loop {
            std::hint::spin_loop();
        },
        Attempt::Memory => memory_and_randomness(rng),
        Attempt::Refuse => return Err(Refused),
    }
    Ok(())
}

#[allow(unsafe_code, reason = "calls that no safe interface has, to see that they are refused")]
fn system_call(number: libc::c_long, [a, b, c, d]: [i64; 4]) {
    // SAFETY: each of these calls is refused before it is looked at; if one were not, none writes
    // to this process's memory.
    let _ = unsafe { libc::syscall(number, a, b, c, d, -1_i64, 0_i64) };
}

/// Allocates, grows, frees and uses much memory, in one piece and in many.
fn memory_and_randomness(rng: &mut dyn CryptoRng) {
    let mut large = vec![1_u8; 40 << 20];
    large.resize(90 << 20, 2);
    let mut small: Vec<Vec<u8>> = (1..5_000).map(|length| vec![3; length]).collect();
    small.retain(|piece| piece.len() % 3 == 0);
    rng.fill_bytes(&mut large[..1 << 20]);
    assert!(large[..1 << 20].iter().any(|byte| *byte != 1));
    let mut map = std::collections::HashMap::new();
    map.insert(1, small);
    drop(large);
    assert_eq!(map.len(), 1);
}

/// Three rounds of: an echo for the host up to 2 MiB, an attempt, and a padded echo for the client.
pub(crate) fn configuration(setup: &[u8]) -> Configuration {
    let (long, short) = (Size::UpTo(2 << 20), Size::UpTo(64));
    let steps = vec![
        Step { from: Party::Host, kind: ECHO, request: long, reply: long },
        Step { from: Party::Host, kind: ATTEMPT, request: short, reply: short },
        Step { from: Party::Client, kind: ECHO, request: Size::Fixed(256), reply: Size::Fixed(1024) },
    ];
    Configuration {
        model: Digest::of_bytes(b"model"),
        plan: Digest::of_bytes(b"plan"),
        parameters: Digest::of_bytes(b"parameters"),
        setup: Digest::of_bytes(setup),
        output: OutputPolicy::Label,
        max_sessions: 3,
        rounds: 3,
        script: Script::new(steps).unwrap(),
    }
}

pub(crate) fn options() -> Options {
    Options::new(VERB)
}

pub(crate) fn start(setup: &[u8]) -> ProcessEnclave {
    ProcessEnclave::start(&configuration(setup), setup, &options()).unwrap()
}

pub(crate) fn rng() -> ChaCha20Rng {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).unwrap();
    ChaCha20Rng::from_seed(seed)
}

/// Opens a session like a client that accepts simulated evidence.
pub(crate) fn open(enclave: &mut ProcessEnclave, setup: &[u8]) -> (SessionId, ClientChannel) {
    let policy = Policy::new(vec![*enclave.executable()], configuration(setup)).accepting_simulated();
    let challenge = Challenge::new(&mut rng(), 100);
    let evidence = enclave.report(challenge.nonce()).unwrap();
    let attested: Attested = challenge.verify(&policy, &evidence, 101).unwrap();
    let (channel, key) = Connector::connect(&attested, &mut rng()).unwrap();
    enclave.open(channel.session(), &key).unwrap();
    (channel.session(), channel)
}

/// Sends an attempt, in the second step of the first round.
pub(crate) fn ask(enclave: &mut ProcessEnclave, attempt: Attempt) -> Result<Vec<u8>, EnclaveError> {
    let (session, _channel) = open(enclave, b"setup");
    let mut reply = Vec::new();
    enclave.host(session, ECHO, b"hello", &mut reply)?;
    assert_eq!(reply, b"hello");
    let mut message = vec![attempt as u8];
    message.extend(std::process::id().to_be_bytes());
    enclave.host(session, ATTEMPT, &message, &mut reply)?;
    Ok(reply)
}

/// Waits a short time until a condition holds.
pub(crate) fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        holds()
    })
}
