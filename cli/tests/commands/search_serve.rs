//! The search over HTTP, with each part in a process of its own: a table is indexed, served and
//! queried, and every answer is that of the plain table.

use crate::support::tables::{Place, SITES, files, position, post, questions, questions_at, raw, vcf};
use crate::support::{Server, noise, stderr};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};
use tobari_host::testing::data;
use tobari_search_files::variants::{Selection, Variant, VariantReader};

#[test]
fn three_processes_answer_as_the_table_in_the_clear_for_every_kind_of_table() {
    let place = Place::new();
    let (panel, unphased) = (place.variants("panel", SITES, '|'), place.variants("unphased", SITES, '/'));
    let keys: String = (0..3_000).map(|i| format!("entry {}\t{}\n", i * 3, 1 + i % 9)).collect();
    let keys = place.write("keys.tsv", &keys);
    place.good(&["search", "index", &keys, "--table", "-o", &place.path("keys"), "--label", "keys"]);
    let asked: String = (0..12).map(|i| format!("entry {i}\n")).collect();
    let asked = place.write("asked", &asked);
    let long = place.write("long", &questions(9, 40));
    let (here, alone) =
        (place.write("here", &questions_at(17, 9)), place.write("alone", "20:7654000\t0\n20:7654000\t1\n"));
    let single = place.write("single", &(questions(1, 30) + "20:7654000\t0\n20:7654000\t1\n"));
    let server = Server::start(&["--search", &panel, "--search", &unphased, "--search", &place.path("keys")]);
    let ask = |table: &str, queries: &str, how: &[&str], clear: &[&str]| {
        let label = Path::new(table).file_name().unwrap().to_str().unwrap();
        place.same(&server.url, table, queries, &[&["--table", label], how].concat(), clear);
    };
    ask(&panel, &long, &[], &[]);
    ask(&panel, &here, &["--parallel", "1"], &[]);
    ask(&panel, &long, &["--longest"], &["--longest"]);
    ask(&place.path("keys"), &asked, &["--parallel", "16"], &[]);
    for queries in [&single, &alone] {
        let clear = place.good(&["search", "check", &unphased, "--queries", queries, "--json"]);
        let asked = place.query(&server.url, &["--table", "unphased", "--queries", queries]);
        assert_eq!(String::from_utf8(asked.stdout).unwrap(), clear);
    }
    // haplotypes of a table without phase, and a missing table name
    let refused = place.query(&server.url, &["--table", "unphased", "--queries", &long]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("phase"), "{}", stderr(&refused));
    let refused = place.query(&server.url, &["--queries", &long]);
    assert!(stderr(&refused).contains("several tables fit: choose one with --table"), "{}", stderr(&refused));
    let boolean = place.query(&server.url, &["--table", "panel", "--queries", &long, "--boolean"]);
    let lines = String::from_utf8(boolean.stdout).unwrap();
    assert!(lines.lines().all(|line| ["{\"match\":true}", "{\"match\":false}"].contains(&line)), "{lines}");
}

