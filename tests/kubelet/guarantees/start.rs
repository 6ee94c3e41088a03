//! Faults of the containers themselves, and of whoever waits.

use super::cell::{Cell, Mode, Order};
use super::fault_run::{CellSetup, while_db_is_awaited};
use crate::clock::{eventually, wall_ms};
use crate::pod::{Pod, server};

/// `db` exits before it is ready, once; its next incarnation lives.
pub(super) fn crash_before_ready(stage: &CellSetup<'_>) -> Cell {
    while_db_is_awaited(stage, &[], |course| {
        course.run.signal("db", "KILL");
        // Under a hook, the kubelet starts the next container before it starts this one again.
        course.wait_for_event("db", 1, "listening");
    })
}

/// `db` was ready and dies; only then does all else that `web` waits for become ready.
pub(super) fn crash_after_ready(stage: &CellSetup<'_>) -> Cell {
    let [db, api, web] = stage.chain(&[], 8000);
    let late = ["--ready-on-signal"];
    let (api, web) = match stage.mode {
        Mode::PostStart => (api.args(&late), web),
        // It needs both, and says so.
        Mode::Entrypoint => {
            (server("api").http(8002).args(&late).gate(&[]), web.gate(&["--until", "db", "--until", "api"]))
        }
    };
    let mut course = stage.begin(&Pod::new("chain", [db, api, web]));
    if stage.mode == Mode::Entrypoint {
        course.order = &[("web", "db"), ("web", "api")];
    }
    course.wait_for_event("db", 0, "listening");
    course.make_ready("db");
    course.wait_for_event("api", 0, "listening");
    let since = wall_ms();
    course.run.signal("db", "KILL");
    // Under api's hook, the kubelet does not start it again.
    if stage.mode == Mode::Entrypoint {
        course.wait_for_event("db", 1, "listening");
    }
    course.make_ready("api");
    course.settle();
    let words = course.run.termination_message("web").filter(|words| !words.is_empty());
    let words = words.map_or(String::new(), |words| format!("`{words}`"));
    course.make_ready("db");
    course.finish(since, &words)
}

pub(super) fn waiter_killed(stage: &CellSetup<'_>) -> Cell {
    while_db_is_awaited(stage, &[], |course| match stage.mode {
        Mode::PostStart => {
            let hook = course.run.hook_pid("db").expect("db's hook waits");
            let hook = i32::try_from(hook).ok().and_then(rustix::process::Pid::from_raw).expect("a process");
            rustix::process::kill_process(hook, rustix::process::Signal::KILL).expect("it can be killed");
        }
        Mode::Entrypoint => {
            course.run.signal("api", "KILL");
            course.run.wait_for_start("api", 2);
        }
    })
}

/// Nobody waits for longer than the limit, and in this mode nothing runs that should not.
pub(super) fn time_limit(stage: &CellSetup<'_>) -> Cell {
    const LIMIT: f64 = 3000.0;
    let course = stage.begin_with_db_awaited(&["--timeout", "3s"]);
    let (name, pod) = (&stage.scene.namespace, &course.run.pod);
    // The container ends with its gate; a hook's container is killed by the kubelet.
    let first = eventually("the time limit has passed", 90, || {
        let all = crate::cluster::incarnations(name, pod);
        all.into_iter().find(|i| i.container == course.waiter() && i.finished.is_some())
    });
    let took = first.finished.zip(first.started).map_or(0.0, |(end, start)| end - start);
    assert!((LIMIT - 500.0..LIMIT * 4.0).contains(&took), "it ended {took:.0} ms after its start");
    course.settle();
    let since = wall_ms();
    course.make_ready("db");
    let mut cell = course.finish(since, "");
    if cell.order == Order::Lost {
        cell.waited = "after 3 s, the time limit".to_owned();
    }
    cell
}
