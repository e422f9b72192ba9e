//! A whole mix over the network: every recording is a speaker with its own connection, and one more
//! connection listens and decrypts.
//!
//! The room is lockstep, so nothing is dropped: a tick closes when every speaker that still has
//! samples has sent its packet. The work of one tick is encrypting, sending, and decrypting while
//! later ticks are on their way; the room's window and the listener's acknowledgements keep memory
//! bounded.

use crate::command::call_key::CallKey;
use crate::connect::{Connection, Inbound, Incoming, Outbound};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tobari_call::PACKET_SAMPLES;
use tobari_call::client::{Decrypt, Encrypt, Listener, Speaker};
use tobari_call::messages::{ClientMessage, Join, Pace, RoomName};
use tobari_call::program;
use tobari_client::ClientTls;
use tobari_command::output::{Failure, Progress};
use tobari_command::randomness;
use tobari_curve::PointEncoding;
use tobari_curve::elgamal::{DecryptError, Decryptor, Encryptor, SAMPLE_BOUND, SharedDecryptor, SharedEncryptor};
use tobari_curve::wire::{MAX_MEMBERS, SumHeader};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use zeroize::Zeroizing;

/// The members of a room, less one for the listener.
pub(crate) const MAX_SPEAKERS: usize = MAX_MEMBERS - 1;
/// Connections that are opened at once.
const CONNECTING_AT_ONCE: usize = 32;

/// What to mix, and where.
pub(crate) struct Request {
    /// One recording a speaker: 16 kHz, mono.
    pub(crate) speakers: Vec<Arc<[i16]>>,
    /// The key of the call, and with it the mode.
    pub(crate) key: CallKey,
    /// The blind server.
    pub(crate) server: String,
    /// The certificate that the client trusts.
    pub(crate) tls: ClientTls,
    /// How points travel to the server.
    pub(crate) uplink: PointEncoding,
    /// How points travel back.
    pub(crate) downlink: PointEncoding,
}

/// The decrypted mix.
pub(crate) struct Outcome {
    /// The exact sum, as long as the longest recording.
    pub(crate) samples: Vec<i32>,
    /// Length in ticks of 20 ms.
    pub(crate) ticks: u32,
    /// Bytes of all packets to the server.
    pub(crate) sent_bytes: u64,
    /// Bytes of all sums from the server.
    pub(crate) received_bytes: u64,
}

/// Called once with the name of the room, while the server holds half of the call, so that the
/// caller can inspect the server.
pub(crate) type Halfway = Box<dyn FnOnce(&RoomName) + Send>;

/// Mixes.
pub(crate) async fn mix(request: Request, halfway: Option<Halfway>) -> Result<Outcome, Failure> {
    let count = request.speakers.len();
    if count > MAX_SPEAKERS {
        return Err(Failure::Call(format!("{count} recordings: expected at most {MAX_SPEAKERS}")));
    }
    let bound = count as u32 * SAMPLE_BOUND as u32;
    match request.key.clone() {
        CallKey::Elgamal(key) => {
            let public = key.public_key();
            let encryptor = spawn_blocking(move || Encryptor::new(&public));
            let decryptor = spawn_blocking(move || Decryptor::new(&key, bound));
            mix_with(request, encryptor.await?, decryptor.await?, halfway).await
        }
        CallKey::ElgamalShared(secret) => {
            let (key, same) = (secret.expand(PACKET_SAMPLES), secret.expand(PACKET_SAMPLES));
            let encryptor = spawn_blocking(move || SharedEncryptor::new(&key));
            let decryptor = spawn_blocking(move || SharedDecryptor::new(&same, bound));
            mix_with(request, encryptor.await?, decryptor.await?, halfway).await
        }
    }
}

