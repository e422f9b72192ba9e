//! `tobari sense encrypt`: a device encrypts its readings.

use super::arguments::EncryptArguments;
use super::folder::{self, counter_of, wrong};
use super::remote::CloudConnection;
use crate::serve::MqttBroker;
use serde_json::json;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use tobari_command::output::{self, Failure};
use tobari_command::reach::login;
use tobari_device::{Device, P1, Profile, READINGS, U25};
use tobari_host::files::write_atomically;
use tobari_sense::ProfileName;
use tobari_sense::ingest::IngestCounts;
use tobari_sense::registry::Token;
use tobari_sense::schema::Schema;
use tobari_sense_files::CounterFile;

/// Largest length of a line of readings in bytes.
const MAX_LINE: u64 = 1 << 14;
/// Messages published over one connection.
const MESSAGES: usize = 256;

/// Encrypts readings.
pub(super) fn run(arguments: &EncryptArguments) -> Result<(), Failure> {
    let card = folder::card(&arguments.fleet)?;
    let token = folder::read_device(&arguments.device)?;
    if tobari_sense::enrol::hex(&token.fleet) != card.fleet || token.profile != card.schema.profile {
        return Err(wrong(
            &arguments.device,
            "the device belongs to another fleet than the card (--fleet): use the card of its own fleet",
        ));
    }
    match token.profile {
        ProfileName::P1 => sealed::<P1>(arguments, &card.schema, &token),
        ProfileName::U25 => sealed::<U25>(arguments, &card.schema, &token),
    }
}

fn sealed<P: Profile>(arguments: &EncryptArguments, schema: &Schema, token: &Token) -> Result<(), Failure> {
    let counter = CounterFile::open(&counter_of(&arguments.device))?;
    let mut device =
        Device::<P, _>::open(&token.root(), token.number, counter).map_err(|error| wrong(&arguments.device, error))?;
    let fleet = tobari_sense::enrol::hex(&token.fleet);
    let connection = match &arguments.reach.server {
        Some(url) => Some(CloudConnection::reach(url, &arguments.reach.reach()?, &fleet)?),
        None => None,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut broker = arguments.mqtt.clone().map(|broker| (broker, format!("tobari/{fleet}/{}", token.number.value())));
    if let (Some((broker, _)), Some(path)) = (&mut broker, &arguments.mqtt_login) {
        broker.login = Some(login(path)?);
    }
    let mut sink = Sink {
        runtime,
        connection,
        broker,
        arguments,
        messages: Vec::new(),
        waiting: Vec::new(),
        written: Vec::new(),
        counts: IngestCounts::default(),
    };
    let (mut samples, mut frames) = (0u64, 0u64);
    let mut seal = |rows: &[Vec<u8>]| -> Result<(), Failure> {
        let (readings, mut frame): ([u8; READINGS], _) = (schema.frame(rows)?, P::EMPTY);
        device.seal(&readings, &mut frame).map_err(|error| wrong(&arguments.device, error))?;
        (samples, frames) = (samples + rows.len() as u64, frames + 1);
        sink.take(frame.as_ref(), P::FRAME)
    };
    let mut rows = Vec::with_capacity(schema.samples);
    read(&arguments.readings, schema, |row| {
        rows.push(row);
        if rows.len() == schema.samples {
            seal(&rows)?;
            rows.clear();
        }
        Ok(())
    })?;
    if !rows.is_empty() {
        seal(&rows)?;
    }
    let counts = sink.finish()?;
    if arguments.json {
        let mut line = json!({ "samples": samples, "frames": frames, "frame_bytes": P::FRAME });
        if arguments.reach.server.is_some() {
            line["server"] = json!(counts);
        }
        return output::json(&line);
    }
    let server =
        arguments.reach.server.is_some().then(|| format!("; the server took {}", counts.taken + counts.duplicate));
    output::say(format!("{samples} samples in {frames} frames of {} bytes{}", P::FRAME, server.unwrap_or_default()));
    Ok(())
}

/// The destinations of frames.
struct Sink<'a> {
    runtime: tokio::runtime::Runtime,
    connection: Option<CloudConnection>,
    arguments: &'a EncryptArguments,
    /// A broker, and the topic to publish under.
    broker: Option<(MqttBroker, String)>,
    /// Messages to publish.
    messages: Vec<Vec<u8>>,
    /// Frames to send.
    waiting: Vec<u8>,
    /// Frames to write.
    written: Vec<u8>,
    counts: IngestCounts,
}

