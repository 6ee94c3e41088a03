//! The table of `docs/guarantees.md`: what becomes of the order when something breaks. Each cell is a test of its own, which
//! measures it, and fails if it is not as the table has it; `make guarantees` runs all and writes the table.

mod cell;
mod clock;
mod deletion;
mod fault_run;
mod node;
mod rounds;
mod sidecar;
mod start;
mod table;

use crate::cluster::minor_version;
use crate::scene::Scene;
use cell::{Cell, Mode, Order};
use fault_run::CellSetup;

/// One fault.
struct Row {
    id: &'static str,
    /// As the table says it.
    title: &'static str,
    /// It breaks something that all pods of the node share.
    alone: bool,
    /// What the post-start mode does; the entrypoint mode always keeps the order.
    post_start: Order,
    /// Makes the fault happen, and measures.
    fault: fn(&CellSetup<'_>) -> Cell,
}

impl Row {
    fn expected_order(&self, mode: Mode) -> Order {
        match mode {
            Mode::PostStart => self.post_start,
            Mode::Entrypoint => Order::Kept,
        }
    }
}

/// Measures one cell, holds it against what is expected, and leaves it for the table.
fn measure(id: &str, mode: Mode) {
    let row = ROWS.iter().find(|row| row.id == id).expect("a row of the table");
    let name = format!("{}-{}", id.replace('_', "-"), if mode == Mode::PostStart { "p" } else { "e" });
    if !Scene::can_inject_faults(&name) {
        return;
    }
    let scene = match row.alone {
        true => Scene::exclusive(&name).expect("the cluster is ours"),
        false => Scene::shared(&name),
    };
    scene.grant_pod_access();
    let stage = CellSetup { scene: &scene, mode, expected_order: row.expected_order(mode) };
    let cell = (row.fault)(&stage);
    scene.report(&format!("{mode:?}: {cell}"));
    if cell.order != Order::NotHere {
        assert_eq!(cell.order, stage.expected_order, "{id}, {mode:?}: {cell}");
    }
    cell.save(minor_version(), id, mode);
}

/// The rows, and a test for each of their cells.
macro_rules! rows {
    ($($id:ident: $title:literal, alone: $alone:literal, post_start: $post_start:ident, $fault:path;)*) => {
        const ROWS: &[Row] = &[$(Row {
            id: stringify!($id), title: $title, alone: $alone, post_start: Order::$post_start, fault: $fault,
        }),*];
        $(mod $id {
            use super::{Mode, measure};

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
        })*
    };
}

rows! {
    crash_before_ready: "`db` crashes before it is Ready", alone: false, post_start: Lost, start::crash_before_ready;
    crash_after_ready: "`db` crashes after it was Ready, before `web` starts", alone: false, post_start: Lost, start::crash_after_ready;
    waiter_killed: "the hook or gate that waits is killed", alone: false, post_start: Lost, start::waiter_killed;
    time_limit: "the time limit passes", alone: false, post_start: Lost, start::time_limit;
    kubelet_restarted: "the kubelet restarts", alone: true, post_start: Lost, node::kubelet_restarted;
    kubelet_restarted_exec: "the same, where only the kubelet can judge `db` (an exec probe)", alone: true, post_start: Lost, node::kubelet_restarted_when_only_it_can_judge;
    containerd_restarted: "containerd restarts", alone: true, post_start: Lost, node::containerd_restarted;
    sidecar_killed: "the sidecar is killed", alone: false, post_start: Kept, sidecar::killed;
    sidecar_out_of_memory: "the sidecar is killed for want of memory", alone: false, post_start: Kept, sidecar::out_of_memory;
    api_away: "the API server is away for the whole start", alone: true, post_start: Kept, node::api_away;
    sandbox_killed: "the sandbox dies, and everything restarts", alone: false, post_start: Kept, rounds::sandbox_killed;
    host_network: "the same on the host's network", alone: false, post_start: Kept, rounds::host_network;
    restart_all: "a RestartAllContainers round", alone: false, post_start: Kept, rounds::restart_all;
    reboot: "the node reboots, and annotations are left from before", alone: true, post_start: Kept, node::reboot;
    board_full: "the board's volume and the folders' are full", alone: false, post_start: Kept, sidecar::board_full;
    tampered: "a neighbour, as root, tampers with bell and reports", alone: false, post_start: Kept, sidecar::tampered;
    clock_steps: "the wall clock steps by an hour, forth and back[^clock]", alone: false, post_start: Kept, clock::steps;
    deleted: "the Pod is deleted, at each stage", alone: false, post_start: Lost, deletion::at_each_stage;
}
