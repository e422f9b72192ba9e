//! Audio input and output of a member: WAV files, raw samples on standard input and output, and
//! recordings.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use tobari_call::PACKET_SAMPLES;
use tobari_call::live::audio::{Backlog, Outlet};
use tobari_call::live::recording;
use tobari_call_files::wav;
use tobari_command::output::Failure;
use tobari_curve::wire::RoomId;

type Frame = [i16; PACKET_SAMPLES];
/// Bytes in the pipe of standard output. A larger pipe adds delay if its reader is slow.
#[cfg(unix)]
const PIPE: usize = 4096;

/// A value shared by two threads, with a condition variable.
pub(super) struct Shared<T> {
    what: Mutex<T>,
    changed: Condvar,
}

impl<T> Shared<T> {
    fn new(what: T) -> Arc<Self> {
        Arc::new(Self { what: Mutex::new(what), changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        self.what.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while the condition holds.
    fn wait_while(&self, holds: impl FnMut(&mut T) -> bool) -> MutexGuard<'_, T> {
        self.changed.wait_while(self.lock(), holds).unwrap_or_else(PoisonError::into_inner)
    }
}

/// The audio input.
pub(super) enum Mouth {
    Nothing,
    Recording { frames: std::vec::IntoIter<Frame> },
    Stream(StandardInput),
}

/// Raw samples of another program, which writes at its own pace.
pub(super) struct StandardInput(Arc<Shared<Backlog>>);

impl Mouth {
    pub(super) fn open(input: Option<&Path>) -> Result<Self, Failure> {
        match input {
            None => Ok(Self::Nothing),
            Some(path) if path == Path::new("-") => {
                let backlog = Shared::new(Backlog::default());
                let writes = Arc::clone(&backlog);
                thread::spawn(move || read_samples(&mut std::io::stdin().lock(), &writes));
                Ok(Self::Stream(StandardInput(backlog)))
            }
            Some(path) => {
                let samples = wav::read_speech(path)?;
                let mut frames = vec![[0; PACKET_SAMPLES]; samples.len().div_ceil(PACKET_SAMPLES)];
                for (frame, samples) in frames.iter_mut().zip(samples.chunks(PACKET_SAMPLES)) {
                    frame[..samples.len()].copy_from_slice(samples);
                }
                Ok(Self::Recording { frames: frames.into_iter() })
            }
        }
    }

    /// The next 20 ms; silence if there is no input.
    pub(super) fn next(&mut self) -> Frame {
        let silence = [0; PACKET_SAMPLES];
        match self {
            Self::Nothing => silence,
            Self::Recording { frames } => frames.next().unwrap_or(silence),
            Self::Stream(StandardInput(backlog)) => {
                let frame = backlog.lock().pull();
                backlog.changed.notify_all();
                frame
            }
        }
    }

    /// Skips 20 ms in which this member may not speak: a file waits, and live input is discarded.
    pub(super) fn wait(&mut self) {
        if let Self::Stream(StandardInput(backlog)) = self {
            backlog.lock().wait();
            backlog.changed.notify_all();
        }
    }

    /// Was there an input, and has it ended?
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Recording { frames } => frames.len() == 0,
            Self::Stream(StandardInput(backlog)) => backlog.lock().is_over(),
        }
    }
}

/// Reads until the end. If the backlog is full, reading pauses until there is room.
fn read_samples(input: &mut impl Read, backlog: &Shared<Backlog>) {
    let (mut bytes, mut half) = ([0; 2 * PACKET_SAMPLES], 0);
    while let Ok(count @ 1..) = input.read(&mut bytes[half..]) {
        let read = half + count;
        let mut samples: Vec<i16> =
            bytes[..read].as_chunks().0.iter().map(|bytes| i16::from_le_bytes(*bytes)).collect();
        while !samples.is_empty() {
            let taken = backlog.wait_while(|backlog| backlog.room() == 0).push(&samples);
            samples.drain(..taken);
        }
        // keep the first byte of a split sample
        half = read % 2;
        bytes[0] = bytes[read - 1];
    }
    backlog.lock().end();
}

/// The audio output.
pub(super) enum Sink {
    Nowhere,
    Recording { path: PathBuf, samples: Vec<i16> },
    Stream { frames: Arc<Shared<ReaderBuffer>>, writer: Option<thread::JoinHandle<()>> },
}

/// Samples for another program, which reads at its own pace.
#[derive(Default)]
pub(super) struct ReaderBuffer {
    outlet: Outlet,
    /// Has the reader gone? And (`is_over`) has the input ended?
    is_gone: bool,
    is_over: bool,
}

