//! What calls add to `tobari serve`.

use crate::command::options::FloorArguments;
use crate::{CallOptions, PAGE};
use clap::Args;
use std::path::Path;
#[cfg(feature = "cascade")]
use std::path::PathBuf;
use tobari_command::job::{ServerJob, SharedOptions};
use tobari_command::output::Failure;
use tobari_node::{Offer, Page};

/// Calls, which a server always serves.
#[derive(Args)]
#[command(next_help_heading = "Calls")]
pub struct ServeCallArguments {
    /// Keep at most this many rooms.
    #[arg(long, value_name = "N")]
    max_rooms: Option<usize>,
    /// Let one client open at most this many rooms. [default: 16]
    #[arg(long, value_name = "N")]
    max_client_rooms: Option<usize>,
    /// Admit at most this many members to a live room, its lobby included. [default: 4096]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=4096), value_name = "N")]
    max_members: Option<u16>,
    /// Accept links for at most this many speakers. [default: 4096]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=4096), value_name = "N")]
    max_speakers: Option<u16>,
    #[command(flatten)]
    floor: FloorArguments,
    #[cfg(feature = "cascade")]
    #[command(flatten)]
    bus: BusArguments,
}

impl ServeCallArguments {
    fn options(&self) -> Result<CallOptions, Failure> {
        let mut options = CallOptions { floor: self.floor.floor()?, ..CallOptions::default() };
        let limits = &mut options.limits;
        limits.rooms = self.max_rooms.unwrap_or(limits.rooms);
        limits.client_rooms = self.max_client_rooms.unwrap_or(limits.client_rooms);
        limits.live.members = self.max_members.map_or(limits.live.members, usize::from);
        limits.live.speakers = self.max_speakers.unwrap_or(limits.live.speakers);
        #[cfg(feature = "cascade")]
        {
            options.bus = self.bus.options()?;
        }
        Ok(options)
    }
}

impl ServerJob for ServeCallArguments {
    const PAGE: Option<Page> = Some(PAGE);

    fn is_wanted(&self) -> bool {
        true
    }

    fn make_up(&mut self, _: &Path) -> Result<(), Failure> {
        Ok(())
    }

    fn offer(&self, _: &SharedOptions) -> Result<Option<Box<dyn Offer>>, Failure> {
        Ok(Some(Box::new(self.options()?)))
    }
}

/// Servers that hold live rooms together.
#[cfg(feature = "cascade")]
#[derive(Args)]
struct BusArguments {
    /// Hold live rooms together with all servers at this NATS server, as nats://host:4222 or
    /// tls://host:4222; a word behind it (nats://host:4222/team) sets apart those who share a
    /// broker.
    #[arg(long, value_name = "URL")]
    call_bus: Option<crate::CallBus>,
    /// A file with a user's name and a password for the broker, with a colon between.
    #[arg(long, requires = "call_bus", value_name = "FILE")]
    call_bus_login: Option<PathBuf>,
    /// How the broker lists this server among its clients. [default: tobari]
    #[arg(long, requires = "call_bus", value_name = "NAME")]
    call_bus_name: Option<String>,
}

#[cfg(feature = "cascade")]
impl BusArguments {
    /// The server's bus, if one was asked for.
    fn options(&self) -> Result<Option<crate::CallBus>, Failure> {
        let Some(mut bus) = self.call_bus.clone() else { return Ok(None) };
        if let Some(path) = &self.call_bus_login {
            bus.login = Some(tobari_command::reach::login(path)?);
        }
        if let Some(name) = &self.call_bus_name {
            bus.name.clone_from(name);
        }
        Ok(Some(bus))
    }
}
