//! One fleet on the disk: its bundle, objects, orders and frames.
//!
//! ```text
//!   FOLDER/{fleet}/bundle.json        from the key holder: MAC keys, seats, names of objects
//!                                     (mode 0600)
//!   FOLDER/{fleet}/objects/{hash}     secrets under encryption, keys that decrypt nothing
//!   FOLDER/{fleet}/orders/{id}.json   questions
//!   FOLDER/{fleet}/frames.redb        frames, and the counters that came
//!   FOLDER/passing/{fleet}/…          the same for a temporary fleet (super::passing)
//!   FOLDER/unregistered/…             messages of a broker for fleets that are not registered
//!                                     (super::kept)
//!   FOLDER/mqtt-client                the server's name at its broker (super::identity)
//! ```

use super::windows::Windows;
use super::{
    SenseError,
    commit::{self, Batch, Counts, Outcome},
    found::WindowFrames,
    private_folder,
};
use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};
use tobari_device::{DeviceNumber, MacKey, Profile};
use tobari_engine::EngineError;
use tobari_host::files::{FileError, read_bounded, write_atomically, write_secret};
use tobari_host::job::{self, JobError, Limits};
use tobari_host::storage::Trouble;
use tobari_lattice::bgv::{EvaluationKeys, SeededCiphertext};
use tobari_lattice::wire;
use tobari_node::disk::try_folder;
use tobari_octets::{hex, sha256, unhex, unhex_lower};
use tobari_sense::ProfileName;
use tobari_sense::bundle::{Bundle, MAX_BUNDLE, MAX_OBJECT};
use tobari_sense::cloud::{Cloud, CloudError, Material, Wanted, tally_of};
use tobari_sense::ingest::{Gate, IngestCounts};
use tobari_sense::order::{Order, Seat, Windows as Times};
use tobari_sense::program::Input;
use tobari_sense::server::Batch as Laid;
use tobari_sense::setting::{Setting, key_name};
use tobari_sense::with_profile;
use tobari_sense_files::{CACHE_BYTES, CLOCK_STEP_MS, FrameStore, StoreError};
use tokio::sync::{mpsc, oneshot};
use zeroize::Zeroizing;

/// Largest size of an order in bytes.
pub(super) const MAX_ORDER: usize = 1 << 26;
/// The largest number of orders of a fleet.
const MAX_ORDERS: usize = 1024;
/// The part of the memory limit for a window's frames: an eighth.
const FRAMES_PART: u64 = 8;

/// Bytes of memory for pages of one fleet's store: the 256th part of a question's memory limit, but
/// at least 256 KiB and at most [`CACHE_BYTES`]. The limit includes one store, that of the
/// question; each further open fleet takes as much in addition.
pub(super) fn pages(memory: Option<u64>) -> usize {
    let within = |memory: u64| usize::try_from(memory / 256).unwrap_or(CACHE_BYTES).clamp(1 << 18, CACHE_BYTES);
    memory.map_or(CACHE_BYTES, within)
}

/// Bytes of memory for a question's values: the limit without the frames and the pages of the
/// store. Limits below about 300 KiB leave nothing.
fn for_values(memory: u64) -> u64 {
    memory.saturating_sub(memory / FRAMES_PART).saturating_sub(pages(Some(memory)) as u64)
}

/// The data of a fleet from its bundle.
pub(super) struct Known {
    pub(super) bundle: Bundle,
    /// SHA-256 of the bundle's bytes.
    pub(super) hash: [u8; 32],
    pub(super) gate: Gate,
    seats: Vec<Seat>,
    writer: mpsc::Sender<Batch>,
}

/// One fleet of the server.
pub(super) struct Fleet {
    folder: PathBuf,
    known: RwLock<Option<Arc<Known>>>,
    orders: Mutex<BTreeMap<String, Order>>,
    store: Arc<FrameStore>,
    windows: Arc<Windows>,
    pub(super) counts: Arc<Counts>,
    /// Tables for questions, made for the first question.
    cloud: Mutex<Option<Arc<Cloud>>>,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum AnswerError {
    #[error(transparent)]
    Cloud(#[from] CloudError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Job(#[from] Box<JobError<EngineError>>),
    #[error("this window needs --sense-memory {needed}, and the limit is {limit}: raise it, or use shorter windows")]
    Memory {
        /// The bytes needed.
        needed: u64,
        /// The bytes allowed.
        limit: u64,
    },
    #[error(
        "frames of this window were removed before its result was fetched (--sense-days), so it has no right result: \
         keep frames longer, or fetch results sooner"
    )]
    Removed,
    #[error("a fault of the server")]
    Fault,
}

