//! Tests against registries that ask for credentials for another host, or send endless or wrong content.

use super::server::{Access, USER};
use super::tokens::Service;
use super::{APP, Scene, login};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

fn with_images(scene: &Scene) {
    let open = scene.serve(Access::Open);
    open.push("public/app", "1", true, APP);
    open.push("team/app", "1", true, APP);
}

#[test]
fn token_service_of_a_tls_registry_needs_tls() {
    let Some(scene) = Scene::new() else { return };
    with_images(&scene);
    let ca = scene.certificate();
    let service = Service::start(scene.directory.path());
    let registry = scene.serve(Access::TlsToken(service.address));
    let logins = scene.file("login.json", &login(&registry.address, USER.1));
    for (image, more) in [("public/app", vec![]), ("team/app", vec!["--pull-secret", &logins])] {
        let flags = [vec!["--registry-ca", &ca], more].concat();
        let run = scene.inject(&format!("{}/{image}:1", registry.address), &flags);
        assert_eq!(run.code, 1);
        assert!(run.err.contains("its token service 127.0.0.1 uses http://"), "{}", run.err);
    }
    assert_eq!(service.asked(), [], "podgate sent a request to the token service");
}

/// Starts a server that answers each request with `head`, and then with `repeat` copies of `body`.
fn serve(head: &'static str, body: &'static [u8], repeat: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = move |mut stream: TcpStream| -> std::io::Result<()> {
        let mut request = [0; 4096];
        let length = stream.read(&mut request)?;
        stream.write_all(format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{head}\r\n").as_bytes())?;
        let is_body = request[..length].starts_with(b"GET /v2/app/");
        (0..if is_body { repeat } else { 0 }).try_for_each(|_| stream.write_all(body))
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    address
}

#[test]
fn manifest_has_a_size_limit() {
    let Some(scene) = Scene::new() else { return };
    // The server announces a length of 2 GiB, or no length.
    for head in ["Content-Length: 2147483648\r\n", ""] {
        let address = serve(head, &[b' '; 1 << 16], 1 << 15);
        let run = scene.inject(&format!("{address}/app:1"), &[]);
        assert!(run.code == 1 && run.err.contains("the manifest is larger than 4 MiB"), "{}", run.err);
    }
}

#[test]
fn content_must_match_its_digest() {
    let Some(scene) = Scene::new() else { return };
    let wrong = format!("sha256:{}", "0".repeat(64));
    let manifest = br#"{"config":{"digest":"sha256:00"}}"#;
    for (image, expected) in [(format!("app@{wrong}"), &*wrong), ("app:1".to_owned(), "sha256:00")] {
        let run = scene.inject(&format!("{}/{image}", serve("", manifest, 1)), &[]);
        let expected = format!("the content does not match its digest {expected}");
        assert!(run.code == 1 && run.err.contains(&expected), "{}", run.err);
    }
    let run = scene.inject(&format!("{}/app:1", serve("", b"<html>", 1)), &[]);
    assert!(run.code == 1 && run.err.contains("invalid manifest"), "{}", run.err);
}

#[test]
fn redirect_to_plain_http_is_refused() {
    let Some(scene) = Scene::new() else { return };
    let ca = scene.certificate();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let chain = vec![CertificateDer::from_pem_file(&ca).unwrap()];
    let key = PrivateKeyDer::from_pem_file(scene.directory.path().join("key.pem")).unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap());
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    plain.set_nonblocking(true).unwrap();
    let target = plain.local_addr().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(session, stream);
            let _ = stream.read(&mut [0; 4096]);
            let head = "HTTP/1.1 307 Temporary Redirect\r\nConnection: close\r\nContent-Length: 0\r\n";
            let _ = write!(stream, "{head}Location: http://{target}/v2/\r\n\r\n").and_then(|()| stream.flush());
        }
    });
    let run = scene.inject(&format!("{address}/app:1"), &["--registry-ca", &ca]);
    assert!(run.code == 1 && run.err.contains("redirect refused"), "{}", run.err);
    assert!(plain.accept().is_err(), "podgate followed the redirect");
}
