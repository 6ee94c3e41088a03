//! Proposes an order for a Pod that declares none. Example: one container names `localhost:5432`, and another has
//! the port 5432. The containers of a Pod share the network, so the first container is a client of the second.

mod mentions;
mod services;
mod texts;

use crate::core::graph;
use crate::order::declare::keys;
use crate::order::declare::spec::{ContainerRef, Spec, items_of};
use crate::order::finding::Finding;
pub(crate) use mentions::{Address, Mention, listens_on_loopback, local_mentions, local_ports, scheme_ports};
use serde_json::{Map, Value};
pub(crate) use services::{image, is_docker_daemon};
use std::collections::{BTreeMap, BTreeSet};
pub(crate) use texts::{LINE_MAX, LOCAL_URL_HOSTS};
use texts::{Mounts, unread};

/// Maximum number of findings about addresses without an owner, for each template.
const UNOWNED_MAX: usize = 20;

/// Data of the ConfigMaps of the input, by name.
pub type ConfigMaps<'a> = BTreeMap<&'a str, &'a Map<String, Value>>;

/// What happens without the order. The best reason for an order comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// The first connections fail, and many programs then exit.
    Fails,
    /// The first requests through the container fail.
    Requests,
    /// The sign is not good enough for an order. The finding says why.
    Doubtful,
    /// The container retries until the other one answers, so it needs no order.
    Retries,
}

/// Sign that the container `waiter` is a client of the container `needed`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// Container that names the address.
    pub waiter: String,
    /// Container that listens on that address.
    pub needed: String,
    /// Finding at the place of the address in the template. The message says why `waiter` is a client of `needed`.
    pub finding: Finding,
    /// What happens without the order.
    pub rank: Rank,
    /// Check with which podgate sees that `needed` is ready. `None` if `needed` has a probe, or if there is no check.
    pub ready: Option<String>,
}

/// Proposal for one template.
#[derive(Debug, Default)]
pub struct Suggestion {
    /// At most one edge for each pair of containers, sorted by rank, then in the order of the manifest.
    pub edges: Vec<Edge>,
    /// Findings about addresses on which no container is known to listen.
    pub unowned: Vec<Finding>,
    /// Value of `podgate.io/order`. `None` if there are no good signs or the signs form a cycle.
    pub order: Option<String>,
    /// Description of a cycle of waits, if the signs form one.
    pub cycle: Option<String>,
    /// ConfigMaps and Secrets that the template names, but that were not read.
    pub unread: String,
}

impl Suggestion {
    /// Returns the keys and values of the proposed annotations. Empty if no order is proposed.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let Some(order) = &self.order else { return BTreeMap::new() };
        let used = self.edges.iter().filter(|edge| edge.rank < Rank::Doubtful);
        let check = |edge: &Edge| Some((format!("{}{}", keys::READY_PREFIX, edge.needed), edge.ready.clone()?));
        used.filter_map(check).chain([(keys::ORDER.to_owned(), order.clone())]).collect()
    }

    /// Returns the containers that need no order because they retry, such as `a, b until c answers`.
    pub fn already_retrying(&self) -> String {
        let mut waiters = BTreeMap::<&str, Vec<&str>>::new();
        for edge in self.edges.iter().filter(|edge| edge.rank == Rank::Retries) {
            waiters.entry(&edge.needed).or_default().push(&edge.waiter);
        }
        let texts = waiters.iter().map(|(needed, waiters)| format!("{} until {needed} answers", waiters.join(", ")));
        texts.collect::<Vec<_>>().join("; ")
    }
}

