//! Programs under encryption: their results, the memory of their values, and their values after a
//! round trip through a tier.

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use std::sync::Arc;
use tobari_engine::{BgvEngine, BgvValue, CkksEngine, CkksValue, EngineError};
use tobari_lattice::ckks::{self, Scale};
use tobari_lattice::params::{LatticeParameters, Plaintext};
use tobari_lattice::ring::{Domain, Modulus};
use tobari_lattice::rlwe::{PublicKey, SecretKey};
use tobari_lattice::{bgv, wire};
use tobari_plan::clear::{Arithmetic, ClearEngine, ClearValue};
use tobari_plan::engine::{Direct, Engine, Machine, Shapes};
use tobari_plan::program::{Encoding, Kind, Op, Recorder, Shape};
use tobari_plan::site::Secrecy;

const DEGREE: usize = 1 << 13;

fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}

/// The inputs of the program.
struct Inputs<T> {
    x: T,
    p: T,
    q: T,
    relinearization: T,
    one: T,
    two: T,
}

impl<T> Inputs<T> {
    fn map<U>(self, mut f: impl FnMut(T) -> U) -> Inputs<U> {
        let [x, p, q, relinearization, one, two] =
            [self.x, self.p, self.q, self.relinearization, self.one, self.two].map(&mut f);
        Inputs { x, p, q, relinearization, one, two }
    }

    fn all(&self) -> [&T; 6] {
        [&self.x, &self.p, &self.q, &self.relinearization, &self.one, &self.two]
    }
}

/// `5 - 3 (x² + p x + (q p) turn(x, 1) + p turn(x, 2)) - (x + q) + 3 q`, with all intermediate
/// values.
fn program<M: Machine>(m: &mut M, i: &Inputs<M::Value>) -> Result<Vec<M::Value>, M::Error> {
    let square = m.mul(&i.x, &i.x, &i.relinearization)?;
    let one = m.rotate(&i.x, 1, &i.one)?;
    let hoisted = m.step(Op::Hoist, &[&i.x])?;
    let two = m.step(Op::RotateHoisted(2), &[&hoisted, &i.two])?;
    let dot = m.step(Op::Dot, &[&i.x, &i.p, &one, &i.q, &two, &i.p])?;
    let dot = m.step(Op::Rescale, &[&dot])?;
    let sum = m.step(Op::Add, &[&square, &dot, &dot])?;
    let scaled = m.step(Op::Scale(3), &[&sum])?;
    let negative = m.step(Op::Neg, &[&scaled])?;
    let lower = m.step(Op::LowerTo(0), &[&negative])?;
    let product = m.mul_plain(&i.x, &i.p)?;
    let product = m.step(Op::Rescale, &[&product])?;
    let mixed = m.sub(&lower, &product)?;
    let plain = m.step(Op::Scale(3), &[&i.q])?;
    let turned = m.step(Op::Rotate(3), &[&plain])?;
    let plain = m.sub(&plain, &turned)?;
    let with = m.add(&i.x, &plain)?;
    let with = m.sub(&with, &i.q)?;
    let from = m.sub(&i.q, &i.x)?;
    let out = m.step(Op::Offset(5), &[&mixed])?;
    Ok(vec![
        square, one, hoisted, two, dot, sum, scaled, negative, lower, product, mixed, plain, turned, with, from, out,
    ])
}

/// A machine that sends every new value to the tier and back.
struct Paged<'a, E: Engine> {
    engine: &'a E,
    encoding: Encoding,
    shape_of: fn(&E, &E::Value) -> Shape,
    steps: usize,
}

const ENCODINGS: [Encoding; 2] = [Encoding::Packed, Encoding::Raw];

fn there_and_back<E: Engine>(engine: &E, value: &E::Value, shape: &Shape, encoding: Encoding) -> (E::Value, Vec<u8>) {
    let mut bytes = vec![0xa5; shape.stored(encoding) as usize];
    engine.export(value, shape, encoding, &mut bytes).unwrap();
    (engine.import(shape, encoding, &bytes).unwrap(), bytes)
}

