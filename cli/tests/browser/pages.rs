//! The page of all jobs, and the page for images: a server that cannot see a digit classifies a
//! digit drawn in a browser.

use serde_json::{Value, json};
use std::time::Duration;
use tobari_infer::Model;

use super::{
    DESK, PHONE,
    access::faults,
    clip,
    devtools::Browser,
    picture, run,
    support::{
        Server,
        tables::{Place, SITES, position, questions, vcf},
    },
};

/// The label of the plain network for the drawing on the pad.
pub(crate) async fn plain(browser: &mut Browser) -> usize {
    let pixels = browser.value("Array.from(tobari.pad.pixels())").await;
    let pixels: Vec<u8> = pixels.as_array().unwrap().iter().map(|pixel| pixel.as_u64().unwrap() as u8).collect();
    assert!(pixels.iter().filter(|pixel| **pixel > 128).count() > 20, "something is drawn");
    Model::digits().unwrap().fixed().unwrap().classify(&pixels).unwrap()
}

pub(crate) async fn click(browser: &mut Browser, id: &str) {
    browser.until(&format!("!document.getElementById('{id}').disabled")).await;
    browser.value(&format!("document.getElementById('{id}').click()")).await;
}

/// The page's answer for the drawing on the pad.
async fn classified(browser: &mut Browser) -> usize {
    browser.value("document.getElementById('label').textContent = '?'").await;
    click(browser, "classify").await;
    browser.until("/^[0-9]$/.test(document.getElementById('label').textContent)").await;
    browser.value("document.getElementById('label').textContent").await.as_str().unwrap().parse().unwrap()
}

async fn key(browser: &mut Browser, key: &str) {
    browser.value("document.getElementById('pad').focus()").await;
    let text = if key.len() == 1 { key } else { "" }; // keys that type nothing have no text
    let (down, up) = (json!({ "type": "keyDown", "key": key, "text": text }), json!({ "type": "keyUp", "key": key }));
    browser.call("Input.dispatchKeyEvent", down).await;
    browser.call("Input.dispatchKeyEvent", up).await;
}

/// The digit 1 as one stroke through these places of the pad.
pub(crate) const ONE: [(f64, f64); 5] = [(0.52, 0.15), (0.5, 0.3), (0.5, 0.5), (0.49, 0.7), (0.48, 0.86)];

