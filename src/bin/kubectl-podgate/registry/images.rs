//! `--images` and `--resolve-images`: looks up images, and turns the results into commands, edits and findings.

use super::client::RegistryClient;
use super::credentials::Logins;
use super::{ImageArgs, RegistryArgs};
use crate::block_on;
use crate::error::{CommandError, CommandResult};
use crate::yaml::{Source, files};
use futures::StreamExt;
use podgate::order::edit::{Edit, Op, Place};
use podgate::order::finding::Finding;
use podgate::order::image_map::{ImageMap, find_by_name_or_digest, parse};
use podgate::order::plan::{ImageCommand, KnownFacts, plan};
use podgate::order::{inject, pod_templates};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Maximum number of images that are looked up at the same time.
const MAX_CONCURRENT: usize = 4;

/// Images to look up, each with the place that names it.
pub(super) type WantedImages = BTreeMap<String, String>;

#[derive(Debug, Clone, Default)]
pub(crate) struct ResolvedImages {
    images: ImageMap,
    is_pinning: bool,
}

#[derive(Debug, Default)]
pub(crate) struct TemplateImages {
    /// Commands by container name.
    pub(crate) commands: BTreeMap<String, ImageCommand>,
    /// Edits that pin images to their digests.
    pub(crate) edits: Vec<Edit>,
    pub(crate) findings: Vec<Finding>,
}

/// Returns the commands of `--images` or `--resolve-images`; `None` without these flags. Fails with one line for each
/// image that could not be looked up.
pub(crate) fn resolve_images(sources: &[Source], args: &ImageArgs) -> CommandResult<Option<ResolvedImages>> {
    let (images, errors) = match &args.images {
        Some(path) => {
            let images = files::read_text(path).and_then(|text| parse(text.as_bytes()));
            (images.map_err(|message| format!("{}: {message}", files::display_name(path)))?, Vec::new())
        }
        None if args.resolve_images => block_on(look_up(&wanted_images(sources), &args.registry))?,
        None => return Ok(None),
    };
    let is_pinning = args.resolve_images && !args.no_pin;
    CommandError::fail_if_any(errors).map(|()| Some(ResolvedImages { images, is_pinning }))
}

/// Returns the images that the templates need.
pub(crate) fn wanted_images(sources: &[Source]) -> WantedImages {
    let mut wanted = WantedImages::new();
    for source in sources {
        for document in &source.documents {
            for pod_templates::Template { place, .. } in pod_templates::templates(&document.value) {
                let Some(template) = place.of(&document.value) else { continue };
                let at = document.position(document.highlight(&place).start);
                add_wanted(&mut wanted, template, &format!("{}:{}", source.name, at.line));
            }
        }
    }
    wanted
}

/// Adds the images that the template at `place` needs.
pub(super) fn add_wanted(wanted: &mut WantedImages, template: &Value, place: &str) {
    for (container, image) in images_to_resolve(template) {
        let location = format!("{place}: container {container}: image {image}");
        wanted.entry(image).or_insert(location);
    }
}

/// Looks up images. Also returns one line for each image that was not found.
pub(crate) async fn look_up(wanted: &WantedImages, args: &RegistryArgs) -> CommandResult<(ImageMap, Vec<String>)> {
    if wanted.is_empty() {
        return Ok(Default::default());
    }
    let logins = read_logins(args)?;
    let read = |path: &PathBuf| match files::read_text(path) {
        Ok(text) => Ok((path.clone(), text)),
        Err(why) => Err(format!("{}: {why}", path.display())),
    };
    let certificates = args.registry_ca.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let registry = RegistryClient::new(args, logins, &certificates)?;
    let questions = wanted.iter().map(|(image, location)| {
        let registry = &registry;
        async move { (image, location, registry.look_up(image).await) }
    });
    let answers = futures::stream::iter(questions).buffered(MAX_CONCURRENT).collect::<Vec<_>>().await;
    let (mut images, mut errors) = (BTreeMap::new(), Vec::new());
    for (image, location, answer) in answers {
        match answer {
            Ok(command) => drop(images.insert(image.clone(), command)),
            Err(error) => errors.push(format!("{location}: {error}")),
        }
    }
    Ok((images, errors))
}

