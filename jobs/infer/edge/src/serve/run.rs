//! A run of minutes, whose client hears each step.
//!
//! The reply is a stream (`application/x-tobari-run`): lines, and then the answer's bytes.
//!
//! | line | meaning |
//! |---|---|
//! | `wait` | the run waits for others |
//! | `keys` | the client's keys are read from the disk |
//! | `step N M NAME` | step `N` of `M` begins |
//! | `answer LENGTH` | the answer's bytes follow |
//! | `refused WORD TEXT` | there is no answer: the word and the line of a refusal |
//!
//! Steps and their times are those of the model, and do not depend on the image. A client that goes
//! away ends its run before the next step.

use super::{Name, Shared, models::Served};
use crate::network::EngineError;
use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use std::convert::Infallible;
use std::sync::Arc;
use tobari_infer_deep::encrypted::RunError;
use tobari_node::clients::Origin;
use tobari_node::memory::Claim;
use tobari_node::reply::Reply;
use tobari_node::turns::Turn;
use tokio::sync::mpsc;

/// The type of the reply.
pub(crate) const CONTENT_TYPE: &str = "application/x-tobari-run";
/// Parts of the reply that wait for the connection; further lines are dropped.
const WAITING: usize = 64;

/// The parts of a reply.
type Parts = mpsc::Sender<Bytes>;

/// Starts a run under large keys.
pub(super) fn begin(
    shared: Arc<Shared>,
    of: (Arc<Served>, (Name, Name)),
    origin: Origin,
    turn: Arc<Turn>,
    (claim, question): (Claim, Bytes),
) -> Response {
    let (parts, receiver) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        // the question's memory, and its turn, are held to the end
        let _held = (claim, turn);
        run(shared, of, origin, question, parts).await;
    });
    let body = stream::unfold(receiver, |mut receiver| async {
        let part = receiver.recv().await?;
        Some((Ok::<_, Infallible>(part), receiver))
    });
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], Body::from_stream(body)).into_response()
}

async fn run(
    shared: Arc<Shared>,
    (served, place): (Arc<Served>, (Name, Name)),
    origin: Origin,
    question: Bytes,
    parts: Parts,
) {
    let _ = parts.try_send("wait\n".into());
    let turn = tokio::select! {
        turn = shared.large.runs.wait(&origin) => turn,
        () = parts.closed() => return,
    };
    let Some(turn) = turn.map(Arc::new) else { return };
    let (work, told) = (Arc::clone(&shared), parts.clone());
    let answered = shared.cpu.run_in(&turn, move || answer(&work, &served, &place, &question, &told));
    let last = match answered.await {
        Some(Ok(answer)) => [format!("answer {}\n", answer.len()).as_bytes(), &answer].concat(),
        Some(Err(None)) => return,
        Some(Err(Some(Reply { word, text, .. }))) => format!("refused {word} {text}\n").into_bytes(),
        None => b"refused fault a fault of the server\n".to_vec(),
    };
    let _ = parts.send(last.into()).await;
}

/// The answer; no refusal where the client went away.
pub(super) fn answer(
    shared: &Shared,
    served: &Served,
    place: &(Name, Name),
    question: &[u8],
    parts: &Parts,
) -> Result<Vec<u8>, Option<Reply>> {
    let _ = parts.try_send("keys\n".into());
    let ring = shared.large.load(shared, served, place)?;
    let direct = served.direct()?;
    if let Some(store) = &shared.store {
        shared.large.note_use(store, place);
    }
    let progress = |step: usize, steps: usize, name: &str| {
        let _ = parts.try_send(format!("step {} {steps} {name}\n", step + 1).into());
        !parts.is_closed()
    };
    match direct.engine.answer(&direct.known, &ring, question, progress) {
        Ok((answer, _)) => Ok(answer),
        Err(EngineError::Deep(RunError::Ended)) => Err(None),
        Err(error) => Err(Some(super::handle::refused(&error))),
    }
}
