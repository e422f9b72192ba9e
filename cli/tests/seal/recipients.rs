//! Recipients and identities of age, and a foreign plugin.

use super::*;

#[test]
fn what_is_sealed_for_recipients_opens_with_an_identity_file() {
    let (world, source) = (World::new(), folder(10, 5000));
    let (set, out, identity, file) =
        (world.path("set"), world.path("out"), world.path("identity"), world.path("recipients"));
    let people: Vec<_> = (0..3).map(|_| tobari_seal_files::new_identity()).collect();
    fs::write(&file, format!("# two people\n{}\n\n{}\n", people[1].1, people[2].1)).unwrap();
    fs::write(&identity, format!("# mine\n{}", people[2].0.as_str())).unwrap();
    lines(&["seal", text(source.path()), "-o", &set, "--recipient", &people[0].1, "--recipients-file", &file]);
    assert_eq!(lines(&["seal", "verify", &set, "--identity", &identity])[0]["problems"], Value::Array(Vec::new()));
    assert_eq!(lines(&["seal", "ls", &set, "-i", &identity]).len(), 18);
    lines(&["unseal", &set, "-o", &out, "--identity", &identity]);
    assert!(same(source.path(), Path::new(&out)));
    let secret = refused(&["seal", text(source.path()), "-o", &world.path("other"), "-r", people[0].0.trim()], 1);
    assert!(secret.contains("an identity, which is secret") && !secret.contains(&people[0].0[20..50]), "{secret}");
    let unknown = "age1yubikey1qg8zk0y4u8gnwekyfhazadlh9yvwzsdu4c7a4mqfnknrmyftqe8gkpme8c9";
    let plugin = refused(&["seal", text(source.path()), "-o", &world.path("other"), "-r", unknown], 1);
    assert!(plugin.contains("recipient"), "{plugin}");
    assert!(!world.at("other").exists());
}

/// A plugin of age as a short program. It wraps a file's key in a way that anybody can compute.
const PLUGIN: &str = r##"#!/usr/bin/env python3
import base64, hashlib, sys

source, sink = sys.stdin.buffer, sys.stdout.buffer

def receive():
    arrow, *words = source.readline().decode().split()
    body, line = b"", b"." * 64
    while len(line) == 64:
        line = source.readline().rstrip(b"\n")
        body += line
    return words, base64.b64decode(body + b"=" * (-len(body) % 4))

def ask(words, body=b""):
    text = base64.b64encode(body).rstrip(b"=")
    lines = [text[at:at + 64] for at in range(0, len(text) + 1, 64)]
    sink.write(b"-> " + " ".join(words).encode() + b"\n" + b"".join(line + b"\n" for line in lines))
    sink.flush()
    if words != ["done"]:
        assert receive()[0] == ["ok"]

def masked(name, key):
    # what recipient and identity have in common, between their beginnings and their checksums
    data = name.lower().split("test")[1].lstrip("-")[1:-6]
    return data, bytes(a ^ b for a, b in zip(key, hashlib.sha256(data.encode()).digest()))

told = []
while not told or told[-1][0] != ["done"]:
    told.append(receive())
of = lambda name: [(words[1:], body) for words, body in told if words[0] == name]
ask(["msg"], b"touch the test key")
if sys.argv[1] == "--age-plugin=recipient-v1":
    for (recipient,), _ in of("add-recipient"):
        data, wrapped = masked(recipient, of("wrap-file-key")[0][1])
        ask(["recipient-stanza", "0", "test", data], wrapped)
elif sys.argv[1] == "--age-plugin=identity-v1":
    for (identity,), _ in of("add-identity"):
        for (file, kind, *rest), body in of("recipient-stanza"):
            if kind == "test" and rest == [masked(identity, body)[0]]:
                ask(["file-key", file], masked(identity, body)[1])
ask(["done"])
"##;

#[test]
fn what_is_sealed_for_a_recipient_of_a_plugin_opens_by_the_plugin_with_its_identity_alone() {
    let name = "what_is_sealed_for_a_recipient_of_a_plugin_opens_by_the_plugin_with_its_identity_alone";
    if !Command::new("python3").arg("--version").output().is_ok_and(|done| done.status.success()) {
        return not_run(name, "there is no python3 here, which the plugin is written in");
    }
    let (world, source) = (World::new(), folder(10, 5000));
    let (set, out, programs) = (world.path("set"), world.path("out"), world.at("programs"));
    fs::create_dir(&programs).unwrap();
    fs::write(programs.join("age-plugin-test"), PLUGIN).unwrap();
    fs::set_permissions(programs.join("age-plugin-test"), fs::Permissions::from_mode(0o755)).unwrap();
    // bech32 of the bytes 1 to 16, and of 101 to 116
    let recipient = "age1test1qypqxpq9qcrsszg2pvxq6rs0zq9wmnlq";
    fs::write(world.at("mine"), "AGE-PLUGIN-TEST-1QYPQXPQ9QCRSSZG2PVXQ6RS0ZQKDC400\n").unwrap();
    fs::write(world.at("another"), "AGE-PLUGIN-TEST-1V4NXW6RFDF4KCMTWDAC8ZUNNWS8HM2NC\n").unwrap();
    let native = tobari_seal_files::new_identity();
    fs::write(world.at("native"), native.0.as_str()).unwrap();
    let path = format!("{}:{}", text(&programs), std::env::var("PATH").unwrap());
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tobari"));
        command.args(words).env("PATH", &path).stdin(Stdio::null()).output().unwrap()
    };
    let done = run(&["seal", text(source.path()), "-o", &set, "-r", recipient, "-r", &native.1]);
    assert!(done.status.success() && stderr(&done).contains("touch the test key"), "{}", stderr(&done));
    let done = run(&["seal", "verify", &set, "--identity", &world.path("another")]);
    assert!(
        done.status.code() == Some(1) && stderr(&done).contains("none of the given keys decrypts"),
        "{}",
        stderr(&done)
    );
    let done = run(&["unseal", &set, "-o", &out, "--identity", &world.path("mine")]);
    assert!(done.status.success() && stderr(&done).contains("touch the test key"), "{}", stderr(&done));
    assert!(same(source.path(), Path::new(&out)));
    assert!(run(&["seal", "verify", &set, "--identity", &world.path("native")]).status.success());
    // without the plugin's program, nobody can decrypt with the plugin's identity, and the message
    // says so
    let gone = refused(&["seal", "verify", &set, "--identity", &world.path("mine")], 1);
    assert!(gone.contains("age-plugin-test"), "{gone}");
}
