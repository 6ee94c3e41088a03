//! Tests of `--check` with every scheme, `--fallback-check` and `podgate check`.

use crate::needs::missing;
use crate::support::{Agent, PROGRAM, Scene, Shell, send, wait_until};
use podgate::core::state::State;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::Signal;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv6Addr, TcpListener};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

fn run_check(url: &str) -> crate::support::AgentOutput {
    Agent::new(&["check", url, "--check-timeout", "300ms"], Path::new("/nonexistent")).run()
}

/// Starts a server that sends `answer` to every client. Returns the server's port. Unless `pause` is zero, the server
/// sends one byte per `pause`.
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
fn tcp_check_passes_if_the_port_is_open() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for host in ["127.0.0.1", "localhost"] {
        run_check(&format!("tcp://{host}:{port}")).assert_released();
    }
    drop(listener);
    run_check(&format!("tcp://127.0.0.1:{port}")).assert_failed(69, "refused");
    if let Ok(listener) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) {
        run_check(&format!("tcp://[::1]:{}", listener.local_addr().unwrap().port())).assert_released();
    }
}

#[test]
fn http_check_passes_with_a_2xx_or_3xx_answer() {
    let at_once = Duration::ZERO;
    for (answer, message) in [
        ("HTTP/1.1 200 OK\r\n\r\n", None),
        ("HTTP/1.0 204 \r\n\r\n", None),
        ("HTTP/1.1 302 Found\r\n\r\n", None),
        ("HTTP/1.1 302 Found\r\nLocation: http://example.com/x\r\n\r\n", None),
        ("HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n", Some("stopped after 10 redirects")),
        (
            "HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1/\r\n\r\n",
            Some("redirects to HTTPS, and the agent has no TLS"),
        ),
        ("HTTP/1.1 503 Service Unavailable\r\n\r\n", Some("HTTP status 503")),
        ("HTTP/1.1 404 Not Found\r\n\r\n", Some("HTTP status 404")),
        ("HTTP/1.1 199 Odd\r\n\r\n", Some("the connection was closed")),
        ("SSH-2.0-OpenSSH_9.2\r\n", Some("not an HTTP response")),
        ("", Some("the connection was closed")),
    ] {
        let run = run_check(&format!("http://127.0.0.1:{}/ready?x=1", serve(answer, at_once)));
        match message {
            None => run.assert_released(),
            Some(message) => run.assert_failed(69, message),
        }
    }
    // These servers send an endless first line, one byte every 100 ms, or nothing.
    run_check(&format!("http://127.0.0.1:{}", serve(Box::leak("x".repeat(1 << 20).into()), at_once)))
        .assert_failed(69, "the response is too long");
    for port in [serve("HTTP/1.1 200 OK\r\n", Duration::from_millis(100)), {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = silent.local_addr().unwrap().port();
        std::mem::forget(silent);
        port
    }] {
        let run = run_check(&format!("http://127.0.0.1:{port}"));
        run.assert_failed(69, "no answer in time");
    }
}

/// A gate that waits for a server that does not answer still hears SIGTERM, and the check has its own time limit.
#[test]
fn http_check_does_not_delay_a_signal() {
    let scene = Scene::with_sidecar();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let check = format!("http://{}/", silent.local_addr().unwrap());
    let gate = scene.gate().flag("check", check).flag("check-timeout", "10m").flag("timeout", "10m");
    let gate = gate.with_command(&["true"]).spawn_waiting();
    let _request = silent.accept().unwrap();
    gate.signal(Signal::TERM);
    assert_eq!(gate.wait().code, 143);
}

