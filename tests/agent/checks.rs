//! `--check` by every scheme, `--fallback-check`, and `podgate check`.

use crate::support::{Agent, Scene, wait_until};
use podgate::core::state::State;
use std::io::{Read, Write};
use std::net::{Ipv6Addr, TcpListener};
use std::path::Path;
use std::time::Duration;

fn look(url: &str) -> crate::support::AgentOutput {
    Agent::new(&["check", url, "--check-timeout", "300ms"], Path::new("/nonexistent")).run()
}

/// A server that gives `answer` to everybody, a byte every `pause`; its port.
fn serve(answer: &'static str, pause: Duration) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 1024]);
                for byte in answer.as_bytes().chunks(if pause.is_zero() { 4096 } else { 1 }) {
                    let _ = stream.write_all(byte);
                    std::thread::sleep(pause);
                }
            });
        }
    });
    port
}

#[test]
fn tcp() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for host in ["127.0.0.1", "localhost"] {
        look(&format!("tcp://{host}:{port}")).assert_released();
    }
    drop(listener);
    look(&format!("tcp://127.0.0.1:{port}")).assert_failed(69, "refused");
    if let Ok(listener) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) {
        look(&format!("tcp://[::1]:{}", listener.local_addr().unwrap().port())).assert_released();
    }
}

#[test]
fn http() {
    let at_once = Duration::ZERO;
    for (answer, says) in [
        ("HTTP/1.1 200 OK\r\n\r\n", None),
        ("HTTP/1.0 204 \r\n\r\n", None),
        ("HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n", None),
        ("HTTP/1.1 503 Service Unavailable\r\n\r\n", Some("answered 503")),
        ("HTTP/1.1 404 Not Found\r\n\r\n", Some("answered 404")),
        ("HTTP/1.1 199 Odd\r\n\r\n", Some("answered 199")),
        ("SSH-2.0-OpenSSH_9.2\r\n", Some("not an HTTP response")),
        ("", Some("not an HTTP response")),
    ] {
        let run = look(&format!("http://127.0.0.1:{}/ready?x=1", serve(answer, at_once)));
        match says {
            None => run.assert_released(),
            Some(says) => run.assert_failed(69, says),
        }
    }
    // Endless first line; a server that says nothing; one that drips.
    look(&format!("http://127.0.0.1:{}", serve(Box::leak("x".repeat(1 << 20).into()), at_once)))
        .assert_failed(69, "not an HTTP response");
    for drip in [serve("HTTP/1.1 200 OK\r\n", Duration::from_millis(100)), {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = silent.local_addr().unwrap().port();
        std::mem::forget(silent);
        port
    }] {
        let run = look(&format!("http://127.0.0.1:{drip}"));
        run.assert_failed(69, "no answer in time");
        assert!(run.took < Duration::from_secs(5), "{run:?}");
    }
}

