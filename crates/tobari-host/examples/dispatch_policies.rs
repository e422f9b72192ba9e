//! Every policy on 4,000 chunks of one length, with one CPU worker and one emulated module: `cargo run --release -p tobari-host --example dispatch_policies`.
//!
//! Least of three runs each. The module is a second CPU core: ratios say something, absolute speeds do not. Chunks are made beforehand and results are dropped; the suite is
//! AES-256-CBC with HMAC, of which the module does the AES.

#![allow(clippy::print_stdout, reason = "prints a table")]

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
mod linux {
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
    use std::error::Error;
    use std::time::Instant;
    use tobari_apps::seal::{Chunk, Kind, Layout, Meta, Sealing, SetKey, Stanza, Stanzas, Suite};
    use tobari_host::dispatch::{Emulated, EmulatedEngine, EmulatedOptions, MODULE_VERB, Options, Pool, run_module};
    use tobari_plan::dispatch::Policy;

    const COUNT: usize = 4000;

    fn chunks(bytes: usize) -> Result<Vec<Chunk>, Box<dyn Error>> {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let set = SetKey::random(&mut rng);
        let stanzas = Stanzas::new(vec![Stanza::for_age(vec![1])?])?;
        let (layout, meta) = (Layout::new(Suite::CbcHmac), Meta::new(Kind::Stream, b"", 0));
        let mut chunks = Vec::new();
        for _ in 0..COUNT {
            let mut sealing = Sealing::begin(&set, &stanzas, layout, &meta, &mut rng)?.0;
            chunks.push(sealing.chunk(vec![7; bytes], true, &mut rng)?);
        }
        Ok(chunks)
    }

    /// Seconds, and the part that the module did.
    fn run(policy: Policy, bytes: usize, engine: EmulatedEngine, check: bool) -> Result<(f64, f64), Box<dyn Error>> {
        let options = EmulatedOptions { engine, core: Some(1), ..EmulatedOptions::default() };
        let modules: Vec<Box<dyn tobari_host::dispatch::Module>> = vec![Box::new(Emulated::start(&options)?)];
        let pool = Pool::start(Options { policy, cpu_workers: 1, modules, check, ..Options::new() })?;
        let (chunks, began) = (chunks(bytes)?, Instant::now());
        for (number, mut chunk) in chunks.into_iter().enumerate() {
            while let Err(again) = pool.submit(number as u64, chunk) {
                pool.wait().ok_or("expected a result, found none")?.1?;
                chunk = again;
            }
        }
        pool.close();
        while let Some((_, result)) = pool.wait() {
            result?;
        }
        let seconds = began.elapsed().as_secs_f64();
        let module = pool.report().last().map_or(0, |engine| engine.done.items);
        Ok((seconds, module as f64 / COUNT as f64))
    }

    pub(crate) fn main() -> Result<(), Box<dyn Error>> {
        if tobari_host::enclave::is_inside(MODULE_VERB) {
            run_module();
            return Ok(());
        }
        for check in [true, false] {
            println!("ms for {COUNT} chunks, and the module's part; answers checked: {check}; labels: emulated-module");
            for bytes in [64, 1024, 4096, 16_384] {
                print!("{bytes:6}");
                for policy in Policy::ALL {
                    let mut best = (f64::INFINITY, 0.0);
                    for _ in 0..3 {
                        let next = run(policy, bytes, EmulatedEngine::SideBySide, check)?;
                        best = if next.0 < best.0 { next } else { best };
                    }
                    print!("  {} {:.2} ({:.2})", policy.name(), best.0 * 1e3, best.1);
                }
                println!();
            }
        }
        Ok(())
    }
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    linux::main()
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))))]
fn main() {
    println!("NOT RUN: there is no emulated module on this system");
}
