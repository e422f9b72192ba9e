//! Hostile sets, and runs that are killed at any system call. A tracer of system calls checks the
//! effects.

use super::forge::{self, FILE, FOLDER, Item, KEY_FILE, LINK, item};
use super::*;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::time::SystemTime;

/// System calls that alter a file system.
const ALTERING: &str = "openat,openat2,open,creat,mkdirat,mkdir,unlinkat,unlink,rmdir,renameat,renameat2,rename,linkat,link,\
symlinkat,symlink,utimensat,fchmod,fchmodat,chmod,fchown,fchownat,ftruncate,truncate,setxattr,fsetxattr,mknodat";

/// Whether the tracer can run; if not, the test counts as not run.
fn tracer(test: &str) -> bool {
    let found = Command::new("strace").args(["-qq", "-e", "trace=none", "true"]).output();
    let traces = found.is_ok_and(|done| done.status.success());
    if !traces {
        not_run(test, "there is no strace here that may trace");
    }
    traces
}

/// A folder with a set, a place to unseal the set to, and things beside both that no run may touch.
struct Stage {
    world: World,
}

impl Stage {
    fn new() -> Self {
        let world = World::new();
        fs::write(world.at("key"), KEY_FILE).unwrap();
        fs::create_dir_all(world.at("outside/inner")).unwrap();
        fs::write(world.at("outside/victim"), b"victim").unwrap();
        Self { world }
    }

    /// All metadata outside: names, kinds, permissions, sizes, times.
    fn outside(&self) -> Vec<String> {
        let mut all = Vec::new();
        for name in ["outside", "outside/inner", "outside/victim"] {
            let found = fs::symlink_metadata(self.world.at(name)).unwrap();
            let times = (found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec());
            all.push(format!("{name} {:o} {} {times:?}", found.mode(), found.len()));
        }
        for folder in ["outside", "outside/inner"] {
            let names = fs::read_dir(self.world.at(folder)).unwrap();
            all.extend(names.map(|entry| format!("{folder}: {:?}", entry.unwrap().file_name())));
        }
        all.sort();
        all
    }

    /// Runs the program under the tracer; returns its exit status, its messages, and the calls that
    /// alter something.
    fn traced(&self, words: &[&str]) -> (Option<i32>, String, Vec<String>) {
        let trace = self.world.path("trace");
        let before = self.outside();
        let done = Command::new("strace")
            .args(["-f", "-qq", "-y", "-s", "70000", "-o", &trace, "-e", &format!("trace={ALTERING}")])
            .arg(env!("CARGO_BIN_EXE_tobari"))
            .args(words)
            .args(["--threads", "1", "--policy", "cpu", "--key-file", &self.world.path("key")])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(self.outside(), before, "{words:?}");
        let calls = String::from_utf8_lossy(&fs::read(&trace).unwrap()).lines().map(str::to_owned).collect();
        (done.status.code(), stderr(&done), calls)
    }

    /// Unseals a set into `out`, and checks that no call left `out`.
    fn unseal(&self, words: &[&str]) -> (Option<i32>, String) {
        let (set, out) = (self.world.path("set"), self.world.path("out"));
        let (code, said, calls) = self.traced(&[&["unseal", &set, "-o", &out][..], words].concat());
        calls.iter().for_each(|call| self.stays_inside(call));
        (code, said)
    }

    /// Checks that a call that alters something does so in a folder below `out`, by a single name,
    /// without following a link. All other calls only read.
    fn stays_inside(&self, call: &str) {
        let (out, outside) = (self.world.path("out"), self.world.path("outside"));
        let call = call.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ' ');
        let (name, rest) = call.split_once('(').unwrap_or((call, ""));
        // the target of a link is content, not a place
        let place = if name == "symlinkat" { rest.split_once("\", ").map_or("", |(_, rest)| rest) } else { rest };
        assert!(!place.contains(&outside), "{call}");
        let reads = name.starts_with("open")
            && !call.contains("O_CREAT")
            && !call.contains("O_WRONLY")
            && !call.contains("O_RDWR");
        // each quoted string is a single name, which leads nowhere else
        let mut names = place.split('"').skip(1).step_by(2);
        let follows = place.contains("AT_FDCWD") || names.any(|name| name.contains('/') || name == "..");
        let is_out_itself = name == "mkdir" && place.starts_with(&format!("\"{out}\""));
        if reads || is_out_itself || !call.contains(" = 0") && !call.contains(" = ") {
            return;
        }
        let descriptors: Vec<&str> = place.split('<').skip(1).filter_map(|rest| rest.split('>').next()).collect();
        let inside = |place: &&str| **place == out || place.starts_with(&format!("{out}/"));
        assert!(!follows && !descriptors.is_empty() && descriptors.iter().all(inside), "{call}");
    }

    /// Writes a new set, and removes the place it is unsealed to.
    fn set(&self, items: &[Item]) {
        let _ = fs::remove_dir_all(self.world.at("set"));
        let _ = fs::remove_dir_all(self.world.at("out"));
        forge::set(&self.world.at("set"), items);
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(self.world.at("out")).map_or(true, |mut names| names.next().is_none())
    }
}

