//! Every rejection, by kind. Each message names the file, the expected value and the found value.

use crate::build::{EXTENSIBLE, FLOAT, PCM, Wav, chunk};
use std::fs;
use tobari_call_files::wav::{WavError, decode_speech, read_speech, write_pcm16};

fn honest() -> Wav {
    Wav::pcm16(1, 16_000, &[1, 2, 3, 4])
}

/// The error for these bytes. Its message must begin with the name and contain every one of
/// `words`.
fn refused(bytes: &[u8], words: &[&str]) -> WavError {
    let refusal = decode_speech(bytes, "voice.wav").expect_err("must be refused");
    let message = refusal.to_string();
    assert!(message.starts_with("voice.wav: "), "{message}");
    for word in words {
        assert!(message.contains(word), "expected {word:?} in: {message}");
    }
    refusal
}

/// The builder's own file is accepted, so each rejection is caused by the test's change.
#[test]
fn the_honest_file_is_accepted() {
    assert_eq!(decode_speech(&honest().bytes(), "voice.wav").unwrap(), [1, 2, 3, 4]);
}

#[test]
fn a_file_that_does_not_exist_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("missing.wav");
    let refusal = read_speech(&path).unwrap_err();
    assert!(matches!(refusal, WavError::Read { .. }), "{refusal}");
    assert!(refusal.to_string().starts_with(path.to_str().unwrap()), "{refusal}");
}

#[test]
fn a_file_of_no_bytes_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("empty.wav");
    fs::write(&path, b"").unwrap();
    let refusal = read_speech(&path).unwrap_err();
    assert!(matches!(refusal, WavError::Empty { .. }), "{refusal}");
    assert!(refusal.to_string().starts_with(path.to_str().unwrap()), "{refusal}");
    assert!(refusal.to_string().contains("0 bytes"), "{refusal}");
}

#[test]
fn a_directory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let refusal = read_speech(directory.path()).unwrap_err();
    assert!(matches!(refusal, WavError::Unsupported { field: "source", .. }), "{refusal}");
}

#[test]
fn what_is_not_a_wav_file_is_refused() {
    for bytes in [&b"R"[..], b"RIFF\x04\0\0\0WAV", b"ID3\x03 this is an mp3 file", &[0; 100]] {
        assert!(matches!(refused(bytes, &["expected a WAV file"]), WavError::NotWav { .. }));
    }
    for (place, other) in [(0, b"RIFX"), (0, b"RF64"), (8, b"AVI ")] {
        let mut bytes = honest().bytes();
        bytes[place..place + 4].copy_from_slice(other);
        assert!(matches!(refused(&bytes, &[std::str::from_utf8(other).unwrap()]), WavError::NotWav { .. }));
    }
}

#[test]
fn a_file_without_samples_is_refused() {
    let refusal = refused(&Wav::pcm16(1, 16_000, &[]).bytes(), &["at least one sample", "a data chunk of 0 bytes"]);
    assert!(matches!(refusal, WavError::Empty { .. }));
    let refusal = refused(&Wav::pcm16(1, 192_000, &[1, 2, 3, 4, 5]).bytes(), &["5 frames at 192000 Hz"]);
    assert!(matches!(refusal, WavError::Empty { .. }));
}

#[test]
fn every_truncation_is_refused() {
    let mut wav = honest();
    wav.before_data = chunk(b"LIST", b"some text");
    let bytes = wav.bytes();
    for len in 1..bytes.len() {
        refused(&bytes[..len], &[]);
    }
    let refusal = refused(&bytes[..bytes.len() - 3], &["truncated"]);
    let WavError::Truncated { expected_bytes, found_bytes, .. } = refusal else { panic!("{refusal}") };
    assert_eq!((expected_bytes, found_bytes), (bytes.len() as u64, bytes.len() as u64 - 3));
}

