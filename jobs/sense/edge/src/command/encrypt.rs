//! `tobari sense encrypt`: a device encrypts its readings.
//!
//! **A reading counts once.** A file is read and checked as a whole before its first frame exists,
//! so an error in its last line leaves nothing behind. Its frames go through the device's outbox
//! ([`Outbox`]). The same command, given again after an error, sends the rest and seals nothing
//! twice: a file is recognised by its content and the time of its last change.
//!
//! A pipe has no end to wait for. Its readings are sealed and sent every few seconds. If it ends
//! before that, it is handled as a file: after an error nothing has left.

use super::arguments::{EncryptArguments, FormArguments};
use super::folder::{counter_of, wrong};
use super::readings::{Row, rows};
use super::sending::{self, Sending};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tobari_command::output::{self, Failure};
use tobari_command::stop::stop_signal;
use tobari_device::{Device, Profile, Stamp};
use tobari_host::files::write_atomically;
use tobari_sense::registry::Token;
use tobari_sense::schema::{Counting, Schema};
use tobari_sense::with_profile;
use tobari_sense_files::{CounterFile, Mark, Outbox};

/// Rows of a pipe after which its frames are sent even before the time.
const MOST_ROWS: usize = 1 << 16;
/// Rows of a pipe that are read ahead.
const AHEAD: usize = 1024;

/// Encrypts readings.
pub(super) fn run(arguments: &EncryptArguments) -> Result<(), Failure> {
    let (card, token) = sending::device(&arguments.sender)?;
    let sending = Sending::new(&arguments.sender, &card, &token)?;
    with_profile!(token.profile, P => sealed::<P>(arguments, &card.schema, &token, sending))
}

fn sealed<P: Profile>(
    arguments: &EncryptArguments,
    schema: &Schema,
    token: &Token,
    sending: Option<Sending>,
) -> Result<(), Failure> {
    let path = &arguments.sender.device;
    // one process at a time has the counter, and with it the outbox
    let counter = CounterFile::open(&counter_of(path))?;
    let device = Device::<P, _>::open(&token.root(), token.number, counter).map_err(|error| wrong(path, error))?;
    let (samples, frames, written) = Default::default();
    let mut sealing = Sealing { arguments, schema, token, device, samples, frames, written };
    let source = Source::open(&arguments.readings)?;
    let Some(mut sending) = sending else {
        let (rows, _) = source.whole((schema, &arguments.form), token)?;
        sealing.seal(&rows, |_| Ok(()))?;
        sealing.write()?;
        return sealing.told(None, false);
    };
    let mut outbox = sending::open(path, token)?;
    let mut is_known = false;
    if let Source::Pipe(pipe) = source {
        sealing.follow(pipe, &mut outbox, &mut sending)?;
    } else {
        let (rows, mark) = source.whole((schema, &arguments.form), token)?;
        is_known = !arguments.again && mark.is_some_and(|mark| outbox.knows(&mark));
        if !is_known {
            sealing.keep(&rows, mark, &mut outbox)?;
            sealing.write()?;
        }
    }
    sending.drain(&mut outbox).map_err(|failure| sending.kept(&outbox, &failure))?;
    sending.refusals()?;
    sealing.told(Some(&sending), is_known)
}

/// Where readings come from.
enum Source {
    /// A file, which has an end.
    File(PathBuf, File),
    /// Anything else.
    Pipe(Box<dyn Read + Send>),
}

impl Source {
    fn open(path: &Path) -> Result<Self, Failure> {
        let file = match path == Path::new("-") {
            true => stdin_as_file(),
            false => Some(File::open(path).map_err(|error| wrong(path, error))?),
        };
        Ok(match file {
            Some(file) if file.metadata().is_ok_and(|found| found.is_file()) => Self::File(path.to_owned(), file),
            Some(file) => Self::Pipe(Box::new(file)),
            None => Self::Pipe(Box::new(io::stdin())),
        })
    }

    /// All rows, and the mark of a file.
    fn whole(self, form: (&Schema, &FormArguments), token: &Token) -> Result<(Vec<Row>, Option<Mark>), Failure> {
        let mut all = Vec::new();
        let take = |_, row| {
            all.push(row);
            Ok(())
        };
        let (path, file) = match self {
            Self::File(path, file) => (path, file),
            Self::Pipe(pipe) => {
                rows(BufReader::new(pipe), Path::new("-"), form, take)?;
                return Ok((all, None));
            }
        };
        let before = state(&file);
        let mut digest = Sha256::new();
        // under the device's secret: the mark tells nothing about the readings
        digest.update(token.encode().as_bytes());
        let mut reader = Digesting { file: &file, digest };
        rows(BufReader::new(&mut reader), &path, form, take)?;
        let after = state(&file);
        if before != after {
            return Err(wrong(&path, "the file changed while it was read, and nothing was encrypted: run again"));
        }
        let mark = after.map(|(bytes, changed_ns)| {
            reader.digest.update(bytes.to_be_bytes());
            reader.digest.update(changed_ns.to_be_bytes());
            Mark(reader.digest.finalize().into())
        });
        Ok((all, mark))
    }
}

