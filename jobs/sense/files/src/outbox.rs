//! A device's outbox: sealed frames that no server has confirmed yet.
//!
//! ```text
//!   DEVICE.outbox/{number}.frames   a head, and the frames of one input
//!   DEVICE.outbox/{number}.sent     confirmed frames: a decimal number and a line's end
//!   DEVICE.outbox/refused-…         frames that a server rejected for good
//!   DEVICE.outbox/inputs            the marks of the last inputs, a line each
//! ```
//!
//! | bytes | head |
//! |---|---|
//! | 4 | `TSO`, version 1 |
//! | 1 | code of the profile |
//! | 8 | fleet |
//! | 32 | mark of the input, or zeros |
//!
//! **A reading is sealed once.** All frames of an input appear together, by one rename, and on the
//! disk before the first of them leaves. They are sent byte for byte until a server has confirmed
//! them, so a server that has stored them already recognises them. A crash at any moment leaves a
//! whole input or none. An input with the mark of an earlier one is known ([`Outbox::knows`]):
//! the same command, given again after an error, seals nothing twice.
//!
//! **The oldest frames go first, and a part goes out only after the part before it was confirmed.**
//! A part spans [`SPAN`] counters at most. A server remembers as many frames of a device, and so it
//! recognises every frame of a part that is sent again.
//!
//! The caller holds the lock of the device's counter ([`super::CounterFile`]), so one process at a
//! time uses an outbox.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile};
use tobari_device::Head;
use tobari_host::files::{
    FileError, directory_of, persist, read_bounded, sync_directory, temporary, write_atomically, write_secret,
};
use tobari_octets::{hex, unhex_lower};
use tobari_sense::ProfileName;
use tobari_sense::registry::FLEET;

/// Counters that a part spans at most: as many as a server remembers of a device.
pub const SPAN: u32 = 256;
const MAGIC: [u8; 4] = *b"TSO\x01";
const HEAD: usize = 4 + 1 + FLEET + MARK;
const MARK: usize = 32;
/// Marks of inputs that are remembered.
const MARKS: usize = 256;
const MOST_BYTES: u64 = (MARKS as u64) * 66;

/// Why an outbox cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutboxError {
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file of the outbox was changed.
    #[error(
        "{}: expected frames that this program kept, found something else. Move the file away; its readings have to \
         be encrypted again",
        .0.display()
    )]
    Damaged(PathBuf),
    /// The frames are another fleet's.
    #[error("{}: expected frames of this device's fleet, found another's: move the folder away", .0.display())]
    Fleet(PathBuf),
}

/// What an input is recognised by; the caller computes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(pub [u8; MARK]);

/// The frames of one input.
struct Entry {
    number: u64,
    mark: Option<Mark>,
    profile: ProfileName,
    frames: u64,
    sent: u64,
}

/// Frames of one fleet that wait for a server.
pub struct Outbox {
    folder: PathBuf,
    fleet: [u8; FLEET],
    entries: VecDeque<Entry>,
    marks: VecDeque<Mark>,
}

/// Frames that are being added. Dropped, they leave nothing behind.
pub struct Draft {
    file: BufWriter<NamedTempFile>,
    frames: u64,
    mark: Option<Mark>,
    profile: ProfileName,
}

impl Draft {
    /// Adds a frame.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn push(&mut self, frame: &[u8]) -> io::Result<()> {
        self.frames += 1;
        self.file.write_all(frame)
    }
}

fn reading(path: &Path) -> impl Fn(io::Error) -> FileError {
    move |source| FileError::Read { name: path.display().to_string(), source }
}

fn writing(path: &Path) -> impl Fn(io::Error) -> FileError {
    move |source| FileError::Write { name: path.display().to_string(), source }
}

