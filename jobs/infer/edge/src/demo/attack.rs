//! Inference in `tobari demo --attack`.
//!
//! The attacks run in this process, against the code that serves and asks: an enclave with an
//! honest inside and a dishonest host, and clients with the answers of a server.

use crate::network::Engine;
use chacha20::ChaCha20Rng;
use tobari_command::demo::Attack;
use tobari_command::output::Failure;
use tobari_command::randomness;
use tobari_enclave::{
    Challenge, Configuration, Connector, Digest, Enclave, EnclaveError, InProcess, Measurement, Operation,
    OutputPolicy, Policy, Protections, Request, Status,
};
use tobari_infer::client::{ClientError, Output};
use tobari_infer::compile::{Compiled, Options};
use tobari_infer::digits::{STYLES, draw};
use tobari_infer::guarded::{Asker, Combination, EnclaveAnswer, Guarded, Host, HostError, HostSession, Route, Setup};
use tobari_infer::holder::{Holder, HolderError, Sealed, SealedKind};
use tobari_infer::ready::{ORDER, SET};
use tobari_infer::server::Service;
use tobari_infer::{Map, Model, Normalisation, Volume};
use tobari_infer_deep::lower::numbers;
use tobari_infer_deep::model::CompileOptions;
use tobari_infer_deep::{Activation, DeepModel, Graph, Op};
use tobari_lattice::params::{LatticeParameters, NamedSet};

/// The number of the message with an image's result, in an enclave's script.
const RESULT: u8 = 3;
/// The most bytes of encoded weights.
const WEIGHTS: u64 = 1 << 30;

/// Runs every attack on inference.
///
/// # Errors
/// [`Failure`] if an attack cannot be run.
pub fn attacks() -> Result<Vec<Attack>, Failure> {
    Ok(vec![another_users_ciphertext()?, outside_the_range()?, another_model()?])
}

fn failed(text: &str) -> Failure {
    Failure::Work(text.to_owned())
}

fn parameters() -> Result<LatticeParameters, Failure> {
    Ok(NamedSet::from_name(SET).ok_or_else(|| failed("no set of parameters"))?.parameters()?)
}

/// A host that keeps the result of one session, and hands it in as the result of another.
struct Swaps<E> {
    enclave: E,
    kept: Vec<u8>,
    swaps: bool,
}

impl<E: Enclave> Enclave for Swaps<E> {
    fn request(&mut self, request: Request, body: &[u8], reply: &mut Vec<u8>) -> Result<(), EnclaveError> {
        let is_result = request.operation == Operation::Host && request.kind == RESULT;
        if is_result && !self.swaps {
            self.kept = body.to_vec();
        }
        let body = if is_result && self.swaps { &self.kept } else { body };
        self.enclave.request(request, body, reply)
    }

    fn measurement(&self) -> &Measurement {
        self.enclave.measurement()
    }

    fn protections(&self) -> &Protections {
        self.enclave.protections()
    }

    fn stop(&mut self) {
        self.enclave.stop();
    }
}

/// A user's session in an enclave.
struct User<'a> {
    session: HostSession<'a>,
    asker: Asker,
}

impl<'a> User<'a> {
    fn open(
        host: &'a Host,
        enclave: &mut dyn Enclave,
        (configuration, executable): (&Configuration, Digest),
        rng: &mut ChaCha20Rng,
    ) -> Result<Self, Failure> {
        let policy = Policy::new(vec![executable], configuration.clone()).accepting_simulated();
        let challenge = Challenge::new(rng, 0);
        let evidence = enclave.report(challenge.nonce())?;
        let (channel, key) = Connector::connect(&challenge.verify(&policy, &evidence, 0)?, rng)?;
        let id = channel.session();
        enclave.open(id, &key)?;
        Ok(Self { session: host.begin(enclave, id)?, asker: Asker::new(channel, configuration) })
    }

    /// The enclave's answer, or its refusal.
    fn ask(
        &mut self,
        enclave: &mut dyn Enclave,
        pixels: &[u8],
        rng: &mut ChaCha20Rng,
    ) -> Result<Result<EnclaveAnswer, EnclaveError>, Failure> {
        match self.session.image(enclave, &self.asker.image(pixels)?, rng, &mut || 0.0) {
            Ok((reply, _)) => drop(self.asker.heard(reply)?),
            Err(HostError::Enclave(error)) => return Ok(Err(error)),
            Err(error) => return Err(error.into()),
        }
        let reply = self.session.ask(enclave, &self.asker.ask()?)?;
        Ok(Ok(self.asker.told(reply)?))
    }
}

