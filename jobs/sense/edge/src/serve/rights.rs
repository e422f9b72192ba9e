//! The rights of clients.
//!
//! | fleets | clients that may register them | clients that may ask |
//! |---|---|---|
//! | permanent | clients with a right | the same clients |
//! | temporary ([`super::passing`]) | the same, and with `visitors` anybody | the fleet's maker |
//!
//! **Clients with a right.** With a file of tokens, these are the clients that have a token.
//! Otherwise they are the clients on this machine, or all clients if an option says so.
//!
//! **No page** has a right to permanent fleets: a request with an `Origin` comes from a browser,
//! and is rejected. The client that made a temporary fleet proves this with the fleet's secret.
//!
//! Frames need no right: their MAC identifies the device. For a temporary fleet, a client that
//! knows its name may see the server's data: exactly the server's view.

use super::{
    Shared,
    fleet::{Fleet, Known},
    passing::Visit,
};
use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, StatusCode, header},
};
use std::{sync::Arc, time::Instant};
use tobari_node::{
    body::{or_drain, read},
    clients::Origin,
    memory::Claim,
    reply::Reply,
    tokens::Tokens,
    turns::Turn,
};
use tobari_octets::{sha256, unhex_lower};

/// The header with the secret of a temporary fleet: 64 hexadecimal digits.
const SECRET: &str = "tobari-passing";

/// The clients that may register permanent fleets.
pub(super) enum Registrars {
    /// All clients that reach the server.
    Anybody,
    /// Clients with one of these tokens.
    Tokens(Arc<Tokens>),
    /// Nobody: the server is only for visitors.
    Nobody,
}

/// The sender of a request.
pub(super) enum Who {
    /// A key holder with a permanent fleet.
    Holder,
    /// A visitor, whose secret has this hash.
    Visitor([u8; 32]),
}

impl Who {
    /// The limit for this sender.
    fn most(&self, holder: usize, visitor: usize) -> usize {
        match self {
            Self::Holder => holder,
            Self::Visitor(_) => visitor,
        }
    }
}

/// A fleet that the sender may use.
pub(super) struct Used {
    /// The fleet.
    pub(super) fleet: Arc<Fleet>,
    /// The temporary fleet, if it is one.
    pub(super) visit: Option<Arc<Visit>>,
}

impl Used {
    /// The data from its bundle; an error before the bundle arrived.
    pub(super) fn known(&self) -> Result<Arc<Known>, Reply> {
        self.fleet.known().ok_or_else(no_fleet)
    }

    /// Counts a request that stores this many bytes.
    pub(super) fn charge(&self, bytes: usize) -> Result<(), Reply> {
        let fits = self.visit.as_ref().is_none_or(|visit| visit.charge(bytes));
        fits.then_some(()).ok_or_else(spent)
    }
}

/// The reply for a fleet that does not exist, or belongs to another client.
pub(super) fn no_fleet() -> Reply {
    let text = "the server has no fleet of this name: `tobari sense keyholder` registers a fleet, and a temporary fleet ends by itself";
    Reply::new(StatusCode::NOT_FOUND, "fleet", text)
}

/// The reply if there is no room for another fleet.
pub(super) fn full() -> Reply {
    let text = "this server has no room for another fleet of this address or token: remove one, or try again when one has ended";
    Reply::new(StatusCode::INSUFFICIENT_STORAGE, "quota", text)
}

/// The reply to a fleet that has used up its limits.
pub(super) fn spent() -> Reply {
    let text = "the temporary fleet has sent all that it may: begin a new fleet";
    Reply::new(StatusCode::INSUFFICIENT_STORAGE, "spent", text)
}

impl Shared {
    /// The sender of a key holder's request.
    pub(super) fn who(&self, headers: &HeaderMap) -> Result<Who, Reply> {
        let Some(secret) = headers.get(SECRET) else { return self.holder(headers).map(|()| Who::Holder) };
        self.visitor(headers)?;
        let secret = secret.to_str().ok().and_then(unhex_lower::<32>);
        let text = "expected a secret of 64 hexadecimal digits, found another";
        let secret = secret.ok_or_else(|| Reply::new(StatusCode::UNPROCESSABLE_ENTITY, "message", text))?;
        Ok(Who::Visitor(sha256(&secret)))
    }

    /// Checks that the client may register permanent fleets.
    pub(super) fn holder(&self, headers: &HeaderMap) -> Result<(), Reply> {
        if headers.contains_key(header::ORIGIN) {
            let text = "expected a key holder's program, found a page in a browser: it may have fleets that end";
            return Err(Reply::new(StatusCode::FORBIDDEN, "page", text));
        }
        self.registrar(headers)
    }

    /// Checks that the client may have a temporary fleet.
    pub(super) fn visitor(&self, headers: &HeaderMap) -> Result<(), Reply> {
        if self.options.visitors { Ok(()) } else { self.registrar(headers) }
    }

    fn registrar(&self, headers: &HeaderMap) -> Result<(), Reply> {
        match &self.registrars {
            Registrars::Anybody => Ok(()),
            Registrars::Tokens(tokens) => tokens.bearer(headers).map(|_| ()).ok_or_else(Reply::unknown),
            Registrars::Nobody => Err(Reply::unknown()),
        }
    }

    /// The fleet with this name, if the sender may use it.
    pub(super) fn used(&self, who: &Who, fleet: &str) -> Result<Used, Reply> {
        let name = unhex_lower(fleet).ok_or_else(no_fleet)?;
        match who {
            Who::Holder => self.fleet(&name).map(|fleet| Used { fleet, visit: None }),
            Who::Visitor(owner) => self.passing.owned(&name, owner, Instant::now()).map(of_visit),
        }
        .ok_or_else(no_fleet)
    }

    /// The fleet with this name, for its devices.
    pub(super) fn of_devices(&self, fleet: &str) -> Result<(Used, Arc<Known>), Reply> {
        let name = unhex_lower(fleet).ok_or_else(no_fleet)?;
        let stays = self.fleet(&name).map(|fleet| Used { fleet, visit: None });
        let used = stays.or_else(|| self.passing.find(&name, Instant::now()).map(of_visit)).ok_or_else(no_fleet)?;
        let known = used.known()?;
        Ok((used, known))
    }

    /// The client of these requests, for all limits by client.
    pub(super) fn origin(&self, headers: &HeaderMap, origin: &Origin) -> Origin {
        let name = match &self.registrars {
            Registrars::Tokens(tokens) => tokens.bearer(headers),
            Registrars::Anybody | Registrars::Nobody => None,
        };
        origin.or_token(name.as_ref())
    }

    /// Reads a key holder's message. Returns the sender, the body, and the turn and memory to hold
    /// during the work. The first limit in bytes is for permanent fleets, the second for temporary
    /// ones.
    pub(super) async fn message(
        &self,
        headers: &HeaderMap,
        origin: &Origin,
        body: Body,
        (holder, visitor): (usize, usize),
    ) -> Result<(Who, Bytes, (Turn, Claim)), Reply> {
        let (who, body) = or_drain(self.who(headers).and_then(|who| self.disk.ready().map(|()| who)), body).await?;
        let mut claim = self.memory.claim(origin);
        let bytes = read(body, who.most(holder, visitor), self.options.patience, &mut claim).await?;
        Ok((who, bytes, (self.messages.take(origin).await?, claim)))
    }
}

pub(super) fn of_visit(visit: Arc<Visit>) -> Used {
    Used { fleet: Arc::clone(&visit.fleet), visit: Some(visit) }
}
