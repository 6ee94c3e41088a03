//! Registry credentials from pull secrets and `docker login`. Credentials are matched to images as in the kubelet
//! (`pkg/credentialprovider/keyring.go`). Credential helpers are never run, because credentials files may be untrusted.

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};

/// Credentials for a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Login {
    /// User name and password.
    Basic(String, String),
    Bearer(String),
}

/// Credentials, each with a pattern of images such as `registry.example`, `*.example:5000`, or `ghcr.io/org`.
#[derive(Clone, Default)]
pub(crate) struct Logins {
    entries: Vec<(String, Login)>,
    pub(crate) has_helper: bool,
}

const DOCKER_HUB_HOSTS: [&str; 2] = ["docker.io", "index.docker.io"];

impl Logins {
    /// Adds the credentials in a `.dockerconfigjson`, a Secret that contains such a file, or the answer of a credential
    /// helper. The credentials of earlier files take precedence.
    pub(crate) fn add_file(&mut self, file: &Value) -> Result<(), String> {
        if file.get("kind").and_then(Value::as_str) == Some("Secret") {
            return self.add_file(&secret_content(file)?);
        }
        if let Some(server) = file.get("ServerURL").and_then(Value::as_str) {
            let login = json!({"username": file["Username"], "password": file["Secret"]});
            return self.add_file(&json!({"auths": {server: login}}));
        }
        let helper = |key: &str| file.get(key).is_some_and(|value| !value.is_null());
        self.has_helper |= helper("credsStore") || helper("credHelpers");
        let auths = match file.get("auths") {
            Some(auths) => auths,
            None if file.is_object() => return Ok(()),
            None => file,
        };
        let Value::Object(auths) = auths else { return Err("the logins (auths) are not an object".to_owned()) };
        let mut added = Vec::new();
        for (registry, entry) in auths {
            if !entry.is_object() {
                return Err(format!("the login for {registry:?} is not an object"));
            }
            // An empty entry means that a credential helper stores the credentials.
            if let Some(login) = parse_login(entry).map_err(|error| format!("the login for {registry:?}: {error}"))? {
                added.push((registry_pattern(registry), login));
            }
        }
        // Sort in reverse order, as the kubelet does, so that longer paths come first.
        added.sort_by(|(a, _), (b, _)| b.cmp(a));
        self.entries.extend(added);
        Ok(())
    }

    /// Returns the credentials for an image, best match first.
    pub(super) fn for_image(&self, registry: &str, repository: &str) -> Vec<&Login> {
        let hosts = if DOCKER_HUB_HOSTS.contains(&registry) { DOCKER_HUB_HOSTS.to_vec() } else { vec![registry] };
        let matches = |pattern: &str| hosts.iter().any(|host| matches_image(pattern, host, repository));
        self.entries.iter().filter(|(pattern, _)| matches(pattern)).map(|(_, login)| login).collect()
    }
}

fn secret_content(secret: &Value) -> Result<Value, String> {
    let name = ".dockerconfigjson";
    let text = match (secret["stringData"][name].as_str(), secret["data"][name].as_str()) {
        (Some(plain), _) => plain.to_owned(),
        (None, Some(encoded)) => decode_base64(encoded)?,
        (None, None) => return Err(format!("the Secret has no {name}")),
    };
    serde_json::from_str(&text).map_err(|_| format!("{name} in the Secret is not JSON"))
}

fn decode_base64(base64: &str) -> Result<String, String> {
    let text = base64.split_whitespace().collect::<String>();
    let bytes = BASE64_STANDARD.decode(text).map_err(|_| "invalid base64".to_owned())?;
    String::from_utf8(bytes).map_err(|_| "the decoded base64 is not UTF-8".to_owned())
}

fn parse_login(entry: &Value) -> Result<Option<Login>, String> {
    let text = |field: &str| entry[field].as_str().filter(|text| !text.is_empty());
    if let Some(token) = text("registrytoken") {
        return Ok(Some(Login::Bearer(token.to_owned())));
    }
    if let (Some(user), Some(password)) = (text("username"), text("password")) {
        return Ok(Some(Login::Basic(user.to_owned(), password.to_owned())));
    }
    let Some(auth) = text("auth") else { return Ok(None) };
    let decoded = decode_base64(auth)?;
    let (user, password) = decoded.split_once(':').ok_or("auth is not NAME:PASSWORD in base64")?;
    // Docker pads some passwords with NUL bytes.
    Ok(Some(Login::Basic(user.to_owned(), password.trim_end_matches('\0').to_owned())))
}

