//! Pods for the scenarios. Sidecar and volumes come from `manifests/pod.yaml`, so the scenarios test the manifest that
//! users copy.

use crate::cluster::{CLOCK_IMAGE, IMAGE, ROOT, TESTSERVER_IMAGE};
use podgate::core::ask::AskedProbe;
use serde_json::{Map, Value, json};

/// Returns the parsed content of a file in `manifests/`.
pub(crate) fn manifest(name: &str) -> Value {
    let path = format!("{ROOT}/manifests/{name}");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Applies `patch` to `target`: merges objects, removes fields that are null in `patch`, and replaces everything else.
pub(crate) fn merge(target: &mut Value, patch: Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                match value {
                    Value::Null => _ = target.remove(&key),
                    value => merge(target.entry(key).or_insert(Value::Null), value),
                }
            }
        }
        (target, Value::Object(patch)) => {
            *target = Value::Object(Map::new());
            merge(target, Value::Object(patch));
        }
        (target, patch) => *target = patch,
    }
}

/// Mechanism by which a container takes part in the order.
#[derive(Debug, Clone)]
enum OrderMode {
    None,
    /// Post-start mode: the container has podgate's postStart hook with these flags.
    PostStart(Vec<String>),
    /// Entrypoint mode: podgate's gate with these flags precedes the command. `may_have_startup_probe` allows the
    /// startupProbe `podgate opened`.
    Entrypoint {
        flags: Vec<String>,
        may_have_startup_probe: bool,
    },
    /// A gate without a sidecar, which runs the probes of these containers itself, with these further flags.
    Asking {
        asked: Vec<String>,
        flags: Vec<String>,
    },
    /// Hold mode: the kubelet holds the container. The strings are `--until` and `--timeout` flags, as for a gate.
    Hold(Vec<String>),
    /// An order without podgate.
    Peer(Peer),
}

/// A way to order containers without podgate.
#[derive(Debug, Clone)]
pub(crate) enum Peer {
    /// A native sidecar, whose startupProbe fails the container after this many failures.
    NativeSidecar { failure_threshold: u32 },
    /// The environment variable of Kruise's container launch priority, with this priority.
    LaunchPriority(u32),
    /// This postStart hook.
    Hook(Vec<String>),
    /// A wrapper: this command, which gets the container's own command line as its last arguments.
    Wrapper(Vec<String>),
}

/// Directory of the volume that all containers of a Pod with a [`Peer`] share.
pub(crate) const SHARED_DIR: &str = "/shared";

/// One container, which runs the test server.
#[derive(Debug, Clone)]
pub(crate) struct Container {
    pub(crate) name: String,
    arguments: Vec<String>,
    probe: Option<Value>,
    /// True if podgate wraps the command of the exec readinessProbe, as `inject` does for a container without an agent.
    wraps_probe: bool,
    mode: OrderMode,
    pre_stop: Option<Vec<String>>,
    patch: Value,
}

/// Creates a container without a hook or gate. Its test server has no ports, and is ready at once.
pub(crate) fn server(name: &str) -> Container {
    let (arguments, patch) = (Vec::new(), json!({}));
    let mode = OrderMode::None;
    Container { name: name.to_owned(), arguments, probe: None, wraps_probe: false, mode, pre_stop: None, patch }
}

fn log_flags() -> impl Iterator<Item = String> {
    to_strings(&["--log-to", "/proc/1/fd/2", "--log-format", "json"])
}

fn to_strings(words: &[&str]) -> impl Iterator<Item = String> {
    words.iter().map(|word| (*word).to_owned())
}

impl Container {
    /// Adds arguments for the test server.
    pub(crate) fn args(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(to_strings(arguments));
        self
    }

    pub(crate) fn ready_after(self, duration: &str) -> Self {
        self.args(&["--ready-after", duration])
    }

    /// Sets the readiness probe, which the kubelet runs every second.
    pub(crate) fn probe(mut self, mut probe: Value) -> Self {
        merge(&mut probe, json!({"periodSeconds": 1}));
        self.probe = Some(probe);
        self
    }

    /// Sets an exec readiness probe, and wraps its command.
    pub(crate) fn wrapped_probe(mut self, command: &[&str]) -> Self {
        self.wraps_probe = true;
        self.probe(json!({"exec": {"command": command}}))
    }