#[test]
fn data_longer_than_the_file_is_refused() {
    for extra in [1, 2, 1000, 0x1000_0000] {
        let mut wav = honest();
        wav.data_len = Some(8 + extra);
        assert!(matches!(refused(&wav.bytes(), &["truncated"]), WavError::Truncated { .. }), "{extra}");
        // A false length of the whole file does not help either.
        wav.riff_len = Some(wav.bytes().len() as u32 - 8 + extra);
        assert!(matches!(refused(&wav.bytes(), &["truncated"]), WavError::Truncated { .. }), "{extra}");
    }
}

#[test]
fn data_shorter_than_the_file_is_refused() {
    for len in [2, 4, 6] {
        let mut wav = honest();
        wav.data_len = Some(len);
        assert!(matches!(refused(&wav.bytes(), &["chunk"]), WavError::Inconsistent { .. }), "{len}");
    }
}

#[test]
fn a_wrong_length_of_the_whole_is_refused() {
    let true_len = honest().bytes().len() as u32 - 8;
    for wrong in [1, 2, 3, 4, 12, 36, true_len - 2, true_len - 1, true_len + 1, true_len + 2, 1_000_000] {
        let mut wav = honest();
        wav.riff_len = Some(wrong);
        let refusal = refused(&wav.bytes(), &[]);
        assert!(matches!(refusal, WavError::Inconsistent { .. } | WavError::Truncated { .. }), "{wrong}: {refusal}");
    }
    // The stated end is before the first chunk; the missing pad byte would make up for it.
    refused(b"RIFF\x03\0\0\0WAVE", &["expected 4", "found 3"]);
}

#[test]
fn bytes_after_the_recording_are_refused() {
    let trailing = [honest().bytes(), vec![0; 128]].concat();
    assert!(matches!(refused(&trailing, &["length", "found 44"]), WavError::Inconsistent { .. }));
}

#[test]
fn placeholders_of_streaming_writers_are_refused_with_the_way_to_mend_them() {
    let true_len = honest().bytes().len() as u32 - 8;
    let cases = [
        (0xffff_ffff, 0xffff_ffff),
        (0x7fff_ffff, 0x7fff_ffff),
        (0x7fff_f024, 0x7fff_f000),
        (0x8000_0024, 0x8000_0000),
        (0, 0),
        (0, 8),
        (true_len, 0xffff_ffff),
        (true_len, 0x7fff_f000),
    ];
    for (riff_len, data_len) in cases {
        let mut wav = honest();
        (wav.riff_len, wav.data_len) = (Some(riff_len), Some(data_len));
        let refusal = refused(&wav.bytes(), &["placeholder", "sox --ignore-length voice.wav"]);
        assert!(matches!(refusal, WavError::Unfinished { .. }), "{riff_len:#x} {data_len:#x}: {refusal}");
    }
}

#[test]
fn data_that_is_no_whole_number_of_frames_is_refused() {
    for (channels, bits, len) in [(1, 16, 7), (2, 16, 6), (1, 24, 4), (2, 8, 3), (2, 32, 12)] {
        let refusal = refused(&Wav::new(PCM, channels, 16_000, bits, vec![0; len]).bytes(), &["multiple"]);
        assert!(matches!(refusal, WavError::Inconsistent { field: "length of the data", .. }), "{refusal}");
    }
}

#[test]
fn more_than_two_channels_or_none_are_refused() {
    for channels in [0, 3, 6, 255, 65535] {
        let wav = Wav::new(PCM, channels, 16_000, 16, vec![0; 60]);
        let refusal = refused(&wav.bytes(), &["1 or 2", &format!("found {channels}")]);
        assert!(matches!(refusal, WavError::Unsupported { field: "number of channels", .. }), "{refusal}");
    }
}

#[test]
fn rates_outside_the_range_are_refused() {
    for rate_hz in [0, 1, 999, 1_000, 3_999, 192_001, 384_000, u32::MAX] {
        let refusal = refused(&Wav::pcm16(1, rate_hz, &[0; 400]).bytes(), &[&format!("found {rate_hz} Hz")]);
        assert!(matches!(refusal, WavError::Unsupported { field: "sample rate", .. }), "{refusal}");
    }
    for rate_hz in [4_000, 192_000] {
        assert!(decode_speech(&Wav::pcm16(1, rate_hz, &[0; 400]).bytes(), "voice.wav").is_ok());
    }
}

