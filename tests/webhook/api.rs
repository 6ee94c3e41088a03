//! A fake API server with one Secret and one MutatingWebhookConfiguration.

use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

const SECRET: &str = "/api/v1/namespaces/podgate/secrets/podgate-webhook-tls";
const CONFIGURATION: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/zz-podgate-webhook";

#[derive(Debug)]
struct Held {
    secret: Option<Value>,
    configuration: Value,
    revision: u64,
    /// Number of further writes that get a conflict.
    conflicts: usize,
    writes: usize,
    /// Minor version of Kubernetes. With `None`, the request for the version fails.
    minor: Option<u32>,
    wrong: Vec<String>,
}

pub(crate) struct Api {
    held: Arc<Mutex<Held>>,
    pub(crate) home: TempDir,
    kubeconfig: PathBuf,
}

impl Api {
    /// Starts the fake API server with an empty Secret, as in the manifests.
    pub(crate) fn new() -> Api {
        let held = Arc::new(Mutex::new(Held {
            secret: Some(
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "podgate-webhook-tls", "namespace": "podgate", "resourceVersion": "1"}}),
            ),
            configuration: json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
                "metadata": {"name": "zz-podgate-webhook", "resourceVersion": "1"},
                "webhooks": [
                    {"name": "pods.podgate.io", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                     "clientConfig": {"service": {"name": "podgate-webhook", "namespace": "podgate", "path": "/inject"}}},
                    {"name": "others.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                     "clientConfig": {"caBundle": "b3RoZXJz", "service": {"name": "others", "namespace": "podgate"}}},
                    {"name": "workloads.podgate.io", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                     "clientConfig": {"service": {"name": "podgate-webhook", "namespace": "podgate", "path": "/inject"}}},
                ]
            }),
            revision: 1,
            conflicts: 0,
            writes: 0,
            minor: Some(36),
            wrong: Vec::new(),
        }));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let home = tempfile::tempdir().unwrap();
        let kubeconfig = home.path().join("kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: k, cluster: {{server: 'http://{}'}}}}]\n\
             contexts: [{{name: c, context: {{cluster: k, user: u, namespace: podgate}}}}]\nusers: [{{name: u, user: {{token: t}}}}]\n",
            listener.local_addr().unwrap()
        );
        fs::write(&kubeconfig, text).unwrap();
        let shared = Arc::clone(&held);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let held = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream.unwrap(), &held));
            }
        });
        Api { held, home, kubeconfig }
    }

    pub(crate) fn kubeconfig(&self) -> &str {
        self.kubeconfig.to_str().unwrap()
    }

    /// Returns the CA bundle in the webhook configuration; empty if podgate's webhooks have different bundles.
    pub(crate) fn bundle(&self) -> Vec<u8> {
        let held = self.held.lock().unwrap();
        assert_eq!(held.wrong, [""; 0]);
        assert_eq!(
            held.configuration["webhooks"][1]["clientConfig"]["caBundle"], "b3RoZXJz",
            "other webhooks are unchanged"
        );
        let [pods, workloads] = [0, 2].map(|at| &held.configuration["webhooks"][at]["clientConfig"]["caBundle"]);
        let bundle = if pods == workloads { pods.clone() } else { Value::Null };
        serde_json::from_value::<Option<k8s_openapi::ByteString>>(bundle).unwrap().unwrap_or_default().0
    }

    pub(crate) fn secret(&self) -> Value {
        self.held.lock().unwrap().secret.clone().unwrap()
    }

    /// Changes the objects like another client.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Option<Value>, &mut Value)) {
        let mut held = self.held.lock().unwrap();
        let Held { secret, configuration, revision, .. } = &mut *held;
        change(secret, configuration);
        *revision += 1;
        for object in secret.iter_mut().chain([configuration]) {
            object["metadata"]["resourceVersion"] = revision.to_string().into();
        }
    }

    pub(crate) fn refuse(&self, writes: usize) {
        self.held.lock().unwrap().conflicts = writes;
    }

    pub(crate) fn set_minor_version(&self, minor: Option<u32>) {
        self.held.lock().unwrap().minor = minor;
    }

    pub(crate) fn writes(&self) -> usize {
        self.held.lock().unwrap().writes
    }
}

fn serve(stream: TcpStream, held: &Mutex<Held>) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let (mut length, mut head) = (0, String::new());
        while reader.read_line(&mut head).unwrap_or(0) > 2 {
            let last = head.lines().last().unwrap_or_default().to_ascii_lowercase();
            if let Some(value) = last.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let mut words = line.split(' ');
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = if query.contains("dryRun=All") { format!("{path} in a dry run") } else { path.to_owned() };
        let (status, answer) = answer(&mut held.lock().unwrap(), method, &path, &head, &body);
        let answer = answer.to_string();
        let head = format!(
            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            answer.len()
        );
        if writer.write_all(head.as_bytes()).and_then(|()| writer.write_all(answer.as_bytes())).is_err() {
            return;
        }
    }
}

fn failure(code: u16, message: &str) -> (u16, Value) {
    (
        code,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": "X", "code": code}),
    )
}

fn answer(held: &mut Held, method: &str, path: &str, head: &str, body: &[u8]) -> (u16, Value) {
    match (method, path) {
        ("GET", SECRET) => held.secret.clone().map_or_else(|| failure(404, "not found"), |secret| (200, secret)),
        ("GET", "/version") => held.minor.map_or_else(
            || failure(500, "no version"),
            |minor| {
                let empty =
                    ["gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform", "gitVersion"];
                let mut version = json!({"major": "1", "minor": format!("{minor}+")});
                empty.iter().for_each(|field| version[field] = "".into());
                (200, version)
            },
        ),
        ("GET", CONFIGURATION) => (200, held.configuration.clone()),
        ("PUT" | "PATCH", SECRET | CONFIGURATION) => {
            let sent: Value = serde_json::from_slice(body).unwrap();
            if held.conflicts > 0 {
                held.conflicts -= 1;
                return failure(409, "the object has been modified");
            }
            let is_secret = path == SECRET;
            let known = if is_secret { held.secret.clone().unwrap() } else { held.configuration.clone() };
            if sent["metadata"]["resourceVersion"] != known["metadata"]["resourceVersion"] {
                return failure(409, "the object has been modified");
            }
            held.revision += 1;
            held.writes += 1;
            let revision: Value = held.revision.to_string().into();
            if is_secret && method == "PUT" {
                let mut sent = sent;
                sent["metadata"]["resourceVersion"] = revision;
                held.secret = Some(sent.clone());
                return (200, sent);
            }
            if !head.contains("application/strategic-merge-patch+json") {
                held.wrong.push(format!("{method} {path}: {head}"));
            }
            for change in sent["webhooks"].as_array().unwrap() {
                let webhooks = held.configuration["webhooks"].as_array_mut().unwrap();
                let webhook = webhooks.iter_mut().find(|webhook| webhook["name"] == change["name"]).unwrap();
                webhook["clientConfig"]["caBundle"] = change["clientConfig"]["caBundle"].clone();
            }
            held.configuration["metadata"]["resourceVersion"] = revision;
            (200, held.configuration.clone())
        }
        _ => {
            held.wrong.push(format!("{method} {path}"));
            failure(403, "forbidden")
        }
    }
}
