//! A client with TLS and handwritten HTTP/1.1, so that tests can send invalid requests too.

use crate::program::NAME;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn parse(answer: &[u8]) -> Reply {
        let text = String::from_utf8_lossy(answer);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no response: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        Reply { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

pub(crate) type Stream = StreamOwned<ClientConnection, TcpStream>;

#[derive(Clone)]
pub(crate) struct Client {
    address: SocketAddr,
    config: Arc<ClientConfig>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr, ca: &[u8]) -> Client {
        let mut roots = RootCertStore::empty();
        for ca in CertificateDer::pem_slice_iter(ca) {
            roots.add(ca.unwrap()).unwrap();
        }
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Client { address, config: Arc::new(config) }
    }

    /// Connects and completes the TLS handshake.
    pub(crate) fn connect(&self) -> io::Result<Stream> {
        let mut socket = TcpStream::connect(self.address)?;
        socket.set_read_timeout(Some(Duration::from_secs(60)))?;
        let name = ServerName::try_from(NAME).unwrap();
        let mut connection = ClientConnection::new(Arc::clone(&self.config), name).unwrap();
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        Ok(StreamOwned::new(connection, socket))
    }

    /// Sends `request` and reads the response up to the end of the connection.
    pub(crate) fn raw(&self, request: &[u8]) -> io::Result<Reply> {
        let mut stream = self.connect()?;
        // The webhook may reject the head and close the connection without reading the body.
        let _ = stream.write_all(request).and_then(|()| stream.flush());
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Err(error) if answer.is_empty() => Err(error),
            _ => Ok(Reply::parse(&answer)),
        }
    }

    pub(crate) fn post(&self, body: &[u8]) -> Reply {
        self.raw(&post(body)).unwrap()
    }

    pub(crate) fn review(&self, review: &Value) -> Value {
        let reply = self.post(review.to_string().as_bytes());
        assert_eq!(reply.status, 200, "{reply:?}");
        assert!(reply.head.contains("content-type: application/json"), "{reply:?}");
        reply.json()["response"].take()
    }
}

/// Returns a complete request with `Connection: close`.
pub(crate) fn post(body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "POST /inject?timeout=10s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

pub(crate) fn pod(order: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "shop", "labels": {"podgate.io/inject": "enabled"}, "annotations": {"podgate.io/order": order}},
        "spec": {"containers": [
            {"name": "db", "image": "busybox", "command": ["db"], "readinessProbe": {"tcpSocket": {"port": 5432}}},
            {"name": "api", "image": "busybox", "command": ["api"], "args": ["--on"]},
        ]}
    })
}

/// Returns a review of a workload of this kind with the Pod `pod` as its template.
pub(crate) fn workload_review(kind: &str, pod: &Value) -> Value {
    let template = json!({"metadata": pod["metadata"], "spec": pod["spec"]});
    let (group, spec) = match kind {
        "CronJob" => ("batch", json!({"jobTemplate": {"spec": {"template": template}}})),
        _ => ("apps", json!({"template": template})),
    };
    let object = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": "shop"}, "spec": spec});
    let mut review = review("one", &object);
    review["request"]["kind"] = json!({"group": group, "version": "v1", "kind": kind});
    review
}

pub(crate) fn review(uid: &str, object: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": uid, "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
            "requestResource": {"group": "", "version": "v1", "resource": "pods"},
            "operation": "CREATE", "namespace": "shop", "userInfo": {"username": "admin", "groups": ["system:masters"]},
            "object": object, "oldObject": null, "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        }
    })
}