impl<E: Engine> Machine for Paged<'_, E> {
    type Value = Arc<E::Value>;
    type Error = E::Error;

    fn step(&mut self, op: Op, args: &[&Arc<E::Value>]) -> Result<Arc<E::Value>, E::Error> {
        let args: Vec<&E::Value> = args.iter().map(AsRef::as_ref).collect();
        let value = self.engine.step(self.steps, op, &args)?;
        self.steps += 1;
        let shape = (self.shape_of)(self.engine, &value);
        Ok(Arc::new(there_and_back(self.engine, &value, &shape, self.encoding).0))
    }
}

/// One engine with a program's inputs, for either scheme.
struct Bench<E: Engine> {
    engine: E,
    inputs: Inputs<Arc<E::Value>>,
    shapes: [Shape; 6],
    shape_of: fn(&E, &E::Value) -> Shape,
    memory: fn(&E::Value) -> u64,
    secret: SecretKey,
}

fn bgv_parameters() -> LatticeParameters {
    let t = Plaintext::Integers(Modulus::new(65_537).unwrap());
    LatticeParameters::of_sizes(DEGREE, &[45, 45, 45], &[46], 3, t).unwrap()
}

fn integers() -> [Vec<i64>; 3] {
    let of = |a: i64, b: i64| (0..DEGREE as i64).map(|i| (a * i + b) % 200 - 100).collect();
    [of(7, 3), of(11, 50), of(13, 9)]
}

fn bgv_bench() -> Bench<BgvEngine> {
    let (parameters, rng) = (bgv_parameters(), &mut rng(1));
    let secret = SecretKey::generate(&parameters, rng);
    let public = PublicKey::generate(&secret, rng);
    let encoder = bgv::Encoder::new(&parameters).unwrap();
    let engine = BgvEngine::new(&parameters, Some(public), rng).unwrap();
    let [x, p, q] = integers();
    let holder = bgv::Decryptor::new(&secret).unwrap();
    let x = encoder.encode(&x).unwrap().encrypt_seeded(holder.key(), 3, rng).unwrap().expand();
    let mut keys = bgv::EvaluationKeys::new(secret.parameters()).with_relinearization(&secret, 3, rng).unwrap();
    keys = keys.with_rotation(&secret, 1, 3, rng).unwrap().with_rotation(&secret, 2, 3, rng).unwrap();
    assert!(engine.key(keys.clone()).is_err(), "several keys are no value");
    let inputs = Inputs {
        x: engine.ciphertext(x).unwrap(),
        p: engine.integers(&p, 2).unwrap(),
        q: engine.integers(&q, 2).unwrap(),
        relinearization: engine.key(keys.take_relinearization().unwrap()).unwrap(),
        one: engine.key(keys.take_rotation(1).unwrap()).unwrap(),
        two: engine.key(keys.take_rotation(2).unwrap()).unwrap(),
    };
    assert!(engine.key(keys).is_err(), "no key is no value");
    let rotation = engine.rotation_key_shape(2).unwrap();
    let plain = engine.plaintext_shape(2).unwrap();
    let shapes = [
        engine.ciphertext_shape(2).unwrap(),
        plain,
        plain,
        engine.relinearization_key_shape(2).unwrap(),
        rotation,
        rotation,
    ];
    let shape_of = |engine: &BgvEngine, value: &BgvValue| engine.shape_of(value).unwrap();
    Bench { engine, inputs: inputs.map(Arc::new), shapes, shape_of, memory: BgvValue::memory, secret }
}

fn numbers() -> [Vec<f64>; 3] {
    integers().map(|values| values[..DEGREE / 2].iter().map(|value| *value as f64 / 100.0).collect())
}

