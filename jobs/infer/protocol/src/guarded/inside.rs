//! The part inside the enclave.

use super::networks::{self, Foreign, MixedNetwork, NetworkSetup, PlainNetwork};
use super::route::{
    ASK, Combination, IMAGE, INPUT, PARTS, Part, RESETS, RESULT, Setup, parts, parts_of_network, rounding, told_bytes,
};
use super::wire;
use crate::compile::Compiled;
use crate::forecast;
use crate::layout::Linear;
use crate::model::Model;
use crate::plain::{FRACTION_BITS, FixedModel, argmax};
use crate::program::Input;
use crate::server::{self, Keyring, Service};
use rand_core::CryptoRng;
use std::hint::black_box;
use tobari_enclave::inside::Message;
use tobari_enclave::{Configuration, Handler, OutputPolicy, Party, Refused};
use tobari_lattice::ckks::{Ciphertext, Decryptor, Encoder, EvaluationKeys, Scale, SeededCiphertext, integer_of};
use tobari_lattice::params::LatticeParameters;
use tobari_lattice::ring::Seed;
use tobari_lattice::rlwe::SecretKey;
use tobari_lattice::wire as objects;
use zeroize::{Zeroize, Zeroizing};

/// The most bytes of encoded weights kept for stages inside.
const MEMORY: u64 = 1 << 30;
/// Sums are limited to this before they are squared, as in integers.
const MOST: f64 = 16.0;

/// Numbers that are wiped when dropped.
type Numbers = Zeroizing<Vec<f64>>;

/// The job of an enclave; the head of the module describes it.
pub struct Guarded {
    combination: Combination,
    output: OutputPolicy,
    /// The bits by which rounded scores are shifted; `None` for other outputs.
    shift: Option<i32>,
    /// Bytes of an image.
    pixels: usize,
    /// The difference of two logits below which errors of encryption may exchange them, with `2^24`
    /// for 1 of the last stage's numbers; 0 where nothing is encrypted.
    doubt: i64,
    network: Network,
}

/// The form in which the network runs.
enum Network {
    /// On plain integers, inside.
    Integers(Box<FixedModel>),
    /// On plain numbers of another kind of network, inside.
    Doubles(Box<dyn PlainNetwork>),
    /// On ciphertexts.
    Ciphertexts(Box<Encrypted>),
    /// Of another kind, with maps on ciphertexts in the process.
    Mixed(Box<Mixed>),
}

/// The state for a network of another kind whose maps the process computes.
struct Mixed {
    network: Box<dyn MixedNetwork>,
    encoder: Encoder,
    parts: Vec<Part>,
}

/// The state for encrypted combinations.
struct Encrypted {
    model: Model,
    compiled: Compiled,
    encoder: Encoder,
    parts: Vec<Part>,
    /// For stages that run inside.
    service: Option<Service>,
}

/// The state of one session, wiped when dropped.
pub struct Own {
    secret: Option<Box<SecretKey>>,
    /// For stages that run inside.
    keys: Option<Keyring>,
    /// Messages of keys sent so far: each is sent once.
    given: usize,
    image: Zeroizing<Vec<u8>>,
    /// Of a network of another kind.
    numbers: Option<Box<dyn networks::Numbers>>,
    told: Zeroizing<Vec<u8>>,
}

/// 1 if the two largest numbers differ by less than `doubt`, else 0. No branch depends on a number.
fn doubtful(numbers: &[i64], doubt: i64) -> u8 {
    let (mut first, mut second) = (i64::MIN / 4, i64::MIN / 4);
    for number in numbers {
        second = black_box(second.max(first.min(*number)));
        first = black_box(first.max(*number));
    }
    black_box(u8::from(first - second < doubt))
}

fn refused<E>(_: E) -> Refused {
    Refused
}

