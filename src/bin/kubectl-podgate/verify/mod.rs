//! `kubectl podgate verify`: checks podgate's installation. docs/troubleshooting.md explains each finding.

mod pods;

use crate::check::server::policy::{OWN_POD, UNKNOWN_CONTAINERS, check_policy};
use crate::check::server::rbac::check_rights;
use crate::check::server::webhook::find_webhook;
use crate::clock::monotonic_time;
use crate::cluster::{Cluster, ClusterError, ConnectionArgs};
use crate::common_args::OutputFormat;
use crate::output::{print, to_json};
use clap::Args;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use podgate::core::text::sanitize;
use podgate::order::declare::keys;
use podgate::order::edit::Place;
use podgate::order::finding::{Finding, Level, has_errors};
use podgate::order::inject::is_injected;
use podgate::order::kubernetes_version::{Version, rejects_env_files};
use podgate::order::lint::check_refusal;
use serde_json::{Value, json};
use std::process::ExitCode;

const HELP: &str = "\
Checks the webhook, its certificate, the policies and the rights. Lists Pods that declare an order, but
run without podgate's sidecar. Creates a Pod in a dry run. A check without permission becomes a note.
docs/troubleshooting.md explains each finding.

Examples:
  kubectl podgate verify -n shop
  kubectl podgate verify -o json | jq -r '.findings[].message'

Exit codes:
  0    no errors
  1    errors, or no connection to the cluster
  64   wrong flag or argument";

/// Check podgate's installation, and find Pods that run without their order
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Verify {
    /// Print in this format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: OutputFormat,
    #[command(flatten)]
    connection: ConnectionArgs,
}

pub(crate) async fn run(args: &Verify) -> Result<ExitCode, String> {
    let findings = check(&Cluster::from_args(&args.connection).await?).await?;
    let json = |f: &Finding| json!({"rule": f.rule, "level": f.level.as_str(), "message": f.message, "fix": f.fix});
    let printed = print(&match args.output {
        OutputFormat::Text => findings.iter().map(|finding| sanitize(&finding.line()) + "\n").collect(),
        OutputFormat::Json => to_json(&json!({"findings": findings.iter().map(json).collect::<Value>()}))?,
    });
    Ok(if has_errors(&findings) { ExitCode::FAILURE } else { printed })
}

async fn check(cluster: &Cluster) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    let pods = or_note("the Pods of all namespaces", pods::read(cluster).await, &mut findings)?;
    let webhook = or_note("podgate's webhook", find_webhook(cluster).await, &mut findings)?;
    for ((workload, fix), count) in pods.iter().flat_map(|pods| &pods.unordered) {
        let what = format!("running Pods declare an order but have no sidecar: {workload} (Pods: {count})");
        findings.push(finding(Level::Error, "pod-without-sidecar", what, fix));
    }
    if let Some(Some(webhook)) = &webhook {
        if pods.as_ref().is_some_and(|pods| pods.ready_webhooks == 0) {
            let fix = "see its Pods: kubectl describe pods -A -l app.kubernetes.io/name=podgate";
            findings.push(finding(Level::Error, "webhook-not-ready", "the webhook has no ready replica", fix));
        }
        let checked = check_certificate(cluster, webhook).await;
        let found = or_note("the webhook's certificate", checked, &mut findings)?;
        findings.extend(found.flatten());
        findings.push(check_injection(cluster).await?);
    } else if webhook.is_some() {
        let fix = "install it: kubectl podgate install | kubectl apply -f -";
        findings.push(finding(Level::Error, "missing-webhook", "the cluster does not have podgate's webhook", fix));
    }
    findings.extend(pods.iter().flat_map(|pods| &pods.versions).filter_map(check_version));
    findings.extend(check_hold_mode(cluster).await?);
    let fix = "apply the output of kubectl podgate install, or upgrade podgate's Helm chart";
    for (name, effect) in [
        (OWN_POD, "a sidecar with podgate's role may change every Pod of its namespace"),
        (UNKNOWN_CONTAINERS, "a Pod whose order names an unknown container starts in no order"),
    ] {
        let missing = |what| finding(Level::Error, "missing-policy", what, fix);
        findings.extend(check_policy(cluster, name, effect, missing).await?);
    }
    for (namespace, account) in pods.iter().flat_map(|pods| &pods.accounts) {
        let rights = check_rights(cluster, namespace, account).await?;
        findings.extend(rights.into_iter().filter(|finding| finding.rule == "missing-rbac"));
    }
    Ok(findings)
}

/// Returns a finding if Pods run another version than this plugin.
fn check_version(((program, tag), count): (&(&str, String), &usize)) -> Option<Finding> {
    let own = env!("CARGO_PKG_VERSION");
    let what = format!("{program} {tag} runs in Pods, but this plugin is version {own} (Pods: {count})");
    let (level, fix) = match *program {
        "podgate" => (Level::Note, ""),
        _ => (Level::Warning, "install the same version of the plugin and the webhook"),
    };
    (tag != own).then(|| finding(level, "version-differs", what, fix))
}

