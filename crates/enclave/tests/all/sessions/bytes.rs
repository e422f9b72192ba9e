//! Each object has one byte string, and all other bytes are rejected.

use crate::sessions::job::{configuration, rng, start};
use tobari_enclave::configuration::{ConfigurationError, MAX_MESSAGE_BYTES};
use tobari_enclave::evidence::EvidenceError;
use tobari_enclave::{
    Configuration, Digest, Enclave, Evidence, Measurement, Nonce, OutputPolicy, Party, Protection, Protections, Script,
    Size, State, Step, fuzz_evidence,
};

fn evidence() -> Vec<u8> {
    start().0.report(&Nonce([5; 32])).unwrap()
}

#[test]
fn every_truncation_and_every_extension_of_evidence_and_configuration_is_refused() {
    let (evidence, configuration) = (evidence(), configuration().encode());
    assert_eq!(Evidence::decode(&evidence).unwrap().encode(), evidence);
    assert_eq!(Configuration::decode(&configuration).unwrap().encode(), configuration);
    for length in 0..evidence.len() {
        assert!(Evidence::decode(&evidence[..length]).is_err(), "{length}");
    }
    for length in 0..configuration.len() {
        assert!(Configuration::decode(&configuration[..length]).is_err(), "{length}");
    }
    assert!(Evidence::decode(&[evidence, vec![0]].concat()).is_err());
    assert!(Configuration::decode(&[configuration, vec![0]].concat()).is_err());
    assert!(Evidence::decode(&vec![1; 1 << 20]).is_err());
}

#[test]
fn other_versions_and_platforms_are_refused_by_name() {
    let mut bytes = evidence();
    bytes[1] = 2;
    assert_eq!(Evidence::decode(&bytes), Err(EvidenceError::Kind(2)));
    bytes[0] = 9;
    assert_eq!(Evidence::decode(&bytes), Err(EvidenceError::Version(9)));
    let mut bytes = configuration().encode();
    bytes[0] = 2;
    assert_eq!(Configuration::decode(&bytes), Err(ConfigurationError::Version(2)));
}

#[test]
fn configurations_out_of_range_are_none() {
    let step = |bytes| Step { from: Party::Host, kind: 0, request: Size::UpTo(bytes), reply: Size::Fixed(0) };
    assert!(Script::new(vec![]).is_err() && Script::new(vec![step(1); 256]).is_err());
    assert!(Script::new(vec![step(MAX_MESSAGE_BYTES + 1)]).is_err());
    assert!(Script::new(vec![step(MAX_MESSAGE_BYTES); 255]).is_ok());
    let change: [fn(&mut Configuration); 5] = [
        |c| c.rounds = 0,
        |c| c.max_sessions = 0,
        |c| c.output = OutputPolicy::Top(0),
        |c| c.output = OutputPolicy::Rounded(0),
        |c| c.output = OutputPolicy::Rounded(65),
    ];
    for change in change {
        let mut other = configuration();
        change(&mut other);
        assert!(matches!(Configuration::decode(&other.encode()), Err(ConfigurationError::Range(_))));
    }
    for output in [OutputPolicy::Label, OutputPolicy::Top(9), OutputPolicy::Rounded(64), OutputPolicy::Scores] {
        let other = Configuration { output, ..configuration() };
        assert_eq!(Configuration::decode(&other.encode()), Ok(other));
    }
}

#[test]
fn protections_come_back_and_name_what_lacks() {
    let mut protections = Protections::none();
    assert_eq!(protections.lacking().count(), protections.iter().count());
    protections.set(Protection::Landlock, State::Refused(38));
    protections.set(Protection::LockedMemory, State::Partly);
    protections.set(Protection::OwnProcess, State::Applied);
    let bytes = protections.to_bytes();
    assert_eq!(Protections::from_bytes(&bytes), Some(protections.clone()));
    assert_eq!(Protections::from_bytes(&bytes[1..]), None);
    assert_eq!(protections.state(Protection::Landlock).to_string(), "refused by the system (error 38)");
    assert_eq!(protections.lacking().count(), protections.iter().count() - 1);
    for (what, state) in protections.iter() {
        assert!(!what.to_string().is_empty() && !state.to_string().is_empty());
    }
}

#[test]
fn digests_are_read_as_they_are_written() {
    let digest = Digest::of_bytes(b"abc");
    assert_eq!(digest.to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(digest.to_string().parse(), Ok(digest));
    for wrong in ["", "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD", "ba78", &"g".repeat(64)] {
        assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
    }
    assert_ne!(Digest::of("p", &[b"ab", b"c"]), Digest::of("p", &[b"a", b"bc"]), "parts are told apart");
}

#[test]
fn noise_never_breaks_the_decoders() {
    use chacha20::rand_core::Rng;
    let (evidence, configuration, mut rng) = (evidence(), configuration().encode(), rng(8));
    for _ in 0..20_000 {
        let mut bytes = if rng.next_u32() & 1 == 0 { evidence.clone() } else { configuration.clone() };
        for _ in 0..rng.next_u32() % 4 {
            let at = rng.next_u32() as usize % bytes.len();
            bytes[at] = rng.next_u32() as u8;
        }
        bytes.truncate(rng.next_u32() as usize % (2 * bytes.len()));
        fuzz_evidence(&bytes);
    }
}

/// Objects of version 1 stay readable, and encode to the same bytes.
#[test]
fn objects_of_version_1_decode_for_ever_and_to_the_same_bytes() {
    let evidence = include_bytes!("../../../../../vectors/enclave/v1/evidence.bin");
    let decoded = Evidence::decode(evidence).unwrap();
    assert_eq!((decoded.encode().as_slice(), decoded.statement.nonce), (evidence.as_slice(), Nonce([5; 32])));
    let bytes = include_bytes!("../../../../../vectors/enclave/v1/configuration.bin");
    assert_eq!(Configuration::decode(bytes), Ok(configuration()));
    assert_eq!(decoded.statement.configuration, configuration().digest(), "its digest is what it was");
    let executable = Digest::of_bytes(crate::sessions::job::EXECUTABLE);
    assert_eq!(decoded.measurement, Measurement::new(&executable, &configuration().digest()));
}
