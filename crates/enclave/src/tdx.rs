//! Quotes of Intel TDX: reading, both signatures, and rules. **Untested on hardware**, and not a
//! kind of [`Evidence`](crate::Evidence) yet.
//!
//! Feature `tdx`. The layout is that of Intel's "TDX DCAP Quoting Library API", version 4 with the
//! body of TDX 1.0, numbers little-endian:
//!
//! ```text
//! header (48)                       version, key type, TEE, vendor
//! body (584)                        about the guest: measurements, attributes, report data
//! length (4)                        of the rest
//!   signature (64)                  ECDSA, P-256, SHA-256, of header and body, by
//!   attestation key (64)            the quoting enclave's own key
//!   type 6 (2), length (4)
//!     report (384)                  of the quoting enclave; its report data are SHA-256 of
//!                                   attestation key and authentication data
//!     signature (64)                of that report, by the processor's key (PCK)
//!     length (2), authentication data
//!     type (2), length (4)          the evidence for the PCK; type 5: certificates as PEM
//! ```
//!
//! So the processor's key confirms the quoting enclave, and the quoting enclave confirms the guest.
//! **The chain of certificates is not checked.** The caller must take the public key from the PCK
//! certificate of this processor and firmware. The caller must check that Intel's intermediate and
//! root keys signed the certificate, that it is not revoked, and which versions of the firmware
//! have known faults (Intel's "TCB info"). Until this module checks those too, no quote makes a
//! client send anything. The crate `p256` implements the curve's signatures.

use p256::ecdsa::signature::Verifier;
use p256::ecdsa::{Signature, VerifyingKey};
use sha2::{Digest as _, Sha256};

const HEADER_BYTES: usize = 48;
const BODY_BYTES: usize = 584;
/// Length of the part that the attestation key signs, in bytes.
const SIGNED_BYTES: usize = HEADER_BYTES + BODY_BYTES;
/// Length of the quoting enclave's report, in bytes.
const REPORT_BYTES: usize = 384;
/// The longest quote, in bytes.
pub const MAX_QUOTE_BYTES: usize = 16 << 10;

/// The vendor in Intel's quotes.
const INTEL: [u8; 16] =
    [0x93, 0x9A, 0x72, 0x33, 0xF7, 0x9C, 0x4C, 0xA9, 0x94, 0x0A, 0x0D, 0xB3, 0x95, 0x7F, 0x06, 0x07];

/// Bits 0 to 7 of a guest's attributes: the guest is under test. Bit 0 lets the host debug it.
const UNDER_TEST: u64 = 0xFF;
const DEBUG: u64 = 1;
/// Bit 28: if the host removes a page, the guest stops. Without it the guest gets an exception,
/// which the host could exploit.
const NO_EXCEPTION: u64 = 1 << 28;
/// Bit 63: performance counters.
const COUNTERS: u64 = 1 << 63;
/// Bit 1 of an SGX enclave's attributes: the enclave may be debugged.
const ENCLAVE_DEBUG: u64 = 2;

/// The fields of a quote that the rules use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quote {
    /// Security versions of the TDX module and the firmware, a byte each.
    pub tcb: [u8; 16],
    /// The signer of the TDX module: zeros for Intel.
    pub module_signer: [u8; 48],
    /// Attributes of the TDX module: 0.
    pub module_attributes: u64,
    /// Attributes of the guest.
    pub attributes: u64,
    /// The measurement of the guest's memory at its start.
    pub measurement: [u8; 48],
    /// Registers that the guest's own start extends: the firmware's configuration, the kernel, the
    /// command line, and a register for the guest's use.
    pub registers: [[u8; 48]; 4],
    /// The data that the guest asked to be confirmed.
    pub report_data: [u8; 64],
    /// Attributes of the quoting enclave.
    pub quoting_attributes: u64,
    /// The signer of the quoting enclave.
    pub quoting_signer: [u8; 32],
    /// The number of the quoting enclave among the signer's enclaves, and its security version.
    pub quoting_product: (u16, u16),
}

/// The conditions for a quote.
#[derive(Clone, Debug)]
pub struct TdxPolicy {
    /// Guests that may run: the memory at the start, and the registers in their order.
    pub measurements: Vec<([u8; 48], [[u8; 48]; 4])>,
    /// The lowest accepted security versions, byte by byte.
    pub minimum_tcb: [u8; 16],
    /// The required signer of the quoting enclave; [`INTEL_QUOTING_SIGNER`] is Intel's.
    pub quoting_signer: [u8; 32],
    /// The required number of the quoting enclave among the signer's enclaves, and its lowest
    /// accepted security version.
    pub quoting_product: (u16, u16),
    /// Whether a guest may have performance counters. It can measure only itself with them.
    pub allow_counters: bool,
}

