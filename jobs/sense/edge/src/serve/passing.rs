//! Temporary fleets, for visitors of the page.
//!
//! A fleet that a key holder registers is permanent: it stays until its folder is removed. A fleet
//! of a visitor's tab must not stay. It **ends** when its tab says so, [`IDLE`] after the tab's
//! last request, and after [`LIFE`] at the latest. Its folder is then removed; a start of the
//! server removes leftovers.
//!
//! **The owner** has 32 random bytes of the tab (`Tobari-Passing`), and the server keeps their
//! SHA-256. The bytes decrypt nothing. Their holder may send this fleet's objects, questions and
//! windows, and end the fleet. A request that a browser sends to another origin without asking the
//! server first cannot have this header, so no other site's page can act for a visitor.
//!
//! **Limits on requests bound the resources of a fleet**: [`REQUESTS`] requests and [`BYTES`]
//! stored bytes, in messages of at most [`MESSAGE`] ([`OBJECT`] for objects), for [`PLACES`] fleets
//! at once, of which one address or token has a share. Frames are of U25 or U28, whose sums cost
//! the server milliseconds, and questions have few results ([`admits`]).

use super::{FleetName, SenseError, fleet::Fleet, private_folder};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use subtle::ConstantTimeEq;
use tobari_node::{clients::Origin, share::Share};
use tobari_octets::hex;
use tobari_sense::bundle::Bundle;
use tobari_sense::order::Order;

/// The largest number of temporary fleets at once.
pub(super) const PLACES: usize = 8;
/// A fleet ends after this time without a request of its tab.
pub(super) const IDLE: Duration = Duration::from_secs(120);
/// A fleet ends after this time in any case.
pub(super) const LIFE: Duration = Duration::from_secs(1800);
/// Requests of a fleet that store data or start a computation.
pub(super) const REQUESTS: u32 = 4096;
/// Stored bytes of a fleet, with its frames.
pub(super) const BYTES: u64 = 16 << 20;
/// Largest size in bytes of a bundle, an order or a batch of frames.
pub(super) const MESSAGE: usize = 1 << 16;
/// Largest size in bytes of an object. An evaluation key or a part of a cohort's secrets has a few
/// hundred thousand bytes.
pub(super) const OBJECT: usize = 1 << 20;
/// The largest number of devices of a fleet.
pub(super) const DEVICES: usize = 64;
/// The largest number of frames of a device in a window, and of groups of a question.
const FRAMES: u32 = 16;
const GROUPS: usize = 4;
/// The allowed lengths of windows and of the time between two, in milliseconds.
const WINDOW_MS: std::ops::RangeInclusive<u64> = 1_000..=3_600_000;
/// Bytes of an answer that the page shows.
const SAMPLE: usize = 840;

/// Whether a temporary fleet may have this bundle.
pub(super) fn admits(bundle: &Bundle) -> bool {
    bundle.profile.is_linear() && bundle.devices.len() <= DEVICES && bundle.objects().len() <= DEVICES
}

/// Whether a temporary fleet may have this order: few results, each of milliseconds.
pub(super) fn admits_order(order: &Order) -> bool {
    order.part.is_none()
        && order.bounds.is_empty()
        && order.groups.len() <= GROUPS
        && order.frames <= FRAMES
        && [order.length_ms, order.every_ms].iter().all(|ms| WINDOW_MS.contains(ms))
}

/// The traffic of a temporary fleet.
#[derive(Clone, Default)]
pub(super) struct Traffic {
    /// Requests that count.
    pub(super) requests: u32,
    /// Bytes that were stored.
    pub(super) up: u64,
    /// Bytes of answers.
    pub(super) down: u64,
    /// Bytes of objects.
    pub(super) objects: u64,
    /// Frames that were accepted.
    pub(super) frames: u64,
    /// The newest frame.
    pub(super) frame: Vec<u8>,
    /// The number of answers.
    pub(super) answers: u64,
    /// The last bytes of the newest answer, its length, and the beginning of its window.
    pub(super) answer: (Vec<u8>, usize, u64),
}

/// A temporary fleet.
pub(super) struct Visit {
    /// The fleet's stored data.
    pub(super) fleet: Arc<Fleet>,
    owner: [u8; 32],
    origin: Origin,
    began: Instant,
    touched: Mutex<Instant>,
    traffic: Mutex<Traffic>,
}

