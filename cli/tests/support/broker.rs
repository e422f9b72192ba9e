//! A broker for a test, in a process of its own: mosquitto, where it is installed.

use super::fleet::Place;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tobari_host::testing::not_run;
use tobari_sense_edge::serve::{MqttError, publish};

/// The broker, which ends when this is dropped.
pub struct Broker {
    child: Child,
    file: String,
    port: u16,
    /// Its URL.
    pub url: String,
}

impl Broker {
    /// A broker without encryption, for any client; none without mosquitto.
    pub fn start(place: &Place, test: &str) -> Option<Self> {
        Self::with(place, test, "mqtt", "allow_anonymous true\n")
    }

    /// A broker with these settings of its listener; none without mosquitto.
    pub fn with(place: &Place, test: &str, scheme: &str, settings: &str) -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        // as root, mosquitto would become another user, who may read nothing here
        let file = place.write("broker.conf", &format!("user root\nlistener {port} 127.0.0.1\n{settings}"));
        let Some(child) = run(&file) else {
            not_run(test, "no mosquitto on PATH");
            return None;
        };
        let broker = Self { child, file, port, url: format!("{scheme}://localhost:{port}") };
        broker.listens();
        Some(broker)
    }

    /// Ends the broker as an operator does, and starts it again.
    pub fn restart(&mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap();
        self.child = run(&self.file).unwrap();
        self.listens();
    }

    fn listens(&self) {
        until("a broker that listens", || TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }

    /// Publishes messages, without a login.
    pub fn publish(&self, topic: &str, messages: Vec<Vec<u8>>) -> Result<(), MqttError> {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(publish(&self.url.parse().unwrap(), topic, messages))
    }
}

fn run(file: &str) -> Option<Child> {
    Command::new("mosquitto").args(["-c", file]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for something, for half a minute at most.
pub fn until(what: &str, mut there: impl FnMut() -> bool) {
    for _ in 0..600 {
        if there() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("expected {what} within half a minute");
}
