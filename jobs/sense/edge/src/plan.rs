//! AES-128 under BGV, the paper's design 2 at 128 bits: the job of `tobari plan sense`, and a cell
//! of `tobari-bench sense --paper`.
//!
//! The job decrypts frames of devices under encryption, within a memory limit. Each device has its
//! own key. Inputs are made when the plan needs them. A switching key is made for the level of its
//! use: it is the key holder's one key, cut to that level.

use chacha20::rand_core::Rng;
use clap::Args;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tobari_command::output::{self, Failure};
use tobari_device::{DeviceNumber, GCM_FRAME, GcmDevice, InsecureVolatileCounter, READINGS, Root, gcm_key};
use tobari_engine::{BgvEngine, BgvValue};
use tobari_lattice::bgv::Decryptor;
use tobari_lattice::params::LatticeParameters;
use tobari_lattice::ring::{Coeff, Domain, Poly, Seed};
use tobari_lattice::rlwe::SecretKey;
use tobari_plan::cost::Costs;
use tobari_plan::engine::Engine;
use tobari_plan::plan::bytes;
use tobari_plan::program::{Encoding, Kind, Op, Program, Value};
use tobari_reference::{Reference, RunArguments, Work, explain, generator, moves};
use tobari_sense::aes::batch::{self, FRAME_BLOCKS};
use tobari_sense::aes::chain::{MODULUS, PRODUCTS};
use tobari_sense::aes::cipher::{BLOCK, ROUNDS, states};
use tobari_sense::aes::{Batch, Block, Chain, Circuit, Input, KeyTable, Layout, program};
use zeroize::Zeroizing;

/// `tobari plan sense`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari plan sense --memory 10GiB --threads 1
    tobari plan sense --memory 12GiB --json")]
pub struct SensePlan {
    #[command(flatten)]
    common: RunArguments,
    /// Decrypt this many blocks of 16 bytes, sixteen for each device. A batch takes the same time
    /// for any number up to 1,024.
    #[arg(long, default_value_t = 16, value_name = "N")]
    blocks: usize,
    /// Run the plan, too, and check the result.
    #[arg(long)]
    run: bool,
    /// Compare every round with AES, with the help of the secret key, and print the time of each.
    #[arg(long, requires = "run", conflicts_with = "json")]
    rounds: bool,
    /// A degree that protects nothing: to see that it works.
    #[arg(long, hide = true, value_name = "N")]
    insecure_degree: Option<usize>,
}

impl SensePlan {
    /// Prints the plan, and runs it if requested.
    ///
    /// # Errors
    /// [`Failure`] if there is no such batch, or no plan for it.
    pub fn explain(&self) -> Result<ExitCode, Failure> {
        let aes = Aes::new(self.blocks, self.insecure_degree, self.rounds)?;
        let [keys, batch] = aes.uploads()?.map(bytes);
        output::say(format!(
            "the key holder sends {keys} of evaluation keys, once, and {batch} of round keys for a batch; a device loads nothing"
        ));
        explain(&Reference::new(aes), &self.common, self.run)
    }
}

/// The parameter set's name.
const SET: &str = "sense-aes";
/// Rows of a step besides values: the forms of a round in three parts each, and the digits,
/// products and quotients of a key switch.
const SCRATCH_ROWS: u64 = 3 * 8 * 56 + 600;

/// The job and its parties.
pub struct Aes {
    engine: BgvEngine,
    circuit: Circuit,
    secret: SecretKey,
    batch: Batch,
    table: KeyTable,
    /// The plaintext bytes of the devices.
    sent: Vec<u8>,
    /// The blocks with their keys, by place.
    blocks: Vec<(Zeroizing<[u8; BLOCK]>, Block)>,
    insecure: bool,
    rounds: bool,
    /// Seconds and steps, by round and kind.
    times: Mutex<Times>,
    program: Program,
    inputs: Vec<Input>,
}

