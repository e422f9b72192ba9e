//! The tasks of each set, all at the top level and with all slots in use.

use super::super::rounds;
use super::figures::{Params, name};
use crate::bench::arguments::SetName;
use std::hint::black_box;
use std::rc::Rc;
use tobari_command::output::Failure;
use tobari_command::randomness;
use tobari_lattice::params::{LatticeParameters, NamedSet};
use tobari_lattice::ring::Ntt;
use tobari_lattice::rlwe::{PublicKey, SecretKey};
use tobari_lattice::{bgv, ckks};

type Task = rounds::Task<Params>;

/// Rotations that share a decomposition.
const HOISTED: usize = 8;

/// The tasks of a set, with new keys.
pub(super) fn of(set: SetName) -> Result<Vec<Task>, Failure> {
    let (named, scheme) = match set {
        SetName::A => ("ckks-a", "ckks"),
        SetName::B => ("ckks-b", "ckks"),
        SetName::C => ("bgv-c", "bgv"),
    };
    let Some(named) = NamedSet::from_name(named) else { unreachable!("a set of the core") };
    let parameters = named.parameters()?;
    let params = Params {
        set: name(set).to_owned(),
        scheme: scheme.to_owned(),
        n: parameters.degree(),
        level: parameters.data_primes(),
        dnum: parameters.digits(),
        log_qp: parameters.log_qp(),
        refresh: None,
    };
    let mut bench = Bench { params, tasks: Vec::new() };
    bench.transforms(&parameters);
    if scheme == "ckks" {
        bench.ckks(&parameters)?;
    } else {
        bench.bgv(&parameters)?;
    }
    Ok(bench.tasks)
}

struct Bench {
    params: Params,
    tasks: Vec<Task>,
}

impl Bench {
    fn add(&mut self, what: &'static str, work: impl FnMut() + 'static) {
        self.tasks.push(Task {
            what,
            params: self.params.clone(),
            labels: Vec::new(),
            work: Box::new(work),
            parts: 1.0,
        });
    }

    /// Transforms for the first prime, which has 50 bits, on a row that is aligned to a cache line.
    fn transforms(&mut self, parameters: &LatticeParameters) {
        let ntt = Rc::new(parameters.ring().data_primes()[0].clone());
        let same = ntt.clone();
        let (mut forward, mut inverse) = (Row::new(&ntt), Row::new(&ntt));
        self.add("ntt_forward", move || ntt.forward(forward.values()));
        self.add("ntt_inverse", move || same.inverse(inverse.values()));
    }

