//! Requests over a connection that is kept open for the next request.

use crate::{CONNECT_TIMEOUT, ClientError, ClientTls, Target};
use axum::{
    body::{Body, Bytes, HttpBody, to_bytes},
    http::{HeaderMap, Method, Request, header, response::Parts},
};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use std::{future::poll_fn, pin::Pin, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, timeout};

/// How long to retry at a busy server, and the pause between attempts if the server states none. A
/// stated pause is limited.
const BUSY: Duration = Duration::from_secs(60);
const PAUSE: u64 = 1;
const LONGEST_PAUSE: u64 = 30;

/// A server for requests, and the trust in its certificate.
#[derive(Clone, Debug)]
pub struct HttpClient {
    target: Arc<Target>,
    tls: ClientTls,
}

/// A request.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// The body of a POST; none for a GET.
    pub body: Option<Bytes>,
    /// The path after the server's URL, with its leading slash.
    pub path: String,
    /// Further headers: names in lower case, values.
    pub headers: Vec<(&'static str, String)>,
    /// The most bytes of the reply.
    pub most: usize,
    /// Time for the whole reply.
    pub patience: Duration,
}

/// The server's reply.
#[derive(Clone, Debug)]
pub struct HttpReply {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Bytes,
    headers: HeaderMap,
}

/// A connection; it is reopened if it was closed between two requests.
pub struct HttpConnection {
    client: HttpClient,
    sender: Option<SendRequest<Body>>,
    sent: u64,
    received: u64,
}

impl HttpClient {
    /// A client of the server at a URL. It does not connect yet.
    ///
    /// # Errors
    /// [`ClientError::Url`].
    pub fn new(url: &str, tls: &ClientTls) -> Result<Self, ClientError> {
        Ok(Self { target: Arc::new(Target::trusting(url, tls)?), tls: tls.clone() })
    }

    /// A connection for consecutive requests.
    pub fn connection(&self) -> HttpConnection {
        HttpConnection { client: self.clone(), sender: None, sent: 0, received: 0 }
    }

    async fn open(&self) -> Result<SendRequest<Body>, ClientError> {
        let slow = |_| ClientError::Timeout { what: "connection", waited: CONNECT_TIMEOUT };
        let transport = timeout(CONNECT_TIMEOUT, self.target.open(&self.tls)).await.map_err(slow)??;
        let (sender, connection) = handshake(TokioIo::new(transport)).await?;
        // it ends when the sender is dropped or the server closes; the request reports its error
        tokio::spawn(connection);
        Ok(sender)
    }
}

impl HttpConnection {
    /// Bytes of all sent bodies.
    pub fn sent_bytes(&self) -> u64 {
        self.sent
    }

    /// Bytes of all received bodies.
    pub fn received_bytes(&self) -> u64 {
        self.received
    }

    /// Sends a request and waits for the reply, whatever its status.
    ///
    /// # Errors
    /// [`ClientError`] if there is no reply. The server may or may not have read the request then.
    pub async fn send(&mut self, request: HttpRequest) -> Result<HttpReply, ClientError> {
        let method = if request.body.is_some() { Method::POST } else { Method::GET };
        self.ask(method, request).await
    }

    /// Sends a request, and sends it again after a pause while the server is busy. A busy server
    /// has not processed the request.
    ///
    /// # Errors
    /// As [`Self::send`]. If the server stays busy, its refusal is the reply, not an error.
    pub async fn send_again_where_busy(&mut self, request: HttpRequest) -> Result<HttpReply, ClientError> {
        let began = Instant::now();
        loop {
            let reply = self.send(request.clone()).await?;
            let pause = reply.pause();
            if reply.header("tobari-refusal") != Some("busy") || began.elapsed() + pause > BUSY {
                return Ok(reply);
            }
            sleep(pause).await;
        }
    }

