//! Masking: a sender masks samples, a server adds them, a receiver removes the masks from the sum.

use super::packing::{Form, MalformedWords, Width};
use super::tag::{EpochKey, OpenError, Purpose, SessionKey, Tag, TagReceiver, TagSender, TickError};
use super::{MAX_SAMPLES, MAX_SENDERS};
use tobari_simd::StreamKernels;
use zeroize::Zeroizing;

/// Words of 32 bits in a block of ChaCha20.
const BLOCK: usize = 16;

/// Masked samples, or a sum of masked samples: words modulo `2^w`. Anybody can add two. Without the
/// keys the words hide the samples.
#[derive(Clone, PartialEq, Eq)]
pub struct Masked {
    width: Width,
    /// Each below `2^w`.
    words: Vec<u32>,
}

/// Words of another width, or another number of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot add {found} words of {found_bits} bits to {expected} words of {expected_bits} bits")]
pub struct MaskMismatch {
    expected: usize,
    expected_bits: u32,
    found: usize,
    found_bits: u32,
}

impl Masked {
    /// The neutral element of addition. It hides nothing.
    pub fn zero(width: Width, samples: usize) -> Self {
        Self { width, words: vec![0; samples] }
    }

    /// Bits of a word.
    pub fn width(&self) -> Width {
        self.width
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Are there no samples?
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Adds sample by sample, without any key.
    ///
    /// # Errors
    /// [`MaskMismatch`] if width or length differ; `self` is unchanged then.
    pub fn add_assign(&mut self, other: &Masked) -> Result<(), MaskMismatch> {
        if self.width != other.width || self.len() != other.len() {
            let (expected, found) = (self.len(), other.len());
            let (expected_bits, found_bits) = (self.width.bits(), other.width.bits());
            return Err(MaskMismatch { expected, expected_bits, found, found_bits });
        }
        let largest = self.width.largest();
        // both below 2^29, so the sum is below 2^30 and does not overflow
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a = (*a + b) & largest);
        Ok(())
    }

    /// Writes the words.
    pub fn encode(&self, form: Form, out: &mut Vec<u8>) {
        form.encode(self.width, &self.words, out);
    }

    /// Reads this number of words of this width.
    ///
    /// # Errors
    /// [`MalformedWords`] if the length is wrong, or a bit outside the words is set.
    pub fn decode(form: Form, width: Width, samples: usize, bytes: &[u8]) -> Result<Self, MalformedWords> {
        Ok(Self { width, words: form.decode(width, samples, bytes)? })
    }
}

/// `Σ F(k, t, i)` modulo `2^32` over the keys, in whole blocks.
fn masks(keys: &[[u8; 32]], tick: u32, samples: usize) -> Zeroizing<Vec<u32>> {
    let mut sums = Zeroizing::new(vec![0; samples.next_multiple_of(BLOCK)]);
    (StreamKernels::best().sums)(keys, Purpose::Mask.nonce(tick), 0, u32::MAX, &mut sums);
    sums
}

/// One session of a sender: masks and tags, each for a later tick than the one before.
///
/// ```
/// use tobari_call::mask::{EpochKey, MaskReceiver, MaskSender, Masked, SessionKey, Tag, Width};
/// use zeroize::Zeroizing;
///
/// // what all members derive from the secret of an epoch, a number and a session
/// let key = |byte| Zeroizing::new([byte; 32]);
/// let epoch = || EpochKey::from_bytes(&key(0));
/// let sessions = [1, 2].map(|u| SessionKey::from_bytes(&key(u), &key(u + 100)));
/// let width = Width::for_senders(2).ok_or("too many")?;
///
/// // the server adds
/// let (mut sum, mut tag) = (Masked::zero(width, 3), Tag::default());
/// for (session, samples) in sessions.iter().zip([[1000, -5, i16::MIN], [234, -7, i16::MIN]]) {
///     let (masked, one) = MaskSender::new(epoch(), session.clone(), width, 0).encrypt(7, &samples)?;
///     sum.add_assign(&masked)?;
///     tag.add_assign(&one);
/// }
///
/// let mut receiver = MaskReceiver::new(epoch(), width, 3, 0);
/// sessions.into_iter().zip(0..).for_each(|(key, member)| receiver.insert(member, key));
/// assert!(receiver.open(7, &[0], &sum, &tag).is_err(), "two have sent, not one");
/// assert_eq!(*receiver.open(7, &[0, 1], &sum, &tag)?, [1234, -12, -65_536]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MaskSender {
    tags: TagSender,
    width: Width,
}