/// The files that grow most: one byte a sample, at the lowest rates.
#[test]
fn fault_32_no_file_becomes_a_recording_of_more_than_ten_times_its_bytes() {
    for rate_hz in [1_000, 2_000, 3_000, 3_999, 4_000, 8_000] {
        let bytes = Wav::new(PCM, 1, rate_hz, 8, vec![128; 20_000]).bytes();
        let samples = decode_speech(&bytes, "voice.wav").map_or(0, |samples| samples.len());
        assert!(2 * samples <= 10 * bytes.len(), "{rate_hz} Hz: {samples} samples of {} bytes", bytes.len());
        assert_eq!(samples > 0, rate_hz >= 4_000, "{rate_hz} Hz");
    }
}

#[test]
fn other_encodings_are_refused_by_their_names() {
    let cases = [(2, 4, "ADPCM"), (6, 8, "A-law"), (7, 8, "µ-law"), (0x11, 4, "IMA ADPCM"), (0x55, 0, "MP3")];
    for (tag, bits, word) in cases.into_iter().chain([(0x1234, 16, "0x1234"), (0, 16, "0x0000")]) {
        let refusal = refused(&Wav::new(tag, 1, 16_000, bits, vec![0; 64]).bytes(), &[word]);
        assert!(matches!(refusal, WavError::Unsupported { field: "format", .. }), "{refusal}");
        let refusal = refused(&Wav::new(tag, 1, 16_000, bits, vec![0; 64]).extensible(bits).bytes(), &[word]);
        assert!(matches!(refusal, WavError::Unsupported { field: "format", .. }), "{refusal}");
    }
}

#[test]
fn other_sample_sizes_are_refused() {
    for (tag, bits) in [(PCM, 0), (PCM, 4), (PCM, 12), (PCM, 20), (PCM, 40), (PCM, 64), (FLOAT, 16), (FLOAT, 64)] {
        let refusal = refused(&Wav::new(tag, 1, 16_000, bits, vec![0; 240]).bytes(), &[&format!("found {bits} bits")]);
        assert!(matches!(refusal, WavError::Unsupported { field: "sample size", .. }), "{refusal}");
    }
}

#[test]
fn samples_padded_within_their_container_are_refused() {
    let refusal = refused(&Wav::new(PCM, 1, 16_000, 32, vec![0; 64]).extensible(24).bytes(), &["24 valid bits in 32"]);
    assert!(matches!(refusal, WavError::Unsupported { field: "sample size", .. }), "{refusal}");
    let mut wav = Wav::new(PCM, 1, 16_000, 24, vec![0; 64]);
    wav.frame_bytes = Some(4);
    let refusal = refused(&wav.bytes(), &["expected 3, found 4"]);
    assert!(matches!(refusal, WavError::Inconsistent { field: "bytes in a frame", .. }), "{refusal}");
}

#[test]
fn a_format_chunk_that_contradicts_itself_is_refused() {
    let mut wav = honest();
    wav.bytes_per_second = Some(32_001);
    assert!(matches!(
        refused(&wav.bytes(), &["expected 32000, found 32001"]),
        WavError::Inconsistent { field: "bytes in a second", .. }
    ));
    let mut wav = honest();
    (wav.tag, wav.format_tail) = (EXTENSIBLE, vec![0, 0]);
    assert!(matches!(refused(&wav.bytes(), &["40 bytes"]), WavError::Inconsistent { .. }));
    let mut wav = honest().extensible(16);
    wav.format_tail[20] ^= 1;
    assert!(matches!(refused(&wav.bytes(), &["subformat"]), WavError::Unsupported { field: "format", .. }));
    let mut bytes = honest().bytes();
    bytes[16] = 14;
    refused(&bytes, &["at least 16 bytes", "found 14"]);
}