/// A stroke with the mouse through these places of an element, as fractions of its size.
pub(crate) async fn stroke(browser: &mut Browser, selector: &str, places: &[(f64, f64)]) {
    let element = format!("document.querySelector({})", json!(selector));
    browser.value(&format!("{element}.scrollIntoView({{ block: 'center' }})")).await;
    let box_of = browser.value(&format!("{element}.getBoundingClientRect().toJSON()")).await;
    let of = |name: &str| box_of[name].as_f64().unwrap();
    let at = |(x, y): (f64, f64), kind: &str| {
        let (x, y) = (of("x") + x * of("width"), of("y") + y * of("height"));
        json!({ "type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1 })
    };
    browser.call("Input.dispatchMouseEvent", at(places[0], "mousePressed")).await;
    for place in &places[1..] {
        browser.call("Input.dispatchMouseEvent", at(*place, "mouseMoved")).await;
    }
    browser.call("Input.dispatchMouseEvent", at(places[places.len() - 1], "mouseReleased")).await;
}

pub(crate) async fn text(browser: &mut Browser, id: &str) -> String {
    browser.value(&format!("document.getElementById('{id}').textContent")).await.as_str().unwrap().to_owned()
}

pub(crate) async fn pictures(browser: &mut Browser, name: &str) {
    browser.value("document.documentElement.scrollTop = 0").await;
    for (kind, size, dark) in
        [("desk", DESK, false), ("desk-dark", DESK, true), ("phone", PHONE, false), ("phone-dark", PHONE, true)]
    {
        picture(browser, &format!("{name}-{kind}"), size, dark).await;
    }
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only browser"]
fn the_page_of_all_jobs_says_which_of_them_this_server_does() {
    run(async {
        let server = Server::start(&["--infer", "digits"]);
        let mut browser = Browser::start(&clip("alice.wav")).await;
        browser.open(&format!("{}/", server.url)).await;
        browser.until("'ready' in document.body.dataset").await;
        let jobs = "Array.from(document.querySelectorAll('[data-job]'), (card) => [card.dataset.job, card.classList.contains('absent')])";
        let expected = json!([["call", false], ["infer", false], ["seal", false], ["search", true], ["sense", true]]);
        assert_eq!(browser.value(jobs).await, expected);
        let digest = "document.getElementById('bundle').textContent";
        browser.until(&format!("{digest}.length === 64")).await;
        assert_eq!(browser.value(digest).await, server.announced["page_sha256"]);
        pictures(&mut browser, "start").await;
        browser.value("document.querySelector('[data-job=infer] a').click()").await;
        browser.until("location.pathname === '/infer/' && document.readyState === 'complete'").await;
        browser.until("!document.getElementById('work')?.hidden").await;
        assert_eq!(browser.complaints, Vec::<String>::new(), "errors in the page");
    });
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only browser"]
fn a_digit_is_classified_by_a_server_that_holds_bytes_alone() {
    run(async {
        let server = Server::start(&["--infer", "digits"]);
        let mut browser = Browser::start(&clip("alice.wav")).await;
        browser.open(&format!("{}/infer/?tap", server.url)).await;
        browser.until("!document.getElementById('work').hidden").await;
        pictures(&mut browser, "infer-begin").await;
        assert_eq!(browser.value("document.getElementById('classify').disabled").await, true, "no key, no question");
        click(&mut browser, "make").await;
        browser.until("document.getElementById('state').textContent === 'Ready'").await;
        let model = browser.value("tobari.view.model").await;
        assert_eq!(browser.value("tobari.view.sent").await, model["key_bytes"], "the keys went there, once");

        // by keyboard, by mouse, and from a picture that is light on dark
        key(&mut browser, "7").await;
        let expected = plain(&mut browser).await;
        assert_eq!(classified(&mut browser).await, expected);
        key(&mut browser, "Delete").await;
        assert_eq!(browser.value("tobari.pad.empty").await, true);
        stroke(&mut browser, "#pad", &ONE).await;
        let expected = plain(&mut browser).await;
        assert_eq!((classified(&mut browser).await, expected), (1, 1), "a line is a one");
        let file = "(async () => {
            const canvas = new OffscreenCanvas(200, 120), context = canvas.getContext('2d');
            context.fillRect(0, 0, 200, 120);
            Object.assign(context, { strokeStyle: 'white', lineWidth: 9 });
            context.beginPath(); context.ellipse(100, 60, 24, 38, 0, 0, 7); context.stroke();
            await tobari.pad.load(await canvas.convertToBlob());
        })()";
        browser.value(file).await;
        let expected = plain(&mut browser).await;
        assert_eq!((classified(&mut browser).await, expected), (0, 0), "a ring is a nought");
        pictures(&mut browser, "infer").await;
        held(&mut browser, &model).await;
        assert_eq!(browser.complaints, Vec::<String>::new(), "errors in the page");
    });
}

/// Checks that the page's list of what the server holds equals the bytes sent and received, and
/// that the plan has every stage with its time.
async fn held(browser: &mut Browser, model: &Value) {
    let told = browser.value("({...document.getElementById('steps').dataset})").await;
    for (name, bytes) in [("up", "question_bytes"), ("down", "answer_bytes")] {
        assert_eq!(told[name].as_str().unwrap(), model[bytes].to_string(), "{name}");
    }
    let rows = "Array.from(document.querySelectorAll('#steps tr'), (row) => Array.from(row.cells, (cell) => cell.textContent))";
    let rows = browser.value(rows).await;
    let rows: Vec<Vec<&str>> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row.as_array().unwrap().iter().map(|cell| cell.as_str().unwrap()).collect())
        .collect();
    let stages = model["stages"].as_array().unwrap();
    assert!(rows.len() >= stages.len() + 3, "{rows:?}");
    for (row, stage) in rows[1..].iter().zip(stages) {
        assert_eq!((row[0], row[2]), (stage.as_str().unwrap(), "ciphertext"));
    }
    assert!(rows.iter().all(|row| row[3].ends_with('s')), "every step has its time: {rows:?}");
    let seen: Vec<&&str> = rows.iter().filter(|row| row[2] != "ciphertext").map(|row| &row[1]).collect();
    assert_eq!(seen, [&"this tab", &"this tab"], "the image and its label are seen nowhere else");
    is_noise(browser, "hex").await;
}

/// Checks that no byte value among the shown bytes is much more frequent than others.
pub(crate) async fn is_noise(browser: &mut Browser, id: &str) {
    let hex = text(browser, id).await;
    let mut counts = [0; 256];
    hex.split(' ').for_each(|byte| counts[usize::from(u8::from_str_radix(byte, 16).unwrap())] += 1);
    assert!(counts.iter().sum::<usize>() == 400 && counts.iter().all(|count| *count < 14), "{id}: {counts:?}");
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only browser"]
fn a_key_is_kept_only_if_the_person_says_so_and_until_it_is_forgotten() {
    run(async {
        let server = Server::start(&["--infer", "digits"]);
        let mut browser = Browser::start(&clip("alice.wav")).await;
        let address = format!("{}/infer/?tap", server.url);
        let kept = "indexedDB.databases().then((all) => Promise.all(all.map(({ name }) => new Promise((done) => {
            const opening = indexedDB.open(name);
            opening.onsuccess = () => {
                const keys = opening.result.transaction('keys').objectStore('keys').count();
                keys.onsuccess = () => { opening.result.close(); done(keys.result); };
            };
        })))).then((counts) => counts.reduce((sum, count) => sum + count, 0))";
        for keep in [false, true] {
            browser.open(&address).await;
            browser.until("document.getElementById('state').textContent === 'No key yet'").await;
            browser.value(&format!("document.getElementById('keep').checked = {keep}")).await;
            click(&mut browser, "make").await;
            browser.until("document.getElementById('state').textContent === 'Ready'").await;
            assert_eq!(browser.value(kept).await, u64::from(keep));
        }
        browser.open(&address).await;
        browser.until("document.getElementById('state').textContent === 'Ready'").await;
        assert_eq!(browser.value("tobari.view.sent").await, 0, "the server has its part already");
        key(&mut browser, "4").await;
        let expected = plain(&mut browser).await;
        assert_eq!(classified(&mut browser).await, expected);
        click(&mut browser, "forget").await;
        browser.until("document.getElementById('state').textContent === 'No key yet'").await;
        assert_eq!(browser.value(kept).await, 0);
        browser.open(&address).await;
        browser.until("document.getElementById('state').textContent === 'No key yet'").await;
    });
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only browser"]
fn a_server_without_a_model_says_so() {
    run(async {
        let server = Server::start(&[]);
        let mut browser = Browser::start(&clip("alice.wav")).await;
        browser.open(&format!("{}/infer/", server.url)).await;
        browser.until("document.getElementById('alarms').textContent.includes('tobari serve --infer digits')").await;
        assert_eq!(browser.value("document.getElementById('work').hidden").await, true);
    });
}

