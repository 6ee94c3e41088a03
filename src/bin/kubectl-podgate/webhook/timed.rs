//! A connection with a time for everything: who sends nothing, or a byte at a time, is hung up on.
//!
//! hyper's own limit for request headers runs between two requests too. The API server keeps idle connections for 90 s
//! (`IdleConnTimeout`); to hang up before it does would fail the request that it sends at that very moment. So there are two
//! limits here, a long one between requests and a short one within a head.

use crate::clock::now;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Sleep;

/// From the first byte of a request's head to its last.
const HEAD: Duration = Duration::from_secs(10);
/// Before the first request, and between two: longer than the API server's own 90 s.
const IDLE: Duration = Duration::from_secs(150);
/// For one piece of an answer to be taken.
const WRITE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Fresh,
    Head,
    Busy,
    Idle,
}

/// What a connection is doing, and since when.
#[derive(Debug)]
pub(crate) struct Pulse {
    phase: Mutex<(Phase, Instant)>,
    /// Rung when somebody else needs its place.
    pub(crate) leave: Notify,
}

impl Pulse {
    pub(crate) fn new() -> Arc<Pulse> {
        Arc::new(Pulse { phase: Mutex::new((Phase::Fresh, now())), leave: Notify::new() })
    }

    fn get(&self) -> (Phase, Instant) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = (phase, now());
    }

    /// A request's head is there.
    pub(crate) fn begin(&self) {
        self.set(Phase::Busy);
    }

    /// Its answer is ready.
    pub(crate) fn end(&self) {
        self.set(Phase::Idle);
    }

    /// Since when nobody has had any use of it; `None` while a request is worked on.
    pub(crate) fn useless_since(&self) -> Option<Instant> {
        let (phase, since) = self.get();
        (phase != Phase::Busy).then_some(since)
    }

    /// No request has come yet, or not the whole of its head.
    pub(crate) fn has_nothing_yet(&self) -> bool {
        matches!(self.get().0, Phase::Fresh | Phase::Head)
    }

    fn bytes(&self) {
        if matches!(self.get().0, Phase::Fresh | Phase::Idle) {
            self.set(Phase::Head);
        }
    }

    fn read_by(&self) -> Option<Instant> {
        match self.get() {
            (Phase::Head, since) => Some(since + HEAD),
            (Phase::Fresh | Phase::Idle, since) => Some(since + IDLE),
            // What reads a body has its own limit.
            (Phase::Busy, _) => None,
        }
    }
}

pub(crate) struct Timed<S> {
    stream: S,
    pulse: Arc<Pulse>,
    reading: Pin<Box<Sleep>>,
    writing: Pin<Box<Sleep>>,
    stalled: bool,
}

impl<S> Timed<S> {
    pub(crate) fn new(stream: S, pulse: Arc<Pulse>) -> Timed<S> {
        let sleep = || Box::pin(tokio::time::sleep(HEAD));
        Timed { stream, pulse, reading: sleep(), writing: sleep(), stalled: false }
    }

    fn late(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(by) = self.pulse.read_by() else { return Poll::Pending };
        let by = by.into();
        if self.reading.deadline() != by {
            self.reading.as_mut().reset(by);
        }
        self.reading.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    /// `result`, or an error if the other side has taken nothing for too long.
    fn written<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.stalled = false;
            return result;
        }
        if !self.stalled {
            self.stalled = true;
            self.writing.as_mut().reset((now() + WRITE).into());
        }
        self.writing.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        match Pin::new(&mut this.stream).poll_read(cx, buffer) {
            Poll::Pending => this.late(cx),
            ready => {
                if buffer.filled().len() > before {
                    this.pulse.bytes();
                }
                ready
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.written(cx, result)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_flush(cx);
        this.written(cx, result)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_shutdown(cx);
        this.written(cx, result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }

    /// `phase`, as if it had begun `ago`.
    fn since(pulse: &Pulse, phase: Phase, ago: Duration) {
        *pulse.phase.lock().unwrap() = (phase, now().checked_sub(ago).unwrap());
    }

    #[test]
    fn a_head_has_its_time_and_an_idle_connection_more() {
        run(async {
            let (mut client, server) = tokio::io::duplex(64);
            let pulse = Pulse::new();
            let mut timed = Timed::new(server, Arc::clone(&pulse));
            let mut byte = [0];
            since(&pulse, Phase::Idle, HEAD * 2);
            client.write_all(b"G").await.unwrap();
            assert_eq!(timed.read(&mut byte).await.unwrap(), 1, "idle for longer than a head may take");
            assert_eq!(pulse.get().0, Phase::Head);
            since(&pulse, Phase::Head, HEAD);
            assert_eq!(timed.read(&mut byte).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
            since(&pulse, Phase::Fresh, IDLE);
            assert_eq!(timed.read(&mut byte).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
            since(&pulse, Phase::Idle, IDLE);
            assert_eq!(timed.read(&mut byte).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
            since(&pulse, Phase::Busy, IDLE * 2);
            client.write_all(b"G").await.unwrap();
            assert_eq!(timed.read(&mut byte).await.unwrap(), 1);
            assert_eq!(pulse.get().0, Phase::Busy, "a body's bytes are no head");
        });
    }

    #[test]
    fn an_answer_that_nobody_takes_is_given_up() {
        run(async {
            let (_client, server) = tokio::io::duplex(1);
            let mut timed = Timed::new(server, Pulse::new());
            timed.write_all(b"a").await.unwrap();
            timed.stalled = true;
            timed.writing.as_mut().reset(now().into());
            assert_eq!(timed.write_all(b"much").await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        });
    }
}
