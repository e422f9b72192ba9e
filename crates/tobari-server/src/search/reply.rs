//! Refusals as HTTP: a status, a word for programs, a line for people.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use tobari_apps::search::{desk::Refusal, server::AnswerError};

/// A refusal on its way out.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    /// The word.
    pub(crate) word: &'static str,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn new(status: StatusCode, word: &'static str, text: impl Into<String>) -> Self {
        Self { status, word, text: text.into() }
    }

    /// Nobody, or somebody else.
    pub(crate) fn unknown() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "token",
            "expected a token that is known (Authorization: Bearer), found none",
        )
    }

    /// A fault of this server.
    pub(crate) fn fault(text: &'static str) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "fault", text)
    }
}

impl From<&Refusal> for Reply {
    fn from(refusal: &Refusal) -> Self {
        let (status, word) = match refusal {
            Refusal::Table => (StatusCode::NOT_FOUND, "table"),
            Refusal::Set => (StatusCode::NOT_FOUND, "set"),
            Refusal::Key { .. } => (StatusCode::CONFLICT, "key"),
            Refusal::Uses { .. } => (StatusCode::CONFLICT, "uses"),
            Refusal::Clients { .. } => (StatusCode::FORBIDDEN, "clients"),
            Refusal::Budget { .. } => (StatusCode::TOO_MANY_REQUESTS, "budget"),
            Refusal::Region { .. } => (StatusCode::TOO_MANY_REQUESTS, "region"),
            Refusal::Mode(_) => (StatusCode::CONFLICT, "mode"),
            Refusal::Revision => (StatusCode::PRECONDITION_FAILED, "labels"),
            Refusal::Parameters(_) => return Self::fault("a fault of the server: no such parameters"),
            Refusal::Answer(AnswerError::Query { .. } | AnswerError::Parameters) => {
                (StatusCode::UNPROCESSABLE_ENTITY, "message")
            }
            Refusal::Answer(_) | Refusal::Hidden(_) => {
                return Self::fault("a fault of the server: no answer could be computed");
            }
            Refusal::Message(_) => (StatusCode::UNPROCESSABLE_ENTITY, "message"),
            // what else the desk does not answer is a question that it does not answer
            _ => (StatusCode::UNPROCESSABLE_ENTITY, "question"),
        };
        Self::new(status, word, refusal.to_string())
    }
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let mut response = (self.status, [("tobari-refusal", self.word)], self.text + "\n").into_response();
        let extra = match self.status {
            StatusCode::UNAUTHORIZED => Some((header::WWW_AUTHENTICATE, "Bearer")),
            StatusCode::SERVICE_UNAVAILABLE => Some((header::RETRY_AFTER, "1")),
            _ => None,
        };
        if let Some((name, value)) = extra {
            response.headers_mut().insert(name, header::HeaderValue::from_static(value));
        }
        response
    }
}
