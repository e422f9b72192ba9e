//! Counters that never repeat, even across restarts.
//!
//! **The contract of a store**: the argument of [`CounterStore::store`] is durable before the call
//! returns, and [`CounterStore::load`] returns the last one. A device reserves [`BLOCK`] counters
//! at once, and uses them only after that. A restart, wherever it happens, repeats no counter, and
//! loses at most a block of those that it reserved. A store may skip more, as
//! [`FlashCounter`](crate::FlashCounter) does after an erasure that was cut off. Storage that is
//! restored from a copy breaks the contract. The head of this crate tells the consequences for
//! nonces; ingest rejects replays.

use core::fmt;

/// Counters reserved at once, with one write to storage.
pub const BLOCK: u32 = 64;
/// The largest number of frames under a key: a quarter of the limit of its security. See the head
/// of this crate.
pub const FRAME_LIMIT: u32 = 1 << 30;

/// The storage of a device's counter.
pub trait CounterStore {
    /// The storage's error.
    type Error;

    /// The number stored last; 0 if there is none.
    ///
    /// # Errors
    /// Errors of the storage. A device must not treat an error as an empty store.
    fn load(&mut self) -> Result<u32, Self::Error>;

    /// Stores the number durably before the call returns.
    ///
    /// # Errors
    /// Errors of the storage.
    fn store(&mut self, next: u32) -> Result<(), Self::Error>;
}

impl<S: CounterStore + ?Sized> CounterStore for &mut S {
    type Error = S::Error;

    fn load(&mut self) -> Result<u32, S::Error> {
        (**self).load()
    }

    fn store(&mut self, next: u32) -> Result<(), S::Error> {
        (**self).store(next)
    }
}

/// A counter that lasts as long as the process, **for keys that last no longer**, in tests and
/// measurements. With a stored key it breaks the contract at every start.
///
/// ```
/// use tobari_device::{CounterStore, InsecureVolatileCounter};
/// let mut counter = InsecureVolatileCounter(0);
/// assert_eq!((counter.store(64), counter.load()), (Ok(()), Ok(64)));
/// ```
pub struct InsecureVolatileCounter(pub u32);

impl CounterStore for InsecureVolatileCounter {
    type Error = core::convert::Infallible;

    fn load(&mut self) -> Result<u32, Self::Error> {
        Ok(self.0)
    }

    fn store(&mut self, next: u32) -> Result<(), Self::Error> {
        self.0 = next;
        Ok(())
    }
}

/// Why there is no counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterError<E> {
    /// The storage failed.
    Store(E),
    /// The key has encrypted its last frame: the device needs a new key.
    Exhausted,
}

impl<E: fmt::Display> fmt::Display for CounterError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => write!(f, "the counter's store: {error}"),
            Self::Exhausted => write!(f, "expected a key with frames left, found one that sealed {FRAME_LIMIT}"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> core::error::Error for CounterError<E> {}

/// Counters of one key, each used once.
pub struct Counters<S> {
    store: S,
    next: u32,
    reserved: u32,
}

impl<S: CounterStore> Counters<S> {
    /// Starts from the stored number.
    ///
    /// # Errors
    /// [`CounterError::Store`].
    pub fn open(mut store: S) -> Result<Self, CounterError<S::Error>> {
        let next = store.load().map_err(CounterError::Store)?;
        Ok(Self { store, next, reserved: next })
    }

    /// The next counter. After an error no counter is used up, and the next call may succeed.
    ///
    /// # Errors
    /// [`CounterError::Exhausted`] from [`FRAME_LIMIT`] on, or [`CounterError::Store`].
    pub fn take(&mut self) -> Result<u32, CounterError<S::Error>> {
        if self.next >= FRAME_LIMIT {
            return Err(CounterError::Exhausted);
        }
        if self.next >= self.reserved {
            let reserved = self.next.saturating_add(BLOCK).min(FRAME_LIMIT);
            self.store.store(reserved).map_err(CounterError::Store)?;
            self.reserved = reserved;
        }
        let taken = self.next;
        self.next += 1;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Storage that may fail before or after a write.
    #[derive(Default)]
    struct Flash {
        kept: u32,
        writes: u32,
        fails: Option<bool>,
    }

    impl CounterStore for Flash {
        type Error = ();

        fn load(&mut self) -> Result<u32, ()> {
            Ok(self.kept)
        }

        fn store(&mut self, next: u32) -> Result<(), ()> {
            if self.fails == Some(false) {
                return Err(());
            }
            assert!(next > self.kept, "storage goes forward");
            (self.kept, self.writes) = (next, self.writes + 1);
            if self.fails == Some(true) { Err(()) } else { Ok(()) }
        }
    }

    #[test]
    fn counters_never_repeat_wherever_a_device_restarts() {
        let (mut flash, mut seen, mut state) = (Flash::default(), BTreeSet::new(), 1u32);
        let mut last = None;
        for _ in 0..400 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let mut counters = Counters::open(&mut flash).unwrap();
            for _ in 0..(state >> 20) % 150 {
                let counter = counters.take().unwrap();
                assert!(seen.insert(counter) && last < Some(counter));
                last = Some(counter);
            }
        }
        assert!(flash.writes < seen.len() as u32 / BLOCK + 401, "one write a block, or a restart");
    }

    #[test]
    fn storage_that_fails_gives_no_counter_and_none_twice() {
        let mut counters = Counters::open(Flash::default()).unwrap();
        assert_eq!((counters.take(), counters.take()), (Ok(0), Ok(1)));
        for (fails, taken) in [(Some(false), 62), (Some(true), 0)] {
            counters.store.fails = fails;
            for _ in 0..taken {
                counters.take().unwrap(); // reserved counters
            }
            assert_eq!(counters.take(), Err(CounterError::Store(())));
            // the next start skips a write that succeeded in spite of the error
            let kept = counters.store.kept;
            assert!(kept >= counters.next);
        }
        counters.store.fails = None;
        let kept = counters.store.kept;
        let mut restarted = Counters::open(Flash { kept, ..Flash::default() }).unwrap();
        assert_eq!(restarted.take(), Ok(128));
    }

    #[test]
    fn a_key_that_sealed_all_its_frames_refuses() {
        for kept in [FRAME_LIMIT - 2, FRAME_LIMIT, u32::MAX] {
            let mut counters = Counters::open(Flash { kept, ..Flash::default() }).unwrap();
            for counter in kept..FRAME_LIMIT {
                assert_eq!(counters.take(), Ok(counter));
            }
            for _ in 0..3 {
                assert_eq!(counters.take(), Err(CounterError::Exhausted));
            }
            assert!(counters.store.kept == kept.max(FRAME_LIMIT), "and it stays so after a restart");
        }
    }
}