impl Guarded {
    /// Builds the job from the bytes of [`Setup::encode`], if the configuration is that of the
    /// setup.
    ///
    /// # Errors
    /// [`Refused`] for other bytes, or a configuration that [`Setup::configuration`] does not
    /// return.
    pub fn build(configuration: &Configuration, setup: &[u8]) -> Result<Self, Refused> {
        let setup = Setup::decode(setup).map_err(refused)?;
        // one place decides on policies, budgets of resets and the script
        let allowed = setup.configuration(configuration.output, configuration.max_sessions, configuration.rounds);
        if allowed.map_err(refused)? != *configuration {
            return Err(Refused);
        }
        let combination = setup.route.combination;
        let shift = match configuration.output {
            OutputPolicy::Rounded(bits) => Some(rounding(&setup.model, bits).ok_or(Refused)?),
            _ => None,
        };
        let pixels = setup.model.input().len();
        let mut doubt = 0;
        let network = match setup.compile().map_err(refused)? {
            None => Network::Integers(Box::new(setup.model.fixed().map_err(refused)?)),
            Some(compiled) => {
                let error = forecast::logit_error(&compiled, &setup.model).map_err(refused)?;
                let unit = 2f64.powi(FRACTION_BITS as i32 - setup.model.logit_bits());
                doubt = (2.0 * error * unit).ceil() as i64;
                let encoder = Encoder::new(compiled.parameters()).map_err(refused)?.within(f64::INFINITY);
                let engine = tobari_engine::CkksEngine::new(compiled.parameters()).map_err(refused)?.unbounded();
                let parts = parts(&compiled, &engine).map_err(refused)?;
                let inside = !combination.uses_process();
                let service = inside.then(|| Service::new(compiled.clone(), MEMORY)).transpose().map_err(refused)?;
                let model = setup.model;
                Network::Ciphertexts(Box::new(Encrypted { model, compiled, encoder, parts, service }))
            }
        };
        Ok(Self { combination, output: configuration.output, shift, pixels, doubt, network })
    }

    /// Builds the job from the bytes of [`Setup::encode`] or of [`NetworkSetup::encode`]. `read`
    /// reads the model of the latter for its combination, and returns `None` for every model of
    /// this crate.
    ///
    /// # Errors
    /// [`Refused`] for other bytes, or a configuration that the setup's own `configuration` does
    /// not return.
    pub fn build_any(
        configuration: &Configuration,
        setup: &[u8],
        read: impl FnOnce(Combination, &[u8]) -> Option<Foreign>,
    ) -> Result<Self, Refused> {
        let Some(setup) = NetworkSetup::decode(setup, read).map_err(refused)? else {
            return Self::build(configuration, setup);
        };
        let allowed = setup.configuration(configuration.output, configuration.max_sessions, configuration.rounds);
        if allowed.map_err(refused)? != *configuration {
            return Err(Refused);
        }
        let shift = match configuration.output {
            OutputPolicy::Rounded(bits) => Some(networks::rounding(bits).ok_or(Refused)?),
            _ => None,
        };
        let network = setup.into_network();
        let (combination, pixels, output) = (network.combination(), network.pixels(), configuration.output);
        let doubt = (2.0 * network.error() * (1u64 << FRACTION_BITS) as f64).ceil() as i64;
        let network = match network {
            Foreign::Plain(network) => Network::Doubles(network),
            Foreign::Mixed(network) => {
                let encoder = Encoder::new(network.parameters()).map_err(refused)?.within(f64::INFINITY);
                let parts = parts_of_network(network.parameters(), network.keys());
                Network::Mixed(Box::new(Mixed { network, encoder, parts }))
            }
        };
        Ok(Self { combination, output, shift, pixels, doubt, network })
    }

