//! Image registry and source repository of podgate's releases. To use another registry or
//! repository, set the environment variables below at build time.

/// Registry and path of the images, from the build variable `PODGATE_IMAGE_REGISTRY`.
pub const IMAGE_REGISTRY: &str = non_empty_or(option_env!("PODGATE_IMAGE_REGISTRY"), "ghcr.io/podgate");
/// URL of the source repository, from the build variable `PODGATE_REPOSITORY`.
pub const REPOSITORY: &str = non_empty_or(option_env!("PODGATE_REPOSITORY"), env!("CARGO_PKG_REPOSITORY"));

/// Returns the address of a page in `docs`.
pub fn page_url(name: &str) -> String {
    format!("{REPOSITORY}/blob/main/docs/{name}.md")
}

/// Returns the reference of the image that contains the sidecar and the agent, with this version as the tag.
pub fn sidecar_image() -> String {
    image("podgate")
}

/// Returns the reference of the image that contains the program `name`, with this version as the tag.
pub fn image(name: &str) -> String {
    format!("{IMAGE_REGISTRY}/{name}:{}", env!("CARGO_PKG_VERSION"))
}

/// Checks the characters of an image reference and returns it. An error shows the correct syntax.
pub fn parse_image(text: &str) -> Result<String, &'static str> {
    let is_end = |c: char| c.is_ascii_alphanumeric();
    let is_inside = |c: char| is_end(c) || "._-:/@[]".contains(c);
    let is_begun = text.starts_with(|c| is_end(c) || c == '[');
    if is_begun && text.ends_with(is_end) && text.chars().all(is_inside) && !text.contains("//") {
        Ok(text.to_owned())
    } else {
        Err("not an image; write REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST, with the name in lower case")
    }
}

const fn non_empty_or(set: Option<&'static str>, default: &'static str) -> &'static str {
    match set {
        Some(set) if !set.is_empty() => set,
        _ => default,
    }
}
