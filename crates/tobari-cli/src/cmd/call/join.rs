//! `tobari call join`: a member of a live room on the command line.

use super::arguments::JoinArguments;
use super::sound::{self, Mouth, Sink};
use super::told;
use crate::cmd::serve::stop_signal;
use crate::output::{self, Failure};
use crate::randomness;
use chacha20::ChaCha20Rng;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tobari_apps::call::PACKET_SAMPLES;
use tobari_apps::call::live::audio::{Ear, Microphone};
use tobari_apps::call::live::messages::ClientMessage;
use tobari_apps::call::live::{Keys, LiveMember, News, RoomLink, group};
use tobari_apps::call::messages::Code;
use tobari_server::connect::{LiveInbound, LiveIncoming, LiveOutbound, connect_live};
use tokio::task::block_in_place;
use tokio::time::{MissedTickBehavior, interval};

/// Frames that are waited for after the end of what there is to say: one second, for it to be heard.
const AFTERWARDS: u32 = 50;

/// Joins, and stays until there is a reason to leave.
pub(crate) fn join(arguments: &JoinArguments) -> Result<ExitCode, Failure> {
    let link: RoomLink = arguments.link.parse().map_err(|error| Failure::Call(format!("{error}")))?;
    if arguments.json && arguments.output.as_deref() == Some(Path::new("-")) {
        return Err(Failure::Call("expected --json or --out -, found both: there is one standard output".to_owned()));
    }
    if link.settings.keys == Keys::Group {
        if !group::HAS_GROUPS {
            let text = "a link whose members agree on keys: expected a build with the feature `mls`, found one without";
            return Err(Failure::Call(text.to_owned()));
        }
        if arguments.record.is_some() {
            let text = "--record: expected a link whose secret is the key; the keys of this call are agreed by its members and not kept";
            return Err(Failure::Call(text.to_owned()));
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut call = Call::enter(arguments, &link).await?;
        let ended = call.run(arguments).await;
        call.finish(arguments).and(ended)
    })
}

/// A member, its connection, and its ends in this process.
struct Call {
    member: LiveMember,
    outbound: LiveOutbound,
    inbound: LiveInbound,
    rng: ChaCha20Rng,
    microphone: Option<Microphone>,
    mouth: Mouth,
    ear: Ear,
    sink: Sink,
    recorder: Option<sound::Recorder>,
    alarms: u32,
    heard: u32,
    sent: u32,
    over: Option<(Option<Code>, String)>,
}

impl Call {
    async fn enter(arguments: &JoinArguments, link: &RoomLink) -> Result<Self, Failure> {
        let mouth = Mouth::open(arguments.input.as_deref())?;
        let sink = Sink::open(arguments.output.as_deref())?;
        let speak = arguments.input.is_some() && !arguments.raise_hand;
        let mut rng = randomness::generator()?;
        let join = LiveMember::join(link, speak);
        let (welcome, outbound, inbound) = connect_live(&link.server, &link.room, &join, &arguments.tls()).await?;
        let recorder =
            arguments.record.as_deref().map(|path| sound::Recorder::create(path, welcome.room)).transpose()?;
        let member = LiveMember::new(link, &arguments.name, speak, &welcome, &mut rng)
            .ok_or_else(|| Failure::Call("a link whose settings are impossible".to_owned()))?;
        if welcome.waiting {
            told::waiting(arguments.json)?;
        }
        let microphone = (!arguments.unlevelled).then(Microphone::default);
        let (alarms, heard, sent, over) = (0, 0, 0, None);
        let mut call = Self {
            member,
            outbound,
            inbound,
            rng,
            microphone,
            mouth,
            ear: Ear::default(),
            sink,
            recorder,
            alarms,
            heard,
            sent,
            over,
        };
        if arguments.raise_hand {
            call.member.raise_hand(true);
        }
        call.say().await?;
        Ok(call)
    }

