//! Trust in a remote site: the evidence of an enclave, its verification, and messages to its inside
//! through a host that is not trusted.
//!
//! Everything here is a pure function or state machine, without files, sockets, clocks or threads.
//! Randomness and time are arguments. `tobari_host::enclave` runs an enclave in its own process.
//!
//! | module | what it holds |
//! |---|---|
//! | [`configuration`] | the configuration and permissions of an enclave, and their digest |
//! | [`evidence`] | measurement, statement and proof, as strict bytes; the simulated platform |
//! | [`verify`] | a client's challenge and policy; one error for each reason to refuse |
//! | [`channel`] | encrypted messages between a client and the inside, bound to the evidence |
//! | [`session`] | the order of steps, each once |
//! | [`inside`] | the code inside the enclave: sessions around a [`Handler`] |
//! | [`enclave`] | the [`Enclave`] for its host |
//! | [`inproc`] | an enclave without any isolation, for tests |
//! | [`seal`] | state that the same enclave reads later |
//! | `snp` | attestation reports of AMD SEV-SNP (feature `snp`); untested on hardware |
//! | `tdx` | quotes of Intel TDX, likewise |
//!
//! A session, from the client's first word to its result:
//!
//! ```text
//! client                              host                        inside
//!   nonce ────────────────────────────▶ report(nonce) ─────────────▶ a new channel key, evidence
//!   verify: policy, nonce, age ◀──────── evidence ◀─────────────────
//!   HPKE to the channel key ──────────▶ open(session, key) ─────────▶ makes the job's keys
//!   sealed message, step 0 ───────────▶ client(session, frame) ─────▶ opened, handled
//!   sealed reply ◀─────────────────────                ◀──────────── sealed
//!                                       host(session, bytes) ───────▶ handled, if allowed
//! ```
//!
//! **Any violation ends the session**: a step that is not the script's next, a message that does
//! not decrypt, a handler that fails. The session's secrets are dropped at once. The error messages
//! to the host and the client do not depend on the secrets.
//!
//! The section "The simulated enclave" of `book/src/explanation/threats/enclave.md` lists the
//! properties that are shown without hardware, and the others.

#![forbid(unsafe_code)]

pub mod channel;
pub mod configuration;
pub mod digest;
pub mod enclave;
pub mod evidence;
mod fuzz;
pub mod inproc;
pub mod inside;
pub mod protection;
pub mod seal;
pub mod session;
#[cfg(feature = "snp")]
pub mod snp;
#[cfg(feature = "tdx")]
pub mod tdx;
pub mod verify;
mod wire;

pub use channel::{ClientChannel, Connector};
pub use configuration::{Configuration, OutputPolicy, Party, Script, Size, Step};
pub use digest::{Digest, Digester};
pub use enclave::{Enclave, EnclaveError};
pub use evidence::{Attester, Evidence, Measurement, Nonce, SessionId, SimulatedPlatform};
pub use fuzz::fuzz_evidence;
pub use inproc::InProcess;
pub use inside::{Handler, Inside, Message, Operation, Refused, Request, Status};
pub use protection::{Protection, Protections, State};
pub use verify::{Attested, Challenge, Policy, VerifyError};
