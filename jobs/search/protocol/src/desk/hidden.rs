//! Tables that are asked with the place hidden ([`crate::hidden`]): their arrangements, the
//! clients' registrations, and the budgets.
//!
//! **Budgets.** A question is one test. The client's budget for all tables pays for it. A question
//! in a cell is also a test in every region that the cell overlaps or its windows reach, because
//! nobody knows the true place; these budgets survive new tables, as regions are coordinates. For a
//! question to the whole table the server knows no region: **budgets of regions cannot hold
//! there**. With labels, the evaluation pays for the test, and regions pay nothing. Every page of
//! an answer is a use of the client's key, like a block of an answer elsewhere.
//!
//! **Cells.** A cell is arranged when a client first asks it, and stays as long as the memory has
//! room for it; then the cell that was unused for longest goes. So the time of a first question
//! tells a client whether anybody asked this cell of late, with this number of sites.
//!
//! **Memory.** A registration takes about 20 MB, so memory holds at most [`MOST_REGISTRATIONS`]. A
//! new one replaces the registration that was unused for longest. The desk keeps the hash of each
//! client's key and its number of uses, so registering the same key again does not reset its uses.

use super::served::Served;
use super::{Client, Refusal, SearchService};
use crate::hidden::arrangement::{self, ArrangeError, Arrangement, DEPTH};
use crate::hidden::cells::Cell;
use crate::hidden::messages::{self, Query};
use crate::hidden::numbers::{Kind, Part};
use crate::hidden::server::{Matcher, Partial, Registration};
use crate::messages::{CLIENT_BYTES, MessageError, TABLE_BYTES};
use crate::oprf::labels::Labeller;
use crate::program::Shape;
use crate::server::Granularity;
use rand_core::CryptoRng;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The most registrations in memory.
pub const MOST_REGISTRATIONS: usize = 64;

/// The desk's state for questions with the place hidden.
#[derive(Default)]
pub(super) struct Hidden {
    matcher: Option<Arc<Matcher>>,
    /// By the arrangements' own names.
    arrangements: BTreeMap<[u8; TABLE_BYTES], Arc<Arrangement>>,
    /// Arranged cells, by table, number of sites and cell: the arrangement's name, and the turn of
    /// its last use.
    cells: BTreeMap<CellKey, ([u8; TABLE_BYTES], u64)>,
    /// The number of registrations and uses of all keys.
    turn: u64,
}

/// A table, a number of sites, and a cell.
type CellKey = ([u8; TABLE_BYTES], usize, Cell);

/// A table whose cells can be arranged without the desk.
pub struct CellSource {
    table: [u8; TABLE_BYTES],
    served: Arc<Served>,
    matcher: Arc<Matcher>,
    labeller: Option<Arc<Labeller>>,
    /// The most labels of a cell.
    labels: usize,
}

impl CellSource {
    /// Arranges a cell of the table for windows of so many sites, in at most `room` bytes. This
    /// takes some 0.1 s for a cell of 10,000 sites, and some 40 us more for each label.
    ///
    /// # Errors
    /// [`ArrangeError`], for example for a cell without such a window.
    pub fn arrange(
        &self,
        length: usize,
        cell: Cell,
        room: u64,
        rng: &mut impl CryptoRng,
    ) -> Result<Arrangement, ArrangeError> {
        let (mut numbers, items) = self.served.of_cell(self.table, length, cell)?;
        let labels = self.labeller.as_ref().map(|labeller| (&**labeller, self.matcher.modulus()));
        if let Some((labeller, _)) = labels {
            if items.len() > self.labels {
                return Err(ArrangeError::Labels { most: self.labels, found: items.len() });
            }
            numbers = numbers.with_labels(*labeller.revision());
        }
        let entries = numbers.numbered(&items, labels)?;
        Arrangement::of_entries(&self.matcher, &numbers, (&entries, self.served.most()), room, None, rng)
    }
}

/// A client's key for questions with the place hidden.
pub(super) struct HiddenKey {
    hash: [u8; 32],
    pub(super) uses: u32,
    /// The turn of the last use.
    turn: u64,
    held: Option<Arc<Registration>>,
}

/// A query that was admitted and paid. Only the computation is left; it may run anywhere, at any
/// time.
pub struct AdmittedHidden {
    arrangement: Arc<Arrangement>,
    registration: Arc<Registration>,
    query: Query,
}

/// A question, for a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedHidden {
    /// The client.
    pub client: [u8; CLIENT_BYTES],
    /// The table.
    pub table: [u8; TABLE_BYTES],
    /// The shape of the question; its places are all of the table or of the cell, the true one
    /// among them.
    pub shape: Shape,
    /// Whether the answer has counts.
    pub granularity: Granularity,
}

