//! `tobari call join`: a member of a live room on the command line.
//!
//! **Lost connections.** A room closes a tick every 20 ms and reports this to all members, even
//! in silence. So a second without a tick, or any error of the connection, means that the
//! connection is lost. The member drops the connection and joins again under a new session, so its
//! new keys have sent nothing.

use super::arguments::JoinArguments;
use super::sound::{self, Mouth, Sink};
use super::told::EventPrinter;
use crate::connect::{ConnectError, LiveInbound, LiveIncoming, LiveOutbound, connect_live};
use chacha20::ChaCha20Rng;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tobari_call::PACKET_SAMPLES;
use tobari_call::live::audio::{Microphone, PlaybackBuffer};
use tobari_call::live::messages::ClientMessage;
use tobari_call::live::messages::Welcome;
use tobari_call::live::{Keys, LiveMember, News, RoomLink, group};
use tobari_call::messages::Code;
use tobari_client::ClientError;
use tobari_command::output::{self, Failure};
use tobari_command::randomness;
use tobari_command::stop::stop_signal;
use tokio::task::block_in_place;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};

/// Frames to wait for after the end of the input: one second, so that the others hear the end.
const AFTERWARDS: u32 = 50;
/// After this time without a tick, a connection counts as lost.
const STALL: Duration = Duration::from_secs(1);
/// If this program is late by more than this, it does not send the missed frames.
const PAUSED: Duration = Duration::from_millis(200);
/// At most one message about late packets in this many ticks.
const LATE_TICKS: u32 = 500;
/// Milliseconds to wait before each attempt to rejoin. After the last attempt the call fails.
const ATTEMPTS: [u64; 9] = [0, 250, 500, 1000, 1000, 2000, 2000, 4000, 4000];

/// Joins the room and stays until the call ends.
pub(super) fn join(arguments: &JoinArguments) -> Result<ExitCode, Failure> {
    let link: RoomLink = arguments.link.parse().map_err(|error| Failure::Call(format!("{error}")))?;
    if arguments.json && arguments.output.as_deref() == Some(Path::new("-")) {
        return Err(Failure::Call("--json and --out - both write to standard output: use one of them".to_owned()));
    }
    if link.settings.keys == Keys::Group {
        if !group::HAS_GROUPS {
            let text =
                "this build lacks the feature `mls`, which links with agreed keys need: build with `--features mls`";
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
        let ended = call.run(arguments, &link).await;
        call.finish().and(ended)
    })
}

/// A member, its connection, and its audio input and output.
struct Call {
    member: LiveMember,
    outbound: LiveOutbound,
    inbound: LiveInbound,
    rng: ChaCha20Rng,
    microphone: Option<Microphone>,
    mouth: Mouth,
    ear: PlaybackBuffer,
    sink: Sink,
    recorder: Option<sound::Recorder>,
    /// Time of the room's last message after its first roster.
    ticked: Option<Instant>,
    /// Attempts to rejoin since then.
    attempts: usize,
    told: EventPrinter,
    /// Own packets that the server reported as late, and the tick until which no further message
    /// reports them.
    late: u32,
    late_until: u32,
    heard: u32,
    sent: u32,
    over: Option<(Option<Code>, String)>,
}

impl Call {
    async fn enter(arguments: &JoinArguments, link: &RoomLink) -> Result<Self, Failure> {
        let mouth = Mouth::open(arguments.input.as_deref())?;
        let sink = Sink::open(arguments.output.as_deref())?;
        let mut rng = randomness::generator()?;
        let (welcome, outbound, inbound) = connect(arguments, link).await?;
        let recorder =
            arguments.record.as_deref().map(|path| sound::Recorder::create(path, welcome.room)).transpose()?;
        let microphone = (!arguments.unlevelled).then(Microphone::default);
        let (told, heard, sent, over) = (EventPrinter::new(arguments.json), 0, 0, None);
        let member = seat(arguments, link, &welcome, &told, &mut rng)?;
        let mut call = Self {
            member,
            outbound,
            inbound,
            rng,
            microphone,
            mouth,
            ear: PlaybackBuffer::default(),
            sink,
            recorder,
            ticked: None,
            attempts: 0,
            told,
            late: 0,
            late_until: 0,
            heard,
            sent,
            over,
        };
        // if this send fails, the next ones fail too
        let _ = call.say().await;
        Ok(call)
    }

