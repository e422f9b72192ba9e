//! Compares the sound that was said with the sound that was heard.

use serde_json::Value;

/// Samples a second.
pub(crate) const RATE: usize = 16_000;

/// Sound in the order of samples, with the time of each frame's first sample in milliseconds of the
/// machine's clock.
#[derive(Default)]
pub(crate) struct Track {
    pub(crate) samples: Vec<f64>,
    /// Frames: the place of the first sample in `samples`, and its time.
    pub(crate) times: Vec<(usize, f64)>,
}

impl Track {
    /// From the page's tap: `[[time, [sample, …]], …]`.
    pub(crate) fn read(frames: &Value) -> Self {
        let mut track = Self::default();
        for frame in frames.as_array().unwrap() {
            let time = frame[0].as_f64().unwrap();
            track.times.push((track.samples.len(), time));
            track.samples.extend(frame[1].as_array().unwrap().iter().map(|sample| sample.as_f64().unwrap()));
        }
        track
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.samples.len() as f64 / RATE as f64
    }

    /// The time of a sample.
    fn time(&self, place: usize) -> f64 {
        let frame = self.times.partition_point(|(start, _)| *start <= place).saturating_sub(1);
        let (start, time) = self.times[frame];
        time + 1000.0 * (place - start) as f64 / RATE as f64
    }
}

pub(crate) fn energy(samples: &[f64]) -> f64 {
    samples.iter().map(|sample| sample * sample).sum()
}

/// Whether a stretch contains a voice.
pub(crate) fn loud(stretch: &[f64]) -> bool {
    energy(stretch) / stretch.len() as f64 > 300.0 * 300.0
}

/// The similarity of two stretches of equal length, from -1 to 1; zero if one is silent.
pub(crate) fn likeness(a: &[f64], b: &[f64]) -> f64 {
    let product: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
    let norm = (energy(a) * energy(b)).sqrt();
    if norm > 0.0 { product / norm } else { 0.0 }
}

/// The place in `long` that is most similar to `short`, and the similarity.
pub(crate) fn find(short: &[f64], long: &[f64]) -> (usize, f64) {
    let own = energy(short);
    let mut best = (0, -1.0);
    if own <= 0.0 || long.len() < short.len() {
        return best;
    }
    let mut window = energy(&long[..short.len()]);
    for place in 0..=long.len() - short.len() {
        let stretch = &long[place..place + short.len()];
        if place > 0 {
            window += long[place + short.len() - 1].powi(2) - long[place - 1].powi(2);
        }
        if window > 0.05 * own {
            let product: f64 = stretch.iter().zip(short).map(|(a, b)| a * b).sum();
            let found = product / (own * window).sqrt();
            if found > best.1 {
                best = (place, found);
            }
        }
    }
    best
}

/// How well a voice is found in another member's sound.
pub(crate) struct TappedSound {
    /// Stretches of 100 ms with a voice in them, and how many were found again.
    pub(crate) stretches: usize,
    pub(crate) found: usize,
    /// The median, over found stretches, of the level heard relative to the level said, in
    /// decibels.
    pub(crate) level: f64,
    /// The time from the capture of a sample until it is played, in milliseconds: median and 95th
    /// percentile.
    pub(crate) delay: [f64; 2],
    /// All delays, in order.
    pub(crate) delays: Vec<f64>,
    /// For each found stretch, its place in the heard sound minus its place in the said sound, in
    /// samples.
    offsets: Vec<i64>,
}

/// Looks for each stretch of `said` in one second of `heard`, around the delay given by the clocks
/// of the tracks.
pub(crate) fn heard(said: &Track, heard: &Track) -> TappedSound {
    const STRETCH: usize = RATE / 10;
    let (mut stretches, mut found, mut levels, mut delays, mut offsets) = (0, 0, Vec::new(), Vec::new(), Vec::new());
    let first = heard.times.first().map_or(0.0, |time| time.1);
    let last = heard.times.last().map_or(0.0, |time| time.1);
    for start in (0..said.samples.len().saturating_sub(STRETCH)).step_by(STRETCH) {
        let stretch = &said.samples[start..start + STRETCH];
        // a frame's time is the end of its capture: its first sample was captured 20 ms earlier
        let captured = said.time(start) - 20.0;
        if !loud(stretch) || captured < first || captured + 900.0 > last {
            continue;
        }
        stretches += 1;
        let from = heard.samples.len() * ((captured - first) / (last - first) * 1000.0) as usize / 1000;
        let from = from.saturating_sub(RATE / 10);
        let range = &heard.samples[from..(from + RATE).min(heard.samples.len())];
        let (place, alike) = find(stretch, range);
        if alike > 0.9 {
            found += 1;
            let there = &range[place..place + STRETCH];
            levels.push(10.0 * (energy(there) / energy(stretch)).log10());
            delays.push(heard.time(from + place) - captured);
            offsets.push((from + place) as i64 - start as i64);
        }
    }
    levels.sort_by(f64::total_cmp);
    delays.sort_by(f64::total_cmp);
    let at = |sorted: &[f64], part: f64| sorted.get((sorted.len() as f64 * part) as usize).copied().unwrap_or(f64::NAN);
    TappedSound {
        stretches,
        found,
        level: at(&levels, 0.5),
        delay: [at(&delays, 0.5), at(&delays, 0.95)],
        delays,
        offsets,
    }
}

impl TappedSound {
    /// The fraction of stretches that was found.
    pub(crate) fn part(&self) -> f64 {
        self.found as f64 / self.stretches.max(1) as f64
    }

    /// The most frequent offset.
    fn offset(&self) -> i64 {
        let count = |offset: i64| self.offsets.iter().filter(|other| **other == offset).count();
        self.offsets.iter().copied().max_by_key(|offset| count(*offset)).unwrap_or(0)
    }

    pub(crate) fn least(&self) -> f64 {
        self.delays.first().copied().unwrap_or(f64::NAN)
    }
}

impl std::fmt::Display for TappedSound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { stretches, found, level, delay, .. } = self;
        let least = self.least();
        write!(
            f,
            "{found} of {stretches} stretches found, {level:.2} dB, after {:.0} ms (median; 95 % within {:.0} ms, least {least:.0} ms)",
            delay[0], delay[1]
        )
    }
}

/// Among the stretches with two voices at once: their number, and how many of them are the sum of
/// both voices.
pub(crate) fn sums(one: (&Track, &TappedSound), other: (&Track, &TappedSound), heard: &Track) -> (usize, usize) {
    const STRETCH: usize = RATE / 10;
    let (mut both, mut right) = (0, 0);
    for start in (0..heard.samples.len().saturating_sub(STRETCH)).step_by(STRETCH) {
        let voice = |(track, found): (&Track, &TappedSound)| {
            let from = usize::try_from(start as i64 - found.offset()).ok()?;
            track.samples.get(from..from + STRETCH).map(<[f64]>::to_vec)
        };
        let (Some(one), Some(other)) = (voice(one), voice(other)) else { continue };
        if !loud(&one) || !loud(&other) {
            continue;
        }
        both += 1;
        let there = &heard.samples[start..start + STRETCH];
        let sum: Vec<f64> = one.iter().zip(&other).map(|(one, other)| one + other).collect();
        let level = 10.0 * (energy(there) / energy(&sum)).log10();
        right += usize::from(likeness(&sum, there) > 0.95 && level.abs() < 1.0);
    }
    (both, right)
}