impl Sink<'_> {
    fn take(&mut self, frame: &[u8], length: usize) -> Result<(), Failure> {
        if self.arguments.output.is_some() {
            self.written.extend_from_slice(frame);
        }
        if self.connection.is_some() || self.broker.is_some() {
            self.waiting.extend_from_slice(frame);
            if self.waiting.len() >= self.arguments.batch as usize * length {
                self.send()?;
            }
        }
        Ok(())
    }

    /// Sends the waiting frames. After an error the server may or may not have them. Encrypted
    /// frames stay valid, so sending them again is harmless.
    fn send(&mut self) -> Result<(), Failure> {
        let frames = std::mem::take(&mut self.waiting);
        if self.broker.is_some() && !frames.is_empty() {
            self.messages.push(frames);
            return if self.messages.len() < MESSAGES { Ok(()) } else { self.publish() };
        }
        if let Some(connection) = self.connection.as_mut().filter(|_| !frames.is_empty()) {
            self.counts.add(&self.runtime.block_on(connection.send_frames(frames))?);
        }
        Ok(())
    }

    /// Publishes the waiting messages.
    fn publish(&mut self) -> Result<(), Failure> {
        let messages = std::mem::take(&mut self.messages);
        if let Some((broker, topic)) = self.broker.as_ref().filter(|_| !messages.is_empty()) {
            self.runtime.block_on(crate::serve::publish(broker, topic, messages))?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<IngestCounts, Failure> {
        self.send()?;
        self.publish()?;
        match self.arguments.output.as_deref() {
            Some(path) if path == Path::new("-") => {
                let mut out = std::io::stdout().lock();
                out.write_all(&self.written)?;
                out.flush()?;
            }
            Some(path) => write_atomically(path, &self.written)?,
            None => {}
        }
        let IngestCounts { taken, duplicate, .. } = self.counts;
        let all: u64 = self.counts.named().iter().map(|(_, count)| count).sum();
        if taken + duplicate == all {
            return Ok(self.counts);
        }
        let refused: Vec<String> = self.counts.named()[2..]
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(what, count)| format!("{count} as {what}"))
            .collect();
        Err(Failure::Work(format!(
            "expected a server that takes all {all} frames, found one that refused {}",
            refused.join(", ")
        )))
    }
}

fn read(path: &Path, schema: &Schema, take: impl FnMut(Vec<u8>) -> Result<(), Failure>) -> Result<(), Failure> {
    if path == Path::new("-") {
        return rows(std::io::stdin().lock(), path, schema, take);
    }
    rows(BufReader::new(File::open(path).map_err(|error| wrong(path, error))?), path, schema, take)
}

/// Reads rows of readings, as bytes. An error names the line and the problem, but no reading.
fn rows(
    mut input: impl BufRead,
    path: &Path,
    schema: &Schema,
    mut take: impl FnMut(Vec<u8>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut order: Vec<usize> = (0..schema.channels.len()).collect();
    let mut line = String::new();
    for number in 1u64.. {
        line.clear();
        let count = (&mut input).take(MAX_LINE).read_line(&mut line).map_err(|error| wrong(path, error))?;
        if count == 0 {
            return Ok(());
        }
        let at = |what: String| wrong(path, format!("line {number}: {what}"));
        if count as u64 == MAX_LINE {
            return Err(at(format!("expected fewer than {MAX_LINE} bytes, found more")));
        }
        let text = line.trim();
        if text.is_empty() {
            continue;
        }
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        if words.len() != order.len() {
            return Err(at(format!("expected {} numbers with commas between, found {}", order.len(), words.len())));
        }
        let names: Vec<Option<usize>> = words.iter().map(|word| schema.channel(word)).collect();
        if number == 1 && names.iter().any(Option::is_some) {
            let found: Option<Vec<usize>> = names.into_iter().collect();
            let mut sorted = found.clone().unwrap_or_default();
            sorted.sort_unstable();
            if !sorted.into_iter().eq(0..order.len()) {
                return Err(at("the first line must have each channel's name once".to_owned()));
            }
            order = found.unwrap_or_default();
            continue;
        }
        let mut readings = vec![0.0; order.len()];
        for (word, channel) in words.iter().zip(&order) {
            readings[*channel] = word.parse::<f64>().map_err(|_| at("a reading is no number".to_owned()))?;
        }
        take(schema.bytes(&readings).map_err(|error| at(error.to_string()))?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of a text, or the error.
    fn told(text: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let schema: Schema =
            toml::from_str("profile = \"u25\"\n[[channel]]\nname = \"a\"\n[[channel]]\nname = \"b\"\n").unwrap();
        let mut all = Vec::new();
        let take = |row| {
            all.push(row);
            Ok(())
        };
        rows(text, Path::new("t"), &schema, take).map_err(|failure| failure.to_string())?;
        Ok(all)
    }

    #[test]
    fn any_bytes_are_rows_of_all_channels_or_a_line_that_is_named_and_not_quoted() {
        let good = b"b, a\r\n77,7\n\n 78, 8 \n79,9";
        assert_eq!(told(good).unwrap(), [[7, 77], [8, 78], [9, 79]]);
        for place in 0..good.len() {
            for change in *b"\n\r, ba7e-.+\0\xff" {
                let mut changed = good.to_vec();
                changed[place] = change;
                for text in [&changed[..], &changed[..place]] {
                    match told(text) {
                        Ok(rows) => assert!(rows.len() <= 4 && rows.iter().all(|row| row.len() == 2)),
                        Err(said) => assert!(said.starts_with("t: ") && !said.contains("77"), "{said}"),
                    }
                }
            }
        }
        assert!(told(&[b'7'; 1 << 15]).unwrap_err().contains("line 1: expected fewer than"));
        for wrong in ["1,nan", "1,inf", "1,1e999", "1,256", "-1,1", "1,2,3", "a,a", "a,c"] {
            assert!(told(wrong.as_bytes()).unwrap_err().contains("line 1"), "{wrong}");
        }
    }
}
