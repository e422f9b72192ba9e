//! A server with a network in a toy ring, over HTTP.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::command::remote::Remote;
use crate::network::Engine;
use crate::serve::models::Direct;
use crate::serve::{Infer, InferOptions};
use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use futures_util::future::BoxFuture;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tobari_client::{ClientTls, HttpClient, HttpReply, HttpRequest};
use tobari_command::reach::Reach;
use tobari_infer::client::Output;
use tobari_infer::holder::{Holder, Sealed, SealedKind};
use tobari_infer::{Normalisation, Volume};
use tobari_infer_deep::arrange::arrange;
use tobari_infer_deep::encrypted::Network;
use tobari_infer_deep::lower::{LowerOptions, Source, lower};
use tobari_infer_deep::machine::Circuit;
use tobari_infer_deep::place::place;
use tobari_infer_deep::settings::{Engine as Way, Refreshing, Settings};
use tobari_infer_deep::{Activation, Graph, Op};
use tobari_lattice::params::{LatticeParameters, Plaintext};
use tobari_node::{Given, Job, JobError, Offer, ServerOptions};
use tokio::sync::oneshot;

const MODEL: Name = [7; 32];
const INPUT: Volume = Volume { channels: 1, height: 4, width: 4 };

/// Numbers from -1 to 1 that look random.
fn numbers(count: usize, mut state: u64) -> Vec<f64> {
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1u32 << 30) - 1.0
    };
    std::iter::repeat_with(next).take(count).collect()
}

fn pictures() -> Vec<Vec<u8>> {
    let picture = |seed| numbers(INPUT.len(), seed).into_iter().map(|x| (127.0 * x + 128.0) as u8).collect();
    (1..7).map(picture).collect()
}

/// A network that is deep enough for refreshes.
fn graph() -> Graph {
    let mut graph = Graph::new(INPUT, Normalisation::standard(1, 0.45, 0.25)).unwrap();
    let mut x = 0;
    for layer in 0..4u64 {
        let (weights, bias) = (numbers(if layer == 0 { 9 * 2 } else { 9 * 4 }, layer + 20), numbers(2, layer + 40));
        let weights = weights.iter().map(|x| 0.4 * x).collect();
        let (kernel, stride) = ([3, 3], [1, 1]);
        let op = Op::Convolution {
            channels: 2,
            kernel,
            stride,
            padding: [1; 4],
            dilation: [1, 1],
            groups: 1,
            weights,
            bias,
        };
        x = graph.add(&format!("map{layer}"), op, &[x]).unwrap();
        x = graph.add(&format!("relu{layer}"), Op::Activation(Activation::Relu), &[x]).unwrap();
    }
    let op = Op::Dense { outputs: 3, weights: numbers(3 * 32, 60), bias: vec![0.0; 3] };
    graph.add("dense", op, &[x]).unwrap();
    graph
}

fn network() -> Network {
    let pictures = pictures();
    let refs: Vec<&[u8]> = pictures.iter().map(Vec::as_slice).collect();
    let options = LowerOptions { headroom: 1.25, bits: 6, quadratic: false, strict: true, enclaved: false };
    let steps = lower(&graph(), Source::Pictures(&refs), options).unwrap().steps;
    let settings = Settings::refreshed(Refreshing::Quick).unwrap();
    let placed = place(&steps, settings.levels().unwrap(), 8).unwrap();
    let arrangement = arrange(&placed, 8).unwrap();
    let circuit = Circuit::new(placed, arrangement, Way::Refresh(Refreshing::Quick));
    let sizes = &settings.sizes;
    let kind = Plaintext::Approximate;
    let parameters = LatticeParameters::insecure_of_sizes(1 << 9, &sizes.data, &sizes.special, sizes.digits, kind);
    Network::new(circuit, &parameters.unwrap()).unwrap()
}

/// A server for the toy, which is put into the second place when it is open.
struct TestOffer(InferOptions, Arc<Mutex<Option<Infer>>>);

