//! Tables with labels over HTTP, with each part in a process of its own: every answer is that of
//! the plain table, and budgets count evaluations.

use crate::support::tables::{Place, SITES, position, post, questions, questions_at, raw, without_places};
use crate::support::{Server, has_no_answer, stderr};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// The server's list of tables.
fn listed(server: &Server) -> Value {
    let (status, text) =
        raw(&server.address(), b"GET /search/v1 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn a_server_with_labels_answers_as_the_table_in_the_clear_for_every_kind_of_table() {
    let place = Place::new();
    let (panel, unphased) = (place.variants("panel", SITES, '|'), place.variants("unphased", SITES, '/'));
    let keys: String = (0..700).map(|i| format!("entry {}\t{}\n", i * 3, 1 + i % 9)).collect();
    let keys = place.write("keys.tsv", &keys);
    place.good(&["search", "index", &keys, "--table", "-o", &place.path("keys"), "--label", "keys"]);
    let asked: String = (0..12).map(|i| format!("entry {i}\n")).collect();
    let asked = place.write("asked", &asked);
    let long = place.write("long", &questions(9, 18));
    let (here, alone) =
        (place.write("here", &questions_at(17, 9)), place.write("alone", "20:7654000\t0\n20:7654000\t1\n"));
    let single = place.write("single", &(questions(1, 12) + "20:7654000\t0\n20:7654000\t1\n"));
    let tables = ["--search", &panel, "--search", &unphased, "--search", &place.path("keys")];
    let server = Server::start(&[&["--malicious", "--hidden", "9,keys"], &tables[..]].concat());
    let list = listed(&server);
    assert_eq!(list["labels"], 131_072);
    assert!(list["tables"].as_array().unwrap().iter().all(|table| table["mode"] == "labels"), "{list}");
    let ask = |table: &str, queries: &str, how: &[&str], clear: &[&str]| {
        let label = Path::new(table).file_name().unwrap().to_str().unwrap();
        place.same(&server.url, table, queries, &[&["--table", label], how].concat(), clear);
    };
    ask(&panel, &long, &["--malicious"], &[]);
    ask(&panel, &here, &["--parallel", "1"], &[]);
    ask(&panel, &here, &["--longest"], &["--longest"]);
    ask(&place.path("keys"), &asked, &["--parallel", "2"], &[]);
    // with the place hidden: in its cell, in the whole table, and keys
    ask(&panel, &here, &["--least-places", "10"], &[]);
    ask(&panel, &long, &["--hidden", "--malicious"], &[]);
    ask(&place.path("keys"), &asked, &["--hidden"], &[]);
    for queries in [&single, &alone] {
        let clear = place.good(&["search", "check", &unphased, "--queries", queries, "--json"]);
        let asked = |how: &[&str]| {
            let all = [&["--table", "unphased", "--queries", queries], how].concat();
            String::from_utf8(place.query(&server.url, &all).stdout).unwrap()
        };
        assert_eq!(asked(&[]), clear);
        assert_eq!(without_places(&asked(&["--least-places", "10"]), 10), clear);
    }
    let boolean = place.query(&server.url, &["--table", "panel", "--queries", &long, "--boolean"]);
    let lines = String::from_utf8(boolean.stdout).unwrap();
    let clear = place.good(&["search", "check", &panel, "--queries", &long, "--json"]);
    assert_eq!(lines.lines().count(), clear.lines().count());
    for (line, clear) in lines.lines().zip(clear.lines()) {
        let found = clear.contains("\"match\":true");
        assert_eq!(line, format!("{{\"match\":{found}}}"));
    }
    // without --json, the output tells the user of the mode
    let at = format!("20:{}", position(3));
    let told = ["search", "query", "--server", &server.url, "--key", &place.path("key"), "--table", "panel"];
    let asked = |place_of: &[&str]| place.run(&[&told[..], &["--at", &at, "--alleles", "01"], place_of].concat());
    assert!(stderr(&asked(&["--public"])).contains("mode labels"));
    let hidden = asked(&["--least-places", "10"]);
    assert!(stderr(&hidden).contains("the server sees the cell 20:"), "{}", stderr(&hidden));
    assert_eq!(hidden.stdout, asked(&["--public"]).stdout);
}

#[test]
fn a_client_that_wants_labels_asks_no_server_without_and_a_plain_query_is_refused_where_there_are() {
    let place = Place::new();
    let table = place.variants("panel", SITES, '|');
    let queries = place.write("queries", &questions(5, 3));
    let plain = Server::start(&["--search", &table]);
    assert_eq!(listed(&plain)["tables"][0]["mode"], "plain");
    let refused = place.query(&plain.url, &["--malicious", "--queries", &queries]);
    assert!(refused.status.code() == Some(1) && has_no_answer(&refused), "{refused:?}");
    assert!(stderr(&refused).contains("does not serve this table in mode --malicious"), "{}", stderr(&refused));

    let server = Server::start(&["--malicious", "--search", &table]);
    let name = listed(&server)["tables"][0]["name"].as_str().unwrap().to_owned();
    let name: Vec<u8> = (0..32).map(|i| u8::from_str_radix(&name[2 * i..2 * i + 2], 16).unwrap()).collect();
    let client = format!("Tobari-Client: {}\r\n", "07".repeat(16));
    // a pattern of 5 sites at one place, without labels and with wrong labels
    let query = [&[1, 0x21][..], &name, &[7; 16], &[0, 1, 5, 1, 0, 0, 0, 1, 0, 1], &[0; 60]].concat();
    let other = [&[1, 0x21][..], &name, &[7; 16], &[4, 1, 5, 1], &[9; 16], &[0, 0, 0, 1, 0, 1], &[0; 60]].concat();
    let element = [0x0a; 32];
    let evaluation = |client: u8, element: &[u8]| [&[1, 0x27][..], &name, &[client; 16], &[0, 1], element].concat();
    let (queries_path, evaluations) = ("/search/v1/queries", "/search/v1/evaluations");
    for (path, body, status, word) in [
        (queries_path, query, 409, "mode"),
        (queries_path, other, 412, "labels"),
        (evaluations, evaluation(8, &element), 403, "client"),
        (evaluations, evaluation(7, &[0; 32]), 422, "message"),
        (evaluations, evaluation(7, &element[1..]), 422, "message"),
        (evaluations, Vec::new(), 422, "message"),
    ] {
        let (found, text) = raw(&server.address(), &post(path, &client, &body));
        assert_eq!(found, status, "{text}");
        assert!(text.contains(&format!("tobari-refusal: {word}\r\n")), "{text}");
    }
    assert_eq!(raw(&server.address(), &post(evaluations, "", b"x")).0, 401);
    assert!(place.query(&server.url, &["--malicious", "--queries", &queries]).status.success(), "the server is up");
}

#[test]
fn evaluations_are_paid_and_a_new_start_does_not_give_them_back() {
    let place = Place::new();
    let table = place.variants("panel", SITES, '|');
    let (token, line) = place.token("alice");
    let (tokens, data, audit) = (place.write("tokens", &line), place.path("data"), place.path("audit"));
    let serve = || {
        let files = ["--tokens", &tokens, "--data", &data, "--audit", &audit];
        Server::start(&[&["--malicious", "--search", &table, "--budget", "7"][..], &files].concat())
    };
    let ask = |server: &Server, at: usize, alleles: &str, how: &[&str]| {
        let queries = place.write("queries", &format!("20:{}\t{alleles}\n", position(at)));
        place.query(&server.url, &[&["--queries", &queries, "--token", &token], how].concat())
    };
    let server = serve();
    assert!(ask(&server, 3, "01", &[]).status.success());
    assert!(ask(&server, 3, "0100", &["--longest"]).status.success());
    server.stop();
    let server = serve();
    let refused = ask(&server, 3, "010", &["--longest"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("(429)") && stderr(&refused).contains("budget of 7"), "{}", stderr(&refused));
    assert!(ask(&server, 3, "01", &["--longest"]).status.success(), "what is left is two tests");
    assert!(!ask(&server, 3, "0", &[]).status.success());
    server.stop();
    let audit = std::fs::read_to_string(&audit).unwrap();
    let lines: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let evaluations = lines.iter().filter(|line| line["what"] == "evaluation" && line["outcome"] == "evaluated");
    assert_eq!(evaluations.map(|line| line["elements"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 4, 2]);
    assert_eq!(lines.iter().filter(|line| line["outcome"] == "budget").count(), 2);
    assert_eq!(lines.iter().filter(|line| line["outcome"] == "answered").count(), 3);
    for line in lines.iter().filter(|line| line["what"] == "evaluation") {
        let names: Vec<_> = line.as_object().unwrap().keys().map(String::as_str).collect();
        let allowed = ["client", "elements", "outcome", "table", "time", "what"];
        assert!(names.iter().all(|name| allowed.contains(name)), "nothing else is told: {names:?}");
    }
}

#[test]
fn a_question_for_too_many_labels_is_refused_before_it_is_paid() {
    let place = Place::new();
    let table = place.variants("panel", SITES, '|');
    let server = Server::start(&["--malicious", "--search", &table, "--max-labels", "30", "--budget", "1"]);
    let queries = place.write("queries", &questions(9, 1));
    let refused = place.query(&server.url, &["--queries", &queries, "--longest"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("at most 30 labels"), "{}", stderr(&refused));
    assert!(place.query(&server.url, &["--queries", &queries]).status.success(), "the only test was not paid");
    let other = place.run(&["serve", "--addr", "127.0.0.1:0", "--search", &table, "--max-labels", "30"]);
    assert_eq!(other.status.code(), Some(2), "a limit of labels without labels");
}

#[test]
fn a_table_that_changes_while_it_is_asked_has_another_key_and_clients_evaluate_again() {
    let place = Place::new();
    let table = place.variants("panel", SITES, '|');
    let server = Server::start(&["--malicious", "--search", &table]);
    let queries = place.write("queries", &questions(9, 60));
    let clear = place.good(&["search", "check", &table, "--queries", &queries, "--json"]);
    let bytes = std::fs::read(&table).unwrap();
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let (until, mut runs) = (Instant::now() + Duration::from_secs(6), 0);
            while Instant::now() < until {
                let asked = place.query(&server.url, &["--queries", &queries]);
                assert_eq!(String::from_utf8_lossy(&asked.stdout), clear, "{}", stderr(&asked));
                runs += 1;
            }
            runs
        });
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(1_300));
            std::fs::write(place.path("new"), &bytes).unwrap();
            std::fs::rename(place.path("new"), &table).unwrap();
        }
        assert!(asking.join().unwrap() > 0);
    });
    let log = server.stop();
    assert!(log.matches("a table was replaced").count() >= 2, "{log}");
}