/// The page's answer to a question.
async fn searched(browser: &mut Browser, fill: &str) -> String {
    let ask = format!(
        "{{ const form = document.getElementById('question'); const {{ at, alleles, key, place, longest }} = form.elements; {fill};
            document.getElementById('answer').textContent = '?'; form.requestSubmit(); }}"
    );
    browser.value(&ask).await;
    browser.until("/[0-9]/.test(document.getElementById('answer').textContent)").await;
    text(browser, "answer").await
}

/// Chooses a table of the page.
async fn choose(browser: &mut Browser, label: &str, kind: &str) {
    let chosen = format!(
        "{{ const table = document.getElementById('table');
            table.value = Array.from(table.options).find((one) => one.text === '{label}').value; table.onchange(); }}"
    );
    browser.value(&chosen).await;
    browser.until(&format!("tobari.view.about.kind === '{kind}'")).await;
}

/// Clicks on the example, and asks: the table is small, so the page shows the place, unless the
/// person is content with fewer places.
async fn an_example(browser: &mut Browser, place: &Place, panel: &str) {
    for (least, shown) in [(100, "shown"), (40, "hidden")] {
        let fill = format!("tobari.view.least = {least}; document.getElementById('example').click()");
        let count = searched(browser, &fill).await;
        let asked = "(({ at, alleles, place }) => [at.value, alleles.value, place.value].join('\\t'))\
            (document.getElementById('question').elements)";
        let asked = browser.value(asked).await.as_str().unwrap().to_owned();
        let (question, chosen) = asked.rsplit_once('\t').unwrap();
        assert_eq!(chosen, shown, "{question}");
        let file = place.write("example", &format!("{question}\n"));
        let clear = place.good(&["search", "check", panel, "--queries", &file, "--json"]);
        assert_eq!(count, serde_json::from_str::<Value>(&clear).unwrap()["count"].to_string());
        assert_ne!(count, "0", "an example that finds something: {question}");
    }
}

