//! Sums of linear maps of several ciphertexts equal products with their matrices, and mismatched
//! input is rejected.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use tobari_lattice::ckks::{
    Ciphertext, Decryptor, Encoder, EvaluationKeys, Evaluator, Grid, OperationError, Plaintext, Precision, Scale,
};
use tobari_lattice::params::{self, LatticeParameters};
use tobari_lattice::rlwe::SecretKey;

const SLOTS: usize = 32;

struct Setting {
    secret: SecretKey,
    encoder: Encoder,
    evaluator: Evaluator,
}

fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}

fn setting() -> Setting {
    let approximate = params::Plaintext::Approximate;
    let parameters = LatticeParameters::insecure_of_sizes(64, &[50, 35, 35], &[50], 3, approximate).unwrap();
    let secret = SecretKey::generate(&parameters, &mut rng(1));
    let (encoder, evaluator) = (Encoder::new(&parameters).unwrap(), Evaluator::new(&parameters).unwrap());
    Setting { secret, encoder, evaluator }
}

fn numbers(seed: usize) -> Vec<f64> {
    (0..SLOTS).map(|j| ((j * 37 + seed * 11) % 23) as f64 / 23.0 - 0.5).collect()
}

impl Setting {
    fn encrypt(&self, numbers: &[f64], scale: u32, level: usize) -> Ciphertext {
        let plaintext = self.encoder.encode(numbers, &Scale::power_of_two(scale), level).unwrap();
        plaintext.encrypt_seeded(&self.secret, &mut rng(2)).unwrap().expand()
    }

    fn keys(&self, grid: Grid, level: usize) -> Vec<EvaluationKeys> {
        let key = |step| {
            let mut key = EvaluationKeys::new(self.encoder.parameters());
            key.add_rotation(&self.secret, step, level, &mut rng(3)).unwrap();
            key
        };
        grid.rotations().map(key).collect()
    }

    fn weights(&self, weights: &[Vec<f64>], scale: u32) -> Vec<Plaintext> {
        weights.iter().map(|w| self.encoder.encode_diagonal(w, &Scale::power_of_two(scale), 3).unwrap()).collect()
    }
}

fn plain(inputs: &[Vec<f64>], weights: &[Vec<f64>], grid: Grid) -> Vec<f64> {
    let mut sum = vec![0.0; SLOTS];
    for g in 0..grid.giants {
        for (i, input) in inputs.iter().enumerate() {
            for b in 0..grid.babies {
                let w = &weights[(g * inputs.len() + i) * grid.babies + b];
                for (j, sum) in sum.iter_mut().enumerate() {
                    let at = (j as i64 + g as i64 * grid.giant).rem_euclid(SLOTS as i64) as usize;
                    *sum += w[at] * input[(at as i64 + b as i64 * grid.baby).rem_euclid(SLOTS as i64) as usize];
                }
            }
        }
    }
    sum
}

#[test]
fn sums_of_maps_are_products_with_their_matrices_at_every_level() {
    let s = setting();
    for (count, baby, babies, giant, giants) in
        [(1, 1, 4, 4, 4), (2, 3, 3, 1, 2), (3, -2, 2, 5, 1), (2, 0, 1, -7, 3), (1, 1, 2, 0, 1)]
    {
        let grid = Grid { baby, babies, giant, giants };
        let inputs: Vec<Vec<f64>> = (0..count).map(numbers).collect();
        let weights: Vec<Vec<f64>> = (0..count * babies * giants).map(|i| numbers(i + 5)).collect();
        let expected = plain(&inputs, &weights, grid);
        let diagonals = s.weights(&weights, 20);
        for level in 1..=3 {
            let encrypted: Vec<Ciphertext> = inputs.iter().map(|x| s.encrypt(x, 25, level)).collect();
            // keys of this level, or of a higher one
            for keys in [s.keys(grid, level), s.keys(grid, 3)] {
                let (inputs, weights): (Vec<_>, Vec<_>) = (encrypted.iter().collect(), diagonals.iter().collect());
                let keys: Vec<&EvaluationKeys> = keys.iter().collect();
                let y = s.evaluator.transform_sum(&inputs, &weights, grid, &keys).unwrap();
                assert_eq!((y.level(), y.scale()), (level, &Scale::power_of_two(45)));
                let found = Decryptor::new(&s.secret, &s.encoder).unwrap().decrypt(&y).unwrap();
                let error = Precision::of(&found, &expected).max();
                assert!(error < 1e-3, "{grid:?} at level {level}: {error:e}");
            }
        }
    }
}

#[test]
fn arguments_that_do_not_fit_a_grid_are_refused() {
    let s = setting();
    let grid = Grid { baby: 1, babies: 2, giant: 2, giants: 2 };
    let (x, keys) = (s.encrypt(&numbers(1), 25, 3), s.keys(grid, 3));
    let weights = s.weights(&(0..4).map(numbers).collect::<Vec<_>>(), 20);
    let run = |inputs: &[&Ciphertext], weights: &[Plaintext], keys: &[EvaluationKeys]| {
        let (weights, keys): (Vec<_>, Vec<_>) = (weights.iter().collect(), keys.iter().collect());
        s.evaluator.transform_sum(inputs, &weights, grid, &keys).map(|_| ())
    };
    assert_eq!(run(&[&x], &weights, &keys), Ok(()));
    let shape = Err(OperationError::Grid { expected: 4, keys: 2 });
    assert_eq!((run(&[&x], &weights[1..], &keys), run(&[&x], &weights, &keys[1..])), (shape.clone(), shape));
    assert_eq!(run(&[], &[], &keys), Err(OperationError::Grid { expected: 0, keys: 2 }));
    let mut swapped = keys.clone();
    swapped.swap(0, 1);
    assert!(matches!(run(&[&x], &weights, &swapped), Err(OperationError::MissingKey { .. })));
    assert!(matches!(run(&[&x], &weights, &s.keys(grid, 2)), Err(OperationError::MissingKey { .. })));
    let eight: Vec<Plaintext> = weights.iter().chain(&weights).cloned().collect();
    let (lower, other) = (s.encrypt(&numbers(2), 25, 2), s.encrypt(&numbers(2), 26, 3));
    assert!(matches!(run(&[&x, &lower], &eight, &keys), Err(OperationError::Levels { .. })));
    assert!(matches!(run(&[&x, &other], &eight, &keys), Err(OperationError::Scales { .. })));
    let product = s.evaluator.tensor(&x, &x).unwrap();
    assert_eq!(run(&[&product], &weights, &keys), Err(OperationError::ThreeParts));
    let mut narrow = weights.clone();
    narrow[2] = s.encoder.encode(&numbers(3), &Scale::power_of_two(20), 3).unwrap();
    assert_eq!(run(&[&x], &narrow, &keys), Err(OperationError::NoDiagonal));
    narrow[2] = s.weights(&[numbers(1)], 21).remove(0);
    assert!(matches!(run(&[&x], &narrow, &keys), Err(OperationError::Scales { .. })));
    assert!(weights[0].is_diagonal() && weights[0].level() == 3);
}
