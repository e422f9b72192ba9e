//! Devices, the key holder, and what they send.

use crate::flash::Flash;
use crate::{Failure, is_key};
use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use tobari_apps::engine::{BgvEngine, BgvValue};
use tobari_apps::sense::aes::batch::{self, FRAME_BLOCKS};
use tobari_apps::sense::aes::chain::{MODULUS, PRODUCTS};
use tobari_apps::sense::aes::cipher::{BLOCK, states};
use tobari_apps::sense::aes::{Batch, Block, Circuit, Input, KeyTable, program};
use tobari_core::bgv::Decryptor;
use tobari_core::params::LatticeParameters;
use tobari_core::rlwe::SecretKey;
use tobari_device::{DeviceNumber, GCM_FRAME, GcmDevice, READINGS, Root, gcm_key};
use tobari_plan::engine::Engine;
use tobari_plan::plan::bytes;
use tobari_plan::program::{Kind, Op};

/// A generator for what has a number.
pub(crate) fn rng(number: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(number)
}

pub(crate) struct World {
    pub(crate) circuit: Circuit,
    engine: BgvEngine,
    secret: SecretKey,
    batch: Batch,
    table: KeyTable,
    /// By place.
    keys: Vec<[u8; BLOCK]>,
    blocks: Vec<Block>,
    sent: Vec<u8>,
    spent: f64,
}

impl World {
    /// Frames of as many devices as there are blocks for, the last one perhaps in part.
    pub(crate) fn new(parameters: &LatticeParameters, circuit: Circuit, blocks: usize) -> Result<Self, Failure> {
        let layout = *circuit.layout();
        let mut world = Self {
            engine: BgvEngine::new(parameters, None, &mut rng(1))?,
            secret: SecretKey::generate(parameters, &mut rng(2)),
            batch: Batch::new(layout),
            table: KeyTable::new(layout),
            keys: Vec::new(),
            blocks: Vec::new(),
            sent: Vec::new(),
            spent: 0.0,
            circuit,
        };
        for device in 0..blocks.div_ceil(FRAME_BLOCKS) {
            let mut source = rng(100 + device as u64);
            let (mut root, mut readings, mut frame) = ([0; 32], [0; READINGS], [0; GCM_FRAME]);
            source.fill_bytes(&mut root);
            source.fill_bytes(&mut readings);
            let root = Root::from_bytes(root);
            let number = DeviceNumber::new(device as u32).ok_or("expected fewer devices, found too many")?;
            GcmDevice::open(&root, number, Flash(0))
                .map_err(|_| "no counter")?
                .seal(&readings, &mut frame)
                .map_err(|_| "no counter")?;
            for block in Block::of_frame(&frame).into_iter().take(blocks - world.blocks.len()) {
                let place = world.blocks.len();
                if !world.batch.put(place, block) || !world.table.put(place, &gcm_key(&root)) {
                    return Err("expected at most as many blocks as there are places, found more".into());
                }
                world.blocks.push(block);
                world.keys.push(*gcm_key(&root));
            }
            world.sent.extend(readings);
        }
        world.sent.truncate(BLOCK * blocks);
        Ok(world)
    }

    /// Says what the server is sent: of each key the form for the highest level that it is used at, of which the others are cut.
    pub(crate) fn uploads(&self, engine: &BgvEngine, inputs: &[Input]) -> Result<(), Failure> {
        let mut keys = BTreeMap::new();
        let mut ciphertexts = 0;
        for input in inputs {
            let (name, shape) = match *input {
                Input::Rotation { steps, level } => (steps, engine.rotation_key_shape(level)?),
                Input::Relinearization { level } => (0, engine.relinearization_key_shape(level)?),
                _ => {
                    let primes = self.circuit.factor(*input).and(self.circuit.primes(*input));
                    let level = primes.map(|primes| engine.ciphertext_shape(primes as u16 - 1)).transpose()?;
                    // half of it is a seed
                    ciphertexts += level.map_or(0, |shape| shape.packed / 2);
                    continue;
                }
            };
            let largest = keys.entry(name).or_insert(0);
            *largest = shape.packed.max(*largest);
        }
        println!(
            "the key holder sends {} in {} evaluation keys, once, and {} of round keys for a batch; a device loads nothing",
            bytes(keys.values().sum()),
            keys.len(),
            bytes(ciphertexts)
        );
        Ok(())
    }

