//! Checks without a command: `file://`, `tcp://`, `http://`, `unix://`, `mount://`. A check of an IP address ends at
//! its time limit. Other checks can block longer on DNS or a dead mount, so they need a child process.

use crate::clock::now;
use podgate::core::argv::Check;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::time::Duration;

/// Size limit for the status line, in bytes.
const STATUS_LINE_MAX: usize = 1024;

/// Result of a check whose address does not answer within the time limit.
pub(super) const NO_ANSWER: &str = "no answer in time";
/// Result of a `file://` check that cannot pass any more: the previous step has written `PATH.err`.
pub(super) const PREVIOUS_STEP_FAILED: &str = "the previous step failed";

/// Runs a check once, within `limit`. The error is a short description of the result.
pub(super) fn run_check(check: &Check, limit: Duration) -> Result<(), String> {
    match check {
        Check::File { path, needs_content } => check_file(path, *needs_content).map_err(|why| {
            let has_failed = fs::symlink_metadata(failure_file(path)).is_ok();
            if has_failed { PREVIOUS_STEP_FAILED.to_owned() } else { why }
        }),
        Check::Tcp { host, port } => connect(host, *port, limit).map(drop).map_err(|e| describe(&e)),
        Check::Http { host, port, path } => match get_status(host, *port, path, limit) {
            Ok(200..=399) => Ok(()),
            Ok(status) => Err(format!("answered {status}")),
            Err(error) => Err(describe(&error)),
        },
        Check::Unix(path) => connect_unix(path),
        Check::Mount(path) => check_mount(path),
        Check::Exec(_) => Err("needs a child process".to_owned()),
    }
}

fn check_file(path: &str, needs_content: bool) -> Result<(), String> {
    match fs::metadata(path) {
        Ok(status) if needs_content && !status.is_file() => Err("not a regular file".to_owned()),
        Ok(status) if needs_content && status.len() == 0 => Err("empty".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(describe(&error)),
    }
}

/// Returns the file that the previous step writes if it fails.
pub(super) fn failure_file(path: &str) -> String {
    format!("{path}.err")
}

/// Connects to a stream socket. Does not block if the socket's backlog is full.
fn connect_unix(path: &str) -> Result<(), String> {
    let status = fs::metadata(path).map_err(|error| describe(&error))?;
    if !status.file_type().is_socket() {
        return Err("not a socket".to_owned());
    }
    let connect = || {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK, None)?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
    };
    connect().map_err(|error| match error {
        Errno::PROTOTYPE => "not a stream socket".to_owned(),
        _ => describe(&error.into()),
    })
}

/// Checks that `path` is a mount point and that its file system answers.
fn check_mount(path: &str) -> Result<(), String> {
    let failed = |error: io::Error| describe(&error);
    let path = fs::canonicalize(path).map_err(failed)?;
    // The device number would not distinguish a bind mount from a directory of the same file system.
    let mounts = fs::read("/proc/self/mountinfo").map_err(failed)?;
    // The kernel writes space, tab, newline and backslash as `\040` and so on.
    let escape = |byte: &u8| match byte {
        b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}").into_bytes(),
        byte => vec![*byte],
    };
    let escaped: Vec<u8> = path.as_os_str().as_bytes().iter().flat_map(escape).collect();
    let mut lines = mounts.split(|byte| *byte == b'\n');
    if !lines.any(|line| line.split(|byte| *byte == b' ').nth(4) == Some(&escaped)) {
        return Err("not a mount point".to_owned());
    }
    rustix::fs::statfs(&path).map(drop).map_err(|error| failed(error.into()))
}

/// Checks once, within `limit`, that the port does not accept connections.
pub(super) fn check_closed(check: &Check, limit: Duration) -> Result<(), String> {
    let Check::Tcp { host, port } = check else { return Err("not a port".to_owned()) };
    let outcome = connect(host, *port, limit);
    closed_outcome(outcome.is_ok(), outcome.is_err_and(|error| is_timeout(&error)))
}

/// Returns the result of a check for a closed port. A timeout does not prove that the port is closed: the backlog may
/// be full or the process stopped.
pub(super) fn closed_outcome(answered: bool, is_late: bool) -> Result<(), String> {
    match (answered, is_late) {
        (true, _) => Err("accepts connections".to_owned()),
        (false, true) => Err(NO_ANSWER.to_owned()),
        (false, false) => Ok(()),
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "not found".to_owned(),
        io::ErrorKind::ConnectionRefused => "refused".to_owned(),
        _ if is_timeout(error) => NO_ANSWER.to_owned(),
        _ => error.to_string(),
    }
}

fn connect(host: &str, port: u16, limit: Duration) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        Ok(ip) => vec![(ip, port).into()],
        // A scratch image may have no /etc/hosts, so that resolving `localhost` would need DNS.
        Err(_) if host == "localhost" => {
            vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()]
        }
        Err(_) => (host, port).to_socket_addrs()?.take(4).collect(),
    };
    let each = limit / u32::try_from(addresses.len()).unwrap_or(1).max(1);
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, each.max(Duration::from_millis(1))) {
            Ok(stream) => return Ok(stream),
            // With several addresses, prefer a timeout over a refused connection as the error.
            Err(_) if is_timeout(&last) => {}
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Sends a GET request and returns the response status.
fn get_status(host: &str, port: u16, path: &str, limit: Duration) -> io::Result<u16> {
    let deadline = now() + limit;
    let mut stream = connect(host, port, limit)?;
    stream.set_write_timeout(Some(limit))?;
    let bracketed = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {bracketed}:{port}\r\nUser-Agent: podgate/{}\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        env!("CARGO_PKG_VERSION")
    );
    // Write in one piece: a server may respond and close the connection after the first part.
    stream.write_all(request.as_bytes())?;
    let mut line = Vec::new();
    let mut buffer = [0; 256];
    while !line.contains(&b'\n') && line.len() < STATUS_LINE_MAX {
        // Apply one deadline to the whole response, even if the server sends it byte by byte.
        let left = deadline.saturating_duration_since(now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer)? {
            0 => break,
            length => line.extend_from_slice(&buffer[..length]),
        }
    }
    parse_status(&line).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not an HTTP response"))
}

fn parse_status(line: &[u8]) -> Option<u16> {
    let rest = line.strip_prefix(b"HTTP/1.")?;
    let digits = rest.get(2..5)?;
    if rest[1] != b' ' || !digits.iter().all(u8::is_ascii_digit) || rest.get(5).is_some_and(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}
