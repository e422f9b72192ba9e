//! The mix of plaintext samples, as a plain function: the reference for the blind server's result.
//!
//! Every encrypted run is compared with this mix. The module also has a client's two steps around
//! the cryptography: cutting a recording into packets and bringing a sum back into 16 bits.

use super::PACKET_SAMPLES;

/// The exact sum of all speakers, sample by sample; a speaker that is shorter than the longest is
/// silent at its end.
///
/// Up to 65,536 speakers fit into 32 bits; a call has at most [`tobari_curve::wire::MAX_MEMBERS`].
///
/// ```
/// use tobari_call::program::mix;
/// assert_eq!(mix(&[&[1, 2, 3], &[i16::MIN, 10]]), [-32767, 12, 3]);
/// ```
pub fn mix(speakers: &[&[i16]]) -> Vec<i32> {
    let longest = speakers.iter().map(|speaker| speaker.len()).max().unwrap_or(0);
    let mut sum = vec![0; longest];
    for speaker in speakers {
        for (total, &sample) in sum.iter_mut().zip(*speaker) {
            *total += i32::from(sample);
        }
    }
    sum
}

/// How many ticks a recording of `samples` samples takes.
pub fn ticks(samples: usize) -> usize {
    samples.div_ceil(PACKET_SAMPLES)
}

/// Cuts a recording into packets of [`PACKET_SAMPLES`] samples, the last one filled up with
/// silence.
///
/// ```
/// use tobari_call::program::frames;
/// let packets: Vec<_> = frames(&[7; 321]).collect();
/// assert_eq!((packets.len(), packets[1][0], packets[1][1]), (2, 7, 0));
/// ```
pub fn frames(speaker: &[i16]) -> impl ExactSizeIterator<Item = [i32; PACKET_SAMPLES]> + '_ {
    (0..ticks(speaker.len())).map(|index| frame(speaker, index))
}

/// The packet of one tick, computed without the packets before it ([`frames`] would compute each of
/// them). Beyond the end of the speech the packet is silence.
///
/// ```
/// use tobari_call::PACKET_SAMPLES;
/// use tobari_call::program::{frame, frames};
/// let speech = [7; 321];
/// assert_eq!(Some(frame(&speech, 1)), frames(&speech).nth(1));
/// assert_eq!(frame(&speech, 2), [0; PACKET_SAMPLES]);
/// ```
pub fn frame(speaker: &[i16], index: usize) -> [i32; PACKET_SAMPLES] {
    let mut frame = [0; PACKET_SAMPLES];
    let speech = index.checked_mul(PACKET_SAMPLES).and_then(|first| speaker.get(first..)).unwrap_or(&[]);
    for (slot, &sample) in frame.iter_mut().zip(speech) {
        *slot = i32::from(sample);
    }
    frame
}

/// The sample as 16 bits: a value beyond the range saturates at the end of the range and never
/// overflows.
///
/// ```
/// use tobari_call::program::limit;
/// assert_eq!([limit(-40_000), limit(5), limit(32_768)], [i16::MIN, 5, i16::MAX]);
/// ```
pub fn limit(sample: i32) -> i16 {
    i16::try_from(sample).unwrap_or(if sample < 0 { i16::MIN } else { i16::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_equals_adding_by_hand() {
        let speakers: [&[i16]; 4] = [&[1, -2, 3], &[], &[100], &[i16::MIN, i16::MIN, i16::MIN, i16::MAX]];
        assert_eq!(mix(&speakers), [1 + 100 - 32_768, -2 - 32_768, 3 - 32_768, 32_767]);
        assert!(mix(&[]).is_empty());
        assert!(mix(&[&[], &[]]).is_empty());
    }

    #[test]
    fn four_thousand_full_scale_speakers_are_summed_exactly() {
        let loud = [i16::MIN, i16::MAX];
        assert_eq!(mix(&[loud.as_slice(); 4096]), [-4096 * 32_768, 4096 * 32_767]);
    }

    #[test]
    fn frames_hold_every_sample_once_and_then_silence() {
        for length in [0, 1, 319, 320, 321, 640, 1000] {
            let speaker: Vec<i16> = (1..).take(length).collect();
            assert_eq!(frames(&speaker).len(), ticks(length));
            let flat: Vec<i32> = frames(&speaker).flatten().collect();
            assert!(flat.iter().zip(&speaker).all(|(&a, &b)| a == i32::from(b)), "{length}");
            assert!(
                flat.len() < length + PACKET_SAMPLES && flat[length..].iter().all(|&sample| sample == 0),
                "{length}"
            );
        }
    }

    #[test]
    fn limiting_saturates_and_changes_nothing_within_range() {
        for sample in i32::from(i16::MIN)..=i32::from(i16::MAX) {
            assert_eq!(i32::from(limit(sample)), sample);
        }
        assert_eq!([limit(i32::MIN), limit(-32_769)], [i16::MIN; 2]);
        assert_eq!([limit(i32::MAX), limit(32_768)], [i16::MAX; 2]);
    }
}
