//! Recipients and identities of age.

use super::*;
use tobari_seal_files::{Ask, Identities, Nobody, Recipients, new_identity};

fn nobody() -> Arc<dyn Ask> {
    Arc::new(Nobody)
}

fn for_recipients(recipients: &[&str]) -> Keys {
    let recipients = Recipients::parse(recipients.iter().copied(), &nobody()).unwrap();
    Keys::new(Vec::new(), Vec::new()).with_recipients(recipients)
}

fn with_identity(identity: &str) -> Keys {
    let mut identities = Identities::default();
    identities.add("identity", identity.as_bytes(), &nobody()).unwrap();
    Keys::new(Vec::new(), Vec::new()).with_identities(identities)
}

fn seal_for(keys: &Keys, source: &Path, set: &Path, replace: bool) -> Result<Sealed, FileProblem> {
    let (pool, mut rng) = (pool(), ChaCha20Rng::from_seed([88; 32]));
    Writer::new(&pool, keys, layout(), &mut rng)?.folder(source, set, keys, replace, &mut |_| ())
}

fn open_with(keys: &Keys, set: &Path, target: Option<&Path>) -> Result<Opened, FileProblem> {
    let mut rng = ChaCha20Rng::from_seed([98; 32]);
    Reader::new(&pool(), keys).set(set, target, false, &mut rng, &mut |_| ())
}

#[test]
fn every_recipient_opens_what_was_sealed_for_all_and_nobody_else_does() {
    let (source, set) = (folder(), tempdir().unwrap());
    let people: Vec<_> = (0..60).map(|_| new_identity()).collect();
    let all: Vec<&str> = people.iter().map(|(_, recipient)| recipient.as_str()).collect();
    // More recipients than fit into one age file.
    let sealed = seal_for(&for_recipients(&all), source.path(), set.path(), false).unwrap();
    assert_eq!((sealed.entries, words(&sealed.problems)), (11, String::new()));
    for at in [0, 30, 59] {
        let out = tempdir().unwrap();
        let opened = open_with(&with_identity(&people[at].0), set.path(), Some(out.path())).unwrap();
        assert_eq!(words(&opened.problems), "");
        assert_eq!(described(out.path()), described(source.path()));
    }
    let stranger = open_with(&with_identity(&new_identity().0), set.path(), None);
    assert!(matches!(stranger, Err(FileProblem::NoKey { .. })));
}

#[test]
fn files_of_version_1_for_a_recipient_open_for_ever() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../vectors/seal/age");
    let keys = with_identity(&fs::read_to_string(folder.join("identity.txt")).unwrap());
    let (pool, mut rng) = (pool(), ChaCha20Rng::from_seed([1; 32]));
    for name in ["gcm.seal", "cbc.seal"] {
        let (place, mut out) = (folder.join(name), Vec::new());
        let reader = Reader::new(&pool, &keys);
        reader
            .one(Box::new(File::open(&place).unwrap()), &place, Target::Stream(&mut out), &mut rng, &mut |_| ())
            .unwrap();
        assert!(out == (0..700).map(|at| (at * 31 + at / 251) as u8).collect::<Vec<_>>(), "{name}");
        // An age file with a changed bit gives no key.
        let mut bytes = fs::read(&place).unwrap();
        bytes[200] ^= 1;
        let refused = reader.one(Box::new(Cursor::new(bytes)), &place, Target::Nowhere, &mut rng, &mut |_| ());
        assert!(matches!(refused, Err(FileProblem::NoKey { .. })), "{name}: {:?}", refused.err());
    }
}

#[test]
fn a_set_of_a_key_file_and_a_recipient_is_continued_by_the_key_file_alone() {
    let (source, set) = (folder(), tempdir().unwrap());
    let (identity, recipient) = new_identity();
    let ours = || keys().with_recipients(Recipients::parse([recipient.as_str()], &nobody()).unwrap());
    seal_for(&ours(), source.path(), set.path(), false).unwrap();
    fs::remove_file(set.path().join(MANIFEST)).unwrap();
    let refused = seal_for(
        &with_identity(&identity).with_recipients(Recipients::parse([recipient.as_str()], &nobody()).unwrap()),
        source.path(),
        set.path(),
        false,
    );
    assert!(matches!(refused, Err(FileProblem::NotOurs { .. })), "{:?}", refused.err());
    let again = seal_for(&ours(), source.path(), set.path(), false).unwrap();
    assert_eq!((again.kept, again.continued), (11, true));
    assert_eq!(words(&open_with(&with_identity(&identity), set.path(), None).unwrap().problems), "");
}

#[test]
fn a_mark_that_the_storage_planted_does_not_make_anybody_seal_under_its_key() {
    let (source, set, theirs) = (folder(), tempdir().unwrap(), tempdir().unwrap());
    let (identity, recipient) = new_identity();
    // The storage knows the recipient, so it can begin a set for the recipient with its own key.
    seal_for(&for_recipients(&[&recipient]), tempdir().unwrap().path(), theirs.path(), false).unwrap();
    fs::copy(theirs.path().join(SET), set.path().join(SET)).unwrap();
    for keys in [
        for_recipients(&[&recipient]),
        with_identity(&identity).with_recipients(Recipients::parse([recipient.as_str()], &nobody()).unwrap()),
        keys(),
    ] {
        let refused = seal_for(&keys, source.path(), set.path(), true);
        assert!(matches!(refused, Err(FileProblem::NotOurs { .. })), "{:?}", refused.err());
        assert_eq!(sealed_files(set.path()).len(), 0);
    }
}

#[test]
fn what_is_no_recipient_or_identity_is_refused_and_no_secret_is_repeated() {
    let (secret, recipient) = new_identity();
    let refused = |text: &str| Recipients::parse([text], &nobody()).err().unwrap().to_string();
    assert!(refused("alice").contains("expected a recipient of age"));
    assert!(refused("age1notaplugin-that-is-there1qqqq").contains("expected a recipient of age"));
    let told = refused(secret.trim());
    assert!(told.contains("found an identity, which is secret") && !told.contains(&secret[20..40]), "{told}");
    let mut identities = Identities::default();
    for wrong in [recipient.as_bytes(), b"", b"# nothing", b"AGE-SECRET-KEY-1QQQ"] {
        let told = identities.add("file", wrong, &nobody()).err().unwrap().to_string();
        assert!(told.starts_with("file: "), "{told}");
    }
    assert!(Recipients::parse([], &nobody()).is_err());
}
