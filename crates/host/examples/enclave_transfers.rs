//! Measures how long it takes to send a message to an enclave and to get one back, by length, and
//! prints the protections of the process.
//!
//! The time of one direction includes the time of the short answer. On one core, host and enclave
//! copy one after the other; on two cores the two copies overlap.
//!
//! `cargo run --release --package tobari-host --example enclave_transfers`. The enclave is a second
//! process of this executable.

#![allow(clippy::print_stdout, reason = "an example says what it found")]

#[cfg(linux_64)]
mod linux {
    use std::process::ExitCode;
    use std::time::{Duration, Instant};
    use tobari_enclave::{
        Challenge, Configuration, Connector, Digest, Enclave, Handler, Message, OutputPolicy, Party, Policy, Refused,
        Script, Size, Step,
    };
    use tobari_host::enclave::{CryptoRng, Options, ProcessEnclave, is_inside, run_inside};

    const VERB: &str = "enclave-inside-of-an-example";
    /// `IN` sends a message and returns nothing; `OUT` does the reverse.
    const IN: u8 = 1;
    const OUT: u8 = 2;
    const TRIES: u32 = 200;
    const LENGTHS: [u32; 7] = [0, 256, 512, 768, 1024, 1280, 1536];

    /// Receives messages, and returns as many bytes as a request asks for.
    struct Transfers;

    impl Handler for Transfers {
        type Session = ();

        fn open(&mut self, _: &mut dyn CryptoRng) -> Result<(), Refused> {
            Ok(())
        }

        fn handle(
            &mut self,
            (): &mut (),
            message: Message<'_>,
            reply: &mut Vec<u8>,
            _: &mut dyn CryptoRng,
        ) -> Result<(), Refused> {
            if message.kind == OUT {
                let length = u32::from_be_bytes(message.body.try_into().map_err(|_| Refused)?);
                reply.resize(length as usize, 1);
            }
            Ok(())
        }
    }

    fn configuration() -> Result<Configuration, Box<dyn std::error::Error>> {
        let (long, short) = (Size::UpTo(2 << 20), Size::UpTo(16));
        let steps = vec![
            Step { from: Party::Host, kind: IN, request: long, reply: short },
            Step { from: Party::Host, kind: OUT, request: short, reply: long },
        ];
        let none = Digest::of_bytes(b"");
        Ok(Configuration {
            model: none,
            plan: none,
            parameters: none,
            setup: none,
            output: OutputPolicy::Label,
            max_sessions: 1,
            rounds: u32::MAX,
            script: Script::new(steps)?,
        })
    }

    fn median(mut times: Vec<Duration>) -> f64 {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1e6
    }

    fn least(times: &[Duration]) -> f64 {
        times.iter().min().map_or(0.0, Duration::as_secs_f64) * 1e6
    }

    fn measure() -> Result<(), Box<dyn std::error::Error>> {
        let configuration = configuration()?;
        let mut enclave = ProcessEnclave::start(&configuration, b"", &Options::new(VERB))?;
        println!("started in {:.1} ms, measurement {}", enclave.startup().as_secs_f64() * 1e3, enclave.measurement());
        for (what, state) in enclave.protections().lacking() {
            println!("note: {what}: {state}");
        }
        let mut rng = rand_core::UnwrapErr(getrandom::SysRng);
        let challenge = Challenge::new(&mut rng, 0);
        let evidence = enclave.report(challenge.nonce())?;
        let report = enclave.last_request();
        // This program is its own verifier, and knows that there is no enclave hardware.
        let policy = Policy::new(vec![*enclave.executable()], configuration).accepting_simulated();
        let (channel, key) = Connector::connect(&challenge.verify(&policy, &evidence, 0)?, &mut rng)?;
        let session = channel.session();
        enclave.open(session, &key)?;
        println!("a session: evidence {report:.1?}, channel {:.1?}", enclave.last_request());
        println!("{:>9}  {:>10} {:>10}  {:>10} {:>10}", "KiB", "in us", "median", "out us", "median");
        let mut reply = Vec::new();
        for kib in LENGTHS {
            let message = vec![7; kib as usize * 1024];
            let (mut into, mut out) = (Vec::new(), Vec::new());
            for _ in 0..TRIES {
                let began = Instant::now();
                enclave.host(session, IN, &message, &mut reply)?;
                into.push(began.elapsed());
                let began = Instant::now();
                enclave.host(session, OUT, &(kib * 1024).to_be_bytes(), &mut reply)?;
                out.push(began.elapsed());
                if reply.len() != message.len() {
                    return Err("expected a reply of the length asked for, found another".into());
                }
            }
            let [li, lo] = [least(&into), least(&out)];
            println!("{kib:>9}  {li:>10.1} {:>10.1}  {lo:>10.1} {:>10.1}", median(into), median(out));
        }
        enclave.stop();
        Ok(())
    }

    pub(crate) fn main() -> ExitCode {
        if is_inside(VERB) {
            return run_inside(|_, _, _| Ok(Transfers));
        }
        match measure() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                println!("{error}");
                ExitCode::FAILURE
            }
        }
    }
}

#[cfg(linux_64)]
fn main() -> std::process::ExitCode {
    linux::main()
}

#[cfg(not(linux_64))]
fn main() {
    println!("NOT RUN: there is no enclave in a process of its own on this system");
}
