//! Places that hide in their cells, over HTTP, with each part in a process of its own.

use crate::support::tables::{Beacon, Place, SITES, position, questions, vcf, without_places};
use crate::support::tap::Tap;
use crate::support::{Server, has_no_answer, stderr};
use serde_json::Value;

/// Sites 90,000 bases apart: 11 or 12 in each cell.
fn spread(text: &str) -> String {
    (0..SITES).fold(text.to_owned(), |text, site| text.replace(&position(site).to_string(), &wide(site).to_string()))
}

fn wide(site: usize) -> usize {
    1_000_001 + 90_000 * site
}

/// A table over five cells; `skip` leaves sites out.
fn table(place: &Place, name: &str, skip: impl Fn(usize) -> bool) -> String {
    let left = |line: &&str| (0..SITES).all(|site| !skip(site) || !line.starts_with(&format!("20\t{}\t", wide(site))));
    let text: String = spread(&vcf(SITES, '|')).lines().filter(left).map(|line| format!("{line}\n")).collect();
    let vcf = place.write(&format!("{name}.vcf"), &text);
    place.good(&["search", "index", &vcf, "-o", &place.path(name), "--label", name]);
    place.path(name)
}

/// The lines of an audit log with answers.
fn answered(audit: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(audit).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["outcome"] == "answered").collect()
}

