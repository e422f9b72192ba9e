//! Reading of a sealed file from its start.

use super::below::Below;
use super::source::{Content, read_full};
use super::{FileProblem, Keys};
use crate::dispatch::RingGcm;
use bytes::Bytes;
use std::io::Read;
use std::path::Path;
use tobari_seal::{
    Chunk, Entry, FIXED_BYTES, Head, Identity, Kind, Meta, Next, Opening, SealError, SetKey, Stanzas, head_bytes,
    process,
};

/// A sealed file with a verified head, read from its first chunk on.
pub(super) struct Input {
    file: Box<dyn Read>,
    opening: Opening,
    /// Bytes read but not yet handed out.
    ahead: Vec<u8>,
    ended: bool,
}

impl Input {
    pub(super) fn open(
        mut file: Box<dyn Read>,
        place: &Path,
        unwrap: impl FnOnce(&Head) -> Result<Option<SetKey>, FileProblem>,
    ) -> Result<(Self, Stanzas, SetKey), FileProblem> {
        let (system, seal) = (|error| FileProblem::system(place)(error), |error| FileProblem::seal(place)(error));
        let mut start = read_full(&mut file, FIXED_BYTES).map_err(system)?;
        let fixed = start.first_chunk().ok_or(SealError::Truncated).map_err(seal)?;
        let length = head_bytes(fixed).map_err(seal)?;
        start.extend(read_full(&mut file, length - FIXED_BYTES).map_err(system)?);
        let head = Head::decode(&start).map_err(seal)?;
        let key = unwrap(&head)?.ok_or_else(|| FileProblem::NoKey { name: place.display().to_string() })?;
        let opening = Opening::with_key(&head, &key).map_err(seal)?;
        Ok((Self { file, opening, ahead: Vec::new(), ended: false }, head.stanzas().clone(), key))
    }

    /// The record about the source.
    pub(super) fn meta(&self) -> &Meta {
        self.opening.meta()
    }

    /// Bytes of content in every chunk but the last.
    pub(super) fn chunk_bytes(&self) -> usize {
        self.opening.layout().chunk_bytes()
    }

    /// The next chunk, or `None` at the end of the file.
    pub(super) fn next(&mut self, place: &Path) -> Result<Option<(Chunk, bool)>, FileProblem> {
        loop {
            match self.opening.next(self.ahead.len(), self.ended).map_err(FileProblem::seal(place))? {
                Next::Need(bytes) => {
                    let missing = bytes - self.ahead.len();
                    let more = read_full(&mut self.file, missing).map_err(FileProblem::system(place))?;
                    self.ended = more.len() < missing;
                    self.ahead.extend(more);
                }
                Next::Chunk { bytes, last } => {
                    let rest = self.ahead.split_off(bytes);
                    let sealed = std::mem::replace(&mut self.ahead, rest);
                    let chunk = self.opening.chunk(sealed, last).map_err(FileProblem::seal(place))?;
                    return Ok(Some((chunk, last)));
                }
                Next::End => return Ok(None),
            }
        }
    }

    /// The state that verifies the end, and the end's bytes.
    pub(super) fn into_end(self) -> (Opening, Vec<u8>) {
        (self.opening, self.ahead)
    }

    /// Decrypts all chunks on this thread: for small files, and the list.
    pub(super) fn each(
        mut self,
        place: &Path,
        mut take: impl FnMut(Bytes) -> Result<(), FileProblem>,
    ) -> Result<Identity, FileProblem> {
        let mut content = 0;
        while let Some((chunk, _)) = self.next(place)? {
            for text in process(&[&chunk], &RingGcm) {
                let text = text.map_err(FileProblem::seal(place))?;
                content += text.len() as u64;
                take(text)?;
            }
        }
        self.opening.finish(&self.ahead, content).map_err(FileProblem::seal(place))
    }
}

/// The key of a set and its stanzas, from the set's verified mark. More files will be sealed under
/// this key, so only a key file or passphrase may unwrap it.
pub(super) fn key_to_continue(set: &Below, keys: &Keys) -> Result<(SetKey, Stanzas), FileProblem> {
    let mark = &set.place(super::SET.as_bytes());
    let file = set.file(super::SET.as_bytes()).map_err(FileProblem::system(mark))?;
    let ours = |head: &Head| match keys.unwrap_own(head.stanzas())? {
        Some(key) => Ok(Some(key)),
        None => Err(FileProblem::NotOurs { name: mark.display().to_string() }),
    };
    let (input, stanzas, key) = Input::open(Box::new(file), mark, ours)?;
    if input.opening.meta().kind != Kind::Set {
        return Err(FileProblem::List {
            name: mark.display().to_string(),
            expected: "the mark of a set, found another file",
        });
    }
    input.each(mark, |_| Ok(()))?;
    Ok((key, stanzas))
}

/// The identity of a sealed file, if it is whole and has the record and the content of the source.
pub(super) fn sealed_content_is(
    set: &Below,
    name: &str,
    key: &SetKey,
    meta: &Meta,
    content: &Content,
) -> Option<Identity> {
    let (file, place) = (set.file(name.as_bytes()).ok()?, &set.place(name.as_bytes()));
    let (input, ..) = Input::open(Box::new(file), place, |_| Ok(Some(key.clone()))).ok()?;
    if input.opening.meta() != meta {
        return None;
    }
    let (mut reader, mut same) = (content.reader(meta), true);
    let identity = input.each(place, |text| {
        same &= reader.read_content(text.len()).is_ok_and(|source| source == text);
        if same { Ok(()) } else { Err(FileProblem::Changed { name: String::new() }) }
    });
    // The source must end here, too.
    identity.ok().filter(|_| same && reader.read_content(1).is_ok_and(|rest| rest.is_empty()))
}

/// The list's entry for a sealed file whose source cannot be read now. `None` unless the whole file
/// decrypts under the set's key, and its path gives the file's name.
pub(super) fn stale_entry(set: &Below, name: &str, key: &SetKey) -> Option<Entry> {
    let (file, place) = (set.file(name.as_bytes()).ok()?, &set.place(name.as_bytes()));
    let (input, ..) = Input::open(Box::new(file), place, |_| Ok(Some(key.clone()))).ok()?;
    let meta = input.meta().clone();
    let is_source = matches!(meta.kind, Kind::File | Kind::Directory | Kind::Symlink);
    if !is_source || key.output_name(&meta.path).ok()? != name {
        return None;
    }
    let mut bytes = 0;
    let identity = input.each(place, |text| {
        bytes += text.len() as u64;
        Ok(())
    });
    Some(Entry {
        kind: meta.kind,
        path: meta.path,
        name: name.to_owned(),
        identity: identity.ok()?,
        bytes,
        stale: true,
    })
}

/// The path of a sealed file's source, if the file's head decrypts under the set's key.
pub(super) fn sealed_path(set: &Below, name: &str, key: &SetKey) -> Option<Vec<u8>> {
    let (file, place) = (set.file(name.as_bytes()).ok()?, &set.place(name.as_bytes()));
    let (input, ..) = Input::open(Box::new(file), place, |_| Ok(Some(key.clone()))).ok()?;
    Some(input.meta().path.clone())
}