#[test]
fn exec() {
    look(r#"exec:["true"]"#).assert_released();
    look(r#"exec:["sh","-c","echo noise; echo noise >&2; exit 3"]"#).assert_failed(69, "exited with 3");
    look(r#"exec:["sh","-c","kill -15 $$"]"#).assert_failed(69, "died of signal 15");
    look(r#"exec:["sleep","60"]"#).assert_failed(69, "timed out");
    look(r#"exec:["/nonexistent"]"#).assert_failed(69, "command not found");
    look(r#"exec:["/etc/passwd"]"#).assert_failed(69, "denied");
}

#[test]
fn file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ready");
    let (bare, full) = (format!("file://{}", path.display()), format!("file://{}+content", path.display()));
    look(&bare).assert_failed(69, "not found");
    std::fs::write(&path, "").unwrap();
    look(&bare).assert_released();
    look(&full).assert_failed(69, "empty");
    std::fs::write(&path, "x").unwrap();
    look(&full).assert_released();
}

#[test]
fn a_name_is_looked_up_without_holding_up_the_hook() {
    // No resolver may be asked from a test: `.invalid` exists nowhere, whoever answers or does not.
    let run = Agent::new(&["post-start", "--container", "db"], Path::new("/nonexistent"))
        .flag("check", "tcp://nobody.invalid:1")
        .flag("check-timeout", "100ms")
        .flag("timeout", "300ms")
        .run();
    run.assert_failed(75, "tcp://nobody.invalid:1 (no");
    assert!(run.took < Duration::from_secs(5), "{run:?}");
}

#[test]
fn checks_alone_need_no_sidecar() {
    let scene = Scene::new();
    let flag = scene.root.join("up");
    let hook = Agent::new(&["post-start", "--container", "db", "--timeout", "20s"], &scene.termination)
        .flag("check", format!("file://{}", flag.display()))
        .flag("check", r#"exec:["true"]"#)
        .flag("termination-log", &scene.termination)
        .spawn_waiting();
    wait_until("the one that passed is named no more", || scene.termination_message().ends_with("(not found)"));
    std::fs::write(&flag, "").unwrap();
    hook.wait().assert_released();
}

#[test]
fn checks_and_states_must_all_hold_and_the_controller_is_told() {
    let mut scene = Scene::with_controller();
    let flag = scene.root.join("up");
    let hook = scene.hook().flag("check", format!("file://{}", flag.display())).spawn_waiting();
    assert!(!scene.report().unwrap().check_passed);
    std::fs::write(&flag, "").unwrap();
    wait_until("it reports", || scene.report().unwrap().check_passed);
    scene.set_state("db", State::Ready);
    hook.wait().assert_released();
}

#[test]
fn no_process_that_a_check_started_outlives_it() {
    let scene = Scene::with_controller();
    let pids = scene.root.join("pids");
    // One child in the command's group, one in a session of its own, orphaned.
    let script = format!(
        "sleep 600 & echo $! >> {0}; setsid sh -c 'echo $$ >> {0}; exec sleep 600' & sleep 0.05; exit 1",
        pids.display()
    );
    let check = format!("exec:{}", serde_json::to_string(&["sh", "-c", &script]).unwrap());
    scene.hook().flag("check", check).flag("timeout", "600ms").run().assert_failed(75, "exited with 1");
    let pids = std::fs::read_to_string(pids).unwrap();
    assert!(pids.lines().count() >= 4, "it was made more than once: {pids}");
    for pid in pids.lines() {
        let lives = std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"));
        assert!(!lives, "{pid} lives");
    }
}

#[test]
fn checks_that_take_long_do_not_hold_up_the_time_limit() {
    let scene = Scene::with_controller();
    let silent: Vec<TcpListener> = (0..4).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let hook = scene.hook().flag("timeout", "200ms");
    let hook = silent.iter().fold(hook, |hook, listener| {
        hook.flag("check", format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port()))
    });
    let run = hook.run();
    run.assert_failed(75, "no answer in time");
    assert!(run.took < Duration::from_secs(1), "{run:?}");
}

#[test]
fn the_fallback_check_judges_once_the_controller_has_died() {
    for check in ["file", "exec"] {
        let mut scene = Scene::with_controller();
        let flag = scene.root.join("up");
        let url = match check {
            "file" => format!("file://{}", flag.display()),
            _ => format!("exec:{}", serde_json::to_string(&["test", "-e", flag.to_str().unwrap()]).unwrap()),
        };
        let mut hook = scene.hook().flag("fallback-check", &url).spawn_waiting();
        std::fs::write(&flag, "").unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert!(hook.is_running(), "it does not count while the controller lives");
        std::fs::remove_file(&flag).unwrap();
        scene.kill_controller();
        wait_until("the death is noticed", || {
            scene.termination_message().contains("the sidecar is dead; fallback check")
        });
        std::fs::write(&flag, "").unwrap();
        hook.wait().assert_released();
    }
}

#[test]
fn without_one_the_reason_says_that_the_controller_is_dead() {
    let mut scene = Scene::with_controller();
    let hook = scene.hook().spawn_waiting();
    scene.kill_controller();
    let says = "the sidecar is dead and can't restart while this hook runs; add --fallback-check";
    wait_until("the death is noticed", || scene.termination_message().contains(says));
    // A controller in a container of its own kind can come back all the same.
    scene.start_controller();
    wait_until("so is its return", || !scene.termination_message().contains("dead"));
    scene.set_state("db", State::Ready);
    hook.wait().assert_released();
}

/// A fallback check that runs when the controller returns is ended, and its end does not make the hook spin.
#[test]
fn a_fallback_check_that_nobody_asks_any_more_is_ended() {
    let mut scene = Scene::with_controller();
    let pid = scene.root.join("pid");
    let script = format!("echo $$ > {}; exec sleep 600", pid.display());
    let url = format!("exec:{}", serde_json::to_string(&["sh", "-c", &script]).unwrap());
    let hook = scene.hook().flag("fallback-check", &url).flag("check-timeout", "1h").spawn_waiting();
    scene.kill_controller();
    wait_until("it runs", || std::fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n')));
    scene.start_controller();
    let pid = std::fs::read_to_string(pid).unwrap();
    wait_until("it is ended", || !Path::new(&format!("/proc/{}", pid.trim())).exists());
    let before = hook.sleep_count();
    std::thread::sleep(Duration::from_millis(300));
    assert!(hook.sleep_count() - before <= 3, "{} wake-ups", hook.sleep_count() - before);
    scene.set_state("db", State::Ready);
    hook.wait().assert_released();
}
