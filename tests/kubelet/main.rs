//! Tests podgate on a real kubelet. Each scenario creates a Pod and waits until the Pod has started. The scenario then
//! compares the times that the containers have logged: each container must start only after its predecessors were
//! ready.
//!
//! ```text
//! make e2e                                       run all scenarios
//! tests/kubelet/prepare                          only prepare the cluster and the images
//! cargo test --test kubelet -- --ignored NAME    then run one scenario
//! ```
//!
//! `PODGATE_KEEP=1` keeps the namespaces. If `KUBECONFIG` refers to your own cluster, a scenario that breaks the node
//! or the API server only prints that it is skipped.

// The name of this module is first in the alphabet, so its scenarios start first. Their long waits then overlap with
// the other scenarios.
mod admission;
mod clock;
mod cluster;
mod guarantees;
mod incarnation_log;
mod injected;
#[path = "../common/needs.rs"]
mod needs;
mod node_logs;
mod orders;
mod pages;
mod pod;
mod scene;
mod soak;
mod watch;

mod scenario_chain;
mod scenario_deletion;
mod scenario_env_files;
mod scenario_faults;
mod scenario_gates;
mod scenario_graphs;
mod scenario_hold;
mod scenario_hooks;
mod scenario_hostile;
mod scenario_jobs;
mod scenario_kubernetes;
mod scenario_manifests;
mod scenario_opened;
mod scenario_probes;
mod scenario_proofs;
mod scenario_recipes;
mod scenario_restarts;
mod scenario_rights;
mod scenario_rounds;
mod scenario_steps;
mod scenario_stop;
mod scenario_strict;
mod scenario_tethers;
mod scenario_try;
mod scenario_view;
mod scenario_without_sidecar;
