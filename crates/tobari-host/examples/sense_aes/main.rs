//! AES-128 under BGV on this machine: frames of devices, encrypted with AES, are decrypted by a blind server within a limit of memory. Prints seconds and memory by round and by kind of step.
//!
//!     cargo run --release -p tobari-host --example sense_aes -- [--secure] [--blocks 16] [--memory-gib 10] [--tier FOLDER] [--probes] [--insecure-degree N]
//!
//! With `--probes` every round is compared with AES, by the secret key. A small degree protects nothing: it is for a look at the program.

#![allow(clippy::print_stdout, reason = "an example that reports")]

#[path = "../../../tobari-device/tests/flash/mod.rs"]
mod flash;
mod measured;
mod world;

use measured::{Measured, costs};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use tobari_apps::engine::BgvEngine;
use tobari_apps::sense::aes::{Chain, Circuit, Input, Layout, program};
use tobari_core::simd::RingKernels;
use tobari_host::memory::{self, Large};
use tobari_host::run::{self, Options};
use tobari_host::store::{self, Blocks, DiskStore, Folder, Store};
use tobari_plan::check::Requirements;
use tobari_plan::plan::{bytes, plan};
use tobari_plan::program::Kind;
use tobari_plan::site::Site;
use world::World;

#[global_allocator]
static ALLOCATOR: Large = Large::new();

type Failure = Box<dyn std::error::Error>;

/// What a step takes besides values, in rows: the forms of a round in three parts each, and digits, products and quotients of a switch of keys.
const SCRATCH_ROWS: u64 = 3 * 8 * 56 + 600;

struct Arguments {
    blocks: usize,
    memory: u64,
    tier: PathBuf,
    probes: bool,
    insecure: Option<usize>,
}

/// What runs when nothing is asked for: seconds, and no security.
const INSECURE_DEGREE: usize = 2048;

fn arguments() -> Result<Arguments, Failure> {
    let mut found = Arguments {
        blocks: 16,
        memory: 10 << 30,
        tier: std::env::temp_dir(),
        probes: false,
        insecure: Some(INSECURE_DEGREE),
    };
    let mut all = std::env::args().skip(1);
    while let Some(name) = all.next() {
        if name == "--probes" {
            found.probes = true;
            continue;
        }
        if name == "--secure" {
            found.insecure = None;
            continue;
        }
        let value = all.next().ok_or_else(|| format!("expected a value after {name}, found none"))?;
        match name.as_str() {
            "--blocks" => found.blocks = value.parse()?,
            "--memory-gib" => found.memory = (value.parse::<f64>()? * (1u64 << 30) as f64) as u64,
            "--tier" => found.tier = value.into(),
            "--insecure-degree" => found.insecure = Some(value.parse()?),
            _ => return Err(format!("expected an option, found {name}").into()),
        }
    }
    Ok(found)
}

fn main() -> Result<(), Failure> {
    let arguments = arguments()?;
    let chain = Chain::new()?;
    let parameters = match arguments.insecure {
        Some(degree) => chain.insecure_test_parameters(degree)?,
        None => chain.parameters()?,
    };
    let degree = parameters.degree();
    match parameters.security() {
        Some(security) => println!("{parameters:?}: {} bits of security", security.bits()),
        None => println!("{parameters:?}: NO SECURITY, a test of the program"),
    }
    let layout = Layout::new(degree).ok_or("expected slots for a block, found too few")?;
    let circuit = Circuit::new(chain, layout);
    let circuit = if arguments.probes { circuit.with_probes() } else { circuit };
    let mut world = World::new(&parameters, circuit, arguments.blocks)?;
    let engine = BgvEngine::new(&parameters, None, &mut world::rng(1))?;
    let (program, inputs) = program::record(&engine, &world.circuit)?;
    println!("{} blocks of {} places, {} steps", arguments.blocks, layout.blocks(), program.steps().len());
    world.uploads(&engine, &inputs)?;

    let largest = program.values().map(|value| program.shape(value).raw).max().unwrap_or(0);
    let moving = 2 * (largest + 4096) + (32 << 20);
    let base = memory::resident().map_or(64 << 20, |[now, _]| now);
    let besides = base + moving + memory::IDLE as u64 + (64 << 20) + SCRATCH_ROWS * 8 * degree as u64;
    let values = arguments.memory.checked_sub(besides).ok_or("expected more memory than one step takes")?;
    let folder = Folder { path: arguments.tier.clone(), quota_bytes: None };
    let costs = costs(&engine, &world, store::measure(&folder, 2.0)?)?;
    let planned = plan(program, Site::blind("this machine", 1, values), &costs)?;
    println!("{}", planned.explain(&costs));
    let checked = planned.check(&Requirements::default())?;

    let mut disk = match checked.plan().inputs_stored {
        true => Some(DiskStore::open(&store::Options { folders: vec![folder], ..store::Options::in_folder("") })?),
        false => None,
    };
    let cancel = AtomicBool::new(false);
    let blocks = Blocks::new(usize::try_from(moving)?);
    let options = Options { threads: 1, blocks, observer: &|_| {}, cancel: &cancel };
    let measured = Measured::new(engine, &world.circuit);
    let report = measured.report();
    let started = Instant::now();
    let mut made = 0;
    let input = |value: tobari_plan::program::Value| {
        made += 1;
        if made % 16 == 0 {
            println!("{made} of {} inputs, {:.0} s", inputs.len(), started.elapsed().as_secs_f64());
        }
        world.input(inputs[value.index()]).map_err(|error| error.to_string())
    };
    let store = disk.as_mut().map(|disk| disk as &mut dyn Store);
    let finished = run::run(measured, &checked, input, store, &options)?;
    println!("backend {}, one thread that computes", RingKernels::best().name);
    report.print();
    let progress = finished.status.progress;
    println!(
        "run: {:.1} s, {:.1} s of waiting, {} read, {} written",
        finished.status.seconds,
        finished.status.idle,
        bytes(progress.read),
        bytes(progress.written)
    );
    if let Some([_, peak]) = memory::resident() {
        println!("process: {} at most, keys and inputs included", bytes(peak));
    }
    let per_second = (16 * arguments.blocks) as f64 / finished.status.seconds;
    println!(
        "{per_second:.1} bytes a second for this batch, {:.1} for a full one",
        per_second * layout.blocks() as f64 / arguments.blocks as f64
    );
    world.check(&finished.outputs)?;
    Ok(())
}

/// Whether an input is a key.
fn is_key(input: Input) -> bool {
    matches!(input, Input::Rotation { .. } | Input::Relinearization { .. })
}

/// Kinds whose speed to and from the tier is measured.
const KINDS: [Kind; 2] = [Kind::Encrypted, Kind::Key];
