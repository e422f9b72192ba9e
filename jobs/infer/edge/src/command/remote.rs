//! A client of a server with models.

use crate::serve::RUN_CONTENT_TYPE as CONTENT_TYPE;
use serde::Deserialize;
use std::future::Future;
use std::time::{Duration, Instant};
use tobari_client::{HttpClient, HttpConnection, HttpReply, HttpRequest};
use tobari_command::output::{self, Failure};
use tobari_command::reach::Reach;
use tobari_command::replies::{good, shown};
use tobari_infer::Volume;
use tobari_infer::card::MAX_CARD_BYTES;
use tobari_infer::compile::Card;
use tobari_infer::holder::{Holder, MAX_SEALED_BYTES, NAME_BYTES, Sealed};

/// Time for a reply.
const PATIENCE: Duration = Duration::from_secs(300);
/// The longest step of a run, or time for others' runs before it begins.
const RUN_PATIENCE: Duration = Duration::from_secs(3600);
/// How long to ask a busy server again, and the pause between two attempts.
const BUSY: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_secs(1);
/// The most bytes of the list of models.
const MAX_LIST_BYTES: usize = 1 << 20;

/// A connection to a server.
pub struct Remote {
    connection: HttpConnection,
    headers: Vec<(&'static str, String)>,
}

#[derive(Deserialize)]
struct List {
    models: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    name: String,
    digest: String,
    /// Channels, rows and columns of an image.
    image: [usize; 3],
}

/// Runs an asynchronous task.
pub(super) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}

impl Remote {
    /// A connection to the server at a URL; sends nothing yet.
    pub(crate) fn reach(url: &str, reach: &Reach) -> Result<Self, Failure> {
        let connection = HttpClient::new(url, &reach.tls)?.connection();
        let token = reach.token.iter().map(|token| ("authorization", format!("Bearer {}", **token)));
        Ok(Self { connection, headers: token.collect() })
    }

