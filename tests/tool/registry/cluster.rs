//! Tests of `resolve-images --apply` and `install --resolve-images`, with a fake API server.

use super::server::{Access, USER};
use super::{APP, ARM, Scene, login, pod, run_tool};
use crate::api_server::{Answer, FakeApiServer, Request, error_status};
use serde_json::{Value, json};
use std::io::Write;
use std::process::Stdio;

/// Cluster with podgate's webhook and a workload. Accepts each change of the ConfigMap.
#[derive(Clone, Default)]
pub(crate) struct Cluster {
    /// Images of a Deployment and of running Pods. In each, one container needs the command of its image.
    pub(crate) deployment: String,
    pub(crate) pods: Vec<String>,
    /// Text of the file in the ConfigMap.
    pub(crate) file: Option<String>,
    /// Path that the user may not read.
    pub(crate) denied: &'static str,
}

impl Cluster {
    pub(crate) fn serve(self) -> FakeApiServer {
        FakeApiServer::new(move |request| self.answer(request))
    }

    fn answer(&self, request: &Request) -> Answer {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        // The items of a list have no kind.
        let item = |name: &str, image: &String| {
            let mut pod: Value = serde_saphyr::from_str(&pod(image)).unwrap();
            pod.as_object_mut().unwrap().retain(|field, _| !matches!(field.as_str(), "kind" | "apiVersion"));
            (pod["metadata"]["name"], pod["metadata"]["namespace"]) = (name.into(), "shop".into());
            pod
        };
        let list = |items: Vec<Value>| Answer::Json(200, json!({"metadata": {}, "items": items}));
        match (request.method.as_str(), path) {
            _ if path == self.denied => error_status(403, "Forbidden", "you may not ask"),
            ("GET", "/apis/apps/v1/deployments") => list(vec![
                json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {"template": item("", &self.deployment)}}),
            ]),
            ("GET", "/api/v1/pods") => {
                assert!(query.contains("fieldSelector=status.phase%21%3DSucceeded"), "{query}");
                list(self.pods.iter().map(|image| item("web-1", image)).collect())
            }
            ("GET", path) if path.ends_with("/configmaps/podgate-images") => match &self.file {
                Some(file) => Answer::Json(200, json!({"metadata": {}, "data": {"images.json": file}})),
                None => error_status(404, "NotFound", "none"),
            },
            ("PATCH", "/api/v1/namespaces/podgate/configmaps/podgate-images") => {
                assert!(query.contains("fieldManager=kubectl-podgate") && query.contains("force=true"), "{query}");
                Answer::Json(200, serde_json::from_str(&request.body).unwrap())
            }
            ("GET", path) if path.starts_with("/apis/") => list(Vec::new()),
            _ => panic!("{request:?}"),
        }
    }
}

/// Returns the entries of the ConfigMap that the program has written; `None` if it has written nothing.
fn written(server: &FakeApiServer) -> Option<Value> {
    let patch = server.requests().into_iter().find(|request| request.method == "PATCH")?;
    let object: Value = serde_json::from_str(&patch.body).unwrap();
    assert_eq!(object["metadata"], json!({"name": "podgate-images", "namespace": "podgate"}));
    Some(serde_json::from_str(object["data"]["images.json"].as_str().unwrap()).unwrap())
}

