//! Folders and streams decrypt to their source, and every change is detected.

#![allow(clippy::unwrap_used, reason = "a test")]
#![cfg(linux_64)]

#[cfg(feature = "age")]
mod age;
mod alone;
mod faults;
mod unfinished;

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Cursor;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tempfile::{TempDir, tempdir};
use tobari_plan::dispatch::{Cost, Limits, Model, Policy};
use tobari_seal::{Chunk, Gcm, KeyFile, Kind, Layout, Meta, PassphraseCost, Rooms, Suite};
use tobari_seal_files::dispatch::{Module, ModuleError, Options, Pool, RingGcm};
use tobari_seal_files::{Destination, FileProblem, Keys, MANIFEST, Opened, Reader, SET, Sealed, Target, Writer};
use zeroize::Zeroizing;

fn pool() -> Pool {
    let model = Some(Model::cpu_only(Cost::linear(100.0, 100.0, 0.1)));
    Pool::start(Options { cpu_workers: 2, model, ..Options::new() }).unwrap()
}

fn keys() -> Keys {
    Keys::new(vec![KeyFile::from_bytes(&[7; 32]).unwrap()], Vec::new())
}

fn layout() -> Layout {
    Layout::with_chunks(Suite::Gcm, 12).unwrap()
}

fn seal_with(source: &Path, set: &Path, seed: u8, replace: bool, layout: Layout) -> Result<Sealed, FileProblem> {
    let (pool, keys, mut rng) = (pool(), keys(), ChaCha20Rng::from_seed([seed; 32]));
    let mut writer = Writer::new(&pool, &keys, layout, &mut rng)?;
    writer.folder(source, set, &keys, replace, &mut |_| ())
}

fn seal(source: &Path, set: &Path, seed: u8, replace: bool) -> Result<Sealed, FileProblem> {
    seal_with(source, set, seed, replace, layout())
}

fn open(set: &Path, target: Option<&Path>) -> Result<Opened, FileProblem> {
    open_over(set, target, false)
}

fn open_over(set: &Path, target: Option<&Path>, replace: bool) -> Result<Opened, FileProblem> {
    let mut rng = ChaCha20Rng::from_seed([99; 32]);
    Reader::new(&pool(), &keys()).set(set, target, replace, &mut rng, &mut |_| ())
}

fn words(problems: &[FileProblem]) -> String {
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}

/// A folder with one source of every kind.
fn folder() -> TempDir {
    let root = tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    fs::create_dir_all(at("sub/deeper")).unwrap();
    fs::create_dir(at("empty folder")).unwrap();
    fs::write(at("empty"), b"").unwrap();
    fs::write(at("sub/one byte"), b"x").unwrap();
    fs::write(at("sub/deeper/chunks"), (0..50_000).map(|at| (at / 3) as u8).collect::<Vec<_>>()).unwrap();
    fs::write(at("full"), vec![5; 8192]).unwrap();
    fs::write(root.path().join(std::ffi::OsStr::from_bytes(b"not \xff UTF-8\n")), b"name").unwrap();
    let sparse = File::create(at("sparse")).unwrap();
    sparse.write_all_at(b"middle", 3 << 20).unwrap();
    sparse.set_len(9 << 20).unwrap();
    symlink("../nowhere/at all", at("sub/link")).unwrap();
    fs::set_permissions(at("full"), fs::Permissions::from_mode(0o640)).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    File::open(at("full")).unwrap().set_modified(time).unwrap();
    File::open(at("sub/deeper")).unwrap().set_modified(time).unwrap();
    fs::set_permissions(at("sub/deeper"), fs::Permissions::from_mode(0o750)).unwrap();
    root
}

