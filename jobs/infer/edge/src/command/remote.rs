//! A client of a server with models.

use serde::Deserialize;
use std::future::Future;
use std::time::Duration;
use tobari_client::{HttpClient, HttpConnection, HttpReply, HttpRequest};
use tobari_command::output::Failure;
use tobari_command::reach::Reach;
use tobari_command::replies::{good, shown};
use tobari_infer::Volume;
use tobari_infer::card::MAX_CARD_BYTES;
use tobari_infer::compile::Card;
use tobari_infer::holder::{Holder, MAX_SEALED_BYTES, NAME_BYTES, Sealed};

/// Time for a reply.
const PATIENCE: Duration = Duration::from_secs(300);
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
        if card.is_refreshed() {
            let text = "the server offers a model with refreshes, whose keys no server takes: `tobari infer run` runs it \
                        on one machine";
            return Err(Failure::Work(text.to_owned()));
        }
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
            if known.header("tobari-refusal") == Some("key") {
                let keys = tokio::task::block_in_place(|| holder.keys())?;
                good(self.send(&format!("{model}/keys"), Some(keys), MAX_LIST_BYTES).await?)?;
            } else {
                good(known)?;
            }
        }
        let path = format!("{model}/answers");
        self.headers.push(("tobari-key", super::hex(&sealed.keys)));
        let reply = self.send(&path, Some(sealed.body.to_vec()), MAX_SEALED_BYTES).await;
        self.headers.pop();
        let reply = reply?;
        if holder.is_none() && reply.header("tobari-refusal") == Some("key") {
            let text = "the server does not have the keys for this image: add --key to make and send them";
            return Err(Failure::Work(text.to_owned()));
        }
        Ok(good(reply)?.body.to_vec())
    }

    /// Sends a request, and repeats it if the server is busy.
    async fn send(&mut self, path: &str, body: Option<Vec<u8>>, most: usize) -> Result<HttpReply, Failure> {
        let body = body.map(Into::into);
        let request =
            HttpRequest { body, path: path.to_owned(), headers: self.headers.clone(), most, patience: PATIENCE };
        Ok(self.connection.send_again_where_busy(request).await?)
    }
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
