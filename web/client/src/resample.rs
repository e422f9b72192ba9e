//! Conversion from one rate of samples to another.
//!
//! The signal is taken to be band-limited and is evaluated at the new times:
//! `y(n) = Σ_k x(k) h(n a/b - k)`, where `a/b` is the old rate over the new,
//! `h(t) = c sinc(c t) w(t)`, `w` is Kaiser's window over [`ZEROS`] zero crossings to each side,
//! and the cutoff `c` is [`PASS`] of half the lower rate. `h` is kept at [`PHASES`] places between
//! two samples and interpolated in a straight line. Times are fractions of integers, so the rates
//! stay in step for ever.
//!
//! Bounds, checked by the tests: up to 6 kHz the output equals the input to 70 dB. Frequencies that
//! the lower rate cannot represent (from 8.2 kHz on, for 16 kHz) are attenuated by 70 dB. Delay:
//! `ZEROS` samples of the lower rate, 2 ms at 16 kHz. Cost: `2 ZEROS` products for each sample of
//! the higher rate.

use std::f64::consts::PI;

/// Zero crossings of the kernel to each side.
const ZEROS: usize = 32;
/// The number of stored kernels between two samples.
const PHASES: u32 = 256;
/// The cutoff as a part of half the lower rate: the rest is the filter's transition band.
const PASS: f64 = 0.91;
/// The shape of Kaiser's window: the stop band is about 90 dB down.
const BETA: f64 = 9.0;
/// Rates that sound cards have, in hertz.
const RATES: std::ops::RangeInclusive<u32> = 8_000..=192_000;

/// A rate that no sound card has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("rate of samples: expected 8000 to 192000 Hz, found {0}")]
pub struct RateError(pub u32);

/// Converts samples of one rate to another: see the module.
///
/// ```
/// use tobari_wasm::Resampler;
/// let mut resampler = Resampler::new(48_000, 16_000)?;
/// let mut out = Vec::new();
/// (0..100).for_each(|_| resampler.process(&[0.5; 480], &mut out));
/// assert!((15_900..=16_000).contains(&out.len()));
/// assert!(out[100..].iter().all(|sample| (sample - 0.5).abs() < 1e-4));
/// # Ok::<(), tobari_wasm::RateError>(())
/// ```
pub struct Resampler {
    from: u32,
    to: u32,
    /// Input samples to each side of an output sample.
    half: usize,
    /// `PHASES + 1` rows of `2 half` weights, those of row `p` for the time `p / PHASES` after the
    /// sample before.
    weights: Vec<f32>,
    past: Vec<f32>,
    /// The place in `past` before the next time, and how far after it that is, in parts of `to`.
    place: usize,
    rest: u32,
}

impl Resampler {
    /// A converter from `from_hz` to `to_hz`.
    ///
    /// # Errors
    /// [`RateError`] for a rate outside 8,000 to 192,000 Hz.
    pub fn new(from_hz: u32, to_hz: u32) -> Result<Self, RateError> {
        if let Some(wrong) = [from_hz, to_hz].into_iter().find(|rate| !RATES.contains(rate)) {
            return Err(RateError(wrong));
        }
        let (from, to) = (f64::from(from_hz), f64::from(to_hz));
        let cutoff = PASS * (to / from).min(1.0);
        let half = (ZEROS as f64 * (from / to).max(1.0)).ceil() as usize;
        let mut weights = Vec::with_capacity((PHASES as usize + 1) * 2 * half);
        for phase in 0..=PHASES {
            let after = f64::from(phase) / f64::from(PHASES);
            let row: Vec<f64> =
                (0..2 * half).map(|k| kernel(after + half as f64 - 1.0 - k as f64, cutoff, half)).collect();
            // a constant passes exactly, whatever the phase
            let sum: f64 = row.iter().sum();
            weights.extend(row.iter().map(|weight| (weight / sum) as f32));
        }
        // the first sample is preceded by silence
        let past = vec![0.0; half - 1];
        Ok(Self { from: from_hz, to: to_hz, half, weights, past, place: half - 1, rest: 0 })
    }

    /// Takes samples, and appends the resulting samples of the other rate.
    pub fn process(&mut self, samples: &[f32], out: &mut Vec<f32>) {
        if self.from == self.to {
            out.extend_from_slice(samples);
            return;
        }
        self.past.extend_from_slice(samples);
        while self.place + self.half < self.past.len() {
            out.push(self.at());
            let next = u64::from(self.rest) + u64::from(self.from);
            self.place += (next / u64::from(self.to)) as usize;
            self.rest = (next % u64::from(self.to)) as u32;
        }
        let done = (self.place + 1 - self.half).min(self.past.len());
        self.past.drain(..done);
        self.place -= done;
    }

