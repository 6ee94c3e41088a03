//! Finds the addresses in the variables, arguments and ConfigMaps of a container.

use super::texts::{self, LINE_MAX, LOCAL_URL_HOSTS, Mounts, Text, is_loopback_host, setting_name};
use super::{ConfigMaps, Rank, services};
use crate::order::declare::spec::{ContainerRef, Spec};
use crate::order::edit::Place;
use std::collections::BTreeMap;
use std::ops::Range;

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
    /// What happens if the container starts before the server.
    pub(crate) rank: Rank,
}

/// Returns the addresses that a container names, in the order of the manifest.
pub(super) fn mentions(
    own: &ContainerRef<'_>,
    spec: &Spec<'_>,
    configs: &ConfigMaps<'_>,
    mounts: &Mounts<'_>,
) -> Vec<Mention> {
    let mut texts = texts::arguments_and_variables(own, configs);
    texts.extend(texts::own_files(own, spec, configs, mounts));
    let mut found = find_addresses(own, &texts, |path| mounts.locate_shared(own.name, path));
    found.extend(default_sockets(own, spec, mounts));
    found
}

/// Returns the local ports that the arguments and variables of a container name.
pub(crate) fn local_mentions(own: &ContainerRef<'_>) -> Vec<Mention> {
    find_addresses(own, &texts::arguments_and_variables(own, &ConfigMaps::new()), |_| None)
}

fn find_addresses(
    own: &ContainerRef<'_>,
    texts: &[Text],
    locate: impl Fn(&str) -> Option<(String, String)>,
) -> Vec<Mention> {
    let mut found = Vec::new();
    let program = format!(" {} {}", own.name, services::image(own).0.rsplit('/').next().unwrap_or_default());
    let ports: BTreeMap<String, u16> =
        texts.iter().filter_map(|text| Some((setting_name(&text.name), text.text.parse().ok()?))).collect();
    for text in texts {
        let mut start = 0;
        for line in text.text.split_inclusive('\n') {
            let is_comment = ["#", ";", "//"].iter().any(|mark| line.trim_start().starts_with(mark));
            let is_skipped = line.len() > LINE_MAX || is_comment && text.text.contains('\n');
            let found_here = addresses(if is_skipped { "" } else { line }, &locate);
            let ports = text.ports_of_host(&ports).into_iter();
            let ports = ports.map(|one| (0..line.len(), Address::Port(one.port), one.is_implied));
            for (range, address, is_implied) in found_here.into_iter().map(|(at, to)| (at, to, false)).chain(ports) {
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
    let sockets = spec.regular_and_native().filter_map(|server| {
        let (volume, path) = mounts.locate_shared(server.name, services::default_socket(server)?)?;
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

/// Returns the local ports in `line`, such as 8080 in `http://localhost:8080/`, with the ranges of their addresses.
pub(crate) fn local_ports(line: &str) -> impl Iterator<Item = (Range<usize>, u16)> {
    // dnsmasq writes `127.0.0.1#53`.
    line.match_indices([':', '#']).filter_map(|(colon, _)| {
        let host = LOCAL_URL_HOSTS.into_iter().find(|host| line[..colon].ends_with(host))?;
        let start = colon - host.len();
        let is_part = line[..start].ends_with(|before: char| before.is_alphanumeric() || ".-_".contains(before));
        let end = colon + 1 + line[colon + 1..].bytes().take_while(u8::is_ascii_digit).count();
        Some((start..end, line[colon + 1..end].parse().ok().filter(|port| *port > 0 && !is_part)?))
    })
}

/// Returns the ports of local URLs without a port, such as 80 for `http://localhost/`, with the ranges of their hosts.
pub(crate) fn scheme_ports(line: &str) -> impl Iterator<Item = (Range<usize>, u16)> {
    line.match_indices("://").filter_map(|(colon, mark)| {
        let scheme = line[..colon].rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '+').next()?;
        let rest = &line[colon + mark.len()..];
        let end = rest.find(|c: char| c.is_whitespace() || "/?#\"',;)".contains(c)).unwrap_or(rest.len());
        let host = rest[..end].rsplit('@').next()?;
        let end = colon + mark.len() + end;
        let port = LOCAL_URL_HOSTS.contains(&host).then(|| services::ports_of(scheme).first().copied())??;
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
    texts::arguments(own).into_iter().filter_map(port).collect()
}

/// Names of flags for the address on which a program listens, without a prefix.
const HOST_FLAGS: [&str; 8] = ["address", "addr", "bind", "bind-address", "host", "ip", "listen", "listen-address"];

/// Returns true if, by its flags and variables, a program listens on `port` of the loopback address only.
pub(crate) fn listens_on_loopback(own: &ContainerRef<'_>, port: u16) -> bool {
    let mut found: Vec<(String, String)> = Vec::new();
    for text in texts::arguments_and_variables(own, &ConfigMaps::new()) {
        let mut flag = text.name.as_str();
        for word in text.text.split(|c: char| c.is_whitespace() || c == ',') {
            let (name, value) = word.split_once('=').filter(|_| word.starts_with('-')).unwrap_or((flag, word));
            flag = if word.starts_with('-') && !word.contains('=') { word } else { name };
            // Version 1 of the Cloud SQL Auth Proxy listens on localhost for `INSTANCE=tcp:5432`.
            let value = value.replace("=tcp:", "=tcp:localhost:");
            found.push((setting_name(name), value));
        }
    }
    let is_flag = |name: &str| HOST_FLAGS.contains(&name);
    let number = port.to_string();
    let has_port = found.iter().any(|(name, value)| name == "port" && *value == number);
    let is_bound = found.iter().any(|(name, value)| {
        let is_address = is_flag(name) || ["listen", "bind", "instances"].iter().any(|part| name.contains(part));
        is_address && local_ports(value).any(|(_, other)| other == port)
            || is_flag(name) && is_loopback_host(value) && has_port
    });
    // Cloud SQL Auth Proxy 2 listens on localhost by default.
    let image = own.value["image"].as_str().unwrap_or_default();
    let is_server = services::default_ports(own).contains(&port) || format!("{found:?}").contains("health-check");
    let is_default = is_server && ["/cloud-sql-proxy:2", "/alloydb-auth-proxy:1"].iter().any(|one| image.contains(one));
    let is_open = found.iter().any(|(name, value)| {
        let colon = value.rfind(&format!(":{number}"));
        colon.is_some_and(|colon| local_ports(value).all(|(range, _)| range.start > colon || range.end <= colon))
            || is_flag(name) && !value.is_empty() && !value.contains(':') && !is_loopback_host(value)
            || is_default && (name.contains("address") || name.contains("config") || value.contains("0.0.0.0"))
    });
    (is_bound || is_default && own.value["envFrom"].is_null()) && !is_open
}
