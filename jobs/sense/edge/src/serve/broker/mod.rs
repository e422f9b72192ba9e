//! Brokers: their URL, their certificate, the client's login and certificate.

mod link;

pub(super) use link::{Client, LinkEvent, MqttMessage, PATIENCE, Receipt, Rejected, Use, link};

use std::io;
use tobari_client::{ClientIdentity, ClientTls, mutual_config, open_tls};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use zeroize::Zeroizing;

/// The version of MQTT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MqttVersion {
    /// MQTT 3.1.1, for brokers that know no other. A broker of this version does not say why it
    /// rejects a message.
    V3,
    /// MQTT 5.
    #[default]
    V5,
}

impl std::str::FromStr for MqttVersion {
    type Err = String;

    /// Parses `3.1.1` or `5`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "3.1.1" => Ok(Self::V3),
            "5" => Ok(Self::V5),
            _ => Err("expected 3.1.1 or 5".to_owned()),
        }
    }
}

/// The certificates of both sides of an encrypted connection with a broker.
#[derive(Clone, Debug)]
pub struct BrokerTls {
    /// The certificates of brokers to trust.
    pub trust: ClientTls,
    /// The client's own certificate, for brokers that ask for one.
    pub identity: Option<ClientIdentity>,
}

/// A broker.
#[derive(Clone)]
pub struct MqttBroker {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The version of MQTT.
    pub version: MqttVersion,
    /// Set if the connection is encrypted.
    pub tls: Option<BrokerTls>,
    /// The user name and password.
    pub login: Option<(String, Zeroizing<String>)>,
}

impl std::fmt::Debug for MqttBroker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MqttBroker")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("version", &self.version)
            .field("tls", &self.tls)
            .field("login", &self.login.is_some())
            .finish()
    }
}

impl std::str::FromStr for MqttBroker {
    type Err = String;

    /// Parses `mqtt://host:port` or `mqtts://host:port`; the default ports are 1883 and 8883.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "expected a broker as mqtts://host:8883 or mqtt://host:1883".to_owned();
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let (tls, usual) = match scheme {
            "mqtt" => (None, 1883),
            "mqtts" => (Some(BrokerTls { trust: ClientTls::System, identity: None }), 8883),
            _ => return Err(wrong()),
        };
        let rest = rest.trim_end_matches('/');
        let bare = |rest: &str| rest.starts_with('[') && rest.ends_with(']');
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !bare(rest) => (host, port.parse().map_err(|_| wrong())?),
            _ => (rest, usual),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains(['/', '@', '[', ']']) || host.contains(char::is_whitespace) {
            return Err(wrong());
        }
        Ok(Self { host: host.to_owned(), port, version: MqttVersion::default(), tls, login: None })
    }
}

/// Bytes in both directions, encrypted or not.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Stream for T {}

impl MqttBroker {
    /// The same broker with these certificates, which are read once as a check.
    ///
    /// # Errors
    /// A text with the remedy, for certificates beside an unencrypted connection, and for files
    /// that cannot be used.
    pub fn with_certificates(self, trust: ClientTls, identity: Option<ClientIdentity>) -> Result<Self, String> {
        let named = trust != ClientTls::System || identity.is_some();
        if self.tls.is_none() {
            return match named {
                true => Err("expected mqtts:// in the broker's URL, beside a certificate".to_owned()),
                false => Ok(self),
            };
        }
        mutual_config(&trust, identity.as_ref(), &self.host).map_err(|error| error.to_string())?;
        Ok(Self { tls: Some(BrokerTls { trust, identity }), ..self })
    }

    /// Whether a password would cross the network unencrypted.
    pub fn tells_its_password(&self) -> bool {
        let here = self.host == "localhost" || self.host.parse().is_ok_and(|host: std::net::IpAddr| host.is_loopback());
        self.login.is_some() && self.tls.is_none() && !here
    }

    /// Connects. The files of certificates are read each time, so renewed ones need no restart.
    ///
    /// # Errors
    /// An error without the broker's address. That of a certificate for another name has the name.
    pub(super) async fn connect(self) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        let Some(BrokerTls { trust, identity }) = &self.tls else { return Ok(Box::new(stream)) };
        let config = mutual_config(trust, identity.as_ref(), "the broker").map_err(io::Error::other)?;
        let stream = open_tls(&self.host, stream, config).await;
        Ok(Box::new(stream.map_err(io::Error::other)?))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    /// Every text of at most this many of these characters.
    fn texts(alphabet: &'static [u8], most: u32) -> impl Iterator<Item = Vec<u8>> {
        let base = alphabet.len();
        (0..=most).flat_map(move |length| {
            (0..base.pow(length))
                .map(move |number| (0..length).map(|place| alphabet[number / base.pow(place) % base]).collect())
        })
    }

    #[test]
    fn a_broker_is_a_host_and_a_port() {
        let of = |text: &str| text.parse::<MqttBroker>().map(|broker| (broker.host, broker.port, broker.tls.is_some()));
        assert_eq!(of("mqtt://localhost"), Ok(("localhost".to_owned(), 1883, false)));
        assert_eq!(of("mqtts://localhost"), Ok(("localhost".to_owned(), 8883, true)));
        assert_eq!(of("mqtt://10.0.0.1:1884/"), Ok(("10.0.0.1".to_owned(), 1884, false)));
        assert_eq!(of("mqtts://[::1]:7"), Ok(("::1".to_owned(), 7, true)));
        assert_eq!(of("mqtt://[::1]"), Ok(("::1".to_owned(), 1883, false)));
        for wrong in ["", "localhost", "mqtt://", "mqttss://a", "mqtt://a:b", "mqtt://user@a", "mqtt://a:70000"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        for text in texts(b"a0:/[].@", 5) {
            let text = format!("mqtt://{}", String::from_utf8(text).unwrap());
            if let Ok((host, port, _)) = of(&text) {
                assert!(!host.is_empty() && !host.contains(['/', '@', '[', ']']), "{text}: {host}, {port}");
            }
        }
    }

    #[test]
    fn certificates_need_an_encrypted_connection_and_files_that_can_be_read() {
        let broker = |url: &str| url.parse::<MqttBroker>().unwrap();
        let trust = ClientTls::CaFile("nowhere.pem".into());
        let said = broker("mqtt://a").with_certificates(trust.clone(), None).unwrap_err();
        assert!(said.contains("expected mqtts://"), "{said}");
        let said = broker("mqtts://a").with_certificates(trust, None).unwrap_err();
        assert!(said.contains("nowhere.pem"), "{said}");
        assert!(broker("mqtt://a").with_certificates(ClientTls::System, None).unwrap().tls.is_none());
    }

    #[test]
    fn a_password_is_told_to_the_network_unless_encrypted_or_on_this_machine() {
        let of = |url: &str| {
            let login = Some(("device".to_owned(), Zeroizing::new("secret".to_owned())));
            let broker = MqttBroker { login, ..url.parse().unwrap() };
            assert!(!format!("{broker:?}").contains("secret"));
            broker.tells_its_password()
        };
        assert!(of("mqtt://broker.example") && of("mqtt://10.0.0.1"));
        assert!(
            !of("mqtts://broker.example") && !of("mqtt://127.0.0.1") && !of("mqtt://localhost") && !of("mqtt://[::1]")
        );
        assert!(!"mqtt://broker.example".parse::<MqttBroker>().unwrap().tells_its_password());
    }
}
