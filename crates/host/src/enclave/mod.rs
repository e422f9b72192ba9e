//! An enclave in a separate process: the **simulated enclave**.
//!
//! The host starts the same executable again, with a hidden verb. The new process gives up
//! everything except computing:
//!
//! - no environment, no open file, no capability, no core file;
//! - its own namespaces, with an empty root;
//! - landlock, which denies everything;
//! - a system call filter, which kills the process for every call except those for memory,
//!   randomness and sleep;
//! - memory that other processes of the same user cannot read, and that stays out of swap where the
//!   system's limits allow.
//!
//! Host and enclave exchange messages over two rings in shared memory of sealed length.
//! [`Protections`](tobari_enclave::Protections) records each protection that the system did not
//! grant; evidence carries this record.
//!
//! The process models the interface and the data flow of an enclave, and it confines mistakes of
//! the code inside. It does **not** keep the host out: root on the host, or anyone who can load
//! another kernel, can read its memory. `book/src/explanation/threats/enclave.md` has both lists.
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
//! | file | contents |
//! |---|---|
//! | `process` | the host's half: start, requests, end |
//! | `inside` | the process itself |
//! | `sandbox` | the restrictions, step by step |
//! | `memory`, `ring` | shared memory, and messages over it |
//! | `head` | the head of a message, the same in both |
//! | `pipe` | messages over pipes, where memory cannot be shared |
//! | `transport` | a ring or a pipe |
//! | `protocol` | the messages |

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

/// The hidden verb that tells the `tobari` executable to run as an enclave.
pub const VERB: &str = "enclave-inside";
/// The suffix of the verb for an enclave that a launcher starts. Its messages use standard input
/// and output.
pub const OVER_PIPES: &str = "-over-pipes";