#[test]
fn answers_come_as_values_and_as_records_and_for_the_haplotypes_of_a_sample() {
    let place = Place::new();
    let panel = place.variants("panel", SITES, '|');
    let queries = place.write("queries", &questions(5, 12));
    let server = Server::start(&["--search", &panel]);
    let key = place.path("key");
    let both = |question: &[&str], format: &str| {
        let asked = ["search", "query", "--server", &server.url, "--key", &key, "--public", "--format", format];
        let asked = place.good(&[&asked[..], question].concat());
        assert_eq!(asked, place.good(&[&["search", "check", &panel, "--format", format], question].concat()));
        asked
    };
    let values = both(&["--queries", &queries], "tsv");
    let mut lines = values.lines();
    assert_eq!(lines.next(), Some("question\tmatch\tcount\tlongest\terrors"));
    let cells: Vec<Vec<&str>> = lines.map(|line| line.split('\t').collect()).collect();
    assert_eq!(cells.len(), 12);
    assert!(cells.iter().all(|cells| cells.len() == 5 && (cells[1] == "true") == (cells[2] != "0")), "{values}");
    // records that the project's own VCF reader accepts, each at the first site of its question
    let records = both(&["--queries", &queries], "vcf");
    let asked = std::fs::read_to_string(&queries).unwrap();
    let lines: Vec<&str> = records.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines.len(), 12);
    for ((record, asked), cells) in lines.iter().zip(asked.lines()).zip(&cells) {
        let (at, alleles) = asked.split_once('\t').unwrap();
        let fields: Vec<&str> = record.split('\t').collect();
        assert_eq!(format!("{}:{}", fields[0], fields[1]), at);
        let info = format!("LENGTH=5;ALLELES={alleles};COUNT={}", cells[2]);
        assert_eq!(fields[7], if cells[1] == "true" { info + ";MATCH" } else { info });
    }
    let text = both(&["--queries", &queries, "--longest"], "text");
    assert!(text.lines().all(|line| line.contains("alleles match")), "{text}");

    // a file with one sample: its two haplotypes, which are in the panel
    let sample: String = vcf(SITES, '|')
        .lines()
        .map(|line| match line.starts_with("##") {
            true => format!("{line}\n"),
            false => line.split('\t').take(10).collect::<Vec<_>>().join("\t") + "\n",
        })
        .collect();
    let sample = place.write("sample.vcf", &sample);
    let region = format!("20:{}-{}", position(3), position(9));
    let found = both(&["--vcf", &sample, "--region", &region], "tsv");
    assert_eq!(found.lines().filter(|line| line.starts_with("haplotype") && line.contains("\ttrue\t")).count(), 2);

    let keys = place.write("keys.tsv", "one\t1\ntwo\t2\n");
    place.good(&["search", "index", &keys, "--table", "-o", &place.path("keys")]);
    let refused = place.run(&["search", "check", &place.path("keys"), "--key-value", "one", "--format", "vcf"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("needs a table of sites"), "{}", stderr(&refused));
    assert_eq!(
        place.run(&["search", "check", &panel, "--queries", &queries, "--format", "vcf", "--json"]).status.code(),
        Some(2)
    );
}

#[test]
fn what_is_told_of_a_table_is_not_sent_again_to_whoever_has_it() {
    let place = Place::new();
    let table = place.variants("panel", SITES, '|');
    let server = Server::start(&["--search", &table]);
    let head = format!("Host: localhost\r\nConnection: close\r\nTobari-Client: {}\r\n", "07".repeat(16));
    let get =
        |path: &str, more: &str| raw(&server.address(), format!("GET {path} HTTP/1.1\r\n{head}{more}\r\n").as_bytes());
    let (status, list) = get("/search/v1", "");
    assert_eq!(status, 200);
    let list: Value = serde_json::from_str(&list[list.find('{').unwrap()..=list.rfind('}').unwrap()]).unwrap();
    let path = format!("/search/v1/tables/{}", list["tables"][0]["name"].as_str().unwrap());
    let (status, told) = get(&path, "");
    assert_eq!(status, 200);
    let tag = told.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().to_owned();
    let (status, again) = get(&path, &format!("If-None-Match: {tag}\r\n"));
    assert!(status == 304 && again.len() < told.len(), "{again}");
    assert_eq!(get(&path, "If-None-Match: \"another\"\r\n").0, 200);
}

