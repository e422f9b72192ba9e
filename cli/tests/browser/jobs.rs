//! One server with all jobs, and a person who visits each job from the first page, with a mouse.

use std::path::Path;

use serde_json::json;
use tobari_search::simulated::columns;

use super::{
    access::faults,
    clip,
    devtools::Browser,
    enter,
    fleets::opened,
    pages::{ONE, is_noise, stroke, text},
    run, sees,
    support::Server,
};

/// Clicks an element, once it exists and can be used.
async fn point(browser: &mut Browser, selector: &str) {
    let usable = "(element) => element?.checkVisibility() && !element.disabled";
    browser.until(&format!("({usable})(document.querySelector({}))", json!(selector))).await;
    stroke(browser, selector, &[(0.5, 0.5)]).await;
}

/// Types into a field, in place of its text.
async fn fill(browser: &mut Browser, selector: &str, text: &str) {
    point(browser, selector).await;
    browser.value("document.activeElement.select()").await;
    browser.call("Input.insertText", json!({ "text": text })).await;
}

/// The first page is loaded, and knows the jobs of the server.
const BEGUN: &str = "location.pathname === '/' && 'ready' in document.body.dataset";

/// Opens the first page of a server with all jobs.
pub(crate) async fn serves_all(browser: &mut Browser, server: &Server) {
    browser.open(&format!("{}/", server.url)).await;
    browser.until(BEGUN).await;
    assert_eq!(browser.value("document.querySelectorAll('.absent').length").await, 0, "all jobs are served");
}

/// From the first page to a job's.
async fn go(browser: &mut Browser, job: &str) {
    browser.until(BEGUN).await;
    point(browser, &format!("[data-job={job}]")).await;
    browser.until(&format!("location.pathname === '/{job}/' && document.readyState === 'complete'")).await;
}

/// Checks the page's list of what the server holds: an entry for everything except the last, which
/// the server never holds.
async fn is_held(browser: &mut Browser) {
    let held = "Array.from(document.querySelectorAll('.holds dd'), (one) => one.textContent)";
    let held = browser.value(held).await;
    let (never, rest) = held.as_array().unwrap().split_last().unwrap();
    assert_eq!(never, "never");
    assert!(rest.len() > 2 && rest.iter().all(|what| *what != "none yet" && *what != "–"), "{held}");
}

async fn calls(browser: &mut Browser) -> Vec<String> {
    go(browser, "call").await;
    point(browser, "[name=host]").await;
    point(browser, "#begin-form button").await;
    browser.until("document.getElementById('made-link').value !== ''").await;
    let link = browser.value("document.getElementById('made-link').value").await;
    let mut found = faults(browser, "a link").await;
    point(browser, "#made-enter").await;
    fill(browser, "#door-form [name=name]", "Ada").await;
    point(browser, "#join").await;
    browser.until("document.body.dataset.view === 'room'").await;
    let mut bo = enter("bob.wav", link.as_str().unwrap(), "Bo").await;
    sees(&mut bo, 2).await;
    let names = "Array.from(document.querySelectorAll('#people .name'), (name) => name.textContent).join()";
    browser.until(&format!("{names} === 'Ada,Bo'")).await;
    // the part of a picture's height with ink: Bo's voice fills one picture until he is mute, and
    // the server's bytes fill the other all the time
    let ink = "globalThis.ink = (id) => {
        const canvas = document.getElementById(id), { width, height } = canvas;
        const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
        const row = (y) => data.subarray(4 * y * width, 4 * (y + 1) * width).some((byte) => byte > 0);
        return Array.from({ length: height }, (_, y) => row(y)).filter(Boolean).length / height;
    }; 0";
    browser.value(ink).await;
    // a picture outside the visible part is not drawn
    browser.value("document.getElementById('held').scrollIntoView()").await;
    browser.until("ink('heard') > 0.1 && ink('held') > 0.8").await;
    bo.value("document.getElementById('mute').click()").await;
    browser.until("ink('heard') < 0.1 && ink('held') > 0.8").await;
    browser.until("parseInt(document.getElementById('fig-sums').textContent) > 0").await;
    let held = text(browser, "held-what").await;
    assert!(held.ends_with(" bytes every 20 ms, and no key"), "{held}");
    found.extend(faults(browser, "a room").await);
    point(browser, "#leave").await;
    browser.until("document.body.dataset.view === 'over'").await;
    sees(&mut bo, 1).await;
    found
}

async fn infers(browser: &mut Browser) -> Vec<String> {
    go(browser, "infer").await;
    point(browser, "#make").await;
    browser.until("document.getElementById('state').textContent === 'Ready'").await;
    stroke(browser, "#pad", &ONE).await;
    point(browser, "#classify").await;
    browser.until("document.getElementById('label').textContent === '1'").await;
    is_noise(browser, "hex").await;
    is_held(browser).await;
    faults(browser, "a label").await
}

