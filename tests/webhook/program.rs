//! Starts the webhook's binary and creates its certificate files.

use crate::client::{Client, Reply};
use crate::hang_guard::HANG_GUARD;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// DNS name in the certificates.
pub(crate) const NAME: &str = "podgate-webhook.podgate.svc";

#[allow(clippy::disallowed_methods, reason = "tests may read the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Calls `ask` until `ask` returns a value; panics after `HANG_GUARD`.
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = now() + HANG_GUARD;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(now() < end, "{what}: not within {HANG_GUARD:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Certificate files, and the CA of the certificate.
pub(crate) struct Files {
    pub(crate) dir: TempDir,
    pub(crate) ca: Vec<u8>,
}

impl Files {
    pub(crate) fn new() -> Files {
        let mut files = Files { dir: tempfile::tempdir().unwrap(), ca: Vec::new() };
        files.renew();
        files
    }

    /// Replaces CA and certificate under the same file names, by rename, like Kubernetes.
    pub(crate) fn renew(&mut self) {
        let ca_key = rcgen::KeyPair::generate().unwrap();
        let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        ca.distinguished_name.push(rcgen::DnType::CommonName, "a test's CA");
        let key = rcgen::KeyPair::generate().unwrap();
        let leaf = rcgen::CertificateParams::new(vec![NAME.to_owned()]).unwrap();
        let leaf = leaf.signed_by(&key, &rcgen::Issuer::from_params(&ca, &ca_key)).unwrap();
        self.ca = ca.self_signed(&ca_key).unwrap().pem().into_bytes();
        self.put("tls.crt", leaf.pem().as_bytes());
        self.put("tls.key", key.serialize_pem().as_bytes());
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn put(&self, name: &str, content: &[u8]) {
        let new = self.path("new");
        std::fs::write(&new, content).unwrap();
        std::fs::rename(new, self.path(name)).unwrap();
    }
}

pub(crate) struct Webhook {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) status: SocketAddr,
    log: Arc<Mutex<Vec<Value>>>,
}

impl Webhook {
    /// Starts the webhook with a certificate from files.
    pub(crate) fn with_files(files: &Files, arguments: &[&str]) -> Webhook {
        let (cert, key) = (files.path("tls.crt"), files.path("tls.key"));
        let tls = ["--tls", "files", "--cert", cert.to_str().unwrap(), "--key", key.to_str().unwrap()];
        Webhook::start(&[&tls, arguments].concat(), files.dir.path())
    }

    pub(crate) fn start(arguments: &[&str], home: &Path) -> Webhook {
        let mut child = Command::new(env!("CARGO_BIN_EXE_podgate-webhook"))
            .args(["--listen", "127.0.0.1:0", "--status-listen", "127.0.0.1:0", "--log-format", "json"])
            .args(arguments)
            .env_clear()
            .env("PODGATE_LOG_LEVEL", "debug")
            .env("HOME", home)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::<Mutex<Vec<Value>>>::default();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let into = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                into.lock().unwrap().push(line);
            }
        });
        let mut webhook = Webhook { child, address: ([0; 4], 0).into(), status: ([0; 4], 0).into(), log };
        let listening = webhook.logged("listening");
        let address = |key: &str| listening[key].as_str().unwrap().parse().unwrap();
        (webhook.address, webhook.status) = (address("address"), address("status"));
        webhook
    }

    /// Waits for a log line with this message.
    pub(crate) fn logged(&self, message: &str) -> Value {
        let find = || self.log().into_iter().find(|line| line["msg"] == message);
        eventually(&format!("no log line {message:?} in {:?}", self.log()), find)
    }

    pub(crate) fn log(&self) -> Vec<Value> {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn client(&self, ca: &[u8]) -> Client {
        Client::new(self.address, ca)
    }

    /// Gets a page from the status port.
    pub(crate) fn page(&self, path: &str) -> Reply {
        let mut stream = TcpStream::connect(self.status).unwrap();
        stream.set_read_timeout(Some(HANG_GUARD)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        Reply::parse(&answer)
    }

    /// Returns the value of a metric, given by its full name and labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let page = self.page("/metrics").body;
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0.0, |value| value.parse().unwrap())
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.page("/readyz").status == 200
    }

    /// Returns the highest memory use so far (RSS), in KiB.
    pub(crate) fn peak_memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB"));
        peak.unwrap().trim().parse().unwrap()
    }

    pub(crate) fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        eventually("the program ends", || self.child.try_wait().unwrap())
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            for line in self.log() {
                eprintln!("{line}");
            }
        }
    }
}
