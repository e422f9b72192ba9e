//! Design 2: AES under BGV, compared with AES.

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;
use tobari_device::{DeviceNumber, GcmDevice, GcmOpener, InsecureVolatileCounter, READINGS, Root, gcm_key};
use tobari_engine::{BgvEngine, BgvValue};
use tobari_lattice::bgv::{Decryptor, EvaluationKeys};
use tobari_lattice::params::{LatticeParameters, Security};
use tobari_lattice::ring::Seed;
use tobari_lattice::rlwe::SecretKey;
use tobari_plan::check::Requirements;
use tobari_plan::clear::{Arithmetic, ClearEngine, ClearValue};
use tobari_plan::cost::Costs;
use tobari_plan::engine::{Direct, Machine};
use tobari_plan::site::Site;
use tobari_sense::aes::batch::{self, FRAME_BLOCKS};
use tobari_sense::aes::chain::{DEGREE, MODULUS, SCHEDULE};
use tobari_sense::aes::cipher::{BLOCK, ROUNDS, states};
use tobari_sense::aes::program::{self, Inputs};
use tobari_sense::aes::sums::{SumInputs, SumPlan, level_of, sum, sum_key};
use tobari_sense::aes::{Batch, Block, Chain, Characters, Circuit, Input, KeyTable, Layout};
use tobari_sense::bounds::Overflow;
use tobari_sense::linear::{PlanError, key_holder};

fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

fn bytes(rng: &mut ChaCha20Rng) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    rng.fill_bytes(&mut bytes);
    bytes
}

#[test]
fn the_states_that_runs_are_compared_with_end_in_what_the_library_gives() {
    let mut rng = rng(1);
    for _ in 0..50 {
        let (key, block) = (bytes(&mut rng), bytes(&mut rng));
        let mut expected = block.into();
        Aes128::new(&key.into()).encrypt_block(&mut expected);
        assert_eq!(states(&key, &block)[ROUNDS], <[u8; BLOCK]>::from(expected));
    }
    let key = std::array::from_fn(|i| i as u8);
    let block = std::array::from_fn(|i| 17 * i as u8);
    let fips = 0x69c4_e0d8_6a7b_0430_d8cd_b780_70b4_c55a_u128.to_be_bytes();
    assert_eq!(states(&key, &block)[ROUNDS], fips);
}

/// Blocks, each with its own key.
struct World {
    circuit: Circuit,
    batch: Batch,
    table: KeyTable,
    keys: Vec<[u8; BLOCK]>,
    blocks: Vec<Block>,
}

impl World {
    /// A block under its own key in every place but the last.
    fn new(chain: Chain, layout: Layout, seed: u64) -> Self {
        let mut rng = rng(seed);
        let mut world = Self {
            circuit: Circuit::new(chain, layout).with_probes(),
            batch: Batch::new(layout),
            table: KeyTable::new(layout),
            keys: Vec::new(),
            blocks: Vec::new(),
        };
        for place in 0..layout.blocks() - 1 {
            let (key, counter, text) = (bytes(&mut rng), bytes(&mut rng), bytes(&mut rng));
            world.add(place, key, Block { counter, text });
        }
        world
    }

    fn add(&mut self, place: usize, key: [u8; BLOCK], block: Block) {
        assert!(self.batch.put(place, block) && !self.batch.put(place, block));
        assert!(self.table.put(place, &key));
        self.keys.push(key);
        self.blocks.push(block);
    }

    fn expected(&self, place: usize) -> [u8; BLOCK] {
        let (block, key) = (&self.blocks[place], &self.keys[place]);
        let stream = states(key, &block.counter)[ROUNDS];
        std::array::from_fn(|i| stream[i] ^ block.text[i])
    }

    /// Whether the state at the start of a round is AES's, in all slots that must be right.
    fn is_right(&self, round: usize, probe: &[i64]) -> bool {
        let (layout, window) = (self.circuit.layout(), self.circuit.layout().window(round - 1));
        let per_row = layout.places(0, 0).count() / 4;
        (0..self.blocks.len()).all(|place| {
            let state = states(&self.keys[place], &self.blocks[place].counter)[round - 1];
            let places = layout.places(place, round - 1).enumerate().filter(|(i, _)| window.contains(&(i % per_row)));
            places.into_iter().all(|(_, (slot, byte))| probe[slot] == 255 - 2 * i64::from(state[byte]))
        })
    }
}