/// Returns the ConfigMaps among `objects`, by name.
pub fn config_maps<'a>(objects: impl Iterator<Item = &'a Value>) -> ConfigMaps<'a> {
    let items = |object: &'a Value| items_of(object, "items").chain([object]);
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
    let all = spec.regular_and_native().map(|own| Member::of(*own, mentions::mentions(own, &spec, configs, &mounts)));
    let all: Vec<Member<'_>> = all.collect();
    let mut found =
        Suggestion { unread: Vec::from_iter(unread(spec.value, configs)).join(", "), ..Suggestion::default() };
    let mut add =
        |edge: Edge| match found.edges.iter_mut().find(|one| one.waiter == edge.waiter && one.needed == edge.needed) {
            // A better sign replaces another one.
            Some(known) if known.rank > edge.rank => *known = edge,
            Some(_) => {}
            None => found.edges.push(edge),
        };
    let meshes: Vec<&ContainerRef<'_>> = spec.containers.iter().filter(|own| is_mesh_proxy(own)).collect();
    for Member { own, mentions, .. } in all.iter().filter(|one| !one.own.is_native() && !is_mesh_proxy(&one.own)) {
        meshes.iter().for_each(|proxy| add(mesh_edge(own, proxy)));
        let mut seen = BTreeSet::new();
        for mention in mentions.iter().filter(|mention| !mention.listens) {
            // A file can name the same address many times.
            if !seen.insert((&mention.address, mention.is_later, mention.rank)) {
                continue;
            }
            let (servers, evidence) = match &mention.address {
                Address::Port(port) => port_servers(*port, &all),
                socket @ Address::Socket(volume, _) => socket_servers(volume, socket, &all, &mounts),
            };
            if servers.iter().all(|other| other.name != own.name) {
                let is_unclear = mention.is_implied && implied_ports(mention, mentions, &all) > 1;
                let doubt = if servers.len() > 1 { Some("another container could listen there too") } else { None };
                let doubt = doubt.or(is_unclear.then_some("the port is not known"));
                servers.iter().for_each(|needed| add(edge(own, mention, needed, evidence, doubt)));
                if servers.is_empty() && found.unowned.len() < UNOWNED_MAX && spec.value["hostNetwork"] != true {
                    found.unowned.extend(unowned(own, mention, &all));
                }
            }
        }
    }
    found.edges.sort_by_key(|edge| edge.rank);
    let mut before: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for edge in found.edges.iter().filter(|edge| edge.rank < Rank::Doubtful) {
        before.entry(&edge.waiter).or_default().push(&edge.needed);
    }
    found.cycle = graph::find_cycle(&before).map(|cycle| graph::describe_wait_cycle(&cycle));
    found.order = (found.cycle.is_none() && !before.is_empty()).then(|| order(&spec, &before));
    found
}

fn order(spec: &Spec<'_>, before: &BTreeMap<&str, Vec<&str>>) -> String {
    let names: BTreeSet<&str> = before.iter().flat_map(|(name, others)| others.iter().chain([name])).copied().collect();
    let levels = graph::levels(&names.iter().map(|name| (*name, 0)).collect(), before);
    let last = levels.values().copied().max().unwrap_or_default();
    let mut steps: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for own in spec.containers.iter().filter(|own| names.contains(own.name)) {
        // A container that none needs belongs in the last step, because each step waits for the whole step before.
        let is_needed = before.values().any(|others| others.contains(&own.name));
        steps.entry(if is_needed { levels[own.name] } else { last }).or_default().push(own.name);
    }
    steps.values().map(|step| step.join(" & ")).collect::<Vec<_>>().join(", ")
}

