//! Image registry and source repository of podgate's releases. To use another registry or
//! repository, set the environment variables below at build time.

/// Registry and path of the images, from the build variable `PODGATE_IMAGE_REGISTRY`.
pub const IMAGE_REGISTRY: &str = non_empty_or(option_env!("PODGATE_IMAGE_REGISTRY"), "ghcr.io/podgate");
/// URL of the source repository, from the build variable `PODGATE_REPOSITORY`.
pub const REPOSITORY: &str = non_empty_or(option_env!("PODGATE_REPOSITORY"), env!("CARGO_PKG_REPOSITORY"));

/// Returns the reference of the image that contains the sidecar and the agent, with this version as the tag.
pub fn sidecar_image() -> String {
    image("podgate")
}

/// Returns the reference of the image that contains the program `name`, with this version as the tag.
pub fn image(name: &str) -> String {
    format!("{IMAGE_REGISTRY}/{name}:{}", env!("CARGO_PKG_VERSION"))
}

/// Checks the syntax of an image reference and returns it. An error is an instruction that shows the correct syntax.
pub fn parse_image(text: &str) -> Result<String, &'static str> {
    let only = |text: &str, more: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c));
    let ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let (rest, digest) = text.split_once('@').map_or((text, None), |(rest, digest)| (rest, Some(digest)));
    // A colon before the last slash belongs to the registry's port.
    let last = rest.rfind('/').map_or(0, |slash| slash + 1);
    let colon = rest[last..].find(':').map_or(rest.len(), |colon| last + colon);
    let (path, tag) = (&rest[..colon], rest.get(colon + 1..));
    let (registry, name) = path
        .split_once('/')
        .filter(|(first, _)| first.contains(['.', ':']) || *first == "localhost")
        .unwrap_or(("", path));
    let is_part =
        |part: &str| part.starts_with(ends) && part.ends_with(ends) && only(part, "._-") && part == part.to_lowercase();
    let is_tag = |tag: &str| (1..=128).contains(&tag.len()) && !tag.starts_with(['.', '-']) && only(tag, "._-");
    let is_digest = |digest: &str| {
        digest.split_once(':').is_some_and(|(_, hex)| hex.len() >= 32 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    if only(registry, ".-:[]") && name.split('/').all(is_part) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest)
    {
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
