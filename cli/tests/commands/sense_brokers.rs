//! Brokers with certificates and logins, of both versions of MQTT; messages that nobody would get,
//! and messages that are of no use.

use crate::support::broker::{Broker, until};
use crate::support::fleet::{Place, bad, good, metric};
use crate::support::{Server, stderr, tobari};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tobari_sense_edge::serve::MqttError;

const SCHEMA: &str = "profile = \"u28\"\nsamples = 8\n[[channel]]\nname = \"level\"\n";

fn stored(server: &Server) -> i64 {
    metric(server, "tobari_sense_frames_stored")
}

/// Writes an authority, and certificates of a broker, of a client and of a stranger that another
/// authority signed.
fn certificates(place: &Place) {
    let authority = |name: &str| {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        place.write(&format!("{name}.pem"), &issuer.pem());
        issuer
    };
    let (ours, theirs) = (authority("ca"), authority("other-ca"));
    for (name, issuer) in [("broker", &ours), ("client", &ours), ("stranger", &theirs)] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        place.write(&format!("{name}.pem"), &params.signed_by(&key, issuer).unwrap().pem());
        place.write(&format!("{name}.key"), &key.serialize_pem());
    }
}

/// The settings of a listener that asks for certificates and passwords.
fn guarded(place: &Place) -> String {
    std::fs::write(place.path("passwords"), "").unwrap();
    let of = |name: &str| place.path(name);
    for (user, password) in [("server", "water"), ("device", "stone")] {
        let done =
            std::process::Command::new("mosquitto_passwd").args(["-b", &of("passwords"), user, password]).status();
        assert!(done.unwrap().success());
        place.write(&format!("{user}.login"), &format!("{user}:{password}\n"));
    }
    place.write("wrong.login", "device:water\n");
    format!(
        "allow_anonymous false\npassword_file {}\ncafile {}\ncertfile {}\nkeyfile {}\nrequire_certificate true\n",
        of("passwords"),
        of("ca.pem"),
        of("broker.pem"),
        of("broker.key")
    )
}