/// Path, kind, permissions, time, and content or target of everything in a folder. Links have
/// neither permissions nor time.
fn described(root: &Path) -> Vec<(PathBuf, String, Vec<u8>)> {
    let (mut out, mut left) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(path) = left.pop() {
        let (place, metadata) = (root.join(&path), fs::symlink_metadata(root.join(&path)).unwrap());
        let times = format!("{:o} {} {}", metadata.mode(), metadata.mtime(), metadata.mtime_nsec());
        let (text, content) = match metadata.file_type() {
            kind if kind.is_symlink() => {
                ("link".to_owned(), fs::read_link(&place).unwrap().as_os_str().as_bytes().to_vec())
            }
            kind if kind.is_dir() => {
                left.extend(fs::read_dir(&place).unwrap().map(|entry| path.join(entry.unwrap().file_name())));
                (times, Vec::new())
            }
            _ => (times, fs::read(&place).unwrap()),
        };
        out.push((path, text, content));
    }
    out.sort();
    out
}

/// Every sealed file of a set, without the mark and the list.
fn sealed_files(set: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(set).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let mut files: Vec<_> =
        folders.flat_map(|folder| fs::read_dir(folder).unwrap()).map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn a_folder_comes_back_with_names_times_permissions_links_and_holes() {
    let source = folder();
    for suite in [Suite::Gcm, Suite::CbcHmac] {
        let (set, out) = (tempdir().unwrap(), tempdir().unwrap());
        let layout = Layout::with_chunks(suite, 12).unwrap();
        let sealed = seal_with(source.path(), set.path(), 1, false, layout).unwrap();
        assert_eq!((sealed.entries, sealed.kept, words(&sealed.problems)), (11, 0, String::new()));
        let verified = open(set.path(), None).unwrap();
        assert_eq!((verified.entries, words(&verified.problems)), (11, String::new()));
        let opened = open(set.path(), Some(out.path())).unwrap();
        assert_eq!((opened.entries, opened.bytes, words(&opened.problems)), (11, sealed.bytes, String::new()));
        assert_eq!(described(out.path()), described(source.path()));
        let blocks = fs::metadata(out.path().join("sparse")).unwrap().blocks();
        assert!(blocks <= fs::metadata(source.path().join("sparse")).unwrap().blocks() + 64, "{blocks} blocks");
        // No name and no content is visible.
        for file in sealed_files(set.path()) {
            let bytes = fs::read(&file).unwrap();
            for word in [&b"deeper"[..], b"one byte", b"middle", b"nowhere"] {
                assert!(!bytes.windows(word.len()).any(|window| window == word), "{}", file.display());
            }
        }
        let mut found = Vec::new();
        Reader::new(&pool(), &keys()).list(set.path(), |entry| found.push((entry.kind, entry.path))).unwrap();
        assert_eq!((found.len(), &found[0]), (11, &(Kind::Directory, Vec::new())));
    }
}

#[test]
fn what_was_altered_dropped_added_or_put_back_is_found_out() {
    let (source, set, out) = (folder(), tempdir().unwrap(), tempdir().unwrap());
    seal(source.path(), set.path(), 2, false).unwrap();
    let files = sealed_files(set.path());
    let before: Vec<_> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    // An update: one file has changed, and its old sealed file is restored.
    fs::write(source.path().join("full"), vec![6; 8192]).unwrap();
    let again = seal(source.path(), set.path(), 3, true).unwrap();
    assert_eq!((again.entries, again.kept, words(&again.problems)), (11, 10, String::new()));
    let changed: Vec<_> = (0..files.len()).filter(|at| fs::read(&files[*at]).unwrap() != before[*at]).collect();
    assert_eq!(changed.len(), 1);
    let new = fs::read(&files[changed[0]]).unwrap();
    fs::write(&files[changed[0]], &before[changed[0]]).unwrap();
    let problem = words(&open(set.path(), None).unwrap().problems);
    assert!(problem.contains("found another or an older one"), "{problem}");
    fs::write(&files[changed[0]], new).unwrap();
    assert_eq!(words(&open(set.path(), None).unwrap().problems), "");
    // A flipped bit, a file in another's place, a missing file, and an added one.
    let others: Vec<_> = (0..files.len()).filter(|at| *at != changed[0]).take(4).collect();
    let mut flipped = before[others[0]].clone();
    let middle = flipped.len() - 60;
    flipped[middle] ^= 1;
    fs::write(&files[others[0]], flipped).unwrap();
    fs::write(&files[others[1]], &before[others[2]]).unwrap();
    fs::remove_file(&files[others[3]]).unwrap();
    fs::write(files[others[0]].with_file_name("0123456789abcdef0123456789abcd.seal"), &before[others[2]]).unwrap();
    let opened = open(set.path(), Some(out.path())).unwrap();
    let problem = words(&opened.problems);
    assert_eq!((opened.entries, opened.problems.len()), (8, 4), "{problem}");
    for part in ["as it was sealed", "the path that the list has", "No such file", "only files that the list names"] {
        assert!(problem.contains(part), "{part}: {problem}");
    }
    // No unverified file remains, under any name.
    let left = described(out.path()).iter().filter(|(path, ..)| path.to_string_lossy().contains("tobari-part")).count();
    assert_eq!(left, 0);
}

#[test]
fn an_unfinished_set_is_continued_and_only_what_is_right_is_kept() {
    let (source, set) = (folder(), tempdir().unwrap());
    seal(source.path(), set.path(), 4, false).unwrap();
    let files = sealed_files(set.path());
    // The state after a killed run: no list, a part of a file, and some files missing. In addition,
    // one file with a flipped bit, and one source with other content of the same length and time.
    fs::remove_file(set.path().join(MANIFEST)).unwrap();
    fs::remove_file(&files[1]).unwrap();
    let mut flipped = fs::read(&files[2]).unwrap();
    *flipped.last_mut().unwrap() ^= 0x80;
    fs::write(&files[2], flipped).unwrap();
    let changed = source.path().join("sub/deeper/chunks");
    let time = fs::metadata(&changed).unwrap().modified().unwrap();
    let file = fs::OpenOptions::new().write(true).open(&changed).unwrap();
    file.write_all_at(b"!", 20_000).unwrap();
    file.set_modified(time).unwrap();
    let salts =
        |set: &Path| sealed_files(set).iter().map(|f| fs::read(f).unwrap()[14..46].to_vec()).collect::<Vec<_>>();
    let before = salts(set.path());
    fs::write(files[0].with_file_name(".tobari-part-abc"), b"half").unwrap();
    assert!(open(set.path(), None).is_err(), "there is no list");
    let sealed = seal(source.path(), set.path(), 5, false).unwrap();
    assert_eq!((sealed.entries, words(&sealed.problems)), (11, String::new()));
    assert!((8..=9).contains(&sealed.kept), "{}: the changed one may be one of the others", sealed.kept);
    assert!(!files[0].with_file_name(".tobari-part-abc").exists());
    let out = tempdir().unwrap();
    assert_eq!(words(&open(set.path(), Some(out.path())).unwrap().problems), "");
    assert_eq!(described(out.path()), described(source.path()));
    // Files sealed anew have a new salt, and all files decrypt with the set's key.
    let after = salts(set.path());
    assert_eq!(after.iter().filter(|salt| before.contains(salt)).count() as u64, sealed.kept);
}

#[test]
fn nothing_is_replaced_unless_asked_and_sources_that_are_gone_leave_the_set() {
    let (source, set) = (folder(), tempdir().unwrap());
    fs::write(set.path().join("mine"), b"").unwrap();
    assert!(matches!(seal(source.path(), set.path(), 6, false), Err(FileProblem::NotASet { .. })));
    fs::remove_file(set.path().join("mine")).unwrap();
    seal(source.path(), set.path(), 6, false).unwrap();
    assert!(matches!(seal(source.path(), set.path(), 7, false), Err(FileProblem::Finished { .. })));
    let full = tempdir().unwrap();
    fs::write(full.path().join("mine"), b"mine").unwrap();
    assert!(matches!(open(set.path(), Some(full.path())), Err(FileProblem::Exists { .. })));
    fs::remove_file(source.path().join("full")).unwrap();
    let again = seal(source.path(), set.path(), 8, true).unwrap();
    assert_eq!((again.entries, again.removed), (10, 1));
    assert_eq!(words(&open(set.path(), None).unwrap().problems), "");
}

#[test]
fn another_key_opens_nothing_and_without_the_list_the_files_can_be_salvaged() {
    let (source, set, out) = (folder(), tempdir().unwrap(), tempdir().unwrap());
    seal(source.path(), set.path(), 9, false).unwrap();
    let (pool, other) = (pool(), Keys::new(vec![KeyFile::from_bytes(&[8; 32]).unwrap()], Vec::new()));
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    let refused = Reader::new(&pool, &other).set(set.path(), None, false, &mut rng, &mut |_| ());
    assert!(matches!(refused, Err(FileProblem::NoKey { .. })));
    fs::remove_file(set.path().join(MANIFEST)).unwrap();
    fs::remove_file(set.path().join(SET)).unwrap();
    let salvaged = Reader::new(&pool, &keys()).salvage(set.path(), out.path(), false, &mut rng, &mut |_| ()).unwrap();
    assert_eq!((salvaged.entries, words(&salvaged.problems)), (11, String::new()));
    assert_eq!(described(out.path()), described(source.path()));
}

#[test]
fn of_a_damaged_file_all_chunks_that_are_right_are_salvaged_and_the_missing_ranges_are_listed() {
    let (source, set, out) = (folder(), tempdir().unwrap(), tempdir().unwrap());
    seal(source.path(), set.path(), 11, false).unwrap();
    let (pool, keys, mut rng) = (pool(), keys(), ChaCha20Rng::from_seed([1; 32]));
    let (reader, mut names) = (Reader::new(&pool, &keys), HashMap::new());
    reader.list(set.path(), |found| drop(names.insert(found.path, set.path().join(found.name)))).unwrap();
    let alter = |path: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let place = &names[path.as_bytes()];
        let mut bytes = fs::read(place).unwrap();
        change(&mut bytes);
        fs::write(place, bytes).unwrap();
    };
    // Chunks have 4,096 bytes and a tag of 16; the trailer and the file's MAC follow the last one.
    let end = |bytes: &[u8], content: usize| bytes.len() - content - 16 * content.div_ceil(4096);
    alter("sub/deeper/chunks", &|bytes| {
        let first = end(bytes, 50_000) - {
            let (trailer, mac) = (12 + 16, 32);
            trailer + mac
        };
        bytes[first + 4112 * 3 + 77] ^= 1;
        bytes[first + 4112 * 4 + 1] ^= 8;
        bytes[first + 4112 * 9] ^= 128;
    });
    // cut within its second chunk
    alter("full", &|bytes| bytes.truncate(bytes.len() - 60 - 2000));
    alter("sub/one byte", &|bytes| bytes[20] ^= 1);
    let salvaged = reader.salvage(set.path(), out.path(), false, &mut rng, &mut |_| ()).unwrap();
    let text = words(&salvaged.problems);
    assert!(
        text.contains(
            "chunks.damaged: expected the whole file, found all of it but the bytes 12288 to 20480, 36864 to 40960\n"
        ),
        "{text}"
    );
    assert!(
        text.contains("full.damaged: expected the whole file, found all of it but the bytes 4096 to 8192\n"),
        "{text}"
    );
    assert_eq!((salvaged.entries, salvaged.problems.len()), (8, 5), "{text}");
    let original = fs::read(source.path().join("sub/deeper/chunks")).unwrap();
    let found = fs::read(out.path().join("sub/deeper/chunks.damaged")).unwrap();
    for (at, (original, found)) in original.iter().zip(&found).enumerate() {
        let missing = (12_288..20_480).contains(&at) || (36_864..40_960).contains(&at);
        assert_eq!(*found, if missing { 0 } else { *original }, "byte {at}");
    }
    assert_eq!(found.len(), original.len());
    assert!(!out.path().join("sub/deeper/chunks").exists() && !out.path().join("full").exists());
    assert!(!out.path().join("sub/one byte.damaged").exists(), "nothing of it opens");
    // A single file, which never replaces another.
    let alone = out.path().join("alone");
    let damaged = reader.pieces(&names[&b"full"[..]], &alone, false, &mut |_| ()).unwrap();
    assert!(matches!(damaged, Some(FileProblem::Damaged { missing, .. }) if missing.0 == [[4096, 8192]]));
    assert!(matches!(reader.pieces(&names[&b"full"[..]], &alone, false, &mut |_| ()), Err(FileProblem::Exists { .. })));
}

