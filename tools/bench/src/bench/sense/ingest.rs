//! The rate at which a server process on this machine accepts frames. The server answers each batch
//! after it is on the disk.

use super::SenseBench;
use super::designs::{Design, Role};
use super::{Params, line};
use crate::bench::line::{Line, summary};
use crate::bench::show;
use crate::bench::table::{Table, number};
use crate::program::Tobari;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tobari_client::{ClientTls, HttpClient, HttpConnection, HttpRequest};
use tobari_command::blind_server::BlindProcess;
use tobari_command::output::Failure;
use tobari_command::randomness;
use tobari_command::reach::Reach;
use tobari_device::{Device, InsecureVolatileCounter, Profile, READINGS, Stamp};
use tobari_sense::holder::Holder;
use tobari_sense::registry::Secret;
use tobari_sense::schema::{ProfileName, Schema};
use tobari_sense::with_profile;
use tobari_sense_edge::command::{CloudConnection, KeyFolder, publish};
use tobari_sense_edge::serve::MqttBroker;

/// Devices that send.
const DEVICES: usize = 500;
/// The target in frames a second.
const TARGET: f64 = 20_000.0;
/// The interval and the timeout of questions about the stored frames.
const LOOK: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(120);

/// Measures both profiles, over HTTP and over a broker if there is one.
pub(super) fn measure(arguments: &SenseBench, tobari: &Tobari) -> Result<Vec<Line<Params>>, Failure> {
    let mut table = Table::new(
        format!("Frames taken durably: {} in batches of {}, {DEVICES} devices", arguments.frames, arguments.batch),
        &["way", "design", "connections", "frames/s", "min", "max", "MB/s", "target", "verdict"],
    );
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (mut lines, batch) = (Vec::new(), arguments.batch as usize);
    for broker in std::iter::once(None).chain(arguments.mqtt.iter().map(Some)) {
        let way = if broker.is_some() { "mqtt" } else { "http" };
        for (design, profile) in [(Design::Sums, ProfileName::U25), (Design::Exact, ProfileName::P1)] {
            let mut rates = Vec::new();
            for _ in 0..arguments.ingest_runs {
                let ready = Ready::of(arguments, profile)?;
                rates.push(match broker {
                    None => runtime.block_on(over_http(tobari, ready, batch))?,
                    Some(broker) => runtime.block_on(over_mqtt(tobari, ready, batch, broker))?,
                });
            }
            let (median, min, max) = summary(rates);
            // the target is for HTTP only
            let goal = broker.is_none().then_some(TARGET);
            let verdict = goal.map_or("", |goal| if max >= goal { "pass" } else { "FAIL" });
            let megabytes = median * profile.frame_bytes() as f64 / 1e6;
            table.push(vec![
                way.to_owned(),
                design.name().to_owned(),
                arguments.connections.to_string(),
                number(Some(median), 0),
                number(Some(min), 0),
                number(Some(max), 0),
                number(Some(megabytes), 1),
                number(goal, 0),
                verdict.to_owned(),
            ]);
            let mut line = line("ingest", design, Role::Cloud, "frames/s", [median, min, max], arguments.ingest_runs);
            line.params.batch = Some(arguments.batch);
            line.params.connections = Some(arguments.connections);
            // server and senders share all cores
            line.threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u32);
            line.labels = vec!["durable".to_owned(), way.to_owned()];
            lines.push(line);
        }
    }
    show(&table, arguments.json);
    Ok(lines)
}

/// A fleet whose frames are sealed.
struct Ready {
    folder: KeyFolder,
    /// Sealed frames, by connection.
    sealed: Vec<Vec<u8>>,
    frame_bytes: usize,
    place: TempDir,
}