impl Visit {
    fn touched(&self) -> MutexGuard<'_, Instant> {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The traffic so far.
    pub(super) fn traffic(&self) -> MutexGuard<'_, Traffic> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.began) >= LIFE || now.duration_since(*self.touched()) >= IDLE
    }

    /// The longest time that is left.
    pub(super) fn left(&self, now: Instant) -> Duration {
        LIFE.saturating_sub(now.duration_since(self.began))
    }

    /// Counts a request that stores this many bytes. Returns whether there was room for it.
    pub(super) fn charge(&self, bytes: usize) -> bool {
        let mut traffic = self.traffic();
        let fits = traffic.requests < REQUESTS && traffic.up.saturating_add(bytes as u64) <= BYTES;
        if fits {
            traffic.requests += 1;
            traffic.up += bytes as u64;
        }
        fits
    }

    /// Whether there is room for a batch of this many bytes; only its accepted frames will count.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        let traffic = self.traffic();
        traffic.requests < REQUESTS && traffic.up.saturating_add(bytes as u64) <= BYTES
    }

    /// Records an answer.
    pub(super) fn answered(&self, start_ms: u64, bytes: &[u8]) {
        let mut traffic = self.traffic();
        traffic.answers += 1;
        traffic.down += bytes.len() as u64;
        // the beginning has devices and counts; the rest is the ciphertext
        traffic.answer = (bytes[bytes.len().saturating_sub(SAMPLE)..].to_vec(), bytes.len(), start_ms);
    }
}

/// The result of a request for a place.
pub(super) enum Begun {
    /// The fleet exists.
    Visit(Arc<Visit>),
    /// The name belongs to another visitor.
    Taken,
    /// There is no room.
    Full,
}

/// All temporary fleets.
pub(super) struct Passing {
    folder: PathBuf,
    /// The share of one address or token in the places.
    share: Share,
    /// Bytes of memory for pages of a fleet's store.
    pages: usize,
    visits: Mutex<BTreeMap<FleetName, Arc<Visit>>>,
}