impl Fleet {
    /// Opens or makes a fleet's folder.
    pub(super) fn open(folder: &Path, pages: usize) -> Result<Self, SenseError> {
        Self::with_store(folder, |path| FrameStore::open_within(path, pages))
    }

    /// Opens a fleet's folder at a start. If the disk fails, the fleet's frames are unavailable,
    /// but the server starts.
    pub(super) fn take_up(folder: &Path, pages: usize) -> Result<Self, SenseError> {
        Self::with_store(folder, |path| FrameStore::open_when_it_can(path, pages))
    }

    fn with_store(
        folder: &Path,
        open: impl FnOnce(&Path) -> Result<FrameStore, StoreError>,
    ) -> Result<Self, SenseError> {
        for folder in [folder.to_owned(), folder.join("objects"), folder.join("orders")] {
            private_folder(&folder).map_err(|error| SenseError::system(&folder, &error))?;
        }
        let store = Arc::new(open(&folder.join("frames.redb"))?);
        let counts = Arc::new(Counts::default());
        counts.lock().stored = match store.frames() {
            Ok(frames) => frames,
            // counted when the store can be read
            Err(_) if store.trouble().is_some() => 0,
            Err(error) => return Err(error.into()),
        };
        let fleet = Self {
            folder: folder.to_owned(),
            known: RwLock::default(),
            orders: Mutex::default(),
            store,
            windows: Arc::default(),
            counts,
            cloud: Mutex::default(),
        };
        let path = folder.join("bundle.json");
        if path.exists() {
            let fault = |error: &dyn std::fmt::Display| SenseError::file(&path, error);
            let bytes = Zeroizing::new(read_bounded(&path, MAX_BUNDLE as u64).map_err(|error| fault(&error))?);
            let bundle = Bundle::decode(&bytes).map_err(|error| fault(&error))?;
            fleet.know(bundle, sha256(&bytes))?;
        }
        fleet.take_up_orders()?;
        Ok(fleet)
    }

    fn take_up_orders(&self) -> Result<(), SenseError> {
        let folder = self.folder.join("orders");
        let fault = |error| SenseError::file(&folder, error);
        for entry in fs::read_dir(&folder).map_err(fault)? {
            let path = entry.map_err(fault)?.path();
            let id = path.file_stem().and_then(|stem| stem.to_str()).filter(|id| is_id(id)).map(str::to_owned);
            let Some(id) = id.filter(|_| path.extension().is_some_and(|extension| extension == "json")) else {
                continue;
            };
            let bytes = read_bounded(&path, MAX_ORDER as u64).map_err(|error| SenseError::file(&path, error))?;
            let order: Order = serde_json::from_slice(&bytes).map_err(|error| SenseError::file(&path, error))?;
            order.check().map_err(|error| SenseError::file(&path, error))?;
            self.windows.add(&id, &order);
            self.orders().insert(id, order);
        }
        Ok(())
    }