/// A folder entry for the root and for each folder above a path.
fn above(path: &str) -> Vec<Item> {
    let ends = path.match_indices('/').map(|(at, _)| &path[..at]);
    std::iter::once("").chain(ends).map(|path| item(FOLDER, path, "")).collect()
}

/// Sets whose list has something below a file or a link.
fn below_leaves(outside: &str) -> Vec<Vec<Item>> {
    let leaves = [(LINK, outside), (LINK, "../outside"), (LINK, "."), (LINK, ".."), (FILE, "a file")];
    let mut sets = Vec::new();
    for (kind, content) in leaves {
        for place in ["a", "d/a", "d/e/f/a"] {
            for (below, name) in [(FILE, "victim"), (FOLDER, "inner"), (LINK, "new"), (FILE, "inner/new")] {
                let leaf = item(kind, place, content);
                let entry = item(below, format!("{place}/{name}"), if below == FOLDER { "" } else { "planted" });
                let all = above(place);
                sets.push([&all[..], &[leaf.clone(), entry.clone()]].concat());
                sets.push([&all[..], &[entry.clone(), leaf.clone()]].concat());
                // the list also declares the leaf as a folder
                sets.push([&all[..], &[item(FOLDER, place, ""), leaf, entry]].concat());
            }
        }
    }
    sets
}

/// Paths that no record may have, as file, folder and link.
fn impossible_paths(outside: &str) -> Vec<Vec<Item>> {
    let long = "x".repeat(300) + "/..";
    let paths = [
        "..",
        "../x",
        "a/../../outside/x",
        "a/..",
        "/etc/x",
        "//x",
        "a//b",
        "./x",
        "a/./b",
        "a/",
        ".",
        "a\0b",
        &long,
        &format!("{outside}/x"),
        "../outside/victim",
    ]
    .map(str::to_owned);
    let all = paths
        .iter()
        .flat_map(|path| [FILE, LINK, FOLDER].map(|kind| item(kind, path, if kind == FOLDER { "" } else { "x" })));
    all.map(|entry| vec![item(FOLDER, "", ""), entry]).collect()
}

/// Valid sets with names and links that might mislead a program.
fn strange_but_right(outside: &str) -> Vec<Vec<Item>> {
    let mut sets = Vec::new();
    let twins = [
        ("A", "a"),
        ("e\u{301}", "\u{e9}"),
        ("\u{212a}", "k"),
        ("a.", "a"),
        ("a ", "a"),
        ("COM1", "com1"),
        ("\u{fb01}", "fi"),
    ];
    for (link, folder) in twins {
        for target in [outside, "../outside", folder] {
            let mut items = vec![
                item(LINK, link, target),
                item(FOLDER, folder, ""),
                item(FILE, format!("{folder}/victim"), "mine"),
            ];
            items.sort_by(|a, b| a.path.split(|byte| *byte == b'/').cmp(b.path.split(|byte| *byte == b'/')));
            sets.push([vec![item(FOLDER, "", "")], items].concat());
        }
    }
    for target in ["/", "/etc/passwd", "..", ".", "a", "../outside/victim", "/proc/self/root", &"y".repeat(4000)] {
        sets.push(vec![item(FOLDER, "", ""), item(LINK, "a", target), item(LINK, "b", "a"), item(FILE, "c", "c")]);
    }
    for name in ["...", "-rf", "~", "\\..\\x", "a\nb", "\u{202e}x", ".tobari-part-mine", "*", "$(touch x)"] {
        sets.push(vec![item(FOLDER, "", ""), item(FILE, name, "x")]);
    }
    sets
}

