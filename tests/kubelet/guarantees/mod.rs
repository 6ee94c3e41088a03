//! Measures the tables of `docs/guarantees.md`, which list the faults that the order survives. Each cell has a
//! test that measures the outcome and fails if it is wrong. `make guarantees` runs all tests and writes the tables.

mod cell;
mod clock;
mod deletion;
mod fault_run;
mod node;
mod peers;
mod rounds;
pub(crate) mod sidecar;
mod start;
mod stop;
mod table;

use crate::cluster::minor_version;
use crate::pod::Pod;
use crate::scenario_without_sidecar::has_image_volumes;
use crate::scene::{Scene, skip};
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
    if mode == Mode::Lean && !has_image_volumes(&name) || mode == Mode::Hold && minor_version() < 35 {
        if mode == Mode::Hold {
            skip(&name, "hold mode needs Kubernetes 1.35");
        }
        return Cell::not_here().save(minor_version(), id, mode);
    }
    if !Scene::can_inject_faults(&name) {
        return;
    }
    let expected = row.expected_order(mode);
    // Some losses are races, so measure up to five times.
    for attempt in 1.. {
        let scene = match row.alone {
            true => Scene::exclusive(&name).expect("a test cluster"),
            false => Scene::shared(&name),
        };
        if id != "stop_without_role" {
            scene.grant_pod_access();
        }
        let cell = (row.fault)(&CellSetup::new(&scene, mode, expected));
        scene.report(&format!("{mode:?}: {cell}"));
        match cell.order {
            Order::NotHere => skip(&name, "there is no such feature or part"),
            found if found != expected && expected == Order::Lost && attempt < 5 => continue,
            found => assert_eq!(found, expected, "{id}, {mode:?}: {cell}"),
        }
        return cell.save(minor_version(), id, mode);
    }
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
    crash_before_ready: "`db` crashes before it is Ready", alone: false, lost_in: [PostStart, HookLoop], start::crash_before_ready;
    crash_after_ready: "`db` crashes after it was Ready, before `web` starts", alone: false, lost_in: [PostStart, NativeSidecars, Tekton, HookLoop, PollingWrapper], start::crash_after_ready;
    waiter_killed: "The waiting hook or gate is killed", alone: false, lost_in: [PostStart, HookLoop], start::waiter_killed;
    time_limit: "The time limit passes", alone: false, lost_in: [PostStart, HookLoop], start::time_limit;
    kubelet_restarted: "The kubelet restarts", alone: true, lost_in: [PostStart, HookLoop, Kruise], node::kubelet_restarted;
    kubelet_restarted_exec: "The kubelet restarts, and `db` has an `exec` probe", alone: true, lost_in: [PostStart, HookLoop, Kruise], node::kubelet_restarted_with_exec_probe;
    containerd_restarted: "containerd restarts", alone: true, lost_in: [PostStart, HookLoop], node::containerd_restarted;
    sidecar_killed: "The sidecar is killed", alone: false, lost_in: [], sidecar::killed;
    sidecar_out_of_memory: "The sidecar runs out of memory", alone: false, lost_in: [], sidecar::out_of_memory;
    api_away: "The API server is down during the whole start", alone: true, lost_in: [], node::api_away;
    sandbox_killed: "The sandbox dies, and all containers restart", alone: false, lost_in: [Kruise, Tekton], rounds::sandbox_killed;
    host_network: "The same on the host network", alone: false, lost_in: [Kruise, Tekton], rounds::host_network;
    restart_all: "A `RestartAllContainers` rule restarts all containers", alone: false, lost_in: [Kruise, Tekton], rounds::restart_all;
    reboot: "The node reboots, and old annotations remain", alone: true, lost_in: [], node::reboot;
    board_full: "The volumes of podgate are full", alone: false, lost_in: [], sidecar::board_full;
    tampered: "A container that runs as root tampers with podgate's files", alone: false, lost_in: [], sidecar::tampered;
    clock_steps: "The wall clock steps forward and back by an hour", alone: false, lost_in: [], clock::clock_steps;
    deleted: "The Pod is deleted while it starts", alone: false, lost_in: [PostStart, HookLoop], deletion::deleted_at_each_stage;
}