/// Converts a key, which may be a URL, to a pattern `host/path`.
fn registry_pattern(registry: &str) -> String {
    let rest = registry.strip_prefix("https://").or_else(|| registry.strip_prefix("http://")).unwrap_or(registry);
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let path = path.strip_prefix("v1/").or_else(|| path.strip_prefix("v2/")).unwrap_or(path);
    let path = if path == "v1" || path == "v2" { "" } else { path.trim_end_matches('/') };
    if path.is_empty() { host.to_owned() } else { format!("{host}/{path}") }
}

/// Returns true if `pattern` matches an image. As in the kubelet, each part of the host name is a glob, the port must
/// be equal, and the path is a prefix.
fn matches_image(pattern: &str, registry: &str, repository: &str) -> bool {
    let (host, path) = pattern.split_once('/').unwrap_or((pattern, ""));
    let (wanted_host, wanted_port) = host.rsplit_once(':').unwrap_or((host, ""));
    let (real_host, real_port) = registry.rsplit_once(':').unwrap_or((registry, ""));
    wanted_port == real_port
        && wanted_host.split('.').count() == real_host.split('.').count()
        && wanted_host.split('.').zip(real_host.split('.')).all(|(wanted, part)| glob_matches(wanted, part))
        && repository.starts_with(path)
}

/// Returns true if `pattern`, which may have one `*`, matches `text`.
fn glob_matches(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == text };
    text.len() >= head.len() + tail.len() && text.starts_with(head) && text.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the user names of the credentials for an image.
    fn users<'a>(logins: &'a Logins, registry: &str, repository: &str) -> Vec<&'a str> {
        let user = |login: &'a Login| match login {
            Login::Basic(user, _) => user.as_str(),
            _ => panic!("{login:?}"),
        };
        logins.for_image(registry, repository).into_iter().map(user).collect()
    }

    #[test]
    fn longest_path_wins() {
        let mut logins = Logins::default();
        let named = |user: &str| json!({"username": user, "password": "p"});
        let auths = json!({"auths": {
            "r.example": named("host"), "https://r.example/v1/": {"auth": "dTpwOnc="}, "r.example/team": named("team"),
            "r.example/team/app": named("app"), "*.example:5000": named("glob"), "https://index.docker.io/v1/": named("hub"),
            "10.0.*.7": named("one"),
        }});
        logins.add_file(&auths).unwrap();
        assert_eq!(users(&logins, "r.example", "team/app/x"), ["app", "team", "host", "u"]);
        assert_eq!(users(&logins, "r.example", "other"), ["host", "u"]);
        assert_eq!(users(&logins, "x.example:5000", "a"), ["glob"]);
        for (registry, repository) in
            [("x.example", "a"), ("x.y.example:5000", "a"), ("r.example:5000.b", "a"), ("example:5000", "a")]
        {
            assert_eq!(users(&logins, registry, repository), Vec::<&str>::new(), "{registry}");
        }
        assert_eq!(users(&logins, "docker.io", "library/nginx"), ["hub"]);
        assert_eq!(users(&logins, "10.0.0.7", "a"), ["one"]);
        assert!(logins.for_image("r.example", "x").contains(&&Login::Basic("u".to_owned(), "p:w".to_owned())));
    }

    #[test]
    fn secrets_hold_login_files() {
        let inner = json!({"auths": {"r.example": {"auth": "dTpw"}}}).to_string();
        let encoded = BASE64_STANDARD.encode(&inner);
        for secret in [
            json!({"kind": "Secret", "data": {".dockerconfigjson": encoded}}),
            json!({"kind": "Secret", "stringData": {".dockerconfigjson": inner}}),
        ] {
            let mut logins = Logins::default();
            logins.add_file(&secret).unwrap();
            assert_eq!(users(&logins, "r.example", "a"), ["u"], "{secret}");
        }
        assert!(Logins::default().add_file(&json!({"kind": "Secret", "data": {"x": "y"}})).is_err());
    }

    #[test]
    fn credential_helpers_and_malformed_files_are_detected() {
        let mut logins = Logins::default();
        logins.add_file(&json!({"auths": {"r.example": {}}, "credsStore": "desktop"})).unwrap();
        assert!(logins.has_helper && logins.for_image("r.example", "a").is_empty());
        Logins::default().add_file(&json!({})).unwrap();
        for bad in [
            json!([]),
            json!({"auths": []}),
            json!({"auths": {"r": 1}}),
            json!({"auths": {"r": {"auth": "%"}}}),
            json!({"auths": {"r": {"auth": "dQ=="}}}),
        ] {
            assert!(Logins::default().add_file(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn star_stands_for_any_text() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "a", true),
            ("a*c", "abbc", true),
            ("a*c", "abb", false),
            ("ab*bc", "abc", false),
            ("a", "ab", false),
        ] {
            assert_eq!(glob_matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
