//! Refusals as HTTP: a status, a word for programs, a line for people.

use crate::places::{Full, said};
use axum::{
    body::Body,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use std::time::Duration;

/// A refusal on its way out.
pub struct Reply {
    /// The status.
    pub status: StatusCode,
    /// The word, in the header `Tobari-Refusal`.
    pub word: &'static str,
    /// The line, without its end.
    pub text: String,
    /// When to try again (`Retry-After`). Without it, a refusal with status 503 or `storage` says
    /// one second.
    pub wait: Option<Duration>,
}

impl Reply {
    /// A refusal without a time to try again.
    pub fn new(status: StatusCode, word: &'static str, text: impl Into<String>) -> Self {
        Self { status, word, text: text.into(), wait: None }
    }

    /// The request has no known token.
    pub fn unknown() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "token",
            "the request has no known token (Authorization: Bearer): commands take --token-file",
        )
    }

    /// There is no place: too many of `what`, which the option `most` limits.
    pub fn full(full: &Full, word: &'static str, (what, most): (&str, &str)) -> Self {
        let Full { own, held, bytes, wait } = *full;
        let of = if bytes { " bytes of" } else { "" };
        let (whose, option) = if own { ("This address or token", "--client-share") } else { ("This server", most) };
        let text = format!(
            "{whose} already has {}{of} {what}. Ask the server's operator to raise {option}, or try again in {}.",
            grouped(held),
            said(wait)
        );
        let status = if own { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::SERVICE_UNAVAILABLE };
        Self { wait: Some(wait), ..Self::new(status, word, text) }
    }

    /// No room at this moment.
    pub fn busy() -> Self {
        let text = "this server has no room for another request at the moment: send it again in a second";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", text)
    }

    /// A fault of this server.
    pub fn fault(text: &'static str) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "fault", text)
    }
}

/// An answer of bytes.
pub fn octets(bytes: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, "application/octet-stream")], bytes.into()).into_response()
}

/// A number with a comma before every three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let comma = |(at, digit): (usize, char)| {
        let before = at > 0 && (digits.len() - at).is_multiple_of(3);
        before.then_some(',').into_iter().chain([digit])
    };
    digits.chars().enumerate().flat_map(comma).collect()
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let mut response = (self.status, [("tobari-refusal", self.word)], self.text + "\n").into_response();
        let extra = match self.status {
            StatusCode::UNAUTHORIZED => Some((header::WWW_AUTHENTICATE, "Bearer")),
            StatusCode::SERVICE_UNAVAILABLE if self.wait.is_none() => Some((header::RETRY_AFTER, "1")),
            // a full disk may have room in a second; a quota stays used up
            StatusCode::INSUFFICIENT_STORAGE if self.word == "storage" => Some((header::RETRY_AFTER, "1")),
            _ => None,
        };
        if let Some((name, value)) = extra {
            response.headers_mut().insert(name, header::HeaderValue::from_static(value));
        }
        if let Some(wait) = self.wait {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            response.headers_mut().insert(header::RETRY_AFTER, seconds.max(1).into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_26_a_full_server_says_what_helps_and_how_long_it_takes() {
        let full = Full { own: false, held: 1_000, bytes: false, wait: Duration::from_secs(3_599) };
        let reply = Reply::full(&full, "clients", ("clients", "--max-clients"));
        let text = "This server already has 1,000 clients. Ask the server's operator to raise --max-clients, or try again in an hour.";
        assert_eq!((reply.status, reply.text.as_str()), (StatusCode::SERVICE_UNAVAILABLE, text));
        assert_eq!(reply.into_response().headers()[header::RETRY_AFTER], "3599");
        let own = Reply::full(&Full { own: true, bytes: true, ..full }, "clients", ("clients", "--max-clients"));
        assert!(
            own.text.contains("This address or token already has 1,000 bytes of clients")
                && own.text.contains("--client-share")
        );
        assert_eq!([0, 999, 1_234_567].map(grouped), ["0", "999", "1,234,567"]);
    }
}
