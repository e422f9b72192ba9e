//! The page of a key holder's figures, in a browser.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::{
    clip,
    devtools::Browser,
    run,
    support::{
        Server,
        fleet::{Place, good},
    },
};

const SCHEMA: &str = "profile = \"u28\"\nsamples = 2\n[[channel]]\nname = \"level\"\nabove = [30]\n";
const QUESTION: &str = "name = \"tanks\"\nleast-devices = 2\nframes = 9\ngroup-by = \"tenant\"\n\
    window = { length = \"1h\" }\n[[statistic]]\nkind = \"mean\"\nchannel = \"level\"\n\
    [[statistic]]\nkind = \"alarm\"\nchannel = \"level\"\nthreshold = 30\nat-least = 3\n";
/// 2026-03-01T00:00:00Z.
const START: u64 = 1_772_323_200;

/// A fleet with released windows, and the key holder's process.
struct World {
    _place: Place,
    _server: Server,
    holder: Child,
    url: String,
}

impl World {
    fn new(more: impl Fn(&Place) -> Vec<String>) -> Self {
        let place = Place::new();
        let (holder, devices) = (place.path("holder"), place.path("devices"));
        good(&["sense", "keygen", "--schema", &place.write("schema.toml", SCHEMA), "-o", &holder]);
        for (tenant, names) in [("north", ["a", "b"]), ("south", ["c", "d"])] {
            good(&[&["sense", "provision", &holder, "--tenant", tenant, "-o", &devices][..], &names].concat());
        }
        good(&["sense", "query", &holder, &place.write("question.toml", QUESTION)]);
        let server = Server::start(&["--sense", &place.path("server")]);
        good(&["sense", "keyholder", &holder, "--server", &server.url, "--once"]);
        for (device, level) in [("a", 10), ("b", 20), ("c", 25), ("d", 40)] {
            // three windows, then two without readings, then one more
            let rows: String = [0, 1, 2, 5].map(|hour| format!("{},{}\n", START + 3600 * hour, level + hour)).concat();
            place.write("readings.csv", &format!("time,level\n{rows}"));
            place.seal(device, "readings.csv", &["--time", "time", "--server", &server.url]);
        }
        let mut holder = Command::new(env!("CARGO_BIN_EXE_tobari"))
            .args(["sense", "keyholder", &holder, "--server", &server.url, "--addr", "127.0.0.1:0"])
            .args(["--every", "1", "--json", "--until-stdin-closes"])
            .args(more(&place))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        Self { url: told["listening"].as_str().unwrap().to_owned(), _place: place, _server: server, holder }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

async fn shows_all_windows(browser: &mut Browser) {
    browser.until("document.getElementById('state').textContent.startsWith('4 windows')").await;
    let titles = browser.value("[...document.querySelectorAll('#charts h2')].map((title) => title.textContent)").await;
    assert_eq!(titles, serde_json::json!(["mean of level", "level: readings above 30"]));
    let readouts = browser.value("[...document.querySelectorAll('.readout')].map((line) => line.textContent)").await;
    assert_eq!(readouts, serde_json::json!(["newest: north 20, south 37.5", "newest: north 0, south 1"]));
    // the line is broken where no window was released
    let lines = "[...document.querySelectorAll('#charts figure > svg > path')].map((path) => path.getAttribute('d'))";
    let lines = browser.value(lines).await;
    let lines = lines.as_array().unwrap();
    assert_eq!(lines.len(), 4);
    assert!(lines.iter().all(|line| line.as_str().unwrap().matches('M').count() == 2), "{lines:?}");
    let rows = browser.value("document.querySelectorAll('#rows tr').length").await;
    assert_eq!(rows, 8, "four windows of two groups");
    // by keyboard, window by window
    browser
        .value(
            "{ const chart = document.querySelector('#charts figure > svg'); chart.focus(); \
             for (const key of ['ArrowLeft', 'ArrowLeft']) chart.dispatchEvent(new KeyboardEvent('keydown', { key })); }",
        )
        .await;
    let read = browser.value("document.querySelector('.readout').textContent").await;
    assert!(read.as_str().unwrap().ends_with("north 17, south 34.5"), "{read}");
    assert_eq!(browser.complaints, [] as [String; 0]);
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only browser"]
fn figures_of_past_windows_are_drawn_with_their_gaps() {
    run(async {
        let world = World::new(|_| Vec::new());
        let mut browser = Browser::start(&clip("alice.wav")).await;
        browser.open(&world.url).await;
        shows_all_windows(&mut browser).await;
    });
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only browser"]
fn an_analyst_with_a_token_sees_the_figures_and_nobody_else() {
    run(async {
        let told = good(&["search", "token", "ann"]);
        let part = |begin: &str| told.lines().find_map(|line| line.split_once(begin)).unwrap().1.trim().to_owned();
        let (token, line) = (part("client: "), part("file: "));
        let world = World::new(|place| vec!["--analysts".to_owned(), place.write("analysts", &(line.clone() + "\n"))]);
        let mut browser = Browser::start(&clip("alice.wav")).await;
        browser.open(&world.url).await;
        browser.until("!document.getElementById('door').hidden").await;
        let give = |token: &str| {
            format!(
                "{{ document.getElementById('token').value = '{token}'; document.getElementById('door').requestSubmit(); }}"
            )
        };
        browser.value(&give(&"0".repeat(64))).await;
        browser.until("document.getElementById('state').textContent.includes('does not know this token')").await;
        assert_eq!(browser.value("document.getElementById('work').hidden").await, true);
        browser.complaints.clear(); // the browser notes a response with status 401
        browser.value(&give(&token)).await;
        shows_all_windows(&mut browser).await;
    });
}