fn edge(
    own: &ContainerRef<'_>,
    mention: &Mention,
    needed: &ContainerRef<'_>,
    evidence: &str,
    doubt: Option<&'static str>,
) -> Edge {
    let ready = ready_check(needed, &mention.address).filter(|_| !has_probe(needed));
    let is_late = has_probe(needed) && ["startupProbe", "lifecycle"].iter().all(|one| needed.value[*one].is_null());
    let doubt = match () {
        () if needed.is_native() && is_late => UNAWAITED_BY_KUBERNETES,
        () if needed.is_native() => "that container is a native sidecar, which starts first anyway",
        () if let Some(doubt) = doubt => doubt,
        () if mention.is_later => "according to the name, the address is not needed at the start",
        () if mention.rank == Rank::Retries => "",
        () if ready.is_none() && !has_probe(needed) => UNSEEN,
        () => "",
    };
    let rank = if doubt.is_empty() { mention.rank } else { Rank::Doubtful };
    let (waiter, needed) = (own.name.to_owned(), needed.name.to_owned());
    let is_directory = mention.is_implied && matches!(mention.address, Address::Socket(..));
    let verb = if is_directory { "contains" } else { "names" };
    let mut what = format!("{} of {waiter} {verb} {}, and {needed} {evidence}", mention.label, mention.shown);
    let mut fix = start_first(&waiter, &needed, rank);
    if rank == Rank::Doubtful {
        what += &format!("; not used, because {doubt}");
        fix = match doubt {
            UNSEEN => format!("give {needed} a readinessProbe, and run suggest again"),
            UNAWAITED_BY_KUBERNETES => {
                format!("give {needed} a startupProbe, for which Kubernetes waits; see kubectl podgate check")
            }
            _ => format!("check whether {waiter} needs {needed}"),
        };
    }
    let finding = Finding::note("suggested-order", mention.at.clone(), what).fix(fix);
    Edge { waiter, needed, finding: Finding { span: mention.span.clone(), ..finding }, rank, ready }
}

/// Returns the number of ports on which a container listens, of all ports that the setting of `mention` may mean.
fn implied_ports(mention: &Mention, mentions: &[Mention], all: &[Member<'_>]) -> usize {
    let is_open = |one: &&Mention| match one.address {
        Address::Port(port) => one.at == mention.at && all.iter().any(|other| other.ports.contains_key(&port)),
        Address::Socket(..) => false,
    };
    mentions.iter().filter(is_open).count()
}

fn start_first(waiter: &str, needed: &str, rank: Rank) -> String {
    let otherwise = match rank {
        Rank::Requests => format!("the first requests through {waiter} fail"),
        _ => format!("the first connections of {waiter} fail, and it may exit"),
    };
    format!("start {needed} before {waiter}; otherwise, {otherwise}")
}

fn has_probe(own: &ContainerRef<'_>) -> bool {
    ["readinessProbe", "startupProbe"].iter().any(|field| !own.value[field].is_null())
}

/// Returns a check that passes when `needed` listens on TCP. Without a check or a probe, an order would only wait until
/// the container runs.
fn ready_check(needed: &ContainerRef<'_>, address: &Address) -> Option<String> {
    let port = match address {
        Address::Port(port) => *port,
        Address::Socket(..) => *services::default_ports(needed).first()?,
    };
    let declared = items_of(needed.value, "ports").filter(|one| one["containerPort"] == port);
    let mut protocols = declared.map(|one| one["protocol"].as_str().unwrap_or("TCP")).peekable();
    (protocols.peek().is_none() || protocols.any(|one| one == "TCP")).then(|| format!("tcp://127.0.0.1:{port}"))
}

/// Returns a finding about an address on which no container is known to listen. Returns `None` if `own` needs no order
/// for the address, or if no other container may listen there.
fn unowned(own: &ContainerRef<'_>, mention: &Mention, all: &[Member<'_>]) -> Option<Finding> {
    let Address::Port(port) = &mention.address else { return None };
    let may_listen = |one: &&Member<'_>| {
        one.own.name != own.name && !services::is_idle(&one.own) && services::default_ports(&one.own).is_empty()
    };
    let names: Vec<&str> = all.iter().filter(may_listen).map(|one| one.own.name).take(5).collect();
    let is_exact = mention.shown.ends_with(&port.to_string());
    if names.is_empty() || !is_exact || mention.rank == Rank::Retries || mention.is_later {
        return None;
    }
    let (label, shown, names) = (&mention.label, &mention.shown, names.join(" or "));
    let what = format!(
        "{label} of {} names {shown}, but no container declares port {port}; {names} may listen there",
        own.name
    );
    let fix = format!("declare port {port} in the container that listens there, and run suggest again");
    Some(Finding { span: mention.span.clone(), ..Finding::note("suggested-order", mention.at.clone(), what).fix(fix) })
}

/// Returns true for a proxy of a service mesh that has a probe, and no postStart hook to delay the next containers.
fn is_mesh_proxy(own: &ContainerRef<'_>) -> bool {
    matches!(own.name, "istio-proxy" | "linkerd-proxy")
        && own.value["lifecycle"]["postStart"].is_null()
        && has_probe(own)
}

