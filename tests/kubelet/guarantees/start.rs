//! Injects faults of the containers and of their hooks and gates.

use super::cell::{Cell, Mode, Order};
use super::fault_run::{CellSetup, while_db_is_awaited};
use crate::clock::{eventually, wall_ms};
use crate::pod::Pod;
use std::thread::sleep;
use std::time::Duration;

/// Kills `db` before it is ready. The next incarnation of `db` keeps running.
pub(super) fn crash_before_ready(setup: &CellSetup<'_>) -> Cell {
    while_db_is_awaited(setup, &[], |fault_run| {
        fault_run.run.signal("db", "KILL");
        // In post-start mode, the kubelet starts the next container before it restarts `db`.
        fault_run.wait_for_event("db", 1, "listening");
    })
}

/// Kills `db` when `db` is ready and `api` is starting. Makes `api` ready only after that.
pub(super) fn crash_after_ready(setup: &CellSetup<'_>) -> Cell {
    let [db, api, web] = setup.chain(&[], 8000);
    let fault_run = setup.begin(&Pod::new("chain", [db, api.args(&["--ready-on-signal"]), web]));
    fault_run.wait_for_event("db", 0, "listening");
    fault_run.make_ready("db");
    fault_run.wait_for_event("api", 0, "listening");
    // A wrapper that polls has then seen that `db` is ready.
    sleep(Duration::from_millis(1500));
    let since = wall_ms();
    fault_run.run.signal("db", "KILL");
    // In post-start mode the kubelet does not restart db while api's hook waits.
    if !matches!(setup.mode, Mode::PostStart | Mode::HookLoop) {
        fault_run.wait_for_event("db", 1, "listening");
    }
    fault_run.make_ready("api");
    fault_run.settle();
    let message = fault_run.run.termination_message("web").filter(|message| !message.is_empty());
    let message = message.map_or(String::new(), |message| format!("`{message}`"));
    fault_run.make_ready("db");
    fault_run.finish(since, &message)
}

pub(super) fn waiter_killed(setup: &CellSetup<'_>) -> Cell {
    if setup.mode == Mode::NativeSidecars {
        return Cell::not_here();
    }
    while_db_is_awaited(setup, &[], |fault_run| match setup.mode {
        Mode::PostStart | Mode::HookLoop => {
            let subcommand = if setup.mode == Mode::PostStart { "post-start" } else { "poll" };
            let hook = fault_run.run.agent_pid("db", subcommand).expect("db's hook waits");
            let hook = i32::try_from(hook).ok().and_then(rustix::process::Pid::from_raw).expect("a process");
            rustix::process::kill_process(hook, rustix::process::Signal::KILL).expect("the hook can be killed");
        }
        Mode::Entrypoint | Mode::Lean | Mode::Tekton | Mode::PollingWrapper => {
            fault_run.run.signal("api", "KILL");
            fault_run.run.wait_for_start("api", 2);
        }
        Mode::Kruise => setup.kruise.as_ref().expect("the controller").borrow_mut().restart(),
        Mode::NativeSidecars => unreachable!("the kubelet waits"),
        Mode::Hold => {
            // In hold mode, the gate has no process. The sidecar opens the gate, so kill the sidecar.
            for restarts in 1..=3 {
                fault_run.run.signal("podgate", "KILL");
                fault_run.run.watch.wait_until("the sidecar restarts", 90, |seen| {
                    let status = seen.kubelet_status("podgate");
                    status["restartCount"] == restarts && status["state"]["running"].is_object()
                });
            }
        }
    })
}

/// Lets a hook or gate time out before `db` is Ready.
pub(super) fn time_limit(setup: &CellSetup<'_>) -> Cell {
    const LIMIT: f64 = 3000.0;
    // The waits of these ways have no time limit.
    if matches!(setup.mode, Mode::Kruise | Mode::Tekton) {
        return Cell::not_here();
    }
    let fault_run = setup.begin_with_db_awaited(&["--timeout", "3s"]);
    if setup.mode == Mode::Hold {
        eventually("the time limit has passed", 90, || {
            let seen = fault_run.run.watch.last()?;
            (seen.podgate_state("api")? == "TimedOut").then_some(())
        });
        fault_run.settle();
        let since = wall_ms();
        fault_run.make_ready("db");
        return fault_run.finish(since, "the annotation of `api` is TimedOut until `db` is Ready");
    }
    let (name, pod) = (&setup.scene.namespace, &fault_run.run.pod);
    // A gate that times out exits, which ends the container. If a hook times out, the kubelet kills the container.
    let first = eventually("the time limit has passed", 90, || {
        let all = crate::cluster::incarnations(name, pod);
        all.into_iter().find(|i| i.container == fault_run.waiter() && i.finished.is_some())
    });
    let took = first.finished.zip(first.started).map_or(0.0, |(end, start)| end - start);
    assert!((LIMIT - 500.0..LIMIT * 10.0).contains(&took), "the container ended {took:.0} ms after its start");
    fault_run.settle();
    let since = wall_ms();
    fault_run.make_ready("db");
    let mut cell = fault_run.finish(since, "");
    if cell.order == Order::Lost {
        cell.waited = "after 3 s, the time limit".to_owned();
    }
    cell
}
