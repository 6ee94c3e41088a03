//! Request that makes a container exit, such as `POST http://127.0.0.1:15020/quitquitquit`.

use crate::core::argv::Check;
use std::fmt;
use std::str::FromStr;

/// HTTP request to a server of the Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quit {
    /// `POST` or `GET`.
    pub method: String,
    /// Address of the server: a name or address of the Pod itself.
    pub host: String,
    /// Port of the server.
    pub port: u16,
    /// Path and query of the request.
    pub path: String,
}

impl fmt::Display for Quit {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Quit { method, host, port, path } = self;
        let url = Check::Http { host: host.clone(), port: *port, path: path.clone() };
        write!(to, "{method} {url}")
    }
}

impl FromStr for Quit {
    type Err = String;

    fn from_str(text: &str) -> Result<Quit, String> {
        let (method, url) = text.trim().split_once(' ').unwrap_or(("POST", text.trim()));
        if !matches!(method, "GET" | "POST") {
            return Err(format!("{method:?} is neither GET nor POST"));
        }
        match url.trim().parse() {
            Ok(Check::Http { host, port, path }) if matches!(&*host, "localhost" | "127.0.0.1" | "::1") => {
                Ok(Quit { method: method.to_owned(), host, port, path })
            }
            Ok(Check::Http { host, .. }) => Err(format!("{host} is another host")),
            _ => Err(format!("{:?} is not an HTTP URL", url.trim())),
        }
    }
}
