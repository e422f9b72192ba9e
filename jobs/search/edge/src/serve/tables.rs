//! Files of tables, and their changes while the server runs.

use super::{HiddenOptions, SearchError, State, TableInfo, arrange, lock};
use axum::body::Bytes;
use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::SystemTime,
};
use tobari_octets::{hex, sha256};
use tobari_search::desk::{LabelledTable, Refusal};
use tobari_search::fullness::Fullness;
use tobari_search::hidden::arrangement::Arrangement;
use tobari_search::messages::TABLE_BYTES;
use tobari_search::oprf::function::Secret;
use tobari_search::oprf::labels::Labeller;
use tobari_search::table::{Content, MAX_TABLE_BYTES, Table, decode_table};
use zeroize::Zeroizing;

/// The time and length of a file; they show that it changed.
type Stamp = Option<(SystemTime, u64)>;

struct Watched {
    path: PathBuf,
    stamp: Stamp,
    name: [u8; TABLE_BYTES],
}

pub(super) struct Files {
    watched: Vec<Watched>,
    /// Bytes of labels that stay in memory for each table; none if tables have no labels.
    labels: Option<usize>,
}

/// A table, ready for the desk.
struct Ready {
    name: [u8; TABLE_BYTES],
    held: Held,
    arranged: Vec<Arc<Arrangement>>,
    told: TableInfo,
}

enum Held {
    Plain(Table),
    Labelled(LabelledTable),
}

impl Files {
    /// Reads all files, and serves them. With a number of bytes for labels, they are served with
    /// labels.
    pub(super) fn open(
        paths: &[PathBuf],
        (labels, hidden): (Option<usize>, &HiddenOptions),
        state: &mut State,
    ) -> Result<Self, SearchError> {
        let (mut watched, mut unused) = (Vec::new(), hidden.kinds.clone());
        for path in paths {
            let (stamp, table) = (stamp(path), read(path)?);
            let name = table.name;
            if state.told.contains_key(&name) {
                return Err(SearchError::file(path, "this table is served already: name each table once"));
            }
            unused.retain(|kind| !arrange::fits(&table.content, *kind));
            let labeller = labels.map(|kept_bytes| labeller(&table, kept_bytes)).transpose()?;
            let taken = (&state.desk.hidden_matcher()?, state.desk.hidden_memory_besides(&name));
            let arranged = arrange::arrange(path, (&table, labeller.as_ref()), hidden, taken)?;
            let ready = ready(table, labeller, arranged).map_err(|error| SearchError::file(path, error))?;
            ready.serve(state).map_err(|error| SearchError::file(path, error))?;
            watched.push(Watched { path: path.clone(), stamp, name });
        }
        // an option that fits none of the tables is a mistake
        match unused.first() {
            Some(kind) => Err(SearchError::Hidden(*kind)),
            None => Ok(Self { watched, labels }),
        }
    }

    /// Serves the files that changed since the last check. A file that cannot be read is reported
    /// once, and its earlier content stays served.
    pub(super) fn look(&mut self, state: &Mutex<State>, hidden: &HiddenOptions) {
        for index in 0..self.watched.len() {
            let file = &self.watched[index];
            let found = stamp(&file.path);
            if found == file.stamp {
                continue;
            }
            let others =
                |name| self.watched.iter().enumerate().any(|(other, file)| other != index && file.name == name);
            let replaced = read(&file.path).and_then(|table| {
                let name = table.name;
                if others(name) {
                    return Err(SearchError::file(
                        &file.path,
                        "expected a table of another name than the other files'",
                    ));
                }
                let labeller = self.labels.map(|kept_bytes| labeller(&table, kept_bytes)).transpose()?;
                let (matcher, taken) = arrange::besides(state, &table)?;
                let of = (&table, labeller.as_ref());
                let arranged = arrange::arrange(&file.path, of, hidden, (&matcher, taken))?;
                let ready = ready(table, labeller, arranged)?;
                let mut state = lock(state);
                ready.serve(&mut state)?;
                if name != file.name {
                    state.desk.withdraw(&file.name);
                    state.told.remove(&file.name);
                }
                Ok(name)
            });
            let file = &mut self.watched[index];
            file.stamp = found;
            match replaced {
                Ok(name) => {
                    file.name = name;
                    tracing::info!(file = index, "a table was replaced");
                }
                Err(error) => tracing::warn!(%error, "a table's new file cannot be used: the old one is served on"),
            }
        }
    }
}

fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

fn read(path: &Path) -> Result<Table, SearchError> {
    let fault = |error: &dyn std::error::Error| SearchError::file(path, error);
    let bytes = tobari_host::files::read_bounded(path, MAX_TABLE_BYTES).map_err(|error| fault(&error))?;
    decode_table(&bytes).map_err(|error| fault(&error))
}

/// A labeller with a new key.
fn labeller(table: &Table, kept_bytes: usize) -> Result<Labeller, SearchError> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *seed).map_err(|_| SearchError::Randomness)?;
    let secret = Secret::random(&mut ChaCha20Rng::from_seed(*seed));
    Ok(Labeller::new(&table.name, secret, kept_bytes).map_err(Refusal::from)?)
}

/// The served table and its public information. With labels this makes the labels of keys in some
/// 40 us each.
fn ready(table: Table, labeller: Option<Labeller>, arranged: Vec<Arc<Arrangement>>) -> Result<Ready, SearchError> {
    let (catalogue, name, fullness) = (table.catalogue().encode(), table.name, Fullness::of(&table));
    let (mode, fullness) = match &labeller {
        None => ("plain", fullness),
        Some(_) => ("labels", fullness.levelled()),
    };
    let body = [&(catalogue.len() as u64).to_be_bytes()[..], &catalogue, &fullness.encode()].concat();
    let tag = format!("\"{}\"", hex(&sha256(&body)[..16]));
    let kind = match &table.content {
        Content::Panel { .. } => "panel",
        Content::Variants { .. } => "variants",
        Content::Keys(_) => "keys",
    };
    let kinds: Vec<String> = arranged.iter().map(|one| one.kind().to_string()).collect();
    let line = json!({
        "name": hex(&name), "revision": table.revision, "kind": kind, "label": table.label, "least": table.least, "mode": mode, "tag": tag,
        "hidden": kinds, "cells": !matches!(table.content, Content::Keys(_)),
    });
    let held = match labeller {
        None => Held::Plain(table),
        Some(labeller) => Held::Labelled(LabelledTable::of(table, labeller)?),
    };
    Ok(Ready { name, held, arranged, told: TableInfo { tag, line, body: Bytes::from(body) } })
}

impl Ready {
    fn serve(self, state: &mut State) -> Result<(), SearchError> {
        match self.held {
            Held::Plain(table) => state.desk.serve_table(table)?,
            Held::Labelled(table) => state.desk.serve_table_labelled(table),
        }
        state.desk.serve_hidden(&self.name, self.arranged);
        state.told.insert(self.name, self.told);
        Ok(())
    }
}