#[test]
fn a_pipe_is_left_out_and_said_and_the_rest_is_sealed() {
    let (source, set) = (folder(), tempdir().unwrap());
    let status = std::process::Command::new("mkfifo").arg(source.path().join("pipe")).status().unwrap();
    assert!(status.success());
    let sealed = seal(source.path(), set.path(), 10, false).unwrap();
    assert_eq!((sealed.entries, sealed.problems.len()), (11, 1));
    assert!(words(&sealed.problems).contains("found something else: left out"));
    assert_eq!(words(&open(set.path(), None).unwrap().problems), "");
}

#[test]
fn a_set_inside_its_source_is_not_sealed_and_neither_is_what_lies_in_it() {
    let source = folder();
    let set = source.path().join("sub/deeper/set");
    let sealed = seal(source.path(), &set, 12, false).unwrap();
    assert_eq!((sealed.entries, words(&sealed.problems).as_str()), (11, ""));
    fs::remove_file(set.join(MANIFEST)).unwrap();
    assert_eq!(seal(source.path(), &set, 13, true).unwrap().entries, 11);
    let inner = fs::read_dir(&set).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir()).unwrap();
    assert_eq!(seal(&inner, &set, 14, true).unwrap().entries, 0, "a part of the set is not sealed into it");
}

