//! Changes of rate, measured against the expected sine.

use crate::build::{PCM, Wav};
use std::f64::consts::TAU;
use tobari_call_files::wav::{MAX_RATE_HZ, MIN_RATE_HZ, decode_speech};

/// Rates with every kind of ratio: whole, simple, many filter phases, and, from 15,999 Hz on,
/// interpolated phases, with 16000, 8000, 1000 and 800 as the numerator in lowest terms.
const RATES_HZ: [u32; 16] = [
    8_000, 11_025, 12_000, 22_050, 24_000, 32_000, 44_100, 48_000, 88_200, 96_000, 192_000, 15_999, 44_102, 44_112,
    44_140, 191_999,
];

/// A sine as 32-bit integers, so that the input adds no noise.
fn sine(rate_hz: u32, frequency_hz: f64, amplitude: f64, seconds: f64) -> Wav {
    let frames = (f64::from(rate_hz) * seconds).round() as usize;
    let value = |n: usize| amplitude * 65536.0 * (TAU * frequency_hz * n as f64 / f64::from(rate_hz)).sin();
    let data = (0..frames).flat_map(|n| (value(n).round() as i32).to_le_bytes()).collect();
    Wav::new(PCM, 1, rate_hz, 32, data)
}

fn decoded(wav: &Wav) -> Vec<i16> {
    decode_speech(&wav.bytes(), "test.wav").unwrap()
}

/// Power of the difference from the expected sine, relative to a full-scale sine, in dB. The reach
/// of the filter at both ends (a tenth of a second) is left out.
fn error_db(speech: &[i16], frequency_hz: f64, amplitude: f64) -> f64 {
    let margin = 1600;
    let expected = |n: usize| amplitude * (TAU * frequency_hz * n as f64 / 16_000.0).sin();
    let middle = margin..speech.len() - margin;
    let count = middle.len() as f64;
    let power = middle.map(|n| (f64::from(speech[n]) - expected(n)).powi(2)).sum::<f64>() / count;
    10.0 * (power / (32767.0_f64.powi(2) / 2.0)).log10()
}

#[test]
fn a_440_hz_sine_arrives_with_its_amplitude_and_phase_from_every_rate() {
    // Rounding to 16 bits alone leaves -98 dB: no other error may add to it, and time may not shift
    // by 10^-4 of a sample.
    for rate_hz in RATES_HZ {
        let error = error_db(&decoded(&sine(rate_hz, 440.0, 32000.0, 1.0)), 440.0, 32000.0);
        assert!(error < -97.5, "{rate_hz} Hz: {error:.2} dB");
    }
}

#[test]
fn the_band_up_to_0_88_of_the_lower_nyquist_frequency_passes_unchanged() {
    for rate_hz in RATES_HZ {
        // Just below 0.88, and in no simple ratio to 16 kHz, because otherwise the rounding noise
        // would be a few strong lines.
        let highest_hz = 0.8796 * f64::from(rate_hz.min(16_000)) / 2.0;
        let error = error_db(&decoded(&sine(rate_hz, highest_hz, 30000.0, 1.0)), highest_hz, 30000.0);
        assert!(error < -97.0, "{rate_hz} Hz, tone of {highest_hz} Hz: {error:.2} dB");
    }
}

#[test]
fn a_tone_above_8_khz_leaves_no_alias() {
    for (rate_hz, frequency_hz) in [
        (48_000, 12_000.0),
        (48_000, 8_000.5),
        (44_100, 8_100.0),
        (192_000, 15_999.0),
        (192_000, 90_000.0),
        (44_101, 20_000.0),
    ] {
        // Below half a 16-bit step at full scale, so every sample is zero after the start.
        let speech = decoded(&sine(rate_hz, frequency_hz, 32767.0, 1.0));
        assert!(speech[1600..14_400].iter().all(|sample| *sample == 0), "{rate_hz} Hz, tone of {frequency_hz} Hz");
    }
}

#[test]
fn a_low_rate_leaves_no_image_above_its_nyquist_frequency() {
    // The image of 3 kHz at 8 kHz would be at 5 kHz; the error against the pure sine includes it.
    let error = error_db(&decoded(&sine(8_000, 3_000.0, 32000.0, 1.0)), 3_000.0, 32000.0);
    assert!(error < -97.5, "{error:.2} dB");
}