/// The present time in seconds since 1970.
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Rows by slice of time: the beginning of the slice, and the numbers of its rows in their order.
fn slices(schema: &Schema, rows: &[Row]) -> Result<BTreeMap<u64, Vec<Vec<u32>>>, Failure> {
    let (length, now) = (schema.slice_seconds()?, now_s());
    let mut slices: BTreeMap<u64, Vec<Vec<u32>>> = BTreeMap::new();
    for row in rows {
        // version 1 has no slices
        let begin = row.at.unwrap_or(now).checked_div(length).map_or(0, |slices| slices * length);
        slices.entry(begin).or_default().push(row.numbers.clone());
    }
    Ok(slices)
}

/// The length of a file and the time of its last change, in nanoseconds since 1970.
fn state(file: &File) -> Option<(u64, u128)> {
    let found = file.metadata().ok()?;
    let changed = found.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some((found.len(), changed.as_nanos()))
}

#[cfg(unix)]
fn stdin_as_file() -> Option<File> {
    use std::os::fd::AsFd;
    io::stdin().as_fd().try_clone_to_owned().ok().map(File::from)
}

#[cfg(not(unix))]
fn stdin_as_file() -> Option<File> {
    None
}

/// A file whose bytes are hashed on the way.
struct Digesting<'a> {
    file: &'a File,
    digest: Sha256,
}

impl Read for Digesting<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.digest.update(&buffer[..count]);
        Ok(count)
    }
}

/// What a pipe gives.
enum Event {
    /// The number of a line, and its readings.
    Row(u64, Row),
    /// The end of the pipe, perhaps by an error.
    End(Result<(), Failure>),
    /// A signal to stop.
    Stop,
}

/// A device that seals readings.
struct Sealing<'a, P: Profile> {
    arguments: &'a EncryptArguments,
    schema: &'a Schema,
    token: &'a Token,
    device: Device<P, CounterFile>,
    samples: u64,
    frames: u64,
    /// Frames for the file of `--output`.
    written: Vec<u8>,
}

