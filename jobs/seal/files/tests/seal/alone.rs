//! Single files: sealed alone, and files and links opened alone.

use super::*;
use tobari_seal_files::SetEntry;

fn seal_file(source: &Path, target: &Path, replace: bool) -> Result<Sealed, FileProblem> {
    let (pool, keys, mut rng) = (pool(), keys(), ChaCha20Rng::from_seed([31; 32]));
    Writer::new(&pool, &keys, layout(), &mut rng)?.file(source, Destination::File(target, replace), &mut |_| ())
}

fn look(sealed: &Path) -> Meta {
    Reader::new(&pool(), &keys()).look(Box::new(File::open(sealed).unwrap()), sealed).unwrap()
}

fn open_file(sealed: &Path, target: Target<'_>) -> Result<Opened, FileProblem> {
    let mut rng = ChaCha20Rng::from_seed([32; 32]);
    Reader::new(&pool(), &keys()).one(Box::new(File::open(sealed).unwrap()), sealed, target, &mut rng, &mut |_| ())
}

/// Permissions, time and content.
fn told(place: &Path) -> (u32, i64, i64, Vec<u8>) {
    let metadata = fs::symlink_metadata(place).unwrap();
    (metadata.mode(), metadata.mtime(), metadata.mtime_nsec(), fs::read(place).unwrap())
}

#[test]
fn a_file_sealed_alone_keeps_its_name_time_permissions_and_holes_and_a_pipe_gets_its_zeros() {
    let (source, out) = (folder(), tempdir().unwrap());
    symlink("full", source.path().join("alias")).unwrap();
    let (sealed, back) = (out.path().join("x.seal"), out.path().join("back"));
    for (path, name) in [
        ("full", "full"),
        ("sparse", "sparse"),
        ("empty", "empty"),
        ("sub/deeper/chunks", "chunks"),
        ("alias", "alias"),
    ] {
        let place = fs::canonicalize(source.path().join(path)).unwrap();
        let done = seal_file(&source.path().join(path), &sealed, true).unwrap();
        let meta = look(&sealed);
        assert_eq!((done.entries, meta.kind, &meta.path[..]), (1, Kind::File, name.as_bytes()));
        let opened = open_file(&sealed, Target::File(&back, true)).unwrap();
        assert_eq!((opened.entries, opened.bytes), (1, done.bytes), "{path}");
        assert!(told(&back) == told(&place), "{path}");
        let blocks = fs::metadata(&back).unwrap().blocks();
        assert!(blocks <= fs::metadata(&place).unwrap().blocks() + 64, "{path}: {blocks} blocks");
        let mut piped = Vec::new();
        open_file(&sealed, Target::Stream(&mut piped)).unwrap();
        assert!(piped == fs::read(&place).unwrap(), "{path}");
    }
    assert!(matches!(seal_file(&source.path().join("full"), &sealed, false), Err(FileProblem::Exists { .. })));
    assert!(matches!(open_file(&sealed, Target::File(&back, false)), Err(FileProblem::Exists { .. })));
}

#[test]
fn what_has_no_length_before_it_is_read_is_sealed_as_a_stream() {
    let out = tempdir().unwrap();
    let (pipe, sealed) = (out.path().join("pipe"), out.path().join("x.seal"));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::thread::scope(|scope| {
        scope.spawn(|| fs::write(&pipe, vec![3; 10_000]).unwrap());
        seal_file(&pipe, &sealed, false).unwrap();
    });
    let (mut piped, mut made_up) = (Vec::new(), Vec::new());
    open_file(&sealed, Target::Stream(&mut piped)).unwrap();
    assert!(look(&sealed).kind == Kind::Stream && piped == vec![3; 10_000]);
    // A file that reports a length of 0, but has content.
    seal_file(Path::new("/proc/version"), &sealed, true).unwrap();
    open_file(&sealed, Target::Stream(&mut made_up)).unwrap();
    assert!(look(&sealed).kind == Kind::Stream && made_up == fs::read("/proc/version").unwrap());
}