#[test]
fn a_stream_of_any_length_comes_back_and_a_cut_one_gives_a_verified_beginning_and_an_error() {
    let (pool, cost) = (pool(), PassphraseCost { memory_kib: 8192, passes: 1, lanes: 1 });
    let keys = Keys::new(Vec::new(), vec![Zeroizing::new(b"pass".to_vec())]).with_cost(cost);
    let folder = tempdir().unwrap();
    for bytes in [0, 1, 4095, 4096, 4097, 8192, 100_000] {
        let (mut rng, target) = (ChaCha20Rng::from_seed([11; 32]), folder.path().join(format!("{bytes}.seal")));
        let content: Vec<u8> = (0..bytes).map(|at| (at / 11) as u8).collect();
        let meta = Meta::new(Kind::Stream, b"", 0);
        let mut writer = Writer::new(&pool, &keys, layout(), &mut rng).unwrap();
        writer.stream(&mut content.as_slice(), &meta, Destination::File(&target, false), &mut |_| ()).unwrap();
        let again = writer.stream(&mut content.as_slice(), &meta, Destination::File(&target, false), &mut |_| ());
        assert!(matches!(again, Err(FileProblem::Exists { .. })));
        let (sealed, mut out) = (fs::read(&target).unwrap(), Vec::new());
        let reader = Reader::new(&pool, &keys);
        let whole = Box::new(Cursor::new(sealed.clone()));
        reader.one(whole, &target, Target::Stream(&mut out), &mut rng, &mut |_| ()).unwrap();
        assert!(out == content, "{bytes}");
        let mut out = Vec::new();
        let cut = Box::new(Cursor::new(sealed[..sealed.len() - 50].to_vec()));
        assert!(reader.one(cut, &target, Target::Stream(&mut out), &mut rng, &mut |_| ()).is_err());
        assert!(content.starts_with(&out));
        let file = folder.path().join(format!("{bytes}.out"));
        let cut = Box::new(Cursor::new(sealed[..sealed.len() - 1].to_vec()));
        assert!(reader.one(cut, &target, Target::File(&file, false), &mut rng, &mut |_| ()).is_err() && !file.exists());
        let whole = Box::new(Cursor::new(sealed));
        reader.one(whole, &target, Target::File(&file, false), &mut rng, &mut |_| ()).unwrap();
        assert!(fs::read(&file).unwrap() == content);
    }
}