/// Without a host, a check asks the Pod's IP, with the host and the headers of the kubelet's request.
#[test]
fn check_without_a_host_asks_the_pods_ip() {
    let mut scene = Scene::with_sidecar();
    let server = TcpListener::bind("127.0.0.2:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let check = |url: String| Agent::new(&["check", &url], Path::new("/nonexistent")).flag("board", &scene.board);
    check(format!("tcp://:{port}")).run().assert_failed(69, "no sidecar has published the Pod's IP; write a host");
    let (heads, received) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let mut buffer = [0; 1024];
            let length = stream.as_ref().unwrap().read(&mut buffer).unwrap();
            heads.send(String::from_utf8_lossy(&buffer[..length]).into_owned()).unwrap();
            let _ = stream.unwrap().write_all(b"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n");
        }
    });
    scene.publish(|s| s.pod_ip = Some("127.0.0.2".into()));
    let check = |url: String| Agent::new(&["check", &url], Path::new("/nonexistent")).flag("board", &scene.board);
    check(format!("tcp://:{port}")).run().assert_released();
    assert_eq!(received.recv().unwrap(), "");
    let url = format!(r#"http://:{port}/a?b ["X-A: 1, 2","Accept: "]"#);
    check(url.clone()).run().assert_failed(69, "HTTP status 503");
    let head = received.recv().unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let expected = |agent: &str| {
        format!(
            "GET /a?b HTTP/1.1\r\nHost: 127.0.0.2:{port}\r\nUser-Agent: {agent}/podgate-{version}\r\nX-A: 1, 2\r\nConnection: close\r\n\r\n"
        )
    };
    assert_eq!(head, expected("kube-probe"));
    // Every response is a success for a hook.
    check(url).arg("--hook").run().assert_released();
    assert_eq!(received.recv().unwrap(), expected("kube-lifecycle"));
    check("http://127.0.0.2:1/".to_owned()).arg("--hook").run().assert_failed(69, "refused");
}