fn clear_run(world: &World) -> (Vec<i64>, Vec<Vec<i64>>) {
    let columns = world.circuit.layout().columns();
    let clear = ClearEngine { arithmetic: Arithmetic::Modulo(MODULUS), rows: 2, columns };
    let inputs = Inputs::new(&world.circuit, |input| {
        let slots = world.batch.slots(input).or_else(|| world.table.slots(&world.circuit, input).map(|s| s.to_vec()));
        slots.map_or(Ok(ClearValue::Key), |slots| clear.integers(&slots)).map(Arc::new)
    });
    let outputs = program::program(&mut Direct::new(&clear), &world.circuit, &inputs.unwrap()).unwrap();
    let slots = |value: &ClearValue| match value {
        ClearValue::Integers(slots) => slots.clone(),
        _ => unreachable!("integers"),
    };
    (slots(&outputs.bytes), outputs.probes.iter().map(|probe| slots(probe)).collect())
}

#[test]
fn the_circuit_in_the_clear_is_aes_round_by_round_for_every_schedule() {
    for schedule in [SCHEDULE, [Characters::Bits; ROUNDS], [Characters::Pairs; ROUNDS]] {
        let world = World::new(Chain::of(schedule).unwrap(), Layout::new(1 << 9).unwrap(), 2);
        let (result, probes) = clear_run(&world);
        for (round, probe) in (1..).zip(&probes) {
            assert!(world.is_right(round, probe), "round {round}");
        }
        let found = world.batch.read(&result).unwrap();
        for (place, found) in found.iter().enumerate().take(world.blocks.len()) {
            assert_eq!(*found, Some(world.expected(place)), "block {place}");
        }
        assert_eq!(found.last(), Some(&None), "nothing is told of a place without a block");
    }
}

/// The slots of a sum, computed on plaintext.
fn clear_sums(layout: Layout, weights: Vec<Vec<i64>>, batches: &[Arc<ClearValue>]) -> [i64; BLOCK] {
    let plan = SumPlan::new(layout, weights, 255).unwrap();
    let clear = ClearEngine { arithmetic: Arithmetic::Modulo(MODULUS), rows: 2, columns: layout.columns() };
    let inputs = SumInputs::new(&plan, |input| {
        plan.slots(input).map_or(Ok(ClearValue::Key), |slots| clear.integers(&slots)).map(Arc::new)
    });
    let found = sum(&mut Direct::new(&clear), &plan, &inputs.unwrap(), batches).unwrap();
    let ClearValue::Integers(slots) = &*found else { panic!("integers") };
    plan.read(slots).unwrap()
}

/// The layout of the product with all its 1,024 blocks. The bytes that ShiftRows and MixColumns
/// need are within the window at the slots to which the three rotations of the round turn, and no
/// slot belongs to two blocks.
#[test]
fn in_a_batch_of_1024_blocks_every_round_finds_its_bytes_where_its_rotations_turn() {
    let layout = Layout::new(DEGREE).unwrap();
    let (per_row, columns) = (layout.places(0, 0).count() / 4, layout.columns());
    // by slot: the block of its byte, the byte's number, and whether it is right
    let held = |round: usize| {
        let mut held = vec![None; layout.slots()];
        for block in 0..layout.blocks() {
            for (i, (slot, byte)) in layout.places(block, round).enumerate() {
                let right = layout.window(round).contains(&(i % per_row));
                assert_eq!(held[slot].replace((block, byte, right)), None, "a slot of two blocks");
            }
        }
        held
    };
    let mut before = held(0);
    assert!(before.iter().all(Option::is_some));
    for round in 1..ROUNDS {
        let (after, [one, two, three]) = (held(round), layout.steps(round));
        for (slot, found) in after.iter().enumerate() {
            let Some((block, byte, true)) = *found else { continue };
            let (row, column) = (byte % 4, byte / 4);
            for (i, steps) in [0, one, two, three].into_iter().enumerate() {
                let turned = ((slot % columns) as i64 + steps).rem_euclid(columns as i64) as usize;
                let from = slot / columns * columns + turned;
                let wanted = 4 * ((column + row + i) % 4) + (row + i) % 4;
                assert_eq!(before[from], Some((block, wanted, true)), "round {round}, slot {slot}, {i} rows on");
            }
        }
        before = after;
    }
    // the last round moves nothing: the window has the sixteen bytes of each block, each once
    for block in 0..layout.blocks() {
        let mut bytes: Vec<usize> = layout.results(block).map(|(_, byte)| byte).collect();
        bytes.sort_unstable();
        assert!(bytes.into_iter().eq(0..BLOCK));
    }
}

