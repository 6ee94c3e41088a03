//! `kubectl podgate verify`: checks podgate's installation. docs/troubleshooting.md explains each finding.

mod access;
mod denied;
mod pods;

use crate::clock::now;
use crate::cluster::{Cluster, ConnectionArgs};
use crate::common_args::OutputFormat;
use crate::error::ErrorKind::Rejected;
use crate::error::{CommandError, CommandResult};
use crate::orders;
use crate::output::{print, to_json};
use crate::registry::config_map;
use access::{
    OWN_POD_POLICY, UNKNOWN_CONTAINERS_POLICY, check_policy, explain_pod_rejection, missing_verbs,
    missing_verbs_finding,
};
use clap::Args;
use denied::find_denied_pods;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams};
use podgate::core::text::{command_line, sanitize};
use podgate::order::declare::keys;
use podgate::order::declare::spec::{SIDECAR_NAME, find_container};
use podgate::order::edit::Place;
use podgate::order::finding::{Finding, Level, has_errors};
use podgate::order::inject::{is_injected, strip};
use podgate::order::kubernetes_version::{dry_run_spec_with_env_file, rejects_env_files};
use podgate::order::lint::check_sidecar_position;
use serde_json::{Value, json};
use std::process::ExitCode;

const HELP: &str = "\
Checks the webhook, its certificate, the policies and the sidecars' permissions. Lists Pods that run
without their order, workloads whose Pods podgate denies, and images whose command the webhook does
not know. Creates a Pod in a dry run. A check that you may not run becomes a note. This page
explains each finding: https://github.com/podgate/podgate/blob/main/docs/troubleshooting.md

Examples:
  kubectl podgate verify -n shop
  kubectl podgate verify -o json | jq -r '.findings[].message'

Exit codes:
  0    no errors
  1    errors, or no connection to the cluster";

/// Check podgate's installation, and find Pods that run without their order
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct VerifyArgs {
    /// Print text or json
    #[arg(short, long, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    output: OutputFormat,
    #[command(flatten)]
    connection: ConnectionArgs,
}

