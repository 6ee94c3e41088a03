//! Runs the commands of `README.md`, `docs/install.md` and `docs/webhook.md` that install podgate, add an order to an
//! existing Deployment, and uninstall podgate.

use super::{Page, Reader};
use crate::admission::install::{self, NAMESPACE};
use crate::clock::eventually;
use crate::cluster::{self, BUSYBOX_IMAGE, IMAGE, ROOT, WEBHOOK_IMAGE, kubectl_json, try_kubectl};
use crate::scene::Scene;
use podgate::order::release;
use serde_json::{Value, json};
use std::fs;

/// The command of `README.md` that prints podgate's manifests.
const PRINT: &str = "kubectl podgate install --namespaces shop";

/// Changes in the files of `manifests/injector` for this cluster: file, old text and new text. The images are those of
/// this build, and the webhook handles only the scene's namespace.
fn changes() -> [(&'static str, String, String); 3] {
    let selector = format!("{}{}", install::SELECTOR, install::NAMESPACE_SELECTOR);
    [
        ("deployment.yaml", release::image("podgate-webhook"), WEBHOOK_IMAGE.to_owned()),
        ("deployment.yaml", release::sidecar_image(), IMAGE.to_owned()),
        ("webhook.yaml", install::SELECTOR.to_owned(), selector),
    ]
}

fn replace(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from} in\n{text}");
    text.replace(from, to)
}

/// Copies the repository's manifests, with the changes for this cluster.
fn copy_manifests(reader: &Reader) {
    reader.run(&format!("cp -r {ROOT}/manifests ."));
    for (name, from, to) in changes() {
        let path = reader.path(&format!("manifests/injector/{name}"));
        let text = fs::read_to_string(&path).expect("a manifest");
        fs::write(path, replace(&text, &from, &to)).expect("a manifest");
    }
}

/// Runs [`PRINT`]. From then on, replaces that command by another one, which prints the same manifests with the changes
/// for this cluster.
fn change_printed_manifests(reader: &mut Reader) {
    let printed = reader.run(PRINT).stdout;
    let changed = changes().iter().fold(printed, |text, (_, from, to)| replace(&text, from, to));
    fs::write(reader.path("podgate.yaml"), changed).expect("the manifests");
    let command = reader.with_replacements(PRINT);
    reader.substitute(&command, "cat podgate.yaml");
}

/// Runs `print`, a command that prints the objects to delete. From then on, replaces that command by another one, which
/// prints the same objects, except those that other scenarios need.
fn keep_shared_objects(reader: &mut Reader, print: &str) {
    let printed = reader.run(print).stdout;
    let is_shared = |object: &&str| {
        let is_named = |name: &str| object.contains(&format!("\nmetadata:\n  name: {name}\n"));
        is_named("podgate-own-pod") || object.contains("\nkind: ClusterRole\n") && is_named("podgate-sidecar")
    };
    let objects: Vec<&str> = printed.split("---\n").collect();
    assert_eq!(objects.iter().filter(|object| is_shared(object)).count(), 3, "{printed}");
    let others: Vec<&str> = objects.into_iter().filter(|object| !is_shared(object)).collect();
    fs::write(reader.path("uninstall.yaml"), others.join("---\n")).expect("the objects");
    let command = reader.with_replacements(print);
    reader.substitute(&command, "cat uninstall.yaml");
}

/// Uninstalls the webhook on drop, even if the scenario fails.
struct UninstallGuard<'a>(&'a Reader);

impl Drop for UninstallGuard<'_> {
    fn drop(&mut self) {
        self.0.try_run("kubectl delete --ignore-not-found -k manifests/injector");
    }
}

/// Asserts that the Deployment's Pod starts, that each container finds the previous container, and that the timeline
/// shows the start.
fn assert_started_in_order(reader: &Reader, scene: &Scene) {
    reader.run("kubectl rollout status deployment/shop --timeout=3m");
    let pods = kubectl_json(&["-n", &scene.namespace, "get", "pods", "-l", "app=shop"]);
    let is_not_deleted = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
    let pod = pods["items"].as_array().and_then(|pods| pods.iter().find(is_not_deleted)).expect("a Pod");
    let name = pod["metadata"]["name"].as_str().expect("a name");
    reader.run(&format!("kubectl podgate status {name} --until-started --timeout 2m"));
    for (container, found) in [("api", "found db"), ("web", "found api")] {
        let log = reader.run(&format!("kubectl logs {name} -c {container}"));
        assert!(log.stdout.contains(found), "{container}: {}", log.all_output);
    }
    let picture = reader.run(&format!("kubectl podgate timeline {name}"));
    assert!(picture.stdout.contains("until web, the last one, was Ready"), "{}", picture.all_output);
    scene.report(picture.stdout.lines().next().unwrap_or_default());
}

