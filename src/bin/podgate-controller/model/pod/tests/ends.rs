//! Which ends count, of which incarnation.

use super::*;

#[test]
fn an_end_counts_until_the_next_incarnation_reports_though_the_kubelet_still_shows_it() {
    let mut world = new_pod(false, CHAIN);
    world.receive_report("db", Some(report()));
    world.receive_verdict("db", ProbeVerdict::Passed);
    world.receive_status("db", ended("d1", 1));
    assert_eq!(world.state_of("db"), State::Failed);
    world.receive_report("db", Some(report()));
    world.receive_status("db", ended("d1", 1));
    assert_eq!(world.state_of("db"), State::Started, "and its probes start anew");
    world.receive_status("db", ended("d2", 0));
    assert_eq!(world.state_of("db"), State::Completed);
}

#[test]
fn a_tether_that_drops_is_the_containers_end_and_the_kubelet_adds_the_code() {
    let mut world = new_pod(false, GATES);
    world.receive_report("db", Some(opened("t1")));
    world.receive_status("db", running("d1", false));
    world.on_report("db", folder_state(opened("t1"), false), later());
    assert_eq!(world.state_of("db"), State::Failed);
    world.on_pod_update(&pod_facts("db", running("d1", true)), true, later());
    assert_eq!(world.state_of("db"), State::Failed, "the kubelet is late");
    world.on_pod_update(&pod_facts("db", ended("d1", 0)), true, later());
    assert_eq!(world.state_of("db"), State::Completed);
    // The next incarnation, of whose start the kubelet has not spoken yet.
    world.receive_report("db", Some(waiting("t2", &[])));
    world.on_pod_update(&pod_facts("db", ended("d1", 0)), true, later());
    assert_eq!(world.state_of("db"), State::Waiting);
    assert_eq!(world.published.as_ref().unwrap().restarts.get("db"), Some(&1));
}

#[test]
fn an_earlier_incarnations_end_that_comes_late_is_not_this_ones() {
    let mut world = new_pod(false, GATES);
    world.receive_report("db", Some(opened("t1")));
    world.receive_status("db", running("d1", true));
    // It died and came again before anybody looked.
    world.receive_report("db", Some(waiting("t2", &[])));
    world.receive_report("db", Some(opened("t2")));
    world.receive_status("db", ended("d1", 1));
    assert_eq!(world.state_of("db"), State::Started);
    world.receive_status("db", running("d2", true));
    world.receive_status("db", ended("d2", 1));
    assert_eq!(world.state_of("db"), State::Failed);
}

#[test]
fn a_program_that_lets_go_of_its_tether_is_not_taken_for_dead() {
    for (listens, at) in [(false, now()), (true, later())] {
        let mut world = new_pod(false, GATES);
        world.receive_report("db", Some(opened("t1")));
        world.receive_verdict("db", ProbeVerdict::Passed);
        world.on_report("db", FolderState { is_listening: listens, ..folder_state(opened("t1"), false) }, at);
        assert_eq!(world.state_of("db"), State::Ready);
        world.on_pod_update(&pod_facts("db", ended("d1", 1)), true, later());
        assert_eq!(world.state_of("db"), State::Failed, "the kubelet knows");
    }
}

#[test]
fn a_kubelet_that_is_late_does_not_bring_a_dead_one_back() {
    // It has, or has not, shown the incarnation before that ended.
    for shown in [true, false] {
        let mut world = new_pod(false, CHAIN);
        if shown {
            world.receive_status("db", running("d1", true));
        }
        world.on_report("db", folder_state(report(), true), now());
        world.on_report("db", FolderState { is_rewritten: false, ..folder_state(report(), false) }, now());
        for at in [now(), later()] {
            world.on_pod_update(&pod_facts("db", running("d1", true)), true, at);
            assert_eq!(world.state_of("db"), State::Failed);
        }
        world.on_pod_update(&pod_facts("db", running("d2", true)), true, later());
        assert_eq!(world.state_of("db"), State::Started);
    }
}

/// What it writes into its own folder makes nobody else's hook end, and holds nobody else up.
#[test]
fn who_takes_no_part_in_the_order_can_not_claim_an_end_or_a_gate() {
    let mut world = new_pod(false, CHAIN);
    for lie in [
        Report { exit_code: Some(1), ..report() },
        Report { exit_code: Some(1), ..opened("t1") },
        waiting("t2", &["db"]),
    ] {
        world.receive_report("web", Some(lie.clone()));
        assert!(!world.state_of("web").has_ended(), "{lie:?}");
        assert_eq!(world.acked_ticket_of("web"), None);
        world.on_report("web", folder_state(lie, false), later());
        assert!(!world.state_of("web").has_ended());
    }
    world.receive_report("db", Some(Report { exit_code: Some(1), ..report() }));
    assert_eq!(world.state_of("db"), State::Started, "a hook knows of no exit code");
}

