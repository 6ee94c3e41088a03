//! Proposes an order for a Pod that declares none. Example: one container names `localhost:5432`, and another has
//! the port 5432. The containers of a Pod share the network, so the first container is a client of the second.

mod mentions;

use crate::core::graph;
use crate::order::declare::spec::{ContainerRef, Spec};
use crate::order::finding::Finding;
use mentions::Mounts;
pub(crate) use mentions::{
    Address, LINE_MAX, LOCAL_HOSTS, Mention, argument_ports, listens_on_loopback, local_mentions, local_ports,
};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Data of the ConfigMaps of the input, by name.
pub type ConfigMaps<'a> = BTreeMap<&'a str, &'a Map<String, Value>>;

/// Sign that the container `waiter` is a client of the container `needed`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// Container that names the address.
    pub waiter: String,
    /// Container that listens on that address.
    pub needed: String,
    /// Finding at the place of the address in the template. The message says why `waiter` is a client of `needed`.
    pub finding: Finding,
    /// True if the sign is not good enough for an order. The finding says why.
    pub is_doubtful: bool,
}

/// Proposal for one template.
#[derive(Debug, Default)]
pub struct Suggestion {
    /// At most one edge for each pair of containers, in the order of the manifest.
    pub edges: Vec<Edge>,
    /// Value of `podgate.io/order`. `None` if there are no good signs or the signs form a cycle.
    pub order: Option<String>,
    /// Description of a cycle of waits, if the signs form one.
    pub cycle: Option<String>,
}

/// Returns the ConfigMaps among `objects`, by name.
pub fn config_maps<'a>(objects: impl Iterator<Item = &'a Value>) -> ConfigMaps<'a> {
    let items = |object: &'a Value| object["items"].as_array().into_iter().flatten().chain([object]);
    let maps = objects.flat_map(items).filter(|object| object["kind"] == "ConfigMap");
    maps.filter_map(|object| Some((object["metadata"]["name"].as_str()?, object["data"].as_object()?))).collect()
}

/// Proposes an order for `template`. `configs` are the ConfigMaps of the same input.
pub fn suggest(template: &Value, configs: &ConfigMaps<'_>) -> Suggestion {
    let mut errors = Vec::new();
    let spec = Spec::read(template, &mut errors);
    if !errors.is_empty() {
        return Suggestion::default();
    }
    let mounts = Mounts::of(&spec);
    let servers = spec.containers.iter().chain(spec.native_sidecars());
    let all: Vec<(ContainerRef<'_>, Vec<Mention>)> =
        servers.map(|own| (*own, mentions::mentions(own, &spec, configs, &mounts))).collect();
    let mut edges: Vec<Edge> = Vec::new();
    for (own, named) in all.iter().filter(|(own, _)| !own.is_native_sidecar()) {
        for mention in named.iter().filter(|mention| !mention.listens) {
            let (found, proof) = match &mention.address {
                Address::Port(port) => port_servers(own, *port, &all),
                socket @ Address::Socket(volume, _) => socket_servers(own, volume, socket, &all, &mounts),
            };
            for needed in &found {
                let edge = edge(own, mention, needed, proof, found.len());
                // A good sign replaces a doubtful one.
                match edges.iter_mut().find(|one| one.waiter == edge.waiter && one.needed == edge.needed) {
                    Some(known) if known.is_doubtful && !edge.is_doubtful => *known = edge,
                    Some(_) => {}
                    None => edges.push(edge),
                }
            }
        }
    }
    let mut before: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for edge in edges.iter().filter(|edge| !edge.is_doubtful) {
        before.entry(&edge.waiter).or_default().push(&edge.needed);
    }
    let cycle = graph::find_cycle(&before).map(|mut names| {
        names.extend(names.first().copied());
        graph::describe_cycle(&names)
    });
    let order = (cycle.is_none() && !before.is_empty()).then(|| order(&spec, &before));
    Suggestion { order, cycle, edges }
}

fn order(spec: &Spec<'_>, before: &BTreeMap<&str, Vec<&str>>) -> String {
    let names: BTreeSet<&str> = before.iter().flat_map(|(name, others)| others.iter().chain([name])).copied().collect();
    let levels = graph::levels(&names.iter().map(|name| (*name, 0)).collect(), before);
    let mut steps: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for own in spec.containers.iter().filter(|own| names.contains(own.name)) {
        steps.entry(levels[own.name]).or_default().push(own.name);
    }
    steps.values().map(|step| step.join(" & ")).collect::<Vec<_>>().join(", ")
}

fn edge(own: &ContainerRef<'_>, mention: &Mention, needed: &ContainerRef<'_>, proof: &str, servers: usize) -> Edge {
    let doubt = match () {
        () if needed.is_native_sidecar() => Some("that container is a native sidecar, which starts first anyway"),
        () if servers > 1 => Some("another container could listen there too"),
        () if mention.is_later => Some("according to the name, the address is not needed at the start"),
        () => None,
    };
    let what = format!("{} of {} names {}, and {} {proof}", mention.label, own.name, mention.shown, needed.name);
    let (what, fix) = match doubt {
        None => {
            let has_probe = ["readinessProbe", "startupProbe"].iter().any(|field| !needed.value[field].is_null());
            let but = if has_probe { String::new() } else { format!(", and give {} a readinessProbe", needed.name) };
            (what, format!("start {} before {}{but}", needed.name, own.name))
        }
        Some(doubt) => {
            (format!("{what}; not used, because {doubt}"), format!("check whether {} needs {}", own.name, needed.name))
        }
    };
    let finding = Finding::note("suggested-order", mention.at.clone(), what).fix(fix);
    let finding = Finding { span: mention.span.clone(), ..finding };
    Edge { waiter: own.name.to_owned(), needed: needed.name.to_owned(), finding, is_doubtful: doubt.is_some() }
}

/// Containers, each with the addresses that it names.
type Named<'a> = [(ContainerRef<'a>, Vec<Mention>)];
/// Function that returns true if a container listens on an address. Its arguments are the container and the addresses
/// that the container names.
type IsServer<'a> = dyn Fn(&ContainerRef<'_>, &[Mention]) -> bool + 'a;