fn mesh_edge(own: &ContainerRef<'_>, proxy: &ContainerRef<'_>) -> Edge {
    let (waiter, needed, rank) = (own.name.to_owned(), proxy.name.to_owned(), Rank::Fails);
    let what = format!("all connections of {waiter} pass through {needed}");
    let finding = Finding::note("suggested-order", own.place().to("name"), what);
    Edge { finding: finding.fix(start_first(&waiter, &needed, rank)), waiter, needed, rank, ready: None }
}

/// Evidence that a container listens on a port, the best first.
const EVIDENCE: [&str; 5] =
    ["declares this port", "has a probe of this port", "listens on it", "has this port in its arguments", BY_IMAGE];
const BY_IMAGE: &str = "listens on it by default (a guess from its image)";
/// Reason why an order would have no effect.
const UNSEEN: &str = "podgate cannot see when that container is ready";
/// Reason why a native sidecar needs another fix than an order.
pub const UNAWAITED_BY_KUBERNETES: &str = "it starts first, but Kubernetes does not wait until it is Ready";

/// Container with the addresses that it names.
pub(crate) struct Member<'a> {
    own: ContainerRef<'a>,
    mentions: Vec<Mention>,
    /// Ports on which the container listens, with the index of the best evidence.
    ports: BTreeMap<u16, usize>,
}

impl<'a> Member<'a> {
    pub(crate) fn of(own: ContainerRef<'a>, mentions: Vec<Mention>) -> Member<'a> {
        let declared = items_of(own.value, "ports").filter_map(|one| one["containerPort"].as_u64());
        let listens = |mention: &Mention| match mention.address {
            Address::Port(port) if mention.listens => Some(port),
            _ => None,
        };
        let ways: [Vec<u16>; 5] = [
            declared.filter_map(|port| u16::try_from(port).ok()).collect(),
            own.used_ports(),
            mentions.iter().filter_map(listens).collect(),
            mentions::argument_ports(&own),
            services::default_ports(&own),
        ];
        let ways = ways.into_iter().enumerate().rev();
        let ports = ways.flat_map(|(way, ports)| ports.into_iter().map(move |port| (port, way))).collect();
        Member { own, mentions, ports }
    }
}

/// Returns the containers that listen on `port` according to the best evidence, and the evidence for messages.
pub(crate) fn port_servers<'a>(port: u16, all: &[Member<'a>]) -> (Vec<ContainerRef<'a>>, &'static str) {
    let best = all.iter().filter_map(|one| one.ports.get(&port).copied()).min();
    (find(all, |one| best.is_some() && one.ports.get(&port).copied() == best), best.map_or("", |way| EVIDENCE[way]))
}

fn find<'a>(all: &[Member<'a>], is_server: impl Fn(&Member<'_>) -> bool) -> Vec<ContainerRef<'a>> {
    all.iter().filter(|one| is_server(one)).map(|one| one.own).collect()
}

/// Returns the containers that may listen on a socket, and the evidence for messages.
fn socket_servers<'a>(
    volume: &str,
    socket: &Address,
    all: &[Member<'a>],
    mounts: &Mounts<'_>,
) -> (Vec<ContainerRef<'a>>, &'static str) {
    let is_named = |one: &Member<'_>, is_server: &dyn Fn(&Mention) -> bool| {
        one.mentions.iter().any(|mention| mention.address == *socket && is_server(mention))
    };
    for (is_implied, evidence) in [(false, "listens on it"), (true, BY_IMAGE)] {
        let listening = find(all, |one| is_named(one, &|mention| mention.listens && mention.is_implied == is_implied));
        if !listening.is_empty() {
            return (listening, evidence);
        }
    }
    let may_listen = |one: &Member<'_>| {
        let is_writable = |mount: &&Value| mount["name"] == volume && mount["readOnly"] != true;
        mounts.0[one.own.name].iter().any(is_writable) && !is_named(one, &|_| true)
    };
    (find(all, may_listen), "mounts its volume")
}
