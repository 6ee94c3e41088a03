//! Tests of the requests that the sidecar sends to a fake API server.

use super::api::Api;
use super::*;
use podgate::core::report::{GateState, PreStopState};
use podgate::edge::lock::Tether;
use serde_json::{Value, json};

/// Returns a Pod with two gated containers, `evil` and `db`, and a native sidecar.
fn gated() -> Value {
    let gated = |name| json!({"name": name, "command": ["/podgate/bin/podgate", "entrypoint", "--", "x"]});
    let started_at = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
    json!({"metadata": {"name": "p", "resourceVersion": "100"},
           "spec": {"containers": [gated("evil"), gated("db")],
                    "initContainers": [{"name": "podgate", "restartPolicy": "Always"}]},
           "status": {"initContainerStatuses": [{"name": "podgate", "state": {"running": {"startedAt": started_at}}}]}})
}

fn opened(ticket: &str) -> Report {
    Report { gate: Some(GateState::Opened), ticket: Some(ticket.to_owned()), ..Report::default() }
}

#[test]
fn one_container_cannot_flood_the_api_server() {
    let (pod, api) = (Pod::new(), Api::new(gated()));
    let Some(sidecar) = api.sidecar(&pod, "true") else { return };
    until("the directories exist", || pod.path("self/db").is_dir());
    pod.report("evil", opened("t"));
    pod.report("db", opened("t"));
    let is_published = |name: &str| api.annotation(&format!("status.podgate.io/{name}")).as_deref() == Some("Ready");
    until("both containers are Ready", || is_published("evil") && is_published("db"));
    std::thread::sleep(Duration::from_secs(1));
    let (start, patches, watches) = (Instant::now(), api.count("PATCH"), api.count("GET"));
    for round in 0..50 {
        pod.report("evil", opened(&format!("t{round}")));
        std::thread::sleep(Duration::from_millis(20));
        pod.report("evil", Report { stopping: PreStopState::Begun, ..opened(&format!("t{round}")) });
        std::thread::sleep(Duration::from_millis(20));
    }
    // One patch for the changes of each second.
    let patches_max = 2 + start.elapsed().as_secs() as usize;
    let watches_max = 11 + start.elapsed().as_secs() as usize / 10;
    let (patches, watches) = (api.count("PATCH") - patches, api.count("GET") - watches);
    assert!((1..=patches_max).contains(&patches) && (1..=watches_max).contains(&watches), "{patches}, {watches}");
    pod.report("db", Report { stopping: PreStopState::Begun, ..opened("t") });
    let is_stopping =
        || api.annotation(names::STOPPING_CONTAINERS_KEY).is_some_and(|list| list.split(',').any(|name| name == "db"));
    until("the change of db is published", is_stopping);
    drop(sidecar);
}

#[test]
fn busy_api_server_sets_the_time_of_the_next_watch() {
    let (pod, api) = (Pod::new(), Api::new(gated()));
    api.refuse_watch_once(60);
    let start = Instant::now();
    let Some(sidecar) = api.sidecar(&pod, "true") else { return };
    until("the sidecar watches again", || api.count("GET") == 2);
    let waited = start.elapsed();
    let log = stderr(&sidecar.end(Signal::TERM));
    assert!(log.contains("429"), "{log}");
    // The sidecar obeys `Retry-After` for at most 2 s (`RETRY_AFTER_MAX`). The back-off that follows takes at most
    // 0.4 s.
    assert!(waited > Duration::from_secs(2), "{waited:?}: {log}");
}

#[test]
fn annotations_are_written_again_after_a_restore_of_etcd() {
    let (pod, api) = (Pod::new(), Api::new(gated()));
    let Some(_sidecar) = api.sidecar(&pod, "true") else { return };
    let is_published = || api.annotation("status.podgate.io/db").as_deref() == Some("Waiting");
    until("db is Waiting in the API", is_published);
    std::thread::sleep(Duration::from_secs(1));
    api.restore(&gated());
    until("db is Waiting in the API again", is_published);
}

#[test]
fn flood_of_reports_changes_the_board_at_a_limited_rate() {
    let pod = Pod::new();
    let _sidecar = pod.sidecar(r#"[{"name":"evil","mode":"entrypoint"},{"name":"db","mode":"entrypoint"}]"#, &[]);
    let _tether = Tether::take_over(&pod.path("self/evil")).unwrap();
    let (start, before) = (Instant::now(), pod.board().revision);
    for round in 0.. {
        if start.elapsed() > Duration::from_secs(2) {
            break;
        }
        pod.report("evil", opened(&format!("t{round}")));
        std::thread::sleep(Duration::from_millis(1));
    }
    let (changes, seconds) = (pod.board().revision - before, start.elapsed().as_secs());
    assert!((10..=62 + seconds).contains(&changes), "{changes} changes in {seconds} s");
    let waiting = Report { gate: Some(GateState::Waiting), ticket: Some("last".to_owned()), ..Report::default() };
    pod.report("evil", waiting);
    pod.report("db", opened("t"));
    until("db is Ready", || pod.state("db") == State::Ready);
    until("the last report of evil counts", || pod.board().confirmed_tickets.get("evil").is_some_and(|t| t == "last"));
}