impl SearchService {
    /// The one matcher of queries with the place hidden. All registrations and arrangements have
    /// its parameters.
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

    /// Serves these arrangements of a table, and no other arrangements of it.
    pub fn serve_hidden(&mut self, table: &[u8; TABLE_BYTES], arrangements: Vec<Arc<Arrangement>>) {
        let all = &mut self.hidden.arrangements;
        all.retain(|_, there| there.table() != table || there.part() != Part::Whole);
        all.extend(arrangements.into_iter().map(|arrangement| (*arrangement.name(), arrangement)));
    }

    /// All arrangements of a whole table.
    pub fn arrangements<'a>(&'a self, table: &'a [u8; TABLE_BYTES]) -> impl Iterator<Item = &'a Arc<Arrangement>> {
        let whole = |there: &&Arc<Arrangement>| there.part() == Part::Whole;
        self.hidden.arrangements.values().filter(whole).filter(move |there| there.table() == table)
    }

    /// Bytes of memory of all arrangements of whole tables, except those of one table. Cells give
    /// way to them.
    pub fn hidden_memory_besides(&self, table: &[u8; TABLE_BYTES]) -> u64 {
        let all = self.hidden.arrangements.values();
        all.filter(|there| there.part() == Part::Whole && there.table() != table).map(|there| there.memory()).sum()
    }

    /// Bytes of memory of all arrangements of whole tables.
    pub fn hidden_memory(&self) -> u64 {
        let all = self.hidden.arrangements.values();
        all.filter(|there| there.part() == Part::Whole).map(|there| there.memory()).sum()
    }

    /// Whether any table is asked with the place hidden.
    pub fn hides(&self) -> bool {
        !self.hidden.arrangements.is_empty() || self.tables.keys().any(|table| self.has_cells(table))
    }

    /// Whether a table is asked by cells: it has sites with coordinates.
    pub fn has_cells(&self, table: &[u8; TABLE_BYTES]) -> bool {
        self.tables.get(table).is_some_and(|served| served.has_cells())
    }

    /// A cell that is arranged already.
    pub fn cell(&mut self, table: &[u8; TABLE_BYTES], length: usize, cell: Cell) -> Option<Arc<Arrangement>> {
        let (name, turn) = self.hidden.cells.get_mut(&(*table, length, cell))?;
        self.hidden.turn += 1;
        *turn = self.hidden.turn;
        self.hidden.arrangements.get(name).map(Arc::clone)
    }

    /// A table whose cells can be arranged.
    ///
    /// # Errors
    /// [`Refusal::Table`] for a table without cells.
    pub fn cell_source(&mut self, table: &[u8; TABLE_BYTES]) -> Result<CellSource, Refusal> {
        let there = self.has_cells(table).then(|| self.tables.get(table).map(Arc::clone)).flatten();
        let served = there.ok_or(Refusal::Table)?;
        let (labeller, labels) = (self.labellers.get(table).cloned(), self.limits.cell_labels);
        Ok(CellSource { table: *table, served, matcher: self.hidden_matcher()?, labeller, labels })
    }

    /// Forgets the arranged cells of a table, whose content changes.
    pub(super) fn drop_cells(&mut self, table: &[u8; TABLE_BYTES]) {
        self.hidden.cells.retain(|(of, _, _), _| of != table);
        self.hidden.arrangements.retain(|_, there| there.table() != table || there.part() == Part::Whole);
    }

    /// Serves an arranged cell. Cells that were unused for longest go, until all cells fit `room`
    /// bytes. The cell of a table that was replaced meanwhile is not served.
    pub fn serve_cell(&mut self, source: &CellSource, arranged: &Arc<Arrangement>, room: u64) {
        let Hidden { arrangements, cells, turn, .. } = &mut self.hidden;
        let (Kind::Windows(length), Part::Cell(cell)) = (arranged.kind(), arranged.part()) else { return };
        if !self.tables.get(&source.table).is_some_and(|served| Arc::ptr_eq(served, &source.served)) {
            return;
        }
        let used = |arrangements: &BTreeMap<_, Arc<Arrangement>>| {
            arrangements.values().filter(|there| there.part() != Part::Whole).map(|there| there.memory()).sum::<u64>()
        };
        while used(arrangements).saturating_add(arranged.memory()) > room {
            let Some(oldest) = cells.iter().min_by_key(|(_, (_, turn))| *turn).map(|(key, _)| *key) else { break };
            if let Some((name, _)) = cells.remove(&oldest) {
                arrangements.remove(&name);
            }
        }
        *turn += 1;
        if let Some((before, _)) = cells.insert((source.table, length, cell), (*arranged.name(), *turn)) {
            arrangements.remove(&before);
        }
        arrangements.insert(*arranged.name(), Arc::clone(arranged));
    }