fn ckks_bench() -> Bench<CkksEngine> {
    let sizes = LatticeParameters::of_sizes(DEGREE, &[50, 40, 40], &[50], 3, Plaintext::Approximate);
    let (parameters, rng, scale) = (sizes.unwrap(), &mut rng(2), Scale::power_of_two(40));
    let secret = SecretKey::generate(&parameters, rng);
    let encoder = ckks::Encoder::new(&parameters).unwrap();
    let engine = CkksEngine::new(&parameters).unwrap();
    let [x, p, q] = numbers();
    let x = encoder.encode(&x, &scale, 3).unwrap().encrypt_seeded(&secret, rng).unwrap().expand();
    let mut keys = ckks::EvaluationKeys::new(&parameters);
    keys.add_relinearization(&secret, 3, rng).unwrap();
    keys.add_rotation(&secret, 1, 3, rng).unwrap();
    keys.add_rotation(&secret, 2, 3, rng).unwrap();
    let inputs = Inputs {
        x: engine.ciphertext(x).unwrap(),
        p: engine.numbers(&p, &scale, 2).unwrap(),
        q: engine.numbers(&q, &scale, 2).unwrap(),
        relinearization: engine.key(keys.take_relinearization().unwrap()).unwrap(),
        one: engine.key(keys.take_rotation(1).unwrap()).unwrap(),
        two: engine.key(keys.take_rotation(2).unwrap()).unwrap(),
    };
    let rotation = engine.rotation_key_shape(2).unwrap();
    let plain = engine.plaintext_shape(2).unwrap();
    let shapes = [
        engine.ciphertext_shape(2).unwrap(),
        plain,
        plain,
        engine.relinearization_key_shape(2).unwrap(),
        rotation,
        rotation,
    ];
    let shape_of = |engine: &CkksEngine, value: &CkksValue| engine.shape_of(value).unwrap();
    Bench { engine, inputs: inputs.map(Arc::new), shapes, shape_of, memory: CkksValue::memory, secret }
}

fn clear_inputs(values: [ClearValue; 3]) -> Inputs<Arc<ClearValue>> {
    let [x, p, q] = values;
    let key = || ClearValue::Key;
    Inputs { x, p, q, relinearization: key(), one: key(), two: key() }.map(Arc::new)
}

#[test]
fn integers_come_out_exactly_as_in_the_clear() {
    let bench = bgv_bench();
    let clear = ClearEngine { arithmetic: Arithmetic::Modulo(65_537), rows: 2, columns: DEGREE / 2 };
    let inputs = clear_inputs(integers().map(|values| clear.integers(&values).unwrap()));
    let expected = program(&mut Direct::new(&clear), &inputs).unwrap();
    let found = program(&mut Direct::new(&bench.engine), &bench.inputs).unwrap();
    let encoder = bgv::Encoder::new(bench.secret.parameters()).unwrap();
    let holder = bgv::Decryptor::new(&bench.secret).unwrap();
    let mut seen = 0;
    for (found, expected) in found.iter().zip(&expected) {
        let Some(ciphertext) = found.as_ciphertext() else { continue };
        assert!(ciphertext.noise_budget() > 0.0);
        assert_eq!(ClearValue::Integers(encoder.decode(&holder.decrypt(ciphertext).unwrap()).unwrap()), **expected);
        seen += 1;
    }
    assert_eq!(seen, 13);
}

