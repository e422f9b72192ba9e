//! The sealed files of `vectors/seal/v1`: these seeds give the same bytes every time.

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use tobari_seal::*;

/// One file.
pub(crate) struct Case {
    /// Its name in the folder.
    pub(crate) name: &'static str,
    /// The seed of its randomness, 32 times.
    pub(crate) seed: u8,
    /// The suite.
    pub(crate) suite: Suite,
    /// The size of a chunk, as a power of two.
    pub(crate) chunk_log2: u8,
    /// About the source.
    pub(crate) meta: Meta,
    /// Bytes of content: byte `i` is `31 i + ⌊i / 251⌋` modulo 256.
    pub(crate) bytes: usize,
}

/// The passphrase of the cases whose name ends with `passphrase`.
pub(crate) const PASSPHRASE: &[u8] = "päss phrase".as_bytes();

pub(crate) fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + at / 251) as u8).collect()
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (suite, at) in [(Suite::Gcm, 0), (Suite::CbcHmac, 1)] {
        let mut case = |names: [&'static str; 2], seed, meta, bytes| {
            cases.push(Case { name: names[at], seed, suite, chunk_log2: 12, meta, bytes });
        };
        let modified = Time { seconds: 1_700_000_000, nanoseconds: 123_456_789 };
        let file = |bytes| Meta { mode: 0o640, modified, ..Meta::new(Kind::File, b"dir/file.txt", bytes) };
        case(["gcm-empty", "cbc-empty"], 1, file(0), 0);
        case(["gcm-short", "cbc-short"], 2, file(11), 11);
        case(["gcm-chunks", "cbc-chunks"], 3, file(9000), 9000);
        case(["gcm-full", "cbc-full"], 4, file(8192), 8192);
        let ranges = vec![Range { offset: 4096, bytes: 5 }, Range { offset: 1 << 33, bytes: 7 }];
        case(["gcm-sparse", "cbc-sparse"], 5, Meta { ranges, ..file(1 << 34) }, 12);
        case(["gcm-link", "cbc-link"], 6, Meta::new(Kind::Symlink, b"link", 6), 6);
        case(["gcm-folder", "cbc-folder"], 7, Meta::new(Kind::Directory, b"", 0), 0);
        case(["gcm-stream", "cbc-stream"], 8, Meta::new(Kind::Stream, b"", 0), 5000);
        case(["gcm-passphrase", "cbc-passphrase"], 9, file(20), 20);
    }
    cases
}

/// The sealed file of a case. Its key file is 32 bytes of 7.
pub(crate) fn seal(case: &Case) -> Result<Vec<u8>, SealError> {
    let mut rng = ChaCha20Rng::from_seed([case.seed; 32]);
    let (file, set) = (KeyFile::from_bytes(&[7; 32])?, SetKey::random(&mut rng));
    let mut stanzas = vec![Stanza::for_key_file(&file, &set, &mut rng)?];
    if case.name.ends_with("passphrase") {
        let cost = PassphraseCost { memory_kib: 8192, passes: 1, lanes: 1 };
        stanzas.insert(0, Stanza::for_passphrase(PASSPHRASE, cost, &set, &mut rng)?);
    }
    let layout = Layout::with_chunks(case.suite, case.chunk_log2)?;
    let (mut sealing, mut bytes) = Sealing::begin(&set, &Stanzas::new(stanzas)?, layout, &case.meta, &mut rng)?;
    let content = content(case.bytes);
    let count = content.len().div_ceil(layout.chunk_bytes()).max(1);
    for at in 0..count {
        let text = content.chunks(layout.chunk_bytes()).nth(at).unwrap_or_default();
        let chunk = sealing.chunk(text.to_vec(), at + 1 == count, &mut rng)?;
        for sealed in process(&[&chunk], &PortableGcm) {
            let sealed = sealed?;
            sealing.sealed(&sealed)?;
            bytes.extend(sealed);
        }
    }
    bytes.extend(sealing.finish(&mut rng)?.0);
    Ok(bytes)
}
