//! A recorded quote of a TDX guest, and the errors after any change of it.

use p256::ecdsa::signature::Signer;
use p256::ecdsa::{Signature, SigningKey};
use sha2::{Digest, Sha256};
use tobari_enclave::tdx::{INTEL_QUOTING_SIGNER, Quote, TdxError, TdxPolicy, fuzz_quote};

const QUOTE: &[u8] = include_bytes!("../../../../vectors/enclave/tdx/quote.bin");
/// Offsets of the parts that the tests change.
const SIGNATURE: usize = 636;
const ATTESTATION_KEY: usize = 700;
const REPORT: usize = 770;
const REPORT_SIGNATURE: usize = 1154;
const CERTIFICATES: usize = 1258;

/// The first certificate of the chain in the quote.
fn certificate() -> Vec<u8> {
    let text = std::str::from_utf8(Quote::certificates(QUOTE).unwrap()).unwrap();
    let text = text.split("-----BEGIN CERTIFICATE-----").nth(1).unwrap();
    let text = text.split("-----END CERTIFICATE-----").next().unwrap();
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=').map(digit).collect();
    let bits = digits.iter().flat_map(|digit| (0..6).rev().map(move |bit| digit >> bit & 1));
    let bits: Vec<u8> = bits.collect();
    bits.chunks_exact(8).map(|byte| byte.iter().fold(0, |all, bit| all << 1 | bit)).collect()
}

/// The public key in the certificate: after the name of the curve (OID 1.2.840.10045.3.1.7), a bit
/// string of 65 bytes.
fn key() -> Vec<u8> {
    let mark = [0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00];
    let certificate = certificate();
    let at = certificate.windows(mark.len()).position(|window| window == mark).unwrap() + mark.len();
    certificate[at..at + 65].to_vec()
}

fn recorded() -> (Quote, TdxPolicy) {
    let quote = Quote::decode(QUOTE).unwrap();
    let policy = TdxPolicy {
        measurements: vec![(quote.measurement, quote.registers)],
        minimum_tcb: quote.tcb,
        quoting_signer: INTEL_QUOTING_SIGNER,
        quoting_product: (2, 6),
        allow_counters: false,
    };
    (quote, policy)
}

#[test]
fn the_recorded_quote_is_vouched_for_by_its_processors_key() {
    let (quote, policy) = recorded();
    assert_eq!(quote.attributes, 1 << 28);
    assert_eq!(quote.tcb[..4], [6, 1, 3, 0]);
    assert_eq!(quote.measurement[..4], [0x91, 0xEB, 0x2B, 0x44]);
    assert_eq!(quote.quoting_product, (2, 6));
    assert_eq!(Quote::verify(QUOTE, &key(), &quote.report_data, &policy), Ok(quote));
}

#[test]
fn every_changed_byte_of_what_is_signed_and_every_other_length_is_refused() {
    let ((quote, policy), key) = (recorded(), key());
    for at in 0..CERTIFICATES {
        let mut changed = QUOTE.to_vec();
        changed[at] ^= 1 << (at % 8);
        fuzz_quote(&changed);
        assert!(Quote::verify(&changed, &key, &quote.report_data, &policy).is_err(), "byte {at}");
    }
    for length in (0..QUOTE.len()).step_by(37) {
        fuzz_quote(&QUOTE[..length]);
        assert_eq!(Quote::decode(&QUOTE[..length]), Err(TdxError::Length), "{length}");
    }
    assert_eq!(Quote::decode(&[QUOTE, &[0]].concat()), Err(TdxError::Length));
    assert_eq!(Quote::decode(&[0; 1 << 20]), Err(TdxError::Length));
    let other = SigningKey::from_slice(&[7; 32]).unwrap();
    let other = other.verifying_key().to_sec1_point(false);
    let refused = Quote::verify(QUOTE, other.as_bytes(), &quote.report_data, &policy);
    assert_eq!(refused, Err(TdxError::Signature("report of the quoting enclave")));
    assert_eq!(Quote::verify(QUOTE, &[4; 65], &quote.report_data, &policy), Err(TdxError::Key));
}

