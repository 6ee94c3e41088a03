//! Checks without a command: `file://`, `tcp://`, `http://`, `unix://`, `mount://`. A check of an IP address does not
//! block. Other checks can block on DNS or a dead mount, so they need a child process.

use crate::clock::now;
use podgate::core::argv::Check;
use podgate::core::http::{HOOK_USER_AGENT, HttpAttempt, PROBE_USER_AGENT};
use podgate::core::url::Url;
use podgate::edge::exchange::{self, Exchange};
use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::time::Instant;

/// Result of a `file://` check that cannot pass any more: the previous step has written `PATH.err`.
pub(super) const FAILURE_FILE_EXISTS: &str = "the previous step failed";

/// Runs a check once, a network check until `end`. The error is a short description of the result.
pub(super) fn run_in_process(check: &Check, is_hook: bool, pod_ip: Option<String>, end: Instant) -> Result<(), String> {
    match check {
        Check::File { path, needs_content } => check_file(path, *needs_content).map_err(|why| {
            if fs::symlink_metadata(failure_path(path)).is_ok() { FAILURE_FILE_EXISTS.into() } else { why }
        }),
        Check::Tcp { .. } | Check::Http { .. } => NetAttempt::start(check, is_hook, pod_ip, end)?.run_to_end(),
        Check::Unix(path) => connect_unix(path),
        Check::Mount(path) => check_mount(path),
        Check::Exec(_) => Err("needs a child process".into()),
    }
}

fn check_file(path: &str, needs_content: bool) -> Result<(), String> {
    match fs::metadata(path) {
        Ok(status) if needs_content && !status.is_file() => Err("not a regular file".into()),
        Ok(status) if needs_content && status.len() == 0 => Err("empty".into()),
        Ok(_) => Ok(()),
        Err(error) => Err(describe(error)),
    }
}

/// Returns the path of the file that the previous step writes if it fails.
pub(super) fn failure_path(path: &str) -> String {
    format!("{path}.err")
}

/// Connects to a stream socket. Does not block if the socket's backlog is full.
fn connect_unix(path: &str) -> Result<(), String> {
    if !fs::metadata(path).map_err(describe)?.file_type().is_socket() {
        return Err("not a socket".into());
    }
    let connect = || {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK, None)?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
    };
    connect().map_err(|error| match error {
        Errno::PROTOTYPE => "not a stream socket".into(),
        error => exchange::describe(error),
    })
}

fn describe(error: io::Error) -> String {
    Errno::from_io_error(&error).map_or_else(|| error.to_string(), exchange::describe)
}

/// Checks that `path` is a mount point and that its file system answers.
fn check_mount(path: &str) -> Result<(), String> {
    let path = fs::canonicalize(path).map_err(describe)?;
    // The device number would not distinguish a bind mount from a directory of the same file system.
    let mounts = fs::read("/proc/self/mountinfo").map_err(describe)?;
    // The kernel writes space, tab, newline and backslash as `\040` and so on.
    let escape = |byte: &u8| match byte {
        b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}").into_bytes(),
        byte => vec![*byte],
    };
    let escaped: Vec<u8> = path.as_os_str().as_bytes().iter().flat_map(escape).collect();
    let mut lines = mounts.split(|byte| *byte == b'\n');
    if !lines.any(|line| line.split(|byte| *byte == b' ').nth(4) == Some(&escaped)) {
        return Err("not a mount point".into());
    }
    rustix::fs::statfs(&path).map(drop).map_err(|error| describe(error.into()))
}

/// One attempt of a `tcp://` or `http://` check, which does not block.
pub(crate) struct NetAttempt {
    pub(crate) exchange: Exchange,
    http: Option<HttpAttempt>,
    /// True if every response is a success, as for a lifecycle hook.
    is_hook: bool,
}

impl NetAttempt {
    /// Starts an attempt. Blocks only to look up a host name.
    pub(crate) fn start(check: &Check, is_hook: bool, pod_ip: Option<String>, end: Instant) -> Result<Self, String> {
        let (Check::Tcp { host, port } | Check::Http { host, port, .. }) = check else {
            return Err("needs a child process".into());
        };
        let host = Some(host).filter(|host| !host.is_empty()).cloned().or(pod_ip);
        let host = host.ok_or("no sidecar has published the Pod's IP; write a host")?;
        let ips = match host.parse() {
            Ok(ip) => vec![ip],
            // A scratch image may have no /etc/hosts, so that resolving `localhost` would need DNS.
            Err(_) if host == "localhost" => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
            Err(_) => {
                let found = (host.as_str(), *port).to_socket_addrs().map_err(|error| error.to_string())?;
                found.take(4).map(|address| address.ip()).collect()
            }
        };
        let http = match check {
            Check::Http { path, headers, .. } => {
                let agent = if is_hook { HOOK_USER_AGENT } else { PROBE_USER_AGENT };
                Some(HttpAttempt::new(agent, Url::for_probe("http", &host, *port, path), headers)?)
            }
            _ => None,
        };
        let exchange = Exchange::new(ips, *port, http.as_ref().map(HttpAttempt::request), end);
        Ok(NetAttempt { exchange, http, is_hook })
    }

    /// Continues without blocking. Returns the outcome at the end of the attempt.
    pub(crate) fn advance(&mut self, now: Instant) -> Option<Result<(), String>> {
        loop {
            let response = self.exchange.advance(now)?;
            let Some(http) = &mut self.http else { return Some(response.map(drop)) };
            match response.and_then(|response| http.on_response(response)) {
                Ok(None) if http.url.scheme == "http" => self.exchange.restart(http.url.port(), http.request()),
                Ok(None) => return Some(Err("redirects to HTTPS, and the agent has no TLS".into())),
                Ok(Some(outcome)) if !(outcome.success || self.is_hook) => return Some(Err(outcome.detail)),
                ended => return Some(ended.map(drop)),
            }
        }
    }

    pub(crate) fn poll_fd(&self) -> Option<PollFd<'_>> {
        self.exchange.socket().map(|(socket, events)| PollFd::from_borrowed_fd(socket, events))
    }

    fn run_to_end(mut self) -> Result<(), String> {
        loop {
            let at = now();
            if let Some(outcome) = self.advance(at) {
                return outcome;
            }
            let pause = Timespec::try_from(self.exchange.due.saturating_duration_since(at)).ok();
            let _ = poll(&mut self.poll_fd().into_iter().collect::<Vec<_>>(), pause.as_ref());
        }
    }
}