/// Returns the other containers that listen on `port`, and the evidence for messages. Empty if `own` listens there.
fn port_servers<'a>(own: &ContainerRef<'_>, port: u16, all: &Named<'a>) -> (Vec<ContainerRef<'a>>, &'static str) {
    let listens = |mention: &Mention| mention.listens && mention.address == Address::Port(port);
    let ways: [(&IsServer<'_>, _); 4] = [
        (&|other, _| other.declares_port(port), "declares this port"),
        (&|other, _| other.used_ports().contains(&port), "has a probe of this port"),
        (&|_, named| named.iter().any(listens), "listens on it"),
        (&|other, _| mentions::argument_ports(other).contains(&port), "has this port in its arguments"),
    ];
    let mut found = ways.into_iter().map(|(has, proof)| (find(all, has), proof));
    let found = found.find(|(found, _)| !found.is_empty());
    found.filter(|(found, _)| found.iter().all(|other| other.name != own.name)).unwrap_or_default()
}

fn find<'a>(all: &Named<'a>, is_server: impl Fn(&ContainerRef<'_>, &[Mention]) -> bool) -> Vec<ContainerRef<'a>> {
    all.iter().filter(|(other, named)| is_server(other, named)).map(|(other, _)| *other).collect()
}

/// Returns the other containers that may listen on a socket, and the evidence for messages.
fn socket_servers<'a>(
    own: &ContainerRef<'_>,
    volume: &str,
    socket: &Address,
    all: &Named<'a>,
    mounts: &Mounts<'_>,
) -> (Vec<ContainerRef<'a>>, &'static str) {
    let is_socket = |mention: &Mention| mention.address == *socket;
    let listening = find(all, |_, named| named.iter().any(|mention| mention.listens && is_socket(mention)));
    if listening.iter().any(|other| other.name == own.name) {
        return Default::default();
    }
    if !listening.is_empty() {
        return (listening, "listens on it");
    }
    let may_listen = |other: &ContainerRef<'_>, named: &[Mention]| {
        let is_writable = |mount: &&Value| mount["name"] == volume && mount["readOnly"] != true;
        mounts.0[other.name].iter().any(is_writable) && !named.iter().any(is_socket)
    };
    (find(all, may_listen), "mounts its volume")
}