#[test]
fn fault_1_no_hostile_set_makes_a_system_call_outside_its_target() {
    if !tracer("fault_1_no_hostile_set_makes_a_system_call_outside_its_target") {
        return;
    }
    let stage = Stage::new();
    let outside = stage.world.path("outside");
    let (set, key) = (stage.world.path("set"), stage.world.path("key"));
    let mut count = 0;
    for (number, items) in below_leaves(&outside).iter().enumerate() {
        stage.set(items);
        let (code, said) = stage.unseal(if number % 2 == 0 { &[] } else { &["--force"] });
        assert!(code == Some(1) && stage.is_empty(), "{items:?}: {said}");
        assert!(said.contains("none below a file or a link") || said.contains("each path once"), "{items:?}: {said}");
        for verb in ["verify", "ls"].iter().filter(|_| number % 5 == 0) {
            let said = refused(&["seal", verb, &set, "--key-file", &key], 1);
            assert!(said.contains("expected entries of a list"), "{verb} of {items:?}: {said}");
        }
        // without its list, the valid part is recovered, and never through a link
        if number % 4 == 0 {
            let (code, said) = stage.unseal(&["--salvage"]);
            assert!(code.is_some_and(|code| code < 2), "{items:?}: {said}");
        }
        count += 1;
    }
    for items in impossible_paths(&outside) {
        stage.set(&items);
        for words in [&[][..], &["--salvage"]] {
            let (code, said) = stage.unseal(words);
            assert_eq!(code, Some(1), "{items:?}: {said}");
        }
        count += 1;
    }
    for items in strange_but_right(&outside) {
        stage.set(&items);
        let (code, said) = stage.unseal(&[]);
        assert_eq!(code, Some(0), "{items:?}: {said}");
        for item in items.iter().filter(|item| !item.path.starts_with(b".tobari-part-")) {
            let place = stage.world.at("out").join(std::ffi::OsStr::from_bytes(&item.path));
            match item.kind {
                FILE => assert_eq!(fs::read(place).unwrap(), item.content),
                LINK => assert_eq!(fs::read_link(place).unwrap().as_os_str().as_bytes(), item.content),
                _ => assert!(place.is_dir()),
            }
        }
        count += 1;
    }
    assert!(count >= 200, "{count} sets");
}

#[test]
fn fault_2_a_link_or_file_that_lies_where_a_set_goes_is_replaced_and_never_followed() {
    if !tracer("fault_2_a_link_or_file_that_lies_where_a_set_goes_is_replaced_and_never_followed") {
        return;
    }
    let stage = Stage::new();
    let outside = stage.world.path("outside");
    let items = [
        item(FOLDER, "", ""),
        item(LINK, "link", "x/victim"),
        item(FOLDER, "x", ""),
        item(FOLDER, "x/inner", ""),
        item(FILE, "x/inner/deep", "deep"),
        item(FILE, "x/victim", "mine"),
    ];
    for stale in ["x", "x/inner", "x/victim", "x/inner/deep", "link"] {
        for leads in [outside.as_str(), "../outside", "../outside/victim", "../../outside/inner", "nowhere"] {
            for file in [false, true] {
                stage.set(&items);
                let place = stage.world.at("out").join(stale);
                fs::create_dir_all(place.parent().unwrap()).unwrap();
                if file {
                    fs::write(&place, leads).unwrap();
                } else {
                    symlink(leads, &place).unwrap();
                }
                let before = fs::symlink_metadata(&place).unwrap();
                let (code, said) = stage.unseal(&[]);
                let same = fs::symlink_metadata(&place).unwrap();
                assert!(code == Some(1) && same.ino() == before.ino(), "{stale} {leads}: {said}");
                assert!(said.contains("--force") || said.contains("Not a directory"), "{stale} {leads}: {said}");
                let (code, said) = stage.unseal(&["--force"]);
                assert_eq!(code, Some(0), "{stale} {leads}: {said}");
                let read = |name: &str| fs::read(stage.world.at("out").join(name)).unwrap();
                assert_eq!((read("x/victim"), read("x/inner/deep")), (b"mine".to_vec(), b"deep".to_vec()));
                assert_eq!(fs::read_link(stage.world.at("out/link")).unwrap(), Path::new("x/victim"));
            }
        }
    }
}

