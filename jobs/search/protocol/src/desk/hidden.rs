//! Tables that are asked with the place hidden ([`crate::hidden`]): which there are, whose keys are
//! there, and who may still ask.
//!
//! **What is counted.** A question is one test, of the client's budget for all tables. The server
//! cannot know which region it is about: **budgets of regions cannot hold here**. Every page of an
//! answer is a use of the client's key, as a block of an answer is elsewhere.
//!
//! **What is held.** A registration is some 20 MB in memory, so that [`MOST_REGISTRATIONS`] are
//! held, and the one that was longest not used is dropped for another. Which key a client
//! registered, and how often it was used, stays: the same key again is not used anew.

use super::{Client, Refusal, SearchService};
use crate::hidden::arrangement::{self, Arrangement, DEPTH};
use crate::hidden::messages::{self, Query};
use crate::hidden::numbers::Kind;
use crate::hidden::server::{Matcher, Partial, Registration};
use crate::messages::{CLIENT_BYTES, MessageError, TABLE_BYTES};
use crate::program::Shape;
use crate::server::Granularity;
use rand_core::CryptoRng;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Registrations in memory at most.
pub const MOST_REGISTRATIONS: usize = 64;

/// What a desk has for such questions.
#[derive(Default)]
pub(super) struct Hidden {
    matcher: Option<Arc<Matcher>>,
    /// By their own names.
    arrangements: BTreeMap<[u8; TABLE_BYTES], Arc<Arrangement>>,
    /// How often any key was registered or used.
    turn: u64,
}

/// A client's key for such questions.
pub(super) struct HiddenKey {
    hash: [u8; 32],
    pub(super) uses: u32,
    /// When it was used last.
    turn: u64,
    held: Option<Arc<Registration>>,
}

/// A query that was admitted and paid: what is left is to compute, anywhere and at any time.
pub struct AdmittedHidden {
    arrangement: Arc<Arrangement>,
    registration: Arc<Registration>,
    query: Query,
}

/// What was asked, for a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedHidden {
    /// By whom.
    pub client: [u8; CLIENT_BYTES],
    /// Of which table.
    pub table: [u8; TABLE_BYTES],
    /// What was asked, all sites being places among which the true one is.
    pub shape: Shape,
    /// What is told.
    pub granularity: Granularity,
}

impl SearchService {
    /// The one matcher of such queries: its parameters are those of all registrations and
    /// arrangements.
    ///
    /// # Errors
    /// [`Refusal`] for parameters that do not exist: a fault of this program.
    pub fn hidden_matcher(&mut self) -> Result<Arc<Matcher>, Refusal> {
        if let Some(matcher) = &self.hidden.matcher {
            return Ok(Arc::clone(matcher));
        }
        let parameters = arrangement::set().ok_or(Refusal::Set)?.parameters()?;
        let matcher = Arc::new(Matcher::new(&parameters)?);
        self.hidden.matcher = Some(Arc::clone(&matcher));
        Ok(matcher)
    }

    /// Serves these arrangements of a table, and no others of it.
    pub fn serve_hidden(&mut self, table: &[u8; TABLE_BYTES], arrangements: Vec<Arc<Arrangement>>) {
        let all = &mut self.hidden.arrangements;
        all.retain(|_, there| there.table() != table);
        all.extend(arrangements.into_iter().map(|arrangement| (*arrangement.name(), arrangement)));
    }

    /// All arrangements of a table.
    pub fn arrangements<'a>(&'a self, table: &'a [u8; TABLE_BYTES]) -> impl Iterator<Item = &'a Arc<Arrangement>> {
        self.hidden.arrangements.values().filter(move |there| there.table() == table)
    }

    /// Bytes of memory of all arrangements but those of one table.
    pub fn hidden_memory_besides(&self, table: &[u8; TABLE_BYTES]) -> u64 {
        self.hidden.arrangements.values().filter(|there| there.table() != table).map(|there| there.memory()).sum()
    }

    /// Whether there is any table to ask so.
    pub fn hides(&self) -> bool {
        !self.hidden.arrangements.is_empty()
    }

    /// The hash of a client's registration, whether it is in memory or not.
    pub fn hidden_key(&self, client: &[u8; CLIENT_BYTES]) -> Option<&[u8; 32]> {
        self.clients.get(client)?.hidden.as_ref().map(|key| &key.hash)
    }

