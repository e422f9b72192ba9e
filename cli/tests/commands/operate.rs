//! The operation of a server: settings in a file, logs for programs, backups of data, and the files
//! in `deploy`.

use crate::support::fleet::{ask, get, good};
use crate::support::{Server, stderr, tobari};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::tempdir;
use tobari_host::testing::not_run;

fn deployed(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(file)
}

fn check(file: &Path, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tobari"));
    command.args(["config", "check"]).arg(file).envs(variables.iter().copied()).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_settings_in_deploy_are_understood_and_a_variable_goes_before_them() {
    let file = deployed("tobari.toml");
    let plain = check(&file, &[]);
    assert!(plain.status.success(), "{}", stderr(&plain));
    for line in ["log-format = json  (file)", "behind-proxy = true  (file)", "max-rooms = 64  (file)", "json"] {
        assert!(stdout(&plain).contains(line), "{line}: {}", stdout(&plain));
    }
    let other = check(&file, &[("TOBARI_SERVE_MAX_ROOMS", "3"), ("TOBARI_SERVE_MAX_MEMBERS", "9")]);
    assert!(stdout(&other).contains("max-rooms = 3  (environment)"), "{}", stdout(&other));
    assert!(stdout(&other).contains("max-members = 9  (environment)"), "{}", stdout(&other));
    let wrong = check(&file, &[("TOBARI_SERVE_MAX_ROOMS", "many")]);
    assert_eq!(wrong.status.code(), Some(2), "{}", stderr(&wrong));
}

/// A reverse proxy makes every client local, so a loopback address alone admits nobody there.
#[test]
fn behind_a_proxy_a_job_starts_with_tokens_or_open_to_all_alone() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data").to_str().unwrap().to_owned();
    let proxies: [&[&str]; 2] = [&["--behind-proxy"], &["--host-name", "tobari.example"]];
    let jobs: [&[&str]; 2] = [&["--infer", "digits"], &["--sense", &data]];
    for (job, proxy) in jobs.iter().flat_map(|job| proxies.iter().map(move |proxy| (*job, *proxy))) {
        // a server that starts all the same ends at once, and fails the test instead of hanging it
        let refused = tobari(&[&["serve", "--addr", "127.0.0.1:0", "--until-stdin-closes"], job, proxy].concat());
        let said = stderr(&refused);
        assert_eq!(refused.status.code(), Some(1), "{job:?} {proxy:?}: {said}");
        assert!(said.contains("through a proxy") && said.contains("--tokens FILE"), "{said}");
        Server::start(&[job, proxy, &["--open"]].concat()).stop();
    }
    // calls admit by the link, and need no tokens
    Server::start(&["--behind-proxy"]).stop();
}

#[test]
fn a_file_that_names_what_is_not_there_is_wrong_before_the_server_is() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("t.toml");
    std::fs::write(&file, "[serve]\ntls-cert = \"no-such.pem\"\ntls-key = \"no-such.key\"\n").unwrap();
    let missing = check(&file, &[]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(stderr(&missing).contains("no-such.pem, no-such.key"), "{}", stderr(&missing));
    let none = check(&folder.path().join("none.toml"), &[]);
    assert_eq!(none.status.code(), Some(2), "{}", stderr(&none));
}

#[test]
fn a_server_of_a_file_logs_one_object_a_line() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("t.toml");
    // the address in the file has no effect: the command line gives another one
    std::fs::write(&file, "log = \"info\"\nlog-format = \"json\"\n[serve]\naddr = \"192.0.2.1:1\"\nmax-rooms = 1\n")
        .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tobari"));
    command.args(["serve", "--addr", "127.0.0.1:0", "--json", "--until-stdin-closes", "--config"]).arg(&file);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut announced = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut announced).unwrap();
    let announced: serde_json::Value = serde_json::from_str(&announced).unwrap();
    let link = tobari(&["call", "link", announced["listening"].as_str().unwrap()]);
    let joined = tobari(&["call", "join", stdout(&link).trim(), "--seconds", "1"]);
    assert!(joined.status.success(), "{}", stderr(&joined));
    drop(child.stdin.take());
    let mut log = String::new();
    child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert!(child.wait().unwrap().success());
    let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| line["message"] == "live room opened" && line["mode"] == "mask"), "{log}");
    assert!(lines.iter().all(|line| line["level"] == "INFO" && line["timestamp"].is_string()), "{log}");
}

