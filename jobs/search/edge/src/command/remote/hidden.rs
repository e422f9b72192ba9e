//! Questions with the place hidden: the server's layouts, one registration of some 6 MB, and one
//! round for each question.
//!
//! A question is sent with the hash of the key before any registration. A server that has the key
//! already needs no second registration; another server asks for it.

use super::{ATTEMPTS, Answered, Mode, Remote, TableInfo, Unread, get, good, post, refused};
use std::collections::BTreeMap;
use std::sync::Arc;
use tobari_client::Fingerprint;
use tobari_client::{HttpConnection, HttpReply};
use tobari_command::output::{Failure, say};
use tobari_command::randomness;
use tobari_lattice::params::{LatticeParameters, NamedSet, Plaintext};
use tobari_lattice::rlwe::SecretKey;
use tobari_search::client::MatchResult;
use tobari_search::hidden::arrangement;
use tobari_search::hidden::cells::Coordinate;
use tobari_search::hidden::client::Asker;
use tobari_search::hidden::numbers::{Kind, Numbers, Part};
use tobari_search::hidden::program::Layout;
use tobari_search::hidden::question::{HiddenLabel, HiddenPrepared, Target};
use tobari_search::oprf::Revision;
use tobari_search::server::Granularity;
use tobari_search::table::{CatalogueContent, Question};
use tokio::sync::Mutex;

/// The kind of questions, their part of the table, and the name of the key of labels.
type Seen = (Kind, Part, Option<Revision>);

/// The client's state for such questions to one server.
#[derive(Default)]
pub(super) struct State {
    key: Mutex<Option<Arc<Key>>>,
    /// The server's arrangements, by kind and part, and by the key of labels.
    targets: Mutex<BTreeMap<Seen, Arc<Target>>>,
}

/// A question with its place hidden.
#[derive(Clone, Copy, Debug)]
pub struct HiddenQuestion<'a> {
    /// The kind of the question, which the server sees.
    pub kind: Kind,
    /// The cell of the place, which the server sees; none to hide the place in the whole table.
    pub cell: Option<&'a Coordinate>,
    /// The question itself. None asks a question without meaning, which looks the same to the
    /// server.
    pub question: Option<Question<'a>>,
}

/// A key, and its registration.
struct Key {
    generation: u64,
    secret: SecretKey,
    hash: String,
    registration: Vec<u8>,
    /// The number of its registrations.
    registered: Mutex<u64>,
}

/// An answer that is not decrypted.
pub(super) struct Answer {
    key: Arc<Key>,
    target: Arc<Target>,
    body: Vec<u8>,
    prepared: HiddenPrepared,
}

impl Answer {
    pub(super) fn bytes(&self) -> usize {
        self.body.len()
    }

    pub(super) fn read(&self) -> Result<MatchResult, Failure> {
        if !self.prepared.is_meant() {
            return Ok(MatchResult::Absent);
        }
        let asker = Asker::new(&self.key.secret)?;
        let found = self.target.read(&asker, &self.body)?;
        Ok(self.prepared.uncover(found, &self.target, asker.modulus()))
    }
}

fn set() -> Result<NamedSet, Failure> {
    arrangement::set().ok_or_else(|| Failure::Work("expected parameters for searches, found none".to_owned()))
}

impl Remote {
    /// Asks for a window with its place hidden in its cell, and reads the answer. Use it only if no
    /// later message to the server could wait for the reading.
    pub async fn ask_in_cell(
        &self,
        connection: &mut HttpConnection,
        question: &Question<'_>,
        granularity: Granularity,
    ) -> Result<MatchResult, Failure> {
        let told = self.told();
        let start = if let Question::Window { start, .. } = question { *start } else { 0 };
        let cell = told.catalogue.sites().and_then(|sites| Coordinate::of(sites, start));
        let asked = HiddenQuestion { kind: Kind::of(question), cell: cell.as_ref(), question: Some(*question) };
        let unread = self.fetch_hidden(connection, &asked, granularity).await?;
        tokio::task::block_in_place(|| unread.read())
    }

    /// Asks a question with its place hidden, and returns the answer without decrypting it.
    pub(crate) async fn fetch_hidden(
        &self,
        connection: &mut HttpConnection,
        asked: &HiddenQuestion<'_>,
        granularity: Granularity,
    ) -> Result<Unread, Failure> {
        let (mut last, mut label) = (None, None);
        for _ in 0..ATTEMPTS {
            let told = self.told();
            let mut prepared = HiddenPrepared::new(&told.catalogue, asked.kind, asked.cell, asked.question.as_ref())?;
            let key = self.hidden_key().await?;
            if let Mode::Labels(_) = told.mode {
                let seen = *key.registered.lock().await;
                let label = match &label {
                    Some(label) => label,
                    None => match self.hidden_label(connection, &prepared, asked).await? {
                        Ok(found) => label.insert(found),
                        Err(reply) => {
                            match (reply.status, reply.header("tobari-refusal")) {
                                (409, Some("key")) => self.register_hidden(connection, &key, seen).await?,
                                (404, Some("table")) | (409, Some("mode")) => {
                                    self.look_again(connection, &told).await?;
                                }
                                _ => return Err(refused(&reply)),
                            }
                            last = Some(refused(&reply));
                            continue;
                        }
                    },
                };
                prepared = prepared.with_label(label, Asker::new(&key.secret)?.modulus());
            }
            let target = self.target(connection, &told, &prepared, key.secret.parameters()).await?;
            let seen = *key.registered.lock().await;
            let query = tokio::task::block_in_place(|| {
                let (asker, rng) = (Asker::new(&key.secret)?, &mut randomness::generator()?);
                Ok::<_, Failure>(prepared.query(&asker, &target, (self.client, granularity), rng)?)
            })?;
            let mut headers = self.headers.clone();
            headers.push(("tobari-key", key.hash.clone()));
            let reply = connection.send_again_where_busy(post("/search/v1/hidden/queries", headers, query)).await?;
            match (reply.status, reply.header("tobari-refusal")) {
                (200, _) => {
                    let body = reply.body.to_vec();
                    return Ok(Unread(Answered::Hidden(Answer { key, target, body, prepared })));
                }
                (409, Some("uses")) => self.another_hidden(key.generation).await?,
                (409, Some("key")) => self.register_hidden(connection, &key, seen).await?,
                (404, Some("table")) => {
                    self.hidden.targets.lock().await.remove(&prepared.shown());
                    self.look_again(connection, &told).await?;
                    // the table may have a new key of labels
                    label = None;
                }
                _ => return Err(refused(&reply)),
            }
            last = Some(refused(&reply));
        }
        Err(last.unwrap_or_else(|| Failure::Work("expected an answer, found none".to_owned())))
    }

