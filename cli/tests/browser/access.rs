//! The pages without a mouse, for the blind and for weak eyes: everything works by keys alone,
//! every control has a name, and every text has contrast.

use serde_json::json;

use super::{
    clip,
    controls::{back_to, stroke, tab_to},
    devtools::Browser,
    fleets::opened,
    jobs::{example, serves_all},
    pages::{plain, text},
    run,
    support::Server,
};

async fn enter_key(browser: &mut Browser) {
    stroke(browser, "Enter", 13).await;
}

async fn space(browser: &mut Browser) {
    stroke(browser, " ", 32).await;
}

/// Goes to a field by Tab, and types: the text of a field entered by Tab is selected, and typing
/// replaces it.
async fn write(browser: &mut Browser, field: &str, text: &str) {
    tab_to(browser, field).await;
    browser.call("Input.insertText", json!({ "text": text })).await;
}

/// Goes from the first page to the page of a job, with the test's access to its inner state.
async fn go(browser: &mut Browser, server: &Server, job: &str) {
    serves_all(browser, server).await;
    browser.value(&format!("document.querySelector('[data-job={job}] a').search = '?tap&window=4'")).await;
    tab_to(browser, job).await;
    enter_key(browser).await;
    browser
        .until(&format!("location.pathname === '/{job}/' && document.getElementById('work')?.hidden === false"))
        .await;
}

async fn infers(browser: &mut Browser) {
    tab_to(browser, "pad").await;
    stroke(browser, "5", 53).await;
    tab_to(browser, "clear").await;
    space(browser).await;
    assert_eq!(browser.value("tobari.pad.empty").await, true);
    back_to(browser, "pad").await;
    stroke(browser, "7", 55).await;
    let expected = plain(browser).await;
    tab_to(browser, "keep").await;
    for is in [true, false] {
        space(browser).await;
        assert_eq!(browser.value("document.getElementById('keep').checked").await, is);
    }
    tab_to(browser, "make").await;
    enter_key(browser).await;
    browser.until("document.getElementById('state').textContent === 'Ready'").await;
    tab_to(browser, "classify").await;
    enter_key(browser).await;
    browser.until("/^[0-9]$/.test(document.getElementById('label').textContent)").await;
    assert_eq!(text(browser, "label").await, expected.to_string());
    tab_to(browser, "forget").await;
    space(browser).await;
    browser.until("document.getElementById('state').textContent === 'No key yet'").await;
}

async fn senses(browser: &mut Browser) {
    browser.until("!document.getElementById('start').disabled").await;
    tab_to(browser, "start").await;
    enter_key(browser).await;
    browser.until("document.getElementById('state').textContent === 'Live'").await;
    tab_to(browser, "SUMMARY").await;
    space(browser).await;
    assert_eq!(browser.value("document.querySelector('details').open").await, true);
    write(browser, "reading", "60").await;
    enter_key(browser).await;
    browser.until("document.getElementById('steps').dataset.own !== undefined").await;
    let told = opened(browser, "start === own").await;
    assert_eq!((&told["exact"], &told["alarm"]), (&json!("true"), &json!("true")), "{told}");
    let rows = browser.value("document.querySelectorAll('#numbers tr').length").await;
    assert_eq!(rows, told["counts"].as_str().unwrap().split(',').count());
    tab_to(browser, "sending").await;
    stroke(browser, "ArrowLeft", 37).await;
    assert_eq!(text(browser, "sending-said").await, "19 simulated thermometers");
    tab_to(browser, "end").await;
    enter_key(browser).await;
    browser.until("document.getElementById('state').textContent === 'Not begun'").await;
}

/// Chooses a table by its label while the list of tables has the focus, and waits for the matching
/// part of the form.
async fn choose(browser: &mut Browser, label: &str, part: &str) {
    for (key, code) in [("ArrowDown", 40), ("ArrowUp", 38)] {
        if browser.value("document.getElementById('table').selectedOptions[0].text").await != label {
            stroke(browser, key, code).await;
        }
    }
    browser.until(&format!("!document.getElementById('{part}').hidden")).await;
}

