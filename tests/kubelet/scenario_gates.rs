//! Gates in front of the containers' own commands, with nothing going wrong.

use crate::logs::NodeLogs;
use crate::orders::{diamond_containers, gated_chain_containers};
use crate::pod::Pod;
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

/// Two containers side by side: the slower one's time is what `web` waits for, not the sum.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn diamond_of_gates() {
    let scene = Scene::shared("diamond");
    if !Scene::needs_faults("diamond") {
        return;
    }
    scene.grant();
    let pod = Pod::new("diamond", diamond_containers("1s", &[]));
    let logs = NodeLogs::follow(&scene.namespace, &pod.name);
    let run = scene.create(&pod);
    run.up();
    for path in [["db", "api", "web"], ["db", "cache", "web"]] {
        run.in_order(&path);
    }
    let lives = logs.lives();
    let of = |name: &str| lives.iter().find(|life: &&Life| life.name == name).expect("its log");
    let (api, cache) = (of("api"), of("cache"));
    assert!(cache.start() < api.ready() && api.start() < cache.ready(), "side by side: {api:?} {cache:?}");
}
