//! Decrypts results on a separate thread from the connection to the server, and writes releases.
//!
//! **The opener sends no reply**: the thread that the server sees hands over work and goes on. So
//! neither the decryption time of a result nor its release changes the time of a message to the
//! server. Results arrive through the disk, and stay there until there is a release. The opener
//! reports a disk error and tries again.

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

/// The pause after a disk error. During a pause the opener checks every [`LOOK`] whether it must
/// stop.
const PAUSE: Duration = Duration::from_secs(10);
/// The number of tries, which take a minute and a half.
const TRIES: u32 = 10;
const LOOK: Duration = Duration::from_millis(100);

/// The name of a question, and the beginning of one of its windows.
pub(super) type Window = (String, u64);

/// Work for an opener.
pub(super) enum Work {
    /// A question that was checked.
    Question(Box<Registered>),
    /// A window whose result an earlier run decrypted.
    Opened(Window),
    /// A window whose results are on the disk.
    Fetched(Window, Arc<Registry>),
}

/// A thread that decrypts results.
pub(super) struct Opener {
    work: Sender<Work>,
    once: bool,
    ending: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), Failure>>,
}

/// The state of the thread.
struct Opening {
    desk: ResultOpener,
    releases: PathBuf,
    figures: SharedFigures,
    json: bool,
    once: bool,
    ending: Arc<AtomicBool>,
}

impl Opener {
    /// Starts the thread, with the folder of releases.
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

    /// Hands over work without waiting.
    pub(super) fn give(&self, work: Work) {
        // after an error the thread accepts no more work: fetched results are on the disk, and
        // `finish` returns the error
        _ = self.work.send(work);
    }

    /// Waits for the end of all work if the program runs once. Otherwise it waits only for the
    /// present window; the rest is on the disk.
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
                // the other thread checked it
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

    /// Decrypts the results of a window, and writes a release or a note that they are withheld.
    fn open(&mut self, (id, start_ms): &Window, registry: &Registry) -> Result<(), Failure> {
        let path = self.releases.join(id).join(start_ms.to_string()).with_extension("json");
        let fetched = path.with_extension("fetched");
        let results = self.lasting(|| Ok(read_bounded(&fetched, MAX_MESSAGE as u64)?))?;
        // a bug in this program must not end all releases: the result is withheld, and not
        // decrypted again
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
            // a withheld result gets a file, too, so that nothing is decrypted twice
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

    /// Gives a release to standard output and to analysts.
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

    /// Runs a disk operation, and repeats it after errors unless the program runs once or stops.
    /// After [`TRIES`] the window is left to the next start, so that other windows can go on.
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

/// Writes a file that nobody else can read. If the file already exists with these bytes, the call
/// succeeds: an earlier error may have followed the writing.
pub(super) fn keep(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    match write_secret(path, bytes) {
        Err(FileError::Exists { .. }) if read_bounded(path, bytes.len() as u64).is_ok_and(|there| *there == *bytes) => {
            Ok(())
        }
        written => Ok(written?),
    }
}
