//! Reading and writing of WAV recordings, at 16 kHz mono.
//!
//! **The rule of conversion** is the same for every input. A sample is read exactly, as a number in
//! units of one 16-bit step: an integer of `b` bits times 2^(16−b) (8-bit WAV is unsigned; 128 is
//! its zero), a float times 32768. Two channels become one by their mean, (left + right) / 2. If
//! the rate `r` is not 16 kHz, output sample `n` is the recording, limited to the band that both
//! rates can carry, at time exactly `n` / 16000 s. Then `frames` frames become round(`frames` ·
//! 16000 / `r`) samples, a half rounded up, with silence before and after the recording. The last
//! step rounds once: to the nearest integer, ties to even, and saturated to [−32768, 32767]. So 16
//! kHz mono 16-bit input is unchanged, bit for bit.
//!
//! All computation is in `f64`. Its 53 bits hold every 8 to 32-bit sample and every mean of two
//! such samples exactly. The last rounding is therefore the only one unless the rate changes, and
//! then the others are about 2^−37 of a 16-bit step each. A resampled file can differ between two
//! kinds of CPU (whose vector units sum in different orders) only where a value is that close to a
//! tie.
//!
//! **The resampler** is rubato's windowed sinc: squared Blackman-Harris window, 256 points at the
//! lower of the two rates. In terms of the lower rate's Nyquist frequency, the band up to 0.88
//! passes unchanged, the half-amplitude point is at 0.947, and from 1.0 on nothing audible is left
//! (the tests measure it).
//!
//! **Rejected files.** A file is rejected if its header does not describe it exactly: the sizes of
//! the RIFF structure and of each chunk are compared with the real length of the file before
//! anything is read or allocated. Streaming programs that write to a pipe leave a placeholder for
//! the length. Such a file is rejected with a command that repairs it, because a reader that trusts
//! the end of the file instead cannot tell a whole recording from a truncated one. Also rejected:
//! formats other than integer PCM and 32-bit float, more than two channels, rates outside
//! [`MIN_RATE_HZ`] to [`MAX_RATE_HZ`], NaN and infinity, and more than [`MAX_SECONDS`] of sound.

mod convert;
mod header;
mod write;

pub use write::{write_pcm16, write_pcm32};

use header::{Encoding, Layout};
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;
use tobari_host::files::{FileError, name_of};

/// The rate of every recording inside Tobari, in samples a second.
pub const SAMPLE_RATE_HZ: u32 = 16_000;

/// The lowest supported rate.
///
/// No speech is recorded at a rate this low: telephones have 8 kHz. The bound limits the recording
/// that a small hostile file can become: one byte of input becomes at most 4 samples, which are
/// eight times its bytes.
pub const MIN_RATE_HZ: u32 = 4_000;

/// The highest supported rate.
pub const MAX_RATE_HZ: u32 = 192_000;

/// The longest supported recording: four hours, 461 MB as samples.
pub const MAX_SECONDS: u64 = 4 * 60 * 60;

/// Why a recording could not be read or written. Every message begins with the file's name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WavError {
    /// The system could not read the file.
    #[error("{name}: cannot read: {source}")]
    Read {
        /// The file, as the caller named it.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not a WAV file.
    #[error("{name}: expected a WAV file (beginning with RIFF and WAVE), found {found}")]
    NotWav {
        /// The file, as the caller named it.
        name: String,
        /// The first bytes of the file.
        found: String,
    },
    /// The file holds no sound.
    #[error("{name}: expected at least one sample, found {found}")]
    Empty {
        /// The file, as the caller named it.
        name: String,
        /// The content that was found.
        found: String,
    },
    /// The file ends before the end that its header states.
    #[error("{name}: the file is truncated: expected {expected_bytes} bytes by its header, found {found_bytes}")]
    Truncated {
        /// The file, as the caller named it.
        name: String,
        /// The length that the header implies.
        expected_bytes: u64,
        /// The real length.
        found_bytes: u64,
    },
    /// The header was written before the length was known and never completed.
    #[error(
        "{name}: the header holds a placeholder where the length belongs, as programs leave it that write to a pipe or \
         are interrupted; complete it with: sox --ignore-length {name} mended.wav"
    )]
    Unfinished {
        /// The file, as the caller named it.
        name: String,
    },
    /// The header contradicts itself or the file.
    #[error("{name}: the header does not describe the file: {field}: expected {expected}, found {found}")]
    Inconsistent {
        /// The file, as the caller named it.
        name: String,
        /// The part of the header.
        field: &'static str,
        /// A consistent value.
        expected: String,
        /// The value in the file.
        found: String,
    },
    /// A valid WAV file of an unsupported kind.
    #[error("{name}: unsupported {field}: expected {expected}, found {found}")]
    Unsupported {
        /// The file, as the caller named it.
        name: String,
        /// The property.
        field: &'static str,
        /// The supported values.
        expected: &'static str,
        /// The value in the file.
        found: String,
    },
    /// A float sample is NaN or infinite.
    #[error("{name}: expected finite samples, found NaN or infinity in frame {frame}")]
    NotFinite {
        /// The file, as the caller named it.
        name: String,
        /// The first such frame, from 0.
        frame: u64,
    },
    /// The recording is longer than [`MAX_SECONDS`].
    #[error("{name}: expected at most {MAX_SECONDS} seconds of sound, found {seconds}")]
    TooLong {
        /// The file, as the caller named it.
        name: String,
        /// Its length, rounded up.
        seconds: u64,
    },
    /// More samples than a WAV file's 32-bit length can count.
    #[error("{name}: expected at most {limit} samples in one WAV file, found {found}")]
    TooManySamples {
        /// The file to be written.
        name: String,
        /// The largest possible number of samples.
        limit: u64,
        /// The number of samples to write.
        found: u64,
    },
    /// The resampler failed: a defect of this crate, not of the file.
    #[error("{name}: cannot resample from {rate_hz} Hz: {reason}")]
    Resample {
        /// The file, as the caller named it.
        name: String,
        /// Its rate.
        rate_hz: u32,
        /// The resampler's message.
        reason: String,
    },
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] FileError),
}

