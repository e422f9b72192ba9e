//! Why frames cannot be stored or read.

use tobari_host::storage::Trouble;

/// Why frames cannot be stored or read.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct StoreError(Fault);

#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("the store of frames: {0}")]
    Database(Box<redb::Error>),
    #[error("the store of frames is closed: its storage {0}. The server opens it again when that is over")]
    Closed(Trouble),
}

impl StoreError {
    pub(super) fn closed(trouble: Trouble) -> Self {
        Self(Fault::Closed(trouble))
    }

    /// The trouble with the storage, if it caused the error. The store is then closed, and a later
    /// call opens it again.
    pub fn trouble(&self) -> Option<Trouble> {
        match &self.0 {
            Fault::Closed(trouble) => Some(*trouble),
            Fault::Database(error) => match &**error {
                redb::Error::Io(error) => Some(Trouble::of(error)),
                redb::Error::PreviousIo | redb::Error::TransactionPoisoned => Some(Trouble::Other),
                redb::Error::Corrupted(_) => Some(Trouble::Damaged),
                _ => None,
            },
        }
    }
}

impl<E: Into<redb::Error>> From<E> for StoreError {
    fn from(error: E) -> Self {
        Self(Fault::Database(Box::new(error.into())))
    }
}

impl From<StoreError> for std::io::Error {
    fn from(error: StoreError) -> Self {
        Self::other(error)
    }
}