/// A set lies in a folder of untrusted storage: links in it are not followed, neither to read nor
/// to write nor to remove.
#[test]
fn fault_2_a_link_in_the_folder_of_a_set_is_followed_neither_to_read_nor_to_remove() {
    let stage = Stage::new();
    let (world, source) = (&stage.world, folder(20, 100));
    let (set, key) = (world.path("set"), world.path("key"));
    let seal = ["seal", text(source.path()), "-o", &set, "--key-file", &key, "--force"];
    lines(&seal);
    // a folder of sealed files is moved away, and replaced by a link
    let mut folders: Vec<_> =
        fs::read_dir(&set).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    let moved = world.at("outside/moved");
    fs::rename(&folders[0], &moved).unwrap();
    symlink(&moved, &folders[0]).unwrap();
    fs::write(moved.join(".tobari-part-not-ours"), b"theirs").unwrap();
    fs::write(moved.join(format!("{}.seal", "0".repeat(30))), b"theirs").unwrap();
    let before: Vec<_> = fs::read_dir(&moved).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let verified = tobari(&["seal", "verify", &set, "--key-file", &key]);
    assert_eq!(verified.status.code(), Some(1));
    let sealed = tobari(&seal);
    assert_eq!(sealed.status.code(), Some(1), "{}", stderr(&sealed));
    assert!(stderr(&sealed).contains("Not a directory"), "{}", stderr(&sealed));
    let after: Vec<_> = fs::read_dir(&moved).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(after, before);
    // without the link, the same command completes the set
    fs::remove_file(&folders[0]).unwrap();
    lines(&seal);
    assert_eq!(lines(&["seal", "verify", &set, "--key-file", &key])[0]["problems"], json!([]));
}

/// A source with one example of everything that takes its own system call.
fn small() -> TempDir {
    let root = tempdir().unwrap();
    fs::create_dir(root.path().join("sub")).unwrap();
    fs::write(root.path().join("empty"), b"").unwrap();
    fs::write(root.path().join("sub/long"), vec![5; 150_000]).unwrap();
    fs::write(root.path().join("sub/short"), b"short").unwrap();
    symlink("../nowhere", root.path().join("sub/link")).unwrap();
    fs::set_permissions(root.path().join("sub"), fs::Permissions::from_mode(0o555)).unwrap();
    root
}

/// Everything below a folder: path, permissions, time, content.
fn described(root: &Path) -> Vec<(PathBuf, u32, SystemTime, Vec<u8>)> {
    let (mut all, mut left) = (Vec::new(), vec![root.to_owned()]);
    while let Some(place) = left.pop() {
        let found = fs::symlink_metadata(&place).unwrap();
        let content = match found.file_type() {
            kind if kind.is_dir() => {
                left.extend(fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()));
                Vec::new()
            }
            kind if kind.is_symlink() => fs::read_link(&place).unwrap().as_os_str().as_bytes().to_vec(),
            _ => fs::read(&place).unwrap(),
        };
        all.push((place.strip_prefix(root).unwrap().to_owned(), found.mode(), found.modified().unwrap(), content));
    }
    all.sort();
    all
}

/// Calls at which a run is killed, one after another.
const FATAL: [&str; 20] = [
    "openat",
    "mkdir",
    "mkdirat",
    "unlinkat",
    "renameat",
    "renameat2",
    "linkat",
    "symlinkat",
    "utimensat",
    "fchmod",
    "ftruncate",
    "write",
    "pwrite64",
    "fsync",
    "syncfs",
    "flock",
    "getdents64",
    "readlinkat",
    "newfstatat",
    "lseek",
];

/// Runs a command again and again, and injects this fate at the first, the second, … of each system
/// call. Runs `then` after each. Returns how often the fate struck.
fn at_every_call(words: &[&str], fate: &str, mut then: impl FnMut(&str)) -> u32 {
    let mut met = 0;
    for call in FATAL {
        for number in 1.. {
            let inject = format!("inject={call}:{fate}:when={number}");
            let done = Command::new("strace")
                .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject])
                .arg(env!("CARGO_BIN_EXE_tobari"))
                .args(words)
                .stdin(Stdio::null())
                .output()
                .unwrap();
            then(&format!("{fate} at {call} {number}"));
            if done.status.success() {
                break;
            }
            met += 1;
            assert!(number < 500, "{call} {fate}: {}", stderr(&done));
        }
    }
    met
}

