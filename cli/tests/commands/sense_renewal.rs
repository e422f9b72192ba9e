//! New keys of devices in standing questions, and windows that release nothing.

use crate::support::fleet::{Place, get, good};
use crate::support::{Server, stderr, tobari};
use serde_json::Value;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const WINDOW_MS: u64 = 4_000;
const SCHEMA: &str = "profile = \"u25\"\n[[channel]]\nname = \"x\"\n";

fn question(name: &str, more: &str) -> String {
    format!(
        "name = \"{name}\"\nleast-devices = 3\nframes = 2\nwindow = {{ length = \"4s\" }}\n{more}\n\
         [[statistic]]\nkind = \"sum\"\nchannel = \"x\"\n"
    )
}

fn next_window() {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    std::thread::sleep(Duration::from_millis(WINDOW_MS - now_ms % WINDOW_MS + 50));
}

/// A device gets a new key in the middle of a window. Both keys count as one device, in the sum of
/// the standing question and in the results by device. A question about a silent device releases
/// nothing, and says so.
#[test]
fn a_standing_question_counts_a_new_key_and_a_window_without_a_result_says_why() {
    let place = Place::new();
    place.fleet(SCHEMA, &["a", "b", "c", "d"]);
    let holder = place.path("holder");
    let apart = "group-by = \"device\"\n".to_owned() + &question("apart", "").replace("= 3", "= 1");
    for (name, text) in [
        ("all", question("all", "devices = [\"a\", \"b\", \"c\"]")),
        ("silent", question("silent", "devices = [\"a\", \"b\", \"d\"]")),
        ("apart", apart),
    ] {
        good(&["sense", "query", &holder, &place.write(&format!("{name}.toml"), &text)]);
    }
    let server = Server::start(&["--sense", &place.path("server")]);
    let keyholder = ["sense", "keyholder", &holder, "--server", &server.url, "--once", "--json"];
    good(&keyholder);
    let send = |device: &str, reading: u8| {
        place.write("readings.csv", &format!("{reading}\n"));
        place.seal(device, "readings.csv", &["--server", &server.url]);
    };
    next_window();
    send("b", 8);
    good(&["sense", "provision", &holder, "b", "--rotate", "-o", &place.path("new")]);
    std::fs::rename(place.path("devices"), place.path("old")).unwrap();
    std::fs::rename(place.path("new"), place.path("devices")).unwrap();
    for device in ["a", "c"] {
        let name = |folder: &str, end: &str| place.path(&format!("{folder}/{device}.device{end}"));
        ["", ".counter"].iter().for_each(|end| std::fs::rename(name("old", end), name("devices", end)).unwrap());
    }
    let told = stderr(&tobari(&keyholder));
    assert!(told.contains("all: 1 new keys of its devices count from now on"), "{told}");
    send("b", 2);
    send("a", 1);
    send("c", 4);
    next_window();
    let output = tobari(&keyholder);
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    let released: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| released.iter().find(|release| release["question"] == name).unwrap()["groups"].clone();
    let found = |group: &Value| {
        let sum = group["figures"][0]["exact"].as_str().unwrap().to_owned();
        (group["group"].as_str().unwrap().to_owned(), group["devices"].as_u64(), group["frames"].as_u64(), sum)
    };
    assert_eq!(found(&of("all")[0]), ("all".to_owned(), Some(3), Some(4), "15".to_owned()), "{released:?}");
    let apart: Vec<_> = of("apart").as_array().unwrap().iter().map(found).collect();
    let one = |name: &str, frames: u64, sum: &str| (name.to_owned(), Some(1), Some(frames), sum.to_owned());
    assert_eq!(apart, [one("a", 1, "1"), one("b", 2, "10"), one("c", 1, "4")]);
    assert_eq!(released.len(), 2);
    assert!(said.contains("silent: nothing is released for the window at "), "{said}");
    assert!(said.contains("2 of its devices had frames, and a result needs 3"), "{said}");
    // it is counted, at the server and in the key holder's folder, once
    assert_eq!(stderr(&tobari(&keyholder)), "");
    let metrics = get(&server.address(), "/sense/v1/metrics");
    assert!(metrics.contains("tobari_sense_empty_windows_total 1\n"), "{metrics}");
    let listed = good(&["sense", "query", &holder]);
    for (name, expected) in [("all", "1 windows with a result, 0"), ("silent", "0 windows with a result, 1")] {
        let line = listed.lines().find(|line| line.contains(&format!(" {name}: "))).unwrap();
        assert!(
            line.contains("; 3 devices in 1 groups") && line.contains(&format!("{expected} with too few")),
            "{line}"
        );
    }
}
