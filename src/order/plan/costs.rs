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
        let held = self.containers.iter().filter(|planned| planned.mode() == Mode::Hold);
        let held: Vec<&str> = held.map(|planned| planned.name.as_str()).collect();
        let is_modified = self.containers.iter().any(ContainerPlan::is_modified);
        for planned in self.containers.iter().filter(|planned| !planned.outlives.is_empty()) {
            costs.push(("late", late_stop(&planned.name, planned.pre_stop_limit, self.grace)));
        }
        if !held.is_empty() {
            let held = held.join(", ");
            costs.push(("shows", format!(
                "while the kubelet holds {held}, kubectl get pods shows CreateContainerConfigError, and the phase is Pending; \
                 not so if podgate knows the command"
            )));
            if kubernetes.is_none() {
                costs.push(("version", format!("needs Kubernetes {} or newer to hold {held}", Version::WITH_HOLD)));
            }
        }
        if self.has_sidecar && is_modified && self.publish == Publish::Api {
            let needs = Vec::from_iter(self.needs_role.iter().map(String::as_str)).join(", ");
            let without = match (needs.is_empty(), held.is_empty()) {
                (false, _) => format!("{needs} is never met"),
                (true, false) => "status shows no states, and held containers can start up to 90 s late".to_owned(),
                (true, true) => "status shows no states".to_owned(),
            };
            costs.push((
                "role",
                format!("{without} without podgate's role: kubectl podgate install --namespaces NAMESPACE"),
            ));
            if self.mounts_token {
                costs.push((
                    "token",
                    "each container mounts the account's token, so it has this role too and can read all Pods of the \
                     namespace; automountServiceAccountToken: false prevents that"
                        .to_owned(),
                ));
            }
        }
        if !self.has_sidecar && is_modified {
            costs.push(("sidecar", format!("none, and no permissions; {}", Plan::LEAN_NEEDS)));
        } else if !self.needs_sidecar && is_modified {
            costs.push(("sidecar", format!("not needed: podgate.io/sidecar: none removes it ({})", Plan::LEAN_NEEDS)));
        }
        costs
    }
}