#[test]
fn fault_3_a_run_that_is_killed_at_any_system_call_goes_on_with_the_same_command() {
    if !tracer("fault_3_a_run_that_is_killed_at_any_system_call_goes_on_with_the_same_command") {
        return;
    }
    let (world, source) = (World::new(), small());
    let (set, key, out) = (world.path("set"), world.path("key"), world.path("out"));
    let wanted = described(source.path());
    let quick = ["--threads", "1", "--policy", "cpu", "--key-file", &key];
    let seal = [&["seal", text(source.path()), "-o", &set][..], &quick].concat();
    let unseal = [&["unseal", &set, "-o", &out][..], &quick].concat();
    let killed = at_every_call(&seal, "signal=SIGKILL", |what| {
        let again = tobari(&seal);
        // a run that was killed after its last file had its name was finished
        assert!(
            again.status.success() || stderr(&again).contains("this set is finished"),
            "{what}: {}",
            stderr(&again)
        );
        assert_eq!(lines(&["seal", "verify", &set, "--key-file", &key])[0]["problems"], json!([]), "{what}");
        assert!(killed::parts(Path::new(&set)).is_empty(), "{what}");
        fs::remove_dir_all(&set).unwrap();
    });
    lines(&seal);
    let opened = at_every_call(&unseal, "signal=SIGKILL", |what| {
        lines(&unseal);
        assert_eq!(described(Path::new(&out)), wanted, "{what}");
        fs::remove_dir_all(&out).unwrap();
    });
    assert!(killed > 60 && opened > 60, "killed at {killed} and {opened} calls");
}

#[test]
fn fault_3_a_run_that_was_killed_early_leaves_nothing_that_stops_the_next() {
    let (world, source) = (World::new(), folder(5, 100));
    let (set, key) = (world.path("set"), world.path("key"));
    let seal = ["seal", text(source.path()), "-o", &set, "--key-file", &key];
    for more in [&[][..], &["--force"]] {
        fs::create_dir(&set).unwrap();
        fs::write(Path::new(&set).join(".tobari-part-abcdef"), b"half").unwrap();
        lines(&[&seal[..], more].concat());
        assert!(killed::parts(Path::new(&set)).is_empty());
        assert_eq!(lines(&["seal", "verify", &set, "--key-file", &key])[0]["problems"], json!([]));
        fs::remove_dir_all(&set).unwrap();
    }
    // a file of somebody else is left alone, and the message says what to do
    fs::create_dir(&set).unwrap();
    fs::write(Path::new(&set).join("mine"), b"mine").unwrap();
    let said = refused(&seal, 1);
    assert!(said.contains("Choose a new or an empty folder") && !said.contains("--force"), "{said}");
    // sealing a single file leaves nothing in the folder either
    let (file, sealed) = (source.path().join("0/file 0"), world.path("alone.seal"));
    fs::write(world.at(".tobari-part-alone-1-0"), b"half").unwrap();
    lines(&["seal", text(&file), "-o", &sealed, "--key-file", &key]);
    assert!(killed::parts(world.folder.path()).is_empty());
}

#[test]
fn fault_3_two_runs_do_not_write_to_one_folder() {
    let (world, source) = (World::new(), folder(5, 100));
    let (set, key, out) = (world.path("set"), world.path("key"), world.path("out"));
    fs::create_dir(&out).unwrap();
    let seal = ["seal", text(source.path()), "-o", &set, "--key-file", &key, "--force"];
    let unseal = ["unseal", &set, "-o", &out, "--key-file", &key];
    lines(&seal);
    for (folder, words) in [(&set, &seal[..]), (&out, &unseal)] {
        let held = fs::File::open(folder).unwrap();
        held.lock().unwrap();
        let said = refused(words, 1);
        assert!(said.contains("another run is writing to this folder"), "{said}");
        drop(held);
        lines(words);
    }
}

