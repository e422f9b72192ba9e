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
    // longer than the limit of a message of the server or of a device
    let (long, longer) = ("stone".repeat(400), "water".repeat(400));
    for (user, password) in [("server", &longer), ("device", &long)] {
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
    until("frames over the broker", || {
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
    // three mistaken runs left a frame; the other two were refused before they made one
    until("the frames that waited", || stored(&server) == before + 4);
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
        assert_eq!((letters("unregistered"), letters("too-long")), (300, if version == "5" { 0 } else { 3 }));
        // acknowledged: they do not come again
        server.stop();
        let server = start();
        assert!(send(&place, &broker, &[]).status.success());
        until("the next frame", || stored(&server) == 2);
        assert_eq!(metric(&server, "tobari_sense_dead_letters_total{reason=\"frames\"}"), 0);
    }
}

/// A broker that writes its sessions to the disk, for these rounds.
fn persistent(place: &Place, test: &str) -> Option<Broker> {
    let folder = place.path("");
    let settings = format!(
        "allow_anonymous true\nmax_queued_messages 0\npersistence true\npersistence_location {folder}\nautosave_interval 1\n"
    );
    Broker::with(place, test, "mqtt", &settings)
}

/// The broker restarts under a running server, and while frames wait for an absent one: each frame
/// is stored once.
#[test]
fn a_broker_that_restarts_loses_no_frame() {
    for version in ["5", "3.1.1"] {
        let place = Place::new();
        let Some(mut broker) = persistent(&place, "a_broker_that_restarts_loses_no_frame") else { return };
        place.fleet(SCHEMA, &["a"]);
        let (data, url) = (place.path("server"), broker.url.clone());
        let start = || Server::start(&["--sense", &data, "--sense-mqtt", &url, "--sense-mqtt-version", version]);
        let server = start();
        good(&["sense", "keyholder", &place.path("holder"), "--server", &server.url, "--once"]);
        place.write("readings.csv", &format!("level\n{}", "7\n".repeat(1600)));
        let options = [("--mqtt-version", version)];
        until("a subscription", || send(&place, &broker, &options).status.success());
        until("frames", || stored(&server) >= 200);
        let before = stored(&server);
        broker.restart();
        // in 3.1.1 nobody says whether the server is back; its session is, and keeps the frames
        until("the device's way to the broker", || send(&place, &broker, &options).status.success());
        until("frames after the restart", || stored(&server) == before + 200);
        server.stop();
        assert!(send(&place, &broker, &options).status.success());
        broker.restart();
        let server = start();
        until("frames that waited in the broker's file", || stored(&server) == before + 400);
        assert_eq!(metric(&server, "tobari_sense_frames_total{verdict=\"malformed\"}"), 0);
    }
}

/// A login that may not publish is told, and the frames stay in the outbox.
#[test]
fn a_device_that_may_not_publish_is_told_and_keeps_its_frames() {
    let place = Place::new();
    let rules = place.write("rules", "topic read other/#\n");
    let test = "a_device_that_may_not_publish_is_told_and_keeps_its_frames";
    let settings = format!("allow_anonymous true\nacl_file {rules}\n");
    let Some(mut broker) = Broker::with(&place, test, "mqtt", &settings) else { return };
    place.fleet(SCHEMA, &["a"]);
    place.write("readings.csv", "level\n1\n2\n3\n");
    let refused = send(&place, &broker, &[]);
    let said = stderr(&refused);
    assert!(!refused.status.success() && said.contains("allow the topics tobari/FLEET/#"), "{said}");
    let server = Server::start(&["--sense", &place.path("server"), "--sense-mqtt", &broker.url]);
    good(&["sense", "keyholder", &place.path("holder"), "--server", &server.url, "--once"]);
    // mended, at the broker alone
    place.write("rules", "topic readwrite tobari/#\n");
    broker.restart();
    let (device, card) = (place.path("devices/a.device"), place.path("holder/fleet.json"));
    let words = ["sense", "send", "--device", &device, "--fleet", &card, "--mqtt", &broker.url, "--json"];
    until("the server's subscription", || tobari(&words).status.success());
    until("the frame that waited in the outbox", || stored(&server) == 1);
}

/// An emulated broker, which gives one answer to each of the client's packets. After the last one
/// it closes the connection or stays. Returns its URL.
fn emulated(answers: &'static [&'static [u8]], stays: bool) -> String {
    use std::io::{Read, Write};
    let old = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("mqtt://localhost:{}", old.local_addr().unwrap().port());
    std::thread::spawn(move || {
        for stream in old.incoming() {
            let mut stream = stream.unwrap();
            for answer in answers {
                let _ = stream.read(&mut [0; 512]);
                let _ = stream.write_all(answer);
            }
            let _ = stays && stream.read(&mut [0; 512]).is_ok();
        }
    });
    url
}

/// A broker that knows one version of MQTT refuses the other as its standard says.
#[test]
fn a_broker_of_the_other_version_is_named_with_the_option_to_change() {
    let place = Place::new();
    place.fleet(SCHEMA, &["a"]);
    place.write("readings.csv", "level\n1\n");
    // CONNACK of 3.1.1: unacceptable protocol version; of 5: unsupported protocol version
    for (version, answer) in [("5", &[0x20, 2, 0, 1][..]), ("3.1.1", &[0x20, 2, 0, 1]), ("5", &[0x20, 3, 0, 0x84, 0])] {
        let url = emulated(Vec::leak(vec![answer]), false);
        let words = place.encrypt("a", "readings.csv", &["--mqtt", &url, "--mqtt-version", version]);
        bad(&words.iter().map(String::as_str).collect::<Vec<_>>(), 1, "--mqtt-version");
    }
}

/// A server that may not subscribe says so in its log.
#[test]
fn a_server_that_may_not_subscribe_is_told() {
    let place = Place::new();
    // CONNACK: accepted; SUBACK of the first packet: failure
    let url = emulated(&[&[0x20, 2, 0, 0], &[0x90, 3, 0, 1, 0x80]], true);
    let (data, log) = (place.path("server"), place.path("log"));
    let words = ["--sense", &data, "--sense-mqtt", &url, "--sense-mqtt-version", "3.1.1"];
    let _server = Server::logging_to(log.as_ref(), &words);
    let told = || std::fs::read_to_string(&log).unwrap().contains("rejects the subscription tobari/+/#");
    until("the refusal in the log", told);
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
