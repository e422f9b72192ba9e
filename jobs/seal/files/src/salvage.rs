//! Recovery of a damaged sealed file.
//!
//! Every chunk has its own tag, over its number and its file. So an intact chunk proves its place,
//! whatever happened to other chunks. Intact chunks are written to a file whose name
//! ([`DAMAGED`]) shows that it is not whole, with holes for the other chunks. The missing ranges
//! are listed. Nothing unverified is written.

use super::below::{Below, Need, Onto};
use super::input::Input;
use super::landing::{describe, write_at_places};
use super::naming::{Folder, temporary};
use super::source::Places;
use super::{FileProblem, Missing};
use crate::dispatch::RingGcm;
use std::path::Path;
use std::sync::Arc;
use tobari_seal::{Kind, Range, process};

/// The suffix of a recovered file that is not whole.
pub const DAMAGED: &str = ".damaged";

/// Adds the next bytes of content, at most `count`, to the missing ranges.
fn note(places: &mut Places, mut count: u64, missing: &mut Vec<[u64; 2]>) {
    while count > 0 {
        let Some((at, length)) = places.next(usize::try_from(count).unwrap_or(usize::MAX)) else { return };
        let end = at + length as u64;
        count -= length as u64;
        match missing.last_mut() {
            Some(last) if last[1] == at => last[1] = end,
            _ => missing.push([at, end]),
        }
    }
}

/// The destination of a damaged file's intact chunks: beside a path below a folder.
pub(super) struct Beside<'a> {
    pub(super) below: &'a Arc<Below>,
    pub(super) path: &'a [u8],
    pub(super) need: Need,
    pub(super) whose: Folder,
    pub(super) onto: Onto,
}

/// Writes the intact chunks to a file beside `to`'s path, and returns the missing ranges. `None` if
/// the source was neither a file nor a stream, or no chunk is intact. Calls `taken` with the length
/// of each chunk.
pub(super) fn pieces(
    mut input: Input,
    place: &Path,
    to: &Beside<'_>,
    taken: &mut dyn FnMut(u64),
) -> Result<Option<FileProblem>, FileProblem> {
    let (meta, full) = (input.meta().clone(), input.chunk_bytes() as u64);
    let ranges = match meta.kind {
        Kind::File => meta.ranges.clone(),
        // The length of a stream is unknown.
        Kind::Stream => vec![Range { offset: 0, bytes: u64::MAX }],
        _ => return Ok(None),
    };
    let path = [to.path, DAMAGED.as_bytes()].concat();
    let damaged = to.below.place(&path);
    let made = temporary(to.below, &path, to.need, to.whose).map_err(FileProblem::system(&damaged))?;
    let file = &made.file;
    let (mut places, mut missing, mut right, mut ended) = (Places::new(&ranges), Vec::new(), false, false);
    // A cut file ends this loop, and so does a read error.
    while let Ok(Some((chunk, last))) = input.next(place) {
        ended = last;
        taken(chunk.bytes() as u64);
        let Some(Ok(text)) = process(&[&chunk], &RingGcm).pop() else {
            note(&mut places, if last { u64::MAX } else { full }, &mut missing);
            continue;
        };
        right = true;
        write_at_places(file, &mut places, &text).map_err(FileProblem::system(&damaged))?;
    }
    if !ended || meta.kind == Kind::File {
        note(&mut places, u64::MAX, &mut missing);
    }
    if !right {
        return Ok(None);
    }
    if meta.kind == Kind::File {
        let described = file.set_len(meta.bytes).and_then(|()| describe(file, &meta));
        described.map_err(FileProblem::system(&damaged))?;
    }
    file.sync_all().map_err(FileProblem::system(&damaged))?;
    made.part.name(&path, to.onto)?;
    Ok(Some(FileProblem::Damaged { name: damaged.display().to_string(), missing: Missing(missing) }))
}
