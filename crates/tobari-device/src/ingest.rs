//! What ingest does: tells frames from what is none, and draws their uniform half. It has no secret that reads.
//!
//! **It cannot see out-of-range readings**: they are encrypted. It refuses what is unauthenticated, malformed or replayed, and nothing else.

use crate::frame::{HEAD, Head, MAC, NONCE, READINGS, Refused};
use crate::profile::Profile;
use crate::schedule::{keyed, uniform};
use core::marker::PhantomData;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// Which device a frame says that it is of: to find the key that tells whether it is.
///
/// # Errors
/// [`Refused`] for another length, version or profile.
pub fn peek<P: Profile>(frame: &[u8]) -> Result<Head, Refused> {
    Head::read(frame, P::CODE, P::FRAME)
}

/// A device's MAC key.
pub struct MacKey<P> {
    mac: Hmac<Sha256>,
    profile: PhantomData<P>,
}

/// A frame that its device made.
pub struct Envelope<P> {
    head: Head,
    nonce: [u8; NONCE],
    body: [u32; READINGS],
    profile: PhantomData<P>,
}

impl<P: Profile> MacKey<P> {
    /// From what the key holder gave ([`Root::mac_key`](crate::Root::mac_key)).
    pub fn from_bytes(key: &[u8; 32]) -> Self {
        Self { mac: keyed(key), profile: PhantomData }
    }

    /// The MAC first, in constant time; then the body, strictly.
    ///
    /// # Errors
    /// [`Refused`], but never [`Refused::Replayed`], for which there is [`ReplayWindow`].
    pub fn open(&self, frame: &[u8]) -> Result<Envelope<P>, Refused> {
        let head = peek::<P>(frame)?;
        let (signed, mac) = frame.split_at(P::FRAME - MAC);
        let expected = self.mac.clone().chain_update(signed).finalize().into_bytes();
        if !bool::from(expected[..MAC].ct_eq(mac)) {
            return Err(Refused::Mac);
        }
        let body = P::unpack(&signed[HEAD + NONCE..]).ok_or(Refused::Malformed)?;
        let mut nonce = [0; NONCE];
        nonce.copy_from_slice(&signed[HEAD..HEAD + NONCE]);
        Ok(Envelope { head, nonce, body, profile: PhantomData })
    }
}

impl<P: Profile> Envelope<P> {
    /// Whose it is, and which one.
    pub fn head(&self) -> Head {
        self.head
    }

    /// `b`, by its coefficients' canonical residues.
    pub fn body(&self) -> &[u32; READINGS] {
        &self.body
    }

    pub(crate) fn nonce(&self) -> &[u8; NONCE] {
        &self.nonce
    }

    /// What a server converts.
    pub fn uniform(&self) -> Uniform<'_, P> {
        Uniform(self)
    }
}

/// The halves of a frame in the domain of the transform: at place `i` are values at `ψ^(2 r(i) + 1)`, with `r` reversing eight bits. There
///
/// ```text
/// b^ - Σ a_i^ s_i^ = (Δ m + e)^,
/// ```
///
/// place by place.
pub struct Uniform<'a, P>(&'a Envelope<P>);

impl<P: Profile> Uniform<'_, P> {
    /// All `a_i^`: told `i`, the place, and the value.
    pub fn for_each(&self, mut take: impl FnMut(usize, usize, u32)) {
        let head = self.0.head.to_bytes(P::CODE);
        P::draw(uniform(&head, &self.0.nonce), |place, i, a| take(i, place, a));
    }

    /// `b^`.
    pub fn body(&self) -> [u32; READINGS] {
        let mut body = self.0.body;
        crate::profile::field::<P>().forward(&mut body);
        body
    }
}

/// Which of a device's frames came before: the newest counter, and those of the 63 below it. Frames may overtake one another by so many.
///
/// ```
/// use tobari_device::{Refused, ReplayWindow};
/// let mut window = ReplayWindow::default();
/// assert!([3, 5, 4].iter().all(|counter| window.admit(*counter).is_ok()));
/// assert_eq!(window.admit(4), Err(Refused::Replayed));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayWindow {
    /// One above the newest.
    next: u64,
    /// Bit `i` for the counter `next - 1 - i`.
    seen: u64,
}

impl ReplayWindow {
    /// For storage: one above the newest counter, then a bit for each of the 64 below it.
    pub fn to_bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.next.to_le_bytes());
        bytes[8..].copy_from_slice(&self.seen.to_le_bytes());
        bytes
    }

    /// From storage; none for bytes that no window has.
    ///
    /// ```
    /// use tobari_device::ReplayWindow;
    /// let mut window = ReplayWindow::default();
    /// window.admit(7)?;
    /// assert_eq!(ReplayWindow::from_bytes(window.to_bytes()), Some(window));
    /// assert!(ReplayWindow::from_bytes([1; 16]).is_none());
    /// # Ok::<(), tobari_device::Refused>(())
    /// ```
    pub fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
        let [next, seen] =
            [0, 8].map(|at| bytes[at..].iter().take(8).rev().fold(0, |n, byte| n << 8 | u64::from(*byte)));
        // the newest was seen, and none below 0
        let room = u32::try_from(64 - next.min(64)).unwrap_or(0);
        let below = seen.checked_shl(room).map_or(seen == 0, |kept| kept >> room == seen);
        let good = next <= 1 << 32 && (seen & 1 == 1) == (next > 0) && below;
        good.then_some(Self { next, seen })
    }

    /// Whether a counter is older than all that is known of: it can't be told whether it came before.
    pub fn is_behind(&self, counter: u32) -> bool {
        u64::from(counter) + 64 < self.next
    }

    /// Takes a counter once. Only of a frame whose MAC was right: anybody can write counters.
    ///
    /// # Errors
    /// [`Refused::Replayed`] for one that came before or is older than all that is known; nothing has changed then.
    pub fn admit(&mut self, counter: u32) -> Result<(), Refused> {
        let counter = u64::from(counter);
        if counter >= self.next {
            let ahead = counter + 1 - self.next;
            self.seen = if ahead < 64 { self.seen << ahead } else { 0 } | 1;
            self.next = counter + 1;
            return Ok(());
        }
        let behind = self.next - 1 - counter;
        let bit = 1u64.checked_shl(behind.min(64) as u32).unwrap_or(0);
        if bit == 0 || self.seen & bit != 0 {
            return Err(Refused::Replayed);
        }
        self.seen |= bit;
        Ok(())
    }
}
