//! Places that unknown clients take by a registration. Their number and bytes are bounded, and one
//! client holds only a share.
//!
//! **A place is in use** if its client used it within [`PlaceLimits::idle`]; no other client can
//! take it. The server gives any other place away, but only when it needs the room, and the least
//! recently used place first: a client that returns late usually finds its data. [`Share`] limits
//! how many places one client has in use.
//!
//! **On the disk** a place has a file that identifies its client ([`Keeper`]): SHA-256 of the
//! folder's random bytes and the client's address or token name, cut to 16 bytes. An attacker with
//! the folder can try all IPv4 addresses. The time of the newest file is the time of the last use.
//! Places of earlier releases have no such file and belong to no client: they count in the sum of
//! all clients, and are given away like the others.

use crate::{clients::Origin, share::Share};
use std::{
    collections::HashMap,
    fs::{self, File},
    hash::Hash,
    io,
    path::Path,
    time::{Duration, SystemTime},
};
use tobari_host::files::{FileError, read_bounded, write_atomically};
use tobari_octets::sha256;

/// The client of a place.
pub type Tag = [u8; 16];
/// The tag of a place from an earlier release, which has no file of its client.
const NOBODY: Tag = [0; 16];
/// First bytes of the file that identifies the client of a place.
const MAGIC: [u8; 4] = *b"TSO\x01";
const SALT_BYTES: usize = 32;

/// The limits of places.
#[derive(Clone, Copy)]
pub struct PlaceLimits {
    /// Places at most.
    pub count: u64,
    /// Bytes of all places at most.
    pub bytes: u64,
    /// How long a place stays in use after its last use.
    pub idle: Duration,
    /// The share of one client.
    pub share: Share,
}

struct Place {
    tag: Tag,
    bytes: u64,
    used: SystemTime,
    /// When a use was last written to the files.
    told: SystemTime,
}

/// All places of a kind.
pub struct Places<K> {
    limits: PlaceLimits,
    held: HashMap<K, Place>,
}

/// The reason why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// True if the client has too many places; false if all clients together have.
    pub own: bool,
    /// Places or bytes in use, of the client or of all.
    pub held: u64,
    /// True if bytes are missing, and not places.
    pub bytes: bool,
    /// Time until the oldest place can be given away, if its client does not use it meanwhile.
    pub wait: Duration,
}

/// The sum over places in use.
#[derive(Clone, Copy, Default)]
struct Sum {
    count: u64,
    bytes: u64,
    oldest: Option<SystemTime>,
}

impl Sum {
    fn add(&mut self, place: &Place) {
        (self.count, self.bytes) = (self.count + 1, self.bytes.saturating_add(place.bytes));
        self.oldest = Some(self.oldest.map_or(place.used, |oldest| oldest.min(place.used)));
    }
}

impl<K: Clone + Eq + Hash + Ord> Places<K> {
    /// No places yet.
    pub fn new(limits: PlaceLimits) -> Self {
        Self { limits, held: HashMap::new() }
    }

    /// Adds a place from the disk, whatever the limits are.
    pub fn restore(&mut self, key: K, tag: Tag, bytes: u64, used: SystemTime) {
        self.held.insert(key, Place { tag, bytes, used, told: used });
    }

    /// Bytes of all places.
    pub fn bytes(&self) -> u64 {
        self.held.values().map(|place| place.bytes).sum()
    }

    /// Whether there is such a place.
    #[cfg(test)]
    fn has(&self, key: &K) -> bool {
        self.held.contains_key(key)
    }

    /// Checks whether this client may take a place of `bytes` bytes, or renew its own.
    ///
    /// # Errors
    /// [`Full`].
    pub fn check(&self, key: Option<&K>, tag: &Tag, bytes: u64, now: SystemTime) -> Result<(), Full> {
        let (mut own, mut all) = (Sum::default(), Sum::default());
        for (_, place) in self.held.iter().filter(|(other, _)| Some(*other) != key) {
            if self.is_in_use(place, now) {
                all.add(place);
                if place.tag == *tag {
                    own.add(place);
                }
            }
        }
        let PlaceLimits { count, bytes: most, share, .. } = self.limits;
        let (free, free_bytes) = (count.saturating_sub(all.count), most.saturating_sub(all.bytes));
        let full = |own: bool, sum: &Sum, bytes| {
            let oldest = sum.oldest.unwrap_or(now);
            let wait = (oldest + self.limits.idle).duration_since(now).unwrap_or_default();
            Err(Full { own, held: if bytes { sum.bytes } else { sum.count }, bytes, wait })
        };
        if free == 0 || free_bytes < bytes {
            return full(false, &all, free > 0);
        }
        if !share.admits(own.count, free) || !share.admits(own.bytes, free_bytes) {
            return full(true, &own, share.admits(own.count, free));
        }
        Ok(())
    }

