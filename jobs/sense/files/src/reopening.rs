//! A database that closes when its storage fails, and opens again later.
//!
//! After one file error a database rejects all work, although the disk may work again a second
//! later. Here the first such error closes the database. Each later call tries to open it again,
//! after a minimum pause, and returns the trouble until that succeeds. No caller waits for the
//! attempt of another one, because opening a large file may take a while.

use super::error::StoreError;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, TryLockError};
use std::time::{Duration, Instant};
use tobari_host::storage::Trouble;

/// The pause before the first attempt to open it again. Until then every call fails. So a caller
/// that submits several things in order learns of the first failure before the next thing can
/// succeed.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
/// After a slow attempt the pause is this many times as long as the attempt.
const FACTOR: u32 = 3;

/// Opens it for the first time, or again after an error.
type Open<T> = Box<dyn Fn(bool) -> Result<T, StoreError> + Send + Sync>;

/// A value that is open, or closed while its storage fails.
pub(super) struct Reopening<T> {
    how: Open<T>,
    /// The number of openings, so that an error closes only its own opening.
    open: RwLock<(u64, Option<T>)>,
    closed: Mutex<Option<Closed>>,
    opening: Mutex<()>,
}

#[derive(Clone, Copy)]
struct Closed {
    trouble: Trouble,
    next: Instant,
}

impl<T> Reopening<T> {
    /// Opens it. If the storage fails, this is an error, or with `lenient` a value that is closed
    /// for now.
    pub(super) fn new(
        lenient: bool,
        how: impl Fn(bool) -> Result<T, StoreError> + Send + Sync + 'static,
    ) -> Result<Self, StoreError> {
        let (open, closed) = match how(false) {
            Ok(open) => (Some(open), None),
            Err(error) => match error.trouble().filter(|trouble| lenient && *trouble != Trouble::Damaged) {
                Some(trouble) => (None, Some(Closed { trouble, next: Instant::now() + PAUSE })),
                None => return Err(error),
            },
        };
        Ok(Self {
            how: Box::new(how),
            open: RwLock::new((1, open)),
            closed: Mutex::new(closed),
            opening: Mutex::new(()),
        })
    }

    /// The trouble while it is closed.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        self.closed().map(|closed| closed.trouble)
    }

    fn closed(&self) -> MutexGuard<'_, Option<Closed>> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens it if it is closed.
    pub(super) fn open(&self) -> Result<(), StoreError> {
        let Some(Closed { trouble, next }) = *self.closed() else { return Ok(()) };
        if Instant::now() < next {
            return Err(StoreError::closed(trouble));
        }
        let _mine = match self.opening.try_lock() {
            Ok(mine) => mine,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(StoreError::closed(trouble)),
        };
        if self.closed().is_none() {
            return Ok(()); // another thread has just opened it
        }
        let began = Instant::now();
        match (self.how)(true) {
            Ok(open) => {
                let mut place = self.open.write().unwrap_or_else(PoisonError::into_inner);
                *place = (place.0 + 1, Some(open));
                *self.closed() = None;
                Ok(())
            }
            Err(error) => {
                let trouble = error.trouble().unwrap_or(Trouble::Other);
                *self.closed() = Some(Closed { trouble, next: Instant::now() + PAUSE.max(began.elapsed() * FACTOR) });
                Err(error)
            }
        }
    }

    /// Runs work on it, after opening it if necessary. A storage error closes it.
    pub(super) fn with<R>(&self, work: impl FnOnce(&T) -> Result<R, StoreError>) -> Result<R, StoreError> {
        self.open()?;
        let (opening, done) = {
            let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
            match &open.1 {
                Some(there) => (open.0, work(there)),
                None => return Err(StoreError::closed(self.trouble().unwrap_or(Trouble::Other))),
            }
        };
        if let Some(trouble) = done.as_ref().err().and_then(StoreError::trouble) {
            self.close(opening, trouble);
        }
        done
    }

    /// Closes this opening, unless it is closed already.
    fn close(&self, opening: u64, trouble: Trouble) {
        let gone = {
            let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
            if open.0 != opening || open.1.is_none() {
                return;
            }
            *self.closed() = Some(Closed { trouble, next: Instant::now() + PAUSE });
            open.1.take()
        };
        // closing may wait for the disk, so it happens outside the lock
        drop(gone);
    }
}
