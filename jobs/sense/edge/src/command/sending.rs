//! Sends the frames of a device's outbox ([`Outbox`]), and `tobari sense send`.
//!
//! **A frame leaves the outbox when a server has it, or will never take it.** A lost reply, a
//! server that is away and a device that the server does not know yet change nothing: the same
//! bytes are sent at the next run.

use super::arguments::{SendArguments, SenderArguments};
use super::folder::{self, wrong};
use super::remote::CloudConnection;
use crate::serve::{MqttBroker, publish};
use serde_json::json;
use std::path::{Path, PathBuf};
use tobari_client::ClientIdentity;
use tobari_command::output::{self, Failure};
use tobari_command::reach::login;
use tobari_sense::enrol::{Card, hex};
use tobari_sense::ingest::IngestCounts;
use tobari_sense::registry::Token;
use tobari_sense_files::{CounterFile, Outbox, SPAN};

/// Sends what waits.
pub(super) fn run(arguments: &SendArguments) -> Result<(), Failure> {
    let (card, token) = device(&arguments.sender)?;
    let mut sending = Sending::new(&arguments.sender, &card, &token)?
        .ok_or_else(|| Failure::Call("add --server URL or --mqtt URL".to_owned()))?;
    // the lock of the counter is that of the outbox
    let _lock = CounterFile::open(&folder::counter_of(&arguments.sender.device))?;
    let mut outbox = open(&arguments.sender.device, &token)?;
    let frames = outbox.waiting();
    sending.drain(&mut outbox).map_err(|failure| sending.kept(&outbox, &failure))?;
    sending.refusals()?;
    if arguments.json {
        let mut line = json!({ "frames": frames });
        sending.tell(&mut line);
        return output::json(&line);
    }
    output::say(format!("{frames} frames waited{}", sending.told()));
    Ok(())
}

/// The card of a fleet and the token of a device, if they belong together.
pub(super) fn device(arguments: &SenderArguments) -> Result<(Card, Token), Failure> {
    let card = folder::card(&arguments.fleet)?;
    let token = folder::read_device(&arguments.device)?;
    if hex(&token.fleet) != card.fleet || token.profile != card.schema.profile {
        return Err(wrong(
            &arguments.device,
            "the device belongs to another fleet than the card (--fleet): use the card of its own fleet",
        ));
    }
    Ok((card, token))
}

/// Opens the outbox of a device. The caller holds the lock of its counter.
pub(super) fn open(device: &Path, token: &Token) -> Result<Outbox, Failure> {
    let mut name = device.as_os_str().to_owned();
    name.push(".outbox");
    Ok(Outbox::open(&PathBuf::from(name), token.fleet)?)
}

/// A warning.
pub(super) const PASSWORD: &str =
    "the password for the broker crosses the network unencrypted: prefer a URL with mqtts://";

/// The certificate of a client of a broker; the options need each other.
pub(super) fn identity(certificates: Option<&PathBuf>, key: Option<&PathBuf>) -> Option<ClientIdentity> {
    let (certificates, key) = (certificates?.clone(), key?.clone());
    Some(ClientIdentity { certificates, key })
}

enum Destination {
    Server(Box<CloudConnection>),
    /// A broker, and the topic to publish under.
    Broker(MqttBroker, String),
}

/// The way to a server, and what it answered.
pub(super) struct Sending {
    runtime: tokio::runtime::Runtime,
    to: Destination,
    /// Frames of a request or message.
    batch: usize,
    counts: IngestCounts,
    /// Files of frames that the server will never take.
    refused: Vec<PathBuf>,
}