    /// Has the input of a question evaluated; or returns the server's other reply.
    async fn hidden_label(
        &self,
        connection: &mut HttpConnection,
        prepared: &HiddenPrepared,
        asked: &HiddenQuestion<'_>,
    ) -> Result<Result<HiddenLabel, HttpReply>, Failure> {
        let evaluation = tokio::task::block_in_place(|| {
            Ok::<_, Failure>(prepared.evaluation(
                self.client,
                asked.question.as_ref(),
                &mut randomness::generator()?,
            )?)
        })?;
        let request = post("/search/v1/evaluations", self.headers.clone(), evaluation.request().to_vec());
        let reply = connection.send_again_where_busy(request).await?;
        if reply.status != 200 {
            return Ok(Err(reply));
        }
        Ok(Ok(tokio::task::block_in_place(|| evaluation.finish(&reply.body))?))
    }

    /// The server's arrangement for such questions. Its numbers must be those of the catalogue.
    async fn target(
        &self,
        connection: &mut HttpConnection,
        told: &TableInfo,
        prepared: &HiddenPrepared,
        parameters: &LatticeParameters,
    ) -> Result<Arc<Target>, Failure> {
        let mut targets = self.hidden.targets.lock().await;
        let of = prepared.shown();
        if let Some(target) = targets.get(&of) {
            return Ok(Arc::clone(target));
        }
        let table: String = told.catalogue.name.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = format!("/search/v1/tables/{table}/hidden/{}", prepared.path());
        let reply = good(connection.send_again_where_busy(get(&path, &self.headers)).await?)?;
        let target = prepared.target(&reply.body, parameters)?;
        if let Some(bits) = false_positives(told, prepared.numbers(), target.layout(), parameters) {
            say(format!(
                "an absent item counts as present with a probability of at most 2^{bits:.0}, because fingerprints are compared"
            ));
        }
        let target = Arc::new(target);
        targets.insert(of, Arc::clone(&target));
        Ok(target)
    }

    /// The key. It is registered when the server asks for it.
    async fn hidden_key(&self) -> Result<Arc<Key>, Failure> {
        let mut key = self.hidden.key.lock().await;
        if let Some(key) = &*key {
            return Ok(Arc::clone(key));
        }
        let set = set()?;
        let generation = match self.kept().get(set.name) {
            Some(generation) => *generation,
            None => self.draw(set.name)?,
        };
        let (secret, registration) = tokio::task::block_in_place(|| self.identity.hidden_key(&set, generation))?;
        let hash = Fingerprint::of(&registration).to_string();
        let new = Arc::new(Key { generation, secret, hash, registration, registered: Mutex::new(0) });
        *key = Some(Arc::clone(&new));
        Ok(new)
    }

    /// Registers a key, unless the number of its registrations is no longer `seen`: then another
    /// question has registered it.
    async fn register_hidden(&self, connection: &mut HttpConnection, key: &Key, seen: u64) -> Result<(), Failure> {
        let mut registered = key.registered.lock().await;
        if *registered == seen {
            let request = post("/search/v1/hidden/keys", self.headers.clone(), key.registration.clone());
            good(connection.send_again_where_busy(request).await?)?;
            *registered += 1;
        }
        Ok(())
    }

    /// Draws another generation than this one, unless there is one already.
    async fn another_hidden(&self, used: u64) -> Result<(), Failure> {
        let mut key = self.hidden.key.lock().await;
        if key.as_ref().is_some_and(|key| key.generation == used) {
            *key = None;
            self.draw(set()?.name)?;
        }
        Ok(())
    }
}

/// `log2` of a bound on the probability of a false match, by the numbers and by the layout.
fn false_positives(
    told: &TableInfo,
    numbers: &Numbers,
    layout: &Layout,
    parameters: &LatticeParameters,
) -> Option<f64> {
    let Plaintext::Integers(t) = parameters.plaintext() else { return None };
    let slots = parameters.degree();
    let entries = match &told.catalogue.content {
        CatalogueContent::Keys { entries, .. } => *entries,
        _ => (layout.blocks() * layout.pages() * slots) as u64,
    };
    let both = [numbers.false_positives(entries), layout.false_positives(slots, &t)];
    let sum = both.into_iter().flatten().map(f64::exp2).sum::<f64>();
    (sum > 0.0).then(|| sum.log2())
}