/// The host of an enclave has another user's image decrypted as the result of its own session.
fn another_users_ciphertext() -> Result<Attack, Failure> {
    let (parameters, mut rng) = (parameters()?, randomness::generator()?);
    let route = Route::new(Combination::MixedPlainReset, &parameters);
    let setup = Setup { route, parameters, model: Model::digits()? };
    let configuration = setup.configuration(OutputPolicy::Label, 2, 2)?;
    let executable = Digest::of_bytes(b"an executable");
    let build = |configuration: &Configuration, setup: &[u8], _: &mut ChaCha20Rng| Guarded::build(configuration, setup);
    let own = randomness::generator()?;
    let inside = InProcess::start(&configuration, &setup.encode(), &executable, build, own)?;
    let mut enclave = Swaps { enclave: inside, kept: Vec::new(), swaps: false };
    let host = Host::new(&setup, WEIGHTS)?;
    let (images, fixed) = ([draw(3, &STYLES[0]), draw(8, &STYLES[0])], setup.model.fixed()?);
    let mut open = |enclave: &mut dyn Enclave| User::open(&host, enclave, (&configuration, executable), &mut rng);
    let (mut victim, mut accomplice) = (open(&mut enclave)?, open(&mut enclave)?);
    // honest results are told; the last one that the host keeps is the victim's
    for (user, image) in [(&mut accomplice, &images[1]), (&mut victim, &images[0])] {
        let told = user.ask(&mut enclave, image, &mut rng)?;
        if told? != EnclaveAnswer::Labels(vec![fixed.classify(image)?]) {
            return Err(failed("an honest result gave another label"));
        }
    }
    enclave.swaps = true;
    let (caught, how) = match accomplice.ask(&mut enclave, &images[1], &mut rng)? {
        Err(EnclaveError::Refused(Status::Refused)) => {
            (true, "under the session's own key it is noise: the enclave ends the session".to_owned())
        }
        Err(error) => return Err(error.into()),
        Ok(answer) => (false, format!("the enclave tells the label {}", answer.label())),
    };
    let attack = "inference: hand in another user's ciphertext as the result";
    Ok(Attack::new(attack, "an enclave's host and a user", caught, false, how))
}

/// The label of a picture that a server computes under encryption, or why the client withholds it.
fn ask(
    (holder, server): (&Holder, &Engine),
    pixels: &[f64],
    rng: &mut ChaCha20Rng,
) -> Result<Result<usize, HolderError>, Failure> {
    let question = holder.encrypt(pixels, rng)?;
    let sealed = Sealed::decode(SealedKind::Question, &question)?;
    let ring = server.keyring(holder.loose_keys()?)?;
    let (answer, _) = server.answer(holder.card(), &ring, sealed.body, |_, _, _| true)?;
    let told = holder.decrypt(&Sealed { kind: SealedKind::Answer, body: &answer, ..sealed }.encode(), Output::Label);
    Ok(told.map(|told| told.labels.first().copied().unwrap_or_default()))
}

/// Weights of the network of [`calibrated_on_grey`].
fn weight(at: usize) -> f64 {
    ((at * 37 % 101) as f64 - 50.0) / 50.0
}

/// A network of two maps with sigmoids between them, for pictures of 4 x 4, that was calibrated on
/// grey pictures.
fn calibrated_on_grey() -> Result<(DeepModel, Vec<u8>), Failure> {
    const SIDE: usize = 4;
    let mut graph =
        Graph::new(Volume { channels: 1, height: SIDE, width: SIDE }, Normalisation::standard(1, 0.5, 0.2))?;
    let dense = |outputs: usize, inputs: usize| Op::Dense {
        outputs,
        weights: (0..outputs * inputs).map(weight).collect(),
        bias: (0..outputs).map(|at| weight(at + 7)).collect(),
    };
    let x = graph.add("first", dense(8, SIDE * SIDE), &[0])?;
    let x = graph.add("sigmoid", Op::Activation(Activation::Sigmoid), &[x])?;
    graph.add("last", dense(3, 8), &[x])?;
    let grey = |seed: usize| (0..SIDE * SIDE).map(|at| (118 + (at * 7 + seed * 5) % 19) as u8).collect::<Vec<u8>>();
    let pictures: Vec<Vec<u8>> = (0..16).map(grey).collect();
    let seen: Vec<&[u8]> = pictures.iter().map(Vec::as_slice).collect();
    let options = CompileOptions { margin: Some(0.5), headroom: Some(1.1), ..CompileOptions::default() };
    Ok((DeepModel::compile(graph, &seen, options)?, pictures[0].clone()))
}

