//! Where releases of podgate are published. The one place for it: set the two variables when you build for a registry or a
//! repository of your own.

/// Registry and path of the images. Build with `PODGATE_IMAGE_REGISTRY` to change it.
pub const IMAGE_REGISTRY: &str = non_empty_or(option_env!("PODGATE_IMAGE_REGISTRY"), "ghcr.io/podgate");
/// URL of the source repository. Build with `PODGATE_REPOSITORY` to change it.
pub const REPOSITORY: &str = non_empty_or(option_env!("PODGATE_REPOSITORY"), env!("CARGO_PKG_REPOSITORY"));

/// Image of the sidecar and the agent, of this version.
pub fn sidecar_image() -> String {
    image("podgate")
}

/// Image of the program `name`, of this version.
pub fn image(name: &str) -> String {
    format!("{IMAGE_REGISTRY}/{name}:{}", env!("CARGO_PKG_VERSION"))
}

/// URL of the page `name` of the documentation.
pub fn docs_url(name: &str) -> String {
    format!("{REPOSITORY}/blob/main/docs/{name}")
}

const fn non_empty_or(set: Option<&'static str>, default: &'static str) -> &'static str {
    match set {
        Some(set) if !set.is_empty() => set,
        _ => default,
    }
}
