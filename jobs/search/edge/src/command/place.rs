//! What servers see of a question's place, and the order of a list of questions.
//!
//! A place hides in the whole table where the server offers that, and otherwise in its cell
//! ([`tobari_search::hidden::cells`]). Before anything is sent, the client counts the places that
//! every table has in each cell, and refuses a cell with too few.

use super::arguments::PlaceArguments;
use super::remote::TableInfo;
use std::collections::BTreeMap;
use std::sync::Arc;
use tobari_command::output::Failure;
use tobari_search::fullness::{Fullness, most_keys};
use tobari_search::hidden::cells::{Coordinate, common_places, padded};
use tobari_search::hidden::numbers::{Kind, Numbers};
use tobari_search::table::Sites;

/// Slots of every set of parameters for keys.
const SLOTS: usize = 8_192;

/// What a server sees of a question's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shown {
    /// The place itself. A key has none.
    Place,
    /// The place's cell.
    Cell,
    /// Nothing.
    Nothing,
}

/// What a table's server sees of the place of a question of this kind.
///
/// # Errors
/// [`Failure::Work`] if the server cannot hide the place.
pub(super) fn shown(arguments: &PlaceArguments, told: &TableInfo, kind: Kind) -> Result<Shown, Failure> {
    let offered = told.hidden.contains(&kind);
    let few = matches!(told.fullness, Fullness::Keys(keys) if keys <= most_keys(SLOTS));
    match kind {
        _ if arguments.hidden && !offered => Err(Failure::Work(match &told.hidden[..] {
            [] => "the server does not offer this table with the place hidden among all places: leave out --hidden, so \
                   that the place hides in its cell, or ask another server"
                .to_owned(),
            kinds => format!(
                "the server hides the place among all places for other questions ({}): ask one of these, or leave out \
                 --hidden, so that the place hides in its cell",
                kinds.iter().map(Kind::to_string).collect::<Vec<_>>().join(", ")
            ),
        })),
        _ if arguments.hidden || (offered && !arguments.public && !few) => Ok(Shown::Nothing),
        Kind::Keys => Ok(Shown::Place),
        Kind::Windows(_) if arguments.public => Ok(Shown::Place),
        Kind::Windows(_) if told.cells => Ok(Shown::Cell),
        Kind::Windows(_) => Err(Failure::Work(
            "the server is of an earlier version and cannot hide a place in its cell: add --public to show it the place, \
             or ask another server"
                .to_owned(),
        )),
    }
}

/// A question to send: its number in the list, or a question without meaning that fills a cell up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// The number in the list.
    pub(super) index: Option<usize>,
    /// The cell and the number of sites, if some server sees the cell.
    pub(super) at: Shows,
}

/// The cell and the number of sites of a question, if some server sees its cell.
pub(super) type Shows = Option<(Coordinate, usize)>;

/// The order in which a list is sent. A list without cells keeps its order. Otherwise every cell
/// gets the same number of questions ([`padded`]), and questions without a cell follow.
pub(super) fn turns(list: &[Shows]) -> Vec<Turn> {
    let (inside, others): (Vec<usize>, Vec<usize>) = (0..list.len()).partition(|index| list[*index].is_some());
    let groups: Vec<(Coordinate, usize)> = list.iter().flatten().cloned().collect();
    let turn = |(at, of): (_, Option<usize>)| Turn { index: of.map(|of| inside[of]), at: Some(at) };
    let rest = others.into_iter().map(|index| Turn { index: Some(index), at: None });
    padded(&groups).into_iter().map(turn).chain(rest).collect()
}

/// The number of common places of every cell and number of sites of a list.
pub(super) type Sizes = BTreeMap<(Coordinate, usize), usize>;

/// Counts the places of each cell of a list in all tables.
pub(super) fn sizes(tables: &[Arc<TableInfo>], list: &[Shows]) -> Sizes {
    let sites: Vec<&Sites> = tables.iter().filter_map(|told| told.catalogue.sites()).collect();
    let mut sizes = Sizes::new();
    for (cell, length) in list.iter().flatten() {
        let count = || common_places(&sites, cell, *length);
        sizes.entry((cell.clone(), *length)).or_insert_with(count);
    }
    sizes
}

/// Checks that every cell hides its places among enough others.
///
/// # Errors
/// [`Failure::Work`], which names the smallest cell.
pub(super) fn check(sizes: &Sizes, least: usize) -> Result<(), Failure> {
    let smallest = sizes.iter().min_by_key(|(_, places)| **places);
    smallest.map_or(Ok(()), |(at, places)| check_cell(at, *places, least)).map_err(Failure::Work)
}

/// Checks that a cell has enough places for a number of sites.
///
/// # Errors
/// A text with the remedy.
pub(super) fn check_cell((cell, length): &(Coordinate, usize), places: usize, least: usize) -> Result<(), String> {
    if places >= least {
        return Ok(());
    }
    Err(format!(
        "the cell {cell} has {places} places for {length} sites in the tables that are asked, fewer than {least}: nothing \
         was asked. Lower --least-places, hide the place in the whole table (--hidden), or show it (--public)"
    ))
}

/// Checks that a whole table hides its places among enough others.
///
/// # Errors
/// [`Failure::Work`].
pub(super) fn check_whole(told: &TableInfo, kind: Kind, least: usize) -> Result<(), Failure> {
    let (Some(places), Kind::Windows(length)) = (whole(told, kind), kind) else { return Ok(()) };
    if places >= least {
        return Ok(());
    }
    Err(Failure::Work(format!(
        "the table has {places} places for {length} sites, fewer than {least}: nothing was asked. Lower --least-places, or \
         show the place (--public)"
    )))
}

/// The number of places of a whole table for a number of sites; none for keys.
pub(super) fn whole(told: &TableInfo, kind: Kind) -> Option<usize> {
    told.catalogue.sites()?;
    Numbers::new(&told.catalogue, kind).ok().map(|numbers| numbers.places())
}
