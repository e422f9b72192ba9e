//! The designs: the work of each for 256 readings, on the device and on the server.

use super::SenseBench;
use crate::bench::line::summary;
use chacha20::ChaCha20Rng;
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;
use tobari_command::output::{self, Failure};
use tobari_command::randomness;
use tobari_device::{
    Device, DeviceNumber, Envelope, GCM_FRAME, GcmDevice, InsecureVolatileCounter, MacKey, P1, Profile, READINGS, Root,
    Stamp, U25,
};
use tobari_host::memory::{Busy, resident};
use tobari_host::process::cpu_seconds;
use tobari_lattice::RingKernels;
use tobari_lattice::bgv::{Encoder, EvaluationKeys, SeededCiphertext};
use tobari_lattice::ring::Seed;
use tobari_lattice::rlwe::{PublicKey, SecretKey};
use tobari_sense::client;
use tobari_sense::cloud::{Cloud, Frames, Material};
use tobari_sense::direct;
use tobari_sense::holder::Holder;
use tobari_sense::order::{Order, Seat, Taken};
use tobari_sense::program::Input;
use tobari_sense::registry::{Registry, Secret};
use tobari_sense::schema::ProfileName;
use tobari_sense::setting::{Setting, key_name};
use tobari_simd::{Backend, choose_backend};

/// A way to hide readings from a computing server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Design {
    Bitwise,
    Packed,
    Seeded,
    Aes,
    Sums,
    Exact,
}

/// The lattice loops of a device of design 1. Devices of the other designs have their own code, and
/// primitives that use the processor's instructions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Loops {
    /// Loops that run on every processor, to stand for the phone.
    Portable,
    /// This machine's fastest loops, as the baseline of a ratio, because a slow baseline would
    /// flatter it.
    Fastest,
}

/// The party that does the work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Device,
    Cloud,
}

impl Role {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Cloud => "cloud",
        }
    }

    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Device => "seal",
            Self::Cloud => "convert",
        }
    }
}

impl Design {
    pub(super) const ALL: [Self; 6] = [Self::Bitwise, Self::Packed, Self::Seeded, Self::Aes, Self::Sums, Self::Exact];

    /// Whether devices encrypt directly under the homomorphic scheme.
    pub(super) fn is_direct(self) -> bool {
        matches!(self, Self::Bitwise | Self::Packed | Self::Seeded)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bitwise => "1-bitwise",
            Self::Packed => "1-packed",
            Self::Seeded => "1-packed-seeded",
            Self::Aes => "2-aes",
            Self::Sums => "3-u25",
            Self::Exact => "3-p1",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|design| design.name() == name)
    }
}

/// The target for a design's work, in microseconds for 256 readings.
pub(super) fn target_us(design: Design, role: Role) -> Option<f64> {
    match (design, role) {
        (Design::Exact, Role::Device) => Some(5.0),
        (Design::Sums, Role::Cloud) => Some(35.0),
        (Design::Exact, Role::Cloud) => Some(10_000.0),
        _ => None,
    }
}

/// Work to be timed, for a number of messages at once.
pub(super) struct Work {
    run: Box<dyn FnMut() -> Result<(), Failure>>,
    messages: f64,
    /// The repetitions for one figure.
    repeated: u32,
}

impl Work {
    /// The time of one message.
    pub(super) fn microseconds(&mut self) -> Result<f64, Failure> {
        let started = Instant::now();
        for _ in 0..self.repeated {
            (self.run)()?;
        }
        Ok(started.elapsed().as_secs_f64() * 1e6 / f64::from(self.repeated) / self.messages)
    }
}

const SOME: [u8; READINGS] = [77; READINGS];

fn number(number: u32) -> Result<DeviceNumber, Failure> {
    DeviceNumber::new(number).ok_or_else(|| Failure::Work("numbers of devices are below 2^24".to_owned()))
}

/// The work of a design in a role; none if there is none, or none yet.
pub(super) fn work(design: Design, role: Role) -> Result<Option<Work>, Failure> {
    let root = Root::from_bytes([7; 32]);
    Ok(match (design, role) {
        (Design::Bitwise | Design::Packed, Role::Device) => Some(encrypting(design)?),
        (Design::Seeded, Role::Device) => Some(encrypting_under_the_key()?),
        (Design::Aes, Role::Device) => {
            let mut device = GcmDevice::open(&root, number(1)?, InsecureVolatileCounter(0))?;
            let mut frame = [0; GCM_FRAME];
            Some(Work { run: Box::new(move || Ok(device.seal(&SOME, &mut frame)?)), messages: 1.0, repeated: 4000 })
        }
        (Design::Sums, Role::Device) => Some(sealing::<U25>(&root)?),
        (Design::Exact, Role::Device) => Some(sealing::<P1>(&root)?),
        (Design::Sums, Role::Cloud) => Some(converting::<U25>(ProfileName::U25)?),
        (Design::Exact, Role::Cloud) => Some(converting::<P1>(ProfileName::P1)?),
        // AES under encryption is a job of its own (`aes`); ciphertexts of design 1 need no
        // conversion
        (Design::Bitwise | Design::Packed | Design::Seeded | Design::Aes, Role::Cloud) => None,
    })
}