/// Sends a device's readings over a guarded broker, with these further options.
fn send(place: &Place, broker: &Broker, options: &[(&str, &str)]) -> std::process::Output {
    let mut words = place.encrypt("a", "readings.csv", &["--mqtt", &broker.url, "--batch", "1", "--again"]);
    words.extend(options.iter().flat_map(|(name, value)| {
        let file = value.contains('.') && *value != "3.1.1";
        [(*name).to_owned(), if file { place.path(value) } else { (*value).to_owned() }]
    }));
    tobari(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

fn round(version: &str, test: &str) {
    let place = Place::new();
    certificates(&place);
    if std::process::Command::new("mosquitto").arg("-h").output().is_err() {
        return tobari_host::testing::not_run(test, "no mosquitto on PATH");
    }
    let Some(broker) = Broker::with(&place, test, "mqtts", &guarded(&place)) else { return };
    place.fleet(SCHEMA, &["a"]);
    let start = || {
        let files = ["server", "ca.pem", "client.pem", "client.key", "server.login"].map(|name| place.path(name));
        let [data, ca, cert, key, login] = files.each_ref().map(String::as_str);
        Server::start(&[
            "--sense",
            data,
            "--sense-mqtt",
            &broker.url,
            "--sense-mqtt-version",
            version,
            "--sense-mqtt-ca",
            ca,
            "--sense-mqtt-cert",
            cert,
            "--sense-mqtt-key",
            key,
            "--sense-mqtt-login",
            login,
        ])
    };
    let server = start();
    good(&["sense", "keyholder", &place.path("holder"), "--server", &server.url, "--once"]);
    place.write("readings.csv", "level\n1\n2\n3\n4\n5\n");
    let all = [
        ("--tls-ca", "ca.pem"),
        ("--mqtt-cert", "client.pem"),
        ("--mqtt-key", "client.key"),
        ("--mqtt-login", "device.login"),
        ("--mqtt-version", version),
    ];
    let with = |changed: &[(&'static str, &'static str)]| {
        let value = |name: &str, usual| changed.iter().find(|(of, _)| *of == name).map_or(usual, |(_, value)| *value);
        all.iter().map(|(name, usual)| (*name, value(name, *usual))).collect::<Vec<_>>()
    };
    // the server may still be on its way to the broker
    let mut frames = 0;
    until("frames over the broker", || {
        frames += 1;
        let done = send(&place, &broker, &with(&[]));
        let said = stderr(&done);
        assert!(done.status.success() || said.contains("no server has subscribed"), "{said}");
        stored(&server) > 0
    });
    // what a mistaken device sees; its frames wait, and are sent once the mistake is mended
    let before = stored(&server);
    for (changed, expected) in [
        (&[("--tls-ca", "other-ca.pem")][..], "no authority that this machine trusts has signed"),
        (
            &[("--mqtt-cert", "stranger.pem"), ("--mqtt-key", "stranger.key")],
            "it may expect a certificate of this client",
        ),
        (&[("--mqtt-login", "wrong.login")], "the broker rejects the login"),
        (&[("--mqtt-key", "stranger.key")], "client.pem"),
        (&[("--tls-ca", "missing.pem")], "missing.pem"),
    ] {
        let refused = send(&place, &broker, &with(changed));
        assert!(!refused.status.success() && stderr(&refused).contains(expected), "{changed:?}: {}", stderr(&refused));
    }
    assert_eq!(stored(&server), before);
    // the broker keeps what comes while the server is away, in both versions
    server.stop();
    assert!(send(&place, &broker, &with(&[])).status.success());
    let server = start();
    until("frames that waited", || stored(&server) > before);
    let (device, card) = (place.path("devices/a.device"), place.path("holder/fleet.json"));
    let left =
        good(&["sense", "send", "--device", &device, "--fleet", &card, "--mqtt", "mqtts://localhost:1", "--json"]);
    assert_eq!(left.trim(), r#"{"frames":0}"#, "the outbox is empty");
    assert_eq!(metric(&server, "tobari_sense_dead_letters_total{reason=\"frames\"}"), 0);
    let log = server.stop();
    assert!(!log.contains("water") && !log.contains("stone"), "{log}");
}

#[test]
fn a_broker_of_mqtt_5_with_certificates_and_logins() {
    round("5", "a_broker_of_mqtt_5_with_certificates_and_logins");
}

#[test]
fn a_broker_of_mqtt_3_1_1_with_certificates_and_logins() {
    round("3.1.1", "a_broker_of_mqtt_3_1_1_with_certificates_and_logins");
}

/// A broker without a subscriber confirms and forgets: the frames must stay with the device.
#[test]
fn frames_that_no_server_would_get_stay_in_the_outbox() {
    const TEST: &str = "frames_that_no_server_would_get_stay_in_the_outbox";
    let place = Place::new();
    let Some(broker) = Broker::start(&place, TEST) else { return };
    place.fleet(SCHEMA, &["a"]);
    place.write("readings.csv", "level\n1\n2\n3\n");
    let refused = send(&place, &broker, &[]);
    let said = stderr(&refused);
    assert!(
        !refused.status.success() && said.contains("no server has subscribed") && said.contains("wait in"),
        "{said}"
    );
    let server = Server::start(&["--sense", &place.path("server"), "--sense-mqtt", &broker.url]);
    good(&["sense", "keyholder", &place.path("holder"), "--server", &server.url, "--once"]);
    let (device, card) = (place.path("devices/a.device"), place.path("holder/fleet.json"));
    let words = ["sense", "send", "--device", &device, "--fleet", &card, "--mqtt", &broker.url, "--json"];
    until("the server's subscription", || tobari(&words).status.success());
    until("the frames", || stored(&server) == 1);
    assert_eq!(metric(&server, "tobari_sense_frames_total{verdict=\"duplicate\"}"), 0);
}

/// More useless messages than the server handles at once: each is acknowledged and counted, and
/// the frames behind them arrive.
#[test]
fn messages_of_no_use_hold_up_nobody_and_are_counted() {
    const TEST: &str = "messages_of_no_use_hold_up_nobody_and_are_counted";
    for version in ["5", "3.1.1"] {
        let place = Place::new();
        let Some(broker) = Broker::start(&place, TEST) else { return };
        let fleet = place.fleet(SCHEMA, &["a"]);
        let data = place.path("server");
        let start = || {
            Server::start(&[
                "--sense",
                &data,
                "--sense-batch",
                "64KiB",
                "--sense-mqtt",
                &broker.url,
                "--sense-mqtt-version",
                version,
            ])
        };
        let server = start();
        good(&["sense", "keyholder", &place.path("holder"), "--server", &server.url, "--once"]);
        until("a subscription", || {
            broker.publish(&format!("tobari/{fleet}/x"), vec![vec![1]]) != Err(MqttError::Nobody)
        });
        broker.publish(&format!("tobari/{fleet}/x"), vec![vec![7; 943]; 300]).unwrap();
        broker.publish(&format!("tobari/{fleet}/x"), vec![vec![7; 5]; 300]).unwrap();
        broker.publish("tobari/x/y", vec![vec![7; 943]; 300]).unwrap();
        // a broker of version 5 does not deliver what is larger than the server takes
        broker.publish(&format!("tobari/{fleet}/x"), vec![vec![7; 100 << 10]; 3]).unwrap();
        place.write("readings.csv", "level\n1\n2\n3\n");
        assert!(send(&place, &broker, &[]).status.success());
        until("the frame", || stored(&server) == 1);
        let letters =
            |reason: &str| metric(&server, &format!("tobari_sense_dead_letters_total{{reason=\"{reason}\"}}"));
        assert!((600..=620).contains(&letters("frames")), "{}", letters("frames"));
        assert_eq!(letters("no-fleet"), if version == "5" { 300 } else { 303 });
        // acknowledged: they do not come again
        server.stop();
        let server = start();
        assert!(send(&place, &broker, &[]).status.success());
        until("the next frame", || stored(&server) == 2);
        assert_eq!(metric(&server, "tobari_sense_dead_letters_total{reason=\"frames\"}"), 0);
    }
}

#[test]
fn options_of_brokers_that_do_not_belong_together_are_refused() {
    let place = Place::new();
    place.fleet(SCHEMA, &["a"]);
    place.write("readings.csv", "level\n1\n");
    certificates(&place);
    let (ca, data) = (place.path("ca.pem"), place.path("server"));
    let words = place.encrypt("a", "readings.csv", &["--mqtt", "mqtt://localhost", "--tls-ca", &ca]);
    bad(&words.iter().map(String::as_str).collect::<Vec<_>>(), 2, "expected mqtts:// in the broker's URL");
    let serve = ["serve", "--addr", "127.0.0.1:0", "--sense", &data, "--sense-mqtt"];
    bad(
        &[&serve[..], &["mqtt://localhost", "--sense-mqtt-ca", &ca]].concat(),
        2,
        "expected mqtts:// in the broker's URL",
    );
    bad(&[&serve[..], &["mqtts://localhost", "--sense-mqtt-cert", &ca]].concat(), 2, "--sense-mqtt-key");
    bad(&[&serve[..], &["mqtts://localhost", "--sense-mqtt-version", "4"]].concat(), 2, "expected 3.1.1 or 5");
}
