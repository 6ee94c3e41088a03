//! The file of `--images`. Podgate reads the commands of images from this file instead of the registry.

use crate::core::container_list::CONTAINERS_MAX;
use crate::order::declare::{container_annotation_place, keys};
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::plan::{ImageCommand, Plan};
use serde_json::Value;
use std::collections::BTreeMap;

/// Maps each image name, as written in a Pod, to the image's command.
pub type ImageMap = BTreeMap<String, ImageCommand>;

/// Maximum size of a command, in bytes. The webhook ignores longer ones, because many containers may get a copy.
const COMMAND_MAX: usize = 16 << 10;

/// Returns the command of an image. A digest identifies the same image under any name.
pub fn find_by_name_or_digest<'a>(images: &'a ImageMap, image: &str) -> Option<&'a ImageCommand> {
    let by_digest = |(_, digest): (&str, &str)| images.values().find(|command| command.digest == digest);
    images.get(image).or_else(|| image.split_once('@').and_then(by_digest))
}

/// Returns the commands of a template's images, by the name of the container.
pub fn commands(images: &ImageMap, template: &Value) -> BTreeMap<String, ImageCommand> {
    let size = |word: &String| word.len() + size_of::<String>();
    let is_short = |of: &&ImageCommand| of.entrypoint.iter().chain(&of.cmd).map(size).sum::<usize>() <= COMMAND_MAX;
    let command = |image: &str| find_by_name_or_digest(images, image).filter(is_short).cloned();
    // Skip containers beyond the limit, because podgate later rejects a Pod with so many containers.
    let all = template["spec"]["containers"].as_array().into_iter().flatten().take(CONTAINERS_MAX);
    all.filter_map(|own| Some((own["name"].as_str()?.to_owned(), command(own["image"].as_str()?)?))).collect()
}

/// Returns a warning about the gates that start a command of the file in an image without a digest. The command may be
/// outdated, because the tag may have moved. `images` has the commands by the name of the container.
pub fn check_tags(pod: &Value, images: &BTreeMap<String, ImageCommand>, plan: &Plan) -> Option<Finding> {
    let from_tag = |own: &Value| {
        let (name, image) = (own["name"].as_str()?, own["image"].as_str()?);
        let is_from_file = own["command"].as_array().is_none_or(Vec::is_empty)
            && container_annotation_place(keys::COMMAND_PREFIX, name).of(pod).is_none();
        plan.get(name)?.entrypoint_gate().filter(|_| is_from_file && !image.contains('@'))?;
        Some(format!("{name} ({})", truncate_digest(&images.get(name)?.digest)))
    };
    let names: Vec<String> = pod["spec"]["containers"].as_array()?.iter().filter_map(from_tag).collect();
    let what = "commands come from the webhook's file of images; if a tag has moved since, run kubectl podgate \
                resolve-images --apply";
    let finding =
        || Finding::warning("image-by-tag", Place::spec("containers"), format!("{what}: {}", names.join(", ")));
    (!names.is_empty()).then(finding)
}

/// Returns a digest with its prefix and its first 12 digits only.
pub fn truncate_digest(digest: &str) -> &str {
    digest.get(.."sha256:".len() + 12).unwrap_or("no digest")
}

/// Parses the file. On failure, returns a message with line, column and fix.
pub fn parse(text: &[u8]) -> Result<ImageMap, String> {
    serde_json::from_slice(text).map_err(|error| format!("{error}; write the file with kubectl podgate resolve-images"))
}
