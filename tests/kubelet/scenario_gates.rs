//! Tests gates in front of the containers' commands, without faults.

use crate::clock::eventually;
use crate::cluster::run_script;
use crate::incarnation_log::IncarnationLog;
use crate::node_logs::NodeLogs;
use crate::orders::gated_chain_containers;
use crate::pod::{Pod, server};
use crate::scene::Scene;

#[test]
#[ignore = "needs a cluster: make e2e"]
fn gates_start_a_chain_in_order() {
    let scene = Scene::shared("gates");
    scene.grant_pod_access();
    // With a livenessProbe, a gate has a startupProbe.
    let [db, api, web] = gated_chain_containers("1500ms", &[]);
    let run = scene.create(&Pod::new("gates", [db, api.live(), web.live()]));
    let up = run.wait_until_up();
    let lives = run.assert_order(&["db", "api", "web"]);
    for gated in &lives {
        assert!(gated.messages().any(|line| line == "released: all conditions are met"), "{gated:?}");
        assert_eq!(up.kubelet_status(&gated.name)["restartCount"], 0, "{}", gated.name);
    }
}

/// Without a startupProbe, the kubelet reports a waiting container as running. If the container has no readiness probe,
/// the kubelet also reports the container as ready. The order must not depend on these reports.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn gates_keep_the_order_without_a_startup_probe() {
    let scene = Scene::shared("gates-bare");
    scene.grant_pod_access();
    let bare = |name: &str| server(name).gate(&["--until", "db"]).without_startup_probe();
    let db = server("db").http(8001).ready_after("3s");
    let run = scene.create(&Pod::new("gates-bare", [db, bare("api"), bare("web")]));
    run.wait_until_up();
    // A container without a probe counts as ready before its program says so, so compare each with db only.
    run.assert_order(&["db", "api"]);
    run.assert_order(&["db", "web"]);
}

/// A gate must not open for a step that completed in the previous sandbox, or that was killed with that sandbox. The
/// step must complete in the current sandbox.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn step_runs_again_in_a_new_sandbox() {
    let scene = Scene::shared("step-again");
    if !Scene::can_inject_faults("step-again") {
        return;
    }
    scene.grant_pod_access();
    let migrate = server("migrate").gate(&["--tether", "parent"]);
    let api = server("api").gate(&["--until", "migrate=Completed"]);
    let pod = Pod::new("step-again", [migrate, api]);
    let logs = NodeLogs::follow(&scene.namespace, &pod.name);
    let run = scene.create(&pod);
    let starts = |name: &str| logs.of_container(name).iter().filter(|life| life.time_of("start").is_some()).count();
    let runs = |name: &str, count: usize| {
        eventually(&format!("{name} runs ({count})"), 90, || (starts(name) >= count).then_some(()));
    };
    runs("migrate", 1);
    assert_eq!(starts("api"), 0);
    run.signal("migrate", "TERM");
    runs("api", 1);
    // The restartPolicy is Always, so the kubelet restarts migrate.
    runs("migrate", 2);
    run_script(&["kill-sandbox", &scene.namespace, &run.pod]);
    runs("migrate", 3);
    let waits = |lives: Vec<IncarnationLog>| {
        lives.last().is_some_and(|life| life.messages().any(|line| line.contains(": waiting for")))
    };
    eventually("api's gate runs again", 90, || {
        (logs.of_container("api").len() > 1 && waits(logs.of_container("api"))).then_some(())
    });
    std::thread::sleep(std::time::Duration::from_secs(3));
    let migrate = logs.of_container("migrate").pop().expect("its log");
    assert!(migrate.time_of("exit").is_none(), "{migrate:?}");
    assert_eq!(
        starts("api"),
        1,
        "order broken: api runs, but migrate has not exited in this sandbox: {:?}",
        logs.of_container("api")
    );
    run.signal("migrate", "TERM");
    runs("api", 2);
}
