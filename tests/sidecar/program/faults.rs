//! Tests of the sidecar with a faulty kernel, sandbox or volume.

use super::api::{Api, in_namespaces};
use super::clock_step::library;
use super::*;
use serde_json::json;
use std::fs;

#[test]
fn signal_ends_the_sidecar_before_it_has_set_up_the_board() {
    for fault in ["unwritable", "locked"] {
        let pod = Pod::new();
        let board = pod.path("board");
        let volume = fs::File::open(pod.path("self")).unwrap();
        if fault == "unwritable" {
            fs::create_dir_all(board.join(names::ANNOTATIONS_FILE).join("file")).unwrap();
        } else {
            volume.lock().unwrap();
        }
        let mut command = pod.command(&["--publish", "none", "--containers", "[]"]);
        command.stderr(fs::File::create(pod.path("log")).unwrap());
        let sidecar = Sidecar { child: Some(command.spawn().unwrap()) };
        let log = || fs::read_to_string(pod.path("log")).unwrap();
        until("the sidecar waits", || ["retrying", "waiting for a lock"].iter().any(|text| log().contains(text)));
        assert_eq!(sidecar.end(Signal::TERM).status.code(), Some(143), "{fault}");
    }
}

#[test]
fn states_are_published_without_a_bell() {
    let pod = Pod::new();
    // The sidecar cannot remove this directory, so it cannot create the FIFO.
    fs::create_dir_all(pod.path("board/.bell.tmp/file")).unwrap();
    let sidecar = pod.sidecar(r#"[{"name":"db","mode":"post-start"}]"#, &[]);
    pod.report("db", Report::default());
    until("db is Ready", || pod.state("db") == State::Ready);
    let log = stderr(&sidecar.end(Signal::TERM));
    assert_eq!((log.matches("WARN").count(), log.matches("cannot create the bell").count()), (1, 1), "{log}");
}

#[test]
fn denied_lock_gives_an_error_message() {
    let pod = Pod::new();
    let mut command = pod.command(&["--publish", "none", "--containers", "[]"]);
    let output = command.env("LD_PRELOAD", library(&pod, "no_ofd_locks")).output().unwrap();
    assert_eq!(output.status.code(), Some(78));
    assert!(stderr(&output).contains("open-file-description locks"), "{}", stderr(&output));
}

/// Declarations of two containers. The sidecar prepares the directory of `evil` before the directory of `db`.
const EVIL: &str = r#"[{"name":"evil","mode":"post-start"},{"name":"db","mode":"post-start"}]"#;

fn evil_pod() -> serde_json::Value {
    let hook = json!({"postStart": {"exec": {"command": ["/podgate/bin/podgate", "post-start"]}}});
    json!({"metadata": {"name": "p", "resourceVersion": "1"},
           "spec": {"containers": [{"name": "evil", "lifecycle": hook}, {"name": "db", "lifecycle": hook}]}})
}

/// Linux counts inotify watches per user id on the whole node, so other Pods can use up the limit.
#[test]
fn reports_are_read_when_the_node_has_no_inotify_watch_left() {
    let pod = Pod::new();
    let command = pod.command(&["--publish", "none", "--containers", EVIL]);
    let Some(mut command) = in_namespaces(&command, "echo 0 > /proc/sys/user/max_inotify_watches") else { return };
    let sidecar = Sidecar { child: Some(command.spawn().unwrap()) };
    assert!(pod.command(&["ready", "--timeout", "10s"]).status().unwrap().success());
    pod.report("db", Report::default());
    until("db is Ready", || pod.state("db") == State::Ready);
    let log = stderr(&sidecar.end(Signal::TERM));
    assert_eq!((log.matches("WARN").count(), log.matches("cannot create or watch").count()), (1, 1), "{log}");
}

/// Each attack is a change that the container `evil` made to the volume before the sidecar restarted.
#[test]
fn container_cannot_hide_the_reports_of_others_from_a_restarted_sidecar() {
    let attacks = [
        "mkdir -p self/evil/.report.tmp/x",
        "mkdir -p self/evil/.report.tmp self/evil/.tether.tmp",
        "mkdir -p self/evil; dd if=/dev/zero of=self/evil/fill 2>/dev/null || true",
        "touch self/evil",
    ];
    for attack in attacks {
        let setup = format!("mount -t tmpfs -o size=1m none self; {attack}");
        for use_api in [false, true] {
            let (pod, api) = (Pod::new(), Api::new(evil_pod()));
            let setup = setup.replace("self", pod.path("self").to_str().unwrap());
            let sidecar = if use_api {
                api.sidecar(&pod, &setup)
            } else {
                let command = pod.command(&["--publish", "none", "--containers", EVIL]);
                in_namespaces(&command, &setup).map(|mut command| Sidecar { child: Some(command.spawn().unwrap()) })
            };
            let Some(sidecar) = sidecar else { return };
            assert!(pod.command(&["ready", "--timeout", "10s"]).status().unwrap().success());
            let volume = format!("/proc/{}/root{}", sidecar.child.as_ref().unwrap().id(), pod.path("self").display());
            let directory = PathBuf::from(volume).join("db");
            until("the directory exists", || directory.is_dir());
            if pod.report_to(&directory, Report::default()).is_err() {
                fs::remove_file(directory.with_file_name("evil").join("fill")).unwrap();
                pod.report_to(&directory, Report::default()).unwrap();
            }
            until(&format!("db is Ready, api {use_api}: {attack}"), || pod.state("db") == State::Ready);
            if use_api {
                until("db is Ready in the API", || api.annotation("status.podgate.io/db").as_deref() == Some("Ready"));
            }
        }
    }
}

/// Each container writes the largest report that the sidecar reads, with each kind of list.
#[test]
fn reports_of_hostile_containers_use_little_memory() {
    const HOSTILE: usize = 8;
    let pod = Pod::new();
    let name = |number| format!("evil-{number}");
    let list: Vec<_> = (0..HOSTILE).map(|number| json!({"name": name(number), "mode": "entrypoint"})).collect();
    let sidecar = pod.sidecar(&serde_json::Value::from(list).to_string(), &[]);
    let rss = || {
        let status = fs::read_to_string(format!("/proc/{}/status", sidecar.child.as_ref().unwrap().id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap().trim();
        line.trim_end_matches(" kB").parse::<usize>().unwrap()
    };
    let before = rss();
    let lists = [names::BOARD_FILE_MAX - 1000, 0].map(|size| "a,".repeat(size / 2));
    for (round, (waiting_for, watching)) in [(&lists[1], &lists[0]), (&lists[0], &lists[1])].into_iter().enumerate() {
        for number in 0..HOSTILE {
            let (sandbox, epoch) = (sandbox_id(), pod.board().epoch);
            let text = format!(
                "epoch=\"{epoch}\"\ngate=\"waiting\"\nsandbox=\"{sandbox}\"\nticket=\"t{round}\"\n\
                 waiting-for=\"{waiting_for}\"\nwatching=\"{watching}\""
            );
            files::replace(&pod.path("self").join(name(number)), names::REPORT_FILE, text.as_bytes(), 0o644).unwrap();
        }
        // The first gate waits for nothing. The second one counts as a restart.
        let is_read = |number| match round {
            0 => pod.board().confirmed_tickets.contains_key(&name(number)),
            _ => pod.board().restarts.contains_key(&name(number)),
        };
        until("each report is read", || (0..HOSTILE).all(is_read));
    }
    let growth = rss().saturating_sub(before);
    assert!(growth < 8 * 1024, "{HOSTILE} containers made the sidecar grow by {growth} kB");
}