impl Ready {
    fn new<P: Profile>(arguments: &SenseBench, profile: ProfileName) -> Result<Self, Failure> {
        let place = tempfile::tempdir()?;
        let schema: Schema = serde_json::from_str(&format!(r#"{{"profile":"{profile}","channel":[{{"name":"x"}}]}}"#))?;
        let holder = Holder::generate(profile, &mut randomness::generator()?);
        let folder = KeyFolder::create(&place.path().join("holder"), holder, schema)?;
        folder.change(|registry| {
            let mut rng = randomness::generator()?;
            (0..DEVICES)
                .try_for_each(|i| Ok(registry.add(&format!("d{i}"), "", None, Secret::random(&mut rng)).map(|_| ())?))
        })?;
        let registry = folder.registry()?;
        let mut sealed = vec![Vec::new(); arguments.connections as usize];
        let connections = sealed.len();
        let mut devices: Vec<_> = registry
            .entries()
            .iter()
            .map(|entry| Device::<P, _>::open(&entry.root(), entry.number, InsecureVolatileCounter(0)))
            .collect::<Result<_, _>>()?;
        for _ in 0..(arguments.frames as usize).div_ceil(DEVICES) {
            for (i, device) in devices.iter_mut().enumerate() {
                let mut frame = P::EMPTY;
                device.seal_at(Stamp::default().into(), &[i as u8; READINGS], &mut frame)?;
                // a device always uses the same connection
                sealed[i % connections].extend_from_slice(frame.as_ref());
            }
        }
        Ok(Self { folder, sealed, frame_bytes: P::FRAME, place })
    }

    fn of(arguments: &SenseBench, profile: ProfileName) -> Result<Self, Failure> {
        with_profile!(profile, P => Self::new::<P>(arguments, profile))
    }

    fn frames(&self) -> u64 {
        self.sealed.iter().map(|frames| (frames.len() / self.frame_bytes) as u64).sum()
    }

    /// A server that knows the fleet.
    async fn server(&self, tobari: &Tobari, more: &[&str]) -> Result<BlindProcess, Failure> {
        let data = self.place.path().join("server").display().to_string();
        let server = tobari.serve([&["--sense", &data][..], more].concat())?;
        let setting = self.folder.holder.setting()?;
        let secret = self.folder.holder.secret(&setting);
        let mut cloud = CloudConnection::reach(server.url(), &reach(), &self.folder.card.fleet)?;
        publish(&self.folder, &setting, &secret, &self.folder.registry()?, &mut cloud, false).await?;
        Ok(server)
    }
}

fn reach() -> Reach {
    Reach { tls: ClientTls::System, token: None }
}

/// The rate over HTTP in frames a second, for frames that were sealed before.
async fn over_http(tobari: &Tobari, ready: Ready, batch: usize) -> Result<f64, Failure> {
    let server = ready.server(tobari, &[]).await?;
    let (all, each, mut tasks) = (ready.frames(), ready.frame_bytes, Vec::new());
    let started = Instant::now();
    for frames in ready.sealed {
        let (url, fleet, reach) = (server.url().to_owned(), ready.folder.card.fleet.clone(), reach());
        tasks.push(tokio::spawn(async move {
            let mut connection = CloudConnection::reach(&url, &reach, &fleet)?;
            let mut taken = 0;
            for batch in frames.chunks(batch * each) {
                taken += connection.send_frames(batch.to_vec()).await?.taken;
            }
            Ok::<u64, Failure>(taken)
        }));
    }
    let mut taken = 0;
    for task in tasks {
        taken += task.await??;
    }
    let seconds = started.elapsed().as_secs_f64();
    if taken != all {
        return Err(Failure::Work(format!(
            "expected a server that takes all {all} frames, found one that took {taken}"
        )));
    }
    Ok(all as f64 / seconds)
}

/// The same over a broker, until the server has all frames on its disk.
async fn over_mqtt(tobari: &Tobari, ready: Ready, batch: usize, broker: &MqttBroker) -> Result<f64, Failure> {
    let url = format!("mqtt://{}:{}", broker.host, broker.port);
    let server = ready.server(tobari, &["--sense-mqtt", &url]).await?;
    let (all, each) = (ready.frames(), ready.frame_bytes);
    let topic = format!("tobari/{}/bench", ready.folder.card.fleet);
    let mut metrics = HttpClient::new(server.url(), &ClientTls::System)?.connection();
    // messages before the server's subscription are lost; a repeated message does no harm
    let first = ready.sealed.first().map(|frames| frames[..each].to_vec()).unwrap_or_default();
    let began = Instant::now();
    while stored(&mut metrics).await? == 0 {
        if began.elapsed() > PATIENCE {
            return Err(Failure::Work("expected a server that takes frames from the broker, found none".to_owned()));
        }
        tobari_sense_edge::serve::publish(broker, &topic, vec![first.clone()]).await?;
        tokio::time::sleep(LOOK * 10).await;
    }
    let (started, mut tasks) = (Instant::now(), Vec::new());
    for frames in ready.sealed {
        let (broker, topic) = (broker.clone(), topic.clone());
        let messages: Vec<Vec<u8>> = frames.chunks(batch * each).map(<[u8]>::to_vec).collect();
        tasks.push(tokio::spawn(async move { tobari_sense_edge::serve::publish(&broker, &topic, messages).await }));
    }
    for task in tasks {
        task.await??;
    }
    while stored(&mut metrics).await? < all {
        if started.elapsed() > PATIENCE {
            return Err(Failure::Work(format!(
                "expected a server that takes all {all} frames, found one that did not"
            )));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(all as f64 / started.elapsed().as_secs_f64())
}

/// The number of stored frames, by the server's counters.
async fn stored(metrics: &mut HttpConnection) -> Result<u64, Failure> {
    let (path, headers, most) = ("/sense/v1/metrics".to_owned(), Vec::new(), 1 << 20);
    let reply = metrics.send(HttpRequest { body: None, path, headers, most, patience: PATIENCE }).await?;
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("tobari_sense_frames_stored "));
    let stored = line.and_then(|stored| stored.parse().ok());
    stored.ok_or_else(|| Failure::Work("expected how many frames are stored, found none".to_owned()))
}
