//! Conversion without a change of rate: bit depths, channels, rounding, saturation, and headers of
//! real writers.

use crate::build::{FLOAT, PCM, Wav, chunk, noise};
use tobari_call_files::wav::{decode_speech, read_speech, write_pcm16};

fn decoded(wav: &Wav) -> Vec<i16> {
    decode_speech(&wav.bytes(), "test.wav").unwrap()
}

fn every_sample() -> Vec<i16> {
    (i16::MIN..=i16::MAX).collect()
}

#[test]
fn sixteen_khz_mono_16_bit_passes_bit_for_bit() {
    let samples = every_sample();
    assert_eq!(decoded(&Wav::pcm16(1, 16_000, &samples)), samples);
    let random: Vec<i16> = noise(1).take(50_001).map(|x| x as i16).collect();
    assert_eq!(decoded(&Wav::pcm16(1, 16_000, &random)), random);
    assert_eq!(decoded(&Wav::pcm16(1, 16_000, &[-7])), [-7]);
}

#[test]
fn a_file_decodes_to_the_same_as_its_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.wav");
    write_pcm16(&path, &every_sample()).unwrap();
    assert_eq!(read_speech(&path).unwrap(), every_sample());
}

#[test]
fn eight_bit_is_unsigned_and_128_is_silence() {
    let bytes: Vec<u8> = (0..=255).collect();
    let expected: Vec<i16> = (0..256).map(|byte| (byte - 128) * 256).collect();
    assert_eq!(decoded(&Wav::new(PCM, 1, 16_000, 8, bytes)), expected);
}

#[test]
fn twenty_four_bits_round_to_nearest_ties_to_even_and_saturate() {
    // In 24 bits a 16-bit step is 256, so half a step is 128.
    let cases = [
        (0, 0),
        (127, 0),
        (128, 0),
        (129, 1),
        (383, 1),
        (384, 2),
        (385, 2),
        (-127, 0),
        (-128, 0),
        (-129, -1),
        (-384, -2),
        (0x7f_ff00, 32767),
        (0x7f_ff7f, 32767),
        (0x7f_ff80, 32767),
        (0x7f_ffff, 32767),
        (-0x80_0000, -32768),
        (-0x7f_ff80, -32768),
        (-0x7f_ff7f, -32767),
    ];
    let data = cases.iter().flat_map(|(value, _): &(i32, i16)| value.to_le_bytes()[..3].to_vec()).collect();
    let expected: Vec<i16> = cases.iter().map(|(_, expected)| *expected).collect();
    assert_eq!(decoded(&Wav::new(PCM, 1, 16_000, 24, data)), expected);
}

#[test]
fn thirty_two_bits_equal_the_same_rule_in_integers() {
    let values: Vec<i32> =
        noise(2).map(|x| x as i32).take(20_000).chain([i32::MIN, i32::MAX, 0x8000, -0x8000, 0x18000]).collect();
    let expected: Vec<i16> = values.iter().map(|value| nearest_step(i64::from(*value), 16)).collect();
    let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(decoded(&Wav::new(PCM, 1, 16_000, 32, data)), expected);
}

/// value / 2^bits, rounded to nearest, ties to even, saturated, with integers only.
fn nearest_step(value: i64, bits: u32) -> i16 {
    let (floor, rest, half) = (value >> bits, value & ((1 << bits) - 1), 1 << (bits - 1));
    let up = rest > half || (rest == half && floor % 2 != 0);
    (floor + i64::from(up)).clamp(i64::from(i16::MIN), i64::from(i16::MAX)) as i16
}

#[test]
fn floats_scale_by_32768_round_once_and_saturate() {
    let step = 1.0 / 32768.0;
    let cases: [(f32, i16); 14] = [
        (0.0, 0),
        (-0.0, 0),
        (step, 1),
        (0.5 * step, 0),
        (1.5 * step, 2),
        (-2.5 * step, -2),
        (0.500_001 * step, 1),
        (0.5, 16384),
        (1.0, 32767),
        (-1.0, -32768),
        (1.5, 32767),
        (-3.0e38, -32768),
        (f32::MAX, 32767),
        (f32::MIN_POSITIVE / 8.0, 0),
    ];
    let values: Vec<f32> = cases.iter().map(|(value, _)| *value).collect();
    let expected: Vec<i16> = cases.iter().map(|(_, expected)| *expected).collect();
    assert_eq!(decoded(&Wav::float(1, 16_000, &values)), expected);
}