    /// The permitted output for the last stage's numbers, with `2^24` for 1.
    fn tell(&self, numbers: &[i64]) -> Result<Zeroizing<Vec<u8>>, Refused> {
        let mut out = Zeroizing::new(Vec::with_capacity(told_bytes(self.output, numbers.len())));
        match self.output {
            OutputPolicy::Label => {
                out.extend_from_slice(&(argmax(numbers) as u16).to_be_bytes());
                out.push(doubtful(numbers, self.doubt));
            }
            OutputPolicy::Top(count) => {
                networks::tell_largest(numbers, count, &mut out)?;
                out.push(doubtful(numbers, self.doubt));
            }
            OutputPolicy::Rounded(_) => {
                let shift = self.shift.ok_or(Refused)?;
                for number in numbers {
                    let rounded = if shift > 0 {
                        (number + ((1 << shift) >> 1)) >> shift
                    } else {
                        number << shift.unsigned_abs()
                    };
                    out.extend_from_slice(&rounded.to_be_bytes());
                }
            }
            OutputPolicy::Scores => numbers.iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes())),
        }
        Ok(out)
    }

    /// The permitted output for a network's logits.
    fn tell_doubles(&self, logits: &[f64]) -> Result<Zeroizing<Vec<u8>>, Refused> {
        let logits = networks::ordered(logits);
        let mut out = Zeroizing::new(Vec::with_capacity(told_bytes(self.output, logits.len())));
        match self.output {
            OutputPolicy::Label => {
                out.extend_from_slice(&(networks::largest(&logits) as u16).to_be_bytes());
                out.push(0);
            }
            OutputPolicy::Top(count) => {
                networks::tell_largest(&logits, count, &mut out)?;
                out.push(0);
            }
            OutputPolicy::Rounded(_) | OutputPolicy::Scores => {
                return self.tell(&integers(&networks::limited(&logits)));
            }
        }
        Ok(out)
    }

    /// Runs all stages inside: from an image to the permitted output.
    fn whole(&self, own: &Own, image: &[u8], rng: &mut dyn CryptoRng) -> Result<Zeroizing<Vec<u8>>, Refused> {
        let encrypted = match &self.network {
            Network::Integers(fixed) => {
                return self.tell(&Zeroizing::new(fixed.logits(image).map_err(refused)?));
            }
            Network::Doubles(network) => return self.tell_doubles(&network.logits(image).ok_or(Refused)?),
            Network::Ciphertexts(encrypted) => encrypted,
            Network::Mixed(_) => return Err(Refused),
        };
        let service = encrypted.service.as_ref().ok_or(Refused)?;
        let session = service.resume(own.keys.as_ref().ok_or(Refused)?);
        let mut values = encrypted.encrypt_image(own, image, rng)?;
        for stage in 0..encrypted.compiled.len() {
            values = session.stage(stage, values).map_err(refused)?;
        }
        let numbers = encrypted.sums(own, encrypted.compiled.len() - 1, &values)?;
        self.tell(&integers(&numbers))
    }

    fn encrypted(&self) -> Result<&Encrypted, Refused> {
        match &self.network {
            Network::Ciphertexts(encrypted) => Ok(encrypted),
            Network::Integers(_) | Network::Doubles(_) | Network::Mixed(_) => Err(Refused),
        }
    }

    /// The process's messages to a network of another kind.
    fn mixed(
        &self,
        mixed: &Mixed,
        own: &mut Own,
        message: &Message<'_>,
        reply: &mut Vec<u8>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Refused> {
        let last = mixed.network.visits().len() - 1;
        match message.kind {
            INPUT => {
                own.numbers = Some(mixed.network.begin(&own.image).ok_or(Refused)?);
                own.image.zeroize();
                reply.extend(mixed.visit(own, 0, &[], rng)?);
            }
            RESULT => {
                mixed.visit(own, last, message.body, rng)?;
                let mut numbers = own.numbers.take().ok_or(Refused)?;
                let logits = networks::ordered(&numbers.logits().ok_or(Refused)?);
                own.told = self.tell(&integers(&networks::limited(&logits)))?;
            }
            kind @ RESETS.. => reply.extend(mixed.visit(own, usize::from(kind - RESETS) + 1, message.body, rng)?),
            kind @ PARTS..RESETS => {
                let number = usize::from(kind - PARTS);
                // the script repeats for each image; keys are sent once
                if number == own.given {
                    let parameters = mixed.network.parameters();
                    let secret = own.secret.as_ref().ok_or(Refused)?;
                    let inputs = &mixed.parts.get(number).ok_or(Refused)?.inputs;
                    let one = |input: &Input| {
                        let key = key(parameters, secret, *input, &mut *rng)?.ok_or(Refused)?;
                        Ok(objects::encode_ckks_evaluation_keys(&key))
                    };
                    reply.extend(wire::join(&inputs.iter().map(one).collect::<Result<Vec<_>, Refused>>()?));
                    own.given += 1;
                }
            }
            _ => return Err(Refused),
        }
        Ok(())
    }
}