/// All texts that modules received, by key and nonce.
type BatchLog = Arc<Mutex<HashMap<(Vec<u8>, Vec<u8>), Vec<Vec<u8>>>>>;

/// A module that records its input, and dies with an unfinished batch when the source changes.
struct Recorder {
    seen: BatchLog,
    /// The batch at which it dies. With 0 it never dies, and begins after another module has died.
    batches: usize,
    died: Arc<AtomicBool>,
    source: PathBuf,
}

impl Module for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }

    fn label(&self) -> &'static str {
        "test"
    }

    fn takes(&self, _: &Chunk) -> bool {
        true
    }

    fn seal(&mut self, chunks: &[&Chunk]) -> Result<Rooms, ModuleError> {
        while self.batches == 0 && !self.died.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut seen = self.seen.lock().unwrap();
        let mut rooms = Rooms::new(chunks).unwrap();
        for (chunk, room) in chunks.iter().zip(rooms.answers()) {
            let parts = chunk.for_module().unwrap();
            let texts = seen.entry((parts.key.to_vec(), parts.nonce().to_vec())).or_default();
            texts.push(parts.text.to_vec());
            let (text, end) = room.split_at_mut(parts.text.len());
            text.copy_from_slice(parts.text);
            let (key, nonce) = (parts.key.try_into().unwrap(), parts.nonce().try_into().unwrap());
            end.copy_from_slice(&RingGcm.seal(key, nonce, parts.data, text));
        }
        self.batches = self.batches.saturating_sub(1);
        if self.batches > 0 || self.died.swap(true, SeqCst) {
            return Ok(rooms);
        }
        let length = fs::metadata(&self.source).unwrap().len() as usize;
        // Replaced at once, as a half-written file would be a state of the source, too.
        let new = self.source.parent().unwrap().with_extension("new");
        fs::write(&new, vec![0xee; length]).unwrap();
        fs::rename(new, &self.source).unwrap();
        Err(ModuleError::Gone("in a test".to_owned()))
    }
}