/// Mixes with the tables of one mode. The tables are built before the first connection: on a busy
/// machine the build takes all cores for longer than a server waits for a member's first message.
async fn mix_with<E: Encrypt, D: Decrypt>(
    request: Request,
    encryptor: E,
    decryptor: D,
    halfway: Option<Halfway>,
) -> Result<Outcome, Failure> {
    let lengths: Vec<usize> = request.speakers.iter().map(|speaker| speaker.len()).collect();
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let mut join = Join::new(Pace::Lockstep { members: lengths.len() as u16 }, request.key.parameters().curve());
    (join.mode, join.downlink) = (request.key.mode(), request.downlink);
    let room: RoomName = random_room_name()?.parse()?;
    join.speak = false;
    let listening = crate::connect::connect(&request.server, &room, &join, &request.tls).await?;
    (join.speak, join.listen) = (true, false);
    let connections = open_all(&request, &room, &join).await?;

    let mut expected = BTreeMap::new();
    for (connection, length) in connections.iter().zip(&lengths) {
        expected.insert(connection.welcome().member, program::ticks(*length) as u32);
    }
    let (encryptor, decryptor) = (Arc::new(encryptor), Arc::new(decryptor));
    let cores = Arc::new(Semaphore::new(tobari_host::threads::available()));
    let mut speaking = JoinSet::new();
    for (connection, samples) in connections.into_iter().zip(request.speakers) {
        let (encryptor, cores) = (encryptor.clone(), cores.clone());
        speaking.spawn(speak(connection, samples, encryptor, request.uplink, cores));
    }
    let halfway = halfway.map(|look| (look, room));
    let ear =
        MixListener { expected, decryptor, halfway, pending: VecDeque::new(), samples: Vec::new(), received_bytes: 0 };
    let mut hearing = JoinSet::new();
    hearing.spawn(ear.listen(listening, longest));
    let mut sent_bytes = 0;
    let mut heard = None;
    while !(speaking.is_empty() && heard.is_some()) {
        tokio::select! {
            Some(sent) = speaking.join_next() => sent_bytes += sent??,
            Some(ear) = hearing.join_next() => heard = Some(ear??),
        }
    }
    let (samples, ticks, received_bytes) = heard.ok_or_else(|| Failure::Work("nothing was heard".into()))?;
    Ok(Outcome { samples, ticks, sent_bytes, received_bytes })
}

/// A random name that no other room has.
fn random_room_name() -> Result<String, Failure> {
    use chacha20::rand_core::Rng;
    Ok(format!("mix-{:016x}", randomness::generator()?.next_u64()))
}

async fn open_all(request: &Request, room: &RoomName, join: &Join) -> Result<Vec<Connection>, Failure> {
    let mut connections = Vec::with_capacity(request.speakers.len());
    while connections.len() < request.speakers.len() {
        let batch = CONNECTING_AT_ONCE.min(request.speakers.len() - connections.len());
        let opening = (0..batch).map(|_| crate::connect::connect(&request.server, room, join, &request.tls));
        connections.extend(futures_util::future::try_join_all(opening).await?);
    }
    Ok(connections)
}

/// One speaker: encrypts and sends its recording, then waits for the room to end. Returns the bytes
/// sent.
async fn speak<E: Encrypt>(
    connection: Connection,
    samples: Arc<[i16]>,
    encryptor: Arc<E>,
    encoding: PointEncoding,
    cores: Arc<Semaphore>,
) -> Result<u64, Failure> {
    let welcome = *connection.welcome();
    let (mut outbound, mut inbound) = connection.split();
    let mut voice = (Speaker::new(encryptor, &welcome, encoding), randomness::generator()?);
    let (mut open, mut sent_bytes) = (welcome.tick, 0);
    for index in 0..program::ticks(samples.len()) {
        let tick = welcome.tick + index as u32;
        while tick >= open.saturating_add(welcome.window) {
            open = next_closed(&mut inbound).await? + 1;
        }
        let (samples, permit) = (samples.clone(), cores.clone().acquire_owned().await?);
        let (packet, returned) = spawn_blocking(move || {
            let _permit = permit;
            let (mut speaker, mut rng) = voice;
            let frame = Zeroizing::new(program::frame(&samples, index));
            (speaker.packet(tick, frame.as_ref(), &mut rng), (speaker, rng))
        })
        .await?;
        voice = returned;
        let packet = packet?;
        sent_bytes += packet.len() as u64;
        send(&mut outbound, &mut inbound, packet).await?;
    }
    outbound.send(&ClientMessage::End {}).await?;
    while let Incoming::Closed { .. } = inbound.receive().await? {}
    Ok(sent_bytes)
}

/// The next tick that closed.
async fn next_closed(inbound: &mut Inbound) -> Result<u32, Failure> {
    match inbound.receive().await? {
        Incoming::Closed { tick } => Ok(tick),
        Incoming::Ended { .. } | Incoming::Sum(_) => {
            Err(Failure::Work("the server ended the room before every speaker had spoken".into()))
        }
    }
}

