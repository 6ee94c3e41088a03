//! `kubectl podgate resolve-images`: writes the file of `--images`.

use crate::output::{fail_all, print, to_json};
use crate::registry::RegistryArgs;
use crate::registry::images::{look_up, wanted_images};
use crate::yaml::ManifestArgs;
use crate::yaml::files::check_readable;
use clap::{ArgGroup, Args};
use std::process::ExitCode;

const HELP: &str = "\
Looks up the images of ordered containers that have no command, and prints their commands as a file.
With this file (--images), the webhook, `inject` and `check` need no registry.

Examples:
  kubectl podgate resolve-images -R deploy/ >images.json
  kubectl get pods -A -o json | kubectl podgate resolve-images - >images.json

Exit codes:
  0    done
  1    a manifest or an image could not be read";

/// Write the commands of images to a file for the webhook
#[derive(Debug, Args)]
#[command(after_help = HELP, group(ArgGroup::new("registry").multiple(true)))]
pub(crate) struct ResolveImages {
    #[command(flatten)]
    manifests: ManifestArgs,
    #[command(flatten)]
    registry: RegistryArgs,
}

pub(crate) fn run(args: &ResolveImages) -> Result<ExitCode, Vec<String>> {
    let sources = args.manifests.read();
    check_readable(&sources, false)?;
    let (images, errors) = look_up(&wanted_images(&sources), &args.registry)?;
    let code = print(&to_json(&images));
    Ok(if errors.is_empty() { code } else { fail_all(&errors) })
}
