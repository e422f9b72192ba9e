//! `tobari call mix`: the mix is exactly the plain sum, and inputs that cannot be mixed are
//! rejected by name.

use crate::support::{Server, exact_samples, noise, record, stderr, tobari};
use std::path::{Path, PathBuf};
use tempfile::tempdir;

/// The plain sum, written again: ten lines that share nothing with the program.
fn plain_sum(speakers: &[Vec<i16>]) -> Vec<i32> {
    let longest = speakers.iter().map(Vec::len).max().unwrap();
    let mut sum = vec![0; longest];
    for speaker in speakers {
        for (i, sample) in speaker.iter().enumerate() {
            sum[i] += i32::from(*sample);
        }
    }
    sum
}

/// Mixes with `--exact`, and compares with the plain sum.
fn mixes_exactly(folder: &Path, speakers: &[Vec<i16>], args: &[&str]) {
    let inputs: Vec<PathBuf> =
        speakers.iter().enumerate().map(|(i, speaker)| record(folder, &format!("{i}.wav"), speaker)).collect();
    let output = folder.join("mix.wav");
    let mut all = vec!["call", "mix", "--exact", "-o", output.to_str().unwrap()];
    all.extend(args);
    all.extend(inputs.iter().map(|input| input.to_str().unwrap()));
    let done = tobari(&all);
    assert!(done.status.success(), "{args:?}: {}", stderr(&done));
    assert!(exact_samples(&output) == plain_sum(speakers), "{args:?}: not the plain sum");
}

#[cfg(feature = "paper")]
const PAPER_CURVES: [&str; 10] = [
    "secp160k1",
    "p160_1",
    "secp192k1",
    "secp224k1",
    "secp256k1",
    "secp384r1",
    "NIST_P192",
    "NIST_P224",
    "NIST_P256",
    "NIST_P384",
];

#[test]
#[cfg(feature = "paper")]
fn two_speakers_of_different_length_mix_exactly_on_every_curve() {
    let folder = tempdir().unwrap();
    for curve in PAPER_CURVES {
        let speakers = [noise(1, 700), noise(2, 321)];
        mixes_exactly(folder.path(), &speakers, &["--insecure-paper", "--curve", curve]);
    }
}

#[test]
#[cfg(feature = "paper")]
fn eight_speakers_at_full_scale_and_in_silence_mix_exactly_on_every_curve() {
    let folder = tempdir().unwrap();
    for curve in PAPER_CURVES {
        // all at -32768, all at 32767, all silent, then noise: one packet each
        let speech = |seed| [vec![i16::MIN; 320], vec![i16::MAX; 320], vec![0; 320], noise(seed, 320)].concat();
        let speakers: Vec<_> = (0..8).map(speech).collect();
        mixes_exactly(folder.path(), &speakers, &["--insecure-paper", "--curve", curve]);
    }
}

#[test]
#[cfg(feature = "paper")]
fn sixty_four_speakers_mix_exactly_on_every_curve() {
    let folder = tempdir().unwrap();
    for curve in PAPER_CURVES {
        let speakers: Vec<_> = (0..64).map(|seed| [noise(seed, 100), vec![i16::MIN; 220]].concat()).collect();
        mixes_exactly(folder.path(), &speakers, &["--insecure-paper", "--curve", curve]);
    }
}

#[test]
#[cfg(feature = "paper")]
fn two_and_eight_speakers_mix_exactly_in_mode_elgamal_shared_on_every_curve() {
    let folder = tempdir().unwrap();
    for curve in PAPER_CURVES {
        let args = ["--mode", "elgamal-shared", "--insecure-paper", "--curve", curve];
        mixes_exactly(folder.path(), &[noise(1, 700), noise(2, 321)], &args);
        // all at -32768, all at 32767, all silent, then noise: one packet each
        let speech = |seed| [vec![i16::MIN; 320], vec![i16::MAX; 320], vec![0; 320], noise(seed, 320)].concat();
        mixes_exactly(folder.path(), &(0..8).map(speech).collect::<Vec<_>>(), &args);
    }
}