/// Sends a packet. If the server has closed the connection, the error is the server's reason.
async fn send(outbound: &mut Outbound, inbound: &mut Inbound, packet: Vec<u8>) -> Result<(), Failure> {
    let Err(broken) = outbound.send_packet(packet).await else { return Ok(()) };
    loop {
        match inbound.receive().await {
            Ok(Incoming::Closed { .. }) => {}
            Ok(_) => return Err(broken.into()),
            Err(reason) => return Err(reason.into()),
        }
    }
}

/// A tick on its way through the decryptor.
struct Decrypting {
    tick: u32,
    samples: JoinHandle<Result<Zeroizing<Vec<i32>>, DecryptError>>,
}

/// The listening half.
struct MixListener<D> {
    /// Number of ticks of each speaker.
    expected: BTreeMap<u16, u32>,
    decryptor: Arc<D>,
    halfway: Option<(Halfway, RoomName)>,
    /// Ticks that are being decrypted, in order.
    pending: VecDeque<Decrypting>,
    samples: Vec<i32>,
    received_bytes: u64,
}

impl<D: Decrypt> MixListener<D> {
    /// Listens until the room ends. Returns the samples, the number of ticks and the bytes
    /// received.
    async fn listen(mut self, connection: Connection, longest: usize) -> Result<(Vec<i32>, u32, u64), Failure> {
        let mut listener = Some(Listener::new(self.decryptor.clone(), connection.welcome()));
        let (mut outbound, mut inbound) = connection.split();
        let total = self.expected.values().copied().max().unwrap_or(0);
        let progress = Progress::new("mixed ticks", u64::from(total));
        loop {
            let sum = match inbound.receive().await? {
                Incoming::Sum(sum) => sum,
                Incoming::Closed { .. } => continue,
                Incoming::Ended { ticks } => break self.check_end(ticks, total)?,
            };
            self.received_bytes += sum.len() as u64;
            let Some(mut ear) = listener.take() else { break };
            let (ear, admitted) = spawn_blocking(move || {
                let admitted = ear.admit(&sum);
                (ear, admitted)
            })
            .await?;
            listener = Some(ear);
            let (header, ciphertexts) = admitted?;
            check_speakers(&self.expected, &header)?;
            self.decrypt_later(header.tick, ciphertexts);
            while self.pending.len() > tobari_host::threads::available() {
                self.finish_one(&mut outbound, &progress, total).await?;
            }
        }
        while !self.pending.is_empty() {
            self.finish_one(&mut outbound, &progress, total).await?;
        }
        self.samples.truncate(longest);
        Ok((self.samples, total, self.received_bytes))
    }

    fn check_end(&self, ticks: u32, total: u32) -> Result<(), Failure> {
        let heard = self.samples.len() / PACKET_SAMPLES + self.pending.len();
        if ticks == total && heard == total as usize {
            return Ok(());
        }
        Err(Failure::Work(format!("the room ended after {ticks} ticks, {heard} of them heard: expected {total}")))
    }

    fn decrypt_later(&mut self, tick: u32, ciphertexts: D::Payload) {
        let decryptor = self.decryptor.clone();
        let samples = spawn_blocking(move || decryptor.vartime_decrypt(&ciphertexts));
        self.pending.push_back(Decrypting { tick, samples });
    }

    /// Takes the oldest decrypted tick and acknowledges it to the server.
    async fn finish_one(&mut self, outbound: &mut Outbound, progress: &Progress, total: u32) -> Result<(), Failure> {
        let Some(Decrypting { tick, samples }) = self.pending.pop_front() else { return Ok(()) };
        let samples = samples.await?.map_err(|error| Failure::Work(format!("tick {tick}: {error}")))?;
        self.samples.extend_from_slice(&samples);
        if tick == total / 2
            && let Some((look, room)) = self.halfway.take()
        {
            spawn_blocking(move || look(&room)).await?;
        }
        progress.show(u64::from(tick) + 1);
        // at the end of the room the server may have hung up already
        if tick + 1 < total {
            outbound.send(&ClientMessage::Received { tick }).await?;
        }
        Ok(())
    }
}

/// The server must have added every speaker with a packet for this tick, and no other; `expected`
/// has each speaker's number of ticks.
pub(crate) fn check_speakers(expected: &BTreeMap<u16, u32>, header: &SumHeader) -> Result<(), Failure> {
    let speaking = expected.iter().filter(|(_, ticks)| header.tick < **ticks).map(|(member, _)| *member);
    if header.speakers.iter().eq(speaking) && header.late.is_empty() {
        return Ok(());
    }
    let found = header.speakers.len();
    Err(Failure::Work(format!(
        "tick {}: the server says that it added {found} speakers, not those who spoke",
        header.tick
    )))
}