async fn searches(browser: &mut Browser) {
    tab_to(browser, "table").await;
    choose(browser, "simulated: squares", "of-keys").await;
    write(browser, "key", "144").await;
    enter_key(browser).await;
    browser.until("document.getElementById('answer').textContent === '12'").await;
    back_to(browser, "table").await;
    choose(browser, "simulated", "of-sites").await;
    let [site, alleles, count] = example();
    write(browser, "at", &site).await;
    write(browser, "alleles", &alleles).await;
    // the longest match shows the place; the second question hides it
    let longest = alleles.len().to_string();
    for (answer, key, code) in [(longest, "ArrowDown", 40), (count, "ArrowUp", 38)] {
        tab_to(browser, "place").await;
        stroke(browser, key, code).await;
        if key == "ArrowDown" {
            tab_to(browser, "longest").await;
            space(browser).await;
        }
        tab_to(browser, "ask").await;
        enter_key(browser).await;
        browser.until(&format!("document.getElementById('answer').textContent === '{answer}'")).await;
        let seen = text(browser, "places").await;
        assert_eq!(seen == "20:1-1000000", key == "ArrowUp", "the server sees {seen} of the place");
        back_to(browser, "alleles").await;
    }
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only browser"]
fn by_keys_alone_one_infers_senses_and_searches() {
    run(async {
        let server = Server::start(&["--try"]);
        let mut browser = Browser::start(&clip("alice.wav")).await;
        go(&mut browser, &server, "infer").await;
        infers(&mut browser).await;
        go(&mut browser, &server, "sense").await;
        senses(&mut browser).await;
        go(&mut browser, &server, "search").await;
        searches(&mut browser).await;
        assert_eq!(browser.complaints, Vec::<String>::new(), "errors in the pages");
    });
}

/// Roles of controls, and of pictures and bars, whose names are read to blind people.
const NAMED: [&str; 15] = [
    "button",
    "link",
    "textbox",
    "searchbox",
    "checkbox",
    "radio",
    "combobox",
    "ComboBoxMenuSelect",
    "slider",
    "spinbutton",
    "DisclosureTriangle",
    "dialog",
    "image",
    "img",
    "progressbar",
];

/// Elements without a name, as the browser computes names. A placeholder does not count: it
/// disappears when the user types.
async fn nameless(browser: &mut Browser) -> (usize, Vec<String>) {
    let tree = browser.call("Accessibility.getFullAXTree", json!({})).await;
    let nodes = tree["nodes"].as_array().unwrap().iter();
    let named: Vec<_> =
        nodes.filter(|node| NAMED.contains(&node["role"]["value"].as_str().unwrap_or_default())).collect();
    let has_name = |node: &serde_json::Value| {
        let empty = Vec::new();
        let sources = node["name"]["sources"].as_array().unwrap_or(&empty);
        let used = sources.iter().find(|source| !source["value"].is_null() && source["superseded"] != true);
        !node["name"]["value"].as_str().unwrap_or_default().trim().is_empty()
            && used.is_some_and(|source| source["type"] != "placeholder")
    };
    let without = named.iter().filter(|node| !has_name(node));
    (named.len(), without.map(|node| format!("no name: {}", node["role"]["value"])).collect())
}

/// Texts with a contrast below 4.5 to their background (WCAG 2.2, 1.4.3), as the page is now.
/// Disabled elements are left out, and so are bytes, which are a picture.
const FAINT: &str = "(() => {
    const context = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
    const colour = (text) => { // red, green and blue, each multiplied by the last, which is alpha
        context.clearRect(0, 0, 1, 1);
        context.fillStyle = text;
        context.fillRect(0, 0, 1, 1);
        const [red, green, blue, alpha] = Array.from(context.getImageData(0, 0, 1, 1).data, (byte) => byte / 255);
        return [red * alpha, green * alpha, blue * alpha, alpha];
    };
    const over = (top, below) => top.map((part, at) => part + below[at] * (1 - top[3]));
    const linear = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    const light = ([red, green, blue]) => 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
    const contrast = (element) => {
        const style = getComputedStyle(element);
        let [ink, ground] = [colour(element instanceof SVGElement ? style.fill : style.color), [0, 0, 0, 0]];
        for (let at = element; at; at = at.parentElement) {
            const { backgroundColor, opacity, position } = getComputedStyle(at);
            [ink, ground] = [ink, ground].map((part) => over(part, colour(backgroundColor)).map((one) => one * opacity));
            // what lies over others has them behind it
            for (let under = position === 'absolute' && at.previousElementSibling; under; under = under.previousElementSibling) {
                [ink, ground] = [ink, ground].map((part) => over(part, colour(getComputedStyle(under).backgroundColor)));
            }
        }
        const [more, less] = [ink, ground].map(light).sort((a, b) => b - a);
        return (more + 0.05) / (less + 0.05);
    };
    const writes = (element) => element.matches('select, input:not([type=checkbox], [type=radio], [type=range], [type=file])')
        || Array.from(element.childNodes).some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    const shown = (element) => element.checkVisibility({ visibilityProperty: true }) && !element.closest(':disabled, .hex[aria-hidden=true], .hidden, noscript, option');
    const all = Array.from(document.body.querySelectorAll('*')).filter((element) => writes(element) && shown(element));
    return { all: all.length, faint: all.filter((element) => contrast(element) < 4.5).map((element) => `${contrast(element).toFixed(2)} of ${element.outerHTML.slice(0, 120)}`) };
})()";