pub(crate) async fn run(args: &VerifyArgs) -> CommandResult {
    let findings = check(&Cluster::from_args(&args.connection).await?).await?;
    let json = |f: &Finding| json!({"rule": f.rule, "level": f.level.as_str(), "message": f.message, "fix": f.fix});
    print(&match args.output {
        OutputFormat::Text => findings.iter().map(|finding| sanitize(&finding.line_without_place()) + "\n").collect(),
        OutputFormat::Json => to_json(&json!({"findings": findings.iter().map(json).collect::<Value>()})),
    })?;
    Ok(if has_errors(&findings) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn check(cluster: &Cluster) -> CommandResult<Vec<Finding>> {
    let mut findings = Vec::new();
    let webhook = match find_webhook(cluster).await {
        Err(error) if !matches!(error.kind, Rejected(403, _)) => return Err(error),
        found => or_finding("podgate's webhook", found, &mut findings),
    };
    let services = webhook.iter().flatten().flat_map(|own| own.webhooks.iter().flatten());
    let namespace = services.filter_map(|own| Some(&*own.client_config.service.as_ref()?.namespace)).next();
    let (mut images, mut assigned) = (None, None);
    if let Some(own) = namespace {
        images = or_finding("the webhook's file of images", config_map::read(cluster, own).await, &mut findings);
        let read = orders::read_config_map(cluster, own).await;
        assigned = or_finding("the webhook's file of orders", read, &mut findings);
    }
    let orders = assigned.unwrap_or_default();
    let pods = pods::read(cluster, images.as_ref(), &orders).await;
    let pods = or_finding("the Pods of all namespaces", pods, &mut findings);
    if let Some(Some(webhook)) = &webhook {
        let injection = or_finding("the injection", check_injection(cluster).await, &mut findings);
        let is_injected = injection.iter().flatten().any(|finding| finding.rule == "injected");
        if !is_injected && pods.as_ref().is_some_and(|pods| pods.ready_webhooks == 0) {
            let fix = "look for the cause: kubectl get deployments,pods -A -l app.kubernetes.io/name=podgate";
            findings.push(finding(Level::Error, "webhook-not-ready", "the webhook has no ready replica", fix));
        }
        findings.extend(injection.into_iter().flatten());
        add_findings("the webhook's certificate", check_certificate(cluster, webhook).await, &mut findings);
        let policy = check_policy(cluster, UNKNOWN_CONTAINERS_POLICY).await;
        add_findings("the policy podgate-unknown-containers", policy, &mut findings);
    } else if webhook.is_some() {
        let install = command_line(&["kubectl", "podgate", "install", "--namespaces", &cluster.namespace]);
        let fix = format!("install it: {install} | kubectl apply -f -");
        findings.push(finding(Level::Error, "missing-webhook", "the cluster does not have podgate's webhook", fix));
    }
    add_findings("the policy podgate-own-pod", check_policy(cluster, OWN_POD_POLICY).await, &mut findings);
    for ((workload, fix), count) in pods.iter().flat_map(|pods| &pods.unordered) {
        let what = format!("running Pods declare an order but have no sidecar: {workload} (Pods: {count})");
        findings.push(finding(Level::Error, "pod-without-sidecar", what, fix));
    }
    for ((rule, what, again), count) in pods.iter().flat_map(|pods| &pods.images) {
        let apply = ["kubectl", "podgate", "resolve-images", "--apply", "-n", namespace.unwrap_or_default()];
        let fix = format!("{}; then: {again}", command_line(&apply));
        findings.push(finding(Level::Warning, rule, format!("{what} (Pods: {count})"), fix));
    }
    for ((rule, what, fix), count) in pods.iter().flat_map(|pods| &pods.assigned) {
        findings.push(finding(Level::Warning, rule, format!("{what} (Pods: {count})"), fix));
    }
    for order in orders.iter().filter(|order| pods.as_ref().is_some_and(|pods| !pods.used.contains(&order.name))) {
        let what = format!("the webhook's {} matches no running Pod", order.name);
        let fix = "correct its namespaces or podLabels, or remove it; an earlier order may match its Pods";
        findings.push(finding(Level::Warning, "order-unused", what, fix));
    }
    add_findings("the workloads whose Pods are denied", find_denied_pods(cluster).await, &mut findings);
    for ((namespace, account), unprovable_conditions) in pods.iter().flat_map(|pods| &pods.accounts) {
        let missing = missing_verbs(cluster, namespace, account).await;
        let Some(missing) = or_finding("the permissions of service accounts", missing, &mut findings) else { break };
        findings.extend(missing_verbs_finding(namespace, account, &missing, unprovable_conditions));
    }
    add_findings("hold mode", check_hold_mode(cluster).await, &mut findings);
    if pods.is_some_and(|pods| pods.lean > 0) {
        add_findings("image volumes", check_image_volumes(cluster).await, &mut findings);
    }
    Ok(findings)
}

/// Name of the webhook inside the MutatingWebhookConfiguration. All of podgate's manifests use this name.
const WEBHOOK_NAME: &str = "pods.podgate.io";

/// Returns the configuration of podgate's webhook. The configuration's name is ignored, because users may choose any
/// name. A configuration without webhooks has no effect and does not count, even with podgate's labels.
async fn find_webhook(cluster: &Cluster) -> CommandResult<Option<MutatingWebhookConfiguration>> {
    let api: Api<MutatingWebhookConfiguration> = Api::all(cluster.client.clone());
    let list = cluster.await_response(api.list(&ListParams::default())).await?;
    let is_podgates = |found: &MutatingWebhookConfiguration| {
        let label = |key: &str| found.metadata.labels.as_ref()?.get(&format!("app.kubernetes.io/{key}"));
        let is_labeled = ["name", "component"].map(label) == [Some(&"podgate".to_owned()), Some(&"webhook".to_owned())];
        found.webhooks.iter().flatten().any(|webhook| is_labeled || webhook.name == WEBHOOK_NAME)
    };
    Ok(list.items.into_iter().find(is_podgates))
}

/// Returns a warning if the API server or a kubelet does not support hold mode.
async fn check_hold_mode(cluster: &Cluster) -> CommandResult<Option<Finding>> {
    let metadata = json!({"generateName": "podgate-verify-", "labels": {keys::INJECT_LABEL: "disabled"}});
    let pod = json!({"metadata": metadata, "spec": dry_run_spec_with_env_file()});
    let warning = |rule, what: String| {
        Ok(Some(finding(Level::Warning, rule, what, "upgrade Kubernetes, or set the commands of the containers")))
    };
    if let Err(CommandError { kind: Rejected(422, message), .. }) =
        cluster.create(&pods_path(cluster), true, &pod).await
        && rejects_env_files(&message)
    {
        let what = "hold mode is not possible: the API server does not support fileKeyRef";
        return warning("hold-not-possible", what.to_owned());
    }
    let Some(old) = old_nodes(cluster, ("kubeletVersion", (1, 35))).await? else { return Ok(None) };
    warning("old-kubelet", format!("hold mode is not possible on nodes with a kubelet older than 1.35: {old}"))
}

/// Returns the first node whose `nodeInfo` field has a version before this one, and the number of such nodes.
async fn old_nodes(cluster: &Cluster, (field, first): (&str, (u32, u32))) -> CommandResult<Option<String>> {
    let mut old = Vec::new();
    let add = |node: &Value| {
        let version = node["status"]["nodeInfo"][field].as_str().unwrap_or_default();
        let mut parts = version.trim_start_matches("containerd://").trim_start_matches('v').split('.').map(str::parse);
        let is_old =
            parts.next().zip(parts.next()).is_some_and(|version| matches!(version, (Ok(a), Ok(b)) if (a, b) < first));
        old.extend(is_old.then(|| node["metadata"]["name"].as_str().unwrap_or_default().to_owned()));
    };
    cluster.for_each("/api/v1/nodes", ListParams::default(), add).await?;
    Ok(old.first().map(|first| format!("{first} (nodes: {})", old.len())))
}

/// Returns a warning if a node cannot run Pods without a sidecar, because it has no image volumes.
async fn check_image_volumes(cluster: &Cluster) -> CommandResult<Option<Finding>> {
    let kubelet = old_nodes(cluster, ("kubeletVersion", (1, 35))).await?;
    let old = if kubelet.is_some() { kubelet } else { old_nodes(cluster, ("containerRuntimeVersion", (2, 1))).await? };
    let Some(old) = old else { return Ok(None) };
    let what = format!("Pods without a sidecar cannot start on nodes without image volumes: {old}");
    let fix = "use Kubernetes 1.35 and containerd 2.1 on each node, or remove podgate.io/sidecar: none";
    Ok(Some(finding(Level::Warning, "no-image-volumes", what, fix)))
}

/// Returns an error if the `caBundle` of a webhook lacks the CA of the certificate.
async fn check_certificate(
    cluster: &Cluster,
    configuration: &MutatingWebhookConfiguration,
) -> CommandResult<Option<Finding>> {
    let clients = configuration.webhooks.iter().flatten().map(|webhook| &webhook.client_config);
    let Some(service) = clients.clone().find_map(|client| client.service.as_ref()) else { return Ok(None) };
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), &service.namespace);
    let Some(secret) = cluster.await_response(secrets.get_opt("podgate-webhook-tls")).await? else { return Ok(None) };
    let ca = secret.data.as_ref().and_then(|data| data.get("ca.crt")).map_or(&[][..], |ca| ca.0.trim_ascii());
    let is_in = |bundle: &[u8]| bundle.windows(ca.len()).any(|part| part == ca);
    let mut bundles = clients.map(|client| client.ca_bundle.as_ref());
    let is_trusted = !ca.is_empty() && bundles.all(|bundle| bundle.is_some_and(|bundle| is_in(&bundle.0)));
    let logs = command_line(&["kubectl", "logs", "-n", &service.namespace, "deployment/podgate-webhook"]);
    let fix = format!("read the webhook's log: {logs}");
    let what = "caBundle lacks the CA of the webhook's certificate";
    Ok(Some(finding(Level::Error, "webhook-untrusted", what, fix)).filter(|_| !is_trusted))
}

