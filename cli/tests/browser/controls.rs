//! Actions of a person on the page of a call, and reactions of the page when nothing arrives.

use std::{
    collections::BTreeMap,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::time::sleep;

use super::{
    alarms, clip,
    devtools::Browser,
    enter, join, link, page,
    relay::{self, Line},
    run, sees,
    sound::{Track, energy},
    support::Server,
    tap,
};

/// Presses a key, as a person does.
async fn press(browser: &mut Browser, key: &str) {
    for kind in ["keyDown", "keyUp"] {
        let text = if kind == "keyDown" { key } else { "" };
        browser.call("Input.dispatchKeyEvent", json!({ "type": kind, "key": key, "text": text })).await;
    }
}

/// Whether a loud sample is sent, and whether one is heard, in the next four seconds.
async fn sounds(sends: &mut Browser, hears: &mut Browser) -> (bool, bool) {
    let loud = |track: &Track| track.samples.chunks(1600).any(|stretch| energy(stretch) / 1600.0 > 300.0 * 300.0);
    sleep(Duration::from_secs(1)).await; // packets in flight
    let _ = (tap(sends).await, tap(hears).await);
    sleep(Duration::from_secs(4)).await; // longer than the recording and its pauses
    let ((said, ..), (_, heard, _)) = (tap(sends).await, tap(hears).await);
    assert!(said.seconds() > 3.0, "as much is sent as ever");
    (loud(&said), loud(&heard))
}

/// An observer's view of eight seconds: the most frequent size of a message, the messages of that
/// size per second, and the number of messages of other sizes.
async fn on_the_way(seen: &relay::Seen) -> (usize, f64, usize) {
    seen.lock().unwrap().clear();
    sleep(Duration::from_secs(8)).await;
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    let mut counts = BTreeMap::new();
    seen.iter().for_each(|(_, bytes)| *counts.entry(*bytes).or_insert(0) += 1);
    let (size, count) = counts.iter().map(|(size, count)| (*size, *count)).max_by_key(|(_, count)| *count).unwrap();
    let mut times = seen.iter().filter(|(_, bytes)| *bytes == size).map(|(at, _)| *at);
    let (first, last) = (times.next().unwrap(), times.next_back().unwrap());
    (size, (count - 1) as f64 / (last - first).as_secs_f64(), seen.len() - count)
}

/// A page in speech and in pauses sends the same as a muted page: fifty packets of one size a
/// second.
#[test]
#[ignore = "needs a browser: cargo xtask test --only browser"]
fn somebody_on_the_way_does_not_see_who_speaks() {
    run(async {
        let server = Server::start(&[]);
        let (link, _) = link(&server, &[]);
        let (address, seen) = relay::watched(server.address().parse().unwrap(), Line::GOOD).await;
        let mut ada = enter("alice.wav", &link.replace(&server.address(), &address.to_string()), "Ada").await;
        let mut bo = enter("bob.wav", &link, "Bo").await;
        sees(&mut ada, 2).await;
        assert_eq!(sounds(&mut ada, &mut bo).await, (true, true));
        let (size, spoken, notes) = on_the_way(&seen).await;
        press(&mut ada, "m").await;
        ada.until("document.getElementById('mute').getAttribute('aria-pressed') === 'true'").await;
        assert_eq!(sounds(&mut ada, &mut bo).await, (false, false));
        let (same, silent, others) = on_the_way(&seen).await;
        println!(
            "packets of {size} bytes: {spoken:.1} a second while it speaks, {silent:.1} while it is muted; {notes} and {others} notes"
        );
        assert_eq!(size, same, "packets are of one size");
        // a slow page drops some packets
        assert!(spoken > 40.0 && (silent / spoken - 1.0).abs() < 0.1, "{spoken} and {silent}");
        // other messages are notes on sums that were heard
        assert!(notes <= 8 && others <= 8, "{notes} and {others}");
        assert_eq!((alarms(&mut ada).await, &ada.complaints), (vec![], &vec![]));
    });
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only browser"]
fn a_key_mutes_and_so_does_the_host_and_a_key_raises_the_hand_of_who_only_listens() {
    run(async {
        let server = Server::start(&[]);
        let (link, host_link) = link(&server, &["--host"]);
        let mut ada = enter("alice.wav", &host_link.unwrap(), "Ada").await;
        let mut bo = enter("bob.wav", &link, "Bo").await;
        sees(&mut ada, 2).await;
        sees(&mut bo, 2).await;
        assert_eq!(sounds(&mut bo, &mut ada).await, (true, true));
        let pressed =
            |id: &str, is: bool| format!("document.getElementById('{id}').getAttribute('aria-pressed') === '{is}'");
        press(&mut bo, "m").await;
        bo.until(&pressed("mute", true)).await;
        assert_eq!(sounds(&mut bo, &mut ada).await, (false, false), "who is muted sends silence");
        press(&mut bo, "m").await;
        bo.until(&pressed("mute", false)).await;
        // the key does nothing while the user types or chooses
        bo.value("document.getElementById('devices').click()").await;
        bo.until("document.getElementById('sound').open").await;
        press(&mut bo, "m").await;
        bo.value("document.getElementById('sound').close()").await;
        bo.until(&pressed("mute", false)).await;

        ada.value("document.querySelector('[data-act=mute]').click()").await;
        bo.until("document.getElementById('mute').classList.contains('by-host')").await;
        assert!(!sounds(&mut bo, &mut ada).await.1, "whoever the host mutes is not heard");
        // the lists of the sums tell all members
        let missed = "document.querySelector('#people .missing')?.textContent.includes('not in the sums')";
        ada.until(missed).await;
        bo.until(missed).await;
        ada.value("document.querySelector('[data-act=unmute]').click()").await;
        bo.until("!document.getElementById('mute').classList.contains('by-host')").await;
        assert_eq!(sounds(&mut bo, &mut ada).await, (true, true));
        ada.until("document.querySelector('#people .missing') === null").await;

        bo.reload().await;
        join(&mut bo, "Bo", true).await;
        sees(&mut bo, 2).await;
        press(&mut bo, "h").await;
        bo.until(&pressed("hand", true)).await;
        ada.until("document.getElementById('people').textContent.includes('wants to speak')").await;
        assert_eq!(alarms(&mut ada).await, Vec::<String>::new());
    });
}

/// The number of the Shift key in the protocol.
const SHIFT: u32 = 8;

/// Presses a key that types nothing, or a space, and lets the page act.
pub(crate) async fn stroke(browser: &mut Browser, key: &str, code: u32) {
    keys(browser, key, code, 0).await;
}

async fn keys(browser: &mut Browser, key: &str, code: u32, modifiers: u32) {
    let text = match key {
        "Enter" => "\r",
        " " => " ",
        _ => "",
    };
    for kind in ["keyDown", "keyUp"] {
        let stroke = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers, "text": if kind == "keyDown" { text } else { "" } });
        browser.call("Input.dispatchKeyEvent", stroke).await;
    }
}

