//! Fleets that end: for whoever opens the page.
//!
//! A fleet that a key holder registers stays until its folder is removed. One that a visitor's tab
//! makes must not: it **ends** when its tab says so, [`IDLE`] after the last request in the tab's
//! name, and after [`LIFE`] at the latest; its folder is removed then, and again when a server
//! starts.
//!
//! **Whose it is** is told by 32 random bytes of the tab's (`Tobari-Passing`), of which the server
//! keeps the SHA-256. They open nothing; who has them may send this fleet's objects, questions and
//! windows, and end it. What a browser may send without asking the server first has no such header,
//! so that no other site's page can do it in a visitor's name.
//!
//! **What it takes is bounded by what it may send**: [`REQUESTS`] requests and [`BYTES`] bytes that
//! are kept, in messages of at most [`MESSAGE`] ([`OBJECT`] for objects), at [`PLACES`] fleets at
//! once, of which one address or token has a share. Its frames are of U25, whose sums cost the
//! server milliseconds, and its questions have few results ([`admits`]).

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
use tobari_sense::ProfileName;
use tobari_sense::bundle::Bundle;
use tobari_sense::order::Order;

/// Fleets at once.
pub(super) const PLACES: usize = 8;
/// Time without a request of the tab's, after which a fleet ends.
pub(super) const IDLE: Duration = Duration::from_secs(120);
/// Time after which it ends whatever comes.
pub(super) const LIFE: Duration = Duration::from_secs(1800);
/// Requests of a fleet that leave something behind, or have something computed.
pub(super) const REQUESTS: u32 = 4096;
/// Bytes of a fleet that are kept, frames and all.
pub(super) const BYTES: u64 = 16 << 20;
/// Bytes of a bundle, an order or a batch of frames.
pub(super) const MESSAGE: usize = 1 << 16;
/// Bytes of an object: a key of the scheme, or a part of a cohort's secrets, has a few hundred
/// thousand.
pub(super) const OBJECT: usize = 1 << 20;
/// Devices of a fleet.
pub(super) const DEVICES: usize = 64;
/// Frames of a device in a window, and groups of a question.
const FRAMES: u32 = 16;
const GROUPS: usize = 4;
/// Length of a window, and time between two, in milliseconds.
const WINDOW_MS: std::ops::RangeInclusive<u64> = 1_000..=3_600_000;
/// Bytes of an answer that are shown.
const SAMPLE: usize = 840;

/// Whether a passing fleet may have this bundle.
pub(super) fn admits(bundle: &Bundle) -> bool {
    bundle.profile == ProfileName::U25 && bundle.devices.len() <= DEVICES && bundle.objects().len() <= DEVICES
}

/// Whether a passing fleet may have this order: few results, each of milliseconds.
pub(super) fn admits_order(order: &Order) -> bool {
    order.part.is_none()
        && order.groups.len() <= GROUPS
        && order.frames <= FRAMES
        && [order.length_ms, order.every_ms].iter().all(|ms| WINDOW_MS.contains(ms))
}

/// What a passing fleet has sent and was sent.
#[derive(Clone, Default)]
pub(super) struct Traffic {
    /// Requests that count.
    pub(super) requests: u32,
    /// Bytes that were kept.
    pub(super) up: u64,
    /// Bytes of answers.
    pub(super) down: u64,
    /// Bytes of objects.
    pub(super) objects: u64,
    /// Frames that were taken.
    pub(super) frames: u64,
    /// The newest of them.
    pub(super) frame: Vec<u8>,
    /// Answers.
    pub(super) answers: u64,
    /// The end of the newest, its length, and the window it is of.
    pub(super) answer: (Vec<u8>, usize, u64),
}

/// A fleet that ends.
pub(super) struct Visit {
    /// What is kept of it.
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

    /// What went there and back.
    pub(super) fn traffic(&self) -> MutexGuard<'_, Traffic> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.began) >= LIFE || now.duration_since(*self.touched()) >= IDLE
    }

    /// How long it lasts at most.
    pub(super) fn left(&self, now: Instant) -> Duration {
        LIFE.saturating_sub(now.duration_since(self.began))
    }

    /// Takes a request into account. Answers whether there was room for it, and for so many bytes.
    pub(super) fn charge(&self, bytes: usize) -> bool {
        let mut traffic = self.traffic();
        let fits = traffic.requests < REQUESTS && traffic.up.saturating_add(bytes as u64) <= BYTES;
        if fits {
            traffic.requests += 1;
            traffic.up += bytes as u64;
        }
        fits
    }

    /// Whether there is room for a batch of so many bytes: only what is taken of it counts.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        let traffic = self.traffic();
        traffic.requests < REQUESTS && traffic.up.saturating_add(bytes as u64) <= BYTES
    }

    /// Notes an answer.
    pub(super) fn answered(&self, start_ms: u64, bytes: &[u8]) {
        let mut traffic = self.traffic();
        traffic.answers += 1;
        traffic.down += bytes.len() as u64;
        // the beginning says whose and how many; the rest is the ciphertext
        traffic.answer = (bytes[bytes.len().saturating_sub(SAMPLE)..].to_vec(), bytes.len(), start_ms);
    }
}

/// What became of a wish for a place.
pub(super) enum Begun {
    /// It is there.
    Visit(Arc<Visit>),
    /// It is somebody else's.
    Taken,
    /// There is no room.
    Full,
}

/// All fleets that end.
pub(super) struct Passing {
    folder: PathBuf,
    /// What one address or token may have of the places.
    share: Share,
    /// Bytes of memory for pages of a fleet's store.
    pages: usize,
    visits: Mutex<BTreeMap<FleetName, Arc<Visit>>>,
}

impl Passing {
    /// In a folder of its own, from which is removed what an earlier run left.
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

    /// The fleet of whose name this is, for who has its secret; it lasts from now on.
    pub(super) fn owned(&self, name: &FleetName, owner: &[u8; 32], now: Instant) -> Option<Arc<Visit>> {
        let visit = self.find(name, now).filter(|visit| bool::from(visit.owner.ct_eq(owner)))?;
        *visit.touched() = now;
        Some(visit)
    }

    /// All of them.
    pub(super) fn fleets(&self) -> Vec<Arc<Fleet>> {
        self.visits().values().map(|visit| Arc::clone(&visit.fleet)).collect()
    }

    /// How many more there may be.
    pub(super) fn room(&self, now: Instant) -> usize {
        PLACES.saturating_sub(self.visits().values().filter(|visit| !visit.is_over(now)).count())
    }

    /// The fleet of whose name this is, made where there is none and room for it.
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

    /// Ends a fleet, and removes what was kept of it.
    pub(super) fn end(&self, name: &FleetName) {
        let mut visits = self.visits();
        if visits.remove(name).is_some() {
            // under the lock, so that nobody begins one of this name meanwhile; what stays behind
            // goes at the next start
            let _ = fs::remove_dir_all(self.folder.join(hex(name)));
        }
    }

    /// Ends those whose time is over: how many.
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
        // another secret is another's
        assert!(matches!(passing.begin(&NAMES[0], (&[9; 32], &Origin::Unknown), start), Ok(Begun::Taken)));
        assert!(passing.owned(&NAMES[0], &[9; 32], at(100)).is_none());
        // one is asked for, the others are not
        assert!(passing.owned(&NAMES[0], &[0; 32], at(100)).is_some());
        assert_eq!((passing.sweep(at(120)), kept(&path), passing.room(at(120))), (PLACES - 1, 1, PLACES - 1));
        assert!(begun(&passing, &NAMES[PLACES], at(130)).is_some());
        // whatever comes it ends, and its place is free
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
