//! Looks up the `Entrypoint` and `Cmd` of images in their registries.

mod client;
pub(crate) mod config_map;
mod connection;
mod credentials;
pub(crate) mod images;

use crate::common_args::duration;
use clap::{ArgGroup, Args};
use std::path::PathBuf;
use std::time::Duration;

/// Flags that find the commands of images. A container without a `command` gets its command from the image.
#[derive(Debug, Clone, Args)]
#[command(group(ArgGroup::new("lookup").multiple(true).requires("resolve_images")))]
pub(crate) struct ImageArgs {
    /// Read missing commands from a file of `resolve-images`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["resolve_images", "no_pin", "lookup"])]
    pub(crate) images: Option<PathBuf>,
    /// Read missing commands from the registry, and pin the images
    #[arg(long)]
    pub(crate) resolve_images: bool,
    /// Do not pin the images to their digests
    #[arg(long, requires = "resolve_images")]
    pub(crate) no_pin: bool,
    #[command(flatten)]
    pub(crate) registry: RegistryArgs,
}

/// Flags of the lookup in registries. The command that has them defines the group `lookup`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RegistryArgs {
    /// Look up this platform
    #[arg(long, value_name = "OS/ARCH", default_value = "linux/amd64", value_parser = platform, group = "lookup")]
    pub(crate) platform: String,
    /// Log in with this .dockerconfigjson or Secret; repeatable
    #[arg(long, value_name = "FILE", group = "lookup")]
    pub(crate) pull_secret: Vec<PathBuf>,
    /// Also trust the CA certificates in this PEM file; repeatable
    #[arg(long, value_name = "FILE", group = "lookup")]
    pub(crate) registry_ca: Vec<PathBuf>,
    /// Use plain HTTP for the registry HOST[:PORT]; repeatable
    #[arg(long, value_name = "HOST", group = "lookup")]
    pub(crate) insecure_registry: Vec<String>,
    /// Wait at most this long for one image lookup
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration, group = "lookup")]
    pub(crate) registry_timeout: Duration,
    /// Read the credentials that `docker login` stored in this directory
    #[arg(long, value_name = "DIRECTORY", env = "DOCKER_CONFIG", hide = true)]
    pub(crate) docker_config: Option<PathBuf>,
}

fn platform(text: &str) -> Result<String, &'static str> {
    let is_valid = (2..=3).contains(&text.split('/').count()) && text.split('/').all(|part| !part.is_empty());
    is_valid.then(|| text.to_owned()).ok_or("write OS/ARCH, such as linux/arm64")
}