/// Controls without a name, and texts that cannot be read in the light or in the dark scheme, on
/// the page as it is now.
pub(crate) async fn faults(browser: &mut Browser, what: &str) -> Vec<String> {
    let (named, mut faults) = nameless(browser).await;
    let mut written = 0;
    for scheme in ["dark", "light"] {
        wear(browser, scheme).await;
        let told = browser.value(FAINT).await;
        let faint = told["faint"].as_array().unwrap().iter();
        faults.extend(faint.map(|one| format!("{what}, {scheme}: {}", one.as_str().unwrap())));
        written += told["all"].as_u64().unwrap();
    }
    assert!(named >= 2 && written > 40, "{what}: {named} things with names, {written} written");
    faults
}

async fn wear(browser: &mut Browser, scheme: &str) {
    let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
    browser.call("Emulation.setEmulatedMedia", media).await;
}

/// The server offers nothing but calls: the pages say so, and cards of other jobs are dimmed. The
/// test shows all other elements of the pages, in whatever state.
#[test]
#[ignore = "needs a browser: cargo xtask test --only browser"]
fn every_control_of_every_page_has_a_name_and_all_that_is_written_can_be_read_by_day_and_by_night() {
    run(async {
        let server = Server::start(&[]);
        let mut browser = Browser::start(&clip("alice.wav")).await;
        let mut found = Vec::new();
        for path in ["", "call/", "infer/", "sense/", "search/"] {
            browser.open(&format!("{}/{path}", server.url)).await;
            browser.until("document.getElementById('alarms').textContent !== '' || 'ready' in document.body.dataset || document.body.dataset.view === 'begin'").await;
            let reveal = "document.querySelectorAll('[hidden]').forEach((one) => (one.hidden = false));
                document.querySelectorAll(':disabled').forEach((one) => (one.disabled = false));
                document.querySelectorAll('dialog, details').forEach((one) => (one.open = true));
                document.querySelectorAll('p:empty').forEach((one) => (one.textContent = 'Something'));";
            browser.value(reveal).await;
            found.extend(faults(&mut browser, path).await);
        }
        assert!(found.is_empty(), "{found:#?}");
        let spoil = "document.getElementById('main').insertAdjacentHTML('beforeend', '<button></button><input placeholder=\"Name\"><p>faint</p>');
            document.getElementById('main').lastChild.style.opacity = 0.5;";
        browser.value(spoil).await;
        assert_eq!(nameless(&mut browser).await.1.len(), 2, "a placeholder is no name");
        assert_eq!(browser.value(FAINT).await["faint"].as_array().unwrap().len(), 1);
    });
}
