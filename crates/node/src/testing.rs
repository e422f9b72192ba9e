//! Texts for tests, by the thousand.

/// Every text of up to `most` of these characters.
pub(crate) fn texts(alphabet: &'static [u8], most: u32) -> impl Iterator<Item = Vec<u8>> {
    let base = alphabet.len();
    (0..=most).flat_map(move |length| {
        (0..base.pow(length))
            .map(move |number| (0..length).map(|place| alphabet[number / base.pow(place) % base]).collect())
    })
}
