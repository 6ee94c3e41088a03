//! `kubectl podgate resolve-images`: writes the file of `--images`, or compares it with the registries.

use crate::output::{fail_all, print, to_json};
use crate::registry::RegistryArgs;
use crate::registry::images::{look_up, read_image_file, wanted_images};
use crate::yaml::ManifestArgs;
use crate::yaml::files::check_readable;
use clap::{ArgGroup, Args};
use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
Looks up the images of ordered containers that have no command, and prints their commands as a file.
With this file (--images), the webhook, `inject` and `check` need no registry.

Examples:
  kubectl podgate resolve-images -R deploy/ >images.json
  kubectl get pods -A -o json | kubectl podgate resolve-images - >images.json
  kubectl podgate resolve-images --check images.json

Exit codes:
  0    done
  1    a manifest or an image could not be read; with --check also: an entry is outdated
  64   wrong flag or argument";

/// Write the commands of images to a file for the webhook
#[derive(Debug, Args)]
#[command(after_help = HELP, group(ArgGroup::new("registry").multiple(true)))]
#[command(mut_arg("files", |arg| arg.required_unless_present("check")))]
pub(crate) struct ResolveImages {
    #[command(flatten)]
    manifests: ManifestArgs,
    /// Instead compare the entries of this file with the registries
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "named"])]
    check: Option<PathBuf>,
    #[command(flatten)]
    registry: RegistryArgs,
}

pub(crate) fn run(args: &ResolveImages) -> Result<ExitCode, Vec<String>> {
    let Some(path) = &args.check else {
        let sources = args.manifests.read();
        check_readable(&sources, false)?;
        let (images, errors) = look_up(&wanted_images(&sources, false), &args.registry)?;
        let code = print(&to_json(&images));
        return Ok(if errors.is_empty() { code } else { fail_all(&errors) });
    };
    let entries = read_image_file(path)?;
    let wanted = entries.keys().map(|image| (image.clone(), format!("{}: {image}", path.display()))).collect();
    let (images, mut lines) = look_up(&wanted, &args.registry)?;
    for (image, now) in &images {
        let (old, at) = (&entries[image], &wanted[image]);
        if !old.digest.is_empty() && old.digest != now.digest {
            lines.push(format!("{at}: the tag has moved to {}; run resolve-images again", now.digest));
        } else if (&old.entrypoint, &old.cmd) != (&now.entrypoint, &now.cmd) {
            lines.push(format!("{at}: the image has another command; run resolve-images again"));
        }
    }
    if lines.is_empty() { Ok(ExitCode::SUCCESS) } else { Err(lines) }
}
