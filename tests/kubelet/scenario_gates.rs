//! Gates in front of the containers' own commands, with nothing going wrong.

use crate::clock::eventually;
use crate::cluster::cluster;
use crate::logs::NodeLogs;
use crate::orders::gated_chain_containers;
use crate::pod::{Pod, server};
use crate::scene::Scene;
use crate::timeline::Life;

#[test]
#[ignore = "needs a cluster: make e2e"]
fn chain_of_gates() {
    let scene = Scene::shared("gates");
    scene.grant();
    let run = scene.create(&Pod::new("gates", gated_chain_containers("1500ms", &[])));
    let up = run.up();
    let lives = run.in_order(&["db", "api", "web"]);
    for gated in &lives {
        assert!(gated.said().any(|line| line == "released: all conditions hold"), "{gated:?}");
        assert_eq!(up.status(&gated.name)["restartCount"], 0, "{}", gated.name);
    }
}

/// To a kubelet that knows of no gate, one that waits is a container that runs and, for want of a probe, is ready.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn chain_of_gates_without_a_startup_probe() {
    let scene = Scene::shared("gates-bare");
    scene.grant();
    let containers = gated_chain_containers("3s", &[]).map(|container| container.without_opened());
    let run = scene.create(&Pod::new("gates-bare", containers));
    run.up();
    run.in_order(&["db", "api", "web"]);
}

/// A step is one of this sandbox: what was completed in the one before, by its program or by the end of that sandbox, opens
/// nothing.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn a_step_is_done_again_in_a_new_sandbox() {
    let scene = Scene::shared("step-again");
    if !Scene::needs_faults("step-again") {
        return;
    }
    scene.grant();
    let migrate = server("migrate").gate(&["--tether", "parent"]);
    let api = server("api").gate(&["--until", "migrate=Completed"]);
    let pod = Pod::new("step-again", [migrate, api]);
    let logs = NodeLogs::follow(&scene.namespace, &pod.name);
    let run = scene.create(&pod);
    let starts = |name: &str| logs.of(name).iter().filter(|life| life.has("start").is_some()).count();
    let runs = |name: &str, count: usize| {
        eventually(&format!("{name} runs ({count})"), 90, || (starts(name) >= count).then_some(()));
    };
    runs("migrate", 1);
    assert_eq!(starts("api"), 0);
    run.signal("migrate", "TERM");
    runs("api", 1);
    // The kubelet starts it again, as this pod's restartPolicy says.
    runs("migrate", 2);
    cluster(&["kill-sandbox", &scene.namespace, &run.pod]);
    runs("migrate", 3);
    let waits = |lives: Vec<Life>| lives.last().is_some_and(|life| life.said().any(|line| line.contains("waits for")));
    eventually("api's gate is there again", 90, || (logs.of("api").len() > 1 && waits(logs.of("api"))).then_some(()));
    std::thread::sleep(std::time::Duration::from_secs(3));
    let migrate = logs.of("migrate").pop().expect("its log");
    assert!(migrate.has("exit").is_none(), "{migrate:?}");
    assert_eq!(
        starts("api"),
        1,
        "order broken: api runs, and migrate has not ended in this sandbox: {:?}",
        logs.of("api")
    );
    run.signal("migrate", "TERM");
    runs("api", 2);
}