impl Sink {
    pub(super) fn open(output: Option<&Path>) -> Result<Self, Failure> {
        match output {
            None => Ok(Self::Nowhere),
            Some(path) if path == Path::new("-") => {
                #[cfg(unix)]
                tobari_host::pipe::limit(std::io::stdout(), PIPE);
                let frames = Shared::new(ReaderBuffer::default());
                let reads = Arc::clone(&frames);
                let writer = thread::spawn(move || write_frames(&mut std::io::stdout().lock(), &reads));
                Ok(Self::Stream { frames, writer: Some(writer) })
            }
            Some(path) => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
                if !folder.is_dir() {
                    let text = format!("{}: there is no folder {}", path.display(), folder.display());
                    return Err(Failure::Work(text));
                }
                Ok(Self::Recording { path: path.to_owned(), samples: Vec::new() })
            }
        }
    }

    /// Writes 20 ms.
    pub(super) fn take(&mut self, frame: &Frame) -> Result<(), Failure> {
        match self {
            Self::Nowhere => {}
            Self::Recording { samples, .. } => samples.extend_from_slice(frame),
            // a slow reader misses frames; a closed pipe ends the call
            Self::Stream { frames, .. } => {
                let mut heard = frames.lock();
                if heard.is_gone {
                    return Err(Failure::Work("nobody reads standard output any more".to_owned()));
                }
                heard.outlet.push(frame);
                frames.changed.notify_all();
            }
        }
        Ok(())
    }

    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        match self {
            Self::Nowhere => Ok(()),
            Self::Recording { path, samples } => Ok(wav::write_pcm16(path, samples)?),
            Self::Stream { frames, writer } => {
                frames.lock().is_over = true;
                frames.changed.notify_all();
                // no reader is left for the rest
                let _ = writer.take().map(thread::JoinHandle::join);
                Ok(())
            }
        }
    }
}

fn write_frames(output: &mut impl Write, frames: &Shared<ReaderBuffer>) {
    loop {
        let next = frames.wait_while(|heard| heard.outlet.waiting() == 0 && !heard.is_over).outlet.pull();
        let Some(frame) = next else { return };
        let bytes: Vec<u8> = frame.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        if output.write_all(&bytes).and_then(|()| output.flush()).is_err() {
            frames.lock().is_gone = true;
            return;
        }
    }
}

/// Writes a recording to a temporary file, which gets its name at the end.
pub(super) struct Recorder {
    room: RoomId,
    path: PathBuf,
    part: PathBuf,
    file: BufWriter<File>,
}

impl Recorder {
    pub(super) fn create(path: &Path, room: RoomId) -> Result<Self, Failure> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let fault = |error: std::io::Error| Failure::Work(format!("{}: {error}", part.display()));
        let mut file = BufWriter::new(File::create(&part).map_err(fault)?);
        file.write_all(&recording::begin(room)).map_err(fault)?;
        Ok(Self { room, path: path.to_owned(), part, file })
    }

    /// The room that is recorded.
    pub(super) fn room(&self) -> RoomId {
        self.room
    }

    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if let Some(record) = recording::record(bytes) {
            self.file.write_all(&record)?;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<(), Failure> {
        let file = self.file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        file.sync_all()?;
        Ok(std::fs::rename(&self.part, &self.path)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Yields three bytes at a time, so that samples are split.
    struct Drops<'a>(&'a [u8]);

    impl Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let length = buffer.len().min(3);
            self.0.read(&mut buffer[..length])
        }
    }

    #[test]
    fn raw_samples_are_read_to_the_end_and_written_as_they_were() {
        let samples: Vec<i16> = (0..700).map(|i| i * 31 - 9000).collect();
        let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        let backlog = Shared::new(Backlog::default());
        read_samples(&mut Drops(&bytes), &backlog);
        let mut mouth = Mouth::Stream(StandardInput(backlog));
        let frames = Shared::new(ReaderBuffer::default());
        while !mouth.is_over() {
            frames.lock().outlet.push(&mouth.next());
        }
        frames.lock().is_over = true;
        let mut out = Vec::new();
        write_frames(&mut out, &frames);
        assert_eq!(out.len(), 3 * 640);
        assert_eq!(out[..bytes.len()], bytes);
        assert!(out[bytes.len()..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_file_of_a_minute_waits_and_is_said_whole() {
        let samples: Vec<i16> = (0..60 * 16_000).map(|i| (i % 30_011) as i16).collect();
        let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        let backlog = Shared::new(Backlog::default());
        let writes = Arc::clone(&backlog);
        let reader = thread::spawn(move || read_samples(&mut &bytes[..], &writes));
        drop(backlog.wait_until_full());
        let (mut mouth, mut said) = (Mouth::Stream(StandardInput(backlog)), Vec::new());
        while !mouth.is_over() {
            said.extend(mouth.next());
            // as fast as the reader fills up; the rest fits, so the reader ends before the last
            // frames
            let Mouth::Stream(StandardInput(backlog)) = &mouth else { return };
            if said.len() + Backlog::MOST < samples.len() {
                drop(backlog.wait_until_full());
            } else {
                while !reader.is_finished() {
                    thread::yield_now();
                }
            }
        }
        reader.join().unwrap();
        assert!(said[..samples.len()] == samples, "the file is said whole");
    }

    impl Shared<Backlog> {
        fn wait_until_full(&self) -> MutexGuard<'_, Backlog> {
            loop {
                let backlog = self.lock();
                if backlog.room() == 0 {
                    return backlog;
                }
                drop(backlog);
                thread::yield_now();
            }
        }
    }
}