#[test]
fn exec_check_passes_with_exit_code_0() {
    run_check(r#"exec:["true"]"#).assert_released();
    run_check(r#"exec:["sh","-c","echo noise; echo noise >&2; exit 3"]"#).assert_failed(69, "exited with 3");
    run_check(r#"exec:["sh","-c","kill -15 $$"]"#).assert_failed(69, "killed by signal 15");
    run_check(r#"exec:["sleep","60"]"#).assert_failed(69, "timed out");
    run_check(r#"exec:["/nonexistent"]"#).assert_failed(69, "command not found");
    run_check(r#"exec:["/etc/passwd"]"#).assert_failed(69, "denied");
}

#[test]
fn file_check_passes_if_the_file_exists_or_has_content() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ready");
    let (bare, full) = (format!("file://{}", path.display()), format!("file://{}+content", path.display()));
    run_check(&bare).assert_failed(69, "not found");
    std::fs::write(&path, "").unwrap();
    run_check(&bare).assert_released();
    run_check(&full).assert_failed(69, "empty");
    std::fs::write(&path, "x").unwrap();
    run_check(&full).assert_released();
    run_check(&format!("file://{}+content", directory.path().display())).assert_failed(69, "not a regular file");
}

#[test]
fn unix_check_passes_if_a_stream_socket_accepts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sock");
    let url = format!("unix://{}", path.display());
    run_check(&url).assert_failed(69, "not found");
    std::fs::write(&path, "").unwrap();
    run_check(&url).assert_failed(69, "not a socket");
    std::fs::remove_file(&path).unwrap();
    let datagram = UnixDatagram::bind(&path).unwrap();
    run_check(&url).assert_failed(69, "not a stream socket");
    drop(datagram);
    std::fs::remove_file(&path).unwrap();
    let listener = UnixListener::bind(&path).unwrap();
    run_check(&url).assert_released();
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    run_check(&format!("unix://{}", link.display())).assert_released();
    // Nothing accepts the connections, so the backlog fills up. The check must not block.
    let client = || socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK, None).unwrap();
    while connect(client(), &SocketAddrUnix::new(&path).unwrap()).is_ok() {}
    run_check(&url).assert_failed(69, "no answer in time");
    drop(listener);
    run_check(&url).assert_failed(69, "refused");
    run_check(&format!("unix:///{}", "x".repeat(200))).assert_failed(64, "at most 107 bytes");
}

/// Also tests a bind mount of the same file system. Such a mount has the device number of its parent directory.
#[test]
fn mount_check_passes_at_a_mount_point_that_answers() {
    let Some(mut shell) = Shell::in_namespaces(&["--user", "--map-root-user", "--mount"]) else { return };
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let check = |shell: &mut Shell, name: &str| {
        let errors = at("errors");
        let line = format!("{PROGRAM} check 'mount://{}' --check-timeout 500ms 2>{errors}", at(name));
        (shell.run(&line), std::fs::read_to_string(errors).unwrap())
    };
    let assert_failed = |(code, errors): (i32, String), why: &str| {
        assert!(code == 69 && errors.trim_end().ends_with(why), "{code}: {errors}");
    };
    assert_failed(check(&mut shell, "a b"), "not found");
    std::fs::create_dir(at("a b")).unwrap();
    assert_failed(check(&mut shell, "a b"), "not a mount point");
    std::os::unix::fs::symlink(at("a b"), at("link")).unwrap();
    assert_eq!(shell.run(&format!("mount --bind '{0}' '{0}'", at("a b"))), 0);
    for name in ["a b", "link"] {
        assert_eq!(check(&mut shell, name), (0, String::new()), "{name}");
    }
}

/// The FUSE file system in this test has no server that answers.
#[test]
fn mount_check_of_a_dead_mount_times_out() {
    let Some(mut shell) = Shell::in_namespaces(&["--user", "--map-root-user", "--mount"]) else { return };
    let scene = Scene::new();
    let at = |name: &str| scene.root.join(name).display().to_string();
    std::fs::create_dir(at("data")).unwrap();
    let options = "fd=9,rootmode=40000,user_id=0,group_id=0";
    let mount = format!("exec 9<>/dev/fuse && mount -i -t fuse -o {options} none {}", at("data"));
    // Test here whether the device can be opened. In the shell, a failed `exec` would end the shell.
    let can_open_fuse = File::options().read(true).write(true).open("/dev/fuse").is_ok();
    if !can_open_fuse || shell.run(&mount) != 0 {
        return missing("fuse");
    }
    let check = format!("mount://{}", at("data"));
    let line = format!("{PROGRAM} check {check} --check-timeout 300ms 2>{}", at("errors"));
    assert_eq!(shell.run(&line), 69);
    assert!(std::fs::read_to_string(at("errors")).unwrap().ends_with("timed out\n"));
    // A gate with this check still keeps its own time limit.
    let gate = Agent::new(&["entrypoint", "--timeout", "2s", "--check-timeout", "300ms"], &scene.termination)
        .flag("check", check)
        .flag("termination-log", &scene.termination)
        .with_command(&["true"]);
    shell.start_agent(&gate, &scene.root.join("errors"));
    assert_eq!(shell.wait_for_agent(), 75);
    assert!(scene.termination_message().contains("(timed out)"), "{}", scene.termination_message());
}

#[test]
fn name_lookup_does_not_delay_the_time_limit() {
    // Use a name under `.invalid` (RFC 6761): the lookup never succeeds, with or without a working resolver.
    let run = Agent::new(&["post-start", "--container", "db"], Path::new("/nonexistent"))
        .flag("check", "tcp://nobody.invalid:1")
        .flag("check-timeout", "100ms")
        .flag("timeout", "300ms")
        .run();
    run.assert_failed(75, "tcp://nobody.invalid:1 (no");
}

#[test]
fn hook_with_only_checks_needs_no_sidecar() {
    let scene = Scene::new();
    let flag = scene.root.join("up");
    let hook = Agent::new(&["post-start", "--container", "db", "--timeout", "20s"], &scene.termination)
        .flag("check", r#"exec:["true"]"#)
        .flag("check", format!("file://{}", flag.display()))
        .flag("termination-log", &scene.termination)
        .spawn_waiting();
    wait_until("the message contains only the failing check", || scene.termination_message().ends_with("(not found)"));
    std::fs::write(&flag, "").unwrap();
    hook.wait().assert_released();
}

#[test]
fn hook_reports_passed_checks_and_waits_for_the_states() {
    let mut scene = Scene::with_sidecar();
    let flag = scene.root.join("up");
    let hook = scene.hook().flag("check", format!("file://{}", flag.display())).spawn_waiting();
    assert!(!scene.report().unwrap().check_passed);
    std::fs::write(&flag, "").unwrap();
    wait_until("the hook reports the passed check", || scene.report().unwrap().check_passed);
    scene.set_state("db", State::Ready);
    hook.wait().assert_released();
}

#[test]
fn daemons_of_a_check_outlive_it() {
    let scene = Scene::with_sidecar();
    let pids = scene.root.join("pids");
    // One daemon stays in the command's process group, and one has its own session. The checks end in all ways.
    for (end, limit, message) in
        [("exit 0", "20s", ""), ("exit 1", "20s", "exited with 1"), ("wait", "1s", "timed out")]
    {
        let script = format!("sleep 600 & echo $! >>{0}; setsid sleep 600 & echo $! >>{0}; {end}", pids.display());
        let check = format!("exec:{}", serde_json::to_string(&["sh", "-c", &script]).unwrap());
        let run = Agent::new(&["check", &check, "--check-timeout", limit], Path::new("/nonexistent")).run();
        assert!(run.stderr.contains(message) && (run.code == 0) == message.is_empty(), "{run:?}");
    }
    let pids = std::fs::read_to_string(pids).unwrap();
    assert_eq!(pids.lines().count(), 6);
    for pid in pids.lines() {
        let is_alive = std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"));
        assert!(is_alive, "a daemon was killed");
        send(pid.parse().unwrap(), libc::SIGKILL);
    }
}

/// A check must not kill the container's other processes. Process 1 reaps those that end.
#[test]
fn gate_with_pid_1_kills_no_process_and_reaps_all() {
    if Shell::in_namespaces(&["--user", "--map-root-user", "--fork", "--pid", "--mount-proc"]).is_none() {
        return;
    }
    let scene = Scene::new();
    let at = |name: &str| scene.root.join(name).display().to_string();
    let exists = |name: &str| scene.root.join(name).exists();
    // Each attempt of the check leaves a process that ends later. The first attempt also starts a background process,
    // and fails once the test has started `orphan`.
    let script = format!(
        "(sleep 0.02 &); [ -e {0} ] || {{ sleep 600 & echo $! >{1}; touch {0}; until [ -e {2} ]; do sleep 0.01; done; exit 3; }}; [ -e {3} ]",
        at("first"),
        at("own"),
        at("orphan"),
        at("pass"),
    );
    let check = format!("exec:{}", serde_json::to_string(&["sh", "-c", &script]).unwrap());
    let gate = scene.gate().flag("check", check).flag("check-timeout", "15s");
    let gate = gate.with_command(&["cat", "/proc/1/comm"]).in_a_pid_namespace().spawn_waiting();
    wait_until("the first attempt runs", || exists("first"));
    let script =
        format!("(setsid sh -c 'echo $$ >{0}.new; mv {0}.new {0}; exec sleep 600' >/dev/null 2>&1 &)", at("orphan"));
    let mut enter = Command::new("nsenter");
    enter.args(["-U", "--preserve-credentials", "-p", "-m", "-t", &gate.child().to_string(), "sh", "-c", &script]);
    assert!(enter.status().unwrap().success());
    wait_until("the second attempt fails", || scene.termination_message().contains("(exited with 1)"));
    let is_alive = |name: &str| {
        let pid = std::fs::read_to_string(scene.root.join(name)).unwrap();
        let stat = format!("/proc/{}/root/proc/{}/stat", gate.child(), pid.trim());
        std::fs::read_to_string(stat).is_ok_and(|stat| !stat.contains(") Z"))
    };
    assert!(is_alive("orphan"), "the agent killed a process that the check did not start");
    assert!(is_alive("own"), "the agent killed a process that the check started");
    let processes = format!("/proc/{}/root/proc", gate.child());
    let stats = || std::fs::read_dir(&processes).unwrap().map(|entry| entry.unwrap().path().join("stat"));
    let is_zombie = |stat| std::fs::read_to_string(stat).is_ok_and(|stat| stat.contains(") Z 1 "));
    wait_until("the agent has reaped all processes", || !stats().any(is_zombie));
    std::fs::write(at("pass"), "").unwrap();
    assert_eq!(gate.wait().stdout, "cat\n");
}

/// After SIGKILL, the agent cannot reap a traced process, just as it cannot reap a process in uninterruptible sleep.
#[test]
fn check_that_cannot_be_killed_does_not_block_the_agent() {
    let directory = tempfile::tempdir().unwrap();
    let traced = directory.path().join("traced");
    let script = format!(
        "import ctypes, os, time\n\
         libc, parent = ctypes.CDLL(None), os.getpid()\n\
         libc.prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0)\n\
         if os.fork() == 0:\n\
         \x20   os.setsid()\n\
         \x20   libc.ptrace(0x4206, parent, 0, 0) == 0 and open('{}', 'w').write(str(os.getpid()))\n\
         time.sleep(600)",
        traced.display()
    );
    let check = format!("exec:{}", serde_json::to_string(&["python3", "-c", &script]).unwrap());
    let run = Agent::new(&["check", &check, "--check-timeout", "2s"], Path::new("/nonexistent")).run();
    run.assert_failed(69, "timed out");
    match std::fs::read_to_string(traced) {
        Ok(tracer) => send(tracer.parse().unwrap(), libc::SIGKILL),
        Err(_) => missing("ptrace"),
    }
}

#[test]
fn slow_checks_do_not_delay_the_time_limit() {
    let scene = Scene::with_sidecar();
    let silent: Vec<TcpListener> = (0..4).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let hook = scene.hook().flag("timeout", "200ms").flag("check-timeout", "1m");
    let hook = silent.iter().fold(hook, |hook, listener| {
        hook.flag("check", format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port()))
    });
    hook.run().assert_failed(75, "timed out after 200ms, still waiting for ");
}

#[test]
fn fallback_check_counts_only_after_the_sidecar_has_died() {
    for check in ["file", "exec"] {
        let mut scene = Scene::with_sidecar();
        let flag = scene.root.join("up");
        let url = match check {
            "file" => format!("file://{}", flag.display()),
            _ => format!("exec:{}", serde_json::to_string(&["test", "-e", flag.to_str().unwrap()]).unwrap()),
        };
        let mut hook = scene.hook().flag("fallback-check", &url).spawn_waiting();
        std::fs::write(&flag, "").unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert!(hook.is_running(), "while the sidecar runs, the fallback check must not release the hook");
        std::fs::remove_file(&flag).unwrap();
        scene.kill_sidecar();
        wait_until("the hook detects that the sidecar is not running", || {
            scene.termination_message().contains("the sidecar is not running; fallback check")
        });
        std::fs::write(&flag, "").unwrap();
        hook.wait().assert_released();
    }
}

#[test]
fn without_fallback_check_the_reason_names_the_dead_sidecar() {
    let mut scene = Scene::with_sidecar();
    let hook = scene.hook().spawn_waiting();
    scene.kill_sidecar();
    let message = "the sidecar is not running and cannot restart while this hook runs; add --fallback-check";
    wait_until("the hook detects that the sidecar is not running", || scene.termination_message().contains(message));
    // When the sidecar runs again, the hook waits for `db` again.
    scene.start_sidecar();
    wait_until("the hook detects that the sidecar runs again", || !scene.termination_message().contains("dead"));
    scene.set_state("db", State::Ready);
    hook.wait().assert_released();
}

/// The hook kills a fallback check that still runs when the sidecar starts again. After that kill, the hook must not
/// spin.
#[test]
fn fallback_check_is_killed_when_the_sidecar_returns() {
    let mut scene = Scene::with_sidecar();
    let pid = scene.root.join("pid");
    let script = format!("echo $$ > {}; exec sleep 600", pid.display());
    let url = format!("exec:{}", serde_json::to_string(&["sh", "-c", &script]).unwrap());
    let hook = scene.hook().flag("fallback-check", &url).flag("check-timeout", "1h").spawn_waiting();
    scene.kill_sidecar();
    wait_until("the fallback check runs", || std::fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n')));
    scene.start_sidecar();
    let pid = std::fs::read_to_string(pid).unwrap();
    wait_until("the fallback check is killed", || !Path::new(&format!("/proc/{}", pid.trim())).exists());
    let before = hook.sleep_count();
    std::thread::sleep(Duration::from_millis(300));
    assert!(hook.sleep_count() - before <= 3, "{} wake-ups", hook.sleep_count() - before);
    scene.set_state("db", State::Ready);
    hook.wait().assert_released();
}
