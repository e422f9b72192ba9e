//! Sealed files decrypt to their source, and altered files are rejected.

#![allow(clippy::unwrap_used, reason = "a test")]

mod cases;
mod format;
mod tampering;
mod vectors;

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use tobari_seal::*;

pub(crate) fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}

/// A key file, a set under it, and both suites with the smallest chunks.
pub(crate) struct Fixture {
    pub(crate) file: KeyFile,
    pub(crate) set: SetKey,
    pub(crate) stanzas: Stanzas,
    pub(crate) rng: ChaCha20Rng,
}

impl Fixture {
    pub(crate) fn new(seed: u8) -> Self {
        let mut rng = rng(seed);
        let (file, set) = (KeyFile::from_bytes(&[7; 32]).unwrap(), SetKey::random(&mut rng));
        let stanzas = Stanzas::new(vec![Stanza::for_key_file(&file, &set, &mut rng).unwrap()]).unwrap();
        Self { file, set, stanzas, rng }
    }

    /// The parts of a sealed file (head, chunks, end), and its identity.
    pub(crate) fn parts(&mut self, layout: Layout, meta: &Meta, content: &[u8]) -> (Vec<Vec<u8>>, Identity) {
        let (mut sealing, head) = Sealing::begin(&self.set, &self.stanzas, layout, meta, &mut self.rng).unwrap();
        let mut parts = vec![head];
        let count = content.len().div_ceil(layout.chunk_bytes()).max(1);
        for at in 0..count {
            let text = content.chunks(layout.chunk_bytes()).nth(at).unwrap_or_default();
            let chunk = sealing.chunk(text.to_vec(), at + 1 == count, &mut self.rng).unwrap();
            let sealed = process(&[&chunk], &PortableGcm).remove(0).unwrap();
            sealing.sealed(&sealed).unwrap();
            parts.push(sealed.to_vec());
        }
        let (end, identity) = sealing.finish(&mut self.rng).unwrap();
        parts.push(end);
        (parts, identity)
    }

    pub(crate) fn open(&self, bytes: &[u8]) -> Result<(Meta, Vec<u8>, Identity), (SealError, usize)> {
        open(bytes, &self.file)
    }
}

/// Opens a file: everything in it, or the error and the number of bytes opened before.
pub(crate) fn open(bytes: &[u8], file: &KeyFile) -> Result<(Meta, Vec<u8>, Identity), (SealError, usize)> {
    let start = bytes.first_chunk().ok_or((SealError::Truncated, 0))?;
    let length = head_bytes(start).map_err(|error| (error, 0))?;
    let (head, mut rest) = bytes.split_at_checked(length).ok_or((SealError::Truncated, 0))?;
    let head = Head::decode(head).map_err(|error| (error, 0))?;
    let mut opening = Opening::begin(&head, |stanza| stanza.open_with_key_file(file)).map_err(|error| (error, 0))?;
    let mut content = Vec::new();
    loop {
        let opened = content.len();
        match opening.next(rest.len(), true).map_err(|error| (error, opened))? {
            Next::Chunk { bytes, last } => {
                let (chunk, after) = rest.split_at(bytes);
                let chunk = opening.chunk(chunk.to_vec(), last).map_err(|error| (error, opened))?;
                let text = process(&[&chunk], &PortableGcm).remove(0).map_err(|error| (error, opened))?;
                content.extend(text);
                rest = after;
            }
            Next::End => {
                let (meta, length) = (opening.meta().clone(), content.len() as u64);
                let identity = opening.finish(rest, length).map_err(|error| (error, opened))?;
                return Ok((meta, content, identity));
            }
            Next::Need(_) => panic!("everything can be seen"),
        }
    }
}

pub(crate) fn layouts() -> [Layout; 2] {
    [Suite::Gcm, Suite::CbcHmac].map(|suite| Layout::with_chunks(suite, 12).unwrap())
}
