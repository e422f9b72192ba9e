//! A shell in which tests type the commands of documents, in a folder of its own.

use super::{Child, Command, Stdio};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longer than any command in a document takes.
const PATIENCE: Duration = Duration::from_secs(240);

/// A folder, the program on the path, and servers as in other terminals.
pub struct Shell {
    folder: tempfile::TempDir,
    programs: tempfile::TempDir,
    port: u16,
    /// Placeholders in a document (in capitals), and their values.
    words: Vec<(&'static str, String)>,
    servers: Vec<Child>,
    /// Commands that a line started with `&`.
    behind: Vec<Child>,
}

/// The output of a command, and whether it succeeded.
pub struct Typed {
    pub ok: bool,
    /// Standard output, then standard error.
    pub text: String,
}

/// Whether a line starts a program that runs until it is stopped.
fn is_server(line: &str) -> bool {
    let begins = |name: &str| line.starts_with(name);
    begins("tobari serve")
        || begins("tobari search beacon")
        || begins("tobari sense keyholder") && !line.contains("--once")
}

impl Shell {
    pub fn new() -> Self {
        let programs = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tobari"), programs.path().join("tobari")).unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self {
            folder: tempfile::tempdir().unwrap(),
            programs,
            port,
            words: Vec::new(),
            servers: Vec::new(),
            behind: Vec::new(),
        }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, line: &str) -> Command {
        let line = self.words.iter().fold(line.to_owned(), |line, (word, value)| line.replace(word, value));
        let line = line.replace("0.0.0.0:7610", "127.0.0.1:7610").replace("7610", &self.port.to_string());
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("sh");
        command.arg("-c").arg(line).current_dir(self.folder());
        command.env("PATH", format!("{}:{path}", self.programs.path().display()));
        command.env("TOBARI_SERVE_ADDR", format!("127.0.0.1:{}", self.port));
        command.env("TMPDIR", self.programs.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Types a line. A server keeps running; its first line says that it listens.
    pub fn type_line(&mut self, line: &str) -> Typed {
        let nothing = Typed { ok: true, text: String::new() };
        if let Some(line) = line.strip_suffix(" &") {
            // its output goes to a file
            self.behind.push(self.command(&format!("exec {line}")).spawn().unwrap());
            return nothing;
        }
        if line == "wait" {
            let ended: Vec<bool> = self.behind.drain(..).map(|child| super::done(child).status.success()).collect();
            return Typed { ok: ended.iter().all(|ok| *ok), ..nothing };
        }
        if is_server(line) { self.start(line) } else { self.run(line) }
    }

    fn run(&mut self, line: &str) -> Typed {
        let mut child = self.command(line).spawn().unwrap();
        let (output, errors) = (reader(child.stdout.take().unwrap()), reader(child.stderr.take().unwrap()));
        let started = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if started.elapsed() > PATIENCE {
                child.kill().unwrap();
                panic!("{line}: did not end within {PATIENCE:?}");
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let text = [output, errors].map(|lines| lines.iter().collect::<Vec<_>>().join("\n")).join("\n");
        let text = text.replace(&self.port.to_string(), "7610");
        if line.starts_with("tobari call link") {
            let link = text.lines().find(|line| line.starts_with("http")).unwrap_or_default().to_owned();
            // the first link belongs to the usual kind of room
            if self.words.iter().all(|(word, _)| *word != "LINK") {
                self.words.push(("LINK", link));
            }
        }
        Typed { ok: status.success(), text }
    }

    fn start(&mut self, line: &str) -> Typed {
        let mut child = self.command(&format!("exec {line}")).spawn().unwrap();
        let (output, errors) = (reader(child.stdout.take().unwrap()), reader(child.stderr.take().unwrap()));
        let (mut text, started) = (String::new(), Instant::now());
        let mut ok = false;
        // the first line appears when the server listens, and the others follow at once
        while started.elapsed() < PATIENCE {
            match output.recv_timeout(Duration::from_millis(if ok { 300 } else { 100 })) {
                Ok(line) => {
                    ok = true;
                    text += &format!("{line}\n");
                }
                Err(_) if ok || child.try_wait().unwrap().is_some() => break,
                Err(_) => {}
            }
        }
        ok &= child.try_wait().unwrap().is_none();
        text.extend(errors.try_iter().map(|line| format!("{line}\n")));
        text = text.replace(&self.port.to_string(), "7610");
        if let Some(hex) = text.split("fingerprint (SHA-256): ").nth(1).and_then(|rest| rest.lines().next()) {
            self.words.push(("HEX", hex.to_owned()));
        }
        self.servers.push(child);
        Typed { ok, text }
    }

    /// Stops all servers like an operator, and waits for their end.
    pub fn stop_servers(&mut self) {
        for mut server in self.servers.drain(..) {
            let _ = Command::new("kill").arg("-TERM").arg(server.id().to_string()).status();
            let started = Instant::now();
            while server.try_wait().unwrap().is_none() && started.elapsed() < Duration::from_secs(20) {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        for server in self.servers.iter_mut().chain(&mut self.behind) {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// The lines of a pipe, read to the end so that the writer never waits.
fn reader(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                // nobody needs the line, but the pipe must not fill
            }
        }
    });
    lines
}