    /// An input as a value. A key of a low level, made from the randomness of that of the highest, is that key, cut.
    pub(crate) fn input(&mut self, input: Input) -> Result<BgvValue, Failure> {
        let start = Instant::now();
        let found = if is_key(input) {
            let number = match input {
                Input::Rotation { steps, .. } => 1_000 + steps.unsigned_abs(),
                _ => 999,
            };
            let keys =
                batch::key(&self.secret, input, &mut rng(number)).ok_or("expected a key, found another input")?;
            self.engine.key(keys)?
        } else if let Some(ciphertext) = self.table.encrypt(&self.circuit, input, &self.secret, &mut rng(3))? {
            batch::received(&self.engine, &self.circuit, input, &ciphertext)?
        } else {
            let slots = self.batch.slots(input).ok_or("expected a public input, found another")?;
            program::plain(&self.engine, &self.circuit, input, &slots)?
        };
        self.spent += start.elapsed().as_secs_f64();
        Ok(found)
    }

    /// A key for products, or zero encrypted by nobody.
    pub(crate) fn example(&self, kind: Kind, level: u16) -> Result<BgvValue, Failure> {
        Ok(match kind {
            Kind::Key => {
                let keys = batch::key(&self.secret, Input::Relinearization { level }, &mut rng(4));
                self.engine.key(keys.ok_or("expected a key, found another input")?)?
            }
            _ => self.engine.ciphertext(self.engine.evaluator().zero(usize::from(level) + 1))?,
        })
    }

    fn slots(&self, value: &BgvValue) -> Result<Vec<i64>, Failure> {
        let ciphertext = value.as_ciphertext().ok_or("expected a ciphertext, found another value")?;
        let noise = Decryptor::new(&self.secret)?.noise(ciphertext);
        println!(
            "  noise 2^{noise:.1}, bound 2^{:.1}, {:.1} bits left of {} primes",
            ciphertext.noise_bound(),
            ciphertext.noise_budget(),
            ciphertext.level()
        );
        if noise > ciphertext.noise_bound() {
            return Err("expected noise within its bound, found more".into());
        }
        Ok(batch::open(&self.secret, ciphertext)?.to_vec())
    }

    /// Compares results with what was sent, and every round with AES if it is among the outputs.
    pub(crate) fn check(&self, outputs: &[Arc<BgvValue>]) -> Result<(), Failure> {
        println!("inputs took the key holder and the server {:.1} s to make ready", self.spent);
        let layout = self.circuit.layout();
        let per_row = layout.places(0, 0).count() / 4;
        for (round, probe) in outputs[1..].iter().enumerate() {
            let (slots, window) = (self.slots(probe)?, layout.window(round));
            for (place, (block, key)) in self.blocks.iter().zip(&self.keys).enumerate() {
                let state = states(key, &block.counter)[round];
                let places = layout.places(place, round).enumerate().filter(|(i, _)| window.contains(&(i % per_row)));
                for (_, (slot, byte)) in places {
                    if slots[slot] != 255 - 2 * i64::from(state[byte]) {
                        return Err(format!(
                            "expected the state of AES after {round} rounds, found another, block {place}"
                        )
                        .into());
                    }
                }
            }
            println!("after {round} rounds: the states of AES");
        }
        let found = self.batch.read(&self.slots(&outputs[0])?)?;
        let found: Vec<u8> = found.into_iter().flatten().flatten().collect();
        if found != self.sent {
            return Err("expected what devices sent, found something else".into());
        }
        println!("all {} bytes are what the devices encrypted", found.len());
        self.multiply(&outputs[0])
    }

    /// Squares a result as often as it bears.
    fn multiply(&self, result: &BgvValue) -> Result<(), Failure> {
        let level = PRODUCTS as u16;
        let keys = batch::key(&self.secret, Input::Relinearization { level }, &mut rng(999));
        let key = self.engine.key(keys.ok_or("expected a key, found another input")?)?;
        let t = MODULUS as i64;
        let mut expected: Vec<i64> = self.slots(result)?;
        let mut value = self.engine.step(0, Op::Scale(1), &[result])?;
        for _ in 0..PRODUCTS {
            value = self.engine.step(0, Op::Mul, &[&value, &value, &key])?;
            expected.iter_mut().for_each(|slot| *slot = *slot * *slot % t);
            if self.slots(&value)?.iter().map(|slot| slot.rem_euclid(t)).ne(expected.iter().copied()) {
                return Err("expected squares of the bytes, found something else".into());
            }
        }
        println!("{PRODUCTS} products more are right in every slot");
        Ok(())
    }
}