/// Devices of 16 blocks each, 64 in a batch of the product's degree. The sum has all of them, some
/// twice and some subtracted.
#[test]
fn sums_over_255_devices_in_four_batches_of_1024_blocks_are_the_plain_ones() {
    let (layout, mut rng) = (Layout::new(DEGREE).unwrap(), rng(9));
    let per_batch = layout.blocks() / FRAME_BLOCKS;
    for (devices, constant) in [(1, None), (2, Some(255)), (254, Some(255)), (255, Some(0)), (255, None)] {
        let (mut batches, mut all, mut expected) = (Vec::new(), Vec::new(), [0; BLOCK]);
        for first in (0..devices).step_by(per_batch) {
            let (mut slots, mut weights) = (vec![0; layout.slots()], vec![0; layout.blocks()]);
            for device in first..devices.min(first + per_batch) {
                let weight = [1, 2, -1][device % 3];
                for block in 0..FRAME_BLOCKS {
                    let place = (device - first) * FRAME_BLOCKS + block;
                    let block_bytes = constant.map_or_else(|| bytes(&mut rng), |byte| [byte; BLOCK]);
                    layout.results(place).for_each(|(slot, byte)| slots[slot] = block_bytes[byte].into());
                    // for the first block of each device
                    if block == 0 {
                        weights[place] = weight;
                        expected.iter_mut().zip(block_bytes).for_each(|(sum, byte)| *sum += weight * i64::from(byte));
                    }
                }
            }
            batches.push(Arc::new(ClearValue::Integers(slots)));
            all.push(weights);
        }
        assert_eq!(batches.len(), devices.div_ceil(64));
        assert_eq!(clear_sums(layout, all, &batches), expected, "{devices} devices at {constant:?}");
    }
}

#[test]
fn with_sixteen_places_a_row_the_window_closes_and_results_are_wrong() {
    let layout = Layout::with_places(1 << 8, 16).unwrap();
    assert!(layout.window(ROUNDS).len() < 4 && Layout::new(1 << 9).unwrap().window(ROUNDS).len() >= 4);
    let world = World::new(Chain::new().unwrap(), layout, 3);
    let (result, probes) = clear_run(&world);
    // everything is right as long as the window is open
    for (round, probe) in (1..).zip(&probes) {
        assert!(world.is_right(round, probe), "round {round}");
    }
    let found = world.batch.read(&result);
    assert!(found.is_err() || found.is_ok_and(|found| found[0] != Some(world.expected(0))));
}

/// Keys made once, for the highest level of their use, and cut for other levels.
struct Keys {
    most: BTreeMap<String, EvaluationKeys>,
}

impl Keys {
    fn name(input: Input) -> Option<(String, u16)> {
        match input {
            Input::Rotation { steps, level } => Some((format!("rotation {steps}"), level)),
            Input::Relinearization { level } => Some(("relinearization".to_owned(), level)),
            _ => None,
        }
    }

    fn new(circuit: &Circuit, secret: &SecretKey, rng: &mut ChaCha20Rng) -> Self {
        let mut most = BTreeMap::new();
        // inputs are in the order of their use, the highest level first
        for input in circuit.inputs() {
            if let Some((name, _)) = Self::name(input) {
                most.entry(name).or_insert_with(|| batch::key(secret, input, rng).unwrap());
            }
        }
        Self { most }
    }

    fn of(&self, input: Input) -> Option<EvaluationKeys> {
        let (name, level) = Self::name(input)?;
        Some(self.most[&name].cut(usize::from(level) + 1).unwrap())
    }
}

/// A run under encryption.
struct Run {
    engine: BgvEngine,
    secret: SecretKey,
    keys: Keys,
    outputs: program::Outputs<Arc<BgvValue>>,
}

impl Run {
    fn new(world: &World, parameters: &LatticeParameters, seed: u64) -> Self {
        let mut rng = rng(seed);
        let secret = SecretKey::from_seed(parameters, Seed::random(&mut rng));
        let engine = BgvEngine::new(parameters, None, &mut rng).unwrap();
        let keys = Keys::new(&world.circuit, &secret, &mut rng);
        let inputs = Inputs::new(&world.circuit, |input| {
            if let Some(key) = keys.of(input) {
                return engine.key(key).map(Arc::new);
            }
            if let Some(ciphertext) = world.table.encrypt(&world.circuit, input, &secret, &mut rng).unwrap() {
                return batch::received(&engine, &world.circuit, input, &ciphertext).map(Arc::new);
            }
            let slots = world.batch.slots(input).unwrap();
            program::plain(&engine, &world.circuit, input, &slots).map(Arc::new)
        });
        let outputs = program::program(&mut Direct::new(&engine), &world.circuit, &inputs.unwrap()).unwrap();
        Self { engine, secret, keys, outputs }
    }