/// Reads a recording and converts it to 16 kHz mono 16-bit by the rule above.
///
/// Reads integer PCM of 8, 16, 24 or 32 bits and 32-bit float, plain or `WAVE_FORMAT_EXTENSIBLE`,
/// mono or stereo. The result holds at least one sample. Memory: the result, a filter table if the
/// rate changes (about 1 MB at the usual rates, 16 MB at the worst) and small buffers; the input is
/// streamed.
///
/// # Errors
///
/// See [`WavError`]; each message names the path.
///
/// # Example
///
/// ```
/// use tobari_call_files::wav::{read_speech, write_pcm16};
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("voice.wav");
/// write_pcm16(&path, &[0, 1000, -1000])?;
/// assert_eq!(read_speech(&path)?, [0, 1000, -1000]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read_speech(path: &Path) -> Result<Vec<i16>, WavError> {
    let name = name_of(path);
    let refused = |source| WavError::Read { name: name.clone(), source };
    // Checked before opening, because opening a pipe would wait for its writer, possibly for ever.
    if !std::fs::metadata(path).map_err(refused)?.is_file() {
        let found = "a directory, pipe or device".into();
        return Err(WavError::Unsupported { name, field: "source", expected: "a regular file", found });
    }
    let file = File::open(path).map_err(refused)?;
    decode(BufReader::new(file), &name)
}

/// Converts a whole WAV file that is already in memory. Messages call it `name`.
///
/// # Errors
///
/// See [`WavError`].
pub fn decode_speech(bytes: &[u8], name: &str) -> Result<Vec<i16>, WavError> {
    decode(Cursor::new(bytes), name)
}

/// The body of a fuzz target: any bytes are decoded or rejected, without a panic and within bounds.
#[doc(hidden)]
pub fn fuzz_wav(data: &[u8]) {
    if let Ok(samples) = decode_speech(data, "fuzz") {
        let growth = (SAMPLE_RATE_HZ / MIN_RATE_HZ) as usize;
        assert!(!samples.is_empty(), "a decoded recording is never empty");
        assert!(samples.len() <= growth * data.len(), "a byte becomes at most {growth} samples");
    }
}

fn decode(mut file: impl Read + Seek, name: &str) -> Result<Vec<i16>, WavError> {
    let layout = Layout::read(&mut file, name)?;
    let refused = |source| WavError::Read { name: name.to_owned(), source };
    file.seek(SeekFrom::Start(layout.data_start)).map_err(refused)?;
    // The decoder gets a simple header, made from the checked values, in front of the file's
    // samples. It therefore sees neither the chunks around the samples nor the many equivalent
    // forms of a header.
    let header = Cursor::new(layout.canonical_header());
    let source = BufReader::with_capacity(1 << 16, header.chain(file.take(layout.data_bytes)));
    let samples = hound::WavReader::new(source).map_err(|error| hound_refused(name, error))?;
    let (rate_hz, frames, channels) = (layout.rate_hz, layout.frames(), layout.channels);
    match layout.encoding {
        Encoding::Integer { bits } => {
            let unit = f64::from(16 - i32::from(bits)).exp2();
            let mono = convert::mono(samples.into_samples::<i32>(), channels, |x| f64::from(x) * unit);
            convert::to_speech(checked(mono, name), frames, rate_hz, name)
        }
        Encoding::Float => {
            let mono = convert::mono(samples.into_samples::<f32>(), channels, |x| f64::from(x) * 32768.0);
            convert::to_speech(checked(mono, name), frames, rate_hz, name)
        }
    }
}

/// Names the file in every error, and rejects the first frame that is not finite.
fn checked(
    frames: impl Iterator<Item = Result<f64, hound::Error>>,
    name: &str,
) -> impl Iterator<Item = Result<f64, WavError>> {
    frames.zip(0_u64..).map(move |(value, frame)| match value {
        Ok(value) if value.is_finite() => Ok(value),
        Ok(_) => Err(WavError::NotFinite { name: name.to_owned(), frame }),
        Err(error) => Err(hound_refused(name, error)),
    })
}

/// After the checks of [`Layout`] only the system can fail, for instance if a file shrinks while it
/// is read.
fn hound_refused(name: &str, error: hound::Error) -> WavError {
    WavError::Read { name: name.to_owned(), source: hound_to_io(error) }
}

fn hound_to_io(error: hound::Error) -> io::Error {
    match error {
        hound::Error::IoError(source) => source,
        other => io::Error::other(other),
    }
}
