use std::collections::HashSet;

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};

use super::*;

fn newcomers<const N: usize>(seed: u8) -> [Newcomer; N] {
    let mut rng = ChaCha20Rng::from_seed([seed; 32]);
    std::array::from_fn(|place| Newcomer::new(format!("person {place}").as_bytes(), &mut rng).unwrap())
}

/// A group of `N` members, each with its view of the group.
fn group<const N: usize>(seed: u8) -> Vec<Group> {
    let all: [Newcomer; N] = newcomers(seed);
    let mut founder = all[0].found(b"group").unwrap();
    let packages: Vec<&[u8]> = all[1..].iter().map(Newcomer::package).collect();
    let commit = founder.commit(&[], &packages).unwrap();
    founder.take(&commit.commit).unwrap();
    let mut groups = vec![founder];
    groups.extend(all[1..].iter().map(|newcomer| newcomer.join(&commit.welcome).unwrap()));
    groups
}

/// A valid key package with another key in its leaf, and new signatures.
fn package_with(key: &[u8; 32], seed: u8) -> Vec<u8> {
    let rng = || ChaCha20Rng::from_seed([seed; 32]);
    let suite = Provider { random: Random::new(&mut rng()) }.cipher_suite_provider(SUITE).unwrap();
    let secret = suite.signature_key_generate().unwrap().0;
    let signature = |label: &[u8], content: &[u8]| {
        let length = (content.len() as u16 | 0x4000).to_be_bytes();
        suite.sign(&secret, &[&[label.len() as u8], label, &length, content].concat()).unwrap()
    };
    let mut package = Newcomer::new(b"weak", &mut rng()).unwrap().package().to_vec();
    package[42..74].copy_from_slice(key);
    // at the end: the leaf's signature, no extensions, the package's signature
    let (leaf, all) = (package.len() - 64 - 1 - 66, package.len() - 64);
    let signed = signature(b"MLS 1.0 LeafNodeTBS", &package[41..leaf - 2]);
    package[leaf..leaf + 64].copy_from_slice(&signed);
    let signed = signature(b"MLS 1.0 KeyPackageTBS", &package[4..all - 2]);
    package[all..].copy_from_slice(&signed);
    package
}

/// Builds a commit without this module's checks, like a member with other software.
fn careless(group: &mut Group, packages: &[&[u8]]) -> Commit {
    let packages: Vec<MlsMessage> = packages.iter().map(|package| MlsMessage::from_bytes(package).unwrap()).collect();
    let output = group.build(&[], &packages.iter().enumerate().collect::<Vec<_>>()).unwrap();
    let welcome = output.welcome_messages[0].to_bytes().unwrap();
    Commit { commit: output.commit_message.to_bytes().unwrap(), welcome, refused: Vec::new() }
}

#[test]
fn a_key_that_nobody_can_encrypt_to_does_not_come_into_a_tree() {
    let mut groups = group::<3>(19);
    let good = Newcomer::new(b"good", &mut ChaCha20Rng::from_seed([20; 32])).unwrap();
    let weak = package_with(&[0; 32], 21);
    let strong = package_with(&[9; 32], 21);
    assert!(groups[0].commit(&[], &[&strong]).unwrap().refused.is_empty(), "the signatures are true");
    assert_eq!(Leaf::of_package(&weak), Err(GroupError::Malformed { expected: "a key package" }));
    let commit = groups[0].commit(&[], &[&weak, good.package()]).unwrap();
    assert_eq!(commit.refused, [0]);
    // another member adds the weak package: no member follows, and the other newcomer cannot join
    let commit = careless(&mut groups[1], &[&weak, good.package()]);
    groups.iter_mut().for_each(|group| assert_eq!(group.take(&commit.commit), Err(GroupError::Refused)));
    assert_eq!(good.join(&commit.welcome).err(), Some(GroupError::Refused));
    // the group continues
    let commit = careless(&mut groups[2], &[good.package()]);
    taken(&mut groups, &commit.commit);
    groups.push(good.join(&commit.welcome).unwrap());
    agree(&groups);
}

fn media(group: &Group) -> [u8; 32] {
    *group.export("media", b"").unwrap()
}

fn agree(groups: &[Group]) {
    for group in groups {
        assert_eq!(media(group), media(&groups[0]));
        assert_eq!(group.words().unwrap(), groups[0].words().unwrap());
        assert_eq!(
            (group.members(), group.epoch(), group.id()),
            (groups[0].members(), groups[0].epoch(), groups[0].id())
        );
    }
}

fn taken(groups: &mut [Group], commit: &[u8]) {
    groups.iter_mut().for_each(|group| group.take(commit).unwrap());
}

