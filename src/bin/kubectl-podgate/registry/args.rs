//! The arguments by which images are looked up.

use crate::common_args::duration;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Where the words of a container without a `command` come from.
#[derive(Debug, Clone, Args)]
pub(crate) struct ImageArgs {
    /// Where a container has no command, take Entrypoint and Cmd of its image from the registry, so that
    /// it can wait in a gate; the image is pinned to the digest that was looked at
    #[arg(long)]
    pub(crate) resolve_images: bool,
    /// Don't pin: another image may then stand behind the tag, with another command
    #[arg(long, requires = "resolve_images")]
    pub(crate) no_pin: bool,
    /// The platform, where an image has several
    #[arg(long, value_name = "OS/ARCH[/VARIANT]", default_value = "linux/amd64", value_parser = platform, requires = "resolve_images")]
    pub(crate) platform: Platform,
    /// A .dockerconfigjson, or a Secret's manifest with one, to log in with; may be given several times
    #[arg(long, value_name = "FILE", requires = "resolve_images")]
    pub(crate) pull_secret: Vec<PathBuf>,
    /// A file of PEM certificates to trust beside the system's
    #[arg(long, value_name = "FILE", requires = "resolve_images")]
    pub(crate) registry_ca: Vec<PathBuf>,
    /// A registry to speak plain HTTP with, HOST[:PORT]; localhost needs no naming
    #[arg(long, value_name = "HOST", requires = "resolve_images")]
    pub(crate) insecure_registry: Vec<String>,
    /// How long one image may take
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration, requires = "resolve_images")]
    pub(crate) registry_timeout: Duration,
    /// The user's docker configuration, for logins that `docker login` wrote
    #[arg(long, value_name = "FOLDER", env = "DOCKER_CONFIG", hide = true)]
    pub(crate) docker_config: Option<PathBuf>,
    /// Where looked-up commands are kept between runs
    #[arg(long, value_name = "FOLDER", env = "XDG_CACHE_HOME", hide = true)]
    pub(crate) cache_home: Option<PathBuf>,
}

/// Value of `--platform`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Platform {
    pub(crate) os: String,
    pub(crate) architecture: String,
    pub(crate) variant: Option<String>,
}

fn platform(text: &str) -> Result<Platform, &'static str> {
    let mut parts = text.split('/');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(os), Some(architecture), variant, None)
            if !os.is_empty() && !architecture.is_empty() && variant != Some("") =>
        {
            let variant = variant.map(str::to_owned);
            Ok(Platform { os: os.to_owned(), architecture: architecture.to_owned(), variant })
        }
        _ => Err("write OS/ARCH, as linux/arm64"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_platform() {
        let arm = platform("linux/arm/v7").unwrap();
        assert_eq!((arm.os.as_str(), arm.architecture.as_str(), arm.variant.as_deref()), ("linux", "arm", Some("v7")));
        for text in ["", "linux", "linux/", "/amd64", "linux/arm/", "a/b/c/d"] {
            assert!(platform(text).is_err(), "{text:?}");
        }
    }
}
