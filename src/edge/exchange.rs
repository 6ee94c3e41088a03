//! A TCP connection with at most one HTTP/1 request. No call blocks: the caller polls the socket.

use crate::core::http_response::{Response, ResponseReader};
use crate::edge::watch::wait_until_ready;
use rustix::event::PollFlags;
use rustix::io::{Errno, Result as IoResult, read};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, connect, send, socket_with, sockopt};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Error of an exchange without an answer within the time limit.
pub const NO_ANSWER_IN_TIME: &str = "no answer in time";

/// Maximum number of reads in one call, so that a server that sends fast cannot block the caller.
const READS_MAX: u32 = 32;

/// A connection to the first of several addresses that accepts it.
pub struct Exchange {
    ips: Vec<IpAddr>,
    /// Number of addresses that were tried.
    tried: usize,
    port: u16,
    socket: Option<OwnedFd>,
    is_connected: bool,
    unsent: Vec<u8>,
    /// `None` if the connection alone is a success.
    reader: Option<ResponseReader>,
    /// Time limit for the whole exchange.
    pub deadline: Instant,
    /// Time limit for the current address, or for the response.
    pub due: Instant,
    error: Errno,
}

impl Exchange {
    /// Creates an exchange that sends `request` and reads the response, or that only connects.
    pub fn new(ips: Vec<IpAddr>, port: u16, request: Option<Vec<u8>>, deadline: Instant) -> Exchange {
        let reader = request.is_some().then(ResponseReader::default);
        let (unsent, error) = (request.unwrap_or_default(), Errno::ADDRNOTAVAIL);
        let (tried, socket, is_connected, due) = (0, None, false, deadline);
        Exchange { ips, tried, port, socket, is_connected, unsent, reader, deadline, due, error }
    }

    /// Starts again with another request to another port, in the same time.
    pub fn restart(&mut self, port: u16, request: Vec<u8>) {
        *self = Exchange::new(std::mem::take(&mut self.ips), port, Some(request), self.deadline);
    }

    /// Returns the socket, and the events to wait for before the next call of [`advance`](Exchange::advance).
    pub fn socket(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let sends = !self.is_connected || !self.unsent.is_empty();
        Some((self.socket.as_ref()?.as_fd(), if sends { PollFlags::OUT } else { PollFlags::IN }))
    }

    /// Continues without blocking. Returns `None` until the exchange has ended, and an empty response for a connection
    /// without a request. The error is a short description.
    pub fn advance(&mut self, now: Instant) -> Option<Result<Response, String>> {
        while !self.is_connected {
            let failed = match &self.socket {
                Some(socket) if wait_until_ready(socket, PollFlags::OUT, Duration::ZERO) => {
                    sockopt::socket_error(socket).and_then(|result| result).err()
                }
                Some(_) if now < self.due => return None,
                Some(_) => Some(Errno::TIMEDOUT),
                None => {
                    let Some(ip) = self.ips.get(self.tried) else { return Some(Err(describe(self.error))) };
                    let share = u32::try_from(self.ips.len() - self.tried).unwrap_or(u32::MAX);
                    self.due = now + self.deadline.saturating_duration_since(now) / share;
                    self.tried += 1;
                    match start(SocketAddr::new(*ip, self.port), &mut self.socket) {
                        Ok(()) => continue,
                        Err(error) => Some(error),
                    }
                }
            };
            match failed {
                None => (self.is_connected, self.due) = (true, self.deadline),
                Some(error) => {
                    self.socket = None;
                    // Of several errors, report a timeout.
                    self.error = if self.error == Errno::TIMEDOUT { self.error } else { error };
                }
            }
        }
        self.transfer(now)
    }

    fn transfer(&mut self, now: Instant) -> Option<Result<Response, String>> {
        let (Some(socket), Some(reader)) = (&self.socket, &mut self.reader) else {
            return Some(Ok(Response::default()));
        };
        let mut buffer = [0; 4096];
        for _ in 0..READS_MAX {
            let result = match self.unsent.is_empty() {
                true => read(socket, &mut buffer),
                false => send(socket, &self.unsent, SendFlags::NOSIGNAL),
            };
            match result {
                Ok(sent) if !self.unsent.is_empty() => drop(self.unsent.drain(..sent)),
                Ok(0) => return Some(reader.end(None)),
                Ok(length) => match reader.feed(&buffer[..length]) {
                    Ok(None) => {}
                    ended => return ended.transpose(),
                },
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Some(reader.end(Some(&describe(error)))),
            }
        }
        (now >= self.deadline).then(|| reader.end(Some(NO_ANSWER_IN_TIME)))
    }
}

/// Starts to connect to `address`.
fn start(address: SocketAddr, to: &mut Option<OwnedFd>) -> IoResult<()> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    match connect(to.insert(socket_with(family, SocketType::STREAM, flags, None)?), &address) {
        Err(error) if error != Errno::INPROGRESS => Err(error),
        _ => Ok(()),
    }
}

/// Describes the error of a connection, a file or a socket.
pub fn describe(error: Errno) -> String {
    match error {
        Errno::NOENT => "not found".to_owned(),
        Errno::CONNREFUSED => "refused".to_owned(),
        Errno::TIMEDOUT | Errno::AGAIN => NO_ANSWER_IN_TIME.to_owned(),
        _ => std::io::Error::from(error).to_string(),
    }
}
