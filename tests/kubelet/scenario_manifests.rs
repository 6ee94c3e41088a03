//! The examples that users copy, as they are written: only the images are those of the tests.

use crate::cluster::{BUSYBOX, IMAGE, ROOT, create, incarnations, kubectl};
use crate::scene::Scene;

fn as_written(file: &str, pod: &str) {
    let scene = Scene::shared(file.trim_end_matches(".yaml"));
    scene.grant();
    kubectl(&["label", "namespace", &scene.namespace, "pod-security.kubernetes.io/enforce=restricted"]);
    let path = format!("{ROOT}/manifests/{file}");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let text = text.replace("ghcr.io/podgate/podgate:0.1.0", IMAGE).replace("docker.io/library/busybox:1.37", BUSYBOX);
    let run = scene.follow(pod);
    create(&scene.namespace, &text);
    let up = run.up();
    for name in ["podgate", "db", "api", "web"] {
        assert_eq!(up.status(name)["restartCount"], 0, "{name}");
    }
    if !crate::cluster::is_ours() {
        return;
    }
    let all = incarnations(&scene.namespace, pod);
    let start = |name: &str| {
        let found = all.iter().find(|i| i.container == name).and_then(|i| i.started);
        found.unwrap_or_else(|| panic!("{name} never started: {all:?}"))
    };
    let (db, api, web) = (start("db"), start("api"), start("web"));
    // db listens 4 s after its start, api 2 s; a start shows here some ms after the program's first instruction.
    assert!(api - db > 3950.0, "api started {:.0} ms after db", api - db);
    assert!(web - api > 1950.0, "web started {:.0} ms after api", web - api);
    let from = |at: f64| (at - start("podgate")) / 1000.0;
    scene.tell(&format!("podgate +0.00 | db {:+.2} | api {:+.2} | web {:+.2}", from(db), from(api), from(web)));
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn example_pod() {
    as_written("pod.yaml", "ordered");
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn example_pod_with_a_first_container() {
    as_written("pod-first-container.yaml", "ordered-first-container");
}
