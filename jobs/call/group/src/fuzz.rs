//! The body of a fuzz target.

use std::sync::{Mutex, OnceLock, PoisonError};

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};

use crate::{Group, Leaf, Newcomer};

/// A member of a group of two, and a newcomer that is in no group.
fn people() -> Option<(Group, Newcomer)> {
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    let [one, two, three] = [b"one", b"two", b"new"].map(|name| Newcomer::new(name, &mut rng));
    let (two, mut group) = (two.ok()?, one.ok()?.found(b"fuzz").ok()?);
    let commit = group.commit(&[], &[two.package()]).ok()?;
    Some((two.join(&commit.welcome).ok()?, three.ok()?))
}

/// For any bytes as a key package, a commit or a welcome: nothing panics, and a member's state
/// changes only if a commit was accepted. No input holds a key of the group, so no commit is
/// accepted.
pub fn fuzz_group_messages(data: &[u8]) {
    static PEOPLE: OnceLock<Option<Mutex<(Group, Newcomer)>>> = OnceLock::new();
    let people = PEOPLE.get_or_init(|| people().map(Mutex::new)).as_ref();
    let Some((which, bytes)) = data.split_first() else { return };
    let Some(mut people) = people.map(|people| people.lock().unwrap_or_else(PoisonError::into_inner)) else { return };
    let (group, newcomer) = &mut *people;
    match which % 4 {
        0 => {
            assert!(Leaf::of_package(bytes).is_ok_and(|leaf| !leaf.identity.is_empty()) || bytes != newcomer.package());
        }
        1 => assert!(newcomer.join(bytes).is_err()),
        2 => assert!(group.take(bytes).is_err()),
        _ => {
            let commit = group.commit(&[], &[bytes]);
            assert!(commit.is_ok_and(|commit| commit.welcome.is_empty() == (commit.refused == [0])));
        }
    }
    assert_eq!((group.epoch(), group.members().len()), (1, 2));
}

#[cfg(test)]
mod tests {
    use super::*;
    use chacha20::rand_core::Rng;

    #[test]
    fn noise_and_damaged_messages_change_no_group() {
        let mut rng = ChaCha20Rng::from_seed([2; 32]);
        let (_, newcomer) = people().unwrap();
        for round in 0..400 {
            let mut data = vec![0; round % 300 + 1];
            rng.fill_bytes(&mut data);
            fuzz_group_messages(&data);
            // a key package with one byte changed, as each kind of message
            let mut data = [&[round as u8][..], newcomer.package()].concat();
            let place = 1 + rng.next_u32() as usize % (data.len() - 1);
            data[place] ^= (round % 255 + 1) as u8;
            fuzz_group_messages(&data);
        }
        (0..4).for_each(|kind| fuzz_group_messages(&[&[kind][..], newcomer.package()].concat()));
        fuzz_group_messages(&[]);
    }
}
