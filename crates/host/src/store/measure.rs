//! Measures the speed of a folder's disk, with the store's transfers.

use super::{Blocks, Choice, DiskStore, Folder, Kind, Options, Store, StoreError};
use std::time::{Duration, Instant};

const REQUEST_BYTES: usize = 2 << 20;
const DEPTH: usize = 8;
const OBJECTS: u64 = 128;
const PAGE_BYTES: usize = 4096;
const PAGES: u64 = 64;

/// The result of [`measure`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Sequential reading, 8 requests of 2 MiB in flight.
    pub read_bytes_per_s: f64,
    /// Sequential writing, 8 requests of 2 MiB in flight. Nothing is flushed: a cache in the device
    /// counts as written.
    pub write_bytes_per_s: f64,
    /// The median time of one read of 4 KiB with nothing else in flight, from the call to the
    /// checked bytes.
    pub latency_s: f64,
    /// Whether the transfers bypassed the page cache. If not, this is the speed of memory.
    pub direct: bool,
    /// The engine of the transfers.
    pub engine: &'static str,
}

/// Writes up to 256 MiB to an unnamed file in the folder and reads them again, for `seconds_limit`
/// seconds at most, and never more than 3 s.
///
/// A slow disk or a small quota moves less. After the limit, requests in flight still complete. The
/// measurement takes 16 MiB of memory.
///
/// # Errors
///
/// Those of [`DiskStore`], such as [`StoreError::Full`] if less than 2 MiB are free.
pub fn measure(folder: &Folder, seconds_limit: f64) -> Result<Speed, StoreError> {
    measure_with(folder, seconds_limit, Choice::Auto)
}

/// [`measure`] with a given engine.
#[doc(hidden)]
pub fn measure_with(folder: &Folder, seconds_limit: f64, engine: Choice) -> Result<Speed, StoreError> {
    let seconds = if seconds_limit.is_finite() { seconds_limit.clamp(0.01, 3.0) } else { 3.0 };
    let share = |part: f64| Duration::from_secs_f64(seconds * part);
    let options = Options { folders: vec![folder.clone()], request_bytes: REQUEST_BYTES, depth: DEPTH, engine };
    let mut store = DiskStore::open(&options)?;
    let written = run(&mut store, Kind::Write, OBJECTS, share(0.45))?;
    let read = run(&mut store, Kind::Read, written.objects, share(0.45))?;
    let latency_s = latency(&mut store, share(0.1))?;
    Ok(Speed {
        read_bytes_per_s: read.bytes_per_s,
        write_bytes_per_s: written.bytes_per_s,
        latency_s,
        direct: store.direct(),
        engine: store.name(),
    })
}

struct Run {
    objects: u64,
    bytes_per_s: f64,
}

/// Transfers objects of one request each, `DEPTH` at once, until all are done or the time is up.
fn run(store: &mut DiskStore, kind: Kind, objects: u64, limit: Duration) -> Result<Run, StoreError> {
    let blocks = Blocks::new(DEPTH * REQUEST_BYTES);
    let mut idle = Vec::new();
    for _ in 0..DEPTH {
        // Touched before the measurement: a page's first use costs more than its transfer.
        let mut block = blocks.take(REQUEST_BYTES)?;
        block.fill(0x5A);
        idle.push(block);
    }
    let (start, mut started, mut ended) = (Instant::now(), 0, 0);
    loop {
        while started < objects
            && (started == 0 || start.elapsed() < limit)
            && let Some(block) = idle.pop()
        {
            let begun = match kind {
                Kind::Read => store.read(started, block),
                Kind::Write => store.write(started, block),
            };
            match begun {
                Ok(()) => started += 1,
                // A small disk is measured up to its size.
                Err(refused) if started > 0 && matches!(refused.error, StoreError::Full { .. }) => break,
                Err(refused) => return Err(refused.error),
            }
        }
        if ended == started {
            let bytes = ended as f64 * REQUEST_BYTES as f64;
            return Ok(Run { objects: ended, bytes_per_s: bytes / start.elapsed().as_secs_f64().max(1e-9) });
        }
        for completion in store.completed(true)? {
            completion.outcome?;
            ended += 1;
            idle.push(completion.block);
        }
    }
}

/// The median time of single reads of one page.
fn latency(store: &mut DiskStore, limit: Duration) -> Result<f64, StoreError> {
    let blocks = Blocks::new(2 << 20);
    // Frees space for them: this object is no longer needed.
    store.discard(0);
    let mut seconds = Vec::new();
    let start = Instant::now();
    for page in 0..PAGES {
        let object = OBJECTS + page;
        let mut block = blocks.take(PAGE_BYTES)?;
        block.fill(0xA5);
        store.write(object, block)?;
        for completion in store.completed(true)? {
            completion.outcome?;
        }
        let block = blocks.take(PAGE_BYTES)?;
        let before = Instant::now();
        store.read(object, block)?;
        for completion in store.completed(true)? {
            completion.outcome?;
        }
        seconds.push(before.elapsed().as_secs_f64());
        if start.elapsed() > limit {
            break;
        }
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[seconds.len() / 2])
}
