//! The page for fleets: a histogram that only the tab with the key can decrypt, and the same page
//! without the key.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    clip,
    devtools::Browser,
    pages::{click, is_noise, pictures},
    run,
    support::{Server, tables::Place},
};

/// Opens the page with a fleet that sends, and with windows of a few seconds.
async fn live(server: &Server) -> Browser {
    let mut browser = Browser::start(&clip("alice.wav")).await;
    browser.open(&format!("{}/sense/?tap&window=4", server.url)).await;
    click(&mut browser, "start").await;
    browser.until("document.getElementById('state').textContent === 'Live'").await;
    browser
}

/// Waits for a decrypted window that satisfies `what` and whose frames the tab all knows. Returns
/// the page's data on it, before the next window.
pub(crate) async fn opened(browser: &mut Browser, what: &str) -> Value {
    let seen = format!(
        "(({{ exact, counts, start, own }}) => {{
            if (counts === undefined || exact === 'null' || !({what})) return false;
            const text = document.getElementById('above').textContent;
            globalThis.seen = {{ ...document.getElementById('steps').dataset, text }};
            return true;
        }})(document.getElementById('steps').dataset)"
    );
    browser.until(&seen).await;
    browser.value("globalThis.seen").await
}

fn numbers(text: &Value) -> Vec<u64> {
    text.as_str().unwrap().split(',').map(|number| number.parse().unwrap()).collect()
}

async fn own(browser: &mut Browser, reading: f64) {
    let fill = format!(
        "{{ const form = document.getElementById('own'); form.elements.reading.value = {reading}; delete document.getElementById('steps').dataset.own; form.requestSubmit(); }}"
    );
    browser.value(&fill).await;
    browser.until("document.getElementById('steps').dataset.own !== undefined").await;
}

async fn held(browser: &mut Browser, server: &Server, fleet: &str) -> Value {
    let ask = format!(
        "fetch('{}/sense/v1/fleets/{fleet}/held').then(async (told) => [told.status, await told.text()])",
        server.url
    );
    browser.value(&ask).await
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only browser"]
fn a_histogram_is_exact_in_the_tab_with_the_key_and_bytes_in_the_other() {
    run(async {
        let place = Place::new();
        let server = Server::start(&["--sense", &place.path("data")]);
        let mut browser = live(&server).await;
        let fleet = browser.value("tobari.view.fleet.fleet").await.as_str().unwrap().to_owned();
        // every simulated device once, unless this machine was too busy for a window
        let told =
            opened(&mut browser, "counts.split(',').reduce((sum, count) => sum + Number(count), 0) === 20").await;
        assert_eq!((&told["exact"], &told["counts"]), (&json!("true"), &told["plain"]));
        // the user's own reading: in a bin that is otherwise empty, with an alarm
        own(&mut browser, 60.0).await;
        let told = opened(&mut browser, "start === own").await;
        assert_eq!((&told["exact"], &told["alarm"]), (&json!("true"), &json!("true")), "{told}");
        assert!(*numbers(&told["counts"]).last().unwrap() >= 1, "{told}");
        assert!(told["text"].as_str().unwrap().ends_with("alarm"), "{told}");
        let rows = browser
            .value("Array.from(document.querySelectorAll('#steps tr'), (row) => row.cells[3].textContent)")
            .await;
        let rows = rows.as_array().unwrap();
        assert!(
            rows.len() == 7 && rows.iter().all(|time| time.as_str().unwrap().ends_with('s')),
            "every step has its time: {rows:?}"
        );
        pictures(&mut browser, "sense").await;
        // without a key, the page shows the same bytes as the server holds, and no figure
        let mut other = Browser::start(&clip("bob.wav")).await;
        other.open(&format!("{}/sense/#fleet={fleet}", server.url)).await;
        other.until("Number(document.getElementById('steps').dataset.answers) > 2").await;
        let hidden = "['holder', 'plan'].every((id) => document.getElementById(id).hidden)";
        assert_eq!(other.value(hidden).await, true);
        assert_eq!(
            other.value("globalThis.tobari === undefined && document.querySelectorAll('#bins *').length").await,
            0
        );
        is_noise(&mut other, "answer").await;
        pictures(&mut other, "sense-outside").await;
        // fewer devices than the minimum: nothing is computed, and nothing is drawn
        browser
            .value("{ const sending = document.getElementById('sending'); sending.value = 3; sending.oninput(); }")
            .await;
        browser.until("document.getElementById('when').textContent.endsWith('too few devices')").await;
        assert_eq!(browser.value("document.querySelectorAll('#bins rect[height=\"0\"]').length").await, 11);
        // the end: nothing is left on the server, and pages that watch are notified
        assert_eq!(held(&mut browser, &server, &fleet).await[0], 200);
        click(&mut browser, "end").await;
        browser.until("document.getElementById('state').textContent === 'Not begun'").await;
        assert_eq!(held(&mut other, &server, &fleet).await[0], 404);
        other.until("document.getElementById('alarms').textContent.includes('has ended')").await;
        assert_eq!(std::fs::read_dir(Path::new(&place.path("data")).join("passing")).unwrap().count(), 0);
        other.complaints.retain(|line| !line.contains("404"));
        browser.complaints.retain(|line| !line.contains("404"));
        assert_eq!(browser.complaints, Vec::<String>::new(), "errors in the page");
        assert_eq!(other.complaints, Vec::<String>::new(), "errors in the other page");
    });
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only browser"]
fn a_tab_that_is_closed_leaves_no_fleet_behind() {
    run(async {
        let place = Place::new();
        let server = Server::start(&["--sense", &place.path("data")]);
        let mut browser = live(&server).await;
        let folder = Path::new(&place.path("data")).join("passing");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        browser.open(&format!("{}/", server.url)).await;
        for _ in 0..50 {
            if std::fs::read_dir(&folder).unwrap().count() == 0 {
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
        panic!("the fleet is still there");
    });
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only browser"]
fn a_server_without_devices_says_so_and_one_with_tokens_asks_for_one() {
    run(async {
        let place = Place::new();
        let server = Server::start(&[]);
        let mut browser = Browser::start(&clip("alice.wav")).await;
        browser.open(&format!("{}/sense/", server.url)).await;
        browser.until("document.getElementById('alarms').textContent.includes('tobari serve --sense FOLDER')").await;
        assert_eq!(browser.value("document.getElementById('work').hidden").await, true);
        let tokens = place.write("tokens", &format!("ada {}\n", tobari_node::token_hash("secret")));
        let data = ["data", "open"].map(|name| place.path(name));
        let server = Server::start(&["--sense", &data[0], "--tokens", &tokens]);
        browser.open(&format!("{}/sense/", server.url)).await;
        browser.until("!document.getElementById('door').hidden").await;
        browser.value("{ const door = document.getElementById('door'); door.elements.token.value = 'secret'; door.requestSubmit(); }").await;
        click(&mut browser, "start").await;
        browser.until("document.getElementById('state').textContent === 'Live'").await;
        let server = Server::start(&["--sense", &data[1], "--tokens", &tokens, "--sense-visitors"]);
        browser.open(&format!("{}/sense/", server.url)).await;
        click(&mut browser, "start").await;
        browser.until("document.getElementById('state').textContent === 'Live'").await;
    });
}
