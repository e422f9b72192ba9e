//! Questions with the place hidden: the server's layouts, one registration of some 6 MB, and one
//! round for each question.
//!
//! A question is sent with the hash of the key before any registration. A server that has the key
//! already needs no second registration; another server asks for it.

use super::{ATTEMPTS, Answered, Remote, TableInfo, Unread, get, good, post, refused};
use std::collections::BTreeMap;
use std::sync::Arc;
use tobari_client::Fingerprint;
use tobari_client::HttpConnection;
use tobari_command::output::{Failure, say};
use tobari_command::randomness;
use tobari_lattice::params::{LatticeParameters, NamedSet, Plaintext};
use tobari_lattice::rlwe::SecretKey;
use tobari_search::client::MatchResult;
use tobari_search::hidden::arrangement;
use tobari_search::hidden::client::Asker;
use tobari_search::hidden::messages::{self, Query};
use tobari_search::hidden::numbers::{Kind, Numbers};
use tobari_search::hidden::server::Form;
use tobari_search::messages::TABLE_BYTES;
use tobari_search::server::Granularity;
use tobari_search::table::{CatalogueContent, Question};
use tokio::sync::Mutex;

/// The client's state for such questions to one server.
#[derive(Default)]
pub(super) struct State {
    key: Mutex<Option<Arc<Key>>>,
    /// The server's arrangements, by kind.
    targets: Mutex<BTreeMap<Kind, Arc<Target>>>,
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

/// The server's arrangement for one kind of question.
struct Target {
    name: [u8; TABLE_BYTES],
    form: Form,
}

/// An answer that is not decrypted.
pub(super) struct Answer {
    key: Arc<Key>,
    target: Arc<Target>,
    body: Vec<u8>,
}

impl Answer {
    pub(super) fn bytes(&self) -> usize {
        self.body.len()
    }

    pub(super) fn read(&self) -> Result<MatchResult, Failure> {
        let pages = messages::decode_answer(&self.body, self.key.secret.parameters())?;
        Ok(Asker::new(&self.key.secret)?.read(self.target.form.layout(), &pages)?)
    }
}

fn set() -> Result<NamedSet, Failure> {
    arrangement::set().ok_or_else(|| Failure::Work("expected parameters for searches, found none".to_owned()))
}

impl Remote {
    /// Asks a question with its place hidden, and returns the answer without decrypting it.
    pub(crate) async fn fetch_hidden(
        &self,
        connection: &mut HttpConnection,
        question: &Question<'_>,
        granularity: Granularity,
    ) -> Result<Unread, Failure> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let told = self.told();
            let numbers = Numbers::new(&told.catalogue, Kind::of(question))?;
            let number = numbers.of(question)?;
            let key = self.hidden_key().await?;
            let target = self.target(connection, &told, &numbers, key.secret.parameters()).await?;
            let seen = *key.registered.lock().await;
            let query = tokio::task::block_in_place(|| {
                let ciphertext = Asker::new(&key.secret)?.query(&target.form, number, &mut randomness::generator()?)?;
                let (table, client) = (target.name, self.client);
                Ok::<_, Failure>(messages::encode_query(&Query { table, client, granularity, ciphertext }))
            })?;
            let mut headers = self.headers.clone();
            headers.push(("tobari-key", key.hash.clone()));
            let reply = connection.send_again_where_busy(post("/search/v1/hidden/queries", headers, query)).await?;
            match (reply.status, reply.header("tobari-refusal")) {
                (200, _) => {
                    return Ok(Unread(Answered::Hidden(Answer { key, target, body: reply.body.to_vec() })));
                }
                (409, Some("uses")) => self.another_hidden(key.generation).await?,
                (409, Some("key")) => self.register_hidden(connection, &key, seen).await?,
                (404, Some("table")) => {
                    self.hidden.targets.lock().await.remove(&numbers.kind());
                    self.look_again(connection, &told, question).await?;
                }
                _ => return Err(refused(&reply)),
            }
            last = Some(refused(&reply));
        }
        Err(last.unwrap_or_else(|| Failure::Work("expected an answer, found none".to_owned())))
    }

    /// The server's arrangement for such questions. Its numbers must be those of the catalogue.
    async fn target(
        &self,
        connection: &mut HttpConnection,
        told: &TableInfo,
        numbers: &Numbers<'_>,
        parameters: &LatticeParameters,
    ) -> Result<Arc<Target>, Failure> {
        let mut targets = self.hidden.targets.lock().await;
        if let Some(target) = targets.get(&numbers.kind()) {
            return Ok(Arc::clone(target));
        }
        let table: String = told.catalogue.name.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = format!("/search/v1/tables/{table}/hidden/{}", numbers.kind());
        let reply = good(connection.send_again_where_busy(get(&path, &self.headers)).await?)?;
        let layout = messages::decode_layout(&reply.body, parameters)?;
        let form = Form::new(parameters, &layout)?;
        if layout.permutation().last() != numbers.last() || form.expansion().depth() > arrangement::DEPTH {
            let text = "expected a layout for the numbers of the table and for keys of nine steps, found another";
            return Err(Failure::Work(text.to_owned()));
        }
        if let Some(bits) = false_positives(told, numbers, &form, parameters) {
            say(format!(
                "an absent item counts as present with a probability of at most 2^{bits:.0}, because fingerprints are compared"
            ));
        }
        let target = Arc::new(Target { name: numbers.name(&layout), form });
        targets.insert(numbers.kind(), Arc::clone(&target));
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
    numbers: &Numbers<'_>,
    form: &Form,
    parameters: &LatticeParameters,
) -> Option<f64> {
    let Plaintext::Integers(t) = parameters.plaintext() else { return None };
    let layout = form.layout();
    let slots = parameters.degree();
    let entries = match &told.catalogue.content {
        CatalogueContent::Keys { entries, .. } => *entries,
        _ => (layout.blocks() * layout.pages() * slots) as u64,
    };
    let both = [numbers.false_positives(entries), layout.false_positives(slots, &t)];
    let sum = both.into_iter().flatten().map(f64::exp2).sum::<f64>();
    (sum > 0.0).then(|| sum.log2())
}