/// After the loss of a sandbox the API shows how the containers ended in the one before.
#[test]
fn an_end_of_an_earlier_sandbox_is_none() {
    let at = |seconds| Some(std::time::UNIX_EPOCH + Duration::from_secs(seconds));
    let completed = |started| Kubelet { ended_run_started_at: at(started), ..ended("d1", 0) };
    let facts = |started, own| PodFacts { own_started_at: at(own), ..pod_facts("db", completed(started)) };
    let mut world = new_pod(false, CHAIN);
    world.on_pod_update(&facts(100, 200), true, now());
    assert!(world.update_snapshot().is_none());
    world.on_pod_update(&facts(201, 200), true, now());
    assert_eq!(world.state_of("db"), State::Completed);
    // A controller that is started again in the same sandbox knows when that began.
    for (started, state_is) in [(150, State::Completed), (90, State::Waiting)] {
        let mut world = self::new_pod(true, CHAIN);
        world.sandbox_started_at = at(100);
        world.on_pod_update(&facts(started, 200), true, now());
        assert_eq!(world.state_of("db"), state_is, "{started}");
    }
}

/// At rest nobody hears the kubelet: the end of the incarnation before is heard only after the next one's gate has opened.
#[test]
fn an_end_that_was_an_earlier_ones_does_not_stick_to_a_program_without_a_tether() {
    let mut world = new_pod(false, GATES);
    world.receive_report("db", Some(opened("t1")));
    world.receive_report("db", Some(waiting("t2", &[])));
    world.receive_report("db", Some(opened("t2")));
    world.on_report("db", FolderState { is_rewritten: false, ..folder_state(opened("t2"), false) }, now());
    world.receive_status("db", ended("d1", 137));
    assert_eq!(world.state_of("db"), State::Failed, "it may be this one's");
    world.receive_status("db", running("d2", true));
    assert_eq!(world.state_of("db"), State::Waiting);
    world.tick(world.due().unwrap());
    assert_eq!(world.state_of("db"), State::Started);
}

#[test]
fn a_parents_exit_code_is_the_containers_end() {
    let mut world = new_pod(false, GATES);
    world.receive_report("db", Some(opened("t1")));
    world.receive_report("db", Some(Report { exit_code: Some(0), ..opened("t1") }));
    assert_eq!(world.state_of("db"), State::Completed);
    world.on_report("db", folder_state(Report { exit_code: Some(0), ..opened("t1") }, false), later());
    assert_eq!(world.state_of("db"), State::Completed);
}

#[test]
fn a_hooks_tether_tells_the_end_under_a_freeze_and_the_next_ones_tells_the_new_start() {
    let mut world = new_pod(false, CHAIN);
    world.on_report("db", folder_state(report(), true), now());
    world.receive_verdict("db", ProbeVerdict::Passed);
    assert_eq!(world.state_of("db"), State::Ready);
    world.on_report("db", FolderState { is_rewritten: false, ..folder_state(report(), false) }, now());
    assert_eq!(world.state_of("db"), State::Failed);
    world.on_report("db", FolderState { is_rewritten: false, ..folder_state(report(), true) }, now());
    assert_eq!(world.state_of("db"), State::Started);
}

/// The preStop hook's last word and the end that follows it can be found by one look.
#[test]
fn a_last_word_does_not_bring_a_dead_one_back() {
    let mut world = new_pod(false, CHAIN);
    world.on_report("db", folder_state(report(), true), now());
    world.receive_verdict("db", ProbeVerdict::Passed);
    assert_eq!(world.state_of("db"), State::Ready);
    world.on_report("db", folder_state(Report { stopping: PreStopState::Finished, ..report() }, false), now());
    assert_eq!(world.state_of("db"), State::Failed);
}

#[test]
fn who_stops_is_published_until_it_starts_again() {
    let mut world = new_pod(false, CHAIN);
    world.receive_report("db", Some(Report { stopping: PreStopState::Begun, ..report() }));
    assert!(world.update_snapshot().unwrap().stopping.contains("db") && world.stopping_count() == 1);
    world.receive_status("db", running("d1", true));
    world.receive_status("db", running("d2", true));
    assert!(world.update_snapshot().unwrap().stopping.is_empty());
}
