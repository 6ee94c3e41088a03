//! Tests podgate on a real kubelet. Each scenario creates a Pod and lets it start. It then asserts that each container
//! started only when its predecessors were ready, by the times that the containers log.
//!
//! ```text
//! make e2e                                       run all scenarios
//! tests/kubelet/prepare                          only prepare the cluster and the images
//! cargo test --test kubelet -- --ignored NAME    then run one scenario
//! ```
//!
//! `PODGATE_KEEP=1` keeps the namespaces. If `KUBECONFIG` names a cluster of yours, scenarios that break the node or
//! the API server are skipped and print that.

mod clock;
mod cluster;
mod guarantees;
mod incarnation_log;
mod injected;
mod node_logs;
mod orders;
mod pages;
mod pod;
mod scene;
mod watch;
mod webhook;

mod scenario_chain;
mod scenario_deletion;
mod scenario_faults;
mod scenario_gates;
mod scenario_graphs;
mod scenario_hooks;
mod scenario_hostile;
mod scenario_jobs;
mod scenario_manifests;
mod scenario_opened;
mod scenario_probes;
mod scenario_restarts;
mod scenario_rights;
mod scenario_rounds;
mod scenario_steps;
mod scenario_stop;
mod scenario_tethers;
mod scenario_view;