    /// The hash of a client's registration, also if the registration is not in memory.
    pub fn hidden_key(&self, client: &[u8; CLIENT_BYTES]) -> Option<&[u8; 32]> {
        self.clients.get(client)?.hidden.as_ref().map(|key| &key.hash)
    }

    /// Registers a client's key for questions with the place hidden. `hash` is the hash of the
    /// registration's bytes. Registering the same key again keeps its uses. Without the
    /// registration the desk keeps the hash only, and the client has to register again before a
    /// question.
    ///
    /// # Errors
    /// [`Refusal`]; then nothing has changed.
    pub fn register_hidden(
        &mut self,
        client: [u8; CLIENT_BYTES],
        hash: [u8; 32],
        registration: Option<Registration>,
    ) -> Result<(), Refusal> {
        if let Some(registration) = &registration {
            let (matcher, keys) = (self.hidden_matcher()?, &registration.keys);
            if keys.parameters() != matcher.parameters() || keys.expansion_depth() != Some(DEPTH) {
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

    /// Drops the registrations that were unused for longest, until few enough are in memory.
    fn drop_registrations(&mut self) {
        let held = |key: &&mut HiddenKey| key.held.is_some();
        let mut keys: Vec<_> =
            self.clients.values_mut().filter_map(|client| client.hidden.as_mut()).filter(held).collect();
        keys.sort_unstable_by_key(|key| key.turn);
        let more = keys.len().saturating_sub(MOST_REGISTRATIONS);
        keys.into_iter().take(more).for_each(|key| key.held = None);
    }

    /// Admits a query under the key of this hash. The client's budget pays for it.
    ///
    /// # Errors
    /// [`Refusal`]; then the budget is unchanged. [`Refusal::Key`] if the key is not in memory.
    pub fn admit_hidden(&mut self, bytes: &[u8], hash: &[u8; 32]) -> Result<(AdmittedHidden, AskedHidden), Refusal> {
        let query = messages::decode_query(bytes, self.hidden_matcher()?.parameters())?;
        let arrangement = self.hidden.arrangements.get(&query.table).ok_or(Refusal::Table)?;
        let no_key = || Refusal::Key { set: "search-hidden" };
        let client = self.clients.get_mut(&query.client).ok_or_else(no_key)?;
        let key = client.hidden.as_mut().filter(|key| key.hash == *hash).ok_or_else(no_key)?;
        let registration = Arc::clone(key.held.as_ref().ok_or_else(no_key)?);
        let limits = &self.limits;
        // with labels, the evaluation was paid
        let labelled = self.labellers.contains_key(arrangement.table());
        let made = client.tests.checked_add(u64::from(!labelled)).filter(|made| *made <= limits.tests);
        let made = made.ok_or(Refusal::Budget { tests: limits.tests })?;
        let used = key.uses.checked_add(arrangement.layout().pages() as u32).filter(|used| *used <= limits.uses);
        let used = used.ok_or(Refusal::Uses { uses: limits.uses })?;
        let regions = match (arrangement.part(), arrangement.kind()) {
            (Part::Cell(cell), Kind::Windows(length)) if !labelled => {
                let served = self.tables.get(arrangement.table()).ok_or(Refusal::Table)?;
                served.regions_of_cell(cell, length, limits.region)
            }
            _ => Vec::new(),
        };
        for region in &regions {
            if client.regions.tests(region).saturating_add(1) > limits.region_tests {
                return Err(Refusal::Region { tests: limits.region_tests, region: region.to_string() });
            }
        }
        regions.into_iter().for_each(|region| client.regions.add(region, 1));
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
    /// The answer's bytes. The running time depends on the arrangement and the granularity only.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn answer(&self, rng: &mut impl CryptoRng) -> Result<Vec<u8>, Refusal> {
        self.finish(vec![self.part(0..self.arrangement.layout().blocks())?], rng)
    }

    /// Divides the blocks into at most so many ranges of similar length, for several cores.
    pub fn ranges(&self, parts: usize) -> Vec<Range<usize>> {
        let blocks = self.arrangement.layout().blocks();
        let length = blocks.div_ceil(parts.max(1)).max(1);
        (0..blocks).step_by(length).map(|from| from..(from + length).min(blocks)).collect()
    }

    /// The sums over some blocks. Each part expands the query again, except for leaves that only
    /// other parts need.
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
        Ok(messages::encode_answer(&pages)?)
    }
}
