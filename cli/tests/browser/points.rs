//! A room of points (mode `elgamal-shared`), seen by a page.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::json;
use tokio::time::sleep;

use super::{
    SLOW_US, alarms, busy, clip, enter, link, not_run, run_in_real_time, sees, signature_us,
    sound::{find, loud},
    support::Server,
    tap,
};

/// A thread that is busy for more percent of the time has no time left.
const FULL_THREAD: f64 = 90.0;

fn share_of_a_core(figures: &serde_json::Value) -> f64 {
    figures["busy"].as_str().unwrap().parse().unwrap()
}

/// A speaking page sends 320 points every 20 ms and decrypts as many: at most 4.3 Mbit/s up and
/// down. The test prints the share of a core. There is only one page, because two shared cores are
/// too slow for two.
#[test]
#[ignore = "needs a browser: cargo xtask test --only browser"]
fn a_page_in_a_room_of_points_sends_and_opens_what_it_should_within_the_bits_that_it_may_take() {
    const NAME: &str = "a_page_in_a_room_of_points_sends_and_opens_what_it_should_within_the_bits_that_it_may_take";
    run_in_real_time(NAME, || async {
        let server = Server::start(&[]);
        let (link, _) = link(&server, &["--mode", "elgamal-shared"]);
        let mut ada = enter("alice.wav", &link, "Ada").await;
        sees(&mut ada, 1).await;
        sleep(Duration::from_secs(5)).await; // until the buffers have their length
        let _ = tap(&mut ada).await;
        busy(&mut ada, &json!({ "mode": "elgamal-shared", "speakers": 1 })).await;
        let (said, heard, _) = tap(&mut ada).await;
        let figures = ada.value("({...document.getElementById('figures').dataset})").await;
        println!("figures of elgamal-shared: {figures}");
        assert!(said.seconds() > 5.0 && heard.seconds() > 5.0, "a packet every 20 ms, and as much is played");
        let sums = ada.value("parseInt(document.getElementById('fig-sums').textContent)").await;
        let (sums, busy) = (sums.as_u64().unwrap(), share_of_a_core(&figures));
        // one thread of a page decrypts, so a slow core is full while the other is idle
        if sums <= 40 && busy > FULL_THREAD && signature_us() > SLOW_US {
            let why = format!("{sums} sums a second fill {busy:.0} % of the page's core");
            return not_run(NAME, &format!("too slow for real time: {why}"));
        }
        assert!(sums > 40, "{sums} sums a second are opened, with {busy:.0} % of a core");
        for way in ["up", "down"] {
            let bits: f64 = figures[way].as_str().unwrap().parse().unwrap();
            assert!((3_000_000.0..=4_300_000.0).contains(&bits), "{way}: {bits} bits a second");
        }
        assert_eq!((alarms(&mut ada).await, &ada.complaints), (vec![], &vec![]));
    });
}

/// A page and a command line, which takes less of the cores than a second page.
#[test]
#[ignore = "needs a browser: cargo xtask test --only browser"]
fn a_page_and_a_command_line_hear_each_other_in_a_room_of_points() {
    run_in_real_time("a_page_and_a_command_line_hear_each_other_in_a_room_of_points", || async {
        let server = Server::start(&[]);
        let (link, _) = link(&server, &["--mode", "elgamal-shared"]);
        let mut ada = enter("alice.wav", &link, "Ada").await;
        sees(&mut ada, 1).await;
        let folder = tempfile::tempdir().unwrap();
        let (spoken, there) = (clip("bob.wav"), folder.path().join("heard.wav"));
        let words = ["call", "join", &link, "--in", spoken.to_str().unwrap(), "--out", there.to_str().unwrap()];
        let mut bo = Command::new(env!("CARGO_BIN_EXE_tobari"))
            .args(words)
            .args(["--seconds", "14"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        sees(&mut ada, 2).await;
        let _ = tap(&mut ada).await;
        sleep(Duration::from_secs(10)).await;
        let (said, ear, _) = tap(&mut ada).await;
        assert!(tokio::task::spawn_blocking(move || bo.wait()).await.unwrap().unwrap().success());
        let track = |path: &std::path::Path| -> Vec<f64> {
            tobari_call_files::wav::read_speech(path).unwrap().iter().map(|sample| f64::from(*sample)).collect()
        };
        for (who, voice, ear) in
            [("Ada hears Bo", &track(&spoken), &ear.samples), ("Bo hears Ada", &said.samples, &track(&there))]
        {
            let stretches: Vec<&[f64]> = voice.chunks_exact(3200).filter(|stretch| loud(stretch)).take(12).collect();
            let found = stretches.iter().filter(|stretch| find(stretch, ear).1 > 0.9).count();
            println!("{who}: {found} of {} stretches", stretches.len());
            assert!(stretches.len() >= 6 && 2 * found > stretches.len(), "{who}: {found} of {}", stretches.len());
        }
        assert_eq!((alarms(&mut ada).await, &ada.complaints), (vec![], &vec![]));
    });
}
