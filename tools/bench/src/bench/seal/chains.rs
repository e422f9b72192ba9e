//! Bare AES-CBC encryption on one core: 256 messages under one key, each with its own IV. Our
//! messages run side by side, and one after another. OpenSSL's single stream is measured with the
//! start of each message (IV and padding), and without it, as `openssl speed` does. Then the
//! operations without chains: CBC decryption and AES-256-GCM, one message after another.

use super::super::line::{Line, summary};
use super::super::show;
use super::super::table::{Table, number};
use super::SealBench;
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use std::time::Instant;
use tobari_aes::{AesKernels, CbcMessage, encrypt_cbc_in_lanes, padded_bytes};
use tobari_command::output::{self, Failure};
use tobari_host::files;
use tobari_seal::Gcm;
use tobari_seal_files::dispatch::RingGcm;

const MESSAGES: usize = 256;
const SIZES: [usize; 8] = [16, 64, 256, 1024, 2048, 4096, 8192, 16_384];
/// Batches of a round; the least time counts.
const BATCHES: usize = 40;

#[derive(Clone, Serialize, Deserialize)]
struct Params {
    bytes: usize,
    key_bits: usize,
    messages: usize,
    chains: String,
}

/// One way to encrypt all messages.
type Work<'a> = (&'static str, &'static str, Box<dyn FnMut() -> Result<(), Failure> + 'a>);

