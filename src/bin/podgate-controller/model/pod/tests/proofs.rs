//! Tests that the model learns each state without the API, unless `Container::needs_kubelet_status` says otherwise.

use super::*;
use podgate::core::until::WantedState;

/// Passes all evidence that a container of this kind gives without the API: verdicts of the sidecar's probes, and the
/// report and tether of its agent. `has_exited` means a short run, in which no hook or probe has begun.
fn observe(pod: &mut PodModel, spec: &Container, has_exited: bool) {
    let is_agent = spec.mode != Mode::None || spec.reports_start;
    let readiness_is_exec = spec.readiness_probe.as_ref().is_some_and(|probe| probe.is_exec());
    // A wrapped readinessProbe runs after the startupProbe. A gate or a waiting hook runs all exec probes.
    let check_passed = spec.mode != Mode::None || readiness_is_exec;
    let report = Report { check_passed, ..if spec.mode == Mode::Entrypoint { opened("t1") } else { report() } };
    if spec.mode == Mode::Entrypoint {
        pod.on_report("db", directory_state(report.clone(), true), now());
        if has_exited {
            pod.on_report("db", directory_state(Report { exit_code: Some(0), ..report }, false), now());
        }
        pod.update_snapshot(now());
        if !has_exited && spec.probes().any(|probe| !probe.is_exec()) {
            pod.receive_verdict("db", ProbeVerdict::Passed);
        }
    } else if !has_exited {
        if is_agent {
            pod.on_report("db", directory_state(report, spec.reports_start), now());
        }
        if spec.probes().any(|probe| !probe.is_exec()) {
            pod.receive_verdict("db", ProbeVerdict::Passed);
        }
    }
}

#[test]
fn each_state_is_known_from_the_source_that_proves_it() {
    let probes = [r#""#, r#"{"tcpSocket":{"port":1}}"#, r#"{"exec":{"command":["x"]}}"#];
    let probe = |field: &str, text: &str| if text.is_empty() { String::new() } else { format!(r#","{field}":{text}"#) };
    let wanted = [WantedState::Started, WantedState::Ready, WantedState::Completed, WantedState::Exited];
    let mut seen = [0; 2];
    for (mode, reports) in [("none", false), ("none", true), ("post-start", false), ("entrypoint", false)] {
        for (startup, readiness) in probes.iter().flat_map(|one| probes.iter().map(move |two| (one, two))) {
            for want in wanted {
                let json = format!(
                    r#"[{{"name":"db","mode":"{mode}","reportsStart":{reports}{}{}}},
                        {{"name":"api","mode":"entrypoint","until":["db={want}"]}}]"#,
                    probe("startupProbe", startup),
                    probe("readinessProbe", readiness)
                );
                let mut pod = new_pod(false, &json);
                pod.is_blind = true;
                let spec = pod.tracks[0].spec.clone();
                observe(&mut pod, &spec, want.is_exit());
                pod.update_snapshot(now());
                let snapshot = pod.published.as_ref().unwrap();
                let until = &pod.tracks[1].spec.until[0];
                let is_unseen = spec.needs_kubelet_status(want);
                assert_eq!(until.is_met(snapshot), !is_unseen, "{json}");
                assert_eq!(snapshot.unseen.contains(&until.to_string()), is_unseen, "{json}");
                seen[usize::from(is_unseen)] += 1;
            }
        }
    }
    assert!(seen.iter().all(|number| *number > 40), "{seen:?}");
}

/// After a restart of the sidecar, no hook reports again.
#[test]
fn tether_of_the_hook_proves_the_start_to_the_next_sidecar() {
    let mut pod = new_pod(true, r#"[{"name":"redis","reportsStart":true}]"#);
    let old = Report { epoch: "e0".to_owned(), ..report() };
    pod.on_report("redis", directory_state(old.clone(), true), now());
    assert_eq!(pod.state_of("redis"), State::Ready);
    pod.on_report("redis", directory_state(old, false), now());
    assert_eq!(pod.state_of("redis"), State::Failed);
}