#[test]
fn missing_misplaced_and_repeated_chunks_are_refused() {
    let whole = |chunks: &[u8]| [b"RIFF", &(chunks.len() as u32 + 4).to_le_bytes()[..], b"WAVE", chunks].concat();
    let bytes = honest().bytes();
    let (format, data) = (&bytes[12..36], &bytes[36..]);
    assert!(decode_speech(&whole(&[format, data].concat()), "voice.wav").is_ok());
    let cases: [(&[&[u8]], &str); 6] = [
        (&[], "a format and a data chunk"),
        (&[format], "a format and a data chunk"),
        (&[data], "data before any format"),
        (&[data, format], "data before any format"),
        (&[format, format, data], "a second chunk \"fmt \""),
        (&[format, data, data], "a second chunk \"data\""),
    ];
    for (chunks, word) in cases {
        assert!(matches!(refused(&whole(&chunks.concat()), &[word]), WavError::Inconsistent { .. }));
    }
}

#[test]
fn a_chunk_longer_than_the_file_is_refused_before_it_is_believed() {
    for len in [100, 0x7000_0000, u32::MAX] {
        let mut wav = honest();
        wav.before_data = [b"LIST", &len.to_le_bytes()[..], b"abcd"].concat();
        assert!(matches!(refused(&wav.bytes(), &["\"LIST\""]), WavError::Inconsistent { .. }));
    }
}

#[test]
fn a_file_of_very_many_chunks_is_refused() {
    let mut wav = honest();
    wav.after_data = chunk(b"junk", &[]).repeat(1021);
    assert!(decode_speech(&wav.bytes(), "voice.wav").is_ok());
    wav.after_data = chunk(b"junk", &[]).repeat(1_000_000);
    assert!(matches!(refused(&wav.bytes(), &["at most 1024"]), WavError::Inconsistent { .. }));
}

#[test]
fn nan_and_infinity_are_refused_with_their_place() {
    for value in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for rate_hz in [16_000, 48_000, 8_000] {
            for place in [0, 777, 999] {
                let mut samples = [0.25; 1000];
                samples[place] = value;
                let refusal = refused(&Wav::float(1, rate_hz, &samples).bytes(), &["finite"]);
                assert!(matches!(refusal, WavError::NotFinite { frame, .. } if frame == place as u64), "{refusal}");
            }
        }
    }
    let refusal = refused(&Wav::float(2, 16_000, &[0.0, 0.0, f32::INFINITY, f32::NEG_INFINITY]).bytes(), &["frame 1"]);
    assert!(matches!(refusal, WavError::NotFinite { frame: 1, .. }), "{refusal}");
}

#[test]
fn more_than_four_hours_are_refused_before_they_are_read() {
    // A sparse file: 4 hours and a frame at 4 kHz in 8 bits is 57.6 MB of silence.
    let wav = |frames: usize| Wav::new(PCM, 1, 4_000, 8, vec![128; frames]).bytes();
    let refusal = refused(&wav(57_600_001), &["at most 14400 seconds", "found 14401"]);
    assert!(matches!(refusal, WavError::TooLong { seconds: 14_401, .. }), "{refusal}");
}

#[test]
fn a_huge_claim_is_refused_at_once() {
    // A file of 52 bytes claims 4 GB, in every field that can claim it: rejected from the header
    // alone.
    for (riff_len, data_len) in [(None, 0xfff0_0000), (Some(0xfff0_0024), 0xfff0_0000), (Some(0xfff0_0024), 8)] {
        let mut wav = honest();
        (wav.riff_len, wav.data_len) = (riff_len, Some(data_len));
        assert!(matches!(refused(&wav.bytes(), &["truncated"]), WavError::Truncated { .. }));
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_is_refused_instead_of_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket.wav");
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    assert!(matches!(read_speech(&path).unwrap_err(), WavError::Unsupported { field: "source", .. }));
}

#[test]
fn a_failed_write_names_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("none").join("out.wav");
    let message = write_pcm16(&path, &[1]).unwrap_err().to_string();
    assert!(message.starts_with(path.to_str().unwrap()), "{message}");
}
