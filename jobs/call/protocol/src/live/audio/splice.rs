//! Joins two stretches of sound into one without a step, if there is more sound than time.

/// Fades from one stretch into another of the same length. The result fits after the sound before
/// `before`, and before the sound after `after`.
pub(in crate::live) fn fade<T>(before: &[T], after: &[T]) -> impl Iterator<Item = T>
where
    T: Copy + Default + Into<i64> + TryFrom<i64>,
{
    let length = before.len().min(after.len()).max(1) as i64;
    (0..).zip(before.iter().zip(after)).map(move |(place, (before, after))| {
        let sum = (*before).into() * (length - place) + (*after).into() * place;
        // between the two, so it fits
        T::try_from(sum / length).unwrap_or_default()
    })
}

/// The same for two frames.
pub(in crate::live) fn overlap<T, const N: usize>(before: &[T; N], after: &[T; N]) -> [T; N]
where
    T: Copy + Default + Into<i64> + TryFrom<i64>,
{
    let mut faded = [T::default(); N];
    faded.iter_mut().zip(fade(before, after)).for_each(|(place, sample)| *place = sample);
    faded
}

/// The lag among `lags` by which `samples` can best be shortened: the one at which they resemble
/// themselves most. For a voice that is a few of its periods.
///
/// `samples` holds at least the largest lag and `compared` samples more.
pub(super) fn best_lag(samples: &[i16], compared: usize, lags: std::ops::RangeInclusive<usize>) -> usize {
    let start = &samples[..compared];
    let mut best = (i64::MIN, *lags.end());
    for lag in lags {
        let (mut product, mut energy) = (0i64, 1i64);
        for (a, b) in start.iter().zip(&samples[lag..lag + compared]) {
            let (a, b) = (i64::from(*a), i64::from(*b));
            product += a * b;
            energy += b * b;
        }
        // the correlation with its sign, divided by the root of the energy
        let score = product / energy.isqrt().max(1);
        if score >= best.0 {
            best = (score, lag);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fade_begins_as_the_first_ends_as_the_second_and_has_no_step() {
        let faded = overlap(&[1000i16; 320], &[-1000; 320]);
        assert!(faded[0] == 1000 && faded[319] < -990);
        assert!(faded.windows(2).all(|pair| (pair[0] - pair[1]).abs() <= 7));
        assert_eq!(overlap(&[i32::MIN; 4], &[i32::MIN; 4]), [i32::MIN; 4]);
    }

    #[test]
    fn a_voice_is_shortened_by_whole_periods() {
        for period in [50usize, 80, 133, 200] {
            let wave = |i: usize| ((i as f64 * std::f64::consts::TAU / period as f64).sin() * 9000.0) as i16;
            let samples: Vec<i16> = (0..640).map(wave).collect();
            let lag = best_lag(&samples, 320, 40..=320);
            let rest = lag % period;
            assert!(rest.min(period - rest) <= 1, "{period}: {lag}");
        }
    }
}
