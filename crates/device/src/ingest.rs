//! Ingest: checks frames, and draws their uniform half. It has no key that decrypts.
//!
//! **It cannot detect out-of-range readings**, because they are encrypted. It rejects
//! unauthenticated, malformed and replayed frames, and nothing else.

use crate::frame::{Head, MAC, NONCE, READINGS, Refused};
use crate::profile::Profile;
use crate::schedule::{keyed, uniform};
use core::marker::PhantomData;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// The head that a frame claims, before any check of its MAC. It gives the key for that check.
///
/// # Errors
/// [`Refused`] for another length, version or profile.
pub fn peek<P: Profile>(frame: &[u8]) -> Result<Head, Refused> {
    Head::read(frame, P::VERSION, P::CODE, P::FRAME)
}

/// A device's MAC key.
pub struct MacKey<P> {
    mac: Hmac<Sha256>,
    profile: PhantomData<P>,
}

/// A frame with a right MAC.
pub struct Envelope<P> {
    head: Head,
    nonce: [u8; NONCE],
    body: [u32; READINGS],
    profile: PhantomData<P>,
}

impl<P: Profile> MacKey<P> {
    /// The key from the key holder's bytes ([`Root::mac_key`](crate::Root::mac_key)).
    pub fn from_bytes(key: &[u8; 32]) -> Self {
        Self { mac: keyed(key), profile: PhantomData }
    }

    /// Checks the MAC first, in constant time, and then the body, strictly.
    ///
    /// # Errors
    /// [`Refused`], but never [`Refused::Replayed`]: use [`ReplayWindow`] for that.
    pub fn open(&self, frame: &[u8]) -> Result<Envelope<P>, Refused> {
        let head = peek::<P>(frame)?;
        let (signed, mac) = frame.split_at(P::FRAME - MAC);
        let expected = self.mac.clone().chain_update(signed).finalize().into_bytes();
        if !bool::from(expected[..MAC].ct_eq(mac)) {
            return Err(Refused::Mac);
        }
        let body = P::unpack(&signed[P::HEAD + NONCE..]).ok_or(Refused::Malformed)?;
        let mut nonce = [0; NONCE];
        nonce.copy_from_slice(&signed[P::HEAD..P::HEAD + NONCE]);
        Ok(Envelope { head, nonce, body, profile: PhantomData })
    }
}

// the profile itself is never a value
impl<P> Clone for Envelope<P> {
    fn clone(&self) -> Self {
        let Self { head, nonce, body, profile } = *self;
        Self { head, nonce, body, profile }
    }
}

impl<P: Profile> Envelope<P> {
    /// The device number, counter and stamp of the frame.
    pub fn head(&self) -> Head {
        self.head
    }

    /// The canonical residues of the coefficients of `b`.
    pub fn body(&self) -> &[u32; READINGS] {
        &self.body
    }

    pub(crate) fn nonce(&self) -> &[u8; NONCE] {
        &self.nonce
    }

    /// The transforms that a server converts.
    pub fn uniform(&self) -> Uniform<'_, P> {
        Uniform(self)
    }
}

/// The halves of a frame in the domain of the transform: place `i` has the value at
/// `ψ^(2 r(i) + 1)`, where `r` reverses eight bits. There
///
/// ```text
/// b^ - Σ a_i^ s_i^ = (Δ m + e)^,
/// ```
///
/// place by place.
pub struct Uniform<'a, P>(&'a Envelope<P>);

impl<P: Profile> Uniform<'_, P> {
    /// Passes all `a_i^` to `take`: `i`, the place, and the value.
    pub fn for_each(&self, mut take: impl FnMut(usize, usize, u32)) {
        let head = self.0.head.to_bytes(P::CODE);
        P::draw(uniform(&head[..P::HEAD], &self.0.nonce), |place, i, a| take(i, place, a));
    }

    /// The transform `b^`.
    pub fn body(&self) -> [u32; READINGS] {
        let mut body = self.0.body;
        crate::profile::field::<P>().forward(&mut body);
        body
    }
}

/// Counters that a [`ReplayWindow`] remembers: the newest and those below it. This is four times
/// the number that a device skips at a restart ([`BLOCK`](crate::BLOCK)), so frames from before a
/// restart may arrive after it.
pub const WINDOW: u32 = 256;
const WORDS: usize = WINDOW as usize / 64;

/// The counters of a device's frames received so far: the newest counter, and those of the
/// [`WINDOW`] - 1 below it. Frames may overtake one another by that many.
///
/// ```
/// use tobari_device::{Refused, ReplayWindow};
/// let mut window = ReplayWindow::default();
/// assert!([3, 5, 4].iter().all(|counter| window.admit(*counter).is_ok()));
/// assert_eq!(window.admit(4), Err(Refused::Replayed));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayWindow {
    /// One more than the newest counter.
    next: u64,
    /// Bit `i` of word `k` for the counter `next - 1 - 64 k - i`.
    seen: [u64; WORDS],
}

impl ReplayWindow {
    /// Bytes of a window in storage.
    pub const BYTES: usize = 8 * (1 + WORDS);