    async fn run(&mut self, arguments: &JoinArguments, link: &RoomLink) -> Result<ExitCode, Failure> {
        let mut clock = interval(Duration::from_millis(tobari_call::TICK_MS));
        clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut stop = std::pin::pin!(stop_signal(false));
        let (mut frames, mut left) = (0u32, arguments.seconds.map(|seconds| seconds.saturating_mul(50)));
        loop {
            let due = self.ticked.unwrap_or_else(Instant::now) + STALL;
            let lost = tokio::select! {
                () = &mut stop => break,
                due = clock.tick() => {
                    // after a pause of this program, frames sent at once would be for ticks in the
                    // future
                    if due.elapsed() > PAUSED {
                        frames = frames.saturating_add((due.elapsed().as_millis() / 20) as u32);
                        clock.reset();
                    }
                    frames += 1;
                    if left.is_some_and(|left| frames > left) {
                        break;
                    }
                    let lost = self.frame().await?;
                    if left.is_none() && self.mouth.is_over() {
                        left = Some(frames + AFTERWARDS);
                    }
                    lost
                }
                came = self.inbound.receive() => self.come(came)?,
                () = sleep_until(due), if self.ticked.is_some() => self.stalled().await?,
            };
            self.tell(arguments)?;
            let lost = match lost {
                None => self.say().await,
                lost => lost,
            };
            match self.over.take() {
                Some((Some(code), reason)) => {
                    return Err(Failure::Work(format!("removed by the server ({code}): {reason}")));
                }
                Some((None, _)) => return Ok(ExitCode::SUCCESS),
                None => {}
            }
            if let Some(error) = lost {
                tokio::select! {
                    () = &mut stop => break,
                    again = self.come_again(arguments, link, error) => again?,
                }
            }
        }
        // the room goes on without this member
        let _ = timeout(STALL, self.outbound.close()).await;
        Ok(ExitCode::SUCCESS)
    }

    /// Handles a second without a tick. If this program itself was paused, there is something to
    /// read.
    async fn stalled(&mut self) -> Result<Option<ConnectError>, Failure> {
        match timeout(Duration::ZERO, self.inbound.receive()).await {
            Ok(came) => self.come(came),
            Err(_) => Ok(Some(ConnectError::Client(ClientError::Timeout { what: "tick", waited: STALL }))),
        }
    }

    /// Sends and receives 20 ms. Returns the error that ended the connection, if any.
    async fn frame(&mut self) -> Result<Option<ConnectError>, Failure> {
        let speaks = self.member.can_speak();
        let frame = if speaks {
            self.mouth.next()
        } else {
            self.mouth.wait();
            [0; PACKET_SAMPLES]
        };
        let (frame, talking) = match &mut self.microphone {
            Some(microphone) => microphone.process(&frame),
            None => (frame, frame.iter().any(|sample| *sample != 0)),
        };
        let (member, rng, mut lost) = (&mut self.member, &mut self.rng, None);
        if let Some(packet) = block_in_place(|| member.frame(&frame, talking, rng)) {
            self.sent += 1;
            lost = taken(self.outbound.send_packet(packet)).await;
            if lost.is_none()
                && let Some(probe) = self.member.probe()
            {
                lost = taken(self.outbound.send_packet(probe)).await;
            }
        }
        self.sink.take(&self.ear.pull())?;
        Ok(lost)
    }

