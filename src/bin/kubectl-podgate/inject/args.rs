//! The arguments of `inject` and `uninject`, and what their help teaches.

use crate::registry::ImageArgs;
use crate::yaml::ManifestArgs;
use clap::Args;
use podgate::order::release;
use std::path::PathBuf;

const INJECT_HELP: &str = "\
Reads manifests, and writes them with what their annotations ask for: the sidecar, its volumes, and in each
container of the order a hook or a gate. Only Pods and pod templates that declare an order are touched; every
other document comes out byte for byte, and in a touched one no other line and no comment changes. Run on its
own result it changes nothing. What is to be said about the manifests goes to standard error.

An order is declared on the Pod, or on a workload's pod template:
  metadata:
    annotations:
      podgate.io/order: db, api, web

Examples:
  kubectl podgate inject -f shop.yaml | kubectl apply -f -
  kubectl podgate inject -i -R deploy/            rewrites the files that declare an order
  kubectl podgate inject --check -R deploy/       for CI: are they as inject would write them?
  kubectl podgate inject --diff -f shop.yaml      what would change
  helm template shop ./chart | kubectl podgate inject - | kubectl apply -f -
  kubectl podgate inject --from kruise -f shop.yaml

Exit codes:
  0    done; also if nothing declares an order
  1    a manifest can't be read, declares something that can't be, or can't be written: nothing is written
  3    with --check: something would change
  64   wrong flag or argument";

const UNINJECT_HELP: &str = "\
The way back: takes out of manifests what `inject` has put in. A list or an object that was empty before, or
not there, may stay behind empty; everything else comes out as it was. The annotations that declare the order
are yours, and stay.

Examples:
  kubectl podgate uninject -f shop.yaml
  kubectl podgate uninject -i -R deploy/
  kubectl get deployment shop -o yaml | kubectl podgate uninject - | kubectl replace -f -

Exit codes:
  0    done; also if nothing was injected
  1    a manifest can't be read, or what was injected has been changed by hand: nothing is written
  3    with --check: something would change
  64   wrong flag or argument";

/// Write the declared order into manifests: sidecar, volumes, hooks and gates
#[derive(Debug, Args)]
#[command(after_help = INJECT_HELP)]
pub(crate) struct Inject {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    /// The image with the sidecar and the agent
    #[arg(long, value_name = "IMAGE", default_value_t = release::sidecar_image())]
    pub(crate) image: String,
    /// The sidecar's imagePullPolicy; by default left to the cluster
    #[arg(long, value_name = "POLICY", value_parser = ["Always", "IfNotPresent", "Never"])]
    pub(crate) image_pull_policy: Option<String>,
    /// Leave the sidecar's numeric user out: OpenShift gives each namespace its own
    #[arg(long)]
    pub(crate) no_fixed_user: bool,
    /// Read an order that was written for something else: kruise (launch priorities), compose=FILE (its
    /// depends_on), tekton or tekton=FILE (steps)
    #[arg(long, value_name = "WHAT[=FILE]", value_parser = parse_order_source)]
    pub(crate) from: Option<OrderSource>,
    #[command(flatten)]
    pub(crate) images: ImageArgs,
}

/// Take out of manifests what inject has put in
#[derive(Debug, Args)]
#[command(after_help = UNINJECT_HELP)]
pub(crate) struct Uninject {
    #[command(flatten)]
    pub(crate) files: FileArgs,
}

/// What is read, and where the result goes.
#[derive(Debug, Clone, Args)]
pub(crate) struct FileArgs {
    #[command(flatten)]
    pub(crate) manifests: ManifestArgs,
    /// Rewrite the files, those that change: each by a new file in the old one's place
    #[arg(short, long, conflicts_with_all = ["check", "diff"])]
    pub(crate) in_place: bool,
    /// Write nothing; list what would change, and end with 3 if something would
    #[arg(long)]
    pub(crate) check: bool,
    /// Print what would change, as a patch, instead of the manifests
    #[arg(long)]
    pub(crate) diff: bool,
    /// Say nothing but warnings and errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Value of `--from`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OrderSource {
    Kruise,
    Compose(PathBuf),
    Tekton(Option<PathBuf>),
}

fn parse_order_source(text: &str) -> Result<OrderSource, &'static str> {
    match text.split_once('=') {
        None if text == "kruise" => Ok(OrderSource::Kruise),
        None if text == "tekton" => Ok(OrderSource::Tekton(None)),
        None if text == "compose" => Err("name the Compose file: compose=FILE"),
        Some((_, "")) => Err("name a file behind the ="),
        Some(("compose", file)) => Ok(OrderSource::Compose(file.into())),
        Some(("tekton", file)) => Ok(OrderSource::Tekton(Some(file.into()))),
        _ => Err("write kruise, compose=FILE, tekton or tekton=FILE"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_an_order_is_read_from() {
        assert_eq!(parse_order_source("kruise"), Ok(OrderSource::Kruise));
        assert_eq!(parse_order_source("compose=a=b.yaml"), Ok(OrderSource::Compose("a=b.yaml".into())));
        assert_eq!(parse_order_source("tekton"), Ok(OrderSource::Tekton(None)));
        for text in ["", "compose", "compose=", "kruise=x", "helm"] {
            assert!(parse_order_source(text).is_err(), "{text:?}");
        }
    }
}
