//! Installs and uninstalls the webhook.

use crate::clock::eventually;
use crate::cluster::{self, IMAGE, ROOT, WEBHOOK_IMAGE, kubectl, try_kubectl};
use crate::needs::missing;
use crate::scene::print_line;
use podgate::order::release;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Namespace in which the webhook is installed.
pub(crate) const NAMESPACE: &str = "podgate";
const RELEASE: &str = "podgate";
/// Label of the namespaces that the webhook handles. The namespaces of other scenarios do not have this label.
const LABEL: &str = "podgate-e2e";
/// Text of the webhook's configuration after which the tests insert a condition for namespaces.
pub(crate) const SELECTOR: &str = "  namespaceSelector:\n    matchExpressions:\n";
/// Part of the webhook's configuration that selects the namespaces with [`LABEL`].
pub(crate) const NAMESPACE_SELECTOR: &str = "    - key: podgate-e2e\n      operator: Exists\n";

/// Returns the lock for the cluster's only webhook. A scenario must hold the lock while it installs and tests the
/// webhook.
pub(crate) fn install_lock() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) struct Helm {
    program: String,
    kubeconfig: String,
}

impl Helm {
    /// Finds or builds Helm. Returns `None` if this machine lacks it and the test may be skipped.
    pub(crate) fn find() -> Option<Helm> {
        let output = Command::new(format!("{ROOT}/tests/webhook/helm")).output().expect("tests/webhook/helm");
        if !output.status.success() {
            eprintln!("{}", String::from_utf8_lossy(&output.stderr));
            missing("helm");
            crate::scene::skip("helm", "this machine has no Helm");
            return None;
        }
        let program = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Some(Helm { program, kubeconfig: cluster::run_script(&["kubeconfig"]).trim().to_owned() })
    }

