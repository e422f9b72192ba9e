//! Conversion of samples of any rate to 16 kHz mono 16-bit, by the rule at the head of [`super`].
//!
//! **Alignment.** rubato's asynchronous sinc resampler reports its delay only as a whole number of
//! output samples. This module removes the delay exactly. With `rate / 16000 = M / L` in lowest
//! terms, a filter of `2h` points and `f` stored phases, the `j`-th output (from 0) of a fresh
//! resampler is the input at time `−h + 1/f + (j + 1)·M/L`, in input frames. Put `p` frames of
//! silence in front and drop the first `k` outputs: the next output is at time 0 when
//! `L·(h + p) − L/f = (k + 1)·M`. As `M` and `L` have no common factor, some `p < M` makes the left
//! side a multiple of `M` whenever `f` divides `L`. So:
//!
//! - `f = L`, no interpolation between phases, where `L` is at most [`MAX_PHASES`]: a polyphase
//!   filter, exact. This is every rate in common use (48 kHz has L = 1, 44.1 kHz has 160, 11.025
//!   kHz has 640).
//! - `f = 200`, which divides every larger `L` (each is a divisor of 16000 above 640), with cubic
//!   interpolation between phases, whose error is below 2^−25 of the signal.

use super::{SAMPLE_RATE_HZ, WavError};
use rubato::audioadapter_buffers::direct::SequentialSlice;
use rubato::{
    Async, FixedAsync, Resampler, SincInterpolationParameters, SincInterpolationType, WindowFunction, calculate_cutoff,
};

/// Filter points at the lower of the two rates.
const POINTS: u64 = 256;
/// The most filter phases that are stored one by one: a table of about 1 MB at the usual rates, at
/// most 16 MB.
const MAX_PHASES: u64 = 640;
/// Stored phases if values between them are interpolated. The number divides every divisor of 16000
/// above [`MAX_PHASES`].
const INTERPOLATED_PHASES: u64 = 200;
/// Output samples computed at a time.
const CHUNK: usize = 1024;

/// The mean of each frame's channels (one or two), each sample mapped by `to_steps` first.
pub(super) fn mono<S, E>(
    mut samples: impl Iterator<Item = Result<S, E>>,
    channels: u16,
    to_steps: impl Fn(S) -> f64,
) -> impl Iterator<Item = Result<f64, E>> {
    let mut next = move || samples.next().map(|sample| sample.map(&to_steps));
    std::iter::from_fn(move || {
        let first = next()?;
        if channels == 1 {
            return Some(first);
        }
        let second = next()?;
        Some(first.and_then(|first| Ok(f64::midpoint(first, second?))))
    })
}

/// Resamples `frames` mono frames of `rate_hz`, in units of a 16-bit step, and rounds them.
///
/// # Errors
///
/// The first error of `source`; [`WavError::Empty`] if the frames are less than half a sample at 16
/// kHz.
pub(super) fn to_speech(
    source: impl Iterator<Item = Result<f64, WavError>>,
    frames: u64,
    rate_hz: u32,
    name: &str,
) -> Result<Vec<i16>, WavError> {
    let wanted = usize::try_from(output_length(frames, rate_hz)).unwrap_or(usize::MAX);
    if wanted == 0 {
        let found = format!("{frames} frames at {rate_hz} Hz, less than half a sample at {SAMPLE_RATE_HZ} Hz");
        return Err(WavError::Empty { name: name.to_owned(), found });
    }
    let mut speech = Vec::with_capacity(wanted);
    if rate_hz == SAMPLE_RATE_HZ {
        for value in source {
            speech.push(round(value?));
        }
        return Ok(speech);
    }
    let defect = |reason: String| WavError::Resample { name: name.to_owned(), rate_hz, reason };
    let mut aligned = Aligned::new(rate_hz).map_err(defect)?;
    let silence = std::iter::repeat_n(0.0, aligned.lead).map(Ok);
    let mut source = silence.chain(source);
    while speech.len() < wanted {
        let input = aligned.input();
        let mut present = 0;
        for (place, value) in input.iter_mut().zip(&mut source) {
            *place = value?;
            present += 1;
        }
        input[present..].fill(0.0);
        let output = aligned.output().map_err(defect)?;
        let room = wanted - speech.len();
        speech.extend(output.iter().take(room).map(|value| round(*value)));
    }
    Ok(speech)
}

