//! The suite against the provider that `mls-rs` has for RustCrypto: each understands the other.

use mls_rs::{
    Client, ExtensionList, Group, MlsMessage,
    client_builder::{BaseConfig, MlsConfig, WithCryptoProvider, WithIdentityProvider, WithMlsRules},
    group::{CommitOutput, ReceivedMessage},
};
use mls_rs_core::{
    crypto::{HpkeContextR, HpkeContextS},
    identity::{BasicCredential, SigningIdentity},
    time::MlsTime,
};
use mls_rs_crypto_rustcrypto::RustCryptoProvider;

use super::*;
use crate::rules::{Identities, Rules};

fn provider(seed: u8) -> Provider {
    Provider { random: Random::new(&mut ChaCha20Rng::from_seed([seed; 32])) }
}

fn suites(seed: u8) -> (Suite, impl CipherSuiteProvider) {
    let theirs = RustCryptoProvider::new().cipher_suite_provider(SUITE).unwrap();
    (provider(seed).cipher_suite_provider(SUITE).unwrap(), theirs)
}

const LENGTHS: [usize; 10] = [0, 1, 15, 16, 17, 31, 32, 64, 65, 1000];

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|place| (place * 7 + length) as u8).collect()
}

#[test]
fn hashes_tags_and_derived_keys_are_equal() {
    let (ours, theirs) = suites(1);
    for length in LENGTHS {
        let data = bytes(length);
        assert_eq!(ours.hash(&data).unwrap(), theirs.hash(&data).unwrap());
        for other in LENGTHS.map(bytes) {
            assert_eq!(ours.mac(&data, &other).unwrap(), theirs.mac(&data, &other).unwrap());
            assert_eq!(ours.kdf_extract(&data, &other).ok(), theirs.kdf_extract(&data, &other).ok());
            for most in [0, 1, 32, 33, 8160, 8161] {
                let (one, two) = (ours.kdf_expand(&data, &other, most), theirs.kdf_expand(&data, &other, most));
                assert_eq!(one.ok(), two.ok(), "{length} {most}");
            }
        }
    }
    assert_eq!(ours.kdf_extract_size(), theirs.kdf_extract_size());
}

#[test]
fn what_one_encrypts_the_other_decrypts() {
    let (ours, theirs) = suites(2);
    assert_eq!(ours.aead_key_size(), theirs.aead_key_size());
    assert_eq!(ours.aead_nonce_size(), theirs.aead_nonce_size());
    for (key, nonce) in [(16, 12), (15, 12), (17, 12), (32, 12), (16, 11), (16, 13), (16, 16), (0, 0)] {
        let (key, nonce) = (bytes(key), bytes(nonce));
        for length in LENGTHS {
            for aad in [None, Some(&b""[..]), Some(b"aad")] {
                let one = ours.aead_seal(&key, &bytes(length), aad, &nonce).ok();
                assert_eq!(one, theirs.aead_seal(&key, &bytes(length), aad, &nonce).ok());
                let sealed = one.unwrap_or_else(|| bytes(length));
                let opened = ours.aead_open(&key, &sealed, aad, &nonce).ok();
                assert_eq!(opened, theirs.aead_open(&key, &sealed, aad, &nonce).ok());
            }
        }
    }
}

#[test]
fn a_key_pair_and_a_signature_of_one_are_valid_for_the_other() {
    let (ours, theirs) = suites(3);
    for length in LENGTHS {
        let data = bytes(length);
        for (secret, public) in [ours.signature_key_generate().unwrap(), theirs.signature_key_generate().unwrap()] {
            assert_eq!(ours.signature_key_derive_public(&secret).unwrap(), public);
            assert_eq!(theirs.signature_key_derive_public(&secret).unwrap(), public);
            let signature = ours.sign(&secret, &data).unwrap();
            assert_eq!(signature, theirs.sign(&secret, &data).unwrap());
            ours.verify(&public, &signature, &data).unwrap();
            theirs.verify(&public, &signature, &data).unwrap();
            for place in 0..signature.len() {
                let mut other = signature.clone();
                other[place] ^= 1;
                assert!(ours.verify(&public, &other, &data).is_err() && theirs.verify(&public, &other, &data).is_err());
            }
        }
    }
}