    async fn run(&mut self, arguments: &JoinArguments) -> Result<ExitCode, Failure> {
        let mut clock = interval(Duration::from_millis(tobari_apps::call::TICK_MS));
        clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut stop = std::pin::pin!(stop_signal(false));
        let (mut frames, mut left) = (0u32, arguments.seconds.map(|seconds| seconds.saturating_mul(50)));
        loop {
            tokio::select! {
                () = &mut stop => break,
                _ = clock.tick() => {
                    frames += 1;
                    if left.is_some_and(|left| frames > left) {
                        break;
                    }
                    self.frame().await?;
                    if left.is_none() && self.mouth.is_over() {
                        left = Some(frames + AFTERWARDS);
                    }
                }
                came = self.inbound.receive() => self.come(came?)?,
            }
            self.tell(arguments).await?;
            self.say().await?;
            if let Some((code, reason)) = self.over.take() {
                return match code {
                    Some(code) => Err(Failure::Work(format!("put out by the server ({code}): {reason}"))),
                    None => Ok(ExitCode::SUCCESS),
                };
            }
        }
        // the room goes on without this member
        let _ = self.outbound.close().await;
        Ok(ExitCode::SUCCESS)
    }

    /// 20 ms of both directions.
    async fn frame(&mut self) -> Result<(), Failure> {
        let speaks = self.member.can_speak();
        let frame = if speaks { self.mouth.next() } else { [0; PACKET_SAMPLES] };
        let (frame, talking) = match &mut self.microphone {
            Some(microphone) => microphone.process(&frame),
            None => (frame, frame.iter().any(|sample| *sample != 0)),
        };
        let (member, rng) = (&mut self.member, &mut self.rng);
        if let Some(packet) = block_in_place(|| member.frame(&frame, talking, rng)) {
            self.sent += 1;
            self.outbound.send_packet(packet).await?;
        }
        self.sink.take(&self.ear.pull())
    }

    fn come(&mut self, came: LiveIncoming) -> Result<(), Failure> {
        match came {
            LiveIncoming::Message(message) => self.member.message(&message, &mut self.rng),
            LiveIncoming::Binary(bytes) => {
                if let Some(recorder) = &mut self.recorder {
                    recorder.take(&bytes)?;
                }
                let member = &mut self.member;
                if let Some(heard) = block_in_place(|| member.binary(&bytes)) {
                    self.heard += 1;
                    self.ear.push(heard.tick, heard.samples.to_vec());
                }
            }
        }
        Ok(())
    }

    /// Tells what happened, and does what a host on its own does.
    async fn tell(&mut self, arguments: &JoinArguments) -> Result<(), Failure> {
        while let Some(news) = self.member.poll_news() {
            match &news {
                News::Alarm(_) => self.alarms += 1,
                News::Waiting { member, .. } if arguments.admit_all => {
                    self.member.say(&ClientMessage::Admit { member: *member });
                }
                &News::Hand { member, raised } if arguments.admit_all => {
                    self.member.say(&ClientMessage::Grant { member, speak: raised });
                }
                News::Over { code, reason } => self.over = Some((*code, reason.clone())),
                _ => {}
            }
            told::news(&self.member, &news, arguments.json)?;
        }
        Ok(())
    }

    async fn say(&mut self) -> Result<(), Failure> {
        while let Some(out) = self.member.poll_outgoing() {
            self.outbound.say(out).await?;
        }
        Ok(())
    }

    /// Writes what was heard and recorded, whole, however the call ended.
    fn finish(&mut self, arguments: &JoinArguments) -> Result<ExitCode, Failure> {
        self.sink.finish()?;
        if let Some(recorder) = self.recorder.take() {
            recorder.finish()?;
        }
        told::end(self.sent, self.heard, self.alarms, arguments.json)?;
        if self.alarms > 0 {
            return Err(Failure::Work(format!(
                "{} alarms: the server, or somebody with it, did what it must not",
                self.alarms
            )));
        }
        output::status("");
        Ok(ExitCode::SUCCESS)
    }
}
