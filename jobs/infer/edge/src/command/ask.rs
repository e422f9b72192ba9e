//! `tobari infer ask` and `tobari infer enclave`: verify an enclave before an image leaves this
//! machine.
//!
//! Verification has this order. The offer must have the requested model and combination, and an
//! accepted output policy. The evidence must answer a fresh nonce, have an accepted kind, and name
//! the offer's configuration. Its measurement must be that of a trusted executable under this
//! configuration. Only then does the client open a channel; images are sent only through it.

use super::arguments::{AskArguments, EnclaveArguments, ImageArguments, TrustedArguments};
use super::hex;
use super::image::{self, ModelImages};
use super::remote::{self, Remote};
use serde_json::{Value, json};
use std::time::Instant;
use tobari_command::output::{self, Failure};
use tobari_command::randomness;
use tobari_command::reach::ReachArguments;
use tobari_enclave::evidence::MAX_EVIDENCE_BYTES;
use tobari_enclave::{
    Attested, Challenge, Configuration, Connector, Digest, Evidence, Measurement, OutputPolicy, Policy, SessionId,
    VerifyError,
};
use tobari_infer::guarded::{Asker, EnclaveAnswer, Expected, MAX_OFFER_BYTES, Offer};
use tobari_infer::plain::FRACTION_BITS;
use zeroize::Zeroizing;

/// The most bytes of a reply that only confirms a step.
const MAX_REPLY_BYTES: usize = 1 << 12;
/// The most bytes of a frame: a script's longest message, and its tag.
const MAX_FRAME_BYTES: usize = tobari_enclave::configuration::MAX_MESSAGE_BYTES as usize + 64;

/// The warning for a user who accepts simulated evidence.
const SIMULATED: &str = "the evidence is SIMULATED: no hardware protects it, anybody can make it, and the server's operator can read the images";

/// An enclave whose offer matches the requirements; there is no evidence yet.
struct EnclaveCandidate {
    /// The enclave's path on the server.
    path: String,
    offer: Offer,
    executables: Vec<Digest>,
    images: ModelImages,
}

/// An image's name and pixels.
type Image = (String, Zeroizing<Vec<u8>>);

/// A verified enclave.
struct Verified {
    attested: Attested,
    /// The executable with this measurement.
    executable: Digest,
}

/// Classifies images in an enclave, which is verified before the images leave.
pub(super) fn run(arguments: &AskArguments) -> Result<(), Failure> {
    let url = server(&arguments.reach)?;
    remote::block_on(async {
        let mut remote = Remote::reach(url, &arguments.reach.reach()?)?;
        let found = find(&mut remote, &arguments.trusted).await?;
        let images = images(arguments, &found.images)?;
        let most = found.offer.configuration.rounds as usize;
        if images.len() > most {
            let found = images.len();
            return Err(Failure::Work(format!(
                "a session takes {most} images, and these are {found}: split them, or ask the operator to raise --enclave-images"
            )));
        }
        let verified = verify(&mut remote, &found, arguments.accept_simulated).await?;
        output::say(line(&found, &verified));
        if verified.attested.is_simulated() {
            output::say(format!("warning: {SIMULATED}"));
        }
        classify(&mut remote, &found, &verified, &images, arguments.trusted.json).await?;
        output::say(format!("{} bytes sent, {} received", remote.sent_bytes(), remote.received_bytes()));
        Ok(())
    })
}

/// Prints an enclave's offer, and the measurements that its evidence may show.
pub(super) fn tell(arguments: &EnclaveArguments) -> Result<(), Failure> {
    let url = server(&arguments.reach)?;
    let found = remote::block_on(async {
        let mut remote = Remote::reach(url, &arguments.reach.reach()?)?;
        find(&mut remote, &arguments.trusted).await
    })?;
    let Offer { route, configuration, .. } = &found.offer;
    let digest = configuration.digest();
    let measurements: Vec<_> = found.executables.iter().map(|one| (one, Measurement::new(one, &digest))).collect();
    if arguments.trusted.json {
        let expected = measurements.iter().map(|(executable, measurement)| {
            json!({ "executable": executable.to_string(), "measurement": measurement.to_string() })
        });
        let mut line = described(&found);
        line["sessions"] = configuration.max_sessions.into();
        line["images"] = configuration.rounds.into();
        line["expected"] = expected.collect();
        return output::json(&line);
    }
    let set = found.offer.set().unwrap_or("parameters without a name");
    output::result(format!(
        "{}, {set}, tells {}; {} sessions of {} images; configuration {digest}",
        route.combination.name(),
        configuration.output,
        configuration.max_sessions,
        configuration.rounds
    ));
    for (executable, measurement) in measurements {
        output::result(format!("of the executable {executable} the measurement {measurement} is expected"));
    }
    Ok(())
}

