//! A gate and a gain before encryption.

use crate::PACKET_SAMPLES;

/// A gain of one, the least gain (a quarter), and the largest (eight times).
const ONE: i64 = 1 << 12;
const LEAST: i64 = ONE / 4;
const MOST: i64 = 8 * ONE;
/// The target loudness of a voice: the root of its mean square, 20 dB below full scale.
const TARGET: i64 = 3277;
/// No sample is made louder than this.
const PEAK: i64 = 30_000;
/// The mean square below which nothing is a voice, in a silent room too.
const SILENCE: u64 = 30 * 30;
/// How many times the mean square of the noise a voice must have: 8 dB.
const ABOVE_NOISE: u64 = 6;
/// Frames that the gate stays open after a voice: 300 ms.
const HANGOVER: u32 = 15;
/// Frames of which the quietest counts as the noise: one and a half seconds.
const NOISE_FRAMES: u32 = 75;

/// A gate and a gain for a microphone, before encryption.
///
/// While nobody talks, the output is silence: the noise of a thousand microphones would add up. In
/// a room with constant sending that silence is encrypted and sent like any other frame.
pub struct Microphone {
    gain: i64,
    /// How far the gate was open at the end of the last frame.
    open: i64,
    left: u32,
    /// The least mean square of the current stretch of frames, and of the one before.
    least: [u64; 2],
    frames: u32,
    muted: bool,
}

impl Default for Microphone {
    fn default() -> Self {
        Self { gain: ONE, open: 0, left: 0, least: [u64::MAX, SILENCE], frames: 0, muted: false }
    }
}

fn mean_square(frame: &[i16; PACKET_SAMPLES]) -> u64 {
    let sum: i64 = frame.iter().map(|sample| i64::from(*sample).pow(2)).sum();
    sum as u64 / PACKET_SAMPLES as u64
}

impl Microphone {
    /// Sends silence from now on, or no longer.
    pub fn mute(&mut self, muted: bool) {
        self.muted = muted;
    }

    /// Is it muted?
    pub fn is_muted(&self) -> bool {
        self.muted
    }

    /// The frame to send, and whether somebody talks in it.
    pub fn process(&mut self, frame: &[i16; PACKET_SAMPLES]) -> ([i16; PACKET_SAMPLES], bool) {
        let loudness = mean_square(frame);
        let voice = self.is_voice(loudness) && !self.muted;
        self.left = if self.muted {
            0
        } else if voice {
            HANGOVER
        } else {
            self.left.saturating_sub(1)
        };
        let talking = self.left > 0;
        if voice {
            self.level(loudness);
        }
        let loudest = frame.iter().map(|sample| i64::from(*sample).abs()).max().unwrap_or(0);
        let most = PEAK.max(loudest) * ONE / loudest.max(1);
        let start = self.open.min(most);
        let end = if talking { self.gain.min(most) } else { 0 };
        self.open = end;
        let mut out = [0; PACKET_SAMPLES];
        for (place, (out, sample)) in out.iter_mut().zip(frame).enumerate() {
            let gain = start + (end - start) * (place as i64 + 1) / PACKET_SAMPLES as i64;
            let scaled = (i64::from(*sample) * gain + ONE / 2) >> 12;
            *out = scaled.clamp(i16::MIN.into(), i16::MAX.into()) as i16;
        }
        (out, talking)
    }

    fn is_voice(&mut self, loudness: u64) -> bool {
        self.least[0] = self.least[0].min(loudness);
        self.frames += 1;
        if self.frames >= NOISE_FRAMES {
            (self.least, self.frames) = ([u64::MAX, self.least[0]], 0);
        }
        let noise = self.least[0].min(self.least[1]);
        loudness > SILENCE && loudness > ABOVE_NOISE.saturating_mul(noise)
    }

    /// Moves the gain towards the one that this voice needs: quickly down, slowly up.
    fn level(&mut self, loudness: u64) {
        let wanted = (TARGET * ONE / (loudness.isqrt() as i64).max(1)).clamp(LEAST, MOST);
        let step = wanted - self.gain;
        self.gain += if step < 0 { step / 8 } else { step / 64 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(seed: &mut u32, level: i32) -> i32 {
        *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((*seed >> 16) as i32 - 32_768) * level / 32_768
    }

    /// Syllables of a voice of this level over noise: 10 frames on, 10 off.
    fn speech(level: f64, noise_level: i32, frames: usize) -> Vec<[i16; 320]> {
        let mut seed = 1;
        (0..frames)
            .map(|frame| {
                std::array::from_fn(|i| {
                    let on = if frame % 20 < 10 { level } else { 0.0 };
                    let wave = ((frame * 320 + i) as f64 * 0.07).sin() * on * 1.414;
                    (wave as i32 + noise(&mut seed, noise_level)) as i16
                })
            })
            .collect()
    }

    #[test]
    fn noise_alone_is_silence_whatever_its_level() {
        for level in [0, 40, 300, 2000] {
            let mut microphone = Microphone::default();
            let frames = speech(0.0, level, 600);
            // the first three seconds give the noise a level
            let open =
                frames.iter().map(|frame| microphone.process(frame).1).skip(200).filter(|talking| *talking).count();
            assert!(open <= 20, "{level}: {open}");
        }
    }

    #[test]
    fn voices_of_any_level_come_out_about_as_loud() {
        for level in [500.0, 2000.0, 6000.0, 12_000.0] {
            let mut microphone = Microphone::default();
            let out: Vec<_> = speech(level, 30, 1500).iter().map(|frame| microphone.process(frame)).collect();
            let loud: Vec<u64> =
                out[1300..].iter().map(|(frame, _)| mean_square(frame).isqrt()).filter(|rms| *rms > 300).collect();
            let mean = loud.iter().sum::<u64>() / loud.len() as u64;
            assert!((2300..4300).contains(&mean), "{level}: {mean}");
            assert!(out[1300..].iter().filter(|(_, talking)| *talking).count() >= 180, "{level}");
        }
    }

    #[test]
    fn nothing_clips_that_did_not_and_the_muted_are_silent_at_once() {
        let mut microphone = Microphone::default();
        for frame in speech(300.0, 10, 1000) {
            let _ = microphone.process(&frame);
        }
        let shout: [i16; 320] = std::array::from_fn(|i| ((i as f64 * 0.07).sin() * 29_000.0) as i16);
        for _ in 0..3 {
            let (out, talking) = microphone.process(&shout);
            assert!(talking);
            let clipped = out.iter().filter(|sample| sample.unsigned_abs() >= 32_767).count();
            assert_eq!(clipped, 0);
        }
        microphone.mute(true);
        let (_, talking) = microphone.process(&shout);
        assert!(!talking);
        assert_eq!(microphone.process(&shout), ([0; 320], false));
    }
}
