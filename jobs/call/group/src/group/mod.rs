//! Newcomers, groups, commits.

use std::{fmt, time::Duration};

use mls_rs::{
    Client, ExtensionList, MlsMessage, WireFormat,
    client_builder::{BaseConfig, WithCryptoProvider, WithIdentityProvider, WithMlsRules},
    group::{CommitEffect, CommitOutput, Node, ReceivedMessage},
    time::MlsTime,
};
use mls_rs_core::{
    crypto::{CipherSuiteProvider, CryptoProvider},
    identity::{BasicCredential, SigningIdentity},
};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use crate::{
    MAX_COMMIT, MAX_IDENTITY, MAX_MEMBERS, MAX_PACKAGE, MAX_WELCOME,
    provider::{Provider, Random, SUITE, check_public_key},
    rules::{Identities, Rules, identity_of},
    words::words,
};

type Config = WithIdentityProvider<Identities, WithMlsRules<Rules, WithCryptoProvider<Provider, BaseConfig>>>;

/// Why an operation of a group failed. The error does not repeat the library's reason, because an
/// attacker may have caused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// More bytes than any message of this kind has.
    #[error("{what} of {found} bytes: expected at most {most}")]
    TooLong {
        /// The kind of message.
        what: &'static str,
        /// How many there were.
        found: usize,
        /// The largest allowed number of bytes.
        most: usize,
    },
    /// Bytes that are not a message of this kind.
    #[error("expected {expected}, found other bytes")]
    Malformed {
        /// The expected kind of message.
        expected: &'static str,
    },
    /// An identity that is empty or too long.
    #[error("identity of {found} bytes: expected 1 to {MAX_IDENTITY}")]
    Identity {
        /// The number of bytes found.
        found: usize,
    },
    /// A commit or a welcome that is not for this member at this epoch, or that breaks a rule.
    #[error("not a commit or welcome for this member at this epoch")]
    Refused,
    /// A commit that removes this member.
    #[error("this member was taken out of the group")]
    Removed,
    /// The member to remove is not in the group, or is this member itself.
    #[error("expected another member of the group, found none of that identity")]
    NotAMember,
    /// The group has the largest number of members.
    #[error("a group has at most {MAX_MEMBERS} members")]
    Full,
    /// The library failed at an operation that cannot fail.
    #[error("the group could not make a message")]
    Internal,
}

/// A member's entry in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The identity that the member chose.
    pub identity: Vec<u8>,
    /// Its Ed25519 key, 32 bytes.
    pub key: [u8; 32],
}

impl Leaf {
    fn new(identity: &SigningIdentity) -> Option<Self> {
        let key = identity.signature_key.as_bytes().try_into().ok()?;
        Some(Self { identity: identity_of(identity)?.to_vec(), key })
    }

    /// The member of a key package, as the package claims. Signatures are checked only when a
    /// commit adds the package.
    ///
    /// # Errors
    /// [`GroupError`] if the bytes are not a key package of this suite.
    pub fn of_package(package: &[u8]) -> Result<Self, GroupError> {
        let malformed = GroupError::Malformed { expected: "a key package" };
        let message = read("key package", MAX_PACKAGE, package)?.into_key_package().ok_or(malformed)?;
        // the library checks only the init key; a leaf that nobody can encrypt to would stop a
        // group
        let has_key = leaf_key(package).is_some_and(|key| check_public_key(key).is_ok());
        if message.cipher_suite != SUITE || !has_key {
            return Err(malformed);
        }
        Self::new(message.signing_identity()).ok_or(malformed)
    }

    /// Words for people to compare: they identify the key ([`crate::WORDS_BITS`]).
    pub fn words(&self) -> String {
        words("member", &self.key)
    }
}

/// A client that wants to join or found a group. Its secrets are zeroed on drop.
pub struct Newcomer {
    client: Client<Config>,
    package: Vec<u8>,
    leaf: Leaf,
}

