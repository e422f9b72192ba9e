//! Bodies of requests: all of one, of so many bytes at most and within a time, and only so many at once as there is memory for.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    http::StatusCode,
};
use futures_util::StreamExt;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

use crate::search::reply::Reply;

/// Bytes of a refused request that are read on at most, as many as the longest keys have, and the time for it.
const DRAINED: usize = 1 << 28;
const DRAINING: Duration = Duration::from_secs(10);
/// How long a sender may say nothing in the midst of a body: whoever holds a place for it holds it from others.
const SILENCE: Duration = Duration::from_secs(20);

/// Reads on what a refused request still sends, and keeps nothing of it: a sender that is cut off before its end does not get to read why.
pub(crate) async fn drain(body: Body) {
    let (mut parts, mut left) = (body.into_data_stream(), DRAINED);
    let rest = async {
        while let Some(Ok(part)) = parts.next().await {
            left = left.saturating_sub(part.len());
            if left == 0 {
                return;
            }
        }
    };
    let _ = timeout(DRAINING, rest).await;
}

/// What was found, and the body as it was; or the refusal once the body is drained.
pub(crate) async fn or_drain<T>(found: Result<T, Reply>, body: Body) -> Result<(T, Body), Reply> {
    match found {
        Ok(found) => Ok((found, body)),
        Err(reply) => {
            drain(body).await;
            Err(reply)
        }
    }
}

/// A place among those who are in the house; what comes without one is drained.
pub(crate) async fn place(places: &Semaphore, body: Body) -> Result<(SemaphorePermit<'_>, Body), Reply> {
    let busy = |_| {
        let text = "expected room for another request, found none: send it again";
        Reply::new(StatusCode::SERVICE_UNAVAILABLE, "busy", text)
    };
    or_drain(places.try_acquire().map_err(busy), body).await
}

/// All of a body.
pub(crate) async fn read(body: Body, most: usize, patience: Duration) -> Result<Bytes, Reply> {
    let (mut parts, mut bytes) = (body.into_data_stream(), Vec::new());
    let whole = async {
        while let Ok(part) = timeout(SILENCE, parts.next()).await {
            match part {
                None => return Ok(Ok(())),
                Some(Ok(part)) if part.len() <= most - bytes.len() => bytes.extend_from_slice(&part),
                Some(_) => return Ok(Err(())),
            }
        }
        Err(())
    };
    match timeout(patience, whole).await {
        Ok(Ok(Ok(()))) => Ok(bytes.into()),
        Ok(Ok(Err(()))) => {
            let text = format!("expected a body of at most {most} bytes, found more, or an end too soon");
            Err(Reply::new(StatusCode::PAYLOAD_TOO_LARGE, "size", text))
        }
        Ok(Err(())) | Err(_) => {
            let text = "expected the whole body sooner";
            Err(Reply::new(StatusCode::REQUEST_TIMEOUT, "time", text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use std::convert::Infallible;

    fn parts(parts: &[&'static str], then_silent: bool) -> Body {
        let parts: Vec<_> = parts.iter().map(|part| Ok::<_, Infallible>(Bytes::from_static(part.as_bytes()))).collect();
        let rest = if then_silent { stream::pending().left_stream() } else { stream::empty().right_stream() };
        Body::from_stream(stream::iter(parts).chain(rest))
    }

    async fn word(body: Body, most: usize) -> Result<Bytes, &'static str> {
        read(body, most, Duration::from_secs(60)).await.map_err(|reply| reply.word)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_read_whole_or_refused_in_time() {
        assert_eq!(word(parts(&["ab", "", "c"], false), 3).await, Ok(Bytes::from_static(b"abc")));
        assert_eq!(word(Body::empty(), 0).await, Ok(Bytes::new()));
        for too_long in [parts(&["ab", "cd"], false), parts(&["abcd"], true)] {
            assert_eq!(word(too_long, 3).await, Err("size"));
        }
        let began = tokio::time::Instant::now();
        assert_eq!(word(parts(&["a"], true), 3).await, Err("time"));
        assert_eq!(began.elapsed().as_secs(), SILENCE.as_secs());
        // who says a little now and then is out of time all the same
        let slow = stream::unfold((), |()| async {
            tokio::time::sleep(SILENCE / 2).await;
            Some((Ok::<_, Infallible>(Bytes::from_static(b"a")), ()))
        });
        assert_eq!(word(Body::from_stream(slow), 100).await, Err("time"));
        assert_eq!(began.elapsed().as_secs(), SILENCE.as_secs() + 60);
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_place_is_told_when_its_body_is_over() {
        let places = Semaphore::new(1);
        let Ok((held, _)) = place(&places, Body::empty()).await else { panic!("there is a place") };
        let began = tokio::time::Instant::now();
        let refused = place(&places, parts(&["a"], true)).await;
        assert!(refused.is_err_and(|reply| reply.word == "busy"));
        assert_eq!(began.elapsed(), DRAINING);
        drop(held);
        assert!(place(&places, Body::empty()).await.is_ok());
    }
}