    /// Makes the test server serve HTTP on `port`, and adds an HTTP readiness probe.
    pub(crate) fn http(self, port: u16) -> Self {
        self.args(&["--http", &port.to_string()]).probe(json!({"httpGet": {"path": "/", "port": port}}))
    }

    pub(crate) fn tcp(self, port: u16) -> Self {
        self.args(&["--tcp", &port.to_string()]).probe(json!({"tcpSocket": {"port": port}}))
    }

    pub(crate) fn grpc(self, port: u16) -> Self {
        self.args(&["--grpc", &port.to_string()]).probe(json!({"grpc": {"port": port}}))
    }

    /// Adds podgate's postStart hook with `flags`. The hook logs to the container's log.
    pub(crate) fn hook(mut self, flags: &[&str]) -> Self {
        self.mode = OrderMode::PostStart(to_strings(flags).chain(log_flags()).collect());
        self
    }

    /// Adds podgate's gate with `flags` in front of the test server, and the gate's startupProbe if `inject` would.
    pub(crate) fn gate(mut self, flags: &[&str]) -> Self {
        self.mode = OrderMode::Entrypoint { flags: to_strings(flags).collect(), may_have_startup_probe: true };
        self
    }

    /// Adds podgate's gate without a sidecar. The gate runs the probes of `asked`, each of which waits for those before
    /// it. `flags` are further flags of the gate.
    pub(crate) fn asking(mut self, asked: &[&Container], flags: &[&str]) -> Self {
        let entry = |(number, one): (usize, &&Container)| {
            let until: Vec<&str> = asked[..number].iter().map(|before| before.name.as_str()).collect();
            let container = json!({"name": one.name, "until": until, "readinessProbe": one.probe,
                "startupProbe": one.patch["startupProbe"]});
            let container = serde_json::from_value(container).expect("a container");
            AskedProbe::of(&container).expect("probes that a gate can run")
        };
        let asked = asked.iter().enumerate().flat_map(entry).map(|ask| ask.to_string()).collect();
        self.mode = OrderMode::Asking { asked, flags: to_strings(flags).collect() };
        self
    }

    /// Makes the kubelet hold the container until the conditions of `--until` hold.
    pub(crate) fn held(mut self, flags: &[&str]) -> Self {
        self.mode = OrderMode::Hold(to_strings(flags).collect());
        self
    }

    /// Orders the container without podgate. Then no container of the Pod has a part of podgate.
    pub(crate) fn by_peer(mut self, peer: Peer) -> Self {
        self.mode = OrderMode::Peer(peer);
        self
    }

    /// Adds a livenessProbe like the readinessProbe.
    pub(crate) fn live(self) -> Self {
        let probe = self.probe.clone();
        self.with(json!({"livenessProbe": probe}))
    }

    /// Removes the gate's startupProbe. The kubelet then reports a waiting container as started.
    pub(crate) fn without_startup_probe(mut self) -> Self {
        if let OrderMode::Entrypoint { may_have_startup_probe, .. } = &mut self.mode {
            *may_have_startup_probe = false;
        }
        self
    }

    /// Adds podgate's preStop hook with `flags`.
    pub(crate) fn pre_stop(mut self, flags: &[&str]) -> Self {
        self.pre_stop = Some(to_strings(flags).chain(log_flags()).collect());
        self
    }

    /// Merges `patch` into the container's spec.
    pub(crate) fn with(mut self, patch: Value) -> Self {
        merge(&mut self.patch, patch);
        self
    }

    pub(crate) fn running_as_root(self) -> Self {
        self.with(json!({"securityContext": {"runAsUser": 0, "runAsGroup": 0, "runAsNonRoot": false,
            "capabilities": {"drop": []}}}))
    }