fn sealing<P: Profile>(root: &Root) -> Result<Work, Failure> {
    let mut device = Device::<P, _>::open(root, number(1)?, InsecureVolatileCounter(0))?;
    let mut frame = P::EMPTY;
    Ok(Work {
        run: Box::new(move || Ok(device.seal_at(Stamp::default().into(), &SOME, &mut frame)?)),
        messages: 1.0,
        repeated: 1000,
    })
}

/// Design 1: encryption under the key holder's public key, bit by bit or all at once.
fn encrypting(design: Design) -> Result<Work, Failure> {
    let (parameters, mut rng) = (direct::parameters()?, randomness::generator()?);
    let secret = SecretKey::from_seed(&parameters, Seed::random(&mut rng));
    let public = PublicKey::generate(&secret, &mut rng);
    let encoder = Encoder::new(&parameters)?;
    let run = move || -> Result<(), Failure> {
        let messages = match design {
            Design::Packed => vec![direct::packed(&encoder, &SOME)?],
            _ => direct::bitwise(&parameters, &SOME)?,
        };
        for message in &messages {
            std::hint::black_box(message.encrypt(&public, direct::PRODUCTS + 1, &mut rng)?);
        }
        Ok(())
    };
    let repeated = if design == Design::Packed { 20 } else { 1 };
    Ok(Work { run: Box::new(run), messages: 1.0, repeated })
}

/// Design 1 in its shortest form: one ciphertext under the secret key itself, with a seed in place
/// of one half. With that key every device could read every other device's data.
fn encrypting_under_the_key() -> Result<Work, Failure> {
    let (parameters, mut rng) = (direct::parameters()?, randomness::generator()?);
    let secret = SecretKey::from_seed(&parameters, Seed::random(&mut rng));
    let encoder = Encoder::new(&parameters)?;
    let run = move || -> Result<(), Failure> {
        let message = direct::packed(&encoder, &SOME)?;
        std::hint::black_box(message.encrypt_seeded(&secret, direct::PRODUCTS + 1, &mut rng)?);
        Ok(())
    };
    Ok(Work { run: Box::new(run), messages: 1.0, repeated: 20 })
}

/// Converts and sums one frame from each device of a full cohort (seven frames each for the linear
/// path), with fresh plans and public halves each time.
struct Converting<P: Profile> {
    cloud: Cloud,
    order: Order,
    seats: Vec<Seat>,
    frames: Frames<P>,
    material: Memory,
    rng: ChaCha20Rng,
}

struct Memory {
    secrets: Vec<SeededCiphertext>,
    keys: Vec<(String, Arc<EvaluationKeys>)>,
}

impl Material for Memory {
    fn secret(&mut self, _: usize, i: usize) -> Option<SeededCiphertext> {
        self.secrets.get(i).cloned()
    }

    fn key(&mut self, input: Input) -> Option<Arc<EvaluationKeys>> {
        let name = key_name(input)?;
        self.keys.iter().find(|known| known.0 == name).map(|known| Arc::clone(&known.1))
    }
}