#[test]
fn fault_4_a_file_that_grows_while_it_is_read_is_sealed_up_to_its_length_and_named() {
    let (world, source) = (World::new(), folder(3, 100));
    let (set, key, out, log) = (world.path("set"), world.path("key"), world.path("out"), source.path().join("log"));
    let first: Vec<u8> = (0..16 << 20).map(|at| (at / 77) as u8).collect();
    let stop = std::sync::atomic::AtomicBool::new(false);
    for round in 0..2 {
        fs::write(&log, &first).unwrap();
        stop.store(false, std::sync::atomic::Ordering::Relaxed);
        let done = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut file = fs::OpenOptions::new().append(true).open(&log).unwrap();
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    file.write_all(b"one more line\n").unwrap();
                }
            });
            let more: &[&str] = if round == 0 { &[] } else { &["--force"] };
            let seal = ["seal", text(source.path()), "-o", &set, "--key-file", &key];
            let done = tobari(&[&seal[..], more, &["--json"]].concat());
            // before any result is judged, the file stops growing
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            done
        });
        assert!(done.status.success(), "{}", stderr(&done));
        let told: Value = serde_json::from_slice(&done.stdout).unwrap();
        let grown = told["grown"].as_array().unwrap();
        assert!(grown.len() == 1 && grown[0]["file"] == text(&log) && told["problems"] == json!([]), "{told}");
        let bytes = grown[0]["bytes"].as_u64().unwrap() as usize;
        assert_eq!(lines(&["seal", "verify", &set, "--key-file", &key])[0]["problems"], json!([]));
        let _ = fs::remove_dir_all(&out);
        lines(&["unseal", &set, "-o", &out, "--key-file", &key]);
        let (opened, whole) = (fs::read(Path::new(&out).join("log")).unwrap(), fs::read(&log).unwrap());
        assert!(
            opened.len() == bytes && bytes >= first.len() && whole.starts_with(&opened),
            "{bytes} of {}",
            whole.len()
        );
    }
}

#[test]
fn fault_7_a_link_to_a_folder_is_sealed_as_that_folder() {
    let (world, source) = (World::new(), folder(5, 100));
    let (set, key, out) = (world.path("set"), world.path("key"), world.path("out"));
    symlink(source.path(), world.at("link")).unwrap();
    lines(&["seal", &world.path("link"), "-o", &set, "--key-file", &key]);
    lines(&["unseal", &set, "-o", &out, "--key-file", &key]);
    assert_eq!(described(Path::new(&out)), described(source.path()));
}

#[test]
fn fault_8_a_stream_and_a_file_are_sealed_to_standard_output() {
    let (world, content) = (World::new(), vec![7; 200_000]);
    let (key, file) = (world.path("key"), world.path("plain"));
    fs::write(&file, &content).unwrap();
    let script = "cd \"$1\" && \"$2\" seal \"$3\" -o - --key-file key < plain | \"$2\" unseal - -o - --key-file key";
    for source in ["-", "plain"] {
        let program = env!("CARGO_BIN_EXE_tobari");
        let done =
            Command::new("sh").args(["-c", script, "sh", text(world.folder.path()), program, source]).output().unwrap();
        assert!(done.status.success() && done.stdout == content, "{source}: {}", stderr(&done));
        assert!(!world.at("-").exists(), "a file of this name");
    }
    let said = refused(&["seal", text(world.folder.path()), "-o", "-", "--key-file", &key], 2);
    assert!(said.contains("a folder is sealed into a folder"), "{said}");
}

#[test]
fn fault_9_folders_that_are_named_like_a_verb_are_sealed() {
    let world = World::new();
    for (number, name) in ["verify", "ls", "help"].into_iter().enumerate() {
        fs::create_dir(world.at(name)).unwrap();
        fs::write(world.at(name).join("file"), name).unwrap();
        let run = |words: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_tobari"));
            let done = command.current_dir(world.folder.path()).args(words).stdin(Stdio::null()).output().unwrap();
            assert!(done.status.success(), "{words:?}: {}", stderr(&done));
        };
        let (set, out) = (format!("set {number}"), format!("out {number}"));
        run(&["seal", name, "-o", &set, "--key-file", "key"]);
        run(&["seal", "verify", &set, "--key-file", "key"]);
        run(&["unseal", &set, "-o", &out, "--key-file", "key"]);
        assert_eq!(fs::read_to_string(world.at(&out).join("file")).unwrap(), name);
    }
}