impl Mixed {
    /// A visit: from the bytes of the ciphertexts that it takes to those of the ones that it
    /// returns.
    fn visit(
        &self,
        own: &mut Own,
        number: usize,
        body: &[u8],
        mut rng: &mut dyn CryptoRng,
    ) -> Result<Vec<u8>, Refused> {
        let [taken, returned] = self.network.visits().get(number).ok_or(Refused)?;
        let secret = own.secret.as_ref().ok_or(Refused)?;
        let decryptor = Decryptor::new(secret, &self.encoder).map_err(refused)?;
        let bodies = if taken.is_empty() { Vec::new() } else { wire::split(body, taken.len()).ok_or(Refused)? };
        let mut slots: Zeroizing<Vec<Vec<f64>>> = Zeroizing::new(Vec::with_capacity(taken.len()));
        for (bytes, (level, scale)) in bodies.into_iter().zip(taken) {
            let one = objects::without_identity(bytes)
                .and_then(|bytes| objects::decode_ckks_ciphertext(bytes, self.network.parameters()))
                .map_err(refused)?;
            if one.level() != *level || one.scale() != scale || one.needs_relinearization() {
                return Err(Refused);
            }
            slots.push(std::mem::take(&mut *decryptor.decrypt(&one).map_err(refused)?));
        }
        let anew = own.numbers.as_mut().ok_or(Refused)?.visit(number, &slots).ok_or(Refused)?;
        if anew.len() != returned.len() {
            return Err(Refused);
        }
        if returned.is_empty() {
            return Ok(Vec::new());
        }
        let one = |(slots, (level, scale)): (&Vec<f64>, &(usize, Scale))| {
            self.encoder.encrypt_seeded(slots, scale, *level, secret, &mut rng).map_err(refused)
        };
        Ok(encode(&anew.iter().zip(returned).map(one).collect::<Result<Vec<_>, Refused>>()?))
    }
}

/// Numbers as integers with 24 bits after the point.
fn integers(numbers: &[f64]) -> Zeroizing<Vec<i64>> {
    let unit = (1u64 << FRACTION_BITS) as f64;
    Zeroizing::new(numbers.iter().map(|number| integer_of(number * unit) as i64).collect())
}

impl Encrypted {
    /// Encrypts numbers, in the places of a stage's input.
    fn encrypt(
        &self,
        own: &Own,
        stage: usize,
        numbers: &[f64],
        mut rng: &mut dyn CryptoRng,
    ) -> Result<Vec<SeededCiphertext>, Refused> {
        let secret = own.secret.as_ref().ok_or(Refused)?;
        let (stage, scale) = (self.compiled.stage(stage), &self.compiled.scales(stage).input);
        let slots = Zeroizing::new(stage.linear.place(numbers));
        let one = |slots: &Vec<f64>| {
            self.encoder.encrypt_seeded(slots, scale, stage.manner.primes, secret, &mut rng).map_err(refused)
        };
        slots.iter().map(one).collect()
    }

    fn image(&self, image: &[u8]) -> Result<Numbers, Refused> {
        let fits = image.len() == self.model.input().len();
        fits.then(|| Zeroizing::new(Model::numbers(image))).ok_or(Refused)
    }

    fn encrypt_image(&self, own: &Own, image: &[u8], rng: &mut dyn CryptoRng) -> Result<Vec<Ciphertext>, Refused> {
        let image = self.image(image)?;
        Ok(self.encrypt(own, 0, &image, rng)?.iter().map(SeededCiphertext::expand).collect())
    }

    /// Decodes the ciphertexts of a stage's results.
    fn results(&self, stage: usize, body: &[u8]) -> Result<Vec<Ciphertext>, Refused> {
        let (of, scale) = (self.compiled.stage(stage), &self.compiled.scales(stage).results);
        let parts = wire::split(body, of.linear.outputs.len()).ok_or(Refused)?;
        let one = |bytes: &[u8]| {
            let one = objects::without_identity(bytes)
                .and_then(|bytes| objects::decode_ckks_ciphertext(bytes, self.compiled.parameters()))
                .map_err(refused)?;
            let fits = one.level() == of.manner.results() && one.scale() == scale && !one.needs_relinearization();
            fits.then_some(one).ok_or(Refused)
        };
        parts.into_iter().map(one).collect()
    }