#[test]
fn a_source_that_changes_when_a_module_dies_never_has_two_plaintexts_under_one_nonce() {
    for batches in [1, 2, 5] {
        let (source, set, out) = (tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap());
        let place = source.path().join("changes");
        fs::write(&place, (0..3_000_000).map(|at| (at / 7) as u8).collect::<Vec<_>>()).unwrap();
        let (seen, died, before) = (BatchLog::default(), Arc::new(AtomicBool::new(false)), fs::read(&place).unwrap());
        let recorder = |batches| Recorder { seen: seen.clone(), batches, died: died.clone(), source: place.clone() };
        // The second module never dies, and gets the first one's chunks again.
        let modules = [recorder(batches), recorder(0)];
        let modules = modules.map(|module| Box::new(module) as Box<dyn Module>).into();
        let model = Some(Model::cpu_only(Cost::linear(100.0, 100.0, 0.1)));
        // No batch is late, however busy the machine is: else the CPU would process some itself.
        let limits = Limits { patience_ns: u64::MAX / 4, ..Limits::default() };
        let options = Options { policy: Policy::Module, cpu_workers: 1, modules, model, limits, ..Options::new() };
        let (pool, keys, mut rng) = (Pool::start(options).unwrap(), keys(), ChaCha20Rng::from_seed([77; 32]));
        let mut writer = Writer::new(&pool, &keys, layout(), &mut rng).unwrap();
        let sealed = writer.folder(source.path(), set.path(), &keys, false, &mut |_| ()).unwrap();
        assert_eq!(words(&sealed.problems), "");
        assert!(pool.report()[1].lost.is_some());
        let (seen, mut again) = (seen.lock().unwrap(), 0);
        for texts in seen.values() {
            assert!(texts.iter().all(|text| *text == texts[0]), "two plaintexts under one key and nonce");
            again += texts.len() - 1;
        }
        assert!(seen.len() > 700 && again > 0, "{} chunks, {again} of them twice", seen.len());
        // The published file is one state of the source, either before or after the change, and
        // not a mixture.
        assert_eq!(words(&open(set.path(), Some(out.path())).unwrap().problems), "");
        let found = fs::read(out.path().join("changes")).unwrap();
        assert!(found == before || found == fs::read(source.path().join("changes")).unwrap());
    }
}
