//! Tests of a waiting hook: its messages, reports and wake-ups, and the events that end its wait.

use crate::support::{Scene, wait_until};
use podgate::core::snapshot::{REASON_ENDED_FOR_GOOD, Snapshot};
use podgate::core::state::{Stage, State};
use rustix::process::Signal;
use std::time::Duration;

#[test]
fn hook_reports_why_it_waits_until_its_container_is_ready() {
    let mut scene = Scene::with_sidecar();
    let hook = scene.hook().spawn_waiting();
    assert_eq!(scene.termination_message(), "podgate post-start: db: waiting for db=Ready (now Started)");
    let report = scene.report().unwrap();
    assert!(report.started && scene.is_current(&report));
    assert_eq!((report.waiting_for[0].to_string().as_str(), report.gate), ("db=Ready", None));
    assert_eq!(hook.thread_count(), 1);
    scene.set_state("db", State::NotReady);
    wait_until("the message names the new state", || scene.termination_message().contains("now NotReady"));
    scene.set_state("db", State::Ready);
    hook.wait().assert_released();
    assert_eq!(scene.termination_message(), "");
    assert!(scene.log_text().contains("released: all conditions are met"));
}

#[test]
fn idle_hook_wakes_only_for_the_slow_reread() {
    let scene = Scene::with_sidecar();
    scene.hook().spawn_waiting().assert_idle();
}

#[test]
fn phases_terminating_and_started_end_the_wait() {
    for (stage, message) in [(Stage::Terminating, "being deleted"), (Stage::Started, "has started before")] {
        let mut scene = Scene::with_sidecar();
        let hook = scene.hook().spawn_waiting();
        scene.publish(|s| s.stage = stage);
        hook.wait().assert_released();
        assert!(scene.log_text().contains(message));
    }
}

/// Another container can cause each event in this test. So with `--on-timeout continue`, no event may release the
/// container before the time limit, even with `--fail-fast`.
#[test]
fn on_timeout_continue_releases_only_at_the_time_limit() {
    let limit = Duration::from_secs(2);
    let stuck = |s: &mut Snapshot| _ = s.stuck.insert("db".to_owned(), "CrashLoopBackOff".to_owned());
    let own_stuck = |s: &mut Snapshot| _ = s.stuck.insert("api".to_owned(), "CrashLoopBackOff".to_owned());
    let ended = |s: &mut Snapshot| {
        s.states.insert("db".to_owned(), State::Failed);
        s.stuck.insert("db".to_owned(), REASON_ENDED_FOR_GOOD.to_owned());
    };
    let failed = |s: &mut Snapshot| _ = s.states.insert("db".to_owned(), State::Failed);
    let nothing = |_: &mut Snapshot| {};
    type Change = fn(&mut Snapshot);
    let cases: [(bool, Change, &str); 5] = [
        (true, stuck, "db=Ready (now Started, CrashLoopBackOff)"),
        (true, ended, "db=Ready (now Failed, Ended)"),
        (false, own_stuck, ", CrashLoopBackOff)"),
        (false, failed, "api=Ready (now "),
        (true, nothing, "step (the previous step failed)"),
    ];
    let run_case = |(is_gate, change, message): (bool, Change, &str)| {
        let mut scene = Scene::with_sidecar();
        let agent = if is_gate { scene.gate() } else { scene.bare_hook() };
        let agent = agent.flag("container", "api").flag("until", if is_gate { "db" } else { "api" });
        let agent = agent.arg("--fail-fast").flag("timeout", "2s").flag("on-timeout", "continue");
        let agent = agent.flag("check", format!("file://{}", scene.root.join("step").display()));
        let agent = if is_gate { agent.with_command(&["true"]) } else { agent };
        let agent = agent.spawn_waiting();
        if message.starts_with("step") {
            std::fs::write(scene.root.join("step.err"), "").unwrap();
        }
        scene.publish(change);
        wait_until("the message names the reason", || {
            let text = scene.termination_message();
            text.contains("waiting for ") && text.contains(message)
        });
        let run = agent.wait();
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.took >= limit, "{message}: released after {:?}", run.took);
        assert!(scene.log_text().contains("continuing (--on-timeout=continue)"), "{}", scene.log_text());
    };
    std::thread::scope(|scope| {
        for case in cases {
            scope.spawn(move || run_case(case));
        }
    });
}

#[test]
fn failed_predecessor_ends_the_wait() {
    let mut scene = Scene::with_sidecar();
    let hook = scene.bare_hook().flag("container", "api").flag("timeout", "20s").spawn_waiting();
    scene.set_state("db", State::Failed);
    hook.wait().assert_failed(
        69,
        "db is Failed; the kubelet restarts db only after this hook returns; see kubectl logs POD -c db",
    );
    scene.bare_hook().flag("container", "db").flag("timeout", "1ms").run().assert_failed(75, "db=Ready (now Failed)");
    // A predecessor that has ended for good does not restart, whether or not this hook returns.
    scene.publish(|s| _ = s.stuck.insert("db".to_owned(), REASON_ENDED_FOR_GOOD.to_owned()));
    scene
        .bare_hook()
        .flag("container", "api")
        .flag("timeout", "1ms")
        .run()
        .assert_failed(75, "still waiting for api=Ready");
}

