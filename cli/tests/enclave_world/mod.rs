//! Shared by the tests of served enclaves: images with their plain labels, raw requests, a client,
//! and an attacker in between.

#![allow(dead_code, reason = "not every test needs all")]
#![allow(unreachable_pub, reason = "a module of test files")]

use super::support::{Server, stderr, tobari};
use chacha20::ChaCha20Rng;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use tempfile::{TempDir, tempdir};
use tobari_enclave::{Challenge, Connector, Policy};
use tobari_infer::Model;
use tobari_infer::digits::{STYLES, draw};
use tobari_infer::guarded::{Asker, EnclaveAnswer, Offer};

/// A folder with a file of drawn digits: image number = digit + 10 * style.
pub struct Place {
    folder: TempDir,
    /// The file.
    pub images: String,
}

fn image(index: usize) -> Vec<u8> {
    draw((index % 10) as u8, &STYLES[index / 10 % STYLES.len()])
}

impl Place {
    pub fn new() -> Self {
        let folder = tempdir().unwrap();
        let images: Vec<u8> = (0..20).flat_map(image).collect();
        let head = [[0, 0, 8, 3], 20u32.to_be_bytes(), 28u32.to_be_bytes(), 28u32.to_be_bytes()].concat();
        let path = folder.path().join("drawn.idx");
        std::fs::write(&path, [head, images].concat()).unwrap();
        Self { images: path.to_str().unwrap().to_owned(), folder }
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Labels of images by the model in integers.
    pub fn labels(&self, images: &[usize]) -> Vec<usize> {
        let fixed = Model::digits().unwrap().fixed().unwrap();
        images.iter().map(|index| fixed.classify(&image(*index)).unwrap()).collect()
    }

    /// The output of `tobari infer ask`.
    pub fn ask(&self, url: &str, words: &[&str]) -> String {
        said(&[&["infer", "ask", &self.images, "--server", url, "--accept-simulated"], words].concat())
    }
}

/// The output of a command that must succeed.
pub fn said(words: &[&str]) -> String {
    let output = tobari(words);
    assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The message of a command that must fail.
pub fn refused(words: &[&str]) -> String {
    let output = tobari(words);
    assert_eq!(output.status.code(), Some(1), "{words:?}: {}", stderr(&output));
    assert!(output.stdout.is_empty(), "{words:?}");
    stderr(&output)
}

/// The reply to a raw request.
pub struct Answer {
    pub status: u16,
    /// The word of a refusal, for programs.
    pub word: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Sends a request on a connection of its own.
pub fn send(address: &str, method: &str, path: &str, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let length = body.len();
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    let _ = stream.write_all(&[head.as_bytes(), body].concat()); // the server may reject it before it has read all
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    let cut = reply.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(reply.len());
    let head = String::from_utf8_lossy(&reply[..cut]).into_owned();
    let word = head.lines().find_map(|line| line.strip_prefix("tobari-refusal: ")).unwrap_or_default().to_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Answer { status, word, body: reply.get(cut + 4..).unwrap_or_default().to_vec() }
}

/// A client's session, step by step.
pub struct Client {
    address: String,
    /// The path of the enclave.
    pub path: String,
    session: String,
    pub asker: Asker,
}

impl Client {
    /// Opens a session after verifying the enclave; otherwise returns the status and text of the
    /// refusal.
    pub fn open(server: &Server, rng: &mut ChaCha20Rng) -> Result<Self, (u16, String)> {
        let address = server.address();
        let list: Value = serde_json::from_slice(&send(&address, "GET", "/infer/v1", &[]).body).unwrap();
        let path = format!("/infer/v1/models/{}/enclave", list["models"][0]["digest"].as_str().unwrap());
        let offer = Offer::decode(&good(send(&address, "GET", &path, &[]))?).unwrap();
        let executable = server.announced["simulated_enclaves"][0]["executable"].as_str().unwrap().parse().unwrap();
        let policy = Policy::new(vec![executable], offer.configuration.clone()).accepting_simulated();
        let challenge = Challenge::new(rng, 0);
        let evidence = good(send(&address, "POST", &format!("{path}/report"), &challenge.nonce().0))?;
        let attested = challenge.verify(&policy, &evidence, 0).unwrap();
        let (channel, key) = Connector::connect(&attested, rng).unwrap();
        let id = channel.session();
        good(send(&address, "POST", &format!("{path}/sessions"), &[id.0.as_slice(), &key].concat()))?;
        let hex: String = id.0.iter().map(|byte| format!("{byte:02x}")).collect();
        let session = format!("{path}/sessions/{hex}");
        Ok(Self { address, path, session, asker: Asker::new(channel, &offer.configuration) })
    }

    pub fn send(&self, what: &str, frame: &[u8]) -> Answer {
        send(&self.address, "POST", &format!("{}/{what}", self.session), frame)
    }

    pub fn classify(&mut self, pixels: &[u8]) -> Result<EnclaveAnswer, (u16, String)> {
        // if the client's own channel has ended, a frame of the right length shows the server's
        // reaction
        let frame = self.asker.image(pixels).unwrap_or_else(|_| vec![0; pixels.len() + 20]);
        let answer = good(self.send("images", &frame))?;
        if let Some(told) = self.asker.heard(answer).unwrap() {
            return Ok(told);
        }
        let frame = self.asker.ask().unwrap();
        Ok(self.asker.told(good(self.send("answers", &frame))?).unwrap())
    }
}

fn good(answer: Answer) -> Result<Vec<u8>, (u16, String)> {
    if (200..300).contains(&answer.status) { Ok(answer.body) } else { Err((answer.status, answer.text())) }
}

/// The direction of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// To the server.
    Up,
    /// To the client.
    Down,
}

/// An attacker between a client and a server, who changes bodies.
pub struct Between {
    pub url: String,
}

type Rule = dyn Fn(&str, Way, &mut Vec<u8>) + Send + Sync;

impl Between {
    /// Starts in front of a server. The rule gets the path of a request, the direction of a body,
    /// and the body.
    pub fn start(to: &str, rule: impl Fn(&str, Way, &mut Vec<u8>) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (to, rule): (String, Arc<Rule>) = (to.to_owned(), Arc::new(rule));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (to, rule) = (to.clone(), Arc::clone(&rule));
                std::thread::spawn(move || pass(stream, &to, &*rule));
            }
        });
        Self { url }
    }
}

/// Handles one connection: request after request, each on a new connection to the server.
fn pass(stream: TcpStream, to: &str, rule: &Rule) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let (mut first, mut length) = (String::new(), 0);
        if reader.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let mut words = first.split(' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        rule(path, Way::Up, &mut body);
        let mut answer = send(to, method, path, &body);
        rule(path, Way::Down, &mut answer.body);
        let refusal =
            if answer.word.is_empty() { String::new() } else { format!("tobari-refusal: {}\r\n", answer.word) };
        let length = match answer.status {
            204 => String::new(),
            _ => format!("content-length: {}\r\n", answer.body.len()),
        };
        let head = format!("HTTP/1.1 {} x\r\n{refusal}{length}\r\n", answer.status);
        if stream.write_all(&[head.as_bytes(), &answer.body].concat()).is_err() {
            return;
        }
    }
}
