//! Parses the subset of URLs that a probe and its redirects need, like Go's `net/url`, which the kubelet uses.

/// URL of a probe, a hook or a redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Scheme in lowercase.
    pub scheme: String,
    /// Host name or IP address, without brackets.
    pub host: String,
    /// Host and port as written, for the `Host` header.
    pub authority: String,
    port: Option<u16>,
    /// Path, percent-encoded. Empty or with a leading slash.
    path: String,
    /// Query without the question mark.
    query: Option<String>,
}

/// Parts of a URL reference, without the fragment.
#[derive(Default)]
struct Reference {
    scheme: Option<String>,
    authority: Option<String>,
    path: String,
    query: Option<String>,
}

impl Url {
    /// Returns the URL of a probe. A scheme or host in `path` is ignored.
    pub fn for_probe(scheme: &str, host: &str, port: u16, path: &str) -> Url {
        // Like the kubelet, treat an invalid reference as a path that must be encoded.
        let reference = Reference::parse(path)
            .unwrap_or_else(|| Reference { path: percent_encode(path, b"%?#"), ..Default::default() });
        let path = reference.path;
        Url {
            scheme: scheme.to_ascii_lowercase(),
            host: host.to_owned(),
            authority: authority(host, port),
            port: Some(port),
            path: if path.is_empty() || path.starts_with('/') { path } else { format!("/{path}") },
            query: reference.query,
        }
    }

    /// Resolves the `Location` header `text` of a response from `self`. Returns `None` if `text` is invalid.
    pub fn join(&self, text: &str) -> Option<Url> {
        let reference = Reference::parse(text)?;
        if reference.scheme.is_none() && reference.authority.is_none() {
            let (path, query) = if reference.path.is_empty() {
                (self.path.clone(), reference.query.or_else(|| self.query.clone()))
            } else if reference.path.starts_with('/') {
                (reference.path, reference.query)
            } else {
                let directory = self.path.rsplit_once('/').map_or("", |(directory, _)| directory);
                (format!("{directory}/{}", reference.path), reference.query)
            };
            return Some(Url { path: resolve_dots(&path), query, ..self.clone() });
        }
        let authority = reference.authority.unwrap_or_default();
        let (host, port) = split_authority(&authority)?;
        Some(Url {
            scheme: reference.scheme.unwrap_or_else(|| self.scheme.clone()),
            host: host.to_owned(),
            port,
            path: resolve_dots(&reference.path),
            query: reference.query,
            authority,
        })
    }

    /// Returns true if the `Location` header `text` has a scheme.
    pub fn is_absolute(text: &str) -> bool {
        Reference::parse(text).is_some_and(|reference| reference.scheme.is_some())
    }

    /// Returns the port, by default the standard port of the scheme.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(if self.scheme == "https" { 443 } else { 80 })
    }

    /// Returns path and query, as in a request line.
    pub fn target(&self) -> String {
        let path = if self.path.is_empty() { "/" } else { &self.path };
        match &self.query {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        }
    }
}

impl Reference {
    /// Parses a URL reference. Returns `None` if `text` contains control characters or invalid percent-encoding.
    fn parse(text: &str) -> Option<Reference> {
        if text.bytes().any(|byte| byte.is_ascii_control()) {
            return None;
        }
        let text = text.split_once('#').map_or(text, |(text, _)| text);
        let (scheme, rest) = match text.split_once(':') {
            Some((scheme, rest)) if is_scheme(scheme) => (Some(scheme.to_ascii_lowercase()), rest),
            _ => (None, text),
        };
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) => {
                let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                (Some(authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_owned()), path)
            }
            None => (None, rest),
        };
        is_well_encoded(path).then(|| Reference {
            scheme,
            authority,
            path: percent_encode(path, b""),
            query: query.map(|query| percent_encode(query, b"")),
        })
    }
}

