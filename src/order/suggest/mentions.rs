//! Finds the addresses in the variables, arguments and ConfigMaps of a container.

use super::{ConfigMaps, Rank, services};
use crate::order::declare::spec::{ContainerRef, Spec};
use crate::order::edit::Place;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Maximum length of a line that podgate searches, in bytes. A longer line would take too much time.
pub(crate) const LINE_MAX: usize = 10_000;
/// Hosts of the Pod itself.
pub(crate) const LOCAL_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];
/// Parts of the names of flags, variables and directives that set an address on which the container itself listens,
/// divided by `|` like all lists of words here.
const LISTENING: &str = "listen|bind|advertise|expose|health|metrics-addr|http-address|http-endpoint";
/// Flags that set such an address, if this is the whole name.
const OWN_FLAGS: [&str; 3] = ["--address", "-address", "--grpc-address"];
/// Parts of the names of flags, variables and directives whose address the container does not use at its start.
const LATER: &str =
    "reload|notify|webhook|quit|shutdown|public-|external-url|root-url|app-url|site-url|origin|redirect|callback|cors";
/// Parts of the names of containers, images and settings whose programs retry until the other container answers: loops
/// of shells, CSI sidecars, exporters and other programs that collect or send metrics and traces.
const RETRYING: &str = "until |while |ready-url|csi-address|exporter|scrape|probe|prometheus|telegraf|datadog| dd-| otel|otlp|jaeger|zipkin|statsd";
/// Parts of the names of containers, images and settings whose programs connect only for each request.
const FORWARDING: &str = "proxy|upstream|fastcgi|nginx|envoy|httpd|traefik";
/// Last words of the names of variables and flags that contain a host without a port.
const HOST_NAMES: &str = "hostname|host|address|addr|server";

/// Address that a container names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Address {
    Port(u16),
    /// Volume of the Pod, and path of the socket in that volume.
    Socket(String, String),
}

pub(crate) struct Mention {
    pub(crate) address: Address,
    /// The address as written.
    pub(crate) shown: String,
    pub(crate) at: Place,
    /// Byte range of the address in the string at `at`.
    pub(crate) span: Option<Range<usize>>,
    /// Description of the address's place, for messages.
    pub(crate) label: String,
    /// True if the container itself listens on the address, according to the name of the flag, variable or directive.
    pub(crate) listens: bool,
    /// True if the container does not need the address at its start, according to the name of the setting.
    pub(crate) is_later: bool,
    /// True if the text does not contain the port or the socket, so the address is a guess.
    pub(crate) is_implied: bool,
    /// Outcome if the container starts before the server.
    pub(crate) rank: Rank,
}

/// Volume mounts, by container.
pub(super) struct Mounts<'a>(pub(super) BTreeMap<&'a str, Vec<&'a Value>>);