#[test]
fn both_modes_give_the_same_mix_for_half_the_bytes_and_name_themselves() {
    let folder = tempdir().unwrap();
    let inputs = [record(folder.path(), "a.wav", &noise(18, 2_000)), record(folder.path(), "b.wav", &noise(19, 1_500))];
    let mix = |mode: &[&str], json: &[&str]| {
        let output = folder.path().join("mix.wav");
        let [a, b] = inputs.each_ref().map(|input| input.to_str().unwrap());
        let done = tobari(&[&["call", "mix", a, b, "-o", output.to_str().unwrap()], mode, json].concat());
        assert!(done.status.success(), "{}", stderr(&done));
        (std::fs::read(&output).unwrap(), done)
    };
    let line = |done: &std::process::Output| serde_json::from_slice::<serde_json::Value>(&done.stdout).unwrap();
    let (usual, done) = mix(&[], &["--json"]);
    let usual_line = line(&done);
    let (shared, done) = mix(&["--mode", "elgamal-shared"], &["--json"]);
    let shared_line = line(&done);
    assert!(usual == shared, "the recordings differ");
    assert_eq!([&usual_line["mode"], &shared_line["mode"]], [&"elgamal", &"elgamal-shared"]);
    let bytes = [&usual_line, &shared_line].map(|line| line["server_saw_bytes"].as_u64().unwrap());
    // 7 and 5 packets of 320 samples: a head of 20 bytes each, and points of 64 bytes
    assert_eq!(bytes, [12 * (20 + 64 * 640), 12 * (20 + 64 * 321)]);
    let (_, done) = mix(&["--mode", "elgamal-shared"], &[]);
    assert!(stderr(&done).contains("in mode elgamal-shared"), "{}", stderr(&done));
}

#[test]
fn one_speaker_comes_back_as_it_was() {
    let folder = tempdir().unwrap();
    mixes_exactly(folder.path(), &[noise(3, 1)], &[]);
    mixes_exactly(folder.path(), &[noise(4, 5_000)], &["--points", "compressed"]);
}

#[test]
fn sums_beyond_16_bits_are_limited_not_wrapped() {
    let folder = tempdir().unwrap();
    let loud = record(folder.path(), "loud.wav", &[30_000, -30_000, 5, 32_767]);
    let (loud, output) = (loud.to_str().unwrap(), folder.path().join("mix.wav"));
    let done = tobari(&["call", "mix", loud, loud, "-o", output.to_str().unwrap(), "--json"]);
    assert!(done.status.success(), "{}", stderr(&done));
    assert_eq!(tobari_call_files::wav::read_speech(&output).unwrap(), [32_767, -32_768, 10, 32_767]);
    let line: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((&line["limited_samples"], &line["speakers"]), (&3.into(), &2.into()));
}

#[test]
fn a_server_started_by_hand_mixes_too_in_the_clear_and_over_tls() {
    let folder = tempdir().unwrap();
    let speakers = [noise(5, 1_000), noise(6, 900), noise(7, 10)];
    let server = Server::start(&[]);
    mixes_exactly(folder.path(), &speakers, &["--server", &server.url]);
    mixes_exactly(folder.path(), &speakers, &["--server", &server.url, "--mode", "elgamal-shared"]);
    let server = Server::start(&["--tls-self-signed"]);
    assert!(server.url.starts_with("https://"));
    let fingerprint = server.fingerprint.clone().unwrap();
    let over_tls = ["--server", &server.url, "--tls-fingerprint", &fingerprint];
    mixes_exactly(folder.path(), &speakers, &over_tls);
    mixes_exactly(folder.path(), &speakers, &[&over_tls[..], &["--mode", "elgamal-shared"]].concat());
}

#[test]
fn a_server_with_another_certificate_is_not_trusted() {
    let folder = tempdir().unwrap();
    let input = record(folder.path(), "a.wav", &noise(8, 320));
    let server = Server::start(&["--tls-self-signed"]);
    let output = folder.path().join("mix.wav");
    let args = ["call", "mix", input.to_str().unwrap(), "-o", output.to_str().unwrap(), "--server", &server.url];
    let wrong = "00".repeat(32);
    for trust in [vec![], vec!["--tls-fingerprint", wrong.as_str()]] {
        let refused = tobari(&[args.as_slice(), &trust].concat());
        assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
        assert!(!output.exists(), "no output is left behind");
    }
}

