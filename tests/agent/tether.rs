//! `post-start --tether`: a tiny process that stays behind and holds the container's tether.

use crate::support::{Agent, Scene, Shell, signal, wait_until};
use podgate::core::state::State;
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};

/// A container that is Ready, so that its hook returns at once.
fn ready() -> Scene {
    let mut scene = Scene::with_controller();
    scene.set_state("db", State::Ready);
    scene
}

fn hook(scene: &Scene) -> Agent {
    scene.hook().arg("--tether")
}

/// The processes that hold a file of `folder` open: whoever holds the tether.
fn holders(folder: &Path) -> Vec<u32> {
    let holds = |pid: &u32| {
        let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        let mut files = open.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
        files.any(|path: PathBuf| path.starts_with(folder))
    };
    let numbers = fs::read_dir("/proc").unwrap().flatten();
    numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(holds).collect()
}

#[test]
fn the_hook_returns_its_output_ends_and_the_tether_stays() {
    let scene = ready();
    hook(&scene).run().assert_released();
    assert!(scene.is_tethered());
    let [holder] = holders(&scene.self_folder)[..] else { panic!("{:?}", holders(&scene.self_folder)) };
    let read = |name: &str| fs::read(format!("/proc/{holder}/{name}")).unwrap_or_default();
    assert_eq!(String::from_utf8(read("cmdline")).unwrap(), "/proc/self/exe\0hold\0");
    assert_eq!(read("environ"), b"", "it keeps nothing of the user's");
    let link = |name: &str| fs::read_link(format!("/proc/{holder}/{name}")).unwrap();
    for name in ["fd/0", "fd/1", "fd/2"] {
        assert_eq!(link(name), Path::new("/dev/null"));
    }
    assert_eq!(link("cwd"), Path::new("/"), "it holds no folder of the user's");
    // What ends programs does not end it.
    for number in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        signal(holder, number);
    }
    let status = String::from_utf8(read("status")).unwrap();
    assert!(status.contains("Threads:\t1\n") && scene.is_tethered(), "{status}");
    signal(holder, Signal::KILL);
    wait_until("the tether drops", || !scene.is_tethered());
}

#[test]
fn a_check_that_ends_takes_the_tether_with_it_for_nobody() {
    let scene = ready();
    // What the check leaves behind is ended with it; what holds the tether is not.
    let check =
        format!(r#"exec:["sh","-c","sleep 1000 & echo $! >{}; exit 0"]"#, scene.self_folder.join("left").display());
    hook(&scene).arg("--check").arg(&check).run().assert_released();
    assert!(scene.is_tethered());
    let left = fs::read_to_string(scene.self_folder.join("left")).unwrap();
    wait_until("what the check left is gone", || !Path::new(&format!("/proc/{}", left.trim())).exists());
    let [holder] = holders(&scene.self_folder)[..] else { panic!("{:?}", holders(&scene.self_folder)) };
    signal(holder, Signal::KILL);
}

#[test]
fn it_keeps_nothing_that_the_hook_was_given() {
    let scene = ready();
    hook(&scene).with_open_file(&scene.termination).run().assert_released();
    let [holder] = holders(&scene.self_folder)[..] else { panic!("{:?}", holders(&scene.self_folder)) };
    let kept: Vec<PathBuf> = fs::read_dir(format!("/proc/{holder}/fd"))
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
        .collect();
    assert!(!kept.iter().any(|path| path.ends_with(scene.termination.file_name().unwrap())), "{kept:?}");
    signal(holder, Signal::KILL);
}

#[test]
fn the_flags_twin_does_the_same() {
    let scene = ready();
    scene.hook().env("PODGATE_LEAVE_TETHER", "false").run().assert_released();
    assert!(!scene.is_tethered());
    scene.hook().env("PODGATE_LEAVE_TETHER", "true").run().assert_released();
    assert!(scene.is_tethered());
    holders(&scene.self_folder).into_iter().for_each(|pid| signal(pid, Signal::KILL));
}

#[test]
fn it_costs_next_to_nothing() {
    let scene = ready();
    hook(&scene).run().assert_released();
    let [holder] = holders(&scene.self_folder)[..] else { panic!("{:?}", holders(&scene.self_folder)) };
    let switches = || {
        let status = fs::read_to_string(format!("/proc/{holder}/status")).unwrap();
        status.lines().filter(|line| line.contains("ctxt_switches")).map(str::to_owned).collect::<Vec<_>>()
    };
    wait_until("it sleeps", || fs::read_to_string(format!("/proc/{holder}/stat")).unwrap().contains(") S "));
    let before = switches();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(switches(), before, "it never wakes");
    signal(holder, Signal::KILL);
}

#[test]
fn it_is_taken_before_the_hook_waits_and_by_every_new_start() {
    let mut scene = Scene::with_controller();
    let waiting = hook(&scene).spawn_waiting();
    assert!(scene.is_tethered());
    let first = holders(&scene.self_folder);
    scene.set_state("db", State::Ready);
    waiting.wait().assert_released();
    // The container was killed, and starts again before the first one's is gone.
    hook(&scene).run().assert_released();
    let all = holders(&scene.self_folder);
    let second: Vec<u32> = all.iter().copied().filter(|pid| !first.contains(pid)).collect();
    assert_eq!(second.len(), 1, "{first:?} {all:?}");
    all.iter().filter(|pid| !second.contains(pid)).for_each(|pid| signal(*pid, Signal::KILL));
    wait_until("the first is gone", || holders(&scene.self_folder) == second);
    assert!(scene.is_tethered());
    signal(second[0], Signal::KILL);
    wait_until("the tether drops", || !scene.is_tethered());
}

#[test]
fn a_tether_that_cannot_be_left_is_no_reason_to_fail() {
    let scene = ready();
    fs::remove_dir(&scene.self_folder).unwrap();
    hook(&scene).run().assert_released();
    assert!(scene.log_text().contains("can't start the tether process"), "{}", scene.log_text());
}

#[test]
fn it_ends_with_the_containers_first_process() {
    let Some(mut shell) = Shell::in_namespaces(&["--user", "--map-root-user", "--fork", "--pid", "--mount-proc"])
    else {
        return;
    };
    let scene = ready();
    let errors = scene.root.join("errors");
    shell.start_agent(&hook(&scene), &errors);
    assert_eq!(shell.wait_for_agent(), 0, "{}", fs::read_to_string(&errors).unwrap());
    assert!(scene.is_tethered());
    // The shell is the first process.
    drop(shell);
    wait_until("the tether drops", || !scene.is_tethered());
}
