//! Calls that take time: they release the interpreter's lock, and turn panics into exceptions.
//!
//! [`short`] is for work of milliseconds, [`pieces`] for many short pieces. [`long`] runs the work
//! on a thread of its own. Meanwhile it checks for signals at least ten times a second, so that
//! Ctrl-C raises `KeyboardInterrupt` at once, and reports progress to a callback. After an
//! interrupt the thread ends at the next piece of its work; work of a single piece runs to its end,
//! unseen.

use crate::errors::{failed, fault};
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Time between two checks for signals.
const POLL: Duration = Duration::from_millis(50);

/// The progress of work, and the request to stop.
#[derive(Default)]
pub(crate) struct Watch {
    stop: AtomicBool,
    done: AtomicU64,
    total: AtomicU64,
}

impl Watch {
    /// Sets the number of pieces.
    pub(crate) fn expect(&self, pieces: usize) {
        self.total.store(pieces as u64, Ordering::Relaxed);
    }

    /// Counts a finished piece.
    ///
    /// # Errors
    /// As [`Self::wanted`].
    pub(crate) fn step(&self) -> PyResult<()> {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.wanted()
    }

    /// Checks whether to continue.
    ///
    /// # Errors
    /// `tobari.Error` if the caller was interrupted; no caller sees this error.
    pub(crate) fn wanted(&self) -> PyResult<()> {
        if self.stop.load(Ordering::Relaxed) { Err(failed("interrupted")) } else { Ok(()) }
    }
}

/// Runs work without the interpreter's lock.
///
/// # Errors
/// The error of the work, or a fault instead of a panic.
pub(crate) fn short<T: Send>(py: Python<'_>, work: impl FnOnce() -> PyResult<T> + Send) -> PyResult<T> {
    py.detach(|| catch_unwind(AssertUnwindSafe(work))).unwrap_or_else(|_| Err(fault()))
}

/// Runs short work on one piece after another, and checks for signals between them.
///
/// # Errors
/// The error of the work, a fault instead of a panic, or `KeyboardInterrupt`; the effects of
/// finished pieces stay.
pub(crate) fn pieces<I: Send, T: Send>(
    py: Python<'_>,
    pieces: impl Iterator<Item = I>,
    mut work: impl FnMut(I) -> PyResult<T> + Send,
) -> PyResult<Vec<T>> {
    let one = |piece| {
        let done = short(py, || work(piece))?;
        py.check_signals().map(|()| done)
    };
    pieces.map(one).collect()
}

/// The receiver of progress, and the title of a progress bar.
pub(crate) type Progress<'a, 'py> = Option<(&'a Bound<'py, PyAny>, &'static str)>;

/// Runs work on a thread of its own. On every change it calls `progress(done, total)`, with a total
/// of 0 if the total is unknown; `True` shows a bar on the terminal.
///
/// # Errors
/// The error of the work, a fault instead of a panic, `KeyboardInterrupt`, or the callback's
/// exception.
pub(crate) fn long<T: Send + 'static>(
    py: Python<'_>,
    progress: Progress<'_, '_>,
    work: impl FnOnce(&Watch) -> PyResult<T> + Send + 'static,
) -> PyResult<T> {
    let Some((progress, what)) = progress else { return watched(py, None, work) };
    // Python code draws the bars
    let shown = py.import("tobari._progress")?.call_method1("shown", (progress, what))?;
    let callback = shown.call_method0("__enter__")?;
    let result = watched(py, Some(&callback).filter(|callback| !callback.is_none()), work);
    shown.call_method1("__exit__", (py.None(), py.None(), py.None()))?;
    result
}

fn watched<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Watch) -> PyResult<T> + Send + 'static,
) -> PyResult<T> {
    let watch = Arc::new(Watch::default());
    let (sender, mut receiver) = mpsc::sync_channel(1);
    let inside = Arc::clone(&watch);
    let thread = std::thread::Builder::new().name("tobari".to_owned()).spawn(move || {
        let result = catch_unwind(AssertUnwindSafe(|| work(&inside))).unwrap_or_else(|_| Err(fault()));
        // after Ctrl-C no caller waits for the result
        let _ = sender.send(result);
    });
    thread.map_err(|error| failed(format!("no thread to work on: {error}")))?;
    let mut shown = (0, 0);
    loop {
        let (back, received) = py.detach(move || {
            let received = receiver.recv_timeout(POLL);
            (receiver, received)
        });
        receiver = back;
        let outcome = match received {
            Ok(result) => Some(result),
            Err(mpsc::RecvTimeoutError::Timeout) => None,
            Err(mpsc::RecvTimeoutError::Disconnected) => Some(Err(fault())),
        };
        if let Err(error) = py.check_signals().and_then(|()| tell(progress, &watch, &mut shown)) {
            watch.stop.store(true, Ordering::Relaxed);
            return Err(error);
        }
        if let Some(result) = outcome {
            return result;
        }
    }
}

fn tell(progress: Option<&Bound<'_, PyAny>>, watch: &Watch, shown: &mut (u64, u64)) -> PyResult<()> {
    let now = (watch.done.load(Ordering::Relaxed), watch.total.load(Ordering::Relaxed));
    if let Some(progress) = progress.filter(|_| now != *shown) {
        progress.call1(now)?;
    }
    *shown = now;
    Ok(())
}

/// Waits for some seconds in 100 steps, as long work does, or panics afterwards: for tests of
/// interrupts and of faults.
#[pyfunction]
#[pyo3(signature = (seconds, progress=None, panic=false))]
fn _wait(py: Python<'_>, seconds: f64, progress: Option<&Bound<'_, PyAny>>, panic: bool) -> PyResult<()> {
    let time = Duration::try_from_secs_f64(seconds).map_err(failed)?;
    long(py, progress.map(|progress| (progress, "waiting")), move |watch| {
        watch.expect(100);
        let start = Instant::now();
        for piece in 1..=100u32 {
            std::thread::sleep((time * piece / 100).saturating_sub(start.elapsed()));
            watch.step()?;
        }
        assert!(!panic, "asked for");
        Ok(())
    })
}

/// Makes the function an attribute of the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_wait, module)?)
}