pub(super) fn run(arguments: &SealBench) -> Result<ExitCode, Failure> {
    let sizes: &[usize] = if arguments.quick { &[64, 1024] } else { &SIZES };
    let columns = ["key bits", "bytes", "engine", "chains", "GB/s, median", "least", "most", "times one chain"];
    let mut table = Table::new("AES-CBC encryption on one core", &columns);
    for key_bytes in [16, 24, 32] {
        for bytes in sizes {
            let lines = measure(key_bytes, *bytes, arguments.runs)?;
            // The slowest stream is last: OpenSSL's if it is built in, else our single chain.
            let base = lines.last().map_or(1.0, |line| line.median);
            for line in &lines {
                let params = &line.params;
                table.push(vec![
                    params.key_bits.to_string(),
                    params.bytes.to_string(),
                    line.engine.clone(),
                    params.chains.clone(),
                    number(Some(line.median), 2),
                    number(Some(line.min), 2),
                    number(Some(line.max), 2),
                    number(Some(line.median / base), 2),
                ]);
                if arguments.json {
                    output::json(line)?;
                }
            }
        }
    }
    let without = without_chains(arguments, sizes)?;
    show(&table, arguments.json);
    show(&without, arguments.json);
    if let Some(folder) = &arguments.output {
        std::fs::create_dir_all(folder)?;
        files::write_atomically(&folder.join("chains.csv"), table.csv().as_bytes())?;
        files::write_atomically(&folder.join("without-chains.csv"), without.csv().as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// CBC decryption with keys of all lengths, and GCM: ours beside OpenSSL's, if it is built in.
fn without_chains(arguments: &SealBench, sizes: &[usize]) -> Result<Table, Failure> {
    let columns = ["what", "key bits", "bytes", "engine", "GB/s, median", "least", "most", "times the last"];
    let mut table = Table::new("AES-CBC decryption and AES-256-GCM on one core", &columns);
    for (what, key_bytes) in [("cbc back", 16), ("cbc back", 24), ("cbc back", 32), ("gcm", 32)] {
        for bytes in sizes {
            let lines = match what {
                "gcm" => measure_gcm(*bytes, arguments.runs)?,
                _ => measure_back(key_bytes, *bytes, arguments.runs)?,
            };
            let base = lines.last().map_or(1.0, |line| line.median);
            for line in &lines {
                table.push(vec![
                    what.to_owned(),
                    line.params.key_bits.to_string(),
                    bytes.to_string(),
                    line.engine.clone(),
                    number(Some(line.median), 2),
                    number(Some(line.min), 2),
                    number(Some(line.max), 2),
                    number(Some(line.median / base), 2),
                ]);
                if arguments.json {
                    output::json(line)?;
                }
            }
        }
    }
    Ok(table)
}

/// Decrypts whole blocks under one key, without a check of the result.
fn measure_back(key_bytes: usize, bytes: usize, runs: u16) -> Result<Vec<Line<Params>>, Failure> {
    let (kernels, secret) = (AesKernels::best(), vec![7; key_bytes]);
    let key = kernels.key(&secret)?;
    let ivs: Vec<[u8; 16]> = (0..MESSAGES).map(|at| [at as u8; 16]).collect();
    let texts: Vec<Vec<u8>> = (0..MESSAGES).map(|at| vec![at as u8; bytes]).collect();
    let mut rooms = texts.clone();
    let ours = || {
        for ((text, iv), room) in texts.iter().zip(&ivs).zip(&mut rooms) {
            key.decrypt_cbc(iv, text, room)?;
        }
        Ok(())
    };
    let mut ways: Vec<Work<'_>> = vec![("tobari", "none", Box::new(ours))];
    add_openssl_back(&mut ways, &secret, &ivs, &texts);
    timed("cbc-back", ways, &Params { bytes, key_bits: 8 * key_bytes, messages: MESSAGES, chains: String::new() }, runs)
}

/// GCM in place, each message from its key and nonce, with 32 bytes of associated data like a
/// chunk.
fn measure_gcm(bytes: usize, runs: u16) -> Result<Vec<Line<Params>>, Failure> {
    let mut texts: Vec<Vec<u8>> = (0..MESSAGES).map(|at| vec![at as u8; bytes]).collect();
    let mut theirs = texts.clone();
    let ours = || {
        for (at, text) in texts.iter_mut().enumerate() {
            std::hint::black_box(RingGcm.seal(&[7; 32], &[at as u8; 12], &[1; 32], text));
        }
        Ok(())
    };
    let mut ways: Vec<Work<'_>> = vec![("ring", "none", Box::new(ours))];
    add_openssl_gcm(&mut ways, &mut theirs);
    timed("gcm", ways, &Params { bytes, key_bits: 256, messages: MESSAGES, chains: String::new() }, runs)
}

/// Every way in turn, round after round.
fn measure(key_bytes: usize, bytes: usize, runs: u16) -> Result<Vec<Line<Params>>, Failure> {
    let (kernels, secret) = (AesKernels::best(), vec![7; key_bytes]);
    let key = kernels.key(&secret)?;
    let ivs: Vec<[u8; 16]> = (0..MESSAGES).map(|at| [at as u8; 16]).collect();
    let texts: Vec<Vec<u8>> = (0..MESSAGES).map(|at| vec![at as u8; bytes]).collect();
    let ours = |lanes: Option<usize>| {
        let mut room: Vec<Vec<u8>> = texts.iter().map(|text| vec![0; padded_bytes(text.len())]).collect();
        let (key, ivs, texts) = (&key, &ivs, &texts);
        move || {
            let all = texts.iter().zip(ivs).zip(&mut room);
            let messages = all.map(|((text, iv), room)| CbcMessage::new(key, iv, text, room));
            let mut messages = messages.collect::<Result<Vec<_>, _>>()?;
            encrypt_cbc_in_lanes(&mut messages, |kernels| lanes.unwrap_or_else(|| kernels.lanes(bytes)));
            Ok(())
        }
    };
    let mut ways: Vec<Work<'_>> =
        vec![("tobari", "side by side", Box::new(ours(None))), ("tobari", "one", Box::new(ours(Some(1))))];
    add_openssl(&mut ways, &secret, &ivs, &texts);
    timed("cbc", ways, &Params { bytes, key_bits: 8 * key_bytes, messages: MESSAGES, chains: String::new() }, runs)
}

/// Round after round, each way in turn.
fn timed(what: &str, mut ways: Vec<Work<'_>>, params: &Params, runs: u16) -> Result<Vec<Line<Params>>, Failure> {
    let kernels = AesKernels::best();
    let mut rates: Vec<Vec<f64>> = ways.iter().map(|_| Vec::new()).collect();
    for _ in 0..runs {
        for ((_, _, work), rates) in ways.iter_mut().zip(&mut rates) {
            let mut least = f64::INFINITY;
            for _ in 0..BATCHES {
                let began = Instant::now();
                work()?;
                least = least.min(began.elapsed().as_nanos() as f64);
            }
            rates.push((MESSAGES * params.bytes) as f64 / least);
        }
    }
    let line = |((engine, chains, _), rates): (Work<'_>, Vec<f64>)| {
        let runs = rates.len();
        let (median, min, max) = summary(rates);
        let ours = engine == "tobari";
        Line {
            job: "seal".to_owned(),
            what: what.to_owned(),
            engine: engine.to_owned(),
            params: Params { chains: chains.to_owned(), ..params.clone() },
            backend: if ours { kernels.name } else { "" }.to_owned(),
            threads: 1,
            unit: "GB/s".to_owned(),
            median,
            min,
            max,
            runs,
            labels: Vec::new(),
        }
    };
    Ok(ways.into_iter().zip(rates).map(line).collect())
}

#[cfg(not(feature = "openssl"))]
fn add_openssl_back(_: &mut Vec<Work<'_>>, _: &[u8], _: &[[u8; 16]], _: &[Vec<u8>]) {}

#[cfg(feature = "openssl")]
fn add_openssl_back<'a>(ways: &mut Vec<Work<'a>>, key: &[u8], ivs: &'a [[u8; 16]], texts: &'a [Vec<u8>]) {
    let longest = texts.iter().map(Vec::len).max().unwrap_or(0);
    let Some(mut cbc) = tobari_seal_files::dispatch::OpensslCbc::for_decryption(key) else { return };
    let mut room = vec![0; longest + 32];
    let work = move || {
        let mut both = texts.iter().zip(ivs);
        both.try_for_each(|(text, iv)| cbc.decrypt(iv, text, &mut room).map(drop)).ok_or_else(openssl_failed)
    };
    ways.push(("openssl", "none", Box::new(work)));
}

#[cfg(not(feature = "openssl"))]
fn add_openssl_gcm<'a>(_: &mut Vec<Work<'a>>, _: &'a mut [Vec<u8>]) {}

#[cfg(feature = "openssl")]
fn add_openssl_gcm<'a>(ways: &mut Vec<Work<'a>>, texts: &'a mut [Vec<u8>]) {
    let Some(mut gcm) = tobari_seal_files::dispatch::OpensslGcmContext::new() else { return };
    let work = move || {
        for (at, text) in texts.iter_mut().enumerate() {
            let tag = gcm.seal(&[7; 32], &[at as u8; 12], &[1; 32], text).ok_or_else(openssl_failed)?;
            std::hint::black_box(tag);
        }
        Ok(())
    };
    ways.push(("openssl", "none", Box::new(work)));
}

#[cfg(feature = "openssl")]
fn openssl_failed() -> Failure {
    Failure::Work("expected OpenSSL to encrypt and decrypt, found that it did not".to_owned())
}

#[cfg(not(feature = "openssl"))]
fn add_openssl(_: &mut Vec<Work<'_>>, _: &[u8], _: &[[u8; 16]], _: &[Vec<u8>]) {}

#[cfg(feature = "openssl")]
fn add_openssl<'a>(ways: &mut Vec<Work<'a>>, key: &[u8], ivs: &'a [[u8; 16]], texts: &'a [Vec<u8>]) {
    use tobari_seal_files::dispatch::OpensslCbc;
    let longest = texts.iter().map(Vec::len).max().unwrap_or(0);
    for (chains, starts) in [("one, with starts", true), ("one, without starts", false)] {
        let (Some(mut cbc), mut room) = (OpensslCbc::new(key), vec![0; longest + 32]) else { return };
        let work = move || {
            for (text, iv) in texts.iter().zip(ivs) {
                let done = if starts { cbc.encrypt(iv, text, &mut room) } else { cbc.go_on(text, &mut room) };
                done.ok_or_else(openssl_failed)?;
            }
            Ok(())
        };
        ways.push(("openssl", chains, Box::new(work)));
    }
}
