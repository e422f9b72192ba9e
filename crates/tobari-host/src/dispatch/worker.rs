//! The threads: one for each CPU worker, and one for each module, its driver.

use super::{Module, ModuleError, RingGcm, Shared};
use std::sync::Arc;
use std::time::Instant;
use tobari_apps::seal::{Chunk, SealError, process};
use tobari_plan::dispatch::Report;

/// Nanoseconds that this thread has computed.
pub(super) fn thread_cpu_ns(since: Instant) -> u64 {
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    {
        let _ = since;
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
    }
    #[cfg(not(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
    )))]
    {
        // No such clock that is the same everywhere: as if nobody else wanted the core.
        u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A stretch of work, as the clocks see it.
pub(super) struct Watch {
    wall: Instant,
    cpu: u64,
}

impl Watch {
    pub(super) fn start() -> Self {
        let wall = Instant::now();
        Self { wall, cpu: thread_cpu_ns(wall) }
    }

    /// Wall and CPU time, in nanoseconds.
    pub(super) fn stop(&self) -> (u64, u64) {
        let cpu = thread_cpu_ns(self.wall).saturating_sub(self.cpu);
        (u64::try_from(self.wall.elapsed().as_nanos()).unwrap_or(u64::MAX), cpu)
    }
}

fn borrowed(chunks: &[Arc<Chunk>]) -> Vec<&Chunk> {
    chunks.iter().map(AsRef::as_ref).collect()
}

pub(super) fn cpu(shared: &Shared, worker: usize) {
    let mut items = Vec::new();
    while let Some((batch, chunks)) = shared.next_batch(worker, &mut items) {
        let watch = Watch::start();
        let results = process(&borrowed(&chunks), &RingGcm);
        let (wall_ns, cpu_ns) = watch.stop();
        shared.publish(worker, batch, &items, results, Report { wall_ns, cpu_ns, wanted_ns: wall_ns });
    }
}

pub(super) fn module(shared: &Shared, worker: usize, mut module: Box<dyn Module>) {
    let mut items = Vec::new();
    while let Some((batch, chunks)) = shared.next_batch(worker, &mut items) {
        let watch = Watch::start();
        match hand_over(module.as_mut(), &borrowed(&chunks), shared.check) {
            Ok(results) => {
                let (wall_ns, cpu_ns) = watch.stop();
                shared.publish(worker, batch, &items, results, Report { wall_ns, cpu_ns, wanted_ns: cpu_ns });
            }
            Err(error) => {
                // First the buffers, then the news: whoever does the items again may need the memory.
                drop(chunks);
                return shared.lose(worker, error.to_string());
            }
        }
    }
}

/// Chunks with their places in a batch.
type Numbered<'a> = Vec<(usize, &'a Chunk)>;

/// Lets the module seal what it takes, checks, and does the rest here.
pub(super) fn hand_over(
    module: &mut dyn Module,
    chunks: &[&Chunk],
    check: bool,
) -> Result<Vec<Result<Vec<u8>, SealError>>, ModuleError> {
    let (taken, left): (Numbered<'_>, Numbered<'_>) =
        chunks.iter().copied().enumerate().partition(|(_, chunk)| chunk.seals() && module.takes(chunk));
    let mut results: Vec<Option<Result<Vec<u8>, SealError>>> = chunks.iter().map(|_| None).collect();
    if !taken.is_empty() {
        let handed: Vec<&Chunk> = taken.iter().map(|(_, chunk)| *chunk).collect();
        let answers = module.seal(&handed)?;
        if answers.len() != handed.len() {
            return Err(ModuleError::Malformed);
        }
        for ((at, chunk), answer) in taken.iter().zip(&answers) {
            let sealed = chunk.from_module(answer).map_err(|_| ModuleError::Malformed)?;
            if check && !chunk.check(&sealed, &RingGcm) {
                return Err(ModuleError::Wrong);
            }
            results[*at] = Some(Ok(sealed));
        }
    }
    let rest: Vec<&Chunk> = left.iter().map(|(_, chunk)| *chunk).collect();
    for ((at, _), result) in left.iter().zip(process(&rest, &RingGcm)) {
        results[*at] = Some(result);
    }
    results.into_iter().collect::<Option<_>>().ok_or(ModuleError::Malformed)
}
