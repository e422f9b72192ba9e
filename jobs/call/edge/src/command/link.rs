//! `tobari call link`.

use super::arguments::LinkArguments;
use chacha20::rand_core::Rng;
use serde_json::json;
use std::process::ExitCode;
use tobari_call::live::{Keys, RoomLink, Sending, Settings};
use tobari_command::output::{self, Failure};
use tobari_command::randomness;

/// Makes a link.
pub(super) fn link(arguments: &LinkArguments) -> Result<ExitCode, Failure> {
    let mut rng = randomness::generator()?;
    let server = arguments.server.as_str();
    if !["http://", "https://"].iter().any(|scheme| server.starts_with(scheme)) || server.contains(['#', '?']) {
        let text = format!("{server}: expected the address of a server, as in https://host:7610, found something else");
        return Err(Failure::Call(text));
    }
    let room = match &arguments.room {
        Some(room) => room.clone(),
        None => format!("room-{:016x}", rng.next_u64()).parse()?,
    };
    let hosted = arguments.host || arguments.lobby;
    let settings = Settings {
        mode: arguments.mode.into(),
        sending: arguments.sending.into(),
        keys: arguments.keys.into(),
        lobby: arguments.lobby,
        speakers: arguments.speakers,
        host: hosted.then_some([0; 16]),
    };
    let link = RoomLink::new(server, room, settings, &mut rng);
    let (members, host) = (link.for_members().to_text(), link.host.as_ref().map(|_| link.to_text()));
    if arguments.json {
        let mut line = json!({ "link": *members, "mode": settings.mode.to_string(), "speakers": settings.speakers });
        if settings.keys == Keys::Group {
            line["keys"] = settings.keys.name().into();
        }
        if let Some(host) = &host {
            line["host_link"] = host.as_str().into();
        }
        output::json(&line)?;
        return Ok(ExitCode::SUCCESS);
    }
    output::result(members.as_str());
    if let Some(host) = &host {
        output::say("the host's own link, for the host alone:");
        output::result(host.as_str());
    }
    match settings.keys {
        Keys::Link => output::say(
            "everybody with the link can hear the room and open its recordings: send it as you would send a key",
        ),
        Keys::Group => output::say(
            "everybody with the link can join the call, and is then on the list of members: compare words with the others",
        ),
    }
    if settings.sending == Sending::Spurts {
        output::say("with talk spurts the server learns who speaks and when");
    }
    Ok(ExitCode::SUCCESS)
}