    /// The numbers of a stage's results, decrypted; noise is rejected.
    fn sums(&self, own: &Own, stage: usize, values: &[Ciphertext]) -> Result<Numbers, Refused> {
        let secret = own.secret.as_ref().ok_or(Refused)?;
        let decryptor = Decryptor::new(secret, &self.encoder).map_err(refused)?;
        let (of, scale) = (self.compiled.stage(stage), &self.compiled.scales(stage).results);
        let mut slots: Zeroizing<Vec<Vec<f64>>> = Zeroizing::new(Vec::with_capacity(values.len()));
        for value in values {
            slots.push(std::mem::take(&mut *decryptor.decrypt(value).map_err(refused)?));
        }
        if !of.manner.fold {
            of.linear.fold(&mut slots);
        }
        let numbers = read(of.linear, &slots, self.compiled.outputs(stage));
        let primes = &self.compiled.parameters().ring().data_primes()[..of.manner.results()];
        let modulus: f64 = primes.iter().map(|prime| prime.modulus().value() as f64).product();
        let most = modulus / (4.0 * scale.to_f64(self.compiled.parameters()).unwrap_or(f64::INFINITY));
        let within = numbers.iter().fold(true, |all, number| all & (number.abs() < most));
        within.then_some(numbers).ok_or(Refused)
    }

    /// Turns a stage's results into the next stage's input.
    fn reset(
        &self,
        own: &Own,
        combination: Combination,
        stage: usize,
        body: &[u8],
        mut rng: &mut dyn CryptoRng,
    ) -> Result<Vec<u8>, Refused> {
        let values = self.results(stage, body)?;
        if combination == Combination::MixedPlainReset {
            let mut numbers = self.sums(own, stage, &values)?;
            for number in numbers.iter_mut() {
                let limited = number.clamp(-MOST, MOST);
                *number = limited * limited;
            }
            return Ok(encode(&self.encrypt(own, stage + 1, &numbers, rng)?));
        }
        let secret = own.secret.as_ref().ok_or(Refused)?;
        let decryptor = Decryptor::new(secret, &self.encoder).map_err(refused)?;
        let next = self.compiled.stage(stage + 1);
        if next.linear.takes.len() != values.len() {
            return Err(Refused);
        }
        let mut anew = Vec::with_capacity(values.len());
        for value in &values {
            let masked = decryptor.plaintext(value).map_err(refused)?;
            let lifted = masked.lift(next.manner.primes).ok_or(Refused)?;
            anew.push(lifted.encrypt_seeded(secret, &mut rng).map_err(refused)?);
        }
        Ok(encode(&anew))
    }

    /// A message of keys, and of weights under the session's key.
    fn part(&self, own: &Own, number: usize, mut rng: &mut dyn CryptoRng) -> Result<Vec<u8>, Refused> {
        let secret = own.secret.as_ref().ok_or(Refused)?;
        let inputs = &self.parts.get(number).ok_or(Refused)?.inputs;
        let mut all = Vec::with_capacity(inputs.len());
        for input in inputs {
            if let Some(key) = key(self.compiled.parameters(), secret, *input, &mut rng)? {
                all.push(objects::encode_ckks_evaluation_keys(&key));
                continue;
            }
            let slots = self.compiled.slots(*input).ok_or(Refused)?;
            let (scale, primes) = self.compiled.place(*input).ok_or(Refused)?;
            let weight = self.encoder.encrypt_seeded(&slots, scale, primes, secret, &mut rng).map_err(refused)?;
            all.push(objects::encode_ckks_seeded_ciphertext(&weight));
        }
        Ok(wire::join(&all))
    }
}

