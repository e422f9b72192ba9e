//! A single file: sealed alone, and unsealed from a set.

use super::*;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::SystemTime;

#[test]
fn a_file_alone_comes_back_as_it_was_under_the_name_that_is_asked_for_and_ls_tells_its_own() {
    let world = World::new();
    let (file, sealed, out, key) = (world.at("letter.txt"), world.path("l.seal"), world.path("out"), world.path("key"));
    fs::write(&file, b"Dear all").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 5_000);
    fs::File::open(&file).unwrap().set_modified(time).unwrap();
    lines(&["seal", text(&file), "-o", &sealed, "--key-file", &key]);
    let expected = json!({ "kind": "file", "path": "letter.txt", "bytes": 8, "sealed": sealed });
    assert_eq!(lines(&["seal", "ls", &sealed, "--key-file", &key]), [expected]);
    let opened = lines(&["unseal", &sealed, "-o", &out, "--key-file", &key]).remove(0);
    assert_eq!((&opened["entries"], &opened["bytes"]), (&json!(1), &json!(8)));
    let metadata = fs::metadata(&out).unwrap();
    assert_eq!((metadata.permissions().mode() & 0o7777, metadata.modified().unwrap()), (0o640, time));
    assert_eq!(fs::read(&out).unwrap(), b"Dear all");
    // standard input has only its bytes: no name and no length
    let mut piped = Command::new(env!("CARGO_BIN_EXE_tobari"));
    piped.args(["seal", "-", "-o", &sealed, "--key-file", &key, "--force"]).stdin(fs::File::open(&file).unwrap());
    assert!(piped.output().unwrap().status.success());
    let expected = json!({ "kind": "stream", "path": "", "bytes": null, "sealed": sealed });
    assert_eq!(lines(&["seal", "ls", &sealed, "--key-file", &key]), [expected]);
}

#[test]
fn one_file_of_a_set_is_opened_by_the_path_that_ls_prints_and_by_its_sealed_name() {
    let (world, source) = (World::new(), folder(10, 40));
    let names = [&b"it's \"one\"\n"[..], b"\xe3\x81\xb2", b"like \xfe", b"like \xff", b"--only"];
    for (at, name) in names.iter().enumerate() {
        fs::write(source.path().join(OsStr::from_bytes(name)), format!("content {at}")).unwrap();
    }
    let (set, key, out) = (world.path("set"), world.path("key"), world.path("out"));
    lines(&["seal", text(source.path()), "-o", &set, "--key-file", &key]);
    let listed = String::from_utf8(tobari(&["seal", "ls", &set, "--key-file", &key]).stdout).unwrap();
    let mut found = Vec::new();
    for line in listed.lines().filter(|line| line.starts_with("file")) {
        // kind, bytes, sealed name, path
        let (sealed, path) = (&line[21..59], &line[61..]);
        let by_name = world.path("by name");
        lines(&["unseal", &format!("{set}/{sealed}"), "-o", &by_name, "--key-file", &key, "--force"]);
        let only = format!("--only={path}");
        let open = ["unseal", &set, &only, "-o", &out, "--key-file", &key, "--force"];
        if path.starts_with("like") {
            assert!(refused(&open, 1).contains("several files have this printed path"));
        } else {
            assert_eq!(lines(&open)[0]["entries"], 1);
            assert!(fs::read(&out).unwrap() == fs::read(&by_name).unwrap(), "{path}");
        }
        found.push(fs::read(&by_name).unwrap());
    }
    assert!(found.len() == 15 && (0..5).all(|at| found.contains(&format!("content {at}").into_bytes())));
    lines(&["unseal", &set, "--only", "3/file 3", "-o", &out, "--key-file", &key, "--force"]);
    assert_eq!(fs::read(&out).unwrap(), fs::read(source.path().join("3/file 3")).unwrap());
    // a name that is no valid text, given by its bytes, to standard output
    let mut command = Command::new(env!("CARGO_BIN_EXE_tobari"));
    command.args(["unseal", &set, "-o", "-", "--key-file", &key, "--only"]).arg(OsStr::from_bytes(b"like \xff"));
    assert_eq!(command.output().unwrap().stdout, b"content 3");
    assert!(
        refused(&["unseal", &set, "--only", "3", "-o", &out, "--key-file", &key, "--force"], 1)
            .contains("a sealed folder")
    );
    assert!(
        refused(&["unseal", &set, "--only", "no", "-o", &out, "--key-file", &key], 1).contains("the set has no no")
    );
    assert!(
        refused(&["unseal", &key, "--only", "no", "-o", &out, "--key-file", &key], 2)
            .contains("--only takes a file out of a set")
    );
    refused(&["unseal", &set, "--only", "3/file 3", "--salvage", "-o", &out, "--key-file", &key], 2);
}
