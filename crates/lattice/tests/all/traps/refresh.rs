//! Traps of refreshes.

use super::{Ckks, rng};
use chacha20::ChaCha20Rng;
use tobari_lattice::ckks::{Ciphertext, Decryptor, Encoder, OperationError, Scale};
use tobari_lattice::params::{LatticeParameters, Plaintext};
use tobari_lattice::refresh::{Refresh, RefreshError, RefreshKeys, RefreshSettings};
use tobari_lattice::rlwe::SecretKey;
use tobari_lattice::wire;

/// A key at a degree without security, with 256 slots. Six of the levels are data's.
struct Party {
    secret: SecretKey,
    encoder: Encoder,
    rng: ChaCha20Rng,
}

impl Party {
    fn new() -> Self {
        let data: Vec<u32> = [50, 40, 40, 40, 40, 40].into_iter().chain([50; 13]).collect();
        let kind = Plaintext::Approximate;
        let parameters = LatticeParameters::insecure_of_sizes(512, &data, &[50; 4], 5, kind).unwrap();
        let mut rng = rng(11);
        let secret = SecretKey::generate(&parameters, &mut rng);
        Self { secret, encoder: Encoder::new(&parameters).unwrap(), rng }
    }

    fn server(&mut self, settings: RefreshSettings) -> (Refresh, RefreshKeys) {
        let refresh = Refresh::new(self.secret.parameters(), settings).unwrap();
        let keys = refresh.keys(&self.secret, &mut self.rng).unwrap();
        (refresh, keys)
    }

    fn encrypt(&mut self, slots: &[f64], level: usize) -> Ciphertext {
        let plaintext = self.encoder.encode(slots, &Scale::power_of_two(40), level).unwrap();
        plaintext.encrypt_seeded(&self.secret, &mut self.rng).unwrap().expand()
    }

    /// The largest error of all slots, which repeat the expected numbers.
    fn error(&self, found: &Ciphertext, expected: &[f64]) -> f64 {
        let found = Decryptor::new(&self.secret, &self.encoder).unwrap().decrypt(found).unwrap();
        let error = |(j, found): (usize, &f64)| (found - expected[j % expected.len()]).abs();
        found.iter().enumerate().map(error).fold(0.0, f64::max)
    }
}

fn numbers(count: usize) -> Vec<f64> {
    (0..count).map(|j| ((j * 37 + 11) % 101) as f64 / 50.0 - 1.0).collect()
}

/// `openfheorg/openfhe-development#1264`: with a sixteenth of the slots, and layers whose number
/// does not divide the logarithm of the slots, the result was off by as much as the numbers, and
/// nobody was told. `tuneinsight/lattigo#505`: the same with half of the slots.
/// `openfheorg/openfhe-development#1112`: the same for steps of another grouping.
/// `openfheorg/openfhe-development#610`: the same with one slot.
#[test]
fn every_number_of_slots_is_refreshed_right_or_refused() {
    let mut party = Party::new();
    // three factors for 2 to 8 layers: equal ones, and ones that differ by a layer
    for slots in [4, 8, 16, 32, 64, 128, 256] {
        let (refresh, keys) = party.server(RefreshSettings::real(slots));
        let x = party.encrypt(&numbers(slots), 4);
        let y = refresh.refresh(&x, &keys).unwrap();
        let (error, bound) = (party.error(&y, &numbers(slots)), y.estimate().unwrap().error());
        assert!(error <= bound && bound < 2f64.powi(-14), "{slots} slots: {error:e}, bound {bound:e}");
    }
    for slots in [0, 1, 2, 3, 100, 512] {
        let refused = Refresh::new(party.secret.parameters(), RefreshSettings::real(slots)).map(drop);
        assert!(matches!(refused, Err(RefreshError::Settings { most: 256, .. })), "{slots} slots");
    }
}