/// The evaluation key of an input; `None` for a weight.
fn key(
    parameters: &LatticeParameters,
    secret: &SecretKey,
    input: Input,
    mut rng: &mut dyn CryptoRng,
) -> Result<Option<EvaluationKeys>, Refused> {
    let mut key = EvaluationKeys::new(parameters);
    match input {
        Input::Rotation { steps, level } => key.add_rotation(secret, steps, usize::from(level) + 1, &mut rng),
        Input::Relinearization { level } => key.add_relinearization(secret, usize::from(level) + 1, &mut rng),
        _ => return Ok(None),
    }
    .map_err(refused)?;
    Ok(Some(key))
}

fn read(linear: &Linear, slots: &[Vec<f64>], length: usize) -> Numbers {
    Zeroizing::new(linear.read(slots, length))
}

fn encode(values: &[SeededCiphertext]) -> Vec<u8> {
    wire::join(&values.iter().map(objects::encode_ckks_seeded_ciphertext).collect::<Vec<_>>())
}

impl Handler for Guarded {
    type Session = Own;

    fn open(&mut self, mut rng: &mut dyn CryptoRng) -> Result<Own, Refused> {
        let mut own = Own {
            secret: None,
            keys: None,
            given: 0,
            image: Zeroizing::new(Vec::with_capacity(self.pixels)),
            numbers: None,
            told: Zeroizing::new(Vec::new()),
        };
        if let Network::Mixed(mixed) = &self.network {
            let secret = SecretKey::from_seed(mixed.network.parameters(), Seed::random(&mut rng));
            own.secret = Some(Box::new(secret));
            return Ok(own);
        }
        let Network::Ciphertexts(encrypted) = &self.network else { return Ok(own) };
        let Encrypted { compiled, service, .. } = &**encrypted;
        let secret = Box::new(SecretKey::from_seed(compiled.parameters(), Seed::random(&mut rng)));
        if let Some(service) = service {
            let mut keys = Vec::new();
            for input in compiled.keys() {
                keys.extend(key(compiled.parameters(), &secret, input, rng)?.map(|key| (input, key)));
            }
            let session = if compiled.options().encrypted {
                let weights = server::encrypt_weights(compiled, &secret, &mut rng).map_err(refused)?;
                service.session_with(keys, weights)
            } else {
                service.session(keys)
            };
            own.keys = Some(session.map_err(refused)?.into_keys());
        }
        own.secret = Some(secret);
        Ok(own)
    }

    fn handle(
        &mut self,
        own: &mut Own,
        message: Message<'_>,
        reply: &mut Vec<u8>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Refused> {
        match (message.from, message.kind) {
            (Party::Client, IMAGE) if self.combination.uses_process() => {
                own.told.zeroize();
                own.image.zeroize();
                own.image.extend_from_slice(message.body);
            }
            (Party::Client, IMAGE) => {
                reply.extend_from_slice(&self.whole(own, message.body, rng)?);
            }
            (Party::Client, ASK) => {
                reply.extend_from_slice(&own.told);
                own.told.zeroize();
            }
            (Party::Host, _) if let Network::Mixed(mixed) = &self.network => {
                self.mixed(mixed, own, &message, reply, rng)?;
            }
            (Party::Host, INPUT) => {
                let encrypted = self.encrypted()?;
                let image = encrypted.image(&own.image)?;
                reply.extend(encode(&encrypted.encrypt(own, 0, &image, rng)?));
                own.image.zeroize();
            }
            (Party::Host, RESULT) => {
                let encrypted = self.encrypted()?;
                let last = encrypted.compiled.len() - 1;
                let values = encrypted.results(last, message.body)?;
                own.told = self.tell(&integers(&encrypted.sums(own, last, &values)?))?;
            }
            (Party::Host, kind @ RESETS..) => {
                let stage = usize::from(kind - RESETS);
                reply.extend(self.encrypted()?.reset(own, self.combination, stage, message.body, rng)?);
            }
            (Party::Host, kind @ PARTS..RESETS) => {
                let number = usize::from(kind - PARTS);
                // the script repeats for each image; keys are sent once
                if number == own.given {
                    reply.extend(self.encrypted()?.part(own, number, rng)?);
                    own.given += 1;
                }
            }
            _ => return Err(Refused),
        }
        Ok(())
    }
}