#[test]
fn a_seed_makes_one_key_pair_of_the_kem() {
    let (ours, theirs) = suites(4);
    for length in LENGTHS {
        let (one, two) = (ours.kem_derive(&bytes(length)).unwrap(), theirs.kem_derive(&bytes(length)).unwrap());
        assert!(one == two);
        ours.kem_public_key_validate(&two.1).unwrap();
        theirs.kem_public_key_validate(&one.1).unwrap();
    }
    for length in LENGTHS.into_iter().filter(|length| *length != 32) {
        let key = bytes(length).into();
        assert!(ours.kem_public_key_validate(&key).is_err() && theirs.kem_public_key_validate(&key).is_err());
    }
}

fn hpke(from: &impl CipherSuiteProvider, to: &impl CipherSuiteProvider) {
    let (secret, public) = to.kem_generate().unwrap();
    let sealed = from.hpke_seal(&public, b"info", Some(b"aad"), b"words").unwrap();
    assert_eq!(*to.hpke_open(&sealed, &secret, &public, b"info", Some(b"aad")).unwrap(), b"words");
    assert!(to.hpke_open(&sealed, &secret, &public, b"other", Some(b"aad")).is_err());
    assert!(to.hpke_open(&sealed, &secret, &public, b"info", None).is_err());
    let psk = HpkePsk { id: b"id", value: &[7; 32] };
    let sealed = from.hpke_seal_psk(&public, b"info", None, b"words", psk.clone()).unwrap();
    assert_eq!(*to.hpke_open_psk(&sealed, &secret, &public, b"info", None, psk).unwrap(), b"words");
    let (kem_output, mut sender) = from.hpke_setup_s(&public, b"info").unwrap();
    let mut receiver = to.hpke_setup_r(&kem_output, &secret, &public, b"info").unwrap();
    assert_eq!(sender.export(b"context", 48).unwrap(), receiver.export(b"context", 48).unwrap());
    for round in 0_u8..5 {
        let sealed = sender.seal(Some(&[round]), b"words").unwrap();
        assert_eq!(*receiver.open(Some(&[round]), &sealed).unwrap(), b"words");
    }
}

#[test]
fn hpke_goes_both_ways() {
    let (ours, theirs) = suites(5);
    hpke(&ours, &theirs);
    hpke(&theirs, &ours);
}

type Config<P> = WithIdentityProvider<Identities, WithMlsRules<Rules, WithCryptoProvider<P, BaseConfig>>>;

fn client<P: CryptoProvider + Clone>(provider: P, name: &str) -> Client<Config<P>> {
    let (secret, public) = provider.cipher_suite_provider(SUITE).unwrap().signature_key_generate().unwrap();
    let signing = SigningIdentity::new(BasicCredential::new(name.into()).into_credential(), public);
    let builder = Client::builder().crypto_provider(provider).mls_rules(Rules).identity_provider(Identities);
    builder.signing_identity(signing, secret, SUITE).key_package_lifetime(std::time::Duration::from_secs(9)).build()
}

fn package(client: &Client<impl MlsConfig>) -> MlsMessage {
    let none = ExtensionList::new;
    client.generate_key_package_message(none(), none(), Some(MlsTime::from(0))).unwrap()
}

fn commit(group: &mut Group<impl MlsConfig>, gone: &[u32], packages: &[MlsMessage]) -> CommitOutput {
    let mut builder = group.commit_builder().commit_time(MlsTime::from(0));
    for index in gone {
        builder = builder.remove_member(*index).unwrap();
    }
    for package in packages {
        builder = builder.add_member(package.clone()).unwrap();
    }
    let output = builder.build().unwrap();
    group.apply_pending_commit().unwrap();
    output
}

fn talk(from: &mut Group<impl MlsConfig>, to: &mut Group<impl MlsConfig>) {
    let message = from.encrypt_application_message(b"words", vec![1, 2]).unwrap();
    let ReceivedMessage::ApplicationMessage(heard) = to.process_incoming_message(message).unwrap() else {
        panic!("not an application message");
    };
    assert_eq!((heard.data(), &heard.authenticated_data[..]), (&b"words"[..], &[1, 2][..]));
}

