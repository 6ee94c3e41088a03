//! Image registry and source repository of podgate's releases. To build for your own, set the two environment
//! variables.

/// Registry and path of the images. Build with `PODGATE_IMAGE_REGISTRY` to change it.
pub const IMAGE_REGISTRY: &str = non_empty_or(option_env!("PODGATE_IMAGE_REGISTRY"), "ghcr.io/podgate");
/// URL of the source repository. Build with `PODGATE_REPOSITORY` to change it.
pub const REPOSITORY: &str = non_empty_or(option_env!("PODGATE_REPOSITORY"), env!("CARGO_PKG_REPOSITORY"));

/// Returns the image of this version that holds the sidecar and the agent.
pub fn sidecar_image() -> String {
    image("podgate")
}

/// Returns the image of this version that holds the program `name`.
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