impl Passing {
    /// Opens a separate folder, and removes the data of an earlier run from it.
    pub(super) fn open(folder: &Path, share: Share, pages: usize) -> std::io::Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        private_folder(folder)?;
        Ok(Self { folder: folder.to_owned(), share, pages, visits: Mutex::default() })
    }

    fn visits(&self) -> MutexGuard<'_, BTreeMap<FleetName, Arc<Visit>>> {
        self.visits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A fleet that has not ended.
    pub(super) fn find(&self, name: &FleetName, now: Instant) -> Option<Arc<Visit>> {
        self.visits().get(name).filter(|visit| !visit.is_over(now)).cloned()
    }

    /// The fleet with this name, for the holder of its secret. The idle time starts again.
    pub(super) fn owned(&self, name: &FleetName, owner: &[u8; 32], now: Instant) -> Option<Arc<Visit>> {
        let visit = self.find(name, now).filter(|visit| bool::from(visit.owner.ct_eq(owner)))?;
        *visit.touched() = now;
        Some(visit)
    }

    /// All temporary fleets.
    pub(super) fn fleets(&self) -> Vec<Arc<Fleet>> {
        self.visits().values().map(|visit| Arc::clone(&visit.fleet)).collect()
    }

    /// The number of free places.
    pub(super) fn room(&self, now: Instant) -> usize {
        PLACES.saturating_sub(self.visits().values().filter(|visit| !visit.is_over(now)).count())
    }

    /// The fleet with this name. A new one is made if there is none and there is room.
    pub(super) fn begin(
        &self,
        name: &FleetName,
        (owner, origin): (&[u8; 32], &Origin),
        now: Instant,
    ) -> Result<Begun, SenseError> {
        self.sweep(now);
        if let Some(visit) = self.owned(name, owner, now) {
            return Ok(Begun::Visit(visit));
        }
        let mut visits = self.visits();
        if visits.contains_key(name) {
            return Ok(Begun::Taken);
        }
        let held = visits.values().filter(|visit| visit.origin == *origin).count();
        let free = PLACES.saturating_sub(visits.len());
        if free == 0 || !self.share.admits(held as u64, free as u64) {
            return Ok(Begun::Full);
        }
        let fleet = Arc::new(Fleet::open(&self.folder.join(hex(name)), self.pages)?);
        let traffic = Mutex::default();
        let (owner, origin, touched) = (*owner, origin.clone(), Mutex::new(now));
        let visit = Arc::new(Visit { fleet, owner, origin, began: now, touched, traffic });
        visits.insert(*name, Arc::clone(&visit));
        Ok(Begun::Visit(visit))
    }

    /// Ends a fleet, and removes its data.
    pub(super) fn end(&self, name: &FleetName) {
        let mut visits = self.visits();
        if visits.remove(name).is_some() {
            // under the lock, so that nobody begins a fleet of this name meanwhile; the next start
            // removes leftovers
            let _ = fs::remove_dir_all(self.folder.join(hex(name)));
        }
    }

    /// Ends fleets whose time is over, and returns their number.
    pub(super) fn sweep(&self, now: Instant) -> usize {
        let visits = self.visits();
        let over: Vec<FleetName> =
            visits.iter().filter(|(_, visit)| visit.is_over(now)).map(|(name, _)| *name).collect();
        drop(visits);
        over.iter().for_each(|name| self.end(name));
        over.len()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    const NAMES: [FleetName; 9] = [[0; 8], [1; 8], [2; 8], [3; 8], [4; 8], [5; 8], [6; 8], [7; 8], [8; 8]];

    fn begun(passing: &Passing, name: &FleetName, now: Instant) -> Option<Arc<Visit>> {
        match passing.begin(name, (&[name[0]; 32], &Origin::Unknown), now).unwrap() {
            Begun::Visit(visit) => Some(visit),
            Begun::Taken | Begun::Full => None,
        }
    }

    #[test]
    fn a_fleet_ends_when_nobody_asks_for_it_or_its_time_is_over_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let (path, start) = (folder.path().join("passing"), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let kept = |path: &Path| fs::read_dir(path).unwrap().count();
        fs::create_dir_all(path.join("left by an earlier run")).unwrap();
        let passing = Passing::open(&path, Share::new(100), 1 << 20).unwrap();
        assert_eq!(kept(&path), 0);
        for name in &NAMES[..PLACES] {
            assert!(begun(&passing, name, start).is_some());
        }
        assert!(begun(&passing, &NAMES[PLACES], start).is_none(), "no room");
        assert_eq!((passing.room(start), kept(&path)), (0, PLACES));
        // another secret belongs to another visitor
        assert!(matches!(passing.begin(&NAMES[0], (&[9; 32], &Origin::Unknown), start), Ok(Begun::Taken)));
        assert!(passing.owned(&NAMES[0], &[9; 32], at(100)).is_none());
        // one fleet has requests, the others have none
        assert!(passing.owned(&NAMES[0], &[0; 32], at(100)).is_some());
        assert_eq!((passing.sweep(at(120)), kept(&path), passing.room(at(120))), (PLACES - 1, 1, PLACES - 1));
        assert!(begun(&passing, &NAMES[PLACES], at(130)).is_some());
        // despite requests it ends, and its place is free
        for seconds in (200..1800).step_by(100) {
            assert!(passing.owned(&NAMES[0], &[0; 32], at(seconds)).is_some(), "{seconds} s");
        }
        assert!(passing.find(&NAMES[0], at(1799)).is_some());
        assert!(passing.find(&NAMES[0], at(1800)).is_none() && passing.owned(&NAMES[0], &[0; 32], at(1800)).is_none());
        passing.end(&NAMES[PLACES]);
        assert_eq!((passing.sweep(at(1800)), kept(&path)), (1, 0));
    }

    #[test]
    fn what_a_fleet_may_send_is_bounded_in_requests_and_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let passing = Passing::open(&folder.path().join("passing"), Share::new(100), 1 << 20).unwrap();
        let visit = begun(&passing, &NAMES[0], Instant::now()).unwrap();
        assert!(visit.charge(BYTES as usize) && !visit.charge(1) && visit.charge(0) && !visit.has_room(1));
        let visit = begun(&passing, &NAMES[1], Instant::now()).unwrap();
        assert_eq!((0..2 * REQUESTS).filter(|_| visit.charge(1)).count(), REQUESTS as usize);
        assert!(!visit.has_room(0) && visit.traffic().up == u64::from(REQUESTS));
    }

    #[test]
    fn fault_26_one_address_takes_half_of_the_fleets_that_end() {
        let folder = tempfile::tempdir().unwrap();
        let passing = Passing::open(&folder.path().join("passing"), Share::new(50), 1 << 20).unwrap();
        let now = Instant::now();
        let begin = |name: &FleetName, origin: &str| {
            let begun = passing.begin(name, (&[1; 32], &Origin::Token(origin.into())), now).unwrap();
            matches!(begun, Begun::Visit(_))
        };
        assert_eq!(NAMES.iter().filter(|name| begin(name, "greedy")).count(), PLACES / 2);
        assert!(begin(&NAMES[8], "other"), "there is room for others");
    }
}