/// Both are at one epoch, with the same secrets, and read each other's messages.
fn agree(one: &mut Group<impl MlsConfig>, two: &mut Group<impl MlsConfig>) -> u64 {
    assert_eq!(one.epoch_authenticator().unwrap(), two.epoch_authenticator().unwrap());
    let exported = one.export_secret(b"label", b"context", 32).unwrap();
    assert_eq!(exported.as_bytes(), two.export_secret(b"label", b"context", 32).unwrap().as_bytes());
    (0..3).for_each(|_| {
        talk(one, two);
        talk(two, one);
    });
    assert_eq!(one.current_epoch(), two.current_epoch());
    one.current_epoch()
}

/// `first` founds a group and takes in two people of each provider; then all of them commit.
fn epochs<P: CryptoProvider + Clone, Q: CryptoProvider + Clone>(first: P, second: Q) {
    let none = ExtensionList::new;
    let (founder, guest) = (client(first.clone(), "founder"), client(second.clone(), "guest"));
    let mut one = founder.create_group_with_id(b"cross".into(), none(), none(), Some(MlsTime::from(0))).unwrap();
    let output = commit(&mut one, &[], &[package(&guest)]);
    let mut two = guest.join_group(None, &output.welcome_messages[0], None).unwrap().0;
    assert_eq!(agree(&mut one, &mut two), 1);
    for _ in 0..3 {
        two.process_incoming_message(commit(&mut one, &[], &[]).commit_message).unwrap();
        agree(&mut one, &mut two);
        one.process_incoming_message(commit(&mut two, &[], &[]).commit_message).unwrap();
        agree(&mut one, &mut two);
    }
    // the guest takes in one of each, and the tree gets a second layer
    let (third, fourth) = (client(first, "third"), client(second, "fourth"));
    let output = commit(&mut two, &[], &[package(&third), package(&fourth)]);
    one.process_incoming_message(output.commit_message).unwrap();
    let mut three = third.join_group(None, &output.welcome_messages[0], None).unwrap().0;
    let mut four = fourth.join_group(None, &output.welcome_messages[0], None).unwrap().0;
    assert_eq!((agree(&mut one, &mut three), agree(&mut two, &mut four)), (8, 8));
    let output = commit(&mut four, &[], &[]);
    one.process_incoming_message(output.commit_message.clone()).unwrap();
    two.process_incoming_message(output.commit_message.clone()).unwrap();
    three.process_incoming_message(output.commit_message).unwrap();
    assert_eq!((agree(&mut one, &mut four), agree(&mut three, &mut two)), (9, 9));
    // one of the first kind removes one of the second
    let output = commit(&mut three, &[1], &[]);
    one.process_incoming_message(output.commit_message.clone()).unwrap();
    four.process_incoming_message(output.commit_message.clone()).unwrap();
    two.process_incoming_message(output.commit_message).unwrap();
    assert_eq!((agree(&mut one, &mut four), agree(&mut one, &mut three)), (10, 10));
    assert!(two.epoch_authenticator().unwrap() != one.epoch_authenticator().unwrap());
}

#[test]
fn a_group_has_members_on_both_providers() {
    epochs(provider(6), RustCryptoProvider::new());
    epochs(RustCryptoProvider::new(), provider(7));
    epochs(provider(8), provider(9));
}

/// All differences: what has small order, the other provider takes.
#[test]
fn only_ours_rejects_small_orders() {
    let (ours, theirs) = suites(10);
    let zero = HpkePublicKey::from(vec![0; 32]);
    theirs.kem_public_key_validate(&zero).unwrap();
    theirs.hpke_seal(&zero, b"", None, b"words").unwrap();
    assert!(ours.kem_public_key_validate(&zero).is_err() && ours.hpke_seal(&zero, b"", None, b"words").is_err());
    let neutral = [&[1][..], &[0; 31]].concat();
    let (key, signature) = (neutral.clone().into(), [&neutral[..], &[0; 32]].concat());
    theirs.verify(&key, &signature, b"any words").unwrap();
    assert!(ours.verify(&key, &signature, b"any words").is_err());
}
