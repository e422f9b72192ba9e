//! How many frames a server process of this machine takes, each batch answered when it is on the disk.

use super::designs::{Design, Role};
use super::{Params, line};
use crate::args::SenseBench;
use crate::blind_server::BlindProcess;
use crate::cmd::bench::line::{Line, summary};
use crate::cmd::bench::show;
use crate::cmd::bench::table::{Table, number};
use crate::cmd::infer::Reach;
use crate::cmd::sense::{CloudConnection, KeyFolder, publish};
use crate::output::Failure;
use crate::randomness;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;
use tobari_apps::sense::holder::Holder;
use tobari_apps::sense::registry::Secret;
use tobari_apps::sense::schema::{ProfileName, Schema};
use tobari_device::{CounterStore, Device, P1, Profile, READINGS, U25};
use tobari_server::connect::ClientTls;

/// Devices that send.
const DEVICES: usize = 500;
/// Frames a second that there should be.
const TARGET: f64 = 20_000.0;

struct Flash(u32);

impl CounterStore for Flash {
    type Error = Infallible;

    fn load(&mut self) -> Result<u32, Infallible> {
        Ok(self.0)
    }

    fn store(&mut self, next: u32) -> Result<(), Infallible> {
        self.0 = next;
        Ok(())
    }
}

/// Both profiles.
pub(super) fn measure(arguments: &SenseBench) -> Result<Vec<Line<Params>>, Failure> {
    let mut table = Table::new(
        format!("Frames over HTTP, durable: {} in batches of {}, {DEVICES} devices", arguments.frames, arguments.batch),
        &["design", "connections", "frames/s", "min", "max", "MB/s", "target", "verdict"],
    );
    let mut lines = Vec::new();
    for (design, profile) in [(Design::Sums, ProfileName::U25), (Design::Exact, ProfileName::P1)] {
        let mut rates = Vec::new();
        for _ in 0..arguments.ingest_runs {
            rates.push(match profile {
                ProfileName::U25 => taken::<U25>(arguments, profile)?,
                ProfileName::P1 => taken::<P1>(arguments, profile)?,
            });
        }
        let (median, min, max) = summary(rates);
        let verdict = if max >= TARGET { "pass" } else { "FAIL" };
        let megabytes = median * profile.frame_bytes() as f64 / 1e6;
        table.push(vec![
            design.name().to_owned(),
            arguments.connections.to_string(),
            number(Some(median), 0),
            number(Some(min), 0),
            number(Some(max), 0),
            number(Some(megabytes), 1),
            number(Some(TARGET), 0),
            verdict.to_owned(),
        ]);
        let mut line = line("ingest", design, Role::Cloud, "frames/s", [median, min, max], arguments.ingest_runs);
        line.params.batch = Some(arguments.batch);
        line.params.connections = Some(arguments.connections);
        line.labels = vec!["durable".to_owned(), "http".to_owned()];
        lines.push(line);
    }
    show(&table, arguments.json);
    Ok(lines)
}

/// Frames a second, of frames that were sealed before.
fn taken<P: Profile>(arguments: &SenseBench, profile: ProfileName) -> Result<f64, Failure> {
    let place = tempfile::tempdir()?;
    let data = place.path().join("server").display().to_string();
    let schema: Schema = serde_json::from_str(&format!(r#"{{"profile":"{profile}","channel":[{{"name":"x"}}]}}"#))?;
    let holder = Holder::generate(profile, &mut randomness::generator()?);
    let folder = KeyFolder::create(&place.path().join("holder"), holder, schema)?;
    folder.change(|registry| {
        let mut rng = randomness::generator()?;
        (0..DEVICES)
            .try_for_each(|i| Ok(registry.add(&format!("d{i}"), "", None, Secret::random(&mut rng)).map(|_| ())?))
    })?;
    let registry = folder.registry()?;
    let per_device = (arguments.frames as usize).div_ceil(DEVICES);
    let mut sealed = vec![Vec::new(); arguments.connections as usize];
    let connections = sealed.len();
    let mut devices: Vec<_> = registry
        .entries()
        .iter()
        .map(|entry| Device::<P, _>::open(&entry.root(), entry.number, Flash(0)))
        .collect::<Result<_, _>>()?;
    for _ in 0..per_device {
        for (i, device) in devices.iter_mut().enumerate() {
            let mut frame = P::EMPTY;
            device.seal(&[i as u8; READINGS], &mut frame)?;
            // a device keeps to its connection
            sealed[i % connections].extend_from_slice(frame.as_ref());
        }
    }
    let server = BlindProcess::start_with(["--sense", &data])?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let setting = folder.holder.setting()?;
    let secret = folder.holder.secret(&setting);
    runtime.block_on(async {
        let fleet = folder.card.fleet.clone();
        let reach = || Reach { tls: ClientTls::System, token: None };
        let mut cloud = CloudConnection::reach(server.url(), &reach(), &fleet)?;
        publish(&folder, &setting, &secret, &registry, &mut cloud, false).await?;
        let (batch, mut tasks) = (arguments.batch as usize * P::FRAME, Vec::new());
        let all: usize = sealed.iter().map(|frames| frames.len() / P::FRAME).sum();
        let started = Instant::now();
        for frames in sealed {
            let (frames, url, fleet) = (Arc::new(frames), server.url().to_owned(), fleet.clone());
            let reach = reach();
            tasks.push(tokio::spawn(async move {
                let mut connection = CloudConnection::reach(&url, &reach, &fleet)?;
                let mut taken = 0;
                for batch in frames.chunks(batch) {
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
        if taken != all as u64 {
            return Err(Failure::Work(format!(
                "expected a server that takes all {all} frames, found one that took {taken}"
            )));
        }
        Ok(all as f64 / seconds)
    })
}
