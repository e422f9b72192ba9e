//! Runs that are killed: what remains of them, and how the next run continues.

use super::*;
use std::os::unix::fs::FileExt;
use std::process::Child;
use std::time::Instant;
use tobari_seal::{FIXED_BYTES, Head, KeyFile, Opening, head_bytes};

fn spawn(words: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tobari"));
    command.args(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_run_that_is_killed_loses_nothing_and_is_continued() {
    let (world, source) = (World::new(), folder(600, 20_000));
    let (set, key, out) = (world.path("set"), world.path("key"), world.path("out"));
    let arguments = ["seal", text(source.path()), "-o", &set, "--key-file", &key];
    let mut torsos = 0;
    for wait_ms in [60, 90, 120, 150] {
        let mut child =
            Command::new(env!("CARGO_BIN_EXE_tobari")).args(arguments).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(wait_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        let list = Path::new(&set).join("manifest.seal");
        if list.exists() {
            fs::remove_file(list).unwrap(); // the run was faster: make the set unfinished
        } else {
            torsos += 1;
        }
        // A file with its final name is complete.
        let salvaged = world.path(&format!("salvaged {wait_ms}"));
        if Path::new(&set).join("set.seal").exists() {
            lines(&["unseal", &set, "-o", &salvaged, "--key-file", &key, "--salvage"]);
        }
    }
    let sealed = lines(&arguments).remove(0);
    assert_eq!(sealed["entries"], 608);
    lines(&["unseal", &set, "-o", &out, "--key-file", &key]);
    assert!(same(source.path(), Path::new(&out)) && torsos > 0, "{torsos} runs were killed before their end");
    let left = Command::new("find").args([&set, "-name", ".tobari-part*"]).output().unwrap();
    assert!(left.stdout.is_empty());
}

/// Temporary files in a folder and in its subfolders.
pub(super) fn parts(root: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let inner: Vec<PathBuf> = list(root).filter(|path| path.is_dir()).flat_map(|folder| list(&folder)).collect();
    let is_part = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(".tobari-part-");
    list(root).chain(inner).filter(is_part).collect()
}

/// The path and the salt in a sealed file that may be incomplete.
fn torso(file: &Path) -> Option<(String, Vec<u8>)> {
    let mut start = Vec::new();
    fs::File::open(file).unwrap().take(1 << 16).read_to_end(&mut start).unwrap();
    let length = head_bytes(start.first_chunk::<FIXED_BYTES>()?).unwrap();
    let head = Head::decode(start.get(..length)?).unwrap();
    let key = KeyFile::from_bytes(&[9; 32]).unwrap();
    let opening = Opening::begin(&head, |stanza| stanza.open_with_key_file(&key)).unwrap();
    Some((String::from_utf8(opening.meta().path.clone()).unwrap(), start[14..46].to_vec()))
}

/// Salts of complete sealed files: bytes 14 to 46 of each.
fn salts(set: &Path) -> Vec<Vec<u8>> {
    let found = Command::new("find").args([text(set), "-type", "f"]).output().unwrap();
    let names = String::from_utf8(found.stdout).unwrap();
    let chosen = names.lines().filter(|name| !name.contains(".tobari-part-"));
    chosen.filter_map(|name| fs::read(name).unwrap().get(14..46).map(<[u8]>::to_vec)).collect()
}

/// Waits until a part of a long file exists, or the run has ended.
fn until_half(child: &mut Child, set: &Path) {
    let long = |part: &PathBuf| fs::metadata(part).is_ok_and(|metadata| metadata.len() > 1 << 20);
    while child.try_wait().unwrap().is_none() && !parts(set).iter().any(long) {
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn a_run_that_is_interrupted_at_any_moment_leaves_whole_files_and_no_key_of_a_torso_is_used_again() {
    let (world, source) = (World::new(), folder(100, 30_000));
    for name in ["long 1", "long 2"] {
        fs::write(source.path().join(name), (0..24 << 20).map(|at| (at / 77) as u8).collect::<Vec<_>>()).unwrap();
    }
    let (set, key, out) = (world.path("set"), world.path("key"), world.path("out"));
    let arguments = ["seal", text(source.path()), "-o", &set, "--key-file", &key];
    let (mut torsos, mut interrupted, mut state) = (Vec::new(), 0, 12_345_u64);
    for round in 0..8 {
        let mut child = spawn(&arguments);
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(9);
        match round % 2 {
            0 => until_half(&mut child, Path::new(&set)),
            _ => std::thread::sleep(Duration::from_millis(20 + (state >> 33) % 200)),
        }
        match round % 4 {
            0 | 1 => child.kill().unwrap(),
            _ => drop(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap()),
        }
        interrupted += i32::from(!child.wait().unwrap().success());
        // A source file that was half sealed changes at its beginning.
        for (path, salt) in parts(Path::new(&set)).iter().filter_map(|part| torso(part)) {
            let path = source.path().join(path);
            if path.is_dir() {
                continue; // a folder has no content to change
            }
            let file = fs::OpenOptions::new().write(true).open(path).unwrap();
            file.write_all_at(format!("changed in round {round}").as_bytes(), 0).unwrap();
            torsos.push(salt);
        }
        let list = Path::new(&set).join("manifest.seal");
        if list.exists() {
            fs::remove_file(list).unwrap(); // the run was faster: make the set unfinished
        }
        if Path::new(&set).join("set.seal").exists() {
            let salvaged = world.path("salvaged");
            let told = lines(&["unseal", &set, "-o", &salvaged, "--key-file", &key, "--salvage"]).remove(0);
            assert_eq!(told["problems"], json!([]));
            let _ = fs::remove_dir_all(salvaged); // there may be no such folder
        }
    }
    assert!(interrupted > 0 && !torsos.is_empty(), "{interrupted} were interrupted, {} torsos", torsos.len());
    assert_eq!(lines(&arguments).remove(0)["entries"], 110);
    lines(&["unseal", &set, "-o", &out, "--key-file", &key]);
    assert!(same(source.path(), Path::new(&out)) && parts(Path::new(&set)).is_empty());
    let whole = salts(Path::new(&set));
    assert!(whole.len() == 112 && torsos.iter().all(|torso| !whole.contains(torso)), "{} torsos", torsos.len());
}

#[test]
fn an_update_that_is_killed_leaves_a_list_that_is_right_or_none() {
    let (world, source) = (World::new(), folder(300, 20_000));
    let (set, key, out) = (world.path("set"), world.path("key"), world.path("out"));
    let arguments = ["seal", text(source.path()), "-o", &set, "--key-file", &key, "--force"];
    let change = |round: usize| {
        for at in (0..300).step_by(2) {
            fs::write(source.path().join(format!("{}/file {at}", at % 7)), vec![round as u8; 20_000 + at]).unwrap();
        }
    };
    lines(&arguments);
    change(100);
    let began = Instant::now();
    lines(&arguments);
    let (took, mut without) = (began.elapsed(), 0);
    for round in 0..40 {
        if round >= 6 && without > 0 {
            break;
        }
        change(round);
        let child = spawn(&arguments);
        std::thread::sleep(took * (round as u32 % 6 + 1) / 6);
        kill(child);
        let told = if Path::new(&set).join("manifest.seal").exists() {
            lines(&["seal", "verify", &set, "--key-file", &key])
        } else {
            without += 1;
            let salvaged = world.path(&format!("salvaged {round}"));
            lines(&["unseal", &set, "-o", &salvaged, "--key-file", &key, "--salvage"])
        };
        assert_eq!(told[0]["problems"], json!([]), "round {round}");
    }
    assert!(without > 0, "none was killed while it replaced files");
    lines(&arguments);
    lines(&["unseal", &set, "-o", &out, "--key-file", &key]);
    assert!(same(source.path(), Path::new(&out)));
}

#[test]
fn an_opening_that_is_killed_leaves_no_half_file_under_a_name_and_the_next_one_opens_all() {
    let (world, source) = (World::new(), folder(600, 300));
    fs::write(source.path().join("long"), (0..4 << 20).map(|at| (at / 77) as u8).collect::<Vec<_>>()).unwrap();
    let (set, key, out) = (world.path("set"), world.path("key"), world.path("out"));
    lines(&["seal", text(source.path()), "-o", &set, "--key-file", &key]);
    let began = Instant::now();
    lines(&["unseal", &set, "-o", &world.path("once"), "--key-file", &key]);
    let took = began.elapsed();
    let again = ["unseal", &set, "-o", &out, "--key-file", &key, "--force"];
    let (mut named, mut unnamed) = (0, 0);
    for round in 0..40 {
        if round >= 6 && named > 0 && unnamed > 0 {
            break;
        }
        let child = spawn(&again);
        // Some runs reach their end, later rounds more likely: the machine may have become slower.
        std::thread::sleep(took * (round % 8 + 1) * (1 + round / 8) / 6);
        kill(child);
        unnamed += parts(Path::new(&out)).len();
        for folder in (0..7).map(|at| at.to_string()).chain([String::new()]) {
            for entry in fs::read_dir(Path::new(&out).join(&folder)).into_iter().flatten() {
                let place = entry.unwrap().path();
                let name = place.file_name().unwrap();
                if place.is_file() && !name.to_string_lossy().starts_with(".tobari-part-") {
                    let original = fs::read(source.path().join(&folder).join(name)).unwrap();
                    assert!(fs::read(&place).unwrap() == original, "{}", place.display());
                    named += 1;
                }
            }
        }
    }
    assert!(named > 0 && unnamed > 0, "{named} files with their names, {unnamed} without");
    lines(&again);
    assert!(same(source.path(), Path::new(&out)) && parts(Path::new(&out)).is_empty());
}
