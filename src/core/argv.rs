//! Commands and check URLs as users write them on the command line.

use crate::core::http::Header;
use crate::core::url::authority;
use std::fmt;
use std::str::FromStr;

/// A command, written as a JSON list of strings: `["pg_isready","-q"]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argv(Vec<String>);

impl Argv {
    /// Creates a command from a program and its arguments. Fails if the program is missing or a word contains NUL.
    pub fn new(words: Vec<String>) -> Result<Argv, ParseError> {
        match words.first() {
            Some(program) if !program.is_empty() && words.iter().all(|word| !word.contains('\0')) => Ok(Argv(words)),
            _ => Err("a command needs a program as its first word and must not contain NUL".into()),
        }
    }

    /// Returns the command's words: the program, which is never empty, then its arguments.
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }
}

/// Check of the flag `--check`. The agent performs it inside the container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// `tcp://HOST:PORT`: passes if the port accepts a connection.
    Tcp {
        /// Host name or IP address; empty for the Pod's IP.
        host: String,
        /// Port number from 1 to 65535.
        port: u16,
    },
    /// `http://HOST[:PORT][/PATH] [["NAME: VALUE"]]`: passes if the response status is 200 to 399.
    Http {
        /// Host name or IP address; empty for the Pod's IP.
        host: String,
        /// Port number from 1 to 65535; 80 if the URL contains no port.
        port: u16,
        /// Path and query of the request, beginning with `/`.
        path: String,
        /// Headers of the request.
        headers: Vec<Header>,
    },
    /// `exec:["COMMAND","ARG"]`: passes if the command exits with 0.
    Exec(Argv),
    /// `file:///PATH`: passes if the file exists. With `+content` appended, the file must not be empty.
    File {
        /// Absolute path of the file.
        path: String,
        /// True if the check fails on an empty file.
        needs_content: bool,
    },
    /// `unix:///PATH`: passes if the stream socket accepts a connection. The path is absolute.
    Unix(String),
    /// `mount:///PATH`: passes if the path is a mount point whose file system answers. The path is absolute.
    Mount(String),
}

impl Check {
    /// Returns true if another container of the Pod can run the check with the same result.
    pub fn is_network(&self) -> bool {
        matches!(self, Check::Tcp { .. } | Check::Http { .. })
    }
}

/// Error: the text is not a valid value. Contains what is wrong and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

impl<T: Into<String>> From<T> for ParseError {
    fn from(text: T) -> ParseError {
        ParseError(text.into())
    }
}

impl FromStr for Argv {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match serde_json::from_str(text) {
            Ok(words) => Argv::new(words),
            Err(error) => Err(format!("not a JSON list of strings ({error}); write [\"command\",\"argument\"]").into()),
        }
    }
}

impl FromStr for Check {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if let Some(argv) = text.strip_prefix("exec:") {
            return argv.parse().map(Check::Exec);
        }
        if let Some(rest) = text.strip_prefix("file://") {
            let (path, content) = rest.strip_suffix("+content").map_or((rest, false), |path| (path, true));
            return match path.starts_with('/') && !path.contains('\0') {
                true => Ok(Check::File { path: path.to_owned(), needs_content: content }),
                false => Err("a file check needs an absolute path: file:///run/ready".into()),
            };
        }
        for (scheme, check) in [("unix://", Check::Unix as fn(String) -> Check), ("mount://", Check::Mount)] {
            let Some(path) = text.strip_prefix(scheme) else { continue };
            // 107 bytes is the kernel's limit for a socket path, without the final NUL (unix(7)).
            if scheme == "unix://" && path.len() > 107 {
                return Err("the path of a socket has at most 107 bytes".into());
            }
            return match path.starts_with('/') && !path.contains('\0') {
                true => Ok(check(path.to_owned())),
                false => Err(format!("this check needs an absolute path: {scheme}/run/example").into()),
            };
        }
        if let Some(rest) = text.strip_prefix("tcp://") {
            let (host, port) = parse_host_port(rest, None)?;
            return Ok(Check::Tcp { host, port });
        }
        if let Some(rest) = text.strip_prefix("http://") {
            let (rest, headers) = rest.split_once(' ').unwrap_or((rest, "[]"));
            let at = rest.find(['/', '?']).unwrap_or(rest.len());
            let (host, port) = parse_host_port(&rest[..at], Some(80))?;
            let tail = &rest[at..];
            let headers: Option<Vec<String>> = serde_json::from_str(headers).ok();
            let headers = headers.and_then(|list| list.iter().map(|text| Header::parse(text)).collect());
            let Some(headers) = headers else {
                return Err(r#"write headers after the path, as a JSON list: ["NAME: VALUE"]"#.into());
            };
            if !tail.bytes().all(|b| b.is_ascii_graphic()) {
                return Err("spaces and non-ASCII characters in a path must be percent-encoded".into());
            }
            let path = if tail.starts_with('/') { tail.to_owned() } else { format!("/{tail}") };
            return Ok(Check::Http { host, port, path, headers });
        }
        let why = if text.starts_with("https://") {
            "https:// is not supported because the agent has no TLS; use tcp://, exec:[…] or the readiness probe"
        } else {
            "not a check; write tcp://HOST:PORT, http://HOST:PORT/PATH, exec:[\"command\",\"argument\"], \
             file:///PATH[+content], unix:///PATH or mount:///PATH"
        };
        Err(why.into())
    }
}

fn parse_host_port(text: &str, default: Option<u16>) -> Result<(String, u16), ParseError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, rest)) => (host, rest.strip_prefix(':')),
            None => return Err("an IPv6 address needs a closing bracket".into()),
        },
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let has_name = port.is_some_and(|port| port.bytes().any(|byte| byte.is_ascii_alphabetic()));
    let is_pod = host.is_empty() && port.is_some();
    let host_ok =
        (is_pod || !host.is_empty()) && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:%".contains(&b));
    let port = port.map_or(default, |digits| digits.parse().ok().filter(|port| *port != 0));
    match (host_ok, port) {
        (true, Some(port)) => Ok((host.to_owned(), port)),
        (false, _) => Err(format!("{text:?} has no valid host; write HOST:PORT, such as 127.0.0.1:5432").into()),
        (true, None) if has_name => Err(format!("{text:?} has no port number; a check cannot use a port name").into()),
        (true, None) => Err(format!("{text:?} has no port from 1 to 65535").into()),
    }
}

impl fmt::Display for Argv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(&self.0).unwrap_or_default())
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Check::Tcp { host, port } => write!(f, "tcp://{}", authority(host, *port)),
            Check::Http { host, port, path, headers } => {
                write!(f, "http://{}{path}", authority(host, *port))?;
                let headers: Vec<_> = headers.iter().map(|Header { name, value }| format!("{name}: {value}")).collect();
                if headers.is_empty() { Ok(()) } else { write!(f, " {}", Argv(headers)) }
            }
            Check::Exec(argv) => write!(f, "exec:{argv}"),
            Check::File { path, needs_content: content } => {
                write!(f, "file://{path}{}", if *content { "+content" } else { "" })
            }
            Check::Unix(path) => write!(f, "unix://{path}"),
            Check::Mount(path) => write!(f, "mount://{path}"),
        }
    }
}
