//! Processing of a microphone's frames before encryption, and of sums before playback.
//!
//! All parts are state machines over frames of 320 samples (20 ms), in integers. They have no
//! clock, and compute the same numbers on every machine.
//!
//! - [`Microphone`]: a gate and a gain. Without a gate a thousand open microphones are a thousand
//!   times the noise. Only a sender can level its own voice, because nobody can weigh single voices
//!   in a sum.
//! - [`PlaybackBuffer`]: a buffer against jitter ([`JitterBuffer`]), a substitute for lost frames
//!   ([`Conceal`]), and a limiter ([`Limiter`]), because the sum is exact to 26 bits and more, and
//!   loudspeakers take 16.
//! - [`Backlog`] and [`Outlet`]: buffers between the call and a program that writes or reads by its
//!   own clock.

mod backlog;
mod conceal;
mod jitter;
mod limiter;
mod microphone;
pub(in crate::live) mod splice;

pub use backlog::{Backlog, Outlet};
pub use conceal::Conceal;
pub use jitter::{JitterBuffer, Played};
pub use limiter::Limiter;
pub use microphone::Microphone;

use crate::PACKET_SAMPLES;

/// From sums, as they arrive, to frames, as the loudspeaker needs them.
///
/// ```
/// use tobari_call::live::audio::PlaybackBuffer;
/// let mut ear = PlaybackBuffer::default();
/// (0..10).for_each(|tick| ear.push(tick, vec![1000; 320]));
/// let played: Vec<i16> = (0..10).flat_map(|_| ear.pull()).collect();
/// assert!(played[400..].iter().all(|sample| *sample == 1000));
/// ```
#[derive(Default)]
pub struct PlaybackBuffer {
    jitter: JitterBuffer,
    conceal: Conceal,
    limiter: Limiter,
}

impl PlaybackBuffer {
    /// Takes the samples of a tick. There must be [`PACKET_SAMPLES`] of them.
    pub fn push(&mut self, tick: u32, samples: Vec<i32>) {
        if samples.len() == PACKET_SAMPLES {
            self.jitter.push(tick, samples);
        }
    }

    /// The next 20 ms.
    pub fn pull(&mut self) -> [i16; PACKET_SAMPLES] {
        let frame = match self.jitter.pull() {
            Played::Samples(samples) => self.conceal.heard(samples),
            Played::Lost => self.conceal.lost(),
            Played::Nothing => self.conceal.heard(vec![0; PACKET_SAMPLES]),
        };
        self.limiter.limit(&frame)
    }

    /// How many frames wait to be played.
    pub fn depth(&self) -> usize {
        self.jitter.depth()
    }
}