impl MaskSender {
    /// A sender for ticks from `first` on.
    pub fn new(epoch: EpochKey, session: SessionKey, width: Width, first: u32) -> Self {
        Self { tags: TagSender::new(epoch, session, first), width }
    }

    /// Masks the samples of `tick`, and computes their tag.
    ///
    /// # Errors
    /// [`TickError`] if the tick is not later than the last. Nothing is encrypted then.
    ///
    /// # Panics
    /// If there are more than [`MAX_SAMPLES`].
    pub fn encrypt(&mut self, tick: u32, samples: &[i16]) -> Result<(Masked, Tag), TickError> {
        let wide: Zeroizing<Vec<i32>> = Zeroizing::new(samples.iter().map(|sample| i32::from(*sample)).collect());
        let tag = self.tags.tag(tick, &wide)?;
        let masks = masks(std::slice::from_ref(&self.tags.session.mask), tick, samples.len());
        let largest = self.width.largest();
        let words = wide.iter().zip(masks.iter()).map(|(sample, mask)| mask.wrapping_add(*sample as u32) & largest);
        Ok((Masked { width: self.width, words: words.collect() }, tag))
    }
}

/// Decrypts sums, each for a later tick than the one before.
pub struct MaskReceiver {
    tags: TagReceiver,
    width: Width,
    samples: usize,
}

impl MaskReceiver {
    /// A receiver for ticks from `first` on and sums of `samples` samples, without any session yet.
    ///
    /// # Panics
    /// If there are more than [`MAX_SAMPLES`].
    pub fn new(epoch: EpochKey, width: Width, samples: usize, first: u32) -> Self {
        assert!(samples <= MAX_SAMPLES, "expected at most {MAX_SAMPLES} samples");
        Self { tags: TagReceiver::new(epoch, first), width, samples }
    }

    /// Sets the session of sender `member`, and replaces an earlier session.
    ///
    /// # Panics
    /// If the number is not below [`MAX_SENDERS`].
    pub fn insert(&mut self, member: u16, key: SessionKey) {
        self.tags.insert(member, key);
    }

    /// Removes the session of sender `member`.
    ///
    /// # Panics
    /// If the number is not below [`MAX_SENDERS`].
    pub fn remove(&mut self, member: u16) {
        self.tags.remove(member);
    }

    /// The exact sum of the samples of these senders in `tick`. `senders` is in increasing order.
    ///
    /// # Errors
    /// [`OpenError`]. After an error, a sum of the same tick is still accepted.
    pub fn open(
        &mut self,
        tick: u32,
        senders: &[u16],
        sum: &Masked,
        tag: &Tag,
    ) -> Result<Zeroizing<Vec<i32>>, OpenError> {
        if sum.len() != self.samples || sum.width != self.width || senders.len() > self.width.senders().min(MAX_SENDERS)
        {
            return Err(OpenError::Shape { expected: self.samples, found: sum.len() });
        }
        self.tags.prepare(tick, senders)?;
        let masks = masks(&self.tags.sessions.masks, tick, self.samples);
        let centred =
            sum.words.iter().zip(masks.iter()).map(|(word, mask)| self.width.centred(word.wrapping_sub(*mask)));
        let sums = Zeroizing::new(centred.collect::<Vec<i32>>());
        self.tags.check(tick, &sums, tag)?;
        Ok(sums)
    }
}