#[test]
fn tls_is_pinned_and_a_wrong_token_or_none_is_refused() {
    let place = Place::new();
    let table = place.variants("panel", SITES, '|');
    let ((token, line), (other, _)) = (place.token("alice"), place.token("alice"));
    let tokens = place.write("tokens", &format!("# clients\n{line}\n"));
    let server = Server::start(&["--search", &table, "--tokens", &tokens, "--tls-self-signed"]);
    let pin = server.fingerprint.clone().unwrap();
    let queries = place.write("queries", &questions(5, 3));
    let ask = |more: &[&str]| place.query(&server.url, &[&["--queries", &queries], more].concat());
    let file = place.write("token", &format!("{token}\n"));
    let good = ask(&["--tls-fingerprint", &pin, "--token-file", &file]);
    assert!(good.status.success(), "{}", stderr(&good));
    for token in [&["--token", &*other][..], &[]] {
        let refused = ask(&[&["--tls-fingerprint", &*pin], token].concat());
        assert_eq!(refused.status.code(), Some(1));
        assert!(stderr(&refused).contains("(401)"), "{}", stderr(&refused));
    }
    let refused = ask(&["--tls-fingerprint", &"ab".repeat(32), "--token", &token]);
    assert!(stderr(&refused).contains("fingerprint"), "{}", stderr(&refused));
    // without tokens, only this machine is served
    let open = place.run(&["serve", "--addr", "0.0.0.0:0", "--search", &table]);
    assert_eq!(open.status.code(), Some(1));
    assert!(stderr(&open).contains("tokens"), "{}", stderr(&open));
    let proxied = ["serve", "--addr", "127.0.0.1:0", "--search", &table, "--behind-proxy", "--until-stdin-closes"];
    let proxied = place.run(&proxied);
    assert_eq!(proxied.status.code(), Some(1));
    assert!(stderr(&proxied).contains("through a proxy"), "{}", stderr(&proxied));
    let again = place.run(&["search", "keygen", "-o", &place.path("key")]);
    assert_eq!(again.status.code(), Some(1), "a key is not overwritten");
}

#[test]
fn budgets_end_and_a_new_start_does_not_give_them_back() {
    let place = Place::new();
    let table = place.variants("panel", SITES, '|');
    let (token, line) = place.token("alice");
    let (tokens, data) = (place.write("tokens", &line), place.path("data"));
    let serve = |budget: &str, region: &str| {
        let limits = ["--budget", budget, "--region-bases", "310", "--region-budget", region];
        Server::start(&[&["--search", &table, "--tokens", &tokens, "--data", &data][..], &limits].concat())
    };
    let one = format!("20:{}", position(3));
    let ask = |server: &Server, count: usize| {
        let queries = place.write("queries", &format!("{one}\t01\n").repeat(count));
        place.query(&server.url, &["--queries", &queries, "--token", &token, "--parallel", "1"])
    };
    let server = serve("7", "100");
    assert!(ask(&server, 5).status.success());
    server.stop();
    let server = serve("7", "100");
    let rest = ask(&server, 4);
    assert_eq!(rest.status.code(), Some(1));
    let lines = String::from_utf8(rest.stdout.clone()).unwrap();
    assert_eq!(lines.lines().filter(|line| line.contains("match")).count(), 2, "{lines}");
    assert!(stderr(&rest).contains("(429)") && stderr(&rest).contains("budget of 7"), "{}", stderr(&rest));
    server.stop();
    // a longest match costs as many tests as it has sites, and each region has a budget of its own
    let server = serve("1000", "9");
    let longest = |at: usize| {
        let queries = place.write("longest", &format!("20:{}\t01\n", position(at)));
        place.query(&server.url, &["--queries", &queries, "--token", &token, "--longest"])
    };
    assert!(longest(4).status.success());
    let refused = longest(4);
    assert!(stderr(&refused).contains("tests in the region 20:765"), "{}", stderr(&refused));
    assert!(longest(25).status.success());
    // a folder belongs to one server, and a damaged account does not count as an empty one
    let second = place.run(&["serve", "--addr", "127.0.0.1:0", "--search", &table, "--data", &data]);
    assert!(stderr(&second).contains("uses this folder: stop it"), "{}", stderr(&second));
    server.stop();
    let account = files(Path::new(&data)).into_iter().find(|path| path.ends_with("account")).unwrap();
    let bytes = std::fs::read(&account).unwrap();
    std::fs::write(&account, &bytes[..bytes.len() - 1]).unwrap();
    let damaged = place.run(&["serve", "--addr", "127.0.0.1:0", "--search", &table, "--data", &data]);
    assert_eq!(damaged.status.code(), Some(1));
    assert!(stderr(&damaged).contains("malformed account"), "{}", stderr(&damaged));
}

