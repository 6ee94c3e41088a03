//! Token service, which most public registries require. The service signs the permissions of a client, and the registry
//! checks the signature (<https://distribution.github.io/distribution/spec/auth/token/>).

use super::server::USER;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine};
use rcgen::SigningKey;
use serde_json::json;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// Issuer and audience of the tokens.
pub(crate) const NAME: &str = "shop";

/// Recorded token request: the scope, and the credentials of the client.
pub(crate) type TokenRequest = (String, Option<String>);

/// Token service. Issues tokens for `public/…` to every client, and tokens for all images to [`USER`].
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<TokenRequest>>>,
}

impl Service {
    /// Starts the service and writes the service's certificate to `token.pem` in `directory`.
    pub(crate) fn start(directory: &Path) -> Service {
        let signer = rcgen::generate_simple_self_signed(vec![NAME.to_owned()]).unwrap();
        fs::write(directory.join("token.pem"), signer.cert.pem()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let requests = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                answer(stream, &requests, |scope| token(&signer.signing_key, signer.cert.der(), scope));
            }
        });
        Service { address, asked }
    }

    pub(crate) fn asked(&self) -> Vec<TokenRequest> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(stream: TcpStream, asked: &Mutex<Vec<TokenRequest>>, token: impl Fn(&str) -> String) {
    let mut lines = BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    let Some(request) = lines.next() else { return };
    let login = lines.filter_map(|line| {
        let (name, value) = line.split_once(": ")?;
        let basic = value.strip_prefix("Basic ").filter(|_| name.eq_ignore_ascii_case("authorization"))?;
        String::from_utf8(BASE64_STANDARD.decode(basic).ok()?).ok()
    });
    let login = login.last();
    let query = request.split(' ').nth(1).and_then(|path| path.split_once('?')).map_or("", |(_, query)| query);
    let scope = query.split('&').find_map(|pair| pair.strip_prefix("scope=")).unwrap_or_default();
    let scope = scope.replace("%3A", ":").replace("%2F", "/");
    asked.lock().unwrap().push((scope.clone(), login.clone()));
    let is_known = login == Some(format!("{}:{}", USER.0, USER.1));
    let (status, body) = match scope.starts_with("repository:public/") && login.is_none() || is_known {
        true => ("200 OK", json!({"token": token(&scope), "expires_in": 300}).to_string()),
        false => ("401 Unauthorized", json!({"details": "incorrect username or password"}).to_string()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    let _ = (&stream).write_all(format!("{head}{body}").as_bytes());
}

/// Returns a JSON Web Token (RFC 7519) that is signed with ES256.
fn token(key: &impl SigningKey, certificate: &[u8], scope: &str) -> String {
    #[allow(clippy::disallowed_methods, reason = "the registry compares the token with the clock")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let mut parts = scope.split(':').skip(1);
    let (name, actions) = (parts.next(), parts.next().unwrap_or_default().split(','));
    let access = json!([{"type": "repository", "name": name, "actions": actions.collect::<Vec<_>>()}]);
    let header = json!({"typ": "JWT", "alg": "ES256", "x5c": [BASE64_STANDARD.encode(certificate)]});
    let claims = json!({"iss": NAME, "aud": NAME, "sub": "", "jti": "1", "iat": now, "nbf": now - 60, "exp": now + 300, "access": access});
    let [header, claims] = [header, claims].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part.to_string()));
    let signed = format!("{header}.{claims}");
    let signature = fixed(&key.sign(signed.as_bytes()).unwrap());
    format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}

/// Converts an ECDSA signature from ASN.1 to a pair of numbers of 32 bytes each.
fn fixed(signature: &[u8]) -> Vec<u8> {
    let mut rest = &signature[2..];
    let mut number = || {
        let (number, after) = rest[2..].split_at(usize::from(rest[1]));
        rest = after;
        let from = number.len().saturating_sub(32);
        [vec![0; 32 - (number.len() - from)], number[from..].to_vec()].concat()
    };
    [number(), number()].concat()
}
