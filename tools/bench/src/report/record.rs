//! Peers on record: the figures of `bench/record`, shown beside those of this machine.
//!
//! A record is from another machine, another day, and an earlier state of this project. It is shown
//! unchanged; its ratios are from one run, in which both sides were measured in turn.

use crate::bench::table::Table;
use std::path::Path;
use tobari_command::output::Failure;
use tobari_host::files;

/// Figures on record.
pub(super) struct Record {
    /// The part of the page with this record.
    pub(super) part: &'static str,
    /// The machine, the day and the compared peers.
    pub(super) title: &'static str,
    /// The path within `bench/record`.
    pub(super) path: &'static str,
    pub(super) table: Table,
}

macro_rules! records {
    ($($part:literal, $path:literal, $title:literal;)*) => {
        &[$(($part, $path, $title, include_str!(concat!("../../../../bench/record/", $path)))),*]
    };
}

static BUILT_IN: &[(&str, &str, &str, &str)] = records! {
    "call", "amd-zen5-2-cores/2026-11-20-paper-second/ratios.csv",
        "AMD Zen 5, two cores, 2026-11-20: mcl, the paper's library, and libsecp256k1 over ours; a ratio above 1 is ours faster";
    "lattice", "intel-xeon-2-cores/2026-11-22-lattice/lattice-ratios.csv",
        "Intel Xeon, two virtual cores, 2026-11-22: SEAL, OpenFHE, poulpy and Lattigo over ours; a ratio above 1 is ours faster";
    "seal", "intel-xeon-2-cores/2026-11-22-seal/chains.csv",
        "Intel Xeon, two virtual cores, 2026-11-22: AES-CBC on one core, ours and OpenSSL's; more is faster";
};

/// Bytes of a record at most.
const MOST_BYTES: u64 = 16 << 20;

/// The built-in records, or the same files of a folder.
pub(super) fn all(folder: Option<&Path>) -> Result<Vec<Record>, Failure> {
    let one = |(part, path, title, text): &(&'static str, &'static str, &'static str, &'static str)| {
        let table = match folder {
            None => Table::parse(*title, text),
            Some(folder) => {
                let bytes = files::read_bounded(&folder.join(path), MOST_BYTES)?;
                Table::parse(*title, &String::from_utf8_lossy(&bytes))
            }
        };
        Ok(Record { part, title, path, table })
    };
    BUILT_IN.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_has_rows_of_its_peers() {
        for (record, peer) in all(None).unwrap().iter().zip(["mcl", "openfhe", "openssl"]) {
            assert!(record.table.rows().len() > 10, "{}", record.path);
            let named = |row: &Vec<String>| row.iter().any(|cell| cell.to_lowercase().contains(peer));
            assert!(record.table.rows().iter().any(named), "{}: {peer}", record.path);
        }
    }
}
