//! Cases that the format and the file system allow, and that once failed in this program.

use super::*;

#[test]
fn fault_2_paths_longer_than_a_system_call_takes_are_sealed_and_opened() {
    let (source, set, out) = (tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap());
    // Made and removed folder by folder: the path is too long for one call.
    let make =
        "i=0; while [ $i -lt 60 ]; do mkdir $(printf 'd%.0s' $(seq 200)); cd d*; i=$((i+1)); done; echo deep > file";
    let script = |folder: &Path, script: &str| {
        let done = std::process::Command::new("bash").args(["-c", script]).current_dir(folder).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    script(source.path(), make);
    let sealed = seal(source.path(), set.path(), 71, false).unwrap();
    assert_eq!((sealed.entries, words(&sealed.problems)), (62, String::new()));
    for _ in 0..2 {
        let opened = open(set.path(), Some(out.path())).unwrap();
        assert_eq!((opened.entries, words(&opened.problems)), (62, String::new()));
        let find = "i=0; while [ $i -lt 60 ]; do cd d*; i=$((i+1)); done; cat file";
        assert_eq!(script(out.path(), find), "deep\n");
    }
    let again = seal(source.path(), set.path(), 72, true).unwrap();
    assert_eq!((again.kept, words(&again.problems)), (62, String::new()));
}

#[test]
fn fault_6_a_link_gets_its_own_time_back() {
    let (source, set, out) = (tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap());
    symlink("nowhere", source.path().join("link")).unwrap();
    let touched = std::process::Command::new("touch")
        .args(["-h", "-d", "2001-02-03 04:05:06.789"])
        .arg(source.path().join("link"))
        .status();
    assert!(touched.unwrap().success());
    seal(source.path(), set.path(), 73, false).unwrap();
    open(set.path(), Some(out.path())).unwrap();
    let time = |root: &Path| fs::symlink_metadata(root.join("link")).unwrap().modified().unwrap();
    assert_eq!(time(out.path()), time(source.path()));
    assert!(time(out.path()) < SystemTime::now() - Duration::from_secs(1 << 25));
    // The same for a link that is opened alone.
    let alone = out.path().join("alone");
    let (pool, keys, mut rng, mut found) = (pool(), keys(), ChaCha20Rng::from_seed([74; 32]), None);
    let reader = Reader::new(&pool, &keys);
    reader.list(set.path(), |entry| found = Some(entry)).unwrap();
    reader.listed(set.path(), &found.unwrap(), Target::File(&alone, false), &mut rng, &mut |_| ()).unwrap();
    assert_eq!(fs::symlink_metadata(&alone).unwrap().modified().unwrap(), time(source.path()));
}

#[test]
fn fault_3_a_set_is_opened_again_over_what_an_interrupted_run_made_of_it_and_over_nothing_else() {
    let (source, set, out) = (folder(), tempdir().unwrap(), tempdir().unwrap());
    seal(source.path(), set.path(), 75, false).unwrap();
    open(set.path(), Some(out.path())).unwrap();
    // A part of the set exists, with a temporary file.
    fs::remove_file(out.path().join("full")).unwrap();
    fs::remove_file(out.path().join("sub/link")).unwrap();
    fs::write(out.path().join("sub/.tobari-part-1-2"), b"half").unwrap();
    assert_eq!(words(&open(set.path(), Some(out.path())).unwrap().problems), "");
    assert_eq!(described(out.path()), described(source.path()));
    // A file with other content is the user's.
    fs::write(out.path().join("full"), b"mine").unwrap();
    let problems = words(&open(set.path(), Some(out.path())).unwrap().problems);
    assert!(problems.contains("full") && problems.contains("--force"), "{problems}");
    assert_eq!(fs::read(out.path().join("full")).unwrap(), b"mine");
    // So is a folder with a name that the set does not have.
    fs::write(out.path().join("other"), b"mine").unwrap();
    assert!(matches!(open(set.path(), Some(out.path())), Err(FileProblem::Exists { .. })));
}

#[test]
fn fault_5_what_was_sealed_of_a_source_that_cannot_be_read_stays_although_the_set_was_unfinished() {
    let (source, set) = (folder(), tempdir().unwrap());
    seal(source.path(), set.path(), 76, false).unwrap();
    // An update was killed: the list is gone.
    fs::remove_file(set.path().join(MANIFEST)).unwrap();
    // A pipe in the place of a file shows that the file is gone, so its sealed file is removed.
    fs::remove_file(source.path().join("full")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(source.path().join("full")).status();
    assert!(made.unwrap().success());
    let again = seal(source.path(), set.path(), 77, true).unwrap();
    assert_eq!((again.entries, again.removed, again.stale.len(), again.problems.len()), (10, 1, 0, 1));
    let opened = open(set.path(), None).unwrap();
    assert_eq!((words(&opened.problems), opened.stale.len()), (String::new(), 0));
}

/// The storage restores an older sealed file, and waits for a run with an unreadable source.
#[test]
fn fault_5_an_older_file_that_was_put_back_is_not_listed_as_stale() {
    for (puts_back, removes_list) in [(false, false), (true, false), (true, true)] {
        let (source, set) = (tempdir().unwrap(), tempdir().unwrap());
        for name in ["a", "b"] {
            fs::write(source.path().join(name), b"first").unwrap();
        }
        seal(source.path(), set.path(), 81, false).unwrap();
        let of_first: HashMap<_, _> =
            sealed_files(set.path()).into_iter().map(|file| (fs::read(&file).unwrap(), file)).collect();
        fs::write(source.path().join("b"), b"second, and longer").unwrap();
        seal(source.path(), set.path(), 82, true).unwrap();
        let is_old = |(bytes, file): &(Vec<u8>, PathBuf)| fs::read(file).unwrap() != *bytes && bytes.len() > 100;
        // The folder's own record has changed, too: its time.
        let changed: Vec<_> = of_first.into_iter().filter(is_old).collect();
        for (bytes, file) in changed.iter().filter(|_| puts_back) {
            fs::write(file, bytes).unwrap();
        }
        if removes_list {
            fs::remove_file(set.path().join(MANIFEST)).unwrap();
        }
        // The walk has listed the file, but the file can no longer be opened.
        let (pool, keys, mut rng) = (pool(), keys(), ChaCha20Rng::from_seed([83; 32]));
        let mut writer = Writer::new(&pool, &keys, layout(), &mut rng).unwrap();
        let gone = source.path().join("b");
        let remove = &mut |_: &Sealed| drop(fs::remove_file(&gone));
        let sealed = writer.folder(source.path(), set.path(), &keys, true, remove).unwrap();
        assert_eq!(sealed.problems.len(), 1, "{}", words(&sealed.problems));
        let verified = open(set.path(), None).unwrap();
        let problems = words(&verified.problems);
        if puts_back && !removes_list {
            assert_eq!((sealed.stale.len(), verified.stale.len()), (0, 0));
            assert!(problems.contains("only files that the list names, found this one"), "{problems}");
        } else {
            // If the list is gone, too, this cannot be detected: the threat model says so.
            assert_eq!((sealed.stale, problems), (vec![b"b".to_vec()], String::new()));
            assert_eq!(verified.stale, [b"b".to_vec()]);
        }
    }
}
