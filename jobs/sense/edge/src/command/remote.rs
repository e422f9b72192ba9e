//! The client of a server that accepts frames and computes, for devices and key holders
//! (`crate::serve` has the routes).

use serde::Deserialize;
use std::time::Duration;
use tobari_client::{HttpClient, HttpConnection, HttpReply, HttpRequest};
use tobari_command::output::Failure;
use tobari_command::reach::Reach;
use tobari_command::replies::good;
use tobari_sense::ingest::IngestCounts;
use tobari_sense::message::MAX_MESSAGE;

/// The time limit for a reply; the answer of a question has a longer one, since it may convert many
/// frames.
const PATIENCE: Duration = Duration::from_secs(120);
const ANSWER_PATIENCE: Duration = Duration::from_secs(6 * 3600);
/// Largest size of a short reply in bytes.
const MOST: usize = 1 << 20;

/// A server, for one fleet.
pub struct CloudConnection {
    connection: HttpConnection,
    base: String,
    headers: Vec<(&'static str, String)>,
    /// Whether the last reply was a refusal.
    refused: bool,
}

/// The answer about a window.
pub(crate) enum WindowAnswer {
    /// The encrypted results.
    Results(Vec<u8>),
    /// Too few devices have frames in the window. The number of devices, if the server tells it.
    Empty(Option<u32>),
    /// The server removed frames of the window for their age.
    Removed,
}

#[derive(Deserialize)]
struct Windows {
    windows: Vec<u64>,
}

#[derive(Deserialize)]
struct Removed {
    removed: u64,
}

#[derive(Deserialize)]
struct KnownFleet {
    bundle: String,
}

impl CloudConnection {
    /// A connection for a URL; nothing is sent yet.
    pub fn reach(url: &str, reach: &Reach, fleet: &str) -> Result<Self, Failure> {
        let connection = HttpClient::new(url, &reach.tls)?.connection();
        let token = reach.token.iter().map(|token| ("authorization", format!("Bearer {}", **token)));
        Ok(Self { connection, base: format!("/sense/v1/fleets/{fleet}"), headers: token.collect(), refused: false })
    }

    /// The number of bytes sent.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.connection.sent_bytes()
    }

    fn request(&self, path: &str, body: Option<Vec<u8>>) -> HttpRequest {
        let (path, headers) = (format!("{}{path}", self.base), self.headers.clone());
        HttpRequest { body: body.map(Into::into), path, headers, most: MOST, patience: PATIENCE }
    }

    /// Sends a request, and repeats it if the server is busy.
    async fn send(&mut self, request: HttpRequest) -> Result<HttpReply, Failure> {
        self.refused = false;
        let reply = self.connection.send_again_where_busy(request).await?;
        self.refused = reply.status >= 400;
        Ok(reply)
    }

    async fn delete(&mut self, request: HttpRequest) -> Result<HttpReply, Failure> {
        self.refused = false;
        let reply = self.connection.delete(request).await?;
        self.refused = reply.status >= 400;
        Ok(reply)
    }

    /// Whether the server refused the last request. After an error, false means that the server or
    /// this machine has trouble, and that other requests would fail, too.
    pub(crate) fn has_refused(&self) -> bool {
        self.refused
    }

    /// Sends frames, and returns their counts by verdict. Accepted frames are then on the server's
    /// disk.
    pub async fn send_frames(&mut self, frames: Vec<u8>) -> Result<IngestCounts, Failure> {
        let reply = good(self.send(self.request("/frames", Some(frames))).await?)?;
        Ok(serde_json::from_slice(&reply.body)?)
    }

    /// The SHA-256 of the server's bundle; `None` if the server does not know the fleet.
    pub(crate) async fn bundle(&mut self) -> Result<Option<String>, Failure> {
        let reply = self.send(self.request("", None)).await?;
        if reply.header("tobari-refusal") == Some("fleet") {
            return Ok(None);
        }
        Ok(Some(serde_json::from_slice::<KnownFleet>(&good(reply)?.body)?.bundle))
    }

    /// Sends the server a bundle.
    pub(crate) async fn give_bundle(&mut self, bytes: Vec<u8>) -> Result<(), Failure> {
        good(self.send(self.request("", Some(bytes))).await?).map(|_| ())
    }

    /// Whether the server has an object.
    pub(crate) async fn has_object(&mut self, hash: &str) -> Result<bool, Failure> {
        let reply = self.send(self.request(&format!("/objects/{hash}"), None)).await?;
        if reply.header("tobari-refusal") == Some("object") {
            return Ok(false);
        }
        good(reply).map(|_| true)
    }

    /// Sends the server an object.
    pub(crate) async fn give_object(&mut self, hash: &str, bytes: Vec<u8>) -> Result<(), Failure> {
        good(self.send(self.request(&format!("/objects/{hash}"), Some(bytes))).await?).map(|_| ())
    }

    /// Sends the server an order. An order from before devices had new keys is replaced.
    pub(crate) async fn give_order(&mut self, id: &str, order: Vec<u8>) -> Result<(), Failure> {
        let request = self.request(&format!("/questions/{id}"), Some(order));
        let reply = self.send(request.clone()).await?;
        if reply.header("tobari-refusal") != Some("question") {
            return good(reply).map(|_| ());
        }
        self.forget_order(id).await?;
        good(self.send(request).await?).map(|_| ())
    }

    /// Deletes the frames of a device, and returns their number.
    pub(crate) async fn remove_frames(&mut self, number: u32) -> Result<u64, Failure> {
        let request = self.request(&format!("/devices/{number}/frames"), None);
        let reply = good(self.delete(request).await?)?;
        Ok(serde_json::from_slice::<Removed>(&reply.body)?.removed)
    }

    /// Removes an order from the server, if the server has it.
    pub(crate) async fn forget_order(&mut self, id: &str) -> Result<(), Failure> {
        let request = self.request(&format!("/questions/{id}"), None);
        let reply = self.delete(request).await?;
        if reply.header("tobari-refusal") == Some("question") { Ok(()) } else { good(reply).map(|_| ()) }
    }

    /// The beginnings of windows whose results can be fetched.
    pub(crate) async fn windows(&mut self, id: &str) -> Result<Vec<u64>, Failure> {
        let reply = good(self.send(self.request(&format!("/questions/{id}/windows"), None)).await?)?;
        Ok(serde_json::from_slice::<Windows>(&reply.body)?.windows)
    }

    /// The results of a window.
    pub(crate) async fn answer(&mut self, id: &str, start_ms: u64) -> Result<WindowAnswer, Failure> {
        let path = format!("/questions/{id}/windows/{start_ms}");
        let request =
            HttpRequest { most: MAX_MESSAGE, patience: ANSWER_PATIENCE, ..self.request(&path, Some(Vec::new())) };
        let reply = self.send(request).await?;
        if reply.header("tobari-refusal") == Some("empty") {
            return Ok(WindowAnswer::Empty(reply.header("tobari-devices").and_then(|count| count.parse().ok())));
        }
        if reply.header("tobari-refusal") == Some("removed") {
            return Ok(WindowAnswer::Removed);
        }
        Ok(WindowAnswer::Results(good(reply)?.body.to_vec()))
    }

    /// Acknowledges that results were fetched. The message does not depend on the outcome.
    pub(crate) async fn done(&mut self, id: &str, start_ms: u64) -> Result<(), Failure> {
        let request = self.request(&format!("/questions/{id}/windows/{start_ms}"), None);
        good(self.delete(request).await?).map(|_| ())
    }
}
