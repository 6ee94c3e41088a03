//! Tests of the sidecar's trust in the kubelet's status, with a fake API server.

use super::api::Api;
use super::*;
use serde_json::{Value, json};
use std::time::SystemTime;

/// Returns a Pod whose container `migrate` has completed. The Pod's status says that the sidecar started `seconds`
/// after now, or before now if `seconds` is negative.
fn completed(seconds: i64, restarts: u32) -> Value {
    let time = |seconds: i64| {
        let offset = Duration::from_secs(seconds.unsigned_abs());
        let time = if seconds < 0 { SystemTime::now() - offset } else { SystemTime::now() + offset };
        humantime::format_rfc3339_seconds(time).to_string()
    };
    let end =
        json!({"exitCode": 0, "containerID": "m1", "startedAt": time(seconds + 1), "finishedAt": time(seconds + 2)});
    let own = json!({"name": "podgate", "restartCount": restarts, "state": {"running": {"startedAt": time(seconds)}}});
    json!({"metadata": {"name": "p", "resourceVersion": "1"},
           "spec": {"restartPolicy": "Never", "containers": [{"name": "migrate"}],
                    "initContainers": [{"name": "podgate", "restartPolicy": "Always"}]},
           "status": {"initContainerStatuses": [own],
                      "containerStatuses": [{"name": "migrate", "state": {"terminated": end}}]}})
}

#[test]
fn sidecar_uses_the_kubelets_status_despite_a_wrong_clock() {
    let start = |seconds: i64| {
        let (pod, api) = (Pod::new(), Api::new(completed(seconds, 0)));
        let started = Instant::now();
        let Some(sidecar) = api.sidecar(&pod, "true") else { return };
        until("migrate is Completed", || pod.board().states.get("migrate") == Some(&State::Completed));
        assert!(seconds >= 0 || started.elapsed() > Duration::from_secs(9), "the status may be of an earlier run");
        let log = stderr(&sidecar.end(Signal::TERM));
        assert_eq!(log.matches("check the node's clock").count(), usize::from(seconds < 0), "{log}");
    };
    std::thread::scope(|scope| {
        // The list has no 0: on a busy machine, the process can start more than a second after the status was written.
        for seconds in [-10, 5, 10] {
            scope.spawn(move || start(seconds));
        }
    });
}

#[test]
fn sidecar_ignores_the_status_of_an_earlier_run() {
    let (pod, api) = (Pod::new(), Api::new(completed(-100, 3)));
    let Some(_sidecar) = api.sidecar(&pod, "true") else { return };
    until("the Pod was read", || pod.board().states.contains_key("migrate"));
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(pod.state("migrate"), State::Waiting);
    // The kubelet's clock is more than a minute behind, but the higher restart count proves a new run.
    api.change(&completed(-90, 4));
    until("migrate is Completed", || pod.state("migrate") == State::Completed);
}

/// Returns a Pod in which `app` waits until the native sidecar `mesh` is Ready. `probe` is the readinessProbe of
/// `mesh`.
fn meshed(probe: &Value, is_ready: bool) -> Value {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let running = json!({"running": {"startedAt": now}});
    let gate = ["/podgate/bin/podgate", "entrypoint", "--until", "mesh=Ready", "--", "app"];
    json!({"metadata": {"name": "p", "resourceVersion": "1"},
           "spec": {"containers": [{"name": "app", "command": gate}],
                    "initContainers": [
                        {"name": "podgate", "restartPolicy": "Always"},
                        {"name": "setup"},
                        {"name": "mesh", "restartPolicy": "Always", "readinessProbe": probe}]},
           "status": {"initContainerStatuses": [
                          {"name": "podgate", "restartCount": 0, "state": running},
                          {"name": "setup", "state": {"terminated": {"exitCode": 0, "containerID": "s1"}}},
                          {"name": "mesh", "containerID": "m1", "started": true, "ready": is_ready, "state": running}],
                      "containerStatuses": [{"name": "app", "state": {"waiting": {"reason": "PodInitializing"}}}]}})
}

/// Returns a Pod whose downward-API volume has the kubelet's annotation `kubernetes.io/config.seen`.
fn seen_pod() -> Pod {
    let pod = Pod::new();
    let seen = "kubernetes.io/config.seen=\"2026-11-23T09:00:00.000000000Z\"";
    std::fs::write(pod.path("info").join(names::ANNOTATIONS_FILE), seen).unwrap();
    pod
}