#[test]
fn fault_18_a_panel_that_is_indexed_again_gives_no_budget_of_a_region_back() {
    let place = Place::new();
    let table = place.variants("panel", SITES, '|');
    let (token, line) = place.token("alice");
    let (tokens, data) = (place.write("tokens", &line), place.path("data"));
    let serve = |bases: &str| {
        let limits = ["--region-bases", bases, "--region-budget", "2"];
        Server::start(&[&["--search", &table, "--tokens", &tokens, "--data", &data][..], &limits].concat())
    };
    let queries = place.write("queries", &format!("20:{}\t01\n", position(4)));
    let ask = |server: &Server| place.query(&server.url, &["--queries", &queries, "--token", &token]);
    let refused = |server: &Server, when: &str| {
        let done = ask(server);
        let text = stderr(&done);
        assert_eq!(done.status.code(), Some(1), "{when}");
        assert!(text.contains("(429)") && text.contains("2 tests in the region 20:765"), "{when}: {text}");
    };
    let server = serve("1000");
    assert!(ask(&server).status.success() && ask(&server).status.success());
    refused(&server, "used up");
    // indexed again, under a new random name, with fewer sites; then with more
    let first = std::fs::read(&table).unwrap();
    place.variants("panel", SITES - 10, '|');
    let name = |bytes: &[u8]| bytes[16..48].to_vec();
    assert_ne!(name(&std::fs::read(&table).unwrap()), name(&first));
    std::thread::sleep(Duration::from_millis(2_500));
    refused(&server, "indexed again");
    let log = server.stop();
    assert!(log.contains("a table was replaced"), "{log}");
    for bases in ["1000", "7000"] {
        let server = serve(bases);
        let text = stderr(&ask(&server));
        assert!(text.contains("(429)") && text.contains("2 tests in the region 20:765"), "{bases}: {text}");
        server.stop();
    }
    // an account of an earlier release, which counted sites of a table
    let account = files(Path::new(&data)).into_iter().find(|path| path.ends_with("account")).unwrap();
    let mut old = std::fs::read(&account).unwrap();
    old[3] = 1;
    std::fs::write(&account, old).unwrap();
    let done = place.run(&["serve", "--addr", "127.0.0.1:0", "--search", &table, "--data", &data]);
    assert_eq!(done.status.code(), Some(1));
    let text = stderr(&done);
    assert!(text.contains("account: ") && text.contains("remove this file to give its client new budgets"), "{text}");
    std::fs::remove_file(&account).unwrap();
    assert!(ask(&serve("1000")).status.success(), "the remedy");
}

#[test]
fn a_key_that_is_used_up_is_replaced_and_another_file_may_ask_under_the_same_name() {
    let place = Place::new();
    let table = place.variants("panel", SITES, '|');
    let (token, line) = place.token("alice");
    let (tokens, data) = (place.write("tokens", &line), place.path("data"));
    let queries = place.write("queries", &questions(9, 40));
    let server = Server::start(&["--search", &table, "--tokens", &tokens, "--data", &data, "--key-uses", "7"]);
    place.same(&server.url, &table, &queries, &["--token", &token], &[]);
    let first =
        std::fs::read(files(Path::new(&data)).iter().find(|path| path.ends_with("search.key")).unwrap()).unwrap();
    // the other key is registered instead, and then the first one again: no answer is decrypted
    // with the wrong key
    place.good(&["search", "keygen", "-o", &place.path("other")]);
    for key in ["other", "key", "other"] {
        let clear = place.good(&["search", "check", &table, "--queries", &queries, "--json"]);
        let key = place.path(key);
        let asked = [
            "search",
            "query",
            "--server",
            &server.url,
            "--key",
            &key,
            "--token",
            &token,
            "--queries",
            &queries,
            "--public",
            "--json",
        ];
        assert_eq!(place.good(&asked), clear);
    }
    let last =
        std::fs::read(files(Path::new(&data)).iter().find(|path| path.ends_with("search.key")).unwrap()).unwrap();
    assert_ne!(first, last);
}