    /// Bytes sent so far.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.connection.sent_bytes()
    }

    /// Bytes received so far.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.connection.received_bytes()
    }

    /// Finds a model by its name or the beginning of its digest, or the only one: its digest, and
    /// its public facts.
    pub(crate) async fn model(&mut self, wanted: Option<&str>) -> Result<([u8; NAME_BYTES], Card), Failure> {
        let (digest, _) = self.find(wanted).await?;
        let path = format!("/infer/v1/models/{}", super::hex(&digest));
        let reply = good(self.send(&path, None, MAX_CARD_BYTES).await?)?;
        let card = Card::decode(&reply.body)?;
        Ok((digest, card))
    }

    /// The digest of that model, and the shape of its images.
    pub(super) async fn find(&mut self, wanted: Option<&str>) -> Result<([u8; NAME_BYTES], Volume), Failure> {
        let reply = good(self.send("/infer/v1", None, MAX_LIST_BYTES).await?)?;
        let list: List = serde_json::from_slice(&reply.body)?;
        let fits = |model: &&Listed| {
            wanted.is_none_or(|wanted| model.name == wanted || model.digest.starts_with(&wanted.to_ascii_lowercase()))
        };
        let mut fitting = list.models.iter().filter(fits);
        let (Some(model), None) = (fitting.next(), fitting.next()) else {
            let names: Vec<String> = list.models.iter().map(|model| shown(&model.name, 80)).collect();
            return Err(Failure::Work(format!("expected one model that --model names, among: {}", names.join(", "))));
        };
        let digest = unhex(&model.digest).ok_or_else(|| {
            Failure::Work("expected a digest of 64 hexadecimal digits in the server's list, found another".to_owned())
        })?;
        let [channels, height, width] = model.image;
        Ok((digest, Volume { channels, height, width }))
    }

    /// The body of a reply to a POST, or to a GET if there is no body to send.
    pub(super) async fn body(&mut self, path: &str, body: Option<Vec<u8>>, most: usize) -> Result<Vec<u8>, Failure> {
        Ok(good(self.send(path, body, most).await?)?.body.to_vec())
    }

    /// Sends a DELETE and ignores the status of the reply.
    pub(super) async fn delete(&mut self, path: &str) -> Result<(), Failure> {
        let headers = self.headers.clone();
        let request = HttpRequest { body: None, path: path.to_owned(), headers, most: 1 << 10, patience: PATIENCE };
        self.connection.delete(request).await?;
        Ok(())
    }

    /// The answer to a question. If the server lacks the keys and the holder is given, the keys are
    /// made and sent first.
    pub(crate) async fn answer(&mut self, sealed: &Sealed<'_>, holder: Option<&Holder>) -> Result<Vec<u8>, Failure> {
        let model = format!("/infer/v1/models/{}", super::hex(&sealed.model));
        if let Some(holder) = holder {
            let known = self.send(&format!("{model}/keys/{}", super::hex(&sealed.keys)), None, MAX_LIST_BYTES).await?;
            if known.header("tobari-refusal") == Some("key") && holder.card().is_refreshed() {
                self.send_large_keys(&model, holder, next_key(&known)).await?;
            } else if known.header("tobari-refusal") == Some("key") {
                let keys = tokio::task::block_in_place(|| holder.keys())?;
                good(self.send(&format!("{model}/keys"), Some(keys), MAX_LIST_BYTES).await?)?;
            } else {
                good(known)?;
            }
        }
        let path = format!("{model}/answers");
        self.headers.push(("tobari-key", super::hex(&sealed.keys)));
        let reply = self.run(&path, sealed.body.to_vec()).await;
        self.headers.pop();
        let reply = reply?;
        if holder.is_none() && reply.header("tobari-refusal") == Some("key") {
            let text = "the server does not have the keys for this image: add --key to make and send them";
            return Err(Failure::Work(text.to_owned()));
        }
        let reply = good(reply)?;
        match reply.header("content-type") {
            Some(CONTENT_TYPE) => run_answer(&reply.body),
            _ => Ok(reply.body.to_vec()),
        }
    }

    /// Makes large keys and sends them one after another. The server keeps those that it has, so
    /// the next call goes on where this one ended.
    async fn send_large_keys(&mut self, model: &str, holder: &Holder, from: usize) -> Result<(), Failure> {
        let (count, name) = (holder.card().keys.len(), super::hex(holder.keys_name()));
        let (runtime, mut sent) = (tokio::runtime::Handle::current(), Ok(()));
        let mut send = |place: usize, key: Vec<u8>| {
            output::status(&format!("key {} of {count}", place + 1));
            let path = format!("{model}/keys/{name}/{place}");
            let reply = runtime.block_on(self.send(&path, Some(key), MAX_LIST_BYTES));
            sent = reply.and_then(good).map(drop).map_err(|failure| (place, failure));
            sent.is_ok()
        };
        tokio::task::block_in_place(|| holder.each_message(from, &mut send))?;
        output::status("");
        sent.map_err(|(place, failure)| {
            let text = format!("{failure}; the server has {place} of {count} keys: run the command again to go on");
            Failure::Work(text)
        })
    }

    /// Sends a question, and tells the steps of a run of minutes.
    async fn run(&mut self, path: &str, question: Vec<u8>) -> Result<HttpReply, Failure> {
        let request = HttpRequest {
            body: Some(question.into()),
            path: path.to_owned(),
            headers: self.headers.clone(),
            most: MAX_SEALED_BYTES,
            patience: RUN_PATIENCE,
        };
        let began = Instant::now();
        let told = |body: &[u8]| {
            if let Some(text) = run_status(body) {
                output::status(&text);
            }
        };
        loop {
            let reply = self.connection.send_hearing(request.clone(), told).await?;
            output::status("");
            if reply.header("tobari-refusal") != Some("busy") || began.elapsed() > BUSY {
                return Ok(reply);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Sends a request, and repeats it if the server is busy.
    async fn send(&mut self, path: &str, body: Option<Vec<u8>>, most: usize) -> Result<HttpReply, Failure> {
        let body = body.map(Into::into);
        let request =
            HttpRequest { body, path: path.to_owned(), headers: self.headers.clone(), most, patience: PATIENCE };
        Ok(self.connection.send_again_where_busy(request).await?)
    }
}

/// The number of large keys that a server has.
fn next_key(reply: &HttpReply) -> usize {
    reply.header("tobari-next").and_then(|next| next.parse().ok()).unwrap_or(0)
}

/// The last line of a run so far, in words; nothing for a reply that is no run.
fn run_status(body: &[u8]) -> Option<String> {
    let lines = body.get(..body.iter().rposition(|byte| *byte == b'\n')?)?;
    let line = std::str::from_utf8(lines.rsplit(|byte| *byte == b'\n').next()?).ok()?;
    let mut words = line.splitn(4, ' ');
    match (words.next()?, words.next(), words.next(), words.next()) {
        ("wait", None, ..) => Some("the server computes for others: waiting".to_owned()),
        ("keys", None, ..) => Some("the server reads the keys".to_owned()),
        ("step", Some(step), Some(steps), name) => {
            Some(format!("step {} of {}: {}", shown(step, 8), shown(steps, 8), shown(name.unwrap_or(""), 40)))
        }
        _ => None,
    }
}

/// The answer of a run, whose lines come first.
fn run_answer(body: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut rest = body;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let (line, after) = (String::from_utf8_lossy(&rest[..end]), &rest[end + 1..]);
        rest = after;
        if let Some(length) = line.strip_prefix("answer ") {
            return match length.parse() == Ok(after.len()) {
                true => Ok(after.to_vec()),
                false => Err(Failure::Work(format!(
                    "expected an answer of {} bytes, found {}",
                    shown(length, 20),
                    after.len()
                ))),
            };
        }
        if let Some(refused) = line.strip_prefix("refused ") {
            let text = refused.split_once(' ').map_or(refused, |(_, text)| text);
            return Err(Failure::Work(format!("the server refused: {}", shown(text, 400))));
        }
    }
    Err(Failure::Work("the server ended the run without an answer: ask again".to_owned()))
}

fn unhex(text: &str) -> Option<[u8; NAME_BYTES]> {
    if text.len() != 2 * NAME_BYTES || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut out = [0; NAME_BYTES];
    for (i, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn a_run_is_told_by_its_last_whole_line_and_a_hostile_one_does_no_harm() {
        let told = |body: &[u8]| run_status(body);
        assert_eq!(told(b"wait\nkeys\n").unwrap(), "the server reads the keys");
        assert_eq!(told(b"keys\nstep 3 210 layer1.0 conv\nste").unwrap(), "step 3 of 210: layer1.0 conv");
        assert_eq!(told(b"step 1 2 a\x1b[2Jb\n").unwrap().find('\x1b'), None);
        for other in [&b""[..], b"\n", b"wait", b"answer 3\n", b"step 1\n", b"\xff\xfe\n", b"wait 1\n"] {
            assert_eq!(told(other), None, "{other:?}");
        }
    }

    #[test]
    fn an_answer_is_whole_or_an_error() {
        let text = |body: &[u8]| run_answer(body).unwrap_err().to_string();
        assert_eq!(run_answer(b"wait\nkeys\nstep 1 1 a\nanswer 4\nx\ny\n").unwrap(), b"x\ny\n");
        assert_eq!(run_answer(b"answer 0\n").unwrap(), b"");
        assert_eq!(text(b"answer 5\nx\ny\n"), "expected an answer of 5 bytes, found 4");
        assert_eq!(text(b"answer -1\n"), "expected an answer of -1 bytes, found 0");
        assert_eq!(text(b"wait\nrefused key send them first\n"), "the server refused: send them first");
        for ended in [&b""[..], b"wait\nkeys\nstep 1 2 a", b"answer 3"] {
            assert_eq!(text(ended), "the server ended the run without an answer: ask again");
        }
    }
}