    /// Handles a received message. Returns the error that ended the connection, if any.
    fn come(&mut self, came: Result<LiveIncoming, ConnectError>) -> Result<Option<ConnectError>, Failure> {
        match came {
            Err(error) => return Ok(Some(error)),
            Ok(LiveIncoming::Message(message)) => self.member.message(&message, &mut self.rng),
            Ok(LiveIncoming::Binary(bytes)) => {
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
        // in a lobby there are no ticks
        if self.member.roster().is_some() {
            (self.ticked, self.attempts) = (Some(Instant::now()), 0);
        }
        Ok(None)
    }

    /// Rejoins as a new member after a lost connection. Old numbers, ticks and keys are useless.
    async fn come_again(
        &mut self,
        arguments: &JoinArguments,
        link: &RoomLink,
        lost: ConnectError,
    ) -> Result<(), Failure> {
        self.told.lost(&lost)?;
        let mut error = lost;
        while let Some(wait) = ATTEMPTS.get(self.attempts) {
            self.attempts += 1;
            sleep(Duration::from_millis(*wait)).await;
            match connect(arguments, link).await {
                Ok((welcome, outbound, inbound)) => {
                    self.member = seat(arguments, link, &welcome, &self.told, &mut self.rng)?;
                    // the room may have restarted, and its ticks with it
                    self.late_until = 0;
                    (self.outbound, self.inbound) = (outbound, inbound);
                    (self.ear, self.ticked) = (PlaybackBuffer::default(), None);
                    if let Some(recorder) = self.recorder.take_if(|recorder| recorder.room() != welcome.room) {
                        recorder.finish()?;
                        self.told.recorded()?;
                    }
                    return self.told.again();
                }
                Err(other) => error = other,
            }
        }
        Err(error.into())
    }

    /// Prints events, and performs a host's automatic actions.
    fn tell(&mut self, arguments: &JoinArguments) -> Result<(), Failure> {
        while let Some(news) = self.member.poll_news() {
            match &news {
                &News::Late { tick } => {
                    self.late += 1;
                    if !arguments.json && tick < self.late_until {
                        continue;
                    }
                    self.late_until = tick.saturating_add(LATE_TICKS);
                }
                News::Waiting { member, .. } if arguments.admit_all => {
                    self.member.say(&ClientMessage::Admit { member: *member });
                }
                &News::Hand { member, raised } if arguments.admit_all => {
                    self.member.say(&ClientMessage::Grant { member, speak: raised });
                }
                News::Admitted if arguments.raise_hand => self.member.raise_hand(true),
                News::Over { code, reason } => self.over = Some((*code, reason.clone())),
                _ => {}
            }
            self.told.news(&self.member, &news)?;
        }
        Ok(())
    }

    /// Sends all pending messages while the connection accepts them.
    async fn say(&mut self) -> Option<ConnectError> {
        let mut lost = None;
        while let Some(out) = self.member.poll_outgoing().filter(|_| lost.is_none()) {
            lost = taken(self.outbound.say(out)).await;
        }
        lost
    }

    /// Completes the output and the recording, however the call ended.
    fn finish(&mut self) -> Result<ExitCode, Failure> {
        self.sink.finish()?;
        if let Some(recorder) = self.recorder.take() {
            recorder.finish()?;
        }
        let alarms = self.told.alarms();
        self.told.end(self.sent, self.late, self.heard)?;
        if alarms > 0 {
            return Err(Failure::Work(format!(
                "{alarms} alarms: the server, or a member together with it, did not follow the protocol"
            )));
        }
        output::status("");
        Ok(ExitCode::SUCCESS)
    }
}

/// Waits for a send. A connection that accepts nothing for [`STALL`] is lost. The receiving half
/// reports all other errors and the reason for an end.
async fn taken(sending: impl Future<Output = Result<(), ConnectError>>) -> Option<ConnectError> {
    let stalled = |_| ConnectError::Client(ClientError::Timeout { what: "room for what is sent", waited: STALL });
    timeout(STALL, sending).await.err().map(stalled)
}

fn speaks(arguments: &JoinArguments) -> bool {
    arguments.input.is_some() && !arguments.raise_hand
}

async fn connect(
    arguments: &JoinArguments,
    link: &RoomLink,
) -> Result<(Welcome, LiveOutbound, LiveInbound), ConnectError> {
    let join = |nonce| LiveMember::join(link, speaks(arguments), nonce);
    connect_live(&link.server, &link.room, join, &arguments.tls()).await
}

/// Creates the member of a connection, with a new session.
fn seat(
    arguments: &JoinArguments,
    link: &RoomLink,
    welcome: &Welcome,
    told: &EventPrinter,
    rng: &mut ChaCha20Rng,
) -> Result<LiveMember, Failure> {
    let mut member = LiveMember::new(link, &arguments.name, speaks(arguments), welcome, rng)
        .ok_or_else(|| Failure::Call("a link whose settings are impossible".to_owned()))?;
    if welcome.waiting {
        told.waiting()?;
    }
    // the server has no place for a hand in the lobby: it is raised after the admission
    if arguments.raise_hand && !welcome.waiting {
        member.raise_hand(true);
    }
    Ok(member)
}