#[test]
fn places_hide_in_their_cells_unless_the_user_shows_them_and_every_cell_gets_as_many_questions() {
    let place = Place::new();
    let panel = table(&place, "panel", |_| false);
    let (audit, more) = (place.path("audit"), questions(5, 9) + &questions(1, 4));
    let queries = place.write("queries", &spread(&more));
    let server = Server::start(&["--search", &panel, "--audit", &audit]);
    let clear = place.good(&["search", "check", &panel, "--queries", &queries, "--json"]);
    let asked = place.query(&server.url, &["--queries", &queries, "--least-places", "6"]);
    assert!(asked.status.success(), "{}", stderr(&asked));
    let asked = String::from_utf8(asked.stdout).unwrap();
    assert!(clear.contains("true") && clear.contains("false"), "both happen");
    assert_eq!(without_places(&asked, 6), clear);
    // of each cell and number of sites, as many as of the fullest: the server cannot tell which
    let cell = |line: &str| {
        let (at, alleles) = line.split_once('\t').unwrap();
        (at[3..].parse::<usize>().unwrap() / 1_000_000, alleles.len())
    };
    let mut groups = std::collections::BTreeMap::<_, usize>::new();
    spread(&more).lines().for_each(|line| *groups.entry(cell(line)).or_default() += 1);
    let most = groups.values().max().unwrap();
    assert!(groups.values().any(|count| count < most), "some are filled up: {groups:?}");
    assert_eq!(answered(&audit).len(), groups.len() * most);
    // people read what the server sees
    let at = format!("20:{}", wide(3));
    let ask = ["search", "query", "--server", &server.url, "--key", &place.path("key"), "--at", &at, "--alleles", "01"];
    for (more, says) in [
        (&["--public"][..], "the place is public to the server"),
        (&["--least-places", "7"], "hides among 12 places: the server sees the cell 20:1000001-2000000"),
    ] {
        let done = place.run(&[&ask[..], more].concat());
        assert!(done.status.success() && stderr(&done).contains(says), "{}", stderr(&done));
    }
    // with too few places nothing is sent
    let before = answered(&audit).len();
    let refused = place.run(&ask);
    assert_eq!(refused.status.code(), Some(1));
    let said = stderr(&refused);
    assert!(
        has_no_answer(&refused) && said.contains("has 12 places for 2 sites") && said.contains("fewer than 100"),
        "{said}"
    );
    assert_eq!(answered(&audit).len(), before);
    // a whole table of such questions is no cell
    let refused = place.query(&server.url, &["--queries", &queries, "--longest", "--least-places", "7"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--longest needs --public"), "{}", stderr(&refused));
}

#[test]
fn a_line_that_is_no_question_or_is_not_listed_ends_no_list_and_does_not_show() {
    let place = Place::new();
    let (full, part) = (table(&place, "full", |_| false), table(&place, "part", |site| site % 12 == 5));
    let audits = [place.path("audit"), place.path("audit of another")];
    let server = Server::start(&["--search", &full, "--audit", &audits[0]]);
    let other = Server::start(&["--search", &part, "--audit", &audits[1]]);
    let lines = [
        format!("20:{}\t01", wide(0)),
        "20:1000007\t1".to_owned(),
        "no site\t01".to_owned(),
        format!("20:{}\t2", wide(1)),
        format!("20:{}\t1", wide(5)),
    ];
    let queries = place.write("queries", &(lines.join("\n") + "\n"));
    let lines = |args: &[&str]| {
        let done = place.query(&server.url, &[&["--queries", &queries, "--least-places", "9"], args].concat());
        assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
        let text = String::from_utf8(done.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>()
    };
    let one = lines(&[]);
    assert_eq!(one.len(), 5);
    for (index, says) in
        [(1, "line 2: expected the position of a site"), (2, "line 3"), (3, "line 4: alleles are digits")]
    {
        assert!(one[index]["error"].as_str().unwrap().contains(says), "{}", one[index]);
    }
    assert!(one[0]["count"].is_u64() && one[4]["count"].is_u64(), "{one:?}");
    // two questions about one site, one of which is not listed, and one about two sites: each group
    // gets two
    assert_eq!(answered(&audits[0]).len(), 4);
    // a second server that lacks a site is asked as often as the first
    let both = lines(&["--server", &other.url]);
    assert_eq!((answered(&audits[0]).len(), answered(&audits[1]).len()), (8, 4));
    assert_eq!((&both[4]["servers"], &both[4]["count"]), (&1.into(), &one[4]["count"]));
    // nor does a single question about it, which ends with the error
    let alone = ["--at", "20:1000007", "--alleles", "1", "--least-places", "9"];
    let done = place.query(&server.url, &alone);
    assert_eq!(done.status.code(), Some(1));
    assert!(stderr(&done).contains("expected the position of a site"), "{}", stderr(&done));
    assert_eq!(answered(&audits[0]).len(), 9);
    let public = place.query(&server.url, &alone[..4]);
    assert_eq!((public.status.code(), answered(&audits[0]).len()), (Some(2), 9));
    assert!(both[4]["errors"][0].as_str().unwrap().contains(&other.url), "{}", both[4]);
    assert_eq!((&both[4]["hidden_among"], &both[1]["hidden_among"]), (&11.into(), &Value::Null));
}

/// A mistyped chromosome, a cell without sites and one with too few end no list, and their lines
/// are not sent: what is refused follows from the public list of sites.
#[test]
fn lines_whose_cell_has_too_few_places_are_refused_by_themselves() {
    let place = Place::new();
    // the third cell has one site
    let (panel, audit) = (table(&place, "panel", |site| (24..34).contains(&site)), place.path("audit"));
    let server = Server::start(&["--search", &panel, "--audit", &audit]);
    let lines = [
        format!("20:{}\t01", wide(0)),
        format!("2O:{}\t01", wide(0)),
        "20:50000000\t1".to_owned(),
        format!("20:{}\t1", wide(23)),
        format!("20:{}\t1", wide(5)),
    ];
    let queries = place.write("queries", &(lines.join("\n") + "\n"));
    let ask = || place.query(&server.url, &["--queries", &queries, "--least-places", "9"]);
    let done = ask();
    assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
    let told: Vec<Value> =
        String::from_utf8(done.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(told.len(), 5);
    assert!(told[1]["error"].as_str().unwrap().contains("line 2: expected a chromosome among 20"), "{}", told[1]);
    assert!(told[2]["error"].as_str().unwrap().contains("line 3: expected the position of a site"), "{}", told[2]);
    let few = told[3]["error"].as_str().unwrap();
    assert!(few.contains("has 1 places for 1 sites") && few.contains("nothing was asked"), "{few}");
    let clear = place.write("clear", &format!("{}\n{}\n", lines[0], lines[4]));
    let clear = place.good(&["search", "check", &panel, "--queries", &clear, "--json"]);
    let clear: Vec<Value> = clear.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!([&told[0]["count"], &told[4]["count"]], [&clear[0]["count"], &clear[1]["count"]]);
    // each of the two groups of the first cell has one question; nothing of other cells was sent
    assert_eq!(answered(&audit).len(), 2);
    // a list of such lines alone
    place.write("queries", &(lines[1..4].join("\n") + "\n"));
    assert_eq!(ask().status.code(), Some(1));
    assert_eq!(answered(&audit).len(), 2);
}

/// What a list says to two servers is the same with and without lines that are refused. A line that
/// one server cannot hide in its whole table goes to no cell of the other that is too small.
#[test]
fn refused_lines_are_in_no_request_at_any_of_two_servers() {
    let place = Place::new();
    // the other table lacks most of the third million
    let (full, part) = (table(&place, "full", |_| false), table(&place, "part", |site| (24..34).contains(&site)));
    let servers = [&full, &part].map(|table| Server::start(&["--search", table]));
    let taps = servers.each_ref().map(|server| Tap::to(&server.address()));
    let ask = |lines: &[String]| {
        let queries = place.write("queries", &(lines.join("\n") + "\n"));
        let how = ["--server", &taps[1].url, "--queries", &queries, "--least-places", "9", "--parallel", "1"];
        let done = place.query(&taps[0].url, &how);
        (done.status.code(), taps.each_ref().map(seen_at))
    };
    let good =
        [(0, "01"), (3, "01"), (5, "1"), (40, "1")].map(|(site, alleles)| format!("20:{}\t{alleles}", wide(site)));
    let few = [(25, "01"), (25, "1"), (28, "1")].map(|(site, alleles)| format!("20:{}\t{alleles}", wide(site)));
    ask(&good);
    let (code, seen) = ask(&good);
    assert_eq!((code, seen[0].len() > 6, seen[1].len()), (Some(0), true, seen[0].len()));
    for list in [[&few[..], &good].concat(), [&good[..2], &few, &good[2..]].concat()] {
        assert_eq!(ask(&list), (Some(1), seen.clone()), "{list:?}");
    }
    // a small table that hides its places as a whole, beside one with cells, in both orders
    let (small, audits) = (table(&place, "small", |site| site > 6), ["a", "b"].map(|name| place.path(name)));
    let whole = Server::start(&["--search", &small, "--hidden", "2", "--audit", &audits[0]]);
    let cells = Server::start(&["--search", &full, "--audit", &audits[1]]);
    let queries = place.write("queries", &(good[..2].join("\n") + "\n"));
    for [first, second] in [[&whole, &cells], [&cells, &whole]] {
        let done = place.query(&first.url, &["--server", &second.url, "--queries", &queries, "--least-places", "9"]);
        let told = String::from_utf8(done.stdout).unwrap();
        assert_eq!((done.status.code(), told.matches("nothing was asked").count()), (Some(1), 4), "{told}");
        assert_eq!(audits.each_ref().map(|audit| answered(audit).len()), [0, 0]);
    }
}

/// Counts of two assemblies would be added up for positions that mean two places.
#[test]
fn tables_of_two_assemblies_are_not_asked_together() {
    let place = Place::new();
    let audit = place.path("audit");
    let of = |name: &str, assembly: &[&str]| {
        let vcf = place.write(&format!("{name}.vcf"), &spread(&vcf(SITES, '|')));
        place.good(&[&["search", "index", &vcf, "-o", &place.path(name), "--label", name], assembly].concat());
        Server::start(&["--search", &place.path(name), "--audit", &audit])
    };
    let (old, new) = (of("old", &["--assembly", "GRCh37"]), of("new", &["--assembly", "hg38"]));
    let (unknown, other) = (of("unknown", &[]), of("other", &["--assembly", "GRCh38"]));
    let at = format!("20:{}", wide(3));
    let ask = |servers: [&Server; 2]| {
        let more = ["--at", &at, "--alleles", "01", "--least-places", "9", "--server", &servers[1].url];
        place.query(&servers[0].url, &more)
    };
    let refused = ask([&old, &new]);
    assert_eq!(refused.status.code(), Some(1));
    let said = stderr(&refused);
    assert!(said.contains("expected positions of GRCh37 as in the table before, found a table of hg38"), "{said}");
    assert!(said.contains("ask about each assembly by itself"), "{said}");
    assert!(said.contains(&new.url) && has_no_answer(&refused), "{said}");
    assert_eq!(answered(&audit).len(), 0, "nothing was asked");
    assert!(ask([&new, &other]).status.success(), "two names of one assembly");
    // these differ in the mitochondrial sequence alone, which the tables do not list
    let hg19 = of("hg19", &["--assembly", "hg19"]);
    assert!(ask([&old, &hg19]).status.success());
    // a table that does not say is asked, and people are told
    let how = ["search", "query", "--server", &unknown.url, "--server", &new.url, "--key", &place.path("key")];
    let told = place.run(&[&how[..], &["--at", &at, "--alleles", "01", "--least-places", "9"]].concat());
    let said = stderr(&told);
    assert!(told.status.success() && said.contains("does not record its assembly: the sum is right only if"), "{said}");
    assert!(said.contains(&unknown.url) && !said.contains(&format!("{}: the table does not", new.url)), "{said}");
}

#[test]
fn a_beacon_asks_the_servers_about_variants_that_they_do_not_list() {
    let place = Place::new();
    let (panel, audit) = (table(&place, "panel", |_| false), place.path("audit"));
    let server = Server::start(&["--search", &panel, "--audit", &audit]);
    let beacon = Beacon::start(&place, &server.url, &["--least-places", "9"]);
    let ask = |start: usize, alternate: &str| {
        let bases = format!(r#""referenceBases":"A","alternateBases":"{alternate}""#);
        beacon.ask("count", &format!(r#""referenceName":"20","start":{start},{bases}"#))
    };
    let single = place.write("single", &format!("20:{}\t1\n", wide(2)));
    let clear: Value =
        serde_json::from_str(&place.good(&["search", "check", &panel, "--queries", &single, "--json"])).unwrap();
    let (status, found) = ask(wide(2) - 1, "C");
    assert_eq!((status, &found["info"]["alleleCount"]), (200, &clear["count"]));
    let listed = answered(&audit);
    for (start, alternate) in [(wide(2) - 1, "G"), (wide(2), "C"), (wide(2) + 99, "ACGT")] {
        let (status, found) = ask(start, alternate);
        assert_eq!((status, &found["responseSummary"]["numTotalResults"]), (200, &0.into()));
    }
    let all = answered(&audit);
    assert_eq!((listed.len(), all.len()), (1, 4), "silence would tell the server");
    let same =
        |line: &Value| ["shape", "sites", "places", "granularity"].iter().all(|what| line[what] == listed[0][what]);
    assert!(all.iter().all(same), "{all:?}");
    // the Beacon refuses a question whose cell has no places
    let (status, found) = ask(50_000_000, "C");
    assert_eq!(status, 400);
    assert!(found["error"]["errorMessage"].as_str().unwrap().contains("has 0 places"), "{found}");
}

#[test]
fn a_range_shows_the_servers_its_cells_and_a_power_of_two() {
    let place = Place::new();
    let (panel, audit) = (table(&place, "panel", |_| false), place.path("audit"));
    let server = Server::start(&["--search", &panel, "--audit", &audit]);
    let more = ["--least-places", "9", "--assembly", "GRCh38", "--max-questions", "8"];
    let beacon = Beacon::start(&place, &server.url, &more);
    let ask = |start: usize, end: usize| {
        let before = answered(&audit).len();
        let (status, found) = beacon.get(
            &format!(
                "/g_variants?assemblyId=hg38&referenceName=chr20&start={start}&end={end}&requestedGranularity=count"
            ),
            "",
        );
        (status, found, answered(&audit).len() - before)
    };
    let occurring = |sites: std::ops::Range<usize>| {
        let single: String = sites.map(|site| format!("20:{}\t1\n", wide(site))).collect();
        let clear = place.good(&["search", "check", &panel, "--queries", &place.write("s", &single), "--json"]);
        clear.lines().filter(|line| serde_json::from_str::<Value>(line).unwrap()["count"] != 0).count()
    };
    // one cell: sites 0 to 11 are in the second million
    for (sites, questions) in [(0..1, 1), (0..2, 2), (0..3, 4), (2..6, 4), (3..8, 8)] {
        let (status, found, asked) = ask(wide(sites.start) - 1, wide(sites.end - 1));
        assert_eq!((status, asked), (200, questions), "{sites:?}: {found}");
        assert_eq!(found["responseSummary"]["numTotalResults"], occurring(sites.clone()), "{sites:?}");
        assert_eq!(found["info"]["listedVariants"], sites.len());
    }
    // an empty range looks like a range of one variant
    let (status, found, asked) = ask(wide(0), wide(0) + 9);
    assert_eq!((status, &found["responseSummary"]["numTotalResults"], asked), (200, &0.into(), 1));
    // two cells get the same number: one variant is in the first, two are in the second
    let (status, found, asked) = ask(wide(11) - 1, wide(13));
    assert_eq!((status, asked, &found["info"]["listedVariants"]), (200, 4, &3.into()), "{found}");
    // too many are refused, and no server is asked
    let (status, found, asked) = ask(wide(0) - 1, wide(8));
    assert_eq!((status, asked), (400, 0));
    let text = found["error"]["errorMessage"].as_str().unwrap();
    assert!(text.contains("at most 8 questions, found 9 listed variants, which take 16"), "{text}");
}

#[test]
fn a_budget_of_regions_holds_for_cells_over_restarts_and_new_tables() {
    let place = Place::new();
    let (first, second) = (table(&place, "first", |_| false), table(&place, "second", |site| site == 49));
    let (token, line) = place.token("alice");
    let (tokens, data) = (place.write("tokens", &line), place.path("data"));
    let more = ["--tokens", &tokens, "--data", &data, "--region-budget", "3"];
    let ask = |server: &Server, site: usize| {
        let at = format!("20:{}", wide(site));
        place.query(&server.url, &["--at", &at, "--alleles", "01", "--least-places", "9", "--token", &token])
    };
    for table in [&first, &second, &first] {
        let server = Server::start(&[&["--search", table][..], &more].concat());
        let good = ask(&server, 1);
        assert!(good.status.success(), "{}", stderr(&good));
        server.stop();
    }
    let server = Server::start(&[&["--search", &second][..], &more].concat());
    for site in [1, 7] {
        let refused = ask(&server, site);
        assert!(
            stderr(&refused).contains("budget of 3 tests in the region 20:1000001-1100000"),
            "{}",
            stderr(&refused)
        );
    }
    assert!(ask(&server, 30).status.success(), "another cell");
}

/// The requests since the last call, as the server sees them: the method, the path, the length, and
/// of a question the arrangement that it names. The rest is encrypted.
fn seen_at(tap: &Tap) -> Vec<(String, String, usize, Vec<u8>)> {
    let requests = tap.take().requests().into_iter().map(|(method, post)| {
        let queries = post.path.ends_with("/hidden/queries");
        let named = if queries { post.body[..34].to_vec() } else { Vec::new() };
        (method, post.path, post.body.len(), named)
    });
    requests.collect()
}

/// With the whole table hidden, two places of any cells send the server the same in a history of
/// scans, repeated questions and lists, also after the server started again.
#[test]
fn two_places_of_a_whole_table_send_the_server_the_same_in_a_whole_history() {
    let place = Place::new();
    let (panel, data) = (table(&place, "panel", |_| false), place.path("data"));
    let history = |site: usize| {
        let mut seen = Vec::new();
        for round in 0..2 {
            let server = Server::start(&["--search", &panel, "--hidden", "2", "--data", &data]);
            let tap = Tap::to(&server.address());
            let ask = |sites: &[usize]| {
                let lines: String = sites.iter().map(|site| format!("20:{}\t0{}\n", wide(*site), site % 2)).collect();
                let how = ["--queries", &place.write("history", &lines), "--least-places", "9", "--parallel", "1"];
                let done = place.query(&tap.url, &[&how[..], &["--hidden"]].concat());
                assert!(done.status.success(), "{}", stderr(&done));
            };
            (0..4).for_each(|step| ask(&[site + step]));
            ask(&[site, site, 40, site + round]);
            // the server draws the name of an arrangement at its start
            let mut names = Vec::new();
            let requests = seen_at(&tap).into_iter().map(|(method, path, length, name)| {
                let number = names.iter().position(|known| *known == name).unwrap_or(names.len());
                names.extend((number == names.len()).then_some(name));
                (method, path, length, number)
            });
            seen.push(requests.collect::<Vec<_>>());
        }
        seen
    };
    // the first run registers the key and reads the table
    history(2);
    let seen = history(3);
    // number 0 is that of requests which name none, and all questions name the same
    let questions = seen.iter().map(|seen| seen.iter().filter(|(.., name)| *name == 1).count());
    // a server that started again asks for the key, and gets the question again
    assert_eq!(questions.collect::<Vec<_>>(), [9, 9]);
    for site in [0, 9, 25, 44] {
        assert_eq!(history(site), seen, "{site}");
    }
}

/// The traffic of real commands, as the servers see it: for a history of replays, scans and lists
/// by new processes, at two servers and a new index with labels, two places of a cell send the same
/// requests, of the same lengths, for the same arrangements.
#[test]
fn two_places_of_a_cell_send_the_servers_the_same_in_a_whole_history() {
    let place = Place::new();
    let tables = [
        table(&place, "first", |_| false),
        table(&place, "other", |site| site == 0),
        table(&place, "anew", |site| site > 40),
    ];
    // the last server has labels
    let modes: [&[&str]; 3] = [&[], &[], &["--malicious"]];
    let servers = [0, 1, 2].map(|i| Server::start(&[modes[i], &["--search", &tables[i]]].concat()));
    let taps = servers.each_ref().map(|server| Tap::to(&server.address()));
    let list = |sites: &[usize]| {
        let lines: String = sites.iter().map(|site| format!("20:{}\t0{}\n", wide(*site), site % 2)).collect();
        place.write("history", &lines)
    };
    let ask = |urls: &[&str], sites: &[usize]| {
        let queries = list(sites);
        let more: Vec<&str> = urls[1..].iter().flat_map(|url| ["--server", url]).collect();
        let how = ["--queries", &queries, "--least-places", "9", "--parallel", "1"];
        let done = place.query(urls[0], &[&more[..], &how].concat());
        assert!(done.status.success(), "{}", stderr(&done));
    };
    let [first, other, anew] = taps.each_ref().map(|tap| &*tap.url);
    let history = |site: usize| {
        for _ in 0..2 {
            ask(&[first, other], &[site]);
        }
        for step in 1..4 {
            ask(&[first], &[site + step]);
        }
        ask(&[anew], &[site]);
        ask(&[other, anew], &[site, site + 1, site + 2]);
        // two cells: one question without meaning
        ask(&[anew], &[site, site + 1, 30]);
        taps.each_ref().map(seen_at)
    };
    // the first run registers the key, reads the tables and has the cell arranged
    history(2);
    let seen = history(3);
    let questions = seen.each_ref().map(|seen| seen.iter().filter(|(.., named)| !named.is_empty()).count());
    assert_eq!(questions, [5, 5, 8], "every question is there");
    let evaluations = seen[2].iter().filter(|(_, path, ..)| path.ends_with("/evaluations")).count();
    assert_eq!(evaluations, 8, "a question without meaning has an input evaluated too");
    for site in [1, 5, 7] {
        assert_eq!(history(site), seen, "{site}");
    }
    // a history over the border of the cell is seen
    assert_ne!(history(9), seen);
}

/// A server that spoils answers cannot see from the requests whether an answer could be read:
/// neither within a run nor from the number of questions. This holds in a cell, in the whole table,
/// and with labels.
#[test]
fn answers_that_cannot_be_read_change_no_request_of_a_list() {
    let place = Place::new();
    let panel = table(&place, "panel", |_| false);
    let lines: String = (0..24).map(|i| format!("20:{}\t0{}\n", wide(i % 9 + 12 * (i % 2)), i % 2)).collect();
    let queries = place.write("queries", &lines);
    for mode in [&[][..], &["--hidden"], &["--malicious"], &["--hidden", "--malicious"]] {
        let serves: &[&str] = match mode.first() {
            Some(&"--hidden") => &["--hidden", "2"],
            _ => &[],
        };
        let labels: &[&str] = if mode.contains(&"--malicious") { &["--malicious"] } else { &[] };
        let server = Server::start(&[&["--search", &panel], serves, labels].concat());
        let tap = Tap::to(&server.address());
        let ask = || {
            let how = ["--queries", &queries, "--least-places", "9", "--parallel", "4"];
            let done = place.query(&tap.url, &[&how[..], mode].concat());
            let mut requests = seen_at(&tap);
            requests.sort();
            let told = String::from_utf8(done.stdout).unwrap();
            let errors = told.lines().filter(|line| line.contains("\"error\"")).count();
            (requests, errors, told.lines().count())
        };
        // the first run registers the key and reads the table
        ask();
        let (good, errors, lines) = ask();
        assert_eq!((errors, lines), (0, 24), "{mode:?}");
        assert_eq!(good.iter().filter(|(.., named)| !named.is_empty()).count(), 24, "{mode:?}");
        tap.spoil(true);
        let (spoiled, errors, lines) = ask();
        assert!(errors >= 20 && lines == 24, "{mode:?}: {errors} of {lines} answers are spoiled");
        assert_eq!(spoiled, good, "{mode:?}");
        // nor does the next run behave otherwise
        tap.spoil(false);
        assert_eq!(ask(), (good, 0, 24), "{mode:?}");
    }
}
