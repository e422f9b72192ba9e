//! A recorded report of a Milan processor, and the errors after any change of it.

use p384::ecdsa::SigningKey;
use p384::ecdsa::signature::Signer;
use tobari_enclave::snp::{REPORT_BYTES, Report, SnpError, SnpPolicy, fuzz_report};

const REPORT: &[u8] = include_bytes!("../../../../vectors/enclave/snp/report_milan.bin");
const CERTIFICATE: &[u8] = include_bytes!("../../../../vectors/enclave/snp/vcek_milan.der");

/// The public key in the certificate: after the name of the curve (OID 1.3.132.0.34), a bit string
/// of 97 bytes.
fn key() -> &'static [u8] {
    let mark = [0x06, 0x05, 0x2B, 0x81, 0x04, 0x00, 0x22, 0x03, 0x62, 0x00];
    let at = CERTIFICATE.windows(mark.len()).position(|window| window == mark).unwrap() + mark.len();
    &CERTIFICATE[at..at + 97]
}

fn recorded() -> (Report, SnpPolicy) {
    let report = Report::decode(REPORT).unwrap();
    let policy = SnpPolicy {
        measurements: vec![report.measurement],
        minimum_tcb: report.reported_tcb,
        chip: report.chip,
        allow_smt: true,
    };
    (report, policy)
}

#[test]
fn the_recorded_report_is_signed_by_its_chips_key() {
    let (report, policy) = recorded();
    assert_eq!((report.version, report.vmpl, report.policy), (2, 0, 0x3_0000));
    assert_eq!(report.reported_tcb, [3, 0, 0, 0, 0, 0, 8, 0x73], "bootloader 3, TEE 0, SNP 8, microcode 115");
    assert_eq!(Report::verify(REPORT, key(), &report.report_data, &policy), Ok(report));
}

#[test]
fn every_changed_bit_of_the_report_is_refused() {
    let (report, policy) = recorded();
    for at in 0..REPORT_BYTES {
        let mut changed = REPORT.to_vec();
        changed[at] ^= 1 << (at % 8);
        if at % 8 == 0 {
            fuzz_report(&changed); // an elliptic curve's time
        }
        assert!(Report::verify(&changed, key(), &report.report_data, &policy).is_err(), "byte {at}");
    }
    for length in [0, 1, 672, REPORT_BYTES - 1] {
        fuzz_report(&REPORT[..length]);
        assert_eq!(Report::decode(&REPORT[..length]), Err(SnpError::Length(length)));
    }
    let other = SigningKey::from_slice(&[7; 48]).unwrap();
    let other = other.verifying_key().to_sec1_point(false);
    let refused = Report::verify(REPORT, other.as_bytes(), &report.report_data, &policy);
    assert_eq!(refused, Err(SnpError::Signature));
    assert_eq!(Report::verify(REPORT, &[4; 97], &report.report_data, &policy), Err(SnpError::Key));
}

#[test]
fn each_rule_refuses_by_name() {
    let (report, policy) = recorded();
    let judge = |change: fn(&mut SnpPolicy)| {
        let mut policy = policy.clone();
        change(&mut policy);
        Report::verify(REPORT, key(), &report.report_data, &policy).err()
    };
    assert_eq!(judge(|p| p.measurements.clear()), Some(SnpError::Measurement));
    assert_eq!(judge(|p| p.minimum_tcb[7] += 1), Some(SnpError::Tcb));
    assert_eq!(judge(|p| p.chip[0] ^= 1), Some(SnpError::Chip));
    assert_eq!(judge(|p| p.allow_smt = false), Some(SnpError::Policy("shared threads of a core")));
    assert_eq!(Report::verify(REPORT, key(), &[0; 64], &policy).err(), Some(SnpError::ReportData));
}

/// Reports without a recording, signed by the test's own key.
#[test]
fn guests_that_can_be_debugged_or_moved_and_lower_levels_are_refused() {
    let (report, policy) = recorded();
    let signer = SigningKey::from_slice(&[9; 48]).unwrap();
    let judge = |at: usize, bits: u8| {
        let mut bytes = REPORT.to_vec();
        bytes[at] ^= bits;
        let signature: p384::ecdsa::Signature = signer.sign(&bytes[..672]);
        for (place, number) in [672, 744].into_iter().zip(signature.to_bytes().chunks(48)) {
            number.iter().rev().zip(&mut bytes[place..]).for_each(|(from, to)| *to = *from);
        }
        let key = signer.verifying_key().to_sec1_point(false);
        Report::verify(&bytes, key.as_bytes(), &report.report_data, &policy).err()
    };
    assert_eq!(judge(0x100, 1), None, "a field that no rule looks at");
    assert_eq!(judge(0x0A, 0x08), Some(SnpError::Policy("debugging by the host")));
    assert_eq!(judge(0x0A, 0x04), Some(SnpError::Policy("migration by another guest")));
    assert_eq!(judge(0x0A, 0x02), Some(SnpError::Reserved));
    assert_eq!(judge(0x30, 2), Some(SnpError::Level(2)));
    assert_eq!(judge(0x00, 8), Some(SnpError::Version(10)));
    assert_eq!(judge(0x34, 2), Some(SnpError::Algorithm(3)));
}
