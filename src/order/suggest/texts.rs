//! Texts in which a container can name an address: its arguments, its variables, and the files of its ConfigMaps.

use super::{ConfigMaps, services};
use crate::order::declare::spec::{ContainerRef, Spec, items_of};
use crate::order::edit::Place;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum length of a line that podgate searches, in bytes. A longer line would take too much time.
pub(crate) const LINE_MAX: usize = 10_000;
/// Hosts of the Pod itself.
pub(crate) const LOCAL_URL_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];
/// Last words of the names of variables and flags that contain a host without a port.
const HOST_NAMES: &str = "hostname|host|address|addr|server";

/// Volume mounts, by container.
pub(super) struct Mounts<'a>(pub(super) BTreeMap<&'a str, Vec<&'a Value>>);

impl<'a> Mounts<'a> {
    pub(super) fn of(spec: &Spec<'a>) -> Mounts<'a> {
        let list = |own: &ContainerRef<'a>| items_of(own.value, "volumeMounts").collect();
        Mounts(spec.regular_and_native().map(|own| (own.name, list(own))).collect())
    }

    /// Returns the volume that a container mounts at `path`, and the path inside this volume. Returns `None` unless
    /// another container also mounts the volume.
    pub(super) fn locate_shared(&self, container: &str, path: &str) -> Option<(String, String)> {
        let inside = |mount: &'a Value| {
            let rest = path.strip_prefix(mount["mountPath"].as_str()?.trim_end_matches('/'))?;
            rest.starts_with('/').then_some((mount, rest))
        };
        let mounts = self.0[container].iter().copied();
        let (mount, rest) = mounts.filter_map(inside).min_by_key(|(_, rest)| rest.len())?;
        let (volume, below) = (mount["name"].as_str()?, mount["subPath"].as_str().unwrap_or_default());
        self.is_shared(volume).then(|| (volume.to_owned(), format!("{below}{rest}")))
    }

    fn is_shared(&self, volume: &str) -> bool {
        self.0.values().filter(|list| list.iter().any(|mount| mount["name"] == volume)).count() > 1
    }
}

/// Text with the name of its flag or variable.
pub(super) struct Text {
    pub(super) at: Place,
    /// Byte offset of the text in the string at `at`. `None` if that string does not contain the text literally.
    pub(super) offset: Option<usize>,
    pub(super) label: String,
    pub(super) name: String,
    pub(super) text: String,
}

pub(super) struct PortOfHost {
    pub(super) port: u16,
    /// True if the port is a guess.
    pub(super) is_implied: bool,
}

impl Text {
    /// If the text is only a local host, returns the ports that belong to it. `ports` are the settings with a number.
    pub(super) fn ports_of_host(&self, ports: &BTreeMap<String, u16>) -> Vec<PortOfHost> {
        if !is_loopback_host(&self.text) {
            return Vec::new();
        }
        let setting = setting_name(&self.name);
        // A setting `HOST` is usually the host on which the container itself listens.
        let words = HOST_NAMES.split('|').find_map(|word| setting.strip_suffix(word)).filter(|words| !words.is_empty());
        let Some(words) = words else { return Vec::new() };
        let implied = |port| PortOfHost { port, is_implied: true };
        match ports.get(&format!("{words}port")) {
            Some(port) => vec![PortOfHost { port: *port, is_implied: false }],
            None => words.split('-').flat_map(services::ports_of_word).map(implied).collect(),
        }
    }
}

/// Returns the name of a variable or flag in lower case, with hyphens. Does not split camel case.
pub(super) fn setting_name(name: &str) -> String {
    name.trim_start_matches('-').to_lowercase().replace('_', "-")
}

pub(super) fn is_loopback_host(host: &str) -> bool {
    LOCAL_URL_HOSTS.contains(&host) || host == "::1"
}

/// Returns the arguments and the variables of a container.
pub(super) fn arguments_and_variables(own: &ContainerRef<'_>, configs: &ConfigMaps<'_>) -> Vec<Text> {
    arguments(own).into_iter().chain(variables(own, configs)).collect()
}

/// Returns the words of the command line. A flag and its value are one text.
pub(super) fn arguments(own: &ContainerRef<'_>) -> Vec<Text> {
    let words = ["command", "args"].into_iter().flat_map(|field| {
        let items = items_of(own.value, field).enumerate();
        items.filter_map(move |(index, word)| Some((own.place().to(field).to(index), word.as_str()?)))
    });
    let (mut texts, mut flag, values) = (Vec::new(), "", values(own));
    for (at, word) in words {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) if name.starts_with('-') => (name, value),
            _ => (flag, word),
        };
        flag = if word.starts_with('-') && !word.contains('=') { word } else { "" };
        let text = expand(value, &values);
        let label = if name.is_empty() { "an argument".to_owned() } else { format!("the argument {name}") };
        let offset = (text == value).then(|| word.len() - value.len());
        texts.push(Text { at, offset, label, name: name.to_owned(), text });
    }
    texts
}

