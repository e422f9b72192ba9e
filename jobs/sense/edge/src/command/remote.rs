//! A server that takes frames and computes: the device's and the key holder's half of its protocol
//! (`crate::serve` has the routes).

use serde::Deserialize;
use std::time::Duration;
use tobari_client::{HttpClient, HttpConnection, HttpReply, HttpRequest};
use tobari_command::output::Failure;
use tobari_command::reach::Reach;
use tobari_command::replies::good;
use tobari_sense::ingest::IngestCounts;
use tobari_sense::message::MAX_MESSAGE;

/// Time for a reply; that of a question, which may have much to convert.
const PATIENCE: Duration = Duration::from_secs(120);
const ANSWER_PATIENCE: Duration = Duration::from_secs(6 * 3600);
/// Bytes of a short reply at most.
const MOST: usize = 1 << 20;

/// A server, for one fleet.
pub struct CloudConnection {
    connection: HttpConnection,
    base: String,
    headers: Vec<(&'static str, String)>,
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
    /// At a URL; nothing is asked yet.
    pub fn reach(url: &str, reach: &Reach, fleet: &str) -> Result<Self, Failure> {
        let connection = HttpClient::new(url, &reach.tls)?.connection();
        let token = reach.token.iter().map(|token| ("authorization", format!("Bearer {}", **token)));
        Ok(Self { connection, base: format!("/sense/v1/fleets/{fleet}"), headers: token.collect() })
    }

    /// Bytes of all that was sent.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.connection.sent_bytes()
    }

    fn request(&self, path: &str, body: Option<Vec<u8>>) -> HttpRequest {
        let (path, headers) = (format!("{}{path}", self.base), self.headers.clone());
        HttpRequest { body: body.map(Into::into), path, headers, most: MOST, patience: PATIENCE }
    }

    /// Sends a request, again where the server is busy.
    async fn send(&mut self, request: HttpRequest) -> Result<HttpReply, Failure> {
        Ok(self.connection.send_again_where_busy(request).await?)
    }

    /// Sends frames: what became of them. They are on the server's disk then.
    pub async fn send_frames(&mut self, frames: Vec<u8>) -> Result<IngestCounts, Failure> {
        let reply = good(self.send(self.request("/frames", Some(frames))).await?)?;
        Ok(serde_json::from_slice(&reply.body)?)
    }

    /// SHA-256 of the bundle that the server has; none if it does not know the fleet.
    pub(crate) async fn bundle(&mut self) -> Result<Option<String>, Failure> {
        let reply = self.send(self.request("", None)).await?;
        if reply.header("tobari-refusal") == Some("fleet") {
            return Ok(None);
        }
        Ok(Some(serde_json::from_slice::<KnownFleet>(&good(reply)?.body)?.bundle))
    }

    /// Gives the server a bundle.
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

    /// Gives the server an object.
    pub(crate) async fn give_object(&mut self, hash: &str, bytes: Vec<u8>) -> Result<(), Failure> {
        good(self.send(self.request(&format!("/objects/{hash}"), Some(bytes))).await?).map(|_| ())
    }

    /// Tells the server what to compute.
    pub(crate) async fn give_order(&mut self, id: &str, order: Vec<u8>) -> Result<(), Failure> {
        good(self.send(self.request(&format!("/questions/{id}"), Some(order))).await?).map(|_| ())
    }

    /// Has the frames of a device removed: how many there were.
    pub(crate) async fn remove_frames(&mut self, number: u32) -> Result<u64, Failure> {
        let request = self.request(&format!("/devices/{number}/frames"), None);
        let reply = good(self.connection.delete(request).await?)?;
        Ok(serde_json::from_slice::<Removed>(&reply.body)?.removed)
    }

    /// Takes back what the server was told to compute; it may not know of it.
    pub(crate) async fn forget_order(&mut self, id: &str) -> Result<(), Failure> {
        let request = self.request(&format!("/questions/{id}"), None);
        let reply = self.connection.delete(request).await?;
        if reply.header("tobari-refusal") == Some("question") { Ok(()) } else { good(reply).map(|_| ()) }
    }

    /// When windows began whose results can be fetched.
    pub(crate) async fn windows(&mut self, id: &str) -> Result<Vec<u64>, Failure> {
        let reply = good(self.send(self.request(&format!("/questions/{id}/windows"), None)).await?)?;
        Ok(serde_json::from_slice::<Windows>(&reply.body)?.windows)
    }

    /// The results of a window; none where too few devices have frames in it.
    pub(crate) async fn answer(&mut self, id: &str, start_ms: u64) -> Result<Option<Vec<u8>>, Failure> {
        let path = format!("/questions/{id}/windows/{start_ms}");
        let request =
            HttpRequest { most: MAX_MESSAGE, patience: ANSWER_PATIENCE, ..self.request(&path, Some(Vec::new())) };
        let reply = self.send(request).await?;
        if reply.header("tobari-refusal") == Some("empty") {
            return Ok(None);
        }
        Ok(Some(good(reply)?.body.to_vec()))
    }

    /// Says that results were fetched: the same whatever becomes of them.
    pub(crate) async fn done(&mut self, id: &str, start_ms: u64) -> Result<(), Failure> {
        let request = self.request(&format!("/questions/{id}/windows/{start_ms}"), None);
        good(self.connection.delete(request).await?).map(|_| ())
    }
}
