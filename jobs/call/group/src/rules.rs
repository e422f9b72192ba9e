//! The rules for members' identities, and for the content of a commit.

use mls_rs::{
    ExtensionList, IdentityProvider, MlsRules,
    group::{GroupContext, Roster},
    mls_rules::{CommitDirection, CommitOptions, CommitSource, EncryptionOptions, ProposalBundle},
};
use mls_rs_core::{
    error::IntoAnyError,
    identity::{BasicCredential, CredentialType, MemberValidationContext, SigningIdentity},
    time::MlsTime,
};

use crate::MAX_IDENTITY;

/// A broken rule. It has no details, because the library drops them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("against the rules of this group")]
pub(crate) struct AgainstTheRules;

impl IntoAnyError for AgainstTheRules {}

/// An identity is up to [`MAX_IDENTITY`] bytes that its owner chose. The application must check
/// whether they are true.
#[derive(Clone, Copy)]
pub(crate) struct Identities;

/// The bytes of an identity; none if it does not follow the rules.
pub(crate) fn identity_of(identity: &SigningIdentity) -> Option<&[u8]> {
    let bytes = identity.credential.as_basic()?.identifier.as_slice();
    ((1..=MAX_IDENTITY).contains(&bytes.len()) && identity.signature_key.len() == 32).then_some(bytes)
}

fn identified(identity: &SigningIdentity) -> Result<&[u8], AgainstTheRules> {
    identity_of(identity).ok_or(AgainstTheRules)
}

impl IdentityProvider for Identities {
    type Error = AgainstTheRules;

    fn validate_member(
        &self,
        identity: &SigningIdentity,
        _: Option<MlsTime>,
        _: MemberValidationContext<'_>,
    ) -> Result<(), AgainstTheRules> {
        identified(identity).map(|_| ())
    }

    fn validate_external_sender(
        &self,
        _: &SigningIdentity,
        _: Option<MlsTime>,
        _: Option<&ExtensionList>,
    ) -> Result<(), AgainstTheRules> {
        Err(AgainstTheRules)
    }

    fn identity(&self, identity: &SigningIdentity, _: &ExtensionList) -> Result<Vec<u8>, AgainstTheRules> {
        identified(identity).map(<[u8]>::to_vec)
    }

    /// Members cannot change their keys: to get another key, a member joins again.
    fn valid_successor(
        &self,
        old: &SigningIdentity,
        new: &SigningIdentity,
        _: &ExtensionList,
    ) -> Result<bool, AgainstTheRules> {
        Ok(old == new)
    }

    fn supported_types(&self) -> Vec<CredentialType> {
        vec![BasicCredential::credential_type()]
    }
}

/// Commits come from members, and only add and remove.
#[derive(Clone, Copy)]
pub(crate) struct Rules;

impl MlsRules for Rules {
    type Error = AgainstTheRules;

    fn filter_proposals(
        &self,
        _: CommitDirection,
        source: CommitSource,
        _: &Roster<'_>,
        _: &GroupContext,
        proposals: ProposalBundle,
    ) -> Result<ProposalBundle, AgainstTheRules> {
        let known = proposals.add_proposals().len() + proposals.remove_proposals().len();
        match source {
            CommitSource::ExistingMember(_) if known == proposals.length() => Ok(proposals),
            _ => Err(AgainstTheRules),
        }
    }

    fn commit_options(
        &self,
        _: &Roster<'_>,
        _: &GroupContext,
        _: &ProposalBundle,
    ) -> Result<CommitOptions, AgainstTheRules> {
        Ok(CommitOptions::new()
            .with_path_required(true)
            .with_ratchet_tree_extension(true)
            .with_single_welcome_message(true))
    }

    fn encryption_options(&self, _: &Roster<'_>, _: &GroupContext) -> Result<EncryptionOptions, AgainstTheRules> {
        Ok(EncryptionOptions::new(true, mls_rs::client_builder::PaddingMode::StepFunction))
    }
}
