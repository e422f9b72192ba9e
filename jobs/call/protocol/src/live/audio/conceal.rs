//! Substitutes for frames that did not arrive: the last period of the voice again, ever softer.

use crate::PACKET_SAMPLES;

/// Samples that are kept: 60 ms.
const KEPT: usize = 3 * PACKET_SAMPLES;
/// Periods of a voice, in samples: 400 to 50 a second.
const PERIODS: std::ops::RangeInclusive<usize> = 40..=320;
/// Samples over which periods are compared.
const COMPARED: usize = 320;
/// Frames until the substitute is silent.
const FADE: i64 = 4;
/// Samples over which the substitute fades into a new frame.
const CROSS: usize = 64;

/// Bridges lost frames.
pub struct Conceal {
    past: [i32; KEPT],
    /// Frames lost in a row, the repeated period, and how much of it was repeated.
    lost: i64,
    period: usize,
    place: usize,
}

impl Default for Conceal {
    fn default() -> Self {
        Self { past: [0; KEPT], lost: 0, period: *PERIODS.start(), place: 0 }
    }
}

impl Conceal {
    /// A frame that arrived.
    pub fn heard(&mut self, samples: Vec<i32>) -> [i32; PACKET_SAMPLES] {
        let mut frame = [0; PACKET_SAMPLES];
        frame.iter_mut().zip(samples).for_each(|(place, sample)| *place = sample);
        if self.lost > 0 {
            for (place, sample) in frame.iter_mut().take(CROSS).enumerate() {
                let (new, old) = (i64::from(*sample), self.repeated(place));
                *sample = ((new * place as i64 + old * (CROSS - place) as i64) / CROSS as i64) as i32;
            }
        }
        self.lost = 0;
        self.remember(&frame);
        frame
    }

    /// A substitute for a lost frame.
    pub fn lost(&mut self) -> [i32; PACKET_SAMPLES] {
        if self.lost == 0 {
            (self.period, self.place) = (self.find_period(), 0);
        }
        let mut frame = [0; PACKET_SAMPLES];
        for (place, sample) in frame.iter_mut().enumerate() {
            *sample = self.repeated(place) as i32;
        }
        self.place += PACKET_SAMPLES;
        self.lost += 1;
        frame
    }

    /// Sample `place` from here on, of the repeated period.
    fn repeated(&self, place: usize) -> i64 {
        let from = KEPT - self.period;
        let sample = self.past[from + (self.place + place) % self.period];
        let gone = self.lost * PACKET_SAMPLES as i64 + place as i64;
        let left = (FADE * PACKET_SAMPLES as i64 - gone).max(0);
        i64::from(sample) * left / (FADE * PACKET_SAMPLES as i64)
    }

    fn remember(&mut self, frame: &[i32; PACKET_SAMPLES]) {
        self.past.copy_within(PACKET_SAMPLES.., 0);
        self.past[KEPT - PACKET_SAMPLES..].copy_from_slice(frame);
    }

    /// The period at which the end of the kept samples resembles itself most.
    fn find_period(&self) -> usize {
        // 29 bits a sample and 320 products: shifted so that they fit
        let end = &self.past[KEPT - COMPARED..];
        let mut best = (i128::MIN, *PERIODS.start());
        for period in PERIODS {
            let before = &self.past[KEPT - COMPARED - period..KEPT - period];
            let (mut product, mut energy) = (0i128, 1i128);
            for (a, b) in end.iter().zip(before) {
                let (a, b) = (i64::from(*a) >> 4, i64::from(*b) >> 4);
                product += i128::from(a * b);
                energy += i128::from(b * b);
            }
            // the squared correlation with its sign, divided by the energy
            let score = (product.abs() >> 8) * (product >> 8) / energy;
            if score > best.0 {
                best = (score, period);
            }
        }
        best.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(period: f64, ticks: std::ops::Range<i32>) -> Vec<i32> {
        let samples = ticks.start * 320..ticks.end * 320;
        samples.map(|i| ((f64::from(i) * std::f64::consts::TAU / period).sin() * 10_000.0) as i32).collect()
    }

    fn energy(samples: &[i32]) -> f64 {
        samples.iter().map(|sample| f64::from(*sample).powi(2)).sum()
    }

    #[test]
    fn a_lost_frame_of_a_steady_voice_is_hardly_missed() {
        for period in [50.0, 80.0, 133.3, 200.0, 300.0] {
            let mut conceal = Conceal::default();
            for frame in wave(period, 0..4).chunks(320) {
                let _ = conceal.heard(frame.to_vec());
            }
            let (bridged, real) = (conceal.lost(), wave(period, 4..5));
            let error: Vec<i32> = bridged.iter().zip(&real).map(|(a, b)| a - b).collect();
            assert!(energy(&error) < 0.15 * energy(&real), "{period}: {}", energy(&error) / energy(&real));
        }
    }

    #[test]
    fn what_goes_on_missing_dies_away_and_never_grows() {
        let mut conceal = Conceal::default();
        for frame in wave(100.0, 0..4).chunks(320) {
            let _ = conceal.heard(frame.to_vec());
        }
        let frames: Vec<f64> = (0..8).map(|_| energy(&conceal.lost())).collect();
        assert!(frames.is_sorted_by(|a, b| a >= b), "{frames:?}");
        assert!(frames[FADE as usize..].iter().all(|energy| *energy == 0.0));
    }

    #[test]
    fn it_passes_into_what_comes_without_a_step_and_full_scale_does_not_overflow() {
        let mut conceal = Conceal::default();
        for _ in 0..4 {
            conceal.heard(vec![(1 << 28) - 1; 320]);
        }
        let lost = conceal.lost();
        let back = conceal.heard(vec![(1 << 28) - 1; 320]);
        let step = (back[0] - lost[319]).abs();
        assert!(step < 1 << 21, "{step}");
        assert_eq!(back[CROSS..], [(1 << 28) - 1; 320 - CROSS]);
        let whole = conceal.heard(vec![5; 320]);
        assert_eq!(whole, [5; 320]);
    }

    #[test]
    fn silence_stays_silence() {
        let mut conceal = Conceal::default();
        conceal.heard(vec![0; 320]);
        assert_eq!(conceal.lost(), [0; 320]);
    }
}