fn converting<P: Profile>(profile: ProfileName) -> Result<Work, Failure> {
    let (setting, mut rng) = (Setting::of(profile)?, randomness::generator()?);
    let (holder, mut registry) = (Holder::generate(profile, &mut rng), Registry::default());
    let secret = holder.secret(&setting);
    let (mut frames, blocks) = (Frames::<P>::new(), setting.layout.blocks());
    let each = if profile == ProfileName::U25 { 7 } else { 1 };
    for block in 0..blocks {
        let entry = registry.add(&format!("d{block}"), "", None, Secret::random(&mut rng))?;
        let key = MacKey::<P>::from_bytes(&entry.root().mac_key::<P>());
        let mut device = Device::<P, _>::open(&entry.root(), entry.number, InsecureVolatileCounter(0))?;
        let mut seal = || -> Result<Envelope<P>, Failure> {
            let mut frame = P::EMPTY;
            device.seal_at(Stamp::default().into(), &SOME, &mut frame)?;
            Ok(key.open(frame.as_ref())?)
        };
        frames.insert(entry.number, (0..each).map(|_| seal()).collect::<Result<_, _>>()?);
    }
    let secrets = holder.cohort(&setting, &secret, &registry, 0, &mut rng)?;
    let mut keys = Vec::new();
    for input in setting.keys()? {
        let key = client::key(&secret, input, &mut rng);
        keys.extend(key_name(input).zip(key.map(Arc::new)));
    }
    let order = Order {
        profile,
        length_ms: 1,
        every_ms: 1,
        offset_ms: 0,
        bounds: vec![],
        lateness_ms: 0,
        sheet: 0,
        groups: vec![registry.seats().iter().map(|seat| seat.number).collect()],
        by_device: true,
        weights: vec![],
        renewed: vec![],
        frames: each,
        part: None,
        measures: if profile == ProfileName::P1 { vec![Taken::Reading] } else { vec![] },
        least_devices: 1,
    };
    let messages = (blocks * each as usize) as f64;
    let (cloud, material) = (Cloud::new(setting, &mut rng)?, Memory { secrets, keys });
    let mut all = Converting { cloud, order, seats: registry.seats(), frames, material, rng };
    let run = move || -> Result<(), Failure> {
        let Converting { cloud, order, seats, frames, material, rng } = &mut all;
        // as in the run of a plan
        let _busy = Busy::new();
        std::hint::black_box(cloud.answer(order, seats, frames, material, rng)?);
        Ok(())
    };
    Ok(Work { run: Box::new(run), messages, repeated: 1 })
}

/// The result of one cell's process.
#[derive(Serialize, Deserialize)]
pub(super) struct Cell {
    /// Median, minimum and maximum of all rounds.
    pub(super) microseconds: [f64; 3],
    /// The mean of all rounds, because clocks of processor time are coarse.
    pub(super) cpu_microseconds: f64,
    pub(super) peak_bytes: u64,
    pub(super) rounds: u32,
    /// The name of the loops.
    pub(super) backend: String,
}

/// The loops of a design in a role.
pub(super) fn backend(design: Design, role: Role) -> String {
    let of_the_device_alone = role == Role::Device && !design.is_direct();
    if of_the_device_alone { OWN_LOOPS } else { RingKernels::best().name }.to_owned()
}

/// Arithmetic of the device crate, without vectors, and primitives of RustCrypto, which use the
/// processor's instructions for AES and SHA, as a phone's would.
const OWN_LOOPS: &str = "device";
/// The time for measuring a cell with enough rounds, and the longest time for a slow cell.
const SECONDS: [f64; 2] = [1.0, 6.0];

/// Measures one cell in this process: `design/role`, or `design/device/fastest`.
pub(super) fn once(what: &str, arguments: &SenseBench) -> Result<ExitCode, Failure> {
    let parts: Vec<&str> = what.split('/').collect();
    let wrong = || Failure::Call("expected a design and a role with a slash between".to_owned());
    let (Some(design), Some(role)) = (Design::from_name(parts[0]), parts.get(1)) else { return Err(wrong()) };
    let role = if *role == Role::Device.name() { Role::Device } else { Role::Cloud };
    if (design, role) == (Design::Aes, Role::Cloud) {
        output::json(&super::aes::once(arguments)?.0)?;
        return Ok(ExitCode::SUCCESS);
    }
    if role == Role::Device && design.is_direct() && parts.len() == 2 {
        choose_backend(Backend::Portable)?;
    }
    let mut work = work(design, role)?.ok_or_else(wrong)?;
    let [least, most] = SECONDS;
    let warm = work.microseconds()?;
    let (cpu, started, mut all) = (cpu_seconds(), Instant::now(), Vec::new());
    loop {
        all.push(work.microseconds()?);
        let seconds = started.elapsed().as_secs_f64();
        let enough = all.len() >= 3 && (seconds >= least || all.len() == 10_000);
        if enough || seconds + warm * 1e-6 * f64::from(work.repeated) * work.messages > most {
            break;
        }
    }
    let rounds = all.len() as u32;
    let times = f64::from(rounds) * f64::from(work.repeated) * work.messages;
    let cpu_microseconds = cpu.zip(cpu_seconds()).map_or(0.0, |(before, now)| (now - before) * 1e6 / times);
    let peak_bytes = resident().map_or(0, |[_, peak]| peak);
    let (median, min, max) = summary(all);
    let (microseconds, backend) = ([median, min, max], backend(design, role));
    output::json(&Cell { microseconds, cpu_microseconds, peak_bytes, rounds, backend })?;
    Ok(ExitCode::SUCCESS)
}
