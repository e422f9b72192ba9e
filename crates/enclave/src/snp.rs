//! Attestation reports of AMD SEV-SNP: reading, the signature, and rules. **Untested on hardware**,
//! and not a kind of [`Evidence`](crate::Evidence) yet.
//!
//! Feature `snp`. It covers the parts that recorded evidence can test: a report of a Milan
//! processor and the certificate of its key, as the project `sev` publishes them. The layout is
//! that of AMD's "SEV Secure Nested Paging Firmware ABI Specification" (document 56860), table
//! "ATTESTATION_REPORT": 1,184 bytes, little-endian, with a signature (ECDSA with P-384 and
//! SHA-384) over the first 672.
//!
//! **The chain of certificates is not checked.** The caller must take the public key from the
//! certificate (VCEK) of the report's own chip and firmware. The caller must check that AMD's
//! intermediate and root keys signed the certificate, and that it is not revoked. Until this module
//! checks the chain too, no report makes a client send anything.

use p384::ecdsa::signature::Verifier;
use p384::ecdsa::{Signature, VerifyingKey};

/// Length of a report, in bytes.
pub const REPORT_BYTES: usize = 1184;
/// Length of the signed part, in bytes.
const SIGNED_BYTES: usize = 672;
/// A number of the signature takes 72 bytes, of which a curve of 384 bits uses 48.
const NUMBER_BYTES: usize = 72;
const USED_BYTES: usize = 48;

/// Bit 16 of a guest's policy: simultaneous multithreading is allowed. Bit 17 is always 1.
const SMT: u64 = 1 << 16;
const ALWAYS: u64 = 1 << 17;
/// Bit 18: another guest may move this one; bit 19: the host may debug it.
const MIGRATION: u64 = 1 << 18;
const DEBUG: u64 = 1 << 19;

/// The fields of a report that the rules use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Version of the layout, 2 to 5.
    pub version: u32,
    /// The guest's policy.
    pub policy: u64,
    /// The privilege level of the report's requester, 0 (most) to 3.
    pub vmpl: u32,
    /// The data that the guest asked to be confirmed.
    pub report_data: [u8; 64],
    /// The measurement of the guest's memory at its start.
    pub measurement: [u8; 48],
    /// The firmware's security versions, one byte each, for which the signing key was made.
    pub reported_tcb: [u8; 8],
    /// The chip; zeros if the report does not name it.
    pub chip: [u8; 64],
}

/// The conditions for a report.
#[derive(Clone, Debug)]
pub struct SnpPolicy {
    /// Guests that may run.
    pub measurements: Vec<[u8; 48]>,
    /// The lowest accepted security versions, byte by byte. The meaning of each byte depends on the
    /// family of processors.
    pub minimum_tcb: [u8; 8],
    /// The chip that the key belongs to.
    pub chip: [u8; 64],
    /// Whether two threads of a core may belong to different owners.
    pub allow_smt: bool,
}

/// Why a report is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnpError {
    /// The length is not that of a report.
    #[error("expected a report of {REPORT_BYTES} bytes, found {0}")]
    Length(usize),
    /// The layout's version is unknown.
    #[error("expected a report of version 2 to 5, found version {0}")]
    Version(u32),
    /// The signature's algorithm is unknown.
    #[error("expected a report signed by ECDSA with P-384 (1), found algorithm {0}")]
    Algorithm(u32),
    /// Bytes that must be zero are not.
    #[error("expected zeros behind the signature and in its numbers, found something else")]
    Reserved,
    /// The public key is invalid.
    #[error("expected an uncompressed point of P-384, found something else")]
    Key,
    /// The signature is wrong.
    #[error("expected a report signed by this key, found one that is not")]
    Signature,
    /// The report was made for another challenge.
    #[error("expected other report data: the report was made for another client, or earlier")]
    ReportData,
    /// The guest runs other code.
    #[error("expected the measurement of an allowed guest, found another")]
    Measurement,
    /// The guest allows debugging by the host, migration by another guest, or shared threads.
    #[error("expected a guest without {0}, found one that allows it")]
    Policy(&'static str),
    /// A less privileged level asked for the report. The measured code need not control that level.
    #[error("expected a report for level 0, found one for level {0}")]
    Level(u32),
    /// The firmware has known faults.
    #[error("expected firmware of at least the required versions, found an older part")]
    Tcb,
    /// The chip is not the key's chip.
    #[error("expected a report of the chip that the key belongs to, found another")]
    Chip,
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], SnpError> {
    bytes.get(at..at + N).and_then(|part| part.try_into().ok()).ok_or(SnpError::Length(bytes.len()))
}