/// Drops a person's file on the page, and asks about both haplotypes. The answers are those of the
/// command line on the plain table.
async fn a_person(browser: &mut Browser, place: &Place, panel: &str) {
    let (first, count, column) = (12, 14, 9 + 3);
    let text = vcf(SITES, '|');
    let columns = |line: &str| line.split('\t').map(str::to_owned).collect::<Vec<_>>();
    let one = |line: &str| [&columns(line)[..9], &columns(line)[column..=column]].concat().join("\t");
    let person: Vec<String> =
        text.lines().map(|line| if line.starts_with("##") { line.to_owned() } else { one(line) }).collect();
    let person = person.join("\n") + "\n";
    let file = place.write("person.vcf", &person);
    let region = format!("20:{}-{}", position(first), position(first + count - 1));
    let clear = place.good(&["search", "check", panel, "--vcf", &file, "--region", &region, "--json"]);
    let drop = format!(
        "(async () => {{ const {{ at, sites }} = document.getElementById('question').elements; [at.value, sites.value] = ['20:{}', {count}];
            const packed = new Blob([{}]).stream().pipeThrough(new CompressionStream('gzip'));
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(new File([await new Response(packed).blob()], 'person.vcf.gz'));
            document.getElementById('person').dispatchEvent(new DragEvent('drop', {{ dataTransfer, bubbles: true, cancelable: true }})); }})(); 0",
        position(first),
        json!(person)
    );
    browser.value(&drop).await;
    browser.until("!document.getElementById('haplotypes').hidden").await;
    assert_eq!(clear.lines().count(), 2);
    for (i, line) in clear.lines().enumerate() {
        browser.value(&format!("document.querySelectorAll('#haplotypes input')[{i}].click()")).await;
        let alleles = browser.value("document.getElementById('question').elements.alleles.value.length").await;
        assert_eq!(alleles, count);
        let expected = serde_json::from_str::<Value>(line).unwrap()["count"].to_string();
        assert_ne!(expected, "0", "the person is in the panel");
        assert_eq!(
            searched(browser, "place.value = 'shown'; place.onchange(); longest.checked = false").await,
            expected,
            "haplotype {i}"
        );
    }
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only browser"]
fn tables_answer_a_browser_as_they_answer_in_the_clear() {
    run(async {
        let place = Place::new();
        let panel = place.variants("panel", SITES, '|');
        let keys: String = (0..3_000).map(|i| format!("entry {}\t{}\n", i * 3, 1 + i % 9)).collect();
        let keys = place.write("keys.tsv", &keys);
        place.good(&["search", "index", &keys, "--table", "-o", &place.path("keys"), "--label", "keys"]);
        let server = Server::start(&["--search", &panel, "--search", &place.path("keys")]);
        let mut browser = Browser::start(&clip("alice.wav")).await;
        browser.open(&format!("{}/search/?tap", server.url)).await;
        browser.until("!document.getElementById('work').hidden").await;
        choose(&mut browser, "panel", "panel").await;
        let told = |line: &str, what: &str| -> Value { serde_json::from_str::<Value>(line).unwrap()[what].clone() };
        let questions = questions(9, 6);
        let file = place.write("queries", &questions);
        let clear = place.good(&["search", "check", &panel, "--queries", &file, "--json"]);
        let longest = place.good(&["search", "check", &panel, "--queries", &file, "--longest", "--json"]);
        for (i, (question, (count, most))) in questions.lines().zip(clear.lines().zip(longest.lines())).enumerate() {
            let (site, alleles) = question.split_once('\t').unwrap();
            // the table is small: 42 places for nine sites
            let place = if i % 2 == 0 { "hidden" } else { "shown" };
            let fill = format!(
                "tobari.view.least = 42; at.value = '{site}'; alleles.value = '{alleles}'; place.value = '{place}'; \
                 place.onchange(); longest.checked = "
            );
            assert_eq!(searched(&mut browser, &(fill.clone() + "false")).await, told(count, "count").to_string());
            let shown = browser.value("document.getElementById('places').textContent").await;
            let seen = if i % 2 == 0 { "20:7000001-8000000".to_owned() } else { format!("{site}:A:C") };
            assert_eq!(shown, seen, "what the server sees of the place");
            let fill = fill.replace("'hidden'", "'shown'");
            assert_eq!(searched(&mut browser, &(fill + "true")).await, told(most, "longest").to_string());
        }
        an_example(&mut browser, &place, &panel).await;
        a_person(&mut browser, &place, &panel).await;
        assert_eq!(faults(&mut browser, "a person").await, Vec::<String>::new());
        pictures(&mut browser, "search").await;
        choose(&mut browser, "keys", "keys").await;
        assert_eq!(browser.value("document.getElementById('example').hidden").await, true, "keys are not listed");
        for (key, expected) in [("entry 0", "1"), ("entry 12", "5"), ("entry 13", "0")] {
            assert_eq!(searched(&mut browser, &format!("key.value = '{key}'")).await, expected, "{key}");
        }
        // the page reports a site that does not exist, and goes on
        choose(&mut browser, "panel", "panel").await;
        let wrong = "{ const { at, alleles } = document.getElementById('question').elements; at.value = '20:1'; alleles.value = '01';
            document.getElementById('question').requestSubmit(); }";
        browser.value(wrong).await;
        browser
            .until("document.getElementById('alarms').textContent.includes('expected the position of a site')")
            .await;
        assert_eq!(browser.complaints, Vec::<String>::new(), "errors in the page");
    });
}