    /// The signal at the next time.
    fn at(&self) -> f32 {
        let width = 2 * self.half;
        let phase = u64::from(self.rest) * u64::from(PHASES);
        let row = (phase / u64::from(self.to)) as usize * width;
        let between = (phase % u64::from(self.to)) as f32 / self.to as f32;
        let (rows, samples) = (&self.weights[row..row + 2 * width], &self.past[self.place + 1 - self.half..]);
        let (low, high) = rows.split_at(width);
        let mut sum = [0.0f32; 4];
        let lanes = low.as_chunks::<4>().0.iter().zip(high.as_chunks::<4>().0).zip(samples.as_chunks::<4>().0);
        for ((low, high), samples) in lanes {
            for lane in 0..4 {
                sum[lane] += samples[lane] * (low[lane] + between * (high[lane] - low[lane]));
            }
        }
        // `2 half` is a multiple of four where `ZEROS` is even and rates are multiples; what is
        // left over is added here
        let left = width - width % 4;
        for place in left..width {
            sum[0] += samples[place] * (low[place] + between * (high[place] - low[place]));
        }
        sum[0] + sum[1] + sum[2] + sum[3]
    }
}

/// `h(t)`, up to a factor.
fn kernel(t: f64, cutoff: f64, half: usize) -> f64 {
    let part = t / half as f64;
    if part.abs() >= 1.0 {
        return 0.0;
    }
    let x = PI * cutoff * t;
    let sinc = if x.abs() < 1e-9 { 1.0 } else { x.sin() / x };
    sinc * bessel(BETA * (1.0 - part * part).sqrt()) / bessel(BETA)
}

/// The modified Bessel function of order zero, by its series.
fn bessel(x: f64) -> f64 {
    let (mut sum, mut term) = (1.0, 1.0);
    for k in 1..40 {
        term *= (x / (2.0 * f64::from(k))).powi(2);
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sine(rate: u32, hertz: f64, samples: usize) -> Vec<f32> {
        (0..samples).map(|i| (2.0 * PI * hertz * i as f64 / f64::from(rate)).sin() as f32).collect()
    }

    fn convert(from: u32, to: u32, samples: &[f32]) -> Vec<f32> {
        let (mut resampler, mut out) = (Resampler::new(from, to).unwrap(), Vec::new());
        samples.chunks(128).for_each(|chunk| resampler.process(chunk, &mut out));
        out
    }

    fn energy(samples: &[f32]) -> f64 {
        samples.iter().map(|sample| f64::from(*sample).powi(2)).sum::<f64>() / samples.len() as f64
    }

    const CARDS: [u32; 6] = [8_000, 22_050, 44_100, 48_000, 96_000, 15_999];

    #[test]
    fn tones_below_six_kilohertz_come_out_as_they_went_in() {
        for rate in CARDS {
            for (from, to) in [(rate, 16_000), (16_000, rate)] {
                for hertz in [100.0, 1_000.0, 3_000.0, 5_900.0] {
                    if hertz > 0.37 * f64::from(rate) {
                        continue;
                    }
                    let out = convert(from, to, &sine(from, hertz, from as usize));
                    let ideal = sine(to, hertz, out.len());
                    let error: Vec<f32> = out.iter().zip(&ideal).map(|(a, b)| a - b).skip(200).collect();
                    let ratio = 10.0 * (energy(&error) / 0.5).log10();
                    assert!(ratio < -70.0, "{from} to {to}, {hertz} Hz: {ratio} dB");
                }
            }
        }
    }

    #[test]
    fn what_the_lower_rate_cannot_hold_is_gone() {
        for (from, hertz) in [(48_000, 8_200.0), (48_000, 12_000.0), (44_100, 15_000.0), (96_000, 40_000.0)] {
            let out = convert(from, 16_000, &sine(from, hertz, from as usize));
            let ratio = 10.0 * (energy(&out[200..]) / 0.5).log10();
            assert!(ratio < -70.0, "{from}, {hertz} Hz: {ratio} dB");
        }
        // and upsampling leaves none of its mirror images
        let out = convert(16_000, 48_000, &sine(16_000, 5_000.0, 16_000));
        let (sin, cos): (f64, f64) = out.iter().enumerate().fold((0.0, 0.0), |(sin, cos), (i, sample)| {
            let angle = 2.0 * PI * 11_000.0 * i as f64 / 48_000.0;
            (sin + f64::from(*sample) * angle.sin(), cos + f64::from(*sample) * angle.cos())
        });
        assert!(sin.hypot(cos) / out.len() as f64 * 2.0 < 3e-4);
    }

    #[test]
    fn rates_stay_in_step_and_pieces_of_any_length_give_the_same() {
        for rate in CARDS {
            let samples = sine(rate, 440.0, 2 * rate as usize);
            let whole = convert(rate, 16_000, &samples);
            assert!(whole.len().abs_diff(32_000) <= 70, "{rate}: {}", whole.len());
            let (mut resampler, mut pieces) = (Resampler::new(rate, 16_000).unwrap(), Vec::new());
            let mut rest = samples.as_slice();
            for length in (0..).map(|round| round * 37 % 300) {
                let (piece, after) = rest.split_at(length.min(rest.len()));
                resampler.process(piece, &mut pieces);
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            assert_eq!(whole, pieces, "{rate}");
        }
    }

    #[test]
    fn one_rate_passes_unchanged_and_impossible_ones_are_refused() {
        let samples = sine(16_000, 440.0, 1000);
        assert_eq!(convert(16_000, 16_000, &samples), samples);
        for rate in [0, 7_999, 192_001, u32::MAX] {
            assert_eq!(Resampler::new(rate, 16_000).err(), Some(RateError(rate)));
            assert_eq!(Resampler::new(16_000, rate).err(), Some(RateError(rate)));
        }
    }
}