impl Offer for TestOffer {
    fn folders(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn open(self: Box<Self>, given: Given) -> BoxFuture<'static, Result<Arc<dyn Job>, JobError>> {
        Box::pin(async move {
            let engine = Engine::Deep(Box::new(network()));
            let direct = Direct::new(engine, &self.0, &mut serde_json::json!({})).unwrap();
            let line = serde_json::json!({ "name": "toy", "digest": tobari_octets::hex(&MODEL), "image": [1, 4, 4] });
            let models = BTreeMap::from([(MODEL, Arc::new(Served::of_tests(direct, line)))]);
            let infer = Infer::of(models, &self.0, &given.bounds, None).map_err(JobError::new)?;
            *self.1.lock().unwrap() = Some(infer.clone());
            Ok(Arc::new(infer) as Arc<dyn Job>)
        })
    }
}

struct World {
    infer: Infer,
    url: String,
    stop: Option<oneshot::Sender<()>>,
    ended: tokio::task::JoinHandle<()>,
}

impl World {
    async fn start(folder: &std::path::Path, change: impl FnOnce(&mut InferOptions)) -> Self {
        let mut options = InferOptions::new(Vec::new());
        options.data = Some(folder.to_owned());
        change(&mut options);
        let mut server = ServerOptions::new("127.0.0.1:0".parse().unwrap());
        let infer = Arc::default();
        server.jobs.push(Box::new(TestOffer(options, Arc::clone(&infer))));
        let server = tobari_node::bind(server).await.unwrap();
        let infer = infer.lock().unwrap().take().unwrap();
        let (url, (stop, stopped)) = (server.url(), oneshot::channel());
        let ended = tokio::spawn(server.run(async { drop(stopped.await) }));
        Self { infer, url, stop: Some(stop), ended }
    }

    async fn end(mut self) {
        drop(self.stop.take());
        self.ended.await.unwrap();
    }

    fn remote(&self) -> Remote {
        Remote::reach(&self.url, &Reach { tls: ClientTls::System, token: None }).unwrap()
    }

    async fn send(&self, path: &str, body: Option<Vec<u8>>) -> HttpReply {
        let path = format!("/infer/v1/models/{}/{path}", tobari_octets::hex(&MODEL));
        let patience = Duration::from_secs(60);
        let request = HttpRequest { body: body.map(Into::into), path, headers: vec![], most: 1 << 20, patience };
        HttpClient::new(&self.url, &ClientTls::System).unwrap().connection().send(request).await.unwrap()
    }

    /// Sends one key under a name. Returns the status, the word of a refusal, and the number of
    /// keys that the server has.
    async fn key(&self, name: &Name, index: usize, bytes: &[u8]) -> (u16, Option<String>, Option<usize>) {
        let reply = self.send(&format!("keys/{}/{index}", tobari_octets::hex(name)), Some(bytes.to_vec())).await;
        let word = reply.header("tobari-refusal").map(str::to_owned);
        (reply.status, word, reply.header("tobari-next").and_then(|next| next.parse().ok()))
    }

    /// The number of keys that the server has of an incomplete set; none if it has all.
    async fn next(&self, name: &Name) -> Option<usize> {
        let reply = self.send(&format!("keys/{}", tobari_octets::hex(name)), None).await;
        assert!(reply.status == 204 || reply.header("tobari-refusal") == Some("key"));
        reply.header("tobari-next").and_then(|next| next.parse().ok())
    }

    /// Asks as a command does. Returns whether the answer is the plain network's, and the bytes
    /// sent.
    async fn ask(&self, holder: &Holder, picture: &[u8]) -> Result<u64, String> {
        let mut remote = self.remote();
        let pixels: Vec<f64> = picture.iter().map(|x| f64::from(*x) / 255.0).collect();
        let question = holder.encrypt(&pixels, &mut ChaCha20Rng::from_seed([1; 32])).unwrap();
        let sealed = Sealed::decode(SealedKind::Question, &question).unwrap();
        let answer = remote.answer(&sealed, Some(holder)).await.map_err(|failure| failure.to_string())?;
        let answer = Sealed { kind: SealedKind::Answer, body: &answer, ..sealed }.encode();
        let found = holder.decrypt(&answer, Output::Logits).unwrap().logits;
        let plain = graph().forward(picture).unwrap();
        assert!(found.iter().zip(&plain).all(|(a, b)| (a - b).abs() < 0.2), "{found:?} {plain:?}");
        Ok(remote.sent_bytes())
    }
}