/// The page asks a server with labels as any other, also after the server has another key of
/// labels.
#[test]
#[ignore = "needs a browser: cargo xtask test --only browser"]
fn tables_with_labels_answer_a_browser_as_they_answer_in_the_clear() {
    run(async {
        let place = Place::new();
        let panel = place.variants("panel", SITES, '|');
        let keys: String = (0..300).map(|i| format!("entry {}\t{}\n", i * 3, 1 + i % 9)).collect();
        let keys = place.write("keys.tsv", &keys);
        place.good(&["search", "index", &keys, "--table", "-o", &place.path("keys"), "--label", "keys"]);
        let served = ["--search", &panel, "--search", &place.path("keys"), "--budget", "10"];
        let server = Server::start(&[&["--malicious", "--hidden", "5"], &served[..]].concat());
        let mut browser = Browser::start(&clip("alice.wav")).await;
        browser.open(&format!("{}/search/?tap", server.url)).await;
        browser.until("!document.getElementById('work').hidden").await;
        choose(&mut browser, "keys", "keys").await;
        for (key, expected) in [("entry 12", "5"), ("entry 13", "0")] {
            assert_eq!(searched(&mut browser, &format!("key.value = '{key}'")).await, expected, "{key}");
        }
        choose(&mut browser, "panel", "panel").await;
        let bytes = std::fs::read(&panel).unwrap();
        for round in 0..2 {
            if round == 1 {
                std::fs::write(place.path("new"), &bytes).unwrap();
                std::fs::rename(place.path("new"), &panel).unwrap();
                // the server looks at its files every second
                tokio::time::sleep(Duration::from_millis(2_500)).await;
            }
            for length in [4, 5] {
                let question = questions(length, 1);
                let (site, alleles) = question.trim().split_once('\t').unwrap();
                let file = place.write("queries", &question);
                let clear = place.good(&["search", "check", &panel, "--queries", &file, "--json"]);
                let count = serde_json::from_str::<Value>(&clear).unwrap()["count"].to_string();
                for shown in ["shown", "hidden"] {
                    let fill = format!(
                        "tobari.view.least = 40; at.value = '{site}'; alleles.value = '{alleles}'; \
                         place.value = '{shown}'; place.onchange()"
                    );
                    assert_eq!(searched(&mut browser, &fill).await, count, "{round} {length} {shown}");
                }
            }
        }
        assert_eq!(browser.complaints, Vec::<String>::new(), "errors in the page");
        // every question was paid once: two of keys, and eight of the panel
        browser.value("document.getElementById('question').requestSubmit()").await;
        browser.until("document.getElementById('alarms').textContent.includes('as often as its owner allows')").await;
        assert!(server.stop().contains("a table was replaced"), "the second round was under another key");
    });
}