/// Checks that the webhook injects a Pod that declares an order, and that no other webhook changes podgate's parts.
async fn check_injection(cluster: &Cluster) -> CommandResult<Vec<Finding>> {
    let (namespace, since) = (&cluster.namespace, now());
    // This Pod meets the Pod Security Standard `restricted`, and quotas for CPU and memory.
    let own = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let resources = json!({"cpu": "10m", "memory": "16Mi"});
    let container = |name| {
        json!({"name": name, "image": "pause", "command": ["/pause"], "securityContext": own,
            "resources": {"requests": resources, "limits": resources}})
    };
    let security = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    let pod = json!({
        "metadata": {"generateName": "podgate-verify-", "annotations": {keys::ORDER: "first=Started, second", keys::SIDECAR: "always"}},
        "spec": {"securityContext": security, "containers": [container("first"), container("second")]},
    });
    let found = match cluster.create(&pods_path(cluster), true, &pod).await {
        Ok(pod) if is_injected(&pod) => {
            let time = since.elapsed().as_millis();
            let what = format!("the webhook injects a Pod in the namespace {namespace}: the dry run took {time} ms");
            return Ok([vec![finding(Level::Note, "injected", what, "")], check_parts(&pod)].concat());
        }
        Ok(_) => {
            let what = format!("the webhook does not inject a Pod with an order in the namespace {namespace}");
            let fix = "if the webhook excludes this namespace, pass another with -n; otherwise run kubectl podgate install --diff";
            finding(Level::Error, "not-injected", what, fix)
        }
        Err(CommandError { kind: Rejected(404, _), .. }) => {
            let what = format!("the namespace {namespace} does not exist, so the injection was not checked");
            finding(Level::Error, "dry-run-skipped", what, "pass a namespace that exists with -n")
        }
        Err(CommandError { kind: Rejected(code, message), .. }) => explain_pod_rejection(code, &message),
        Err(error) => return Err(error),
    };
    Ok(vec![found])
}