/// SHA-256 of the key with which Intel signs the quoting enclave of TDX (product 2). Every quote of
/// this enclave names it.
pub const INTEL_QUOTING_SIGNER: [u8; 32] = [
    0xDC, 0x9E, 0x2A, 0x7C, 0x6F, 0x94, 0x8F, 0x17, 0x47, 0x4E, 0x34, 0xA7, 0xFC, 0x43, 0xED, 0x03, 0x0F, 0x7C, 0x15,
    0x63, 0xF1, 0xBA, 0xBD, 0xDF, 0x63, 0x40, 0xC8, 0x2E, 0x0E, 0x54, 0xA8, 0xC5,
];

/// Why a quote is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TdxError {
    /// The quote is truncated, has a rest, or has lengths that contradict each other.
    #[error("expected the bytes of one quote, found too few or too many")]
    Length,
    /// The layout's version is unknown.
    #[error("expected a quote of version 4, found version {0}")]
    Version(u16),
    /// The signature's algorithm is unknown, or the technology or the vendor is another.
    #[error("expected {0}, found something else")]
    Kind(&'static str),
    /// The public key is invalid.
    #[error("expected an uncompressed point of P-256, found something else")]
    Key,
    /// One of the two signatures is wrong.
    #[error("expected a {0} that is signed by its key, found one that is not")]
    Signature(&'static str),
    /// The quoting enclave confirms another key.
    #[error("expected the attestation key that the quoting enclave vouches for, found another")]
    Binding,
    /// The quote was made for another challenge.
    #[error("expected other report data: the quote was made for another client, or earlier")]
    ReportData,
    /// The guest runs other code.
    #[error("expected the measurements of an allowed guest, found others")]
    Measurement,
    /// The guest's attributes let the host look inside, or could.
    #[error("expected a guest {0}, found another")]
    Attributes(&'static str),
    /// The TDX module is not Intel's.
    #[error("expected the TDX module of Intel without attributes, found another")]
    Module,
    /// The quoting enclave is another one, or can be debugged.
    #[error("expected the quoting enclave that is required, found another")]
    Quoting,
    /// The firmware has known faults.
    #[error("expected firmware of at least the required versions, found an older part")]
    Tcb,
}

/// The parts of a quote. Their bytes are signed, or confirm one another.
struct Parts<'a> {
    signed: &'a [u8],
    signature: &'a [u8],
    attestation_key: &'a [u8],
    report: &'a [u8],
    report_signature: &'a [u8],
    authentication: &'a [u8],
    certificates: &'a [u8],
}

/// The bytes that are left to read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], TdxError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(TdxError::Length)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, TdxError> {
        array(self.take(2)?, 0).map(u16::from_le_bytes)
    }

    /// All bytes that are left, after their length.
    fn rest(&mut self) -> Result<Reader<'a>, TdxError> {
        let length = u32::from_le_bytes(array(self.take(4)?, 0)?);
        if usize::try_from(length) == Ok(self.0.len()) { Ok(Reader(self.0)) } else { Err(TdxError::Length) }
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], TdxError> {
    bytes.get(at..at + N).and_then(|part| part.try_into().ok()).ok_or(TdxError::Length)
}

fn expect(holds: bool, error: TdxError) -> Result<(), TdxError> {
    if holds { Ok(()) } else { Err(error) }
}

impl<'a> Parts<'a> {
    fn cut(bytes: &'a [u8]) -> Result<Self, TdxError> {
        expect(bytes.len() <= MAX_QUOTE_BYTES, TdxError::Length)?;
        let mut reader = Reader(bytes);
        let signed = reader.take(SIGNED_BYTES)?;
        let mut reader = reader.rest()?;
        let (signature, attestation_key) = (reader.take(64)?, reader.take(64)?);
        expect(reader.u16()? == 6, TdxError::Kind("the report of a quoting enclave (6)"))?;
        let mut reader = reader.rest()?;
        let (report, report_signature) = (reader.take(REPORT_BYTES)?, reader.take(64)?);
        let length = reader.u16()?;
        let authentication = reader.take(length.into())?;
        expect(reader.u16()? == 5, TdxError::Kind("certificates (5)"))?;
        let certificates = reader.rest()?.0;
        Ok(Self { signed, signature, attestation_key, report, report_signature, authentication, certificates })
    }
}

fn verify(key: &[u8], signed: &[u8], signature: &[u8], what: &'static str) -> Result<(), TdxError> {
    let key = VerifyingKey::from_sec1_bytes(key).map_err(|_| TdxError::Key)?;
    let signature = Signature::from_slice(signature).map_err(|_| TdxError::Signature(what))?;
    key.verify(signed, &signature).map_err(|_| TdxError::Signature(what))
}

impl Quote {
    /// Reads a quote, and verifies nothing.
    ///
    /// # Errors
    ///
    /// [`TdxError::Length`], [`TdxError::Version`] or [`TdxError::Kind`].
    pub fn decode(bytes: &[u8]) -> Result<Self, TdxError> {
        Self::read(&Parts::cut(bytes)?)
    }