    /// Takes a place, or renews it; returns the keys of the places that are given away for it.
    ///
    /// # Errors
    /// [`Full`]; nothing is taken or given away then.
    pub fn take(&mut self, key: &K, tag: Tag, bytes: u64, now: SystemTime) -> Result<Vec<K>, Full> {
        self.check(Some(key), &tag, bytes, now)?;
        self.held.insert(key.clone(), Place { tag, bytes, used: now, told: now });
        let (mut count, mut sum) = (self.held.len() as u64, self.bytes());
        let idle = |(other, place): &(&K, &Place)| *other != key && !self.is_in_use(place, now);
        let mut idle: Vec<(SystemTime, K)> =
            self.held.iter().filter(idle).map(|(key, place)| (place.used, key.clone())).collect();
        idle.sort_unstable();
        let mut given = Vec::new();
        for (_, key) in idle {
            if count <= self.limits.count && sum <= self.limits.bytes {
                break;
            }
            let place = self.held.remove(&key);
            (count, sum) = (count - 1, sum - place.map_or(0, |place| place.bytes));
            given.push(key);
        }
        Ok(given)
    }

    /// Notes a use of a place. Returns whether to write the use to the files, which happens only
    /// once in a while.
    pub fn touch(&mut self, key: &K, now: SystemTime) -> bool {
        let Some(place) = self.held.get_mut(key) else { return false };
        place.used = place.used.max(now);
        let due = now.duration_since(place.told).is_ok_and(|since| since >= self.limits.idle / 16);
        if due {
            place.told = now;
        }
        due
    }

    fn is_in_use(&self, place: &Place, now: SystemTime) -> bool {
        // places stay in use even if the clock was set back
        now.duration_since(place.used).unwrap_or_default() < self.limits.idle
    }
}

/// A waiting time in words, rounded up.
pub(crate) fn said(wait: Duration) -> String {
    match wait.as_secs().div_ceil(60) {
        0 | 1 => "a minute".to_owned(),
        60 => "an hour".to_owned(),
        minutes @ 2..120 => format!("{minutes} minutes"),
        minutes => format!("{} hours", minutes.div_ceil(60)),
    }
}

/// Records the clients of places, under the salt of a folder.
pub struct Keeper {
    salt: [u8; SALT_BYTES],
}

impl Keeper {
    /// Opens a folder; makes its salt if there is none.
    ///
    /// # Errors
    /// [`FileError`] for a salt that cannot be read, is short, or cannot be written.
    pub fn open(folder: &Path) -> Result<Self, FileError> {
        let path = folder.join("salt");
        if path.exists() {
            let bytes = read_bounded(&path, SALT_BYTES as u64)?;
            if let Ok(salt) = bytes.try_into() {
                return Ok(Self { salt });
            }
            let source =
                io::Error::new(io::ErrorKind::InvalidData, "expected 32 bytes of salt, found fewer: remove it");
            return Err(FileError::Read { name: path.display().to_string(), source });
        }
        let this = Self::drawn();
        write_atomically(&path, &this.salt)?;
        Ok(this)
    }

    /// A keeper with a random salt, for places that are not on the disk.
    pub fn drawn() -> Self {
        let mut salt = [0; SALT_BYTES];
        // without randomness tags are easier to guess; nothing else here depends on it
        let _ = getrandom::fill(&mut salt);
        Self { salt }
    }

    /// The tag of a client.
    pub fn tag(&self, origin: &Origin) -> Tag {
        let mut tag = NOBODY;
        tag.copy_from_slice(&sha256(&[&self.salt[..], &origin.bytes()].concat())[..NOBODY.len()]);
        tag
    }

    /// Writes the client of a place.
    ///
    /// # Errors
    /// [`FileError`] where the file cannot be written.
    pub fn write(path: &Path, tag: &Tag) -> Result<(), FileError> {
        write_atomically(path, &[&MAGIC[..], tag].concat())
    }

    /// The client of a place; none if the file is missing or damaged: only shares depend on it.
    pub fn read(path: &Path) -> Tag {
        let bytes = read_bounded(path, (MAGIC.len() + NOBODY.len()) as u64).unwrap_or_default();
        let tag = bytes.strip_prefix(&MAGIC).and_then(|tag| tag.try_into().ok());
        tag.unwrap_or(NOBODY)
    }
}

/// When the newest of these files was written.
pub fn used(paths: impl Iterator<Item = impl AsRef<Path>>) -> SystemTime {
    let times = paths.filter_map(|path| fs::metadata(path).ok()?.modified().ok());
    // a time in the future would count as used for ever
    times.max().unwrap_or(SystemTime::UNIX_EPOCH).min(SystemTime::now())
}