/// Returns findings about the parts of podgate that other webhooks have changed in an injected Pod.
fn check_parts(pod: &Value) -> Vec<Finding> {
    let mut found = strip(pod).err().unwrap_or_default();
    let sidecar = find_container(pod, SIDECAR_NAME).filter(|(_, own)| own["restartPolicy"] != "Always");
    // A webhook with an old client library drops the field, which it does not know.
    let what = "podgate's sidecar has no restartPolicy: Always, so the Pod waits forever for its exit";
    found.extend(sidecar.map(|(at, _)| Finding::error("injected-changed", at, what)));
    found.extend(check_sidecar_position(pod));
    let fix = "let podgate's webhook run after the other webhook, or let that webhook skip podgate's parts";
    let by_webhook = |it: Finding| {
        finding(it.level, it.rule, format!("another webhook changes podgate's parts: {}", it.message), fix)
    };
    found.into_iter().map(by_webhook).collect()
}

fn pods_path(cluster: &Cluster) -> String {
    format!("/api/v1/namespaces/{}/pods", cluster.namespace)
}

fn finding(level: Level, rule: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { level, ..Finding::note(rule, Place::root(), message).fix(fix) }
}

/// Adds the findings of a check. If the check was not possible, adds a finding with the reason.
fn add_findings(what: &str, result: CommandResult<impl IntoIterator<Item = Finding>>, to: &mut Vec<Finding>) {
    let found = or_finding(what, result, to);
    to.extend(found.into_iter().flatten());
}

/// Returns the result of a request. If the request failed, adds a finding and returns `None`.
fn or_finding<T>(what: &str, result: CommandResult<T>, to: &mut Vec<Finding>) -> Option<T> {
    let (level, why, fix) = match result {
        Ok(found) => return Some(found),
        Err(CommandError { kind: Rejected(403, message), .. }) => (Level::Note, message, ""),
        Err(error) => (Level::Error, error.to_string(), "correct this, then run kubectl podgate verify again"),
    };
    to.push(finding(level, "not-checked", format!("cannot check {what}: {why}"), fix));
    None
}
