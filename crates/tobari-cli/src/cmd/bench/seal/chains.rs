//! AES-CBC encryption on one core, without anything around it: 256 messages under one key, each with an IV of its own; ours side by side and one after another, and OpenSSL's single stream, with the
//! start of each message (IV and padding) and without, as `openssl speed` counts.

use super::super::line::{Line, summary};
use super::super::show;
use super::super::table::{Table, number};
use super::SealBench;
use crate::output::{self, Failure};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use std::time::Instant;
use tobari_core::simd::aes::{AesKernels, CbcMessage, encrypt_cbc_in_lanes, padded_bytes};
use tobari_host::files;

const MESSAGES: usize = 256;
const SIZES: [usize; 8] = [16, 64, 256, 1024, 2048, 4096, 8192, 16_384];
/// Batches of a round; its least time counts.
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
    for key_bytes in [16, 32] {
        for bytes in sizes {
            let lines = measure(key_bytes, *bytes, arguments.runs)?;
            // The slowest stream is last: OpenSSL's where it is built in, else one chain of ours.
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
    show(&table, arguments.json);
    if let Some(folder) = &arguments.output {
        std::fs::create_dir_all(folder)?;
        files::write_atomically(&folder.join("chains.csv"), table.csv().as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
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
    let mut rates: Vec<Vec<f64>> = ways.iter().map(|_| Vec::new()).collect();
    for _ in 0..runs {
        for ((_, _, work), rates) in ways.iter_mut().zip(&mut rates) {
            let mut least = f64::INFINITY;
            for _ in 0..BATCHES {
                let began = Instant::now();
                work()?;
                least = least.min(began.elapsed().as_nanos() as f64);
            }
            rates.push((MESSAGES * bytes) as f64 / least);
        }
    }
    let line = |((engine, chains, _), rates): (Work<'_>, Vec<f64>)| {
        let runs = rates.len();
        let (median, min, max) = summary(rates);
        let ours = engine == "tobari";
        Line {
            job: "seal".to_owned(),
            what: "cbc".to_owned(),
            engine: engine.to_owned(),
            params: Params { bytes, key_bits: 8 * key_bytes, messages: MESSAGES, chains: chains.to_owned() },
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
fn add_openssl(_: &mut Vec<Work<'_>>, _: &[u8], _: &[[u8; 16]], _: &[Vec<u8>]) {}

#[cfg(feature = "openssl")]
fn add_openssl<'a>(ways: &mut Vec<Work<'a>>, key: &[u8], ivs: &'a [[u8; 16]], texts: &'a [Vec<u8>]) {
    use tobari_host::dispatch::OpensslCbc;
    let failed = || Failure::Work("expected OpenSSL to encrypt, found that it did not".to_owned());
    let longest = texts.iter().map(Vec::len).max().unwrap_or(0);
    for (chains, starts) in [("one, with starts", true), ("one, without starts", false)] {
        let (Some(mut cbc), mut room) = (OpensslCbc::new(key), vec![0; longest + 32]) else { return };
        let work = move || {
            for (text, iv) in texts.iter().zip(ivs) {
                let done = if starts { cbc.encrypt(iv, text, &mut room) } else { cbc.go_on(text, &mut room) };
                done.ok_or_else(failed)?;
            }
            Ok(())
        };
        ways.push(("openssl", chains, Box::new(work)));
    }
}