#[test]
fn all_members_of_an_epoch_have_one_secret_and_one_set_of_words() {
    let mut groups = group::<5>(1);
    agree(&groups);
    assert_eq!(groups[0].members().len(), 5);
    let mut secrets = HashSet::from([media(&groups[0]), *groups[0].export("media", b"other").unwrap()]);
    assert!(secrets.insert(*groups[0].export("other", b"").unwrap()) && secrets.len() == 3);
    let [late] = newcomers(2);
    // any member may add a newcomer
    let commit = groups[3].commit(&[], &[late.package()]).unwrap();
    assert_eq!(commit.refused, [0], "a second person 0");
    let late = Newcomer::new(b"late", &mut ChaCha20Rng::from_seed([3; 32])).unwrap();
    let commit = groups[3].commit(&[], &[late.package()]).unwrap();
    taken(&mut groups, &commit.commit);
    groups.push(late.join(&commit.welcome).unwrap());
    agree(&groups);
    assert!(secrets.insert(media(&groups[0])), "each epoch has its own");
    assert_eq!(groups[5].members().len(), 6);
}

#[test]
fn who_is_taken_out_cannot_follow() {
    let mut groups = group::<4>(4);
    let before = media(&groups[3]);
    let commit = groups[1].commit(&[b"person 3"], &[]).unwrap();
    assert!(commit.welcome.is_empty());
    let mut gone = groups.pop().unwrap();
    taken(&mut groups, &commit.commit);
    agree(&groups);
    assert_eq!(gone.take(&commit.commit), Err(GroupError::Removed));
    assert!(media(&groups[0]) != before);
    // the removed member keeps the old epoch's secret, and has no way to a later one
    let next = groups[0].commit(&[], &[]).unwrap();
    assert!(gone.take(&next.commit).is_err() && media(&gone) != media(&groups[0]));
    taken(&mut groups, &next.commit);
    assert!(media(&gone) != media(&groups[0]));
    // and it cannot make a commit that the others accept
    if let Ok(forged) = gone.commit(&[], &[]) {
        groups.iter_mut().for_each(|group| assert_eq!(group.take(&forged.commit), Err(GroupError::Refused)));
    }
    agree(&groups);
}

#[test]
fn of_two_commits_for_one_epoch_the_first_that_comes_counts() {
    let mut groups = group::<3>(5);
    let (one, two) = (groups[0].commit(&[], &[]).unwrap(), groups[1].commit(&[b"person 2"], &[]).unwrap());
    taken(&mut groups, &one.commit);
    agree(&groups);
    groups.iter_mut().for_each(|group| assert_eq!(group.take(&two.commit), Err(GroupError::Refused)));
    // no commit is accepted twice
    groups.iter_mut().for_each(|group| assert_eq!(group.take(&one.commit), Err(GroupError::Refused)));
    agree(&groups);
    // the member whose commit lost makes another
    let again = groups[1].commit(&[b"person 2"], &[]).unwrap();
    groups.pop();
    taken(&mut groups, &again.commit);
    agree(&groups);
}

#[test]
fn who_is_told_other_commits_has_other_words() {
    let mut groups = group::<4>(6);
    let (one, two) = (groups[0].commit(&[], &[]).unwrap(), groups[1].commit(&[], &[]).unwrap());
    let (left, right) = groups.split_at_mut(1);
    left[0].take(&one.commit).unwrap();
    right[1].take(&one.commit).unwrap();
    right[0].take(&two.commit).unwrap();
    right[2].take(&two.commit).unwrap();
    let words: HashSet<String> = groups.iter().map(|group| group.words().unwrap()).collect();
    assert_eq!((words.len(), media(&groups[0]) == media(&groups[1])), (2, false));
    assert_eq!(groups[0].members(), groups[1].members(), "and nothing else shows it");
    let next = groups[0].commit(&[], &[]).unwrap();
    assert_eq!(groups[1].take(&next.commit), Err(GroupError::Refused), "nor do they ever come together again");
}

#[test]
fn key_packages_that_are_not_true_are_left_out_and_the_others_come_in() {
    let mut groups = group::<2>(7);
    let mut rng = ChaCha20Rng::from_seed([8; 32]);
    let [good, twin, best] = [b"good", b"good", b"best"].map(|name| Newcomer::new(name, &mut rng).unwrap());
    let mut forged = Newcomer::new(b"mallory", &mut rng).unwrap().package().to_vec();
    let place = forged.windows(7).position(|bytes| bytes == b"mallory").unwrap();
    forged[place..place + 7].copy_from_slice(b"boss ma");
    let packages: [&[u8]; 6] = [b"", &forged, good.package(), twin.package(), &forged[..40], best.package()];
    let commit = groups[0].commit(&[], &packages).unwrap();
    assert_eq!(commit.refused, [0, 1, 3, 4]);
    taken(&mut groups, &commit.commit);
    groups.extend([&good, &best].map(|newcomer| newcomer.join(&commit.welcome).unwrap()));
    agree(&groups);
    assert_eq!(twin.join(&commit.welcome).err(), Some(GroupError::Refused));
    // all packages are bad: a commit without newcomers
    let commit = groups[0].commit(&[], &[&forged, b"x"]).unwrap();
    assert_eq!((commit.refused, commit.welcome.is_empty()), (vec![0, 1], true));
    taken(&mut groups, &commit.commit);
    agree(&groups);
}