/// Returns host and port as in a URL.
pub fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Returns the host without brackets, and the port; an empty port counts as no port.
fn split_authority(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, if port.is_empty() { port } else { port.strip_prefix(':')? })
        }
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    if port.is_empty() { Some((host, None)) } else { Some((host, Some(port.parse().ok()?))) }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Returns true if two hexadecimal digits follow each `%`.
fn is_well_encoded(text: &str) -> bool {
    let is_hex = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let bytes = text.as_bytes();
    (0..bytes.len()).all(|at| bytes[at] != b'%' || (is_hex(bytes.get(at + 1)) && is_hex(bytes.get(at + 2))))
}

/// Percent-encodes bytes that are not allowed in a request line, and the bytes in `also`.
fn percent_encode(text: &str, also: &[u8]) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if !byte.is_ascii_graphic() || b"\"<>\\^`{|}#".contains(&byte) || also.contains(&byte) {
            encoded.push_str(&format!("%{byte:02X}"));
        } else {
            encoded.push(char::from(byte));
        }
    }
    encoded
}

/// Removes `.` and `..` from `path` (RFC 3986, section 5.2.4).
fn resolve_dots(path: &str) -> String {
    if path.is_empty() {
        return String::new();
    }
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.strip_prefix('/').unwrap_or(path).split('/') {
        match segment {
            "." => {}
            ".." => _ = kept.pop(),
            _ => kept.push(segment),
        }
    }
    // A path that ends in `.` or `..` is a directory and keeps its trailing slash.
    if matches!(path.rsplit('/').next(), Some("." | "..")) {
        kept.push("");
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_path_is_parsed_as_by_the_kubelet() {
        for (path, target) in [
            ("", "/"),
            ("/", "/"),
            ("healthz", "/healthz"),
            ("/a b?c=d e#f", "/a%20b?c=d%20e"),
            ("?ready", "/?ready"),
            ("/a%2Fb", "/a%2Fb"),
            ("/50%?x", "/50%25%3Fx"),
            ("/ü", "/%C3%BC"),
            ("//other/x", "/x"),
            ("http://other:1/x?y", "/x?y"),
            ("/../x", "/../x"),
            ("/a\r\nHost: x", "/a%0D%0AHost:%20x"),
        ] {
            let url = Url::for_probe("HTTP", "10.0.0.1", 80, path);
            assert_eq!((url.target().as_str(), url.authority.as_str()), (target, "10.0.0.1:80"), "{path}");
        }
        assert_eq!(Url::for_probe("https", "::1", 8443, "/").authority, "[::1]:8443");
    }

    #[test]
    fn redirects_are_resolved_as_by_gos_client() {
        let base = Url::for_probe("http", "10.0.0.1", 8080, "/a/b?q");
        for (location, expected, expected_absolute) in [
            ("/x", "http 10.0.0.1 8080 /x", false),
            ("x?y#z", "http 10.0.0.1 8080 /a/x?y", false),
            ("../x/.", "http 10.0.0.1 8080 /x/", false),
            ("../../..", "http 10.0.0.1 8080 /", false),
            ("?r", "http 10.0.0.1 8080 /a/b?r", false),
            ("", "http 10.0.0.1 8080 /a/b?q", false),
            ("#top", "http 10.0.0.1 8080 /a/b?q", false),
            ("//10.0.0.1:90/x", "http 10.0.0.1 90 /x", false),
            ("https://10.0.0.1/x", "https 10.0.0.1 443 /x", true),
            ("HTTP://u:p@10.0.0.1:", "http 10.0.0.1 80 /", true),
            ("http://[::1]:90/./x", "http ::1 90 /x", true),
            ("http://[::1]", "http ::1 80 /", true),
            ("mailto:me", "mailto  80 /me", true),
            ("http:x", "http  80 /x", true),
        ] {
            let (url, is_absolute) = (base.join(location).unwrap(), Url::is_absolute(location));
            let got = format!("{} {} {} {}", url.scheme, url.host, url.port(), url.target());
            assert_eq!((got.as_str(), is_absolute), (expected, expected_absolute), "{location}");
        }
        for location in ["http://h:port/", "http://h:70000/", "/%zz", "/a\tb", "http://[::1/", "http://[::1]x/"] {
            assert!(base.join(location).is_none(), "{location}");
        }
    }
}
