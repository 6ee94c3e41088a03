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
mod table;

use crate::cluster::minor_version;
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
    /// Expected outcome in post-start mode. The other modes always keep the order.
    post_start: Order,
    /// Injects the fault and measures the cell.
    fault: fn(&CellSetup<'_>) -> Cell,
}

impl Row {
    fn expected_order(&self, mode: Mode) -> Order {
        match mode {
            Mode::PostStart => self.post_start,
            Mode::Entrypoint | Mode::Hold => Order::Kept,
        }
    }
}

/// Measures one cell, compares it with the expected outcome, and saves it for the tables.
fn measure(id: &str, mode: Mode) {
    let row = ROWS.iter().find(|row| row.id == id).expect("a row of the table");
    let name = format!("{}-{}", id.replace('_', "-"), &mode.name()[..1]);
    if mode == Mode::Hold && minor_version() < 35 {
        return Cell::not_here().save(minor_version(), id, mode);
    }
    if !Scene::can_inject_faults(&name) {
        return;
    }
    let scene = match row.alone {
        true => Scene::exclusive(&name).expect("a test cluster"),
        false => Scene::shared(&name),
    };
    scene.grant_pod_access();
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

/// Defines the rows and their tests.
macro_rules! rows {
    ($($id:ident: $title:literal, alone: $alone:tt, post_start: $post_start:ident, $fault:path;)*) => {
        const ROWS: &[Row] = &[$(Row {
            id: stringify!($id), title: $title, alone: $alone, post_start: Order::$post_start, fault: $fault,
        }),*];
        $(cells!(alone: $alone, $id);)*
    };
}

rows! {
    crash_before_ready: "`db` crashes before it is Ready", alone: false, post_start: Lost, start::crash_before_ready;
    crash_after_ready: "`db` crashes after it was Ready, before `web` starts", alone: false, post_start: Lost, start::crash_after_ready;
    waiter_killed: "The waiting hook or gate is killed", alone: false, post_start: Lost, start::waiter_killed;
    time_limit: "The time limit passes", alone: false, post_start: Lost, start::time_limit;
    kubelet_restarted: "The kubelet restarts", alone: true, post_start: Lost, node::kubelet_restarted;
    kubelet_restarted_exec: "The kubelet restarts, and only the kubelet can probe `db` (exec probe)", alone: true, post_start: Lost, node::kubelet_restarted_with_exec_probe;
    containerd_restarted: "containerd restarts", alone: true, post_start: Lost, node::containerd_restarted;
    sidecar_killed: "The sidecar is killed", alone: false, post_start: Kept, sidecar::killed;
    sidecar_out_of_memory: "The sidecar is killed because it is out of memory", alone: false, post_start: Kept, sidecar::out_of_memory;
    api_away: "The API server is down during the whole start", alone: true, post_start: Kept, node::api_away;
    sandbox_killed: "The sandbox dies, and all containers restart", alone: false, post_start: Kept, rounds::sandbox_killed;
    host_network: "The sandbox dies in a Pod on the host network", alone: false, post_start: Kept, rounds::host_network;
    restart_all: "A `RestartAllContainers` rule restarts all containers", alone: false, post_start: Kept, rounds::restart_all;
    reboot: "The node reboots, and the annotations of the previous boot remain", alone: true, post_start: Kept, node::reboot;
    board_full: "The volumes of the board and of the reports are full", alone: false, post_start: Kept, sidecar::board_full;
    tampered: "A container that runs as root tampers with the bell and the reports", alone: false, post_start: Kept, sidecar::tampered;
    clock_steps: "The wall clock steps forward and back by an hour", alone: false, post_start: Kept, clock::clock_steps;
    deleted: "The Pod is deleted, at each stage of the start", alone: false, post_start: Lost, deletion::deleted_at_each_stage;
}
