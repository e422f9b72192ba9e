//! Steps that make several ciphertexts, and sums of rotations: their encrypted results equal the
//! plain ones, in memory and in the tier.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use tobari_engine::{BgvEngine, BgvValue, EngineError};
use tobari_lattice::bgv::{Ciphertext, Decryptor, Encoder, EvaluationKeys};
use tobari_lattice::params::{LatticeParameters, Plaintext};
use tobari_lattice::ring::Modulus;
use tobari_lattice::rlwe::SecretKey;
use tobari_plan::clear::{Arithmetic, ClearEngine, ClearValue};
use tobari_plan::engine::{Engine, Shapes};
use tobari_plan::program::{Encoding, Kind, Op};

fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

struct World {
    engine: BgvEngine,
    clear: ClearEngine,
    secret: SecretKey,
    encoder: Encoder,
}

impl World {
    fn new() -> Self {
        let t = Plaintext::Integers(Modulus::new(257).unwrap());
        let parameters = LatticeParameters::insecure_of_sizes(64, &[40; 4], &[45; 2], 2, t).unwrap();
        Self {
            engine: BgvEngine::new(&parameters, None, &mut rng(1)).unwrap(),
            clear: ClearEngine { arithmetic: Arithmetic::Modulo(257), rows: 2, columns: 32 },
            secret: SecretKey::generate(&parameters, &mut rng(2)),
            encoder: Encoder::new(&parameters).unwrap(),
        }
    }

    fn slots(seed: i64) -> Vec<i64> {
        (0..64).map(|j| (j * 37 + seed * 101) % 257 - 128).collect()
    }

    fn encrypted(&self, seed: i64, level: usize) -> BgvValue {
        let holder = Decryptor::new(&self.secret).unwrap();
        let plaintext = self.encoder.encode(&Self::slots(seed)).unwrap();
        self.engine
            .ciphertext(plaintext.encrypt_seeded(holder.key(), level + 1, &mut rng(seed as u64)).unwrap().expand())
            .unwrap()
    }

    fn of(&self, value: &BgvValue) -> ClearValue {
        let ciphertext = value.as_ciphertext().unwrap();
        assert!(ciphertext.noise_budget() > 0.0);
        ClearValue::Integers(
            self.encoder.decode(&Decryptor::new(&self.secret).unwrap().decrypt(ciphertext).unwrap()).unwrap(),
        )
    }

    /// Runs the step on both engines, and reads the result back from the bytes of either encoding.
    fn step(&self, op: Op, args: &[&BgvValue], plain: &[&ClearValue]) -> (BgvValue, ClearValue) {
        let shapes: Vec<_> = args.iter().map(|arg| self.engine.shape_of(arg).unwrap()).collect();
        let made = self.engine.step(0, op, args).unwrap();
        let shape = self.engine.shape(op, &shapes).unwrap();
        assert_eq!(shape, self.engine.shape_of(&made).unwrap(), "{op}");
        for encoding in [Encoding::Raw, Encoding::Packed] {
            let mut bytes = vec![0; shape.stored(encoding) as usize];
            self.engine.export(&made, &shape, encoding, &mut bytes).unwrap();
            let back = self.engine.import(&shape, encoding, &bytes).unwrap();
            let mut again = vec![0; bytes.len()];
            self.engine.export(&back, &shape, encoding, &mut again).unwrap();
            assert_eq!(again, bytes);
            assert!(matches!(self.engine.import(&shape, encoding, &bytes[1..]), Err(EngineError::Bytes { .. })));
        }
        (made, self.clear.step(0, op, plain).unwrap())
    }
}

#[test]
fn several_forms_of_one_step_are_what_they_are_in_the_clear() {
    let world = World::new();
    let key =
        EvaluationKeys::new(world.secret.parameters()).with_relinearization(&world.secret, 4, &mut rng(3)).unwrap();
    let key = world.engine.key(key).unwrap();
    let values: Vec<BgvValue> = [(1, 3), (2, 3), (3, 2)].map(|(seed, level)| world.encrypted(seed, level)).into();
    let lists = [[1, -2, 3, 4, -5, 6], [0, 0, 0, 0, 0, 7], [0, 9, 0, 2, 0, 0]];
    let weights: Vec<BgvValue> = lists.iter().map(|list| world.engine.compact(list, 3).unwrap()).collect();
    let op = |forms| Op::Bilinear { left: 1, right: 2, forms, divisor: 3 };
    let args: Vec<&BgvValue> = values.iter().chain(&weights).chain([&key]).collect();
    let clear: Vec<ClearValue> = (1..4).map(|seed| world.clear.integers(&World::slots(seed)).unwrap()).collect();
    let lists: Vec<ClearValue> = lists.iter().map(|list| world.clear.integers(list).unwrap()).collect();
    let plain: Vec<&ClearValue> = clear.iter().chain(&lists).chain([&ClearValue::Key]).collect();
    let (several, expected) = world.step(op(3), &args, &plain);
    assert_eq!(world.engine.shape_of(&several).unwrap().kind, Kind::Several);
    for which in 0..3 {
        let (part, expected) = world.step(Op::Part(which), &[&several], &[&expected]);
        assert_eq!(world.of(&part), expected, "form {which}");
        assert_eq!(part.as_ciphertext().map(Ciphertext::level), Some(2));
    }
    assert!(world.engine.step(0, Op::Part(3), &[&several]).is_err());
    let (one, expected) = world.step(op(1), &[&args[..4], &[&key]].concat(), &plain[..4]);
    assert_eq!(world.of(&one), expected);
    // a sum without a product, and a wrong number of lists
    let linear = world.engine.compact(&[1, 2, 3, 0, 0, 0], 3).unwrap();
    assert!(world.engine.step(0, op(1), &[&args[..3], &[&linear, &key]].concat()).is_err());
    assert!(world.engine.step(0, op(2), &args).is_err());
    let even = Op::Bilinear { left: 1, right: 2, forms: 1, divisor: 257 };
    assert!(world.engine.step(0, even, &[&args[..4], &[&key]].concat()).is_err());
}

#[test]
fn sums_of_rotations_are_what_they_are_in_the_clear() {
    let world = World::new();
    let keys = [5, -3].map(|steps| {
        let key = EvaluationKeys::new(world.secret.parameters())
            .with_rotation(&world.secret, steps, 4, &mut rng(steps.unsigned_abs()))
            .unwrap();
        world.engine.key(key).unwrap()
    });
    let values: Vec<BgvValue> = (1..4).map(|seed| world.encrypted(seed, 3)).collect();
    let clear: Vec<ClearValue> = (1..4).map(|seed| world.clear.integers(&World::slots(seed)).unwrap()).collect();
    let hoisted: Vec<BgvValue> =
        values.iter().map(|value| world.engine.step(0, Op::Hoist, &[value]).unwrap()).collect();
    let op = Op::RotateSum { steps: [5, -3, 0], counts: [2, 1, 0] };
    let args = [&values[0], &hoisted[1], &hoisted[2], &hoisted[1], &keys[0], &keys[1]];
    let plain = [&clear[0], &clear[1], &clear[2], &clear[1], &ClearValue::Key, &ClearValue::Key];
    let (sum, expected) = world.step(op, &args, &plain);
    assert_eq!(world.of(&sum), expected);
    assert_eq!(sum.as_ciphertext().map(Ciphertext::level), Some(4));
    assert!(world.engine.step(0, op, &[args[0], args[1], args[2], args[3], args[5], args[4]]).is_err(), "keys swapped");
}
