//! The inputs of both parties, blocks and keys, and the reading of results.

use super::chain::MODULUS;
use super::characters::value;
use super::cipher::{BLOCK, ROUNDS, round_keys};
use super::layout::Layout;
use super::program::{Circuit, Input, MEAN};
use crate::client::Withheld;
use rand_core::CryptoRng;
use tobari_device::{GCM_FRAME, READINGS};
use tobari_engine::{BgvEngine, BgvValue, EngineError};
use tobari_lattice::bgv::{Ciphertext, Decryptor, EncodeError, Encoder, EvaluationKeys, SeededCiphertext};
use tobari_lattice::ring::Modulus;
use tobari_lattice::rlwe::SecretKey;
use zeroize::Zeroizing;

/// Blocks of a frame.
pub const FRAME_BLOCKS: usize = READINGS / BLOCK;
/// Bytes of a frame's nonce.
const NONCE: usize = 12;

/// One AES block in counter mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The counter block that AES encrypts.
    pub counter: [u8; BLOCK],
    /// The ciphertext block: the hidden bytes, exclusive or AES's output.
    pub text: [u8; BLOCK],
}

impl Block {
    /// The blocks of a frame of AES-128-GCM, whose counters begin at 2. The tag is useless without
    /// the key, so it is skipped.
    pub fn of_frame(frame: &[u8; GCM_FRAME]) -> [Block; FRAME_BLOCKS] {
        let (nonce, rest) = frame.split_at(NONCE);
        std::array::from_fn(|i| {
            let mut block = Block { counter: [0; BLOCK], text: [0; BLOCK] };
            block.counter[..NONCE].copy_from_slice(nonce);
            block.counter[NONCE..].copy_from_slice(&(i as u32 + 2).to_be_bytes());
            block.text.copy_from_slice(&rest[i * BLOCK..(i + 1) * BLOCK]);
            block
        })
    }
}

/// The server's half: public blocks, each at its own place.
#[derive(Clone, Debug)]
pub struct Batch {
    layout: Layout,
    blocks: Vec<Option<Block>>,
}

impl Batch {
    /// A batch without blocks.
    pub fn new(layout: Layout) -> Self {
        Self { layout, blocks: vec![None; layout.blocks()] }
    }

    /// Puts a block at a place. Returns whether the place exists and was free.
    pub fn put(&mut self, place: usize, block: Block) -> bool {
        let free = self.blocks.get(place) == Some(&None);
        if free {
            self.blocks[place] = Some(block);
        }
        free
    }

    /// The slots of a public input; `None` for other inputs.
    pub fn slots(&self, input: Input) -> Option<Vec<i64>> {
        let mut slots = vec![0; self.layout.slots()];
        let blocks = self.blocks.iter().enumerate().filter_map(|(place, block)| Some((place, block.as_ref()?)));
        match input {
            Input::Counter { mask } => {
                for (place, block) in blocks {
                    let places = self.layout.places(place, 0);
                    places.for_each(|(slot, byte)| slots[slot] = value(mask, block.counter[byte]));
                }
            }
            Input::Text { bit } => {
                for (place, block) in blocks {
                    let places = self.layout.results(place);
                    places.for_each(|(slot, byte)| slots[slot] = value(1 << bit, block.text[byte]));
                }
            }
            Input::Mean => {
                blocks.for_each(|(place, _)| self.layout.results(place).for_each(|(slot, _)| slots[slot] = MEAN));
            }
            _ => return Circuit::weights(input),
        }
        Some(slots)
    }

    /// Reads the bytes of each block from the slots of a result.
    ///
    /// # Errors
    /// [`Withheld`] if a declared slot is not a byte, or an undeclared slot is not zero.
    pub fn read(&self, slots: &[i64]) -> Result<Vec<Option<[u8; BLOCK]>>, Withheld> {
        let mut left = Zeroizing::new(slots.to_vec());
        if left.len() != self.layout.slots() {
            return Err(Withheld);
        }
        let mut all = Vec::with_capacity(self.blocks.len());
        for (place, block) in self.blocks.iter().enumerate() {
            if block.is_none() {
                all.push(None);
                continue;
            }
            let mut bytes = [0; BLOCK];
            for (slot, byte) in self.layout.results(place) {
                bytes[byte] = u8::try_from(std::mem::take(&mut left[slot])).map_err(|_| Withheld)?;
            }
            all.push(Some(bytes));
        }
        if left.iter().all(|slot| *slot == 0) { Ok(all) } else { Err(Withheld) }
    }
}

/// The key holder's half: round keys by place.
pub struct KeyTable {
    layout: Layout,
    keys: Vec<Option<Zeroizing<[[u8; BLOCK]; ROUNDS + 1]>>>,
}

