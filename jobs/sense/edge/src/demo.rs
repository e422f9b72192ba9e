//! Devices in the demonstration: each encrypts its readings, a server process without keys sums
//! them, and the key holder decrypts the sums. The figures are compared with the plaintext ones.

use crate::command::{CloudConnection, KeyFolder, WindowAnswer, publish};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tobari_client::ClientTls;
use tobari_command::blind_server::BlindProcess;
use tobari_command::demo::Line;
use tobari_command::output::Failure;
use tobari_command::randomness;
use tobari_command::reach::Reach;
use tobari_device::{Device, InsecureVolatileCounter, Profile, U25};
use tobari_sense::desk::ResultOpener;
use tobari_sense::holder::Holder;
use tobari_sense::question::Question;
use tobari_sense::registry::Secret;
use tobari_sense::release::Figure;
use tobari_sense::schema::Schema;

const DEVICES: usize = 100;
const SAMPLES: usize = 32;
const WINDOW_MS: u64 = 1000;
/// Degrees from -40 in half degrees, a threshold of 30, and the readings' squares.
const SCHEMA: &str = r#"{"profile":"u25","samples":32,"channel":[{"name":"temperature","least":-40,"step":0.5,"square":true,"edges":[0,20],"above":[30]}]}"#;
const QUESTION: &str = r#"{"name":"demo","window":{"length":"1s"},"statistic":[{"kind":"mean","channel":"temperature"},{"kind":"variance","channel":"temperature"},
    {"kind":"histogram","channel":"temperature"},{"kind":"alarm","channel":"temperature","threshold":30,"at-least":50}]}"#;

/// Half degrees above -40: the course of a day, an offset for each place, and some variation.
fn reading(device: usize, sample: usize) -> u32 {
    let hour = sample as f64 * 24.0 / SAMPLES as f64;
    let course = 8.0 * ((hour - 9.0) / 24.0 * std::f64::consts::TAU).sin();
    let own = (device * 37 % 29) as f64 - 4.0 + (device * 11 + sample * 5) as f64 % 3.0;
    (2.0 * (own + course + 40.0)) as u32
}