    fn ckks(&mut self, parameters: &LatticeParameters) -> Result<(), Failure> {
        let mut rng = randomness::generator()?;
        let level = parameters.data_primes();
        let secret = Rc::new(SecretKey::generate(parameters, &mut rng));
        let public = PublicKey::generate(&secret, &mut rng);
        let mut keys = ckks::EvaluationKeys::new(parameters);
        keys.add_relinearization(&secret, level, &mut rng)?;
        for step in 1..=HOISTED as i64 {
            keys.add_rotation(&secret, step, level, &mut rng)?;
        }
        let encoder = Rc::new(ckks::Encoder::new(parameters)?);
        let scale = ckks::Scale::power_of_two(if self.params.set == "A" { 30 } else { 49 });
        let slots: Vec<f64> = (0..encoder.slots()).map(|slot| (slot as f64 * 0.7).sin()).collect();
        let plaintext = Rc::new(encoder.encode(&slots, &scale, level)?);
        let c = Rc::new((plaintext.encrypt(&public, &mut rng)?, plaintext.encrypt(&public, &mut rng)?));
        let e = Rc::new((ckks::Evaluator::new(parameters)?, keys));
        let product = e.0.tensor(&c.0, &c.1)?;
        let relinearised = e.0.relinearize(&product, &e.1)?;
        {
            let (encoder, slots, scale) = (encoder.clone(), slots, scale);
            self.add("encode", move || _ = black_box(encoder.encode(black_box(&slots), &scale, level)));
        }
        {
            let (encoder, p) = (encoder.clone(), plaintext.clone());
            self.add("decode", move || _ = black_box(encoder.decode(black_box(&p))));
        }
        let (p, mut random) = (plaintext.clone(), randomness::generator()?);
        self.add("encrypt_public", move || assert!(black_box(p.encrypt(&public, &mut random)).is_ok()));
        let (p, s) = (plaintext.clone(), secret.clone());
        self.add("encrypt_secret", move || assert!(black_box(p.encrypt_seeded(&s, &mut rng)).is_ok()));
        let (s, x, holder) = (secret.clone(), c.clone(), encoder.clone());
        let (same, y, coder) = (secret, c.clone(), encoder.clone());
        self.add("decrypt", move || {
            if let Ok(holder) = ckks::Decryptor::new(&s, &holder) {
                assert!(black_box(holder.plaintext(&x.0)).is_ok());
            }
        });
        self.add("open", move || {
            if let Ok(holder) = ckks::Decryptor::new(&same, &coder) {
                assert!(black_box(holder.decrypt_complex(&y.0)).is_ok());
            }
        });
        let both = || (e.clone(), c.clone());
        // these two change their argument, so that it soon exceeds its bounds
        let free = Rc::new(ckks::Evaluator::new(parameters)?.unbounded());
        let (ev, x, mut sum) = (free.clone(), c.clone(), c.0.clone());
        self.add("add", move || assert!(black_box(ev.add_assign(&mut sum, &x.1)).is_ok()));
        // with scale 1, so that it can be repeated: the time does not depend on the numbers
        let (mut scaled, one) = (c.0.clone(), encoder.encode(&[1.0], &ckks::Scale::power_of_two(0), level)?);
        self.add("mul_plain", move || assert!(black_box(free.mul_plain_assign(&mut scaled, &one)).is_ok()));
        let (ev, x) = both();
        self.add("tensor", move || assert!(black_box(ev.0.tensor(&x.0, &x.1)).is_ok()));
        let (ev, x) = both();
        self.add("mul", move || assert!(black_box(ev.0.mul_rescale(&x.0, &x.1, &ev.1)).is_ok()));
        let ev = e.clone();
        self.add("relinearize", move || assert!(black_box(ev.0.relinearize(&product, &ev.1)).is_ok()));
        let ev = e.clone();
        self.add("rescale", move || assert!(black_box(ev.0.rescale(&relinearised)).is_ok()));
        // the part of a rotation that is for its bounds and for identities
        if let Some(estimate) = c.0.estimate().copied() {
            let (ev, x, estimator) = (e.clone(), c.clone(), ckks::Estimator::new(parameters));
            self.add("bounds", move || {
                let (x, keys) = (black_box(&x.0), black_box(&ev.1));
                assert!(x.parameters() == keys.parameters() && x.parameters() == ev.0.parameters());
                assert!(x.key() == keys.id() && estimator.fits(&estimator.switch(black_box(&estimate))));
            });
        }
        let (ev, x) = both();
        self.add("rotate", move || assert!(black_box(ev.0.rotate(&x.0, 1, &ev.1)).is_ok()));
        // by another key each time, so that keys come from memory
        let ((ev, x), mut step) = (both(), 0);
        self.add("rotate_keys", move || {
            step = step % HOISTED as i64 + 1;
            assert!(black_box(ev.0.rotate(&x.0, step, &ev.1)).is_ok());
        });
        let (ev, x) = both();
        self.add("rotate_hoisted_8", move || {
            if let Ok(hoisted) = ev.0.hoist(&x.0) {
                (1..=HOISTED as i64)
                    .for_each(|step| assert!(black_box(ev.0.rotate_hoisted(&hoisted, step, &ev.1)).is_ok()));
            }
        });
        self.last_is_of(HOISTED);
        Ok(())
    }