/// Values of a container's variables, by name.
type Values<'a> = BTreeMap<&'a str, &'a str>;

fn values<'a>(own: &ContainerRef<'a>) -> Values<'a> {
    items_of(own.value, "env").filter_map(|one| Some((one["name"].as_str()?, one["value"].as_str()?))).collect()
}

/// Replaces `$(NAME)` by the value of the variable, and then the variables in this value.
fn expand(word: &str, values: &Values<'_>) -> String {
    let once = |word: String| {
        let mut parts = word.split("$(");
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let found = part.split_once(')').and_then(|(name, rest)| Some((*values.get(name)?, rest)));
            // Limit the length, because each variable of a hostile manifest could double the text.
            match found.filter(|(value, _)| out.len() + value.len() < LINE_MAX) {
                Some((value, rest)) => out.extend([value, rest]),
                None => out.extend(["$(", part]),
            }
        }
        out
    };
    once(once(word.to_owned()))
}

/// Returns the container's variables, except those that an argument expands as `$(NAME)`.
fn variables(own: &ContainerRef<'_>, configs: &ConfigMaps<'_>) -> Vec<Text> {
    let items = |field: &'static str| {
        items_of(own.value, field).enumerate().map(move |(index, item)| (own.place().to(field).to(index), item))
    };
    let arguments = format!("{}{}", own.value["command"], own.value["args"]);
    let expanded: BTreeSet<&str> = arguments.split("$(").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    let (mut texts, values) = (Vec::new(), values(own));
    for (at, item) in items("env") {
        let Some(name) = item["name"].as_str().filter(|name| !expanded.contains(name)) else { continue };
        let from = &item["valueFrom"]["configMapKeyRef"];
        let label = format!("the variable {name}");
        let number = item["value"].as_u64().map(|number| number.to_string());
        if let Some(value) = item["value"].as_str().or(number.as_deref()) {
            let text = expand(value, &values);
            let offset = (text == value).then_some(0);
            texts.push(Text { at: at.to("value"), offset, label, name: name.to_owned(), text });
        } else if let Some(map) = from["name"].as_str().and_then(|map| configs.get(map)) {
            texts.extend(config_text(map, from["key"].as_str().unwrap_or_default(), at, label, name));
        }
    }
    for (at, item) in items("envFrom") {
        let map = item["configMapRef"]["name"].as_str().and_then(|map| configs.get(map));
        for key in map.into_iter().flat_map(|map| map.keys()) {
            texts.extend(map.and_then(|map| config_text(map, key, at.clone(), format!("the variable {key}"), key)));
        }
    }
    texts
}

/// Returns the keys of the ConfigMaps that this container alone mounts as files. A file that several containers mount
/// may be the configuration of another container.
pub(super) fn own_files(
    own: &ContainerRef<'_>,
    spec: &Spec<'_>,
    configs: &ConfigMaps<'_>,
    mounts: &Mounts<'_>,
) -> Vec<Text> {
    let mut texts = Vec::new();
    for (index, mount) in items_of(own.value, "volumeMounts").enumerate() {
        let is_own = |volume: &&Value| volume["name"].as_str().is_some_and(|name| !mounts.is_shared(name));
        for volume in items_of(spec.value, "volumes").filter(|volume| volume["name"] == mount["name"]).filter(is_own) {
            let Some(name) = volume["configMap"]["name"].as_str() else { continue };
            let Some(map) = configs.get(name) else { continue };
            for key in map.keys().filter(|key| mount["subPath"].as_str().is_none_or(|path| path == *key)) {
                let at = own.place().to("volumeMounts").to(index).to("name");
                texts.extend(config_text(map, key, at, format!("the file {key} (ConfigMap {name})"), ""));
            }
        }
    }
    texts
}

fn config_text(map: &Map<String, Value>, key: &str, at: Place, label: String, name: &str) -> Option<Text> {
    Some(Text { at, offset: None, label, name: name.to_owned(), text: map.get(key)?.as_str()?.to_owned() })
}

/// Returns the ConfigMaps that `value` names but `configs` lacks, and the Secrets that it names.
pub(super) fn unread(value: &Value, configs: &ConfigMaps<'_>) -> BTreeSet<String> {
    let items = value.as_array().into_iter().flatten().map(|item| ("", item));
    let fields = value.as_object().into_iter().flatten().map(|(key, field)| (key.as_str(), field));
    let names = |(key, below): (&str, &Value)| {
        let name = below["name"].as_str().or(below["secretName"].as_str()).filter(|name| !name.ends_with("-ca.crt"));
        let own = match (key.trim_end_matches("Ref").trim_end_matches("Key"), name) {
            ("configMap", Some(name)) if !configs.contains_key(name) => Some(format!("ConfigMap {name}")),
            ("secret", Some(name)) => Some(format!("Secret {name}")),
            _ => None,
        };
        unread(below, configs).into_iter().chain(own)
    };
    items.chain(fields).flat_map(names).collect()
}
