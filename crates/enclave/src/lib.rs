//! Trust in a remote site: what an enclave shows of itself, who believes it, and how one speaks to
//! its inside through a host that is not trusted.
//!
//! Everything here is a pure function or state machine: no file, socket, clock or thread;
//! randomness and time are arguments. The machinery that gives an enclave a process of its own is
//! `tobari_host::enclave`.
//!
//! | module | what it holds |
//! |---|---|
//! | [`configuration`] | what an enclave is started with and may do, and its digest |
//! | [`evidence`] | measurement, statement and proof, as strict bytes; the simulated platform |
//! | [`verify`] | a client's challenge and policy; one error for each reason to refuse |
//! | [`channel`] | encrypted messages between a client and the inside, bound to the evidence |
//! | [`session`] | which step is next, once each |
//! | [`inside`] | what runs in the enclave: sessions around a [`Handler`] |
//! | [`enclave`] | the [`Enclave`] as its host sees it |
//! | [`inproc`] | an enclave without any isolation, for tests |
//! | [`seal`] | state for the same enclave later |
//! | `snp` | attestation reports of AMD SEV-SNP, with the feature of that name; untested on hardware |
//! | `tdx` | quotes of Intel TDX, likewise |
//!
//! A session, from the client's first word to its result:
//!
//! ```text
//! client                              host                        inside
//!   nonce ────────────────────────────▶ report(nonce) ─────────────▶ a fresh channel key and its evidence
//!   verify: policy, nonce, age ◀──────── evidence ◀─────────────────
//!   HPKE to the channel key ──────────▶ open(session, key) ─────────▶ the job's keys are born
//!   sealed message, step 0 ───────────▶ client(session, frame) ─────▶ opened, handled
//!   sealed reply ◀─────────────────────                ◀──────────── sealed
//!                                       host(session, bytes) ───────▶ handled, as the script says
//! ```
//!
//! **Whatever is out of order ends the session**: another step than the script's next, a message
//! that does not open, a handler that refuses. Its secrets are dropped at once, and what the host
//! and the client are told does not depend on them.
//!
//! What is shown without hardware and what is not stands in
//! `book/src/explanation/threats/enclave.md`, "The simulated enclave".

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
