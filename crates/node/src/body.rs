//! Reads the whole body of a request within limits of size and time, and within the client's share
//! of memory.
//!
//! **The order.** A handler first checks the client, its permission, and the existence of the named
//! object. A refusal is sent before the body is read. Then the body is read, and only then the
//! request takes a turn ([`crate::turns`]): a slow sender holds its own memory ([`crate::memory`])
//! and nothing else.

use std::time::Duration;

use axum::{
    body::{Body, Bytes, HttpBody},
    http::StatusCode,
};
use futures_util::StreamExt;
use tokio::time::{Instant, timeout, timeout_at};

use crate::{memory::Claim, reply::Reply};

/// The most bytes of a refused request that the server still reads, and the time for them. After
/// such a body the client can send its next request on the same connection. A longer body is not
/// read: the refusal is sent at once, and the connection is closed.
pub(crate) const DRAINED: u64 = 64 << 10;
const DRAINING: Duration = Duration::from_secs(2);
/// The longest pause of a sender within a body.
const SILENCE: Duration = Duration::from_secs(20);
/// The least average rate since the body began, in bytes a second, and how long a sender may stay
/// below it.
const BYTES_PER_S: usize = 240;
const GRACE: Duration = Duration::from_secs(5);
/// How long a request waits for a turn or for memory.
pub const WAITING: Duration = Duration::from_secs(2);

/// Reads and discards the rest of a refused request if it is short.
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

/// Returns the result with the untouched body, or the refusal.
///
/// # Errors
/// The error of `found`, after the rest of a short body was discarded.
pub async fn or_drain<T>(found: Result<T, Reply>, body: Body) -> Result<(T, Body), Reply> {
    match found {
        Ok(found) => Ok((found, body)),
        Err(reply) => {
            drain(body).await;
            Err(reply)
        }
    }
}

/// Reads a whole body and counts its bytes in the claim. A body whose announced length is too long
/// is refused before it is read into memory.
///
/// # Errors
/// `size` (413) for more than `most` bytes, `time` (408) for a body that arrives too slowly or not
/// within `patience`, `busy` (503) if there is no memory for the body.
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
        // below the least rate
        assert_eq!(seconds(parts(&["a"], true)).await, GRACE.as_secs());
        assert_eq!(seconds(slow(GRACE / 50, 1, 1)).await, GRACE.as_secs());
        assert_eq!(seconds(slow(GRACE, BYTES_PER_S, 1)).await, GRACE.as_secs() + 1);
        // fast enough, and then silent
        assert_eq!(seconds(slow(Duration::MAX, 1 << 19, 1)).await, SILENCE.as_secs());
        // always fast enough, but not done within the patience
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