/// An honest server gets a picture unlike all that a network was made for: polynomials in place of
/// its activations have no meaning there.
fn outside_the_range() -> Result<Attack, Failure> {
    let (model, grey) = calibrated_on_grey()?;
    let (network, mut rng) = (model.network()?, randomness::generator()?);
    let holder = Holder::generate(network.card(), model.digest(), &mut rng)?;
    let server = Engine::Deep(Box::new(network));
    let plain = model.graph().forward(&grey)?;
    let best = (0..plain.len()).max_by(|a, b| plain[*a].total_cmp(&plain[*b]));
    if ask((&holder, &server), &numbers(&grey), &mut rng)?.ok() != best {
        return Err(failed("a picture within the range got another label than the plain network's"));
    }
    // black and white, so that the first sum is as large as it can be
    let loud: Vec<u8> = (0..grey.len()).map(|at| if weight(at) > 0.0 { 255 } else { 0 }).collect();
    let (caught, how) = match ask((&holder, &server), &numbers(&loud), &mut rng)? {
        Err(HolderError::Client(error @ (ClientError::Outside | ClientError::Noise { .. }))) => {
            (true, format!("the client withholds the answer: {error}"))
        }
        Err(error) => return Err(error.into()),
        Ok(label) => (false, format!("the client tells the label {label}, without an alarm")),
    };
    let attack = "inference: have a picture classified for which the network was not made";
    Ok(Attack::new(attack, "somebody who chooses the picture", caught, false, how))
}

/// A server that runs another model than it says: here one with the classes in reverse.
fn another_model() -> Result<Attack, Failure> {
    let (model, parameters, mut rng) = (Model::digits()?, parameters()?, randomness::generator()?);
    let mut stages = model.stages().to_vec();
    let classes = model.classes();
    if let Some(last) = stages.last_mut() {
        let Map::Dense { weights } = &mut last.map else { return Err(failed("expected a dense layer at the end")) };
        let rows: Vec<f64> = weights.rchunks_exact(weights.len() / classes).flatten().copied().collect();
        *weights = rows;
        last.bias.reverse();
    }
    let other = Model::new(stages, model.logit_bits())?;
    let compile = |model: &Model| Compiled::new(model, ORDER[0], &parameters, Options::PLAIN_WEIGHTS);
    let honest = compile(&model)?;
    let holder = Holder::generate(honest.card(), model.digest(), &mut rng)?;
    let image = draw(3, &STYLES[0]);
    let expected = model.fixed()?.classify(&image)?;
    let mut labels = Vec::new();
    for compiled in [honest, compile(&other)?] {
        let server = Engine::Flat(Box::new(Service::new(compiled, WEIGHTS)?));
        labels.push(ask((&holder, &server), &Model::numbers(&image), &mut rng)?);
    }
    let (caught, how) = match &labels[..] {
        [Ok(honest), _] if *honest != expected => return Err(failed("an honest answer gave another label")),
        [Ok(_), Ok(label)] if *label == expected => return Err(failed("the attack changed nothing")),
        [Ok(_), Ok(label)] => (
            false,
            format!("the client tells {label} for a {expected}, without an alarm: the server must be semi-honest"),
        ),
        [Ok(_), Err(error)] => (true, format!("the client withholds the answer: {error}")),
        _ => return Err(failed("an honest answer was withheld")),
    };
    Ok(Attack::new("inference: run another model than the one that was asked", "a dishonest server", caught, true, how))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn attacks_on_inference_end_as_documented() {
        let attacks = attacks().unwrap();
        for attack in &attacks {
            assert!(attack.is_as_documented(), "{}", attack.sentence());
        }
        let caught: Vec<bool> = attacks.iter().map(|attack| attack.caught).collect();
        assert_eq!(caught, [true, true, false]);
    }
}