#[test]
fn images_of_the_cluster_are_written() {
    let Some(scene) = Scene::new() else { return };
    let registry = scene.serve(Access::Open);
    let [app, all] = [("app", APP), ("all", ARM)].map(|(name, config)| registry.push(name, "1", false, config));
    let digest = |descriptor: &Value| descriptor["digest"].as_str().unwrap().to_owned();
    let tag = format!("{}/app:1", registry.address);
    let by_digest = format!("{}/all@{}", registry.address, digest(&all));
    let file = json!({&tag: {"cmd": ["/outdated"], "digest": "sha256:0"}, "other:1": {"cmd": ["/by-hand"]}});
    let pods = vec![tag.clone(), by_digest.clone()];
    let cluster = Cluster { deployment: tag.clone(), pods, file: Some(file.to_string()), ..Cluster::default() };
    let server = cluster.clone().serve();
    let (code, out, err) = server.run(&["resolve-images", "--apply"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.starts_with("wrote the ConfigMap podgate/podgate-images: "), "{out}");
    let own = json!({"entrypoint": ["/app", "--x"], "cmd": ["$(A)", "serve"], "digest": digest(&app)});
    let expected = json!({
        &tag: own, &by_digest: {"entrypoint": [], "cmd": ["/arm"], "digest": digest(&all)},
        "other:1": {"entrypoint": [], "cmd": ["/by-hand"], "digest": ""},
    });
    assert_eq!(written(&server), Some(expected));

    // An image that is not found keeps its entry. The error names the workload.
    let gone = format!("{}/gone:1", registry.address);
    let file = json!({&gone: {"cmd": ["/gone"], "digest": "sha256:0"}}).to_string();
    let server = Cluster { deployment: gone.clone(), file: Some(file), ..cluster.clone() }.serve();
    let (code, _, err) = server.run(&["resolve-images", "--apply"]);
    let place = format!("error: deployments/web in the namespace shop: container app: image {gone}: ");
    assert!(code == 1 && err.starts_with(&place) && err.contains("image not found"), "{err}");
    let entries = written(&server).unwrap();
    assert_eq!((&entries[&gone]["cmd"], &entries[&tag]), (&json!(["/gone"]), &own));
}

#[test]
fn nothing_is_written_if_the_cluster_cannot_be_read_or_the_file_is_too_large() {
    let Some(scene) = Scene::new() else { return };
    let registry = scene.serve(Access::Open);
    registry.push("app", "1", false, APP);
    let ok = || Cluster { deployment: format!("{}/app:1", registry.address), ..Cluster::default() };
    for (cluster, expected) in [
        (Cluster { denied: "/apis/batch/v1/jobs", ..ok() }, "you may not ask"),
        (Cluster { file: Some("{".to_owned()), ..ok() }, "the ConfigMap podgate/podgate-images: EOF while parsing"),
        (
            Cluster { file: Some(json!({"a": {"cmd": ["x".repeat(1 << 20)]}}).to_string()), ..ok() },
            " bytes, more than 1 MiB; to drop unused images, delete it: kubectl -n podgate delete configmap podgate-images\n",
        ),
    ] {
        let server = cluster.serve();
        for command in [["resolve-images", "--apply"], ["install", "--resolve-images"]] {
            let (code, out, err) = server.run(&command);
            assert!(code == 1 && out.is_empty() && err.contains(expected), "{command:?}: {expected}: {err}");
        }
        assert_eq!(written(&server), None, "{expected}");
    }
}

/// Anyone may push an image with line breaks that only YAML knows.
#[test]
fn install_prints_the_config_map() {
    let Some(scene) = Scene::new() else { return };
    let registry = scene.serve(Access::Open);
    let words = ["ö🦀", "\u{85}---\u{85}kind: Secret", "\u{2028}---\u{2028}", "a\n---\nb: 1", "\u{7f}"];
    registry.push("app", "1", false, json!({"config": {"Cmd": words}}).to_string().as_bytes());
    let image = format!("{}/app:1", registry.address);
    let cluster = Cluster { deployment: image.clone(), file: Some(json!({"b": {}}).to_string()), ..Cluster::default() };
    let server = cluster.serve();
    let (code, out, err) = server.run(&["install", "--resolve-images"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(!out.contains(['\u{85}', '\u{2028}', '\u{7f}']));
    let [found] = &out.split("---\n").filter(|part| part.contains("kind: ConfigMap")).collect::<Vec<_>>()[..] else {
        panic!("{out}")
    };
    let found: Value = serde_saphyr::from_str(found).unwrap();
    assert_eq!(found["metadata"], json!({"name": "podgate-images", "namespace": "podgate"}));
    let entries: Value = serde_json::from_str(found["data"]["images.json"].as_str().unwrap()).unwrap();
    assert_eq!((&entries[&image]["cmd"], &entries["b"]["cmd"]), (&json!(words), &json!([])));
    // All other objects are those of an installation without the flag.
    let rest: Vec<&str> = out.split("---\n").filter(|part| !part.contains("kind: ConfigMap")).collect();
    assert_eq!(rest.join("---\n"), server.run(&["install"]).1);
}

#[test]
fn answer_of_a_credential_helper_is_read_from_a_pipe() {
    let Some(scene) = Scene::new() else { return };
    scene.serve(Access::Open).push("app", "1", false, APP);
    let registry = scene.serve(Access::Locked);
    let image = format!("{}/app:1", registry.address);
    let answer = json!({"ServerURL": registry.address, "Username": USER.0, "Secret": USER.1}).to_string();
    let server = Cluster { deployment: image.clone(), pods: Vec::new(), ..Cluster::default() }.serve();
    let mut command = server.command(&["resolve-images", "--apply", "--pull-secret", "-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(written(&server).unwrap()[&image]["entrypoint"], json!(["/app", "--x"]));

    let manifest = scene.file("pod.yaml", &pod(&image));
    let helpers = json!({"credHelpers": {&registry.address: "ecr-login"}}).to_string();
    for (secret, code, expected) in [
        (answer, 0, ""),
        (login(&registry.address, USER.1), 0, ""),
        (helpers, 1, &*format!("echo {} | docker-credential-NAME get | kubectl podgate", registry.address)),
    ] {
        let run = run_tool(&scene.home(), &secret, &["resolve-images", &manifest, "--pull-secret", "-"]);
        assert!(run.code == code && run.err.contains(expected), "{}", run.err);
    }
}