#[test]
fn stereo_is_the_mean_with_ties_to_even() {
    let pairs = [(0, 1, 0), (1, 2, 2), (-1, 0, 0), (-1, -2, -2), (7, 8, 8), (32767, 32767, 32767)];
    let more = [(-32768, -32768, -32768), (32767, -32768, 0), (32766, 32767, 32766), (100, -50, 25)];
    let pairs: Vec<(i16, i16, i16)> = pairs.into_iter().chain(more).collect();
    let samples: Vec<i16> = pairs.iter().flat_map(|(left, right, _)| [*left, *right]).collect();
    let expected: Vec<i16> = pairs.iter().map(|(_, _, mean)| *mean).collect();
    assert_eq!(decoded(&Wav::pcm16(2, 16_000, &samples)), expected);
}

#[test]
fn stereo_of_32_bits_keeps_full_precision_until_the_one_rounding() {
    let values: Vec<i32> = noise(3).map(|x| x as i32).take(20_000).collect();
    // The sum of two samples has one more bit to round; rounding each channel first would differ.
    let exact = |pair: &[i32]| nearest_step(i64::from(pair[0]) + i64::from(pair[1]), 17);
    let expected: Vec<i16> = values.chunks_exact(2).map(exact).collect();
    let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(decoded(&Wav::new(PCM, 2, 16_000, 32, data)), expected);
}

#[test]
fn float_channels_beyond_full_scale_are_averaged_before_they_saturate() {
    assert_eq!(decoded(&Wav::float(2, 16_000, &[1.75, -1.25, f32::MAX, -f32::MAX])), [8192, 0]);
}

#[test]
fn an_extensible_header_means_the_same_as_a_plain_one() {
    let samples: Vec<i16> = noise(4).take(1000).map(|x| x as i16).collect();
    let plain = Wav::pcm16(2, 16_000, &samples);
    for valid_bits in [0, 16] {
        assert_eq!(decoded(&plain.clone().extensible(valid_bits)), decoded(&plain));
    }
    let data: Vec<u8> = noise(5).take(3000).map(|x| x as u8).collect();
    for bits in [8, 24, 32] {
        let plain = Wav::new(PCM, 1, 16_000, bits, data.clone());
        assert_eq!(decoded(&plain.clone().extensible(bits)), decoded(&plain), "{bits} bits");
    }
    let plain = Wav::float(1, 16_000, &[0.25, -0.75]);
    assert_eq!(decoded(&plain.clone().extensible(32)), [8192, -24576]);
}

#[test]
fn format_chunks_with_a_length_of_extra_bytes_are_read_for_every_depth() {
    let data: Vec<u8> = noise(6).take(1200).map(|x| (x % 60) as u8).collect();
    for (tag, bits) in [(PCM, 8), (PCM, 16), (PCM, 24), (PCM, 32), (FLOAT, 32)] {
        let plain = Wav::new(tag, 1, 16_000, bits, data.clone());
        for tail in [&[0, 0][..], &[2, 0, 9, 9]] {
            let mut longer = plain.clone();
            longer.format_tail = tail.to_vec();
            assert_eq!(decoded(&longer), decoded(&plain), "tag {tag}, {bits} bits, tail {tail:?}");
        }
    }
}

#[test]
fn other_chunks_around_the_data_are_passed_over_even_of_odd_length() {
    let plain = Wav::pcm16(1, 16_000, &[1, -2, 3]);
    let mut full = plain.clone();
    full.before_data = [chunk(b"fact", &[3, 0, 0, 0]), chunk(b"LIST", b"odd"), chunk(b"junk", &[])].concat();
    full.after_data = [chunk(b"LIST", b"INFOISFT"), chunk(b"id3 ", b"x")].concat();
    assert_eq!(decoded(&full), [1, -2, 3]);
    // "data" inside another chunk is not the data.
    full.before_data = chunk(b"LIST", &chunk(b"data", &[0xff; 10]));
    assert_eq!(decoded(&full), [1, -2, 3]);
}

#[test]
fn data_of_odd_length_is_read_with_its_pad_byte_counted_uncounted_or_missing() {
    let data = vec![129, 127, 130];
    let counted = Wav::new(PCM, 1, 16_000, 8, data.clone());
    let expected = [256, -256, 512];
    assert_eq!(decoded(&counted), expected);
    let mut uncounted = counted.clone();
    uncounted.riff_len = Some(counted.bytes().len() as u32 - 8 - 1);
    assert_eq!(decoded(&uncounted), expected);
    let mut missing = uncounted.bytes();
    missing.pop();
    assert_eq!(decode_speech(&missing, "a.wav").unwrap(), expected);
}