fn holder(seed: u8) -> (Holder, Vec<Vec<u8>>) {
    let holder = Holder::insecure_for_tests(network().card(), MODEL, &mut ChaCha20Rng::from_seed([seed; 32])).unwrap();
    let mut keys = Vec::new();
    holder
        .each_message(0, |_, key| {
            keys.push(key);
            true
        })
        .unwrap();
    (holder, keys)
}

fn files(folder: &std::path::Path, kind: &str) -> usize {
    let folder = folder.join("infer").join(tobari_octets::hex(&MODEL));
    let is_kind = |entry: &fs::DirEntry| entry.path().extension().is_some_and(|extension| extension == kind);
    fs::read_dir(folder).map_or(0, |entries| entries.flatten().filter(is_kind).count())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_goes_on_after_a_break_and_wrong_keys_are_refused_without_a_loss() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::start(folder.path(), |_| ()).await;
    let (holder, keys) = holder(1);
    let name = *holder.keys_name();
    assert!(holder.card().is_refreshed() && keys.len() > 5);
    assert_eq!(world.next(&name).await, Some(0));
    for (index, key) in keys[..3].iter().enumerate() {
        assert_eq!(world.key(&name, index, key).await, (204, None, Some(index + 1)));
    }
    let refused = |(status, word, _): (u16, Option<String>, Option<usize>)| (status, word.unwrap_or_default());
    assert_eq!(refused(world.key(&name, 4, &keys[4]).await), (409, "order".into()), "too early");
    assert_eq!(refused(world.key(&name, 3, &keys[4]).await), (422, "message".into()), "another key");
    assert_eq!(refused(world.key(&name, 3, &keys[3][1..]).await), (422, "message".into()), "a part of a key");
    assert_eq!(refused(world.key(&name, keys.len(), &keys[3]).await), (422, "message".into()), "one too many");
    let all = [&KEYS_HEAD[..], &keys.concat()].concat();
    assert_eq!(world.send("keys", Some(all.clone())).await.header("tobari-refusal"), Some("order"), "all at once");
    assert_eq!(world.key(&name, 2, &keys[2]).await, (204, None, Some(3)), "sent again after a lost reply");
    assert_eq!(world.next(&name).await, Some(3), "nothing was lost");
    // a command goes on from there
    let rest: usize = keys[3..].iter().map(Vec::len).sum();
    let pictures = pictures();
    let sent = world.ask(&holder, &pictures[0]).await.unwrap();
    let again = world.ask(&holder, &pictures[1]).await.unwrap();
    assert_eq!(sent, rest as u64 + again, "the first three keys are not sent again, and no key a second time");
    assert_eq!((world.next(&name).await, files(folder.path(), "keys"), files(folder.path(), "part")), (None, 1, 0));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_another_name_are_removed_and_their_client_is_answered_after_that() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::start(folder.path(), |_| ()).await;
    let ((one, _), (two, keys)) = (holder(1), holder(2));
    // every key is a right one, but the name is that of other keys
    for (index, key) in keys.iter().enumerate() {
        let (status, word, _) = world.key(one.keys_name(), index, key).await;
        let expected = if index + 1 < keys.len() { (204, None) } else { (422, Some("name".to_owned())) };
        assert_eq!((status, word), expected, "{index}");
    }
    assert_eq!(world.next(one.keys_name()).await, Some(0));
    assert_eq!((files(folder.path(), "keys"), files(folder.path(), "part")), (0, 0));
    let pictures = pictures();
    for (holder, picture) in [(&one, 0), (&two, 1), (&one, 2), (&two, 3)] {
        world.ask(holder, &pictures[picture]).await.unwrap();
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_keys_are_there_and_damaged_ones_are_sent_again() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::start(folder.path(), |_| ()).await;
    let ((one, keys), (two, others)) = (holder(1), holder(2));
    let pictures = pictures();
    let first = world.ask(&one, &pictures[0]).await.unwrap();
    world.key(two.keys_name(), 0, &others[0]).await;
    assert_eq!(files(folder.path(), "part"), 1);
    world.end().await;

    let world = World::start(folder.path(), |_| ()).await;
    assert_eq!((world.next(one.keys_name()).await, world.next(two.keys_name()).await), (None, Some(0)));
    assert_eq!(files(folder.path(), "part"), 0);
    let all: usize = keys.iter().map(Vec::len).sum();
    assert_eq!(world.ask(&one, &pictures[1]).await.unwrap(), first - all as u64);
    world.end().await;

    // a residue changes, which is valid for itself
    let models = folder.path().join("infer").join(tobari_octets::hex(&MODEL));
    let path = models.join(tobari_octets::hex(one.keys_name())).with_extension("keys");
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&path, bytes).unwrap();
    let world = World::start(folder.path(), |_| ()).await;
    let refused = world.ask(&one, &pictures[2]).await.unwrap_err();
    assert!(refused.contains("the server has no keys of this name"), "{refused}");
    assert_eq!(world.ask(&one, &pictures[2]).await.unwrap(), first, "all keys are sent again");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_keys_have_a_limit_and_idle_ones_make_room() {
    let folder = tempfile::tempdir().unwrap();
    let ((one, _), (two, others)) = (holder(1), holder(2));
    let length = messages::keys_bytes(one.card()) as u64;
    let world = World::start(folder.path(), |options| {
        (options.key_file_bytes, options.idle) = (length * 3 / 2, Duration::from_secs(3));
    });
    let (world, pictures) = (world.await, pictures());
    world.ask(&one, &pictures[0]).await.unwrap();
    let (status, word, _) = world.key(two.keys_name(), 0, &others[0]).await;
    assert_eq!((status, word.as_deref()), (507, Some("quota")));
    world.ask(&one, &pictures[1]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await;
    world.ask(&two, &pictures[2]).await.unwrap();
    assert_eq!((files(folder.path(), "keys"), world.next(one.keys_name()).await), (1, Some(0)));
    world.end().await;

    // keys that are too large for the memory are refused at the start
    let options = InferOptions { key_bytes: 1 << 20, ..InferOptions::new(Vec::new()) };
    let refused = Direct::new(Engine::Deep(Box::new(network())), &options, &mut serde_json::json!({}));
    assert!(refused.is_err_and(|text| text.contains("--infer-keys allows 1MiB: raise it")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_ends_its_run_and_others_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::start(folder.path(), |_| ()).await;
    let ((one, _), (two, _)) = (holder(1), holder(2));
    let pictures = pictures();
    world.ask(&one, &pictures[0]).await.unwrap();
    let pixels: Vec<f64> = pictures[1].iter().map(|x| f64::from(*x) / 255.0).collect();
    let question = one.encrypt(&pixels, &mut ChaCha20Rng::from_seed([1; 32])).unwrap();
    let body = Sealed::decode(SealedKind::Question, &question).unwrap().body.to_vec();
    for _ in 0..3 {
        let headers = vec![("tobari-key", tobari_octets::hex(one.keys_name()))];
        let path = format!("/infer/v1/models/{}/answers", tobari_octets::hex(&MODEL));
        let patience = Duration::from_secs(60);
        let request = HttpRequest { body: Some(body.clone().into()), path, headers, most: 1 << 20, patience };
        let mut connection = HttpClient::new(&world.url, &ClientTls::System).unwrap().connection();
        let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
        let asked = tokio::spawn(async move {
            let hear = |body: &[u8]| drop(heard.send(String::from_utf8_lossy(body).into_owned()));
            connection.send_hearing(request, hear).await.map(drop)
        });
        // the first steps were told, and then the client goes away
        while !hears.recv().await.unwrap().contains("step 2 ") {}
        asked.abort();
    }
    world.ask(&two, &pictures[2]).await.unwrap();
    // a run whose client is away has one step and no answer
    let (shared, place) = (Arc::clone(&world.infer.shared), (MODEL, *one.keys_name()));
    let (parts, mut heard) = tokio::sync::mpsc::channel(64);
    heard.close();
    let answered = tokio::task::spawn_blocking(move || {
        crate::serve::run::answer(&shared, &shared.models[&MODEL], &place, &body, &parts)
    });
    assert!(matches!(answered.await.unwrap(), Err(None)));
    world.end().await;
}
