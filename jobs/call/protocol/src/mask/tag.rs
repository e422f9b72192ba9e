//! The one-time linear authenticator: tags, their keys, and two states that keep ticks in order.

use super::{MAX_SAMPLES, MAX_SENDERS};
use subtle::{Choice, ConstantTimeEq};
use tobari_simd::StreamKernels;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// `2^61 - 1`, a prime.
const P: u64 = (1 << 61) - 1;
/// Words of 64 bits in a block of ChaCha20.
const BLOCK: usize = 8;
/// Bits of each word that makes up `ν`: few enough that the sum of [`MAX_SENDERS`] of them fits 32
/// bits.
const LIMB: u32 = 20;

/// The purpose of a key stream. Its nonce has this number above the tick. The keys differ as well.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    Mask = 1,
    Blind = 2,
    Coefficients = 3,
}

impl Purpose {
    pub(super) fn nonce(self, tick: u32) -> u64 {
        (self as u64) << 32 | u64::from(tick)
    }
}

/// The keys of one session of one sender: one for its masks and one that hides its tags. Two
/// sessions never share keys. Zeroed on drop; neither printed nor compared.
///
/// Neither of these compiles:
///
/// ```compile_fail,E0277
/// fn shown(key: &tobari_call::mask::SessionKey) -> String { format!("{key:?}") }
/// ```
/// ```compile_fail,E0369
/// fn same(a: &tobari_call::mask::SessionKey, b: &tobari_call::mask::SessionKey) -> bool { a == b }
/// ```
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SessionKey {
    pub(super) mask: [u8; 32],
    blind: [u8; 32],
}

impl SessionKey {
    /// From two independent strings of 32 uniform bytes, one for the masks and one for the tags.
    /// They must serve this session only.
    pub fn from_bytes(mask: &Zeroizing<[u8; 32]>, blind: &Zeroizing<[u8; 32]>) -> Self {
        Self { mask: **mask, blind: **blind }
    }
}

/// The key of the coefficients `α`, shared by all senders and receivers of an epoch. Zeroed on
/// drop; neither printed nor compared.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct EpochKey([u8; 32]);

impl EpochKey {
    /// From 32 uniform bytes, which must serve this epoch only.
    pub fn from_bytes(bytes: &Zeroizing<[u8; 32]>) -> Self {
        Self(**bytes)
    }

    /// `Σ α_i m_i` for both tags.
    fn product(&self, tick: u32, samples: &[i32]) -> Tag {
        let mut words = Zeroizing::new(vec![0; (2 * samples.len()).next_multiple_of(BLOCK)]);
        (StreamKernels::best().keystream)(&self.0, Purpose::Coefficients.nonce(tick), 0, &mut words);
        // at most 2^10 products below 2^(61 + 31)
        let mut sums = [0i128; 2];
        for (sample, pair) in samples.iter().zip(words.as_chunks::<2>().0) {
            for (sum, word) in sums.iter_mut().zip(pair) {
                *sum += i128::from((word & P) as i64) * i128::from(*sample);
            }
        }
        // a multiple of p makes the sums positive
        Tag(sums.map(|sum| reduce((sum + (i128::from(P) << 50)) as u128)))
    }
}

/// `x mod p`, for `x < 2^122`.
fn reduce(x: u128) -> u64 {
    let folded = (x as u64 & P) + ((x >> 61) as u64 & P) + (x >> 122) as u64;
    let folded = (folded & P) + (folded >> 61);
    let over = folded.wrapping_sub(P);
    // the difference is negative if `folded` is below p
    let below = (over >> 63).wrapping_neg();
    over.wrapping_add(P & below)
}

/// A tag, or a sum of tags: two numbers modulo `p`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag([u64; 2]);

impl Tag {
    /// Bytes of a tag.
    pub const BYTES: usize = 16;

    /// Adds another tag.
    pub fn add_assign(&mut self, other: &Tag) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a = reduce(u128::from(*a) + u128::from(b)));
    }

    /// Both numbers, the highest byte first.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes.as_chunks_mut().0.iter_mut().zip(self.0).for_each(|(bytes, number)| *bytes = number.to_be_bytes());
        bytes
    }

    /// A tag from its bytes; none if a number is not below `p`.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Option<Self> {
        let mut numbers = [0; 2];
        numbers.iter_mut().zip(bytes.as_chunks().0).for_each(|(number, bytes)| *number = u64::from_be_bytes(*bytes));
        numbers.iter().all(|number| *number < P).then_some(Self(numbers))
    }

    fn is(&self, other: &Tag) -> Choice {
        self.0[0].ct_eq(&other.0[0]) & self.0[1].ct_eq(&other.0[1])
    }
}

/// `Σ ν` of at most [`MAX_SENDERS`] sessions.
fn blinds(keys: &[[u8; 32]], tick: u32) -> Tag {
    let mut limbs = Zeroizing::new([0; 16]);
    (StreamKernels::best().sums)(keys, Purpose::Blind.nonce(tick), 0, (1 << LIMB) - 1, limbs.as_mut());
    let number = |limbs: &[u32]| {
        let all = limbs.iter().rev().fold(0, |all, limb| (all << LIMB) + u128::from(*limb));
        reduce(all)
    };
    Tag([number(&limbs[..4]), number(&limbs[4..8])])
}