/// A commit, and the welcome for its newcomers.
#[derive(Clone, PartialEq, Eq)]
pub struct Commit {
    /// For the members, including its author.
    pub commit: Vec<u8>,
    /// The same message for all newcomers; empty if there are none.
    pub welcome: Vec<u8>,
    /// The key packages that were left out, because they are invalid or would repeat an identity or
    /// a key: their places in the list, ascending.
    pub refused: Vec<usize>,
}

impl fmt::Debug for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Commit({} bytes, welcome {} bytes)", self.commit.len(), self.welcome.len())
    }
}

/// A member's view of a group. Its secrets are zeroed on drop.
///
/// ```
/// use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
/// use tobari_call_group::Newcomer;
/// let mut rng = ChaCha20Rng::from_seed([1; 32]); // a program takes its randomness from the system
/// let [ann, bob] = [b"ann", b"bob"].map(|name| Newcomer::new(name, &mut rng));
/// let (bob, mut of_ann) = (bob?, ann?.found(b"a call")?);
/// let commit = of_ann.commit(&[], &[bob.package()])?;
/// of_ann.take(&commit.commit)?;
/// let of_bob = bob.join(&commit.welcome)?;
/// assert_eq!(*of_ann.export("media", b"")?, *of_bob.export("media", b"")?);
/// assert_eq!(of_ann.words()?, of_bob.words()?);
/// # Ok::<(), tobari_call_group::GroupError>(())
/// ```
pub struct Group {
    group: mls_rs::Group<Config>,
}

impl Newcomer {
    /// A new key under `identity`, and a key package that can be added once.
    ///
    /// # Errors
    /// [`GroupError::Identity`].
    pub fn new(identity: &[u8], rng: &mut (impl CryptoRng + ?Sized)) -> Result<Self, GroupError> {
        if !(1..=MAX_IDENTITY).contains(&identity.len()) {
            return Err(GroupError::Identity { found: identity.len() });
        }
        let provider = Provider { random: Random::new(rng) };
        let suite = provider.cipher_suite_provider(SUITE).ok_or(GroupError::Internal)?;
        let (secret, public) = suite.signature_key_generate().map_err(|_| GroupError::Internal)?;
        let signing = SigningIdentity::new(BasicCredential::new(identity.to_vec()).into_credential(), public);
        let leaf = Leaf::new(&signing).ok_or(GroupError::Internal)?;
        let client = Client::builder()
            .crypto_provider(provider)
            .mls_rules(Rules)
            .identity_provider(Identities)
            .signing_identity(signing, secret, SUITE)
            // without a clock nothing expires; a build of the library with a clock must agree
            .key_package_lifetime(Duration::from_secs(u64::MAX / 2))
            .build();
        let (none, no_time) = (ExtensionList::new, Some(MlsTime::from(0)));
        let package =
            client.generate_key_package_message(none(), none(), no_time).and_then(|package| package.to_bytes());
        Ok(Self { client, package: package.map_err(|_| GroupError::Internal)?, leaf })
    }

    /// The key package.
    pub fn package(&self) -> &[u8] {
        &self.package
    }

    /// The entry that the other members will see.
    pub fn leaf(&self) -> &Leaf {
        &self.leaf
    }

    /// Founds a group with this member only, at epoch 0.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn found(&self, id: &[u8]) -> Result<Group, GroupError> {
        let (none, no_time) = (ExtensionList::new, Some(MlsTime::from(0)));
        let group = self.client.create_group_with_id(id.to_vec(), none(), none(), no_time);
        group.map(|group| Group { group }).map_err(|_| GroupError::Internal)
    }

    /// Joins the group of a welcome.
    ///
    /// # Errors
    /// [`GroupError`] if the bytes are not a valid welcome for this newcomer's key package.
    pub fn join(&self, welcome: &[u8]) -> Result<Group, GroupError> {
        let message = read("welcome", MAX_WELCOME, welcome)?;
        if message.wire_format() != WireFormat::Welcome {
            return Err(GroupError::Malformed { expected: "a welcome" });
        }
        let (group, _) = self.client.join_group(None, &message, None).map_err(|_| GroupError::Refused)?;
        let group = Group { group };
        group.check_keys(None)?;
        if group.members().len() > MAX_MEMBERS { Err(GroupError::Full) } else { Ok(group) }
    }
}

