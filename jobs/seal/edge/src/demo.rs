//! Sealed files in the demonstration. The CPU and an emulated module seal a small folder; the
//! module is killed on the way. Then the folder is opened again and compared with the source.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Instant;
use tobari_command::demo::Line;
use tobari_command::output::Failure;
use tobari_command::randomness;
use tobari_plan::dispatch::Policy;
use tobari_seal::{KeyFile, Layout, Suite};
use tobari_seal_files::dispatch::{Emulated, EmulatedOptions, Options, Pool};
use tobari_seal_files::{Keys, Reader, Writer};

/// Copies of each clip: enough work for both engines.
const COPIES: usize = 12;
/// The most times that the folder is sealed until the module takes a part: on a busy machine the
/// CPU may be done before the module's process has run at all.
const TRIES: usize = 50;
/// The most bytes of the module in a second: slow enough to be at work when it is killed.
const MODULE_RATE: u64 = 100_000_000;

/// Writes the clips in folders, a link, an empty file, and an empty folder.
fn folder(root: &Path, clips: &[(&str, &[u8])]) -> Result<(), Failure> {
    for (at, (name, bytes)) in clips.iter().cycle().take(COPIES * clips.len()).enumerate() {
        let place = root.join(format!("{name}/{}", at % 4));
        fs::create_dir_all(&place)?;
        fs::write(place.join(format!("clip {at}.wav")), &bytes[at..])?;
    }
    fs::create_dir(root.join("nothing"))?;
    fs::write(root.join("empty"), b"")?;
    symlink("empty", root.join("link"))?;
    Ok(())
}

/// Path, kind and permissions, time and content of everything in a folder.
type Listing = Vec<(PathBuf, u32, i64, Vec<u8>)>;

fn listing(root: &Path) -> Result<Listing, Failure> {
    let (mut all, mut left) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(path) = left.pop() {
        let (place, metadata) = (root.join(&path), fs::symlink_metadata(root.join(&path))?);
        let (mut time, mut content) = (metadata.mtime(), Vec::new());
        if metadata.is_dir() {
            for entry in fs::read_dir(&place)? {
                left.push(path.join(entry?.file_name()));
            }
        } else if metadata.is_symlink() {
            // The times of links are not compared.
            (time, content) = (0, fs::read_link(&place)?.into_os_string().into_encoded_bytes());
        } else {
            content = fs::read(&place)?;
        }
        all.push((path, metadata.mode(), time, content));
    }
    all.sort();
    Ok(all)
}

/// Seals, kills, opens, compares.
pub fn folder_with_a_module_that_dies(clips: &[(&str, &[u8])]) -> Result<Line, Failure> {
    let all = tempfile::tempdir()?;
    let (source, back) = (all.path().join("source"), all.path().join("back"));
    folder(&source, clips)?;
    let mut rng = randomness::generator()?;
    let keys = Keys::new(vec![KeyFile::random(&mut rng)], Vec::new());
    let mut started = Instant::now();
    let module = Emulated::start(&EmulatedOptions { bytes_per_second: MODULE_RATE, ..EmulatedOptions::default() })?;
    let (process, killer) = (module.process(), module.killer()?);
    let options = Options { policy: Policy::Queue, cpu_workers: 1, modules: vec![Box::new(module)], ..Options::new() };
    let pool = Pool::start(options)?;
    let by_module = |pool: &Pool| pool.report().last().map_or(0, |engine| engine.done.items);
    let mut killed_after = None;
    let layout = Layout::with_chunks(Suite::Gcm, 12)?;
    let (mut tries, mut set) = (0, all.path().join("set"));
    let sealed = loop {
        let sealed = Writer::new(&pool, &keys, layout, &mut rng)?.folder(&source, &set, &keys, false, &mut |_| {
            let done = by_module(&pool);
            if killed_after.is_none() && done > 0 {
                killed_after = Some(done);
                killer.kill();
            }
        })?;
        tries += 1;
        if killed_after.is_some() || tries == TRIES {
            break sealed;
        }
        (set, started) = (all.path().join(format!("set {tries}")), Instant::now());
    };
    let opened = Reader::new(&pool, &keys).set(&set, Some(&back), false, &mut rng, &mut |_| ())?;
    let seconds = started.elapsed().as_secs_f64();
    let same = listing(&source)? == listing(&back)?;
    let whole = sealed.problems.is_empty() && opened.problems.is_empty() && opened.entries == sealed.entries;
    Ok(Line {
        job: "seal",
        mode: "module killed",
        right: same && whole && killed_after.is_some(),
        exact: same,
        seconds,
        server_saw_bytes: listing(&set)?.iter().map(|entry| entry.3.len() as u64).sum(),
        paper_seconds: f64::NAN,
        what: format!(
            "{} files, folders and links, {} bytes, sealed by the CPU and an emulated module (process {process}, killed after {} chunks); all are equal after unsealing",
            sealed.entries,
            sealed.bytes,
            killed_after.unwrap_or(0)
        ),
    })
}
