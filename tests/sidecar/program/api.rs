//! A fake API server with one Pod, and sidecars in their own namespaces with a service account for this server.

use super::*;
use crate::api_server::{Answer, FakeApiServer, Request, watch_event};
use crate::needs::missing;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Returns a command that runs `setup` as root in new user and mount namespaces, and then `command`. Returns `None` if
/// this machine does not permit the namespaces and the test may be skipped.
pub(crate) fn in_namespaces(command: &Command, setup: &str) -> Option<Command> {
    let unshare = || {
        let mut unshare = Command::new("unshare");
        unshare.args(["--user", "--map-root-user", "--mount", "sh", "-ec"]);
        unshare
    };
    if !unshare().arg(setup).status().is_ok_and(|status| status.success()) {
        missing("namespaces");
        return None;
    }
    let mut wrapped = unshare();
    wrapped.arg(format!("{setup}; exec \"$@\"")).arg("sh").arg(command.get_program()).args(command.get_args());
    wrapped.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
    wrapped.current_dir(command.get_current_dir().unwrap()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Some(wrapped)
}

struct Stored {
    pod: Value,
    version: u64,
    watches: Vec<Sender<String>>,
    /// Seconds for `Retry-After`, if the server is too busy for the next watch.
    busy: Option<u64>,
}

impl Stored {
    /// Applies a merge patch to the Pod and sends the new Pod to all watches.
    fn change(&mut self, change: &Value) {
        json_patch::merge(&mut self.pod, change);
        self.version += 1;
        self.pod["metadata"]["resourceVersion"] = self.version.to_string().into();
        let event = watch_event("MODIFIED", &self.pod);
        self.watches.retain(|watch| watch.send(event.clone()).is_ok());
    }
}

pub(crate) struct Api {
    server: FakeApiServer,
    stored: Arc<Mutex<Stored>>,
    account: TempDir,
}

impl Api {
    pub(crate) fn new(pod: Value) -> Api {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate =
            rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
        let account = tempfile::tempdir().unwrap();
        for (name, text) in [("ca.crt", &*certificate.pem()), ("token", "t"), ("namespace", "n")] {
            std::fs::write(account.path().join(name), text).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let tls = Arc::new(tls.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap());
        let wrap =
            move |stream| rustls::StreamOwned::new(rustls::ServerConnection::new(Arc::clone(&tls)).unwrap(), stream);
        let stored = Arc::new(Mutex::new(Stored { pod, version: 100, watches: Vec::new(), busy: None }));
        let known = Arc::clone(&stored);
        let server = FakeApiServer::wrapped(wrap, move |request: &Request| {
            let mut stored = known.lock().unwrap();
            if request.method == "GET"
                && let Some(seconds) = stored.busy.take()
            {
                return Answer::Busy(seconds);
            }
            if request.method == "PATCH" {
                stored.change(&serde_json::from_str(&request.body).unwrap());
                let kind = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata"});
                let mut answer = json!({"metadata": stored.pod["metadata"]});
                json_patch::merge(&mut answer, &kind);
                return Answer::Json(200, answer);
            }
            let (sender, receiver) = channel();
            sender.send(watch_event("ADDED", &stored.pod)).unwrap();
            stored.watches.push(sender);
            Answer::Watch(receiver)
        });
        Api { server, stored, account }
    }

    /// Changes the Pod by a merge patch, like the kubelet.
    pub(crate) fn change(&self, change: &Value) {
        self.stored.lock().unwrap().change(change);
    }

    /// Replaces the Pod by an older version and ends all watches, like a restore of etcd.
    pub(crate) fn restore(&self, pod: &Value) {
        let mut stored = self.stored.lock().unwrap();
        *stored = Stored { pod: pod.clone(), version: 1, watches: Vec::new(), busy: None };
        stored.change(&json!({}));
    }

    /// Answers the next watch with 429 and `Retry-After`.
    pub(crate) fn refuse_watch_once(&self, seconds: u64) {
        self.stored.lock().unwrap().busy = Some(seconds);
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<String> {
        Some(self.stored.lock().unwrap().pod["metadata"]["annotations"][key].as_str()?.to_owned())
    }

    /// Returns the number of requests with this method.
    pub(crate) fn count(&self, method: &str) -> usize {
        self.server.requests().iter().filter(|request| request.method == method).count()
    }

    /// Starts a sidecar that uses this server, after `setup` has run in its namespaces. Returns `None` like
    /// `in_namespaces`.
    pub(crate) fn sidecar(&self, pod: &Pod, setup: &str) -> Option<Sidecar> {
        let (_, port) = self.server.address.rsplit_once(':').unwrap();
        let mut command = pod.command(&[]);
        command.env("POD_NAME", "p").env("POD_NAMESPACE", "n");
        command.env("KUBERNETES_SERVICE_HOST", "127.0.0.1").env("KUBERNETES_SERVICE_PORT", port);
        let account = self.account.path().display();
        let setup =
            format!("mount -t tmpfs none /var/run; mkdir -p {ACCOUNT}; cp {account}/* {ACCOUNT}; cd .; {setup}");
        let sidecar = Sidecar { child: Some(in_namespaces(&command, &setup)?.spawn().unwrap()) };
        let ready = pod.command(&["ready", "--timeout", "10s"]).output().unwrap();
        assert!(ready.status.success(), "{ready:?}");
        Some(sidecar)
    }
}
