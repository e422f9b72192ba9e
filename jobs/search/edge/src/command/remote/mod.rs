//! A server of a client: its tables, the client's registered key, and encrypted questions.
//!
//! The client uses a key as often as the server allows, and then draws another generation. The
//! cache folder keeps the generation's number; if the number is lost, the client draws another one.
//! The cache folder also keeps a table's public information under its tag, which is its hash.

mod hidden;

pub use hidden::HiddenQuestion;

use super::arguments::RemoteArguments;
use super::secret;
use chacha20::rand_core::Rng;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tobari_client::Fingerprint;
use tobari_client::{ClientTls, HttpClient, HttpConnection, HttpReply, HttpRequest};
use tobari_command::output::Failure;
use tobari_command::randomness;
use tobari_command::replies::{good, refused, shown};
use tobari_host::{cache, files};
use tobari_lattice::params::NamedSet;
use tobari_lattice::rlwe::SecretKey;
use tobari_search::client::{Asker, MatchResult};
use tobari_search::fullness::Fullness;
use tobari_search::hidden::numbers::Kind;
use tobari_search::identity::Identity;
use tobari_search::messages::CLIENT_BYTES;
use tobari_search::question::labelled::{Labels, PreparedLabelled};
use tobari_search::question::{Prepared, Wish};
use tobari_search::table::{Catalogue, Question};
use tokio::sync::Mutex;
use zeroize::Zeroizing;

/// Time limit for a reply: large tables take long.
const PATIENCE: Duration = Duration::from_secs(300);
/// The most bytes of a reply.
const MOST: usize = 1 << 28;
/// The number of times that one question is sent, with another key or to a table that was replaced.
const ATTEMPTS: usize = 12;

/// A table's public information.
pub(crate) struct TableInfo {
    pub(crate) catalogue: Catalogue,
    pub(crate) fullness: Fullness,
    tag: String,
    pub(crate) mode: Mode,
    /// The kinds of questions that are asked with the place hidden in the whole table.
    pub(crate) hidden: Vec<Kind>,
    /// Whether questions with the place hidden in its cell are answered, for any number of sites.
    pub(crate) cells: bool,
}

/// The mode of questions to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// By public numbers: for clients that follow the protocol.
    Plain,
    /// With labels. The server makes at most so many for a question.
    Labels(u64),
}

#[cfg(test)]
impl TableInfo {
    /// A panel with these sites, whose places hide in cells.
    pub(crate) fn of_sites(sites: tobari_search::table::Sites) -> Self {
        let content = tobari_search::table::CatalogueContent::Panel { sites, haplotypes: 4 };
        let (label, assembly) = (String::new(), None);
        let catalogue = Catalogue { name: [0; 32], revision: 1, least: 1, label, assembly, content };
        let (tag, mode, hidden) = (String::new(), Mode::Plain, Vec::new());
        Self { catalogue, fullness: Fullness::Keys(1), tag, mode, hidden, cells: true }
    }
}

/// A question, prepared for a table's mode.
enum Ready {
    Plain(Prepared),
    Labels(PreparedLabelled),
}

/// The wanted table, its mode, and the use of the cache.
#[derive(Clone)]
pub struct Wanted {
    /// The table's name, from the command line.
    pub table: Option<String>,
    /// Whether the table must have labels.
    pub labels: bool,
    /// Whether the table's public information and the list of registered keys are kept for the next
    /// command.
    pub keep: bool,
}

/// A registered key.
struct Active {
    generation: u64,
    secret: SecretKey,
    hash: String,
}