/// Presses Tab until this element, or the link to this job, has the focus; returns the elements
/// that had the focus before.
pub(crate) async fn tab_to(browser: &mut Browser, id: &str) -> Vec<String> {
    tabs_to(browser, id, false).await
}

/// The same backwards, with Shift and Tab.
pub(crate) async fn back_to(browser: &mut Browser, id: &str) -> Vec<String> {
    tabs_to(browser, id, true).await
}

async fn tabs_to(browser: &mut Browser, id: &str, is_back: bool) -> Vec<String> {
    let mut passed = Vec::new();
    for _ in 0..40 {
        keys(browser, "Tab", 9, if is_back { SHIFT } else { 0 }).await;
        let here = browser.value("(({ id, name, tagName, parentNode: { parentNode: card } }) => id || name || card?.dataset?.job || tagName)(document.activeElement)").await;
        let here = here.as_str().unwrap_or_default().to_owned();
        // the focus must be visible
        let seen = browser.value("document.activeElement.matches(':focus-visible') && document.activeElement.getBoundingClientRect().width > 0").await;
        assert_eq!(seen, true, "{here} has the focus and is not to be seen");
        if here == id {
            return passed;
        }
        passed.push(here);
    }
    panic!("Tab does not lead to {id}, but to {passed:?}");
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only browser"]
fn by_keys_alone_one_joins_takes_another_microphone_and_loudspeaker_leaves_and_joins_again() {
    run(async {
        let server = Server::start(&[]);
        let (link, _) = link(&server, &[]);
        let mut ada = enter("alice.wav", &link, "Ada").await;
        let mut bo = Browser::start(&clip("bob.wav")).await;
        bo.open(&page(&link)).await;
        bo.until("document.body.dataset.view === 'door' && !document.getElementById('door-form').hidden").await;
        tab_to(&mut bo, "name").await;
        bo.call("Input.insertText", json!({ "text": "Bo" })).await;
        assert_eq!(tab_to(&mut bo, "join").await, ["listen"]);
        stroke(&mut bo, "Enter", 13).await;
        bo.until("document.body.dataset.view === 'room'").await;
        sees(&mut ada, 2).await;
        assert_eq!(sounds(&mut bo, &mut ada).await, (true, true));

        // every control that is shown, in the order of the page
        let passed = tab_to(&mut bo, "leave").await;
        let shown = "Array.from(document.querySelectorAll('nav.bar button:not([hidden])'), ({ id }) => id).join()";
        let shown = bo.value(shown).await.as_str().unwrap().to_owned();
        assert!(format!("{},leave", passed.join(",")).ends_with(&shown), "{passed:?} is not {shown}");
        bo.value("document.getElementById('main').focus()").await;
        tab_to(&mut bo, "devices").await;
        stroke(&mut bo, "Enter", 13).await;
        bo.until("document.getElementById('sound').open").await;
        // another microphone, during the call
        bo.until("document.getElementById('microphone').options.length > 2").await;
        let used = "tobari.view.card.stream.getAudioTracks()[0].getSettings().deviceId";
        let before = bo.value(used).await;
        bo.value("document.getElementById('microphone').focus()").await;
        for _ in 0..2 {
            stroke(&mut bo, "ArrowDown", 40).await;
        }
        bo.until(&format!("{used} === document.getElementById('microphone').value && {used} !== {before}")).await;
        // another loudspeaker, and back: the loudspeakers that a browser without sound cards
        // simulates play nothing
        tab_to(&mut bo, "speaker").await;
        let sounding = "tobari.view.card.context.sinkId";
        assert_eq!(bo.value(sounding).await, "", "at first the system's");
        let speakers = bo.value("document.getElementById('speaker').options.length").await;
        assert!(speakers.as_u64().unwrap() > 2, "{speakers} loudspeakers");
        for _ in 0..2 {
            stroke(&mut bo, "ArrowDown", 40).await;
        }
        bo.until(&format!("{sounding} === document.getElementById('speaker').value && {sounding} !== ''")).await;
        for _ in 0..2 {
            stroke(&mut bo, "ArrowUp", 38).await;
        }
        bo.until(&format!("{sounding} === ''")).await;
        stroke(&mut bo, "Escape", 27).await;
        bo.until("!document.getElementById('sound').open").await;
        assert_eq!(bo.value("document.activeElement.id").await, "devices", "the focus is where it was");
        assert_eq!(sounds(&mut bo, &mut ada).await, (true, true), "the other microphone is heard");
        assert_eq!(sounds(&mut ada, &mut bo).await, (true, true), "the system's loudspeaker is played to again");

        tab_to(&mut bo, "leave").await;
        stroke(&mut bo, "Enter", 13).await;
        bo.until("document.body.dataset.view === 'over'").await;
        sees(&mut ada, 1).await;
        assert_eq!(bo.value("tobari.view.card").await, json!(null), "microphone and loudspeaker are given back");
        assert_eq!(bo.value("document.activeElement.id").await, "again");
        stroke(&mut bo, "Enter", 13).await;
        bo.until("document.body.dataset.view === 'door'").await;
        join(&mut bo, "Bo", false).await;
        sees(&mut ada, 2).await;
        sees(&mut bo, 2).await;
        assert_eq!((alarms(&mut ada).await, &bo.complaints), (Vec::new(), &Vec::new()));
    });
}

fn signal(server: &Server, name: &str) {
    assert!(Command::new("kill").args([name, &server.pid().to_string()]).status().unwrap().success());
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only browser"]
fn a_page_leaves_a_server_that_says_nothing_any_more_and_comes_again() {
    run(async {
        let server = Server::start(&[]);
        let (link, _) = link(&server, &[]);
        let mut ada = enter("alice.wav", &link, "Ada").await;
        sees(&mut ada, 1).await;
        sleep(Duration::from_secs(3)).await;
        assert_eq!(ada.value("tobari.view.state").await, "joined", "while ticks come the line stays");
        signal(&server, "-STOP");
        let stopped = Instant::now();
        ada.until("tobari.view.state === 'reconnecting'").await;
        assert!(stopped.elapsed() < Duration::from_secs(8), "{:?}", stopped.elapsed());
        signal(&server, "-CONT");
        ada.until("tobari.view.state === 'joined'").await;
        sees(&mut ada, 1).await;
        assert_eq!(alarms(&mut ada).await, Vec::<String>::new());
    });
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only browser"]
fn fault_24_when_the_server_is_gone_the_page_says_of_nobody_that_they_speak_and_alarms_of_one_kind_are_one_line() {
    run(async {
        let server = Server::start(&[]);
        let (link, _) = link(&server, &[]);
        let mut ada = enter("alice.wav", &link, "Ada").await;
        let mut bo = enter("bob.wav", &link, "Bo").await;
        sees(&mut ada, 2).await;
        sees(&mut bo, 2).await;
        ada.until("document.getElementById('now').textContent.includes('Bo')").await;
        signal(&server, "-KILL");
        ada.until("tobari.view.state === 'reconnecting'").await;
        let shown = "[document.getElementById('now').textContent, document.getElementById('count').textContent, document.querySelectorAll('#people li').length, tobari.people.talking.size]";
        assert_eq!(ada.value(shown).await, json!(["", "Not connected", 0, 0]));
        let many = "for (let tick = 0; tick < 1000; tick++) tobari.alarm(`the server left your packet of tick ${tick} out`, 'omitted');";
        ada.value(many).await;
        let lines = "Array.from(document.querySelectorAll('#alarms p'), (line) => [line.dataset.kind, line.dataset.count, line.querySelector('span').textContent])";
        assert_eq!(ada.value(lines).await, json!([["omitted", "1000", "the server left your packet of tick 999 out"]]));
        ada.value("document.querySelector('#alarms button').click()").await;
        assert_eq!(ada.value(lines).await, json!([]));
    });
}