#[test]
fn a_constant_keeps_its_value_exactly() {
    for rate_hz in RATES_HZ {
        let wav = Wav::pcm16(1, rate_hz, &vec![12_345; rate_hz as usize]);
        let speech = decoded(&wav);
        assert!(speech[1600..14_400].iter().all(|sample| *sample == 12_345), "{rate_hz} Hz");
    }
}

#[test]
fn a_click_stays_at_its_time() {
    for rate_hz in RATES_HZ {
        // A click of one frame at half a second. Both rates have a sample there (or as near as the
        // rate allows).
        let mut samples = vec![0; rate_hz as usize];
        let place = rate_hz as usize / 2;
        samples[place] = 32767;
        let speech = decoded(&Wav::pcm16(1, rate_hz, &samples));
        let peak = (0..speech.len()).max_by_key(|n| i32::from(speech[*n]).abs()).unwrap();
        let expected = place as f64 * 16_000.0 / f64::from(rate_hz);
        assert!((peak as f64 - expected).abs() <= 0.51, "{rate_hz} Hz: peak at {peak}, expected {expected:.2}");
    }
}

#[test]
fn the_first_and_the_last_sample_are_not_lost() {
    for rate_hz in [8_000, 44_100, 48_000, 192_000, 44_101] {
        let frames = rate_hz as usize / 10;
        let loud = |place: usize| {
            let mut samples = vec![0; frames];
            samples[place] = i16::MAX;
            decoded(&Wav::pcm16(1, rate_hz, &samples))
        };
        // The height of a band-limited click of one frame, at the nearest output sample.
        let height = 0.9 * 32767.0 * (16_000.0 / f64::from(rate_hz)).min(1.0);
        let first = loud(0);
        let last_output = first.len() - 1;
        let last = loud(last_output * rate_hz as usize / 16_000);
        assert!(f64::from(first[0]) > height, "{rate_hz} Hz: {}", first[0]);
        assert!(f64::from(last[last_output]) > 0.7 * height, "{rate_hz} Hz: {}", last[last_output]);
    }
}

#[test]
fn the_length_is_rounded_to_nearest_with_a_half_up() {
    let cases = [
        (48_000, 3, 1),
        (48_000, 4, 1),
        (48_000, 5, 2),
        (48_000, 2, 1),
        (32_000, 1, 1),
        (32_000, 3, 2),
        (44_100, 44_100, 16_000),
        (44_100, 44_101, 16_000),
        (44_100, 44_102, 16_001),
        (8_000, 1, 2),
        (8_000, 12_345, 24_690),
        (192_000, 6, 1),
        (11_025, 11_025, 16_000),
        (MAX_RATE_HZ, 192_000, 16_000),
        (MIN_RATE_HZ, 100, 400),
    ];
    for (rate_hz, frames, expected) in cases {
        let speech = decoded(&Wav::pcm16(1, rate_hz, &vec![100; frames]));
        assert_eq!(speech.len(), expected, "{frames} frames at {rate_hz} Hz");
    }
}

#[test]
fn a_resampled_peak_beyond_full_scale_saturates() {
    // A full-scale square wave overshoots when its edges are band-limited.
    let samples: Vec<i16> = (0..48_000).map(|n| if n / 120 % 2 == 0 { i16::MAX } else { i16::MIN }).collect();
    let speech = decoded(&Wav::pcm16(1, 48_000, &samples));
    for (n, sample) in speech.iter().enumerate().skip(1600).take(12_800) {
        let phase = n % 80;
        if (2..38).contains(&phase) {
            assert!(*sample > 29_000, "sample {n} wrapped or fell: {sample}");
        } else if (42..78).contains(&phase) {
            assert!(*sample < -29_000, "sample {n} wrapped or rose: {sample}");
        }
    }
    assert!(speech.contains(&i16::MAX) && speech.contains(&i16::MIN));
}

#[test]
fn stereo_is_averaged_before_resampling() {
    let Wav { data, .. } = sine(48_000, 1000.0, 20000.0, 1.0);
    let (left, silence) = (data.chunks_exact(4), [0; 4]);
    let wav = Wav::new(PCM, 2, 48_000, 32, left.flat_map(|sample| [sample, &silence].concat()).collect());
    let error = error_db(&decoded(&wav), 1000.0, 10000.0);
    assert!(error < -97.5, "{error:.2} dB");
}
