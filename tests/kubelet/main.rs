//! podgate on a real kubelet: each scenario makes a pod, lets it start, and asserts by the containers' own times that each
//! started only when those before it were ready. Nothing here sleeps and hopes.
//!
//! ```text
//! make e2e                                            all of it
//! tests/kubelet/prepare                               cluster and images alone; then, one scenario:
//! cargo test --test kubelet -- --ignored NAME
//! ```
//!
//! `PODGATE_KEEP=1` keeps the namespaces. With `KUBECONFIG` set to a cluster of your own, scenarios that need a fault of the
//! node or of the API server are left out, and say so.

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