/// A server.
pub struct Remote {
    pub(crate) url: String,
    told: RwLock<Arc<TableInfo>>,
    wanted: Wanted,
    http: HttpClient,
    headers: Vec<(&'static str, String)>,
    client: [u8; CLIENT_BYTES],
    identity: Arc<Identity>,
    keys: Mutex<BTreeMap<&'static str, Arc<Active>>>,
    generations: String,
    /// The state for questions with the place hidden.
    hidden: hidden::State,
}

#[derive(Deserialize)]
struct List {
    client: Option<String>,
    /// The most labels of a question.
    labels: u64,
    tables: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    name: String,
    label: String,
    mode: String,
    tag: String,
    #[serde(default)]
    hidden: Vec<String>,
    #[serde(default)]
    cells: bool,
}

/// All servers of a command, each connected and with its table known; or the reason why not.
pub(crate) async fn all(arguments: &RemoteArguments) -> Result<Vec<Result<Remote, Failure>>, Failure> {
    let identity = Arc::new(secret::read(&arguments.key)?);
    let wanted = Wanted { table: arguments.table.clone(), labels: arguments.malicious, keep: true };
    let count = arguments.servers.len();
    let mut tokens: Vec<Zeroizing<String>> = arguments.tokens.iter().cloned().map(Zeroizing::new).collect();
    for path in &arguments.token_files {
        let bytes = Zeroizing::new(files::read_bounded(path, 4096)?);
        let text = std::str::from_utf8(&bytes).map(str::trim).ok().filter(|text| !text.is_empty());
        let text = text.ok_or_else(|| Failure::Work(format!("{}: expected a token", path.display())))?;
        tokens.push(Zeroizing::new(text.to_owned()));
    }
    for (what, found) in [("token", tokens.len()), ("fingerprint", arguments.tls_fingerprints.len())] {
        if found > 1 && found != count {
            return Err(Failure::Call(format!(
                "give one {what} for all servers, or {count}, one for each: there are {found}"
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
        let remote = Remote::reach(url, &tls, token, &identity, &wanted).await;
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
    /// Connects to a server and loads its table. The table's public information and the list of
    /// registered keys are kept for the next command, if wanted.
    pub async fn reach(
        url: &str,
        tls: &ClientTls,
        token: Option<&str>,
        identity: &Arc<Identity>,
        wanted: &Wanted,
    ) -> Result<Self, Failure> {
        let http = HttpClient::new(url, tls)?;
        let own = identity.name();
        let name: String = own.iter().map(|byte| format!("{byte:02x}")).collect();
        let headers = vec![match token {
            Some(token) => ("authorization", format!("Bearer {token}")),
            None => ("tobari-client", name),
        }];
        let (client, told) = look(&mut http.connection(), &headers, wanted).await?;
        let (client, told) = (client.unwrap_or(own), RwLock::new(Arc::new(told)));
        // the name hides, by its hash, which key is registered at which server, and differs for
        // other key files
        let place = [url.as_bytes(), &client, &own].concat();
        let generations = format!("search-keys-{}", &Fingerprint::of(&place).to_string()[..32]);
        let (keys, identity) = (Mutex::default(), Arc::clone(identity));
        let (url, wanted) = (url.to_owned(), wanted.clone());
        let hidden = hidden::State::default();
        Ok(Self { url, told, wanted, http, headers, client, identity, keys, generations, hidden })
    }

    /// A new connection, for questions one after another.
    pub fn connection(&self) -> HttpConnection {
        self.http.connection()
    }

    /// Asks a question, and reads the answer. Use it only if no later message to the server could
    /// wait for the reading.
    pub async fn ask(
        &self,
        connection: &mut HttpConnection,
        question: &Question<'_>,
        wish: Wish,
    ) -> Result<MatchResult, Failure> {
        let unread = self.fetch(connection, question, wish).await?;
        tokio::task::block_in_place(|| unread.read())
    }

    /// Asks a question, and returns the answer without decrypting it.
    pub(crate) async fn fetch(
        &self,
        connection: &mut HttpConnection,
        question: &Question<'_>,
        wish: Wish,
    ) -> Result<Unread, Failure> {
        // evaluations were paid, so they are kept as long as the table has the same key
        let (mut last, mut labels) = (None, None);
        for _ in 0..ATTEMPTS {
            let told = self.told();
            let ready = Ready::new(&told, question, wish)?;
            let key = self.key(connection, &ready.set()).await?;
            if let (Ready::Labels(prepared), None) = (&ready, &labels) {
                match self.evaluate(connection, prepared).await? {
                    Ok(evaluated) => labels = Some(evaluated),
                    Err(reply) => {
                        self.cope(connection, &reply, &told, (&ready, &key)).await?;
                        last = Some(refused(&reply));
                        continue;
                    }
                }
            }
            let query = tokio::task::block_in_place(|| ready.query(&key, self.client, labels.as_ref()))?;
            let mut headers = self.headers.clone();
            headers.extend([("if-match", told.tag.clone()), ("tobari-key", key.hash.clone())]);
            let reply = connection.send_again_where_busy(post("/search/v1/queries", headers, query)).await?;
            if reply.status == 200 {
                return Ok(Unread(Answered::Open { ready: Box::new(ready), key, labels, body: reply.body.to_vec() }));
            }
            self.cope(connection, &reply, &told, (&ready, &key)).await?;
            if matches!(reply.header("tobari-refusal"), Some("labels" | "mode")) {
                labels = None;
            }
            last = Some(refused(&reply));
        }
        Err(last.unwrap_or_else(|| Failure::Work("expected an answer, found none".to_owned())))
    }

    /// Has a question's inputs evaluated; or returns the server's other reply.
    async fn evaluate(
        &self,
        connection: &mut HttpConnection,
        prepared: &PreparedLabelled,
    ) -> Result<Result<Labels, HttpReply>, Failure> {
        let (request, blinding) = tokio::task::block_in_place(|| {
            Ok::<_, Failure>(prepared.evaluation(self.client, &mut randomness::generator()?)?)
        })?;
        let reply =
            connection.send_again_where_busy(post("/search/v1/evaluations", self.headers.clone(), request)).await?;
        if reply.status != 200 {
            return Ok(Err(reply));
        }
        Ok(Ok(tokio::task::block_in_place(|| prepared.labels(blinding, &reply.body))?))
    }

    /// Reacts to a refusal, so that the question can be asked again; fails if nothing helps.
    async fn cope(
        &self,
        connection: &mut HttpConnection,
        reply: &HttpReply,
        told: &TableInfo,
        (ready, key): (&Ready, &Active),
    ) -> Result<(), Failure> {
        match (reply.status, reply.header("tobari-refusal")) {
            (409, Some("uses")) => self.another(ready.set().name, key.generation).await?,
            (409, Some("key")) => drop(self.keys.lock().await.remove(ready.set().name)),
            (412, Some("revision")) | (404, Some("table")) | (409, Some("mode")) => {
                self.look_again(connection, told).await?;
            }
            // labels of an earlier key: the next round evaluates again
            (412, Some("labels")) => {}
            _ => return Err(refused(reply)),
        }
        Ok(())
    }

    /// The table's present public information.
    pub(crate) fn told(&self) -> Arc<TableInfo> {
        Arc::clone(&self.told.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Loads a table that was replaced. It must have all earlier sites under their earlier numbers,
    /// because **all** questions of this process use these numbers. So the reaction to a new table
    /// does not depend on the question, either.
    async fn look_again(&self, connection: &mut HttpConnection, before: &TableInfo) -> Result<(), Failure> {
        let (_, told) = look(connection, &self.headers, &self.wanted).await?;
        if !told.catalogue.has_grown_from(&before.catalogue) {
            let text =
                "the server has replaced its table, and sites of the earlier table changed: run the command again";
            return Err(Failure::Work(text.to_owned()));
        }
        *self.told.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(told);
        Ok(())
    }

    /// The registered key of a set.
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
        good(connection.send_again_where_busy(post(&path, self.headers.clone(), registration)).await?)?;
        let active = Arc::new(Active { generation, secret, hash });
        keys.insert(set.name, Arc::clone(&active));
        Ok(active)
    }

    /// Draws another generation than this one, unless there is one already.
    async fn another(&self, set: &'static str, used: u64) -> Result<(), Failure> {
        let mut keys = self.keys.lock().await;
        if keys.get(set).is_some_and(|key| key.generation == used) {
            keys.remove(set);
            self.draw(set)?;
        }
        Ok(())
    }

    fn kept(&self) -> BTreeMap<String, u64> {
        let bytes = if self.wanted.keep { cache::read(&self.generations) } else { None };
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    fn draw(&self, set: &str) -> Result<u64, Failure> {
        let generation = randomness::generator()?.next_u64();
        let mut kept = self.kept();
        kept.insert(set.to_owned(), generation);
        if self.wanted.keep {
            cache::write(&self.generations, &serde_json::to_vec(&kept)?)?;
        }
        Ok(generation)
    }
}

/// An answer that is not decrypted. **The time of the next message must not show the server whether
/// the answer decrypts, nor how long that takes.** Read the answer after the last message to the
/// server, or on another thread.
pub(crate) struct Unread(Answered);

enum Answered {
    Open { ready: Box<Ready>, key: Arc<Active>, labels: Option<Labels>, body: Vec<u8> },
    Hidden(hidden::Answer),
}

impl Unread {
    /// The answer's length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match &self.0 {
            Answered::Open { body, .. } => body.len(),
            Answered::Hidden(answer) => answer.bytes(),
        }
    }

    /// Decrypts and reads the answer.
    pub(crate) fn read(&self) -> Result<MatchResult, Failure> {
        match &self.0 {
            Answered::Open { ready, key, labels, body } => ready.read(key, labels.as_ref(), body),
            Answered::Hidden(answer) => answer.read(),
        }
    }
}

impl Ready {
    fn new(told: &TableInfo, question: &Question<'_>, wish: Wish) -> Result<Self, Failure> {
        let of = (&told.catalogue, &told.fullness);
        Ok(match told.mode {
            Mode::Plain => Self::Plain(Prepared::new(of, question, wish)?),
            Mode::Labels(most) => {
                let prepared = PreparedLabelled::new(of, question, wish)?;
                // check before paying for anything
                prepared.check(most)?;
                Self::Labels(prepared)
            }
        })
    }

    fn set(&self) -> NamedSet {
        match self {
            Self::Plain(prepared) => prepared.set(),
            Self::Labels(prepared) => prepared.set(),
        }
    }

    fn query(&self, key: &Active, client: [u8; CLIENT_BYTES], labels: Option<&Labels>) -> Result<Vec<u8>, Failure> {
        let (asker, mut rng) = (Asker::new(&key.secret)?, randomness::generator()?);
        Ok(match self {
            Self::Plain(prepared) => prepared.query(&asker, client, &mut rng)?,
            Self::Labels(prepared) => prepared.query(&asker, client, labels.ok_or_else(unlabelled)?, &mut rng)?,
        })
    }

    fn read(&self, key: &Active, labels: Option<&Labels>, answer: &[u8]) -> Result<MatchResult, Failure> {
        let asker = Asker::new(&key.secret)?;
        Ok(match self {
            Self::Plain(prepared) => prepared.read(&asker, answer)?,
            Self::Labels(prepared) => prepared.read(&asker, labels.ok_or_else(unlabelled)?, answer)?,
        })
    }
}

/// A fault of this program.
fn unlabelled() -> Failure {
    Failure::Work("expected labels of the question, found none".to_owned())
}

/// The wanted table.
fn chosen<'a>(tables: &'a [Listed], wanted: Option<&str>) -> Result<&'a Listed, Failure> {
    let fits = |table: &&Listed| {
        wanted.is_none_or(|wanted| table.label == wanted || table.name.starts_with(&wanted.to_ascii_lowercase()))
    };
    let mut fitting = tables.iter().filter(fits);
    match (fitting.next(), fitting.next()) {
        (Some(table), None) => Ok(table),
        (found, _) => {
            let what = match (found, wanted) {
                (None, None) => return Err(Failure::Work("the server has no table".to_owned())),
                (None, Some(_)) => "none of the server's tables has this name",
                (Some(_), _) => "several tables fit",
            };
            let named = |table: &Listed| shown(&format!("{} ({})", table.name, table.label), 160);
            let names: Vec<String> = tables.iter().map(named).collect();
            Err(Failure::Work(format!("{what}: choose one with --table: {}", names.join(", "))))
        }
    }
}

/// The client's name at the server, and the public information of the wanted table.
async fn look(
    connection: &mut HttpConnection,
    headers: &[(&'static str, String)],
    wanted: &Wanted,
) -> Result<(Option<[u8; CLIENT_BYTES]>, TableInfo), Failure> {
    let reply = good(connection.send_again_where_busy(get("/search/v1", headers)).await?)?;
    let list: List = serde_json::from_slice(&reply.body)?;
    let listed = chosen(&list.tables, wanted.table.as_deref())?;
    let mode = match listed.mode.as_str() {
        "plain" if wanted.labels => {
            let text = "the server does not serve this table in mode --malicious: ask without --malicious, or ask another server";
            return Err(Failure::Work(text.to_owned()));
        }
        "plain" => Mode::Plain,
        "labels" => Mode::Labels(list.labels),
        _ => return Err(Failure::Work("expected a table in the mode plain or labels, found another".to_owned())),
    };
    let told = told(connection, headers, listed, (mode, wanted.keep)).await?;
    Ok((list.client.as_deref().and_then(unhex), told))
}

/// A table's public information, from the cache or from the server.
async fn told(
    connection: &mut HttpConnection,
    headers: &[(&'static str, String)],
    listed: &Listed,
    (mode, keep): (Mode, bool),
) -> Result<TableInfo, Failure> {
    let malformed = |what: &str| Failure::Work(format!("the server's description of the table is malformed: {what}"));
    let plain = |text: &str| text.len() <= 128 && text.chars().all(|c| c.is_ascii_hexdigit());
    let tag = listed.tag.trim_matches('"');
    if !plain(tag) || !plain(&listed.name) {
        return Err(malformed("expected a name and a tag in hexadecimal digits"));
    }
    let kept = cache::folder().filter(|_| keep).map(|folder| folder.join(format!("search-table-{tag}")));
    let matches = |body: &[u8]| Fingerprint::of(body).to_string()[..32] == *tag;
    let known = kept.as_ref().and_then(|path| files::read_bounded(path, MOST as u64).ok());
    let body = match known.filter(|body| matches(body)) {
        Some(body) => body,
        None => {
            let path = format!("/search/v1/tables/{}", listed.name);
            let reply = good(connection.send_again_where_busy(get(&path, headers)).await?)?;
            if !matches(&reply.body) {
                let text = "the server changed its table just now: run the command again";
                return Err(Failure::Work(text.to_owned()));
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
    let hidden = listed.hidden.iter().filter_map(|kind| kind.parse().ok()).collect();
    Ok(TableInfo { catalogue, fullness, tag: listed.tag.clone(), mode, hidden, cells: listed.cells })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    /// Every byte of a server's list is changed in turn. The list then chooses one table or none,
    /// and no error message controls the terminal.
    #[test]
    fn whatever_a_server_lists_is_chosen_from_or_refused_in_plain_words() {
        let list = r#"{"client":"00ff","labels":7,"tables":[{"name":"a1","label":"x\u001b[31m","mode":"plain","tag":"\"b2\""},{"name":"a2","label":"y","mode":"labels","tag":"c3"}]}"#;
        let (mut read, mut refused) = (0, 0);
        for at in 0..list.len() {
            for other in [0, b'"', b'\\', b'}', b'9', b'a', 0x1b, 0xff] {
                let mut bytes = list.as_bytes().to_vec();
                bytes[at] = other;
                let Ok(list) = serde_json::from_slice::<List>(&bytes) else { continue };
                read += 1;
                let _: Option<[u8; CLIENT_BYTES]> = list.client.as_deref().and_then(unhex);
                for wanted in [None, Some("a"), Some("a1"), Some("y"), Some("none")] {
                    match chosen(&list.tables, wanted) {
                        Ok(table) => assert!(list.tables.iter().any(|listed| std::ptr::eq(listed, table))),
                        Err(error) => {
                            refused += 1;
                            assert!(!error.to_string().chars().any(char::is_control), "{error}");
                        }
                    }
                }
            }
        }
        assert!(read > 100 && refused > read, "{read} read, {refused} refused");
    }
}