fn server(reach: &ReachArguments) -> Result<&str, Failure> {
    let none = || Failure::Call("add --server URL: the enclave is on a server".to_owned());
    reach.server.as_deref().ok_or_else(none)
}

/// Reads all images, with their names.
fn images(arguments: &AskArguments, of_model: &ModelImages) -> Result<Vec<Image>, Failure> {
    let one = |path: &std::path::Path, index: Option<usize>| {
        let picture = ImageArguments { image: path.to_owned(), index, fit: arguments.fit };
        let name = match index {
            Some(index) => format!("{} {index}", path.display()),
            None => path.display().to_string(),
        };
        Ok((name, image::read(&picture, of_model)?))
    };
    match (arguments.images.as_slice(), arguments.index.as_slice()) {
        (paths, []) => paths.iter().map(|path| one(path, None)).collect(),
        ([path], indices) => indices.iter().map(|index| one(path, Some(*index))).collect(),
        _ => Err(Failure::Call("--index takes one file of images: ask each file by itself".to_owned())),
    }
}

/// Finds an enclave and compares its offer with the requirements.
async fn find(remote: &mut Remote, trusted: &TrustedArguments) -> Result<EnclaveCandidate, Failure> {
    let executables = match trusted.executables.as_slice() {
        [] => vec![tobari_host::process::executable_digest()?],
        given => given.to_vec(),
    };
    let (model, shape) = remote.find(trusted.model.as_deref()).await?;
    let path = format!("/infer/v1/models/{}/enclave", hex(&model));
    let offer = Offer::decode(&remote.body(&path, None, MAX_OFFER_BYTES).await?)?;
    let (combination, tells) = (trusted.combination, trusted.tells);
    offer.check(&Expected { model: Digest::new(model), combination, tells })?;
    // an accepted offer has the number of an image's numbers
    let numbers = shape.channels.checked_mul(shape.height).and_then(|numbers| numbers.checked_mul(shape.width));
    if offer.pixels() != numbers {
        let (expected, found) = (offer.pixels().unwrap_or_default(), numbers.unwrap_or_default());
        return Err(Failure::Work(format!(
            "the enclave takes images of {expected} numbers, and the server's model takes {found}: ask the operator"
        )));
    }
    let images = ModelImages::of(&model, shape)?;
    Ok(EnclaveCandidate { path, offer, executables, images })
}

/// Fetches evidence for a fresh nonce and verifies it.
async fn verify(remote: &mut Remote, found: &EnclaveCandidate, accept_simulated: bool) -> Result<Verified, Failure> {
    let (mut rng, began) = (randomness::generator()?, Instant::now());
    let configuration = found.offer.configuration.clone();
    let mut policy = Policy::new(found.executables.clone(), configuration);
    if accept_simulated {
        policy = policy.accepting_simulated();
    }
    let challenge = Challenge::new(&mut rng, 0);
    let nonce = challenge.nonce().0.to_vec();
    let evidence = remote.body(&format!("{}/report", found.path), Some(nonce), MAX_EVIDENCE_BYTES).await?;
    let attested = match challenge.verify(&policy, &evidence, began.elapsed().as_secs()) {
        Ok(attested) => attested,
        Err(error) => {
            // this evidence has a session, which would keep its place until the server's timeout
            if let Ok(refused) = Evidence::decode(&evidence) {
                let _ = remote.delete(&found.session(refused.statement.session)).await;
            }
            return Err(match error {
                error @ VerifyError::Measurement { .. } => Failure::Work(format!(
                    "{error}; where the server runs another `tobari` file that you trust, name its SHA-256 with --executable"
                )),
                error => error.into(),
            });
        }
    };
    let digest = found.offer.configuration.digest();
    let is_it = |executable: &&Digest| Measurement::new(executable, &digest) == *attested.measurement();
    let executable = found.executables.iter().find(is_it).copied();
    let executable = executable.ok_or(VerifyError::Measurement { found: *attested.measurement() })?;
    Ok(Verified { attested, executable })
}

/// Sends images into the channel to a verified enclave, and prints the results.
async fn classify(
    remote: &mut Remote,
    found: &EnclaveCandidate,
    verified: &Verified,
    images: &[Image],
    json: bool,
) -> Result<(), Failure> {
    let (channel, key) = Connector::connect(&verified.attested, &mut randomness::generator()?)?;
    let id = channel.session();
    let opening = [id.0.as_slice(), &key].concat();
    remote.body(&format!("{}/sessions", found.path), Some(opening), MAX_REPLY_BYTES).await?;
    let session = found.session(id);
    let mut asker = Asker::new(channel, &found.offer.configuration);
    let several = images.len() > 1;
    let mut done = Ok(());
    for (name, pixels) in images {
        done = match ask(remote, &session, &mut asker, pixels).await {
            Ok(told) => show(name, &told, found, verified, (json, several)),
            Err(failure) => Err(failure),
        };
        if done.is_err() {
            break;
        }
    }
    // the session also ends by itself, only later: a failure to end it is not worth a message
    // beside the labels
    let _ = remote.delete(&session).await;
    done
}