#[test]
fn a_compact_plaintext_does_what_a_prepared_one_does() {
    let Bench { engine, inputs, secret, .. } = bgv_bench();
    let prepared = program(&mut Direct::new(&engine), &inputs).unwrap();
    let [_, p, q] = integers().map(|values| Arc::new(engine.compact(&values, 2).unwrap()));
    let shape = engine.compact_shape(2).unwrap();
    assert_eq!((engine.shape_of(&p).unwrap(), p.memory()), (shape, shape.resident));
    assert!(6 * shape.resident == engine.plaintext_shape(2).unwrap().resident && engine.compact(&[1], 3).is_err());
    for encoding in ENCODINGS {
        let (back, bytes) = there_and_back(&engine, &p, &shape, encoding);
        assert_eq!(engine.shape_of(&back).unwrap(), shape);
        assert_eq!(there_and_back(&engine, &back, &shape, encoding).1, bytes);
        assert!(engine.import(&shape, encoding, &bytes[1..]).is_err());
        assert!(engine.import(&shape, encoding, &vec![0xff; bytes.len()]).is_err(), "no coefficient is so large");
    }
    let inputs = Inputs { p, q, ..inputs };
    let found = program(&mut Direct::new(&engine), &inputs).unwrap();
    let holder = bgv::Decryptor::new(&secret).unwrap();
    let mut seen = 0;
    for (found, prepared) in found.iter().zip(&prepared) {
        let (Some(found), Some(prepared)) = (found.as_ciphertext(), prepared.as_ciphertext()) else { continue };
        assert_eq!(holder.decrypt(found).unwrap().coefficients(), holder.decrypt(prepared).unwrap().coefficients());
        seen += 1;
    }
    assert_eq!(seen, 13);
}

#[test]
fn swapped_rows_are_those_of_the_clear() {
    let Bench { engine, inputs, secret, .. } = bgv_bench();
    let key = bgv::EvaluationKeys::new(secret.parameters()).with_swap(&secret, 3, &mut rng(9)).unwrap();
    let key = engine.key(key).unwrap();
    assert_eq!(engine.shape_of(&key).unwrap(), engine.rotation_key_shape(2).unwrap());
    let swapped = engine.step(0, Op::Swap, &[&inputs.x, &key]).unwrap();
    let found = bgv::Decryptor::new(&secret).unwrap().decrypt(swapped.as_ciphertext().unwrap()).unwrap();
    let [x, ..] = integers();
    let (first, second) = x.split_at(DEGREE / 2);
    assert_eq!(bgv::Encoder::new(secret.parameters()).unwrap().decode(&found).unwrap(), [second, first].concat());
    let ckks = ckks_bench();
    let [x, key] = [ckks.shapes[0], ckks.shapes[4]];
    assert!(ckks.engine.shape(Op::Swap, &[x, key]).is_err(), "there is one row");
}

#[test]
fn numbers_come_out_within_the_error_as_in_the_clear() {
    let bench = ckks_bench();
    let clear = ClearEngine { arithmetic: Arithmetic::Real, rows: 1, columns: DEGREE / 2 };
    let inputs = clear_inputs(numbers().map(|values| clear.reals(&values).unwrap()));
    let expected = program(&mut Direct::new(&clear), &inputs).unwrap();
    let found = program(&mut Direct::new(&bench.engine), &bench.inputs).unwrap();
    let encoder = ckks::Encoder::new(bench.secret.parameters()).unwrap();
    let holder = ckks::Decryptor::new(&bench.secret, &encoder).unwrap();
    let mut seen = 0;
    for (found, expected) in found.iter().zip(&expected) {
        let Some(ciphertext) = found.as_ciphertext() else { continue };
        let ClearValue::Reals(expected) = &**expected else { panic!("reals") };
        let slots = holder.decrypt(ciphertext).unwrap();
        let error = slots.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(error < 1e-6, "{error}");
        seen += 1;
    }
    assert_eq!(seen, 13);
}