    fn bgv(&mut self, parameters: &LatticeParameters) -> Result<(), Failure> {
        let mut rng = randomness::generator()?;
        let level = parameters.data_primes();
        let secret = Rc::new(SecretKey::generate(parameters, &mut rng));
        let public = PublicKey::generate(&secret, &mut rng);
        let steps: [i64; HOISTED] = std::array::from_fn(|i| i as i64 + 1);
        let mut keys = bgv::EvaluationKeys::new(secret.parameters()).with_relinearization(&secret, level, &mut rng)?;
        for step in steps {
            keys = keys.with_rotation(&secret, step, level, &mut rng)?;
        }
        let encoder = Rc::new(bgv::Encoder::new(parameters)?);
        let slots: Vec<i64> = (0..encoder.slots() as i64).map(|slot| slot * 7919 % 65_537).collect();
        let plaintext = Rc::new(encoder.encode(&slots)?);
        let prepared = bgv::PreparedPlaintext::new(parameters, &plaintext, level)?;
        let c = Rc::new((plaintext.encrypt(&public, level, &mut rng)?, plaintext.encrypt(&public, level, &mut rng)?));
        let e = Rc::new((bgv::Evaluator::new(parameters)?, keys));
        let product = e.0.tensor(&c.0, &c.1)?;
        {
            let encoder = encoder.clone();
            self.add("encode", move || _ = black_box(encoder.encode(black_box(&slots))));
        }
        let (coder, p) = (encoder.clone(), plaintext.clone());
        self.add("decode", move || _ = black_box(coder.decode(black_box(&p))));
        let (p, mut random) = (plaintext.clone(), randomness::generator()?);
        self.add("encrypt_public", move || {
            _ = black_box(p.encrypt(&public, level, &mut random));
        });
        let (p, s) = (plaintext.clone(), secret.clone());
        self.add("encrypt_secret", move || {
            _ = black_box(p.encrypt_seeded(&s, level, &mut rng));
        });
        let (s, x) = (secret.clone(), c.clone());
        self.add("decrypt", move || {
            if let Ok(holder) = bgv::Decryptor::new(&s) {
                assert!(black_box(holder.decrypt(&x.0)).is_ok());
            }
        });
        let (s, x) = (secret, c.clone());
        self.add("open", move || {
            if let Ok(holder) = bgv::Decryptor::new(&s)
                && let Ok(plaintext) = holder.decrypt(&x.0)
            {
                _ = black_box(encoder.decode(&plaintext));
            }
        });
        let both = || (e.clone(), c.clone());
        let (ev, x) = both();
        let mut sum = x.0.clone();
        self.add("add", move || _ = black_box(ev.0.add_assign(&mut sum, &x.1)));
        let (ev, x) = both();
        let mut scaled = x.0.clone();
        self.add("mul_plain", move || _ = black_box(ev.0.mul_prepared_assign(&mut scaled, &prepared)));
        let (ev, x) = both();
        self.add("tensor", move || _ = black_box(ev.0.tensor(&x.0, &x.1)));
        let (ev, x) = both();
        self.add("mul", move || _ = black_box(ev.0.mul_mod_switch(&x.0, &x.1, &ev.1)));
        let ev = e.clone();
        self.add("relinearize", move || _ = black_box(ev.0.relinearize(&product, &ev.1)));
        let (ev, x) = both();
        self.add("rescale", move || _ = black_box(ev.0.to_level(&x.0, level - 1)));
        let (ev, x) = both();
        self.add("rotate", move || _ = black_box(ev.0.rotate(&x.0, 1, &ev.1)));
        let (ev, x) = both();
        self.add("rotate_hoisted_8", move || {
            if let Ok(hoisted) = ev.0.hoist(&x.0) {
                steps.iter().for_each(|step| _ = black_box(ev.0.rotate_hoisted(&hoisted, *step, &ev.1)));
            }
        });
        self.last_is_of(HOISTED);
        Ok(())
    }

    fn last_is_of(&mut self, parts: usize) {
        if let Some(task) = self.tasks.last_mut() {
            task.parts = parts as f64;
        }
    }
}

/// A row of residues on a boundary of 64 bytes.
struct Row {
    memory: Vec<u64>,
    degree: usize,
}

impl Row {
    fn new(ntt: &Ntt) -> Self {
        let q = ntt.modulus().value();
        let memory = (0..ntt.degree() as u64 + 8).map(|i| i * i * 7919 % q).collect();
        Self { memory, degree: ntt.degree() }
    }

    fn values(&mut self) -> &mut [u64] {
        let first = self.memory.as_ptr().align_offset(64).min(7);
        &mut self.memory[first..first + self.degree]
    }
}
