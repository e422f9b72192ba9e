//! Recordings at 16 kHz mono, written whole or not at all.

use super::{SAMPLE_RATE_HZ, WavError, hound_to_io};
use hound::{Sample, SampleFormat, WavSpec, WavWriter};
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use tobari_host::files::{name_of, write_atomically_with};

/// Bytes that a file's 32-bit RIFF length counts besides the samples. This is for the longer of the
/// two headers used here (68 bytes, of which the length leaves out 8).
const HEADER_BYTES: u64 = 60;

/// Writes 16-bit samples as a 16 kHz mono WAV file, replacing `path` as a whole.
///
/// # Errors
///
/// [`WavError::TooManySamples`] beyond the 4 GiB a WAV file can describe; [`WavError::Write`] if
/// the system cannot write. After an error `path` is unchanged and no partial file is left.
pub fn write_pcm16(path: &Path, samples: &[i16]) -> Result<(), WavError> {
    write_pcm(path, samples, 16)
}

/// Writes 32-bit samples as a 16 kHz mono WAV file, replacing `path` as a whole.
///
/// The samples are written unchanged. A sum of 16-bit samples keeps its small values, so it sounds
/// 65,536 times (96 dB) quieter than the same numbers written as 16-bit. The purpose of this file
/// is exactness, not listening.
///
/// # Errors
///
/// Those of [`write_pcm16`].
pub fn write_pcm32(path: &Path, samples: &[i32]) -> Result<(), WavError> {
    write_pcm(path, samples, 32)
}

fn write_pcm<S: Sample + Copy>(path: &Path, samples: &[S], bits: u16) -> Result<(), WavError> {
    check_count(&name_of(path), samples.len() as u64, bits)?;
    Ok(write_atomically_with(path, |file| encode(file, samples, bits))?)
}

fn encode<S: Sample + Copy>(file: &mut File, samples: &[S], bits: u16) -> io::Result<()> {
    let spec =
        WavSpec { channels: 1, sample_rate: SAMPLE_RATE_HZ, bits_per_sample: bits, sample_format: SampleFormat::Int };
    let mut writer = WavWriter::new(BufWriter::new(file), spec).map_err(hound_to_io)?;
    for sample in samples {
        writer.write_sample(*sample).map_err(hound_to_io)?;
    }
    writer.finalize().map_err(hound_to_io)
}

fn check_count(name: &str, found: u64, bits: u16) -> Result<(), WavError> {
    let limit = (u64::from(u32::MAX) - HEADER_BYTES) / u64::from(bits / 8);
    if found > limit {
        return Err(WavError::TooManySamples { name: name.to_owned(), limit, found });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wav::{decode_speech, read_speech};
    use std::fs;
    use tempfile::tempdir;

    #[test]
    fn sixteen_bit_samples_round_trip_and_the_file_is_the_canonical_one() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("a.wav");
        let samples: Vec<i16> = (i16::MIN..=i16::MAX).collect();
        write_pcm16(&path, &samples).unwrap();
        assert_eq!(read_speech(&path).unwrap(), samples);
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 44 + 2 * samples.len());
        assert_eq!(
            &bytes[..44],
            b"RIFF\x24\x00\x02\x00WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0data\0\0\x02\0"
        );
    }

    #[test]
    fn thirty_two_bit_samples_are_written_as_they_are() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("a.wav");
        let samples = [0, 1, -1, 98_301, -98_304, i32::MAX, i32::MIN];
        write_pcm32(&path, &samples).unwrap();
        let mut reader = hound::WavReader::open(&path).unwrap();
        assert_eq!((reader.spec().bits_per_sample, reader.spec().channels, reader.spec().sample_rate), (32, 1, 16_000));
        assert_eq!(reader.samples::<i32>().map(Result::unwrap).collect::<Vec<_>>(), samples);
        // Read as speech, the steps of 2^-16 are rounded and saturated.
        assert_eq!(read_speech(&path).unwrap(), [0, 0, 0, 1, -2, 32767, -32768]);
    }

    #[test]
    fn a_refused_file_leaves_nothing_behind() {
        let directory = tempdir().unwrap();
        let target = directory.path().join("directory.wav");
        fs::create_dir(&target).unwrap();
        let message = write_pcm16(&target, &[1, 2, 3]).unwrap_err().to_string();
        assert!(message.starts_with(target.to_str().unwrap()), "{message}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_empty_recording_is_written_and_is_refused_when_read() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("a.wav");
        write_pcm16(&path, &[]).unwrap();
        assert!(matches!(read_speech(&path), Err(WavError::Empty { .. })));
        assert!(matches!(decode_speech(&fs::read(&path).unwrap(), "a"), Err(WavError::Empty { .. })));
    }

    #[test]
    fn more_samples_than_a_wav_file_can_count_are_refused() {
        for (bits, limit) in [(16, 2_147_483_617), (32, 1_073_741_808)] {
            assert!(check_count("a.wav", limit, bits).is_ok());
            let refused = check_count("a.wav", limit + 1, bits).unwrap_err();
            assert!(matches!(refused, WavError::TooManySamples { .. }), "{refused}");
            assert!(refused.to_string().starts_with("a.wav: "), "{refused}");
            assert!(limit * u64::from(bits / 8) + HEADER_BYTES <= u64::from(u32::MAX));
        }
    }
}