    fn orders(&self) -> MutexGuard<'_, BTreeMap<String, Order>> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The trouble with the storage of its frames.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        self.store.trouble()
    }

    /// Opens the store of its frames again if it is closed and the storage works.
    pub(super) fn recover(&self) {
        // a store may open if its file has room, even if the disk has none: the next batch would
        // fail
        let works = || try_folder(&self.folder).is_ok() && self.store.recover();
        if self.trouble().is_none() || !works() {
            return;
        }
        tracing::info!("a store of frames is open again");
        // an empty batch makes the writer read the history; if the queue is full, the next batch
        // does
        let (answer, _) = oneshot::channel();
        if let Some(known) = self.known() {
            let _ = known.writer.try_send(Batch { frames: Vec::new(), checked: Vec::new(), came_ms: None, answer });
        }
    }

    /// The number of frames dated ahead of the clock: the clock was wrong when they arrived. 0
    /// while the store is closed.
    pub(super) fn frames_ahead(&self, now_ms: u64) -> u64 {
        self.store.frames_from(now_ms.saturating_add(CLOCK_STEP_MS)).unwrap_or(0)
    }

    /// The data from its bundle, if there is one.
    pub(super) fn known(&self) -> Option<Arc<Known>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn know(&self, bundle: Bundle, hash: [u8; 32]) -> Result<(), SenseError> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let writer = match known.as_ref() {
            Some(known) => known.writer.clone(),
            None => {
                let (store, counts) = (Arc::clone(&self.store), Arc::clone(&self.counts));
                commit::start(bundle.profile, store, counts, Arc::clone(&self.windows))?
            }
        };
        let devices = bundle.keys_of_devices();
        let gate = Gate::new(bundle.profile, devices.iter().map(|(number, key, takes)| (*number, key, *takes)));
        let seats = bundle.seats();
        *known = Some(Arc::new(Known { bundle, hash, gate, seats, writer }));
        Ok(())
    }

    /// Accepts a bundle if all its objects exist, and otherwise names a missing one. Removes
    /// objects that the bundle does not name.
    pub(super) fn take_bundle(&self, bundle: Bundle, bytes: &[u8]) -> Result<Result<(), String>, SenseError> {
        if self.known().is_some_and(|known| known.bundle.profile != bundle.profile) {
            return Ok(Err("the fleet's profile".to_owned()));
        }
        let names = bundle.objects();
        if let Some(missing) = names.iter().find(|name| !self.has_object(name)) {
            return Ok(Err(format!("the object {missing}, to be sent first")));
        }
        let path = self.folder.join("bundle.json");
        let write = if path.exists() { write_atomically(&path, bytes) } else { write_secret(&path, bytes) };
        write.map_err(|error| SenseError::disk(&path, &error))?;
        let names: HashSet<String> = names.into_iter().map(str::to_owned).collect();
        self.know(bundle, sha256(bytes))?;
        self.sweep(&names);
        Ok(Ok(()))
    }

    /// Removes objects without a name in the bundle; after an error an object stays until the next
    /// time.
    fn sweep(&self, names: &HashSet<String>) {
        for entry in fs::read_dir(self.folder.join("objects")).into_iter().flatten().flatten() {
            let name = entry.file_name();
            // a file with any other name is still being written
            let is_object = unhex::<32>(&name.to_string_lossy()).is_some();
            if is_object && !names.contains(&*name.to_string_lossy()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Whether an object with this name exists; the name is a hash.
    pub(super) fn has_object(&self, name: &str) -> bool {
        self.object(name).is_file()
    }

    fn object(&self, name: &str) -> PathBuf {
        self.folder.join("objects").join(name)
    }

    /// Writes an object under its hash.
    pub(super) fn keep_object(&self, hash: &[u8; 32], bytes: &[u8]) -> Result<(), FileError> {
        write_atomically(&self.object(&hex(hash)), bytes)
    }

    /// Keeps an order. Returns false if there is no room, or another order has its name.
    pub(super) fn keep_order(&self, id: &str, order: Order, bytes: &[u8]) -> Result<bool, FileError> {
        let mut orders = self.orders();
        match orders.get(id) {
            Some(known) => return Ok(*known == order),
            None if orders.len() >= MAX_ORDERS => return Ok(false),
            None => {}
        }
        write_atomically(&self.folder.join("orders").join(id).with_extension("json"), bytes)?;
        self.windows.add(id, &order);
        orders.insert(id.to_owned(), order);
        Ok(true)
    }

    /// Removes an order. Returns whether it existed.
    pub(super) fn forget_order(&self, id: &str) -> bool {
        let _ = fs::remove_file(self.folder.join("orders").join(id).with_extension("json"));
        self.windows.remove(id);
        self.orders().remove(id).is_some()
    }

    /// The order with this name.
    pub(super) fn order(&self, id: &str) -> Option<Order> {
        self.orders().get(id).cloned()
    }

    /// The names and windows of its orders, as JSON.
    pub(super) fn orders_told(&self) -> Vec<serde_json::Value> {
        let orders = self.orders();
        let told = |(id, order): (&String, &Order)| {
            let devices: usize = order.groups.iter().map(Vec::len).sum();
            serde_json::json!({ "id": id, "length_ms": order.length_ms, "every_ms": order.every_ms, "devices": devices, "least_devices": order.least_devices })
        };
        orders.iter().map(told).collect()
    }

    /// Splits a body into frames and checks each. Returns the frames that their devices made, for
    /// storage, and the counts of rejected frames.
    pub(super) fn check(known: &Known, body: &[u8]) -> (Vec<u8>, Vec<tobari_sense::ingest::Checked>, IngestCounts) {
        let each = known.gate.frame_bytes();
        let (mut frames, mut checked, mut counts) =
            (Vec::with_capacity(body.len()), Vec::new(), IngestCounts::default());
        for frame in body.chunks(each) {
            match known.gate.check(frame) {
                Ok(one) => {
                    frames.extend_from_slice(frame);
                    checked.push(one);
                }
                Err(verdict) => counts.count(verdict),
            }
        }
        (frames, checked, counts)
    }

    /// Queues checked frames for storage, in the order of calls, and returns the channel of their
    /// result. `came_ms` is the time of arrival of frames that waited elsewhere. `None` if the
    /// writer has stopped.
    pub(super) async fn queue(
        known: &Known,
        frames: Vec<u8>,
        checked: Vec<tobari_sense::ingest::Checked>,
        came_ms: Option<u64>,
    ) -> Option<oneshot::Receiver<Outcome>> {
        let (answer, stored) = oneshot::channel();
        known.writer.send(Batch { frames, checked, came_ms, answer }).await.ok()?;
        Some(stored)
    }

    /// The beginnings of an order's windows that are closed, have frames and were not fetched.
    pub(super) fn windows(&self, id: &str, now_ms: u64) -> Result<Vec<u64>, StoreError> {
        self.windows.open(&self.store, id, now_ms)
    }

    /// Records that a window's results were fetched.
    pub(super) fn note_done(&self, id: &str, start_ms: u64) -> Result<(), StoreError> {
        self.store.note_done(id, start_ms)?;
        self.windows.note_done(id, start_ms);
        Ok(())
    }

    /// Removes frames from before a time. Also returns how many of them no result had: a window of
    /// theirs was not fetched.
    pub(super) fn remove_before(&self, before_ms: u64) -> Result<(u64, u64), StoreError> {
        let orders: Vec<_> = self.orders().iter().map(|(id, order)| (id.clone(), order.windows())).collect();
        let mut lost = 0;
        let removed = self.store.remove_before(before_ms, |time_ms, frames| {
            let is_done = |id: &str, start| self.store.is_done(id, start).unwrap_or(false);
            let waits = |(id, windows): &(String, Times)| windows.of(time_ms).any(|start| !is_done(id, start));
            lost += if orders.iter().any(waits) { frames } else { 0 };
        })?;
        // in version 2 an old frame may still come
        for (id, order) in self.orders().iter().filter(|(_, order)| !order.profile.is_stamped()) {
            self.store.forget_done(id, before_ms.saturating_sub(order.length_ms))?;
        }
        let mut counts = self.counts.lock();
        counts.stored -= removed.min(counts.stored);
        counts.lost += lost;
        Ok((removed, lost))
    }

    /// Removes a device's frames.
    pub(super) fn remove_device(&self, known: &Known, number: u32) -> Result<u64, StoreError> {
        let profile = known.bundle.profile;
        let gone = |frame: &[u8]| profile.peek(frame).is_ok_and(|head| head.device.value() == number);
        let removed = self.store.remove_frames(profile.frame_bytes(), gone)?;
        let mut counts = self.counts.lock();
        counts.stored -= removed.min(counts.stored);
        Ok(removed)
    }

    /// The results of an order for the window that begins at `start_ms`.
    pub(super) fn answer(
        &self,
        known: &Known,
        (id, order): (&str, &Order),
        start_ms: u64,
        memory: Option<u64>,
    ) -> Result<Vec<u8>, AnswerError> {
        // frames that are stored from now on may be missing in the results
        self.windows.note_computed(id, start_ms);
        let lost = || self.store.has_lost(start_ms, order.windows().end(start_ms));
        if lost()? {
            return Err(AnswerError::Removed);
        }
        let answer = with_profile!(known.bundle.profile, P => self.answer_for::<P>(known, order, start_ms, memory))?;
        // frames may have been removed meanwhile
        if lost()? { Err(AnswerError::Removed) } else { Ok(answer) }
    }

    fn answer_for<P: Profile>(
        &self,
        known: &Known,
        order: &Order,
        start_ms: u64,
        memory: Option<u64>,
    ) -> Result<Vec<u8>, AnswerError> {
        let mut seed = Zeroizing::new([0; 32]);
        getrandom::fill(seed.as_mut()).map_err(|_| AnswerError::Fault)?;
        let mut rng = ChaCha20Rng::from_seed(*seed);
        let cloud = self.cloud(known.bundle.profile, &mut rng)?;
        let keys: BTreeMap<DeviceNumber, MacKey<P>> = {
            let wanted = order.devices();
            let devices = known.bundle.keys_of_devices();
            let asked = devices.iter().filter(|device| wanted.contains(&device.0.value()));
            asked.map(|(number, key, _)| (*number, MacKey::from_bytes(key))).collect()
        };
        // without a limit all batches stay in memory
        let part = memory.map_or(u64::MAX, |memory| memory / FRAMES_PART);
        let window = start_ms..order.windows().end(start_ms);
        let found = WindowFrames::of(&self.store, &keys, (window, order.sheet), order.frames, part)?;
        if found.bytes() > part {
            return Err(AnswerError::Memory { needed: found.bytes() * FRAMES_PART, limit: memory.unwrap_or(u64::MAX) });
        }
        let tally = tally_of(order, &known.seats, found.counts());
        let prepared = cloud.prepare_counted(order, &known.seats, tally, part - found.bytes())?;
        let memory = memory.map(for_values);
        let (setting, bundle) = (cloud.setting(), &known.bundle);
        let mut objects = Objects { fleet: self, bundle, setting, keys: &keys, found: &found, fault: None };
        let (limits, mut missing) = (Limits { memory, threads: 1, tier: self.folder.clone() }, None);
        let input =
            |value| cloud.input(&prepared, &mut objects, value).map_err(|error| missing.insert(error).to_string());
        let finished = job::within(cloud.engine_for_a_run(&mut rng), prepared.program().clone(), input, &limits);
        if let Some(fault) = objects.fault {
            return Err(fault.into());
        }
        if let Some(missing) = missing {
            return Err(missing.into());
        }
        Ok(prepared.message(&finished.map_err(Box::new)?.outputs)?)
    }

    fn cloud(&self, profile: ProfileName, rng: &mut ChaCha20Rng) -> Result<Arc<Cloud>, AnswerError> {
        let mut cloud = self.cloud.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cloud) = cloud.as_ref() {
            return Ok(Arc::clone(cloud));
        }
        let setting = Setting::of(profile).map_err(|_| AnswerError::Fault)?;
        let made = Arc::new(Cloud::new(setting, rng).map_err(CloudError::from)?);
        *cloud = Some(Arc::clone(&made));
        Ok(made)
    }
}

/// Whether the text is an order's name: 16 hexadecimal digits.
pub(super) fn is_id(id: &str) -> bool {
    unhex_lower::<8>(id).is_some()
}

/// The key holder's objects, and frames, both read when they are needed.
struct Objects<'a, P: Profile> {
    fleet: &'a Fleet,
    bundle: &'a Bundle,
    setting: &'a Setting,
    keys: &'a BTreeMap<DeviceNumber, MacKey<P>>,
    found: &'a WindowFrames,
    /// The error if frames could not be read.
    fault: Option<StoreError>,
}

