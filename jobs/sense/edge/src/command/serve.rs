//! The options that sensors add to `tobari serve`.

use super::sending::{PASSWORD, identity};
use crate::serve::{MqttBroker, MqttVersion, PAGE, SenseOptions};
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tobari_client::ClientTls;
use tobari_command::job::{ServerJob, SharedOptions};
use tobari_command::output::{self, Failure};
use tobari_command::reach::login;
use tobari_command::size::parse_bytes;
use tobari_node::{Offer, Page};

/// Devices' frames to serve.
#[derive(Args)]
#[command(next_help_heading = "Devices")]
pub struct ServeSenseArguments {
    /// Accept frames of devices and answer key holders' questions. The server keeps both in this
    /// folder. With --tokens, key holders need a token.
    #[arg(long, value_name = "FOLDER")]
    sense: Option<PathBuf>,
    /// Let visitors of the page /sense/ make temporary fleets without a token: at most eight, each
    /// with at most 16 MiB for half an hour.
    #[arg(long, requires = "sense")]
    sense_visitors: bool,
    /// Delete frames after this many days. [default: never]
    #[arg(long, requires = "sense", value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..))]
    sense_days: Option<u32>,
    /// Also accept frames from this MQTT broker (topics tobari/FLEET/…), such as
    /// mqtts://host:8883. A connection of mqtt://host:1883 is not encrypted; the frames are.
    #[arg(long, requires = "sense", value_name = "URL")]
    sense_mqtt: Option<MqttBroker>,
    /// Use this version of MQTT, 5 or 3.1.1. [default: 5]
    #[arg(long, requires = "sense_mqtt", value_name = "VERSION")]
    sense_mqtt_version: Option<MqttVersion>,
    /// Trust only a broker whose certificate is signed by an authority in this PEM file. [default:
    /// the authorities of this system]
    #[arg(long, requires = "sense_mqtt", value_name = "FILE")]
    sense_mqtt_ca: Option<PathBuf>,
    /// Show the broker this certificate (PEM).
    #[arg(long, requires_all = ["sense_mqtt", "sense_mqtt_key"], value_name = "FILE")]
    sense_mqtt_cert: Option<PathBuf>,
    /// The private key of that certificate (PEM).
    #[arg(long, requires = "sense_mqtt_cert", value_name = "FILE")]
    sense_mqtt_key: Option<PathBuf>,
    /// Log in at the broker with this file's content, NAME:PASSWORD.
    #[arg(long, requires = "sense_mqtt", value_name = "FILE")]
    sense_mqtt_login: Option<PathBuf>,
    /// Use at most this much memory for a question, 1MiB or more. Values that do not fit go to a
    /// file in the folder, and the server reads frames again. The server rejects a question whose
    /// list of frames takes more than an eighth. Each further fleet takes a 256th more, at least
    /// 256KiB.
    /// [default: no limit]
    #[arg(long, requires = "sense", value_parser = parse_memory, value_name = "BYTES")]
    sense_memory: Option<u64>,
    /// Accept batches of frames of at most this many bytes. [default: 4MiB]
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
        options.mqtt = self.sense_mqtt.as_ref().map(|broker| self.broker(broker)).transpose()?;
        Ok(Some(options))
    }

    /// The broker with its certificates and login.
    fn broker(&self, broker: &MqttBroker) -> Result<MqttBroker, Failure> {
        let trust = self.sense_mqtt_ca.clone().map_or(ClientTls::System, ClientTls::CaFile);
        let mut broker = broker
            .clone()
            .with_certificates(trust, identity(self.sense_mqtt_cert.as_ref(), self.sense_mqtt_key.as_ref()))
            .map_err(Failure::Call)?;
        broker.version = self.sense_mqtt_version.unwrap_or_default();
        broker.login = self.sense_mqtt_login.as_deref().map(login).transpose()?;
        if broker.tells_its_password() {
            output::say(PASSWORD);
        }
        Ok(broker)
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

/// A memory limit for a question. Less than 1 MiB leaves too little beside frames and pages.
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
