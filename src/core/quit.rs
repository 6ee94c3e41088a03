//! Request that makes a container exit, such as `POST http://127.0.0.1:15020/quitquitquit`.

use crate::core::argv::Check;
use crate::core::words::words;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

words! {
    /// HTTP method of a [`Quit`].
    Method {
        /// A request that some servers use for a change too.
        Get = "GET",
        /// The default.
        Post = "POST",
    }
}

/// HTTP request to a server of the Pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Quit {
    /// Method of the request.
    pub method: Method,
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
        write!(to, "{} {url}", method.as_str())
    }
}

impl From<Quit> for String {
    fn from(quit: Quit) -> String {
        quit.to_string()
    }
}

impl TryFrom<String> for Quit {
    type Error = String;

    fn try_from(text: String) -> Result<Quit, String> {
        text.parse()
    }
}

impl FromStr for Quit {
    type Err = String;

    fn from_str(text: &str) -> Result<Quit, String> {
        let (method, url) = text.trim().split_once(' ').unwrap_or(("POST", text.trim()));
        let method = method.parse().map_err(|_| format!("{method:?} is neither GET nor POST"))?;
        match url.trim().parse() {
            Ok(Check::Http { host, port, path }) if matches!(&*host, "localhost" | "127.0.0.1" | "::1") => {
                Ok(Quit { method, host, port, path })
            }
            Ok(Check::Http { host, .. }) => Err(format!("{host} is another host")),
            _ => Err(format!("{:?} is not an HTTP URL", url.trim())),
        }
    }
}
