//! Bodies of requests: all of one, of so many bytes at most and within a time, in memory that its
//! client has a right to.
//!
//! **The order.** A handler first finds out who asks, whether that client may, and whether what it
//! names is there; a refusal leaves before the body is read. Then the body is read, and only then
//! the request takes a turn ([`crate::turns`]): a slow sender holds its own memory
//! ([`crate::memory`]) and nothing else.

use std::time::Duration;

use axum::{
    body::{Body, Bytes, HttpBody},
    http::StatusCode,
};
use futures_util::StreamExt;
use tokio::time::{Instant, timeout, timeout_at};

use crate::{memory::Claim, reply::Reply};

/// Bytes of a refused request that are read on at most, and the time for it: so many keep the
/// connection of a client that asks for something else next. A longer body is not read. The refusal
/// leaves at once, and the connection is closed.
pub(crate) const DRAINED: u64 = 64 << 10;
const DRAINING: Duration = Duration::from_secs(2);
/// How long a sender may say nothing in the midst of a body.
const SILENCE: Duration = Duration::from_secs(20);
/// Bytes that have to come in a second, on the average since the body began, and for how long fewer
/// may.
const BYTES_PER_S: usize = 240;
const GRACE: Duration = Duration::from_secs(5);
/// How long a request waits for a turn or for memory.
pub const WAITING: Duration = Duration::from_secs(2);

/// Reads on what a refused request still sends where that is little, and keeps nothing of it.
pub async fn drain(body: Body) {
    let mut left = DRAINED;
    if HttpBody::size_hint(&body).exact().is_none_or(|length| length > left) {
        return;
    }
    let mut parts = body.into_data_stream();
    let rest = async {
        while let Some(Ok(part)) = parts.next().await {
            left = left.saturating_sub(part.len() as u64);
            if left == 0 {
                return;
            }
        }
    };
    let _ = timeout(DRAINING, rest).await;
}

/// What was found, and the body as it was; or the refusal, before the body is read.
///
/// # Errors
/// That of `found`, when what is left of a short body was read.
pub async fn or_drain<T>(found: Result<T, Reply>, body: Body) -> Result<(T, Body), Reply> {
    match found {
        Ok(found) => Ok((found, body)),
        Err(reply) => {
            drain(body).await;
            Err(reply)
        }
    }
}

/// All of a body, whose bytes are counted in the claim. One that says that it is too long is
/// refused unread.
///
/// # Errors
/// `size` (413) for more than `most` bytes, `time` (408) for a body that comes too slowly or not
/// within `patience`, `busy` (503) where there is no memory for it.
pub async fn read(body: Body, most: usize, patience: Duration, claim: &mut Claim) -> Result<Bytes, Reply> {
    if HttpBody::size_hint(&body).lower() > most as u64 {
        drain(body).await;
        return Err(too_long(most));
    }
    let (mut parts, mut bytes, began) = (body.into_data_stream(), Vec::new(), Instant::now());
    let due = |read: usize| {
        let paid = Duration::from_secs((read / BYTES_PER_S) as u64);
        (began + GRACE + paid).min(Instant::now() + SILENCE)
    };
    let whole = async {
        while let Ok(part) = timeout_at(due(bytes.len()), parts.next()).await {
            match part {
                None => return Ok(bytes.into()),
                Some(Ok(part)) if part.len() <= most - bytes.len() => {
                    timeout(WAITING, claim.grow(part.len())).await.map_err(|_| Reply::busy())?;
                    bytes.extend_from_slice(&part);
                }
                Some(_) => return Err(too_long(most)),
            }
        }
        Err(too_slow())
    };
    timeout(patience, whole).await.unwrap_or_else(|_| Err(too_slow()))
}

fn too_long(most: usize) -> Reply {
    let text = format!("expected a body of at most {most} bytes, found more, or an end too soon");
    Reply::new(StatusCode::PAYLOAD_TOO_LARGE, "size", text)
}

fn too_slow() -> Reply {
    Reply::new(StatusCode::REQUEST_TIMEOUT, "time", "expected the whole body sooner")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clients::Origin, memory::Memory, share::Share};
    use futures_util::stream;
    use std::convert::Infallible;

    fn parts(parts: &[&'static str], then_silent: bool) -> Body {
        let parts: Vec<_> = parts.iter().map(|part| Ok::<_, Infallible>(Bytes::from_static(part.as_bytes()))).collect();
        let rest = if then_silent { stream::pending().left_stream() } else { stream::empty().right_stream() };
        Body::from_stream(stream::iter(parts).chain(rest))
    }

    async fn word(body: Body, most: usize) -> Result<Bytes, &'static str> {
        read(body, most, Duration::from_secs(60), &mut claim(1 << 30)).await.map_err(|reply| reply.word)
    }

    fn claim(total: u64) -> Claim {
        Memory::new(total, Share::new(50)).claim(&Origin::Unknown)
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
    async fn a_body_that_says_it_is_too_long_is_refused_unread() {
        let began = Instant::now();
        let refused = read(Body::from(vec![0; 1 << 20]), 1 << 19, Duration::from_secs(60), &mut claim(u64::MAX)).await;
        assert!(refused.is_err_and(|reply| reply.word == "size"));
        drain(parts(&["a"], true)).await;
        assert_eq!(began.elapsed(), Duration::ZERO, "a body of unknown length is not waited for");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_without_memory_is_told_to_come_again() {
        let began = Instant::now();
        let refused = read(parts(&["abcd"], true), 100, Duration::from_secs(60), &mut claim(3)).await;
        assert!(refused.is_err_and(|reply| reply.word == "busy"));
        assert_eq!(began.elapsed(), WAITING);
    }
}