/// Seconds and steps, by round and kind.
type Times = BTreeMap<(usize, &'static str), (f64, u32)>;

impl Aes {
    /// A job of this many blocks, sixteen for each device. An insecure degree protects nothing, and
    /// tests only the program. With `rounds`, every round is compared with AES, and its time is
    /// printed.
    pub fn new(blocks: usize, insecure_degree: Option<usize>, rounds: bool) -> Result<Self, Failure> {
        let chain = Chain::new()?;
        let parameters = match insecure_degree {
            Some(degree) => chain.insecure_test_parameters(degree)?,
            None => chain.parameters()?,
        };
        let degree = parameters.degree();
        let layout = Layout::new(degree).ok_or_else(|| Failure::Call("expected slots for a block".to_owned()))?;
        if !(1..=layout.blocks()).contains(&blocks) {
            let most = layout.blocks();
            return Err(Failure::Call(format!("expected 1 to {most} blocks, found {blocks}")));
        }
        let engine = BgvEngine::new(&parameters, None, &mut generator(3, 0))?;
        let circuit = Circuit::new(chain, layout);
        let circuit = if rounds { circuit.with_probes() } else { circuit };
        let (program, inputs) = program::record(&engine, &circuit)?;
        let mut job = Self {
            secret: SecretKey::from_seed(&parameters, Seed::random(&mut generator(1, 0))),
            engine,
            circuit,
            batch: Batch::new(layout),
            table: KeyTable::new(layout),
            sent: Vec::new(),
            blocks: Vec::new(),
            insecure: insecure_degree.is_some(),
            rounds,
            times: Mutex::default(),
            program,
            inputs,
        };
        (0..blocks.div_ceil(FRAME_BLOCKS)).try_for_each(|device| job.send(device, blocks))?;
        Ok(job)
    }

    /// Sends a frame of a device; of the last frame perhaps only the first blocks.
    fn send(&mut self, device: usize, blocks: usize) -> Result<(), Failure> {
        let mut source = generator(4, device);
        let (mut root, mut readings, mut frame) = ([0; 32], [0; READINGS], [0; GCM_FRAME]);
        source.fill_bytes(&mut root);
        source.fill_bytes(&mut readings);
        let root = Root::from_bytes(root);
        let number = DeviceNumber::new(device as u32);
        let number = number.ok_or_else(|| Failure::Call("expected fewer devices, found too many".to_owned()))?;
        GcmDevice::open(&root, number, InsecureVolatileCounter(0))?.seal(&readings, &mut frame)?;
        let first = device * FRAME_BLOCKS;
        for (place, block) in (first..blocks).zip(Block::of_frame(&frame)) {
            let key = gcm_key(&root);
            if !self.batch.put(place, block) || !self.table.put(place, &key) {
                return Err(Failure::Work("expected a free place for a block, found none".to_owned()));
            }
            self.blocks.push((key, block));
        }
        let count = (blocks - first).min(FRAME_BLOCKS);
        self.sent.extend(&readings[..BLOCK * count]);
        Ok(())
    }

    fn parameters(&self) -> &LatticeParameters {
        self.secret.parameters()
    }

    /// Makes an input only from the randomness of its name, so that a key of a low level is the key
    /// of the highest level, cut.
    fn of(&self, input: Input) -> Result<BgvValue, Failure> {
        let name = match input {
            Input::Rotation { steps, .. } => Some(1 + steps.unsigned_abs() as usize),
            Input::Relinearization { .. } => Some(0),
            _ => None,
        };
        if let Some(name) = name {
            let keys = batch::key(&self.secret, input, &mut generator(5, name));
            let keys = keys.ok_or_else(|| Failure::Work("expected a key, found another input".to_owned()))?;
            return Ok(self.engine.key(keys)?);
        }
        let number = self.inputs.iter().position(|known| *known == input).unwrap_or(0);
        let (circuit, rng) = (&self.circuit, &mut generator(6, number));
        if let Some(ciphertext) = self.table.encrypt(circuit, input, &self.secret, rng)? {
            return Ok(batch::received(&self.engine, circuit, input, &ciphertext)?);
        }
        let slots = self.batch.slots(input);
        let slots = slots.ok_or_else(|| Failure::Work("expected a public input, found another".to_owned()))?;
        Ok(program::plain(&self.engine, circuit, input, &slots)?)
    }

    /// An example key, or a trivial ciphertext of zero.
    fn example(&self, kind: Kind, level: u16) -> Result<BgvValue, Failure> {
        match kind {
            Kind::Key => self.of(Input::Relinearization { level }),
            _ => Ok(self.engine.ciphertext(self.engine.evaluator().zero(usize::from(level) + 1)?)?),
        }
    }

    /// Bytes that the key holder sends: evaluation keys, once, each for the highest level of its
    /// use, and round keys for a batch. Half of each object is a seed.
    pub fn uploads(&self) -> Result<[u64; 2], Failure> {
        let (mut keys, mut ciphertexts) = (BTreeMap::new(), 0);
        for input in &self.inputs {
            let (name, shape) = match *input {
                Input::Rotation { steps, level } => (steps, self.engine.rotation_key_shape(level)?),
                Input::Relinearization { level } => (0, self.engine.relinearization_key_shape(level)?),
                _ => {
                    let primes = self.circuit.factor(*input).and(self.circuit.primes(*input));
                    let shape = primes.map(|primes| self.engine.ciphertext_shape(primes as u16 - 1)).transpose()?;
                    ciphertexts += shape.map_or(0, |shape| shape.packed / 2);
                    continue;
                }
            };
            let largest = keys.entry(name).or_insert(0);
            *largest = shape.packed.max(*largest);
        }
        Ok([keys.values().sum(), ciphertexts])
    }

    /// The security level as text.
    fn security(&self) -> String {
        let bits = self.parameters().security().map(|security| format!("{} bits of security", security.bits()));
        bits.unwrap_or_else(|| "NO SECURITY".to_owned())
    }

    /// Compares the state at the start of each round with AES, in the slots that must be right.
    fn rounds_are_right(&self, probes: &[Arc<BgvValue>]) -> Result<bool, Failure> {
        let layout = self.circuit.layout();
        let per_row = layout.places(0, 0).count() / 4;
        for (round, probe) in probes.iter().enumerate() {
            let (slots, window) = (self.slots(probe)?, layout.window(round));
            for (place, (key, block)) in self.blocks.iter().enumerate() {
                let state = states(key, &block.counter)[round];
                let mut places =
                    layout.places(place, round).enumerate().filter(|(i, _)| window.contains(&(i % per_row)));
                if places.any(|(_, (slot, byte))| slots[slot] != 255 - 2 * i64::from(state[byte])) {
                    return Ok(false);
                }
            }
            output::result(format!("after {round} rounds: the states of AES"));
        }
        Ok(true)
    }

    /// Prints the core seconds, by round and by kind of step.
    fn tell_times(&self) {
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        for round in 0..=ROUNDS + 1 {
            let of = times.iter().filter(|((at, _), _)| *at == round);
            let parts: Vec<String> =
                of.clone().map(|((_, name), (seconds, count))| format!("{name} {count}: {seconds:.2}")).collect();
            if !parts.is_empty() {
                let total: f64 = of.map(|(_, sum)| sum.0).sum();
                output::result(format!("round {round:>2}: {total:>6.2} s   {}", parts.join(", ")));
            }
        }
        output::result(format!("steps: {:.1} s of a core", times.values().map(|sum| sum.0).sum::<f64>()));
    }

    /// The number of blocks in a full batch.
    pub fn room(&self) -> usize {
        self.circuit.layout().blocks()
    }

    fn slots(&self, value: &BgvValue) -> Result<Vec<i64>, Failure> {
        let ciphertext = value.as_ciphertext();
        let ciphertext = ciphertext.ok_or_else(|| Failure::Work("the output is no ciphertext".to_owned()))?;
        let (noise, bound) = (Decryptor::new(&self.secret)?.noise(ciphertext)?, ciphertext.noise_bound());
        if noise > bound {
            return Err(Failure::Work(format!("expected noise below 2^{bound:.1}, found 2^{noise:.1}")));
        }
        Ok(batch::open(&self.secret, ciphertext)?.to_vec())
    }

    /// Whether a result bears as many squarings as promised.
    fn bears_products(&self, result: &BgvValue, bytes: &[i64]) -> Result<bool, Failure> {
        let (key, t) = (self.of(Input::Relinearization { level: PRODUCTS as u16 })?, MODULUS as i64);
        let mut value = self.engine.step(0, Op::Scale(1), &[result])?;
        let mut expected = bytes.to_vec();
        for _ in 0..PRODUCTS {
            value = self.engine.step(0, Op::Mul, &[&value, &value, &key])?;
            expected.iter_mut().for_each(|slot| *slot = *slot * *slot % t);
            if self.slots(&value)?.iter().map(|slot| slot.rem_euclid(t)).ne(expected.iter().copied()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The seconds for the transform of one row.
    fn transform_seconds(&self) -> f64 {
        let ring = self.parameters().ring();
        let (seed, rows, start) = (Seed::from_bytes([0; 32]), 4, Instant::now());
        let element = Poly::<Coeff>::uniform(ring, ring.basis(rows), |row| seed.stream(Domain::Uniform, row as u64));
        let drawn = start.elapsed().as_secs_f64();
        std::hint::black_box(element.forward());
        (start.elapsed().as_secs_f64() - drawn) / rows as f64
    }
}

impl Work for Aes {
    fn job(&self) -> &'static str {
        "sense"
    }

    fn set(&self) -> &'static str {
        if self.insecure { "sense-aes-insecure" } else { SET }
    }

    fn title(&self) -> String {
        let (count, inputs) = (self.blocks.len(), bytes(self.program.bytes()[1]));
        let (devices, security) = (count.div_ceil(FRAME_BLOCKS), self.security());
        format!("{count} blocks of AES-128 of {devices} devices under encryption, {security}: {inputs} of inputs")
    }

    fn sizes(&self) -> serde_json::Value {
        let room = self.room();
        serde_json::json!({ "method": "aes", "blocks": self.blocks.len(), "room": room, "degree": self.parameters().degree() })
    }

    fn engine(&self) -> &BgvEngine {
        &self.engine
    }

    fn program(&self) -> &Program {
        &self.program
    }

    fn input(&self, value: Value) -> Result<BgvValue, String> {
        self.of(self.inputs[value.index()]).map_err(|failure| failure.to_string())
    }

    fn scratch(&self) -> u64 {
        SCRATCH_ROWS * 8 * self.parameters().degree() as u64
    }

    /// Costs derived from the time of a transform. A key switch consists mostly of transforms, and
    /// the sums between them take half as long again. Measuring each step would take minutes, and
    /// gigabytes of keys.
    fn measure(&self) -> Result<Costs, Failure> {
        let parameters = self.parameters();
        let (transform, special) = (self.transform_seconds(), parameters.ring().special_primes().len());
        let switch = |primes: usize, digits: usize| {
            1.6 * transform * ((digits * primes.div_ceil(parameters.digit_size()) + 2) * (primes + special)) as f64
        };
        let mut costs = Costs::unmeasured();
        for primes in 1..=parameters.data_primes() {
            let rows = primes as f64 * transform;
            let all = [
                ("mul", switch(primes, 1)),
                ("bilinear", switch(primes, 1) + 40.0 * rows),
                ("rotate_sum", switch(primes, 0) + 4.0 * rows),
                ("hoist", switch(primes, 1) - switch(primes, 0)),
                ("rescale", 4.0 * rows),
                ("mul_plain", 3.0 * rows),
            ];
            for (name, seconds) in all {
                costs.steps.entry(name.to_owned()).or_default().push((primes as u16 - 1, seconds));
            }
        }
        for kind in [Kind::Encrypted, Kind::Key] {
            let value = self.example(kind, parameters.digit_size() as u16 - 1)?;
            let resident = self.engine.shape_of(&value)?.resident as f64;
            for (encoding, speeds) in [(Encoding::Raw, &mut costs.raw), (Encoding::Packed, &mut costs.packed)] {
                let seconds = moves(&self.engine, &value, encoding)?;
                speeds.insert(kind, seconds.map(|seconds| resident / seconds));
            }
        }
        Ok(costs)
    }

    fn took(&self, op: Op, level: u16, seconds: f64) {
        let name = if matches!(op, Op::Bilinear { left: 15, .. }) { "forms" } else { op.name() };
        let begins = |round: &usize| usize::from(level) + 1 < self.circuit.chain().levels(*round).input;
        let round = (1..=ROUNDS).take_while(begins).count();
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = times.entry((round, name)).or_default();
        *entry = (entry.0 + seconds, entry.1 + 1);
    }

    fn is_right(&self, outputs: &[Arc<BgvValue>]) -> Result<bool, Failure> {
        let Some((output, probes)) = outputs.split_first() else { return Ok(false) };
        if self.rounds {
            self.tell_times();
            output::result(format!("{:?}: {}", self.parameters(), self.security()));
        }
        if !self.rounds_are_right(probes)? {
            return Ok(false);
        }
        let slots = self.slots(output)?;
        let found: Vec<u8> = self.batch.read(&slots)?.into_iter().flatten().flatten().collect();
        if found != self.sent {
            return Ok(false);
        }
        let products = self.bears_products(output, &slots)?;
        if self.rounds && products {
            output::result(format!("all {} bytes equal the devices' readings", found.len()));
            output::result(format!("{PRODUCTS} products more are right in every slot"));
        }
        Ok(products)
    }
}
