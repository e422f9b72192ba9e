//! Recorded sums, decrypted later with the link.

use crate::live::*;
use tobari_call::live::recording::{self, HEAD_BYTES, Playback, RECORD_HEAD_BYTES, RecordKind};

/// The messages that member 1 received, as a recording.
fn recorded() -> (World, Vec<u8>) {
    recorded_in(World::new(link()))
}

fn recorded_in(mut world: World) -> (World, Vec<u8>) {
    (0..2).for_each(|member| assert_eq!(world.enter(true), member));
    world.says(0, 1000);
    world.says(1, -7);
    world.frames(120);
    let mut bytes = recording::begin(ROOM);
    world.person_of(1).came.iter().filter_map(|came| recording::record(came)).for_each(|record| bytes.extend(record));
    (world, bytes)
}

/// The decrypted sums, and how many could not be decrypted.
fn open(link: &RoomLink, bytes: &[u8]) -> Result<(Vec<OpenedTick>, usize), recording::RecordingError> {
    let (head, mut rest) = bytes.split_first_chunk::<HEAD_BYTES>().unwrap();
    let mut playback = Playback::new(link, recording::read_head(head)?)?;
    let (mut heard, mut refused) = (Vec::new(), 0);
    while let Some((head, after)) = rest.split_first_chunk::<RECORD_HEAD_BYTES>() {
        let (kind, length) = recording::read_record_head(head)?;
        let (content, after) = after.split_at(length);
        match kind {
            RecordKind::Roster => playback.roster(content)?,
            RecordKind::Sum => match playback.sum(content) {
                Ok(tick) => heard.extend(tick),
                Err(_) => refused += 1,
            },
        }
        rest = after;
    }
    Ok((heard, refused))
}

#[test]
fn whoever_holds_the_link_opens_the_recording_and_hears_everybody() {
    let (world, bytes) = recorded();
    let (heard, refused) = open(&world.link.for_members(), &bytes).unwrap();
    assert_eq!(refused, 0);
    assert_eq!(heard.len(), world.person_of(1).heard.len());
    let last = heard.last().unwrap();
    assert!(last.samples.iter().all(|sample| *sample == 993) && last.samples.len() == 320, "all voices, one's own too");
}

#[test]
fn in_the_modes_of_points_a_recording_opens_too() {
    for mode in [LiveMode::ElgamalShared, LiveMode::Elgamal] {
        let settings = Settings { mode, speakers: 4, ..Settings::default() };
        let (world, bytes) = recorded_in(World::new(link_with(settings, 3)));
        let (heard, refused) = open(&world.link.for_members(), &bytes).unwrap();
        assert_eq!((heard.len(), refused), (world.person_of(1).heard.len(), 0), "{mode}");
        assert!(heard.last().unwrap().samples.iter().all(|sample| *sample == 993), "{mode}");
    }
}

#[test]
fn another_link_opens_nothing() {
    let (world, bytes) = recorded();
    assert!(open(&link_with(world.link.settings, 50), &bytes).is_err());
}

#[test]
fn a_recording_holds_no_name_and_no_sample() {
    let (_, bytes) = recorded();
    let has = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    assert!(!has(b"person") && !has(&1000i16.to_le_bytes().repeat(4)) && !has(&993i32.to_le_bytes().repeat(2)));
}

#[test]
fn a_changed_sum_in_the_file_is_left_out_and_the_rest_opens() {
    let (world, mut bytes) = recorded();
    let whole = open(&world.link, &bytes).unwrap().0.len();
    let last = bytes.len() - 50;
    bytes[last] ^= 1;
    let (heard, refused) = open(&world.link, &bytes).unwrap();
    assert_eq!((heard.len(), refused), (whole - 1, 1));
}