    /// Encodes the window for storage: one more than the newest counter, then a bit for each
    /// counter of the window.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (place, word) in core::iter::once(&self.next).chain(&self.seen).enumerate() {
            bytes[8 * place..][..8].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Reads a stored window; `None` for invalid bytes.
    ///
    /// ```
    /// use tobari_device::ReplayWindow;
    /// let mut window = ReplayWindow::default();
    /// window.admit(7)?;
    /// let mut read = ReplayWindow::from_bytes(window.to_bytes()).ok_or(tobari_device::Refused::Malformed)?;
    /// assert!(read.admit(7).is_err() && read.admit(6).is_ok());
    /// assert!(ReplayWindow::from_bytes([1; ReplayWindow::BYTES]).is_none());
    /// # Ok::<(), tobari_device::Refused>(())
    /// ```
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Option<Self> {
        let word = |place: usize| bytes[8 * place..].iter().take(8).rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
        let (next, seen) = (word(0), core::array::from_fn(|place| word(place + 1)));
        // the bit of the newest counter is set; bits for counters below 0 mean nothing
        let good = next <= 1 << 32 && (seen[0] & 1 == 1) == (next > 0);
        good.then_some(Self { next, seen })
    }

    /// Whether a counter is older than the window, so that it is unknown whether it was used.
    pub fn is_behind(&self, counter: u32) -> bool {
        u64::from(counter) + u64::from(WINDOW) < self.next
    }

    /// Accepts a counter once. Call it only for a frame with a right MAC, because anybody can write
    /// counters.
    ///
    /// # Errors
    /// [`Refused::Replayed`] for a counter that was used before or is older than the window; the
    /// window is then unchanged.
    pub fn admit(&mut self, counter: u32) -> Result<(), Refused> {
        let counter = u64::from(counter);
        if counter >= self.next {
            let ahead = counter + 1 - self.next;
            self.move_by(ahead);
            self.seen[0] |= 1;
            self.next = counter + 1;
            return Ok(());
        }
        let behind = self.next - 1 - counter;
        let word = usize::try_from(behind / 64).ok().and_then(|word| self.seen.get_mut(word));
        let (word, bit) = (word.ok_or(Refused::Replayed)?, 1 << (behind % 64));
        if *word & bit != 0 {
            return Err(Refused::Replayed);
        }
        *word |= bit;
        Ok(())
    }

    /// Moves all bits to older counters.
    fn move_by(&mut self, ahead: u64) {
        let (words, bits) = (usize::try_from(ahead / 64).unwrap_or(WORDS), (ahead % 64) as u32);
        let before = self.seen;
        let of = |word: Option<usize>| word.and_then(|word| before.get(word)).copied().unwrap_or(0);
        for (place, word) in self.seen.iter_mut().enumerate() {
            let from = place.checked_sub(words);
            let below = of(from.and_then(|from| from.checked_sub(1)));
            *word = of(from) << bits | below.checked_shr(64 - bits).unwrap_or(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BLOCK, CounterStore, Counters};
    use std::collections::BTreeSet;
    use std::vec::Vec;

    /// The storage of a device that keeps its number.
    struct NumberStore(u32);

    impl CounterStore for NumberStore {
        type Error = ();

        fn load(&mut self) -> Result<u32, ()> {
            Ok(self.0)
        }

        fn store(&mut self, next: u32) -> Result<(), ()> {
            self.0 = next;
            Ok(())
        }
    }

    /// The last frames before a restart are still on their way when the first ones after it arrive.
    #[test]
    fn fault_14_frames_from_before_a_restart_are_taken_after_it_and_none_twice() {
        for used in [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 150] {
            let mut kept = NumberStore(0);
            let mut window = ReplayWindow::default();
            let mut start = |count: u32| {
                let mut counters = Counters::open(&mut kept).unwrap();
                (0..count).map(|_| counters.take().unwrap()).collect::<Vec<_>>()
            };
            let before = start(used);
            let delayed = before.len().saturating_sub(20);
            before[..delayed].iter().for_each(|counter| window.admit(*counter).unwrap());
            // the device restarts three times before they arrive
            let after: Vec<u32> = (0..3).flat_map(|_| start(2)).collect();
            after.iter().for_each(|counter| window.admit(*counter).unwrap());
            for counter in &before[delayed..] {
                assert!(!window.is_behind(*counter));
                assert_eq!(window.admit(*counter), Ok(()), "{counter} of {used}");
            }
            for counter in before.iter().chain(&after) {
                assert_eq!(window.admit(*counter), Err(Refused::Replayed), "{counter} of {used}, again");
            }
        }
    }

    /// Compares a window with a set of all received counters, with storage in between.
    #[test]
    fn fault_14_a_window_is_a_set_of_the_newest_counters() {
        let (mut window, mut came, mut state, mut newest) = (ReplayWindow::default(), BTreeSet::new(), 1u32, 0u32);
        for step in 0..100_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let ahead = if step % 50 == 0 { state >> 22 } else { state >> 30 };
            let counter = (newest + ahead).saturating_sub(state >> 8 & 511);
            assert_eq!(ReplayWindow::from_bytes(window.to_bytes()), Some(window));
            let (behind, new) = (u64::from(counter) + u64::from(WINDOW) < window.next, !came.contains(&counter));
            assert_eq!(window.is_behind(counter), behind);
            assert_eq!(window.admit(counter).is_ok(), new && !behind, "{counter} at {newest}");
            if new && !behind {
                came.insert(counter);
                newest = newest.max(counter);
            }
        }
    }
}