#[test]
fn data_are_backed_up_when_nobody_uses_them_and_restored_into_a_folder_of_their_own() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("key"), [7; 32]).unwrap();
    let server = Server::start(&["--sense", &at("data")]);
    let backup = |to: &str| tobari(&["backup", &at("data"), "-o", &at(to), "--key-file", &at("key")]);
    let used = backup("early");
    assert_eq!(used.status.code(), Some(1));
    assert!(stderr(&used).contains("uses this folder: stop it"), "{}", stderr(&used));
    let second = tobari(&["serve", "--addr", "127.0.0.1:0", "--sense", &at("data")]);
    assert!(!second.status.success() && stderr(&second).contains("uses this folder: stop it"), "{}", stderr(&second));
    drop(server);
    std::fs::create_dir(at("data/kept")).unwrap();
    std::fs::write(at("data/kept/canary"), b"canary of what is kept").unwrap();
    let whole = backup("backup");
    assert!(whole.status.success(), "{}", stderr(&whole));
    let sealed = support_files(Path::new(&at("backup")));
    assert!(sealed.iter().all(|bytes| !bytes.windows(6).any(|window| window == b"canary")), "it is sealed");

    for look in ["verify", "ls"] {
        let seen = tobari(&["backup", look, &at("backup"), "--key-file", &at("key")]);
        assert!(seen.status.success(), "{look}: {}", stderr(&seen));
    }
    let restore = |to: &str| tobari(&["restore", &at("backup"), "-o", &at(to), "--key-file", &at("key")]);
    let again = restore("again");
    assert!(again.status.success(), "{}", stderr(&again));
    assert_eq!(std::fs::read(at("again/kept/canary")).unwrap(), b"canary of what is kept");
    assert_eq!(std::fs::read(at("again/tobari-data")).unwrap(), b"tobari data 1\n");
    let full = restore("again");
    assert!(!full.status.success() && stderr(&full).contains("holds a server's data already"), "{}", stderr(&full));
    drop(Server::start(&["--sense", &at("again")]));
    // data of a later release are not touched
    std::fs::write(at("again/tobari-data"), b"tobari data 2\n").unwrap();
    let later = tobari(&["serve", "--addr", "127.0.0.1:0", "--sense", &at("again")]);
    assert!(!later.status.success() && stderr(&later).contains("of a later release (version 2"), "{}", stderr(&later));
    let other = tobari(&["backup", &at("backup"), "-o", &at("no"), "--key-file", &at("key")]);
    assert!(!other.status.success() && stderr(&other).contains("folder of `tobari serve`"), "{}", stderr(&other));
}

/// The contents of all files of a folder.
fn support_files(folder: &Path) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { all.extend(support_files(&path)) } else { all.push(std::fs::read(&path).unwrap()) }
    }
    all
}