/// A tick that is not later than the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("tick {tick}: expected {} or later", next.map_or("none".to_owned(), |next| next.to_string()))]
pub struct TickError {
    /// The tick asked for.
    pub tick: u32,
    /// The first tick that is accepted; none after the last possible tick.
    pub next: Option<u32>,
}

/// Ticks in increasing order.
pub(super) struct Ticks {
    next: Option<u32>,
}

impl Ticks {
    pub(super) fn from(first: u32) -> Self {
        Self { next: Some(first) }
    }

    pub(super) fn check(&self, tick: u32) -> Result<(), TickError> {
        let next = self.next;
        if next.is_none_or(|next| tick < next) { Err(TickError { tick, next }) } else { Ok(()) }
    }

    /// Records a tick that passed the check.
    pub(super) fn pass(&mut self, tick: u32) {
        self.next = tick.checked_add(1);
    }
}

/// The tags of one session, each for a later tick than the one before.
pub struct TagSender {
    epoch: EpochKey,
    pub(super) session: SessionKey,
    pub(super) ticks: Ticks,
}

impl TagSender {
    /// A sender for ticks from `first` on.
    pub fn new(epoch: EpochKey, session: SessionKey, first: u32) -> Self {
        Self { epoch, session, ticks: Ticks::from(first) }
    }

    /// The tag of the samples that are sent in `tick`.
    ///
    /// # Errors
    /// [`TickError`] if the tick is not later than the last.
    ///
    /// # Panics
    /// If there are more than [`MAX_SAMPLES`].
    pub fn tag(&mut self, tick: u32, samples: &[i32]) -> Result<Tag, TickError> {
        assert!(samples.len() <= MAX_SAMPLES, "expected at most {MAX_SAMPLES} samples");
        self.ticks.check(tick)?;
        let mut tag = self.epoch.product(tick, samples);
        tag.add_assign(&blinds(std::slice::from_ref(&self.session.blind), tick));
        self.ticks.pass(tick);
        Ok(tag)
    }
}

/// Why a sum is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A tick that was already accepted, or an earlier one.
    #[error(transparent)]
    Tick(#[from] TickError),
    /// A sender whose keys are unknown.
    #[error("sender {0} has no session here")]
    Unknown(u16),
    /// Senders that are not in increasing order, for instance one sender twice.
    #[error("senders are not in order")]
    Order,
    /// Another number of samples, or another width.
    #[error("a sum of another shape: expected {expected} samples, found {found}")]
    Shape {
        /// Samples expected.
        expected: usize,
        /// Samples found.
        found: usize,
    },
    /// The tag does not match this sum, these senders and this tick: something was changed.
    #[error("the sum is not what those in its list have sent")]
    Forged,
}

/// The keys of possible senders, by number, and the keys of the last sum's senders side by side.
#[derive(Default)]
pub(super) struct Sessions {
    keys: Vec<Option<SessionKey>>,
    /// The senders of the batch. Lists rarely change from tick to tick.
    listed: Vec<u16>,
    pub(super) masks: Zeroizing<Vec<[u8; 32]>>,
    blinds: Zeroizing<Vec<[u8; 32]>>,
}

impl Sessions {
    fn set(&mut self, member: u16, key: Option<SessionKey>) {
        let place = usize::from(member);
        assert!(place < MAX_SENDERS, "expected a number below {MAX_SENDERS}");
        if self.keys.len() <= place {
            self.keys.resize_with(place + 1, || None);
        }
        self.keys[place] = key;
        self.forget();
    }

    fn forget(&mut self) {
        self.listed.clear();
        self.masks.zeroize();
        self.blinds.zeroize();
    }

    /// Places the keys of the listed senders side by side.
    fn list(&mut self, senders: &[u16]) -> Result<(), OpenError> {
        if self.listed == senders {
            return Ok(());
        }
        if !senders.is_sorted_by(|a, b| a < b) {
            return Err(OpenError::Order);
        }
        self.forget();
        // to full size at once, because growing would leave copies of keys behind
        self.masks.reserve_exact(senders.len());
        self.blinds.reserve_exact(senders.len());
        for &sender in senders {
            let Some(key) = self.keys.get(usize::from(sender)).and_then(Option::as_ref) else {
                self.forget();
                return Err(OpenError::Unknown(sender));
            };
            self.masks.push(key.mask);
            self.blinds.push(key.blind);
        }
        self.listed.extend_from_slice(senders);
        Ok(())
    }
}

/// Checks the tags of sums, each for a later tick than the one before.
pub struct TagReceiver {
    epoch: EpochKey,
    pub(super) sessions: Sessions,
    ticks: Ticks,
}

impl TagReceiver {
    /// A receiver for ticks from `first` on, without any session yet.
    pub fn new(epoch: EpochKey, first: u32) -> Self {
        Self { epoch, sessions: Sessions::default(), ticks: Ticks::from(first) }
    }