impl KeyTable {
    /// A table without keys.
    pub fn new(layout: Layout) -> Self {
        Self { layout, keys: (0..layout.blocks()).map(|_| None).collect() }
    }

    /// Puts the key of a device at a place. Returns whether the place exists.
    pub fn put(&mut self, place: usize, key: &[u8; BLOCK]) -> bool {
        let there = self.keys.get_mut(place);
        there.map(|there| *there = Some(round_keys(key))).is_some()
    }

    /// The plaintext slots of a key holder's input; `None` for other inputs.
    pub fn slots(&self, circuit: &Circuit, input: Input) -> Option<Zeroizing<Vec<i64>>> {
        let (round, mask, ones) = match input {
            Input::First { mask } => (0, mask, 0),
            Input::Round { round, mask } => (round, mask, circuit.ones(round, mask)),
            Input::Last { bit } => (ROUNDS, 1 << bit, 0),
            _ => return None,
        };
        let mut slots = Zeroizing::new(vec![0; self.layout.slots()]);
        for (place, keys) in self.keys.iter().enumerate() {
            let Some(keys) = keys else { continue };
            let places = self.layout.places(place, round);
            places.for_each(|(slot, byte)| slots[slot] = ones + value(mask, keys[round][byte]));
        }
        Some(slots)
    }

    /// Encrypts an input of the key holder with the factor that the circuit needs; `None` for other
    /// inputs.
    ///
    /// # Errors
    /// [`EncodeError`] for a key of other parameters.
    pub fn encrypt(
        &self,
        circuit: &Circuit,
        input: Input,
        secret: &SecretKey,
        rng: &mut impl CryptoRng,
    ) -> Result<Option<SeededCiphertext>, EncodeError> {
        let found = (self.slots(circuit, input), circuit.factor(input), circuit.primes(input), Modulus::new(MODULUS));
        let (Some(mut slots), Some(factor), Some(primes), Some(t)) = found else { return Ok(None) };
        let factor = t.factor(factor);
        for slot in slots.iter_mut() {
            *slot = t.centred(t.mul_factor(t.of_signed(*slot), factor));
        }
        let (encoder, holder) = (Encoder::new(secret.parameters())?, Decryptor::new(secret)?);
        Ok(Some(encoder.encode(&slots)?.encrypt_seeded(holder.key(), primes, rng)?))
    }
}

/// Turns a ciphertext from the key holder into a value for the server; its factor is public.
///
/// # Errors
/// [`EngineError`] for an input that does not come from the key holder, or a ciphertext of another
/// level or other parameters.
pub fn received(
    engine: &BgvEngine,
    circuit: &Circuit,
    input: Input,
    ciphertext: &SeededCiphertext,
) -> Result<BgvValue, EngineError> {
    let unexpected = || EngineError::Value { expected: format!("a ciphertext for {input:?}") };
    let factor = circuit.factor(input).ok_or_else(unexpected)?;
    if circuit.primes(input) != Some(ciphertext.level()) {
        return Err(unexpected());
    }
    let t = Modulus::new(MODULUS).ok_or_else(unexpected)?;
    let unit = t.centred(t.inverse(factor).ok_or_else(unexpected)?);
    engine.ciphertext(engine.evaluator().mul_unit(ciphertext.expand(), unit)?)
}

/// The evaluation key for an input that is a key; `None` for other inputs, or if the parameters
/// have no such key.
pub fn key(secret: &SecretKey, input: Input, rng: &mut impl CryptoRng) -> Option<EvaluationKeys> {
    let none = EvaluationKeys::new(secret.parameters());
    match input {
        Input::Rotation { steps, level } => none.with_rotation(secret, steps, usize::from(level) + 1, rng).ok(),
        Input::Relinearization { level } => none.with_relinearization(secret, usize::from(level) + 1, rng).ok(),
        _ => None,
    }
}

/// Decrypts a result into slots.
///
/// # Errors
/// [`Withheld`] for a ciphertext of other parameters, or a ciphertext that cannot be decrypted with
/// certainty.
pub fn open(secret: &SecretKey, result: &Ciphertext) -> Result<Zeroizing<Vec<i64>>, Withheld> {
    let parameters = secret.parameters();
    if result.parameters() != parameters || result.needs_relinearization() {
        return Err(Withheld);
    }
    let holder = Decryptor::new(secret).map_err(|_| Withheld)?;
    let encoder = Encoder::new(parameters).map_err(|_| Withheld)?;
    let message = holder.decrypt(result).map_err(|_| Withheld)?;
    encoder.decode(&message).map(Zeroizing::new).map_err(|_| Withheld)
}
