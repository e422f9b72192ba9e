//! Bodies of requests: all of one, of so many bytes at most and within a time, and only so many at once as there is memory for.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    http::StatusCode,
};
use futures_util::StreamExt;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, timeout, timeout_at},
};

use crate::search::reply::Reply;

/// Bytes of a refused request that are read on at most, as many as the longest keys have, and the time for it.
const DRAINED: usize = 1 << 28;
const DRAINING: Duration = Duration::from_secs(10);
/// How long a sender may say nothing in the midst of a body: whoever holds a place for it holds it from others.
const SILENCE: Duration = Duration::from_secs(20);
/// Bytes that have to come in a second, on the average since the body began, and for how long fewer may: a byte now and then keeps no place.
const BYTES_PER_S: usize = 240;
const GRACE: Duration = Duration::from_secs(5);
/// How long a request waits for a place. Who waits longest has the next one, so a few who hold all of them for short times shut nobody out; a client that
/// only came again would find one by luck.
const WAITING: Duration = Duration::from_secs(2);

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

/// A place among those who are in the house, in the order of coming; what finds none for a while is drained.
pub(crate) async fn place(places: &Semaphore, body: Body) -> Result<(SemaphorePermit<'_>, Body), Reply> {
    let found = timeout(WAITING, places.acquire()).await;
    let found = found.ok().and_then(Result::ok).ok_or_else(|| {
        let text = "expected room for another request, found none: send it again";
        Reply::new(StatusCode::SERVICE_UNAVAILABLE, "busy", text)
    });
    or_drain(found, body).await
}

/// All of a body.
pub(crate) async fn read(body: Body, most: usize, patience: Duration) -> Result<Bytes, Reply> {
    let (mut parts, mut bytes, began) = (body.into_data_stream(), Vec::new(), Instant::now());
    let due = |read: usize| {
        let paid = Duration::from_secs((read / BYTES_PER_S) as u64);
        (began + GRACE + paid).min(Instant::now() + SILENCE)
    };
    let whole = async {
        while let Ok(part) = timeout_at(due(bytes.len()), parts.next()).await {
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
        let seconds = async |body: Body| {
            let began = Instant::now();
            assert_eq!(word(body, 1 << 20).await, Err("time"));
            began.elapsed().as_secs()
        };
        let slow = |pause: Duration, first: usize, each: usize| {
            Body::from_stream(stream::unfold(0, move |count| async move {
                if count > 0 {
                    tokio::time::sleep(pause).await;
                }
                let part = Bytes::from(vec![0; if count == 0 { first } else { each }]);
                Some((Ok::<_, Infallible>(part), count + 1))
            }))
        };
        // too little for its time
        assert_eq!(seconds(parts(&["a"], true)).await, GRACE.as_secs());
        assert_eq!(seconds(slow(GRACE / 50, 1, 1)).await, GRACE.as_secs());
        assert_eq!(seconds(slow(GRACE, BYTES_PER_S, 1)).await, GRACE.as_secs() + 1);
        // enough of it, and then nothing
        assert_eq!(seconds(slow(Duration::MAX, 1 << 19, 1)).await, SILENCE.as_secs());
        // enough at all times, and out of time all the same
        assert_eq!(seconds(slow(Duration::from_secs(1), BYTES_PER_S, BYTES_PER_S)).await, 60);
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_place_is_told_when_its_body_is_over() {
        let places = Semaphore::new(1);
        let Ok((held, _)) = place(&places, Body::empty()).await else { panic!("there is a place") };
        let began = Instant::now();
        let refused = place(&places, parts(&["a"], true)).await;
        assert!(refused.is_err_and(|reply| reply.word == "busy"));
        assert_eq!(began.elapsed(), WAITING + DRAINING);
        drop(held);
        assert!(place(&places, Body::empty()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_longest_has_the_next_place() {
        let (places, began) = (Semaphore::new(1), Instant::now());
        // each of eight comes a moment after the one before, and keeps its place for a part of the time that others wait
        let visit = |number: u32| {
            let places = &places;
            async move {
                tokio::time::sleep(Duration::from_millis(1) * number).await;
                let held = place(places, Body::empty()).await;
                let waited = began.elapsed();
                tokio::time::sleep(WAITING / 4).await;
                (held.is_ok(), waited)
            }
        };
        let visits = futures_util::future::join_all((0..8).map(visit)).await;
        for (number, (found, waited)) in (0..).zip(visits) {
            assert_eq!(found, number <= 4, "{number}");
            assert!(!found || waited == WAITING / 4 * number, "{number} {waited:?}");
        }
    }
}