#[test]
fn neither_log_nor_audit_nor_data_hold_what_was_asked_and_no_key_is_on_the_server() {
    let place = Place::new();
    let table = place.variants("panel", SITES, '|');
    let (token, line) = place.token("alice");
    let (tokens, data, audit) = (place.write("tokens", &line), place.path("data"), place.path("audit"));
    let server =
        Server::start(&["--search", &table, "--tokens", &tokens, "--data", &data, "--audit", &audit, "--log", "debug"]);
    let some = questions_at(17, 9);
    let queries = place.write("queries", &some.lines().take(6).map(|line| line.to_owned() + "\n").collect::<String>());
    let done = place.query(&server.url, &["--queries", &queries, "--token", &token]);
    assert!(done.status.success(), "{}", stderr(&done));
    let wrong = post("/search/v1/queries", &format!("Authorization: Bearer {token}\r\n"), b"canary of a body");
    assert_eq!(raw(&server.address(), &wrong).0, 422);
    let log = server.stop();
    let audit = std::fs::read_to_string(&audit).unwrap();
    let lines: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let answered: Vec<&Value> = lines.iter().filter(|line| line["outcome"] == "answered").collect();
    assert_eq!(answered.len(), 6);
    for line in &answered {
        assert_eq!((&line["client"], &line["shape"]), (&"alice".into(), &"pattern".into()));
        assert_eq!((&line["sites"], &line["places"], &line["granularity"]), (&9.into(), &1.into(), &"count".into()));
        let mut names: Vec<_> = line.as_object().unwrap().keys().map(String::as_str).collect();
        names.sort_unstable();
        let expected = ["client", "granularity", "outcome", "places", "shape", "sites", "table", "time", "what"];
        assert_eq!(names, expected, "nothing else is told");
    }
    assert!(
        lines.iter().any(|line| line["outcome"] == "message")
            && lines.iter().any(|line| line["what"] == "registration")
    );
    let mut secrets: Vec<Vec<u8>> = vec![token.into_bytes(), b"canary of a body".to_vec()];
    secrets.push(std::fs::read(place.path("key")).unwrap()[4..20].to_vec());
    for line in std::fs::read_to_string(&queries).unwrap().lines() {
        let (at, alleles) = line.split_once('\t').unwrap();
        secrets.extend([
            at.as_bytes().to_vec(),
            at.split_once(':').unwrap().1.as_bytes().to_vec(),
            alleles.as_bytes().to_vec(),
        ]);
    }
    let mut kept = vec![log.into_bytes(), audit.into_bytes()];
    kept.extend(files(Path::new(&data)).iter().map(|path| std::fs::read(path).unwrap()));
    assert!(kept.len() >= 5, "log, audit, lock, key, account");
    for secret in &secrets {
        let holds = |bytes: &Vec<u8>| bytes.windows(secret.len()).any(|window| window == secret);
        assert!(!kept.iter().any(holds), "{}", String::from_utf8_lossy(secret));
    }
}