/// Returns the containers whose command podgate needs and does not know, each with its image.
pub(crate) fn images_to_resolve(template: &Value) -> Vec<(String, String)> {
    if !inject::wants_injection(template) {
        return Vec::new();
    }
    // Read the template without the injection, because the command of an injected container is the gate.
    let Ok(stripped) = inject::strip(template) else { return Vec::new() };
    let plain = stripped.plain();
    // Only a gate needs the command. Plan as if each image had this command, and find the gates that start it.
    const ANY: &str = "from the image";
    let any = ImageCommand { entrypoint: vec![ANY.to_owned()], ..ImageCommand::default() };
    let images = containers(plain).map(|(_, _, name, _)| (name.to_owned(), any.clone())).collect();
    let Ok(planned) = plan(plain, &KnownFacts { images, ..KnownFacts::default() }) else { return Vec::new() };
    let starts_any = |name| planned.get(name)?.entrypoint_gate()?.command.first().map(|word| word == ANY);
    let needed = containers(plain).filter(|(_, _, name, _)| starts_any(name) == Some(true));
    needed.map(|(_, _, name, image)| (name.to_owned(), image.to_owned())).collect()
}

impl ResolvedImages {
    /// Returns the results for `template`; `plain` is the same template without injected parts.
    pub(crate) fn for_template(&self, template: &Value, plain: &Value) -> TemplateImages {
        let mut resolved = TemplateImages::default();
        let lacking = containers(plain).filter(|(_, own, ..)| own["command"].as_array().is_none_or(Vec::is_empty));
        let lacking: BTreeSet<&str> = lacking.map(|(_, _, name, _)| name).collect();
        for (index, _, name, image) in containers(template) {
            let found = find_by_name_or_digest(&self.images, image);
            let Some(info) = found.filter(|_| lacking.contains(name)) else { continue };
            let at = Place::spec("containers").to(index).to("image");
            if info.escaped_words(false).is_empty() {
                let message = format!("the image of {name:?} has neither Entrypoint nor Cmd");
                let finding = Finding::warning("image-without-command", at, message);
                resolved.findings.push(finding.fix("set the container's command"));
                continue;
            }
            resolved.commands.insert(name.to_owned(), info.clone());
            if self.is_pinning && !image.contains('@') {
                let pinned = format!("{image}@{}", info.digest);
                let message = format!("pinned the image of {name:?}, from which podgate read the command: {pinned}");
                resolved.findings.push(Finding::note("image-pinned", at.clone(), message));
                resolved.edits.push(Edit { at, op: Op::Set(Value::String(pinned)) });
            }
        }
        resolved
    }
}

/// Returns the containers that have a name and an image, each with its index.
fn containers(template: &Value) -> impl Iterator<Item = (usize, &Value, &str, &str)> {
    let all = template["spec"]["containers"].as_array().into_iter().flatten().enumerate();
    all.filter_map(|(index, own)| Some((index, own, text_field(own, "name")?, text_field(own, "image")?)))
}

fn text_field<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value[key].as_str().filter(|text| !text.is_empty())
}

/// Returns the credentials of `--pull-secret`, followed by those of `docker login`.
fn read_logins(args: &RegistryArgs) -> CommandResult<Logins> {
    let mut logins = Logins::default();
    let home = || std::env::home_dir().map(|home| home.join(".docker"));
    let docker = args.docker_config.clone().or_else(home).map(|directory| directory.join("config.json"));
    for path in args.pull_secret.iter().chain(&docker.filter(|path| path.exists())) {
        let value = files::read_single_document(path)?;
        logins.add_file(&value).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(logins)
}
