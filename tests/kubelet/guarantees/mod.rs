//! Measures the tables of `docs/guarantees.md`, which list the faults that the order survives. Each cell has a
//! test that measures the outcome and fails if it is wrong. `make guarantees` runs all tests and writes the tables.

mod cell;
mod clock;
mod deletion;
mod fault_run;
mod node;
mod rounds;
pub(crate) mod sidecar;
mod start;
mod stop;
mod table;

use crate::cluster::minor_version;
use crate::scenario_without_sidecar::has_image_volumes;
use crate::scene::Scene;
pub(crate) use cell::Mode;
use cell::{Cell, Order};
use fault_run::CellSetup;

/// A fault, which is one row of the tables.
struct Row {
    id: &'static str,
    /// Title of the row in the tables.
    title: &'static str,
    /// True if the fault affects all Pods of the node, so that the test must run alone.
    alone: bool,
    /// Modes in which the order is lost. The other modes keep the order.
    lost_in: &'static [Mode],
    /// Injects the fault and measures the cell.
    fault: fn(&CellSetup<'_>) -> Cell,
}

impl Row {
    fn expected_order(&self, mode: Mode) -> Order {
        if self.lost_in.contains(&mode) { Order::Lost } else { Order::Kept }
    }
}

/// Measures one cell, compares it with the expected outcome, and saves it for the tables.
fn measure(id: &str, mode: Mode) {
    let row = START_ROWS.iter().chain(STOP_ROWS).find(|row| row.id == id).expect("a row of the table");
    let name = format!("{}-{}", id.replace('_', "-"), &mode.name()[..1]);
    let is_possible = match mode {
        Mode::Hold => minor_version() >= 35,
        Mode::Lean => has_image_volumes(&name),
        Mode::Entrypoint | Mode::PostStart => true,
    };
    if !is_possible {
        return Cell::not_here().save(minor_version(), id, mode);
    }
    if !Scene::can_inject_faults(&name) {
        return;
    }
    let scene = match row.alone {
        true => Scene::exclusive(&name).expect("a test cluster"),
        false => Scene::shared(&name),
    };
    if id != "stop_without_role" {
        scene.grant_pod_access();
    }
    let setup = CellSetup { scene: &scene, mode, expected_order: row.expected_order(mode) };
    let cell = (row.fault)(&setup);
    scene.report(&format!("{mode:?}: {cell}"));
    if cell.order != Order::NotHere {
        assert_eq!(cell.order, setup.expected_order, "{id}, {mode:?}: {cell}");
    }
    cell.save(minor_version(), id, mode);
}

/// Defines the tests of one row, one for each cell.
macro_rules! cells {
    ($id:ident) => {
        use crate::guarantees::{Mode, measure};

        #[test]
        #[ignore = "needs a cluster: make e2e"]
        fn post_start() {
            measure(stringify!($id), Mode::PostStart);
        }

        #[test]
        #[ignore = "needs a cluster: make e2e"]
        fn entrypoint() {
            measure(stringify!($id), Mode::Entrypoint);
        }

        #[test]
        #[ignore = "needs a cluster: make e2e"]
        fn hold() {
            measure(stringify!($id), Mode::Hold);
        }
    };
    (alone: false, $id:ident) => {
        mod $id {
            cells!($id);
        }
    };
    // The script `run` finds these tests by the name of this module.
    (alone: true, $id:ident) => {
        mod $id {
            mod alone {
                cells!($id);
            }
        }
    };
}

/// Defines the rows of a table and their tests.
macro_rules! rows {
    ($table:ident: $($id:ident: $title:literal, alone: $alone:tt, lost_in: [$($mode:ident),*], $fault:path;)*) => {
        const $table: &[Row] = &[$(Row {
            id: stringify!($id), title: $title, alone: $alone, lost_in: &[$(Mode::$mode),*], fault: $fault,
        }),*];
        $(cells!(alone: $alone, $id);)*
    };
}

rows! { START_ROWS:
    crash_before_ready: "`db` crashes before it is Ready", alone: false, lost_in: [PostStart], start::crash_before_ready;
    crash_after_ready: "`db` crashes after it was Ready, before `web` starts", alone: false, lost_in: [PostStart], start::crash_after_ready;
    waiter_killed: "The waiting hook or gate is killed", alone: false, lost_in: [PostStart], start::waiter_killed;
    time_limit: "The time limit passes", alone: false, lost_in: [PostStart], start::time_limit;
    kubelet_restarted: "The kubelet restarts", alone: true, lost_in: [PostStart], node::kubelet_restarted;
    kubelet_restarted_exec: "The kubelet restarts, and only the kubelet can probe `db` (exec probe)", alone: true, lost_in: [PostStart], node::kubelet_restarted_with_exec_probe;
    containerd_restarted: "containerd restarts", alone: true, lost_in: [PostStart], node::containerd_restarted;
    sidecar_killed: "The sidecar is killed", alone: false, lost_in: [], sidecar::killed;
    sidecar_out_of_memory: "The sidecar is killed because it is out of memory", alone: false, lost_in: [], sidecar::out_of_memory;
    api_away: "The API server is down during the whole start", alone: true, lost_in: [], node::api_away;
    sandbox_killed: "The sandbox dies, and all containers restart", alone: false, lost_in: [], rounds::sandbox_killed;
    host_network: "The sandbox dies in a Pod on the host network", alone: false, lost_in: [], rounds::host_network;
    restart_all: "A `RestartAllContainers` rule restarts all containers", alone: false, lost_in: [], rounds::restart_all;
    reboot: "The node reboots, and the annotations of the previous boot remain", alone: true, lost_in: [], node::reboot;
    board_full: "The volumes of the board and of the reports are full", alone: false, lost_in: [], sidecar::board_full;
    tampered: "A container that runs as root tampers with the bell and the reports", alone: false, lost_in: [], sidecar::tampered;
    clock_steps: "The wall clock steps forward and back by an hour", alone: false, lost_in: [], clock::clock_steps;
    deleted: "The Pod is deleted, at each stage of the start", alone: false, lost_in: [PostStart], deletion::deleted_at_each_stage;
}

/// Faults of Pods without a sidecar. The other rows break the sidecar or its volumes.
mod without_sidecar {
    macro_rules! lean_cells {
        ($($id:ident),*) => {
            pub(in crate::guarantees) const ROWS: &[&str] = &[$(stringify!($id)),*];
            $(
                #[test]
                #[ignore = "needs a cluster: make e2e"]
                fn $id() {
                    crate::guarantees::measure(stringify!($id), crate::guarantees::Mode::Lean);
                }
            )*
        };
    }

