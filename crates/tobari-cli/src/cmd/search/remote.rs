//! A server that is asked: its tables, the key that is registered there, and questions under encryption.
//!
//! A key is used as often as the server says; then another generation is drawn, whose number is kept in the cache folder. Where the number is lost, another
//! one is drawn. What is told of a table is kept there under its tag, which is its hash.

use super::arguments::RemoteArguments;
use super::secret;
use crate::output::Failure;
use crate::randomness;
use chacha20::rand_core::Rng;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tobari_apps::search::client::{Asker, Found};
use tobari_apps::search::fullness::Fullness;
use tobari_apps::search::identity::Identity;
use tobari_apps::search::messages::CLIENT_BYTES;
use tobari_apps::search::question::{Prepared, Wish};
use tobari_apps::search::table::{Catalogue, Question};
use tobari_core::params::NamedSet;
use tobari_core::rlwe::SecretKey;
use tobari_host::{cache, files};
use tobari_server::Fingerprint;
use tobari_server::connect::{ClientTls, HttpClient, HttpConnection, HttpReply, HttpRequest};
use tokio::sync::Mutex;
use zeroize::Zeroizing;

/// Time for a reply: large tables take long.
const PATIENCE: Duration = Duration::from_secs(300);
/// Bytes of a reply at most.
const MOST: usize = 1 << 28;
/// How often one question is sent, with another key or after a pause.
const ATTEMPTS: usize = 12;

/// What is told of a table.
pub(crate) struct Told {
    pub(crate) catalogue: Catalogue,
    pub(crate) fullness: Fullness,
    tag: String,
}

/// A key that is registered.
struct Active {
    generation: u64,
    secret: SecretKey,
    hash: String,
}

