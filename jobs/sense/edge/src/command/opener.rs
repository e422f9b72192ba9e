//! Opens results beside the thread that talks to the server, and writes what may be released.
//!
//! **It answers nothing**: the side that the server hears gives work, and goes on. So neither the
//! time that a result takes, nor whether it is released, moves a message to the server. Results
//! come over the disk, where they stay until there is a release: an error of the disk is said, and
//! the opener tries again.

use super::arguments::KeyholderArguments;
use super::folder::{MAX_RELEASE, wrong};
use super::keyholder::lines;
use crate::analyst::SharedFigures;
use serde_json::json;
use std::fs;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tobari_command::output::{self, Failure};
use tobari_host::files::{FileError, check_bounded, read_bounded, write_secret};
use tobari_sense::client::Withheld;
use tobari_sense::desk::ResultOpener;
use tobari_sense::message::MAX_MESSAGE;
use tobari_sense::question::Registered;
use tobari_sense::registry::Registry;
use tobari_sense::release::Release;

/// How long it waits after an error of the disk, and how often it looks meanwhile whether it is to
/// end.
const PAUSE: Duration = Duration::from_secs(10);
/// How often it tries: a minute and a half.
const TRIES: u32 = 10;
const LOOK: Duration = Duration::from_millis(100);

/// The name of a question, and when a window of it began.
pub(super) type Window = (String, u64);

/// What an opener is given.
pub(super) enum Work {
    /// A question that was checked.
    Question(Box<Registered>),
    /// A window whose result was opened in an earlier run.
    Opened(Window),
    /// A window whose results are on the disk.
    Fetched(Window, Arc<Registry>),
}

/// A thread that opens results.
pub(super) struct Opener {
    work: Sender<Work>,
    once: bool,
    ending: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), Failure>>,
}

/// What the thread has.
struct Opening {
    desk: ResultOpener,
    releases: PathBuf,
    figures: SharedFigures,
    json: bool,
    once: bool,
    ending: Arc<AtomicBool>,
}

impl Opener {
    /// Starts it, with the folder of releases.
    pub(super) fn start(
        desk: ResultOpener,
        releases: PathBuf,
        figures: SharedFigures,
        arguments: &KeyholderArguments,
    ) -> Result<Self, Failure> {
        let (work, taken) = mpsc::channel();
        let (json, once, ending) = (arguments.json, arguments.once, Arc::new(AtomicBool::new(false)));
        let opening = Opening { desk, releases, figures, json, once, ending: Arc::clone(&ending) };
        let thread = thread::Builder::new().name("opener".to_owned()).spawn(move || opening.run(&taken))?;
        Ok(Self { work, once, ending, thread })
    }

    /// Gives it work, and does not wait.
    pub(super) fn give(&self, work: Work) {
        // after an error it takes no more: fetched results are on the disk, and `finish` returns
        // the error
        _ = self.work.send(work);
    }

    /// Waits for the end of all work where the program runs once, and otherwise for the present
    /// window alone: the rest is on the disk.
    pub(super) fn finish(self) -> Result<(), Failure> {
        self.ending.store(!self.once, Ordering::Relaxed);
        drop(self.work);
        let ended = self.thread.join();
        ended.unwrap_or_else(|_| Err(Failure::Work("the thread that opens results has stopped".to_owned())))
    }
}

impl Opening {
    fn run(mut self, taken: &Receiver<Work>) -> Result<(), Failure> {
        for work in taken {
            if self.ending.load(Ordering::Relaxed) {
                break;
            }
            match work {
                // it was checked by the side that gives it
                Work::Question(registered) => _ = self.desk.register(*registered),
                Work::Opened((id, start_ms)) => self.desk.note_opened(&id, start_ms),
                Work::Fetched(window, registry) => {
                    if let Err(failure) = self.open(&window, &registry) {
                        if self.once {
                            return Err(failure);
                        }
                        output::say(format!("tobari: {failure}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Opens the results of a window, and writes a release, or that they are withheld.
    fn open(&mut self, (id, start_ms): &Window, registry: &Registry) -> Result<(), Failure> {
        let path = self.releases.join(id).join(start_ms.to_string()).with_extension("json");
        let fetched = path.with_extension("fetched");
        let results = self.lasting(|| Ok(read_bounded(&fetched, MAX_MESSAGE as u64)?))?;
        // a fault of this program must not end all releases: the result is withheld, and not opened
        // again
        let opening = AssertUnwindSafe(|| self.desk.open(id, *start_ms, &results, registry));
        let opened = catch_unwind(opening).unwrap_or_else(|_| {
            output::say(format!(
                "tobari: opening a result of {id} for the window at {start_ms} failed: please report it"
            ));
            Err(Withheld)
        });
        self.figures.write().unwrap_or_else(PoisonError::into_inner).count(self.desk.counts());
        let written = match &opened {
            Ok(release) => serde_json::to_vec(release)?,
            // a file of its own for a withheld result, too: nothing is opened twice
            Err(_) => serde_json::to_vec(&json!({ "withheld": true, "id": id, "start_ms": start_ms }))?,
        };
        check_bounded(&path, &written, MAX_RELEASE)?;
        self.lasting(|| keep(&path, &written))?;
        let shown = match opened {
            Ok(release) => self.show(release),
            Err(_) => {
                output::say(format!("a result of {id} for the window at {start_ms} is withheld"));
                Ok(())
            }
        };
        self.lasting(|| match fs::remove_file(&fetched) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(wrong(&fetched, error)),
            _ => Ok(()),
        })?;
        shown
    }

    /// Shows a release to people and to analysts.
    fn show(&self, release: Release) -> Result<(), Failure> {
        let shown = if self.json {
            output::json(&release)
        } else {
            lines(&release).into_iter().for_each(output::result);
            Ok(())
        };
        self.figures.write().unwrap_or_else(PoisonError::into_inner).add(release);
        shown
    }

    /// Does something with the disk, again where it fails, unless the program runs once or ends.
    /// After [`TRIES`] the window is left to the next start, so that others go on.
    fn lasting<T>(&self, act: impl Fn() -> Result<T, Failure>) -> Result<T, Failure> {
        let mut left = TRIES;
        loop {
            let failure = match act() {
                Ok(done) => return Ok(done),
                Err(failure) => failure,
            };
            left -= 1;
            if self.once || left == 0 {
                return Err(failure);
            }
            output::say(format!("tobari: {failure}; trying again in {} s", PAUSE.as_secs()));
            let tried = Instant::now();
            while tried.elapsed() < PAUSE {
                if self.ending.load(Ordering::Relaxed) {
                    return Err(failure);
                }
                thread::sleep(LOOK);
            }
        }
    }
}

/// Writes a file that nobody else may read, or finds it written: an error may come after the file
/// is there.
pub(super) fn keep(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    match write_secret(path, bytes) {
        Err(FileError::Exists { .. }) if read_bounded(path, bytes.len() as u64).is_ok_and(|there| *there == *bytes) => {
            Ok(())
        }
        written => Ok(written?),
    }
}