/// The figures computed from plaintext readings.
fn expected(rows: &[Vec<u32>]) -> [Figure; 4] {
    let bytes: Vec<i128> = rows.iter().flatten().map(|byte| i128::from(*byte)).collect();
    let (n, sum) = (bytes.len() as i128, bytes.iter().sum::<i128>());
    let variance = n * bytes.iter().map(|byte| byte * byte).sum::<i128>() - sum * sum;
    let number = |statistic: &str, value: f64, exact: String| Figure::Number {
        statistic: statistic.to_owned(),
        channel: "temperature".to_owned(),
        value: Some(value),
        exact,
    };
    let within = |least: i128, most: i128| bytes.iter().filter(|byte| (least..most).contains(*byte)).count() as i64;
    let (name, above) = ("temperature".to_owned(), within(141, 256));
    [
        number("mean", -40.0 + 0.5 * (sum as f64 / n as f64), format!("{sum}/{n}")),
        number("variance", 0.25 * (variance as f64 / (n * n) as f64), format!("{variance}/{}", n * n)),
        Figure::Histogram {
            channel: name.clone(),
            edges: vec![0.0, 20.0],
            counts: vec![within(0, 80), within(80, 120), within(120, 256)],
        },
        Figure::Above { channel: name, threshold: 30.0, count: above, alarm: Some(above >= 50) },
    ]
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

/// Waits for the beginning of the next window.
async fn next_window() -> u64 {
    let left = WINDOW_MS - now_ms() % WINDOW_MS;
    tokio::time::sleep(Duration::from_millis(left + 20)).await;
    now_ms() / WINDOW_MS * WINDOW_MS
}

/// A hundred devices, each with readings of a day.
pub fn demo() -> Result<Line, Failure> {
    let place = tempfile::tempdir()?;
    let (home, data) = (place.path().join("holder"), place.path().join("server").display().to_string());
    let schema: Schema = serde_json::from_str(SCHEMA)?;
    let folder =
        KeyFolder::create(&home, Holder::generate(schema.profile, &mut randomness::generator()?), schema.clone())?;
    folder.change(|registry| {
        let mut rng = randomness::generator()?;
        for device in 0..DEVICES {
            registry.add(&format!("sensor-{device}"), "", None, Secret::random(&mut rng))?;
        }
        Ok(())
    })?;
    let (setting, registry) = (folder.holder.setting()?, folder.registry()?);
    let secret = folder.holder.secret(&setting);
    let names = folder.holder.question_names();
    let mut all = serde_json::from_str::<Question>(QUESTION)?.register(&schema, &setting, &registry, &names)?;
    let registered = all.pop().ok_or_else(|| Failure::Work("expected a registered question, found none".to_owned()))?;
    let mut desk = ResultOpener::new(setting.clone(), schema.clone(), folder.holder.secret(&setting));
    desk.register(registered.clone())?;
    let server = BlindProcess::start_with(["--sense", &data])?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (released, seconds, sent, rows) = runtime.block_on(async {
        let reach = Reach { tls: ClientTls::System, token: None };
        let mut cloud = CloudConnection::reach(server.url(), &reach, &folder.card.fleet)?;
        publish(&folder, &setting, &secret, &registry, &mut cloud, false).await?;
        let id = registered.id();
        cloud.give_order(&id, serde_json::to_vec(&registered.order)?).await?;
        let start = next_window().await;
        let (began, mut frames, mut rows) = (Instant::now(), Vec::new(), Vec::new());
        for (device, entry) in registry.entries().iter().enumerate() {
            let own: Vec<Vec<u32>> = (0..SAMPLES).map(|sample| vec![reading(device, sample)]).collect();
            let (sealed, mut frame) = (schema.frames(&own)?, U25::EMPTY);
            Device::<U25, _>::open(&entry.root(), entry.number, InsecureVolatileCounter(0))?
                .seal(&sealed[0], &mut frame)?;
            frames.extend_from_slice(&frame);
            rows.extend(own);
        }
        let counts = cloud.send_frames(frames).await?;
        let sealed = began.elapsed();
        next_window().await;
        let began = Instant::now();
        let WindowAnswer::Results(results) = cloud.answer(&id, start).await? else {
            return Err(Failure::Work("expected frames of enough devices in the window, found too few".to_owned()));
        };
        let released = desk.open(&id, start, &results, &registry);
        let seconds = (sealed + began.elapsed()).as_secs_f64();
        let all = (counts.taken == DEVICES as u64).then_some(released);
        Ok::<_, Failure>((all.and_then(Result::ok), seconds, cloud.sent_bytes(), rows))
    })?;
    let figures =
        released.map(|release| release.groups.into_iter().flat_map(|group| group.figures).collect::<Vec<_>>());
    let right = figures.as_deref() == Some(&expected(&rows)[..]);
    Ok(Line {
        job: "sense",
        mode: "100 sensors",
        right,
        exact: right,
        seconds,
        server_saw_bytes: sent,
        paper_seconds: f64::NAN,
        what: format!(
            "{} readings in {DEVICES} frames of {} bytes by process {}; mean, variance, histogram and alarm equal the plain ones",
            rows.len(),
            U25::FRAME,
            server.pid()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readings_are_in_every_bin_and_are_an_alarm() {
        let rows: Vec<Vec<u32>> =
            (0..DEVICES).flat_map(|device| (0..SAMPLES).map(move |sample| vec![reading(device, sample)])).collect();
        let [_, _, Figure::Histogram { counts, .. }, Figure::Above { alarm, .. }] = expected(&rows) else {
            panic!("figures")
        };
        assert!(
            counts.iter().all(|count| *count > 0) && counts.iter().sum::<i64>() == 3200 && alarm == Some(true),
            "{counts:?}"
        );
    }
}