    /// Returns the container's spec in a Pod with the name `pod`.
    fn spec(&self, pod: &str) -> Value {
        let mut spec = json!({
            "name": self.name,
            "image": TESTSERVER_IMAGE,
            "args": self.arguments,
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": [
                {"name": "podgate-board", "mountPath": "/podgate", "readOnly": true},
                {"name": "podgate-self", "mountPath": "/podgate-self", "subPath": self.name},
            ],
        });
        if let Some(probe) = &self.probe {
            spec["readinessProbe"] = probe.clone();
        }
        let mut patch = self.patch.clone();
        let podgate = |command: &[&str], flags: &[String]| -> Vec<String> {
            to_strings(&["/podgate/bin/podgate"]).chain(to_strings(command)).chain(flags.iter().cloned()).collect()
        };
        if self.wraps_probe {
            let own = spec["readinessProbe"]["exec"]["command"].as_array().expect("a command").iter();
            let words = podgate(&["probe", "--container", &self.name, "--"], &[]).into_iter().map(Value::from);
            let words = words.chain(own.cloned()).collect::<Vec<_>>();
            merge(&mut spec["readinessProbe"], json!({"exec": {"command": words}, "timeoutSeconds": 306}));
        }
        let hook = |command, flags| json!({"exec": {"command": podgate(&[command, "--container", &self.name], flags)}});
        match &self.mode {
            OrderMode::None => {}
            OrderMode::Peer(peer) => peer.add_to(&mut spec, pod),
            OrderMode::Asking { asked, flags } => {
                spec["volumeMounts"] = json!([{"name": "podgate", "mountPath": "/podgate", "readOnly": true}]);
                let asked = asked.iter().flat_map(|one| ["--ask".to_owned(), one.clone()]);
                let flags: Vec<String> = asked.chain(flags.iter().cloned()).chain(["--".to_owned()]).collect();
                let gate = ["entrypoint", "--container", &self.name, "--log-format", "json"];
                spec["command"] = json!(podgate(&gate, &flags));
                spec["args"] = to_strings(&["/testserver"]).chain(self.arguments.iter().cloned()).collect();
                if self.needs_startup_probe() {
                    spec["startupProbe"] = json!({"exec": {"command": podgate(&["opened", "--wait"], &[])},
                        "periodSeconds": 1, "timeoutSeconds": 335, "failureThreshold": 1});
                }
                spec["env"] = json!([{"name": "PODGATE_POD_IP",
                    "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]);
            }
            OrderMode::Hold(_) => {
                let from = json!({"volumeName": "podgate-hold", "path": format!("keys/{}", self.name), "key": "OPEN"});
                spec["env"] = json!([{"name": "PODGATE_HOLD", "valueFrom": {"fileKeyRef": from}}]);
                let mount = json!({"name": "podgate-hold", "mountPath": "/podgate-hold",
                    "subPathExpr": "gate/$(PODGATE_HOLD)", "readOnly": true});
                spec["volumeMounts"].as_array_mut().expect("mounts").push(mount);
            }
            OrderMode::PostStart(flags) => {
                spec["lifecycle"]["postStart"] = hook("post-start", flags);
                let mount = json!({"name": "podgate-info", "mountPath": "/podgate-info", "readOnly": true});
                spec["volumeMounts"].as_array_mut().expect("mounts").push(mount);
            }
            OrderMode::Entrypoint { flags, may_have_startup_probe } => {
                let gate = ["entrypoint", "--container", &self.name, "--log-format", "json"];
                let separator = ["--".to_owned()];
                spec["command"] = json!(podgate(&gate, &[&flags[..], &separator].concat()));
                spec["args"] = to_strings(&["/testserver"]).chain(self.arguments.iter().cloned()).collect();
                if *may_have_startup_probe && self.needs_startup_probe() {
                    // Declare the container's own startupProbe only in `--containers`: the sidecar runs this probe.
                    let own = patch.as_object_mut().expect("an object").remove("startupProbe");
                    let flags: &[&str] = if own.is_some() { &["--sidecar-check"] } else { &[] };
                    let command = podgate(&["opened", "--wait"], &to_strings(flags).collect::<Vec<_>>());
                    spec["startupProbe"] =
                        json!({"exec": {"command": command}, "periodSeconds": 1, "timeoutSeconds": 335});
                }
            }
        }
        if let Some(flags) = &self.pre_stop {
            spec["lifecycle"]["preStop"] = hook("pre-stop", flags);
        }
        merge(&mut spec, patch);
        spec
    }

    /// Returns true if `inject` writes the gate's startupProbe. An `httpGet` or `grpc` readinessProbe alone fails while
    /// the gate waits.
    fn needs_startup_probe(&self) -> bool {
        let fails = |probe: &Value| {
            (probe["httpGet"].is_object() || probe["grpc"].is_object()) && probe["initialDelaySeconds"].is_null()
        };
        let is_alone = ["livenessProbe", "startupProbe"].iter().all(|probe| self.patch[probe].is_null());
        !(is_alone && self.probe.as_ref().is_some_and(fails))
    }

    /// Returns the container's entry for `--containers`.
    fn declaration(&self) -> Value {
        let mut listed = json!({"name": self.name});
        match &self.mode {
            OrderMode::None | OrderMode::Asking { .. } | OrderMode::Peer(_) => {}
            OrderMode::PostStart(_) => listed["mode"] = "post-start".into(),
            OrderMode::Entrypoint { flags, .. } => {
                listed["mode"] = "entrypoint".into();
                listed["until"] = json!(flag_values(flags, "--until"));
            }
            OrderMode::Hold(flags) => {
                listed["mode"] = "hold".into();
                listed["until"] = json!(flag_values(flags, "--until"));
                let timeout = flag_values(flags, "--timeout").pop();
                let timeout = timeout.map_or(300, |text| humantime::parse_duration(&text).expect("a time").as_secs());
                listed["timeoutSeconds"] = timeout.into();
                listed["continueOnTimeout"] = flags.contains(&"--continue".to_owned()).into();
            }
        }
        if self.pre_stop.is_some() {
            listed["preStop"] = true.into();
        }
        if let Some(probe) = &self.probe {
            listed["readinessProbe"] = probe.clone();
        }
        if self.wraps_probe {
            listed["reportsStart"] = true.into();
        }
        for field in ["ports", "startupProbe", "restartPolicy"] {
            if let Some(value) = self.patch.get(field) {
                listed[field] = value.clone();
            }
        }
        listed
    }
}

impl Peer {
    /// Adds this way to the spec of a container of `pod`.
    fn add_to(&self, spec: &mut Value, pod: &str) {
        match self {
            Peer::NativeSidecar { failure_threshold } => {
                spec["restartPolicy"] = "Always".into();
                spec["startupProbe"] = spec["readinessProbe"].clone();
                spec["startupProbe"]["failureThreshold"] = (*failure_threshold).into();
            }
            Peer::LaunchPriority(priority) => {
                let key = json!({"name": format!("{pod}-barrier"), "key": format!("p_{priority}")});
                spec["env"] = json!([{"name": "KRUISE_CONTAINER_BARRIER", "valueFrom": {"configMapKeyRef": key}}]);
            }
            Peer::Hook(command) => spec["lifecycle"]["postStart"]["exec"]["command"] = json!(command),
            Peer::Wrapper(command) => spec["command"] = json!(command),
        }
    }
}

/// Returns the values of `flag` in a command line of separate words.
fn flag_values(flags: &[String], flag: &str) -> Vec<String> {
    flags.windows(2).filter(|pair| pair[0] == flag).map(|pair| pair[1].clone()).collect()
}

/// Makes the programs of this container read a clock that is `seconds` ahead while [`STEP_FILE`] exists.
pub(crate) fn add_stepping_clock(container: &mut Value, seconds: i64) {
    container["image"] = CLOCK_IMAGE.into();
    if container["env"].is_null() {
        container["env"] = json!([]);
    }
    let variables =
        [("LD_PRELOAD", "/step_clock.so"), ("STEP_WHEN", STEP_FILE), ("STEP_SECONDS", &seconds.to_string())];
    let variables = variables.map(|(name, value)| json!({"name": name, "value": value}));
    container["env"].as_array_mut().expect("a list").extend(variables);
}

/// A Pod with the sidecar and the containers, in list order.
#[derive(Debug, Clone)]
pub(crate) struct Pod {
    pub(crate) name: String,
    containers: Vec<Container>,
    sidecar_args: Vec<String>,
    has_token: bool,
    /// Size of the clock step, in seconds.
    clock_step_seconds: Option<i64>,
    patch: Value,
}

/// Path of the file on the board that steps the clock. While the file exists, podgate's programs in a Pod [with a
/// stepping clock](Pod::with_stepping_clock) read the stepped wall clock.
pub(crate) const STEP_FILE: &str = "/podgate/step";

impl Pod {
    pub(crate) fn new(name: &str, containers: impl IntoIterator<Item = Container>) -> Pod {
        Pod {
            name: name.to_owned(),
            containers: containers.into_iter().collect(),
            sidecar_args: Vec::new(),
            has_token: true,
            clock_step_seconds: None,
            patch: json!({}),
        }
    }

    /// Adds arguments for the sidecar.
    pub(crate) fn sidecar_args(mut self, arguments: &[&str]) -> Self {
        self.sidecar_args.extend(to_strings(arguments));
        self
    }

    /// Removes the volume with the API token.
    pub(crate) fn without_token(mut self) -> Self {
        self.has_token = false;
        self
    }

    /// Makes sidecar, hooks and gates read a wall clock that is `seconds` ahead while [`STEP_FILE`] exists. The test
    /// servers read the real clock.
    pub(crate) fn with_stepping_clock(mut self, seconds: i64) -> Self {
        self.clock_step_seconds = Some(seconds);
        self
    }

    /// Merges `patch` into the Pod.
    pub(crate) fn with(mut self, patch: Value) -> Self {
        merge(&mut self.patch, patch);
        self
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.containers.iter().map(|c| c.name.as_str()).collect()
    }

    pub(crate) fn json(&self) -> Value {
        let mut pod = manifest("pod.yaml");
        pod["metadata"] = json!({"name": self.name});
        let mut sidecar = pod["spec"]["initContainers"][0].take();
        sidecar["image"] = IMAGE.into();
        sidecar["args"] = json!(self.sidecar_args);
        let listed: Vec<Value> = self.containers.iter().map(Container::declaration).collect();
        for entry in sidecar["env"].as_array_mut().expect("the sidecar's environment") {
            if entry["name"] == "PODGATE_CONTAINERS" {
                entry["value"] = json!(listed).to_string().into();
            }
        }
        let has_hook = self.containers.iter().any(|container| matches!(container.mode, OrderMode::PostStart(_)));
        let uses_kubelet_ready = |entry: &Value| {
            let has_exec = ["readinessProbe", "startupProbe"].iter().any(|probe| entry[probe]["exec"].is_object());
            has_exec && entry["reportsStart"] != true
        };
        let has_exec = listed.iter().any(uses_kubelet_ready);
        // Remove the volume that podgate does not inject into such a Pod.
        let unused = match self.has_token {
            false => "podgate-api",
            true if has_hook || has_exec => "",
            true => "podgate-info",
        };
        for list in [&mut sidecar["volumeMounts"], &mut pod["spec"]["volumes"]] {
            list.as_array_mut().expect("a list").retain(|item| item["name"] != unused);
        }
        if self.containers.iter().any(|container| matches!(container.mode, OrderMode::Hold(_))) {
            let volume = json!({"name": "podgate-hold", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}});
            pod["spec"]["volumes"].as_array_mut().expect("volumes").push(volume);
            sidecar["volumeMounts"].as_array_mut().expect("mounts").extend([
                json!({"name": "podgate-hold", "mountPath": "/podgate-hold", "subPath": "keys"}),
                json!({"name": "podgate-hold", "mountPath": "/podgate-hold-canary", "subPath": "keys/.canary"}),
            ]);
        }
        let mut containers: Vec<Value> = self.containers.iter().map(|container| container.spec(&self.name)).collect();
        if let Some(seconds) = self.clock_step_seconds {
            for container in containers.iter_mut().chain([&mut sidecar]) {
                add_stepping_clock(container, seconds);
            }
        }
        pod["spec"]["initContainers"] = json!([sidecar]);
        if self.containers.iter().any(|container| matches!(container.mode, OrderMode::Asking { .. })) {
            pod["spec"]["initContainers"] = json!([]);
            let volume = json!({"name": "podgate", "image": {"reference": IMAGE, "pullPolicy": "IfNotPresent"}});
            pod["spec"]["volumes"] = json!([volume]);
            let unordered =
                self.containers.iter().zip(&mut containers).filter(|(one, _)| matches!(one.mode, OrderMode::None));
            unordered.for_each(|(_, spec)| spec["volumeMounts"] = json!([]));
        }
        if self.containers.iter().any(|container| matches!(container.mode, OrderMode::Peer(_))) {
            for container in &mut containers {
                container["volumeMounts"] = json!([{"name": "shared", "mountPath": SHARED_DIR}]);
            }
            let is_native = |container: &Value| container["restartPolicy"] == "Always";
            let (native, others): (Vec<Value>, Vec<Value>) = containers.into_iter().partition(is_native);
            pod["spec"]["initContainers"] = native.into();
            pod["spec"]["volumes"] = json!([{"name": "shared", "emptyDir": {}}]);
            containers = others;
        }
        pod["spec"]["containers"] = containers.into();
        pod["spec"]["terminationGracePeriodSeconds"] = 5.into();
        merge(&mut pod, self.patch.clone());
        pod
    }
}