impl<P: Profile> Sealing<'_, P> {
    /// Seals rows, and passes each frame to `take`.
    ///
    /// A frame has rows of one slice of time: rows without a time are of now. In version 1 all rows
    /// are of one slice.
    fn seal(&mut self, rows: &[Row], mut take: impl FnMut(&[u8]) -> io::Result<()>) -> Result<(), Failure> {
        for (second, rows) in slices(self.schema, rows)? {
            for rows in rows.chunks(self.schema.samples) {
                for (sheet, readings) in (0..).zip(self.schema.frames(rows)?) {
                    let no_time =
                        || wrong(&self.arguments.readings, "expected a time below 2^40 seconds, found a later one");
                    let stamp = Stamp::new(second, sheet).ok_or_else(no_time)?;
                    let mut frame = P::EMPTY;
                    let sealed = self.device.seal_at(stamp.into(), &readings, &mut frame);
                    sealed.map_err(|error| wrong(&self.arguments.sender.device, error))?;
                    take(frame.as_ref())?;
                    if self.arguments.output.is_some() {
                        self.written.extend_from_slice(frame.as_ref());
                    }
                    self.frames += 1;
                }
                self.samples += rows.len() as u64;
            }
        }
        Ok(())
    }

    /// Takes out the rows of a pipe that wait for more of their slice, because frames must be full:
    /// those of the newest slice that do not fill a frame.
    fn waiting(&self, rows: &mut Vec<Row>) -> Result<Vec<Row>, Failure> {
        if self.schema.counting() != Counting::Full {
            return Ok(Vec::new());
        }
        let mut slices = slices(self.schema, rows)?;
        let Some(mut newest) = slices.last_entry() else { return Ok(Vec::new()) };
        let full = newest.get().len() / self.schema.samples * self.schema.samples;
        let (second, rest) = (*newest.key(), newest.get_mut().split_off(full));
        let row = |at: u64, numbers| Row { at: Some(at), numbers };
        *rows = slices.into_iter().flat_map(|(at, all)| all.into_iter().map(move |numbers| row(at, numbers))).collect();
        Ok(rest.into_iter().map(|numbers| row(second, numbers)).collect())
    }

    /// Seals rows into the outbox: all of them, or none.
    fn keep(&mut self, rows: &[Row], mark: Option<Mark>, outbox: &mut Outbox) -> Result<(), Failure> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut draft = outbox.draft(self.token.profile, mark)?;
        self.seal(rows, |frame| draft.push(frame))?;
        Ok(outbox.add(draft)?)
    }

    /// Seals the readings of a pipe and sends them every few seconds, until the pipe ends. What
    /// cannot be sent stays in the outbox and is tried again.
    fn follow(
        &mut self,
        pipe: Box<dyn Read + Send>,
        outbox: &mut Outbox,
        sending: &mut Sending,
    ) -> Result<(), Failure> {
        let events = self.events(pipe, sending)?;
        let pause = Duration::from_secs(self.arguments.flush_every.into());
        let (mut rows, mut last, mut due): (Vec<Row>, u64, Option<Instant>) = Default::default();
        loop {
            let event = match due {
                Some(due) => events.recv_timeout(due.saturating_duration_since(Instant::now())),
                None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let ended = match event {
                Ok(Event::Row(line, row)) => {
                    due.get_or_insert_with(|| Instant::now() + pause);
                    let at = row.at.or_else(|| Some(now_s()));
                    rows.push(Row { at, ..row });
                    last = line;
                    if rows.len() < MOST_ROWS {
                        continue;
                    }
                    None
                }
                Err(RecvTimeoutError::Timeout) => None,
                Ok(Event::End(Err(failure))) if self.frames == 0 => {
                    return Err(Failure::Work(format!("{failure}. Nothing was sent: mend the line, and run again")));
                }
                Ok(Event::End(ended)) => Some(ended),
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => Some(Ok(())),
            };
            let waiting = if ended.is_none() { self.waiting(&mut rows)? } else { Vec::new() };
            self.keep(&rows, None, outbox)?;
            rows = waiting;
            match ended {
                None => {}
                Some(Ok(())) => return self.write(),
                Some(Err(failure)) => {
                    self.write()?;
                    sending.drain(outbox).map_err(|failure| sending.kept(outbox, &failure))?;
                    return Err(Failure::Work(format!(
                        "{failure}. The readings up to line {last} are encrypted and count: go on with the line after it"
                    )));
                }
            }
            if let Err(failure) = sending.drain(outbox) {
                output::say(format!("tobari: {}", sending.kept(outbox, &failure)));
            }
            due = (outbox.waiting() > 0).then(|| Instant::now() + pause);
        }
    }

    /// Reads the pipe on a thread of its own, and waits for signals.
    fn events(&self, pipe: Box<dyn Read + Send>, sending: &Sending) -> Result<Receiver<Event>, Failure> {
        let (events, taken): (SyncSender<Event>, _) = sync_channel(AHEAD);
        let (schema, form) = (self.schema.clone(), self.arguments.form.clone());
        let (path, stop) = (self.arguments.readings.clone(), events.clone());
        sending.runtime().spawn(async move {
            stop_signal(false).await;
            _ = tokio::task::spawn_blocking(move || stop.send(Event::Stop)).await;
        });
        let gone = || Failure::Work("the device has stopped".to_owned());
        let read = move || {
            let take = |line, row| events.send(Event::Row(line, row)).map_err(|_| gone());
            let ended = rows(BufReader::new(pipe), &path, (&schema, &form), take);
            // without a receiver the command has ended
            _ = events.send(Event::End(ended));
        };
        std::thread::Builder::new().name("readings".to_owned()).spawn(read)?;
        Ok(taken)
    }

    /// Writes the file of `--output`.
    fn write(&self) -> Result<(), Failure> {
        match self.arguments.output.as_deref() {
            Some(path) if path == Path::new("-") => {
                let mut out = io::stdout().lock();
                out.write_all(&self.written)?;
                Ok(out.flush()?)
            }
            Some(path) => Ok(write_atomically(path, &self.written)?),
            None => Ok(()),
        }
    }

    fn told(&self, sending: Option<&Sending>, is_known: bool) -> Result<(), Failure> {
        let (samples, frames) = (self.samples, self.frames);
        if self.arguments.json {
            let mut line = json!({ "samples": samples, "frames": frames, "frame_bytes": P::FRAME });
            if is_known {
                line["encrypted_before"] = json!(true);
            }
            if let Some(sending) = sending {
                sending.tell(&mut line);
            }
            return output::json(&line);
        }
        let server = sending.map(Sending::told).unwrap_or_default();
        if is_known {
            let path = self.arguments.readings.display();
            output::say(format!(
                "{path}: encrypted before, and unchanged since: nothing is encrypted twice (--again does){server}"
            ));
        } else {
            output::say(format!("{samples} samples in {frames} frames of {} bytes{server}", P::FRAME));
        }
        Ok(())
    }
}