/// `openfheorg/openfhe-development#390`: numbers from 1000 to 2000 came back completely wrong.
#[test]
fn numbers_that_are_too_large_for_a_refresh_are_refused() {
    let mut party = Party::new();
    let (refresh, keys) = party.server(RefreshSettings::real(16));
    party.encoder = party.encoder.clone().within(2000.0);
    let large: Vec<f64> = (0..16).map(|j| 1000.0 + 60.0 * f64::from(j)).collect();
    let x = party.encrypt(&large, 4);
    let refused = refresh.refresh(&x, &keys).map(drop);
    assert!(matches!(refused, Err(RefreshError::Magnitude { magnitude, .. }) if magnitude >= 2000.0), "{refused:?}");
    // the remedy that the message names: a smaller scale
    party.encoder = Encoder::new(party.secret.parameters()).unwrap();
    let small: Vec<f64> = large.iter().map(|number| number / 2000.0).collect();
    let y = refresh.refresh(&party.encrypt(&small, 4), &keys).unwrap();
    assert!(party.error(&y, &small) < 2f64.powi(-14));
}

/// `tuneinsight/lattigo#141` and `tuneinsight/lattigo#476`: the input was changed, to another level
/// and another message.
#[test]
fn the_input_of_a_refresh_stays_as_it_is() {
    let mut party = Party::new();
    let (refresh, keys) = party.server(RefreshSettings::real(256));
    for level in [4, 6, 19] {
        let x = party.encrypt(&numbers(256), level);
        let before = wire::encode_ckks_ciphertext(&x).unwrap();
        let y = refresh.refresh(&x, &keys).unwrap();
        assert!(wire::encode_ckks_ciphertext(&x).unwrap() == before, "level {level}");
        assert!(party.error(&x, &numbers(256)) < 2f64.powi(-20));
        assert!(party.error(&y, &numbers(256)) < 2f64.powi(-14));
    }
}

/// `tuneinsight/lattigo#134` and `homenc/HElib#284`: now and then, a refresh gave wrong numbers.
/// The same ciphertext was right the next time.
#[test]
fn many_refreshes_of_many_ciphertexts_are_within_their_bounds() {
    let mut party = Party::new();
    let (refresh, keys) = party.server(RefreshSettings::real(32));
    for turn in 0..100 {
        let z: Vec<f64> = (0..32).map(|j| f64::from((j * 37 + turn * 101) % 199) / 99.0 - 1.0).collect();
        let x = party.encrypt(&z, 4);
        let y = refresh.refresh(&x, &keys).unwrap();
        assert!(party.error(&y, &z) <= y.estimate().unwrap().error(), "turn {turn}");
    }
}

/// `tuneinsight/lattigo#96`: a ciphertext of the lowest level was not refreshed.
#[test]
fn a_ciphertext_of_too_low_a_level_is_refused_with_the_level_that_is_needed() {
    let mut party = Party::new();
    let (refresh, keys) = party.server(RefreshSettings::real(256));
    let least = refresh.settings().least_level();
    for found in 1..least {
        let refused = refresh.refresh(&party.encrypt(&numbers(256), found), &keys).map(drop);
        assert_eq!(refused, Err(OperationError::Exhausted { least, found }.into()));
    }
    let y = refresh.refresh(&party.encrypt(&numbers(256), least), &keys).unwrap();
    assert!(party.error(&y, &numbers(256)) < 2f64.powi(-14));
}

/// `snucrypto/HEAAN#33`: a refresh of another number of slots than the keys were made for crashed.
#[test]
fn keys_of_another_number_of_slots_are_refused() {
    let mut party = Party::new();
    let (_, keys) = party.server(RefreshSettings::real(16));
    let (refresh, _) = party.server(RefreshSettings::real(4));
    let x = party.encrypt(&numbers(4), 4);
    assert_eq!(refresh.refresh(&x, &keys).map(drop), Err(RefreshError::Keys));
    let toy = Ckks::toy(&[50, 40, 40]);
    assert_eq!(refresh.refresh(&toy.encrypt(&numbers(4), 40, 3), &keys).map(drop), Err(RefreshError::Keys));
}