/// Returns warnings if the API server or kubelets cannot hold containers.
async fn check_hold_mode(cluster: &Cluster) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    let from = json!({"fileKeyRef": {"volumeName": "v", "path": "p", "key": "K"}});
    let mut pod = pod_of(&[container("held")]);
    pod["metadata"]["labels"] = json!({keys::INJECT: "disabled"});
    pod["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    pod["spec"]["containers"][0]["env"] = json!([{"name": "K", "valueFrom": from}]);
    if let Err(ClusterError::Rejected { code: 422, message, .. }) =
        cluster.create(&pods_path(cluster), true, &pod).await
        && rejects_env_files(&message)
    {
        let what = "hold mode is not possible: the API server does not know fileKeyRef";
        let fix =
            "it needs Kubernetes 1.35 and the feature gate EnvFiles; otherwise give the containers their commands";
        findings.push(finding(Level::Warning, "hold-not-possible", what, fix));
    }
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let list = cluster.wait_for(nodes.list(&ListParams::default())).await;
    let Some(nodes) = or_note("the nodes", list, &mut findings)? else { return Ok(findings) };
    let is_old = |node: &Node| {
        let kubelet = node.status.as_ref()?.node_info.as_ref()?.kubelet_version.parse::<Version>();
        Some(kubelet.map_or(true, |version| version < Version::WITH_HOLD))
    };
    let old: Vec<String> = nodes.iter().filter(|node| is_old(node) == Some(true)).map(ResourceExt::name_any).collect();
    if !old.is_empty() {
        let what = format!("hold mode is not possible on nodes with a kubelet older than 1.35: {}", old.join(", "));
        findings.push(finding(
            Level::Warning,
            "old-kubelet",
            what,
            "upgrade them, or give the containers their commands",
        ));
    }
    Ok(findings)
}

/// Returns an error if the API server does not trust the CA of the webhook's certificate.
async fn check_certificate(
    cluster: &Cluster,
    configuration: &MutatingWebhookConfiguration,
) -> Result<Option<Finding>, ClusterError> {
    let client = configuration.webhooks.iter().flatten().next().map(|webhook| &webhook.client_config);
    let Some((client, service)) = client.and_then(|it| Some((it, it.service.as_ref()?))) else { return Ok(None) };
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), &service.namespace);
    let Some(secret) = cluster.wait_for(secrets.get_opt("podgate-webhook-tls")).await? else { return Ok(None) };
    let ca = secret.data.as_ref().and_then(|data| data.get("ca.crt")).map_or(&[][..], |ca| ca.0.trim_ascii());
    let bundle = client.ca_bundle.as_ref().map_or(&[][..], |bundle| &bundle.0);
    let is_trusted = !ca.is_empty() && bundle.windows(ca.len()).any(|part| part == ca);
    let fix = format!("read the webhook's log: kubectl logs -n {} deployment/podgate-webhook", service.namespace);
    let what = "caBundle lacks the CA of the webhook's certificate";
    Ok(Some(finding(Level::Error, "webhook-untrusted", what, fix)).filter(|_| !is_trusted))
}

/// Checks that the webhook injects a Pod that declares an order.
async fn check_injection(cluster: &Cluster) -> Result<Finding, ClusterError> {
    let (namespace, since) = (&cluster.namespace, monotonic_time());
    let mut pod = pod_of(&[container("first"), container("second")]);
    pod["metadata"]["annotations"] = json!({keys::ORDER: "first=Started, second"});
    Ok(match cluster.create(&pods_path(cluster), true, &pod).await {
        Ok(pod) if is_injected(&pod) => {
            let time = since.elapsed().as_millis();
            let what = format!("the webhook injects a Pod in the namespace {namespace}: the dry run took {time} ms");
            finding(Level::Note, "injected", what, "")
        }
        Ok(_) => {
            let what = format!("the webhook does not inject a Pod with an order in the namespace {namespace}");
            let fix = "pass another namespace with -n if it is excluded; otherwise see kubectl podgate install --diff";
            finding(Level::Error, "not-injected", what, fix)
        }
        Err(ClusterError::Rejected { code, message, .. }) => check_refusal(code, &message),
        Err(error) => return Err(error),
    })
}

/// Returns a Pod that meets the Pod Security Standard `restricted`.
fn pod_of(containers: &[Value]) -> Value {
    let security = json!({"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}});
    json!({
        "metadata": {"generateName": "podgate-verify-"},
        "spec": {"securityContext": security, "containers": containers},
    })
}

fn container(name: &str) -> Value {
    let own = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    json!({"name": name, "image": "pause", "command": ["/pause"], "securityContext": own})
}

fn pods_path(cluster: &Cluster) -> String {
    format!("/api/v1/namespaces/{}/pods", cluster.namespace)
}

fn finding(level: Level, rule: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { level, ..Finding::note(rule, Place::root(), message).fix(fix) }
}

/// Returns the result of a request. Adds a note and returns `None` if the user has no permission for the request.
fn or_note<T>(what: &str, result: Result<T, ClusterError>, to: &mut Vec<Finding>) -> Result<Option<T>, ClusterError> {
    let Err(ClusterError::Rejected { code: 403, message, .. }) = result else { return result.map(Some) };
    to.push(finding(Level::Note, "not-checked", format!("cannot check {what}: {message}"), ""));
    Ok(None)
}
