//! Calls as a job of the node: rooms for points, and live rooms.

use std::sync::Arc;

use axum::{Router, routing::get};
use futures_util::future::BoxFuture;
use tobari_curve::params::SecurityFloor;
use tobari_node::{Given, Job, JobError, Offer, Page, Running, StartupNotes, metrics::Metrics};

use crate::{
    door,
    limits::{CallLimits, RoomLimits},
    live::LiveRooms,
    openers::Openers,
    room_task::Points,
    rooms::Rooms,
};

const NAME: &str = "call";

/// The page of live rooms, the same for every room. It and its worker may call other servers.
pub const PAGE: Page =
    Page { job: NAME, file: "call.html", also: &["/call/{room}"], calling: &["call.html", "worker.js"] };

/// Options of the job. There is no field for a key: the server does not use one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CallOptions {
    /// The lowest security of a curve in a room for points.
    pub floor: SecurityFloor,
    /// The limits of calls.
    pub limits: CallLimits,
    /// The bus to other servers of live rooms.
    #[cfg(feature = "cascade")]
    pub bus: Option<crate::CallBus>,
}

impl Default for CallOptions {
    /// Curves of standard security, the usual limits, and no other server.
    fn default() -> Self {
        Self {
            floor: SecurityFloor::Standard,
            limits: CallLimits::default(),
            #[cfg(feature = "cascade")]
            bus: None,
        }
    }
}

/// Calls, ready to serve.
struct Call {
    points: Points,
    live: LiveRooms,
    limits: CallLimits,
}

impl Offer for CallOptions {
    fn open(self: Box<Self>, given: Given) -> BoxFuture<'static, Result<Arc<dyn Job>, JobError>> {
        Box::pin(async move {
            #[cfg(feature = "cascade")]
            let bus = match &self.bus {
                None => None,
                Some(bus) => Some(crate::live::bus::Bus::connect(bus).await.map_err(JobError::new)?),
            };
            let live = LiveRooms::new(
                &given.hosts,
                #[cfg(feature = "cascade")]
                bus,
            );
            let Self { floor, limits, .. } = *self;
            Ok(Arc::new(Call { points: Points { floor }, live, limits }) as Arc<dyn Job>)
        })
    }
}

impl Job for Call {
    fn name(&self) -> &'static str {
        NAME
    }

    fn routes(&self, running: &Running) -> Router {
        let limits = RoomLimits { call: self.limits, house: running.limits };
        let openers = Openers::new(&limits);
        let rooms = Rooms::new(self.points, limits, openers.clone(), running.stopped.clone());
        let points = Router::new().route("/call/v1/{room}", get(door::call::<Points, true>)).with_state(rooms);
        points.merge(self.live.routes(limits, openers, running.stopped.clone()))
    }

    fn metrics(&self, metrics: &mut Metrics) {
        self.live.metrics(metrics);
    }

    fn page(&self) -> Option<Page> {
        Some(PAGE)
    }

    fn told(&self) -> StartupNotes {
        let weak = self.points.floor != SecurityFloor::Standard;
        let warning = "warning: curves below 112 bits of security are admitted: for measurements only";
        StartupNotes { warnings: weak.then(|| warning.to_owned()).into_iter().collect(), ..StartupNotes::default() }
    }
}
