//! Where a member's sound comes from and goes to: WAV files, raw samples on standard input and output, and recordings.

use crate::output::Failure;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use tobari_apps::call::PACKET_SAMPLES;
use tobari_apps::call::live::recording;
use tobari_core::wire::RoomId;
use tobari_host::wav;

type Frame = [i16; PACKET_SAMPLES];
/// Frames that are read ahead, or wait to be written: what is read faster than it is spoken waits.
const AHEAD: usize = 50;

/// What there is to say.
pub(super) enum Mouth {
    Nothing,
    Recording { frames: std::vec::IntoIter<Frame> },
    Stream { frames: Receiver<Frame>, over: bool },
}

impl Mouth {
    pub(super) fn open(input: Option<&Path>) -> Result<Self, Failure> {
        match input {
            None => Ok(Self::Nothing),
            Some(path) if path == Path::new("-") => {
                let (sender, frames) = sync_channel(AHEAD);
                thread::spawn(move || read_frames(&mut std::io::stdin().lock(), &sender));
                Ok(Self::Stream { frames, over: false })
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

    /// The next 20 ms: silence where nothing is there.
    pub(super) fn next(&mut self) -> Frame {
        let silence = [0; PACKET_SAMPLES];
        match self {
            Self::Nothing => silence,
            Self::Recording { frames } => frames.next().unwrap_or(silence),
            Self::Stream { frames, over } => match frames.try_recv() {
                Ok(frame) => frame,
                Err(TryRecvError::Empty) => silence,
                Err(TryRecvError::Disconnected) => {
                    *over = true;
                    silence
                }
            },
        }
    }

    /// Was there something to say, and is all of it said?
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Recording { frames } => frames.len() == 0,
            Self::Stream { over, .. } => *over,
        }
    }
}

/// Reads until the end; the last frame is filled up with silence.
fn read_frames(input: &mut impl Read, frames: &SyncSender<Frame>) {
    loop {
        let (mut bytes, mut read) = ([0; 2 * PACKET_SAMPLES], 0);
        while read < bytes.len() {
            match input.read(&mut bytes[read..]) {
                Ok(0) | Err(_) => break,
                Ok(count) => read += count,
            }
        }
        let mut frame = [0; PACKET_SAMPLES];
        frame.iter_mut().zip(bytes.as_chunks().0).for_each(|(sample, bytes)| *sample = i16::from_le_bytes(*bytes));
        if read == 0 || frames.send(frame).is_err() || read < bytes.len() {
            return;
        }
    }
}

/// Where what is heard goes.
pub(super) enum Sink {
    Nowhere,
    Recording { path: PathBuf, samples: Vec<i16> },
    Stream { frames: Option<SyncSender<Frame>>, writer: Option<thread::JoinHandle<()>> },
}

impl Sink {
    pub(super) fn open(output: Option<&Path>) -> Result<Self, Failure> {
        match output {
            None => Ok(Self::Nowhere),
            Some(path) if path == Path::new("-") => {
                let (frames, receiver) = sync_channel(AHEAD);
                let writer = thread::spawn(move || write_frames(&mut std::io::stdout().lock(), &receiver));
                Ok(Self::Stream { frames: Some(frames), writer: Some(writer) })
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

    /// 20 ms more.
    pub(super) fn take(&mut self, frame: &Frame) -> Result<(), Failure> {
        match self {
            Self::Nowhere | Self::Stream { frames: None, .. } => {}
            Self::Recording { samples, .. } => samples.extend_from_slice(frame),
            // a reader that does not keep up misses something; one that is gone ends the call
            Self::Stream { frames: Some(frames), .. } => match frames.try_send(*frame) {
                Ok(()) | Err(std::sync::mpsc::TrySendError::Full(_)) => {}
                Err(std::sync::mpsc::TrySendError::Disconnected(_)) => {
                    return Err(Failure::Work("nobody reads standard output any more".to_owned()));
                }
            },
        }
        Ok(())
    }

    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        match self {
            Self::Nowhere => Ok(()),
            Self::Recording { path, samples } => Ok(wav::write_pcm16(path, samples)?),
            Self::Stream { frames, writer } => {
                drop(frames.take());
                // what it could not write nobody reads
                let _ = writer.take().map(thread::JoinHandle::join);
                Ok(())
            }
        }
    }
}

fn write_frames(output: &mut impl Write, frames: &Receiver<Frame>) {
    while let Ok(frame) = frames.recv() {
        let bytes: Vec<u8> = frame.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        if output.write_all(&bytes).and_then(|()| output.flush()).is_err() {
            return;
        }
    }
}

/// Writes a recording beside its name, which it gets at the end.
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

    #[test]
    fn raw_samples_are_read_to_the_end_and_written_as_they_were() {
        let samples: Vec<i16> = (0..700).map(|i| i * 31 - 9000).collect();
        let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        let (sender, receiver) = sync_channel(10);
        read_frames(&mut &bytes[..], &sender);
        drop(sender);
        let mut out = Vec::new();
        write_frames(&mut out, &receiver);
        assert_eq!(out.len(), 3 * 640);
        assert_eq!(out[..bytes.len()], bytes);
        assert!(out[bytes.len()..].iter().all(|byte| *byte == 0));
    }
}