/// A server.
pub(crate) struct Remote {
    pub(crate) url: String,
    told: RwLock<Arc<Told>>,
    /// As the command line names it.
    table: Option<String>,
    http: HttpClient,
    headers: Vec<(&'static str, String)>,
    client: [u8; CLIENT_BYTES],
    identity: Arc<Identity>,
    keys: Mutex<BTreeMap<&'static str, Arc<Active>>>,
    generations: String,
    /// Whether what is worth it is kept for the next command.
    keep: bool,
}

#[derive(Deserialize)]
struct List {
    client: Option<String>,
    tables: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    name: String,
    label: String,
    tag: String,
}

/// All servers of a command, each reached and its table known; or why not.
pub(crate) async fn all(arguments: &RemoteArguments) -> Result<Vec<Result<Remote, Failure>>, Failure> {
    let identity = Arc::new(secret::read(&arguments.key)?);
    let count = arguments.servers.len();
    let mut tokens: Vec<Zeroizing<String>> = arguments.tokens.iter().cloned().map(Zeroizing::new).collect();
    for path in &arguments.token_files {
        let bytes = Zeroizing::new(files::read_bounded(path, 4096)?);
        let text = std::str::from_utf8(&bytes).map(str::trim).ok().filter(|text| !text.is_empty());
        let text = text.ok_or_else(|| Failure::Work(format!("{}: expected a token", path.display())))?;
        tokens.push(Zeroizing::new(text.to_owned()));
    }
    for (what, found) in [("tokens", tokens.len()), ("fingerprints", arguments.tls_fingerprints.len())] {
        if found > 1 && found != count {
            return Err(Failure::Call(format!(
                "expected one for all or {count} {what}, one for each server, found {found}"
            )));
        }
    }
    let mut remotes = Vec::with_capacity(count);
    for (index, url) in arguments.servers.iter().enumerate() {
        let token = tokens.get(index).or(tokens.first()).map(|token| token.as_str());
        let pins = &arguments.tls_fingerprints;
        let tls = match (pins.get(index).or(pins.first()), &arguments.tls_ca) {
            (Some(fingerprint), _) => ClientTls::Pinned(*fingerprint),
            (None, Some(file)) => ClientTls::CaFile(file.clone()),
            (None, None) => ClientTls::System,
        };
        let remote = Remote::reach(url, &tls, token, &identity, arguments.table.as_deref(), true).await;
        remotes.push(remote.map_err(|failure| Failure::Work(format!("{url}: {failure}"))));
    }
    Ok(remotes)
}

fn get(path: &str, headers: &[(&'static str, String)]) -> HttpRequest {
    HttpRequest { body: None, path: path.to_owned(), headers: headers.to_vec(), most: MOST, patience: PATIENCE }
}

fn post(path: &str, headers: Vec<(&'static str, String)>, body: Vec<u8>) -> HttpRequest {
    HttpRequest { body: Some(body.into()), path: path.to_owned(), headers, most: MOST, patience: PATIENCE }
}

/// What a server said that is no answer.
fn refused(reply: &HttpReply) -> Failure {
    let text: String = String::from_utf8_lossy(&reply.body).chars().filter(|c| !c.is_control()).take(300).collect();
    Failure::Work(format!("refused by the server ({}): {text}", reply.status))
}

fn good(reply: HttpReply) -> Result<HttpReply, Failure> {
    if (200..300).contains(&reply.status) { Ok(reply) } else { Err(refused(&reply)) }
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut out = [0; N];
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    for (i, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(out)
}

impl Remote {
    /// Reaches a server and learns about its table. What is told of it and which keys are registered is kept for the next command if that is wanted.
    pub(crate) async fn reach(
        url: &str,
        tls: &ClientTls,
        token: Option<&str>,
        identity: &Arc<Identity>,
        table: Option<&str>,
        keep: bool,
    ) -> Result<Self, Failure> {
        let http = HttpClient::new(url, tls)?;
        let own = identity.name();
        let name: String = own.iter().map(|byte| format!("{byte:02x}")).collect();
        let headers = vec![match token {
            Some(token) => ("authorization", format!("Bearer {token}")),
            None => ("tobari-client", name),
        }];
        let (client, told) = look(&mut http.connection(), &headers, table, keep).await?;
        let (client, told) = (client.unwrap_or(own), RwLock::new(Arc::new(told)));
        // which key was registered where says nothing by its hash, and has to be told from those of other files
        let place = [url.as_bytes(), &client, &own].concat();
        let generations = format!("search-keys-{}", &Fingerprint::of(&place).to_string()[..32]);
        let (keys, identity) = (Mutex::default(), Arc::clone(identity));
        let (url, table) = (url.to_owned(), table.map(str::to_owned));
        Ok(Self { url, told, table, http, headers, client, identity, keys, generations, keep })
    }

    /// A connection of its own, for questions one after the other.
    pub(crate) fn connection(&self) -> HttpConnection {
        self.http.connection()
    }

    /// Asks a question.
    pub(crate) async fn ask(
        &self,
        connection: &mut HttpConnection,
        question: &Question<'_>,
        wish: Wish,
    ) -> Result<Found, Failure> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let told = self.told();
            let prepared = Prepared::new((&told.catalogue, &told.fullness), question, wish, &self.identity.decoys())?;
            let key = self.key(connection, &prepared.set()).await?;
            let query = tokio::task::block_in_place(|| {
                Ok::<_, Failure>(prepared.query(
                    &Asker::new(&key.secret)?,
                    self.client,
                    &mut randomness::generator()?,
                )?)
            })?;
            let mut headers = self.headers.clone();
            headers.extend([("if-match", told.tag.clone()), ("tobari-key", key.hash.clone())]);
            let reply = connection.send(post("/search/v1/queries", headers, query)).await?;
            match (reply.status, reply.header("tobari-refusal")) {
                (200, _) => {
                    return tokio::task::block_in_place(|| Ok(prepared.read(&Asker::new(&key.secret)?, &reply.body)?));
                }
                (409, Some("uses")) => self.another(prepared.set().name, key.generation).await?,
                (409, Some("key")) => drop(self.keys.lock().await.remove(prepared.set().name)),
                (412, Some("revision")) | (404, Some("table")) => self.look_again(connection, &told, question).await?,
                (503, Some("busy")) => {
                    let wait = reply.header("retry-after").and_then(|seconds| seconds.parse().ok()).unwrap_or(1);
                    tokio::time::sleep(Duration::from_secs(wait.clamp(1, 30))).await;
                }
                _ => return Err(refused(&reply)),
            }
            last = Some(refused(&reply));
        }
        Err(last.unwrap_or_else(|| Failure::Work("expected an answer, found none".to_owned())))
    }

    /// What is told of the table now.
    pub(crate) fn told(&self) -> Arc<Told> {
        Arc::clone(&self.told.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Learns what a table has become that was replaced. The sites of the question must be the same, as it goes by their numbers.
    async fn look_again(
        &self,
        connection: &mut HttpConnection,
        before: &Told,
        question: &Question<'_>,
    ) -> Result<(), Failure> {
        let (_, told) = look(connection, &self.headers, self.table.as_deref(), self.keep).await?;
        let window = |told: &Told, start: usize, length: usize| {
            let sites = told.catalogue.sites()?;
            (start..start + length).map(|site| sites.get(site).cloned()).collect::<Option<Vec<_>>>()
        };
        if let Question::Window { start, length, .. } = *question
            && window(before, start, length) != window(&told, start, length)
        {
            let text = "expected the sites of the question in the table that has replaced the one before, found others";
            return Err(Failure::Work(text.to_owned()));
        }
        *self.told.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(told);
        Ok(())
    }

    /// The key of a set, registered.
    async fn key(&self, connection: &mut HttpConnection, set: &NamedSet) -> Result<Arc<Active>, Failure> {
        let mut keys = self.keys.lock().await;
        if let Some(key) = keys.get(set.name) {
            return Ok(Arc::clone(key));
        }
        let generation = match self.kept().get(set.name) {
            Some(generation) => *generation,
            None => self.draw(set.name)?,
        };
        let (secret, registration) = tokio::task::block_in_place(|| self.identity.key(set, generation))?;
        let hash = Fingerprint::of(&registration).to_string();
        let path = format!("/search/v1/keys/{}", set.name);
        good(connection.send(post(&path, self.headers.clone(), registration)).await?)?;
        let active = Arc::new(Active { generation, secret, hash });
        keys.insert(set.name, Arc::clone(&active));
        Ok(active)
    }

    /// Another generation than this one, unless there is one already.
    async fn another(&self, set: &'static str, used: u64) -> Result<(), Failure> {
        let mut keys = self.keys.lock().await;
        if keys.get(set).is_some_and(|key| key.generation == used) {
            keys.remove(set);
            self.draw(set)?;
        }
        Ok(())
    }

    fn kept(&self) -> BTreeMap<String, u64> {
        let bytes = if self.keep { cache::read(&self.generations) } else { None };
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    fn draw(&self, set: &str) -> Result<u64, Failure> {
        let generation = randomness::generator()?.next_u64();
        let mut kept = self.kept();
        kept.insert(set.to_owned(), generation);
        if self.keep {
            cache::write(&self.generations, &serde_json::to_vec(&kept)?)?;
        }
        Ok(generation)
    }
}

/// The table that is meant.
fn chosen<'a>(tables: &'a [Listed], wanted: Option<&str>) -> Result<&'a Listed, Failure> {
    let fits = |table: &&Listed| {
        wanted.is_none_or(|wanted| table.label == wanted || table.name.starts_with(&wanted.to_ascii_lowercase()))
    };
    let mut fitting = tables.iter().filter(fits);
    match (fitting.next(), fitting.next()) {
        (Some(table), None) => Ok(table),
        (found, _) => {
            let what = if found.is_some() { "several" } else { "none" };
            let names: Vec<String> = tables.iter().map(|table| format!("{} ({})", &table.name, table.label)).collect();
            Err(Failure::Work(format!(
                "expected one table that --table names, found {what} among: {}",
                names.join(", ")
            )))
        }
    }
}

/// Who the server says that the client is, and what is told of the table that is meant.
async fn look(
    connection: &mut HttpConnection,
    headers: &[(&'static str, String)],
    table: Option<&str>,
    keep: bool,
) -> Result<(Option<[u8; CLIENT_BYTES]>, Told), Failure> {
    let reply = good(connection.send(get("/search/v1", headers)).await?)?;
    let list: List = serde_json::from_slice(&reply.body)?;
    let told = told(connection, headers, chosen(&list.tables, table)?, keep).await?;
    Ok((list.client.as_deref().and_then(unhex), told))
}

/// What is told of a table: as it was kept, or from the server.
async fn told(
    connection: &mut HttpConnection,
    headers: &[(&'static str, String)],
    listed: &Listed,
    keep: bool,
) -> Result<Told, Failure> {
    let malformed = |what: &str| Failure::Work(format!("expected what is told of a table, found {what}"));
    let plain = |text: &str| text.len() <= 128 && text.chars().all(|c| c.is_ascii_hexdigit());
    let tag = listed.tag.trim_matches('"');
    if !plain(tag) || !plain(&listed.name) {
        return Err(malformed("a name or tag that is none"));
    }
    let kept = cache::folder().filter(|_| keep).map(|folder| folder.join(format!("search-table-{tag}")));
    let matches = |body: &[u8]| Fingerprint::of(body).to_string()[..32] == *tag;
    let known = kept.as_ref().and_then(|path| files::read_bounded(path, MOST as u64).ok());
    let body = match known.filter(|body| matches(body)) {
        Some(body) => body,
        None => {
            let path = format!("/search/v1/tables/{}", listed.name);
            let reply = good(connection.send(get(&path, headers)).await?)?;
            if !matches(&reply.body) {
                return Err(malformed("other bytes than its tag is of: it changed just now"));
            }
            if let Some(path) = &kept {
                let parent = path.parent().map_or(Ok(()), std::fs::create_dir_all);
                parent.map_err(Failure::from).and_then(|()| Ok(files::write_atomically(path, &reply.body)?))?;
            }
            reply.body.to_vec()
        }
    };
    let (length, rest) = body.split_first_chunk().ok_or_else(|| malformed("fewer bytes"))?;
    let length = usize::try_from(u64::from_be_bytes(*length)).ok();
    let parts = length.and_then(|length| rest.split_at_checked(length)).ok_or_else(|| malformed("fewer bytes"))?;
    let (catalogue, fullness) = (Catalogue::decode(parts.0)?, Fullness::decode(parts.1)?);
    Ok(Told { catalogue, fullness, tag: listed.tag.clone() })
}