/// Writes the time of a use to the file of a place.
pub fn tell(path: &Path, now: SystemTime) {
    let told = File::options().append(true).open(path).and_then(|file| file.set_modified(now));
    if let Err(error) = told {
        tracing::warn!(%error, "when a place was used last cannot be kept");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn places(count: u64, bytes: u64) -> Places<u32> {
        Places::new(PlaceLimits { count, bytes, idle: HOUR, share: Share::new(50) })
    }

    #[test]
    fn fault_26_an_attacker_takes_his_share_and_his_places_are_given_away_when_he_is_idle() {
        let (mut places, start) = (places(1_000, u64::MAX), SystemTime::UNIX_EPOCH + 100 * HOUR);
        let taken = (0..2_000).take_while(|key| places.take(key, [1; 16], 10, start).is_ok()).count();
        assert_eq!(taken, 500);
        let full = places.take(&5_000, [1; 16], 10, start + HOUR / 2).unwrap_err();
        assert_eq!(full, Full { own: true, held: 500, bytes: false, wait: HOUR / 2 });
        // others continue
        for key in 10_000..10_100 {
            assert_eq!(places.take(&key, key.to_be_bytes().repeat(4).try_into().unwrap(), 10, start), Ok(vec![]));
        }
        // the first client keeps one place alive; of the rest the oldest goes first when room is
        // needed
        assert!(places.touch(&0, start + HOUR / 2));
        let later = start + HOUR;
        for key in 20_000..20_400 {
            assert_eq!(places.take(&key, key.to_be_bytes().repeat(4).try_into().unwrap(), 10, later), Ok(vec![]));
        }
        let tag: u32 = 30_000;
        assert_eq!(places.take(&tag, [9; 16], 10, later), Ok(vec![1]));
        assert!(places.has(&0) && !places.has(&1), "a place in use is nobody else's");
    }

    #[test]
    fn fault_26_places_that_are_all_in_use_are_taken_from_nobody() {
        let (mut places, start) = (places(4, u64::MAX), SystemTime::UNIX_EPOCH + 100 * HOUR);
        for key in 0..4 {
            places.take(&key, [key as u8 + 1; 16], 1, start).unwrap();
        }
        let full = places.take(&9, [9; 16], 1, start + Duration::from_secs(60)).unwrap_err();
        assert_eq!(full, Full { own: false, held: 4, bytes: false, wait: HOUR - Duration::from_secs(60) });
        assert_eq!(places.take(&2, [3; 16], 1, start), Ok(vec![]), "the same again is none more");
        assert_eq!(
            places.take(&9, [9; 16], 1, start + HOUR),
            Ok(vec![0]),
            "an hour later there is a place, as was said"
        );
    }

    #[test]
    fn fault_26_bytes_are_bounded_for_all_and_for_each() {
        let (mut places, now) = (places(1_000, 100), SystemTime::now());
        assert!((0..5).all(|key| places.take(&key, [1; 16], 10, now).is_ok()));
        let full = places.take(&5, [1; 16], 10, now).unwrap_err();
        assert!(full.own && full.bytes && full.held == 50, "{full:?}");
        assert!(places.take(&6, [2; 16], 50, now).is_ok(), "the first is anybody's");
        let full = places.take(&7, [3; 16], 10, now).unwrap_err();
        assert!(!full.own && full.bytes, "{full:?}");
    }

    #[test]
    fn fault_26_places_of_before_count_for_all_and_go_first() {
        let (mut places, now) = (places(10, u64::MAX), SystemTime::UNIX_EPOCH + 100 * HOUR);
        (0..30).for_each(|key| {
            places.restore(key, NOBODY, 1, SystemTime::UNIX_EPOCH + HOUR + Duration::from_secs(key.into()));
        });
        let given = places.take(&100, [1; 16], 1, now).unwrap();
        assert_eq!(given, (0..21).collect::<Vec<_>>(), "as many as are too many, the oldest first");
    }

    #[test]
    fn whose_a_place_is_is_known_again_and_waiting_is_said_in_words() {
        let folder = tempfile::tempdir().unwrap();
        let address = Origin::Address("192.0.2.7".parse().unwrap());
        let tag = Keeper::open(folder.path()).unwrap().tag(&address);
        let path = folder.path().join("origin");
        Keeper::write(&path, &tag).unwrap();
        let again = Keeper::open(folder.path()).unwrap();
        assert!(Keeper::read(&path) == tag && again.tag(&address) == tag && again.tag(&Origin::Unknown) != tag);
        fs::write(&path, b"TSO\x01 something else that is longer than a tag").unwrap();
        assert!(Keeper::read(&path) == NOBODY && Keeper::read(&folder.path().join("none")) == NOBODY);
        fs::write(folder.path().join("salt"), b"short").unwrap();
        assert!(Keeper::open(folder.path()).is_err());
        for (seconds, text) in
            [(0, "a minute"), (61, "2 minutes"), (3_599, "an hour"), (3_601, "61 minutes"), (7_200, "2 hours")]
        {
            assert_eq!(said(Duration::from_secs(seconds)), text);
        }
    }
}