#[test]
fn whom_to_trust_is_not_ignored_without_tls() {
    let folder = tempdir().unwrap();
    let input = record(folder.path(), "a.wav", &noise(16, 320));
    let server = Server::start(&[]);
    let output = folder.path().join("mix.wav");
    let args = ["call", "mix", input.to_str().unwrap(), "-o", output.to_str().unwrap(), "--server", &server.url];
    let refused = tobari(&[args.as_slice(), &["--tls-fingerprint", &"00".repeat(32)]].concat());
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("https") && !output.exists(), "{}", stderr(&refused));
}

#[test]
fn too_many_recordings_and_an_output_without_a_folder_are_refused_before_the_work() {
    let folder = tempdir().unwrap();
    let input = record(folder.path(), "a.wav", &noise(17, 10));
    let (input, output) = (input.to_str().unwrap(), folder.path().join("mix.wav"));
    let crowd = [vec!["call", "mix", "-o", output.to_str().unwrap()], vec![input; 4096]].concat();
    let refused = tobari(&crowd);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("4095"), "{}", stderr(&refused));
    let nowhere = folder.path().join("no/such/folder/mix.wav");
    let refused = tobari(&["call", "mix", input, "-o", nowhere.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("folder"), "{}", stderr(&refused));
}

#[test]
#[cfg(feature = "paper")]
fn a_server_refuses_weak_curves_unless_started_for_the_paper() {
    let folder = tempdir().unwrap();
    let input = record(folder.path(), "a.wav", &noise(9, 320));
    let (input, output) = (input.to_str().unwrap(), folder.path().join("mix.wav"));
    let server = Server::start(&[]);
    let mut args = vec!["call", "mix", input, "-o", output.to_str().unwrap(), "--server", &server.url];
    args.extend(["--curve", "secp160k1", "--insecure-paper"]);
    let refused = tobari(&args);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("secp160k1"), "{}", stderr(&refused));
}

#[test]
#[cfg(feature = "paper")]
fn weak_curves_are_a_wrong_call_without_the_flag_and_warn_with_it() {
    let folder = tempdir().unwrap();
    let input = record(folder.path(), "a.wav", &noise(10, 320));
    let (input, output) = (input.to_str().unwrap(), folder.path().join("mix.wav"));
    let args = ["call", "mix", input, "-o", output.to_str().unwrap(), "--curve", "NIST_P192"];
    let refused = tobari(&args);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("96 bits") && stderr(&refused).contains("--insecure-paper"));
    let done = tobari(&[args.as_slice(), &["--insecure-paper"]].concat());
    assert!(done.status.success() && stderr(&done).contains("warning"), "{}", stderr(&done));
}

#[test]
fn a_bad_recording_is_named_and_leaves_no_output() {
    let folder = tempdir().unwrap();
    let good = record(folder.path(), "good.wav", &noise(11, 320));
    let whole = std::fs::read(&good).unwrap();
    let lying = [&whole[..40], &[0xff, 0xff, 0, 0], &whole[44..]].concat();
    let bad: [(&str, &[u8]); 4] =
        [("empty.wav", &[]), ("text.wav", b"this is no recording"), ("cut.wav", &whole[..200]), ("lying.wav", &lying)];
    let output = folder.path().join("mix.wav");
    for (name, bytes) in bad {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let inputs = [good.to_str().unwrap(), path.to_str().unwrap()];
        let refused = tobari(&["call", "mix", inputs[0], inputs[1], "-o", output.to_str().unwrap()]);
        assert_eq!(refused.status.code(), Some(1), "{name}");
        assert!(stderr(&refused).contains(name), "{}", stderr(&refused));
        assert!(!output.exists(), "{name}");
    }
}

#[test]
fn an_input_is_not_overwritten() {
    let folder = tempdir().unwrap();
    let input = record(folder.path(), "a.wav", &noise(12, 320));
    let before = std::fs::read(&input).unwrap();
    let path = input.to_str().unwrap();
    let refused = tobari(&["call", "mix", path, "-o", path]);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(std::fs::read(&input).unwrap(), before);
}

