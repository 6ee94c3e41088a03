//! The tables of `docs/guarantees.md`: what becomes of the order when something breaks. Each cell is a test. It measures the
//! cell, and fails if the outcome is not the expected one; `make guarantees` runs all of them and writes the tables.

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
    waiter_killed: "The waiting hook or gate is killed", alone: false, post_start: Lost, start::waiter_killed;
    time_limit: "The time limit passes", alone: false, post_start: Lost, start::time_limit;
    kubelet_restarted: "The kubelet restarts", alone: true, post_start: Lost, node::kubelet_restarted;
    kubelet_restarted_exec: "The kubelet restarts, and only the kubelet can probe `db` (exec probe)", alone: true, post_start: Lost, node::kubelet_restarted_when_only_it_can_judge;
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
    clock_steps: "The wall clock steps forward and back by an hour", alone: false, post_start: Kept, clock::steps;
    deleted: "The Pod is deleted, at each stage of the start", alone: false, post_start: Lost, deletion::at_each_stage;
}
