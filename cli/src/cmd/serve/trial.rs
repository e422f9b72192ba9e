//! `tobari serve --try`: every job on made-up data, to look at and to try clients with. Nothing of it outlives the server.

use super::ServeArguments;
use crate::simulated;
use tempfile::TempDir;
use tobari_apps::search::simulated::columns;
use tobari_apps::search::table::{Content, KeyTableBuilder, LIMB_BITS, MAX_COUNT, Table, encode_table};
use tobari_command::output::Failure;
use tobari_command::randomness;
use tobari_host::files::write_atomically;
use tobari_server::ModelSource;

/// What is said of it to people.
pub(super) const TOLD: &str = "made-up data (--try): a panel and a table of squares that are SIMULATED, the built-in digits, fleets of visitors; what is sent is gone when this server ends";
/// Haplotypes and sites of the panel: as the demonstration's.
const HAPLOTYPES: usize = 2_184;
const SITES: usize = 300;
/// The table of keys has the squares of 1 to this, each as often as its root: an answer that anybody can check.
const ROOTS: u64 = 1_000;

/// Gives the server what it is not told to serve, and returns the folder where that lies, which goes when this is dropped. None without `--try`.
pub(super) fn complete(arguments: &mut ServeArguments) -> Result<Option<TempDir>, Failure> {
    if !arguments.trial {
        return Ok(None);
    }
    let folder = tempfile::tempdir()?;
    let at = |name: &str| folder.path().join(name);
    if arguments.search.tables.is_empty() {
        let tables = [(at("panel.tsi"), panel()?), (at("squares.tsi"), squares()?)];
        for (path, table) in &tables {
            write_atomically(path, &encode_table(table))?;
        }
        arguments.search.tables.extend(tables.map(|(path, _)| path));
    }
    if arguments.infer.models.is_empty() {
        arguments.infer.models.push(ModelSource { name: "digits".to_owned(), path: None });
    }
    if arguments.sense.sense.is_none() {
        arguments.sense.sense = Some(at("sense"));
        arguments.sense.sense_visitors = true;
    }
    Ok(Some(folder))
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