async fn senses(browser: &mut Browser) -> Vec<String> {
    browser.until(BEGUN).await;
    // windows of ten seconds are too long for a test
    browser.value("document.querySelector('[data-job=sense] a').search = '?window=4'").await;
    go(browser, "sense").await;
    point(browser, "#start").await;
    fill(browser, "#reading", "60").await;
    point(browser, "#own button").await;
    browser.until("document.getElementById('steps').dataset.own !== undefined").await;
    let told = opened(browser, "start === own").await;
    assert_eq!((&told["exact"], &told["alarm"]), (&json!("true"), &json!("true")), "{told}");
    let (counts, plain) = (told["counts"].as_str().unwrap(), &told["plain"]);
    assert!(counts == plain && counts.ends_with(",1"), "the reading is in the last bin: {told}");
    browser.until("document.querySelectorAll('#bins rect:not([height=\"0\"])').length > 1").await;
    browser.until("Number(document.getElementById('steps').dataset.answers) > 0").await;
    for id in ["frame", "answer"] {
        is_noise(browser, id).await;
    }
    is_held(browser).await;
    faults(browser, "a histogram").await
}

/// The first question of the tutorial: its site, its alleles, and the answer on the page.
pub(crate) fn example() -> [String; 3] {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../book/src/tutorials/search.md");
    let page = std::fs::read_to_string(path).unwrap();
    let word = |after: &str| page.split_once(after).unwrap().1.split_whitespace().next().unwrap().to_owned();
    ["--at ", "--alleles ", "match, count "].map(word)
}

async fn searches(browser: &mut Browser) -> Vec<String> {
    let [site, alleles, count] = example();
    // the simulated panel follows from a seed: its first site is at 1,000, and each further site 50
    // later
    let first = (site.strip_prefix("chr20:").unwrap().parse::<usize>().unwrap() - 1_000) / 50;
    let panel = columns(2_184, 300, 20);
    let is_asked = |haplotype: &usize| {
        alleles.bytes().zip(&panel[first..]).all(|(allele, site)| site[*haplotype] == (allele == b'1'))
    };
    assert_eq!((0..2_184).filter(is_asked).count().to_string(), count, "what the tutorial says");
    go(browser, "search").await;
    choose(browser, "simulated", "of-sites").await;
    fill(browser, "[name=at]", &site).await;
    fill(browser, "[name=alleles]", &alleles).await;
    point(browser, "#ask").await;
    browser.until(&format!("document.getElementById('answer').textContent === '{count}'")).await;
    is_noise(browser, "hex").await;
    is_held(browser).await;
    // the place is hidden unless a person shows it
    assert_eq!(text(browser, "places").await, "20:1-1000000", "what the server sees of the place");
    let found = faults(browser, "an answer").await;
    choose(browser, "simulated: squares", "of-keys").await;
    for (key, expected) in [("144", "12"), ("145", "0")] {
        fill(browser, "[name=key]", key).await;
        point(browser, "#ask").await;
        browser.until(&format!("document.getElementById('answer').textContent === '{expected}'")).await;
    }
    is_noise(browser, "hex").await;
    assert_eq!(text(browser, "seen").await, "That a key is asked for, and of which table.");
    found
}

/// Chooses a table by its label, and waits for the matching part of the form.
async fn choose(browser: &mut Browser, label: &str, part: &str) {
    let choose = format!(
        "{{ const table = document.getElementById('table');
            table.value = Array.from(table.options).find((one) => one.text === '{label}').value; table.dispatchEvent(new Event('change')); }}"
    );
    browser.until("!document.getElementById('work').hidden").await;
    browser.value(&choose).await;
    browser.until(&format!("!document.getElementById('{part}').hidden")).await;
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only browser"]
fn from_the_first_page_a_person_calls_infers_senses_and_searches_and_sees_what_the_server_holds() {
    run(async {
        let server = Server::start(&["--try"]);
        let mut browser = Browser::start(&clip("alice.wav")).await;
        serves_all(&mut browser, &server).await;
        let mut found = faults(&mut browser, "the first page").await;
        found.extend(calls(&mut browser).await);
        // the page of a call has no link back
        browser.open(&format!("{}/", server.url)).await;
        found.extend(infers(&mut browser).await);
        point(&mut browser, ".brand a").await;
        found.extend(senses(&mut browser).await);
        point(&mut browser, ".brand a").await;
        found.extend(searches(&mut browser).await);
        point(&mut browser, ".brand a").await;
        browser.until(BEGUN).await;
        assert_eq!(
            (found, &browser.complaints),
            (Vec::new(), &Vec::new()),
            "what cannot be used or read, and errors in the pages"
        );
    });
}
