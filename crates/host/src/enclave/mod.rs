//! An enclave in a process of its own: the **simulated enclave**.
//!
//! The same executable, started again with a hidden verb, gives up everything but computing: no
//! environment, no open file, namespaces of its own with an empty root, no capability, landlock
//! that refuses everything, a filter that kills for any system call but those that memory,
//! randomness and sleep need, no core file, memory that its user's other processes cannot read, and
//! that stays out of swap where the system's limits allow. Host and inside speak over two rings in
//! shared memory of sealed length. What was not to be had is in
//! [`Protections`](tobari_enclave::Protections), which evidence carries.
//!
//! It models the interface and the flow of data of an enclave, and it keeps mistakes of the code
//! inside from reaching out. It does **not** keep the host out: who is root there, or can load
//! another kernel, reads its memory. `book/src/explanation/threats/enclave.md` has both lists.
//!
//! ```no_run
//! # use tobari_enclave::{Configuration, Digest, Enclave, Handler, Message, OutputPolicy, Party, Refused, Script, Size, Step};
//! # use tobari_host::enclave::{Options, ProcessEnclave, is_inside, run_inside};
//! # struct Job;
//! # impl Handler for Job {
//! #     type Session = ();
//! #     fn open(&mut self, _: &mut dyn tobari_host::enclave::CryptoRng) -> Result<(), Refused> { Ok(()) }
//! #     fn handle(&mut self, _: &mut (), _: Message<'_>, _: &mut Vec<u8>, _: &mut dyn tobari_host::enclave::CryptoRng) -> Result<(), Refused> { Ok(()) }
//! # }
//! # fn configuration() -> Option<Configuration> {
//! #     let step = Step { from: Party::Client, kind: 1, request: Size::Fixed(4), reply: Size::Fixed(4) };
//! #     let [model, plan, parameters] = ["a model", "a plan", "parameters"].map(|what| Digest::of_bytes(what.as_bytes()));
//! #     let (setup, script) = (Digest::of_bytes(b"what the job is built from"), Script::new(vec![step]).ok()?);
//! #     Some(Configuration { model, plan, parameters, setup, output: OutputPolicy::Label, max_sessions: 1, rounds: 1, script })
//! # }
//! fn main() -> std::process::ExitCode {
//!     if is_inside("enclave-inside") {
//!         return run_inside(|_configuration, _setup, _rng| Ok(Job)); // first thing, before any thread
//!     }
//!     let Some(configuration) = configuration() else { return std::process::ExitCode::FAILURE };
//!     match ProcessEnclave::start(&configuration, b"what the job is built from", &Options::new("enclave-inside")) {
//!         Ok(enclave) => enclave.protections().lacking().for_each(|(what, state)| println!("{what}: {state}")),
//!         Err(error) => println!("{error}"),
//!     }
//!     std::process::ExitCode::SUCCESS
//! }
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `process` | the host's half: start, requests, end |
//! | `inside` | the process itself |
//! | `sandbox` | what it gives up, step by step |
//! | `memory`, `ring` | shared memory, and messages over it |
//! | `head` | what stands before a message's bytes in both |
//! | `pipe` | messages over pipes, where memory cannot be shared |
//! | `transport` | either of them |
//! | `protocol` | what the two say |

#[allow(unsafe_code, reason = "maps memory that another process shares; its file says why each block is sound")]
#[doc(hidden)]
pub mod memory;
#[doc(hidden)]
pub mod process;
#[doc(hidden)]
pub mod protocol;
#[doc(hidden)]
pub mod ring;
#[allow(unsafe_code, reason = "system calls that no safe interface has: each says why it is sound")]
#[doc(hidden)]
pub mod sandbox;

mod head;
mod inside;
mod pipe;
mod transport;

pub use inside::{is_inside, run_inside};
pub use process::{Options, ProcessEnclave};
#[doc(hidden)]
pub use protocol::fuzz_protocol;
pub use rand_core::CryptoRng;

/// The hidden verb by which the `tobari` executable knows that it is to be an enclave.
pub const VERB: &str = "enclave-inside";
/// What follows the verb of an enclave that a launcher starts: its messages go over standard input
/// and output.
pub const OVER_PIPES: &str = "-over-pipes";