#[test]
fn unknown_container_is_a_setup_error_after_two_seconds() {
    let scene = Scene::with_sidecar();
    let hook = scene.bare_hook().flag("container", "ghost").flag("timeout", "20s");
    let run = hook.flag("on-timeout", "continue").run();
    run.assert_failed(78, "no such container: ghost; the pod has api, db");
    assert!(run.took >= Duration::from_secs(2), "{run:?}");
}

#[test]
fn a_board_of_another_sandbox_is_ignored_and_named() {
    let mut scene = Scene::with_sidecar();
    scene.publish(|s| {
        s.sandbox = "00000000-1-00000001".parse().unwrap();
        s.stage = Stage::Started;
        s.states.insert("db".to_owned(), State::Ready);
    });
    let run = scene.hook().flag("timeout", "100ms").run();
    run.assert_failed(75, "the board belongs to another sandbox; the downward-API volume is missing");
    let hook = scene.hook().spawn_waiting();
    assert!(scene.report().is_none(), "the hook must not report to another sandbox's sidecar");
    let here = crate::support::snapshot(&[("db", State::Ready)]);
    scene.publish(|s| *s = here);
    hook.wait().assert_released();
}

#[test]
fn hook_reports_again_to_a_new_epoch_or_wrong_board() {
    let mut scene = Scene::with_sidecar();
    let hook = scene.hook().spawn_waiting();
    scene.publish(|s| s.epoch = "e2".to_owned());
    wait_until("the hook reports again", || scene.report().unwrap().epoch == "e2");
    let report = scene.self_directory.join("report");
    let inode = || std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&report).unwrap());
    let first = inode();
    scene.publish(|s| s.order.reverse());
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(inode(), first, "an unchanged report must not be written again");
    scene.set_state("db", State::Failed);
    wait_until("the hook writes its report again", || inode() != first);
    assert!(scene.report().unwrap().started);
    scene.set_state("db", State::Ready);
    hook.wait().assert_released();
}

#[test]
fn message_names_a_report_that_cannot_be_written() {
    let mut scene = Scene::with_sidecar();
    std::fs::remove_dir(&scene.self_directory).unwrap();
    let hook = scene.hook().spawn_waiting();
    assert!(scene.termination_message().contains("cannot report to the sidecar"), "{}", scene.termination_message());
    std::fs::create_dir(&scene.self_directory).unwrap();
    wait_until("the hook reports", || scene.report().is_some());
    wait_until("the message no longer names the report", || !scene.termination_message().contains("cannot report"));
    scene.set_state("db", State::Ready);
    hook.wait().assert_released();
}

#[test]
fn hook_waits_for_another_containers_state() {
    let mut scene = Scene::with_sidecar();
    let hook = scene.hook().flag("until", "db=Started").flag("until", "api=Completed").spawn_waiting();
    assert!(scene.log_text().contains("WARN this container already runs"));
    scene.set_state("api", State::Completed);
    hook.wait().assert_released();
}

#[test]
fn hook_keeps_the_programs_termination_message() {
    let mut scene = Scene::with_sidecar();
    scene.set_state("db", State::Ready);
    std::fs::write(&scene.termination, "the program's own message").unwrap();
    scene.hook().run().assert_released();
    assert_eq!(scene.termination_message(), "the program's own message");
}

#[test]
fn an_unwritable_termination_log_changes_nothing() {
    let scene = Scene::with_sidecar();
    for path in ["/nonexistent/x", "/", "/dev/full"] {
        let hook = scene.hook().flag("timeout", "0s").flag("termination-log", path);
        hook.run().assert_failed(75, "timed out");
    }
}

#[test]
fn a_long_reason_is_cut_to_the_message_limit() {
    let mut scene = Scene::with_sidecar();
    scene.publish(|s| {
        for index in 0..200 {
            s.states.insert(format!("container-{index}"), State::Started);
        }
    });
    let all: Vec<String> = (0..200).map(|index| format!("container-{index}")).collect();
    let run = scene.hook().flag("until", all.join(",")).flag("timeout", "20ms").run();
    run.assert_failed(75, "container-5");
    assert!(
        scene.termination_message().len() < 1024 && scene.termination_message().ends_with('…'),
        "{}",
        scene.termination_message()
    );
}

#[test]
fn signal_ends_the_wait() {
    let scene = Scene::with_sidecar();
    let hook = scene.hook().spawn_waiting();
    hook.signal(Signal::TERM);
    assert_eq!(hook.wait().code, 143);
}