/// A gate that restarts its command after a restart of another container reads that container's restart count from
/// the board.
#[test]
fn board_counts_the_restarts_of_a_native_sidecar() {
    let (pod, api) = (seen_pod(), Api::new(meshed(&Value::Null, true)));
    let Some(_sidecar) = api.sidecar(&pod, "true") else { return };
    until("mesh runs", || pod.board().states.get("mesh") == Some(&State::Ready));
    assert!(pod.board().restarts.is_empty());
    let mut again = meshed(&Value::Null, true);
    again["status"]["initContainerStatuses"][2]["containerID"] = json!("m2");
    api.change(&json!({"status": again["status"]}));
    until("the restart is counted", || pod.board().restarts.get("mesh") == Some(&1));
}

#[test]
fn sidecar_without_a_list_finds_native_sidecars_in_the_spec() {
    let exec = json!({"exec": {"command": ["true"]}});
    let tcp = free_port();
    let socket = json!({"tcpSocket": {"port": tcp}, "periodSeconds": 1});
    for probe in [exec, socket] {
        let (pod, api) = (seen_pod(), Api::new(meshed(&probe, false)));
        let Some(_sidecar) = api.sidecar(&pod, "true") else { return };
        until("mesh has started", || pod.board().states.get("mesh") == Some(&State::Started));
        let order = ["mesh", "app"].map(str::to_owned);
        assert_eq!(pod.board().order, order, "init containers are not in the order");
        let listener = probe.get("tcpSocket").map(|_| TcpListener::bind(("127.0.0.1", tcp)).unwrap());
        if listener.is_none() {
            // Only the kubelet can run this probe.
            api.change(&json!({"status": meshed(&probe, true)["status"]}));
        }
        until("mesh is Ready", || pod.state("mesh") == State::Ready);
    }
}

/// The sidecar of a Job asks `proxy` to exit. The first response is an error.
#[test]
fn container_is_asked_to_exit_when_all_others_have_ended() {
    let server = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let running =
        |id: &str| json!({"containerID": id, "ready": true, "started": true, "state": {"running": {"startedAt": now}}});
    let ended = |code: i32| json!({"containerID": "m1", "state": {"terminated": {"exitCode": code, "containerID": "m1", "startedAt": now}}});
    let with = |main: Value| {
        let named = |name: &str, mut status: Value| {
            status["name"] = name.into();
            status
        };
        let own = named("podgate", json!({"restartCount": 0, "state": {"running": {"startedAt": now}}}));
        json!({"metadata": {"name": "p", "resourceVersion": "1"},
               "spec": {"restartPolicy": "OnFailure", "containers": [{"name": "main"}, {"name": "proxy"}],
                        "initContainers": [{"name": "podgate", "restartPolicy": "Always"}]},
               "status": {"initContainerStatuses": [own],
                          "containerStatuses": [named("main", main), named("proxy", running("p1"))]}})
    };
    let quit = format!("POST http://127.0.0.1:{}/quitquitquit", server.local_addr().unwrap().port());
    let list = json!([{"name": "main", "restartPolicy": "OnFailure"},
                      {"name": "proxy", "restartPolicy": "OnFailure", "quit": quit}]);
    let (pod, api) = (seen_pod(), Api::new(with(running("m1"))));
    let Some(sidecar) = api.sidecar(&pod, &format!("export PODGATE_CONTAINERS='{list}'")) else { return };
    until("both run", || ["main", "proxy"].iter().all(|name| pod.state(name) == State::Ready));
    // The kubelet restarts `main` after a failure, so the sidecar must not ask `proxy` yet.
    api.change(&json!({"status": with(ended(1))["status"]}));
    until("main has failed", || pod.state("main") == State::Failed);
    server.set_nonblocking(true).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    assert!(server.accept().is_err(), "asked too early");
    server.set_nonblocking(false).unwrap();
    api.change(&json!({"status": with(ended(0))["status"]}));
    for answer in ["503 Service Unavailable", "200 OK"] {
        let (mut stream, _) = server.accept().unwrap();
        let mut head = [0; 1024];
        let length = stream.read(&mut head).unwrap();
        let head = String::from_utf8_lossy(&head[..length]).to_lowercase();
        assert!(head.starts_with("post /quitquitquit http/1.1\r\n") && head.contains("content-length: 0"), "{head}");
        stream.write_all(format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n").as_bytes()).unwrap();
    }
    server.set_nonblocking(true).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    assert!(server.accept().is_err(), "asked again after a success");
    let log = stderr(&sidecar.end(Signal::TERM));
    assert!(log.contains("the container has been asked to exit"), "{log}");
}