#[test]
fn one_word_serves_every_job_on_made_up_data_and_leaves_nothing_behind() {
    let (folder, own) = (tempdir().unwrap(), tempdir().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_tobari"));
    command.args(["serve", "--try", "--addr", "127.0.0.1:0", "--json", "--until-stdin-closes"]);
    let pipes = command.env("TMPDIR", folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = pipes.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    let url = line["listening"].as_str().unwrap();
    let address = url.split_once("://").unwrap().1;
    let jobs = ask(address, "GET", "/jobs", b"").unwrap();
    assert_eq!(jobs, (200, br#"{"call":true,"infer":true,"search":true,"sense":true}"#.to_vec()));
    let tables = String::from_utf8(ask(address, "GET", "/search/v1", b"").unwrap().1).unwrap();
    assert_eq!(tables.matches("simulated").count(), 2, "{tables}");
    let key = own.path().join("key").display().to_string();
    good(&["search", "keygen", "-o", &key]);
    let asked = ["search", "query", "--server", url, "--key", &key, "--table", "simulated: squares", "--json"];
    let found = |square| good(&[&asked[..], &["--key-value", square]].concat());
    assert!(found("144").contains(r#""count":12"#) && found("145").contains(r#""match":false"#));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "what is made up lies there");
    drop(server.stdin.take());
    let output = server.wait_with_output().unwrap();
    assert!(output.status.success() && stderr(&output).contains("SIMULATED"), "{}", stderr(&output));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Sends a signal.
fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap().success());
}

/// The status of a request with this token.
fn status(address: &str, token: &str) -> u16 {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let head = "GET /sense/v1/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer";
    stream.write_all(format!("{head} {token}\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text[9..12].parse().unwrap()
}

#[test]
fn fault_28_a_hangup_reloads_tokens_guesses_are_counted_and_a_drain_says_when_to_come() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let line = |name: &str| format!("{name} {}\n", tobari_node::token_hash(name));
    std::fs::write(at("tokens"), line("alice") + &line("bob")).unwrap();
    let args = ["--sense", &at("sense"), "--tokens", &at("tokens"), "--drain", "6"];
    let mut server = Server::logging_to(Path::new(&at("log")), &args);
    let address = server.address();
    let logged = |words: &str| {
        let begun = Instant::now();
        while !std::fs::read_to_string(at("log")).unwrap().contains(words) {
            assert!(begun.elapsed() < Duration::from_secs(20), "not in the log: {words}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    assert_eq!((status(&address, "alice"), status(&address, "bob")), (200, 200));
    // a bad file first: the server keeps running, and the old tokens stay valid
    std::fs::write(at("tokens"), "alice\n").unwrap();
    signal("HUP", server.pid());
    logged("the old tokens stay in force");
    assert_eq!((status(&address, "alice"), status(&address, "bob")), (200, 200));
    std::fs::write(at("tokens"), line("bob")).unwrap();
    signal("HUP", server.pid());
    logged("the file of tokens was read again");
    assert_eq!((status(&address, "alice"), status(&address, "bob")), (401, 200));
    for guess in 1..200 {
        assert_eq!(status(&address, &format!("canary-guess-{guess}")), 401);
    }
    let (_, counters) = ask(&address, "GET", "/metrics", b"").unwrap();
    assert!(String::from_utf8(counters).unwrap().contains("tobari_edge_unknown_tokens_total 200\n"));

    // the server drains while a member is in a call
    let link = stdout(&tobari(&["call", "link", &server.url])).trim().to_owned();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tobari"));
    command.args(["call", "join", &link, "--seconds", "30"]).stdin(Stdio::null());
    let inside = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    logged("live room opened");
    signal("TERM", server.pid());
    std::thread::sleep(Duration::from_millis(500));
    let late = tobari(&["call", "join", &link, "--seconds", "1"]);
    let words = "the server is shutting down or restarting, and lets nobody in: try again in ";
    assert!(late.status.code() == Some(1) && stderr(&late).contains(words), "{}", stderr(&late));
    assert!(server.is_alive(), "the call goes on");
    let inside = inside.wait_with_output().unwrap();
    assert!(stderr(&inside).contains("shutdown"), "told to the end: {}", stderr(&inside));
    logged("without a known token");
    let begun = Instant::now();
    while server.is_alive() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not end");
        std::thread::sleep(Duration::from_millis(50));
    }
    let log = std::fs::read_to_string(at("log")).unwrap();
    let refusals = log.lines().filter(|line| line.contains("without a known token"));
    let counts: Vec<u64> = refusals.map(|line| line.split_once("count=").unwrap().1.trim().parse().unwrap()).collect();
    assert!(counts.len() <= 4 && counts.iter().sum::<u64>() == 200, "{counts:?}");
    assert!(!log.contains("canary-guess") && !log.contains("127.0.0.1"), "{log}");
}

#[test]
fn a_health_check_tells_a_server_that_answers_from_anything_else() {
    let mut server = Server::start(&["--tls-self-signed"]);
    let pin = server.fingerprint.clone().unwrap();
    let check = |more: &[&str]| tobari(&[&["healthcheck", "--server"], more].concat());
    let (url, pinned) = (server.url.clone(), ["--tls-fingerprint", pin.as_str()]);
    for (more, state) in [(&[][..], "alive"), (&["--ready"], "ready")] {
        let healthy = check(&[&[url.as_str()], &pinned[..], more].concat());
        assert_eq!((healthy.status.code(), stdout(&healthy)), (Some(0), format!("{url} is {state}\n")));
    }
    let json = check(&[&[url.as_str(), "--json"], &pinned[..]].concat());
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json, serde_json::json!({ "server": url, "healthy": true, "state": "alive" }));

    // another certificate, and later no server
    let unhealthy = |output: &Output, why: &str| {
        let said = stderr(output);
        assert!(output.status.code() == Some(1) && said.contains(" is not healthy: ") && said.contains(why), "{said}");
    };
    unhealthy(&check(&[&url, "--tls-fingerprint", &"00".repeat(32)]), "TLS with 127.0.0.1");
    server.kill();
    unhealthy(&check(&[&[url.as_str()], &pinned[..]].concat()), "cannot connect to 127.0.0.1");

    // another program's server, and one that accepts and says nothing
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", other.local_addr().unwrap());
    unhealthy(&check(&[&url, "--timeout", "1"]), "no reply from the server within 1s");
    let answering = std::thread::spawn(move || {
        _ = other.accept(); // the check that gave up
        let (mut client, _) = other.accept().unwrap();
        _ = client.read(&mut [0; 1024]).unwrap();
        client.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").unwrap();
    });
    unhealthy(&check(&[&url]), "/healthz answered \"hello\" instead of \"ok\"");
    answering.join().unwrap();
}

#[test]
fn the_unit_for_systemd_is_one() {
    let name = "the_unit_for_systemd_is_one";
    let folder = tempdir().unwrap();
    let unit = std::fs::read_to_string(deployed("systemd/tobari.service")).unwrap();
    assert!(unit.contains("\nExecReload=/bin/kill -HUP $MAINPID\n"));
    assert!(unit.contains("DynamicUser=yes") && unit.contains("ProtectSystem=strict"));
    let file = folder.path().join("tobari.service");
    std::fs::write(&file, unit.replace("/usr/local/bin/tobari", env!("CARGO_BIN_EXE_tobari"))).unwrap();
    match Command::new("systemd-analyze").arg("verify").arg(&file).output() {
        Ok(output) => assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output)),
        Err(error) => not_run(name, &format!("systemd-analyze: {error}")),
    }
}

#[test]
fn the_book_has_every_metric_and_no_other() {
    let server = Server::start(&["--try"]);
    let printed: String = ["/metrics", "/sense/v1/metrics"].map(|path| get(&server.address(), path)).concat();
    let name = |line: &str| line.split(['{', ' ']).next().unwrap().to_owned();
    let printed: Vec<String> = printed.lines().filter(|line| !line.starts_with('#')).map(name).collect();
    let page = std::fs::read_to_string(deployed("../book/src/reference/metrics.md")).unwrap();
    let cells = page.lines().filter_map(|line| line.strip_prefix("| `tobari_")?.split_once('`'));
    let described: Vec<String> = cells.map(|(rest, _)| format!("tobari_{rest}")).collect();
    for metric in &printed {
        assert!(described.contains(metric), "{metric} is not on the page");
    }
    // metrics of the key holder's process, among them what it releases, and of servers that share
    // rooms
    let released = page.split_once("\nReleased figures").unwrap().1.split_once("\n\nAll three").unwrap().0;
    let is_elsewhere = |metric: &str| {
        ["tobari_sense_results_total", "tobari_sense_removed_windows_total"].contains(&metric)
            || metric.starts_with("tobari_call_bus_")
            || released.contains(&format!("`{metric}`"))
    };
    for metric in described.iter().filter(|metric| !is_elsewhere(metric) || printed.contains(metric)) {
        assert!(printed.contains(metric), "the page has {metric}, and no server");
    }
    assert!(printed.len() > 20, "{printed:?}");
}
