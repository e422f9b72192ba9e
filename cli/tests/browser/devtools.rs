//! A browser without a window, driven over the DevTools protocol.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{Message, protocol::WebSocketConfig},
};

/// Longer than any step here takes.
const PATIENCE: Duration = Duration::from_secs(40);

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    /// The profile, which is removed with the browser.
    _profile: TempDir,
    socket: WebSocketStream<TcpStream>,
    session: String,
    next: u64,
    /// Errors of the page: exceptions and violations of a policy.
    pub(crate) complaints: Vec<String>,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Browser {
    /// Starts a browser whose microphone plays this recording again and again.
    pub(crate) async fn start(microphone: &Path) -> Self {
        let program = std::env::var_os("TOBARI_BROWSER").expect("TOBARI_BROWSER names a Chromium");
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new(program);
        command.args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--remote-debugging-port=0",
        ]);
        command.args(["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]);
        command.args(["--autoplay-policy=no-user-gesture-required", "--ignore-certificate-errors"]);
        command.args([
            "--disable-renderer-backgrounding",
            "--disable-background-timer-throttling",
            "--disable-dev-shm-usage",
        ]);
        command.arg(format!("--use-file-for-fake-audio-capture={}", microphone.display()));
        command.arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.find_map(|line| line.split("DevTools listening on ").nth(1).map(str::to_owned));
        let address = address.expect("the browser says where it listens");
        // further output must not fill the pipe
        std::thread::spawn(move || lines.for_each(drop));
        let host = address.strip_prefix("ws://").and_then(|rest| rest.split('/').next()).unwrap().to_owned();
        let stream = TcpStream::connect(host).await.unwrap();
        let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        let (socket, _) = client_async_with_config(&address, stream, Some(config)).await.unwrap();
        let mut browser =
            Self { child, _profile: profile, socket, session: String::new(), next: 0, complaints: Vec::new() };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" })).await;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach).await;
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({})).await;
        }
        browser
    }

    /// Processor seconds of the processes that draw pages and run their code, and of the whole
    /// browser.
    pub(crate) async fn cpu_seconds(&mut self) -> [f64; 2] {
        // a question to the browser, not to its page
        let session = std::mem::take(&mut self.session);
        let told = self.call("SystemInfo.getProcessInfo", json!({})).await;
        self.session = session;
        let seconds = |which: &dyn Fn(&Value) -> bool| -> f64 {
            let processes = told["processInfo"].as_array().unwrap().iter();
            processes.filter(|process| which(process)).map(|process| process["cpuTime"].as_f64().unwrap()).sum()
        };
        [seconds(&|process| process["type"] == "renderer"), seconds(&|_| true)]
    }

    /// Calls a method of the protocol, which must succeed.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, params).await;
        assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
        answer["result"].clone()
    }

    /// Calls a method of the protocol; returns its result or error. Events that arrive in the
    /// meantime are skipped.
    async fn answer(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.as_str().into();
        }
        let id = self.next;
        let answer = async {
            self.socket.send(Message::text(message.to_string())).await.unwrap();
            loop {
                let came = self.socket.next().await.expect("the browser is there").unwrap();
                let Ok(text) = came.into_text() else { continue };
                let Ok(answer) = serde_json::from_str::<Value>(&text) else { continue };
                if answer["id"] == id {
                    return answer;
                }
                self.complaints.extend(complaint(&answer));
            }
        };
        timeout(PATIENCE, answer).await.unwrap_or_else(|_| panic!("{method} takes too long"))
    }

    /// Opens an address.
    pub(crate) async fn open(&mut self, url: &str) {
        // another page first, so that an address that differs only after the # is loaded, too
        self.call("Page.navigate", json!({ "url": "about:blank" })).await;
        self.call("Page.navigate", json!({ "url": url })).await;
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'").await;
    }

    /// Loads the page once more.
    pub(crate) async fn reload(&mut self) {
        self.value("globalThis.old = true").await;
        self.call("Page.reload", json!({})).await;
        self.until("globalThis.old === undefined && document.readyState === 'complete'").await;
    }

    /// The value of an expression, or of its promise.
    pub(crate) async fn value(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", params).await;
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Waits for an expression to be true.
    pub(crate) async fn until(&mut self, expression: &str) {
        let started = std::time::Instant::now();
        loop {
            let params = json!({ "expression": expression, "returnByValue": true });
            // an error means that one page is gone and the next is not there yet
            if self.answer("Runtime.evaluate", params).await["result"]["result"]["value"] == true {
                return;
            }
            if started.elapsed() > PATIENCE {
                let page = self.value("document.body?.innerText").await;
                panic!("{expression} does not become true; the page says: {page}");
            }
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
    }

    /// A picture of the page at this size in CSS pixels, as PNG.
    pub(crate) async fn picture(&mut self, (width, height): (u32, u32), dark: bool) -> Vec<u8> {
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", media).await;
        let phone = width < 600;
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 2, "mobile": phone });
        self.call("Emulation.setDeviceMetricsOverride", metrics).await;
        tokio::time::sleep(Duration::from_millis(400)).await;
        let shot = self.call("Page.captureScreenshot", json!({ "format": "png" })).await;
        decode(shot["data"].as_str().unwrap())
    }
}

/// The text of an error event of the page.
fn complaint(event: &Value) -> Option<String> {
    let params = &event["params"];
    match event["method"].as_str()? {
        "Runtime.exceptionThrown" => Some(params["exceptionDetails"].to_string()),
        "Log.entryAdded" if params["entry"]["level"] == "error" => Some(params["entry"].to_string()),
        _ => None,
    }
}

/// Base64, in which the protocol sends pictures.
fn decode(text: &str) -> Vec<u8> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let letters: Vec<u8> = text.bytes().filter(|letter| *letter != b'=').collect();
    let mut bytes = Vec::with_capacity(letters.len() * 3 / 4);
    for chunk in letters.chunks(4) {
        let bits = chunk.iter().fold(0u32, |bits, letter| bits << 6 | u32::from(value(*letter)));
        let bits = bits << (6 * (4 - chunk.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..chunk.len()]);
    }
    bytes
}
