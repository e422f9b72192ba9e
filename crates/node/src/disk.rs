//! A place on the server's disk, and whether writes to it succeed.
//!
//! Writes to a full, read-only or failing disk fail for a while and later succeed again. Files are
//! written whole or not at all, so no file needs repair. While writes fail, requests that need the
//! disk are refused with 507 before they are charged, and `/readyz` names the job. The log gets one
//! line at the first failure and one when the disk works again. Every second the server tries a
//! small write ([`Disk::try_again`]).

use std::{
    fmt::Display,
    fs,
    io::{self, Write},
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::http::StatusCode;
use tobari_host::{files::FileError, storage::Trouble};

use crate::{reply::Reply, stop::Stop};

/// Time between two trials of a failing disk.
pub const LOOK: Duration = Duration::from_secs(1);

/// Bytes of a trial write.
const TRIAL_BYTES: usize = 1 << 16;

type Trial = Box<dyn Fn() -> io::Result<()> + Send + Sync>;

/// A place where a job stores data.
pub struct Disk {
    what: &'static str,
    trouble: Mutex<Option<(Trouble, u64)>>,
    trial: Trial,
}

impl Disk {
    /// A place with its name in the log, and the trial write.
    pub fn new(what: &'static str, trial: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self { what, trouble: Mutex::default(), trial: Box::new(trial) }
    }

    /// A folder; the trial writes a file and removes it.
    pub fn folder(what: &'static str, folder: &Path) -> Self {
        let folder = folder.to_owned();
        Self::new(what, move || try_folder(&folder))
    }

    fn state(&self) -> MutexGuard<'_, Option<(Trouble, u64)>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current fault of the disk, if any.
    pub fn trouble(&self) -> Option<Trouble> {
        self.state().map(|(trouble, _)| trouble)
    }

    /// Refuses a request while the disk fails.
    ///
    /// # Errors
    /// `storage` (507).
    pub fn ready(&self) -> Result<(), Reply> {
        let Some((trouble, refused)) = &mut *self.state() else { return Ok(()) };
        *refused += 1;
        Err(no_room(*trouble))
    }

    /// Notes a failed write and refuses its request. The log gets a line for the first failure.
    pub fn failed(&self, error: &FileError) -> Reply {
        self.note(error.trouble(), error)
    }

    /// The same for a write that was not of a whole file.
    pub fn failed_writing(&self, error: &io::Error) -> Reply {
        self.note(Trouble::of(error), error)
    }

    /// The same for a known fault.
    pub fn note(&self, trouble: Trouble, error: &dyn Display) -> Reply {
        let mut state = self.state();
        if state.is_none() {
            tracing::error!(%error, "{} cannot be written: the disk {trouble}; requests that need it are refused until it takes them", self.what);
        }
        let refused = state.map_or(0, |(_, refused)| refused);
        *state = Some((trouble, refused + 1));
        drop(state);
        no_room(trouble)
    }

    /// Tries a failing disk again.
    pub fn try_again(&self) {
        if self.trouble().is_none() {
            return;
        }
        match (self.trial)() {
            Ok(()) => {
                let refused = self.state().take().map_or(0, |(_, refused)| refused);
                tracing::info!(refused, "{} can be written again", self.what);
            }
            Err(error) => {
                if let Some(state) = &mut *self.state() {
                    state.0 = Trouble::of(&error);
                }
            }
        }
    }
}

/// Writes a file, flushes it and removes it.
///
/// # Errors
/// The error of the system.
pub fn try_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new().prefix(".trial-").tempfile_in(folder)?;
    file.write_all(&[0; TRIAL_BYTES])?;
    file.as_file().sync_all()?;
    file.close()
}

/// The refusal of a request that needs a failing disk.
pub fn no_room(trouble: Trouble) -> Reply {
    let text = format!(
        "expected a disk that takes what is to be kept, found that the server's storage {trouble}: the request is not acknowledged. Send it again in some seconds; if this lasts, tell the server's operator"
    );
    Reply::new(StatusCode::INSUFFICIENT_STORAGE, "storage", text)
}

/// Tries failing disks every second until the server stops.
pub async fn keep_trying(mut stopped: Stop, again: impl Fn() + Clone + Send + 'static) {
    loop {
        tokio::select! {
            () = stopped.wait() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        if tokio::task::spawn_blocking(again.clone()).await.is_err() {
            tracing::error!("trying the disk failed");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    };

    #[test]
    fn fault_25_a_disk_refuses_while_it_fails_and_not_after_a_trial_that_went_well() {
        let (full, tried) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
        let (is_full, was_tried) = (Arc::clone(&full), Arc::clone(&tried));
        let disk = Disk::new("a place", move || {
            was_tried.store(true, SeqCst);
            if is_full.load(SeqCst) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        });
        disk.try_again();
        assert!(disk.ready().is_ok() && !tried.load(SeqCst), "what works is not tried");
        let reply = disk.note(Trouble::ReadOnly, &"a test");
        assert_eq!((reply.status.as_u16(), reply.word, disk.trouble()), (507, "storage", Some(Trouble::ReadOnly)));
        disk.try_again();
        assert_eq!((disk.ready().unwrap_err().status.as_u16(), disk.trouble()), (507, Some(Trouble::Full)));
        full.store(false, SeqCst);
        disk.try_again();
        assert!(disk.ready().is_ok() && disk.trouble().is_none());
    }

    #[test]
    fn a_folder_is_tried_and_nothing_is_left_there() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("not there yet");
        try_folder(&place).unwrap();
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
        fs::write(folder.path().join("file"), b"").unwrap();
        assert!(try_folder(&folder.path().join("file")).is_err());
    }
}