#[test]
fn keys_are_made_once_used_and_checked() {
    let folder = tempdir().unwrap();
    let key = folder.path().join("k");
    let key = key.to_str().unwrap();
    let made = tobari(&["call", "keygen", "-o", key, "--curve", "NIST_P256"]);
    assert!(made.status.success(), "{}", stderr(&made));
    let bytes = std::fs::read(key).unwrap();
    assert_eq!(tobari(&["call", "keygen", "-o", key]).status.code(), Some(1), "keys are not overwritten");
    assert_eq!(std::fs::read(key).unwrap(), bytes);
    mixes_exactly(folder.path(), &[noise(13, 400), noise(14, 400)], &["--key", key]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let mut damaged = bytes.clone();
    damaged[20] ^= 1;
    let damaged_path = folder.path().join("damaged");
    std::fs::write(&damaged_path, damaged).unwrap();
    let (input, output) = (folder.path().join("0.wav"), folder.path().join("never.wav"));
    let args = ["call", "mix", input.to_str().unwrap(), "-o", output.to_str().unwrap(), "--key"];
    let refused = tobari(&[args.as_slice(), &[damaged_path.to_str().unwrap()]].concat());
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("damaged"), "{}", stderr(&refused));
    let public = format!("{key}.pub");
    let refused = tobari(&[args.as_slice(), &[public.as_str()]].concat());
    assert_eq!(refused.status.code(), Some(1), "a public key decrypts nothing");
    assert!(!output.exists());
}

#[test]
fn a_key_of_mode_elgamal_shared_is_one_file_that_brings_its_mode_along() {
    let folder = tempdir().unwrap();
    let key = folder.path().join("k");
    let key = key.to_str().unwrap();
    let keygen = ["call", "keygen", "-o", key, "--mode", "elgamal-shared", "--curve", "NIST_P256", "--json"];
    let made = tobari(&keygen);
    assert!(made.status.success(), "{}", stderr(&made));
    let line: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    assert_eq!((&line["mode"], line.get("public_key")), (&"elgamal-shared".into(), None));
    assert!(!Path::new(&format!("{key}.pub")).exists());
    let bytes = std::fs::read(key).unwrap();
    assert_eq!(tobari(&keygen).status.code(), Some(1), "keys are not overwritten");
    assert_eq!(std::fs::read(key).unwrap(), bytes);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
    }
    mixes_exactly(folder.path(), &[noise(20, 400), noise(21, 400)], &["--key", key]);
    mixes_exactly(folder.path(), &[noise(22, 400)], &["--key", key, "--mode", "elgamal-shared"]);
    let (input, output) = (folder.path().join("0.wav"), folder.path().join("never.wav"));
    let args = ["call", "mix", input.to_str().unwrap(), "-o", output.to_str().unwrap(), "--key"];
    let refused = tobari(&[&args[..], &[key, "--mode", "elgamal"]].concat());
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("key of mode elgamal-shared"), "{}", stderr(&refused));
    let damaged = folder.path().join("damaged");
    for (change, said) in [(bytes.len() - 1, "truncated"), (bytes.len(), "damaged")] {
        let mut bytes = bytes[..change].to_vec();
        bytes[20] ^= 1;
        std::fs::write(&damaged, bytes).unwrap();
        let refused = tobari(&[&args[..], &[damaged.to_str().unwrap()]].concat());
        assert_eq!(refused.status.code(), Some(1));
        assert!(stderr(&refused).contains(said), "{}", stderr(&refused));
    }
    assert!(!output.exists());
}

#[test]
fn a_server_that_is_not_there_is_an_error_not_a_hang() {
    let folder = tempdir().unwrap();
    let input = record(folder.path(), "a.wav", &noise(15, 320));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let output = folder.path().join("mix.wav");
    let refused =
        tobari(&["call", "mix", input.to_str().unwrap(), "-o", output.to_str().unwrap(), "--server", url.as_str()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(!output.exists());
}
