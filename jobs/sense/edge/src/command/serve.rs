//! What the job of sensors adds to `tobari serve`.

use crate::serve::{MqttBroker, PAGE, SenseOptions};
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tobari_command::job::{ServerJob, SharedOptions};
use tobari_command::output::Failure;
use tobari_command::reach::login;
use tobari_command::size::parse_bytes;
use tobari_node::{Offer, Page};

/// Devices' frames to serve.
#[derive(Args)]
#[command(next_help_heading = "Devices")]
pub struct ServeSenseArguments {
    /// Take devices' frames and compute key holders' questions; everything is kept in this folder.
    /// With --tokens, key holders need one.
    #[arg(long, value_name = "FOLDER")]
    sense: Option<PathBuf>,
    /// Let anybody have a fleet that ends, as the page at /sense/ makes them, without a token:
    /// eight at once, each of 16 MiB and half an hour at most.
    #[arg(long, requires = "sense")]
    sense_visitors: bool,
    /// Days that frames are kept. [default: for ever]
    #[arg(long, requires = "sense", value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..))]
    sense_days: Option<u32>,
    /// Take frames that devices publish at a broker, too (MQTT 5, topics tobari/FLEET/…), as
    /// mqtt://host:1883. The connection is not encrypted.
    #[arg(long, requires = "sense", value_name = "URL")]
    sense_mqtt: Option<MqttBroker>,
    /// A file with a user's name and a password for the broker, with a colon between.
    #[arg(long, requires = "sense_mqtt", value_name = "FILE")]
    sense_mqtt_login: Option<PathBuf>,
    /// Memory for a question, as in 2GiB and 1MiB at least: its values, the frames of its window,
    /// and pages of one store. Values that do not fit are kept in a file of the folder meanwhile,
    /// and frames are read again. Where an eighth of it does not hold the places of the frames, the
    /// question is refused. The store of each further fleet takes a 256th part of it beside it,
    /// 256KiB at least. [default: as much as it takes]
    #[arg(long, requires = "sense", value_parser = parse_memory, value_name = "BYTES")]
    sense_memory: Option<u64>,
    /// Bytes of a batch of frames at most. [default: 4MiB]
    #[arg(long, requires = "sense", value_parser = parse_bytes, value_name = "BYTES")]
    sense_batch: Option<u64>,
}

impl ServeSenseArguments {
    fn options(&self, shared: &SharedOptions) -> Result<Option<SenseOptions>, Failure> {
        let Some(folder) = self.sense.clone() else { return Ok(None) };
        let mut options = SenseOptions::new(folder);
        (options.tokens, options.open) = (shared.tokens.clone(), shared.open);
        options.keep = self.sense_days.map(|days| Duration::from_secs(86_400 * u64::from(days)));
        options.batch_bytes = self.sense_batch.map_or(options.batch_bytes, |bytes| bytes as usize);
        (options.memory, options.visitors) = (self.sense_memory, self.sense_visitors);
        options.mqtt.clone_from(&self.sense_mqtt);
        if let (Some(broker), Some(path)) = (&mut options.mqtt, &self.sense_mqtt_login) {
            broker.login = Some(login(path)?);
        }
        Ok(Some(options))
    }
}

impl ServerJob for ServeSenseArguments {
    const PAGE: Option<Page> = Some(PAGE);

    fn is_wanted(&self) -> bool {
        self.sense.is_some()
    }

    fn make_up(&mut self, folder: &Path) -> Result<(), Failure> {
        if self.sense.is_none() {
            (self.sense, self.sense_visitors) = (Some(folder.join("sense")), true);
        }
        Ok(())
    }

    fn offer(&self, shared: &SharedOptions) -> Result<Option<Box<dyn Offer>>, Failure> {
        Ok(self.options(shared)?.map(|options| Box::new(options) as Box<dyn Offer>))
    }
}

/// A limit of memory for a question: a smaller one leaves nothing beside frames and pages.
fn parse_memory(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text)?;
    let less = || format!("expected 1MiB at least, found {bytes} bytes");
    (bytes >= 1 << 20).then_some(bytes).ok_or_else(less)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_15_a_limit_of_memory_that_leaves_nothing_for_a_question_is_refused() {
        assert_eq!(parse_memory("1MiB"), Ok(1 << 20));
        assert_eq!(parse_memory("2GiB"), Ok(2 << 30));
        for text in ["1", "64KiB", "1023.9KiB", "0.99MiB"] {
            assert!(parse_memory(text).is_err_and(|told| told.contains("expected 1MiB at least")), "{text}");
        }
    }
}