fn shapes_are_exact<E: Engine>(bench: &Bench<E>) {
    let mut recorder = Recorder::new(&bench.engine);
    let mut shapes = bench.shapes.iter();
    let inputs = Inputs { x: "x", p: "p", q: "q", relinearization: "relinearization", one: "one", two: "two" };
    let inputs = inputs.map(|name| recorder.input(name, *shapes.next().unwrap(), Secrecy::Public).unwrap());
    let recorded = program(&mut recorder, &inputs).unwrap();
    let recorded = {
        let program = recorder.finish(&[*recorded.last().unwrap()]).unwrap();
        let of = |value| *program.shape(value);
        recorded.into_iter().map(of).collect::<Vec<_>>()
    };
    let values = program(&mut Direct::new(&bench.engine), &bench.inputs).unwrap();
    let inputs = bench.inputs.all().into_iter().zip(bench.shapes);
    for (value, shape) in inputs.chain(values.iter().zip(recorded)) {
        assert_eq!((bench.memory)(value), shape.resident, "{shape:?}");
        assert_eq!((bench.shape_of)(&bench.engine, value), shape);
        assert!(shape.packed <= shape.resident + 4096);
        let stored = ENCODINGS.map(|encoding| there_and_back(&bench.engine, value, &shape, encoding).1.len() as u64);
        assert_eq!(stored, [shape.packed, shape.raw]);
    }
}

#[test]
fn recorded_shapes_are_those_of_the_values() {
    shapes_are_exact(&bgv_bench());
    shapes_are_exact(&ckks_bench());
}

fn one_of_each<E: Engine>(bench: &Bench<E>) -> Vec<(Arc<E::Value>, Shape)> {
    let values = program(&mut Direct::new(&bench.engine), &bench.inputs).unwrap();
    let shaped = |value: &Arc<E::Value>| (Arc::clone(value), (bench.shape_of)(&bench.engine, value));
    bench.inputs.all().into_iter().chain(&values).map(shaped).collect()
}

/// A machine that runs every step twice, the second time with a first argument that it gives up.
struct Both<'a, E: Engine> {
    engine: &'a E,
    shape_of: fn(&E, &E::Value) -> Shape,
    steps: usize,
}

impl<E: Engine> Machine for Both<'_, E> {
    type Value = Arc<E::Value>;
    type Error = E::Error;

    fn step(&mut self, op: Op, args: &[&Arc<E::Value>]) -> Result<Arc<E::Value>, E::Error> {
        let args: Vec<&E::Value> = args.iter().map(AsRef::as_ref).collect();
        let bytes = |value: &E::Value| {
            let shape = (self.shape_of)(self.engine, value);
            there_and_back(self.engine, value, &shape, Encoding::Packed)
        };
        let value = self.engine.step(self.steps, op, &args)?;
        let owned = self.engine.step_owned(self.steps, op, bytes(args[0]).0, &args[1..])?;
        assert!(bytes(&owned).1 == bytes(&value).1, "{op}");
        self.steps += 1;
        Ok(Arc::new(value))
    }
}

fn giving_up_changes_nothing<E: Engine>(bench: &Bench<E>) {
    let mut both = Both { engine: &bench.engine, shape_of: bench.shape_of, steps: 0 };
    let values = program(&mut both, &bench.inputs).unwrap();
    let sums = [[0, 0], [0, values.len() - 1], [values.len() - 1, 0]].map(|pair| pair.map(|i| &values[i]));
    for pair in sums {
        // terms of one level and of two, and invalid ones: both machines reject those
        let _ = both.step(Op::Add, &pair);
    }
}

#[test]
fn a_step_that_may_keep_its_first_argument_gives_the_same_bits() {
    giving_up_changes_nothing(&bgv_bench());
    giving_up_changes_nothing(&ckks_bench());
}