/// round(frames · 16000 / rate), a half rounded up.
fn output_length(frames: u64, rate_hz: u32) -> u64 {
    let rate = u64::from(rate_hz);
    (2 * frames * u64::from(SAMPLE_RATE_HZ) + rate) / (2 * rate)
}

/// To the nearest integer, ties to even, saturated: a cast from float to integer saturates beyond
/// its range.
fn round(steps: f64) -> i16 {
    steps.round_ties_even() as i16
}

/// A resampler to 16 kHz whose first output is exactly at the first input after `lead` frames of
/// silence.
struct Aligned {
    resampler: Async<f64>,
    /// Frames of silence the caller puts in front of the recording.
    lead: usize,
    /// Outputs still to be dropped.
    dropped: usize,
    input: Vec<f64>,
    output: Vec<f64>,
}

impl Aligned {
    fn new(rate_hz: u32) -> Result<Self, String> {
        let filter = Filter::new(rate_hz);
        let (lead, dropped) = filter.alignment();
        let ratio = f64::from(SAMPLE_RATE_HZ) / f64::from(rate_hz);
        let resampler = Async::new_sinc(ratio, 1.0, &filter.parameters(), CHUNK, 1, FixedAsync::Output)
            .map_err(|error| error.to_string())?;
        Ok(Self { resampler, lead, dropped, input: Vec::new(), output: vec![0.0; CHUNK] })
    }

    /// The buffer for the frames that the next [`Self::output`] consumes. The caller must fill it
    /// completely.
    fn input(&mut self) -> &mut [f64] {
        self.input.resize(self.resampler.input_frames_next(), 0.0);
        &mut self.input
    }

    /// The next outputs at or after time 0; possibly none at first.
    fn output(&mut self) -> Result<&[f64], String> {
        let input = SequentialSlice::new(&self.input, 1, self.input.len()).map_err(|error| error.to_string())?;
        let mut output = SequentialSlice::new_mut(&mut self.output, 1, CHUNK).map_err(|error| error.to_string())?;
        self.resampler.process_into_buffer(&input, &mut output, None).map_err(|error| error.to_string())?;
        let dropped = self.dropped.min(CHUNK);
        self.dropped -= dropped;
        Ok(&self.output[dropped..])
    }
}

/// The filter for one input rate, in the letters of the module head.
struct Filter {
    /// L: 16000 in lowest terms.
    numerator: u64,
    /// M: the rate in lowest terms.
    denominator: u64,
    /// 2h: filter points at the input rate, even.
    points: u64,
    /// f: stored phases of the filter.
    phases: u64,
}

impl Filter {
    fn new(rate_hz: u32) -> Self {
        let (rate, speech_rate) = (u64::from(rate_hz), u64::from(SAMPLE_RATE_HZ));
        let divisor = greatest_common_divisor(rate, speech_rate);
        let numerator = speech_rate / divisor;
        let phases = if numerator <= MAX_PHASES { numerator } else { INTERPOLATED_PHASES };
        // For higher input rates, the filter spans as many *output* samples; rubato requires a
        // multiple of 8.
        let points = (POINTS * rate.max(speech_rate)).div_ceil(speech_rate).next_multiple_of(8);
        Self { numerator, denominator: rate / divisor, points, phases }
    }

    fn parameters(&self) -> SincInterpolationParameters {
        let window = WindowFunction::BlackmanHarris2;
        let interpolation =
            if self.phases == self.numerator { SincInterpolationType::Nearest } else { SincInterpolationType::Cubic };
        SincInterpolationParameters {
            sinc_len: as_index(self.points),
            // The cutoff is relative to the lower rate, so it is computed for the points at that
            // rate.
            f_cutoff: Some(calculate_cutoff(as_index(POINTS), window)),
            oversampling_factor: as_index(self.phases),
            interpolation,
            window,
        }
    }

    /// p and k: the frames of silence in front, and the outputs to drop.
    fn alignment(&self) -> (usize, usize) {
        let position = |lead| self.numerator * (self.points / 2 + lead) - self.numerator / self.phases;
        let lead = (0..self.denominator).find(|lead| position(*lead).is_multiple_of(self.denominator)).unwrap_or(0);
        (as_index(lead), as_index(position(lead) / self.denominator - 1))
    }
}

/// These numbers are below 2^32 for every supported rate.
fn as_index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