impl<P: Profile> Objects<'_, P> {
    fn read(&self, name: &str) -> Option<Vec<u8>> {
        read_bounded(&self.fleet.object(name), MAX_OBJECT as u64).ok()
    }
}

impl<P: Profile> Material for Objects<'_, P> {
    fn secret(&mut self, cohort: usize, i: usize) -> Option<SeededCiphertext> {
        let bytes = self.read(self.bundle.cohorts.get(cohort)?.get(i)?)?;
        wire::decode_seeded_ciphertext(wire::without_identity(&bytes).ok()?, &self.setting.parameters).ok()
    }

    fn key(&mut self, input: Input) -> Option<Arc<EvaluationKeys>> {
        let bytes = self.read(self.bundle.keys.get(&key_name(input)?)?)?;
        wire::decode_evaluation_keys(wire::without_identity(&bytes).ok()?, &self.setting.parameters).ok().map(Arc::new)
    }

    fn fill(&mut self, batch: &mut Laid, wanted: &[Wanted]) -> Option<()> {
        match self.found.fill(&self.fleet.store, self.keys, batch, wanted) {
            Ok(all) => all.then_some(()),
            Err(fault) => {
                self.fault = Some(fault);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn fault_15_a_small_limit_of_memory_leaves_nothing_for_values_and_is_no_panic() {
        for memory in [0, 1, 7, 4096, 1 << 18, 299_000] {
            assert_eq!(for_values(memory), 0, "{memory}");
        }
        assert_eq!(for_values(1 << 20), (1 << 20) - (1 << 17) - (1 << 18));
        assert_eq!(for_values(64 << 20), (56 << 20) - (1 << 18));
        assert_eq!(for_values(1 << 40), (1 << 40) - (1 << 37) - (64 << 20));
    }
}