/// Defines the tests of one mode without a sidecar: the rows that need neither the sidecar nor its volumes nor a clock of
/// its own.
macro_rules! cells_without_sidecar {
    ($mode:ident: $($id:ident)*) => {
        $(
            #[test]
            #[ignore = "needs a cluster: make e2e"]
            fn $id() {
                crate::guarantees::measure(stringify!($id), crate::guarantees::Mode::$mode);
            }
        )*
    };
    ($mode:ident, alone: $($alone:ident)*) => {
        cells_without_sidecar!($mode: crash_before_ready crash_after_ready waiter_killed time_limit sandbox_killed
            host_network restart_all deleted);

        // The script `run` finds these tests by the name of this module.
        mod alone {
            cells_without_sidecar!($mode: kubelet_restarted containerd_restarted api_away reboot $($alone)*);
        }
    };
}

/// Faults of Pods without a sidecar.
mod without_sidecar {
    cells_without_sidecar!(Lean, alone:);
}

/// Shows that the tests can fail podgate: with a gate that waits for `Started` instead of `Ready`, they find that the
/// order is lost.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn defect_of_a_gate_is_found() {
    let scene = Scene::shared("defect");
    if !Scene::can_inject_faults("defect") {
        return;
    }
    scene.grant_pod_access();
    let setup = CellSetup::new(&scene, Mode::Entrypoint, Order::Lost);
    let [db, api, web] = setup.chain(&[], 8000);
    let fault_run = setup.begin(&Pod::new("chain", [db, api.gate(&["--until", "db=Started"]), web]));
    fault_run.settle();
    assert_eq!(fault_run.early_starts(), ["api (incarnation 0) started while db was not Ready"]);
}

/// The same faults for other ways to order containers. `make compare` runs these tests.
mod compared {
    mod native_sidecars {
        cells_without_sidecar!(NativeSidecars, alone: kubelet_restarted_exec);
    }
    mod kruise {
        cells_without_sidecar!(Kruise, alone: kubelet_restarted_exec);
    }
    mod tekton {
        cells_without_sidecar!(Tekton, alone: kubelet_restarted_exec);
    }
    mod hook_loop {
        cells_without_sidecar!(HookLoop, alone: kubelet_restarted_exec);
    }
    mod polling_wrapper {
        cells_without_sidecar!(PollingWrapper, alone: kubelet_restarted_exec);
    }
}

/// Returns the rows of the tables for Pods without a sidecar: those of [`cells_without_sidecar`].
fn rows_without_sidecar() -> Vec<&'static Row> {
    compared_rows().into_iter().filter(|row| row.id != "kubelet_restarted_exec").collect()
}

/// Returns the rows of the comparison: all but those that break podgate's own parts, and the one that steps the clock of
/// podgate's programs.
fn compared_rows() -> Vec<&'static Row> {
    const OTHERS: [&str; 5] = ["sidecar_killed", "sidecar_out_of_memory", "board_full", "tampered", "clock_steps"];
    START_ROWS.iter().filter(|row| !OTHERS.contains(&row.id)).collect()
}

rows! { STOP_ROWS:
    stop_evicted: "The API deletes the Pod (drain of a node)", alone: false, lost_in: [], stop::evicted;
    stop_without_role: "The same, without the role `podgate-sidecar`", alone: false, lost_in: [], stop::evicted;
    stop_api_frozen: "The same, and the API server then does not answer", alone: true, lost_in: [], stop::api_frozen;
    stop_deadline: "`activeDeadlineSeconds` passes", alone: false, lost_in: [], stop::deadline;
    stop_api_away: "`activeDeadlineSeconds` passes while the API server is down", alone: true, lost_in: [], stop::deadline_without_api;
    stop_short: "The kubelet evicts the Pod, with 1 s of grace", alone: false, lost_in: [PostStart, Entrypoint, Hold], stop::evicted_by_the_kubelet;
    stop_hook_killed: "The hook of `api` is killed while it waits for `web`", alone: false, lost_in: [PostStart, Entrypoint, Hold], stop::hook_killed;
    stop_term_ignored: "`web` ignores SIGTERM", alone: false, lost_in: [PostStart, Entrypoint, Hold], stop::term_ignored;
}