    fn run(&self, arguments: &[&str]) {
        let mut command = Command::new(&self.program);
        command.args(arguments).args(["--namespace", NAMESPACE]).current_dir(ROOT).env("KUBECONFIG", &self.kubeconfig);
        let output = command.output().expect("helm");
        assert!(output.status.success(), "helm {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

enum InstallMethod {
    Kustomize(String),
    Helm(Helm, Vec<String>),
}

/// An installed webhook, which is uninstalled on drop.
pub(crate) struct InstalledWebhook {
    method: Option<InstallMethod>,
}

impl InstalledWebhook {
    /// Installs the webhook with `kubectl apply -k manifests/injector`, with the images of this build and further
    /// `arguments`. The webhook handles only `namespace`.
    pub(crate) fn by_kustomize(namespace: &str, arguments: &[&str]) -> InstalledWebhook {
        label_namespace(namespace);
        let mut manifests = kubectl(&["kustomize", &format!("{ROOT}/manifests/injector")]);
        let mut replace = |from: &str, to: &str| {
            assert!(manifests.contains(from), "{from} in\n{manifests}");
            manifests = manifests.replace(from, to);
        };
        replace(&release::image("podgate-webhook"), WEBHOOK_IMAGE);
        replace(&release::sidecar_image(), IMAGE);
        replace(
            "PODGATE_NAMESPACES\n          value: \"\"",
            &format!("PODGATE_NAMESPACES\n          value: {namespace}"),
        );
        let more: String = arguments.iter().map(|argument| format!("\n        - {argument}")).collect();
        replace("- --log-format=json", &format!("- --log-format=json{more}"));
        replace(SELECTOR, &format!("{SELECTOR}{NAMESPACE_SELECTOR}"));
        let installed = InstalledWebhook { method: Some(InstallMethod::Kustomize(manifests.clone())) };
        cluster::try_script(&["kubectl", "apply", "-f", "-"], &manifests)
            .unwrap_or_else(|error| panic!("apply: {error}"));
        installed.wait_for_rollout();
        installed
    }

    pub(crate) fn by_helm(helm: Helm, namespace: &str) -> InstalledWebhook {
        label_namespace(namespace);
        let (webhook, image) = (WEBHOOK_IMAGE.rsplit_once(':').expect("a tag"), IMAGE.rsplit_once(':').expect("a tag"));
        let values = vec![
            format!("image.repository={}", webhook.0),
            format!("image.tag={}", webhook.1),
            format!("sidecar.repository={}", image.0),
            format!("sidecar.tag={}", image.1),
            // `install_manifests` has already created the objects for the sidecar.
            "sidecar.create=false".to_owned(),
            format!("sidecar.namespaces={{{namespace}}}"),
            format!("webhook.namespaceSelector[0].key={LABEL}"),
            "webhook.namespaceSelector[0].operator=Exists".to_owned(),
        ];
        let installed = InstalledWebhook { method: Some(InstallMethod::Helm(helm, values)) };
        installed.helm(&["install", "--create-namespace"], &[]);
        installed.wait_for_rollout();
        installed
    }

    fn helm(&self, command: &[&str], more: &[&str]) {
        let Some(InstallMethod::Helm(helm, values)) = &self.method else { panic!("not installed by Helm") };
        let values = values.iter().map(String::as_str).chain(more.iter().copied());
        let set: Vec<&str> = values.flat_map(|value| ["--set", value]).collect();
        helm.run(&[command, &[RELEASE, "charts/podgate"], &set[..]].concat());
    }

    pub(crate) fn upgrade(&self, values: &[&str]) {
        self.helm(&["upgrade"], values);
    }

    /// Waits until all replicas are ready.
    pub(crate) fn wait_for_rollout(&self) {
        kubectl(&["-n", NAMESPACE, "rollout", "status", "deployment/podgate-webhook", "--timeout=120s"]);
    }

    pub(crate) fn uninstall(mut self) {
        self.remove();
    }

    fn remove(&mut self) {
        match self.method.take() {
            Some(InstallMethod::Kustomize(manifests)) => {
                let delete = ["kubectl", "delete", "--ignore-not-found", "--wait", "-f", "-"];
                cluster::try_script(&delete, &manifests).unwrap_or_else(|error| panic!("delete: {error}"));
            }
            Some(InstallMethod::Helm(helm, _)) => {
                helm.run(&["uninstall", "--wait", "--ignore-not-found", RELEASE]);
                kubectl(&["delete", "namespace", NAMESPACE, "--wait"]);
            }
            None => {}
        }
    }
}

impl Drop for InstalledWebhook {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for arguments in [
                &["get", "pods", "-o", "wide"][..],
                &["get", "events"],
                &["logs", "-l", "app.kubernetes.io/name=podgate", "--prefix", "--tail=100"],
            ] {
                let all = [&["-n", NAMESPACE], arguments].concat();
                print_line(&try_kubectl(&all).unwrap_or_else(|error| error));
            }
        }
        if std::env::var_os("PODGATE_KEEP").is_none() {
            self.remove();
        }
    }
}

/// Adds the label with which the webhook handles `namespace`.
pub(crate) fn label_namespace(namespace: &str) {
    kubectl(&["label", "namespace", namespace, &format!("{LABEL}=webhook")]);
}

/// Asserts that the cluster has no object with the webhook's name or label.
pub(crate) fn assert_nothing_left() {
    eventually("the namespace is deleted", 90, || try_kubectl(&["get", "namespace", NAMESPACE]).err());
    let cluster_kinds = "clusterroles,clusterrolebindings,mutatingwebhookconfigurations,validatingwebhookconfigurations,\
         validatingadmissionpolicies,validatingadmissionpolicybindings";
    let all = kubectl(&["get", cluster_kinds, "-o", "name"]);
    let ours: Vec<&str> =
        all.lines().filter(|name| name.contains("podgate-webhook") || name.contains("podgate-unknown")).collect();
    assert_eq!(ours, [""; 0]);
    let namespaced_kinds =
        "deployments,services,secrets,serviceaccounts,poddisruptionbudgets,networkpolicies,roles,rolebindings,pods";
    let left = kubectl(&["get", namespaced_kinds, "-A", "-l", "app.kubernetes.io/component=webhook", "-o", "name"]);
    assert_eq!(left.trim(), "");
}