impl Report {
    /// Reads a report, and verifies nothing.
    ///
    /// # Errors
    ///
    /// [`SnpError::Length`], [`SnpError::Version`], [`SnpError::Algorithm`] or
    /// [`SnpError::Reserved`].
    pub fn decode(bytes: &[u8]) -> Result<Self, SnpError> {
        if bytes.len() != REPORT_BYTES {
            return Err(SnpError::Length(bytes.len()));
        }
        let number = |at| array(bytes, at).map(u32::from_le_bytes);
        let version = number(0)?;
        if !(2..=5).contains(&version) {
            return Err(SnpError::Version(version));
        }
        let algorithm = number(0x34)?;
        if algorithm != 1 {
            return Err(SnpError::Algorithm(algorithm));
        }
        let numbers = &bytes[SIGNED_BYTES..SIGNED_BYTES + 2 * NUMBER_BYTES];
        let unused = numbers.chunks_exact(NUMBER_BYTES).flat_map(|number| &number[USED_BYTES..]);
        if unused.chain(&bytes[SIGNED_BYTES + 2 * NUMBER_BYTES..]).any(|byte| *byte != 0) {
            return Err(SnpError::Reserved);
        }
        Ok(Self {
            version,
            policy: u64::from_le_bytes(array(bytes, 0x08)?),
            vmpl: number(0x30)?,
            report_data: array(bytes, 0x50)?,
            measurement: array(bytes, 0x90)?,
            reported_tcb: array(bytes, 0x180)?,
            chip: array(bytes, 0x1A0)?,
        })
    }

    /// Reads a report, checks that `key` (97 bytes, an uncompressed point) signed it, and applies
    /// the rules.
    ///
    /// # Errors
    ///
    /// See [`SnpError`].
    pub fn verify(bytes: &[u8], key: &[u8], report_data: &[u8; 64], policy: &SnpPolicy) -> Result<Self, SnpError> {
        let report = Self::decode(bytes)?;
        let key = VerifyingKey::from_sec1_bytes(key).map_err(|_| SnpError::Key)?;
        let scalar = |at: usize| {
            let mut number: [u8; USED_BYTES] = array(bytes, at)?;
            number.reverse();
            Ok(number)
        };
        let (r, s) = (scalar(SIGNED_BYTES)?, scalar(SIGNED_BYTES + NUMBER_BYTES)?);
        let signature = Signature::from_scalars(r, s).map_err(|_| SnpError::Signature)?;
        key.verify(&bytes[..SIGNED_BYTES], &signature).map_err(|_| SnpError::Signature)?;
        report.obeys(report_data, policy)?;
        Ok(report)
    }

    fn obeys(&self, report_data: &[u8; 64], policy: &SnpPolicy) -> Result<(), SnpError> {
        if self.report_data != *report_data {
            return Err(SnpError::ReportData);
        }
        if self.policy & DEBUG != 0 {
            return Err(SnpError::Policy("debugging by the host"));
        }
        if self.policy & MIGRATION != 0 {
            return Err(SnpError::Policy("migration by another guest"));
        }
        if self.policy & SMT != 0 && !policy.allow_smt {
            return Err(SnpError::Policy("shared threads of a core"));
        }
        if self.policy & ALWAYS == 0 {
            return Err(SnpError::Reserved);
        }
        if self.vmpl != 0 {
            return Err(SnpError::Level(self.vmpl));
        }
        if self.chip != policy.chip {
            return Err(SnpError::Chip);
        }
        if self.reported_tcb.iter().zip(&policy.minimum_tcb).any(|(found, minimum)| found < minimum) {
            return Err(SnpError::Tcb);
        }
        if policy.measurements.contains(&self.measurement) { Ok(()) } else { Err(SnpError::Measurement) }
    }
}

/// For any bytes, reading and verifying end without a panic, and every field that was read occurs
/// in the bytes.
#[doc(hidden)]
pub fn fuzz_report(data: &[u8]) {
    let Ok(report) = Report::decode(data) else { return };
    assert_eq!((data.len(), u32::from(data[0])), (REPORT_BYTES, report.version));
    let policy = SnpPolicy {
        measurements: vec![report.measurement],
        minimum_tcb: report.reported_tcb,
        chip: report.chip,
        allow_smt: true,
    };
    if let Ok(key) = VerifyingKey::from_affine(p384::AffinePoint::GENERATOR) {
        let _ = Report::verify(data, key.to_sec1_point(false).as_bytes(), &report.report_data, &policy);
    }
}