    fn slots(&self, value: &BgvValue) -> Vec<i64> {
        let ciphertext = value.as_ciphertext().unwrap();
        let holder = Decryptor::new(&self.secret).unwrap();
        assert!(holder.noise(ciphertext).unwrap() <= ciphertext.noise_bound());
        batch::open(&self.secret, ciphertext).unwrap().to_vec()
    }
}

/// Every byte of a block, summed over the blocks of two devices with weights, and over two batches.
/// The second batch is the first again.
fn sums_over_devices(run: &Run, layout: Layout, sent: &[u8]) {
    let weights = |batch: i64| (0..layout.blocks() as i64).map(|place| (place + batch) % 5 - 2).collect::<Vec<_>>();
    let plan = SumPlan::new(layout, vec![weights(0), weights(1)], 255).unwrap();
    let mut rng = rng(7);
    let inputs = SumInputs::new(&plan, |input| match sum_key(&run.secret, input, &mut rng) {
        Some(key) => run.engine.key(key).map(Arc::new),
        None => run.engine.compact(&plan.slots(input).unwrap(), level_of(input)).map(Arc::new),
    });
    let batches = [run.outputs.bytes.clone(), run.outputs.bytes.clone()];
    let found = sum(&mut Direct::new(&run.engine), &plan, &inputs.unwrap(), &batches).unwrap();
    let slots = run.slots(&found);
    let expected: [i64; BLOCK] = std::array::from_fn(|i| {
        let of = |batch| {
            weights(batch).iter().zip(sent.chunks(BLOCK)).map(|(w, block)| w * i64::from(block[i])).sum::<i64>()
        };
        of(0) + of(1)
    });
    assert_eq!(plan.read(&slots), Ok(expected));
    assert_eq!(found.as_ciphertext().unwrap().level(), 3, "two products are left");
    // a value in any undeclared slot makes the result withheld
    let mut other = slots.clone();
    let free = (0..slots.len()).find(|slot| layout.results(0).all(|(declared, _)| declared != *slot)).unwrap();
    other[free] = 1;
    assert!(plan.read(&other).is_err() && plan.read(&slots[1..]).is_err());
    other.clone_from(&slots);
    other[layout.results(0).next().unwrap().0] = plan.range().most + 1;
    assert!(plan.read(&other).is_err());
}

#[test]
fn sums_that_would_wrap_are_refused_when_they_are_planned() {
    let layout = Layout::new(DEGREE).unwrap();
    let ones = |blocks: usize| -> Vec<Vec<i64>> {
        (0..4).map(|batch| (0..1024).map(|place| i64::from(1024 * batch + place < blocks)).collect()).collect()
    };
    assert!(SumPlan::new(layout, ones(3_084), 255).is_ok());
    for (batches, most) in [(ones(3_085), 255), (vec![vec![i64::MAX; 1024]], 1), (vec![vec![-4; 1024]], 255)] {
        assert!(matches!(SumPlan::new(layout, batches, most), Err(PlanError::Overflow(Overflow::Range { .. }))));
    }
    assert!(SumPlan::new(layout, ones(4_096), 190).is_ok(), "smaller readings, more of them");
    for shape in [vec![], vec![vec![1; 1023]]] {
        assert!(matches!(SumPlan::new(layout, shape, 1), Err(PlanError::Shape { .. })));
    }
}

/// The product's primes, at a degree that protects nothing.
fn toy(degree: usize) -> (Chain, LatticeParameters) {
    let chain = Chain::new().unwrap();
    let parameters = chain.insecure_test_parameters(degree).unwrap();
    assert_eq!(parameters.security(), None);
    (chain, parameters)
}

