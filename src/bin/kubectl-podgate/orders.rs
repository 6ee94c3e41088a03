//! Reads the file of orders, which the webhook assigns to Pods that declare none.

use crate::cluster::Cluster;
use crate::error::CommandResult;
use crate::registry::config_map;
use crate::yaml::files::{display_name, read_text};
use podgate::order::assigned::AssignedOrders;
use std::path::Path;

/// Reads a file. On failure, returns a message with file and line.
pub(crate) fn read(path: &Path) -> Result<AssignedOrders, String> {
    read_text(path).and_then(|text| parse(&text)).map_err(|message| format!("{}: {message}", display_name(path)))
}

/// Reads the ConfigMap of the webhook in `namespace`. Without the ConfigMap, there are no orders.
pub(crate) async fn read_config_map(cluster: &Cluster, namespace: &str) -> CommandResult<AssignedOrders> {
    config_map::read_file(cluster, namespace, ("podgate-orders", "orders.yaml"), parse).await
}

fn parse(text: &str) -> Result<AssignedOrders, String> {
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}