    lean_cells!(
        crash_before_ready,
        crash_after_ready,
        waiter_killed,
        time_limit,
        sandbox_killed,
        host_network,
        restart_all,
        deleted
    );

    // The script `run` finds these tests by the name of this module.
    pub(in crate::guarantees) mod alone {
        lean_cells!(kubelet_restarted, containerd_restarted, api_away, reboot);
    }
}

/// Returns the rows of the table for Pods without a sidecar.
fn lean_rows() -> Vec<&'static Row> {
    let is_lean = |row: &&Row| without_sidecar::ROWS.iter().chain(without_sidecar::alone::ROWS).any(|id| *id == row.id);
    START_ROWS.iter().filter(is_lean).collect()
}

rows! { STOP_ROWS:
    stop_evicted: "The API deletes the Pod, here by an eviction (drain of a node)", alone: false, lost_in: [], stop::evicted;
    stop_without_role: "The same, and the sidecar does not have the role `podgate-sidecar`", alone: false, lost_in: [], stop::evicted;
    stop_api_frozen: "The same, and the API server then does not answer", alone: true, lost_in: [], stop::api_frozen;
    stop_deadline: "`activeDeadlineSeconds` passes", alone: false, lost_in: [], stop::deadline;
    stop_api_away: "`activeDeadlineSeconds` passes while the API server is down", alone: true, lost_in: [], stop::deadline_without_api;
    stop_short: "The kubelet evicts the Pod, and gives it 1 s", alone: false, lost_in: [PostStart, Entrypoint, Hold], stop::evicted_by_the_kubelet;
    stop_hook_killed: "The hook of `api` is killed while it waits for `web`", alone: false, lost_in: [PostStart, Entrypoint, Hold], stop::hook_killed;
    stop_term_ignored: "`web` ignores SIGTERM", alone: false, lost_in: [PostStart, Entrypoint, Hold], stop::term_ignored;
}