#[test]
fn frames_of_two_devices_are_decrypted_under_encryption_and_every_round_is_that_of_aes() {
    let (chain, parameters) = toy(1 << 12);
    let layout = Layout::new(1 << 12).unwrap();
    assert_eq!(layout.blocks(), 2 * FRAME_BLOCKS);
    let mut world = World {
        circuit: Circuit::new(chain, layout).with_probes(),
        batch: Batch::new(layout),
        table: KeyTable::new(layout),
        keys: Vec::new(),
        blocks: Vec::new(),
    };
    let mut sent = Vec::new();
    for device in 0..2u8 {
        let root = Root::from_bytes([device; 32]);
        let mut sender =
            GcmDevice::open(&root, DeviceNumber::new(device.into()).unwrap(), InsecureVolatileCounter(0)).unwrap();
        let readings: [u8; READINGS] = std::array::from_fn(|i| (i as u8).wrapping_mul(3 + device));
        let mut frame = [0; tobari_device::GCM_FRAME];
        sender.seal(&readings, &mut frame).unwrap();
        assert_eq!(*GcmOpener::new(&root).open(&frame).unwrap().1, readings);
        for (i, block) in Block::of_frame(&frame).into_iter().enumerate() {
            world.add(FRAME_BLOCKS * usize::from(device) + i, *gcm_key(&root), block);
        }
        sent.extend(readings);
    }
    let run = Run::new(&world, &parameters, 4);
    for (round, probe) in (1..).zip(&run.outputs.probes) {
        assert!(world.is_right(round, &run.slots(probe)), "round {round}");
    }
    let result = run.slots(&run.outputs.bytes);
    let found: Vec<u8> = world.batch.read(&result).unwrap().into_iter().flatten().flatten().collect();
    assert_eq!(found, sent);
    sums_over_devices(&run, layout, &found);
    // three more products
    let mut machine = Direct::new(&run.engine);
    let level = run.outputs.bytes.as_ciphertext().unwrap().level() as u16 - 1;
    let key = Arc::new(run.engine.key(run.keys.of(Input::Relinearization { level }).unwrap()).unwrap());
    let mut value = run.outputs.bytes.clone();
    for power in [2u32, 4, 8] {
        value = machine.mul(&value, &value, &key).unwrap();
        let found = run.slots(&value);
        for (slot, byte) in result.iter().enumerate() {
            let expected = (0..power).fold(1, |product, _| product * byte % MODULUS as i64);
            assert_eq!(found[slot].rem_euclid(MODULUS as i64), expected, "power {power}");
        }
    }
    assert_eq!(value.as_ciphertext().unwrap().level(), 1);
}

#[test]
fn results_with_anything_where_nothing_is_declared_are_withheld() {
    let world = World::new(Chain::new().unwrap(), Layout::new(1 << 9).unwrap(), 5);
    let mut slots = vec![0; 1 << 9];
    assert!(world.batch.read(&slots).is_ok());
    let declared: Vec<usize> = world.circuit.layout().results(0).map(|(slot, _)| slot).collect();
    assert_eq!(declared.len(), BLOCK);
    slots[declared[3]] = 256;
    assert!(world.batch.read(&slots).is_err());
    slots[declared[3]] = 255;
    assert_eq!(
        world.batch.read(&slots).unwrap()[0].map(|block| block.iter().filter(|byte| **byte == 255).count()),
        Some(1)
    );
    let other = (0..1 << 9).find(|slot| world.batch.slots(Input::Mean).unwrap()[*slot] == 0).unwrap();
    slots[other] = 1;
    assert!(world.batch.read(&slots).is_err());
    assert!(world.batch.read(&slots[1..]).is_err());
}

#[test]
fn the_program_is_planned_for_a_blind_server_within_a_limit() {
    let (chain, parameters) = toy(1 << 10);
    let engine = BgvEngine::new(&parameters, None, &mut rng(6)).unwrap();
    let circuit = Circuit::new(chain, Layout::new(1 << 10).unwrap());
    let (program, all) = program::record(&engine, &circuit).unwrap();
    assert_eq!((program.outputs().len(), program.inputs().len()), (1, all.len()));
    let [everything, _] = program.bytes();
    for part in [1, 12] {
        let site = Site::blind("cloud", 1, everything / part);
        let planned = tobari_plan::plan::plan(program.clone(), site, &Costs::unmeasured()).unwrap();
        assert!(planned.forecast.peak <= everything / part);
        assert!(planned.check(&Requirements::default()).is_ok());
    }
    let holder = Site { keys: vec![key_holder()], ..Site::blind("key holder's process", 1, u64::MAX) };
    let refused = tobari_plan::plan::plan(program, holder, &Costs::unmeasured());
    assert!(refused.is_err() || refused.is_ok_and(|plan| plan.check(&Requirements::default()).is_err()));
}

#[test]
fn the_set_of_the_product_is_secure_and_holds_1024_blocks() {
    let parameters = Chain::new().unwrap().parameters().unwrap();
    assert_eq!(parameters.security().map(Security::bits), Some(128));
    assert_eq!(Layout::new(DEGREE).unwrap().blocks(), 1024);
}
