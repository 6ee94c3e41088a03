//! Request that makes a container exit, such as `POST http://127.0.0.1:15020/quitquitquit`.

use crate::core::argv::Check;

/// Parses a request to a server of the Pod. Returns the method, `GET` or `POST` (the default), and the URL.
pub fn parse(text: &str) -> Result<(&str, Check), String> {
    let (method, url) = text.trim().split_once(' ').unwrap_or(("POST", text.trim()));
    if !matches!(method, "GET" | "POST") {
        return Err(format!("{method:?} is neither GET nor POST"));
    }
    match url.trim().parse() {
        Ok(Check::Http { host, .. }) if host.is_empty() => Err("the URL has no host".to_owned()),
        Ok(Check::Http { host, .. }) if !is_local(Some(&host)) => Err(format!("{host} is another host")),
        Ok(url @ Check::Http { .. }) => Ok((method, url)),
        _ => Err(format!("{:?} is not an HTTP URL", url.trim())),
    }
}

/// Returns true if the host of a probe, check or request means the Pod itself.
pub fn is_local(host: Option<&str>) -> bool {
    matches!(host, None | Some("" | "localhost" | "127.0.0.1" | "::1"))
}