#[test]
fn a_table_that_grows_is_served_without_a_new_start_and_a_broken_file_is_not() {
    let place = Place::new();
    let table = place.variants("panel", SITES - 10, '|');
    let server = Server::start(&["--search", &table]);
    let last = place.write("last", &format!("20:{}\t0\n20:{}\t1\n", position(SITES - 1), position(SITES - 1)));
    let first = place.write("first", &questions(5, 6));
    assert_ne!(place.query(&server.url, &["--queries", &last]).status.code(), Some(0), "there is no such site yet");
    let old = place.query(&server.url, &["--queries", &first]).stdout;
    let whole = vcf(SITES, '|');
    let (head, new): (Vec<&str>, Vec<&str>) = whole.lines().partition(|line| line.starts_with('#'));
    let more = place.write("more.vcf", &([head, new[SITES - 10..].to_vec()].concat().join("\n") + "\n"));
    place.good(&["search", "index", &more, "-o", &table, "--append", "--same-phasing"]);
    let until = Instant::now() + Duration::from_secs(20);
    while !place.query(&server.url, &["--queries", &last]).status.success() {
        assert!(Instant::now() < until, "the new file is not served");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(place.query(&server.url, &["--queries", &first]).stdout, old, "and clients go on with their keys");
    std::fs::write(&table, b"TSI\x01 and nothing more").unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(place.query(&server.url, &["--queries", &first]).stdout, old);
    let log = server.stop();
    assert!(log.contains("a table was replaced") && log.contains("the old one is served on"), "{log}");
}

#[test]
fn malformed_requests_get_their_status_and_leave_the_server_up() {
    let place = Place::new();
    let table = place.variants("panel", SITES, '|');
    let server = Server::start(&["--search", &table]);
    let address = server.address();
    let queries = place.write("queries", &questions(5, 4));
    let before = place.query(&server.url, &["--queries", &queries]).stdout;
    let name = format!("Tobari-Client: {}\r\n", "07".repeat(16));
    let query = |body: &[u8]| post("/search/v1/queries", &name, body);
    let own = [&[1, 0x21][..], &[9; 32], &[7; 16], &[0, 1, 5, 1, 0, 0, 0, 1, 0, 1], &[0; 60]].concat();
    let mut other = own.clone();
    other[34] = 1;
    for (request, status, word) in [
        (post("/search/v1/queries", "", b"x"), 401, "client"),
        (query(b""), 422, "message"),
        (query(&[0x55; 100]), 422, "message"),
        (query(&own), 404, "table"),
        (query(&other), 403, "client"),
        (post("/search/v1/keys/no-such-set", &name, b"x"), 404, "set"),
        (post("/search/v1/keys/search", &name, &[1, 0x20, 0, 0]), 422, "message"),
        (query(&vec![0; (16 << 20) + 1]), 413, "size"),
        (b"GET /search/v1/tables/zz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".to_vec(), 404, "table"),
        (b"DELETE /search/v1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".to_vec(), 405, ""),
    ] {
        let (found, text) = raw(&address, &request);
        assert_eq!(found, status, "{text}");
        assert!(word.is_empty() || text.contains(&format!("tobari-refusal: {word}\r\n")), "{text}");
    }
    let drawn = noise(3, 40_000);
    for (i, length) in [1, 10, 57, 58, 70, 300, 4_000, 20_000].into_iter().enumerate() {
        let mut body: Vec<u8> = drawn[i..i + length].iter().map(|sample| *sample as u8).collect();
        body.splice(0..length.min(50), own[..length.min(50)].iter().copied());
        let (status, text) = raw(&address, &query(&body));
        assert!([404, 422].contains(&status), "{length}: {text}");
    }
    let half = post("/search/v1/queries", &name, &own);
    drop(TcpStream::connect(&address).unwrap().write_all(&half[..half.len() - 40]));
    assert_eq!(place.query(&server.url, &["--queries", &queries]).stdout, before, "the server is up");
}

#[test]
fn sixteen_clients_at_once_get_their_own_answers() {
    let place = Place::new();
    let table = place.variants("panel", SITES, '|');
    let clients: Vec<_> = (0..16).map(|i| place.token(&format!("client{i}"))).collect();
    let tokens = place.write("tokens", &clients.iter().map(|(_, line)| format!("{line}\n")).collect::<String>());
    let server =
        Server::start(&["--search", &table, "--tokens", &tokens, "--data", &place.path("data"), "--max-queries", "8"]);
    for count in [1, 4, 16] {
        std::thread::scope(|scope| {
            for (i, (token, _)) in clients.iter().enumerate().take(count) {
                let (place, server, table) = (&place, &server, &table);
                scope.spawn(move || {
                    let key = place.path(&format!("key{count}-{i}"));
                    place.good(&["search", "keygen", "-o", &key]);
                    let queries = place.write(&format!("queries{count}-{i}"), &questions(3 + i, 12));
                    let asked = ["search", "query", "--server", &server.url, "--key", &key, "--token", token];
                    let asked = place.good(&[&asked[..], &["--queries", &queries, "--public", "--json"]].concat());
                    assert_eq!(asked, place.good(&["search", "check", table, "--queries", &queries, "--json"]), "{i}");
                });
            }
        });
    }
}

#[test]
fn servers_are_added_up_and_one_that_is_down_is_named() {
    let place = Place::new();
    let table = place.variants("panel", SITES, '|');
    let servers = [Server::start(&["--search", &table]), Server::start(&["--search", &table])];
    let queries = place.write("queries", &questions(6, 8));
    let count = |line: &str| serde_json::from_str::<Value>(line).unwrap()["count"].as_u64().unwrap();
    let clear = place.good(&["search", "check", &table, "--queries", &queries, "--json"]);
    let both = place.query(&servers[0].url, &["--server", &servers[1].url, "--queries", &queries]);
    assert!(both.status.success(), "{}", stderr(&both));
    let both = String::from_utf8(both.stdout).unwrap();
    assert_eq!(both.lines().count(), 8);
    both.lines().zip(clear.lines()).for_each(|(both, one)| assert_eq!(count(both), 2 * count(one)));
    let [up, down] = servers;
    let gone = down.url.clone();
    down.stop();
    let one = place.query(&up.url, &["--server", &gone, "--queries", &queries]);
    assert_eq!(one.status.code(), Some(1));
    let lines = String::from_utf8(one.stdout).unwrap();
    lines.lines().zip(clear.lines()).for_each(|(one, clear)| assert_eq!(count(one), count(clear)));
    assert!(lines.lines().all(|line| line.contains(&gone)), "{lines}");
}

#[test]
fn the_real_panel_answers_as_in_the_clear_behind_a_server() {
    let test = "the_real_panel_answers_as_in_the_clear_behind_a_server";
    let Some(vcf) = data(test, "genome/1000g-chr20-1-4Mb-600hap.vcf.gz") else { return };
    let (place, region) = (Place::new(), "20:1000000-1400000");
    let table = place.path("panel");
    place.good(&["search", "index", vcf.to_str().unwrap(), "-o", &table, "-r", region, "-i", "MAF>=0.01"]);
    let mut selection = Selection { expression: "MAF>=0.01".parse().unwrap(), ..Selection::default() };
    selection.regions.add(region).unwrap();
    let mut reader = VariantReader::open(&vcf, selection).unwrap();
    let mut sites = Vec::new();
    while let Some(site) = reader.next_variant().unwrap() {
        let Variant { chromosome, position, reference, alternate, alleles, .. } = site;
        sites.push((format!("{chromosome}:{position}:{reference}:{alternate}"), alleles));
    }
    assert!(sites.len() > 500, "{}", sites.len());
    let mut queries = String::new();
    for i in 0..150 {
        let (start, haplotype) = (i * 37 % (sites.len() - 16), i * 101 % 600);
        let changed = |j: usize| i % 2 == 1 && j == i % 16;
        let alleles: String =
            (0..16).map(|j| if sites[start + j].1[haplotype] ^ changed(j) { '1' } else { '0' }).collect();
        writeln!(queries, "{}\t{alleles}", sites[start].0).unwrap();
    }
    let queries = place.write("queries", &queries);
    let server = Server::start(&["--search", &table, "--data", &place.path("data")]);
    place.same(&server.url, &table, &queries, &["--parallel", "8"], &[]);
}
