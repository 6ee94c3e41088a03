//! Tests of the signals that end a gate while it waits.

use crate::entrypoint::{ECHO_RAN, waits_for_db};
use crate::support::{Scene, Shell, send, wait_until};
use podgate::core::state::State;
use rustix::process::Signal;
use std::fs;

#[test]
fn signal_ends_the_wait_and_the_command_never_runs() {
    for (signal, code, message) in [
        (Signal::TERM, 143, "received SIGTERM"),
        (Signal::INT, 130, "received SIGINT"),
        (Signal::WINCH, 156, "received SIGWINCH"),
    ] {
        let scene = Scene::with_sidecar();
        let gate = waits_for_db(&scene).with_command(ECHO_RAN).spawn_waiting();
        gate.signal(signal);
        gate.wait().assert_failed(code, message);
        assert!(scene.termination_message().contains(message), "{}", scene.termination_message());
        assert!(!scene.is_tethered());
    }
}

#[test]
fn gate_with_pid_1_ends_on_a_signal() {
    if Shell::in_namespaces(&["--user", "--map-root-user", "--fork", "--pid", "--mount-proc"]).is_none() {
        return;
    }
    // Some images set a STOPSIGNAL other than SIGTERM: nginx SIGQUIT, HAProxy SIGUSR1, httpd SIGWINCH, systemd
    // SIGRTMIN+3 (37).
    let stop_signals = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];
    for number in stop_signals.into_iter().chain([libc::SIGWINCH, 37, 64]) {
        let scene = Scene::with_sidecar();
        let mut gate = waits_for_db(&scene).with_command(ECHO_RAN).in_a_pid_namespace().spawn_waiting();
        // The gate must keep waiting after signals whose default action does not end a process.
        for other in [libc::SIGCONT, libc::SIGURG] {
            send(gate.child(), other);
        }
        assert!(gate.is_running());
        assert_eq!(scene.report().unwrap().process.unwrap().pid, 1);
        send(gate.child(), number);
        gate.wait().assert_failed(128 + number, "while waiting; the command was not run");
    }
    let mut scene = Scene::with_sidecar();
    let gate = waits_for_db(&scene).with_command(&["sh", "-c", "echo $$"]).in_a_pid_namespace().spawn_waiting();
    scene.confirm_conditions(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    assert_eq!(gate.wait().stdout, "1\n");
}

/// A terminal sends SIGWINCH when its size changes, so this signal must not end the wait in a terminal.
#[test]
fn sigwinch_ends_the_wait_only_without_a_terminal() {
    let is_blocked = |scene: &Scene| {
        wait_until("the gate waits", || scene.termination_message().contains(": waiting for"));
        let pid = scene.report().unwrap().process.unwrap().pid;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        let mask = u64::from_str_radix(mask.trim(), 16).unwrap();
        [libc::SIGTERM, libc::SIGWINCH].map(|signal| mask & (1 << (signal - 1)) != 0)
    };
    let scene = Scene::with_sidecar();
    let gate = waits_for_db(&scene).with_command(ECHO_RAN).spawn();
    assert_eq!(is_blocked(&scene), [true, true]);
    drop(gate);
    let scene = Scene::with_sidecar();
    let gate = waits_for_db(&scene).with_command(ECHO_RAN).in_a_terminal().spawn();
    assert_eq!(is_blocked(&scene), [true, false]);
    drop(gate);
}
