//! Tests of `--tether` in hooks, which leaves a small process that holds the container's tether.

use crate::support::{Agent, Scene, Shell, signal, wait_until};
use podgate::core::state::State;
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns a scene in which `db` is Ready, so that the hook of `db` returns immediately.
fn ready() -> Scene {
    let mut scene = Scene::with_sidecar();
    scene.set_state("db", State::Ready);
    scene
}

fn hook(scene: &Scene) -> Agent {
    scene.hook().arg("--tether")
}

/// Returns the processes that hold a file of `directory` open, such as the tether process.
fn holders(directory: &Path) -> Vec<u32> {
    let holds = |pid: &u32| {
        let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        let mut files = open.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
        files.any(|path: PathBuf| path.starts_with(directory))
    };
    let numbers = fs::read_dir("/proc").unwrap().flatten();
    numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(holds).collect()
}

#[test]
fn tether_process_outlives_the_hook_and_ignores_signals() {
    let scene = ready();
    hook(&scene).run().assert_released();
    assert!(scene.is_tethered());
    let [holder] = holders(&scene.self_directory)[..] else { panic!("{:?}", holders(&scene.self_directory)) };
    let read = |name: &str| fs::read(format!("/proc/{holder}/{name}")).unwrap_or_default();
    assert_eq!(String::from_utf8(read("cmdline")).unwrap(), "/proc/self/exe\0tether\0");
    assert_eq!(read("environ"), b"", "the tether process must not keep the user's environment");
    let link = |name: &str| fs::read_link(format!("/proc/{holder}/{name}")).unwrap();
    for name in ["fd/0", "fd/1", "fd/2"] {
        assert_eq!(link(name), Path::new("/dev/null"));
    }
    assert_eq!(link("cwd"), Path::new("/"), "the tether process must not keep the working directory");
    // The usual termination signals do not end the tether process.
    for number in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        signal(holder, number);
    }
    let status = String::from_utf8(read("status")).unwrap();
    assert!(status.contains("Threads:\t1\n") && scene.is_tethered(), "{status}");
    signal(holder, Signal::KILL);
    wait_until("the tether is released", || !scene.is_tethered());
}

/// The hook of a container without command and probe. No sidecar runs, and the board never shows the start.
#[test]
fn hook_that_only_reports_waits_for_nothing() {
    let scene = Scene::with_sidecar();
    hook(&scene).flag("until", "db=Started").run().assert_released();
    assert!(scene.is_tethered() && scene.report().unwrap().started);
    let alone = Scene::new();
    hook(&alone).flag("until", "db=Started").run().assert_released();
    assert!(alone.is_tethered());
}

/// A held container has neither a gate nor a postStart hook, so its preStop hook takes the tether.
#[test]
fn pre_stop_hook_can_take_the_tether() {
    let scene = ready();
    let ended = scene.pre_stop().arg("--tether").run();
    assert_eq!(ended.code, 0);
    assert!(scene.is_tethered());
    for holder in holders(&scene.self_directory) {
        signal(holder, Signal::KILL);
    }
    wait_until("the tether is released", || !scene.is_tethered());
}

#[test]
fn daemon_of_a_check_does_not_hold_the_tether() {
    let scene = ready();
    let check =
        format!(r#"exec:["sh","-c","sleep 1000 & echo $! >{}; exit 0"]"#, scene.self_directory.join("left").display());
    hook(&scene).arg("--check").arg(&check).run().assert_released();
    assert!(scene.is_tethered());
    let left: u32 = fs::read_to_string(scene.self_directory.join("left")).unwrap().trim().parse().unwrap();
    let [holder] = holders(&scene.self_directory)[..] else { panic!("{:?}", holders(&scene.self_directory)) };
    assert_ne!(holder, left);
    signal(left, Signal::KILL);
    signal(holder, Signal::KILL);
}

#[test]
fn tether_process_closes_inherited_descriptors() {
    let scene = ready();
    hook(&scene).with_open_file(&scene.termination).run().assert_released();
    let [holder] = holders(&scene.self_directory)[..] else { panic!("{:?}", holders(&scene.self_directory)) };
    let kept: Vec<PathBuf> = fs::read_dir(format!("/proc/{holder}/fd"))
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
        .collect();
    assert!(!kept.iter().any(|path| path.ends_with(scene.termination.file_name().unwrap())), "{kept:?}");
    signal(holder, Signal::KILL);
}

#[test]
fn tether_process_never_wakes_up() {
    let scene = ready();
    hook(&scene).run().assert_released();
    let [holder] = holders(&scene.self_directory)[..] else { panic!("{:?}", holders(&scene.self_directory)) };
    let switches = || {
        let status = fs::read_to_string(format!("/proc/{holder}/status")).unwrap();
        status.lines().filter(|line| line.contains("ctxt_switches")).map(str::to_owned).collect::<Vec<_>>()
    };
    wait_until("the tether process sleeps", || {
        fs::read_to_string(format!("/proc/{holder}/stat")).unwrap().contains(") S ")
    });
    let before = switches();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(switches(), before, "the tether process woke up");
    signal(holder, Signal::KILL);
}

#[test]
fn each_hook_run_takes_the_tether_before_it_waits() {
    let mut scene = Scene::with_sidecar();
    let waiting = hook(&scene).spawn_waiting();
    assert!(scene.is_tethered());
    let first = holders(&scene.self_directory);
    scene.set_state("db", State::Ready);
    waiting.wait().assert_released();
    // The container was killed and starts again while the first tether process still runs.
    hook(&scene).run().assert_released();
    let all = holders(&scene.self_directory);
    let second: Vec<u32> = all.iter().copied().filter(|pid| !first.contains(pid)).collect();
    assert_eq!(second.len(), 1, "{first:?} {all:?}");
    all.iter().filter(|pid| !second.contains(pid)).for_each(|pid| signal(*pid, Signal::KILL));
    wait_until("the first tether process has exited", || holders(&scene.self_directory) == second);
    assert!(scene.is_tethered());
    signal(second[0], Signal::KILL);
    wait_until("the tether is released", || !scene.is_tethered());
}

#[test]
fn hook_succeeds_if_the_tether_process_cannot_start() {
    let scene = ready();
    fs::remove_dir(&scene.self_directory).unwrap();
    hook(&scene).run().assert_released();
    assert!(scene.log_text().contains("cannot start the tether process"), "{}", scene.log_text());
}

#[test]
fn tether_process_ends_with_the_containers_pid_1() {
    let Some(mut shell) = Shell::in_namespaces(&["--user", "--map-root-user", "--fork", "--pid", "--mount-proc"])
    else {
        return;
    };
    let scene = ready();
    let errors = scene.root.join("errors");
    shell.start_agent(&hook(&scene), &errors);
    assert_eq!(shell.wait_for_agent(), 0, "{}", fs::read_to_string(&errors).unwrap());
    assert!(scene.is_tethered());
    // The shell has pid 1, so its exit ends all processes of the PID namespace.
    drop(shell);
    wait_until("the tether is released", || !scene.is_tethered());
}