impl Outbox {
    /// Opens a folder, or makes it. Files that were being written when the program ended are
    /// removed.
    ///
    /// # Errors
    /// [`OutboxError`].
    pub fn open(folder: &Path, fleet: [u8; FLEET]) -> Result<Self, OutboxError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder).map_err(writing(folder))?;
        sync_directory(directory_of(folder)).map_err(writing(folder))?;
        let mut outbox = Self { folder: folder.to_owned(), fleet, entries: VecDeque::new(), marks: VecDeque::new() };
        outbox.marks = outbox.read_marks()?;
        let (mut numbers, mut counts) = (Vec::new(), Vec::new());
        for file in fs::read_dir(folder).map_err(reading(folder))? {
            let path = file.map_err(reading(folder))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            match name.split_once('.') {
                Some((number, "frames")) => numbers.extend(number.parse::<u64>()),
                Some((number, "sent")) => counts.extend(number.parse::<u64>()),
                Some(("", _)) if name.starts_with(".tmp") => fs::remove_file(&path).map_err(writing(&path))?,
                _ => {}
            }
        }
        numbers.sort_unstable();
        // the program was killed after all frames of these were confirmed
        for number in counts.into_iter().filter(|number| numbers.binary_search(number).is_err()) {
            outbox.remove(&outbox.path(number, "sent"))?;
        }
        for number in numbers {
            let entry = outbox.entry(number)?;
            outbox.entries.push_back(entry);
        }
        outbox.finish()?;
        Ok(outbox)
    }

    fn path(&self, number: u64, extension: &str) -> PathBuf {
        self.folder.join(format!("{number:010}.{extension}"))
    }

    fn remove(&self, path: &Path) -> Result<(), OutboxError> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(writing(path)(error).into()),
            _ => Ok(()),
        }
    }

    fn read_marks(&self) -> Result<VecDeque<Mark>, OutboxError> {
        let path = self.folder.join("inputs");
        if !path.exists() {
            return Ok(VecDeque::new());
        }
        let bytes = read_bounded(&path, MOST_BYTES)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| OutboxError::Damaged(path.clone()))?;
        let mark = |line: &str| unhex_lower(line).map(Mark).ok_or_else(|| OutboxError::Damaged(path.clone()));
        text.lines().map(mark).collect()
    }

    fn entry(&self, number: u64) -> Result<Entry, OutboxError> {
        let path = self.path(number, "frames");
        let damaged = || OutboxError::Damaged(path.clone());
        let mut head = [0; HEAD];
        let mut file = File::open(&path).map_err(reading(&path))?;
        let bytes = file.metadata().map_err(reading(&path))?.len();
        file.read_exact(&mut head).map_err(|_| damaged())?;
        let (magic, rest) = head.split_at(MAGIC.len());
        let (fleet, mark) = rest[1..].split_at(FLEET);
        let profile = ProfileName::from_code(rest[0]).filter(|_| *magic == MAGIC).ok_or_else(damaged)?;
        if *fleet != self.fleet {
            return Err(OutboxError::Fleet(self.folder.clone()));
        }
        let (frames, each) = (bytes - HEAD as u64, profile.frame_bytes() as u64);
        if !frames.is_multiple_of(each) {
            return Err(damaged());
        }
        let sent = self.path(number, "sent");
        let count = match sent.exists() {
            true => std::str::from_utf8(&read_bounded(&sent, 32)?).ok().and_then(|text| text.trim_end().parse().ok()),
            false => Some(0),
        };
        let frames = frames / each;
        let count = count.filter(|count| *count <= frames).ok_or(OutboxError::Damaged(sent))?;
        let mark = mark.try_into().ok().map(Mark).filter(|mark| mark.0 != [0; MARK]);
        Ok(Entry { number, mark, profile, frames, sent: count })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bytes of a frame of the last [`Self::part`].
    pub fn frame_bytes(&self) -> usize {
        self.entries.front().map_or(1, |entry| entry.profile.frame_bytes())
    }

    /// The number of frames that wait.
    pub fn waiting(&self) -> u64 {
        self.entries.iter().map(|entry| entry.frames - entry.sent).sum()
    }

    /// Whether an input with this mark was added before.
    pub fn knows(&self, mark: &Mark) -> bool {
        self.marks.contains(mark) || self.entries.iter().any(|entry| entry.mark == Some(*mark))
    }

    /// Begins to add the frames of an input.
    ///
    /// # Errors
    /// [`OutboxError::File`].
    pub fn draft(&self, profile: ProfileName, mark: Option<Mark>) -> Result<Draft, OutboxError> {
        let path = self.folder.join("frames");
        let file = temporary(&Builder::new(), &path).map_err(writing(&path))?;
        let mut file = BufWriter::new(file);
        let mark_bytes = mark.map_or([0; MARK], |mark| mark.0);
        let head = [&MAGIC[..], &[profile.code()], &self.fleet, &mark_bytes].concat();
        file.write_all(&head).map_err(writing(&path))?;
        Ok(Draft { file, frames: 0, mark, profile })
    }

    /// Adds the frames. They are on the disk when this returns.
    ///
    /// # Errors
    /// [`OutboxError::File`]: then none is added.
    pub fn add(&mut self, draft: Draft) -> Result<(), OutboxError> {
        let Draft { file, frames, mark, profile } = draft;
        let number = self.entries.back().map_or_else(|| self.next_number(), |entry| Ok(entry.number + 1))?;
        let path = self.path(number, "frames");
        // an older count would be that of these frames
        self.remove(&self.path(number, "sent"))?;
        let keep = || {
            let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.as_file().sync_all()?;
            persist(file, &path, false)?;
            sync_directory(self.folder.clone())
        };
        keep().map_err(writing(&path))?;
        self.entries.push_back(Entry { number, mark, profile, frames, sent: 0 });
        Ok(())
    }

    /// The first number of an empty outbox: after the numbers of set aside frames.
    fn next_number(&self) -> Result<u64, OutboxError> {
        let mut next = 0;
        for file in fs::read_dir(&self.folder).map_err(reading(&self.folder))? {
            let name = file.map_err(reading(&self.folder))?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("refused-")?.split('-').next()?.parse().ok());
            next = next.max(number.map_or(0, |number: u64| number + 1));
        }
        Ok(next)
    }

    /// The oldest frames that wait, at most this many of them, of one device and within [`SPAN`]
    /// counters. `None` if no frame waits.
    ///
    /// # Errors
    /// [`OutboxError`].
    pub fn part(&self, most: usize) -> Result<Option<Vec<u8>>, OutboxError> {
        let Some(entry) = self.entries.front() else { return Ok(None) };
        let (path, each) = (self.path(entry.number, "frames"), entry.profile.frame_bytes());
        let count = (entry.frames - entry.sent).min(most.max(1) as u64);
        let mut bytes = vec![0; count as usize * each];
        let read = |bytes: &mut [u8]| {
            let mut file = File::open(&path)?;
            file.seek(SeekFrom::Start(HEAD as u64 + entry.sent * each as u64))?;
            file.read_exact(bytes)
        };
        read(&mut bytes).map_err(reading(&path))?;
        let head = |frame: &[u8]| -> Option<Head> { entry.profile.peek(frame).ok() };
        let heads: Option<Vec<Head>> = bytes.chunks_exact(each).map(head).collect();
        let heads = heads.ok_or_else(|| OutboxError::Damaged(path.clone()))?;
        let first = heads.first().map_or(0, |head| head.counter);
        let within = heads.iter().take_while(|head| head.counter.wrapping_sub(first) < SPAN).count();
        bytes.truncate(within * each);
        Ok(Some(bytes))
    }

    /// Records that a server has the frames of the last [`Self::part`], and will never get them
    /// again.
    ///
    /// # Errors
    /// [`OutboxError::File`]: the frames may be sent again, which is harmless.
    pub fn confirm(&mut self, part: &[u8]) -> Result<(), OutboxError> {
        let Some(entry) = self.entries.front_mut() else { return Ok(()) };
        entry.sent += (part.len() / entry.profile.frame_bytes()) as u64;
        let (number, sent, is_done) = (entry.number, entry.sent, entry.sent >= entry.frames);
        if !is_done {
            return Ok(write_atomically(&self.path(number, "sent"), format!("{sent}\n").as_bytes())?);
        }
        self.finish()
    }

    /// Removes entries whose frames are all confirmed. Their marks stay.
    fn finish(&mut self) -> Result<(), OutboxError> {
        while let Some(entry) = self.entries.pop_front_if(|entry| entry.sent >= entry.frames) {
            if let Some(mark) = entry.mark.filter(|mark| !self.marks.contains(mark)) {
                self.marks.push_back(mark);
                while self.marks.len() > MARKS {
                    self.marks.pop_front();
                }
                let text: String = self.marks.iter().map(|mark| hex(&mark.0) + "\n").collect();
                write_atomically(&self.folder.join("inputs"), text.as_bytes())?;
            }
            // the count last: without it all frames would count as waiting
            self.remove(&self.path(entry.number, "frames"))?;
            self.remove(&self.path(entry.number, "sent"))?;
        }
        Ok(())
    }

    /// Keeps the frames of the last [`Self::part`] in a file of their own, because a server will
    /// never take them, and goes on behind them. Returns the file.
    ///
    /// # Errors
    /// [`OutboxError::File`].
    pub fn set_aside(&mut self, part: &[u8]) -> Result<PathBuf, OutboxError> {
        let place = self.entries.front().map_or((0, 0), |entry| (entry.number, entry.sent));
        let path = self.folder.join(format!("refused-{:010}-{:010}.frames", place.0, place.1));
        match write_secret(&path, part) {
            // an earlier run was killed after this
            Err(FileError::Exists { .. }) | Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
        self.confirm(part)?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use tobari_device::{Device, DeviceNumber, InsecureVolatileCounter, Profile, READINGS, Root, U25};

    const FLEET_NAME: [u8; FLEET] = [7; FLEET];

    fn frames(counters: impl Iterator<Item = u32>) -> Vec<Vec<u8>> {
        let number = DeviceNumber::new(5).unwrap();
        let seal = |counter: u32| {
            let counter = InsecureVolatileCounter(counter);
            let mut device = Device::<U25, _>::open(&Root::from_bytes([1; 32]), number, counter).unwrap();
            let mut frame = U25::EMPTY;
            device.seal(&[3; READINGS], &mut frame).unwrap();
            frame.to_vec()
        };
        counters.map(seal).collect()
    }

    fn open(folder: &Path) -> Outbox {
        Outbox::open(folder, FLEET_NAME).unwrap()
    }

    fn add(outbox: &mut Outbox, frames: &[Vec<u8>], mark: Option<Mark>) {
        let mut draft = outbox.draft(ProfileName::U25, mark).unwrap();
        frames.iter().for_each(|frame| draft.push(frame).unwrap());
        outbox.add(draft).unwrap();
    }

    #[test]
    fn frames_wait_in_their_order_and_byte_for_byte_wherever_the_program_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.outbox");
        let (first, second) = (frames(0..5), frames(64..67));
        let mark = Mark([9; 32]);
        add(&mut open(&path), &first, Some(mark));
        // a draft that ends with its process is gone
        let mut draft = open(&path).draft(ProfileName::U25, None).unwrap();
        draft.push(&first[0]).unwrap();
        let left = draft.file.into_inner().unwrap().into_temp_path();
        std::mem::forget(left);
        let mut outbox = open(&path);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "the half of an input is removed");
        add(&mut outbox, &second, None);
        let mut came: Vec<Vec<u8>> = Vec::new();
        // a new process for each part; every second one ends before it records the confirmation
        for round in 0.. {
            let mut outbox = open(&path);
            let Some(part) = outbox.part(2).unwrap() else { break };
            assert_eq!(outbox.part(2).unwrap().unwrap(), part, "sent again, byte for byte");
            assert!(outbox.knows(&mark));
            if round % 2 == 1 {
                came.extend(part.chunks(U25::FRAME).map(<[u8]>::to_vec));
                outbox.confirm(&part).unwrap();
            }
        }
        assert_eq!(came, [first, second].concat());
        let outbox = open(&path);
        assert!(outbox.waiting() == 0 && outbox.knows(&mark) && !outbox.knows(&Mark([8; 32])));
        let left: Vec<_> = fs::read_dir(&path).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(left, ["inputs"]);
    }

    #[test]
    fn a_part_spans_no_more_counters_than_a_server_remembers() {
        let folder = tempfile::tempdir().unwrap();
        let mut outbox = open(folder.path());
        // runs of one frame each use every 64th counter
        add(&mut outbox, &frames((0..10).map(|i| i * 64)), None);
        let mut sizes = Vec::new();
        while let Some(part) = outbox.part(2048).unwrap() {
            sizes.push(part.len() / U25::FRAME);
            outbox.confirm(&part).unwrap();
        }
        assert_eq!(sizes, [4, 4, 2]);
    }

    #[test]
    fn an_entry_that_was_confirmed_before_a_crash_is_not_sent_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut outbox = open(folder.path());
        add(&mut outbox, &frames(0..3), Some(Mark([4; 32])));
        // confirmed, and killed before the frames were removed, or after
        let sent = outbox.path(0, "sent");
        fs::write(&sent, b"3\n").unwrap();
        let outbox = open(folder.path());
        assert!(outbox.waiting() == 0 && outbox.knows(&Mark([4; 32])) && !sent.exists());
        fs::write(&sent, b"3\n").unwrap();
        let mut outbox = open(folder.path());
        assert!(!sent.exists(), "the count of frames that are gone would be that of the next ones");
        add(&mut outbox, &frames(64..66), None);
        assert_eq!(open(folder.path()).waiting(), 2);
    }

    #[test]
    fn refused_frames_are_kept_apart_and_the_next_ones_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let mut outbox = open(folder.path());
        let three = frames(0..3);
        add(&mut outbox, &three, None);
        let part = outbox.part(2).unwrap().unwrap();
        let path = outbox.set_aside(&part).unwrap();
        assert_eq!(fs::read(path).unwrap(), three[..2].concat());
        assert_eq!(outbox.part(2).unwrap().unwrap(), three[2]);
        outbox.set_aside(&three[2]).unwrap();
        // a later input cannot get the number of frames that were set aside
        let mut outbox = open(folder.path());
        add(&mut outbox, &three, None);
        assert_eq!(outbox.entries[0].number, 1);
    }

    #[test]
    fn files_that_were_changed_or_belong_to_another_fleet_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut outbox = open(folder.path());
        add(&mut outbox, &frames(0..2), None);
        assert!(matches!(Outbox::open(folder.path(), [8; FLEET]), Err(OutboxError::Fleet(_))));
        let (path, sent) = (outbox.path(0, "frames"), outbox.path(0, "sent"));
        let whole = fs::read(&path).unwrap();
        for length in [0, HEAD - 1, HEAD + 1, whole.len() - 1] {
            fs::write(&path, &whole[..length]).unwrap();
            let error = Outbox::open(folder.path(), FLEET_NAME).err().unwrap();
            assert!(matches!(&error, OutboxError::Damaged(named) if *named == path), "{length}: {error}");
        }
        fs::write(&path, &whole).unwrap();
        for wrong in ["", "-1\n", "3\n", "x\n"] {
            fs::write(&sent, wrong).unwrap();
            assert!(matches!(Outbox::open(folder.path(), FLEET_NAME), Err(OutboxError::Damaged(_))), "{wrong}");
        }
    }
}