/// Also compares values computed from them: a noise bound rounded by the tier would show in the
/// bytes of results.
fn paging_changes_nothing<E: Engine>(bench: &Bench<E>, encoding: Encoding) {
    let there_and_back = |value: &Arc<E::Value>, shape: &Shape| there_and_back(&bench.engine, value, shape, encoding);
    for (value, shape) in one_of_each(bench) {
        let (again, bytes) = there_and_back(&value, &shape);
        assert_eq!(there_and_back(&Arc::new(again), &shape).1, bytes, "{shape:?}");
    }
    let mut paged = Paged { engine: &bench.engine, encoding, shape_of: bench.shape_of, steps: 0 };
    let shaped = |value: &Arc<E::Value>| (bench.shape_of)(&bench.engine, value);
    let inputs = bench.inputs.all().map(|value| Arc::new(there_and_back(value, &shaped(value)).0));
    let [x, p, q, relinearization, one, two] = inputs;
    let paged = program(&mut paged, &Inputs { x, p, q, relinearization, one, two }).unwrap();
    let direct = program(&mut Direct::new(&bench.engine), &bench.inputs).unwrap();
    for (paged, direct) in paged.iter().zip(&direct) {
        let shape = shaped(direct);
        assert_eq!(shaped(paged), shape);
        let bytes = [paged, direct].map(|value| there_and_back(value, &shape).1);
        assert!(bytes[0] == bytes[1], "{shape:?}");
    }
}

#[test]
fn values_that_come_back_are_the_same_to_the_bit_and_so_is_what_follows() {
    for encoding in ENCODINGS {
        paging_changes_nothing(&bgv_bench(), encoding);
        paging_changes_nothing(&ckks_bench(), encoding);
    }
}

fn altered_bytes<E: Engine>(bench: &Bench<E>, encoding: Encoding) {
    let all = one_of_each(bench);
    for (value, shape) in [0, 1, 3, 4, 8].map(|i| &all[i]) {
        let (_, bytes) = there_and_back(&bench.engine, value, shape, encoding);
        let import_as = |shape: &Shape, bytes: &[u8]| bench.engine.import(shape, encoding, bytes);
        let import = |bytes: &[u8]| import_as(shape, bytes);
        for length in [0, 1, 8, bytes.len() - 1] {
            assert!(import(&bytes[..length]).is_err());
        }
        assert!(import(&[&bytes[..], &[0]].concat()).is_err());
        // a hoisted ciphertext is stored as the ciphertext
        let form =
            |shape: &Shape| (if shape.kind == Kind::Hoisted { Kind::Encrypted } else { shape.kind }, shape.level);
        for other in all.iter().map(|(_, shape)| shape).filter(|other| form(other) != form(shape)) {
            assert!(bench.engine.import(other, encoding, &bytes).is_err(), "{shape:?} as {other:?}");
            let mut room = vec![0; other.stored(encoding) as usize];
            assert!(bench.engine.export(value, other, encoding, &mut room).is_err(), "{shape:?} as {other:?}");
        }
        assert!(bench.engine.export(value, shape, encoding, &mut vec![0; bytes.len() - 1]).is_err());
        let elsewhere = Shape { resident: shape.resident + 8, ..*shape };
        assert!(import_as(&elsewhere, &bytes).is_err());
        let mut refused = 0;
        let tail = (0..40).map(|i| bytes.len() * i / 40);
        let ends = (0..100).chain(bytes.len() - 100..bytes.len());
        for (place, bit) in ends.chain(tail).map(|place| (place, place % 8)) {
            let mut flipped = bytes.clone();
            flipped[place] ^= 1 << bit;
            match import(&flipped) {
                Ok(other) => {
                    assert!(
                        there_and_back(&bench.engine, &other, shape, encoding).1 == flipped,
                        "{shape:?}, byte {place}"
                    );
                }
                Err(_) => refused += 1,
            }
        }
        // every object with encoded parameters is rejected when they differ
        assert!(refused >= if shape == &all[1].1 { 0 } else { 35 }, "{shape:?}: {refused}");
        assert!(import(&vec![0xff; bytes.len()]).is_err());
    }
}

#[test]
fn altered_bytes_are_refused_or_another_value() {
    for encoding in ENCODINGS {
        altered_bytes(&bgv_bench(), encoding);
        altered_bytes(&ckks_bench(), encoding);
    }
}

