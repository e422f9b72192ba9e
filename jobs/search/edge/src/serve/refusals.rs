//! Refusals of questions as HTTP: the status and the word for each.

use axum::http::StatusCode;
use tobari_node::reply::Reply;
use tobari_search::desk::Refusal;
use tobari_search::server::AnswerError;

/// The reply to a client for a refusal.
pub(super) fn refused(refusal: &Refusal) -> Reply {
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
        Refusal::Parameters(_) => return Reply::fault("a fault of the server: no such parameters"),
        Refusal::Answer(AnswerError::Query { .. } | AnswerError::Parameters) => {
            (StatusCode::UNPROCESSABLE_ENTITY, "message")
        }
        Refusal::Answer(_) | Refusal::Hidden(_) => {
            return Reply::fault("a fault of the server: no answer could be computed");
        }
        Refusal::Message(_) => (StatusCode::UNPROCESSABLE_ENTITY, "message"),
        // all other refusals mean that the desk does not answer such a question
        _ => (StatusCode::UNPROCESSABLE_ENTITY, "question"),
    };
    Reply::new(status, word, refusal.to_string())
}
