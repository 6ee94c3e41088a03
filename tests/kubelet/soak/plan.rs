//! The Pods of the soak test. The seed decides all their properties.

use crate::cluster::{IMAGE, TESTSERVER_IMAGE};
use crate::guarantees::Mode;
use crate::pod::add_stepping_clock;
use podgate::order::inject::{Options, inject};
use podgate::order::plan::KnownFacts;
use serde_json::{Value, json};
use std::time::Duration;

/// A pseudo-random number generator (SplitMix64). The same seed gives the same choices.
pub(super) struct Random(u64);

impl Random {
    /// Creates the generator for one `purpose`, such as one Pod, so that its choices do not depend on other generators.
    pub(super) fn new(seed: u64, purpose: u64) -> Random {
        Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ purpose)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }

    pub(super) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// Returns a time from `from` to `to` seconds.
    pub(super) fn time(&mut self, from: usize, to: usize) -> Duration {
        Duration::from_millis((1000 * from + self.below(1000 * (to - from) + 1)) as u64)
    }
}

/// State of a Pod that the soak test waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// Each container is Ready or has exited with 0.
    Up,
    Succeeded,
    /// `api` waits in its gate for the whole run.
    Waiting,
}

/// A condition in the order of a Pod: a container, its dependency, and the state that the dependency must have.
pub(super) type Edge = (&'static str, &'static str, &'static str);

/// A Pod or Job, with the facts that `Judge` needs.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Name of the Pod or Job.
    pub(super) name: String,
    pub(super) mode: Mode,
    pub(super) manifest: Value,
    pub(super) containers: Vec<&'static str>,
    pub(super) edges: Vec<Edge>,
    /// Pairs of containers. The second one receives SIGTERM only after the first one has exited.
    pub(super) stop: Vec<(&'static str, &'static str)>,
    pub(super) goal: Goal,
    /// True if the Pod stays through the whole run. Only faults of the node, the API and the volumes affect it.
    pub(super) stays: bool,
    pub(super) has_clock: bool,
    pub(super) lifetime: Duration,
}

impl Plan {
    pub(super) fn kind(&self) -> &'static str {
        if self.goal == Goal::Succeeded { "Jobs" } else { self.mode.name() }
    }
}

/// Orders, with the modes that can keep them.
const ORDERS: &[(&str, &[Mode], Goal)] = &[
    ("db, api, web", &MODES, Goal::Up),
    ("db, cache, api, web", &MODES, Goal::Up),
    ("db, cache & api, web", &[Mode::Entrypoint, Mode::Hold, Mode::Lean], Goal::Up),
    ("migrate=Completed, db, web", GATES, Goal::Up),
    ("cache & setup=Exited, web", GATES, Goal::Up),
    ("proxy, fetch=Completed, send", &[Mode::Entrypoint], Goal::Succeeded),
];
/// The order of the Pods that stay.
const CHAIN: (&str, Goal) = (ORDERS[0].0, Goal::Up);
const GATES: &[Mode] = &[Mode::Entrypoint, Mode::Hold];
const MODES: [Mode; 4] = [Mode::Entrypoint, Mode::Hold, Mode::PostStart, Mode::Lean];

/// Returns the conditions of an order, and its containers with the states that later steps wait for. Only the
/// next step waits for an exit.
fn parse(order: &'static str) -> (Vec<Edge>, Vec<(&'static str, &'static str)>) {
    let (mut edges, mut earlier): (Vec<Edge>, Vec<(&str, &str, usize)>) = (Vec::new(), Vec::new());
    for (number, step) in order.split(", ").enumerate() {
        let step = step.split(" & ").map(|item| item.split_once('=').unwrap_or((item, "Ready")));
        for (container, _) in step.clone() {
            let awaited = earlier.iter().filter(|(_, state, at)| *state == "Ready" || at + 1 == number);
            edges.extend(awaited.map(|(dependency, state, _)| (container, *dependency, *state)));
        }
        earlier.extend(step.map(|(name, state)| (name, state, number)));
    }
    (edges, earlier.into_iter().map(|(name, state, _)| (name, state)).collect())
}

/// Returns a container with a random probe, which becomes Ready at a random time. With `ends`, returns a container that
/// exits by itself.
fn container(random: &mut Random, mode: Mode, name: &str, port: usize, ends: bool) -> Value {
    let time = *random.pick(&["300ms", "1s", "2s", "4s"]);
    let number = port.to_string();
    // Without a sidecar, a gate asks only by tcp and http.
    let choice = if mode == Mode::Lean { 1 + 2 * random.below(2) } else { random.below(5) };
    let (arguments, probe): (&[&str], Value) = match choice {
        _ if ends => (&["--exit-after", time], Value::Null),
        0 => (&["--touch", "/tmp/ready"], json!({"exec": {"command": ["/testserver", "check", "/tmp/ready"]}})),
        1 => (&["--tcp", &number, "--listen-after", time], json!({"tcpSocket": {"port": port}})),
        2 => (&["--grpc", &number], json!({"grpc": {"port": port}})),
        _ => (&["--http", &number], json!({"httpGet": {"path": "/", "port": port}})),
    };
    let arguments = [arguments, &["--ready-after", time]].concat();
    let mut container = json!({"name": name, "image": TESTSERVER_IMAGE, "args": arguments});
    if !ends {
        container["readinessProbe"] = probe;
        container["readinessProbe"]["periodSeconds"] = (1 + random.below(3)).into();
    }
    if matches!(mode, Mode::Entrypoint | Mode::Lean) {
        container["command"] = json!(["/testserver"]);
    }
    container
}