    /// Sends a DELETE request, without the body.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub async fn delete(&mut self, request: HttpRequest) -> Result<HttpReply, ClientError> {
        self.ask(Method::DELETE, HttpRequest { body: None, ..request }).await
    }

    /// As [`Self::send`], for a reply that takes minutes: `hear` gets the body so far whenever a
    /// part arrives. The request's patience is for the reply's beginning, and then for each part.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub async fn send_hearing(
        &mut self,
        request: HttpRequest,
        mut hear: impl FnMut(&[u8]),
    ) -> Result<HttpReply, ClientError> {
        let method = if request.body.is_some() { Method::POST } else { Method::GET };
        let reply = self.heard(method, request, &mut hear).await;
        if reply.is_err() {
            self.sender = None;
        }
        reply
    }

    async fn heard(
        &mut self,
        method: Method,
        request: HttpRequest,
        hear: &mut impl FnMut(&[u8]),
    ) -> Result<HttpReply, ClientError> {
        let (waited, most) = (request.patience, request.most);
        let slow = |_| ClientError::Timeout { what: "reply", waited };
        let (head, mut body) = timeout(waited, self.begin(method, request)).await.map_err(slow)??;
        let mut whole = Vec::new();
        while let Some(part) = timeout(waited, next_frame(&mut body)).await.map_err(slow)? {
            // what is no data is a trailer
            let Ok(part) = part?.into_data() else { continue };
            if part.len() > most - whole.len() {
                return Err(ClientError::Reply { most });
            }
            whole.extend_from_slice(&part);
            hear(&whole);
        }
        self.received += whole.len() as u64;
        Ok(HttpReply { status: head.status.as_u16(), body: whole.into(), headers: head.headers })
    }

    async fn ask(&mut self, method: Method, request: HttpRequest) -> Result<HttpReply, ClientError> {
        let waited = request.patience;
        let reply = timeout(waited, self.reply(method, request)).await;
        let reply = reply.unwrap_or(Err(ClientError::Timeout { what: "reply", waited }));
        if reply.is_err() {
            self.sender = None;
        }
        reply
    }

    async fn reply(&mut self, method: Method, asked: HttpRequest) -> Result<HttpReply, ClientError> {
        let most = asked.most;
        let (head, body) = self.begin(method, asked).await?;
        let body = to_bytes(Body::new(body), most).await;
        let body = body.map_err(|_| ClientError::Reply { most })?;
        self.received += body.len() as u64;
        Ok(HttpReply { status: head.status.as_u16(), body, headers: head.headers })
    }

    /// Sends a request, and reads the head of its reply.
    async fn begin(&mut self, method: Method, asked: HttpRequest) -> Result<(Parts, Incoming), ClientError> {
        let open = match self.sender.take() {
            Some(mut sender) => sender.ready().await.is_ok().then_some(sender),
            None => None,
        };
        let sender = match open {
            Some(sender) => self.sender.insert(sender),
            None => self.sender.insert(self.client.open().await?),
        };
        let target = &self.client.target;
        self.sent += asked.body.as_ref().map_or(0, |body| body.len() as u64);
        let mut request = Request::new(asked.body.map_or_else(Body::empty, Body::from));
        *request.method_mut() = method;
        let wrong = |what| ClientError::Url { url: target.authority().to_owned(), what };
        *request.uri_mut() = format!("{}{}", target.path(), asked.path)
            .parse()
            .map_err(|_| wrong("expected a path that a request has"))?;
        for (name, value) in [(header::HOST.as_str(), target.authority())]
            .into_iter()
            .chain(asked.headers.iter().map(|(name, value)| (*name, value.as_str())))
        {
            let name = header::HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong("expected a header"))?;
            let value = header::HeaderValue::from_str(value).map_err(|_| wrong("expected a header's value"))?;
            request.headers_mut().insert(name, value);
        }
        Ok(sender.send_request(request).await?.into_parts())
    }
}

/// The next part of a body; none at its end.
async fn next_frame(body: &mut Incoming) -> Option<Result<Frame<Bytes>, hyper::Error>> {
    poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
}

impl HttpReply {
    /// The value of a header, if it exists and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The pause before the next attempt at a busy server.
    fn pause(&self) -> Duration {
        let said = self.header("retry-after").and_then(|seconds| seconds.parse().ok());
        Duration::from_secs(said.unwrap_or(PAUSE).clamp(PAUSE, LONGEST_PAUSE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_server_is_asked_again_when_it_says_within_limits() {
        let pause = |said: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(value) = said.and_then(|said| said.parse().ok()) {
                headers.insert(header::RETRY_AFTER, value);
            }
            HttpReply { status: 503, body: Bytes::new(), headers }.pause().as_secs()
        };
        let said = [
            None,
            Some("0"),
            Some("7"),
            Some("30"),
            Some("86400"),
            Some("-1"),
            Some("soon"),
            Some("99999999999999999999"),
        ];
        assert_eq!(said.map(pause), [1, 1, 7, 30, 30, 1, 1, 1]);
    }
}