impl Group {
    /// The id that the founder gave the group.
    pub fn id(&self) -> &[u8] {
        self.group.group_id()
    }

    /// The number of commits so far.
    pub fn epoch(&self) -> u64 {
        self.group.current_epoch()
    }

    /// The members of the group.
    pub fn members(&self) -> Vec<Leaf> {
        self.group.roster().members_iter().filter_map(|member| Leaf::new(&member.signing_identity)).collect()
    }

    /// Words for people to compare. They are equal for all members of this epoch, and differ for a
    /// member that was led into another epoch.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn words(&self) -> Result<String, GroupError> {
        let authenticator = self.group.epoch_authenticator().map_err(|_| GroupError::Internal)?;
        Ok(words("group", authenticator.as_bytes()))
    }

    /// A secret of this epoch, for one purpose and context: the MLS exporter (RFC 9420, 8.5).
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn export(&self, purpose: &str, context: &[u8]) -> Result<Zeroizing<[u8; 32]>, GroupError> {
        let secret = self.group.export_secret(purpose.as_bytes(), context, 32).map_err(|_| GroupError::Internal)?;
        let mut out = Zeroizing::new([0; 32]);
        out.copy_from_slice(secret.as_bytes().get(..32).ok_or(GroupError::Internal)?);
        Ok(out)
    }

    /// Makes a commit that removes the members with the identities `gone` and adds the newcomers of
    /// the valid key `packages`. The commit takes effect when [`Group::take`] receives it back.
    /// Another commit, or another call of this function, discards it.
    ///
    /// # Errors
    /// [`GroupError::NotAMember`] if an identity in `gone` is not that of a member, or is that of
    /// this member; [`GroupError::Full`].
    pub fn commit(&mut self, gone: &[&[u8]], packages: &[&[u8]]) -> Result<Commit, GroupError> {
        let indices = self.indices(gone)?;
        let members = self.group.roster().members_iter().count() - indices.len();
        if members + packages.len() > MAX_MEMBERS {
            return Err(GroupError::Full);
        }
        let parse = |package: &&[u8]| Leaf::of_package(package).and_then(|_| read("key package", MAX_PACKAGE, package));
        let packages: Vec<Option<MlsMessage>> = packages.iter().map(|package| parse(package).ok()).collect();
        let readable = packages.iter().enumerate().filter_map(|(place, it)| it.as_ref().map(|it| (place, it)));
        let (mut good, all): (Vec<(usize, &MlsMessage)>, Vec<_>) = (Vec::new(), readable.collect());
        let mut made = None;
        // bisection finds the packages that spoil a commit: there are few, if any
        let mut rest = vec![&all[..]];
        while let Some(chunk) = rest.pop() {
            let tried: Vec<_> = good.iter().chain(chunk).copied().collect();
            match self.build(&indices, &tried) {
                Ok(output) => (good, made) = (tried, Some(output)),
                Err(_) if chunk.len() > 1 => {
                    let (first, second) = chunk.split_at(chunk.len() / 2);
                    rest.extend([second, first]);
                }
                Err(error) if chunk.is_empty() => return Err(error),
                // the last commit built was not for the good packages
                Err(_) => made = None,
            }
        }
        let output = match made {
            Some(output) => output,
            None => self.build(&indices, &good)?,
        };
        let taken: Vec<usize> = good.iter().map(|(place, _)| *place).collect();
        let refused = (0..packages.len()).filter(|place| !taken.contains(place)).collect();
        let bytes = |message: &MlsMessage| message.to_bytes().map_err(|_| GroupError::Internal);
        let welcome = output.welcome_messages.first().map_or(Ok(Vec::new()), bytes)?;
        Ok(Commit { commit: bytes(&output.commit_message)?, welcome, refused })
    }

    fn indices(&self, gone: &[&[u8]]) -> Result<Vec<u32>, GroupError> {
        let mut found: Vec<(Vec<u8>, u32)> = Vec::new();
        for member in self.group.roster().members_iter() {
            found.extend(identity_of(&member.signing_identity).map(|identity| (identity.to_vec(), member.index)));
        }
        found.sort_unstable();
        let own = self.group.current_member_index();
        let index = |identity: &&[u8]| {
            let place = found.binary_search_by(|(other, _)| other.as_slice().cmp(identity)).ok()?;
            found.get(place).map(|(_, index)| *index).filter(|index| *index != own)
        };
        gone.iter().map(|identity| index(identity).ok_or(GroupError::NotAMember)).collect()
    }

    fn build(&mut self, gone: &[u32], packages: &[(usize, &MlsMessage)]) -> Result<CommitOutput, GroupError> {
        self.group.clear_pending_commit();
        let mut builder = self.group.commit_builder().commit_time(MlsTime::from(0));
        for index in gone {
            builder = builder.remove_member(*index).map_err(|_| GroupError::NotAMember)?;
        }
        for (_, package) in packages {
            builder = builder.add_member((*package).clone()).map_err(|_| GroupError::Refused)?;
        }
        builder.build().map_err(|_| GroupError::Refused)
    }

    /// Applies a commit, also one made by this member. After an error the group is unchanged.
    ///
    /// # Errors
    /// [`GroupError`] if the bytes are not a commit of a member for this epoch;
    /// [`GroupError::Removed`] if the commit removes this member.
    pub fn take(&mut self, commit: &[u8]) -> Result<(), GroupError> {
        let message = read("commit", MAX_COMMIT, commit)?;
        if message.wire_format() != WireFormat::PrivateMessage {
            return Err(GroupError::Malformed { expected: "a commit" });
        }
        // the library forgets the key even if a message does not decrypt, and then the true message
        // would not decrypt either
        let mut next = self.group.clone();
        let taken = next.process_incoming_message(message).map_err(|_| GroupError::Refused)?;
        let ReceivedMessage::Commit(commit) = taken else { return Err(GroupError::Refused) };
        match commit.effect {
            CommitEffect::NewEpoch(_) => {}
            CommitEffect::Removed { .. } => return Err(GroupError::Removed),
            CommitEffect::ReInit(_) => return Err(GroupError::Refused),
        }
        next.clear_pending_commit();
        let next = Group { group: next };
        next.check_keys(Some(self))?;
        *self = next;
        Ok(())
    }

    /// Checks that members can encrypt to every node of the tree that was not in the tree `before`.
    /// Nobody can encrypt to a key of small order, so no later commit would succeed.
    fn check_keys(&self, before: Option<&Self>) -> Result<(), GroupError> {
        let (tree, known) = (self.group.export_tree(), before.map(|group| group.group.export_tree()));
        let known = known.as_ref().map_or(&[][..], |tree| tree.nodes());
        for (place, node) in tree.nodes().iter().enumerate() {
            let Some(key) = node.as_ref().map(Node::public_key) else { continue };
            let is_known = known.get(place).and_then(Option::as_ref).is_some_and(|node| node.public_key() == key);
            if !is_known {
                check_public_key(key).map_err(|_| GroupError::Refused)?;
            }
        }
        Ok(())
    }
}

/// The encryption key in a key package's leaf. Before it are four numbers of 2 bytes (version, wire
/// format, version, suite) and the init key; each key follows its length.
fn leaf_key(package: &[u8]) -> Option<&[u8]> {
    let after = package.get(8..)?.strip_prefix(&[32])?.get(32..)?;
    after.strip_prefix(&[32])?.get(..32)
}

/// Parses an MLS message, if it is not too long.
fn read(what: &'static str, most: usize, bytes: &[u8]) -> Result<MlsMessage, GroupError> {
    if bytes.len() > most {
        return Err(GroupError::TooLong { what, found: bytes.len(), most });
    }
    let message = MlsMessage::from_bytes(bytes).map_err(|_| GroupError::Malformed { expected: what })?;
    // each message has one encoding: no bytes may follow it
    match message.to_bytes() {
        Ok(again) if again == bytes => Ok(message),
        _ => Err(GroupError::Malformed { expected: what }),
    }
}

#[cfg(test)]
mod tests;