impl Sending {
    /// The way that the arguments name; nothing is sent yet.
    pub(super) fn new(arguments: &SenderArguments, card: &Card, token: &Token) -> Result<Option<Self>, Failure> {
        let to = match (&arguments.reach.server, &arguments.mqtt) {
            (Some(url), _) => {
                Destination::Server(Box::new(CloudConnection::reach(url, &arguments.reach.reach()?, &card.fleet)?))
            }
            (None, Some(broker)) => {
                let identity = identity(arguments.mqtt_cert.as_ref(), arguments.mqtt_key.as_ref());
                let broker = broker.clone().with_certificates(arguments.reach.reach()?.tls, identity);
                let mut broker = broker.map_err(Failure::Call)?;
                broker.version = arguments.mqtt_version.unwrap_or_default();
                broker.login = arguments.mqtt_login.as_deref().map(login).transpose()?;
                if broker.tells_its_password() {
                    output::say(PASSWORD);
                }
                Destination::Broker(broker, format!("tobari/{}/{}", card.fleet, token.number.value()))
            }
            (None, None) => return Ok(None),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let batch = arguments.batch as usize;
        Ok(Some(Self { runtime, to, batch, counts: IngestCounts::default(), refused: Vec::new() }))
    }

    /// Sends all frames of the outbox, the oldest first.
    pub(super) fn drain(&mut self, outbox: &mut Outbox) -> Result<(), Failure> {
        let most = match &self.to {
            Destination::Server(_) => self.batch,
            Destination::Broker(..) => SPAN as usize,
        };
        while let Some(part) = outbox.part(most)? {
            self.part(outbox, &part)?;
        }
        Ok(())
    }

    fn part(&mut self, outbox: &mut Outbox, part: &[u8]) -> Result<(), Failure> {
        let each = outbox.frame_bytes();
        let connection = match &mut self.to {
            Destination::Broker(broker, topic) => {
                let messages = part.chunks(self.batch * each).map(<[u8]>::to_vec).collect();
                self.runtime.block_on(publish(broker, topic, messages))?;
                return Ok(outbox.confirm(part)?);
            }
            Destination::Server(connection) => connection,
        };
        let counts = self.runtime.block_on(connection.send_frames(part.to_vec()))?;
        let (frames, all) = ((part.len() / each) as u64, counts.named().iter().map(|(_, count)| count).sum::<u64>());
        if all != frames {
            return Err(Failure::Work(format!("expected a reply about {frames} frames, found one about {all}")));
        }
        if counts.forged > 0 {
            return Err(Failure::Work(format!(
                "expected a server that takes all {frames} frames, found one that refused {}: start the key holder, \
                 which tells the server about its devices",
                reasons(&counts)
            )));
        }
        self.counts.add(&counts);
        if counts.taken + counts.duplicate == frames {
            return Ok(outbox.confirm(part)?);
        }
        self.refused.push(outbox.set_aside(part)?);
        Ok(())
    }

    /// The failure if frames stay in the outbox.
    pub(super) fn kept(&self, outbox: &Outbox, failure: &Failure) -> Failure {
        let waiting = outbox.waiting();
        Failure::Work(format!(
            "{failure}. {waiting} frames wait in {}. `tobari sense send` sends them, as does the next run",
            outbox.folder().display()
        ))
    }

    /// The failure if the server will never take some of the frames.
    pub(super) fn refusals(&self) -> Result<(), Failure> {
        let Some(first) = self.refused.first() else { return Ok(()) };
        let all: u64 = self.counts.named().iter().map(|(_, count)| count).sum();
        let more = match self.refused.len() {
            1 => String::new(),
            files => format!(" and {} more", files - 1),
        };
        Err(Failure::Work(format!(
            "expected a server that takes all {all} frames, found one that refused {}. These frames are in {}{more}, \
             and are not sent again",
            reasons(&self.counts),
            first.display()
        )))
    }

    /// What the server took, for people.
    pub(super) fn told(&self) -> String {
        match self.to {
            Destination::Server(_) => format!("; the server took {}", self.counts.taken + self.counts.duplicate),
            Destination::Broker(..) => String::new(),
        }
    }

    /// What the server took, for programs.
    pub(super) fn tell(&self, line: &mut serde_json::Value) {
        if matches!(self.to, Destination::Server(_)) {
            line["server"] = json!(self.counts);
        }
    }

    /// The runtime of its connections.
    pub(super) fn runtime(&self) -> &tokio::runtime::Runtime {
        &self.runtime
    }
}

/// The numbers of frames that a server rejected, by reason.
fn reasons(counts: &IngestCounts) -> String {
    let named = counts.named();
    let refused = named[2..].iter().filter(|(_, count)| *count > 0);
    refused.map(|(what, count)| format!("{count} as {what}")).collect::<Vec<String>>().join(", ")
}
