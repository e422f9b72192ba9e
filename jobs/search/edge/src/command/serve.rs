//! The options that searches add to `tobari serve`.

use crate::serve::{PAGE, SearchOptions};
use crate::simulated;
use clap::Args;
use std::path::{Path, PathBuf};
use tobari_command::job::{ServerJob, SharedOptions};
use tobari_command::output::Failure;
use tobari_command::randomness;
use tobari_command::size::parse_bytes;
use tobari_host::files::write_atomically;
use tobari_node::{Offer, Page};
use tobari_search::hidden::numbers::Kind;
use tobari_search::simulated::columns;
use tobari_search::table::{Content, KeyTableBuilder, LIMB_BITS, MAX_COUNT, Table, encode_table};

/// The size of the simulated panel, the same as in the demonstration.
const HAPLOTYPES: usize = 2_184;
const SITES: usize = 300;
/// The simulated table of keys has the squares of 1 to this number. The count of each is its root,
/// so anybody can check an answer.
const ROOTS: u64 = 1_000;

/// Tables to serve.
#[derive(Args)]
#[command(next_help_heading = "Search")]
pub struct ServeSearchArguments {
    /// Serve this table (`tobari search index`). Repeat the option for each table. The server reads
    /// a changed file again while it runs.
    #[arg(long = "search", value_name = "TSI")]
    tables: Vec<PathBuf>,
    /// Withstand clients that break the protocol. The server evaluates each pattern or key before
    /// the question (labels), and budgets count evaluations of the whole table. A table of keys
    /// takes some 40 us a key to load, and so does each pattern of --hidden.
    #[arg(long, requires = "tables")]
    malicious: bool,
    /// Allow at most this many labels for one question (--malicious), and eight times as many for a
    /// cell. A question needs one label for each combination of site, place and pattern of the
    /// fullest window; a cell needs one for each of its patterns. A label takes some 40 us.
    #[arg(long, requires = "malicious", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_labels: Option<u32>,
    /// Allow each client at most this many tests. A question is one test. A longest match is one
    /// test for each site. [default: 10000]
    #[arg(long, requires = "tables", value_name = "N")]
    budget: Option<u64>,
    /// Divide chromosomes into regions of this many bases, for --region-budget. [default: 100000]
    #[arg(long, requires = "tables", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    region_bases: Option<u32>,
    /// Allow each client at most this many tests in one region, in all tables together. A new index
    /// of a panel does not reset the budget. [default: 1000]
    #[arg(long, requires = "tables", value_name = "N")]
    region_budget: Option<u64>,
    /// Answer at most this many blocks under one key of a client. The client then makes a new key.
    #[arg(long, requires = "tables", value_name = "N")]
    key_uses: Option<u32>,
    /// Append a JSON line for each query to this file: client, time, table and kind of question.
    /// The line has neither place nor content.
    #[arg(long, requires = "tables", value_name = "FILE")]
    audit: Option<PathBuf>,
    /// Offer questions whose place stays hidden, for these numbers of sites (separate by commas)
    /// and for `keys`. The server keeps an arrangement of the panels in memory for each number.
    /// Large tables of keys always have one. Budgets of regions cannot apply, because the server
    /// does not know the place.
    #[arg(long, requires = "tables", value_delimiter = ',', value_name = "SITES|keys")]
    hidden: Vec<Kind>,
    /// Use at most this much memory for --hidden, for all tables together. Ten times the least size
    /// makes questions faster. [default: 2GiB]
    #[arg(long, requires = "tables", value_parser = parse_bytes, value_name = "BYTES")]
    hidden_memory: Option<u64>,
    /// Keep arrangements that exceed --hidden-memory in this folder, on a fast disk. Each question
    /// reads all of them.
    #[arg(long, requires = "tables", value_name = "FOLDER")]
    hidden_tier: Option<PathBuf>,
    /// Keep keys and budgets of at most this many clients. [default: 1000]
    #[arg(long, requires = "tables", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_clients: Option<u32>,
    /// Keep at most this many bytes of clients' keys, in the data folder if there is one.
    /// [default: 4GiB]
    #[arg(long, requires = "tables", value_parser = parse_bytes, value_name = "BYTES")]
    max_key_bytes: Option<u64>,
    /// Accept at most this many queries at once. Other clients are told to try again later.
    /// [default: 64]
    #[arg(long, requires = "tables", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_queries: Option<u32>,
}

impl ServeSearchArguments {
    fn options(&self, shared: &SharedOptions) -> Option<SearchOptions> {
        if self.tables.is_empty() {
            return None;
        }
        let mut options = SearchOptions::new(self.tables.clone());
        (options.tokens, options.open) = (shared.tokens.clone(), shared.open);
        options.malicious = self.malicious;
        (options.data, options.audit) = (shared.data.clone(), self.audit.clone());
        options.idle = shared.idle.unwrap_or(options.idle);
        let limits = &mut options.limits;
        limits.clients = self.max_clients.map_or(limits.clients, |clients| clients as usize);
        limits.tests = self.budget.unwrap_or(limits.tests);
        limits.region = self.region_bases.unwrap_or(limits.region);
        limits.region_tests = self.region_budget.unwrap_or(limits.region_tests);
        limits.uses = self.key_uses.unwrap_or(limits.uses);
        limits.labels = self.max_labels.map_or(limits.labels, |labels| labels as usize);
        limits.cell_labels = limits.labels.saturating_mul(8);
        options.hidden.kinds.clone_from(&self.hidden);
        options.hidden.memory = self.hidden_memory.unwrap_or(options.hidden.memory);
        options.hidden.tier.clone_from(&self.hidden_tier);
        options.key_bytes = self.max_key_bytes.unwrap_or(options.key_bytes);
        options.queue = self.max_queries.map_or(options.queue, |queries| queries as usize);
        Some(options)
    }
}

impl ServerJob for ServeSearchArguments {
    const PAGE: Option<Page> = Some(PAGE);

    fn is_wanted(&self) -> bool {
        !self.tables.is_empty()
    }

    fn make_up(&mut self, folder: &Path) -> Result<(), Failure> {
        if self.tables.is_empty() {
            for (name, table) in [("panel.tsi", panel()?), ("squares.tsi", squares()?)] {
                let path = folder.join(name);
                write_atomically(&path, &encode_table(&table))?;
                self.tables.push(path);
            }
        }
        Ok(())
    }

    fn offer(&self, shared: &SharedOptions) -> Result<Option<Box<dyn Offer>>, Failure> {
        Ok(self.options(shared).map(|options| Box::new(options) as Box<dyn Offer>))
    }

    fn files(&self) -> Vec<&Path> {
        self.tables.iter().map(PathBuf::as_path).collect()
    }
}

fn panel() -> Result<Table, Failure> {
    simulated::table(&columns(HAPLOTYPES, SITES, 20))
}

fn squares() -> Result<Table, Failure> {
    let (mut builder, mut rng) = (KeyTableBuilder::new(), randomness::generator()?);
    for root in 1..=ROOTS {
        builder.push((root * root).to_string().as_bytes(), root)?;
    }
    let keys = builder.finish(LIMB_BITS, MAX_COUNT, &mut rng)?;
    Ok(Table::new(Content::Keys(keys), 1, "simulated: squares", &mut rng))
}
