//! A stream that fails if its peer does not read.
//!
//! A client that never reads its answer would hold a connection for ever. So the stream fails if
//! not one byte can be sent within the limit. The stream also fails if the peer reads too slowly:
//! each 240 bytes that it reads pay for one second of waiting, and the waiting beyond that must not
//! exceed the limit in sum.
//!
//! After the close the stream still reads for a moment. A socket that closes with unread bytes is
//! reset, and its peer might never see the last answer.

use std::{
    future::Future,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

/// The least average rate of the peer while bytes wait, in bytes a second.
const BYTES_PER_S: f64 = 240.0;
/// The most bytes of a closed stream that are read and discarded, and the time for them.
const LINGER_BYTES: usize = 64 << 10;
const LINGER: Duration = Duration::from_secs(1);

/// A stream that fails if the peer reads nothing, or next to nothing.
pub(crate) struct StallTimeoutStream<S> {
    stream: S,
    limit: Duration,
    /// The timer, and its start, while bytes wait for the peer.
    waiting: Option<(Pin<Box<Sleep>>, Instant)>,
    /// How long the peer let us wait beyond the time that its reading paid for.
    owed: Duration,
    /// After the close: the remaining time and bytes.
    lingering: Option<(Pin<Box<Sleep>>, usize)>,
}

impl<S> StallTimeoutStream<S> {
    pub(crate) fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, waiting: None, owed: Duration::ZERO, lingering: None }
    }

    /// The result of a write, or the failure if it has waited too long.
    fn within<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        bytes: impl FnOnce(&T) -> usize,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        let late = || io::Error::from(io::ErrorKind::TimedOut);
        match written {
            Poll::Ready(Ok(taken)) => {
                let waited = self.waiting.take().map_or(Duration::ZERO, |(_, since)| since.elapsed());
                let paid = Duration::from_secs_f64(bytes(&taken) as f64 / BYTES_PER_S);
                self.owed = (self.owed + waited).saturating_sub(paid);
                Poll::Ready(if self.owed > self.limit { Err(late()) } else { Ok(taken) })
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                let limit = self.limit;
                let (waiting, _) = self.waiting.get_or_insert_with(|| (Box::pin(sleep(limit)), Instant::now()));
                waiting.as_mut().poll(context).map(|()| Err(late()))
            }
        }
    }
}

impl<S: AsyncRead + Unpin> StallTimeoutStream<S> {
    /// Reads for a moment, and waits until the time is over if more bytes come: a client that is
    /// still sending reads the answer meanwhile.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let limit = self.limit.min(LINGER);
        let (over, left) = self.lingering.get_or_insert_with(|| (Box::pin(sleep(limit)), LINGER_BYTES));
        let mut bytes = [0; 4096];
        while over.as_mut().poll(context).is_pending() {
            if *left == 0 {
                return Poll::Pending;
            }
            let mut buffer = ReadBuf::new(&mut bytes);
            let read = ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer));
            let count = buffer.filled().len();
            if read.is_err() || count == 0 {
                break;
            }
            *left = left.saturating_sub(count);
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallTimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for StallTimeoutStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.within(written, |bytes| *bytes, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.within(written, |bytes| *bytes, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.within(flushed, |()| 0, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingering.is_none() {
            let closed = Pin::new(&mut self.stream).poll_shutdown(context);
            ready!(self.within(closed, |()| 0, context))?;
        }
        self.poll_linger(context).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    /// Sends to a client that reads `each` bytes after every `pause`. Returns the time, and whether
    /// the client got everything.
    async fn send_to(each: usize, pause: Duration) -> (u64, bool) {
        let (server, mut client) = duplex(1024);
        let mut stream = StallTimeoutStream::new(server, Duration::from_secs(10));
        let reader = tokio::spawn(async move {
            let mut bytes = vec![0; each];
            while client.read_exact(&mut bytes).await.is_ok() {
                sleep(pause).await;
            }
        });
        let began = Instant::now();
        let sent = stream.write_all(&vec![7; 100_000]).await.is_ok();
        reader.abort();
        (began.elapsed().as_secs(), sent)
    }

    #[tokio::test(start_paused = true)]
    async fn fault_27_a_reader_that_takes_a_few_bytes_now_and_then_is_cut_off() {
        let (seconds, sent) = send_to(100, Duration::from_secs(5)).await;
        assert!(!sent && seconds <= 30, "{seconds}");
        let (seconds, sent) = send_to(100, Duration::from_secs(11)).await;
        assert!(!sent && seconds <= 22, "{seconds}");
        let (seconds, sent) = send_to(2_000, Duration::from_secs(5)).await;
        assert!(sent && seconds > 200, "a slow line is no fault: {seconds}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_stream_is_read_on_for_a_moment_and_no_longer() {
        let (server, mut client) = duplex(1024);
        let mut stream = StallTimeoutStream::new(server, Duration::from_secs(10));
        let (began, closed) = (Instant::now(), tokio::spawn(async move { stream.shutdown().await.map(|()| stream) }));
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0, "its peer hears of it at once");
        let sent = tokio::time::timeout(Duration::from_secs(5), client.write_all(&[0; 1 << 20])).await;
        assert!(sent.is_err(), "not all of it is read");
        assert!(closed.await.unwrap().is_ok() && began.elapsed() <= Duration::from_secs(6));
    }
}
