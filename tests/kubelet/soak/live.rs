//! A Pod of the soak test that runs in the cluster.

use super::faults::{Shared, Strike, lock};
use super::judge::Judge;
use super::plan::{Goal, Plan};
use crate::clock::wall_ms;
use crate::cluster::{Incarnation, try_incarnations};
use crate::guarantees::Mode;
use crate::incarnation_log::IncarnationLog;
use crate::node_logs::NodeLogs;
use crate::watch::ObservedPod;
use podgate::core::names;
use podgate::order::declare::spec::SIDECAR_NAME;
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) struct LivePod {
    pub(super) plan: Plan,
    /// Name of the Pod, which the controller chooses for a Job; empty until the API has the Pod.
    pub(super) pod: String,
    pub(super) created: f64,
    logs: Option<NodeLogs>,
    /// containerd's records of all containers, by name and incarnation.
    pub(super) records: BTreeMap<(String, u32), Incarnation>,
    pub(super) seen: Option<ObservedPod>,
    /// Time since which the Pod has been at its goal, in milliseconds since 1970.
    pub(super) reached: Option<f64>,
    pub(super) deleted_at: Option<f64>,
    /// True if the Pod had reached its goal before its deletion.
    pub(super) was_up: bool,
    pub(super) gone_at: Option<f64>,
    pub(super) hung: bool,
}

impl LivePod {
    pub(super) fn new(plan: Plan, created: f64) -> LivePod {
        let (pod, records) = (String::new(), BTreeMap::new());
        let (logs, seen, reached, deleted_at, gone_at) = (None, None, None, None, None);
        let (was_up, hung) = (false, false);
        LivePod { plan, pod, created, logs, records, seen, reached, deleted_at, was_up, gone_at, hung }
    }

    /// Updates this value from the state of the Pod in the API. `None` means that the API does not have the Pod.
    pub(super) fn observe(&mut self, seen: Option<ObservedPod>, namespace: &str) {
        let Some(seen) = seen else {
            if self.deleted_at.is_some() {
                self.gone_at = self.gone_at.or_else(|| Some(wall_ms()));
            }
            return;
        };
        if self.logs.is_none() {
            self.pod = seen.pod["metadata"]["name"].as_str().expect("a name").to_owned();
            self.logs = Some(NodeLogs::follow(namespace, &self.pod));
        }
        self.reached = self.is_at_goal(&seen).then(|| self.reached.unwrap_or(seen.at));
        self.seen = Some(seen);
    }

    fn is_at_goal(&self, seen: &ObservedPod) -> bool {
        match self.plan.goal {
            Goal::Succeeded => seen.pod["status"]["phase"] == "Succeeded",
            Goal::Waiting if self.plan.mode == Mode::Lean => {
                let status = seen.kubelet_status("api");
                status["ready"] == false && !status["state"]["running"].is_null()
            }
            Goal::Waiting => seen.podgate_state("api") == Some("Waiting"),
            Goal::Up => {
                let done = |status: &Value| status["ready"] == true || status["state"]["terminated"]["exitCode"] == 0;
                let containers = seen.pod["spec"]["containers"].as_array();
                let is_up =
                    |container: &Value| done(seen.kubelet_status(container["name"].as_str().unwrap_or_default()));
                // In post-start mode, the annotations may be out of date after the order was broken. Without a sidecar,
                // there are none.
                let is_published = matches!(self.plan.mode, Mode::PostStart | Mode::Lean)
                    || seen.annotation(names::STAGE_KEY) == Some("started");
                containers.is_some_and(|all| all.iter().all(is_up)) && is_published
            }
        }
    }

    /// Returns true if the next storm need not wait for this Pod. A Pod in back-off counts too, because the kubelet's
    /// back-off takes minutes.
    pub(super) fn has_recovered(&self) -> bool {
        let in_back_off = |seen: &ObservedPod| seen.pod["status"].to_string().contains("CrashLoopBackOff");
        self.reached.is_some() || self.hung || self.deleted_at.is_some() || self.seen.as_ref().is_some_and(in_back_off)
    }

    pub(super) fn uid(&self) -> &str {
        self.seen.as_ref().and_then(|seen| seen.pod["metadata"]["uid"].as_str()).unwrap_or_default()
    }

    /// Reads containerd's records. A record that is already known may be missing later.
    pub(super) fn read_records(&mut self, namespace: &str) {
        for record in try_incarnations(namespace, &self.pod).unwrap_or_default() {
            self.records.insert((record.container.clone(), record.attempt), record);
        }
    }

    pub(super) fn incarnation_logs(&self) -> Vec<IncarnationLog> {
        self.logs.as_ref().map(NodeLogs::incarnation_logs).unwrap_or_default()
    }

    /// Describes the Pod, its runs, and the faults of the last minute and of this Pod.
    pub(super) fn report(&self, shared: &Shared) -> String {
        let near = wall_ms() - 60_000.0;
        let is_near = |strike: &&Strike| strike.end > near || strike.pod.as_ref() == Some(&self.pod);
        let strikes: Vec<String> =
            lock(&shared.strikes).iter().filter(is_near).map(|strike| format!("{strike:?}")).collect();
        let pod = self.seen.as_ref().map_or(&Value::Null, |seen| &seen.pod);
        let parts = [
            ("faults", strikes.join("\n")),
            ("container times", Judge::new(self, shared).times()),
            ("created, deleted, gone", format!("{:.0} {:?} {:?}", self.created, self.deleted_at, self.gone_at)),
            ("annotations", format!("{:#}", pod["metadata"]["annotations"])),
            ("status", format!("{:#}", pod["status"])),
            ("log of the sidecar", self.logs.as_ref().map(|logs| logs.text_of(SIDECAR_NAME)).unwrap_or_default()),
            ("manifest", format!("{:#}", self.plan.manifest)),
        ];
        parts.iter().map(|(title, text)| format!("-- {title}\n{text}\n")).collect()
    }
}