fn find(set: &Path, path: &str) -> SetEntry {
    let mut found = Vec::new();
    Reader::new(&pool(), &keys()).list(set, |entry| found.push(entry)).unwrap();
    found.into_iter().find(|entry| entry.path == path.as_bytes()).unwrap()
}

fn open_listed(set: &Path, found: &SetEntry, target: Target<'_>) -> Result<Opened, FileProblem> {
    let mut rng = ChaCha20Rng::from_seed([33; 32]);
    Reader::new(&pool(), &keys()).listed(set, found, target, &mut rng, &mut |_| ())
}

#[test]
fn one_file_of_a_set_opens_alone_if_it_is_the_one_that_the_list_names() {
    let (source, set, out) = (folder(), tempdir().unwrap(), tempdir().unwrap());
    seal(source.path(), set.path(), 41, false).unwrap();
    let back = out.path().join("back");
    open_listed(set.path(), &find(set.path(), "full"), Target::File(&back, false)).unwrap();
    assert!(told(&back) == told(&source.path().join("full")));
    let link = find(set.path(), "sub/link");
    assert!(matches!(open_listed(set.path(), &link, Target::File(&back, false)), Err(FileProblem::Exists { .. })));
    open_listed(set.path(), &link, Target::File(&back, true)).unwrap();
    assert_eq!(fs::read_link(&back).unwrap(), Path::new("../nowhere/at all"));
    let folder = open_listed(set.path(), &find(set.path(), "sub"), Target::File(&out.path().join("no"), false));
    assert!(matches!(folder, Err(FileProblem::List { .. })), "{:?}", folder.err());
    // Neither an older sealed file nor another one is accepted in its place.
    let place = set.path().join(find(set.path(), "full").name);
    let old = fs::read(&place).unwrap();
    fs::write(source.path().join("full"), b"new").unwrap();
    seal(source.path(), set.path(), 42, true).unwrap();
    let (found, other) = (find(set.path(), "full"), find(set.path(), "sub/one byte"));
    for wrong in [old, fs::read(set.path().join(&other.name)).unwrap()] {
        fs::write(&place, wrong).unwrap();
        let refused = open_listed(set.path(), &found, Target::File(&out.path().join("no"), false));
        assert!(matches!(refused, Err(FileProblem::List { .. })), "{:?}", refused.err());
    }
    assert!(!out.path().join("no").exists());
}

#[test]
fn links_are_replaced_when_that_is_asked_for_and_nothing_is_written_through_them() {
    let (source, set, out) = (folder(), tempdir().unwrap(), tempdir().unwrap());
    seal(source.path(), set.path(), 43, false).unwrap();
    open(set.path(), Some(out.path())).unwrap();
    let (link, victim) = (out.path().join("sub/link"), out.path().join("victim"));
    fs::write(&victim, b"untouched").unwrap();
    for in_the_way in 0..3 {
        fs::remove_file(&link).unwrap();
        match in_the_way {
            0 => symlink("elsewhere", &link).unwrap(),
            1 => fs::write(&link, b"a file").unwrap(),
            _ => symlink(&victim, &link).unwrap(),
        }
        let opened = open_over(set.path(), Some(out.path()), true).unwrap();
        assert_eq!((opened.entries, words(&opened.problems)), (11, String::new()));
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("../nowhere/at all"));
    }
    assert_eq!(fs::read(&victim).unwrap(), b"untouched");
    // A folder is not replaced: the run reports it and writes everything else.
    fs::remove_file(&link).unwrap();
    fs::create_dir(&link).unwrap();
    let opened = open_over(set.path(), Some(out.path()), true).unwrap();
    assert_eq!(opened.problems.len(), 1);
    assert!(words(&opened.problems).contains("sub/link"), "{}", words(&opened.problems));
}