/// Runs the command of `docs/install.md` that shows a Pod before its creation.
fn preview_a_pod(reader: &Reader) {
    let install = Page::read("docs/install.md");
    let mut parts = install.lines().flat_map(|line| line.split('`'));
    let command = parts.find(|part| part.starts_with("kubectl create --dry-run=server ")).expect("a command");
    let container = |name: &str| json!({"name": name, "image": BUSYBOX_IMAGE, "command": ["sleep", "1h"]});
    let metadata = json!({"name": "preview", "annotations": {"podgate.io/order": "db=Started, api"}});
    let spec = json!({"containers": [container("db"), container("api")]});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    reader.save("pod.yaml", &pod.to_string());
    let preview = reader.run(command);
    assert!(preview.stdout.contains("    name: podgate\n"), "{}", preview.all_output);
    assert_eq!(reader.try_run("kubectl get pod preview").code, Some(1));
}

/// Runs `rotate`, which starts a key rotation.
fn rotate_keys(reader: &Reader, rotate: &str) {
    let keys = || kubectl_json(&["-n", NAMESPACE, "get", "secret", "podgate-webhook-tls"])["data"].clone();
    assert!(keys().is_object());
    reader.run(rotate);
    eventually("a replica has written the Secret again", 180, || keys().is_object().then_some(()));
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn readme_commands_work_as_written() {
    let _lock = install::install_lock();
    let scene = Scene::shared("page-install");
    install::label_namespace(&scene.namespace);
    let page =
        |name: &str| -> Vec<String> { Page::read(name).blocks("sh").into_iter().map(|block| block.text).collect() };
    // `admission::helm_chart_installs_the_webhook` tests the chart.
    let [targets, _images, by_webhook, by_hand] = &page("README.md")[..] else {
        panic!("README.md has other blocks than this test expects")
    };
    // Do not run these commands here: `make e2e` runs this test, and `make demo` is a separate run.
    let targets: Vec<&str> = targets.lines().filter_map(|line| line.split("  ").next()).collect();
    assert_eq!(targets, ["make demo", "make e2e"]);
    // `tests/tool/book` lists the commands that no test runs.
    let [_images, _files, by_plugin, annotate, again, _chart, bind, upgrade, uninstall, _release] =
        &page("docs/install.md")[..]
    else {
        panic!("docs/install.md has other blocks than this test expects")
    };
    let [_resources, orders, rotate, _cert_manager] = &page("docs/webhook.md")[..] else {
        panic!("docs/webhook.md has other blocks than this test expects")
    };
    assert!(again.starts_with("kubectl apply -k manifests "), "{again}");
    let (print_uninstall, _) = uninstall.split_once(" | ").expect("a pipe");

    let mut reader = Reader::new(&scene);
    copy_manifests(&reader);
    reader.substitute("-n shop", &format!("-n {}", scene.namespace));
    reader.substitute("namespace shop-eu", &format!("namespace {}", scene.namespace));
    reader.substitute("--namespaces shop", &format!("--namespaces {}", scene.namespace));
    reader.substitute("PODGATE_NAMESPACES=shop", &format!("PODGATE_NAMESPACES={}", scene.namespace));
    let shop = &Page::read("docs/tutorial.md").blocks("yaml")[0].text;
    reader.save("shop.yaml", shop);
    reader.run("kubectl apply -f shop.yaml && kubectl rollout status deployment/shop --timeout=3m");

    for block in [by_webhook, by_plugin, upgrade] {
        assert!(block.contains(&format!("{PRINT} | ")), "{block}");
    }
    change_printed_manifests(&mut reader);
    keep_shared_objects(&mut reader, print_uninstall);
    let uninstall_guard = UninstallGuard(&reader);
    reader.run(by_webhook);
    reader.run(again);
    reader.run(bind);
    reader.run(annotate);
    let deployment = kubectl_json(&["-n", &scene.namespace, "get", "deployment", "shop"]);
    let metadata: Value = serde_saphyr::from_str(&Page::read("README.md").blocks("yaml")[0].text).expect("YAML");
    for (key, value) in metadata["metadata"]["annotations"].as_object().expect("an object") {
        assert_eq!(
            &deployment["spec"]["template"]["metadata"]["annotations"][key], value,
            "the commands must set what the README shows"
        );
    }
    assert_started_in_order(&reader, &scene);
    preview_a_pod(&reader);
    rotate_keys(&reader, rotate);
    reader.save("orders.yaml", &Page::read("docs/webhook.md").blocks("yaml")[0].text);
    reader.save("deploy.yaml", shop);
    reader.run(orders);
    reader.run("kubectl delete deployment shop");
    reader.run(uninstall);
    drop(uninstall_guard);
    install::assert_nothing_left();

    reader.save("shop.yaml", &super::ordered_shop());
    // Without the role, the timeline would have no times. Its first command applies objects that are there already.
    let readme = Page::read("README.md");
    let mut parts = readme.lines().flat_map(|line| line.split('`'));
    reader.run(
        parts.find(|part| part.starts_with("kubectl apply -n shop -f ")).expect("the command that binds the role"),
    );
    reader.run(by_hand);
    assert_started_in_order(&reader, &scene);
    reader.run("kubectl delete -f shop.yaml");
    assert!(try_kubectl(&["get", "namespace", NAMESPACE]).is_err());
    assert!(cluster::try_script(&["kubectl", "-n", &scene.namespace, "get", "deployment", "shop"], "").is_err());
}
