//! Who may ask for what.
//!
//! | fleets | who registers them and asks |
//! |---|---|
//! | that stay | who has a token, where there is a file of them; otherwise anybody on this machine, or anybody at all where the server was told so. **No page**: a request with an `Origin` is a browser's, and is refused |
//! | that end ([`super::passing`]) | the same, and with `visitors` anybody; then who made one, by its secret |
//!
//! Frames need no right: a device's MAC is what tells it. Of a fleet that ends, whoever has its
//! name may see what the server holds, which is what the server sees.

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

/// The secret of a fleet that ends: 64 hexadecimal digits.
const SECRET: &str = "tobari-passing";

/// Who registers fleets that stay.
pub(super) enum Registrars {
    /// Whoever reaches the server.
    Anybody,
    /// Who has one of these.
    Tokens(Arc<Tokens>),
    /// Nobody: the server is for visitors alone.
    Nobody,
}

/// In whose name a request comes.
pub(super) enum Who {
    /// A key holder's, whose fleet stays.
    Holder,
    /// A visitor's, whose secret has this hash.
    Visitor([u8; 32]),
}

impl Who {
    /// The one limit or the other.
    fn most(&self, holder: usize, visitor: usize) -> usize {
        match self {
            Self::Holder => holder,
            Self::Visitor(_) => visitor,
        }
    }
}

/// A fleet, for who may ask about it.
pub(super) struct Used {
    /// The fleet.
    pub(super) fleet: Arc<Fleet>,
    /// If it ends.
    pub(super) visit: Option<Arc<Visit>>,
}

impl Used {
    /// What it is; refused before its bundle came.
    pub(super) fn known(&self) -> Result<Arc<Known>, Reply> {
        self.fleet.known().ok_or_else(no_fleet)
    }

    /// Takes a request into account that leaves so many bytes.
    pub(super) fn charge(&self, bytes: usize) -> Result<(), Reply> {
        let fits = self.visit.as_ref().is_none_or(|visit| visit.charge(bytes));
        fits.then_some(()).ok_or_else(spent)
    }
}

/// A fleet that there is not, or that is somebody else's.
pub(super) fn no_fleet() -> Reply {
    let text = "the server has no fleet of this name: run `tobari sense keyholder` once, which registers the fleet";
    Reply::new(StatusCode::NOT_FOUND, "fleet", text)
}

/// No room for another fleet.
pub(super) fn full() -> Reply {
    let text = "this server has no room for another fleet of this address or token: remove one, or come again when one has ended";
    Reply::new(StatusCode::INSUFFICIENT_STORAGE, "quota", text)
}

/// A fleet that has sent all that it may.
pub(super) fn spent() -> Reply {
    let text = "the temporary fleet has sent all that it may: begin a new fleet";
    Reply::new(StatusCode::INSUFFICIENT_STORAGE, "spent", text)
}

impl Shared {
    /// In whose name a request of a key holder comes.
    pub(super) fn who(&self, headers: &HeaderMap) -> Result<Who, Reply> {
        let Some(secret) = headers.get(SECRET) else { return self.holder(headers).map(|()| Who::Holder) };
        self.visitor(headers)?;
        let secret = secret.to_str().ok().and_then(unhex_lower::<32>);
        let text = "expected a secret of 64 hexadecimal digits, found another";
        let secret = secret.ok_or_else(|| Reply::new(StatusCode::UNPROCESSABLE_ENTITY, "message", text))?;
        Ok(Who::Visitor(sha256(&secret)))
    }

    /// Whether who asks may register fleets that stay.
    pub(super) fn holder(&self, headers: &HeaderMap) -> Result<(), Reply> {
        if headers.contains_key(header::ORIGIN) {
            let text = "expected a key holder's program, found a page in a browser: it may have fleets that end";
            return Err(Reply::new(StatusCode::FORBIDDEN, "page", text));
        }
        self.registrar(headers)
    }

    /// Whether who asks may have a fleet that ends.
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

    /// The fleet of whose name this is, for who asks.
    pub(super) fn used(&self, who: &Who, fleet: &str) -> Result<Used, Reply> {
        let name = unhex_lower(fleet).ok_or_else(no_fleet)?;
        match who {
            Who::Holder => self.fleet(&name).map(|fleet| Used { fleet, visit: None }),
            Who::Visitor(owner) => self.passing.owned(&name, owner, Instant::now()).map(of_visit),
        }
        .ok_or_else(no_fleet)
    }

    /// The fleet of whose name this is, for its devices.
    pub(super) fn of_devices(&self, fleet: &str) -> Result<(Used, Arc<Known>), Reply> {
        let name = unhex_lower(fleet).ok_or_else(no_fleet)?;
        let stays = self.fleet(&name).map(|fleet| Used { fleet, visit: None });
        let used = stays.or_else(|| self.passing.find(&name, Instant::now()).map(of_visit)).ok_or_else(no_fleet)?;
        let known = used.known()?;
        Ok((used, known))
    }

    /// Whose requests these are, for all that one client has a share of.
    pub(super) fn origin(&self, headers: &HeaderMap, origin: &Origin) -> Origin {
        let name = match &self.registrars {
            Registrars::Tokens(tokens) => tokens.bearer(headers),
            Registrars::Anybody | Registrars::Nobody => None,
        };
        origin.or_token(name.as_ref())
    }

    /// Who sends a key holder's message, its body, and what is held while it is worked at: of so
    /// many bytes at most where the fleet stays, and of so many where it ends.
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
