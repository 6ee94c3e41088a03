//! `kubectl podgate resolve-images`: writes the file of `--images`.

use crate::block_on;
use crate::cluster::ConnectionArgs;
use crate::error::{CommandError, CommandResult};
use crate::output::{print, to_json};
use crate::registry::images::{look_up, wanted_images};
use crate::registry::{RegistryArgs, config_map};
use crate::yaml::ManifestArgs;
use crate::yaml::files::check_readable;
use clap::{ArgGroup, Args};

const HELP: &str = "\
Looks up the images of ordered containers that have no command, and prints their commands as a file.
With this file (--images), the webhook, `inject` and `check` need no registry. With --apply, it
replaces the entries of the images that it finds in the webhook's ConfigMap, and keeps all others.

Examples:
  kubectl podgate resolve-images --apply
  kubectl podgate resolve-images -R deploy/ >images.json

Exit codes:
  0    done
  1    a manifest, an image or the cluster could not be read";

/// Write the commands of images to a file for the webhook
#[derive(Debug, Args)]
#[command(after_help = HELP, group(ArgGroup::new("lookup").multiple(true)))]
#[command(group(ArgGroup::new("connection").args(["namespace", "context", "kubeconfig", "request_timeout"]).multiple(true).conflicts_with_all(["files", "named"])))]
#[command(mut_arg("files", |arg| arg.required_unless_present("apply")))]
#[command(mut_arg("namespace", |arg| arg.default_value("podgate").help("Write the ConfigMap in this namespace")))]
pub(crate) struct ResolveImagesArgs {
    #[command(flatten)]
    manifests: ManifestArgs,
    /// Read the cluster, and write the webhook's ConfigMap
    #[arg(long, conflicts_with_all = ["files", "named", "recursive"])]
    apply: bool,
    #[command(flatten)]
    registry: RegistryArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

pub(crate) fn run(args: &ResolveImagesArgs) -> CommandResult {
    let (text, errors) = if args.apply {
        block_on(async {
            let (cluster, images, errors) =
                config_map::resolve_cluster_images(&args.connection, &args.registry).await?;
            Ok((config_map::apply(&cluster, images).await?, errors))
        })?
    } else {
        let sources = args.manifests.read();
        check_readable(&sources, false).map_err(CommandError::of_lines)?;
        let (images, errors) = block_on(look_up(&wanted_images(&sources), &args.registry))?;
        (to_json(&images), errors)
    };
    let code = print(&text);
    CommandError::fail_if_any(errors)?;
    code
}
