//! A member's view of its group: MLS.

use std::collections::VecDeque;

use rand_core::CryptoRng;
use tobari_call_group::{Group, Leaf, Newcomer};
use tobari_curve::wire::RoomId;

use super::{Agreement, Answer, GroupSecret, messages::Task, offer};
use crate::live::{
    keys::{RoomKeys, SessionId},
    roster::{self, Listed, Roster, RosterError},
};

/// The label for the exporter.
const PURPOSE: &str = "tobari call/2";

/// The most sessions that wait for the group. A member that begins more before a roster lists one
/// is heard again once a roster lists one of the last.
const MOST_NEWCOMERS: usize = 8;

/// A group, and the sessions that wait to join it, the newest last. A roster may list one after the
/// next was begun.
pub(super) struct MlsGroup {
    room: RoomId,
    newcomers: VecDeque<(SessionId, Newcomer)>,
    group: Option<Group>,
}

impl MlsGroup {
    pub(super) fn new(room: RoomId) -> Self {
        Self { room, newcomers: VecDeque::new(), group: None }
    }
}

/// The identity of a leaf: session and name. It ties a leaf to the hello of one member.
fn identity(session: SessionId, name: &str) -> Vec<u8> {
    [&session.0[..], name.as_bytes()].concat()
}

impl Agreement for MlsGroup {
    fn begin(&mut self, keys: &RoomKeys, session: SessionId, name: &str, rng: &mut dyn CryptoRng) -> Option<Vec<u8>> {
        let newcomer = Newcomer::new(&identity(session, name), rng).ok()?;
        let offer = offer::seal(keys, self.room, session, newcomer.package());
        self.newcomers.push_back((session, newcomer));
        if self.newcomers.len() > MOST_NEWCOMERS {
            self.newcomers.pop_front();
        }
        offer
    }

    fn commit(&mut self, keys: &RoomKeys, roster: &Roster, own: u16, task: &Task) -> Option<Answer> {
        let change = &task.change;
        let follows = change.room == self.room && change.base == roster.epoch && change.epoch == roster.epoch + 1;
        let others = !change.gone.contains(own) && change.new.iter().all(|(member, _)| *member != own);
        if !follows || !others {
            return None;
        }
        let mut packages = Vec::new();
        let mut refused = Vec::new();
        for ((member, hello), offer) in change.new.iter().zip(&task.offers) {
            match self.offered(keys, *member, hello, offer) {
                Some(package) => packages.push((*member, package)),
                None => refused.push(*member),
            }
        }
        // a member that begins another session leaves with the earlier one
        let goes = |member: &u16| change.gone.contains(*member) || change.new.iter().any(|(new, _)| new == member);
        let gone: Vec<Vec<u8>> = roster
            .members
            .iter()
            .filter(|(member, _)| goes(member))
            .map(|(_, listed)| identity(listed.session, &listed.name))
            .collect();
        let gone: Vec<&[u8]> = gone.iter().map(Vec::as_slice).collect();
        let offered: Vec<&[u8]> = packages.iter().map(|(_, package)| package.as_slice()).collect();
        let commit = self.group.as_mut()?.commit(&gone, &offered).ok()?;
        refused.extend(commit.refused.iter().filter_map(|place| packages.get(*place)).map(|(member, _)| *member));
        refused.sort_unstable();
        Some(Answer { refused, commit: commit.commit, welcome: commit.welcome })
    }

    /// After an error this member does not have the keys of this roster. Later rosters may let it
    /// go on; else the call is over for it.
    fn follow(&mut self, words: &[u8], roster: &Roster, own: u16) -> Result<GroupSecret, RosterError> {
        let session = roster.members.get(&own).ok_or(RosterError::NotListed)?.session;
        let place = self.newcomers.iter().position(|(new, _)| *new == session);
        match (place.map(|at| &self.newcomers[at].1), &mut self.group) {
            (Some(newcomer), _) => {
                let group = if words.is_empty() {
                    newcomer.found(&[&self.room.0[..], &session.0].concat())
                } else {
                    newcomer.join(words)
                };
                let group = group.ok().filter(|group| group.id().starts_with(&self.room.0));
                self.group = Some(group.ok_or(RosterError::Keys)?);
            }
            (None, Some(group)) => group.take(words).map_err(|_| RosterError::Keys)?,
            (None, None) => return Err(RosterError::Keys),
        }
        let group = self.group.as_ref().ok_or(RosterError::Keys)?;
        if !same(roster, group) {
            return Err(RosterError::Members);
        }
        if let Some(at) = place {
            // no roster will list the ones before
            self.newcomers.drain(..=at);
        }
        self.export(roster).ok_or(RosterError::Keys)
    }

    fn export(&self, roster: &Roster) -> Option<GroupSecret> {
        self.group.as_ref()?.export(PURPOSE, &roster.digest(self.room)).ok()
    }

    fn words(&self) -> Option<String> {
        self.group.as_ref()?.words().ok()
    }

    fn words_of(&self, session: SessionId) -> Option<String> {
        let members = self.group.as_ref()?.members();
        members.iter().find(|leaf| leaf.identity.starts_with(&session.0)).map(Leaf::words)
    }
}

impl MlsGroup {
    /// The key package of a new session, if it belongs to the hello.
    fn offered(&self, keys: &RoomKeys, member: u16, hello: &[u8], offer: &[u8]) -> Option<Vec<u8>> {
        let Listed { session, name, .. } = roster::hello_of(member, hello, keys, self.room)?;
        let package = offer::open(keys, self.room, session, offer)?;
        let leaf = Leaf::of_package(&package).ok()?;
        (leaf.identity == identity(session, &name)).then_some(package)
    }
}

/// Are the leaves of the group exactly the sessions of the roster?
fn same(roster: &Roster, group: &Group) -> bool {
    let mut listed: Vec<Vec<u8>> =
        roster.members.values().map(|listed| identity(listed.session, &listed.name)).collect();
    let mut leaves: Vec<Vec<u8>> = group.members().into_iter().map(|leaf| leaf.identity).collect();
    listed.sort_unstable();
    leaves.sort_unstable();
    listed == leaves
}
