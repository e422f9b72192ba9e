//! Refusals of questions as HTTP: the status and the word for each.

use axum::http::StatusCode;
use tobari_node::reply::Reply;
use tobari_search::desk::Refusal;
use tobari_search::server::AnswerError;

/// The reply to a client for a refusal.
pub(super) fn refused(refusal: &Refusal) -> Reply {
    let status = match refusal {
        Refusal::Table | Refusal::Set => StatusCode::NOT_FOUND,
        Refusal::Key { .. } | Refusal::Uses { .. } | Refusal::Mode(_) => StatusCode::CONFLICT,
        Refusal::Clients { .. } => StatusCode::FORBIDDEN,
        Refusal::Budget { .. } | Refusal::Region { .. } => StatusCode::TOO_MANY_REQUESTS,
        Refusal::Revision => StatusCode::PRECONDITION_FAILED,
        Refusal::Parameters(_) => return Reply::fault("a fault of the server: no such parameters"),
        Refusal::Answer(AnswerError::Query { .. } | AnswerError::Parameters) => StatusCode::UNPROCESSABLE_ENTITY,
        Refusal::Answer(_) | Refusal::Hidden(_) => {
            return Reply::fault("a fault of the server: no answer could be computed");
        }
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    };
    Reply::new(status, refusal.word(), refusal.to_string())
}