/// Returns the `number`th Pod that comes and goes.
pub(super) fn passing(seed: u64, number: usize) -> Plan {
    let random = &mut Random::new(seed, 1000 + number as u64);
    let mode = *random.pick(&MODES);
    let orders: Vec<_> = ORDERS.iter().filter(|(_, modes, _)| modes.contains(&mode)).collect();
    let (order, _, goal) = **random.pick(&orders);
    let name = format!("p{number:04}-{}", mode.name());
    let has_clock = goal == Goal::Up && mode.has_sidecar() && random.below(5) == 0;
    let mut plan = plan(random, &name, mode, (order, goal), has_clock);
    // Some Pods are deleted during their start.
    plan.lifetime = if random.below(5) == 0 { random.time(0, 6) } else { random.time(20, 100) };
    plan
}

/// Returns the Pods that stay through the whole run: one for each mode, and two whose `api` waits all the time, with a
/// sidecar and without one.
pub(super) fn staying(seed: u64) -> Vec<Plan> {
    let random = &mut Random::new(seed, 4);
    let mut plans: Vec<Plan> =
        MODES.iter().map(|mode| plan(random, &format!("stays-{}", mode.name()), *mode, CHAIN, false)).collect();
    // With this annotation, the agent remains the parent of the container's command.
    plans[0].manifest["metadata"]["annotations"]["podgate.io/on-dependency-restart"] = "restart".into();
    let never_ready = json!({"exec": {"command": ["/testserver", "check", "/no/such/file"]}});
    let refused = json!({"tcpSocket": {"port": 9999}});
    for (name, mode, probe) in
        [("stays-waiting", Mode::Entrypoint, never_ready), ("stays-waiting-alone", Mode::Lean, refused)]
    {
        let mut waits = plan(random, name, mode, (CHAIN.0, Goal::Waiting), false);
        waits.manifest["metadata"]["annotations"]["podgate.io/timeout"] = "24h".into();
        let mut containers = waits.manifest["spec"]["containers"].as_array_mut().expect("a list").iter_mut();
        let db = containers.find(|container| container["name"] == "db").expect("db");
        db["args"].as_array_mut().expect("a list").push("--ready-on-signal".into());
        db["readinessProbe"] = probe;
        plans.push(waits);
    }
    for plan in &mut plans {
        plan.stays = true;
    }
    plans
}

fn plan(random: &mut Random, name: &str, mode: Mode, of: (&'static str, Goal), has_clock: bool) -> Plan {
    let (order, goal) = of;
    let (edges, all) = parse(order);
    let is_job = goal == Goal::Succeeded;
    let has_tasks = all.iter().any(|(_, state)| *state != "Ready");
    let mut containers: Vec<Value> = Vec::new();
    for (index, (name, state)) in all.iter().enumerate() {
        let ends = *state != "Ready" || is_job && *name != "proxy";
        // Hooks need a list in start order. The other modes must not depend on the list order.
        let position = if mode == Mode::PostStart { index } else { random.below(index + 1) };
        containers.insert(position, container(random, mode, name, 8000 + index, ends));
    }
    let form = if mode == Mode::Lean { ("podgate.io/sidecar", "none") } else { ("podgate.io/mode", mode.name()) };
    let mut annotations = json!({"podgate.io/order": order, form.0: form.1});
    let (first, last) = (all[0].0, all[all.len() - 1].0);
    let mut stop = Vec::new();
    if is_job {
        annotations["podgate.io/job-sidecars"] = "proxy".into();
    } else if !has_tasks && mode.has_sidecar() {
        match random.below(4) {
            0 => {}
            1 => {
                annotations["podgate.io/stop-order"] = format!("{last}, {first}").into();
                stop.push((last, first));
            }
            _ => {
                annotations["podgate.io/stop-order"] = "reverse".into();
                stop.extend(edges.iter().map(|(container, dependency, _)| (*container, *dependency)));
            }
        }
    }
    let policy = if has_tasks { "OnFailure" } else { "Always" };
    let mut manifest = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"soak": name}, "annotations": annotations},
        "spec": {"restartPolicy": policy, "terminationGracePeriodSeconds": 20 + random.below(11), "containers": containers},
    });
    if has_clock {
        manifest = with_stepping_clock(&manifest);
    }
    if is_job {
        let (mut metadata, spec) = (manifest["metadata"].take(), manifest["spec"].take());
        metadata.as_object_mut().expect("an object").remove("name");
        let template = json!({"metadata": metadata, "spec": spec});
        manifest = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {"backoffLimit": 1000, "template": template}});
    }
    let (name, containers) = (name.to_owned(), all.into_iter().map(|(name, _)| name).collect());
    Plan { name, mode, manifest, containers, edges, stop, goal, stays: false, has_clock, lifetime: Duration::MAX }
}

/// Injects a Pod without the webhook, because the webhook does not know the image with the stepping clock.
fn with_stepping_clock(pod: &Value) -> Value {
    let injected = inject(pod, &Options::new(IMAGE), &KnownFacts::default());
    let mut pod = injected.unwrap_or_else(|findings| panic!("{findings:?}: {pod}")).value;
    for list in ["initContainers", "containers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            add_stepping_clock(container, 3600);
        }
    }
    pod
}
