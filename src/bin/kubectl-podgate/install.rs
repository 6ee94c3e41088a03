//! `kubectl podgate install`: prints the manifests that this version needs in the cluster.

use crate::block_on;
use crate::cluster::{ConnectionArgs, parse_namespace};
use crate::error::{CommandError, CommandResult};
use crate::output::{print, print_stderr_line};
use crate::registry::{RegistryArgs, config_map};
use crate::yaml::Style;
use clap::{ArgGroup, Args};
use podgate::core::text::error_chain;
use podgate::order::release;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

const HELP: &str = "\
Prints the manifests of this version: the policies, the roles, and the webhook in the namespace
podgate. Changes nothing in the cluster. Only Pods in --namespaces get a token and publish their
states. Pass all these namespaces each time. --resolve-images and --diff read the cluster of
kubectl's current context.

Examples:
  kubectl podgate install --resolve-images | kubectl apply -f -
  kubectl podgate install --namespaces shop,bank --registry HOST/mirror | kubectl apply -f -
  kubectl podgate install --diff
  kubectl podgate install --uninstall --namespaces shop | kubectl delete --ignore-not-found -f -

Exit codes:
  0    printed; with --diff: no differences
  1    an error, or an image was not found; with --diff: differences, or kubectl diff failed";

/// Print podgate's manifests for kubectl apply
#[derive(Debug, Args)]
#[command(after_help = HELP, group(ArgGroup::new("lookup").multiple(true).requires("resolve_images")))]
pub(crate) struct InstallArgs {
    /// Take the images from this registry
    #[arg(long, value_name = "HOST/PATH", default_value = release::IMAGE_REGISTRY, value_parser = parse_registry)]
    registry: String,
    /// Let Pods in these namespaces publish states; NAME,NAME
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = parse_namespace)]
    namespaces: Vec<String>,
    /// While it is down: Fail (deny Pods) or Ignore
    #[arg(long, value_name = "POLICY", default_value = "Fail", value_parser = ["Fail", "Ignore"], hide_possible_values = true)]
    failure_policy: String,
    /// Run `kubectl diff` to show what would change in the cluster
    #[arg(long, conflicts_with = "uninstall")]
    diff: bool,
    /// Print the objects to delete, except the namespace podgate
    #[arg(long)]
    uninstall: bool,
    /// Add a ConfigMap with the commands of the images in the cluster
    #[arg(long, conflicts_with = "uninstall")]
    resolve_images: bool,
    #[command(flatten)]
    lookup: RegistryArgs,
}

fn parse_registry(text: &str) -> Result<String, &'static str> {
    let parsed = release::parse_image(&format!("{text}/podgate"));
    parsed.map(|_| text.to_owned()).map_err(|_| "not a registry; write HOST/PATH, such as registry.example.com/podgate")
}

/// Registry of the images in the manifests.
const REGISTRY: &str = "ghcr.io/podgate/";
const ROLE_BINDING: &str = include_str!("../../../manifests/rolebinding.yaml");
macro_rules! manifests {
    ($($file:literal),*) => { [$(include_str!(concat!("../../../manifests/", $file, ".yaml"))),*] };
}

pub(crate) fn run(args: &InstallArgs) -> CommandResult {
    let (mut objects, mut errors) = (objects(args), Vec::new());
    if args.uninstall {
        // Delete the webhook's configuration first. Otherwise the API server would reject Pods while the webhook is
        // missing. Omit the namespace, because it may contain objects of the user.
        objects.retain(|object| !object.contains("\nkind: Namespace\n"));
        objects.reverse();
    }
    if args.resolve_images {
        let (namespace, request_timeout) = (Some("podgate".to_owned()), Duration::from_secs(15));
        let kubeconfig_files = "kubectl's kubeconfig".to_owned();
        let connection =
            ConnectionArgs { namespace, context: None, kubeconfig: None, kubeconfig_files, request_timeout };
        let (_, config_map, failed) = block_on(config_map::resolve_cluster_images(&connection, &args.lookup))?;
        let style = Style { is_json: false, spaced: false, newline: "\n", indent: 2, list_indent: 0 };
        let fields = config_map.as_object().into_iter().flatten();
        // Insert the ConfigMap after the namespace.
        objects.insert(1, fields.map(|(key, value)| style.entry(Some(key), value, 0, 1)).collect());
        errors = failed;
    }
    let text = objects.join("---\n");
    let failed = |error| format!("cannot run kubectl: {}", error_chain(&error));
    let code = if args.diff { diff(&text).map_err(|error| failed(error).into()) } else { print(&text) };
    CommandError::fail_if_any(errors)?;
    code
}

/// Returns the objects in kubectl's order of creation. A policy must exist before the permission that it limits.
fn objects(args: &InstallArgs) -> Vec<String> {
    let policies = manifests!["injector/namespace", "policy", "injector/policy", "injector/unknown-containers"];
    let rights = manifests!["injector/networkpolicy", "rbac", "injector/rbac"];
    let [deployment, webhook] = manifests!["injector/deployment", "injector/webhook"];
    let files = policies.into_iter().chain(rights).map(str::to_owned);
    let in_namespace = |name| ROLE_BINDING.replace("metadata:\n", &format!("metadata:\n  namespace: {name}\n"));
    let deployment = deployment.replace("S, value: \"\"", &format!("S, value: \"{}\"", args.namespaces.join(",")));
    let webhook = webhook.replace("failurePolicy: Fail", &format!("failurePolicy: {}", args.failure_policy));
    let files = files.chain(args.namespaces.iter().map(in_namespace)).chain([deployment, webhook]);
    let text = files.collect::<Vec<_>>().join("---\n").replace(REGISTRY, &format!("{}/", args.registry));
    // Remove the comments, because they refer to other files.
    let lines = text.split_inclusive('\n').filter(|line| !line.trim_start().starts_with('#'));
    lines.collect::<String>().split("---\n").map(str::to_owned).collect()
}

fn diff(text: &str) -> std::io::Result<ExitCode> {
    let mut kubectl = Command::new("kubectl");
    kubectl.args(["diff", "-f", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut kubectl = kubectl.spawn()?;
    // Ignore an error: if kubectl does not read its input, kubectl prints the reason and fails.
    let _ = kubectl.stdin.take().map(|mut input| input.write_all(text.as_bytes()));
    // Drop the log lines of kubectl's libraries, such as `E1129 10:00:00.000000 …`, because kubectl's message follows.
    let is_log = |line: &str| {
        line.starts_with(['E', 'W', 'I']) && line.get(1..5).is_some_and(|date| date.parse::<u16>().is_ok())
    };
    let lines = kubectl.stderr.take().into_iter().flat_map(|pipe| BufReader::new(pipe).lines().map_while(Result::ok));
    lines.filter(|line| !is_log(line)).for_each(|line| print_stderr_line(&line));
    Ok(if kubectl.wait()?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
