//! ConfigMap with the file of `--images`, which the webhook reads.

use super::RegistryArgs;
use super::images::{WantedImages, add_wanted, look_up};
use crate::cluster::{Cluster, ConnectionArgs};
use crate::error::CommandResult;
use crate::output::to_json;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, Patch, PatchParams};
use podgate::core::text::command_line;
use podgate::order::edit::Place;
use podgate::order::image_map::{ImageMap, parse};
use podgate::order::pod_templates::templates;
use serde_json::{Value, json};

/// Name of the ConfigMap in podgate's manifests and chart.
const NAME: &str = "podgate-images";
/// Size limit of the file, in bytes: that of Kubernetes for a ConfigMap, and that of the webhook.
const FILE_MAX: usize = 1 << 20;

/// Lists of objects with Pod templates. The Pods come last, so that an error names the workload. Pods stand for the
/// workloads of other kinds.
const LISTS: &str = "/apis/apps/v1/deployments /apis/apps/v1/statefulsets /apis/apps/v1/daemonsets \
    /apis/batch/v1/cronjobs /apis/batch/v1/jobs /api/v1/pods";

/// Looks up the images of the Pods and workloads of all namespaces. Returns the ConfigMap for the selected namespace,
/// which keeps its entries for other images, and one line for each image that was not found.
pub(crate) async fn resolve_cluster_images(
    server: &ConnectionArgs,
    args: &RegistryArgs,
) -> CommandResult<(Cluster, Value, Vec<String>)> {
    let cluster = Cluster::from_args(server).await?;
    let namespace = &cluster.namespace;
    let (found, errors) = look_up(&wanted_images(&cluster).await?, args).await?;
    let mut images = read(&cluster, namespace).await?;
    images.extend(found);
    let file = to_json(&images);
    if file.len() > FILE_MAX {
        let what = format!("the ConfigMap {namespace}/{NAME} would have {} bytes, more than 1 MiB", file.len());
        let delete = command_line(&["kubectl", "-n", namespace, "delete", "configmap", NAME]);
        return Err(format!("{what}; to drop unused images, delete it: {delete}").into());
    }
    let (metadata, data) = (json!({"name": NAME, "namespace": namespace}), json!({"images.json": file.trim_end()}));
    Ok((cluster, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}), errors))
}

/// Writes the ConfigMap. Returns a message about it.
pub(crate) async fn apply(cluster: &Cluster, config_map: Value) -> CommandResult<String> {
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let params = PatchParams::apply("kubectl-podgate").force();
    cluster.await_response(api.patch(NAME, &params, &Patch::Apply(config_map))).await?;
    let to = format!("{}/{NAME}", cluster.namespace);
    Ok(format!("wrote the ConfigMap {to}: new Pods use it in about two minutes, running Pods when they restart\n"))
}

/// Reads the commands of the ConfigMap in `namespace`. Without the ConfigMap, there are none.
pub(crate) async fn read(cluster: &Cluster, namespace: &str) -> CommandResult<ImageMap> {
    read_file(cluster, namespace, (NAME, "images.json"), |text| parse(text.as_bytes())).await
}

/// Reads the file `key` of the ConfigMap `name`. Without the ConfigMap, returns the default.
pub(crate) async fn read_file<T: Default>(
    cluster: &Cluster,
    namespace: &str,
    (name, key): (&str, &str),
    parse: fn(&str) -> Result<T, String>,
) -> CommandResult<T> {
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), namespace);
    let found = cluster.await_response(api.get_opt(name)).await?;
    let Some(file) = found.and_then(|found| found.data?.remove(key)) else { return Ok(T::default()) };
    Ok(parse(&file).map_err(|why| format!("the ConfigMap {namespace}/{name}: {why}"))?)
}

/// Returns the images that the Pods and workloads of the cluster need.
async fn wanted_images(cluster: &Cluster) -> CommandResult<WantedImages> {
    let mut wanted = WantedImages::new();
    for path in LISTS.split(' ') {
        let kind = path.rsplit('/').next().unwrap_or_default();
        let running = ListParams::default().fields("status.phase!=Succeeded,status.phase!=Failed");
        let parameters = if kind == "pods" { running } else { ListParams::default() };
        let add = |item: &Value| {
            let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default();
            let place = format!("{kind}/{} in the namespace {}", text("name"), text("namespace"));
            // The items of a list have no kind.
            let places = templates(item).into_iter().map(|template| template.place);
            let places = if kind == "pods" { vec![Place::root()] } else { places.collect() };
            places.iter().filter_map(|at| at.of(item)).for_each(|own| add_wanted(&mut wanted, own, &place));
        };
        cluster.for_each(path, parameters, add).await?;
    }
    Ok(wanted)
}
