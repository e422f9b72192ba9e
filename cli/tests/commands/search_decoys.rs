//! Commands reject decoys where two lists of places would reveal the true place, before anything is
//! sent.

use crate::support::tables::{Place, SITES, position, questions, questions_at};
use crate::support::{Server, has_no_answer, stderr};

#[test]
fn fault_17_decoys_are_refused_where_two_lists_would_show_the_place() {
    let place = Place::new();
    let (first, second) = (place.variants("first", SITES, '|'), place.variants("second", SITES, '|'));
    let audit = place.path("audit");
    let server = Server::start(&["--search", &first, "--audit", &audit]);
    let other = Server::start(&["--search", &second]);
    let one = place.write("one", &questions_at(17, 9));
    let scan: String = [3, 12, 21].map(|start| questions_at(start, 9)).concat();
    let scan = place.write("scan", &scan);
    let apart = place.write("apart", &questions(9, 2));
    let refused = |args: &[&str], status: i32, says: &str| {
        let done = place.query(&server.url, args);
        assert_eq!(done.status.code(), Some(status), "{args:?}: {}", stderr(&done));
        assert!(has_no_answer(&done), "{args:?}: no answer before the refusal");
        let text = stderr(&done);
        assert!(text.contains(says) && text.contains("--hidden"), "{args:?}: {text}");
    };
    let place_twice = "decoys hide one place of one table";
    refused(&["--queries", &scan, "--decoys", "10"], 1, place_twice);
    refused(&["--queries", &apart, "--decoys", "10", "--longest"], 1, place_twice);
    let both = ["--server", &other.url, "--queries", &one, "--decoys", "10"];
    refused(&both, 2, "expected --decoys with one server, found 2 servers");
    // the same message, although this server does not answer
    let down = ["--server", "http://127.0.0.1:9", "--queries", &one, "--decoys", "10"];
    refused(&down, 2, "expected --decoys with one server, found 2 servers");
    let key = place.path("key");
    let beacon = ["search", "beacon", "--listen", "127.0.0.1:0", "--server", &server.url, "--key", &key];
    let beacon = place.run(&[&beacon[..], &["--decoys", "10"]].concat());
    assert_eq!(beacon.status.code(), Some(2), "{}", stderr(&beacon));
    assert!(stderr(&beacon).contains("expected --hidden") && beacon.stdout.is_empty(), "{}", stderr(&beacon));
    let asked = || std::fs::read_to_string(&audit).unwrap_or_default().matches("answered").count();
    assert_eq!(asked(), 0, "nothing was sent");

    // the remedies: one place, or public places. Asking the same table on one server after another
    // is no remedy (book/src/explanation/threats/search.md).
    place.same(&server.url, &first, &one, &["--decoys", "10"], &[]);
    assert_eq!(asked(), 12);
    place.same(&server.url, &first, &scan, &[], &[]);
    let at = format!("20:{}", position(3));
    let ask = ["search", "query", "--server", &server.url, "--key", &key, "--at", &at, "--alleles", "01"];
    for (more, says) in [
        (&[][..], "the place is public to the server"),
        (&["--decoys", "10"], "decoys hide this place for one question"),
    ] {
        let said = stderr(&place.run(&[&ask[..], more].concat()));
        assert!(said.contains(says) && said.contains("--hidden"), "{said}");
    }
}