    /// Registers a client's key for such questions, of which `hash` is that of the bytes. The same
    /// again is used as often as it was; without the registration only its hash is known, and it is
    /// to be registered again before a question.
    ///
    /// # Errors
    /// [`Refusal`]; nothing has changed then.
    pub fn register_hidden(
        &mut self,
        client: [u8; CLIENT_BYTES],
        hash: [u8; 32],
        registration: Option<Registration>,
    ) -> Result<(), Refusal> {
        if let Some(registration) = &registration {
            let matcher = self.hidden_matcher()?;
            if registration.keys.expansion_depth(matcher.parameters()) != Some(DEPTH) {
                return Err(MessageError::Malformed("keys of an expansion: expected nine").into());
            }
        }
        let most = self.limits.clients;
        if self.clients.len() >= most && !self.clients.contains_key(&client) {
            return Err(Refusal::Clients { most });
        }
        self.hidden.turn += 1;
        let (turn, held) = (self.hidden.turn, registration.map(Arc::new));
        let Client { hidden, before, .. } = self.client(client);
        let before = before.remove("search-hidden").unwrap_or(0);
        let uses = hidden.as_ref().filter(|key| key.hash == hash).map_or(before, |key| key.uses);
        *hidden = Some(HiddenKey { hash, uses, turn, held });
        self.drop_registrations();
        Ok(())
    }

    /// Drops registrations from memory, the ones that were longest not used, until there are few
    /// enough.
    fn drop_registrations(&mut self) {
        let held = |key: &&mut HiddenKey| key.held.is_some();
        let mut keys: Vec<_> =
            self.clients.values_mut().filter_map(|client| client.hidden.as_mut()).filter(held).collect();
        keys.sort_unstable_by_key(|key| key.turn);
        let more = keys.len().saturating_sub(MOST_REGISTRATIONS);
        keys.into_iter().take(more).for_each(|key| key.held = None);
    }

    /// Admits a query under the key of this hash, which its client's budget pays.
    ///
    /// # Errors
    /// [`Refusal`]; the budget is as it was. [`Refusal::Key`] where the key is not in memory.
    pub fn admit_hidden(&mut self, bytes: &[u8], hash: &[u8; 32]) -> Result<(AdmittedHidden, AskedHidden), Refusal> {
        let query = messages::decode_query(bytes, self.hidden_matcher()?.parameters())?;
        let arrangement = self.hidden.arrangements.get(&query.table).ok_or(Refusal::Table)?;
        let no_key = || Refusal::Key { set: "search-hidden" };
        let client = self.clients.get_mut(&query.client).ok_or_else(no_key)?;
        let key = client.hidden.as_mut().filter(|key| key.hash == *hash).ok_or_else(no_key)?;
        let registration = Arc::clone(key.held.as_ref().ok_or_else(no_key)?);
        let limits = &self.limits;
        let made = client.tests.checked_add(1).filter(|made| *made <= limits.tests);
        let made = made.ok_or(Refusal::Budget { tests: limits.tests })?;
        let used = key.uses.checked_add(arrangement.layout().pages() as u32).filter(|used| *used <= limits.uses);
        let used = used.ok_or(Refusal::Uses { uses: limits.uses })?;
        self.hidden.turn += 1;
        (client.tests, key.uses, key.turn) = (made, used, self.hidden.turn);
        let shape = match arrangement.kind() {
            Kind::Windows(length) => Shape::Pattern { places: arrangement.places(), length },
            Kind::Keys => {
                let last = arrangement.layout().permutation().last();
                Shape::Word { bits: (u128::BITS - last.leading_zeros()) as usize }
            }
        };
        let asked =
            AskedHidden { client: query.client, table: *arrangement.table(), shape, granularity: query.granularity };
        Ok((AdmittedHidden { arrangement: Arc::clone(arrangement), registration, query }, asked))
    }
}

impl AdmittedHidden {
    /// The answer's bytes. How long it takes depends on the arrangement and on what is told, and on
    /// nothing else.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn answer(&self, rng: &mut impl CryptoRng) -> Result<Vec<u8>, Refusal> {
        self.finish(vec![self.part(0..self.arrangement.layout().blocks())?], rng)
    }

    /// The blocks in so many runs or fewer, none much longer than another: for whoever has several
    /// cores.
    pub fn ranges(&self, parts: usize) -> Vec<Range<usize>> {
        let blocks = self.arrangement.layout().blocks();
        let length = blocks.div_ceil(parts.max(1)).max(1);
        (0..blocks).step_by(length).map(|from| from..(from + length).min(blocks)).collect()
    }

    /// The sums over some blocks. What expands the query is done for each part again, but for what
    /// only others need.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn part(&self, range: Range<usize>) -> Result<Partial, Refusal> {
        let Self { arrangement, registration, query } = self;
        let Arrangement { form, blocks, matcher, .. } = &**arrangement;
        Ok(matcher.partial(form, &registration.keys, &query.ciphertext, query.granularity, blocks, range)?)
    }

    /// The answer's bytes, from the sums over all blocks.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn finish(&self, parts: Vec<Partial>, rng: &mut impl CryptoRng) -> Result<Vec<u8>, Refusal> {
        let Self { arrangement, registration, query } = self;
        let mut parts = parts.into_iter();
        let mut sum = parts.next().ok_or(Refusal::Table)?;
        parts.try_for_each(|part| arrangement.matcher.merge(&mut sum, &part))?;
        let pages = arrangement.matcher.finish(&arrangement.form, registration, &query.ciphertext, &sum, rng)?;
        Ok(messages::encode_answer(&pages))
    }
}
