//! Costs of an order, which `check` and `inject` name before a user pays them.

use super::stop_order::late_stop;
use super::types::{ContainerPlan, Plan};
use crate::core::container::Mode;
use crate::order::declare::Publish;
use crate::order::kubernetes_version::Version;

impl Plan {
    /// Returns the costs of the order, each as a word and a sentence. `kubernetes` is the cluster's version, if known.
    pub fn costs(&self, kubernetes: Option<Version>) -> Vec<(&'static str, String)> {
        let mut costs = Vec::new();
        let mut add = |word, text: String| costs.push((word, text));
        let held = self.containers.iter().filter(|planned| planned.mode() == Mode::Hold);
        let held = held.map(|planned| planned.name.as_str()).collect::<Vec<_>>().join(", ");
        let is_modified = self.containers.iter().any(ContainerPlan::is_modified);
        for planned in self.containers.iter().filter(|planned| !planned.outlives.is_empty()) {
            add("late", late_stop(&planned.name, planned.pre_stop_limit, self.grace));
        }
        if !held.is_empty() {
            let state = "kubectl get pods shows CreateContainerConfigError, and the phase is Pending";
            add("shows", format!("while the kubelet holds {held}, {state}; not so if podgate knows the command"));
            if kubernetes.is_none() {
                add("version", format!("needs Kubernetes {} or newer to hold {held}", Version::WITH_HOLD));
            }
        }
        if self.has_sidecar && is_modified && self.publish == Publish::Api {
            let without = match Vec::from_iter(self.needs_role.iter().map(String::as_str)).join(", ") {
                needs if !needs.is_empty() => format!("{needs} is never met"),
                _ if held.is_empty() => "status shows no states".to_owned(),
                _ => "status shows no states, and held containers can start up to 90 s late".to_owned(),
            };
            add("role", format!("{without} without podgate's role: kubectl podgate install --namespaces NAMESPACE"));
            if self.mounts_token {
                let effect = "so it has this role too and can read all Pods of the namespace";
                let fix = "automountServiceAccountToken: false prevents that";
                add("token", format!("each container mounts the account's token, {effect}; {fix}"));
            }
        }
        if !self.has_sidecar && is_modified {
            add("sidecar", format!("none, and no permissions; {}", Plan::LEAN_NEEDS));
        } else if !self.needs_sidecar && is_modified {
            add("sidecar", format!("not needed: podgate.io/sidecar: none removes it ({})", Plan::LEAN_NEEDS));
        }
        costs
    }
}
