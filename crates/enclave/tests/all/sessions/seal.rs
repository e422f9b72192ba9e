//! Sealed state.

use crate::sessions::job::rng;
use tobari_enclave::seal::Sealer;
use tobari_enclave::{Digest, Measurement};

fn sealer(root: u8, executable: &[u8]) -> Sealer {
    let measurement = Measurement::new(&Digest::of_bytes(executable), &Digest::of_bytes(b"configuration"));
    Sealer::new(&[root; 32], &measurement)
}

#[test]
fn state_opens_for_the_same_code_root_and_label_only() {
    let sealed = sealer(1, b"a").seal(b"keys", b"the state", &mut rng(1)).unwrap();
    assert_eq!(sealer(1, b"a").open(b"keys", &sealed).unwrap().as_slice(), b"the state");
    assert!(sealer(1, b"b").open(b"keys", &sealed).is_err(), "another executable");
    assert!(sealer(2, b"a").open(b"keys", &sealed).is_err(), "another root");
    assert!(sealer(1, b"a").open(b"other", &sealed).is_err(), "another label");
    assert!(!sealed.windows(9).any(|window| window == b"the state"));
}

#[test]
fn every_change_of_sealed_state_is_refused() {
    let sealer = sealer(1, b"a");
    let sealed = sealer.seal(b"", b"state", &mut rng(1)).unwrap();
    for bit in 0..8 * sealed.len() {
        let mut changed = sealed.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(sealer.open(b"", &changed).is_err(), "bit {bit}");
    }
    for length in 0..sealed.len() {
        assert!(sealer.open(b"", &sealed[..length]).is_err(), "{length}");
    }
}

#[test]
fn an_older_state_is_not_noticed() {
    // Sealed state has no protection against rollback, as its documentation says.
    let sealer = sealer(1, b"a");
    let [old, new] = [1, 2].map(|seed| sealer.seal(b"budget", &[10 - seed], &mut rng(seed)).unwrap());
    assert!(sealer.open(b"budget", &new).is_ok() && sealer.open(b"budget", &old).is_ok());
    assert_ne!(old, new, "fresh nonces");
}