async fn ask(remote: &mut Remote, session: &str, asker: &mut Asker, pixels: &[u8]) -> Result<EnclaveAnswer, Failure> {
    let answer = remote.body(&format!("{session}/images"), Some(asker.image(pixels)?), MAX_FRAME_BYTES).await?;
    if let Some(told) = asker.heard(answer)? {
        return Ok(told);
    }
    let answer = remote.body(&format!("{session}/answers"), Some(asker.ask()?), MAX_FRAME_BYTES).await?;
    Ok(asker.told(answer)?)
}

fn show(
    name: &str,
    told: &EnclaveAnswer,
    found: &EnclaveCandidate,
    verified: &Verified,
    (json, several): (bool, bool),
) -> Result<(), Failure> {
    let scores = match told {
        EnclaveAnswer::Labels(_) | EnclaveAnswer::Doubtful(_) => Vec::new(),
        EnclaveAnswer::Scores(scores) => {
            scores.iter().map(|score| *score as f64 / unit(&found.offer.configuration)).collect()
        }
    };
    if matches!(told, EnclaveAnswer::Doubtful(_)) {
        output::say(format!("warning: {name}: another label may be right: it is closer than the errors of encryption"));
    }
    if json {
        let mut line = json!({ "image": name, "label": told.label() });
        if matches!(told, EnclaveAnswer::Doubtful(_)) {
            line["close"] = true.into();
        }
        match told {
            EnclaveAnswer::Labels(labels) | EnclaveAnswer::Doubtful(labels) if labels.len() > 1 => {
                line["labels"] = json!(labels);
            }
            EnclaveAnswer::Labels(_) | EnclaveAnswer::Doubtful(_) => {}
            EnclaveAnswer::Scores(_) => line["scores"] = json!(scores),
        }
        line["verified"] = verified.json(found);
        return output::json(&line);
    }
    let labels = match told {
        EnclaveAnswer::Labels(labels) | EnclaveAnswer::Doubtful(labels) => {
            labels.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        }
        EnclaveAnswer::Scores(_) => told.label().to_string(),
    };
    output::result(if several { format!("{name}: {labels}") } else { labels });
    scores.iter().enumerate().for_each(|(class, score)| output::result(format!("  {class}: {score:.6}")));
    Ok(())
}

/// The unit of a score under this output policy.
fn unit(configuration: &Configuration) -> f64 {
    let bits = match configuration.output {
        OutputPolicy::Rounded(bits) => u32::from(bits),
        _ => FRACTION_BITS,
    };
    2f64.powi(bits as i32)
}

/// The offer as JSON, without any evidence.
fn described(found: &EnclaveCandidate) -> Value {
    let Offer { route, configuration, .. } = &found.offer;
    let layout = route.combination.is_encrypted().then_some(&route.layout);
    json!({
        "combination": route.combination.name(), "set": found.offer.set(), "layout": layout,
        "tells": configuration.output.to_string(), "model": configuration.model.to_string(),
        "configuration": configuration.digest().to_string(),
    })
}

fn line(found: &EnclaveCandidate, verified: &Verified) -> String {
    let configuration = &found.offer.configuration;
    format!(
        "verified: {} evidence of the executable {} in the combination {}, which tells {}; measurement {}",
        verified.kind(),
        verified.executable,
        found.offer.route.combination.name(),
        configuration.output,
        verified.attested.measurement()
    )
}

impl EnclaveCandidate {
    /// The path of a session.
    fn session(&self, id: SessionId) -> String {
        format!("{}/sessions/{}", self.path, hex(&id.0))
    }
}

impl Verified {
    fn kind(&self) -> &'static str {
        if self.attested.is_simulated() { "simulated" } else { "hardware" }
    }

    fn json(&self, found: &EnclaveCandidate) -> Value {
        let mut line = described(found);
        line["evidence"] = self.kind().into();
        line["executable"] = self.executable.to_string().into();
        line["measurement"] = self.attested.measurement().to_string().into();
        let lacking = self.attested.statement().protections.lacking();
        line["lacking"] = lacking.map(|(what, state)| format!("{what}: {state}")).collect();
        line
    }
}