#[test]
fn each_rule_refuses_by_name() {
    let ((quote, policy), key) = (recorded(), key());
    let judge = |change: fn(&mut TdxPolicy)| {
        let mut policy = policy.clone();
        change(&mut policy);
        Quote::verify(QUOTE, &key, &quote.report_data, &policy).err()
    };
    assert_eq!(judge(|p| p.measurements.clear()), Some(TdxError::Measurement));
    assert_eq!(judge(|p| p.measurements[0].0[0] ^= 1), Some(TdxError::Measurement));
    assert_eq!(judge(|p| p.measurements[0].1[3][47] ^= 1), Some(TdxError::Measurement));
    assert_eq!(judge(|p| p.minimum_tcb[2] += 1), Some(TdxError::Tcb));
    assert_eq!(judge(|p| p.quoting_signer[0] ^= 1), Some(TdxError::Quoting));
    assert_eq!(judge(|p| p.quoting_product.0 = 1), Some(TdxError::Quoting));
    assert_eq!(judge(|p| p.quoting_product.1 = 7), Some(TdxError::Quoting));
    assert_eq!(Quote::verify(QUOTE, &key, &[0; 64], &policy).err(), Some(TdxError::ReportData));
}

/// Quotes without a recording, confirmed by the test's own keys.
#[test]
fn guests_that_the_host_can_debug_other_modules_and_unbound_keys_are_refused() {
    let (quote, policy) = recorded();
    let (processor, attestation) =
        (SigningKey::from_slice(&[9; 32]).unwrap(), SigningKey::from_slice(&[8; 32]).unwrap());
    let key = processor.verifying_key().to_sec1_point(false);
    let judge = |changes: &[(usize, u8)], bound: bool| {
        let mut bytes = QUOTE.to_vec();
        changes.iter().for_each(|(at, bits)| bytes[*at] ^= bits);
        let own = attestation.verifying_key().to_sec1_point(false);
        bytes[ATTESTATION_KEY..ATTESTATION_KEY + 64].copy_from_slice(&own.as_bytes()[1..]);
        if bound {
            let authentication = bytes[REPORT_SIGNATURE + 66..REPORT_SIGNATURE + 98].to_vec();
            let hash = Sha256::digest([&own.as_bytes()[1..], &authentication].concat());
            bytes[REPORT + 320..REPORT + 352].copy_from_slice(&hash);
        }
        let signature: Signature = attestation.sign(&bytes[..632]);
        bytes[SIGNATURE..SIGNATURE + 64].copy_from_slice(&signature.to_bytes());
        let signature: Signature = processor.sign(&bytes[REPORT..REPORT + 384]);
        bytes[REPORT_SIGNATURE..REPORT_SIGNATURE + 64].copy_from_slice(&signature.to_bytes());
        Quote::verify(&bytes, key.as_bytes(), &quote.report_data, &policy).err()
    };
    let (attributes, body) = (48 + 120, 48);
    assert_eq!(judge(&[(30, 1)], true), None, "a quoting service's own data, which no rule looks at");
    assert_eq!(judge(&[], false), Some(TdxError::Binding));
    assert_eq!(judge(&[(attributes, 1)], true), Some(TdxError::Attributes("that the host cannot debug")));
    assert_eq!(judge(&[(attributes, 0x10)], true), Some(TdxError::Attributes("that is not under test")));
    let exceptions = TdxError::Attributes("that stops where a page is taken away (SEPT_VE_DISABLE)");
    assert_eq!(judge(&[(attributes + 3, 0x10)], true), Some(exceptions));
    assert_eq!(judge(&[(attributes + 7, 0x80)], true), Some(TdxError::Attributes("without performance counters")));
    assert_eq!(judge(&[(body + 64, 1)], true), Some(TdxError::Module));
    assert_eq!(judge(&[(body + 112, 1)], true), Some(TdxError::Module));
    assert_eq!(judge(&[(REPORT + 48, 2)], true), Some(TdxError::Quoting), "it can be debugged");
    assert_eq!(judge(&[(0, 1)], true), Some(TdxError::Version(5)));
    assert_eq!(judge(&[(2, 1)], true), Some(TdxError::Kind("a key of ECDSA with P-256 (2)")));
    assert_eq!(judge(&[(4, 0x81)], true), Some(TdxError::Kind("a guest of TDX (0x81)")));
    assert_eq!(judge(&[(12, 1)], true), Some(TdxError::Kind("Intel as the vendor")));
}