#[test]
fn steps_that_do_not_fit_are_refused() {
    let bench = bgv_bench();
    let Inputs { x, relinearization, one, two, .. } = &bench.inputs;
    let step = |op, args: &[&Arc<BgvValue>]| {
        let args: Vec<&BgvValue> = args.iter().map(AsRef::as_ref).collect();
        bench.engine.step(0, op, &args)
    };
    assert!(matches!(step(Op::Rotate(1), &[x, two]), Err(EngineError::Bgv(bgv::EvaluateError::MissingKey { .. }))));
    assert!(matches!(step(Op::Mul, &[x, x, one]), Err(EngineError::Bgv(bgv::EvaluateError::MissingKey { .. }))));
    assert!(matches!(step(Op::Mul, &[x, x]), Err(EngineError::Step(_))));
    assert!(matches!(step(Op::Add, &[x, relinearization]), Err(EngineError::Step(_))));
    assert!(matches!(step(Op::LowerTo(3), &[x]), Err(EngineError::Step(_))));
    let low = bench.engine.integers(&[1], 1).unwrap().into();
    let refused = step(Op::Mul, &[x, &low]).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("plain arguments of mul for level 2, found one up to 1"), "{refused}");
    assert!(matches!(bench.engine.integers(&[1], 3), Err(EngineError::Level { most: 2, found: 3 })));
    let t = Plaintext::Integers(Modulus::new(65_537).unwrap());
    let others = LatticeParameters::of_sizes(DEGREE, &[45, 45, 45], &[46], 2, t).unwrap();
    let blind = BgvEngine::new(&others, None, &mut rng(0)).unwrap();
    assert!(blind.ciphertext(x.as_ciphertext().unwrap().clone()).is_err(), "other parameters");
    assert!(matches!(blind.step(0, Op::Neg, &[x]), Err(EngineError::Parameters { .. })));
    let flood = blind.shape(Op::Flood(20), &[bench.shapes[0]]).unwrap_err();
    assert!(flood.contains("a public key for floods"), "{flood}");

    let bench = ckks_bench();
    let (x, q) = (&bench.inputs.x, &bench.inputs.q);
    let flood = bench.engine.step(0, Op::Flood(20), &[x]).map(|_| ()).unwrap_err();
    assert!(flood.to_string().contains("floods results of CKKS during decryption"), "{flood}");
    let product = bench.engine.step(0, Op::Mul, &[x, q]).unwrap();
    let scales = bench.engine.step(1, Op::Add, &[&product, x]).map(|_| ()).unwrap_err();
    assert!(matches!(scales, EngineError::Ckks(ckks::OperationError::Scales { .. })));
}

/// One prime and no keys: outputs are flooded at this level.
struct Flooding {
    engine: BgvEngine,
    secret: SecretKey,
    input: BgvValue,
}

const FLOOD: Op = Op::Flood(23);

impl Flooding {
    fn new() -> Self {
        let t = Plaintext::Integers(Modulus::new(65_537).unwrap());
        let parameters = LatticeParameters::of_sizes(1 << 12, &[45], &[], 1, t).unwrap();
        let secret = SecretKey::generate(&parameters, &mut rng(3));
        let public = PublicKey::generate(&secret, &mut rng(4));
        let engine = BgvEngine::new(&parameters, Some(public), &mut rng(5)).unwrap();
        let message = bgv::Plaintext::from_coefficients(&parameters, &[1, 2, 3]).unwrap();
        let input = message.encrypt_seeded(&secret, 1, &mut rng(6)).unwrap().expand();
        let input = engine.ciphertext(input).unwrap();
        Self { engine, secret, input }
    }

    fn flooded(&self, engine: &BgvEngine, step: usize) -> BgvValue {
        engine.step(step, FLOOD, &[&self.input]).unwrap()
    }

    fn bytes(&self, value: &BgvValue) -> Vec<u8> {
        wire::encode_ciphertext(value.as_ciphertext().unwrap()).unwrap()
    }

