//! Arrangements for questions with the place hidden: which tables get one, and how it is made.

use super::{SearchError, State, lock};
use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use std::{
    fs::File,
    io::{BufWriter, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Instant,
};
use tobari_search::fullness;
use tobari_search::hidden::arrangement::Arrangement;
use tobari_search::hidden::index::{Block, Blocks, NextBlock, Shelf};
use tobari_search::hidden::numbers::Kind;
use tobari_search::hidden::server::Matcher;
use tobari_search::oprf::labels::Labeller;
use tobari_search::table::{Content, Table};

/// The number of slots of every set of parameters for keys. It limits the number of keys that one
/// answer without a hidden place compares.
const SLOTS: usize = 8_192;

/// Options of arrangements: the tables, and the memory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HiddenOptions {
    /// The kinds of questions: numbers of sites of panels, and keys.
    pub kinds: Vec<Kind>,
    /// Bytes of memory for all arrangements.
    pub memory: u64,
    /// A folder for blocks without room in memory.
    pub tier: Option<PathBuf>,
}

impl Default for HiddenOptions {
    /// Large tables of keys only, in 2 GiB.
    fn default() -> Self {
        Self { kinds: Vec::new(), memory: 2 << 30, tier: None }
    }
}

/// The kinds of questions that a table is arranged for: the kinds of the options that fit the
/// table, and keys if the table has more of them than one answer compares.
fn kinds(table: &Table, options: &HiddenOptions) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = options.kinds.iter().copied().filter(|kind| fits(&table.content, *kind)).collect();
    if let Content::Keys(keys) = &table.content
        && keys.len() as u64 > fullness::most_keys(SLOTS)
    {
        kinds.push(Kind::Keys);
    }
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// Whether a kind of questions fits this kind of table.
pub(super) fn fits(content: &Content, kind: Kind) -> bool {
    match (content, kind) {
        (Content::Panel { .. }, Kind::Windows(_)) | (Content::Keys(_), Kind::Keys) => true,
        (Content::Variants { .. }, Kind::Windows(length)) => length == 1,
        _ => false,
    }
}

/// Arranges a table in the memory that other tables leave, and reports the time. With a labeller,
/// entries get its labels.
pub(super) fn arrange(
    path: &Path,
    (table, labeller): (&Table, Option<&Labeller>),
    options: &HiddenOptions,
    (matcher, taken): (&Arc<Matcher>, u64),
) -> Result<Vec<Arc<Arrangement>>, SearchError> {
    let mut room = options.memory.saturating_sub(taken);
    let mut all = Vec::new();
    let folder = options.tier.clone().map(Folder);
    let shelf = folder.as_ref().map(|folder| folder as &dyn Shelf);
    for kind in kinds(table, options) {
        let start = Instant::now();
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| SearchError::file(path, error))?;
        let fault = |error| SearchError::file(path, format!("with the place hidden ({kind}): {error}"));
        let mut rng = ChaCha20Rng::from_seed(seed);
        let arranged = match labeller {
            None => Arrangement::new(matcher, table, kind, room, shelf, &mut rng),
            Some(labeller) => Arrangement::labelled((matcher, labeller), table, kind, room, shelf, &mut rng),
        };
        let arranged = arranged.map_err(fault)?;
        room = room.saturating_sub(arranged.memory());
        let layout = arranged.layout();
        tracing::info!(
            table = &tobari_octets::hex(&table.name)[..8],
            asked = %kind,
            entries = arranged.entries(),
            blocks = layout.blocks(),
            pages = layout.pages(),
            limbs = layout.limbs(),
            form = if arranged.prepared() { "prepared" } else { "packed" },
            bytes = arranged.memory(),
            shelved = arranged.shelved(),
            milliseconds = start.elapsed().as_millis() as u64,
            "arranged to be asked with the place hidden"
        );
        all.push(Arc::new(arranged));
    }
    Ok(all)
}

/// Keeps blocks in files without a name in a folder: the system deletes them with their last
/// reader.
struct Folder(PathBuf);

impl Shelf for Folder {
    fn keep(
        &self,
        blocks: usize,
        bytes: usize,
        next: &mut NextBlock<'_>,
    ) -> Result<Box<dyn Blocks + Send + Sync>, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.0.display());
        let file = tempfile::tempfile_in(&self.0).map_err(failed)?;
        let mut writer = BufWriter::new(file);
        for block in 0..blocks {
            let packed = next(block).map_err(|error| error.to_string())?;
            if packed.len() != bytes {
                return Err(format!("expected a block of {bytes} bytes, found {}", packed.len()));
            }
            writer.write_all(&packed).map_err(failed)?;
        }
        let file = writer.into_inner().map_err(|error| failed(error.into_error()))?;
        Ok(Box::new(Shelved { file: Mutex::new(file), blocks, bytes }))
    }
}

/// Blocks in a file, read again for each question, in order, so that the system reads ahead.
struct Shelved {
    file: Mutex<File>,
    blocks: usize,
    bytes: usize,
}

impl Blocks for Shelved {
    fn block(&self, block: usize) -> Option<Block<'_>> {
        if block >= self.blocks {
            return None;
        }
        let mut packed = vec![0; self.bytes];
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let read = file.seek(SeekFrom::Start((block * self.bytes) as u64)).and_then(|_| file.read_exact(&mut packed));
        if let Err(error) = read {
            tracing::error!(%error, "a block of a table could not be read");
            return None;
        }
        Some(Block::Packed(packed.into()))
    }
}

/// The matcher, and the memory of other tables. The lock is held for this only.
pub(super) fn besides(state: &Mutex<State>, table: &Table) -> Result<(Arc<Matcher>, u64), SearchError> {
    let mut state = lock(state);
    Ok((state.desk.hidden_matcher()?, state.desk.hidden_memory_besides(&table.name)))
}