impl<'a> Mounts<'a> {
    pub(super) fn of(spec: &Spec<'a>) -> Mounts<'a> {
        let list = |own: &ContainerRef<'a>| own.value["volumeMounts"].as_array().into_iter().flatten().collect();
        Mounts(spec.containers.iter().chain(spec.native_sidecars()).map(|own| (own.name, list(own))).collect())
    }

    /// Returns the volume that a container mounts at `path`, and the path inside this volume. Returns `None` unless
    /// another container also mounts the volume.
    fn locate(&self, container: &str, path: &str) -> Option<(String, String)> {
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
struct Text {
    at: Place,
    /// Byte offset of the text in the string at `at`. `None` if that string does not contain the text literally.
    offset: Option<usize>,
    label: String,
    name: String,
    text: String,
}

/// Returns the addresses that a container names, in the order of the manifest.
pub(super) fn mentions(
    own: &ContainerRef<'_>,
    spec: &Spec<'_>,
    configs: &ConfigMaps<'_>,
    mounts: &Mounts<'_>,
) -> Vec<Mention> {
    let mut texts = settings(own, configs);
    texts.extend(files(own, spec, configs, mounts));
    let mut found = find_addresses(own, &texts, |path| mounts.locate(own.name, path));
    found.extend(default_sockets(own, spec, mounts));
    found
}

/// Returns the local ports that the arguments and variables of a container name.
pub(crate) fn local_mentions(own: &ContainerRef<'_>) -> Vec<Mention> {
    find_addresses(own, &settings(own, &ConfigMaps::new()), |_| None)
}

fn find_addresses(
    own: &ContainerRef<'_>,
    texts: &[Text],
    locate: impl Fn(&str) -> Option<(String, String)>,
) -> Vec<Mention> {
    let mut found = Vec::new();
    let program = format!(" {} {}", own.name, services::image(own).0.rsplit('/').next().unwrap_or_default());
    let ports: BTreeMap<String, u16> =
        texts.iter().filter_map(|text| Some((text.setting(), text.text.parse().ok()?))).collect();
    for text in texts {
        let mut start = 0;
        for line in text.text.split_inclusive('\n') {
            let is_comment = ["#", ";", "//"].iter().any(|mark| line.trim_start().starts_with(mark));
            let is_skipped = line.len() > LINE_MAX || is_comment && text.text.contains('\n');
            let found_here = addresses(if is_skipped { "" } else { line }, &locate);
            let ports = text.ports_of_host(&ports).into_iter();
            let implied = ports.map(|(port, is_implied)| (0..line.len(), Address::Port(port), is_implied));
            for (range, address, is_implied) in found_here.into_iter().map(|(at, to)| (at, to, false)).chain(implied) {
                let normalize = |text: String| text.to_lowercase().replace('_', "-");
                let before = normalize(format!("{} {}", text.name, &line[..range.start]));
                let all = normalize(format!("{program} {before}"));
                // A line of nginx can have several directives.
                let setting = before.rsplit(';').next().unwrap_or_default();
                let is_in = |words: &str, text: &str| words.split('|').any(|word| text.contains(word));
                let path = line[range.end..].split_whitespace().next().unwrap_or_default().to_lowercase();
                let is_endpoint = matches!(address, Address::Socket(..)) && setting.contains("endpoint");
                let mut shown = line[range.clone()].to_owned();
                if let Address::Port(port) = &address
                    && !shown.ends_with(&port.to_string())
                {
                    shown += &format!(" (port {port})");
                }
                found.push(Mention {
                    address,
                    shown,
                    at: text.at.clone(),
                    span: text.offset.map(|offset| offset + start + range.start..offset + start + range.end),
                    label: text.label.clone(),
                    listens: is_endpoint || is_in(LISTENING, setting) || OWN_FLAGS.contains(&setting.trim()),
                    is_later: is_in(LATER, setting) || is_in(LATER, &path),
                    is_implied,
                    rank: match () {
                        () if is_in(RETRYING, &all) => Rank::Retries,
                        () if is_in(FORWARDING, &all) => Rank::Requests,
                        () => Rank::Fails,
                    },
                });
            }
            start += line.len();
        }
    }
    found
}

/// Returns the default sockets of well-known images on the volumes of `own`: its own, and those of other containers.
fn default_sockets(own: &ContainerRef<'_>, spec: &Spec<'_>, mounts: &Mounts<'_>) -> Vec<Mention> {
    let servers = spec.containers.iter().chain(spec.native_sidecars());
    let sockets = servers.filter_map(|server| {
        let (volume, path) = mounts.locate(server.name, services::default_socket(server)?)?;
        let index = mounts.0[own.name].iter().position(|mount| mount["name"] == *volume)?;
        Some(Mention {
            address: Address::Socket(volume, path),
            shown: services::default_socket(server)?.to_owned(),
            at: own.place().to("volumeMounts").to(index).to("name"),
            span: None,
            label: "a shared volume".to_owned(),
            listens: server.name == own.name,
            is_later: false,
            is_implied: true,
            rank: Rank::Fails,
        })
    });
    sockets.collect()
}

impl Text {
    /// Returns the name of the variable or flag in lower case, with hyphens.
    fn setting(&self) -> String {
        self.name.trim_start_matches('-').to_lowercase().replace('_', "-")
    }

    /// If the text is only a local host, returns the ports that belong to it, and true for each one that is a guess.
    /// `ports` are the container's settings with a number.
    fn ports_of_host(&self, ports: &BTreeMap<String, u16>) -> Vec<(u16, bool)> {
        if !LOCAL_HOSTS.contains(&self.text.as_str()) && self.text != "::1" {
            return Vec::new();
        }
        let setting = self.setting();
        // A setting `HOST` is usually the host on which the container itself listens.
        let words = HOST_NAMES.split('|').find_map(|word| setting.strip_suffix(word)).filter(|words| !words.is_empty());
        let Some(words) = words else { return Vec::new() };
        match ports.get(&format!("{words}port")) {
            Some(port) => vec![(*port, false)],
            None => words.split('-').flat_map(services::ports_of_word).map(|port| (port, true)).collect(),
        }
    }
}

/// Returns the arguments and the variables of a container.
fn settings(own: &ContainerRef<'_>, configs: &ConfigMaps<'_>) -> Vec<Text> {
    arguments(own).into_iter().chain(variables(own, configs)).collect()
}

/// Returns the words of the command line. A flag and its value are one text.
fn arguments(own: &ContainerRef<'_>) -> Vec<Text> {
    let words = ["command", "args"].into_iter().flat_map(|field| {
        let items = own.value[field].as_array().into_iter().flatten().enumerate();
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
    let variables = own.value["env"].as_array().into_iter().flatten();
    variables.filter_map(|one| Some((one["name"].as_str()?, one["value"].as_str()?))).collect()
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
        let list = own.value[field].as_array().into_iter().flatten().enumerate();
        list.map(move |(index, item)| (own.place().to(field).to(index), item))
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
            let key = from["key"].as_str().unwrap_or_default();
            texts.extend(config_text(map, key, at, label, name));
        }
    }
    for (at, item) in items("envFrom") {
        let map = item["configMapRef"]["name"].as_str().and_then(|map| configs.get(map));
        for key in map.into_iter().flat_map(|map| map.keys()) {
            let label = format!("the variable {key}");
            texts.extend(map.and_then(|map| config_text(map, key, at.clone(), label, key)));
        }
    }
    texts
}

/// Returns the keys of the ConfigMaps that this container alone mounts as files. A file that several containers mount
/// may be the configuration of another container.
fn files(own: &ContainerRef<'_>, spec: &Spec<'_>, configs: &ConfigMaps<'_>, mounts: &Mounts<'_>) -> Vec<Text> {
    let mut texts = Vec::new();
    for (index, mount) in own.value["volumeMounts"].as_array().into_iter().flatten().enumerate() {
        let volumes = spec.value["volumes"].as_array().into_iter().flatten();
        let is_own = |volume: &&Value| volume["name"].as_str().is_some_and(|name| !mounts.is_shared(name));
        for volume in volumes.filter(|volume| volume["name"] == mount["name"]).filter(is_own) {
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
    let text = map.get(key)?.as_str()?.to_owned();
    Some(Text { at, offset: None, label, name: name.to_owned(), text })
}

/// Returns the local ports in `line`, such as 8080 in `http://localhost:8080/`, with the ranges of their addresses.
pub(crate) fn local_ports(line: &str) -> impl Iterator<Item = (Range<usize>, u16)> {
    // dnsmasq writes `127.0.0.1#53`.
    line.match_indices([':', '#']).filter_map(|(colon, _)| {
        let host = LOCAL_HOSTS.into_iter().find(|host| line[..colon].ends_with(host))?;
        let start = colon - host.len();
        let is_part = line[..start].ends_with(|before: char| before.is_alphanumeric() || ".-_".contains(before));
        let end = colon + 1 + line[colon + 1..].bytes().take_while(u8::is_ascii_digit).count();
        let port = line[colon + 1..end].parse().ok().filter(|port| *port > 0 && !is_part)?;
        Some((start..end, port))
    })
}

/// Returns the ports of local URLs without a port, such as 80 for `http://localhost/`, with the ranges of their hosts.
fn scheme_ports(line: &str) -> impl Iterator<Item = (Range<usize>, u16)> {
    line.match_indices("://").filter_map(|(colon, mark)| {
        let scheme = line[..colon].rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '+').next()?;
        let rest = &line[colon + mark.len()..];
        let end = rest.find(|c: char| c.is_whitespace() || "/?#\"',;)".contains(c)).unwrap_or(rest.len());
        let host = rest[..end].rsplit('@').next()?;
        let end = colon + mark.len() + end;
        let port = LOCAL_HOSTS.contains(&host).then(|| services::ports_of(scheme).first().copied())??;
        Some((end - host.len()..end, port))
    })
}

/// Returns the addresses in `line` with their ranges: local ports, and sockets on a volume that `locate` finds.
fn addresses(line: &str, locate: &impl Fn(&str) -> Option<(String, String)>) -> Vec<(Range<usize>, Address)> {
    let ports = local_ports(line).chain(scheme_ports(line));
    let mut found: Vec<_> = ports.map(|(range, port)| (range, Address::Port(port))).collect();
    let mut start = 0;
    for token in line.split(|c: char| c.is_whitespace() || "\"'`,;=()[]{}<>|&".contains(c)) {
        let (at, bare) = (start, token.trim_end_matches([':', '.']));
        start =
            line.len().min(start + token.len() + line[start + token.len()..].chars().next().map_or(0, char::len_utf8));
        let path = bare.strip_prefix("unix:").unwrap_or(bare);
        if !path.starts_with('/') || path.len() == bare.len() && !bare.contains(".sock") {
            continue;
        }
        let path = format!("/{}", path.trim_start_matches('/'));
        found.extend(locate(&path).map(|(volume, path)| (at..at + bare.len(), Address::Socket(volume, path))));
    }
    found
}

/// Returns the ports that the arguments open: `--port=5432`, `:5432`, `0.0.0.0:5432`, or `=tcp:5432` (Cloud SQL Proxy).
pub(super) fn argument_ports(own: &ContainerRef<'_>) -> Vec<u16> {
    let is_open = |host: &str| host.is_empty() || ["0.0.0.0", "[::]", "=tcp"].iter().any(|open| host.ends_with(open));
    let port = |text: Text| {
        let open = text.text.rsplit_once(':').filter(|(host, _)| is_open(host)).map(|(_, port)| port);
        let value = text.name.contains("port").then_some(text.text.as_str());
        open.or(text.text.rsplit_once("?port=").map(|(_, port)| port)).or(value)?.parse().ok()
    };
    arguments(own).into_iter().filter_map(port).collect()
}

/// Names of flags for the address on which a program listens, without a prefix.
const HOST_FLAGS: [&str; 8] = ["address", "addr", "bind", "bind-address", "host", "ip", "listen", "listen-address"];

/// Returns true if, by its flags and variables, a program listens on `port` of the loopback address, and on no other
/// address.
pub(crate) fn listens_on_loopback(own: &ContainerRef<'_>, port: u16) -> bool {
    let mut found: Vec<(String, String)> = Vec::new();
    for text in settings(own, &ConfigMaps::new()) {
        let mut flag = text.name.as_str();
        for word in text.text.split(|c: char| c.is_whitespace() || c == ',') {
            let (name, value) = word.split_once('=').filter(|_| word.starts_with('-')).unwrap_or((flag, word));
            flag = if word.starts_with('-') && !word.contains('=') { word } else { name };
            // Version 1 of the Cloud SQL Auth Proxy listens on localhost for `INSTANCE=tcp:5432`.
            let value = value.replace("=tcp:", "=tcp:localhost:");
            found.push((name.trim_start_matches('-').to_lowercase().replace('_', "-"), value));
        }
    }
    let is_local = |host: &str| LOCAL_HOSTS.contains(&host) || host == "::1";
    let is_flag = |name: &str| HOST_FLAGS.contains(&name);
    let number = port.to_string();
    let has_port = found.iter().any(|(name, value)| name == "port" && *value == number);
    let is_bound = found.iter().any(|(name, value)| {
        let is_address = is_flag(name) || ["listen", "bind", "instances"].iter().any(|part| name.contains(part));
        is_address && local_ports(value).any(|(_, other)| other == port) || is_flag(name) && is_local(value) && has_port
    });
    // Cloud SQL Auth Proxy 2 listens on localhost by default.
    let image = own.value["image"].as_str().unwrap_or_default();
    let is_default = ["/cloud-sql-proxy:2", "/alloydb-auth-proxy:1"].iter().any(|name| image.contains(name));
    let is_open = found.iter().any(|(name, value)| {
        let colon = value.rfind(&format!(":{number}"));
        colon.is_some_and(|colon| local_ports(value).all(|(range, _)| range.start > colon || range.end <= colon))
            || is_flag(name) && !value.is_empty() && !value.contains(':') && !is_local(value)
            || is_default && (name.contains("address") || name.contains("config") || value.contains("0.0.0.0"))
    });
    (is_bound || is_default && own.value["envFrom"].is_null()) && !is_open
}