#[test]
fn a_commit_or_welcome_with_a_byte_changed_or_missing_is_refused_and_the_true_one_still_counts() {
    let mut groups = group::<3>(9);
    let late = Newcomer::new(b"late", &mut ChaCha20Rng::from_seed([10; 32])).unwrap();
    let commit = groups[0].commit(&[b"person 1"], &[late.package()]).unwrap();
    for place in (0..commit.commit.len()).step_by(7) {
        let mut other = commit.commit.clone();
        other[place] ^= 4;
        assert!(groups[2].take(&other).is_err(), "byte {place}");
    }
    for place in (0..commit.welcome.len()).step_by(7) {
        let mut other = commit.welcome.clone();
        other[place] ^= 4;
        assert!(late.join(&other).is_err(), "byte {place}");
    }
    for short in [0, 1, 10, commit.commit.len() - 1] {
        assert!(groups[2].take(&commit.commit[..short]).is_err() && late.join(&commit.welcome[..short]).is_err());
    }
    assert!(groups[2].take(&commit.welcome).is_err() && late.join(&commit.commit).is_err());
    groups.remove(1);
    taken(&mut groups, &commit.commit);
    groups.push(late.join(&commit.welcome).unwrap());
    agree(&groups);
}

#[test]
fn messages_that_are_too_long_are_not_read() {
    let mut groups = group::<2>(11);
    let [newcomer] = newcomers(12);
    let expected = |what, most: usize| GroupError::TooLong { what, found: most + 1, most };
    assert_eq!(groups[0].take(&vec![0; MAX_COMMIT + 1]), Err(expected("commit", MAX_COMMIT)));
    assert_eq!(newcomer.join(&vec![0; MAX_WELCOME + 1]).err(), Some(expected("welcome", MAX_WELCOME)));
    assert_eq!(Leaf::of_package(&vec![0; MAX_PACKAGE + 1]), Err(expected("key package", MAX_PACKAGE)));
    let long = Newcomer::new(&[b'a'; MAX_IDENTITY], &mut ChaCha20Rng::from_seed([1; 32])).unwrap();
    assert!(long.package().len() <= MAX_PACKAGE);
    for found in [0, MAX_IDENTITY + 1] {
        let error = Newcomer::new(&vec![b'a'; found], &mut ChaCha20Rng::from_seed([1; 32])).err();
        assert_eq!(error, Some(GroupError::Identity { found }));
    }
}

#[test]
fn nobody_takes_out_itself_or_a_stranger() {
    let mut groups = group::<2>(13);
    for who in [&b"person 0"[..], b"person 7", b""] {
        assert_eq!(groups[0].commit(&[who], &[]).err(), Some(GroupError::NotAMember));
    }
}

/// All bytes that a group of three sends in two commits, and the group's last secret.
fn transcript(seed: u8) -> [Vec<u8>; 5] {
    let all: [Newcomer; 3] = newcomers(seed);
    let mut founder = all[0].found(b"group").unwrap();
    let one = founder.commit(&[], &[all[1].package(), all[2].package()]).unwrap();
    founder.take(&one.commit).unwrap();
    let two = founder.commit(&[b"person 1"], &[]).unwrap();
    founder.take(&two.commit).unwrap();
    let packages: Vec<u8> = all.iter().flat_map(|newcomer| newcomer.package().to_vec()).collect();
    [packages, one.commit, one.welcome, two.commit, media(&founder).to_vec()]
}

#[test]
fn a_seed_always_makes_the_same_messages() {
    // recorded with the RustCrypto provider of `mls-rs`, on the same randomness
    let known = "223ea1718629bf918878e7575e7fb7f1425c33cd6193c1d4a346ad7c82bc987e";
    let digest = <sha2::Sha256 as sha2::Digest>::digest(transcript(17).concat());
    assert_eq!(digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), known);
}

#[test]
fn all_randomness_is_the_callers() {
    assert!(transcript(17) == transcript(17), "something is drawn elsewhere");
    assert!(transcript(17).iter().zip(transcript(18)).all(|(one, other)| *one != other));
}

#[test]
fn equal_names_are_told_apart_by_their_words() {
    let mut rng = ChaCha20Rng::from_seed([14; 32]);
    let [one, two] = [(); 2].map(|()| Newcomer::new(b"Ann", &mut rng).unwrap());
    assert!(one.leaf().words() != two.leaf().words() && one.leaf().identity == two.leaf().identity);
    assert_eq!(&Leaf::of_package(one.package()).unwrap(), one.leaf());
}

#[test]
fn an_identity_and_a_commit_are_not_read_on_the_way() {
    let mut groups = group::<3>(15);
    let late = Newcomer::new(b"somebody with a name", &mut ChaCha20Rng::from_seed([16; 32])).unwrap();
    let commit = groups[0].commit(&[b"person 2"], &[late.package()]).unwrap();
    let holds = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).any(|part| part == what);
    assert!(holds(late.package(), b"somebody with a name"), "a key package is in the clear");
    for bytes in [&commit.commit, &commit.welcome] {
        assert!(!holds(bytes, b"somebody") && !holds(bytes, b"person"));
    }
}