    /// Sets the session of sender `member`, and replaces an earlier session.
    ///
    /// # Panics
    /// If the number is not below [`MAX_SENDERS`].
    pub fn insert(&mut self, member: u16, key: SessionKey) {
        self.sessions.set(member, Some(key));
    }

    /// Removes the session of sender `member`.
    ///
    /// # Panics
    /// If the number is not below [`MAX_SENDERS`].
    pub fn remove(&mut self, member: u16) {
        self.sessions.set(member, None);
    }

    /// Checks everything except the tag, and prepares the keys.
    pub(super) fn prepare(&mut self, tick: u32, senders: &[u16]) -> Result<(), OpenError> {
        self.ticks.check(tick)?;
        self.sessions.list(senders)
    }

    /// Checks the tag of a sum, after [`TagReceiver::prepare`].
    pub(super) fn check(&mut self, tick: u32, sums: &[i32], tag: &Tag) -> Result<(), OpenError> {
        let mut expected = self.epoch.product(tick, sums);
        expected.add_assign(&blinds(&self.sessions.blinds, tick));
        if !bool::from(expected.is(tag)) {
            return Err(OpenError::Forged);
        }
        self.ticks.pass(tick);
        Ok(())
    }

    /// Records `tick` if `sums` are the sums of the samples that these senders sent in it.
    /// `senders` is in increasing order.
    ///
    /// # Errors
    /// [`OpenError`]. After an error, a sum of the same tick is still accepted.
    ///
    /// # Panics
    /// If there are more than [`MAX_SAMPLES`].
    pub fn verify(&mut self, tick: u32, senders: &[u16], sums: &[i32], tag: &Tag) -> Result<(), OpenError> {
        assert!(sums.len() <= MAX_SAMPLES, "expected at most {MAX_SAMPLES} samples");
        self.prepare(tick, senders)?;
        self.check(tick, sums, tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigUint;

    #[test]
    fn reduction_gives_the_remainder_at_every_end() {
        let ends = [0, 1, P - 1, P, P + 1, 2 * P - 1, 2 * P, u64::MAX];
        for a in ends {
            for b in ends {
                for x in [
                    (u128::from(a) * u128::from(b)) >> 6,
                    u128::from(a) + u128::from(b),
                    (u128::from(a) << 58) | u128::from(b),
                ] {
                    let expected = BigUint::from(x & ((1 << 122) - 1)) % BigUint::from(P);
                    assert_eq!(BigUint::from(reduce(x & ((1 << 122) - 1))), expected, "{x}");
                }
            }
        }
    }

    /// The tags as the definition says, with big integers.
    fn by_definition(epoch: &EpochKey, session: &SessionKey, tick: u32, samples: &[i32]) -> [BigUint; 2] {
        let p = BigUint::from(P);
        let stream = |key: &[u8; 32], purpose: Purpose, blocks: usize| {
            let mut words = vec![0; 8 * blocks];
            (StreamKernels::available().next().unwrap().keystream)(key, purpose.nonce(tick), 0, &mut words);
            words
        };
        let alpha = stream(&epoch.0, Purpose::Coefficients, (2 * samples.len()).div_ceil(8));
        let nu: Vec<u32> = stream(&session.blind, Purpose::Blind, 1)
            .iter()
            .flat_map(|word| [*word as u32, (word >> 32) as u32])
            .collect();
        [0, 1].map(|j| {
            let mut sum =
                (0..4).fold(BigUint::ZERO, |sum, i| sum + (BigUint::from(nu[4 * j + i] & 0xf_ffff) << (20 * i)));
            for (i, sample) in samples.iter().enumerate() {
                let residue = if *sample < 0 {
                    &p - BigUint::from(sample.unsigned_abs())
                } else {
                    BigUint::from(sample.unsigned_abs())
                };
                sum += BigUint::from(alpha[2 * i + j] & P) * residue;
            }
            sum % &p
        })
    }

    fn key(byte: u8) -> Zeroizing<[u8; 32]> {
        Zeroizing::new([byte; 32])
    }

    #[test]
    fn a_tag_is_what_its_definition_says() {
        let (epoch, session) = (EpochKey::from_bytes(&key(1)), SessionKey::from_bytes(&key(2), &key(3)));
        let samples: Vec<i32> = (0..321).map(|i| (i * 7919) % 65_536 - 32_768).collect();
        for samples in [&samples[..], &samples[..1], &[], &[i32::MIN; 1024], &[i32::MAX; 1024]] {
            let tag = TagSender::new(epoch.clone(), session.clone(), 0).tag(77, samples).unwrap();
            assert_eq!(tag.0.map(BigUint::from), by_definition(&epoch, &session, 77, samples));
        }
    }

    #[test]
    fn tags_are_written_as_numbers_below_the_prime_and_read_no_others() {
        let tag = Tag([P - 1, 0]);
        assert_eq!(Tag::from_bytes(tag.to_bytes()), Some(tag));
        for place in [0, 8] {
            for number in [P, P + 1, u64::MAX] {
                let mut bytes = tag.to_bytes();
                bytes[place..place + 8].copy_from_slice(&number.to_be_bytes());
                assert_eq!(Tag::from_bytes(bytes), None);
            }
        }
    }
}
