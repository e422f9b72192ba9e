//! Fits sums of any size into 16 bits without clipping.

use crate::PACKET_SAMPLES;

/// Samples of a block, in which the gain changes in a straight line: 2 ms.
const BLOCK: usize = 32;
/// A gain of one.
const ONE: i64 = 1 << 30;
/// The gain grows by this part of itself in each block: twofold in 90 ms.
const RELEASE: i64 = 64;

/// Lowers the gain before a loud sample, and raises it slowly afterwards. It delays by 2 ms, to see
/// the next block.
///
/// The gain at both ends of a block is at most what the loudest sample of the block allows, so no
/// sample exceeds 16 bits. While all samples fit, they pass unchanged.
pub struct Limiter {
    /// The block that is returned next.
    held: [i32; BLOCK],
    /// The gain at its beginning.
    gain: i64,
}

impl Default for Limiter {
    fn default() -> Self {
        Self { held: [0; BLOCK], gain: ONE }
    }
}

/// The largest gain that keeps all samples within 16 bits.
fn allowed(block: &[i32; BLOCK]) -> i64 {
    let peak = block.iter().map(|sample| i64::from(*sample).abs()).max().unwrap_or(0);
    if peak <= 32_767 { ONE } else { 32_767 * ONE / peak }
}

impl Limiter {
    /// The next 20 ms.
    pub fn limit(&mut self, frame: &[i32; PACKET_SAMPLES]) -> [i16; PACKET_SAMPLES] {
        let mut out = [0; PACKET_SAMPLES];
        for (next, out) in frame.as_chunks::<BLOCK>().0.iter().zip(out.as_chunks_mut::<BLOCK>().0) {
            let released = (self.gain + self.gain / RELEASE + 1).min(ONE);
            let end = released.min(allowed(&self.held)).min(allowed(next));
            let (start, change) = (self.gain, end - self.gain);
            for (place, (out, sample)) in out.iter_mut().zip(self.held).enumerate() {
                let gain = start + change * place as i64 / BLOCK as i64;
                let scaled = if gain == ONE { i64::from(sample) } else { i64::from(sample) * gain / ONE };
                *out = scaled.clamp(i16::MIN.into(), i16::MAX.into()) as i16;
            }
            (self.held, self.gain) = (*next, end);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(samples: &[i32]) -> Vec<i16> {
        let mut limiter = Limiter::default();
        samples.as_chunks::<PACKET_SAMPLES>().0.iter().flat_map(|frame| limiter.limit(frame)).collect()
    }

    #[test]
    fn what_fits_passes_unchanged_two_milliseconds_later() {
        let samples: Vec<i32> = (0..3200).map(|i| (i * 37) % 65_534 - 32_767).collect();
        let out = run(&samples);
        assert!(out[BLOCK..].iter().zip(&samples).all(|(out, sample)| i32::from(*out) == *sample));
    }

    #[test]
    fn nothing_clips_however_loud_it_is_and_the_shape_stays() {
        for level in [40_000, 100_000, 1 << 20, (1 << 28) - 1] {
            let wave = |i: i32| ((f64::from(i) * 0.11).sin() * f64::from(level)) as i32;
            let samples: Vec<i32> = (0..6400).map(|i| if i < 1600 { wave(i) / level * 100 } else { wave(i) }).collect();
            let out = run(&samples);
            assert!(out.iter().all(|sample| (-32_767..=32_767).contains(&i32::from(*sample))));
            // the output follows the scaled wave, without flat, clipped peaks
            let loudest = out[3200..].iter().map(|sample| sample.abs()).max().unwrap();
            assert!(loudest > 30_000, "{level}: {loudest}");
            for (place, out) in out.iter().enumerate().skip(4000).take(2000) {
                let expected = f64::from(samples[place - BLOCK]) * 32_767.0 / f64::from(level);
                assert!((f64::from(*out) - expected).abs() < 1800.0, "{level} at {place}: {out} for {expected}");
            }
        }
    }

    #[test]
    fn the_gain_comes_back() {
        let mut samples = vec![1000; 32_000];
        samples[320..640].fill(1 << 20);
        let out = run(&samples);
        assert!(out[700] < 200, "still low");
        assert_eq!(out[31_999], 1000);
    }
}