    /// The certificates that a quote carries for the processor's key, as PEM: the processor's own
    /// first.
    ///
    /// # Errors
    ///
    /// See [`Self::decode`].
    pub fn certificates(bytes: &[u8]) -> Result<&[u8], TdxError> {
        Ok(Parts::cut(bytes)?.certificates)
    }

    fn read(parts: &Parts<'_>) -> Result<Self, TdxError> {
        let (header, body) = parts.signed.split_at(HEADER_BYTES);
        let version = u16::from_le_bytes(array(header, 0)?);
        expect(version == 4, TdxError::Version(version))?;
        expect(array(header, 2)? == [2, 0], TdxError::Kind("a key of ECDSA with P-256 (2)"))?;
        expect(array(header, 4)? == [0x81, 0, 0, 0], TdxError::Kind("a guest of TDX (0x81)"))?;
        expect(array(header, 12)? == INTEL, TdxError::Kind("Intel as the vendor"))?;
        let number = |bytes, at| array(bytes, at).map(u64::from_le_bytes);
        let product = |at| array(parts.report, at).map(u16::from_le_bytes);
        let mut registers = [[0; 48]; 4];
        for (place, register) in registers.iter_mut().enumerate() {
            *register = array(body, 328 + 48 * place)?;
        }
        Ok(Self {
            tcb: array(body, 0)?,
            module_signer: array(body, 64)?,
            module_attributes: number(body, 112)?,
            attributes: number(body, 120)?,
            measurement: array(body, 136)?,
            registers,
            report_data: array(body, 520)?,
            quoting_attributes: number(parts.report, 48)?,
            quoting_signer: array(parts.report, 128)?,
            quoting_product: (product(256)?, product(258)?),
        })
    }

    /// Reads a quote, checks that `key` (65 bytes, an uncompressed point: the processor's) confirms
    /// it, and applies the rules.
    ///
    /// # Errors
    ///
    /// See [`TdxError`].
    pub fn verify(bytes: &[u8], key: &[u8], report_data: &[u8; 64], policy: &TdxPolicy) -> Result<Self, TdxError> {
        let parts = Parts::cut(bytes)?;
        let quote = Self::read(&parts)?;
        verify(key, parts.report, parts.report_signature, "report of the quoting enclave")?;
        let mut bound = [0; 64];
        let hash = Sha256::new().chain_update(parts.attestation_key).chain_update(parts.authentication).finalize();
        bound[..32].copy_from_slice(&hash);
        expect(array(parts.report, 320)? == bound, TdxError::Binding)?;
        let attestation_key = [&[4], parts.attestation_key].concat();
        verify(&attestation_key, parts.signed, parts.signature, "quote")?;
        quote.obeys(report_data, policy)?;
        Ok(quote)
    }

    fn obeys(&self, report_data: &[u8; 64], policy: &TdxPolicy) -> Result<(), TdxError> {
        expect(self.report_data == *report_data, TdxError::ReportData)?;
        expect(self.attributes & DEBUG == 0, TdxError::Attributes("that the host cannot debug"))?;
        expect(self.attributes & UNDER_TEST == 0, TdxError::Attributes("that is not under test"))?;
        expect(
            self.attributes & NO_EXCEPTION != 0,
            TdxError::Attributes("that stops where a page is taken away (SEPT_VE_DISABLE)"),
        )?;
        let counters = policy.allow_counters || self.attributes & COUNTERS == 0;
        expect(counters, TdxError::Attributes("without performance counters"))?;
        expect(self.module_signer == [0; 48] && self.module_attributes == 0, TdxError::Module)?;
        let (product, version) = policy.quoting_product;
        let quoting = self.quoting_signer == policy.quoting_signer
            && self.quoting_attributes & ENCLAVE_DEBUG == 0
            && self.quoting_product.0 == product
            && self.quoting_product.1 >= version;
        expect(quoting, TdxError::Quoting)?;
        let recent = self.tcb.iter().zip(&policy.minimum_tcb).all(|(found, minimum)| found >= minimum);
        expect(recent, TdxError::Tcb)?;
        let known = policy.measurements.contains(&(self.measurement, self.registers));
        expect(known, TdxError::Measurement)
    }
}

/// For any bytes, reading and verifying end without a panic.
#[doc(hidden)]
pub fn fuzz_quote(data: &[u8]) {
    if let Ok(quote) = Quote::decode(data) {
        let policy = TdxPolicy {
            measurements: vec![(quote.measurement, quote.registers)],
            minimum_tcb: quote.tcb,
            quoting_signer: quote.quoting_signer,
            quoting_product: quote.quoting_product,
            allow_counters: true,
        };
        let _ = Quote::verify(data, &[4; 65], &quote.report_data, &policy);
    }
}