    /// The phase's coefficients, from the bytes and the secret.
    fn phase(&self, bytes: &[u8]) -> Vec<i64> {
        let parameters = self.secret.parameters();
        let (degree, table) = (parameters.degree(), &parameters.ring().data_primes()[0]);
        let (q, bits) = (table.modulus(), table.modulus().bits() as usize);
        let residues = |part: &[u8]| -> Vec<u64> {
            let bit = |i: usize| u64::from(part[i / 8] >> (i % 8) & 1);
            (0..degree).map(|i| (0..bits).map(|j| bit(i * bits + j) << j).sum()).collect()
        };
        let part = degree * bits / 8;
        let parts = &bytes[bytes.len() - 2 * part..];
        let (c0, c1) = (residues(&parts[..part]), residues(&parts[part..]));
        let mut s = vec![0; degree];
        self.secret.to_seed().stream(Domain::Secret, 0).ternary(&mut s);
        let mut s: Vec<u64> = s.into_iter().map(|s| q.reduce_signed(s)).collect();
        table.forward(&mut s);
        let mut phase: Vec<u64> = (0..degree).map(|i| q.add(c0[i], q.mul(c1[i], s[i]))).collect();
        table.inverse(&mut phase);
        phase.into_iter().map(|x| q.centred(x)).collect()
    }

    /// The mean distance of the average of so many phases from the message.
    fn averaged(&self, copies: &[Vec<u8>]) -> f64 {
        let mut sums = vec![0.0; self.secret.parameters().degree()];
        for copy in copies {
            self.phase(copy).iter().zip(&mut sums).for_each(|(x, sum)| *sum += *x as f64);
        }
        let squares: f64 = sums[3..].iter().map(|sum| (sum / copies.len() as f64).powi(2)).sum();
        (squares / sums.len() as f64).sqrt()
    }
}

#[test]
fn a_flood_is_the_same_in_its_run_and_another_in_every_other() {
    let flooding = Flooding::new();
    let Flooding { engine, input, .. } = &flooding;
    let bytes = flooding.bytes(&flooding.flooded(engine, 7));
    assert_eq!(flooding.bytes(&flooding.flooded(engine, 7)), bytes);
    let same_run = engine.next_run(&mut rng(5));
    assert_eq!(flooding.bytes(&flooding.flooded(&same_run, 7)), bytes);
    assert_ne!(flooding.bytes(&flooding.flooded(engine, 8)), bytes);
    let next_run = engine.next_run(&mut rng(9));
    assert_ne!(flooding.bytes(&flooding.flooded(&next_run, 7)), bytes);
    let holder = bgv::Decryptor::new(&flooding.secret).unwrap();
    let found = holder.decrypt(flooding.flooded(engine, 7).as_ciphertext().unwrap()).unwrap();
    assert_eq!(found.coefficients(), holder.decrypt(input.as_ciphertext().unwrap()).unwrap().coefficients());
    assert_eq!(found.coefficients()[..4], [1, 2, 3, 0]);
}

/// The attack: make a site lose an output and compute it again, collect the floods, and average
/// them away.
#[test]
fn noise_does_not_fall_when_recomputed_outputs_are_averaged() {
    const COPIES: u8 = 64;
    let flooding = Flooding::new();
    let of_one = flooding.averaged(&[flooding.bytes(&flooding.flooded(&flooding.engine, 7))]);
    let again: Vec<_> = (0..COPIES).map(|_| flooding.bytes(&flooding.flooded(&flooding.engine, 7))).collect();
    assert!((flooding.averaged(&again) - of_one).abs() < 1e-6 * of_one);
    // against an engine with new randomness each time, the noise falls eightfold
    let anew = |i| flooding.engine.next_run(&mut rng(100 + i));
    let anew: Vec<_> = (0..COPIES).map(|i| flooding.bytes(&flooding.flooded(&anew(i), 7))).collect();
    let fallen = of_one / flooding.averaged(&anew);
    assert!((6.0..10.0).contains(&fallen), "{fallen}");
}
