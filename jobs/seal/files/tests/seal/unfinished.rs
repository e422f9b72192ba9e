//! Interrupted runs, and their continuation by the next run.

use super::*;

fn update(source: &Path, set: &Path, seed: u8, progress: &mut dyn FnMut(&Sealed)) -> Sealed {
    let (pool, keys, mut rng) = (pool(), keys(), ChaCha20Rng::from_seed([seed; 32]));
    let mut writer = Writer::new(&pool, &keys, layout(), &mut rng).unwrap();
    writer.folder(source, set, &keys, true, progress).unwrap()
}

#[test]
fn a_list_is_gone_before_the_first_sealed_file_is_replaced_so_that_it_never_calls_one_wrong() {
    let (source, set) = (folder(), tempdir().unwrap());
    seal(source.path(), set.path(), 51, false).unwrap();
    for (round, changed) in ["empty", "sub/deeper/chunks", "full", "sub/one byte"].into_iter().enumerate() {
        fs::write(source.path().join(changed), vec![round as u8; 9000]).unwrap();
        let (mut right, mut without) = (0, 0);
        // The run may be killed at each of these moments.
        let sealed = update(source.path(), set.path(), 52 + round as u8, &mut |_| {
            if set.path().join(MANIFEST).exists() {
                assert_eq!(words(&open(set.path(), None).unwrap().problems), "");
                right += 1;
            } else {
                without += 1;
            }
        });
        assert_eq!((sealed.entries, sealed.kept), (11, 10));
        assert!(right > 0 && without > 0, "{changed}: {right} and {without}");
        assert_eq!(words(&open(set.path(), None).unwrap().problems), "");
    }
    let mut without = 0;
    update(source.path(), set.path(), 60, &mut |_| without += u32::from(!set.path().join(MANIFEST).exists()));
    assert_eq!(without, 0, "nothing was replaced");
}

#[test]
fn files_of_a_set_get_their_names_together_when_all_are_whole() {
    let (source, set, out) = (folder(), tempdir().unwrap(), tempdir().unwrap());
    seal(source.path(), set.path(), 61, false).unwrap();
    let (pool, keys, mut rng) = (pool(), keys(), ChaCha20Rng::from_seed([62; 32]));
    let (mut temporary, mut ended) = (0, 0);
    Reader::new(&pool, &keys)
        .set(set.path(), Some(out.path()), false, &mut rng, &mut |opened| {
            let all = described(out.path());
            let is_part = |path: &Path| path.to_string_lossy().contains(".tobari-part-");
            let files = all.iter().filter(|(path, ..)| out.path().join(path).is_file() && !is_part(path)).count();
            temporary = temporary.max(all.iter().filter(|(path, ..)| is_part(path)).count());
            assert!(files == 0 || opened.entries == 11, "{files} files among {} entries", opened.entries);
            ended = files;
        })
        .unwrap();
    assert!(temporary > 1 && ended == 6, "{temporary} and {ended}");
}

#[test]
fn what_a_killed_run_left_goes_when_the_set_is_opened_there_again_and_all_else_stays() {
    let (source, set, out) = (folder(), tempdir().unwrap(), tempdir().unwrap());
    seal(source.path(), set.path(), 63, false).unwrap();
    open(set.path(), Some(out.path())).unwrap();
    let mine = out.path().join("sub/mine");
    fs::write(&mine, b"mine").unwrap();
    for salvages in [false, true] {
        fs::write(out.path().join(".tobari-part-abcdef"), b"half").unwrap();
        fs::write(out.path().join("sub/deeper/.tobari-part-ghijkl"), b"half").unwrap();
        symlink("nowhere", out.path().join("sub/.tobari-part-mnopqr")).unwrap();
        let opened = if salvages {
            let (pool, keys, mut rng) = (pool(), keys(), ChaCha20Rng::from_seed([64; 32]));
            Reader::new(&pool, &keys).salvage(set.path(), out.path(), true, &mut rng, &mut |_| ())
        } else {
            open_over(set.path(), Some(out.path()), true)
        };
        assert_eq!(words(&opened.unwrap().problems), "");
        let left: Vec<_> =
            described(out.path()).into_iter().filter(|(path, ..)| path != Path::new("sub/mine")).collect();
        assert_eq!(left, described(source.path()));
        assert_eq!(fs::read(&mine).unwrap(), b"mine");
    }
}
