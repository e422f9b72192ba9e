//! A room whose members agree on keys: two pages and a command, one set of words, and a member that
//! the host removes.

use std::{
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::Value;
use tokio::time::sleep;

use super::{
    alarms,
    devtools::Browser,
    enter, link, run, sees,
    sound::{Track, energy, find, heard},
    support::{Server, noise, record, stderr},
    tap,
};

/// Samples in 100 ms, and in one period of the command's noise bursts.
const STRETCH: usize = 1600;
const PERIOD: usize = 24_000;

/// Starts a member without a page, which stays for the given seconds.
fn command(link: &str, args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tobari"));
    command.args(["call", "join", "--json", "--unlevelled"]).args(args).env("TOBARI_CALL_LINK", link);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The words of the room and of the members, once the page shows the same words that it has
/// received.
async fn words(browser: &mut Browser) -> Value {
    let shown = "[document.querySelector('#words code').textContent, Array.from(document.querySelectorAll('[data-words]'), (one) => one.textContent).sort()]";
    let told = "[tobari.people.words, tobari.people.members.map((one) => one.words).sort()]";
    browser
        .until(&format!(
            "!document.getElementById('words').hidden && JSON.stringify({shown}) === JSON.stringify({told})"
        ))
        .await;
    browser.value(shown).await
}

/// Whether this stretch is heard.
fn is_found(stretch: &[f64], ear: &[f64]) -> bool {
    find(stretch, ear).1 > 0.9
}

#[test]
#[ignore = "needs a browser: cargo xtask test --only browser"]
fn pages_and_a_command_agree_on_keys_and_who_is_put_out_hears_nothing_more() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(&[]);
        let (link, host_link) = link(&server, &["--keys", "mls", "--host", "--speakers", "8"]);
        let mut ada = enter("alice.wav", &host_link.unwrap(), "Ada").await;
        let mut bo = enter("bob.wav", &link, "Bo").await;
        // one burst again and again, with pauses in which the others are heard alone
        let burst = noise(5, 4 * STRETCH).into_iter().map(|sample| sample / 3);
        let period: Vec<i16> = burst.chain(std::iter::repeat_n(0, PERIOD - 4 * STRETCH)).collect();
        let said = record(folder.path(), "bursts.wav", &period.repeat(20));
        let ear = folder.path().join("heard.wav");
        let (said, ear) = (said.to_str().unwrap(), ear.to_str().unwrap());
        let cy = command(&link, &["--name", "Cy", "--in", said, "--out", ear, "--seconds", "26"]);
        sees(&mut ada, 3).await;
        sees(&mut bo, 3).await;
        let of_three = words(&mut ada).await;
        assert_eq!(of_three, words(&mut bo).await);
        sleep(Duration::from_secs(3)).await; // the buffers find their length
        let _ = (tap(&mut ada).await, tap(&mut bo).await);
        sleep(Duration::from_secs(7)).await;
        let [(ada_said, ada_heard, _), (bo_said, bo_heard, _)] = [tap(&mut ada).await, tap(&mut bo).await];
        put_out(&mut ada, "Bo").await;
        bo.until("document.body.dataset.view === 'over'").await;
        sees(&mut ada, 2).await;
        let _ = (tap(&mut ada).await, tap(&mut bo).await);
        let of_two = words(&mut ada).await;
        assert_ne!(of_two[0], of_three[0], "the room's words change");
        sleep(Duration::from_secs(3)).await;
        let [(last_said, ..), (_, too_late, _)] = [tap(&mut ada).await, tap(&mut bo).await];
        assert!(too_late.samples.is_empty(), "nothing is heard any more");
        assert_eq!((alarms(&mut ada).await, &ada.complaints), (vec![], &vec![]));

        let cy = tokio::task::spawn_blocking(move || cy.wait_with_output().unwrap()).await.unwrap();
        assert!(cy.status.success(), "{}", stderr(&cy));
        let told = String::from_utf8(cy.stdout).unwrap();
        for (words, members) in [(&of_three, 3), (&of_two, 2)] {
            assert!(rosters(&told, members).contains(words), "the command tells the words of the pages: {told}");
        }
        let burst: Vec<f64> = period[STRETCH..2 * STRETCH].iter().map(|sample| f64::from(*sample)).collect();
        for (who, said, ear) in [("Bo hears Ada", &ada_said, &bo_heard), ("Ada hears Bo", &bo_said, &ada_heard)] {
            let voice = heard(said, ear);
            println!("{who}: {voice}");
            assert!(voice.found >= 5 && is_found(&burst, &ear.samples), "{who}, and the command: {voice}");
        }
        let ear = tobari_call_files::wav::read_speech(ear.as_ref()).unwrap();
        let ear: Vec<f64> = ear.iter().map(|sample| f64::from(*sample)).collect();
        let found = loud(&last_said).filter(|stretch| is_found(stretch, &ear)).count();
        assert!(found >= 2, "the command hears Ada, under the keys that Bo has not");
    });
}

async fn put_out(host: &mut Browser, name: &str) {
    let click = format!(
        "Array.from(document.querySelectorAll('#people li')).find((item) => item.querySelector('.name').textContent === '{name}').querySelector('[data-act=eject]').click()"
    );
    host.value(&click).await;
}

/// The words in the command's rosters of this many members, in the form of [`words`].
fn rosters(told: &str, members: usize) -> Vec<Value> {
    let lines = told.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let words = |line: Value| {
        let listed = line["members"].as_array().filter(|listed| listed.len() == members)?;
        let mut each: Vec<String> = listed.iter().map(|one| one["words"].as_str().unwrap().to_owned()).collect();
        each.sort();
        Some(serde_json::json!([line["words"], each]))
    };
    lines.filter_map(words).collect()
}

/// A few stretches with a voice in them.
fn loud(track: &Track) -> impl Iterator<Item = &[f64]> {
    let stretches = track.samples.chunks_exact(STRETCH);
    stretches.filter(|stretch| energy(stretch) / STRETCH as f64 > 1000.0 * 1000.0).take(4)
}
