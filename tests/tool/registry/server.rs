//! Real registry for tests: Debian's docker-registry, with images that the tests build.

use super::tokens::NAME;
use crate::free_port::free_address;
use crate::needs::missing;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Registry process. Dropping this value kills the process.
pub(crate) struct Registry {
    child: Child,
    /// Address of the registry: `127.0.0.1:PORT`.
    pub(crate) address: String,
}

/// Access control of a registry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Open,
    /// Requires the name and password [`USER`].
    Locked,
    /// Serves TLS with `tls.pem` and `key.pem` of the directory.
    Tls,
    /// Requires a token from the token service at this address. The certificate of the service is `token.pem` in the
    /// directory.
    Token(SocketAddr),
    /// Serves TLS, but names a token service without TLS.
    TlsToken(SocketAddr),
}

/// User name and password. The password and its hash are a test vector of crypt_blowfish.
pub(crate) const USER: (&str, &str) = ("shop", "U*U");
const HTPASSWD: &str = "shop:$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW\n";

/// Returns the path of Debian's program; `None` if this machine cannot get it and the test may be skipped.
pub(crate) fn program() -> Option<String> {
    // Tests run in parallel, but only one process at a time may run the script.
    static ONCE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONCE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let output = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tool/registry/get")).output().unwrap();
    if !output.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        missing("registry");
        return None;
    }
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

impl Registry {
    /// Starts a registry with the images in `directory`.
    pub(crate) fn start(program: &str, directory: &Path, access: Access) -> Registry {
        let port = free_address().port();
        let at = directory.display();
        let mut config = format!(
            "version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\nstorage:\n  filesystem: {{rootdirectory: {at}/images}}\n\
             http:\n  addr: 127.0.0.1:{port}\n"
        );
        match access {
            Access::Open => {}
            Access::Locked => {
                fs::write(directory.join("htpasswd"), HTPASSWD).unwrap();
                config += &format!("auth:\n  htpasswd: {{realm: shop, path: {at}/htpasswd}}\n");
            }
            Access::Token(service) | Access::TlsToken(service) => {
                config += &format!(
                    "auth:\n  token: {{realm: 'http://{service}/token', service: {NAME}, issuer: {NAME}, rootcertbundle: {at}/token.pem}}\n"
                );
            }
            Access::Tls => {}
        }
        if matches!(access, Access::Tls | Access::TlsToken(_)) {
            let tls = format!("tls: {{certificate: {at}/tls.pem, key: {at}/key.pem}}");
            config = config.replace("http:\n", &format!("http:\n  {tls}\n"));
        }
        let file = directory.join(format!("registry-{port}.yml"));
        fs::write(&file, config).unwrap();
        let child =
            Command::new(program).arg("serve").arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let registry = Registry { child, address: format!("127.0.0.1:{port}") };
        for _ in 0..1000 {
            if TcpStream::connect(&registry.address).is_ok() {
                return registry;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the registry did not start within 10 s");
    }

    /// Sends one request. Returns the status and the response header `name`.
    fn request(&self, method: &str, path: &str, kind: &str, body: &[u8], name: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let line = answer.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        (status, line.unwrap_or_default().trim().to_owned())
    }

    /// Uploads a blob. Returns the descriptor of the blob.
    fn blob(&self, image: &str, kind: &str, bytes: &[u8]) -> Value {
        let digest = digest(bytes);
        let (status, location) =
            self.request("POST", &format!("/v2/{image}/blobs/uploads/"), "text/plain", b"", "Location");
        assert_eq!(status, 202);
        let path = location.split_once(&self.address).unwrap().1;
        let (status, _) =
            self.request("PUT", &format!("{path}&digest={digest}"), "application/octet-stream", bytes, "Location");
        assert_eq!(status, 201);
        json!({"mediaType": kind, "size": bytes.len(), "digest": digest})
    }

    fn manifest(&self, image: &str, tag: &str, manifest: &Value) -> Value {
        let kind = manifest["mediaType"].as_str().unwrap();
        let bytes = manifest.to_string();
        let (status, digest) = self.request(
            "PUT",
            &format!("/v2/{image}/manifests/{tag}"),
            kind,
            bytes.as_bytes(),
            "Docker-Content-Digest",
        );
        assert_eq!(status, 201);
        json!({"mediaType": kind, "size": bytes.len(), "digest": digest})
    }

    /// Pushes an image with this configuration. Returns the descriptor of the image.
    pub(crate) fn push(&self, image: &str, tag: &str, docker: bool, config: &[u8]) -> Value {
        let kinds = match docker {
            true => ["manifest.v2+json", "container.image.v1+json", "image.rootfs.diff.tar.gzip"].map(|kind| {
                format!("application/vnd.docker.{}{kind}", if kind.starts_with('m') { "distribution." } else { "" })
            }),
            false => ["manifest.v1+json", "config.v1+json", "layer.v1.tar+gzip"]
                .map(|kind| format!("application/vnd.oci.image.{kind}")),
        };
        let config = self.blob(image, &kinds[1], config);
        let layer = self.blob(image, &kinds[2], b"no layer");
        self.manifest(
            image,
            tag,
            &json!({"schemaVersion": 2, "mediaType": kinds[0], "config": config, "layers": [layer]}),
        )
    }

    /// Pushes an index of images and platforms (`os/architecture[/variant]`). Returns the descriptor of the index.
    pub(crate) fn index(&self, image: &str, tag: &str, entries: &[(Value, &str)]) -> Value {
        let entry = |(descriptor, platform): &(Value, &str)| {
            let mut entry = descriptor.clone();
            let mut parts = platform.split('/');
            entry["platform"] = json!({"os": parts.next(), "architecture": parts.next()});
            if let Some(variant) = parts.next() {
                entry["platform"]["variant"] = variant.into();
            }
            entry
        };
        let all: Vec<Value> = entries.iter().map(entry).collect();
        self.manifest(
            image,
            tag,
            &json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": all}),
        )
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // Ignore errors: `kill` fails if the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn digest(bytes: &[u8]) -> String {
    let mut child = Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let output = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    format!("sha256:{}", output.split(' ').next().unwrap())
}
